//! `penstock up`: from nothing to a secured API, as a new user sees it.

use std::fs;
use std::net::TcpListener;
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
    let echo = free_port().to_string();
    for sample in ["apis/echo.yaml", "artifacts/orders.xml"] {
        edit(folder.path(), sample, &[(&port, &echo)]);
    }
    let ports = [":8280\"", ":8243\"", ":8290\"", ":9201\"", ":9443\""].map(|port| (port, ":0\""));
    edit(folder.path(), "penstock.toml", &ports);
    folder
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
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

/// The output of the `curl` lines of `printed`, run by a shell.
fn run_curls(printed: &str) -> Vec<String> {
    let lines = printed.lines().filter(|line| line.starts_with("curl "));
    let run = |line: &str| {
        // In another folder: the lines work anywhere.
        let elsewhere = tempfile::tempdir().unwrap();
        let output =
            Command::new("sh").args(["-c", line]).current_dir(elsewhere.path()).output().unwrap();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    lines.map(run).collect()
}

#[track_caller]
fn check_curls(printed: &str) {
    let responses = run_curls(printed);
    let [token, http, https, many, order, denied] = responses.as_slice() else {
        panic!("six lines in {printed}")
    };
    assert!(token.starts_with("HTTP/") && token.contains(" 200"), "{token}");
    assert!(token.contains("\"access_token\":\"ey"), "{token}");
    // Its plan allows 20 a minute, a part of which may be used.
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
    let denied = printed.lines().rfind(|line| line.starts_with("curl ")).unwrap();
    assert!(run_curls(denied)[0].starts_with("HTTP/1.1 401 "));
    edit(folder.path(), "apis/echo.yaml", &[("paths:", "security: []\npaths:")]);
    wait_until(|| !run_curls(denied)[0].starts_with("HTTP/1.1 401 "));
    assert!(run_curls(denied)[0].ends_with("{\"hello\":\"world\"}"));
}
