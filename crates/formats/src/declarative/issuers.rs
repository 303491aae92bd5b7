//! `[[issuer]]`: whose tokens are accepted, and where their keys come from.

use std::net::IpAddr;

use base::limits;
use jose::Algorithm;
use model::{IssuerSettings, KeySource, Place};

use super::Outside;
use super::table::Table;
use crate::report::{Report, one_of, shorten, suggest};

pub(super) fn read(
    root: &Table<'_>,
    outside: &Outside<'_>,
    report: &mut Report,
) -> Vec<IssuerSettings> {
    let mut issuers: Vec<IssuerSettings> = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    let mut claims: Vec<&str> = Vec::new();
    for table in root.sections("issuer", "issuer", report) {
        let name = required(&table, "name", report);
        let iss = required(&table, "iss", report);
        unique(name, &mut names, "name", report);
        unique(iss, &mut claims, "iss", report);
        let algorithms = algorithms(&table, report);
        let keys = keys(&table, &algorithms, outside, report);
        let audiences = table.texts("audiences", report).unwrap_or_default();
        let issuer = IssuerSettings {
            name: name.map_or_else(String::new, |(text, _)| text.to_owned()),
            iss: iss.map_or_else(String::new, |(text, _)| text.to_owned()),
            keys: keys.unwrap_or(KeySource::Secret(Vec::new())),
            algorithms,
            audiences: audiences.into_iter().map(|(text, _)| text.to_owned()).collect(),
            leeway_s: table.number("leeway_s", 0..=limits::LEEWAY_S_MAX, report).unwrap_or(0),
            padded_segments: table.flag("padded_segments", false, report),
        };
        issuers.push(issuer); // Where a part is missing an error stands, and nothing of this is used.
    }
    issuers
}

fn required<'t>(table: &Table<'t>, key: &str, report: &mut Report) -> Option<(&'t str, Place)> {
    if table.get(key).is_none() {
        report.error(
            table.place,
            format!("[[issuer]] has no `{key}`"),
            format!("add `{key} = \"...\"`"),
        );
    }
    table.text(key, report)
}

fn unique<'t>(
    found: Option<(&'t str, Place)>,
    before: &mut Vec<&'t str>,
    key: &str,
    report: &mut Report,
) {
    let Some((text, place)) = found else { return };
    if before.contains(&text) {
        let message = format!("two issuers have the {key} `{}`", shorten(text));
        report.error(place, message, "give each its own");
    }
    before.push(text);
}

fn algorithms(table: &Table<'_>, report: &mut Report) -> Vec<Algorithm> {
    let mut found = Vec::new();
    for (text, place) in table.texts("algorithms", report).unwrap_or_default() {
        match text.parse::<Algorithm>() {
            Ok(algorithm) if found.contains(&algorithm) => {
                report.warning(place, format!("`{text}` stands here twice"), "keep one of them");
            }
            Ok(algorithm) => found.push(algorithm),
            Err(_) => {
                let names = || Algorithm::ALL.iter().map(|algorithm| algorithm.as_str());
                let help = suggest(text, names(), || format!("write {}", one_of(names())));
                report.error(place, format!("`{}` is no signature algorithm", shorten(text)), help);
            }
        }
    }
    found
}

/// Exactly one of `jwks`, `pem` and `secret`, and only algorithms that fit it: a public key must
/// never be taken for a shared secret. Source: RFC 8725 sections 2.1 and 3.1.
fn keys(
    table: &Table<'_>,
    algorithms: &[Algorithm],
    outside: &Outside<'_>,
    report: &mut Report,
) -> Option<KeySource> {
    let given: Vec<&str> =
        ["jwks", "pem", "secret"].into_iter().filter(|key| table.get(key).is_some()).collect();
    let [source] = given.as_slice() else {
        let message = if given.is_empty() {
            "[[issuer]] has no keys"
        } else {
            "[[issuer]] has several sources of keys"
        };
        report.error(table.place, message, "write one of `jwks`, `pem` and `secret`");
        return None;
    };
    let shared = *source == "secret";
    if let Some(misfit) = algorithms.iter().find(|algorithm| is_shared(**algorithm) != shared) {
        let place = table.get("algorithms").map(|item| item.place);
        let (name, help) =
            (misfit.as_str(), if shared { "HS256, HS384 or HS512" } else { "RS256, ES256, ..." });
        report.error(
            place,
            format!("`{name}` does not go with `{source}`"),
            format!("write {help}"),
        );
    }
    match *source {
        "jwks" => jwks(table, outside, report),
        "pem" => table.text("pem", report).map(|(text, _)| KeySource::Pem(outside.path(text))),
        _ => secret(table, algorithms, outside, report),
    }
}

fn is_shared(algorithm: Algorithm) -> bool {
    matches!(algorithm, Algorithm::Hs256 | Algorithm::Hs384 | Algorithm::Hs512)
}

/// A file, or an https URL. http is for loopback only: whoever can change the answer on its way
/// can sign tokens.
fn jwks(table: &Table<'_>, outside: &Outside<'_>, report: &mut Report) -> Option<KeySource> {
    let (text, place) = table.text("jwks", report)?;
    let Some((scheme, _)) = text.split_once("://") else {
        return Some(KeySource::JwksFile(outside.path(text)));
    };
    match crate::address::url_host(text) {
        Err((message, help)) => {
            report.error(place, message, help);
            None
        }
        Ok(host) if scheme.eq_ignore_ascii_case("http") && !is_loopback(&host) => {
            let message = "keys over http can be replaced on their way";
            report.error(
                place,
                message,
                "write https://; http is for 127.0.0.1, ::1 and localhost only",
            );
            None
        }
        Ok(_) => Some(KeySource::JwksUrl(text.to_owned())),
    }
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// `{ env = "NAME" }` or `{ file = "path" }`. A line end at a file's end is not part of the secret.
fn secret(
    table: &Table<'_>,
    algorithms: &[Algorithm],
    outside: &Outside<'_>,
    report: &mut Report,
) -> Option<KeySource> {
    let place = table.get("secret").map(|item| item.place);
    if algorithms.is_empty() {
        report.error(
            table.place,
            "`secret` without `algorithms`",
            "add `algorithms = [\"HS256\"]`",
        );
    }
    let inner = table.section("secret", "issuer.secret", report);
    if !inner.is_present() {
        return None;
    }
    let bytes = match (inner.text("env", report), inner.text("file", report)) {
        (Some((name, place)), None) => match (outside.env)(name) {
            Some(value) => value.into_bytes(),
            None => {
                let message = format!("the environment variable `{}` is not set", shorten(name));
                report.error(place, message, "set it before the start");
                return None;
            }
        },
        (None, Some((name, place))) => match (outside.read_file)(&outside.path(name)) {
            Ok(bytes) => without_line_end(bytes),
            Err(error) => {
                let message =
                    format!("the secret's file `{}` cannot be read: {error}", shorten(name));
                report.error(place, message, "correct the path or its permissions");
                return None;
            }
        },
        (Some(_), Some(_)) => {
            report.error(place, "`secret` has both `env` and `file`", "keep one of them");
            return None;
        }
        (None, None) => {
            report.error(
                place,
                "`secret` says not where it is",
                "write { env = \"NAME\" } or { file = \"path\" }",
            );
            return None;
        }
    };
    let least = algorithms.iter().map(|algorithm| bytes_min(*algorithm)).max().unwrap_or(0);
    if bytes.len() < least {
        let message = format!("the secret has fewer than {least} bytes, so it could be guessed");
        report.error(
            place,
            message,
            "make a longer one, for example with `openssl rand -base64 64`",
        );
        return None;
    }
    Some(KeySource::Secret(bytes))
}

/// Source: RFC 7518 section 3.2: at least as long as the hash.
fn bytes_min(algorithm: Algorithm) -> usize {
    match algorithm {
        Algorithm::Hs256 => 32,
        Algorithm::Hs384 => 48,
        Algorithm::Hs512 => 64,
        Algorithm::Rs256
        | Algorithm::Rs384
        | Algorithm::Rs512
        | Algorithm::Ps256
        | Algorithm::Ps384
        | Algorithm::Ps512
        | Algorithm::Es256
        | Algorithm::Es384
        | Algorithm::Es512
        | Algorithm::EdDsa => 0,
    }
}

fn without_line_end(mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
        if bytes.last() == Some(&b'\r') {
            bytes.pop();
        }
    }
    bytes
}
