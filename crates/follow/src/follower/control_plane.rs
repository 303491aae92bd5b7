//! Follows the applications of the control plane: asks, applies what is new, and keeps it on disk.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use formats::declarative::{ApplicationPage, PublishedApplication, read_published};
use model::{Diagnostic, Severity};

use super::apis::{BATCH_FILES, in_parallel};
use super::{Follower, Message};
use crate::catalogue::{Applied, Found};
use crate::configuration::defaults;
use crate::control_plane::{ControlPlane, Heard, Log};
use crate::part::Content;

impl Follower {
    /// Applies the setting, and reads what is kept of that control plane, of which each application names plans.
    pub(super) fn configure_control_plane(&mut self) {
        let wanted = self.settings.gateway.control_plane.clone();
        let is_other = |one: &mut ControlPlane| Some(&one.next.from) != wanted.as_ref();
        if let Some(before) = self.control_plane.take_if(is_other) {
            let files = self.catalogue.files().filter(|file| before.has(file)).cloned();
            let files = files.collect();
            self.remove_applications(files);
            self.post_control_plane(None);
        }
        let Some(from) = wanted else { return };
        let (data, now) = (&self.settings.gateway.data, self.clock.now());
        let is_known = self.control_plane.is_some();
        self.control_plane.get_or_insert_with(|| ControlPlane::new(from, data, now));
        let read = self.read_kept();
        let problem = read.as_ref().err().map(|error| self.not_kept(error));
        if let Some(one) = &mut self.control_plane
            && (!is_known || one.log.check().is_err())
        {
            one.next.revision = read.unwrap_or(0);
        }
        if problem.is_some() {
            self.post_control_plane(problem);
        }
    }

    /// Applies what is kept on disk. Returns the number up to which all is known.
    fn read_kept(&mut self) -> io::Result<u64> {
        let Some(one) = &self.control_plane else { return Ok(0) };
        let mut log = Log::of(one.log.folder(), &one.next.from.url);
        let mut batch = Vec::new();
        let revision = log.read(|application| {
            batch.push(application);
            if batch.len() >= BATCH_FILES {
                self.apply_applications(&std::mem::take(&mut batch));
            }
        })?;
        self.apply_applications(&batch);
        if let Some(one) = &mut self.control_plane {
            log.needed = self.catalogue.files().filter(|file| one.has(file)).count();
            one.log = log;
        }
        Ok(revision)
    }

    /// Starts the request that is due.
    pub(super) fn ask_control_plane(&mut self) {
        let Some(one) = &mut self.control_plane else { return };
        let (from, sender) = (one.next.from.clone(), self.sender.clone());
        let now_us = self.clock.now().mono_us;
        one.next.ask(&self.ask_feed, one.full.is_some(), now_us, move |result| {
            // Fails if the follower has stopped.
            drop(sender.send(Message::Applications(Heard { from: from.clone(), result })));
        });
    }

    /// Handles a response. `publish` is called if there are other applications than before, and the disk waits for it.
    pub(super) fn heard(&mut self, heard: Heard, publish: impl FnOnce(&mut Self)) {
        let now = self.clock.now();
        let asked = |one: &&mut ControlPlane| one.next.from == heard.from && one.next.is_asking();
        let Some(one) = self.control_plane.as_mut().filter(asked) else { return };
        let page = heard.result.and_then(|response| {
            let page = serde_json::from_slice::<ApplicationPage>(&response);
            page.map_err(|error| format!("the response is not one of Penstock: {error}"))
        });
        one.next.schedule(page.is_ok(), now);
        let page = match page {
            Ok(page) => page,
            Err(problem) => return self.post_control_plane(Some(problem)),
        };
        if page.more {
            one.next.hurry(now);
        }
        let is_new = page.reset || page.more || !page.applications.is_empty();
        let is_new = is_new || page.revision != one.next.revision;
        one.next.revision = page.revision;
        self.take_page(&page);
        let Some(one) = &mut self.control_plane else { return };
        if !page.more && std::mem::take(&mut one.changed) {
            tracing::info!(
                revision = page.revision,
                last_response = page.applications.len(),
                "applications of the control plane loaded"
            );
            publish(self);
        }
        let Some(one) = &mut self.control_plane else { return };
        let kept = if is_new { one.log.add(&page) } else { one.log.check() };
        if one.log.is_outdated() {
            one.next.revision = 0;
        }
        let problem = kept.err().map(|error| self.not_kept(&error));
        self.post_control_plane(problem);
    }

    /// Applies a response. The last one of a transfer of all applications ends those that did not come.
    fn take_page(&mut self, page: &ApplicationPage) {
        if let Some(one) = &mut self.control_plane {
            if page.reset {
                one.full = Some(HashSet::new());
            }
            let files: Vec<_> = page.applications.iter().map(|app| one.file(&app.name)).collect();
            one.full.iter_mut().for_each(|full| full.extend(files.iter().cloned()));
        }
        let mut changed = self.apply_applications(&page.applications).changed;
        if let Some(one) = &mut self.control_plane
            && !page.more
            && let Some(full) = one.full.take()
        {
            let gone = |file: &&Arc<Path>| one.has(file) && !full.contains(*file);
            let gone = self.catalogue.files().filter(gone).cloned().collect();
            changed |= self.remove_applications(gone);
        }
        if let Some(one) = &mut self.control_plane {
            one.changed |= changed;
        }
    }

    fn apply_applications(&mut self, applications: &[PublishedApplication]) -> Applied {
        let Some(one) = &self.control_plane else { return Applied::default() };
        let (plans, shared) = (defaults(&self.settings).plans, &self.shared);
        let changes = in_parallel(applications, |published: &PublishedApplication| {
            let file = one.file(&published.name);
            let found = match &published.application {
                Some(document) => {
                    let read = read_published(&file, &published.name, document, &plans);
                    let mut content = Content::of_application(read);
                    content.share(shared);
                    Found::Read(Box::new(content))
                }
                None => Found::Removed,
            };
            (file, found)
        });
        self.apply(changes)
    }

    /// Returns whether there were any.
    fn remove_applications(&mut self, files: Vec<Arc<Path>>) -> bool {
        self.apply(files.into_iter().map(|file| (file, Found::Removed)).collect()).changed
    }

    fn apply(&mut self, changes: Vec<(Arc<Path>, Found)>) -> Applied {
        let mut applied = self.catalogue.apply(changes);
        self.post_touched(&mut applied);
        applied.rejected.iter().for_each(|_| self.status.count_failure());
        applied
    }

    fn post_control_plane(&self, problem: Option<String>) {
        let place = PathBuf::from("gateway").join("control_plane");
        if problem.is_some() {
            self.status.count_failure();
        }
        let diagnostic = problem.map(|problem| Diagnostic {
            severity: Severity::Error,
            file: place.clone(),
            place: None,
            message: format!("applications of the control plane: {problem}"),
            help: Some("what changes meanwhile has no effect".to_owned()),
        });
        self.post(&place, diagnostic.into_iter().collect());
    }

    fn not_kept(&self, error: &io::Error) -> String {
        let file = self.control_plane.as_ref().map(|one| one.log.file().display().to_string());
        let file = file.unwrap_or_default();
        format!(
            "{file}: {error}; a gateway that restarts while the control plane is down lacks them"
        )
    }
}
