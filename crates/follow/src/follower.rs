//! The follower's thread: sees, waits until changes rest, reads, and tells.

mod apis;
mod others;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::RandomState;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use base::{Clock, limits};
use model::{Diagnostic, Settings, Snapshot};
use wire::tls::ServerCertificates;

use crate::catalogue::Catalogue;
use crate::configuration::ConfigurationError;
use crate::fetch::{self, Fetch, Fetched};
use crate::issuers::Issuers;
use crate::settle::{Settle, Sign};
use crate::status::{Posted, Status};
use crate::tracked::Tracked;
use crate::watcher::{Sighting, Watcher};

/// What to do from now on.
#[derive(Clone, Debug)]
pub enum Change {
    /// Serve this.
    Snapshot(Arc<Snapshot>),
    /// Keep to these limits, and read the authorities of backends again. What needs a restart is as
    /// it was, and has been told in the log.
    Settings(Arc<Settings>),
}

/// Called on the follower's thread, one change after the other.
pub type Publish = Box<dyn FnMut(Change) + Send>;

/// Called with the name of an issuer.
pub type OnUnknownKid = Arc<dyn Fn(&str) + Send + Sync>;

/// What the follower needs besides the settings.
pub struct Options {
    /// Where the settings came from: it is followed as well.
    pub configuration: Option<PathBuf>,
    pub clock: Arc<dyn Clock + Send + Sync>,
    pub fetch: Fetch,
}

/// Everything that is followed, as it was last read.
pub struct Follower {
    /// In force.
    settings: Settings,
    /// As last read: differs from what is in force where a restart is needed.
    wanted: Settings,
    configuration: Option<PathBuf>,
    clock: Arc<dyn Clock + Send + Sync>,
    fetch: Fetch,
    status: Arc<Status>,
    certificates: Arc<ServerCertificates>,
    catalogue: Catalogue,
    issuers: Issuers,
    /// Of the last snapshot.
    revision: u64,
    tracked: Tracked,
    watcher: Option<Watcher>,
    settle: Settle,
    /// Hash of each description's text: the same text is not parsed again.
    texts: HashMap<PathBuf, u64>,
    hashing: RandomState,
    /// Hashes of texts that were bad at first sight.
    suspects: HashMap<PathBuf, u64>,
    /// Which descriptions refer to a file.
    referrers: BTreeMap<PathBuf, BTreeSet<PathBuf>>,
    /// Which files a description refers to.
    references: HashMap<PathBuf, Vec<PathBuf>>,
    /// Real folders of descriptions, with the names under which they were walked.
    folders: HashMap<PathBuf, PathBuf>,
    /// Real parent folders plus names of what is configured to be walked.
    roots: BTreeSet<PathBuf>,
    /// Roots that could not be walked.
    unwalked: BTreeSet<PathBuf>,
    /// Files that vanished, and when they are given up.
    missing: BTreeMap<PathBuf, u64>,
    poll_us: u64,
    /// Issuers for which someone asked to fetch early: each tells us once.
    asked: Arc<Mutex<BTreeSet<String>>>,
    inbox: Receiver<Message>,
    outbox: Sender<Message>,
}

/// Ends the follower's thread when it is dropped.
pub struct Handle {
    outbox: Sender<Message>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
enum Message {
    Seen(Sighting),
    Fetched(Fetched),
    UnknownKid(String),
    Reload,
    Stop,
}

/// What a round of looking found to be done.
#[derive(Debug, Default)]
struct Work {
    /// Descriptions to read.
    apis: BTreeSet<PathBuf>,
    /// Parse them even if their text is the same: something else has changed.
    anew: BTreeSet<PathBuf>,
    walk: Option<Walk>,
    issuers: bool,
    certificates: bool,
    settings: bool,
    /// Tell the settings even if they read the same: a file that they name has changed.
    retell: bool,
    /// The catalogue has changed already.
    tell: bool,
}

/// Why folders are walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Walk {
    /// It is time: what differs may be half written, and waits.
    Poll,
    /// A folder or link changed, or events were lost: what differs is read now.
    Moved,
    /// Asked for: everything is read.
    Reload,
}

impl Follower {
    /// Reads everything once. Waits for the first key sets at most `limits::JWKS_START_MS_MAX`.
    ///
    /// # Errors
    /// Only what makes the https listener useless: its certificates. Whatever else is wrong stands on
    /// the status, and is followed.
    pub fn load(
        settings: Settings,
        options: Options,
    ) -> Result<(Self, Arc<Snapshot>), ConfigurationError> {
        let Options { configuration, clock, fetch } = options;
        let now = clock.now();
        let status = Arc::new(Status::default());
        // Looked at before they are read: what changes from here on differs.
        let mut tracked = Tracked::default();
        for file in others::singles(configuration.as_deref(), &settings) {
            tracked.look(&file);
        }
        let certificates = others::first_certificates(&settings, &status, now)?;
        let (outbox, inbox) = mpsc::channel();
        let mut follower = Self {
            wanted: settings.clone(),
            settings,
            configuration,
            clock,
            fetch,
            status,
            certificates,
            catalogue: Catalogue::default(),
            issuers: Issuers::default(),
            revision: 0,
            tracked,
            watcher: None,
            settle: Settle::default(),
            texts: HashMap::new(),
            hashing: RandomState::new(),
            suspects: HashMap::new(),
            referrers: BTreeMap::new(),
            references: HashMap::new(),
            folders: HashMap::new(),
            roots: BTreeSet::new(),
            unwalked: BTreeSet::new(),
            missing: BTreeMap::new(),
            poll_us: now.mono_us,
            asked: Arc::default(),
            inbox,
            outbox,
        };
        follower.configure_issuers();
        follower.fetch_due();
        let mut work = Work::default();
        follower.walk(Walk::Reload, &mut work);
        follower.read_apis(work);
        follower.wait_for_keys();
        let snapshot = follower.snapshot();
        Ok((follower, snapshot))
    }

    /// For the https listener; replaced when the files change.
    #[must_use]
    pub fn certificates(&self) -> Arc<ServerCertificates> {
        Arc::clone(&self.certificates)
    }

    /// What is wrong now.
    #[must_use]
    pub fn status(&self) -> Arc<Status> {
        Arc::clone(&self.status)
    }

    /// To be called with an issuer's name when a token names a key that it doesn't have. Cheap: one
    /// caller in `limits::JWKS_UNKNOWN_KID_S_MIN` seconds wakes the follower.
    #[must_use]
    pub fn on_unknown_kid(&self) -> OnUnknownKid {
        let (asked, outbox) = (Arc::clone(&self.asked), self.outbox.clone());
        Arc::new(move |issuer| {
            let mut asked = asked.lock().unwrap_or_else(PoisonError::into_inner);
            if !asked.contains(issuer) {
                asked.insert(issuer.to_owned());
                drop(outbox.send(Message::UnknownKid(issuer.to_owned())));
            }
        })
    }

    /// Follows from now on, on a thread of its own. Changes since [`Follower::load`] are not missed.
    ///
    /// # Errors
    /// The system has no thread to give.
    pub fn watch(mut self, mut publish: Publish) -> io::Result<Handle> {
        let outbox = self.outbox.clone();
        let sightings = self.outbox.clone();
        self.watcher = Some(Watcher::new(move |sighting| {
            drop(sightings.send(Message::Seen(sighting)));
        }));
        let thread = thread::Builder::new()
            .name("follow".to_owned())
            .spawn(move || self.run(&mut publish))?;
        Ok(Handle { outbox, thread: Some(thread) })
    }

    fn run(mut self, publish: &mut Publish) {
        self.watch_singles();
        // Whatever changed between the first reading and the watch.
        let since = Work { walk: Some(Walk::Moved), settings: true, ..Work::default() };
        self.work(since, publish);
        loop {
            let mut work = Work::default();
            let now_us = self.clock.now().mono_us;
            let wait_us = self.next_us().saturating_sub(now_us);
            match self.inbox.recv_timeout(Duration::from_micros(wait_us)) {
                Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(message) => self.take(message, &mut work, publish),
                Err(RecvTimeoutError::Timeout) => {}
            }
            self.gather(&mut work);
            self.work(work, publish);
            self.fetch_due();
        }
    }

    fn take(&mut self, message: Message, work: &mut Work, publish: &mut Publish) {
        let now_us = self.clock.now().mono_us;
        match message {
            Message::Seen(Sighting::At(path, sign)) => self.settle.note(path, sign, now_us),
            Message::Seen(Sighting::Folder(folder)) => {
                if let Some(watcher) = &mut self.watcher {
                    watcher.forget(&folder);
                }
                self.settle.note(folder, Sign::Finished, now_us);
            }
            Message::Seen(Sighting::Lost) => work.walk = Some(Walk::Moved),
            Message::Fetched(fetched) => {
                if self.fetched(fetched) {
                    self.tell(publish);
                }
            }
            Message::UnknownKid(issuer) => self.issuers.unknown_kid(&issuer, now_us),
            Message::Reload => {
                tracing::info!("reading everything again");
                self.issuers.hurry(now_us);
                *work = Work {
                    walk: Some(Walk::Reload),
                    issuers: true,
                    certificates: true,
                    settings: true,
                    retell: true,
                    ..Work::default()
                };
            }
            // Taken by the caller.
            Message::Stop => {}
        }
    }

    /// Adds what has come to rest, or is due by itself.
    fn gather(&mut self, work: &mut Work) {
        let now_us = self.clock.now().mono_us;
        for location in self.settle.take_due(now_us) {
            self.meant(&location, work);
        }
        let due = self.missing.extract_if(.., |_, at_us| *at_us <= now_us);
        let due: Vec<PathBuf> = due.map(|(file, _)| file).collect();
        self.give_up(due, work);
        if self.poll_us <= now_us {
            work.walk = work.walk.max(Some(Walk::Poll));
        }
    }

    fn work(&mut self, mut work: Work, publish: &mut Publish) {
        let mut changed = work.tell;
        if work.settings || work.retell {
            changed |= self.reread_settings(&mut work, publish);
        }
        if let Some(walk) = work.walk {
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
            self.tell(publish);
        }
    }

    fn tell(&mut self, publish: &mut Publish) {
        self.status.count_success(self.clock.now().unix_s);
        let snapshot = self.snapshot();
        publish(Change::Snapshot(snapshot));
    }

    fn snapshot(&mut self) -> Arc<Snapshot> {
        self.revision += 1;
        let (apis, issuers) = (self.catalogue.apis(), self.issuers.current());
        Arc::new(Snapshot { revision: self.revision, apis, issuers })
    }

    /// Starts the fetches whose time has come.
    fn fetch_due(&mut self) {
        for (name, source) in self.issuers.take_due(self.clock.now().mono_us) {
            fetch::start(&self.fetch, name, source, self.outbox.clone(), Message::Fetched);
        }
    }

    fn next_us(&self) -> u64 {
        let missing = self.missing.values().min().copied();
        let times = [self.settle.next_us(), missing, self.issuers.next_us()];
        times.into_iter().flatten().min().unwrap_or(u64::MAX).min(self.poll_us)
    }

    /// Shows and logs what is wrong under `key`, once.
    fn post(&self, key: &std::path::Path, diagnostics: Vec<Diagnostic>) {
        if self.status.post(key, diagnostics.clone()) == Posted::New {
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
    /// Reads everything again: SIGHUP.
    pub fn reload(&self) {
        drop(self.outbox.send(Message::Reload));
    }

    /// Ends the thread and waits for it.
    pub fn stop(mut self) {
        drop(self.outbox.send(Message::Stop));
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        drop(self.outbox.send(Message::Stop));
    }
}

/// How long a walk may keep away the next one.
fn poll_wait_us(walk_us: u64) -> u64 {
    let least_us = 1_000 * u64::from(limits::FILE_POLL_MS);
    least_us.max(walk_us.saturating_mul(limits::FILE_POLL_SHARE.into()))
}
