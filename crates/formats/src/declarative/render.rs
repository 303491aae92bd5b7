//! The configuration file of a first start.

/// The variable parts of the file that `penstock up` writes on its first start. Paths are relative to the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstStart<'a> {
    /// `gateway.http` and `gateway.https`, as `address:port`.
    pub http: &'a str,
    pub https: &'a str,
    /// `integration.http`, and the folder of Synapse artefacts.
    pub integration: &'a str,
    pub artefacts: &'a str,
    /// `admin.listen`.
    pub admin: &'a str,
    /// The folder of API descriptions.
    pub apis: &'a str,
    /// The folder of applications.
    pub applications: &'a str,
    /// The folder for generated keys and certificates.
    pub data: &'a str,
    /// Name of the issuer, and the `iss` of its tokens.
    pub issuer_name: &'a str,
    pub iss: &'a str,
    /// The issuer's JWKS file.
    pub jwks: &'a str,
    /// The control plane, if any.
    pub control: Option<ControlPlane<'a>>,
}

/// The control plane of a first start, which the gateway follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlPlane<'a> {
    /// `control.https`.
    pub https: &'a str,
    /// The private key of the JWKS file.
    pub key: &'a str,
    /// The gateway's client at the control plane, and the file of its secret.
    pub client_id: &'a str,
    pub client_secret: &'a str,
    /// The certificate of the control plane.
    pub certificate: &'a str,
}

/// The commented `penstock.toml` of a first start; [`super::read`] accepts it.
#[must_use]
pub fn render_default(first: &FirstStart<'_>) -> String {
    let FirstStart { http, https, integration, artefacts, admin, apis, data, .. } = first;
    let FirstStart { issuer_name, iss, jwks, .. } = first;
    let [http, https, admin] = [http, https, admin].map(|text| quoted(text));
    let [integration, artefacts] = [integration, artefacts].map(|text| quoted(text));
    let [apis, data, jwks] = [apis, data, jwks].map(|text| quoted(text));
    let applications = quoted(first.applications);
    let [issuer_name, iss] = [issuer_name, iss].map(|text| quoted(text));
    let control = first.control.as_ref().map_or_else(String::new, |control| {
        let [https, key] = [control.https, control.key].map(quoted);
        format!(
            "[control]                     # issues OAuth2 tokens: docs/key-manager.md
https = {https}     # also in each `url` with this port
issuer = {iss}
keys = [{key}]

[store]
url = \"sqlite:penstock.db\"

"
        )
    });
    let control_plane = first.control.as_ref().map_or_else(String::new, |control| {
        format!(
            "control_plane = {}   # applications that are stored there\n",
            followed(control, "")
        )
    });
    let issuer = first.control.as_ref().map_or_else(String::new, |control| {
        format!(
            "introspection = {}   # for opaque tokens
revocations = {}   # rejects revoked tokens at once

[upstream_tls]
ca = [{}]       # of the control plane; the system's are trusted, too
",
            followed(control, "/oauth2/introspect"),
            followed(control, "/oauth2/revocations"),
            quoted(control.certificate),
        )
    });
    format!(
        "# Penstock's configuration, written by the first start and read by later ones. All keys: docs/configuration.md.
# Relative paths are relative to this file. Changes are applied immediately, except for listeners, which need a restart.

[gateway]
http = {http}     # change the port here if it is in use
https = {https}
apis = [{apis}]             # OpenAPI files and folders, watched
applications = [{applications}]   # a token's application must be subscribed to the API; absent: every token will do
{control_plane}data = {data}               # generated keys and certificates
strict_paths = true           # paths with `//`, `;`, `%2F` or dot segments get 400
# workers = 1                 # default: one per available CPU
# trusted_proxies = []        # proxies that may set X-Forwarded-*, such as [\"10.0.0.0/8\"]
# fault_status = \"http\"       # 502, 503 and 504 for upstream faults instead of WSO2's 500

# [tls]                       # absent: a certificate is generated and kept in the data folder
# cert = \"tls.crt\"
# key = \"tls.key\"

[integration]
http = {integration}
artifacts = [{artefacts}]   # Synapse artefacts and .car archives, watched

[admin]
listen = {admin}   # /healthz /readyz /metrics /diagnostics

# [access_log]
# to = \"stdout\"               # one JSON line for each request

{control}[[issuer]]                    # an issuer whose tokens are accepted; there can be several
name = {issuer_name}
iss = {iss}
jwks = {jwks}               # a file or an https URL
# audiences = [\"my-api\"]      # default: not checked
{issuer}"
    )
}

/// An endpoint of the control plane that the gateway uses with its own credentials.
fn followed(control: &ControlPlane<'_>, path: &str) -> String {
    let url = quoted(&format!("https://{}{path}", control.https));
    let [id, secret] = [control.client_id, control.client_secret].map(quoted);
    format!("{{ url = {url}, client_id = {id}, client_secret = {{ file = {secret} }} }}")
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
