//! Documents that artefacts name by URL or file, read together with the artefact.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::limits;

use crate::report::{Report, shorten};

use super::artefact::NAMESPACE;
use super::{Outside, place_of};

/// The elements and attributes that name documents, and whether the artefact needs them.
const NAMING: [(&str, &str, bool); 3] =
    [("localEntry", "src", true), ("publishWSDL", "uri", false), ("wsdl", "uri", true)];

pub(super) fn read(
    document: &xml::Document,
    outside: Outside<'_>,
    report: &mut Report,
) -> BTreeMap<String, Arc<[u8]>> {
    let mut found = BTreeMap::new();
    let mut tried = 0_usize;
    for node in document.root().descendants().filter(|node| node.is_element()) {
        let is_it = |name: &str| node.namespace() == NAMESPACE && node.local_name() == name;
        let Some((_, attribute, is_needed)) = NAMING.iter().find(|(name, ..)| is_it(name)) else {
            continue;
        };
        let Some(uri) = node.attribute("", attribute).map(str::trim) else { continue };
        if found.contains_key(uri) {
            continue;
        }
        tried = tried.saturating_add(1);
        if tried > limits::ARTEFACT_DOCUMENTS_MAX {
            let most = limits::ARTEFACT_DOCUMENTS_MAX;
            let message = format!("more than {most} documents by URL or file");
            report.error(place_of(node), message, "split the file");
            break;
        }
        let is_url = uri.starts_with("http://") || uri.starts_with("https://");
        let read = if is_url {
            (outside.fetch)(uri)
        } else {
            (outside.file)(uri.strip_prefix("file:").unwrap_or(uri))
        };
        match read {
            Ok(bytes) => drop(found.insert(uri.to_owned(), bytes.into())),
            Err(problem) => {
                let message = format!("`{}`: {problem}", shorten(uri));
                let help = "correct the address, or write the document into the artefact";
                if *is_needed {
                    report.error(place_of(node), message, help);
                } else {
                    report.warning(place_of(node), message, help);
                }
            }
        }
    }
    found
}
