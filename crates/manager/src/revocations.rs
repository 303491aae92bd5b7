//! `/oauth2/revocations`: the access tokens that were revoked before they expired, alone or with their client, for gateways that follow them. A
//! gateway asks for what comes after the last number that it knows, and waits for it.

use std::sync::Arc;
use std::time::Duration;

use base::{Clock, SystemClock};
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use store::{Revocation, Store, StoreError};
use tokio::time::timeout;

use crate::form::Form;
use crate::manager::Manager;
use crate::peer::Peer;
use crate::reply::{Refusal, Reply};
use crate::{limits, reply};

/// The revocations after the number `after`, as soon as there are some, at most `wait_s` seconds later. For every
/// client, as introspection is.
pub(crate) async fn list(
    manager: &Manager,
    head: &HeaderMap,
    query: &Form,
    peer: &Peer,
) -> Result<Reply, Refusal> {
    manager.client(head, &Form::default(), peer).await?;
    let after = number(query, "after")?;
    let last = wait(manager, after, number(query, "wait_s")?).await?;
    let found = manager.store.revocations(after, limits::REVOCATIONS_PAGE_MAX).await?;
    let is_full = found.len() >= limits::REVOCATIONS_PAGE_MAX.try_into().unwrap_or(usize::MAX);
    let newest = found.last().map_or(after, |newest| newest.revision);
    // All up to `last` were visible before they were read.
    let revision = if is_full { newest } else { newest.max(last) };
    let revoked: Vec<Value> = found.into_iter().map(entry).collect();
    Ok(reply::json(StatusCode::OK, &json!({ "revision": revision, "revoked": revoked })))
}

fn entry(one: Revocation) -> Value {
    let mut entry = json!({ "hash": one.hash, "exp": one.expires_s });
    if let Some(issued_s) = one.issued_s {
        entry["issued_until"] = json!(issued_s);
    }
    entry
}

/// The number of the last change: after `after`, or after waiting for `wait_s` seconds.
pub(crate) async fn wait(manager: &Manager, after: u64, wait_s: u64) -> Result<u64, StoreError> {
    let last = manager.store.revision().await?;
    if last > after {
        return Ok(last);
    }
    let wait = Duration::from_secs(wait_s.min(limits::REVOCATIONS_WAIT_S_MAX));
    let mut revision = manager.revision.subscribe();
    if timeout(wait, revision.wait_for(|last| *last > after)).await.is_err() {
        return Ok(last);
    }
    manager.store.revision().await
}

pub(crate) fn number(query: &Form, name: &str) -> Result<u64, Refusal> {
    const WRONG: Refusal = Refusal::InvalidRequest("`after` and `wait_s` are whole numbers");
    query.get(name).map_or(Ok(0), |text| text.parse().map_err(|_| WRONG))
}

/// Wakes those who wait for changes, whoever made them.
pub(crate) async fn watch(manager: Arc<Manager>) {
    let mut ticks = tokio::time::interval(Duration::from_millis(limits::REVISION_POLL_MS));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if manager.revision.receiver_count() == 0 {
            continue;
        }
        match manager.store.revision().await {
            Ok(last) => {
                manager.revision.send_replace(last);
            }
            Err(error) => tracing::error!(%error, "changes cannot be read"),
        }
    }
}

/// Continues with numbers that no earlier start gave, even if the database is restored from a backup: there are fewer
/// than a million revocations a second.
pub(crate) async fn renumber(store: &Store) -> Result<(), StoreError> {
    store.skip_revisions(SystemClock::new().now().unix_s.saturating_mul(1_000_000)).await
}
