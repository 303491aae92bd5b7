//! A panic ends what it happened in, and nothing else. What panics is the test's own log: a worker's
//! task writes into it when a backend fails.

use std::sync::Once;

use h2::Reason;
use harness::{Gateway, Upstream, api};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::caller::Caller;

/// The API of which a line in the log panics.
const ACCIDENT: &str = "accident";

struct Fragile;

impl Subscriber for Fragile {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut Reader);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Reader;

impl Visit for Reader {
    fn record_str(&mut self, field: &Field, value: &str) {
        assert!(field.name() != "api" || value != ACCIDENT, "this panic is part of a test");
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

/// A gateway with one worker, on which a request to `/accident` panics.
fn gateway(good: &Upstream, refusing: &Upstream) -> Gateway {
    static LOG: Once = Once::new();
    LOG.call_once(|| tracing::subscriber::set_global_default(Fragile).unwrap());
    Gateway::of(api("/a").open("POST /*").to(good))
        .api(api(&format!("/{ACCIDENT}")).open("GET /*").to(refusing))
        .start()
}

#[test]
fn a_panic_ends_its_stream_and_no_other() {
    let (good, refusing) = (Upstream::echo(), Upstream::refusing());
    let gateway = gateway(&good, &refusing);
    let caller = Caller::connect(&gateway);
    let mut kept = caller.open("POST /a/b", &[]);
    kept.send("one ");
    let broken = caller.start(caller.request("GET /accident/b", &[]), true).unwrap();
    assert_eq!(broken.failure(), Some(Reason::CANCEL));
    kept.send("two").end();
    assert_eq!(kept.answer().text(), "one two");
    assert_eq!(caller.ask_with("POST /a/b", &[], "three").text(), "three");
    drop(caller);
    assert!(gateway.drain(), "nothing of the panic is left under way");
}

#[test]
fn a_panic_ends_its_connection_and_the_worker_goes_on() {
    let (good, refusing) = (Upstream::echo(), Upstream::refusing());
    let gateway = gateway(&good, &refusing);
    let (mut kept, mut broken) = (gateway.connect(), gateway.connect());
    assert_eq!(kept.ask_with("POST /a/b", "", "before").text(), "before");
    broken.send("GET /accident/b HTTP/1.1\r\nHost: me\r\n\r\n").expect_close();
    assert_eq!(kept.ask_with("POST /a/b", "", "after").text(), "after");
    gateway.wait_for_metric("penstock_connections", "", 1);
    drop(kept);
    assert!(gateway.drain(), "nothing of the panic is left under way");
}
