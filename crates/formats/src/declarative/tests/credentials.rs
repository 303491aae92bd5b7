//! `[[user]]`, `[[login]]`, `[[credential]]` and `[vault]`.

use model::{BackendCredential, VaultField, VaultLogin};

use super::{APP_ROLE, FULL, SECRET, gateway, load};

#[test]
fn what_is_wrong_with_users_is_reported_without_their_hashes() {
    const HASH: &str = "$argon2id$v=19$m=64,t=2,p=1$c2FsdHNhbHQ$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    let user = |name: &str, hash: &str| {
        format!("[[user]]\nname = \"{name}\"\npassword_hash = \"{hash}\"\n")
    };
    let twice = user("a", HASH).repeat(2);
    for (lines, expect) in [
        (user("a", HASH), ""),
        ("[[user]]".to_owned(), "3:1: no `name`; 3:1: no `password_hash`"),
        (user("a", "secret"), "5:17: no argon2id hash"),
        (user("a", &HASH.replace("m=64", "m=9999999")), "5:17: too costly"),
        (user("a:b", HASH), "4:8: name"),
        (user("", HASH), "4:8: name"),
        (twice, "7:8: duplicate user `a`"),
        (format!("{}passwort = 1", user("a", HASH)), "6:1: unknown key `passwort`"),
    ] {
        gateway(&lines, expect);
    }
}

#[test]
fn what_is_wrong_with_credentials_is_reported_without_secrets() {
    let of = |lines: &str| format!("[[credential]]\nname = \"a\"\n{lines}");
    let key = "type = \"api_key\"\nkey = { env = \"SHARED\" }";
    let oauth = "type = \"oauth2\"\nclient_id = \"a\"\nclient_secret = { env = \"SHARED\" }";
    for (lines, expect) in [
        ("[[credential]]".to_owned(), "3:1: no `name`; 3:1: no `type`"),
        (of("type = \"ntlm\""), "5:8: `ntlm`"),
        (of("type = \"digest\""), "3:1: no `password`; 3:1: no `username`"),
        (of("type = \"basic\""), "3:1: no `password`; 3:1: no `username`"),
        (
            of("type = \"basic\"\nusername = \"a:b\"\npassword = { env = \"SHARED\" }"),
            "6:12: colon",
        ),
        (of("type = \"basic\"\nusername = \"a\"\npassword = \"b\""), "7:12: `password`"),
        (of(key), "3:1: either `header` or `query`"),
        (of(&format!("{key}\nheader = \"a\"\nquery = \"b\"")), "3:1: either `header` or `query`"),
        (of(&format!("{key}\nheader = \"a b\"")), "7:10: cannot carry"),
        (of(&format!("{key}\nheader = \"Host\"")), "7:10: cannot carry"),
        (of(&format!("{key}\nheader = \"\"")), "3:1: either; 7:10: empty"),
        (
            of("type = \"aws\""),
            "3:1: no `access_key_id`; 3:1: no `region`; 3:1: no `secret_access_key`; 3:1: no `service`",
        ),
        (
            of(
                "type = \"aws\"\naccess_key_id = \"a\"\nsecret_access_key = { env = \"SHARED\" }\nregion = \"a/b\"\nservice = \"s3\"",
            ),
            "8:10: part of a signature",
        ),
        (of(oauth), "3:1: no `token_url`"),
        (of(&format!("{oauth}\ntoken_url = \"http://a/t\"")), "8:13: over http"),
        (
            format!(
                "{}\n{}",
                of(&format!("{key}\nquery = \"k\"")),
                of(&format!("{key}\nquery = \"k\""))
            ),
            "9:8: duplicate credential `a`",
        ),
    ] {
        gateway(&lines, expect);
    }
}

#[test]
fn what_is_wrong_with_logins_is_reported() {
    const ISSUER: &str = "[[issuer]]\nissuer = \"https://a/t\"\n";
    const LOGIN: &str = "[[login]]\nname = \"staff\"\nissuer = \"https://a/t\"\n\
        client_id = \"b\"\nclient_secret = { env = \"SHARED\" }\n";
    let with = |more: &str| format!("{ISSUER}{LOGIN}{more}");
    for (lines, expect) in [
        (with(""), ""),
        (
            with("scopes = [\"read\", \"offline_access\"]\nsession_s = 60\nafter_logout = \"/a\""),
            "",
        ),
        (with("authorize_url = \"https://a/a\"\ntoken_url = \"https://a/t\""), ""),
        (
            "[[login]]".to_owned(),
            "3:1: no `client_id`; 3:1: no `client_secret`; 3:1: no `issuer`; 3:1: no `name`",
        ),
        (LOGIN.to_owned(), "5:10: no [[issuer]]"),
        (with("").replace("staff", "Staff"), "6:8: cookie"),
        (with("").replace("staff", ""), "6:8: empty"),
        (
            with("").replace("https://a/t\"\nclient", "http://a/t\"\nclient"),
            "7:10: no [[issuer]]; 7:10: over http",
        ),
        (with("scopes = [\"read write\"]"), "10:11: one scope"),
        (with("after_logout = \"//b\""), "10:16: path"),
        (with("after_logout = \"https://b\""), "10:16: path"),
        (with("authorize_url = \"https://a/a\""), "5:1: some"),
        (with("logout_url = \"https://a/a\""), "5:1: some"),
        (with("revoke_url = \"https://a/a\""), "5:1: some"),
        (with("authorize_url = \"http://a/a\"\ntoken_url = \"https://a/t\""), "10:17: over http"),
        (
            with("authorize_url = \"https://a/a\\r\\nX: y\"\ntoken_url = \"https://a/t#u\""),
            "10:17: not a valid URL; 11:13: not a valid URL",
        ),
        (with("session_s = 0"), "10:13: session_s"),
        (with("max_age_s = 0"), ""),
        (with("max_age_s = -1"), "10:13: max_age_s"),
        (with(LOGIN), "11:8: duplicate login `staff`"),
    ] {
        gateway(&lines, expect);
    }
}

#[test]
fn what_is_in_vault_reaches_the_settings_or_is_waited_for() {
    let settings = load(FULL).0.expect("it is complete");
    let found = settings.credentials.iter().find(|(name, _)| name == "digest");
    let (_, found) = found.expect("it is there");
    let password = b"from vault".to_vec();
    let username = "gateway".to_owned();
    assert_eq!(**found, BackendCredential::Digest { username, password });
    let vault = settings.vault.expect("it is there");
    let namespace = vault.namespace.as_deref();
    assert_eq!((vault.url.as_str(), namespace), ("https://vault.example", Some("team-a")));
    let wanted = |path: &str, field: &str| VaultField { path: path.into(), field: field.into() };
    assert_eq!((vault.refresh_s, vault.wanted), (30, vec![wanted("secret/data/a", "password")]));
    let (mount, role, jwt) =
        ("k8s/prod".to_owned(), "gateway".to_owned(), SECRET.as_bytes().to_vec());
    assert!(vault.login == VaultLogin::Kubernetes { mount, role, jwt });
    let unread =
        FULL.replace("secret/data/a#password", "kv/b#p").replace("role = \"g", "role = \"h");
    let settings = load(&unread).0.expect("it is complete");
    let found = settings.credentials.iter().find(|(name, _)| name == "digest");
    let (_, found) = found.expect("it is there");
    assert!(**found == BackendCredential::Unread { is_of_one: true } && found.is_of_one_endpoint());
    assert_eq!(settings.vault.map(|vault| vault.wanted), Some(vec![wanted("kv/b", "p")]));
    let by_role = format!("[gateway]\nhttp = \"127.0.0.1:1\"\n{APP_ROLE}");
    let vault = load(&by_role).0.and_then(|settings| settings.vault).expect("it is there");
    let (mount, role_id) = ("roles".to_owned(), "a".to_owned());
    let secret_id = SECRET.as_bytes().to_vec();
    assert!(vault.login == VaultLogin::AppRole { mount, role_id, secret_id });
}

#[test]
fn what_is_wrong_with_vault_is_reported() {
    const VAULT: &str = "[vault]\nurl = \"https://v\"\n";
    const TOKEN: &str = "token = { env = \"SHARED\" }\n";
    let of = |vault: &str, key: &str| {
        format!(
            "[[credential]]\nname = \"a\"\ntype = \"api_key\"\nquery = \"k\"\nkey = {key}\n{vault}"
        )
    };
    let whole = [VAULT, TOKEN].concat();
    for (lines, expect) in [
        (whole.clone(), ""),
        (of(&whole, "{ vault = \"kv/a#b\" }"), ""),
        (of("", "{ vault = \"kv/a#b\" }"), ": no [vault]"),
        (of(&whole, "{ vault = \"kv/a\" }"), "7:17: not a path and a field"),
        (of(&whole, "{ vault = \"/v1/kv/a#b\" }"), "7:17: not a path and a field"),
        (of(&whole, "{ vault = \"kv/../sys/a#b\" }"), "7:17: not a path and a field"),
        (of(&whole, "{ vault = \"kv/a?x#b\" }"), "7:17: not a path and a field"),
        (of(&whole, "{ vault = \"kv/a#b\", env = \"SHARED\" }"), "7:7: several sources"),
        (
            format!("{whole}[backend_jwt]\nkey = {{ vault = \"kv/a#b\" }}"),
            "7:9: unknown key `vault`",
        ),
        (VAULT.to_owned(), "3:1: exactly one"),
        (format!("[vault]\n{TOKEN}"), "3:1: no `url`"),
        (format!("{whole}kubernetes = {{ role = \"a\" }}"), "3:1: exactly one"),
        (format!("{VAULT}kubernetes = {{}}"), "5:14: no `role`; 5:14: service account"),
        (format!("{VAULT}approle = {{}}"), "5:11: no `role_id`; 5:11: no `secret_id`"),
        (whole.replace("https", "http"), "4:7: over http"),
        (whole.replace("//v", "//v?a"), "4:7: not the address"),
        (format!("{whole}refresh_s = 0"), "6:13: out of range"),
        (format!("{whole}namespace = \"a b\""), "6:13: no spaces"),
    ] {
        gateway(&lines, expect);
    }
}

#[test]
fn one_issuer_has_users_with_passwords() {
    let issuer =
        |name: &str, more: &str| format!("[[issuer]]\nissuer = \"https://{name}\"\n{more}\n");
    let users = "passwords = { url = \"https://a/t\", client_id = \"b\", client_secret = { env = \"SHARED\" } }";
    let two = issuer("a", users) + &issuer("b", users);
    for (lines, expect) in [
        (issuer("a", users), ""),
        (two, "8:13: another issuer has `passwords`"),
        (
            issuer("a", "passwords = {}"),
            "5:13: no `client_id`; 5:13: no `client_secret`; 5:13: no `url`",
        ),
        (issuer("a", &users.replace("https://a/t", "http://a/t")), "5:21: over http"),
    ] {
        gateway(&lines, expect);
    }
}
