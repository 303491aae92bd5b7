//! `[[issuer]]`: the issuers whose tokens are accepted, and the sources of their keys.

use std::net::IpAddr;

use base::limits;
use jose::Algorithm;
use model::{IssuerSettings, KeySource, Place};

use super::Outside;
use super::secret;
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
            allow_unlimited: table.flag("allow_unlimited", false, report),
        };
        issuers.push(issuer); // If a part is missing, that is an error, and the settings are not used.
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
        let message = format!("duplicate issuer: another one has the {key} `{}`", shorten(text));
        report.error(place, message, format!("each issuer needs its own `{key}`"));
    }
    before.push(text);
}

fn algorithms(table: &Table<'_>, report: &mut Report) -> Vec<Algorithm> {
    let mut found = Vec::new();
    for (text, place) in table.texts("algorithms", report).unwrap_or_default() {
        match text.parse::<Algorithm>() {
            Ok(algorithm) if found.contains(&algorithm) => {
                report.warning(place, format!("duplicate algorithm `{text}`"), "remove it");
            }
            Ok(algorithm) => found.push(algorithm),
            Err(_) => {
                let names = || Algorithm::ALL.iter().map(|algorithm| algorithm.as_str());
                let help = suggest(text, names(), || format!("write {}", one_of(names())));
                report.error(place, format!("unsupported algorithm `{}`", shorten(text)), help);
            }
        }
    }
    found
}

/// Exactly one of `jwks`, `pem` and `secret`, and only algorithms that match it: a public key must
/// never be used as a shared secret. Source: RFC 8725 sections 2.1 and 3.1.
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
            "[[issuer]] has more than one source of keys"
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
            format!("algorithm `{name}` cannot be used with `{source}`"),
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

/// A file, or an https URL. http is allowed for loopback only: whoever can modify the response in
/// transit can sign tokens.
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
            let message = "keys fetched over http can be replaced in transit";
            report.error(
                place,
                message,
                "use https://; http is allowed only for 127.0.0.1, ::1 and localhost",
            );
            None
        }
        Ok(_) => Some(KeySource::JwksUrl(text.to_owned())),
    }
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// A secret that is long enough for `algorithms`.
fn secret(
    table: &Table<'_>,
    algorithms: &[Algorithm],
    outside: &Outside<'_>,
    report: &mut Report,
) -> Option<KeySource> {
    let place = table.get("secret").map(|item| item.place);
    if algorithms.is_empty() {
        report.error(table.place, "`secret` needs `algorithms`", "add `algorithms = [\"HS256\"]`");
    }
    let bytes = secret::read(table, "secret", "issuer.secret", outside, report)?;
    let least = algorithms.iter().map(|algorithm| bytes_min(*algorithm)).max().unwrap_or(0);
    if bytes.len() < least {
        let message =
            format!("the secret is shorter than the {least} bytes that its algorithm needs");
        report.error(
            place,
            message,
            "generate a longer one, for example with `openssl rand -base64 64`",
        );
        return None;
    }
    Some(KeySource::Secret(bytes))
}

/// At least the length of the hash. Source: RFC 7518 section 3.2.
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
