//! The JWT by which upstreams learn who the caller is.

use std::fs;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use harness::{Builder, Files, Gateway, Issuer, Upstream, api};
use jose::{Compact, KeySet, Padding};
use model::BackendJwt;
use serde_json::{Value, json};

const FIELD: &str = "X-JWT-Assertion";

/// A gateway that signs with the key of `signer`.
fn signing(builder: Builder, signer: &Issuer, header: &str) -> Gateway {
    let backend_jwt = BackendJwt {
        key: signer.pem.clone().into_bytes(),
        certificate: None,
        header: header.to_owned(),
        issuer: "wso2.org/products/am".to_owned(),
        dialect: "http://wso2.org/claims".to_owned(),
        expires_s: 900,
    };
    builder.settings(|settings| settings.backend_jwt = Some(backend_jwt)).start()
}

/// The claims of a JWT that `signer` has signed.
#[track_caller]
fn claims(signer: &Issuer, jwt: &str) -> Value {
    let keys = signer.jwks().replace("\"kid\":\"gateway\",", "");
    let keys = KeySet::from_jwks(keys.as_bytes()).unwrap();
    let jws = Compact::parse(jwt.as_bytes(), Padding::Rejected).unwrap();
    jws.verify_signature(&keys).unwrap();
    serde_json::from_slice(jws.payload()).unwrap()
}

fn field(token: &harness::Token) -> String {
    format!("Authorization: {}\r\n", token.bearer())
}

#[test]
fn upstreams_learn_who_calls_and_believe_no_client() {
    let (upstream, issuer, signer) =
        (Upstream::fixed("in"), Issuer::new("resident"), Issuer::new("gateway"));
    let both = api("/a").secured("GET /*").open("POST /*").to(&upstream);
    let builder = Gateway::of(both).issuer(&issuer).trusting_loopback_clients();
    let gateway = signing(builder, &signer, FIELD);
    let token = issuer.token().claim("client_id", "app").claim("scope", "read");
    let token = token.claim("http://wso2.org/claims/subscriber", "forged").claim("n", 1.5);
    let forged = "x-jwt-assertion: forged\r\n";
    let begun_s = harness::now_s();
    assert_eq!(gateway.fetch("GET /a/x", &(field(&token) + forged)).status, 200);
    assert_eq!(gateway.fetch("POST /a/x", forged).status, 200);
    let requests = upstream.requests();
    assert_eq!(requests[0].head.matches("forged").count(), 0, "{}", requests[0].head);
    assert_eq!(requests[1].header(FIELD), None, "an open operation has no caller");
    let mut found = claims(&signer, requests[0].header(FIELD).unwrap());
    let iat = found["iat"].as_u64().unwrap();
    assert!(iat + 2 >= begun_s && iat <= harness::now_s(), "{iat}");
    let own = |name: &str| format!("http://wso2.org/claims/{name}");
    let mut expect = json!({
        "iss": "wso2.org/products/am", "client_id": "app", "scope": "read", "n": 1.5,
        "iat": iat, "exp": iat + 900,
    });
    for (name, value) in [
        ("apiname", "a"),
        ("apicontext", "/a"),
        ("version", "1.0"),
        ("keytype", "PRODUCTION"),
        ("usertype", "Application_User"),
        ("enduser", "somebody"),
        ("enduserTenantId", "-1234"),
        ("clientid", "app"),
    ] {
        expect[own(name)] = value.into();
    }
    assert_eq!(found.as_object_mut(), expect.as_object_mut());
}

#[test]
fn a_jwt_is_signed_once_for_each_caller_and_api() {
    let (upstream, issuer, signer) =
        (Upstream::fixed("in"), Issuer::new("resident"), Issuer::new("gateway"));
    let [a, b] = ["/a", "/b"].map(|path| api(path).secured("GET /*").to(&upstream));
    let gateway = signing(Gateway::of(a.clone()).api(b.clone()).issuer(&issuer), &signer, "X-Who");
    let [one, two] = ["one", "two"].map(|sub| field(&issuer.token().claim("sub", sub)));
    let requests = [("a", &one), ("a", &two), ("b", &one), ("a", &one), ("a", &two), ("b", &one)];
    for (api, field) in requests {
        assert_eq!(gateway.fetch(&format!("GET /{api}/x"), field).status, 200);
    }
    // Signatures are random: the same text was signed once.
    let sent = |upstream: &Upstream| -> Vec<String> {
        upstream.requests().iter().map(|one| one.header("X-Who").unwrap().to_owned()).collect()
    };
    let jwts = sent(&upstream);
    assert_eq!(jwts[..3], jwts[3..]);
    let who: Vec<_> = jwts[..3].iter().map(|jwt| claims(&signer, jwt)).collect();
    let of = |at: usize, name: &str| who[at][format!("http://wso2.org/claims/{name}")].clone();
    assert_eq!([of(0, "enduser"), of(1, "enduser"), of(2, "enduser")], ["one", "two", "one"]);
    assert_eq!([of(0, "apiname"), of(1, "apiname"), of(2, "apiname")], ["a", "a", "b"]);
    // An API that changes is another one.
    let changed = b.with(|api| api.version = "2.0".to_owned());
    gateway.apply(vec![a, changed]);
    assert_eq!(gateway.fetch("GET /b/x", &one).status, 200);
    let after = sent(&upstream).remove(6);
    assert_eq!(claims(&signer, &after)["http://wso2.org/claims/version"], "2.0");
}

#[test]
fn an_application_is_named_as_its_file_is_now() {
    let (upstream, signer) = (Upstream::fixed("in"), Issuer::new("gateway"));
    let description = format!(
        "openapi: 3.0.3\ninfo: {{title: A, version: '1'}}\nx-wso2-basePath: /a\n\
         x-wso2-sandbox-endpoints: {{urls: ['{}']}}\n\
         x-wso2-application-security: {{security-types: [api_key]}}\n\
         paths: {{/*: {{get: {{x-penstock-policies: {{request: [{{policy: addHeader, parameters: {{headerName: X-Seen, headerValue: 'yes'}}}}]}}}}}}}}\n",
        upstream.url()
    )
    .replace("{policy: addHeader", "{name: addHeader");
    let hash = jose::sha256(b"key").map(|byte| format!("{byte:02x}")).concat();
    let application = |plan: &str| {
        format!(
            "[application]\nname = \"orders\"\nowner = \"ann\"\nplan = \"50PerMin\"\n\
             attributes = {{ team = \"billing\", \"cost centre\" = \"7\" }}\n\
             keys = [{{ api_key_sha256 = \"{hash}\", type = \"sandbox\" }}]\n\
             subscriptions = [{{ api = \"A\", version = \"1\", plan = \"{plan}\" }}]\n"
        )
    };
    let files = Files::new().api("a.yaml", &description);
    fs::create_dir(files.path("applications")).unwrap();
    files.write("applications/orders.toml", &application("Gold"));
    files.write("signing.pem", &signer.pem);
    files.write("signing.crt", &signer.certificate);
    let files = files
        .gateway("applications = [\"applications/\"]\n")
        .toml("[backend_jwt]\nkey = { file = \"signing.pem\" }\ncertificate = \"signing.crt\"\n");
    let gateway = files.start();
    let certificate = jose::certificates(signer.certificate.as_bytes()).unwrap().remove(0);
    let thumbprints = jose::certificate_thumbprints(&certificate);
    let tier = || {
        let response = gateway.fetch("GET /a/x", "apikey: key\r\nX-JWT-Assertion: forged\r\n");
        assert_eq!(response.status, 200, "{}", response.text());
        let request = upstream.requests().pop().unwrap();
        assert_eq!(request.header("X-Seen"), Some("yes"), "policies have run");
        assert!(!request.head.contains("forged") && request.header("apikey").is_none());
        let jwt = request.header(FIELD).unwrap();
        let header = BASE64_URL_SAFE_NO_PAD.decode(jwt.split('.').next().unwrap()).unwrap();
        let header: Value = serde_json::from_slice(&header).unwrap();
        let expect = [&thumbprints.wso2, &thumbprints.sha256];
        assert_eq!([&header["x5t"], &header["x5t#S256"]], expect);
        let claims = claims(&signer, jwt);
        let own = |name: &str| claims[format!("http://wso2.org/claims/{name}")].clone();
        let names = ["subscriber", "applicationname", "applicationtier", "keytype", "usertype"];
        let expect = ["ann", "orders", "50PerMin", "SANDBOX", "Application"];
        assert_eq!(names.map(own), expect);
        assert_eq!(own("applicationAttributes"), json!({ "team": "billing", "cost centre": "7" }));
        own("tier")
    };
    assert_eq!(tier(), "Gold");
    files.write("applications/orders.toml", &application("Silver"));
    while tier() != "Silver" {
        std::thread::yield_now();
    }
}

#[test]
fn responses_to_callers_are_stored_only_if_they_are_for_everybody() {
    let upstream = Upstream::responding(|_| {
        harness::CannedResponse::bytes(
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nCache-Control: max-age=600\r\n\r\nin",
        )
    });
    let (issuer, signer) = (Issuer::new("resident"), Issuer::new("gateway"));
    let api = api("/a").secured("GET /*").to(&upstream).with(|api| {
        api.caches = true;
        api.operations[0].response_cache = Some(300);
    });
    let gateway = signing(Gateway::of(api).issuer(&issuer), &signer, FIELD);
    for sub in ["one", "two"] {
        let field = field(&issuer.token().claim("sub", sub));
        assert_eq!(gateway.fetch("GET /a/x", &field).status, 200);
    }
    assert_eq!(upstream.requests().len(), 2);
}

#[test]
fn artefacts_and_their_upstreams_believe_no_client_either() {
    let (upstream, signer) = (Upstream::fixed("in"), Issuer::new("gateway"));
    let proxy = format!(
        "<proxy name=\"it\"><target><endpoint><address uri=\"{}/\"/></endpoint></target></proxy>",
        upstream.url()
    );
    let gateway = signing(Gateway::mediating(&proxy).trusting_loopback_clients(), &signer, "X-Who");
    let fields = "X-Who: forged\r\nx-who: forged\r\nX-Other: mine\r\n";
    assert_eq!(gateway.fetch("GET /services/it", fields).status, 200);
    let request = upstream.requests().remove(0);
    assert_eq!((request.header("X-Who"), request.header("X-Other")), (None, Some("mine")));
}
