//! Mediation: what WSO2's Micro Integrator and Apache Synapse call sequences and mediators.
//!
//! An artefact (XML) is compiled once into a [`Program`]: flat sequences of [`Mediator`]s that refer to each other by
//! number. A [`Run`] takes a [`Message`], and everything that becomes of it, through sequences. It never waits: when a
//! mediator needs the outside, the run stops with an [`Ask`], the host performs it, and the run resumes where it was.
//! Its stacks are explicit, so their depth is bounded and a test drives it without sockets.
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
//! Architecture invariant: no I/O, no clock, no thread. The host supplies the message's head ([`Head`]) and everything
//! else that an expression may read ([`Environment`]).

mod bench;
mod compile;
mod description;
mod error;
mod known;
pub mod limits;
mod mediator;
mod mediators;
mod memory;
mod message;
pub mod outline;
mod pass_through;
mod policies;
mod program;
#[cfg(any(test, feature = "fuzzing"))]
pub mod properties;
mod run;
mod service;
mod template;
pub mod unit_test;

pub use bench::{Bench, BenchHead, Streams, perform};
pub use compile::{Compiler, Element, Origin};
pub use description::Wsdl;
pub use error::{Code, Details, Failure};
pub use expression::BodyUse;
pub use mediator::{Call, Collect, Fork, Mediator, Next, Part, Parts, Piece, Scatter, To};
pub use mediators::{MEDIATORS, Row, soap_fault, synapse_page};
pub use memory::Memory;
pub use message::{
    Body, Direction, Environment, Format, Head, LogLevel, Message, PlainHead, Properties,
    PropertyScope, PropertyValue, View,
};
pub use pass_through::{Detour, Passage, Routing};
pub use policies::{
    ApiPolicies, CLAIMS, CONTRACT, INVOCATION, Members, OperationFlow, POLICIES, PolicyParameter,
    PolicyProblem, PolicyReading, PolicyRow, RESPONSE_CACHE, SCHEMA_VALIDATION,
    check as check_policy, path_variables, policies_examples, policies_page, policy,
    response_cache_s,
};
pub use program::{
    Credentials, Endpoint, EndpointFormat, EndpointId, EndpointKind, Program, Retry, SequenceId,
    Step, Suspend, Timeout, TimeoutAction,
};
pub use run::{Answer, Ask, AskId, Event, Exchange, Run, Scene, Sent, Source, Target};
pub use service::{
    Api, Arrival, Asked, Bindings, Flow, Found, Inbound, InboundTarget, Matched, Proxy, Resource,
    ResourcePath, Served, Transports,
};
