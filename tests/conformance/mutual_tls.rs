//! Client certificates.

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use harness::{Builder, Gateway, Identity, Issuer, Upstream, api};
use serde_json::json;

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
