//! API keys: those of applications, known by their hashes, those that an issuer has signed, and the internal keys of
//! publishers.

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use base::{Now, limits};
use jose::Claims;
use model::{AuthFailure, Caller, CredentialKind, Issuer, Permitted};

use super::{Identity, TokenCache, cached, is_jwt, verified};
use crate::subscribers::Subscribers;

/// Identifies the caller of an API key: from the cache, by its hash, or by verifying it like a token. The cache may
/// still have a key that was removed from its application.
pub fn identify_key(
    cache: &mut TokenCache,
    key: &[u8],
    issuers: &[Arc<Issuer>],
    subscribers: Option<&Subscribers>,
    now: Now,
) -> Identity {
    let place = cache.key(key);
    if let Some(caller) = cache.find(place, key, issuers, now) {
        return cached(cache, place, caller, issuers, now);
    }
    identify_new(cache, key, issuers, subscribers, now)
}

/// A separate function, so that a cached key does not pay for its registers and its stack.
#[inline(never)]
fn identify_new(
    cache: &mut TokenCache,
    key: &[u8],
    issuers: &[Arc<Issuer>],
    subscribers: Option<&Subscribers>,
    now: Now,
) -> Identity {
    let hash = jose::sha256(key);
    if subscribers.is_some_and(|all| all.of_api_key(&hash).is_some()) {
        let caller = Rc::new(of_application(hash));
        cache.insert(key, &caller, None, limits::TOKEN_CACHE_S_MAX, now);
        return Identity::Known(caller);
    }
    if is_jwt(key) {
        verified(cache, key, issuers, now)
    } else {
        Identity::Rejected(AuthFailure::UnknownKey)
    }
}

/// Identifies the caller of an internal key, which is verified like a signed API key.
pub fn identify_internal_key(
    cache: &mut TokenCache,
    key: &[u8],
    issuers: &[Arc<Issuer>],
    now: Now,
) -> Identity {
    let identity = identify_key(cache, key, issuers, None, now);
    match &identity {
        Identity::Known(caller) if !may_be_internal(caller, issuers) => {
            Identity::Rejected(AuthFailure::WrongKind)
        }
        Identity::Known(_) | Identity::Rejected(_) | Identity::Ask(_) => identity,
    }
}

/// Whether the issuer of an internal key may sign such keys.
fn may_be_internal(caller: &Caller, issuers: &[Arc<Issuer>]) -> bool {
    let issuer = caller.issuer.and_then(|number| issuers.get(number));
    caller.kind == CredentialKind::InternalKey && issuer.is_some_and(|issuer| issuer.internal_keys)
}

/// The caller with the application key of this hash.
fn of_application(hash: [u8; 32]) -> Caller {
    // The type of the key is looked up later.
    Caller { kind: CredentialKind::ApplicationKey(hash), ..Caller::default() }
}

/// The restrictions on the use of a signed key. An invalid address permits none. Source: WSO2's claims `permittedIP`
/// and `permittedReferer`.
pub(super) fn permitted(claims: &Claims) -> Option<Arc<Permitted>> {
    fn listed(claim: &Option<String>) -> impl Iterator<Item = &str> {
        let all = claim.iter().flat_map(|text| text.split(','));
        all.map(str::trim).filter(|one| !one.is_empty()).take(limits::PERMITTED_MAX)
    }
    let has_addresses = listed(&claims.permitted_ip).next().is_some();
    let addresses = has_addresses.then(|| listed(&claims.permitted_ip).filter_map(block).collect());
    let referers: Vec<_> = listed(&claims.permitted_referer).map(str::to_owned).collect();
    let is_restricted = addresses.is_some() || !referers.is_empty();
    is_restricted.then(|| Arc::new(Permitted { addresses, referers }))
}

/// An address, or a block in CIDR notation. Unlike in the configuration, bits after the prefix do not matter.
fn block(text: &str) -> Option<(IpAddr, u8)> {
    let (address, prefix) = match text.split_once('/') {
        Some((address, prefix)) => (address, Some(prefix.parse().ok()?)),
        None => (text, None),
    };
    let address = address.parse::<IpAddr>().ok()?;
    let width = if address.is_ipv4() { 32 } else { 128 };
    let prefix = prefix.unwrap_or(width);
    (prefix <= width).then_some((address, prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the number of addresses, if there is a list of them, and the patterns.
    #[track_caller]
    fn check(
        addresses: Option<&str>,
        referers: Option<&str>,
        expect: Option<(Option<usize>, &str)>,
    ) {
        let claims = Claims {
            permitted_ip: addresses.map(str::to_owned),
            permitted_referer: referers.map(str::to_owned),
            ..Claims::default()
        };
        let found = permitted(&claims);
        let found =
            found.as_ref().map(|of| (of.addresses.as_ref().map(Vec::len), of.referers.join(" ")));
        let found = found.as_ref().map(|(count, text)| (*count, text.as_str()));
        assert_eq!(found, expect, "{addresses:?} {referers:?}");
    }

    #[test]
    fn what_a_key_permits_is_read_and_nothing_readable_permits_nothing() {
        check(None, None, None);
        check(Some(""), Some(" , "), None);
        check(Some("10.0.0.1, 10.1.2.3/8,::1/64"), None, Some((Some(3), "")));
        check(Some("somewhere, 10.0.0.0/33, 1.2.3.4/x"), None, Some((Some(0), "")));
        check(None, Some("https://a/*, b"), Some((None, "https://a/* b")));
        let many = "10.0.0.1,".repeat(limits::PERMITTED_MAX + 1);
        check(Some(&many), None, Some((Some(limits::PERMITTED_MAX), "")));
    }
}
