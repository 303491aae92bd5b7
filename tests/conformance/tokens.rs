//! Tokens, scopes and key types, and the response to each denial.

use harness::{Gateway, Issuer, Token, Upstream, api};
use jose::Algorithm;
use serde_json::json;

/// Sends a request with this `Authorization` field, or none.
#[track_caller]
fn check(gateway: &Gateway, request: &str, credential: Option<&str>, expect: &str) {
    let field = credential.map(|value| format!("Authorization: {value}\r\n")).unwrap_or_default();
    assert_eq!(
        gateway.fetch(request, &field).status_and_code(),
        expect,
        "{request} {credential:?}"
    );
}

fn secured(issuer: &Issuer, upstream: &Upstream) -> Gateway {
    Gateway::of(api("/a").secured("GET /*").to(upstream)).issuer(issuer).start()
}

#[test]
fn only_a_valid_token_is_accepted() {
    let (issuer, stranger) = (Issuer::new("resident"), Issuer::new("resident"));
    let upstream = Upstream::fixed("in");
    let gateway = secured(&issuer, &upstream);
    let valid = issuer.token().sign();
    let (head, rest) = valid.split_once('.').unwrap();
    let (payload, signature) = rest.split_once('.').unwrap();
    // {"alg":"none"}
    let unsigned = format!("eyJhbGciOiJub25lIn0.{payload}.");
    let rejected = [
        issuer.token().expires_in_s(-1).sign(),
        issuer.token().claim("exp", ()).sign(),
        stranger.token().sign(),
        issuer.token().claim("iss", "https://other.example/token").sign(),
        issuer.token().claim("iss", ()).sign(),
        issuer.token().claim("nbf", harness::now_s() + 1_000).sign(),
        issuer.token().typ(Some("id+jwt")).sign(),
        issuer.token().kid(Some("unknown")).sign(),
        unsigned,
        format!("{head}.{payload}"),
        format!("{head}.{payload}.{signature}."),
        format!("{head}.{payload}.{}", &signature[1..]),
        format!("{head}.{payload}.{signature}="),
        "opaque".to_owned(),
    ];
    for token in &rejected {
        check(&gateway, "GET /a/x", Some(&format!("Bearer {token}")), "401 900901");
    }
    check(&gateway, "GET /a/x", Some(&format!("Basic {valid}")), "401 900902");
    check(&gateway, "GET /a/x", Some(&valid), "401 900902");
    check(&gateway, "GET /a/x", Some("Bearer "), "401 900902");
    check(&gateway, "GET /a/x", None, "401 900902");
    assert_eq!(upstream.requests(), [], "a denied request never reaches the upstream");
    for token in [
        issuer.token(),
        issuer.token().typ(None),
        issuer.token().typ(Some("at+jwt")),
        issuer.token().kid(None),
        issuer.token().claim("sub", 42),
    ] {
        check(&gateway, "GET /a/x", Some(&token.bearer()), "200");
        check(&gateway, "GET /a/x", Some(&format!("bearer  {}", token.sign())), "200");
    }
}

/// The whole response to `credential`.
#[track_caller]
fn check_response(credential: &str, status: u16, authenticate: &str, body: &str) {
    let upstream = Upstream::fixed("in");
    let issuer = Issuer::new("resident").audiences(&["shop"]);
    let gateway =
        Gateway::of(api("/a").any_scope("GET /scoped", &["read"]).secured("GET /*").to(&upstream))
            .issuer(&issuer)
            .start();
    let valid = issuer.token().claim("aud", "shop");
    let (path, field) = match credential {
        "none" => ("x", String::new()),
        "broken" => ("x", "Authorization: Bearer broken\r\n".to_owned()),
        "expired" => ("x", authorization(&valid.expires_in_s(-1))),
        "audience" => ("x", authorization(&valid.claim("aud", "bank"))),
        _ => ("scoped", authorization(&valid)),
    };
    let response = gateway.fetch(&format!("GET /a/{path}"), &field);
    assert_eq!((response.status, response.text().as_str()), (status, body), "{credential}");
    assert_eq!(response.header("content-type"), Some("application/json; charset=UTF-8"));
    assert_eq!(response.header("www-authenticate").unwrap_or("none"), authenticate, "{credential}");
}

fn authorization(token: &Token<'_>) -> String {
    format!("Authorization: {}\r\n", token.bearer())
}

#[test]
fn each_denial_has_wso2s_code_and_body() {
    const REALM: &str = "OAuth2 realm=\"WSO2 API Manager\"";
    let invalid = format!("{REALM}, error=\"invalid_token\"");
    let credentials = "{\"code\":\"900901\",\"message\":\"Invalid Credentials\",\"description\":\
        \"Invalid Credentials. Make sure you have provided the correct security credentials\"}";
    check_response(
        "none",
        401,
        REALM,
        "{\"code\":\"900902\",\"message\":\"Missing Credentials\",\"description\":\"Invalid \
         Credentials. Make sure your API invocation call has a header: 'Authorization : Bearer \
         ACCESS_TOKEN'\"}",
    );
    check_response("broken", 401, &invalid, credentials);
    check_response("expired", 401, &invalid, credentials);
    check_response(
        "audience",
        403,
        "none",
        "{\"code\":\"900914\",\"message\":\"Invalid Credentials\",\"description\":\"The access \
         token is not meant for this API\"}",
    );
    check_response(
        "scope",
        403,
        &format!("{REALM}, error=\"insufficient_scope\""),
        "{\"code\":\"900910\",\"message\":\"The access token does not allow you to access the \
         requested resource\",\"description\":\"User is NOT authorized to access the Resource. \
         Scope validation failed.\"}",
    );
}

#[test]
fn leeway_allows_for_clock_skew() {
    let upstream = Upstream::fixed("in");
    let issuer = Issuer::new("resident").leeway_s(300);
    let gateway = secured(&issuer, &upstream);
    check(&gateway, "GET /a/x", Some(&issuer.token().expires_in_s(-60).bearer()), "200");
    let early = issuer.token().claim("nbf", harness::now_s() + 60);
    check(&gateway, "GET /a/x", Some(&early.bearer()), "200");
    check(&gateway, "GET /a/x", Some(&issuer.token().expires_in_s(-400).bearer()), "401 900901");
}

#[test]
fn an_issuer_whose_clock_is_a_little_ahead_needs_no_leeway() {
    let (issuer, upstream) = (Issuer::new("resident"), Upstream::fixed("in"));
    let gateway = secured(&issuer, &upstream);
    let early = |ahead_s| issuer.token().claim("nbf", harness::now_s() + ahead_s).bearer();
    check(&gateway, "GET /a/x", Some(&early(4)), "200");
    check(&gateway, "GET /a/x", Some(&early(60)), "401 900901");
}

#[test]
fn tokens_that_are_for_another_use_than_access_are_rejected() {
    let (issuer, upstream) = (Issuer::new("resident"), Upstream::fixed("in"));
    let gateway = secured(&issuer, &upstream);
    for (claim, value) in [
        ("typ", json!("ID")),
        ("typ", json!("Refresh")),
        ("token_use", json!("id")),
        ("nonce", json!("n")),
        ("events", json!({ "http://schemas.openid.net/event/backchannel-logout": {} })),
    ] {
        let token = issuer.token().claim(claim, value.clone()).bearer();
        check(&gateway, "GET /a/x", Some(&token), "401 900901");
    }
    let access = issuer.token().claim("nonce", "n").claim("scope", "read").bearer();
    check(&gateway, "GET /a/x", Some(&access), "200");
}

#[test]
fn an_issuer_may_allow_tokens_that_never_expire() {
    let upstream = Upstream::fixed("in");
    let issuer = Issuer::new("resident").allow_unlimited();
    let gateway = secured(&issuer, &upstream);
    check(&gateway, "GET /a/x", Some(&issuer.token().claim("exp", ()).bearer()), "200");
    check(&gateway, "GET /a/x", Some(&issuer.token().expires_in_s(-1).bearer()), "401 900901");
}

#[test]
fn one_matching_audience_suffices() {
    let upstream = Upstream::fixed("in");
    let issuer = Issuer::new("resident").audiences(&["shop", "bank"]);
    let gateway = secured(&issuer, &upstream);
    for (audience, expect) in [
        (json!("shop"), "200"),
        (json!(["other", "bank"]), "200"),
        (json!("other"), "403 900914"),
        (json!([]), "403 900914"),
        (json!(null), "403 900914"),
    ] {
        let token = issuer.token().claim("aud", audience);
        check(&gateway, "GET /a/x", Some(&token.bearer()), expect);
    }
}

#[test]
fn scopes_are_checked_per_operation() {
    let (upstream, issuer) = (Upstream::fixed("in"), Issuer::new("resident"));
    let gateway = Gateway::of(
        api("/a")
            .any_scope("GET /any", &["read", "write"])
            .all_scopes("GET /all", &["read", "write"])
            .secured("GET /none")
            .to(&upstream),
    )
    .issuer(&issuer)
    .start();
    for (claim, scopes, any, all) in [
        ("scope", json!("read"), "200", "403 900910"),
        ("scope", json!("other write read"), "200", "200"),
        ("scp", json!(["write", "read"]), "200", "200"),
        ("scope", json!(["write", "read"]), "200", "200"),
        ("scope", json!("readwrite"), "403 900910", "403 900910"),
        ("scope", json!("READ WRITE"), "403 900910", "403 900910"),
        ("scope", json!(null), "403 900910", "403 900910"),
    ] {
        let bearer = issuer.token().claim(claim, scopes).bearer();
        check(&gateway, "GET /a/any", Some(&bearer), any);
        check(&gateway, "GET /a/all", Some(&bearer), all);
        check(&gateway, "GET /a/none", Some(&bearer), "200");
    }
}

#[test]
fn the_key_type_chooses_between_production_and_sandbox() {
    let (production, sandbox) = (Upstream::fixed("production"), Upstream::fixed("sandbox"));
    let issuer = Issuer::new("resident");
    let gateway = Gateway::of(
        api("/both").secured("GET /*").open("GET /open").to(&production).sandbox(&sandbox),
    )
    .api(api("/production").secured("GET /*").to(&production))
    .api(api("/sandbox").secured("GET /*").sandbox(&sandbox))
    .issuer(&issuer)
    .start();
    for (path, key_type, expect) in [
        ("/both/x", "PRODUCTION", "production"),
        ("/both/x", "SANDBOX", "sandbox"),
        ("/both/x", "", "production"),
        ("/both/open", "SANDBOX", "production"),
        ("/production/x", "PRODUCTION", "production"),
        ("/production/x", "SANDBOX", "403 900901"),
        ("/sandbox/x", "SANDBOX", "sandbox"),
        ("/sandbox/x", "PRODUCTION", "403 900901"),
    ] {
        let token = match key_type {
            "" => issuer.token(),
            named => issuer.token().claim("keytype", named),
        };
        let response = gateway.fetch(&format!("GET {path}"), &authorization(&token));
        let got = if response.status == 200 { response.text() } else { response.status_and_code() };
        assert_eq!(got, expect, "{path} {key_type}");
    }
}

#[test]
fn tokens_of_several_issuers_are_accepted_each_by_its_own_key() {
    let upstream = Upstream::fixed("in");
    let (one, two) = (Issuer::new("one"), Issuer::rsa("two"));
    let gateway =
        Gateway::of(api("/a").secured("GET /*").to(&upstream)).issuer(&one).issuer(&two).start();
    check(&gateway, "GET /a/x", Some(&one.token().bearer()), "200");
    for alg in [Algorithm::Rs256, Algorithm::Rs512, Algorithm::Ps256] {
        let expect = if alg == Algorithm::Rs256 { "200" } else { "401 900901" };
        check(&gateway, "GET /a/x", Some(&two.token().alg(alg).bearer()), expect);
    }
    let crossed = one.token().claim("iss", two.iss());
    check(&gateway, "GET /a/x", Some(&crossed.bearer()), "401 900901");
}

#[test]
fn a_verified_token_is_cached() {
    let (upstream, issuer) = (Upstream::fixed("in"), Issuer::new("resident"));
    let gateway = secured(&issuer, &upstream);
    let bearer = issuer.token().bearer();
    for _ in 0..5 {
        check(&gateway, "GET /a/x", Some(&bearer), "200");
    }
    let [hits, misses] = ["hit", "miss"].map(|outcome| {
        gateway.metric("penstock_token_cache_lookups_total", &format!("outcome=\"{outcome}\""))
    });
    assert_eq!((hits, misses), (4, 1));
}

#[test]
fn an_api_may_name_another_credential_header() {
    let (upstream, issuer) = (Upstream::fixed("in"), Issuer::new("resident"));
    let api = api("/a")
        .secured("GET /*")
        .to(&upstream)
        .with(|api| api.auth_header = "x-api-token".to_owned());
    let gateway = Gateway::of(api).issuer(&issuer).start();
    let bearer = issuer.token().bearer();
    assert_eq!(gateway.fetch("GET /a/x", &format!("X-API-Token: {bearer}\r\n")).status, 200);
    check(&gateway, "GET /a/x", Some(&bearer), "401 900902");
}

#[test]
fn two_credentials_are_rejected() {
    let (upstream, issuer) = (Upstream::fixed("in"), Issuer::new("resident"));
    let gateway = secured(&issuer, &upstream);
    let field = authorization(&issuer.token());
    for fields in [format!("{field}{field}"), format!("{field}Authorization: Bearer x\r\n")] {
        assert_eq!(gateway.fetch("GET /a/x", &fields).status, 401, "{fields}");
    }
}

#[test]
fn no_response_echoes_path_token_or_context() {
    let (upstream, issuer) = (Upstream::fixed("in"), Issuer::new("resident"));
    let gateway = secured(&issuer, &upstream);
    for (request, credential) in
        [("GET /a/sEcReT", "sEcReT"), ("GET /sEcReT", "sEcReT"), ("POST /a/sEcReT", "sEcReT")]
    {
        let response = gateway.fetch(request, &format!("Authorization: Bearer {credential}\r\n"));
        let whole = format!("{}{}", response.head, response.text());
        assert!(response.status >= 400 && !whole.contains("sEcReT"), "{whole}");
    }
}
