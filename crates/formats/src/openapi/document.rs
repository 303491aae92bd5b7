//! The description as a whole: version, name, base path, hosts, and settings for every operation.

use std::path::Path;

use model::{Api, Operation, Place, Security};

use super::certificates;
use super::contract;
use super::endpoints::Upstreams;
use super::extensions;
use super::general;
use super::paths::{Common, Paths};
use super::policies;
use super::project;
use super::refs::Resolver;
use super::schemes::Schemes;
use super::security;
use super::servers::{self, Server};
use super::tiers;
use super::values;
use super::{Defaults, Outcome, Refs};
use crate::address;
use crate::report::{Report, shorten, suggest};
use crate::tree::{self, Map, Node};

/// Reads the description. The caller drops `Outcome::api` if there are errors.
pub(super) fn read(
    file: &Path,
    text: &[u8],
    refs: Refs<'_>,
    defaults: &Defaults,
    report: &mut Report,
) -> Outcome {
    let Some(tree) = tree::read(text, contract::keep(text), report) else {
        return Outcome::default();
    };
    let Some(root) = tree.as_map() else {
        let message = format!("an API description must be a map, not {}", tree.kind());
        report.error(tree.place, message, "start the file with `openapi: 3.1.0`");
        return Outcome::default();
    };
    if project::data(root).is_some() {
        return project::read(file, root, refs, defaults, report).unwrap_or_default();
    }
    read_tree(file, &tree, refs, defaults, report)
}

/// Reads a description that has been parsed.
pub(super) fn read_tree<'n>(
    file: &'n Path,
    tree: &'n Node<'n>,
    refs: Refs<'n>,
    defaults: &'n Defaults,
    report: &mut Report,
) -> Outcome {
    let Some(root) = tree.as_map() else { return Outcome::default() };
    let Some(version) = Version::read(root, tree.place, report) else { return Outcome::default() };
    Document { file, tree, root, version, refs, defaults }.read(report)
}

struct Document<'n> {
    file: &'n Path,
    tree: &'n Node<'n>,
    root: &'n Map<'n>,
    version: Version,
    refs: Refs<'n>,
    defaults: &'n Defaults,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    Swagger2,
    OpenApi3,
}

/// `info.title` and `info.version`.
#[derive(Default)]
struct Info {
    title: Option<String>,
    version: Option<String>,
}

impl<'n> Document<'n> {
    fn read(&self, report: &mut Report) -> Outcome {
        self.check_keys(report);
        extensions::check(self.root, extensions::Level::API, report);
        let info = self.info(report);
        let servers = self.servers(report);
        let base_path = self.base_path(&servers, &info, report);
        let hosts = general::hosts(self.root, report);
        let outcome = Outcome { base_path, hosts, ..Outcome::default() };
        let api = self.api(&servers, info, &outcome, report);
        Outcome { api, ..outcome }
    }

    fn api(
        &self,
        servers: &[Server],
        info: Info,
        outcome: &Outcome,
        report: &mut Report,
    ) -> Option<Api> {
        let mut upstreams = Upstreams::new(self.defaults);
        let (production, sandbox) = self.endpoints(servers, &mut upstreams, report);
        let mut resolver = Resolver::new(self.file.to_owned(), self.tree, self.refs);
        let schemes = Schemes::read(self.schemes(), self.root, &mut resolver, report);
        let api = security::Level::read(self.root, &schemes, report);
        let endpoints_explicit = self.root.get("x-wso2-production-endpoints").is_some();
        let policies = policies::OfApi::read(self.root, report);
        let tiers = tiers::OfApi::read(self.root, &self.defaults.plans, report);
        let common = Common { schemes, api, endpoints_explicit, policies, tiers };
        let mut paths = Paths::new(resolver, common, upstreams);
        let node = self.root.get("paths");
        if let Some(node) = node {
            paths.read(node, report);
        }
        if paths.found.is_empty() && !report.has_errors() {
            let place = node.map_or(self.tree.place, |node| node.place);
            let message = "the API has no operations: every request to it gets 404";
            report.warning(place, message, "add operations, such as `paths: {/*: {get: {}}}`");
        }
        let named_upstreams = paths.named_upstreams(report);
        if paths.found.iter().any(|operation| self.is_closed(&operation.security)) {
            self.no_issuer(report);
        }
        if production.is_none() && sandbox.is_none() {
            self.all_have_endpoints(&paths.found, servers, report);
        }
        let settings = general::read(self.root, report);
        let login = settings.login.as_ref().map(|(name, place)| self.login(name, *place, report));
        let base_path = outcome.base_path.clone()?;
        let version = info.version?;
        for operation in &mut paths.found {
            let mediates = operation.policies.as_ref().is_some_and(|of| of.mediate_exchanges());
            if mediates && operation.method == base::Method::Get && !settings.upgrades.is_empty() {
                let path = match operation.template.as_str() {
                    "" => "/".to_owned(),
                    template => shorten(template),
                };
                let message =
                    format!("GET {path} cannot upgrade: it has policies for requests or responses");
                let help = "put the operation that upgrades into an API without policies, or remove `x-penstock-upgrades`";
                report.error(None, message, help);
            }
            operation.response_cache = operation.response_cache.or(settings.response_cache);
        }
        Some(Api {
            default_path: general::default_path(self.root, &base_path, &version, report),
            name: info.title?,
            version,
            base_path,
            hosts: outcome.hosts.clone(),
            transports: settings.transports,
            auth_header: settings.auth_header,
            key_places: security::key_places(&paths.found),
            forward_auth_header: settings.forward_auth_header,
            forward_fields: settings.forward_fields,
            strict_paths: settings.strict_paths.unwrap_or(self.defaults.strict_paths),
            stall_ms: settings.stall_ms,
            mutual_tls: settings.mutual_tls,
            client_trust: certificates::read(self.root, self.refs, report),
            login,
            cors: settings.cors,
            caches: paths.found.iter().any(|operation| operation.response_cache.is_some()),
            plan: paths.plan(),
            backend: tiers::backend(self.root, report),
            lifecycle: settings.lifecycle,
            subscription: settings.subscription,
            upgrades: settings.upgrades,
            service: None,
            operations: paths.found,
            upstreams: paths.upstreams.list,
            named_upstreams,
            production,
            sandbox,
            source: self.file.to_owned(),
        })
    }

    fn schemes(&self) -> Option<&'n Node<'n>> {
        match self.version {
            Version::Swagger2 => self.root.get("securityDefinitions"),
            Version::OpenApi3 => self.root.get("components")?.as_map()?.get("securitySchemes"),
        }
    }

    fn servers(&self, report: &mut Report) -> Vec<Server> {
        match self.version {
            Version::Swagger2 => servers::of_swagger(self.root, report),
            Version::OpenApi3 => {
                self.root.get("servers").map(|node| servers::read(node, report)).unwrap_or_default()
            }
        }
    }

    /// The API's own endpoint sets; else `servers`.
    fn endpoints(
        &self,
        servers: &[Server],
        upstreams: &mut Upstreams<'n>,
        report: &mut Report,
    ) -> (Option<usize>, Option<usize>) {
        if let Some(node) = self.root.get("x-wso2-endpoints") {
            upstreams.name_them(node, report);
        }
        let sandbox = self.root.member("x-wso2-sandbox-endpoints");
        let sandbox = sandbox.and_then(|member| upstreams.read(member, report));
        let production = match self.root.member("x-wso2-production-endpoints") {
            Some(member) => upstreams.read(member, report),
            None if servers::name_a_host(servers) => {
                let endpoints = servers::endpoints(servers, report);
                upstreams.of_servers(endpoints)
            }
            None => None,
        };
        (production, sandbox)
    }

    fn all_have_endpoints(&self, found: &[Operation], servers: &[Server], report: &mut Report) {
        let named = ["x-wso2-production-endpoints", "x-wso2-sandbox-endpoints"];
        let explicit = named.iter().any(|name| self.root.get(name).is_some());
        let without = found.iter().any(|op| op.production.is_none() && op.sandbox.is_none());
        if explicit || !without || servers::name_a_host(servers) {
            return; // Each operation has an endpoint, or the problem with its endpoints has been reported.
        }
        if !servers.is_empty() {
            servers::endpoints(servers, report);
            return;
        }
        report.error(self.tree.place, "the API has no endpoint", servers::ADD_ENDPOINTS);
    }

    /// Whether none of the accepted credentials can be valid.
    fn is_closed(&self, security: &Security) -> bool {
        let Defaults { issuers_configured, applications_configured, users_configured, .. } =
            *self.defaults;
        match security {
            Security::Open => false,
            Security::Required(accepts) => {
                let by_key = applications_configured && !accepts.api_keys.is_empty();
                let by_login = users_configured && accepts.login.is_some();
                let is_signed = accepts.token.is_some() || !accepts.api_keys.is_empty();
                let by_issuer = issuers_configured && is_signed;
                !by_issuer && !by_key && !by_login && !accepts.optional
            }
        }
    }

    fn login(&self, name: &str, place: Place, report: &mut Report) -> String {
        let known = &self.defaults.logins;
        if !known.iter().any(|login| login == name) {
            let names = known.iter().map(String::as_str);
            let help = suggest(name, names, || "add it as a [[login]]".to_owned());
            report.error(place, format!("undefined login `{}`", shorten(name)), help);
        }
        name.to_owned()
    }

    fn no_issuer(&self, report: &mut Report) {
        let place = self
            .root
            .member("security")
            .or_else(|| self.root.member("paths"))
            .map(|member| member.key_place);
        let message = "the API requires a credential, but no issuer is configured";
        let help = "add an [[issuer]] to penstock.toml, a [[user]] for passwords, or write `x-wso2-disable-security: true` for public access";
        report.error(place, message, help);
    }

    fn info(&self, report: &mut Report) -> Info {
        let Some(node) = self.root.get("info") else {
            let help = "add `info: {title: Pets, version: 1.0.0}`";
            report.error(self.tree.place, "the description has no `info`", help);
            return Info::default();
        };
        let Some(map) = values::map(node, "info", report) else { return Info::default() };
        extensions::check(map, extensions::Level::ELSEWHERE, report);
        let mut required = |name: &str| {
            let Some(value) = map.get(name) else {
                return report.reject(
                    node.place,
                    format!("`info` has no `{name}`"),
                    format!("add `{name}`"),
                );
            };
            let text = values::text(value, name, report)?.trim();
            if text.is_empty() {
                return report.reject(
                    value.place,
                    format!("`{name}` is empty"),
                    format!("write the API's {name}"),
                );
            }
            Some(text.to_owned())
        };
        Info { title: required("title"), version: required("version") }
    }

    /// `x-wso2-basePath`, else the path of the first server, else `/{title as slug}/{version}`.
    fn base_path(&self, servers: &[Server], info: &Info, report: &mut Report) -> Option<String> {
        if let Some(node) = self.root.get("x-wso2-basePath") {
            let written = values::text(node, "x-wso2-basePath", report)?;
            return or_report(address::path_prefix(written), node.place, report);
        }
        if let Some(server) = servers.first() {
            let path = or_report(server.path(), server.place(), report)?;
            if !path.is_empty() {
                return Some(path);
            }
        }
        let (title, version) = (info.title.as_deref()?, info.version.as_deref()?);
        let slug = slug(title);
        let path = address::path_prefix(&format!("/{slug}/{version}"));
        if slug.is_empty() || version.contains('/') || path.is_err() {
            let message = "no base path can be made of `title` and `version`";
            return report.reject(self.tree.place, message, "add `x-wso2-basePath: /name/version`");
        }
        path.ok()
    }

    /// Reports unknown keys, which are often misspelt.
    fn check_keys(&self, report: &mut Report) {
        const OPENAPI: &[&str] = &[
            "openapi",
            "info",
            "jsonSchemaDialect",
            "servers",
            "paths",
            "webhooks",
            "components",
            "security",
            "tags",
            "externalDocs",
        ];
        const SWAGGER: &[&str] = &[
            "swagger",
            "info",
            "host",
            "basePath",
            "schemes",
            "consumes",
            "produces",
            "paths",
            "definitions",
            "parameters",
            "responses",
            "securityDefinitions",
            "security",
            "tags",
            "externalDocs",
        ];
        let valid = match self.version {
            Version::Swagger2 => SWAGGER,
            Version::OpenApi3 => OPENAPI,
        };
        for member in self.root.iter() {
            let key = member.key.as_ref();
            if valid.contains(&key) || key.starts_with("x-") {
                continue;
            }
            let help =
                suggest(key, valid.iter().copied(), || "remove it: it has no effect".to_owned());
            report.warning(member.key_place, format!("unknown key `{}`", shorten(key)), help);
        }
    }
}

impl Version {
    fn read(root: &Map<'_>, place: Place, report: &mut Report) -> Option<Self> {
        let help = "write `openapi: 3.0.3`, `openapi: 3.1.0` or `swagger: \"2.0\"`";
        let (name, node) = match (root.get("openapi"), root.get("swagger")) {
            (Some(node), None) => ("openapi", node),
            (None, Some(node)) => ("swagger", node),
            (Some(_), Some(node)) => {
                return report.reject(
                    node.place,
                    "a description cannot have both `openapi` and `swagger`",
                    "keep the one that the file follows",
                );
            }
            (None, None) => {
                return report.reject(place, "the file has neither `openapi` nor `swagger`", help);
            }
        };
        let written = values::text(node, name, report)?;
        let is = |minor: &str| {
            written == minor || written.strip_prefix(minor).is_some_and(|r| r.starts_with('.'))
        };
        match name {
            "swagger" if written == "2.0" => Some(Self::Swagger2),
            "openapi" if is("3.0") || is("3.1") => Some(Self::OpenApi3),
            _ => report.reject(
                node.place,
                format!("unsupported version `{name}: {}`", shorten(written)),
                help,
            ),
        }
    }
}

fn or_report<T>(result: Result<T, address::Wrong>, place: Place, report: &mut Report) -> Option<T> {
    result.map_err(|(message, help)| report.error(place, message, help)).ok()
}

/// The ASCII letters and digits in lower case, with one `-` for everything between them.
fn slug(title: &str) -> String {
    let words = title.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_ascii_lowercase).collect::<Vec<_>>().join("-")
}
