//! The listeners of inbound endpoints, which come and go with the artefacts.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use base::limits::{INBOUND_LISTENERS_MAX, INBOUND_RETRIES_MAX, INBOUND_RETRY_MS};
use model::{Diagnostic, Settings};

use super::bind::bind_all;
use super::runner::{self, Command, Commands, Running};
use crate::artefacts::Integration;
use crate::listen::{Listener, Protocol};
use crate::message::Serves;

/// The listeners, which a thread retries to open as long as their ports are in use.
pub(crate) struct Inbounds(Arc<Mutex<Listeners>>);

/// The open listeners, by the port in the artefact.
struct Listeners {
    clear: Kind,
    /// `None`: no listener has TLS, so that there are no certificates.
    tls: Option<Kind>,
    open: BTreeMap<u16, Open>,
    /// Diagnostics of the ports that cannot listen.
    diagnostics: BTreeMap<u16, Diagnostic>,
    /// Ends the thread that retries, when it is dropped.
    retries: Option<Sender<()>>,
}

/// Settings that listeners of a kind share with the one of `[integration]`.
struct Kind {
    ip: IpAddr,
    protocol: Protocol,
}

struct Open {
    address: SocketAddr,
    secure: bool,
}

impl Inbounds {
    pub(crate) fn new(settings: &Settings, clear: &Protocol, tls: &Protocol) -> Self {
        let (http, https) = (settings.integration.http, settings.integration.https);
        let has_certificates = https.or(settings.gateway.https).is_some();
        let kind = |own: Option<SocketAddr>, other: Option<SocketAddr>, protocol: &Protocol| {
            let ip = own.or(other).map_or(Ipv4Addr::LOCALHOST.into(), |address| address.ip());
            Kind { ip, protocol: protocol.clone() }
        };
        Self(Arc::new(Mutex::new(Listeners {
            clear: kind(http, https, clear),
            tls: has_certificates.then(|| kind(https, http, tls)),
            open: BTreeMap::new(),
            diagnostics: BTreeMap::new(),
            retries: None,
        })))
    }

    /// Closes the listeners that no inbound endpoint has any more, then opens the new ones, and those that could not be
    /// opened before. One that stays is not interrupted.
    pub(crate) fn follow(&self, integration: &Arc<Integration>, workers: &[Running]) {
        let commands: Vec<_> = workers.iter().map(|worker| worker.commands.clone()).collect();
        let mut listeners = self.lock();
        listeners.retries = None;
        listeners.close_unwanted(integration, &commands);
        if !listeners.open_wanted(integration, &commands) {
            return;
        }
        let (stop, stopped) = mpsc::channel();
        let (weak, integration) = (Arc::downgrade(&self.0), Arc::clone(integration));
        let retries = std::thread::Builder::new()
            .name("inbound".to_owned())
            .spawn(move || retry(&weak, &integration, &commands, &stopped));
        match retries {
            Ok(_) => listeners.retries = Some(stop),
            Err(error) => tracing::error!(%error, "the ports of inbound endpoints are not retried"),
        }
    }

    pub(crate) fn diagnostics(&self) -> Vec<Diagnostic> {
        self.lock().diagnostics.values().cloned().collect()
    }

    pub(crate) fn addresses(&self) -> Vec<(u16, SocketAddr)> {
        self.lock().open.iter().map(|(port, open)| (*port, open.address)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Listeners> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Retries until all are open, or others are wanted.
fn retry(
    listeners: &Weak<Mutex<Listeners>>,
    integration: &Integration,
    commands: &[Commands],
    stopped: &Receiver<()>,
) {
    let pause = Duration::from_millis(u64::from(INBOUND_RETRY_MS));
    for _ in 0..INBOUND_RETRIES_MAX {
        if stopped.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
            return;
        }
        let Some(listeners) = listeners.upgrade() else { return };
        let mut listeners = listeners.lock().unwrap_or_else(PoisonError::into_inner);
        // It may have been stopped while it waited for the lock.
        if stopped.try_recv() == Err(mpsc::TryRecvError::Disconnected)
            || !listeners.open_wanted(integration, commands)
        {
            return;
        }
    }
    tracing::error!(
        "ports of inbound endpoints stay closed until artefacts change: in use too long"
    );
}

impl Listeners {
    fn close_unwanted(&mut self, integration: &Integration, commands: &[Commands]) {
        let wanted: BTreeMap<_, _> = integration.ports().collect();
        let stays = |port: &u16, open: &Open| wanted.get(port) == Some(&open.secure);
        let gone: Vec<_> = self.open.extract_if(.., |port, open| !stays(port, open)).collect();
        for (port, open) in gone {
            let (done, closed) = mpsc::channel();
            for worker in commands {
                // Fails only if the worker has ended; likewise below.
                let _ = worker.send(Command::Close(Serves::Inbound(port), done.clone()));
            }
            drop(done);
            let address = open.address;
            if runner::all_done(&closed, commands.len()) {
                tracing::info!(%address, "inbound endpoint closed");
            } else {
                tracing::error!(%address, "a worker did not close an inbound endpoint in time");
                // The next change tries again.
                self.open.insert(port, open);
            }
        }
        self.diagnostics.clear();
    }

    /// Opens those that are not open yet. Returns whether one failed that may work later.
    fn open_wanted(&mut self, integration: &Integration, commands: &[Commands]) -> bool {
        let mut may_work_later = false;
        for (port, secure) in integration.ports() {
            if self.open.contains_key(&port) {
                continue;
            }
            let problem = match self.bind(port, secure, commands.len()) {
                Ok((address, listeners)) => {
                    self.diagnostics.remove(&port);
                    self.start(port, Open { address, secure }, listeners, commands);
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                    may_work_later = true;
                    format!("the port {port} is in use")
                }
                Err(error) => format!("cannot listen on the port {port}: {error}"),
            };
            let help =
                "choose another port, or free it: it is retried for a while, and with each change";
            if !self.diagnostics.contains_key(&port)
                && let Some(diagnostic) = integration.port_problem(port, problem, help)
            {
                tracing::error!("{diagnostic}");
                self.diagnostics.insert(port, diagnostic);
            }
        }
        may_work_later
    }

    fn kind(&self, secure: bool) -> Option<&Kind> {
        if secure { self.tls.as_ref() } else { Some(&self.clear) }
    }

    /// A listener for each worker.
    fn bind(
        &self,
        port: u16,
        secure: bool,
        count: usize,
    ) -> io::Result<(SocketAddr, Vec<TcpListener>)> {
        let kind = self.kind(secure).ok_or_else(|| {
            io::Error::other("it uses TLS, and neither `[integration]` nor `[gateway]` has `https`")
        })?;
        if self.open.len() >= INBOUND_LISTENERS_MAX {
            let text = format!("there are {INBOUND_LISTENERS_MAX} inbound endpoints already");
            return Err(io::Error::other(text));
        }
        bind_all(SocketAddr::new(kind.ip, port), count)
    }

    fn start(&mut self, port: u16, open: Open, listeners: Vec<TcpListener>, commands: &[Commands]) {
        let serves = Serves::Inbound(port);
        let Some(kind) = self.kind(open.secure) else { return };
        for (worker, socket) in commands.iter().zip(listeners) {
            let listener = Listener { protocol: kind.protocol.clone(), serves };
            let _ = worker.send(Command::Open(listener, socket));
        }
        tracing::info!(address = %open.address, "inbound endpoint opened");
        self.open.insert(port, open);
    }
}
