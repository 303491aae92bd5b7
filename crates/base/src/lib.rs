//! Shared by the crates of the data plane: limits, the HTTP method, blocks of addresses, and the traits [`Clock`] and
//! [`Entropy`], through which pure code gets time and randomness.
//!
//! Architecture invariant: no tokio, no sockets, no files, no dependency on another crate of the workspace.

pub mod addresses;
pub mod clock;
pub mod entropy;
pub mod limits;
pub mod method;
pub mod names;

pub use clock::{Clock, Now, SystemClock};
pub use entropy::{Entropy, SystemEntropy};
pub use method::Method;
