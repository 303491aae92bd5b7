//! `[control.ldap]`: an LDAP directory of users.

use model::{LdapSettings, Place, UserMapping};

use super::table::Table;
use super::{Outside, issuers, secret};
use crate::report::{Report, shorten};

/// Claims that every token has, or that determine its kind; gateways act on them.
const RESERVED: [&str; 31] = [
    "active",
    "acr",
    "amr",
    "appid",
    "application",
    "at_hash",
    "aud",
    "aut",
    "auth_time",
    "azp",
    "cid",
    "client_id",
    "cnf",
    "exp",
    "iat",
    "iss",
    "jti",
    "keytype",
    "nbf",
    "nonce",
    "permittedIP",
    "permittedReferer",
    "preferred_username",
    "roles",
    "scope",
    "scp",
    "sid",
    "sub",
    "subscribedAPIs",
    "tierInfo",
    "token_type",
];

pub(super) fn read(
    control: &Table<'_>,
    outside: &Outside<'_>,
    report: &mut Report,
) -> Option<LdapSettings> {
    let table = control.section("ldap", "control.ldap", report);
    if !table.is_present() {
        return None;
    }
    let start_tls = table.flag("start_tls", false, report);
    let urls = urls(&table, start_tls, report);
    let text = |key: &str, report: &mut Report| table.text(key, report).map(|(text, _)| text);
    let (bind_dn, bind_password) = bind(&table, outside, report);
    let group_base = text("group_base", report);
    let group_filter = filter(&table, "group_filter", "(member={dn})", &["{dn}", "{user}"], report);
    if let (None, Some(item)) = (group_base, table.get("group_filter")) {
        let message = "`group_filter` has no effect without `group_base`";
        report.error(item.place, message, "add `group_base`, or remove `group_filter`");
    }
    let groups = if group_base.is_some() { "cn" } else { "memberOf" };
    let mapping = mapping(&table, ["control.ldap.claim", "control.ldap.role"], report);
    let base = issuers::required(&table, "base", report).map(|(base, _)| base.to_owned());
    Some(LdapSettings {
        urls,
        start_tls,
        bind_dn,
        bind_password,
        base: base?,
        filter: filter(&table, "filter", "(uid={user})", &["{user}"], report),
        name: text("name", report).unwrap_or("uid").to_owned(),
        id: text("id", report).unwrap_or("entryUUID").to_owned(),
        groups: text("groups", report).unwrap_or(groups).to_owned(),
        group_search: group_base.map(|base| (base.to_owned(), group_filter)),
        mapping,
    })
}

fn urls(table: &Table<'_>, start_tls: bool, report: &mut Report) -> Vec<String> {
    let urls = table.texts("urls", report).unwrap_or_default();
    if urls.is_empty() {
        let help = "add `urls = [\"ldaps://HOST\"]`";
        report.error(table.place, "[control.ldap] has no server in `urls`", help);
    }
    for (url, place) in &urls {
        check_url(url, *place, start_tls, report);
    }
    urls.into_iter().map(|(url, _)| url.to_owned()).collect()
}

fn check_url(url: &str, place: Place, start_tls: bool, report: &mut Report) {
    // Parsed as URLs of HTTP, which have the same syntax of hosts and ports.
    let (as_http, after) = match url.split_once("://") {
        Some(("ldaps", after)) if start_tls => {
            let message = format!("`{}` and `start_tls` exclude each other", shorten(url));
            report.error(place, message, "write ldap://, or remove `start_tls`");
            ("https", after)
        }
        Some(("ldaps", after)) => ("https", after),
        Some(("ldap", after)) => (if start_tls { "https" } else { "http" }, after),
        Some(_) | None => ("", ""),
    };
    if after.is_empty() || after.contains(['/', '?', '@']) {
        let message = format!("`{}` is not the URL of an LDAP server", shorten(url));
        return report.error(place, message, "write ldaps://HOST or ldap://HOST");
    }
    match crate::address::is_confidential(&format!("{as_http}://{after}")) {
        Ok(true) => {}
        Ok(false) => {
            let message = "passwords sent over ldap:// can be read in transit";
            let help = "use ldaps:// or `start_tls`; ldap:// alone is allowed only for 127.0.0.1, \
                        ::1 and localhost";
            report.error(place, message, help);
        }
        Err((message, help)) => report.error(place, message, help),
    }
}

fn bind(table: &Table<'_>, outside: &Outside<'_>, report: &mut Report) -> (String, String) {
    let dn = table.text("bind_dn", report).map(|(dn, _)| dn.to_owned());
    let password =
        secret::read(table, "bind_password", "control.ldap.bind_password", outside, report);
    let place = table.get("bind_password").map(|item| item.place);
    if dn.is_some() != table.get("bind_password").is_some() {
        let message = "[control.ldap] has only one of `bind_dn` and `bind_password`";
        report.error(table.place, message, "add the other, or remove both for anonymous searches");
    }
    let password = password.map(String::from_utf8).transpose().unwrap_or_else(|_| {
        report.reject(place, "`bind_password` is not UTF-8", "write it in UTF-8")
    });
    if password.as_ref().is_some_and(String::is_empty) {
        let message = "`bind_password` is empty";
        report.error(place, message, "an LDAP server would take it for an anonymous bind");
    }
    (dn.unwrap_or_default(), password.unwrap_or_default())
}

/// A filter with at least one of `placeholders`.
fn filter(
    table: &Table<'_>,
    key: &str,
    default: &str,
    placeholders: &[&str],
    report: &mut Report,
) -> String {
    let Some((text, place)) = table.text(key, report) else { return default.to_owned() };
    if !placeholders.iter().any(|placeholder| text.contains(placeholder)) {
        let message = format!("`{key}` does not depend on the user");
        report.error(place, message, format!("write {} in it", placeholders.join(" or ")));
    }
    text.to_owned()
}

/// `claim` and `role`, whose keys the manual lists under these names.
pub(super) fn mapping(
    table: &Table<'_>,
    [claims, roles]: [&'static str; 2],
    report: &mut Report,
) -> UserMapping {
    let mut mapping = UserMapping::default();
    for claim in table.sections("claim", claims, report) {
        let from = issuers::required(&claim, "from", report);
        let Some((name, place)) = issuers::required(&claim, "name", report) else { continue };
        if RESERVED.contains(&name) {
            let message = format!("tokens have a claim `{name}` of another meaning");
            report.error(place, message, "choose another name");
        }
        if mapping.claims.iter().any(|(other, _)| other == name) {
            report.error(
                place,
                format!("duplicate claim `{}`", shorten(name)),
                "remove one of them",
            );
        }
        let from = from.map_or_else(String::new, |(from, _)| from.to_owned());
        mapping.claims.push((name.to_owned(), from));
    }
    for role in table.sections("role", roles, report) {
        let groups = role.texts("groups", report).unwrap_or_default();
        if groups.is_empty() {
            report.error(role.place, "a role without `groups`", "add `groups = [\"...\"]`");
        }
        let Some((name, _)) = issuers::required(&role, "name", report) else { continue };
        let groups = groups.into_iter().map(|(group, _)| group.to_owned()).collect();
        mapping.roles.push((name.to_owned(), groups));
    }
    mapping
}
