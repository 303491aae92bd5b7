//! `[[control.provider]]`: OpenID Connect providers at which users of the key manager sign in.

use model::{Place, TrustedIssuer, UserProvider};

use super::table::Table;
use super::{Outside, issuers, ldap, logins, secret};
use crate::report::{Report, shorten};

/// `trusted` are the issuers whose users have names of the same form.
pub(super) fn read(
    control: &Table<'_>,
    trusted: &[TrustedIssuer],
    outside: &Outside<'_>,
    report: &mut Report,
) -> Vec<UserProvider> {
    let mut names: Vec<&str> = trusted.iter().map(|issuer| issuer.name.as_str()).collect();
    let mut providers = Vec::new();
    for table in control.sections("provider", "control.provider", report) {
        let name = issuers::required(&table, "name", report);
        if let Some((name, place)) = name {
            check_name((name, place), &names, report);
            names.push(name);
        }
        let read = provider(&table, outside, report);
        let Some((provider, (name, _))) = read.zip(name) else { continue };
        let title = if provider.title.is_empty() { name } else { &provider.title };
        let (name, title) = (name.to_owned(), title.to_owned());
        providers.push(UserProvider { name, title, ..provider });
    }
    providers
}

fn check_name((name, place): (&str, Place), others: &[&str], report: &mut Report) {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if !(1..=32).contains(&name.len()) || !name.bytes().all(is_plain) || name == "ldap" {
        let message = format!("`{}` cannot be the name of a provider", shorten(name));
        let help = "write up to 32 lower-case letters, digits and hyphens, and not \"ldap\"";
        report.error(place, message, help);
    }
    if others.contains(&name) {
        let message =
            format!("another provider or trusted issuer has the name `{}`", shorten(name));
        report.error(place, message, "the names of its users are NAME/USER: choose another name");
    }
}

/// A provider, without its name.
fn provider(table: &Table<'_>, outside: &Outside<'_>, report: &mut Report) -> Option<UserProvider> {
    let secret = client_secret(table, outside, report);
    let issuer = issuers::required(table, "issuer", report);
    if let Some((issuer, place)) = issuer {
        issuers::fetched_safely(issuer, place, "users sent", report);
    }
    let client_id = issuers::required(table, "client_id", report);
    let mut text = |key: &str| table.text(key, report).map(|(text, _)| text.to_owned());
    let (title, user, groups) = (text("title"), text("user"), text("groups"));
    let keys = ["control.provider.claim", "control.provider.role"];
    Some(UserProvider {
        name: String::new(),
        title: title.unwrap_or_default(),
        scopes: logins::scopes(table, report),
        user: user.unwrap_or_else(|| "preferred_username".to_owned()),
        groups: groups.unwrap_or_else(|| "groups".to_owned()),
        mapping: ldap::mapping(table, keys, report),
        issuer: issuer?.0.to_owned(),
        client_id: client_id?.0.to_owned(),
        client_secret: secret?,
    })
}

fn client_secret(table: &Table<'_>, outside: &Outside<'_>, report: &mut Report) -> Option<String> {
    let key = "control.provider.client_secret";
    let help = "write `client_secret = { file = \"path\" }`";
    let Some(item) = table.get("client_secret") else {
        return report.reject(table.place, "[[control.provider]] has no `client_secret`", help);
    };
    let secret = secret::read(table, "client_secret", key, outside, report)?;
    let secret = String::from_utf8(secret).ok().filter(|secret| !secret.is_empty());
    if secret.is_none() {
        report.error(item.place, "`client_secret` is empty, or not UTF-8", help);
    }
    secret
}
