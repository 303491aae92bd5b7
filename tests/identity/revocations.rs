//! A revoked token is rejected by every gateway that follows the key manager, cached or not, also after restarts.

use std::path::PathBuf;
use std::time::Instant;

use harness::{Client, Files, PATIENCE, Process, Response, Upstream, wait_until};
use serde_json::{Value, json};

use crate::key_manager::{ISS, KeyManager, Login, SIGN_IN, basic, error, success};

/// A gateway that follows the revocations of `manager` as the client `login`. Keys are in a file, so that it can start
/// while the key manager is down.
pub(crate) fn gateway(
    manager: &KeyManager,
    login: Login<'_>,
    upstream: &Upstream,
) -> (Files, Process) {
    gateway_of(manager, login, upstream, ("", &toml(manager, login)))
}

/// `more`: of the description, and `penstock.toml`.
fn gateway_of(
    manager: &KeyManager,
    login: Login<'_>,
    upstream: &Upstream,
    more: (&str, &str),
) -> (Files, Process) {
    let files = files(manager, login, upstream, more);
    let process = Process::gateway(&files);
    (files, process)
}

/// The files of [`gateway_of`].
pub(crate) fn files(
    manager: &KeyManager,
    login: Login<'_>,
    upstream: &Upstream,
    (more, toml): (&str, &str),
) -> Files {
    let description = format!(
        "openapi: 3.0.3\ninfo: {{title: A, version: '1'}}\nx-wso2-basePath: /a\n\
         x-wso2-production-endpoints: {{urls: ['{}']}}\n\
         paths:\n  /*:\n    get: {{responses: {{'200': {{description: ok}}}}}}\n{more}\n",
        upstream.url()
    );
    let files = Files::new().api("a.yaml", &description).toml(toml);
    files.write("secret", login.1);
    // A copy, since the key manager's files go with it.
    files.write("ca.crt", &std::fs::read_to_string(manager.files.path("tls.crt")).unwrap());
    files.write("keys.json", &manager.get("/oauth2/jwks").text());
    files
}

pub(crate) fn toml(manager: &KeyManager, (id, _): Login<'_>) -> String {
    let origin = format!("https://{}", manager.process.address("https"));
    let asked = |path: &str| {
        format!(
            "{{ url = \"{origin}/oauth2/{path}\", client_id = \"{id}\", \
             client_secret = {{ file = \"secret\" }} }}"
        )
    };
    let (introspection, revocations) = (asked("introspect"), asked("revocations"));
    format!(
        "[[issuer]]\nname = \"resident\"\niss = \"{ISS}\"\njwks = \"keys.json\"\n\
         introspection = {introspection}\nrevocations = {revocations}\n\
         [upstream_tls]\nca = [\"ca.crt\"]\nsystem_roots = false\n"
    )
}

/// The same with the users of the key manager.
pub(crate) fn toml_with_passwords(manager: &KeyManager, login: Login<'_>) -> String {
    let origin = format!("https://{}", manager.process.address("https"));
    let passwords = format!(
        "passwords = {{ url = \"{origin}/oauth2/token\", client_id = \"{}\", \
         client_secret = {{ file = \"secret\" }}, scopes = [\"read\"] }}\n[upstream_tls]",
        login.0
    );
    toml(manager, login).replace("[upstream_tls]", &passwords)
}

fn fetch(gateway: &Process, token: &str) -> Response {
    let fields = format!("Authorization: Bearer {token}\r\n");
    Client::connect(gateway.address("http")).fetch("GET /a/x", &fields)
}

/// Sends the token until it is rejected.
#[track_caller]
fn wait_until_rejected(gateway: &Process, token: &str) {
    let begun = Instant::now();
    while fetch(gateway, token).status_and_code() != "401 900901" {
        assert!(begun.elapsed() < PATIENCE, "it is still accepted");
    }
}

/// The file of a gateway's data whose name begins with `prefix`.
pub(crate) fn kept_file(files: &Files, prefix: &str) -> Option<PathBuf> {
    let mut all = std::fs::read_dir(files.path("data")).ok()?.map(|one| one.unwrap());
    let file = all.find(|file| file.file_name().to_str().unwrap().starts_with(prefix));
    file.map(|file| file.path())
}

/// Waits until the gateway has `count` revocations on its disk, which comes after the workers.
#[track_caller]
fn wait_until_kept(files: &Files, count: usize) {
    wait_until(|| {
        let file = kept_file(files, "revoked-");
        let text = file.map(|file| std::fs::read_to_string(file).unwrap()).unwrap_or_default();
        text.lines().filter(|line| !line.starts_with('=')).count() >= count
    });
}

fn text<'a>(issued: &'a Value, name: &str) -> &'a str {
    issued[name].as_str().unwrap()
}

fn revoke(manager: &KeyManager, login: Login<'_>, token: &str) {
    let revoked = manager.post("/oauth2/revoke", Some(login), &format!("token={token}"));
    assert_eq!(revoked.status, 200);
}

#[test]
fn damage_on_the_disk_is_named_and_no_revoked_token_passes_when_the_key_manager_is_back() {
    let manager = KeyManager::start();
    let own = manager.register("gateway", json!({}));
    let own = (own.0.as_str(), own.1.as_str());
    let upstream = Upstream::fixed("from the upstream");
    let (files, process) = gateway(&manager, own, &upstream);
    let issued = manager.token(own, "grant_type=client_credentials");
    let token = text(&issued, "access_token");
    revoke(&manager, own, token);
    wait_until_rejected(&process, token);
    wait_until_kept(&files, 1);
    drop(process);
    let file = kept_file(&files, "revoked-").unwrap();
    let stopped = manager.stop();
    let process = Process::gateway(&files);
    assert_eq!(fetch(&process, token).status_and_code(), "401 900901", "while it is down");
    drop(process);

    // Another valid hash.
    let kept = std::fs::read_to_string(&file).unwrap();
    let line = kept.lines().find(|line| !line.starts_with('=')).unwrap();
    let other = if line.starts_with('A') { "B" } else { "A" };
    let changed = other.to_owned() + &line[1..];
    std::fs::write(&file, kept.replace(line, &changed)).unwrap();
    let process = Process::gateway(&files);
    process.wait_for("the line is damaged");
    assert_eq!(fetch(&process, token).status, 200, "as the documentation says");
    let manager = stopped.start();
    wait_until_rejected(&process, token);
    // The disk comes after the workers.
    let is_whole = || std::fs::read_to_string(&file).is_ok_and(|now| now.contains(line));
    wait_until(is_whole);
    drop((process, manager));
    let process = Process::gateway(&files);
    assert_eq!(fetch(&process, token).status_and_code(), "401 900901", "the file is whole again");
}

#[test]
fn a_revoked_token_is_rejected_by_every_gateway_although_it_is_cached() {
    let manager = KeyManager::start();
    let own = manager.register("gateway", json!({}));
    let own = (own.0.as_str(), own.1.as_str());
    let upstream = Upstream::fixed("from the upstream");
    let (one, other) = (gateway(&manager, own, &upstream), gateway(&manager, own, &upstream));
    for (name, token_type) in [("jwt", "JWT"), ("opaque", "OAUTH")] {
        let login = manager.register(name, json!({ "tokenType": token_type }));
        let login = (login.0.as_str(), login.1.as_str());
        let [kept, revoked, unseen] =
            [(); 3].map(|()| manager.token(login, "grant_type=client_credentials"));
        let [kept, revoked, unseen] =
            [&kept, &revoked, &unseen].map(|issued| text(issued, "access_token"));
        for (_, process) in [&one, &other] {
            assert_eq!(fetch(process, kept).status, 200);
            assert_eq!(fetch(process, revoked).status, 200);
        }
        revoke(&manager, login, revoked);
        revoke(&manager, login, unseen);
        for (_, process) in [&one, &other] {
            wait_until_rejected(process, revoked);
            wait_until_rejected(process, unseen);
            assert_eq!(fetch(process, kept).status, 200);
        }
    }
}

#[test]
fn a_restarted_gateway_rejects_revoked_tokens_while_the_key_manager_is_down() {
    let manager = KeyManager::start();
    let login = manager.register("gateway", json!({}));
    let login = (login.0.as_str(), login.1.as_str());
    let upstream = Upstream::fixed("from the upstream");
    let [kept, revoked] = [(); 2].map(|()| manager.token(login, "grant_type=client_credentials"));
    let [kept, revoked] = [&kept, &revoked].map(|issued| text(issued, "access_token"));
    revoke(&manager, login, revoked);
    let (files, process) = gateway(&manager, login, &upstream);
    assert_eq!(fetch(&process, revoked).status_and_code(), "401 900901", "known at the start");
    drop(process);
    drop(manager);
    let process = Process::gateway(&files);
    assert_eq!(fetch(&process, revoked).status_and_code(), "401 900901");
    assert_eq!(fetch(&process, kept).status, 200);
}

#[test]
fn a_gateway_that_was_cut_off_catches_up() {
    let manager = KeyManager::start();
    let login = manager.register("gateway", json!({}));
    let login = (login.0.as_str(), login.1.as_str());
    let upstream = Upstream::fixed("from the upstream");
    let [before, while_down] =
        [(); 2].map(|()| manager.token(login, "grant_type=client_credentials"));
    let [before, while_down] = [&before, &while_down].map(|issued| text(issued, "access_token"));
    let (files, process) = gateway(&manager, login, &upstream);
    revoke(&manager, login, before);
    wait_until_rejected(&process, before);
    assert_eq!(fetch(&process, while_down).status, 200);
    let (old, manager) = (toml(&manager, login), manager.restart());
    revoke(&manager, login, while_down);
    let configuration = std::fs::read_to_string(files.path("penstock.toml")).unwrap();
    assert!(configuration.contains(&old));
    // The key manager listens on another port now.
    files.write("penstock.toml", &configuration.replace(&old, &toml(&manager, login)));
    wait_until_rejected(&process, while_down);
    assert_eq!(fetch(&process, before).status_and_code(), "401 900901");
}

#[test]
fn a_removed_client_takes_all_its_tokens_along_at_every_gateway_also_after_restarts() {
    let manager = KeyManager::start();
    let own = manager.register("gateway", json!({}));
    let own = (own.0.as_str(), own.1.as_str());
    let upstream = Upstream::fixed("from the upstream");
    let (one, other) = (gateway(&manager, own, &upstream), gateway(&manager, own, &upstream));
    let processes = [&one.1, &other.1];
    let kept = manager.token(own, "grant_type=client_credentials");
    let mut removed = Vec::new();
    for (name, token_type) in [("jwt", "JWT"), ("opaque", "OAUTH")] {
        let grants = "client_credentials password refresh_token";
        let login = manager.register(name, json!({ "tokenType": token_type, "grantType": grants }));
        let login = (login.0.as_str(), login.1.as_str());
        let [cached, unseen] =
            [(); 2].map(|()| manager.token(login, "grant_type=client_credentials"));
        let of_user = manager.token(login, SIGN_IN);
        let tokens = [cached, unseen, of_user];
        for token in [&tokens[0], &tokens[2]] {
            for process in processes {
                assert_eq!(fetch(process, text(token, "access_token")).status, 200, "{name}");
            }
        }
        let gone = manager.unregister(login.0);
        assert_eq!(gone.status, 204, "{}", gone.text());
        removed.extend(tokens.map(|issued| text(&issued, "access_token").to_owned()));
    }
    for process in processes {
        for token in &removed {
            wait_until_rejected(process, token);
        }
        assert_eq!(fetch(process, text(&kept, "access_token")).status, 200, "of another client");
    }
    for token in &removed {
        assert!(!manager.is_active(own, token));
    }
    // One for each client, for any number of its tokens.
    let listed = success(&manager.connect().fetch("GET /oauth2/revocations", &basic(Some(own))));
    assert_eq!(listed["revoked"].as_array().map(Vec::len), Some(2), "{listed}");
    drop(manager);
    let (files, process) = one;
    wait_until_kept(&files, 2);
    drop(process);
    let process = Process::gateway(&files);
    // Without the key manager, the gateway does not know the client of an opaque token: only JWTs show that it is
    // known.
    for token in removed.iter().filter(|token| token.contains('.')) {
        assert_eq!(fetch(&process, token).status_and_code(), "401 900901", "after a restart");
    }
    assert_eq!(fetch(&process, text(&kept, "access_token")).status, 200);
}

#[test]
fn a_stolen_refresh_token_and_a_new_password_end_the_jwts_of_a_user() {
    let manager = KeyManager::start();
    let login = manager.register("a", json!({ "grantType": "password refresh_token" }));
    let login = (login.0.as_str(), login.1.as_str());
    let upstream = Upstream::fixed("from the upstream");
    let (_files, process) = gateway(&manager, login, &upstream);
    let first = manager.token(login, SIGN_IN);
    let refresh =
        format!("grant_type=refresh_token&refresh_token={}", text(&first, "refresh_token"));
    let second = manager.token(login, &refresh);
    let other = manager.token(login, SIGN_IN);
    for issued in [&first, &second, &other] {
        assert_eq!(fetch(&process, text(issued, "access_token")).status, 200);
    }
    let reused = manager.post("/oauth2/token", Some(login), &refresh);
    assert_eq!(error(&reused), "400 invalid_grant");
    wait_until_rejected(&process, text(&first, "access_token"));
    wait_until_rejected(&process, text(&second, "access_token"));
    assert_eq!(fetch(&process, text(&other, "access_token")).status, 200, "another sign-in");
    assert!(!manager.is_active(login, text(&second, "access_token")));
    let (code, output) = manager.command(&["user", "password", "admin"]);
    assert_eq!(code, Some(0), "{output}");
    wait_until_rejected(&process, text(&other, "access_token"));
}

#[test]
fn the_list_of_revoked_tokens_is_for_clients_and_has_hashes_only() {
    let manager = KeyManager::start();
    let login = manager.register("a", json!({ "tokenType": "OAUTH" }));
    let login = (login.0.as_str(), login.1.as_str());
    let list = |login: Option<Login<'_>>, query: &str| {
        let request = format!("GET /oauth2/revocations{query}");
        manager.connect().fetch(&request, &basic(login))
    };
    for (wrong, expect) in [
        (None, "401 invalid_client"),
        (Some((login.0, "wrong")), "401 invalid_client"),
        (Some(("admin", crate::key_manager::PASSWORD)), "401 invalid_client"),
    ] {
        assert_eq!(error(&list(wrong, "")), expect);
    }
    for wrong in ["?after=x", "?after=-1", "?after=1&after=2", "?wait_s=1.5"] {
        assert_eq!(error(&list(Some(login), wrong)), "400 invalid_request", "{wrong}");
    }
    let empty = success(&list(Some(login), "?after=0"));
    assert_eq!(empty["revoked"], json!([]));
    let after = format!("?wait_s=20&after={}", empty["revision"]);
    let issued = manager.token(login, "grant_type=client_credentials");
    let token = text(&issued, "access_token");
    let found = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| success(&list(Some(login), &after)));
        revoke(&manager, login, token);
        waiting.join().unwrap()
    });
    let hash = jose::token_hash_text(&jose::sha256(token.as_bytes()));
    assert_eq!(found["revoked"][0]["hash"], json!(hash));
    assert!(found["revision"].as_u64() > empty["revision"].as_u64());
    // A database that is restored does not repeat a number that gateways have seen.
    let manager = manager.restart();
    manager.sql("UPDATE revisions SET last = 0");
    let manager = manager.restart();
    let response = manager.connect().fetch("GET /oauth2/revocations", &basic(Some(login)));
    assert!(success(&response)["revision"].as_u64() >= found["revision"].as_u64());
}

#[test]
fn a_user_calls_an_api_with_a_password_until_it_is_replaced() {
    let manager = KeyManager::start();
    let grants = json!({ "grantType": "password", "tokenScope": "read" });
    let login = manager.register("gateway", grants);
    let login = (login.0.as_str(), login.1.as_str());
    let add = |command: &str, password: &str| {
        manager.files.write("password", password);
        let arguments = ["user", command, "ann", "--password-file", "password"];
        assert_eq!(manager.command(&arguments).0, Some(0));
    };
    add("add", "first password");
    let upstream = Upstream::fixed("from the upstream");
    let toml = toml_with_passwords(&manager, login);
    let security = "x-wso2-application-security: {security-types: [basic_auth]}";
    let (_files, process) = gateway_of(&manager, login, &upstream, (security, &toml));
    let call = |password: &str| {
        use base64::Engine as _;
        let login = base64::prelude::BASE64_STANDARD.encode(format!("ann:{password}"));
        let fields = format!("Authorization: Basic {login}\r\n");
        let response = Client::connect(process.address("http")).fetch("GET /a/x", &fields);
        response.status_and_code()
    };
    assert_eq!([call("first password"), call("x")], ["200", "401 900914"]);
    add("password", "second password");
    let begun = Instant::now();
    while call("first password") != "401 900914" {
        assert!(begun.elapsed() < PATIENCE, "it is still accepted");
    }
    assert_eq!(call("second password"), "200");
}
