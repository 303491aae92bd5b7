//! Requests that are wrong or hostile.

use serde_json::json;

use crate::key_manager::{KeyManager, PASSWORD, basic, error};

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
fn guessing_is_slowed_for_the_account_and_no_other() {
    let manager = KeyManager::start();
    let (id, secret) = manager.register("a", json!({}));
    let other = manager.register("b", json!({}));
    let token = |id: &str, secret: &str| {
        manager.post("/oauth2/token", Some((id, secret)), "grant_type=client_credentials")
    };
    let mut guesses = 0;
    let slowed = loop {
        let response = token(&id, "guess");
        if response.status == 429 {
            break response;
        }
        assert_eq!(error(&response), "401 invalid_client");
        guesses += 1;
        assert!(guesses < 40, "never slowed");
    };
    assert!(guesses >= 10);
    assert_eq!(error(&slowed), "429 slow_down");
    assert!(slowed.header("Retry-After").unwrap().parse::<u64>().unwrap() > 0);
    assert_eq!(token(&other.0, &other.1).status, 200);
    // After the pause, the right secret is accepted.
    while token(&id, &secret).status == 429 {}
    assert_eq!(token(&id, &secret).status, 200);
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
    let form = "grant_type=password&username=admin&password=correct+horse+battery";
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
    let mut written = vec![("the log".to_owned(), manager.process.text().into_bytes())];
    for entry in std::fs::read_dir(manager.files.folder()).unwrap() {
        let file = entry.unwrap();
        let name = file.file_name().into_string().unwrap();
        if name.starts_with("penstock.db") {
            written.push((name, std::fs::read(file.path()).unwrap()));
        }
    }
    assert!(written.len() >= 2, "the database and the log");
    for (place, bytes) in &written {
        for secret in &secrets {
            let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "a secret in {place}");
        }
    }
    let has_id = written
        .iter()
        .any(|(_, bytes)| bytes.windows(id.len()).any(|window| window == id.as_bytes()));
    assert!(has_id, "the search finds what is there");
}

#[test]
fn the_database_is_readable_by_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let manager = KeyManager::start();
    for name in ["penstock.db", "penstock.db-wal", "data/oauth.key"] {
        let mode = std::fs::metadata(manager.files.path(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[test]
fn a_client_with_too_many_tokens_gets_no_more_and_others_do() {
    let manager = KeyManager::start();
    let opaque = json!({ "tokenType": "OAUTH" });
    let [full, other] = ["a", "b"].map(|name| manager.register(name, opaque.clone()));
    let rows = format!(
        "PRAGMA busy_timeout = 60000; WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n \
         WHERE i <= 100000) INSERT INTO tokens SELECT 'hash' || i, 'access', 'f', '{}', 's', 'x', \
         0, 9000000000, 0 FROM n",
        full.0
    );
    let status = std::process::Command::new("sqlite3")
        .arg(manager.files.path("penstock.db"))
        .arg(rows)
        .stdout(std::process::Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    // Tokens are counted soon after the start.
    let manager = manager.restart();
    let token = |(id, secret): &(String, String)| {
        manager.post("/oauth2/token", Some((id, secret)), "grant_type=client_credentials")
    };
    while token(&full).status == 200 {}
    assert_eq!(error(&token(&full)), "503 temporarily_unavailable");
    assert_eq!(token(&other).status, 200);
}
