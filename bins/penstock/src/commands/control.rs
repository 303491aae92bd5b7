//! `penstock control`: the control plane alone, and how `up` starts it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{Clock, SystemClock};
use clap::{Args, Subcommand};
use gateway::{Bounds, Content, Repetition};
use jose::SigningKey;
use manager::limits::{PROVIDER_BYTES_MAX, PROVIDER_MS_MAX};
use manager::{
    ADMIN, AskError, AskProvider, Control, Database, ListedUser, Options, ProviderRequest,
    TrustedIssuer, UserChange, UserError,
};
use model::{ControlSettings, KeySource, LdapSettings, Settings, StoreSettings, UpstreamTls};
use wire::tls::{ClientTls, ServerCertificates};

use super::serving::{client_tls, fetch_with, report, send_with};
use super::signals::{Event, Signals};
use super::stdout;
use crate::failure::Failure;
use crate::process_log::ProcessLog;

/// The file of the generated signing key, in the data folder.
const KEY: &str = "oauth.key";

/// Run the control plane, which issues OAuth2 tokens
///
/// Reads `[control]`, `[store]` and `[tls]` of the configuration. The first start creates the user `admin` and prints a
/// password. SIGHUP reloads the certificates and the signing keys, and logs other changes, which need a restart;
/// SIGTERM and Ctrl-C shut down gracefully. The commands below change the database instead, and exit.
#[derive(Args)]
#[command(after_help = "Examples:
  penstock control --config penstock.toml
  penstock control --config penstock.toml user add ann
  penstock control --config penstock.toml backup penstock.backup

A small penstock.toml:
  [control]
  https = \"127.0.0.1:9443\"")]
pub(crate) struct Arguments {
    /// The configuration file; its keys are described in docs/configuration.md
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Add, list or remove users, or change a password; also while the control plane runs
    #[command(subcommand)]
    User(User),
    /// Register gateways that follow this control plane; also while it runs
    #[command(subcommand)]
    Gateway(Gateway),
    /// Print the id, name and owner of all clients
    Clients,
    /// Copy the SQLite database to a new file; also while the control plane runs
    Backup { file: PathBuf },
    /// Replace the SQLite database by a backup; the control plane must not run
    Restore { file: PathBuf },
}

#[derive(Subcommand)]
enum User {
    /// Add a user, and print a generated password, which the user has to replace
    Add {
        name: String,
        #[command(flatten)]
        password: NewPassword,
        /// May register clients
        #[arg(long)]
        admin: bool,
        /// A role, for `[[control.scope]]` and the claim `roles`; can be repeated
        #[arg(long = "role", value_name = "ROLE")]
        roles: Vec<String>,
    },
    /// Print the roles of a user, or replace them; tokens have the new ones from their next refresh on
    Roles {
        name: String,
        /// All roles that the user has from now on
        roles: Vec<String>,
        /// Remove all roles
        #[arg(long, conflicts_with = "roles")]
        none: bool,
    },
    /// Replace the password of a user, print a generated one to be replaced, and revoke the user's tokens
    Password {
        name: String,
        #[command(flatten)]
        password: NewPassword,
    },
    /// Remove a user, and revoke the user's tokens
    Remove {
        name: String,
        /// The administrator who takes over the clients that the user registered
        #[arg(long, value_name = "NAME")]
        clients_to: Option<String>,
    },
    /// Print the names and roles of all users
    List,
}

#[derive(Subcommand)]
enum Gateway {
    /// Register a gateway, and print its secret, which is shown only now
    Add {
        /// Name of the gateway, which is also its client id
        name: String,
        /// Replace the secret of a registered gateway; the previous one is invalid at once
        #[arg(long)]
        new_secret: bool,
        /// Write the secret to a file that only its owner can read, instead of printing it
        #[arg(long, value_name = "FILE")]
        secret_file: Option<PathBuf>,
    },
    /// Print the names of all gateways
    List,
}

#[derive(Args)]
struct NewPassword {
    /// Read the password from a file, instead of generating one
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let read = follow::read_settings(&arguments.config);
    let (settings, warnings) = read.map_err(|invalid| report(&invalid.diagnostics))?;
    let Some(control) = &settings.control else {
        let file = arguments.config.display();
        let help = "add `https = \"127.0.0.1:9443\"` under [control]";
        return Err(Failure::Error(format!("{file}: there is no [control]; {help}")));
    };
    if let Some(command) = &arguments.command {
        return change(control, command);
    }
    let _log = ProcessLog::start(&settings.log).map_err(|error| {
        Failure::Error(format!("cannot start the thread that writes the log: {error}"))
    })?;
    for warning in &warnings {
        tracing::warn!("{warning}");
    }
    let mut signals = Signals::listen()?;
    let certificates = Arc::new(ServerCertificates::new(load_certificates(&settings)?));
    let mut running = start(control, &settings, Arc::clone(&certificates))?;
    if let Some(password) = running.take_generated_password() {
        stdout(&announcement(ADMIN, &password, control))?;
    }
    let https = running.address();
    tracing::info!(%https, version = env!("CARGO_PKG_VERSION"), "serving");
    while signals.next() == Event::Reload {
        match follow::server_certificates(&settings.tls, &settings.gateway.data, now()) {
            Ok(set) => certificates.replace(set),
            Err(problem) => tracing::error!("{problem}"),
        }
        match follow::read_settings(&arguments.config) {
            Ok((changed, _)) => {
                replace_keys(&running, &changed, &settings.gateway.data);
                changed_sections(&settings, &changed).iter().for_each(|section| {
                    tracing::warn!(
                        section,
                        "this change of the configuration takes effect after a restart"
                    );
                });
            }
            Err(invalid) => {
                invalid.diagnostics.iter().for_each(|problem| tracing::error!("{problem}"));
            }
        }
        tracing::info!("signal received, certificates read again");
    }
    tracing::info!("signal received, shutting down");
    running.stop();
    Ok(())
}

/// Signs with the keys that `settings` name now. `data`: the data folder, which stays that of the start. No key is
/// generated: gateways could not know it yet.
fn replace_keys(running: &Control, settings: &Settings, data: &Path) {
    let Some(control) = &settings.control else { return };
    let replaced = signing_keys(control, data)
        .and_then(|keys| running.replace_keys(&keys).map_err(Failure::error));
    match replaced {
        Ok(true) => tracing::info!("the signing keys are replaced"),
        Ok(false) => {}
        Err(Failure::Error(problem) | Failure::Usage(problem)) => {
            tracing::error!(problem, "the signing keys stay as they are");
        }
        Err(Failure::Reported | Failure::Exit(_)) => {}
    }
}

/// The sections of the configuration that differ, also by a secret in a file that they name.
fn changed_sections(before: &Settings, after: &Settings) -> Vec<&'static str> {
    let (Some(old), Some(new)) = (&before.control, &after.control) else {
        return vec!["[control]"];
    };
    // Sections of their own are compared below.
    let rest = ControlSettings {
        trusted_issuers: old.trusted_issuers.clone(),
        ldap: old.ldap.clone(),
        providers: old.providers.clone(),
        store: old.store.clone(),
        // They are in use already.
        keys: old.keys.clone(),
        ..new.clone()
    };
    let changes = [
        ("[control]", rest != *old),
        ("[[control.trusted_issuer]]", old.trusted_issuers != new.trusted_issuers),
        ("[control.ldap]", old.ldap != new.ldap),
        ("[[control.provider]]", old.providers != new.providers),
        ("[store]", old.store != new.store),
        ("[tls]", before.tls != after.tls),
        ("[upstream_tls]", before.upstream_tls != after.upstream_tls),
        ("[log]", before.log != after.log),
    ];
    changes.into_iter().filter(|(_, differ)| *differ).map(|(section, _)| section).collect()
}

/// The control plane that `up` runs beside the gateway, whose certificates it uses; `None`: it is not configured.
pub(crate) fn beside(
    settings: &Settings,
    gateways: &Arc<ServerCertificates>,
) -> Result<Option<Control>, Failure> {
    let Some(control) = &settings.control else { return Ok(None) };
    gateways.replace(load_certificates(settings)?);
    start(control, settings, Arc::clone(gateways)).map(Some)
}

/// Registers the client `name`, with this id and these scopes. Returns its id and its secret.
pub(crate) fn put_client(
    store: &StoreSettings,
    name: &str,
    id: &str,
    scopes: &str,
) -> Result<(String, String), Failure> {
    manager::put_client(&database(store)?, name, id, scopes).map_err(Failure::error)
}

/// The announcement of a generated password, which is printed once.
pub(crate) fn announcement(user: &str, password: &str, control: &ControlSettings) -> String {
    let origin = origin(control);
    format!(
        "User `{user}` of the control plane, password (shown only now): {password}\n\
         Use it once, to set a new password at {origin}/account/password\n"
    )
}

fn change(control: &ControlSettings, command: &Command) -> Result<(), Failure> {
    let database = &database(&control.store)?;
    let change_user = |name: &str, change: UserChange<'_>, password: Option<&NewPassword>| {
        let generated = change_user(database, name, change, password)?;
        let print = |password: String| stdout(&announcement(name, &password, control));
        generated.map_or(Ok(()), print)
    };
    match command {
        Command::User(User::List) => {
            let users = manager::list_users(database).map_err(Failure::error)?;
            let line = |ListedUser { name, admin, source, roles }: ListedUser| {
                let marks = [if admin { "admin" } else { "" }, &source];
                let marks =
                    marks.iter().filter(|mark| !mark.is_empty()).map(|mark| format!(" ({mark})"));
                let colon = if roles.is_empty() { "" } else { ": " };
                let roles = roles.join(", ");
                format!("{name}{}{colon}{roles}\n", marks.collect::<String>())
            };
            stdout(&users.into_iter().map(line).collect::<String>())
        }
        Command::User(User::Roles { name, roles, none: false }) if roles.is_empty() => {
            let users = manager::list_users(database).map_err(Failure::error)?;
            let user = users.into_iter().find(|user| user.name == *name);
            let user = user.ok_or_else(|| Failure::error(UserError::Unknown(name.clone())))?;
            stdout(&user.roles.iter().map(|role| format!("{role}\n")).collect::<String>())
        }
        Command::User(User::Add { name, password, admin, roles }) => {
            change_user(name, UserChange::Add { admin: *admin, roles }, Some(password))
        }
        Command::User(User::Roles { name, roles, none: _ }) => {
            change_user(name, UserChange::Roles(roles), None)
        }
        Command::User(User::Password { name, password }) => {
            change_user(name, UserChange::Password, Some(password))
        }
        Command::User(User::Remove { name, clients_to }) => {
            change_user(name, UserChange::Remove { heir: clients_to.as_deref() }, None)
        }
        Command::Gateway(Gateway::Add { name, new_secret, secret_file }) => {
            let secret =
                manager::put_gateway(database, name, *new_secret).map_err(Failure::error)?;
            stdout(&gateway_added(control, name, &secret, secret_file.as_deref())?)
        }
        Command::Gateway(Gateway::List) => {
            let mut lines = String::new();
            manager::list_gateways(database, |name| lines.push_str(&format!("{name}\n")))
                .map_err(Failure::error)?;
            stdout(&lines)
        }
        Command::Clients => {
            let mut lines = String::new();
            manager::list_clients(database, |id, name, owner| {
                lines.push_str(&format!("{id} {name} ({owner})\n"));
            })
            .map_err(Failure::error)?;
            stdout(&lines)
        }
        Command::Backup { file } => manager::backup(database, file).map_err(Failure::error),
        Command::Restore { file } => manager::restore(database, file).map_err(Failure::error),
    }
}

/// Keeps the secret of a gateway in `file`, if it is given. Returns the text to print: the settings of the gateway.
fn gateway_added(
    control: &ControlSettings,
    name: &str,
    secret: &str,
    file: Option<&Path>,
) -> Result<String, Failure> {
    let origin = origin(control);
    let secret = match file {
        Some(file) => {
            follow::write_private(file, format!("{secret}\n").as_bytes())
                .map_err(|error| Failure::Error(format!(
                    "cannot write {}: {error}; the gateway is registered, and `--new-secret` gives it another secret",
                    file.display()
                )))?;
            format!("Its secret is in {}.", file.display())
        }
        None => format!("Its secret (shown only now): {secret}"),
    };
    Ok(format!(
        "Gateway `{name}` is registered. {secret}\n\
         In its penstock.toml, with the secret in a file:\n\n\
         [gateway]\n\
         control_plane = {{ url = \"{origin}\", client_id = \"{name}\", client_secret = {{ file = \"gateway.secret\" }} }}\n"
    ))
}

/// Scheme, host and port of the control plane.
fn origin(control: &ControlSettings) -> String {
    control.issuer.splitn(4, '/').take(3).collect::<Vec<_>>().join("/")
}

/// Returns the password, if one was generated.
fn change_user(
    database: &Database,
    name: &str,
    change: UserChange<'_>,
    password: Option<&NewPassword>,
) -> Result<Option<String>, Failure> {
    let file = password.and_then(|password| password.password_file.as_deref());
    let read = |file: &Path| fs::read_to_string(file).map_err(|e| Failure::file("read", file, &e));
    let given = file.map(read).transpose()?;
    // An editor's newline is not part of the password.
    let given = given.as_deref().map(|text| text.strip_suffix('\n').unwrap_or(text));
    manager::change_user(database, name, change, given).map_err(Failure::error)
}

fn signing_keys(settings: &ControlSettings, data: &Path) -> Result<Vec<Vec<u8>>, Failure> {
    match settings.keys.as_slice() {
        [] => Ok(vec![signing_key(&data.join(KEY))?]),
        files => files.iter().map(|file| signing_key(file)).collect(),
    }
}

/// A private key in PEM.
fn signing_key(file: &Path) -> Result<Vec<u8>, Failure> {
    let pem = read_file(file)?;
    match SigningKey::from_pem(&pem) {
        Ok(_) => Ok(pem),
        Err(error) => Err(Failure::Error(format!("{}: {error}", file.display()))),
    }
}

fn start(
    settings: &ControlSettings,
    all: &Settings,
    certificates: Arc<ServerCertificates>,
) -> Result<Control, Failure> {
    let database = database(&settings.store)?;
    if settings.keys.is_empty() {
        generate_key(&all.gateway.data.join(KEY))?;
    }
    let keys = signing_keys(settings, &all.gateway.data)?;
    let password = settings.admin_password.clone().map(String::from_utf8).transpose();
    let client_ca = settings
        .client_ca
        .as_ref()
        .map(|files| files.iter().map(|file| read_file(file)).collect::<Result<Vec<_>, Failure>>());
    let directory = settings.ldap.as_ref();
    let directory =
        directory.map(|ldap| Ok((ldap.clone(), directory_tls(ldap, &all.upstream_tls)?)));
    let options = Options {
        listen: settings.https,
        certificates,
        database,
        issuer: settings.issuer.clone(),
        keys,
        lifetimes: settings.lifetimes,
        access_token_claims: settings.access_token_claims.clone(),
        scopes: settings.scopes.clone(),
        trusted: trusted(settings, all),
        providers: settings.providers.clone(),
        ask: ask_provider(&all.upstream_tls),
        check_plan: formats::declarative::check_published_plan,
        api_keys: settings.api_keys.clone(),
        trusted_proxies: settings.trusted_proxies.clone(),
        cors_origins: settings.cors_origins.clone(),
        directory: directory.transpose()?,
        client_ca: client_ca.transpose()?,
        admin_password: password.map_err(Failure::error)?,
    };
    Control::start(options).map_err(|error| Failure::Error(format!("control plane: {error}")))
}

/// The trusted issuers, whose keys come from a file, or from a URL with the trust store for upstreams.
fn trusted(settings: &ControlSettings, all: &Settings) -> Vec<TrustedIssuer> {
    let fetch = fetch_with(all.upstream_tls.clone());
    let trusted = settings.trusted_issuers.iter().map(|issuer| {
        let (keys, fetch) = (issuer.keys.clone(), Arc::clone(&fetch));
        let read_keys = move || match &keys {
            KeySource::JwksFile(file) => follow::read_pem(file),
            KeySource::JwksUrl(url) => fetch(url),
            KeySource::Discovery(_)
            | KeySource::Pem(_)
            | KeySource::Secret(_)
            | KeySource::Absent => Err("they are neither in a file nor at a URL".to_owned()),
        };
        TrustedIssuer {
            name: issuer.name.clone(),
            iss: issuer.iss.clone(),
            read_keys: Arc::new(read_keys),
        }
    });
    trusted.collect()
}

/// TLS for the servers of an LDAP directory, which are verified with the trust store for upstreams, if one needs it.
fn directory_tls(
    ldap: &LdapSettings,
    trust: &UpstreamTls,
) -> Result<Option<Arc<ClientTls>>, Failure> {
    let needs_tls = ldap.start_tls || ldap.urls.iter().any(|url| url.starts_with("ldaps:"));
    needs_tls.then(|| client_tls(trust)).transpose().map_err(Failure::Error)
}

/// Sends requests to providers of users, whose servers are verified with the same trust store.
fn ask_provider(trust: &UpstreamTls) -> AskProvider {
    let mut elsewhere = trust.clone();
    elsewhere.endpoints.iter_mut().for_each(|endpoint| endpoint.identity = None);
    // Each with connections of its own.
    let (send, send_elsewhere) = (send_with(trust.clone()), send_with(elsewhere));
    let bounds = Bounds { bytes_max: PROVIDER_BYTES_MAX, total_ms: PROVIDER_MS_MAX };
    Arc::new(move |request| {
        let ProviderRequest { url, is_elsewhere, authorization, form } = request;
        let form_type = form.as_ref().map(|_| "application/x-www-form-urlencoded".to_owned());
        let fields = [
            ("Accept", Some("application/json".to_owned())),
            ("Authorization", authorization),
            ("Content-Type", form_type),
        ];
        let fields = fields.into_iter().filter_map(|(name, value)| Some((name, value?)));
        // A form contains a code.
        let repetition = if form.is_some() { Repetition::SingleUse } else { Repetition::ByMethod };
        let (fields, body) = (fields.collect(), form.map(String::into_bytes));
        let content = Content { fields, body, repetition };
        let sent = if is_elsewhere {
            send_elsewhere(&url, content, bounds)
        } else {
            send(&url, content, bounds)
        };
        sent.map_err(AskError::Outage)?.map_err(|error| {
            let kind = if error.is_outage() { AskError::Outage } else { AskError::Refused };
            kind(error.to_string())
        })
    })
}

/// # Errors
/// This build has no client for a database server.
fn database(settings: &StoreSettings) -> Result<Database, Failure> {
    let database = match settings {
        StoreSettings::Sqlite(file) => Database::Sqlite(file.clone()),
        StoreSettings::Server(url) => Database::Server(url.clone()),
    };
    if database.is_included() {
        return Ok(database);
    }
    let message = "[store] url: this build has no database but SQLite; `make release` builds \
                   target/release/penstock, which has PostgreSQL, MySQL and MariaDB";
    Err(Failure::Usage(message.to_owned()))
}

/// Generates the key, unless an earlier start has. If several processes start at once, all use the key of one of them.
fn generate_key(file: &Path) -> Result<(), Failure> {
    if !file.exists() {
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder).map_err(|error| Failure::file("create", folder, &error))?;
        }
        let own = file.with_extension(std::process::id().to_string());
        let pem = SigningKey::generate_rsa().map_err(Failure::error)?;
        let written = follow::write_private(&own, pem.as_bytes());
        // Unlike a renaming, a link never replaces a file.
        let linked = written.and_then(|()| fs::hard_link(&own, file));
        drop(fs::remove_file(&own));
        match linked {
            Ok(()) => tracing::info!(key = %file.display(), "generated a signing key"),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Failure::file("write", file, &error)),
        }
    }
    Ok(())
}

fn read_file(file: &Path) -> Result<Vec<u8>, Failure> {
    follow::read_pem(file).map_err(|why| Failure::Error(format!("{}: {why}", file.display())))
}

fn load_certificates(settings: &Settings) -> Result<wire::tls::CertificateSet, Failure> {
    follow::server_certificates(&settings.tls, &settings.gateway.data, now())
        .map_err(|problem| report(&[problem]))
}

fn now() -> base::Now {
    SystemClock::new().now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_in_a_build_without_clients_of_servers_is_a_usage_error_that_names_the_build() {
        let opened = database(&StoreSettings::Server("postgres://me:secret@db/x".to_owned()));
        if cfg!(feature = "databases") {
            assert!(matches!(opened, Ok(Database::Server(_))));
            return;
        }
        let Err(Failure::Usage(message)) = opened else { panic!("{opened:?}") };
        assert!(message.contains("`make release`") && !message.contains("secret"), "{message}");
    }

    #[test]
    fn every_build_has_sqlite() {
        let opened = database(&StoreSettings::Sqlite("penstock.db".into()));
        assert_eq!(opened, Ok(Database::Sqlite("penstock.db".into())));
    }
}
