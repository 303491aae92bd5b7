//! Which API and operation a request meets, and how it is told that there is none.

use harness::{Answer, Gateway, Response, Upstream, api};
use model::Cors;

fn got(answer: &Response) -> String {
    if answer.status == 200 { answer.text() } else { answer.verdict() }
}

#[test]
fn no_api_no_resource_and_no_such_method_are_told_apart() {
    let upstream = Upstream::saying("in");
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
        let answer = gateway.ask(request, "");
        assert_eq!(
            (answer.verdict().as_str(), answer.header("allow")),
            (expect, allow),
            "{request}"
        );
    }
    assert_eq!(
        gateway.ask("GET /elsewhere", "").text(),
        "{\"code\":\"404\",\"type\":\"Status report\",\"message\":\"Not Found\",\
         \"description\":\"The requested resource is not available.\"}"
    );
}

#[test]
fn a_literal_beats_a_template_and_the_rest_comes_last() {
    let all = ["mine", "one", "any"].map(Upstream::saying);
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
        assert_eq!(got(&gateway.ask(&format!("GET /a{path}"), "")), expect, "{path}");
    }
}

#[test]
fn hosts_and_default_versions_choose_the_api() {
    let all = ["one", "two", "three"].map(Upstream::saying);
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
fn an_api_is_refused_on_a_listener_that_it_is_not_offered_on() {
    let upstream = Upstream::saying("in");
    let gateway = Gateway::of(
        api("/tls").open("GET /*").to(&upstream).with(|api| api.transports.http = false),
    )
    .api(api("/clear").open("GET /*").to(&upstream).with(|api| api.transports.https = false))
    .start();
    assert_eq!(gateway.ask("GET /tls/x", "").verdict(), "403 403");
    assert_eq!(gateway.ask("GET /clear/x", "").verdict(), "200");
    let mut secure = gateway.connect_tls();
    assert_eq!(secure.ask("GET /tls/x", "").verdict(), "200");
    assert_eq!(secure.ask("GET /clear/x", "").verdict(), "403 403");
}

#[test]
fn an_api_that_never_loaded_answers_503_below_its_base_path() {
    let upstream = Upstream::saying("in");
    let gateway = Gateway::of(api("/good").open("GET /*").to(&upstream))
        .api(api("/broken/1.0").unloaded())
        .start();
    assert_eq!(gateway.ask("GET /good/x", "").verdict(), "200");
    for path in ["/broken/1.0", "/broken/1.0/", "/broken/1.0/any/thing"] {
        assert_eq!(gateway.ask(&format!("GET {path}"), "").verdict(), "503 700700", "{path}");
    }
    assert_eq!(gateway.ask("GET /broken", "").verdict(), "404 404");
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

/// The `Access-Control-*` and `Vary` fields of an answer, by the last part of their names.
fn cors_fields(answer: &Response) -> String {
    let names =
        ["Allow-Origin", "Allow-Credentials", "Allow-Methods", "Allow-Headers", "Expose-Headers"];
    let field = |name: &str| {
        let value = answer.all(&format!("Access-Control-{name}"));
        (!value.is_empty()).then(|| format!("{name}={value}"))
    };
    let vary = Some(answer.all("Vary")).filter(|value| !value.is_empty());
    let vary = vary.map(|value| format!("Vary={value}"));
    names.into_iter().filter_map(field).chain(vary).collect::<Vec<_>>().join("; ")
}

#[test]
fn a_preflight_is_answered_without_token_or_backend() {
    let upstream = Upstream::saying("in");
    let gateway = Gateway::of(
        api("/a").secured("GET /pets, PUT /pets").to(&upstream).cors(cors(&["https://shop"])),
    )
    .start();
    let ask = |path: &str, origin: &str, method: &str| {
        let fields = format!("Origin: {origin}\r\nAccess-Control-Request-Method: {method}\r\n");
        gateway.ask(&format!("OPTIONS {path}"), &fields)
    };
    let answer = ask("/a/pets", "https://shop", "PUT");
    assert_eq!((answer.status, answer.text().as_str()), (204, ""));
    assert_eq!(
        cors_fields(&answer),
        "Allow-Origin=https://shop; Allow-Credentials=true; Allow-Methods=GET, PUT; \
         Allow-Headers=Authorization, X-Mine; Vary=Origin"
    );
    assert_eq!(cors_fields(&ask("/a/pets", "https://evil", "PUT")), "Vary=Origin");
    assert_eq!(cors_fields(&ask("/a/pets", "https://shop", "DELETE")), "Vary=Origin");
    assert_eq!(ask("/a/dogs", "https://shop", "GET").verdict(), "404 404");
    assert_eq!(upstream.requests(), []);
}

#[test]
fn an_actual_answer_carries_the_gateways_cors_fields_alone() {
    let upstream = Upstream::answering(|_| {
        Answer::bytes(
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
        let answer = gateway.ask(&format!("GET {path}"), &format!("Origin: {origin}\r\n"));
        assert_eq!(cors_fields(&answer), expect, "{path} {origin}");
    }
}

#[test]
fn options_goes_to_the_backend_where_the_api_has_no_cors_rules() {
    let upstream = Upstream::saying("in");
    let gateway = Gateway::of(api("/a").open("OPTIONS /x, GET /x").to(&upstream)).start();
    let fields = "Origin: https://shop\r\nAccess-Control-Request-Method: GET\r\n";
    assert_eq!(gateway.ask("OPTIONS /a/x", fields).text(), "in");
    assert_eq!(upstream.requests()[0].header("origin"), Some("https://shop"));
}
