//! `penstock lab agent`: makes load for a controller on another host.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use lab::agent;

use crate::commands::stdout;
use crate::failure::Failure;

/// Make load for a `penstock lab load --agent` on another host
///
/// Waits for a controller that knows the same secret, makes its part of the load, and sends back what
/// it found, without loss. One measurement at a time. What they say to each other is sealed with the
/// secret, so that nobody can change it, but it isn't hidden: tokens and payloads are readable on the
/// network between them.
#[derive(Args)]
#[command(after_help = "Example, on two hosts and then on a third:
  penstock lab agent --listen 10.0.0.11:9210 --token-file secret
  penstock lab agent --listen 10.0.0.12:9210 --token-file secret
  penstock lab load http://10.0.0.20:8280/echo/1.0.0/ --users 400 --agent-token-file secret \\
      --agent 10.0.0.11:9210 --agent 10.0.0.12:9210")]
pub(crate) struct Agent {
    /// Where to wait for controllers; port 0 picks a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9210")]
    listen: SocketAddr,
    /// File with the secret that controllers must know, 16 bytes or more
    #[arg(long, value_name = "FILE")]
    token_file: PathBuf,
    /// End after one measurement, as a Kubernetes Job should
    #[arg(long)]
    once: bool,
}

pub(crate) fn run(asked: &Agent) -> Result<(), Failure> {
    let secret = read_secret(&asked.token_file)?;
    let agent = agent::Agent::start(asked.listen, secret, asked.once)
        .map_err(|error| Failure::error(format!("{}: {error}", asked.listen)))?;
    stdout(&format!("agent on {}\n", agent.addr()));
    agent.wait();
    Ok(())
}

/// The secret that controller and agents share.
pub(crate) fn read_secret(path: &Path) -> Result<agent::Secret, Failure> {
    let bytes = std::fs::read(path).map_err(|error| Failure::file("read", path, &error))?;
    let named = |problem| Failure::error(format!("{}: {problem}", path.display()));
    agent::Secret::new(&bytes).map_err(named)
}
