//! The decisions about a request, one pure module each.
//!
//! Life of a request: **route -> authenticate -> authorise** -> forward; **cors** for cross-origin
//! requests. Each stage takes the results of earlier ones as `model` types, and returns a value or a
//! [`model::Denial`]. [`Routes`] are compiled at load and shared by all workers; each worker has its own
//! [`TokenCache`].
//!
//! Architecture invariant: no tokio, no clock, no I/O, no log; time and entropy are arguments, and
//! no stage imports another stage.

mod hash;
#[cfg(any(test, feature = "fuzzing"))]
mod samples;

pub mod authenticate;
pub mod authorise;
pub mod cors;
#[cfg(any(test, feature = "fuzzing"))]
pub mod properties;
pub mod route;

pub use authenticate::{Identity, TokenCache};
pub use model::MethodSet;
pub use route::{ApiRoutes, Found, NotFound, Routes};
