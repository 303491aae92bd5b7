//! Grants beside those of [`crate::tokens`] and [`crate::codes`]: devices and token exchange; clients that sign.

use harness::{Issuer, ProofKey, Response};
use serde_json::{Value, json};

use crate::dpop::{self, TOKEN, proof};
use crate::key_manager::{ISS, KeyManager, PASSWORD, SIGN_IN, basic, error, success};

const DEVICE: &str = "urn:ietf:params:oauth:grant-type:device_code";
pub(crate) const EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
pub(crate) const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";
const ALLOW: &str = "&username=admin&password=correct+horse+battery&decision=allow";

fn text<'a>(body: &'a Value, name: &str) -> &'a str {
    body[name].as_str().unwrap_or_else(|| panic!("{name} in {body}"))
}

/// Registers a client by RFC 7591; returns the response.
fn register(manager: &KeyManager, metadata: &Value) -> Response {
    let path = "/api/identity/oauth2/dcr/v1.1/register";
    manager.post_json(path, Some(("admin", PASSWORD)), metadata)
}

fn registered(manager: &KeyManager, metadata: &Value) -> Value {
    let response = register(manager, metadata);
    assert_eq!(response.status, 201, "{}", response.text());
    serde_json::from_slice(&response.body).unwrap()
}

/// A television, which has no secret.
fn device(manager: &KeyManager) -> (String, Value) {
    let client = registered(
        manager,
        &json!({
            "client_name": "<tv>", "token_endpoint_auth_method": "none", "scope": "watch",
            "grant_types": [DEVICE, "refresh_token"],
        }),
    );
    let form = format!("client_id={}&scope=openid+watch+other", text(&client, "client_id"));
    let codes = success(&manager.post("/oauth2/device_authorize", None, &form));
    (text(&client, "client_id").to_owned(), codes)
}

fn poll(manager: &KeyManager, id: &str, codes: &Value) -> Response {
    // Otherwise each poll but the first would have to wait.
    manager.sql("UPDATE devices SET polled_s = 0");
    let form =
        format!("grant_type={DEVICE}&client_id={id}&device_code={}", text(codes, "device_code"));
    manager.post("/oauth2/token", None, &form)
}

#[test]
fn a_device_gets_tokens_when_its_user_has_entered_the_code() {
    let manager = KeyManager::start();
    let (id, codes) = device(&manager);
    let user_code = text(&codes, "user_code");
    assert_eq!(text(&codes, "verification_uri"), "https://localhost:9443/oauth2/device");
    assert_eq!(error(&poll(&manager, &id, &codes)), "400 authorization_pending");
    let form =
        format!("grant_type={DEVICE}&client_id={id}&device_code={}", text(&codes, "device_code"));
    let early = manager.post("/oauth2/token", None, &form);
    // Unless the machine has stalled for as long as the interval.
    assert!(["400 slow_down", "400 authorization_pending"].contains(&error(&early).as_str()));

    let enter = manager.get("/oauth2/device");
    assert!(enter.text().contains("name=\"user_code\""));
    let typed = user_code.replace('-', "").to_lowercase();
    let page = manager.get(&format!("/oauth2/device?user_code={typed}"));
    assert_eq!(page.status, 200);
    assert!(page.text().contains("&lt;tv&gt;") && page.text().contains(user_code));
    let decide =
        |more: &str| manager.post("/oauth2/device", None, &format!("user_code={user_code}{more}"));
    assert_eq!(decide("&username=admin&password=guess&decision=allow").status, 403);
    assert_eq!(error(&poll(&manager, &id, &codes)), "400 authorization_pending");
    assert_eq!(decide(ALLOW).status, 200);
    assert_eq!(decide(ALLOW).status, 400, "it no longer waits");

    let thief = registered(
        &manager,
        &json!({
            "client_name": "b", "token_endpoint_auth_method": "none", "grant_types": [DEVICE],
        }),
    );
    assert_eq!(error(&poll(&manager, text(&thief, "client_id"), &codes)), "400 invalid_grant");
    let issued = success(&poll(&manager, &id, &codes));
    assert_eq!(issued["scope"], "openid watch");
    for name in ["access_token", "id_token", "refresh_token"] {
        text(&issued, name);
    }
    assert_eq!(error(&poll(&manager, &id, &codes)), "400 invalid_grant", "once");
}

#[test]
fn a_device_that_is_denied_or_too_slow_gets_nothing() {
    let manager = KeyManager::start();
    let (id, codes) = device(&manager);
    let form = format!("user_code={}&decision=deny", text(&codes, "user_code"));
    assert_eq!(manager.post("/oauth2/device", None, &form).status, 200);
    assert_eq!(error(&poll(&manager, &id, &codes)), "400 access_denied");

    let again = format!("client_id={id}");
    let codes = success(&manager.post("/oauth2/device_authorize", None, &again));
    manager.sql("UPDATE devices SET expires_s = 1");
    assert_eq!(error(&poll(&manager, &id, &codes)), "400 expired_token");
    let form = format!("user_code={}{ALLOW}", text(&codes, "user_code"));
    assert_eq!(manager.post("/oauth2/device", None, &form).status, 400);
}

#[test]
fn a_device_gets_nothing_for_a_user_who_was_removed_meanwhile() {
    let manager = KeyManager::start();
    let (id, codes) = device(&manager);
    let form = format!("user_code={}{ALLOW}", text(&codes, "user_code"));
    assert_eq!(manager.post("/oauth2/device", None, &form).status, 200);
    // As if the decision had been stored after the removal.
    manager.sql("DELETE FROM users");
    assert_eq!(error(&poll(&manager, &id, &codes)), "400 invalid_grant");
}

#[test]
fn guesses_of_user_codes_are_slowed() {
    let manager = KeyManager::start();
    let slowed = (0..60).any(|_| {
        let page = manager.get("/oauth2/device?user_code=BCDF-GHJK");
        assert!([400, 429].contains(&page.status), "{}", page.text());
        page.status == 429
    });
    assert!(slowed);
}

#[test]
fn a_service_exchanges_the_token_of_a_user_for_one_with_fewer_scopes() {
    let manager = KeyManager::start();
    for token_type in ["JWT", "OAUTH"] {
        let client = |name: &str, grants: &str, scopes: &str| {
            let name = format!("{name} {token_type}");
            let more =
                json!({ "grantType": grants, "tokenScope": scopes, "tokenType": token_type });
            manager.register(&name, more)
        };
        let app = client("app", "password client_credentials", "read write");
        let service = client("service", EXCHANGE, "read delete");
        let (app, service) =
            ((app.0.as_str(), app.1.as_str()), (service.0.as_str(), service.1.as_str()));
        let users = manager.token(app, &format!("{SIGN_IN}&scope=read+write"));
        let own = manager.token(app, "grant_type=client_credentials");
        let exchange = |token: &Value, more: &str| {
            let form = format!(
                "grant_type={EXCHANGE}&subject_token={}&subject_token_type={ACCESS_TOKEN}{more}",
                text(token, "access_token")
            );
            manager.post("/oauth2/token", Some(service), &form)
        };
        let issued = success(&exchange(&users, ""));
        assert_eq!(issued["scope"], "read", "what both the token and the client have");
        assert_eq!(issued["issued_token_type"], ACCESS_TOKEN);
        assert_eq!(issued.get("refresh_token"), None);
        assert!(issued["expires_in"].as_u64().unwrap() <= 3_600);
        let form = format!("token={}", text(&issued, "access_token"));
        let found = success(&manager.post("/oauth2/introspect", Some(service), &form));
        assert_eq!((&found["username"], &found["azp"]), (&json!("admin"), &json!(service.0)));
        let users_form = format!("token={}", text(&users, "access_token"));
        let users_found = success(&manager.post("/oauth2/introspect", Some(app), &users_form));
        assert!(found["exp"].as_u64() <= users_found["exp"].as_u64());

        for (token, more, expect) in [
            (&own, "", "400 invalid_request"),
            (&users, "&scope=delete", "400 invalid_scope"),
            (&users, "&actor_token=x", "400 invalid_request"),
            (&users, "&audience=x", "400 invalid_target"),
            (&json!({ "access_token": "x" }), "", "400 invalid_request"),
        ] {
            assert_eq!(error(&exchange(token, more)), expect, "{more}");
        }
        assert_eq!(manager.post("/oauth2/revoke", Some(app), &users_form).status, 200);
        assert_eq!(error(&exchange(&users, "")), "400 invalid_request", "revoked");
    }
}

#[test]
fn a_token_that_is_bound_to_a_key_is_exchanged_for_one_that_is_bound_to_it_too() {
    let manager = KeyManager::start();
    for token_type in ["JWT", "OAUTH"] {
        let client = |name: &str, grants: &str| {
            let more = json!({ "grantType": grants, "tokenType": token_type });
            manager.register(&format!("{name} {token_type}"), more)
        };
        let (app, service) = (client("app", "password"), client("service", EXCHANGE));
        let (app, service) =
            ((app.0.as_str(), app.1.as_str()), (service.0.as_str(), service.1.as_str()));
        let (key, other) = (ProofKey::default(), ProofKey::default());
        let post = |login, fields: &str, form: &str| {
            dpop::post(&manager, &(basic(Some(login)) + fields), form)
        };
        let users = success(&post(app, &proof(&key, TOKEN), SIGN_IN));
        let form = format!(
            "grant_type={EXCHANGE}&subject_token={}&subject_token_type={ACCESS_TOKEN}",
            text(&users, "access_token")
        );
        for fields in [String::new(), proof(&other, TOKEN)] {
            let refused = post(service, &fields, &form);
            assert_eq!(error(&refused), "400 invalid_request", "{token_type} {fields}");
        }
        let issued = success(&post(service, &proof(&key, TOKEN), &form));
        assert_eq!(issued["token_type"], "DPoP");
        let form = format!("token={}", text(&issued, "access_token"));
        let found = success(&manager.post("/oauth2/introspect", Some(service), &form));
        assert_eq!((&found["username"], &found["cnf"]), (&json!("admin"), &key.confirmation()));
    }
}

/// A form whose client authenticates by `assertion`.
fn asserted(assertion: &str) -> String {
    format!(
        "grant_type=client_credentials&client_assertion={assertion}&client_assertion_type=\
         urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
    )
}

#[test]
fn a_client_authenticates_by_its_key_and_each_assertion_once() {
    let manager = KeyManager::start();
    let key = Issuer::new("client");
    let jwks: Value = serde_json::from_str(&key.jwks()).unwrap();
    let metadata = |jwks: Value| {
        json!({
            "client_name": "a", "token_endpoint_auth_method": "private_key_jwt", "jwks": jwks,
        })
    };
    for wrong in [Value::Null, json!({ "keys": [] }), json!("x")] {
        let refused = register(&manager, &metadata(wrong));
        assert_eq!(error(&refused), "400 invalid_client_metadata");
    }
    let client = registered(&manager, &metadata(jwks));
    assert_eq!(client.get("client_secret"), None);
    let id = text(&client, "client_id");
    let assertion = |key: &Issuer, jti: &str, more: &[(&str, Value)]| {
        let mut token = key.token().claim("iss", id).claim("sub", id).claim("aud", ISS);
        token = token.claim("jti", jti).expires_in_s(60);
        for (name, value) in more {
            token = token.claim(name, value.clone());
        }
        token.sign()
    };
    let token = |assertion: &str| error(&manager.post("/oauth2/token", None, &asserted(assertion)));
    let right = assertion(&key, "1", &[]);
    assert_eq!(token(&right), "200 ");
    assert_eq!(token(&right), "401 invalid_client", "a replay");
    assert_eq!(token(&assertion(&key, "2", &[])), "200 ");
    let day_s = harness::now_s() + 86_400;
    for (name, value) in [
        ("aud", json!("https://other.example/oauth2/token")),
        ("sub", json!("admin")),
        ("iss", json!("unknown")),
        ("exp", json!(1)),
        ("exp", json!(day_s)),
        ("nbf", json!(day_s)),
        ("jti", Value::Null),
    ] {
        let wrong = assertion(&key, "3", &[(name, value.clone())]);
        assert_eq!(token(&wrong), "401 invalid_client", "{name} {value}");
    }
    assert_eq!(token(&assertion(&Issuer::new("another"), "4", &[])), "401 invalid_client");
    assert_eq!(token("a.b.c"), "401 invalid_client");
    let by_secret = manager.post("/oauth2/token", Some((id, "x")), "grant_type=client_credentials");
    assert_eq!(error(&by_secret), "401 invalid_client");
    let alone = format!("grant_type=client_credentials&client_id={id}");
    assert_eq!(error(&manager.post("/oauth2/token", None, &alone)), "401 invalid_client");
}
