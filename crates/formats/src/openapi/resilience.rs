//! The failure handling of an endpoint set: `advanceEndpointConfig`, `suspendEndpointFailure` and Penstock's own keys,
//! which docs/resilience.md describes. Sources: API Microgateway 3 and Choreo Connect for the former, the endpoint
//! settings of API Manager for the latter.

use std::ops::RangeInclusive;

use base::limits;
use model::{
    CircuitBreaker, ConnectionLimits, HealthCheck, Retry, Suspension, SuspensionTime, Upstream,
    UpstreamKind,
};

use super::values;
use crate::address;
use crate::report::{Report, one_of, shorten, suggest};
use crate::tree::{Map, Node};

const MS: RangeInclusive<u32> = 1..=limits::CONFIGURED_MS_MAX;
const MS_OR_NONE: RangeInclusive<u32> = 0..=limits::CONFIGURED_MS_MAX;
/// Default duration of a suspension, in milliseconds. Source: Synapse.
const SUSPENSION_MS: u32 = 30_000;
/// Default window of a circuit breaker, in milliseconds. Source: Ballerina's defaults.
const WINDOW_MS: u32 = 60_000;
const WINDOW_REQUESTS: u32 = 10;

/// Reads the rules of the endpoint set `map` into `upstream`, which has the defaults. Invalid rules are reported.
pub(super) fn read(map: &Map<'_>, upstream: &mut Upstream, report: &mut Report) {
    let set = Section::whole(map);
    if let Some(ms) = set.number("x-penstock-try-ms", MS, report) {
        upstream.try_ms = Some(ms);
    }
    if let Some(ms) = set.number("x-penstock-slow-start-ms", MS_OR_NONE, report) {
        upstream.slow_start_ms = ms;
    }
    upstream.health_check = health_check(&set, report);
    balance(map, upstream, report);
    let advanced = set.section("advanceEndpointConfig", &ADVANCED, &[], report);
    if let Some(advanced) = &advanced {
        if let Some(ms) = advanced.number("timeoutInMillis", MS, report) {
            upstream.response_head_ms = ms;
        }
        retry(advanced, &mut upstream.retry, report);
        pool(advanced, &mut upstream.connections, report);
        breakers(advanced, upstream, report);
    }
    let breaker = advanced.as_ref().and_then(|advanced| circuit_breaker(advanced, report));
    let suspension = suspension(&set, report);
    if let (Some(_), Some(_), Some(member)) =
        (&breaker, &suspension, map.member("suspendEndpointFailure"))
    {
        let message = "`suspendEndpointFailure` and `circuitBreaker` exclude each other";
        report.error(member.key_place, message, "remove one of them");
    }
    if let Some(rule) = breaker.or(suspension) {
        upstream.suspension = rule;
    }
}

const ADVANCED: [&str; 5] =
    ["timeoutInMillis", "retryConfig", "circuitBreaker", "circuitBreakers", "poolConfig"];

fn balance(map: &Map<'_>, upstream: &mut Upstream, report: &mut Report) {
    const VALUES: [&str; 2] = ["round_robin", "least_requests"];
    let Some(node) = map.get("x-penstock-balance") else { return };
    let Some(written) = values::text(node, "x-penstock-balance", report) else { return };
    match (written, upstream.kind) {
        ("round_robin" | "least_requests", UpstreamKind::Failover) => {
            let message = "`x-penstock-balance` has no effect on a failover set";
            report.error(node.place, message, "remove it, or write `type: load_balance`");
        }
        ("least_requests", UpstreamKind::RoundRobin) => upstream.kind = UpstreamKind::LeastRequests,
        ("round_robin" | "least_requests", _) => {}
        (other, _) => {
            let help = suggest(other, VALUES, || format!("write {}", one_of(VALUES)));
            report.error(node.place, format!("unknown balance `{}`", shorten(other)), help);
        }
    }
}

fn retry(advanced: &Section<'_>, retry: &mut Retry, report: &mut Report) {
    const KEYS: [&str; 5] =
        ["count", "intervalInMillis", "backOffFactor", "maxWaitIntervalInMillis", "statusCodes"];
    let Some(config) = advanced.section("retryConfig", &KEYS, &[], report) else { return };
    if let Some(count) = config.number("count", 0..=limits::RETRIES_MAX, report) {
        retry.count = count;
    }
    if let Some(ms) = config.number("intervalInMillis", MS_OR_NONE, report) {
        retry.pause_ms = ms;
    }
    if let Some(factor) = config.real("backOffFactor", 1.0..=FACTOR_MAX, report) {
        retry.factor = factor;
    }
    if let Some(ms) = config.number("maxWaitIntervalInMillis", MS_OR_NONE, report) {
        retry.pause_ms_max = ms;
    }
    retry.statuses = config.statuses("statusCodes", report);
}

/// Largest factor by which a pause or suspension grows.
const FACTOR_MAX: f64 = 100.0;

/// `poolConfig`. Source: API Microgateway, where `-1` means unlimited.
fn pool(advanced: &Section<'_>, pool: &mut ConnectionLimits, report: &mut Report) {
    const KEYS: [&str; 3] = ["maxActiveConnections", "maxIdleConnections", "waitTimeInMillis"];
    const IGNORED: [(&str, &str); 1] =
        [("maxActiveStreamsPerConnection", "upstreams are contacted over HTTP/1.1")];
    let Some(config) = advanced.section("poolConfig", &KEYS, &IGNORED, report) else { return };
    if !config.is_text("maxActiveConnections", "-1") {
        pool.in_use_max = config.number("maxActiveConnections", 1..=u32::MAX, report);
    }
    pool.idle_max = config.number("maxIdleConnections", 0..=u32::MAX, report);
    pool.wait_ms = config.number("waitTimeInMillis", MS, report);
}

/// `circuitBreakers`: Choreo Connect's limits, which are Envoy's. A request needs a connection of its own, so the lower
/// one of `maxConnections` and `maxRequests` applies.
fn breakers(advanced: &Section<'_>, upstream: &mut Upstream, report: &mut Report) {
    const KEYS: [&str; 4] = ["maxConnections", "maxRequests", "maxPendingRequests", "maxRetries"];
    const IGNORED: [(&str, &str); 1] =
        [("maxConnectionPools", "each worker has one pool for each address")];
    let limits = advanced.section("circuitBreakers", &KEYS, &IGNORED, report);
    let Some(limits) = limits else { return };
    let pool = &mut upstream.connections;
    for key in ["maxConnections", "maxRequests"] {
        let limit = limits.number(key, 1..=u32::MAX, report);
        pool.in_use_max = [pool.in_use_max, limit].into_iter().flatten().min();
    }
    pool.waiting_max = limits.number("maxPendingRequests", 0..=u32::MAX, report);
    upstream.retry.concurrent_max = limits.number("maxRetries", 0..=u32::MAX, report);
}

fn circuit_breaker(advanced: &Section<'_>, report: &mut Report) -> Option<Suspension> {
    const KEYS: [&str; 4] =
        ["rollingWindow", "failureThreshold", "resetTimeInMillis", "statusCodes"];
    const WINDOW_KEYS: [&str; 2] = ["requestVolumeThreshold", "timeWindowInMillis"];
    const IGNORED: [(&str, &str); 1] =
        [("bucketSizeInMillis", "the window moves by half of its length")];
    let config = advanced.section("circuitBreaker", &KEYS, &[], report)?;
    let threshold = config.real("failureThreshold", 0.0..=1.0, report);
    if config.map.get("failureThreshold").is_none() {
        let place = advanced.map.member("circuitBreaker").map(|member| member.key_place);
        let message = "`circuitBreaker` has no `failureThreshold`";
        report.error(place, message, "add `failureThreshold: 0.5`");
    }
    let window = config.section("rollingWindow", &WINDOW_KEYS, &IGNORED, report);
    let of_window = |key, range, report: &mut Report| window.as_ref()?.number(key, range, report);
    Some(Suspension::Ratio(CircuitBreaker {
        requests_min: of_window("requestVolumeThreshold", 0..=u32::MAX, report)
            .unwrap_or(WINDOW_REQUESTS),
        window_ms: of_window("timeWindowInMillis", MS, report).unwrap_or(WINDOW_MS),
        failure_ratio: threshold?,
        reset_ms: config.number("resetTimeInMillis", MS, report).unwrap_or(SUSPENSION_MS),
        statuses: config.statuses("statusCodes", report),
    }))
}

fn suspension(set: &Section<'_>, report: &mut Report) -> Option<Suspension> {
    const KEYS: [&str; 7] = [
        "suspendDuration",
        "suspendMaxDuration",
        "factor",
        "retryTimeOut",
        "suspendErrorCode",
        "retryErroCode",
        "retryDelay",
    ];
    let config = set.section("suspendEndpointFailure", &KEYS, &[], report)?;
    let initial_ms = config.number("suspendDuration", MS_OR_NONE, report).unwrap_or(SUSPENSION_MS);
    let max_ms = config.number("suspendMaxDuration", MS_OR_NONE, report).unwrap_or(initial_ms);
    let tolerated = config.number("retryTimeOut", 0..=limits::FAILURES_TOLERATED_MAX, report);
    let factor = config.real("factor", 1.0..=FACTOR_MAX, report).unwrap_or(1.0);
    let max_ms = max_ms.max(initial_ms);
    let lasts = SuspensionTime { initial_ms: Some(initial_ms), factor, max_ms };
    let failures = if initial_ms == 0 { 0 } else { tolerated.unwrap_or(0).saturating_add(1) };
    let (codes, marks) =
        (config.codes("suspendErrorCode", report), config.codes("retryErroCode", report));
    let (codes, marks) = match (codes.is_empty(), marks.is_empty()) {
        (true, _) => (None, None),
        (false, true) => (Some(codes), None),
        (false, false) => (Some([codes, marks.clone()].concat()), Some(marks)),
    };
    let mark_ms = config.number("retryDelay", MS_OR_NONE, report).unwrap_or(0);
    Some(Suspension::Consecutive { failures, lasts, codes, marks, mark_ms })
}

fn health_check(set: &Section<'_>, report: &mut Report) -> Option<HealthCheck> {
    const KEYS: [&str; 5] =
        ["path", "interval_ms", "timeout_ms", "unhealthy_after", "healthy_after"];
    let config = set.section("x-penstock-health", &KEYS, &[], report)?;
    let path = config.map.get("path").and_then(|node| {
        let path = values::text(node, "path", report)?;
        let problem = match path.split_once('?') {
            Some((path, query)) if query.bytes().all(|b| b.is_ascii_graphic() && b != b'#') => {
                address::path_prefix(path).err()
            }
            Some(_) => Some(("the query is not valid".to_owned(), "percent-encode it".to_owned())),
            None => address::path_prefix(path).err(),
        };
        if let Some((message, help)) = problem {
            report.error(node.place, message, help);
        }
        path.starts_with('/').then(|| path.to_owned())
    });
    if config.map.get("path").is_none() {
        let place = set.map.member("x-penstock-health").map(|member| member.key_place);
        report.error(place, "`x-penstock-health` has no `path`", "add `path: /health`");
    }
    let in_a_row = 1..=limits::HEALTH_CHECKS_IN_A_ROW_MAX;
    let interval_ms = config.number("interval_ms", CHECK_MS, report);
    let timeout_ms = config.number("timeout_ms", MS, report);
    Some(HealthCheck {
        path: path?,
        interval_ms: interval_ms.unwrap_or(limits::HEALTH_CHECK_INTERVAL_MS),
        timeout_ms: timeout_ms.unwrap_or(limits::HEALTH_CHECK_MS_MAX),
        unhealthy_after: config.number("unhealthy_after", in_a_row.clone(), report).unwrap_or(3),
        healthy_after: config.number("healthy_after", in_a_row, report).unwrap_or(2),
    })
}

/// The interval of health checks.
const CHECK_MS: RangeInclusive<u32> = 100..=limits::CONFIGURED_MS_MAX;

/// A map whose keys are read by name.
struct Section<'n> {
    map: &'n Map<'n>,
}

impl<'n> Section<'n> {
    fn whole(map: &'n Map<'n>) -> Self {
        Self { map }
    }

    /// The map under `key`. Keys other than `known` are reported, with the consequence for those in `ignored`.
    fn section(
        &self,
        key: &str,
        known: &[&str],
        ignored: &[(&str, &str)],
        report: &mut Report,
    ) -> Option<Self> {
        let map = values::map(self.map.get(key)?, key, report)?;
        for member in map.iter() {
            let name = member.key.as_ref();
            if let Some((_, instead)) = ignored.iter().find(|(ignored, _)| *ignored == name) {
                let message = format!("`{name}` is not supported: {instead}");
                report.warning(member.key_place, message, "remove it");
            } else if !known.contains(&name) {
                let help = suggest(name, known.iter().copied(), || "remove it".to_owned());
                let message = format!("unknown key `{}` in `{key}`", shorten(name));
                report.warning(member.key_place, message, help);
            }
        }
        Some(Self { map })
    }

    fn is_text(&self, key: &str, text: &str) -> bool {
        self.map.get(key).and_then(Node::as_text) == Some(text)
    }

    fn number(&self, key: &str, range: RangeInclusive<u32>, report: &mut Report) -> Option<u32> {
        let node = self.map.get(key)?;
        let written = values::text(node, key, report)?;
        let number = written.parse::<u32>().ok().filter(|number| range.contains(number));
        if number.is_none() {
            let help = format!("write a whole number from {} to {}", range.start(), range.end());
            report.error(node.place, format!("invalid `{key}: {}`", shorten(written)), help);
        }
        number
    }

    fn real(&self, key: &str, range: RangeInclusive<f64>, report: &mut Report) -> Option<f64> {
        let node = self.map.get(key)?;
        let written = values::text(node, key, report)?;
        let number = written.parse::<f64>().ok().filter(|number| range.contains(number));
        if number.is_none() {
            let help = format!("write a number from {} to {}", range.start(), range.end());
            report.error(node.place, format!("invalid `{key}: {}`", shorten(written)), help);
        }
        number
    }

    /// Codes of faults, one or a list.
    fn codes(&self, key: &str, report: &mut Report) -> Vec<u32> {
        let Some(node) = self.map.get(key) else { return Vec::new() };
        let mut codes = Vec::new();
        for (written, place) in values::texts(node, key, report).unwrap_or_default() {
            match written.parse::<u32>() {
                Ok(code) => codes.push(code),
                Err(_) => {
                    let message = format!("`{}` is not an error code", shorten(written));
                    report.error(place, message, "write a number like 101504");
                }
            }
        }
        codes
    }

    /// Statuses of final responses.
    fn statuses(&self, key: &str, report: &mut Report) -> Vec<u16> {
        let Some(node) = self.map.get(key) else { return Vec::new() };
        let mut statuses = Vec::new();
        for (written, place) in values::texts(node, key, report).unwrap_or_default() {
            match written.parse::<u16>() {
                Ok(status) if (200..600).contains(&status) => statuses.push(status),
                Ok(_) | Err(_) => {
                    let message = format!("`{}` is not a status", shorten(written));
                    report.error(place, message, "write a number from 200 to 599");
                }
            }
        }
        statuses
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::openapi::{Defaults, Outcome};
    use crate::report::assert_lines;

    /// The outcome for an API whose endpoint set has these keys, on line 5.
    fn load(keys: &str) -> Outcome {
        let text = format!(
            "openapi: 3.0.3\ninfo: {{title: A, version: 1}}\npaths: {{/*: {{get: {{}}}}}}\n\
             x-wso2-production-endpoints:\n  {{urls: [http://b, http://c], {keys}}}\n"
        );
        let none = |_: &str| Err(String::new());
        crate::openapi::read(Path::new("a.yaml"), text.as_bytes(), &none, &Defaults::default())
    }

    #[track_caller]
    fn check(keys: &str, change: impl FnOnce(&mut Upstream)) {
        let outcome = load(keys);
        assert!(outcome.diagnostics.is_empty(), "{keys}: {:?}", outcome.diagnostics);
        let found = outcome.api.and_then(|api| api.upstreams.into_iter().next()).unwrap();
        let mut expect = Upstream::new(UpstreamKind::RoundRobin, found.endpoints.clone());
        change(&mut expect);
        assert_eq!(found, expect, "{keys}");
    }

    #[track_caller]
    fn check_advanced(keys: &str, change: impl FnOnce(&mut Upstream)) {
        check(&format!("advanceEndpointConfig: {{{keys}}}"), change);
    }

    #[track_caller]
    fn reject(keys: &str, expect: &str) {
        let lines = load(keys).diagnostics.into_iter().map(|diagnostic| {
            let line = diagnostic.to_string().lines().next().unwrap_or_default().to_owned();
            let (_, rest) = line.split_once(": ").unwrap_or_default();
            rest.to_owned()
        });
        assert_lines(&lines.map(|line| format!(" {line}")).collect::<Vec<_>>(), expect);
    }

    #[test]
    fn a_set_without_rules_has_the_defaults() {
        check("name: a", |_| {});
    }

    #[test]
    fn a_set_chooses_how_it_is_balanced_and_how_long_a_try_lasts() {
        check("x-penstock-balance: least_requests, x-penstock-try-ms: 250", |set| {
            (set.kind, set.try_ms) = (UpstreamKind::LeastRequests, Some(250));
        });
        check("type: load_balance, x-penstock-balance: round_robin", |_| {});
        reject("x-penstock-balance: least", " error: unknown balance `least`");
        reject("x-penstock-balance: random", " error: unknown balance `random`");
        reject("type: failover, x-penstock-balance: round_robin", " error: no effect");
        reject("x-penstock-try-ms: 0", " error: invalid `x-penstock-try-ms: 0`");
        reject("x-penstock-trie-ms: 1", " error: unknown extension");
    }

    #[test]
    fn a_set_may_have_health_checks_and_a_slow_start() {
        check("x-penstock-slow-start-ms: 4000, x-penstock-health: {path: /up}", |set| {
            set.slow_start_ms = 4_000;
            set.health_check = Some(HealthCheck {
                path: "/up".to_owned(),
                interval_ms: 5_000,
                timeout_ms: 2_000,
                unhealthy_after: 3,
                healthy_after: 2,
            });
        });
        let keys = "path: '/up?deep=1', interval_ms: 100, timeout_ms: 50, unhealthy_after: 1, \
                    healthy_after: 4";
        check(&format!("x-penstock-health: {{{keys}}}"), |set| {
            set.health_check = Some(HealthCheck {
                path: "/up?deep=1".to_owned(),
                interval_ms: 100,
                timeout_ms: 50,
                unhealthy_after: 1,
                healthy_after: 4,
            });
        });
        reject("x-penstock-health: {}", " error: no `path`");
        reject("x-penstock-health: {path: up}", " error: `up`");
        reject("x-penstock-health: {path: '/a b'}", " error: `a b`");
        let odd = "x-penstock-health: {path: /up, interval_ms: 99}";
        reject(odd, " error: invalid `interval_ms: 99`");
    }

    #[test]
    fn retries_are_as_in_api_microgateway() {
        let keys = "count: 3, intervalInMillis: 100, backOffFactor: 1.5, \
                    maxWaitIntervalInMillis: 400, statusCodes: [502, 503]";
        check_advanced(&format!("timeoutInMillis: 900, retryConfig: {{{keys}}}"), |set| {
            set.response_head_ms = 900;
            set.retry = Retry {
                count: 3,
                pause_ms: 100,
                factor: 1.5,
                pause_ms_max: 400,
                statuses: vec![502, 503],
                ..Retry::default()
            };
        });
        check_advanced("retryConfig: {count: 0}", |set| set.retry.count = 0);
        let retry = |keys: &str| format!("advanceEndpointConfig: {{retryConfig: {{{keys}}}}}");
        reject(&retry("count: 11"), " error: invalid `count: 11`");
        reject(&retry("count: -1"), " error: invalid `count: -1`");
        reject(&retry("backOffFactor: 0.5"), " error: invalid `backOffFactor: 0.5`");
        reject(&retry("statusCodes: [504, 99]"), " error: `99` is not a status");
        reject(&retry("interval: 5"), " warning: unknown key `interval`");
    }

    #[test]
    fn limits_on_connections_are_as_in_api_microgateway_and_choreo_connect() {
        let keys = "maxActiveConnections: 20, maxIdleConnections: 5, waitTimeInMillis: 100";
        check_advanced(&format!("poolConfig: {{{keys}}}"), |set| {
            set.connections = ConnectionLimits {
                in_use_max: Some(20),
                idle_max: Some(5),
                waiting_max: None,
                wait_ms: Some(100),
            };
        });
        check_advanced("poolConfig: {maxActiveConnections: -1}", |_| {});
        let keys = "maxConnections: 20, maxRequests: 10, maxPendingRequests: 5, maxRetries: 2";
        check_advanced(&format!("circuitBreakers: {{{keys}}}"), |set| {
            (set.connections.in_use_max, set.connections.waiting_max) = (Some(10), Some(5));
            set.retry.concurrent_max = Some(2);
        });
        reject(
            "advanceEndpointConfig: {circuitBreakers: {maxConnectionPools: 2}}",
            " warning: one pool for each address",
        );
        reject(
            "advanceEndpointConfig: {poolConfig: {maxActiveStreamsPerConnection: 2}}",
            " warning: over HTTP/1.1",
        );
    }

    #[test]
    fn a_circuit_breaker_is_as_in_api_microgateway() {
        let window = "rollingWindow: {requestVolumeThreshold: 2, timeWindowInMillis: 5000}";
        let keys =
            format!("{window}, failureThreshold: 0.2, resetTimeInMillis: 700, statusCodes: [500]");
        check_advanced(&format!("circuitBreaker: {{{keys}}}"), |set| {
            set.suspension = Suspension::Ratio(CircuitBreaker {
                requests_min: 2,
                window_ms: 5_000,
                failure_ratio: 0.2,
                reset_ms: 700,
                statuses: vec![500],
            });
        });
        let breaker = |keys: &str| format!("advanceEndpointConfig: {{circuitBreaker: {{{keys}}}}}");
        reject(&breaker("resetTimeInMillis: 5"), " error: no `failureThreshold`");
        reject(&breaker("failureThreshold: 1.5"), " error: invalid `failureThreshold: 1.5`");
        reject(
            &breaker("failureThreshold: 1, rollingWindow: {bucketSizeInMillis: 2000}"),
            " warning: half of its length",
        );
        let both = format!("suspendEndpointFailure: {{}}, {}", breaker("failureThreshold: 1"));
        reject(&both, " error: exclude each other");
    }

    #[test]
    fn suspension_is_as_in_api_manager() {
        let rule = |failures, initial_ms, factor, max_ms| {
            let lasts = SuspensionTime { initial_ms: Some(initial_ms), factor, max_ms };
            Suspension::Consecutive { failures, lasts, codes: None, marks: None, mark_ms: 0 }
        };
        check("suspendEndpointFailure: {}", |set| {
            set.suspension = rule(1, 30_000, 1.0, 30_000);
        });
        let keys = "suspendDuration: 500, suspendMaxDuration: 4000, factor: 2, retryTimeOut: 3";
        check(&format!("suspendEndpointFailure: {{{keys}}}"), |set| {
            set.suspension = rule(4, 500, 2.0, 4_000);
        });
        check("suspendEndpointFailure: {suspendDuration: 0}", |set| {
            set.suspension = rule(0, 0, 1.0, 0);
        });
        let keys = "suspendErrorCode: [101503, '101505'], retryErroCode: 101504, retryDelay: 9";
        check(&format!("suspendEndpointFailure: {{{keys}}}"), |set| {
            let lasts = SuspensionTime { initial_ms: Some(30_000), factor: 1.0, max_ms: 30_000 };
            let codes = Some(vec![101_503, 101_505, 101_504]);
            let marks = Some(vec![101_504]);
            set.suspension =
                Suspension::Consecutive { failures: 1, lasts, codes, marks, mark_ms: 9 };
        });
        // Without `suspendErrorCode`, every failure suspends the endpoint.
        check("suspendEndpointFailure: {suspendErrorCode: [], retryErroCode: [101504]}", |set| {
            set.suspension = rule(1, 30_000, 1.0, 30_000);
        });
        reject(
            "suspendEndpointFailure: {suspendErrorCode: [x]}",
            " error: `x` is not an error code",
        );
    }
}
