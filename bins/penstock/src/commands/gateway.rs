//! `penstock gateway`: the data plane alone.

use std::path::PathBuf;

use clap::Args;

use super::serving::Serving;
use crate::failure::Failure;

/// Serve APIs as a configuration file says
///
/// Files are followed while it runs: APIs, keys, certificates and limits change without a restart.
/// SIGHUP reads everything again; SIGTERM and Ctrl-C let requests finish, a second one ends at once.
#[derive(Args)]
#[command(after_help = "Example:
  penstock gateway --config penstock.toml

A small penstock.toml:
  [gateway]
  http = \"127.0.0.1:8280\"
  apis = [\"apis/\"]
  data = \"data/\"
  [[issuer]]
  name = \"resident\"
  iss = \"https://localhost:9443/oauth2/token\"
  jwks = \"keys/jwks.json\"")]
pub(crate) struct Arguments {
    /// The configuration file; its keys are described in docs/configuration.md
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let serving = Serving::start(&arguments.config)?;
    let addresses = serving.addresses();
    let shown = |address: Option<std::net::SocketAddr>| {
        address.map_or_else(|| "not opened".to_owned(), |address| address.to_string())
    };
    tracing::info!(
        http = shown(addresses.http),
        https = shown(addresses.https),
        admin = shown(addresses.admin),
        version = env!("CARGO_PKG_VERSION"),
        "serving"
    );
    serving.wait()
}
