//! Authentication of the gateway at upstreams: stored credentials, tokens, HTTP Digest, signatures of AWS.
//!
//! Life of a request: mediate -> **authenticate at the upstream** -> forward. The tokens and challenges of a worker are
//! in [`crate::worker`].

mod aws;
pub(crate) mod backend_auth;
mod digest;
