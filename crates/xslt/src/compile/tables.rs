//! The elements of XSLT 1.0, and the attributes that each may have.

use xml::{Kind, Node};

use super::{Compiled, Compiler};
use crate::load::{XSL, said};

/// Where an element may stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stands {
    Top,
    Body,
    /// In one certain element, which looks after it.
    Inside,
}

pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) stands: Stands,
    pub(super) attributes: &'static [&'static str],
}

const fn row(name: &'static str, stands: Stands, attributes: &'static [&'static str]) -> Row {
    Row { name, stands, attributes }
}

use Stands::{Body, Inside, Top};

/// Source: XSLT 1.0 appendix B.
#[rustfmt::skip]
pub(crate) const ELEMENTS: &[Row] = &[
    row("apply-imports", Body, &[]),
    row("apply-templates", Body, &["select", "mode"]),
    row("attribute", Body, &["name", "namespace"]),
    row("attribute-set", Top, &["name", "use-attribute-sets"]),
    row("call-template", Body, &["name"]),
    row("choose", Body, &[]),
    row("comment", Body, &[]),
    row("copy", Body, &["use-attribute-sets"]),
    row("copy-of", Body, &["select"]),
    row("decimal-format", Top, &["name", "decimal-separator", "grouping-separator", "infinity",
        "minus-sign", "NaN", "percent", "per-mille", "zero-digit", "digit", "pattern-separator"]),
    row("element", Body, &["name", "namespace", "use-attribute-sets"]),
    row("fallback", Body, &[]),
    row("for-each", Body, &["select"]),
    row("if", Body, &["test"]),
    row("import", Top, &["href"]),
    row("include", Top, &["href"]),
    row("key", Top, &["name", "match", "use"]),
    row("message", Body, &["terminate"]),
    row("namespace-alias", Top, &["stylesheet-prefix", "result-prefix"]),
    row("number", Body, &["level", "count", "from", "value", "format", "lang", "letter-value",
        "grouping-separator", "grouping-size"]),
    row("otherwise", Inside, &[]),
    row("output", Top, &["method", "version", "encoding", "omit-xml-declaration", "standalone",
        "doctype-public", "doctype-system", "cdata-section-elements", "indent", "media-type"]),
    row("param", Inside, &["name", "select"]),
    row("preserve-space", Top, &["elements"]),
    row("processing-instruction", Body, &["name"]),
    row("sort", Inside, &["select", "lang", "data-type", "order", "case-order"]),
    row("strip-space", Top, &["elements"]),
    row("stylesheet", Inside, &["id", "extension-element-prefixes", "exclude-result-prefixes", "version"]),
    row("template", Top, &["match", "name", "priority", "mode"]),
    row("text", Body, &["disable-output-escaping"]),
    row("transform", Inside, &["id", "extension-element-prefixes", "exclude-result-prefixes", "version"]),
    row("value-of", Body, &["select", "disable-output-escaping"]),
    row("variable", Body, &["name", "select"]),
    row("when", Inside, &["test"]),
    row("with-param", Inside, &["name", "select"]),
];

pub(crate) fn find(name: &str) -> Option<&'static Row> {
    ELEMENTS.iter().find(|row| row.name == name)
}

impl<'t> Compiler<'t> {
    /// Nothing that stands on an element of XSLT is passed over.
    pub(super) fn check_attributes(&self, node: Node<'t>) -> Compiled {
        let Some(row) = find(node.local_name()) else { return Ok(()) };
        for attribute in node.attributes() {
            let local = attribute.local_name();
            let known = match attribute.namespace() {
                "" => row.attributes.contains(&local),
                uri => uri != XSL,
            };
            if !known && !super::instruction::forwards(node) {
                let message = format!("`xsl:{}` has no attribute `{local}` in XSLT 1.0", row.name);
                return Err(self.refuse(attribute, message));
            }
        }
        Ok(())
    }

    /// The prefixes that `exclude-result-prefixes` and `extension-element-prefixes` name have to be
    /// declared: sections 7.1.1 and 14.1.
    pub(super) fn check_prefixes(&self, node: Node<'t>) -> Compiled {
        for attribute in ["exclude-result-prefixes", "extension-element-prefixes"] {
            for prefix in said(node, attribute).unwrap_or("").split_whitespace() {
                if prefix != "#default" && node.lookup_namespace(prefix).is_none() {
                    let message = format!("the prefix `{prefix}` in `{attribute}` isn't declared");
                    return Err(self.refuse(node, message));
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
                Err(self.refuse(child, format!("`xsl:{}` has to be empty", node.local_name())))
            }
            None => Ok(()),
        }
    }

    /// `yes` or `no`.
    pub(super) fn yes_no(&self, node: Node<'t>, attribute: &str) -> Compiled<Option<bool>> {
        match said(node, attribute) {
            None => Ok(None),
            Some("yes") => Ok(Some(true)),
            Some("no") => Ok(Some(false)),
            Some(other) => {
                Err(self.refuse(node, format!("`{attribute}` is `yes` or `no`, not `{other}`")))
            }
        }
    }
}
