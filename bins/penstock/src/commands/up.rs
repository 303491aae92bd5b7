//! `penstock up`: everything on this machine, ready to be tried.

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use base::{Clock, SystemClock};
use clap::Args;
use formats::declarative::{FirstStart, render_default};
use jose::{Header, SigningKey};
use lab::echo::{Echo, Options};
use model::{Api, Settings};

use super::serving::Serving;
use super::{say, token};
use crate::failure::Failure;

const SAMPLE_API: &str = include_str!("../../../../examples/echo.yaml");
const ISSUER_NAME: &str = "resident";
/// Source: WSO2's resident key manager.
const ISS: &str = "https://localhost:9443/oauth2/token";
/// A new token is made at each start.
const TOKEN_DAYS: u64 = 30;

/// Start everything on this machine: a gateway with a sample API, a backend, keys and a token
///
/// The first start writes its configuration, the sample API and a signing key into the data folder;
/// later ones read them. Ports are changed there.
#[derive(Args)]
#[command(after_help = "Example:
  penstock up        then paste one of the curl lines that it prints

Things to try while it runs: edit penstock-data/apis/echo.yaml, or put your own OpenAPI file beside it.")]
pub(crate) struct Arguments {
    /// The data folder
    #[arg(long, value_name = "DIR", default_value = "penstock-data")]
    data: PathBuf,
}

/// Where things lie in the data folder.
struct Places {
    configuration: PathBuf,
    sample: PathBuf,
    signing_key: PathBuf,
    jwks: PathBuf,
    token: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let places = Places::below(&arguments.data)?;
    if !places.configuration.exists() {
        first_start(&places)?;
    }
    let has_token = renew_token(&places)?;
    let echo = start_echo(&places)?;
    let serving = Serving::start(&places.configuration)?;
    let echo_address = echo.as_ref().map(Echo::addr);
    say(&welcome(&serving, &places, echo_address, has_token));
    let ended = serving.wait();
    drop(echo);
    ended
}

impl Places {
    /// Full paths, so that printed lines can be pasted anywhere.
    fn below(data: &Path) -> Result<Self, Failure> {
        fs::create_dir_all(data).map_err(|error| Failure::file("create", data, &error))?;
        let data = fs::canonicalize(data).map_err(|error| Failure::file("find", data, &error))?;
        Ok(Self {
            configuration: data.join("penstock.toml"),
            sample: data.join("apis/echo.yaml"),
            signing_key: data.join("keys/signing.pem"),
            jwks: data.join("keys/jwks.json"),
            token: data.join("token"),
        })
    }
}

/// Writes what is not there yet; the configuration last, so that an interrupted start is begun anew.
fn first_start(places: &Places) -> Result<(), Failure> {
    for file in [&places.sample, &places.signing_key] {
        let folder = file.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder).map_err(|error| Failure::file("create", folder, &error))?;
    }
    if !places.signing_key.exists() {
        let pem = SigningKey::generate_rsa().map_err(Failure::unable)?;
        written(&places.signing_key, follow::write_private(&places.signing_key, pem.as_bytes()))?;
    }
    let jwk = signing_key(&places.signing_key)?.public_jwk(None).map_err(Failure::unable)?;
    let jwks = format!("{{\"keys\":[{jwk}]}}\n");
    written(&places.jwks, follow::write_public(&places.jwks, jwks.as_bytes()))?;
    if !places.sample.exists() {
        written(&places.sample, follow::write_public(&places.sample, SAMPLE_API.as_bytes()))?;
    }
    let configuration = render_default(&FirstStart {
        http: "127.0.0.1:8280",
        https: "127.0.0.1:8243",
        admin: "127.0.0.1:9201",
        apis: "apis/",
        data: "data/",
        issuer_name: ISSUER_NAME,
        iss: ISS,
        jwks: "keys/jwks.json",
    });
    let kept = follow::write_public(&places.configuration, configuration.as_bytes());
    written(&places.configuration, kept)
}

/// Signs a token for the sample API. False: the signing key is gone, on purpose it seems.
fn renew_token(places: &Places) -> Result<bool, Failure> {
    if !places.signing_key.exists() {
        return Ok(false);
    }
    let key = signing_key(&places.signing_key)?;
    let now_s = SystemClock::new().now().unix_s;
    let claims = serde_json::json!({
        "iss": ISS,
        "sub": "sample-user",
        "client_id": "sample-client",
        "iat": now_s,
        "exp": now_s + TOKEN_DAYS * 86_400,
    });
    let header = Header {
        alg: key.algorithm(),
        kid: Some(key.thumbprint().map_err(Failure::unable)?),
        typ: Some("at+jwt".to_owned()),
    };
    let signed = token::sign_one(&key, &header, &claims.to_string())?;
    written(&places.token, follow::write_private(&places.token, signed.as_bytes()))?;
    Ok(true)
}

/// The backend that the sample API names, where it is on this machine; the sample is the place where
/// its port is changed.
fn start_echo(places: &Places) -> Result<Option<Echo>, Failure> {
    let Some(listen) = sample_api(places).as_ref().and_then(backend_here) else {
        return Ok(None);
    };
    let options = Options { listen, delay_ms: 0, tls: None, workers: None };
    let not_started = |error: io::Error| {
        let sample = places.sample.display();
        let change = format!("its port is set by the endpoint in {sample}");
        Failure::Unable(if error.kind() == io::ErrorKind::AddrInUse {
            format!("{listen} (echo backend) is taken; {change}")
        } else {
            format!("the echo backend cannot listen on {listen}: {error}; {change}")
        })
    };
    Echo::start(options).map(Some).map_err(not_started)
}

fn sample_api(places: &Places) -> Option<Api> {
    if !places.sample.exists() {
        return None;
    }
    let (settings, _) = follow::read_settings(&places.configuration).ok()?;
    let checked = follow::check(std::slice::from_ref(&places.sample), &follow::defaults(&settings));
    let loaded = checked.apis.into_iter().next()?;
    match loaded.state {
        model::ApiState::Serving => Some(Api::clone(&loaded.api)),
        model::ApiState::Unloaded => None,
    }
}

fn backend_here(api: &Api) -> Option<SocketAddr> {
    let endpoint = api.upstreams.get(api.production?)?.endpoints.first()?;
    let address: IpAddr = match endpoint.host.as_str() {
        "localhost" => IpAddr::from([127, 0, 0, 1]),
        host => host.parse().ok()?,
    };
    let ours = address.is_loopback() && endpoint.scheme == model::Scheme::Http;
    ours.then_some(SocketAddr::new(address, endpoint.port))
}

fn signing_key(file: &Path) -> Result<SigningKey, Failure> {
    let pem = fs::read(file).map_err(|error| Failure::file("read", file, &error))?;
    SigningKey::from_pem(&pem).map_err(|error| {
        let way_out = "remove it and penstock.toml to have both made anew";
        Failure::Unable(format!("{}: {error}; {way_out}", file.display()))
    })
}

fn written(file: &Path, result: io::Result<()>) -> Result<(), Failure> {
    result.map_err(|error| Failure::file("write", file, &error))
}

/// What runs where, and lines to paste.
fn welcome(
    serving: &Serving,
    places: &Places,
    echo: Option<SocketAddr>,
    has_token: bool,
) -> String {
    let addresses = serving.addresses();
    let urls = [
        addresses.http.map(|at| format!("http://{at}")),
        addresses.https.map(|at| format!("https://{at}")),
    ];
    let [http, https] = &urls;
    let gateway: Vec<&str> = urls.iter().flatten().map(String::as_str).collect();
    let mut text = format!("Penstock {} runs.\n\n", env!("CARGO_PKG_VERSION"));
    text += &format!("  gateway   {}\n", gateway.join("  "));
    if let Some(at) = echo {
        text += &format!("  backend   http://{at}  echo\n");
    }
    if let Some(at) = addresses.admin {
        text += &format!("  admin     http://{at}  /healthz /readyz /metrics /diagnostics\n");
    }
    text += &format!("  settings  {}\n", places.configuration.display());
    text += &format!("  APIs      {}\n\n", shown(&serving.settings.gateway.apis));
    let Some(api) = sample_api(places) else {
        return text + "Ctrl-C ends it.\n";
    };
    let path = format!("{}/hello", api.base_path);
    let bearer = format!(
        "-H \"Authorization: Bearer $(cat {})\"",
        quoted(&places.token.display().to_string())
    );
    let body = "-d '{\"hello\":\"world\"}'";
    if has_token {
        text += &format!("With the token, which is valid for {TOKEN_DAYS} days:\n\n");
        if let Some(url) = http {
            text += &format!("curl -i {bearer} {body} {url}{path}\n\n");
        }
        if let Some(url) = https {
            let trust = trust(&serving.settings);
            text += &format!("curl -i {trust} {bearer} {body} {url}{path}\n\n");
        }
    }
    if let Some(url) = http.as_ref().or(https.as_ref()) {
        let trust = if http.is_some() { String::new() } else { trust(&serving.settings) + " " };
        text += &format!(
            "Without a token, which is answered with 401:\n\ncurl -i {trust}{body} {url}{path}\n\n"
        );
    }
    text + "Ctrl-C ends it.\n"
}

/// The generated certificate is its own authority; of another one we know nothing.
fn trust(settings: &Settings) -> String {
    match settings.tls.default {
        Some(_) => "-k".to_owned(),
        None => {
            let cert = settings.gateway.data.join("tls.crt");
            format!("--cacert {}", quoted(&cert.display().to_string()))
        }
    }
}

fn shown(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ")
}

/// For a POSIX shell; inside double quotes as well, since `$(...)` begins anew.
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
    fn a_first_start_writes_what_later_ones_read() {
        let folder = tempfile::tempdir().unwrap();
        let places = Places::below(&folder.path().join("data")).unwrap();
        first_start(&places).unwrap();
        assert!(renew_token(&places).unwrap());
        let (settings, warnings) = follow::read_settings(&places.configuration).unwrap();
        assert_eq!(warnings, []);
        let checked = follow::check(&settings.gateway.apis, &follow::defaults(&settings));
        assert_eq!((checked.files, checked.diagnostics), (1, Vec::new()));
        let backend = sample_api(&places).as_ref().and_then(backend_here);
        assert_eq!(backend, Some(SocketAddr::from(([127, 0, 0, 1], 8688))));
    }

    #[test]
    fn a_second_start_keeps_what_was_edited() {
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
    fn a_path_is_quoted_where_a_shell_would_cut_it() {
        assert_eq!(quoted("/tmp/data/token"), "/tmp/data/token");
        assert_eq!(quoted("/tmp/my data/it's"), "'/tmp/my data/it'\\''s'");
    }
}
