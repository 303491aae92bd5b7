//! Projects of API Manager: `api.yaml`, and the description in `Definitions`.

use model::{Api, ClientTrust, Lifecycle};

use super::{Outcome, load, operations, shown};
use crate::report::assert_lines;

/// A project, with other members of an export that have no effect on requests.
const PROJECT: &str = "\
type: api
version: v4.3.0
data:
  id: 5b1b7a0a-6f8c-4f8f-9f0e-3f1a2b3c4d5e
  name: Pets
  context: /pets
  version: 1.0.0
  provider: admin
  lifeCycleStatus: PUBLISHED
  isDefaultVersion: false
  enableSchemaValidation: false
  type: HTTP
  audiences: [all]
  transport: [http, https]
  tags: []
  policies: [Gold, Unlimited]
  apiThrottlingPolicy: Unlimited
  authorizationHeader: Authorization
  maxTps: null
  mediationPolicies: []
  apiPolicies: {request: [], response: [], fault: []}
  advertiseInfo: {advertised: false, vendor: WSO2}
  endpointImplementationType: ENDPOINT
  keyManagers: [all]
  operations:
  - {id: '', target: /dogs, verb: GET, operationPolicies: {request: [], response: [], fault: []}}
";
const ENDPOINT: &str = "  endpointConfig:
    endpoint_type: http
    production_endpoints: {url: 'http://127.0.0.1:9000/p', config: null}
";
/// A description whose own extensions give way to those of the project.
const SWAGGER: &str = "\
openapi: 3.0.1
info: {title: Old, version: '0'}
servers: [{url: 'http://127.0.0.1:1/old'}]
x-wso2-basePath: /old
x-wso2-auth-header: X-Old
x-wso2-application-security: {security-types: [basic_auth]}
x-penstock-strict-paths: true
components: {securitySchemes: {default: {type: oauth2}}}
security: [{default: []}]
paths:
  /dogs: {get: {security: [{default: [read]}], x-auth-type: Application User}}
";

fn project(more: &str, files: &[(&str, &str)]) -> Outcome {
    let files = [&[("Definitions/swagger.yaml", SWAGGER)], files].concat();
    load(&format!("{PROJECT}{more}"), &files)
}

/// The API of a project. Checks its diagnostics.
#[track_caller]
fn served(more: &str, expect: &str) -> Api {
    let outcome = project(&format!("{ENDPOINT}{more}"), &[]);
    assert_lines(&shown(&outcome), expect);
    outcome.api.expect("it is served")
}

#[test]
fn a_project_is_its_description_with_what_api_yaml_says() {
    let api = served("", "");
    assert_eq!((api.name.as_str(), api.version.as_str()), ("Pets", "1.0.0"));
    assert_eq!(
        (api.base_path.as_str(), api.auth_header.as_str()),
        ("/pets/1.0.0", "authorization")
    );
    assert_eq!(api.source.to_str(), Some("api.yaml"));
    assert_eq!((api.lifecycle, api.plan, api.default_path), (Lifecycle::Published, None, None));
    assert!(api.strict_paths, "what api.yaml does not say");
    let urls: Vec<_> = api.upstreams.iter().flat_map(|set| &set.endpoints).collect();
    assert_eq!(urls.len(), 1);
    assert_eq!(urls[0].authority, "127.0.0.1:9000");
    let api = served(
        "  securityScheme: [oauth2]\n  responseCachingEnabled: true\n  cacheTimeout: 60\n",
        "",
    );
    assert_eq!(operations(&api), ["GET /dogs any(read) ApplicationUser"]);
    assert!(api.caches);
}

#[test]
fn what_an_api_is_called_where_and_how_is_in_api_yaml() {
    let of = |from: &str, to: &str| {
        let text = format!("{PROJECT}{ENDPOINT}").replace(from, to);
        assert!(text.contains(to));
        load(&text, &[("Definitions/swagger.yaml", SWAGGER)]).api.expect("it is served")
    };
    let base_path = |context: &str| of("context: /pets", &format!("context: {context}")).base_path;
    assert_eq!(base_path("/t/example.org/pets"), "/t/example.org/pets/1.0.0");
    assert_eq!(base_path("'/{version}/pets'"), "/1.0.0/pets");
    let default = of("isDefaultVersion: false", "isDefaultVersion: true").default_path;
    assert_eq!(default.as_deref(), Some("/pets"));
    assert_eq!(of("PUBLISHED", "BLOCKED").lifecycle, Lifecycle::Blocked);
    assert_eq!(of("PUBLISHED", "CREATED").lifecycle, Lifecycle::Created);
    assert!(!of("transport: [http, https]", "transport: [https]").transports.http);
    assert_eq!(of("Header: Authorization", "Header: X-Auth").auth_header, "x-auth");
    assert_eq!(of("Policy: Unlimited", "Policy: Bronze").plan.as_deref(), Some("Bronze"));
    let limited = of("maxTps: null", "maxTps: {production: 10, productionTimeUnit: MINUTE}");
    assert!(limited.backend.production.is_some());
    assert!(of("", "").subscription);
    for plan in ["DefaultSubscriptionless", "AsyncDefaultSubscriptionless"] {
        assert!(!of("[Gold, Unlimited]", &format!("[{plan}]")).subscription);
    }
    assert!(of("[Gold, Unlimited]", "[DefaultSubscribers]").subscription);
    let cors = "  corsConfiguration: {corsConfigurationEnabled: true, accessControlAllowOrigins: ['https://a.example'], \
                accessControlAllowCredentials: true, accessControlAllowHeaders: [X-A], accessControlAllowMethods: [GET]}\n";
    assert_eq!(served(cors, "").cors.expect("it is on").allow_origins, ["https://a.example"]);
}

const CERTIFIED: [(&str, &str); 2] = [
    (
        "Client-certificates/client_certificates.yaml",
        "type: client_certificates\ndata:\n- {alias: a, certificate: a.crt, tierName: Gold}\n",
    ),
    ("Client-certificates/a.crt", include_str!("client.crt")),
];

#[test]
fn security_schemes_are_kinds_of_credential_and_certificates() {
    let scope = "any(read) ApplicationUser";
    for (schemes, expect, needs_certificate) in [
        ("[oauth2]", scope.to_owned(), false),
        ("[]", scope.to_owned(), false),
        ("[oauth2, oauth_basic_auth_api_key_mandatory]", scope.to_owned(), false),
        ("[api_key]", "header:apikey query:apikey".to_owned(), false),
        ("[basic_auth]", "login:any(read)".to_owned(), false),
        ("[oauth2, api_key]", format!("{scope} header:apikey query:apikey"), false),
        ("[oauth2, mutualssl]", format!("{scope} optional"), false),
        ("[oauth2, mutualssl, oauth_basic_auth_api_key_mandatory]", scope.to_owned(), false),
        ("[oauth2, mutualssl, mutualssl_mandatory]", format!("{scope} optional"), true),
        (
            "[mutualssl, oauth2, mutualssl_mandatory, oauth_basic_auth_api_key_mandatory]",
            scope.to_owned(),
            true,
        ),
        ("[mutualssl]", format!("{scope} optional"), true),
        ("[mutualssl_mandatory]", format!("{scope} optional"), true),
        ("[oauth2, mutualssl_mandatory]", format!("{scope} optional"), true),
    ] {
        let more = format!("{ENDPOINT}  securityScheme: {schemes}\n");
        let outcome = project(&more, &CERTIFIED);
        assert_lines(&shown(&outcome), "");
        let api = outcome.api.expect("it is served");
        assert_eq!(operations(&api), [format!("GET /dogs {expect}")], "{schemes}");
        assert_eq!(api.mutual_tls, needs_certificate, "{schemes}");
    }
    // Any certificate of `[tls] client_ca` would be accepted.
    let empty = [("Client-certificates/client_certificates.yaml", "data: []\n")];
    for (scheme, files) in
        [("mutualssl", &[][..]), ("mutualssl", &empty), ("mutualssl_mandatory", &empty)]
    {
        let more = format!("{ENDPOINT}  securityScheme: [oauth2, {scheme}]\n");
        let outcome = project(&more, files);
        let expect = format!("30:3: error: `{scheme}`: the project has no");
        assert_lines(&shown(&outcome), &expect);
        assert!(outcome.api.is_none());
    }
    let keys = served("  securityScheme: [api_key]\n  apiKeyHeader: X-Key\n", "");
    assert_eq!(operations(&keys), ["GET /dogs header:x-key query:apikey"]);
}

#[test]
fn client_certificates_are_those_of_the_project() {
    let [(_, listed), (_, pem)] = CERTIFIED;
    let more = format!("{ENDPOINT}  securityScheme: [mutualssl]\n");
    for (folder, production, sandbox) in [("", 1, 1), ("/PRODUCTION", 1, 0), ("/SANDBOX", 0, 1)] {
        let list = format!("Client-certificates{folder}/client_certificates.yaml");
        let file = format!("Client-certificates{folder}/a.crt");
        let outcome = project(&more, &[(&list, listed), (&file, pem)]);
        assert_lines(&shown(&outcome), "");
        let trust = outcome.api.and_then(|api| api.client_trust).expect("there is a list");
        let ClientTrust { production: first, sandbox: second } = &*trust;
        assert_eq!((first.hashes.len(), second.hashes.len()), (production, sandbox), "{folder}");
    }
    let missing = [("Client-certificates/client_certificates.yaml", listed)];
    assert_lines(
        &shown(&project(&more, &missing)),
        "30:3: error: `Client-certificates/a.crt`: there is no such file",
    );
}

#[test]
fn endpoints_are_those_of_the_endpoint_configuration() {
    let sets = |config: &str, expect: &str| {
        let outcome = project(&format!("  endpointConfig:\n{config}"), &[]);
        assert_lines(&shown(&outcome), expect);
        let api = outcome.api.expect("it is served");
        let set = |index: Option<usize>| {
            let set = index.and_then(|index| api.upstreams.get(index));
            set.map_or_else(String::new, |set| {
                let urls = set.endpoints.iter().map(|one| one.authority.as_str());
                format!("{:?} {}", set.kind, urls.collect::<Vec<_>>().join(" "))
            })
        };
        (set(api.production), set(api.sandbox))
    };
    let two = "    production_endpoints: {url: 'http://127.0.0.1:1'}\n    sandbox_endpoints: {url: 'http://127.0.0.1:2'}\n";
    let single = |port: u16| format!("Single 127.0.0.1:{port}");
    assert_eq!(sets(two, ""), (single(1), single(2)));
    let failover = format!(
        "    endpoint_type: failover\n    failOver: 'True'\n{two}    production_failovers: [{{url: 'http://127.0.0.1:3'}}]\n"
    );
    assert_eq!(sets(&failover, ""), ("Failover 127.0.0.1:1 127.0.0.1:3".to_owned(), single(2)));
    let balanced = "    endpoint_type: load_balance\n    algoCombo: org.apache.synapse.endpoints.algorithms.RoundRobin\n    \
                    sandbox_endpoints: [{url: 'http://127.0.0.1:1'}, {url: 'http://127.0.0.1:2'}]\n";
    let robin = "RoundRobin 127.0.0.1:1 127.0.0.1:2".to_owned();
    assert_eq!(sets(balanced, ""), (String::new(), robin));
    let sticky = format!("{two}    sessionManagement: soap\n");
    sets(&sticky, "30:5: warning: `sessionManagement`");
    let slow = "    production_endpoints: {url: 'http://127.0.0.1:1', config: {actionDuration: '3000', actionSelect: discard}}\n";
    sets(slow, "28:88: warning: `actionSelect`");
    let secured = format!(
        "{two}    endpoint_security:\n      production: {{enabled: true, type: BASIC, username: u, password: p, clientId: null, customParameters: {{}}}}\n      \
         sandbox: {{enabled: false, type: NONE, username: x}}\n"
    );
    sets(&secured, "31:19: warning: the secret");
    let first = |config: &str| {
        let api = project(&format!("  endpointConfig:\n{config}"), &[]).api.expect("it is served");
        let number = api.production.expect("there is a set");
        api.upstreams.into_iter().nth(number).expect("it is listed")
    };
    assert_eq!(first(slow).response_head_ms, 3_000);
    assert!(first(&secured).credential.is_some());
}

#[test]
fn what_is_not_served_is_reported_where_it_is_written() {
    let wrong = |more: &str, expect: &str| {
        let outcome = project(more, &[]);
        assert_lines(&shown(&outcome), expect);
        assert_eq!(outcome.api, None);
        assert_eq!(outcome.base_path.as_deref(), Some("/pets/1.0.0"), "the gateway responds there");
    };
    let with = |more: &str, expect: &str| wrong(&format!("{ENDPOINT}{more}"), expect);
    with("  securityScheme: [oauth, oauth2]\n", "30:20: error: unknown security scheme `oauth`");
    with("  threatProtectionPolicies: {list: [{policyId: a}]}\n", "30:3: error: unchecked");
    with("  apiThrottlingPolicy: Gold\n", "30:3: error: duplicate key `apiThrottlingPolicy`");
    with("  responseCachingEnabled: maybe\n", "30:27: error: `enabled` must be true or false");
    wrong(
        "  endpointConfig: {endpoint_type: awslambda, access_method: role-supplied}\n",
        "27:35: error: `awslambda` are not; 27:46: warning: `access_method`",
    );
    wrong("  endpointConfig: {endpoint_type: http}\n", "27:3: error: no URL");
    wrong("  endpointConfig: {production_endpoints: {url: 'ftp://a'}}\n", "27:48: error: ftp");
    for (from, to, expect) in [
        ("type: HTTP", "type: WS", "12:3: error: only APIs of type HTTP"),
        ("audiences: [all]", "audiences: [a]", "13:3: error: tokens for others"),
        ("keyManagers: [all]", "keyManagers: [b]", "24:3: error: tokens of all issuers"),
        ("Validation: false", "Validation: true", "11:3: error: schemaValidation"),
        ("Type: ENDPOINT", "Type: INLINE", "23:3: error: mock"),
        ("advertised: false", "advertised: true", "22:19: error: only advertised"),
        (
            "Policies: {request: []",
            "Policies: {request: [{a: b}]",
            "21:3: error: `apiPolicies`; 26:40: error: policies of operations",
        ),
        ("Status: PUBLISHED", "Status: PUBLIC", "9:20: error: unknown state `PUBLIC`"),
        ("Policy: Unlimited", "Policy: Nobody", "17:24: error: Nobody"),
        ("tags: []", "tagz: []", "15:3: warning: unknown key `tagz`"),
    ] {
        let text = format!("{PROJECT}{ENDPOINT}").replace(from, to);
        let outcome = load(&text, &[("Definitions/swagger.yaml", SWAGGER)]);
        assert_lines(&shown(&outcome), expect);
    }
    let none = load(&format!("{PROJECT}{ENDPOINT}"), &[]);
    assert_lines(&shown(&none), "error: `Definitions/swagger.yaml` cannot be read");
    assert_eq!(none.base_path.as_deref(), Some("/pets/1.0.0"));
    let product = load(&format!("{PROJECT}{ENDPOINT}").replace("type: api", "type: mcp"), &[]);
    assert!(shown(&product)[0].contains("error"), "{product:?}");
    // Errors in the description are reported there.
    let broken = SWAGGER.replace("Application User", "Nobody");
    let files = [("Definitions/swagger.yaml", broken.as_str())];
    let outcome = load(&format!("{PROJECT}{ENDPOINT}"), &files);
    assert_lines(&shown(&outcome), "Definitions/swagger.yaml 11:61: error: `Nobody`");
}
