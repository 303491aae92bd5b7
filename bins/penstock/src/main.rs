//! The program: one command each for what Penstock can do. What a command does is in
//! `commands/<name>.rs`; what it takes for that is a library of ours.
//!
//! Exit codes: 0 it ran, 1 it couldn't, 2 it was asked wrongly.
//!
//! Architecture invariant: `commands::say` and `note` print, nothing else does. The macros panic where
//! nobody reads any more, and would end a run of hours with its terminal.

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod commands;
mod failure;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use commands::{check, echo, expression, gateway, json, lab, token, up, xml};

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Penstock: an API gateway, and the lab that measures it.
///
/// `penstock up` shows everything on this machine in one go: a gateway with a sample API, a backend,
/// keys and a token.
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
    Check(check::Arguments),
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
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Up(arguments) => up::run(&arguments),
        Command::Gateway(arguments) => gateway::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Token(command) => token::run(command),
        Command::Echo(arguments) => echo::run(&arguments),
        Command::Lab(command) => lab::run(command),
        Command::Xml(command) => xml::run(command),
        Command::Json(command) => json::run(command),
        Command::Expression(arguments) => expression::run(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.tell(),
    }
}
