//! Clients that authenticate by certificates, and tokens bound to them.

use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use harness::{Client, Files, Identity, ProofKey, Response, Upstream};
use serde_json::{Value, json};

use crate::dpop::{TOKEN, proof};
use crate::grants::{ACCESS_TOKEN, EXCHANGE};
use crate::key_manager::{ISS, KeyManager, PASSWORD, SIGN_IN, basic, control, error, success};

const DCR: &str = "/api/identity/oauth2/dcr/v1.1/register";

/// A key manager for clients with certificates that `authority` issued, and with registered ones.
fn manager(authority: &Identity) -> KeyManager {
    let files = Files::new().toml(&(control() + "client_ca = [\"ca.crt\"]\n"));
    files.write("ca.crt", &authority.cert_pem);
    KeyManager::of(files)
}

fn register(manager: &KeyManager, method: &str, more: &Value) -> Response {
    let mut metadata = json!({
        "client_name": format!("{method} {more}").chars().take(100).collect::<String>(),
        "token_endpoint_auth_method": method,
        "grant_types": ["client_credentials", "password"],
    });
    metadata.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    manager.post_json(DCR, Some(("admin", PASSWORD)), &metadata)
}

fn registered(manager: &KeyManager, method: &str, more: &Value) -> String {
    let response = register(manager, method, more);
    assert_eq!(response.status, 201, "{}", response.text());
    let body: Value = serde_json::from_slice(&response.body).unwrap();
    assert_eq!(body.get("client_secret"), None);
    body["client_id"].as_str().unwrap().to_owned()
}

/// A connection of a client with the certificate `own`.
fn connect(manager: &KeyManager, own: Option<&Identity>) -> Client {
    let server = manager.files.identity();
    let config = own
        .map_or_else(|| server.client(&["http/1.1"]), |own| server.client_as(&["http/1.1"], own));
    Client::connect_tls(manager.process.address("https"), config, "localhost")
}

fn post(manager: &KeyManager, own: Option<&Identity>, path: &str, form: &str) -> Response {
    let fields = "Content-Type: application/x-www-form-urlencoded\r\n";
    connect(manager, own).fetch_with_body(&format!("POST {path}"), fields, form)
}

fn token(manager: &KeyManager, own: Option<&Identity>, id: &str) -> Response {
    let form = format!("grant_type=client_credentials&client_id={id}");
    post(manager, own, "/oauth2/token", &form)
}

/// The certificate as a key of a JWK set.
fn jwks(own: &Identity) -> Value {
    json!({ "keys": [{ "kty": "EC", "x5c": [BASE64_STANDARD.encode(own.certificate())] }] })
}

#[test]
fn a_client_authenticates_by_a_certificate_that_a_known_ca_issued() {
    let own = Identity::of(&["client.example"]);
    let manager = manager(&own);
    let id = registered(
        &manager,
        "tls_client_auth",
        &json!({ "tls_client_auth_san_dns": "Client.example" }),
    );
    let other_name = json!({ "tls_client_auth_san_dns": "other.example" });
    let other_name = registered(&manager, "tls_client_auth", &other_name);
    let by_address =
        registered(&manager, "tls_client_auth", &json!({ "tls_client_auth_san_ip": "127.0.0.9" }));
    let stranger = Identity::of(&["client.example"]);
    let issued = success(&token(&manager, Some(&own), &id));
    for (own, id, why) in [
        (None, &id, "no certificate"),
        (Some(&stranger), &id, "of another CA"),
        (Some(&own), &other_name, "another name"),
        (Some(&own), &by_address, "an address"),
    ] {
        assert_eq!(error(&token(&manager, own, id)), "401 invalid_client", "{why}");
    }
    let form = format!("client_id={id}&token={}", issued["access_token"].as_str().unwrap());
    let found = success(&post(&manager, Some(&own), "/oauth2/introspect", &form));
    assert_eq!((&found["active"], found.get("cnf")), (&json!(true), None), "it is not bound");
    let document = success(&manager.get("/.well-known/openid-configuration"));
    let methods = document["token_endpoint_auth_methods_supported"].as_array().unwrap();
    assert!(methods.contains(&json!("tls_client_auth")), "{document}");
}

#[test]
fn the_certificate_of_a_trusted_proxy_is_not_that_of_its_clients() {
    let proxy = Identity::of(&["client.example"]);
    let more = "client_ca = [\"ca.crt\"]\ntrusted_proxies = [\"127.0.0.0/8\"]\n";
    let files = Files::new().toml(&(control() + more));
    files.write("ca.crt", &proxy.cert_pem);
    let manager = KeyManager::of(files);
    let named = json!({ "tls_client_auth_san_dns": "client.example" });
    let id = registered(&manager, "tls_client_auth", &named);
    let form = format!("grant_type=client_credentials&client_id={id}");
    let token = |more: &str| {
        let fields = format!("Content-Type: application/x-www-form-urlencoded\r\n{more}");
        connect(&manager, Some(&proxy)).fetch_with_body("POST /oauth2/token", &fields, &form)
    };
    success(&token(""));
    for address in ["192.0.2.1", "127.0.0.1", "unknown"] {
        let response = token(&format!("X-Forwarded-For: {address}\r\n"));
        assert_eq!(error(&response), "401 invalid_client", "{address}");
    }
}

#[test]
fn a_client_authenticates_by_the_subject_of_its_certificate() {
    let own = Identity::of(&["client.example"]);
    let manager = manager(&own);
    let of = |subject: &str| {
        let member = json!({ "tls_client_auth_subject_dn": subject });
        let response = register(&manager, "tls_client_auth", &member);
        assert_eq!(response.status, 201, "{}", response.text());
        let body: Value = serde_json::from_slice(&response.body).unwrap();
        assert_eq!(body["tls_client_auth_subject_dn"], subject);
        assert_eq!(body.get("tls_client_auth_san_dns"), None);
        body["client_id"].as_str().unwrap().to_owned()
    };
    let stranger = Identity::of(&["client.example"]);
    for (subject, expect) in [
        (r"CN=client.example,O=Penstock\, generated", true),
        (r"cn=Client.Example, o=Penstock\2c  generated", true),
        (r"O=Penstock\, generated,CN=client.example", false),
        (r"CN=other.example,O=Penstock\, generated", false),
        ("CN=client.example", false),
    ] {
        let id = of(subject);
        assert_eq!(token(&manager, Some(&own), &id).status == 200, expect, "{subject}");
        let refused = token(&manager, Some(&stranger), &id);
        assert_eq!(error(&refused), "401 invalid_client", "of another CA");
    }
}

#[test]
fn a_token_that_is_bound_to_a_registered_certificate_is_of_use_only_with_it() {
    let [ca, own, other] = [(); 3].map(|()| Identity::of(&["client.example"]));
    let manager = manager(&ca);
    let bound = json!({ "jwks": jwks(&own), "tls_client_certificate_bound_access_tokens": true });
    let id = registered(&manager, "self_signed_tls_client_auth", &bound);
    assert_eq!(error(&token(&manager, Some(&other), &id)), "401 invalid_client");
    let issued = success(&token(&manager, Some(&own), &id));
    let issued = issued["access_token"].as_str().unwrap();
    let form = format!("client_id={id}&token={issued}");
    let found = success(&post(&manager, Some(&own), "/oauth2/introspect", &form));
    let thumbprint = BASE64_URL_SAFE_NO_PAD.encode(jose::sha256(&own.certificate()));
    assert_eq!(found["cnf"], json!({ "x5t#S256": thumbprint }));

    let form = format!("{SIGN_IN}&scope=openid&client_id={id}");
    let of_user = success(&post(&manager, Some(&own), "/oauth2/token", &form));
    let field = format!("Authorization: Bearer {}\r\n", of_user["access_token"].as_str().unwrap());
    for (own, status) in [(Some(&own), 200), (Some(&other), 401), (None, 401)] {
        let found = connect(&manager, own).fetch("GET /oauth2/userinfo", &field);
        assert_eq!(found.status, status);
    }

    // The gateway, too, with the client's certificate as a CA.
    let upstream = Upstream::fixed("from the upstream");
    let description = format!(
        "openapi: 3.0.3\ninfo: {{title: A, version: '1'}}\nx-wso2-basePath: /a\n\
         x-wso2-production-endpoints: {{urls: ['{}']}}\n\
         paths:\n  /*:\n    get: {{responses: {{'200': {{description: ok}}}}}}\n",
        upstream.url()
    );
    let files = Files::new()
        .api("a.yaml", &description)
        .toml(&format!("[[issuer]]\nname = \"resident\"\niss = \"{ISS}\"\njwks = \"keys.json\"\n"));
    files.write("keys.json", &manager.get("/oauth2/jwks").text());
    files.write("ca.crt", &own.cert_pem);
    let file = files.configure();
    let text = std::fs::read_to_string(&file).unwrap();
    files.write("penstock.toml", &text.replace("[tls]\n", "[tls]\nclient_ca = [\"ca.crt\"]\n"));
    let gateway =
        harness::Process::start(files.folder(), &["gateway", "--config", "penstock.toml"]);
    gateway.wait_for(" serving ");
    let field = format!("Authorization: Bearer {issued}\r\n");
    let server = files.identity();
    for (config, expect) in [
        (server.client_as(&["http/1.1"], &own), "200"),
        (server.client(&["http/1.1"]), "401 900901"),
    ] {
        let mut client = Client::connect_tls(gateway.address("https"), config, "localhost");
        assert_eq!(client.fetch("GET /a/x", &field).status_and_code(), expect);
    }
}

#[test]
fn a_token_that_is_bound_to_a_certificate_is_exchanged_for_one_that_is_bound_to_it_too() {
    let [ca, own, other] = [(); 3].map(|()| Identity::of(&["client.example"]));
    let manager = manager(&ca);
    let bound = json!({ "jwks": jwks(&own), "tls_client_certificate_bound_access_tokens": true });
    let id = registered(&manager, "self_signed_tls_client_auth", &bound);
    let of_user = post(&manager, Some(&own), "/oauth2/token", &format!("{SIGN_IN}&client_id={id}"));
    let of_user = success(&of_user);
    let of_user = of_user["access_token"].as_str().unwrap();
    let form =
        format!("grant_type={EXCHANGE}&subject_token={of_user}&subject_token_type={ACCESS_TOKEN}");
    // Services that authenticate by a secret, whose tokens are not bound otherwise.
    let [jwt, opaque] = ["JWT", "OAUTH"].map(|token_type| {
        let more = json!({ "grantType": EXCHANGE, "tokenType": token_type });
        manager.register(token_type, more)
    });
    let exchange = |own, (id, secret): &(String, String), more: &str| {
        let fields = "Content-Type: application/x-www-form-urlencoded\r\n".to_owned();
        let fields = fields + &basic(Some((id, secret))) + more;
        connect(&manager, own).fetch_with_body("POST /oauth2/token", &fields, &form)
    };
    let [with_key, with_both] = [(); 2].map(|()| proof(&ProofKey::default(), TOKEN));
    for (own, service, more, why) in [
        (None, &jwt, "", "no certificate"),
        (Some(&other), &jwt, "", "another one"),
        (None, &jwt, with_key.as_str(), "a key instead"),
        (Some(&own), &jwt, with_both.as_str(), "a key, too"),
        (Some(&own), &opaque, "", "an opaque token has no place for it"),
    ] {
        assert_eq!(error(&exchange(own, service, more)), "400 invalid_request", "{why}");
    }
    let issued = success(&exchange(Some(&own), &jwt, ""));
    let form = format!("token={}", issued["access_token"].as_str().unwrap());
    let login = (jwt.0.as_str(), jwt.1.as_str());
    let found = success(&manager.post("/oauth2/introspect", Some(login), &form));
    let thumbprint = BASE64_URL_SAFE_NO_PAD.encode(jose::sha256(&own.certificate()));
    assert_eq!(found["cnf"], json!({ "x5t#S256": thumbprint }));
}

#[test]
fn a_client_with_a_certificate_that_cannot_work_is_not_registered() {
    let manager = manager(&Identity::of(&["client.example"]));
    for (method, more) in [
        ("tls_client_auth", json!({})),
        ("tls_client_auth", json!({ "tls_client_auth_subject_dn": "client" })),
        (
            "tls_client_auth",
            json!({ "tls_client_auth_subject_dn": format!("CN={}", "a".repeat(400)) }),
        ),
        ("tls_client_auth", json!({ "tls_client_auth_san_uri": "https://client.example" })),
        (
            "tls_client_auth",
            json!({ "tls_client_auth_san_dns": "a", "tls_client_auth_subject_dn": "CN=a" }),
        ),
        ("tls_client_auth", json!({ "tls_client_auth_san_dns": "a b" })),
        ("tls_client_auth", json!({ "tls_client_auth_san_ip": "1.2.3" })),
        (
            "tls_client_auth",
            json!({ "tls_client_auth_san_dns": "a", "tls_client_auth_san_ip": "127.0.0.1" }),
        ),
        ("self_signed_tls_client_auth", json!({})),
        ("self_signed_tls_client_auth", json!({ "jwks": { "keys": [] } })),
        ("self_signed_tls_client_auth", json!({ "jwks": { "keys": [{ "kty": "EC" }] } })),
        (
            "self_signed_tls_client_auth",
            json!({ "jwks": { "keys": [{ "kty": "EC", "x5c": ["YWJj"] }] } }),
        ),
        (
            "client_secret_basic",
            json!({
                "tls_client_certificate_bound_access_tokens": true, "token_type_extension": "Default",
            }),
        ),
    ] {
        let response = register(&manager, method, &more);
        assert_eq!(error(&response), "400 invalid_client_metadata", "{method} {more}");
    }
    let name = json!({ "tls_client_auth_san_dns": "client.example" });
    for without in [KeyManager::start(), KeyManager::with("client_ca = []\n")] {
        let response = register(&without, "tls_client_auth", &name);
        assert_eq!(error(&response), "400 invalid_client_metadata");
    }
}
