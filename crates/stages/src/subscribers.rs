//! Applications, compiled for lookups by the credentials of callers. Shared by the workers.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use model::{
    Application, ApplicationKey, Applications, Caller, CredentialKind, KeyCredential, KeyType,
    Permitted, PlanUse, Subscription, SubscriptionState,
};

use crate::hash::{LoadedKeysState, mix};
use crate::plans::{PlanTable, key_of};

/// Number of shards, so large that a change of one application copies little.
const SHARDS: usize = 256;

/// The applications of one snapshot by their keys.
#[derive(Debug)]
pub struct Subscribers {
    source: Arc<Applications>,
    shards: Vec<Arc<Shard>>,
}

#[derive(Clone, Debug, Default)]
struct Shard {
    clients: HashMap<Box<str>, Credential, LoadedKeysState>,
    api_keys: HashMap<[u8; 32], Credential, LoadedKeysState>,
}

/// A key, and the application that it belongs to.
#[derive(Clone, Debug)]
pub struct Credential {
    pub subscriber: Arc<Subscriber>,
    pub key_type: KeyType,
    pub permitted: Option<Arc<Permitted>>,
}

/// A compiled application.
#[derive(Debug)]
pub struct Subscriber {
    pub application: Arc<Application>,
    key: u64,
    plan: Option<u32>,
    /// Subscriptions ordered by API.
    subscriptions: Box<[Subscribed]>,
}

#[derive(Clone, Copy, Debug)]
struct Subscribed {
    api: u64,
    plan: Option<u32>,
    state: SubscriptionState,
}

impl Subscribers {
    /// Compiles `source`, reusing unchanged applications of `previous`, so that the cost depends only on the change.
    #[must_use]
    pub fn compile(
        source: &Arc<Applications>,
        plans: &PlanTable,
        previous: Option<&Arc<Self>>,
    ) -> Arc<Self> {
        if let Some(previous) = previous
            && Arc::ptr_eq(&previous.source, source)
        {
            return Arc::clone(previous);
        }
        let before = previous.map(|previous| &*previous.source);
        let shards = previous.map_or_else(
            || vec![Arc::<Shard>::default(); SHARDS],
            |previous| previous.shards.clone(),
        );
        let mut compiled = Self { source: Arc::clone(source), shards };
        // Removes all old keys before adding new ones, since a key may move from one application to another.
        for gone in source.changes(before).flat_map(|(then, now)| without(then, now)) {
            gone.keys.iter().for_each(|key| compiled.remove(&key.credential));
        }
        // Applications share their subscriptions, so each key is computed once: it requires a hash.
        let mut keys = HashMap::<_, _, LoadedKeysState>::default();
        let mut key_of = |subscription: &Arc<Subscription>| {
            let Subscription { api, version, .. } = &**subscription;
            *keys.entry(Arc::as_ptr(subscription)).or_insert_with(|| api_key(api, version))
        };
        for new in source.changes(before).flat_map(|(then, now)| without(now, then)) {
            compiled.insert(new, plans, &mut key_of);
        }
        Arc::new(compiled)
    }

    /// The application of the tokens with this `client_id`.
    #[must_use]
    pub fn of_client(&self, client_id: &str) -> Option<&Credential> {
        self.shards.get(shard_of(client_id))?.clients.get(client_id)
    }

    /// The application of the API key with this SHA-256 hash.
    #[must_use]
    pub fn of_api_key(&self, hash: &[u8; 32]) -> Option<&Credential> {
        self.shards.get(shard_of(hash))?.api_keys.get(hash)
    }

    /// The application of a caller, by its API key or its `client_id`.
    #[must_use]
    pub fn of_caller(&self, caller: &Caller) -> Option<&Credential> {
        match &caller.kind {
            CredentialKind::ApplicationKey(hash) => self.of_api_key(hash),
            CredentialKind::Login => None,
            CredentialKind::Token | CredentialKind::ApiKey | CredentialKind::InternalKey => {
                self.of_client(caller.client_id.as_ref()?)
            }
        }
    }

    fn shard(&mut self, number: usize) -> &mut Shard {
        let shard = self.shards.get_mut(number).expect("there are SHARDS, and numbers are below");
        Arc::make_mut(shard)
    }

    fn remove(&mut self, credential: &KeyCredential) {
        match credential {
            KeyCredential::ClientId(id) => {
                self.shard(shard_of(id.as_str())).clients.remove(id.as_str());
            }
            KeyCredential::ApiKeySha256(hash) => {
                self.shard(shard_of(hash)).api_keys.remove(hash);
            }
        }
    }

    fn insert(
        &mut self,
        application: &Arc<Application>,
        plans: &PlanTable,
        key_of: &mut impl FnMut(&Arc<Subscription>) -> u64,
    ) {
        let subscriber = Arc::new(Subscriber::compile(application, plans, key_of));
        for ApplicationKey { credential, key_type, permitted } in application.keys.iter() {
            let found = Credential {
                subscriber: Arc::clone(&subscriber),
                key_type: *key_type,
                permitted: permitted.clone(),
            };
            match credential {
                KeyCredential::ClientId(id) => {
                    let clients = &mut self.shard(shard_of(id.as_str())).clients;
                    clients.insert(id.as_str().into(), found);
                }
                KeyCredential::ApiKeySha256(hash) => {
                    self.shard(shard_of(hash)).api_keys.insert(*hash, found);
                }
            }
        }
    }
}

/// The keys of `all` that are not in `others`.
fn without<'a>(
    all: &'a [Arc<Application>],
    others: &[Arc<Application>],
) -> impl Iterator<Item = &'a Arc<Application>> {
    let others: HashSet<_> = others.iter().map(Arc::as_ptr).collect();
    all.iter().filter(move |one| !others.contains(&Arc::as_ptr(one)))
}

fn shard_of(key: impl Hash) -> usize {
    // Uses the upper half, since the lower bits choose the place within a table.
    let hash = LoadedKeysState::default().hash_one(key) >> 32;
    usize::try_from(hash).unwrap_or_default() % SHARDS
}

impl Subscriber {
    fn compile(
        application: &Arc<Application>,
        plans: &PlanTable,
        api_key_of: &mut impl FnMut(&Arc<Subscription>) -> u64,
    ) -> Self {
        let number = |name: &Option<String>| name.as_ref().map(|name| plans.number(name));
        let subscribed = |subscription: &Arc<Subscription>| Subscribed {
            api: api_key_of(subscription),
            plan: number(&subscription.plan),
            state: subscription.state,
        };
        let mut subscriptions: Box<[_]> =
            application.subscriptions.iter().map(subscribed).collect();
        subscriptions.sort_by_key(|subscription| subscription.api);
        Self {
            key: key_of(&["application", &application.name]),
            plan: number(&application.plan),
            subscriptions,
            application: Arc::clone(application),
        }
    }

    /// The plan that all requests of the application use.
    #[must_use]
    pub fn uses(&self) -> Option<PlanUse> {
        self.plan.map(|plan| PlanUse { plan, key: self.key, burst: None })
    }

    /// The subscription to the API with this key, and the plan that its requests use.
    #[must_use]
    pub fn subscription(&self, api: u64) -> Option<(SubscriptionState, Option<PlanUse>)> {
        let at = self.subscriptions.binary_search_by_key(&api, |subscription| subscription.api);
        let Subscribed { api, plan, state } = self.subscriptions.get(at.ok()?)?;
        let key = mix(self.key, *api);
        Some((*state, plan.map(|plan| PlanUse { plan, key, burst: None })))
    }
}

/// Identifies an API in one version.
#[must_use]
pub(crate) fn api_key(name: &str, version: &str) -> u64 {
    key_of(&["api", name, version])
}

#[cfg(test)]
mod tests {
    use model::Plans;

    use super::*;

    #[test]
    fn a_change_of_one_application_replaces_it_and_keeps_the_others() {
        let plans = PlanTable::compile(&Arc::new(Plans::default()), None);
        let [a, b] = [application("a", "1 2"), application("b", "3")];
        let first = Subscribers::compile(&list(&[&a, &b]), &plans, None);
        assert_eq!(names(&first), "a a b -");
        let other = application("a", "2 4");
        let second = Subscribers::compile(&list(&[&other, &b]), &plans, Some(&first));
        assert_eq!(names(&second), "- a b a");
        assert_eq!(names(&first), "a a b -", "requests in progress keep theirs");
        let kept =
            |of: &Subscribers| Arc::as_ptr(&of.of_client("3").expect("it has one").subscriber);
        assert_eq!(kept(&first), kept(&second), "it is not compiled again");
        let third = Subscribers::compile(&list(&[]), &plans, Some(&second));
        assert_eq!(names(&third), "- - - -");
    }

    #[test]
    fn a_key_moves_from_one_application_to_another_in_one_change() {
        let plans = PlanTable::compile(&Arc::new(Plans::default()), None);
        let before = list(&[&application("a", "1 2"), &application("b", "3")]);
        let before = Subscribers::compile(&before, &plans, None);
        let after = list(&[&application("a", "2"), &application("b", "1 3")]);
        assert_eq!(names(&Subscribers::compile(&after, &plans, Some(&before))), "b a b -");
    }

    fn list(all: &[&Arc<Application>]) -> Arc<Applications> {
        Arc::new(all.iter().map(|one| Arc::clone(one)).collect())
    }

    fn names(of: &Subscribers) -> String {
        let name = |id| {
            let found = of.of_client(id);
            found.map_or("-", |found| found.subscriber.application.name.as_str())
        };
        ["1", "2", "3", "4"].map(name).join(" ")
    }

    fn application(name: &str, clients: &str) -> Arc<Application> {
        let key = |id: &str| ApplicationKey {
            credential: KeyCredential::ClientId(id.to_owned()),
            key_type: KeyType::Production,
            permitted: None,
        };
        Arc::new(Application {
            name: name.to_owned(),
            owner: None,
            plan: None,
            attributes: Box::default(),
            keys: clients.split(' ').map(key).collect(),
            subscriptions: Box::default(),
        })
    }
}
