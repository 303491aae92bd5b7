//! `penstock up`: from nothing to a secured API, as a new user sees it.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use harness::{Process, wait_until};
use nix::sys::signal::Signal::{SIGINT, SIGKILL};

/// A data folder after a first start, with free ports. The first start itself fails, since the echo backend's
/// port is in use.
fn data() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = held.local_addr().unwrap();
    let port = address.port().to_string();
    let (code, text) = Process::run(folder.path(), &["up", "--data", "data dir", "--echo", &port]);
    assert_eq!(code, Some(1), "{text}");
    for part in [address.to_string().as_str(), "--echo", "data dir/apis/echo.yaml"] {
        assert!(text.contains(part), "no {part} in {text}");
    }
    let ports = [":8280\"", ":8243\"", ":8290\"", ":9201\""].map(|port| (port, ":0\""));
    edit(folder.path(), "penstock.toml", &ports);
    // The gateway, too, asks the control plane at this port. This start fails as the first one did.
    let control = free_port().to_string();
    let flags = ["up", "--data", "data dir", "--control", &control, "--echo", &port];
    let (code, text) = Process::run(folder.path(), &flags);
    assert_eq!(code, Some(1), "{text}");
    let configuration = fs::read_to_string(folder.path().join("data dir/penstock.toml")).unwrap();
    assert!(!configuration.contains(":9443"), "{configuration}");
    assert!(configuration.contains(&format!("iss = \"https://localhost:{control}/oauth2/token\"")));
    let echo = free_port().to_string();
    for sample in ["apis/echo.yaml", "artifacts/orders.xml"] {
        edit(folder.path(), sample, &[(&port, &echo)]);
    }
    folder
}

fn free_port() -> u16 {
    lab::target::free_port().unwrap().0
}

fn edit(folder: &Path, name: &str, changes: &[(&str, &str)]) {
    let file = folder.join("data dir").join(name);
    let mut text = fs::read_to_string(&file).unwrap();
    for (from, to) in changes {
        assert!(text.contains(from), "{from} in {text}");
        text = text.replace(from, to);
    }
    fs::write(file, text).unwrap();
}

fn up(folder: &Path) -> (Process, String) {
    let process = Process::start(folder, &["up", "--data", "data dir"]);
    let printed = process.wait_for("Press Ctrl-C to stop.");
    (process, printed)
}

/// The output of a script.
#[track_caller]
fn sh(script: &str) -> String {
    // In another folder: the printed lines work anywhere.
    let elsewhere = tempfile::tempdir().unwrap();
    let mut shell = Command::new("sh");
    let output = shell.args(["-c", script]).current_dir(elsewhere.path()).output().unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn lines<'a>(printed: &'a str, start: &'a str) -> impl DoubleEndedIterator<Item = &'a str> {
    printed.lines().filter(move |line| line.starts_with(start))
}

/// The token that the printed line gets.
#[track_caller]
fn token(printed: &str) -> String {
    let line = lines(printed, "TOKEN=").next().expect("a line for a token");
    sh(&format!("{line}\nprintf %s \"$TOKEN\""))
}

/// The output of the `curl` lines of `printed`, run by a shell with the token.
fn run_curls(printed: &str) -> Vec<String> {
    let token = token(printed);
    lines(printed, "curl ").map(|line| sh(&format!("TOKEN={token}\n{line}"))).collect()
}

#[track_caller]
fn check_curls(printed: &str) {
    let responses = run_curls(printed);
    let [http, https, many, order, denied] = responses.as_slice() else {
        panic!("five lines in {printed}")
    };
    // The application's plan allows 20 a minute, a part of which may be used.
    let (allowed, limited): (Vec<&str>, Vec<&str>) =
        many.split_whitespace().partition(|status| *status == "200");
    assert!(allowed.len() <= 20 && limited.len() >= 5, "{many}");
    assert!(limited.iter().all(|status| *status == "429"), "{many}");
    for response in [http, https] {
        assert!(response.starts_with("HTTP/"), "{response}");
        assert!(response.lines().next().unwrap().contains(" 200"), "{response}");
        assert!(response.ends_with("{\"hello\":\"world\"}"), "{response}");
    }
    assert!(order.starts_with("HTTP/1.1 200 "), "{order}");
    let xml: String = order.split("\r\n\r\n").skip(1).collect();
    let xml: String = xml.split_whitespace().collect();
    assert_eq!(xml, "<order><symbol>IBM</symbol><quantity>3</quantity></order>", "{order}");
    assert!(denied.starts_with("HTTP/1.1 401 "), "{denied}");
    assert!(
        denied.contains("{\"code\":\"900902\",\"message\":\"Missing Credentials\""),
        "{denied}"
    );
}

#[test]
fn a_sample_that_is_not_valid_is_reported_with_what_to_do() {
    let folder = data();
    edit(folder.path(), "apis/echo.yaml", &[("paths:", "paths: [")]);
    let (mut process, printed) = up(folder.path());
    let (_, said) = printed.split_once("The sample API is not valid").expect("a message");
    assert!(said.contains("data dir/apis/echo.yaml:"), "{printed}");
    assert!(said.contains("start again") && !said.contains("curl "), "{printed}");
    process.signal(SIGINT);
    assert_eq!(process.wait().code(), Some(0));
}

#[test]
fn the_printed_curl_lines_work_and_ctrl_c_stops_it() {
    let folder = data();
    let (mut process, printed) = up(folder.path());
    check_curls(&printed);
    process.signal(SIGINT);
    assert_eq!(process.wait().code(), Some(0), "{}", process.text());
}

#[test]
fn after_kill_9_the_same_data_folder_starts_again() {
    let folder = data();
    let (mut process, printed) = up(folder.path());
    check_curls(&printed);
    let keys = || fs::read(folder.path().join("data dir/keys/jwks.json")).unwrap();
    let before = keys();
    process.signal(SIGKILL);
    assert_eq!(process.wait().code(), None);
    let (mut process, printed) = up(folder.path());
    check_curls(&printed);
    assert_eq!(keys(), before, "the signing key is kept");
    process.signal(SIGINT);
    assert_eq!(process.wait().code(), Some(0));
}

#[test]
fn the_gateway_follows_its_key_manager_also_after_a_restart() {
    let folder = data();
    let (mut process, printed) = up(folder.path());
    let (_, password) = printed.split_once("(shown only now): ").unwrap();
    let password = password.lines().next().unwrap();
    let form = format!("-d username=admin -d password={password} -d new_password=chosen-here");
    control(&printed, "", "account/password", &(form + " -d repeated=chosen-here"));
    let admin = "admin:chosen-here";
    let secret = folder.path().join("data dir/keys/gateway-secret");
    let mode = fs::metadata(&secret).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let kept = fs::read(&secret).unwrap();
    let sample = fs::read_to_string(folder.path().join("data dir/client")).unwrap();
    revoke(&printed, sample.trim(), &token(&printed));

    // The client's tokens are opaque, and its application is only in the database.
    let profile = r#"{"clientName": "mine", "owner": "admin", "grantType": "client_credentials",
        "saasApp": true, "tokenType": "OAUTH"}"#;
    let registered = control(&printed, admin, "client-registration/v0.17/register", &json(profile));
    let client =
        format!("{}:{}", value(&registered, "clientId"), value(&registered, "clientSecret"));
    let application = format!(
        r#"{{"owner": "admin", "keys": [{{"client_id": "{}"}}],
        "subscriptions": [{{"api": "Echo", "version": "1.0.0", "plan": "Gold"}}]}}"#,
        value(&registered, "clientId")
    );
    let put = format!("-X PUT {}", json(&application));
    control(&printed, admin, "api/penstock/applications/mine", &put);
    let issued = |printed: &str| {
        let form = "-d grant_type=client_credentials";
        value(&control(printed, &client, "oauth2/token", form), "access_token")
    };
    let opaque = issued(&printed);
    assert!(!opaque.contains('.'), "{opaque}");
    wait_until(|| call(&printed, &opaque).starts_with("HTTP/1.1 200 "));
    revoke(&printed, &client, &opaque);
    process.signal(SIGINT);
    assert_eq!(process.wait().code(), Some(0), "{}", process.text());

    let (_process, printed) = up(folder.path());
    assert_eq!(fs::read(&secret).unwrap(), kept, "the secret is kept");
    assert!(call(&printed, &opaque).starts_with("HTTP/1.1 401 "));
    revoke(&printed, &client, &issued(&printed));
}

/// Revokes a token that the gateway accepts, which then rejects it.
#[track_caller]
fn revoke(printed: &str, login: &str, token: &str) {
    let response = call(printed, token);
    assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
    control(printed, login, "oauth2/revoke", &format!("-d token={token}"));
    wait_until(|| call(printed, token).starts_with("HTTP/1.1 401 "));
}

/// Sends a token to the sample API with the first printed line.
#[track_caller]
fn call(printed: &str, token: &str) -> String {
    let line = lines(printed, "curl ").next().unwrap();
    sh(&format!("TOKEN={token}\n{line}"))
}

/// The response of the control plane.
#[track_caller]
fn control(printed: &str, login: &str, path: &str, flags: &str) -> String {
    let (_, at) = printed.split_once("Control plane: ").unwrap();
    let url = at.lines().next().unwrap();
    sh(&format!("curl -sS --fail-with-body -k -u '{login}' {flags} {url}/{path}"))
}

fn json(body: &str) -> String {
    format!("-H 'Content-Type: application/json' -d '{body}'")
}

fn value(response: &str, name: &str) -> String {
    let response: serde_json::Value = serde_json::from_str(response).unwrap();
    response[name].as_str().unwrap().to_owned()
}

#[test]
fn an_https_listener_that_only_a_flag_opens_has_a_certificate() {
    let folder = data();
    edit(folder.path(), "penstock.toml", &[("https = \"127.0.0.1:0\"\napis", "apis")]);
    let flags = ["up", "--data", "data dir", "--https", "0"];
    let mut process = Process::start(folder.path(), &flags);
    check_curls(&process.wait_for("Press Ctrl-C to stop."));
    process.signal(SIGINT);
    assert_eq!(process.wait().code(), Some(0));
}

#[test]
fn flags_replace_the_ports_of_the_configuration() {
    let folder = data();
    let (http, echo, integration) = (free_port(), free_port(), free_port());
    let start = |echo: u16| {
        let [http, echo, integration] = [http, echo, integration].map(|port| port.to_string());
        let flags = ["up", "--data", "data dir", "--http", &http, "--echo", &echo];
        let flags = [&flags[..], &["--integration", &integration]].concat();
        let process = Process::start(folder.path(), &flags);
        let printed = process.wait_for("Press Ctrl-C to stop.");
        (process, printed)
    };
    let (mut process, printed) = start(echo);
    assert!(printed.contains(&format!("http://127.0.0.1:{http} ")), "{printed}");
    assert!(printed.contains(&format!("http://127.0.0.1:{echo} ")), "{printed}");
    assert!(printed.contains(&format!("http://127.0.0.1:{integration}/orders\n")), "{printed}");
    check_curls(&printed);
    process.signal(SIGINT);
    assert_eq!(process.wait().code(), Some(0));
    // An edited sample is not overwritten.
    edit(folder.path(), "apis/echo.yaml", &[("# The sample API", "# My sample API")]);
    let arguments = ["up", "--data", "data dir", "--echo", &free_port().to_string()];
    let (code, text) = Process::run(folder.path(), &arguments);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("data dir/apis/echo.yaml"), "{text}");
    let (_process, printed) = start(echo);
    check_curls(&printed);
}

#[test]
fn the_sample_api_may_be_edited_while_it_runs() {
    let folder = data();
    let (_process, printed) = up(folder.path());
    let denied = lines(&printed, "curl ").next_back().unwrap();
    assert!(sh(denied).starts_with("HTTP/1.1 401 "));
    edit(folder.path(), "apis/echo.yaml", &[("paths:", "security: []\npaths:")]);
    wait_until(|| !sh(denied).starts_with("HTTP/1.1 401 "));
    assert!(sh(denied).ends_with("{\"hello\":\"world\"}"));
}
