//! Support for end-to-end tests: a gateway, upstreams and clients, on loopback and port 0.
//!
//! A test defines an API ([`api`]), starts a [`Gateway`] in its own process, connects to it as a [`Client`], and
//! plays the [`Upstream`]: manually, where the order of events matters, or by a function of the request.
//!
//! ```ignore
//! use harness::{Gateway, Upstream, api};
//!
//! let upstream = Upstream::manual();
//! let gateway = Gateway::of(api("/shop/1.0").open("GET /*").to(&upstream)).start();
//! let mut client = gateway.connect();
//! client.send("GET /shop/1.0/pets HTTP/1.1\r\nHost: me\r\n\r\n");
//! let mut connection = upstream.accept();
//! assert_eq!(connection.request().line(), "GET /pets HTTP/1.1");
//! connection.send("HTTP/1.1 204 No Content\r\n\r\n");
//! assert_eq!(client.read().status, 204);
//! ```
//!
//! Architecture invariant: nothing here sleeps or measures time. Every wait ends with the event it waits for;
//! [`PATIENCE`] only turns a hang into a failed test.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "only tests use it")]
#![allow(clippy::missing_panics_doc, reason = "a panic is how a test fails")]

mod apis;
mod browser;
mod client;
mod dns;
mod dpop;
mod files;
pub mod frames;
mod gateway;
mod issuer;
mod log;
mod message;
mod process;
mod socket;
mod upstream;

use std::time::{Duration, Instant};

pub use apis::{ApiBuilder, api};
pub use browser::Browser;
pub use client::Client;
pub use dns::NameServer;
pub use dpop::{Proof, ProofKey};
pub use files::Files;
pub use gateway::{Builder, Gateway, artefact, settings};
pub use issuer::{Issuer, Token, now_s};
pub use log::{Observer, observe_log};
pub use message::{Request, Response};
pub use process::{Process, penstock};
pub use socket::{Authority, Identity, Socket};
pub use upstream::{CannedResponse, Upstream, UpstreamConnection};

/// Limit on any single wait of a test. Generous, since no result depends on it.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Asks again and again, until the answer is yes.
#[track_caller]
pub fn wait_until(mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "it did not happen");
        std::thread::yield_now();
    }
}
