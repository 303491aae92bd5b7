//! DPoP: a client proves with each request that it has the key that its token is bound to. Source: RFC 9449.
//!
//! A proof is for one request, and is remembered by the whole process until it is too old to be accepted again.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use base::limits::{
    PROOF_AGE_S_MAX, PROOF_AHEAD_S_MAX, PROOF_NONCE_S, PROOF_SHARDS, PROOFS_MAX,
    PROOFS_OF_KEY_SHARE, TOKEN_BYTES_MAX,
};
use base::{Entropy, Now};
use jose::Proof;
use model::AuthFailure;

use super::credentials_of;

/// Extracts the token from the value of the credential's header field, as [`super::bearer`] does, with the scheme
/// `DPoP`.
///
/// # Errors
/// [`AuthFailure::UnsupportedScheme`] for another scheme; [`AuthFailure::TokenTooLong`].
///
/// Source: RFC 9449 section 7.1.
pub fn bound(value: &[u8]) -> Result<&[u8], AuthFailure> {
    credentials_of(b"DPoP", value, TOKEN_BYTES_MAX)
}

/// The request and token that a proof has to match.
pub struct Proven<'r> {
    /// The method as sent, since methods are case-sensitive.
    pub method: &'r [u8],
    /// Returns whether a URL is that of the request.
    pub is_url: &'r dyn Fn(&[u8]) -> bool,
    pub token: &'r [u8],
    /// The thumbprint that the token has.
    pub key: &'r [u8; 32],
    /// Whether the proof requires a nonce from [`Proofs::nonce`].
    pub needs_nonce: bool,
}

/// Checks that `proof` is for this request and token, is signed by the token's key, and is new. Returns the nonce that
/// the client is to use from now on, if it has changed.
///
/// # Errors
/// [`AuthFailure::InvalidProof`]; [`AuthFailure::ProofNonce`]; [`AuthFailure::ReplayedProof`];
/// [`AuthFailure::TooManyProofs`] if no more can be remembered, in total or for this key.
///
/// Source: RFC 9449 sections 4.3, 7.1 and 9.
pub fn prove(
    of: &Proven<'_>,
    proof: &[u8],
    proofs: &Proofs,
    now: Now,
) -> Result<Option<String>, AuthFailure> {
    let invalid = AuthFailure::InvalidProof;
    let proof = Proof::verify(proof).map_err(|_| invalid)?;
    let oldest_s = now.unix_s.saturating_sub(PROOF_AGE_S_MAX);
    let is_for_this = proof.key == *of.key
        && proof.method.as_bytes() == of.method
        && proof.token_hash == Some(jose::sha256(of.token))
        && (oldest_s..=now.unix_s.saturating_add(PROOF_AHEAD_S_MAX)).contains(&proof.issued_s)
        && (of.is_url)(proof.url.as_bytes());
    if !is_for_this {
        return Err(invalid);
    }
    let mut renewed = None;
    if of.needs_nonce {
        let nonces = [0, 1].map(|age| proofs.nonce_at(now, age));
        let age = nonces.iter().position(|nonce| proof.nonce.as_ref() == Some(nonce));
        let [current, _] = nonces;
        renewed = Some(current).filter(|_| age.is_none_or(|age| age > 0));
        age.ok_or(AuthFailure::ProofNonce)?;
    }
    proofs.add(&proof, now)?;
    Ok(renewed)
}

/// The used proofs. Workers share them, since otherwise a proof could be used once at each worker.
#[derive(Debug)]
pub struct Proofs {
    shards: Vec<Mutex<Used>>,
    shard_max: usize,
    /// Nonces are computed with this key, so that none has to be stored.
    nonce_key: [u8; 32],
}

/// Used proofs in two sets. A set is dropped once all its proofs are too old to be accepted.
#[derive(Debug, Default)]
struct Used {
    current: Generation,
    previous: Generation,
    /// The time at which `current` was started, on the clock of `Now::mono_us`.
    since_us: u64,
}

#[derive(Debug, Default)]
struct Generation {
    ids: HashSet<[u8; 16]>,
    /// The number of proofs by each key.
    by_key: HashMap<[u8; 32], usize>,
}

impl Generation {
    fn of_key(&self, key: &[u8; 32]) -> usize {
        self.by_key.get(key).copied().unwrap_or_default()
    }
}

/// Longest time for which a proof could be accepted after its first use, in microseconds.
const KEPT_US: u64 = (PROOF_AGE_S_MAX + PROOF_AHEAD_S_MAX + 1) * 1_000_000;

impl Proofs {
    #[must_use]
    pub fn new(entropy: &dyn Entropy) -> Self {
        let mut nonce_key = [0; 32];
        entropy.fill(&mut nonce_key);
        Self { nonce_key, ..Self::with_room(PROOFS_MAX) }
    }

    fn with_room(most: usize) -> Self {
        let shards = (0..PROOF_SHARDS).map(|_| Mutex::default()).collect();
        Self { shards, shard_max: most / PROOF_SHARDS, nonce_key: [0; 32] }
    }

    /// The current nonce for proofs. It only shows that a proof was not created earlier.
    #[must_use]
    pub fn nonce(&self, now: Now) -> String {
        self.nonce_at(now, 0)
    }

    /// The nonce that was issued `age` periods ago.
    fn nonce_at(&self, now: Now, age: u64) -> String {
        let period = (now.unix_s / PROOF_NONCE_S).saturating_sub(age);
        jose::token_hash_text(&jose::hmac_sha256(&self.nonce_key, &period.to_le_bytes()))
    }

    fn add(&self, proof: &Proof, now: Now) -> Result<(), AuthFailure> {
        // A client chooses `jti`. Together with its key, it is unique among clients.
        let hash = jose::sha256(&[&proof.key, proof.id.as_bytes()].concat());
        let ([id, _], _) = hash.as_chunks::<16>() else { return Err(AuthFailure::InvalidProof) };
        let place = id.first().map_or(0, |byte| usize::from(*byte)) % PROOF_SHARDS;
        let shard = self.shards.get(place).ok_or(AuthFailure::TooManyProofs)?;
        let mut used = shard.lock().unwrap_or_else(PoisonError::into_inner);
        used.forget(now.mono_us);
        let Used { current, previous, .. } = &mut *used;
        if current.ids.contains(id) || previous.ids.contains(id) {
            return Err(AuthFailure::ReplayedProof);
        }
        let of_key_max = self.shard_max.div_ceil(PROOFS_OF_KEY_SHARE);
        if current.ids.len() + previous.ids.len() >= self.shard_max
            || current.of_key(&proof.key) + previous.of_key(&proof.key) >= of_key_max
        {
            return Err(AuthFailure::TooManyProofs);
        }
        current.ids.insert(*id);
        *current.by_key.entry(proof.key).or_default() += 1;
        Ok(())
    }
}

impl Used {
    fn forget(&mut self, now_us: u64) {
        let age_us = now_us.saturating_sub(self.since_us);
        if age_us >= KEPT_US {
            self.previous = std::mem::take(&mut self.current);
            if age_us >= 2 * KEPT_US {
                self.previous = Generation::default();
            }
            self.since_us = now_us;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the outcomes of proofs with these ids, used at these times in seconds.
    #[track_caller]
    fn check(most: usize, uses: &[(&str, u64)], expect: &str) {
        let proofs = Proofs::with_room(most);
        let outcome = |(id, at_s): &(&str, u64)| match add(&proofs, 7, id, *at_s) {
            Ok(()) => "ok",
            Err(AuthFailure::ReplayedProof) => "replayed",
            Err(_) => "full",
        };
        let outcomes: Vec<_> = uses.iter().map(outcome).collect();
        assert_eq!(outcomes.join(" "), expect, "{uses:?}");
    }

    fn add(proofs: &Proofs, key: u8, id: &str, at_s: u64) -> Result<(), AuthFailure> {
        let (method, url) = (String::new(), String::new());
        let id = id.to_owned();
        let (token_hash, nonce) = (None, None);
        let proof = Proof { key: [key; 32], method, url, issued_s: 0, id, token_hash, nonce };
        proofs.add(&proof, Now { unix_s: 0, mono_us: at_s * 1_000_000 })
    }

    #[test]
    fn a_proof_is_used_once_and_remembered_as_long_as_it_may_be_accepted() {
        let kept_s = PROOF_AGE_S_MAX + PROOF_AHEAD_S_MAX;
        check(
            PROOFS_MAX,
            &[("a", 0), ("b", 0), ("a", 0), ("a", kept_s)],
            "ok ok replayed replayed",
        );
        check(PROOFS_MAX, &[("a", 50), ("b", 80), ("a", 50 + kept_s)], "ok ok replayed");
        check(PROOFS_MAX, &[("a", 50), ("b", 80), ("a", 500), ("a", 500)], "ok ok ok replayed");
    }

    #[test]
    fn what_cannot_be_remembered_is_rejected_until_others_are_forgotten() {
        let proofs = Proofs::with_room(PROOF_SHARDS);
        let accepted = (0..1_000).filter(|id| add(&proofs, 7, &id.to_string(), 0).is_ok()).count();
        assert_eq!(accepted, PROOF_SHARDS);
        assert_eq!(add(&proofs, 7, "x", 0), Err(AuthFailure::TooManyProofs));
        assert_eq!(add(&proofs, 7, "x", 500), Ok(()));
    }

    #[test]
    fn a_nonce_is_accepted_for_one_more_period() {
        let proofs = Proofs::with_room(1);
        let at = |s: u64| Now { unix_s: s, mono_us: 0 };
        let given = proofs.nonce(at(1_000 * PROOF_NONCE_S));
        assert_eq!(given, proofs.nonce(at(1_001 * PROOF_NONCE_S - 1)));
        assert_eq!(given, proofs.nonce_at(at(1_002 * PROOF_NONCE_S - 1), 1));
        assert_ne!(given, proofs.nonce_at(at(1_002 * PROOF_NONCE_S), 1));
    }

    #[test]
    fn one_key_leaves_room_for_others() {
        let proofs = Proofs::with_room(PROOF_SHARDS * PROOFS_OF_KEY_SHARE);
        let accepted = |key| {
            (0..10_000).filter(|id: &u32| add(&proofs, key, &id.to_string(), 0).is_ok()).count()
        };
        assert_eq!(accepted(1), PROOF_SHARDS);
        assert_eq!(accepted(2), PROOF_SHARDS);
    }
}
