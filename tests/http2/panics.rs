//! A panic ends its own stream or connection and nothing else. The test's log subscriber panics when a worker logs
//! a failed upstream.

use std::sync::Once;

use h2::Reason;
use harness::{Gateway, Upstream, api};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::client::Http2Client;

/// The API whose log lines panic.
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
    let client = Http2Client::connect(&gateway);
    let mut kept = client.open("POST /a/b", &[]);
    kept.send("one ");
    let broken = client.start(client.request("GET /accident/b", &[]), true).unwrap();
    assert_eq!(broken.failure(), Some(Reason::CANCEL));
    kept.send("two").end();
    assert_eq!(kept.response().text(), "one two");
    assert_eq!(client.fetch_with_body("POST /a/b", &[], "three").text(), "three");
    drop(client);
    assert!(gateway.drain(), "the panic leaves no exchange in progress");
}

#[test]
fn a_panic_ends_its_connection_and_not_the_worker() {
    let (good, refusing) = (Upstream::echo(), Upstream::refusing());
    let gateway = gateway(&good, &refusing);
    let (mut kept, mut broken) = (gateway.connect(), gateway.connect());
    assert_eq!(kept.fetch_with_body("POST /a/b", "", "before").text(), "before");
    broken.send("GET /accident/b HTTP/1.1\r\nHost: me\r\n\r\n").expect_close();
    assert_eq!(kept.fetch_with_body("POST /a/b", "", "after").text(), "after");
    gateway.wait_for_metric("penstock_connections", "", 1);
    drop(kept);
    assert!(gateway.drain(), "the panic leaves no exchange in progress");
}
