//! `/api/penstock/plans/NAME` for administrators: plans, by which gateways limit requests. Gateways follow them together
//! with the applications. docs/quotas.md describes them.

use http::{HeaderMap, StatusCode};
use serde_json::{Map, Value, json};
use store::Kind;

use crate::applications::decoded;
use crate::manager::Manager;
use crate::peer::Peer;
use crate::reply::{Refusal, Reply};
use crate::{limits, reply};

/// Why a document with its `name` is not a plan.
pub type CheckPlan = fn(&Value) -> Result<(), String>;

/// Adds or replaces the plan `name`, which is a segment of the path.
pub(crate) async fn put(
    manager: &Manager,
    head: &HeaderMap,
    (name, body): (&str, &[u8]),
    peer: &Peer,
) -> Result<Reply, Refusal> {
    let user = manager.admin(head, peer).await?;
    let name = decoded(name)?;
    let mut document: Map<String, Value> = serde_json::from_slice(body)
        .map_err(|error| Refusal::InvalidDocument(error.to_string()))?;
    let other = document.insert("name".to_owned(), json!(name));
    if other.is_some_and(|other| other.as_str().is_none_or(|other| other != name)) {
        return Err(Refusal::InvalidDocument("`name` is another one than in the path".to_owned()));
    }
    let document = Value::Object(document);
    (manager.check_plan)(&document).map_err(Refusal::InvalidDocument)?;
    let key = name.to_ascii_lowercase();
    let is_new = manager.store.document(Kind::Plan, &key).await?.is_none();
    if is_new && manager.store.count_documents(Kind::Plan).await? >= limits::PLANS_MAX {
        tracing::error!(most = limits::PLANS_MAX, "too many plans in the store");
        return Err(Refusal::Unavailable);
    }
    manager.store.put_plan(&key, &document.to_string()).await?;
    tracing::info!(plan = name, by = user, "plan stored");
    Ok(reply::empty(if is_new { StatusCode::CREATED } else { StatusCode::NO_CONTENT }))
}

/// Fails if an application names the plan: without it, the application would have no access.
pub(crate) async fn check_unused(manager: &Manager, name: &str) -> Result<(), Refusal> {
    // As the documents of applications are written.
    let named = format!("\"plan\":{}", json!(name));
    if manager.store.is_in_an_application(&named).await? {
        let why = format!("an application names the plan `{name}`; give it another one first");
        return Err(Refusal::Conflict(why));
    }
    Ok(())
}
