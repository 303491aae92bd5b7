//! HTTP/2 for clients, on top of the h2 crate.
//!
//! Used by **listen**. [`Connection`] implements the protocol. A request's head is rendered as HTTP/1.1
//! ([`head_bytes`]) and parsed by [`crate::http1`], so that it passes the same validation and has the same
//! representation. A response is converted from HTTP/1.1 ([`response_head`], [`trailer_map`]). Bodies are
//! DATA frames without chunk framing ([`Incoming`], [`Outgoing`]).
//!
//! A connection makes progress only while `accept` is polled. Therefore each request is served by a task of
//! its own.
//!
//! Architecture invariant: no stage knows a request's protocol, and what a client sends is limited by
//! `base::limits`.

mod body;
mod connection;
mod preface;
mod request;
mod response;
#[cfg(test)]
mod tests;

pub use ::h2::server::SendResponse;
pub use ::h2::{Error, Reason, RecvStream, SendStream};

pub use body::{Incoming, Outgoing};
pub use connection::{Accepted, Connection};
pub use preface::{PREFACE, PrefaceMatch, Rewind, match_preface};
pub use request::{head_bytes, trailer_lines};
pub use response::{response_head, send_continue, trailer_map};
