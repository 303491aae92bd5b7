//! The `penstock` program. Each command is a module of `commands`; the work is done by the libraries.
//!
//! Exit codes: 0 success, 1 failure, 2 usage error.
//!
//! Architecture invariant: only `commands::stdout`, `commands::stderr` and `process_log` print. `println!` and
//! `eprintln!` panic on a closed pipe, which would end an hours-long run together with its terminal.

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod commands;
mod failure;
mod process_log;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[cfg(feature = "control")]
use commands::control;
use commands::{
    check, echo, explain, expression, gateway, json, lab, token, trial, unit_test, up, xml,
};

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// API gateway, integration runtime and performance lab
///
/// Start with `penstock up`: it runs a gateway with a sample API, an echo backend, keys and a token on
/// this machine.
#[derive(Parser)]
#[command(name = "penstock", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Up(up::Arguments),
    Gateway(gateway::Arguments),
    #[cfg(feature = "control")]
    Control(control::Arguments),
    Check(check::Arguments),
    Explain(explain::Arguments),
    #[command(subcommand)]
    Token(token::Command),
    Echo(echo::Arguments),
    #[command(subcommand)]
    Lab(lab::Command),
    #[command(subcommand)]
    Xml(xml::Command),
    #[command(subcommand)]
    Json(json::Command),
    Expression(expression::Arguments),
    Try(trial::Arguments),
    Test(unit_test::Arguments),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Up(arguments) => up::run(&arguments),
        Command::Gateway(arguments) => gateway::run(&arguments),
        #[cfg(feature = "control")]
        Command::Control(arguments) => control::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::Token(command) => token::run(command),
        Command::Echo(arguments) => echo::run(&arguments),
        Command::Lab(command) => lab::run(command),
        Command::Xml(command) => xml::run(command),
        Command::Json(command) => json::run(command),
        Command::Expression(arguments) => expression::run(&arguments),
        Command::Try(arguments) => trial::run(&arguments),
        Command::Test(arguments) => unit_test::run(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
