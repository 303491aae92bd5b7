//! `penstock lab`: one file per subcommand.

use clap::Subcommand;

use crate::failure::Failure;

mod agent;
mod compare;
mod cost;
mod doubts;
mod knee;
mod load;
mod payload;
mod report;
mod run;
mod sent;

/// Measure a gateway, or any HTTP server
#[derive(Subcommand)]
pub(crate) enum Command {
    Load(Box<load::Load>),
    Payload(payload::Payload),
    Agent(agent::Agent),
    Doubts(doubts::Doubts),
    Compare(compare::Compare),
    Report(report::Report),
    Knee(Box<knee::KneeOf>),
    Run(run::Run),
    Cost(cost::Cost),
}

pub(crate) fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Load(asked) => load::run(*asked),
        Command::Payload(asked) => payload::run(&asked),
        Command::Agent(asked) => agent::run(&asked),
        Command::Doubts(asked) => doubts::run(&asked),
        Command::Compare(asked) => compare::run(&asked),
        Command::Report(asked) => report::run(&asked),
        Command::Knee(asked) => knee::run(*asked),
        Command::Run(asked) => run::run(asked),
        Command::Cost(asked) => cost::run(asked),
    }
}
