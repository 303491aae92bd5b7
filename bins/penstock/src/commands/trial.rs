//! `penstock try`: runs one message through a sequence.

use std::cell::RefCell;
use std::path::PathBuf;

use base::SystemClock;
use clap::Args;
use expression::{Budget, limits};
use mediation::{
    Ask, Body, Compiler, Direction, EndpointKind, Environment, Flow, Format, LogLevel, Message,
    Origin, Outcome, PlainHead, Program, PropertyScope, Run, SequenceId, Step, To,
};
use model::Severity;

use super::expression::headers;
use super::source::{Source, stdin_once};
use super::{stderr, stdout};
use crate::failure::Failure;

/// Run one message through a sequence, a proxy service or an API's resource, without a network
///
/// Prints where the message goes, its head and its body. Log lines and the trace go to stderr. A message that is sent
/// to an endpoint ends there, unless --response gives what the endpoint returns.
#[derive(Args)]
#[command(after_help = "Examples:
  penstock try orders.xml --payload order.json
  penstock try orders.xml --run OrderProxy --payload order.xml --headers headers.txt --trace
  penstock try orders.xml --run OrderProxy --payload order.xml --response reply.xml")]
pub(crate) struct Arguments {
    /// Artefact in Synapse's XML: a sequence, a proxy, or `definitions` with several
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The sequence or proxy to run; not needed if there is only one
    #[arg(long, value_name = "NAME")]
    run: Option<String>,
    /// File with the message body; `-` is stdin
    #[arg(long, value_name = "FILE")]
    payload: Option<PathBuf>,
    /// File with the headers: `name: value` lines, or a JSON object
    #[arg(long, value_name = "FILE")]
    headers: Option<PathBuf>,
    /// The request's method
    #[arg(long, value_name = "METHOD", default_value = "POST")]
    method: String,
    /// File with the body that each endpoint returns
    #[arg(long, value_name = "FILE")]
    response: Option<PathBuf>,
    /// Show what each mediator changes
    #[arg(long)]
    trace: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let files = [Some(&arguments.file), arguments.payload.as_ref(), arguments.headers.as_ref()];
    stdin_once(files.into_iter().flatten().chain(&arguments.response).map(PathBuf::as_path))?;
    let program = program(arguments)?;
    let flow = chosen(&program, arguments.run.as_deref())?;
    let message = request(arguments)?;
    let response = arguments.response.as_ref();
    let response = response.map(|file| Source::read(file, limits::JSON_BYTES_MAX)).transpose()?;
    let bench = Bench {
        program: &program,
        flow,
        response,
        trace: arguments.trace,
        shown: RefCell::new(describe(&message)),
    };
    let (end, mut message) = bench.run(message)?;
    let body =
        message.finish(&Budget::large()).map_err(|failure| failed(&failure))?.unwrap_or_default();
    let mut text = format!("{end}\n");
    message.head.fields(&mut |name, value| text.push_str(&format!("{name}: {value}\n")));
    text.push('\n');
    text.push_str(&String::from_utf8_lossy(&body));
    if !text.ends_with('\n') {
        text.push('\n');
    }
    stdout(&text)
}

fn program(arguments: &Arguments) -> Result<Program, Failure> {
    let source = Source::read(&arguments.file, limits::JSON_BYTES_MAX)?;
    let document = xml::Document::parse(&source.bytes).map_err(|error| source.xml_error(&error))?;
    let origin = Origin { file: &arguments.file, document: &document };
    let (program, diagnostics) = Compiler::compile(&[origin]);
    for diagnostic in &diagnostics {
        stderr(&format!("{diagnostic}\n"));
    }
    if diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error) {
        return Err(Failure::Reported);
    }
    Ok(program)
}

/// The flow of this name, or the only one.
fn chosen(program: &Program, name: Option<&str>) -> Result<Flow, Failure> {
    let of = |sequence: SequenceId| Flow { request: Some(sequence), ..Flow::default() };
    let sequences = program.sequences().map(|(name, id)| (name.to_owned(), of(id)));
    let proxies = program.proxies().iter().map(|proxy| (proxy.name.clone(), proxy.flow));
    let mut services: Vec<_> = proxies.collect();
    // What a service uses is not what somebody wants to try, unless it is named.
    if services.is_empty() || name.is_some() {
        services.extend(sequences);
    }
    services.sort_by(|(one, _), (other, _)| one.cmp(other));
    let names: Vec<_> = services.iter().map(|(name, _)| format!("`{name}`")).collect();
    let help = format!("the file has {}", names.join(", "));
    match (name, &*services) {
        (None, [(_, flow)]) => Ok(*flow),
        (None, []) => Err(Failure::Error("the file has no sequence and no proxy".to_owned())),
        (None, _) => Err(Failure::Usage(format!("choose what to run with --run NAME: {help}"))),
        (Some(name), _) => match services.iter().find(|(known, _)| known == name) {
            Some((_, flow)) => Ok(*flow),
            None => Err(Failure::Usage(format!("there is no `{name}`: {help}"))),
        },
    }
}

fn request(arguments: &Arguments) -> Result<Message, Failure> {
    let source = |file: &Option<PathBuf>| {
        file.as_ref().map(|file| Source::read(file, limits::JSON_BYTES_MAX)).transpose()
    };
    let fields = source(&arguments.headers)?.as_ref().map(headers).transpose()?;
    let mut fields = fields.unwrap_or_default();
    let payload = source(&arguments.payload)?;
    let is_type = |(name, _): &&(String, String)| name.eq_ignore_ascii_case("content-type");
    let declared = fields.iter().find(is_type).map(|(_, value)| Format::of(value));
    let body = match payload {
        Some(payload) => {
            let format = declared.unwrap_or_else(|| Format::guess(&payload.bytes));
            if declared.is_none() {
                fields.push(("Content-Type".to_owned(), format.content_type().to_owned()));
            }
            Body::held(format, payload.bytes)
        }
        None => Body::held(Format::Binary, Vec::new()),
    };
    let head = PlainHead { method: arguments.method.clone(), target: "/".to_owned(), fields };
    Ok(Message::new(Direction::Request, Box::new(head), body))
}

/// Runs a message, and shows what happens.
struct Bench<'b> {
    program: &'b Program,
    flow: Flow,
    response: Option<Source>,
    trace: bool,
    /// The message as it was last shown.
    shown: RefCell<Vec<String>>,
}

impl Bench<'_> {
    /// Where the message went, and the message.
    fn run(&self, mut message: Message) -> Result<(String, Message), Failure> {
        let start = |sequence| Run::new(sequence, self.flow.fault, Budget::large());
        let mut run = self.flow.request.map(start);
        loop {
            let outcome = match &mut run {
                Some(run) => run.resume(self.program, self, &mut message),
                None => Outcome::Ended,
            };
            let is_request = message.direction == Direction::Request;
            let (to, next) = match outcome {
                Outcome::Respond => return Ok(("responds to the client".to_owned(), message)),
                Outcome::Dropped => return Ok(("dropped".to_owned(), message)),
                Outcome::Failed(failure) => return Err(failed(&failure)),
                Outcome::Ask(Ask::Call(to)) => (self.address(to), None),
                Outcome::Ask(Ask::Send { to, receive }) => {
                    (self.address(to), Some(receive.or(self.flow.response)))
                }
                Outcome::Ended if is_request && self.flow.endpoint.is_some() => {
                    let to = self.flow.endpoint.map_or(To::Implied, To::Endpoint);
                    (self.address(to), Some(self.flow.response))
                }
                Outcome::Ended if is_request => {
                    return Ok(("ended: nothing sends it on".to_owned(), message));
                }
                Outcome::Ended => return Ok(("responds to the client".to_owned(), message)),
                Outcome::Loopback => {
                    message.direction = Direction::Response;
                    run = self.flow.response.map(start);
                    continue;
                }
            };
            let Some(response) = &self.response else {
                return Ok((format!("sent to {to}"), message));
            };
            if self.trace {
                stderr(&format!("sent to {to}\n"));
            }
            let format = Format::guess(&response.bytes);
            let fields = vec![("Content-Type".to_owned(), format.content_type().to_owned())];
            let head = PlainHead { fields, ..PlainHead::default() };
            let body = Body::held(format, response.bytes.clone());
            message.become_response(Box::new(head), body);
            *self.shown.borrow_mut() = describe(&message);
            if let Some(sequence) = next {
                run = sequence.map(start);
            }
        }
    }

    fn address(&self, to: To) -> String {
        let To::Endpoint(id) = to else { return "its own address (`To`)".to_owned() };
        match self.program.endpoint_at(id).map(|endpoint| &endpoint.kind) {
            Some(EndpointKind::Address { uri }) => uri.clone(),
            Some(EndpointKind::Http { template, .. }) => template.clone(),
            Some(EndpointKind::Default) | None => "its own address (`To`)".to_owned(),
        }
    }
}

impl Environment for Bench<'_> {
    fn unix_ms(&self) -> i64 {
        i64::try_from(SystemClock::new().origin_unix_us() / 1_000).unwrap_or(i64::MAX)
    }

    fn log(&self, level: LogLevel, line: &str) {
        stderr(&format!("{} {line}\n", level.as_str()));
    }

    fn mediated(&self, step: &Step, message: &Message) {
        if !self.trace {
            return;
        }
        let now = describe(message);
        let mut shown = self.shown.borrow_mut();
        let mut text = format!("{step}\n");
        let gone = shown.iter().filter(|line| !now.contains(line));
        let new = now.iter().filter(|line| !shown.contains(line));
        for (mark, line) in gone.map(|line| ('-', line)).chain(new.map(|line| ('+', line))) {
            text.push_str(&format!("  {mark} {line}\n"));
        }
        stderr(&text);
        *shown = now;
    }
}

/// The message in lines: fields, properties, body.
fn describe(message: &Message) -> Vec<String> {
    let mut lines = Vec::new();
    message.head.fields(&mut |name, value| lines.push(format!("{name}: {value}")));
    let scopes = [
        ("default", PropertyScope::Synapse),
        ("axis2", PropertyScope::Axis2),
        ("axis2-client", PropertyScope::Axis2Client),
        ("operation", PropertyScope::Operation),
        ("variable", PropertyScope::Variable),
    ];
    for (name, scope) in scopes {
        for (property, value) in message.properties.of(scope) {
            lines.push(format!("{name} {property} = {}", value.text()));
        }
    }
    if let Ok(body) = message.body.text(&Budget::large()) {
        lines.push(format!("body {body}"));
    }
    lines
}

fn failed(failure: &mediation::Failure) -> Failure {
    let place = failure.place.as_deref().map(|place| format!("{place}: ")).unwrap_or_default();
    Failure::Error(format!("{place}{failure} (ERROR_CODE {})", failure.code.0))
}
