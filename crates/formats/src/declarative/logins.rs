//! `[[login]]`: the providers where browsers sign in.

use std::sync::Arc;

use base::limits;
use jose::{SealingKeys, SignInEndpoints};
use model::{IssuerSettings, KeySource, Login, Place};

use super::table::Table;
use super::{Outside, issuers, secret};
use crate::report::{Report, shorten, suggest};

/// `issuers` are the configured ones. Each login needs one of them.
pub(super) fn read(
    root: &Table<'_>,
    issuers: &[IssuerSettings],
    outside: &Outside<'_>,
    report: &mut Report,
) -> Vec<Arc<Login>> {
    let mut logins: Vec<Arc<Login>> = Vec::new();
    for table in root.sections("login", "login", report) {
        for key in ["name", "issuer", "client_id", "client_secret"] {
            if table.get(key).is_none() {
                let message = format!("[[login]] has no `{key}`");
                report.error(table.place, message, format!("add `{key}`"));
            }
        }
        let Some(login) = login(&table, issuers, outside, report) else { continue };
        if logins.iter().any(|other| other.name == login.name) {
            let place = table.get("name").map(|item| item.place);
            let message = format!("duplicate login `{}`", shorten(&login.name));
            report.error(place, message, "rename or remove one of them");
        }
        logins.push(Arc::new(login));
    }
    logins
}

fn login(
    table: &Table<'_>,
    known: &[IssuerSettings],
    outside: &Outside<'_>,
    report: &mut Report,
) -> Option<Login> {
    let endpoints = endpoints(table, report);
    let scopes = scopes(table, report);
    let after_logout = after_logout(table, report);
    let range = 1..=limits::SESSION_S_MAX;
    let session_s = table.number("session_s", range, report).unwrap_or(limits::SESSION_S);
    let max_age_s = table.number("max_age_s", 0..=limits::SESSION_S_MAX, report);
    let key = key(table, outside, report);
    let client_secret =
        secret::read(table, "client_secret", "login.client_secret", outside, report);
    let (name, place) = table.text("name", report)?;
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if !(1..=32).contains(&name.len()) || !name.bytes().all(is_plain) {
        let message = format!("`{}` cannot be part of the name of a cookie", shorten(name));
        report.error(place, message, "write up to 32 lower-case letters, digits and hyphens");
    }
    let (issuer, place) = table.text("issuer", report)?;
    issuers::fetched_safely(issuer, place, "users sent", report);
    if !known.iter().any(|one| one.iss == issuer && one.keys != KeySource::Absent) {
        let names = || known.iter().map(|one| one.iss.as_str());
        let help = suggest(issuer, names(), || format!("add [[issuer]] issuer = \"{issuer}\""));
        let message = "no [[issuer]] with keys has this issuer, so that nobody can be signed in";
        report.error(place, message, help);
    }
    let (client_id, _) = table.text("client_id", report)?;
    Some(Login {
        name: name.to_owned(),
        issuer: issuer.to_owned(),
        endpoints,
        client_id: client_id.to_owned(),
        client_secret: client_secret?,
        scopes,
        after_logout,
        session_s,
        max_age_s,
        key,
    })
}

/// The requested scopes. Without `openid`, the provider would send no ID token.
pub(super) fn scopes(table: &Table<'_>, report: &mut Report) -> Vec<String> {
    const OPENID: &str = "openid";
    let listed = table.texts("scopes", report).unwrap_or_default();
    for (scope, place) in &listed {
        if scope.is_empty() || !scope.bytes().all(|byte| byte.is_ascii_graphic()) {
            let message = format!("`{}` is not one scope", shorten(scope));
            report.error(*place, message, "list each scope as a text of its own");
        }
    }
    let others = listed.into_iter().map(|(scope, _)| scope).filter(|scope| *scope != OPENID);
    [OPENID].into_iter().chain(others).map(str::to_owned).collect()
}

fn after_logout(table: &Table<'_>, report: &mut Report) -> String {
    let Some((path, place)) = table.text("after_logout", report) else { return "/".to_owned() };
    let is_path = path.starts_with('/') && !path.starts_with("//") && !path.contains('\\');
    if !is_path || !path.bytes().all(|byte| byte.is_ascii_graphic()) {
        let message = format!("`{}` is not a path of the gateway", shorten(path));
        report.error(place, message, "write one that starts with a slash, such as \"/app/\"");
    }
    path.to_owned()
}

/// The key; empty for the one in the data folder.
fn key(table: &Table<'_>, outside: &Outside<'_>, report: &mut Report) -> Vec<u8> {
    let Some(key) = secret::read(table, "key", "login.key", outside, report) else {
        return Vec::new();
    };
    if SealingKeys::new(&key).is_err() {
        let place = table.get("key").map(|item| item.place);
        let message = "`key` has a line with fewer than 32 bytes, or none at all";
        report.error(place, message, "generate one, for example with `openssl rand -base64 32`");
    }
    key
}

/// The configured endpoints; `None` if they are discovered.
fn endpoints(table: &Table<'_>, report: &mut Report) -> Option<SignInEndpoints> {
    let keys = ["authorize_url", "token_url", "logout_url", "revoke_url"];
    let [authorize, token, logout, revoke] = keys.map(|key| table.text(key, report));
    for (url, place) in [authorize, token, logout, revoke].into_iter().flatten() {
        issuers::fetched_safely(url, place, "secrets sent", report);
    }
    let text = |(url, _): (&str, Place)| url.to_owned();
    match (authorize.map(text), token.map(text)) {
        (Some(authorize), Some(token)) => {
            let (logout, revoke) = (logout.map(text), revoke.map(text));
            let (userinfo, sends_iss) = (None, false);
            Some(SignInEndpoints { authorize, token, logout, revoke, userinfo, sends_iss })
        }
        (None, None) if logout.is_none() && revoke.is_none() => None,
        (_, _) => {
            let message = "[[login]] has only some of its URLs";
            let help = "write `authorize_url` and `token_url`, or none for those of the issuer";
            report.reject(table.place, message, help)
        }
    }
}
