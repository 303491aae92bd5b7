//! `[[control.provider]]`.

use super::{check, load};

const CONTROL: &str = "[control]\nhttps = \"127.0.0.1:9443\"\n[[control.provider]]\n";
const LEAST: &str = "name = \"corp\"\nissuer = \"https://id.example/realms/staff\"\n\
    client_id = \"penstock\"\nclient_secret = { env = \"SHARED\" }\n";

#[test]
fn a_provider_needs_a_name_an_issuer_and_a_client_and_the_rest_has_defaults() {
    let (settings, diagnostics) = load(&format!("{CONTROL}{LEAST}"));
    assert_eq!(diagnostics, []);
    let providers = settings.and_then(|settings| settings.control).map(|control| control.providers);
    let providers = providers.unwrap_or_default();
    let [provider] = providers.as_slice() else { panic!("{providers:?}") };
    let parts = [&provider.title, &provider.user, &provider.groups, &provider.scopes.join(" ")];
    assert_eq!(parts, ["corp", "preferred_username", "groups", "openid"]);
    check(
        CONTROL,
        "3:1: no `client_id`; 3:1: no `client_secret`; 3:1: no `issuer`; 3:1: no `name`",
    );
}

#[test]
fn what_is_wrong_with_a_provider_is_reported() {
    for (from, to, expect) in [
        ("\"corp\"", "\"Corp\"", "4:8: cannot be the name of a provider"),
        ("\"corp\"", "\"a/b\"", "4:8: cannot be the name of a provider"),
        ("\"corp\"", "\"ldap\"", "4:8: cannot be the name of a provider"),
        ("https://id.example", "http://id.example", "5:10: can be read and replaced in transit"),
        ("https://id.example", "http://localhost", ""),
        ("SHARED", "EMPTY", "7:17: is empty, or not UTF-8"),
        ("issuer", "titel = \"a\"\nissuer", "5:1: unknown key `titel`"),
    ] {
        check(&format!("{CONTROL}{}", LEAST.replace(from, to)), expect);
    }
    let again = format!("{CONTROL}{LEAST}[[control.provider]]\n{LEAST}");
    check(&again, "9:8: another provider or trusted issuer has the name `corp`");
    let trusted =
        "[[control.trusted_issuer]]\nname = \"corp\"\niss = \"a\"\njwks = \"https://a/k\"\n";
    check(
        &format!("{CONTROL}{LEAST}{trusted}"),
        "4:8: another provider or trusted issuer has the name `corp`",
    );
}
