//! Secrets in HashiCorp Vault, for credentials that upstreams get.
//!
//! [`Contract`] responds as in Vault's API documentation.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use harness::{CannedResponse, Files, Gateway, Request, Upstream, wait_until};
use serde_json::{Value, json};

/// The state of a Vault with an AppRole, an account of Kubernetes, and both versions of the KV engine.
#[derive(Default)]
struct Contract {
    /// Valid tokens, and for how long each is valid when it is issued, in seconds.
    tokens: HashMap<String, u64>,
    issued: u32,
    valid_s: u64,
    /// By path of the API.
    secrets: HashMap<String, Value>,
    sealed: bool,
}

type Shared = Arc<Mutex<Contract>>;

fn contract(secrets: &[(&str, &str)]) -> (Upstream, Shared) {
    let secrets = secrets.iter().map(|(path, text)| ((*path).to_owned(), json!({ "p": text })));
    let state = Contract { valid_s: 3_600, secrets: secrets.collect(), ..Contract::default() };
    let state = Arc::new(Mutex::new(state));
    let shared = Arc::clone(&state);
    let server = Upstream::responding(move |request| {
        let (status, body) = state.lock().unwrap().respond(request);
        let body = body.to_string();
        let head = format!("Content-Type: application/json\r\nContent-Length: {}", body.len());
        CannedResponse::bytes(format!("HTTP/1.1 {status} X\r\n{head}\r\n\r\n{body}"))
    });
    (server, shared)
}

fn errors(status: u16, text: &str) -> (u16, Value) {
    (status, json!({ "errors": [text] }))
}

impl Contract {
    fn respond(&mut self, request: &Request) -> (u16, Value) {
        if self.sealed {
            return errors(503, "Vault is sealed");
        }
        if request.header("X-Vault-Request") != Some("true") {
            return errors(412, "required header `X-Vault-Request` is missing");
        }
        let method = request.line().split(' ').next().unwrap();
        let body = || serde_json::from_str::<Value>(&request.text()).unwrap();
        match (method, request.target().strip_prefix("/v1/").unwrap()) {
            ("POST", "auth/approle/login") => {
                match body() == json!({"role_id": "role", "secret_id": "se:cret"}) {
                    true => self.issue(),
                    false => errors(400, "invalid role or secret ID"),
                }
            }
            ("POST", "auth/k8s/prod/login") => {
                match body() == json!({"role": "gateway", "jwt": "a.b.c"}) {
                    true => self.issue(),
                    false => errors(403, "permission denied"),
                }
            }
            (method, path) => {
                let token = request.header("X-Vault-Token").unwrap_or_default().to_owned();
                let Some(valid_s) = self.tokens.get(&token).copied() else {
                    return errors(403, "permission denied");
                };
                match (method, path) {
                    ("POST", "auth/token/renew-self") => (200, auth(&token, valid_s)),
                    ("GET", "auth/token/lookup-self") => (
                        200,
                        json!({"auth": null, "data": {"id": token, "ttl": valid_s, "renewable": valid_s > 0}}),
                    ),
                    ("GET", path) => self.read(path),
                    _ => errors(405, "unsupported operation"),
                }
            }
        }
    }

    fn issue(&mut self) -> (u16, Value) {
        self.issued += 1;
        let token = format!("hvs.{}", self.issued);
        self.tokens.insert(token.clone(), self.valid_s);
        (200, auth(&token, self.valid_s))
    }

    fn read(&self, path: &str) -> (u16, Value) {
        if path.contains("/forbidden") {
            return errors(403, "1 error occurred:\n\t* permission denied\n\n");
        }
        let Some(data) = self.secrets.get(path) else {
            return (404, json!({"errors": [], "warnings": ["Invalid path"]}));
        };
        let base = json!({"request_id": "r", "lease_id": "", "renewable": false, "auth": null, "warnings": null});
        let mut response = base;
        if path.starts_with("secret/data/") {
            response["lease_duration"] = json!(0);
            response["data"] = json!({"data": data, "metadata": {
                "created_time": "2026-01-01T00:00:00Z", "deletion_time": "", "destroyed": false, "version": 2,
            }});
        } else {
            response["lease_duration"] = json!(2_764_800);
            response["data"] = data.clone();
        }
        (200, response)
    }
}

fn auth(token: &str, valid_s: u64) -> Value {
    json!({"request_id": "r", "lease_id": "", "lease_duration": 0, "data": null, "auth": {
        "client_token": token, "accessor": "a", "policies": ["default"], "lease_duration": valid_s,
        "renewable": true, "token_type": "service",
    }})
}

const APP_ROLE: &str = "approle = { role_id = \"role\", secret_id = { file = \"secret\" } }";

/// An open API whose endpoint needs a key that is in Vault. `login`: the rest of `[vault]`.
fn files(upstream: &Upstream, vault: &str, login: &str, path: &str) -> Files {
    let description = format!(
        "openapi: 3.0.3\ninfo: {{title: a, version: '1'}}\nx-wso2-basePath: /a\nsecurity: []\n\
         paths: {{/*: {{get: {{}}}}}}\n\
         x-wso2-production-endpoints: {{urls: ['{}'], securityConfig: {{credential: c}}}}\n",
        upstream.url()
    );
    let files = Files::new().api("a.yaml", &description);
    files.write("secret", "se:cret\n");
    files.write("jwt", "a.b.c\n");
    files.write("token", "hvs.root\n");
    files.toml(&format!(
        "[vault]\nurl = \"{vault}\"\nrefresh_s = 1\n{login}\n[[credential]]\nname = \"c\"\ntype = \"api_key\"\n\
         header = \"X-Key\"\nkey = {{ vault = \"{path}\" }}\n"
    ))
}

/// The key that the upstream gets, or status and code of the response without it.
fn key(gateway: &Gateway, upstream: &Upstream) -> String {
    let response = gateway.fetch("GET /a/x", "");
    match response.status {
        200 => upstream.requests().pop().unwrap().header("X-Key").unwrap().to_owned(),
        _ => response.status_and_code(),
    }
}

#[test]
fn upstreams_get_secrets_of_both_versions_of_the_kv_engine_by_each_login() {
    let upstream = Upstream::fixed("in");
    let (server, state) = contract(&[("secret/data/a", "one"), ("kv/a", "two")]);
    state.lock().unwrap().tokens.insert("hvs.root".to_owned(), 0);
    let kubernetes = "kubernetes = { role = \"gateway\", file = \"jwt\", mount = \"k8s/prod\" }";
    for login in [APP_ROLE, kubernetes, "token = { file = \"token\" }"] {
        for (path, expect) in [("secret/data/a#p", "one"), ("kv/a#p", "two")] {
            let gateway = files(&upstream, &server.url(), login, path).start();
            assert_eq!(key(&gateway, &upstream), expect, "{login}: from the first request on");
        }
    }
}

#[test]
fn a_changed_secret_is_used_soon_and_the_last_one_while_vault_is_sealed_or_has_lost_it() {
    let upstream = Upstream::fixed("in");
    let (server, state) = contract(&[("secret/data/a", "one")]);
    // Kept, since the configuration is read again with the new secret.
    let files = files(&upstream, &server.url(), APP_ROLE, "secret/data/a#p");
    let gateway = files.start();
    assert_eq!(key(&gateway, &upstream), "one");
    let set = |text: &str| {
        let mut state = state.lock().unwrap();
        state.secrets.insert("secret/data/a".to_owned(), json!({ "p": text }));
    };
    set("two");
    wait_until(|| key(&gateway, &upstream) != "one");
    let diagnostics = || gateway.page("/diagnostics").text();
    state.lock().unwrap().sealed = true;
    wait_until(|| diagnostics().contains("Vault is sealed"));
    assert_eq!(key(&gateway, &upstream), "two");
    state.lock().unwrap().sealed = false;
    state.lock().unwrap().secrets.clear();
    wait_until(|| diagnostics().contains("`secret/data/a`: status 404"));
    assert_eq!(key(&gateway, &upstream), "two");
    assert!(!diagnostics().contains("two") && !diagnostics().contains("hvs."));
    set("three");
    state.lock().unwrap().tokens.clear();
    wait_until(|| key(&gateway, &upstream) != "two");
    assert_eq!(key(&gateway, &upstream), "three");
    assert_eq!(state.lock().unwrap().issued, 2, "a token is used until it is revoked");
    wait_until(|| !diagnostics().contains("Vault"));
}

#[test]
fn a_gateway_starts_without_vault_and_sends_nothing_without_the_credential() {
    let upstream = Upstream::fixed("in");
    let (server, state) = contract(&[("secret/data/a", "one")]);
    state.lock().unwrap().sealed = true;
    // Kept, since the configuration is read again with the new secret.
    let files = files(&upstream, &server.url(), APP_ROLE, "secret/data/a#p");
    let gateway = files.start();
    assert_eq!(key(&gateway, &upstream), "500 303003");
    assert_eq!(upstream.requests().len(), 0);
    state.lock().unwrap().sealed = false;
    wait_until(|| key(&gateway, &upstream) != "500 303003");
    assert_eq!(key(&gateway, &upstream), "one");
}

#[test]
fn what_is_wrong_is_said_without_what_vault_responded() {
    let upstream = Upstream::fixed("in");
    let (server, _) = contract(&[("secret/data/a", "one")]);
    let refusing = Upstream::refusing();
    for (url, login, path, expect) in [
        (server.url(), "token = { file = \"secret\" }", "kv/a#p", "rejects the login or the token"),
        (server.url(), &APP_ROLE.replace("role\"", "x\""), "kv/a#p", "rejects the login"),
        (
            server.url(),
            &APP_ROLE.replace("{ role", "{ mount = \"b\", role"),
            "kv/a#p",
            "status 403",
        ),
        (server.url(), APP_ROLE, "secret/a#p", "have `data` after the mount"),
        (server.url(), APP_ROLE, "secret/data/forbidden#p", "no policy of the token"),
        (server.url(), APP_ROLE, "secret/data/a#q", "no field `q`"),
        (refusing.url(), APP_ROLE, "kv/a#p", "secrets in Vault"),
        (upstream.url(), APP_ROLE, "kv/a#p", "is `url` that of Vault?"),
    ] {
        let gateway = files(&upstream, &url, login, path).start();
        let diagnostics = gateway.page("/diagnostics").text();
        assert!(diagnostics.contains(expect), "{expect}: {diagnostics}");
        assert!(!diagnostics.contains("se:cret") && !diagnostics.contains("permission denied"));
        assert_eq!(key(&gateway, &upstream), "500 303003");
    }
}
