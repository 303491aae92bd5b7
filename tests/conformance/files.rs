//! A gateway that follows files: descriptions, key sets, certificates and limits that change or are broken.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use harness::{CannedResponse, Client, Files, Gateway, Issuer, Token, Upstream, wait_until};

/// A description at `/a` with `more` lines.
fn description(upstream: &Upstream, more: &str) -> String {
    format!(
        "openapi: 3.0.3\ninfo: {{title: A, version: '1'}}\nx-wso2-basePath: /a\n\
         x-wso2-production-endpoints: {{urls: ['{}']}}\n{more}\
         paths:\n  /*:\n    get: {{responses: {{'200': {{description: ok}}}}}}\n",
        upstream.url()
    )
}

const OPEN: &str = "security: []\n";

/// Repeats a request until the change has taken effect.
fn until(gateway: &Gateway, request: &str, field: &str, expect: &str) {
    while gateway.fetch(request, field).status_and_code() != expect {
        std::thread::yield_now();
    }
}

#[test]
fn an_operation_is_secured_unless_its_file_says_otherwise() {
    let (upstream, issuer) = (Upstream::fixed("in"), Issuer::new("resident"));
    for (more, expect) in [
        ("", "401 900902"),
        (OPEN, "200"),
        ("x-auth-type: None\n", "200"),
        ("x-wso2-disable-security: true\n", "200"),
        ("x-wso2-disable-security: false\n", "401 900902"),
    ] {
        let files =
            Files::new().api("a.yaml", &description(&upstream, more)).issuer("resident", &issuer);
        assert_eq!(files.start().fetch("GET /a/x", "").status_and_code(), expect, "{more}");
    }
}

#[test]
fn a_secured_api_without_an_issuer_is_rejected_and_returns_503() {
    let upstream = Upstream::fixed("in");
    let gateway = Files::new().api("a.yaml", &description(&upstream, "")).start();
    assert_eq!(gateway.fetch("GET /a/x", "").status_and_code(), "503 700700");
    let diagnostics = gateway.page("/diagnostics").text();
    assert!(diagnostics.contains("a.yaml") && diagnostics.contains("issuer"), "{diagnostics}");
    assert_eq!(upstream.requests(), []);
}

#[test]
fn a_broken_description_affects_no_other_and_returns_503_where_its_path_is_readable() {
    let upstream = Upstream::fixed("in");
    let broken = description(&upstream, "x-wso2-cors: 7\n").replace("basePath: /a", "basePath: /b");
    let gateway = Files::new()
        .api("a.yaml", &description(&upstream, OPEN))
        .api("b.yaml", &broken)
        .api("c.yaml", "openapi: [\n")
        .start();
    assert_eq!(gateway.fetch("GET /a/x", "").status_and_code(), "200");
    assert_eq!(gateway.fetch("GET /b/x", "").status_and_code(), "503 700700");
    let diagnostics = gateway.page("/diagnostics").text();
    for file in ["b.yaml", "c.yaml"] {
        assert!(diagnostics.contains(file), "{diagnostics}");
    }
    let response = gateway.fetch("GET /b/x", "").text();
    assert!(!response.contains("yaml"), "the finding is never in a response: {response}");
}

#[test]
fn of_two_files_with_one_base_path_the_first_stays() {
    let (one, two) = (Upstream::fixed("one"), Upstream::fixed("two"));
    let files = Files::new().api("m.yaml", &description(&one, OPEN));
    let gateway = files.start();
    files.write("apis/a.yaml", &description(&two, OPEN));
    files.write("apis/z.yaml", &description(&two, OPEN));
    let diagnostics = || gateway.page("/diagnostics").text();
    while !(diagnostics().contains("a.yaml") && diagnostics().contains("z.yaml")) {
        assert_eq!(gateway.fetch("GET /a/x", "").text(), "one");
    }
    assert!(diagnostics().contains("m.yaml"), "both are named: {}", diagnostics());
    assert_eq!(gateway.fetch("GET /a/x", "").text(), "one");
    fs::remove_file(files.path("apis/m.yaml")).unwrap();
    wait_until(|| gateway.fetch("GET /a/x", "").text() == "two");
}

#[test]
fn a_project_of_api_manager_may_arrive_with_its_own_file_last() {
    let upstream = Upstream::fixed("in");
    let url = upstream.url();
    let other = |path: &str| {
        description(&upstream, OPEN).replace("title: A", "title: B").replace("/a\n", path)
    };
    let files = Files::new().api("b.yaml", &other("/b\n"));
    let gateway = files.start();
    for folder in ["Definitions", "Docs/How"] {
        fs::create_dir_all(files.path(&format!("apis/p/{folder}"))).unwrap();
    }
    // Were it a description of its own, it would be served at /a.
    files.write("apis/p/Definitions/swagger.yaml", &description(&upstream, OPEN));
    files.write("apis/p/Docs/How/document.yaml", "type: document\ndata: {}\n");
    files.write("apis/b.yaml", &other("/later\n"));
    until(&gateway, "GET /later/x", "", "200");
    let project = format!(
        "type: api\nversion: v4.3.0\ndata: {{name: Pets, context: /pets, version: 1.0.0, type: HTTP, \
         endpointConfig: {{endpoint_type: http, production_endpoints: {{url: '{url}'}}}}}}\n"
    );
    assert_eq!(gateway.fetch("GET /a/x", "").status, 404);
    files.write("apis/p/api.yaml", &project);
    until(&gateway, "GET /pets/1.0.0/x", "", "200");
    assert_eq!(gateway.fetch("GET /a/x", "").status, 404);
    let diagnostics = || gateway.page("/diagnostics").text();
    wait_until(|| !diagnostics().contains("apis/p/"));
}

#[test]
fn every_way_of_writing_a_file_is_noticed() {
    let all = ["rename", "truncate", "symlink", "remove"].map(Upstream::fixed);
    let first = Upstream::fixed("first");
    let files = Files::new().api("a.yaml", &description(&first, OPEN));
    let gateway = files.start();
    let text = |which: usize| description(&all[which], OPEN);
    let file = files.path("apis/a.yaml");
    let until = |expect: &str| while gateway.fetch("GET /a/x", "").text() != expect {};
    assert_eq!(gateway.fetch("GET /a/x", "").text(), "first");
    files.write("apis/a.yaml", &text(0));
    until("rename");
    fs::write(&file, text(1)).unwrap();
    until("truncate");
    fs::write(files.path("elsewhere"), text(2)).unwrap();
    std::os::unix::fs::symlink(files.path("elsewhere"), files.path("link")).unwrap();
    fs::rename(files.path("link"), &file).unwrap();
    until("symlink");
    fs::remove_file(&file).unwrap();
    fs::write(&file, text(3)).unwrap();
    until("remove");
}

#[test]
fn a_changed_key_set_takes_effect() {
    let upstream = Upstream::fixed("in");
    let (old, new) = (Issuer::new("resident"), Issuer::new("resident"));
    let files = Files::new().api("a.yaml", &description(&upstream, "")).issuer("resident", &old);
    let gateway = files.start();
    let [with_old, with_new] =
        [&old, &new].map(|issuer| format!("Authorization: {}\r\n", issuer.token().bearer()));
    assert_eq!(gateway.fetch("GET /a/x", &with_old).status_and_code(), "200");
    assert_eq!(gateway.fetch("GET /a/x", &with_new).status_and_code(), "401 900901");
    files.write("resident.jwks", &new.jwks());
    until(&gateway, "GET /a/x", &with_new, "200");
    assert_eq!(
        gateway.fetch("GET /a/x", &with_old).status_and_code(),
        "401 900901",
        "not from the cache"
    );
    files.write("resident.jwks", "broken");
    wait_until(|| gateway.page("/diagnostics").text().contains("resident.jwks"));
    assert_eq!(
        gateway.fetch("GET /a/x", &with_new).status_and_code(),
        "200",
        "the last good ones stay"
    );
}

#[test]
fn new_certificates_serve_new_connections() {
    let upstream = Upstream::fixed("in");
    let files = Files::new().api("a.yaml", &description(&upstream, OPEN));
    let gateway = files.start();
    let mut old = gateway.connect_tls();
    assert_eq!(old.fetch("GET /a/x", "").text(), "in");
    let new = harness::Identity::of(&["localhost"]);
    files.write("tls.key", &new.key_pem);
    files.write("tls.crt", &new.cert_pem);
    while !Client::would_trust(gateway.https(), new.client(&["http/1.1"]), "localhost") {
        assert_eq!(old.fetch("GET /a/x", "").text(), "in");
    }
    assert_eq!(old.fetch("GET /a/x", "").text(), "in");
}

#[test]
fn changed_limits_take_effect() {
    let refusing = Upstream::refusing();
    let files = Files::new().api("a.yaml", &description(&refusing, OPEN));
    let gateway = files.start();
    assert_eq!(gateway.fetch("GET /a/x", "").status_and_code(), "500 101503");
    let toml = fs::read_to_string(files.path("penstock.toml")).unwrap();
    files.write(
        "penstock.toml",
        &toml.replace("workers = 1", "workers = 1\nfault_status = \"http\""),
    );
    wait_until(|| gateway.fetch("GET /a/x", "").status != 500);
    assert!([502, 503].contains(&gateway.fetch("GET /a/x", "").status));
}

#[test]
fn the_endpoints_path_comes_before_the_remainder() {
    let upstream = Upstream::responding(|request| CannedResponse::ok(request.target()));
    let url = upstream.url();
    for (endpoint, path, expect) in [
        ("", "/a/x?q=1", "/x?q=1"),
        ("/", "/a/x", "/x"),
        ("/base", "/a/x/y", "/base/x/y"),
        ("/base/", "/a/x", "/base/x"),
        ("/base", "/a", "/base"),
        ("/base", "/a/", "/base/"),
    ] {
        let text = description(&upstream, OPEN).replace(&url, &format!("{url}{endpoint}"));
        let gateway = Files::new().api("a.yaml", &text).start();
        assert_eq!(gateway.fetch(&format!("GET {path}"), "").text(), expect, "{endpoint} {path}");
    }
}

#[test]
fn a_token_with_a_new_key_waits_for_the_key_set_instead_of_failing() {
    let upstream = Upstream::fixed("in");
    let field = |token: &Token<'_>| format!("Authorization: {}\r\n", token.bearer());
    let (old, new) = (Issuer::new("old"), Issuer::new("new"));
    let served = Arc::new(Mutex::new(old.jwks()));
    let (fetches, key_set) = (Arc::new(AtomicUsize::new(0)), Arc::clone(&served));
    let counted = Arc::clone(&fetches);
    let server = Upstream::responding(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        CannedResponse::ok(&key_set.lock().unwrap())
    });
    let files = Files::new().api("a.yaml", &description(&upstream, "")).issuer_at(
        "rotating",
        &old,
        &server.url(),
    );
    let gateway = files.start();
    assert_eq!(gateway.fetch("GET /a/x", &field(&old.token())).status_and_code(), "200");
    *served.lock().unwrap() = new.jwks();
    let rotated = || field(&new.token().claim("iss", old.iss()));
    assert_eq!(gateway.fetch("GET /a/x", &rotated()).status_and_code(), "200", "at once");
    let unknown = || field(&new.token().claim("iss", old.iss()).kid(Some("other")));
    assert_eq!(gateway.fetch("GET /a/x", &unknown()).status_and_code(), "401 900901");
    assert_eq!(gateway.fetch("GET /a/x", &rotated()).status_and_code(), "200");
    assert_eq!(fetches.load(Ordering::SeqCst), 2, "at the start, and for the new key");
}

#[test]
fn a_client_that_leaves_while_it_waits_for_the_key_set_is_recorded_as_499() {
    let (upstream, server) = (Upstream::fixed("in"), Upstream::manual());
    let (old, new) = (Issuer::new("old"), Issuer::new("new"));
    let files = Files::new().api("a.yaml", &description(&upstream, "")).issuer_at(
        "rotating",
        &old,
        &server.url(),
    );
    let gateway = std::thread::scope(|scope| {
        let first = scope.spawn(|| {
            let mut asked = server.accept();
            asked.request();
            asked.ok(&old.jwks());
        });
        let gateway = files.start();
        first.join().unwrap();
        gateway
    });
    let rotated = new.token().claim("iss", old.iss()).bearer();
    let field = format!("Authorization: {rotated}\r\n");
    let mut client = gateway.connect();
    client.send(format!("GET /a/x HTTP/1.1\r\nHost: me\r\n{field}\r\n"));
    let mut asked = server.accept();
    asked.request();
    client.reset();
    gateway.wait_for_metric("penstock_requests_total", "status=\"499\"", 1);
    asked.ok(&new.jwks());
    until(&gateway, "GET /a/x", &field, "200");
}
