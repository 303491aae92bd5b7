//! The configuration file of a first start.

/// What `penstock up` writes on its first start; paths are relative to the file that it becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstStart<'a> {
    /// `gateway.http` and `gateway.https`, as `address:port`.
    pub http: &'a str,
    pub https: &'a str,
    /// `admin.listen`.
    pub admin: &'a str,
    /// The folder of API descriptions.
    pub apis: &'a str,
    /// The folder for generated keys and certificates.
    pub data: &'a str,
    /// Name of the first issuer, and the claim that its tokens carry.
    pub issuer_name: &'a str,
    pub iss: &'a str,
    /// Its JWKS file.
    pub jwks: &'a str,
}

/// The commented `penstock.toml` of a first start; [`super::read`] accepts it.
#[must_use]
pub fn render_default(first: &FirstStart<'_>) -> String {
    let FirstStart { http, https, admin, apis, data, issuer_name, iss, jwks } = first;
    let [http, https, admin] = [http, https, admin].map(|text| quoted(text));
    let [apis, data, jwks] = [apis, data, jwks].map(|text| quoted(text));
    let [issuer_name, iss] = [issuer_name, iss].map(|text| quoted(text));
    format!(
        "# Penstock's configuration, written on the first start; later ones read it. Every key: docs/configuration.md.
# Relative paths start at this file's folder. Listeners need a restart; the rest is read again when it changes.

[gateway]
http = {http}     # change the port here if it is taken
https = {https}
apis = [{apis}]             # OpenAPI files and folders, watched
data = {data}               # generated keys and certificates
# workers = 1                 # default: the CPUs allowed
# trusted_proxies = []        # who may set X-Forwarded-*, such as [\"10.0.0.0/8\"]
# fault_status = \"http\"       # 502, 503, 504 for faults of backends instead of WSO2's 500

# [tls]                       # absent: a certificate is generated and kept in the data folder
# cert = \"tls.crt\"
# key = \"tls.key\"

[admin]
listen = {admin}   # /healthz /readyz /metrics /diagnostics

# [access_log]
# to = \"stdout\"               # one JSON line for each request

[[issuer]]                    # whose tokens are accepted; there may be several
name = {issuer_name}
iss = {iss}
jwks = {jwks}               # a file or an https URL
# audiences = [\"my-api\"]      # default: not checked
"
    )
}

/// A TOML basic string.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
