//! A gateway that follows its files: what `gateway` and `up` have in common.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use base::SystemClock;
use follow::{Board, Change, Fetch, Follower, Handle, Options};
use gateway::{Addresses, AdminPages, Gateway, Parts, StartError};
use model::{Diagnostic, LogFormat, LogSettings, Settings, UpstreamTls};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::sync::oneshot;
use tracing_subscriber::EnvFilter;
use wire::tls::ClientTls;

use super::signals::{Asked, Ended, Signals};
use crate::failure::Failure;

/// A running gateway and the follower that tells it what to serve.
pub(crate) struct Serving {
    gateway: Arc<Gateway>,
    follower: Handle,
    signals: Signals,
    pub(crate) settings: Settings,
}

/// Whom backends' and issuers' certificates are checked against, as last read.
type Trust = Arc<Mutex<Arc<ClientTls>>>;

impl Serving {
    /// Reads `configuration`, and serves what it says. When it returns, requests are answered.
    pub(crate) fn start(configuration: &Path) -> Result<Self, Failure> {
        let read = follow::read_settings(configuration);
        let (settings, warnings) = read.map_err(|refused| told(&refused.diagnostics))?;
        log_as(&settings.log);
        for warning in &warnings {
            tracing::warn!("{warning}");
        }
        raise_open_files();
        let signals = Signals::listen()?;
        let client_tls = client_tls(&settings.upstream_tls).map_err(Failure::Unable)?;
        let trust: Trust = Arc::new(Mutex::new(Arc::clone(&client_tls)));
        let options = Options {
            configuration: Some(configuration.to_owned()),
            clock: Arc::new(SystemClock::new()),
            fetch: fetch(&trust),
        };
        let (follower, snapshot) = Follower::load(settings.clone(), options)
            .map_err(|refused| told(&refused.diagnostics))?;
        let parts = Parts {
            certificates: follower.certificates(),
            client_tls,
            pages: texts(&follower.board()),
            build: env!("CARGO_PKG_VERSION"),
        };
        let gateway = Gateway::start(&settings, &snapshot, parts)
            .map_err(|error| not_started(&error, configuration))?;
        let gateway = Arc::new(gateway);
        pass_on_unknown_kids(&gateway, &follower)?;
        let publish = publish(Arc::clone(&gateway), trust);
        let follower = follower.watch(publish).map_err(|error| {
            Failure::Unable(format!("cannot start the thread that follows files: {error}"))
        })?;
        Ok(Self { gateway, follower, signals, settings })
    }

    pub(crate) fn addresses(&self) -> Addresses {
        self.gateway.addresses()
    }

    /// Serves until SIGINT or SIGTERM, then lets the requests under way finish, unless it is asked
    /// again.
    pub(crate) fn wait(self) -> Result<(), Failure> {
        let Self { gateway, follower, mut signals, settings } = self;
        while signals.next() == Asked::Reload {
            gateway.reopen_logs();
            follower.reload();
        }
        let drain_s = settings.gateway.drain_s;
        tracing::info!(drain_s, "ending; a second signal ends at once");
        let (told, done) = oneshot::channel();
        let ending = move || {
            // The follower holds the gateway to tell it changes.
            follower.stop();
            match Arc::into_inner(gateway).map_or(0, Gateway::drain) {
                0 => tracing::info!("ended; every request was answered"),
                cut => {
                    tracing::warn!(cut, "ended; what was still under way after `drain_s` was cut")
                }
            }
            // Nobody waits any more where a second signal came first.
            let _ = told.send(());
        };
        let spawned = thread::Builder::new().name("ending".to_owned()).spawn(ending);
        spawned.map_err(|error| Failure::Unable(format!("cannot end gently: {error}")))?;
        match signals.ended_before(done) {
            Ended::ByItself => Ok(()),
            Ended::AskedAgain => Err(Failure::Unable("ended at once, as asked twice".to_owned())),
        }
    }
}

/// What to do with each change, on the follower's thread.
fn publish(gateway: Arc<Gateway>, trust: Trust) -> follow::Publish {
    Box::new(move |change| match change {
        Change::Snapshot(snapshot) => gateway.apply(&snapshot),
        Change::Settings(settings) => {
            let mut trusted = trust.lock().unwrap_or_else(PoisonError::into_inner);
            match client_tls(&settings.upstream_tls) {
                Ok(new) => *trusted = new,
                Err(problem) => tracing::error!("the former authorities stay: {problem}"),
            }
            gateway.apply_settings(&settings, Arc::clone(&trusted));
        }
    })
}

/// Fetches with the trust of the moment.
fn fetch(trust: &Trust) -> Fetch {
    let trust = Arc::clone(trust);
    Arc::new(move |url| {
        let trusted = Arc::clone(&trust.lock().unwrap_or_else(PoisonError::into_inner));
        follow::https_fetch(trusted)(url)
    })
}

fn client_tls(settings: &UpstreamTls) -> Result<Arc<ClientTls>, String> {
    let read = |file: &PathBuf| {
        fs::read(file).map_err(|error| {
            format!("cannot read {}, named by `[upstream_tls] ca`: {error}", file.display())
        })
    };
    let authorities = settings.ca.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    ClientTls::new(&authorities, settings.system_roots)
        .map_err(|error| format!("`[upstream_tls]`: {error}"))
}

fn pass_on_unknown_kids(gateway: &Gateway, follower: &Follower) -> Result<(), Failure> {
    let Some(mut names) = gateway.take_unknown_kids() else { return Ok(()) };
    let ask = follower.on_unknown_kid();
    let spawned = thread::Builder::new().name("unknown-kids".to_owned()).spawn(move || {
        while let Some(issuer) = names.blocking_recv() {
            ask(&issuer);
        }
    });
    spawned.map(drop).map_err(|error| Failure::Unable(format!("cannot start a thread: {error}")))
}

fn texts(board: &Arc<Board>) -> AdminPages {
    let (for_page, for_metrics) = (Arc::clone(board), Arc::clone(board));
    AdminPages {
        diagnostics: Box::new(move || for_page.to_json()),
        metrics: Box::new(move || for_metrics.to_prometheus()),
    }
}

/// Shows what is wrong with files.
fn told(diagnostics: &[Diagnostic]) -> Failure {
    for diagnostic in diagnostics {
        super::note(&format!("{diagnostic}\n"));
    }
    Failure::Told
}

fn not_started(error: &StartError, configuration: &Path) -> Failure {
    Failure::Unable(format!("{error} in {}", configuration.display()))
}

fn log_as(settings: &LogSettings) {
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(&settings.level))
        .with_writer(std::io::stderr)
        .with_target(false)
        .with_ansi(false);
    match settings.format {
        LogFormat::Text => subscriber.init(),
        LogFormat::Json => subscriber.json().flatten_event(true).init(),
    }
}

/// Each connection is an open file, and many systems allow 1,024 unless asked for more.
fn raise_open_files() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, most)| setrlimit(Resource::RLIMIT_NOFILE, most, most));
    if let Err(error) = raised {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
}
