//! Synapse artefacts: XML files, the folders of Micro Integrator, and `.car` archives.
//!
//! A file is read on its own; artefacts of several files refer to each other by name, and `mediation` compiles them
//! together. Unsupported artefacts are errors that name the alternative. An archive with an error is rejected as a
//! whole; an error in a file concerns only its artefact, and leaves other artefacts of `definitions` unchanged.
//!
//! Architecture invariant: knows no mediator.

mod application;
mod archive;
mod artefact;
mod documents;
mod parameters;
mod registry;
mod role;
#[cfg(test)]
mod tests;

use std::path::Path;

use model::{ArtefactSet, Diagnostic};

use crate::report::Report;

pub use artefact::place_in;
pub use parameters::Parameter;
pub use role::{Role, enters};

/// The result of reading a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Absent if any diagnostic is an error. Empty if the file holds nothing that is deployed, such as a Maven
    /// project.
    pub set: Option<ArtefactSet>,
    /// The readable part of an archive with errors, in which further errors can be found.
    pub rest: Option<ArtefactSet>,
    pub diagnostics: Vec<Diagnostic>,
}

/// Access to the values, files and URLs that a file refers to.
#[derive(Clone, Copy)]
pub struct Outside<'o> {
    /// The value of a parameter, such as an environment variable.
    pub parameter: &'o dyn Fn(Parameter, &str) -> Option<String>,
    /// Reads a file below the folder of the one that is read. The error is for a diagnostic.
    pub file: &'o dyn Fn(&str) -> Result<Vec<u8>, String>,
    /// Fetches a URL, within limits of time and size. The error is for a diagnostic.
    pub fetch: &'o dyn Fn(&str) -> Result<Vec<u8>, String>,
}

/// Reads `bytes`, the content of `file`, according to its role.
#[must_use]
pub fn read(file: &Path, bytes: &[u8], outside: Outside<'_>) -> Outcome {
    let mut report = Report::new(file);
    let set = match Role::of(file) {
        Some(Role::Archive) => application::read(file, bytes, outside, &mut report),
        Some(Role::Artefact) => artefact::read_file(file, bytes, outside, &mut report),
        Some(Role::Manifest) => registry::manifest(bytes, outside, &mut report),
        Some(Role::Resource(path)) => registry::resource(file, path, bytes, outside),
        Some(Role::Unserved(unserved)) => {
            report.error(None, unserved.message, unserved.help);
            ArtefactSet::default()
        }
        None => {
            let help = "name an XML file, a .car archive or a folder of them";
            report.error(None, "not a Synapse artefact", help);
            ArtefactSet::default()
        }
    };
    let (set, rest) = if report.has_errors() { (None, Some(set)) } else { (Some(set), None) };
    Outcome { set, rest, diagnostics: report.finish(file) }
}

/// Parses XML, and reports an error if it is not well-formed.
fn parse(bytes: &[u8], report: &mut Report) -> Option<xml::Document> {
    match xml::Document::parse(bytes) {
        Ok(document) => Some(document),
        Err(error) => {
            let place = error.position().map(place);
            report.reject(place, format!("invalid XML: {}", error.kind()), "")
        }
    }
}

fn place(position: xml::Position) -> model::Place {
    model::Place { line: position.line, column: position.column }
}

fn place_of(node: xml::Node<'_>) -> model::Place {
    place(node.position())
}

/// The text of the child element `name`; empty if there is none.
fn child_text(node: xml::Node<'_>, name: &str) -> String {
    let child = node.elements().find(|child| child.local_name() == name);
    child.map_or_else(String::new, |child| child.string_value().trim().to_owned())
}
