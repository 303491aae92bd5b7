//! `[[credential]]`: the gateway's credentials at upstreams.

use std::sync::Arc;

use base::limits::BACKEND_CREDENTIAL_BYTES_MAX;
use model::{AwsCredential, BackendClient, BackendCredential};

use super::secret::Secret;
use super::table::Table;
use super::{Outside, issuers, secret};
use crate::openapi::cors::is_token;
use crate::report::{Report, shorten};

/// Stands for a secret that was not read from Vault yet, while the rest is checked.
const UNREAD: &[u8] = b"unread";

#[derive(Clone, Copy)]
enum Type {
    Basic,
    Digest,
    ApiKey,
    OAuth2,
    Aws,
}

/// The credentials by name.
pub(super) fn read(
    root: &Table<'_>,
    outside: &Outside<'_>,
    report: &mut Report,
) -> Vec<(String, Arc<BackendCredential>)> {
    const TYPES: &[(&str, Type)] = &[
        ("basic", Type::Basic),
        ("digest", Type::Digest),
        ("api_key", Type::ApiKey),
        ("oauth2", Type::OAuth2),
        ("aws", Type::Aws),
    ];
    let mut all: Vec<(String, Arc<BackendCredential>)> = Vec::new();
    for table in root.sections("credential", "credential", report) {
        required(&table, &["name", "type"], report);
        let name = table.text("name", report);
        let mut secrets = Secrets { table: &table, outside, is_unread: false };
        let found = match table.choice("type", TYPES, report) {
            Some(Type::Basic) => {
                let basic = |(username, password)| BackendCredential::Basic { username, password };
                user(&mut secrets, report).map(basic)
            }
            Some(Type::Digest) => {
                let digest =
                    |(username, password)| BackendCredential::Digest { username, password };
                user(&mut secrets, report).map(digest)
            }
            Some(Type::ApiKey) => api_key(&mut secrets, report),
            Some(Type::OAuth2) => client(&mut secrets, report),
            Some(Type::Aws) => aws(&mut secrets, report),
            None => None,
        };
        let (Some((name, place)), Some(found)) = (name, found) else { continue };
        if all.iter().any(|(known, _)| known == name) {
            let message = format!("duplicate credential `{}`", shorten(name));
            report.error(place, message, "rename or remove one of them");
        }
        let is_of_one = found.is_of_one_endpoint();
        let found = if secrets.is_unread { BackendCredential::Unread { is_of_one } } else { found };
        all.push((name.to_owned(), Arc::new(found)));
    }
    all
}

/// The secrets of one credential.
struct Secrets<'a> {
    table: &'a Table<'a>,
    outside: &'a Outside<'a>,
    /// Whether any was not read from Vault yet.
    is_unread: bool,
}

impl Secrets<'_> {
    /// The secret under `key`, which can be sent in a header field. `name` is the name of `key` in the manual.
    fn read(&mut self, key: &str, name: &'static str, report: &mut Report) -> Option<Vec<u8>> {
        match secret::read_anywhere(self.table, key, name, self.outside, report)? {
            Secret::Known(secret) => sound(secret, self.table, key, report),
            Secret::Unread => {
                self.is_unread = true;
                Some(UNREAD.to_vec())
            }
        }
    }
}

/// Reports the missing ones of `keys`.
fn required(table: &Table<'_>, keys: &[&str], report: &mut Report) {
    for key in keys.iter().filter(|key| table.get(key).is_none()) {
        report.error(table.place, format!("[[credential]] has no `{key}`"), format!("add `{key}`"));
    }
}

/// Name and password.
fn user(secrets: &mut Secrets<'_>, report: &mut Report) -> Option<(String, Vec<u8>)> {
    let table = secrets.table;
    required(table, &["username", "password"], report);
    let password = secrets.read("password", "credential.password", report);
    let (username, place) = table.text("username", report)?;
    if username.contains(':') || username.contains(char::is_control) {
        report.error(place, "a name of a user has no colon", "remove it");
    }
    Some((username.to_owned(), password?))
}

fn api_key(secrets: &mut Secrets<'_>, report: &mut Report) -> Option<BackendCredential> {
    let table = secrets.table;
    required(table, &["key"], report);
    let key = secrets.read("key", "credential.key", report);
    let (header, query) = (table.text("header", report), table.text("query", report));
    let key = key?;
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
            report.reject(table.place, message, "write header = \"X-API-Key\"")
        }
    }
}

fn client(secrets: &mut Secrets<'_>, report: &mut Report) -> Option<BackendCredential> {
    let table = secrets.table;
    required(table, &["token_url", "client_id", "client_secret"], report);
    let secret = secrets.read("client_secret", "credential.client_secret", report);
    let scopes = table.texts("scopes", report).unwrap_or_default();
    let (url, place) = table.text("token_url", report)?;
    let is_safe = issuers::fetched_safely(url, place, "secrets sent", report);
    let (client_id, _) = table.text("client_id", report)?;
    let client = BackendClient {
        token_url: url.to_owned(),
        client_id: client_id.to_owned(),
        client_secret: secret?,
        scopes: scopes.into_iter().map(|(scope, _)| scope.to_owned()).collect(),
        ..BackendClient::default()
    };
    is_safe.then(|| BackendCredential::ClientCredentials(Box::new(client)))
}

fn aws(secrets: &mut Secrets<'_>, report: &mut Report) -> Option<BackendCredential> {
    let table = secrets.table;
    required(table, &["access_key_id", "secret_access_key", "region", "service"], report);
    let secret = secrets.read("secret_access_key", "credential.secret_access_key", report);
    let token = secrets.read("session_token", "credential.session_token", report);
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
        secret_access_key: secret?,
        session_token: token,
        region: region?,
        service: service?,
    };
    Some(BackendCredential::Aws(Box::new(credential)))
}

/// Whether a secret can be sent in a header field.
pub(crate) fn is_sound(secret: &[u8]) -> bool {
    !secret.is_empty()
        && secret.len() <= BACKEND_CREDENTIAL_BYTES_MAX
        && secret.iter().all(|byte| *byte >= b' ' && *byte != 0x7f)
}

fn sound(secret: Vec<u8>, table: &Table<'_>, key: &str, report: &mut Report) -> Option<Vec<u8>> {
    let is_sound = is_sound(&secret);
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
