//! Passwords as argon2id hashes in PHC string format, computed on threads of their own, a few at a time.

use std::sync::Arc;
use std::time::Duration;

use argon2::{Algorithm, Argon2, Params, Version};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use base::Entropy;
use base64::Engine;
use base64::prelude::BASE64_STANDARD_NO_PAD;
use tokio::sync::Semaphore;

use crate::limits;

/// Memory in KiB, passes and lanes. Source: OWASP's password storage cheat sheet, argon2id.
const COST: (u32, u32, u32) = (19_456, 2, 1);
const SALT_BYTES: usize = 16;
const HASH_BYTES: usize = 32;

pub(crate) struct Passwords(Arc<Semaphore>);

/// Too many passwords are being verified.
#[derive(Debug)]
pub(crate) struct Busy;

impl Passwords {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(limits::PASSWORD_CHECKS_MAX)))
    }

    /// Whether `password` has the hash `expected`. `None`, for an unknown user, takes as long as a wrong password.
    pub(crate) async fn verify(
        &self,
        password: String,
        expected: Option<String>,
    ) -> Result<bool, Busy> {
        let wait = Duration::from_millis(limits::PASSWORD_WAIT_MS_MAX);
        let permit = tokio::time::timeout(wait, Arc::clone(&self.0).acquire_owned()).await;
        let permit = permit.map_err(|_| Busy)?.map_err(|_| Busy)?;
        let check = move || {
            // Until the end of the work: the request that waits for it may be cancelled.
            let _permit = permit;
            match expected.as_deref().and_then(parse) {
                Some((salt, expected)) => {
                    let computed = compute(&password, &salt);
                    computed.is_some_and(|hash| verify_slices_are_equal(&hash, &expected).is_ok())
                }
                None => {
                    compute(&password, &[0; SALT_BYTES]);
                    false
                }
            }
        };
        tokio::task::spawn_blocking(check).await.map_err(|_| Busy)
    }
}

/// The hash of `password` with a new salt. Takes some 20 ms. `None`: there is not enough memory.
pub(crate) fn hash(password: &str, entropy: &dyn Entropy) -> Option<String> {
    let mut salt = [0; SALT_BYTES];
    entropy.fill(&mut salt);
    let hash = compute(password, &salt)?;
    let encode = |bytes: &[u8]| BASE64_STANDARD_NO_PAD.encode(bytes);
    Some(format!("{}{}${}", prefix(), encode(&salt), encode(&hash)))
}

/// What precedes the salt.
fn prefix() -> String {
    let (memory, passes, lanes) = COST;
    format!("$argon2id$v=19$m={memory},t={passes},p={lanes}$")
}

/// Salt and hash. `None` for another algorithm or other costs than [`COST`], the only ones that were ever written.
fn parse(phc: &str) -> Option<(Vec<u8>, Vec<u8>)> {
    let (salt, hash) = phc.strip_prefix(&prefix())?.split_once('$')?;
    let decode = |text| BASE64_STANDARD_NO_PAD.decode(text).ok();
    Some((decode(salt)?, decode(hash)?))
}

fn compute(password: &str, salt: &[u8]) -> Option<[u8; HASH_BYTES]> {
    let (memory, passes, lanes) = COST;
    let params = Params::new(memory, passes, lanes, Some(HASH_BYTES)).ok()?;
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let mut hash = [0; HASH_BYTES];
    argon2.hash_password_into(password.as_bytes(), salt, &mut hash).ok()?;
    Some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_cancelled_verification_occupies_its_place_until_it_ends() {
        let passwords = Passwords::new();
        for _ in 0..limits::PASSWORD_CHECKS_MAX {
            let mut verify = Box::pin(passwords.verify("guess".to_owned(), None));
            // Polled once, it has begun; then its request is cancelled.
            let begun = std::future::poll_fn(|context| {
                std::task::Poll::Ready(verify.as_mut().poll(context).is_pending())
            });
            assert!(begun.await);
        }
        assert_eq!(passwords.0.available_permits(), 0);
        assert!(matches!(passwords.verify("x".to_owned(), None).await, Ok(false)));
        let most = u32::try_from(limits::PASSWORD_CHECKS_MAX).unwrap_or(0);
        assert!(passwords.0.acquire_many(most).await.is_ok(), "all end");
    }
}
