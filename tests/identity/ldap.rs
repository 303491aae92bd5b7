//! Users of an LDAP directory sign in, at OpenLDAP's server.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use harness::{Files, Identity};
use serde_json::{Value, json};

use crate::directory::{SUFFIX, Slapd};
use crate::key_manager::{CONTROL, KeyManager, PASSWORD, basic, error, success};

const REASON: &str = "the directory of users does not respond; try again later";

/// `[control.ldap]` of a key manager that uses `server`, by `url`, with more keys.
fn files(url: &str, more: &str, server: &Slapd) -> Files {
    let files = Files::new().toml(&format!(
        "{CONTROL}access_token_claims = [\"name\"]\n[control.ldap]\nurls = [\"{url}\"]\nbind_dn = \"cn=penstock,{SUFFIX}\"\n\
         bind_password = {{ file = \"ldap-password\" }}\nbase = \"ou=people,{SUFFIX}\"\n{more}\n\
         [upstream_tls]\nca = [\"ldap.crt\"]\nsystem_roots = false\n"
    ));
    files.write("ldap-password", "search-secret\n");
    files.write("ldap.crt", &server.identity.cert_pem);
    files
}

const MAPPING: &str = "claim = [{ name = \"email\", from = \"mail\" }, { name = \"name\", from = \"cn\" }]\n\
    role = [{ name = \"admin\", groups = [\"operators\"] }, { name = \"reader\", groups = [\"Readers\"] }, \
    { name = \"writer\", groups = [\"Writers\"] }]";

struct Setup {
    server: Slapd,
    manager: KeyManager,
    id: String,
    secret: String,
}

impl Setup {
    /// With groups that are searched.
    fn new() -> Self {
        let server = Slapd::start();
        let url = format!("ldap://127.0.0.1:{}", server.port);
        let groups = format!("group_base = \"ou=groups,{SUFFIX}\"\n{MAPPING}");
        let manager = KeyManager::of(files(&url, &groups, &server));
        let (id, secret) = register(&manager);
        Self { server, manager, id, secret }
    }

    fn login(&self) -> (&str, &str) {
        (&self.id, &self.secret)
    }

    /// The response to the grant `password`: the token, or status and error.
    fn sign_in(&self, user: &str, password: &str) -> Result<Value, String> {
        sign_in(&self.manager, self.login(), user, password)
    }

    fn refresh(&self, token: &Value) -> Result<Value, String> {
        let token = token["refresh_token"].as_str().unwrap();
        let form = format!("grant_type=refresh_token&refresh_token={token}");
        outcome(&self.manager.post("/oauth2/token", Some(self.login()), &form))
    }
}

fn register(manager: &KeyManager) -> (String, String) {
    let grants = "password refresh_token authorization_code";
    let more = json!({ "grantType": grants, "callbackUrl": "https://app.example/" });
    manager.register("web", more)
}

fn sign_in(
    manager: &KeyManager,
    login: (&str, &str),
    user: &str,
    password: &str,
) -> Result<Value, String> {
    let encoded = |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
    let (user, password) = (encoded(user), encoded(password));
    let form = format!("grant_type=password&username={user}&password={password}&scope=openid");
    outcome(&manager.post("/oauth2/token", Some(login), &form))
}

fn outcome(response: &harness::Response) -> Result<Value, String> {
    if response.status == 200 { Ok(success(response)) } else { Err(error(response)) }
}

/// The claims of a JWT.
fn claims(token: &Value) -> Value {
    let payload = token.as_str().unwrap().split('.').nth(1).expect("a JWT");
    serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(payload).unwrap()).unwrap()
}

fn delete(name: &str) -> String {
    format!("dn: uid={name},ou=people,{SUFFIX}\nchangetype: delete\n")
}

#[test]
#[ignore = "needs slapd; `make test-all` runs it. On Debian: apt-get install slapd ldap-utils"]
fn a_user_of_the_directory_signs_in_with_claims_and_roles() {
    let setup = Setup::new();
    assert_eq!(setup.sign_in("ann", "wrong"), Err("400 invalid_grant".to_owned()));
    assert_eq!(setup.sign_in("nobody", "ann's password"), Err("400 invalid_grant".to_owned()));
    // A directory ignores case; the name in tokens is that of the entry.
    let issued = setup.sign_in("ANN", "ann's password").unwrap();
    let (access, id) = (claims(&issued["access_token"]), claims(&issued["id_token"]));
    let roles = json!(["admin", "reader"]);
    assert_eq!((&access["sub"], &access["roles"]), (&json!("ann"), &roles));
    assert_eq!(access.get("email"), None, "only in ID tokens");
    assert_eq!(access["name"], json!("Ann Example"), "as `access_token_claims` has it");
    assert_eq!((&id["sub"], &id["roles"]), (&json!("ann"), &roles));
    assert_eq!((&id["email"], &id["name"]), (&json!("ann@example.org"), &json!("Ann Example")));
    let bearer = format!("Authorization: Bearer {}\r\n", issued["access_token"].as_str().unwrap());
    let info = success(&setup.manager.connect().fetch("GET /oauth2/userinfo", &bearer));
    assert_eq!((&info["email"], &info["roles"]), (&json!("ann@example.org"), &roles));
    let bob = claims(&setup.sign_in("bob", "bob's password").unwrap()["access_token"]);
    assert_eq!(bob.get("roles"), None);

    // The role `admin` is that of an administrator.
    let path = "/client-registration/v0.17/register";
    let register = |user, password| {
        let body = json!({ "clientName": "b" });
        setup.manager.post_json(path, Some((user, password)), &body).status
    };
    assert_eq!(register("ann", "ann's password"), 200);
    assert_eq!(register("bob", "bob's password"), 403);

    let (_, list) = setup.manager.command(&["user", "list"]);
    assert_eq!(list, "admin (admin)\nann (admin) (ldap): reader\nbob (ldap)\n");
    let (code, text) = setup.manager.command(&["user", "password", "ann"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("the user `ann` signs in with the password of `ldap`"), "{text}");
    assert!(!setup.manager.process.text().contains("search-secret"), "no password is logged");
}

#[test]
#[ignore = "needs slapd; `make test-all` runs it. On Debian: apt-get install slapd ldap-utils"]
fn a_name_is_never_a_part_of_the_ldap_filter() {
    let setup = Setup::new();
    for name in [
        "*",
        "a*",
        "ann)(uid=*",
        "ann)(|(uid=*",
        "*)(uid=ann",
        "ann)(objectClass=*",
        r"\61nn",
        r"ann\2a",
        "uid=ann",
        "(uid=ann)",
        "uid=ann,ou=people,dc=example,dc=org",
        "{user}",
        "{dn}",
    ] {
        let refused = setup.sign_in(name, "ann's password");
        assert_eq!(refused, Err("400 invalid_grant".to_owned()), "{name}");
    }
    // Not a name that LDAP and the key manager could read differently.
    assert_eq!(setup.sign_in("ann\0", "ann's password"), Err("400 invalid_request".to_owned()));
    assert!(setup.sign_in("ann", "ann's password").is_ok());
    // Parentheses and asterisks in an attribute are no filter, either.
    let bob = setup.sign_in("bob", "bob's password").unwrap();
    assert_eq!(claims(&bob["id_token"])["name"], "Bob (the builder)*");
    // A slash would make it a user of a trusted issuer.
    assert_eq!(setup.sign_in("no/body", "nobody's password"), Err("400 invalid_grant".to_owned()));
}

#[test]
#[ignore = "needs slapd; `make test-all` runs it. On Debian: apt-get install slapd ldap-utils"]
fn an_empty_password_never_signs_in_although_the_ldap_server_admits_it() {
    let setup = Setup::new();
    assert!(setup.server.admits(&format!("uid=ann,ou=people,{SUFFIX}"), ""), "as anonymous");
    assert_eq!(setup.sign_in("ann", ""), Err("400 invalid_request".to_owned()));
    let request = format!(
        "response_type=code&client_id={}&redirect_uri=https%3A%2F%2Fapp.example%2F&username=ann\
         &code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM&code_challenge_method=S256\
         &decision=allow&password=",
        setup.id
    );
    let page = |password: &str| {
        setup.manager.post("/oauth2/authorize", None, &format!("{request}{password}"))
    };
    assert_eq!(page("").status, 403);
    assert_eq!(page("ann%27s+password").status, 303);
    let introspect = |password: &str| {
        let fields = "Content-Type: application/x-www-form-urlencoded\r\n".to_owned();
        let fields = fields + &basic(Some(("ann", password)));
        setup
            .manager
            .connect()
            .fetch_with_body("POST /oauth2/introspect", &fields, "token=x")
            .status
    };
    assert_eq!(introspect(""), 401);
    assert_eq!(introspect("ann's password"), 200);
}

#[test]
#[ignore = "needs slapd; `make test-all` runs it. On Debian: apt-get install slapd ldap-utils"]
fn guesses_are_slowed_for_the_user_of_the_ldap_directory_however_the_name_is_written() {
    let setup = Setup::new();
    // The pause after ten guesses may be over when the right password comes.
    let is_slowed = || {
        for name in ["ann", "ANN", "Ann", "aNN", "ann ", "anN", "AnN", "aNn", "ANn", "ann"] {
            assert_eq!(setup.sign_in(name, "wrong"), Err("400 invalid_grant".to_owned()));
        }
        let answer = setup.sign_in("aNn", "ann's password");
        assert!(answer.is_ok() || answer == Err("429 slow_down".to_owned()), "{answer:?}");
        answer.is_err()
    };
    assert!((0..5).any(|_| is_slowed()));
}

#[test]
#[ignore = "needs slapd; `make test-all` runs it. On Debian: apt-get install slapd ldap-utils"]
fn the_users_of_the_key_manager_are_not_those_of_the_ldap_directory() {
    let setup = Setup::new();
    for name in ["admin", "ADMIN"] {
        let refused = setup.sign_in(name, "admin's password");
        assert_eq!(refused, Err("400 invalid_grant".to_owned()), "{name}");
    }
    let own = setup.sign_in("admin", "correct horse battery").unwrap();
    assert_eq!(claims(&own["access_token"])["roles"], json!(["admin"]), "none of the directory");
}

#[test]
#[ignore = "needs slapd; `make test-all` runs it. On Debian: apt-get install slapd ldap-utils"]
fn without_the_ldap_server_there_is_an_error_and_with_it_everything_goes_on() {
    let mut setup = Setup::new();
    let issued = setup.sign_in("ann", "ann's password").unwrap();
    setup.server.kill();
    // More often than wrong passwords would be possible.
    for _ in 0..12 {
        let form = "grant_type=password&username=ann&password=x";
        let away = setup.manager.post("/oauth2/token", Some(setup.login()), form);
        assert_eq!(error(&away), "503 temporarily_unavailable");
        assert!(away.text().contains(REASON), "{}", away.text());
    }
    let page = format!(
        "response_type=code&client_id={}&redirect_uri=https%3A%2F%2Fapp.example%2F&username=ann\
         &code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM&code_challenge_method=S256\
         &decision=allow&password=x",
        setup.id
    );
    let page = setup.manager.post("/oauth2/authorize", None, &page);
    assert_eq!(page.status, 503);
    assert!(page.text().contains("does not respond. Try again later."), "{}", page.text());
    assert!(setup.sign_in("admin", "correct horse battery").is_ok());
    assert_eq!(setup.refresh(&issued), Err("503 temporarily_unavailable".to_owned()));
    assert!(setup.manager.process.text().contains("the LDAP directory cannot be used"));
    setup.server.restart();
    let renewed = setup.refresh(&issued).expect("it was not spent");
    assert!(setup.sign_in("ann", "ann's password").is_ok());
    // Connections that the server closed meanwhile are replaced.
    setup.server.kill();
    setup.server.restart();
    assert!(setup.sign_in("bob", "bob's password").is_ok());
    assert!(setup.refresh(&renewed).is_ok());
}

#[test]
#[ignore = "needs slapd; `make test-all` runs it. On Debian: apt-get install slapd ldap-utils"]
fn what_changes_in_the_ldap_directory_changes_for_tokens_that_are_renewed() {
    let setup = Setup::new();
    let issued = setup.sign_in("ann", "ann's password").unwrap();
    setup.server.modify(&format!(
        "dn: cn=Operators,ou=groups,{SUFFIX}\nchangetype: modify\nreplace: member\nmember: uid=bob,ou=people,{SUFFIX}\n"
    ));
    let renewed = setup.refresh(&issued).unwrap();
    assert_eq!(claims(&renewed["access_token"])["roles"], json!(["reader"]));

    // Another person gets the name.
    setup.server.modify(&format!(
        "{}\ndn: uid=ann,ou=people,{SUFFIX}\nchangetype: add\nobjectClass: inetOrgPerson\nuid: ann\n\
         cn: Another Ann\nsn: Another\nuserPassword: another password\n",
        delete("ann")
    ));
    let active = |token: &Value| {
        setup.manager.is_active(setup.login(), token["access_token"].as_str().unwrap())
    };
    assert!(active(&renewed));
    let other = setup.sign_in("ann", "another password").unwrap();
    assert!(!active(&renewed) && active(&other));
    assert_eq!(setup.refresh(&renewed), Err("400 invalid_grant".to_owned()));

    setup.server.modify(&delete("ann"));
    assert_eq!(setup.refresh(&other), Err("400 invalid_grant".to_owned()));
    assert!(!active(&other), "the renewal showed that the user has gone");
    assert_eq!(setup.manager.command(&["user", "list"]).1, "admin (admin)\n");
}

#[test]
#[ignore = "needs slapd; `make test-all` runs it. On Debian: apt-get install slapd ldap-utils"]
fn an_api_key_of_an_ldap_user_is_valid_for_a_day_at_most_and_not_after_the_removal() {
    let server = Slapd::start();
    let url = format!("ldap://127.0.0.1:{}", server.port);
    let keys = files(&url, "[control.api_keys]\nvalidity_s = 864000", &server);
    let manager = KeyManager::of(keys);
    let key = |user, password, form: &str| {
        let fields = basic(Some((user, password)));
        let issued = manager.connect().fetch_with_body("POST /oauth2/apikey", &fields, form);
        claims(&json!(issued.text()))
    };
    let lifetime_s = |key: &Value| key["exp"].as_u64().unwrap() - key["iat"].as_u64().unwrap();
    assert_eq!(lifetime_s(&key("admin", PASSWORD, "")), 864_000);
    assert_eq!(lifetime_s(&key("ann", "ann's password", "")), 86_400);
    assert_eq!(lifetime_s(&key("ann", "ann's password", "{\"validityTime\":90000}")), 86_400);
    assert_eq!(lifetime_s(&key("ann", "ann's password", "{\"validityTime\":60}")), 60);
    assert_eq!(manager.sql("SELECT COUNT(*) FROM tokens WHERE subject = 'ann'").trim(), "3");
    assert_eq!(manager.command(&["user", "remove", "ann"]).0, Some(0));
    assert_eq!(manager.sql("SELECT COUNT(*) FROM tokens WHERE subject = 'ann'").trim(), "0");
}

#[test]
#[ignore = "needs slapd; `make test-all` runs it. On Debian: apt-get install slapd ldap-utils"]
fn passwords_are_sent_over_tls_to_the_right_ldap_server_only() {
    let server = Slapd::start();
    let groups =
        format!("role = [{{ name = \"reader\", groups = [\"cn=operators,ou=groups,{SUFFIX}\"] }}]");
    let urls = [
        (format!("ldaps://localhost:{}", server.tls_port), ""),
        (format!("ldap://localhost:{}", server.port), "start_tls = true\n"),
    ];
    let stranger = Identity::of(&["localhost"]);
    for (url, more) in &urls {
        for (certificate, expect) in [
            (&server.identity, Ok(json!(["reader"]))),
            (&stranger, Err("503 temporarily_unavailable".to_owned())),
        ] {
            let files = files(url, &format!("{more}{groups}"), &server);
            files.write("ldap.crt", &certificate.cert_pem);
            let manager = KeyManager::of(files);
            let (id, secret) = register(&manager);
            let issued = sign_in(&manager, (&id, &secret), "ann", "ann's password");
            let roles = issued.map(|issued| claims(&issued["access_token"])["roles"].clone());
            assert_eq!(roles, expect, "{url}");
        }
    }
    // With a server that is away, another one is used; without any, the log has its name.
    let away = format!("ldap://127.0.0.1:1\", \"ldap://127.0.0.1:{}", server.port);
    let manager = KeyManager::of(files(&away, &groups, &server));
    let (id, secret) = register(&manager);
    assert!(sign_in(&manager, (&id, &secret), "ann", "ann's password").is_ok());
    manager.process.wait_for("the next LDAP server is tried");
}

#[test]
#[ignore = "needs slapd; `make test-all` runs it. On Debian: apt-get install slapd ldap-utils"]
fn a_wrong_password_of_the_key_manager_itself_is_not_one_of_the_ldap_users() {
    let server = Slapd::start();
    let url = format!("ldap://127.0.0.1:{}", server.port);
    let files = files(&url, "", &server);
    files.write("ldap-password", "wrong");
    let manager = KeyManager::of(files);
    let (id, secret) = register(&manager);
    let refused = sign_in(&manager, (&id, &secret), "ann", "ann's password");
    assert_eq!(refused, Err("503 temporarily_unavailable".to_owned()));
    manager.process.wait_for("the bind as `bind_dn` failed");
}
