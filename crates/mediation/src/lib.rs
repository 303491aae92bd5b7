//! Mediation: what WSO2's Micro Integrator and Apache Synapse call sequences and mediators.
//!
//! An artefact (XML) is compiled once into a [`Program`]: flat sequences of [`Mediator`]s that refer to each other by
//! number. A [`Run`] takes a [`Message`] through a sequence. It never waits: when a mediator needs the outside, the run
//! stops with an [`Ask`], the host performs it, and the run resumes where it was. Its stack is explicit, so its depth
//! is bounded and a test drives it without sockets.
//!
//! Architecture invariant: no I/O, no clock, no thread. The host supplies the message's head ([`Head`]) and everything
//! else that an expression may read ([`Environment`]).

mod compile;
mod error;
pub mod limits;
mod mediator;
mod mediators;
mod message;
mod program;
#[cfg(any(test, feature = "fuzzing"))]
pub mod properties;
mod run;

pub use compile::{Compiler, Element, Origin};
pub use error::{Code, Failure};
pub use expression::BodyUse;
pub use mediator::{Ask, Mediator, Next, To};
pub use mediators::{MEDIATORS, Row, synapse_page};
pub use message::{
    Body, Direction, Environment, Format, Head, LogLevel, Message, PlainHead, Properties,
    PropertyScope, PropertyValue, View,
};
pub use program::{
    Api, Endpoint, EndpointId, EndpointKind, Flow, Program, Proxy, Resource, ResourcePath,
    SequenceId, Step, Suspend, Timeout, TimeoutAction, Transports,
};
pub use run::{Outcome, Run, Scene};
