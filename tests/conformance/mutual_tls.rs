//! Client certificates.

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use harness::{Authority, Builder, Client, Gateway, Identity, Issuer, Upstream, api};
use model::{Accepts, ClientTrust, ScopeRule, Security, TrustedClients};
use serde_json::json;
use std::sync::Arc;

const FIELD: &str = "x-wso2-client-certificate";

fn gateway(upstream: &Upstream) -> Builder {
    let strict = api("/strict").open("GET /*").to(upstream).with(|api| api.mutual_tls = true);
    Gateway::of(api("/free").open("GET /*").to(upstream)).api(strict)
}

#[test]
fn an_api_may_require_a_client_certificate_and_upstreams_get_it() {
    let (upstream, client) = (Upstream::fixed("served"), Identity::of(&["client.example"]));
    let gateway = gateway(&upstream).client_certificates(&client, false).start();
    let mut known = gateway.connect_tls_as(&client);
    assert_eq!(known.fetch("GET /strict/x", "").text(), "served");
    assert_eq!(known.fetch("GET /free/x", "").text(), "served");
    let mut unknown = gateway.connect_tls();
    assert_eq!(unknown.fetch("GET /strict/x", "").status_and_code(), "401 900911");
    assert_eq!(gateway.fetch("GET /strict/x", "").status_and_code(), "401 900911", "in clear");
    assert_eq!(unknown.fetch("GET /free/x", "").text(), "served");
    let expect = BASE64_STANDARD.encode(client.certificate());
    let requests = upstream.requests();
    let fields: Vec<_> = requests.iter().map(|request| request.header(FIELD)).collect();
    assert_eq!(fields, [Some(expect.as_str()), Some(expect.as_str()), None]);
}

#[test]
fn a_certificate_is_no_token_and_a_token_no_certificate() {
    let (upstream, client) = (Upstream::fixed("served"), Identity::of(&["client.example"]));
    let issuer = Issuer::new("resident");
    let both = api("/both").secured("GET /*").to(&upstream).with(|api| api.mutual_tls = true);
    let gateway = Gateway::of(both).issuer(&issuer).client_certificates(&client, false).start();
    let token = format!("Authorization: {}\r\n", issuer.token().bearer());
    let mut known = gateway.connect_tls_as(&client);
    assert_eq!(known.fetch("GET /both/x", "").status_and_code(), "401 900902");
    assert_eq!(known.fetch("GET /both/x", &token).text(), "served");
    let mut unknown = gateway.connect_tls();
    assert_eq!(unknown.fetch("GET /both/x", &token).status_and_code(), "401 900911");
}

#[test]
fn a_token_that_is_bound_to_a_certificate_needs_its_handshake() {
    let (upstream, owner) = (Upstream::fixed("served"), Identity::of(&["client.example"]));
    let issuer = Issuer::new("resident");
    let gateway = Gateway::of(api("/a").secured("GET /*").to(&upstream))
        .issuer(&issuer)
        .client_certificates(&owner, false)
        .start();
    let sha256 = BASE64_URL_SAFE_NO_PAD.encode(jose::sha256(&owner.certificate()));
    let bound = |cnf: serde_json::Value| {
        format!("Authorization: {}\r\n", issuer.token().claim("cnf", cnf).bearer())
    };
    let own = bound(json!({ "x5t#S256": sha256 }));
    let certificate = BASE64_STANDARD.encode(owner.certificate());
    let claimed = format!("{own}X-WSO2-CLIENT-CERTIFICATE: {certificate}\r\n");
    let other = bound(json!({ "x5t#S256": BASE64_URL_SAFE_NO_PAD.encode([7; 32]) }));
    let by_key = bound(json!({ "jkt": sha256 }));
    // The second time from the cache.
    for _ in 0..2 {
        assert_eq!(gateway.connect_tls_as(&owner).fetch("GET /a/x", &own).text(), "served");
        for (mut client, field) in [
            (gateway.connect_tls(), &own),
            (gateway.connect(), &own),
            (gateway.connect_tls(), &claimed),
            (gateway.connect_tls_as(&owner), &other),
            (gateway.connect_tls_as(&owner), &by_key),
        ] {
            assert_eq!(client.fetch("GET /a/x", field).status_and_code(), "401 900901", "{field}");
        }
    }
    let unbound = format!("Authorization: {}\r\n", issuer.token().bearer());
    assert_eq!(gateway.connect_tls_as(&owner).fetch("GET /a/x", &unbound).text(), "served");
}

#[test]
fn a_client_cannot_claim_a_certificate_in_a_field() {
    let upstream = Upstream::fixed("served");
    let gateway = gateway(&upstream).start();
    let forged = "X-WSO2-CLIENT-CERTIFICATE: forged\r\n";
    assert_eq!(gateway.fetch("GET /free/x", forged).text(), "served");
    assert_eq!(gateway.fetch("GET /strict/x", forged).status, 401);
    assert_eq!(upstream.requests()[0].header(FIELD), None);
}

/// As a load balancer that encrypts its requests again, with a certificate of its own.
#[test]
fn the_certificate_of_a_trusted_proxy_is_not_that_of_its_clients() {
    let (upstream, proxy) = (Upstream::fixed("served"), Identity::of(&["proxy.example"]));
    let issuer = Issuer::new("resident");
    let sha256 = BASE64_URL_SAFE_NO_PAD.encode(jose::sha256(&proxy.certificate()));
    let bound = issuer.token().claim("cnf", json!({ "x5t#S256": sha256 })).bearer();
    let bound = format!("Authorization: {bound}\r\n");
    let loopback = ("127.0.0.0".parse().unwrap(), 8);
    for (trusted, forwarded) in [(vec![loopback], "401"), (Vec::new(), "200")] {
        let gateway = gateway(&upstream)
            .api(api("/bound").secured("GET /*").to(&upstream))
            .issuer(&issuer)
            .client_certificates(&proxy, false)
            .settings(|settings| settings.gateway.trusted_proxies = trusted)
            .start();
        let mut connection = gateway.connect_tls_as(&proxy);
        for (request, own) in [("GET /strict/x", ""), ("GET /bound/x", bound.as_str())] {
            let status = |mut fields: String, connection: &mut Client| {
                fields.push_str(own);
                connection.fetch(request, &fields).status.to_string()
            };
            assert_eq!(status(String::new(), &mut connection), "200", "{request} of its own");
            let of_client = "X-Forwarded-For: 192.0.2.1\r\n".to_owned();
            assert_eq!(status(of_client, &mut connection), forwarded, "{request}");
        }
    }
}

/// `[tls] client_certificate_header`
const HEADER: &str = "X-Client-Pem";

fn in_header(builder: Builder) -> Builder {
    builder.settings(|settings| {
        settings.tls.clients.as_mut().unwrap().header = Some(HEADER.to_owned());
    })
}

fn in_base64(client: &Identity) -> String {
    format!(
        "X-Forwarded-For: 192.0.2.1\r\n{HEADER}: {}\r\n",
        BASE64_STANDARD.encode(client.certificate())
    )
}

/// As nginx's `$ssl_client_escaped_cert`.
fn in_pem(client: &Identity) -> String {
    let escaped = client.cert_pem.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
    format!("x-client-pem: {escaped}\r\n")
}

#[test]
fn a_trusted_proxy_sends_the_certificates_of_its_clients_in_a_field() {
    let upstream = Upstream::fixed("served");
    let [own, listed_by_nobody, foreign] = ["own", "other", "foreign"].map(Authority::new);
    let below = own.below("below");
    let issuer = Issuer::new("resident");
    let client = own.issue("client.example");
    let mut with_issuer = below.issue("client.example");
    with_issuer.cert_pem.push_str(&below.pem());
    let lists = listed(issued_by(&own), TrustedClients::default());
    let strict = api("/strict").open("GET /*").to(&upstream).with(|api| {
        api.mutual_tls = true;
        api.client_trust = lists;
    });
    let builder = Gateway::of(api("/free").open("GET /*").to(&upstream))
        .api(strict)
        .api(api("/bound").secured("GET /*").to(&upstream))
        .issuer(&issuer)
        .trusting_loopback_clients()
        .client_authorities(&[&own.pem(), &listed_by_nobody.pem()], false);
    let gateway = in_header(builder).start();
    let unlisted = listed_by_nobody.issue("client.example");
    let twice = in_base64(&client) + &in_pem(&client);
    let unaccepted = foreign.issue("client.example");
    // The second time from the cache.
    for _ in 0..2 {
        let mut proxy = gateway.connect();
        for (fields, expect) in [
            (in_base64(&client), "200"),
            (in_pem(&client), "200"),
            (in_pem(&with_issuer), "200"),
            (in_base64(&with_issuer), "401 900911"),
            (in_base64(&unlisted), "401 900911"),
            (in_base64(&unaccepted), "401 900911"),
            (in_pem(&unaccepted), "401 900911"),
            (twice.clone(), "401 900911"),
            (format!("{HEADER}: forged\r\n"), "401 900911"),
            (format!("{HEADER}: {}\r\n", "A".repeat(20_000)), "401 900911"),
            (
                format!("{FIELD}: {}\r\n", BASE64_STANDARD.encode(client.certificate())),
                "401 900911",
            ),
            (String::new(), "401 900911"),
        ] {
            let found = proxy.fetch("GET /strict/x", &fields).status_and_code();
            assert_eq!(found, expect, "{fields}");
        }
    }
    // Upstreams get the verified certificate, and nothing else.
    let expect = BASE64_STANDARD.encode(client.certificate());
    let before = upstream.requests().len();
    for fields in [in_pem(&client), in_base64(&unaccepted)] {
        let fields = format!("{fields}{FIELD}: forged\r\n");
        assert_eq!(gateway.fetch("GET /free/x", &fields).text(), "served");
    }
    let requests = upstream.requests();
    let got: Vec<_> = requests[before..].iter().map(|request| request.header(FIELD)).collect();
    assert_eq!(got, [Some(expect.as_str()), None]);
    assert!(requests.iter().all(|request| request.header(HEADER).is_none()));

    // Tokens that are bound to it.
    let sha256 = BASE64_URL_SAFE_NO_PAD.encode(jose::sha256(&client.certificate()));
    let bound = issuer.token().claim("cnf", json!({ "x5t#S256": sha256 })).bearer();
    for (fields, expect) in [(in_pem(&client), "200"), (in_pem(&unlisted), "401 900901")] {
        let fields = format!("{fields}Authorization: {bound}\r\n");
        assert_eq!(gateway.fetch("GET /bound/x", &fields).status_and_code(), expect);
    }

    // The proxy's own certificate is not that of a client who has none.
    let mut proxy = gateway.connect_tls_as(&client);
    for (fields, expect) in [
        (String::new(), "401 900911"),
        (format!("{HEADER}:\r\n"), "401 900911"),
        (in_base64(&unaccepted), "401 900911"),
        ("X-Forwarded-For: 192.0.2.1\r\n".to_owned(), "401 900911"),
        (in_base64(&client), "200"),
    ] {
        assert_eq!(proxy.fetch("GET /strict/x", &fields).status_and_code(), expect, "{fields}");
    }
}

#[test]
fn nobody_else_sends_a_certificate_in_that_field() {
    let (upstream, client) = (Upstream::fixed("served"), Identity::of(&["client.example"]));
    let gateway = in_header(gateway(&upstream).client_certificates(&client, false)).start();
    for fields in [in_base64(&client), in_pem(&client)] {
        for mut connection in [gateway.connect(), gateway.connect_tls()] {
            let found = connection.fetch("GET /strict/x", &fields).status_and_code();
            assert_eq!(found, "401 900911", "{fields}");
            assert_eq!(connection.fetch("GET /free/x", &fields).text(), "served");
        }
    }
    assert_eq!(gateway.connect_tls_as(&client).fetch("GET /strict/x", "").text(), "served");
    let requests = upstream.requests();
    assert_eq!(requests.len(), 5);
    assert!(requests.iter().all(|request| request.header(HEADER).is_none()));
    assert_eq!(requests.iter().filter(|request| request.header(FIELD).is_some()).count(), 1);
}

#[test]
fn a_certificate_of_another_authority_or_none_where_it_is_required_fails_the_handshake() {
    let (upstream, client) = (Upstream::fixed("served"), Identity::of(&["client.example"]));
    let other = Identity::of(&["client.example"]);
    let request = "GET /free/x HTTP/1.1\r\nHost: me\r\n\r\n";
    let optional = gateway(&upstream).client_certificates(&client, false).start();
    optional.connect_tls_as(&other).try_send(request).expect_close();
    optional.wait_for_metric("penstock_handshakes_failed_total", "", 1);
    let required = gateway(&upstream).client_certificates(&client, true).start();
    required.connect_tls().try_send(request).expect_close();
    required.wait_for_metric("penstock_handshakes_failed_total", "", 1);
    assert_eq!(required.connect_tls_as(&client).fetch("GET /free/x", "").text(), "served");
}

/// Clients whose certificates `authority` has issued.
fn issued_by(authority: &Authority) -> TrustedClients {
    TrustedClients { issuers: vec![authority.der()], hashes: Vec::new() }
}

fn listed(production: TrustedClients, sandbox: TrustedClients) -> Option<Arc<ClientTrust>> {
    Some(Arc::new(ClientTrust { production, sandbox }))
}

#[test]
fn an_api_accepts_the_certificates_that_it_lists_and_no_others_of_the_listener() {
    let upstream = Upstream::fixed("served");
    // The self-signed ones are CAs, as `openssl req -x509` makes them.
    let [own, foreign, self_signed, unlisted_self_signed] =
        ["own", "foreign", "client", "client"].map(Authority::new);
    let below = own.below("below");
    let pinned = foreign.issue("pinned.example");
    let self_signed_client = self_signed.identity();
    let hashes = [pinned.certificate(), self_signed_client.certificate()]
        .map(|der| jose::sha256(&der))
        .to_vec();
    let certificates = TrustedClients { hashes, ..issued_by(&own) };
    let strict = api("/strict").open("GET /*").to(&upstream).with(|api| {
        api.mutual_tls = true;
        api.client_trust = listed(certificates.clone(), certificates);
    });
    let any = api("/any").open("GET /*").to(&upstream).with(|api| api.mutual_tls = true);
    let gateway = Gateway::of(strict)
        .api(any)
        .client_authorities(&[&own.pem(), &foreign.pem(), &self_signed.pem()], false)
        .start();
    let mut unknown = gateway.connect_tls_as(&unlisted_self_signed.identity());
    unknown.try_send("GET /any/x HTTP/1.1\r\nHost: a\r\n\r\n").expect_close();
    let with = |mut client: Identity, issuers: &[&Authority]| {
        issuers.iter().for_each(|issuer| client.cert_pem.push_str(&issuer.pem()));
        client
    };
    let unlisted = || foreign.issue("client.example");
    for (client, expect) in [
        (own.issue("client.example"), "200"),
        (with(below.issue("client.example"), &[&below]), "200"),
        (pinned, "200"),
        (self_signed_client, "200"),
        (unlisted(), "401 900911"),
        // Certificates that have nothing to do with its own prove nothing.
        (with(unlisted(), &[&own]), "401 900911"),
        (with(unlisted(), &[&foreign, &below, &own]), "401 900911"),
    ] {
        let mut connection = gateway.connect_tls_as(&client);
        for path in ["/strict/x", "/any/x", "/strict/x"] {
            let found = connection.fetch(&format!("GET {path}"), "").status_and_code();
            let expect = if path == "/any/x" { "200" } else { expect };
            assert_eq!(found, expect, "{path}");
        }
    }
}

#[test]
fn a_certificate_is_for_the_endpoints_that_it_is_listed_for() {
    let (production, sandbox) = (Upstream::fixed("production"), Upstream::fixed("sandbox"));
    let [one, other] = ["production", "sandbox"].map(Authority::new);
    let issuer = Issuer::new("resident");
    let lists = listed(issued_by(&one), issued_by(&other));
    let build = |path: &str, security: &str| {
        let api = api(path);
        let api = if security == "token" { api.secured("GET /*") } else { api.open("GET /*") };
        let lists = lists.clone();
        api.to(&production).sandbox(&sandbox).with(|api| {
            api.mutual_tls = true;
            api.client_trust = lists;
        })
    };
    let gateway = Gateway::of(build("/open", ""))
        .api(build("/token", "token"))
        .issuer(&issuer)
        .client_authorities(&[&one.pem(), &other.pem()], false)
        .start();
    let token = |key_type: &str| {
        format!("Authorization: {}\r\n", issuer.token().claim("keytype", json!(key_type)).bearer())
    };
    for (authority, path, fields, expect) in [
        (&one, "/open", String::new(), "production"),
        (&other, "/open", String::new(), "sandbox"),
        (&one, "/token", token("PRODUCTION"), "production"),
        (&other, "/token", token("SANDBOX"), "sandbox"),
        (&one, "/token", token("SANDBOX"), "401 900911"),
        (&other, "/token", token("PRODUCTION"), "401 900911"),
    ] {
        let mut client = gateway.connect_tls_as(&authority.issue("client.example"));
        let response = client.fetch(&format!("GET {path}/x"), &fields);
        let found = if response.status == 200 {
            response.text().to_owned()
        } else {
            response.status_and_code()
        };
        assert_eq!(found, expect, "{path} {fields}");
    }
}

#[test]
fn a_certificate_that_the_api_does_not_list_is_no_credential() {
    let upstream = Upstream::fixed("served");
    let [own, foreign] = ["own", "foreign"].map(Authority::new);
    let issuer = Issuer::new("resident");
    let accepts = Accepts { optional: true, ..Accepts::token(ScopeRule::Anything) };
    let either = api("/either").secured("GET /*").to(&upstream).with(|api| {
        api.operations[0].security = Security::Required(accepts);
        api.client_trust = listed(issued_by(&own), TrustedClients::default());
    });
    let gateway = Gateway::of(either)
        .issuer(&issuer)
        .client_authorities(&[&own.pem(), &foreign.pem()], false)
        .start();
    let token = format!("Authorization: {}\r\n", issuer.token().bearer());
    let fetch = |authority: &Authority, fields: &str| {
        let mut client = gateway.connect_tls_as(&authority.issue("client.example"));
        client.fetch("GET /either/x", fields).status_and_code()
    };
    assert_eq!(fetch(&own, ""), "200");
    assert_eq!(fetch(&foreign, ""), "401 900902");
    assert_eq!(fetch(&foreign, &token), "200");
}
