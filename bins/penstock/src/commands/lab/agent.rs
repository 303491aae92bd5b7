//! `penstock lab agent`: generates load for a controller on another host.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use lab::agent;

use crate::commands::stdout;
use crate::failure::Failure;

/// Generate load for a controller (`penstock lab load --agent`) on another host
///
/// Waits for a controller with the same secret, generates its share of the load and sends the results back. Handles one
/// measurement at a time. The connection uses TLS 1.3 with a certificate generated at each start; both sides prove that
/// they know the secret, so no other party can read or change anything. Use a random secret, for example of `openssl
/// rand -hex 32`.
#[derive(Args)]
#[command(after_help = "Example with two agents and a controller:
  penstock lab agent --listen 10.0.0.11:9210 --token-file secret
  penstock lab agent --listen 10.0.0.12:9210 --token-file secret
  penstock lab load http://10.0.0.20:8280/echo/1.0.0/ --users 400 --agent-token-file secret \\
      --agent 10.0.0.11:9210 --agent 10.0.0.12:9210")]
pub(crate) struct Agent {
    /// Address to listen on; port 0 picks a free port
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9210")]
    listen: SocketAddr,
    /// File with the secret shared with controllers, at least 16 bytes
    #[arg(long, value_name = "FILE")]
    token_file: PathBuf,
    /// Exit after one measurement (for Kubernetes Jobs)
    #[arg(long)]
    once: bool,
}

pub(crate) fn run(args: &Agent) -> Result<(), Failure> {
    let secret = read_secret(&args.token_file)?;
    let agent = agent::Agent::start(args.listen, secret, args.once)
        .map_err(|error| Failure::error(format!("{}: {error}", args.listen)))?;
    drop(stdout(&format!("agent listening on {}\n", agent.addr())));
    agent.wait();
    Ok(())
}

/// Reads the secret shared by controller and agents.
pub(crate) fn read_secret(path: &Path) -> Result<agent::Secret, Failure> {
    agent::Secret::read(path).map_err(Failure::Error)
}
