//! Rejected credentials are counted and logged by reason, which no response contains.

use std::collections::HashSet;

use harness::{CannedResponse, Gateway, Issuer, ProofKey, Upstream, api};
use model::{Accepts, AccessLog, AuthFailure, Denial, KeyPlace, ScopeRule, Security};
use serde_json::{Value, json};

/// A rejected credential for each reason: the header fields, and the reason.
fn rejected(issuer: &Issuer, stranger: &Issuer, used: &mut String) -> Vec<(String, AuthFailure)> {
    let bearer = |token: String| format!("Authorization: Bearer {token}\r\n");
    let token = issuer.token().claim("aud", "shop");
    let key = token.clone().claim("token_type", "apiKey");
    let valid = token.sign();
    let (_, claims_and_signature) = valid.split_once('.').unwrap();
    let client = ProofKey::default();
    let bound = token.clone().claim("cnf", client.confirmation()).sign();
    let with_proof = |scheme: &str| client.fields(&format!("GET {scheme}://gateway/a/x"), &bound);
    *used = with_proof("http");
    vec![
        (String::new(), AuthFailure::MissingCredential),
        ("Authorization: Basic dXNlcjpwYXNz\r\n".to_owned(), AuthFailure::UnsupportedScheme),
        (bearer(valid.clone()).repeat(2), AuthFailure::RepeatedHeader),
        (bearer("a".repeat(base::limits::TOKEN_BYTES_MAX + 1)), AuthFailure::TokenTooLong),
        (bearer("a.b.c".to_owned()), AuthFailure::MalformedToken),
        // A P-256 signature takes 64 bytes: two padding characters.
        (bearer(format!("{valid}==")), AuthFailure::PaddedToken),
        (bearer(token.clone().typ(Some("id+jwt")).sign()), AuthFailure::UnsupportedHeader),
        // {"alg":"none"}
        (
            bearer(format!("eyJhbGciOiJub25lIn0.{claims_and_signature}")),
            AuthFailure::UnsupportedAlgorithm,
        ),
        (
            bearer(token.clone().claim("iss", "https://other.example").sign()),
            AuthFailure::UnknownIssuer,
        ),
        (bearer(token.clone().kid(Some("unknown")).sign()), AuthFailure::UnknownKid),
        (bearer(stranger.token().sign()), AuthFailure::BadSignature),
        (bearer(token.clone().claim("exp", ()).sign()), AuthFailure::NoExpiry),
        (bearer(token.clone().expires_in_s(-1).sign()), AuthFailure::Expired),
        (
            bearer(token.clone().claim("nbf", harness::now_s() + 1_000).sign()),
            AuthFailure::NotYetValid,
        ),
        (bearer(token.clone().claim("aud", "bank").sign()), AuthFailure::WrongAudience),
        (bearer("inactive".to_owned()), AuthFailure::InactiveToken),
        (bearer("undecided".to_owned()), AuthFailure::IssuerUnavailable),
        (
            bearer(token.clone().claim("cnf", json!({"jkt": "key"})).sign()),
            AuthFailure::Unconfirmed,
        ),
        (bearer(bound.clone()), AuthFailure::MissingProof),
        (with_proof("https"), AuthFailure::InvalidProof),
        (used.clone(), AuthFailure::ReplayedProof),
        ("apikey: unknown\r\n".to_owned(), AuthFailure::UnknownKey),
        (bearer(key.sign()), AuthFailure::WrongKind),
        (
            format!("apikey: {}\r\n", key.claim("permittedIP", "192.0.2.1").sign()),
            AuthFailure::NotPermitted,
        ),
        (String::new(), AuthFailure::MissingLogin),
        ("Authorization: Basic YTpi\r\n".to_owned(), AuthFailure::WrongPassword),
    ]
}

#[test]
fn each_reason_is_counted_and_logged_and_in_no_response() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("access.log");
    let upstream = Upstream::fixed("in");
    let server = Upstream::responding(|request| {
        let is_inactive = request.text().starts_with("token=inactive&");
        CannedResponse::ok(if is_inactive { r#"{"active":false}"# } else { "" })
    });
    let issuer = Issuer::new("resident").audiences(&["shop"]).introspected_by(&server);
    let mut used = String::new();
    let rejected = rejected(&issuer, &Issuer::new("resident"), &mut used);
    let keys = Accepts {
        api_keys: vec![KeyPlace::Header("apikey".to_owned())],
        ..Accepts::token(ScopeRule::Anything)
    };
    let login = Accepts { login: Some(ScopeRule::Anything), ..Accepts::default() };
    let api = api("/a").secured("GET /*, GET /login").to(&upstream).with(|api| {
        api.operations[0].security = Security::Required(keys);
        api.operations[1].security = Security::Required(login);
    });
    let gateway = Gateway::of(api)
        .issuer(&issuer)
        .settings(|settings| settings.access_log = AccessLog::File(file.clone()))
        .start();
    assert_eq!(gateway.fetch("GET /a/x", &used).status, 200, "the first time");
    let mut responses: Vec<(Denial, HashSet<String>)> = Vec::new();
    for (fields, reason) in &rejected {
        let is_login = matches!(reason, AuthFailure::MissingLogin | AuthFailure::WrongPassword);
        let target = if is_login { "GET /a/login" } else { "GET /a/x" };
        let response = gateway.fetch(target, fields);
        let denial = reason.denial();
        assert_eq!(response.status, denial.row().status, "{reason:?}");
        // All but the time.
        let lines = response.head.split_inclusive('\n').filter(|line| !line.starts_with("Date:"));
        let whole = format!("{}{}", lines.collect::<String>(), response.text());
        assert!(!whole.contains(reason.as_str()), "{reason:?}: {whole}");
        match responses.iter_mut().find(|(known, _)| *known == denial) {
            Some((_, known)) => _ = known.insert(whole),
            None => responses.push((denial, HashSet::from([whole]))),
        }
        let labels = format!("api=,reason=\"{}\"", reason.as_str());
        gateway.wait_for_metric("penstock_auth_failures_total", &labels, 1);
    }
    for (denial, responses) in &responses {
        assert_eq!(responses.len(), 1, "one response for all reasons of {denial:?}");
    }
    let accepted = issuer.token().claim("aud", "shop").bearer();
    assert_eq!(gateway.fetch("GET /a/x", &format!("Authorization: {accepted}\r\n")).status, 200);
    // Revoked tokens need a key manager, sessions a login, and nonces a setting: tests/identity/revocations.rs,
    // sign_in.rs, dpop.rs. A million proofs take too long.
    let others = [
        AuthFailure::Revoked,
        AuthFailure::TooManyProofs,
        AuthFailure::CrossSite,
        AuthFailure::ProofNonce,
    ];
    let reasons = || AuthFailure::ALL.into_iter().filter(|reason| !others.contains(reason));
    let total = gateway.metric("penstock_auth_failures_total", "api=");
    assert_eq!(total, reasons().count() as u64);
    assert!(gateway.drain(), "nothing is in progress");
    let lines = std::fs::read_to_string(&file).unwrap();
    let logged: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let logged: Vec<_> = logged.iter().map(|line| line["auth_failure"].as_str()).collect();
    let expect: Vec<_> = [None]
        .into_iter()
        .chain(reasons().map(|reason| Some(reason.as_str())))
        .chain([None])
        .collect();
    assert_eq!(logged, expect, "in the order of the requests");
}

#[test]
fn a_token_is_valid_as_soon_as_it_is_issued() {
    let (issuer, upstream) = (Issuer::new("resident"), Upstream::fixed("in"));
    let gateway = Gateway::of(api("/a").secured("GET /*").to(&upstream)).issuer(&issuer).start();
    let mut client = gateway.connect();
    // Into the next second, whose beginning the gateway must not notice late.
    let (mut after, begun_s) = (0, harness::now_s());
    while after < 20 {
        let now_s = harness::now_s();
        after += u32::from(now_s > begun_s);
        let bearer = issuer.token().claim("nbf", now_s).claim("jti", after.to_string()).bearer();
        let response = client.fetch("GET /a/x", &format!("Authorization: {bearer}\r\n"));
        assert_eq!(response.status, 200, "{after} in the new second: {}", response.text());
    }
}
