//! The decisions on a request's way, one pure module each, in the order of the way.
//!
//! Life of a request: **route -> authenticate -> authorise** -> forward, with **cors** beside them.
//! Each reads what the one before learned as a `model` type, and answers a value or a
//! [`model::Denial`]. What is compiled at load ([`Routes`]) is shared by all workers; what grows
//! while serving ([`TokenCache`]) belongs to one.
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
