//! `penstock up`: a gateway with everything needed to try it, on this machine.

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{Clock, SystemClock};
use clap::Args;
use echo::{Echo, Options};
use follow::Checked;
#[cfg(feature = "control")]
use formats::declarative::ControlPlane;
use formats::declarative::{FirstStart, render_default};
use jose::{Header, SigningKey};
use model::{Api, Settings, Severity};
use wire::tls::ServerCertificates;

use super::serving::{Listen, Serving, fetch_nothing};
use super::{stdout, token};
use crate::failure::Failure;

const SAMPLE_API: &str = include_str!("../../../../examples/echo.yaml");
const SAMPLE_ARTEFACT: &str = include_str!("../../../../examples/orders.xml");
const SAMPLE_APPLICATION: &str = include_str!("../../../../examples/application.toml");
/// Client of the sample application, and its requests a minute.
const CLIENT_ID: &str = "sample-client";
const REQUESTS_PER_MINUTE: u32 = 20;
/// The gateway's own client at the control plane.
#[cfg(feature = "control")]
const GATEWAY: &str = "penstock-gateway";
/// The endpoint in the samples, without its port.
const ECHO: &str = "127.0.0.1:";
const ECHO_PORT: u16 = 8688;
const ISSUER_NAME: &str = "resident";
/// Source: WSO2's resident key manager.
const ISS: &str = "https://localhost:9443/oauth2/token";
/// Lifetime of the token that each start writes.
const TOKEN_DAYS: u64 = 30;

/// Run a gateway with a sample API and its application, a Synapse sample, an echo backend, keys and a token on this
/// machine
///
/// The first start writes a configuration, the samples and a signing key to the data folder; later starts read
/// them. Addresses given by flags replace those of the configuration for this run.
#[derive(Args)]
#[command(after_help = "Examples:
  penstock up                            (prints curl commands to paste)
  penstock up --http 9080 --echo 9688    (other ports)

While it runs, edit penstock-data/apis/echo.yaml, or add your own OpenAPI file beside it and a subscription to it in
penstock-data/applications/sample.toml. Synapse artefacts and archives go to penstock-data/artifacts.")]
pub(crate) struct Arguments {
    /// Data folder
    #[arg(long, value_name = "DIR", default_value = "penstock-data")]
    data: PathBuf,
    /// Address of the HTTP listener [default: `[gateway] http` of the configuration]
    #[arg(long, value_name = "[HOST:]PORT", value_parser = listen_address)]
    http: Option<SocketAddr>,
    /// Address of the HTTPS listener [default: `[gateway] https` of the configuration]
    #[arg(long, value_name = "[HOST:]PORT", value_parser = listen_address)]
    https: Option<SocketAddr>,
    /// Address of the listener for Synapse artefacts [default: `[integration] http` of the configuration]
    #[arg(long, value_name = "[HOST:]PORT", value_parser = listen_address)]
    integration: Option<SocketAddr>,
    /// Address of the admin listener [default: `[admin] listen` of the configuration]
    #[arg(long, value_name = "[HOST:]PORT", value_parser = listen_address)]
    admin: Option<SocketAddr>,
    /// Port of the key manager. Changes it in the configuration, including the issuer of its tokens
    #[cfg(feature = "control")]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    control: Option<u16>,
    /// Port of the echo backend. Changes the endpoint in the files of the samples, which must not have been edited
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    echo: Option<u16>,
}

/// A port alone is on 127.0.0.1.
fn listen_address(argument: &str) -> Result<SocketAddr, String> {
    let port = argument.parse().map(|port: u16| SocketAddr::from(([127, 0, 0, 1], port)));
    port.or_else(|_| argument.parse()).map_err(|_| "expected PORT or HOST:PORT".to_owned())
}

/// The files in the data folder.
struct Places {
    configuration: PathBuf,
    sample: PathBuf,
    artefact: PathBuf,
    application: PathBuf,
    signing_key: PathBuf,
    jwks: PathBuf,
    token: PathBuf,
    /// `id:secret` of the sample application's client.
    #[cfg(feature = "control")]
    client: PathBuf,
    /// The database of the control plane, and the secret of the gateway's own client there.
    #[cfg(feature = "control")]
    store: PathBuf,
    #[cfg(feature = "control")]
    gateway_secret: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let places = Places::below(&arguments.data)?;
    if !places.configuration.exists() {
        first_start(&places)?;
    }
    #[cfg(feature = "control")]
    if let Some(port) = arguments.control {
        move_control(&places, port)?;
    }
    if let Some(port) = arguments.echo {
        move_echo(&places, port)?;
    }
    let has_token = renew_token(&places)?;
    let echo = start_echo(&places)?;
    let Arguments { http, https, integration, admin, .. } = *arguments;
    let listen = Listen { http, https, integration, admin };
    // The gateway asks the control plane at its start.
    let (serving, (_control, token_request)) =
        Serving::start(&places.configuration, &listen, |settings, certificates| {
            start_control(settings, certificates, &places)
        })?;
    let echo_address = echo.as_ref().map(Echo::addr);
    drop(stdout(&welcome(&serving, &places, echo_address, has_token, &token_request)));
    serving.wait()
}

#[cfg(not(feature = "control"))]
fn start_control(
    settings: &Settings,
    _: &Arc<ServerCertificates>,
    _: &Places,
) -> Result<((), String), Failure> {
    if settings.control.is_some() {
        tracing::warn!("this build has no control plane; [control] is not used");
    }
    Ok(((), String::new()))
}

/// Prints the address of the control plane, and the password that its first start generated. Returns the command that
/// prints a token, too.
#[cfg(feature = "control")]
fn start_control(
    settings: &Settings,
    certificates: &Arc<ServerCertificates>,
    places: &Places,
) -> Result<(Option<manager::Control>, String), Failure> {
    let Some(mut control) = super::control::beside(settings, certificates)? else {
        return Ok((None, String::new()));
    };
    let origin = format!("https://{}", control.address());
    stdout(&format!("Control plane: {origin}\n"))?;
    if let Some((password, settings)) =
        control.take_generated_password().zip(settings.control.as_ref())
    {
        stdout(&super::control::announcement(manager::ADMIN, &password, settings))?;
    }
    stdout("\n")?;
    let Some(of_control) = settings.control.as_ref().filter(|_| places.application.exists()) else {
        return Ok((Some(control), String::new()));
    };
    if !places.client.exists() {
        let (id, secret) = super::control::put_client(&of_control.store, "sample", CLIENT_ID, "")?;
        let client = format!("{id}:{secret}\n");
        written(&places.client, follow::write_private(&places.client, client.as_bytes()))?;
    }
    let (trust, client) = (trust(settings), quoted(&places.client.display().to_string()));
    let url = format!("https://{}/oauth2/token", control.address());
    let request = format!(
        "curl -sS {trust} -u \"$(cat {client})\" -d grant_type=client_credentials {url} | \
         sed 's/.*\"access_token\":\"\\([^\"]*\\).*/\\1/'"
    );
    Ok((Some(control), request))
}

impl Places {
    /// Absolute paths, so that the printed commands work in any folder.
    fn below(data: &Path) -> Result<Self, Failure> {
        fs::create_dir_all(data).map_err(|error| Failure::file("create", data, &error))?;
        let data = fs::canonicalize(data).map_err(|error| Failure::file("find", data, &error))?;
        Ok(Self {
            configuration: data.join("penstock.toml"),
            sample: data.join("apis/echo.yaml"),
            artefact: data.join("artifacts/orders.xml"),
            application: data.join("applications/sample.toml"),
            signing_key: data.join("keys/signing.pem"),
            jwks: data.join("keys/jwks.json"),
            token: data.join("token"),
            #[cfg(feature = "control")]
            client: data.join("client"),
            #[cfg(feature = "control")]
            store: data.join("penstock.db"),
            #[cfg(feature = "control")]
            gateway_secret: data.join("keys/gateway-secret"),
        })
    }

    /// The files of the samples, and the texts that a first start writes to them.
    fn samples(&self) -> [(&Path, &'static str); 3] {
        [
            (&self.sample, SAMPLE_API),
            (&self.artefact, SAMPLE_ARTEFACT),
            (&self.application, SAMPLE_APPLICATION),
        ]
    }
}

/// Writes the files that are missing, the configuration last, so that an interrupted first start is repeated.
fn first_start(places: &Places) -> Result<(), Failure> {
    for file in [&places.sample, &places.artefact, &places.application, &places.signing_key] {
        let folder = file.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder).map_err(|error| Failure::file("create", folder, &error))?;
    }
    if !places.signing_key.exists() {
        let pem = SigningKey::generate_rsa().map_err(Failure::error)?;
        written(&places.signing_key, follow::write_private(&places.signing_key, pem.as_bytes()))?;
    }
    let jwk = signing_key(&places.signing_key)?.public_jwk(None).map_err(Failure::error)?;
    let jwks = format!("{{\"keys\":[{jwk}]}}\n");
    written(&places.jwks, follow::write_public(&places.jwks, jwks.as_bytes()))?;
    for (file, sample) in places.samples() {
        if !file.exists() {
            written(file, follow::write_public(file, sample.as_bytes()))?;
        }
    }
    #[cfg(feature = "control")]
    let client_id = register_gateway(places)?;
    let configuration = render_default(&FirstStart {
        http: "127.0.0.1:8280",
        https: "127.0.0.1:8243",
        integration: "127.0.0.1:8290",
        artefacts: "artifacts/",
        admin: "127.0.0.1:9201",
        apis: "apis/",
        applications: "applications/",
        data: "data/",
        issuer_name: ISSUER_NAME,
        iss: ISS,
        jwks: "keys/jwks.json",
        #[cfg(feature = "control")]
        control: Some(ControlPlane {
            https: "127.0.0.1:9443",
            key: "keys/signing.pem",
            client_id: &client_id,
            client_secret: "keys/gateway-secret",
            certificate: "data/tls.crt",
        }),
        #[cfg(not(feature = "control"))]
        control: None,
    });
    let kept = follow::write_public(&places.configuration, configuration.as_bytes());
    written(&places.configuration, kept)
}

/// Registers the gateway as a client of its control plane, and keeps the secret. Returns the client's id.
#[cfg(feature = "control")]
fn register_gateway(places: &Places) -> Result<String, Failure> {
    let store = model::StoreSettings::Sqlite(places.store.clone());
    let (id, secret) = super::control::put_client(&store, GATEWAY, GATEWAY, "penstock_gateway")?;
    let file = &places.gateway_secret;
    written(file, follow::write_private(file, format!("{secret}\n").as_bytes()))?;
    Ok(id)
}

/// Moves the key manager to `port`: in its address, and in each URL with its port on this machine.
#[cfg(feature = "control")]
fn move_control(places: &Places, port: u16) -> Result<(), Failure> {
    let file = &places.configuration;
    let text = fs::read_to_string(file).map_err(|error| Failure::file("read", file, &error))?;
    let read = follow::read_settings(file);
    let (settings, _) = read.map_err(|invalid| super::serving::report(&invalid.diagnostics))?;
    let Some(control) = settings.control else {
        let file = file.display();
        return Err(Failure::Usage(format!("--control {port}: there is no [control] in {file}")));
    };
    let moved =
        [control.https.ip().to_string().as_str(), "localhost"].iter().fold(text, |text, host| {
            let (old, new) = (format!("{host}:{}", control.https.port()), format!("{host}:{port}"));
            // Not a longer number.
            let is_whole = |rest: &str| !rest.starts_with(|next: char| next.is_ascii_digit());
            let mut parts = text.split(&old);
            let first = parts.next().unwrap_or_default().to_owned();
            parts.fold(first, |all, rest| all + if is_whole(rest) { &new } else { &old } + rest)
        });
    written(file, follow::write_public(file, moved.as_bytes()))
}

/// Points the samples to the echo backend on `port`. An edited sample is not changed.
fn move_echo(places: &Places, port: u16) -> Result<(), Failure> {
    let with_endpoint = |(file, sample): &(&Path, &str)| sample.contains(ECHO) && file.exists();
    for (file, sample) in places.samples().into_iter().filter(with_endpoint) {
        let text = fs::read_to_string(file).map_err(|error| Failure::file("read", file, &error))?;
        let current = echo_port(&text);
        if current == Some(port) {
            continue;
        }
        let with_port =
            |port| sample.replace(&format!("{ECHO}{ECHO_PORT}"), &format!("{ECHO}{port}"));
        if current.is_none_or(|current| text != with_port(current)) {
            let file = file.display();
            return Err(Failure::Usage(format!(
                "--echo {port}: {file} was edited; set the port in its endpoint instead"
            )));
        }
        written(file, follow::write_public(file, with_port(port).as_bytes()))?;
    }
    Ok(())
}

/// The port of the first endpoint on loopback in a sample.
fn echo_port(text: &str) -> Option<u16> {
    let (_, rest) = text.split_once(ECHO)?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Signs a token for the sample API. False: the operator removed the signing key.
fn renew_token(places: &Places) -> Result<bool, Failure> {
    if !places.signing_key.exists() {
        return Ok(false);
    }
    let key = signing_key(&places.signing_key)?;
    // Problems of the configuration are reported when it is served.
    let settings = follow::read_settings(&places.configuration).ok().map(|(settings, _)| settings);
    let issuer =
        settings.as_ref().and_then(|of| of.issuers.iter().find(|of| of.name == ISSUER_NAME));
    let now_s = SystemClock::new().now().unix_s;
    let claims = serde_json::json!({
        "iss": issuer.map_or(ISS, |of| &of.iss),
        "sub": "sample-user",
        "client_id": CLIENT_ID,
        "iat": now_s,
        "exp": now_s + TOKEN_DAYS * 86_400,
    });
    let header = Header {
        alg: key.algorithm(),
        kid: Some(key.thumbprint().map_err(Failure::error)?),
        typ: Some("at+jwt".to_owned()),
    };
    let signed = token::sign_one(&key, &header, &claims.to_string())?;
    written(&places.token, follow::write_private(&places.token, signed.as_bytes()))?;
    Ok(true)
}

/// Starts the echo backend at the endpoint of the sample API, if that is on loopback.
fn start_echo(places: &Places) -> Result<Option<Echo>, Failure> {
    let Some(listen) = sample_api(places).as_ref().and_then(local_endpoint) else {
        return Ok(None);
    };
    let options = Options { listen, delay_ms: 0, tls: None, workers: None };
    let not_started = |error: io::Error| {
        let sample = places.sample.display();
        let change = format!("choose another port with --echo, or in the endpoint of {sample}");
        Failure::Error(if error.kind() == io::ErrorKind::AddrInUse {
            format!("{listen} (echo backend) is already in use; {change}")
        } else {
            format!("echo backend: cannot listen on {listen}: {error}; {change}")
        })
    };
    Echo::start(options).map(Some).map_err(not_started)
}

fn sample_api(places: &Places) -> Option<Api> {
    let loaded = check_sample(places)?.apis.into_iter().next()?;
    match loaded.state {
        model::ApiState::Serving => Some(Api::clone(&loaded.api)),
        model::ApiState::Unloaded => None,
    }
}

/// `None` without a sample.
fn check_sample(places: &Places) -> Option<Checked> {
    if !places.sample.exists() {
        return None;
    }
    let (settings, _) = follow::read_settings(&places.configuration).ok()?;
    let sample = std::slice::from_ref(&places.sample);
    Some(follow::check(sample, &[], &[], &follow::defaults(&settings), &fetch_nothing()))
}

/// The errors in the sample API and how to fix them; empty if it was removed.
fn sample_problems(places: &Places) -> String {
    let Some(checked) = check_sample(places) else { return String::new() };
    let errors = checked.diagnostics.iter().filter(|found| found.severity == Severity::Error);
    let errors: String = errors.map(|error| format!("{error}\n")).collect();
    format!(
        "The sample API is not valid, and its echo backend is not started:\n\n{errors}\n\
         Correct {sample} and start again. To restore it, remove it and {configuration} first.\n\n",
        sample = places.sample.display(),
        configuration = places.configuration.display(),
    )
}

fn local_endpoint(api: &Api) -> Option<SocketAddr> {
    let endpoint = api.upstreams.get(api.production?)?.endpoints.first()?;
    let address: IpAddr = match endpoint.host.as_str() {
        "localhost" => IpAddr::from([127, 0, 0, 1]),
        host => host.parse().ok()?,
    };
    let is_local = address.is_loopback() && endpoint.scheme == model::Scheme::Http;
    is_local.then_some(SocketAddr::new(address, endpoint.port))
}

fn signing_key(file: &Path) -> Result<SigningKey, Failure> {
    let pem = fs::read(file).map_err(|error| Failure::file("read", file, &error))?;
    SigningKey::from_pem(&pem).map_err(|error| {
        let file = file.display();
        Failure::Error(format!(
            "{file}: {error}; remove it and penstock.toml to generate both again"
        ))
    })
}

fn written(file: &Path, result: io::Result<()>) -> Result<(), Failure> {
    result.map_err(|error| Failure::file("write", file, &error))
}

/// The addresses, and `curl` lines to paste.
fn welcome(
    serving: &Serving,
    places: &Places,
    echo: Option<SocketAddr>,
    has_token: bool,
    token_request: &str,
) -> String {
    let addresses = serving.addresses();
    let urls = [
        addresses.http.map(|at| format!("http://{at}")),
        addresses.https.map(|at| format!("https://{at}")),
    ];
    let [http, https] = &urls;
    let gateway: Vec<&str> = urls.iter().flatten().map(String::as_str).collect();
    let mut text = format!("Penstock {} is running.\n\n", env!("CARGO_PKG_VERSION"));
    text += &format!("  gateway   {}\n", gateway.join("  "));
    if let Some(at) = echo {
        text += &format!("  backend   http://{at}  echo\n");
    }
    if let Some(at) = addresses.integration_http {
        text += &format!("  Synapse   http://{at}\n");
    }
    if let Some(at) = addresses.admin {
        text += &format!("  admin     http://{at}  /healthz /readyz /metrics /diagnostics\n");
    }
    text += &format!("  config    {}\n", places.configuration.display());
    text += &format!("  APIs      {}\n", joined(&serving.settings.gateway.apis));
    if !serving.settings.integration.artefacts.is_empty() {
        text += &format!("  artifacts {}\n", joined(&serving.settings.integration.artefacts));
    }
    text += "\n";
    let Some(api) = sample_api(places) else {
        return text + &sample_problems(places) + "Press Ctrl-C to stop.\n";
    };
    let path = format!("{}/hello", api.base_path);
    let bearer = "-H \"Authorization: Bearer $TOKEN\"";
    let body = "-d '{\"hello\":\"world\"}'";
    let kept = quoted(&places.token.display().to_string());
    let (from, print_token) = if token_request.is_empty() {
        (format!("valid for {TOKEN_DAYS} days"), format!("cat {kept}"))
    } else {
        let from = format!("from the key manager ({kept} has one for {TOKEN_DAYS} days)");
        (from, token_request.to_owned())
    };
    if has_token {
        text +=
            &format!("A token of the sample application, {from}:\n\nTOKEN=$({print_token})\n\n");
        text += "With it:\n\n";
        if let Some(url) = http {
            text += &format!("curl -i {bearer} {body} {url}{path}\n\n");
        }
        if let Some(url) = https {
            let trust = trust(&serving.settings);
            text += &format!("curl -i {trust} {bearer} {body} {url}{path}\n\n");
        }
    }
    if let Some(url) = http.as_ref().filter(|_| has_token && places.application.exists()) {
        let more = REQUESTS_PER_MINUTE + 5;
        text += &format!(
            "More requests than its plan allows, {REQUESTS_PER_MINUTE} a minute (status 429):\n\n\
             curl -s -o /dev/null -w '%{{http_code}} ' {bearer} '{url}{path}/[1-{more}]'\n\n"
        );
    }
    if let Some(at) = addresses.integration_http.filter(|_| places.artefact.exists()) {
        text += "An order in JSON, which the backend receives and returns as XML:\n\n";
        text +=
            "curl -i -H 'Content-Type: application/json' -d '{\"symbol\":\"IBM\",\"quantity\":3}' ";
        text += &format!("http://{at}/orders\n\n");
    }
    if let Some(url) = http.as_ref().or(https.as_ref()) {
        let trust = if http.is_some() { String::new() } else { trust(&serving.settings) + " " };
        text += &format!("Without a token (status 401):\n\ncurl -i {trust}{body} {url}{path}\n\n");
    }
    text + "Press Ctrl-C to stop.\n"
}

/// The `curl` flag to trust the certificate: the generated one is self-signed, the issuer of another is unknown.
fn trust(settings: &Settings) -> String {
    match settings.tls.default {
        Some(_) => "-k".to_owned(),
        None => {
            let cert = settings.gateway.data.join("tls.crt");
            format!("--cacert {}", quoted(&cert.display().to_string()))
        }
    }
}

fn joined(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ")
}

/// Quotes `text` for a POSIX shell, also for `$(...)` inside double quotes.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%".contains(c);
    if text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot make its files has failed")]

    use super::*;

    #[test]
    fn the_first_start_writes_files_that_later_starts_read() {
        let folder = tempfile::tempdir().unwrap();
        let places = Places::below(&folder.path().join("data")).unwrap();
        first_start(&places).unwrap();
        assert!(renew_token(&places).unwrap());
        let (settings, warnings) = follow::read_settings(&places.configuration).unwrap();
        assert_eq!(warnings, []);
        let checked = follow::check(
            &settings.gateway.apis,
            &[],
            &[],
            &follow::defaults(&settings),
            &fetch_nothing(),
        );
        assert_eq!((checked.files, checked.diagnostics), (1, Vec::new()));
        let backend = sample_api(&places).as_ref().and_then(local_endpoint);
        assert_eq!(backend, Some(SocketAddr::from(([127, 0, 0, 1], 8688))));
    }

    #[test]
    fn a_second_start_keeps_edited_files() {
        let folder = tempfile::tempdir().unwrap();
        let places = Places::below(folder.path()).unwrap();
        first_start(&places).unwrap();
        let key = fs::read(&places.signing_key).unwrap();
        fs::write(&places.sample, "mine").unwrap();
        fs::remove_file(&places.configuration).unwrap();
        first_start(&places).unwrap();
        assert_eq!(fs::read(&places.signing_key).unwrap(), key);
        assert_eq!(fs::read_to_string(&places.sample).unwrap(), "mine");
    }

    #[test]
    fn paths_with_special_characters_are_quoted() {
        assert_eq!(quoted("/tmp/data/token"), "/tmp/data/token");
        assert_eq!(quoted("/tmp/my data/it's"), "'/tmp/my data/it'\\''s'");
    }
}
