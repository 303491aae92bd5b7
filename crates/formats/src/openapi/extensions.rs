//! Every extension that the reader knows: where it may appear, and whether it is supported.
//!
//! An unsupported extension is an error where ignoring it would weaken security, drop a limit or change the behaviour
//! of the API; otherwise it is a warning.

use crate::report::{Report, shorten, suggest};
use crate::tree::{Map, Member, Node};

/// The set of places where an extension may appear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Level(u8);

impl Level {
    /// A place where no extension belongs: `info`.
    pub(super) const ELSEWHERE: Self = Self(0);
    pub(super) const API: Self = Self(1);
    pub(super) const PATH: Self = Self(2);
    pub(super) const OPERATION: Self = Self(4);
    /// The map that lists endpoints.
    pub(super) const SET: Self = Self(8);
    const ALL: Self = Self(1 | 2 | 4);
    const API_OR_OPERATION: Self = Self(1 | 4);

    fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    fn name(self) -> String {
        let names = [
            (Self::API, "the top level of the file"),
            (Self::PATH, "a path item"),
            (Self::OPERATION, "an operation"),
            (Self::SET, "an endpoint set"),
        ];
        let held: Vec<&str> =
            names.into_iter().filter(|(level, _)| self.has(*level)).map(|(_, name)| name).collect();
        held.join(" or ")
    }
}

/// The values of an extension that a row is about.
#[derive(Clone, Copy, Debug)]
enum Value {
    Any,
    /// This string, in any case.
    Text(&'static str),
    /// `false`
    False,
    /// A map with `enabled: false`.
    Disabled,
    Map,
}

impl Value {
    fn matches(self, node: &Node<'_>) -> bool {
        match self {
            Self::Any => true,
            Self::Text(text) => node.as_text().is_some_and(|is| is.eq_ignore_ascii_case(text)),
            Self::False => node.as_bool() == Some(false),
            Self::Map => node.as_map().is_some(),
            Self::Disabled => {
                let enabled = node.as_map().and_then(|map| map.get("enabled"));
                enabled.and_then(Node::as_bool) == Some(false)
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Support {
    /// Another module reads it, and the gateway acts on it.
    Served,
    /// Accepted without a diagnostic, because it does not concern gateways.
    Accepted,
    /// Unsupported but safe to ignore: a warning.
    Warning,
    /// Unsupported and not safe to ignore: an error.
    Error,
}

struct Row {
    /// A name, or a prefix that ends in `*`.
    name: &'static str,
    level: Level,
    value: Value,
    support: Support,
    /// The effect of the extension; for an unsupported one, the consequence of its absence.
    note: &'static str,
    /// The replacement to write.
    help: &'static str,
}

const fn row(
    name: &'static str,
    level: Level,
    value: Value,
    support: Support,
    note: &'static str,
    help: &'static str,
) -> Row {
    Row { name, level, value, support, note, help }
}

/// One line per extension and value; the first line that matches applies. `cargo xtask openapi`
/// generates the table of docs/openapi.md from these lines.
#[rustfmt::skip]
const EXTENSIONS: &[Row] = &[
    row("x-wso2-basePath", Level::API, Value::Any, Support::Served, "Base path at the gateway, version included", ""),
    row("x-wso2-production-endpoints", Level::ALL, Value::Any, Support::Served, "Endpoints for production tokens: `type` (`http`, `load_balance`, `failover`), `urls`, `advanceEndpointConfig` (`timeoutInMillis`, `retryConfig`, `circuitBreaker`, `circuitBreakers`, `poolConfig`) and `suspendEndpointFailure`; [resilience](resilience.md) describes each key, and the few that have no effect", ""),
    row("x-wso2-sandbox-endpoints", Level::ALL, Value::Any, Support::Served, "Endpoints for sandbox tokens, with the same keys", ""),
    row("x-wso2-endpoints", Level::API, Value::Any, Support::Served, "Named endpoint sets, referred to as `#/x-wso2-endpoints/NAME`", ""),
    row("x-wso2-disable-security", Level::ALL, Value::Any, Support::Served, "`true`: no credential is required", ""),
    row("x-auth-type", Level::ALL, Value::Any, Support::Served, "`None`: no credential is required; `Any`, `Application & Application User`: any valid token; `Application`, `Application User`: only tokens of applications, or of users (claim `aut`)", ""),
    row("x-wso2-application-security", Level::ALL, Value::Any, Support::Served, "`security-types` lists the kinds of credential that are accepted, independent of `security`: `oauth2` and `jwt` (tokens), `api_key`, `basic_auth` (passwords of `[[user]]`). `optional: true`: with `x-wso2-mutual-ssl`, a request without a credential is accepted if its client has a certificate", ""),
    row("x-scope", Level::OPERATION, Value::Any, Support::Served, "Scopes, of which a token needs one", ""),
    row("x-scopes", Level::OPERATION, Value::Any, Support::Served, "The same", ""),
    row("x-wso2-auth-header", Level::API, Value::Any, Support::Served, "Header field that carries the token; `Authorization` by default", ""),
    row("x-wso2-transports", Level::API, Value::Any, Support::Served, "`http`, `https` or both", ""),
    row("x-wso2-cors", Level::API, Value::Any, Support::Served, "CORS rules, with the keys of API Microgateway or of API Manager; an origin may start with a wildcard (`https://*.example.org`)", ""),
    row("x-wso2-throttling-tier", Level::ALL, Value::Any, Support::Served, "Name of the plan for the requests to the API, or to an operation; [quotas](quotas.md) explains plans. The plan of the API takes precedence", ""),
    row("x-throttling-tier", Level::ALL, Value::Any, Support::Served, "The same", ""),
    row("x-throttling-policy", Level::ALL, Value::Any, Support::Served, "The same", ""),
    row("x-throttling-limit", Level::ALL, Value::Any, Support::Error, "requests would not be limited", "name a plan in `x-wso2-throttling-tier`"),
    row("x-wso2-mutual-ssl", Level::API, Value::Text("mandatory"), Support::Served, "`mandatory`: every request needs a client certificate, besides a token; `[tls] client_ca` names who issues them, and `x-penstock-client-certificates` which of them this API accepts", ""),
    row("x-wso2-mutual-ssl", Level::API, Value::Text("optional"), Support::Served, "`optional`: a certificate is accepted instead of a credential where `x-wso2-application-security` has `optional: true`, and makes no difference elsewhere", ""),
    row("x-wso2-mutual-ssl", Level::API, Value::Any, Support::Error, "clients without a certificate would be accepted", "write `mandatory`, or `optional`: clients need a token then"),
    row("x-wso2-api-key-header", Level::API, Value::Any, Support::Served, "Header field that carries API keys where `security-types` lists `api_key`; `apikey` by default", ""),
    row("x-wso2-request-interceptor", Level::ALL, Value::Map, Support::Served, "A service with Choreo Connect's contract that changes requests or responds to them: `serviceURL`, `includes`, `requestTimeout`; the policy `callInterceptorService` explains them. It runs after the other policies for requests, and overrides that of the level above", ""),
    row("x-wso2-request-interceptor", Level::ALL, Value::Any, Support::Error, "requests would be forwarded unchecked and unchanged", "write `serviceURL` of a service, since classes are not run, or remove it if the API is safe without it"),
    row("x-wso2-response-interceptor", Level::ALL, Value::Map, Support::Served, "The same for responses. It runs before the other policies for responses", ""),
    row("x-wso2-response-interceptor", Level::ALL, Value::Any, Support::Error, "responses would be forwarded unchecked and unchanged", "write `serviceURL` of a service, since classes are not run, or remove it if the API is safe without it"),
    row("x-mediation-script", Level::ALL, Value::Any, Support::Error, "requests would go to the upstream instead of the script", "remove it"),
    row("x-mock-response", Level::ALL, Value::Any, Support::Warning, "requests go to the upstream instead of getting a mock response", "remove it"),
    row("x-amzn-resource-name", Level::ALL, Value::Any, Support::Warning, "requests go to the endpoints of the API instead of an AWS Lambda function", "remove it"),
    row("x-uri-mapping", Level::ALL, Value::Any, Support::Warning, "the path is forwarded as it is", "remove it"),
    row("x-wso2-response-cache", Level::API, Value::Disabled, Support::Accepted, "No cache", ""),
    row("x-wso2-response-cache", Level::API, Value::Any, Support::Served, "Responses to GET are cached according to RFC 9111; `cacheTimeoutInSeconds` (300) applies to those without a lifetime. Requests with credentials, a certificate or a cookie get stored responses only if these are `public`. Operations with policies for requests or responses are not cached", ""),
    row("x-wso2-http2-backend-enabled", Level::ALL, Value::False, Support::Accepted, "HTTP/1.1", ""),
    row("x-wso2-http2-backend-enabled", Level::ALL, Value::Any, Support::Warning, "requests are forwarded over HTTP/1.1", ""),
    row("x-wso2-pass-request-payload-to-enforcer", Level::ALL, Value::False, Support::Accepted, "Nothing reads the body", ""),
    row("x-wso2-pass-request-payload-to-enforcer", Level::ALL, Value::Any, Support::Warning, "nothing but the upstream reads the body", "remove it"),
    row("x-basic-auth-scopes", Level::OPERATION, Value::Any, Support::Served, "The scopes that a user with a password needs, of which one suffices, instead of those of tokens", ""),
    row("x-wso2-security", Level::API, Value::Any, Support::Accepted, "API Manager's list of scopes and roles; the issuer assigns scopes", ""),
    row("x-wso2-owner", Level::API, Value::Any, Support::Accepted, "Owner of the API", ""),
    row("x-wso2-label", Level::API, Value::Any, Support::Accepted, "Gateway label", ""),
    row("x-wso2-curl", Level::OPERATION, Value::Any, Support::Accepted, "Documentation", ""),
    row("x-wso2-request", Level::OPERATION, Value::Any, Support::Accepted, "Documentation", ""),
    row("x-wso2-response", Level::OPERATION, Value::Any, Support::Accepted, "Documentation", ""),
    row("x-mgw-throttling-tier", Level::ALL, Value::Any, Support::Error, "requests would not be limited", "write `x-wso2-throttling-tier` instead"),
    row("x-mgw-request-interceptor", Level::ALL, Value::Any, Support::Error, "requests would be forwarded unchecked and unchanged", "remove it if the API is safe without it"),
    row("x-mgw-response-interceptor", Level::ALL, Value::Any, Support::Error, "responses would be forwarded unchecked and unchanged", "remove it if the API is safe without it"),
    row("x-mgw-*", Level::ALL, Value::Any, Support::Warning, "names of API Microgateway before 3.0 have no effect", "write the `x-wso2-` extension instead"),
    row("x-penstock-client-certificates", Level::API, Value::Any, Support::Served, "With `x-wso2-mutual-ssl`: the client certificates that the API accepts, among those of `[tls] client_ca`. A list, or one each under `production` and `sandbox`: PEM files in the folder of the description or below, and fingerprints (`sha256:` and hexadecimal digits); [mutual TLS](mutual-tls-and-dpop.md) explains them. Absent: all", ""),
    row("x-penstock-default-version", Level::API, Value::Any, Support::Served, "`true`: the API is also served at its base path without the version", ""),
    row("x-penstock-hosts", Level::API, Value::Any, Support::Served, "Hosts that the API is served for; `*.example.org` matches one or more labels. Absent: every host", ""),
    row("x-penstock-upgrades", Level::API, Value::Any, Support::Served, "Protocols that clients may upgrade to, besides `websocket`", ""),
    row("x-penstock-forward-auth-header", Level::API, Value::Any, Support::Served, "`true`: the token or API key is forwarded to the upstream", ""),
    row("x-penstock-forward-fields", Level::API, Value::Any, Support::Served, "Fields that are forwarded from every client, although they claim an identity, a URL or a method, such as `X-Real-IP` and `X-HTTP-Method-Override`. Absent: they are forwarded from `trusted_proxies` only", ""),
    row("x-penstock-strict-paths", Level::API, Value::Any, Support::Served, "`true`: a path with more than one interpretation gets 400: with `//`, `;`, `%2F`, `%5C`, a dot segment or a needless escape. Absent: `strict_paths` of the configuration", ""),
    row("x-penstock-stall-ms", Level::API, Value::Any, Support::Served, "Longest time without progress of a response's body, in milliseconds, such as between two events of a stream. Absent: `stall_ms` of the configuration", ""),
    row("x-penstock-policies", Level::API_OR_OPERATION, Value::Any, Support::Served, "`request`, `response` and `fault`: lists of policies (`name`, `parameters`), explained in [policies](policies.md). The API's run before the operation's", ""),
    row("x-penstock-balance", Level::SET, Value::Any, Support::Served, "`round_robin` (the default): each endpoint of a `load_balance` set in turn; `least_requests`: of two random endpoints, the one with fewer requests in progress", ""),
    row("x-penstock-try-ms", Level::SET, Value::Any, Support::Served, "Longest wait for the response head of one try, in milliseconds; a request that is safe to repeat is then retried. Absent: `try_ms` of the configuration", ""),
    row("x-penstock-health", Level::SET, Value::Any, Support::Served, "Health checks: `path`, `interval_ms`, `timeout_ms`, `unhealthy_after`, `healthy_after`, explained in [resilience](resilience.md)", ""),
    row("x-penstock-slow-start-ms", Level::SET, Value::Any, Support::Served, "Time for which an endpoint that is active again gets a growing share of the requests", ""),
    row("x-penstock-max-tps", Level::API, Value::Any, Support::Served, "The most requests that the endpoints of the API get, from all callers together: `production`, `sandbox`, and the units of time `productionTimeUnit`, `sandboxTimeUnit` (`SECOND` by default, `MINUTE`, `HOUR`), as in `maxTps` of API Manager. Beyond it: 503, 900801; [quotas](quotas.md)", ""),
    row("x-penstock-subscription", Level::API, Value::Any, Support::Served, "`false`: callers need no subscription, only a valid credential. Absent: they need one if `applications` are configured", ""),
    row("x-penstock-login", Level::API, Value::Any, Support::Served, "Name of a `[[login]]`, where browsers without a credential sign in; [browser sign-in](browser-sign-in.md) explains it", ""),
    row("x-penstock-lifecycle", Level::API, Value::Any, Support::Served, "State of the API, as in API Manager: `created` (403, 900908; served with an `Internal-Key`), `prototyped` (without subscriptions), `published` (the default), `blocked` (503, 700700), `deprecated` (served as before) or `retired` (404)", ""),
    row("x-penstock-scopes", Level::ALL, Value::Any, Support::Served, "`all`: a token needs all scopes; `any` (the default): one of them", ""),
];

/// Whether `key` is an extension of WSO2's gateways or of Penstock, or looks like a misspelt one.
pub(crate) fn is_extension(key: &str) -> bool {
    key.starts_with("x-wso2-") || key.starts_with("x-penstock-") || rows(key).next().is_some()
}

fn rows(key: &str) -> impl Iterator<Item = &'static Row> {
    EXTENSIONS.iter().filter(move |row| match row.name.strip_suffix('*') {
        Some(prefix) => key.starts_with(prefix),
        None => row.name == key,
    })
}

/// Reports the extensions of `map`, found at `level`, that are unknown, misplaced or unsupported.
pub(super) fn check(map: &Map<'_>, level: Level, report: &mut Report) {
    for member in map.iter().filter(|member| is_extension(&member.key)) {
        match rows(&member.key).find(|row| row.value.matches(&member.value)) {
            None => unknown(member, report),
            Some(row) if !row.level.has(level) => misplaced(member, row, report),
            Some(row) => unsupported(member, row, report),
        }
    }
}

fn unsupported(member: &Member<'_>, row: &Row, report: &mut Report) {
    let message = || format!("`{}` is not supported: {}", shorten(&member.key), row.note);
    match row.support {
        Support::Served | Support::Accepted => {}
        Support::Warning => report.warning(member.key_place, message(), row.help),
        Support::Error => report.error(member.key_place, message(), row.help),
    }
}

fn unknown(member: &Member<'_>, report: &mut Report) {
    let ours = member.key.starts_with("x-penstock-");
    let prefix = if ours { "x-penstock-" } else { "x-" };
    let names = EXTENSIONS.iter().map(|row| row.name).filter(|name| name.starts_with(prefix));
    let help = suggest(&member.key, names, || "remove it: it has no effect".to_owned());
    let message = format!("unknown extension `{}`", shorten(&member.key));
    if ours {
        report.error(member.key_place, message, help);
    } else {
        report.warning(member.key_place, message, help);
    }
}

/// Reports an extension that has no effect at its place, although its author expects one: an error, unless it never has
/// an effect.
fn misplaced(member: &Member<'_>, row: &Row, report: &mut Report) {
    let message = format!("`{}` has no effect here", shorten(&member.key));
    let help = format!("move it to {}", row.level.name());
    match row.support {
        Support::Accepted | Support::Warning => report.warning(member.key_place, message, help),
        Support::Served | Support::Error => report.error(member.key_place, message, help),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_row_of_each_extension_matches_every_value() {
        for row in EXTENSIONS {
            assert!(is_extension(row.name.trim_end_matches('*')), "{}", row.name);
            assert!(!row.level.name().is_empty() && !row.note.is_empty(), "{}", row.name);
            let last = EXTENSIONS.iter().rfind(|other| other.name == row.name);
            assert!(last.is_some_and(|last| matches!(last.value, Value::Any)), "{}", row.name);
        }
        assert!(!is_extension("x-github"));
    }

    #[test]
    fn an_extension_that_is_not_safe_to_ignore_has_a_help_text() {
        for row in EXTENSIONS.iter().filter(|row| row.support == Support::Error) {
            assert!(!row.help.is_empty(), "{}", row.name);
        }
    }
}
