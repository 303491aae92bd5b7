//! Streaming of bodies: from a [`Source`] (the client's request or the upstream's response) through a
//! bounded buffer into a connection, with new framing. No body is held in memory unless a stage asks for it.
//!
//! Usually a head and the complete body that arrived with the peer's head are sent with one write. The
//! rest of a long body between two cleartext sockets is moved within the kernel ([`wire::splice`]).

pub(crate) mod buffer;
mod decoder;
pub(crate) mod held;
pub(crate) mod request_body;
mod sink;
mod source;
pub(crate) mod spares;
mod tap;

pub(crate) use decoder::{BodyReader, Http1Source, Unread};
pub(crate) use sink::{FlowError, OutFraming, Outflow};
pub(crate) use source::{BodyError, Empty, Held, Lend, Source, poll_read};
pub(crate) use tap::{Tap, Tapped};
