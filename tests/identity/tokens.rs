//! Opaque and refresh tokens, revocation, and the keys that sign.

use harness::Issuer;
use serde_json::{Value, json};

use crate::key_manager::{KeyManager, error, success};
use crate::openid::claims;

fn text<'a>(issued: &'a Value, name: &str) -> &'a str {
    issued[name].as_str().unwrap_or_else(|| panic!("{name} in {issued}"))
}

const PASSWORD_GRANT: &str =
    "grant_type=password&username=admin&password=correct%20horse%20battery&scope=read";

/// A client for the password grant, with refresh tokens.
fn with_refresh(manager: &KeyManager, token_type: &str) -> (String, String) {
    let more = json!({
        "grantType": "password refresh_token",
        "tokenScope": "read write",
        "tokenType": token_type,
    });
    manager.register(&format!("mobile {token_type}"), more)
}

#[test]
fn tokens_are_valid_for_as_long_as_configured() {
    let manager = KeyManager::with("access_token_s = 120\nrefresh_token_s = 600\n");
    for (token_type, access_kind) in [("JWT", "jwt"), ("OAUTH", "access")] {
        let (id, secret) = with_refresh(&manager, token_type);
        let login = (id.as_str(), secret.as_str());
        let first = manager.token(login, &format!("{PASSWORD_GRANT}+openid"));
        let lifetime_s =
            |claims: &Value| Some(claims["exp"].as_u64()?.saturating_sub(claims["iat"].as_u64()?));
        assert_eq!(lifetime_s(&claims(text(&first, "id_token"))), Some(120));
        let form =
            format!("grant_type=refresh_token&refresh_token={}", text(&first, "refresh_token"));
        for issued in [&first, &manager.token(login, &form)] {
            assert_eq!(issued["expires_in"], 120, "{token_type}");
            let form = format!("token={}", text(issued, "access_token"));
            let found = success(&manager.post("/oauth2/introspect", Some(login), &form));
            assert_eq!(lifetime_s(&found), Some(120), "{token_type}");
        }
        for (kind, expect) in [(access_kind, "120"), ("refresh", "600")] {
            let stored = manager.sql(&format!(
                "SELECT DISTINCT expires_s - issued_s FROM tokens \
                 WHERE client = '{id}' AND kind = '{kind}'"
            ));
            assert_eq!(stored.trim(), expect, "{token_type} {kind}");
        }
    }
}

#[test]
fn an_opaque_token_is_active_until_it_is_revoked() {
    let manager = KeyManager::start();
    let (id, secret) = manager.register("opaque", json!({ "tokenType": "OAUTH" }));
    let other = manager.register("other", json!({}));
    let (login, other) = ((id.as_str(), secret.as_str()), (other.0.as_str(), other.1.as_str()));
    let issued = manager.token(login, "grant_type=client_credentials");
    let token = text(&issued, "access_token");
    assert!(!token.contains('.'), "not a JWT");
    assert!(manager.is_active(login, token));
    let revoke = |login, form: &str| manager.post("/oauth2/revoke", Some(login), form).status;
    assert_eq!(revoke(other, &format!("token={token}")), 200);
    assert!(manager.is_active(login, token), "another client cannot revoke it");
    assert_eq!(revoke(login, &format!("token={token}&token_type_hint=access_token")), 200);
    assert!(!manager.is_active(login, token));
    assert_eq!(revoke(login, "token=unknown"), 200);
}

#[test]
fn a_revoked_jwt_is_no_longer_active() {
    let manager = KeyManager::start();
    let (id, secret) = manager.register("jwt", json!({}));
    let login = (id.as_str(), secret.as_str());
    let [one, two] = ["", ""].map(|_| manager.token(login, "grant_type=client_credentials"));
    let (one, two) = (text(&one, "access_token"), text(&two, "access_token"));
    let revoked = manager.post("/oauth2/revoke", Some(login), &format!("token={one}"));
    assert_eq!(revoked.status, 200);
    assert!(!manager.is_active(login, one));
    assert!(manager.is_active(login, two));
    assert!(!manager.is_active(login, "a.b.c"));
}

#[test]
fn a_refresh_token_is_exchanged_once_and_its_reuse_revokes_the_family() {
    for token_type in ["JWT", "OAUTH"] {
        let manager = KeyManager::start();
        let (id, secret) = with_refresh(&manager, token_type);
        let login = (id.as_str(), secret.as_str());
        let first = manager.token(login, PASSWORD_GRANT);
        let refresh = |issued: &Value, more: &str| {
            let form = format!(
                "grant_type=refresh_token&refresh_token={}{more}",
                text(issued, "refresh_token")
            );
            manager.post("/oauth2/token", Some(login), &form)
        };
        let wider = refresh(&first, "&scope=read+write");
        assert_eq!(error(&wider), "400 invalid_scope", "write was not granted");
        let second = success(&refresh(&first, ""));
        assert_eq!(second["scope"], "read");
        assert_ne!(second["refresh_token"], first["refresh_token"]);
        assert!(manager.is_active(login, text(&second, "access_token")));
        assert_eq!(error(&refresh(&first, "")), "400 invalid_grant", "used before");
        assert_eq!(error(&refresh(&second, "")), "400 invalid_grant", "of the same family");
        if token_type == "OAUTH" {
            assert!(!manager.is_active(login, text(&second, "access_token")));
        }
    }
}

#[test]
fn a_refresh_token_of_another_client_is_rejected() {
    let manager = KeyManager::start();
    let (id, secret) = with_refresh(&manager, "JWT");
    let issued = manager.token((&id, &secret), PASSWORD_GRANT);
    let thief = manager.register("thief", json!({ "grantType": "refresh_token" }));
    let form = format!("grant_type=refresh_token&refresh_token={}", text(&issued, "refresh_token"));
    let stolen = manager.post("/oauth2/token", Some((&thief.0, &thief.1)), &form);
    assert_eq!(error(&stolen), "400 invalid_grant");
    success(&manager.post("/oauth2/token", Some((&id, &secret)), &form));
}

#[test]
fn a_revoked_refresh_token_revokes_its_access_tokens() {
    let manager = KeyManager::start();
    let (id, secret) = with_refresh(&manager, "OAUTH");
    let login = (id.as_str(), secret.as_str());
    let issued = manager.token(login, PASSWORD_GRANT);
    assert!(manager.is_active(login, text(&issued, "access_token")));
    let form = format!("token={}", text(&issued, "refresh_token"));
    assert_eq!(manager.post("/oauth2/revoke", Some(login), &form).status, 200);
    assert!(!manager.is_active(login, text(&issued, "access_token")));
}

#[test]
fn keys_are_replaced_with_overlap() {
    let manager = KeyManager::on_sqlite();
    let (id, secret) = manager.register("a", json!({}));
    let login = (id.as_str(), secret.as_str());
    let issue = |manager: &KeyManager| {
        text(&manager.token(login, "grant_type=client_credentials"), "access_token").to_owned()
    };
    let old = issue(&manager);
    // The generated RSA key, behind a new P-256 key.
    manager.files.write("new.pem", &Issuer::new("new").pem);
    let files = manager.files;
    drop(manager.process);
    let files = files.toml("");
    let configured = std::fs::read_to_string(files.configure()).unwrap();
    let keys = "keys = [\"new.pem\", \"data/oauth.key\"]\nadmin_password";
    files.write("rotated.toml", &configured.replacen("admin_password", keys, 1));
    let file = files.path("rotated.toml");
    let arguments = ["control", "--config", file.to_str().unwrap()];
    let process = harness::Process::start(files.folder(), &arguments);
    process.wait_for(" serving ");
    let manager = KeyManager { files, process };
    let new = issue(&manager);
    for token in [&old, &new] {
        assert!(manager.is_active(login, token));
    }
    let algorithms = || -> Vec<Value> {
        let keys = success(&manager.get("/oauth2/jwks"));
        keys["keys"].as_array().unwrap().iter().map(|key| key["alg"].clone()).collect()
    };
    assert_eq!(algorithms(), ["ES256", "RS256"]);

    // Without a restart.
    let rotated = std::fs::read_to_string(&file).unwrap();
    let with = |keys: &str| rotated.replacen("keys = [\"new.pem\", \"data/oauth.key\"]", keys, 1);
    let reload = |text: String, expect: &str| {
        std::fs::write(&file, text).unwrap();
        manager.process.signal(nix::sys::signal::Signal::SIGHUP);
        manager.process.wait_for(expect);
    };
    reload(with("keys = [\"new.pem\", \"absent.pem\"]"), "the signing keys stay as they are");
    assert_eq!(algorithms(), ["ES256", "RS256"]);
    reload(with("keys = [\"new.pem\"]"), "the signing keys are replaced");
    assert_eq!(algorithms(), ["ES256"]);
    let newest = issue(&manager);
    let active = [&old, &new, &newest].map(|token| manager.is_active(login, token));
    assert_eq!(active, [false, true, true]);
    assert!(!manager.process.text().contains("after a restart"), "{}", manager.process.text());

    // No key is generated for it, which gateways could not know yet, and the data folder is that of the start.
    std::fs::remove_file(manager.files.path("data/oauth.key")).unwrap();
    reload(with("").replacen("data = \"data/\"", "data = \"elsewhere/\"", 1), "data/oauth.key: ");
    assert_eq!(algorithms(), ["ES256"]);
    for folder in ["data", "elsewhere"] {
        assert!(!manager.files.path(folder).join("oauth.key").exists(), "{folder}");
    }
}

#[test]
fn the_scope_of_a_refreshed_token_has_no_duplicates_and_nothing_that_its_client_lost() {
    let manager = KeyManager::start();
    let client = |scopes: &str| {
        let more = json!({
            "grantType": "password refresh_token", "tokenScope": scopes, "tokenType": "OAUTH",
        });
        manager.register("mobile", more)
    };
    let (id, secret) = client("read write");
    let form = PASSWORD_GRANT.replace("scope=read", "scope=read+write");
    let first = manager.token((&id, &secret), &form);
    let refresh = |issued: &Value, secret: &str, scope: &str| {
        let token = text(issued, "refresh_token");
        let form = format!("grant_type=refresh_token&refresh_token={token}&scope={scope}");
        manager.token((&id, secret), &form)
    };
    let many = ["read"; 3_000].join("+");
    let second = refresh(&first, &secret, &many);
    assert_eq!(second["scope"], "read");
    let (same, secret) = client("write");
    assert_eq!(same, id);
    assert_eq!(refresh(&second, &secret, "")["scope"], "write", "it was read and write");
}

#[test]
fn of_two_exchanges_at_once_one_succeeds_and_nothing_stays_valid() {
    let manager = KeyManager::start();
    let (id, secret) = with_refresh(&manager, "OAUTH");
    let login = (id.as_str(), secret.as_str());
    let issued = manager.token(login, PASSWORD_GRANT);
    let form = format!("grant_type=refresh_token&refresh_token={}", text(&issued, "refresh_token"));
    let exchange = || manager.post("/oauth2/token", Some(login), &form);
    let responses = std::thread::scope(|scope| {
        let both = [scope.spawn(exchange), scope.spawn(exchange)];
        both.map(|thread| thread.join().unwrap())
    });
    let mut statuses = responses.each_ref().map(|response| response.status);
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 400]);
    let exchanged = responses.iter().find(|response| response.status == 200).unwrap();
    let exchanged = success(exchanged);
    assert!(!manager.is_active(login, text(&exchanged, "access_token")));
}
