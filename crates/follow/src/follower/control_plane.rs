//! Follows the applications and plans of the control plane: requests changes, applies them, and stores them on disk.
//!
//! A plan from a file takes precedence over one of the same name.

use std::collections::BTreeSet;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::limits;
use foldhash::{HashMap, HashSet};
use formats::declarative::{
    ApplicationPage, PublishedApplication, PublishedPlan, read_published, read_published_plan,
};
use model::{Diagnostic, Plans, Severity};

use super::apis::in_parallel;
use super::{Follower, Message};
use crate::catalogue::{Applied, Found};
use crate::configuration::defaults;
use crate::control_plane::{ControlPlane, Entry, FeedResponse, Full, KnownPlan, Log};
use crate::part::Content;

/// Number of stored entries that are applied together, and of those that a thread parses at a time.
const BATCH: usize = 2_048;
const SHARE: usize = 128;
const BUG: &str = "Penstock failed to read this application; please report this as a bug";

impl Follower {
    /// Applies the setting, and reads the stored applications and plans of that control plane.
    pub(super) fn configure_control_plane(&mut self) {
        let before = self.settings.plans.clone();
        self.follow_control_plane();
        self.merge_plans();
        self.note_new_plans(&before);
        if std::mem::take(&mut self.has_new_plans) {
            self.reread_rejected();
        }
    }

    fn follow_control_plane(&mut self) {
        let wanted = self.settings.gateway.control_plane.clone();
        let is_other = |one: &mut ControlPlane| Some(&one.next.from) != wanted.as_ref();
        if let Some(before) = self.control_plane.take_if(is_other) {
            let files = self.catalogue.files().filter(|file| before.has(file)).cloned();
            let files = files.collect();
            self.remove_applications(files);
            before.plans.keys().for_each(|name| self.post(&before.plan_file(name), Vec::new()));
            self.post_control_plane(None);
        }
        let Some(from) = wanted else { return };
        let (data, now) = (&self.settings.gateway.data, self.clock.now());
        if let Some(one) = self.control_plane.as_mut().filter(|one| one.is_ahead()) {
            // The file would replace newer applications. The transfer has the plans too.
            return one.restart(now);
        }
        let is_known = self.control_plane.is_some();
        self.control_plane.get_or_insert_with(|| ControlPlane::new(from, data, now));
        let read = self.read_kept();
        let damage = self.control_plane.as_ref().and_then(|one| one.log.damage());
        let problem = read.as_ref().err().map(|error| self.not_kept(error)).or(damage);
        if let Some(one) = &mut self.control_plane {
            match read {
                Ok(revision) if !is_known => one.next.revision = revision,
                Ok(_) if one.log.check().is_ok() => {}
                Ok(_) | Err(_) => one.restart(now),
            }
        }
        if problem.is_some() {
            self.post_control_plane(problem);
        }
    }

    /// Applies the entries stored on disk. Returns the revision up to which they are complete.
    fn read_kept(&mut self) -> io::Result<u64> {
        let Some(one) = &self.control_plane else { return Ok(0) };
        let mut log = Log::of(one.log.folder(), &one.next.from.url);
        let (mut plans, mut batch) = (Vec::new(), Vec::new());
        let revision = log.read(|entry| {
            match entry {
                Entry::Application(application) => batch.push(application),
                Entry::Plan(plan) => plans.push(plan),
            }
            if batch.len() >= BATCH || plans.len() >= BATCH {
                self.take_batch(&std::mem::take(&mut plans), &std::mem::take(&mut batch));
            }
        })?;
        self.take_batch(&plans, &batch);
        if let Some(one) = &mut self.control_plane {
            let applications = self.catalogue.files().filter(|file| one.has(file)).count();
            log.needed = applications.saturating_add(one.plans.len());
            log.take_over(&mut one.log);
            one.log = log;
        }
        Ok(revision)
    }

    /// Applies entries. Returns whether any applications or plans have changed.
    fn take_batch(
        &mut self,
        plans: &[PublishedPlan],
        applications: &[PublishedApplication],
    ) -> bool {
        let changed = self.take_plans(plans) && self.merge_plans();
        self.apply_applications(applications).changed || changed
    }

    /// Starts the request that is due.
    pub(super) fn ask_control_plane(&mut self) {
        let Some(one) = &mut self.control_plane else { return };
        let (from, sender) = (one.next.from.clone(), self.sender.clone());
        let after = one.next.revision;
        let now_us = self.clock.now().mono_us;
        one.next.ask(&self.ask_feed, one.full.is_some(), now_us, move |result| {
            let response = FeedResponse { from: from.clone(), after, result };
            // Fails if the follower has stopped.
            drop(sender.send(Message::Applications(response)));
        });
    }

    /// Handles a response. Calls `publish` if applications or plans have changed, before writing to disk.
    pub(super) fn on_response(
        &mut self,
        response: FeedResponse,
        mut publish: impl FnMut(&mut Self),
    ) {
        let FeedResponse { from, after, result } = response;
        let now = self.clock.now();
        let is_expected =
            |one: &&mut ControlPlane| one.next.from == from && one.next.expects(after);
        let Some(one) = self.control_plane.as_mut().filter(is_expected) else { return };
        let page = result.and_then(|response| {
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
        if one.full.as_ref().is_some_and(|full| !page.reset && full.start != page.start) {
            return one.restart(now);
        }
        let is_new = one.is_worth_a_write(&page, now);
        one.next.revision = page.revision;
        self.take_page(&page);
        let Some(one) = &mut self.control_plane else { return };
        if !page.more && std::mem::take(&mut one.changed) {
            tracing::info!(
                revision = page.revision,
                last_response = page.len(),
                "applications and plans of the control plane loaded"
            );
            publish(self);
        }
        let Some(one) = &mut self.control_plane else { return };
        let kept = if is_new { one.log.add(&page) } else { one.log.check() };
        if one.log.is_outdated() {
            one.next.revision = 0;
        }
        one.repair(now);
        let problem = kept.err().map(|error| self.not_kept(&error));
        self.post_control_plane(problem);
        if !page.more && std::mem::take(&mut self.has_new_plans) && self.reread_rejected() {
            publish(self);
        }
    }

    /// Applies a response. After the last response of a whole transfer, applications and plans that it lacked are
    /// removed.
    fn take_page(&mut self, page: &ApplicationPage) {
        let mut gone_plans = Vec::new();
        if let Some(one) = &mut self.control_plane {
            if page.reset {
                let (files, plans) = (HashSet::default(), HashSet::default());
                one.full = Some(Full { start: page.start, files, plans });
            }
            let files: Vec<_> = page.applications.iter().map(|app| one.file(&app.name)).collect();
            if let Some(full) = &mut one.full {
                full.files.extend(files);
                full.plans.extend(page.plans.iter().map(|plan| plan.name.clone()));
            }
            if let Some(full) = one.full.as_ref().filter(|_| !page.more) {
                let gone = one.plans.keys().filter(|name| !full.plans.contains(*name));
                let gone = gone.map(|name| PublishedPlan { name: name.clone(), plan: None });
                gone_plans.extend(gone);
            }
        }
        let before = self.settings.plans.clone();
        let mut changed = self.take_batch(&gone_plans, &[]);
        changed |= self.take_batch(&page.plans, &page.applications);
        self.note_new_plans(&before);
        if let Some(one) = &mut self.control_plane
            && !page.more
            && let Some(full) = one.full.take()
        {
            let gone = |file: &&Arc<Path>| one.has(file) && !full.files.contains(*file);
            let gone = self.catalogue.files().filter(gone).cloned().collect();
            changed |= self.remove_applications(gone);
        }
        if let Some(one) = &mut self.control_plane {
            one.changed |= changed;
        }
    }

    /// Applies plans. An invalid one leaves the last version in use. Returns whether there were any.
    fn take_plans(&mut self, plans: &[PublishedPlan]) -> bool {
        let Some(one) = &mut self.control_plane else { return false };
        let mut gone = Vec::new();
        for PublishedPlan { name, plan } in plans {
            let file = one.plan_file(name);
            let Some(document) = plan else {
                one.plans.remove(name);
                gone.push(file);
                continue;
            };
            let is_full = one.plans.len() >= limits::PUBLISHED_PLANS_MAX;
            let known = match one.plans.get_mut(name) {
                Some(known) => known,
                None if is_full => {
                    let most = limits::PUBLISHED_PLANS_MAX;
                    tracing::error!(plan = name, most, "too many plans of the control plane");
                    continue;
                }
                None => one.plans.entry(name.clone()).or_default(),
            };
            let (valid, problems) = read_published_plan(&file, document);
            let valid = valid.or_else(|| known.valid.take());
            *known = KnownPlan { valid, problems };
        }
        gone.iter().for_each(|file| self.post(file, Vec::new()));
        !plans.is_empty()
    }

    /// Adds the plans of the control plane to those of files. Returns whether any have changed.
    pub(super) fn merge_plans(&mut self) -> bool {
        let mut plans = self.file_plans.clone();
        let owners = &self.settings.gateway.plans.owners;
        let known = self.control_plane.iter().flat_map(|one| {
            one.plans.iter().map(|(name, known)| (one.plan_file(name), name, known))
        });
        for (file, name, KnownPlan { valid, problems }) in known {
            let mut problems = problems.clone();
            match owners.get(name) {
                Some(owner) => problems.push(Diagnostic {
                    severity: Severity::Error,
                    file: file.clone(),
                    place: None,
                    message: format!("the plan `{name}` is already defined in {}", owner.display()),
                    help: Some("that of the file is in use; rename or remove one of them".into()),
                }),
                None => valid.iter().for_each(|valid| plans.extend(valid)),
            }
            self.post(&file, problems);
        }
        let changed = self.settings.plans != plans;
        self.settings.plans = plans;
        changed
    }

    /// Marks rejected applications and files for another reading if there are plans that did not exist `before`.
    pub(super) fn note_new_plans(&mut self, before: &Plans) {
        if self.settings.plans.names().any(|name| before.get(name).is_none()) {
            self.has_new_plans = true;
            self.reread_files |= self.catalogue.files().any(|file| {
                let is_followed = self.control_plane.as_ref().is_some_and(|one| one.has(file));
                !is_followed && self.catalogue.is_rejected(file)
            });
        }
    }

    /// Reads rejected applications again, from disk. Returns whether the served applications have changed.
    pub(super) fn reread_rejected(&mut self) -> bool {
        let Some(one) = &self.control_plane else { return false };
        let is_rejected = |file: &&Arc<Path>| one.has(file) && self.catalogue.is_rejected(file);
        let rejected: BTreeSet<Arc<Path>> =
            self.catalogue.files().filter(is_rejected).cloned().collect();
        if rejected.is_empty() {
            return false;
        }
        let mut newest = HashMap::default();
        let mut log = Log::of(one.log.folder(), &one.next.from.url);
        let read = log.read(|entry| {
            if let Entry::Application(application) = entry {
                let file = one.file(&application.name);
                if rejected.contains(&file) {
                    newest.insert(file, application);
                }
            }
        });
        if read.is_err() || log.check().is_err() || one.log.check().is_err() {
            // Entries that the file lacks may be newer.
            let now = self.clock.now();
            self.control_plane.iter_mut().for_each(|one| one.restart(now));
            return false;
        }
        let newest: Vec<_> = newest.into_values().collect();
        self.apply_applications(&newest).changed
    }

    fn apply_applications(&mut self, applications: &[PublishedApplication]) -> Applied {
        let Some(one) = &self.control_plane else { return Applied::default() };
        let (plans, shared) = (defaults(&self.settings).plans, &self.shared);
        let mut changes = Vec::with_capacity(applications.len());
        let read = |published: &PublishedApplication| {
            let file = one.file(&published.name);
            let found = match &published.application {
                Some(document) => {
                    let read = || read_published(&file, &published.name, document, &plans);
                    // A panic of the reader must not affect the other applications.
                    let mut content = match catch_unwind(AssertUnwindSafe(read)) {
                        Ok(read) => Content::of_application(read),
                        Err(_) => Content::unreadable(&file, BUG.to_owned()),
                    };
                    content.share(shared);
                    Found::Read(Box::new(content))
                }
                None => Found::Removed,
            };
            (file, found)
        };
        in_parallel(applications, SHARE, read, |_, found| changes.extend(found));
        self.apply(changes)
    }

    /// Removes applications. Returns whether the served ones have changed.
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
            message: format!("applications and plans of the control plane: {problem}"),
            help: Some(
                "until this is fixed, changes at the control plane have no effect".to_owned(),
            ),
        });
        self.post(&place, diagnostic.into_iter().collect());
    }

    fn not_kept(&self, error: &io::Error) -> String {
        let file = self.control_plane.as_ref().map(|one| one.log.file().display().to_string());
        let file = file.unwrap_or_default();
        format!(
            "{file}: {error}; a gateway that restarts while the control plane is down \
             starts with outdated applications"
        )
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot make its files has failed")]

    use std::fs;

    use serde_json::{Value, json};

    use super::*;

    /// A follower of a control plane that is down, with one API.
    fn follower(folder: &Path) -> Follower {
        let data = folder.join("data");
        let text = format!(
            "[gateway]\nhttp = \"127.0.0.1:1\"\napis = [\"a.yaml\"]\ndata = \"{}\"\ncontrol_plane = {{ url = \
             \"https://a\", client_id = \"a\", client_secret = {{ file = \"secret\" }} }}\n",
            data.display()
        );
        let api = "openapi: 3.0.3\ninfo: {title: A, version: '1'}\nx-wso2-basePath: /a\n\
                   x-wso2-production-endpoints: {urls: ['http://127.0.0.1:1']}\n\
                   paths: {/x: {get: {responses: {'200': {description: ok}}}}}\n";
        fs::write(folder.join("a.yaml"), api).unwrap();
        fs::write(folder.join("penstock.toml"), text).unwrap();
        fs::write(folder.join("secret"), "a").unwrap();
        crate::follower::tests::follower(&folder.join("penstock.toml"))
    }

    /// Starts a request. Returns the revision after which it asks for changes.
    fn ask(follower: &mut Follower) -> u64 {
        let now = follower.clock.now();
        follower.control_plane.as_mut().unwrap().next.hurry(now);
        follower.ask_control_plane();
        revision(follower)
    }

    fn revision(follower: &Follower) -> u64 {
        follower.control_plane.as_ref().unwrap().next.revision
    }

    fn respond(follower: &mut Follower, after: u64, page: &Value) {
        let from = follower.control_plane.as_ref().unwrap().next.from.clone();
        let result = Ok(page.to_string().into_bytes());
        follower.on_response(FeedResponse { from, after, result }, |_| {});
    }

    /// Handles the next response, with applications and their owners, empty for removed ones.
    fn take(follower: &mut Follower, revision: u64, applications: &[(&str, &str)], more: bool) {
        let after = ask(follower);
        let application = |(name, owner): &(&str, &str)| match *owner {
            "" => json!({ "name": name, "application": null }),
            owner => json!({ "name": name, "application": { "owner": owner } }),
        };
        let applications: Vec<Value> = applications.iter().map(application).collect();
        let page = json!({ "revision": revision, "start": 1, "reset": after == 0, "more": more, "applications": applications });
        respond(follower, after, &page);
    }

    #[test]
    fn a_changed_application_leaves_apis_and_plans_where_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let mut follower = follower(folder.path());
        take(&mut follower, 3, &[("a", "x")], false);
        let before = follower.snapshot();
        take(&mut follower, 5, &[("a", "y")], false);
        let after = follower.snapshot();
        assert_eq!((before.apis.len(), known(&follower).as_str()), (1, "a y"));
        assert!(Arc::ptr_eq(&before.apis, &after.apis) && Arc::ptr_eq(&before.plans, &after.plans));
        let applications =
            [&before, &after].map(|one| Arc::as_ptr(one.applications.as_ref().unwrap()));
        assert_ne!(applications[0], applications[1]);
    }

    /// The applications and their owners.
    fn known(follower: &Follower) -> String {
        let all = follower.catalogue.applications().iter();
        let mut all: Vec<_> =
            all.map(|one| format!("{} {}", one.name, one.owner.as_deref().unwrap())).collect();
        all.sort();
        all.join(", ")
    }

    fn file(follower: &Follower) -> PathBuf {
        follower.control_plane.as_ref().unwrap().log.file().to_owned()
    }

    /// Takes a response that cannot be written to disk.
    fn take_unwritten(follower: &mut Follower, revision: u64, applications: &[(&str, &str)]) {
        let (file, aside) = (file(follower), file(follower).with_extension("aside"));
        fs::rename(&file, &aside).unwrap();
        fs::create_dir(&file).unwrap();
        take(follower, revision, applications, false);
        fs::remove_dir(&file).unwrap();
        fs::rename(&aside, &file).unwrap();
    }

    /// Handles the next response, with plans and their number of requests, 0 for removed ones; and applications with
    /// their plans.
    fn take_plans(
        follower: &mut Follower,
        revision: u64,
        plans: &[(&str, u64)],
        applications: &[(&str, &str)],
    ) {
        let after = ask(follower);
        let plan = |(name, requests): &(&str, u64)| match *requests {
            0 => json!({ "name": name, "plan": null }),
            _ => {
                let limits = json!([{ "requests": requests, "per": "1m" }]);
                json!({ "name": name, "plan": { "name": name, "limits": limits } })
            }
        };
        let application = |(name, plan): &(&str, &str)| json!({ "name": name, "application": { "owner": "x", "plan": plan } });
        let (plans, applications): (Vec<_>, Vec<_>) =
            (plans.iter().map(plan).collect(), applications.iter().map(application).collect());
        let page = json!({
            "revision": revision, "start": 1, "reset": after == 0, "more": false,
            "applications": applications, "plans": plans,
        });
        respond(follower, after, &page);
    }

    /// The requests that the plan `name` in use allows.
    fn requests(follower: &mut Follower, name: &str) -> Option<u64> {
        let snapshot = follower.snapshot();
        Some(snapshot.plans.get(name)?.limits.first()?.amount)
    }

    #[test]
    fn a_changed_plan_does_not_cause_applications_to_be_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut follower = follower(folder.path());
        take_plans(&mut follower, 5, &[("p", 7)], &[("a", "P"), ("b", "Gold")]);
        assert_eq!(known(&follower), "a x, b x");
        // A follower that reads this file requests everything.
        fs::write(file(&follower), "damaged").unwrap();
        let before = Arc::clone(follower.catalogue.applications());
        take_plans(&mut follower, 7, &[("p", 8)], &[]);
        assert_eq!(requests(&mut follower, "p"), Some(8));
        for (requests_of_file, expect) in [(9, 9), (10, 10)] {
            let plan = format!(
                "[[plan]]\nname = \"Gold\"\nlimits = [{{ requests = {requests_of_file}, per = \"1m\" }}]\n"
            );
            fs::write(folder.path().join("plans.toml"), plan).unwrap();
            let mut publish: super::super::Publish = Box::new(|_| {});
            follower.reread_settings(&mut super::super::Work::default(), &mut publish);
            assert_eq!(requests(&mut follower, "Gold"), Some(expect));
        }
        assert_eq!((requests(&mut follower, "p"), revision(&follower)), (Some(8), 7));
        assert!(Arc::ptr_eq(&before, follower.catalogue.applications()), "nothing to compile");
    }

    #[test]
    fn an_application_that_came_before_its_plan_is_served_when_the_plan_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let mut follower = follower(folder.path());
        take_plans(&mut follower, 5, &[], &[("a", "p"), ("b", "Gold")]);
        assert_eq!(known(&follower), "b x");
        take_plans(&mut follower, 7, &[("p", 7)], &[]);
        assert_eq!(known(&follower), "a x, b x");
        // The same for applications in files.
        take_plans(&mut follower, 9, &[], &[("c", "q")]);
        assert_eq!(known(&follower), "a x, b x");
        let plan = "[[plan]]\nname = \"q\"\nlimits = []\n";
        fs::write(folder.path().join("plans.toml"), plan).unwrap();
        let mut publish: super::super::Publish = Box::new(|_| {});
        assert!(follower.reread_settings(&mut super::super::Work::default(), &mut publish));
        assert_eq!(known(&follower), "a x, b x, c x");
        drop(follower);
        let mut follower = self::follower(folder.path());
        assert_eq!(known(&follower), "a x, b x, c x", "after a restart");
        assert_eq!(requests(&mut follower, "p"), Some(7));
    }

    #[test]
    fn a_plan_that_is_removed_or_missing_from_a_transfer_is_gone_and_an_invalid_one_stays() {
        let folder = tempfile::tempdir().unwrap();
        let mut follower = follower(folder.path());
        take_plans(&mut follower, 5, &[("p", 7), ("gold", 3), ("q", 2)], &[]);
        assert_eq!(requests(&mut follower, "Gold"), Some(3), "in place of WSO2's");
        take_plans(&mut follower, 7, &[("gold", 0)], &[]);
        assert_eq!(requests(&mut follower, "Gold"), Some(5_000));
        let after = ask(&mut follower);
        let invalid = json!({ "name": "p", "plan": { "name": "p", "limits": "none" } });
        let page = json!({
            "revision": 9, "start": 1, "reset": false, "more": false,
            "applications": [], "plans": [invalid],
        });
        respond(&mut follower, after, &page);
        assert_eq!(requests(&mut follower, "p"), Some(7), "the last valid version");
        assert!(follower.status.to_json().contains("plans/p"), "{}", follower.status.to_json());
        follower.control_plane.as_mut().unwrap().next.revision = 0;
        take_plans(&mut follower, 11, &[("p", 8)], &[]);
        let found = ["p", "q"].map(|name| requests(&mut follower, name));
        assert_eq!(found, [Some(8), None], "`q` is missing from the transfer");
    }

    #[test]
    fn other_plans_do_not_bring_back_what_was_removed_since_the_last_write() {
        let folder = tempfile::tempdir().unwrap();
        let mut follower = follower(folder.path());
        take(&mut follower, 5, &[("a", "x"), ("b", "x")], false);
        take_unwritten(&mut follower, 7, &[("a", "")]);
        follower.configure_control_plane();
        assert_eq!((known(&follower).as_str(), ask(&mut follower)), ("b x", 0));
    }

    #[test]
    fn other_plans_do_not_replace_the_first_part_of_a_transfer_by_older_applications() {
        let folder = tempfile::tempdir().unwrap();
        let mut follower = follower(folder.path());
        take(&mut follower, 5, &[("a", "x"), ("b", "x")], false);
        follower.control_plane.as_mut().unwrap().next.revision = 0;
        take(&mut follower, 8, &[("a", "y")], true);
        follower.configure_control_plane();
        assert_eq!((known(&follower).as_str(), ask(&mut follower)), ("a y, b x", 0));
        take(&mut follower, 9, &[("a", "y")], false);
        assert_eq!((known(&follower).as_str(), ask(&mut follower)), ("a y", 9));
    }

    #[test]
    fn a_response_does_not_count_if_everything_is_needed_since_the_request() {
        let folder = tempfile::tempdir().unwrap();
        let mut follower = follower(folder.path());
        take(&mut follower, 5, &[("a", "x")], false);
        let after = ask(&mut follower);
        fs::write(file(&follower), "damaged").unwrap();
        follower.configure_control_plane();
        assert_eq!(ask(&mut follower), 0);
        let none =
            json!({ "revision": 9, "start": 1, "reset": false, "more": false, "applications": [] });
        respond(&mut follower, after, &none);
        assert_eq!((after, revision(&follower)), (5, 0));
    }

    #[test]
    fn after_a_failed_write_all_applications_are_transferred_and_written() {
        let folder = tempfile::tempdir().unwrap();
        let mut follower = follower(folder.path());
        take(&mut follower, 5, &[("a", "x")], false);
        take_unwritten(&mut follower, 7, &[("b", "x")]);
        assert_eq!(revision(&follower), 0);
        take(&mut follower, 7, &[("a", "x"), ("b", "x")], false);
        take_unwritten(&mut follower, 9, &[("b", "y")]);
        assert_eq!(revision(&follower), 9, "not at once a second time");
        drop(follower);
        assert_eq!(known(&self::follower(folder.path())), "a x, b x");
    }

    #[test]
    fn a_transfer_begins_again_if_the_control_plane_has_started_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        let mut follower = follower(folder.path());
        take(&mut follower, 5, &[("a", "x")], true);
        let after = ask(&mut follower);
        let rest = json!({
            "revision": 9, "start": 2, "reset": false, "more": false, "applications": [],
        });
        respond(&mut follower, after, &rest);
        assert_eq!((known(&follower).as_str(), ask(&mut follower)), ("a x", 0));
        take(&mut follower, 9, &[("b", "x")], false);
        assert_eq!((known(&follower).as_str(), ask(&mut follower)), ("b x", 9));
    }

    #[test]
    fn a_number_without_applications_is_written_at_most_once_a_minute() {
        let folder = tempfile::tempdir().unwrap();
        let mut follower = follower(folder.path());
        take(&mut follower, 5, &[("a", "x")], false);
        for revision in 6..9 {
            take(&mut follower, revision, &[], false);
        }
        let written = fs::read_to_string(file(&follower)).unwrap();
        let numbers = written.lines().filter(|line| line.starts_with("== "));
        let numbers: Vec<_> = numbers.filter_map(|line| line.split(" #").next()).collect();
        assert_eq!(numbers, ["== 5", "== 6"]);
        take(&mut follower, 9, &[("b", "x")], false);
        drop(follower);
        let follower = self::follower(folder.path());
        assert_eq!((known(&follower).as_str(), revision(&follower)), ("a x, b x", 9));
    }
}
