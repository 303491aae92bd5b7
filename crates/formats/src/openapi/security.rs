//! The security of operations: requirements, scopes, and the extensions that change them.
//!
//! Architecture invariant: an operation requires a credential unless the file explicitly states otherwise, and a token
//! unless it names another kind.

use std::collections::BTreeSet;

use base::limits::KEY_PLACES_MAX;
use model::{Accepts, KeyPlace, Operation, Place, ScopeRule, Security, TokenRule, TokenType};

use super::schemes::{Application, Kind, Schemes};
use super::values;
use crate::report::{Report, one_of, shorten, suggest};
use crate::tree::{Map, Member, Node, Value};

/// The supported part of a `security` list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Requirement {
    /// `security: []`
    Open,
    Credential {
        /// The scopes of each alternative that a token can satisfy.
        tokens: Vec<Vec<String>>,
        /// The alternatives that an API key can satisfy.
        keys: Vec<KeyPlace>,
        /// Whether the password of a user satisfies any alternative.
        login: bool,
    },
}

impl Requirement {
    const INVALID: Self = Self::Credential { tokens: Vec::new(), keys: Vec::new(), login: false };

    /// Whether tokens are accepted, the places of accepted API keys, and whether passwords are accepted.
    fn accepts(&self) -> (bool, Vec<KeyPlace>, bool) {
        match self {
            Self::Open => (true, Vec::new(), false),
            Self::Credential { tokens, keys, login } => {
                let is_other = !keys.is_empty() || *login;
                (!tokens.is_empty() || !is_other, keys.clone(), *login)
            }
        }
    }
}

/// Reads a `security` list. An invalid one is reported and still requires a token.
pub(super) fn requirement(
    node: &Node<'_>,
    schemes: &Schemes<'_>,
    report: &mut Report,
) -> Requirement {
    let Some(items) = values::list(node, "security", report) else {
        return Requirement::INVALID;
    };
    if items.is_empty() {
        return Requirement::Open;
    }
    let (mut tokens, mut keys, mut login) = (Vec::new(), Vec::new(), false);
    let mut unsupported = Vec::new();
    for item in items {
        match alternative(item, schemes, report) {
            Some(Alternative::Token(scopes)) => tokens.push(scopes),
            Some(Alternative::Key(place)) if keys.contains(&place) => {}
            Some(Alternative::Key(place)) => keys.push(place),
            Some(Alternative::Login) => login = true,
            Some(Alternative::Unsupported(what)) => unsupported.push((item.place, what)),
            None => {}
        }
    }
    for (place, what) in unsupported {
        if tokens.is_empty() && keys.is_empty() && !login {
            let help = "require a token (`oauth2`, `openIdConnect` or `http` with `bearer`), an API key or a password (`basic`), or write `security: []` for public access";
            report.error(place, format!("{what} not supported yet"), help);
        } else {
            let message = format!("{what} not supported yet: clients need another credential");
            report.warning(place, message, "");
        }
    }
    Requirement::Credential { tokens, keys, login }
}

enum Alternative {
    Token(Vec<String>),
    Key(KeyPlace),
    Login,
    Unsupported(&'static str),
}

/// One requirement object: a client must satisfy all schemes that it names.
fn alternative(node: &Node<'_>, schemes: &Schemes<'_>, report: &mut Report) -> Option<Alternative> {
    let map = values::map(node, "security", report)?;
    if map.iter().next().is_none() {
        let help = "remove `{}` to require a token, or write `security: []` for public access";
        return report.reject(node.place, "optional authentication (`{}`) is not supported", help);
    }
    let mut scopes: Option<Vec<String>> = None;
    let (mut other, mut unsupported) = (None, None);
    for member in map.iter() {
        let Some(kind) = schemes.kind(&member.key) else {
            let names = schemes.list.keys().copied();
            let help = suggest(&member.key, names, || "add it to the security schemes".to_owned());
            let message = format!("undefined security scheme `{}`", shorten(&member.key));
            return report.reject(member.key_place, message, help);
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
            Kind::Unsupported(what) => unsupported = Some(*what),
            Kind::Key(_) | Kind::Login if other.is_some() => {
                one_credential(member.key_place, report);
                return None;
            }
            Kind::Key(place) => other = Some(Alternative::Key(place.clone())),
            Kind::Login => other = Some(Alternative::Login),
            Kind::Token => match &scopes {
                Some(before) if !before.is_empty() && !listed.is_empty() && *before != listed => {
                    let message = "two schemes require different scopes of one token";
                    let help = "list the scopes under one scheme";
                    return report.reject(member.key_place, message, help);
                }
                Some(before) if !before.is_empty() => {}
                Some(_) | None => scopes = Some(listed),
            },
        }
    }
    match (unsupported, other, scopes) {
        (Some(what), _, _) => Some(Alternative::Unsupported(what)),
        (None, Some(_), Some(_)) => {
            one_credential(node.place, report);
            None
        }
        (None, Some(other), None) => Some(other),
        (None, None, scopes) => Some(Alternative::Token(scopes.unwrap_or_default())),
    }
}

fn one_credential(place: Place, report: &mut Report) {
    let message = "a request needs one credential, not several at once";
    report.error(place, message, "write each in an item of its own, of which one suffices");
}

/// The security settings of one level: the API, a path item or an operation.
#[derive(Clone, Debug, Default)]
pub(super) struct Level {
    /// `x-wso2-disable-security`, `x-auth-type`: whether no credential is required.
    open: Option<bool>,
    /// `x-auth-type`: the type of token that is required, if only one is accepted.
    of: Option<Option<TokenType>>,
    application: Application,
    requirement: Option<(Requirement, Place)>,
    /// `x-scope`, `x-scopes`.
    scopes: Option<(Vec<String>, Place)>,
    /// `x-basic-auth-scopes`: the scopes of users with passwords.
    login_scopes: Option<Vec<String>>,
    /// `x-penstock-scopes`: whether a token needs all scopes.
    all: Option<bool>,
}

impl Level {
    pub(super) fn read(map: &Map<'_>, schemes: &Schemes<'_>, report: &mut Report) -> Self {
        let security = map.get("security");
        let (open, of) = open(map, report);
        Self {
            open,
            of,
            application: Application::read(map, schemes, report),
            requirement: security.map(|node| (requirement(node, schemes, report), node.place)),
            scopes: scopes(map, report),
            login_scopes: map
                .member("x-basic-auth-scopes")
                .and_then(|member| listed(member, report)),
            all: map.get("x-penstock-scopes").and_then(|node| all(node, report)),
        }
    }

    fn rule_source(&self) -> Option<&(Requirement, Place)> {
        self.requirement.as_ref().filter(|(requirement, _)| *requirement != Requirement::Open)
    }
}

/// Determines the security of an operation. The innermost level with a setting decides; without any, a token is
/// required.
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

/// OpenAPI has no `security` on a path item. Reports it as an error if it is stricter than the security that applies.
fn ignore_path_requirement(
    ignored: &Requirement,
    place: Place,
    applies: &Security,
    report: &mut Report,
) {
    let message = "`security` on a path item is not part of OpenAPI and has no effect";
    let harmless = match (ignored, applies) {
        (Requirement::Open, _) => true,
        (Requirement::Credential { .. }, Security::Open) => false,
        (Requirement::Credential { keys, login, .. }, Security::Required(accepts)) => {
            let required = accepts.token.as_ref().map(|rule| &rule.scopes);
            let covers = |rule| rule == ScopeRule::Anything || Some(&rule) == required;
            let others = accepts.api_keys.is_empty() && accepts.login.is_none();
            keys.is_empty() && !login && others && rule(ignored, false).is_ok_and(covers)
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
            let message = "the scopes have no effect: the operation requires no credential";
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
    let scopes = with_extension(required, operation.scopes.as_ref(), all, report);
    let of = operation.of.or(path.of).or(api.of).flatten();
    let (token, api_keys, login) = kinds(api, path, operation, source, report);
    let named = source.is_some_and(|(requirement, _)| requirement.accepts().2);
    let login = login.then(|| match (&operation.login_scopes, &operation.scopes) {
        (Some(scopes), _) => ScopeRule::AnyOf(unique(scopes)),
        // Requirements of OpenAPI schemes on tokens do not concern passwords.
        (None, None) if named => ScopeRule::Anything,
        (None, _) => scopes.clone(),
    });
    let levels = [operation, path, api];
    let optional = levels.into_iter().find_map(|level| level.application.optional);
    Security::Required(Accepts {
        token: token.then_some(TokenRule { scopes, of, issuers: Vec::new() }),
        login,
        api_keys,
        optional: optional.unwrap_or_default(),
    })
}

/// Whether tokens are accepted, the places of accepted API keys, and whether passwords are accepted. `security-types`
/// of the innermost level that has it decides, else `security`.
fn kinds(
    api: &Level,
    path: &Level,
    operation: &Level,
    source: Option<&(Requirement, Place)>,
    report: &mut Report,
) -> (bool, Vec<KeyPlace>, bool) {
    let (mut token, mut keys, mut login) =
        source.map_or((true, Vec::new(), false), |(requirement, _)| requirement.accepts());
    let levels = [operation, path, api];
    if let Some(types) = levels.into_iter().find_map(|level| level.application.types.as_ref()) {
        (token, login) = (types.token, types.login);
        keys = match &types.keys {
            Some(default) if keys.is_empty() => default.clone(),
            Some(_) => keys,
            None => {
                if let (false, Some((_, place))) = (keys.is_empty(), &operation.requirement) {
                    let message =
                        "API keys are not accepted here: `security-types` does not list `api_key`";
                    report.warning(*place, message, "add it to `x-wso2-application-security`");
                }
                Vec::new()
            }
        };
    }
    if keys.len() > KEY_PLACES_MAX {
        let message = format!("more than {KEY_PLACES_MAX} places of API keys");
        report.error(source.map(|(_, place)| *place), message, "remove some of them");
    }
    if let (false, Some((_, place))) = (token || login, &operation.scopes) {
        report.warning(*place, "the scopes have no effect: API keys have none", "remove them");
    }
    (token, keys, login)
}

/// The places where operations accept API keys.
pub(super) fn key_places(operations: &[Operation]) -> Vec<KeyPlace> {
    let mut places = Vec::new();
    for operation in operations {
        let Security::Required(accepts) = &operation.security else { continue };
        for place in &accepts.api_keys {
            if !places.contains(place) {
                places.push(place.clone());
            }
        }
    }
    places
}

fn is_open(api: &Level, path: &Level, operation: &Level, report: &mut Report) -> bool {
    if let Some(open) = operation.open {
        return open;
    }
    let around = path.open.or(api.open);
    if let Some((requirement, place)) = &operation.requirement {
        let open = *requirement == Requirement::Open;
        if !open && around == Some(true) {
            let message = "the operation requires a credential, although security is disabled for the API or path";
            let help = "for public access, write `x-wso2-disable-security: true` here";
            report.warning(*place, message, help);
        }
        return open;
    }
    let api_requires = || matches!(api.requirement, Some((Requirement::Open, _)));
    around.unwrap_or_else(api_requires)
}

/// Combines the alternatives. If any of them needs no scope, no scope is needed.
fn rule(requirement: &Requirement, all: bool) -> Result<ScopeRule, &'static str> {
    let alternatives = match requirement {
        Requirement::Open => return Ok(ScopeRule::Anything),
        Requirement::Credential { tokens, .. } => tokens,
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

/// Whether no credential is required, and the type of token that is required otherwise.
fn open(map: &Map<'_>, report: &mut Report) -> (Option<bool>, Option<Option<TokenType>>) {
    let disabled = map.get("x-wso2-disable-security").and_then(|node| {
        Some((values::flag(node, "x-wso2-disable-security", report)?, node.place))
    });
    let by_type = map.get("x-auth-type").and_then(|node| auth_type(node, report));
    if let (Some((disabled, place)), Some((open, _))) = (disabled, by_type)
        && disabled != open
    {
        let message = "`x-wso2-disable-security` and `x-auth-type` contradict each other";
        report.error(place, message, "keep one of the two");
    }
    let open = disabled.map(|(disabled, _)| disabled).or(by_type.map(|(open, _)| open));
    (open, by_type.map(|(_, of)| of))
}

/// Whether no credential is required, and the type of token that is required otherwise.
fn auth_type(node: &Node<'_>, report: &mut Report) -> Option<(bool, Option<TokenType>)> {
    const TYPES: [&str; 5] =
        ["None", "Any", "Application & Application User", "Application", "Application User"];
    match values::text(node, "x-auth-type", report)? {
        "None" => Some((true, None)),
        "Any" | "Application & Application User" => Some((false, None)),
        "Application" => Some((false, Some(TokenType::Application))),
        "Application User" => Some((false, Some(TokenType::ApplicationUser))),
        other => {
            let help = suggest(other, TYPES, || format!("write {}", one_of(["None", "Any"])));
            report.reject(
                node.place,
                format!("unknown authentication type `{}`", shorten(other)),
                help,
            )
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
    Some((listed(member, report)?, member.key_place))
}

/// Scopes, separated by spaces or commas, or a list.
fn listed(member: &Member<'_>, report: &mut Report) -> Option<Vec<String>> {
    let listed = values::texts(&member.value, &member.key, report)?;
    let split = |text: &str| -> Vec<String> {
        text.split([' ', ',']).filter(|scope| !scope.is_empty()).map(str::to_owned).collect()
    };
    let scopes: Vec<String> = listed.iter().flat_map(|(text, _)| split(text)).collect();
    if scopes.is_empty() {
        return report.reject(
            member.value.place,
            format!("`{}` is empty", member.key),
            "add a scope, or remove it",
        );
    }
    Some(scopes)
}

fn all(node: &Node<'_>, report: &mut Report) -> Option<bool> {
    match values::text(node, "x-penstock-scopes", report)? {
        "all" => Some(true),
        "any" => Some(false),
        other => report.reject(
            node.place,
            format!("unknown value `{}` of `x-penstock-scopes`", shorten(other)),
            "write `any` or `all`",
        ),
    }
}
