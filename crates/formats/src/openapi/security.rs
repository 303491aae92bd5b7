//! What a caller has to show: security schemes and requirements, scopes, and the switches around them.
//!
//! Architecture invariant: an operation is open only where the file says so in so many words.

use model::{Place, ScopeRule, Security};

use super::values;
use crate::report::{Report, one_of, shorten, suggest};
use crate::tree::{Map, Node};

/// The kinds of credential that a file can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A token of an issuer: oauth2, openIdConnect, http bearer.
    Token,
    /// Not served yet; the name for messages.
    Unserved(&'static str),
}

/// The security schemes of a document, by name.
#[derive(Debug, Default)]
pub(super) struct Schemes<'n> {
    list: Vec<(&'n str, Kind)>,
}

impl<'n> Schemes<'n> {
    /// Reads `components.securitySchemes` (OpenAPI 3) or `securityDefinitions` (Swagger 2.0).
    pub(super) fn read(node: Option<&'n Node<'n>>, report: &mut Report) -> Self {
        let Some(map) = node.and_then(|node| values::map(node, "securitySchemes", report)) else {
            return Self::default();
        };
        let list = map
            .iter()
            .filter_map(|member| Some((member.key.as_ref(), kind(&member.value, report)?)))
            .collect();
        Self { list }
    }

    fn kind(&self, name: &str) -> Option<Kind> {
        self.list.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
    }
}

const TYPES: [&str; 6] = ["oauth2", "openIdConnect", "http", "apiKey", "basic", "mutualTLS"];

fn kind(node: &Node<'_>, report: &mut Report) -> Option<Kind> {
    let map = values::map(node, "securitySchemes", report)?;
    if map.get("$ref").is_some() {
        report.error(node.place, "a security scheme behind a `$ref` is not read", "write it here");
        return None;
    }
    let Some(of) = map.get("type") else {
        report.error(node.place, "the security scheme has no `type`", "add `type: oauth2`");
        return None;
    };
    let written = values::text(of, "type", report)?;
    match written {
        "oauth2" | "openIdConnect" => Some(Kind::Token),
        "apiKey" => Some(Kind::Unserved("API keys")),
        "basic" => Some(Kind::Unserved("basic authentication")),
        "mutualTLS" => Some(Kind::Unserved("client certificates")),
        "http" => match map.get("scheme").and_then(Node::as_text) {
            Some(scheme) if scheme.eq_ignore_ascii_case("bearer") => Some(Kind::Token),
            Some(scheme) if scheme.eq_ignore_ascii_case("basic") => {
                Some(Kind::Unserved("basic authentication"))
            }
            Some(_) => Some(Kind::Unserved("this http authentication scheme")),
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
                format!("`{}` is no type of security scheme", shorten(other)),
                help,
            );
            None
        }
    }
}

/// One `security` list, as far as it can be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Requirement {
    /// `security: []`
    Open,
    /// The scopes of each alternative that a token can meet.
    Token(Vec<Vec<String>>),
}

/// Reads a `security` list. What is wrong is reported; a broken list still asks for a token.
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
    let mut unserved = Vec::new();
    for item in items {
        match alternative(item, schemes, report) {
            Some(Alternative::Served(scopes)) => served.push(scopes),
            Some(Alternative::Unserved(what)) => unserved.push((item.place, what)),
            None => {}
        }
    }
    let alone = served.is_empty();
    for (place, what) in unserved {
        let message =
            format!("{what} are not served yet").replace("authentication are", "authentication is");
        let message = message.replace("scheme are", "scheme is");
        if alone {
            let help = "ask for a token (oauth2, openIdConnect, http bearer), or write `security: []` to open it";
            report.error(place, message, help);
        } else {
            report.warning(place, format!("{message}: callers need a token"), "");
        }
    }
    Requirement::Token(served)
}

enum Alternative {
    Served(Vec<String>),
    Unserved(&'static str),
}

/// One requirement object: all schemes that it names are needed together.
fn alternative(node: &Node<'_>, schemes: &Schemes<'_>, report: &mut Report) -> Option<Alternative> {
    let map = values::map(node, "security", report)?;
    if map.iter().next().is_none() {
        let help =
            "write `security: []` to open it to everybody, or remove `{}` to ask for a token";
        report.error(node.place, "`{}` leaves open whether a token is needed", help);
        return None;
    }
    let mut scopes: Option<Vec<String>> = None;
    let mut unserved = None;
    for member in map.iter() {
        let Some(kind) = schemes.kind(&member.key) else {
            let names = schemes.list.iter().map(|(name, _)| *name);
            let help =
                suggest(&member.key, names, || "define it under the security schemes".to_owned());
            let message = format!("no security scheme is named `{}`", shorten(&member.key));
            report.error(member.key_place, message, help);
            return None;
        };
        let listed = values::texts(&member.value, "security", report)?;
        let listed: Vec<String> = listed.into_iter().map(|(scope, _)| scope.to_owned()).collect();
        match kind {
            Kind::Unserved(what) => unserved = Some(what),
            Kind::Token => match &scopes {
                Some(before) if !before.is_empty() && !listed.is_empty() && *before != listed => {
                    let help = "put the scopes of one scheme here";
                    report.error(
                        member.key_place,
                        "two schemes ask one token for different scopes",
                        help,
                    );
                    return None;
                }
                Some(before) if !before.is_empty() => {}
                Some(_) | None => scopes = Some(listed),
            },
        }
    }
    Some(
        unserved
            .map_or_else(|| Alternative::Served(scopes.unwrap_or_default()), Alternative::Unserved),
    )
}

/// What one level (API, path, operation) says about security. Absent: nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Level {
    /// `x-wso2-disable-security`, `x-auth-type`: whether it is open.
    open: Option<bool>,
    requirement: Option<(Requirement, Place)>,
    /// `x-scope`, `x-scopes`.
    scopes: Option<(Vec<String>, Place)>,
    /// `x-penstock-scopes`: whether each scope is needed.
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

/// What an operation asks for. The nearest level that says something decides; nothing said: a token.
pub(super) fn decide(
    api: &Level,
    path: &Level,
    operation: &Level,
    report: &mut Report,
) -> Security {
    if is_open(api, path, operation, report) {
        if let Some((_, place)) = &operation.scopes {
            report.warning(*place, "scopes have no effect: the operation is open", "");
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
        report.error(place, message, "list one alternative, or drop `x-penstock-scopes: all`");
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
                "the operation asks for a token though the API is open: a token is needed";
            report.warning(
                *place,
                message,
                "write `x-wso2-disable-security: true` here to open it",
            );
        }
        return open;
    }
    let api_requires = || matches!(api.requirement, Some((Requirement::Open, _)));
    around.unwrap_or_else(api_requires)
}

/// The rule of several alternatives: one that asks for no scope makes the others' needless.
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
            _ => Err("alternatives with different scopes cannot all be needed"),
        };
    }
    let any = unique(alternatives.iter().flatten());
    Ok(if any.is_empty() { ScopeRule::Anything } else { ScopeRule::AnyOf(any) })
}

fn unique<'s>(scopes: impl IntoIterator<Item = &'s String>) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for scope in scopes {
        if !out.contains(scope) {
            out.push(scope.clone());
        }
    }
    out
}

/// `x-scope` beside the requirement: one of the two may name scopes, or both the same.
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
                let message = "`security` and this extension ask for different scopes";
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

/// WSO2's types: `None` opens; two of the others admit some tokens only, which is not served yet.
fn auth_type(node: &Node<'_>, report: &mut Report) -> Option<bool> {
    const TYPES: [&str; 5] =
        ["None", "Any", "Application & Application User", "Application", "Application User"];
    match values::text(node, "x-auth-type", report)? {
        "None" => Some(true),
        "Any" | "Application & Application User" => Some(false),
        some @ ("Application" | "Application User") => {
            let message =
                format!("`{some}`: telling users' tokens from applications' is not served yet");
            report.error(
                node.place,
                message,
                "write `Application & Application User`: any valid token passes then",
            );
            None
        }
        other => {
            let help = suggest(other, TYPES, || format!("write {}", one_of(["None", "Any"])));
            report.error(
                node.place,
                format!("`{}` is no authentication type", shorten(other)),
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
            "`x-scope` and `x-scopes` in one operation",
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
            format!("`{}` names no scope", member.key),
            "name one, or remove it",
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
                format!("`{}` is neither `any` nor `all`", shorten(other)),
                "write `all`",
            );
            None
        }
    }
}

/// `{security-types: [...], optional: ...}`: a token has to be among the types.
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
                    format!("`{kind}` is not served yet: callers need a token"),
                    "",
                );
            }
            "api_key" | "basic_auth" => {
                report.error(
                    *place,
                    format!("`{kind}` is not served yet"),
                    "add `oauth2` to the list",
                );
            }
            other => {
                let help = suggest(other, TYPES, || format!("write {}", one_of(TYPES)));
                report.error(*place, format!("`{}` is no security type", shorten(other)), help);
            }
        }
    }
    if let Some(node) = map.get("optional")
        && values::flag(node, "optional", report) == Some(true)
    {
        let help = "write `x-wso2-disable-security: true` to open the API";
        report.warning(node.place, "`optional` is not served yet: callers need a token", help);
    }
    for member in map.iter().filter(|m| !matches!(m.key.as_ref(), "security-types" | "optional")) {
        let help = suggest(&member.key, ["security-types", "optional"], || "remove it".to_owned());
        report.error(
            member.key_place,
            format!("`{}` means nothing here", shorten(&member.key)),
            help,
        );
    }
}
