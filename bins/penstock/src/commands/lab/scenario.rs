//! `penstock lab scenario`: scenario files made from recordings, curl commands and API descriptions.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use lab::limits;
use lab::load::scenario;

use crate::commands::write_result;
use crate::failure::Failure;

/// Write a scenario file for `penstock lab load --scenario`
#[derive(Args)]
pub(crate) struct Scenario {
    #[command(subcommand)]
    source: Origin,
    /// Write to this file instead of the standard output; it must not exist
    #[arg(long, value_name = "FILE", global = true)]
    out: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Origin {
    /// From a HAR file of a browser: its requests to the first one's host, as a sequence with pauses
    #[command(name = "from-har")]
    Har { file: PathBuf },
    /// From a curl command
    #[command(after_help = "Example:
  penstock lab scenario from-curl 'curl -H \"X-Tenant: a\" -d @order.json http://localhost:8280/orders'")]
    #[command(name = "from-curl")]
    Curl {
        #[arg(value_name = "COMMAND")]
        command: String,
    },
    /// From the examples of an OpenAPI 3 description in YAML or JSON: a request for each operation
    #[command(name = "from-openapi")]
    Openapi { file: PathBuf },
}

pub(crate) fn run(args: &Scenario) -> Result<(), Failure> {
    let text = match &args.source {
        Origin::Har { file } => of_file(file, |text| scenario::from_har(text.as_bytes())),
        Origin::Openapi { file } => of_file(file, scenario::from_openapi),
        Origin::Curl { command } => scenario::from_curl(command).map_err(Failure::Usage),
    }?;
    write_result(args.out.as_deref(), text.as_bytes())
}

/// Diagnostics begin with line and column, if they have a position.
fn of_file(file: &Path, make: impl Fn(&str) -> Result<String, String>) -> Result<String, Failure> {
    let name = file.display();
    let text = files::read_text(file, limits::SCENARIO_SOURCE_BYTES_MAX);
    let text = text.map_err(|error| Failure::Error(format!("{name}: {error}")))?;
    make(&text).map_err(|error| {
        let gap = if error.starts_with(|c: char| c.is_ascii_digit()) { "" } else { " error: " };
        Failure::Error(format!("{name}:{gap}{error}"))
    })
}
