//! Documents of other servers that are kept for a while, such as the keys of an issuer.

use std::sync::{Arc, Mutex, PoisonError};

use crate::limits;

pub(crate) struct Cached<T> {
    known: Mutex<Known<T>>,
    /// Held during a read.
    reading: tokio::sync::Mutex<()>,
}

struct Known<T> {
    value: Option<Arc<T>>,
    /// The last read, successful or not.
    read_s: Option<u64>,
}

impl<T: Send + Sync + 'static> Cached<T> {
    pub(crate) fn new() -> Arc<Self> {
        let known = Mutex::new(Known { value: None, read_s: None });
        Arc::new(Self { known, reading: tokio::sync::Mutex::default() })
    }

    /// The value, which is read again if that was `age_s` ago. If that fails, the last value is kept, and the log has an
    /// error about `what`.
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
            // Continues if the client disconnects. Fails if it panics: what is known stays.
            let _ = tokio::spawn(async move {
                let _reading = cached.reading.lock().await;
                // Unless another request has read it meanwhile.
                if !cached.is_current(now_s, age_s) {
                    cached.put(now_s, &what, read.await);
                }
            })
            .await;
        }
        self.known.lock().unwrap_or_else(PoisonError::into_inner).value.clone()
    }

    fn put(&self, now_s: u64, what: &str, read: Result<T, String>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.read_s = Some(now_s);
        match read {
            Ok(value) => known.value = Some(Arc::new(value)),
            Err(problem) => tracing::error!(problem, "{what} cannot be read"),
        }
    }

    /// Whether the last read was less than `age_s` ago. Without a value, the next one is soon.
    fn is_current(&self, now_s: u64, age_s: u64) -> bool {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let again_s = if known.value.is_some() { u64::MAX } else { limits::TRUSTED_KEYS_AGAIN_S };
        let age_s = age_s.min(again_s);
        known.read_s.is_some_and(|read_s| now_s < read_s.saturating_add(age_s))
    }
}
