//! Follows the revocations of issuers: requests them, adds them to the snapshot, and stores them on disk.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use jose::RevocationPage;
use model::{Diagnostic, Severity};

use super::{Follower, Message};
use crate::kept::Kept;
use crate::revocations::{Asked, Followed};

impl Follower {
    /// Applies the issuers of the settings. Revocations of unchanged issuers stay in use.
    pub(super) fn configure_revocations(&mut self) {
        let mut before = std::mem::take(&mut self.followed);
        let issuers = self.settings.issuers.clone();
        for settings in issuers.iter().filter(|issuer| issuer.revocations.is_some()) {
            let same = before.iter().position(|(known, _)| known.is_of(settings));
            let following = match same {
                Some(index) => Some(before.swap_remove(index)),
                None => {
                    let mut kept = Kept::of(&self.settings.gateway.data, &settings.iss);
                    let read = kept.read();
                    let known = read.unwrap_or_else(|error| {
                        self.post_revocations(&settings.name, Some(not_kept(&kept, &error)));
                        Default::default()
                    });
                    if let Some(damage) = kept.damage() {
                        self.post_revocations(&settings.name, Some(damage));
                    }
                    let followed = Followed::new(settings, known, self.clock.now());
                    followed.map(|followed| (followed, kept))
                }
            };
            if let Some((followed, kept)) = following {
                self.issuers.revoke(&followed.iss, &followed.revoked);
                self.followed.push((followed, kept));
            }
        }
        for (gone, _) in before {
            self.post_revocations(&gone.name, None);
        }
    }

    /// Starts the requests that are due.
    pub(super) fn ask_for_revocations(&mut self) {
        let now_us = self.clock.now().mono_us;
        for (followed, _) in &mut self.followed {
            let (issuer, sender) =
                ((followed.iss.clone(), followed.next.from.clone()), self.sender.clone());
            followed.next.ask(&self.ask_feed, false, now_us, move |result| {
                let asked = Asked { issuer: issuer.clone(), result };
                // Fails if the follower has stopped.
                drop(sender.send(Message::Revocations(asked)));
            });
        }
    }

    /// Handles a response. Calls `publish` if the revoked tokens have changed, before writing to disk.
    pub(super) fn revoked(&mut self, asked: Asked, publish: impl FnOnce(&mut Self)) {
        let Some(index) = self.followed.iter().position(|(one, _)| one.has_asked(&asked)) else {
            return;
        };
        let Some((followed, _)) = self.followed.get_mut(index) else { return };
        let concluded = followed.conclude(asked.result, self.clock.now());
        let (name, iss) = (followed.name.clone(), followed.iss.clone());
        let (page, problem) = match concluded {
            Ok(changed) => {
                if changed.revoked {
                    let revoked = Arc::clone(&followed.revoked);
                    self.issuers.revoke(&iss, &revoked);
                    publish(self);
                }
                (changed.page, None)
            }
            Err(problem) => (None, Some(problem)),
        };
        let problem = problem.or_else(|| self.keep(index, page));
        self.post_revocations(&name, problem);
    }

    /// Writes `page` to disk, and the pages that could not be written before. Returns the problem, if any.
    fn keep(&mut self, index: usize, page: Option<RevocationPage>) -> Option<String> {
        let (followed, kept) = self.followed.get_mut(index)?;
        let known = RevocationPage { revision: followed.next.revision, revoked: Vec::new() };
        let page = page.or_else(|| kept.lacks_some().then_some(known))?;
        let failed = kept.add(&page, &followed.revoked).err()?;
        Some(not_kept(kept, &failed))
    }

    fn post_revocations(&self, name: &str, problem: Option<String>) {
        let place = PathBuf::from("issuer").join(name).join("revocations");
        let diagnostic = problem.map(|problem| Diagnostic {
            severity: Severity::Error,
            file: place.clone(),
            place: None,
            message: format!("revocations of issuer `{name}`: {problem}"),
            help: Some("tokens that are revoked meanwhile are accepted".to_owned()),
        });
        if diagnostic.is_some() {
            self.status.count_failure();
        }
        self.post(&place, diagnostic.into_iter().collect());
    }
}

fn not_kept(kept: &Kept, error: &io::Error) -> String {
    let file = kept.file().display();
    format!("{file}: {error}; a restart forgets them while the issuer is down")
}
