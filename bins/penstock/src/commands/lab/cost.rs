//! `penstock lab cost`: what each policy of a target costs by itself.

use std::path::PathBuf;

use clap::Args;
use lab::matrix::{self, cost};
use lab::report::folder;

use super::run::{carry_out, judge, plan as plan_into};
use crate::commands::{stdout, write_result};
use crate::failure::Failure;

/// Measure what each policy of a target costs
///
/// The target passes requests on as they are, then with each policy switched on alone: JWTs that its
/// cache knows, JWTs that it doesn't, TLS, an access log; three times each, taking turns. CPU time,
/// latency and memory are told beside those without any. What a target can't switch is told as such.
#[derive(Args)]
#[command(after_help = "Examples:
  penstock lab cost penstock --out cost-penstock
  penstock lab cost my-gateway.toml --out cost-mine       (docs/adding-a-target.md)

The cores are those of suites/cost.toml: 1 for the target, 0 for backend and generator.")]
pub(crate) struct Cost {
    /// Name of a shipped target, or path of a target's file
    target: String,
    /// Folder for the results; nothing in it is ever written over
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Go on with a run of the same target
    #[arg(long)]
    resume: bool,
}

pub(crate) fn run(asked: Cost) -> Result<(), Failure> {
    let suite = cost::suite(&asked.target).map_err(Failure::Usage)?;
    let plan = matrix::Run { resume: asked.resume, ..plan_into(asked.out)? };
    let summary = carry_out(&suite, &plan)?;
    let found = folder::read(&plan.out).map_err(Failure::Error)?;
    let prices = cost::prices(&suite, found.iter().map(|found| &found.result));
    let table = cost::table(&suite, &prices);
    stdout(&table);
    if !summary.interrupted {
        write_result(Some(&plan.out.join("cost.txt")), table.as_bytes())?;
    }
    judge(&summary)
}
