//! Every extension that is known, where it may stand, and what is done about those not served yet:
//! an error where ignoring it would weaken security or a limit, else a warning (DESIGN.md section 4).

use crate::report::{Report, shorten, suggest};
use crate::tree::{Map, Member, Node};

/// Where an extension may stand, as a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Level(u8);

impl Level {
    /// Where no extension belongs: `info`.
    pub(super) const ELSEWHERE: Self = Self(0);
    pub(super) const DOCUMENT: Self = Self(1);
    pub(super) const PATH_ITEM: Self = Self(2);
    pub(super) const OPERATION: Self = Self(4);
    const ALL: Self = Self(1 | 2 | 4);

    fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    fn name(self) -> String {
        let names = [
            (Self::DOCUMENT, "the API"),
            (Self::PATH_ITEM, "a path"),
            (Self::OPERATION, "an operation"),
        ];
        let held: Vec<&str> =
            names.into_iter().filter(|(level, _)| self.has(*level)).map(|(_, name)| name).collect();
        held.join(" or ")
    }
}

struct Row {
    name: &'static str,
    level: Level,
    meaning: Meaning,
}

enum Meaning {
    /// Another module reads it.
    Read,
    /// Nothing that a gateway does depends on it.
    Harmless,
    /// Not served yet: what its value means for that.
    Unserved(fn(&Node<'_>) -> Finding),
}

enum Finding {
    Nothing,
    Warning(&'static str),
    Error(&'static str, &'static str),
}

const fn row(name: &'static str, level: Level, meaning: Meaning) -> Row {
    Row { name, level, meaning }
}

/// Names of WSO2's API Microgateway, Choreo Connect and API Manager, then our own.
#[rustfmt::skip]
const EXTENSIONS: &[Row] = &[
    row("x-wso2-basePath",               Level::DOCUMENT,  Meaning::Read),
    row("x-wso2-production-endpoints",   Level::ALL,       Meaning::Read),
    row("x-wso2-sandbox-endpoints",      Level::ALL,       Meaning::Read),
    row("x-wso2-endpoints",              Level::DOCUMENT,  Meaning::Read),
    row("x-wso2-disable-security",       Level::ALL,       Meaning::Read),
    row("x-auth-type",                   Level::ALL,       Meaning::Read),
    row("x-wso2-application-security",   Level::ALL,       Meaning::Read),
    row("x-scope",                       Level::OPERATION, Meaning::Read),
    row("x-scopes",                      Level::OPERATION, Meaning::Read),
    row("x-wso2-auth-header",            Level::DOCUMENT,  Meaning::Read),
    row("x-wso2-transports",             Level::DOCUMENT,  Meaning::Read),
    row("x-wso2-cors",                   Level::DOCUMENT,  Meaning::Read),
    row("x-wso2-throttling-tier",        Level::ALL,       Meaning::Unserved(tier)),
    row("x-throttling-tier",             Level::ALL,       Meaning::Unserved(tier)),
    row("x-wso2-mutual-ssl",             Level::DOCUMENT,  Meaning::Unserved(mutual_tls)),
    row("x-wso2-request-interceptor",    Level::ALL,       Meaning::Unserved(interceptor)),
    row("x-wso2-response-interceptor",   Level::ALL,       Meaning::Unserved(interceptor)),
    row("x-mediation-script",            Level::ALL,       Meaning::Unserved(script)),
    row("x-wso2-response-cache",         Level::DOCUMENT,  Meaning::Unserved(cache)),
    row("x-wso2-http2-backend-enabled",  Level::ALL,       Meaning::Unserved(http2)),
    row("x-wso2-owner",                  Level::DOCUMENT,  Meaning::Harmless),
    row("x-wso2-label",                  Level::DOCUMENT,  Meaning::Harmless),
    row("x-penstock-default-version",    Level::DOCUMENT,  Meaning::Read),
    row("x-penstock-hosts",              Level::DOCUMENT,  Meaning::Read),
    row("x-penstock-upgrades",           Level::DOCUMENT,  Meaning::Read),
    row("x-penstock-forward-auth-header", Level::DOCUMENT, Meaning::Read),
    row("x-penstock-scopes",             Level::ALL,       Meaning::Read),
];

/// Whether `key` is for us: a name of [`EXTENSIONS`], or a misspelt one.
pub(crate) fn is_extension(key: &str) -> bool {
    key.starts_with("x-wso2-") || key.starts_with("x-penstock-") || find(key).is_some()
}

fn find(key: &str) -> Option<&'static Row> {
    EXTENSIONS.iter().find(|row| row.name == key)
}

/// Judges the extensions of `map`, which stands at `level`: unknown, misplaced or not served yet.
pub(super) fn check(map: &Map<'_>, level: Level, report: &mut Report) {
    for member in map.iter().filter(|member| is_extension(&member.key)) {
        match find(&member.key) {
            None => unknown(member, report),
            Some(row) if !row.level.has(level) => misplaced(member, row, report),
            Some(row) => match row.meaning {
                Meaning::Read | Meaning::Harmless => {}
                Meaning::Unserved(judge) => match judge(&member.value) {
                    Finding::Nothing => {}
                    Finding::Warning(why) => {
                        report.warning(member.key_place, format!("`{}`: {why}", row.name), "")
                    }
                    Finding::Error(why, help) => {
                        report.error(member.key_place, format!("`{}`: {why}", row.name), help)
                    }
                },
            },
        }
    }
}

fn unknown(member: &Member<'_>, report: &mut Report) {
    let ours = member.key.starts_with("x-penstock-");
    let prefix = if ours { "x-penstock-" } else { "x-" };
    let names = EXTENSIONS.iter().map(|row| row.name).filter(|name| name.starts_with(prefix));
    let help = suggest(&member.key, names, || "remove it: it has no effect".to_owned());
    let message = format!("the extension `{}` is unknown", shorten(&member.key));
    if ours {
        report.error(member.key_place, message, help);
    } else {
        report.warning(member.key_place, message, help);
    }
}

/// Without effect there, though its author thinks otherwise: an error for all but the harmless.
fn misplaced(member: &Member<'_>, row: &Row, report: &mut Report) {
    let message = format!("`{}` has no effect here", row.name);
    let help = format!("it belongs to {}", row.level.name());
    match row.meaning {
        Meaning::Harmless => report.warning(member.key_place, message, help),
        Meaning::Read | Meaning::Unserved(_) => report.error(member.key_place, message, help),
    }
}

fn tier(value: &Node<'_>) -> Finding {
    match value.as_text() {
        Some(name) if name.eq_ignore_ascii_case("unlimited") => Finding::Nothing,
        Some(_) | None => Finding::Error(
            "limits are not served yet, and without this one more would pass than it allows",
            "remove it, or write `Unlimited`",
        ),
    }
}

fn mutual_tls(value: &Node<'_>) -> Finding {
    match value.as_text() {
        Some("optional") => {
            Finding::Warning("client certificates are not served yet: callers need a token")
        }
        Some(_) | None => Finding::Error(
            "client certificates are not served yet, and without them callers would pass that it stops",
            "remove it, or write `optional`: callers need a token then",
        ),
    }
}

fn interceptor(_: &Node<'_>) -> Finding {
    Finding::Error(
        "interceptors are not served yet, and this one may refuse or mask what would pass without it",
        "remove it if the API is safe without it",
    )
}

fn script(_: &Node<'_>) -> Finding {
    Finding::Error(
        "scripts are not served yet, and the operation would do something else",
        "remove it",
    )
}

fn cache(value: &Node<'_>) -> Finding {
    let enabled = value.as_map().and_then(|map| map.get("enabled")).and_then(Node::as_bool);
    match enabled {
        Some(false) => Finding::Nothing,
        Some(true) | None => {
            Finding::Warning("responses are not cached yet: each request goes to the backend")
        }
    }
}

fn http2(value: &Node<'_>) -> Finding {
    match value.as_bool() {
        Some(false) => Finding::Nothing,
        Some(true) | None => Finding::Warning("backends are spoken to in HTTP/1.1 for now"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_extension_is_listed_once_and_recognised() {
        for row in EXTENSIONS {
            assert_eq!(
                EXTENSIONS.iter().filter(|other| other.name == row.name).count(),
                1,
                "{}",
                row.name
            );
            assert!(is_extension(row.name), "{}", row.name);
            assert!(!row.level.name().is_empty(), "{}", row.name);
        }
        assert!(!is_extension("x-github"));
    }
}
