//! Secrets, which are never in the file itself.

use model::{Place, VaultField};

use super::Outside;
use super::table::Table;
use crate::report::{Report, shorten};

/// A secret that may be in Vault.
pub(super) enum Secret {
    Known(Vec<u8>),
    /// A secret that was not read from Vault yet.
    Unread,
}

/// `{ env = "NAME" }` or `{ file = "path" }` under `key`, whose keys the manual lists under `name`. A trailing newline
/// in the file is not part of the secret.
pub(super) fn read(
    table: &Table<'_>,
    key: &str,
    name: &'static str,
    outside: &Outside<'_>,
    report: &mut Report,
) -> Option<Vec<u8>> {
    match read_anywhere(table, key, name, outside, report)? {
        Secret::Known(secret) => Some(secret),
        // The manual has no key `vault` under this name.
        Secret::Unread => None,
    }
}

/// As [`read`], or `{ vault = "PATH#FIELD" }` if the manual lists it.
pub(super) fn read_anywhere(
    table: &Table<'_>,
    key: &str,
    name: &'static str,
    outside: &Outside<'_>,
    report: &mut Report,
) -> Option<Secret> {
    let place = table.get(key).map(|item| item.place);
    let inner = table.section(key, name, report);
    if !inner.is_present() {
        return None;
    }
    let sources = ["env", "file", "vault"];
    match sources.map(|source| inner.text(source, report)) {
        [Some((name, place)), None, None] => {
            let value = (outside.env)(name);
            if value.is_none() {
                let message = format!("the environment variable `{}` is not set", shorten(name));
                report.error(place, message, "set it before starting Penstock");
            }
            value.map(|value| Secret::Known(value.into_bytes()))
        }
        [None, Some((name, place)), None] => match (outside.read_file)(&outside.path(name)) {
            Ok(bytes) => Some(Secret::Known(without_newline(bytes))),
            Err(error) => {
                let message = format!("the secret in `{}`: {error}", shorten(name));
                report.reject(place, message, "correct the path or its permissions")
            }
        },
        [None, None, Some((written, place))] => in_vault(written, place, outside, report),
        [None, None, None] => {
            let message = format!("`{key}` needs either `env` or `file`");
            report.reject(place, message, "write { env = \"NAME\" } or { file = \"path\" }")
        }
        _ => {
            let message = format!("`{key}` has several sources");
            report.reject(place, message, "remove all but one of them")
        }
    }
}

fn in_vault(
    written: &str,
    place: Place,
    outside: &Outside<'_>,
    report: &mut Report,
) -> Option<Secret> {
    let is_part =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/');
    let is_path = |path: &str| {
        path.bytes().all(is_part)
            && path.split('/').all(|segment| !matches!(segment, "" | "." | ".."))
    };
    let Some((path, field)) =
        written.split_once('#').filter(|(path, field)| is_path(path) && !field.is_empty())
    else {
        let message = format!("`{}` is not a path and a field", shorten(written));
        return report.reject(place, message, "write them as in \"secret/data/orders#password\"");
    };
    let wanted = VaultField { path: path.to_owned(), field: field.to_owned() };
    let known = (outside.vault)(&wanted);
    outside.wanted.borrow_mut().insert(wanted);
    Some(known.map_or(Secret::Unread, Secret::Known))
}

fn without_newline(mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
        if bytes.last() == Some(&b'\r') {
            bytes.pop();
        }
    }
    bytes
}
