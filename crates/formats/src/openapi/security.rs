//! The security of operations: schemes, requirements, scopes, and the extensions that change them.
//!
//! Architecture invariant: an operation requires a token unless the file explicitly says otherwise.

use std::collections::{BTreeMap, BTreeSet};

use model::{Place, ScopeRule, Security};

use super::refs::Resolver;
use super::values;
use crate::report::{Report, one_of, shorten, suggest};
use crate::tree::{Map, Node, Value};

/// The kinds of credential that a file can require.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A token of an issuer: oauth2, openIdConnect, http bearer.
    Token,
    /// Not supported yet; the name for diagnostics.
    Unsupported(&'static str),
    /// Not valid, which has been reported.
    Invalid,
}

/// The security schemes of a document, by name.
#[derive(Debug, Default)]
pub(super) struct Schemes<'n> {
    list: BTreeMap<&'n str, Kind>,
}

impl<'n> Schemes<'n> {
    /// Reads `components.securitySchemes` (OpenAPI 3) or `securityDefinitions` (Swagger 2.0).
    pub(super) fn read(
        node: Option<&'n Node<'n>>,
        resolver: &mut Resolver<'n, '_>,
        report: &mut Report,
    ) -> Self {
        let Some(map) = node.and_then(|node| values::map(node, "securitySchemes", report)) else {
            return Self::default();
        };
        let mut list = BTreeMap::new();
        for member in map.iter() {
            let mut found = Kind::Invalid;
            resolver.resolve(&member.value, REFERABLE, report, &mut |node, report| {
                found = kind(node, report).unwrap_or(Kind::Invalid);
            });
            list.insert(member.key.as_ref(), found);
        }
        Self { list }
    }

    fn kind(&self, name: &str) -> Option<Kind> {
        self.list.get(name).copied()
    }
}

/// Where a `$ref` within the document may find a security scheme.
const REFERABLE: &[&[&str]] = &[&["components", "securitySchemes"], &["securityDefinitions"]];

const TYPES: [&str; 6] = ["oauth2", "openIdConnect", "http", "apiKey", "basic", "mutualTLS"];

fn kind(node: &Node<'_>, report: &mut Report) -> Option<Kind> {
    let map = values::map(node, "securitySchemes", report)?;
    let Some(of) = map.get("type") else {
        report.error(node.place, "the security scheme has no `type`", "add `type: oauth2`");
        return None;
    };
    let written = values::text(of, "type", report)?;
    match written {
        "oauth2" | "openIdConnect" => Some(Kind::Token),
        "apiKey" => Some(Kind::Unsupported("API keys are")),
        "basic" => Some(Kind::Unsupported("Basic authentication is")),
        "mutualTLS" => Some(Kind::Unsupported("client certificates are")),
        "http" => match map.get("scheme").and_then(Node::as_text) {
            Some(scheme) if scheme.eq_ignore_ascii_case("bearer") => Some(Kind::Token),
            Some(scheme) if scheme.eq_ignore_ascii_case("basic") => {
                Some(Kind::Unsupported("Basic authentication is"))
            }
            Some(_) => Some(Kind::Unsupported("this HTTP authentication scheme is")),
            None => {
                report.error(
                    node.place,
                    "the http security scheme has no `scheme`",
                    "add `scheme: bearer`",
                );
                None
            }
        },
        other => {
            let help = suggest(other, TYPES, || format!("write {}", one_of(TYPES)));
            report.error(
                of.place,
                format!("unknown type of security scheme `{}`", shorten(other)),
                help,
            );
            None
        }
    }
}

/// The supported part of a `security` list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Requirement {
    /// `security: []`
    Open,
    /// The scopes of each alternative that a token can satisfy.
    Token(Vec<Vec<String>>),
}

/// Reads a `security` list. An invalid one is reported and still requires a token.
pub(super) fn requirement(
    node: &Node<'_>,
    schemes: &Schemes<'_>,
    report: &mut Report,
) -> Requirement {
    let Some(items) = values::list(node, "security", report) else {
        return Requirement::Token(Vec::new());
    };
    if items.is_empty() {
        return Requirement::Open;
    }
    let mut served = Vec::new();
    let mut unsupported = Vec::new();
    for item in items {
        match alternative(item, schemes, report) {
            Some(Alternative::Served(scopes)) => served.push(scopes),
            Some(Alternative::Unsupported(what)) => unsupported.push((item.place, what)),
            None => {}
        }
    }
    for (place, what) in unsupported {
        if served.is_empty() {
            let help = "require a token (`oauth2`, `openIdConnect` or `http` with `bearer`), or write `security: []` for public access";
            report.error(place, format!("{what} not supported yet"), help);
        } else {
            report.warning(place, format!("{what} not supported yet: clients need a token"), "");
        }
    }
    Requirement::Token(served)
}

enum Alternative {
    Served(Vec<String>),
    Unsupported(&'static str),
}

/// One requirement object: a client must satisfy all schemes that it names.
fn alternative(node: &Node<'_>, schemes: &Schemes<'_>, report: &mut Report) -> Option<Alternative> {
    let map = values::map(node, "security", report)?;
    if map.iter().next().is_none() {
        let help = "remove `{}` to require a token, or write `security: []` for public access";
        report.error(node.place, "optional authentication (`{}`) is not supported", help);
        return None;
    }
    let mut scopes: Option<Vec<String>> = None;
    let mut unsupported = None;
    for member in map.iter() {
        let Some(kind) = schemes.kind(&member.key) else {
            let names = schemes.list.keys().copied();
            let help = suggest(&member.key, names, || "add it to the security schemes".to_owned());
            let message = format!("undefined security scheme `{}`", shorten(&member.key));
            report.error(member.key_place, message, help);
            return None;
        };
        // WSO2's own descriptions write `- OAuth2Security:` without a list.
        let listed = match &member.value.value {
            Value::Null => Vec::new(),
            Value::Bool(_)
            | Value::Number(_)
            | Value::Text(_)
            | Value::List(_)
            | Value::Map(_)
            | Value::Unread => values::texts(&member.value, &member.key, report)?,
        };
        let listed: Vec<String> = listed.into_iter().map(|(scope, _)| scope.to_owned()).collect();
        match kind {
            Kind::Invalid => return None,
            Kind::Unsupported(what) => unsupported = Some(what),
            Kind::Token => match &scopes {
                Some(before) if !before.is_empty() && !listed.is_empty() && *before != listed => {
                    let message = "two schemes require different scopes of one token";
                    report.error(member.key_place, message, "list the scopes under one scheme");
                    return None;
                }
                Some(before) if !before.is_empty() => {}
                Some(_) | None => scopes = Some(listed),
            },
        }
    }
    Some(
        unsupported.map_or_else(
            || Alternative::Served(scopes.unwrap_or_default()),
            Alternative::Unsupported,
        ),
    )
}

/// The security settings of one level: the API, a path item or an operation.
#[derive(Clone, Debug, Default)]
pub(super) struct Level {
    /// `x-wso2-disable-security`, `x-auth-type`: whether no token is required.
    open: Option<bool>,
    requirement: Option<(Requirement, Place)>,
    /// `x-scope`, `x-scopes`.
    scopes: Option<(Vec<String>, Place)>,
    /// `x-penstock-scopes`: whether a token needs all scopes.
    all: Option<bool>,
}

impl Level {
    pub(super) fn read(map: &Map<'_>, schemes: &Schemes<'_>, report: &mut Report) -> Self {
        if let Some(node) = map.get("x-wso2-application-security") {
            application_security(node, report);
        }
        let security = map.get("security");
        Self {
            open: open(map, report),
            requirement: security.map(|node| (requirement(node, schemes, report), node.place)),
            scopes: scopes(map, report),
            all: map.get("x-penstock-scopes").and_then(|node| all(node, report)),
        }
    }

    fn rule_source(&self) -> Option<&(Requirement, Place)> {
        self.requirement.as_ref().filter(|(requirement, _)| *requirement != Requirement::Open)
    }
}

/// What an operation requires. The innermost level that has a setting decides; without any, a token
/// is required.
pub(super) fn decide(
    api: &Level,
    path: &Level,
    operation: &Level,
    report: &mut Report,
) -> Security {
    let security = without_path_requirement(api, path, operation, report);
    if let (Some((ignored, place)), None) = (&path.requirement, &operation.requirement) {
        ignore_path_requirement(ignored, *place, &security, report);
    }
    security
}

/// OpenAPI has no `security` on a path item. Ignoring one that is stricter than what applies is an
/// error.
fn ignore_path_requirement(
    ignored: &Requirement,
    place: Place,
    applies: &Security,
    report: &mut Report,
) {
    let message = "`security` on a path item is not part of OpenAPI and has no effect";
    let harmless = match (ignored, applies) {
        (Requirement::Open, _) => true,
        (Requirement::Token(_), Security::Open) => false,
        (Requirement::Token(_), Security::Token(required)) => {
            rule(ignored, false).is_ok_and(|rule| rule == ScopeRule::Anything || rule == *required)
        }
    };
    if harmless {
        report.warning(place, message, "move it to the operations");
    } else {
        report.error(
            place,
            format!("{message}; without it, clients would need less than it requires"),
            "move it to the operations",
        );
    }
}

fn without_path_requirement(
    api: &Level,
    path: &Level,
    operation: &Level,
    report: &mut Report,
) -> Security {
    if is_open(api, path, operation, report) {
        if let Some((_, place)) = &operation.scopes {
            let message = "the scopes have no effect: the operation requires no token";
            report.warning(*place, message, "remove them");
        }
        return Security::Open;
    }
    let all = operation.all.or(path.all).or(api.all).unwrap_or(false);
    let source = match &operation.requirement {
        Some(_) => operation.rule_source(),
        None => api.rule_source(),
    };
    let required =
        source.map_or(Ok(ScopeRule::Anything), |(requirement, _)| rule(requirement, all));
    let required = required.unwrap_or_else(|message| {
        let place = source.map(|(_, place)| *place);
        report.error(place, message, "keep one alternative, or remove `x-penstock-scopes: all`");
        ScopeRule::Anything
    });
    Security::Token(with_extension(required, operation.scopes.as_ref(), all, report))
}

fn is_open(api: &Level, path: &Level, operation: &Level, report: &mut Report) -> bool {
    if let Some(open) = operation.open {
        return open;
    }
    let around = path.open.or(api.open);
    if let Some((requirement, place)) = &operation.requirement {
        let open = *requirement == Requirement::Open;
        if !open && around == Some(true) {
            let message =
                "the operation requires a token, although security is disabled for the API or path";
            let help = "for public access, write `x-wso2-disable-security: true` here";
            report.warning(*place, message, help);
        }
        return open;
    }
    let api_requires = || matches!(api.requirement, Some((Requirement::Open, _)));
    around.unwrap_or_else(api_requires)
}

/// Combines the alternatives. If one of them needs no scope, no scope is needed.
fn rule(requirement: &Requirement, all: bool) -> Result<ScopeRule, &'static str> {
    let alternatives = match requirement {
        Requirement::Open => return Ok(ScopeRule::Anything),
        Requirement::Token(alternatives) => alternatives,
    };
    if alternatives.iter().any(Vec::is_empty) {
        return Ok(ScopeRule::Anything);
    }
    if all {
        return match alternatives.as_slice() {
            [] => Ok(ScopeRule::Anything),
            [first, rest @ ..] if rest.iter().all(|other| other == first) => {
                Ok(ScopeRule::AllOf(unique(first)))
            }
            _ => Err(
                "`x-penstock-scopes: all` does not work with alternatives that have different scopes",
            ),
        };
    }
    let any = unique(alternatives.iter().flatten());
    Ok(if any.is_empty() { ScopeRule::Anything } else { ScopeRule::AnyOf(any) })
}

fn unique<'s>(scopes: impl IntoIterator<Item = &'s String>) -> Vec<String> {
    let mut known = BTreeSet::new();
    scopes.into_iter().filter(|scope| known.insert(*scope)).cloned().collect()
}

/// Adds `x-scope`. If the requirement has scopes as well, both must be the same.
fn with_extension(
    rule: ScopeRule,
    extension: Option<&(Vec<String>, Place)>,
    all: bool,
    report: &mut Report,
) -> ScopeRule {
    let Some((scopes, place)) = extension else { return rule };
    let scopes = unique(scopes);
    match &rule {
        ScopeRule::Anything if all => ScopeRule::AllOf(scopes),
        ScopeRule::Anything => ScopeRule::AnyOf(scopes),
        ScopeRule::AnyOf(others) | ScopeRule::AllOf(others) => {
            if *others != scopes {
                let message = "`security` and this extension name different scopes";
                report.error(*place, message, "keep one of the two");
            }
            rule
        }
    }
}

fn open(map: &Map<'_>, report: &mut Report) -> Option<bool> {
    let disabled = map.get("x-wso2-disable-security").and_then(|node| {
        Some((values::flag(node, "x-wso2-disable-security", report)?, node.place))
    });
    let by_type = map.get("x-auth-type").and_then(|node| auth_type(node, report));
    if let (Some((disabled, place)), Some(open)) = (disabled, by_type)
        && disabled != open
    {
        let message = "`x-wso2-disable-security` and `x-auth-type` contradict each other";
        report.error(place, message, "keep one of the two");
    }
    disabled.map(|(disabled, _)| disabled).or(by_type)
}

/// Whether no token is required. Two of WSO2's types restrict the kind of token, which is not
/// supported yet.
fn auth_type(node: &Node<'_>, report: &mut Report) -> Option<bool> {
    const TYPES: [&str; 5] =
        ["None", "Any", "Application & Application User", "Application", "Application User"];
    match values::text(node, "x-auth-type", report)? {
        "None" => Some(true),
        "Any" | "Application & Application User" => Some(false),
        some @ ("Application" | "Application User") => {
            let message = format!(
                "`x-auth-type: {some}` is not supported yet: any valid token would be accepted"
            );
            report.error(
                node.place,
                message,
                "if that is fine, write `Application & Application User`",
            );
            None
        }
        other => {
            let help = suggest(other, TYPES, || format!("write {}", one_of(["None", "Any"])));
            report.error(
                node.place,
                format!("unknown authentication type `{}`", shorten(other)),
                help,
            );
            None
        }
    }
}

/// `x-scope: "read write"`, `x-scopes: [read, write]`.
fn scopes(map: &Map<'_>, report: &mut Report) -> Option<(Vec<String>, Place)> {
    let member = map.member("x-scope").or_else(|| map.member("x-scopes"))?;
    if let (Some(_), Some(second)) = (map.member("x-scope"), map.member("x-scopes")) {
        report.error(
            second.key_place,
            "an operation cannot have both `x-scope` and `x-scopes`",
            "keep one of them",
        );
    }
    let listed = values::texts(&member.value, &member.key, report)?;
    let split = |text: &str| -> Vec<String> {
        text.split([' ', ',']).filter(|scope| !scope.is_empty()).map(str::to_owned).collect()
    };
    let scopes: Vec<String> = listed.iter().flat_map(|(text, _)| split(text)).collect();
    if scopes.is_empty() {
        report.error(
            member.value.place,
            format!("`{}` is empty", member.key),
            "add a scope, or remove it",
        );
        return None;
    }
    Some((scopes, member.key_place))
}

fn all(node: &Node<'_>, report: &mut Report) -> Option<bool> {
    match values::text(node, "x-penstock-scopes", report)? {
        "all" => Some(true),
        "any" => Some(false),
        other => {
            report.error(
                node.place,
                format!("unknown value `{}` of `x-penstock-scopes`", shorten(other)),
                "write `any` or `all`",
            );
            None
        }
    }
}

/// `{security-types: [...], optional: ...}`: a token must be among the types.
fn application_security(node: &Node<'_>, report: &mut Report) {
    const TYPES: [&str; 4] = ["oauth2", "jwt", "api_key", "basic_auth"];
    let name = "x-wso2-application-security";
    let Some(map) = values::map(node, name, report) else { return };
    let types =
        map.get("security-types").and_then(|node| values::texts(node, "security-types", report));
    let token = types.iter().flatten().any(|(kind, _)| matches!(*kind, "oauth2" | "jwt"));
    for (kind, place) in types.iter().flatten() {
        match *kind {
            "oauth2" | "jwt" => {}
            "api_key" | "basic_auth" if token => {
                report.warning(
                    *place,
                    format!("`{kind}` is not supported yet: clients need a token"),
                    "",
                );
            }
            "api_key" | "basic_auth" => {
                report.error(
                    *place,
                    format!("`{kind}` is not supported yet"),
                    "add `oauth2` to the list",
                );
            }
            other => {
                let help = suggest(other, TYPES, || format!("write {}", one_of(TYPES)));
                report.error(*place, format!("unknown security type `{}`", shorten(other)), help);
            }
        }
    }
    if let Some(node) = map.get("optional")
        && values::flag(node, "optional", report) == Some(true)
    {
        let help = "for public access, write `x-wso2-disable-security: true`";
        report.warning(
            node.place,
            "`optional: true` is not supported yet: clients need a token",
            help,
        );
    }
    for member in map.iter().filter(|m| !matches!(m.key.as_ref(), "security-types" | "optional")) {
        let help = suggest(&member.key, ["security-types", "optional"], || "remove it".to_owned());
        let message = format!("unknown key `{}` in `{name}`", shorten(&member.key));
        report.error(member.key_place, message, help);
    }
}
