//! A browser signs in at the key manager by way of the gateway, and out again.

use std::os::unix::fs::PermissionsExt;

use base::limits::SESSION_MARGIN_S;
use harness::{Browser, Client, Files, Process, Response, Upstream, now_s, wait_until};
use serde_json::{Value, json};

use crate::key_manager::{ISS, KeyManager, Login, PASSWORD};

const ALLOW: &str = "&username=admin&password=correct+horse+battery&decision=allow";

/// A client that may redirect browsers to any port of this machine.
fn registered(manager: &KeyManager) -> (String, String) {
    let metadata = json!({
        "client_name": "gateway",
        "grant_types": ["authorization_code", "refresh_token", "client_credentials"],
        "redirect_uris": ["http://127.0.0.1/.login/staff/callback"],
        "scope": "read",
    });
    let path = "/api/identity/oauth2/dcr/v1.1/register";
    let response = manager.post_json(path, Some(("admin", PASSWORD)), &metadata);
    assert_eq!(response.status, 201, "{}", response.text());
    let body: Value = serde_json::from_slice(&response.body).unwrap();
    let text = |name: &str| body[name].as_str().unwrap().to_owned();
    (text("client_id"), text("client_secret"))
}

fn gateway(manager: &KeyManager, (id, secret): Login<'_>, upstream: &Upstream) -> (Files, Process) {
    let description = format!(
        "openapi: 3.0.3\ninfo: {{title: A, version: '1'}}\nx-wso2-basePath: /a\nx-penstock-login: staff\n\
         x-wso2-production-endpoints: {{urls: ['{}']}}\npaths: {{/*: {{get: {{}}}}}}\n",
        upstream.url()
    );
    let origin = format!("https://{}", manager.process.address("https"));
    let client = format!("client_id = \"{id}\"\nclient_secret = {{ file = \"secret\" }}\n");
    let toml = format!(
        "[[issuer]]\nname = \"resident\"\niss = \"{ISS}\"\njwks = \"{origin}/oauth2/jwks\"\n\
         revocations = {{ url = \"{origin}/oauth2/revocations\", client_id = \"{id}\", \
         client_secret = {{ file = \"secret\" }} }}\n\
         [[login]]\nname = \"staff\"\nissuer = \"{ISS}\"\n{client}scopes = [\"read\"]\n\
         authorize_url = \"{origin}/oauth2/authorize\"\ntoken_url = \"{origin}/oauth2/token\"\n\
         logout_url = \"{origin}/oidc/logout\"\nafter_logout = \"/bye\"\n\
         [upstream_tls]\nca = [\"{}\"]\nsystem_roots = false\n",
        manager.files.path("tls.crt").display()
    );
    let files = Files::new().api("a.yaml", &description).toml(&toml);
    files.write("secret", secret);
    let process = Process::gateway(&files);
    (files, process)
}

/// Path and query of a redirection to `origin`.
#[track_caller]
fn target<'r>(response: &'r Response, origin: &str) -> &'r str {
    assert_eq!(response.status, 303, "{}{}", response.head, response.text());
    let location = response.header("location").unwrap();
    location.strip_prefix(origin).unwrap_or_else(|| panic!("{location} is not of {origin}"))
}

/// Signs in, having opened `/a/x?y=1`.
fn sign_in(manager: &KeyManager, browser: &mut Browser) {
    let (origin, provider) = (browser.origin(), manager.process.address("https"));
    let away = browser.open("/a/x?y=1");
    let request = target(&away, &format!("https://{provider}/oauth2/authorize?"));
    assert_eq!(manager.get(&format!("/oauth2/authorize?{request}")).status, 200, "a page");
    let allowed = manager.post("/oauth2/authorize", None, &format!("{request}{ALLOW}"));
    let back = browser.open(target(&allowed, &origin));
    assert_eq!(target(&back, ""), "/a/x?y=1");
}

/// The key manager revokes a session if it sees one of its refresh tokens twice.
#[test]
fn a_session_goes_on_while_its_token_is_renewed_time_and_again() {
    let (manager, upstream) = (KeyManager::start(), Upstream::fixed("from the upstream"));
    let (id, secret) = registered(&manager);
    let (files, process) = gateway(&manager, (&id, &secret), &upstream);
    let key = std::fs::read(files.path("data/session.key")).unwrap();
    let address = process.address("http");
    let mut browser = Browser::new(&address.to_string(), false, move || Client::connect(address));
    sign_in(&manager, &mut browser);
    for renewal in 1..=3 {
        let soon_s = now_s() + SESSION_MARGIN_S;
        browser.change_session("staff", &key, |[until_s, _]| [until_s, soon_s]);
        let old = browser.cookies.clone();
        wait_until(|| {
            browser.cookies = old.clone();
            let response = browser.send("GET /a/x", "");
            assert_eq!(response.text(), "from the upstream", "{renewal}");
            response.header("set-cookie").is_some()
        });
        assert_ne!(browser.cookies, old, "{renewal}");
        let response = browser.send("GET /a/x", "");
        assert_eq!(response.text(), "from the upstream", "{renewal}");
        assert_eq!(response.header("set-cookie"), None, "{renewal}: it is renewed");
    }
}

#[test]
fn a_user_signs_in_with_a_browser_and_out_again_and_a_stolen_cookie_ends_with_the_session() {
    let (manager, upstream) = (KeyManager::start(), Upstream::fixed("from the upstream"));
    let (id, secret) = registered(&manager);
    let (files, process) = gateway(&manager, (&id, &secret), &upstream);
    let key = std::fs::metadata(files.path("data/session.key")).unwrap();
    assert_eq!(key.permissions().mode() & 0o777, 0o600, "it was generated");
    let (address, provider) = (process.address("http"), manager.process.address("https"));
    let mut browser = Browser::new(&address.to_string(), false, move || Client::connect(address));
    let provider = format!("https://{provider}");
    sign_in(&manager, &mut browser);
    assert_eq!(browser.open("/a/x?y=1").text(), "from the upstream");
    assert_eq!(upstream.requests()[0].header("cookie"), None);

    let stolen = browser.cookies.clone();
    let out = browser.send("GET /.login/staff/logout", "Sec-Fetch-Site: same-origin\r\n");
    let (ends, after) = target(&out, &provider).split_once("&post_logout_redirect_uri=").unwrap();
    assert!(after.ends_with("%2Fbye"), "{after}");
    // The key manager returns to registered URLs only, and the port of the test is none.
    assert_eq!(manager.get(ends).status, 200);
    assert_eq!(browser.send("GET /a/x", "").status_and_code(), "401 900902");
    browser.cookies = stolen;
    // The gateway follows the revocations of the key manager.
    wait_until(|| browser.send("GET /a/x", "").status != 200);
    assert_eq!(browser.send("GET /a/x", "").status_and_code(), "401 900901");
    assert!(!process.text().contains(&secret), "no secret is logged");
}
