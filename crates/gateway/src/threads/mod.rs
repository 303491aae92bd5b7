//! The threads of the gateway: workers, the admin port, and the thread that looks after upstreams.
//!
//! [`runner`] starts a worker and sends it commands; [`inbound`] opens and closes the listeners of inbound endpoints.

pub(crate) mod admin;
pub(crate) mod bind;
pub(crate) mod inbound;
pub(crate) mod runner;
pub(crate) mod upstreams;
