//! `x-penstock-client-certificates`: the client certificates that an API accepts.

use std::sync::Arc;

use base::limits::TRUSTED_CLIENTS_MAX;
use model::{ClientTrust, Place, TrustedClients};

use super::refs::Reference;
use super::{Refs, general, values};
use crate::declarative;
use crate::report::{Report, shorten, suggest};
use crate::tree::{Map, Node};

const NAME: &str = "x-penstock-client-certificates";
const KEYS: [&str; 2] = ["production", "sandbox"];

/// A list for all endpoints, or a map with a list for each type. `None` if the API accepts all certificates that the
/// listener accepts.
pub(super) fn read(
    root: &Map<'_>,
    refs: Refs<'_>,
    report: &mut Report,
) -> Option<Arc<ClientTrust>> {
    let member = root.member(NAME)?;
    if !general::has_certificates(root) {
        let message = format!("`{NAME}` has no effect without `x-wso2-mutual-ssl`");
        report.error(member.key_place, message, "write `x-wso2-mutual-ssl: mandatory` as well");
    }
    let Some(map) = member.value.as_map() else {
        let all = list(&member.value, NAME, refs, report);
        return Some(Arc::new(ClientTrust { production: all.clone(), sandbox: all }));
    };
    for member in map.iter().filter(|member| !KEYS.contains(&member.key.as_ref())) {
        let message = format!("unknown key `{}` in `{NAME}`", shorten(&member.key));
        report.error(member.key_place, message, suggest(&member.key, KEYS, || "remove it".into()));
    }
    let [production, sandbox] =
        KEYS.map(|key| map.get(key).map(|node| list(node, key, refs, report)).unwrap_or_default());
    Some(Arc::new(ClientTrust { production, sandbox }))
}

fn list(node: &Node<'_>, name: &str, refs: Refs<'_>, report: &mut Report) -> TrustedClients {
    let mut found = TrustedClients::default();
    for (text, place) in values::texts(node, name, report).unwrap_or_default() {
        match text.strip_prefix("sha256:") {
            Some(digits) => found.hashes.extend(hash(digits, place, report)),
            None => found.issuers.extend(certificates(text, place, refs, report)),
        }
    }
    found.hashes.extend(found.issuers.iter().map(|der| jose::sha256(der)));
    if !(1..=TRUSTED_CLIENTS_MAX).contains(&found.hashes.len()) && !report.has_errors() {
        let message = format!("`{name}` must list 1 to {TRUSTED_CLIENTS_MAX} certificates");
        let help = "list some; to accept those of a CA, list the certificate of the CA";
        report.error(node.place, message, help);
    }
    found
}

/// The fingerprint of a certificate, which may have the colons that openssl prints.
fn hash(digits: &str, place: Place, report: &mut Report) -> Option<[u8; 32]> {
    let found = declarative::sha256(&digits.replace(':', ""));
    if found.is_none() {
        let help = "write `sha256:` and what `openssl x509 -noout -fingerprint -sha256` prints";
        report.error(place, format!("`{}` is not a SHA-256 hash", shorten(digits)), help);
    }
    found
}

/// The certificates of a PEM file in the folder of the description or below.
fn certificates(text: &str, place: Place, refs: Refs<'_>, report: &mut Report) -> Vec<Vec<u8>> {
    let file = match Reference::read(text, None) {
        Ok(Reference { file: Some(file), pointer }) if pointer.is_empty() => file,
        Ok(_) => {
            let help = "write the path of a PEM file, or `sha256:` and a fingerprint";
            report.error(place, format!("`{}` is not a path", shorten(text)), help);
            return Vec::new();
        }
        Err((message, help)) => {
            report.error(place, message, help);
            return Vec::new();
        }
    };
    let read = refs(&file);
    let read = read.and_then(|pem| jose::certificates(&pem).map_err(|error| error.to_string()));
    read.unwrap_or_else(|problem| {
        let help = "write the path of a file with PEM certificates, relative to this one";
        report.error(place, format!("`{}`: {problem}", shorten(text)), help);
        Vec::new()
    })
}
