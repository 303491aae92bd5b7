//! Authorisation: decides whether the caller may use the operation, and with which endpoints.
//!
//! Life of a request: authenticate -> **authorise** -> throttle. Reads a [`Caller`], its application and an operation's
//! rule; returns a [`Grant`] and an index of `Api::upstreams`, or a [`Denial`].

use jose::TokenSubscriptions;
use model::{
    Api, Caller, CredentialKind, Denial, Grant, KeyType, Lifecycle, Limit, LimitBy, Operation,
    PlanUse, Quantity, ScopeRule, SubscriptionState, TokenRule,
};

use crate::hash::mix;
use crate::plans::PlanTable;
use crate::subscribers::{Credential, Subscribers};

/// Checks that the token is of the type, and has the scopes, that the operation requires. Scopes are case-sensitive
/// (RFC 6749 section 3.3).
///
/// # Errors
/// [`Denial::WrongTokenType`]; [`Denial::ScopeMissing`] if the token has none of [`ScopeRule::AnyOf`], or lacks one of
/// [`ScopeRule::AllOf`]. No token satisfies an empty `AnyOf`.
pub fn grant(caller: &Caller, rule: &TokenRule) -> Result<(), Denial> {
    if rule.of.is_some_and(|of| of != caller.token_type) {
        return Err(Denial::WrongTokenType);
    }
    scopes(caller, &rule.scopes)
}

/// Checks that the caller has the scopes.
///
/// # Errors
/// [`Denial::ScopeMissing`], as [`grant`].
pub fn scopes(caller: &Caller, rule: &ScopeRule) -> Result<(), Denial> {
    let has = |scope: &String| caller.scopes.contains(scope);
    let granted = match rule {
        ScopeRule::Anything => true,
        ScopeRule::AnyOf(scopes) => scopes.iter().any(has),
        ScopeRule::AllOf(scopes) => scopes.iter().all(has),
    };
    if granted { Ok(()) } else { Err(Denial::ScopeMissing) }
}

/// Checks the subscription of the caller's application to `api`, whose key is `api_key`. A token that lists its
/// subscriptions needs no other, unless its application has one that is blocked or inactive; an internal key has to
/// list them. Without `subscribers`, other callers need none. An API that was not published accepts only internal keys.
/// Users with passwords have no applications, and need no subscription.
///
/// # Errors
/// [`Denial::Unsubscribed`], [`Denial::SubscriptionBlocked`], [`Denial::SubscriptionInactive`];
/// [`Denial::InvalidCredentials`] for an application key that no application has any more.
pub fn subscription(
    caller: &Caller,
    (api, api_key): (&Api, u64),
    subscribers: Option<&Subscribers>,
    plans: &PlanTable,
) -> Result<Grant, Denial> {
    let is_internal = caller.kind == CredentialKind::InternalKey;
    if !is_internal && api.lifecycle == Lifecycle::Created {
        return Err(Denial::Unsubscribed);
    }
    if caller.kind == CredentialKind::Login {
        return Ok(Grant { key_type: Some(caller.key_type), ..Grant::default() });
    }
    if matches!(caller.kind, CredentialKind::ApplicationKey(_)) {
        let found = subscribers.and_then(|all| all.of_caller(caller));
        let found = found.ok_or(Denial::InvalidCredentials)?;
        if api.subscription {
            return of_application(found, api_key);
        }
        return Ok(Grant { key_type: Some(found.key_type), ..Grant::default() });
    }
    if let Some(listed) = &caller.subscriptions {
        if !is_internal && api.subscription {
            let known = subscribers.and_then(|all| all.of_caller(caller));
            check_known(known, api_key)?;
        }
        return listed_subscription(caller, listed, (api, api_key), plans);
    }
    if is_internal {
        return Err(Denial::Unsubscribed);
    }
    let Some(subscribers) = subscribers.filter(|_| api.subscription) else {
        return Ok(Grant { key_type: Some(caller.key_type), ..Grant::default() });
    };
    let found = subscribers.of_caller(caller);
    of_application(found.ok_or(Denial::Unsubscribed)?, api_key)
}

/// The grant of an application's key.
fn of_application(credential: &Credential, api_key: u64) -> Result<Grant, Denial> {
    let Credential { subscriber, key_type, permitted: _ } = credential;
    let (state, subscription) = subscriber.subscription(api_key).ok_or(Denial::Unsubscribed)?;
    check_state(state, *key_type)?;
    Ok(Grant { key_type: Some(*key_type), application: subscriber.uses(), subscription })
}

/// Checks that the application's subscription, if it has one, gives access, since the list in a token dates from its
/// issue.
fn check_known(credential: Option<&Credential>, api_key: u64) -> Result<(), Denial> {
    let Some(Credential { subscriber, key_type, permitted: _ }) = credential else { return Ok(()) };
    let known = subscriber.subscription(api_key);
    known.map_or(Ok(()), |(state, _)| check_state(state, *key_type))
}

fn check_state(state: SubscriptionState, key_type: KeyType) -> Result<(), Denial> {
    match (state, key_type) {
        (SubscriptionState::Active, _)
        | (SubscriptionState::ProductionBlocked, KeyType::Sandbox) => Ok(()),
        (SubscriptionState::ProductionBlocked | SubscriptionState::Blocked, _) => {
            Err(Denial::SubscriptionBlocked)
        }
        (SubscriptionState::Inactive, _) => Err(Denial::SubscriptionInactive),
    }
}

/// The grant of a token that lists its subscriptions.
fn listed_subscription(
    caller: &Caller,
    listed: &TokenSubscriptions,
    (api, api_key): (&Api, u64),
    plans: &PlanTable,
) -> Result<Grant, Denial> {
    let is_it = |one: &&jose::SubscribedApi| {
        one.name == api.name && (one.version == api.version || one.version == "*")
    };
    let found = listed.apis.iter().find(is_it).ok_or(Denial::Unsubscribed)?;
    let key = caller.application_key;
    let burst = found.burst.map(|(amount, period_ms)| Limit {
        quantity: Quantity::Requests,
        amount,
        period_ms,
        by: LimitBy::All,
    });
    let tier = found.tier.as_deref().or(burst.map(|_| "Unlimited"));
    let of = |plan: &str, key, burst| PlanUse { plan: plans.number(plan), key, burst };
    Ok(Grant {
        key_type: Some(caller.key_type),
        application: listed.tier.as_ref().map(|tier| of(tier, key, None)),
        subscription: tier.map(|tier| of(tier, mix(key, api_key), burst)),
    })
}

/// The type of endpoints that a request goes to. `key_type` is the caller's; `None` is an anonymous request to an open
/// operation, which goes to production, or to the sandbox without a production endpoint.
#[must_use]
pub fn environment(api: &Api, operation: &Operation, key_type: Option<KeyType>) -> KeyType {
    let has_production = operation.production.or(api.production).is_some();
    let has_sandbox = operation.sandbox.or(api.sandbox).is_some();
    let is_sandbox = has_sandbox && !has_production;
    key_type.unwrap_or(if is_sandbox { KeyType::Sandbox } else { KeyType::Production })
}

/// Chooses the endpoint set for a request, as an index of `api.upstreams`: the operation's own if it has one, else the
/// API's.
///
/// # Errors
/// [`Denial::NoProductionEndpoint`] and [`Denial::NoSandboxEndpoint`] if the API has none for the key.
pub fn upstream(
    api: &Api,
    operation: &Operation,
    key_type: Option<KeyType>,
) -> Result<usize, Denial> {
    match environment(api, operation, key_type) {
        KeyType::Production => {
            operation.production.or(api.production).ok_or(Denial::NoProductionEndpoint)
        }
        KeyType::Sandbox => operation.sandbox.or(api.sandbox).ok_or(Denial::NoSandboxEndpoint),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;
    use model::KeyType::{Production, Sandbox};

    #[test]
    fn a_rule_without_scopes_admits_every_caller() {
        check_grant("", &ScopeRule::Anything, true);
        check_grant("read", &ScopeRule::Anything, true);
    }

    #[test]
    fn one_of_the_listed_scopes_suffices() {
        let rule = ScopeRule::AnyOf(vec!["read".to_owned(), "write".to_owned()]);
        for (scopes, granted) in
            [("", false), ("read", true), ("x write", true), ("READ", false), ("rea readx", false)]
        {
            check_grant(scopes, &rule, granted);
        }
    }

    #[test]
    fn all_listed_scopes_are_required_by_all_of() {
        let rule = ScopeRule::AllOf(vec!["read".to_owned(), "write".to_owned()]);
        for (scopes, granted) in [("", false), ("read", false), ("write x read", true)] {
            check_grant(scopes, &rule, granted);
        }
    }

    #[test]
    fn an_empty_any_of_admits_no_caller() {
        check_grant("read", &ScopeRule::AnyOf(Vec::new()), false);
    }

    #[test]
    fn an_operation_may_be_for_tokens_of_one_type() {
        use model::TokenType::{Application, ApplicationUser};
        for (of, token_type, expect) in [
            (None, ApplicationUser, Ok(())),
            (Some(Application), Application, Ok(())),
            (Some(Application), ApplicationUser, Err(Denial::WrongTokenType)),
            (Some(ApplicationUser), Application, Err(Denial::WrongTokenType)),
        ] {
            let caller = Caller { token_type, ..samples::caller() };
            let rule = TokenRule { scopes: ScopeRule::Anything, of, issuers: Vec::new() };
            assert_eq!(grant(&caller, &rule), expect, "{of:?} {token_type:?}");
        }
    }

    #[test]
    fn endpoints_are_chosen_by_key_type_and_an_operations_own_take_precedence() {
        let (none, api, own) = (None, Some(0), Some(1));
        for (api, operation, key_type, expect) in [
            ((api, none), (none, none), Some(Production), Ok(0)),
            ((api, none), (own, none), Some(Production), Ok(1)),
            ((api, none), (none, own), Some(Production), Ok(0)),
            ((api, none), (none, own), Some(Sandbox), Ok(1)),
            ((api, none), (own, none), Some(Sandbox), Err(Denial::NoSandboxEndpoint)),
            ((none, api), (none, none), Some(Sandbox), Ok(0)),
            ((none, api), (none, none), Some(Production), Err(Denial::NoProductionEndpoint)),
            ((api, own), (none, none), None, Ok(0)),
            ((none, api), (none, none), None, Ok(0)),
            ((none, api), (own, none), None, Ok(1)),
            ((none, none), (none, none), None, Err(Denial::NoProductionEndpoint)),
        ] {
            check_upstream(api, operation, key_type, expect);
        }
    }

    #[track_caller]
    fn check_grant(scopes: &str, rule: &ScopeRule, granted: bool) {
        let scopes = scopes.split_whitespace().map(str::to_owned).collect();
        let caller = Caller { scopes, ..samples::caller() };
        let rule = TokenRule { scopes: rule.clone(), of: None, issuers: Vec::new() };
        assert_eq!(grant(&caller, &rule).is_ok(), granted, "{:?} {rule:?}", caller.scopes);
    }

    /// Pairs are production and sandbox.
    #[track_caller]
    fn check_upstream(
        of_api: (Option<usize>, Option<usize>),
        of_operation: (Option<usize>, Option<usize>),
        key_type: Option<KeyType>,
        expect: Result<usize, Denial>,
    ) {
        let mut api = samples::api("/a/1", &["GET /*"]);
        (api.production, api.sandbox) = of_api;
        let operation = &mut api.operations[0];
        (operation.production, operation.sandbox) = of_operation;
        assert_eq!(upstream(&api, &api.operations[0], key_type), expect);
    }
}
