//! The elements of XSLT 1.0 and their attributes.

use xml::{Kind, Node};

use super::{Compiled, Compiler};
use crate::load::{XSL, attribute};

/// Where an element may occur.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Placement {
    TopLevel,
    /// In the content of templates.
    Body,
    /// In one particular element, which compiles it.
    Nested,
}

pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) placement: Placement,
    pub(super) attributes: &'static [&'static str],
}

const fn row(name: &'static str, placement: Placement, attributes: &'static [&'static str]) -> Row {
    Row { name, placement, attributes }
}

use Placement::{Body, Nested, TopLevel};

/// The elements of XSLT. Source: XSLT 1.0 appendix B.
#[rustfmt::skip]
pub(crate) const ELEMENTS: &[Row] = &[
    row("apply-imports", Body, &[]),
    row("apply-templates", Body, &["select", "mode"]),
    row("attribute", Body, &["name", "namespace"]),
    row("attribute-set", TopLevel, &["name", "use-attribute-sets"]),
    row("call-template", Body, &["name"]),
    row("choose", Body, &[]),
    row("comment", Body, &[]),
    row("copy", Body, &["use-attribute-sets"]),
    row("copy-of", Body, &["select"]),
    row("decimal-format", TopLevel, &["name", "decimal-separator", "grouping-separator", "infinity",
        "minus-sign", "NaN", "percent", "per-mille", "zero-digit", "digit", "pattern-separator"]),
    row("element", Body, &["name", "namespace", "use-attribute-sets"]),
    row("fallback", Body, &[]),
    row("for-each", Body, &["select"]),
    row("if", Body, &["test"]),
    row("import", TopLevel, &["href"]),
    row("include", TopLevel, &["href"]),
    row("key", TopLevel, &["name", "match", "use"]),
    row("message", Body, &["terminate"]),
    row("namespace-alias", TopLevel, &["stylesheet-prefix", "result-prefix"]),
    row("number", Body, &["level", "count", "from", "value", "format", "lang", "letter-value",
        "grouping-separator", "grouping-size"]),
    row("otherwise", Nested, &[]),
    row("output", TopLevel, &["method", "version", "encoding", "omit-xml-declaration", "standalone",
        "doctype-public", "doctype-system", "cdata-section-elements", "indent", "media-type"]),
    row("param", Nested, &["name", "select"]),
    row("preserve-space", TopLevel, &["elements"]),
    row("processing-instruction", Body, &["name"]),
    row("sort", Nested, &["select", "lang", "data-type", "order", "case-order"]),
    row("strip-space", TopLevel, &["elements"]),
    row("stylesheet", Nested, &["id", "extension-element-prefixes", "exclude-result-prefixes", "version"]),
    row("template", TopLevel, &["match", "name", "priority", "mode"]),
    row("text", Body, &["disable-output-escaping"]),
    row("transform", Nested, &["id", "extension-element-prefixes", "exclude-result-prefixes", "version"]),
    row("value-of", Body, &["select", "disable-output-escaping"]),
    row("variable", Body, &["name", "select"]),
    row("when", Nested, &["test"]),
    row("with-param", Nested, &["name", "select"]),
];

pub(crate) fn find(name: &str) -> Option<&'static Row> {
    ELEMENTS.iter().find(|row| row.name == name)
}

impl<'t> Compiler<'t> {
    /// Rejects unknown attributes of XSLT elements.
    pub(super) fn check_attributes(&self, node: Node<'t>) -> Compiled {
        let Some(row) = find(node.local_name()) else { return Ok(()) };
        for attribute in node.attributes() {
            let local = attribute.local_name();
            let known = match attribute.namespace() {
                "" => row.attributes.contains(&local),
                uri => uri != XSL,
            };
            if !known && !super::instruction::is_forwards_compatible(node) {
                let message = format!("`xsl:{}` has no attribute `{local}` in XSLT 1.0", row.name);
                return Err(self.unsupported(attribute, message));
            }
        }
        Ok(())
    }

    /// The prefixes listed in `exclude-result-prefixes` and `extension-element-prefixes` must be declared: sections
    /// 7.1.1 and 14.1.
    pub(super) fn check_prefixes(&self, node: Node<'t>) -> Compiled {
        for name in ["exclude-result-prefixes", "extension-element-prefixes"] {
            for prefix in attribute(node, name).unwrap_or("").split_whitespace() {
                if prefix != "#default" && node.lookup_namespace(prefix).is_none() {
                    let message = format!("the prefix `{prefix}` in `{name}` is not declared");
                    return Err(self.invalid(node, message));
                }
            }
        }
        Ok(())
    }

    pub(super) fn check_empty(&self, node: Node<'t>) -> Compiled {
        match node.children().find(|child| {
            child.is_element() || (child.kind() == Kind::Text && !child.text().trim().is_empty())
        }) {
            Some(child) => {
                Err(self.invalid(child, format!("`xsl:{}` must be empty", node.local_name())))
            }
            None => Ok(()),
        }
    }

    pub(super) fn yes_no(&self, node: Node<'t>, name: &str) -> Compiled<Option<bool>> {
        match attribute(node, name) {
            None => Ok(None),
            Some("yes") => Ok(Some(true)),
            Some("no") => Ok(Some(false)),
            Some(other) => {
                Err(self.invalid(node, format!("`{name}` must be `yes` or `no`, not `{other}`")))
            }
        }
    }
}
