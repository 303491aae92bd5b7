//! `[[issuer]]`: the issuers whose tokens are accepted, and the sources of their keys.

use base::limits;
use jose::Algorithm;
use model::{BackendClient, Feed, Introspection, IssuerSettings, KeySource, Place};

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
    let mut has_passwords = false;
    // API keys and internal keys may have the `iss` of tokens, with other keys.
    let mut claims: [Vec<&str>; 3] = Default::default();
    for table in root.sections("issuer", "issuer", report) {
        let discovered = discovered(&table, report);
        let iss = match discovered {
            Some(issuer) => Some(issuer),
            None => required(&table, "iss", report),
        };
        let name = match discovered {
            Some(issuer) => table.text("name", report).or(Some(issuer)),
            None => required(&table, "name", report),
        };
        unique(name, &mut names, "name", report);
        let api_keys = table.flag("api_keys", false, report);
        let internal_keys = table.flag("internal_keys", false, report);
        let [of_tokens, of_keys, of_internal_keys] = &mut claims;
        let before = match (api_keys, internal_keys) {
            (true, _) => of_keys,
            (false, true) => of_internal_keys,
            (false, false) => of_tokens,
        };
        unique(iss, before, "iss", report);
        let algorithms = algorithms(&table, report);
        let introspection = introspection(&table, outside, report);
        let passwords = passwords(&table, outside, report);
        if let Some(item) = table.get("passwords").filter(|_| has_passwords) {
            let message = "another issuer has `passwords`, too";
            report.error(item.place, message, "remove one of them: nobody's password goes to both");
        }
        has_passwords |= passwords.is_some();
        let revocations = revocations(&table, outside, report);
        let keys = keys(&table, &algorithms, outside, report);
        let audiences = table.texts("audiences", report).unwrap_or_default();
        let issuer = IssuerSettings {
            name: name.map_or_else(String::new, |(text, _)| text.to_owned()),
            iss: iss.map_or_else(String::new, |(text, _)| text.to_owned()),
            keys: keys.unwrap_or(KeySource::Absent),
            algorithms,
            audiences: audiences.into_iter().map(|(text, _)| text.to_owned()).collect(),
            leeway_s: table.number("leeway_s", 0..=limits::LEEWAY_S_MAX, report).unwrap_or(0),
            padded_segments: table.flag("padded_segments", false, report),
            allow_unlimited: table.flag("allow_unlimited", false, report),
            api_keys,
            internal_keys,
            introspection,
            passwords,
            revocations,
        };
        issuers.push(issuer); // A missing part is an error, so the settings are not used.
    }
    issuers
}

/// `issuer`: both the `iss` of the issuer's tokens and the URL of its discovery document.
fn discovered<'t>(table: &Table<'t>, report: &mut Report) -> Option<(&'t str, Place)> {
    let (text, place) = table.text("issuer", report)?;
    if let Some(iss) = table.get("iss") {
        report.error(iss.place, "`iss` and `issuer` name the same", "remove `iss`");
    }
    if text.contains('?') {
        report.error(place, "an issuer has no query", "remove it from the URL");
    }
    fetched_safely(text, place, "keys fetched", report);
    Some((text, place))
}

/// `introspection = { url, client_id, client_secret, cache_s }`.
fn introspection(
    table: &Table<'_>,
    outside: &Outside<'_>,
    report: &mut Report,
) -> Option<Introspection> {
    let inner = table.section("introspection", "issuer.introspection", report);
    if !inner.is_present() {
        return None;
    }
    let cache_s = inner.number("cache_s", 1..=limits::INTROSPECTION_CACHE_S_MAX, report);
    const SECRET: &str = "issuer.introspection.client_secret";
    let (url, client_id, client_secret) =
        asked(&inner, ("introspection", SECRET, "tokens sent"), outside, report)?;
    let cache_s = cache_s.unwrap_or(limits::INTROSPECTION_CACHE_S_MAX);
    Some(Introspection { url, client_id, client_secret, cache_s })
}

/// `passwords = { url, client_id, client_secret, scopes }`.
fn passwords(
    table: &Table<'_>,
    outside: &Outside<'_>,
    report: &mut Report,
) -> Option<BackendClient> {
    let inner = table.section("passwords", "issuer.passwords", report);
    if !inner.is_present() {
        return None;
    }
    const SECRET: &str = "issuer.passwords.client_secret";
    let scopes = inner.texts("scopes", report).unwrap_or_default();
    let (token_url, client_id, client_secret) =
        asked(&inner, ("passwords", SECRET, "passwords sent"), outside, report)?;
    let scopes = scopes.into_iter().map(|(scope, _)| scope.to_owned()).collect();
    Some(BackendClient { token_url, client_id, client_secret, scopes, ..BackendClient::default() })
}

/// `revocations = { url, client_id, client_secret }`.
fn revocations(table: &Table<'_>, outside: &Outside<'_>, report: &mut Report) -> Option<Feed> {
    let inner = table.section("revocations", "issuer.revocations", report);
    if !inner.is_present() {
        return None;
    }
    const SECRET: &str = "issuer.revocations.client_secret";
    let (url, client_id, client_secret) =
        asked(&inner, ("revocations", SECRET, "revocations fetched"), outside, report)?;
    Some(Feed { url, client_id, client_secret })
}

/// `[gateway] control_plane = { url, client_id, client_secret }`.
pub(super) fn control_plane(
    table: &Table<'_>,
    outside: &Outside<'_>,
    report: &mut Report,
) -> Option<Feed> {
    const SECRET: &str = "gateway.control_plane.client_secret";
    let inner = table.section("control_plane", "gateway.control_plane", report);
    if !inner.is_present() {
        return None;
    }
    let (url, client_id, client_secret) =
        asked(&inner, ("control_plane", SECRET, "applications fetched"), outside, report)?;
    let url = format!("{}/api/penstock/applications", url.trim_end_matches('/'));
    Some(Feed { url, client_id, client_secret })
}

/// `url`, `client_id` and `client_secret` of an endpoint that the gateway uses with its own credentials.
fn asked(
    inner: &Table<'_>,
    (key, secret, what): (&str, &'static str, &str),
    outside: &Outside<'_>,
    report: &mut Report,
) -> Option<(String, String, Vec<u8>)> {
    for part in ["url", "client_id", "client_secret"] {
        if inner.get(part).is_none() {
            let message = format!("`{key}` has no `{part}`");
            let help = format!(
                "write {key} = {{ url = \"https://...\", client_id = \"...\", \
                 client_secret = {{ env = \"NAME\" }} }}"
            );
            report.error(inner.place, message, help);
        }
    }
    let secret = secret::read(inner, "client_secret", secret, outside, report);
    let (url, place) = inner.text("url", report)?;
    let is_safe = fetched_safely(url, place, what, report);
    let (client_id, _) = inner.text("client_id", report)?;
    is_safe.then_some((url.to_owned(), client_id.to_owned(), secret?))
}

pub(super) fn required<'t>(
    table: &Table<'t>,
    key: &str,
    report: &mut Report,
) -> Option<(&'t str, Place)> {
    if table.get(key).is_none() {
        report.error(
            table.place,
            format!("{} has no `{key}`", table.heading()),
            format!("add `{key} = \"...\"`"),
        );
    }
    table.text(key, report)
}

pub(super) fn unique<'t>(
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

/// The source of the keys: exactly one of `issuer`, `jwks`, `pem` and `secret`, or none with `introspection`. The
/// algorithms must match it, because a public key must never be used as a shared secret. Source: RFC 8725 sections 2.1
/// and 3.1.
fn keys(
    table: &Table<'_>,
    algorithms: &[Algorithm],
    outside: &Outside<'_>,
    report: &mut Report,
) -> Option<KeySource> {
    const SOURCES: [&str; 4] = ["issuer", "jwks", "pem", "secret"];
    let given: Vec<&str> = SOURCES.into_iter().filter(|key| table.get(key).is_some()).collect();
    if given.is_empty() && table.get("introspection").is_some() {
        if let Some(algorithms) = table.get("algorithms") {
            report.error(algorithms.place, "`algorithms` without keys", "remove `algorithms`");
        }
        return Some(KeySource::Absent);
    }
    let [source] = given.as_slice() else {
        let message = if given.is_empty() {
            "[[issuer]] has no keys"
        } else {
            "[[issuer]] has more than one source of keys"
        };
        let help = "write one of `issuer`, `jwks`, `pem` and `secret`";
        return report.reject(table.place, message, help);
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
        "issuer" => {
            table.text("issuer", report).map(|(url, _)| KeySource::Discovery(url.to_owned()))
        }
        "jwks" => jwks(table, outside, report),
        "pem" => table.text("pem", report).map(|(text, _)| KeySource::Pem(outside.path(text))),
        _ => secret(table, algorithms, outside, report),
    }
}

fn is_shared(algorithm: Algorithm) -> bool {
    matches!(algorithm, Algorithm::Hs256 | Algorithm::Hs384 | Algorithm::Hs512)
}

/// A file, or an https URL.
pub(super) fn jwks(
    table: &Table<'_>,
    outside: &Outside<'_>,
    report: &mut Report,
) -> Option<KeySource> {
    let (text, place) = table.text("jwks", report)?;
    if !text.contains("://") {
        return Some(KeySource::JwksFile(outside.path(text)));
    }
    fetched_safely(text, place, "keys fetched", report).then(|| KeySource::JwksUrl(text.to_owned()))
}

/// Checks that `what` is protected in transit.
pub(super) fn fetched_safely(url: &str, place: Place, what: &str, report: &mut Report) -> bool {
    match crate::address::is_confidential(url) {
        Ok(true) => return true,
        Ok(false) => report.error(
            place,
            format!("{what} over http can be read and replaced in transit"),
            "use https://; http is allowed only for 127.0.0.1, ::1 and localhost",
        ),
        Err((message, help)) => report.error(place, message, help),
    }
    false
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
        return report.reject(
            place,
            message,
            "generate a longer one, for example with `openssl rand -base64 64`",
        );
    }
    Some(KeySource::Secret(bytes))
}

/// Shortest secret of an algorithm, in bytes: the length of the hash. Source: RFC 7518 section 3.2.
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
