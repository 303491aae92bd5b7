//! `penstock lab cost`: the cost of each policy of a target.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use lab::report::table::{References, table};
use lab::report::{CaseView, results};
use lab::suite::{self, cost};

use super::run::{check_complete, plan as plan_into, run_with_progress};
use crate::commands::stdout;
use crate::failure::Failure;

/// Measure the cost of each policy of a target
///
/// Measures the target as a plain proxy, then with one policy at a time: cached JWTs, opaque tokens, subscriptions with
/// plans, API keys, uncached JWTs, TLS, access log. Five interleaved repetitions each. Prints the table of `penstock
/// lab table`, with the CPU time relative to the plain proxy's and its interval (docs/statistics.md). Policies that a
/// target does not support are "not served".
#[derive(Args)]
#[command(after_help = "Examples:
  penstock lab cost penstock-managed --out cost-penstock
  penstock lab cost my-gateway.toml --out cost-mine       (docs/adding-a-target.md)

The target runs on CPU 1, backend and generator on CPU 0 (see suites/cost.toml).")]
pub(crate) struct Cost {
    /// Name of a shipped target, or path of a target file
    target: String,
    /// Folder for the results. Results are never overwritten; cost.md is replaced when a run is continued
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Continue an earlier run of the same target
    #[arg(long)]
    resume: bool,
}

pub(crate) fn run(args: Cost) -> Result<(), Failure> {
    let suite = cost::suite(&args.target).map_err(Failure::Usage)?;
    let plan = suite::Run { resume: args.resume, ..plan_into(args.out)? };
    let summary = run_with_progress(&suite, &plan)?;
    let stored = results::read(&plan.out).map_err(Failure::Error)?;
    let views: Vec<CaseView> = stored.into_iter().map(CaseView::new).collect();
    let scenario = Some(cost::BASELINE.to_owned());
    let table = table(&views, &References { scenario, ..References::default() });
    stdout(&table)?;
    if !summary.interrupted {
        write_table(&plan.out, &table)?;
    }
    check_complete(&summary)
}

/// Replaces cost.md atomically. It is computed from all results in the folder, so nothing is lost.
fn write_table(folder: &Path, table: &str) -> Result<(), Failure> {
    let (file, partial) = (folder.join("cost.md"), folder.join("cost.md.partial"));
    fs::write(&partial, table)
        .and_then(|()| fs::rename(&partial, &file))
        .map_err(|error| Failure::file("write", &file, &error))
}
