//! How clients authenticate, at every endpoint alike, and whom their failures slow.

use harness::Response;
use serde_json::json;

use crate::applications::{ADMIN, PATH, gateway_login};
use crate::key_manager::{KeyManager, Login, PASSWORD, SIGN_IN, basic, error, success};

/// Percent-encodes every byte, as a client may that follows RFC 6749 section 2.3.1.
fn form_encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

fn get(manager: &KeyManager, path: &str, login: Login<'_>) -> Response {
    manager.connect().fetch(&format!("GET {path}"), &basic(Some(login)))
}

#[test]
fn every_endpoint_for_clients_accepts_form_encoded_ids_and_secrets() {
    let manager = KeyManager::start();
    let (id, secret) = gateway_login(&manager);
    let (id, secret) = (form_encoded(&id), form_encoded(&secret));
    let login = (id.as_str(), secret.as_str());
    let issued = manager.token(login, "grant_type=client_credentials");
    let token = issued["access_token"].as_str().unwrap();
    assert!(manager.is_active(login, token));
    success(&get(&manager, PATH, login));
    success(&get(&manager, "/oauth2/revocations", login));
    let revoked = manager.post("/oauth2/revoke", Some(login), &format!("token={token}"));
    assert_eq!(revoked.status, 200);
    assert!(!manager.is_active(login, token));
}

#[test]
fn a_user_sends_name_and_password_as_they_are() {
    let manager = KeyManager::start();
    let password = "100%+correct horse";
    manager.files.write("plus", password);
    let add = ["user", "add", "a+b%41", "--password-file", "plus"];
    let (code, output) = manager.command(&add);
    assert_eq!(code, Some(0), "{output}");
    let (id, secret) = manager.register("a", json!({}));
    let issued = manager.token((&id, &secret), "grant_type=client_credentials");
    assert!(manager.is_active(("a+b%41", password), issued["access_token"].as_str().unwrap()));
    let other = manager.post("/oauth2/introspect", Some(("a b%41", password)), "token=x");
    assert_eq!(error(&other), "401 access_denied");
}

/// Sends requests of clients that fail, more than an address has failures of users, and returns the statuses.
fn fail(manager: &KeyManager, login: impl Fn(u32) -> (String, String)) -> Vec<u16> {
    let attempt = |number| {
        let (id, secret) = login(number);
        let login = (id.as_str(), secret.as_str());
        if number % 2 == 0 {
            manager.post("/oauth2/introspect", Some(login), "token=x").status
        } else {
            get(manager, PATH, login).status
        }
    };
    (0..70).map(attempt).collect()
}

#[test]
fn failures_of_clients_do_not_slow_the_users_of_their_address() {
    let manager = KeyManager::start();
    let app = manager.register("app", json!({ "grantType": "password" }));
    let app = (app.0.as_str(), app.1.as_str());
    let clients: Vec<_> =
        (0..10).map(|number| manager.register(&format!("c{number}"), json!({})).0).collect();
    // Wrong secrets of clients whose ids are encoded, as some libraries send them.
    let statuses = fail(&manager, |number| {
        let id = clients.get(number as usize % clients.len()).unwrap();
        (form_encoded(id), "wrong".to_owned())
    });
    assert!(statuses.iter().all(|status| *status == 401), "{statuses:?}");
    manager.token(app, SIGN_IN);
    // Clients that were removed.
    let statuses = fail(&manager, |number| (format!("removed-{number}"), "secret".to_owned()));
    assert!(statuses.iter().all(|status| [401, 429].contains(status)), "{statuses:?}");
    assert!(statuses.contains(&429), "the names could be guesses of users: {statuses:?}");
    manager.token(app, SIGN_IN);
    assert_eq!(get(&manager, PATH, ("admin", PASSWORD)).status, 200, "known at this address");
    // A client with the name of a user.
    for _ in 0..20 {
        let guess = Some(("admin", "guess"));
        let response = manager.post("/oauth2/token", guess, "grant_type=client_credentials");
        assert!([401, 429].contains(&response.status));
    }
    manager.token(app, SIGN_IN);
    success(&manager.post_json(
        "/client-registration/v0.17/register",
        ADMIN,
        &json!({ "clientName": "last" }),
    ));
}

#[test]
fn a_client_at_an_endpoint_for_users_fails_as_a_client() {
    let manager = KeyManager::start();
    let app = manager.register("app", json!({ "grantType": "password" }));
    let app = (app.0.as_str(), app.1.as_str());
    let path = "/api/identity/oauth2/dcr/v1.1/register";
    assert_eq!(error(&get(&manager, path, app)), "401 access_denied");
    for _ in 0..60 {
        let found = error(&get(&manager, path, (app.0, "wrong")));
        assert!(["401 access_denied", "429 slow_down"].contains(&found.as_str()), "{found}");
    }
    manager.token(app, SIGN_IN);
}

#[test]
fn an_opaque_token_that_is_stored_after_its_client_was_removed_is_not_active() {
    let manager = KeyManager::start();
    let (id, secret) = manager.register("a", json!({ "tokenType": "OAUTH" }));
    let (other, other_secret) = manager.register("b", json!({}));
    let other = (other.as_str(), other_secret.as_str());
    let issued = manager.token((&id, &secret), "grant_type=client_credentials");
    let token = issued["access_token"].as_str().unwrap();
    assert!(manager.is_active(other, token));
    // As a request does that began before the removal.
    manager.sql(&format!("UPDATE tokens SET client = 'elsewhere' WHERE client = '{id}'"));
    assert_eq!(manager.unregister(&id).status, 204);
    manager.sql(&format!("UPDATE tokens SET client = '{id}' WHERE client = 'elsewhere'"));
    assert!(!manager.is_active(other, token));
    let userinfo = format!("Authorization: Bearer {token}\r\n");
    let userinfo = manager.connect().fetch("GET /oauth2/userinfo", &userinfo);
    assert_eq!(error(&userinfo), "401 invalid_token");
}

#[test]
fn guesses_of_passwords_at_an_endpoint_for_clients_slow_their_address() {
    let manager = KeyManager::start();
    let guess = || manager.post("/oauth2/introspect", Some(("admin", "guess")), "token=x").status;
    let statuses: Vec<u16> = (0..20).map(|_| guess()).collect();
    assert_eq!(statuses[..10], [401; 10]);
    assert!(statuses.contains(&429), "{statuses:?}");
}

#[test]
fn a_request_has_one_method_to_authenticate() {
    let manager = KeyManager::start();
    let (id, secret) = manager.register("a", json!({}));
    let own = format!("client_id={id}&client_secret={secret}");
    for (path, form) in [
        ("/oauth2/token", "grant_type=client_credentials&"),
        ("/oauth2/introspect", "token=x&"),
        ("/oauth2/revoke", "token=x&"),
        ("/oauth2/device_authorize", ""),
    ] {
        for more in [own.as_str(), "client_assertion=x", "client_id=other"] {
            let response = manager.post(path, Some((&id, &secret)), &format!("{form}{more}"));
            assert_eq!(error(&response), "400 invalid_request", "{path} {more}");
        }
        let both = format!("{form}{own}&client_assertion=x");
        assert_eq!(error(&manager.post(path, None, &both)), "400 invalid_request", "{path}");
    }
}
