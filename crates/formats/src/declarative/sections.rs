//! The sections of the file, except `[[issuer]]`, which has its own module.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use base::{addresses, limits};
use expression::mapping::Rules;
use model::{
    AccessLog, AdminSettings, ArtefactRules, CertificateFiles, ClientCertificates, Cors,
    EndpointTls, FaultStatus, GatewaySettings, Http2Listeners, IntegrationSettings, LogFormat,
    LogSettings, Place, PlanFiles, ServiceRules, Settings, SniCertificate, TlsSettings,
    UpstreamTls,
};
use toml::Spanned;
use toml::de::DeTable;

use super::backend_jwt;
use super::control;
use super::credentials;
use super::issuers;
use super::logins;
use super::manual::MANUAL;
use super::quotas;
use super::services;
use super::table::Table;
use super::users;
use super::vault;
use super::{Outside, is_framing};
use crate::address::{Wrong, host_pattern};
use crate::openapi::cors::is_token;
use crate::openapi::cors::{header, origin};
use crate::report::{Report, shorten};
use crate::tree::Lines;

pub(super) fn settings(
    root: &Spanned<DeTable<'_>>,
    text: &str,
    outside: &Outside<'_>,
    report: &mut Report,
) -> Settings {
    let lines = Lines::new(text);
    let root = Table::root(MANUAL, root, &lines, report);
    let integration = root.section("integration", "integration", report);
    let control = root.section("control", "control", report);
    let others = integration.is_present() || control.is_present();
    let of_gateway = root.section("gateway", "gateway", report);
    let gateway = gateway(&of_gateway, others, outside, report);
    let has_proxies = !gateway.trusted_proxies.is_empty();
    let state = of_gateway.get("data").map(|_| gateway.data.as_path());
    let store = root.section("store", "store", report);
    let issuers = issuers::read(&root, outside, report);
    let services = services::read(&root, &issuers, integration.is_present(), report);
    let settings = Settings {
        control: control::read(&control, &store, outside, report),
        quotas: quotas::read(&root.section("quotas", "quotas", report), outside, report),
        backend_jwt: backend_jwt::read(
            &root.section("backend_jwt", "backend_jwt", report),
            outside,
            report,
        ),
        snapshot: snapshot(&root.section("snapshot", "snapshot", report), state, outside, report),
        gateway,
        integration: self::integration(&integration, services, outside, report),
        tls: tls(&root.section("tls", "tls", report), has_proxies, outside, report),
        admin: AdminSettings {
            listen: address(&root.section("admin", "admin", report), "listen", report)
                .map(|(at, _)| at),
        },
        upstream_tls: upstream_tls(
            &root.section("upstream_tls", "upstream_tls", report),
            outside,
            report,
        ),
        access_log: access_log(&root.section("access_log", "access_log", report), outside, report),
        log: log(&root.section("log", "log", report), report),
        logins: logins::read(&root, &issuers, outside, report),
        issuers,
        users: users::read(&root, report),
        credentials: credentials::read(&root, outside, report),
        vault: None,
        plans: super::plans::shipped(),
    };
    let vault = vault::read(&root.section("vault", "vault", report), outside, report);
    let settings = Settings { vault, ..settings };
    listeners_differ(&root, report);
    settings
}

/// `state` is the configured folder for the gateway's data.
fn snapshot(
    table: &Table<'_>,
    state: Option<&Path>,
    outside: &Outside<'_>,
    report: &mut Report,
) -> Option<PathBuf> {
    let directory = path(table, "directory", outside, report);
    if !table.flag("enabled", true, report) {
        return None;
    }
    if table.is_present() && directory.is_none() && state.is_none() {
        let help = "add `directory = \"snapshots/\"`, or `data` in [gateway]";
        report.error(table.place, "there is no `directory` in [snapshot]", help);
    }
    directory.or_else(|| state.map(|state| state.join("snapshots")))
}

/// `others` is true if another section has listeners of its own, `[integration]` or `[control]`.
fn gateway(
    table: &Table<'_>,
    others: bool,
    outside: &Outside<'_>,
    report: &mut Report,
) -> GatewaySettings {
    let (http, https) = listeners(table, report);
    let listens = table.get("http").is_some() || table.get("https").is_some();
    if !listens && !others {
        let help =
            "add `http = \"127.0.0.1:8280\"` or `https = \"127.0.0.1:8243\"` under [gateway]";
        report.error(table.place, "the gateway has no listener", help);
    }
    let default_apis = || if listens { vec![outside.path("apis/")] } else { Vec::new() };
    let ms = 1..=limits::CONFIGURED_MS_MAX;
    let default = GatewaySettings::default();
    GatewaySettings {
        http,
        https,
        workers: table.number("workers", 1..=limits::WORKERS_MAX, report),
        apis: paths(table, "apis", outside, report).unwrap_or_else(default_apis),
        plans: plan_files(table, outside, report),
        applications: paths(table, "applications", outside, report).unwrap_or_default(),
        control_plane: issuers::control_plane(table, outside, report),
        data: path(table, "data", outside, report).unwrap_or_else(|| outside.path("data/")),
        trusted_proxies: blocks(table, "trusted_proxies", report),
        fault_status: table
            .choice(
                "fault_status",
                &[("wso2", FaultStatus::Wso2), ("http", FaultStatus::Http)],
                report,
            )
            .unwrap_or_default(),
        http2: http2(table, report),
        dpop_nonce: table.flag("dpop_nonce", false, report),
        strict_paths: table.flag("strict_paths", false, report),
        drain_s: table
            .number("drain_s", 0..=limits::DRAIN_S_MAX, report)
            .unwrap_or(default.drain_s),
        response_head_ms: table
            .number("response_head_ms", ms.clone(), report)
            .unwrap_or(default.response_head_ms),
        try_ms: table.number("try_ms", ms.clone(), report),
        retry_budget_percent: table
            .number("retry_budget_percent", 0..=100, report)
            .unwrap_or(default.retry_budget_percent),
        connect_ms: table.number("connect_ms", ms.clone(), report).unwrap_or(default.connect_ms),
        nameservers: nameservers(table, report),
        source_addresses: source_addresses(table, report),
        stall_ms: table.number("stall_ms", ms.clone(), report).unwrap_or(default.stall_ms),
        head_ms: table.number("head_ms", ms.clone(), report).unwrap_or(default.head_ms),
        idle_ms: table.number("idle_ms", ms, report).unwrap_or(default.idle_ms),
        connections_max: table
            .number("connections_max", 1..=limits::CLIENT_CONNECTIONS_MAX, report)
            .unwrap_or(default.connections_max),
        client_connections_max: table
            .number("client_connections_max", 1..=limits::CLIENT_CONNECTIONS_MAX, report)
            .unwrap_or(default.client_connections_max),
        client_requests_max: table
            .number("client_requests_max", 1..=limits::REQUESTS_MAX, report)
            .unwrap_or(default.client_requests_max),
        api_requests_max: table
            .number("api_requests_max", 1..=limits::REQUESTS_MAX, report)
            .unwrap_or(default.api_requests_max),
        endpoint_waiting_max: table
            .number("endpoint_waiting_max", 1..=limits::REQUESTS_MAX, report)
            .unwrap_or(default.endpoint_waiting_max),
        min_rate: table
            .number("min_rate", 0..=limits::MIN_RATE_MAX, report)
            .unwrap_or(default.min_rate),
        held_body_bytes_max: table
            .number("held_body_bytes_max", 1..=limits::HELD_BODY_BYTES_MAX, report)
            .unwrap_or(default.held_body_bytes_max),
        held_bytes_max: table
            .number("held_bytes_max", 1..=limits::HELD_BYTES_MAX, report)
            .unwrap_or(default.held_bytes_max),
    }
}

fn integration(
    table: &Table<'_>,
    services: Vec<ServiceRules>,
    outside: &Outside<'_>,
    report: &mut Report,
) -> IntegrationSettings {
    if !table.is_present() {
        return IntegrationSettings::default();
    }
    let (http, https) = listeners(table, report);
    if table.get("http").is_none() && table.get("https").is_none() {
        let help =
            "add `http = \"127.0.0.1:8290\"` or `https = \"127.0.0.1:8253\"` under [integration]";
        report.error(table.place, "proxies and APIs of [integration] have no listener", help);
    }
    let artefacts = paths(table, "artifacts", outside, report);
    let artefacts = artefacts.unwrap_or_else(|| vec![outside.path("artifacts/")]);
    let rules = ArtefactRules { cors: cors(table, report), json: json(table, report), services };
    let http2 = table.get("http2").is_some().then(|| http2(table, report));
    IntegrationSettings { http, https, http2, artefacts, rules }
}

/// Micro Integrator's rules for all APIs: `synapse.rest.CORSConfig.*` of its `synapse.properties`.
fn cors(table: &Table<'_>, report: &mut Report) -> Option<Cors> {
    let mut checked = |key, item: fn(&str) -> Result<String, Wrong>| {
        let mut valid = Vec::new();
        for (text, place) in table.texts(key, report)? {
            match item(text) {
                Ok(text) => valid.push(text),
                Err((message, help)) => report.error(place, message, help),
            }
        }
        Some(valid)
    };
    let origins = checked("cors_origins", origin);
    let headers = checked("cors_headers", header);
    if let (None, Some(item)) = (&origins, table.get("cors_headers")) {
        let help = "add `cors_origins` with the origins that may send them";
        report.error(item.place, "`cors_headers` has no effect without `cors_origins`", help);
    }
    Some(Cors {
        allow_origins: origins?,
        allow_methods: Vec::new(),
        allow_headers: headers.unwrap_or_default(),
        expose_headers: Vec::new(),
        allow_credentials: false,
    })
}

/// The keys for the conversion of XML to JSON, and the properties of Synapse that they replace.
const JSON_KEYS: [(&str, &str); 10] = [
    ("json_auto_primitive", "synapse.commons.json.output.autoPrimitive"),
    ("json_string_pattern", "synapse.commons.json.output.disableAutoPrimitive.regex"),
    ("json_auto_array", "synapse.commons.json.output.jsonoutAutoArray"),
    ("json_read_multiple", "synapse.commons.json.output.jsonoutMultiplePI"),
    ("json_write_multiple", "synapse.commons.json.output.xmloutMultiplePI"),
    ("json_null_for_empty", "synapse.commons.enableXmlNullForEmptyElement"),
    ("json_nil", "synapse.commons.enableXmlNilReadWrite"),
    ("json_namespaces", "synapse.commons.json.preserve.namespace"),
    ("json_namespace_separator", "synapse.commons.json.output.namespaceSepChar"),
    ("json_namespace_declarations", "synapse.commons.json.output.enableNSDeclarations"),
];

fn json(table: &Table<'_>, report: &mut Report) -> BTreeMap<&'static str, String> {
    let mut valid = BTreeMap::new();
    for (key, property) in JSON_KEYS {
        let Some(item) = table.get(key) else { continue };
        let value = match key {
            "json_string_pattern" | "json_namespace_separator" => {
                table.text(key, report).map(|(text, _)| text.to_owned())
            }
            _ => Some(table.flag(key, true, report).to_string()),
        };
        let Some(value) = value else { continue };
        let mut rules = Rules::DEFAULT;
        match rules.set(property, &value) {
            Ok(()) => {
                valid.insert(property, value);
            }
            Err(error) => {
                let help = "write a regular expression, or one character as a separator";
                report.error(item.place, error, help);
            }
        }
    }
    valid
}

/// `http` and `https`.
fn listeners(table: &Table<'_>, report: &mut Report) -> (Option<SocketAddr>, Option<SocketAddr>) {
    let mut listener = |key| address(table, key, report).map(|(address, _)| address);
    (listener("http"), listener("https"))
}

fn plan_files(table: &Table<'_>, outside: &Outside<'_>, report: &mut Report) -> PlanFiles {
    let configured = paths(table, "plans", outside, report);
    let required = configured.is_some();
    let files = configured.unwrap_or_else(|| vec![outside.path("plans.toml")]);
    PlanFiles { files, required, ..PlanFiles::default() }
}

/// `true`, `false`, or the one listener that accepts HTTP/2.
fn http2(table: &Table<'_>, report: &mut Report) -> Http2Listeners {
    let is_text = table.get("http2").is_some_and(|item| item.value.is_str());
    if !is_text {
        let all = table.flag("http2", true, report);
        return if all { Http2Listeners::ALL } else { Http2Listeners::NONE };
    }
    let one = [
        ("http", Http2Listeners { http: true, https: false }),
        ("https", Http2Listeners { http: false, https: true }),
    ];
    table.choice("http2", &one, report).unwrap_or(Http2Listeners::NONE)
}

/// `address:port`; host names are not resolved.
pub(super) fn address(
    table: &Table<'_>,
    key: &str,
    report: &mut Report,
) -> Option<(SocketAddr, Place)> {
    let (text, place) = table.text(key, report)?;
    let parsed = text.parse::<SocketAddr>();
    if parsed.is_err() {
        let message = format!("`{}` is not an address with port", shorten(text));
        report.error(
            place,
            message,
            "write an IP address and a port, such as 127.0.0.1:8280, 0.0.0.0:8280 or [::]:8280",
        );
    }
    parsed.ok().map(|address| (address, place))
}

/// Reports listeners on the same port if their addresses are equal or one is unspecified. Port 0 is
/// a new port each time.
fn listeners_differ(root: &Table<'_>, report: &mut Report) {
    let mut silent = Report::new(report.file());
    let gateway = root.section("gateway", "gateway", &mut silent);
    let integration = root.section("integration", "integration", &mut silent);
    let admin = root.section("admin", "admin", &mut silent);
    let control = root.section("control", "control", &mut silent);
    let mut open: Vec<(&str, SocketAddr)> = Vec::new();
    for (table, key, name) in [
        (gateway, "http", "gateway.http"),
        (gateway, "https", "gateway.https"),
        (integration, "http", "integration.http"),
        (integration, "https", "integration.https"),
        (admin, "listen", "admin.listen"),
        (control, "https", "control.https"),
    ] {
        let Some((address, place)) = address(&table, key, &mut silent) else { continue };
        if let Some((other, _)) = open.iter().find(|(_, other)| collide(*other, address)) {
            report.error(
                place,
                format!("`{name}` and `{other}` use the same address"),
                "change the port of one of them",
            );
        }
        open.push((name, address));
    }
}

fn collide(a: SocketAddr, b: SocketAddr) -> bool {
    let (one, other) = (a.ip(), b.ip());
    let overlaps = one == other || one.is_unspecified() || other.is_unspecified();
    a.port() == b.port() && a.port() != 0 && overlaps
}

fn path(
    table: &Table<'_>,
    key: &str,
    outside: &Outside<'_>,
    report: &mut Report,
) -> Option<PathBuf> {
    table.text(key, report).map(|(text, _)| outside.path(text))
}

pub(super) fn paths(
    table: &Table<'_>,
    key: &str,
    outside: &Outside<'_>,
    report: &mut Report,
) -> Option<Vec<PathBuf>> {
    let texts = table.texts(key, report)?;
    let mut paths = Vec::new();
    for (text, place) in texts {
        if text.is_empty() {
            report.error(
                place,
                format!("`{key}` has an empty path"),
                "write a file or folder, or remove it",
            );
        } else {
            paths.push(outside.path(text));
        }
    }
    Some(paths)
}

/// IP addresses, with or without a port.
fn nameservers(table: &Table<'_>, report: &mut Report) -> Vec<SocketAddr> {
    const PORT: u16 = 53;
    let mut servers = Vec::new();
    for (text, place) in table.texts("nameservers", report).unwrap_or_default() {
        let with_port = text.parse::<SocketAddr>().ok();
        let address = || text.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, PORT));
        match with_port.or_else(address) {
            Some(server) => servers.push(server),
            None => {
                let message = format!("`{}` is not the address of a name server", shorten(text));
                let help = "write an IP address, such as 10.0.0.2, 10.0.0.2:5353 or [fd00::2]:53";
                report.error(place, message, help);
            }
        }
    }
    servers
}

/// Addresses of this machine, each once.
fn source_addresses(table: &Table<'_>, report: &mut Report) -> Vec<IpAddr> {
    let mut sources: Vec<IpAddr> = Vec::new();
    for (text, place) in table.texts("source_addresses", report).unwrap_or_default() {
        let problem = match text.parse::<IpAddr>() {
            Err(_) => "is not an IP address",
            Ok(ip) if ip.is_unspecified() || ip.is_multicast() => "is not the address of a machine",
            Ok(ip) if sources.contains(&ip) => "is listed twice",
            Ok(_) if sources.len() >= limits::SOURCE_ADDRESSES_MAX => "is one address too many",
            Ok(ip) => {
                sources.push(ip);
                continue;
            }
        };
        let help = format!(
            "list up to {} addresses of this machine, such as 10.0.0.5 or fd00::5",
            limits::SOURCE_ADDRESSES_MAX
        );
        report.error(place, format!("`{}` {problem}", shorten(text)), help);
    }
    sources
}

/// A list of addresses and blocks.
pub(super) fn blocks(table: &Table<'_>, key: &str, report: &mut Report) -> Vec<(IpAddr, u8)> {
    let mut blocks = Vec::new();
    for (text, place) in table.texts(key, report).unwrap_or_default() {
        match addresses::block(text) {
            Some(block) => blocks.push(block),
            None => {
                let message = format!("`{}` is not an IP address or CIDR block", shorten(text));
                let help = "write 10.0.0.0/8, 192.0.2.7 or 2001:db8::/32; bits after the prefix must be zero";
                report.error(place, message, help);
            }
        }
    }
    blocks
}

fn tls(
    table: &Table<'_>,
    has_proxies: bool,
    outside: &Outside<'_>,
    report: &mut Report,
) -> TlsSettings {
    let sni = table.sections("sni", "tls.sni", report);
    TlsSettings {
        default: pair(table, outside, report),
        sni: sni.iter().filter_map(|table| certificate_by_name(table, outside, report)).collect(),
        clients: client_certificates(table, has_proxies, outside, report),
    }
}

/// `client_ca`, and the keys that need it.
fn client_certificates(
    table: &Table<'_>,
    has_proxies: bool,
    outside: &Outside<'_>,
    report: &mut Report,
) -> Option<ClientCertificates> {
    let choices = [("optional", false), ("required", true)];
    let required = table.choice("client_certificate", &choices, report);
    let forward = table.flag("forward_client_certificate", false, report);
    let ca = paths(table, "client_ca", outside, report);
    let header = table.text("client_certificate_header", report);
    if let Some((name, place)) = header {
        if !is_token(name) || is_framing(name) || has_other_meaning(name) {
            let message =
                format!("the header field `{}` cannot carry a certificate", shorten(name));
            report.error(place, message, "use another one, such as X-WSO2-CLIENT-CERTIFICATE");
        }
        if !has_proxies {
            let help = "list the proxies that send it in `trusted_proxies` of [gateway]";
            report.error(place, "`client_certificate_header` needs `trusted_proxies`", help);
        }
    }
    if table.get("client_ca").is_none() && (required.is_some() || forward || header.is_some()) {
        let message = "`client_certificate`, `client_certificate_header` and \
                       `forward_client_certificate` need `client_ca`";
        report.error(table.place, message, "add `client_ca = [\"clients-ca.pem\"]`");
    }
    if ca.as_ref().is_some_and(Vec::is_empty) {
        report.error(table.place, "`client_ca` is empty", "add the file of a CA, or remove it");
    }
    let header = header.map(|(name, _)| name.to_owned());
    Some(ClientCertificates { ca: ca?, required: required.unwrap_or(false), forward, header })
}

/// Whether the field has another meaning for proxies or the gateway. This one would be removed from all requests.
fn has_other_meaning(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let others =
        ["authorization", "proxy-authorization", "cookie", "dpop", "forwarded", "x-real-ip"];
    others.contains(&name.as_str()) || name.starts_with("x-forwarded-")
}

/// `cert` and `key`: both or neither.
fn pair(table: &Table<'_>, outside: &Outside<'_>, report: &mut Report) -> Option<CertificateFiles> {
    let cert = table.text("cert", report);
    let key = table.text("key", report);
    match (cert, key) {
        (Some((cert, _)), Some((key, _))) => {
            Some(CertificateFiles { cert: outside.path(cert), key: outside.path(key) })
        }
        (Some((_, place)), None) if table.get("key").is_none() => {
            let message = "`cert` needs `key`";
            report.reject(place, message, "add `key` with the file of the private key")
        }
        (None, Some((_, place))) if table.get("cert").is_none() => report.reject(
            place,
            "`key` needs `cert`",
            "add `cert` with the file of the certificate",
        ),
        (Some(_), None) | (None, Some(_)) | (None, None) => None,
    }
}

fn certificate_by_name(
    table: &Table<'_>,
    outside: &Outside<'_>,
    report: &mut Report,
) -> Option<SniCertificate> {
    if table.get("cert").is_none() && table.get("key").is_none() {
        report.error(table.place, "[[tls.sni]] has no certificate", "add `cert` and `key`");
    }
    let hosts = hosts(table, "[[tls.sni]]", host_pattern, report);
    Some(SniCertificate { hosts, files: pair(table, outside, report)? })
}

/// `hosts`: at least one.
fn hosts(
    table: &Table<'_>,
    heading: &str,
    read: fn(&str) -> Result<String, Wrong>,
    report: &mut Report,
) -> Vec<String> {
    let listed = table.texts("hosts", report);
    if listed.as_ref().is_none_or(Vec::is_empty)
        && (listed.is_some() || table.get("hosts").is_none())
    {
        report.error(
            table.place,
            format!("{heading} has no hosts"),
            "add `hosts = [\"www.example.org\"]`",
        );
    }
    let mut hosts = Vec::new();
    for (text, place) in listed.unwrap_or_default() {
        match read(text) {
            Ok(host) => hosts.push(host),
            Err((message, help)) => report.error(place, message, help),
        }
    }
    hosts
}

fn upstream_tls(table: &Table<'_>, outside: &Outside<'_>, report: &mut Report) -> UpstreamTls {
    let settings = UpstreamTls {
        ca: paths(table, "ca", outside, report).unwrap_or_default(),
        system_roots: table.flag("system_roots", true, report),
        endpoints: endpoints_tls(table, outside, report),
    };
    let trusts_none = settings.endpoints.iter().all(|endpoint| endpoint.ca.is_empty());
    if !settings.system_roots && settings.ca.is_empty() && trusts_none {
        let message = "no CA is trusted, so every https upstream will fail";
        report.warning(table.place, message, "add `ca`, or remove `system_roots = false`");
    }
    settings
}

/// A host name, a pattern, or an address.
fn endpoint_host(text: &str) -> Result<String, Wrong> {
    text.parse::<IpAddr>().map_or_else(|_| host_pattern(text), |ip| Ok(ip.to_string()))
}

fn endpoints_tls(
    table: &Table<'_>,
    outside: &Outside<'_>,
    report: &mut Report,
) -> Vec<EndpointTls> {
    let mut found: Vec<EndpointTls> = Vec::new();
    for section in table.sections("endpoint", "upstream_tls.endpoint", report) {
        let heading = "[[upstream_tls.endpoint]]";
        let hosts = hosts(&section, heading, endpoint_host, report);
        let is_known = |host: &&String| found.iter().any(|other| other.hosts.contains(host));
        if let Some(host) = hosts.iter().find(is_known) {
            let message = format!("two sections {heading} are for `{host}`");
            report.error(section.place, message, "merge them");
        }
        if ["cert", "key", "ca"].iter().all(|key| section.get(key).is_none()) {
            let message = format!("{heading} has neither a certificate nor a CA");
            report.error(section.place, message, "add `cert` and `key`, or `ca`");
        }
        found.push(EndpointTls {
            hosts,
            identity: pair(&section, outside, report),
            ca: paths(&section, "ca", outside, report).unwrap_or_default(),
        });
    }
    found
}

#[derive(Clone, Copy)]
enum To {
    Stdout,
    File,
}

fn access_log(table: &Table<'_>, outside: &Outside<'_>, report: &mut Report) -> AccessLog {
    let to = table.choice("to", &[("stdout", To::Stdout), ("file", To::File)], report);
    let file = path(table, "file", outside, report);
    match (to, file) {
        (Some(To::File), Some(file)) => AccessLog::File(file),
        (Some(To::File), None) => {
            if table.get("file").is_none() {
                report.error(
                    table.place,
                    "`to = \"file\"` needs `file`",
                    "add `file = \"access.log\"`",
                );
            }
            AccessLog::Off
        }
        (Some(To::Stdout), None) => AccessLog::Stdout,
        (Some(To::Stdout) | None, Some(_)) => {
            if table.get("to").is_none() || to.is_some() {
                report.error(
                    table.place,
                    "`file` needs `to = \"file\"`",
                    "add `to = \"file\"`, or remove `file`",
                );
            }
            AccessLog::Off
        }
        (None, None) => AccessLog::Off,
    }
}

fn log(table: &Table<'_>, report: &mut Report) -> LogSettings {
    const LEVELS: [(&str, &str); 5] = [
        ("error", "error"),
        ("warn", "warn"),
        ("info", "info"),
        ("debug", "debug"),
        ("trace", "trace"),
    ];
    let format = [("text", LogFormat::Text), ("json", LogFormat::Json)];
    LogSettings {
        level: table.choice("level", &LEVELS, report).unwrap_or("info").to_owned(),
        format: table.choice("format", &format, report).unwrap_or_default(),
    }
}
