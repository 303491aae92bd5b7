//! Settings of the mediator `cache`.

use super::{Pattern, Scene};
use crate::error::Failure;
use crate::limits;
use crate::message::{Message, PropertyScope};

/// The responses that a `cache` keeps, and how long.
#[derive(Debug)]
pub(crate) struct CachePolicy {
    pub(crate) timeout_ms: i64,
    pub(crate) body_bytes_max: usize,
    pub(crate) count_max: usize,
    /// Empty: all.
    pub(crate) methods: Vec<String>,
    pub(crate) excluded: Excluded,
    pub(crate) statuses: Pattern,
    /// Whether responses say by `Cache-Control` how long they are kept.
    pub(crate) by_cache_control: bool,
    pub(crate) age: bool,
}

/// Fields of a request that do not count when it is compared with others.
#[derive(Debug)]
pub(crate) enum Excluded {
    All,
    /// In lower case.
    These(Vec<String>),
    AllBut(Vec<String>),
}

/// Fields that differ in requests that are the same. Source: Synapse's `HttpRequestHashGenerator`.
const VOLATILE: &[&str] = &["date", "user-agent"];

impl CachePolicy {
    /// The key of the request. `None`: its responses are not kept.
    pub(crate) fn key(
        &self,
        scene: &Scene<'_>,
        message: &Message,
    ) -> Result<Option<String>, Failure> {
        let axis2 = |name| scene.view(message).text_property(PropertyScope::Axis2, name);
        let method = axis2("HTTP_METHOD").unwrap_or_default();
        if !self.methods.is_empty() && !self.methods.contains(&method.to_ascii_uppercase()) {
            return Ok(None);
        }
        let mut key = format!("{method} {}\n", axis2("TransportInURL").unwrap_or_default());
        let counts = |name: &String| match &self.excluded {
            Excluded::All => false,
            Excluded::These(names) => !VOLATILE.contains(&&**name) && !names.contains(name),
            Excluded::AllBut(names) => names.contains(name),
        };
        let mut fields = Vec::new();
        message.head.fields(&mut |name, value| {
            let name = name.to_ascii_lowercase();
            if counts(&name) {
                fields.push(format!("{name}: {value}\n"));
            }
        });
        fields.sort();
        key.extend(fields);
        let body = message.body.bytes(scene.budget)?.unwrap_or_default();
        if !body.is_empty() {
            let Ok(body) = std::str::from_utf8(&body) else { return Ok(None) };
            if body.len() > limits::CACHE_KEY_BYTES_MAX {
                return Ok(None);
            }
            key.push('\n');
            key.push_str(body);
        }
        scene.budget.charge_memory(key.len())?;
        scene.budget.charge_reading(key.len())?;
        Ok((key.len() <= limits::CACHE_KEY_BYTES_MAX).then_some(key))
    }

    /// How long a response is kept, in milliseconds. `None`: not at all.
    pub(crate) fn lasts_ms(&self, message: &Message) -> Option<i64> {
        let mut lasts_ms = self.timeout_ms;
        // The next client must not get the cookies of the first.
        if message.head.field("Set-Cookie").is_some() {
            return None;
        }
        if self.by_cache_control {
            let control = message.head.field("Cache-Control").unwrap_or_default();
            for directive in control.split(',') {
                let (name, value) = directive.split_once('=').unwrap_or((directive, ""));
                match name.trim().to_ascii_lowercase().as_str() {
                    "no-store" | "no-cache" | "private" => return None,
                    "max-age" => {
                        let seconds: i64 = value.trim().trim_matches('"').parse().ok()?;
                        lasts_ms = lasts_ms.min(seconds.saturating_mul(1000));
                    }
                    _ => {}
                }
            }
        }
        Some(lasts_ms).filter(|lasts_ms| *lasts_ms > 0)
    }
}
