//! Context that a mediator reads besides the message.

use expression::{Budget, Expression, Value};

use crate::error::{Code, Failure};
use crate::limits;
use crate::message::{Message, PropertyValue};
use crate::program::{Environment, Program, View};

/// Context that a mediator reads besides the message.
pub struct Scene<'r> {
    pub program: &'r Program,
    pub environment: &'r dyn Environment,
    /// One for the whole run.
    pub budget: &'r Budget,
    /// Parameters of the sequence template that runs.
    pub parameters: &'r [(String, PropertyValue)],
}

impl Scene<'_> {
    /// Evaluates `expression`; references to absent values are [`Value::Null`].
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

    /// The result of `make` for `message`, to be charged by its owner: its charges so far are released, except for the
    /// views of the body.
    pub(crate) fn uncharged<T>(&self, message: &Message, make: impl FnOnce() -> T) -> T {
        let before = (self.budget.bytes_used(), message.kept());
        let made = make();
        message.release_since(before, self.budget);
        made
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
        View::new(message, self.parameters, (self.program, self.environment), self.budget)
    }

    /// Checks the number of messages that a mediator is about to make of one, and charges them.
    ///
    /// # Errors
    /// Above `limits::PARTS_MAX`, or the budget.
    pub fn charge_parts(&self, parts: usize) -> Result<(), Failure> {
        if parts > limits::PARTS_MAX {
            let message = format!("{parts} parts of a message, more than {}", limits::PARTS_MAX);
            return Err(Failure::new(Code::MEDIATION, message));
        }
        self.budget.charge_steps(limits::MEDIATOR_STEPS.saturating_mul(parts as u64))?;
        Ok(())
    }
}
