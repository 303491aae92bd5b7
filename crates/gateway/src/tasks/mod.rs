//! Tasks and timers of a worker's thread: those of tokio, or in tests of the simulation that runs on the thread.

pub(crate) mod boxed;
pub(crate) mod http2;
pub(crate) mod watch;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

#[cfg(test)]
use crate::simulation;

/// Runs `future` beside its caller.
pub(crate) fn spawn(future: impl Future<Output = ()> + 'static) {
    #[cfg(test)]
    if simulation::is_running() {
        return simulation::spawn(future);
    }
    tokio::task::spawn_local(future);
}

/// Lets the tasks go first that are ready now.
pub(crate) async fn step_aside() {
    let mut has_waited = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut has_waited, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

pub(crate) async fn sleep(ms: u64) {
    #[cfg(test)]
    if simulation::sleep(ms).await {
        return;
    }
    tokio::time::sleep(Duration::from_millis(ms)).await;
}

/// The output of `future`, or `None` after `ms` milliseconds.
pub(crate) async fn within<F: Future>(ms: u32, future: F) -> Option<F::Output> {
    let (mut future, mut time) = (pin!(future), pin!(sleep(ms.into())));
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => time.as_mut().poll(cx).map(|()| None),
    })
    .await
}
