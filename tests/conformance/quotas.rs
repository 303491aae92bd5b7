//! Subscriptions and quotas, and the response to each denial. Quotas that are to be used up are per year, so that no
//! window ends during a test.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use harness::{CannedResponse, Files, Gateway, Issuer, Response, Token, Upstream, api, wait_until};
use serde_json::{Value, json};

/// The API `A` in version 1, with these operations.
fn description(upstream: &Upstream, more: &str, operations: &str) -> String {
    let url = upstream.url();
    format!(
        "openapi: 3.0.3\ninfo: {{title: A, version: '1'}}\nx-wso2-basePath: /a\n\
         x-wso2-production-endpoints: {{urls: ['{url}']}}\nx-wso2-sandbox-endpoints: {{urls: ['{url}']}}\n\
         {more}\npaths: {operations}\n"
    )
}

const ALL: &str = "{/*: {get: {}, post: {}}}";

const PLANS: &str = r#"
[[plan]]
name = "One"
limits = [{ requests = 1, per = "1y" }]
[[plan]]
name = "Two"
limits = [{ requests = 2, per = "1y" }]
[[plan]]
name = "OneByUser"
limits = [{ requests = 1, per = "1y", by = "user" }]
[[plan]]
name = "OneByAddress"
limits = [{ requests = 1, per = "1y", by = "address" }]
[[plan]]
name = "Kilobyte"
limits = [{ kilobytes = 1, per = "1y" }]
[[plan]]
name = "BurstOfOne"
limits = [{ requests = 9, per = "1y" }]
burst = { requests = 1, per = "1y" }
"#;

/// An application whose client ID is its name.
fn application(name: &str, more: &str, subscription: &str) -> String {
    format!(
        "[application]\nname = \"{name}\"\n{more}\nkeys = [{{ client_id = \"{name}\" }}, \
         {{ client_id = \"{name}-sandbox\", type = \"sandbox\" }}]\n\
         subscriptions = [{{ api = \"A\", version = \"1\", {subscription} }}]\n"
    )
}

/// Files with plans, one API and applications.
fn files(issuer: &Issuer, description: &str, applications: &[(&str, String)]) -> Files {
    let files = Files::new().api("a.yaml", description).issuer("resident", issuer);
    files.write("plans.toml", PLANS);
    fs::create_dir(files.path("applications")).unwrap();
    for (name, text) in applications {
        files.write(&format!("applications/{name}.toml"), text);
    }
    files.gateway("applications = [\"applications/\"]\n")
}

fn field(token: &Token) -> String {
    format!("Authorization: {}\r\n", token.bearer())
}

/// The token of a client.
fn of(issuer: &Issuer, client: &str) -> String {
    field(&issuer.token().claim("client_id", client))
}

#[track_caller]
fn check(gateway: &Gateway, requests: &[(&str, &str)], expect: &str) {
    let found =
        requests.iter().map(|(request, field)| gateway.fetch(request, field).status_and_code());
    assert_eq!(found.collect::<Vec<_>>().join(", "), expect, "{requests:?}");
}

fn until(gateway: &Gateway, field: &str, expect: &str) {
    while gateway.fetch("GET /a/x", field).status_and_code() != expect {
        std::thread::yield_now();
    }
}

#[test]
fn a_caller_needs_a_subscription_of_its_application() {
    let (upstream, issuer) = (Upstream::fixed("in"), Issuer::new("resident"));
    let states = ["active", "blocked", "production_blocked", "inactive"];
    let applications =
        states.map(|state| (state, application(state, "", &format!("state = \"{state}\""))));
    let elsewhere = application("elsewhere", "", "plan = \"Two\"").replace("\"A\"", "\"B\"");
    let mut applications = applications.to_vec();
    applications.push(("elsewhere", elsewhere));
    let gateway = files(&issuer, &description(&upstream, "", ALL), &applications).start();
    for (client, expect) in [
        ("active", "200"),
        ("active-sandbox", "200"),
        ("blocked", "401 900907"),
        ("blocked-sandbox", "401 900907"),
        ("production_blocked", "401 900907"),
        ("production_blocked-sandbox", "200"),
        ("inactive", "403 900909"),
        ("elsewhere", "403 900908"),
        ("stranger", "403 900908"),
        ("ACTIVE", "403 900908"),
    ] {
        check(&gateway, &[("GET /a/x", &of(&issuer, client))], expect);
    }
    let by_azp = issuer.token().claim("client_id", ()).claim("azp", "active");
    check(&gateway, &[("GET /a/x", &field(&by_azp))], "200");
    let nameless = issuer.token().claim("client_id", ()).claim("azp", ());
    check(&gateway, &[("GET /a/x", &field(&nameless))], "403 900908");
    check(&gateway, &[("GET /a/x", "")], "401 900902");
}

#[test]
fn apis_without_subscription_and_gateways_without_applications_admit_every_token() {
    let (upstream, issuer) = (Upstream::fixed("in"), Issuer::new("resident"));
    let exempt = description(&upstream, "x-penstock-subscription: false", ALL);
    let gateway = files(&issuer, &exempt, &[]).start();
    check(&gateway, &[("GET /a/x", &of(&issuer, "any"))], "200");
    let files = Files::new().api("a.yaml", &description(&upstream, "", ALL));
    let gateway = files.issuer("resident", &issuer).start();
    check(&gateway, &[("GET /a/x", &of(&issuer, "any"))], "200");
}

#[test]
fn changes_of_applications_and_plans_take_effect_without_a_restart() {
    let (upstream, issuer) = (Upstream::fixed("in"), Issuer::new("resident"));
    let applications = [("app", application("app", "", "plan = \"One\""))];
    let files = files(&issuer, &description(&upstream, "", ALL), &applications);
    let gateway = files.start();
    let app = of(&issuer, "app");
    check(&gateway, &[("GET /a/x", &app), ("GET /a/x", &app)], "200, 429 900804");
    files.write(
        "plans.toml",
        &PLANS.replace(
            "name = \"One\"\nlimits = [{ requests = 1,",
            "name = \"One\"\nlimits = [{ requests = 1000000,",
        ),
    );
    until(&gateway, &app, "200");
    files.write("applications/app.toml", &application("app", "", "state = \"blocked\""));
    until(&gateway, &app, "401 900907");
    files.write("applications/app.toml", "[application]\nname = 5\n");
    files.write("applications/second.toml", &application("second", "", "plan = \"Unlimited\""));
    until(&gateway, &of(&issuer, "second"), "200");
    while !gateway.page("/diagnostics").text().contains("app.toml") {
        std::thread::yield_now();
    }
    check(&gateway, &[("GET /a/x", &app)], "401 900907");
    fs::remove_file(files.path("applications/second.toml")).unwrap();
    until(&gateway, &of(&issuer, "second"), "403 900908");
}

#[test]
fn a_key_belongs_to_the_application_that_had_it_first() {
    let (upstream, issuer) = (Upstream::fixed("in"), Issuer::new("resident"));
    let applications = [("m", application("app", "", "plan = \"Unlimited\""))];
    let files = files(&issuer, &description(&upstream, "", ALL), &applications);
    let gateway = files.start();
    let thief =
        application("app", "", "state = \"blocked\"").replace("name = \"app\"", "name = \"other\"");
    files.write("applications/a.toml", &thief);
    while !gateway.page("/diagnostics").text().contains("client ID `app`") {
        check(&gateway, &[("GET /a/x", &of(&issuer, "app"))], "200");
    }
    check(&gateway, &[("GET /a/x", &of(&issuer, "app"))], "200");
}

#[test]
fn each_level_has_its_quota_and_its_code() {
    let (upstream, issuer) = (Upstream::fixed("in"), Issuer::new("resident"));
    let tiers = "{/x: {get: {x-wso2-throttling-tier: One}}, /y: {get: {x-throttling-tier: Two}}, /z: {get: {}}}";
    let applications = [
        ("plain", application("plain", "", "plan = \"Unlimited\"")),
        ("app", application("app", "plan = \"One\"", "plan = \"Unlimited\"")),
        ("sub", application("sub", "", "plan = \"Two\"")),
        ("burst", application("burst", "", "plan = \"BurstOfOne\"")),
        ("peak", application("peak", "plan = \"BurstOfOne\"", "plan = \"Unlimited\"")),
    ];
    let gateway = files(&issuer, &description(&upstream, "", tiers), &applications).start();
    let by = |client| of(&issuer, client);
    let plain = by("plain");
    check(&gateway, &[("GET /a/x", &plain), ("GET /a/x", &plain)], "200, 429 900802");
    check(
        &gateway,
        &[("GET /a/y", &plain), ("GET /a/y", &by("app")), ("GET /a/y", &plain)],
        "200, 200, 429 900802",
    );
    check(&gateway, &[("GET /a/z", &by("app"))], "429 900803");
    check(&gateway, &[("GET /a/z", &by("app-sandbox"))], "429 900803");
    check(&gateway, &[("GET /a/z", &*by("sub")); 3], "200, 200, 429 900804");
    check(&gateway, &[("GET /a/z", &*by("burst")); 2], "200, 429 900807");
    check(&gateway, &[("GET /a/z", &*by("peak")); 2], "200, 429 900809");
    let whole = description(&upstream, "x-wso2-throttling-tier: two", tiers);
    let gateway = files(&issuer, &whole, &applications).start();
    check(
        &gateway,
        &[("GET /a/x", &plain), ("GET /a/x", &plain), ("GET /a/z", &plain)],
        "200, 200, 429 900800",
    );
}

#[test]
fn a_refused_request_is_counted_by_no_limit() {
    let (upstream, issuer) = (Upstream::fixed("in"), Issuer::new("resident"));
    let tiers = "{/x: {get: {x-wso2-throttling-tier: Two}}, /z: {get: {}}}";
    let applications = [
        ("one", application("one", "plan = \"One\"", "plan = \"Two\"")),
        ("two", application("two", "", "plan = \"Two\"")),
    ];
    let gateway = files(&issuer, &description(&upstream, "", tiers), &applications).start();
    let [one, two] = ["one", "two"].map(|client| of(&issuer, client));
    check(&gateway, &[("GET /a/x", &*one); 4], "200, 429 900803, 429 900803, 429 900803");
    check(&gateway, &[("GET /a/x", &*two); 2], "200, 429 900802");
    assert_eq!(upstream.requests().len(), 2, "a refused request never reaches the upstream");
}

#[test]
fn the_response_says_when_to_try_again() {
    let (upstream, issuer) = (Upstream::fixed("in"), Issuer::new("resident"));
    let applications = [("app", application("app", "", "plan = \"Two\""))];
    let gateway = files(&issuer, &description(&upstream, "", ALL), &applications).start();
    let app = of(&issuer, "app");
    let fetch = || gateway.fetch("GET /a/x", &app);
    const POLICY: &str = "\"subscription\";q=2;w=31536000";
    let first = fetch();
    assert_eq!(first.header("ratelimit-policy"), Some(POLICY));
    assert!(
        first.header("ratelimit").is_some_and(|text| text.starts_with("\"subscription\";r=1;t="))
    );
    assert_eq!(first.header("retry-after"), None);
    fetch();
    let refused: Response = fetch();
    assert_eq!(refused.status, 429);
    assert_eq!(refused.header("ratelimit-policy"), Some(POLICY));
    let wait_s: u64 = refused.header("retry-after").and_then(|text| text.parse().ok()).unwrap();
    assert_eq!(refused.header("ratelimit"), Some(&*format!("\"subscription\";r=0;t={wait_s}")));
    let body: Value = serde_json::from_str(&refused.text()).unwrap();
    let time = body["nextAccessTime"].as_str().unwrap();
    let expect = json!({
        "code": "900804",
        "message": "Message throttled out",
        "description": format!("You have exceeded your quota .You can access API after {time}"),
        "nextAccessTime": time,
    });
    assert_eq!(body, expect);
    assert!(time.ends_with(" 00:00:00+0000 UTC"), "a window ends at midnight: {time}");
}

#[test]
fn spellings_of_a_path_and_of_a_client_share_one_quota() {
    let (upstream, issuer) = (Upstream::fixed("in"), Issuer::new("resident"));
    let tiers = "{'/x/{id}': {get: {x-wso2-throttling-tier: One}}, /*: {get: {}}}";
    let applications =
        [("app", application("app", "plan = \"Unlimited\"", "plan = \"Unlimited\""))];
    let gateway = files(&issuer, &description(&upstream, "", tiers), &applications).start();
    let app = of(&issuer, "app");
    check(&gateway, &[("GET /a/x/1", &app)], "200");
    for path in
        ["/a/x/2", "/a/./x/1", "/a/y/../x/1", "/a/%78/1", "/%61/x/1", "/a/x/%31", "/a/x/1?q"]
    {
        check(&gateway, &[(&format!("GET {path}"), &app)], "429 900802");
    }
    // The subject, the token and the type of the key make no difference for the operation.
    for token in [
        issuer.token().claim("client_id", "app").claim("sub", "other").claim("jti", "2"),
        issuer.token().claim("client_id", "app-sandbox"),
    ] {
        check(&gateway, &[("GET /a/x/1", &field(&token))], "429 900802");
    }
}

#[test]
fn quotas_by_user_and_by_address_count_each_separately() {
    let (upstream, issuer) = (Upstream::fixed("in"), Issuer::new("resident"));
    let tiers = "{/user: {get: {x-wso2-throttling-tier: OneByUser}}, \
                  /address: {get: {x-wso2-throttling-tier: OneByAddress}}}";
    let files = Files::new().api("a.yaml", &description(&upstream, "", tiers));
    files.write("plans.toml", PLANS);
    let files = files.issuer("resident", &issuer);
    let gateway = files.start();
    let user = |name: &str| field(&issuer.token().claim("sub", name));
    let (ann, bob) = (user("ann"), user("bob"));
    check(
        &gateway,
        &[("GET /a/user", &ann), ("GET /a/user", &bob), ("GET /a/user", &ann)],
        "200, 200, 429 900802",
    );
    let from = |address: &str| format!("{ann}X-Forwarded-For: {address}\r\n");
    check(&gateway, &[("GET /a/address", &from("192.0.2.1"))], "200");
    check(&gateway, &[("GET /a/address", &from("192.0.2.2"))], "429 900802");
    let trusting = files.gateway("trusted_proxies = [\"127.0.0.0/8\", \"10.0.0.0/8\"]\n");
    let gateway = trusting.start();
    for (addresses, expect) in [
        ("192.0.2.1", "200"),
        ("192.0.2.1", "429 900802"),
        ("192.0.2.2, 10.1.1.1", "200"),
        ("192.0.2.9, 192.0.2.2", "429 900802"),
        ("2001:db8::1", "200"),
        ("2001:db8::2", "429 900802"),
        ("2001:db8:0:1::1", "200"),
        ("192.0.2.9, forged", "200"),
        ("192.0.2.10, forged", "429 900802"),
    ] {
        check(&gateway, &[("GET /a/address", &from(addresses))], expect);
    }
}

#[test]
fn bytes_of_both_bodies_are_counted_when_an_exchange_is_settled() {
    let (upstream, issuer) = (Upstream::fixed("in"), Issuer::new("resident"));
    let applications = [("app", application("app", "", "plan = \"Kilobyte\""))];
    let gateway = files(&issuer, &description(&upstream, "", ALL), &applications).start();
    let (app, body) = (of(&issuer, "app"), "x".repeat(1_024));
    let mut client = gateway.connect();
    assert_eq!(client.fetch("GET /a/x", &app).status, 200);
    assert_eq!(client.fetch_with_body("POST /a/x", &app, &body).status, 200);
    let refused = client.fetch("GET /a/x", &app);
    assert_eq!(refused.status_and_code(), "429 900804");
    let policy = "\"subscription\";q=1024;qu=\"content-bytes\";w=31536000";
    assert_eq!(refused.header("ratelimit-policy"), Some(policy));
}

/// A plan that limits the amounts in the header field `field` of responses.
fn reported(name: &str, amount: u32, field: &str) -> String {
    format!(
        "[[plan]]\nname = \"{name}\"\n\
         limits = [{{ amount = {amount}, of = \"response_header:{field}\", per = \"1y\" }}]\n"
    )
}

/// A gateway with an API whose responses may report 10.
fn of_tokens(upstream: &Upstream) -> Gateway {
    let limited = api("/a").open("GET /*").to(upstream);
    let limited = limited.with(|api| api.plan = Some("Tokens".to_owned()));
    Gateway::of(limited).plans(&reported("Tokens", 10, "X-Tokens-Used")).start()
}

#[test]
fn what_responses_report_is_counted_when_they_are_there() {
    let values = ["4", "", "4 ", "-4", "0", "2, 2", "4.0", "4", "", "9"];
    let count = AtomicUsize::new(0);
    let upstream = Upstream::responding(move |_| {
        let value = values[count.fetch_add(1, Ordering::Relaxed)];
        let field = match value {
            "" => String::new(),
            value => format!("x-tokens-used: {value}\r\n"),
        };
        CannedResponse::bytes(format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n{field}\r\nin"))
    });
    let gateway = of_tokens(&upstream);
    let mut client = gateway.connect();
    // 4, 8, 8, ..., 12.
    for value in values.iter().take(8) {
        assert_eq!(client.fetch("GET /a/x", "").status_and_code(), "200", "{value}");
    }
    let refused = client.fetch("GET /a/x", "");
    assert_eq!(refused.status_and_code(), "429 900800");
    assert!(refused.header("retry-after").is_some());
    assert_eq!(refused.header("ratelimit"), None, "it has no unit for this");
    assert_eq!(upstream.requests().len(), 8);
    let unreported = "penstock_quota_unreported_total 4\n";
    wait_until(|| gateway.page("/metrics").text().contains(unreported));
}

#[test]
fn requests_in_progress_exceed_a_limit_of_what_responses_report() {
    const IN_PROGRESS: usize = 3;
    let upstream = Upstream::manual();
    let gateway = of_tokens(&upstream);
    let mut clients: Vec<_> = (0..IN_PROGRESS).map(|_| gateway.connect()).collect();
    let connections: Vec<_> = clients
        .iter_mut()
        .map(|client| {
            client.send("GET /a/x HTTP/1.1\r\nHost: me\r\n\r\n");
            let mut connection = upstream.accept();
            connection.request();
            connection
        })
        .collect();
    for (mut connection, client) in connections.into_iter().zip(&mut clients) {
        // More digits than a number has.
        connection.send(
            "HTTP/1.1 200 OK\r\nX-Tokens-Used: 99999999999999999999999\r\nContent-Length: 0\r\n\r\n",
        );
        assert_eq!(client.read().status, 200);
    }
    assert_eq!(gateway.fetch("GET /a/x", "").status_and_code(), "429 900800");
}

/// As a language model reports them: in the body, from which a policy takes them.
#[test]
fn a_policy_may_report_a_number_of_the_body_and_a_cached_response_uses_nothing() {
    let body = r#"{"answer": "in", "usage": {"total_tokens": 10}}"#;
    let len = body.len();
    let upstream = Upstream::responding(move |_| {
        CannedResponse::bytes(format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len}\r\n\
             X-Tokens-Used: 10\r\n\r\n{body}"
        ))
    });
    let policies = "x-penstock-policies: {response: [{name: addHeader, parameters: \
         {headerName: X-Policy-Tokens, headerValue: '${payload.usage.total_tokens}'}}]}";
    let operations = format!(
        "{{/policy: {{get: {{x-throttling-tier: Policy, {policies}}}}}, \
         /cached: {{get: {{x-throttling-tier: Tokens, x-penstock-policies: \
         {{response: [{{name: responseCache, parameters: {{cacheTimeoutInSeconds: 60}}}}]}}}}}}}}"
    );
    let text = description(&upstream, "security: []", &operations);
    let files = Files::new().api("a.yaml", &text);
    let plans =
        [reported("Policy", 10, "X-Policy-Tokens"), reported("Tokens", 11, "X-Tokens-Used")];
    files.write("plans.toml", &plans.concat());
    let gateway = files.start();
    check(&gateway, &[("GET /a/policy", ""); 2], "200, 429 900802");
    check(&gateway, &[("GET /a/cached", ""); 4], "200, 200, 200, 200");
    assert_eq!(upstream.requests().len(), 2, "one for each");
}

#[test]
fn bytes_of_a_tunnel_are_counted_while_it_is_open() {
    let (upstream, issuer) = (Upstream::manual(), Issuer::new("resident"));
    let applications = [("app", application("app", "", "plan = \"Kilobyte\""))];
    let gateway = files(&issuer, &description(&upstream, "", ALL), &applications).start();
    let app = of(&issuer, "app");
    let mut client = gateway.connect();
    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\n";
    client.send(format!("GET /a/socket HTTP/1.1\r\nHost: me\r\n{upgrade}{app}\r\n"));
    let mut connection = upstream.accept();
    connection.request();
    connection.send(format!("HTTP/1.1 101 Switching Protocols\r\n{upgrade}\r\n"));
    assert_eq!(client.read().status, 101);
    client.send("u".repeat(1_024));
    connection.read_exactly(1_024);
    // The gateway counts the bytes right after it wrote them, before it reads more.
    connection.send("d");
    assert_eq!(client.read_exactly(1), b"d");
    assert_eq!(gateway.fetch("GET /a/x", &app).status_and_code(), "429 900804");
    client.half_close();
    connection.half_close();
}

#[test]
fn a_token_that_lists_its_subscriptions_needs_no_store() {
    let (upstream, issuer) = (Upstream::fixed("in"), Issuer::new("resident"));
    let description = description(&upstream, "", ALL);
    let files = Files::new().api("a.yaml", &description).issuer("resident", &issuer);
    files.write("plans.toml", PLANS);
    let gateway = files.start();
    let listing = |api: &str, version: &str, tier: &str| {
        let listed =
            json!([{"name": api, "version": version, "context": "/a", "subscriptionTier": tier}]);
        let tiers = json!({"Peak": {"stopOnQuotaReach": true, "spikeArrestLimit": 1, "spikeArrestUnit": "min"},
            "Two": {"stopOnQuotaReach": true}, "One": {"stopOnQuotaReach": false}});
        let application = json!({"id": 7, "name": format!("of {tier}"), "uuid": format!("{api} {tier}"), "tier": "Unlimited"});
        issuer
            .token()
            .claim("subscribedAPIs", listed)
            .claim("tierInfo", tiers)
            .claim("application", application)
    };
    let two = field(&listing("A", "1", "Two"));
    check(&gateway, &[("GET /a/x", &*two); 3], "200, 200, 429 900804");
    let same = field(&listing("A", "1", "Two").claim("jti", "another").claim("sub", "other"));
    check(&gateway, &[("GET /a/x", &same)], "429 900804");
    let beyond = field(&listing("A", "1", "One"));
    check(&gateway, &[("GET /a/x", &*beyond); 3], "200, 200, 200");
    for (token, expect) in [
        (listing("B", "1", "Two"), "403 900908"),
        (listing("A", "2", "Two"), "403 900908"),
        (listing("A", "1", "Undefined"), "429 900804"),
        (issuer.token().claim("subscribedAPIs", json!([])), "200"),
    ] {
        check(&gateway, &[("GET /a/x", &field(&token))], expect);
    }
}

#[test]
fn a_blocked_subscription_of_the_application_denies_a_token_that_lists_the_api() {
    let (upstream, issuer) = (Upstream::fixed("in"), Issuer::new("resident"));
    let states = ["active", "blocked", "production_blocked", "inactive"];
    let applications =
        states.map(|state| (state, application(state, "", &format!("state = \"{state}\""))));
    let gateway = files(&issuer, &description(&upstream, "", ALL), &applications).start();
    let listed =
        json!([{"name": "A", "version": "1", "context": "/a", "subscriptionTier": "Unlimited"}]);
    let listing = |client: &str| {
        field(&issuer.token().claim("client_id", client).claim("subscribedAPIs", listed.clone()))
    };
    for (client, expect) in [
        ("active", "200"),
        ("blocked", "401 900907"),
        ("blocked-sandbox", "401 900907"),
        ("production_blocked", "401 900907"),
        ("production_blocked-sandbox", "200"),
        ("inactive", "403 900909"),
        ("stranger", "200"),
    ] {
        check(&gateway, &[("GET /a/x", &listing(client))], expect);
    }
}

#[test]
fn a_plan_that_does_not_exist_is_reported_and_the_last_good_version_serves() {
    let (upstream, issuer) = (Upstream::fixed("in"), Issuer::new("resident"));
    let files =
        Files::new().api("a.yaml", &description(&upstream, "x-wso2-throttling-tier: One", ALL));
    let files = files.issuer("resident", &issuer);
    files.write("policies.yaml", "- One: {count: 1, unitTime: 1, timeUnit: year}\n");
    let files = files.gateway("plans = [\"policies.yaml\"]\n");
    let gateway = files.start();
    let token = of(&issuer, "any");
    check(&gateway, &[("GET /a/x", &*token); 2], "200, 429 900800");
    files.write("policies.yaml", "- Other: {count: 1, unitTime: 1, timeUnit: year}\n");
    while !gateway.page("/diagnostics").text().contains("there is no plan `One`") {
        check(&gateway, &[("GET /a/x", &token)], "429 900800");
    }
    check(&gateway, &[("GET /a/x", &token)], "429 900800");
    files.write("policies.yaml", "- One: {count: 1, unitTime: 1, timeUnit: fortnight}\n");
    wait_until(|| gateway.page("/diagnostics").text().contains("`timeUnit` must be"));
    check(&gateway, &[("GET /a/x", &token)], "429 900800");
}

/// First requests of many connections to several workers at once, as an attacker would send them.
#[test]
fn workers_together_admit_exactly_the_limit() {
    const CONNECTIONS: usize = 16;
    let upstream = Upstream::fixed("in");
    let (plan, limit) = ("Limited", 40);
    let limited =
        api("/a").open("GET /*").to(&upstream).with(|api| api.plan = Some(plan.to_owned()));
    let plans =
        format!("[[plan]]\nname = \"{plan}\"\nlimits = [{{ requests = {limit}, per = \"1y\" }}]\n");
    let builder = Gateway::of(limited).plans(&plans);
    let gateway = builder.settings(|settings| settings.gateway.workers = Some(4)).start();
    let admitted = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..CONNECTIONS {
            scope.spawn(|| {
                let mut client = gateway.connect();
                let passed = (0..8).filter(|_| client.fetch("GET /a/x", "").status == 200).count();
                admitted.fetch_add(passed, Ordering::Relaxed);
            });
        }
    });
    assert_eq!(admitted.load(Ordering::Relaxed), limit);
    assert_eq!(upstream.requests().len(), limit);
}

#[test]
fn a_plan_has_other_limits_for_requests_that_meet_conditions() {
    const CONDITIONS: &str = r#"
[[plan]]
name = "Two"
limits = [{ requests = 2, per = "1y" }]
conditions = [
  { when = [{ header = "X-Tier", value = "gold*" }, { addresses = ["127.0.0.0/8"] }], limits = [] },
  { when = [{ query = "b", value = "*1" }], limits = [{ requests = 1, per = "1y" }] },
  { when = [{ claim = "tier", value = "silver" }], limits = [{ requests = 3, per = "1y" }] },
  { when = [{ addresses = ["127.0.0.0/8"], inverted = true }], limits = [] },
]
"#;
    let (upstream, issuer) = (Upstream::fixed("in"), Issuer::new("resident"));
    let limited = description(&upstream, "x-wso2-throttling-tier: Two", ALL);
    let files = files(&issuer, &limited, &[("app", application("app", "", ""))]);
    files.write("applications/app.toml", &application("app", "", "plan = \"Unlimited\""));
    files.write("plans.toml", CONDITIONS);
    let gateway = files.start();
    let plain = of(&issuer, "app");
    let gold = format!("{plain}X-Tier: gold-7\r\n");
    let iron = format!("{plain}X-Tier: iron\r\n");
    let silver = field(&issuer.token().claim("client_id", "app").claim("tier", "silver"));
    let (in_, out) = ("200", "429 900800");
    for (request, field, expect) in [
        ("GET /a/x", &plain, [in_, in_, out, out]),
        ("GET /a/x", &iron, [out; 4]),
        ("GET /a/x", &gold, [in_; 4]),
        // A condition is met if any field of the name meets it.
        ("GET /a/x", &format!("{iron}X-Tier: gold\r\n"), [in_; 4]),
        ("GET /a/x?a=2&b=%31", &plain, [in_, out, out, out]),
        ("GET /a/x?b=1", &silver, [out; 4]),
        ("GET /a/x?b=12", &silver, [in_, in_, in_, out]),
    ] {
        let requests = [(request, field.as_str()); 4];
        check(&gateway, &requests, &expect.join(", "));
    }
}

#[test]
fn a_condition_on_a_claim_believes_no_token_that_nobody_verified() {
    const CONDITIONS: &str = r#"
[[plan]]
name = "Two"
limits = [{ requests = 2, per = "1y" }]
conditions = [{ when = [{ claim = "tier", value = "gold" }], limits = [] }]
"#;
    let (upstream, issuer) = (Upstream::fixed("in"), Issuer::new("resident"));
    let operations = "{/*: {get: {security: []}}, /closed: {get: {}}}";
    let limited = description(
        &upstream,
        "x-wso2-throttling-tier: Two\nx-penstock-subscription: false",
        operations,
    );
    let files = files(&issuer, &limited, &[]);
    files.write("plans.toml", CONDITIONS);
    let gateway = files.start();
    let gold = field(&issuer.token().claim("tier", "gold"));
    check(&gateway, &[("GET /a/closed", gold.as_str()); 3], "200, 200, 200");
    check(&gateway, &[("GET /a/x", gold.as_str()); 3], "200, 200, 429 900800");
}

#[test]
fn a_limit_may_count_each_value_of_a_field_a_parameter_or_a_claim_separately() {
    let (upstream, issuer) = (Upstream::fixed("in"), Issuer::new("resident"));
    let tiers = "{/header: {get: {x-wso2-throttling-tier: Header}}, /query: {get: {x-wso2-throttling-tier: Query}}, \
                  /claim: {get: {x-wso2-throttling-tier: Claim}}, /both: {get: {x-wso2-throttling-tier: Both}}}";
    let files = Files::new().api("a.yaml", &description(&upstream, "", tiers));
    let plan = |name: &str, by: &str| {
        format!(
            "[[plan]]\nname = \"{name}\"\nlimits = [{{ requests = 1, per = \"1y\", by = {by} }}]\n"
        )
    };
    let plans = [
        plan("Header", "\"header:X-Tenant\""),
        plan("Query", "\"query:q\""),
        plan("Claim", "\"claim:org\""),
        plan("Both", "[\"claim:org\", \"header:X-Tenant\"]"),
    ];
    files.write("plans.toml", &plans.concat());
    let gateway = files.issuer("resident", &issuer).start();
    let token = |org: Value| field(&issuer.token().claim("org", org));
    let of = |org: Value, fields: &str| format!("{}{fields}", token(org));
    let any = token(json!("any"));
    for (request, fields, expect) in [
        ("/header", of(json!("any"), "X-Tenant: a\r\n"), "200"),
        ("/header", of(json!("any"), "X-Tenant: b\r\n"), "200"),
        ("/header", of(json!("other"), "x-tenant:  a \r\n"), "429 900802"),
        ("/header", of(json!("any"), "X-Tenant: a\r\nX-Tenant: b\r\n"), "200"),
        // Requests without a value have one count.
        ("/header", token(json!("any")), "200"),
        ("/header", token(json!("other")), "429 900802"),
        ("/query?q=a", any.clone(), "200"),
        ("/query?x=1&q=%61", any.clone(), "429 900802"),
        ("/query?q=", any.clone(), "200"),
        ("/query", any.clone(), "200"),
        ("/query?Q=a", any.clone(), "429 900802"),
        ("/claim", token(json!("a")), "200"),
        ("/claim", token(json!("b")), "200"),
        ("/claim", of(json!("b"), "X-Tenant: a\r\n"), "429 900802"),
        ("/claim", token(json!(7)), "200"),
        ("/both", of(json!("ab"), "X-Tenant: c\r\n"), "200"),
        ("/both", of(json!("a"), "X-Tenant: bc\r\n"), "200"),
        ("/both", of(json!("ab"), "X-Tenant: c\r\n"), "429 900802"),
    ] {
        check(&gateway, &[(&format!("GET /a{request}"), &fields)], expect);
    }
}

#[test]
fn the_endpoints_of_an_api_get_no_more_than_their_limit() {
    let (upstream, issuer) = (Upstream::fixed("in"), Issuer::new("resident"));
    let limits = "x-penstock-max-tps: {production: 1, productionTimeUnit: HOUR, sandbox: 1000000}";
    let operations = "{/x: {get: {}, post: {x-wso2-disable-security: true}}}";
    let applications =
        ["app", "other", "free"].map(|name| (name, application(name, "", "plan = \"Unlimited\"")));
    let gateway = files(&issuer, &description(&upstream, limits, operations), &applications);
    let gateway = gateway.start();
    let [app, other] = ["app", "other"].map(|client| of(&issuer, client));
    // An hour may end between the first two.
    while gateway.fetch("GET /a/x", &app).status != 503 {}
    let refused = gateway.fetch("GET /a/x", &other);
    assert_eq!(refused.status_and_code(), "503 900801");
    assert!(refused.header("retry-after").is_some());
    check(&gateway, &[("POST /a/x", "")], "503 900801");
    check(&gateway, &[("GET /a/x", &of(&issuer, "app-sandbox"))], "200");
}

#[test]
fn a_custom_rule_limits_requests_to_all_apis_or_to_one() {
    let (upstream, issuer) = (Upstream::fixed("in"), Issuer::new("resident"));
    let one = description(&upstream, "", "{/x: {get: {x-wso2-disable-security: true}, post: {}}}");
    let other = one.replace("title: A", "title: B").replace("/a\n", "/b\n");
    let files = Files::new().api("a.yaml", &one).api("b.yaml", &other);
    let plans = "[[plan]]\nname = \"Tenant\"\nlimits = [{ requests = 2, per = \"1y\", by = \"header:X-Tenant\" }]\n\
                 [[plan]]\nname = \"OfB\"\nlimits = [{ requests = 1, per = \"1y\", by = [\"user\", \"api\"] }]\n\
                 [[custom]]\nplan = \"Tenant\"\n[[custom]]\nplan = \"OfB\"\napi = \"/b\"\n";
    files.write("plans.toml", plans);
    let files = files.issuer("resident", &issuer);
    let gateway = files.start();
    let tenant = |name: &str| format!("{}X-Tenant: {name}\r\n", field(&issuer.token()));
    let (a, b) = (tenant("a"), tenant("b"));
    check(&gateway, &[("GET /a/x", &a), ("GET /b/x", "X-Tenant: a\r\n")], "200, 200");
    check(&gateway, &[("GET /a/x", &a), ("POST /b/x", &a)], "429 900806, 429 900806");
    let expect = "200, 429 900806, 200, 429 900806";
    let requests = [("POST /b/x", &*b), ("POST /b/x", &*b), ("POST /a/x", &*b), ("POST /a/x", &*b)];
    check(&gateway, &requests, expect);
}
