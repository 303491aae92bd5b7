//! Cross-origin requests to Synapse APIs.

use harness::{Gateway, Response, Upstream};
use model::Cors;

const ORIGIN: &str = "Origin: https://shop.example\r\n";
const PREFLIGHT: &str = "Origin: https://shop.example\r\nAccess-Control-Request-Method: PUT\r\nAccess-Control-Request-Headers: x-mine\r\n";

/// An API with resources of its own, one that sends to `upstream`, and a proxy.
fn gateway(upstream: &Upstream, origins: &[&str]) -> Gateway {
    let artefacts = format!(
        "<api name=\"a\" context=\"/a\"><resource methods=\"GET PUT\" uri-template=\"/item/{{id}}\">\
         <inSequence><respond/></inSequence></resource>\
         <resource methods=\"POST\" uri-template=\"/item/{{id}}\"><inSequence><throwError type=\"X\" errorMessage=\"y\"/>\
         </inSequence></resource>\
         <resource uri-template=\"/any\"><endpoint><address uri=\"{}\"/></endpoint></resource></api>\
         <proxy name=\"p\"><target><inSequence><respond/></inSequence></target></proxy>",
        upstream.url()
    );
    let cors = Cors {
        allow_origins: origins.iter().map(|origin| (*origin).to_owned()).collect(),
        allow_methods: Vec::new(),
        allow_headers: vec!["X-Mine".to_owned()],
        expose_headers: Vec::new(),
        allow_credentials: false,
    };
    let cors = (!origins.is_empty()).then_some(cors);
    let builder = Gateway::mediating(&artefacts);
    let gateway = builder.settings(|settings| settings.integration.rules.cors = cors).start();
    assert_eq!(gateway.diagnostics(), "");
    gateway
}

/// Status and CORS fields.
fn shown(response: &Response) -> String {
    let names = ["origin", "methods", "headers"];
    let fields = names.map(|name| response.all(&format!("Access-Control-Allow-{name}")));
    format!("{} {}", response.status, fields.join(" | "))
}

#[test]
fn a_preflight_is_answered_with_the_methods_of_the_resource() {
    let upstream = Upstream::echo();
    let gateway = gateway(&upstream, &["https://shop.example"]);
    let response = gateway.fetch("OPTIONS /a/item/7", PREFLIGHT);
    assert_eq!(shown(&response), "204 https://shop.example | GET, POST, PUT | X-Mine");
    assert_eq!(response.header("vary"), Some("Origin"));
    let other = PREFLIGHT.replace("PUT", "DELETE");
    assert_eq!(shown(&gateway.fetch("OPTIONS /a/item/7", &other)), "204  |  | ");
    let response = gateway.fetch("OPTIONS /a/any", &other);
    assert!(shown(&response).contains("DELETE"), "a resource without methods takes all");
    let evil = PREFLIGHT.replace("shop", "evil");
    assert_eq!(shown(&gateway.fetch("OPTIONS /a/item/7", &evil)), "204  |  | ");
    assert_eq!(gateway.fetch("OPTIONS /a/nothing", PREFLIGHT).status, 404);
    assert_eq!(
        gateway.fetch("OPTIONS /a/item/7", "").status,
        200,
        "it is no preflight, and gets the methods"
    );
    assert_eq!(upstream.requests().len(), 0);
}

#[test]
fn responses_and_errors_of_apis_get_cors_fields() {
    let upstream = Upstream::responding(|_| {
        harness::CannedResponse::bytes(
            "HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: https://own.example\r\nContent-Length: 0\r\n\r\n",
        )
    });
    let gateway = gateway(&upstream, &["https://shop.example"]);
    for (request, status) in [
        ("GET /a/item/7", 200),
        ("GET /a/any", 200),
        ("POST /a/item/7", 500),
        ("DELETE /a/item/7", 405),
    ] {
        let response = gateway.fetch(request, ORIGIN);
        assert_eq!(shown(&response), format!("{status} https://shop.example |  | "), "{request}");
        assert_eq!(response.header("vary"), Some("Origin"), "{request}");
        let response = gateway.fetch(request, "Origin: https://evil.example\r\n");
        assert_eq!(shown(&response), format!("{status}  |  | "), "{request}");
    }
    assert_eq!(shown(&gateway.fetch("GET /services/p", ORIGIN)), "200  |  | ", "a proxy has none");
}

#[test]
fn any_origin_may_be_allowed_and_without_rules_nothing_is_changed() {
    let upstream = Upstream::echo();
    let any = gateway(&upstream, &["*"]);
    assert_eq!(shown(&any.fetch("GET /a/item/7", ORIGIN)), "200 * |  | ");
    let none = gateway(&upstream, &[]);
    assert_eq!(shown(&none.fetch("GET /a/item/7", ORIGIN)), "200  |  | ");
    assert_eq!(none.fetch("OPTIONS /a/item/7", PREFLIGHT).status, 200);
}
