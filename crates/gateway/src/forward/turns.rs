//! Turns of a thread: only some connections of a pool begin in each, so that other clients are served in between.
//! A `connect(2)` takes up to some hundred microseconds, and thousands of requests may need one at the same time.

use std::cell::Cell;
use std::rc::Rc;

use base::limits::CONNECTS_PER_TURN;
use tokio::sync::Semaphore;
use tokio::task::yield_now;

use crate::tasks;

/// The connections of one pool that begin in the present turn of its thread: those to an endpoint that hangs never
/// delay those to another. A turn ends when the thread has polled its event queue.
#[derive(Debug)]
pub(crate) struct ConnectTurns {
    places: Semaphore,
    begun: Cell<usize>,
}

impl Default for ConnectTurns {
    fn default() -> Self {
        Self { places: Semaphore::new(CONNECTS_PER_TURN), begun: Cell::new(0) }
    }
}

impl ConnectTurns {
    /// Waits for a turn in which another connection may begin: first in, first out.
    pub(crate) async fn wait(self: &Rc<Self>) {
        // The semaphore is never closed.
        if let Ok(place) = self.places.acquire().await {
            place.forget();
        }
        let begun = self.begun.get();
        self.begun.set(begun + 1);
        if begun == 0 {
            let turns = Rc::clone(self);
            tasks::spawn(async move {
                yield_now().await;
                turns.places.add_permits(turns.begun.replace(0));
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use tokio::task::{LocalSet, spawn_local};

    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn connections_beyond_those_of_a_turn_wait_for_the_next_in_order() {
        let (turns, log) = (Rc::new(ConnectTurns::default()), Rc::new(RefCell::new(Vec::new())));
        let run = async {
            let count = 2 * CONNECTS_PER_TURN + 1;
            for number in 0..count {
                let (turns, log) = (Rc::clone(&turns), Rc::clone(&log));
                spawn_local(async move {
                    turns.wait().await;
                    log.borrow_mut().push(number);
                });
            }
            let mut seen = vec![0];
            while log.borrow().len() < count {
                // The event queue is polled before this returns.
                yield_now().await;
                let now = log.borrow().len();
                assert!(now - seen[seen.len() - 1] <= CONNECTS_PER_TURN, "{now} after {seen:?}");
                seen.push(now);
            }
            assert!(log.borrow().is_sorted());
        };
        LocalSet::new().run_until(run).await;
    }
}
