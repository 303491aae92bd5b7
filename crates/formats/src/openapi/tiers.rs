//! `x-wso2-throttling-tier` and its aliases: the plan of an API or of an operation.

use crate::declarative::check_plan;
use crate::report::{Report, shorten};
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

    /// The tier that a path item or an operation sets. That of the API takes precedence, as in WSO2.
    pub(super) fn below(&self, map: &Map<'_>, report: &mut Report) -> Option<String> {
        let plan = read(map, self.plans, report)?;
        let Some(of_api) = &self.plan else { return Some(plan) };
        let place = NAMES.iter().find_map(|name| map.member(name)).map(|member| member.key_place);
        let message = format!("the tier `{}` of the API takes precedence", shorten(of_api));
        report.warning(place, message, "remove one of the two");
        None
    }
}

/// `Unlimited` is the same as none.
fn read(map: &Map<'_>, plans: &[String], report: &mut Report) -> Option<String> {
    let mut found: Option<&str> = None;
    for member in NAMES.iter().filter_map(|name| map.member(name)) {
        let name = super::values::text(&member.value, &member.key, report)?;
        check_plan(name, member.value.place, plans, report);
        if found.is_some_and(|other| !other.eq_ignore_ascii_case(name)) {
            let message = format!("`{}` names another tier", member.key);
            report.error(member.key_place, message, "keep one of them");
        }
        found = Some(name);
    }
    found.filter(|name| !name.eq_ignore_ascii_case("Unlimited")).map(str::to_owned)
}
