//! `penstock lab`: one file per subcommand.

use clap::Subcommand;

use crate::failure::Failure;

mod agent;
mod check;
mod compare;
mod cost;
mod knee;
mod live;
mod load;
mod payload;
mod report;
mod request_args;
mod run;
mod scenario;
mod table;

/// Measure a gateway, or any HTTP server
#[derive(Subcommand)]
pub(crate) enum Command {
    Load(Box<load::Load>),
    Scenario(scenario::Scenario),
    Payload(payload::Payload),
    Agent(agent::Agent),
    #[command(alias = "doubts")]
    Check(check::Check),
    Compare(compare::Compare),
    Report(report::Report),
    Table(table::Table),
    Knee(Box<knee::KneeArgs>),
    Run(run::Run),
    Cost(cost::Cost),
}

pub(crate) fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Load(args) => load::run(*args),
        Command::Scenario(args) => scenario::run(&args),
        Command::Payload(args) => payload::run(&args),
        Command::Agent(args) => agent::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Table(args) => table::run(&args),
        Command::Knee(args) => knee::run(*args),
        Command::Run(args) => run::run(args),
        Command::Cost(args) => cost::run(args),
    }
}
