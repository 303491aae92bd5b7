//! Checks on the conditions of a measurement: generator, backend and machine.

use super::consistency::QUEUED_SHARE_MAX;
use super::{Backend, Finding, Row};

/// CPU utilisation above which a generator thread counts as saturated: wake-ups are delayed, and the delays
/// make the target look slower than it is.
const BUSY_MAX: f64 = 0.85;
/// Maximum share of the time that a generator thread may wait for a CPU.
const WAITED_MAX: f64 = 0.10;
/// Maximum 99th percentile of the lateness of scheduled starts, in milliseconds.
const LATE_P99_MS_MAX: f64 = 1.0;
/// Scheduling lag that is always tolerated, in milliseconds, and its maximum share of the latency's 99th
/// percentile.
const LAG_P99_MS_MAX: f64 = 1.0;
const LAG_SHARE_MAX: f64 = 0.25;
/// Minimum speed of the backend alone, relative to the speed through the target.
const BACKEND_TIMES: f64 = 2.0;
/// If the target adds less than this share to the backend's delay, it is too little to judge.
const DELAY_SHARE: f64 = 0.05;
/// Share of ports or descriptors in use above which new ones may fail.
const FULL: f64 = 0.90;
/// Maximum change of the wall clock relative to the monotonic clock, in microseconds. NTP slews by at most
/// 500 us per second and steps at more than 128 ms.
const CLOCK_STEP_US_MAX: f64 = 100_000.0;
/// Maximum CPU time stolen by the hypervisor, in percent.
const STEAL_PERCENT_MAX: f64 = 2.0;
/// From here on, the CPU time of processes is too high as well: by 20 to 60 % at 13 to 25 % stolen, by 200 % at 64 %
/// (the same case with and without, on a two-CPU virtual machine).
const CPU_STEAL_PERCENT_MAX: f64 = 10.0;
/// Maximum CPU time used by other processes, in percent.
const OTHER_CPU_PERCENT_MAX: f64 = 5.0;

pub(super) fn saturated(row: &Row) -> Finding {
    let Some(generator) = row.generator else { return Finding::NotApplicable };
    if generator.busy <= BUSY_MAX {
        return Finding::Passed;
    }
    Finding::Warning(format!(
        "a generator thread was busy {:.0} % of the time, so the generator may be the bottleneck",
        generator.busy * 100.0
    ))
}

pub(super) fn late(row: &Row) -> Finding {
    let Some(generator) = row.generator else { return Finding::NotApplicable };
    if generator.waited > WAITED_MAX {
        return Finding::Warning(format!(
            "a generator thread waited for a CPU {:.0} % of the time, and latencies include that wait",
            generator.waited * 100.0
        ));
    }
    let p99_ms = row.percentiles_ms.iter().find(|(percent, _)| *percent >= 99.0);
    if let Some((_, p99)) = p99_ms
        && generator.lag_p99_ms > LAG_P99_MS_MAX
        && generator.lag_p99_ms > LAG_SHARE_MAX * p99.value
    {
        return Finding::Warning(format!(
            "the generator's scheduling lag is {:.1} ms, and the 99th percentile of {:.1} ms includes it",
            generator.lag_p99_ms, p99.value
        ));
    }
    // A start that waited for a connection is late because of the target.
    let waited_for_target = row.queued_share.is_some_and(|share| share > QUEUED_SHARE_MAX);
    match generator.late_p99_ms.filter(|_| !waited_for_target) {
        Some(late_ms) if late_ms > LATE_P99_MS_MAX => {
            Finding::Warning(format!("1 % of requests started more than {late_ms:.1} ms late"))
        }
        Some(_) | None => Finding::Passed,
    }
}

/// Beyond the delay that both have, the backend alone must take at most half the time per request that it
/// takes through the target. Without a delay, it must be at least twice as fast.
pub(super) fn backend(row: &Row) -> Finding {
    let (Some(backend), Some(rate)) = (row.backend, row.rate_per_s) else {
        return Finding::NotApplicable;
    };
    let Backend { alone_per_s: Some(alone_per_s), delay_ms } = backend else {
        return Finding::NotApplicable;
    };
    if delay_ms <= 0.0 {
        let times = alone_per_s / rate.high;
        return if times >= BACKEND_TIMES {
            Finding::Passed
        } else {
            Finding::Warning(slow(alone_per_s, times))
        };
    }
    let super::Loop::Closed { users, think_ms } = row.loop_kind else {
        return Finding::NotApplicable;
    };
    let added = |per_s: f64| users * 1_000.0 / per_s - think_ms - delay_ms;
    let (alone_ms, through_ms) = (added(alone_per_s), added(rate.value));
    if through_ms < DELAY_SHARE * delay_ms || through_ms >= BACKEND_TIMES * alone_ms {
        return Finding::Passed;
    }
    Finding::Warning(format!(
        "beyond its delay of {delay_ms:.0} ms, the backend takes {alone_ms:.1} ms alone and \
         {through_ms:.1} ms through the target"
    ))
}

/// A response of the backend takes at least its delay. Failures may be faster, so this
/// checks the median; failures have checks of their own.
pub(super) fn delay(row: &Row) -> Finding {
    let median = row.percentiles_ms.iter().find(|(percent, _)| *percent >= 50.0);
    let (Some(Backend { delay_ms, .. }), Some((_, median))) = (row.backend, median) else {
        return Finding::NotApplicable;
    };
    if median.high >= delay_ms {
        return Finding::Passed;
    }
    Finding::Warning(format!(
        "the backend's delay is {delay_ms:.0} ms, but half of the responses took at most {:.1} ms: they \
         are not from this backend",
        median.value
    ))
}

fn slow(alone_per_s: f64, times: f64) -> String {
    format!(
        "alone, the backend serves {alone_per_s:.0} requests per second, only {times:.2} times the \
         rate through the target; below {BACKEND_TIMES} it may be the bottleneck"
    )
}

pub(super) fn ports(row: &Row) -> Finding {
    full(row.conditions.ports, "ephemeral ports", "connections may have waited or failed")
}

pub(super) fn descriptors(row: &Row) -> Finding {
    full(row.conditions.descriptors, "file descriptors", "connections may have failed")
}

fn full(used: Option<(f64, f64)>, what: &str, so: &str) -> Finding {
    let Some((used, most)) = used else { return Finding::NotApplicable };
    if used <= FULL * most {
        return Finding::Passed;
    }
    Finding::Warning(format!("{used:.0} of {most:.0} {what} were in use: {so}"))
}

pub(super) fn clock(row: &Row) -> Finding {
    let Some(step_us) = row.conditions.clock_step_us else { return Finding::NotApplicable };
    if step_us.abs() <= CLOCK_STEP_US_MAX {
        return Finding::Passed;
    }
    Finding::Warning(format!(
        "the wall clock changed by {:.1} ms during the measurement, so times in logs are off",
        step_us / 1_000.0
    ))
}

pub(super) fn steal(row: &Row) -> Finding {
    stolen(row, STEAL_PERCENT_MAX, CPU_STEAL_PERCENT_MAX)
}

/// CPU time that was stolen is in part counted as that of the process which ran.
pub(super) fn high_steal(row: &Row) -> Finding {
    stolen(row, CPU_STEAL_PERCENT_MAX, f64::INFINITY)
}

fn stolen(row: &Row, above: f64, most: f64) -> Finding {
    let Some(percent) = row.conditions.steal_percent else { return Finding::NotApplicable };
    if percent <= above || percent > most {
        return Finding::Passed;
    }
    Finding::Warning(format!(
        "the hypervisor stole {percent:.1} % of the CPU time of the machine or of a pinned CPU"
    ))
}

pub(super) fn busy(row: &Row) -> Finding {
    let Some(percent) = row.conditions.other_cpu_percent else { return Finding::NotApplicable };
    if percent <= OTHER_CPU_PERCENT_MAX {
        return Finding::Passed;
    }
    Finding::Warning(format!(
        "other processes used {percent:.1} % of the CPU time of the machine or of the pinned CPUs"
    ))
}
