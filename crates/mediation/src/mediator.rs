//! What a mediator is, and what it asks of the run.

use std::fmt;

use expression::BodyUse;

use crate::program::{EndpointId, SequenceId};
use crate::run::Scene;
use crate::{Failure, Message};

/// One step of a sequence, compiled from its element.
pub trait Mediator: fmt::Debug + Send + Sync {
    /// What it needs of the body. The host holds the body of a message only if a step requires it.
    fn body_use(&self) -> BodyUse {
        BodyUse::Untouched
    }

    /// The sequences that it may enter, so that their needs are known at load.
    fn enters(&self) -> Vec<SequenceId> {
        Vec::new()
    }

    /// Acts on the message.
    ///
    /// # Errors
    /// The message cannot be mediated; the error handler of the sequence takes over.
    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure>;
}

/// How a run continues after a mediator.
#[derive(Debug)]
pub enum Next {
    /// With the next mediator.
    Continue,
    /// With this sequence, and then with the next mediator.
    Enter(SequenceId),
    /// The same, with parameters that `$func:name` reads.
    Call(SequenceId, Vec<(String, crate::PropertyValue)>),
    /// When the host has done this.
    Ask(Ask),
    /// The message is the response to the client; the run ends.
    Respond,
    /// The message continues in the sequence for responses; the run ends.
    Loopback,
    /// The message ends here, and so does the run.
    Drop,
}

/// What a run needs from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Send the message to the endpoint and wait: the response takes its place.
    Call(To),
    /// Send the message to the endpoint; its response continues in `receive`, or in the sequence for responses.
    Send { to: To, receive: Option<SequenceId> },
}

/// Where a message is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    Endpoint(EndpointId),
    /// A request to its own address (`To`); a response back to the client.
    Implied,
}
