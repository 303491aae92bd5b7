//! Authorisation: whether the caller may use the operation, and with which endpoints.
//!
//! Life of a request: authenticate -> **authorise** -> forward. Reads a [`Caller`] and an operation's
//! rule; returns an index of `Api::upstreams`, or a [`Denial`].

use model::{Api, Caller, Denial, KeyType, Operation, ScopeRule};

/// Checks that the token has the scopes that the operation requires. Scopes are case-sensitive (RFC 6749
/// section 3.3).
///
/// # Errors
/// [`Denial::ScopeMissing`] if the token has none of [`ScopeRule::AnyOf`], or lacks one of
/// [`ScopeRule::AllOf`]. No token satisfies an empty `AnyOf`.
pub fn grant(caller: &Caller, rule: &ScopeRule) -> Result<(), Denial> {
    let has = |scope: &String| caller.scopes.contains(scope);
    let granted = match rule {
        ScopeRule::Anything => true,
        ScopeRule::AnyOf(scopes) => scopes.iter().any(has),
        ScopeRule::AllOf(scopes) => scopes.iter().all(has),
    };
    if granted { Ok(()) } else { Err(Denial::ScopeMissing) }
}

/// Chooses the endpoint set, as an index of `api.upstreams`: the operation's own if it has one, else the
/// API's. `key_type` is the caller's; `None` is an anonymous request to an open operation, which goes to
/// production, or to the sandbox if there is no production endpoint.
///
/// # Errors
/// [`Denial::NoProductionEndpoint`] and [`Denial::NoSandboxEndpoint`] if there is none for the key.
pub fn upstream(
    api: &Api,
    operation: &Operation,
    key_type: Option<KeyType>,
) -> Result<usize, Denial> {
    let production = operation.production.or(api.production);
    let sandbox = operation.sandbox.or(api.sandbox);
    match key_type {
        Some(KeyType::Production) => production.ok_or(Denial::NoProductionEndpoint),
        Some(KeyType::Sandbox) => sandbox.ok_or(Denial::NoSandboxEndpoint),
        None => production.or(sandbox).ok_or(Denial::NoProductionEndpoint),
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
        let caller = Caller {
            subject: None,
            client_id: None,
            scopes: scopes.split_whitespace().map(str::to_owned).collect(),
            key_type: Production,
            issuer: 0,
            token_id: None,
            audiences: Vec::new(),
            expires_s: None,
            not_before_s: None,
            confirmation: None,
        };
        assert_eq!(grant(&caller, rule).is_ok(), granted, "{scopes:?} against {rule:?}");
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
