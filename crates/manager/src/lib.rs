//! The control plane: its key manager issues OAuth2 tokens, at WSO2's paths.
//!
//! Place in the flow: clients of OAuth2, administrators --> **manager** --> `store`, an LDAP directory, OpenID Connect
//! providers. Gateways meet it only through the keys that it publishes, the tokens that it signs, and the lists of
//! revoked tokens, of applications and of plans. [`routes`] lists the endpoints; each is a function of a parsed
//! request.
//!
//! It runs on one thread of its own, with hyper: it is not on the path of a request to an API.
//!
//! Architecture invariant: no SQL (that is `store`'s), no file, and no dependency on the data plane. Secrets and
//! opaque tokens are kept only as hashes, and neither they nor passwords are logged.

mod account;
mod api_keys;
mod applications;
mod assertion;
mod attempts;
mod authorize;
mod bearer;
mod cached;
mod cors;
mod credentials;
mod device;
mod directory;
mod dpop;
mod exchange;
mod federation;
mod form;
mod gateways;
mod inspect;
mod keys;
mod ldap;
pub mod limits;
mod manager;
mod metadata;
mod oidc;
mod outside;
mod passwords;
mod peer;
mod plans;
mod provider;
mod register;
mod reply;
mod revocations;
mod routes;
mod secrets;
mod server;
mod sign_in;
mod stall;
mod token;
mod users;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use model::{ApiKeySettings, LdapSettings, TokenLifetimes, UserProvider};
use store::Store;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use wire::tls::{ClientAuth, ClientTls, ServerCertificates};

use crate::bearer::Trusted;
use crate::keys::{CurrentKeys, Keys};
use crate::ldap::Directory;
use crate::manager::Manager;
use crate::provider::Provider;

pub use bearer::TrustedIssuer;
pub use gateways::{GatewayError, list_gateways, put_gateway};
pub use plans::CheckPlan;
pub use provider::{AskError, AskProvider, ProviderRequest};
pub use register::put_client;
pub use store::{Database, StoreError};
pub use users::{ADMIN, ListedUser, UserChange, UserError, change_user, list_clients, list_users};

/// Settings of a control plane.
pub struct Options {
    pub listen: SocketAddr,
    pub certificates: Arc<ServerCertificates>,
    pub database: Database,
    /// The `iss` of tokens: an https URL.
    pub issuer: String,
    /// Private keys in PEM. The first signs.
    pub keys: Vec<Vec<u8>>,
    pub lifetimes: TokenLifetimes,
    /// Claims of users that are in access tokens, too.
    pub access_token_claims: Vec<String>,
    /// Scopes, each with the roles of which a user needs one.
    pub scopes: Vec<(String, Vec<String>)>,
    pub trusted: Vec<TrustedIssuer>,
    /// Users besides those in the database, and TLS for the servers that need it.
    pub directory: Option<(LdapSettings, Option<Arc<ClientTls>>)>,
    pub providers: Vec<UserProvider>,
    pub ask: AskProvider,
    pub check_plan: CheckPlan,
    /// `None`: there are no API keys.
    pub api_keys: Option<ApiKeySettings>,
    /// The proxies whose `X-Forwarded-For` is trusted.
    pub trusted_proxies: Vec<(IpAddr, u8)>,
    /// The origins whose applications may read responses, as browsers write them, or `*`.
    pub cors_origins: Vec<String>,
    /// The CAs of clients that authenticate by certificates, in PEM. `None`: no client does.
    pub client_ca: Option<Vec<Vec<u8>>>,
    /// The password of [`ADMIN`] if the start creates that user; `None`: one is generated, to be replaced first.
    pub admin_password: Option<String>,
}

/// Why the control plane cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot listen on {address} (`[control] https`): {source}")]
    Listen { address: SocketAddr, source: io::Error },
    #[error("{0}")]
    Keys(String),
    #[error("`client_ca`: {0}")]
    ClientCa(String),
    #[error("[control.ldap]: {0}")]
    Directory(String),
    #[error("{0}")]
    Store(#[from] StoreError),
    #[error("the user `admin` cannot be created: {0}")]
    Admin(String),
    #[error(
        "the user `{0}` could be one of the trusted issuer `{1}`; remove the user, or give the issuer another name"
    )]
    Collision(String, String),
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

/// A running control plane.
#[derive(Debug)]
pub struct Control {
    address: SocketAddr,
    generated: Option<String>,
    keys: CurrentKeys,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Control {
    /// Opens the store and starts serving. Requests are accepted when it returns.
    ///
    /// # Errors
    /// The address, the store or a key cannot be used.
    pub fn start(options: Options) -> Result<Self, StartError> {
        let (stop, stopped) = watch::channel(false);
        let (ready, started) = mpsc::channel();
        let run = move || match Started::new(options) {
            Ok(Started { runtime, address, generated, keys, manager, listener, tls }) => {
                // Fails if the caller has given up.
                drop(ready.send(Ok((address, generated, keys))));
                runtime.block_on(server::serve(manager, listener, tls, stopped));
            }
            Err(error) => drop(ready.send(Err(error))),
        };
        let thread = thread::Builder::new().name("control".to_owned()).spawn(run);
        let thread = thread.map_err(StartError::Thread)?;
        let ended = |_| StartError::Thread(io::Error::other("the thread ended"));
        let (address, generated, keys) = started.recv().map_err(ended)??;
        Ok(Self { address, generated, keys, stop, thread: Some(thread) })
    }

    /// The address of the listener.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The password of [`ADMIN`], if this start generated one. It is not kept anywhere else.
    pub fn take_generated_password(&mut self) -> Option<String> {
        self.generated.take()
    }

    /// Signs with the first of these keys, in PEM, from now on, and publishes all of them. False: they are the same.
    ///
    /// # Errors
    /// A key cannot be used; nothing changes then.
    pub fn replace_keys(&self, pems: &[Vec<u8>]) -> Result<bool, StartError> {
        Ok(self.keys.replace(Keys::read(pems).map_err(StartError::Keys)?))
    }

    /// Stops accepting, lets requests in progress finish, and closes the store.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        // Fails if the thread has ended.
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of the control plane panicked");
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.end();
    }
}

struct Started {
    runtime: Runtime,
    address: SocketAddr,
    generated: Option<String>,
    keys: CurrentKeys,
    manager: Arc<Manager>,
    listener: TcpListener,
    tls: Arc<rustls::ServerConfig>,
}

impl Started {
    fn new(options: Options) -> Result<Self, StartError> {
        let Options { listen, certificates, database, issuer, keys, .. } = options;
        let authorities = options.client_ca.as_ref().filter(|pems| !pems.is_empty());
        let authorities = authorities.map(|pems| ClientAuth::new(pems, false)).transpose();
        let authorities = authorities.map_err(|error| StartError::ClientCa(error.to_string()))?;
        let keys = CurrentKeys::new(Keys::read(&keys).map_err(StartError::Keys)?);
        let directory =
            options.directory.map(|(settings, tls)| Directory::new(settings, tls.as_ref()));
        let directory = directory.transpose();
        let directory = directory.map_err(StartError::Directory)?;
        let runtime = runtime()?;
        let not_bound = |source| StartError::Listen { address: listen, source };
        let (listener, store, generated) = runtime.block_on(async {
            // The address first: a second instance by mistake changes nothing in the store.
            let listener = TcpListener::bind(listen).await.map_err(not_bound)?;
            let store = Store::open(&database).await?;
            for TrustedIssuer { name, .. } in &options.trusted {
                // Added before names with a slash were rejected.
                if let Some(user) = store.user_with_prefix(&format!("{name}/")).await? {
                    return Err(StartError::Collision(user, name.clone()));
                }
            }
            revocations::renumber(&store).await?;
            let generated = users::first_admin(&store, options.admin_password).await;
            let generated = generated.map_err(|error| StartError::Admin(error.to_string()))?;
            Ok::<_, StartError>((listener, store, generated))
        })?;
        let address = listener.local_addr().map_err(not_bound)?;
        let clients = options.client_ca.map(|_| ClientAuth::any());
        let tls = wire::tls::server_config_for(certificates, false, clients.as_ref());
        let (lifetimes, check_plan) = (options.lifetimes, options.check_plan);
        let mut manager = Manager::new(store, keys.clone(), issuer, lifetimes, check_plan);
        (manager.accepts_certificates, manager.authorities) = (clients.is_some(), authorities);
        manager.trusted =
            options.trusted.into_iter().map(|one| Arc::new(Trusted::new(one))).collect();
        (manager.scopes, manager.access_token_claims) =
            (options.scopes, options.access_token_claims);
        (manager.directory, manager.api_keys) = (directory, options.api_keys);
        manager.trusted_proxies = options.trusted_proxies;
        manager.cors_origins = options.cors_origins;
        let provider = |settings| Provider::new(settings, Arc::clone(&options.ask));
        manager.providers = options.providers.into_iter().map(provider).collect();
        let manager = Arc::new(manager);
        Ok(Self { runtime, address, generated, keys, manager, listener, tls })
    }
}

fn runtime() -> Result<Runtime, StartError> {
    Builder::new_current_thread().enable_all().build().map_err(StartError::Thread)
}

/// Writes the state of the database to the new file `to`, also while the control plane runs.
///
/// # Errors
/// As [`store::backup`].
pub fn backup(database: &Database, to: &Path) -> Result<(), StartError> {
    Ok(runtime()?.block_on(store::backup(database, to))?)
}

/// Replaces the database by the file `from`, which [`backup`] wrote.
///
/// # Errors
/// As [`store::restore`].
pub fn restore(database: &Database, from: &Path) -> Result<(), StartError> {
    Ok(runtime()?.block_on(store::restore(database, from))?)
}
