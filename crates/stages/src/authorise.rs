//! May this caller use this operation, and which endpoints does its key open?
//!
//! Life of a request: authenticate -> **authorise** -> forward. Reads a [`Caller`] and an
//! operation's rule; answers nothing but yes or a [`Denial`], and an index of `Api::upstreams`.

use model::{Api, Caller, Denial, KeyType, Operation, ScopeRule};

/// Checks the token's scopes against what the operation asks for. Scopes are compared byte for
/// byte (RFC 6749 section 3.3: case-sensitive).
///
/// # Errors
/// [`Denial::ScopeMissing`] when none of [`ScopeRule::AnyOf`], or not each of
/// [`ScopeRule::AllOf`], is among them. An empty `AnyOf` is met by nobody.
pub fn grant(caller: &Caller, rule: &ScopeRule) -> Result<(), Denial> {
    let has = |scope: &String| caller.scopes.contains(scope);
    let granted = match rule {
        ScopeRule::Anything => true,
        ScopeRule::AnyOf(scopes) => scopes.iter().any(has),
        ScopeRule::AllOf(scopes) => scopes.iter().all(has),
    };
    if granted {
        Ok(())
    } else {
        Err(Denial::ScopeMissing)
    }
}

/// Chooses the endpoint set, as an index of `api.upstreams`: the operation's own where it names
/// one, else the API's. `key_type` is the caller's; `None` stands for an anonymous call of an open
/// operation, which goes to production, else to the sandbox.
///
/// # Errors
/// [`Denial::NoProductionEndpoint`] and [`Denial::NoSandboxEndpoint`] when the key opens nothing.
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
