//! Requests of a run to its host, and the answers.

use bytes::Bytes;
use expression::Budget;

use super::{AskId, Target};
use crate::error::Failure;
use crate::message::{Head, Message, Properties, PropertyScope, is_token};

/// A request of a run to its host.
#[derive(Debug)]
pub enum Ask {
    /// Send the message: [`Answer::Response`] or [`Answer::Failed`].
    Exchange(Box<Exchange>),
    /// Read this body, within the host's limits: [`Answer::Body`], [`Answer::Lost`] or [`Answer::Failed`].
    Body(Source),
    /// Wait as many milliseconds: [`Answer::Elapsed`]. One that is never answered lasts as long as the run.
    Timer(u64),
}

/// A message that is sent.
#[derive(Debug)]
pub struct Exchange {
    pub target: Target,
    /// The body is in the format of its receiver. The properties stay with the branch: [`Run::properties`].
    pub message: Box<Message>,
    /// Where its body comes from, if that still streams.
    pub source: Source,
    /// Whether the body of the response must be held, since a step reads it.
    pub holds: bool,
    /// Whether the response is not needed (`OUT_ONLY`). The host answers nevertheless.
    pub one_way: bool,
}

impl Target {
    /// The method that the endpoint or a property of the branch names. Without one, the message keeps its own.
    #[must_use]
    pub fn named_method(&self, properties: Option<&Properties>) -> Option<String> {
        let set = properties.and_then(|all| all.get(PropertyScope::Axis2, "HTTP_METHOD"));
        let named = self.method.clone().or_else(|| Some(set?.text().into_owned()));
        named.filter(|name| is_token(name))
    }

    /// The method of a message with this head. `None`: whichever fits its body.
    pub(super) fn method_of(
        &self,
        head: &dyn Head,
        properties: Option<&Properties>,
    ) -> Option<String> {
        let own = || head.property(PropertyScope::Axis2, "HTTP_METHOD");
        self.named_method(properties).or_else(|| Some(own()?.into_owned()))
    }
}

impl Exchange {
    /// The method that it is sent with.
    #[must_use]
    pub fn method(&self, properties: Option<&Properties>) -> String {
        let default = if self.message.body.is_empty() { "GET" } else { "POST" };
        let method = self.target.method_of(&*self.message.head, properties);
        method.unwrap_or_else(|| default.to_owned())
    }

    /// Whether its body is sent: not with `GET`. Source: Micro Integrator's `TargetRequestFactory`.
    #[must_use]
    pub fn sends_body(&self, properties: Option<&Properties>) -> bool {
        self.method(properties) != "GET"
    }
}

/// A body that streams through the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// The client's request.
    Request,
    /// The response to this exchange.
    Response(AskId),
}

/// The host's answer to an [`Ask`].
#[derive(Debug)]
pub enum Answer {
    /// Answer to an exchange: head and body; properties are ignored.
    Response(Box<Message>),
    /// Synapse's code, and the message that was not sent, if the host still has it: the error handler reads it.
    Failed(Failure, Option<Box<Message>>),
    Body(Bytes),
    /// The body was sent already, or broke off: an error handler reads an empty one.
    Lost,
    Elapsed,
}

impl Answer {
    /// Charges the views of a response's body; a failure if they exceed the budget.
    pub(super) fn charged(self, budget: &Budget) -> Self {
        let Self::Response(message) = &self else { return self };
        match budget.charge_memory(message.body.charged()) {
            Ok(()) => self,
            Err(exceeded) => Self::Failed(exceeded.into(), None),
        }
    }
}
