//! Rejected credentials over HTTP/2 are counted and logged as over HTTP/1.1.

use harness::{Gateway, Issuer, Upstream, api};
use model::AccessLog;
use serde_json::Value;

use crate::client::Http2Client;

#[test]
fn the_reason_of_a_401_is_counted_and_logged_and_in_no_response() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("access.log");
    let (upstream, issuer) = (Upstream::fixed("in"), Issuer::new("resident"));
    let gateway = Gateway::of(api("/a").secured("GET /*").to(&upstream))
        .issuer(&issuer)
        .settings(|settings| settings.access_log = AccessLog::File(file.clone()))
        .start();
    let client = Http2Client::connect(&gateway);
    let not_yet_valid = issuer.token().claim("nbf", harness::now_s() + 1_000).bearer();
    let unknown_kid = issuer.token().kid(Some("unknown")).bearer();
    let rejected = [("not_yet_valid", not_yet_valid), ("unknown_kid", unknown_kid)];
    let mut responses = Vec::new();
    for (reason, credential) in &rejected {
        let mut response = client.fetch("GET /a/x", &[("authorization", credential)]);
        assert_eq!(response.status, 401, "{reason}");
        // All but the time.
        assert!(response.fields.remove("date").is_some());
        responses.push((response.fields, response.body));
        let labels = format!("reason=\"{reason}\"");
        gateway.wait_for_metric("penstock_auth_failures_total", &labels, 1);
    }
    assert_eq!(responses[0], responses[1]);
    drop(client);
    assert!(gateway.drain(), "nothing is in progress");
    let lines = std::fs::read_to_string(&file).unwrap();
    let logged: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let logged: Vec<_> = logged.iter().map(|line| line["auth_failure"].as_str()).collect();
    assert_eq!(logged, [Some("not_yet_valid"), Some("unknown_kid")]);
}
