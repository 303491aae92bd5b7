//! HTTP Basic: passwords of configured users, and of those of an issuer.

use harness::{CannedResponse, Client, Files, Gateway, Issuer, Upstream, api};
use jose::PasswordHash;
use model::{Accepts, Api, ScopeRule, Security, User};

/// The hash of one of the passwords here, with so small a cost that it never takes long.
fn hash(password: &str) -> String {
    let hash = match password {
        "se:cret" => "rJQ1GrIKT1EJ0UHUVvnH035EUK7hR0D1qNkSh/IQzW8",
        "other" => "vSSfh1A/wgs+VBKOK3uA+pIVAvhoUq2TuPUsXoWkPwA",
        "none" => "cHaIw5qr9rhC77iWpUYljhR/VEOxecyobDLcpvndT50",
        "first" => "gtaHiucponMzW69b2wPHtG1upp6xpHh+vT2MvkBjlAQ",
        "second" => "8Mbq0ixh9v3WcvPqWHLnvs5Nuw2acKgktUC2fzLw+3Q",
        other => panic!("no hash of {other}"),
    };
    format!("$argon2id$v=19$m=64,t=1,p=1$c2FsdHNhbHQ${hash}")
}

fn user(name: &str, password: &str, scopes: &[&str]) -> User {
    User {
        name: name.to_owned(),
        password: PasswordHash::parse(&hash(password)).unwrap(),
        scopes: scopes.iter().map(|&scope| scope.to_owned()).collect(),
    }
}

/// `Authorization: Basic ...`.
fn basic(login: &str) -> String {
    use base64::Engine as _;
    let encoded = base64::prelude::BASE64_STANDARD.encode(login);
    format!("Authorization: Basic {encoded}\r\n")
}

/// Passwords at `/a`, those of users with a scope at `/scoped`, passwords and tokens at `/both`, tokens at `/token`.
fn security(api: &mut Api) {
    let scope = || ScopeRule::AnyOf(vec!["read".to_owned()]);
    let login = |rule| Accepts { login: Some(rule), ..Accepts::default() };
    let both = Accepts { login: Some(ScopeRule::Anything), ..Accepts::token(scope()) };
    for (operation, accepts) in
        api.operations.iter_mut().zip([login(ScopeRule::Anything), login(scope()), both])
    {
        operation.security = Security::Required(accepts);
    }
}

fn gateway(upstream: &Upstream, issuer: &Issuer) -> Gateway {
    let operations = "GET /x, GET /scoped, GET /both, GET /token";
    let users =
        vec![user("ann", "se:cret", &["read"]), user("bob", "other", &[]), user("", "none", &[])];
    Gateway::of(api("/a").secured(operations).to(upstream).with(security))
        .issuer(issuer)
        .settings(|settings| settings.users = users)
        .start()
}

#[track_caller]
fn check(client: &mut Client, target: &str, fields: &str, expect: &str) {
    // The second time, it is cached.
    for _ in 0..2 {
        let found = client.fetch(&format!("GET /a/{target}"), fields).status_and_code();
        assert_eq!(found, expect, "{target} {fields}");
    }
}

#[test]
fn a_user_with_the_right_password_is_admitted() {
    let (upstream, issuer) = (Upstream::echo(), Issuer::new("resident"));
    let gateway = gateway(&upstream, &issuer);
    let mut client = gateway.connect();
    let token = |scope: &str| {
        format!("Authorization: {}\r\n", issuer.token().claim("scope", scope).bearer())
    };
    for (target, fields, expect) in [
        ("x", basic("ann:se:cret"), "200"),
        ("x", basic("ann:se:cret").replace("Basic ", "bASIC  "), "200"),
        ("x", basic("bob:other"), "200"),
        ("x", String::new(), "401 900913"),
        ("x", token("read"), "401 900913"),
        ("x", basic("ann:Se:cret"), "401 900914"),
        ("x", basic("ann:se"), "401 900914"),
        ("x", basic("ann"), "401 900914"),
        ("x", basic(""), "401 900913"),
        ("x", basic("bob:se:cret"), "401 900914"),
        ("x", basic("Ann:se:cret"), "401 900914"),
        ("x", basic("nobody:"), "401 900914"),
        ("x", "Authorization: Basic ***\r\n".to_owned(), "401 900914"),
        ("x", format!("Authorization: Basic {}\r\n", "a".repeat(1_025)), "401 900901"),
        ("x", basic("ann:se:cret").repeat(2), "401 900901"),
        ("scoped", basic("ann:se:cret"), "200"),
        ("scoped", basic("bob:other"), "403 900910"),
        ("both", basic("bob:other"), "200"),
        ("both", token("read"), "200"),
        ("both", token("write"), "403 900910"),
        ("both", String::new(), "401 900902"),
        ("token", basic("ann:se:cret"), "401 900902"),
    ] {
        check(&mut client, target, &fields, expect);
    }
    let challenge = |fields: &str| {
        let response = gateway.fetch("GET /a/x", fields);
        response.header("WWW-Authenticate").map(str::to_owned)
    };
    let expect = Some("Basic realm=\"WSO2 API Manager\"".to_owned());
    assert_eq!((challenge(""), challenge(&basic("ann:x"))), (expect.clone(), expect));
    assert!(upstream.requests().iter().all(|one| one.header("Authorization").is_none()));
}

#[test]
fn many_requests_with_one_password_wait_for_one_verification() {
    let (upstream, issuer) = (Upstream::fixed("in"), Issuer::new("resident"));
    let gateway = gateway(&upstream, &issuer);
    let mut clients: Vec<_> = (0..20).map(|_| gateway.connect()).collect();
    let request = |login: &str| format!("GET /a/x HTTP/1.1\r\nHost: me\r\n{}\r\n", basic(login));
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(request(if number % 2 == 0 { "ann:se:cret" } else { "ann:wrong" }));
    }
    for (number, client) in clients.iter_mut().enumerate() {
        let expect = if number % 2 == 0 { "200" } else { "401 900914" };
        assert_eq!(client.read().status_and_code(), expect);
    }
}

#[test]
fn a_password_that_changes_is_no_longer_accepted() {
    let (upstream, issuer) = (Upstream::fixed("in"), Issuer::new("resident"));
    let section = |password: &str| {
        format!(
            "[[user]]\nname = \"ann\"\npassword_hash = \"{}\"\nscopes = [\"read\"]\n",
            hash(password)
        )
    };
    let description = format!(
        "openapi: 3.0.3\ninfo: {{title: a, version: '1'}}\nx-wso2-basePath: /a\npaths: {{/x: {{get: {{}}}}}}\n\
         x-wso2-production-endpoints: {{urls: ['{}']}}\n\
         x-wso2-application-security: {{security-types: [basic_auth, oauth2]}}\n",
        upstream.url()
    );
    let files = Files::new().api("a.yaml", &description).issuer("resident", &issuer);
    let files = files.toml(&section("first"));
    let gateway = files.start();
    let fetch = |login: &str| gateway.fetch("GET /a/x", &basic(login)).status_and_code();
    assert_eq!((fetch("ann:first"), fetch("ann:second")), ("200".into(), "401 900914".into()));
    let toml = std::fs::read_to_string(files.path("penstock.toml")).unwrap();
    files.write("penstock.toml", &toml.replace(&hash("first"), &hash("second")));
    while fetch("ann:second") != "200" {
        std::thread::yield_now();
    }
    assert_eq!(fetch("ann:first"), "401 900914");
}

#[test]
fn a_password_is_not_sent_again_when_the_issuer_closes_the_connection() {
    let server = Upstream::responding(|_| CannedResponse::bytes("").then_close());
    let upstream = Upstream::fixed("in");
    let gateway = gateway(&upstream, &Issuer::new("resident").with_users_of(&server));
    let response = gateway.fetch("GET /a/x", &basic("eve:guess"));
    assert_eq!(response.status_and_code(), "503 503003");
    assert_eq!(server.requests().len(), 1, "the issuer counts wrong passwords");
}

#[test]
fn a_password_that_is_not_configured_is_exchanged_at_the_issuer_once() {
    use base64::Engine as _;
    let (upstream, issuer) = (Upstream::echo(), Issuer::new("resident"));
    let token = issuer.token().claim("sub", "eve").claim("scope", "read").sign();
    let server = Upstream::responding(move |request| {
        let respond = |status: &str, body: &str| {
            let len = body.len();
            CannedResponse::bytes(format!(
                "HTTP/1.1 {status}\r\nContent-Length: {len}\r\n\r\n{body}"
            ))
        };
        let login = base64::prelude::BASE64_STANDARD.encode("gateway:se%2Bcret");
        assert_eq!(request.header("Authorization"), Some(format!("Basic {login}").as_str()));
        let form = request.text();
        let form = form.strip_prefix("grant_type=password&username=").unwrap();
        match form.strip_suffix("&scope=read%20write").unwrap() {
            "eve&password=a%26b%3Ac" => {
                respond("200 OK", &format!(r#"{{"access_token":"{token}","token_type":"Bearer"}}"#))
            }
            "slow&password=x" => respond("429 Too Many Requests", "{}"),
            "client&password=x" => respond("400 Bad Request", r#"{"error":"unauthorized_client"}"#),
            "keycloak&password=x" => respond("401 X", r#"{"error":"invalid_grant"}"#),
            _ => respond("400 Bad Request", r#"{"error":"invalid_grant"}"#),
        }
    });
    let own = vec![user("ann", "se:cret", &["read"])];
    let gateway = Gateway::of(
        api("/a")
            .secured("GET /x, GET /scoped, GET /both, GET /token")
            .to(&upstream)
            .with(security),
    )
    .issuer(&issuer.with_users_of(&server))
    .settings(|settings| settings.users = own)
    .start();
    let mut client = gateway.connect();
    for (target, login, expect, asked) in [
        ("scoped", "ann:se:cret", "200", 0),
        ("x", "ann:wrong", "401 900914", 0),
        ("x", "eve:a&b:c", "200", 1),
        ("scoped", "eve:a&b:c", "200", 0),
        ("token", "eve:a&b:c", "401 900902", 0),
        ("x", "eve:wrong", "401 900914", 1),
        ("x", "keycloak:x", "401 900914", 1),
        ("x", "nobody:x", "401 900914", 1),
    ] {
        let before = server.requests().len();
        check(&mut client, target, &basic(login), expect);
        assert_eq!(server.requests().len() - before, asked, "{login}");
    }
    for login in ["slow:x", "client:x"] {
        check(&mut client, "x", &basic(login), "503 503003");
    }
}
