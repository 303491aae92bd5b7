//! From registration to a request that the gateway forwards.

use harness::{Client, Files, Process, Response, Upstream};
use serde_json::{Value, json};

use crate::key_manager::{CONTROL, ISS, KeyManager, Login, PASSWORD, SIGN_IN, success};

/// A gateway that fetches its keys from `manager`, and asks it about opaque tokens as the client `asking`.
fn gateway(manager: &KeyManager, asking: Login<'_>, upstream: &Upstream) -> (Files, Process) {
    let description = format!(
        "openapi: 3.0.3\ninfo: {{title: A, version: '1'}}\nx-wso2-basePath: /a\n\
         x-wso2-production-endpoints: {{urls: ['{}']}}\n\
         paths:\n  /*:\n    get: {{responses: {{'200': {{description: ok}}}}}}\n",
        upstream.url()
    );
    let origin = format!("https://{}", manager.process.address("https"));
    let (id, secret) = asking;
    let ca = manager.files.path("tls.crt");
    let toml = format!(
        "[[issuer]]\nname = \"resident\"\niss = \"{ISS}\"\njwks = \"{origin}/oauth2/jwks\"\n\
         introspection = {{ url = \"{origin}/oauth2/introspect\", client_id = \"{id}\", \
         client_secret = {{ file = \"secret\" }} }}\n\
         [upstream_tls]\nca = [\"{}\"]\nsystem_roots = false\n",
        ca.display()
    );
    let files = Files::new().api("a.yaml", &description).toml(&toml);
    files.write("secret", secret);
    let process = Process::gateway(&files);
    (files, process)
}

#[test]
fn a_registered_application_gets_a_token_that_the_gateway_accepts() {
    let manager = KeyManager::start();
    let (id, secret) = manager.register("orders", json!({ "tokenScope": "read write" }));
    let issued = manager.token((&id, &secret), "grant_type=client_credentials&scope=read+admin");
    assert_eq!(issued["token_type"], "Bearer");
    assert_eq!(issued["expires_in"], 3_600);
    assert_eq!(issued["scope"], "read", "only what is registered is granted");
    assert_eq!(issued.get("refresh_token"), None);
    let token = issued["access_token"].as_str().unwrap();

    let upstream = Upstream::fixed("from the upstream");
    let (_files, process) = gateway(&manager, (&id, &secret), &upstream);
    let accepted = fetch(&process, token);
    assert_eq!((accepted.status, accepted.text().as_str()), (200, "from the upstream"));
    let (head, signature) = token.rsplit_once('.').unwrap();
    let swapped: String = signature.chars().rev().collect();
    assert_eq!(fetch(&process, &format!("{head}.{swapped}")).status_and_code(), "401 900901");
}

fn fetch(gateway: &Process, token: &str) -> Response {
    let fields = format!("Authorization: Bearer {token}\r\n");
    Client::connect(gateway.address("http")).fetch("GET /a/x", &fields)
}

#[test]
fn an_opaque_token_is_accepted_if_it_is_active_also_while_the_key_manager_is_down() {
    let manager = KeyManager::start();
    let (id, secret) = manager.register("gateway", json!({}));
    let orders = manager.register("orders", json!({ "tokenType": "OAUTH" }));
    let login = (orders.0.as_str(), orders.1.as_str());
    let [known, revoked, new] = ["", "", ""].map(|_| {
        let issued = manager.token(login, "grant_type=client_credentials");
        issued["access_token"].as_str().unwrap().to_owned()
    });
    let form = format!("token={revoked}");
    assert_eq!(manager.post("/oauth2/revoke", Some(login), &form).status, 200);
    let upstream = Upstream::fixed("from the upstream");
    let (_files, process) = gateway(&manager, (&id, &secret), &upstream);
    assert_eq!(fetch(&process, &known).text(), "from the upstream");
    assert_eq!(fetch(&process, &revoked).status_and_code(), "401 900901");
    drop(manager);
    assert_eq!(fetch(&process, &new).status_and_code(), "503 503003");
    assert_eq!(fetch(&process, &known).status, 200);
}

/// Source: RFC 8410 section 10.3.
const ED25519: &str = "-----BEGIN PRIVATE KEY-----\n\
    MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n-----END PRIVATE KEY-----\n";

#[test]
fn the_gateway_accepts_access_tokens_that_an_ed25519_key_signed_and_no_id_tokens() {
    let files = Files::new().toml(&format!("{CONTROL}keys = [\"ed25519.pem\"]\n"));
    files.write("ed25519.pem", ED25519);
    let manager = KeyManager::of(files);
    let keys = success(&manager.get("/oauth2/jwks"));
    assert_eq!(keys["keys"][0]["alg"], "EdDSA");
    // Source: RFC 8410 section 10.1 has the public key.
    assert_eq!(keys["keys"][0]["x"], "Gb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE");
    let login = manager.register("a", json!({ "grantType": "password" }));
    let issued = manager.token((&login.0, &login.1), &format!("{SIGN_IN}&scope=openid"));
    let upstream = Upstream::fixed("from the upstream");
    let (_files, process) = gateway(&manager, (&login.0, &login.1), &upstream);
    let fetch = |name: &str| {
        let token = issued[name].as_str().unwrap();
        let fields = format!("Authorization: Bearer {token}\r\n");
        Client::connect(process.address("http")).fetch("GET /a/x", &fields)
    };
    assert_eq!(fetch("access_token").status, 200);
    assert_eq!(fetch("id_token").status_and_code(), "401 900901");
}

#[test]
fn tokens_have_the_claims_of_wso2() {
    let manager = KeyManager::start();
    let (id, secret) =
        manager.register("orders", json!({ "grantType": "client_credentials password" }));
    let claims = |form: &str| {
        let issued = manager.token((&id, &secret), form);
        let found = manager.post(
            "/oauth2/introspect",
            Some(("admin", PASSWORD)),
            &format!("token={}", issued["access_token"].as_str().unwrap()),
        );
        success(&found)
    };
    let own = claims("grant_type=client_credentials");
    for (claim, expect) in [
        ("sub", json!(id)),
        ("aut", json!("APPLICATION")),
        ("aud", json!(id)),
        ("azp", json!(id)),
        ("client_id", json!(id)),
        ("scope", json!("default")),
        ("iss", json!(ISS)),
        ("active", json!(true)),
        ("username", Value::Null),
    ] {
        assert_eq!(own[claim], expect, "{claim}");
    }
    let seconds = |name: &str| own[name].as_u64().unwrap();
    assert_eq!(seconds("exp") - seconds("iat"), 3_600);
    assert_eq!(seconds("iat") - seconds("nbf"), 60, "a clock may be behind");
    let users = claims(SIGN_IN);
    assert_eq!(users["aut"], "APPLICATION_USER");
    assert_eq!((&users["sub"], &users["username"]), (&json!("admin"), &json!("admin")));
    assert_ne!(users["jti"], own["jti"]);
}

#[test]
fn the_discovery_documents_name_the_endpoints() {
    let manager = KeyManager::start();
    let document = success(&manager.get("/oauth2/token/.well-known/openid-configuration"));
    assert_eq!(document["issuer"], ISS);
    for path in [
        "/.well-known/openid-configuration",
        "/.well-known/oauth-authorization-server",
        "/.well-known/oauth-authorization-server/oauth2/token",
    ] {
        assert_eq!(success(&manager.get(path)), document, "{path}");
    }
    for (member, path) in [
        ("authorization_endpoint", "/oauth2/authorize"),
        ("token_endpoint", "/oauth2/token"),
        ("introspection_endpoint", "/oauth2/introspect"),
        ("revocation_endpoint", "/oauth2/revoke"),
        ("jwks_uri", "/oauth2/jwks"),
        ("device_authorization_endpoint", "/oauth2/device_authorize"),
        ("userinfo_endpoint", "/oauth2/userinfo"),
        ("end_session_endpoint", "/oidc/logout"),
        ("registration_endpoint", "/api/identity/oauth2/dcr/v1.1/register"),
    ] {
        assert_eq!(document[member], format!("https://localhost:9443{path}"));
        let response = manager.connect().fetch(&format!("PUT {path}"), "");
        assert_eq!(response.status, 405, "{path} exists");
    }
    let keys = success(&manager.get("/oauth2/jwks"));
    assert_eq!(keys["keys"].as_array().unwrap().len(), 1);
    for private in ["d", "p", "q"] {
        assert_eq!(keys["keys"][0].get(private), None);
    }
}

#[test]
fn a_client_registered_by_rfc_7591_works_until_it_is_removed() {
    let manager = KeyManager::start();
    let (path, admin) = ("/api/identity/oauth2/dcr/v1.1/register", Some(("admin", PASSWORD)));
    let metadata =
        json!({ "client_name": "a", "grant_types": ["client_credentials"], "scope": "x" });
    let registered = manager.post_json(path, admin, &metadata);
    assert_eq!(registered.status, 201, "{}", registered.text());
    let body: Value = serde_json::from_slice(&registered.body).unwrap();
    let text = |name: &str| body[name].as_str().unwrap();
    let login = (text("client_id"), text("client_secret"));
    let issued = manager.token(login, "grant_type=client_credentials&scope=x");
    assert_eq!(issued["scope"], "x");
    let token = issued["access_token"].as_str().unwrap();
    let by_admin = || manager.is_active(admin.unwrap(), token);
    assert!(by_admin());
    let again = manager.post_json(path, admin, &metadata);
    assert_eq!(crate::key_manager::error(&again), "400 invalid_client_metadata", "of that name");
    let remove = |fields: &str| {
        manager.connect().fetch(&format!("DELETE {path}/{}", login.0), fields).status
    };
    assert_eq!(remove(""), 401);
    assert_eq!(remove(&crate::key_manager::basic(admin)), 204);
    assert_eq!(remove(&crate::key_manager::basic(admin)), 404);
    assert!(!by_admin());
    let refused = manager.post("/oauth2/token", Some(login), "grant_type=client_credentials");
    assert_eq!(crate::key_manager::error(&refused), "401 invalid_client");
}
