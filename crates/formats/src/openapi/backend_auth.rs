//! `securityConfig` of an endpoint set: the gateway's credential there. Source: API Microgateway, Choreo Connect, and
//! API Manager's `endpoint_security`.

use std::sync::Arc;

use base::limits::BACKEND_CREDENTIAL_BYTES_MAX;
use model::{BackendAuth, BackendClient, BackendCredential, Place};

use super::cors::is_token;
use super::values;
use crate::address;
use crate::declarative::is_framing;
use crate::report::{Report, one_of, shorten, suggest};
use crate::tree::{Map, Node, Value};

const KEYS: [&str; 13] = [
    "credential",
    "enabled",
    "type",
    "username",
    "password",
    "grantType",
    "tokenUrl",
    "clientId",
    "clientSecret",
    "apiKeyIdentifier",
    "apiKeyIdentifierType",
    "apiKeyValue",
    "customParameters",
];

/// `names` are the names of the configured `[[credential]]`s.
pub(super) fn read(node: &Node<'_>, names: &[String], report: &mut Report) -> Option<BackendAuth> {
    let map = values::map(node, "securityConfig", report)?;
    for member in map.iter().filter(|member| !KEYS.contains(&member.key.as_ref())) {
        let help = suggest(&member.key, KEYS, || format!("the keys are {}", one_of(KEYS)));
        let message = format!("unknown key `{}` in `securityConfig`", shorten(&member.key));
        report.error(member.key_place, message, help);
    }
    let enabled = map.get("enabled").and_then(|node| values::flag(node, "enabled", report));
    if enabled == Some(false) {
        return None;
    }
    if let Some(node) = map.get("credential") {
        let others = map.iter().filter(|other| !matches!(&*other.key, "credential" | "enabled"));
        for other in others {
            let message = format!("`{}` has no effect beside `credential`", other.key);
            report.error(other.key_place, message, "remove one of them");
        }
        let name = values::text(node, "credential", report)?;
        if !names.iter().any(|known| known == name) {
            let names = || names.iter().map(String::as_str);
            let help = suggest(name, names(), || "add it as a [[credential]]".to_owned());
            report.error(node.place, format!("undefined credential `{}`", shorten(name)), help);
        }
        return Some(BackendAuth::Named(name.to_owned()));
    }
    let found = own(map, node, report)?;
    let message = "the secret is in the description itself, which others may read";
    report.warning(node.place, message, "write `securityConfig: {credential: NAME}` instead");
    Some(BackendAuth::Own(Arc::new(found)))
}

fn own(map: &Map<'_>, node: &Node<'_>, report: &mut Report) -> Option<BackendCredential> {
    let Some(of) = map.get("type") else {
        let help = "write `{credential: NAME}`, with a [[credential]] of penstock.toml";
        return report.reject(node.place, "`securityConfig` has no `credential`", help);
    };
    let written = values::text(of, "type", report)?;
    match written.to_ascii_lowercase().as_str() {
        "none" => None,
        "basic" | "digest" => {
            let place = node.place;
            let (username, password) =
                (text(map, place, "username", report), text(map, place, "password", report));
            let (username, password) = (username?, password?.into_bytes());
            if username.contains(':') {
                report.error(place, "a name of a user has no colon", "remove it");
            }
            Some(match written.eq_ignore_ascii_case("digest") {
                true => BackendCredential::Digest { username, password },
                false => BackendCredential::Basic { username, password },
            })
        }
        "apikey" | "api_key" => api_key(map, node.place, report),
        "oauth" => client(map, node.place, report),
        _ => {
            let message = format!(
                "`securityConfig` of type `{}` is not supported: requests would be forwarded without these credentials",
                shorten(written)
            );
            report.reject(of.place, message, "write basic, digest, apikey or oauth")
        }
    }
}

fn api_key(map: &Map<'_>, place: Place, report: &mut Report) -> Option<BackendCredential> {
    let name = text(map, place, "apiKeyIdentifier", report);
    let key = text(map, place, "apiKeyValue", report);
    let of = map.get("apiKeyIdentifierType");
    let of = of.and_then(|node| Some((values::text(node, "apiKeyIdentifierType", report)?, node)));
    let (name, key) = (name?, key?);
    match of {
        Some((text, _)) if text.eq_ignore_ascii_case("QUERY_PARAMETER") => {
            Some(BackendCredential::query(&name, key.as_bytes()))
        }
        Some((text, node)) if !text.eq_ignore_ascii_case("HEADER") => {
            let message = format!("unknown type of key `{}`", shorten(text));
            report.reject(node.place, message, "write HEADER or QUERY_PARAMETER")
        }
        Some(_) | None if !is_token(&name) || is_framing(&name) => {
            let message = format!("the header field `{}` cannot carry a key", shorten(&name));
            report.reject(place, message, "use another one, such as X-API-Key")
        }
        Some(_) | None => Some(BackendCredential::Header { name, value: key.into_bytes() }),
    }
}

fn client(map: &Map<'_>, place: Place, report: &mut Report) -> Option<BackendCredential> {
    let grant = map.get("grantType");
    let grant = grant.and_then(|node| Some((values::text(node, "grantType", report)?, node.place)));
    if let Some((_, place)) =
        grant.filter(|(grant, _)| !grant.eq_ignore_ascii_case("CLIENT_CREDENTIALS"))
    {
        report.error(place, "the grant type is not supported", "write CLIENT_CREDENTIALS");
    }
    if let Some(member) = map.member("customParameters")
        && !matches!(member.value.value, Value::Null)
        && member.value.as_map().is_none_or(|map| map.iter().next().is_some())
    {
        report.error(member.key_place, "`customParameters` is not supported", "remove it");
    }
    let [token_url, client_id, secret] =
        ["tokenUrl", "clientId", "clientSecret"].map(|key| text(map, place, key, report));
    let (token_url, client_id, secret) = (token_url?, client_id?, secret?);
    match address::is_confidential(&token_url) {
        Ok(true) => {}
        Ok(false) => {
            report.error(place, "secrets sent over http can be read in transit", "use https://")
        }
        Err((message, help)) => report.error(place, message, help),
    }
    Some(BackendCredential::ClientCredentials(Box::new(BackendClient {
        token_url,
        client_id,
        client_secret: secret.into_bytes(),
        ..BackendClient::default()
    })))
}

/// A text that can be sent in a header field.
fn text(map: &Map<'_>, place: Place, key: &str, report: &mut Report) -> Option<String> {
    let Some(node) = map.get(key) else {
        let message = format!("`securityConfig` has no `{key}`");
        return report.reject(place, message, "add it, or write `credential: NAME`");
    };
    let text = values::text(node, key, report)?;
    let is_sound = !text.is_empty()
        && text.len() <= BACKEND_CREDENTIAL_BYTES_MAX
        && !text.contains(char::is_control);
    if !is_sound {
        let message = format!(
            "`{key}` is empty, has control characters, or is longer than {BACKEND_CREDENTIAL_BYTES_MAX} bytes"
        );
        return report.reject(node.place, message, "correct it");
    }
    Some(text.to_owned())
}
