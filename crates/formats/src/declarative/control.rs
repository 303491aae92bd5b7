//! `[control]` and `[store]`: the control plane and its database.

use base::limits;
use model::{ControlSettings, StoreSettings, TokenLifetimes, TrustedIssuer, UserMapping};

use super::table::Table;
use super::{Outside, api_keys, issuers, ldap, providers, secret, sections};
use crate::report::{Report, shorten};

/// The name of the database file without `[store]`.
const FILE: &str = "penstock.db";

pub(super) fn read(
    control: &Table<'_>,
    store: &Table<'_>,
    outside: &Outside<'_>,
    report: &mut Report,
) -> Option<ControlSettings> {
    let database = database(store, outside, report);
    if !control.is_present() {
        if store.is_present() {
            let help = "add `[control]`, or remove `[store]`";
            report.warning(store.place, "[store] has no effect without [control]", help);
        }
        return None;
    }
    let https = sections::address(control, "https", report).map(|(address, _)| address);
    if control.get("https").is_none() {
        let help = "add `https = \"127.0.0.1:9443\"` under [control]";
        report.error(control.place, "the control plane has no listener", help);
    }
    let https = https?;
    let keys = sections::paths(control, "keys", outside, report);
    if keys.as_ref().is_some_and(Vec::is_empty) {
        report.error(control.place, "`keys` is empty", "name a private key, or remove `keys`");
    }
    if keys.is_none() && matches!(database, Some(StoreSettings::Server(_))) {
        let help = "name the same private keys in each: openssl genpkey -algorithm RSA -out FILE";
        let message = "instances that share a database need `keys`";
        report.error(control.place, message, help);
    }
    let trusted_issuers = trusted_issuers(control, outside, report);
    let providers = providers::read(control, &trusted_issuers, outside, report);
    let ldap = ldap::read(control, outside, report);
    let mappings = providers.iter().map(|provider| &provider.mapping);
    let mappings: Vec<_> = mappings.chain(ldap.iter().map(|ldap| &ldap.mapping)).collect();
    Some(ControlSettings {
        https,
        issuer: issuer(control, report)
            .unwrap_or_else(|| format!("https://localhost:{}/oauth2/token", https.port())),
        keys: keys.unwrap_or_default(),
        lifetimes: lifetimes(control, report),
        access_token_claims: access_token_claims(control, &mappings, report),
        scopes: scopes(control, report),
        admin_password: password(control, outside, report),
        client_ca: sections::paths(control, "client_ca", outside, report),
        trusted_proxies: sections::blocks(control, "trusted_proxies", report),
        cors_origins: cors_origins(control, report),
        providers,
        trusted_issuers,
        ldap,
        api_keys: api_keys::read(control, report),
        store: database.unwrap_or_else(|| StoreSettings::Sqlite(outside.path(FILE))),
    })
}

/// The defaults are WSO2's.
fn lifetimes(control: &Table<'_>, report: &mut Report) -> TokenLifetimes {
    const DAY_S: u64 = 86_400;
    let access_s = 60..=limits::ACCESS_TOKEN_S_MAX;
    let access_s = control.number("access_token_s", access_s, report).unwrap_or(3_600);
    let refresh_s = control.number("refresh_token_s", 60..=3_650 * DAY_S, report).unwrap_or(DAY_S);
    if access_s > refresh_s {
        let message = "`access_token_s` is larger than `refresh_token_s`";
        report.error(control.place, message, "an access token must not outlive the sign-in");
    }
    TokenLifetimes { access_s, refresh_s }
}

fn access_token_claims(
    control: &Table<'_>,
    mappings: &[&UserMapping],
    report: &mut Report,
) -> Vec<String> {
    let names = control.texts("access_token_claims", report).unwrap_or_default();
    for (name, place) in &names {
        let mut mapped = mappings.iter().flat_map(|mapping| &mapping.claims);
        if !mapped.any(|(other, _)| other == name) {
            let message = format!("users have no claim `{}`", shorten(name));
            let help = "add a [[control.ldap.claim]] or [[control.provider.claim]] of this name";
            report.warning(*place, message, help);
        }
    }
    names.into_iter().map(|(name, _)| name.to_owned()).collect()
}

fn scopes(control: &Table<'_>, report: &mut Report) -> Vec<(String, Vec<String>)> {
    let mut scopes: Vec<(String, Vec<String>)> = Vec::new();
    for table in control.sections("scope", "control.scope", report) {
        let roles = table.texts("roles", report).unwrap_or_default();
        if roles.is_empty() {
            report.error(table.place, "a scope without `roles`", "add `roles = [\"...\"]`");
        }
        let Some((name, place)) = issuers::required(&table, "name", report) else { continue };
        if name.contains(' ') {
            let message = format!("`{}` is not one scope", shorten(name));
            report.error(place, message, "write a [[control.scope]] for each scope");
        }
        if name == "default" {
            let message = "`default` is granted to every token that has no other scope";
            report.error(place, message, "choose another name");
        }
        if scopes.iter().any(|(other, _)| other == name) {
            let message = format!("duplicate scope `{}`", shorten(name));
            report.error(place, message, "remove one of them");
        }
        scopes
            .push((name.to_owned(), roles.into_iter().map(|(role, _)| role.to_owned()).collect()));
    }
    scopes
}

fn trusted_issuers(
    control: &Table<'_>,
    outside: &Outside<'_>,
    report: &mut Report,
) -> Vec<TrustedIssuer> {
    let (mut trusted, mut names, mut claims) = (Vec::new(), Vec::new(), Vec::new());
    for table in control.sections("trusted_issuer", "control.trusted_issuer", report) {
        let name = issuers::required(&table, "name", report);
        let iss = issuers::required(&table, "iss", report);
        issuers::unique(name, &mut names, "name", report);
        issuers::unique(iss, &mut claims, "iss", report);
        issuers::required(&table, "jwks", report);
        let keys = issuers::jwks(&table, outside, report);
        if let Some((text, place)) = name
            && text.contains('/')
        {
            let help = "the names of its users are NAME/USER";
            report.error(place, "the name of a trusted issuer has a `/`", help);
        }
        let (Some((name, _)), Some((iss, _)), Some(keys)) = (name, iss, keys) else { continue };
        trusted.push(TrustedIssuer { name: name.to_owned(), iss: iss.to_owned(), keys });
    }
    trusted
}

/// An https URL, without query and fragment. Source: RFC 8414 section 2.
fn issuer(table: &Table<'_>, report: &mut Report) -> Option<String> {
    let (text, place) = table.text("issuer", report)?;
    if let Err((message, help)) = crate::address::url_host(text) {
        report.error(place, message, help);
    } else if !text.starts_with("https://") || text.contains(['?', '#']) {
        let message = format!("`{}` is not an https URL without query", shorten(text));
        report.error(place, message, "write https://HOST:9443/oauth2/token");
    }
    Some(text.to_owned())
}

fn cors_origins(table: &Table<'_>, report: &mut Report) -> Vec<String> {
    let mut origins = Vec::new();
    for (text, place) in table.texts("cors_origins", report).unwrap_or_default() {
        match crate::openapi::cors::origin(text) {
            Ok(origin) if origin.contains('*') && origin != "*" => {
                let message = format!("`{}` is a pattern", shorten(text));
                report.error(place, message, "list the origins, or write `*` alone");
            }
            Ok(origin) => origins.push(origin),
            Err((message, help)) => report.error(place, message, help),
        }
    }
    origins
}

fn password(table: &Table<'_>, outside: &Outside<'_>, report: &mut Report) -> Option<Vec<u8>> {
    let password =
        secret::read(table, "admin_password", "control.admin_password", outside, report)?;
    let (least, most) = (limits::PASSWORD_BYTES_MIN, limits::PASSWORD_BYTES_MAX);
    if !(least..=most).contains(&password.len()) || std::str::from_utf8(&password).is_err() {
        let place = table.get("admin_password").map(|item| item.place);
        let message = format!("`admin_password` is not UTF-8 of {least} to {most} bytes");
        report.error(place, message, "choose another, or remove it: one is generated then");
    }
    Some(password)
}

fn database(
    table: &Table<'_>,
    outside: &Outside<'_>,
    report: &mut Report,
) -> Option<StoreSettings> {
    let item = table.get("url")?;
    let (text, place) = if item.value.as_table().is_some() {
        let secret = secret::read(table, "url", "store.url", outside, report)?;
        (String::from_utf8(secret).unwrap_or_default(), item.place)
    } else {
        let (text, place) = table.text("url", report)?;
        (text.to_owned(), place)
    };
    match text.split_once(':') {
        Some(("sqlite", file)) if !file.is_empty() && !file.starts_with("//") => {
            Some(StoreSettings::Sqlite(outside.path(file)))
        }
        Some(("postgres" | "postgresql" | "mysql" | "mariadb", _)) => {
            Some(StoreSettings::Server(text))
        }
        Some(_) | None => {
            // The URL can contain a password and is not repeated.
            let help =
                "write sqlite:FILE, postgres://USER@HOST/DATABASE or mysql://USER@HOST/DATABASE";
            report.reject(place, "the URL of an unknown kind of database", help)
        }
    }
}
