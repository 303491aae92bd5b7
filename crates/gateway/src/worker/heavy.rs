//! Heavy work: steps longer than about a millisecond run on threads of their own, so that the other requests of the
//! worker go on; the threads have a lower priority where they share its CPU. Clients take turns, however much work each
//! of them has.

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::limits::HEAVY_WORK_MAX;
use model::{Denial, Fault};
use tokio::sync::oneshot;

use crate::shares::clients::network;

type Work = Box<dyn FnOnce() + Send>;

/// The nice value of the threads: a worker that shares their CPU goes first, and leaves them a tenth of it when it is
/// busy. Source: `sched(7)`; each step is about 1.25 times as much.
const NICE: i32 = 10;

/// Threads for heavy work, and a queue before them. They end when the last clone is dropped.
#[derive(Clone)]
pub(crate) struct HeavyPool {
    waiting: Arc<Mutex<Waiting>>,
    /// One for each piece of work that waits.
    tickets: SyncSender<()>,
}

/// Work that waits, by client.
#[derive(Default)]
struct Waiting {
    /// Networks of clients in the order of their turns. Each has work.
    turns: VecDeque<(u128, VecDeque<Work>)>,
    count: usize,
}

impl Waiting {
    /// Whether there was a place. A client has at most as many as are left: alone half of all, with another one a
    /// third. So a place is left for others. Source: Choudhury and Hahne, Dynamic Queue Length Thresholds, 1998.
    fn push(&mut self, client: u128, work: Work) -> bool {
        let left = HEAVY_WORK_MAX.saturating_sub(self.count);
        match self.turns.iter_mut().find(|(of, _)| *of == client) {
            Some((_, own)) if own.len() < left => own.push_back(work),
            None if left > 0 => self.turns.push_back((client, VecDeque::from([work]))),
            _ => return false,
        }
        self.count += 1;
        true
    }

    fn pop(&mut self) -> Option<Work> {
        let (client, mut own) = self.turns.pop_front()?;
        let work = own.pop_front();
        if !own.is_empty() {
            self.turns.push_back((client, own));
        }
        self.count = self.count.saturating_sub(1);
        work
    }
}

impl HeavyPool {
    /// Starts `threads` threads.
    ///
    /// # Errors
    /// The system provides no thread.
    pub(crate) fn start(threads: usize) -> io::Result<Self> {
        let (tickets, taken) = sync_channel(HEAVY_WORK_MAX);
        let (waiting, taken) = (Arc::<Mutex<Waiting>>::default(), Arc::new(Mutex::new(taken)));
        for number in 0..threads {
            let (waiting, taken) = (Arc::clone(&waiting), Arc::clone(&taken));
            std::thread::Builder::new()
                .name(format!("heavy-{number}"))
                .spawn(move || run(&waiting, &taken))?;
        }
        Ok(Self { waiting, tickets })
    }

    /// Runs `work`, which owns its data, on one of the threads, when it is the turn of the client at `address`.
    ///
    /// # Errors
    /// [`Denial::HeavyWorkQueued`]: too much work waits. `None`: the work panicked.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        address: IpAddr,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Option<T>, Box<Fault>> {
        let (done, result) = oneshot::channel();
        let work = Box::new(move || {
            // Skipped if the client left.
            if !done.is_closed() {
                let _ = done.send(work());
            }
        });
        let has_place = lock(&self.waiting).push(network(address), work);
        if !has_place || self.tickets.try_send(()).is_err() {
            return Err(Fault::Denied(Denial::HeavyWorkQueued).into());
        }
        Ok(result.await.ok())
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run(waiting: &Mutex<Waiting>, taken: &Mutex<Receiver<()>>) {
    // Linux applies the value to this thread alone.
    if let Err(error) = rustix::process::setpriority_process(None, NICE) {
        tracing::warn!(%error, "cannot lower the priority of a thread for heavy work; it competes with the workers");
    }
    loop {
        // Held while waiting: the threads take turns.
        if lock(taken).recv().is_err() {
            return;
        }
        let next = lock(waiting).pop();
        // A panic, which the hook logs, ends this work alone: its result is missing.
        let _ = catch_unwind(AssertUnwindSafe(|| next.map(|work| work())));
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::mpsc::{Sender, channel};
    use std::task::{Context, Poll, Waker};

    use model::FaultStatus;

    use super::*;

    fn client(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    /// A pool whose only thread waits until the sender is dropped.
    fn busy_pool() -> (HeavyPool, Sender<()>) {
        let pool = HeavyPool::start(1).unwrap();
        let (begin, begun) = channel();
        let (release, released) = channel::<()>();
        let cx = &mut Context::from_waker(Waker::noop());
        let mut first = Box::pin(pool.run(client(0), move || {
            begin.send(()).unwrap();
            let _ = released.recv();
        }));
        assert!(first.as_mut().poll(cx).is_pending());
        begun.recv().unwrap();
        drop(first);
        (pool, release)
    }

    #[test]
    fn a_client_has_as_much_work_waiting_as_there_are_places_left_and_more_is_503002() {
        let cx = &mut Context::from_waker(Waker::noop());
        let (pool, release) = busy_pool();
        let mut queued = Vec::new();
        for (last, places) in
            [(1, HEAVY_WORK_MAX / 2), (2, HEAVY_WORK_MAX / 4), (3, HEAVY_WORK_MAX / 8)]
        {
            for n in 0..places {
                let mut work = Box::pin(pool.run(client(last), move || n));
                assert!(work.as_mut().poll(cx).is_pending(), "{n} of {last}");
                queued.push((n, work));
            }
            let more = pin!(pool.run(client(last), || 0)).poll(cx);
            let Poll::Ready(Err(fault)) = more else { panic!("{last} has its share") };
            let response = crate::exchange::fault::response(
                &fault,
                Default::default(),
                FaultStatus::default(),
            );
            assert_eq!((response.status, response.code), (503, 503_002));
        }
        drop(release);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for (n, work) in queued {
            assert_eq!(runtime.block_on(work).unwrap(), Some(n));
        }
    }

    #[test]
    fn clients_take_turns() {
        let cx = &mut Context::from_waker(Waker::noop());
        let (pool, release) = busy_pool();
        let ran = Arc::new(Mutex::new(String::new()));
        let mut queued = Vec::new();
        for (last, name) in [(1, 'a'), (1, 'b'), (1, 'c'), (2, 'd'), (2, 'e'), (3, 'f')] {
            let ran = Arc::clone(&ran);
            let mut work = Box::pin(pool.run(client(last), move || ran.lock().unwrap().push(name)));
            assert!(work.as_mut().poll(cx).is_pending());
            queued.push(work);
        }
        drop(release);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for work in queued {
            assert_eq!(runtime.block_on(work).unwrap(), Some(()));
        }
        assert_eq!(*ran.lock().unwrap(), "adfbec");
    }

    #[test]
    fn workers_go_before_heavy_work() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let pool = HeavyPool::start(1).unwrap();
        let own = || rustix::process::getpriority_process(None).unwrap();
        assert_eq!(runtime.block_on(pool.run(client(1), own)).unwrap(), Some(NICE));
        assert!(own() < NICE, "{}", own());
    }
}
