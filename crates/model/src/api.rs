//! An API as the gateway serves it, independent of the format of its description.

use std::path::PathBuf;
use std::sync::Arc;

use base::Method;

use crate::{KeyType, Limit, Policies, TokenType, Upstream};

/// One API in one version.
#[derive(Clone, Debug, PartialEq)]
pub struct Api {
    /// `info.title`, for people, logs and metrics.
    pub name: String,
    /// `info.version`.
    pub version: String,
    /// The whole prefix, version included. Starts with `/`, does not end with it; empty for the root.
    pub base_path: String,
    /// A second prefix, without the version, if `x-penstock-default-version` is set.
    pub default_path: Option<String>,
    /// Host names in lower case, without port; `*.example.org` matches one or more labels. An empty list stands for any
    /// host.
    pub hosts: Vec<String>,
    pub transports: Transports,
    /// Name of the credential's header field, in lower case. Default: `authorization`.
    pub auth_header: String,
    /// The places where the API's operations accept API keys, without duplicates. They are removed from forwarded
    /// requests.
    pub key_places: Vec<KeyPlace>,
    /// Whether credentials are forwarded to the upstream.
    pub forward_auth_header: bool,
    /// Members of [`IDENTITY_FIELDS`] that are forwarded from every client, in lower case.
    pub forward_fields: Vec<String>,
    /// Whether a path with more than one interpretation is rejected: one with `//`, `;` or an escaped
    /// separator, or that normalisation changed.
    pub strict_paths: bool,
    /// Longest time without progress of a response's body, in milliseconds. `None`: as for all APIs.
    pub stall_ms: Option<u32>,
    /// Whether every request needs a client certificate, besides a token where one is needed.
    pub mutual_tls: bool,
    /// The client certificates that the API accepts. `None` accepts all that the listener accepts.
    pub client_trust: Option<Arc<ClientTrust>>,
    /// Name of the login where browsers without a credential sign in.
    pub login: Option<String>,
    pub cors: Option<Cors>,
    /// Whether responses of any of its operations are cached.
    pub caches: bool,
    /// Name of the plan for all requests to the API. It takes precedence over the plans of operations.
    pub plan: Option<String>,
    /// Limits of the requests from all callers together to the API's endpoints.
    pub backend: BackendLimits,
    pub lifecycle: Lifecycle,
    /// Whether callers need a subscription, if there are applications.
    pub subscription: bool,
    /// Protocols besides `websocket` that may be tunnelled after a 101, in lower case.
    pub upgrades: Vec<String>,
    /// Security and plans of a service of artefacts, which has no operations. `None`: an API with operations.
    pub service: Option<ServiceAccess>,
    /// Operations in file order. No two have the same method and template.
    pub operations: Vec<Operation>,
    /// Endpoint sets, referred to by index.
    pub upstreams: Vec<Upstream>,
    /// `x-wso2-endpoints` by name, as indices in `upstreams`, if a policy may choose one of them.
    pub named_upstreams: Vec<(String, usize)>,
    /// Index in `upstreams`, for operations that name none.
    pub production: Option<usize>,
    /// Index in `upstreams`.
    pub sandbox: Option<usize>,
    /// The file that describes the API.
    pub source: PathBuf,
}

impl Api {
    /// An API at `base_path` on every host and listener, without operations.
    #[must_use]
    pub fn new(name: String, version: String, base_path: String) -> Self {
        Self {
            name,
            version,
            base_path,
            default_path: None,
            hosts: Vec::new(),
            transports: Transports { http: true, https: true },
            auth_header: "authorization".to_owned(),
            key_places: Vec::new(),
            forward_auth_header: false,
            forward_fields: Vec::new(),
            strict_paths: false,
            stall_ms: None,
            mutual_tls: false,
            client_trust: None,
            login: None,
            cors: None,
            caches: false,
            plan: None,
            backend: BackendLimits::default(),
            lifecycle: Lifecycle::Published,
            subscription: true,
            upgrades: Vec::new(),
            service: None,
            operations: Vec::new(),
            upstreams: Vec::new(),
            named_upstreams: Vec::new(),
            production: None,
            sandbox: None,
            source: PathBuf::new(),
        }
    }
}

/// The client certificates that an API accepts, by the endpoints that they are for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientTrust {
    pub production: TrustedClients,
    pub sandbox: TrustedClients,
}

/// A list of client certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedClients {
    /// SHA-256 of each certificate in DER.
    pub hashes: Vec<[u8; 32]>,
    /// Certificates in DER of issuers whose certificates are accepted too.
    pub issuers: Vec<Vec<u8>>,
}

/// Limits of the requests to an API's endpoints, by their type (WSO2's `maxTps`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackendLimits {
    pub production: Option<Limit>,
    pub sandbox: Option<Limit>,
}

impl BackendLimits {
    #[must_use]
    pub fn of(&self, key_type: KeyType) -> Option<Limit> {
        match key_type {
            KeyType::Production => self.production,
            KeyType::Sandbox => self.sandbox,
        }
    }
}

/// WSO2's states of an API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lifecycle {
    /// The API is not published yet: only internal keys are accepted.
    Created,
    #[default]
    Published,
    /// Temporarily blocked: 503.
    Blocked,
    /// Served as before.
    Deprecated,
    /// Treated as if it did not exist.
    Retired,
}

/// The listeners that serve an API. Requests on other listeners get 403, "Unsupported Transport".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transports {
    pub http: bool,
    pub https: bool,
}

/// One method on one path template.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    pub method: Method,
    /// Path template below the base path: `/pets/{id}`, `/*`, `/files/*`, or empty for the base path itself.
    pub template: String,
    pub security: Security,
    /// Index in `Api::upstreams`, overriding the API's.
    pub production: Option<usize>,
    /// Index in `Api::upstreams`, overriding the API's.
    pub sandbox: Option<usize>,
    /// Name of the plan for requests to the operation.
    pub plan: Option<String>,
    /// Policies for the operation's messages.
    pub policies: Option<Arc<Policies>>,
    /// If responses are cached: the time for which responses without a lifetime are stored, in seconds.
    pub response_cache: Option<u32>,
}

/// The credential that an operation requires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Security {
    /// No credential, by an explicit entry in the file.
    Open,
    /// Any of these credentials.
    Required(Accepts),
}

/// The credentials that an operation accepts. Any one suffices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accepts {
    /// A valid token of one of the configured issuers.
    pub token: Option<TokenRule>,
    /// The password of a configured user with these scopes.
    pub login: Option<ScopeRule>,
    /// An API key in one of these places; the first place that is not empty counts.
    pub api_keys: Vec<KeyPlace>,
    /// A request without a credential is accepted if its client has a certificate.
    pub optional: bool,
}

impl Accepts {
    /// Tokens only.
    #[must_use]
    pub fn token(scopes: ScopeRule) -> Self {
        let rule = TokenRule { scopes, of: None, issuers: Vec::new() };
        Self { token: Some(rule), ..Self::default() }
    }
}

/// Requirements on a valid token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRule {
    pub scopes: ScopeRule,
    /// The type of token; `None` accepts both.
    pub of: Option<TokenType>,
    /// Names of the issuers whose tokens are accepted; empty: all that are configured.
    pub issuers: Vec<String>,
}

/// Who may call a service of artefacts, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceAccess {
    pub security: Security,
    /// Names of the plans for all its requests together. All of them apply.
    pub plans: Vec<String>,
}

/// Any client may call it, without limits.
impl Default for ServiceAccess {
    fn default() -> Self {
        Self { security: Security::Open, plans: Vec::new() }
    }
}

/// The place of the API key in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyPlace {
    /// The header field with this name, in lower case.
    Header(String),
    /// The query parameter with this name.
    Query(String),
    Cookie(String),
}

/// The scopes that a token needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScopeRule {
    /// None.
    Anything,
    /// At least one of these scopes (WSO2's rule).
    AnyOf(Vec<String>),
    /// All of these scopes (`x-penstock-scopes: all`).
    AllOf(Vec<String>),
}

/// CORS rules (`x-wso2-cors`). An API without them forwards OPTIONS to the upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cors {
    /// `*` or origins.
    pub allow_origins: Vec<String>,
    /// Allowed methods; if empty, the methods of the resource.
    pub allow_methods: Vec<String>,
    pub allow_headers: Vec<String>,
    pub expose_headers: Vec<String>,
    pub allow_credentials: bool,
}

/// Header fields, in lower case, with which a client could claim another address, user, URL or method. They are
/// forwarded only from trusted proxies, unless an API lists them.
pub const IDENTITY_FIELDS: &[&str] = &[
    "cf-connecting-ip",
    "client-cert",
    "client-cert-chain",
    "client-ip",
    "fastly-client-ip",
    "front-end-https",
    "proxy",
    "remote-user",
    "ssl-client-cert",
    "ssl-client-i-dn",
    "ssl-client-issuer-dn",
    "ssl-client-s-dn",
    "ssl-client-subject-dn",
    "ssl-client-verify",
    "true-client-ip",
    "x-arr-clientcert",
    "x-azure-clientip",
    "x-client-cert",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-envoy-external-address",
    "x-forwarded",
    "x-host",
    "x-http-host-override",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-host",
    "x-original-method",
    "x-original-uri",
    "x-original-url",
    "x-originating-ip",
    "x-override-url",
    "x-proxyuser-ip",
    "x-real-ip",
    "x-remote-addr",
    "x-remote-ip",
    "x-remote-user",
    "x-rewrite-url",
    "x-scheme",
    "x-ssl-client-cert",
    "x-ssl-client-cn",
    "x-ssl-client-dn",
    "x-ssl-client-i-dn",
    "x-ssl-client-issuer-dn",
    "x-ssl-client-s-dn",
    "x-ssl-client-subject-dn",
    "x-ssl-client-verify",
    "x-url-scheme",
    "x-wso2-client-certificate",
];
