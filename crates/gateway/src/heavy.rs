//! Heavy work: what takes longer than about a millisecond runs on threads of its own, so that the other requests of its
//! worker go on; they come after it where they share its CPU.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use base::limits::HEAVY_WORK_MAX;
use model::{Denial, Fault};
use tokio::sync::oneshot;

type Work = Box<dyn FnOnce() + Send>;

/// The nice value of the threads: a worker that shares their CPU goes first, and leaves them a tenth of it when it is busy.
/// Source: `sched(7)`; each step is about 1.25 times as much.
const NICE: i32 = 10;

/// Threads for heavy work, and a queue before them. They end when the last clone is dropped.
#[derive(Clone)]
pub(crate) struct HeavyPool {
    queue: SyncSender<Work>,
}

impl HeavyPool {
    /// Starts `threads` threads.
    ///
    /// # Errors
    /// The system provides no thread.
    pub(crate) fn start(threads: usize) -> io::Result<Self> {
        let (queue, work) = sync_channel(HEAVY_WORK_MAX);
        let work = Arc::new(Mutex::new(work));
        for number in 0..threads {
            let work = Arc::clone(&work);
            std::thread::Builder::new()
                .name(format!("heavy-{number}"))
                .spawn(move || run(&work))?;
        }
        Ok(Self { queue })
    }

    /// Runs `work`, which owns its data, on one of the threads.
    ///
    /// # Errors
    /// [`Denial::HeavyWorkQueued`]: the queue is full. `None`: the work panicked.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Option<T>, Box<Fault>> {
        let (done, result) = oneshot::channel();
        let queued = self.queue.try_send(Box::new(move || {
            // Nobody waits any more if the client left.
            if !done.is_closed() {
                let _ = done.send(work());
            }
        }));
        match queued {
            Ok(()) => Ok(result.await.ok()),
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                Err(Fault::Denied(Denial::HeavyWorkQueued).into())
            }
        }
    }
}

fn run(work: &Mutex<Receiver<Work>>) {
    // Of this thread alone, as Linux does it.
    if let Err(error) = rustix::process::setpriority_process(None, NICE) {
        tracing::warn!(%error, "cannot lower the priority of a thread for heavy work; it competes with the workers");
    }
    loop {
        // Held while waiting: the threads take turns.
        let next = work.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(next) = next else { return };
        // A panic, which the hook logs, ends this work alone: its result is missing.
        let _ = catch_unwind(AssertUnwindSafe(next));
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::mpsc::channel;
    use std::task::{Context, Poll, Waker};

    use model::FaultStatus;

    use super::*;

    #[test]
    fn a_full_queue_is_503002_and_what_is_queued_runs() {
        let cx = &mut Context::from_waker(Waker::noop());
        let pool = HeavyPool::start(1).unwrap();
        let (begin, begun) = channel();
        let (release, released) = channel::<()>();
        let mut first = pin!(pool.run(move || {
            begin.send(()).unwrap();
            let _ = released.recv();
        }));
        assert!(first.as_mut().poll(cx).is_pending());
        begun.recv().unwrap();
        let mut queued: Vec<_> =
            (0..HEAVY_WORK_MAX).map(|n| Box::pin(pool.run(move || n))).collect();
        assert!(queued.iter_mut().all(|work| work.as_mut().poll(cx).is_pending()));
        let Poll::Ready(Err(fault)) = pin!(pool.run(|| ())).poll(cx) else { panic!("it is full") };
        let response = crate::fault::response(&fault, Default::default(), FaultStatus::default());
        assert_eq!((response.status, response.code), (503, 503_002));
        drop(release);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for (n, work) in queued.into_iter().enumerate() {
            assert_eq!(runtime.block_on(work).unwrap(), Some(n));
        }
    }

    #[test]
    fn workers_go_before_heavy_work() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let pool = HeavyPool::start(1).unwrap();
        let own = || rustix::process::getpriority_process(None).unwrap();
        assert_eq!(runtime.block_on(pool.run(own)).unwrap(), Some(NICE));
        assert!(own() < NICE, "{}", own());
    }
}
