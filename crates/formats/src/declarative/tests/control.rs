//! `[control]`, `[store]`, `[backend_jwt]` and `[quotas]`.

use super::*;

#[test]
fn the_control_plane_and_its_store_are_checked() {
    check("[control]\n", "1:1: no listener");
    let control = "[control]\nhttps = \"127.0.0.1:9443\"\n";
    check(control, "");
    for (lines, expect) in [
        ("issuer = \"http://a/b\"", "3:10: not an https URL without query"),
        ("issuer = \"https://a/b?c\"", "3:10: not an https URL without query"),
        ("keys = []", "1:1: `keys` is empty"),
        ("cors_origins = [\"https://app.example\", \"http://localhost:3000\"]", ""),
        ("cors_origins = [\"https://app.example/\"]", "3:17: has a path"),
        ("cors_origins = [\"https://*.example\"]", "3:17: is a pattern"),
        ("[store]\nurl = \"postgres://db/x\"", "1:1: need `keys` > the same private keys"),
        ("admin_password = {}", "3:18: needs either `env` or `file`"),
        ("admin_password = { env = \"EMPTY\" }", "3:18: not UTF-8 of 8 to 256 bytes"),
        ("[store]\nurl = \"mariadb://db/x\"", "1:1: need `keys` > the same private keys"),
        ("[store]\nurl = { env = \"DATABASE\" }", "1:1: need `keys` > the same private keys"),
        ("[store]\nurl = { env = \"EMPTY\" }", "4:7: unknown kind of database"),
        ("[store]\nurl = { env = \"SHARED\" }", "4:7: unknown kind of database"),
        ("[store]\nurl = { env = \"ABSENT\" }", "4:15: `ABSENT` is not set"),
        ("[store]\nurl = { file = \"absent\" }", "4:16: cannot be read"),
        ("[store]\nurl = {}", "4:7: needs either `env` or `file`"),
        (
            "[store]\nurl = \"mssql://me:secret@db/x\"",
            "4:7: unknown kind of database > sqlite:FILE, postgres://USER@HOST/DATABASE or mysql://",
        ),
        ("[gateway]\nhttps = \"0.0.0.0:9443\"", "2:9: use the same address"),
        ("access_token_s = 59", "3:18: `access_token_s`"),
        ("refresh_token_s = 315360001", "3:19: `refresh_token_s`"),
        ("access_token_s = 86401", "1:1: larger than `refresh_token_s`"),
        ("access_token_s = 86401\nrefresh_token_s = 86401", ""),
        ("[[control.scope]]\nname = \"a\"", "3:1: a scope without `roles`"),
        ("[[control.scope]]\nroles = [\"a\"]", "3:1: no `name`"),
        (
            "[[control.scope]]\nname = \"default\"\nroles = [\"a\"]",
            "4:8: granted to every token that has no other",
        ),
        ("[[control.scope]]\nname = \"a b\"\nroles = [\"a\"]", "4:8: `a b` is not one scope"),
        (
            "[[control.scope]]\nname = \"a\"\nroles = [\"a\"]\n[[control.scope]]\nname = \"a\"\n\
             roles = [\"b\"]",
            "7:8: duplicate scope `a`",
        ),
        ("[control.api_keys]", ""),
        ("[control.api_keys]\nvalidity_s = -1", "4:14: `validity_s`"),
        ("[[control.api_keys.api]]\nversions = []", "3:1: no `name`; 3:1: `versions` is empty"),
    ] {
        check(&format!("{control}{lines}\n"), expect);
    }
    let keys = "keys = [\"a.pem\"]\n[store]\nurl = { env = \"DATABASE\" }\n";
    let control = load(&format!("{control}{keys}")).0.and_then(|settings| settings.control);
    let url = "postgres://me:secret@db/x".to_owned();
    assert_eq!(control.map(|control| control.store), Some(model::StoreSettings::Server(url)));
    let (settings, warnings) =
        load("[gateway]\nhttp = \"127.0.0.1:8280\"\n[store]\nurl = \"sqlite:a.db\"\n");
    assert!(settings.is_some_and(|settings| settings.control.is_none()));
    let warnings: Vec<_> = warnings.iter().map(|warning| warning.message.as_str()).collect();
    assert_eq!(warnings, ["[store] has no effect without [control]"]);
    let mapped = "access_token_claims = [\"email\", \"phone\"]\n[control.ldap]\nurls = [\"ldaps://a\"]\n\
                  base = \"o=a\"\nclaim = [{ name = \"email\", from = \"mail\" }]\n";
    let (settings, warnings) = load(&format!("[control]\nhttps = \"127.0.0.1:9443\"\n{mapped}"));
    assert!(settings.is_some(), "{warnings:?}");
    let warnings: Vec<_> = warnings.iter().map(|warning| warning.message.as_str()).collect();
    assert_eq!(warnings, ["users have no claim `phone`"]);
}

#[test]
fn what_is_wrong_with_the_backend_jwt_is_reported() {
    let section = |line: &str| format!("[backend_jwt]\nkey = {{ env = \"SIGNING\" }}\n{line}");
    for (lines, expect) in [
        ("[backend_jwt]", "3:1: no `key`"),
        ("[backend_jwt]\nkey = { env = \"SHARED\" }", "4:7: not a private key"),
        (&section("header = \"Host\""), "5:10: cannot carry"),
        (&section("header = \"a b\""), "5:10: cannot carry"),
        (&section("expires_s = 5"), "5:13: `expires_s`"),
        (&section("certificate = \"other.crt\""), "5:15: the certificate of another key"),
        (&section("certificate = \"absent.crt\""), "5:15: the certificate in `absent.crt`"),
    ] {
        gateway(lines, expect);
    }
}

#[test]
fn what_is_wrong_with_shared_quotas_is_reported_without_the_password() {
    for (lines, expect) in [
        ("[quotas]", "3:1: no `redis`"),
        ("[quotas]\nredis = \"127.0.0.1:6379\"", "4:9: not a URL of Redis"),
        ("[quotas]\nredis = \"redis://a:secret@b\"", "4:9: contains a password"),
        ("[quotas]\nredis = \"redis://b/x\"", "4:9: `x` is not the number of a database"),
        ("[quotas]\nredis = \"redis://b:port\"", "4:9: port"),
        ("[quotas]\nredis = \"redis://b\"\nca = [\"a.pem\"]", "5:6: without TLS"),
        ("[quotas]\nredis = \"redis://b\"\nwhen_down = \"never\"", "5:13: unknown value `never`"),
        ("[quotas]\nredis = \"redis://b\"\npasword = \"\"", "5:1: unknown key `pasword`"),
    ] {
        gateway(lines, expect);
    }
}
