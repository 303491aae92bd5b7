//! Compiled artefacts, and the interface between a step and its surroundings.
//!
//! A [`Program`] holds sequences of [`Step`]s, endpoints and services, which refer to each other by number. A
//! [`Mediator`] gets a message and a [`Scene`]: the program, the host's [`Environment`], and the budget of the run. It
//! returns the [`Next`] thing to do, which it leaves to the run. [`Memory`] keeps the state of mediators between runs.
//!
//! Above `message`, below everything else: nothing here runs a sequence or reads an artefact.

mod artefacts;
mod cache_policy;
pub(crate) mod description;
mod entry;
mod mediator;
pub(crate) mod memory;
mod pattern;
mod routing;
mod scene;
mod service;
pub mod uri_template;
mod view;

pub(crate) use artefacts::{Addressing, ORIGINAL, Sequence, Site, Template, TemplateParameter};
pub use artefacts::{
    Credentials, Endpoint, EndpointFormat, EndpointId, EndpointKind, Program, Retry, SequenceId,
    Step, Suspend, Timeout, TimeoutAction,
};
pub(crate) use cache_policy::{CachePolicy, Excluded};
pub use description::Wsdl;
pub(crate) use entry::Entry;
pub use mediator::{Call, Collect, Fork, Mediator, Next, Part, Parts, Piece, Routing, Scatter, To};
pub use memory::Memory;
pub(crate) use pattern::Pattern;
pub use scene::Scene;
pub(crate) use service::Conditions;
pub use service::{
    Api, Asked, Bindings, Flow, Found, Inbound, InboundTarget, Matched, Proxy, Resource,
    ResourcePath, Transports,
};
pub use view::{Environment, LogLevel, View};
