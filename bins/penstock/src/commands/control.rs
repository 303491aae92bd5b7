//! `penstock control`: the control plane alone, and how `up` starts it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{Clock, SystemClock};
use clap::Args;
use jose::SigningKey;
use manager::{ADMIN, Control, Database, Options};
use model::{ControlSettings, Settings, StoreSettings};
use wire::tls::ServerCertificates;

use super::serving::report;
use super::signals::{Event, Signals};
use super::stdout;
use crate::failure::Failure;
use crate::process_log::ProcessLog;

/// The file of the generated signing key, in the data folder.
const KEY: &str = "oauth.key";

/// Run the control plane, which issues OAuth2 tokens
///
/// Reads `[control]`, `[store]` and `[tls]` of the configuration. The first start creates the user `admin` and prints
/// a password. SIGHUP reloads the certificates; SIGTERM and Ctrl-C shut down gracefully.
#[derive(Args)]
#[command(after_help = "Example:
  penstock control --config penstock.toml

A small penstock.toml:
  [control]
  https = \"127.0.0.1:9443\"")]
pub(crate) struct Arguments {
    /// The configuration file; its keys are described in docs/configuration.md
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Give the user `admin` a new password, print it, and exit
    #[arg(long)]
    reset_admin: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let read = follow::read_settings(&arguments.config);
    let (settings, warnings) = read.map_err(|invalid| report(&invalid.diagnostics))?;
    let Some(control) = &settings.control else {
        let file = arguments.config.display();
        let help = "add `https = \"127.0.0.1:9443\"` under [control]";
        return Err(Failure::Error(format!("{file}: there is no [control]; {help}")));
    };
    if arguments.reset_admin {
        let password = manager::reset_admin(&database(&control.store)).map_err(Failure::error)?;
        return stdout(&announcement(&password));
    }
    let _log = ProcessLog::start(&settings.log).map_err(|error| {
        Failure::Error(format!("cannot start the thread that writes the log: {error}"))
    })?;
    for warning in &warnings {
        tracing::warn!("{warning}");
    }
    let mut signals = Signals::listen()?;
    let certificates = Arc::new(ServerCertificates::new(load_certificates(&settings)?));
    let mut running = start(control, &settings.gateway.data, Arc::clone(&certificates))?;
    if let Some(password) = running.take_generated_password() {
        stdout(&announcement(&password))?;
    }
    let https = running.address();
    tracing::info!(%https, version = env!("CARGO_PKG_VERSION"), "serving");
    while signals.next() == Event::Reload {
        match follow::server_certificates(&settings.tls, &settings.gateway.data, now()) {
            Ok(set) => certificates.replace(set),
            Err(problem) => tracing::error!("{problem}"),
        }
    }
    tracing::info!("signal received, shutting down");
    running.stop();
    Ok(())
}

/// The control plane that `up` runs beside the gateway; `None`: it is not configured.
pub(crate) fn beside(
    settings: &Settings,
    gateways: &Arc<ServerCertificates>,
) -> Result<Option<Control>, Failure> {
    let Some(control) = &settings.control else { return Ok(None) };
    let certificates = if settings.has_https() {
        Arc::clone(gateways)
    } else {
        Arc::new(ServerCertificates::new(load_certificates(settings)?))
    };
    start(control, &settings.gateway.data, certificates).map(Some)
}

/// What is printed once.
pub(crate) fn announcement(password: &str) -> String {
    format!("User `{ADMIN}` of the control plane, password (shown only now): {password}\n")
}

fn start(
    settings: &ControlSettings,
    data: &Path,
    certificates: Arc<ServerCertificates>,
) -> Result<Control, Failure> {
    let keys = match settings.keys.as_slice() {
        [] => vec![generated_key(&data.join(KEY))?],
        files => files.iter().map(|file| read_key(file)).collect::<Result<_, _>>()?,
    };
    let password = settings.admin_password.clone().map(String::from_utf8).transpose();
    let options = Options {
        listen: settings.https,
        certificates,
        database: database(&settings.store),
        issuer: settings.issuer.clone(),
        keys,
        admin_password: password.map_err(Failure::error)?,
    };
    Control::start(options).map_err(|error| Failure::Error(format!("control plane: {error}")))
}

fn database(settings: &StoreSettings) -> Database {
    match settings {
        StoreSettings::Sqlite(file) => Database::Sqlite(file.clone()),
        StoreSettings::Postgres(url) => Database::Postgres(url.clone()),
    }
}

/// Reads the key that an earlier start generated, or generates it.
fn generated_key(file: &Path) -> Result<Vec<u8>, Failure> {
    if !file.exists() {
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder).map_err(|error| Failure::file("create", folder, &error))?;
        }
        let pem = SigningKey::generate_rsa().map_err(Failure::error)?;
        follow::write_private(file, pem.as_bytes())
            .map_err(|error| Failure::file("write", file, &error))?;
        tracing::info!(key = %file.display(), "generated a signing key");
    }
    read_key(file)
}

fn read_key(file: &Path) -> Result<Vec<u8>, Failure> {
    follow::read_pem(file).map_err(|why| Failure::Error(format!("{}: {why}", file.display())))
}

fn load_certificates(settings: &Settings) -> Result<wire::tls::CertificateSet, Failure> {
    follow::server_certificates(&settings.tls, &settings.gateway.data, now())
        .map_err(|problem| report(&[problem]))
}

fn now() -> base::Now {
    SystemClock::new().now()
}
