//! The gateway's own requests, such as those to an issuer: documents and forms.
//!
//! They go through [`crate::forward`], as the requests of clients do. `identity`, `upstream_auth` and `integration`
//! send them.

pub(crate) mod fetch;
pub(crate) mod form_post;
pub(crate) mod own_body;
