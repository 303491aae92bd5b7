//! Names, expressions, patterns and attribute value templates of a sheet.

use std::cell::RefCell;

use xml::{Node, Position};
use xpath::{ExpandedName, Expression, FunctionId, Pattern, StaticContext, VariableId};

use super::{Compiled, Compiler};
use crate::error::CompileError;
use crate::functions;
use crate::is_out;
use crate::load::{place, said};
use crate::program::{Avt, GLOBAL, Name, Op, Quick, Scope, Select};

/// What an expression in the sheet may use.
struct Names<'c, 't> {
    compiler: &'c Compiler<'t>,
    node: Node<'t>,
    variables: bool,
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
        let local = self.compiler.scope.iter().rev().find(|(known, _)| known == name);
        if let Some((_, slot)) = local {
            return Some(VariableId(*slot));
        }
        self.compiler.global_names.get(name).map(|(index, _)| VariableId(index | GLOBAL))
    }

    fn function(&self, name: &ExpandedName, arguments: usize) -> Option<FunctionId> {
        let compiler = self.compiler;
        let scope = || number_of(&compiler.scopes, self.scope());
        functions::find(name, arguments, scope, || number_of(&compiler.missing, name.clone()))
    }
}

impl Names<'_, '_> {
    fn scope(&self) -> Scope {
        let mut bindings: Vec<(String, String)> = self
            .node
            .namespaces_in_scope()
            .map(|(prefix, uri)| (prefix.to_owned(), uri.to_owned()))
            .collect();
        bindings.sort();
        Scope { bindings, uri: self.compiler.uri.clone() }
    }
}

/// The place of a thing among those known, to which it is added.
fn number_of<T: PartialEq>(known: &RefCell<Vec<T>>, thing: T) -> u32 {
    let mut known = known.borrow_mut();
    let place = known.iter().rposition(|other| *other == thing).unwrap_or(known.len());
    if place == known.len() {
        known.push(thing);
    }
    u32::try_from(place).unwrap_or(u32::MAX)
}

impl<'t> Compiler<'t> {
    pub(super) fn emit(&mut self, op: Op) -> usize {
        self.ops.push(op);
        self.places.push(self.place.clone());
        self.ops.len().saturating_sub(1)
    }

    pub(super) fn refuse(&self, node: Node<'_>, message: impl Into<String>) -> CompileError {
        place(node, &self.uri).refuse(message)
    }

    pub(super) fn required(&self, node: Node<'t>, attribute: &str) -> Compiled<&'t str> {
        said(node, attribute).ok_or_else(|| {
            self.refuse(node, format!("`xsl:{}` needs `{attribute}`", node.local_name()))
        })
    }

    /// An error in the expression of an attribute, at its own place where that can be told.
    fn wrong(&self, node: Node<'t>, attribute: &str, error: &xpath::CompileError) -> CompileError {
        let found = node.attributes().find(|a| a.local_name() == attribute);
        let Some(found) = found.filter(|a| a.text().contains(|c: char| c != '\n')) else {
            return self.refuse(node, error.message.clone());
        };
        let mut place = place(found, &self.uri);
        let within = Position::of(found.text(), error.offset);
        if within.line == 1 && place.line > 0 {
            place.column = place.column.saturating_add(within.column).saturating_sub(1);
        }
        place.refuse(format!("in `{}`: {}", found.text(), error.message))
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
        let names = Names { compiler: self, node, variables: true };
        Expression::compile(text, &names).map_err(|error| self.wrong(node, attribute, &error))
    }

    pub(super) fn selection(&self, node: Node<'t>, attribute: &str) -> Compiled<Select> {
        let text = self.required(node, attribute)?;
        self.select_text(node, attribute, text)
    }

    fn select_text(&self, node: Node<'t>, attribute: &str, text: &str) -> Compiled<Select> {
        let expression = self.compile_text(node, attribute, text)?;
        Ok(Select { expression, quick: self.quick(node, text) })
    }

    /// What an expression, which is good, is among the short ones. A name alone is always a child's name.
    fn quick(&self, node: Node<'t>, text: &str) -> Quick {
        let plain: String = text.split([' ', '\t', '\r', '\n']).collect();
        match plain.as_str() {
            "." => return Quick::Itself,
            "node()" => return Quick::Children,
            "@*" => return Quick::Attributes,
            "@*|node()" | "node()|@*" => return Quick::Everything,
            _ => {}
        }
        let text = text.trim_matches([' ', '\t', '\r', '\n']);
        let (attribute, name) = match text.strip_prefix('@') {
            Some(name) => (true, name),
            None => (false, text),
        };
        let Ok(name) = self.expand(node, name) else { return Quick::No };
        let mut asked = self.asked.borrow_mut();
        let known = asked.iter().position(|known| *known == name);
        let Ok(place) = u32::try_from(known.unwrap_or(asked.len())) else { return Quick::No };
        if known.is_none() {
            asked.push(name);
        }
        if attribute { Quick::Attribute(place) } else { Quick::Child(place) }
    }

    pub(super) fn pattern(&self, node: Node<'t>, text: &str) -> Compiled<Pattern> {
        let names = Names { compiler: self, node, variables: true };
        Pattern::compile(text, &names).map_err(|error| self.wrong(node, "match", &error))
    }

    /// What a key matches, and its values; neither may read variables: section 12.2.
    pub(super) fn key_parts(&self, node: Node<'t>) -> Compiled<(Pattern, Expression)> {
        let names = Names { compiler: self, node, variables: false };
        let (pattern, value) = (self.required(node, "match")?, self.required(node, "use")?);
        let pattern = Pattern::compile(pattern, &names);
        let value = Expression::compile(value, &names);
        let pattern = pattern.map_err(|error| self.wrong(node, "match", &error))?;
        Ok((pattern, value.map_err(|error| self.wrong(node, "use", &error))?))
    }

    /// Section 2.4: without a prefix, in no namespace.
    pub(super) fn expand(&self, node: Node<'t>, text: &str) -> Compiled<ExpandedName> {
        let name = self.result_name(node, text.trim(), false)?;
        Ok(ExpandedName::new(name.namespace, name.local))
    }

    pub(super) fn expanded(&self, node: Node<'t>, attribute: &str) -> Compiled<ExpandedName> {
        let text = self.required(node, attribute)?;
        self.expand(node, text)
    }

    pub(super) fn optional_name(
        &self,
        node: Node<'t>,
        attribute: &str,
    ) -> Compiled<Option<ExpandedName>> {
        match said(node, attribute) {
            Some(text) => self.expand(node, text).map(Some),
            None => Ok(None),
        }
    }

    pub(super) fn result_name(&self, node: Node<'t>, text: &str, default: bool) -> Compiled<Name> {
        let (prefix, local) = text.split_once(':').unwrap_or(("", text));
        let good = xml::is_ncname(local) && (!text.contains(':') || xml::is_ncname(prefix));
        if !good {
            return Err(self.refuse(node, format!("`{text}` isn't a name")));
        }
        let namespace = if prefix.is_empty() && !default {
            ""
        } else {
            let found = node.lookup_namespace(prefix);
            found
                .ok_or_else(|| self.refuse(node, format!("the prefix `{prefix}` isn't declared")))?
        };
        Ok(Name {
            prefix: prefix.to_owned(),
            namespace: namespace.to_owned(),
            local: local.to_owned(),
        })
    }

    /// Section 7.6.2.
    pub(super) fn template_text(
        &self,
        node: Node<'t>,
        attribute: &str,
        text: &str,
    ) -> Compiled<Avt> {
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
                    self.refuse(node, format!("in `{text}`: `{{` isn't closed by `}}`"))
                })?;
                let (inside, after) = after.split_at(end);
                if !plain.is_empty() {
                    parts.push(Avt::Text(std::mem::take(&mut plain)));
                }
                parts.push(Avt::Expression(self.select_text(node, attribute, inside)?));
                rest = after.strip_prefix('}').unwrap_or(after);
            } else {
                return Err(self.refuse(node, format!("in `{text}`: write `}}}}` for a `}}`")));
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

/// Where the `}` is that ends the expression; those in literals don't.
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
