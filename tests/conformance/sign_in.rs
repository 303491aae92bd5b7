//! Browsers that sign in at the provider of a login, and their sessions.

mod renewal;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use base::limits::{SIGN_IN_CODES_MAX, SIGN_INS_MAX};
use harness::{
    ApiBuilder, Browser, Builder, CannedResponse, Client, Files, Gateway, Issuer, PATIENCE,
    Request, Response, Upstream, api, now_s,
};
use model::Login;
use serde_json::{Value, json};

const SIGNED_OUT: &str = "401 900902";
const KEY: &[u8] = b"a secret of a test, which has 32 bytes and more";

/// Behaviour of the provider.
#[derive(Default)]
struct Behaviour {
    /// More members of the next responses of the token endpoint.
    members: Vec<(&'static str, Value)>,
    /// More claims of the next ID tokens.
    claims: Vec<(&'static str, Value)>,
    status: Option<u16>,
    sends_iss: bool,
    /// Refresh tokens that were used: each is good for once, unless it stays valid.
    used: Vec<String>,
    keeps_refresh_tokens: bool,
    /// Signs ID tokens in place of the issuer.
    forger: Option<Issuer>,
}

/// An OpenID Connect provider whose codes are the nonces of the ID tokens that it will issue.
struct Provider {
    server: Upstream,
    issuer: Arc<OnceLock<Issuer>>,
    behaviour: Arc<Mutex<Behaviour>>,
}

impl Provider {
    fn start() -> Self {
        let issuer: Arc<OnceLock<Issuer>> = Arc::default();
        let behaviour: Arc<Mutex<Behaviour>> = Arc::default();
        let (own, told) = (Arc::clone(&issuer), Arc::clone(&behaviour));
        let server = Upstream::responding(move |request| {
            respond(own.get().unwrap(), &mut told.lock().unwrap(), request)
        });
        issuer.set(Issuer::new("resident").at(&server.url())).unwrap();
        Self { server, issuer, behaviour }
    }

    fn issuer(&self) -> &Issuer {
        self.issuer.get().unwrap()
    }

    fn tell(&self, change: impl FnOnce(&mut Behaviour)) {
        change(&mut self.behaviour.lock().unwrap());
    }

    fn login(&self, name: &str) -> Arc<Login> {
        Arc::new(Login {
            name: name.to_owned(),
            issuer: self.server.url(),
            endpoints: None,
            client_id: "gateway".to_owned(),
            client_secret: b"se+cret".to_vec(),
            scopes: vec!["openid".to_owned(), "read".to_owned()],
            after_logout: "/bye".to_owned(),
            session_s: 3_600,
            max_age_s: None,
            key: KEY.to_vec(),
        })
    }

    /// How often new tokens were asked for.
    fn renewals(&self) -> usize {
        let is_renewal = |request: &Request| request.text().starts_with("grant_type=refresh_token");
        self.server.requests().iter().filter(|request| is_renewal(request)).count()
    }
}

fn respond(issuer: &Issuer, told: &mut Behaviour, request: &Request) -> CannedResponse {
    if request.target() == "/.well-known/openid-configuration" {
        let iss = issuer.iss();
        let document = json!({
            "issuer": iss, "authorization_endpoint": format!("{iss}/authorize?tenant=a"),
            "token_endpoint": format!("{iss}/token"), "end_session_endpoint": format!("{iss}/logout"),
            "revocation_endpoint": format!("{iss}/revoke"),
            "authorization_response_iss_parameter_supported": told.sends_iss,
        });
        return CannedResponse::ok(&document.to_string());
    }
    assert_eq!(request.header("authorization"), Some("Basic Z2F0ZXdheTpzZSUyQmNyZXQ="));
    let form = request.text();
    let form: HashMap<_, _> = form.split('&').filter_map(|pair| pair.split_once('=')).collect();
    if request.line() == "POST /revoke HTTP/1.1" {
        assert_eq!(form["token_type_hint"], "refresh_token");
        told.used.push(form["token"].to_owned());
        let status = told.status.unwrap_or(200);
        return CannedResponse::bytes(format!(
            "HTTP/1.1 {status} Done\r\nContent-Length: 0\r\n\r\n"
        ));
    }
    assert_eq!(request.line(), "POST /token HTTP/1.1");
    if let Some(status) = told.status {
        return CannedResponse::bytes(format!("HTTP/1.1 {status} No\r\nContent-Length: 0\r\n\r\n"));
    }
    if form["grant_type"] == "refresh_token" {
        let token = form["refresh_token"].to_owned();
        if told.used.contains(&token) && !told.keeps_refresh_tokens {
            return CannedResponse::bytes("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        }
        told.used.push(token);
    } else {
        assert_eq!(form["grant_type"], "authorization_code");
        assert_eq!(form["redirect_uri"], "https%3A%2F%2Fgateway%2F.login%2Fstaff%2Fcallback");
        assert_eq!(form["code_verifier"].len(), 43);
    }
    let signer = told.forger.as_ref().unwrap_or(issuer);
    let mut id_token = signer.token().claim("aud", "gateway");
    if let Some(code) = form.get("code") {
        id_token = id_token.claim("nonce", *code);
    }
    for (name, value) in &told.claims {
        id_token = id_token.claim(name, value.clone());
    }
    let mut body = json!({
        "access_token": issuer.token().claim("jti", told.used.len().to_string()).claim("scope", "read").sign(),
        "token_type": "Bearer", "expires_in": 3_600, "id_token": id_token.sign(),
        "refresh_token": format!("refresh-{}", told.used.len()),
    });
    for (name, value) in &told.members {
        body[*name] = value.clone();
    }
    CannedResponse::ok(&body.to_string())
}

fn described(path: &str, login: &str, upstream: &Upstream) -> ApiBuilder {
    let login = login.to_owned();
    let api = api(path).any_scope("GET /scoped", &["read"]).any_scope("GET /denied", &["write"]);
    api.secured("GET /*, POST /*").to(upstream).with(move |api| api.login = Some(login))
}

fn builder(provider: &Provider, upstream: &Upstream) -> Builder {
    Gateway::of(described("/a", "staff", upstream))
        .api(described("/b", "others", upstream))
        .api(api("/plain").open("GET /*").to(upstream))
        .issuer(provider.issuer())
        .settings(|settings| {
            settings.logins = vec![provider.login("staff"), provider.login("others")];
        })
}

fn browser(gateway: &Arc<Gateway>) -> Browser {
    let gateway = Arc::clone(gateway);
    Browser::new("gateway", true, move || gateway.connect_tls())
}

/// The parameters of a redirection to the provider.
fn sent_away(response: &Response) -> HashMap<String, String> {
    assert_eq!(response.status_and_code(), "303 900902", "{}", response.head);
    assert_eq!(response.header("cache-control"), Some("no-store"));
    let (url, query) = response.header("location").unwrap().split_once('?').unwrap();
    assert!(url.starts_with("http://127.0.0.1:") && url.ends_with("/authorize"), "{url}");
    let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap());
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn callback(sent: &HashMap<String, String>) -> String {
    format!("/.login/staff/callback?code={}&state={}", sent["nonce"], sent["state"])
}

/// Signs in, having opened `/a/x?y=1`.
fn sign_in(browser: &mut Browser) {
    let sent = sent_away(&browser.open("/a/x?y=1"));
    let back = browser.open(&callback(&sent));
    assert_eq!((back.status, back.header("location")), (303, Some("/a/x?y=1")), "{}", back.text());
}

/// The session of the browser began ten minutes ago.
fn grow_old(browser: &mut Browser) {
    browser.change_session("staff", KEY, |[until_s, expires_s]| [until_s - 600, expires_s]);
}

#[test]
fn a_browser_signs_in_and_is_served_with_its_token_which_no_upstream_gets() {
    let (provider, upstream) = (Provider::start(), Upstream::fixed("served"));
    let gateway = Arc::new(builder(&provider, &upstream).start());
    let mut browser = browser(&gateway);
    browser.cookies.insert("own".to_owned(), "1".to_owned());
    let sent = sent_away(&browser.open("/a/x?y=1"));
    assert_eq!(sent["tenant"], "a");
    assert_eq!(sent["response_type"], "code");
    assert_eq!((sent["client_id"].as_str(), sent["scope"].as_str()), ("gateway", "openid%20read"));
    assert_eq!(sent["redirect_uri"], "https%3A%2F%2Fgateway%2F.login%2Fstaff%2Fcallback");
    assert_eq!(sent["code_challenge_method"], "S256");
    for name in ["state", "nonce", "code_challenge"] {
        assert_eq!(sent[name].len(), 43, "{name}");
    }
    let back = browser.open(&callback(&sent));
    assert_eq!((back.status, back.header("location")), (303, Some("/a/x?y=1")));
    assert_eq!(browser.open("/a/x?y=1").text(), "served");
    assert_eq!(browser.send("GET /a/scoped", "").text(), "served", "not only navigations");
    assert_eq!(browser.send("GET /a/denied", "").status_and_code(), "403 900910");
    assert_eq!(browser.send("GET /plain/x", "").text(), "served");
    let requests = upstream.requests();
    assert_eq!(requests.len(), 3);
    for request in &requests {
        assert_eq!(request.header("cookie"), Some("own=1"), "of this API and of others");
        assert_eq!(request.header("authorization"), None);
    }
    assert_eq!(browser.cookies.len(), 2, "the attempt is over: {:?}", browser.cookies.keys());
    assert_eq!(gateway.metric("penstock_token_cache_lookups_total", "outcome=\"hit\""), 2);
}

#[test]
fn only_browsers_whose_user_sees_the_response_are_sent_to_the_provider() {
    let (provider, upstream) = (Provider::start(), Upstream::fixed("served"));
    let gateway = Arc::new(builder(&provider, &upstream).start());
    let mut browser = browser(&gateway);
    for (request, fields) in [
        ("GET /a/x", ""),
        ("GET /a/x", "Accept: application/json\r\n"),
        ("GET /a/x", "Accept: text/html\r\nSec-Fetch-Mode: cors\r\n"),
        ("POST /a/x", "Accept: text/html\r\nContent-Length: 0\r\n"),
    ] {
        let response = browser.send(request, fields);
        assert_eq!(response.status_and_code(), SIGNED_OUT, "{request} {fields}");
        assert_eq!((response.header("location"), response.header("set-cookie")), (None, None));
    }
    // In clear, others could read the cookies.
    let clear = gateway.fetch("GET /a/x", "Accept: text/html\r\n");
    assert_eq!(clear.status_and_code(), SIGNED_OUT);
    let bearer =
        format!("Accept: text/html\r\nAuthorization: {}\r\n", provider.issuer().token().bearer());
    assert_eq!(browser.send("GET /a/x", &bearer).text(), "served", "other clients have tokens");
    let broken = "Accept: text/html\r\nAuthorization: Bearer broken\r\n";
    assert_eq!(browser.send("GET /a/x", broken).status_and_code(), "401 900901");
    for path in ["/.login/staff/other", "/.login/nobody/callback", "/.login/staff", "/.login/"] {
        assert_eq!(browser.open(path).status_and_code(), "404 404", "{path}");
    }
}

#[test]
fn a_response_of_the_provider_is_for_the_browser_that_asked_and_once() {
    let (provider, upstream) = (Provider::start(), Upstream::fixed("served"));
    let gateway = Arc::new(builder(&provider, &upstream).start());
    let (mut victim, mut attacker) = (browser(&gateway), browser(&gateway));
    let (own, foreign) = (sent_away(&victim.open("/a/x")), sent_away(&attacker.open("/a/x")));
    // The attacker's response in the victim's browser, which would sign the victim in as the attacker.
    let state = |of: &HashMap<String, String>| of["state"].clone();
    for target in [
        callback(&foreign),
        callback(&own).replace("staff", "others"),
        format!("/.login/staff/callback?code={}", own["nonce"]),
        format!("/.login/staff/callback?code={}&state={}x", own["nonce"], &state(&own)[..42]),
        format!("{}&state={}", callback(&own), state(&own)),
        format!("/.login/staff/callback?code={}&state=", own["nonce"]),
    ] {
        let response = victim.open(&target);
        assert_eq!(response.status_and_code(), "403 403", "{target}");
        assert!(!victim.cookies.contains_key("__Host-penstock-login-staff"), "{target}");
    }
    assert_eq!(victim.open(&callback(&own)).status, 303);
    assert_eq!(victim.open(&callback(&own)).status_and_code(), "403 403", "replayed");
    // A refusal of the provider, or a response of another one.
    for more in ["&error=access_denied", "&iss=https%3A%2F%2Fother.example"] {
        let sent = sent_away(&attacker.open("/a/x"));
        let response = attacker.open(&format!("{}{more}", callback(&sent)));
        assert_eq!(response.status_and_code(), "403 403", "{more}");
    }
    let iss = provider.issuer().iss().replace(':', "%3A").replace('/', "%2F");
    let sent = sent_away(&attacker.open("/a/x"));
    assert_eq!(attacker.open(&format!("{}&iss={iss}", callback(&sent))).status, 303);
}

#[test]
fn a_provider_that_names_itself_in_its_responses_does_so_in_each() {
    let (provider, upstream) = (Provider::start(), Upstream::fixed("served"));
    provider.tell(|told| told.sends_iss = true);
    let gateway = Arc::new(builder(&provider, &upstream).start());
    let mut browser = browser(&gateway);
    let iss = provider.issuer().iss().replace(':', "%3A").replace('/', "%2F");
    for (more, expect) in [(String::new(), 403), (format!("&iss={iss}"), 303)] {
        let sent = sent_away(&browser.open("/a/x"));
        assert_eq!(browser.open(&(callback(&sent) + &more)).status, expect, "{more}");
    }
}

#[test]
fn a_login_can_demand_a_recent_sign_in_which_the_id_token_proves() {
    let (provider, upstream) = (Provider::start(), Upstream::fixed("served"));
    for (max_age_s, asked) in [(60, None), (0, Some("login"))] {
        let login = Login { max_age_s: Some(max_age_s), ..(*provider.login("staff")).clone() };
        let gateway = Gateway::of(described("/a", "staff", &upstream))
            .issuer(provider.issuer())
            .settings(move |settings| settings.logins = vec![Arc::new(login)]);
        let mut browser = browser(&Arc::new(gateway.start()));
        for (auth_time, expect) in [
            (json!(now_s()), 303),
            (json!(now_s() - 3_600), 403),
            (json!("now"), 403),
            (json!(null), 403),
        ] {
            let sent = sent_away(&browser.open("/a/x"));
            assert_eq!(sent["max_age"], max_age_s.to_string());
            assert_eq!(sent.get("prompt").map(String::as_str), asked);
            provider.tell(|told| told.claims = vec![("auth_time", auth_time.clone())]);
            assert_eq!(browser.open(&callback(&sent)).status, expect, "{auth_time}");
            browser.cookies.clear();
        }
    }
}

#[test]
fn a_sign_in_waits_for_a_provider_that_is_only_down() {
    let (provider, upstream) = (Provider::start(), Upstream::fixed("served"));
    let gateway = Arc::new(builder(&provider, &upstream).start());
    let mut browser = browser(&gateway);
    let sent = sent_away(&browser.open("/a/x"));
    for (status, more) in [(503, ""), (429, ""), (200, "&error=temporarily_unavailable")] {
        provider.tell(|told| told.status = Some(status));
        let response = browser.open(&(callback(&sent) + more));
        assert_eq!(response.status_and_code(), "503 503003", "{status} {more}");
        assert_eq!(response.header("retry-after"), Some("5"));
    }
    provider.tell(|told| told.status = None);
    assert_eq!(browser.open(&callback(&sent)).status, 303, "the same request");
}

#[test]
fn an_id_token_that_is_not_for_this_sign_in_is_rejected() {
    let (provider, upstream) = (Provider::start(), Upstream::fixed("served"));
    let gateway = Arc::new(builder(&provider, &upstream).start());
    let mut browser = browser(&gateway);
    let mut check = |change: &dyn Fn(&mut Behaviour), expect: u16| {
        let sent = sent_away(&browser.open("/a/x"));
        provider.tell(|told| *told = Behaviour::default());
        provider.tell(|told| change(told));
        assert_eq!(browser.open(&callback(&sent)).status, expect);
        browser.cookies.clear();
    };
    for (name, value) in [
        ("nonce", json!("another")),
        ("nonce", json!(null)),
        ("aud", json!("another")),
        ("aud", json!(null)),
        ("azp", json!("another")),
        ("iss", json!("https://other.example")),
        ("exp", json!(now_s() - 1)),
        ("exp", json!(null)),
    ] {
        check(&|told| told.claims.push((name, value.clone())), 403);
    }
    let several = ("aud", json!(["another", "gateway"]));
    check(&|told| told.claims.push(several.clone()), 403);
    check(&|told| told.claims.extend([several.clone(), ("azp", json!("gateway"))]), 303);
    let iss = provider.issuer().iss().to_owned();
    check(&|told| told.forger = Some(Issuer::new("resident").at(&iss)), 403);
    check(&|told| told.forger = Some(Issuer::new("unknown").at(&iss)), 403);
    check(&|told| told.members.push(("id_token", json!(null))), 403);
    check(&|told| told.members.push(("access_token", json!(null))), 403);
    check(&|told| told.status = Some(400), 403);
    check(&|_| {}, 303);
}

#[test]
fn another_site_cannot_use_a_session_to_change_something() {
    let (provider, upstream) = (Provider::start(), Upstream::fixed("served"));
    let gateway = Arc::new(builder(&provider, &upstream).start());
    let mut browser = browser(&gateway);
    sign_in(&mut browser);
    let websocket = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
        Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n";
    for (request, fields, expect) in [
        ("POST /a/x", "Content-Length: 0\r\n", "403 403"),
        ("POST /a/x", "Content-Length: 0\r\nSec-Fetch-Site: cross-site\r\n", "403 403"),
        ("POST /a/x", "Content-Length: 0\r\nSec-Fetch-Site: same-site\r\n", "403 403"),
        ("POST /a/x", "Content-Length: 0\r\nOrigin: https://evil.example\r\n", "403 403"),
        ("POST /a/x", "Content-Length: 0\r\nOrigin: null\r\n", "403 403"),
        ("POST /a/x", "Content-Length: 0\r\nOrigin: https://gateway\r\n", "200"),
        ("POST /a/x", "Content-Length: 0\r\nSec-Fetch-Site: same-origin\r\n", "200"),
        ("GET /a/x", websocket, "403 403"),
        ("GET /.login/staff/logout", "Sec-Fetch-Site: cross-site\r\n", "403 403"),
        ("GET /a/x", "Sec-Fetch-Site: cross-site\r\n", "200"),
    ] {
        let response = browser.send(request, fields);
        assert_eq!(response.status_and_code(), expect, "{request} {fields}");
    }
    assert_eq!(gateway.metric("penstock_auth_failures_total", "reason=\"cross_site\""), 6);
    // A token in the field is nothing that another site has.
    let bearer = provider.issuer().token().bearer();
    let fields = format!("Content-Length: 0\r\nAuthorization: {bearer}\r\n");
    assert_eq!(browser.send("POST /a/x", &fields).text(), "served");
}

#[test]
fn no_cache_stores_a_response_that_gives_a_browser_its_session() {
    let provider = Provider::start();
    let upstream = Upstream::responding(|_| {
        CannedResponse::bytes(
            "HTTP/1.1 200 OK\r\nCache-Control: public, max-age=600\r\nExpires: Thu, 01 Jan 2099 00:00:00 GMT\r\n\
             CDN-Cache-Control: max-age=60\r\nSurrogate-Control: max-age=60\r\nETag: \"a\"\r\n\
             Content-Length: 0\r\n\r\n",
        )
    });
    let gateway = Arc::new(builder(&provider, &upstream).start());
    let mut browser = browser(&gateway);
    sign_in(&mut browser);
    let caching = |response: &Response| {
        let head = response.head.to_lowercase();
        let lines = head.split("\r\n").filter(|line| !line.starts_with("set-cookie"));
        let is_one = |line: &&str| {
            ["cache-control:", "expires:", "surrogate-control:"]
                .iter()
                .any(|name| line.contains(name))
        };
        lines.filter(is_one).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(caching(&browser.send("GET /a/x", "")).len(), 4, "it has its session already");
    browser.cookies.clear();
    provider.tell(|told| told.members.push(("expires_in", json!(0))));
    sign_in(&mut browser);
    let renewed = browser.send("GET /a/x", "");
    assert_eq!((renewed.status, renewed.header("etag")), (200, Some("\"a\"")));
    assert!(renewed.header("set-cookie").is_some());
    assert_eq!(caching(&renewed), ["cache-control: no-store"]);
}

#[test]
fn a_policy_for_faults_sends_a_browser_to_the_provider_once() {
    let (provider, upstream) = (Provider::start(), Upstream::fixed("served"));
    let policies =
        "{fault: [{name: addHeader, parameters: {headerName: X-Fault, headerValue: seen}}]}";
    let description = format!(
        "openapi: 3.0.3\ninfo: {{title: a, version: '1'}}\nx-wso2-basePath: /a\n\
         x-wso2-production-endpoints: {{urls: ['{}']}}\nx-penstock-login: staff\n\
         paths:\n  /x:\n    get:\n      x-penstock-policies: {policies}\n      responses: {{}}\n",
        upstream.url()
    );
    let login = format!(
        "[[login]]\nname = \"staff\"\nissuer = \"{}\"\nclient_id = \"gateway\"\n\
         client_secret = {{ file = \"secret\" }}\nkey = {{ file = \"key\" }}\n",
        provider.server.url()
    );
    let files =
        Files::new().api("a.yaml", &description).issuer("resident", provider.issuer()).toml(&login);
    files.write("secret", "se+cret");
    files.write("key", std::str::from_utf8(KEY).unwrap());
    let gateway = Arc::new(files.start());
    let response = browser(&gateway).open("/a/x");
    sent_away(&response);
    assert_eq!(response.header("x-fault"), Some("seen"));
    for name in ["Location: ", "Set-Cookie: ", "Cache-Control: "] {
        assert_eq!(response.head.matches(name).count(), 1, "{name}{}", response.head);
    }
}

#[test]
fn a_user_whose_token_is_rejected_signs_in_again_but_not_at_once() {
    let (provider, upstream) = (Provider::start(), Upstream::fixed("served"));
    let gateway = Arc::new(builder(&provider, &upstream).start());
    let mut browser = browser(&gateway);
    // The provider's clock is slow, or its token is valid for less time than `expires_in`.
    let expired = provider.issuer().token().claim("exp", now_s() - 600).sign();
    provider.tell(|told| told.members.push(("access_token", json!(expired))));
    sign_in(&mut browser);
    for _ in 0..2 {
        assert_eq!(browser.open("/a/x").status_and_code(), "401 900901", "no loop");
    }
    grow_old(&mut browser);
    sent_away(&browser.open("/a/x"));
}

#[test]
fn browsers_without_a_session_cause_few_requests_to_the_provider_at_a_time() {
    let (provider, upstream) = (Provider::start(), Upstream::fixed("served"));
    let builder = builder(&provider, &upstream);
    let gateway = Arc::new(builder.settings(|settings| settings.gateway.workers = Some(1)).start());
    let mut browser = browser(&gateway);
    let head = browser.head("GET /a/x", "Accept: text/html\r\n");
    let connect = || gateway.connect_tls();
    let mut clients: Vec<_> = std::iter::repeat_with(connect).take(SIGN_IN_CODES_MAX).collect();
    for client in &mut clients {
        client.send(&head);
    }
    let responses: Vec<_> = clients.iter_mut().map(Client::read).collect();
    assert_eq!(provider.server.requests().len(), 1, "the discovery document");
    browser.store(&responses[0]);
    let callback = callback(&sent_away(&responses[0]));
    // The provider's responses wait for this.
    let held = provider.behaviour.lock().unwrap();
    let head = browser.head(&format!("GET {callback}"), "");
    for client in &mut clients {
        client.send(&head);
    }
    let begun = Instant::now();
    while provider.server.connections() < SIGN_IN_CODES_MAX {
        assert!(begun.elapsed() < PATIENCE, "{}", provider.server.connections());
        std::thread::yield_now();
    }
    assert_eq!(gateway.connect_tls().send(&head).read().status_and_code(), "503 503003");
    drop(held);
    for client in &mut clients {
        assert_eq!(client.read().status, 303);
    }
    assert_eq!(browser.open(&callback).status, 303);
}

#[test]
fn no_upstream_can_set_the_session_of_a_browser() {
    let provider = Provider::start();
    let upstream = Upstream::responding(|_| {
        CannedResponse::bytes(
            "HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nset-cookie: __Host-penstock-login-staff=1.x; Path=/; Secure\r\n\
             Set-Cookie: =penstock-login-staff=1.x\r\nSet-Cookie: b=penstock-login-staff\r\n\
             Set-Cookie: penstock-login-staff~abc=x\r\nContent-Length: 6\r\n\r\nserved",
        )
    });
    let gateway = Arc::new(builder(&provider, &upstream).start());
    let mut browser = browser(&gateway);
    sign_in(&mut browser);
    for path in ["/a/x", "/plain/x"] {
        let response = browser.send(&format!("GET {path}"), "");
        assert_eq!(response.text(), "served");
        let head = response.head.to_lowercase();
        let set: Vec<_> =
            head.split("\r\n").filter_map(|line| line.strip_prefix("set-cookie: ")).collect();
        assert_eq!(set, ["a=1", "b=penstock-login-staff"], "{path}");
    }
}

#[test]
fn a_user_signs_out_here_and_at_the_provider() {
    let (provider, upstream) = (Provider::start(), Upstream::fixed("served"));
    let gateway = Arc::new(builder(&provider, &upstream).start());
    let mut browser = browser(&gateway);
    provider.tell(|told| told.members.push(("expires_in", json!(0))));
    sign_in(&mut browser);
    let copy = browser.cookies.clone();
    let response = browser.send("GET /.login/staff/logout", "Sec-Fetch-Site: same-origin\r\n");
    assert_eq!(response.status, 303, "{}", response.text());
    let (url, query) = response.header("location").unwrap().split_once('?').unwrap();
    assert_eq!(url, format!("{}/logout", provider.server.url()));
    assert!(query.starts_with("id_token_hint=ey"), "{query}");
    let rest = "&client_id=gateway&post_logout_redirect_uri=https%3A%2F%2Fgateway%2Fbye";
    assert!(query.ends_with(rest), "{query}");
    assert_eq!(browser.cookies.len(), 0);
    assert_eq!(browser.send("GET /a/x", "").status_and_code(), SIGNED_OUT);
    let fields = "Origin: https://gateway\r\nContent-Length: 0\r\n";
    let again = browser.send("POST /.login/staff/logout", fields);
    assert_eq!(
        (again.status, again.header("location")),
        (303, Some("/bye")),
        "nobody is signed in"
    );
    browser.cookies = copy.clone();
    let response = browser.send("GET /a/x", "");
    assert_eq!(response.status_and_code(), "401 900901", "a copy is not renewed");
    // The user is signed out even if the provider does not revoke the token.
    browser.cookies = copy;
    provider.tell(|told| told.status = Some(500));
    assert_eq!(browser.send("GET /.login/staff/logout", fields).status, 303);
    assert_eq!(browser.cookies.len(), 0);
}

#[test]
fn a_session_is_for_its_login_and_may_be_as_large_as_cookies_allow() {
    let (provider, upstream) = (Provider::start(), Upstream::fixed("served"));
    let gateway = Arc::new(builder(&provider, &upstream).start());
    let mut browser = browser(&gateway);
    let large = provider.issuer().token().claim("groups", "g".repeat(6_000)).sign();
    provider.tell(|told| told.members.push(("access_token", json!(large))));
    sign_in(&mut browser);
    assert_eq!(browser.cookies.len(), 4, "{:?}", browser.cookies.keys());
    assert_eq!(browser.send("GET /a/x", "").text(), "served");
    assert_eq!(browser.send("GET /b/x", "").status_and_code(), SIGNED_OUT);
    let renamed = browser
        .cookies
        .iter()
        .map(|(name, value)| (name.replace("staff", "others"), value.clone()));
    browser.cookies = renamed.collect();
    assert_eq!(browser.send("GET /b/x", "").status_and_code(), SIGNED_OUT);
    browser.cookies.clear();
    provider.tell(|told| told.members.clear());
    sign_in(&mut browser);
    assert_eq!(browser.cookies.len(), 1);
    let too_large = provider.issuer().token().claim("groups", "g".repeat(12_000)).sign();
    provider.tell(|told| told.members.push(("access_token", json!(too_large))));
    browser.cookies.clear();
    let sent = sent_away(&browser.open("/a/x"));
    assert_eq!(browser.open(&callback(&sent)).status_and_code(), "403 403");
    assert_eq!(browser.cookies.len(), 0);
}

#[test]
fn a_browser_returns_to_this_origin_only_and_remembers_few_attempts() {
    let (provider, upstream) = (Provider::start(), Upstream::fixed("served"));
    let root = described("", "staff", &upstream);
    let gateway = builder(&provider, &upstream).api(root).start();
    let mut browser = browser(&Arc::new(gateway));
    let sent = sent_away(&browser.open("//evil.example/x"));
    assert_eq!(browser.open(&callback(&sent)).header("location"), Some("/"));
    browser.cookies.clear();
    for _ in 0..=SIGN_INS_MAX {
        sent_away(&browser.open("/a/x"));
    }
    assert_eq!(browser.cookies.len(), 1, "the last one");
}

#[test]
fn services_of_artefacts_get_no_session_of_their_host_either() {
    let (provider, upstream) = (Provider::start(), Upstream::fixed("served"));
    let artefact = format!(
        "<proxy name=\"P\"><target><endpoint><http uri-template=\"{}/x\"/></endpoint>\
         <outSequence><respond/></outSequence></target></proxy>",
        upstream.url()
    );
    let gateway = Gateway::mediating(&artefact)
        .settings(|settings| settings.logins = vec![provider.login("staff")])
        .start();
    let fields =
        "Cookie: a=1; __Host-penstock-login-staff=1.x; b=2\r\nCookie: penstock-login-o~y=z\r\n";
    assert_eq!(gateway.fetch("GET /services/P", fields).text(), "served");
    assert_eq!(upstream.requests()[0].header("cookie"), Some("a=1; b=2"));
}
