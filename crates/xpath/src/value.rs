//! The four types of values and their conversions: XPath 1.0 sections 1, 4.2, 4.3 and 4.4.

use std::borrow::Cow;

use crate::budget::{Budget, BudgetExceeded};
use crate::error::Error;
use crate::item::{Item, NodeSet};
use crate::number::{number_to_string, string_to_number};
use crate::plan::Type;

/// The value of an expression.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'d> {
    NodeSet(NodeSet<'d>),
    String(String),
    Number(f64),
    Boolean(bool),
}

impl<'d> Value<'d> {
    /// Converts as `string()` does: section 4.2. Reads the text of a node without a charge.
    #[must_use]
    pub fn string(&self) -> Cow<'_, str> {
        match self {
            Self::NodeSet(nodes) => nodes.first().map_or(Cow::Borrowed(""), Item::string_value),
            Self::String(text) => Cow::Borrowed(text),
            Self::Number(number) => number_to_string(*number),
            Self::Boolean(value) => Cow::Borrowed(if *value { "true" } else { "false" }),
        }
    }

    #[must_use]
    pub fn into_string(self) -> String {
        match self {
            Self::String(text) => text,
            Self::NodeSet(_) | Self::Number(_) | Self::Boolean(_) => self.string().into_owned(),
        }
    }

    /// As [`Value::string`], with the text of nodes charged before it is read.
    ///
    /// # Errors
    /// [`BudgetExceeded`].
    pub fn charged_string(&self, budget: &Budget) -> Result<Cow<'_, str>, BudgetExceeded> {
        match self {
            Self::NodeSet(nodes) => match nodes.first() {
                Some(first) => first.charged_string_value(budget),
                None => Ok(Cow::Borrowed("")),
            },
            Self::String(_) | Self::Number(_) | Self::Boolean(_) => Ok(self.string()),
        }
    }

    /// Converts as `number()` does: section 4.4. Reads the text of a node without a charge.
    #[must_use]
    pub fn number(&self) -> f64 {
        match self {
            Self::Number(number) => *number,
            Self::Boolean(value) => f64::from(u8::from(*value)),
            Self::String(text) => string_to_number(text),
            Self::NodeSet(_) => string_to_number(&self.string()),
        }
    }

    /// Converts as `boolean()` does: section 4.3.
    #[must_use]
    pub fn boolean(&self) -> bool {
        match self {
            Self::NodeSet(nodes) => !nodes.is_empty(),
            Self::String(text) => !text.is_empty(),
            Self::Number(number) => is_true(*number),
            Self::Boolean(value) => *value,
        }
    }

    /// A copy, whose memory is charged before it is made. A [shared](NodeSet::into_shared) node-set isn't copied.
    ///
    /// # Errors
    /// [`BudgetExceeded`].
    pub fn copy(&self, budget: &Budget) -> Result<Self, BudgetExceeded> {
        let bytes = match self {
            Self::NodeSet(nodes) => nodes.clone_bytes(),
            Self::String(text) => text.len(),
            Self::Number(_) | Self::Boolean(_) => 0,
        };
        budget.charge_reading(bytes)?;
        budget.charge_memory(bytes)?;
        Ok(self.clone())
    }

    #[must_use]
    pub fn value_type(&self) -> Type {
        match self {
            Self::NodeSet(_) => Type::NodeSet,
            Self::String(_) => Type::String,
            Self::Number(_) => Type::Number,
            Self::Boolean(_) => Type::Boolean,
        }
    }

    /// The nodes of a node-set.
    ///
    /// # Errors
    /// [`Error::NotANodeSet`] for the other types, none of which converts to a node-set. `what` names
    /// the value in the message.
    pub fn into_nodes(self, what: &'static str) -> Result<NodeSet<'d>, Error> {
        let found = match self {
            Self::NodeSet(nodes) => return Ok(nodes),
            Self::String(_) => "string",
            Self::Number(_) => "number",
            Self::Boolean(_) => "boolean",
        };
        Err(Error::NotANodeSet { what, found })
    }
}

pub(crate) fn is_true(number: f64) -> bool {
    number != 0.0 && !number.is_nan()
}
