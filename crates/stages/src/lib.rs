//! The decisions about a request, one pure module each.
//!
//! Life of a request: **route -> authenticate -> authorise -> throttle** -> forward; **cors** for cross-origin
//! requests. Each stage takes the results of earlier ones as `model` types, and returns a value or a [`model::Denial`].
//! [`Routes`], [`Subscribers`] and [`PlanTable`] are compiled at load and shared by all workers; each worker has its
//! own [`TokenCache`] and [`throttle::WorkerMeters`].
//!
//! Architecture invariant: no tokio, no clock, no I/O, no log; time and entropy are arguments, and
//! no stage imports another stage.

mod hash;
mod plans;
#[cfg(any(test, feature = "fuzzing"))]
mod samples;
mod subscribers;

pub mod authenticate;
pub mod authorise;
pub mod cors;
#[cfg(any(test, feature = "fuzzing"))]
pub mod properties;
pub mod route;
pub mod sign_in;
pub mod throttle;

pub use authenticate::{Identity, Question, TokenCache};
pub use model::MethodSet;
pub use plans::PlanTable;
pub use route::{ApiRoutes, Found, NotFound, Routes};
pub use subscribers::{Credential, Subscriber, Subscribers};
