//! A running `penstock control`, and requests to it.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::OnceLock;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use harness::{Client, Files, Issuer, Process, Response};
use serde_json::{Value, json};

use crate::servers;

pub(crate) const ISS: &str = "https://localhost:9443/oauth2/token";
pub(crate) const PASSWORD: &str = "correct horse battery";
/// The client's request for a token.
pub(crate) const SIGN_IN: &str =
    "grant_type=password&username=admin&password=correct+horse+battery";
pub(crate) const CONTROL: &str = "[control]\nhttps = \"127.0.0.1:0\"\n\
    issuer = \"https://localhost:9443/oauth2/token\"\nadmin_password = { file = \"password\" }\n";

/// Name and secret, for HTTP Basic.
pub(crate) type Login<'a> = (&'a str, &'a str);

pub(crate) struct KeyManager {
    pub(crate) files: Files,
    pub(crate) process: Process,
}

/// [`CONTROL`], with the keys that a database server needs if the tests run on one.
pub(crate) fn control() -> String {
    let keys = if servers::given().is_some() { "keys = [\"key.pem\"]\n" } else { "" };
    CONTROL.to_owned() + keys
}

/// With the password of `admin`, and a new database if the tests run on a server.
pub(crate) fn prepared(mut files: Files) -> Files {
    if let Some(server) = servers::given()
        && !std::fs::read_to_string(files.configure()).unwrap().contains("[store]")
    {
        static KEY: OnceLock<String> = OnceLock::new();
        files.write("key.pem", KEY.get_or_init(|| Issuer::rsa("key").pem));
        let url = servers::create(&server);
        files = files.toml(&format!("[store]\nurl = \"{url}\"\n"));
    }
    files.write("password", PASSWORD);
    files
}

impl KeyManager {
    /// With [`PASSWORD`] for `admin`.
    pub(crate) fn start() -> Self {
        Self::with("")
    }

    /// With more keys of `[control]`, and sections.
    pub(crate) fn with(toml: &str) -> Self {
        Self::of(Files::new().toml(&(control() + toml)))
    }

    /// On SQLite, even if the other tests run on a server.
    pub(crate) fn on_sqlite() -> Self {
        Self::of(Files::new().toml(&format!("{CONTROL}[store]\nurl = \"sqlite:penstock.db\"\n")))
    }

    pub(crate) fn of(files: Files) -> Self {
        Self::of_prepared(prepared(files))
    }

    pub(crate) fn of_prepared(files: Files) -> Self {
        let process = run(&files);
        Self { files, process }
    }

    /// Starts it again after `kill -9`.
    pub(crate) fn restart(self) -> Self {
        let Self { files, process } = self;
        drop(process);
        Self::of_prepared(files)
    }

    /// Stops it by `kill -9`. It starts again on the same port.
    pub(crate) fn stop(self) -> Stopped {
        let Self { files, process } = self;
        Stopped { address: process.address("https"), files }
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect_tls(
            self.process.address("https"),
            self.files.identity().client(&["http/1.1"]),
            "localhost",
        )
    }

    pub(crate) fn get(&self, path: &str) -> Response {
        self.connect().fetch(&format!("GET {path}"), "")
    }

    pub(crate) fn post(&self, path: &str, login: Option<Login<'_>>, form: &str) -> Response {
        let fields = "Content-Type: application/x-www-form-urlencoded\r\n".to_owned();
        let fields = fields + &basic(login);
        self.connect().fetch_with_body(&format!("POST {path}"), &fields, form)
    }

    pub(crate) fn post_json(&self, path: &str, login: Option<Login<'_>>, body: &Value) -> Response {
        let fields = "Content-Type: application/json\r\n".to_owned() + &basic(login);
        self.connect().fetch_with_body(&format!("POST {path}"), &fields, &body.to_string())
    }

    /// Registers an application in WSO2's shape; returns its id and secret.
    pub(crate) fn register(&self, name: &str, more: Value) -> (String, String) {
        let mut profile = json!({
            "clientName": name,
            "owner": "admin",
            "grantType": "client_credentials",
            "saasApp": true,
        });
        profile.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let path = "/client-registration/v0.17/register";
        let response = self.post_json(path, Some(("admin", PASSWORD)), &profile);
        let body = success(&response);
        let text = |name: &str| body[name].as_str().unwrap().to_owned();
        (text("clientId"), text("clientSecret"))
    }

    /// Sends the form by which the user `name` replaces a password.
    pub(crate) fn replace_password(&self, name: &str, old: &str, new: &str) -> Response {
        let form = format!("username={name}&password={old}&new_password={new}&repeated={new}");
        self.post("/account/password", None, &form)
    }

    /// Removes an application.
    pub(crate) fn unregister(&self, id: &str) -> Response {
        let path = "/api/identity/oauth2/dcr/v1.1/register";
        self.connect().fetch(&format!("DELETE {path}/{id}"), &basic(Some(("admin", PASSWORD))))
    }

    /// The successful response of the token endpoint.
    pub(crate) fn token(&self, login: Login<'_>, form: &str) -> Value {
        success(&self.post("/oauth2/token", Some(login), form))
    }

    pub(crate) fn is_active(&self, login: Login<'_>, token: &str) -> bool {
        let found = self.post("/oauth2/introspect", Some(login), &format!("token={token}"));
        success(&found)["active"].as_bool().unwrap()
    }
}

/// A key manager that is not running.
pub(crate) struct Stopped {
    files: Files,
    address: SocketAddr,
}

impl Stopped {
    pub(crate) fn start(self) -> KeyManager {
        let Self { files, address } = self;
        let file = files.configure();
        let text = std::fs::read_to_string(&file).unwrap();
        let (any, same) =
            ("[control]\nhttps = \"127.0.0.1:0\"", format!("[control]\nhttps = \"{address}\""));
        let text = text.replace(any, &same);
        assert!(text.contains(&same));
        files.write("penstock.toml", &text);
        let process = serving(&files);
        KeyManager { files, process }
    }

    pub(crate) fn sql(&self, statements: &str) -> String {
        sql(&self.files, statements)
    }
}

fn sql(files: &Files, statements: &str) -> String {
    let toml = std::fs::read_to_string(files.path("penstock.toml")).unwrap();
    let url = toml.split_once("[store]\nurl = \"").and_then(|(_, rest)| rest.split('"').next());
    let rows = match url.filter(|url| url.contains("://")) {
        Some(url) => servers::sql(url, statements),
        None => {
            let mut command = Command::new("sqlite3");
            command.args(["-bail", "-cmd", ".timeout 60000"]).arg(files.path("penstock.db"));
            servers::run(command, statements)
        }
    };
    rows.unwrap()
}

impl KeyManager {
    /// Changes or reads the database beside the running key manager.
    pub(crate) fn sql(&self, statements: &str) -> String {
        sql(&self.files, statements)
    }

    /// Runs `penstock control` with more arguments, to its end.
    pub(crate) fn command(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let file = self.files.configure();
        let all = [&["control", "--config", file.to_str().unwrap()], arguments].concat();
        Process::run(self.files.folder(), &all)
    }
}

fn run(files: &Files) -> Process {
    files.configure();
    serving(files)
}

fn serving(files: &Files) -> Process {
    let process = Process::start(files.folder(), &["control", "--config", "penstock.toml"]);
    process.wait_for(" serving ");
    process
}

/// The body of a response with status 200.
#[track_caller]
pub(crate) fn success(response: &Response) -> Value {
    assert_eq!(response.status, 200, "{}", response.text());
    serde_json::from_slice(&response.body).unwrap()
}

/// Status and `error`: `400 invalid_grant`.
pub(crate) fn error(response: &Response) -> String {
    let body: Value = serde_json::from_slice(&response.body).unwrap_or_default();
    format!("{} {}", response.status, body["error"].as_str().unwrap_or_default())
}

pub(crate) fn basic(login: Option<Login<'_>>) -> String {
    login.map_or_else(String::new, |(name, secret)| {
        let encoded = BASE64_STANDARD.encode(format!("{name}:{secret}"));
        format!("Authorization: Basic {encoded}\r\n")
    })
}
