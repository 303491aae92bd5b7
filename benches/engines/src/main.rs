//! The engines' side of `cargo xtask engines`; peer.c is that of libxml2 and libxslt.
//!
//! Both read commands from stdin, one per line with tab-separated words, and write one line each: the minimum time of
//! one repetition in nanoseconds, and a checksum of the result, so that wrong results are noticed. `documents FOLDER`
//! writes the documents; `mediators` writes the costs of mediators.
//!
//! Architecture invariant: one thread, the system's allocator as in the peer, and no state between commands.

mod documents;
mod json;
mod markup;
mod mediators;

use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// The output of a command.
type Output = Result<String, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    if std::env::args().nth(1).as_deref() == Some("mediators") {
        return match mediators::costs() {
            Ok(file) => {
                println!("{file}");
                ExitCode::SUCCESS
            }
            Err(error) => fail(&error.to_string()),
        };
    }
    if let (Some("documents"), Some(folder)) = (arguments.next().as_deref(), arguments.next()) {
        return match documents::write(std::path::Path::new(&folder)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(&error.to_string()),
        };
    }
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        match execute(&line.split('\t').collect::<Vec<_>>()) {
            Ok(output) => println!("{output}"),
            Err(error) => return fail(&format!("{line}: {error}")),
        }
        _ = std::io::stdout().flush();
    }
    ExitCode::SUCCESS
}

fn fail(error: &str) -> ExitCode {
    eprintln!("penstock-engines: {error}");
    ExitCode::FAILURE
}

fn execute(command: &[&str]) -> Output {
    match *command {
        ["read", file] => markup::read(file),
        ["heap", file] => markup::heap(file),
        ["select", file, expression] => markup::select(file, expression),
        ["transform", file, sheet] => markup::transform(file, sheet),
        ["jsonpath", path] => json::jsonpath(path),
        ["expression", source] => json::synapse(source),
        ["template", size] => json::template(size.parse()?),
        _ => Err("unknown command".into()),
    }
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// The minimum over many batches, in nanoseconds of one repetition, as in peer.c.
fn least_ns(mut work: impl FnMut()) -> f64 {
    const BATCH: Duration = Duration::from_micros(500);
    const ALL: Duration = Duration::from_millis(25);
    const BATCHES_MIN: u32 = 5;
    let (start, mut least_ns, mut batches, mut times) = (cpu_time(), f64::INFINITY, 0, 1_u32);
    while cpu_time().saturating_sub(start) < ALL || batches < BATCHES_MIN {
        let batch = cpu_time();
        (0..times).for_each(|_| work());
        let took = cpu_time().saturating_sub(batch);
        if took < BATCH {
            times = times.saturating_mul(2);
            continue;
        }
        least_ns = least_ns.min(took.as_secs_f64() * 1e9 / f64::from(times));
        batches += 1;
    }
    least_ns
}
