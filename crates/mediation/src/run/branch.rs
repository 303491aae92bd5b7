//! One message on its way through sequences.

use std::sync::Arc;

use expression::Budget;

use super::Sent;
use super::exchange::{FORCE_ERROR_ON_SOAP_FAULT, OUT_ONLY};
use crate::error::{Code, Failure};
use crate::limits;
use crate::message::{Direction, MESSAGE_TYPE, Message, PropertyScope, PropertyValue};
use crate::program::{EndpointId, Part, Piece, Program, SequenceId, Step, To};
use crate::run::{Answer, AskId, Source};

/// The number of a branch in its run.
pub(super) type BranchId = u32;

/// The parameters of a sequence template, and the error handler of its call.
type Called = (Parameters, Option<SequenceId>);

/// Parameters of a sequence template, which parts of a message share.
type Parameters = Arc<[(String, PropertyValue)]>;

/// The place of a step in a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct At {
    pub(crate) sequence: SequenceId,
    pub(crate) index: usize,
}

impl At {
    pub(crate) fn step(self, program: &Program) -> Option<&Step> {
        program.get(self.sequence)?.steps.get(self.index)
    }
}

#[derive(Debug)]
pub(super) struct Branch {
    pub(super) id: BranchId,
    pub(super) message: Box<Message>,
    /// Where its body came from, unless it is new; the host has it there as long as it streams.
    pub(super) source: Source,
    pub(super) stack: Vec<Frame>,
    /// For a part of a fork: the step where its parent would have continued. The part goes on there only after a call.
    pub(super) after: Option<Arc<After>>,
    pub(super) has_called: bool,
    /// The error handlers outside the stack; the last one takes over first.
    pub(super) handlers: Vec<SequenceId>,
    /// Failures that were handled.
    handled: usize,
    /// The one that its handler handles.
    pub(super) failure: Option<Failure>,
    pub(super) end: End,
    /// For a copy for a recipient: the destination of its next call, in the step that made the copy.
    pub(super) recipient: Option<To>,
    /// The message was sent: its end has no further effect.
    pub(super) is_sent: bool,
    /// The forks that it is a part of.
    pub(super) splits: Vec<Split>,
    /// Who waits for it, and the number of its part.
    pub(super) owner: Option<(u32, usize)>,
    pub(super) wait: Wait,
    /// The input of a step that was waiting: see [`super::Run`].
    pub(super) joined: Option<(At, Joined)>,
    pub(super) answer: Option<(AskId, Answer)>,
}

/// Input that a step was waiting for.
#[derive(Debug)]
pub(super) enum Joined {
    /// For [`crate::Mediator::join`].
    Parts(Vec<Option<Box<Message>>>),
    /// For [`crate::Mediator::complete`].
    Pieces(Vec<Result<Piece, Failure>>),
}

impl Joined {
    /// The size that a reader should expect, in bytes.
    pub(super) fn size_to_read(&self) -> usize {
        match self {
            Self::Parts(parts) => parts.iter().flatten().map(|part| part.body.size_to_read()).sum(),
            Self::Pieces(pieces) => pieces.iter().flatten().map(Piece::bytes).sum(),
        }
    }

    /// Bytes charged for it.
    pub(super) fn charged(&self) -> usize {
        match self {
            Self::Parts(parts) => parts.iter().flatten().map(|part| part.charged()).sum(),
            Self::Pieces(pieces) => pieces.iter().flatten().map(Piece::bytes).sum(),
        }
    }
}

/// State that a part of a message inherits.
#[derive(Clone, Debug)]
pub(super) struct Inherited {
    splits: Vec<Split>,
    parameters: Parameters,
    source: Source,
}

/// Where a fork was: the parts share it.
#[derive(Debug)]
pub(super) struct After {
    stack: Vec<Frame>,
    handlers: Vec<SequenceId>,
    next: Option<Arc<Self>>,
    /// Forks inside each other, this one included.
    depth: usize,
}

#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) sequence: SequenceId,
    /// The position of the next step.
    next: u32,
    /// Parameters of a sequence template; empty for other sequences. `None`: a branch of a mediator, whose steps see
    /// those of the frame below.
    parameters: Option<Parameters>,
    /// Error handler of the sequence, or of the call of a template.
    pub(super) on_error: Option<SequenceId>,
}

impl Frame {
    fn next(&self) -> usize {
        self.next as usize
    }
}

/// Fate of a message at the end of its sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Nothing,
    /// `inSequence`: a request is sent to the endpoint of the flow.
    Request,
    /// `outSequence`: a response is sent to the client.
    Response,
    /// The part of a fork, or the copy for a recipient. `receive`: the sequence for its response.
    Send {
        to: To,
        receive: Option<SequenceId>,
    },
}

/// Event that a branch waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Wait {
    #[default]
    Nothing,
    Body,
    /// A response that takes the place of the message, in the direction that it had.
    Call {
        /// The step that sent it.
        at: Option<At>,
        direction: Direction,
        endpoint: Option<EndpointId>,
    },
    /// A response that a step joins with the message.
    Part {
        at: Option<At>,
        endpoint: Option<EndpointId>,
    },
    /// A response that continues on its own.
    Send {
        receive: Option<SequenceId>,
        endpoint: Option<EndpointId>,
    },
    /// A response that is not needed (`OUT_ONLY`).
    OneWay {
        endpoint: Option<EndpointId>,
    },
    /// The parts of a scatter.
    Scatter,
    /// For a thread that may take its time: it responds there, for the step at this place, if there is one.
    Respond {
        at: Option<At>,
    },
}

/// A part of a fork.
#[derive(Clone, Debug)]
pub(super) struct Split {
    pub(super) id: Option<Box<str>>,
    /// The fork's number in the run.
    pub(super) fork: u32,
    pub(super) part: usize,
    pub(super) total: usize,
}

impl Branch {
    /// Its position among the parts of forks: fork and part, from the outermost.
    pub(super) fn split_order(&self) -> Box<[(u32, usize)]> {
        self.splits.iter().map(|split| (split.fork, split.part)).collect()
    }

    /// Boxed, since a run moves its branches about.
    pub(super) fn new(id: BranchId, message: Box<Message>, source: Source, end: End) -> Box<Self> {
        Box::new(Self {
            id,
            message,
            source,
            stack: Vec::new(),
            after: None,
            has_called: false,
            handlers: Vec::new(),
            handled: 0,
            failure: None,
            end,
            recipient: None,
            is_sent: false,
            splits: Vec::new(),
            owner: None,
            wait: Wait::Nothing,
            joined: None,
            answer: None,
        })
    }

    /// One with a copy of the message that repeats the last step, a call, for one recipient, and goes on as this one
    /// would.
    pub(super) fn repeated_for(&self, id: BranchId, message: Box<Message>, to: To) -> Box<Self> {
        let mut branch = Self::new(id, message, self.source, self.end);
        branch.stack.clone_from(&self.stack);
        branch.after.clone_from(&self.after);
        branch.has_called = self.has_called;
        branch.handlers.clone_from(&self.handlers);
        branch.handled = self.handled;
        branch.failure.clone_from(&self.failure);
        branch.recipient = Some(to);
        branch.is_sent = self.is_sent;
        branch.splits.clone_from(&self.splits);
        branch.rewind();
        branch
    }

    /// State that its parts inherit.
    pub(super) fn inherited(&self) -> Inherited {
        let parameters = shared_parameters(&self.stack).cloned().unwrap_or_default();
        Inherited { splits: self.splits.clone(), parameters, source: self.source }
    }

    /// A part of a message, without error handlers.
    pub(super) fn of_part(
        id: BranchId,
        part: Part,
        inherited: &Inherited,
        program: &Program,
    ) -> Box<Self> {
        let end = part.to.map_or(End::Nothing, |to| End::Send { to, receive: None });
        let mut branch = Self::new(id, part.message, inherited.source, end);
        branch.splits.clone_from(&inherited.splits);
        if let Some(sequence) = part.sequence {
            // The stack is empty, so this is not too deep.
            let called = Some((Arc::clone(&inherited.parameters), None));
            let _ = branch.enter(program, sequence, called);
        }
        branch
    }

    /// Where the parts of a fork go on after a call. Source: Synapse's continuation stack, which `IterateMediator` and
    /// `CloneMediator` copy, and `Axis2SynapseEnvironment` resumes when the response to a `call` arrives.
    ///
    /// # Errors
    /// More than `limits::SEQUENCE_DEPTH_MAX` forks are inside each other: one is in its own target.
    pub(super) fn after(&self) -> Result<Arc<After>, Failure> {
        let depth = self.after.as_ref().map_or(0, |after| after.depth).saturating_add(1);
        if depth > limits::SEQUENCE_DEPTH_MAX {
            return Err(too_deep());
        }
        let (stack, handlers) = (self.stack.clone(), self.handlers.clone());
        Ok(Arc::new(After { stack, handlers, next: self.after.clone(), depth }))
    }

    /// The place of the next step; `None` at the end of all sequences.
    pub(super) fn place(&mut self, program: &Program) -> Option<At> {
        loop {
            if self.stack.is_empty() && self.has_called {
                let after = self.after.take()?;
                self.stack.clone_from(&after.stack);
                self.handlers.clone_from(&after.handlers);
                self.after.clone_from(&after.next);
                continue;
            }
            let frame = self.stack.last()?;
            let at = At { sequence: frame.sequence, index: frame.next() };
            if at.step(program).is_some() {
                return Some(at);
            }
            self.stack.pop();
        }
    }

    pub(super) fn advance(&mut self) {
        if let Some(frame) = self.stack.last_mut() {
            frame.next = frame.next.saturating_add(1);
        }
    }

    /// Repeats the last step.
    pub(super) fn rewind(&mut self) {
        if let Some(frame) = self.stack.last_mut() {
            frame.next = frame.next.saturating_sub(1);
        }
    }

    /// Waits for the response to the sent message, as if it had taken the steps up to there.
    pub(super) fn wait_for(&mut self, sent: Sent) {
        let endpoint = Some(sent.endpoint);
        let Some(at) = sent.called else {
            self.leave_stack();
            self.wait = Wait::Send { receive: None, endpoint };
            return;
        };
        if let Some(frame) = self.stack.last_mut() {
            frame.next = u32::try_from(at.index).unwrap_or(u32::MAX);
        }
        self.advance();
        self.has_called = true;
        self.wait = Wait::Call { at: Some(at), direction: self.message.direction, endpoint };
    }

    /// Whether steps are left.
    pub(super) fn has_steps(&self, program: &Program) -> bool {
        self.rest(program).next().is_some()
    }

    /// Whether a parameter is evaluated where it is read, perhaps on the body.
    pub(super) fn reads_late(&self) -> bool {
        parameters(&self.stack).iter().any(|(_, value)| value.as_late().is_some())
    }

    /// Whether a step that is left may need the body.
    pub(super) fn needs_body(&self, program: &Program) -> bool {
        let untouched = expression::BodyUse::Untouched;
        let mut rest = self.rest(program);
        if self.reads_late() {
            return rest.next().is_some();
        }
        rest.any(|step| {
            let mut entered = step.mediator.enters().into_iter();
            step.mediator.body_use() != untouched
                || entered.any(|sequence| program.body_use(sequence) != untouched)
        })
    }

    fn rest<'p>(&self, program: &'p Program) -> impl Iterator<Item = &'p Step> {
        let first = self.after.as_ref().filter(|_| self.has_called);
        let after = std::iter::successors(first, |after| after.next.as_ref());
        let stacks = std::iter::once(&self.stack).chain(after.map(|after| &after.stack));
        stacks.flat_map(|stack| stack.iter().rev()).flat_map(|frame| {
            let steps = program.get(frame.sequence).map(|sequence| &*sequence.steps);
            steps.and_then(|steps| steps.get(frame.next()..)).unwrap_or_default()
        })
    }

    /// # Errors
    /// Above `limits::SEQUENCE_DEPTH_MAX`.
    pub(super) fn enter(
        &mut self,
        program: &Program,
        sequence: SequenceId,
        called: Option<Called>,
    ) -> Result<(), Failure> {
        if self.stack.len() >= limits::SEQUENCE_DEPTH_MAX {
            return Err(too_deep());
        }
        let (parameters, caller) =
            called.map(|(of, caller)| (Some(of), caller)).unwrap_or_default();
        // The handler of a template takes the place of that of its call.
        let own = program.get(sequence).and_then(|sequence| sequence.on_error);
        let on_error = own.or(caller);
        self.stack.push(Frame { sequence, next: 0, parameters, on_error });
        Ok(())
    }

    /// Leaves all sequences for this one.
    pub(super) fn restart(&mut self, program: &Program, sequence: Option<SequenceId>) {
        self.stack.clear();
        (self.after, self.has_called) = (None, false);
        if let Some(sequence) = sequence {
            // The stack is empty, so this is not too deep.
            let _ = self.enter(program, sequence, None);
        }
    }

    /// Whether a failure has an error handler.
    pub(super) fn has_handlers(&self) -> bool {
        !self.handlers.is_empty() || self.stack.iter().any(|frame| frame.on_error.is_some())
    }

    /// All error handlers, the last one for the next failure.
    pub(super) fn all_handlers(&self) -> Vec<SequenceId> {
        let own = self.stack.iter().filter_map(|frame| frame.on_error);
        self.handlers.iter().copied().chain(own).collect()
    }

    /// Leaves all sequences; their error handlers remain.
    pub(super) fn leave_stack(&mut self) {
        self.handlers.extend(self.stack.drain(..).filter_map(|frame| frame.on_error));
    }

    /// Continues in the innermost error handler, which is used up.
    ///
    /// # Errors
    /// There is none, or too many failed: the failure.
    pub(super) fn handle(
        &mut self,
        program: &Program,
        failure: Failure,
        budget: &Budget,
    ) -> Result<(), Failure> {
        self.handlers = self.all_handlers();
        // One that is its own handler would fail for ever.
        let is_allowed = self.handled < limits::HANDLED_FAILURES_MAX;
        let handler = self.handlers.pop().filter(|_| is_allowed);
        let Some(handler) = handler else { return Err(failure) };
        self.handled = self.handled.saturating_add(1);
        self.restart(program, Some(handler));
        self.end = End::Nothing;
        let known = self.message.properties.get(PropertyScope::Synapse, "ERROR_CODE");
        let is_noted = known.is_none() || failure.code != Code::MEDIATION || failure.kind.is_some();
        if is_noted && self.note(&failure, budget).is_err() {
            return Err(failure);
        }
        if is_noted || self.failure.is_none() {
            self.failure = Some(failure);
        }
        Ok(())
    }

    /// Sets the properties that an error handler reads. A failure without a code does not hide the first one. Source:
    /// Synapse's `FaultHandler`.
    fn note(&mut self, failure: &Failure, budget: &Budget) -> Result<(), Failure> {
        let code = failure.kind.clone().unwrap_or_else(|| failure.code.0.to_string());
        let detail = failure.detail.as_ref().or(failure.place.as_ref());
        let texts = [
            ("ERROR_CODE", code),
            ("ERROR_MESSAGE", failure.message.clone()),
            ("ERROR_DETAIL", detail.cloned().unwrap_or_default()),
            ("ERROR_EXCEPTION", failure.to_string()),
        ];
        for (name, text) in texts {
            let value = PropertyValue::new(text);
            self.message.set(PropertyScope::Synapse, name, value, budget)?;
        }
        Ok(())
    }

    /// Takes the response in.
    pub(super) fn respond_with(
        &mut self,
        ask: AskId,
        response: Box<Message>,
        budget: &Budget,
    ) -> Result<(), Failure> {
        let sent_as = self.message.properties.get(PropertyScope::Axis2, MESSAGE_TYPE).cloned();
        self.source = Source::Response(ask);
        let before = (budget.bytes_used(), self.message.kept());
        let taken = self.message.take_response(response, sent_as, budget);
        self.message.release_since(before, budget);
        taken
    }

    /// Whether an answer may have to be searched for a SOAP fault, which takes long: that of a step that blocks, if its
    /// status is an error.
    pub(super) fn checks_long(&self, answer: &Answer) -> bool {
        let Answer::Response(response) = answer else { return false };
        let is_error = || !(200..300).contains(&response.status());
        let says = || self.message.says(PropertyScope::Synapse, FORCE_ERROR_ON_SOAP_FAULT);
        response.is_long_to_check() && (is_error() || says())
    }

    /// Whether no response is expected.
    pub(super) fn is_one_way(&self) -> bool {
        self.message.says(PropertyScope::Synapse, OUT_ONLY)
    }
}

pub(super) fn too_deep() -> Failure {
    let message = format!("sequences are nested deeper than {}", limits::SEQUENCE_DEPTH_MAX);
    Failure::new(Code::MEDIATION, message)
}

/// Parameters of the sequence template that runs.
pub(super) fn parameters(stack: &[Frame]) -> &[(String, PropertyValue)] {
    shared_parameters(stack).map_or(&[][..], |parameters| parameters)
}

fn shared_parameters(stack: &[Frame]) -> Option<&Parameters> {
    stack.iter().rev().find_map(|frame| frame.parameters.as_ref())
}
