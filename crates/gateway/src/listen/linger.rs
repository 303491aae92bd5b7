//! The end of a connection whose client may still send.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use base::limits::{DRAIN_BYTES_MAX, DRAIN_MS_MAX};
use tokio::io::AsyncWrite;
use wire::stream::Stream;

use crate::body::buffer::Buffer;
use crate::body::{Lend, poll_read};
use crate::tasks::watch::Watch;
use crate::worker::Worker;

/// Shuts down the sending side, and drops data that the client still sends, so that the last response, or GOAWAY, is
/// not lost to a reset. Limited in time and bytes. Source: RFC 9112 section 9.6.
pub(super) async fn linger(
    worker: &Worker,
    stream: &mut Stream,
    buffer: &mut Buffer,
    watch: &Watch,
) {
    watch.set(worker.resources.deadline_us(DRAIN_MS_MAX));
    let (mut left, mut is_shut) = (DRAIN_BYTES_MAX as usize, false);
    poll_fn(|cx| {
        if !is_shut {
            match Pin::new(&mut *stream).poll_shutdown(cx) {
                Poll::Ready(Ok(())) => is_shut = true,
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Pending => {}
            }
        }
        loop {
            buffer.clear();
            match poll_read(cx, stream, buffer, Lend::Head(&worker.resources.buffers)) {
                Poll::Ready(Ok(count)) if count > 0 && count < left => left -= count,
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending if watch.poll_expired(cx) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
    })
    .await;
}
