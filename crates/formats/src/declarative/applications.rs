//! Applications, from files and from a control plane: credentials, and the APIs that they may use under which plans.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use base::limits;
use foldhash::{HashSet, HashSetExt};
use model::{
    Application, ApplicationKey, Diagnostic, KeyCredential, KeyType, Permitted, Place,
    Subscription, SubscriptionState,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::manual::APPLICATION;
use super::plans::{check_name, name, text};
use super::sections::blocks;
use super::table::{self, Table};
use crate::report::{Report, shorten};
use crate::tree::Lines;

/// Reads the file of an application. `plans`: the names of plans. The application is absent if any diagnostic is an
/// error.
#[must_use]
pub fn read_application(
    file: &Path,
    text: &[u8],
    plans: &[String],
) -> (Option<Application>, Vec<Diagnostic>) {
    let mut report = Report::new(file);
    let found = application(text, plans, &mut report);
    (found.filter(|_| !report.has_errors()), report.finish(file))
}

/// Reads the application `name` of a control plane: the same keys, in JSON. Diagnostics are about `file`.
#[must_use]
pub fn read_published(
    file: &Path,
    name: &str,
    document: &Value,
    plans: &[String],
) -> (Option<Application>, Vec<Diagnostic>) {
    let mut report = Report::new(file);
    let found = match toml_value("application", document) {
        Ok(mut keys) => {
            if let DeValue::Table(keys) = &mut keys {
                keys.insert(spanned(Cow::Borrowed("name")), spanned(DeValue::String(name.into())));
            }
            let mut root = DeTable::new();
            root.insert(spanned(Cow::Borrowed("application")), spanned(keys));
            of_table(&spanned(root), "", plans, &mut report)
        }
        Err((member, kind)) => {
            let help = "every value is a string, a list, an object, `true` or `false`";
            report.reject(None, format!("`{}` is {kind}", shorten(member)), help)
        }
    };
    let found = found.filter(|_| !report.has_errors());
    let mut diagnostics = report.finish(file);
    // The document has no text that a position could refer to.
    diagnostics.iter_mut().for_each(|diagnostic| diagnostic.place = None);
    (found, diagnostics)
}

/// The value of `member` as TOML. Fails with the innermost member that is a number or null, which no key allows.
fn toml_value<'a>(
    member: &'a str,
    value: &'a Value,
) -> Result<DeValue<'a>, (&'a str, &'static str)> {
    Ok(match value {
        Value::String(text) => DeValue::String(Cow::Borrowed(text)),
        Value::Bool(flag) => DeValue::Boolean(*flag),
        Value::Array(items) => {
            let mut array = DeArray::new();
            for item in items {
                array.push(spanned(toml_value(member, item)?));
            }
            DeValue::Array(array)
        }
        Value::Object(members) => {
            let mut table = DeTable::new();
            for (name, value) in members {
                let value = toml_value(name, value)?;
                table.insert(spanned(Cow::Borrowed(name.as_str())), spanned(value));
            }
            DeValue::Table(table)
        }
        Value::Number(_) => return Err((member, "a number")),
        Value::Null => return Err((member, "null")),
    })
}

fn spanned<T>(value: T) -> Spanned<T> {
    Spanned::new(0..0, value)
}

/// The response of a control plane to a gateway that follows its applications.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct ApplicationPage {
    /// The revision up to which all changes are known afterwards.
    pub revision: u64,
    /// The number with which the control plane last started.
    pub start: u64,
    /// Whether these are all applications, or the first part of them, instead of changes.
    pub reset: bool,
    /// Whether there are more.
    pub more: bool,
    pub applications: Vec<PublishedApplication>,
    /// Plans; an older control plane sends none.
    #[serde(default)]
    pub plans: Vec<PublishedPlan>,
}

impl ApplicationPage {
    /// The number of changes.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "nobody asks")]
    pub fn len(&self) -> usize {
        self.applications.len().saturating_add(self.plans.len())
    }
}

/// A plan of a control plane.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PublishedPlan {
    /// The name in lower case.
    pub name: String,
    /// The document; `None` if it was removed.
    pub plan: Option<Value>,
}

/// An application of a control plane.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PublishedApplication {
    pub name: String,
    /// The document; `None` if it was removed.
    pub application: Option<Value>,
}

fn application(text: &[u8], plans: &[String], report: &mut Report) -> Option<Application> {
    let text = table::text(text, report)?;
    let root = table::parse(text, report)?;
    of_table(&root, text, plans, report)
}

fn of_table(
    root: &Spanned<DeTable<'_>>,
    text: &str,
    plans: &[String],
    report: &mut Report,
) -> Option<Application> {
    let lines = Lines::new(text);
    let root = Table::root(APPLICATION, root, &lines, report);
    let table = root.section("application", "application", report);
    if !table.is_present() {
        let help = "write `[application]` and `name = \"...\"`";
        return report.reject(None, "there is no application", help);
    }
    let name = name(&table, "name", report);
    Some(Application {
        owner: table.text("owner", report).map(|(text, _)| text.to_owned()),
        plan: plan(&table, plans, report),
        attributes: attributes(&table, report).into(),
        keys: keys(&table, report).into(),
        subscriptions: subscriptions(&table, plans, report).into(),
        name: name?.0,
    })
}

fn plan(table: &Table<'_>, plans: &[String], report: &mut Report) -> Option<String> {
    let (name, place) = table.text("plan", report)?;
    check_name(name, place, plans, report);
    Some(name.to_owned())
}

fn attributes(table: &Table<'_>, report: &mut Report) -> Vec<(Box<str>, Box<str>)> {
    const MOST: usize = limits::APPLICATION_ATTRIBUTES_MAX;
    const BYTES_MOST: usize = limits::APPLICATION_ATTRIBUTES_BYTES_MAX;
    let Some((attributes, place)) = table.named_texts("attributes", report) else {
        return Vec::new();
    };
    let bytes: usize = attributes.iter().map(|(name, value)| name.len() + value.len()).sum();
    if attributes.len() > MOST || bytes > BYTES_MOST {
        let message =
            format!("too many attributes: at most {MOST}, and {BYTES_MOST} bytes in total");
        report.error(place, message, "remove some, or make them shorter");
        return Vec::new();
    }
    attributes.into_iter().map(|(name, value)| (name.into(), value.into())).collect()
}

fn keys(table: &Table<'_>, report: &mut Report) -> Vec<ApplicationKey> {
    const TYPES: &[(&str, KeyType)] =
        &[("production", KeyType::Production), ("sandbox", KeyType::Sandbox)];
    let mut keys: Vec<ApplicationKey> = Vec::new();
    for table in table.sections("keys", "application.keys", report) {
        let client = table.text("client_id", report);
        let client = client.map(|(text, place)| (KeyCredential::ClientId(text.to_owned()), place));
        let hash = table.text("api_key_sha256", report);
        let hash = hash.and_then(|(text, place)| Some((api_key(text, place, report)?, place)));
        let key_type = table.choice("type", TYPES, report).unwrap_or_default();
        if table.get("client_id").is_some() == table.get("api_key_sha256").is_some() {
            let message = "a key needs either `client_id` or `api_key_sha256`";
            report.error(table.place, message, "write { client_id = \"...\" }");
        }
        let Some((credential, place)) = client.or(hash) else { continue };
        if keys.iter().any(|key| key.credential == credential) {
            report.error(place, "duplicate key", "remove it");
        }
        let permitted = permitted(&table, &credential, report);
        keys.push(ApplicationKey { credential, key_type, permitted });
    }
    keys
}

/// `addresses` and `referers` of an API key.
fn permitted(
    table: &Table<'_>,
    credential: &KeyCredential,
    report: &mut Report,
) -> Option<Arc<Permitted>> {
    let listed = table.texts("referers", report).unwrap_or_default();
    let addresses = table.get("addresses").map(|_| blocks(table, "addresses", report));
    let counts = [addresses.as_ref().map(Vec::len), table.get("referers").map(|_| listed.len())];
    for (key, count) in ["addresses", "referers"].into_iter().zip(counts) {
        let (Some(count), Some(item)) = (count, table.get(key)) else { continue };
        if matches!(credential, KeyCredential::ClientId(_)) {
            let message = format!("`{key}` has no effect on tokens");
            report.error(item.place, message, "remove it, or write `api_key_sha256`");
        } else if count == 0 || count > limits::PERMITTED_MAX {
            let message = format!("`{key}` must list 1 to {} of them", limits::PERMITTED_MAX);
            report.error(item.place, message, "list some, or remove it to permit all");
        }
    }
    let referers: Vec<_> = listed.into_iter().map(|(text, _)| text.to_owned()).collect();
    let is_restricted = addresses.is_some() || !referers.is_empty();
    is_restricted.then(|| Arc::new(Permitted { addresses, referers }))
}

/// The hash is not repeated in a diagnostic.
fn api_key(text: &str, place: Place, report: &mut Report) -> Option<KeyCredential> {
    let hash = sha256(text);
    if hash.is_none() {
        let help = "write the 64 hexadecimal digits that `sha256sum` prints for the key";
        report.error(place, "`api_key_sha256` is not a SHA-256 hash", help);
    }
    hash.map(KeyCredential::ApiKeySha256)
}

/// The hash in these hexadecimal digits.
pub(crate) fn sha256(text: &str) -> Option<[u8; 32]> {
    let digits = text.as_bytes();
    let mut hash = [0; 32];
    let is_hash = digits.len() == 2 * hash.len() && digits.iter().all(u8::is_ascii_hexdigit);
    for (byte, pair) in hash.iter_mut().zip(digits.as_chunks::<2>().0) {
        let pair = std::str::from_utf8(pair).unwrap_or_default();
        *byte = u8::from_str_radix(pair, 16).unwrap_or_default();
    }
    is_hash.then_some(hash)
}

fn subscriptions(
    table: &Table<'_>,
    plans: &[String],
    report: &mut Report,
) -> Vec<Arc<Subscription>> {
    const STATES: &[(&str, SubscriptionState)] = &[
        ("active", SubscriptionState::Active),
        ("blocked", SubscriptionState::Blocked),
        ("production_blocked", SubscriptionState::ProductionBlocked),
        ("inactive", SubscriptionState::Inactive),
    ];
    let tables = table.sections("subscriptions", "application.subscriptions", report);
    let mut known = HashSet::with_capacity(tables.len());
    let mut found = Vec::with_capacity(tables.len());
    for table in &tables {
        let (api, version) = (text(table, "api", report), text(table, "version", report));
        let plan = plan(table, plans, report);
        let state = table.choice("state", STATES, report).unwrap_or_default();
        let (Some((api, place)), Some((version, _))) = (api, version) else { continue };
        if !known.insert((api, version)) {
            let (api, version) = (shorten(api), shorten(version));
            report.error(
                place,
                format!("duplicate subscription to `{api}` {version}"),
                "remove it",
            );
        }
        let (api, version) = (api.to_owned(), version.to_owned());
        found.push(Arc::new(Subscription { api, version, plan, state }));
    }
    found
}
