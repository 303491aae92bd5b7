use base::SystemEntropy;
use model::{CircuitBreaker, HealthCheck, Scheme, SuspensionTime};

use super::*;
use crate::forward::health::Checked;
use crate::forward::pool::PoolLimits;
use crate::forward::shared::Shared;

const RULE: Suspension = Suspension::Consecutive {
    failures: 2,
    lasts: SuspensionTime { initial_ms: Some(1_000), factor: 2.0, max_ms: 3_000 },
    codes: None,
    marks: None,
    mark_ms: 0,
};

pub(crate) fn endpoint(number: u16) -> Endpoint {
    Endpoint {
        scheme: Scheme::Http,
        host: "127.0.0.1".to_owned(),
        port: 9000 + number,
        path: String::new(),
        authority: format!("127.0.0.1:{}", 9000 + number),
    }
}

fn upstream(kind: UpstreamKind, count: u16, suspension: Suspension) -> Upstream {
    Upstream { suspension, ..Upstream::new(kind, (0..count).map(endpoint).collect()) }
}

fn balancer(kind: UpstreamKind, count: u16, suspension: Suspension) -> Balancer {
    Balancer::new(&upstream(kind, count, suspension), None, &Pools::default())
}

fn broken(operation: usize) -> Failure {
    Failure::Broken { operation }
}

#[track_caller]
fn check(kind: UpstreamKind, count: u16, script: &str, expect: &str) {
    run(&[balancer(kind, count, RULE)], script, expect);
}

/// Without a rule in the file.
#[track_caller]
fn check_outliers(count: u16, script: &str, expect: &str) {
    let kind = if count == 1 { UpstreamKind::Single } else { UpstreamKind::Failover };
    run(&[balancer(kind, count, Suspension::Outliers)], script, expect);
}

/// A single endpoint: its circuit breaker opens for a second if more than half of at least four exchanges within
/// the last second fail.
#[track_caller]
fn check_breaker(script: &str, expect: &str) {
    let breaker = CircuitBreaker {
        requests_min: 4,
        window_ms: 1_000,
        failure_ratio: 0.5,
        reset_ms: 1_000,
        statuses: vec![503],
    };
    run(&[balancer(UpstreamKind::Single, 1, Suspension::Ratio(breaker))], script, expect);
}

/// Two workers that share the health of two endpoints.
#[track_caller]
fn check_two_workers(suspension: Suspension, script: &str, expect: &str) {
    let shared = Shared::new(2, &SystemEntropy);
    let upstream = upstream(UpstreamKind::Failover, 2, suspension);
    let name = || Some(("pets".to_owned(), "1".to_owned(), 0));
    let limits = PoolLimits { open_max: 9, idle_max: 9 };
    let pools = |shared| Pools::new(Arc::clone(shared), limits);
    let worker = || Balancer::new(&upstream, name(), &pools(&shared));
    run(&[worker(), worker()], script, expect);
}

/// Runs `script`: `?` selects an endpoint, `xN` records a failed connection to endpoint N, `bN` a broken exchange, `BN`
/// one of another operation, `oN` a success, `ON` one of another operation, `sN` a 503, `+N` advances the clock by N
/// milliseconds; `f0` is a response with a SOAP fault of a single endpoint; `10*bN` is `bN` ten times; `|` changes to
/// the other worker. `expect` lists the selections.
#[track_caller]
pub(crate) fn run(workers: &[Balancer], script: &str, expect: &str) {
    let (mut now_us, mut worker) = (0, 0);
    let mut selected = Vec::new();
    let repeated = script.split(' ').flat_map(|word| {
        let (times, word) = word.split_once('*').unwrap_or(("1", word));
        std::iter::repeat_n(word, times.parse().unwrap())
    });
    for word in repeated {
        let balancer = &workers[worker];
        let number = word[1..].parse::<u32>().unwrap_or(0);
        let endpoint = balancer.endpoints.get(number as usize);
        match &word[..1] {
            "?" => selected.push(match balancer.choose(now_us, Tried::default()) {
                Ok(chosen) => {
                    let position = chosen.position.to_string();
                    // The outcome of the request comes later.
                    std::mem::forget(chosen);
                    position
                }
                Err(fault) if matches!(*fault, Fault::NotReady { .. }) => "303001".to_owned(),
                Err(_) => "303000".to_owned(),
            }),
            "x" => balancer.failed(endpoint.unwrap(), Failure::Unreachable, now_us),
            "b" => balancer.failed(endpoint.unwrap(), broken(1), now_us),
            "B" => balancer.failed(endpoint.unwrap(), broken(2), now_us),
            "o" => balancer.responded(endpoint.unwrap(), 200, 1, now_us),
            "O" => balancer.responded(endpoint.unwrap(), 200, 3, now_us),
            "s" => balancer.responded(endpoint.unwrap(), 503, 1, now_us),
            "f" => {
                let fault = Fault::Mediation { code: 500_000, reason: String::new() };
                balancer.judged(200, Some(&fault), now_us);
            }
            "|" => worker = 1 - worker,
            _ => now_us += u64::from(number) * 1_000,
        }
    }
    assert_eq!(selected.join(" "), expect, "{script}");
}

#[test]
fn a_soap_fault_that_the_rule_leaves_out_ends_a_suspension() {
    let Suspension::Consecutive { failures, lasts, mark_ms, .. } = RULE else { unreachable!() };
    let rule = |code| {
        let codes = Some(vec![101_503, code]);
        Suspension::Consecutive { failures, lasts, codes, marks: None, mark_ms }
    };
    for (code, expect) in
        [(101_504, "0 303001 0 303001 0 0"), (500_000, "0 303001 0 303001 303001 303001")]
    {
        let balancer = balancer(UpstreamKind::Single, 1, rule(code));
        run(&[balancer], "? x0 x0 ? +1000 ? ? f0 ? ?", expect);
    }
}

#[test]
fn round_robin_skips_suspended_endpoints() {
    check(UpstreamKind::RoundRobin, 3, "? ? ? ?", "0 1 2 0");
    check(UpstreamKind::RoundRobin, 3, "x1 x1 ? ? ? ?", "0 2 2 0");
}

#[test]
fn failover_uses_the_first_endpoint_that_is_not_suspended() {
    check(UpstreamKind::Failover, 2, "? ? x0 ? x0 ? ?", "0 0 0 1 1");
}

#[test]
fn a_success_resets_the_failure_count() {
    check(UpstreamKind::Single, 1, "x0 o0 x0 ?", "0");
}

#[test]
fn a_suspended_endpoint_is_not_ready_until_its_suspension_ends() {
    check(UpstreamKind::Single, 1, "x0 x0 ? +999 ? +1 ?", "303001 303001 0");
}

#[test]
fn only_one_probe_is_sent_at_a_time() {
    check(UpstreamKind::Single, 1, "x0 x0 +1000 ? ? o0 ?", "0 303001 0");
    check(UpstreamKind::RoundRobin, 1, "x0 x0 +1000 ? ?", "0 303000");
}

#[test]
fn each_failed_probe_doubles_the_suspension_up_to_the_maximum() {
    check(
        UpstreamKind::Single,
        1,
        "x0 x0 +1000 ? x0 +1999 ? +1 ? x0 +2999 ? +1 ? x0 +2999 ? +1 ?",
        "0 303001 0 303001 0 303001 0",
    );
}

#[test]
fn a_probe_without_outcome_expires() {
    check(UpstreamKind::Single, 1, "x0 x0 +1000 ? +9999 ? +1 ?", "0 303001 0");
}

#[test]
fn a_probe_whose_client_closes_allows_the_next() {
    let balancer = balancer(UpstreamKind::Single, 1, RULE);
    balancer.failed(&balancer.endpoints[0], broken(1), 0);
    balancer.failed(&balancer.endpoints[0], broken(1), 0);
    let probe = balancer.choose(1_000_000, Tried::default()).unwrap();
    assert!(balancer.choose(1_000_000, Tried::default()).is_err());
    drop(probe);
    assert!(balancer.choose(1_000_000, Tried::default()).is_ok());
}

#[test]
fn a_single_endpoint_is_never_suspended_by_default() {
    check_outliers(1, "100*x0 100*b0 ?", "0");
}

#[test]
fn an_endpoint_that_cannot_be_reached_is_suspended_and_used_again_after_a_probe() {
    check_outliers(2, "x0 x0 ? x0 ? +999 ? +1 ? o0 ?", "0 1 1 0 0");
    check_outliers(2, "3*x0 +1000 ? x0 ? +1999 ? +1 ?", "0 1 1 0");
}

#[test]
fn half_of_a_set_stays_in_use_however_it_fails() {
    check_outliers(2, "3*x0 9*x1 ?", "1");
    check_outliers(3, "3*x0 9*x1 ? 9*x2 ?", "1 1");
    check_outliers(4, "3*x0 3*x1 9*x2 ?", "2");
}

#[test]
fn an_endpoint_whose_exchanges_nearly_all_break_is_suspended() {
    check_outliers(2, "2*o0 B0 9*b0 ?", "0");
    check_outliers(2, "1*o0 B0 9*b0 ?", "1");
    check_outliers(2, "B0 8*b0 ? b0 ?", "0 1");
}

#[test]
fn an_operation_that_breaks_at_one_endpoint_alone_is_evidence_about_it() {
    check_outliers(2, "o1 9*b0 ?", "0");
    check_outliers(2, "o1 10*b0 ?", "1");
    check_outliers(2, "10*b0 o1 b0 ?", "1");
    // It breaks there too, succeeds here too, or was served there long ago.
    check_outliers(2, "9*o1 b1 20*b0 ?", "0");
    check_outliers(2, "9*o1 o0 20*b0 ?", "0");
    check_outliers(2, "9*o1 +5000 20*b0 ?", "0");
}

#[test]
fn one_operation_that_breaks_suspends_no_endpoint() {
    check_outliers(2, "1000*b0 ?", "0");
    check_outliers(2, "1000*b0 B0 ?", "1");
    // Two break, and two others succeed.
    check_outliers(2, "o0 O0 20*b0 20*B0 ?", "0");
    check_outliers(2, "O0 20*b0 20*B0 ?", "1");
    check_outliers(2, "500*b0 +2000 b0 +2000 500*B0 ?", "1");
    check_outliers(2, "500*b0 +4000 500*B0 ?", "0");
}

#[test]
fn failures_and_successes_of_the_past_do_not_count() {
    check_outliers(2, "2*x0 +4000 x0 ?", "0");
    check_outliers(2, "1000*o0 +4000 3*x0 ?", "1");
}

#[test]
fn a_circuit_breaker_opens_if_too_many_exchanges_of_its_window_fail() {
    check_breaker("2*o0 2*b0 ? b0 ?", "0 303001");
    check_breaker("3*x0 ?", "0");
    check_breaker("o0 3*x0 ? +999 ? +1 ?", "303001 303001 0");
    check_breaker("o0 3*s0 ?", "303001");
    check_breaker("3*x0 +1000 b0 ?", "0");
}

#[test]
fn a_late_response_ends_no_suspension() {
    check_breaker("4*x0 o0 ? +999 o0 ? +1 ?", "303001 303001 0");
    check_outliers(2, "9*x0 o0 ?", "1");
    check(UpstreamKind::Single, 1, "x0 x0 o0 ?", "303001");
}

#[test]
fn a_probe_closes_a_circuit_breaker_or_keeps_it_open_as_long_again() {
    check_breaker("4*x0 +1000 ? o0 ? ?", "0 0 0");
    check_breaker("4*x0 +1000 ? s0 ? +999 ? +1 ?", "0 303001 303001 0");
}

#[test]
fn a_failure_that_one_worker_finds_counts_for_all() {
    check_two_workers(RULE, "x0 | x0 ? | ?", "1 1");
    check_two_workers(RULE, "2*x0 | +1000 ? | ? | o0 | ?", "0 1 0");
    check_two_workers(Suspension::Outliers, "2*x0 | x0 ? | ?", "1 1");
}

#[test]
fn successes_of_other_workers_count_after_a_moment() {
    check_two_workers(Suspension::Outliers, "20*o0 +250 o0 | B0 9*b0 ?", "0");
    check_two_workers(Suspension::Outliers, "B0 | 9*b0 ? | ?", "1 1");
}

#[test]
fn half_of_a_set_stays_in_use_whichever_worker_finds_the_failures() {
    check_two_workers(Suspension::Outliers, "3*x0 | 3*x1 ? | ?", "1 1");
}

#[test]
fn an_endpoint_with_fewer_requests_gets_the_next_one() {
    for seed in 0..100 {
        let upstream = upstream(UpstreamKind::LeastRequests, 2, RULE);
        let mut balancer = Balancer::new(&upstream, None, &Pools::default());
        balancer.random = Random(Cell::new(seed));
        let busy = balancer.endpoints[0].pool.enter();
        for _ in 0..4 {
            assert_eq!(balancer.choose(0, Tried::default()).unwrap().position, 1, "{seed}");
        }
        drop(busy);
        let mut tried = Tried::default();
        tried.add(1);
        assert_eq!(balancer.choose(0, tried).unwrap().position, 0);
    }
}

/// 10,000 requests that never end, to five endpoints of which one is suspended.
#[test]
fn least_requests_spreads_requests_evenly_over_open_endpoints() {
    let upstream = upstream(UpstreamKind::LeastRequests, 5, RULE);
    let mut balancer = Balancer::new(&upstream, None, &Pools::default());
    balancer.random = Random(Cell::new(1));
    balancer.failed(&balancer.endpoints[2], broken(1), 0);
    balancer.failed(&balancer.endpoints[2], broken(1), 0);
    let mut entered = Vec::new();
    for _ in 0..10_000 {
        let chosen = balancer.choose(0, Tried::default()).unwrap();
        entered.push(chosen.endpoint.pool.enter());
    }
    let counts: Vec<_> = balancer.endpoints.iter().map(|e| e.pool.requests()).collect();
    assert_eq!((counts[2], counts.iter().sum::<usize>()), (0, 10_000));
    for count in [0, 1, 3, 4].map(|position| counts[position]) {
        assert!(count.abs_diff(2_500) <= 10, "{counts:?}");
    }
}

const CHECK: HealthCheck = HealthCheck {
    path: String::new(),
    interval_ms: 1_000,
    timeout_ms: 1_000,
    unhealthy_after: 2,
    healthy_after: 3,
};

/// Runs health checks of endpoint 0 of two: `-` fails, `+` passes, `u` becomes unhealthy, `h` healthy again; `o` is a
/// response, `x` a failed connection; a digit is the endpoint that a request then uses.
#[track_caller]
fn check_health(script: &str) {
    let balancer = balancer(UpstreamKind::Failover, 2, RULE);
    let first = &balancer.endpoints[0];
    let mut before = None;
    for step in script.chars() {
        match step {
            '-' | '+' => before = Some((first.health.checked(step == '+', &CHECK, 1), step)),
            'u' => assert_eq!(before, Some((Some(Checked::Unhealthy), '-')), "{script}"),
            'h' => assert_eq!(before, Some((Some(Checked::Healthy), '+')), "{script}"),
            'o' => balancer.responded(first, 200, 1, 1),
            'x' => balancer.failed(first, Failure::Unreachable, 1),
            position => {
                let chosen = balancer.choose(1, Tried::default()).unwrap().position;
                assert_eq!(chosen.to_string(), position.to_string(), "{script}");
            }
        }
    }
}

#[test]
fn health_checks_in_a_row_suspend_an_endpoint_and_end_its_suspension() {
    check_health("0-0-u1-1");
    check_health("-+-0-u1");
    check_health("--u+1+1+h0");
    check_health("--u++-+1+1+h0");
}

#[test]
fn only_health_checks_end_what_health_checks_began() {
    check_health("--uo1x1xx1+++h0");
}

#[test]
fn a_set_whose_endpoints_are_all_unhealthy_is_used_unless_its_file_has_a_rule() {
    for (rule, expect) in [(Suspension::Outliers, Some(0)), (RULE, None)] {
        let balancer = balancer(UpstreamKind::Failover, 2, rule);
        for endpoint in &balancer.endpoints {
            endpoint.health.checked(false, &CHECK, 0);
            endpoint.health.checked(false, &CHECK, 0);
        }
        let chosen = balancer.choose(0, Tried::default()).ok().map(|chosen| chosen.position);
        assert_eq!(chosen, expect);
    }
}

/// The requests in a hundred to an endpoint, `ms` after its suspension ended, in a set of two with four seconds of slow
/// start.
fn share(kind: UpstreamKind, ms: u64) -> usize {
    let mut upstream = upstream(kind, 2, RULE);
    upstream.slow_start_ms = 4_000;
    let mut balancer = Balancer::new(&upstream, None, &Pools::default());
    balancer.random = Random(Cell::new(7));
    let endpoint = &balancer.endpoints[0];
    balancer.failed(endpoint, broken(1), 0);
    balancer.failed(endpoint, broken(1), 0);
    balancer.responded(endpoint, 200, 1, 1_000_000);
    let now_us = 1_000_000 + ms * 1_000;
    let chosen = || balancer.choose(now_us, Tried::default()).unwrap().position;
    (0..10_000).filter(|_| chosen() == 0).count() / 100
}

#[test]
fn an_endpoint_that_is_active_again_gets_a_growing_share() {
    for kind in [UpstreamKind::RoundRobin, UpstreamKind::LeastRequests] {
        let shares = [0, 2_000, 3_999, 4_000].map(|ms| share(kind, ms));
        assert!((4..=6).contains(&shares[0]), "a tenth of its half: {shares:?}");
        assert!((23..=27).contains(&shares[1]), "half of its half: {shares:?}");
        assert!((48..=51).contains(&shares[2]) && (48..=51).contains(&shares[3]), "{shares:?}");
    }
    assert_eq!(share(UpstreamKind::Failover, 0), 100, "there is no other choice");
}
