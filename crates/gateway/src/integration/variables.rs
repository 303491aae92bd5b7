//! The environment variables that expressions read.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

use mediation::PropertyScope;

/// As they were when the first one was read: no later request waits for the lock of the environment.
static VARIABLES: LazyLock<HashMap<String, String>> = LazyLock::new(|| {
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    std::env::vars_os().filter_map(text).collect()
});

/// What `$env:NAME` and `$sys:NAME` are in artefacts: an environment variable, since there are no other properties of a
/// system here.
#[must_use]
pub fn variable(_: PropertyScope, name: &str) -> Option<Cow<'static, str>> {
    VARIABLES.get(name).map(|value| Cow::Borrowed(&**value))
}
