//! The authorisation code grant with PKCE, as a browser and a client go through it.

use harness::{Response, wait_until};
use serde_json::{Value, json};

use crate::key_manager::{ISS, KeyManager, SIGN_IN, error, success};

const REDIRECT: &str = "https://app.example/callback?a=b";
const ENCODED_REDIRECT: &str = "https%3A%2F%2Fapp.example%2Fcallback%3Fa%3Db";
/// Source: RFC 7636 appendix B.
const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
const ALLOW: &str = "&username=admin&password=correct+horse+battery&decision=allow";

struct App {
    manager: KeyManager,
    id: String,
    secret: String,
}

impl App {
    fn new(name: &str) -> Self {
        let manager = KeyManager::start();
        let (id, secret) = manager.register(
            name,
            json!({
                "grantType": "authorization_code refresh_token",
                "callbackUrl": REDIRECT,
                "tokenScope": "read write",
                "tokenType": "OAUTH",
            }),
        );
        Self { manager, id, secret }
    }

    /// The parameters of a valid request.
    fn request(&self) -> String {
        format!(
            "response_type=code&client_id={}&redirect_uri={ENCODED_REDIRECT}&scope=read&state=x%26y\
             &code_challenge={CHALLENGE}&code_challenge_method=S256",
            self.id
        )
    }

    fn decide(&self, parameters: &str) -> Response {
        self.manager.post("/oauth2/authorize", None, parameters)
    }

    /// The code that a user's consent results in.
    fn code(&self) -> String {
        let response = self.decide(&(self.request() + ALLOW));
        assert_eq!(response.status, 303, "{}", response.text());
        parameter(&response, "code").expect("a code")
    }

    fn exchange(&self, code: &str, verifier: &str) -> Response {
        let form = format!(
            "grant_type=authorization_code&code={code}&redirect_uri={ENCODED_REDIRECT}\
             &code_verifier={verifier}"
        );
        self.manager.post("/oauth2/token", Some((&self.id, &self.secret)), &form)
    }
}

/// A parameter of the redirection.
fn parameter(response: &Response, name: &str) -> Option<String> {
    let location = response.header("Location").expect("a redirection");
    let query = location.strip_prefix(REDIRECT).expect("to the redirect URI");
    let mut fields = query.split('&').filter_map(|field| field.split_once('='));
    let (_, value) = fields.find(|(other, _)| *other == name)?;
    Some(value.to_owned())
}

fn text(body: &Value, name: &str) -> String {
    body[name].as_str().unwrap_or_else(|| panic!("{name} in {body}")).to_owned()
}

#[test]
fn a_user_signs_in_and_the_client_gets_tokens() {
    let app = App::new("An <app> & \"more\"");
    let page = app.manager.get(&format!("/oauth2/authorize?{}", app.request()));
    assert_eq!(page.status, 200);
    let html = page.text();
    assert!(html.contains("An &lt;app&gt; &amp; &quot;more&quot;"), "{html}");
    assert!(html.contains("name=\"state\" value=\"x&amp;y\""), "{html}");
    assert!(!html.contains("<script"), "{html}");
    let policy = page.header("Content-Security-Policy").unwrap();
    assert!(policy.contains("frame-ancestors 'none'"), "{policy}");

    let wrong = app.request() + "&username=admin&password=guess&decision=allow";
    let again = app.decide(&wrong);
    assert_eq!(again.status, 403);
    assert!(again.text().contains("wrong password") && !again.text().contains("guess"));

    let response = app.decide(&(app.request() + ALLOW));
    assert_eq!(parameter(&response, "state").as_deref(), Some("x%26y"));
    let iss = ISS.replace(':', "%3A").replace('/', "%2F").replace('.', "%2E");
    assert_eq!(parameter(&response, "iss"), Some(iss));
    let issued = success(&app.exchange(&parameter(&response, "code").unwrap(), VERIFIER));
    assert_eq!(issued["scope"], "read");
    let login = (app.id.as_str(), app.secret.as_str());
    assert!(app.manager.is_active(login, &text(&issued, "access_token")));
    let form = format!("grant_type=refresh_token&refresh_token={}", text(&issued, "refresh_token"));
    success(&app.manager.post("/oauth2/token", Some(login), &form));
}

#[test]
fn a_code_that_is_used_twice_revokes_its_tokens() {
    let app = App::new("app");
    let code = app.code();
    let issued = success(&app.exchange(&code, VERIFIER));
    let login = (app.id.as_str(), app.secret.as_str());
    let token = text(&issued, "access_token");
    assert!(app.manager.is_active(login, &token));
    // The code alone revokes nothing.
    let wrong = VERIFIER.replace('d', "e");
    assert_eq!(error(&app.exchange(&code, &wrong)), "400 invalid_grant");
    assert!(app.manager.is_active(login, &token));
    assert_eq!(error(&app.exchange(&code, VERIFIER)), "400 invalid_grant");
    assert!(!app.manager.is_active(login, &token));
}

#[test]
fn of_two_exchanges_of_a_code_at_once_one_succeeds_and_nothing_stays_valid() {
    let app = App::new("app");
    let code = app.code();
    let responses = std::thread::scope(|scope| {
        let exchange = || app.exchange(&code, VERIFIER);
        let both = [scope.spawn(exchange), scope.spawn(exchange)];
        both.map(|thread| thread.join().unwrap())
    });
    let mut statuses = responses.each_ref().map(|response| response.status);
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 400]);
    let issued = success(responses.iter().find(|response| response.status == 200).unwrap());
    let login = (app.id.as_str(), app.secret.as_str());
    assert!(!app.manager.is_active(login, &text(&issued, "access_token")));
}

#[test]
fn a_code_is_kept_while_there_are_tokens_that_its_replay_revokes_and_no_longer() {
    let app = App::new("app");
    let exchanged = app.code();
    let issued = success(&app.exchange(&exchanged, VERIFIER));
    let unused = app.code();
    let codes = |manager: &KeyManager| {
        manager.sql("SELECT COUNT(*) FROM codes").trim().parse::<u32>().unwrap()
    };
    app.manager.sql("UPDATE codes SET expires_s = 1");
    assert_eq!(codes(&app.manager), 2);
    // A start first removes expired rows.
    let App { manager, id, secret } = app;
    let manager = manager.restart();
    let app = App { manager, id, secret };
    wait_until(|| codes(&app.manager) != 2);
    assert_eq!(codes(&app.manager), 1);
    assert_eq!(error(&app.exchange(&unused, VERIFIER)), "400 invalid_grant");
    assert_eq!(error(&app.exchange(&exchanged, VERIFIER)), "400 invalid_grant");
    let login = (app.id.as_str(), app.secret.as_str());
    assert!(!app.manager.is_active(login, &text(&issued, "access_token")));
}

#[test]
fn a_code_that_was_stored_after_the_removal_of_its_user_is_not_exchanged() {
    let app = App::new("app");
    for change in ["UPDATE users SET created_s = created_s + 600", "DELETE FROM users"] {
        let code = app.code();
        app.manager.sql(change);
        assert_eq!(error(&app.exchange(&code, VERIFIER)), "400 invalid_grant", "{change}");
    }
}

#[test]
fn a_code_is_only_for_its_client_verifier_and_redirect_uri() {
    let app = App::new("app");
    let wrong = VERIFIER.replace('d', "e");
    assert_eq!(error(&app.exchange(&app.code(), &wrong)), "400 invalid_grant");
    assert_eq!(error(&app.exchange(&app.code(), "")), "400 invalid_request");
    let thief = app.manager.register(
        "thief",
        json!({
            "grantType": "authorization_code",
            "callbackUrl": REDIRECT,
        }),
    );
    let form = |code: &str, redirect: &str| {
        format!(
            "grant_type=authorization_code&code={code}&redirect_uri={redirect}\
             &code_verifier={VERIFIER}"
        )
    };
    let token = |login, form: &str| app.manager.post("/oauth2/token", Some(login), form);
    let stolen = token((&thief.0, &thief.1), &form(&app.code(), ENCODED_REDIRECT));
    assert_eq!(error(&stolen), "400 invalid_grant");
    let elsewhere = token((&app.id, &app.secret), &form(&app.code(), "https://app.example/"));
    assert_eq!(error(&elsewhere), "400 invalid_grant");
}

#[test]
fn errors_go_to_the_client_only_at_an_address_that_it_registered() {
    let app = App::new("app");
    let request = app.request();
    for (from, to) in [
        (ENCODED_REDIRECT, "https%3A%2F%2Fevil.example%2F"),
        (ENCODED_REDIRECT, "https%3A%2F%2Fapp.example%2Fcallback"),
        (ENCODED_REDIRECT, "https%3A%2F%2Fapp.example%2Fcallback%3Fa%3Db%26c"),
        (app.id.as_str(), "unknown"),
    ] {
        for response in [
            app.manager.get(&format!("/oauth2/authorize?{}", request.replace(from, to))),
            app.decide(&(request.replace(from, to) + ALLOW)),
        ] {
            assert_eq!(error(&response), "400 invalid_request", "{to}");
            assert_eq!(response.header("Location"), None);
        }
    }
    for (from, to, expect) in [
        ("response_type=code", "response_type=token", "unsupported%5Fresponse%5Ftype"),
        ("code_challenge_method=S256", "code_challenge_method=plain", "invalid%5Frequest"),
        (CHALLENGE, "short", "invalid%5Frequest"),
    ] {
        let response = app.manager.get(&format!("/oauth2/authorize?{}", request.replace(from, to)));
        assert_eq!(response.status, 303, "{to}");
        assert_eq!(parameter(&response, "error").as_deref(), Some(expect));
        let response = app.decide(&(request.replace(from, to) + ALLOW));
        assert_eq!(parameter(&response, "code"), None, "{to}");
    }
    let denied = app.decide(&(request + "&decision=deny"));
    assert_eq!(parameter(&denied, "error").as_deref(), Some("access%5Fdenied"));
}

#[test]
fn a_client_without_a_secret_needs_the_verifier_and_may_do_nothing_else() {
    let manager = KeyManager::start();
    let path = "/api/identity/oauth2/dcr/v1.1/register";
    let login = Some(("admin", crate::key_manager::PASSWORD));
    let metadata = |grants: &[&str]| {
        json!({
            "client_name": "phone",
            "token_endpoint_auth_method": "none",
            "grant_types": grants,
            "redirect_uris": [REDIRECT],
            "scope": "read",
        })
    };
    let refused = manager.post_json(path, login, &metadata(&["client_credentials"]));
    assert_eq!(error(&refused), "400 invalid_client_metadata");
    let grants = ["authorization_code", "refresh_token"];
    let registered = manager.post_json(path, login, &metadata(&grants));
    assert_eq!(registered.status, 201, "{}", registered.text());
    let body: Value = serde_json::from_slice(&registered.body).unwrap();
    assert_eq!(body.get("client_secret"), None);
    let app = App { manager, id: text(&body, "client_id"), secret: String::new() };
    let token = |form: &str| {
        app.manager.post("/oauth2/token", None, &format!("{form}&client_id={}", app.id))
    };
    let form = |verifier: &str| {
        format!(
            "grant_type=authorization_code&code={}&redirect_uri={ENCODED_REDIRECT}\
             &code_verifier={verifier}",
            app.code()
        )
    };
    assert_eq!(error(&token(&form("guess"))), "400 invalid_grant");
    let issued = success(&token(&form(VERIFIER)));
    let refresh =
        format!("grant_type=refresh_token&refresh_token={}", text(&issued, "refresh_token"));
    success(&token(&refresh));
    assert_eq!(error(&token("grant_type=client_credentials")), "400 unauthorized_client");
    for secret in ["", "x"] {
        let login = Some((app.id.as_str(), secret));
        let response = app.manager.post("/oauth2/token", login, &form(VERIFIER));
        assert_eq!(error(&response), "401 invalid_client", "a secret that it does not have");
    }
    let form = format!("token={}&client_id={}", text(&issued, "access_token"), app.id);
    let response = app.manager.post("/oauth2/introspect", None, &form);
    assert_eq!(error(&response), "401 invalid_client");
}

#[test]
fn redirect_uris_that_could_leak_a_code_are_not_registered() {
    let manager = KeyManager::start();
    for (uri, status) in [
        ("http://app.example/", 400),
        ("https://app.example/#a", 400),
        ("javascript://app.example/%0aalert(1)", 400),
        ("/callback", 400),
        ("http://localhost:7777/callback", 200),
        ("com.example.app://callback/", 200),
        ("com.example.app:/callback", 200),
        ("com.example.app:callback", 400),
        ("http://127.0.0.1/callback", 200),
    ] {
        let body = json!({ "clientName": uri, "callbackUrl": uri });
        let path = "/client-registration/v0.17/register";
        let login = Some(("admin", crate::key_manager::PASSWORD));
        let response = manager.post_json(path, login, &body);
        assert_eq!(response.status, status, "{uri}: {}", response.text());
    }
}

#[test]
fn the_callback_of_wso2s_examples_is_registered_and_no_code_is_sent_there() {
    let manager = KeyManager::start();
    for callback in ["www.google.lk", "wso2.org", "localhost/callback", ""] {
        let more = json!({
            "callbackUrl": callback,
            "grantType": "authorization_code password refresh_token",
            "tokenScope": "Production",
        });
        let (id, secret) = manager.register("rest_api_admin", more);
        manager.token((&id, &secret), SIGN_IN);
        let query = format!(
            "response_type=code&client_id={id}&redirect_uri={callback}\
             &code_challenge={CHALLENGE}&code_challenge_method=S256"
        );
        let asked = manager.get(&format!("/oauth2/authorize?{query}"));
        let decided = manager.post("/oauth2/authorize", None, &(query + ALLOW));
        for response in [asked, decided] {
            assert_eq!(error(&response), "400 invalid_request", "{callback}");
            assert_eq!(response.header("Location"), None);
        }
    }
}
