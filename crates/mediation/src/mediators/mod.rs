//! The mediators, one file each.

mod call_template;
mod enrich;
mod filter;
mod flow;
mod header;
mod log;
mod make_fault;
mod pattern;
mod payload_factory;
mod property;
mod send;
mod sequence;
mod switch;
mod text;
mod throw_error;
mod xslt;

use crate::Mediator;
use crate::compile::{Compiler, Element};

/// A mediator's element, and what makes it.
#[derive(Debug)]
pub struct Row {
    /// The element's local name.
    pub element: &'static str,
    /// Compiles the element. `None` if an error was reported.
    pub compile: fn(&mut Compiler, &Element<'_>) -> Option<Box<dyn Mediator>>,
    /// What it does, in one sentence.
    pub about: &'static str,
}

/// Every mediator. docs/synapse.md is generated from it.
#[rustfmt::skip]
pub const MEDIATORS: &[Row] = &[
    Row { element: "call",              compile: send::call,                  about: "sends the message to an endpoint and waits for the response" },
    Row { element: "call-template",     compile: call_template::compile,      about: "runs a sequence template with parameters" },
    Row { element: "drop",              compile: flow::drop_message,          about: "ends the message" },
    Row { element: "enrich",            compile: enrich::compile,             about: "copies a part of the message to another place" },
    Row { element: "fastXSLT",          compile: xslt::compile,               about: "transforms the payload by a stylesheet" },
    Row { element: "filter",            compile: filter::compile,             about: "runs one of two branches, by an expression or a pattern" },
    Row { element: "header",            compile: header::compile,             about: "sets or removes a header" },
    Row { element: "in",                compile: flow::request_only,          about: "runs its mediators on requests only" },
    Row { element: "log",               compile: log::compile,                about: "writes a line to the log" },
    Row { element: "loopback",          compile: flow::loopback,              about: "continues with the sequence for responses" },
    Row { element: "makefault",         compile: make_fault::compile,         about: "turns the message into a fault" },
    Row { element: "out",               compile: flow::response_only,         about: "runs its mediators on responses only" },
    Row { element: "payloadFactory",    compile: payload_factory::compile,    about: "replaces the body by a template's output" },
    Row { element: "property",          compile: property::compile,           about: "sets or removes a property" },
    Row { element: "propertyGroup",     compile: property::group,             about: "sets several properties" },
    Row { element: "respond",           compile: flow::respond,               about: "sends the message back to the client" },
    Row { element: "send",              compile: send::compile,               about: "sends a request to an endpoint, or a response to the client" },
    Row { element: "sequence",          compile: sequence::compile,           about: "runs another sequence" },
    Row { element: "switch",            compile: switch::compile,             about: "runs the first case whose pattern matches" },
    Row { element: "throwError",        compile: throw_error::compile,        about: "fails, so that the error handler takes over" },
    Row { element: "variable",          compile: property::variable,          about: "sets or removes a variable" },
    Row { element: "xslt",              compile: xslt::compile,               about: "transforms the payload by a stylesheet" },
];
