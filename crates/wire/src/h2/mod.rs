//! HTTP/2 towards clients, by the h2 crate: a second way in to the same gateway.
//!
//! Life of a request: before **listen** reads a head. [`Connection`] holds the protocol; a request's
//! head is rendered as HTTP/1.1 ([`head_bytes`]) and parsed by [`crate::http1`], so that it passes
//! the same validation and becomes the same bytes and offsets. What goes back is the HTTP/1.1
//! answer, translated ([`response_parts`], [`trailer_map`]). Bodies travel as DATA ([`Incoming`],
//! [`Outgoing`]), never with chunk framing.
//!
//! A connection is driven by its `accept` alone: whoever stops calling it stops every stream of it.
//! The worker therefore answers each request in a task of its own.
//!
//! Architecture invariant: no stage learns which protocol a request came by, and nothing grows with
//! what a client sends beyond the limits of `base::limits`.

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
pub use response::{response_parts, send_continue, trailer_map};
