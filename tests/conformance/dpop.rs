//! Tokens that are bound to a key of the client, which proves with each request that it has it (DPoP).

use harness::{CannedResponse, Client, Gateway, Issuer, ProofKey, Upstream, api, now_s};
use serde_json::json;

const URL: &str = "GET http://gateway/a/x";
const INVALID_TOKEN: &str = "invalid_token";
const INVALID_PROOF: &str = "invalid_dpop_proof";

fn gateway(issuer: &Issuer, upstream: &Upstream) -> Gateway {
    Gateway::of(api("/a").secured("GET /*").to(upstream)).issuer(issuer).start()
}

/// `served`, or the error of the challenge to a request with these fields.
fn outcome(client: &mut Client, request: &str, fields: &str) -> String {
    let response = client.fetch(request, fields);
    if response.status == 200 {
        return response.text();
    }
    assert_eq!(response.status_and_code(), "401 900901", "{fields}");
    let challenge = response.header("www-authenticate").unwrap();
    let error = challenge.strip_prefix("DPoP realm=\"WSO2 API Manager\", error=\"");
    let (error, rest) = error.and_then(|rest| rest.split_once('"')).expect("a challenge for DPoP");
    assert!(rest.starts_with(", algs=\"") && !rest.contains("HS256"), "{challenge}");
    error.to_owned()
}

#[test]
fn a_bound_token_is_accepted_with_a_proof_only_and_no_upstream_gets_one() {
    let (issuer, upstream, key) =
        (Issuer::new("resident"), Upstream::fixed("served"), ProofKey::default());
    let gateway = gateway(&issuer, &upstream);
    let bound = issuer.token().claim("cnf", key.confirmation()).sign();
    let unbound = issuer.token().sign();
    let mut client = gateway.connect();
    // The second time from the cache.
    for _ in 0..2 {
        assert_eq!(outcome(&mut client, "GET /a/x", &key.fields(URL, &bound)), "served");
        let proof = format!("DPoP: {}\r\n", key.proof(URL, &bound).sign());
        for (fields, expect) in [
            (format!("Authorization: Bearer {bound}\r\n"), INVALID_TOKEN),
            (format!("Authorization: Bearer {bound}\r\n{proof}"), INVALID_TOKEN),
            (format!("Authorization: DPoP {bound}\r\n"), INVALID_TOKEN),
            (format!("Authorization: DPoP {bound}\r\n{proof}{proof}"), INVALID_PROOF),
            (key.fields(URL, &unbound), INVALID_TOKEN),
            (key.fields(URL, "no.such.token"), INVALID_TOKEN),
            (key.fields(URL, &issuer.token().expires_in_s(-1).sign()), INVALID_TOKEN),
        ] {
            assert_eq!(outcome(&mut client, "GET /a/x", &fields), expect, "{fields}");
        }
    }
    let requests = upstream.requests();
    assert_eq!(requests.len(), 2);
    for request in &requests {
        assert_eq!((request.header("dpop"), request.header("authorization")), (None, None));
    }
}

#[test]
fn a_proof_is_for_one_method_url_token_and_key() {
    let (issuer, upstream, key) =
        (Issuer::new("resident"), Upstream::fixed("served"), ProofKey::default());
    let gateway = gateway(&issuer, &upstream);
    let token = issuer.token().claim("cnf", key.confirmation()).sign();
    let other_token = issuer.token().claim("cnf", key.confirmation()).claim("jti", "b").sign();
    let thief = ProofKey::default();
    let good = || key.proof(URL, &token);
    let secret = json!({ "kty": "oct", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldA" });
    let mut private = key.jwk();
    private["d"] = json!("c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3I");
    let signed = good().sign();
    let (head, _) = signed.rsplit_once('.').unwrap();
    let mut client = gateway.connect();
    let mut check = |proof: String, expect: &str| {
        let fields = format!("Authorization: DPoP {token}\r\nDPoP: {proof}\r\n");
        assert_eq!(outcome(&mut client, "GET /a/x", &fields), expect, "{proof}");
    };
    for (name, value) in [
        ("htm", json!("POST")),
        ("htm", json!("get")),
        ("htm", json!(null)),
        ("htu", json!("http://gateway/a/y")),
        ("htu", json!("http://gateway/a/x/")),
        ("htu", json!("http://gateway/b/../a/%58")),
        ("htu", json!("https://gateway/a/x")),
        ("htu", json!("http://other/a/x")),
        ("htu", json!("http://gateway:8280/a/x")),
        ("htu", json!("http://user@gateway/a/x")),
        ("htu", json!("/a/x")),
        ("htu", json!("httpx://gateway/a/x")),
        ("htu", json!("http://gateway/a/x\u{e9}")),
        ("htu", json!(null)),
        ("iat", json!(now_s() - 120)),
        ("iat", json!(now_s() + 60)),
        ("iat", json!(now_s().to_string())),
        ("iat", json!(null)),
        ("jti", json!(null)),
        ("jti", json!("")),
        ("jti", json!(7)),
        ("ath", json!(null)),
        ("ath", json!("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8")),
    ] {
        check(good().claim(name, value).sign(), INVALID_PROOF);
    }
    for (name, value) in [
        ("typ", json!("JWT")),
        ("typ", json!("at+jwt")),
        ("alg", json!("none")),
        ("alg", json!("HS256")),
        ("alg", json!("ES384")),
        ("alg", json!("RS256")),
        ("jwk", json!(null)),
        ("jwk", secret),
        ("jwk", private),
        // Another key: the signature does not verify.
        ("jwk", thief.jwk()),
        ("crit", json!(["exp"])),
    ] {
        check(good().header(name, value).sign(), INVALID_PROOF);
    }
    check(thief.proof(URL, &token).sign(), INVALID_PROOF);
    check(thief.proof(URL, &token).header("jwk", key.jwk()).sign(), INVALID_PROOF);
    check(key.proof(URL, &other_token).sign(), INVALID_PROOF);
    check(format!("{head}.AAAA"), INVALID_PROOF);
    check(token.clone(), INVALID_PROOF);
    check(String::new(), INVALID_PROOF);
    check("a".repeat(base::limits::PROOF_BYTES_MAX + 1), INVALID_PROOF);
    assert_eq!(upstream.requests(), [], "a rejected request never reaches the upstream");
    for (name, value) in [
        ("htu", json!("http://gateway:80/a/x?b=c#d")),
        ("htu", json!("HTTP://GATEWAY/b/../a/%78")),
        ("iat", json!(now_s() - 50)),
    ] {
        check(good().claim(name, value).sign(), "served");
    }
}

#[test]
fn a_proof_is_used_once_whichever_worker_gets_it() {
    let (issuer, upstream, key) =
        (Issuer::new("resident"), Upstream::fixed("served"), ProofKey::default());
    let gateway = Gateway::of(api("/a").secured("GET /*").to(&upstream))
        .issuer(&issuer)
        .settings(|settings| settings.gateway.workers = Some(4))
        .start();
    let token = issuer.token().claim("cnf", key.confirmation()).sign();
    let fields = key.fields(URL, &token);
    let mut clients: Vec<_> = (0..16).map(|_| gateway.connect()).collect();
    for client in &mut clients {
        client.send(format!("GET /a/x HTTP/1.1\r\nHost: gateway\r\n{fields}\r\n"));
    }
    let served = clients.iter_mut().map(Client::read).filter(|response| response.status == 200);
    assert_eq!(served.count(), 1);
    let failed = gateway.metric("penstock_auth_failures_total", "reason=\"replayed_proof\"");
    assert_eq!(failed, 15);
    let again = key.proof(URL, &token).claim("jti", "shared").fields(&token);
    assert_eq!(outcome(&mut gateway.connect(), "GET /a/x", &again), "served");
    let other = ProofKey::default();
    let token = issuer.token().claim("cnf", other.confirmation()).sign();
    let same_id = other.proof(URL, &token).claim("jti", "shared").fields(&token);
    assert_eq!(outcome(&mut gateway.connect(), "GET /a/x", &same_id), "served", "of another key");
}

#[test]
fn the_url_is_that_of_the_client_over_tls_and_behind_a_trusted_proxy() {
    let (issuer, upstream, key) =
        (Issuer::new("resident"), Upstream::fixed("served"), ProofKey::default());
    let token = issuer.token().claim("cnf", key.confirmation()).sign();
    let forwarded = "X-Forwarded-Proto: https\r\nX-Forwarded-Host: api.example\r\n";
    let secure = key.fields("GET https://gateway/a/x", &token);
    let public = || key.fields("GET https://api.example/a/x", &token) + forwarded;
    let direct = gateway(&issuer, &upstream);
    assert_eq!(outcome(&mut direct.connect_tls(), "GET /a/x", &secure), "served");
    assert_eq!(outcome(&mut direct.connect(), "GET /a/x", &public()), INVALID_PROOF);
    let behind = Gateway::of(api("/a").secured("GET /*").to(&upstream))
        .issuer(&issuer)
        .trusting_loopback_clients()
        .start();
    assert_eq!(outcome(&mut behind.connect(), "GET /a/x", &public()), "served");
}

#[test]
fn an_opaque_token_is_bound_by_what_its_issuer_says() {
    let (upstream, key) = (Upstream::fixed("served"), ProofKey::default());
    let confirmation = key.confirmation();
    let server = Upstream::responding(move |request| {
        let kind = if request.text().contains("typed") { "DPoP" } else { "Bearer" };
        let response = json!({ "active": true, "token_type": kind, "cnf": confirmation });
        CannedResponse::ok(&response.to_string())
    });
    let gateway = gateway(&Issuer::new("resident").introspected_by(&server), &upstream);
    let mut client = gateway.connect();
    for token in ["typed", "untyped", "typed", "untyped"] {
        assert_eq!(outcome(&mut client, "GET /a/x", &key.fields(URL, token)), "served");
        let bearer = format!("Authorization: Bearer {token}\r\n");
        assert_eq!(outcome(&mut client, "GET /a/x", &bearer), INVALID_TOKEN);
        let thief = ProofKey::default().fields(URL, token);
        assert_eq!(outcome(&mut client, "GET /a/x", &thief), INVALID_PROOF);
    }
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn a_gateway_with_nonces_tells_the_client_which_one_to_use() {
    let (issuer, upstream, key) =
        (Issuer::new("resident"), Upstream::fixed("served"), ProofKey::default());
    let gateway = Gateway::of(api("/a").secured("GET /*").to(&upstream))
        .issuer(&issuer)
        .settings(|settings| settings.gateway.dpop_nonce = true)
        .start();
    let token = issuer.token().claim("cnf", key.confirmation()).sign();
    let mut client = gateway.connect();
    let mut nonce = String::new();
    for wrong in ["", "guessed"] {
        let fields = key.proof(URL, &token).claim("nonce", wrong).fields(&token);
        let response = client.fetch("GET /a/x", &fields);
        assert_eq!(response.status_and_code(), "401 900901");
        let challenge = response.header("www-authenticate").unwrap();
        assert!(challenge.contains("error=\"use_dpop_nonce\""), "{challenge}");
        assert_eq!(response.header("cache-control"), Some("no-store"));
        response.header("dpop-nonce").unwrap().clone_into(&mut nonce);
    }
    let fields = || key.proof(URL, &token).claim("nonce", nonce.as_str()).fields(&token);
    assert_eq!(outcome(&mut client, "GET /a/x", &fields()), "served");
    assert_eq!(upstream.requests().len(), 1);
    let invalid = key.proof(URL, &token).claim("htm", "PUT").fields(&token);
    assert_eq!(outcome(&mut client, "GET /a/x", &invalid), INVALID_PROOF);
    let failed = gateway.metric("penstock_auth_failures_total", "reason=\"proof_nonce\"");
    assert_eq!(failed, 2);
}
