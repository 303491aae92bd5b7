//! Synapse's configuration language: how elements are read.
//!
//! A [`Compiler`] holds the program as far as it is compiled, the names that artefacts have declared, and diagnostics.
//! A mediator reads its [`Element`] with it: attributes, expressions, sequences and endpoints inside. Steps are
//! compiled by the table of mediators that the compiler was given ([`Row`]), so that nothing here depends on a
//! mediator. The module `compile` reads whole artefacts.

mod artefact;
mod compiler;
mod element;
mod endpoint;
mod entry;
mod expression_help;
mod steps;

use std::borrow::Cow;
use std::collections::BTreeSet;

use crate::program::Mediator;
pub use compiler::Compiler;
pub(crate) use compiler::Reported;
pub use element::Element;

/// Synapse's configuration language.
pub const NAMESPACE: &str = "http://ws.apache.org/ns/synapse";

/// A mediator's element, and its constructor.
#[derive(Debug)]
pub struct Row {
    /// The element's local name.
    pub element: &'static str,
    /// Compiles the element. `None` if an error was reported.
    pub compile: fn(&mut Compiler, &Element<'_>) -> Option<Box<dyn Mediator>>,
    /// Description, after "it".
    pub about: &'static str,
    /// Its attributes and child elements.
    pub attributes: &'static str,
    /// Differences from Micro Integrator.
    pub differs: &'static str,
}

/// A name of a sequence, an endpoint or a template; of one in the registry, its path there.
pub(crate) fn in_registry_or(name: &str) -> Cow<'_, str> {
    model::resource_path(name).map_or(Cow::Borrowed(name), Cow::Owned)
}

/// `node`, of an artefact, as a document of its own. It declares the namespaces around it whose prefixes occur in it:
/// as in Micro Integrator, nodes inserted into it do not come into the namespace of the artefact.
#[must_use]
pub fn serialise(node: xml::Node<'_>) -> Vec<u8> {
    // The text before each colon: a prefix, or a longer name that ends with it.
    let mut mentioned = BTreeSet::new();
    for part in std::iter::once(node).chain(node.descendants()) {
        let own = (!part.is_element()).then(|| part.text());
        for before in part
            .attributes()
            .map(xml::Node::text)
            .chain(own)
            .flat_map(|text| text.rsplit(':').skip(1))
        {
            mentioned.extend(before.rsplit(char::is_whitespace).next());
        }
    }
    let keeps = |prefix: &str, uri: &str| {
        node.declarations().any(|declared| declared == (prefix, uri))
            || !prefix.is_empty() && mentioned.iter().any(|name| name.ends_with(prefix))
    };
    let options = xml::WriterOptions { declaration: false, ..Default::default() };
    let written = xml::Writer::new(options).and_then(|mut writer| {
        xml::copy_declaring(node, keeps, &mut writer)?;
        writer.finish()
    });
    written.unwrap_or_default()
}
