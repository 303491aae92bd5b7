//! `[[credential]]`: with what the gateway authenticates itself at upstreams.

use std::sync::Arc;

use base::limits::BACKEND_CREDENTIAL_BYTES_MAX;
use model::{AwsCredential, BackendClient, BackendCredential};

use super::table::Table;
use super::{Outside, issuers, secret};
use crate::openapi::cors::is_token;
use crate::report::{Report, shorten};

#[derive(Clone, Copy)]
enum Type {
    Basic,
    ApiKey,
    OAuth2,
    Aws,
}

/// By name.
pub(super) fn read(
    root: &Table<'_>,
    outside: &Outside<'_>,
    report: &mut Report,
) -> Vec<(String, Arc<BackendCredential>)> {
    const TYPES: &[(&str, Type)] = &[
        ("basic", Type::Basic),
        ("api_key", Type::ApiKey),
        ("oauth2", Type::OAuth2),
        ("aws", Type::Aws),
    ];
    let mut all: Vec<(String, Arc<BackendCredential>)> = Vec::new();
    for table in root.sections("credential", "credential", report) {
        required(&table, &["name", "type"], report);
        let name = table.text("name", report);
        let found = match table.choice("type", TYPES, report) {
            Some(Type::Basic) => basic(&table, outside, report),
            Some(Type::ApiKey) => api_key(&table, outside, report),
            Some(Type::OAuth2) => client(&table, outside, report),
            Some(Type::Aws) => aws(&table, outside, report),
            None => None,
        };
        let (Some((name, place)), Some(found)) = (name, found) else { continue };
        if all.iter().any(|(known, _)| known == name) {
            let message = format!("duplicate credential `{}`", shorten(name));
            report.error(place, message, "rename or remove one of them");
        }
        all.push((name.to_owned(), Arc::new(found)));
    }
    all
}

/// Reports those of `keys` that are missing.
fn required(table: &Table<'_>, keys: &[&str], report: &mut Report) {
    for key in keys.iter().filter(|key| table.get(key).is_none()) {
        report.error(table.place, format!("[[credential]] has no `{key}`"), format!("add `{key}`"));
    }
}

fn basic(
    table: &Table<'_>,
    outside: &Outside<'_>,
    report: &mut Report,
) -> Option<BackendCredential> {
    required(table, &["username", "password"], report);
    let password = secret::read(table, "password", "credential.password", outside, report);
    let (username, place) = table.text("username", report)?;
    if username.contains(':') || username.contains(char::is_control) {
        report.error(place, "a name of a user has no colon", "remove it");
    }
    let password = sound(password?, table, "password", report)?;
    Some(BackendCredential::Basic { username: username.to_owned(), password })
}

fn api_key(
    table: &Table<'_>,
    outside: &Outside<'_>,
    report: &mut Report,
) -> Option<BackendCredential> {
    required(table, &["key"], report);
    let key = secret::read(table, "key", "credential.key", outside, report);
    let (header, query) = (table.text("header", report), table.text("query", report));
    let key = sound(key?, table, "key", report)?;
    match (header, query) {
        (Some((name, place)), None) => {
            if !is_token(name) || is_framing(name) {
                let message = format!("the header field `{}` cannot carry a key", shorten(name));
                report.error(place, message, "use another one, such as X-API-Key");
            }
            Some(BackendCredential::Header { name: name.to_owned(), value: key })
        }
        (None, Some((name, _))) => Some(BackendCredential::query(name, &key)),
        (Some(_), Some(_)) | (None, None) => {
            let message = "a credential of type `api_key` needs either `header` or `query`";
            report.error(table.place, message, "write header = \"X-API-Key\"");
            None
        }
    }
}

fn client(
    table: &Table<'_>,
    outside: &Outside<'_>,
    report: &mut Report,
) -> Option<BackendCredential> {
    required(table, &["token_url", "client_id", "client_secret"], report);
    const SECRET: &str = "credential.client_secret";
    let secret = secret::read(table, "client_secret", SECRET, outside, report);
    let scopes = table.texts("scopes", report).unwrap_or_default();
    let (url, place) = table.text("token_url", report)?;
    let is_safe = issuers::fetched_safely(url, place, "secrets sent", report);
    let (client_id, _) = table.text("client_id", report)?;
    let client = BackendClient {
        token_url: url.to_owned(),
        client_id: client_id.to_owned(),
        client_secret: sound(secret?, table, "client_secret", report)?,
        scopes: scopes.into_iter().map(|(scope, _)| scope.to_owned()).collect(),
    };
    is_safe.then(|| BackendCredential::ClientCredentials(Box::new(client)))
}

fn aws(table: &Table<'_>, outside: &Outside<'_>, report: &mut Report) -> Option<BackendCredential> {
    required(table, &["access_key_id", "secret_access_key", "region", "service"], report);
    const SECRET: &str = "credential.secret_access_key";
    const TOKEN: &str = "credential.session_token";
    let secret = secret::read(table, "secret_access_key", SECRET, outside, report);
    let token = secret::read(table, "session_token", TOKEN, outside, report);
    let token = token.map(|token| sound(token, table, "session_token", report));
    let mut text = |key: &str| {
        let (text, place) = table.text(key, report)?;
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if !text.bytes().all(is_part) {
            let message = format!("`{}` cannot be part of a signature", shorten(text));
            report.error(place, message, "write it as AWS does, such as \"eu-central-1\"");
        }
        Some(text.to_owned())
    };
    let [access_key_id, region, service] = ["access_key_id", "region", "service"].map(&mut text);
    let credential = AwsCredential {
        access_key_id: access_key_id?,
        secret_access_key: sound(secret?, table, "secret_access_key", report)?,
        session_token: token.flatten(),
        region: region?,
        service: service?,
    };
    Some(BackendCredential::Aws(Box::new(credential)))
}

/// A secret that can be sent in a header field.
fn sound(secret: Vec<u8>, table: &Table<'_>, key: &str, report: &mut Report) -> Option<Vec<u8>> {
    let is_sound = !secret.is_empty()
        && secret.len() <= BACKEND_CREDENTIAL_BYTES_MAX
        && secret.iter().all(|byte| *byte >= b' ' && *byte != 0x7f);
    if !is_sound {
        let place = table.get(key).map(|item| item.place);
        let message = format!(
            "`{key}` is empty, has control characters, or is longer than {BACKEND_CREDENTIAL_BYTES_MAX} bytes"
        );
        report.error(place, message, "correct the file or variable that has it");
    }
    is_sound.then_some(secret)
}

/// Whether the field belongs to the connection or to the framing.
pub(crate) fn is_framing(name: &str) -> bool {
    const FIELDS: [&str; 9] = [
        "host",
        "connection",
        "content-length",
        "content-type",
        "expect",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ];
    FIELDS.iter().any(|field| name.eq_ignore_ascii_case(field))
}
