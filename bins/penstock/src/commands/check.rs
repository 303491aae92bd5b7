//! `penstock check`: the gateway's diagnostics for files, without serving them.

use std::path::{Path, PathBuf};

use base::{Clock, SystemClock};
use clap::Args;
use follow::Fetch;
use formats::openapi::Defaults;
use mediation::Compiler;
use model::{Diagnostic, Severity};

use super::serving::Fetching;
use super::{counted, stdout};
use crate::failure::Failure;

/// Check API descriptions, Synapse artefacts and configuration files
///
/// Prints every problem of every file, with file:line:column and a suggested fix. Exit codes: 0 no errors (there may be
/// warnings), 1 errors, 2 usage error.
#[derive(Args)]
#[command(after_help = "Examples:
  penstock check apis/                      every API description in a folder
  penstock check orders.car                 a composite application
  penstock check synapse-configs/default/   every artefact in a folder of Micro Integrator
  penstock check petstore.yaml orders.json  single files
  penstock check penstock.toml              a configuration with the APIs, artefacts, keys and
                                            certificates that it names")]
pub(crate) struct Arguments {
    /// API descriptions (YAML or JSON), artefacts (*.xml, *.car), folders of both, and configuration files (*.toml)
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    fetching: Fetching,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let (files, diagnostics) = check(&arguments.paths, &arguments.fetching.fetch());
    for diagnostic in &diagnostics {
        stdout(&format!("{diagnostic}\n"))?;
    }
    let count = |severity| diagnostics.iter().filter(|found| found.severity == severity).count();
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    let summary = [counted(files, "file"), counted(errors, "error"), counted(warnings, "warning")];
    stdout(&format!("{}\n", summary.join(", ")))?;
    if errors > 0 { Err(Failure::Reported) } else { Ok(()) }
}

/// The number of files and their diagnostics.
fn check(paths: &[PathBuf], fetch: &Fetch) -> (usize, Vec<Diagnostic>) {
    let is_configuration = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "toml");
    let (configurations, mut apis): (Vec<_>, Vec<_>) =
        paths.iter().cloned().partition(is_configuration);
    // A folder may hold both.
    let (mut artefacts, described) = (apis.clone(), |file: &PathBuf| !is_artefact(file));
    artefacts.retain(|path| path.is_dir() || is_artefact(path));
    apis.retain(described);
    // API descriptions alone are checked as if the configuration had an issuer.
    let mut defaults = Defaults::default();
    let (mut files, mut diagnostics) = (configurations.len(), Vec::new());
    let (mut applications, mut services) = (Vec::new(), Vec::new());
    for configuration in &configurations {
        match follow::read_settings(configuration) {
            Ok((settings, warnings)) => {
                diagnostics.extend(warnings);
                diagnostics.extend(follow::check_settings(&settings, SystemClock::new().now()));
                defaults = follow::defaults(&settings);
                apis.extend(settings.gateway.apis);
                artefacts.extend(settings.integration.artefacts);
                applications.extend(settings.gateway.applications);
                services.extend(settings.integration.rules.services);
            }
            Err(invalid) => diagnostics.extend(invalid.diagnostics),
        }
    }
    let checked = follow::check(&apis, &artefacts, &applications, &defaults, fetch);
    files += checked.files;
    diagnostics.extend(checked.diagnostics);
    let (program, found) = Compiler::compile_set(&checked.readable);
    diagnostics.extend(found);
    diagnostics.extend(program.check_services(&services));
    (files, diagnostics)
}

/// Whether a path that is given names artefacts. A missing file is reported as an API description.
fn is_artefact(path: &Path) -> bool {
    path.is_file() && formats::synapse::Role::of(path).is_some()
}
