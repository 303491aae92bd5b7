//! `[control.ldap]`.

use super::{check, load};

const CONTROL: &str = "[control]\nhttps = \"127.0.0.1:9443\"\n[control.ldap]\n";
const LEAST: &str = "base = \"ou=people\"\nurls = [\"ldaps://a\"]\n";

#[test]
fn a_directory_needs_a_server_and_a_base_and_the_rest_has_defaults() {
    let (settings, diagnostics) = load(&format!("{CONTROL}{LEAST}"));
    assert_eq!(diagnostics, []);
    let ldap = settings.and_then(|settings| settings.control?.ldap).expect("a directory");
    let parts = [&ldap.filter, &ldap.name, &ldap.id, &ldap.groups, &ldap.bind_dn];
    assert_eq!(parts, ["(uid={user})", "uid", "entryUUID", "memberOf", ""]);
    assert_eq!(ldap.group_search, None);
    let (settings, _) = load(&format!("{CONTROL}{LEAST}group_base = \"ou=groups\"\n"));
    let ldap = settings.and_then(|settings| settings.control?.ldap).expect("a directory");
    assert_eq!(ldap.groups, "cn");
    assert_eq!(ldap.group_search, Some(("ou=groups".to_owned(), "(member={dn})".to_owned())));
    check(CONTROL, "3:1: no `base`; 3:1: no server in `urls`");
}

#[test]
fn what_is_wrong_with_a_directory_is_reported() {
    for (lines, expect) in [
        ("urls = [\"http://localhost\"]", "5:9: not the URL of an LDAP server"),
        ("urls = [\"ldaps://a/dc=example\"]", "5:9: not the URL of an LDAP server"),
        ("urls = [\"ldaps://me:swordfish@a\"]", "5:9: not the URL of an LDAP server"),
        ("urls = [\"ldap://127.0.0.1:389\", \"ldap://localhost\", \"ldap://[::1]\"]", ""),
        ("urls = [\"ldap://a\"]", "5:9: can be read in transit > `start_tls`"),
        ("urls = [\"ldap://a\"]\nstart_tls = true", ""),
        ("urls = [\"ldaps://a\"]\nstart_tls = true", "5:9: exclude each other"),
        ("urls = [\"ldaps://a:b\"]", "5:9: port"),
    ] {
        check(&format!("{CONTROL}base = \"ou=people\"\n{lines}\n"), expect);
    }
    for (lines, expect) in [
        ("bind_dn = \"cn=a\"", "3:1: only one of `bind_dn` and `bind_password`"),
        ("bind_password = { env = \"SHARED\" }", "3:1: only one of"),
        (
            "bind_dn = \"cn=a\"\nbind_password = { env = \"EMPTY\" }",
            "7:17: `bind_password` is empty",
        ),
        ("filter = \"(uid=ann)\"", "6:10: does not depend on the user > {user}"),
        (
            "group_base = \"a\"\ngroup_filter = \"(a=b)\"",
            "7:16: does not depend on the user > {dn}",
        ),
        ("group_filter = \"(member={dn})\"", "6:16: no effect without `group_base`"),
        ("claim = [{ name = \"sub\", from = \"uid\" }]", "6:19: a claim `sub` of another meaning"),
        ("claim = [{ name = \"keytype\", from = \"a\" }]", "6:19: `keytype` of another meaning"),
        (
            "claim = [{ name = \"a\", from = \"b\" }, { name = \"a\", from = \"c\" }]",
            "6:47: duplicate claim",
        ),
        ("claim = [{ name = \"a\" }]", "6:10: no `from`"),
        ("role = [{ name = \"a\", groups = [] }]", "6:9: without `groups`"),
        ("role = [{ groups = [\"a\"] }]", "6:9: no `name`"),
        (
            "role = [{ name = \"a\", group = [\"a\"] }]",
            "6:9: without `groups`; 6:23: unknown key `group`",
        ),
    ] {
        check(&format!("{CONTROL}{LEAST}{lines}\n"), expect);
    }
}
