//! `[[service]]`: security and plans of services of artefacts.

use std::path::Path;

use model::{
    Accepts, Diagnostic, IssuerSettings, Place, Plans, ScopeRule, Security, ServiceAccess,
    ServiceRules, TokenRule,
};

use super::plans::check_name;
use super::table::Table;
use crate::report::{Report, shorten, suggest};

/// Reads the sections. `issuers`: those of the file; `has_artefacts`: the file has `[integration]`.
pub(super) fn read(
    root: &Table<'_>,
    issuers: &[IssuerSettings],
    has_artefacts: bool,
    report: &mut Report,
) -> Vec<ServiceRules> {
    let mut services: Vec<ServiceRules> = Vec::new();
    for table in root.sections("service", "service", report) {
        if !has_artefacts {
            let help = "add [integration], with the artefacts that define the service";
            report.error(table.place, "[[service]] has no effect without [integration]", help);
        }
        if table.get("name").is_none() {
            report.error(table.place, "[[service]] has no `name`", "add `name = \"...\"`");
        }
        let security = security(&table, issuers, report);
        let plans = table.texts("plans", report).unwrap_or_default();
        let repeats = |at: usize, name: &str| {
            plans.iter().take(at).any(|(other, _)| other.eq_ignore_ascii_case(name))
        };
        for (at, (name, place)) in plans.iter().enumerate() {
            if repeats(at, name) {
                report.error(*place, format!("duplicate plan `{}`", shorten(name)), "remove it");
            }
        }
        let Some((name, place)) = table.text("name", report) else { continue };
        if services.iter().any(|other| other.name == name) {
            let message = format!("duplicate service `{}`", shorten(name));
            report.error(place, message, "write one section with all its keys");
        }
        let plan_places = plans.iter().map(|(_, place)| *place).collect();
        let plans = plans.iter().map(|(name, _)| (*name).to_owned()).collect();
        services.push(ServiceRules {
            name: name.to_owned(),
            access: ServiceAccess { security, plans },
            file: report.file().to_owned(),
            place,
            plan_places,
        });
    }
    services
}

/// `security` and `scopes`.
fn security(table: &Table<'_>, known: &[IssuerSettings], report: &mut Report) -> Security {
    let names = || known.iter().map(|issuer| issuer.name.as_str());
    let mut issuers = Vec::new();
    for (name, place) in table.texts("security", report).unwrap_or_default() {
        if !names().any(|known| known == name) {
            let help = suggest(name, names(), || format!("add [[issuer]] name = \"{name}\""));
            report.error(place, format!("there is no issuer `{}`", shorten(name)), help);
        }
        issuers.push(name.to_owned());
    }
    let mut scopes = Vec::new();
    for (scope, place) in table.texts("scopes", report).unwrap_or_default() {
        if scope.is_empty() || scope.contains(char::is_whitespace) {
            let message = format!("`{}` is not one scope", shorten(scope));
            report.error(place, message, "list each scope as a string of its own");
        }
        scopes.push(scope.to_owned());
    }
    if issuers.is_empty() {
        if let Some(item) = table.get("scopes").filter(|_| !scopes.is_empty()) {
            let help = "add `security` with the issuers of the tokens that have these scopes";
            report.error(item.place, "`scopes` has no effect without `security`", help);
        }
        return Security::Open;
    }
    let scopes = if scopes.is_empty() { ScopeRule::Anything } else { ScopeRule::AnyOf(scopes) };
    let token = Some(TokenRule { scopes, of: None, issuers });
    Security::Required(Accepts { token, ..Accepts::default() })
}

/// The plans of services that do not exist.
#[must_use]
pub fn check_plans(services: &[ServiceRules], plans: &Plans) -> Vec<Diagnostic> {
    let names: Vec<_> = plans.names().cloned().collect();
    let file = services.first().map_or(Path::new(""), |first| &first.file);
    let mut report = Report::new(file);
    for service in services {
        let all = service.access.plans.iter().zip(&service.plan_places);
        all.for_each(|(name, place): (_, &Place)| check_name(name, *place, &names, &mut report));
    }
    report.finish(file)
}
