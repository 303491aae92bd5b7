//! Follows files and key sets, and tells what the gateway shall serve from now on.
//!
//! Place in the flow: files | JWKS --> `formats` --> `model::Snapshot` --> **follow** --> whoever is
//! told. It reads the API descriptions, `penstock.toml`, keys and certificates, watches them, and
//! calls back with each new [`Change`]. A broken change keeps the last good version serving; what is
//! wrong with it stands on the [`Status`].
//!
//! Decisions are made in [`catalogue`], [`settle`] and [`issuers`], which know neither files nor
//! clocks; [`follower`] does what they say.
//!
//! Architecture invariant: never imports the gateway, and nothing here waits on a request's path.

mod catalogue;
mod certificates;
mod configuration;
mod documents;
mod fetch;
mod follower;
mod issuers;
mod settle;
mod status;
mod tracked;
mod walk;
mod watcher;
mod write;

pub use configuration::{ConfigurationError, check_settings, defaults, read_settings};
pub use documents::{Checked, check};
pub use fetch::{Fetch, https_fetch};
pub use follower::{Change, Follower, Handle, OnUnknownKid, Options, Publish};
pub use status::{Reloads, Status};
pub use write::{write_private, write_public};
