//! `penstock gateway`: the data plane alone.

use std::path::PathBuf;

use clap::Args;

use super::serving::{Listen, Serving};
use crate::failure::Failure;

/// Run the gateway
///
/// Changed files take effect without a restart: APIs, keys, certificates and limits. SIGHUP re-reads everything.
/// SIGTERM and Ctrl-C shut down gracefully; a second signal shuts down at once.
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
    let (serving, ()) = Serving::start(&arguments.config, &Listen::default(), |_, _| Ok(()))?;
    let addresses = serving.addresses();
    let address = |listener: Option<std::net::SocketAddr>| {
        listener.map_or_else(|| "off".to_owned(), |address| address.to_string())
    };
    tracing::info!(
        http = address(addresses.http),
        https = address(addresses.https),
        integration_http = address(addresses.integration_http),
        integration_https = address(addresses.integration_https),
        admin = address(addresses.admin),
        version = env!("CARGO_PKG_VERSION"),
        "serving"
    );
    serving.wait()
}
