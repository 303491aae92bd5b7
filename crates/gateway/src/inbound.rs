//! The listeners of inbound endpoints, which come and go with the artefacts.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::mpsc;

use base::limits::INBOUND_LISTENERS_MAX;
use model::{Diagnostic, Settings};

use crate::bind_all;
use crate::integration::Integration;
use crate::listen::{Listener, Protocol};
use crate::message::Serves;
use crate::runner::{self, Command, Running};

/// What listens now, by the port in the artefact.
pub(crate) struct Inbounds {
    clear: Kind,
    /// `None`: no listener has TLS, so that there are no certificates.
    tls: Option<Kind>,
    open: BTreeMap<u16, Open>,
    /// Those that cannot listen.
    diagnostics: Vec<Diagnostic>,
}

/// What listeners of a kind have in common with the one of `[integration]`.
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
        Self {
            clear: kind(http, https, clear),
            tls: has_certificates.then(|| kind(https, http, tls)),
            open: BTreeMap::new(),
            diagnostics: Vec::new(),
        }
    }

    /// Closes the listeners that no inbound endpoint has any more, then opens the new ones, and those that could not be
    /// opened before. One that stays is not interrupted.
    pub(crate) fn follow(&mut self, integration: &Integration, workers: &[Running]) {
        let wanted: BTreeMap<_, _> = integration.ports().collect();
        let stays = |port: &u16, open: &Open| wanted.get(port) == Some(&open.secure);
        let gone: Vec<_> = self.open.extract_if(.., |port, open| !stays(port, open)).collect();
        for (port, Open { address, .. }) in gone {
            let (done, closed) = mpsc::channel();
            for worker in workers {
                // Fails only if the worker has ended; likewise below.
                let _ = worker.commands.send(Command::Close(Serves::Inbound(port), done.clone()));
            }
            drop(done);
            runner::all_done(&closed, workers.len());
            tracing::info!(%address, "inbound endpoint closed");
        }
        self.diagnostics.clear();
        for (port, secure) in wanted {
            if self.open.contains_key(&port) {
                continue;
            }
            let problem = match self.bind(port, secure, workers.len()) {
                Ok((address, listeners)) => {
                    self.start(port, Open { address, secure }, listeners, workers);
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                    format!("the port {port} is in use")
                }
                Err(error) => format!("cannot listen on the port {port}: {error}"),
            };
            let help = "choose another port, or free it and change a file of artefacts";
            if let Some(diagnostic) = integration.port_problem(port, problem, help) {
                tracing::error!("{diagnostic}");
                self.diagnostics.push(diagnostic);
            }
        }
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
            io::Error::other("it uses TLS, and `https` of `[integration]` is not set")
        })?;
        if self.open.len() >= INBOUND_LISTENERS_MAX {
            let text = format!("there are {INBOUND_LISTENERS_MAX} inbound endpoints already");
            return Err(io::Error::other(text));
        }
        bind_all(SocketAddr::new(kind.ip, port), count)
    }

    fn start(&mut self, port: u16, open: Open, listeners: Vec<TcpListener>, workers: &[Running]) {
        let serves = Serves::Inbound(port);
        let Some(kind) = self.kind(open.secure) else { return };
        for (worker, socket) in workers.iter().zip(listeners) {
            let listener = Listener { protocol: kind.protocol.clone(), serves };
            let _ = worker.commands.send(Command::Open(listener, socket));
        }
        tracing::info!(address = %open.address, "inbound endpoint opened");
        self.open.insert(port, open);
    }

    pub(crate) fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    pub(crate) fn addresses(&self) -> Vec<(u16, SocketAddr)> {
        self.open.iter().map(|(port, open)| (*port, open.address)).collect()
    }
}
