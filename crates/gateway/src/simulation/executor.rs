//! Runs tasks in an order that the seed decides.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};

use super::random::Random;

/// The role of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Client,
    /// The gateway's side of a client's connection.
    Gateway,
    Upstream,
    /// Never ends.
    KeyFetcher,
}

#[derive(Default)]
pub(super) struct Executor {
    tasks: RefCell<BTreeMap<usize, Task>>,
    created: Cell<usize>,
    queue: Arc<Mutex<Vec<usize>>>,
    allocations: Cell<u64>,
}

struct Task {
    role: Role,
    future: Pin<Box<dyn Future<Output = ()>>>,
    wakes: Arc<Wakes>,
}

/// Puts a task into the queue, once.
struct Wakes {
    task: usize,
    queued: AtomicBool,
    queue: Arc<Mutex<Vec<usize>>>,
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::Relaxed) {
            self.queue.lock().unwrap().push(self.task);
        }
    }
}

impl Executor {
    pub(super) fn spawn(&self, role: Role, future: impl Future<Output = ()> + 'static) {
        let task = self.created.get();
        self.created.set(task + 1);
        let queue = Arc::clone(&self.queue);
        let wakes = Arc::new(Wakes { task, queued: AtomicBool::new(false), queue });
        wakes.wake_by_ref();
        self.tasks.borrow_mut().insert(task, Task { role, future: Box::pin(future), wakes });
    }

    /// Polls one of the tasks that are awake. Returns false if there is none.
    pub(super) fn step(&self, random: &mut Random) -> bool {
        let next = {
            let mut queue = self.queue.lock().unwrap();
            if queue.is_empty() {
                return false;
            }
            let at = random.below(queue.len());
            queue.swap_remove(at)
        };
        // Not in the map while it runs, because it may spawn others.
        let Some(mut task) = self.tasks.borrow_mut().remove(&next) else { return true };
        task.wakes.queued.store(false, Ordering::Relaxed);
        let waker = Waker::from(Arc::clone(&task.wakes));
        let mut is_pending = false;
        let allocated = allocation_counter::measure(|| {
            is_pending = task.future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending();
        });
        if task.role == Role::Gateway {
            self.allocations.set(self.allocations.get() + allocated.count_total);
        }
        if is_pending {
            self.tasks.borrow_mut().insert(next, task);
        }
        true
    }

    /// How often the gateway's tasks have allocated memory.
    pub(super) fn allocations(&self) -> u64 {
        self.allocations.get()
    }

    pub(super) fn running(&self, role: Role) -> usize {
        self.tasks.borrow().values().filter(|task| task.role == role).count()
    }
}
