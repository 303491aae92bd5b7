//! `x-wso2-throttling-tier` and its aliases: the plan of an API or of an operation; `x-penstock-max-tps`: limits of the
//! requests to the endpoints.

use base::limits::QUOTA_MAX;
use model::{BackendLimits, Limit, LimitBy, Quantity};

use super::values;
use crate::declarative::{check_plan, period_of};
use crate::report::{Report, one_of, shorten, suggest};
use crate::tree::Map;

const NAMES: [&str; 3] = ["x-wso2-throttling-tier", "x-throttling-tier", "x-throttling-policy"];

/// The tier of the whole API, and the plans that exist.
pub(super) struct OfApi<'n> {
    pub(super) plan: Option<String>,
    plans: &'n [String],
}

impl<'n> OfApi<'n> {
    pub(super) fn read(root: &Map<'_>, plans: &'n [String], report: &mut Report) -> Self {
        Self { plan: read(root, plans, report), plans }
    }

    /// The tier of a path item or an operation. The API's tier takes precedence, as in WSO2.
    pub(super) fn below(&self, map: &Map<'_>, report: &mut Report) -> Option<String> {
        let plan = read(map, self.plans, report)?;
        let Some(of_api) = &self.plan else { return Some(plan) };
        let place = NAMES.iter().find_map(|name| map.member(name)).map(|member| member.key_place);
        let message = format!("the tier `{}` of the API takes precedence", shorten(of_api));
        report.warning(place, message, "remove one of the two");
        None
    }
}

/// Reads a tier. `Unlimited` is the same as none.
fn read(map: &Map<'_>, plans: &[String], report: &mut Report) -> Option<String> {
    let mut found: Option<&str> = None;
    for member in NAMES.iter().filter_map(|name| map.member(name)) {
        let name = values::text(&member.value, &member.key, report)?;
        check_plan(name, member.value.place, plans, report);
        if found.is_some_and(|other| !other.eq_ignore_ascii_case(name)) {
            let message = format!("`{}` names another tier", member.key);
            report.error(member.key_place, message, "keep one of them");
        }
        found = Some(name);
    }
    found.filter(|name| !name.eq_ignore_ascii_case("Unlimited")).map(str::to_owned)
}

const MAX_TPS: &str = "x-penstock-max-tps";
const MAX_TPS_KEYS: [&str; 4] = ["production", "productionTimeUnit", "sandbox", "sandboxTimeUnit"];

/// `x-penstock-max-tps`, with the members of `maxTps` in `api.yaml` of API Manager.
pub(super) fn backend(root: &Map<'_>, report: &mut Report) -> BackendLimits {
    let Some(node) = root.get(MAX_TPS) else { return BackendLimits::default() };
    let Some(map) = values::map(node, MAX_TPS, report) else { return BackendLimits::default() };
    for member in map.iter().filter(|member| !MAX_TPS_KEYS.contains(&member.key.as_ref())) {
        let help = suggest(&member.key, MAX_TPS_KEYS, || "remove it".to_owned());
        let message = format!("unknown key `{}` in `{MAX_TPS}`", shorten(&member.key));
        report.error(member.key_place, message, help);
    }
    let [production, production_unit, sandbox, sandbox_unit] = MAX_TPS_KEYS;
    BackendLimits {
        production: most(map, (production, production_unit), report),
        sandbox: most(map, (sandbox, sandbox_unit), report),
    }
}

/// A number of requests per unit of time, by default a second.
fn most(map: &Map<'_>, (key, unit): (&str, &str), report: &mut Report) -> Option<Limit> {
    const UNITS: [&str; 3] = ["SECOND", "MINUTE", "HOUR"];
    let Some(node) = map.get(key) else {
        if let Some(member) = map.member(unit) {
            let message = format!("`{unit}` has no effect without `{key}`");
            report.error(member.key_place, message, format!("write `{key}`, or remove it"));
        }
        return None;
    };
    let amount = node.as_text().and_then(|text| text.parse().ok());
    let amount = amount.filter(|amount| (1..=QUOTA_MAX).contains(amount));
    if amount.is_none() {
        let message = format!("`{key}` must be a number of requests from 1 to {QUOTA_MAX}");
        report.error(node.place, message, "");
    }
    let written = map.get(unit);
    let name = written.map_or(Some(UNITS[0]), |node| values::text(node, unit, report))?;
    let period = UNITS.iter().find(|known| known.eq_ignore_ascii_case(name));
    if let (None, Some(node)) = (period, written) {
        let message = format!("unknown value `{}` of `{unit}`", shorten(name));
        report.error(node.place, message, format!("write {}", one_of(UNITS)));
    }
    let (quantity, by) = (Quantity::Requests, LimitBy::All);
    Some(Limit { quantity, amount: amount?, period_ms: period_of(1, period?)?, by })
}
