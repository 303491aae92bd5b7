//! Takes a message through sequences.

use expression::{Budget, Expression, Value};

use crate::message::{Environment, View};
use crate::program::{Program, SequenceId, Step};
use crate::{Ask, Code, Failure, Message, Next, PropertyScope, PropertyValue, limits};

/// What a mediator may look at besides the message.
pub struct Scene<'r> {
    pub program: &'r Program,
    pub environment: &'r dyn Environment,
    /// One for the whole run.
    pub budget: &'r Budget,
    /// Of the sequence template that runs.
    pub parameters: &'r [(String, PropertyValue)],
}

impl Scene<'_> {
    /// Evaluates `expression`; what it refers to and does not exist is [`Value::Null`].
    ///
    /// # Errors
    /// As [`Expression::evaluate_within`].
    pub fn with<T>(
        &self,
        expression: &Expression,
        message: &Message,
        take: impl FnOnce(Value<'_>) -> T,
    ) -> Result<T, Failure> {
        let view = self.view(message);
        match expression.evaluate_within(&view, self.budget) {
            Ok(value) => Ok(take(value)),
            Err(expression::Error::Missing(_)) => Ok(take(Value::Null)),
            Err(error) => Err(error.into()),
        }
    }

    /// The result as text.
    ///
    /// # Errors
    /// As [`Scene::with`].
    pub fn text(&self, expression: &Expression, message: &Message) -> Result<String, Failure> {
        self.with(expression, message, |value| value.text().into_owned())
    }

    /// The result as a condition.
    ///
    /// # Errors
    /// As [`Scene::with`].
    pub fn holds(&self, expression: &Expression, message: &Message) -> Result<bool, Failure> {
        Ok(expression.holds(&self.view(message), self.budget)?)
    }

    /// The message as expressions see it.
    #[must_use]
    pub fn view<'v>(&'v self, message: &'v Message) -> View<'v> {
        View::new(message, self.parameters, self.environment, self.budget)
    }
}

/// Why a run stopped.
#[derive(Debug)]
pub enum Outcome {
    /// The sequence is at its end, and nobody decided what becomes of the message.
    Ended,
    /// The host performs this, and calls [`Run::resume`].
    Ask(Ask),
    /// The message is the response to the client.
    Respond,
    /// The message continues in the sequence for responses.
    Loopback,
    /// The message was dropped on purpose.
    Dropped,
    /// No error handler took over.
    Failed(Failure),
}

/// A message's way through sequences. It keeps its place while the host performs an [`Ask`].
#[derive(Debug)]
pub struct Run {
    stack: Vec<Frame>,
    budget: Budget,
    /// Takes over if no sequence on the way has an `onError` of its own.
    fault: Option<SequenceId>,
    /// An error handler runs; another failure ends the run.
    is_handling: bool,
}

#[derive(Debug)]
struct Frame {
    sequence: SequenceId,
    /// The position of the next step.
    next: usize,
    /// Of a sequence template; empty if it is none.
    parameters: Vec<(String, PropertyValue)>,
    /// Steps of the frame below still see its parameters: this one is a branch of a mediator.
    is_nested: bool,
}

impl Run {
    /// A run of `sequence`. `fault`: the sequence for failures that no `onError` handles.
    #[must_use]
    pub fn new(sequence: SequenceId, fault: Option<SequenceId>, budget: Budget) -> Self {
        let first = Frame { sequence, next: 0, parameters: Vec::new(), is_nested: false };
        Self { stack: vec![first], budget, fault, is_handling: false }
    }

    /// Runs until the host is needed or the message is done.
    pub fn resume(
        &mut self,
        program: &Program,
        environment: &dyn Environment,
        message: &mut Message,
    ) -> Outcome {
        loop {
            let Some(step) = self.step(program) else {
                if self.stack.pop().is_none() || self.stack.is_empty() {
                    return Outcome::Ended;
                }
                continue;
            };
            let next = self.mediate(step, program, environment, message);
            let next = next.and_then(|next| match next {
                Next::Enter(sequence) => self.enter(sequence, Vec::new(), true),
                Next::Call(sequence, parameters) => self.enter(sequence, parameters, false),
                done @ (Next::Continue
                | Next::Ask(_)
                | Next::Respond
                | Next::Loopback
                | Next::Drop) => Ok(Some(done)),
            });
            match next {
                Ok(None | Some(Next::Continue | Next::Enter(_) | Next::Call(..))) => {}
                Ok(Some(Next::Ask(ask))) => return Outcome::Ask(ask),
                Ok(Some(Next::Respond)) => return Outcome::Respond,
                Ok(Some(Next::Loopback)) => return Outcome::Loopback,
                Ok(Some(Next::Drop)) => return Outcome::Dropped,
                Err(mut failure) => {
                    failure.place = Some(step.to_string());
                    if let Some(failure) = self.fail(failure, program, message) {
                        return Outcome::Failed(failure);
                    }
                }
            }
        }
    }

    /// Continues with the error handler, for a failure of what the host was asked. Returns the failure if there is
    /// none; else call [`Run::resume`].
    pub fn fail(
        &mut self,
        failure: Failure,
        program: &Program,
        message: &mut Message,
    ) -> Option<Failure> {
        let on_error = |frame: &Frame| program.get(frame.sequence)?.on_error;
        let handler = self.stack.iter().rev().find_map(on_error).or(self.fault);
        let Some(handler) = handler.filter(|_| !self.is_handling) else { return Some(failure) };
        self.is_handling = true;
        self.stack.clear();
        self.stack.push(Frame {
            sequence: handler,
            next: 0,
            parameters: Vec::new(),
            is_nested: false,
        });
        let texts = [
            ("ERROR_CODE", failure.code.0.to_string()),
            ("ERROR_MESSAGE", failure.message.clone()),
            ("ERROR_DETAIL", failure.place.clone().unwrap_or_default()),
            ("ERROR_EXCEPTION", failure.kind.clone().unwrap_or_default()),
        ];
        for (name, text) in texts {
            let value = PropertyValue::new(text);
            if message.set(PropertyScope::Synapse, name, value, &self.budget).is_err() {
                return Some(failure);
            }
        }
        None
    }

    /// Whether no step is left: the message can be moved to where it is sent, instead of copied.
    #[must_use]
    pub fn is_at_end(&self, program: &Program) -> bool {
        let is_left = |frame: &Frame| {
            program.get(frame.sequence).is_some_and(|sequence| frame.next < sequence.steps.len())
        };
        !self.stack.iter().any(is_left)
    }

    /// The next step of the innermost sequence; `None` at its end.
    fn step<'p>(&mut self, program: &'p Program) -> Option<&'p Step> {
        let frame = self.stack.last_mut()?;
        let step = program.get(frame.sequence)?.steps.get(frame.next)?;
        frame.next += 1;
        Some(step)
    }

    fn mediate(
        &self,
        step: &Step,
        program: &Program,
        environment: &dyn Environment,
        message: &mut Message,
    ) -> Result<Next, Failure> {
        self.budget.charge_steps(limits::MEDIATOR_STEPS)?;
        let owner = self.stack.iter().rev().find(|frame| !frame.is_nested);
        let parameters = owner.map_or(&[][..], |frame| &frame.parameters);
        let scene = Scene { program, environment, budget: &self.budget, parameters };
        let next = step.mediator.mediate(&scene, message)?;
        environment.mediated(step, message);
        Ok(next)
    }

    fn enter(
        &mut self,
        sequence: SequenceId,
        parameters: Vec<(String, PropertyValue)>,
        is_nested: bool,
    ) -> Result<Option<Next>, Failure> {
        if self.stack.len() >= limits::SEQUENCE_DEPTH_MAX {
            let message =
                format!("sequences are nested deeper than {}", limits::SEQUENCE_DEPTH_MAX);
            return Err(Failure::new(Code::MEDIATION, message));
        }
        self.stack.push(Frame { sequence, next: 0, parameters, is_nested });
        Ok(None)
    }
}
