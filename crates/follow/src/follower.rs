//! The follower's thread: receives events, waits until changes are complete, reads, and publishes.

mod apis;
mod control_plane;
mod others;
mod restore;
mod revocations;
mod vault;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::RandomState;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use base::{Clock, limits};
use foldhash::{HashMap, HashSet};
use model::{ArtefactSet, Diagnostic, LoadedApi, Plans, Settings, Snapshot};
use wire::tls::ServerCertificates;

use crate::catalogue::Catalogue;
use crate::configuration::ConfigurationError;
use crate::control_plane::{ControlPlane, FeedResponse};
use crate::debounce::{ChangeKind, Debounce};
use crate::feed::AskFeed;
use crate::fetch::{self, Fetch, Fetched};
use crate::issuers::Issuers;
use crate::kept::Kept;
use crate::revocations::{Asked, Followed};
use crate::shared::Shared;
use crate::snapshots::Written;
use crate::status::{Posted, Status};
use crate::tracked::Tracked;
use crate::vault::{AskVault, Outcome, Vault};
use crate::watcher::{FileEvent, Watcher};

use restore::{Saving, Valid};

/// A change that the follower publishes.
#[derive(Clone, Debug)]
pub enum Change {
    /// APIs, artefacts, issuers, plans or applications.
    Snapshot(Arc<Snapshot>),
    /// Settings, or files of trusted CAs. Values that need a restart are the previous ones; the log
    /// names them.
    Settings(Arc<Settings>),
    /// The keys of this issuer were fetched because a token named an unknown key, or will not be fetched now. New keys
    /// were published before, in a snapshot.
    Keys(String),
}

/// Called on the follower's thread for each change.
pub type Publish = Box<dyn FnMut(Change) + Send>;

/// Called with the name of an issuer.
pub type OnUnknownKid = Arc<dyn Fn(&str) + Send + Sync>;

/// Options of the follower in addition to the settings.
pub struct Options {
    /// The file of the settings, which is watched too.
    pub configuration: Option<PathBuf>,
    /// Whether there is an https listener, which needs certificates. The settings may have none: its
    /// address can come from the command line.
    pub https: bool,
    /// Certificates of this listener. Loaded at the start, and when the files change.
    pub certificates: Arc<ServerCertificates>,
    pub clock: Arc<dyn Clock + Send + Sync>,
    pub fetch: Fetch,
    pub ask_feed: AskFeed,
    pub ask_vault: AskVault,
}

/// Everything that is watched, as it was last read.
pub struct Follower {
    /// The settings in effect.
    settings: Settings,
    /// The settings as last read, including changes that need a restart.
    wanted: Settings,
    configuration: Option<PathBuf>,
    /// Whether there is an https listener.
    https: bool,
    /// The files of secrets and plans that the configuration refers to.
    secrets: Vec<PathBuf>,
    clock: Arc<dyn Clock + Send + Sync>,
    fetch: Fetch,
    ask_feed: AskFeed,
    ask_vault: AskVault,
    vault: Vault,
    status: Arc<Status>,
    certificates: Arc<ServerCertificates>,
    catalogue: Catalogue,
    issuers: Issuers,
    followed: Vec<(Followed, Kept)>,
    control_plane: Option<ControlPlane>,
    /// Plans of files, without those of the control plane.
    file_plans: Plans,
    /// Whether plans were added for lack of which applications of the control plane, or files, may have been rejected.
    has_new_plans: bool,
    reread_files: bool,
    /// As in the last snapshot.
    apis: Arc<[LoadedApi]>,
    artefacts: Arc<ArtefactSet>,
    /// As in the last snapshot.
    plans: Arc<Plans>,
    /// Shared subscriptions of applications.
    shared: Arc<Shared>,
    revision: u64,
    tracked: Tracked,
    watcher: Option<Watcher>,
    debounce: Debounce,
    /// Hash of each description, which is not parsed again if it is the same.
    texts: HashMap<Arc<Path>, u64>,
    hashing: RandomState,
    /// Valid versions of files, for snapshots, if these are written.
    valid: HashMap<Arc<Path>, Valid>,
    /// Newer versions that were not served when they were read.
    unserved: HashMap<Arc<Path>, Valid>,
    saving: Saving,
    /// Files that are served from a snapshot.
    restored: HashSet<Arc<Path>>,
    /// Hashes of descriptions that were invalid when first read.
    first_failures: HashMap<Arc<Path>, u64>,
    /// The descriptions that refer to a file.
    referrers: BTreeMap<Arc<Path>, BTreeSet<Arc<Path>>>,
    /// The files that a description refers to.
    references: HashMap<Arc<Path>, Vec<Arc<Path>>>,
    /// Canonical folders of descriptions, with the paths under which they were walked.
    folders: HashMap<PathBuf, PathBuf>,
    /// The configured files and folders, with canonical parents.
    roots: BTreeSet<PathBuf>,
    /// Device and inode of each root when it last held a description, or was last accepted as empty.
    held: HashMap<PathBuf, (u64, u64)>,
    /// Roots that could not be walked.
    failed_roots: BTreeSet<PathBuf>,
    /// Files that are missing, and the time at which they count as removed.
    missing: BTreeMap<Arc<Path>, u64>,
    poll_us: u64,
    receiver: Receiver<Message>,
    sender: Sender<Message>,
}

/// Stops the follower's thread when dropped.
pub struct Handle {
    sender: Sender<Message>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
enum Message {
    File(FileEvent),
    Fetched(Fetched),
    Revocations(Asked),
    Applications(FeedResponse),
    Vault(Outcome),
    /// The result of writing a snapshot, and its duration in microseconds.
    Saved(Result<Written, String>, u64),
    UnknownKid(String),
    Reload,
    Stop,
}

/// The work of one round.
#[derive(Debug, Default)]
struct Work {
    /// Descriptions to read.
    apis: HashSet<Arc<Path>>,
    /// Files to parse even if they are unchanged, because a file that they refer to has changed.
    force: HashSet<Arc<Path>>,
    /// Whether to parse all files.
    force_all: bool,
    walk: Option<Walk>,
    issuers: bool,
    certificates: bool,
    settings: bool,
    /// Whether to publish the settings even if they are unchanged, because a file that they refer to has changed.
    republish: bool,
    /// Whether the catalogue has already changed, so that a snapshot must be published.
    changed: bool,
}

/// The reason for walking the folders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Walk {
    /// Periodically: a changed file may be incomplete, so it is read later.
    Poll,
    /// A folder or link changed, or events were lost: changed files are read now.
    Folders,
    /// A reload was requested: everything is read.
    Reload,
}

impl Follower {
    /// Reads everything once. Waits at most `limits::JWKS_START_MS_MAX` for the first key sets.
    ///
    /// # Errors
    /// The certificates of the https listener are not usable; or a source cannot be read, and all snapshots on disk are
    /// damaged. All other problems are diagnostics in the status.
    pub fn load(
        settings: Settings,
        options: Options,
    ) -> Result<(Self, Arc<Snapshot>), ConfigurationError> {
        let Options { configuration, https, certificates, clock, fetch, .. } = options;
        let Options { ask_feed, ask_vault, .. } = options;
        let now = clock.now();
        let status = Arc::new(Status::default());
        // This precedes reading, so that later changes are noticed.
        let mut tracked = Tracked::default();
        for file in others::single_files(configuration.as_deref(), &settings, https) {
            tracked.look(&Arc::from(file));
        }
        if https {
            others::first_certificates(&certificates, &settings, &status, now)?;
        }
        let (sender, receiver) = mpsc::channel();
        let mut follower = Self {
            wanted: settings.clone(),
            file_plans: settings.plans.clone(),
            settings,
            configuration,
            https,
            secrets: Vec::new(),
            clock,
            fetch,
            ask_feed,
            ask_vault,
            vault: Vault::default(),
            status,
            certificates,
            catalogue: Catalogue::default(),
            issuers: Issuers::default(),
            followed: Vec::new(),
            control_plane: None,
            has_new_plans: false,
            reread_files: false,
            apis: Arc::default(),
            artefacts: Arc::default(),
            plans: Arc::default(),
            shared: Arc::default(),
            revision: 0,
            tracked,
            watcher: None,
            debounce: Debounce::default(),
            texts: HashMap::default(),
            hashing: RandomState::new(),
            valid: HashMap::default(),
            unserved: HashMap::default(),
            saving: Saving::default(),
            restored: HashSet::default(),
            first_failures: HashMap::default(),
            referrers: BTreeMap::new(),
            references: HashMap::default(),
            folders: HashMap::default(),
            roots: BTreeSet::new(),
            held: HashMap::default(),
            failed_roots: BTreeSet::new(),
            missing: BTreeMap::new(),
            poll_us: now.mono_us,
            receiver,
            sender,
        };
        follower.configure_issuers();
        follower.configure_vault();
        follower.fetch_due();
        let mut work = Work::default();
        follower.walk(Walk::Reload, &mut work);
        follower.read_apis(work);
        // This comes after the files, which therefore take precedence.
        follower.configure_control_plane();
        follower.ask_control_plane();
        follower.wait_for_keys();
        follower.reread_files_with_new_plans();
        if follower.settings.vault.is_some() {
            follower.reread_settings(&mut Work::default(), &mut (Box::new(|_| {}) as Publish));
        }
        follower.restore()?;
        if follower.restored.is_empty() {
            follower.save_later();
        }
        let snapshot = follower.snapshot();
        Ok((follower, snapshot))
    }

    /// The settings, with the secrets read from Vault so far.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The current diagnostics.
    #[must_use]
    pub fn status(&self) -> Arc<Status> {
        Arc::clone(&self.status)
    }

    /// To be called with an issuer's name when a token names a key that the issuer does not have.
    /// [`Change::Keys`] follows in every case.
    #[must_use]
    pub fn on_unknown_kid(&self) -> OnUnknownKid {
        let sender = self.sender.clone();
        // Fails if the follower has stopped.
        Arc::new(move |issuer| drop(sender.send(Message::UnknownKid(issuer.to_owned()))))
    }

    /// Starts watching, on its own thread. Changes since [`Follower::load`] are not missed.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn watch(mut self, mut publish: Publish) -> io::Result<Handle> {
        let sender = self.sender.clone();
        let events = self.sender.clone();
        // The watcher starts after loading, because inotify would report each file that loading opens.
        self.watcher = Some(Watcher::new(move |event| {
            drop(events.send(Message::File(event)));
        }));
        let thread = thread::Builder::new()
            .name("follow".to_owned())
            .spawn(move || self.run(&mut publish))?;
        Ok(Handle { sender, thread: Some(thread) })
    }

    fn run(mut self, publish: &mut Publish) {
        self.watch_single_files();
        // Finds changes between loading and watching.
        let since = Work { walk: Some(Walk::Folders), settings: true, ..Work::default() };
        self.perform(since, publish);
        loop {
            let mut work = Work::default();
            let now_us = self.clock.now().mono_us;
            let wait_us = self.next_us().saturating_sub(now_us);
            match self.receiver.recv_timeout(Duration::from_micros(wait_us)) {
                Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(message) => self.handle(message, &mut work, publish),
                Err(RecvTimeoutError::Timeout) => {}
            }
            self.collect_due(&mut work);
            self.perform(work, publish);
            self.fetch_due();
            self.save_if_due();
        }
    }

    fn handle(&mut self, message: Message, work: &mut Work, publish: &mut Publish) {
        let now_us = self.clock.now().mono_us;
        match message {
            Message::File(FileEvent::Path(path, sign)) => self.debounce.note(path, sign, now_us),
            Message::File(FileEvent::Folder(folder)) => {
                if let Some(watcher) = &mut self.watcher {
                    watcher.forget(&folder);
                }
                self.debounce.note(folder, ChangeKind::Complete, now_us);
            }
            Message::File(FileEvent::Rescan) => work.walk = Some(Walk::Folders),
            Message::Fetched(fetched) => {
                let issuer = fetched.name.clone();
                if self.fetched(fetched) {
                    self.publish(publish);
                }
                publish(Change::Keys(issuer));
            }
            Message::Revocations(asked) => {
                self.revoked(asked, |follower| follower.publish(publish));
            }
            Message::Applications(response) => {
                self.on_response(response, |one| one.publish(publish));
            }
            Message::Vault(outcome) => work.settings = self.on_vault(outcome),
            Message::Saved(result, took_us) => self.saved(result, took_us),
            Message::UnknownKid(issuer) => {
                if !self.issuers.unknown_kid(&issuer, now_us) {
                    publish(Change::Keys(issuer));
                }
            }
            Message::Reload => {
                tracing::info!("reloading everything");
                self.issuers.refresh_all(now_us);
                self.accept_emptied_roots();
                *work = Work {
                    walk: Some(Walk::Reload),
                    issuers: true,
                    certificates: true,
                    settings: true,
                    republish: true,
                    ..Work::default()
                };
            }
            // Handled by the caller.
            Message::Stop => {}
        }
    }

    /// Adds changes that are complete, and periodic work that is due.
    fn collect_due(&mut self, work: &mut Work) {
        let now_us = self.clock.now().mono_us;
        for location in self.debounce.pop_due(now_us) {
            self.on_event(&location, work);
        }
        let due = self.missing.extract_if(.., |_, at_us| *at_us <= now_us);
        let due: Vec<Arc<Path>> = due.map(|(file, _)| file).collect();
        self.remove_missing(due, work);
        if self.poll_us <= now_us {
            work.walk = work.walk.max(Some(Walk::Poll));
        }
        if std::mem::take(&mut self.reread_files) {
            work.walk = Some(Walk::Reload);
        }
    }

    fn perform(&mut self, mut work: Work, publish: &mut Publish) {
        let mut changed = work.changed;
        changed |= self.reread_settings_if_due(&mut work, publish);
        if let Some(walk) = work.walk.take() {
            self.walk(walk, &mut work);
            // The walk may have found a changed configuration, which may need another walk.
            changed |= self.reread_settings_if_due(&mut work, publish);
        }
        if let Some(walk) = work.walk.take() {
            self.walk(walk, &mut work);
        }
        if work.certificates {
            self.reread_certificates();
        }
        if work.issuers {
            changed |= self.reread_issuers();
        }
        if !work.apis.is_empty() {
            changed |= self.reread_apis(work);
        }
        if changed {
            self.publish(publish);
        }
    }

    /// Returns whether a new snapshot must be published.
    fn reread_settings_if_due(&mut self, work: &mut Work, publish: &mut Publish) -> bool {
        let due = work.settings || work.republish;
        let changed = due && self.reread_settings(work, publish);
        (work.settings, work.republish) = (false, false);
        changed
    }

    fn publish(&mut self, publish: &mut Publish) {
        self.status.count_success(self.clock.now().unix_s);
        self.save_later();
        let snapshot = self.snapshot();
        publish(Change::Snapshot(snapshot));
    }

    fn snapshot(&mut self) -> Arc<Snapshot> {
        self.revision += 1;
        let (apis, issuers) = (self.catalogue.apis(), self.issuers.current());
        let is_same = |(one, other): (&LoadedApi, &LoadedApi)| one.is_same(other);
        if self.apis.len() != apis.len() || !self.apis.iter().zip(&apis).all(is_same) {
            self.apis = apis.into();
        }
        let apis = Arc::clone(&self.apis);
        let artefacts = self.catalogue.artefacts();
        if *self.artefacts != artefacts {
            self.artefacts = Arc::new(artefacts);
        }
        let artefacts = Arc::clone(&self.artefacts);
        if *self.plans != self.settings.plans {
            self.plans = Arc::new(self.settings.plans.clone());
        }
        let plans = Arc::clone(&self.plans);
        let applications =
            self.settings.has_applications().then(|| Arc::clone(self.catalogue.applications()));
        Arc::new(Snapshot {
            revision: self.revision,
            apis,
            issuers,
            artefacts,
            plans,
            applications,
        })
    }

    /// Starts fetches that are due.
    fn fetch_due(&mut self) {
        for (name, source) in self.issuers.pop_due(self.clock.now().mono_us) {
            fetch::start(&self.fetch, name, source, self.sender.clone(), Message::Fetched);
        }
        self.ask_for_revocations();
        self.ask_control_plane();
        self.ask_vault();
    }

    fn next_us(&self) -> u64 {
        let missing = self.missing.values().min().copied();
        let revocations = self.followed.iter().filter_map(|(one, _)| one.next.due_us()).min();
        let applications = self.control_plane.as_ref().and_then(|one| one.next.due_us());
        let (issuers, saving) = (self.issuers.next_us(), self.saving.next_us());
        let (changes, vault) = (self.debounce.next_us(), self.vault.next_us());
        let times = [changes, missing, issuers, revocations, applications, saving, vault];
        times.into_iter().flatten().min().unwrap_or(u64::MAX).min(self.poll_us)
    }

    /// Sets the diagnostics of `key`, and logs them if they are new.
    fn post(&self, key: &Path, diagnostics: Vec<Diagnostic>) {
        if self.status.post(key, diagnostics.clone()) == Posted::Changed {
            log(&diagnostics);
        }
    }
}

fn log(diagnostics: &[Diagnostic]) {
    for diagnostic in diagnostics {
        match diagnostic.severity {
            model::Severity::Error => tracing::error!("{diagnostic}"),
            model::Severity::Warning => tracing::warn!("{diagnostic}"),
        }
    }
}

impl Handle {
    /// Reloads everything, as on SIGHUP.
    pub fn reload(&self) {
        drop(self.sender.send(Message::Reload));
    }

    /// Stops the thread and waits for it.
    pub fn stop(mut self) {
        drop(self.sender.send(Message::Stop));
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        drop(self.sender.send(Message::Stop));
    }
}

/// The time from the end of a walk to the next one.
fn poll_wait_us(walk_us: u64) -> u64 {
    let least_us = 1_000 * u64::from(limits::FILE_POLL_MS);
    least_us.max(walk_us.saturating_mul(limits::FILE_POLL_SHARE.into()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot make its files has failed")]

    use std::fs;
    use std::sync::Mutex;

    use base::SystemClock;
    use model::KeySource;

    use super::*;

    pub(super) fn follower(configuration: &Path) -> Follower {
        let (settings, _) = crate::read_settings(configuration).unwrap();
        let options = Options {
            configuration: Some(configuration.to_owned()),
            https: false,
            certificates: Arc::default(),
            clock: Arc::new(SystemClock::new()),
            fetch: Arc::new(|_| Err(String::new())),
            ask_feed: Arc::new(|_, _| Err(String::new())),
            ask_vault: Arc::new(|_, _, _| Err(String::new())),
        };
        Follower::load(settings, options).unwrap().0
    }

    #[test]
    fn a_fetch_for_an_older_configuration_leaves_no_diagnostic() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("penstock.toml");
        fs::write(&file, "[gateway]\nhttp = \"127.0.0.1:1\"\napis = []\n").unwrap();
        let mut follower = follower(&file);
        let source = KeySource::JwksUrl("https://issuer.example/jwks".to_owned());
        let result = Err("no route to host".to_owned());
        assert!(!follower.fetched(Fetched { name: "removed".to_owned(), source, result }));
        assert_eq!(follower.status.to_json(), "[]");
        assert_eq!(follower.status.reloads().failed, 0);
    }

    #[test]
    fn a_configuration_that_a_walk_finds_changed_is_applied_in_the_same_round() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("penstock.toml");
        let write = |drain_s: u32| {
            let text =
                format!("[gateway]\nhttp = \"127.0.0.1:1\"\napis = []\ndrain_s = {drain_s}\n");
            fs::write(&file, text).unwrap();
        };
        write(5);
        let mut follower = follower(&file);
        write(12);
        let published = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&published);
        let mut publish: Publish = Box::new(move |change| {
            if let Change::Settings(settings) = change {
                sink.lock().unwrap().push(settings.gateway.drain_s);
            }
        });
        follower.perform(Work { walk: Some(Walk::Folders), ..Work::default() }, &mut publish);
        assert_eq!(*published.lock().unwrap(), [12]);
    }

    #[test]
    fn a_changed_file_of_an_upstreams_tls_settings_publishes_the_settings() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("penstock.toml");
        let text = "[gateway]\nhttp = \"127.0.0.1:1\"\napis = []\n[[upstream_tls.endpoint]]\n\
                    hosts = [\"a\"]\ncert = \"us.crt\"\nkey = \"us.key\"\nca = [\"a.pem\"]\n";
        fs::write(&file, text).unwrap();
        let mut follower = follower(&file);
        for name in ["us.crt", "us.key", "a.pem"] {
            fs::write(folder.path().join(name), name).unwrap();
            let published = Arc::new(Mutex::new(0));
            let count = Arc::clone(&published);
            let mut publish: Publish = Box::new(move |change| {
                *count.lock().unwrap() += usize::from(matches!(change, Change::Settings(_)));
            });
            let poll = Work { walk: Some(Walk::Folders), ..Work::default() };
            follower.perform(poll, &mut publish);
            assert_eq!(*published.lock().unwrap(), 1, "{name}");
        }
    }
}
