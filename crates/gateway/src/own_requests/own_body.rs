//! The body of a request of the gateway's own.

use std::rc::Rc;
use std::task::{Context, Poll};

use model::Fault;

use crate::body::request_body::RequestBody;
use crate::body::{BodyError, Held, Source};
use crate::message::resources::Resources;
use crate::tasks::watch::Watch;

/// The body of a request of the gateway's own, whose sender waits until the end.
pub(crate) struct OwnBody {
    held: Held,
    watch: Rc<Watch>,
}

impl OwnBody {
    pub(crate) fn new(held: Held, resources: &Resources) -> Self {
        Self { held, watch: resources.watches.add() }
    }

    /// An empty body, with the watch of the waiting task.
    pub(crate) fn empty(watch: &Rc<Watch>) -> Self {
        Self { held: Held::default(), watch: Rc::clone(watch) }
    }
}

impl Source for OwnBody {
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        self.held.poll_fill(cx)
    }

    fn data(&self) -> &[u8] {
        self.held.data()
    }

    fn consume(&mut self, count: usize) {
        self.held.consume(count);
    }

    fn trailers(&self) -> &[u8] {
        self.held.trailers()
    }
}

impl RequestBody for OwnBody {
    fn poll_left(&mut self, _: &mut Context<'_>, _: bool) -> Poll<Box<Fault>> {
        Poll::Pending
    }

    fn consumed(&self) -> u64 {
        self.held.consumed()
    }

    fn can_restart(&self) -> bool {
        true
    }

    fn restart(&mut self) {
        self.held.restart();
    }

    fn held(&self) -> Option<&[u8]> {
        Some(self.held.data())
    }

    fn watch(&self) -> &Watch {
        &self.watch
    }

    fn has_half_closed(&self) -> bool {
        false
    }
}
