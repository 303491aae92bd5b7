//! A project of API Manager, as `apictl` exports it: `api.yaml`, and the description in `Definitions`.
//!
//! A key of `api.yaml` becomes the equivalent extension of the description, and takes precedence over it. The place of
//! a value stays the one in `api.yaml` ([`OTHER_LINES`](crate::report::OTHER_LINES)). Operations, with their scopes,
//! plans and types of credential, come from the description, as in API Manager.
//!
//! Architecture invariant: a key that would change the handling of requests is read, or is an error.

use std::borrow::Cow;
use std::path::Path;

use model::Place;

use super::{Defaults, Outcome, Refs, contract, document, values};
use crate::address;
use crate::report::{OTHER_LINES, Report, shorten, suggest};
use crate::tree::{self, Keep, Map, Member, Node, Value};

/// The folder of the description.
const FOLDER: &str = "Definitions";
const DESCRIPTIONS: [&str; 3] = ["swagger.yaml", "swagger.yml", "swagger.json"];
const CERTIFICATES: &str = "Client-certificates";

/// How a key of `data` is translated.
enum Becomes {
    /// To this extension, with the same value.
    Extension(&'static str),
    /// By code of its own.
    Other,
    /// Ignored, because it is for the portals, or duplicates the description.
    Nothing,
    /// An error, with the consequence as its message, unless the value is absent or one of these.
    Unserved(&'static [&'static str], &'static str),
}

/// Every key of `data` in the versions 4.0 to 4.5 of API Manager.
#[rustfmt::skip]
const KEYS: &[(&str, Becomes)] = &[
    ("name", Becomes::Other),
    ("version", Becomes::Other),
    ("context", Becomes::Other),
    ("isDefaultVersion", Becomes::Extension("x-penstock-default-version")),
    ("lifeCycleStatus", Becomes::Extension("x-penstock-lifecycle")),
    ("transport", Becomes::Extension("x-wso2-transports")),
    ("authorizationHeader", Becomes::Extension("x-wso2-auth-header")),
    ("apiKeyHeader", Becomes::Extension("x-wso2-api-key-header")),
    ("securityScheme", Becomes::Other),
    ("corsConfiguration", Becomes::Extension("x-wso2-cors")),
    ("apiThrottlingPolicy", Becomes::Extension("x-throttling-tier")),
    ("maxTps", Becomes::Extension("x-penstock-max-tps")),
    ("endpointConfig", Becomes::Other),
    ("responseCachingEnabled", Becomes::Other),
    ("cacheTimeout", Becomes::Other),
    ("policies", Becomes::Other),
    ("operations", Becomes::Other),
    ("advertiseInfo", Becomes::Other),
    ("type", Becomes::Unserved(&["HTTP"], "only APIs of type HTTP are served")),
    ("subtypeConfiguration", Becomes::Unserved(&["DEFAULT"], "requests would get no treatment as those of a language model")),
    ("endpointImplementationType", Becomes::Unserved(&["ENDPOINT"], "requests would go to an endpoint instead of getting a mock response")),
    ("audiences", Becomes::Unserved(&["all"], "tokens for others would be accepted")),
    ("keyManagers", Becomes::Unserved(&["all"], "tokens of all issuers would be accepted")),
    ("enableSchemaValidation", Becomes::Unserved(&[], "messages would not be validated; add the policy `schemaValidation` to the description")),
    ("apiPolicies", Becomes::Unserved(&[], "write them as `x-penstock-policies` in the description")),
    ("mediationPolicies", Becomes::Unserved(&[], "messages would pass unchanged")),
    ("threatProtectionPolicies", Becomes::Unserved(&[], "messages would pass unchecked")),
    ("id", Becomes::Nothing),
    ("displayName", Becomes::Nothing),
    ("description", Becomes::Nothing),
    ("provider", Becomes::Nothing),
    ("contextTemplate", Becomes::Nothing),
    ("wsdlInfo", Becomes::Nothing),
    ("wsdlUrl", Becomes::Nothing),
    ("hasThumbnail", Becomes::Nothing),
    ("isRevision", Becomes::Nothing),
    ("revisionedApiId", Becomes::Nothing),
    ("revisionId", Becomes::Nothing),
    ("enableSubscriberVerification", Becomes::Nothing),
    ("audience", Becomes::Nothing),
    ("tags", Becomes::Nothing),
    ("organizationPolicies", Becomes::Nothing),
    ("visibility", Becomes::Nothing),
    ("visibleRoles", Becomes::Nothing),
    ("visibleTenants", Becomes::Nothing),
    ("visibleOrganizations", Becomes::Nothing),
    ("subscriptionAvailability", Becomes::Nothing),
    ("subscriptionAvailableTenants", Becomes::Nothing),
    ("additionalProperties", Becomes::Nothing),
    ("additionalPropertiesMap", Becomes::Nothing),
    ("monetization", Becomes::Nothing),
    ("accessControl", Becomes::Nothing),
    ("accessControlRoles", Becomes::Nothing),
    ("businessInformation", Becomes::Nothing),
    ("websubSubscriptionConfiguration", Becomes::Nothing),
    ("workflowStatus", Becomes::Nothing),
    ("createdTime", Becomes::Nothing),
    ("lastUpdatedTime", Becomes::Nothing),
    ("lastUpdatedTimestamp", Becomes::Nothing),
    ("scopes", Becomes::Nothing),
    ("scopePrefix", Becomes::Nothing),
    ("categories", Becomes::Nothing),
    ("serviceInfo", Becomes::Nothing),
    ("gatewayVendor", Becomes::Nothing),
    ("gatewayType", Becomes::Nothing),
    ("asyncTransportProtocols", Becomes::Nothing),
    ("initiatedFromGateway", Becomes::Nothing),
    ("primaryProductionEndpointId", Becomes::Nothing),
    ("primarySandboxEndpointId", Becomes::Nothing),
];

/// The member `data` of a project. `None` if `root` is not a project.
pub(super) fn data<'r, 'a>(root: &'r Map<'a>) -> Option<&'r Member<'a>> {
    let is_description = root.get("openapi").or(root.get("swagger")).is_some();
    root.member("data").filter(|_| !is_description)
}

/// Reads the project whose `api.yaml` is `file`.
pub(super) fn read(
    file: &Path,
    root: &Map<'_>,
    refs: Refs<'_>,
    defaults: &Defaults,
    report: &mut Report,
) -> Option<Outcome> {
    let data = values::map(&data(root)?.value, "data", report)?;
    if let Some(node) = root.get("type").filter(|node| node.as_text() != Some("api")) {
        report.error(node.place, "only projects of `type: api` are served", "");
    }
    let members = translated(data, refs, report);
    let moved = members.into_iter().map(|member| member.moved_down(OTHER_LINES));
    let base_path = context(data, report);
    let failed = Outcome { base_path, ..Outcome::default() };
    let found = DESCRIPTIONS.iter().find_map(|name| {
        let name = format!("{FOLDER}/{name}");
        refs(&name).ok().map(|text| (name, text))
    });
    let Some((name, text)) = found else {
        let help = "export the API with `apictl export api`, and leave the project as it is";
        let message = format!("`{FOLDER}/{}` cannot be read", DESCRIPTIONS[0]);
        report.error(None, message, help);
        return Some(failed);
    };
    let description = file.parent().unwrap_or(Path::new("")).join(name);
    report.enter_beside(description.clone());
    let Some(tree) = tree::read(&text, contract::keep(&text), report) else { return Some(failed) };
    let place = tree.place;
    let Value::Map(map) = tree.value else {
        report.error(place, "an API description must be a map", "start it with `openapi: 3.0.1`");
        return Some(failed);
    };
    let merged = Node { place, value: Value::Map(map.replaced(moved.collect(), report)) };
    // Files that the description refers to are beside it; certificates are in their own folder.
    let beside = |named: &str| match named.split_once('/') {
        Some((CERTIFICATES, _)) => refs(named),
        _ => refs(&format!("{FOLDER}/{named}")),
    };
    let mut outcome = document::read_tree(&description, &merged, &beside, defaults, report);
    if let Some(api) = &mut outcome.api {
        api.source = file.to_owned();
    }
    outcome.base_path = outcome.base_path.or(failed.base_path);
    Some(outcome)
}

/// The plans of APIs that need no subscription.
const FREE: [&str; 2] = ["DefaultSubscriptionless", "AsyncDefaultSubscriptionless"];

/// The members of a description that are equivalent to `data`.
fn translated<'a>(data: &Map<'a>, refs: Refs<'_>, report: &mut Report) -> Vec<Member<'a>> {
    let mut found = Vec::new();
    for member in data.iter() {
        let row = KEYS.iter().find(|(name, _)| *name == member.key);
        match row.map(|(_, becomes)| becomes) {
            Some(Becomes::Extension(_)) if is_empty(&member.value, &[]) => {}
            Some(Becomes::Extension(name)) => {
                found.push(Member { key: Cow::Borrowed(*name), ..member.clone() });
            }
            Some(Becomes::Unserved(unless, why)) if !is_empty(&member.value, unless) => {
                let message = format!("`{}` is not supported: {why}", member.key);
                report.error(member.key_place, message, "remove it if the API is safe without it");
            }
            Some(Becomes::Other | Becomes::Nothing | Becomes::Unserved(_, _)) => {}
            None => {
                let names = KEYS.iter().map(|(name, _)| *name);
                let help = suggest(&member.key, names, || "it has no effect".to_owned());
                let message = format!("unknown key `{}`", shorten(&member.key));
                report.warning(member.key_place, message, help);
            }
        }
    }
    found.extend(info(data, report));
    if let Some(member) = data.member("context") {
        let path = context(data, &mut Report::new(Path::new("")));
        found.extend(path.map(|path| text("x-wso2-basePath", path, member.key_place)));
    }
    if let Some(member) = data.member("securityScheme") {
        found.extend(security(member, refs, report));
    }
    if let Some(member) = data.member("endpointConfig") {
        found.extend(endpoints(member, report));
    }
    if let Some(member) = data.member("responseCachingEnabled") {
        let timeout = data.get("cacheTimeout").filter(|node| !is_empty(node, &["0"]));
        let timeout = timeout.map(|node| with("cacheTimeoutInSeconds", node.clone()));
        let members = std::iter::once(with("enabled", member.value.clone())).chain(timeout);
        found.push(map("x-wso2-response-cache", members.collect(), member.key_place));
    }
    let is_free = |node: &Node<'_>| node.as_text().is_some_and(|plan| FREE.contains(&plan));
    let plans = data.member("policies");
    if let Some(member) = plans.filter(|member| {
        member.value.as_list().is_some_and(|all| !all.is_empty() && all.iter().all(is_free))
    }) {
        found.push(text("x-penstock-subscription", "false".to_owned(), member.key_place));
    }
    for operation in data.get("operations").and_then(Node::as_list).unwrap_or_default() {
        let member = operation.as_map().and_then(|map| map.member("operationPolicies"));
        if let Some(member) = member.filter(|member| !is_empty(&member.value, &[])) {
            let message =
                "policies of operations are not read from here: messages would pass unchanged";
            let help = "write them as `x-penstock-policies` of the operation in the description";
            report.error(member.key_place, message, help);
        }
    }
    let advertised = data.get("advertiseInfo").and_then(|node| node.as_map()?.member("advertised"));
    if let Some(member) = advertised.filter(|member| member.value.as_bool() != Some(false)) {
        let message = "the API is only advertised: it is served elsewhere";
        report.error(member.key_place, message, "remove the project from here");
    }
    found
}

/// Name and version, as `info` of a description.
fn info<'a>(data: &Map<'a>, report: &mut Report) -> Option<Member<'a>> {
    let mut required = |key: &str| {
        let found = data.member(key);
        if found.is_none() {
            report.error(None, format!("`data` has no `{key}`"), format!("add `{key}`"));
        }
        found
    };
    let (name, version) = (required("name"), required("version"));
    required("context")?;
    let (name, version) = (name?, version?);
    let members = vec![with("title", name.value.clone()), with("version", version.value.clone())];
    Some(map("info", members, name.key_place))
}

/// The base path: `context`, with the version at its end unless it has a place for it.
fn context(data: &Map<'_>, report: &mut Report) -> Option<String> {
    const VERSION: &str = "{version}";
    let (context, version) = (data.get("context")?, data.get("version")?);
    let written = values::text(context, "context", report)?.trim_end_matches('/');
    let version = values::text(version, "version", report)?;
    let path = match written.contains(VERSION) {
        true => written.replace(VERSION, version),
        false => format!("{written}/{version}"),
    };
    let path = address::path_prefix(&path);
    path.map_err(|(message, help)| report.error(context.place, message, help)).ok()
}

/// `securityScheme`: kinds of credential, one of which suffices, and client certificates.
fn security(member: &Member<'_>, refs: Refs<'_>, report: &mut Report) -> Vec<Member<'static>> {
    const KINDS: [&str; 3] = ["oauth2", "basic_auth", "api_key"];
    const CERTIFICATE: &str = "mutualssl";
    const MANDATORY: [&str; 2] = ["mutualssl_mandatory", "oauth_basic_auth_api_key_mandatory"];
    let Some(listed) = values::texts(&member.value, &member.key, report) else { return Vec::new() };
    let known = || KINDS.into_iter().chain([CERTIFICATE]).chain(MANDATORY);
    for (name, place) in &listed {
        if known().all(|known| known != *name) {
            let help = suggest(name, known(), || "remove it".to_owned());
            report.error(*place, format!("unknown security scheme `{}`", shorten(name)), help);
        }
    }
    let has = |name: &str| listed.iter().any(|(listed, _)| *listed == name);
    let kinds = listed.iter().filter(|(name, _)| KINDS.contains(name));
    let mut kinds: Vec<_> = kinds.map(|(name, place)| plain((*name).to_owned(), *place)).collect();
    let place = member.key_place;
    let certificate = [CERTIFICATE, MANDATORY[0]].into_iter().find(|name| has(name));
    let has_certificates = certificate.is_some();
    let is_only_certificate = has_certificates && kinds.is_empty();
    let is_optional = has_certificates && (is_only_certificate || !has(MANDATORY[1]));
    if kinds.is_empty() {
        kinds.push(plain("oauth2".to_owned(), place));
    }
    let application = vec![
        with("security-types", Node { place, value: Value::List(kinds) }),
        with("optional", Node { place, value: Value::Bool(is_optional) }),
    ];
    let mut found = vec![map("x-wso2-application-security", application, place)];
    if let Some(scheme) = certificate {
        let is_mandatory = is_only_certificate || has(MANDATORY[0]);
        let needed = if is_mandatory { "mandatory" } else { "optional" };
        found.push(text("x-wso2-mutual-ssl", needed.to_owned(), place));
        match certificates(place, refs, report) {
            Some(certificates) => found.push(certificates),
            None => {
                let message = format!("`{scheme}`: the project has no `{CERTIFICATES}`");
                let help = format!("export it with its certificates, or remove `{scheme}`");
                report.error(place, message, help);
            }
        }
    }
    found
}

/// The certificates of the project, for each type of key.
fn certificates(place: Place, refs: Refs<'_>, report: &mut Report) -> Option<Member<'static>> {
    let [both, production, sandbox] = ["", "/PRODUCTION", "/SANDBOX"].map(|below| {
        let folder = format!("{CERTIFICATES}{below}");
        listed_certificates(&folder, refs, report).unwrap_or_default()
    });
    let node = |own: Vec<String>| {
        let files = both.iter().cloned().chain(own).map(|file| plain(file, place));
        Node { place, value: Value::List(files.collect()) }
    };
    if both.is_empty() && production.is_empty() && sandbox.is_empty() {
        return None;
    }
    let members = [("production", node(production)), ("sandbox", node(sandbox))];
    let members = members.into_iter().filter(|(_, node)| !is_empty(node, &[]));
    let members = members.map(|(key, node)| with(key, node)).collect();
    Some(map("x-penstock-client-certificates", members, place))
}

/// The files that `client_certificates.yaml` of a folder lists.
fn listed_certificates(folder: &str, refs: Refs<'_>, report: &mut Report) -> Option<Vec<String>> {
    let files = ["yaml", "json"].map(|end| format!("{folder}/client_certificates.{end}"));
    let (file, text) =
        files.into_iter().find_map(|file| refs(&file).ok().map(|text| (file, text)))?;
    let path = report.file().parent().unwrap_or(Path::new("")).join(file);
    let before = report.enter(path);
    let found = tree::read(&text, Keep::Everything, report).and_then(|tree| {
        let list = values::list(tree.as_map()?.get("data")?, "data", report)?.iter();
        let name = |node: &Node<'_>| {
            let of = node.as_map()?.get("certificate")?;
            Some(format!("{folder}/{}", of.as_text()?))
        };
        list.map(name).collect::<Option<Vec<_>>>()
    });
    if found.is_none() {
        report.error(None, "`data` must be a list of certificates, each a `certificate`", "");
    }
    report.enter(before);
    found
}

/// `endpointConfig`: the endpoint sets for production and sandbox.
fn endpoints<'a>(member: &Member<'a>, report: &mut Report) -> Vec<Member<'a>> {
    const SETS: [(&str, &str, &str); 2] = [
        ("production", "production_endpoints", "x-wso2-production-endpoints"),
        ("sandbox", "sandbox_endpoints", "x-wso2-sandbox-endpoints"),
    ];
    const FAILOVERS: [&str; 2] = ["production_failovers", "sandbox_failovers"];
    /// Keys that duplicate others, and the key of the algorithm, which has only one value.
    const SILENT: [&str; 4] = ["failOver", "algoCombo", "algoClassName", "endpointType"];
    let Some(config) = values::map(&member.value, &member.key, report) else { return Vec::new() };
    let known = ["endpoint_type", "endpoint_security"].into_iter().chain(SILENT).chain(FAILOVERS);
    let known: Vec<_> = known.chain(SETS.map(|(_, key, _)| key)).collect();
    for other in config.iter().filter(|other| !known.contains(&other.key.as_ref())) {
        if !is_empty(&other.value, &["none", "0"]) {
            let help = suggest(&other.key, known.iter().copied(), || "remove it".to_owned());
            let message = format!("`{}` of `endpointConfig` has no effect", shorten(&other.key));
            report.warning(other.key_place, message, help);
        }
    }
    let kind = config.get("endpoint_type").and_then(|node| Some((node.as_text()?, node.place)));
    let kind = match kind {
        Some(("http" | "address", _)) | None => "http",
        Some(("load_balance", _)) => "load_balance",
        Some(("failover", _)) => "failover",
        Some((other, place)) => {
            let message = format!("endpoints of type `{}` are not supported", shorten(other));
            report.error(place, message, "write `http`, `load_balance` or `failover`");
            return Vec::new();
        }
    };
    let mut found = Vec::new();
    for ((own, key, extension), failovers) in SETS.into_iter().zip(FAILOVERS) {
        let nodes = [Some(key), Some(failovers).filter(|_| kind == "failover")];
        let nodes = nodes.into_iter().flatten().filter_map(|key| config.get(key));
        let maps: Vec<_> = nodes.flat_map(|node| one_or_more(node, report)).collect();
        let urls: Vec<_> = maps.iter().filter_map(|map| map.get("url")).cloned().collect();
        let Some(first) = config.member(key).filter(|_| !urls.is_empty()) else { continue };
        let place = first.key_place;
        let mut set = vec![
            with("type", plain(kind.to_owned(), place)),
            with("urls", Node { place, value: Value::List(urls) }),
        ];
        let configs = maps.iter().filter_map(|map| map.get("config")?.as_map());
        set.extend(timeout(configs.flat_map(Map::iter), place, report));
        let security = config.get("endpoint_security").and_then(|node| node.as_map()?.get(own));
        set.extend(security.and_then(credential));
        found.push(map(extension, set, place));
    }
    if found.is_empty() {
        report.error(member.key_place, "`endpointConfig` has no URL", "add `production_endpoints`");
        return found;
    }
    // The description's own `servers` are not used.
    let none = |key| with(key, Node { place: member.key_place, value: Value::Null });
    found.extend(["servers", "host"].map(none));
    found
}

/// One endpoint, or a list.
fn one_or_more<'n, 'a>(node: &'n Node<'a>, report: &mut Report) -> Vec<&'n Map<'a>> {
    match node.as_list() {
        Some(all) => all.iter().filter_map(|node| values::map(node, "url", report)).collect(),
        None if matches!(node.value, Value::Null) => Vec::new(),
        None => values::map(node, "url", report).into_iter().collect(),
    }
}

/// `config` of endpoints.
fn timeout<'n, 'a: 'n>(
    config: impl Iterator<Item = &'n Member<'a>>,
    place: Place,
    report: &mut Report,
) -> Option<Member<'a>> {
    let mut found = None;
    for member in config.filter(|member| !is_empty(&member.value, &["0", "fault"])) {
        if member.key == "actionDuration" {
            found = Some(with("timeoutInMillis", member.value.clone()));
        } else {
            let message = format!("`{}` of an endpoint has no effect", shorten(&member.key));
            report.warning(member.key_place, message, "see docs/resilience.md for what is served");
        }
    }
    Some(map("advanceEndpointConfig", vec![found?], place))
}

/// `endpoint_security` of a set, without empty members.
fn credential<'a>(node: &Node<'a>) -> Option<Member<'a>> {
    let map = node.as_map()?;
    let is_off = map.get("enabled").and_then(Node::as_bool) == Some(false)
        || map.get("type").is_none_or(|of| is_empty(of, &["NONE", "none"]));
    let members = map.iter().filter(|member| !is_empty(&member.value, &[])).cloned().collect();
    (!is_off).then(|| self::map("securityConfig", members, node.place))
}

/// Whether a value is empty, or is one of `words`.
fn is_empty(node: &Node<'_>, words: &[&str]) -> bool {
    match &node.value {
        Value::Null | Value::Bool(false) => true,
        Value::Text(text) | Value::Number(text) => {
            text.is_empty() || words.contains(&text.as_ref())
        }
        Value::List(list) => list.iter().all(|node| is_empty(node, words)),
        Value::Map(map) => map.iter().all(|member| is_empty(&member.value, words)),
        Value::Bool(true) | Value::Unread => false,
    }
}

fn plain(text: String, place: Place) -> Node<'static> {
    Node { place, value: Value::Text(Cow::Owned(text)) }
}

fn text(key: &'static str, text: String, place: Place) -> Member<'static> {
    with(key, plain(text, place))
}

fn map<'a>(key: &'static str, members: Vec<Member<'a>>, place: Place) -> Member<'a> {
    with(key, Node { place, value: Value::Map(Map::of(members)) })
}

fn with<'a>(key: &'static str, value: Node<'a>) -> Member<'a> {
    Member { key: Cow::Borrowed(key), key_place: value.place, value }
}
