//! Requests that are wrong or hostile.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use harness::{Client, Files, Process, Upstream};
use serde_json::{Value, json};

use crate::key_manager::{KeyManager, PASSWORD, SIGN_IN, basic, error};
use crate::revocations;

#[test]
fn wrong_requests_are_rejected_with_the_errors_of_the_standards() {
    let manager = KeyManager::start();
    let (id, secret) = manager.register("a", json!({}));
    let login = Some((id.as_str(), secret.as_str()));
    let own = format!("client_id={id}&client_secret={secret}");
    for (login, form, expect) in [
        (login, "".to_owned(), "400 invalid_request"),
        (login, "grant_type=client_credentials&grant_type=password".into(), "400 invalid_request"),
        (login, "grant_type=client_credentials&scope=%00".into(), "400 invalid_request"),
        (login, "grant_type=implicit".into(), "400 unsupported_grant_type"),
        (
            login,
            "grant_type=urn:ietf:params:oauth:grant-type:saml2-bearer".into(),
            "400 unsupported_grant_type",
        ),
        (login, "grant_type=password&username=admin&password=x".into(), "400 unauthorized_client"),
        (login, format!("grant_type=client_credentials&{own}"), "400 invalid_request"),
        (login, "grant_type=client_credentials&client_id=other".into(), "400 invalid_request"),
        (None, format!("grant_type=client_credentials&{own}"), "200 "),
        (None, "grant_type=client_credentials".into(), "401 invalid_client"),
        (None, format!("grant_type=client_credentials&client_id={id}"), "401 invalid_client"),
        (Some(("unknown", "x")), "grant_type=client_credentials".into(), "401 invalid_client"),
        (Some((&id, "x")), "grant_type=client_credentials".into(), "401 invalid_client"),
        (Some((&id, "")), "grant_type=client_credentials".into(), "401 invalid_client"),
        (Some(("", "")), "grant_type=client_credentials".into(), "401 invalid_client"),
    ] {
        let response = manager.post("/oauth2/token", login, &form);
        assert_eq!(error(&response), expect, "{form}");
        assert_eq!(response.header("Cache-Control"), Some("no-store"));
    }
}

#[test]
fn requests_that_are_not_forms_are_rejected() {
    let manager = KeyManager::start();
    let (id, secret) = manager.register("a", json!({}));
    let login = basic(Some((&id, &secret)));
    let form = "Content-Type: application/x-www-form-urlencoded\r\n";
    for (request, fields, body, status) in [
        ("GET /oauth2/token", "", String::new(), 405),
        ("POST /oauth2/jwks", form, String::new(), 405),
        ("POST /nothing", form, String::new(), 404),
        ("POST /oauth2/token", "Content-Type: application/json\r\n", "{}".to_owned(), 415),
        ("POST /oauth2/token", "", "grant_type=client_credentials".to_owned(), 415),
        ("POST /oauth2/token", form, format!("a={}", "x".repeat(65_536)), 413),
        ("POST /oauth2/token?grant_type=client_credentials", form, String::new(), 400),
        ("POST /oauth2/introspect", form, "token=".to_owned(), 400),
    ] {
        let fields = format!("{login}{fields}");
        let response = manager.connect().fetch_with_body(request, &fields, &body);
        assert_eq!(response.status, status, "{request}: {}", response.text());
    }
    for broken in
        ["Basic", "Basic !", "Basic YQ==", "Bearer x", "Basic YTpi\r\nAuthorization: Basic YTpi"]
    {
        let fields = format!("{form}Authorization: {broken}\r\n");
        let request = "POST /oauth2/token";
        let response =
            manager.connect().fetch_with_body(request, &fields, "grant_type=client_credentials");
        assert_eq!(error(&response), "400 invalid_request", "{broken}");
    }
}

#[test]
fn guessing_a_secret_is_slowed_and_its_client_is_not() {
    let manager = KeyManager::start();
    let (id, secret) = manager.register("a", json!({}));
    let other = manager.register("b", json!({}));
    let token = |id: &str, secret: &str| {
        manager.post("/oauth2/token", Some((id, secret)), "grant_type=client_credentials")
    };
    // More than an address may have of users' failures.
    let mut slowed = 0;
    for guess in 0..60 {
        let response = token(&id, "guess");
        if response.status == 429 {
            assert!(guess >= 10);
            slowed += 1;
            assert_eq!(error(&response), "429 slow_down");
            assert!(response.header("Retry-After").unwrap().parse::<u64>().unwrap() > 0);
        } else {
            assert_eq!(error(&response), "401 invalid_client");
        }
    }
    assert!(slowed > 0);
    assert_eq!(token(&id, &secret).status, 200);
    assert_eq!(token(&other.0, &other.1).status, 200);
    let user = manager.post_json(
        "/client-registration/v0.17/register",
        Some(("admin", PASSWORD)),
        &json!({ "clientName": "c" }),
    );
    assert_eq!(user.status, 200, "a client that guesses does not slow the users of its address");
}

#[test]
fn guesses_by_way_of_a_gateway_slow_the_address_that_sends_them() {
    let manager = KeyManager::with("trusted_proxies = [\"127.0.0.1\"]\n");
    let origin = format!("https://{}", manager.process.address("https"));
    let urls = include_str!("../../examples/token-urls.yaml");
    let files = Files::new().api("urls.yaml", &urls.replace("https://localhost:9443", &origin));
    let ca = manager.files.path("tls.crt");
    let toml = format!("[upstream_tls]\nca = [\"{}\"]\nsystem_roots = false\n", ca.display());
    let files = files.toml(&toml);
    let gateway = Process::gateway(&files);
    let (id, _) = manager.register("a", json!({}));
    let guess = |client: &mut Client, path: &str, more: &str| {
        let login = basic(Some((&id, "guess")));
        let fields = format!("Content-Type: application/x-www-form-urlencoded\r\n{login}{more}");
        client.fetch_with_body(path, &fields, "grant_type=client_credentials").status
    };
    let claimed = |number: u8| format!("X-Forwarded-For: 192.0.2.{number}\r\n");
    let by_gateway = |source: u8, more: &str| {
        let mut client = Client::connect_from([127, 0, 0, source].into(), gateway.address("http"));
        guess(&mut client, "POST /token", more)
    };
    // Claims of the gateway's clients about themselves do not count.
    assert!((0..60).any(|number| by_gateway(2, &claimed(number)) == 429));
    assert_eq!(by_gateway(3, ""), 401, "another address");
    let directly = |more: &str| guess(&mut manager.connect(), "POST /oauth2/token", more);
    // As the gateway does. The wait may be over by now; an address that has failed less is not slowed so soon.
    assert!((0..5).any(|_| directly("X-Forwarded-For: 127.0.0.2\r\n") == 429));
    assert_eq!(directly("X-Forwarded-For: 127.0.0.2, 127.0.0.4\r\n"), 401, "the last one counts");
    // A peer that is not trusted is the client.
    let strict = KeyManager::start();
    let path = "POST /oauth2/token";
    assert!((0..60).any(|number| guess(&mut strict.connect(), path, &claimed(number)) == 429));
}

#[test]
fn guesses_of_passwords_at_a_gateway_slow_the_address_that_sends_them() {
    let manager = KeyManager::with("trusted_proxies = [\"127.0.0.1\"]\n");
    let grants = json!({ "grantType": "password", "tokenScope": "read" });
    let login = manager.register("gateway", grants);
    let login = (login.0.as_str(), login.1.as_str());
    let upstream = Upstream::fixed("from the upstream");
    let toml = revocations::toml_with_passwords(&manager, login);
    let security = "x-wso2-application-security: {security-types: [basic_auth]}";
    let files = revocations::files(&manager, login, &upstream, (security, &toml));
    let gateway = Process::gateway(&files);
    let call = |source: u8, password: &str| {
        let mut client = Client::connect_from([127, 0, 0, source].into(), gateway.address("http"));
        let claimed = "X-Forwarded-For: 192.0.2.1\r\n";
        let fields = basic(Some(("admin", password))) + claimed;
        client.fetch("GET /a/x", &fields).status_and_code()
    };
    // Each guess is another one: the gateway rejects a repeated one by itself.
    let slowed = (0..60).map(|number| call(2, &format!("guess {number}")));
    assert!(slowed.filter(|found| found != "401 900914").any(|found| found == "503 503003"));
    assert_eq!(call(3, "guess"), "401 900914", "another address");
    assert_eq!(call(3, PASSWORD), "200");
}

#[test]
fn guesses_at_once_are_slowed_like_those_one_after_another() {
    let manager = KeyManager::start();
    let (id, secret) = manager.register("a", json!({ "grantType": "password" }));
    let form = "grant_type=password&username=admin&password=guess";
    let guess = || manager.post("/oauth2/token", Some((&id, &secret)), form).status;
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..30).map(|_| scope.spawn(guess)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let checked = statuses.iter().filter(|status| **status == 400).count();
    // A machine that stalls for a second lets one or two more be tried.
    assert!((10..15).contains(&checked), "{statuses:?}");
    assert!(statuses.iter().all(|status| [400, 429].contains(status)), "{statuses:?}");
}

#[test]
fn an_introspection_without_credentials_says_nothing() {
    let manager = KeyManager::start();
    let (id, secret) = manager.register("a", json!({}));
    let issued = manager.token((&id, &secret), "grant_type=client_credentials");
    let form = format!("token={}", issued["access_token"].as_str().unwrap());
    let anonymous = manager.post("/oauth2/introspect", None, &form);
    assert_eq!(error(&anonymous), "401 invalid_client");
    let wrong = manager.post("/oauth2/introspect", Some(("admin", "wrong password")), &form);
    assert_eq!(error(&wrong), "401 access_denied");
}

#[test]
fn no_secret_is_written_to_the_database_or_the_log() {
    let manager = KeyManager::with("[log]\nlevel = \"trace\"\n");
    let more = json!({ "tokenType": "OAUTH", "grantType": "password refresh_token" });
    let (id, secret) = manager.register("a", more);
    let form = SIGN_IN;
    let issued = manager.token((&id, &secret), form);
    let guess = manager.post("/oauth2/token", Some((&id, "a-wrong-secret")), form);
    assert_eq!(guess.status, 401);
    let token = |name: &str| issued[name].as_str().unwrap().to_owned();
    let secrets = [
        secret,
        token("access_token"),
        token("refresh_token"),
        PASSWORD.to_owned(),
        "a-wrong-secret".to_owned(),
    ];
    manager.process.wait_for("failed attempt to authenticate");
    let log = manager.process.wait_for(&id);
    let mut written = vec![("the log".to_owned(), log.into_bytes())];
    for entry in std::fs::read_dir(manager.files.folder()).unwrap() {
        let file = entry.unwrap();
        let name = file.file_name().into_string().unwrap();
        if name.starts_with("penstock.db") {
            written.push((name, std::fs::read(file.path()).unwrap()));
        }
    }
    if written.len() == 1 {
        let tables = "SELECT * FROM users; SELECT * FROM clients; SELECT * FROM tokens;";
        written.push(("the tables".to_owned(), manager.sql(tables).into_bytes()));
    }
    for (place, bytes) in &written {
        for secret in secrets.iter().flat_map(|secret| spellings(&id, secret)) {
            let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "a secret in {place}");
        }
    }
    let has_id = written
        .iter()
        .any(|(_, bytes)| bytes.windows(id.len()).any(|window| window == id.as_bytes()));
    assert!(has_id, "the search finds what is there");
}

/// A secret as it is sent: plain, in a form, and in HTTP Basic with its name.
fn spellings(id: &str, secret: &str) -> Vec<String> {
    let basic = |name: &str| BASE64_STANDARD.encode(format!("{name}:{secret}"));
    vec![secret.to_owned(), secret.replace(' ', "+"), basic(id), basic("admin")]
}

#[test]
fn the_database_is_readable_by_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let manager = KeyManager::on_sqlite();
    for name in ["penstock.db", "penstock.db-wal", "data/oauth.key"] {
        let mode = std::fs::metadata(manager.files.path(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

/// Inserts more rows than a client may have into `table`.
fn insert(manager: &KeyManager, table: &str, row: impl Fn(u32) -> String) {
    let thousand = |number: u32| {
        let rows = (0..1_000).map(|i| format!("({})", row(number * 1_000 + i)));
        format!("INSERT INTO {table} VALUES {};\n", rows.collect::<Vec<_>>().join(", "))
    };
    let statements: String = (0..=100).map(thousand).collect();
    manager.sql(&format!("BEGIN;\n{statements}COMMIT;\n"));
}

#[test]
fn a_client_with_too_many_tokens_gets_no_more_and_others_do() {
    let manager = KeyManager::start();
    let opaque = json!({ "tokenType": "OAUTH" });
    let [full, other] = ["a", "b"].map(|name| manager.register(name, opaque.clone()));
    let columns = "hash, kind, family, client, subject, scope, issued_s, expires_s, spent";
    insert(&manager, &format!("tokens ({columns})"), |i| {
        format!("'hash{i}', 'access', 'f', '{}', 's', 'x', 0, 9000000000, 0", full.0)
    });
    // Tokens are counted soon after the start.
    let manager = manager.restart();
    let token = |(id, secret): &(String, String)| {
        manager.post("/oauth2/token", Some((id, secret)), "grant_type=client_credentials")
    };
    let refused = (0..10_000).any(|_| token(&full).status != 200);
    assert!(refused, "the tokens were counted");
    assert_eq!(error(&token(&full)), "503 temporarily_unavailable");
    assert_eq!(token(&other).status, 200);
}

const DEVICE: &str = "urn:ietf:params:oauth:grant-type:device_code";

#[test]
fn whoever_asks_for_many_device_codes_is_slowed_and_nobody_else() {
    let manager = KeyManager::start();
    let app = manager.register("app", json!({ "grantType": format!("password {DEVICE}") }));
    let app = (app.0.as_str(), app.1.as_str());
    let metadata = json!({
        "client_name": "tv", "token_endpoint_auth_method": "none", "grant_types": [DEVICE],
    });
    let path = "/api/identity/oauth2/dcr/v1.1/register";
    let public = manager.post_json(path, Some(("admin", PASSWORD)), &metadata);
    let public: Value = serde_json::from_slice(&public.body).unwrap();
    let form = format!("client_id={}", public["client_id"].as_str().unwrap());
    let device = || manager.post("/oauth2/device_authorize", None, &form);
    let answers: Vec<u16> = (0..105).map(|_| device().status).collect();
    assert_eq!(answers[..100], [200; 100]);
    assert!(answers[100..].contains(&429), "{answers:?}");
    // Neither sign-ins from that address, nor a client that authenticates.
    manager.token(app, SIGN_IN);
    assert_eq!(manager.post("/oauth2/device_authorize", Some(app), "").status, 200);
}

#[test]
fn users_sign_in_to_a_client_with_too_many_device_codes() {
    let manager = KeyManager::start();
    let (id, secret) =
        manager.register("app", json!({ "grantType": format!("password {DEVICE}") }));
    let columns = "hash, user_code, family, client, scope, expires_s, decision, subject, decided_s, auth_s, polled_s";
    insert(&manager, &format!("devices ({columns})"), |i| {
        format!("'hash{i}', 'u{i}', 'f', '{id}', 'x', 9000000000, 0, '', 0, 0, 0")
    });
    // They are counted soon after the start.
    let manager = manager.restart();
    let login = (id.as_str(), secret.as_str());
    let device = || manager.post("/oauth2/device_authorize", Some(login), "");
    let refused = (0..10_000).any(|_| device().status != 200);
    assert!(refused, "the device codes were counted");
    assert_eq!(error(&device()), "503 temporarily_unavailable");
    manager.token(login, SIGN_IN);
}

#[test]
fn a_client_with_too_many_revocations_may_not_add_more_and_others_may() {
    let manager = KeyManager::start();
    let [full, other] = ["a", "b"].map(|name| manager.register(name, json!({})));
    let issue = |manager: &KeyManager, (id, secret): &(String, String)| {
        let issued = manager.token((id, secret), "grant_type=client_credentials");
        issued["access_token"].as_str().unwrap().to_owned()
    };
    let token = issue(&manager, &other);
    insert(&manager, "revoked (jti, client, expires_s)", |i| {
        format!("'jti{i}', '{}', 9000000000", full.0)
    });
    let manager = manager.restart();
    let revoke = |(id, secret): &(String, String), token: &str| {
        manager.post("/oauth2/revoke", Some((id, secret)), &format!("token={token}")).status
    };
    let refused = (0..10_000).any(|_| revoke(&full, &issue(&manager, &full)) != 200);
    assert!(refused, "the revocations were counted");
    assert_eq!(revoke(&other, &token), 200);
    assert!(!manager.is_active((&other.0, &other.1), &token));
}
