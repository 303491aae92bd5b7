//! Instruction counts of each stage. `cargo xtask instructions` runs the cases under callgrind and takes the
//! difference of two runs of different length, so that startup and preparation don't count. Instruction counts hardly
//! vary between runs, unlike times, so each case has a limit.
//!
//! `penstock-benches list` prints the cases; `penstock-benches CASE N` runs one of them N times.

mod codec;
mod decisions;
mod mediation;
mod records;

use std::process::ExitCode;

/// As in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A measured case.
struct Case {
    name: &'static str,
    /// Most instructions of one iteration. A change that needs more states the reason here.
    instructions_max: u64,
    /// Prepares, then runs `times` iterations.
    run: fn(times: usize),
}

#[rustfmt::skip]
const CASES: &[Case] = &[
    // 3 to 6 % above the counts when they were set: other processors take other paths through memchr. The counts are
    // those of the cargo profile `instructions`: some are above those of a release, which is optimised across crates.
    Case { name: "parse_request_head",   instructions_max: 4_800, run: codec::parse_request_head },
    Case { name: "parse_response_head",  instructions_max: 2_020, run: codec::parse_response_head },
    Case { name: "write_request_head",   instructions_max: 805, run: codec::write_request_head },
    Case { name: "decode_chunked_1_kib", instructions_max: 765, run: codec::decode_chunked },
    Case { name: "route_of_1000_apis",   instructions_max: 1_230, run: decisions::route },
    Case { name: "token_cache_hit",      instructions_max: 492, run: decisions::token_cache_hit },
    Case { name: "opaque_token_hit",     instructions_max: 398, run: decisions::opaque_token_hit },
    // 212, 254 and 275 in three builds of one source; the cause is not known.
    Case { name: "api_key_hit",          instructions_max: 330, run: decisions::api_key_hit },
    Case { name: "login_hit",            instructions_max: 542, run: decisions::login_hit },
    // Subscription check, application limit, subscription limit and burst: 0.8 us.
    Case { name: "subscription_and_quotas", instructions_max: 2_000, run: decisions::subscription_and_quotas },
    // A worker serves no request meanwhile: 1 ms at most.
    Case { name: "scrape_turn",          instructions_max: 570_000, run: decisions::scrape_turn },
    // A core must record at least 20 million per second: 50 ns each.
    Case { name: "record_latency",       instructions_max: 114, run: records::record_latency },
    // SOAP orders of 1 KB through the examples' proxy services, without the network.
    Case { name: "parse_soap_1_kb",      instructions_max: 14_100, run: mediation::parse_soap },
    Case { name: "parse_attributes_1_kb", instructions_max: 14_600, run: mediation::parse_attributes },
    Case { name: "direct_proxy",         instructions_max: 9_800, run: mediation::direct_proxy },
    Case { name: "route_by_body",        instructions_max: 29_500, run: mediation::route_by_body },
    Case { name: "route_by_body_10_kb",  instructions_max: 109_600, run: mediation::route_by_body_10_kb },
    Case { name: "json_template",        instructions_max: 34_800, run: mediation::json_template },
    Case { name: "iterate_10",           instructions_max: 312_000, run: mediation::iterate_10 },
    Case { name: "two_transforms",       instructions_max: 90_800, run: mediation::two_transforms },
    // The budget of all decisions before a request is forwarded.
    Case { name: "pure_pipeline",        instructions_max: 2_650, run: decisions::pure_pipeline },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["list"] => {
            for Case { name, instructions_max, .. } in CASES {
                println!("{name} {instructions_max}");
            }
            ExitCode::SUCCESS
        }
        [name, times] => match (CASES.iter().find(|case| case.name == *name), times.parse()) {
            (Some(case), Ok(times)) => {
                (case.run)(times);
                ExitCode::SUCCESS
            }
            _ => usage(),
        },
        _ => usage(),
    }
}

fn usage() -> ExitCode {
    eprintln!("usage: penstock-benches list | CASE TIMES");
    ExitCode::from(2)
}

#[cfg(test)]
mod tests {
    use super::CASES;

    #[test]
    fn every_case_runs() {
        for case in CASES {
            (case.run)(3);
        }
    }
}
