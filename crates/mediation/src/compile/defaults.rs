//! The sequences `main` and `fault` that every Micro Integrator has, for artefacts that name them and bring none.

use std::path::Path;

use super::Unit;
use crate::syntax::{Compiler, Element, NAMESPACE};

/// The sequences of Micro Integrator, except that `main` sends no requests, and that the body is not logged.
const SEQUENCES: &str = r#"<definitions xmlns="http://ws.apache.org/ns/synapse">
<sequence name="main"><in><log/></in><out><send/></out></sequence>
<sequence name="fault"><log category="ERROR">
  <property name="ERROR_CODE" expression="$ctx:ERROR_CODE"/>
  <property name="ERROR_MESSAGE" expression="$ctx:ERROR_MESSAGE"/>
</log><drop/></sequence>
</definitions>"#;

/// Attributes that name sequences.
const NAMING: [&str; 6] =
    ["sequence", "inSequence", "outSequence", "faultSequence", "onError", "receive"];

pub(super) fn document() -> xml::Document {
    // A test reads it.
    xml::Document::parse(SEQUENCES.as_bytes()).unwrap_or_default()
}

impl Compiler {
    /// The sequences of `document` that `units` name and do not define, with a warning.
    pub(super) fn defaults<'d>(
        &mut self,
        document: &'d xml::Document,
        units: &[Unit<'_>],
    ) -> Vec<Unit<'d>> {
        let mut defaults = Vec::new();
        let all = document.element().into_iter().flat_map(xml::Node::children);
        for node in all.filter(|node| node.is_element()) {
            let name = node.attribute("", "name").unwrap_or_default();
            let is_it = |unit: &Unit<'_>| {
                let is_named = unit.node.attribute("", "name") == Some(name);
                is_named && unit.node.local_name() == "sequence"
            };
            let namer = units.iter().find_map(|unit| Some((unit.file, namer(unit.node, name)?)));
            let Some((file, at)) = namer.filter(|_| !units.iter().any(is_it)) else { continue };
            self.file = file.to_string_lossy().into();
            let message = format!(
                "there is no sequence `{name}`: that of Micro Integrator is used, which logs the message"
            );
            let help = match name {
                "fault" => {
                    "define a sequence `fault` that responds: with this one the client gets the gateway's error"
                }
                _ => {
                    "define a sequence `main`: this one sends responses to the client, and no requests"
                }
            };
            self.warning(&Element::new(at), message, Some(help));
            defaults.push(Unit { file: Path::new("Micro Integrator"), node, key: None });
        }
        defaults
    }
}

/// The first element in `artefact` that names the sequence.
fn namer<'u>(artefact: xml::Node<'u>, name: &str) -> Option<xml::Node<'u>> {
    let mut nodes = std::iter::once(artefact).chain(artefact.descendants());
    nodes.find(|node| names(*node, name))
}

/// Whether an element names the sequence.
fn names(node: xml::Node<'_>, name: &str) -> bool {
    if !node.is_element() || node.namespace() != NAMESPACE {
        return false;
    }
    let is_sequence = node.local_name() == "sequence" || node.local_name().ends_with("Sequence");
    is_sequence && node.attribute("", "key") == Some(name)
        || NAMING.iter().any(|attribute| node.attribute("", attribute) == Some(name))
}
