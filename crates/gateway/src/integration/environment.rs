//! Values that expressions read outside of the message.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use mediation::{Environment, LogLevel, Memory, Program, PropertyScope};

use crate::artefacts::{Integration, LOG};
use crate::worker::Worker;
use crate::worker::compiled::Live;

/// Values that expressions read outside of the message, and the mediators' log.
#[derive(Clone)]
pub(crate) struct RunEnvironment {
    program: Arc<Program>,
    /// With registry and memory. Policies of APIs have neither.
    pub(super) integration: Option<Arc<Integration>>,
    unix_ms: i64,
    /// Number of the run.
    id: u128,
    /// The limit of one body, decoded or not.
    pub(super) body_bytes_max: usize,
}

impl RunEnvironment {
    pub(super) fn new(
        worker: &Worker,
        live: &Live,
        program: &Arc<Program>,
        of: Option<&Arc<Integration>>,
    ) -> Self {
        let now_us = worker.resources.unix_us(worker.resources.coarse_us());
        let unix_ms = i64::try_from(now_us / 1_000).unwrap_or(i64::MAX);
        let id = worker.next_run_id();
        let body_bytes_max = live.held_body_bytes_max;
        let program = Arc::clone(program);
        Self { program, integration: of.cloned(), unix_ms, id, body_bytes_max }
    }

    pub(super) fn program(&self) -> &Program {
        &self.program
    }

    pub(super) fn shared_program(&self) -> &Arc<Program> {
        &self.program
    }
}

impl Environment for RunEnvironment {
    fn memory(&self) -> Option<&Memory> {
        self.integration.as_ref().map(|integration| &integration.memory)
    }

    fn unix_ms(&self) -> i64 {
        self.unix_ms
    }

    /// A UUID of version 8, whose bits are ours. Source: RFC 9562 section 5.8.
    fn message_id(&self, number: u32) -> Option<Cow<'_, str>> {
        const VERSION: u128 = 0x8 << 76;
        const VARIANT: u128 = 0b10 << 62;
        // The upper half is random, and that of the worker; the lower half counts its runs.
        let id = self.id ^ (u128::from(number) << 80);
        let bits = id & !(0xf << 76) & !(0b11 << 62) | VERSION | VARIANT;
        let part = |shift: u32, digits: u32| (bits >> shift) & ((1 << (4 * digits)) - 1);
        let (a, b, c, d, e) = (part(96, 8), part(80, 4), part(64, 4), part(48, 4), part(0, 12));
        Some(Cow::Owned(format!("urn:uuid:{a:08x}-{b:04x}-{c:04x}-{d:04x}-{e:012x}")))
    }

    fn config(&self, name: &str) -> Option<Cow<'_, str>> {
        self.program.config(name).map(Cow::Borrowed)
    }

    fn registry(&self, path: &str, property: Option<&str>) -> Option<Cow<'_, str>> {
        self.integration.as_ref()?.artefacts.resources.get(path)?.text(property)
    }

    /// Policies of APIs have no variables: their authors need not know the gateway's environment.
    fn variable(&self, scope: PropertyScope, name: &str) -> Option<Cow<'_, str>> {
        self.integration.as_ref()?;
        variable(scope, name)
    }

    fn logs_debug(&self) -> bool {
        tracing::enabled!(target: LOG, tracing::Level::DEBUG)
    }

    fn log(&self, level: LogLevel, line: &str) {
        match level {
            LogLevel::Trace => tracing::trace!(target: LOG, "{line}"),
            LogLevel::Debug => tracing::debug!(target: LOG, "{line}"),
            LogLevel::Info => tracing::info!(target: LOG, "{line}"),
            LogLevel::Warn => tracing::warn!(target: LOG, "{line}"),
            LogLevel::Error => tracing::error!(target: LOG, "{line}"),
        }
    }
}

/// As they were when the first one was read: no later request waits for the lock of the environment.
static VARIABLES: LazyLock<HashMap<String, String>> = LazyLock::new(|| {
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    std::env::vars_os().filter_map(text).collect()
});

/// The value of `$env:NAME` or `$sys:NAME` in artefacts: an environment variable, since the gateway has no other system
/// properties.
#[must_use]
pub fn variable(_: PropertyScope, name: &str) -> Option<Cow<'static, str>> {
    VARIABLES.get(name).map(|value| Cow::Borrowed(&**value))
}
