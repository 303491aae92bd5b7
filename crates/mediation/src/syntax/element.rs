//! Reads one element: its attributes, and reports unread ones.

use std::cell::{Cell, RefCell};

use base::names::one_of;
use expression::Expression;

use super::{Compiler, expression_help};

/// Notes of a designer for readers, as an attribute of any element or as a child.
const NOTE: &str = "description";
const IGNORED_CHILDREN: &[&str] = &[NOTE, "comment"];

/// An element under compilation. It notes which attributes and children are read; [`Element::finish`] reports the
/// others.
#[derive(Debug)]
pub struct Element<'d> {
    node: xml::Node<'d>,
    read: RefCell<Vec<&'static str>>,
    children_read: RefCell<Vec<String>>,
    /// Their reader reports unknown ones.
    all_children_read: Cell<bool>,
}

impl<'d> Element<'d> {
    pub(crate) fn new(node: xml::Node<'d>) -> Self {
        Self {
            node,
            read: RefCell::default(),
            children_read: RefCell::default(),
            all_children_read: Cell::default(),
        }
    }

    /// The node itself, for a caller that reads its children.
    pub(crate) fn node(&self) -> xml::Node<'d> {
        self.all_children_read.set(true);
        self.node
    }

    pub(crate) fn position(&self) -> xml::Position {
        self.node.position()
    }

    /// The children, as elements of their own. The caller reports those that it does not know.
    pub(crate) fn children(&self) -> impl Iterator<Item = Self> + use<'d> {
        self.all_children_read.set(true);
        self.node.elements().map(Element::new)
    }

    /// The first child of this name.
    pub(crate) fn child(&self, name: &str) -> Option<Self> {
        self.children_read.borrow_mut().push(name.to_owned());
        let mut children = self.node.elements();
        children.find(|child| child.local_name() == name).map(Self::new)
    }

    pub(crate) fn name(&self) -> &'d str {
        self.node.local_name()
    }

    /// An attribute; it does not count as read.
    pub(crate) fn attribute(&self, name: &str) -> Option<&'d str> {
        self.node.attribute("", name)
    }

    /// Whether there is an attribute or a child of this name; neither counts as read.
    pub(crate) fn has(&self, name: &str) -> bool {
        let is_it = |child: xml::Node<'_>| child.is_element() && child.local_name() == name;
        self.attribute(name).is_some() || self.node.children().any(is_it)
    }

    /// An attribute that may be absent. An empty one counts as absent.
    pub(crate) fn optional(&self, name: &'static str) -> Option<&'d str> {
        self.read.borrow_mut().push(name);
        self.node.attribute("", name).filter(|value| !value.is_empty())
    }

    /// Notes attributes that have no effect here, so that they are not reported.
    pub(crate) fn ignore(&self, names: &[&'static str]) {
        self.read.borrow_mut().extend_from_slice(names);
    }

    /// An attribute that must be present.
    pub(crate) fn required(&self, compiler: &mut Compiler, name: &'static str) -> Option<&'d str> {
        let value = self.optional(name);
        if value.is_none() {
            compiler.error(self, format!("`{}` needs the attribute `{name}`", self.name()), None);
        }
        value
    }

    /// An attribute with one of a few values; the first is the default.
    pub(crate) fn choice<T: Copy>(
        &self,
        compiler: &mut Compiler,
        name: &'static str,
        values: &[(&str, T)],
    ) -> Option<T> {
        let (_, default) = values.first()?;
        let Some(written) = self.optional(name) else { return Some(*default) };
        let found = values.iter().find(|(value, _)| value.eq_ignore_ascii_case(written));
        if found.is_none() {
            let all = values.iter().map(|(value, _)| *value).filter(|value| !value.is_empty());
            let message = format!("unknown value `{written}` of `{name}`");
            compiler.error(self, message, Some(&format!("write {}", one_of(all))));
        }
        found.map(|(_, value)| *value)
    }

    /// `true` or `false`.
    pub(crate) fn flag(
        &self,
        compiler: &mut Compiler,
        name: &'static str,
        default: bool,
    ) -> Option<bool> {
        let (true_, false_) = (("true", true), ("false", false));
        let values = if default { [true_, false_] } else { [false_, true_] };
        self.choice(compiler, name, &values)
    }

    /// A number.
    pub(crate) fn number<T: std::str::FromStr>(
        &self,
        compiler: &mut Compiler,
        name: &'static str,
        default: T,
    ) -> Option<T> {
        let Some(written) = self.optional(name) else { return Some(default) };
        let found = written.trim().parse().ok();
        if found.is_none() {
            let message = format!("`{name}` is `{written}`, not a valid number");
            compiler.error(self, message, None);
        }
        found
    }

    /// An expression in an attribute that may be absent.
    pub(crate) fn expression(
        &self,
        compiler: &mut Compiler,
        name: &'static str,
    ) -> Option<Expression> {
        let source = self.optional(name)?;
        self.compiled(compiler, source)
    }

    /// `source` with the namespaces that are in scope here.
    pub(crate) fn compiled(&self, compiler: &mut Compiler, source: &str) -> Option<Expression> {
        let namespaces: Vec<_> = self
            .node
            .namespaces_in_scope()
            .filter(|(prefix, _)| !prefix.is_empty())
            .map(|(prefix, uri)| (prefix.to_owned(), uri.to_owned()))
            .collect();
        compiler.note_names(source);
        match Expression::compile_with(source, &namespaces) {
            Ok(expression) => Some(expression),
            Err(error) => {
                let help = expression_help::help(source, &error.message());
                compiler.reject(self, format!("in `{source}`: {error}"), help.as_deref())
            }
        }
    }

    /// The expression of a text `{expression}` or `${expression}`; none of any other text.
    #[allow(clippy::option_option, reason = "an error was reported, or there is nothing to report")]
    pub(crate) fn computed(
        &self,
        compiler: &mut Compiler,
        text: &str,
    ) -> Option<Option<Expression>> {
        if text.starts_with("${") {
            return self.compiled(compiler, text).map(Some);
        }
        match text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) {
            Some(inner) => self.compiled(compiler, inner).map(Some),
            None => Some(None),
        }
    }

    /// Warns of `${...}` in a text in which Synapse does not evaluate it.
    pub(crate) fn warn_of_expression(&self, compiler: &mut Compiler, text: &str, help: &str) {
        let mut expressions = text.split("${").skip(1);
        if expressions.any(|inside| !inside.starts_with("configs.")) {
            let message = "`${...}` is not evaluated here".to_owned();
            compiler.warning(self, message, Some(help));
        }
    }

    /// Either the literal `value` or the `expression`; of both, Synapse takes the value.
    pub(crate) fn value_or_expression(&self, compiler: &mut Compiler) -> Option<Expression> {
        let (value, expression) = (self.optional("value"), self.optional("expression"));
        if value.is_some() && expression.is_some() {
            self.counts(compiler, "`value`", "`expression`");
        }
        match (value, expression) {
            (Some(value), _) if value.starts_with("${") => self.compiled(compiler, value),
            (Some(value), _) => Some(Expression::literal(value)),
            (None, Some(source)) => self.compiled(compiler, source),
            (None, None) if self.node.attribute("", "value").is_some() => {
                Some(Expression::literal(""))
            }
            (None, None) => {
                let message = format!("`{}` needs either `value` or `expression`", self.name());
                let help = "write `value=\"...\"` for a text, or `expression=\"...\"` for what is computed";
                compiler.reject(self, message, Some(help))
            }
        }
    }

    /// Warns that of two attributes, or kinds of them, one has no effect.
    pub(crate) fn counts(&self, compiler: &mut Compiler, winner: &str, loser: &str) {
        let message = format!("{loser} has no effect beside {winner}");
        compiler.warning(self, message, Some(&format!("remove {loser}")));
    }

    /// Reports a child that Synapse does not read either; `known` are those that it does.
    pub(crate) fn ignores(&self, compiler: &mut Compiler, child: &Self, known: &[&str]) {
        if !IGNORED_CHILDREN.contains(&child.name()) {
            let nearest = base::names::nearest(child.name(), known.iter().copied());
            self.ignored(compiler, ("child", child.name()), child, nearest);
        }
    }

    /// Synapse looks for known names, and ignores the rest.
    fn ignored(
        &self,
        compiler: &mut Compiler,
        (kind, name): (&str, &str),
        at: &Self,
        nearest: Option<&str>,
    ) {
        let of = self.name();
        let message =
            format!("`{of}` has no {kind} `{name}`: it is ignored, as in Micro Integrator");
        let help = nearest.map(|name| format!("did you mean `{name}`?"));
        compiler.warning(at, message, help.as_deref());
    }

    /// Reports the attributes and children that were not read.
    pub(crate) fn finish(&self, compiler: &mut Compiler) {
        self.finish_children(compiler);
        let read = self.read.borrow();
        for attribute in self.node.attributes() {
            let name = attribute.local_name();
            if attribute.namespace().is_empty() && name != NOTE && !read.contains(&name) {
                let nearest = base::names::nearest(name, read.iter().copied());
                self.ignored(compiler, ("attribute", name), self, nearest);
            }
        }
    }

    fn finish_children(&self, compiler: &mut Compiler) {
        let read = self.children_read.borrow();
        if self.all_children_read.get() {
            return;
        }
        let known: Vec<_> = read.iter().map(String::as_str).collect();
        for child in self.node.elements().map(Element::new) {
            if !known.contains(&child.name()) {
                self.ignores(compiler, &child, &known);
            }
        }
    }
}
