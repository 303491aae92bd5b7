//! `penstock check`: what the gateway would say of files, without serving them.

use std::path::PathBuf;

use base::{Clock, SystemClock, limits};
use clap::Args;
use formats::openapi::Defaults;
use model::{Diagnostic, Severity};

use super::{counted, say};
use crate::failure::Failure;

/// Check API descriptions and configuration files
///
/// Prints everything that is wrong with every file, as file:line:column, and what to write instead.
/// Ends with 1 if anything is an error; warnings alone end with 0.
#[derive(Args)]
#[command(after_help = "Examples:
  penstock check apis/                      every description below a folder
  penstock check petstore.yaml orders.json  some of them
  penstock check penstock.toml              a configuration, with the APIs, keys and certificates
                                            that it names")]
pub(crate) struct Arguments {
    /// API descriptions (YAML or JSON), folders of them, and configuration files (*.toml)
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let (files, diagnostics) = look(&arguments.paths);
    for diagnostic in &diagnostics {
        say(&format!("{diagnostic}\n"));
    }
    let count = |severity| diagnostics.iter().filter(|found| found.severity == severity).count();
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    let summary = [counted(files, "file"), counted(errors, "error"), counted(warnings, "warning")];
    say(&format!("{}\n", summary.join(", ")));
    if errors > 0 { Err(Failure::Told) } else { Ok(()) }
}

/// How many files there are, and what is wrong with them.
fn look(paths: &[PathBuf]) -> (usize, Vec<Diagnostic>) {
    let is_configuration = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "toml");
    let (configurations, mut apis): (Vec<_>, Vec<_>) =
        paths.iter().cloned().partition(is_configuration);
    let mut defaults = Defaults {
        response_head_ms: limits::RESPONSE_HEAD_MS_MAX,
        // Without a configuration at hand: that there is an issuer is the configuration's affair.
        issuers_configured: true,
    };
    let (mut files, mut diagnostics) = (configurations.len(), Vec::new());
    for configuration in &configurations {
        match follow::read_settings(configuration) {
            Ok((settings, warnings)) => {
                diagnostics.extend(warnings);
                diagnostics.extend(follow::check_settings(&settings, SystemClock::new().now()));
                defaults = follow::defaults(&settings);
                apis.extend(settings.gateway.apis);
            }
            Err(refused) => diagnostics.extend(refused.diagnostics),
        }
    }
    let checked = follow::check(&apis, &defaults);
    files += checked.files;
    diagnostics.extend(checked.diagnostics);
    (files, diagnostics)
}
