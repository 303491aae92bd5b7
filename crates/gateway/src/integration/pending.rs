//! Events that a run waits for: exchanges, bodies and timers, all at once.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use base::limits::MEDIATED_EXCHANGES_MAX;
use bytes::Bytes;
use mediation::{Answer, AskId};
use model::Fault;

use super::exchange::{self, Sender};
use super::response::Returned;
use crate::forward::{UpstreamBody, UpstreamResponse};
use crate::message::resources::Resources;
use crate::shares::gate::Pass;

/// An event that a run waits for.
pub(super) struct Pending {
    /// The turn of a message that is sent, and holds a connection.
    pub(super) turn: Option<Pass>,
    pub(super) future: Pin<Box<dyn Future<Output = Answered>>>,
}

/// The answer to an ask, and the body that is still to come.
pub(super) struct Answered {
    pub(super) ask: AskId,
    pub(super) answer: Answer,
    pub(super) stream: Option<UpstreamBody>,
}

/// Polls the timers and the oldest exchanges: a limited number, so that one request does not take all connections of a
/// worker. Returns the answers.
pub(super) fn poll_pending(pending: &mut Vec<Pending>, cx: &mut Context<'_>) -> Vec<Answered> {
    let mut answers = Vec::new();
    let mut exchanges = 0;
    pending.retain_mut(|Pending { turn, future }| {
        if turn.is_some() && exchanges == MEDIATED_EXCHANGES_MAX {
            return true;
        }
        match future.as_mut().poll(cx) {
            Poll::Ready(answered) => {
                answers.push(answered);
                false
            }
            Poll::Pending => {
                exchanges += usize::from(turn.is_some());
                true
            }
        }
    });
    answers
}

/// The output of `future`, and the answers that arrived meanwhile.
pub(super) async fn alongside<F: Future>(
    pending: &mut Vec<Pending>,
    mut future: Pin<&mut F>,
) -> (F::Output, Vec<Answered>) {
    let mut answers = Vec::new();
    let output = poll_fn(|cx| {
        answers.append(&mut poll_pending(pending, cx));
        future.as_mut().poll(cx)
    })
    .await;
    (output, answers)
}

/// The answer to a message that was sent.
pub(super) fn answered(
    resources: &Resources,
    ask: AskId,
    sent: Result<UpstreamResponse, Box<Fault>>,
    sender: Sender,
    bytes: Option<Bytes>,
) -> Answered {
    match sent {
        Ok(response) => {
            let body_bytes_max = sender.environment().body_bytes_max;
            let checked = sender.checked.take();
            sender.release(resources);
            let Returned { head, mut stream } = Returned::of(response, resources);
            let is_empty = stream.is_none() && checked.is_none();
            let mut message = exchange::response(head, is_empty, body_bytes_max);
            if let Some(checked) = checked {
                if let Some(read) = stream.take() {
                    read.release(resources, checked.body.is_ok());
                }
                match checked.body {
                    Ok(body) => message.body = body,
                    Err(failure) => {
                        return Answered { ask, answer: Answer::Failed(failure, None), stream };
                    }
                }
            }
            Answered { ask, answer: Answer::Response(message), stream }
        }
        Err(fault) => {
            let message = Some(sender.into_message(bytes));
            let answer = Answer::Failed(exchange::failure(&fault), message);
            Answered { ask, answer, stream: None }
        }
    }
}
