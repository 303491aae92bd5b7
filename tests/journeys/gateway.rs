//! `penstock gateway`: errors at startup, changes of its files, shutdown.

use std::fs;
use std::net::TcpListener;
use std::thread;

use harness::{Client, Files, Issuer, Process, Upstream, wait_until};
use nix::sys::signal::Signal::{SIGHUP, SIGKILL, SIGTERM};

/// An open API at `/a` that forwards to `upstream`.
fn description(upstream: &Upstream) -> String {
    format!(
        "openapi: 3.0.3\ninfo: {{title: A, version: '1'}}\nx-wso2-basePath: /a\n\
         x-wso2-production-endpoints: {{urls: ['{}']}}\nsecurity: []\n\
         paths:\n  /*:\n    get: {{responses: {{'200': {{description: ok}}}}}}\n",
        upstream.url()
    )
}

fn fetch(process: &Process, path: &str) -> harness::Response {
    Client::connect(process.address("http")).fetch(&format!("GET {path}"), "")
}

/// With `toml` as configuration it exits with 1 and prints each of `expect`.
#[track_caller]
fn check_not_started(toml: &str, expect: &[&str]) {
    let files = Files::new();
    files.write("penstock.toml", toml);
    let (code, text) = Process::run(files.folder(), &["gateway", "--config", "penstock.toml"]);
    assert_eq!(code, Some(1), "{text}");
    for part in expect {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
}

#[test]
fn a_port_in_use_is_reported_with_its_setting() {
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = held.local_addr().unwrap();
    for (section, key, setting) in [
        ("gateway", "http", "[gateway] http"),
        ("gateway", "https", "[gateway] https"),
        ("admin", "listen", "[admin] listen"),
    ] {
        let other = if key == "http" { "" } else { "[gateway]\nhttp = \"127.0.0.1:0\"\n" };
        let section = if section == "gateway" && !other.is_empty() { "" } else { section };
        let header = if section.is_empty() { String::new() } else { format!("[{section}]\n") };
        let toml = format!("{other}{header}{key} = \"{taken}\"\n");
        check_not_started(&toml, &[&taken.to_string(), setting, "penstock.toml"]);
    }
}

#[test]
fn errors_of_the_configuration_have_a_position_and_a_suggestion() {
    check_not_started(
        "[gateway]\nhttp = \"127.0.0.1:0\"\nwrokers = 2\n",
        &["penstock.toml:3:1: error: ", "wrokers", "workers"],
    );
    check_not_started("[gateway]\nhttp = 8280\n", &["penstock.toml:2:8: error: "]);
    check_not_started("[gateway\n", &["penstock.toml:1:"]);
    check_not_started("", &["penstock.toml", "error: "]);
    check_not_started(
        "[gateway]\nhttps = \"127.0.0.1:0\"\n[tls]\ncert = \"none.crt\"\nkey = \"none.key\"\n",
        &["none.crt"],
    );
}

#[test]
fn a_missing_file_exits_with_1_and_a_wrong_flag_with_2() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, code, expect) in [
        (&["gateway", "--config", "none.toml"][..], 1, "none.toml"),
        (&["check", "none.yaml"], 1, "none.yaml"),
        (&["gateway"], 2, "--config"),
        (&["gateway", "--confg", "x"], 2, "--config"),
        (&["nonsense"], 2, "nonsense"),
        (&[], 2, "Usage"),
        (&["--help"], 0, "penstock up"),
        (&["--version"], 0, "penstock 0."),
    ] {
        let (got, text) = Process::run(folder.path(), arguments);
        assert_eq!(got, Some(code), "{arguments:?}: {text}");
        assert!(text.contains(expect), "{arguments:?}: {text}");
    }
}

#[test]
fn an_edited_added_or_removed_description_is_served_without_a_restart() {
    let (one, two) = (Upstream::fixed("one"), Upstream::fixed("two"));
    let files = Files::new().api("a.yaml", &description(&one));
    let process = Process::gateway(&files);
    assert_eq!(fetch(&process, "/a/x").text(), "one");
    files.write("apis/a.yaml", &description(&two));
    wait_until(|| fetch(&process, "/a/x").text() == "two");
    files.write("apis/b.yaml", &description(&one).replace("basePath: /a", "basePath: /b"));
    wait_until(|| fetch(&process, "/b/x").status == 200);
    fs::remove_file(files.path("apis/b.yaml")).unwrap();
    wait_until(|| fetch(&process, "/b/x").status == 404);
    assert_eq!(fetch(&process, "/a/x").text(), "two");
}

#[test]
fn a_broken_edit_keeps_the_last_good_version_and_is_reported_on_the_admin_port() {
    let upstream = Upstream::fixed("good");
    let files = Files::new().api("a.yaml", &description(&upstream));
    let process = Process::gateway(&files);
    let diagnostics =
        || Client::connect(process.address("admin")).fetch("GET /diagnostics", "").text();
    assert_eq!(diagnostics(), "[]");
    files.write("apis/a.yaml", &format!("{}x-wso2-basePath: [oops\n", description(&upstream)));
    wait_until(|| diagnostics() != "[]");
    assert!(diagnostics().contains("a.yaml"), "{}", diagnostics());
    assert_eq!(fetch(&process, "/a/x").text(), "good");
    files.write("apis/a.yaml", &description(&upstream));
    wait_until(|| diagnostics() == "[]");
}

#[test]
fn sighup_reloads_issuers_and_limits() {
    let (upstream, issuer) = (Upstream::fixed("in"), Issuer::new("late"));
    let secured = description(&upstream).replace("security: []\n", "");
    let files = Files::new().api("a.yaml", &secured).issuer("first", &Issuer::new("first"));
    let process = Process::gateway(&files);
    let bearer = format!("Authorization: {}\r\n", issuer.token().bearer());
    let status = || Client::connect(process.address("http")).fetch("GET /a/x", &bearer).status;
    assert_eq!(status(), 401);
    let files = files.issuer("late", &issuer);
    files.configure();
    process.signal(SIGHUP);
    wait_until(|| status() == 200);
}

#[test]
fn sigterm_under_load_fails_no_request() {
    let upstream = Upstream::fixed("answered");
    let files = Files::new().api("a.yaml", &description(&upstream));
    let mut process = Process::gateway(&files);
    let (http, admin) = (process.address("http"), process.address("admin"));
    let (ready, warmed_up) = std::sync::mpsc::channel();
    let clients: Vec<_> = (0..8)
        .map(|_| {
            let ready = ready.clone();
            thread::spawn(move || {
                let mut client = Client::connect(http);
                for count in 1_u32.. {
                    let response = client.fetch("GET /a/x", "");
                    assert_eq!((response.status, response.text().as_str()), (200, "answered"));
                    if count == 10 {
                        ready.send(()).unwrap();
                    }
                    if response.header("connection") == Some("close") {
                        return count;
                    }
                }
                unreachable!("the gateway closes the connection")
            })
        })
        .collect();
    for _ in &clients {
        warmed_up.recv().unwrap();
    }
    process.signal(SIGTERM);
    wait_until(|| Client::connect(admin).fetch("GET /readyz", "").status != 200);
    // Load balancers may not have noticed yet: a new connection is still accepted.
    assert_eq!(Client::connect(http).fetch("GET /a/x", "").status, 200);
    for client in clients {
        assert!(client.join().unwrap() > 10);
    }
    assert_eq!(process.wait().code(), Some(0), "{}", process.text());
    assert!(process.text().contains("all requests finished"), "{}", process.text());
    assert!(TcpListener::bind(http).is_ok(), "the port is free again");
}

#[test]
fn a_second_signal_shuts_down_at_once() {
    let upstream = Upstream::manual();
    let files = Files::new().api("a.yaml", &description(&upstream));
    let mut process = Process::gateway(&files);
    let mut client = Client::connect(process.address("http"));
    client.send("GET /a/x HTTP/1.1\r\nHost: me\r\n\r\n");
    let mut connection = upstream.accept();
    connection.request();
    process.signal(SIGTERM);
    process.wait_for("draining");
    process.signal(SIGTERM);
    assert_eq!(process.wait().code(), Some(1), "{}", process.text());
    client.expect_close();
}

#[test]
fn after_kill_9_the_same_data_folder_serves_again() {
    let upstream = Upstream::fixed("served");
    let files = Files::new().api("a.yaml", &description(&upstream));
    for _ in 0..2 {
        let mut process = Process::gateway(&files);
        assert_eq!(fetch(&process, "/a/x").text(), "served");
        process.signal(SIGKILL);
        process.wait();
    }
}

#[test]
fn the_log_and_the_access_log_hold_no_token() {
    let (upstream, issuer) = (Upstream::fixed("in"), Issuer::new("resident"));
    let files = Files::new()
        .api("a.yaml", &description(&upstream).replace("security: []\n", ""))
        .issuer("resident", &issuer)
        .toml("[access_log]\nto = \"file\"\nfile = \"access.log\"\n[log]\nlevel = \"trace\"\n");
    let mut process = Process::gateway(&files);
    let valid = issuer.token().sign();
    for token in [&valid, &issuer.token().expires_in_s(-5).sign()] {
        let field = format!("Authorization: Bearer {token}\r\n");
        let response =
            Client::connect(process.address("http")).fetch("GET /a/sEcReT?q=hIdDeN", &field);
        assert!([200, 401].contains(&response.status));
    }
    process.signal(SIGTERM);
    process.wait();
    let access = fs::read_to_string(files.path("access.log")).unwrap();
    assert_eq!(access.lines().count(), 2, "{access}");
    for line in access.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(line.is_object());
    }
    let signature = valid.rsplit('.').next().unwrap();
    for (name, text) in [("access log", &access), ("log", &process.text())] {
        assert!(!text.contains(signature) && !text.contains("hIdDeN"), "{name}: {text}");
    }
}
