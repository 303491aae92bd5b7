//! Identity: the credentials in requests, and how the gateway finds out whose they are.
//!
//! Life of a request: route -> **session** -> **authenticate** -> authorise. The step is `pipeline::authenticate`; it
//! takes the credentials of a request from [`credentials`], asks issuers with [`introspect`], and redirects browsers
//! with [`sign_in`].

pub(crate) mod credentials;
pub(crate) mod introspect;
pub(crate) mod outgoing_head;
pub(crate) mod sign_in;
