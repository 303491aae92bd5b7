//! The project's own tools: `cargo xtask COMMAND`. None is needed to build or run Penstock.
//!
//! Architecture invariant: depends on no crate of the workspace, so that it works while they do not compile.

mod conformance;
mod engines;
mod fuzz;
mod instructions;
mod limits;
mod openapi;
mod shell;
mod source;
mod suites;
mod tidy;
mod workspace;

use std::path::Path;
use std::process::ExitCode;

/// A command's result; the error is a message for the terminal.
pub(crate) type Outcome = Result<(), String>;

struct Command {
    name: &'static str,
    help: &'static str,
    run: fn(root: &Path, arguments: &[String]) -> Outcome,
}

const COMMANDS: &[Command] = &[
    Command {
        name: "tidy",
        help: "[--lower]: check the direction rules, generated pages, prose and fuzz targets; lower the ceilings of prose",
        run: tidy::run,
    },
    Command {
        name: "prose",
        help: "[PATH..]: print the markers of unclear prose and the long lines, and their counts",
        run: tidy::prose,
    },
    Command { name: "limits", help: "write docs/limits.md from every limits.rs", run: limits::run },
    Command {
        name: "openapi",
        help: "write docs/openapi.md from the table of OpenAPI extensions",
        run: openapi::run,
    },
    Command {
        name: "conformance",
        help: "write docs/conformance.md from the engines' test cases",
        run: conformance::run,
    },
    Command {
        name: "engines",
        help: "[--cells read,heap,transform,select,alone] [--rounds N] [--profile NAME] [--into FILE]: compare the engines with libxml2 and libxslt",
        run: engines::run,
    },
    Command {
        name: "fuzz",
        help: "[--seconds N | --runs N] [TARGET..]: fuzz with a fresh seed, or N inputs with a fixed one",
        run: fuzz::run,
    },
    Command {
        name: "instructions",
        help: "[--profile NAME] [CASE..]: count instructions per stage with callgrind and check the limits",
        run: instructions::run,
    },
    Command {
        name: "suites",
        help: "[--all]: the suites of `make test-all` whose paths have changed, the oldest run first",
        run: suites::run,
    },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
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
        COMMANDS.iter().map(|command| format!("  {:<14}{}", command.name, command.help)).collect();
    format!("usage: cargo xtask COMMAND [ARGUMENTS]\n\nCommands:\n{}", lines.join("\n"))
}
