//! Settings of the whole API: hosts, transports, header fields, CORS, upgrades, default version.

use std::collections::BTreeSet;

use base::limits::{CONFIGURED_MS_MAX, RESPONSE_CACHE_S};
use model::{Cors, Lifecycle, Place, Transports};

use super::cors;
use super::values;
use crate::address;
use crate::report::{Report, one_of, shorten, suggest};
use crate::tree::Map;

pub(super) struct General {
    pub(super) transports: Transports,
    pub(super) auth_header: String,
    pub(super) forward_auth_header: bool,
    pub(super) forward_fields: Vec<String>,
    pub(super) strict_paths: Option<bool>,
    pub(super) stall_ms: Option<u32>,
    pub(super) mutual_tls: bool,
    /// The name of a `[[login]]`, and its place.
    pub(super) login: Option<(String, Place)>,
    pub(super) cors: Option<Cors>,
    pub(super) response_cache: Option<u32>,
    pub(super) lifecycle: Lifecycle,
    pub(super) subscription: bool,
    pub(super) upgrades: Vec<String>,
}

pub(super) fn read(root: &Map<'_>, report: &mut Report) -> General {
    let (lifecycle, is_prototype) = lifecycle(root, report);
    General {
        transports: transports(root, report),
        auth_header: auth_header(root, report),
        forward_auth_header: flag(root, "x-penstock-forward-auth-header", report)
            .unwrap_or_default(),
        forward_fields: forward_fields(root, report),
        mutual_tls: mutual_tls(root),
        strict_paths: flag(root, "x-penstock-strict-paths", report),
        stall_ms: stall_ms(root, report),
        login: login(root, report),
        cors: root.get("x-wso2-cors").and_then(|node| cors::read(node, report)),
        response_cache: response_cache(root, report),
        lifecycle,
        subscription: flag(root, "x-penstock-subscription", report).unwrap_or(!is_prototype),
        upgrades: upgrades(root, report),
    }
}

fn login(root: &Map<'_>, report: &mut Report) -> Option<(String, Place)> {
    const NAME: &str = "x-penstock-login";
    let node = root.get(NAME)?;
    Some((values::text(node, NAME, report)?.to_owned(), node.place))
}

/// `x-penstock-lifecycle`, and whether the API is a prototype, which needs no subscription.
fn lifecycle(root: &Map<'_>, report: &mut Report) -> (Lifecycle, bool) {
    const NAME: &str = "x-penstock-lifecycle";
    const PROTOTYPE: &str = "prototyped";
    const STATES: [(&str, Lifecycle); 6] = [
        ("created", Lifecycle::Created),
        (PROTOTYPE, Lifecycle::Published),
        ("published", Lifecycle::Published),
        ("blocked", Lifecycle::Blocked),
        ("deprecated", Lifecycle::Deprecated),
        ("retired", Lifecycle::Retired),
    ];
    let node = root.get(NAME);
    let text = node.and_then(|node| Some((values::text(node, NAME, report)?, node.place)));
    let Some((text, place)) = text else { return (Lifecycle::default(), false) };
    let found = STATES.into_iter().find(|(name, _)| text.eq_ignore_ascii_case(name));
    found.map_or_else(
        || {
            let names = || STATES.into_iter().map(|(name, _)| name);
            let help = suggest(text, names(), || format!("write {}", one_of(names())));
            report.error(place, format!("unknown state `{}`", shorten(text)), help);
            (Lifecycle::default(), false)
        },
        |(name, state)| (state, name == PROTOTYPE),
    )
}

/// Whether `x-wso2-mutual-ssl` has a value that makes client certificates count: `mandatory`, or `optional`.
pub(super) fn has_certificates(root: &Map<'_>) -> bool {
    let text = root.get("x-wso2-mutual-ssl").and_then(|node| node.as_text());
    mutual_tls(root) || text.is_some_and(|text| text.eq_ignore_ascii_case("optional"))
}

/// Whether `x-wso2-mutual-ssl` is `mandatory`; other values are diagnostics of the extension.
pub(super) fn mutual_tls(root: &Map<'_>) -> bool {
    let text = root.get("x-wso2-mutual-ssl").and_then(|node| node.as_text());
    text.is_some_and(|text| text.eq_ignore_ascii_case("mandatory"))
}

/// `x-wso2-response-cache`: the time for which responses without a lifetime are stored, in seconds.
fn response_cache(root: &Map<'_>, report: &mut Report) -> Option<u32> {
    const NAME: &str = "x-wso2-response-cache";
    const KEYS: [&str; 2] = ["enabled", "cacheTimeoutInSeconds"];
    let map = values::map(root.get(NAME)?, NAME, report)?;
    for member in map.iter().filter(|member| !KEYS.contains(&member.key.as_ref())) {
        let message = format!("unknown key `{}` in `{NAME}`", shorten(&member.key));
        report.error(member.key_place, message, suggest(&member.key, KEYS, || "remove it".into()));
    }
    let is_on = map.get(KEYS[0]).and_then(|node| values::flag(node, KEYS[0], report));
    let seconds = match map.get(KEYS[1]) {
        None => RESPONSE_CACHE_S,
        Some(node) => {
            let seconds = node.as_text().and_then(|text| text.parse().ok());
            seconds.unwrap_or_else(|| {
                let message = format!("`{}` must be a number of seconds", KEYS[1]);
                report.error(node.place, message, "");
                RESPONSE_CACHE_S
            })
        }
    };
    is_on.unwrap_or(true).then_some(seconds)
}

fn stall_ms(root: &Map<'_>, report: &mut Report) -> Option<u32> {
    const NAME: &str = "x-penstock-stall-ms";
    let node = root.get(NAME)?;
    let written = values::text(node, NAME, report)?;
    let number = written.parse::<u32>().ok();
    let number = number.filter(|number| (1..=CONFIGURED_MS_MAX).contains(number));
    if number.is_none() {
        let help = format!("write a whole number from 1 to {CONFIGURED_MS_MAX}");
        report.error(node.place, format!("invalid `{NAME}: {}`", shorten(written)), help);
    }
    number
}

fn flag(root: &Map<'_>, name: &str, report: &mut Report) -> Option<bool> {
    root.get(name).and_then(|node| values::flag(node, name, report))
}

/// `x-penstock-hosts`, in lower case, without duplicates.
pub(super) fn hosts(root: &Map<'_>, report: &mut Report) -> Vec<String> {
    let name = "x-penstock-hosts";
    let listed =
        root.get(name).and_then(|node| Some((node.place, values::texts(node, name, report)?)));
    let Some((place, listed)) = listed else { return Vec::new() };
    if listed.is_empty() {
        report.error(
            place,
            format!("`{name}` is empty"),
            "add a host, or remove it to serve every host",
        );
    }
    let (mut hosts, mut known) = (Vec::new(), BTreeSet::new());
    for (text, place) in listed {
        match address::host_pattern(text) {
            Ok(host) if !known.insert(host.clone()) => {
                report.warning(place, format!("duplicate host `{host}`"), "remove it");
            }
            Ok(host) => hosts.push(host),
            Err((message, help)) => report.error(place, message, help),
        }
    }
    hosts
}

fn transports(root: &Map<'_>, report: &mut Report) -> Transports {
    let name = "x-wso2-transports";
    let both = Transports { http: true, https: true };
    let Some(node) = root.get(name) else { return both };
    let Some(listed) = values::texts(node, name, report) else { return both };
    let mut found = Transports { http: false, https: false };
    if listed.is_empty() {
        report.error(node.place, format!("`{name}` is empty"), "write [http, https], or remove it");
    }
    for (text, place) in listed {
        match text {
            "http" => found.http = true,
            "https" => found.https = true,
            other => {
                let help =
                    suggest(other, ["https", "http"], || "write `http` or `https`".to_owned());
                report.error(place, format!("unknown transport `{}`", shorten(other)), help);
            }
        }
    }
    found
}

fn auth_header(root: &Map<'_>, report: &mut Report) -> String {
    let name = "x-wso2-auth-header";
    let default = || "authorization".to_owned();
    let Some(node) = root.get(name) else { return default() };
    values::text(node, name, report).map_or_else(default, |text| field(text, node.place, report))
}

/// The name of a header field with a credential, in lower case.
pub(super) fn field(text: &str, place: Place, report: &mut Report) -> String {
    let lower = text.to_ascii_lowercase();
    if !cors::is_token(text) {
        let message = format!("`{}` is not a valid header field name", shorten(text));
        report.error(place, message, "use letters, digits and `-`");
    } else if RESERVED.contains(&lower.as_str()) {
        let message = format!("the header field `{}` cannot carry a credential", shorten(text));
        report.error(place, message, "use another one");
    }
    lower
}

/// Header fields that the gateway itself reads, replaces or removes.
const RESERVED: [&str; 13] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "forwarded",
    "content-type",
    "x-jwt-assertion",
    "x-forwarded-for",
];

/// The field in which the gateway itself forwards client certificates.
const CLIENT_CERTIFICATE: &str = "x-wso2-client-certificate";

/// `x-penstock-forward-fields`, in lower case.
fn forward_fields(root: &Map<'_>, report: &mut Report) -> Vec<String> {
    let name = "x-penstock-forward-fields";
    let Some(node) = root.get(name) else { return Vec::new() };
    let mut found = Vec::new();
    for (text, place) in values::texts(node, name, report).unwrap_or_default() {
        let lower = text.to_ascii_lowercase();
        if found.contains(&lower) {
            continue;
        }
        if model::IDENTITY_FIELDS.contains(&lower.as_str()) && lower != CLIENT_CERTIFICATE {
            found.push(lower);
        } else {
            let help = "list only fields that are removed otherwise, such as X-Real-IP; to forward \
                        X-Forwarded-* fields, add the client to [gateway] trusted_proxies";
            report.error(place, format!("`{}` is not an identity field", shorten(text)), help);
        }
    }
    found
}

/// Names of protocols, in lower case. h2c would carry requests past the gateway, so it is never
/// allowed.
fn upgrades(root: &Map<'_>, report: &mut Report) -> Vec<String> {
    let name = "x-penstock-upgrades";
    let Some(node) = root.get(name) else { return Vec::new() };
    let mut found = Vec::new();
    for (text, place) in values::texts(node, name, report).unwrap_or_default() {
        let lower = text.to_ascii_lowercase();
        let is_name = text.split('/').count() <= 2 && text.split('/').all(cors::is_token);
        if !is_name {
            report.error(
                place,
                format!("`{}` is not a valid protocol name", shorten(text)),
                "write the name used in the Upgrade field",
            );
        } else if lower == "h2c" {
            report.error(
                place,
                "upgrades to h2c are not supported",
                "remove it: clients can use HTTP/2 without an upgrade",
            );
        } else if lower == "websocket" {
            report.warning(place, "`websocket` is always allowed", "remove it");
        } else if !found.contains(&lower) {
            found.push(lower);
        }
    }
    found
}

/// The base path without the segment of the version, for `x-penstock-default-version`.
pub(super) fn default_path(
    root: &Map<'_>,
    base_path: &str,
    version: &str,
    report: &mut Report,
) -> Option<String> {
    let name = "x-penstock-default-version";
    if flag(root, name, report) != Some(true) {
        return None;
    }
    let mut segments: Vec<&str> = base_path.split('/').collect();
    let is_version =
        |segment: &&str| *segment == version || segment.strip_prefix('v') == Some(version);
    let Some(at) = segments.iter().rposition(is_version) else {
        let place = root.member(name).map(|member| member.key_place);
        let message = format!(
            "the base path `{base_path}` does not contain the version `{}`",
            shorten(version)
        );
        return report.reject(place, message, "set `x-wso2-basePath: /name/version`");
    };
    segments.remove(at);
    Some(segments.join("/"))
}
