//! Tokens that are bound to a key of the client, which proves with each request that it has it (DPoP).

use harness::{Process, ProofKey, Response, Upstream};
use serde_json::{Value, json};

use crate::key_manager::{KeyManager, Login, PASSWORD, basic, error, success};
use crate::revocations::gateway;

pub(crate) const TOKEN: &str = "POST https://localhost:9443/oauth2/token";
const DEVICE: &str = "urn:ietf:params:oauth:grant-type:device_code";
const CLIENT_CREDENTIALS: &str = "grant_type=client_credentials";

/// The header field with a proof for `request`, without a token.
pub(crate) fn proof(key: &ProofKey, request: &str) -> String {
    format!("DPoP: {}\r\n", key.proof(request, "").claim("ath", Value::Null).sign())
}

pub(crate) fn post(manager: &KeyManager, fields: &str, form: &str) -> Response {
    let fields = format!("{fields}Content-Type: application/x-www-form-urlencoded\r\n");
    manager.connect().fetch_with_body("POST /oauth2/token", &fields, form)
}

fn issued(manager: &KeyManager, login: Login<'_>, key: &ProofKey, form: &str) -> Value {
    success(&post(manager, &(basic(Some(login)) + &proof(key, TOKEN)), form))
}

fn text<'a>(of: &'a Value, name: &str) -> &'a str {
    of[name].as_str().unwrap()
}

#[test]
fn a_token_is_bound_to_the_key_of_the_request_for_it() {
    let manager = KeyManager::start();
    let own = manager.register("gateway", json!({}));
    let own = (own.0.as_str(), own.1.as_str());
    let upstream = Upstream::fixed("served");
    let (_files, process) = gateway(&manager, own, &upstream);
    for token_type in ["JWT", "OAUTH"] {
        let login = manager.register(token_type, json!({ "tokenType": token_type }));
        let login = (login.0.as_str(), login.1.as_str());
        let key = ProofKey::default();
        let found = issued(&manager, login, &key, CLIENT_CREDENTIALS);
        assert_eq!(found["token_type"], "DPoP", "{token_type}");
        let token = text(&found, "access_token");
        let asked = manager.post("/oauth2/introspect", Some(login), &format!("token={token}"));
        let asked = success(&asked);
        assert_eq!((&asked["cnf"], &asked["token_type"]), (&key.confirmation(), &json!("DPoP")));
        let url = "GET http://gateway/a/x";
        assert_eq!(fetch(&process, &key.fields(url, token)), 200, "{token_type}");
        assert_eq!(fetch(&process, &format!("Authorization: Bearer {token}\r\n")), 401);
        assert_eq!(fetch(&process, &ProofKey::default().fields(url, token)), 401);
    }
}

fn fetch(gateway: &Process, fields: &str) -> u16 {
    harness::Client::connect(gateway.address("http")).fetch("GET /a/x", fields).status
}

#[test]
fn a_proof_is_for_one_request_to_this_endpoint() {
    let manager = KeyManager::start();
    let login = manager.register("orders", json!({}));
    let login = (login.0.as_str(), login.1.as_str());
    let key = ProofKey::default();
    let good = || key.proof(TOKEN, "").claim("ath", Value::Null);
    let check = |fields: String, expect: &str| {
        let response = post(&manager, &(basic(Some(login)) + &fields), CLIENT_CREDENTIALS);
        let found = if response.status == 200 { "200".to_owned() } else { error(&response) };
        assert_eq!(found, expect, "{fields}");
    };
    let field = |proof: &harness::Proof<'_>| format!("DPoP: {}\r\n", proof.sign());
    const WRONG: &str = "400 invalid_dpop_proof";
    for (name, value) in [
        ("htm", json!("GET")),
        ("htu", json!("https://localhost:9443/oauth2/revoke")),
        ("htu", json!("https://other:9443/oauth2/token")),
        ("htu", json!("http://localhost:9443/oauth2/token")),
        ("htu", json!("/oauth2/token")),
        ("iat", json!(harness::now_s() - 120)),
        ("iat", json!(harness::now_s() + 60)),
        ("ath", json!("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8")),
    ] {
        check(field(&good().claim(name, value)), WRONG);
    }
    check(field(&good()) + &field(&good()), WRONG);
    check("DPoP: x\r\n".to_owned(), WRONG);
    let once = field(&good().claim("htu", "HTTPS://LOCALHOST:9443/oauth2/token?a#b"));
    check(once.clone(), "200");
    check(once, WRONG);
    check(String::new(), "200");
}

#[test]
fn the_refresh_token_of_a_public_client_and_userinfo_need_the_key() {
    let manager = KeyManager::start();
    let metadata = json!({
        "client_name": "app", "token_endpoint_auth_method": "none",
        "grant_types": ["urn:ietf:params:oauth:grant-type:device_code", "refresh_token"],
    });
    let path = "/api/identity/oauth2/dcr/v1.1/register";
    let registered = manager.post_json(path, Some(("admin", PASSWORD)), &metadata);
    let registered: Value = serde_json::from_slice(&registered.body).unwrap();
    let id = text(&registered, "client_id");
    let form = format!("client_id={id}&scope=openid");
    let device = success(&manager.post("/oauth2/device_authorize", None, &form));
    let code = text(&device, "user_code");
    let password = PASSWORD.replace(' ', "+");
    let form = format!("user_code={code}&username=admin&password={password}&decision=allow");
    assert_eq!(manager.post("/oauth2/device", None, &form).status, 200);
    let (key, thief) = (ProofKey::default(), ProofKey::default());
    // Proofs for codes that do not exist take no rows of a public client.
    let invented = format!("client_id={id}&grant_type={DEVICE}&device_code=invented");
    assert_eq!(error(&post(&manager, &proof(&thief, TOKEN), &invented)), "400 invalid_grant");
    assert_eq!(manager.sql("SELECT COUNT(*) FROM revoked").trim(), "0");
    let form = format!(
        "client_id={id}&grant_type=urn:ietf:params:oauth:grant-type:device_code&device_code={}",
        text(&device, "device_code")
    );
    let found = success(&post(&manager, &proof(&key, TOKEN), &form));
    let refresh = |fields: &str, token: &str| {
        let form = format!("client_id={id}&grant_type=refresh_token&refresh_token={token}");
        post(&manager, fields, &form)
    };
    let token = text(&found, "refresh_token");
    let (stripped, _) = token.split_once('~').unwrap();
    for (fields, token) in [
        (String::new(), token),
        (proof(&thief, TOKEN), token),
        (String::new(), stripped),
        (proof(&key, TOKEN), stripped),
    ] {
        assert_eq!(error(&refresh(&fields, token)), "400 invalid_grant");
    }
    let renewed = success(&refresh(&proof(&key, TOKEN), token));
    let access = text(&renewed, "access_token");
    let url = "GET https://localhost:9443/oauth2/userinfo";
    let userinfo = |fields: &str| manager.connect().fetch("GET /oauth2/userinfo", fields);
    assert_eq!(success(&userinfo(&key.fields(url, access)))["sub"], "admin");
    assert_eq!(userinfo(&format!("Authorization: Bearer {access}\r\n")).status, 401);
    assert_eq!(userinfo(&format!("Authorization: DPoP {access}\r\n")).status, 401);
    assert_eq!(userinfo(&thief.fields(url, access)).status, 401);
}

#[test]
fn a_code_for_a_key_is_exchanged_with_a_proof_of_it_only() {
    let manager = KeyManager::start();
    let callback = "https://app.example/callback";
    let more = json!({ "grantType": "authorization_code", "callbackUrl": callback });
    let login = manager.register("web", more);
    let login = (login.0.as_str(), login.1.as_str());
    let (key, thief) = (ProofKey::default(), ProofKey::default());
    // Source: RFC 7636 appendix B.
    let challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
    let ask = |key: &str| {
        let form = format!(
            "response_type=code&client_id={}&redirect_uri={callback}&dpop_jkt={key}\
             &code_challenge={challenge}&code_challenge_method=S256&username=admin\
             &password={}&decision=allow",
            login.0,
            PASSWORD.replace(' ', "+")
        );
        let response = manager.post("/oauth2/authorize", None, &form);
        response.header("location").unwrap().to_owned()
    };
    assert!(ask("short").contains("?error=invalid%5Frequest&"));
    let confirmation = key.confirmation();
    let location = ask(text(&confirmation, "jkt"));
    let (_, code) = location.split_once("?code=").unwrap();
    let (code, _) = code.split_once('&').unwrap();
    let (stripped, _) = code.split_once("%7E").unwrap();
    let exchange = |fields: &str, code: &str| {
        let form = format!(
            "grant_type=authorization_code&code={code}&redirect_uri={callback}\
             &code_verifier=dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
        );
        post(&manager, &(basic(Some(login)) + fields), &form)
    };
    for (fields, code) in [
        (String::new(), code),
        (proof(&thief, TOKEN), code),
        (String::new(), stripped),
        (proof(&thief, TOKEN), stripped),
    ] {
        assert_eq!(error(&exchange(&fields, code)), "400 invalid_grant");
    }
    let found = success(&exchange(&proof(&key, TOKEN), code));
    assert_eq!(found["token_type"], "DPoP");
}
