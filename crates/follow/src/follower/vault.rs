//! Follows secrets in Vault: starts rounds of requests, and reads the configuration again with the new secrets.

use std::path::Path;
use std::sync::Arc;
use std::thread;

use model::{Diagnostic, Severity};

use super::{Follower, Message};
use crate::vault::{self, Outcome};

/// The key of Vault in the status.
const VAULT: &str = "vault";

impl Follower {
    pub(super) fn configure_vault(&mut self) {
        self.vault.configure(self.settings.vault.as_ref());
        if self.settings.vault.is_none() {
            self.post(Path::new(VAULT), Vec::new());
        }
    }

    /// Starts the round that is due, on a short-lived thread.
    pub(super) fn ask_vault(&mut self) {
        let Some(job) = self.vault.pop_due(self.clock.now().mono_us) else { return };
        let (ask, sender) = (Arc::clone(&self.ask_vault), self.sender.clone());
        let failed = job.failed("cannot start a thread".to_owned());
        let spawned = thread::Builder::new().name("vault".to_owned()).spawn(move || {
            // Fails if the follower has stopped.
            drop(sender.send(Message::Vault(vault::round(&ask, job))));
        });
        if spawned.is_err() {
            drop(self.sender.send(Message::Vault(failed)));
        }
    }

    /// Handles the end of a round. Returns whether any secret has changed.
    pub(super) fn on_vault(&mut self, outcome: Outcome) -> bool {
        let found = self.vault.conclude(outcome, self.clock.now());
        let diagnostic = |problem| Diagnostic {
            severity: Severity::Error,
            file: VAULT.into(),
            place: None,
            message: format!("secrets in Vault: {problem}"),
            help: Some("those that were read before stay in use".to_owned()),
        };
        if !found.problems.is_empty() {
            self.status.count_failure();
        }
        self.post(Path::new(VAULT), found.problems.into_iter().map(diagnostic).collect());
        found.changed
    }
}
