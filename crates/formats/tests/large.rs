//! A generated description with the size and shape of the largest public ones (13 MB of JSON, about 1,200 operations,
//! deep schemas): the served API must agree with the results of a strict JSON parser.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::LazyLock;

use model::{Accepts, ScopeRule, Security};
use penstock_formats::openapi::{Defaults, Outcome, read};

const RESOURCES: usize = 203;
/// Each resource has a collection, an item and two nested paths, with six operations in total; every 50th has a
/// seventh.
const PATHS: usize = 4 * RESOURCES;
const OPERATIONS: usize = 6 * RESOURCES + RESOURCES.div_ceil(50);
const SCHEMAS: usize = 700;

static TEXT: LazyLock<String> = LazyLock::new(document);
static LOADED: LazyLock<Outcome> = LazyLock::new(|| load(&Defaults::default()));

fn load(defaults: &Defaults) -> Outcome {
    let no_refs = |name: &str| Err(format!("{name} is not read: only schemas refer to it"));
    read("large.json".as_ref(), TEXT.as_bytes(), &no_refs, defaults)
}

#[test]
fn every_operation_of_the_document_is_served_and_secured() {
    assert!((12_000_000..14_000_000).contains(&TEXT.len()), "{} bytes", TEXT.len());
    assert_eq!(LOADED.diagnostics, []);
    let api = LOADED.api.as_ref().unwrap();
    let served: BTreeMap<(String, String), _> = api
        .operations
        .iter()
        .map(|op| ((op.template.clone(), op.method.as_str().to_lowercase()), op))
        .collect();

    let document: serde_json::Value = serde_json::from_str(&TEXT).unwrap();
    let paths = document["paths"].as_object().unwrap();
    assert_eq!(paths.len(), PATHS + 1);
    let mut declared = 0;
    for (path, item) in paths {
        let template = if path == "/" { "" } else { path };
        for method in item.as_object().unwrap().keys().filter(|key| *key != "parameters") {
            declared += 1;
            let operation = served[&(template.to_owned(), method.clone())];
            let token = Security::Required(Accepts::token(ScopeRule::Anything));
            assert_eq!(operation.security, token, "{method} {path}");
        }
    }
    assert_eq!(declared, OPERATIONS + 1);
    assert_eq!(api.operations.len(), declared);
}

#[test]
fn the_server_of_an_operation_overrides_that_of_the_document() {
    let api = LOADED.api.as_ref().unwrap();
    let host = |index: usize| api.upstreams[index].endpoints[0].authority.clone();
    assert_eq!(host(api.production.unwrap()), "api.example.org");
    let elsewhere: Vec<_> = api.operations.iter().filter(|op| op.production.is_some()).collect();
    assert_eq!(elsewhere.len(), 1);
    assert_eq!(elsewhere[0].template, "/kind7/{owner}/{name}/files");
    assert_eq!(host(elsewhere[0].production.unwrap()), "uploads.example.org");
}

#[test]
fn without_an_issuer_the_document_is_rejected_and_keeps_its_base_path() {
    let outcome = load(&Defaults { issuers_configured: false, ..Defaults::default() });
    assert_eq!(outcome.api, None);
    assert_eq!(outcome.diagnostics.len(), 1);
    assert!(outcome.diagnostics[0].message.contains("no issuer"), "{}", outcome.diagnostics[0]);
    assert_eq!(outcome.base_path.as_deref(), Some("/example-s-official-api-v3-preview/23.0.2"));
}

fn document() -> String {
    let mut out = String::with_capacity(14_000_000);
    out.push_str(
        r#"{"openapi": "3.0.3", "info": {"title": "Example's official API (v3), preview", "version": "23.0.2",
 "description": "All of it.\n\u00c9t\u00e9 \ud83d\ude00, raw: été 😀, a \"quote\", a \\ and a \/.", "x-example": {"info": []}},
"tags": [{"name": "kinds"}], "servers": [{"url": "https://api.example.org"}],
"externalDocs": {"description": "v3", "url": "https://docs.example.org/"},
"x-webhooks": {"created": {"post": {"responses": {"200": {"description": "ok"}}}}},
"paths": {"/": {"get": {"responses": {"200": {"description": "root"}}}}"#,
    );
    for kind in 0..RESOURCES {
        paths(kind, &mut out);
    }
    out.push_str("},\n\"components\": {\"schemas\": {");
    for number in 0..SCHEMAS {
        let comma = if number == 0 { "" } else { "," };
        write!(out, "{comma}\n\"schema-{number}\": ").unwrap();
        schema(number, 6, &mut out);
    }
    out.push_str("},\n\"parameters\": {\"page\": {\"name\": \"page\", \"in\": \"query\", \"schema\": {\"type\": \"integer\", \"default\": 1}}}}}\n");
    out
}

/// The paths of one kind of resource.
fn paths(kind: usize, out: &mut String) {
    let templates = [
        format!("/kind{kind}"),
        format!("/kind{kind}/{{owner}}/{{name}}"),
        format!("/kind{kind}/{{owner}}/{{name}}/compare/{{base}}...{{head}}"),
        format!("/kind{kind}/{{owner}}/{{name}}/files"),
    ];
    let methods: [&[&str]; 4] = [&["get", "post"], &["get", "delete"], &["get"], &["post"]];
    for (template, methods) in templates.iter().zip(methods) {
        write!(
            out,
            ",\n\"{template}\": {{\"parameters\": [{{\"$ref\": \"#/components/parameters/page\"}}]"
        )
        .unwrap();
        for method in methods {
            operation(kind, template, method, out);
        }
        if kind.is_multiple_of(50) && template.ends_with("{name}") {
            operation(kind, template, "patch", out);
        }
        out.push('}');
    }
}

fn operation(kind: usize, template: &str, method: &str, out: &mut String) {
    let schema = (kind * 7 + template.len()) % SCHEMAS;
    write!(
        out,
        ", \"{method}\": {{\"summary\": \"{method} a kind\", \"operationId\": \"kinds/{method}-{kind}-{}\", \"tags\": [\"kinds\"],
\"x-example\": {{\"enabledForApps\": true, \"previews\": [], \"category\": \"kinds\", \"limits\": [1, -2.5e+3, 0.1]}}",
        template.len()
    )
    .unwrap();
    if kind == 7 && template.ends_with("/files") {
        out.push_str(", \"servers\": [{\"url\": \"https://uploads.example.org\"}]");
    }
    write!(
        out,
        ",\n\"responses\": {{\"200\": {{\"description\": \"Response\", \"content\": {{\"application/json\": {{
\"schema\": {{\"type\": \"array\", \"items\": {{\"$ref\": \"#/components/schemas/schema-{schema}\"}}}},
\"examples\": {{\"default\": {{\"value\": "
    )
    .unwrap();
    example(kind, 5, out);
    out.push_str("}}}}}, \"304\": {\"description\": \"Not modified\"}}}");
}

/// A nested schema with more than sixteen properties at its first level.
fn schema(number: usize, depth: usize, out: &mut String) {
    if depth == 0 {
        let other = (number + 1) % SCHEMAS;
        write!(out, "{{\"$ref\": \"#/components/schemas/schema-{other}\"}}").unwrap();
        return;
    }
    out.push_str("{\"type\": \"object\", \"nullable\": true, \"properties\": {");
    let plain = if depth == 6 { 20 } else { 6 };
    for property in 0..plain {
        write!(
            out,
            "\"property_{property}\": {{\"description\": \"Property {property}, \\u201cquoted\\u201d.\", \"type\": \"string\",
 \"enum\": [\"+1\", \"-1\", \"a.b\", \"\", null], \"example\": \"https://api.example.org/{number}{{/id}}\"}}, "
        )
        .unwrap();
    }
    out.push_str("\"get\": ");
    schema(number, depth - 1, out);
    out.push_str(", \"security\": {\"oneOf\": [");
    schema(number + 3, 0, out);
    out.push_str(", {\"type\": \"integer\", \"format\": \"int64\"}]}}, \"required\": [\"get\"]}");
}

fn example(seed: usize, depth: usize, out: &mut String) {
    if depth == 0 {
        write!(out, "[{seed}, {seed}.5, true, false, null, \"\\t\\u0041\"]").unwrap();
        return;
    }
    write!(out, "{{\"id\": {seed}, \"url\": \"https://api.example.org/items/{seed}\", \"x-wso2-basePath\": \"/not/an/extension\", \"left\": ").unwrap();
    example(seed * 31 % 1_009, depth - 1, out);
    out.push_str(", \"right\": ");
    example(seed * 17 % 2_003, depth - 1, out);
    out.push('}');
}
