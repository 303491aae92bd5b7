//! One API's account on one worker.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use stages::ApiRoutes;

use super::counters::{ApiCounters, OperationCounters};

/// An API in one revision, and the counters of its requests, which outlive the revision.
#[derive(Debug)]
pub(crate) struct ApiAccount {
    pub(crate) routes: Arc<ApiRoutes>,
    pub(crate) counters: Rc<ApiCounters>,
    /// By operation, created at first use. The last one is for requests that matched no operation.
    operations: RefCell<Vec<Option<Rc<OperationCounters>>>>,
    /// Another revision took its place.
    is_replaced: Cell<bool>,
}

impl ApiAccount {
    pub(crate) fn new(routes: &Arc<ApiRoutes>, counters: Rc<ApiCounters>) -> Self {
        Self {
            operations: RefCell::new(vec![None; routes.api.operations.len() + 1]),
            routes: Arc::clone(routes),
            counters,
            is_replaced: Cell::new(false),
        }
    }

    /// Holds no counters from now on, since an exchange may hold this account for long, such as a tunnel.
    pub(crate) fn replaced(&self) {
        self.is_replaced.set(true);
        self.operations.borrow_mut().fill(None);
    }

    /// Drops the counters of operations that the API no longer has.
    pub(crate) fn forget_gone(&self, now_us: u64) {
        let operations = &self.routes.api.operations;
        self.counters.forget_gone(now_us, |known| {
            let same = |found: &model::Operation| {
                found.method.as_str() == known.method && *found.template == *known.template
            };
            operations.iter().any(same)
        });
    }

    /// Counts one finished request.
    pub(crate) fn count(&self, operation: Option<usize>, status: u16, us: u64, sent: u64) {
        let mut handles = self.operations.borrow_mut();
        let last = handles.len().saturating_sub(1);
        let Some(handle) = handles.get_mut(operation.unwrap_or(last)) else { return };
        let handle = handle.get_or_insert_with(|| {
            match operation.and_then(|index| self.routes.api.operations.get(index)) {
                Some(found) => self.counters.operation(found.method.as_str(), &found.template),
                None => self.counters.operation("", ""),
            }
        });
        self.counters.add(handle, status, us, sent);
        if self.is_replaced.get() {
            handles.fill(None);
        }
    }
}
