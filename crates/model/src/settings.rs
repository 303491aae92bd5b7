//! The configuration file `penstock.toml` (DESIGN.md section 5), after reading and checking.
//! Doc comments here are the manual's text for each key.

use std::net::SocketAddr;
use std::path::PathBuf;

/// Everything that `penstock gateway --config` reads. Paths are already joined to the file's folder.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    pub gateway: GatewaySettings,
    pub tls: TlsSettings,
    pub admin: AdminSettings,
    pub upstream_tls: UpstreamTls,
    pub access_log: AccessLog,
    pub log: LogSettings,
    pub issuers: Vec<IssuerSettings>,
}

/// `[gateway]`
#[derive(Clone, Debug, PartialEq)]
pub struct GatewaySettings {
    /// `http`: address of the listener in clear; absent: not opened.
    pub http: Option<SocketAddr>,
    /// `https`: address of the listener with TLS; absent: not opened.
    pub https: Option<SocketAddr>,
    /// `workers`: worker threads; absent: one for each CPU that affinity and cgroup quota allow.
    pub workers: Option<usize>,
    /// `apis`: files and folders of API descriptions, watched.
    pub apis: Vec<PathBuf>,
    /// `data`: generated keys and certificates.
    pub data: PathBuf,
    /// `trusted_proxies`: addresses and CIDR blocks whose `X-Forwarded-*` and `Forwarded` are believed.
    pub trusted_proxies: Vec<(std::net::IpAddr, u8)>,
    /// `fault_status`: `"wso2"` answers backend faults with 500, `"http"` with 502, 503 and 504.
    pub fault_status: FaultStatus,
    /// `drain_s`: longest time that SIGTERM leaves to requests under way, in seconds.
    pub drain_s: u32,
    /// `response_head_ms`: longest wait for a backend's response head, in milliseconds.
    pub response_head_ms: u32,
    /// `connect_ms`: longest wait for a connection to a backend, in milliseconds.
    pub connect_ms: u32,
    /// `stall_ms`: longest time without one byte moving in a body, in milliseconds.
    pub stall_ms: u32,
    /// `head_ms`: longest wait for a whole request head, in milliseconds.
    pub head_ms: u32,
    /// `idle_ms`: longest wait for the next request on a kept connection, in milliseconds.
    pub idle_ms: u32,
    /// `connections_max`: most client connections of one worker.
    pub connections_max: usize,
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
    /// `cert` and `key`: the default pair; absent: generated, kept in `data`.
    pub default: Option<CertificateFiles>,
    /// `[[tls.sni]]`
    pub sni: Vec<SniCertificate>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// PEM, leaf first.
    pub cert: PathBuf,
    /// PEM: PKCS#8, PKCS#1 or SEC1.
    pub key: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SniCertificate {
    /// Lower case; `*.example.org` stands for exactly one label.
    pub hosts: Vec<String>,
    pub files: CertificateFiles,
}

/// `[upstream_tls]`: how https backends are verified.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpstreamTls {
    /// `ca`: PEM files of additional authorities.
    pub ca: Vec<PathBuf>,
    /// `system_roots`: whether the machine's own authorities are trusted as well. True by default.
    pub system_roots: bool,
}

/// `[admin]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminSettings {
    /// `listen`: address of `/healthz /readyz /metrics /diagnostics`; absent: not opened.
    pub listen: Option<SocketAddr>,
}

/// `[access_log]`: one JSON line for each request. Off unless `to` is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AccessLog {
    #[default]
    Off,
    /// `to = "stdout"`
    Stdout,
    /// `to = "file"`
    File(PathBuf),
}

/// `[log]`: the process's own log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// `level`: error, warn, info, debug or trace.
    pub level: String,
    /// `format`: `"text"` or `"json"`.
    pub format: LogFormat,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

/// `[[issuer]]`: whose tokens are accepted.
#[derive(Clone, Debug, PartialEq)]
pub struct IssuerSettings {
    pub name: String,
    /// `iss`: compared byte for byte with the claim.
    pub iss: String,
    pub keys: KeySource,
    /// `algorithms`: empty: the asymmetric ones that the keys allow.
    pub algorithms: Vec<jose::Algorithm>,
    /// `audiences`: empty: not checked.
    pub audiences: Vec<String>,
    /// `leeway_s`: 0 to 300.
    pub leeway_s: u64,
    /// `padded_segments`: accept base64url with `=` padding.
    pub padded_segments: bool,
}

/// Where an issuer's keys come from.
#[derive(Clone, PartialEq, Eq)]
pub enum KeySource {
    /// `jwks = "file"`
    JwksFile(PathBuf),
    /// `jwks = "https://..."`
    JwksUrl(String),
    /// `pem = "file"`: one public key or certificate.
    Pem(PathBuf),
    /// `secret = { env = "NAME" }` or `{ file = "path" }`, for HS*; already resolved.
    Secret(Vec<u8>),
}

/// Secrets are never printed.
impl std::fmt::Debug for KeySource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::JwksFile(path) => f.debug_tuple("JwksFile").field(path).finish(),
            Self::JwksUrl(url) => f.debug_tuple("JwksUrl").field(url).finish(),
            Self::Pem(path) => f.debug_tuple("Pem").field(path).finish(),
            Self::Secret(_) => f.write_str("Secret(..)"),
        }
    }
}
