//! Names, expressions, patterns and attribute value templates.

use std::cell::Cell;

use xml::Node;
use xpath::{ExpandedName, Expression, FunctionId, Pattern, StaticContext, VariableId};

use super::{Compiled, Compiler};
use crate::error::{ErrorKind, LoadError, Place};
use crate::functions;
use crate::knock_out::is_out;
use crate::limits;
use crate::load::attribute;
use crate::program::{Avt, GLOBAL, Name, Op, Select, Shortcut, StaticScope};

/// Resolves the names in an expression or pattern.
struct Names<'c, 't> {
    compiler: &'c Compiler<'t>,
    node: Node<'t>,
    variables: bool,
    /// Whether `current()` is allowed, which it isn't in patterns (section 12.4).
    current: bool,
    /// `current()` was rejected.
    rejected_current: Cell<bool>,
}

impl StaticContext for Names<'_, '_> {
    fn namespace(&self, prefix: &str) -> Option<String> {
        let uri = self.node.lookup_namespace(prefix)?;
        (!uri.is_empty()).then(|| uri.to_owned())
    }

    fn variable(&self, name: &ExpandedName) -> Option<VariableId> {
        if !self.variables {
            return None;
        }
        if let Some(slot) = self.compiler.locals.slots.get(name) {
            return Some(VariableId(*slot));
        }
        let (index, _) = self.compiler.global_names.get(name)?;
        self.compiler.referenced.borrow_mut().push(*index);
        Some(VariableId(index | GLOBAL))
    }

    fn function(&self, name: &ExpandedName, arguments: usize) -> Option<FunctionId> {
        if !self.current && name.namespace.is_empty() && name.local == "current" {
            self.rejected_current.set(true);
            return None;
        }
        let compiler = self.compiler;
        let scope = || compiler.scopes.borrow_mut().number(self.scope());
        let unknown = || compiler.unknown_functions.borrow_mut().number(name.clone());
        functions::find(name, arguments, scope, unknown)
    }
}

impl<'c, 't> Names<'c, 't> {
    fn of_expression(compiler: &'c Compiler<'t>, node: Node<'t>) -> Self {
        let rejected_current = Cell::new(false);
        Self { compiler, node, variables: true, current: true, rejected_current }
    }

    fn of_pattern(compiler: &'c Compiler<'t>, node: Node<'t>) -> Self {
        Self { current: false, ..Self::of_expression(compiler, node) }
    }

    fn without_variables(self) -> Self {
        Self { variables: false, ..self }
    }

    fn pattern(&self, attribute: &str, text: &str) -> Compiled<Pattern> {
        Pattern::compile(text, self).map_err(|mut error| {
            if self.rejected_current.get()
                && let xpath::Error::Syntax { message, .. } = &mut error
            {
                "`current()` is not allowed in patterns".clone_into(message);
            }
            self.compiler.expression_error(self.node, attribute, &error)
        })
    }

    fn expression(&self, attribute: &str, text: &str) -> Compiled<Expression> {
        let compiled = Expression::compile(text, self);
        compiled.map_err(|error| self.compiler.expression_error(self.node, attribute, &error))
    }

    fn scope(&self) -> StaticScope {
        let mut bindings: Vec<(String, String)> = self
            .node
            .namespaces_in_scope()
            .map(|(prefix, uri)| (prefix.to_owned(), uri.to_owned()))
            .collect();
        bindings.sort();
        self.compiler.count_namespaces(&bindings);
        StaticScope { bindings, module: self.compiler.module }
    }
}

impl<'t> Compiler<'t> {
    pub(super) fn count_namespaces(&self, bindings: &[(String, String)]) {
        let bytes = |(prefix, uri): &(String, String)| {
            size_of::<(String, String)>().saturating_add(prefix.len()).saturating_add(uri.len())
        };
        let added = bindings.iter().map(bytes).fold(0, usize::saturating_add);
        self.namespace_bytes.set(self.namespace_bytes.get().saturating_add(added));
    }

    pub(super) fn check_namespace_bytes(&self, node: Node<'_>) -> Compiled {
        let max = limits::XSLT_NAMESPACE_BYTES_MAX;
        if self.namespace_bytes.get() <= max {
            return Ok(());
        }
        let message = format!(
            "the namespaces in scope of all elements take more than {max} bytes; \
             declare each where it is used"
        );
        Err(LoadError::at(Place::of(node), ErrorKind::Limit, message))
    }

    pub(super) fn emit(&mut self, op: Op) -> usize {
        self.ops.push(op);
        self.places.push(self.place);
        self.ops.len().saturating_sub(1)
    }

    pub(super) fn invalid(&self, node: Node<'_>, message: impl Into<String>) -> LoadError {
        LoadError::at(Place::of(node), ErrorKind::Invalid, message)
    }

    pub(super) fn unsupported(&self, node: Node<'_>, message: impl Into<String>) -> LoadError {
        LoadError::at(Place::of(node), ErrorKind::Unsupported, message)
    }

    pub(super) fn undeclared_prefix(&self, node: Node<'_>, prefix: &str) -> LoadError {
        self.invalid(node, format!("the prefix `{prefix}` is not declared"))
    }

    pub(super) fn required(&self, node: Node<'t>, name: &str) -> Compiled<&'t str> {
        attribute(node, name).ok_or_else(|| {
            self.invalid(node, format!("`xsl:{}` requires `{name}`", node.local_name()))
        })
    }

    /// An error in the expression in an attribute.
    fn expression_error(&self, node: Node<'t>, attribute: &str, error: &xpath::Error) -> LoadError {
        let found = node.attributes().find(|found| found.local_name() == attribute);
        let Some(found) = found.filter(|found| !found.text().is_empty()) else {
            return self.invalid(node, error.message());
        };
        let message = format!("in `{}`: {}", found.text(), error.message());
        LoadError::at(
            Place::within(found, error.offset().unwrap_or_default()),
            ErrorKind::Invalid,
            message,
        )
    }

    pub(super) fn expression(&self, node: Node<'t>, attribute: &str) -> Compiled<Expression> {
        let text = self.required(node, attribute)?;
        self.compile_text(node, attribute, text)
    }

    pub(super) fn compile_text(
        &self,
        node: Node<'t>,
        attribute: &str,
        text: &str,
    ) -> Compiled<Expression> {
        Names::of_expression(self, node).expression(attribute, text)
    }

    pub(super) fn selection(&self, node: Node<'t>, attribute: &str) -> Compiled<Select> {
        let text = self.required(node, attribute)?;
        self.select_text(node, attribute, text)
    }

    fn select_text(&self, node: Node<'t>, attribute: &str, text: &str) -> Compiled<Select> {
        let expression = self.compile_text(node, attribute, text)?;
        Ok(Select { expression, shortcut: self.shortcut(node, text) })
    }

    /// The shortcut for a valid expression.
    fn shortcut(&self, node: Node<'t>, text: &str) -> Shortcut {
        let plain: String = text.split([' ', '\t', '\r', '\n']).collect();
        match plain.as_str() {
            "." => return Shortcut::Context,
            "node()" => return Shortcut::Children,
            "@*" => return Shortcut::Attributes,
            "@*|node()" | "node()|@*" => return Shortcut::Everything,
            _ => {}
        }
        let text = text.trim_matches([' ', '\t', '\r', '\n']);
        let (attribute, name) = match text.strip_prefix('@') {
            Some(name) => (true, name),
            None => (false, text),
        };
        let Ok(name) = self.expand(node, name) else { return Shortcut::None };
        let number = self.selected.borrow_mut().number(name);
        if attribute { Shortcut::Attribute(number) } else { Shortcut::Child(number) }
    }

    pub(super) fn pattern(&self, node: Node<'t>, attribute: &str, text: &str) -> Compiled<Pattern> {
        Names::of_pattern(self, node).pattern(attribute, text)
    }

    /// Pattern and value of a key; neither may refer to variables: section 12.2.
    pub(super) fn key_parts(&self, node: Node<'t>) -> Compiled<(Pattern, Expression)> {
        let (pattern, value_text) = (self.required(node, "match")?, self.required(node, "use")?);
        let pattern =
            Names::of_pattern(self, node).without_variables().pattern("match", pattern)?;
        let value = Names::of_expression(self, node).without_variables();
        Ok((pattern, value.expression("use", value_text)?))
    }

    /// Expands a QName; without prefix it is in no namespace: section 2.4.
    pub(super) fn expand(&self, node: Node<'t>, text: &str) -> Compiled<ExpandedName> {
        let name = self.qname(node, text.trim(), false)?;
        Ok(ExpandedName::new(name.namespace, name.local))
    }

    pub(super) fn expanded(&self, node: Node<'t>, name: &str) -> Compiled<ExpandedName> {
        let text = self.required(node, name)?;
        self.expand(node, text)
    }

    pub(super) fn optional_name(
        &self,
        node: Node<'t>,
        name: &str,
    ) -> Compiled<Option<ExpandedName>> {
        match attribute(node, name) {
            Some(text) => self.expand(node, text).map(Some),
            None => Ok(None),
        }
    }

    pub(super) fn qname(&self, node: Node<'t>, text: &str, default: bool) -> Compiled<Name> {
        let (prefix, local) = text.split_once(':').unwrap_or(("", text));
        let valid = xml::is_ncname(local) && (!text.contains(':') || xml::is_ncname(prefix));
        if !valid {
            return Err(self.invalid(node, format!("`{text}` is not a valid name")));
        }
        let namespace = if prefix.is_empty() && !default {
            ""
        } else {
            node.lookup_namespace(prefix).ok_or_else(|| self.undeclared_prefix(node, prefix))?
        };
        Ok(Name {
            prefix: prefix.to_owned(),
            namespace: namespace.to_owned(),
            local: local.to_owned(),
        })
    }

    /// An attribute value template: section 7.6.2.
    pub(super) fn avt(&self, node: Node<'t>, attribute: &str, text: &str) -> Compiled<Avt> {
        if is_out(&["attribute value template"]) {
            return Ok(Avt::Text(text.to_owned()));
        }
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            let (before, from) = rest.split_at(at);
            plain.push_str(before);
            if let Some(after) = from.strip_prefix("{{") {
                plain.push('{');
                rest = after;
            } else if let Some(after) = from.strip_prefix("}}") {
                plain.push('}');
                rest = after;
            } else if let Some(after) = from.strip_prefix('{') {
                let end = end_of_expression(after).ok_or_else(|| {
                    self.invalid(node, format!("in `{text}`: `{{` has no matching `}}`"))
                })?;
                let (inside, after) = after.split_at(end);
                if !plain.is_empty() {
                    parts.push(Avt::Text(std::mem::take(&mut plain)));
                }
                parts.push(Avt::Expression(self.select_text(node, attribute, inside)?));
                rest = after.strip_prefix('}').unwrap_or(after);
            } else {
                return Err(
                    self.invalid(node, format!("in `{text}`: write `}}}}` for a literal `}}`"))
                );
            }
        }
        plain.push_str(rest);
        if parts.is_empty() {
            return Ok(Avt::Text(plain));
        }
        if !plain.is_empty() {
            parts.push(Avt::Text(plain));
        }
        if parts.len() == 1
            && let Some(only) = parts.pop()
        {
            return Ok(only);
        }
        Ok(Avt::Parts(parts))
    }
}

/// The offset of the `}` that ends the expression; a `}` in a string literal doesn't.
fn end_of_expression(text: &str) -> Option<usize> {
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if c == '}' => return Some(at),
            None if matches!(c, '"' | '\'') => quote = Some(c),
            None => {}
        }
    }
    None
}
