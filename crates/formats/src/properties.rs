//! Properties that hold for every input, run by the fuzz targets and by tests.

use std::path::Path;

use base::limits;
use model::{Api, Application, Diagnostic, Endpoint, Severity, VaultField};

use crate::address;
use crate::declarative;
use crate::openapi::{self, Defaults, Outcome};
use crate::synapse::{self, Outside, Parameter};
use crate::vault;

/// Reads `data` as a description in JSON and in YAML. Each of its `$ref`s leads to `data` again.
///
/// # Panics
/// When a property does not hold.
pub fn openapi(data: &[u8]) {
    let defaults = Defaults::default();
    let refs = |file: &str| {
        let inside = !file.is_empty()
            && !file.starts_with('/')
            && !file.contains(['\\', '\0'])
            && file.split('/').all(|part| !matches!(part, "" | "." | ".."));
        assert!(inside, "a reference leads to `{file}`");
        Ok(data.to_vec())
    };
    for name in ["api.json", "api.yaml"] {
        let file = Path::new(name);
        let outcome = openapi::read(file, data, &refs, &defaults);
        check_outcome(&outcome);
        assert_eq!(outcome, openapi::read(file, data, &refs, &defaults), "reading twice differs");
        let closed = Defaults { issuers_configured: false, ..defaults.clone() };
        let without_issuer = openapi::read(file, data, &refs, &closed);
        if let (Some(api), None) = (&outcome.api, &without_issuer.api) {
            assert!(api.operations.iter().any(|op| op.security != model::Security::Open));
        }
    }
}

/// Reads `data` as a snapshot, unchanged and with the right checksum.
///
/// # Panics
/// When a property does not hold.
pub fn snapshot(data: &[u8]) {
    use crate::snapshot::{self, Writer};
    let whole = snapshot::is_whole(data, data.len() as u64).expect("memory can be read");
    let read = snapshot::read(data);
    assert!(whole || read.is_err(), "what is accepted has the right checksum");
    let signed = snapshot::with_checksum(data);
    for bytes in [data, &signed] {
        let Ok(saved) = snapshot::read(bytes) else { continue };
        let mut writer = Writer::new(Vec::new(), saved.written_s).expect("memory accepts all");
        for record in &saved.records {
            if writer.add(record).is_err() {
                return; // The name is too long to be written.
            }
        }
        assert_eq!(writer.finish().expect("memory accepts all"), bytes, "it is what was written");
    }
}

fn check_outcome(outcome: &Outcome) {
    bounded(&outcome.diagnostics, outcome.api.is_some());
    let Some(api) = &outcome.api else { return };
    assert_eq!(outcome.base_path.as_ref(), Some(&api.base_path));
    assert_eq!(outcome.hosts, api.hosts);
    assert!(is_prefix(&api.base_path), "{:?}", api.base_path);
    assert!(api.default_path.iter().all(|path| is_prefix(path)));
    assert!(api.transports.http || api.transports.https);
    let sets = api.operations.iter().flat_map(|op| [op.production, op.sandbox]);
    for index in sets.chain([api.production, api.sandbox]).flatten() {
        assert!(index < api.upstreams.len(), "the index {index} is out of range");
    }
    for operation in &api.operations {
        let template = &operation.template;
        assert!(template.is_empty() || template.starts_with('/'), "{template:?}");
        assert!(template.split('/').count() <= limits::TEMPLATE_SEGMENTS_MAX + 1);
        let reachable = [operation.production, operation.sandbox, api.production, api.sandbox];
        assert!(reachable.iter().any(Option::is_some), "{template:?} has no endpoint");
    }
    endpoints_read_back(api);
}

fn is_prefix(path: &str) -> bool {
    path.is_empty() || (path.starts_with('/') && !path.ends_with('/') && !path.contains("//"))
}

/// An endpoint that is printed and parsed again is the same.
fn endpoints_read_back(api: &Api) {
    for upstream in &api.upstreams {
        assert!(!upstream.endpoints.is_empty() && upstream.response_head_ms > 0);
        for endpoint in &upstream.endpoints {
            let Endpoint { scheme, authority, path, .. } = endpoint;
            let scheme = scheme.as_str();
            let again = address::endpoint(&format!("{scheme}://{authority}{path}"));
            assert_eq!(again.as_ref(), Ok(endpoint));
        }
    }
}

/// Reads `data` as an application and as plans, in both formats.
///
/// # Panics
/// When a property does not hold.
fn quotas(data: &[u8]) {
    let names: Vec<_> = declarative::shipped().iter().map(|plan| plan.name.clone()).collect();
    let check = |read: &dyn Fn() -> (Option<Application>, Vec<Diagnostic>)| {
        let (application, diagnostics) = read();
        bounded(&diagnostics, application.is_some());
        assert_eq!((&application, &diagnostics), (&read().0, &read().1), "reading twice differs");
        let Some(application) = application else { return };
        let named =
            application.subscriptions.iter().map(|one| &one.plan).chain([&application.plan]);
        for plan in named.flatten() {
            assert!(names.iter().any(|name| name.eq_ignore_ascii_case(plan)), "`{plan}`");
        }
    };
    check(&|| declarative::read_application(Path::new("a.toml"), data, &names));
    if let Ok(document) = serde_json::from_slice(data) {
        check(&|| declarative::read_published(Path::new("a"), "a", &document, &names));
        let (plan, diagnostics) = declarative::read_published_plan(Path::new("a"), &document);
        bounded(&diagnostics, plan.is_some());
    }
    for file in ["plans.toml", "policies.yaml"] {
        let read = declarative::read_plans(&[(file.into(), Ok(data.to_vec()))]);
        let (plans, diagnostics) = (read.plans, read.diagnostics);
        let accepted = diagnostics.iter().all(|one| one.severity != Severity::Error);
        bounded(&diagnostics, accepted);
        for plan in plans.iter().filter(|_| accepted) {
            assert!(!plan.name.is_empty() && plan.limits.len() <= limits::PLAN_LIMITS_MAX);
            for limit in plan.limits.iter().chain(&plan.burst) {
                assert!((1..=limits::QUOTA_MAX).contains(&limit.amount));
                assert!((1_000..=limits::QUOTA_PERIOD_MS_MAX).contains(&limit.period_ms));
            }
        }
    }
}

/// Reads `data` as penstock.toml, as an application, as plans and as a response of Vault. Every environment variable
/// and file exists.
///
/// # Panics
/// When a property does not hold.
pub fn settings(data: &[u8]) {
    quotas(data);
    vault(data);
    let Ok(text) = std::str::from_utf8(data) else { return };
    let secret = "0123456789abcdef".repeat(4);
    let env = |_: &str| Some(secret.clone());
    let files = |_: &Path| Ok(secret.clone().into_bytes());
    let vault = |_: &VaultField| Some(secret.clone().into_bytes());
    let read = || declarative::read(Path::new("etc/penstock.toml"), text, &env, &files, &vault);
    let (settings, diagnostics) = read();
    bounded(&diagnostics, settings.is_some());
    assert_eq!((settings.clone(), diagnostics), read(), "reading twice differs");
    let Some(settings) = settings else { return };
    let (gateway, integration) = (&settings.gateway, &settings.integration);
    let listeners = [gateway.http, gateway.https, integration.http, integration.https];
    assert!(listeners.iter().any(Option::is_some), "no listener");
    assert!(settings.gateway.workers.is_none_or(|n| (1..=limits::WORKERS_MAX).contains(&n)));
    for issuer in &settings.issuers {
        assert!(!issuer.name.is_empty() && !issuer.iss.is_empty());
        assert!(issuer.leeway_s <= limits::LEEWAY_S_MAX);
        let namesakes = settings.issuers.iter().filter(|other| other.iss == issuer.iss);
        assert_eq!(namesakes.count(), 1, "two issuers share `iss`");
    }
    assert!(!format!("{settings:?}").contains(&secret), "a secret is printed");
}

/// Reads `data` as a response of Vault.
///
/// # Panics
/// When a property does not hold.
pub fn vault(data: &[u8]) {
    if let Ok(token) = vault::read_token(data, None) {
        assert!(!token.value.is_empty() && token.value.bytes().all(|b| b.is_ascii_graphic()));
    }
    if let Ok(secret) = vault::read_secret(data) {
        assert!(secret.fields.values().all(|value| !value.iter().any(u8::is_ascii_control)));
    }
}

/// Reads `data` as an archive and as an artefact. If it is text, also as the entries of an archive: each begins with a
/// line `== name`.
///
/// # Panics
/// When a property does not hold.
pub fn artefacts(data: &[u8]) {
    artefact_file("a.car", data);
    artefact_file("sequences/a.xml", data);
    artefact_file("artifact.xml", data);
    let Ok(text) = std::str::from_utf8(data) else { return };
    let entries = text.split("== ").filter_map(|entry| entry.split_once('\n'));
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, content) in entries {
        let options = zip::write::SimpleFileOptions::default();
        // Names may be repeated, which the writer rejects.
        if writer.start_file(name, options).is_ok() {
            std::io::Write::write_all(&mut writer, content.as_bytes()).expect("in memory");
        }
    }
    if let Ok(archive) = writer.finish() {
        artefact_file("a.car", archive.get_ref());
    }
}

fn artefact_file(file: &str, data: &[u8]) {
    let parameter = |_: Parameter, name: &str| (name != "ABSENT").then(|| format!("<{name}>"));
    let refs = |_: &str| Ok(data.to_vec());
    let fetch = |_: &str| Ok(data.to_vec());
    let outside = Outside { parameter: &parameter, file: &refs, fetch: &fetch };
    let outcome = synapse::read(Path::new(file), data, outside);
    assert_eq!(outcome, synapse::read(Path::new(file), data, outside), "reading twice differs");
    bounded(&outcome.diagnostics, outcome.set.is_some());
    let set = outcome.set.unwrap_or_default();
    for artefact in &set.artefacts {
        let document = xml::Document::parse(&artefact.bytes).expect("an artefact is well-formed");
        let element = document.element().map(|element| element.local_name());
        assert_eq!(element, Some(artefact.kind.element()));
        assert!(!artefact.name.is_empty() && artefact.file.starts_with(file) || file == "a.car");
        assert_eq!(artefact.application.is_some(), file == "a.car");
    }
    for path in set.resources.keys() {
        assert_eq!(model::resource_path(path).as_ref(), Some(path));
    }
}

/// The result exists exactly if no diagnostic is an error; diagnostics are limited in number and have a message.
fn bounded(diagnostics: &[Diagnostic], accepted: bool) {
    let errors = diagnostics.iter().any(|d| d.severity == Severity::Error);
    assert_eq!(accepted, !errors, "{diagnostics:?}");
    assert!(diagnostics.len() <= limits::DIAGNOSTICS_MAX);
    for diagnostic in diagnostics {
        assert!(!diagnostic.message.is_empty());
        assert!(diagnostic.place.is_none_or(|place| place.line > 0 && place.column > 0));
        assert!(!diagnostic.to_string().contains('\0'));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const API: &str = "openapi: 3.1.0\ninfo: {title: A, version: 1}\nservers: [{url: 'http://h:1/p'}]\n\
        x-wso2-sandbox-endpoints: {urls: ['https://[::1]'], advanceEndpointConfig: {timeoutInMillis: 5}}\n\
        paths:\n  /a/{b}: {get: {security: []}, post: {x-scope: s}}\n  /c: {$ref: 'x/d.yaml#/paths/~1a~1%7Bb%7D'}\n";
    const TOML: &str = "[gateway]\nhttp = \"127.0.0.1:0\"\ntrusted_proxies = [\"10.0.0.0/8\"]\n[[issuer]]\n\
        name = \"a\"\niss = \"b\"\nalgorithms = [\"HS256\"]\nsecret = { env = \"S\" }\n";

    const APPLICATION: &str = "[application]\nname = \"a\"\nplan = \"Gold\"\nkeys = [{ client_id = \"b\", type = \"sandbox\" }]\n\
        subscriptions = [{ api = \"A\", version = \"1\", plan = \"gold\", state = \"blocked\" }]\n";
    const PLANS: &str = "[[plan]]\nname = \"a\"\nlimits = [{ requests = 5, per = \"1m\", by = \"user\" }, { kilobytes = 2, per = \"1y\" }, { amount = 3, of = \"response_header:a\", per = \"1d\" }]\n\
        burst = { requests = 1, per = \"1s\" }\n";
    const POLICIES: &str = "- A: {count: 1, unitTime: 1, timeUnit: min}\n- B:\n  count: 2\n  unitTime: 3\n  timeUnit: day\n";
    const VAULT: &str = include_str!("../../../fuzz/seeds/settings/vault.json");
    const ARCHIVE: &str = include_str!("../../../fuzz/seeds/archive/application");

    /// The content of a snapshot, truncated at every byte, and with each byte replaced.
    #[test]
    fn the_properties_of_snapshots_hold_for_broken_variants() {
        let bytes = include_bytes!("../../../fuzz/seeds/snapshot/content");
        for at in 0..=bytes.len() {
            snapshot(bytes.get(..at).unwrap_or_default());
            for byte in [0, 1, 0xff] {
                let mut changed = bytes.to_vec();
                if let Some(old) = changed.get_mut(at) {
                    *old = byte;
                }
                snapshot(&changed);
            }
        }
    }

    /// Each file as it is, truncated at every byte, and with each byte replaced.
    #[test]
    fn the_properties_hold_for_broken_variants_of_valid_files() {
        let files = [
            (API, openapi as fn(&[u8])),
            (TOML, settings),
            (APPLICATION, quotas),
            (PLANS, quotas),
            (POLICIES, quotas),
            (ARCHIVE, artefacts),
            (VAULT, vault),
        ];
        for (text, property) in files {
            let bytes = text.as_bytes();
            property(bytes);
            for at in 0..bytes.len() {
                property(bytes.get(..at).unwrap_or_default());
                for byte in [b' ', b'{', 0xff] {
                    let mut changed = bytes.to_vec();
                    if let Some(old) = changed.get_mut(at) {
                        *old = byte;
                    }
                    property(&changed);
                }
            }
        }
    }
}
