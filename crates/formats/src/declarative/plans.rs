//! Plan files: `plans.toml`, and `policies.yaml` of API Microgateway.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use base::limits;
use model::{
    Condition, ConditionGroup, CustomRule, Deny, Diagnostic, KeyPart, Limit, LimitBy, Place, Plan,
    Plans, Quantity, Severity, Subject,
};
use serde_json::{Value, json};

use super::manual::PLANS;
use super::sections::blocks;
use super::table::{self, Table};
use crate::openapi::cors::is_token;
use crate::report::{Report, one_of, shorten, suggest};
use crate::tree::{self, Keep, Lines, Node};

const KIBIBYTE: u64 = 1024;
const MINUTE_MS: u64 = 60_000;
const DAY_MS: u64 = 24 * 60 * MINUTE_MS;

/// Units of time, by all their names.
const UNITS: &[(&[&str], u64)] = &[
    (&["s", "sec", "second", "seconds"], 1_000),
    (&["m", "min", "minute", "minutes"], MINUTE_MS),
    (&["h", "hour", "hours"], 60 * MINUTE_MS),
    (&["d", "day", "days"], DAY_MS),
    (&["mo", "month", "months"], 30 * DAY_MS),
    (&["y", "year", "years"], 365 * DAY_MS),
];

/// Plans that need no file: requests per minute. Source: the plans that API Manager and API Microgateway ship.
const SHIPPED: &[(&str, Option<u64>)] = &[
    ("Unlimited", None),
    ("Gold", Some(5_000)),
    ("Silver", Some(2_000)),
    ("Bronze", Some(1_000)),
    ("Unauthenticated", Some(500)),
    ("DefaultSubscriptionless", Some(10_000)),
    ("10PerMin", Some(10)),
    ("20PerMin", Some(20)),
    ("50PerMin", Some(50)),
    ("10KPerMin", Some(10_000)),
    ("20KPerMin", Some(20_000)),
    ("50KPerMin", Some(50_000)),
    ("AsyncUnlimited", None),
    ("AsyncWHUnlimited", None),
];

/// Other plans that API Manager ships. They limit the events of streaming APIs.
const EVENT_PLANS: &[&str] = &[
    "AsyncGold",
    "AsyncSilver",
    "AsyncBronze",
    "AsyncDefaultSubscriptionless",
    "AsyncWHGold",
    "AsyncWHSilver",
    "AsyncWHBronze",
];

/// A plan with its place, and limits for requests that meet conditions.
type Found = (Plan, Place, Vec<(Vec<Condition>, Vec<Limit>)>);

/// The plans that WSO2 ships.
#[must_use]
pub fn shipped() -> Plans {
    let mut plans = Plans::default();
    for (name, amount) in SHIPPED {
        let limit = |amount| Limit {
            quantity: Quantity::Requests,
            amount,
            period_ms: MINUTE_MS,
            by: LimitBy::All,
        };
        let limits = amount.map(limit).into_iter().collect();
        plans.insert(Plan { name: (*name).to_owned(), limits, burst: None });
    }
    plans
}

/// The contents of plan files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadPlans {
    /// The plans of the files, and those that WSO2 ships.
    pub plans: Plans,
    /// The file of each plan, by its name in lower case.
    pub owners: BTreeMap<String, PathBuf>,
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads plan files, given their content or the reason why they cannot be read.
#[must_use]
pub fn read_plans(files: &[(PathBuf, Result<Vec<u8>, String>)]) -> ReadPlans {
    let mut plans = shipped();
    let (mut owners, mut diagnostics) = (BTreeMap::<String, PathBuf>::new(), Vec::new());
    let mut rules = Vec::new();
    for (file, text) in files {
        let mut report = Report::new(file);
        for found in read(file, text, (&mut plans, &mut rules), &mut report) {
            let (name, place) = (found.0.name.clone(), found.1);
            insert(&mut plans, found);
            if let Some(owner) = owners.insert(name.to_ascii_lowercase(), file.clone()) {
                let (name, owner) = (shorten(&name), owner.display());
                let message = format!("the plan `{name}` is already defined in {owner}");
                report.error(place, message, "rename or remove one of them");
            }
        }
        if plans.deny.len() > limits::DENY_MAX {
            let message = format!("there are more than {} deny policies", limits::DENY_MAX);
            report.error(None, message, "list several addresses in one of them");
        }
        diagnostics.extend(report.finish(file));
    }
    let names: Vec<_> = plans.iter().map(|plan| plan.name.clone()).collect();
    for (file, place, rule) in rules {
        let mut report = Report::new(file);
        check_name(&rule.plan, place, &names, &mut report);
        plans.custom.push(rule);
        if plans.custom.len() > limits::CUSTOM_RULES_MAX {
            let message = format!("there are more than {} custom rules", limits::CUSTOM_RULES_MAX);
            report.error(place, message, "remove some");
        }
        diagnostics.extend(report.finish(file));
    }
    ReadPlans { plans, owners, diagnostics }
}

/// Reads a plan of a control plane, which has the keys of `[[plan]]` in JSON. Diagnostics are about `file`. The plan is
/// absent if any of them is an error.
#[must_use]
pub fn read_published_plan(file: &Path, document: &Value) -> (Option<Plans>, Vec<Diagnostic>) {
    let (mut report, mut plans) = (Report::new(file), Plans::default());
    match toml::to_string(&json!({ "plan": [document] })) {
        Ok(text) => {
            let text = Ok(text.into_bytes());
            // The path is empty, since the name of a plan may end like that of a file of another format.
            let found = read(Path::new(""), &text, (&mut plans, &mut Vec::new()), &mut report);
            found.into_iter().for_each(|found| insert(&mut plans, found));
        }
        Err(error) => report.error(None, error.to_string(), "write it as in plans.toml, in JSON"),
    }
    let plans = Some(plans).filter(|_| !report.has_errors());
    let mut diagnostics = report.finish(file);
    // The document has no text that a position could refer to.
    diagnostics.iter_mut().for_each(|diagnostic| diagnostic.place = None);
    (plans, diagnostics)
}

/// Checks a plan for a control plane.
///
/// # Errors
/// The first error of [`read_published_plan`].
pub fn check_published_plan(document: &Value) -> Result<(), String> {
    let (_, diagnostics) = read_published_plan(Path::new(""), document);
    let error = diagnostics.into_iter().find(|one| one.severity == Severity::Error);
    error.map_or(Ok(()), |error| match error.help {
        Some(help) => Err(format!("{}; {help}", error.message)),
        None => Err(error.message),
    })
}

/// Adds a plan, and the plans of its condition groups.
fn insert(plans: &mut Plans, (plan, _, groups): Found) {
    let group = |(at, (when, limits)): (usize, (Vec<Condition>, Vec<Limit>))| {
        // A line break makes the name unique, because no plan's name can contain one.
        let name = format!("{}\n{at}", plan.name);
        plans.insert(Plan { name: name.clone(), limits, burst: None });
        ConditionGroup { when, plan: name }
    };
    let groups: Vec<_> = groups.into_iter().enumerate().map(group).collect();
    let name = plan.name.to_ascii_lowercase();
    if groups.is_empty() {
        plans.conditions.remove(&name);
    } else {
        plans.conditions.insert(name, groups);
    }
    plans.insert(plan);
}

/// A custom rule, and its place.
type FoundRule<'f> = (&'f Path, Place, CustomRule);

/// Reads a file. Returns its plans, and adds its rules and other entries.
fn read<'f>(
    file: &'f Path,
    text: &Result<Vec<u8>, String>,
    (plans, rules): (&mut Plans, &mut Vec<FoundRule<'f>>),
    report: &mut Report,
) -> Vec<Found> {
    let text = match text {
        Ok(text) => text,
        Err(problem) => {
            report.error(None, problem.as_str(), "correct the path or its permissions");
            return Vec::new();
        }
    };
    if file.extension().is_some_and(|extension| extension == "yaml" || extension == "yml") {
        return policies(text, report);
    }
    let Some(text) = table::text(text, report) else { return Vec::new() };
    let Some(root) = table::parse(text, report) else { return Vec::new() };
    let lines = Lines::new(text);
    let root = Table::root(PLANS, &root, &lines, report);
    let sections = root.sections("deny", "deny", report);
    plans.deny.extend(sections.iter().filter_map(|section| deny(section, report)));
    for section in root.sections("custom", "custom", report) {
        let Some((plan, place)) = name(&section, "plan", report) else { continue };
        let api = section.text("api", report);
        let api = api.map(|(path, _)| path.trim_end_matches('/').to_owned());
        rules.push((file, place, CustomRule { plan, api }));
    }
    let sections = root.sections("plan", "plan", report);
    sections.iter().filter_map(|section| plan(section, plans, report)).collect()
}

fn deny(table: &Table<'_>, report: &mut Report) -> Option<Deny> {
    const KEYS: [&str; 4] = ["api", "application", "user", "addresses"];
    let text = |key: &str, report: &mut Report| Some(table.text(key, report)?.0.to_owned());
    let given = KEYS.into_iter().filter(|key| table.get(key).is_some()).count();
    if given != 1 {
        let message = "[[deny]] needs one of `api`, `application`, `user` and `addresses`";
        report.error(table.place, message, "write another [[deny]] for each of them");
    }
    let is_inverted = table.flag("inverted", false, report);
    if let (Some(item), None) = (table.get("inverted"), table.get("addresses")) {
        report.error(item.place, "`inverted` is for `addresses`", "remove it");
    }
    let named = text("api", report)
        .map(|path| Deny::Api(path.trim_end_matches('/').to_owned()))
        .or_else(|| text("application", report).map(Deny::Application))
        .or_else(|| text("user", report).map(Deny::User));
    named.or_else(|| {
        let item = table.get("addresses")?;
        let blocks = blocks(table, "addresses", report);
        if !(1..=limits::PERMITTED_MAX).contains(&blocks.len()) {
            let message = format!("`addresses` must list 1 to {}", limits::PERMITTED_MAX);
            report.error(item.place, message, "write another [[deny]] for the others");
        }
        Some(Deny::Addresses { blocks, is_inverted })
    })
}

/// The name under `key`, which a table needs.
pub(super) fn name(table: &Table<'_>, key: &str, report: &mut Report) -> Option<(String, Place)> {
    text(table, key, report).map(|(text, place)| (text.to_owned(), place))
}

/// The text of a required key.
pub(super) fn text<'t>(
    table: &Table<'t>,
    key: &str,
    report: &mut Report,
) -> Option<(&'t str, Place)> {
    if table.get(key).is_none() {
        let help = format!("add `{key} = \"...\"`");
        report.error(table.place, format!("there is no `{key}`"), help);
    }
    table.text(key, report)
}

/// Reports a name that no plan has.
pub(crate) fn check_name(name: &str, place: Place, plans: &[String], report: &mut Report) {
    if plans.iter().any(|plan| plan.eq_ignore_ascii_case(name)) {
        return;
    }
    if EVENT_PLANS.iter().any(|plan| plan.eq_ignore_ascii_case(name)) {
        let message = format!("the plan `{name}` limits events, which are not counted");
        let help = "add a plan of this name to plans.toml, with limits of requests or kilobytes";
        report.error(place, message, help);
        return;
    }
    let names = plans.iter().map(String::as_str);
    let help = suggest(name, names, || {
        "add it to plans.toml, or write one that exists, such as `Unlimited`".to_owned()
    });
    report.error(place, format!("there is no plan `{}`", shorten(name)), help);
}

fn plan(table: &Table<'_>, plans: &mut Plans, report: &mut Report) -> Option<Found> {
    let found = name(table, "name", report);
    let limits = limits_of(table, "plan.limits", plans, report);
    let sections = table.sections("conditions", "plan.conditions", report);
    if sections.len() > limits::CONDITION_GROUPS_MAX {
        let most = limits::CONDITION_GROUPS_MAX;
        let message = format!("a plan has at most {most} groups of conditions");
        report.error(table.place, message, "remove some");
    }
    let groups = sections.iter().map(|section| group(section, plans, report)).collect();
    let same =
        |a: &Limit, b: &Limit| (a.quantity, a.period_ms, a.by) == (b.quantity, b.period_ms, b.by);
    let mut pairs = limits.iter().enumerate();
    if pairs.any(|(at, one)| limits.iter().skip(at + 1).any(|other| same(one, other))) {
        report.error(table.place, "two limits have the same period", "keep the smaller one");
    }
    let section = table.section("burst", "plan.burst", report);
    let burst = section.is_present().then(|| limit(&section, plans, report)).flatten();
    found.map(|(name, place)| (Plan { name, limits, burst }, place, groups))
}

/// `limits` of a plan, or of a condition group.
fn limits_of(
    table: &Table<'_>,
    name: &'static str,
    plans: &mut Plans,
    report: &mut Report,
) -> Vec<Limit> {
    let sections = table.sections("limits", name, report);
    if sections.len() > limits::PLAN_LIMITS_MAX {
        let message = format!("a plan has at most {} limits", limits::PLAN_LIMITS_MAX);
        report.error(table.place, message, "remove some");
    }
    sections.iter().filter_map(|section| limit(section, plans, report)).collect()
}

/// `{ when = [...], limits = [...] }`
fn group(
    table: &Table<'_>,
    plans: &mut Plans,
    report: &mut Report,
) -> (Vec<Condition>, Vec<Limit>) {
    let sections = table.sections("when", "plan.conditions.when", report);
    if !(1..=limits::CONDITIONS_MAX).contains(&sections.len()) {
        let message = format!("a group has 1 to {} conditions", limits::CONDITIONS_MAX);
        report.error(table.place, message, "write when = [{ header = \"...\", value = \"...\" }]");
    }
    let when = sections.iter().filter_map(|section| condition(section, report)).collect();
    (when, limits_of(table, "plan.conditions.limits", plans, report))
}

fn condition(table: &Table<'_>, report: &mut Report) -> Option<Condition> {
    const NAMED: [&str; 3] = ["header", "query", "claim"];
    let is_inverted = table.flag("inverted", false, report);
    let given: Vec<_> = NAMED.into_iter().filter(|key| table.get(key).is_some()).collect();
    let has_addresses = table.get("addresses").is_some();
    let has_value = table.get("value").is_some();
    if given.len() + usize::from(has_addresses) != 1 || has_value == has_addresses {
        let message =
            "a condition needs `addresses`, or one of `header`, `query` and `claim` with `value`";
        return report.reject(table.place, message, "write another condition for each of them");
    }
    if has_addresses {
        let subject = Subject::Addresses(blocks(table, "addresses", report));
        return Some(Condition { subject, is_inverted });
    }
    let value = table.text("value", report)?.0.to_owned();
    let key = given.first()?;
    let name = table.text(key, report)?.0.to_owned();
    let subject = match *key {
        "header" => Subject::Header { name, value },
        "query" => Subject::Query { name, value },
        _ => Subject::Claim { name, value },
    };
    Some(Condition { subject, is_inverted })
}

fn limit(table: &Table<'_>, plans: &mut Plans, report: &mut Report) -> Option<Limit> {
    let period = name(table, "per", report).and_then(|(text, place)| {
        let period = period(&text);
        if period.is_none() {
            let help = "write a number and a unit, such as \"1s\", \"10m\", \"1h\", \"1d\", \"1mo\" or \"1y\", \
                        of a year at most";
            report.error(place, format!("`{}` is not a period", shorten(&text)), help);
        }
        period
    });
    let requests = table.number("requests", 1..=limits::QUOTA_MAX, report);
    let kilobytes = table.number("kilobytes", 1..=limits::QUOTA_MAX / KIBIBYTE, report);
    let amount = table.number("amount", 1..=limits::QUOTA_MAX, report);
    let named = ["requests", "kilobytes", "amount"].map(|key| table.get(key).is_some());
    let has_quantity = table.get("of").is_some();
    if named.into_iter().filter(|named| *named).count() != 1 || named[2] != has_quantity {
        let message = "a limit needs `requests`, `kilobytes`, or `amount` and `of`";
        report.error(table.place, message, "write { requests = 100, per = \"1m\" }");
    }
    let reported = reported(table, plans, report).zip(amount);
    let by = by(table, plans, report);
    let bytes = kilobytes.map(|amount: u64| (Quantity::Bytes, amount.saturating_mul(KIBIBYTE)));
    let requests = requests.map(|amount| (Quantity::Requests, amount));
    let (quantity, amount) = requests.or(bytes).or(reported)?;
    Some(Limit { quantity, amount, period_ms: period?, by })
}

/// `of`: the header field of responses that has the counted number.
fn reported(table: &Table<'_>, plans: &mut Plans, report: &mut Report) -> Option<Quantity> {
    let (text, place) = table.text("of", report)?;
    let name = text.split_once(':').filter(|(kind, _)| *kind == "response_header");
    let name = name.map(|(_, name)| name).filter(|name| is_token(name));
    if name.is_none() {
        let message = format!("unknown value `{}` of `of`", shorten(text));
        report.error(place, message, "write \"response_header:NAME\"");
    }
    let name = name?.to_ascii_lowercase();
    let number = number_of([name.as_str()].into_iter());
    plans.reported.insert(number, name);
    Some(Quantity::Reported(number))
}

/// `by`: a part of a key, or a list of them.
fn by(table: &Table<'_>, plans: &mut Plans, report: &mut Report) -> LimitBy {
    let Some(item) = table.get("by") else { return LimitBy::All };
    let texts = match item.value.as_array() {
        Some(_) => table.texts("by", report).unwrap_or_default(),
        None => table.text("by", report).into_iter().collect(),
    };
    if item.value.as_array().is_some() && !(1..=limits::KEY_PARTS_MAX).contains(&texts.len()) {
        let message = format!("`by` must list 1 to {}", limits::KEY_PARTS_MAX);
        report.error(item.place, message, "remove some, or the key");
    }
    let parts: Vec<_> =
        texts.iter().filter_map(|(text, place)| key_part(text, *place, report)).collect();
    match parts.as_slice() {
        [] => LimitBy::All,
        [KeyPart::User] => LimitBy::User,
        [KeyPart::Address] => LimitBy::Address,
        _ => {
            let number = number_of(texts.into_iter().map(|(text, _)| text));
            plans.keys.insert(number, parts);
            LimitBy::Values(number)
        }
    }
}

/// A number for these texts, the same everywhere.
fn number_of<'t>(texts: impl Iterator<Item = &'t str>) -> u64 {
    let mut all = Vec::new();
    for text in texts {
        all.extend_from_slice(&(text.len() as u64).to_le_bytes());
        all.extend_from_slice(text.as_bytes());
    }
    let hash = jose::sha256(&all);
    hash.first_chunk().map_or(0, |first| u64::from_le_bytes(*first))
}

fn key_part(text: &str, place: Place, report: &mut Report) -> Option<KeyPart> {
    let of = |name: &str| Some(name.to_owned()).filter(|name| !name.is_empty());
    let found = match text.split_once(':').unwrap_or((text, "")) {
        ("user", "") => Some(KeyPart::User),
        ("address", "") => Some(KeyPart::Address),
        ("api", "") => Some(KeyPart::Api),
        ("header", name) => of(name).map(KeyPart::Header),
        ("query", name) => of(name).map(KeyPart::Query),
        ("claim", name) => of(name).map(KeyPart::Claim),
        _ => None,
    };
    if found.is_none() {
        let help = "write `user`, `address`, `api`, `header:NAME`, `query:NAME` or `claim:NAME`";
        report.error(place, format!("unknown value `{}` of `by`", shorten(text)), help);
    }
    found
}

/// `10m`, in milliseconds.
fn period(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (count, unit) = text.split_at(digits);
    period_of(count.parse().ok()?, unit)
}

/// `count` units of time, in milliseconds.
pub(crate) fn period_of(count: u64, unit: &str) -> Option<u64> {
    let unit = unit.to_ascii_lowercase();
    let (_, unit_ms) = UNITS.iter().find(|(names, _)| names.contains(&unit.as_str()))?;
    let period_ms = count.checked_mul(*unit_ms)?;
    (1..=limits::QUOTA_PERIOD_MS_MAX).contains(&period_ms).then_some(period_ms)
}

/// `policies.yaml`: a list of policies, or lists of them by type.
fn policies(text: &[u8], report: &mut Report) -> Vec<Found> {
    let Some(tree) = tree::read(text, Keep::Everything, report) else { return Vec::new() };
    let lists: Vec<&Node<'_>> = match tree.as_map() {
        Some(map) => map.iter().map(|member| &member.value).collect(),
        None => vec![&tree],
    };
    let mut found = Vec::new();
    for list in lists {
        let Some(items) = list.as_list() else {
            let message = format!("a list of policies is required, not {}", list.kind());
            report.error(
                list.place,
                message,
                "write `- 10kPerMin: {count: 10000, unitTime: 1, timeUnit: min}`",
            );
            continue;
        };
        found.extend(items.iter().filter_map(|item| policy(item, report)));
    }
    found
}

fn policy(item: &Node<'_>, report: &mut Report) -> Option<Found> {
    let first = item.as_map().and_then(|map| map.iter().next());
    let Some(first) = first.filter(|first| !first.key.trim().is_empty()) else {
        return report.reject(item.place, "a policy needs a name", "write `- NAME: {count: ...}`");
    };
    // The values of a policy are below its name, or beside it.
    let values = first.value.as_map().or(item.as_map())?;
    for member in values.iter().filter(|member| member.key_place != first.key_place) {
        match member.key.as_ref() {
            "count" | "unitTime" | "timeUnit" | "stopOnQuotaReach" => {}
            other => {
                let message = format!("`{}` of a policy has no effect", shorten(other));
                report.warning(member.key_place, message, "remove it");
            }
        }
    }
    let mut number = |key: &str, most: u64| {
        let node = values.get(key);
        let number = node.and_then(Node::as_text).and_then(|text| text.parse().ok());
        let number = number.filter(|number| (1..=most).contains(number));
        if number.is_none() {
            let place = node.map_or(first.key_place, |node| node.place);
            let message = format!("`{key}` must be a number from 1 to {most}");
            report.error(place, message, "");
        }
        number
    };
    let count = number("count", limits::QUOTA_MAX);
    let unit_time = number("unitTime", limits::QUOTA_PERIOD_MS_MAX / UNITS.first()?.1);
    let unit = values.get("timeUnit").and_then(Node::as_text).unwrap_or_default();
    let period_ms = period_of(unit_time?, unit);
    if period_ms.is_none() {
        let units = one_of(UNITS.iter().filter_map(|(names, _)| names.get(1).copied()));
        let message = format!("`timeUnit` must be {units}, and the period at most a year");
        report.error(
            values.get("timeUnit").map_or(first.key_place, |node| node.place),
            message,
            "",
        );
    }
    let limit = Limit {
        quantity: Quantity::Requests,
        amount: count?,
        period_ms: period_ms?,
        by: LimitBy::All,
    };
    // If `stopOnQuotaReach` is false, requests above the count are admitted, as with the tier of a token.
    let stops = values.get("stopOnQuotaReach").and_then(Node::as_bool) != Some(false);
    let limits = if stops { vec![limit] } else { Vec::new() };
    let plan = Plan { name: first.key.clone().into_owned(), limits, burst: None };
    Some((plan, first.key_place, Vec::new()))
}
