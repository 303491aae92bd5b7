//! Signals: what the operator asks of a running program.

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// SIGINT (Ctrl-C) or SIGTERM.
    End,
    /// SIGHUP.
    Reload,
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

    /// From here on SIGINT or SIGTERM ends the program at once, with 1.
    pub(crate) fn end_at_next(mut self) {
        let spawned = std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            while self.next() != Asked::End {}
            eprintln!("penstock: ended at once, as asked twice");
            std::process::exit(1);
        });
        if let Err(error) = spawned {
            tracing::warn!(%error, "a second signal will not end the program at once");
        }
    }
}
