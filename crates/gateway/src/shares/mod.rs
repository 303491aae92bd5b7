//! Shares of a worker: how much of it each client and each API may use at once.
//!
//! A [`gate`] counts places and lets requests wait in turn; each client and each API has a [`share`]. Connections of
//! this process to its own listeners take no place ([`own_connections`]). Dropping a place frees it, so that a request
//! that is cut off holds none.

pub(crate) mod clients;
pub(crate) mod gate;
pub(crate) mod give_way;
pub(crate) mod own_connections;
pub(crate) mod share;
