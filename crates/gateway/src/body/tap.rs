//! Taps: who watches a body pass.

use std::task::{Context, Poll};

use super::{BodyError, Source};

/// Sees the bytes of a body as they pass to the client, without holding them up.
pub(crate) trait Tap {
    fn pass(&mut self, bytes: &[u8]);
    /// After the last byte. `is_complete`: the client has all of them.
    fn end(self: Box<Self>, is_complete: bool);
}

/// A body with a tap. It is never spliced, since its bytes would not be seen.
pub(crate) struct Tapped<'t, S> {
    pub(crate) source: &'t mut S,
    pub(crate) tap: &'t mut dyn Tap,
}

impl<S: Source> Source for Tapped<'_, S> {
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        self.source.poll_fill(cx)
    }

    fn poll_gather(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        self.source.poll_gather(cx)
    }

    fn data(&self) -> &[u8] {
        self.source.data()
    }

    fn consume(&mut self, count: usize) {
        self.tap.pass(self.source.data().get(..count).unwrap_or_default());
        self.source.consume(count);
    }

    fn trailers(&self) -> &[u8] {
        self.source.trailers()
    }

    fn park(&mut self) {
        self.source.park();
    }
}
