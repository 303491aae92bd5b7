//! `penstock lab cost`: the cost of each policy of a target.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use lab::report::{CaseView, results};
use lab::suite::{self, cost};

use super::run::{check_complete, plan as plan_into, run_with_progress};
use crate::commands::stdout;
use crate::failure::Failure;

/// Measure the cost of each policy of a target
///
/// Measures the target as a plain proxy, then with one policy at a time: cached JWTs, uncached JWTs, TLS,
/// access log. Five interleaved repetitions each. Reports CPU time, latency and memory, and the CPU time relative to the
/// plain proxy with its interval (docs/statistics.md). Policies that a target does not support are reported as "not served".
#[derive(Args)]
#[command(after_help = "Examples:
  penstock lab cost penstock --out cost-penstock
  penstock lab cost my-gateway.toml --out cost-mine       (docs/adding-a-target.md)

The target runs on CPU 1, backend and generator on CPU 0 (see suites/cost.toml).")]
pub(crate) struct Cost {
    /// Name of a shipped target, or path of a target file
    target: String,
    /// Folder for the results. Results are never overwritten; cost.txt is replaced when a run is continued
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
    let policy_costs = cost::policy_costs(&suite, &views);
    let table = cost::table(&suite, &policy_costs);
    stdout(&table)?;
    if !summary.interrupted {
        write_table(&plan.out, &table)?;
    }
    check_complete(&summary)
}

/// Replaces cost.txt atomically. It is computed from all results in the folder, so nothing is lost.
fn write_table(folder: &Path, table: &str) -> Result<(), Failure> {
    let (file, partial) = (folder.join("cost.txt"), folder.join("cost.txt.partial"));
    fs::write(&partial, table)
        .and_then(|()| fs::rename(&partial, &file))
        .map_err(|error| Failure::file("write", &file, &error))
}
