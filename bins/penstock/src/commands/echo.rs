//! `penstock echo`: the echo backend of the sample API and of measurements.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;

use base::{Clock, SystemClock};
use clap::Args;
use echo::{Echo, Options};
use wire::tls::{CertificateSet, ServerCertificates, generate_self_signed, server_config};

use super::signals::{Event, Signals};
use super::stdout;
use crate::failure::Failure;

/// Run an HTTP server that echoes request bodies
///
/// Every response has status 200 and the request's content type and body, for every method and path. Only GET
/// /.penstock/requests responds with the number of requests so far. HTTP/2 is served with prior knowledge, or by ALPN
/// with --tls. A gRPC call gets each of its messages back and the status 0; a WebSocket gets each message back.
#[derive(Args)]
#[command(after_help = "Examples:
  penstock echo --listen 127.0.0.1:8688
  penstock echo --listen 127.0.0.1:8688 --delay-ms 500
  penstock echo --listen 127.0.0.1:8689 --tls       (self-signed certificate: curl -k)")]
pub(crate) struct Arguments {
    /// Address and port; port 0 picks a free port and prints it
    #[arg(long, value_name = "ADDR")]
    listen: SocketAddr,
    /// Delay before each response, in milliseconds
    #[arg(long, value_name = "N", default_value_t = 0)]
    delay_ms: u64,
    /// Serve TLS with a self-signed certificate generated at startup
    #[arg(long)]
    tls: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    let certificates = arguments.tls.then(certificates).transpose()?;
    let tls = certificates.map(|certificates| server_config(Arc::new(certificates), true));
    let scheme = if tls.is_some() { "https" } else { "http" };
    let options =
        Options { listen: arguments.listen, delay_ms: arguments.delay_ms, tls, workers: None };
    let echo = Echo::start(options).map_err(|error| not_started(arguments.listen, &error))?;
    drop(stdout(&format!("echo listening on {scheme}://{}\n", echo.addr())));
    while signals.next() != Event::Stop {}
    echo.stop();
    Ok(())
}

fn not_started(listen: SocketAddr, error: &io::Error) -> Failure {
    if error.kind() == ErrorKind::AddrInUse {
        Failure::Error(format!("{listen} is already in use; choose another port with --listen"))
    } else if error.kind() == ErrorKind::InvalidInput {
        Failure::Usage(error.to_string())
    } else {
        Failure::Error(format!("cannot listen on {listen}: {error}"))
    }
}

fn certificates() -> Result<ServerCertificates, Failure> {
    let now_s = SystemClock::new().now().unix_s;
    let hosts = ["localhost", "127.0.0.1", "::1"];
    let (cert, key) = generate_self_signed(&hosts, now_s).map_err(Failure::error)?;
    CertificateSet::load(Some((cert.as_bytes(), key.as_bytes())), Vec::new())
        .map(ServerCertificates::new)
        .map_err(Failure::error)
}
