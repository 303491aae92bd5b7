//! Passwords as argon2id hashes in PHC string format, computed on threads of their own, a few at a time.

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

pub(crate) struct Passwords(Semaphore);

/// Too many passwords are being verified.
#[derive(Debug)]
pub(crate) struct Busy;

impl Passwords {
    pub(crate) fn new() -> Self {
        Self(Semaphore::new(limits::PASSWORD_CHECKS_MAX))
    }

    /// Whether `password` has the hash `expected`. `None`, for an unknown user, takes as long as a wrong password.
    pub(crate) async fn verify(
        &self,
        password: String,
        expected: Option<String>,
    ) -> Result<bool, Busy> {
        let wait = Duration::from_millis(limits::PASSWORD_WAIT_MS_MAX);
        let permit = tokio::time::timeout(wait, self.0.acquire()).await.map_err(|_| Busy)?;
        let _permit = permit.map_err(|_| Busy)?;
        let check = move || match expected.as_deref().and_then(parse) {
            Some((salt, expected)) => {
                let computed = compute(&password, &salt);
                computed.is_some_and(|hash| verify_slices_are_equal(&hash, &expected).is_ok())
            }
            None => {
                compute(&password, &[0; SALT_BYTES]);
                false
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
