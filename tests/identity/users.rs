//! Users beside the administrator, as the command line adds and removes them.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::grants::{ACCESS_TOKEN, EXCHANGE};
use crate::key_manager::{KeyManager, PASSWORD, basic, error, success};

const MARK: &str = "password (shown only now): ";

/// Runs a command that prints a password.
fn printed(manager: &KeyManager, arguments: &[&str]) -> String {
    let (code, text) = manager.command(arguments);
    assert_eq!(code, Some(0), "{text}");
    let (_, password) = text.split_once(MARK).expect("a password");
    password.lines().next().unwrap().to_owned()
}

/// Adds a user, who replaces the password that is printed.
fn added(manager: &KeyManager, name: &str, flags: &[&str]) -> String {
    let one_time = printed(manager, &[&["user", "add", name], flags].concat());
    let password = format!("chosen-by-{name}");
    assert_eq!(manager.replace_password(name, &one_time, &password).status, 200);
    password
}

fn sign_in(manager: &KeyManager, login: (&str, &str), name: &str, password: &str) -> String {
    let form = format!("grant_type=password&username={name}&password={password}");
    let response = manager.post("/oauth2/token", Some(login), &form);
    match response.status {
        200 => success(&response)["access_token"].as_str().unwrap().to_owned(),
        _ => error(&response),
    }
}

#[test]
fn a_user_signs_in_until_the_password_is_replaced_or_the_user_removed() {
    let manager = KeyManager::start();
    for token_type in ["JWT", "OAUTH"] {
        let more = json!({ "grantType": "password", "tokenType": token_type });
        let (id, secret) = manager.register(token_type, more);
        let login = (id.as_str(), secret.as_str());
        let first = added(&manager, "ann", &[]);
        let token = sign_in(&manager, login, "ann", &first);
        assert!(manager.is_active(login, &token));
        assert_eq!(sign_in(&manager, login, "ann", "another"), "400 invalid_grant");

        manager.files.write("second", "a chosen one\n");
        let replace = ["user", "password", "ann", "--password-file", "second"];
        assert_eq!(manager.command(&replace), (Some(0), String::new()));
        assert_eq!(sign_in(&manager, login, "ann", &first), "400 invalid_grant");
        let chosen = sign_in(&manager, login, "ann", "a+chosen+one");
        assert!(!manager.is_active(login, &token), "{token_type}");
        assert!(manager.is_active(login, &chosen));

        assert_eq!(manager.command(&["user", "remove", "ann"]).0, Some(0));
        assert!(!manager.is_active(login, &chosen), "{token_type}");
        assert_eq!(sign_in(&manager, login, "ann", "a+chosen+one"), "400 invalid_grant");
    }
}

#[test]
fn a_printed_password_is_valid_only_for_being_replaced() {
    let manager = KeyManager::with("api_keys = {}\n");
    let profile = json!({
        "grantType": "password authorization_code", "callbackUrl": "https://app.example/back",
    });
    let (id, secret) = manager.register("app", profile);
    let login = (id.as_str(), secret.as_str());
    let basic_with = |password: &str| {
        let as_user = Some(("ann", password));
        let path = "/client-registration/v0.17/register";
        let registration = manager.post_json(path, as_user, &json!({ "clientName": "a" }));
        let key = manager.post("/oauth2/apikey", as_user, "");
        let introspection = manager.post("/oauth2/introspect", as_user, "token=x");
        [registration, key, introspection].map(|response| {
            let named = response.text().contains("/account/password");
            (response.status, named)
        })
    };
    let page = |password: &str| {
        let form = format!(
            "response_type=code&client_id={id}&redirect_uri=https%3A%2F%2Fapp.example%2Fback\
             &code_challenge={}&code_challenge_method=S256&username=ann&password={password}\
             &decision=allow",
            "x".repeat(43)
        );
        manager.post("/oauth2/authorize", None, &form)
    };
    for command in [&["user", "add", "ann", "--admin"][..], &["user", "password", "ann"]] {
        let one_time = printed(&manager, command);
        let form = format!("grant_type=password&username=ann&password={one_time}");
        let refused = manager.post("/oauth2/token", Some(login), &form);
        assert_eq!(error(&refused), "400 invalid_grant");
        assert!(refused.text().contains("/account/password"), "{}", refused.text());
        assert_eq!(basic_with(&one_time), [(403, true); 3], "{command:?}");
        let again = page(&one_time);
        assert_eq!(again.status, 403);
        assert!(again.text().contains("href=\"/account/password\""), "{}", again.text());

        let replaced = manager.replace_password("ann", &one_time, "chosen-by-ann");
        assert_eq!(replaced.status, 200, "{}", replaced.text());
        assert_eq!(basic_with("chosen-by-ann"), [(200, false); 3]);
        assert_eq!(page("chosen-by-ann").status, 303);
        assert_eq!(basic_with(&one_time), [(401, false); 3]);
    }
    assert_eq!(manager.replace_password("admin", PASSWORD, "the next one").status, 200);

    // For some days.
    let one_time = printed(&manager, &["user", "password", "ann"]);
    let days = |days: u32| {
        let past = days * 86_400;
        manager.sql(&format!("UPDATE users SET one_time = one_time - {past} WHERE name = 'ann'"));
        manager.replace_password("ann", &one_time, "chosen-by-ann")
    };
    let expired = days(7);
    assert_eq!(expired.status, 403);
    assert!(expired.text().contains("has expired"), "{}", expired.text());
    assert_eq!(basic_with(&one_time), [(403, true); 3]);
    manager.sql("UPDATE users SET one_time = one_time + 86400 WHERE name = 'ann'");
    assert_eq!(days(0).status, 200);
}

#[test]
fn a_user_replaces_a_password_with_the_present_one_and_no_guess() {
    let manager = KeyManager::start();
    let (id, secret) = manager.register("app", json!({ "grantType": "password" }));
    let login = (id.as_str(), secret.as_str());
    let first = added(&manager, "ann", &[]);
    let token = sign_in(&manager, login, "ann", &first);
    let asked = manager.get("/account/password");
    assert_eq!(asked.status, 200);
    assert!(asked.text().contains("<form method=\"post\" action=\"/account/password\">"));
    assert!(asked.header("Content-Security-Policy").unwrap().contains("frame-ancestors 'none'"));
    for (old, new, repeated, expect) in [
        ("wrong", "a+second+one", "a+second+one", 403),
        (&*first, "a+second+one", "a+third+one", 400),
        (&*first, "a+second+one", "", 400),
        (&*first, "short", "short", 400),
        (&*first, &*first, &*first, 400),
        ("", "a+second+one", "a+second+one", 403),
    ] {
        let form = format!("username=ann&password={old}&new_password={new}&repeated={repeated}");
        let response = manager.post("/account/password", None, &form);
        assert_eq!(response.status, expect, "{form}: {}", response.text());
    }
    assert!(manager.is_active(login, &token), "nothing has changed");
    let hostile = manager.replace_password("%22%3E%3Cb%3E", "x", "a+second+one");
    assert!(!hostile.text().contains("<b>"), "{}", hostile.text());
    assert_eq!(manager.replace_password("ann", &first, "a+second+one").status, 200);
    assert!(!manager.is_active(login, &token));
    assert_eq!(sign_in(&manager, login, "ann", &first), "400 invalid_grant");
    assert!(manager.is_active(login, &sign_in(&manager, login, "ann", "a+second+one")));
    // Failed attempts count here as elsewhere.
    let mut attempts = (0..100).map(|_| manager.replace_password("ann", "wrong", "a+third+one"));
    assert_eq!(attempts.next().unwrap().status, 403);
    let slowed = attempts.find(|response| response.status != 403).expect("a pause");
    assert_eq!(slowed.status, 429);
    assert!(slowed.text().contains("<form "), "{}", slowed.text());
    assert!(slowed.header("Retry-After").is_some());
}

#[test]
fn only_administrators_register_clients() {
    let manager = KeyManager::start();
    let user = added(&manager, "ann", &[]);
    let admin = added(&manager, "bob", &["--admin"]);
    let (_, list) = manager.command(&["user", "list"]);
    assert_eq!(list, "admin (admin)\nann\nbob (admin)\n");
    let register = |name: &str, password: &str| {
        let path = "/client-registration/v0.17/register";
        let body = json!({ "clientName": "a", "tokenScope": "anything" });
        let response = manager.post_json(path, Some((name, password)), &body);
        let body: Value = serde_json::from_slice(&response.body).unwrap();
        (response.status, body["error"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(register("ann", &user), (403, "access_denied".to_owned()));
    assert_eq!(register("bob", &admin).0, 200);
    assert_eq!(register("admin", PASSWORD).0, 200);
}

#[test]
fn the_clients_of_an_administrator_who_leaves_are_taken_over_or_removed() {
    const PATH: &str = "/api/identity/oauth2/dcr/v1.1/register";
    let manager = KeyManager::start();
    let bob = added(&manager, "bob", &["--admin"]);
    let ann = added(&manager, "ann", &[]);
    let register = |name: &str| {
        let body = json!({ "client_name": name });
        let response = manager.post_json(PATH, Some(("bob", &bob)), &body);
        let body: Value = serde_json::from_slice(&response.body).unwrap();
        ["client_id", "client_secret"].map(|member| body[member].as_str().unwrap().to_owned())
    };
    let send = |method: &str, path: &str, login: (&str, &str)| {
        manager.connect().fetch(&format!("{method} {PATH}{path}"), &basic(Some(login)))
    };
    let ([one, secret], [other, _], [third, _]) =
        (register("one"), register("other"), register("a"));
    let (same, _) = manager.register("a", json!({}));
    let admin = ("admin", PASSWORD);

    // Other administrators see and remove them, other users do not.
    let found = success(&send("GET", &format!("/{one}"), admin));
    assert_eq!((&found["client_name"], &found["owner"]), (&json!("one"), &json!("bob")));
    assert_eq!(found.get("client_secret"), None);
    let list = success(&send("GET", "", admin));
    let ids = |list: &Value| -> BTreeSet<String> {
        let id = |client: &Value| client["client_id"].as_str().unwrap().to_owned();
        list["clients"].as_array().unwrap().iter().map(id).collect()
    };
    assert_eq!(ids(&list), [&one, &other, &third, &same].into_iter().cloned().collect());
    let last = ids(&list).into_iter().next_back().unwrap();
    assert!(ids(&success(&send("GET", &format!("?after={last}"), admin))).is_empty());
    for path in [String::new(), format!("/{one}")] {
        assert_eq!(error(&send("GET", &path, ("ann", &ann))), "403 access_denied");
    }
    assert_eq!(send("DELETE", &format!("/{other}"), ("ann", &ann)).status, 403);
    assert_eq!(send("DELETE", &format!("/{other}"), admin).status, 204);
    assert_eq!(send("GET", &format!("/{other}"), admin).status, 404);

    // The others need a new owner.
    let remove = |heir: &str| manager.command(&["user", "remove", "bob", "--clients-to", heir]);
    for ((code, text), expect) in [
        (manager.command(&["user", "remove", "bob"]), "`bob` has registered 2 clients"),
        (remove("ann"), "`ann` is not an administrator"),
        (remove("bob"), "`bob` is not an administrator"),
        (remove("admin"), "a client of the name `a`"),
    ] {
        assert!(code == Some(1) && text.contains(expect), "{text}");
    }
    assert_eq!(send("DELETE", &format!("/{third}"), admin).status, 204);
    assert_eq!(remove("admin"), (Some(0), String::new()));
    let (_, list) = manager.command(&["clients"]);
    assert!(list.contains(&format!("{one} one (admin)\n")), "{list}");
    let (_, renewed) = manager.register("one", json!({}));
    let status = |secret: &str| {
        let login = Some((one.as_str(), secret));
        manager.post("/oauth2/token", login, "grant_type=client_credentials").status
    };
    assert_eq!((status(&secret), status(&renewed)), (401, 200));
}

#[test]
fn wrong_changes_of_users_are_refused() {
    let manager = KeyManager::start();
    manager.files.write("short", "1234567");
    let long = "x".repeat(191);
    for (arguments, expect) in [
        (&["user", "add", "admin"][..], "already exists"),
        (&["user", "roles", "nobody"], "there is no user `nobody`"),
        (&["user", "roles", "nobody", "--none"], "there is no user `nobody`"),
        (&["user", "password", "nobody"], "there is no user `nobody`"),
        (&["user", "remove", "nobody"], "there is no user `nobody`"),
        (&["user", "add", "a\nb"], "a name has"),
        (&["user", "add", &long], "a name has"),
        (
            &["user", "add", "ann", "--password-file", "short"],
            "a password must be 8 to 256 bytes long",
        ),
        (&["user", "add", "ann", "--password-file", "missing"], "cannot read missing"),
    ] {
        let (code, text) = manager.command(arguments);
        assert_eq!(code, Some(1), "{arguments:?}: {text}");
        assert!(text.contains(expect), "{arguments:?}: {text}");
    }
    assert_eq!(manager.command(&["user", "list"]).1, "admin (admin)\n");
}

#[test]
fn a_scope_of_roles_is_granted_only_to_users_who_have_one() {
    const VERIFIER: &str = "a-verifier-of-at-least-forty-three-characters-0";
    let scope = "[[control.scope]]\nname = \"write\"\nroles = [\"writer\", \"admin\"]\n";
    let manager = KeyManager::with(scope);
    let profile = json!({
        "grantType": "password refresh_token authorization_code client_credentials",
        "callbackUrl": "https://app.example/back", "tokenScope": "read write",
    });
    let (id, secret) = manager.register("app", profile);
    let login = (id.as_str(), secret.as_str());
    manager.files.write("password-file", PASSWORD);
    let run = |arguments: &[&str]| {
        let (code, text) = manager.command(arguments);
        assert_eq!(code, Some(0), "{text}");
    };
    run(&["user", "add", "ann", "--role", "reader", "--password-file", "password-file"]);
    let roles = ["--role", "reader", "--role", "writer", "--password-file", "password-file"];
    run(&[&["user", "add", "bob"], &roles[..]].concat());
    let by_password = |name: &str, scope: &str| {
        let password = PASSWORD.replace(' ', "+");
        let form = format!("grant_type=password&username={name}&password={password}&scope={scope}");
        manager.token(login, &form)
    };
    let by_code = |name: &str| {
        let challenge = jose::token_hash_text(&jose::sha256(VERIFIER.as_bytes()));
        let redirect = "https%3A%2F%2Fapp.example%2Fback";
        let form = format!(
            "response_type=code&client_id={id}&redirect_uri={redirect}&scope=read+write\
             &code_challenge={challenge}&code_challenge_method=S256&username={name}&password={}\
             &decision=allow",
            PASSWORD.replace(' ', "+")
        );
        let response = manager.post("/oauth2/authorize", None, &form);
        let to = response.header("Location").unwrap_or_else(|| panic!("{}", response.text()));
        let (_, code) = to.split_once("code=").unwrap();
        let code = code.split('&').next().unwrap();
        let form = format!(
            "grant_type=authorization_code&code={code}&redirect_uri={redirect}\
             &code_verifier={VERIFIER}"
        );
        manager.token(login, &form)
    };
    for (name, expect) in [("ann", "read"), ("bob", "read write"), ("admin", "read write")] {
        assert_eq!(by_password(name, "read+write")["scope"], expect, "{name}");
        assert_eq!(by_code(name)["scope"], expect, "{name}");
    }
    assert_eq!(by_password("ann", "write")["scope"], "default");
    let own = manager.token(login, "grant_type=client_credentials&scope=read+write");
    assert_eq!(own["scope"], "read write", "of the application itself");
    let claims = |token: &Value| -> Value {
        let payload = token["access_token"].as_str().unwrap().split('.').nth(1).unwrap();
        serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(payload).unwrap()).unwrap()
    };
    let of_bob = by_password("bob", "read+write");
    assert_eq!(claims(&of_bob)["roles"], json!(["reader", "writer"]));
    assert_eq!(claims(&by_password("admin", "read"))["roles"], json!(["admin"]));

    // By token exchange, of which the result is opaque.
    let profile =
        json!({ "grantType": EXCHANGE, "tokenScope": "read write", "tokenType": "OAUTH" });
    let (service, secret) = manager.register("service", profile);
    let service = (service.as_str(), secret.as_str());
    let exchanged = |token: &Value| {
        let token = token["access_token"].as_str().unwrap();
        let form = format!(
            "grant_type={EXCHANGE}&subject_token={token}&subject_token_type={ACCESS_TOKEN}\
             &scope=read+write"
        );
        let issued = manager.token(service, &form);
        let opaque = issued["access_token"].as_str().unwrap();
        let form = format!("token={opaque}");
        let known = success(&manager.post("/oauth2/introspect", Some(service), &form));
        [issued["scope"].clone(), known["scope"].clone()]
    };
    assert_eq!(exchanged(&of_bob), ["read write", "read write"]);

    // Roles are those of now.
    run(&["user", "roles", "bob", "reader"]);
    assert_eq!(exchanged(&of_bob), ["read", "read"]);
    let refresh = |token: &Value| {
        let token = token["refresh_token"].as_str().unwrap();
        manager.token(login, &format!("grant_type=refresh_token&refresh_token={token}"))
    };
    let renewed = refresh(&of_bob);
    assert_eq!((&renewed["scope"], &claims(&renewed)["scope"]), (&json!("read"), &json!("read")));
    run(&["user", "roles", "ann", "writer"]);
    assert_eq!(by_password("ann", "read+write")["scope"], "read write");
    assert_eq!(manager.command(&["user", "roles", "ann"]).1, "writer\n", "they stay");
    let (_, list) = manager.command(&["user", "list"]);
    assert_eq!(list, "admin (admin)\nann: writer\nbob: reader\n");
    run(&["user", "roles", "ann", "--none"]);
    assert_eq!(manager.command(&["user", "roles", "ann"]), (Some(0), String::new()));
    assert_eq!(claims(&by_password("ann", "read+write")).get("roles"), None);
    let (code, text) = manager.command(&["user", "roles", "ann", "admin"]);
    assert!(code == Some(1) && text.contains("user add --admin"), "{text}");
}
