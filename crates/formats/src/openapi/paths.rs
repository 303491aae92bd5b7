//! `paths`: templates, path items and their operations.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use base::{Method, limits};
use model::{Operation, Place};

use super::contract::{self, Described};
use super::endpoints::Upstreams;
use super::extensions;
use super::interceptors::{self, Interceptors};
use super::policies;
use super::refs::{Chain, Resolver};
use super::schemes::Schemes;
use super::security;
use super::servers;
use super::tiers;
use super::values;
use crate::address;
use crate::report::{Report, shorten, suggest};
use crate::tree::{METHODS, Map, Member, Node};

/// Settings for every operation of a description.
pub(super) struct Common<'n> {
    pub(super) schemes: Schemes<'n>,
    /// The API's own security settings.
    pub(super) api: security::Level,
    /// Whether an extension sets the API's production endpoints. It then overrides all `servers`
    /// below.
    pub(super) endpoints_explicit: bool,
    /// The API's own policies.
    pub(super) policies: policies::OfApi,
    pub(super) tiers: tiers::OfApi<'n>,
}

/// Reads the operations of one description.
pub(super) struct Paths<'n, 'r> {
    resolver: Resolver<'n, 'r>,
    common: Common<'n>,
    pub(super) upstreams: Upstreams<'n>,
    pub(super) found: Vec<Operation>,
    /// The position of each method on each normalised template.
    seen: BTreeMap<(String, Method), (PathBuf, Place)>,
    /// Each normalised template as first written, with its position.
    templates: BTreeMap<String, (String, Place)>,
}

/// The path item that an operation belongs to.
struct Item<'t> {
    template: &'t str,
    /// The `$ref`s that led to it.
    chain: Chain,
}

/// Settings of a path item for its operations.
#[derive(Default)]
struct ItemLevel<'i> {
    parameters: Option<&'i Node<'i>>,
    security: security::Level,
    endpoints: Endpoints,
    interceptors: Interceptors,
    plan: Option<String>,
}

/// Endpoint sets by index in [`Upstreams::list`].
#[derive(Clone, Copy, Default)]
struct Endpoints {
    production: Option<usize>,
    sandbox: Option<usize>,
}

/// Maps in which a `$ref` within the description may find a path item.
const REFERABLE: &[&[&str]] = &[&["paths"], &["components", "pathItems"]];

impl<'n, 'r> Paths<'n, 'r> {
    pub(super) fn new(
        resolver: Resolver<'n, 'r>,
        common: Common<'n>,
        upstreams: Upstreams<'n>,
    ) -> Self {
        let (found, seen, templates) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        Self { resolver, common, upstreams, found, seen, templates }
    }

    pub(super) fn read(&mut self, node: &Node<'_>, report: &mut Report) {
        let Some(map) = values::map(node, "paths", report) else { return };
        for member in map.iter().filter(|member| !member.key.starts_with("x-")) {
            match template(&member.key) {
                Ok(template) => {
                    self.note_template(&template, member.key_place, report);
                    let item = Item { template: &template, chain: Chain::default() };
                    self.item(&member.value, &item, report);
                }
                Err((message, help)) => report.error(member.key_place, message, help),
            }
        }
    }

    /// Warns about a path that was written before with other parameter names or escapes: routing does
    /// not distinguish them.
    fn note_template(&mut self, template: &str, place: Place, report: &mut Report) {
        let normalised = without_names(template);
        let Some((first, at)) = self.templates.get(&normalised) else {
            self.templates.insert(normalised, (template.to_owned(), place));
            return;
        };
        let message = format!(
            "`{}` and `{}` on line {} are the same path: escapes and parameter names make no difference",
            shorten(template),
            shorten(first),
            at.line
        );
        report.warning(place, message, "move the operations to one of the two");
    }

    fn item(&mut self, node: &Node<'_>, item: &Item<'_>, report: &mut Report) {
        let Some(map) = values::map(node, item.template, report) else { return };
        if let Some(reference) = map.get("$ref") {
            self.follow(reference, map, item, report);
        }
        extensions::check(map, extensions::Level::PATH, report);
        let level = ItemLevel {
            parameters: map.get("parameters"),
            security: security::Level::read(map, &self.common.schemes, report),
            endpoints: self.endpoints(map, report),
            interceptors: Interceptors::read(map, report),
            plan: self.common.tiers.below(map, report),
        };
        for member in map.iter() {
            match method(&member.key) {
                Some(method) => self.operation(method, member, &level, item, report),
                None => check_key(member, report),
            }
        }
    }

    /// Reads the path item that a `$ref` leads to. Operations may be beside the `$ref`; settings
    /// would be lost.
    fn follow(&mut self, node: &Node<'_>, beside: &Map<'_>, item: &Item<'_>, report: &mut Report) {
        let lost = |member: &&Member<'_>| {
            extensions::is_extension(&member.key)
                || matches!(member.key.as_ref(), "servers" | "security")
        };
        for member in beside.iter().filter(lost) {
            let message = format!("`{}` has no effect beside a `$ref`", member.key);
            report.error(member.key_place, message, "move it to where the `$ref` leads");
        }
        let followed = self.resolver.follow(node, &item.chain, REFERABLE, report);
        let Some((target, chain)) = followed else { return };
        let before = report.enter(self.resolver.path(&chain));
        if let Some(node) = target.node() {
            self.item(node, &Item { template: item.template, chain }, report);
        }
        report.enter(before);
    }

    fn operation(
        &mut self,
        method: Method,
        member: &Member<'_>,
        level: &ItemLevel<'_>,
        item: &Item<'_>,
        report: &mut Report,
    ) {
        let Some(map) = values::map(&member.value, &member.key, report) else { return };
        if !self.is_new(method, member.key_place, item.template, report) {
            return;
        }
        extensions::check(map, extensions::Level::OPERATION, report);
        let own = security::Level::read(map, &self.common.schemes, report);
        let security = security::decide(&self.common.api, &level.security, &own, report);
        let endpoints = self.endpoints(map, report);
        let own_policies = policies::read(map, report);
        let interceptors = Interceptors::read(map, report).or(&level.interceptors);
        let (mut policies, response_cache) =
            self.common.policies.and(own_policies, interceptors, report);
        if let Some(policies) = policies.as_mut().filter(|policies| contract::is_wanted(policies)) {
            let described = Described {
                root: self.resolver.root(),
                item: level.parameters,
                operation: map,
                place: member.key_place,
            };
            if item.chain.is_in_description() {
                described.hand_over(Arc::make_mut(policies), report);
            } else {
                let message = "`schemaValidation` in a path item of another file is not supported";
                report.error(member.key_place, message, "move the path item into the description");
            }
        }
        let plan = self.common.tiers.below(map, report).or_else(|| level.plan.clone());
        self.found.push(Operation {
            plan,
            method,
            template: item.template.to_owned(),
            security,
            production: endpoints.production.or(level.endpoints.production),
            sandbox: endpoints.sandbox.or(level.endpoints.sandbox),
            policies,
            response_cache,
        });
    }

    fn is_new(
        &mut self,
        method: Method,
        place: Place,
        template: &str,
        report: &mut Report,
    ) -> bool {
        let key = (without_names(template), method);
        let Some((file, first)) = self.seen.get(&key) else {
            self.seen.insert(key, (report.file().to_owned(), place));
            return true;
        };
        let (file, line, column) = (file.display(), first.line, first.column);
        let message = format!(
            "{} {} is already defined at {file}:{line}:{column}",
            method.as_str(),
            shorten(if template.is_empty() { "/" } else { template })
        );
        let help = "keep one of them: escapes and parameter names make no difference";
        report.error(place, message, help);
        false
    }

    /// The endpoints that a path item or an operation sets for itself.
    fn endpoints(&mut self, map: &Map<'_>, report: &mut Report) -> Endpoints {
        let mut named = |name: &str, upstreams: &mut Upstreams<'n>| {
            map.member(name).and_then(|member| upstreams.read(member, report))
        };
        let production = named("x-wso2-production-endpoints", &mut self.upstreams);
        let sandbox = named("x-wso2-sandbox-endpoints", &mut self.upstreams);
        let production = production.or_else(|| self.of_servers(map, report));
        Endpoints { production, sandbox }
    }

    fn of_servers(&mut self, map: &Map<'_>, report: &mut Report) -> Option<usize> {
        let node = map.get("servers")?;
        if map.get("x-wso2-production-endpoints").is_some() {
            return None;
        }
        if self.common.endpoints_explicit {
            let message = "`servers` has no effect here: the API has `x-wso2-production-endpoints`";
            report.warning(node.place, message, "write `x-wso2-production-endpoints` here, too");
            return None;
        }
        let servers = servers::read(node, report);
        let endpoints = servers::endpoints(&servers, report);
        self.upstreams.of_servers(endpoints)
    }

    /// All named endpoint sets, if an interceptor may choose one.
    pub(super) fn named_upstreams(&mut self, report: &mut Report) -> Vec<(String, usize)> {
        let policies = self.found.iter().filter_map(|operation| operation.policies.as_ref());
        let mut requests = policies.flat_map(|policies| &policies.request);
        if !requests.any(|policy| policy.name == interceptors::POLICY) {
            return Vec::new();
        }
        self.upstreams.all_named(report)
    }

    /// The API's own plan.
    pub(super) fn plan(&self) -> Option<String> {
        self.common.tiers.plan.clone()
    }
}

fn method(key: &str) -> Option<Method> {
    METHODS.contains(&key).then(|| Method::from_bytes(key.to_ascii_uppercase().as_bytes()))
}

/// Reports a key of a path item that is neither a method nor another known key.
fn check_key(member: &Member<'_>, report: &mut Report) {
    const OTHERS: [&str; 5] = ["$ref", "summary", "description", "servers", "parameters"];
    let key = member.key.as_ref();
    // `security` does not belong here either; it is reported with the operations.
    if OTHERS.contains(&key) || key == "security" || key.starts_with("x-") {
        return;
    }
    let lower = key.to_ascii_lowercase();
    if METHODS.contains(&lower.as_str()) {
        let message = format!("`{}` is not an operation: methods are lower case", shorten(key));
        return report.error(member.key_place, message, format!("write `{lower}`"));
    }
    let valid = METHODS.into_iter().chain(OTHERS);
    let help = suggest(key, valid, || "remove it: it has no effect".to_owned());
    report.warning(
        member.key_place,
        format!("unknown key `{}` in a path item", shorten(key)),
        help,
    );
}

/// A key of `paths` as `model::Operation::template`.
fn template(key: &str) -> Result<String, address::Wrong> {
    let shown = shorten(key);
    let Some(below) = key.strip_prefix('/') else {
        return Err((
            format!("the path `{shown}` does not start with `/`"),
            format!("write `/{shown}`"),
        ));
    };
    if below.is_empty() {
        return Ok(String::new());
    }
    let segments: Vec<&str> = below.split('/').collect();
    if segments.len() > limits::TEMPLATE_SEGMENTS_MAX {
        let most = limits::TEMPLATE_SEGMENTS_MAX;
        let help = "shorten it, or end it with `/*`".to_owned();
        return Err((format!("the path has more than {most} segments"), help));
    }
    let Some((last, rest)) = segments.split_last() else { return Ok(String::new()) };
    for part in rest {
        if part.is_empty() {
            return Err((
                format!("the path `{shown}` has an empty segment"),
                "remove one of the slashes".to_owned(),
            ));
        }
        segment(part)?;
    }
    if *last != "*" && !last.is_empty() {
        segment(last)?;
    }
    Ok(key.to_owned())
}

/// Checks literal text and `{parameters}`. A `*` is allowed only as the whole last segment.
fn segment(text: &str) -> Result<(), address::Wrong> {
    let wrong = |message: String, help: &str| Err((message, help.to_owned()));
    let shown = shorten(text);
    let mut rest = text;
    let mut plain = String::new();
    while let Some((before, after)) = rest.split_once('{') {
        let Some((name, behind)) = after.split_once('}') else {
            return wrong(format!("`{shown}` has a `{{` without `}}`"), "add the `}`");
        };
        if name.is_empty() || name.contains('{') {
            return wrong(format!("`{shown}` has a parameter without a name"), "write `{name}`");
        }
        plain.push_str(before);
        plain.push('x');
        rest = behind;
    }
    plain.push_str(rest);
    if plain.contains('}') {
        return wrong(format!("`{shown}` has a `}}` without `{{`"), "add the `{`");
    }
    if plain.contains('*') {
        return wrong(
            format!("the `*` in `{shown}` is not a wildcard"),
            "use `/*` at the end of the path, or a parameter",
        );
    }
    // Unlike in a prefix, spaces and characters beyond ASCII are allowed: routes are compared
    // without escapes.
    let ascii: String =
        plain.chars().map(|c| if c.is_ascii() && c != ' ' { c } else { 'x' }).collect();
    address::literal(&ascii)
}

/// The template without the names of its parameters, normalised: two templates for which it is equal
/// match the same requests.
fn without_names(template: &str) -> String {
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(&normalised(before));
        out.push_str("{}");
        rest = after.split_once('}').map_or("", |(_, behind)| behind);
    }
    out.push_str(&normalised(rest));
    out
}

/// A path as routing compares it: two paths for which it is equal match the same requests. Visible
/// characters are unescaped, except those that are syntax unless they are escaped; all others are
/// escaped.
#[must_use]
pub fn normalised(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    let mut bytes = path.as_bytes();
    while let [first, rest @ ..] = bytes {
        bytes = rest;
        let mut byte = *first;
        let mut escaped = !byte.is_ascii_graphic() || byte == b'%';
        if let [high, low, after @ ..] = rest {
            let digit =
                |byte: &u8| char::from(*byte).to_digit(16).and_then(|d| u8::try_from(d).ok());
            if let (b'%', Some(high), Some(low)) = (byte, digit(high), digit(low)) {
                byte = high.wrapping_shl(4) | low;
                escaped = !byte.is_ascii_graphic() || b"%/*{}".contains(&byte);
                bytes = after;
            }
        }
        if escaped {
            out.push_str(&format!("%{byte:02X}"));
        } else {
            out.push(char::from(byte));
        }
    }
    out
}
