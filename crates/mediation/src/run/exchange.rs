//! Messages that are sent, and the answers of the host.

use bytes::Bytes;
use expression::{BodyUse, Budget};

use super::branch::{At, Branch, End, Frame, Split, Wait};
use super::{
    Answer, Ask, AskId, Context, Event, Exchange, Run, Source, Target, Turn, Waiter, branch, target,
};
use crate::error::{Code, Failure};
use crate::limits;
use crate::message::{
    Body, CONTENT_TYPE, Direction, Format, HTTP_SC, MESSAGE_TYPE, Message, NO_ENTITY_BODY, NoHead,
    PlainHead, PropertyScope, PropertyValue, form,
};
use crate::program::{Endpoint, EndpointKind, Scene, SequenceId, TimeoutAction, To};

/// The property that names the sequence for the response to the next `send`.
pub(crate) const RECEIVING_SEQUENCE: &str = "RECEIVING_SEQUENCE";
/// The property (axis2) of a message whose client gets 202 when it is sent.
const FORCE_SC_ACCEPTED: &str = "FORCE_SC_ACCEPTED";
/// The property of a message whose response is not needed.
pub(super) const OUT_ONLY: &str = "OUT_ONLY";
/// The property (axis2) of a `POST` or `PUT` without a body.
const FORCE_POST_PUT_NOBODY: &str = "FORCE_POST_PUT_NOBODY";
/// The property of a message for which a SOAP fault as response is a failure.
pub const FORCE_ERROR_ON_SOAP_FAULT: &str = "FORCE_ERROR_ON_SOAP_FAULT";

/// The properties whose messages are held before they are sent. A client that does not wait for the response does not
/// send its body meanwhile.
pub const HELD_WHEN_SENT: [(PropertyScope, &str); 3] = [
    (PropertyScope::Synapse, OUT_ONLY),
    (PropertyScope::Axis2, FORCE_SC_ACCEPTED),
    (PropertyScope::Synapse, FORCE_ERROR_ON_SOAP_FAULT),
];

/// Where a copy of the message goes, and the address that it gets as `To`.
type Recipient = (Option<String>, To);

/// How the copies go there.
#[derive(Clone, Copy)]
enum By {
    Send { receive: Option<SequenceId> },
    Call,
}

/// A message without head and body, where the real one is elsewhere.
pub(super) fn placeholder() -> Box<Message> {
    let body = Body::held(Format::Binary, Bytes::new());
    Message::new(Direction::Request, Box::new(NoHead), body)
}

/// Writes the body in the format of its receiver.
///
/// # Errors
/// As [`Message::finish`].
pub(super) fn finish(message: &mut Message, budget: &Budget) -> Result<(), Failure> {
    let bytes = message.finish(budget)?;
    // The body keeps the written bytes, unless there are none (`NO_ENTITY_BODY`).
    if bytes.is_some_and(|bytes| bytes.is_empty()) && !message.body.is_empty() {
        clear_body(message);
    }
    message.body.settle(budget);
    Ok(())
}

fn clear_body(message: &mut Message) {
    let empty = Body::held(message.body.format(), Bytes::new());
    message.body = empty.mapped_as(&message.body);
}

impl Run {
    /// The message is sent, and the branch continues.
    pub(super) fn send(
        &mut self,
        mut branch: Box<Branch>,
        to: To,
        receive: Option<SequenceId>,
        context: Context<'_>,
    ) -> Turn {
        match self.recipients(&mut branch, to, context) {
            Ok(None) => {}
            Ok(Some(_)) if branch.message.body.state() == BodyUse::Untouched => {
                branch.rewind();
                return self.ask_body(branch);
            }
            Ok(Some(recipients)) => {
                return self.copy_to_all(branch, recipients, By::Send { receive }, context);
            }
            Err(failure) => return Turn::Failed(branch, failure),
        }
        let continues = branch.has_steps(context.program) || branch.owner.is_some();
        let needs_body = continues && branch.needs_body(context.program);
        let target = match self.prepare(&mut branch, to, needs_body, context) {
            Ok(Some(target)) => target,
            Ok(None) => return self.not_yet(branch),
            Err(failure) => return Turn::Failed(branch, failure),
        };
        let endpoint = target.endpoint;
        let is_one_way = branch.is_one_way();
        let wait =
            if is_one_way { Wait::OneWay { endpoint } } else { Wait::Send { receive, endpoint } };
        if !continues {
            branch.leave_stack();
            self.depart(branch, target, wait, None);
            return Turn::Gone;
        }
        match self.leave_copy(&mut branch) {
            Ok(away) => self.depart(away, target, wait, None),
            Err(failure) => return Turn::Failed(branch, failure),
        }
        branch.is_sent = true;
        Turn::Go(branch)
    }

    /// Where the copies of the message go, if the endpoint is a list of recipients: their own addresses, or endpoints.
    fn recipients(
        &self,
        branch: &mut Branch,
        to: To,
        context: Context<'_>,
    ) -> Result<Option<Vec<Recipient>>, Failure> {
        let To::Endpoint(id) = to else { return Ok(None) };
        let Some(endpoint) = context.program.endpoint_at(id) else { return Ok(None) };
        // They are resolved within the limits of groups, those inside them included.
        if let EndpointKind::RecipientList { members } = &endpoint.kind {
            self.target((&branch.stack, &mut branch.message), to, context)?;
            let members = members.iter().map(|member| (None, To::Endpoint(*member)));
            return Ok(Some(members.collect()));
        }
        if !matches!(endpoint.kind, EndpointKind::Recipients(_)) {
            return Ok(None);
        }
        let target = self.target((&branch.stack, &mut branch.message), to, context)?;
        let members = target.members.into_iter();
        Ok(Some(members.map(|member| (Some(member.url), To::Implied)).collect()))
    }

    /// Starts a branch for each recipient with a copy of the message. One that sends it goes on behind them; after a
    /// call each copy goes on with its response. An `aggregate` finds the responses as it finds the parts of a fork.
    /// Source: Synapse's `RecipientListEndpoint`.
    fn copy_to_all(
        &mut self,
        mut branch: Box<Branch>,
        recipients: Vec<Recipient>,
        by: By,
        context: Context<'_>,
    ) -> Turn {
        if branch.splits.len() >= limits::SEQUENCE_DEPTH_MAX {
            return Turn::Failed(branch, branch::too_deep());
        }
        if !self.has_room(recipients.len()) {
            return Turn::Gone;
        }
        let (fork, total) = (self.new_id(), recipients.len());
        for (part, (address, to)) in recipients.into_iter().enumerate() {
            let copied = self.budget.charge_steps(limits::MEDIATOR_STEPS).map_err(Failure::from);
            let copied = copied.and_then(|()| branch.message.copy(&self.budget));
            let addressed = copied.and_then(|mut message| {
                let sequence = ("messageSequence", format!("{part}/{total}"));
                let all = [Some(sequence), address.map(|address| ("To", address))];
                for (name, text) in all.into_iter().flatten() {
                    let value = PropertyValue::new(text);
                    message.set(PropertyScope::Synapse, name, value, &self.budget)?;
                }
                Ok(message)
            });
            let message = match addressed {
                Ok(message) => message,
                Err(failure) => return Turn::Failed(branch, failure),
            };
            let id = self.new_id();
            let mut away = match by {
                By::Send { receive } => {
                    let end = End::Send { to, receive };
                    let mut away = Branch::new(id, message, branch.source, end);
                    away.handlers = branch.all_handlers();
                    away.splits.clone_from(&branch.splits);
                    away
                }
                By::Call => branch.repeated_for(id, message, to),
            };
            away.splits.push(Split { id: None, fork, part, total });
            self.start(away);
        }
        match by {
            By::Send { .. } if branch.has_steps(context.program) || branch.owner.is_some() => {
                branch.is_sent = true;
                self.start(branch);
            }
            By::Send { .. } | By::Call => branch.message.release(&self.budget),
        }
        Turn::Gone
    }

    /// The message, or a part of it, is sent, and the branch waits for the response. With a list of recipients, the
    /// first response counts for a part with a waiting parent, which has one result; otherwise each goes on.
    pub(super) fn exchange(
        &mut self,
        mut branch: Box<Branch>,
        (at, to): (Option<At>, To),
        part: Option<Box<Message>>,
        context: Context<'_>,
    ) -> Turn {
        let (direction, is_one_way) = (branch.message.direction, branch.is_one_way());
        let recipient = branch.recipient.take();
        let to = recipient.unwrap_or(to);
        if at.is_some() && branch.owner.is_none() && !is_one_way {
            match self.recipients(&mut branch, to, context) {
                Ok(None) => {}
                Ok(Some(_)) if branch.message.body.state() == BodyUse::Untouched => {
                    branch.recipient = recipient;
                    branch.rewind();
                    return self.ask_body(branch);
                }
                Ok(Some(recipients)) => {
                    return self.copy_to_all(branch, recipients, By::Call, context);
                }
                Err(failure) => return Turn::Failed(branch, failure),
            }
        }
        branch.has_called = true;
        let Some(mut part) = part else {
            let needs_body = is_one_way && branch.needs_body(context.program);
            let target = match self.prepare(&mut branch, to, needs_body, context) {
                Ok(Some(target)) => target,
                Ok(None) => {
                    branch.recipient = recipient;
                    return self.not_yet(branch);
                }
                Err(failure) => return Turn::Failed(branch, failure),
            };
            if at.is_none() {
                // The part becomes the response.
                branch.end = End::Nothing;
            }
            let endpoint = target.endpoint;
            if !is_one_way {
                self.depart(branch, target, Wait::Call { at, direction, endpoint }, None);
                return Turn::Gone;
            }
            return match self.leave_copy(&mut branch) {
                Ok(away) => {
                    self.depart(away, target, Wait::OneWay { endpoint }, None);
                    Turn::Go(branch)
                }
                Err(failure) => Turn::Failed(branch, failure),
            };
        };
        match self.prepare_part(&branch, &mut part, to, context) {
            Ok(target) => {
                let endpoint = target.endpoint;
                self.depart(branch, target, Wait::Part { at, endpoint }, Some(part));
                Turn::Gone
            }
            Err(failure) => Turn::Failed(branch, failure),
        }
    }

    /// Resolves the target and writes the message as that wants it. `None`: the body has to be read first, or the
    /// thread is the wrong one, and the step is repeated.
    fn prepare(
        &self,
        branch: &mut Branch,
        to: To,
        needs_body: bool,
        context: Context<'_>,
    ) -> Result<Option<Target>, Failure> {
        if target::may_be_in_body(context.program, &branch.message, to) {
            branch.rewind();
            return Ok(None);
        }
        let mut target = self.target((&branch.stack, &mut branch.message), to, context)?;
        let message = &branch.message;
        let is_to_hold = || {
            needs_body
                || target.content_type.is_some()
                || target.addresses(message)
                || message.needs_length()
                || HELD_WHEN_SENT.iter().any(|(scope, name)| message.says(*scope, name))
        };
        let is_long =
            || target.addresses_long(message) || message.finishes_long(target.content_type);
        let is_streaming = message.body.state() == BodyUse::Untouched;
        if is_streaming && is_to_hold() || !context.is_heavy && is_long() {
            branch.rewind();
            return Ok(None);
        }
        self.write_for(&mut target, &mut branch.message, context)?;
        Ok(Some(target))
    }

    /// The turn of a branch that [`Run::prepare`] has to wait for.
    fn not_yet(&mut self, branch: Box<Branch>) -> Turn {
        if branch.message.body.state() == BodyUse::Untouched {
            return self.ask_body(branch);
        }
        self.ask_heavy(branch)
    }

    /// As [`Run::prepare`] for a part, whose body is held.
    fn prepare_part(
        &self,
        branch: &Branch,
        part: &mut Message,
        to: To,
        context: Context<'_>,
    ) -> Result<Target, Failure> {
        let mut target = self.target((&branch.stack, part), to, context)?;
        self.write_for(&mut target, part, context)?;
        Ok(target)
    }

    /// Writes the message as the target wants it.
    fn write_for(
        &self,
        target: &mut Target,
        message: &mut Message,
        context: Context<'_>,
    ) -> Result<(), Failure> {
        let says = |name| message.says(PropertyScope::Axis2, name);
        let method = || target.method_of(&*message.head, Some(&message.properties));
        let is_get = || method().as_deref() == Some("GET");
        let is_post = || method().is_none_or(|method| matches!(&*method, "POST" | "PUT"));
        if says(FORCE_POST_PUT_NOBODY) && is_post() {
            message.remove_field(CONTENT_TYPE);
            clear_body(message);
        } else if message.body.is_lost() && !says(NO_ENTITY_BODY) && !is_get() {
            return Err(Failure::lost_body());
        }
        let action = message.action(target.content_type.is_some());
        if let Some(content_type) = target.content_type {
            let value = PropertyValue::new(content_type);
            message.set(PropertyScope::Axis2, MESSAGE_TYPE, value, &self.budget)?;
        }
        let kind = message.properties.get(PropertyScope::Axis2, MESSAGE_TYPE);
        if kind.is_some_and(|kind| Format::of(&kind.text()) == Format::Form)
            && !message.says(PropertyScope::Axis2, NO_ENTITY_BODY)
            && let Some(payload) = message.body.payload(&self.budget)?
        {
            let method = target.method_of(&*message.head, Some(&message.properties));
            let is_get = method.as_deref() == Some("GET");
            let written = form::write(payload, &self.budget)?;
            target.ask_for(&String::from_utf8_lossy(&written), is_get);
        }
        // The number that the ask gets, or a later one of no other.
        let number = self.last_id.saturating_add(1);
        let id = target.addressing.and_then(|_| context.environment.message_id(number));
        target.address(message, id.as_deref(), &self.budget, |of| finish(of, &self.budget))?;
        finish(message, &self.budget)?;
        action.map_or(Ok(()), |action| message.set_action(&action))
    }

    /// The destination of the message, with the settings of its endpoint.
    fn target(
        &self,
        (stack, message): (&[Frame], &mut Message),
        to: To,
        context: Context<'_>,
    ) -> Result<Target, Failure> {
        let scene = Scene {
            program: context.program,
            environment: context.environment,
            budget: &self.budget,
            parameters: branch::parameters(stack),
        };
        target::set_properties(&scene, message, to)?;
        Target::resolve(&scene, message, to)
    }

    /// The message in a branch of its own, with a copy in this one.
    fn leave_copy(&mut self, branch: &mut Branch) -> Result<Box<Branch>, Failure> {
        let is_streaming = branch.message.body.state() == BodyUse::Untouched;
        // No later step reads it.
        let body =
            is_streaming.then(|| std::mem::replace(&mut branch.message.body, placeholder().body));
        let copy = branch.message.copy(&self.budget)?;
        let mut message = std::mem::replace(&mut branch.message, copy);
        message.body = body.unwrap_or(message.body);
        let mut away = Branch::new(self.new_id(), message, branch.source, End::Nothing);
        away.handlers = branch.all_handlers();
        away.splits.clone_from(&branch.splits);
        Ok(away)
    }

    /// Asks the host to send the message of the branch, or `part` instead.
    fn depart(
        &mut self,
        mut branch: Box<Branch>,
        target: Target,
        wait: Wait,
        part: Option<Box<Message>>,
    ) {
        let fails_on_fault = branch.message.says(PropertyScope::Synapse, FORCE_ERROR_ON_SOAP_FAULT);
        let holds = part.is_some() || fails_on_fault;
        let is_accepted = branch.message.says(PropertyScope::Axis2, FORCE_SC_ACCEPTED);
        let message = match part {
            Some(part) => part,
            None => {
                let mut away = placeholder();
                away.direction = branch.message.direction;
                std::mem::swap(&mut branch.message.head, &mut away.head);
                std::mem::swap(&mut branch.message.body, &mut away.body);
                away
            }
        };
        let one_way = matches!(wait, Wait::OneWay { .. });
        let exchange = Exchange { target, message, source: branch.source, holds, one_way };
        branch.wait = wait;
        let waiter = Waiter::Branch { id: branch.id, one_way };
        self.new_ask(waiter, Ask::Exchange(Box::new(exchange)));
        self.branches.insert(branch.id, branch);
        if is_accepted && self.accepts() {
            self.events.push_back(Event::Accepted);
        }
    }

    /// A SOAP fault becomes a failure, if the sent message asks for that, and a status if the step that sent it does.
    /// Source: Synapse's `SynapseCallbackReceiver`.
    fn check_response(
        &self,
        wait: Wait,
        sent: &Message,
        response: &Message,
        context: Context<'_>,
    ) -> Result<(), Failure> {
        if let Wait::Call { at: Some(at), .. } | Wait::Part { at: Some(at), .. } = wait
            && let Some(step) = at.step(context.program)
        {
            step.mediator.check_response(sent, response, &self.budget)?;
        }
        if !sent.says(PropertyScope::Synapse, FORCE_ERROR_ON_SOAP_FAULT) {
            return Ok(());
        }
        match response.soap_fault(&self.budget)? {
            Some(reason) => Err(Failure::new(Code::SOAP_FAULT, reason)),
            None => Ok(()),
        }
    }

    pub(super) fn take_answer(
        &mut self,
        mut branch: Box<Branch>,
        ask: AskId,
        answer: Answer,
        context: Context<'_>,
    ) -> Turn {
        let wait = std::mem::take(&mut branch.wait);
        let mut answer = answer;
        if let Answer::Response(message) | Answer::Failed(_, Some(message)) = &mut answer {
            message.body.set_mapping(context.program.mapping.clone());
        }
        let answer = match answer {
            Answer::Response(response) => {
                match self.check_response(wait, &branch.message, &response, context) {
                    Ok(()) => Answer::Response(response),
                    Err(failure) => {
                        branch.source = Source::Response(ask);
                        let (scope, message) = (PropertyScope::Axis2, &mut branch.message);
                        let status = PropertyValue::count(usize::from(response.status()));
                        let set = message.set(scope, HTTP_SC, status, &self.budget);
                        Answer::Failed(set.err().unwrap_or(failure), Some(response))
                    }
                }
            }
            Answer::Failed(..) | Answer::Body(_) | Answer::Lost | Answer::Elapsed => answer,
        };
        let taken = match (wait, answer) {
            (_, Answer::Failed(failure, message)) => {
                return self.exchange_failed(branch, wait, failure, message, context);
            }
            (Wait::Body, Answer::Body(bytes)) => {
                branch.message.hold(bytes);
                Ok(())
            }
            (Wait::Body, Answer::Lost) => {
                branch.message.body.lose();
                Ok(())
            }
            (Wait::Call { direction, .. }, Answer::Response(response)) => {
                let taken = branch.respond_with(ask, response, &self.budget);
                branch.message.direction = direction;
                taken
            }
            (Wait::Part { at, .. }, Answer::Response(response)) => {
                let parts = branch::Joined::Parts(vec![Some(response)]);
                branch.joined = at.map(|at| (at, parts));
                Ok(())
            }
            (Wait::Send { receive, .. }, Answer::Response(response)) => {
                let taken = branch.respond_with(ask, response, &self.budget);
                branch.message.remove(PropertyScope::Synapse, RECEIVING_SEQUENCE);
                self.turn_round(&mut branch, context.program);
                if receive.is_some() {
                    branch.restart(context.program, receive);
                    branch.end = End::Nothing;
                }
                taken
            }
            (Wait::OneWay { .. }, Answer::Response(_)) => return Turn::Gone,
            (
                Wait::Nothing
                | Wait::Body
                | Wait::Call { .. }
                | Wait::Part { .. }
                | Wait::Send { .. }
                | Wait::OneWay { .. }
                | Wait::Scatter
                | Wait::Respond { .. },
                Answer::Response(_) | Answer::Body(_) | Answer::Lost | Answer::Elapsed,
            ) => Err(Failure::new(Code::MEDIATION, "the host answered another question")),
        };
        match taken {
            Ok(()) => Turn::Go(branch),
            Err(failure) => Turn::Failed(branch, failure),
        }
    }

    fn exchange_failed(
        &mut self,
        mut branch: Box<Branch>,
        wait: Wait,
        mut failure: Failure,
        message: Option<Box<Message>>,
        context: Context<'_>,
    ) -> Turn {
        let is_timeout = failure.code == Code::TIMEOUT;
        if let Wait::Call { at, .. } | Wait::Part { at, .. } = wait
            && let Some(step) = at.and_then(|at| at.step(context.program))
        {
            failure = step.mediator.exchange_failed(failure);
            failure.place.get_or_insert_with(|| step.to_string());
        }
        let endpoint = match wait {
            Wait::Part { endpoint, .. } => endpoint,
            Wait::Call { endpoint, .. }
            | Wait::Send { endpoint, .. }
            | Wait::OneWay { endpoint } => {
                match message {
                    Some(message) => {
                        (branch.message.head, branch.message.body) = (message.head, message.body);
                    }
                    None => branch.message.head = Box::<PlainHead>::default(),
                }
                endpoint
            }
            Wait::Nothing | Wait::Body | Wait::Scatter | Wait::Respond { .. } => None,
        };
        let endpoint = endpoint.and_then(|id| context.program.endpoint_at(id));
        if failure.code == Code::SUSPENDED && endpoint.is_some_and(|endpoint| endpoint.is_wsdl) {
            failure.code = Code::WSDL_SUSPENDED;
        }
        let discards = |of: &Endpoint| of.timeout.action == TimeoutAction::Discard;
        if is_timeout && endpoint.is_some_and(discards) {
            branch.failure = Some(failure);
            self.end_unanswered(branch);
            return Turn::Gone;
        }
        Turn::Failed(branch, failure)
    }
}
