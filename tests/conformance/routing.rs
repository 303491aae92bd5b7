//! How a request is matched to an API and an operation, and the denial if there is none.

use harness::{CannedResponse, Gateway, Response, Upstream, api};
use model::Cors;

fn got(response: &Response) -> String {
    if response.status == 200 { response.text() } else { response.status_and_code() }
}

#[test]
fn unknown_api_resource_and_method_are_distinguished() {
    let upstream = Upstream::fixed("in");
    let gateway = Gateway::of(
        api("/shop/1.0").open("GET /pets, PUT /pets, DELETE /pets/{id}, GET /").to(&upstream),
    )
    .start();
    for (request, expect, allow) in [
        ("GET /shop/1.0/pets", "200", None),
        ("GET /shop/1.0/", "200", None),
        ("GET /elsewhere", "404 404", None),
        ("GET /shop/1.0.0/pets", "404 404", None),
        ("GET /shop/1.0/dogs", "404 404", None),
        ("GET /shop/1.0/Pets", "404 404", None),
        ("POST /shop/1.0/pets", "405 405", Some("GET, PUT")),
        ("GET /shop/1.0/pets/7", "405 405", Some("DELETE")),
        ("BREW /shop/1.0/pets", "405 405", Some("GET, PUT")),
    ] {
        let response = gateway.fetch(request, "");
        assert_eq!(
            (response.status_and_code().as_str(), response.header("allow")),
            (expect, allow),
            "{request}"
        );
    }
    assert_eq!(
        gateway.fetch("GET /elsewhere", "").text(),
        "{\"code\":\"404\",\"type\":\"Status report\",\"message\":\"Not Found\",\
         \"description\":\"The requested resource is not available.\"}"
    );
}

#[test]
fn a_literal_beats_a_template_and_the_rest_comes_last() {
    let all = ["mine", "one", "any"].map(Upstream::fixed);
    let api = api("/a").to(&all[2]).open("GET /*, GET /pets/{id}, GET /pets/mine").with(|api| {
        for (operation, upstream) in [(1, &all[1]), (2, &all[0])] {
            let mut set = api.upstreams[0].clone();
            set.endpoints = vec![upstream.endpoint()];
            api.upstreams.push(set);
            api.operations[operation].production = Some(api.upstreams.len() - 1);
        }
    });
    let gateway = Gateway::of(api).start();
    for (path, expect) in [
        ("/pets/mine", "mine"),
        ("/pets/7", "one"),
        ("/pets/7/x", "any"),
        ("/", "any"),
        ("", "any"),
    ] {
        assert_eq!(got(&gateway.fetch(&format!("GET /a{path}"), "")), expect, "{path}");
    }
}

#[test]
fn hosts_and_default_versions_choose_the_api() {
    let all = ["one", "two", "three"].map(Upstream::fixed);
    let gateway = Gateway::of(api("/a/1").open("GET /*").to(&all[0]))
        .api(api("/a/1").open("GET /*").to(&all[1]).with(|api| {
            api.hosts = vec!["shop.example".to_owned(), "*.shop.example".to_owned()];
        }))
        .api(api("/a/2").open("GET /*").to(&all[2]).with(|api| {
            api.default_path = Some("/a".to_owned());
        }))
        .start();
    for (host, path, expect) in [
        ("me", "/a/1/x", "one"),
        ("shop.example", "/a/1/x", "two"),
        ("SHOP.example:8280", "/a/1/x", "two"),
        ("eu.shop.example", "/a/1/x", "two"),
        ("notshop.example", "/a/1/x", "one"),
        ("me", "/a/2/x", "three"),
        ("me", "/a/x", "three"),
        ("me", "/a/3/x", "three"),
    ] {
        let mut client = gateway.connect();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!(got(&client.read()), expect, "{host} {path}");
    }
}

#[test]
fn an_api_is_not_served_on_a_transport_that_it_does_not_list() {
    let upstream = Upstream::fixed("in");
    let gateway = Gateway::of(
        api("/tls").open("GET /*").to(&upstream).with(|api| api.transports.http = false),
    )
    .api(api("/clear").open("GET /*").to(&upstream).with(|api| api.transports.https = false))
    .start();
    assert_eq!(gateway.fetch("GET /tls/x", "").status_and_code(), "403 403");
    assert_eq!(gateway.fetch("GET /clear/x", "").status_and_code(), "200");
    let mut secure = gateway.connect_tls();
    assert_eq!(secure.fetch("GET /tls/x", "").status_and_code(), "200");
    assert_eq!(secure.fetch("GET /clear/x", "").status_and_code(), "403 403");
}

#[test]
fn an_api_that_never_loaded_returns_503_below_its_base_path() {
    let upstream = Upstream::fixed("in");
    let gateway = Gateway::of(api("/good").open("GET /*").to(&upstream))
        .api(api("/broken/1.0").unloaded())
        .start();
    assert_eq!(gateway.fetch("GET /good/x", "").status_and_code(), "200");
    for path in ["/broken/1.0", "/broken/1.0/", "/broken/1.0/any/thing"] {
        assert_eq!(
            gateway.fetch(&format!("GET {path}"), "").status_and_code(),
            "503 700700",
            "{path}"
        );
    }
    assert_eq!(gateway.fetch("GET /broken", "").status_and_code(), "404 404");
}

fn cors(origins: &[&str]) -> Cors {
    let list = |all: &[&str]| all.iter().map(|&one| one.to_owned()).collect();
    Cors {
        allow_origins: list(origins),
        allow_methods: Vec::new(),
        allow_headers: list(&["Authorization", "X-Mine"]),
        expose_headers: list(&["X-Shown"]),
        allow_credentials: true,
    }
}

/// The `Access-Control-*` and `Vary` fields of a response, by the last part of their names.
fn cors_fields(response: &Response) -> String {
    let names =
        ["Allow-Origin", "Allow-Credentials", "Allow-Methods", "Allow-Headers", "Expose-Headers"];
    let field = |name: &str| {
        let value = response.all(&format!("Access-Control-{name}"));
        (!value.is_empty()).then(|| format!("{name}={value}"))
    };
    let vary = Some(response.all("Vary")).filter(|value| !value.is_empty());
    let vary = vary.map(|value| format!("Vary={value}"));
    names.into_iter().filter_map(field).chain(vary).collect::<Vec<_>>().join("; ")
}

#[test]
fn a_preflight_needs_no_token_and_no_upstream() {
    let upstream = Upstream::fixed("in");
    let gateway = Gateway::of(
        api("/a").secured("GET /pets, PUT /pets").to(&upstream).cors(cors(&["https://shop"])),
    )
    .start();
    let preflight = |path: &str, origin: &str, method: &str| {
        let fields = format!("Origin: {origin}\r\nAccess-Control-Request-Method: {method}\r\n");
        gateway.fetch(&format!("OPTIONS {path}"), &fields)
    };
    let response = preflight("/a/pets", "https://shop", "PUT");
    assert_eq!((response.status, response.text().as_str()), (204, ""));
    assert_eq!(
        cors_fields(&response),
        "Allow-Origin=https://shop; Allow-Credentials=true; Allow-Methods=GET, PUT; \
         Allow-Headers=Authorization, X-Mine; Vary=Origin"
    );
    assert_eq!(cors_fields(&preflight("/a/pets", "https://evil", "PUT")), "Vary=Origin");
    assert_eq!(cors_fields(&preflight("/a/pets", "https://shop", "DELETE")), "Vary=Origin");
    assert_eq!(preflight("/a/dogs", "https://shop", "GET").status_and_code(), "404 404");
    assert_eq!(upstream.requests(), []);
}

#[test]
fn a_response_carries_only_the_gateways_cors_fields() {
    let upstream = Upstream::responding(|_| {
        CannedResponse::bytes(
            "HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: *\r\nContent-Length: 2\r\n\r\nok",
        )
    });
    let rules = cors(&["https://shop"]);
    let gateway =
        Gateway::of(api("/a").open("GET /open").secured("GET /secured").to(&upstream).cors(rules))
            .api(api("/plain").open("* /*").to(&upstream))
            .start();
    let shown =
        "Allow-Origin=https://shop; Allow-Credentials=true; Expose-Headers=X-Shown; Vary=Origin";
    for (path, origin, expect) in [
        ("/a/open", "https://shop", shown),
        ("/a/open", "https://evil", "Vary=Origin"),
        ("/a/secured", "https://shop", shown),
        ("/a/nowhere", "https://shop", shown),
        ("/plain/x", "https://evil", "Allow-Origin=*"),
    ] {
        let response = gateway.fetch(&format!("GET {path}"), &format!("Origin: {origin}\r\n"));
        assert_eq!(cors_fields(&response), expect, "{path} {origin}");
    }
}

#[test]
fn options_is_forwarded_where_the_api_has_no_cors_rules() {
    let upstream = Upstream::fixed("in");
    let gateway = Gateway::of(api("/a").open("OPTIONS /x, GET /x").to(&upstream)).start();
    let fields = "Origin: https://shop\r\nAccess-Control-Request-Method: GET\r\n";
    assert_eq!(gateway.fetch("OPTIONS /a/x", fields).text(), "in");
    assert_eq!(upstream.requests()[0].header("origin"), Some("https://shop"));
}
