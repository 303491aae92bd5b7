//! penstock.toml: settings, diagnostics, and agreement with the manual.

use std::path::{Path, PathBuf};

use base::limits;
use model::{AccessLog, FaultStatus, Http2Listeners, KeySource, LogFormat};

use super::*;
use crate::report::assert_lines;

mod control;
mod credentials;
mod issuers;
mod ldap;
mod manual;
mod providers;
mod services;

const SECRET: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

const FULL: &str = r#"
[gateway]
http = "127.0.0.1:8280"
https = "[::1]:8243"
workers = 4
apis = ["apis/", "/srv/more.yaml"]
plans = ["plans.toml", "policies.yaml"]
applications = ["applications/", "/srv/a.toml"]
data = "var"
trusted_proxies = ["10.0.0.0/8", "192.0.2.7", "2001:db8::/32"]
fault_status = "http"
dpop_nonce = true
strict_paths = true
http2 = "https"
drain_s = 5
response_head_ms = 1_000
try_ms = 500
retry_budget_percent = 10
connect_ms = 2_000
nameservers = ["10.0.0.2", "[fd00::2]:5353"]
source_addresses = ["10.0.0.5", "fd00::5"]
stall_ms = 3_000
head_ms = 4_000
idle_ms = 5_000
connections_max = 100
client_connections_max = 50
client_requests_max = 40
api_requests_max = 30
endpoint_waiting_max = 25
min_rate = 20
held_body_bytes_max = 40
held_bytes_max = 50
[integration]
http = "127.0.0.1:8290"
https = "127.0.0.1:8253"
http2 = "http"
artifacts = ["orders.car", "/srv/mi"]
cors_origins = ["https://Shop.example:443"]
cors_headers = ["X-Mine"]
json_auto_primitive = false
json_string_pattern = "0.*"
json_auto_array = false
json_read_multiple = false
json_write_multiple = true
json_null_for_empty = false
json_nil = true
json_namespaces = true
json_namespace_separator = "-"
json_namespace_declarations = true
[[service]]
name = "StockQuote"
security = ["resident", "partner"]
scopes = ["quotes:read"]
plans = ["10KPerMin", "50KPerMin"]
[tls]
cert = "tls.crt"
key = "tls.key"
client_ca = ["clients.pem"]
client_certificate = "required"
forward_client_certificate = true
client_certificate_header = "X-Client"
[[tls.sni]]
hosts = ["*.Example.org"]
cert = "a.crt"
key = "a.key"
[admin]
listen = "127.0.0.1:9201"
[upstream_tls]
ca = ["ca.pem"]
system_roots = false
[[upstream_tls.endpoint]]
hosts = ["*.internal", "::1"]
cert = "client.crt"
key = "client.key"
ca = ["internal.pem"]
[access_log]
to = "file"
file = "access.log"
[log]
level = "debug"
format = "json"
[control]
https = "127.0.0.1:9443"
issuer = "https://id.example/oauth2/token"
keys = ["etc/new.key", "etc/old.key"]
access_token_s = 600
refresh_token_s = 7200
access_token_claims = ["email"]
admin_password = { env = "SHARED" }
[[control.scope]]
name = "pets:write"
roles = ["keeper", "admin"]
[control.api_keys]
validity_s = 600
[[control.api_keys.api]]
name = "Pets"
versions = ["1.0.0", "v2"]
[[control.api_keys.api]]
name = "Orders"
[control.ldap]
urls = ["ldap://ldap.example", "ldap://[::1]:3890"]
start_tls = true
bind_dn = "cn=penstock,dc=example"
bind_password = { env = "SHARED" }
base = "ou=people,dc=example"
filter = "(sAMAccountName={user})"
name = "sAMAccountName"
id = "objectGUID"
groups = "ou"
group_base = "ou=groups,dc=example"
group_filter = "(memberUid={user})"
[[control.ldap.claim]]
name = "email"
from = "mail"
[[control.ldap.role]]
name = "admin"
groups = ["operators", "staff"]
[[control.provider]]
name = "corp"
title = "Corporate account"
issuer = "https://id.example/realms/staff"
client_id = "penstock"
client_secret = { env = "SHARED" }
scopes = ["profile", "email"]
user = "email"
groups = "realm_access.roles"
[[control.provider.claim]]
name = "email"
from = "email"
[[control.provider.role]]
name = "reader"
groups = ["/staff"]
[store]
url = "postgres://penstock@db.example/penstock"
[quotas]
redis = "rediss://gateway@redis.example:6380/1"
password = { env = "SHARED" }
ca = ["etc/redis.pem"]
when_down = "closed"
[snapshot]
directory = "var/snapshots"
enabled = true
[backend_jwt]
key = { env = "SIGNING" }
certificate = "signing.crt"
header = "X-Who"
issuer = "gateway"
dialect = "https://claims.example"
expires_s = 60
[[issuer]]
name = "resident"
iss = "https://localhost:9443/oauth2/token"
jwks = "keys/jwks.json"
algorithms = ["RS256", "ES256"]
audiences = ["a", "b"]
leeway_s = 300
padded_segments = true
api_keys = true
internal_keys = true
allow_unlimited = true
[[issuer]]
name = "partner"
iss = "https://partner.example"
jwks = "https://partner.example/keys?v=1"
[[issuer]]
name = "pem"
iss = "pem"
pem = "keys/key.pem"
[[credential]]
name = "basic"
type = "basic"
username = "gateway"
password = { env = "SHARED" }
[[credential]]
name = "digest"
type = "digest"
username = "gateway"
password = { vault = "secret/data/a#password" }
[[credential]]
name = "header"
type = "api_key"
header = "X-Key"
key = { file = "keys/secret" }
[[credential]]
name = "query"
type = "api_key"
query = "key"
key = { env = "SHARED" }
[[credential]]
name = "client"
type = "oauth2"
token_url = "https://idp.example/token"
client_id = "gateway"
client_secret = { env = "SHARED" }
scopes = ["orders"]
[[credential]]
name = "lake"
type = "aws"
access_key_id = "AKID"
secret_access_key = { env = "SHARED" }
session_token = { file = "keys/secret" }
region = "eu-central-1"
service = "s3"
[[login]]
name = "staff"
issuer = "https://partner.example"
authorize_url = "https://partner.example/authorize"
token_url = "https://partner.example/token"
logout_url = "https://partner.example/logout"
revoke_url = "https://partner.example/revoke"
client_id = "gateway"
client_secret = { env = "SHARED" }
scopes = ["openid", "orders"]
after_logout = "/bye"
session_s = 60
max_age_s = 30
key = { env = "SHARED" }
[[user]]
name = "ann"
password_hash = "$argon2id$v=19$m=64,t=2,p=1$c2FsdHNhbHQ$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
scopes = ["read"]
[[issuer]]
name = "shared"
iss = "shared"
secret = { env = "SHARED" }
algorithms = ["HS256"]
[[issuer]]
name = "shared too"
iss = "shared too"
secret = { file = "keys/secret" }
algorithms = ["HS512"]
[[issuer]]
issuer = "https://idp.example/realms/a"
[issuer.introspection]
url = "https://idp.example/introspect"
client_id = "gateway"
client_secret = { file = "keys/secret" }
cache_s = 60
[issuer.passwords]
url = "https://idp.example/token"
client_id = "gateway"
client_secret = { file = "keys/secret" }
scopes = ["read"]
[issuer.revocations]
url = "https://idp.example/revocations"
client_id = "gateway"
client_secret = { env = "SHARED" }
[vault]
url = "https://vault.example/"
namespace = "team-a"
refresh_s = 30
[vault.kubernetes]
role = "gateway"
file = "keys/secret"
mount = "k8s/prod/"
"#;

/// A second login method at Vault, where only one is allowed.
const APP_ROLE: &str = "[vault]
url = \"https://vault.example\"
[vault.approle]
role_id = \"a\"
secret_id = { env = \"SHARED\" }
mount = \"roles\"
";

#[test]
fn snapshots_are_where_the_gateway_keeps_its_state() {
    for (keys, sections, expect) in [
        ("", "", None),
        ("data = \"var\"", "", Some("etc/var/snapshots")),
        ("data = \"var\"", "[snapshot]", Some("etc/var/snapshots")),
        ("data = \"var\"", "[snapshot]\nenabled = false", None),
        ("data = \"var\"", "[snapshot]\ndirectory = \"s\"", Some("etc/s")),
        ("", "[snapshot]\ndirectory = \"s\"", Some("etc/s")),
        ("", "[snapshot]\ndirectory = \"s\"\nenabled = false", None),
        ("", "[snapshot]\nenabled = false", None),
    ] {
        let (settings, diagnostics) =
            load(&format!("[gateway]\nhttp = \"127.0.0.1:1\"\n{keys}\n{sections}\n"));
        assert_eq!(diagnostics, []);
        let folder = settings.expect("it is valid").snapshot;
        assert_eq!(folder.as_deref(), expect.map(Path::new), "{keys} {sections}");
    }
    check(
        "[gateway]\nhttp = \"127.0.0.1:1\"\n[snapshot]\nenabled = true\n",
        "3:1: there is no `directory` in [snapshot]",
    );
}

#[test]
fn every_key_reaches_the_settings() {
    let (settings, diagnostics) = load(FULL);
    assert_eq!(diagnostics, []);
    let settings = settings.expect("it is complete");
    let gateway = &settings.gateway;
    assert_eq!(gateway.http, "127.0.0.1:8280".parse().ok());
    assert_eq!(gateway.https, "[::1]:8243".parse().ok());
    assert_eq!(gateway.workers, Some(4));
    assert_eq!(gateway.apis, [PathBuf::from("etc/apis/"), PathBuf::from("/srv/more.yaml")]);
    assert_eq!(gateway.plans.files, [Path::new("etc/plans.toml"), Path::new("etc/policies.yaml")]);
    assert_eq!(gateway.applications, [Path::new("etc/applications/"), Path::new("/srv/a.toml")]);
    let ldap = settings.control.as_ref().and_then(|control| control.ldap.as_ref());
    let ldap = ldap.expect("there is one");
    assert_eq!((ldap.urls.len(), ldap.start_tls), (2, true));
    assert_eq!(ldap.bind_password, SECRET);
    assert_eq!([&*ldap.bind_dn, &ldap.base], ["cn=penstock,dc=example", "ou=people,dc=example"]);
    assert_eq!([&*ldap.filter, &ldap.name], ["(sAMAccountName={user})", "sAMAccountName"]);
    assert_eq!([&*ldap.id, &ldap.groups], ["objectGUID", "ou"]);
    let searched =
        ldap.group_search.as_ref().map(|(base, filter)| (base.as_str(), filter.as_str()));
    assert_eq!(searched, Some(("ou=groups,dc=example", "(memberUid={user})")));
    let groups = vec!["operators".to_owned(), "staff".to_owned()];
    assert_eq!(ldap.mapping.roles, [("admin".to_owned(), groups)]);
    assert_eq!(ldap.mapping.claims, [("email".to_owned(), "mail".to_owned())]);
    let clients = settings.tls.clients.as_ref().expect("a section");
    assert_eq!(clients.header.as_deref(), Some("X-Client"));
    let lifetimes = settings.control.as_ref().map(|control| control.lifetimes);
    assert_eq!(lifetimes, Some(model::TokenLifetimes { access_s: 600, refresh_s: 7_200 }));
    let control = settings.control.as_ref().expect("a section");
    let roles = ["keeper", "admin"].map(str::to_owned).to_vec();
    assert_eq!(control.scopes, [("pets:write".to_owned(), roles)]);
    assert_eq!(control.access_token_claims, ["email"]);
    let keys = settings.control.as_ref().and_then(|control| control.api_keys.as_ref());
    let keys = keys.map(|keys| (keys.validity_s, keys.apis.as_slice()));
    let apis = [("Pets", "1.0.0"), ("Pets", "v2"), ("Orders", "*")];
    let apis = apis.map(|(name, version)| (name.to_owned(), version.to_owned()));
    assert_eq!(keys, Some((600, apis.as_slice())));
    let providers = settings.control.as_ref().map(|control| control.providers.as_slice());
    let Some([provider]) = providers else { panic!("{providers:?}") };
    assert_eq!([&*provider.name, &provider.title], ["corp", "Corporate account"]);
    assert_eq!([&*provider.client_id, &provider.client_secret], ["penstock", SECRET]);
    assert_eq!(provider.scopes, ["openid", "profile", "email"]);
    assert_eq!([&*provider.user, &provider.groups], ["email", "realm_access.roles"]);
    assert_eq!(provider.mapping.roles, [("reader".to_owned(), vec!["/staff".to_owned()])]);
    let login = settings.logins.first().expect("there is one");
    assert_eq!((login.name.as_str(), login.client_id.as_str()), ("staff", "gateway"));
    assert_eq!((login.scopes.join(" ").as_str(), login.session_s), ("openid orders", 60));
    assert_eq!(login.max_age_s, Some(30));
    assert_eq!((login.after_logout.as_str(), login.key.as_slice()), ("/bye", SECRET.as_bytes()));
    let endpoints = login.endpoints.as_ref().expect("it has some");
    assert_eq!(endpoints.logout.as_deref(), Some("https://partner.example/logout"));
    assert_eq!(endpoints.revoke.as_deref(), Some("https://partner.example/revoke"));
    let (_, lake) = settings.credentials.last().expect("there are some");
    let model::BackendCredential::Aws(lake) = &**lake else { panic!("{lake:?}") };
    assert_eq!((lake.access_key_id.as_str(), lake.region.as_str()), ("AKID", "eu-central-1"));
    assert_eq!((lake.service.as_str(), lake.session_token.is_some()), ("s3", true));
    let integration = &settings.integration;
    assert_eq!(integration.http, "127.0.0.1:8290".parse().ok());
    assert_eq!(integration.https, "127.0.0.1:8253".parse().ok());
    assert_eq!(integration.http2, Some(Http2Listeners { http: true, https: false }));
    assert_eq!(integration.artefacts, [Path::new("etc/orders.car"), Path::new("/srv/mi")]);
    let [service] = integration.rules.services.as_slice() else { panic!("one section") };
    let model::Security::Required(accepts) = &service.access.security else {
        panic!("it has some")
    };
    let token = accepts.token.as_ref().expect("tokens are accepted");
    assert_eq!(
        (service.name.as_str(), token.issuers.as_slice()),
        ("StockQuote", ["resident", "partner"].map(str::to_owned).as_slice())
    );
    assert_eq!(token.scopes, model::ScopeRule::AnyOf(vec!["quotes:read".to_owned()]));
    assert_eq!(service.access.plans, ["10KPerMin", "50KPerMin"]);
    let cors = integration.rules.cors.as_ref().expect("it has origins");
    assert_eq!(cors.allow_origins, ["https://shop.example"]);
    assert_eq!(cors.allow_headers, ["X-Mine"]);
    let json: Vec<_> = integration.rules.json.values().map(String::as_str).collect();
    let expect = ["true", "false", "false", "0.*", "true", "false", "false", "-", "true", "true"];
    assert_eq!(json, expect);
    assert_eq!(gateway.data, Path::new("etc/var"));
    let proxies: Vec<String> =
        gateway.trusted_proxies.iter().map(|(ip, bits)| format!("{ip}/{bits}")).collect();
    assert_eq!(proxies, ["10.0.0.0/8", "192.0.2.7/32", "2001:db8::/32"]);
    assert_eq!(
        (gateway.fault_status, gateway.drain_s, gateway.connections_max),
        (FaultStatus::Http, 5, 100)
    );
    assert_eq!((gateway.client_connections_max, gateway.client_requests_max), (50, 40));
    assert_eq!((gateway.api_requests_max, gateway.min_rate), (30, 20));
    assert_eq!(gateway.endpoint_waiting_max, 25);
    let sources: Vec<_> = gateway.source_addresses.iter().map(ToString::to_string).collect();
    assert_eq!(sources, ["10.0.0.5", "fd00::5"]);
    assert_eq!((gateway.held_body_bytes_max, gateway.held_bytes_max), (40, 50));
    assert!(gateway.strict_paths && gateway.dpop_nonce);
    assert_eq!(gateway.http2, Http2Listeners { http: false, https: true });
    let waits = [
        gateway.response_head_ms,
        gateway.connect_ms,
        gateway.stall_ms,
        gateway.head_ms,
        gateway.idle_ms,
    ];
    assert_eq!(waits, [1_000, 2_000, 3_000, 4_000, 5_000]);
    assert_eq!((gateway.try_ms, gateway.retry_budget_percent), (Some(500), 10));
    let nameservers: Vec<_> = gateway.nameservers.iter().map(ToString::to_string).collect();
    assert_eq!(nameservers, ["10.0.0.2:53", "[fd00::2]:5353"]);
    let pair = settings.tls.default.as_ref().map(|pair| (pair.cert.as_path(), pair.key.as_path()));
    assert_eq!(pair, Some((Path::new("etc/tls.crt"), Path::new("etc/tls.key"))));
    let [sni] = settings.tls.sni.as_slice() else { panic!("there is one") };
    assert_eq!(
        (sni.hosts.as_slice(), sni.files.key.as_path()),
        (&["*.example.org".to_owned()][..], Path::new("etc/a.key"))
    );
    assert_eq!(settings.admin.listen, "127.0.0.1:9201".parse().ok());
    let [endpoint] = settings.upstream_tls.endpoints.as_slice() else { panic!("there is one") };
    assert_eq!(endpoint.hosts, ["*.internal", "::1"]);
    assert_eq!(endpoint.ca, [Path::new("etc/internal.pem")]);
    let identity = endpoint.identity.as_ref().map(|pair| (pair.cert.as_path(), pair.key.as_path()));
    assert_eq!(identity, Some((Path::new("etc/client.crt"), Path::new("etc/client.key"))));
    assert_eq!(
        (settings.upstream_tls.ca, settings.upstream_tls.system_roots),
        (vec![PathBuf::from("etc/ca.pem")], false)
    );
    assert_eq!(settings.access_log, AccessLog::File(PathBuf::from("etc/access.log")));
    assert_eq!((settings.log.level.as_str(), settings.log.format), ("debug", LogFormat::Json));
}

#[test]
fn absent_keys_have_their_defaults() {
    let settings = load("[gateway]\nhttp = \"127.0.0.1:0\"\n").0.expect("one listener is enough");
    let gateway = &settings.gateway;
    assert_eq!((gateway.https, gateway.workers, settings.admin.listen), (None, None, None));
    assert_eq!(
        (gateway.apis.as_slice(), gateway.data.as_path()),
        (&[PathBuf::from("etc/apis/")][..], Path::new("etc/data/"))
    );
    assert_eq!(
        (gateway.fault_status, gateway.drain_s),
        (FaultStatus::Wso2, limits::DRAIN_S_DEFAULT)
    );
    assert_eq!(gateway.http2, Http2Listeners::ALL);
    assert!(!gateway.strict_paths, "existing configurations serve the same paths");
    assert_eq!(gateway.response_head_ms, limits::RESPONSE_HEAD_MS_MAX);
    assert_eq!(
        (gateway.connect_ms, gateway.stall_ms),
        (limits::CONNECT_MS_MAX, limits::STALL_MS_MAX)
    );
    assert_eq!(
        (gateway.head_ms, gateway.idle_ms),
        (limits::HEAD_MS_MAX, limits::IDLE_CLIENT_MS_MAX)
    );
    assert_eq!(gateway.connections_max, limits::CLIENT_CONNECTIONS_MAX);
    assert_eq!(
        (gateway.client_connections_max, gateway.client_requests_max),
        (limits::CLIENT_CONNECTIONS_DEFAULT, limits::CLIENT_REQUESTS_DEFAULT)
    );
    assert_eq!(
        (gateway.api_requests_max, gateway.min_rate),
        (limits::API_REQUESTS_DEFAULT, limits::MIN_RATE_DEFAULT)
    );
    assert!(
        settings.upstream_tls.system_roots
            && settings.issuers.is_empty()
            && settings.tls.default.is_none()
    );
    assert_eq!((settings.access_log, settings.log.level.as_str()), (AccessLog::Off, "info"));
}

#[test]
fn a_source_address_is_a_single_address_of_a_machine() {
    for (written, problem) in [
        ("\"10.0.0.256\"", "`10.0.0.256` is not an IP address"),
        ("\"10.0.0.0/8\"", "`10.0.0.0/8` is not an IP address"),
        ("\"0.0.0.0\"", "`0.0.0.0` is not the address of a machine"),
        ("\"::\"", "`::` is not the address of a machine"),
        ("\"ff02::1\"", "`ff02::1` is not the address of a machine"),
    ] {
        gateway(&format!("source_addresses = [{written}]"), &format!("3:21: {problem}"));
    }
    let twice = "source_addresses = [\"10.0.0.1\", \"10.0.0.1\"]";
    gateway(twice, "3:33: `10.0.0.1` is listed twice");
    let many = |count: u8| {
        let all: Vec<String> = (0..count).map(|last| format!("\"10.0.0.{last}\"")).collect();
        format!("source_addresses = [{}]", all.join(", "))
    };
    gateway(&many(64), "");
    gateway(&many(65), "3:843: `10.0.0.64` is one address too many");
}

#[test]
fn unknown_keys_are_rejected_with_the_nearest_name() {
    gateway("htp = \"127.0.0.1:1\"", "3:1: `htp` > `http`");
    gateway("[gatway]", "3:2: `gatway` > `gateway`");
    gateway("[[isuer]]", "3:3: `isuer` > `issuer`");
    gateway("[tls]\ncertificate = \"x\"", "4:1: `certificate`");
    gateway(
        "[[tls.sni]]\nhosts = [\"a\"]\ncert = \"a\"\nkey = \"a\"\nhost = \"a\"",
        "7:1: `host` > `hosts`",
    );
    issuer("jwks = \"k\"\nleeway = 3", "7:1: `leeway` > `leeway_s`");
    issuer(
        "algorithms = [\"HS256\"]\nsecret = { env = \"SHARED\", envv = \"x\" }",
        "7:28: `envv` > `env`",
    );
}

#[test]
fn types_and_ranges_are_checked() {
    gateway("workers = \"4\"", "3:11: `workers`");
    gateway("workers = 0", "3:11: `workers` is out of range");
    gateway("workers = 257", "3:11: `workers` is out of range");
    gateway("workers = -1", "3:11: `workers` is out of range");
    gateway("workers = 99999999999999999999", "3:11: `workers` is out of range");
    gateway("workers = 1.5", "3:11: `workers`");
    gateway("head_ms = 0", "3:11: `head_ms` is out of range");
    gateway("drain_s = 3601", "3:11: `drain_s` is out of range");
    gateway("apis = \"apis\"", "3:8: must be a list");
    gateway("apis = [\"a\", 1]", "3:14: must be a string");
    gateway("data = \"\"", "3:8: `data` is empty");
    gateway("fault_status = \"nginx\"", "3:16: `nginx`");
    gateway("http2 = \"admin\"", "3:9: `admin`");
    gateway("http2 = 2", "3:9: ");
    gateway("[log]\nlevel = \"warning\"", "4:9: `warning`");
    gateway("[upstream_tls]\nsystem_roots = 1\n", "4:16: must be true or false");
    let endpoint = "[[upstream_tls.endpoint]]\n";
    gateway(&format!("{endpoint}ca = [\"a\"]"), "3:1: [[upstream_tls.endpoint]] has no hosts");
    gateway(&format!("{endpoint}hosts = [\"a\"]"), "3:1: neither a certificate nor a CA");
    gateway(&format!("{endpoint}hosts = [\"a\"]\ncert = \"a\""), "5:8: `cert` needs `key`");
    let one = format!("{endpoint}hosts = [\"a\"]\nca = [\"a\"]\n");
    gateway(&format!("{one}{one}"), "6:1: two sections [[upstream_tls.endpoint]] are for `a`");
    gateway("tls = 1\n", "3:1: `tls`");
    gateway("[admin]\nlisten = \"localhost:9201\"", "4:10: `localhost:9201`");
}

#[test]
fn proxies_are_addresses_or_exact_blocks() {
    for (written, good) in [
        ("10.0.0.0/8", true),
        ("0.0.0.0/0", true),
        ("::/0", true),
        ("10.1.2.3/32", true),
        ("::1/128", true),
        ("10.1.0.0/8", false),
        ("10.0.0.0/33", false),
        ("10.0.0.0/+8", false),
        ("2001:db8::1/32", false),
        ("proxy.example", false),
    ] {
        let expect = format!("3:20: `{written}`");
        gateway(&format!("trusted_proxies = [\"{written}\"]"), if good { "" } else { &expect });
    }
}

#[test]
fn listeners_on_the_same_address_are_rejected() {
    gateway("https = \"127.0.0.1:8280\"", "3:9: `gateway.https`");
    gateway("https = \"0.0.0.0:8280\"", "3:9: `gateway.https`");
    gateway("https = \"127.0.0.2:8280\"", "");
    gateway("[admin]\nlisten = \"[::]:8280\"", "4:10: `admin.listen`");
    check("[gateway]\nhttp = \"127.0.0.1:0\"\nhttps = \"127.0.0.1:0\"\n", "");
    check("[gateway]\nworkers = 1\n", "1:1: no listener");
    check("[integration]\nartifacts = []\n", "1:1: [integration] have no listener");
    let here = "[integration]\nhttp = \"127.0.0.1:8290\"\n";
    check(here, "");
    check(&format!("{here}cors_origins = [\"ftp://a\"]\n"), "3:17: ");
    check(&format!("{here}cors_headers = [\"X\"]\n"), "3:16: no effect without `cors_origins`");
    check(&format!("{here}json_nil = \"true\"\n"), "3:12: ");
    check(&format!("{here}json_string_pattern = \"(\"\n"), "3:23: `(`: ");
    check(&format!("{here}json_namespace_separator = \"::\"\n"), "3:28: is one character");
}

#[test]
fn certificates_need_keys_and_host_names() {
    gateway("[tls]\nclient_certificate = \"required\"", "3:1: need `client_ca`");
    gateway("[tls]\nforward_client_certificate = true", "3:1: need `client_ca`");
    let proxies = "trusted_proxies = [\"10.0.0.1\"]\n[tls]\n";
    let header = "client_certificate_header = \"X-Client\"";
    gateway(&format!("{proxies}{header}"), "4:1: need `client_ca`");
    let with_ca = format!("client_ca = [\"a.pem\"]\n{header}");
    gateway(&format!("[tls]\n{with_ca}"), "5:29: needs `trusted_proxies`");
    gateway(&format!("{proxies}{with_ca}"), "");
    for other in
        ["Content-Length", "Authorization", "cookie", "X-Forwarded-For", "X-Forwarded-Host"]
    {
        let other = with_ca.replace("X-Client", other);
        gateway(&format!("{proxies}{other}"), "6:29: cannot carry a certificate");
    }
    gateway("[tls]\nclient_ca = []", "3:1: `client_ca` is empty");
    gateway("[tls]\ncert = \"a\"", "4:8: `cert`");
    gateway("[tls]\nkey = \"a\"", "4:7: `key`");
    gateway("[[tls.sni]]\ncert = \"a\"\nkey = \"a\"", "3:1: [[tls.sni]] has no hosts");
    gateway("[[tls.sni]]\nhosts = [\"a\"]", "3:1: [[tls.sni]] has no certificate");
    gateway("[[tls.sni]]\nhosts = [\"a:1\"]\ncert = \"a\"\nkey = \"a\"", "4:10: `a:1`");
    gateway("[tls.sni]\nhosts = []", "3:1: list of tables");
}

#[test]
fn an_access_log_to_a_file_needs_its_name() {
    gateway("[access_log]\nto = \"stdout\"", "");
    gateway("[access_log]\nto = \"file\"", "3:1: `to = \"file\"`");
    gateway("[access_log]\nfile = \"a\"", "3:1: `file`");
    gateway("[access_log]\nto = \"stdout\"\nfile = \"a\"", "3:1: `file`");
}

#[test]
fn syntax_errors_have_positions() {
    let (settings, diagnostics) = load("[gateway]\nhttp = \n");
    assert_eq!(settings, None);
    let first = diagnostics.first().map(ToString::to_string).unwrap_or_default();
    assert!(first.starts_with("etc/penstock.toml:2:"), "{first}");
    let (settings, diagnostics) =
        load("[gateway]\nhttp = \"127.0.0.1:1\"\nhttp = \"127.0.0.1:2\"\n");
    assert_eq!(settings, None);
    let first = diagnostics.first().map(ToString::to_string).unwrap_or_default();
    assert!(first.starts_with("etc/penstock.toml:3:1: error: invalid TOML"), "{first}");
}

#[test]
fn the_file_of_a_first_start_has_no_diagnostics() {
    let first = FirstStart {
        http: "127.0.0.1:8280",
        https: "127.0.0.1:8243",
        integration: "127.0.0.1:8290",
        artefacts: "artifacts/",
        admin: "127.0.0.1:9201",
        apis: "apis \"new\"\\",
        applications: "applications/",
        data: ".",
        issuer_name: "resident",
        iss: "https://localhost:9443/oauth2/token",
        jwks: "keys/jwks.json",
        control: Some(ControlPlane {
            https: "127.0.0.1:9443",
            key: "keys/signing.pem",
            client_id: "penstock-gateway",
            client_secret: "keys/secret",
            certificate: "data/tls.crt",
        }),
    };
    let (settings, diagnostics) = load(&render_default(&first));
    assert_eq!(diagnostics, []);
    let settings = settings.expect("it is complete");
    assert_eq!(settings.gateway.apis, [PathBuf::from("etc/apis \"new\"\\")]);
    assert_eq!(settings.gateway.applications, [PathBuf::from("etc/applications/")]);
    assert!(settings.gateway.strict_paths);
    assert_eq!(settings.integration.artefacts, [PathBuf::from("etc/artifacts/")]);
    let issuer = settings.issuers.first().map(|issuer| (issuer.name.as_str(), issuer.iss.as_str()));
    assert_eq!(issuer, Some(("resident", "https://localhost:9443/oauth2/token")));
    let control = settings.control.expect("a control plane");
    assert_eq!(control.issuer, "https://localhost:9443/oauth2/token");
    assert_eq!(control.keys, [PathBuf::from("etc/keys/signing.pem")]);
    let lifetimes = model::TokenLifetimes { access_s: 3_600, refresh_s: 86_400 };
    assert_eq!(control.lifetimes, lifetimes);
    assert_eq!(control.store, model::StoreSettings::Sqlite(PathBuf::from("etc/penstock.db")));
    let issuer = settings.issuers.first().expect("an issuer");
    let urls = [
        settings.gateway.control_plane.map(|feed| feed.url),
        issuer.introspection.as_ref().map(|introspection| introspection.url.clone()),
        issuer.revocations.as_ref().map(|feed| feed.url.clone()),
    ];
    let urls = urls.map(|url| url.expect("it is followed"));
    for (url, path) in urls.iter().zip(["", "/oauth2/introspect", "/oauth2/revocations"]) {
        assert!(url.starts_with(&format!("https://127.0.0.1:9443{path}")), "{url}");
    }
    assert_eq!(settings.upstream_tls.ca, [PathBuf::from("etc/data/tls.crt")]);
    let without = render_default(&FirstStart { control: None, ..first });
    assert_eq!(load(&without).0.expect("it is complete").control, None);
}

/// Checks `lines` after a gateway with one listener; they begin on line 3.
#[track_caller]
fn gateway(lines: &str, expect: &str) {
    check(&format!("[gateway]\nhttp = \"127.0.0.1:8280\"\n{lines}\n"), expect);
}

/// Checks `lines` after an issuer's name and claim; they begin on line 6.
#[track_caller]
fn issuer(lines: &str, expect: &str) {
    check(
        &format!(
            "[gateway]\nhttp = \"127.0.0.1:8280\"\n[[issuer]]\nname = \"a\"\niss = \"i\"\n{lines}\n"
        ),
        expect,
    );
}

/// `expect` has the position of each error and, after ` > `, a phrase of the help.
#[track_caller]
fn check(text: &str, expect: &str) {
    let (settings, diagnostics) = load(text);
    let place = |d: &Diagnostic| d.place.map(|place| format!("{}:{}", place.line, place.column));
    let lines: Vec<String> = diagnostics
        .iter()
        .map(|d| {
            let help = d.help.as_deref().unwrap_or_default();
            format!("{}: error: {} > {help}", place(d).unwrap_or_default(), d.message)
        })
        .collect();
    let expected: Vec<&str> = expect.split("; ").filter(|line| !line.is_empty()).collect();
    let phrases: Vec<String> = expected
        .iter()
        .map(|line| {
            line.replacen(": ", ": error: ", 1).split(" > ").next().unwrap_or("").to_owned()
        })
        .collect();
    assert_lines(&lines, &phrases.join("; "));
    for (expected, line) in expected.iter().zip(&lines) {
        let help = expected.split_once(" > ").map_or("", |(_, help)| help);
        assert!(line.rsplit(" > ").next().is_some_and(|found| found.contains(help)), "{line}");
    }
    assert_eq!(settings.is_some(), expect.is_empty(), "{text}");
}

/// A key only for these tests.
const SIGNING: &str = "-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgTL3dXhdrO7R9BdVG
BeCEangdVytV54UlvkZdgmVNCqmhRANCAASRsydxg5v67/Bf88EIxu/rvfDdxPbH
+9V/Ktidyf1LnSfWz0jgGM3m7C0g/0qU4+ksaAXqjg+Vi1m0e2PA95zp
-----END PRIVATE KEY-----
";

/// The certificate of `SIGNING`.
const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----
MIIBaTCCARCgAwIBAgIUGgXitNqp+CC+X4EwxI3WtYTeC90wCgYIKoZIzj0EAwIw
DDEKMAgGA1UEAwwBYTAeFw0yNjExMjYxOTI0MTRaFw0zNjExMjMxOTI0MTRaMAwx
CjAIBgNVBAMMAWEwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAASRsydxg5v67/Bf
88EIxu/rvfDdxPbH+9V/Ktidyf1LnSfWz0jgGM3m7C0g/0qU4+ksaAXqjg+Vi1m0
e2PA95zpo1AwTjAdBgNVHQ4EFgQU5wvzzMjhbUcq/x/hUhXroiepyG4wHwYDVR0j
BBgwFoAU5wvzzMjhbUcq/x/hUhXroiepyG4wDAYDVR0TAQH/BAIwADAKBggqhkjO
PQQDAgNHADBEAiB/V0yQhHbq7Y/ArZqoZGNWcm/BV1bzT37EJVMJazcX3wIgGVdE
77oSMrxdPQ1uS0jx93rls0M4ZM4C6R0W/S0NkLw=
-----END CERTIFICATE-----
";

const OTHER_CERTIFICATE: &[u8] =
    include_bytes!("../../../jose/tests/data/keys/p256.certificate.pem");

fn load(text: &str) -> (Option<Settings>, Vec<Diagnostic>) {
    let env = |name: &str| match name {
        "SHARED" => Some(SECRET.to_owned()),
        "SIGNING" => Some(SIGNING.to_owned()),
        "DATABASE" => Some("postgres://me:secret@db/x".to_owned()),
        "SHORT" => Some("swordfish".to_owned()),
        "EMPTY" => Some(String::new()),
        _ => None,
    };
    let files = |path: &Path| match path.to_str() {
        Some("etc/keys/secret") => Ok(format!("{SECRET}\r\n").into_bytes()),
        Some("etc/signing.crt") => Ok(CERTIFICATE.as_bytes().to_vec()),
        Some("etc/other.crt") => Ok(OTHER_CERTIFICATE.to_vec()),
        _ => Err("cannot be read".to_owned()),
    };
    let vault = |of: &VaultField| match (of.path.as_str(), of.field.as_str()) {
        ("secret/data/a", "password") => Some(b"from vault".to_vec()),
        _ => None,
    };
    read(Path::new("etc/penstock.toml"), text, &env, &files, &vault)
}
