//! `/api/penstock/applications/NAME` and `/api/penstock/plans/NAME` for administrators, and
//! `/api/penstock/applications` for the gateways that follow both: whose credentials may use which APIs, under which
//! plans ([`crate::plans`]). docs/quotas.md describes them.

use std::collections::{BTreeMap, HashSet};

use http::{HeaderMap, StatusCode};
use percent_encoding::percent_decode_str;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use store::{Document, Kind, Put, Removed, Unless};

use crate::credentials::Sender;
use crate::form::Form;
use crate::manager::{Manager, is_name};
use crate::peer::Peer;
use crate::reply::{Refusal, Reply};
use crate::token::has;
use crate::{limits, plans, reply, revocations};

/// The scope of the clients that may read all applications.
pub(crate) const GATEWAY: &str = "penstock_gateway";

const FORBIDDEN: Refusal = Refusal::Forbidden(
    "only an administrator, or a client with the scope penstock_gateway, may read all applications",
);

/// An application without its name, with the keys of a gateway's file of an application.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Application {
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    attributes: BTreeMap<String, String>,
    #[serde(default)]
    keys: Vec<Key>,
    #[serde(default)]
    subscriptions: Vec<Subscription>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Key {
    #[serde(skip_serializing_if = "Option::is_none")]
    client_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    api_key_sha256: Option<String>,
    #[serde(rename = "type", default)]
    key_type: KeyType,
    /// From where an API key may be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    addresses: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    referers: Option<Vec<String>>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum KeyType {
    #[default]
    Production,
    Sandbox,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Subscription {
    api: String,
    version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<String>,
    #[serde(default)]
    state: State,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum State {
    #[default]
    Active,
    Blocked,
    ProductionBlocked,
    Inactive,
}

/// The applications and plans that changed after the number `after`, as soon as there are some, at most `wait_s`
/// seconds later. If the changes since then are unknown, all of them, with `reset`; a gateway asks for the rest with
/// `full`, and begins again if `start` differs from that of the first part.
pub(crate) async fn changes(
    manager: &Manager,
    head: &HeaderMap,
    query: &Form,
    peer: &Peer,
) -> Result<Reply, Refusal> {
    match manager.client_or_user(head, &Form::default(), peer).await? {
        Sender::User(user) if user.admin => {}
        Sender::Client(client) if has(&client.scopes, GATEWAY) => {}
        Sender::User(_) | Sender::Client(_) => return Err(FORBIDDEN),
    }
    let after = revocations::number(query, "after")?;
    let is_rest = query.get("full") == Some("true");
    let reset = !is_rest && (after == 0 || !manager.store.can_resume(after).await?);
    let after = if reset { 0 } else { after };
    let wait_s = revocations::number(query, "wait_s")?;
    let last = revocations::wait(manager, after, if is_rest { 0 } else { wait_s }).await?;
    let start = manager.store.revision_at_start().await?;
    let most = (limits::APPLICATIONS_PAGE_MAX, limits::APPLICATIONS_PAGE_BYTES_MAX);
    let (mut applications, more) = manager.store.documents(Kind::Application, after, most).await?;
    let (mut plans, more_plans) = manager.store.documents(Kind::Plan, after, most).await?;
    // Removed ones may have been forgotten meanwhile.
    if !reset && !is_rest && !manager.store.can_resume(after).await? {
        return Err(Refusal::Unavailable);
    }
    // All up to `last` were visible before they were read; one after it need not be visible in both lists.
    let end = |list: &[Document], more: bool| list.last().filter(|_| more).map(|one| one.revision);
    let ends = [end(&applications, more), end(&plans, more_plans)];
    let revision = ends.into_iter().flatten().fold(last, u64::min);
    let is_known = |one: &Document| one.revision <= revision && (!reset || one.document.is_some());
    applications.retain(is_known);
    plans.retain(is_known);
    let body = json!({
        "revision": revision, "start": start, "reset": reset, "more": revision < last,
        "applications": listed(applications, "application"), "plans": listed(plans, "plan"),
    });
    Ok(reply::json(StatusCode::OK, &body))
}

/// Names and documents, those of removed ones null.
fn listed(documents: Vec<Document>, member: &str) -> Vec<Value> {
    let parsed = |text: String| serde_json::from_str::<Value>(&text).ok();
    let entry = |one: Document| json!({ "name": one.name, member: one.document.and_then(parsed) });
    documents.into_iter().map(entry).collect()
}

/// The application or plan `name`, which is a segment of the path.
pub(crate) async fn get(
    manager: &Manager,
    head: &HeaderMap,
    (kind, name): (Kind, &str),
    peer: &Peer,
) -> Result<Reply, Refusal> {
    manager.admin(head, peer).await?;
    let found = manager.store.document(kind, &key(kind, name)?).await?.ok_or(Refusal::NotFound)?;
    let document = serde_json::from_str(&found).map_err(|_| Refusal::Unavailable)?;
    Ok(reply::json(StatusCode::OK, &document))
}

/// Adds or replaces the application or plan `name`.
pub(crate) async fn put(
    manager: &Manager,
    head: &HeaderMap,
    (kind, name, body): (Kind, &str, &[u8]),
    peer: &Peer,
) -> Result<Reply, Refusal> {
    let user = manager.admin(head, peer).await?;
    let key = key(kind, name)?;
    let (most, (document, credentials)) = match kind {
        Kind::Application => (limits::APPLICATIONS_MAX, read(body)?),
        Kind::Plan => {
            let document = plans::read(&decoded(name)?, body, manager.check_plan)?;
            (limits::PLANS_MAX, (document, Vec::new()))
        }
    };
    let is_new = manager.store.document(kind, &key).await?.is_none();
    if is_new && manager.store.count_documents(kind).await? >= most {
        tracing::error!(?kind, most, "too many in the store");
        return Err(Refusal::Unavailable);
    }
    match manager.store.put_document(kind, (&key, &document), &credentials).await? {
        Put::Done => {}
        Put::Taken { credential, by } => {
            let why = format!("`{credential}` is a key of the application `{by}`");
            return Err(Refusal::Conflict(why));
        }
    }
    tracing::info!(?kind, name = key, by = user, "stored");
    Ok(reply::empty(if is_new { StatusCode::CREATED } else { StatusCode::NO_CONTENT }))
}

/// Removes the application or plan `name`; no plan that an application names, which would have no access then.
pub(crate) async fn remove(
    manager: &Manager,
    head: &HeaderMap,
    (kind, name): (Kind, &str),
    peer: &Peer,
) -> Result<Reply, Refusal> {
    let user = manager.admin(head, peer).await?;
    let name = key(kind, name)?;
    let text = plans::named(&name);
    let names = |document: &str| names_plan(document, &name);
    let unless = (kind == Kind::Plan).then_some(Unless { text: &text, names: &names });
    let of = (name.as_str(), unless);
    match manager.store.remove_document(kind, of, manager.now_s()).await? {
        Removed::Done => {}
        Removed::Absent => return Err(Refusal::NotFound),
        Removed::Named => {
            let why = format!("an application names the plan `{name}`; give it another one first");
            return Err(Refusal::Conflict(why));
        }
    }
    tracing::info!(?kind, name, by = user, "removed");
    Ok(reply::empty(StatusCode::NO_CONTENT))
}

/// The name in the store. Names of plans that differ only in case are the same.
fn key(kind: Kind, name: &str) -> Result<String, Refusal> {
    let name = decoded(name)?;
    Ok(match kind {
        Kind::Application => name,
        Kind::Plan => name.to_ascii_lowercase(),
    })
}

fn decoded(name: &str) -> Result<String, Refusal> {
    let decoded = percent_decode_str(name).decode_utf8().ok();
    let name = decoded.filter(|name| is_name(name)).ok_or(Refusal::NotFound)?;
    Ok(name.into_owned())
}

/// Whether an application, or one of its subscriptions, is under the plan `name`. An attribute with such a text is not.
fn names_plan(document: &str, name: &str) -> bool {
    // A document that cannot be read may name every plan.
    let Ok(Application { plan, subscriptions, .. }) = serde_json::from_str(document) else {
        return true;
    };
    let mut plans = subscriptions.into_iter().filter_map(|one| one.plan).chain(plan);
    plans.any(|plan| plan.eq_ignore_ascii_case(name))
}

/// The document of an application, and its credentials.
fn read(body: &[u8]) -> Result<(String, Vec<String>), Refusal> {
    let document: Application = serde_json::from_slice(body)
        .map_err(|error| Refusal::InvalidDocument(error.to_string()))?;
    let credentials = document.check().map_err(Refusal::InvalidDocument)?;
    let text = serde_json::to_string(&document).map_err(|_| Refusal::Unavailable)?;
    Ok((text, credentials))
}

impl Application {
    /// Checks for errors that gateways would reject, except for the names of plans, which are in their files. Returns
    /// the credentials, which have different forms for client IDs and for API keys.
    fn check(&self) -> Result<Vec<String>, String> {
        let (keys, subscriptions) = (&self.keys, &self.subscriptions);
        let plans = subscriptions.iter().map(|one| &one.plan).chain([&self.plan, &self.owner]);
        let names = subscriptions.iter().flat_map(|one| [&one.api, &one.version]);
        if let Some(wrong) = names.chain(plans.flatten()).find(|name| !is_name(name)) {
            let most = limits::NAME_BYTES_MAX;
            return Err(format!("the name `{wrong}` does not have 1 to {most} printable bytes"));
        }
        let (most, bytes_most) = (
            base::limits::APPLICATION_ATTRIBUTES_MAX,
            base::limits::APPLICATION_ATTRIBUTES_BYTES_MAX,
        );
        let attributes = &self.attributes;
        let bytes: usize = attributes.iter().map(|(name, value)| name.len() + value.len()).sum();
        if attributes.len() > most || bytes > bytes_most {
            return Err(format!(
                "too many attributes: at most {most}, and {bytes_most} bytes in total"
            ));
        }
        let mut known = HashSet::new();
        let mut pairs = subscriptions.iter().map(|one| (&one.api, &one.version));
        if let Some((api, version)) = pairs.find(|pair| !known.insert(*pair)) {
            return Err(format!("two subscriptions to `{api}` {version}"));
        }
        keys.iter().try_for_each(Key::check)?;
        let credentials = keys.iter().map(Key::credential).collect::<Result<Vec<_>, _>>()?;
        let distinct: HashSet<&String> = credentials.iter().collect();
        if distinct.len() < credentials.len() {
            return Err("a key occurs twice".to_owned());
        }
        Ok(credentials)
    }
}

impl Key {
    fn check(&self) -> Result<(), String> {
        let most = base::limits::PERMITTED_MAX;
        for (name, listed) in [("addresses", &self.addresses), ("referers", &self.referers)] {
            let Some(listed) = listed else { continue };
            if self.client_id.is_some() {
                return Err(format!("`{name}` has no effect on tokens"));
            }
            if !(1..=most).contains(&listed.len()) {
                return Err(format!("`{name}` must list 1 to {most} of them"));
            }
        }
        let mut listed = self.addresses.iter().flatten();
        match listed.find(|text| base::addresses::block(text).is_none()) {
            Some(wrong) => Err(format!("`{wrong}` is not an IP address or CIDR block")),
            None => Ok(()),
        }
    }

    fn credential(&self) -> Result<String, String> {
        match (&self.client_id, &self.api_key_sha256) {
            (Some(id), None) if is_name(id) => Ok(format!("client_id {id}")),
            (None, Some(hash)) if hash.len() == 64 && is_hexadecimal(hash) => {
                Ok(format!("api_key_sha256 {}", hash.to_ascii_lowercase()))
            }
            _ => Err("a key needs either `client_id`, or `api_key_sha256` with the 64 \
                      hexadecimal digits that `sha256sum` prints"
                .to_owned()),
        }
    }
}

fn is_hexadecimal(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
