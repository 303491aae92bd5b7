//! Both sides of a connection: the HTTP/1.1 codec, HTTP/2, TLS, splicing, and the handshake of WebSocket.
//!
//! Used by **listen** and **forward** of the gateway, and by the lab. It knows nothing about APIs, policies or
//! configuration files.
//!
//! Architecture invariant: [`http1`], [`h2`] and [`websocket`] are pure (no tokio, no sockets, no clock); only the
//! other modules do I/O. Bytes from a peer are never subject to indexing, unwrapping or unchecked arithmetic.

#![warn(clippy::indexing_slicing)]
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail by panicking")
)]

pub mod h2;
pub mod http1;
pub mod splice;
pub mod stream;
pub mod tls;
pub mod websocket;
