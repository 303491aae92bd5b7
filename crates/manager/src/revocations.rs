//! `/oauth2/revocations`: the access tokens that were revoked before they expired, alone or with their client, for
//! gateways that follow them. A gateway asks for the revocations after the last number that it knows, and waits for
//! them.

use std::time::Duration;

use base::{Clock, SystemClock};
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use store::{Revocation, Store, StoreError};
use tokio::sync::watch;
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
pub(crate) async fn wait(manager: &Manager, after: u64, wait_s: u64) -> Result<u64, Refusal> {
    let wait = Duration::from_secs(wait_s.min(limits::REVOCATIONS_WAIT_S_MAX));
    next(&manager.store, &manager.revision, after, wait).await
}

async fn next(
    store: &Store,
    revision: &watch::Sender<u64>,
    after: u64,
    wait: Duration,
) -> Result<u64, Refusal> {
    let is_full = revision.receiver_count() >= limits::READERS_MAX;
    // Before the number is read, so that no change is missed.
    let subscribed = (!is_full && !wait.is_zero()).then(|| revision.subscribe());
    let last = store.revision().await?;
    if last > after || wait.is_zero() {
        return Ok(last);
    }
    let Some(mut revision) = subscribed else {
        tracing::error!(most = limits::READERS_MAX, "too many gateways wait for changes");
        return Err(Refusal::Unavailable);
    };
    if timeout(wait, revision.wait_for(|last| *last > after)).await.is_err() {
        return Ok(last);
    }
    Ok(store.revision().await?)
}

pub(crate) fn number(query: &Form, name: &str) -> Result<u64, Refusal> {
    const WRONG: Refusal = Refusal::InvalidRequest("`after` and `wait_s` are whole numbers");
    query.get(name).map_or(Ok(0), |text| text.parse().map_err(|_| WRONG))
}

/// Wakes those who wait for changes: of this process at once, of others after up to `poll`.
pub(crate) async fn watch(store: &Store, revision: &watch::Sender<u64>, poll: Duration) {
    let mut ticks = tokio::time::interval(poll);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = store.changed() => {}
        }
        if revision.receiver_count() == 0 {
            continue;
        }
        match store.revision().await {
            Ok(last) => {
                revision.send_replace(last);
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot make its database has failed")]

    use std::sync::Arc;

    use store::{Client, Database, Kind, TokenType, TokensOfClient};

    use super::*;

    /// Longer than any test: awaited events have to come by themselves.
    const NEVER: Duration = Duration::from_secs(86_400);
    const PATIENCE: Duration = Duration::from_secs(60);

    struct Watched {
        store: Arc<Store>,
        revision: Arc<watch::Sender<u64>>,
        _folder: tempfile::TempDir,
        database: Database,
    }

    impl Watched {
        async fn new(poll: Duration) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let database = Database::Sqlite(folder.path().join("a.db"));
            let store = Arc::new(Store::open(&database).await.unwrap());
            let revision = Arc::new(watch::Sender::new(0));
            let of_task = (Arc::clone(&store), Arc::clone(&revision));
            tokio::spawn(async move { watch(&of_task.0, &of_task.1, poll).await });
            Self { store, revision, _folder: folder, database }
        }

        /// Waits for the next change as `readers` gateways do, while `change` is made.
        async fn check<T>(&self, readers: usize, change: impl Future<Output = T>) {
            let after = self.store.revision().await.unwrap();
            let wait = || {
                let (store, revision) = (Arc::clone(&self.store), Arc::clone(&self.revision));
                tokio::spawn(async move { next(&store, &revision, after, NEVER).await })
            };
            let waiting: Vec<_> = (0..readers).map(|_| wait()).collect();
            while self.revision.receiver_count() < readers {
                tokio::task::yield_now().await;
            }
            change.await;
            for waiting in waiting {
                let woken = timeout(PATIENCE, waiting).await.unwrap().unwrap().unwrap();
                assert!(woken > after);
            }
        }
    }

    #[tokio::test]
    async fn every_change_of_this_process_wakes_all_who_wait_without_a_poll() {
        let watched = Watched::new(NEVER).await;
        let store = &watched.store;
        for round in 0_u64..3 {
            watched
                .check(5, async {
                    let keys = ["client_id x".to_owned()];
                    store.put_document(Kind::Application, ("a", "{}"), &keys).await.unwrap();
                })
                .await;
            watched
                .check(5, async { store.put_document(Kind::Plan, ("p", "{}"), &[]).await.unwrap() })
                .await;
            watched
                .check(5, async {
                    assert!(store.revoke_jwt(&format!("{round}"), "c", 1).await.unwrap());
                })
                .await;
            for kind in [Kind::Application, Kind::Plan] {
                let name = if kind == Kind::Plan { "p" } else { "a" };
                watched
                    .check(1, async {
                        let removed = store.remove_document(kind, (name, None), round).await;
                        assert_eq!(removed.unwrap(), store::Removed::Done);
                    })
                    .await;
            }
        }
        let client = Client {
            id: "client".to_owned(),
            secret: String::new(),
            jwks: String::new(),
            certificate: String::new(),
            bound: false,
            name: "a".to_owned(),
            owner: "admin".to_owned(),
            grants: String::new(),
            scopes: String::new(),
            redirects: String::new(),
            token_type: TokenType::Jwt,
            created_s: 1,
        };
        assert!(store.add_client(&client).await.unwrap());
        let hash = crate::secrets::hash(&client.id);
        let tokens = TokensOfClient { hash, issued_s: 1, expires_s: 2 };
        watched
            .check(5, async { assert!(store.remove_client(&client.id, &tokens).await.unwrap()) })
            .await;
    }

    #[tokio::test]
    async fn so_many_can_wait_and_others_are_refused_unless_they_do_not_wait() {
        let Watched { store, revision, .. } = &Watched::new(NEVER).await;
        let last = store.revision().await.unwrap();
        let mut waiting: Vec<_> = (0..limits::READERS_MAX).map(|_| revision.subscribe()).collect();
        let refused = next(store, revision, last, NEVER).await;
        assert!(matches!(refused, Err(Refusal::Unavailable)), "{refused:?}");
        assert!(
            matches!(next(store, revision, last, Duration::ZERO).await, Ok(found) if found == last)
        );
        store.put_document(Kind::Plan, ("p", "{}"), &[]).await.unwrap();
        assert!(matches!(next(store, revision, last, NEVER).await, Ok(found) if found > last));
        waiting.pop();
        assert!(matches!(next(store, revision, last, NEVER).await, Ok(found) if found > last));
    }

    #[tokio::test]
    async fn a_change_of_another_process_wakes_all_who_wait() {
        let watched = Watched::new(Duration::from_millis(limits::REVISION_POLL_MS)).await;
        let other = Store::open(&watched.database).await.unwrap();
        watched
            .check(5, async { other.put_document(Kind::Plan, ("p", "{}"), &[]).await.unwrap() })
            .await;
    }
}
