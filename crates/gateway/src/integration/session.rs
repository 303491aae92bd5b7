//! A run of mediation with what its host does for it: exchanges, bodies and timers.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use base::limits::MEDIATED_EXCHANGES_MAX;
use bytes::Bytes;
use mediation::{
    Answer, Ask, AskId, Body, BodyUse, Code, Event, Exchange, Failure, Message, Run, Source,
};
use model::{Blame, Denial, Fault};
use wire::http1::BodyFraming;

use super::RunEnvironment;
use super::exchange::{self, ApiUpstream, Sender};
use crate::account::bump;
use crate::admission::Places;
use crate::compiled::Compiled;
use crate::deliver::{Stall, upstream_fault};
use crate::flow::{BodyError, Held};
use crate::forward::{
    OwnBody, RequestBody, Unwanted, Upload, UpstreamBody, UpstreamResponse, body_fault,
    while_wanted,
};
use crate::held::{Hold, HoldError, Holding};
use crate::message::Peer;
use crate::resources::Resources;
use crate::watch::Pace;
use crate::worker::Worker;

/// What a run waits for.
struct Pending {
    /// It holds a connection, and is no timer.
    is_exchange: bool,
    future: Pin<Box<dyn Future<Output = Answered>>>,
}

/// The answer to an ask, and the body that is still to come.
struct Answered {
    ask: AskId,
    answer: Answer,
    stream: Option<UpstreamBody>,
}

/// What a run has for its client.
pub(super) enum Outcome {
    Respond(Box<Message>, Source),
    /// An empty 202, and the run goes on.
    Accepted,
    Failed(Failure),
    /// Nothing is left to do.
    Done,
}

/// The client as long as it waits for its response, and the framing of its body.
pub(super) struct Waiting<'c, B> {
    pub(super) client: &'c mut B,
    pub(super) framing: BodyFraming,
}

/// A run, what it waits for, and the bodies that stream meanwhile.
pub(super) struct Session {
    pub(super) worker: Rc<Worker>,
    pub(super) revision: Rc<Compiled>,
    pub(super) peer: Rc<Peer>,
    pub(super) environment: RunEnvironment,
    /// Where requests go that have no other address.
    pub(super) upstream: Option<ApiUpstream>,
    pub(super) holding: Holding,
    /// The request's places in the shares, if the run goes on after its response.
    pub(super) places: Places,
    /// `None` while a thread for heavy work has it, or after a panic.
    pub(super) run: Option<Run>,
    pending: Vec<Pending>,
    /// Bodies of responses that nobody read yet.
    streams: HashMap<AskId, UpstreamBody>,
}

impl Session {
    pub(super) fn new(
        worker: Rc<Worker>,
        revision: Rc<Compiled>,
        peer: Rc<Peer>,
        environment: RunEnvironment,
        run: Run,
    ) -> Self {
        let live = &revision.live;
        let holding = worker.held.holding(live.held_body_bytes_max, live.held_bytes_max);
        let (pending, streams) = Default::default();
        let (run, places, upstream) = (Some(run), Places::default(), None);
        Self {
            worker,
            revision,
            peer,
            environment,
            upstream,
            holding,
            places,
            run,
            pending,
            streams,
        }
    }

    /// Whether something is left to do: exchanges and timers are outstanding, or branches go on.
    pub(super) fn is_waiting(&self) -> bool {
        let goes_on = self.run.as_ref().is_some_and(|run| !run.is_done());
        goes_on || !self.pending.is_empty()
    }

    /// The body of a response, if it streams.
    pub(super) fn take_stream(&mut self, source: Source) -> Option<UpstreamBody> {
        match source {
            Source::Response(ask) => self.streams.remove(&ask),
            Source::Request => None,
        }
    }

    /// Runs until there is something for the client, or nothing is left to do.
    ///
    /// # Errors
    /// The client left, its body cannot be held, or there is too much heavy work.
    pub(super) async fn go<B: RequestBody>(
        &mut self,
        client: &mut Option<Waiting<'_, B>>,
    ) -> Result<Outcome, Fault> {
        loop {
            match self.next(client).await? {
                Event::Ask(ask, Ask::Timer(ms)) => {
                    let future = Box::pin(async move {
                        tokio::time::sleep(Duration::from_millis(ms)).await;
                        Answered { ask, answer: Answer::Elapsed, stream: None }
                    });
                    self.pending.push(Pending { is_exchange: false, future });
                }
                Event::Ask(ask, Ask::Body(source)) => {
                    let held = self.hold(source, client).await?;
                    let failed = |failure| Answer::Failed(failure, None);
                    let answer = held.map_or_else(failed, Answer::Body);
                    self.answer(Answered { ask, answer, stream: None });
                }
                Event::Ask(ask, Ask::Exchange(exchange)) => {
                    self.send(ask, *exchange, client).await?;
                }
                Event::Waiting => {
                    let pending = &mut self.pending;
                    let next = poll_fn(|cx| match poll_pending(pending, cx) {
                        answers if answers.is_empty() => Poll::Pending,
                        answers => Poll::Ready(answers),
                    });
                    let answers = while_waiting(client, next).await?;
                    answers.into_iter().for_each(|answered| self.answer(answered));
                }
                Event::Respond(message, source) => {
                    return Ok(Outcome::Respond(Box::new(message), source));
                }
                Event::Accepted => return Ok(Outcome::Accepted),
                Event::Failed(failure) => return Ok(Outcome::Failed(failure)),
                Event::Done | Event::Heavy => return Ok(Outcome::Done),
            }
        }
    }

    /// The next event. What takes long runs on a thread for heavy work.
    async fn next<B: RequestBody>(
        &mut self,
        client: &mut Option<Waiting<'_, B>>,
    ) -> Result<Event, Fault> {
        let Some(run) = &mut self.run else { return Ok(Event::Done) };
        let event = run.next(&self.environment);
        if !matches!(event, Event::Heavy) {
            return Ok(event);
        }
        let Some(mut run) = self.run.take() else { return Ok(Event::Done) };
        let environment = self.environment.clone();
        bump(&self.worker.tally.heavy_work);
        let work = self.worker.heavy.run(move || {
            let event = run.next_heavy(&environment);
            (run, event)
        });
        let Some((run, event)) = while_waiting(client, work).await?? else {
            return Ok(Event::Failed(Failure::new(Code::MEDIATION, "a mediator panicked")));
        };
        self.run = Some(run);
        Ok(event)
    }

    /// Sends a message: at once with the client's body if that streams, otherwise beside others.
    async fn send<B: RequestBody>(
        &mut self,
        ask: AskId,
        exchange: Exchange,
        client: &mut Option<Waiting<'_, B>>,
    ) -> Result<(), Fault> {
        let is_streaming = exchange.message.body.state() == BodyUse::Untouched;
        let (worker, revision) = (Rc::clone(&self.worker), Rc::clone(&self.revision));
        if is_streaming
            && exchange.source == Source::Request
            && !exchange::has_recipients(&self.environment, &exchange.target)
            && let Some(Waiting { client, framing }) = client
            && client.can_restart()
        {
            let sender = self.sender(ask, exchange, *framing);
            let (sent, answers) = {
                let sent = pin!(sender.run(&worker, &revision, &mut **client));
                alongside(&mut self.pending, sent).await
            };
            answers.into_iter().for_each(|answered| self.answer(answered));
            if let Err(fault) = &sent
                && fault.blame() == Blame::Client
            {
                return Err(fault.clone());
            }
            self.answer(answered(&worker.resources, ask, sent, sender, None));
            return Ok(());
        }
        let held = if is_streaming {
            self.hold(exchange.source, client).await?
        } else {
            Ok(exchange::written(&exchange.message.body))
        };
        let bytes = match held {
            Ok(bytes) => bytes,
            Err(failure) => {
                let answer = Answer::Failed(failure, Some(exchange.message));
                self.answer(Answered { ask, answer, stream: None });
                return Ok(());
            }
        };
        let framing = match bytes.len() {
            0 => BodyFraming::None,
            len => BodyFraming::Length(len as u64),
        };
        let holds = exchange.holds;
        let sender = self.sender(ask, exchange, framing);
        let (holding, stall) = (self.holding.clone(), self.stall());
        let future = Box::pin(async move {
            let mut body = OwnBody::new(Held::new(bytes.clone()), &worker.resources);
            let sent = sender.run(&worker, &revision, &mut body).await;
            let mut answered = answered(&worker.resources, ask, sent, sender, Some(bytes));
            if holds && let Some(stream) = answered.stream.take() {
                hold_answer(&worker, &mut answered.answer, stream, &holding, stall).await;
            }
            answered
        });
        self.pending.push(Pending { is_exchange: true, future });
        Ok(())
    }

    /// The limit for bodies without progress.
    fn stall(&self) -> Stall {
        let live = &self.revision.live;
        Stall { ms: live.stall_ms, min_rate: live.min_rate }
    }

    fn sender(&self, ask: AskId, exchange: Exchange, framing: BodyFraming) -> Sender {
        let properties = self.run.as_ref().and_then(|run| run.properties(ask));
        let environment = self.environment.clone();
        let sender = Sender::new(environment, exchange, properties, &self.peer, framing);
        sender.with_upstream(self.upstream.clone())
    }

    fn answer(&mut self, answered: Answered) {
        if let Some(stream) = answered.stream {
            self.streams.insert(answered.ask, stream);
        }
        if let Some(run) = &mut self.run {
            run.answer(answered.ask, answered.answer);
        }
    }

    /// Reads a body that streams.
    ///
    /// # Errors
    /// A fault of the client; the inner one is that of another receiver or of the upstream.
    pub(super) async fn hold<B: RequestBody>(
        &mut self,
        source: Source,
        client: &mut Option<Waiting<'_, B>>,
    ) -> Result<Result<Bytes, Failure>, Fault> {
        let gone = || Failure::new(Code::MEDIATION, "the body was sent to another receiver");
        match (source, client) {
            // What is left of a body that was sent, if only in part, is no body.
            (Source::Request, Some(Waiting { client, framing })) if client.can_restart() => {
                let (worker, stall) = (&self.worker, self.stall());
                let holding = &self.holding;
                hold_request(worker, &mut **client, *framing, holding, stall).await.map(Ok)
            }
            (Source::Request, _) => Ok(Err(gone())),
            (Source::Response(ask), client) => {
                let Some(stream) = self.streams.remove(&ask) else { return Ok(Err(gone())) };
                let (worker, stall) = (Rc::clone(&self.worker), self.stall());
                let holding = self.holding.clone();
                if let (Upload::Running(_), Some(waiting)) = (&stream.upload, &mut *client) {
                    let client = Some(&mut *waiting.client);
                    return Ok(hold_response(&worker, stream, client, &holding, stall).await);
                }
                let mut held =
                    pin!(hold_response(&worker, stream, None::<&mut B>, &holding, stall));
                let held = alongside(&mut self.pending, held.as_mut());
                let (held, answers) = while_waiting(client, held).await?;
                answers.into_iter().for_each(|answered| self.answer(answered));
                Ok(held)
            }
        }
    }
}

/// The output of `future`, as long as the client waits for it. Exchanges have limits of their own.
async fn while_waiting<B: RequestBody, F: Future>(
    client: &mut Option<Waiting<'_, B>>,
    future: F,
) -> Result<F::Output, Fault> {
    let Some(Waiting { client, .. }) = client else { return Ok(future.await) };
    client.watch().set(u64::MAX);
    match while_wanted(&mut **client, future).await {
        Ok(output) => Ok(output),
        Err(Unwanted::Left(fault)) => Err(fault),
        Err(Unwanted::TimeUp) => Err(Fault::ClientLeft),
    }
}

/// Polls the timers and the oldest exchanges: a limited number, so that one request does not take all connections of a
/// worker. Returns what is answered.
fn poll_pending(pending: &mut Vec<Pending>, cx: &mut Context<'_>) -> Vec<Answered> {
    let mut answers = Vec::new();
    let mut exchanges = 0;
    pending.retain_mut(|Pending { is_exchange, future }| {
        if *is_exchange && exchanges == MEDIATED_EXCHANGES_MAX {
            return true;
        }
        match future.as_mut().poll(cx) {
            Poll::Ready(answered) => {
                answers.push(answered);
                false
            }
            Poll::Pending => {
                exchanges += usize::from(*is_exchange);
                true
            }
        }
    });
    answers
}

/// The output of `future`, and what was answered meanwhile.
async fn alongside<F: Future>(
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

fn answered(
    resources: &Resources,
    ask: AskId,
    sent: Result<UpstreamResponse, Fault>,
    sender: Sender,
    bytes: Option<Bytes>,
) -> Answered {
    match sent {
        Ok(UpstreamResponse { head, body }) => {
            let is_empty = body.reader.is_done() && matches!(body.upload, Upload::Done);
            let message = exchange::response(head, is_empty);
            let stream = if is_empty {
                body.release(resources, true);
                None
            } else {
                Some(body)
            };
            Answered { ask, answer: Answer::Response(message), stream }
        }
        Err(fault) => {
            let message = Some(sender.into_message(bytes));
            let answer = Answer::Failed(exchange::failure(&fault), message);
            Answered { ask, answer, stream: None }
        }
    }
}

/// Reads the body of an answer that a step needs at once.
async fn hold_answer(
    worker: &Worker,
    answer: &mut Answer,
    stream: UpstreamBody,
    holding: &Holding,
    stall: Stall,
) {
    let client = None::<&mut OwnBody>;
    match hold_response(worker, stream, client, holding, stall).await {
        Ok(bytes) => {
            if let Answer::Response(message) = answer {
                message.body = Body::held(message.body.format(), bytes);
            }
        }
        Err(failure) => *answer = Answer::Failed(failure, None),
    }
}

/// Reads the body of the client's request.
async fn hold_request<B: RequestBody>(
    worker: &Worker,
    client: &mut B,
    framing: BodyFraming,
    holding: &Holding,
    stall: Stall,
) -> Result<Bytes, Fault> {
    let announced = match framing {
        BodyFraming::None => Some(0),
        BodyFraming::Length(bytes) => Some(bytes),
        BodyFraming::Chunked => None,
    };
    let mut hold = Hold::begin(holding, announced).map_err(denied)?;
    let resources = &worker.resources;
    client.watch().set(resources.deadline_us(stall.ms));
    let mut pace = Pace::new(stall.min_rate, resources.coarse_us());
    let held = poll_fn(|cx| {
        let before = hold.len();
        if let Poll::Ready(held) = hold.poll(cx, client) {
            return Poll::Ready(held.map_err(denied));
        }
        if let Poll::Ready(fault) = client.poll_left(cx, true) {
            return Poll::Ready(Err(fault));
        }
        let (len, now_us) = (hold.len(), resources.coarse_us());
        client.watch().client_is_slow(true, now_us);
        if len > before && pace.is_kept(len as u64, now_us) {
            client.watch().set(resources.deadline_us(stall.ms));
        }
        if client.watch().poll_expired(cx) {
            return Poll::Ready(Err(Fault::ClientTimeout));
        }
        Poll::Pending
    })
    .await;
    client.watch().client_is_slow(false, resources.coarse_us());
    held
}

/// Why a request's body is not held.
fn denied(error: HoldError) -> Fault {
    match error {
        HoldError::TooLarge => Fault::Denied(Denial::BodyTooLarge),
        HoldError::Exhausted => Fault::Denied(Denial::HeldBytesUsed),
        HoldError::Body(error) => body_fault(error),
    }
}

/// Reads the body of a response, while the rest of the request's body may still be sent.
async fn hold_response<B: RequestBody>(
    worker: &Worker,
    mut stream: UpstreamBody,
    mut request_body: Option<&mut B>,
    holding: &Holding,
    stall: Stall,
) -> Result<Bytes, Failure> {
    let resources = &worker.resources;
    let watch = resources.watches.add();
    watch.set(resources.deadline_us(stall.ms));
    let mut pace = Pace::new(stall.min_rate, resources.coarse_us());
    let authority = Rc::clone(&stream.authority);
    let announced = stream.reader.announced();
    let held = match Hold::begin(holding, announced) {
        Err(error) => Err(error),
        Ok(mut hold) => {
            poll_fn(|cx| {
                let before = hold.len();
                let buffers = &resources.buffers;
                let mut moved = match &mut request_body {
                    Some(body) => stream.poll_upload(cx, *body, buffers),
                    None => false,
                };
                let mut source = stream.source(&resources.buffers);
                if let Poll::Ready(held) = hold.poll(cx, &mut source) {
                    return Poll::Ready(held);
                }
                let (len, now_us) = (hold.len(), resources.coarse_us());
                moved |= len > before && pace.is_kept(len as u64, now_us);
                if moved {
                    watch.set(resources.deadline_us(stall.ms));
                }
                if watch.poll_expired(cx) {
                    return Poll::Ready(Err(HoldError::Body(BodyError::Closed)));
                }
                Poll::Pending
            })
            .await
        }
    };
    let is_complete = held.is_ok();
    stream.release(resources, is_complete);
    held.map_err(|error| match error {
        HoldError::TooLarge => {
            let text = format!("the response of {authority} is larger than `held_body_bytes_max`");
            Failure::new(Code::RESPONSE_TOO_LARGE, text)
        }
        HoldError::Exhausted => {
            let text = "the held bodies of this worker use up `held_bytes_max`";
            Failure::new(Code::HELD_BYTES_USED, text)
        }
        HoldError::Body(error) => exchange::failure(&upstream_fault(&authority, &error)),
    })
}
