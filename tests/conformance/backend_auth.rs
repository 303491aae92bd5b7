//! Credentials of the gateway at upstreams.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use harness::{CannedResponse, Files, Gateway, Request, Upstream, wait_until};

/// An open API whose endpoints need a credential, and the same with a policy.
fn files(upstream: &Upstream, security: &str, credential: &str) -> Files {
    let description = |name: &str, policies: &str| {
        format!(
            "openapi: 3.0.3\ninfo: {{title: {name}, version: '1'}}\nx-wso2-basePath: /{name}\nsecurity: []\n\
             x-penstock-forward-auth-header: true\npaths: {{/*: {{get: {{}}, post: {{}}}}}}\n{policies}\n\
             x-wso2-production-endpoints: {{urls: ['{}'], securityConfig: {security}}}\n",
            upstream.url()
        )
    };
    let policy = "x-penstock-policies: {request: [{name: addHeader, parameters: {headerName: X-By, headerValue: me}}]}";
    let files = Files::new()
        .api("plain.yaml", &description("plain", ""))
        .api("mediated.yaml", &description("mediated", policy));
    files.write("secret", "se:cret&1\n");
    files.toml(&format!("[[credential]]\nname = \"orders\"\n{credential}\n"))
}

/// The last request at the upstream.
fn last(upstream: &Upstream, name: &str) -> (String, Vec<String>) {
    let request = upstream.requests().pop().unwrap();
    let lines = request.head.lines().filter_map(|line| line.split_once(": "));
    let values = lines.filter(|(known, _)| known.eq_ignore_ascii_case(name));
    (request.target().to_owned(), values.map(|(_, value)| value.to_owned()).collect())
}

fn get(gateway: &Gateway, target: &str, fields: &str) {
    let response = gateway.fetch(&format!("GET {target}"), fields);
    assert_eq!(response.status, 200, "{target}: {}", response.text());
}

#[test]
fn an_upstream_gets_a_password_in_place_of_what_the_client_sent() {
    let upstream = Upstream::fixed("in");
    let basic = "type = \"basic\"\nusername = \"gateway\"\npassword = { file = \"secret\" }";
    let gateway = files(&upstream, "{credential: orders}", basic).start();
    for target in ["/plain/x?a=1", "/mediated/x?a=1"] {
        get(&gateway, target, "authorization: Basic YTpi\r\nAuthorization: Bearer x\r\n");
        let expect = "Basic Z2F0ZXdheTpzZTpjcmV0JjE=".to_owned();
        assert_eq!(last(&upstream, "Authorization"), ("/x?a=1".to_owned(), vec![expect]));
    }
}

#[test]
fn an_upstream_gets_a_key_in_a_field_or_in_the_query() {
    let upstream = Upstream::fixed("in");
    let key = "type = \"api_key\"\nkey = { file = \"secret\" }";
    let gateway =
        files(&upstream, "{credential: orders}", &format!("{key}\nheader = \"X-Key\"")).start();
    for target in ["/plain/x", "/mediated/x"] {
        get(&gateway, target, "x-key: mine\r\n");
        assert_eq!(last(&upstream, "X-Key"), ("/x".to_owned(), vec!["se:cret&1".to_owned()]));
    }
    let gateway =
        files(&upstream, "{credential: orders}", &format!("{key}\nquery = \"key\"")).start();
    for api in ["/plain", "/mediated"] {
        for (query, expect) in [
            ("", "/x?key=se%3Acret%261"),
            ("?a=1&b=%20", "/x?a=1&b=%20&key=se%3Acret%261"),
            ("?key=mine&a=1&k%65y=mine&key", "/x?a=1&key=se%3Acret%261"),
        ] {
            get(&gateway, &format!("{api}/x{query}"), "");
            assert_eq!(last(&upstream, "X-Key"), (expect.to_owned(), Vec::new()));
        }
    }
}

#[test]
fn a_description_may_have_the_credential_itself_as_in_api_microgateway() {
    let upstream = Upstream::fixed("in");
    for (security, name, expect) in [
        ("{type: BASIC, username: a, password: b}", "Authorization", "Basic YTpi"),
        ("{enabled: true, type: apikey, apiKeyIdentifier: X-Key, apiKeyValue: k}", "X-Key", "k"),
    ] {
        let files = files(
            &upstream,
            security,
            "type = \"basic\"\nusername = \"a\"\npassword = { file = \"secret\" }",
        );
        let gateway = files.start();
        get(&gateway, "/plain/x", "");
        assert_eq!(last(&upstream, name).1, [expect]);
    }
}

#[test]
fn requests_that_wait_for_a_token_cause_one_and_share_it() {
    let (upstream, issued) = (Upstream::fixed("in"), AtomicUsize::new(0));
    let server = Upstream::responding(move |_| {
        let number = issued.fetch_add(1, Ordering::Relaxed);
        CannedResponse::ok(&format!(r#"{{"access_token":"t{number}","expires_in":3600}}"#))
    });
    let oauth = format!(
        "type = \"oauth2\"\ntoken_url = \"{}/token?a=1\"\nclient_id = \"me\"\nclient_secret = {{ file = \"secret\" }}\nscopes = [\"a\", \"b\"]",
        server.url()
    );
    let gateway = files(&upstream, "{credential: orders}", &oauth).start();
    let mut clients: Vec<_> = (0..10).map(|_| gateway.connect()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        let api = if number % 2 == 0 { "plain" } else { "mediated" };
        client.send(format!("GET /{api}/x HTTP/1.1\r\nHost: me\r\n\r\n"));
    }
    assert!(clients.iter_mut().all(|client| client.read().status == 200));
    let requests = upstream.requests();
    let fields: Vec<_> = requests.iter().map(|request| request.header("Authorization")).collect();
    assert_eq!(fields, [Some("Bearer t0"); 10]);
    let asked = server.requests();
    assert_eq!(asked.len(), 1, "a token is asked for once");
    assert_eq!(asked[0].target(), "/token?a=1");
    assert_eq!(asked[0].header("Authorization"), Some("Basic bWU6c2UlM0FjcmV0JTI2MQ=="));
    assert_eq!(asked[0].text(), "grant_type=client_credentials&scope=a%20b");
}

#[test]
fn without_its_credential_no_request_is_sent() {
    let upstream = Upstream::fixed("in");
    let server = Upstream::responding(|_| {
        CannedResponse::bytes("HTTP/1.1 401 Unauthorized\r\nContent-Length: 6\r\n\r\nsecret")
    });
    let oauth = format!(
        "type = \"oauth2\"\ntoken_url = \"{}/token\"\nclient_id = \"me\"\nclient_secret = {{ file = \"secret\" }}",
        server.url()
    );
    let gateway = files(&upstream, "{credential: orders}", &oauth).start();
    for target in ["/plain/x", "/mediated/x", "/plain/x"] {
        let response = gateway.fetch(&format!("GET {target}"), "");
        assert_eq!(response.status_and_code(), "500 303003");
        assert!(!response.text().contains("secret") && !response.text().contains("token"));
    }
    assert_eq!(upstream.requests().len(), 0);
    assert_eq!(server.requests().len(), 1, "it is not asked again at once");
}

/// The signature that AWS computes of a request that has reached it.
fn signature(request: &Request, payload: &str) -> String {
    let field = |name: &str| request.header(name).unwrap();
    let hexadecimal =
        |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let (path, query) = request.target().split_once('?').unwrap();
    let (host, date) = (field("host"), field("x-amz-date"));
    let method = request.line().split(' ').next().unwrap();
    let canonical = format!(
        "{method}\n{path}\n{query}\nhost:{host}\nx-amz-content-sha256:{payload}\nx-amz-date:{date}\n\n\
         host;x-amz-content-sha256;x-amz-date\n{payload}"
    );
    let scope = format!("{}/eu-central-1/s3/aws4_request", &date[..8]);
    let hash = hexadecimal(&jose::sha256(canonical.as_bytes()));
    let parts = [&date[..8], "eu-central-1", "s3", "aws4_request"];
    let key = parts.iter().fold(b"AWS4se:cret&1".to_vec(), |key, part| {
        jose::hmac_sha256(&key, part.as_bytes()).to_vec()
    });
    let text = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{hash}");
    format!(
        "AWS4-HMAC-SHA256 Credential=AKID/{scope}, SignedHeaders=host;x-amz-content-sha256;x-amz-date, \
         Signature={}",
        hexadecimal(&jose::hmac_sha256(&key, text.as_bytes()))
    )
}

#[test]
fn an_upstream_of_aws_gets_a_signature_and_nothing_that_the_client_says_to_aws() {
    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let upstream = Upstream::fixed("in");
    let aws = "type = \"aws\"\naccess_key_id = \"AKID\"\nsecret_access_key = { file = \"secret\" }\n\
        region = \"eu-central-1\"\nservice = \"s3\"";
    let gateway = files(&upstream, "{credential: orders}", aws).start();
    let fields = "Authorization: Bearer x\r\nX-Amz-Copy-Source: /other/secret\r\nx-amz-date: 1\r\n";
    for path in ["/plain/x%20y?a=1&b=", "/mediated/x%20y?a=1&b="] {
        get(&gateway, path, fields);
        let request = upstream.requests().pop().unwrap();
        assert_eq!(request.header("x-amz-content-sha256"), Some(EMPTY));
        assert_eq!(request.header("x-amz-copy-source"), None);
        assert_eq!(request.header("authorization"), Some(signature(&request, EMPTY).as_str()));
        let mut client = gateway.connect();
        assert_eq!(client.fetch_with_body(&format!("POST {path}"), fields, "body").status, 200);
        let request = upstream.requests().pop().unwrap();
        let unsigned = "UNSIGNED-PAYLOAD";
        assert_eq!(request.header("x-amz-content-sha256"), Some(unsigned), "it streams");
        assert_eq!(request.header("authorization"), Some(signature(&request, unsigned).as_str()));
    }
}

#[test]
fn a_token_stays_in_use_when_another_part_of_the_configuration_changes() {
    let (upstream, server) = (
        Upstream::fixed("in"),
        Upstream::responding(|_| CannedResponse::ok(r#"{"access_token":"t","expires_in":3600}"#)),
    );
    let oauth = format!(
        "type = \"oauth2\"\ntoken_url = \"{}/token\"\nclient_id = \"me\"\nclient_secret = {{ file = \"secret\" }}",
        server.url()
    );
    let down = format!(
        "openapi: 3.0.3\ninfo: {{title: down, version: '1'}}\nx-wso2-basePath: /down\nsecurity: []\n\
         paths: {{/*: {{get: {{}}}}}}\nx-wso2-production-endpoints: {{urls: ['{}']}}\n",
        Upstream::refusing().url()
    );
    let files = files(&upstream, "{credential: orders}", &oauth).api("down.yaml", &down);
    let gateway = files.start();
    get(&gateway, "/plain/x", "");
    assert_eq!(gateway.fetch("GET /down/x", "").status, 500);
    let toml = std::fs::read_to_string(files.path("penstock.toml")).unwrap();
    let changed = toml.replace("workers = 1", "workers = 1\nfault_status = \"http\"");
    files.write("penstock.toml", &changed);
    wait_until(|| gateway.fetch("GET /down/x", "").status != 500);
    get(&gateway, "/plain/x", "");
    assert_eq!(server.requests().len(), 1);
    files.write("secret", "another");
    while server.requests().len() == 1 {
        get(&gateway, "/plain/x", "");
    }
    assert_eq!(server.requests().len(), 2, "a new secret gets a new token");
}

/// An upstream that requires Digest, and accepts each nonce `uses` times. It returns the request's body.
fn digest_upstream(uses: u32, algorithm: &'static str) -> Upstream {
    let state = Mutex::new((0, 0));
    Upstream::responding(move |request| {
        let mut state = state.lock().unwrap();
        let challenge = |nonce: u32, more: &str| {
            format!(
                "Digest realm=\"a\", qop=\"auth\", nonce=\"n{nonce}\", opaque=\"o\"{algorithm}{more}"
            )
        };
        let field = request.header("Authorization").unwrap_or_default();
        let value = |name: &str| {
            let (_, rest) = field.split_once(&format!("{name}=")).unwrap();
            rest.split(", ").next().unwrap().trim_matches('"').to_owned()
        };
        let (nonce, used) = *state;
        let is_right = field.starts_with("Digest ") && {
            let known = jose::DigestChallenge::find(&challenge(nonce, "")).unwrap();
            let login = jose::DigestLogin { username: "me", password: b"se:cret&1" };
            let method = request.line().split(' ').next().unwrap();
            let subject = (method.as_bytes(), request.target().as_bytes());
            known.answer(login, subject, used + 1, &value("cnonce")) == field
        };
        if is_right && used < uses {
            *state = (nonce, used + 1);
            return CannedResponse::ok(&request.text());
        }
        *state = (nonce + 1, 0);
        let stale = if field.is_empty() { "" } else { ", stale=true" };
        CannedResponse::bytes(format!(
            "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"b\", {}\r\nContent-Length: 2\r\n\r\nno",
            challenge(nonce + 1, stale)
        ))
    })
}

const DIGEST: &str = "type = \"digest\"\nusername = \"me\"\npassword = { file = \"secret\" }";

#[test]
fn a_challenge_is_answered_with_the_body_and_its_nonce_is_counted() {
    for algorithm in ["", ", algorithm=SHA-256", ", algorithm=MD5-sess"] {
        let upstream = digest_upstream(3, algorithm);
        let gateway = files(&upstream, "{credential: orders}", DIGEST).start();
        let mut client = gateway.connect();
        for (number, api) in ["plain", "mediated", "plain", "plain", "mediated"].iter().enumerate()
        {
            let body = "x".repeat(100_000 * number);
            let fields = "Authorization: Bearer mine\r\n";
            let sent = client.fetch_with_body(&format!("POST /{api}/x%20y?a=1"), fields, &body);
            assert_eq!((sent.status, sent.body.len()), (200, body.len()), "{algorithm} {number}");
        }
        let statuses = upstream.requests().len();
        assert_eq!(statuses, 7, "one request more for each of two nonces");
    }
}

#[test]
fn a_chunked_body_is_sent_again_after_a_challenge() {
    let upstream = digest_upstream(1, "");
    let gateway = files(&upstream, "{credential: orders}", DIGEST).start();
    for _ in 0..3 {
        let mut client = gateway.connect();
        client.send("POST /plain/x HTTP/1.1\r\nHost: me\r\nTransfer-Encoding: chunked\r\n\r\n");
        client.send("3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n");
        assert_eq!(client.read().text(), "abcdefg");
    }
}

#[test]
fn a_wrong_password_is_tried_twice_and_the_rejection_goes_to_the_client() {
    let upstream = digest_upstream(9, "");
    let wrong = DIGEST.replace("\"me\"", "\"you\"");
    let gateway = files(&upstream, "{credential: orders}", &wrong).start();
    for count in 1..=2 {
        assert_eq!(gateway.fetch("GET /plain/x", "").status, 401);
        assert_eq!(upstream.requests().len(), 2 * count);
    }
}

#[test]
fn a_body_that_is_too_large_to_be_held_is_not_sent_without_an_answer() {
    let upstream = digest_upstream(9, "");
    let gateway = files(&upstream, "{credential: orders}", DIGEST)
        .gateway("held_body_bytes_max = 10\n")
        .start();
    let mut client = gateway.connect();
    let response = client.fetch_with_body("POST /plain/x", "", "more than ten bytes");
    assert_eq!(response.status, 413);
    assert_eq!(upstream.requests().len(), 0);
}
