//! Users sign in at an OpenID Connect provider, which is a second key manager here.

use std::net::TcpListener;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use harness::{Browser, Client, Files, Response};
use serde_json::{Value, json};

use crate::key_manager::{ISS, KeyManager, PASSWORD, control, error, success};

const APP: &str = "https://app.example/callback";
const CALLBACK: &str = "https://localhost:9443/oauth2/callback/corp";
/// Source: RFC 7636 appendix B.
const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
const ANN: &str = "&username=ann&password=correct+horse+battery&decision=allow";

struct Setup {
    provider: KeyManager,
    /// Origin of the provider.
    origin: String,
    manager: KeyManager,
    id: String,
    secret: String,
}

impl Setup {
    fn new() -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let origin = format!("https://localhost:{port}");
        let issuer = format!("{origin}/oauth2/token");
        let toml = control().replace("127.0.0.1:0", &format!("127.0.0.1:{port}"));
        let provider = KeyManager::of(Files::new().toml(&toml.replace(ISS, &issuer)));
        provider.files.write("ann", "correct horse battery");
        assert_eq!(provider.command(&["user", "add", "ann", "--password-file", "ann"]).0, Some(0));
        let more = json!({ "grantType": "authorization_code", "callbackUrl": CALLBACK });
        let (own_id, own_secret) = provider.register("key manager", more);
        let files = Files::new().toml(&format!(
            "{}[[control.provider]]\nname = \"corp\"\ntitle = \"Corporate <login>\"\n\
             issuer = \"{issuer}\"\nclient_id = \"{own_id}\"\nclient_secret = {{ file = \"secret\" }}\n\
             scopes = []\ngroups = \"sub\"\nclaim = [{{ name = \"client\", from = \"azp\" }}]\n\
             role = [{{ name = \"reader\", groups = [\"ann\"] }}, {{ name = \"admin\", groups = [\"bob\"] }}]\n\
             [upstream_tls]\nca = [\"provider.crt\"]\nsystem_roots = false\n",
            control()
        ));
        files.write("secret", &own_secret);
        files.write("provider.crt", &provider.files.identity().cert_pem);
        let manager = KeyManager::of(files);
        let (id, secret) = manager.register(
            "web",
            json!({ "grantType": "authorization_code refresh_token", "callbackUrl": APP }),
        );
        Self { provider, origin, manager, id, secret }
    }

    fn browser(&self) -> Browser {
        let address = self.manager.process.address("https");
        let tls = self.manager.files.identity().client(&["http/1.1"]);
        Browser::new("localhost:9443", true, move || {
            Client::connect_tls(address, tls.clone(), "localhost")
        })
    }

    /// The parameters of the client's request.
    fn request(&self) -> String {
        format!(
            "response_type=code&client_id={}&redirect_uri=https%3A%2F%2Fapp.example%2Fcallback\
             &scope=openid&state=x&code_challenge={CHALLENGE}&code_challenge_method=S256",
            self.id
        )
    }

    fn post(&self, form: &str) -> Response {
        self.manager.post("/oauth2/authorize", None, form)
    }

    /// The user chooses the provider. Returns the query with which the browser gets there.
    fn begin(&self, browser: &mut Browser) -> String {
        let sent = self.post(&format!("{}&provider=corp", self.request()));
        browser.store(&sent);
        let start = format!("{}/oauth2/authorize?", self.origin);
        target(&sent, &start).to_owned()
    }

    /// The user signs in there. Returns the path and query with which the browser comes back.
    fn sign_in(&self, query: &str) -> String {
        let allowed = self.provider.post("/oauth2/authorize", None, &format!("{query}{ANN}"));
        target(&allowed, "https://localhost:9443").to_owned()
    }

    /// The page after a sign-in, and its proof.
    fn page(&self) -> (Response, String) {
        let mut browser = self.browser();
        let query = self.begin(&mut browser);
        let page = browser.open(&self.sign_in(&query));
        assert_eq!(page.status, 200, "{}", page.text());
        assert!(browser.cookies.is_empty(), "{:?}", browser.cookies);
        let proof = hidden(&page, "signed_in");
        (page, proof)
    }

    fn tokens(&self, proof: &str) -> Value {
        self.tokens_of(&format!("{}&signed_in={proof}", self.request()))
    }

    fn tokens_of(&self, form: &str) -> Value {
        let allowed = self.post(&format!("{form}&decision=allow"));
        let code = parameter(target(&allowed, APP), "code");
        let form = format!(
            "grant_type=authorization_code&code={code}&code_verifier={VERIFIER}\
             &redirect_uri=https%3A%2F%2Fapp.example%2Fcallback"
        );
        self.manager.token((&self.id, &self.secret), &form)
    }

    /// A device that waits: the id of its client, and its codes.
    fn device(&self) -> (String, Value) {
        let metadata = json!({
            "client_name": "tv",
            "grant_types": ["urn:ietf:params:oauth:grant-type:device_code"],
            "token_endpoint_auth_method": "none",
        });
        let path = "/api/identity/oauth2/dcr/v1.1/register";
        let registered = self.manager.post_json(path, Some(("admin", PASSWORD)), &metadata);
        let registered: Value = serde_json::from_slice(&registered.body).unwrap();
        let id = registered["client_id"].as_str().unwrap();
        let codes = self.manager.post("/oauth2/device_authorize", None, &format!("client_id={id}"));
        (id.to_owned(), success(&codes))
    }

    fn refresh(&self, issued: &Value) -> Response {
        let token = issued["refresh_token"].as_str().unwrap();
        let form = format!("grant_type=refresh_token&refresh_token={token}");
        self.manager.post("/oauth2/token", Some((&self.id, &self.secret)), &form)
    }
}

/// The rest of a redirection after `start`.
#[track_caller]
fn target<'r>(response: &'r Response, start: &str) -> &'r str {
    assert_eq!(response.status, 303, "{}{}", response.head, response.text());
    let location = response.header("location").unwrap();
    location.strip_prefix(start).unwrap_or_else(|| panic!("{location} is not below {start}"))
}

#[track_caller]
fn parameter(query: &str, name: &str) -> String {
    let mut fields = query.split(['?', '&']).filter_map(|field| field.split_once('='));
    fields
        .find(|(other, _)| *other == name)
        .unwrap_or_else(|| panic!("{name} in {query}"))
        .1
        .to_owned()
}

/// The value of a hidden field of a page.
#[track_caller]
fn hidden(page: &Response, name: &str) -> String {
    let text = page.text();
    let start = format!("name=\"{name}\" value=\"");
    let (_, rest) = text.split_once(&start).unwrap_or_else(|| panic!("{name} in {text}"));
    rest.split_once('"').unwrap().0.to_owned()
}

#[test]
fn a_user_signs_in_at_a_provider_and_decides_here() {
    let setup = Setup::new();
    let first = setup.manager.get(&format!("/oauth2/authorize?{}", setup.request()));
    let button = "name=\"provider\" value=\"corp\">Continue with Corporate &lt;login&gt;<";
    assert!(first.text().contains(button), "{}", first.text());
    let (page, proof) = setup.page();
    assert!(page.text().contains("corp/ann"), "{}", page.text());
    assert!(!page.text().contains("type=\"password\""), "{}", page.text());
    let denied = setup.post(&format!("{}&signed_in={proof}&decision=deny", setup.request()));
    assert_eq!(parameter(target(&denied, APP), "error"), "access%5Fdenied");
    let issued = setup.tokens(&proof);
    let login = (setup.id.as_str(), setup.secret.as_str());
    let token = issued["access_token"].as_str().unwrap();
    let form = format!("token={token}");
    let claims = success(&setup.manager.post("/oauth2/introspect", Some(login), &form));
    assert_eq!((&claims["username"], &claims["roles"]), (&json!("corp/ann"), &json!(["reader"])));
    let bearer = format!("Authorization: Bearer {token}\r\n");
    let info = success(&setup.manager.connect().fetch("GET /oauth2/userinfo", &bearer));
    assert_eq!(info["roles"], json!(["reader"]));
    let (_, list) = setup.manager.command(&["user", "list"]);
    assert_eq!(list, "admin (admin)\ncorp/ann (corp): reader\n");
    // The user has no password here.
    let form = format!("{}&username=corp%2Fann&password=&decision=allow", setup.request());
    assert_eq!(setup.post(&form).status, 403);
}

#[test]
fn a_client_that_asks_for_a_new_sign_in_gets_one() {
    let setup = Setup::new();
    for (more, sent) in [
        ("", ""),
        ("&prompt=login", "&prompt=login&max_age=0"),
        ("&max_age=0", "&prompt=login&max_age=0"),
        ("&max_age=60", "&max_age=60"),
        ("&prompt=consent", ""),
    ] {
        let form = format!("{}{more}", setup.request());
        let page = setup.manager.get(&format!("/oauth2/authorize?{form}"));
        if let Some((name, value)) = more.trim_start_matches('&').split_once('=') {
            let field = format!("name=\"{name}\" value=\"{value}\"");
            assert!(page.text().contains(&field), "{}", page.text());
        }
        let begun = setup.post(&format!("{form}&provider=corp"));
        let query = target(&begun, &setup.origin);
        assert!(query.ends_with(&format!("&code_challenge_method=S256{sent}")), "{query}");
    }
    let wrong = setup.manager.get(&format!("/oauth2/authorize?{}&max_age=soon", setup.request()));
    assert_eq!(parameter(target(&wrong, APP), "error"), "invalid%5Frequest");
}

#[test]
fn the_provider_proves_a_new_sign_in_and_the_client_learns_when_it_was() {
    let setup = Setup::new();
    // The provider's `auth_time`: an hour ago, or absent.
    for (more, auth_s, why) in [
        ("&max_age=60", "auth_s - 3600", Some("the user signed in before `max_age`")),
        ("&prompt=login", "auth_s - 3600", Some("the user signed in before `max_age`")),
        ("&max_age=60", "0", Some("it has no `auth_time`")),
        ("&max_age=7200", "auth_s - 3600", None),
        ("", "auth_s - 3600", None),
        ("", "0", None),
    ] {
        let (mut browser, form) = (setup.browser(), setup.request() + more);
        let sent = setup.post(&format!("{form}&provider=corp"));
        browser.store(&sent);
        let start = format!("{}/oauth2/authorize?", setup.origin);
        // The user removes the parameters on the way.
        let query = target(&sent, &start).replace("&prompt=login", "").replace("&max_age=", "&x=");
        let back = setup.sign_in(&query);
        setup.provider.sql(&format!("UPDATE codes SET auth_s = {auth_s}"));
        let page = browser.open(&back);
        if let Some(why) = why {
            assert_eq!(page.status, 403, "{more} {auth_s}");
            setup.manager.process.wait_for(why);
            continue;
        }
        let proof = hidden(&page, "signed_in");
        let issued = setup.tokens_of(&format!("{form}&signed_in={proof}"));
        let payload = issued["id_token"].as_str().unwrap().split('.').nth(1).unwrap().to_owned();
        let claims: Value =
            serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(payload).unwrap()).unwrap();
        let age_s = claims["auth_time"].as_u64().map(|time| claims["iat"].as_u64().unwrap() - time);
        assert_eq!(
            age_s.map(|age_s| (3_600..3_660).contains(&age_s)),
            (auth_s != "0").then_some(true)
        );
    }
}

#[test]
fn a_session_of_a_provider_user_is_not_prolonged_and_ends_with_the_user() {
    let setup = Setup::new();
    let issued = setup.tokens(&setup.page().1);
    // The sign-in was almost a day ago.
    setup.manager.sql("UPDATE tokens SET expires_s = expires_s - 86400 + 600");
    let last = || setup.manager.sql("SELECT MAX(expires_s) FROM tokens");
    let before = last();
    let renewed = success(&setup.refresh(&issued));
    assert_eq!(last(), before, "neither the refresh token nor the access token ends later");
    assert!(renewed["expires_in"].as_u64().unwrap() <= 600, "{renewed}");
    assert_eq!(setup.manager.command(&["user", "remove", "corp/ann"]).0, Some(0));
    assert_eq!(error(&setup.refresh(&renewed)), "400 invalid_grant");
}

#[test]
fn nobody_signs_in_with_the_response_of_another_sign_in() {
    let setup = Setup::new();
    let mut browser = setup.browser();
    let query = setup.begin(&mut browser);
    let back = setup.sign_in(&query);
    let cookies = browser.cookies.clone();
    let mut check = |path: &str, why: &str| {
        browser.cookies.clone_from(&cookies);
        let refused = browser.open(path);
        assert_eq!(refused.status, 403, "{why}: {}", refused.text());
        assert!(browser.cookies.is_empty(), "{why}");
        setup.manager.process.wait_for(why);
    };
    let state = parameter(&back, "state");
    let iss = parameter(&back, "iss");
    check(&back.replace(&state, "another"), "it was not begun in this browser");
    check(&back.replace(&format!("&iss={iss}"), ""), "the response has no `iss`");
    check(&back.replace(&iss, "https%3A%2F%2Fevil.example"), "the response is from another issuer");
    let refused = back.replace("code=", "error=access_denied&x=");
    check(&refused, "the provider returned an error");
    // The code of another person's sign-in, with a verifier of its own.
    let other = setup.sign_in(&setup.begin(&mut setup.browser()));
    let injected = back.replace(&parameter(&back, "code"), &parameter(&other, "code"));
    check(&injected, "status 400");
    // Without the cookie: a link of another person.
    let mut stranger = setup.browser();
    assert_eq!(stranger.open(&other).status, 403);
    // The right one, once.
    browser.cookies.clone_from(&cookies);
    assert_eq!(browser.open(&back).status, 200);
    browser.cookies.clone_from(&cookies);
    assert_eq!(browser.open(&back).status, 403, "the code was exchanged");
}

#[test]
fn failed_sign_ins_of_an_address_are_slowed_before_the_provider_is_asked() {
    let setup = Setup::new();
    let mut browser = setup.browser();
    let query = setup.begin(&mut browser);
    let back = setup.sign_in(&query);
    let wrong = back.replace(&parameter(&back, "code"), "another");
    let cookies = browser.cookies.clone();
    let mut statuses = (0..60).map(|_| {
        browser.cookies.clone_from(&cookies);
        browser.open(&wrong).status
    });
    assert_eq!(statuses.next(), Some(403));
    assert!(statuses.any(|status| status == 429));
}

#[test]
fn the_proof_of_a_sign_in_is_for_its_user_and_its_request() {
    let setup = Setup::new();
    let (_, proof) = setup.page();
    let request = setup.request();
    for (form, why) in [
        (format!("{request}&signed_in={proof}x"), "it was changed"),
        (format!("{request}&signed_in=&username=corp%2Fann"), "there is none"),
        (request.replace("state=x", "state=y") + &format!("&signed_in={proof}"), "another request"),
        (
            request.replace("scope=openid", "scope=read") + &format!("&signed_in={proof}"),
            "more scope",
        ),
    ] {
        assert_eq!(setup.post(&format!("{form}&decision=allow")).status, 403, "{why}");
    }
    let (_, codes) = setup.device();
    let code = codes["user_code"].as_str().unwrap();
    let form = format!("user_code={code}&signed_in={proof}&decision=allow");
    let device = setup.manager.post("/oauth2/device", None, &form);
    assert_eq!(device.status, 403, "the proof is for another page");
    setup.tokens(&proof);
    // Another person has the name by now.
    setup.manager.sql("UPDATE users SET created_s = created_s + 600 WHERE name = 'corp/ann'");
    let again = setup.post(&format!("{request}&signed_in={proof}&decision=allow"));
    assert_eq!(again.status, 403, "{}", again.text());
}

#[test]
fn the_name_of_a_provider_user_does_not_become_that_of_another_one() {
    let setup = Setup::new();
    setup.page();
    setup.manager.sql("UPDATE users SET source_id = 'another' WHERE name = 'corp/ann'");
    let mut browser = setup.browser();
    let back = setup.sign_in(&setup.begin(&mut browser));
    assert_eq!(browser.open(&back).status, 403);
    setup.manager.process.wait_for("the name of a user has become that of another one");
    let unknown = setup.post(&format!("{}&provider=other", setup.request()));
    assert_eq!(unknown.status, 404);
}

#[test]
fn a_provider_user_whose_name_has_changed_does_not_get_a_second_one() {
    let setup = Setup::new();
    setup.page();
    setup.manager.sql("UPDATE users SET name = 'corp/former' WHERE name = 'corp/ann'");
    let mut browser = setup.browser();
    let back = setup.sign_in(&setup.begin(&mut browser));
    assert_eq!(browser.open(&back).status, 403);
    setup.manager.process.wait_for("a user has another name already");
    assert_eq!(setup.manager.command(&["user", "remove", "corp/former"]).0, Some(0));
    assert!(setup.page().0.text().contains("corp/ann"));
}

#[test]
fn a_device_is_connected_by_a_user_of_a_provider() {
    let setup = Setup::new();
    let (id, codes) = setup.device();
    let user_code = codes["user_code"].as_str().unwrap();
    let mut browser = setup.browser();
    let form = format!("user_code={user_code}&provider=corp");
    let sent = setup.manager.post("/oauth2/device", None, &form);
    browser.store(&sent);
    let query = target(&sent, &format!("{}/oauth2/authorize?", setup.origin)).to_owned();
    let page = browser.open(&setup.sign_in(&query));
    assert!(page.text().contains(user_code), "{}", page.text());
    let form =
        format!("user_code={user_code}&signed_in={}&decision=allow", hidden(&page, "signed_in"));
    assert_eq!(setup.manager.post("/oauth2/device", None, &form).status, 200);
    let device_code = codes["device_code"].as_str().unwrap();
    let form = format!(
        "grant_type=urn:ietf:params:oauth:grant-type:device_code&client_id={id}&device_code={device_code}"
    );
    let issued = success(&setup.manager.post("/oauth2/token", None, &form));
    assert!(issued["access_token"].is_string());
}

#[test]
fn a_provider_that_does_not_respond_leaves_the_password() {
    let Setup { provider, manager, id, .. } = Setup::new();
    drop(provider);
    let form = format!(
        "response_type=code&client_id={id}&redirect_uri=https%3A%2F%2Fapp.example%2Fcallback\
         &code_challenge={CHALLENGE}&code_challenge_method=S256"
    );
    let away = manager.post("/oauth2/authorize", None, &format!("{form}&provider=corp"));
    assert_eq!((away.status, away.header("retry-after")), (503, Some("5")));
    assert!(away.text().contains("The provider does not respond"), "{}", away.text());
    let own = "&username=admin&password=correct+horse+battery&decision=allow";
    assert_eq!(manager.post("/oauth2/authorize", None, &format!("{form}{own}")).status, 303);
}

#[test]
fn a_sign_in_waits_for_a_provider_that_is_only_down() {
    let setup = Setup::new();
    let mut browser = setup.browser();
    let back = setup.sign_in(&setup.begin(&mut browser));
    let outage = back.replace("code=", "error=temporarily_unavailable&x=");
    let stopped = setup.provider.stop();
    for path in [&outage, &back] {
        let away = browser.open(path);
        assert_eq!((away.status, away.header("retry-after")), (503, Some("5")), "{}", away.text());
        assert!(away.text().contains("The provider does not respond"), "{}", away.text());
    }
    let _provider = stopped.start();
    let page = browser.open(&back);
    assert_eq!(page.status, 200, "the same request: {}", page.text());
}
