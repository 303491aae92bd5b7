//! `[control.api_keys]`: API keys that the key manager issues.

use model::ApiKeySettings;

use super::issuers;
use super::table::Table;
use crate::report::Report;

const DAY_S: u64 = 86_400;

pub(super) fn read(control: &Table<'_>, report: &mut Report) -> Option<ApiKeySettings> {
    let table = control.section("api_keys", "control.api_keys", report);
    if !table.is_present() {
        return None;
    }
    let range = 60..=3_650 * DAY_S;
    let validity_s = table.number("validity_s", range, report).unwrap_or(DAY_S);
    let mut apis = Vec::new();
    for api in table.sections("api", "control.api_keys.api", report) {
        let versions = api.texts("versions", report);
        let name = issuers::required(&api, "name", report);
        if versions.as_ref().is_some_and(Vec::is_empty) {
            let help = "list the versions, or remove `versions` for all of them";
            report.error(api.place, "`versions` is empty", help);
        }
        let Some((name, _)) = name else { continue };
        let versions = versions.map_or_else(
            || vec!["*"],
            |versions| versions.into_iter().map(|(version, _)| version).collect(),
        );
        let pair = |version: &str| (name.to_owned(), version.to_owned());
        apis.extend(versions.into_iter().map(pair));
    }
    Some(ApiKeySettings { validity_s, apis })
}
