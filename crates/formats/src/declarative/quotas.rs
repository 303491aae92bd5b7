//! `[quotas]`: the server through which gateways share the counts of their limits.

use model::{QuotaSettings, WhenDown};

use super::table::Table;
use super::{Outside, secret, sections};
use crate::report::{Report, shorten};

pub(super) fn read(
    table: &Table<'_>,
    outside: &Outside<'_>,
    report: &mut Report,
) -> Option<QuotaSettings> {
    if !table.is_present() {
        return None;
    }
    let password = secret::read(table, "password", "quotas.password", outside, report);
    if password.as_ref().is_some_and(|password| std::str::from_utf8(password).is_err()) {
        let place = table.get("password").map(|item| item.place);
        report.error(place, "`password` is not UTF-8", "name the file or variable that has it");
    }
    let names =
        [("local", WhenDown::Local), ("open", WhenDown::Open), ("closed", WhenDown::Closed)];
    let when_down = table.choice("when_down", &names, report).unwrap_or_default();
    let ca = sections::paths(table, "ca", outside, report).unwrap_or_default();
    if table.get("redis").is_none() {
        let help = "add `redis = \"redis://127.0.0.1:6379\"`, or remove the section";
        report.error(table.place, "there is no `redis` in [quotas]", help);
    }
    let redis = url(table, report)?;
    if !ca.is_empty() && !redis.starts_with("rediss://") {
        let place = table.get("ca").map(|item| item.place);
        let help = "write rediss:// in `redis`, or remove `ca`";
        report.error(place, "`ca` has no effect without TLS", help);
    }
    Some(QuotaSettings { redis, password, ca, when_down })
}

/// `redis://[USER@]HOST[:PORT][/DATABASE]`, or `rediss://`, which is TLS.
fn url(table: &Table<'_>, report: &mut Report) -> Option<String> {
    let (text, place) = table.text("redis", report)?;
    let help = "write redis://HOST:6379, or rediss://HOST:6379 for TLS; a number of a database may follow: /1";
    let rest = text.strip_prefix("redis://").or_else(|| text.strip_prefix("rediss://"));
    // The URL may contain a password, so it is not repeated.
    let Some(rest) = rest else {
        return report.reject(place, "`redis` is not a URL of Redis or Valkey", help);
    };
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    if user.contains(':') {
        let help = "name it by `password = { env = \"...\" }` or `password = { file = \"...\" }`";
        return report.reject(place, "`redis` contains a password", help);
    }
    if let Err((message, help)) = crate::address::url_host(&format!("http://{host}")) {
        return report.reject(place, message, help);
    }
    if !path.is_empty() && path.parse::<u16>().is_err() || text.contains('?') {
        let message = format!("`{}` is not the number of a database", shorten(path));
        return report.reject(place, message, help);
    }
    Some(text.to_owned())
}
