//! The engines' side of `cargo xtask bench engines`; peer.c, beside this, is that of libxml2 and libxslt.
//!
//! Both are asked in turn, one line on stdin each time (words between tabs), and answer on one line: the least
//! nanoseconds of one time, and a witness of the result, so that a faster wrong answer is noticed. `documents FOLDER`
//! writes what is measured.
//!
//! Architecture invariant: one thread, the system's allocator as in the peer, and no state that one question leaves
//! for the next.

mod documents;
mod json;
mod markup;

use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// What a question is answered with.
type Answer = Result<String, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    if let (Some("documents"), Some(folder)) = (arguments.next().as_deref(), arguments.next()) {
        return match documents::write(std::path::Path::new(&folder)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => told(&error.to_string()),
        };
    }
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        match answer(&line.split('\t').collect::<Vec<_>>()) {
            Ok(answer) => println!("{answer}"),
            Err(error) => return told(&format!("{line}: {error}")),
        }
        _ = std::io::stdout().flush();
    }
    ExitCode::SUCCESS
}

fn told(error: &str) -> ExitCode {
    eprintln!("penstock-engines: {error}");
    ExitCode::FAILURE
}

fn answer(question: &[&str]) -> Answer {
    match *question {
        ["read", file] => markup::read(file),
        ["heap", file] => markup::heap(file),
        ["select", file, expression] => markup::select(file, expression),
        ["transform", file, sheet] => markup::transform(file, sheet),
        ["jsonpath", path] => json::jsonpath(path),
        ["expression", source] => json::synapse(source),
        ["template", size] => json::template(size.parse()?),
        _ => Err("this isn't measured here".into()),
    }
}

/// The thread's own CPU time: what runs beside it on the core doesn't count.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// The least of many batches, in nanoseconds of one time: what else the machine does only ever adds. peer.c does the same.
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
