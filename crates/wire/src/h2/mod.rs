//! HTTP/2: bytes in, events and bytes to be written out. No sockets, no clock.
//!
//! The client's side is [`client`]; the rest of this page is about the server's, used by **listen**. [`Connection`]
//! implements the protocol (RFC 9113) and HPACK (RFC 7541). A request's head is written as HTTP/1.1 and parsed by
//! [`crate::http1`], so that it passes the same validation and has the same representation. A response's head is
//! encoded field by field ([`head_block`]). Bodies are DATA frames without chunk framing.
//!
//! Each stream has a slot, a small number that its handler uses. `base::limits` bounds the cost of a client: open
//! streams, heads, unread payload, unwritten output, resets, and frames without payload ([`budget`]).
//!
//! Architecture invariant: the result depends only on the bytes, never on how they were split into reads, and no stage
//! knows a request's protocol.

mod budget;
pub mod client;
mod connection;
mod frame;
mod hpack;
mod preface;
#[doc(hidden)]
#[cfg(any(test, feature = "fuzzing"))]
pub mod properties;
mod receive;
mod request;
mod send;
mod streams;
#[cfg(test)]
mod tests;

pub use connection::{Connection, Event, Step};
pub use frame::Reason;
pub use preface::{PREFACE, PrefaceMatch, match_preface};
pub use send::{head_block, trailer_block};
pub use streams::SLOTS;
