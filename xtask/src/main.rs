//! The project's own chores: `cargo xtask NAME`. Each reads the work tree and says what it found;
//! none is needed to build or to run Penstock.
//!
//! Architecture invariant: depends on none of our crates, so that it works while they don't compile.

mod bench;
mod conformance;
mod fuzz;
mod instructions;
mod limits;
mod openapi;
mod shell;
mod source;
mod tidy;
mod workspace;

use std::path::Path;
use std::process::ExitCode;

/// What a chore answers: nothing, or why it failed, for a person to read.
pub(crate) type Outcome = Result<(), String>;

struct Command {
    name: &'static str,
    what: &'static str,
    run: fn(root: &Path, arguments: &[String]) -> Outcome,
}

const COMMANDS: &[Command] = &[
    Command {
        name: "tidy",
        what: "the direction rules and what else a reviewer would ask for",
        run: tidy::run,
    },
    Command { name: "limits", what: "write docs/limits.md from every limits.rs", run: limits::run },
    Command {
        name: "openapi",
        what: "write docs/openapi.md from the table of OpenAPI extensions",
        run: openapi::run,
    },
    Command {
        name: "conformance",
        what: "write docs/conformance.md from the engines' cases",
        run: conformance::run,
    },
    Command {
        name: "bench",
        what: "[--quick] [--cells TEXT,..] [--targets TEXT,..] [--seconds N] [--rounds N]: CPU per request beside peers; or latency, workers, start, memory, change [--changes N], engines",
        run: bench::run,
    },
    Command {
        name: "fuzz",
        what: "[--seconds N] [TARGET...]: build and run the fuzz targets",
        run: fuzz::run,
    },
    Command {
        name: "instructions",
        what: "[CASE..]: what the stages cost, counted by callgrind",
        run: instructions::run,
    },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("xtask: {why}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(arguments: &[String]) -> Outcome {
    let (name, rest) = arguments.split_first().ok_or_else(usage)?;
    let command = COMMANDS.iter().find(|command| command.name == name).ok_or_else(usage)?;
    (command.run)(&workspace::root(), rest)
}

fn usage() -> String {
    let lines: Vec<String> =
        COMMANDS.iter().map(|command| format!("  {:<14}{}", command.name, command.what)).collect();
    format!("which chore?\n{}", lines.join("\n"))
}
