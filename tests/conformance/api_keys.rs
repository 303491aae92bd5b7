//! API keys: those of applications and those that an issuer has signed, where they may be, and that no upstream gets
//! them.

use std::fs;

use harness::{Files, Gateway, Identity, Issuer, Upstream, api};
use model::{Accepts, KeyPlace, ScopeRule, Security};
use serde_json::{Value, json};

const KEY: &str = "key-of-the-application";

/// An API that takes keys from each place, and tokens at `/both`.
fn description(upstream: &Upstream, more: &str) -> String {
    format!(
        "openapi: 3.0.3\ninfo: {{title: A, version: '1'}}\nx-wso2-basePath: /a\n\
         x-wso2-production-endpoints: {{urls: ['{url}/live']}}\nx-wso2-sandbox-endpoints: {{urls: ['{url}/test']}}\n{more}\n\
         components: {{securitySchemes: {{o: {{type: oauth2}}, h: {{type: apiKey, in: header, name: X-Key}},\n\
         \x20 q: {{type: apiKey, in: query, name: key}}, c: {{type: apiKey, in: cookie, name: key}}}}}}\n\
         security: [{{h: []}}, {{q: []}}, {{c: []}}]\n\
         paths:\n  /*: {{get: {{}}}}\n  /both: {{get: {{security: [{{o: [read]}}, {{h: []}}]}}}}\n\
         \x20 /token: {{get: {{security: [{{o: []}}]}}}}\n\
         \x20 /wso2: {{get: {{security: [{{o: []}}], x-wso2-application-security: {{security-types: [api_key]}}}}}}\n",
        url = upstream.url()
    )
}

/// A line of `keys` for `key`.
fn hashed(key: &str, more: &str) -> String {
    let hash = jose::sha256(key.as_bytes()).map(|byte| format!("{byte:02x}")).concat();
    format!("{{ api_key_sha256 = \"{hash}\"{more} }}")
}

fn application(keys: &[String], subscription: &str) -> String {
    format!(
        "[application]\nname = \"app\"\nkeys = [{}]\nsubscriptions = [{{ api = \"A\", version = \"1\"{subscription} }}]\n",
        keys.join(", ")
    )
}

fn files(upstream: &Upstream, issuer: &Issuer, application: &str) -> Files {
    let files = Files::new().api("a.yaml", &description(upstream, ""));
    fs::create_dir(files.path("applications")).unwrap();
    files.write("applications/app.toml", application);
    files.gateway("applications = [\"applications/\"]\n").issuer("resident", issuer)
}

/// The requests, each a target and fields, and the status with the code of each.
#[track_caller]
fn check(gateway: &Gateway, requests: &[(&str, &str, &str)]) {
    for (target, fields, expect) in requests {
        let fields = fields.split(';').map(|field| format!("{field}\r\n")).collect::<String>();
        let fields = if fields == "\r\n" { String::new() } else { fields };
        let found = gateway.fetch(&format!("GET {target}"), &fields).status_and_code();
        assert_eq!(found, *expect, "{target} {fields}");
    }
}

#[test]
fn an_applications_key_is_accepted_in_each_place_and_reaches_no_upstream() {
    let upstream = Upstream::echo();
    let gateway =
        files(&upstream, &Issuer::new("resident"), &application(&[hashed(KEY, "")], "")).start();
    let mut client = gateway.connect();
    for _ in 0..2 {
        for (target, fields) in [
            ("/a/x?b=1", format!("x-KEY:  {KEY} \r\n")),
            (&format!("/a/x?key={KEY}"), String::new()),
            (&format!("/a/x?b=1&key={KEY}&c=2"), String::new()),
            ("/a/x?key=key%2Dof-the-application&b=%20", String::new()),
            ("/a/x", format!("Cookie: key={KEY}\r\n")),
            ("/a/x", format!("Cookie: a=1; key={KEY};b=2\r\nCookie: c=3\r\n")),
            // Places of other operations are emptied, too.
            (&format!("/a/both?key={KEY}"), format!("X-Key: {KEY}\r\nCookie: key={KEY}\r\n")),
            (&format!("/a/wso2?apikey={KEY}&b=1"), String::new()),
            ("/a/wso2", format!("ApiKey: {KEY}\r\n")),
        ] {
            let response = client.fetch(&format!("GET {target}"), &fields);
            assert_eq!(response.status, 200, "{target} {fields}: {}", response.text());
        }
    }
    let heads: Vec<_> = upstream.requests().iter().map(|request| request.head.clone()).collect();
    for head in &heads {
        assert!(!head.contains("of-the-application"), "{head}");
        assert!(head.to_lowercase().lines().all(|line| !line.contains("key")), "{head}");
    }
    let lines = |part: &str| -> Vec<_> {
        let lines = heads.iter().map(|head| head.lines().find(|line| line.contains(part)));
        lines.take(9).flatten().map(str::to_owned).collect()
    };
    let targets = "/live/x?b=1 /live/x /live/x?b=1&c=2 /live/x?b=%20 /live/x /live/x /live/both /live/wso2?b=1 /live/wso2";
    let expect: Vec<_> = targets.split(' ').map(|to| format!("GET {to} HTTP/1.1")).collect();
    assert_eq!(lines("GET "), expect);
    assert_eq!(lines("Cookie: "), ["Cookie: a=1; b=2; c=3"]);
}

#[test]
fn a_key_is_forwarded_if_the_api_says_so_and_is_in_no_log() {
    let upstream = Upstream::echo();
    let files = files(&upstream, &Issuer::new("resident"), &application(&[hashed(KEY, "")], ""));
    let more = "x-penstock-forward-auth-header: true";
    files.write("apis/a.yaml", &description(&upstream, more));
    let log = files.path("access.log");
    let files = files.toml("[access_log]\nto = \"file\"\nfile = \"access.log\"\n");
    let gateway = files.start();
    assert_eq!(gateway.fetch(&format!("GET /a/x?key={KEY}"), "").status, 200);
    assert_eq!(gateway.fetch("GET /a/x", &format!("X-Key: {KEY}\r\n")).status, 200);
    let requests = upstream.requests();
    assert_eq!(requests[0].target(), format!("/live/x?key={KEY}"));
    assert_eq!(requests[1].header("X-Key"), Some(KEY));
    assert!(gateway.drain());
    let log = fs::read_to_string(log).unwrap();
    assert!(log.lines().count() == 2 && !log.contains(KEY), "{log}");
}

#[test]
fn a_401_names_the_credentials_that_the_operation_accepts() {
    let (upstream, issuer) = (Upstream::fixed("in"), Issuer::new("resident"));
    let gateway = files(&upstream, &issuer, &application(&[hashed(KEY, "")], "")).start();
    let (token, key) = ("OAuth2 realm=\"WSO2 API Manager\"", "API Key realm=\"WSO2 API Manager\"");
    for (target, fields, expect) in [
        ("/a/x", "", key.to_owned()),
        ("/a/x", "X-Key: other\r\n", key.to_owned()),
        ("/a/token", "", token.to_owned()),
        ("/a/both", "", format!("{token}, {key}")),
        ("/a/both", "X-Key: other\r\n", format!("{token}, error=\"invalid_token\", {key}")),
    ] {
        let response = gateway.fetch(&format!("GET {target}"), fields);
        assert_eq!(response.header("WWW-Authenticate"), Some(expect.as_str()), "{target} {fields}");
    }
}

#[test]
fn each_failure_has_the_code_of_wso2() {
    let (upstream, issuer) = (Upstream::fixed("in"), Issuer::new("resident"));
    let keys = [
        hashed(KEY, ""),
        hashed("near", ", addresses = [\"127.0.0.0/8\"], referers = [\"https://*.example/*\"]"),
        hashed("far", ", addresses = [\"192.0.2.0/24\"]"),
    ];
    let gateway = files(&upstream, &issuer, &application(&keys, "")).start();
    let bearer = format!("Authorization: {}", issuer.token().bearer());
    let token_as_key = format!("X-Key: {}", issuer.token().sign());
    check(
        &gateway,
        &[
            ("/a/x", "", "401 900902"),
            ("/a/x", "X-Key:", "401 900902"),
            ("/a/x", &bearer, "401 900902"),
            ("/a/x", "apikey: key-of-the-application", "401 900902"),
            ("/a/x", "X-Key: other", "401 900901"),
            ("/a/x", "X-Key: Key-of-the-application", "401 900901"),
            ("/a/x", "X-Key: a.b.c", "401 900901"),
            ("/a/x", &token_as_key, "401 900901"),
            ("/a/x", "X-Key: key-of-the-application;X-Key: other", "401 900901"),
            ("/a/x?key=key-of-the-application&key=other", "", "401 900901"),
            (
                "/a/x",
                &format!("X-Key: {}", "a".repeat(base::limits::TOKEN_BYTES_MAX + 1)),
                "401 900901",
            ),
            ("/a/token", "Authorization: Bearer key-of-the-application", "401 900901"),
            ("/a/token", "X-Key: key-of-the-application", "401 900902"),
            ("/a/x", "X-Key: near;Referer: https://www.example/page", "200"),
            ("/a/x", "X-Key: near;Referer: https://www.other/page", "403 900908"),
            ("/a/x", "X-Key: near", "403 900908"),
            ("/a/x", "X-Key: far", "403 900908"),
            ("/a/x", "X-Key: far;X-Forwarded-For: 192.0.2.1", "403 900908"),
        ],
    );
    // With two kinds, the token decides, as long as it is one.
    let read = format!("Authorization: {}", issuer.token().claim("scope", "read").bearer());
    check(
        &gateway,
        &[
            ("/a/both", "X-Key: key-of-the-application", "200"),
            ("/a/both", "X-Key: key-of-the-application;Authorization: Basic YTpi", "200"),
            ("/a/both", &format!("X-Key: other;{read}"), "403 900908"),
            ("/a/both", "X-Key: key-of-the-application;Authorization: Bearer a.b.c", "401 900901"),
        ],
    );
}

#[test]
fn a_keys_subscription_and_endpoints_are_those_of_its_application() {
    let upstream = Upstream::echo();
    let keys = [hashed("live", ""), hashed("test", ", type = \"sandbox\"")];
    let files = files(
        &upstream,
        &Issuer::new("resident"),
        &application(&keys, ", state = \"production_blocked\""),
    );
    let gateway = files.start();
    check(&gateway, &[("/a/x", "X-Key: live", "401 900907"), ("/a/x", "X-Key: test", "200")]);
    assert_eq!(upstream.requests()[0].target(), "/test/x");
    // A key that is removed is rejected although it is cached; one that is added is accepted.
    let keys = [hashed("live", ""), hashed("new", "")];
    files.write("applications/app.toml", &application(&keys, ", plan = \"Gold\""));
    let fetch = |key: &str| gateway.fetch("GET /a/x", &format!("X-Key: {key}\r\n"));
    while fetch("new").status != 200 {
        std::thread::yield_now();
    }
    assert_eq!(fetch("test").status_and_code(), "401 900901");
    assert!(fetch("live").header("RateLimit-Policy").is_some_and(|of| of.contains("q=5000")));
    files.write("applications/app.toml", &application(&keys, "").replace("\"A\"", "\"B\""));
    while fetch("live").status_and_code() != "403 900908" {
        std::thread::yield_now();
    }
}

/// An API in whose operations keys are accepted in `apikey`, and tokens in `Authorization`.
fn both(upstream: &Upstream) -> harness::ApiBuilder {
    let accepts = Accepts {
        api_keys: vec![KeyPlace::Header("apikey".to_owned())],
        ..Accepts::token(ScopeRule::AnyOf(vec!["read".to_owned()]))
    };
    api("/a").secured("GET /*").to(upstream).with(move |api| {
        api.key_places.clone_from(&accepts.api_keys);
        api.operations[0].security = Security::Required(accepts.clone());
    })
}

#[test]
fn a_signed_key_is_no_token_and_a_token_no_key() {
    let (upstream, resident) = (Upstream::fixed("in"), Issuer::new("resident"));
    let microgateway = Issuer::new("microgateway").api_keys().allow_unlimited();
    let gateway = Gateway::of(both(&upstream)).issuer(&resident).issuer(&microgateway).start();
    let manager = resident.token().claim("token_type", "apiKey");
    let unlimited = microgateway.token().claim("exp", ());
    let allowed = |name: &str, version: &str| {
        unlimited.clone().claim("allowedAPIs", json!([{"name": name, "version": version}]))
    };
    let subscribed = json!([{"name": "other", "version": "1", "subscriptionTier": "Gold"}]);
    for (key, expect) in [
        (manager.clone(), "200"),
        (unlimited.clone(), "200"),
        (allowed("a", "1.0"), "200"),
        (allowed("a", "*"), "200"),
        (allowed("b", "*"), "403 900908"),
        (allowed("a", "2.0"), "403 900908"),
        (manager.clone().claim("subscribedAPIs", subscribed), "403 900908"),
        (manager.clone().expires_in_s(-1), "401 900901"),
        (manager.clone().claim("permittedIP", "10.0.0.1, 127.0.0.0/8"), "200"),
        (manager.clone().claim("permittedIP", "10.0.0.1"), "403 900908"),
        (manager.clone().claim("permittedIP", "nowhere"), "403 900908"),
        (manager.clone().claim("permittedReferer", "https://a/*"), "403 900908"),
        (resident.token(), "401 900901"),
        (resident.token().claim("token_type", "Bearer"), "401 900901"),
        (Issuer::new("resident").token().claim("token_type", "apiKey"), "401 900901"),
    ] {
        // The second time, it is cached.
        for _ in 0..2 {
            check(&gateway, &[("/a/x", &format!("apikey: {}", key.sign()), expect)]);
        }
    }
    for (token, expect) in [
        (resident.token().claim("scope", "read"), "200"),
        (resident.token(), "403 900910"),
        (manager.claim("scope", "read"), "401 900901"),
        (unlimited.claim("scope", "read"), "401 900901"),
    ] {
        check(&gateway, &[("/a/x", &format!("Authorization: {}", token.bearer()), expect)]);
    }
}

#[test]
fn a_certificate_may_be_enough() {
    let (upstream, client) = (Upstream::fixed("in"), Identity::of(&["client.example"]));
    let issuer = Issuer::new("resident");
    let optional = both(&upstream).with(|api| {
        api.mutual_tls = true;
        let Security::Required(accepts) = &mut api.operations[0].security else { unreachable!() };
        accepts.optional = true;
    });
    let gateway = Gateway::of(optional).issuer(&issuer).client_certificates(&client, false).start();
    let token = issuer.token().claim("scope", "read").bearer();
    let mut known = gateway.connect_tls_as(&client);
    for (fields, expect) in [
        (String::new(), "200"),
        (format!("Authorization: {token}\r\n"), "200"),
        ("Authorization: Bearer a.b.c\r\n".to_owned(), "401 900901"),
        ("Authorization: Basic YTpi\r\n".to_owned(), "401 900902"),
        ("apikey: other\r\n".to_owned(), "401 900901"),
    ] {
        assert_eq!(known.fetch("GET /a/x", &fields).status_and_code(), expect, "{fields}");
    }
    let stranger = gateway.connect_tls().fetch("GET /a/x", "").status_and_code();
    assert_eq!(stranger, "401 900911");
}

#[test]
fn a_certificate_or_a_credential_may_be_needed() {
    let (upstream, client) = (Upstream::fixed("in"), Identity::of(&["client.example"]));
    let issuer = Issuer::new("resident");
    let either = both(&upstream).with(|api| {
        let Security::Required(accepts) = &mut api.operations[0].security else { unreachable!() };
        accepts.optional = true;
    });
    let gateway = Gateway::of(either).issuer(&issuer).client_certificates(&client, false).start();
    let token = format!("Authorization: {}\r\n", issuer.token().claim("scope", "read").bearer());
    let (mut known, mut stranger) = (gateway.connect_tls_as(&client), gateway.connect_tls());
    for (fields, of_known, of_stranger) in [
        ("", "200", "401 900902"),
        (token.as_str(), "200", "200"),
        ("apikey: other\r\n", "401 900901", "401 900901"),
    ] {
        let found =
            [&mut known, &mut stranger].map(|it| it.fetch("GET /a/x", fields).status_and_code());
        assert_eq!(found, [of_known, of_stranger], "{fields}");
    }
}

#[test]
fn an_operation_may_be_for_tokens_of_applications_or_of_users() {
    let (upstream, issuer) = (Upstream::fixed("in"), Issuer::new("resident"));
    let paths = "paths: {/app: {get: {x-auth-type: Application}}, /user: {get: {x-auth-type: Application User}}}";
    let text = format!(
        "openapi: 3.0.3\ninfo: {{title: A, version: '1'}}\nx-wso2-basePath: /a\n\
         x-wso2-production-endpoints: {{urls: ['{}']}}\n{paths}\n",
        upstream.url()
    );
    let gateway = Files::new().api("a.yaml", &text).issuer("resident", &issuer).start();
    let aut = |aut: &str| issuer.token().claim("aut", aut);
    let own = issuer.token().claim("client_id", "somebody");
    for (token, of_application) in [
        (aut("APPLICATION"), true),
        (aut("APPLICATION_USER"), false),
        (aut("APPLICATION_USER").claim("client_id", "somebody"), false),
        (own, true),
        (issuer.token().claim("sub", ()), true),
        (issuer.token().claim("client_id", "app"), false),
    ] {
        let field = format!("Authorization: {}", token.bearer());
        let (app, user) =
            if of_application { ("200", "401 900905") } else { ("401 900905", "200") };
        check(&gateway, &[("/a/app", &field, app), ("/a/user", &field, user)]);
    }
}

#[test]
fn policies_and_their_services_see_no_key() {
    let service = Upstream::fixed("{}");
    let upstream = Upstream::echo();
    let more = format!(
        "x-wso2-request-interceptor: {{serviceURL: '{}', includes: [request_headers, invocation_context]}}",
        service.url()
    );
    let files = files(&upstream, &Issuer::new("resident"), &application(&[hashed(KEY, "")], ""));
    files.write("apis/a.yaml", &description(&upstream, &more));
    let gateway = files.start();
    let cookie = format!("Cookie: a=1; key={KEY}\r\nAuthorization: Bearer forged.by.anybody\r\n");
    let response = gateway.fetch(&format!("GET /a/x?key={KEY}&b=1"), &cookie);
    assert_eq!(response.status, 200, "{}", response.text());
    let request = upstream.requests().remove(0);
    assert_eq!((request.target(), request.header("Cookie")), ("/live/x?b=1", Some("a=1")));
    assert_eq!(request.header("Authorization"), None);
    let asked: Value = serde_json::from_slice(&service.requests()[0].body).unwrap();
    assert_eq!(asked["invocationContext"]["path"], "/a/x?b=1");
    let asked = asked.to_string();
    assert!(!asked.contains(KEY) && !asked.contains("forged"), "{asked}");
}

#[test]
fn the_cache_of_responses_knows_no_keys() {
    let upstream = Upstream::responding(|_| {
        harness::CannedResponse::bytes(
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nCache-Control: max-age=600\r\n\r\nin",
        )
    });
    let files = files(
        &upstream,
        &Issuer::new("resident"),
        &application(&[hashed("one", ""), hashed("two", "")], ""),
    );
    files.write("apis/a.yaml", &description(&upstream, "x-wso2-response-cache: {enabled: true}"));
    let gateway = files.start();
    check(
        &gateway,
        &[
            ("/a/x?key=one&b=1", "", "200"),
            ("/a/x?b=1&key=two", "", "200"),
            ("/a/x?b=1", "", "401 900902"),
        ],
    );
    assert_eq!(upstream.requests().len(), 1, "the second response was stored");
}
