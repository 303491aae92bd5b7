//! The log of the gateways in this process, for tests that act when something is logged.

use std::fmt::Debug;
use std::sync::Once;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Called with the name and the value of each field of an event, on the thread that logs it.
pub type Observer = fn(name: &str, value: &str);

/// Calls `observer` for all events of `level` and above from now on. A process has one observer: the first.
pub fn observe_log(level: Level, observer: Observer) {
    static LOG: Once = Once::new();
    LOG.call_once(|| {
        tracing::subscriber::set_global_default(Observed { level, observer }).unwrap();
    });
}

struct Observed {
    level: Level,
    observer: Observer,
}

impl Subscriber for Observed {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.level
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut Reader(self.observer));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Reader(Observer);

impl Visit for Reader {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0(field.name(), value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0(field.name(), &format!("{value:?}"));
    }
}
