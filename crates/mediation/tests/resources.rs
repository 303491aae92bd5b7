//! Which resource of which API serves a request.

use crate::host::{diagnostics, program};
use penstock_mediation::{Asked, Matched, PlainHead, Program};

/// Resources whose fault sequence tells which they are.
fn api(attributes: &str, resources: &[&str]) -> String {
    let resources: String = resources
        .iter()
        .map(|resource| format!("<resource {resource}><inSequence><drop/></inSequence></resource>"))
        .collect();
    format!("<api {attributes}>{resources}</api>")
}

/// `API number variables query`, or the outcome of the request.
fn find(program: &Program, method: &str, target: &str) -> String {
    find_with(program, method, target, &[])
}

/// The same of a request with these header fields.
fn find_with(program: &Program, method: &str, target: &str, fields: &[(&str, &str)]) -> String {
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let fields = fields.iter().map(own).collect();
    let head = PlainHead { fields, ..PlainHead::default() };
    let asked = Asked { method, secure: method == "PUT", head: &head, has_body: method != "GET" };
    match program.resource(&asked, target) {
        Matched::Resource(found) => {
            let mut resources = found.api.resources.iter();
            let number = resources.position(|resource| std::ptr::eq(resource, found.resource));
            let list = |list: &[(String, String)]| {
                let pairs = list.iter().map(|(name, value)| format!(" {name}={value}"));
                pairs.collect::<String>()
            };
            let name = &found.api.name;
            let number = number.unwrap();
            format!("{name} {number}{}{}", list(&found.variables), list(&found.query))
        }
        Matched::MethodNotAllowed { allowed, handler, .. } => {
            format!("405 {}{}", allowed.join(","), if handler.is_some() { " handled" } else { "" })
        }
        Matched::NotAdmitted => "400".to_owned(),
        Matched::NoResource { handler, .. } => {
            format!("404{}", if handler.is_some() { " handled" } else { "" })
        }
        Matched::NoApi { .. } => "no API".to_owned(),
    }
}

#[test]
fn templates_mappings_and_the_rest() {
    let program = program(&api(
        "name=\"A\" context=\"/a\"",
        &[
            "methods=\"get\" uri-template=\"/orders/{id}\"",
            "methods=\"POST,PUT\" uri-template=\"/orders\"",
            "methods=\"GET\" uri-template=\"/orders/{id}/items/{item}.{kind}\"",
            "methods=\"GET\" uri-template=\"/files/*\"",
            "methods=\"GET\" url-mapping=\"/map/*\"",
            "methods=\"GET\" url-mapping=\"/map/exact\"",
            "methods=\"GET\" url-mapping=\"*.png\"",
            "methods=\"DELETE\"",
            "methods=\"GET\" uri-template=\"/find?q={q}&amp;n={n}\"",
        ],
    ));
    for (method, target, expect) in [
        ("GET", "/a/orders/17", "A 0 id=17"),
        ("GET", "/a/orders/a%2Fb?x=1&y=b+c%20d", "A 0 id=a%2Fb x=1 y=b c d"),
        ("GET", "/a/orders/17/", "405 DELETE"),
        ("PUT", "/a/orders", "A 1"),
        ("GET", "/a/orders/1/items/x.json", "A 2 id=1 item=x kind=json"),
        ("GET", "/a/files/x/y", "A 3"),
        ("GET", "/a/map/x", "A 4"),
        ("GET", "/a/map/exact", "A 5"),
        ("GET", "/a/x/y.png", "A 6"),
        ("DELETE", "/a/anything", "A 7"),
        ("DELETE", "/a", "A 7"),
        ("GET", "/a/find?q=1&n=2", "A 8 q=1 n=2 q=1 n=2"),
        ("PATCH", "/a/orders", "405 DELETE,POST,PUT"),
        ("GET", "/ab/orders", "no API"),
    ] {
        assert_eq!(find(&program, method, target), expect, "{method} {target}");
    }
}

#[test]
fn versions_are_where_their_type_puts_them_and_the_longest_base_path_wins() {
    let resource = &["methods=\"GET\" uri-template=\"/x\""];
    let program = program(
        &[
            api("name=\"Plain\" context=\"/a\"", resource),
            api("name=\"Url\" context=\"/a\" version=\"1.0\" version-type=\"url\"", resource),
            api(
                "name=\"In\" context=\"/v/{version}/b\" version=\"2\" version-type=\"context\"",
                resource,
            ),
        ]
        .concat(),
    );
    for (target, expect) in [
        ("/a/x", "Plain 0"),
        ("/a/1.0/x", "Url 0"),
        ("/v/2/b/x", "In 0"),
        ("/a/1.0/y", "404"),
        ("/v/3/b/x", "no API"),
    ] {
        assert_eq!(find(&program, "GET", target), expect, "{target}");
    }
    for wrong in ["version=\"1\"", "version-type=\"url\"", "version=\"1\" version-type=\"context\""]
    {
        assert!(
            !diagnostics(&api(&format!("name=\"W\" context=\"/w\" {wrong}"), resource)).is_empty(),
            "{wrong}"
        );
    }
}

#[test]
fn handlers_take_what_no_resource_serves() {
    let handlers = "<sequence name=\"_resource_mismatch_handler_\"><drop/></sequence>\
                    <sequence name=\"_method_not_allowed_handler_\"><drop/></sequence>";
    let resource = &["methods=\"GET\" uri-template=\"/x\""];
    let program = program(&format!("{handlers}{}", api("name=\"A\" context=\"/a\"", resource)));
    assert_eq!(find(&program, "GET", "/a/y"), "404 handled");
    assert_eq!(find(&program, "POST", "/a/x"), "405 GET handled");
}

#[test]
fn a_path_that_cannot_be_matched_is_rejected() {
    for resource in ["uri-template=\"x\"", "uri-template=\"/{a\"", "url-mapping=\"a*\""] {
        let found = diagnostics(&api("name=\"A\" context=\"/a\"", &[resource]));
        assert!(found.iter().any(|text| text.contains("the path `")), "{resource} {found:?}");
    }
}

#[test]
fn resources_are_chosen_by_content_type_user_agent_and_protocol() {
    let program = program(&api(
        "name=\"A\" context=\"/a\"",
        &[
            "methods=\"POST GET\" uri-template=\"/x\" content-type=\"text/csv\"",
            "uri-template=\"/x\" user-agent=\"curl/.*\"",
            "uri-template=\"/x\" protocol=\"https\"",
            "uri-template=\"/y\" protocol=\"http\"",
        ],
    ));
    for (request, fields, expect) in [
        ("POST /a/x", [("Content-Type", "Text/CSV"), ("User-Agent", "x")], "A 0"),
        ("GET /a/x", [("Content-Type", "text/xml"), ("User-Agent", "x")], "A 0"),
        ("POST /a/x", [("Content-Type", "text/xml"), ("User-Agent", "curl/8")], "A 1"),
        ("POST /a/x", [("Content-Type", "text/xml"), ("User-Agent", "a curl/8")], "400"),
        ("PUT /a/x", [("Content-Type", "text/xml"), ("User-Agent", "x")], "A 2"),
        ("PUT /a/y", [("Content-Type", "text/xml"), ("User-Agent", "x")], "400"),
        ("POST /a/y", [("Content-Type", "text/xml"), ("User-Agent", "x")], "A 3"),
    ] {
        let (method, target) = request.split_once(' ').unwrap();
        assert_eq!(find_with(&program, method, target, &fields), expect, "{request} {fields:?}");
    }
}

#[test]
fn an_api_with_a_host_serves_no_other() {
    let resource = &["uri-template=\"/x\""];
    let program = program(&api(
        "name=\"A\" context=\"/a\" hostname=\"shop.example\" port=\"8290\"",
        resource,
    ));
    for (host, expect) in [
        ("shop.example:8290", "A 0"),
        ("Shop.Example:8290", "A 0"),
        ("shop.example", "no API"),
        ("other.example:8290", "no API"),
        ("[::1]:8290", "no API"),
        ("[::1]", "no API"),
    ] {
        assert_eq!(find_with(&program, "GET", "/a/x", &[("Host", host)]), expect, "{host}");
    }
}

#[test]
fn what_an_api_does_not_admit_goes_to_the_next_longest_context() {
    let resource = &["uri-template=\"/*\""];
    let apis = [
        api("name=\"Inner\" context=\"/a/b\" hostname=\"shop.example\"", resource),
        api("name=\"Outer\" context=\"/a\"", resource),
    ];
    let program = program(&apis.concat());
    for (host, expect) in [("shop.example", "Inner 0"), ("other.example", "Outer 0")] {
        assert_eq!(find_with(&program, "GET", "/a/b/x", &[("Host", host)]), expect, "{host}");
    }
}

#[test]
fn a_service_has_transports_that_are_served() {
    for (transports, expect) in [
        ("http,https", ""),
        ("http local", "warning: the transport `local` has no effect"),
        ("local", "error: `transports` has neither `http` nor `https`"),
        ("jms", "error: the transport `jms` is not supported"),
        ("jms http vfs", "warning: the transport `jms` is not supported"),
    ] {
        let attributes = format!("name=\"A\" context=\"/a\" transports=\"{transports}\"");
        let found = diagnostics(&api(&attributes, &["uri-template=\"/x\""])).join("\n");
        assert!(found.contains(expect) && found.is_empty() == expect.is_empty(), "{found}");
    }
}
