//! Shares equal subscriptions of applications: a million subscriptions may refer to only some thousand APIs.

use std::sync::{Arc, Mutex, PoisonError};

use foldhash::HashSet;
use model::{Application, Subscription};

/// Number of entries from which unused ones are dropped; afterwards this happens each time the number has doubled.
const KEPT_MIN: usize = 4_096;

/// The distinct subscriptions of all applications.
#[derive(Debug, Default)]
pub(crate) struct Shared(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    subscriptions: HashSet<Arc<Subscription>>,
    /// Number of entries when unused ones were last dropped.
    kept: usize,
}

impl Shared {
    /// Replaces the subscriptions of `application` by equal shared ones.
    pub(crate) fn share(&self, application: &mut Application) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for subscription in &mut application.subscriptions {
            match known.subscriptions.get(subscription) {
                Some(equal) => *subscription = Arc::clone(equal),
                None => drop(known.subscriptions.insert(Arc::clone(subscription))),
            }
        }
        if known.subscriptions.len() > known.kept.max(KEPT_MIN).saturating_mul(2) {
            known.subscriptions.retain(|one| Arc::strong_count(one) > 1);
            known.kept = known.subscriptions.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn application(apis: &[String]) -> Application {
        let subscription = |api: &String| {
            Arc::new(Subscription {
                api: api.clone(),
                version: "1".to_owned(),
                plan: None,
                state: model::SubscriptionState::Active,
            })
        };
        Application {
            name: String::new(),
            owner: None,
            plan: None,
            attributes: Box::default(),
            keys: Box::default(),
            subscriptions: apis.iter().map(subscription).collect(),
        }
    }

    #[test]
    fn equal_subscriptions_of_two_applications_are_one() {
        let shared = Shared::default();
        let apis = ["a".to_owned(), "b".to_owned()];
        let [mut one, mut two] = [application(&apis), application(&apis)];
        shared.share(&mut one);
        shared.share(&mut two);
        assert_eq!(one, two);
        let pairs = || one.subscriptions.iter().zip(&two.subscriptions);
        assert!(pairs().all(|(one, two)| Arc::ptr_eq(one, two)));
    }

    #[test]
    fn subscriptions_that_no_application_has_are_dropped() {
        let shared = Shared::default();
        for number in 0..10 * KEPT_MIN {
            shared.share(&mut application(&[number.to_string()]));
        }
        let known = shared.0.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(known.subscriptions.len() <= 2 * KEPT_MIN, "{}", known.subscriptions.len());
    }
}
