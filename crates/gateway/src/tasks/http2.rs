//! The futures that serve the streams of a connection. They run inside the connection's task, and their memory is lent
//! by the worker.

use std::any::Any;
use std::cell::{OnceCell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use base::limits::H2_SPARE_TASKS_MAX;

/// The memory of one future.
type Task<F> = Pin<Box<Option<F>>>;

/// A worker's spare memory for futures of one type, whose name only the module that makes them knows.
#[derive(Default)]
pub(crate) struct TaskPool(OnceCell<Rc<dyn Any>>);

struct Spares<F>(RefCell<Vec<Task<F>>>);

/// The futures of one connection, by slot.
pub(crate) struct Tasks<F> {
    slots: Vec<Option<Task<F>>>,
    running: usize,
    /// `None` if the pool is of another type, which never happens: then memory is allocated.
    spares: Option<Rc<Spares<F>>>,
}

impl<F: Future<Output = ()> + 'static> Tasks<F> {
    pub(crate) fn new(pool: &TaskPool) -> Self {
        let spares = pool.0.get_or_init(|| Rc::new(Spares::<F>(RefCell::default())));
        let spares = Rc::clone(spares).downcast::<Spares<F>>().ok();
        Self { slots: Vec::new(), running: 0, spares }
    }

    /// Whether none runs.
    pub(crate) fn is_empty(&self) -> bool {
        self.running == 0
    }

    /// Adds the future of `slot`, which has none.
    pub(crate) fn add(&mut self, slot: usize, future: F) {
        let spare = self.spares.as_ref().and_then(|spares| spares.0.borrow_mut().pop());
        let mut task = spare.unwrap_or_else(|| Box::pin(None));
        task.set(Some(future));
        if self.slots.len() <= slot {
            self.slots.resize_with(slot + 1, || None);
        }
        if let Some(place) = self.slots.get_mut(slot) {
            *place = Some(task);
            self.running += 1;
        }
    }

    /// Polls the future of `slot`, if it has one. A panic ends that future and no other.
    pub(crate) fn poll(&mut self, slot: usize, cx: &mut Context<'_>) {
        let Some(place) = self.slots.get_mut(slot) else { return };
        let Some(task) = place else { return };
        let poll = || task.as_mut().as_pin_mut().map_or(Poll::Ready(()), |future| future.poll(cx));
        // State that a future shares with others stays consistent: its guards release it when dropped.
        if matches!(catch_unwind(AssertUnwindSafe(poll)), Ok(Poll::Pending)) {
            return;
        }
        task.set(None);
        self.running -= 1;
        if let (Some(task), Some(spares)) = (place.take(), &self.spares) {
            let mut spares = spares.0.borrow_mut();
            if spares.len() < H2_SPARE_TASKS_MAX {
                spares.push(task);
            }
        }
    }
}
