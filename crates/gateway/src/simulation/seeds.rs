//! The seeds that run.

use std::panic::{AssertUnwindSafe, catch_unwind};

use base::{Entropy, SystemClock, SystemEntropy};

use super::services::Service;
use super::world::World;

/// Seeds of `cargo test`.
const FIXED: u64 = 2_500;

/// A fault that seeds found.
struct Found {
    fault: &'static str,
    /// Known seeds. Once the simulation draws differently, they produce other schedules. Empty: a test on sockets has
    /// the schedule.
    seeds: &'static [u64],
    /// Condition on a schedule to find the fault again. At least `SCHEDULES_MIN` of the fixed seeds must have it.
    needs: fn(&World) -> bool,
}

const FOUND: &[Found] = &[
    Found {
        fault: "while the gateway drained, a connection was closed whose request waited for its turn",
        seeds: &[1_994],
        needs: |world| world.drains() && world.is_crowded(),
    },
    Found {
        // tests/conformance/uploads.rs
        fault: "a response whose upload had stalled was recorded as 499",
        seeds: &[],
        needs: |world| world.has_large_bodies() && !world.is_calm(),
    },
    Found {
        fault: "the body of a response that no mediator had read was not released with its run",
        seeds: &[39],
        needs: |world| world.serves(Service::Clone) && !world.is_calm(),
    },
    Found {
        fault: "a closed connection stayed in its client's count, since a spare request knew it",
        seeds: &[0],
        needs: |_| true,
    },
    Found {
        fault: "a validation that crossed a change stored what was there before it",
        seeds: &[99_099_517_010_015],
        needs: |world| world.serves(Service::Cached),
    },
];

const SCHEDULES_MIN: usize = 20;

/// Runs one seed. If it fails, it runs again with everything that happens printed.
#[track_caller]
fn check(seed: u64) -> usize {
    let quiet = catch_unwind(AssertUnwindSafe(|| World::new(seed, false).run()));
    let Err(panic) = quiet else { return quiet.unwrap() };
    let mut world = World::new(seed, true);
    let _ = catch_unwind(AssertUnwindSafe(|| world.run()));
    for line in world.take_trace() {
        println!("{line}");
    }
    let reason = panic.downcast_ref::<String>().map(String::as_str);
    let reason = reason.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("panic");
    panic!(
        "seed {seed} failed: {reason}\n  \
         run again: PENSTOCK_SEED={seed} cargo test --package penstock-gateway --lib simulation::seeds\n  \
         keep it:   in FOUND of crates/gateway/src/simulation/seeds.rs, with the fix"
    )
}

/// The number in an environment variable.
fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

#[test]
fn whatever_the_network_does_each_exchange_keeps_its_bytes_to_itself() {
    if let Some(seed) = number("PENSTOCK_SEED") {
        check(seed);
        return;
    }
    let exchanges: usize = (0..FIXED).map(check).sum();
    assert!(exchanges as u64 > FIXED, "{exchanges} exchanges");
}

#[test]
fn what_was_found_would_be_found_again() {
    FOUND.iter().flat_map(|found| found.seeds).for_each(|seed| {
        check(*seed);
    });
    let mut schedules = [0; FOUND.len()];
    for seed in 0..FIXED {
        let world = World::new(seed, false);
        for (found, count) in FOUND.iter().zip(&mut schedules) {
            *count += usize::from((found.needs)(&world));
        }
    }
    for (Found { fault, .. }, count) in FOUND.iter().zip(schedules) {
        assert!(count >= SCHEDULES_MIN, "{count} schedules could find: {fault}");
    }
}

#[test]
fn a_seed_always_runs_the_same() {
    for seed in 0..20 {
        let trace = || {
            let mut world = World::new(seed, true);
            world.run();
            let mut trace = world.take_trace();
            // A sweep closes several connections in any order.
            trace.sort();
            trace
        };
        assert!(trace() == trace(), "seed {seed}");
    }
}

/// `make fuzz` runs this.
#[test]
#[ignore = "runs for PENSTOCK_SIMULATION_SECONDS, with fresh seeds"]
fn fresh_seeds() {
    let seconds = number("PENSTOCK_SIMULATION_SECONDS").unwrap_or(10);
    let (first, clock) = (SystemEntropy.u64() >> 16, SystemClock::new());
    let (mut seeds, mut exchanges) = (0, 0);
    while clock.now_us() < seconds * 1_000_000 {
        exchanges += check(first + seeds);
        seeds += 1;
    }
    println!("simulation: {seeds} seeds from {first}, {exchanges} exchanges");
}
