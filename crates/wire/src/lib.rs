//! Both sides of a connection: the HTTP/1.1 codec, HTTP/2 made equal to it, TLS, and connecting.
//!
//! Life of a request: **listen** and **forward** of the gateway, and the lab's load generator, stand
//! on this crate. It reads bytes from peers and answers heads, bodies and verdicts; it knows no API,
//! no policy and no configuration file.
//!
//! Architecture invariant: [`http1`] is pure (no tokio, no sockets, no clock); only the drivers
//! beside it do I/O. Bytes from a peer are never indexed, unwrapped or counted unchecked.

#![warn(clippy::indexing_slicing)]
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail by panicking")
)]

pub mod client;
pub mod h2;
pub mod http1;
pub mod splice;
pub mod stream;
pub mod tls;
