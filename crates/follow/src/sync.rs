//! Makes appended data durable, on its own thread, so that a slow disk delays no change.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Synchronises one file: at most one synchronisation runs, and at most one waits.
#[derive(Debug, Default)]
pub(crate) struct BackgroundSync(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    is_running: bool,
    /// The next synchronisation, for data written since the running one began.
    next: Option<Box<dyn FnOnce() -> io::Result<()> + Send>>,
    /// The first error. Afterwards the contents of the disk are uncertain.
    failure: Option<String>,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("failure", &self.failure).finish_non_exhaustive()
    }
}

impl BackgroundSync {
    /// Runs `sync`, which synchronises the whole file, after the one that is running.
    pub(crate) fn start(&self, sync: impl FnOnce() -> io::Result<()> + Send + 'static) {
        let mut state = lock(&self.0);
        state.next = Some(Box::new(sync));
        if state.is_running {
            return;
        }
        let shared = Arc::clone(&self.0);
        match thread::Builder::new().name("sync".to_owned()).spawn(move || run(&shared)) {
            Ok(_) => state.is_running = true,
            Err(error) => state.failure = Some(error.to_string()),
        }
    }

    /// # Errors
    /// If a synchronisation has failed.
    pub(crate) fn check(&self) -> io::Result<()> {
        let state = lock(&self.0);
        let failure = state.failure.as_ref();
        failure.map_or(Ok(()), |failure| Err(io::Error::other(failure.clone())))
    }

    /// Waits until none is running.
    #[cfg(test)]
    pub(crate) fn wait(&self) {
        while lock(&self.0).is_running {
            thread::yield_now();
        }
    }
}

fn run(shared: &Mutex<State>) {
    loop {
        let mut state = lock(shared);
        let Some(sync) = state.next.take() else {
            state.is_running = false;
            return;
        };
        drop(state);
        if let Err(error) = sync() {
            lock(shared).failure.get_or_insert(error.to_string());
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test whose thread is gone has failed")]

    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_stalled_disk_delays_no_change_and_many_writes_are_synchronised_together() {
        let (release, released) = mpsc::channel::<()>();
        let (sender, synchronised) = mpsc::channel();
        let sync = BackgroundSync::default();
        let first = sender.clone();
        sync.start(move || {
            first.send(0).unwrap();
            released.recv().map_err(io::Error::other)
        });
        assert_eq!(synchronised.recv().unwrap(), 0);
        for write in 1..=100 {
            let sender = sender.clone();
            sync.start(move || sender.send(write).map_err(io::Error::other));
        }
        release.send(()).unwrap();
        drop(sender);
        assert_eq!(synchronised.iter().collect::<Vec<_>>(), [100]);
        sync.wait();
        sync.check().unwrap();
    }

    #[test]
    fn the_first_failure_is_kept() {
        let sync = BackgroundSync::default();
        for result in [Ok(()), Err("first"), Err("second"), Ok(())] {
            sync.start(move || result.map_err(io::Error::other));
            sync.wait();
        }
        assert_eq!(sync.check().unwrap_err().to_string(), "first");
    }
}
