//! A panic ends its own stream or connection and nothing else. The test's observer of the log panics when a worker
//! logs a failed upstream.

use h2::Reason;
use harness::{Gateway, Upstream, api, observe_log};
use tracing::Level;

use crate::client::Http2Client;

/// The API whose log lines panic.
const ACCIDENT: &str = "accident";

/// A gateway with one worker, on which a request to `/accident` panics.
fn gateway(good: &Upstream, refusing: &Upstream) -> Gateway {
    observe_log(Level::TRACE, |name, value| {
        assert!(name != "api" || value != ACCIDENT, "this panic is part of a test");
    });
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
