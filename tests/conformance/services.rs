//! Security and plans of services: `[[service]]` in `penstock.toml`.

use harness::{
    CannedResponse, Client, Files, Gateway, Issuer, Response, Token, Upstream, wait_until,
};
use serde_json::{Value, json};

/// Artefacts at `integration_http`: a proxy `Quotes`, an API `orders` and another proxy, all of which send requests to
/// `upstream`.
fn files(upstream: &Upstream, sections: &str) -> Files {
    let files =
        Files::new().toml("[integration]\nhttp = \"127.0.0.1:0\"\nartifacts = [\"synapse/\"]\n");
    std::fs::create_dir(files.path("synapse")).unwrap();
    let send = format!("<endpoint><address uri=\"{}/up\"/></endpoint>", upstream.url());
    let artefacts = format!(
        "<definitions xmlns=\"http://ws.apache.org/ns/synapse\">\
         <proxy name=\"Quotes\"><target>{send}</target><publishWSDL><definitions xmlns=\"http://schemas.xmlsoap.org/wsdl/\"/>\
         </publishWSDL></proxy>\
         <proxy name=\"Others\"><target>{send}</target></proxy>\
         <api name=\"orders\" context=\"/orders\" version=\"1.0\" version-type=\"url\"><resource methods=\"GET POST\" \
         uri-template=\"/x\"><inSequence><send>{send}</send></inSequence></resource></api></definitions>"
    );
    files.write("synapse/all.xml", &artefacts);
    files.toml(sections)
}

/// The field with a token.
fn bearer(token: &Token<'_>) -> String {
    format!("Authorization: {}\r\n", token.bearer())
}

fn fetch(gateway: &Gateway, request: &str, fields: &str) -> Response {
    Client::connect(gateway.integration_http()).fetch(request, fields)
}

const QUOTES: &str = "[[service]]\nname = \"Quotes\"\n";

#[test]
fn a_service_with_security_needs_a_token_of_a_listed_issuer_with_one_of_its_scopes() {
    let upstream = Upstream::echo();
    let (mine, other) = (Issuer::new("mine"), Issuer::new("other"));
    let rules = format!("{QUOTES}security = [\"mine\"]\nscopes = [\"read\", \"trade\"]\n");
    let gateway = files(&upstream, &rules).issuer("mine", &mine).issuer("other", &other).start();
    let scoped = |issuer: &Issuer, scope: &str| bearer(&issuer.token().claim("scope", scope));
    let get = |fields: &str| fetch(&gateway, "GET /services/Quotes", fields);
    let missing = get("");
    assert_eq!(missing.status_and_code(), "401 900902");
    let body: Value = serde_json::from_slice(&missing.body).unwrap();
    assert_eq!(body["message"], "Missing Credentials");
    assert!(missing.header("www-authenticate").is_some_and(|scheme| scheme.starts_with("OAuth2")));
    assert_eq!(get("Authorization: Bearer a.b.c\r\n").status_and_code(), "401 900901");
    assert_eq!(get(&scoped(&other, "read")).status_and_code(), "401 900901", "another issuer");
    assert_eq!(get(&scoped(&mine, "write")).status_and_code(), "403 900910");
    assert_eq!(get(&bearer(&mine.token())).status_and_code(), "403 900910", "no scope");
    assert_eq!(upstream.requests().len(), 0);
    for scope in ["trade", "write read"] {
        assert_eq!(get(&scoped(&mine, scope)).status_and_code(), "200", "{scope}");
    }
    let forwarded = upstream.requests();
    assert_eq!(forwarded.len(), 2);
    assert_eq!(forwarded[0].header("authorization"), None, "the token stays here");
    // As for operations.
    for (reason, count) in
        [("missing_credential", 1), ("malformed_token", 1), ("unknown_issuer", 1)]
    {
        let labels = format!("api=\"Quotes\",reason=\"{reason}\"");
        gateway.wait_for_metric("penstock_auth_failures_total", &labels, count);
    }
    // Other services are open, and forward the field `Authorization`.
    let other = fetch(&gateway, "GET /services/Others", "Authorization: Basic YTpi\r\n");
    assert_eq!(other.status, 200);
    assert_eq!(upstream.requests()[2].header("authorization"), Some("Basic YTpi"));
}

#[test]
fn the_description_of_a_secured_service_needs_a_token_too_and_a_preflight_needs_none() {
    let (upstream, issuer) = (Upstream::echo(), Issuer::new("mine"));
    let rules = format!(
        "{QUOTES}security = [\"mine\"]\n[[service]]\nname = \"orders\"\nsecurity = [\"mine\"]\n"
    );
    let files = files(&upstream, "cors_origins = [\"*\"]\n").toml(&rules).issuer("mine", &issuer);
    let gateway = files.start();
    let token = bearer(&issuer.token());
    for (request, fields, expect) in [
        ("GET /services/Quotes?wsdl", "", "401 900902"),
        ("GET /services/Quotes?wsdl", &*token, "200"),
        ("GET /services/Quotes.QuotesHttpSoap11Endpoint", "", "401 900902"),
        ("GET /orders/1.0/x", "", "401 900902"),
        ("GET /orders/1.0/x", &token, "200"),
        // A client without a token does not learn which resources there are.
        ("GET /orders/1.0/y", "", "401 900902"),
        ("GET /orders/1.0/y", &token, "404 404"),
        ("PUT /orders/1.0/x", &token, "405 405"),
        (
            "OPTIONS /orders/1.0/x",
            "Origin: https://a.example\r\nAccess-Control-Request-Method: GET\r\n",
            "204",
        ),
    ] {
        assert_eq!(
            fetch(&gateway, request, fields).status_and_code(),
            expect,
            "{request} {fields}"
        );
    }
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn every_plan_of_a_service_limits_it_and_nothing_else() {
    let upstream = Upstream::echo();
    let plans = "[[plan]]\nname = \"Three\"\nlimits = [{ requests = 3, per = \"1y\" }]\n\
                 [[plan]]\nname = \"Two\"\nlimits = [{ requests = 2, per = \"1y\" }]\n";
    for (plans_of, admitted) in [("[\"Three\"]", 3), ("[\"Three\", \"Two\"]", 2)] {
        let begun = upstream.requests().len();
        let files = files(&upstream, &format!("{QUOTES}plans = {plans_of}\n"));
        files.write("plans.toml", plans);
        let gateway = files.start();
        for number in 0..admitted {
            let response = fetch(&gateway, "GET /services/Quotes", "");
            assert_eq!(response.status_and_code(), "200", "{plans_of}: {number}");
        }
        let refused = fetch(&gateway, "GET /services/Quotes", "");
        assert_eq!(refused.status_and_code(), "429 900800", "{plans_of}");
        let body: Value = serde_json::from_slice(&refused.body).unwrap();
        assert_eq!(body["message"], json!("Message throttled out"));
        assert!(body["nextAccessTime"].is_string(), "{body}");
        assert!(refused.header("retry-after").is_some());
        assert_eq!(upstream.requests().len() - begun, admitted);
        assert_eq!(fetch(&gateway, "GET /services/Others", "").status, 200);
        assert_eq!(fetch(&gateway, "GET /orders/1.0/x", "").status, 200);
    }
}

#[test]
fn security_and_plans_of_a_service_follow_the_configuration() {
    let (upstream, issuer) = (Upstream::echo(), Issuer::new("mine"));
    let files = files(&upstream, "").issuer("mine", &issuer);
    let gateway = files.start();
    let status = || fetch(&gateway, "GET /services/Quotes", "").status_and_code();
    assert_eq!(status(), "200");
    let secured = files.toml(&format!("{QUOTES}security = [\"mine\"]\n"));
    secured.configure();
    wait_until(|| status() == "401 900902");
    assert_eq!(fetch(&gateway, "GET /services/Quotes", &bearer(&issuer.token())).status, 200);
}

#[test]
fn a_section_whose_service_does_not_exist_is_reported_where_it_is() {
    let upstream = Upstream::echo();
    let sections =
        format!("[[service]]\nname = \"Qoutes\"\n{QUOTES}[[service]]\nname = \"orders:v1.0\"\n");
    let files = files(&upstream, &sections);
    let gateway = files.start();
    let toml = std::fs::read_to_string(files.path("penstock.toml")).unwrap();
    let line = 1 + toml.lines().position(|line| line.contains("Qoutes")).unwrap();
    let found = gateway.diagnostics();
    let expect = format!("penstock.toml:{line}:8: error: no artefact defines the service `Qoutes`");
    assert!(found.contains(&expect) && found.contains("did you mean `Quotes`?"), "{found}");
    assert_eq!(found.matches("error:").count(), 1, "{found}");
}

#[test]
fn denied_clients_may_not_call_services_either() {
    let upstream = Upstream::echo();
    for (sections, expect) in
        [("", "200"), ("[[deny]]\naddresses = [\"127.0.0.0/8\"]\n", "403 900805")]
    {
        let files = files(&upstream, "");
        files.write("plans.toml", sections);
        assert_eq!(fetch(&files.start(), "GET /services/Others", "").status_and_code(), expect);
    }
}

#[test]
fn a_secured_service_needs_a_token_behind_an_inbound_endpoint_too() {
    let (upstream, issuer) = (Upstream::echo(), Issuer::new("mine"));
    let artefacts = format!(
        "<proxy name=\"Quotes\"><target><endpoint><address uri=\"{}/\"/></endpoint></target></proxy>\
         <inboundEndpoint name=\"in\" protocol=\"http\"><parameters><parameter name=\"inbound.http.port\">0</parameter>\
         <parameter name=\"dispatch.filter.pattern\">/services/.*</parameter></parameters></inboundEndpoint>",
        upstream.url()
    );
    let gateway = Gateway::mediating(&artefacts)
        .issuer(&issuer)
        .settings(|settings| {
            let rule = model::TokenRule {
                scopes: model::ScopeRule::Anything,
                of: None,
                issuers: vec!["mine".to_owned()],
            };
            let accepts = model::Accepts { token: Some(rule), ..model::Accepts::default() };
            let place = model::Place { line: 1, column: 1 };
            settings.integration.rules.services.push(model::ServiceRules {
                name: "Quotes".to_owned(),
                access: model::ServiceAccess {
                    security: model::Security::Required(accepts),
                    plans: Vec::new(),
                },
                file: "penstock.toml".into(),
                place,
                plan_places: Vec::new(),
            });
        })
        .start();
    let mut client = Client::connect(gateway.inbound(0).unwrap());
    let mut status = |fields: &str| client.fetch("GET /services/Quotes", fields).status_and_code();
    assert_eq!(status(""), "401 900902");
    assert_eq!(status(&bearer(&issuer.token())), "200");
}

#[test]
fn a_secured_service_is_logged_like_an_operation() {
    let (upstream, issuer) =
        (Upstream::responding(|_| CannedResponse::ok("in")), Issuer::new("mine"));
    let files = files(
        &upstream,
        &format!(
            "{QUOTES}security = [\"mine\"]\n[access_log]\nto = \"file\"\nfile = \"access.log\"\n"
        ),
    );
    let files = files.issuer("mine", &issuer);
    let gateway = files.start();
    assert_eq!(fetch(&gateway, "GET /services/Quotes", "").status, 401);
    assert_eq!(fetch(&gateway, "GET /services/Quotes", &bearer(&issuer.token())).status, 200);
    assert!(gateway.drain());
    let lines = std::fs::read_to_string(files.path("access.log")).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let fields = |of: &Value| json!([of["api"], of["status"], of["code"], of["auth_failure"]]);
    assert_eq!(fields(&lines[0]), json!(["Quotes", 401, 900_902, "missing_credential"]));
    assert_eq!(fields(&lines[1]), json!(["Quotes", 200, null, null]));
}
