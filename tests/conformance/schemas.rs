//! `schemaValidation`: requests and responses against the description of their operation.

use harness::{CannedResponse, Files, Gateway, Response, Upstream};

const DESCRIPTION: &str = r#"
info: {title: A, version: '1'}
x-wso2-basePath: /a
security: []
x-wso2-production-endpoints: {urls: ['UPSTREAM']}
x-penstock-policies: {request: [{name: schemaValidation}], response: [{name: schemaValidation}]}
paths:
  /pets/{id}:
    parameters:
      - {name: id, in: path, required: true, schema: {type: integer, minimum: 1}}
    get:
      parameters:
        - {name: limit, in: query, schema: {type: integer, maximum: 100}}
        - {name: status, in: query, schema: {type: array, items: {$ref: '#/components/schemas/Status'}}}
        - {name: ids, in: query, explode: false, schema: {type: array, items: {type: integer}}}
        - {name: old, in: query, schema: {type: boolean}}
        - {name: most, in: query, schema: {anyOf: [{type: integer}, {type: 'null'}]}}
        - {name: page, in: query, schema: {allOf: [{$ref: '#/components/schemas/Page'}]}}
        - {name: level, in: query, schema: {enum: [1, high, true]}}
        - {name: mixed, in: query, schema: {oneOf: [{type: integer, maximum: 3}, {type: string, minLength: 2}]}}
        - {name: filter, in: query, required: true, style: deepObject, schema: {type: object}}
        - {name: point, in: query, required: true, schema: {type: object, properties: {x: {type: integer}}}}
        - {name: X-Ids, in: header, schema: {type: array, items: {type: integer}}}
        - {$ref: '#/components/parameters/Tenant'}
      responses:
        '200': {content: {application/json: {schema: {$ref: '#/components/schemas/Pet'}}}}
        default: {content: {application/json: {schema: {$ref: '#/components/schemas/Problem'}}}}
        5XX: {content: {application/json: {schema: {type: object, required: [code]}}}}
    post:
      requestBody:
        required: true
        content:
          application/json: {schema: {$ref: '#/components/schemas/Pet'}}
          text/plain: {}
      responses: {'200': {description: unchecked}}
    put:
      requestBody: {content: {application/json: {schema: {type: object, properties: {age: {type: integer}}}}}}
      responses: {}
    patch:
      requestBody: {content: {text/plain: {}}}
      responses: {}
    delete:
      requestBody:
        content:
          application/json: {schema: {type: object, properties: {default: {$ref: '#/components/schemas/Hidden'}}}}
      responses: {}
components:
  parameters:
    Tenant: {name: X-Tenant, in: header, required: true, schema: {type: string, pattern: '^[a-z]+$'}}
  schemas:
    Problem: {type: object, required: [reason]}
    Page: {type: integer, maximum: 9}
    Hidden: {type: string, nullable: true}
    Status: {type: string, enum: [sold, free]}
    Pet:
      type: object
      required: [id, name]
      additionalProperties: false
      properties:
        id: {type: integer, readOnly: true}
        name: {type: string, maxLength: 5}
        age: AGE
        tag: TAG
        parent: {$ref: '#/components/schemas/Pet'}
"#;

/// The keywords that differ between the versions.
fn description(version: &str, upstream: &Upstream) -> String {
    let (age, tag) = if version.starts_with("3.0") {
        ("{type: number, minimum: 0, exclusiveMinimum: true}", "{type: string, nullable: true}")
    } else {
        ("{type: number, exclusiveMinimum: 0}", "{type: [string, 'null']}")
    };
    let text = DESCRIPTION.replace("UPSTREAM", &upstream.url()).replace("AGE", age);
    format!("openapi: {version}{}", text.replace("TAG", tag))
}

fn gateway(version: &str, upstream: &Upstream) -> Gateway {
    Files::new().api("a.yaml", &description(version, upstream)).start()
}

fn send(gateway: &Gateway, method: &str, kind: &str, body: &str) -> Response {
    let fields = format!("Content-Type: {kind}\r\n");
    gateway.connect().fetch_with_body(&format!("{method} /a/pets/7"), &fields, body)
}

/// The reason for a refused request.
#[track_caller]
fn check_refused(response: &Response, what: &str, case: &str) {
    let text = response.text();
    assert_eq!(response.status_and_code(), "400 400", "{case}: {text}");
    let start = "{\"code\":\"400\",\"message\":\"Bad Request\",\"description\":\
                 \"Schema validation failed in the Request: ";
    assert!(text.starts_with(start) && text.contains(what), "{case}: {text}");
}

#[test]
fn a_body_must_match_its_schema_in_both_versions() {
    for version in ["3.0.3", "3.1.0"] {
        let upstream = Upstream::fixed("in");
        let gateway = gateway(version, &upstream);
        for body in [
            r#"{"name":"a"}"#,
            r#"{"id":1,"name":"abcde","age":0.5,"tag":null}"#,
            r#"{"name":"a","tag":"b","parent":{"name":"c"}}"#,
        ] {
            let response = send(&gateway, "POST", "application/json; charset=utf-8", body);
            assert_eq!(response.status, 200, "{version} {body}: {}", response.text());
        }
        let passed = upstream.requests().len();
        for body in [
            "{}",
            r#"{"name":null}"#,
            r#"{"name":"abcdef"}"#,
            r#"{"name":"a","age":0}"#,
            r#"{"name":"a","tag":1}"#,
            r#"{"name":"a","more":1}"#,
            r#"{"name":"a","parent":{}}"#,
            r#"{"name":"a","parent":{"name":"c","parent":{"name":1}}}"#,
            r#"{"name":1,"name":"a"}"#,
            "[]",
            "{",
        ] {
            let response = send(&gateway, "POST", "application/json", body);
            check_refused(&response, "the body", body);
        }
        assert_eq!(upstream.requests().len(), passed, "{version}");
    }
}

#[test]
fn a_violation_is_named() {
    let upstream = Upstream::fixed("in");
    let gateway = gateway("3.0.3", &upstream);
    let response = send(&gateway, "PUT", "application/json", r#"{"age":"\"old\""}"#);
    check_refused(&response, "/age", "quotes are escaped");
    let text: serde_json::Value = serde_json::from_str(&response.text()).unwrap();
    assert!(text["description"].as_str().unwrap().contains("integer"), "{text}");
}

#[test]
fn a_body_has_a_media_type_of_the_description() {
    let upstream = Upstream::fixed("in");
    let gateway = gateway("3.0.3", &upstream);
    assert_eq!(send(&gateway, "POST", "text/plain", "anything").status, 200);
    let response = send(&gateway, "POST", "application/xml", "<a/>");
    check_refused(&response, "not one of application/json, text/plain", "xml");
    let response =
        gateway.fetch("POST /a/pets/7", "Content-Type: text/plain\r\nContent-Length: 0\r\n");
    check_refused(&response, "a request body is required", "empty");
    let twice = "text/plain\r\nContent-Type: application/json";
    check_refused(&send(&gateway, "PATCH", twice, "x"), "Content-Type", "two content types");
    let encoded = "application/json\r\nContent-Encoding: gzip";
    assert_eq!(send(&gateway, "POST", encoded, "{}").status_and_code(), "400 400");
    assert_eq!(send(&gateway, "PUT", "application/json", "").status, 200);
}

#[test]
fn parameters_must_match_their_schemas() {
    let body = r#"{"id":1,"name":"a"}"#;
    let upstream = json_upstream("200 OK", body);
    let gateway = gateway("3.0.3", &upstream);
    let tenant = "X-Tenant: blue\r\n";
    for target in [
        "7",
        "7?limit=100&other=x",
        "7?status=sold&status=free",
        "7?ids=1,2,3",
        "7?old=true",
        "7?most=5&page=9",
        "7?level=1",
        "7?level=high",
        "7?level=true",
        "7?mixed=3",
        "7?mixed=55",
    ] {
        let response = gateway.fetch(&format!("GET /a/pets/{target}"), tenant);
        assert_eq!(response.status, 200, "{target}: {}", response.text());
    }
    let passed = upstream.requests().len();
    for (target, fields, what) in [
        ("x", tenant, "the path parameter `id`"),
        ("0", tenant, "the path parameter `id`"),
        ("7?limit=101", tenant, "the query parameter `limit`"),
        ("7?limit=many", tenant, "the query parameter `limit`"),
        ("7?l%69mit=101", tenant, "the query parameter `limit`"),
        ("7?limit=1&limit=101", tenant, "`limit` occurs more than once"),
        ("7?status=sold&status=lost", tenant, "the query parameter `status`"),
        ("7?ids=1,x", tenant, "the query parameter `ids`"),
        ("7?old=maybe", tenant, "the query parameter `old`"),
        ("7", "", "the header parameter `X-Tenant` is missing"),
        ("7?most=many", tenant, "the query parameter `most`"),
        ("7?page=10", tenant, "the query parameter `page`"),
        ("7?level=2", tenant, "the query parameter `level`"),
        ("7?mixed=4", tenant, "the query parameter `mixed`"),
        ("7", "X-Tenant: Blue\r\n", "the header parameter `X-Tenant`"),
        ("7", "X-Tenant: blue\r\nX-Tenant: Blue\r\n", "`X-Tenant` occurs more than once"),
        ("7", "X-Tenant: blue\r\nX-Ids: 1\r\nX-Ids: x\r\n", "the header parameter `X-Ids`"),
    ] {
        let response = gateway.fetch(&format!("GET /a/pets/{target}"), fields);
        check_refused(&response, what, target);
    }
    assert_eq!(upstream.requests().len(), passed);
}

#[test]
fn what_the_validator_cannot_read_does_not_match() {
    let upstream = Upstream::fixed("in");
    let gateway = gateway("3.0.3", &upstream);
    let deep = format!("{{\"parent\":{}1{}}}", "[".repeat(200), "]".repeat(200));
    for body in [&deep, "{\"name\":1e999}", "{\"name\":\"\\ud800\"}"] {
        let response = send(&gateway, "PUT", "application/json", body);
        check_refused(&response, "", body);
    }
}

#[test]
fn a_property_may_have_the_name_of_a_keyword() {
    let upstream = Upstream::fixed("in");
    let gateway = gateway("3.0.3", &upstream);
    let send = |body: &str| send(&gateway, "DELETE", "application/json", body);
    assert_eq!(send("{\"default\":null}").status, 200, "the converted schema allows it");
    check_refused(&send("{\"default\":1}"), "the body", "of another type");
}

fn json_upstream(status: &str, body: &str) -> Upstream {
    let response = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    Upstream::responding(move |_| CannedResponse::bytes(response.clone()))
}

#[test]
fn a_response_must_match_its_schema() {
    for (status, body, expect) in [
        ("200 OK", r#"{"id":1,"name":"a"}"#, "200"),
        ("200 OK", r#"{"name":"secret"}"#, "500 500"),
        ("200 OK", "{", "500 500"),
        ("404 Not Found", "{}", "500 500"),
        ("404 Not Found", r#"{"reason":1}"#, "404"),
        ("200 OK", r#"{"id":1e999,"name":"a"}"#, "500 500"),
        ("502 Bad Gateway", r#"{"code":1}"#, "502"),
        ("502 Bad Gateway", "{}", "500 500"),
    ] {
        let upstream = json_upstream(status, body);
        let gateway = gateway("3.0.3", &upstream);
        let response = gateway.fetch("GET /a/pets/7", "X-Tenant: blue\r\n");
        let text = response.text();
        if expect == "500 500" {
            let expect = "{\"code\":\"500\",\"message\":\"Internal Server Error\",\
                          \"description\":\"Schema validation failed in the Response:\"}";
            assert_eq!((response.status, text.as_str()), (500, expect), "{body}");
        } else {
            assert_eq!((response.status.to_string().as_str(), text.as_str()), (expect, body));
        }
    }
}
