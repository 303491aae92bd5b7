//! What every other crate may lean on: limits, units, the HTTP method, and the two doors to the
//! outside that pure code must be handed: [`Clock`] and [`Entropy`].
//!
//! Architecture invariant: no tokio, no sockets, no files here, and nothing of ours below.

pub mod clock;
pub mod entropy;
pub mod limits;
pub mod method;
pub mod names;

pub use clock::{Clock, Now, SystemClock};
pub use entropy::{Entropy, SystemEntropy};
pub use method::Method;
