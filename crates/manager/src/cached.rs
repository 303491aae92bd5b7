//! Documents of other servers that are kept for a while, such as the keys of an issuer.

use std::sync::{Arc, Mutex, PoisonError};

use crate::limits;

pub(crate) struct Cached<T> {
    known: Mutex<Known<T>>,
    /// Held during a read.
    reading: tokio::sync::Mutex<()>,
}

struct Known<T> {
    /// With the time of the read.
    value: Option<(Arc<T>, u64)>,
    /// The last read, successful or not.
    read_s: Option<u64>,
}

impl<T: Send + Sync + 'static> Cached<T> {
    pub(crate) fn new() -> Arc<Self> {
        let known = Mutex::new(Known { value: None, read_s: None });
        Arc::new(Self { known, reading: tokio::sync::Mutex::default() })
    }

    /// The value, which is read again if that was `age_s` ago. If that fails, the last value is kept for up to
    /// [`limits::STALE_S_MAX`], and the log has an error about `what`.
    pub(crate) async fn get<R>(
        self: &Arc<Self>,
        (now_s, age_s): (u64, u64),
        what: &str,
        read: impl FnOnce() -> R,
    ) -> Option<Arc<T>>
    where
        R: Future<Output = Result<T, String>> + Send + 'static,
    {
        if !self.is_current(now_s, age_s) {
            let (cached, what, read) = (Arc::clone(self), what.to_owned(), read());
            // Continues if the client disconnects. Fails if it panics: the cached value stays.
            let _ = tokio::spawn(async move {
                let _reading = cached.reading.lock().await;
                // Unless another request has read it meanwhile.
                if !cached.is_current(now_s, age_s) {
                    cached.put(now_s, &what, read.await);
                }
            })
            .await;
        }
        self.known.lock().unwrap_or_else(PoisonError::into_inner).usable(now_s)
    }

    fn put(&self, now_s: u64, what: &str, read: Result<T, String>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.read_s = Some(now_s);
        match read {
            Ok(value) => known.value = Some((Arc::new(value), now_s)),
            Err(problem) => tracing::error!(problem, "{what} cannot be read"),
        }
    }

    /// Whether the last read was less than `age_s` ago. Without a value, the next one is soon.
    fn is_current(&self, now_s: u64, age_s: u64) -> bool {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let is_usable = known.usable(now_s).is_some();
        let again_s = if is_usable { u64::MAX } else { limits::TRUSTED_KEYS_AGAIN_S };
        let age_s = age_s.min(again_s);
        known.read_s.is_some_and(|read_s| now_s < read_s.saturating_add(age_s))
    }
}

impl<T> Known<T> {
    fn usable(&self, now_s: u64) -> Option<Arc<T>> {
        let (value, read_s) = self.value.as_ref()?;
        (now_s < read_s.saturating_add(limits::STALE_S_MAX)).then(|| Arc::clone(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_last_value_is_kept_for_a_while_if_it_cannot_be_read_again() {
        const AGE_S: u64 = 300;
        const END_S: u64 = limits::STALE_S_MAX;
        let cached = Cached::new();
        for (now_s, read, expect) in [
            (0, Err(()), None),
            (limits::TRUSTED_KEYS_AGAIN_S - 1, Ok("too early"), None),
            (limits::TRUSTED_KEYS_AGAIN_S, Ok("first"), Some("first")),
            (AGE_S, Ok("not read"), Some("first")),
            (AGE_S + limits::TRUSTED_KEYS_AGAIN_S, Err(()), Some("first")),
            (END_S + limits::TRUSTED_KEYS_AGAIN_S - 1, Err(()), Some("first")),
            (END_S + limits::TRUSTED_KEYS_AGAIN_S, Err(()), None),
            (END_S + 3 * limits::TRUSTED_KEYS_AGAIN_S, Ok("second"), Some("second")),
        ] {
            let read = || async move { read.map_err(|()| "the server is down".to_owned()) };
            let found = cached.get((now_s, AGE_S), "a test", read).await;
            assert_eq!(found.as_deref().copied(), expect, "{now_s}");
        }
    }
}
