//! A run of mediation with its I/O: exchanges, bodies and timers.

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use base::limits::WORKER_MEDIATED_EXCHANGES_MAX;
use bytes::Bytes;
use mediation::{
    Answer, Ask, AskId, Body, BodyUse, Code, Event, Exchange, Failure, Message, PropertyScope, Run,
    Source,
};
use model::{Blame, Fault};
use wire::http1::BodyFraming;

use super::bodies::{Streams, exhausted, hold_answer, hold_beside, hold_response, skip_rest};
use super::environment::RunEnvironment;
use super::exchange::{self, ApiUpstream, Sender};
use super::fault_check::Checks;
use super::group::{charge_members, repeats};
use super::pending::{Answered, Pending, alongside, answered, poll_pending};
use super::waiting::{Waiting, while_waiting};
use crate::account::bump;
use crate::body::Held;
use crate::body::held::{Charge, Holding};
use crate::body::request_body::RequestBody;
use crate::exchange::held_request::wait_for_room;
use crate::forward::UpstreamBody;
use crate::message::Peer;
use crate::own_requests::own_body::OwnBody;
use crate::shares::share::Places;
use crate::tasks;
use crate::tasks::boxed::boxed;
use crate::worker::Worker;
use crate::worker::compiled::{Compiled, Stall};

/// Result of a run for its client.
pub(super) enum Outcome {
    Respond(Box<Message>, Source),
    /// An empty 202, and the run goes on.
    Accepted,
    Failed(Failure),
    /// Nothing is left to do.
    Done,
}

/// A run, and the bytes charged for its messages.
struct Charged {
    run: Box<Run>,
    charge: Charge,
}

/// A run on a thread for heavy work. Dropped there if its request has ended.
struct Away {
    of: Option<Charged>,
    environment: RunEnvironment,
}

impl Away {
    fn next_heavy(&mut self) -> Event {
        self.of.as_mut().map_or(Event::Done, |of| of.run.next_heavy(&self.environment))
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        if let Some(of) = &mut self.of {
            of.run.report(&self.environment);
        }
    }
}

/// A run, the events that it waits for, and the bodies that stream meanwhile.
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
    run: Option<Charged>,
    pending: Vec<Pending>,
    streams: Streams,
    /// A message was added, which is sent when the run waits.
    has_unsent: bool,
    /// For SOAP faults, if there were any.
    checks: Option<Rc<Checks>>,
    /// The first exchange, which was tried without a run. A run that decided otherwise sends its message.
    pub(super) failed: Option<(mediation::Target, Failure)>,
    /// When the last response came.
    pub(super) responded_us: Option<u64>,
}

impl Charged {
    /// Charges the bytes that the messages use now.
    ///
    /// # Errors
    /// The bytes do not fit the limits: the run ends.
    fn settle(&mut self) -> Result<(), Box<Fault>> {
        let bytes = usize::try_from(self.run.bytes_used()).unwrap_or(usize::MAX);
        self.charge.resize(bytes).map_err(|_| Holding::exhausted())
    }

    /// Bytes charged, and bytes that lack room. `None`: everything is charged.
    fn lacking(&mut self) -> Option<(usize, usize)> {
        self.settle().is_err().then(|| {
            let bytes = usize::try_from(self.run.bytes_used()).unwrap_or(usize::MAX);
            (self.charge.bytes(), bytes.saturating_sub(self.charge.bytes()))
        })
    }
}

impl Session {
    /// Boxed, since it goes from task to task.
    pub(super) fn new(
        worker: Rc<Worker>,
        revision: Rc<Compiled>,
        peer: Rc<Peer>,
        environment: RunEnvironment,
        run: Box<Run>,
    ) -> Box<Self> {
        let holding = worker.holding(&revision.live, &peer);
        Box::new(Self {
            worker,
            revision,
            peer,
            environment,
            upstream: None,
            run: Some(Charged { run, charge: holding.charge() }),
            holding,
            places: Places::default(),
            pending: Vec::new(),
            streams: Streams::default(),
            has_unsent: false,
            checks: None,
            failed: None,
            responded_us: None,
        })
    }

    /// Whether something is left to do: exchanges and timers are outstanding, or branches go on.
    pub(super) fn is_waiting(&self) -> bool {
        let goes_on = self.run.as_ref().is_some_and(|of| !of.run.is_done());
        goes_on || !self.pending.is_empty()
    }

    /// The body of a response, if it streams.
    pub(super) fn take_stream(&mut self, source: Source) -> Option<UpstreamBody> {
        match source {
            Source::Response(ask) => self.streams.take(|of| of == ask),
            Source::Request => None,
        }
    }

    /// Releases the bodies of responses that no message reads any more.
    async fn release_unread(&mut self) {
        let run = self.run.as_ref();
        let is_unread = |ask| !run.is_some_and(|of| of.run.reads(ask));
        let resources = &self.worker.resources;
        while let Some(mut stream) = self.streams.take(is_unread) {
            poll_fn(|cx| {
                skip_rest(cx, &mut stream, resources);
                Poll::Ready(())
            })
            .await;
            stream.release(resources, true);
        }
    }

    /// Runs until there is something for the client, or nothing is left to do.
    ///
    /// # Errors
    /// The client left, its body cannot be held, or there is too much heavy work.
    pub(super) async fn go<B: RequestBody>(
        &mut self,
        client: &mut Option<Waiting<'_, B>>,
    ) -> Result<Outcome, Box<Fault>> {
        loop {
            match self.next(client).await? {
                Event::Ask(ask, Ask::Timer(ms)) => {
                    let future = boxed(|| async move {
                        tasks::sleep(ms).await;
                        Answered { ask, answer: Answer::Elapsed, stream: None }
                    });
                    self.pending.push(Pending { turn: None, future });
                }
                Event::Ask(ask, Ask::Body(source))
                    if self.holds_beside(ask, source, client.is_some()) => {}
                Event::Ask(ask, Ask::Body(source)) => {
                    // Boxed, so that it does not enlarge every run.
                    let held = boxed(|| self.hold(source, client)).await?;
                    let answer = match held {
                        Ok(bytes) => bytes.map_or(Answer::Lost, Answer::Body),
                        Err(failure) => Answer::Failed(failure, None),
                    };
                    self.answer(Answered { ask, answer, stream: None });
                }
                Event::Ask(ask, Ask::Exchange(exchange)) => {
                    self.send(ask, exchange, client).await?;
                }
                Event::Waiting => {
                    self.release_unread().await;
                    if std::mem::take(&mut self.has_unsent) && self.pending.len() == 1 {
                        self.worker.saturation.before_sending().await;
                    }
                    let pending = &mut self.pending;
                    let next = poll_fn(|cx| match poll_pending(pending, cx) {
                        answers if answers.is_empty() => Poll::Pending,
                        answers => Poll::Ready(answers),
                    });
                    let answers = while_waiting(client, next).await?;
                    answers.into_iter().for_each(|answered| self.answer(answered));
                }
                Event::Respond(message, source) => {
                    if message.body.state() != BodyUse::Untouched {
                        self.worker.saturation.before_sending().await;
                    }
                    return Ok(Outcome::Respond(message, source));
                }
                Event::Accepted => return Ok(Outcome::Accepted),
                Event::Failed(failure) => return Ok(Outcome::Failed(failure)),
                Event::Heavy => {
                    let message = "work for another thread was left to the worker";
                    return Ok(Outcome::Failed(Failure::new(Code::MEDIATION, message)));
                }
                Event::Done => {
                    self.release_unread().await;
                    return Ok(Outcome::Done);
                }
            }
        }
    }

    /// The next event. Long steps run on a thread for heavy work.
    async fn next<B: RequestBody>(
        &mut self,
        client: &mut Option<Waiting<'_, B>>,
    ) -> Result<Event, Box<Fault>> {
        let Some(of) = &mut self.run else { return Ok(Event::Done) };
        if of.run.has_unstarted() {
            let own = self.pending.iter().filter(|pending| pending.turn.is_some()).count();
            let left = self.worker.parts.left(WORKER_MEDIATED_EXCHANGES_MAX);
            of.run.limit_exchanges(own.saturating_add(left));
        }
        let event = of.run.next(&self.environment);
        if of.settle().is_err() {
            boxed(|| self.wait_for_room(client)).await?;
        }
        if !matches!(event, Event::Heavy) {
            return Ok(event);
        }
        // The charge moves with the run: a client that leaves does not end the work.
        let mut away = Away { of: self.run.take(), environment: self.environment.clone() };
        bump(&self.worker.tally.heavy_work);
        let (done, answers) = {
            let work = pin!(self.worker.heavy.run(self.peer.address, move || {
                let event = away.next_heavy();
                (away, event)
            }));
            while_waiting(client, alongside(&mut self.pending, work)).await?
        };
        // The event does not know of them: they are answered when it is handled.
        self.pending.extend(answers.into_iter().map(|answered| Pending {
            turn: None,
            future: boxed(|| std::future::ready(answered)),
        }));
        let Some((mut away, event)) = done? else {
            return Ok(Event::Failed(Failure::new(Code::MEDIATION, "a mediator panicked")));
        };
        if let Some(of) = away.of.take()
            && self.run.insert(of).settle().is_err()
        {
            boxed(|| self.wait_for_room(client)).await?;
        }
        Ok(event)
    }

    /// Waits until the bytes that the messages of the run use fit the limits.
    ///
    /// # Errors
    /// There is not enough room in time, or no client waits for the run; or the client left.
    async fn wait_for_room<B: RequestBody>(
        &mut self,
        client: &mut Option<Waiting<'_, B>>,
    ) -> Result<(), Box<Fault>> {
        let (Some(of), Some(Waiting { client, .. })) = (&mut self.run, client) else {
            return Err(Holding::exhausted());
        };
        let holding = (&self.holding, self.worker.resources.coarse_us());
        wait_for_room(&self.worker, &mut **client, holding, || of.lacking()).await
    }

    /// Sends a message: at once with the client's body if that streams, otherwise beside others.
    async fn send<B: RequestBody>(
        &mut self,
        ask: AskId,
        mut exchange: Box<Exchange>,
        client: &mut Option<Waiting<'_, B>>,
    ) -> Result<(), Box<Fault>> {
        if let Some((target, failure)) = self.failed.take()
            && target == exchange.target
        {
            let answer = Answer::Failed(failure, Some(exchange.message));
            self.answer(Answered { ask, answer, stream: None });
            return Ok(());
        }
        let is_streaming = exchange.message.body.state() == BodyUse::Untouched;
        let (worker, revision) = (Rc::clone(&self.worker), Rc::clone(&self.revision));
        if is_streaming
            && exchange.source == Source::Request
            && !repeats(&self.environment, &exchange.target)
            && let Some(Waiting { client, framing, early_upload, .. }) = client
            && client.can_restart()
        {
            let sender = self.sender(ask, exchange, *framing);
            let (sent, answers) = {
                // Boxed, so that it does not enlarge every run.
                let mut sent = boxed(|| sender.run(&worker, &revision, &mut **client));
                alongside(&mut self.pending, sent.as_mut()).await
            };
            *early_upload = Places::default();
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
            let held = boxed(|| self.hold(exchange.source, client)).await?;
            held.and_then(|bytes| bytes.ok_or_else(Failure::lost_body))
        } else {
            self.charged(&exchange.message.body)
        };
        let members = charge_members(&self.holding, &mut exchange.target);
        let bytes = match held.and_then(|bytes| members.map(|()| bytes)) {
            Ok(bytes) => bytes,
            Err(failure) => {
                let answer = Answer::Failed(failure, Some(exchange.message));
                self.answer(Answered { ask, answer, stream: None });
                return Ok(());
            }
        };
        let holds = exchange.holds;
        let sender = self.sender(ask, exchange, exchange::framing(&bytes));
        let (holding, stall) = (self.holding.clone(), self.stall());
        let future = boxed(|| async move {
            let mut body = OwnBody::new(Held::new(bytes.clone()), &worker.resources);
            let sent = sender.run(&worker, &revision, &mut body).await;
            let mut answered = answered(&worker.resources, ask, sent, sender, Some(bytes));
            if holds && let Some(stream) = answered.stream.take() {
                hold_answer(&worker, &mut answered.answer, stream, &holding, stall).await;
            }
            answered
        });
        self.has_unsent = true;
        let turn = Some(self.worker.parts.turn_at_once());
        self.pending.push(Pending { turn, future });
        Ok(())
    }

    /// A body that its run has written, charged on its own from now on.
    pub(super) fn charged(&mut self, body: &Body) -> Result<Bytes, Failure> {
        self.run.take_if(|of| of.run.is_done());
        let bytes = exchange::written(body);
        if !body.is_new() {
            return Ok(bytes);
        }
        self.holding.hold(bytes).map_err(|_| exhausted())
    }

    /// The limit for bodies without progress.
    fn stall(&self) -> Stall {
        Stall::of(&self.revision.live)
    }

    fn sender(&mut self, ask: AskId, exchange: Box<Exchange>, framing: BodyFraming) -> Sender {
        let checks = if exchange.one_way { None } else { self.checks(ask) };
        let properties = self.run.as_ref().and_then(|of| of.run.properties(ask));
        let environment = self.environment.clone();
        let upstream = self.upstream.clone();
        let Exchange { target, message, .. } = *exchange;
        let mut sender =
            Sender::new(environment, (target, message), properties, &self.peer, framing, upstream);
        sender.checks = checks;
        sender
    }

    /// The checks of a message for which SOAP faults are failures. All messages sent at once share the rest of the
    /// run's budget.
    fn checks(&mut self, ask: AskId) -> Option<Rc<Checks>> {
        self.charge_checks();
        let run = &self.run.as_ref()?.run;
        let says = run.properties(ask)?.get(PropertyScope::Synapse, "FORCE_ERROR_ON_SOAP_FAULT")?;
        if !says.value().truth() {
            return None;
        }
        self.checks.take_if(|checks| Rc::strong_count(checks) == 1);
        Some(Rc::clone(
            self.checks
                .get_or_insert_with(|| Rc::new(Checks::new(run.budget_left(), self.peer.address))),
        ))
    }

    /// Charges the run for checks.
    fn charge_checks(&mut self) {
        if let (Some(checks), Some(of)) = (&self.checks, &mut self.run) {
            of.run.charge_steps(checks.take_steps());
        }
    }

    pub(super) fn answer(&mut self, answered: Answered) {
        if let Some(stream) = answered.stream {
            self.streams.insert(answered.ask, stream);
        }
        if matches!(answered.answer, Answer::Response(_)) {
            self.responded_us = Some(self.worker.resources.now_us());
        }
        self.charge_checks();
        if let Some(Charged { run, .. }) = &mut self.run {
            run.answer(answered.ask, answered.answer);
        }
    }

    /// Reads the body of a response beside everything else. False if there is none, or if `has_client` and the rest of
    /// its request is sent meanwhile.
    fn holds_beside(&mut self, ask: AskId, source: Source, has_client: bool) -> bool {
        let Some(stream) = self.take_stream(source) else { return false };
        if let (true, true, Source::Response(of)) = (has_client, stream.uploads(), source) {
            self.streams.insert(of, stream);
            return false;
        }
        let (worker, holding, stall) =
            (Rc::clone(&self.worker), self.holding.clone(), self.stall());
        let future = boxed(|| async move {
            let held = hold_beside(&worker, stream, &holding, stall).await;
            let answer = held.map_or_else(|failure| Answer::Failed(failure, None), Answer::Body);
            Answered { ask, answer, stream: None }
        });
        self.pending.push(Pending { turn: None, future });
        true
    }

    /// Reads a body that streams. `None`: it was sent to another receiver, or broke off before.
    ///
    /// # Errors
    /// A fault of the client; the inner one is that of the upstream.
    pub(super) async fn hold<B: RequestBody>(
        &mut self,
        source: Source,
        client: &mut Option<Waiting<'_, B>>,
    ) -> Result<Result<Option<Bytes>, Failure>, Box<Fault>> {
        match (source, client) {
            // The rest of a body that was sent, even in part, counts as no body.
            (Source::Request, Some(waiting)) if waiting.client.can_restart() => {
                let held = waiting.hold(&self.worker, &self.holding, self.stall()).await?;
                Ok(Ok(Some(held)))
            }
            (Source::Request, _) => Ok(Ok(None)),
            (source @ Source::Response(_), client) => {
                let Some(stream) = self.take_stream(source) else { return Ok(Ok(None)) };
                let (worker, stall) = (Rc::clone(&self.worker), self.stall());
                let holding = self.holding.clone();
                let (held, answers) =
                    if let (true, Some(waiting)) = (stream.uploads(), &mut *client) {
                        let client = Some(&mut *waiting.client);
                        let held = pin!(hold_response(&worker, stream, client, &holding, stall));
                        alongside(&mut self.pending, held).await
                    } else {
                        let held =
                            pin!(hold_response(&worker, stream, None::<&mut B>, &holding, stall));
                        while_waiting(client, alongside(&mut self.pending, held)).await?
                    };
                answers.into_iter().for_each(|answered| self.answer(answered));
                Ok(held?.map(Some))
            }
        }
    }
}

/// Releases borrowed memory, however the session ends.
impl Drop for Session {
    fn drop(&mut self) {
        while let Some(stream) = self.streams.take(|_| true) {
            stream.release(&self.worker.resources, false);
        }
        if let Some(of) = &mut self.run {
            of.run.report(&self.environment);
        }
    }
}
