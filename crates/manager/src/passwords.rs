//! Hashing and verification of passwords, on threads of their own, a few at a time.

use std::sync::Arc;
use std::time::Duration;

use base::{Entropy, SystemEntropy};
use jose::{PasswordHash, SALT_BYTES};
use tokio::sync::Semaphore;

use crate::limits;

pub(crate) struct Passwords(Arc<Semaphore>);

/// Too many passwords are being verified, or there is not enough memory.
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
        self.run(move || {
            let hash = expected.as_deref().and_then(PasswordHash::parse);
            hash.unwrap_or_else(|| PasswordHash::stand_in([].into_iter()))
                .verify(password.as_bytes())
        })
        .await
    }

    /// The hash of `password` with a new salt.
    pub(crate) async fn hash(&self, password: String) -> Result<String, Busy> {
        self.run(move || hash(&password, &SystemEntropy)).await?.ok_or(Busy)
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Busy> {
        let wait = Duration::from_millis(limits::PASSWORD_WAIT_MS_MAX);
        let permit = tokio::time::timeout(wait, Arc::clone(&self.0).acquire_owned()).await;
        let permit = permit.map_err(|_| Busy)?.map_err(|_| Busy)?;
        let run = move || {
            // Until the end of the work: the request that waits for it may be cancelled.
            let _permit = permit;
            work()
        };
        tokio::task::spawn_blocking(run).await.map_err(|_| Busy)
    }
}

/// The hash of `password` with a new salt. Takes some 20 ms. `None`: there is not enough memory.
pub(crate) fn hash(password: &str, entropy: &dyn Entropy) -> Option<String> {
    let mut salt = [0; SALT_BYTES];
    entropy.fill(&mut salt);
    PasswordHash::create(password.as_bytes(), salt)
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
