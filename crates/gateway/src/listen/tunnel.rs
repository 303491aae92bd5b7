//! Tunnels, after a requested 101: bytes are copied in both directions until both sides have ended, one fails, or
//! nothing moves for `TUNNEL_IDLE_MS_MAX`. Each protocol sends its head first.

use std::future::poll_fn;
use std::task::Poll;

use base::limits::TUNNEL_IDLE_MS_MAX;

use crate::exchange::client::Client;
use crate::forward::{Upload, UpstreamBody};
use crate::message::resources::Resources;

/// Whether both sides have ended, each in order. `moved`: as in [`Client::tunnel`].
pub(super) async fn run<C: Client>(
    client: &mut C,
    upstream: &mut UpstreamBody,
    resources: &Resources,
    moved: &dyn Fn(u64, u64),
) -> bool {
    upstream.begin_tunnel();
    client.watch().tunnels(true);
    client.watch().set(resources.deadline_us(TUNNEL_IDLE_MS_MAX));
    let (mut before, mut is_sent) = ((0, 0), false);
    let is_complete = poll_fn(|cx| {
        upstream.poll_upload(cx, client, resources);
        let sent = match is_sent {
            true => Poll::Ready(Ok(())),
            false => client.poll_send(cx, &mut upstream.source(&resources.buffers)),
        };
        is_sent = sent.is_ready();
        let now = (upstream.uploaded(), client.sent());
        if now != before {
            before = now;
            moved(now.0, now.1);
            client.watch().set(resources.deadline_us(TUNNEL_IDLE_MS_MAX));
        }
        match (upstream.connection.upload, sent) {
            (Upload::Stopped(_), _) | (_, Poll::Ready(Err(_))) => Poll::Ready(false),
            (Upload::Done, Poll::Ready(Ok(()))) => Poll::Ready(true),
            _ if client.watch().poll_expired(cx) => Poll::Ready(false),
            _ => Poll::Pending,
        }
    })
    .await;
    client.watch().tunnels(false);
    upstream.connection.release_buffers(&resources.buffers);
    if is_complete {
        upstream.end_tunnel();
    }
    is_complete
}
