//! Signals: what the operator asks of a running program.

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use crate::failure::Failure;

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// SIGINT (Ctrl-C) or SIGTERM.
    End,
    /// SIGHUP.
    Reload,
}

/// How waiting for an end ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    ByItself,
    AskedAgain,
}

/// Listens from its creation on, so that no signal ends the program unasked.
pub(crate) struct Signals {
    runtime: Runtime,
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    pub(crate) fn listen() -> Result<Self, Failure> {
        let told = |error| Failure::Unable(format!("cannot listen to signals: {error}"));
        let runtime = Builder::new_current_thread().enable_all().build().map_err(told)?;
        let inside = runtime.enter();
        let interrupt = signal(SignalKind::interrupt()).map_err(told)?;
        let terminate = signal(SignalKind::terminate()).map_err(told)?;
        let hang_up = signal(SignalKind::hangup()).map_err(told)?;
        drop(inside);
        Ok(Self { runtime, interrupt, terminate, hang_up })
    }

    /// Waits for the next one.
    pub(crate) fn next(&mut self) -> Asked {
        let Self { runtime, interrupt, terminate, hang_up } = self;
        runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => Asked::End,
                _ = terminate.recv() => Asked::End,
                _ = hang_up.recv() => Asked::Reload,
            }
        })
    }

    /// Waits until `done` tells, or its sender is gone; or until SIGINT or SIGTERM comes first.
    pub(crate) fn ended_before(&mut self, done: oneshot::Receiver<()>) -> Ended {
        let Self { runtime, interrupt, terminate, hang_up: _ } = self;
        runtime.block_on(async {
            tokio::select! {
                _ = done => Ended::ByItself,
                _ = interrupt.recv() => Ended::AskedAgain,
                _ = terminate.recv() => Ended::AskedAgain,
            }
        })
    }
}
