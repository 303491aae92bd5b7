//! Descriptions, and the operations or diagnostics that result.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use model::{Accepts, Api, KeyPlace, ScopeRule, Security, UpstreamKind};

use super::*;
use crate::report::assert_lines;

mod credentials;
mod project;

/// A complete API on eight lines.
const HEAD: &str = "openapi: 3.0.3
info: {title: Pets, version: 1.0.0}
x-wso2-basePath: /pets/1.0.0
x-wso2-production-endpoints: {urls: ['http://b:1']}
components:
  securitySchemes: {o: {type: oauth2}, b: {type: http, scheme: bearer}, k: {type: apiKey, in: header, name: X-Key}, m: {type: mutualTLS}, l: {type: http, scheme: basic}}
paths:
  /*: {get: {}}
";

/// Checks the security of an operation. `api` has more lines for the API, `operation` the members of its only
/// operation.
#[track_caller]
fn security(api: &str, operation: &str, expect: &str) {
    let text = HEAD.replace("{get: {}}", &format!("{{get: {{{operation}}}}}"));
    check(&format!("{text}{api}\n"), &[], expect);
}

#[test]
fn each_method_of_a_path_item_is_an_operation() {
    let methods = "get put post delete options head patch trace".split(' ');
    let item: Vec<String> = methods.map(|method| format!("{method}: {{}}")).collect();
    let rest = "summary: s, description: d, parameters: [], x-mine: 1";
    paths(
        &format!("/a: {{{}, {rest}}}", item.join(", ")),
        "GET /a; PUT /a; POST /a; DELETE /a; OPTIONS /a; HEAD /a; PATCH /a; TRACE /a",
    );
    paths("/a: {GET: {}, get: {}}", "9:8: error: `GET`");
    paths("/a: {gett: {}, get: {}}", "9:8: warning: `gett`; GET /a");
    paths("/a: {get: 1}", "9:13: error: `get`");
}

#[test]
fn invalid_paths_are_reported_at_their_position() {
    paths("/: {get: {}}", "GET ");
    paths("/a/{id}: {get: {}}", "GET /a/{id}");
    paths("/a/{x}.json/{y}...{z}: {get: {}}", "GET /a/{x}.json/{y}...{z}");
    paths("/a/: {get: {}}\n  /a: {get: {}}", "GET /a/; GET /a");
    paths("/a b/é: {get: {}}", "GET /a b/é");
    paths("a: {get: {}}", "9:3: error: `a`");
    paths("/a//b: {get: {}}", "9:3: error: `/a//b`");
    paths("/a/{id: {get: {}}", "9:3: error: `{id`");
    paths("/a/id}: {get: {}}", "9:3: error: `id}`");
    paths("/a/{}: {get: {}}", "9:3: error: `{}`");
    paths("/a/{b{c}}: {get: {}}", "9:3: error: `{b{c}}`");
    paths("/*/b: {get: {}}", "9:3: error: wildcard");
    paths("/a*: {get: {}}", "9:3: error: `a*`");
    paths("/a/../b: {get: {}}", "9:3: error: `..`");
    paths("/a?b=c: {get: {}}", "9:3: error: `a?b=c`");
    paths("/%zz: {get: {}}", "9:3: error: `%zz`");
}

#[test]
fn a_method_on_two_spellings_of_one_path_names_both_positions() {
    paths(
        "/a/{x}: {get: {}}\n  /a/{y}: {get: {}, put: {}}",
        "10:3: warning: line 9; 10:12: error: api.yaml:9:12",
    );
    paths(
        "/%7Ea: {get: {}}\n  /~a: {get: {}}",
        "10:3: warning: `/%7Ea`; 10:9: error: api.yaml:9:11",
    );
    paths(
        "/a%40b: {get: {}}\n  /a@b: {get: {}}\n  /%C3%a9: {get: {}}\n  /é: {put: {}}",
        "10:3: warning: `/a@b`; 10:10: error: api.yaml:9:12; 12:3: warning: `/é`",
    );
    // Escaped braces are not syntax.
    paths(
        "/a/%2A: {get: {}}\n  /a/*: {get: {}}\n  /%7Bx%7D: {get: {}}\n  /{x}: {get: {}}\n  /b%2Fc: {get: {}}\n  /b/c: {get: {}}",
        "GET /a/%2A; GET /a/*; GET /%7Bx%7D; GET /{x}; GET /b%2Fc; GET /b/c",
    );
}

#[test]
fn paths_that_differ_only_in_parameter_names_are_merged_with_a_warning() {
    paths(
        "/a/{x}: {get: {}}\n  /a/{y}: {put: {}}",
        "10:3: warning: `/a/{x}`; GET /a/{x}; PUT /a/{y}",
    );
}

#[test]
fn an_api_without_operations_is_accepted_with_a_warning() {
    paths("{}", "9:3: warning: no operations");
    let head = "openapi: 3.1.0\ninfo: {title: A, version: 1}\n";
    check(head, &[], "1:1: warning: no operations");
    check(&format!("{head}webhooks: {{}}\n"), &[], "1:1: warning: no operations");
    assert!(load(head, &[]).api.is_some_and(|api| api.operations.is_empty()));
}

#[test]
fn security_of_a_path_item_is_ignored_only_if_it_is_not_stricter() {
    let item = |api: &str, path: &str, expect: &str| {
        let text = HEAD.replace("{get: {}}", &format!("{{security: {path}, get: {{}}}}"));
        check(&format!("{text}{api}\n"), &[], expect);
    };
    item("", "[]", "8:18: warning: path item; GET /* token");
    item("", "[{b: []}]", "8:18: warning: path item; GET /* token");
    item("", "[{o: [r]}]", "8:18: error: path item");
    item("security: [{o: [r]}]", "[{o: [r]}]", "8:18: warning: path item; GET /* any(r)");
    item("security: [{o: [r]}]", "[{o: [w]}]", "8:18: error: path item");
    item("security: []", "[{b: []}]", "8:18: error: path item");
    item("security: []", "[]", "8:18: warning: path item; GET /* open");
}

#[test]
fn security_schemes_may_be_references() {
    let scheme = |scheme: &str, files: &[(&str, &str)], expect: &str| {
        let text =
            HEAD.replace("{o: {type: oauth2}", &format!("{{r: {scheme}, o: {{type: oauth2}}"));
        check(&format!("{text}security: [{{r: [s]}}]\n"), files, expect);
    };
    let common = (
        "common.yaml",
        "schemes:\n  a: {$ref: '#/schemes/b'}\n  b: {type: openIdConnect}\n  c: 1\n",
    );
    scheme("{$ref: '#/components/securitySchemes/o'}", &[], "GET /* any(s)");
    scheme("{$ref: 'common.yaml#/schemes/a'}", &[common], "GET /* any(s)");
    scheme("{$ref: '#/components/securitySchemes/k'}", &[], "GET /* header:x-key");
    scheme("{$ref: 'common.yaml#/schemes/c'}", &[common], "common.yaml 4:6: error: map");
    scheme("{$ref: 'common.yaml#/schemes/d'}", &[common], "6:31: error: does not exist");
    scheme("{$ref: '#/components/securitySchemes/r'}", &[], "6:31: error: back to itself");
    scheme("{$ref: '#/info'}", &[], "6:31: error: another kind");
}

#[test]
fn a_requirement_without_a_list_of_scopes_needs_any_token() {
    security("security: [{o: }]", "", "GET /* token");
}

#[track_caller]
fn paths(paths: &str, expect: &str) {
    let text = HEAD.replace("  /*: {get: {}}\n", &format!("  {paths}\n"));
    let text = text.replace("paths:\n", "x-wso2-disable-security: true\npaths:\n");
    let expect: Vec<String> = expect
        .split("; ")
        .map(|line| if line.contains(": ") { line.to_owned() } else { format!("{line} open") })
        .collect();
    check(&text, &[], &expect.join("; "));
}

#[test]
fn a_path_item_may_be_a_reference() {
    let cats = ("sub/cats.yaml", "get: {security: []}\n$ref: ../dogs.json#/items/dog~1puppy\n");
    let dogs = ("dogs.json", "{\"items\": {\"dog/puppy\": {\"put\": {\"x-scope\": \"bark\"}}}}");
    refs("{$ref: sub/cats.yaml}", &[cats, dogs], "PUT /a any(bark); GET /a open");
    refs("{$ref: '#/paths/~1b'}\n  /b: {get: {}}", &[], "GET /a token; GET /b token");
    refs(
        "{$ref: '#/components/pathItems/x'}\ncomponents: {pathItems: {x: {get: {}}}}",
        &[],
        "GET /a token",
    );
}

#[test]
fn a_reference_that_cannot_be_followed_is_rejected() {
    refs("{$ref: 'https://x/y.yaml'}", &[], "5:14: error: `https://x/y.yaml`");
    refs("{$ref: ../y.yaml}", &[], "5:14: error: `../y.yaml`");
    refs("{$ref: y.yaml}", &[], "5:14: error: `y.yaml`");
    refs("{$ref: '#/paths/~1a'}", &[], "5:14: error: back to itself");
    refs(
        "{$ref: '#/paths/~1b'}\n  /b: {$ref: '#/paths/~1a'}",
        &[],
        "5:14: error: back to itself; 6:14: error: back to itself",
    );
    refs("{$ref: '#/paths/~1c'}", &[], "5:14: error: does not exist");
    refs("{$ref: '#/info'}", &[], "5:14: error: another kind");
    refs("{$ref: 5}", &[], "5:14: error: `5`");
    refs(
        "{$ref: c.yaml, x-wso2-disable-security: true}",
        &[("c.yaml", "get: {}")],
        "5:22: error: `x-wso2-disable-security`",
    );
    refs("{$ref: c.yaml}", &[("c.yaml", "get: {\n")], "c.yaml 2:1: error: YAML");
    refs("{$ref: c.yaml}", &[("c.yaml", "$ref: c.yaml")], "c.yaml 1:7: error: back to itself");
    refs(
        "{$ref: c.yaml}",
        &[("c.yaml", "get: {x-wso2-throttling-tier: Platin}")],
        "c.yaml 1:31: error: there is no plan `Platin`",
    );
}

#[track_caller]
#[test]
fn the_files_of_references_are_limited_in_total() {
    let item = "{\"get\": {\"security\": []}}";
    let large = " ".repeat(usize::try_from(limits::REF_BYTES_MAX).expect("it fits"));
    let files = [("a.json", item), ("b.json", large.as_str())];
    refs("{$ref: a.json}\n  /b: {$ref: b.json}", &files, "6:14: error: bytes together");
}

fn refs(item: &str, files: &[(&str, &str)], expect: &str) {
    let head = "openapi: 3.1.0\ninfo: {title: A, version: 1}\nservers: [{url: 'http://b'}]\npaths:\n  /a: ";
    check(&format!("{head}{item}\n"), files, expect);
}

#[test]
fn the_version_is_checked() {
    let rest = "info: {title: A, version: 1}\nsecurity: []\npaths: {/*: {get: {}}}\n";
    let servers = "servers: [{url: 'http://b'}]\n";
    for version in ["3.0.0", "3.0.4", "3.1.1", "'3.1.0'", "3.1"] {
        check(&format!("openapi: {version}\n{servers}{rest}"), &[], "GET /* open");
    }
    for version in ["2.0", "'2.0'"] {
        check(&format!("swagger: {version}\nhost: b\nschemes: [http]\n{rest}"), &[], "GET /* open");
    }
    check(&format!("openapi: 3.2.0\n{rest}"), &[], "1:10: error: `openapi: 3.2.0`");
    check(&format!("openapi: 3.10.0\n{rest}"), &[], "1:10: error: `openapi: 3.10.0`");
    check(&format!("swagger: 1.2\n{rest}"), &[], "1:10: error: `swagger: 1.2`");
    check(&format!("openapi: 3.0.0\nswagger: 2.0\n{rest}"), &[], "2:10: error: `openapi`");
    check(rest, &[], "1:1: error: `openapi`");
    check("- a\n", &[], "1:1: error: map");
}

#[test]
fn missing_and_misspelt_keys_at_the_top_are_reported() {
    check("openapi: 3.0.0\n", &[], "1:1: error: `info`");
    check(
        "openapi: 3.0.0\ninfo: {title: '', versoin: 1}\nservers: [{url: 'http://b'}]\nsecurity: []\npathes: {}\npaths: {/*: {get: {}}}\n",
        &[],
        "2:7: error: `info`; 2:15: error: `title`; 5:1: warning: `pathes`",
    );
}

#[test]
fn unknown_misplaced_and_unsupported_extensions_are_reported() {
    security(
        "x-wso2-disable-securty: true",
        "",
        "9:1: warning: `x-wso2-disable-securty`; GET /* token",
    );
    security("x-mock-response: {}", "", "9:1: warning: `x-mock-response`; GET /* token");
    security("x-throttling-limit: {requestCount: 1}", "", "9:1: error: `x-throttling-limit`");
    security("x-mgw-cors: {}", "", "9:1: warning: `x-mgw-cors`; GET /* token");
    security("x-mgw-throttling-tier: Gold", "", "9:1: error: `x-mgw-throttling-tier`");
    security("x-wso2-api-key-header: K", "", "GET /* token");
    security("x-penstock-host: a", "", "9:1: error: `x-penstock-host`");
    security("x-mine: a", "", "GET /* token");
    security("x-wso2-owner: me\nx-wso2-label: []", "", "GET /* token");
    security("", "x-wso2-cors: {}", "8:14: error: `x-wso2-cors`");
    security("", "x-wso2-owner: me", "8:14: warning: `x-wso2-owner`; GET /* token");
    security("x-wso2-throttling-tier: Unlimited", "x-throttling-tier: unlimited", "GET /* token");
    security("", "x-throttling-tier: Golden", "8:33: error: there is no plan `Golden`");
    security(
        "x-wso2-request-interceptor: java:a.B",
        "",
        "9:1: error: `x-wso2-request-interceptor`",
    );
    security("x-mediation-script: a", "", "9:1: error: `x-mediation-script`");
    security("x-wso2-response-cache: {enabled: true}", "", "GET /* token");
    security(
        "x-wso2-response-cache: {enabled: false}\nx-wso2-http2-backend-enabled: false",
        "",
        "GET /* token",
    );
}

#[test]
fn a_secured_api_needs_an_issuer() {
    let closed = Defaults { issuers_configured: false, ..DEFAULTS.clone() };
    let outcome = read("api.yaml".as_ref(), HEAD.as_bytes(), &no_files, &closed);
    assert_eq!(outcome.api, None);
    assert_lines(&shown(&outcome), "7:1: error: no issuer");
    assert_eq!(outcome.base_path.as_deref(), Some("/pets/1.0.0"));
    let keys = format!("{HEAD}security: [{{k: []}}]\n");
    let keys = |applications_configured| {
        let closed = Defaults { applications_configured, ..closed.clone() };
        read("api.yaml".as_ref(), keys.as_bytes(), &no_files, &closed).api.is_some()
    };
    assert!(keys(true) && !keys(false), "applications have keys");
    let open = format!("{HEAD}security: []\n");
    assert!(read("api.yaml".as_ref(), open.as_bytes(), &no_files, &closed).api.is_some());
}

#[test]
fn an_api_has_a_state() {
    use model::Lifecycle::{Blocked, Created, Deprecated, Published, Retired};
    let state = |text: &str| {
        let outcome = load(&format!("{HEAD}{text}\n"), &[]);
        outcome.api.map(|api| (api.lifecycle, api.subscription))
    };
    assert_eq!(state(""), Some((Published, true)));
    let prototype = state("x-penstock-lifecycle: Prototyped");
    assert_eq!(prototype, Some((Published, false)), "it needs no subscription");
    for (text, expect) in [
        ("created", Created),
        ("PUBLISHED", Published),
        ("blocked", Blocked),
        ("Deprecated", Deprecated),
        ("retired", Retired),
    ] {
        let found = state(&format!("x-penstock-lifecycle: {text}"));
        assert_eq!(found, Some((expect, true)));
    }
    security("x-penstock-lifecycle: blokced", "", "9:23: error: unknown state `blokced`");
}

#[test]
fn an_api_may_require_client_certificates() {
    for (value, expect) in [("mandatory", true), ("Mandatory", true), ("optional", false)] {
        let outcome = load(&format!("{HEAD}x-wso2-mutual-ssl: {value}\n"), &[]);
        assert_eq!(outcome.api.map(|api| api.mutual_tls), Some(expect), "{value}");
    }
    assert_eq!(load(HEAD, &[]).api.map(|api| api.mutual_tls), Some(false));
}

#[test]
fn an_api_may_limit_the_requests_to_its_endpoints() {
    let text = |value: &str| format!("{HEAD}x-penstock-max-tps: {value}\n");
    let found = |value: &str| {
        let backend = load(&text(value), &[]).api.expect("it is valid").backend;
        [backend.production, backend.sandbox].map(|of| of.map(|of| (of.amount, of.period_ms)))
    };
    assert_eq!(found("{production: 100}"), [Some((100, 1_000)), None]);
    let both = "{production: 5, productionTimeUnit: MINUTE, sandbox: 7, sandboxTimeUnit: hour}";
    assert_eq!(found(both), [Some((5, 60_000)), Some((7, 3_600_000))]);
    for (value, expect) in [
        ("5", "9:21: error: must be a map"),
        ("{production: 0}", "9:34: error: `production` must be a number of requests"),
        ("{prod: 1}", "9:22: error: unknown key `prod`"),
        ("{sandboxTimeUnit: HOUR}", "9:22: error: no effect without `sandbox`"),
        ("{sandbox: 1, sandboxTimeUnit: DAY}", "9:51: error: unknown value `DAY`"),
    ] {
        check(&text(value), &[], expect);
    }
}

#[test]
fn a_rejected_file_still_has_its_base_path_and_hosts() {
    let text =
        format!("{HEAD}x-penstock-hosts: [A.example, '*.b.example']\nx-wso2-mutual-ssl: always\n");
    let outcome = load(&text, &[]);
    assert_eq!(outcome.api, None);
    assert_eq!(outcome.base_path.as_deref(), Some("/pets/1.0.0"));
    assert_eq!(outcome.hosts, ["a.example", "*.b.example"]);
}

#[test]
fn the_base_path_is_explicit_or_from_the_server_or_from_the_title() {
    base_path("x-wso2-basePath: /a/b/", "/a/b");
    base_path("x-wso2-basePath: /", "");
    base_path("servers: [{url: 'http://h/v2/'}]", "/v2");
    base_path("servers: [{url: /v3}]\nx-wso2-production-endpoints: {urls: ['http://b']}", "/v3");
    base_path(
        "servers: [{url: 'http://{h}/{v}', variables: {h: {default: x}, v: {default: 4.0}}}]",
        "/4.0",
    );
    base_path("servers: [{url: 'http://h'}]", "/caf-pets-co/2.0-rc1");
    base_path("x-wso2-basePath: a", "rejected");
    base_path("x-wso2-basePath: /a/{version}", "rejected");
    base_path("x-wso2-basePath: /a/../b", "rejected");
    base_path("x-wso2-basePath: /a?b", "rejected");
}

#[track_caller]
fn base_path(lines: &str, expect: &str) {
    let endpoint = if lines.contains("http:") {
        ""
    } else {
        "\nx-wso2-production-endpoints: {urls: ['http://b']}"
    };
    let text = format!(
        "openapi: 3.0.3\ninfo: {{title: ' Café: Pets & Co. ', version: 2.0-rc1}}\nsecurity: []\npaths: {{/*: {{get: {{}}}}}}\n{lines}{endpoint}\n"
    );
    let outcome = load(&text, &[]);
    let found = outcome.base_path.as_deref().unwrap_or("rejected");
    assert_eq!(found, expect, "{:?}", shown(&outcome));
    assert_eq!(outcome.api.is_some(), expect != "rejected", "{:?}", shown(&outcome));
}

#[test]
fn the_default_path_is_the_base_path_without_the_version() {
    default_path("/pets/1.0.0", "/pets");
    default_path("/pets/v1.0.0", "/pets");
    default_path("/1.0.0/pets", "/pets");
    default_path("/1.0.0/v2", "/v2");
    default_path("/pets", "9:1: error: `/pets`");
}

#[track_caller]
fn default_path(base_path: &str, expect: &str) {
    let text = HEAD.replace("/pets/1.0.0", base_path) + "x-penstock-default-version: true\n";
    let outcome = load(&text, &[]);
    let found = outcome.api.as_ref().and_then(|api| api.default_path.clone());
    assert_lines(&found.map_or_else(|| shown(&outcome), |path| vec![path]), expect);
}

#[test]
fn endpoints_come_from_extensions_at_every_level() {
    endpoints("x-wso2-production-endpoints: {urls: ['http://b:1/x']}", "{}", "P single b:1/x 7000");
    endpoints(
        "x-wso2-production-endpoints: {type: http, urls: ['http://b']}",
        "{}",
        "P single b 7000",
    );
    endpoints(
        "x-wso2-production-endpoints: {type: load_balance, urls: ['http://b', 'https://c']}",
        "{}",
        "P turn b,c 7000",
    );
    endpoints(
        "x-wso2-production-endpoints: {type: loadbalance, urls: ['http://b', 'http://c']}",
        "{}",
        "P turn b,c 7000",
    );
    endpoints(
        "x-wso2-production-endpoints: {urls: ['http://b', 'http://c']}",
        "{}",
        "P turn b,c 7000",
    );
    endpoints(
        "x-wso2-production-endpoints: {type: failover, urls: ['http://b', 'http://c']}",
        "{}",
        "P failover b,c 7000",
    );
    endpoints(
        "x-wso2-production-endpoints: {urls: ['http://b'], advanceEndpointConfig: {timeoutInMillis: 250}}",
        "{}",
        "P single b 250",
    );
    endpoints(
        "x-wso2-production-endpoints: '#/x-wso2-endpoints/one'\nx-wso2-sandbox-endpoints: '#/x-wso2-endpoints/two'\nx-wso2-endpoints:\n- one: {urls: ['http://b']}\n- two: {urls: ['http://c']}",
        "{}",
        "P single b 7000; S single c 7000",
    );
    endpoints(
        "x-wso2-endpoints: {one: {urls: ['http://b']}}",
        "{x-wso2-production-endpoints: '#/x-wso2-endpoints/one'}",
        "p single b 7000",
    );
    endpoints(
        "x-wso2-sandbox-endpoints: {urls: ['http://c']}",
        "{x-wso2-production-endpoints: {urls: ['http://b']}}",
        "S single c 7000; p single b 7000",
    );
    endpoints(
        "x-wso2-production-endpoints: {urls: ['http://b']}",
        "{x-wso2-production-endpoints: {urls: ['http://b']}}",
        "P single b 7000; p single b 7000",
    );
}

#[test]
fn servers_are_the_endpoints_unless_an_extension_sets_them() {
    endpoints("servers: [{url: 'https://b/v1'}]", "{}", "P single b/v1 7000");
    endpoints(
        "servers: [{url: 'https://b/v1'}]",
        "{servers: [{url: 'https://c'}]}",
        "P single b/v1 7000; p single c 7000",
    );
    endpoints(
        "servers: [{url: 'http://b'}, {url: 'http://c'}]",
        "{}",
        "4:17: warning: all servers; P turn b,c 7000",
    );
    endpoints(
        "servers: [{url: /v1}]\nx-wso2-sandbox-endpoints: {urls: ['http://c']}",
        "{}",
        "S single c 7000",
    );
    endpoints("servers: [{url: /v1}]", "{}", "4:17: error: `/v1`");
    endpoints("servers: [{url: //b/v1}]", "{}", "4:17: error: `//b/v1`");
    endpoints("servers: [{url: /}]", "{}", "4:17: error: `/`");
    endpoints(
        "servers: [{url: //b/v1}]\nx-wso2-production-endpoints: {urls: ['http://c']}",
        "{}",
        "P single c 7000",
    );
    endpoints("servers: [{url: 'ftp://b'}]", "{}", "4:17: error: `ftp`");
    endpoints("servers: [{url: 'http://{h}/'}]", "{}", "4:17: error: `h`");
    endpoints("", "{}", "1:1: error: the API has no");
    endpoints(
        "x-wso2-production-endpoints: {urls: ['http://b']}",
        "{servers: [{url: 'https://c'}]}",
        "3:29: warning: `servers`; P single b 7000",
    );
}

#[test]
fn invalid_and_unsupported_endpoint_sets_are_reported() {
    let case = |set: &str, expect: &str| {
        endpoints(&format!("x-wso2-production-endpoints: {set}"), "{}", expect)
    };
    case("{type: http, urls: ['http://b', 'http://c']}", "4:37: error: `http`");
    case("{type: httpp, urls: ['http://b']}", "4:37: error: `httpp`");
    case("{urls: []}", "4:37: error: `urls`");
    case("{url: ['http://b']}", "4:30: error: `urls`; 4:31: warning: `url`");
    case("{urls: ['etcd(b)']}", "4:38: error: `b`");
    case("{urls: ['http://u:p@b']}", "4:38: error: password");
    case(
        "{urls: ['http://b'], advanceEndpointConfig: {timeoutInMillis: 0}}",
        "4:92: error: timeoutInMillis",
    );
    case(
        "{urls: ['http://b'], advanceEndpointConfig: {retryConf: {}}}",
        "4:75: warning: `retryConf`; P single b 7000",
    );
    case("http://b", "4:30: error: `http://b`");
    case("'#/x-wso2-endpoints/one'", "4:30: error: `one`");
}

/// Checks endpoints. `P` and `S` are the API's production and sandbox endpoints, `p` and `s` the operation's.
#[track_caller]
fn endpoints(lines: &str, operation: &str, expect: &str) {
    let text = format!(
        "openapi: 3.0.3\ninfo: {{title: A, version: 1}}\npaths: {{/*: {{get: {operation}}}}}\n{lines}\nsecurity: []\n"
    );
    let outcome = load(&text, &[]);
    let mut shown = shown(&outcome);
    if let Some(api) = &outcome.api {
        let operation =
            api.operations.first().map(|op| (op.production, op.sandbox)).unwrap_or_default();
        let sets =
            [("P", api.production), ("S", api.sandbox), ("p", operation.0), ("s", operation.1)];
        shown.extend(
            sets.into_iter()
                .filter_map(|(name, set)| Some(format!("{name} {}", upstream(api, set?)))),
        );
    }
    assert_lines(&shown, expect);
}

fn upstream(api: &Api, index: usize) -> String {
    let set = api.upstreams.get(index).expect("the index leads to a set");
    let kind = match set.kind {
        UpstreamKind::Single => "single",
        UpstreamKind::RoundRobin => "turn",
        UpstreamKind::LeastRequests => "least",
        UpstreamKind::Failover => "failover",
    };
    let urls: Vec<String> =
        set.endpoints.iter().map(|e| format!("{}{}", e.authority, e.path)).collect();
    format!("{kind} {} {}", urls.join(","), set.response_head_ms)
}

#[test]
fn swagger_2_has_one_server() {
    swagger(
        "host: B.example:8080\nbasePath: /v2\nschemes: [http, https]",
        "https b.example:8080 /v2",
    );
    swagger("host: b.example\nbasePath: /v2\nschemes: [http]", "http b.example /v2");
    swagger("host: b.example\nbasePath: /v2", "3:7: error: `host`");
    swagger("basePath: /v2", "3:11: error: `/v2`");
    swagger(
        "host: b.example\nbasePath: /v2\nschemes: [http]\nx-wso2-basePath: /pets/2",
        "http b.example /pets/2",
    );
}

#[track_caller]
fn swagger(lines: &str, expect: &str) {
    let text = format!(
        "swagger: '2.0'\ninfo: {{title: A, version: 1}}\n{lines}\nsecurity: [{{o: [read]}}]\nsecurityDefinitions: {{o: {{type: oauth2}}}}\npaths: {{/*: {{get: {{}}}}}}\n"
    );
    let outcome = load(&text, &[]);
    let found = outcome.api.as_ref().map(|api| {
        let endpoint = &api.upstreams[0].endpoints[0];
        assert_eq!(operations(api), ["GET /* any(read)"]);
        format!(
            "{} {} {}",
            format!("{:?}", endpoint.scheme).to_lowercase(),
            endpoint.authority,
            api.base_path
        )
    });
    let first = || shown(&outcome).first().cloned().unwrap_or_default();
    assert_lines(&[found.unwrap_or_else(first)], expect);
}

#[test]
fn settings_of_the_whole_api_are_read() {
    let api = load(
        &format!("{HEAD}x-wso2-transports: [https]\nx-wso2-auth-header: X-Key\nx-penstock-forward-auth-header: true\nx-penstock-upgrades: [SPDY/3]\nx-penstock-forward-fields: [X-Real-IP]\nx-penstock-hosts: API.example\n"),
        &[],
    )
    .api
    .expect("it is served");
    assert_eq!((api.name.as_str(), api.version.as_str()), ("Pets", "1.0.0"));
    assert_eq!((api.transports.http, api.transports.https), (false, true));
    assert_eq!((api.auth_header.as_str(), api.forward_auth_header), ("x-key", true));
    assert_eq!(
        (api.upgrades, api.forward_fields, api.hosts),
        (vec!["spdy/3".to_owned()], vec!["x-real-ip".to_owned()], vec!["api.example".to_owned()])
    );
    let plain = load(HEAD, &[]).api.expect("it is served");
    assert_eq!((plain.transports.http, plain.transports.https), (true, true));
    assert_eq!((plain.auth_header.as_str(), plain.forward_auth_header), ("authorization", false));
    assert_eq!((plain.cors, plain.default_path), (None, None));
}

#[test]
fn invalid_settings_of_the_whole_api_are_reported() {
    security("x-wso2-transports: [htps]", "", "9:21: error: `htps`");
    security("x-wso2-transports: []", "", "9:20: error: `x-wso2-transports`");
    security("x-wso2-auth-header: 'a b'", "", "9:21: error: `a b`");
    security("x-wso2-auth-header: Host", "", "9:21: error: `Host`");
    security("x-penstock-upgrades: [h2c]", "", "9:23: error: h2c");
    security("x-penstock-upgrades: [websocket]", "", "9:23: warning: `websocket`; GET /* token");
    security("x-penstock-hosts: ['http://a']", "", "9:20: error: `http://a`");
    security("x-penstock-forward-fields: [X-Forwarded-For]", "", "9:29: error: `X-Forwarded-For`");
    security(
        "x-penstock-forward-fields: [X-WSO2-Client-Certificate]",
        "",
        "9:29: error: `X-WSO2-Client-Certificate`",
    );
    security("x-penstock-hosts: []", "", "9:19: error: `x-penstock-hosts`");
}

#[test]
fn cors_is_read_in_both_spellings() {
    let kebab = "{access-control-allow-origins: ['https://A.example', 'http://b:81'], access-control-allow-credentials: true, access-control-allow-headers: [X-A], access-control-allow-methods: [get, PUT], access-control-expose-headers: X-B}";
    let camel = "{corsConfigurationEnabled: true, accessControlAllowOrigins: ['https://a.example', 'http://b:81'], accessControlAllowCredentials: true, accessControlAllowHeaders: [X-A], accessControlAllowMethods: [GET, PUT], accessControlExposeHeaders: [X-B]}";
    let full = "https://a.example,http://b:81 GET,PUT X-A X-B true";
    for (rules, expect) in [
        (kebab, full),
        (camel, full),
        ("{}", "*    false"),
        ("{corsConfigurationEnabled: false}", "none"),
        (
            "{access-control-allow-origins: ['*'], access-control-allow-credentials: true}",
            "9:86: warning: credentials; *    false",
        ),
        (
            "{access-control-allow-origins: ['https://*.Example.org:8443']}",
            "https://*.example.org:8443    false",
        ),
        (
            "{access-control-allow-origins: ['http://localhost:*']}",
            "9:46: error: `*` is not a port",
        ),
        ("{access-control-allow-origins: ['https://a.*.org']}", "9:46: error: host name"),
        ("{access-control-allow-origins: [example.org]}", "9:46: error: `example.org`"),
        ("{access-control-allow-origins: ['https://a/x']}", "9:46: error: `https://a/x`"),
        (
            "{access-control-allow-origins: ['https://a:443', 'http://*.a.b:80', 'http://a:443', 'https://[2001:DB8::0:1]']}",
            "https://a,http://*.a.b,http://a:443,https://[2001:db8::1]    false",
        ),
        (
            "{access-control-allow-origins: ['https://*.com:444'], access-control-allow-credentials: true}",
            "9:102: warning: `com`; https://*.com:444    true",
        ),
        (
            "{access-control-allow-origins: ['https://*.a.com', 'http://*.localhost'], access-control-allow-credentials: true}",
            "https://*.a.com,http://*.localhost    true",
        ),
        ("{access-control-allow-origins: ['https://*.com']}", "https://*.com    false"),
        ("{access-control-allow-methods: [FETCH]}", "9:46: error: `FETCH`"),
        ("{access-control-allow-headers: ['a b']}", "9:46: error: `a b`"),
        ("{access-control-allow-origin: ['*']}", "9:15: error: `access-control-allow-origin`"),
    ] {
        let outcome = load(&format!("{HEAD}x-wso2-cors: {rules}\n"), &[]);
        let mut lines = shown(&outcome);
        lines.extend(outcome.api.map(|api| match api.cors {
            None => "none".to_owned(),
            Some(c) => {
                let lists = [c.allow_origins, c.allow_methods, c.allow_headers, c.expose_headers];
                format!("{} {}", lists.map(|list| list.join(",")).join(" "), c.allow_credentials)
            }
        }));
        assert_lines(&lines, expect);
    }
}

#[test]
fn all_problems_are_reported_at_once_with_help() {
    let text =
        format!("{HEAD}x-wso2-mutual-ssl: always\nsecurity: [{{m: []}}]\nx-penstock-hots: [a]\n")
            .replace("/*: {get: {}}", "a: {}\n  /*: {get: {x-throttling-tier: Golden}}");
    let outcome = load(&text, &[]);
    assert_eq!(outcome.diagnostics.len(), 5, "{:?}", shown(&outcome));
    assert!(outcome.diagnostics.iter().all(|diagnostic| diagnostic.help.is_some()));
    let last = outcome.diagnostics.last().expect("there are some");
    assert!(last.message.contains("`x-penstock-hots`"), "{last}");
    assert!(last.help.as_ref().is_some_and(|help| help.contains("`x-penstock-hosts`")), "{last}");
}

#[test]
fn json_and_yaml_give_the_same_api() {
    let json = r#"{"openapi": "3.0.3", "info": {"title": "Pets", "version": "1.0.0"}, "x-wso2-basePath": "/pets/1.0.0",
        "x-wso2-production-endpoints": {"urls": ["http://b:1"]}, "components": {"schemas": {"Pet": {"type": "object"}}},
        "paths": {"/*": {"get": {"responses": {"200": {"description": "ok"}}}}}}"#;
    let of_json = read("api.yaml".as_ref(), HEAD.as_bytes(), &no_files, &DEFAULTS);
    let of_yaml = read("api.yaml".as_ref(), json.as_bytes(), &no_files, &DEFAULTS);
    assert_eq!(of_json, of_yaml);
    let named_json = read("api.json".as_ref(), json.as_bytes(), &no_files, &DEFAULTS);
    let source = named_json.api.as_ref().map(|api| api.source.clone());
    assert_eq!(source.as_deref(), Some(Path::new("api.json")));
    let operations_of = |outcome: &Outcome| outcome.api.as_ref().map(operations);
    assert_eq!(operations_of(&named_json), operations_of(&of_yaml));
}

#[test]
fn an_api_has_a_limit_of_its_own_for_bodies_that_stall() {
    let stall_ms = |line: &str| load(&format!("{HEAD}{line}\n"), &[]).api.map(|api| api.stall_ms);
    assert_eq!(stall_ms(""), Some(None));
    assert_eq!(stall_ms("x-penstock-stall-ms: 3600000"), Some(Some(3_600_000)));
    for wrong in ["0", "3600001", "-1", "long"] {
        assert_eq!(stall_ms(&format!("x-penstock-stall-ms: {wrong}")), None, "{wrong}");
    }
}

#[test]
fn strict_paths_of_the_file_take_precedence_over_the_configuration() {
    for (line, default, expect) in [
        ("", false, false),
        ("", true, true),
        ("x-penstock-strict-paths: true", false, true),
        ("x-penstock-strict-paths: false", true, false),
    ] {
        let text = format!("{HEAD}{line}\n");
        let defaults = Defaults { strict_paths: default, ..DEFAULTS.clone() };
        let outcome = read("api.yaml".as_ref(), text.as_bytes(), &no_files, &defaults);
        let strict = outcome.api.expect("it is served").strict_paths;
        assert_eq!(strict, expect, "{line:?}, default {default}");
    }
    let wrong = load(&format!("{HEAD}x-penstock-strict-paths: maybe\n"), &[]);
    assert_eq!(wrong.api, None);
}

static DEFAULTS: LazyLock<Defaults> =
    LazyLock::new(|| Defaults { response_head_ms: 7_000, ..Defaults::default() });

fn no_files(_: &str) -> Result<Vec<u8>, String> {
    Err("there is no such file".to_owned())
}

fn load(text: &str, files: &[(&str, &str)]) -> Outcome {
    let files: BTreeMap<&str, &str> = files.iter().copied().collect();
    let refs = |name: &str| match files.get(name) {
        Some(text) => Ok(text.as_bytes().to_vec()),
        None => no_files(name),
    };
    read("api.yaml".as_ref(), text.as_bytes(), &refs, &DEFAULTS)
}

/// `expect`: the diagnostics, then the operations.
#[track_caller]
fn check(text: &str, files: &[(&str, &str)], expect: &str) {
    let outcome = load(text, files);
    let mut lines = shown(&outcome);
    lines.extend(outcome.api.iter().flat_map(operations));
    assert_lines(&lines, expect);
}

/// One line per diagnostic, without help; with the name of the file if it is not `api.yaml`.
fn shown(outcome: &Outcome) -> Vec<String> {
    let lines = outcome.diagnostics.iter().map(|diagnostic| {
        let line = diagnostic.to_string();
        let line = line.lines().next().unwrap_or_default();
        let own = line.strip_prefix("api.yaml:").map(|line| line.trim_start().to_owned());
        own.unwrap_or_else(|| line.replacen(".yaml:", ".yaml ", 1))
    });
    lines.collect()
}

fn accepted(accepts: &Accepts) -> String {
    let scopes = |rule: &ScopeRule, any: &str| match rule {
        ScopeRule::Anything => any.to_owned(),
        ScopeRule::AnyOf(scopes) => format!("any({})", scopes.join(" ")),
        ScopeRule::AllOf(scopes) => format!("all({})", scopes.join(" ")),
    };
    let token = accepts.token.as_ref().map(|rule| scopes(&rule.scopes, "token"));
    let of = accepts.token.iter().filter_map(|rule| rule.of).map(|of| format!("{of:?}"));
    let login = accepts.login.as_ref().map(|rule| match scopes(rule, "").as_str() {
        "" => "login".to_owned(),
        scopes => format!("login:{scopes}"),
    });
    let keys = accepts.api_keys.iter().map(|place| match place {
        KeyPlace::Header(name) => format!("header:{name}"),
        KeyPlace::Query(name) => format!("query:{name}"),
        KeyPlace::Cookie(name) => format!("cookie:{name}"),
    });
    let optional = accepts.optional.then(|| "optional".to_owned());
    let all = token.into_iter().chain(of).chain(login).chain(keys).chain(optional);
    all.collect::<Vec<_>>().join(" ")
}

fn operations(api: &Api) -> Vec<String> {
    let line = |op: &model::Operation| {
        let requires = match &op.security {
            Security::Open => "open".to_owned(),
            Security::Required(accepts) => accepted(accepts),
        };
        format!("{} {} {requires}", op.method.as_str(), op.template)
    };
    api.operations.iter().map(line).collect()
}
