//! `paths`: templates, path items and their operations.

use std::collections::BTreeMap;
use std::path::PathBuf;

use base::{Method, limits};
use model::{Operation, Place, Security};

use super::endpoints::Upstreams;
use super::extensions;
use super::refs::{self, Files, Reference};
use super::security::{self, Schemes};
use super::servers;
use super::values;
use crate::address;
use crate::report::{Report, shorten, suggest};
use crate::tree::{METHODS, Map, Member, Node};

/// What holds for every operation of a document.
pub(super) struct Common<'n> {
    pub(super) schemes: Schemes<'n>,
    /// What the API says about security.
    pub(super) api: security::Level,
    /// Whether the API's production endpoints come from an extension, which then beats all `servers` below.
    pub(super) endpoints_explicit: bool,
}

/// Reads the operations of one document.
pub(super) struct Paths<'n, 'r> {
    main: PathBuf,
    root: &'n Node<'n>,
    files: Files<'r>,
    common: Common<'n>,
    pub(super) upstreams: Upstreams<'n>,
    pub(super) found: Vec<Operation>,
    /// Where each method on each normalised template stands.
    seen: BTreeMap<(String, Method), (PathBuf, Place)>,
}

/// What surrounds an operation.
struct Around<'t> {
    template: &'t str,
    /// The file it stands in, relative to the API's folder; `None`: the API's own.
    file: Option<String>,
    /// The `$ref`s that led here.
    trail: Vec<Reference>,
}

/// What a path item says for its operations.
#[derive(Default)]
struct ItemLevel {
    security: security::Level,
    endpoints: Endpoints,
}

/// Endpoint sets by index in [`Upstreams::list`].
#[derive(Clone, Copy, Default)]
struct Endpoints {
    production: Option<usize>,
    sandbox: Option<usize>,
}

impl<'n, 'r> Paths<'n, 'r> {
    pub(super) fn new(
        main: PathBuf,
        root: &'n Node<'n>,
        files: Files<'r>,
        common: Common<'n>,
        upstreams: Upstreams<'n>,
    ) -> Self {
        Self { main, root, files, common, upstreams, found: Vec::new(), seen: BTreeMap::new() }
    }

    pub(super) fn read(&mut self, node: &Node<'_>, report: &mut Report) {
        let Some(map) = values::map(node, "paths", report) else { return };
        for member in map.iter().filter(|member| !member.key.starts_with("x-")) {
            match template(&member.key) {
                Ok(template) => {
                    let around = Around { template: &template, file: None, trail: Vec::new() };
                    self.item(&member.value, &around, report);
                }
                Err((message, help)) => report.error(member.key_place, message, help),
            }
        }
        if self.found.is_empty() && !report.has_errors() {
            report.error(
                node.place,
                "the API has no operation",
                "add one, such as `/*: {get: {}}`",
            );
        }
    }

    fn item(&mut self, node: &Node<'_>, around: &Around<'_>, report: &mut Report) {
        let Some(map) = values::map(node, around.template, report) else { return };
        if let Some(reference) = map.get("$ref") {
            self.follow(reference, map, around, report);
        }
        extensions::check(map, extensions::Level::PATH_ITEM, report);
        let level = ItemLevel {
            security: security::Level::read(map, &self.common.schemes, report),
            endpoints: self.endpoints(map, report),
        };
        for member in map.iter() {
            match method(&member.key) {
                Some(method) => self.operation(method, member, &level, around, report),
                None => check_key(member, report),
            }
        }
    }

    /// The item that `$ref` stands for; operations may stand beside it, other things would get lost.
    fn follow(
        &mut self,
        node: &Node<'_>,
        beside: &Map<'_>,
        around: &Around<'_>,
        report: &mut Report,
    ) {
        let lost =
            |member: &&Member<'_>| extensions::is_extension(&member.key) || member.key == "servers";
        for member in beside.iter().filter(lost) {
            let message = format!("`{}` has no effect beside a `$ref`", member.key);
            report.error(member.key_place, message, "write it where the `$ref` leads");
        }
        let Some(text) = values::text(node, "$ref", report) else { return };
        let reference = match Reference::read(text, around.file.as_deref()) {
            Ok(reference) => reference,
            Err((message, help)) => return report.error(node.place, message, help),
        };
        if around.trail.contains(&reference) {
            return report.error(
                node.place,
                "this `$ref` leads back to itself",
                "write the path item out",
            );
        }
        if around.trail.len() >= limits::REF_DEPTH_MAX {
            let message = format!("a chain of more than {} `$ref`s", limits::REF_DEPTH_MAX);
            return report.error(node.place, message, "refer to the path item itself");
        }
        let mut trail = around.trail.clone();
        trail.push(reference.clone());
        let next = Around { template: around.template, file: reference.file.clone(), trail };
        match &reference.file {
            None => self.follow_here(&reference, node.place, &next, report),
            Some(file) => self.follow_into(file, &reference, node.place, &next, report),
        }
    }

    fn follow_here(
        &mut self,
        to: &Reference,
        place: Place,
        next: &Around<'_>,
        report: &mut Report,
    ) {
        let parts: Vec<&str> = to.pointer.iter().map(String::as_str).collect();
        if !matches!(parts.as_slice(), ["paths", _] | ["components", "pathItems", _]) {
            return report.error(
                place,
                "a path item cannot be there",
                "refer to `#/components/pathItems/NAME`",
            );
        }
        let main = report.enter(self.main.clone());
        match refs::at(self.root, &to.pointer) {
            Some(node) => self.item(node, next, report),
            None => {
                let here = report.enter(main.clone());
                nothing_there(place, report);
                report.enter(here);
            }
        }
        report.enter(main);
    }

    fn follow_into(
        &mut self,
        file: &str,
        to: &Reference,
        place: Place,
        next: &Around<'_>,
        report: &mut Report,
    ) {
        let Some(tree) = self.files.get(file, place, report, &self.main) else { return };
        let Some(node) = refs::at(&tree, &to.pointer) else {
            return nothing_there(place, report);
        };
        let before = report.enter(refs::path_beside(&self.main, file));
        self.item(node, next, report);
        report.enter(before);
    }

    fn operation(
        &mut self,
        method: Method,
        member: &Member<'_>,
        item: &ItemLevel,
        around: &Around<'_>,
        report: &mut Report,
    ) {
        let Some(map) = values::map(&member.value, &member.key, report) else { return };
        if !self.is_new(method, member.key_place, around.template, report) {
            return;
        }
        extensions::check(map, extensions::Level::OPERATION, report);
        let level = security::Level::read(map, &self.common.schemes, report);
        let security = security::decide(&self.common.api, &item.security, &level, report);
        let own = self.endpoints(map, report);
        self.found.push(Operation {
            method,
            template: around.template.to_owned(),
            security,
            production: own.production.or(item.endpoints.production),
            sandbox: own.sandbox.or(item.endpoints.sandbox),
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
            "{} {} stands at {file}:{line}:{column} already",
            method.as_str(),
            shorten(if template.is_empty() { "/" } else { template })
        );
        report.error(
            place,
            message,
            "templates that differ in parameter names only are the same: keep one",
        );
        false
    }

    /// The endpoints that a path item or an operation names for itself.
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
            let message = "`servers` has no effect here: the API names its endpoints";
            report.warning(node.place, message, "write `x-wso2-production-endpoints` here");
            return None;
        }
        let servers = servers::read(node, report);
        let endpoints = servers::endpoints(&servers, report);
        self.upstreams.of_servers(endpoints)
    }

    /// Whether some operation needs a token.
    pub(super) fn any_secured(&self) -> bool {
        self.found.iter().any(|operation| operation.security != Security::Open)
    }
}

fn nothing_there(place: Place, report: &mut Report) {
    report.error(place, "nothing is where this `$ref` leads", "correct it");
}

fn method(key: &str) -> Option<Method> {
    METHODS.contains(&key).then(|| Method::from_bytes(key.to_ascii_uppercase().as_bytes()))
}

/// A key of a path item that is no method: known, an extension, or a mistake.
fn check_key(member: &Member<'_>, report: &mut Report) {
    const OTHERS: [&str; 5] = ["$ref", "summary", "description", "servers", "parameters"];
    let key = member.key.as_ref();
    if OTHERS.contains(&key) || key.starts_with("x-") {
        return;
    }
    let lower = key.to_ascii_lowercase();
    if METHODS.contains(&lower.as_str()) {
        let message = format!("`{}` declares no operation", shorten(key));
        return report.error(member.key_place, message, format!("write `{lower}`"));
    }
    let valid = METHODS.into_iter().chain(OTHERS);
    let help = suggest(key, valid, || "remove it: it has no effect".to_owned());
    report.warning(member.key_place, format!("`{}` is no part of a path item", shorten(key)), help);
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
        return Err((format!("the path has more than {most} segments"), "shorten it".to_owned()));
    }
    let Some((last, rest)) = segments.split_last() else { return Ok(String::new()) };
    for part in rest {
        if part.is_empty() {
            return Err((
                format!("the path `{shown}` has an empty segment"),
                "write one slash".to_owned(),
            ));
        }
        segment(part)?;
    }
    if *last != "*" && !last.is_empty() {
        segment(last)?;
    }
    Ok(key.to_owned())
}

/// Literal text and `{parameters}`; `*` stands only as the whole last segment.
fn segment(text: &str) -> Result<(), address::Wrong> {
    let wrong = |message: String, help: &str| Err((message, help.to_owned()));
    let shown = shorten(text);
    let mut rest = text;
    let mut plain = String::new();
    while let Some((before, after)) = rest.split_once('{') {
        let Some((name, behind)) = after.split_once('}') else {
            return wrong(format!("`{shown}` has a `{{` without `}}`"), "close it");
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
        return wrong(format!("`{shown}` has a `}}` without `{{`"), "open it");
    }
    if plain.contains('*') {
        return wrong(
            format!("`*` in `{shown}` is no wildcard"),
            "`/*` is one, at the end of the path only",
        );
    }
    // Other than in a prefix, blanks and letters beyond ASCII are fine: routes compare them escaped.
    let ascii: String =
        plain.chars().map(|c| if c.is_ascii() && c != ' ' { c } else { 'x' }).collect();
    address::literal(&ascii)
}

/// The template in the form in which two of them are the same: parameters without names, text as in
/// RFC 3986 section 6.2.2.
fn without_names(template: &str) -> String {
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        normalise(before, &mut out);
        out.push_str("{}");
        rest = after.split_once('}').map_or("", |(_, behind)| behind);
    }
    normalise(rest, &mut out);
    out
}

/// Unreserved characters unescaped, other escapes in upper case, other characters escaped.
pub(crate) fn normalise(text: &str, out: &mut String) {
    let mut bytes = text.as_bytes();
    while let [first, rest @ ..] = bytes {
        bytes = rest;
        let mut byte = *first;
        let mut escaped = !(byte.is_ascii_graphic() && byte != b'%');
        if let [high, low, after @ ..] = rest {
            let digit =
                |byte: &u8| char::from(*byte).to_digit(16).and_then(|d| u8::try_from(d).ok());
            if let (b'%', Some(high), Some(low)) = (byte, digit(high), digit(low)) {
                byte = high.wrapping_shl(4) | low;
                escaped = !(byte.is_ascii_alphanumeric() || b"-._~".contains(&byte));
                bytes = after;
            }
        }
        if escaped {
            out.push_str(&format!("%{byte:02X}"));
        } else {
            out.push(char::from(byte));
        }
    }
}
