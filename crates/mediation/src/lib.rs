//! Mediation: the sequences and mediators of WSO2's Micro Integrator and Apache Synapse.
//!
//! An artefact (XML) is compiled once into a [`Program`]: flat sequences of [`Mediator`]s that refer to each other by
//! number. A [`Run`] takes a [`Message`], and everything made of it, through sequences. It never waits: when a mediator
//! needs the outside, the run stops with an [`Ask`], the host performs it, and the run resumes where it was. Its stacks
//! are explicit, so their depth is bounded and a test drives it without sockets.
//!
//! ```text
//! loop {
//!     match run.next(environment) {
//!         Event::Ask(id, ask) => start(id, ask),               // later: run.answer(id, answer)
//!         Event::Respond(message, source) => respond(message, source),
//!         Event::Accepted => respond_with_202(),
//!         Event::Failed(failure) => respond_with_fault(failure),
//!         Event::Heavy => run = on_a_heavy_thread(run),        // with run.next_heavy(environment)
//!         Event::Waiting => wait_for_an_answer(),
//!         Event::Done => break,
//!     }
//! }
//! ```
//!
//! The folders, lowest first, each of which imports only those before it: `message` has bodies and properties;
//! `program` has compiled artefacts and the interface of a step; `run` takes messages through sequences; `syntax` reads
//! elements; `mediators` and `policies` are the steps; `compile` reads whole artefacts.
//!
//! Architecture invariant: no I/O, no clock, no thread. The host supplies the message's head ([`Head`]) and everything
//! else that an expression may read ([`Environment`]).

mod compile;
mod error;
pub mod limits;
mod mediators;
mod message;
mod policies;
mod program;
#[cfg(any(test, feature = "fuzzing"))]
pub mod properties;
mod run;
mod syntax;

pub use compile::Origin;
pub use error::{Code, Details, Failure};
pub use expression::BodyUse;
pub use mediators::{MEDIATORS, UNSERVED, soap_fault};
pub use message::{
    Arrival, Body, Direction, Effect, Format, Head, KNOWN, Known, Message, NOT_CHUNKED, PlainHead,
    Properties, PropertyScope, PropertyValue, Served,
};
pub use policies::{
    ApiPolicies, CLAIMS, CONTRACT, INVOCATION, Members, OperationFlow, POLICIES, PolicyParameter,
    PolicyProblem, PolicyReading, PolicyRow, RESPONSE_CACHE, SCHEMA_VALIDATION,
    check as check_policy, path_variables, policy, response_cache_s,
};
pub use program::{
    Api, Asked, Bindings, Call, Collect, Credentials, Endpoint, EndpointFormat, EndpointId,
    EndpointKind, Environment, Flow, Fork, Found, Inbound, InboundTarget, LogLevel, Matched,
    Mediator, Memory, Next, Part, Parts, Piece, Program, Proxy, Resource, ResourcePath, Retry,
    Routing, Scatter, Scene, SequenceId, Step, Suspend, Timeout, TimeoutAction, To, Transports,
    View, Wsdl, uri_template,
};
pub use run::{
    Answer, Ask, AskId, Detour, Event, Exchange, FORCE_ERROR_ON_SOAP_FAULT, HELD_WHEN_SENT,
    Passage, Run, Sent, Source, Target,
};
pub use syntax::{Compiler, Element, NAMESPACE, Row, serialise};
