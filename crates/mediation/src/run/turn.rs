//! The turns of branches: a step after another, until one waits or ends.

use std::sync::Arc;

use expression::{BodyUse, Budget};
use model::Blame;

use super::branch::{Branch, End, Joined, Wait};
use super::fork::Aggregate;
use super::{Ask, AskId, Context, Event, Run, Source, Turn, Waiter, branch, exchange};
use crate::error::{Code, Failure};
use crate::limits;
use crate::message::{Direction, HTTP_SC, Kept, Message, PropertyScope, PropertyValue};
use crate::program::{Environment, Next, Program, Scene, Step};

impl Run {
    pub(super) fn go(&mut self, environment: &dyn Environment, is_heavy: bool) -> Event {
        let program = Arc::clone(&self.program);
        let context = Context { program: &program, environment, is_heavy };
        let event = loop {
            if let Some(event) = self.events.pop_front() {
                break event;
            }
            let Some(id) = self.ready.pop_front() else {
                if !is_heavy && self.starts_long() {
                    break Event::Heavy;
                }
                if !self.queues.is_empty() && self.start_queued(context) {
                    continue;
                }
                if let Some(event) = self.idle(environment) {
                    break event;
                }
                continue;
            };
            // A branch whose scatter is complete is not there any more.
            let Some(branch) = self.branches.remove(&id) else { continue };
            self.turn(branch, context);
        };
        self.charged = self.budget.steps_used();
        event
    }

    /// Proceeds when no branch can go on.
    pub(super) fn idle(&mut self, environment: &dyn Environment) -> Option<Event> {
        let is_one_way = |branch: &Branch| matches!(branch.wait, Wait::OneWay { .. });
        if self.branches.values().all(|branch| is_one_way(branch))
            && self.queues.is_empty()
            && !self.aggregates.values().any(Aggregate::is_open)
        {
            let handled = self.handled.take().filter(|_| !self.has_responded);
            match self.failure.take().or(handled) {
                Some(failure) if self.has_responded => {
                    self.unreported.fail_first(environment, failure);
                }
                Some(failure) => {
                    self.has_responded = true;
                    return Some(Event::Failed(failure));
                }
                None if !self.branches.is_empty() && self.accepts() => {
                    return Some(Event::Accepted);
                }
                None => {}
            }
        }
        if self.asks.values().any(|waiter| matches!(waiter, Waiter::Branch { .. })) {
            return Some(Event::Waiting);
        }
        // No branch is left that could complete an aggregate.
        let open = self.aggregates.iter().find(|(_, aggregate)| aggregate.is_open());
        if let Some(key) = open.map(|(key, _)| key.clone()) {
            self.complete(&key);
            return None;
        }
        self.branches.clear();
        self.asks.clear();
        self.queues.clear();
        self.report(environment);
        Some(Event::Done)
    }

    /// Runs a branch until it waits or ends.
    pub(super) fn turn(&mut self, mut branch: Box<Branch>, context: Context<'_>) {
        let mut turn = match branch.answer.take() {
            Some((ask, answer)) if !context.is_heavy && branch.checks_long(&answer) => {
                branch.answer = Some((ask, answer));
                self.ask_heavy(branch)
            }
            Some((ask, answer)) => self.take_answer(branch, ask, answer, context),
            None => Turn::Go(branch),
        };
        loop {
            turn = match turn {
                Turn::Go(branch) => self.step(branch, context),
                Turn::Gone => return,
                Turn::Failed(branch, failure) => self.fail(branch, failure, context),
            };
        }
    }

    pub(super) fn step(&mut self, mut branch: Box<Branch>, context: Context<'_>) -> Turn {
        if let Wait::Respond { at } = branch.wait {
            branch.wait = Wait::Nothing;
            let step = at.and_then(|at| at.step(context.program));
            return placed(self.respond(branch, at, context), step);
        }
        if let Some((at, joined)) = branch.joined.take() {
            let bytes = branch.message.body.size_to_read().saturating_add(joined.size_to_read());
            let step = at.step(context.program);
            let cost = step.map_or(0, |step| step.mediator.join_ns_per_byte());
            if !context.is_heavy && self.is_heavy(bytes, cost) {
                branch.joined = Some((at, joined));
                return self.ask_heavy(branch);
            }
            return self.mediate(branch, at, Some(joined), context);
        }
        let Some(at) = branch.place(context.program) else { return self.ended(branch, context) };
        let Some(step) = at.step(context.program) else { return Turn::Go(branch) };
        let is_streaming = branch.message.body.state() == BodyUse::Untouched;
        let is_read = || step.mediator.body_use() != BodyUse::Untouched || branch.reads_late();
        // One that is read anyway is read now, if it may say where the message goes.
        let is_addressed =
            || step.reads_to && branch.message.is_soap() && branch.needs_body(context.program);
        if is_streaming && (is_read() || is_addressed()) {
            return self.ask_body(branch);
        }
        let bytes = branch.message.body.size_to_read();
        let is_long = step.mediator.is_long() || self.is_heavy(bytes, step.mediator.ns_per_byte());
        if !context.is_heavy && is_long {
            return self.ask_heavy(branch);
        }
        branch.advance();
        self.mediate(branch, at, None, context)
    }

    /// The step is repeated where it may take its time.
    pub(super) fn ask_heavy(&mut self, branch: Box<Branch>) -> Turn {
        self.ready.push_front(branch.id);
        self.branches.insert(branch.id, branch);
        self.events.push_back(Event::Heavy);
        Turn::Gone
    }

    pub(super) fn is_heavy(&self, bytes: usize, ns_per_byte: u64) -> bool {
        if self.budget.steps_used().saturating_sub(self.charged) > limits::HEAVY_STEPS {
            return true;
        }
        limits::takes_long(bytes, ns_per_byte)
    }

    /// Runs the step, or its continuation with `joined`.
    pub(super) fn mediate(
        &mut self,
        mut branch: Box<Branch>,
        at: branch::At,
        joined: Option<Joined>,
        context: Context<'_>,
    ) -> Turn {
        let Some(step) = at.step(context.program) else { return Turn::Go(branch) };
        let Branch { message, stack, .. } = &mut *branch;
        let scene = Scene {
            program: context.program,
            environment: context.environment,
            budget: &self.budget,
            parameters: branch::parameters(stack),
        };
        let before = message.body.state();
        let charged = joined.as_ref().map_or(0, Joined::charged);
        let used = self.budget.bytes_used().saturating_sub(charged as u64);
        let kept = (used, message.kept());
        let can_repeat = !context.is_heavy && joined.is_none() && step.mediator.can_repeat();
        let most = if can_repeat { limits::HEAVY_STEPS } else { u64::MAX };
        let withheld = self.budget.withhold_steps(most);
        let charged = self.budget.charge_steps(limits::MEDIATOR_STEPS).map_err(Failure::from);
        let mut next = charged.and_then(|()| match joined {
            Some(Joined::Parts(parts)) => step.mediator.join(&scene, message, parts),
            Some(Joined::Pieces(pieces)) => step.mediator.complete(&scene, message, pieces),
            None => step.mediator.mediate(&scene, message),
        });
        let is_long = withheld > 0 && self.budget.steps_left() == 0;
        self.budget.release_steps(withheld);
        release_unkept(&mut next, message, kept, &self.budget);
        let has_failed = match &next {
            Ok(Next::Collect(collect)) => collect.piece.is_err(),
            Ok(_) => false,
            Err(_) => true,
        };
        if has_failed {
            self.budget.resume();
        }
        if is_long && next.is_err() {
            branch.rewind();
            return self.ask_heavy(branch);
        }
        message.rewritten_since(before);
        let turn = match next {
            Ok(mut next) => {
                next.parts(|part| part.rewritten_since(before));
                context.environment.mediated(step, &branch.message);
                self.follow(branch, at, next, context)
            }
            Err(failure) => Turn::Failed(branch, failure),
        };
        placed(turn, Some(step))
    }

    pub(super) fn follow(
        &mut self,
        mut branch: Box<Branch>,
        at: branch::At,
        next: Next,
        context: Context<'_>,
    ) -> Turn {
        let entered = match next {
            Next::Continue => Ok(()),
            Next::Enter(sequence) => branch.enter(context.program, sequence, None),
            Next::Call(call) => {
                let called = Some((call.parameters.into(), call.on_error));
                branch.enter(context.program, call.sequence, called)
            }
            Next::Send { to, receive } => return self.send(branch, to, receive, context),
            Next::Exchange { to, part } => {
                return self.exchange(branch, (Some(at), to), part, context);
            }
            Next::Fork(fork) => return self.fork(branch, fork),
            Next::Scatter(scatter) => return self.scatter(branch, at, scatter, context),
            Next::Collect(collect) => return self.collect(branch, at, *collect),
            Next::Respond => return self.respond(branch, Some(at), context),
            Next::Loopback => return self.loopback(branch, context),
            Next::Drop => {
                self.end_unanswered(branch);
                return Turn::Gone;
            }
        };
        match entered {
            Ok(()) => Turn::Go(branch),
            Err(failure) => Turn::Failed(branch, failure),
        }
    }

    pub(super) fn fail(
        &mut self,
        mut branch: Box<Branch>,
        mut failure: Failure,
        context: Context<'_>,
    ) -> Turn {
        if failure.code == Code::MALFORMED_BODY && branch.message.body.is_malformed(&self.budget) {
            failure.sender = match branch.source {
                Source::Request => self.sender,
                Source::Response(_) => Blame::Upstream,
            };
        }
        self.make_room(&mut branch);
        match branch.handle(context.program, failure, &self.budget) {
            Ok(()) => Turn::Go(branch),
            Err(failure) => {
                if let Some((gather, _)) = branch.owner {
                    self.gather_failed(gather, failure);
                } else if self.failure.is_some() || self.has_responded {
                    self.unreported.fail(context.environment, failure);
                } else {
                    self.failure = Some(failure);
                }
                Turn::Gone
            }
        }
    }

    /// Lets the error handlers of a run that used up its budget do something: by the views of the body of the message
    /// that failed, which may be made again, and once by a reserve.
    fn make_room(&mut self, branch: &mut Branch) {
        let (bytes, steps) = (limits::HANDLER_BYTES as u64, limits::HANDLER_STEPS);
        self.budget.resume();
        if self.budget.bytes_left() < bytes {
            branch.message.body.forget_views(&self.budget);
        }
        let is_short = self.budget.bytes_left() < bytes || self.budget.steps_left() < steps;
        if is_short && branch.has_handlers() && !std::mem::replace(&mut self.has_reserve, true) {
            self.budget.extend(steps, bytes);
        }
    }

    /// The branch is at the end of its sequences.
    pub(super) fn ended(&mut self, branch: Box<Branch>, context: Context<'_>) -> Turn {
        if let Some((gather, part)) =
            branch.owner.filter(|_| !matches!(branch.end, End::Send { .. }))
        {
            // The step that joins the parts reads their bodies.
            if branch.message.body.state() == BodyUse::Untouched {
                return self.ask_body(branch);
            }
            self.part_ended(gather, part, Some(branch.message));
            return Turn::Gone;
        }
        if branch.is_sent {
            return Turn::Gone;
        }
        let is_response = branch.message.direction == Direction::Response;
        match (branch.end, self.flow.endpoint) {
            (End::Request, _) if is_response => self.respond(branch, None, context),
            (End::Response, _) => self.respond(branch, None, context),
            (End::Request, Some(endpoint)) => {
                self.send(branch, crate::program::To::Endpoint(endpoint), None, context)
            }
            (End::Send { to, receive }, _) => {
                if branch.owner.is_some() {
                    return self.exchange(branch, (None, to), None, context);
                }
                self.send(branch, to, receive, context)
            }
            (End::Request, None) | (End::Nothing, _) => {
                self.end_unanswered(branch);
                Turn::Gone
            }
        }
    }

    /// The branch ends without a response. Unless another branch responds, the client gets the failure that its handler
    /// handled: Micro Integrator leaves it without a response.
    pub(super) fn end_unanswered(&mut self, mut branch: Box<Branch>) {
        let is_its = branch.owner.is_none() && !branch.is_sent;
        let failure = branch.failure.take().filter(|_| is_its);
        self.handled = self.handled.take().or(failure);
        self.leave(&branch);
    }

    /// Whether the client gets its empty response now.
    pub(super) fn accepts(&mut self) -> bool {
        let accepts = !self.has_responded;
        self.has_responded = true;
        self.is_accepted |= accepts;
        accepts
    }

    /// `at`: the step that responds.
    pub(super) fn respond(
        &mut self,
        mut branch: Box<Branch>,
        at: Option<branch::At>,
        context: Context<'_>,
    ) -> Turn {
        if self.has_responded {
            if !self.is_accepted {
                self.unreported.respond();
            }
            self.leave(&branch);
            return Turn::Gone;
        }
        let hides_faults = branch.message.hides_faults();
        let is_streaming = branch.message.body.state() == BodyUse::Untouched;
        if hides_faults && is_streaming || branch.message.needs_length() {
            branch.rewind();
            return self.ask_body(branch);
        }
        let is_long =
            hides_faults && branch.message.is_long_to_check() || branch.message.finishes_long(None);
        if !context.is_heavy && is_long {
            branch.wait = Wait::Respond { at };
            return self.ask_heavy(branch);
        }
        if let Some(status) = branch.message.fault_status(&self.budget) {
            let status = PropertyValue::count(usize::from(status));
            if let Err(failure) =
                branch.message.set(PropertyScope::Axis2, HTTP_SC, status, &self.budget)
            {
                return Turn::Failed(branch, failure);
            }
        }
        if let Err(failure) = exchange::finish(&mut branch.message, &self.budget) {
            branch.is_sent = true;
            return Turn::Failed(branch, failure);
        }
        self.has_responded = true;
        self.leave(&branch);
        self.events.push_back(Event::Respond(branch.message, branch.source));
        Turn::Gone
    }

    pub(super) fn loopback(&mut self, mut branch: Box<Branch>, context: Context<'_>) -> Turn {
        if branch.end == End::Response {
            let message = "a `loopback` in the sequence for responses would never end";
            return Turn::Failed(branch, Failure::new(Code::MEDIATION, message));
        }
        self.leave(&branch);
        branch.message.direction = Direction::Response;
        self.turn_round(&mut branch, context.program);
        Turn::Go(branch)
    }

    /// Continues as a response, with the sequence for responses.
    pub(super) fn turn_round(&self, branch: &mut Branch, program: &Program) {
        branch.restart(program, self.flow.response);
        branch.handlers = self.flow.fault.into_iter().collect();
        branch.failure = None;
        (branch.end, branch.is_sent, branch.owner) = (End::Response, false, None);
    }

    /// The branch does not return to the waiting one.
    pub(super) fn leave(&mut self, branch: &Branch) {
        if let Some((gather, part)) = branch.owner {
            self.part_ended(gather, part, None);
        }
    }

    pub(super) fn new_id(&mut self) -> u32 {
        // As many as there are steps to charge: it does not overflow before the budget ends.
        self.last_id = self.last_id.saturating_add(1);
        self.last_id
    }

    pub(super) fn new_ask(&mut self, waiter: Waiter, ask: Ask) -> AskId {
        let id = AskId(self.new_id());
        self.asks.insert(id, waiter);
        self.events.push_back(Event::Ask(id, ask));
        id
    }

    pub(super) fn ask_body(&mut self, mut branch: Box<Branch>) -> Turn {
        branch.wait = Wait::Body;
        let waiter = Waiter::Branch { id: branch.id, one_way: false };
        self.new_ask(waiter, Ask::Body(branch.source));
        self.branches.insert(branch.id, branch);
        Turn::Gone
    }
}

/// A failure of this step has its place, unless it has one.
fn placed(mut turn: Turn, step: Option<&Step>) -> Turn {
    if let (Turn::Failed(_, failure), Some(step)) = (&mut turn, step) {
        failure.place.get_or_insert_with(|| step.to_string());
    }
    turn
}

/// Releases the charges of a step since `used` bytes were used, except those that its messages keep.
fn release_unkept(
    next: &mut Result<Next, Failure>,
    message: &Message,
    (used, before): (u64, Kept),
    budget: &Budget,
) {
    let (mut used, mut has_edits) = (used, false);
    match next {
        // It keeps its parameters.
        Ok(Next::Call(_)) => return,
        Ok(next) => {
            used = used.saturating_add(next.bytes() as u64);
            next.parts(|part| {
                let kept = part.kept();
                used = used.saturating_add(kept.bytes as u64);
                has_edits |= kept.edits > 0;
            });
        }
        Err(_) => {}
    }
    if !has_edits {
        message.release_since((used, before), budget);
    }
}
