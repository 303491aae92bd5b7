//! The settings of the configuration file `penstock.toml`, loaded and checked by `formats`, which also has
//! the manual of the keys.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use base::limits;

use crate::{BackendClient, BackendCredential, Cors, Place, Plans, ServiceAccess};

/// All settings of `penstock gateway --config`. Relative paths are resolved against the file's folder.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    pub gateway: GatewaySettings,
    pub integration: IntegrationSettings,
    pub tls: TlsSettings,
    pub admin: AdminSettings,
    pub upstream_tls: UpstreamTls,
    pub access_log: AccessLog,
    pub log: LogSettings,
    pub issuers: Vec<IssuerSettings>,
    /// `[[credential]]`: the gateway's credentials at upstreams, by name.
    pub credentials: Vec<(String, Arc<BackendCredential>)>,
    /// `[[login]]`: providers where browsers sign in. Names are unique.
    pub logins: Vec<Arc<Login>>,
    /// `[[user]]`: users who may call APIs with a password. Names are unique.
    pub users: Vec<User>,
    /// The plans that WSO2 ships, and those of `[gateway] plans`.
    pub plans: Plans,
    /// `[control]`; absent: no control plane.
    pub control: Option<ControlSettings>,
    /// `[quotas]`; absent: each gateway counts alone.
    pub quotas: Option<QuotaSettings>,
    /// `[backend_jwt]`; absent: upstreams get no assertion.
    pub backend_jwt: Option<BackendJwt>,
    /// `[vault]`; absent: secrets come only from files and environment variables.
    pub vault: Option<VaultSettings>,
    /// `[snapshot] directory`, or below `[gateway] data`: the folder of snapshots on disk; absent: none are written.
    pub snapshot: Option<PathBuf>,
}

impl Settings {
    /// Whether a listener needs certificates.
    #[must_use]
    pub fn has_https(&self) -> bool {
        self.gateway.https.is_some() || self.integration.https.is_some()
    }

    /// Whether any user may call APIs with a password.
    #[must_use]
    pub fn has_users(&self) -> bool {
        !self.users.is_empty() || self.issuers.iter().any(|issuer| issuer.passwords.is_some())
    }

    /// Whether callers need a subscription.
    #[must_use]
    pub fn has_applications(&self) -> bool {
        !self.gateway.applications.is_empty() || self.gateway.control_plane.is_some()
    }
}

/// `[gateway]`
#[derive(Clone, Debug, PartialEq)]
pub struct GatewaySettings {
    /// `http`: address of the cleartext listener; absent: not opened.
    pub http: Option<SocketAddr>,
    /// `https`: address of the TLS listener; absent: not opened.
    pub https: Option<SocketAddr>,
    /// `workers`: number of worker threads; absent: one per CPU allowed by affinity and cgroup quota.
    pub workers: Option<usize>,
    /// `apis`: files and folders of API descriptions, followed while running.
    pub apis: Vec<PathBuf>,
    /// `plans`: files of plans, followed while running.
    pub plans: PlanFiles,
    /// `applications`: files and folders of applications, followed while running.
    pub applications: Vec<PathBuf>,
    /// `control_plane`: the applications of a control plane, followed while running.
    pub control_plane: Option<Feed>,
    /// `data`: folder of generated keys and certificates.
    pub data: PathBuf,
    /// `trusted_proxies`: addresses and CIDR blocks whose `X-Forwarded-*` and `Forwarded` are trusted.
    pub trusted_proxies: Vec<(IpAddr, u8)>,
    /// `fault_status`: status of upstream faults: `"wso2"`: 500; `"http"`: 502, 503 or 504.
    pub fault_status: FaultStatus,
    /// `http2`: the listeners that accept HTTP/2.
    pub http2: Http2Listeners,
    /// `dpop_nonce`: whether DPoP proofs require a nonce from the gateway.
    pub dpop_nonce: bool,
    /// `strict_paths`: whether APIs reject paths with more than one interpretation, unless their file overrides it.
    pub strict_paths: bool,
    /// `drain_s`: longest time to finish requests in progress after SIGTERM, in seconds.
    pub drain_s: u32,
    /// `response_head_ms`: longest wait for an upstream's response head, in milliseconds.
    pub response_head_ms: u32,
    /// `try_ms`: longest wait for the response head of one try, in milliseconds; absent: only `response_head_ms`.
    pub try_ms: Option<u32>,
    /// `retry_budget_percent`: retries as a percentage of the requests to an endpoint set.
    pub retry_budget_percent: u32,
    /// `connect_ms`: longest wait for an upstream connection, in milliseconds.
    pub connect_ms: u32,
    /// `nameservers`: name servers for the host names of endpoints; empty: the system's.
    pub nameservers: Vec<SocketAddr>,
    /// `source_addresses`: addresses that connections to upstreams come from; empty: the kernel chooses one.
    pub source_addresses: Vec<IpAddr>,
    /// `stall_ms`: longest time without progress in a body, in milliseconds.
    pub stall_ms: u32,
    /// `head_ms`: longest wait for a complete request head, in milliseconds.
    pub head_ms: u32,
    /// `idle_ms`: longest wait for the next request on a connection, in milliseconds.
    pub idle_ms: u32,
    /// `connections_max`: maximum number of client connections per worker.
    pub connections_max: usize,
    /// `client_connections_max`: maximum number of connections of one client per worker.
    pub client_connections_max: usize,
    /// `client_requests_max`: maximum number of requests of one client in progress, per worker.
    pub client_requests_max: usize,
    /// `api_requests_max`: maximum number of requests to one API in progress, per worker.
    pub api_requests_max: usize,
    /// `endpoint_waiting_max`: maximum number of requests that wait for one endpoint, per worker.
    pub endpoint_waiting_max: usize,
    /// `min_rate`: slowest progress of a body that counts, in bytes per second; 0: any.
    pub min_rate: u32,
    /// `held_body_bytes_max`: largest body that is held in memory, because a stage reads it, in bytes.
    pub held_body_bytes_max: usize,
    /// `held_bytes_max`: memory for all held bodies, per worker, in bytes.
    pub held_bytes_max: usize,
}

/// Settings without listeners and files.
impl Default for GatewaySettings {
    fn default() -> Self {
        Self {
            http: None,
            https: None,
            workers: None,
            apis: Vec::new(),
            plans: PlanFiles::default(),
            applications: Vec::new(),
            control_plane: None,
            data: PathBuf::new(),
            trusted_proxies: Vec::new(),
            fault_status: FaultStatus::default(),
            http2: Http2Listeners::ALL,
            dpop_nonce: false,
            strict_paths: false,
            drain_s: limits::DRAIN_S_DEFAULT,
            response_head_ms: limits::RESPONSE_HEAD_MS_MAX,
            try_ms: None,
            retry_budget_percent: limits::RETRY_BUDGET_PERCENT,
            connect_ms: limits::CONNECT_MS_MAX,
            nameservers: Vec::new(),
            source_addresses: Vec::new(),
            stall_ms: limits::STALL_MS_MAX,
            head_ms: limits::HEAD_MS_MAX,
            idle_ms: limits::IDLE_CLIENT_MS_MAX,
            connections_max: limits::CLIENT_CONNECTIONS_MAX,
            client_connections_max: limits::CLIENT_CONNECTIONS_DEFAULT,
            client_requests_max: limits::CLIENT_REQUESTS_DEFAULT,
            api_requests_max: limits::API_REQUESTS_DEFAULT,
            endpoint_waiting_max: limits::ENDPOINT_WAITING_DEFAULT,
            min_rate: limits::MIN_RATE_DEFAULT,
            held_body_bytes_max: limits::HELD_BODY_BYTES_DEFAULT,
            held_bytes_max: limits::HELD_BYTES_DEFAULT,
        }
    }
}

/// `[integration]`: Synapse artefacts. Without the section nothing is read and no listener is opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IntegrationSettings {
    /// `http`: address of the cleartext listener of proxies and APIs; absent: not opened.
    pub http: Option<SocketAddr>,
    /// `https`: address of their TLS listener; absent: not opened.
    pub https: Option<SocketAddr>,
    /// `http2`: the listeners that accept HTTP/2; absent: as in `[gateway]`.
    pub http2: Option<Http2Listeners>,
    /// `artifacts`: files, folders and `.car` archives, followed while running.
    pub artefacts: Vec<PathBuf>,
    pub rules: ArtefactRules,
}

/// Settings of `[integration]` and `[[service]]` for artefacts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArtefactRules {
    /// `cors_origins` and `cors_headers`: the rules of all Synapse APIs; absent: they answer no cross-origin request.
    pub cors: Option<Cors>,
    /// `json_*`: how XML becomes JSON, by the names of Synapse's properties. All are valid.
    pub json: BTreeMap<&'static str, String>,
    /// `[[service]]`. No two have the same name.
    pub services: Vec<ServiceRules>,
}

/// `[[service]]`: security and plans of the services with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceRules {
    /// `name`: the name of a proxy service, of a Synapse API with or without its version, or of an inbound endpoint.
    pub name: String,
    pub access: ServiceAccess,
    /// The file of the section.
    pub file: PathBuf,
    /// The position of the name.
    pub place: Place,
    /// The position of each plan.
    pub plan_places: Vec<Place>,
}

/// `[gateway] plans`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanFiles {
    pub files: Vec<PathBuf>,
    /// Whether a missing file is an error.
    pub required: bool,
    /// The texts of the files, for snapshots on disk.
    pub texts: Vec<PlanText>,
    /// The file of each plan, by the plan's name in lower case. WSO2's plans have none.
    pub owners: BTreeMap<String, PathBuf>,
}

/// The text of a file of plans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanText {
    pub file: PathBuf,
    pub text: Vec<u8>,
    /// Whether the text comes from a snapshot on disk, because the file has been unavailable since the start.
    pub is_restored: bool,
}

/// Which listeners accept HTTP/2 from clients; all accept HTTP/1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Http2Listeners {
    /// Whether HTTP/2 is accepted in cleartext, by prior knowledge.
    pub http: bool,
    /// Whether HTTP/2 is accepted over TLS, by ALPN.
    pub https: bool,
}

impl Http2Listeners {
    pub const ALL: Self = Self { http: true, https: true };
    pub const NONE: Self = Self { http: false, https: false };
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FaultStatus {
    #[default]
    Wso2,
    Http,
}

/// `[tls]`: the certificates of the https listener.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsSettings {
    /// `cert` and `key`: the default pair; absent: generated and stored in `data`.
    pub default: Option<CertificateFiles>,
    /// `[[tls.sni]]`
    pub sni: Vec<SniCertificate>,
    /// `client_ca`; absent: no client certificates.
    pub clients: Option<ClientCertificates>,
}

/// How the https listener treats client certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificates {
    /// `client_ca`: PEM files of the authorities that issue client certificates.
    pub ca: Vec<PathBuf>,
    /// `client_certificate = "required"`: a handshake without one fails.
    pub required: bool,
    /// `forward_client_certificate`: whether upstreams receive them in `X-WSO2-CLIENT-CERTIFICATE`.
    pub forward: bool,
    /// `client_certificate_header`: the field in which `trusted_proxies` send the certificates of their clients.
    pub header: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate chain in PEM, leaf first.
    pub cert: PathBuf,
    /// The private key in PEM: PKCS#8, PKCS#1 or SEC1.
    pub key: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SniCertificate {
    /// Lower case; `*.example.org` matches exactly one label.
    pub hosts: Vec<String>,
    pub files: CertificateFiles,
}

/// `[upstream_tls]`: verification of https endpoints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpstreamTls {
    /// `ca`: PEM files of additional certificate authorities.
    pub ca: Vec<PathBuf>,
    /// `system_roots`: whether to trust the system's certificate authorities as well. Default: true.
    pub system_roots: bool,
    /// `[[upstream_tls.endpoint]]`
    pub endpoints: Vec<EndpointTls>,
}

/// `[[upstream_tls.endpoint]]`: TLS settings for particular endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointTls {
    /// Hosts in lower case; `*.example.org` matches exactly one label. Each host is in one section only.
    pub hosts: Vec<String>,
    /// `cert` and `key`: the gateway's certificate, for endpoints that require one.
    pub identity: Option<CertificateFiles>,
    /// `ca`: PEM files of the only trusted certificate authorities; absent: those of `[upstream_tls]`.
    pub ca: Vec<PathBuf>,
}

/// `[admin]`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdminSettings {
    /// `listen`: address of `/healthz /readyz /metrics /diagnostics`; absent: not opened.
    pub listen: Option<SocketAddr>,
}

/// `[control]`: the control plane, which issues tokens.
#[derive(Clone, PartialEq, Eq)]
pub struct ControlSettings {
    /// `https`: address of its listener.
    pub https: SocketAddr,
    /// `issuer`: the `iss` of its tokens.
    pub issuer: String,
    /// `keys`: PEM files of private keys. The first key signs; the public keys of all are published. If empty, a key is
    /// generated and kept in `data`.
    pub keys: Vec<PathBuf>,
    /// `access_token_s`, `refresh_token_s`
    pub lifetimes: TokenLifetimes,
    /// `admin_password`; absent: generated at the first start.
    pub admin_password: Option<Vec<u8>>,
    /// `access_token_claims`: claims of users that access tokens contain too.
    pub access_token_claims: Vec<String>,
    /// `[[control.scope]]`: scopes, each with the roles that may have it. A user needs one of them.
    pub scopes: Vec<(String, Vec<String>)>,
    /// `client_ca`: PEM files of the CAs of clients that authenticate by certificates; absent: no client does.
    pub client_ca: Option<Vec<PathBuf>>,
    /// `trusted_proxies`: proxies whose `X-Forwarded-For` is trusted.
    pub trusted_proxies: Vec<(IpAddr, u8)>,
    /// `cors_origins`: the origins whose applications may read its responses, as browsers write them, or `*`.
    pub cors_origins: Vec<String>,
    /// `[[control.trusted_issuer]]`
    pub trusted_issuers: Vec<TrustedIssuer>,
    /// `[control.ldap]`
    pub ldap: Option<LdapSettings>,
    /// `[[control.provider]]`
    pub providers: Vec<UserProvider>,
    /// `[control.api_keys]`
    pub api_keys: Option<ApiKeySettings>,
    /// `[store]`
    pub store: StoreSettings,
}

/// Lifetimes of the key manager's tokens, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenLifetimes {
    /// Lifetime of access tokens and ID tokens.
    pub access_s: u64,
    /// Lifetime of refresh tokens.
    pub refresh_s: u64,
}

/// An issuer whose assertions the key manager exchanges for its own tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedIssuer {
    /// `name`: prefix of the names of the issuer's users.
    pub name: String,
    /// `iss` of its assertions.
    pub iss: String,
    /// `jwks`: a file or a URL.
    pub keys: KeySource,
}

/// An LDAP directory whose users can sign in.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct LdapSettings {
    /// `urls`: `ldap://` or `ldaps://`, of servers with the same entries.
    pub urls: Vec<String>,
    /// `start_tls`
    pub start_tls: bool,
    /// `bind_dn`: the entry that searches; empty: anonymous.
    pub bind_dn: String,
    /// `bind_password`
    pub bind_password: String,
    /// `base`: the entry below which users are searched.
    pub base: String,
    /// `filter`: search filter for the user `{user}`.
    pub filter: String,
    /// `name`: the attribute with the name of a user.
    pub name: String,
    /// `id`: the attribute that stays the same if a user is renamed.
    pub id: String,
    /// `groups`: the attribute with the groups of a user, or with the name of a group.
    pub groups: String,
    /// `group_base` and `group_filter`: search base and filter of groups.
    pub group_search: Option<(String, String)>,
    /// `claim` and `role`
    pub mapping: UserMapping,
}

/// The password is not printed.
impl std::fmt::Debug for LdapSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LdapSettings").field("urls", &self.urls).finish_non_exhaustive()
    }
}

/// An OpenID Connect provider at which users of the key manager sign in.
#[derive(Clone, PartialEq, Eq)]
pub struct UserProvider {
    /// `name`: prefix, before a slash, of the names of the provider's users.
    pub name: String,
    /// `title`: name of the provider on the sign-in page.
    pub title: String,
    /// `issuer`
    pub issuer: String,
    /// `client_id`
    pub client_id: String,
    /// `client_secret`
    pub client_secret: String,
    /// `openid`, and `scopes`
    pub scopes: Vec<String>,
    /// `user`: the claim with the name of a user.
    pub user: String,
    /// `groups`: the claim with the groups of a user.
    pub groups: String,
    /// `claim` and `role`
    pub mapping: UserMapping,
}

/// The secret is not printed.
impl std::fmt::Debug for UserProvider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UserProvider").field("name", &self.name).finish_non_exhaustive()
    }
}

/// API keys that the key manager issues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKeySettings {
    /// `validity_s`: longest and default lifetime of a key, in seconds. At most a day for users of a directory or
    /// provider.
    pub validity_s: u64,
    /// `api`: names and versions of APIs, which may be `*`. If empty, all APIs that accept keys without a subscription.
    pub apis: Vec<(String, String)>,
}

/// How attributes and groups of a directory or provider become claims and roles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserMapping {
    /// Names of claims, each with its name at the source.
    pub claims: Vec<(String, String)>,
    /// Names of roles, each with the groups whose members have the role.
    pub roles: Vec<(String, Vec<String>)>,
}

/// The password is not printed.
impl std::fmt::Debug for ControlSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ControlSettings").field("https", &self.https).finish_non_exhaustive()
    }
}

/// `[backend_jwt]`: the JWT that identifies the caller to upstreams.
#[derive(Clone, PartialEq, Eq)]
pub struct BackendJwt {
    /// `key`: a private key in PEM.
    pub key: Vec<u8>,
    /// `certificate`: the certificate of the key, in DER.
    pub certificate: Option<Vec<u8>>,
    /// `header`: the field that carries the JWT.
    pub header: String,
    /// `issuer`: the `iss` of the JWT.
    pub issuer: String,
    /// `dialect`: prefix of the names of WSO2's claims.
    pub dialect: String,
    /// `expires_s`
    pub expires_s: u64,
}

/// The key is not printed.
impl std::fmt::Debug for BackendJwt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { header, issuer, .. } = self;
        let mut shown = f.debug_struct("BackendJwt");
        shown.field("header", header).field("issuer", issuer).finish_non_exhaustive()
    }
}

/// `[quotas]`: the server through which gateways share the counts of their limits.
#[derive(Clone, PartialEq, Eq)]
pub struct QuotaSettings {
    /// `redis`: the server, as `redis://` or `rediss://`, without a password.
    pub redis: String,
    /// `password`
    pub password: Option<Vec<u8>>,
    /// `ca`: PEM files of the authorities of the server's certificate; empty: those of the system.
    pub ca: Vec<PathBuf>,
    pub when_down: WhenDown,
}

/// The password is not printed.
impl std::fmt::Debug for QuotaSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { redis, when_down, .. } = self;
        let mut shown = f.debug_struct("QuotaSettings");
        shown.field("redis", redis).field("when_down", when_down).finish_non_exhaustive()
    }
}

/// `when_down`: the behaviour while the server does not respond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenDown {
    /// Each gateway counts alone, starting from its last known counts.
    #[default]
    Local,
    /// No limit applies.
    Open,
    /// Requests to which a limit applies are rejected.
    Closed,
}

impl WhenDown {
    /// The name in the configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Open => "open",
            Self::Closed => "closed",
        }
    }
}

/// `[store] url`: the database of the control plane.
#[derive(Clone, PartialEq, Eq)]
pub enum StoreSettings {
    /// `sqlite:FILE`
    Sqlite(PathBuf),
    /// The URL of a server that several instances can share: `postgres://...`, `mysql://...`
    Server(String),
}

/// A URL is not printed, since it can hold a password.
impl std::fmt::Debug for StoreSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Sqlite(file) => f.debug_tuple("Sqlite").field(file).finish(),
            Self::Server(_) => f.write_str("Server(..)"),
        }
    }
}

/// `[access_log]`: one line of JSON per request. Off unless `to` is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AccessLog {
    #[default]
    Off,
    /// `to = "stdout"`
    Stdout,
    /// `to = "file"`
    File(PathBuf),
}

/// `[log]`: the process log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// `level`: error, warn, info, debug or trace.
    pub level: String,
    /// `format`: `"text"` or `"json"`.
    pub format: LogFormat,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self { level: "info".to_owned(), format: LogFormat::default() }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

/// `[[user]]`: a user who may call APIs with a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub name: String,
    /// `password_hash`
    pub password: jose::PasswordHash,
    /// `scopes`: scopes that operations may require.
    pub scopes: Vec<String>,
}

/// `[[login]]`: a provider where browsers sign in.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    pub name: String,
    /// `issuer`: the provider, by the `iss` of its tokens. The `[[issuer]]` with that value has the keys.
    pub issuer: String,
    /// `authorize_url`, `token_url`, `logout_url` and `revoke_url`; `None` uses the provider's discovery document.
    pub endpoints: Option<jose::SignInEndpoints>,
    /// `client_id` and `client_secret` of the gateway.
    pub client_id: String,
    pub client_secret: Vec<u8>,
    /// `scopes`: requested scopes, including `openid`.
    pub scopes: Vec<String>,
    /// `after_logout`: the path to which a browser returns.
    pub after_logout: String,
    /// `session_s`: lifetime of a session, in seconds.
    pub session_s: u64,
    /// `max_age_s`: maximum age of the user's sign-in at the provider when a session begins, in seconds; `None` for
    /// any.
    pub max_age_s: Option<u64>,
    /// `key`: the secret that seals cookies, followed by earlier ones, one per line. If empty, the secret in the data
    /// folder.
    pub key: Vec<u8>,
}

/// Secrets are never printed.
impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, issuer, .. } = self;
        let mut shown = f.debug_struct("Login");
        shown.field("name", name).field("issuer", issuer).finish_non_exhaustive()
    }
}

/// `[[issuer]]`: an accepted token issuer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IssuerSettings {
    pub name: String,
    /// `iss`, or `issuer`: must equal the claim byte for byte.
    pub iss: String,
    pub keys: KeySource,
    /// `algorithms`: accepted algorithms; empty: the asymmetric ones that the keys support.
    pub algorithms: Vec<jose::Algorithm>,
    /// `audiences`: accepted audiences; empty: not checked.
    pub audiences: Vec<String>,
    /// `leeway_s`: tolerated clock skew, 0 to 300 seconds.
    pub leeway_s: u64,
    /// `padded_segments`: accept base64url with `=` padding.
    pub padded_segments: bool,
    /// `api_keys`: the issuer's tokens are API keys.
    pub api_keys: bool,
    /// `internal_keys`: the issuer's tokens may be internal keys.
    pub internal_keys: bool,
    /// `allow_unlimited`: accept tokens without `exp`.
    pub allow_unlimited: bool,
    /// `introspection`: absent: no opaque tokens.
    pub introspection: Option<Introspection>,
    /// `passwords`: the issuer's users may call APIs with their passwords. At most one issuer has this.
    pub passwords: Option<BackendClient>,
    /// `revocations`; absent: a token is valid until it expires.
    pub revocations: Option<Feed>,
}

/// A list of the control plane that the gateway follows: `revocations` of an issuer, or `control_plane`.
#[derive(Clone, PartialEq, Eq)]
pub struct Feed {
    /// `url`: the endpoint, which is specific to Penstock.
    pub url: String,
    /// `client_id` and `client_secret`: the gateway's own, for HTTP Basic.
    pub client_id: String,
    pub client_secret: Vec<u8>,
}

/// Secrets are never printed.
impl std::fmt::Debug for Feed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Feed").field("url", &self.url).finish_non_exhaustive()
    }
}

/// `[vault]`: the server of secrets that are written as `{ vault = "PATH#FIELD" }`.
#[derive(Clone, PartialEq, Eq)]
pub struct VaultSettings {
    /// `url`, without a slash at its end.
    pub url: String,
    pub namespace: Option<String>,
    pub login: VaultLogin,
    /// `refresh_s`: interval at which secrets without a lease are read, in seconds.
    pub refresh_s: u64,
    /// The paths and fields that the configuration refers to, each once.
    pub wanted: Vec<VaultField>,
}

/// A request to Vault. It is a GET without a body, else a POST.
#[derive(Clone, PartialEq, Eq)]
pub struct VaultRequest {
    /// Path below `/v1/`.
    pub path: String,
    pub body: Option<Vec<u8>>,
}

/// A field of a secret in Vault.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VaultField {
    /// Path in the HTTP API, below `/v1/`.
    pub path: String,
    pub field: String,
}

/// How the gateway gets a token of Vault.
#[derive(Clone, PartialEq, Eq)]
pub enum VaultLogin {
    /// `token`
    Token(Vec<u8>),
    /// `approle`
    AppRole { mount: String, role_id: String, secret_id: Vec<u8> },
    /// `kubernetes`; `jwt`: the token of the service account.
    Kubernetes { mount: String, role: String, jwt: Vec<u8> },
}

/// Secrets are never printed.
impl std::fmt::Debug for VaultSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { url, namespace, refresh_s, wanted, .. } = self;
        let mut shown = f.debug_struct("VaultSettings");
        shown.field("url", url).field("namespace", namespace).field("refresh_s", refresh_s);
        shown.field("wanted", wanted).finish_non_exhaustive()
    }
}

/// A request for the changes after a revision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeedRequest {
    pub after: u64,
    /// Longest wait for a change, in seconds.
    pub wait_s: u64,
    /// Whether the request is for the rest of the whole list, after its first part.
    pub full: bool,
}

/// `introspection` of an issuer: the endpoint that reports whether opaque tokens are active. Source: RFC 7662.
#[derive(Clone, PartialEq, Eq)]
pub struct Introspection {
    /// `url`: the endpoint.
    pub url: String,
    /// `client_id` and `client_secret`: the gateway's own, for HTTP Basic.
    pub client_id: String,
    pub client_secret: Vec<u8>,
    /// `cache_s`: longest time for which an active token is not checked again, in seconds.
    pub cache_s: u64,
}

/// Secrets are never printed.
impl std::fmt::Debug for Introspection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { url, cache_s, .. } = self;
        let mut shown = f.debug_struct("Introspection");
        shown.field("url", url).field("cache_s", cache_s).finish_non_exhaustive()
    }
}

/// The source of an issuer's keys.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum KeySource {
    /// `jwks = "file"`
    JwksFile(PathBuf),
    /// `jwks = "https://..."`
    JwksUrl(String),
    /// `issuer = "https://..."`: its discovery document names the URL.
    Discovery(String),
    /// `pem = "file"`: one public key or certificate.
    Pem(PathBuf),
    /// `secret = { env = "NAME" }` or `{ file = "path" }`, for HS*; the secret itself.
    Secret(Vec<u8>),
    /// No keys, only `introspection`: the issuer's JWTs are not accepted.
    #[default]
    Absent,
}

/// Secrets are never printed.
impl std::fmt::Debug for KeySource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::JwksFile(path) => f.debug_tuple("JwksFile").field(path).finish(),
            Self::JwksUrl(url) => f.debug_tuple("JwksUrl").field(url).finish(),
            Self::Discovery(issuer) => f.debug_tuple("Discovery").field(issuer).finish(),
            Self::Pem(path) => f.debug_tuple("Pem").field(path).finish(),
            Self::Secret(_) => f.write_str("Secret(..)"),
            Self::Absent => f.write_str("Absent"),
        }
    }
}
