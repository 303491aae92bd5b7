//! The key manager's URLs on the gateway's own port, as in API Microgateway: `examples/token-urls.yaml`.

use harness::{Files, Issuer, Upstream};

#[test]
fn tokens_are_issued_on_the_gateways_port() {
    let (manager, upstream) = (Upstream::echo(), Upstream::fixed("in"));
    let text = include_str!("../../examples/token-urls.yaml");
    let text = text.replace("https://localhost:9443", &manager.url());
    let other = format!(
        "openapi: 3.0.3\ninfo: {{title: a, version: '1'}}\nx-wso2-basePath: /token/a\n\
         x-wso2-production-endpoints: {{urls: ['{}']}}\npaths: {{/*: {{get: {{}}}}}}\n",
        upstream.url()
    );
    let issuer = Issuer::new("resident");
    let files = Files::new().api("token-urls.yaml", &text).api("a.yaml", &other);
    let gateway = files.issuer("resident", &issuer).start();
    let mut client = gateway.connect();
    let login = "Authorization: Basic YTpi\r\nContent-Type: application/x-www-form-urlencoded\r\n";
    for path in ["token", "revoke", "introspect", "userinfo", "authorize", "apikey"] {
        let form = "grant_type=client_credentials";
        let response = client.fetch_with_body(&format!("POST /{path}?a=1"), login, form);
        assert_eq!((response.status, response.text()), (200, form.to_owned()), "{path}");
        let request = manager.requests().pop().unwrap();
        assert_eq!(request.target(), format!("/oauth2/{path}?a=1"));
        assert_eq!(request.header("Authorization"), Some("Basic YTpi"));
    }
    assert_eq!(client.fetch("GET /authorize?client_id=a", "").status, 200);
    assert_eq!(client.fetch("GET /token", "").status_and_code(), "405 405");
    assert_eq!(client.fetch("GET /other", "").status_and_code(), "404 404");
    assert_eq!(client.fetch("GET /token/a/x", "").status_and_code(), "401 900902");
    let token = format!("Authorization: {}\r\n", issuer.token().bearer());
    assert_eq!(client.fetch("GET /token/a/x", &token).text(), "in");
}
