//! Descriptions and what they become: operations, or findings with their places.

use std::collections::BTreeMap;
use std::path::Path;

use model::{Api, ScopeRule, Security, UpstreamKind};

use super::*;

/// Everything that an API needs, on eight lines.
const HEAD: &str = "openapi: 3.0.3
info: {title: Pets, version: 1.0.0}
x-wso2-basePath: /pets/1.0.0
x-wso2-production-endpoints: {urls: ['http://b:1']}
components:
  securitySchemes: {o: {type: oauth2}, b: {type: http, scheme: bearer}, k: {type: apiKey}, m: {type: mutualTLS}}
paths:
  /*: {get: {}}
";

#[test]
fn absent_means_secured_and_only_a_word_opens() {
    let secured = "GET /* token";
    security("", "", secured);
    security("security: []", "", "GET /* open");
    security("x-wso2-disable-security: true", "", "GET /* open");
    security("x-wso2-disable-security: false", "", secured);
    security("x-auth-type: None", "", "GET /* open");
    security("x-auth-type: Any", "", secured);
    security("x-auth-type: Application & Application User", "", secured);
    security("", "security: []", "GET /* open");
    security("", "x-wso2-disable-security: true", "GET /* open");
    security("", "x-auth-type: None", "GET /* open");
    security("security: []", "security: [{b: []}]", secured);
    security("security: [{b: []}]", "security: []", "GET /* open");
    security("x-wso2-disable-security: true", "x-wso2-disable-security: false", secured);
    security("security: []", "x-wso2-disable-security: false", secured);
}

#[test]
fn any_scope_suffices_unless_all_are_asked_for() {
    security("security: [{o: [read, write]}]", "", "GET /* any(read write)");
    security("security: [{o: [read]}]", "security: [{o: [write]}]", "GET /* any(write)");
    security("security: [{o: [read]}, {b: [write]}]", "", "GET /* any(read write)");
    security("security: [{o: [read]}, {b: []}]", "", "GET /* token");
    security("security: [{o: [read], b: []}]", "", "GET /* any(read)");
    security("security: [{o: [read, write]}]", "x-penstock-scopes: all", "GET /* all(read write)");
    security(
        "security: [{o: [a, b]}]\nx-penstock-scopes: all",
        "x-penstock-scopes: any",
        "GET /* any(a b)",
    );
    security("", "x-scope: read", "GET /* any(read)");
    security("", "x-scope: 'read, write'", "GET /* any(read write)");
    security("", "x-scopes: [read, write]", "GET /* any(read write)");
    security("x-penstock-scopes: all", "x-scopes: [read, write]", "GET /* all(read write)");
    security("security: [{o: [read]}]", "x-scope: read", "GET /* any(read)");
    security("security: [{o: [read]}]", "x-wso2-disable-security: false", "GET /* any(read)");
}

#[test]
fn security_that_cannot_be_served_is_refused_not_ignored() {
    security("security: [{k: []}]", "", "9:12: error: API keys are not served yet");
    security("security: [{m: []}]", "", "9:12: error: client certificates are not served yet");
    security("security: [{o: [], k: []}]", "", "9:12: error: API keys are not served yet");
    security(
        "security: [{k: []}, {o: [r]}]",
        "",
        "9:12: warning: API keys are not served yet: callers need a token; GET /* any(r)",
    );
    security("security: [{}]", "", "9:12: error: `{}` leaves open whether a token is needed");
    security(
        "security: [{o: []}, {}]",
        "",
        "9:21: error: `{}` leaves open whether a token is needed",
    );
    security("security: [{p: []}]", "", "9:13: error: no security scheme is named `p`");
    security("security: {o: []}", "", "9:11: error: `security` is a map, not a list");
    security(
        "security: [{o: [a], b: [b]}]",
        "",
        "9:21: error: two schemes ask one token for different scopes",
    );
    security(
        "security: [{o: [a]}, {o: [b]}]",
        "x-penstock-scopes: all",
        "9:11: error: alternatives with different scopes cannot all be needed",
    );
    security(
        "security: [{o: [a]}]",
        "x-scope: b",
        "8:14: error: `security` and this extension ask for different scopes",
    );
    security(
        "x-auth-type: Application User",
        "",
        "9:14: error: `Application User`: telling users' tokens from applications' is not served yet",
    );
    security(
        "x-wso2-application-security: {security-types: [api_key]}",
        "",
        "9:48: error: `api_key` is not served yet",
    );
    security(
        "x-wso2-application-security: {security-types: [oauth2, api_key]}",
        "",
        "9:56: warning: `api_key` is not served yet: callers need a token; GET /* token",
    );
    security(
        "x-wso2-application-security: {security-types: [oauth2], optional: true}",
        "",
        "9:67: warning: `optional` is not served yet: callers need a token; GET /* token",
    );
    security(
        "x-wso2-mutual-ssl: mandatory",
        "",
        "9:1: error: `x-wso2-mutual-ssl`: client certificates are not served yet, and without them callers would pass that it stops",
    );
    security(
        "x-wso2-mutual-ssl: optional",
        "",
        "9:1: warning: `x-wso2-mutual-ssl`: client certificates are not served yet: callers need a token; GET /* token",
    );
}

#[test]
fn contradictions_keep_the_token() {
    security(
        "x-wso2-disable-security: true",
        "security: [{o: [r]}]",
        "8:24: warning: the operation asks for a token though the API is open: a token is needed; GET /* any(r)",
    );
    security(
        "",
        "x-wso2-disable-security: true, x-auth-type: Any",
        "8:39: error: `x-wso2-disable-security` and `x-auth-type` contradict each other",
    );
    security(
        "x-wso2-disable-security: maybe",
        "",
        "9:26: error: `x-wso2-disable-security` is a text, not true or false",
    );
    security(
        "",
        "security: [], x-scope: r",
        "8:28: warning: scopes have no effect: the operation is open; GET /* open",
    );
}

/// `api`: more lines for the API; `operation`: members of its one operation.
#[track_caller]
fn security(api: &str, operation: &str, expect: &str) {
    let text = HEAD.replace("{get: {}}", &format!("{{get: {{{operation}}}}}"));
    check(&format!("{text}{api}\n"), &[], expect);
}

#[test]
fn every_method_is_an_operation_and_the_rest_of_a_path_item_is_not() {
    let methods = "get put post delete options head patch trace".split(' ');
    let item: Vec<String> = methods.map(|method| format!("{method}: {{}}")).collect();
    let rest = "summary: s, description: d, parameters: [], x-mine: 1";
    paths(
        &format!("/a: {{{}, {rest}}}", item.join(", ")),
        "GET /a; PUT /a; POST /a; DELETE /a; OPTIONS /a; HEAD /a; PATCH /a; TRACE /a",
    );
    paths("/a: {GET: {}, get: {}}", "9:8: error: `GET` declares no operation");
    paths("/a: {gett: {}, get: {}}", "9:8: warning: `gett` is no part of a path item; GET /a");
    paths("/a: {get: 1}", "9:13: error: `get` is a number, not a map");
    paths("{}", "9:3: error: the API has no operation");
}

#[test]
fn templates_are_checked_where_they_stand() {
    paths("/: {get: {}}", "GET ");
    paths("/a/{id}: {get: {}}", "GET /a/{id}");
    paths("/a/{x}.json/{y}...{z}: {get: {}}", "GET /a/{x}.json/{y}...{z}");
    paths("/a/: {get: {}}\n  /a: {get: {}}", "GET /a/; GET /a");
    paths("/a b/é: {get: {}}", "GET /a b/é");
    paths("a: {get: {}}", "9:3: error: the path `a` does not start with `/`");
    paths("/a//b: {get: {}}", "9:3: error: the path `/a//b` has an empty segment");
    paths("/a/{id: {get: {}}", "9:3: error: `{id` has a `{` without `}`");
    paths("/a/id}: {get: {}}", "9:3: error: `id}` has a `}` without `{`");
    paths("/a/{}: {get: {}}", "9:3: error: `{}` has a parameter without a name");
    paths("/a/{b{c}}: {get: {}}", "9:3: error: `{b{c}}` has a parameter without a name");
    paths("/*/b: {get: {}}", "9:3: error: `*` in `*` is no wildcard");
    paths("/a*: {get: {}}", "9:3: error: `*` in `a*` is no wildcard");
    paths("/a/../b: {get: {}}", "9:3: error: a `.` or `..` segment in the path");
    paths("/a?b=c: {get: {}}", "9:3: error: `a?b=c` holds a character that no path has");
    paths("/%zz: {get: {}}", "9:3: error: `%zz` holds a `%` that is no escape");
}

#[test]
fn two_operations_on_one_template_name_both_places() {
    paths(
        "/a/{x}: {get: {}}\n  /a/{y}: {get: {}, put: {}}",
        "10:12: error: GET /a/{y} stands at api.yaml:9:12 already",
    );
    paths(
        "/%7Ea: {get: {}}\n  /~a: {get: {}}",
        "10:9: error: GET /~a stands at api.yaml:9:11 already",
    );
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
fn a_path_item_may_stand_elsewhere_below_the_folder() {
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
fn a_reference_that_leads_nowhere_or_outside_is_refused() {
    refs(
        "{$ref: 'https://x/y.yaml'}",
        &[],
        "5:14: error: `https://x/y.yaml` is a URL, which is never fetched",
    );
    refs("{$ref: ../y.yaml}", &[], "5:14: error: `../y.yaml` leads out of the API's folder");
    refs("{$ref: y.yaml}", &[], "5:14: error: `y.yaml` cannot be read: there is no such file");
    refs("{$ref: '#/paths/~1a'}", &[], "5:14: error: this `$ref` leads back to itself");
    refs(
        "{$ref: '#/paths/~1b'}\n  /b: {$ref: '#/paths/~1a'}",
        &[],
        "5:14: error: this `$ref` leads back to itself; 6:14: error: this `$ref` leads back to itself",
    );
    refs("{$ref: '#/paths/~1c'}", &[], "5:14: error: nothing is where this `$ref` leads");
    refs("{$ref: '#/info'}", &[], "5:14: error: a path item cannot be there");
    refs("{$ref: 5}", &[], "5:14: error: `5` cannot be read: there is no such file");
    refs(
        "{$ref: c.yaml, x-wso2-disable-security: true}",
        &[("c.yaml", "get: {}")],
        "5:22: error: `x-wso2-disable-security` has no effect beside a `$ref`",
    );
    refs(
        "{$ref: c.yaml}",
        &[("c.yaml", "get: {\n")],
        "c.yaml 2:1: error: not YAML: while parsing a node, did not find expected node content",
    );
    refs(
        "{$ref: c.yaml}",
        &[("c.yaml", "$ref: c.yaml")],
        "c.yaml 1:7: error: this `$ref` leads back to itself",
    );
    refs(
        "{$ref: c.yaml}",
        &[("c.yaml", "get: {x-wso2-throttling-tier: Gold}")],
        "c.yaml 1:7: error: `x-wso2-throttling-tier`: limits are not served yet, and without this one more would pass than it allows",
    );
}

#[track_caller]
fn refs(item: &str, files: &[(&str, &str)], expect: &str) {
    let head = "openapi: 3.1.0\ninfo: {title: A, version: 1}\nservers: [{url: 'http://b'}]\npaths:\n  /a: ";
    check(&format!("{head}{item}\n"), files, expect);
}

#[test]
fn versions_are_told_apart() {
    let rest = "info: {title: A, version: 1}\nsecurity: []\npaths: {/*: {get: {}}}\n";
    let servers = "servers: [{url: 'http://b'}]\n";
    for version in ["3.0.0", "3.0.4", "3.1.1", "'3.1.0'", "3.1"] {
        check(&format!("openapi: {version}\n{servers}{rest}"), &[], "GET /* open");
    }
    for version in ["2.0", "'2.0'"] {
        check(&format!("swagger: {version}\nhost: b\nschemes: [http]\n{rest}"), &[], "GET /* open");
    }
    check(&format!("openapi: 3.2.0\n{rest}"), &[], "1:10: error: `openapi: 3.2.0` is not served");
    check(&format!("openapi: 3.10.0\n{rest}"), &[], "1:10: error: `openapi: 3.10.0` is not served");
    check(&format!("swagger: 1.2\n{rest}"), &[], "1:10: error: `swagger: 1.2` is not served");
    check(
        &format!("openapi: 3.0.0\nswagger: 2.0\n{rest}"),
        &[],
        "2:10: error: both `openapi` and `swagger`",
    );
    check(rest, &[], "1:1: error: neither `openapi` nor `swagger` says what this file is");
    check("- a\n", &[], "1:1: error: the file holds a list, not a description of an API");
}

#[test]
fn what_is_missing_or_misspelt_at_the_top_is_told() {
    check(
        "openapi: 3.0.0\n",
        &[],
        "1:1: error: the description has no `info`; 1:1: error: the description has no `paths`",
    );
    check(
        "openapi: 3.0.0\ninfo: {title: '', versoin: 1}\nservers: [{url: 'http://b'}]\nsecurity: []\npathes: {}\npaths: {/*: {get: {}}}\n",
        &[],
        "2:7: error: `info` has no `version`; 2:15: error: `title` is empty; 5:1: warning: `pathes` is no part of a description",
    );
}

#[test]
fn extensions_that_are_unknown_misplaced_or_not_served_are_told() {
    security(
        "x-wso2-disable-securty: true",
        "",
        "9:1: warning: the extension `x-wso2-disable-securty` is unknown; GET /* token",
    );
    security("x-penstock-host: a", "", "9:1: error: the extension `x-penstock-host` is unknown");
    security("x-mine: a", "", "GET /* token");
    security("x-wso2-owner: me\nx-wso2-label: []", "", "GET /* token");
    security("", "x-wso2-cors: {}", "8:14: error: `x-wso2-cors` has no effect here");
    security(
        "",
        "x-wso2-owner: me",
        "8:14: warning: `x-wso2-owner` has no effect here; GET /* token",
    );
    security("x-wso2-throttling-tier: Unlimited", "x-throttling-tier: unlimited", "GET /* token");
    security(
        "",
        "x-throttling-tier: Gold",
        "8:14: error: `x-throttling-tier`: limits are not served yet, and without this one more would pass than it allows",
    );
    security(
        "x-wso2-request-interceptor: java:a.B",
        "",
        "9:1: error: `x-wso2-request-interceptor`: interceptors are not served yet, and this one may refuse or mask what would pass without it",
    );
    security(
        "x-mediation-script: a",
        "",
        "9:1: error: `x-mediation-script`: scripts are not served yet, and the operation would do something else",
    );
    security(
        "x-wso2-response-cache: {enabled: true}",
        "",
        "9:1: warning: `x-wso2-response-cache`: responses are not cached yet: each request goes to the backend; GET /* token",
    );
    security(
        "x-wso2-response-cache: {enabled: false}\nx-wso2-http2-backend-enabled: false",
        "",
        "GET /* token",
    );
}

#[test]
fn an_api_that_asks_for_a_token_needs_an_issuer() {
    let closed = Defaults { response_head_ms: 1, issuers_configured: false };
    let outcome = read("api.yaml".as_ref(), HEAD.as_bytes(), &no_files, &closed);
    assert_eq!(outcome.api, None);
    assert_eq!(told(&outcome), "7:1: error: the API asks for a token, but no issuer is configured");
    assert_eq!(outcome.base_path.as_deref(), Some("/pets/1.0.0"));
    let open = format!("{HEAD}security: []\n");
    assert!(read("api.yaml".as_ref(), open.as_bytes(), &no_files, &closed).api.is_some());
}

#[test]
fn a_refused_file_still_tells_its_base_path_and_hosts() {
    let text = format!(
        "{HEAD}x-penstock-hosts: [A.example, '*.b.example']\nx-wso2-mutual-ssl: mandatory\n"
    );
    let outcome = load(&text, &[]);
    assert_eq!(outcome.api, None);
    assert_eq!(outcome.base_path.as_deref(), Some("/pets/1.0.0"));
    assert_eq!(outcome.hosts, ["a.example", "*.b.example"]);
}

#[test]
fn the_base_path_is_written_or_the_servers_or_the_slug() {
    base_path("x-wso2-basePath: /a/b/", "/a/b");
    base_path("x-wso2-basePath: /", "");
    base_path("servers: [{url: 'http://h/v2/'}]", "/v2");
    base_path("servers: [{url: /v3}]\nx-wso2-production-endpoints: {urls: ['http://b']}", "/v3");
    base_path(
        "servers: [{url: 'http://{h}/{v}', variables: {h: {default: x}, v: {default: 4.0}}}]",
        "/4.0",
    );
    base_path("servers: [{url: 'http://h'}]", "/caf-pets-co/2.0-rc1");
    base_path("x-wso2-basePath: a", "refused");
    base_path("x-wso2-basePath: /a/{version}", "refused");
    base_path("x-wso2-basePath: /a/../b", "refused");
    base_path("x-wso2-basePath: /a?b", "refused");
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
    let found = outcome.base_path.as_deref().unwrap_or("refused");
    assert_eq!(found, expect, "{}", told(&outcome));
    assert_eq!(outcome.api.is_some(), expect != "refused", "{}", told(&outcome));
}

#[test]
fn the_default_version_drops_the_version_wherever_it_stands() {
    default_path("/pets/1.0.0", "/pets");
    default_path("/pets/v1.0.0", "/pets");
    default_path("/1.0.0/pets", "/pets");
    default_path("/1.0.0", "");
    default_path("/pets", "9:1: error: the base path `/pets` does not hold the version `1.0.0`");
}

#[track_caller]
fn default_path(base_path: &str, expect: &str) {
    let text = HEAD.replace("/pets/1.0.0", base_path) + "x-penstock-default-version: true\n";
    let outcome = load(&text, &[]);
    let found = outcome.api.as_ref().and_then(|api| api.default_path.clone());
    assert_eq!(found.unwrap_or_else(|| told(&outcome)), expect);
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
fn servers_are_the_endpoints_where_nothing_else_is() {
    endpoints("servers: [{url: 'https://b/v1'}]", "{}", "P single b/v1 7000");
    endpoints(
        "servers: [{url: 'https://b/v1'}]",
        "{servers: [{url: 'https://c'}]}",
        "P single b/v1 7000; p single c 7000",
    );
    endpoints(
        "servers: [{url: 'http://b'}, {url: 'http://c'}]",
        "{}",
        "4:17: warning: all servers are taken as endpoints, each in turn; P turn b,c 7000",
    );
    endpoints(
        "servers: [{url: /v1}]\nx-wso2-sandbox-endpoints: {urls: ['http://c']}",
        "{}",
        "S single c 7000",
    );
    endpoints(
        "servers: [{url: /v1}]",
        "{}",
        "4:17: error: `/v1` says nothing of where the backend is",
    );
    endpoints("servers: [{url: 'ftp://b'}]", "{}", "4:17: error: the scheme `ftp` is not served");
    endpoints(
        "servers: [{url: 'http://{h}/'}]",
        "{}",
        "4:17: error: the server's variable `h` has no default",
    );
    endpoints("", "{}", "1:1: error: the API has no endpoint");
    endpoints(
        "x-wso2-production-endpoints: {urls: ['http://b']}",
        "{servers: [{url: 'https://c'}]}",
        "3:29: warning: `servers` has no effect here: the API names its endpoints; P single b 7000",
    );
}

#[test]
fn endpoint_sets_that_cannot_be_served_are_refused() {
    let case = |set: &str, expect: &str| {
        endpoints(&format!("x-wso2-production-endpoints: {set}"), "{}", expect)
    };
    case(
        "{type: http, urls: ['http://b', 'http://c']}",
        "4:37: error: `http` takes one URL, here are more",
    );
    case(
        "{type: httpp, urls: ['http://b']}",
        "4:37: error: endpoints of type `httpp` are not served",
    );
    case("{urls: []}", "4:37: error: `urls` is empty");
    case(
        "{url: ['http://b']}",
        "4:30: error: the endpoint set has no `urls`; 4:31: warning: `url` has no effect here",
    );
    case("{urls: ['etcd(b)']}", "4:38: error: endpoints from etcd (`b`) are not served yet");
    case("{urls: ['http://u:p@b']}", "4:38: error: the URL holds a user or a password");
    case(
        "{urls: ['http://b'], securityConfig: {type: BASIC}}",
        "4:51: error: `securityConfig` is not served yet: the backend would be called without its credentials",
    );
    case(
        "{urls: ['http://b'], advanceEndpointConfig: {timeoutInMillis: 0}}",
        "4:92: error: `0` is no time limit",
    );
    case(
        "{urls: ['http://b'], advanceEndpointConfig: {retryConfig: {}}}",
        "4:75: warning: `retryConfig` is not served yet; P single b 7000",
    );
    case("http://b", "4:30: error: `http://b` is no endpoint set");
    case("'#/x-wso2-endpoints/one'", "4:30: error: no endpoint set is named `one`");
}

/// `P` and `S`: the API's production and sandbox endpoints; `p` and `s`: its operation's.
#[track_caller]
fn endpoints(lines: &str, operation: &str, expect: &str) {
    let text = format!(
        "openapi: 3.0.3\ninfo: {{title: A, version: 1}}\npaths: {{/*: {{get: {operation}}}}}\n{lines}\nsecurity: []\n"
    );
    let outcome = load(&text, &[]);
    let mut shown = vec![told(&outcome)];
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
    shown.retain(|line| !line.is_empty());
    assert_eq!(shown.join("; "), expect);
}

fn upstream(api: &Api, index: usize) -> String {
    let set = api.upstreams.get(index).expect("the index leads to a set");
    let kind = match set.kind {
        UpstreamKind::Single => "single",
        UpstreamKind::RoundRobin => "turn",
        UpstreamKind::Failover => "failover",
    };
    let urls: Vec<String> =
        set.endpoints.iter().map(|e| format!("{}{}", e.authority, e.path)).collect();
    format!("{kind} {} {}", urls.join(","), set.response_head_ms)
}

#[test]
fn swagger_2_is_read_as_a_server() {
    swagger(
        "host: B.example:8080\nbasePath: /v2\nschemes: [http, https]",
        "https b.example:8080 /v2",
    );
    swagger("host: b.example\nbasePath: /v2\nschemes: [http]", "http b.example /v2");
    swagger(
        "host: b.example\nbasePath: /v2",
        "3:7: error: `host` without `schemes` leaves open how the backend is called",
    );
    swagger("basePath: /v2", "3:11: error: `/v2` says nothing of where the backend is");
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
    let shown = outcome.api.as_ref().map(|api| {
        let endpoint = &api.upstreams[0].endpoints[0];
        assert_eq!(operations(api), ["GET /* any(read)"]);
        format!(
            "{} {} {}",
            format!("{:?}", endpoint.scheme).to_lowercase(),
            endpoint.authority,
            api.base_path
        )
    });
    assert_eq!(shown.unwrap_or_else(|| first(&told(&outcome))), expect);
}

fn first(lines: &str) -> String {
    lines.split("; ").next().unwrap_or_default().to_owned()
}

#[test]
fn what_holds_for_the_whole_api_is_read() {
    let api = load(
        &format!("{HEAD}x-wso2-transports: [https]\nx-wso2-auth-header: X-Key\nx-penstock-forward-auth-header: true\nx-penstock-upgrades: [SPDY/3]\nx-penstock-hosts: API.example\n"),
        &[],
    )
    .api
    .expect("it is served");
    assert_eq!((api.name.as_str(), api.version.as_str()), ("Pets", "1.0.0"));
    assert_eq!((api.transports.http, api.transports.https), (false, true));
    assert_eq!((api.auth_header.as_str(), api.forward_auth_header), ("x-key", true));
    assert_eq!(
        (api.upgrades, api.hosts),
        (vec!["spdy/3".to_owned()], vec!["api.example".to_owned()])
    );
    let plain = load(HEAD, &[]).api.expect("it is served");
    assert_eq!((plain.transports.http, plain.transports.https), (true, true));
    assert_eq!((plain.auth_header.as_str(), plain.forward_auth_header), ("authorization", false));
    assert_eq!((plain.cors, plain.default_path), (None, None));
}

#[test]
fn what_is_wrong_for_the_whole_api_is_told() {
    security("x-wso2-transports: [htps]", "", "9:21: error: `htps` is no transport");
    security("x-wso2-transports: []", "", "9:20: error: `x-wso2-transports` is empty");
    security("x-wso2-auth-header: 'a b'", "", "9:21: error: `a b` is no header name");
    security(
        "x-wso2-auth-header: Host",
        "",
        "9:21: error: the header `Host` cannot carry a credential",
    );
    security("x-penstock-upgrades: [h2c]", "", "9:23: error: an upgrade to h2c is never passed on");
    security(
        "x-penstock-upgrades: [websocket]",
        "",
        "9:23: warning: `websocket` is always allowed; GET /* token",
    );
    security(
        "x-penstock-hosts: ['http://a']",
        "",
        "9:20: error: `http://a` is more than a host name",
    );
    security("x-penstock-hosts: []", "", "9:19: error: `x-penstock-hosts` is empty");
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
            "9:86: warning: credentials are not allowed to every origin: this has no effect; *    false",
        ),
        ("{access-control-allow-origins: [example.org]}", "9:46: error: `example.org` is no URL"),
        (
            "{access-control-allow-origins: ['https://a/x']}",
            "9:46: error: the origin `https://a/x` has a path",
        ),
        ("{access-control-allow-methods: [FETCH]}", "9:46: error: `FETCH` is no method"),
        ("{access-control-allow-headers: ['a b']}", "9:46: error: `a b` is no header name"),
        (
            "{access-control-allow-origin: ['*']}",
            "9:15: error: `access-control-allow-origin` means nothing here",
        ),
    ] {
        let outcome = load(&format!("{HEAD}x-wso2-cors: {rules}\n"), &[]);
        let mut shown = vec![told(&outcome)];
        shown.extend(outcome.api.map(|api| match api.cors {
            None => "none".to_owned(),
            Some(c) => {
                let lists = [c.allow_origins, c.allow_methods, c.allow_headers, c.expose_headers];
                format!("{} {}", lists.map(|list| list.join(",")).join(" "), c.allow_credentials)
            }
        }));
        shown.retain(|line| !line.is_empty());
        assert_eq!(shown.join("; "), expect, "{rules}");
    }
}

#[test]
fn every_problem_is_told_at_once_with_a_way_out() {
    let text = format!(
        "{HEAD}x-wso2-mutual-ssl: mandatory\nsecurity: [{{k: []}}]\nx-penstock-hots: [a]\n"
    )
    .replace("/*: {get: {}}", "a: {}\n  /*: {get: {x-throttling-tier: Gold}}");
    let outcome = load(&text, &[]);
    assert_eq!(outcome.diagnostics.len(), 5, "{}", told(&outcome));
    assert!(outcome.diagnostics.iter().all(|diagnostic| diagnostic.help.is_some()));
    let last = outcome.diagnostics.last().map(ToString::to_string);
    let expect = "api.yaml:12:1: error: the extension `x-penstock-hots` is unknown\n    help: did you mean `x-penstock-hosts`?";
    assert_eq!(last.as_deref(), Some(expect));
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

const DEFAULTS: Defaults = Defaults { response_head_ms: 7_000, issuers_configured: true };

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

/// `expect`: the findings, then the operations of what is served.
#[track_caller]
fn check(text: &str, files: &[(&str, &str)], expect: &str) {
    let outcome = load(text, files);
    let mut shown = vec![told(&outcome)];
    shown.extend(outcome.api.iter().flat_map(operations));
    shown.retain(|line| !line.is_empty());
    assert_eq!(shown.join("; "), expect, "{text}");
}

/// The findings, each with its place; the file's name only where it is another one.
fn told(outcome: &Outcome) -> String {
    let lines = outcome.diagnostics.iter().map(|diagnostic| {
        let line = diagnostic.to_string();
        let line = line.lines().next().unwrap_or_default().to_owned();
        let line = line.strip_prefix("api.yaml:").unwrap_or(&line).trim_start().to_owned();
        line.replacen(
            ".yaml:",
            ".yaml ",
            usize::from(!line.starts_with(|c: char| c.is_ascii_digit())),
        )
    });
    lines.collect::<Vec<_>>().join("; ")
}

fn operations(api: &Api) -> Vec<String> {
    let line = |op: &model::Operation| {
        let asks = match &op.security {
            Security::Open => "open".to_owned(),
            Security::Token(ScopeRule::Anything) => "token".to_owned(),
            Security::Token(ScopeRule::AnyOf(scopes)) => format!("any({})", scopes.join(" ")),
            Security::Token(ScopeRule::AllOf(scopes)) => format!("all({})", scopes.join(" ")),
        };
        format!("{} {} {asks}", op.method.as_str(), op.template)
    };
    api.operations.iter().map(line).collect()
}
