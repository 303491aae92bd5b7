//! Watches files and key sets, and publishes the snapshots that the gateway serves.
//!
//! Place in the flow: files, JWKS, control plane --> `formats` --> **follow** --> `model::Snapshot` --> gateway.
//! It reads API descriptions, Synapse artefacts, `penstock.toml`, keys and certificates, watches them, and calls back
//! with each [`Change`]. After an invalid change the last valid version keeps serving, and
//! [`Status`] has the diagnostics.
//!
//! Decisions are made in [`catalogue`], [`debounce`] and [`issuers`], which use neither files nor
//! clocks; [`follower`] carries them out.
//!
//! Architecture invariant: never imports the gateway, and nothing here runs while a request waits.

mod catalogue;
mod certificates;
mod configuration;
mod control_plane;
mod debounce;
mod discovery;
mod documents;
mod feed;
mod fetch;
mod follower;
mod issuers;
mod kept;
mod lines;
mod part;
mod revocations;
mod session_key;
mod shared;
mod snapshots;
mod status;
mod sync;
mod tracked;
mod vault;
mod walk;
mod watcher;
mod write;

pub use certificates::{client_auth, server_certificates};
pub use configuration::{
    ConfigurationError, check_settings, defaults, read_pem, read_settings, read_settings_to_serve,
};
pub use documents::{Checked, check, read_artefact};
pub use feed::AskFeed;
pub use fetch::Fetch;
pub use follower::{Change, Follower, Handle, OnUnknownKid, Options, Publish};
pub use status::{Reloads, Status};
pub use vault::AskVault;
pub use write::{write_private, write_public};
