//! Futures on the heap: rare or large ones would enlarge the future that awaits them.

use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

pin_project! {
    /// A future that is made where it stays.
    pub(crate) struct Placed<F> {
        // There is always one, except while it is made.
        #[pin]
        future: Option<F>,
    }
}

/// The future that `make` returns. `Box::pin` would make it on the stack and copy all of it, although most of a new
/// future is empty.
#[inline(always)]
pub(crate) fn boxed<F: Future>(make: impl FnOnce() -> F) -> Pin<Box<Placed<F>>> {
    let mut place = Box::into_pin(Box::<Placed<F>>::default());
    place.as_mut().project().future.set(Some(make()));
    place
}

impl<F> Default for Placed<F> {
    #[inline(always)]
    fn default() -> Self {
        Self { future: None }
    }
}

impl<F: Future> Future for Placed<F> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        self.project().future.as_pin_mut().map_or(Poll::Pending, |future| future.poll(context))
    }
}
