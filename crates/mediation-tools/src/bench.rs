//! A host without a network: a tool drives a run to its end, and answers its messages.

use std::any::Any;
use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use expression::{Budget, ParameterKind};
use xpath::synapse::PropertyScope;

use expression::BodyUse;
use mediation::{
    Answer, Ask, AskId, Body, Environment, Event, Exchange, Failure, Flow, Head, Message,
    PlainHead, Program, Properties, Run, Source, uri_template,
};

/// Answers of a tool in place of a network.
pub trait Bench: Environment {
    /// The answer to a message that is sent, which has `properties`. `None`: it never comes.
    fn exchange(&self, exchange: Exchange, properties: Option<&Properties>) -> Option<Answer>;

    /// The response to the client; there is at most one.
    fn respond(&self, message: Box<Message>);

    /// The client gets 202 instead, and the run goes on.
    fn accept(&self);
}

/// Bodies, which stream until they are read, as through a gateway.
#[derive(Debug, Default)]
pub struct Streams(BTreeMap<Source, Bytes>);

impl Streams {
    /// Lets the body of the response to `ask` stream.
    pub fn take(&mut self, ask: AskId, answer: &mut Answer) {
        let Answer::Response(response) = answer else { return };
        self.take_body(Source::Response(ask), response);
    }

    fn take_body(&mut self, source: Source, message: &mut Message) {
        if let Ok(Some(bytes)) = message.body.bytes(&Budget::large())
            && !bytes.is_empty()
        {
            message.body = Body::streaming(message.body.format());
            self.0.insert(source, bytes);
        }
    }

    /// A body is taken when it is read or sent on.
    pub fn read(&mut self, source: Source) -> Option<Bytes> {
        self.0.remove(&source)
    }

    /// A message that leaves the run has its body, unless that was taken before.
    pub fn hold(&mut self, message: &mut Message, source: Source) {
        if message.body.state() == BodyUse::Untouched
            && let Some(bytes) = self.read(source)
        {
            message.hold(bytes);
        }
    }
}

/// Takes a request through a flow to its end. Time limits are over as soon as nothing else can happen.
///
/// # Errors
/// The failure that no error handler took, without a response.
pub fn perform(
    (program, flow): (Arc<Program>, Flow),
    mut request: Box<Message>,
    bench: &impl Bench,
) -> Result<(), Failure> {
    // Time limits of aggregates; they elapse after all other events.
    let mut timers = VecDeque::new();
    let mut streams = Streams::default();
    streams.take_body(Source::Request, &mut request);
    let mut run = Run::new(program, flow, request, Budget::large());
    loop {
        match run.next_heavy(bench) {
            Event::Ask(id, Ask::Exchange(mut exchange)) => {
                streams.hold(&mut exchange.message, exchange.source);
                let holds = exchange.holds;
                if let Some(mut answer) = bench.exchange(*exchange, run.properties(id)) {
                    if !holds {
                        streams.take(id, &mut answer);
                    }
                    run.answer(id, answer);
                }
            }
            Event::Ask(id, Ask::Timer(_)) => timers.push_back(id),
            Event::Ask(id, Ask::Body(source)) => {
                run.answer(id, streams.read(source).map_or(Answer::Lost, Answer::Body));
            }
            Event::Respond(mut message, source) => {
                streams.hold(&mut message, source);
                bench.respond(message);
            }
            Event::Accepted => bench.accept(),
            Event::Failed(failure) => return Err(failure),
            Event::Heavy => {}
            Event::Waiting => match timers.pop_front() {
                Some(timer) => run.answer(timer, Answer::Elapsed),
                None => return Ok(()),
            },
            Event::Done => return Ok(()),
        }
    }
}

/// A head without a connection, with the properties that a gateway's head has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BenchHead {
    pub plain: PlainHead,
    /// Bytes of the service's own path in the target; the rest is `REST_URL_POSTFIX`.
    pub prefix_len: usize,
    /// Head of a response.
    pub status: Option<u16>,
}

impl BenchHead {
    fn query_parameter(&self, name: &str) -> Option<String> {
        let (_, query) = self.plain.target.split_once('?')?;
        query.split('&').find_map(|pair| {
            let (known, value) = pair.split_once('=').unwrap_or((pair, ""));
            (uri_template::decode(known) == name).then(|| uri_template::decode(value))
        })
    }
}

impl Head for BenchHead {
    fn field(&self, name: &str) -> Option<Cow<'_, str>> {
        self.plain.field(name)
    }

    fn set_field(&mut self, name: &str, value: &str) {
        self.plain.set_field(name, value);
    }

    fn add_field(&mut self, name: &str, value: &str) {
        self.plain.add_field(name, value);
    }

    fn remove_field(&mut self, name: &str) {
        self.plain.remove_field(name);
    }

    fn fields(&self, each: &mut dyn FnMut(&str, &str)) {
        self.plain.fields(each);
    }

    fn parameter(&self, kind: ParameterKind, name: &str) -> Option<Cow<'_, str>> {
        let is_query = matches!(kind, ParameterKind::Query);
        is_query.then(|| self.query_parameter(name).map(Cow::Owned)).flatten()
    }

    fn property(&self, scope: PropertyScope, name: &str) -> Option<Cow<'_, str>> {
        if let Some(status) = self.status {
            let is_status = scope == PropertyScope::Axis2 && name == "HTTP_SC";
            return is_status.then(|| status.to_string().into());
        }
        match (scope, name) {
            (PropertyScope::Synapse, "REST_METHOD") => {
                self.plain.property(PropertyScope::Axis2, "HTTP_METHOD")
            }
            (PropertyScope::Axis2, "REST_URL_POSTFIX")
            | (PropertyScope::Synapse, "REST_SUB_REQUEST_PATH") => {
                self.plain.target.get(self.prefix_len..).map(Cow::Borrowed)
            }
            (PropertyScope::Synapse, "REST_FULL_REQUEST_PATH" | "To") => {
                Some(Cow::Borrowed(&self.plain.target))
            }
            (PropertyScope::Synapse, name) => {
                self.query_parameter(name.strip_prefix("query.param.")?).map(Cow::Owned)
            }
            _ => self.plain.property(scope, name),
        }
    }

    fn copy(&self) -> Box<dyn Head> {
        Box::new(self.clone())
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
