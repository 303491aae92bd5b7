//! SIGINT, SIGTERM and SIGHUP as events.

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use crate::failure::Failure;

/// Request of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// SIGINT (Ctrl-C) or SIGTERM.
    Stop,
    /// SIGHUP.
    Reload,
}

/// How a shutdown ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shutdown {
    Complete,
    /// A second SIGINT or SIGTERM came first.
    Forced,
}

/// From its creation on, the signals no longer end the process.
pub(crate) struct Signals {
    runtime: Runtime,
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    pub(crate) fn listen() -> Result<Self, Failure> {
        let failed = |error| Failure::Error(format!("cannot install signal handlers: {error}"));
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let inside = runtime.enter();
        let interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        let terminate = signal(SignalKind::terminate()).map_err(failed)?;
        let hang_up = signal(SignalKind::hangup()).map_err(failed)?;
        drop(inside);
        Ok(Self { runtime, interrupt, terminate, hang_up })
    }

    /// Waits for the next signal.
    pub(crate) fn next(&mut self) -> Event {
        let Self { runtime, interrupt, terminate, hang_up } = self;
        runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => Event::Stop,
                _ = terminate.recv() => Event::Stop,
                _ = hang_up.recv() => Event::Reload,
            }
        })
    }

    /// Waits until `done` fires or its sender is dropped, or for the next SIGINT or SIGTERM.
    pub(crate) fn wait_for_shutdown(&mut self, done: oneshot::Receiver<()>) -> Shutdown {
        let Self { runtime, interrupt, terminate, hang_up: _ } = self;
        runtime.block_on(async {
            tokio::select! {
                _ = done => Shutdown::Complete,
                _ = interrupt.recv() => Shutdown::Forced,
                _ = terminate.recv() => Shutdown::Forced,
            }
        })
    }
}
