//! Secrets, which are never in the file itself.

use super::Outside;
use super::table::Table;
use crate::report::{Report, shorten};

/// `{ env = "NAME" }` or `{ file = "path" }` under `key`, whose keys the manual lists under `name`. A trailing newline
/// in the file is not part of the secret.
pub(super) fn read(
    table: &Table<'_>,
    key: &str,
    name: &'static str,
    outside: &Outside<'_>,
    report: &mut Report,
) -> Option<Vec<u8>> {
    let place = table.get(key).map(|item| item.place);
    let inner = table.section(key, name, report);
    if !inner.is_present() {
        return None;
    }
    match (inner.text("env", report), inner.text("file", report)) {
        (Some((name, place)), None) => {
            let value = (outside.env)(name);
            if value.is_none() {
                let message = format!("the environment variable `{}` is not set", shorten(name));
                report.error(place, message, "set it before starting Penstock");
            }
            value.map(String::into_bytes)
        }
        (None, Some((name, place))) => match (outside.read_file)(&outside.path(name)) {
            Ok(bytes) => Some(without_newline(bytes)),
            Err(error) => {
                let message = format!("the secret in `{}`: {error}", shorten(name));
                report.error(place, message, "correct the path or its permissions");
                None
            }
        },
        (Some(_), Some(_)) => {
            let message = format!("`{key}` has both `env` and `file`");
            report.error(place, message, "remove one of them");
            None
        }
        (None, None) => {
            let message = format!("`{key}` needs either `env` or `file`");
            report.error(place, message, "write { env = \"NAME\" } or { file = \"path\" }");
            None
        }
    }
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
