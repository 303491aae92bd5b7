//! `penstock token sign`: its tokens are accepted by the gateway.

use std::collections::HashSet;

use harness::{Files, Issuer, Process, Upstream, now_s};

#[test]
fn signed_tokens_are_accepted_by_the_gateway_each_with_a_jti_of_its_own() {
    let (upstream, issuer) = (Upstream::fixed("in"), Issuer::rsa("mine"));
    let files = Files::new().issuer("mine", &issuer).api(
        "a.yaml",
        &format!(
            "openapi: 3.0.3\ninfo: {{title: A, version: '1'}}\nx-wso2-basePath: /a\n\
             servers: [{{url: '{}'}}]\npaths:\n  /*:\n    get: {{responses: {{}}}}\n",
            upstream.url()
        ),
    );
    let gateway = files.start();
    files.write("signing.pem", &issuer.pem);
    let claims =
        format!("{{\"iss\":\"{}\",\"sub\":\"me\",\"exp\":{}}}", issuer.iss(), now_s() + 600);
    files.write("claims.json", &claims);
    let common = ["token", "sign", "--key", "signing.pem", "--claims"];
    let mut seen = HashSet::new();
    for (more, count) in [
        (&[claims.as_str()][..], 1),
        (&["@claims.json", "--count", "5"], 5),
        (&["@claims.json", "--kid", "mine", "--typ", "at+jwt"], 1),
    ] {
        let arguments: Vec<&str> = common.iter().chain(more).copied().collect();
        let (code, text) = Process::run(files.folder(), &arguments);
        assert_eq!((code, text.lines().count()), (Some(0), count), "{text}");
        for token in text.lines() {
            assert!(seen.insert(token.to_owned()), "each token is different");
            let response = gateway.fetch("GET /a/x", &format!("Authorization: Bearer {token}\r\n"));
            assert_eq!(response.status_and_code(), "200", "{arguments:?}");
        }
    }
    drop(gateway);
}

#[test]
fn wrong_keys_and_claims_are_rejected() {
    let files = Files::new();
    files.write("signing.pem", &Issuer::new("mine").pem);
    for (key, claims, more, code, expect) in [
        ("none.pem", "{}", &[][..], 1, "none.pem"),
        ("tls.crt", "{}", &[], 1, "tls.crt"),
        ("signing.pem", "{}", &[], 2, "`exp`"),
        ("signing.pem", "[]", &[], 2, "JSON object"),
        ("signing.pem", "{", &[], 2, "JSON"),
        ("signing.pem", "@none.json", &[], 1, "none.json"),
        ("signing.pem", "{\"exp\":4000000000}", &["--alg", "RS256"], 2, "RS256"),
        ("signing.pem", "{\"exp\":4000000000}", &["--alg", "none"], 2, "none"),
        ("signing.pem", "{\"exp\":4000000000}", &["--count", "0"], 2, "0"),
    ] {
        let mut arguments = vec!["token", "sign", "--key", key, "--claims", claims];
        arguments.extend(more);
        let (got, text) = Process::run(files.folder(), &arguments);
        assert_eq!(got, Some(code), "{arguments:?}: {text}");
        assert!(text.contains(expect), "{arguments:?}: {text}");
    }
}

#[test]
fn a_token_file_is_readable_by_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let files = Files::new();
    files.write("signing.pem", &Issuer::new("mine").pem);
    let claims = format!("{{\"exp\":{}}}", now_s() + 600);
    let arguments = [
        "token",
        "sign",
        "--key",
        "signing.pem",
        "--claims",
        &claims,
        "--count",
        "3",
        "--out",
        "t",
    ];
    assert_eq!(Process::run(files.folder(), &arguments), (Some(0), String::new()));
    let mode = std::fs::metadata(files.path("t")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}
