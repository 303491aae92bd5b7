//! Literal result elements, and the names and namespaces of result nodes: sections 7.1 and 2.4.

use xml::{Node, XML_NAMESPACE};

use super::instruction::is_forwards_compatible;
use super::{Compiled, Compiler};
use crate::load::{XSL, attribute, is_xsl};
use crate::program::{Avt, Literal, Name, Op, ResultName};

impl<'t> Compiler<'t> {
    /// Returns the numbers of the attribute sets.
    pub(super) fn use_sets(&mut self, node: Node<'t>, in_copy: bool) -> Compiled<Vec<u32>> {
        let mut used = Vec::new();
        let names = attribute(node, "use-attribute-sets").unwrap_or("");
        for name in names.split_whitespace() {
            let name = self.expand(node, name)?;
            let Some(set) = self.set_names.get(&name).copied() else {
                return Err(self.invalid(node, format!("unknown attribute set `{name}`")));
            };
            self.emit(Op::CallSet { set, in_copy });
            used.extend(u32::try_from(set));
        }
        Ok(used)
    }

    pub(super) fn computed_name(&mut self, node: Node<'t>, element: bool) -> Compiled<ResultName> {
        let text = self.required(node, "name")?;
        let name = self.avt(node, "name", text)?;
        let namespace = match attribute(node, "namespace") {
            Some(text) => Some(self.avt(node, "namespace", text)?),
            None => None,
        };
        if let (Avt::Text(text), None) = (&name, &namespace) {
            let name = self.qname(node, text, element)?;
            if !element && name.prefix.is_empty() && name.local == "xmlns" {
                return Err(self.invalid(node, "an attribute cannot be named `xmlns`"));
            }
            return Ok(ResultName::Fixed(name));
        }
        let bindings =
            node.namespaces_in_scope().filter(|(prefix, _)| element || !prefix.is_empty());
        let scope: Vec<_> =
            bindings.map(|(prefix, uri)| (prefix.to_owned(), uri.to_owned())).collect();
        self.count_namespaces(&scope);
        Ok(ResultName::Computed { name, namespace, scope })
    }

    /// A literal result element: section 7.1.1.
    pub(super) fn literal(&mut self, node: Node<'t>) -> Compiled {
        self.check_prefixes(node)?;
        let name = self.aliased(node);
        let namespaces =
            if self.inherits_namespaces(node) { Vec::new() } else { self.literal_namespaces(node) };
        self.emit(Op::Literal(Box::new(Literal { name, namespaces })));
        _ = self.use_sets(node, false)?;
        for attribute in node.attributes() {
            if attribute.namespace() == XSL {
                let local = attribute.local_name();
                if LATER_ATTRIBUTES.contains(&local) && !is_forwards_compatible(node) {
                    let message = format!("`xsl:{local}` is not an attribute of XSLT 1.0");
                    return Err(self.unsupported(attribute, message));
                }
                continue;
            }
            let value = self.avt(node, attribute.local_name(), attribute.text())?;
            let name = self.aliased(attribute);
            self.emit(Op::Attribute(Box::new((name, value))));
        }
        self.sequence(node, &[])?;
        self.emit(Op::EndElement);
        Ok(())
    }

    fn aliased(&self, node: Node<'t>) -> Name {
        let unaliased = (node.prefix().to_owned(), node.namespace().to_owned());
        let known = self.aliases.get(node.namespace()).cloned();
        let (prefix, namespace) = known
            .filter(|_| node.is_element() || !node.namespace().is_empty())
            .unwrap_or(unaliased);
        Name { prefix, namespace, local: node.local_name().to_owned() }
    }

    fn literal_namespaces(&self, node: Node<'t>) -> Vec<(String, String)> {
        let excluded: Vec<&str> = listed(node, "exclude-result-prefixes")
            .chain(listed(node, "extension-element-prefixes"))
            .collect();
        let mut found: Vec<(String, String)> = Vec::new();
        for (prefix, uri) in node.namespaces_in_scope() {
            if uri == XML_NAMESPACE || uri == XSL || excluded.contains(&uri) {
                continue;
            }
            let (prefix, uri) = match self.aliases.get(uri) {
                Some((prefix, uri)) => (prefix.as_str(), uri.as_str()),
                None => (prefix, uri),
            };
            if !found.iter().any(|(known, _)| known == prefix) && !uri.is_empty() {
                found.push((prefix.to_owned(), uri.to_owned()));
            }
        }
        found.reverse();
        self.count_namespaces(&found);
        found
    }

    /// Whether an enclosing literal element has the same namespaces, with only control flow in between.
    fn inherits_namespaces(&self, node: Node<'t>) -> bool {
        let mut at = node;
        loop {
            let own = at.declarations().next().is_some()
                || at.attribute(XSL, "exclude-result-prefixes").is_some()
                || at.attribute("", "exclude-result-prefixes").is_some() && at.namespace() == XSL
                || at.attribute(XSL, "extension-element-prefixes").is_some();
            let Some(parent) = at.parent().filter(|_| !own) else { return false };
            let flow = ["if", "choose", "when", "otherwise", "for-each"];
            match parent.namespace() {
                XSL if flow.contains(&parent.local_name()) => at = parent,
                XSL => return false,
                _ => return parent.is_element() && !self.is_extension(parent),
            }
        }
    }
}

/// Attributes that XSLT 2.0 and 3.0 define for literal result elements, where ignoring them would change the result.
/// Other attributes in the XSLT namespace have no effect.
#[rustfmt::skip]
const LATER_ATTRIBUTES: &[&str] = &[
    "default-collation", "default-mode", "default-validation", "expand-text", "inherit-namespaces", "type", "use-when",
    "validation", "xpath-default-namespace",
];

/// Literal elements and the outermost element of a stylesheet: sections 7.1.1 and 14.1.
fn may_list(node: Node<'_>) -> bool {
    let is_sheet = || is_xsl(node, "stylesheet") || is_xsl(node, "transform");
    node.is_element() && (node.namespace() != XSL || is_sheet())
}

/// The namespaces whose prefixes are listed in the attribute `name` of this element and its ancestors.
pub(super) fn listed<'t>(node: Node<'t>, name: &'static str) -> impl Iterator<Item = &'t str> {
    let here = std::iter::once(node).chain(node.ancestors());
    here.filter(|at| may_list(*at)).flat_map(move |at| {
        let prefixes = attribute(at, name).unwrap_or("").split_whitespace();
        prefixes.filter_map(move |prefix| {
            at.lookup_namespace(if prefix == "#default" { "" } else { prefix })
        })
    })
}
