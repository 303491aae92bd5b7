//! `penstock try`: runs one message through a sequence.

use std::borrow::Cow;
use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;

use base::SystemClock;
use clap::Args;
use expression::{Budget, limits};
use formats::openapi::Defaults;
use mediation::{
    Answer, Arrival, Asked, Body, BodyUse, Compiler, Direction, Environment, Exchange, Flow,
    Format, LogLevel, Matched, Memory, Message, Origin, PlainHead, Program, Properties,
    PropertyScope, SequenceId, Served, Step, Target,
};
use mediation_tools::{Bench, BenchHead, perform};
use model::{ArtefactKind, ArtefactSet, Diagnostic, Severity};

use super::expression::{header, headers};
use super::serving::{Fetching, json_rules};
use super::source::{Source, stdin_once};
use super::{stderr, stdout};
use crate::failure::Failure;

/// Run one message through a sequence, a proxy service or an API's resource, without a network
///
/// Prints where messages go, with their heads and bodies; log lines and the trace go to stderr. A message that is sent
/// to an endpoint ends there, unless --response gives the response of all endpoints. Timeouts elapse immediately.
/// Parameters such as $SYSTEM:NAME and configs.NAME are read from the environment and from file.properties, as by the
/// gateway. Artefacts with errors are reported and left out.
#[derive(Args)]
#[command(after_help = "Examples:
  penstock try orders.xml --payload order.json
  penstock try orders.xml --run OrderProxy --payload order.xml --headers headers.txt --trace
  penstock try orders.xml --run OrderProxy --payload order.xml --response reply.xml
  penstock try orders.xml --path '/services/OrderProxy?symbol=IBM' --method GET
  penstock try api.xml --path '/orders/17?verbose=true' --method GET
  penstock try src/main/wso2mi/artifacts --run OrderProxy --payload order.xml")]
pub(crate) struct Arguments {
    /// Artefact in Synapse's XML, or a folder or archive (*.car) with everything that it refers to
    #[arg(value_name = "PATH")]
    file: PathBuf,
    /// The sequence or proxy to run; not needed if there is only one
    #[arg(long, value_name = "NAME")]
    run: Option<String>,
    /// The request's path and query; without --run, chooses the proxy at /services/NAME or the resource of an API
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
    /// File with the message body, `-` for stdin, or the body itself, if it begins with `{`, `[` or `<`
    #[arg(long, value_name = "FILE|BODY")]
    payload: Option<PathBuf>,
    /// File with the headers: `name: value` lines, or a JSON object
    #[arg(long, value_name = "FILE")]
    headers: Option<PathBuf>,
    /// A header of the request; repeatable
    #[arg(long, value_name = "NAME: VALUE", value_parser = header)]
    header: Vec<(String, String)>,
    /// The request's method
    #[arg(long, value_name = "METHOD", default_value = "POST")]
    method: String,
    /// The request arrives over HTTPS
    #[arg(long)]
    https: bool,
    /// Configuration file; its `[integration]` settings for XML and JSON apply
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// File with the body that every endpoint returns
    #[arg(long, value_name = "FILE")]
    response: Option<PathBuf>,
    /// Show what each mediator changes
    #[arg(long)]
    trace: bool,
    #[command(flatten)]
    fetching: Fetching,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let files = [Some(&arguments.file), arguments.payload.as_ref(), arguments.headers.as_ref()];
    stdin_once(files.into_iter().flatten().chain(&arguments.response).map(PathBuf::as_path))?;
    let mut loaded = load(arguments)?;
    loaded.program.map_json(&json_rules(arguments.config.as_deref())?);
    let (flow, message) = tried(&loaded, arguments)?;
    let Loaded { program, artefacts } = loaded;
    let program = Arc::new(program);
    let response = arguments.response.as_ref();
    let response = response.map(|file| Source::read(file, limits::JSON_BYTES_MAX)).transpose()?;
    let (trace, last) = (arguments.trace, RefCell::new(describe(&message)));
    let printed = RefCell::default();
    let of = Arc::clone(&program);
    let memory = Memory::new(&program);
    let shown = Shown { program: of, artefacts, response, trace, memory, last, printed };
    shown.run((program, flow), message)
}

/// The artefacts under trial, and their registry.
struct Loaded {
    program: Program,
    artefacts: ArtefactSet,
}

impl Loaded {
    /// Whether there is an artefact of one of these kinds, and of this name if one is given, that has errors: it is not
    /// part of the program.
    fn left_out(&self, kinds: &[ArtefactKind], name: Option<&str>) -> bool {
        let is_served = |kind: ArtefactKind, name: &str| match kind {
            ArtefactKind::Api => self.program.apis().iter().any(|api| api.key() == name),
            ArtefactKind::Proxy => self.program.proxies().iter().any(|proxy| proxy.name == name),
            ArtefactKind::Sequence => self.program.sequence(name).is_some(),
            ArtefactKind::Endpoint
            | ArtefactKind::LocalEntry
            | ArtefactKind::Template
            | ArtefactKind::InboundEndpoint
            | ArtefactKind::Definitions => true,
        };
        let all = self.artefacts.artefacts.iter().flat_map(|artefact| {
            let own = (artefact.kind, &artefact.name);
            std::iter::once(own).chain(artefact.contains.iter().map(|(kind, name)| (*kind, name)))
        });
        let mut all = all.filter(|(kind, _)| kinds.contains(kind));
        all.any(|(kind, own)| name.is_none_or(|name| name == own) && !is_served(kind, own))
    }
}

/// The flow that is tried, and the message for it.
fn tried(loaded: &Loaded, arguments: &Arguments) -> Result<(Flow, Box<Message>), Failure> {
    let program = &loaded.program;
    if let (None, Some(path)) = (&arguments.run, &arguments.path) {
        let Some((service, flow)) = proxy_at(program, path) else {
            let mut message = request(arguments, program, (path.clone(), None))?;
            return Ok((resource(loaded, arguments, path, &mut message)?, message));
        };
        return Ok((flow, request(arguments, program, (path.clone(), Some(service)))?));
    }
    let (flow, service) = chosen(loaded, arguments.run.as_deref())?;
    let own = || service.map_or_else(|| "/".to_owned(), |service| path_of(program, service));
    let target = arguments.path.clone().unwrap_or_else(own);
    Ok((flow, request(arguments, program, (target, service))?))
}

/// The proxy of `/services/NAME`, of a path below it or of a port of it, `/services/NAME.PORT`.
fn proxy_at(program: &Program, path: &str) -> Option<(Served, Flow)> {
    let segment = segment(path)?;
    let named = |name: &str| program.proxies().iter().position(|proxy| proxy.name == name);
    let number = named(segment).or_else(|| named(segment.split('.').next()?))?;
    Some((Served::Proxy(number), program.proxies().get(number)?.flow))
}

/// Prefix of the paths of proxies.
const SERVICES: &str = "/services/";

/// The name in the path of a proxy, perhaps with a port.
fn segment(path: &str) -> Option<&str> {
    path.strip_prefix(SERVICES)?.split(['/', '?']).next()
}

/// The resource that serves the path; the message gets its properties.
fn resource(
    loaded: &Loaded,
    arguments: &Arguments,
    path: &str,
    message: &mut Message,
) -> Result<Flow, Failure> {
    let handled = |handler: Option<SequenceId>, problem: String| match handler {
        Some(request) => Ok(Flow { request: Some(request), ..Flow::default() }),
        None => Err(Failure::Error(problem)),
    };
    let has_body = !message.body.is_empty();
    let (method, secure) = (&*arguments.method, arguments.https);
    match loaded.program.resource(&Asked { method, secure, head: &*message.head, has_body }, path) {
        Matched::Resource(found) => {
            found.describe(message, &Budget::large()).map_err(|failure| failed(&failure))?;
            Ok(found.resource.flow)
        }
        Matched::MethodNotAllowed { api, handler, allowed } => {
            let name = &api.name;
            let allowed = allowed.join(", ");
            handled(handler, format!("405: the API `{name}` allows {allowed} for `{path}`"))
        }
        Matched::NotAdmitted => {
            let problem = "does not accept this content type, user agent or protocol";
            Err(Failure::Error(format!("400: the resource of `{path}` {problem}")))
        }
        Matched::NoResource { api, handler } => {
            handled(handler, format!("404: the API `{}` has no resource for `{path}`", api.name))
        }
        Matched::NoApi { handler } => {
            let of = if path.starts_with(SERVICES) { "no API or proxy" } else { "no API" };
            let has_errors = loaded.left_out(&[ArtefactKind::Api, ArtefactKind::Proxy], None);
            let note = if has_errors { "; what has errors was left out" } else { "" };
            handled(handler, format!("404: {of} has `{path}`{note}"))
        }
    }
}

fn load(arguments: &Arguments) -> Result<Loaded, Failure> {
    let file = &arguments.file;
    let is_archive = file.extension().is_some_and(|ending| ending == "car");
    let is_artefact = file.extension().is_some_and(|ending| ending == "xml");
    if file.is_dir() || is_archive || is_artefact && file.is_file() {
        let files = std::slice::from_ref(file);
        let fetch = arguments.fetching.fetch();
        let checked = follow::check(&[], files, &[], &Defaults::default(), &fetch);
        let (program, compiled) = Compiler::compile_set(&checked.artefacts);
        let diagnostics: Vec<_> = checked.diagnostics.into_iter().chain(compiled).collect();
        report(&diagnostics, is_artefact && !file.is_dir());
        let loaded = Loaded { program, artefacts: checked.artefacts };
        // For a file that cannot be read, the diagnostics suffice.
        let is_empty = loaded.artefacts.artefacts.is_empty();
        return if is_empty && has_errors(&diagnostics) {
            Err(Failure::Reported)
        } else {
            Ok(loaded)
        };
    }
    let source = Source::read(&arguments.file, limits::JSON_BYTES_MAX)?;
    let document = xml::Document::parse(&source.bytes).map_err(|error| source.xml_error(&error))?;
    let origin = Origin { file: &arguments.file, document: &document };
    let (program, diagnostics) = Compiler::compile(&[origin]);
    report(&diagnostics, true);
    if has_errors(&diagnostics) {
        return Err(Failure::Reported);
    }
    Ok(Loaded { program, artefacts: ArtefactSet::default() })
}

fn has_errors(diagnostics: &[Diagnostic]) -> bool {
    diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
}

fn report(diagnostics: &[Diagnostic], is_one_file: bool) {
    for mut diagnostic in diagnostics.iter().cloned() {
        if is_one_file && diagnostic.message.starts_with("there is no ") {
            let help = "pass the folder that contains it: penstock try FOLDER --run NAME";
            diagnostic.help.get_or_insert_with(|| help.to_owned());
        }
        stderr(&format!("{diagnostic}\n"));
    }
}

/// The flow of this name, or the only one.
fn chosen(loaded: &Loaded, name: Option<&str>) -> Result<(Flow, Option<Served>), Failure> {
    const KINDS: [ArtefactKind; 2] = [ArtefactKind::Proxy, ArtefactKind::Sequence];
    let program = &loaded.program;
    let of = |sequence: SequenceId| Flow { request: Some(sequence), ..Flow::default() };
    let sequences = program.sequences().map(|(name, id)| (name.to_owned(), (of(id), None)));
    let proxies = program
        .proxies()
        .iter()
        .enumerate()
        .map(|(number, proxy)| (proxy.name.clone(), (proxy.flow, Some(Served::Proxy(number)))));
    let mut services: Vec<_> = proxies.collect();
    let has_errors = match name {
        Some(name) => loaded.left_out(&KINDS, Some(name)),
        None => loaded.left_out(&[ArtefactKind::Proxy], None),
    };
    // Sequences that a service uses are tried only if they are named.
    if services.is_empty() && !has_errors || name.is_some() {
        services.extend(sequences);
    }
    services.sort_by(|(one, _), (other, _)| one.cmp(other));
    let names: Vec<_> = services.iter().map(|(name, _)| format!("`{name}`")).collect();
    let help = format!("the file has {}", names.join(", "));
    match (name, &*services) {
        (None, [(_, found)]) if !has_errors => Ok(*found),
        (None, []) if has_errors => Err(Failure::Reported),
        (None, []) if !program.apis().is_empty() => {
            Err(Failure::Usage("choose a resource of the API with --path and --method".to_owned()))
        }
        (None, []) if loaded.left_out(&[ArtefactKind::Api, ArtefactKind::Sequence], None) => {
            Err(Failure::Reported)
        }
        (None, []) => Err(Failure::Error("the file has no sequence and no proxy".to_owned())),
        (None, _) => Err(Failure::Usage(format!("choose what to run with --run NAME: {help}"))),
        (Some(name), _) => match services.iter().find(|(known, _)| known == name) {
            Some((_, found)) => Ok(*found),
            None if has_errors => Err(Failure::Reported),
            None => Err(Failure::Usage(format!("there is no `{name}`: {help}"))),
        },
    }
}

/// The bytes of the body that is given.
fn payload(arguments: &Arguments) -> Result<Option<Vec<u8>>, Failure> {
    let Some(given) = &arguments.payload else { return Ok(None) };
    let text = given.to_string_lossy();
    if text.starts_with(['{', '[', '<']) {
        return Ok(Some(text.into_owned().into_bytes()));
    }
    Ok(Some(Source::read(given, limits::JSON_BYTES_MAX)?.bytes))
}

/// Path of a proxy.
fn path_of(program: &Program, service: Served) -> String {
    let name = match service {
        Served::Proxy(number) => program.proxies().get(number).map(|proxy| &*proxy.name),
        Served::Resource { .. } => None,
    };
    format!("{SERVICES}{}", name.unwrap_or_default())
}

/// The request. `target`: path and query; `service`: the proxy that it is for.
fn request(
    arguments: &Arguments,
    program: &Program,
    (target, service): (String, Option<Served>),
) -> Result<Box<Message>, Failure> {
    let source = |file: &Option<PathBuf>| {
        file.as_ref().map(|file| Source::read(file, limits::JSON_BYTES_MAX)).transpose()
    };
    let fields = source(&arguments.headers)?.as_ref().map(headers).transpose()?;
    let mut fields = fields.unwrap_or_default();
    fields.extend(arguments.header.iter().cloned());
    let payload = payload(arguments)?;
    let is_type = |(name, _): &&(String, String)| name.eq_ignore_ascii_case("content-type");
    let declared = fields.iter().find(is_type).map(|(_, value)| Format::of(value));
    let body = match payload {
        Some(payload) => {
            let format = declared.unwrap_or_else(|| Format::guess(&payload));
            if declared.is_none() {
                fields.push(("Content-Type".to_owned(), format.content_type().to_owned()));
            }
            Body::held(format, payload)
        }
        None => Body::held(Format::Binary, Vec::new()),
    };
    let plain = PlainHead { method: arguments.method.clone(), target, fields };
    let prefix_len = prefix_len(arguments, program, (&plain, service), !body.is_empty());
    let head = BenchHead { plain, prefix_len, status: None };
    let mut message = Message::new(Direction::Request, Box::new(head), body);
    message.arrival = Arrival { service, secure: arguments.https };
    Ok(message)
}

/// The length of the service's own path: the rest is added to an endpoint's address.
fn prefix_len(
    arguments: &Arguments,
    program: &Program,
    (plain, service): (&PlainHead, Option<Served>),
    has_body: bool,
) -> usize {
    let whole = plain.target.len();
    if service.is_some() {
        let name = segment(&plain.target);
        return name.map_or(whole, |name| SERVICES.len() + name.len());
    }
    let (method, secure) = (&*plain.method, arguments.https);
    let by_path = arguments.path.as_deref().filter(|_| arguments.run.is_none());
    match by_path
        .map(|path| program.resource(&Asked { method, secure, head: plain, has_body }, path))
    {
        Some(Matched::Resource(found)) => found.api.base_path.len(),
        Some(_) | None => whole,
    }
}

/// Output of `try` for a message that goes nowhere, such as at the end of a sequence.
const ENDED: &str = "ends without a response: 202 (--trace shows each step)\n";

/// Prefix of a line of the trace with the body.
const BODY: &str = "body ";

/// Runs a message, and prints its steps.
struct Shown {
    program: Arc<Program>,
    artefacts: ArtefactSet,
    response: Option<Source>,
    trace: bool,
    memory: Memory,
    /// The message as it was last shown.
    last: RefCell<Vec<String>>,
    /// Result of printing; absent if nothing was printed.
    printed: RefCell<Option<Result<(), Failure>>>,
}

impl Shown {
    fn run(self, flow: (Arc<Program>, Flow), message: Box<Message>) -> Result<(), Failure> {
        let ended = perform(flow, message, &self).map_err(|failure| failed(&failure));
        match self.printed.into_inner() {
            Some(printed) => printed.and(ended),
            None => ended.and_then(|()| stdout(ENDED)),
        }
    }

    fn print(&self, print: impl FnOnce() -> Result<(), Failure>) {
        let mut printed = self.printed.borrow_mut();
        let before = printed.take().unwrap_or(Ok(()));
        *printed = Some(before.and_then(|()| print()));
    }
}

impl Bench for Shown {
    /// Answers with the response, or prints the sent message.
    fn exchange(&self, mut exchange: Exchange, properties: Option<&Properties>) -> Option<Answer> {
        let sends =
            format!("sends {} to {}", exchange.method(properties), address(&exchange.target));
        if !exchange.sends_body(properties) {
            exchange.message.body = Body::held(Format::Binary, Vec::new());
            exchange.message.head.remove_field("Content-Type");
        }
        let Some(response) = &self.response else {
            self.print(|| show(&sends, &exchange.message));
            return None;
        };
        if self.trace {
            stderr(&format!("{sends}\n"));
        }
        let format = Format::guess(&response.bytes);
        let fields = vec![("Content-Type".to_owned(), format.content_type().to_owned())];
        let plain = PlainHead { fields, ..PlainHead::default() };
        let head = BenchHead { plain, status: Some(200), ..BenchHead::default() };
        let body = Body::held(format, response.bytes.clone());
        let message = Message::new(Direction::Response, Box::new(head), body);
        *self.last.borrow_mut() = describe(&message);
        Some(Answer::Response(message))
    }

    fn respond(&self, message: Box<Message>) {
        let end = format!("responds to the client: {}", message.status());
        self.print(|| show(&end, &message));
    }

    fn accept(&self) {
        self.print(|| stdout("accepts the request: 202\n"));
    }
}

/// The URL, or those of the members.
fn address(target: &Target) -> String {
    if target.members.is_empty() {
        return target.url.clone();
    }
    let members: Vec<_> = target.members.iter().map(address).collect();
    format!("one of {}", members.join(", "))
}

fn show(end: &str, message: &Message) -> Result<(), Failure> {
    let body = message.body.bytes(&Budget::large()).map_err(|failure| failed(&failure))?;
    let body = body.unwrap_or_default();
    let mut text = format!("{end}\n");
    message.head.fields(&mut |name, value| text.push_str(&format!("{name}: {value}\n")));
    text.push('\n');
    text.push_str(&String::from_utf8_lossy(&body));
    if !text.ends_with('\n') {
        text.push('\n');
    }
    stdout(&text)
}

impl Environment for Shown {
    fn unix_ms(&self) -> i64 {
        i64::try_from(SystemClock::new().origin_unix_us() / 1_000).unwrap_or(i64::MAX)
    }

    fn message_id(&self, number: u32) -> Option<Cow<'_, str>> {
        let number = u64::from(number) + 1;
        Some(Cow::Owned(format!("urn:uuid:00000000-0000-8000-8000-{number:012x}")))
    }

    fn config(&self, name: &str) -> Option<Cow<'_, str>> {
        self.program.config(name).map(Cow::Borrowed)
    }

    fn registry(&self, path: &str, property: Option<&str>) -> Option<Cow<'_, str>> {
        self.artefacts.resources.get(path)?.text(property)
    }

    fn variable(&self, scope: PropertyScope, name: &str) -> Option<Cow<'_, str>> {
        gateway::variable(scope, name)
    }

    fn memory(&self) -> Option<&Memory> {
        Some(&self.memory)
    }

    fn log(&self, level: LogLevel, line: &str) {
        stderr(&format!("{} {line}\n", level.as_str()));
    }

    fn mediated(&self, step: &Step, message: &Message) {
        if !self.trace {
            return;
        }
        let (mut now, mut shown) = (describe(message), self.last.borrow_mut());
        if message.body.state() == BodyUse::Untouched {
            // The body has not been read yet.
            now.extend(shown.iter().filter(|line| line.starts_with(BODY)).cloned());
        }
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
    if message.body.state() != BodyUse::Untouched
        && let Ok(body) = message.body.text(&Budget::large())
    {
        lines.push(format!("{BODY}{body}"));
    }
    lines
}

fn failed(failure: &mediation::Failure) -> Failure {
    let place = failure.place.as_deref().map(|place| format!("{place}: ")).unwrap_or_default();
    let code = failure.kind.clone().unwrap_or_else(|| failure.code.0.to_string());
    Failure::Error(format!("{place}{failure} (ERROR_CODE {code})"))
}
