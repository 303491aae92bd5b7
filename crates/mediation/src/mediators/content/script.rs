//! `script`: runs JavaScript on the message, in QuickJS. The engine lives as long as one message in one mediator, so
//! that nothing survives. It gets the message as JSON and returns its changes as JSON; it calls nothing of the host.
//!
//! The time of a script is charged to the run's budget by the engine's interrupts, and by the processor time between
//! them if that is long. The memory has a limit.

use std::cell::Cell;
use std::rc::Rc;

use base::clock::thread_cpu_us;
use expression::json::{Builder, Document, Kind, Ref};
use expression::{BodyUse, Budget, EvalContext as _, Value};
use rquickjs::context::EvalOptions;
use rquickjs::{CatchResultExt as _, CaughtError, Context, Ctx, Function, Runtime};

use crate::error::Failure;
use crate::limits;
use crate::mediators::values::items::fail;
use crate::message::{Direction, Format, Message, NO_ENTITY_BODY, PropertyScope, PropertyValue};
use crate::program::{Entry, LogLevel, Mediator, Next, Scene};
use crate::syntax::{Compiler, Element};

/// The name of the script in the engine's stack traces.
const NAME: &str = "script.js";
const PRELUDE: &str = include_str!("script.js");

#[derive(Debug)]
struct Script {
    /// The script's last value is the mediator's result: false stops the message.
    source: String,
    uses: Uses,
}

/// Objects that a script mentions; no others are prepared.
#[derive(Clone, Copy, Debug)]
struct Uses {
    json: bool,
    xml: bool,
    envelope: bool,
    writes: bool,
}

const SCOPES: &[(&str, PropertyScope)] = &[
    ("default", PropertyScope::Synapse),
    ("axis2", PropertyScope::Axis2),
    ("axis2-client", PropertyScope::Axis2Client),
    ("transport", PropertyScope::Transport),
    ("operation", PropertyScope::Operation),
    ("variable", PropertyScope::Variable),
];

/// Properties of the head that scripts ask for, unless they were set.
const OF_HEAD: &[(PropertyScope, &str)] = &[
    (PropertyScope::Synapse, "REST_FULL_REQUEST_PATH"),
    (PropertyScope::Synapse, "REST_METHOD"),
    (PropertyScope::Synapse, "To"),
    (PropertyScope::Axis2, "HTTP_METHOD"),
    (PropertyScope::Axis2, "HTTP_SC"),
    (PropertyScope::Axis2, "REMOTE_ADDR"),
    (PropertyScope::Axis2, "REMOTE_HOST"),
    (PropertyScope::Axis2, "REST_URL_POSTFIX"),
    (PropertyScope::Axis2, "TransportInURL"),
];

/// How scripts name classes of Java.
const JAVA: &[&str] = &["importPackage", "importClass", "JavaImporter", "Java.type", "Packages."];

/// How Rhino's scripts begin the names of packages.
const PACKAGES: &[&str] =
    &["java.", "javax.", "org.apache.", "org.wso2.", "org.json.", "com.google."];

/// Syntax of scripts for E4X that is valid JavaScript otherwise.
const E4X: &[&str] = &["new XML(", "new XMLList(", "XMLList(", "default xml namespace"];

/// The methods of `mc`, which script.js defines.
#[rustfmt::skip]
const METHODS: &[&str] = &[
    "getPayloadJSON", "setPayloadJSON", "getPayloadXML", "setPayloadXML", "getEnvelopeXML",
    "addHeader", "getProperty", "setProperty", "removeProperty", "getVariable", "setVariable",
    "getTo", "setTo", "getFrom", "setFrom", "getFaultTo", "setFaultTo", "getReplyTo", "setReplyTo",
    "getSoapAction", "getMessageID",
    "isResponse", "isSOAP11", "isSOAP12", "isDoingPOX", "getServiceLog",
];

const LEVELS: &[LogLevel] =
    &[LogLevel::Trace, LogLevel::Debug, LogLevel::Info, LogLevel::Warn, LogLevel::Error];

impl Mediator for Script {
    fn body_use(&self) -> BodyUse {
        if self.uses.writes {
            BodyUse::Rewritten
        } else if self.uses.json || self.uses.xml || self.uses.envelope {
            BodyUse::Read
        } else {
            BodyUse::Untouched
        }
    }

    fn is_long(&self) -> bool {
        true
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        let input = self.input(scene, message)?;
        let output = self.run(&input, scene.budget)?;
        let output = Document::parse_within(output.as_bytes(), scene.budget)?;
        let stops = apply(output.root(), scene, message)?;
        Ok(if stops { Next::Drop } else { Next::Continue })
    }
}

impl Script {
    /// The message as JSON.
    fn input(&self, scene: &Scene<'_>, message: &Message) -> Result<String, Failure> {
        let budget = scene.budget;
        let mut out = Builder::new();
        out.begin_object();
        out.key("now").number(&scene.environment.unix_ms().to_string());
        out.key("response").boolean(message.direction == Direction::Response);
        out.key("soap").number(match message.body.format() {
            Format::Soap11 => "11",
            Format::Soap12 => "12",
            Format::Json
            | Format::Xml
            | Format::Form
            | Format::Multipart
            | Format::Text
            | Format::Binary => "0",
        });
        text(&mut out, "action", message.head.field("SOAPAction").as_deref(), budget)?;
        let json = if self.uses.json { message.body.json(budget)? } else { None };
        text(&mut out, "json", json.map(Document::text), budget)?;
        let payload = if self.uses.xml { message.body.payload(budget)? } else { None };
        let payload = payload.map(|payload| written(payload, budget)).transpose()?;
        text(&mut out, "xml", payload.as_deref(), budget)?;
        let whole = if self.uses.envelope { message.body.xml(budget)? } else { None };
        let whole = whole.map(|whole| written(whole.root(), budget)).transpose()?;
        text(&mut out, "envelope", whole.as_deref(), budget)?;
        out.key("properties");
        properties(&mut out, scene, message)?;
        out.end();
        Ok(out.finish().text().to_owned())
    }

    /// The changes by the script, as JSON.
    fn run(&self, input: &str, budget: &Budget) -> Result<String, Failure> {
        budget.charge_scanning(input.len())?;
        budget.charge_steps(limits::SCRIPT_START_STEPS)?;
        let left = usize::try_from(budget.bytes_left()).unwrap_or(usize::MAX);
        let memory = limits::SCRIPT_MEMORY_BYTES_MAX.min(left).max(1);
        let turns = Rc::new(Cell::new(budget.steps_left() / limits::SCRIPT_STEPS_PER_INTERRUPT));
        let before = turns.get();
        let outcome = with_engine(memory, Rc::clone(&turns), |context| {
            let said = |error| said(error, 0);
            let prelude: Function<'_> = context.eval(PRELUDE).catch(context).map_err(said)?;
            let changes: Function<'_> = prelude.call((input,)).catch(context).map_err(said)?;
            let returned = evaluate(context, &*self.source).map_err(said)?;
            changes.call((returned,)).catch(context).map_err(said)
        });
        let used = before.saturating_sub(turns.get());
        budget.charge_steps(used.saturating_mul(limits::SCRIPT_STEPS_PER_INTERRUPT))?;
        let output: String = outcome.map_err(|error| {
            if turns.get() == 0 {
                return fail("the script was stopped: it takes too long");
            }
            fail(format!("the script failed: {error}"))
        })?;
        budget.charge_memory(output.len())?;
        Ok(output)
    }
}

/// A new engine. `turns`: the interrupts that it may have.
fn with_engine<T>(
    memory: usize,
    turns: Rc<Cell<u64>>,
    use_it: impl FnOnce(&Ctx<'_>) -> Result<T, String>,
) -> Result<T, String> {
    let runtime = Runtime::new().map_err(|error| error.to_string())?;
    runtime.set_memory_limit(memory);
    runtime.set_max_stack_size(limits::SCRIPT_STACK_BYTES_MAX);
    let mut last_us = thread_cpu_us();
    runtime.set_interrupt_handler(Some(Box::new(move || {
        let now_us = thread_cpu_us();
        let long = now_us.saturating_sub(last_us) / limits::SCRIPT_INTERRUPT_US;
        turns.set(turns.get().saturating_sub(long.saturating_add(1)));
        last_us = now_us;
        turns.get() == 0
    })));
    let context = Context::full(&runtime).map_err(|error| error.to_string())?;
    context.with(|context| use_it(&context))
}

fn text(
    out: &mut Builder,
    name: &str,
    value: Option<&str>,
    budget: &Budget,
) -> Result<(), Failure> {
    out.key(name);
    match value {
        Some(value) => {
            // Escapes make it twice as long, or more if it has control characters.
            budget.charge_scanning(value.len())?;
            budget.charge_memory(value.len().saturating_mul(2))?;
            out.string(value)
        }
        None => out.null(),
    };
    Ok(())
}

fn written(node: xml::Node<'_>, budget: &Budget) -> Result<String, Failure> {
    let bytes = expression::markup::write(node, budget)?;
    String::from_utf8(bytes).map_err(|error| fail(error.to_string()))
}

/// Every property, by scope; names of header fields in lower case.
fn properties(out: &mut Builder, scene: &Scene<'_>, message: &Message) -> Result<(), Failure> {
    let view = scene.view(message);
    out.begin_object();
    for (scope_name, scope) in SCOPES {
        out.key(scope_name).begin_object();
        if *scope == PropertyScope::Transport {
            let mut fields = Vec::new();
            message.head.fields(&mut |name, value| {
                fields.push((name.to_ascii_lowercase(), value.to_owned()));
            });
            for (name, value) in &fields {
                text(out, name, Some(value), scene.budget)?;
            }
        }
        for (_, name) in OF_HEAD.iter().filter(|(of, _)| of == scope) {
            if let Some(value) = view.text_property(*scope, name) {
                text(out, name, Some(&value), scene.budget)?;
            }
        }
        for (name, _) in message.properties.of(*scope) {
            match view.property(*scope, name) {
                Some(Value::Text(value)) => text(out, name, Some(&value), scene.budget)?,
                Some(value) => {
                    value.charge_copy(scene.budget)?;
                    out.key(name);
                    value.build(out);
                }
                None => {}
            }
        }
        out.end();
    }
    out.end();
    Ok(())
}

/// Applies the changes; whether the message stops here.
fn apply(output: Ref<'_>, scene: &Scene<'_>, message: &mut Message) -> Result<bool, Failure> {
    let string = |value: Option<Ref<'_>>| {
        value.and_then(Ref::string).map(std::borrow::Cow::into_owned).unwrap_or_default()
    };
    for line in output.get("lines").into_iter().flat_map(Ref::elements) {
        let level = string(line.at(0));
        let level = LEVELS.iter().find(|known| known.as_str() == level);
        scene.environment.log(level.copied().unwrap_or_default(), &string(line.at(1)));
    }
    if let Some(payload) = output.get("payload").filter(|payload| !payload.is_null()) {
        let bytes = string(payload.at(1)).into_bytes();
        message.remove(PropertyScope::Axis2, NO_ENTITY_BODY);
        if string(payload.at(0)) == "json" {
            message.body.replace(Format::Json, bytes, scene.budget)?;
        } else {
            message.body.replace_payload(bytes, scene.budget)?;
        }
    }
    for change in output.get("changes").into_iter().flat_map(Ref::elements) {
        if string(change.at(0)) == "header" {
            let must_understand = change.at(1).and_then(Ref::boolean) == Some(true);
            add_header(&string(change.at(2)), must_understand, scene.budget, message)?;
            continue;
        }
        let scope = string(change.at(1));
        let scope = SCOPES.iter().find(|(name, _)| *name == scope).map(|(_, scope)| *scope);
        let scope = scope.unwrap_or(PropertyScope::Synapse);
        let name = string(change.at(2));
        match change.at(3) {
            None => message.remove(scope, &name),
            Some(value) => {
                let value = match value.kind() {
                    Kind::String => Some(PropertyValue::new(string(Some(value)))),
                    Kind::Null | Kind::Boolean | Kind::Number | Kind::Array | Kind::Object => {
                        PropertyValue::of(Value::Json(value), scene.budget)?
                    }
                };
                if let Some(value) = value {
                    message.set(scope, &name, value, scene.budget)?;
                }
            }
        }
    }
    Ok(output.get("stop").and_then(Ref::boolean) == Some(true))
}

/// Adds a header block.
fn add_header(
    text: &str,
    must_understand: bool,
    budget: &Budget,
    message: &mut Message,
) -> Result<(), Failure> {
    let Some((document, header)) = message.body.edit_header(budget)? else { return Ok(()) };
    budget.charge_scanning(text.len())?;
    let block = xml::Document::parse(text.as_bytes())?;
    budget.charge_memory(block.heap_bytes().saturating_mul(2))?;
    let Some(root) = block.element() else { return Ok(()) };
    let block = document.import(root)?;
    document.append(header, block)?;
    if let Some(envelope) = document.element().filter(|_| must_understand) {
        let (prefix, namespace) = (envelope.prefix().to_owned(), envelope.namespace().to_owned());
        let name = xml::QNameRef::new(&prefix, &namespace, "mustUnderstand");
        document.set_attribute(block, name, "1")?;
    }
    Ok(())
}

pub(crate) fn compile(compiler: &mut Compiler, element: &Element<'_>) -> Option<Box<dyn Mediator>> {
    let language = element.required(compiler, "language")?;
    if !["js", "nashornJs", "rhinoJs", "graalJs"].contains(&language) {
        let help = "write JavaScript, with language=\"js\"";
        let message = format!("scripts in `{language}` are not supported");
        return compiler.reject(element, message, Some(help));
    }
    let mut parts = Vec::new();
    for child in element.children() {
        if child.name() == "include" {
            let key = child.required(compiler, "key")?;
            parts.push(entry(compiler, &child, key)?);
            child.finish(compiler);
        } else {
            element.ignores(compiler, &child, &["include"]);
        }
    }
    let call = match element.optional("key") {
        Some(key) => {
            parts.push(entry(compiler, element, key)?);
            let function = element.optional("function").unwrap_or("mediate");
            format!("{function}(mc);")
        }
        None => {
            parts.push(element.node().string_value().into_owned());
            String::new()
        }
    };
    let source = format!("{}\n{call}", parts.join("\n"));
    if source.len() > limits::SCRIPT_BYTES_MAX {
        let message = format!("the script is longer than {} bytes", limits::SCRIPT_BYTES_MAX);
        return compiler.reject(element, message, None);
    }
    let mentioned = JAVA.iter().find(|name| source.contains(**name));
    if let Some(name) = mentioned.or_else(|| PACKAGES.iter().find(|name| is_name(&source, name))) {
        let help = "write it in JavaScript alone, or as other mediators";
        let message = format!("the script uses `{name}`, but there are no Java classes");
        return compiler.reject(element, message, Some(help));
    }
    if let Some(part) = E4X.iter().find(|part| is_code(&source, part)) {
        return compiler.reject(element, format!("the script uses `{part}`"), Some(NO_E4X));
    }
    if let Some(part) = xml_member(&source) {
        let message = format!("the script seems to use `{part}`, which fails if it is XML");
        compiler.warning(element, message, Some(NO_E4X));
    }
    if let Some(name) = unknown_method(&source) {
        let nearest = base::names::nearest(name, METHODS.iter().copied());
        let help = match nearest {
            Some(nearest) => format!("did you mean `mc.{nearest}`?"),
            None => "use another mediator, before or after the script".to_owned(),
        };
        let message = format!("the script: `mc` has no method `{name}`");
        return compiler.reject(element, message, Some(&help));
    }
    if let Err(error) = check(&source) {
        let is_markup = ["'<'", "'@'", "field name"].iter().any(|part| error.contains(part));
        let is_return = error.starts_with("return not in a function");
        let help = if is_return { Some(LAST_VALUE) } else { is_markup.then_some(NO_E4X) };
        return compiler.reject(element, format!("the script: {error}"), help);
    }
    let has = |name: &str| source.contains(name);
    // A name that is computed may be any of them.
    let any = has("mc[");
    let uses = Uses {
        json: any || has("getPayloadJSON"),
        xml: any || has("getPayloadXML"),
        envelope: any || has("getEnvelopeXML"),
        writes: any || has("setPayload") || has("addHeader"),
    };
    Some(Box::new(Script { source, uses }))
}

const LAST_VALUE: &str =
    "the last value of a script is its result: write that alone, without `return`";
const NO_E4X: &str = "XML in JavaScript (E4X) is not supported: write XML as text";

/// Whether `part` is somewhere in the script where it cannot be in a comment or a string.
fn is_code(source: &str, part: &str) -> bool {
    before_code(source, part).next().is_some()
}

/// The same of a name, which is not the end of another or a member.
fn is_name(source: &str, name: &str) -> bool {
    let is_inner = |before: &str| {
        before.ends_with(|last: char| last.is_alphanumeric() || matches!(last, '_' | '$' | '.'))
    };
    before_code(source, name).any(|before| !is_inner(before))
}

/// The text before each `part` of the script that cannot be in a comment or a string.
fn before_code<'s>(source: &'s str, part: &str) -> impl Iterator<Item = &'s str> {
    source.match_indices(part).filter_map(|(at, _)| source.get(..at)).filter(|before| {
        let line = before.rsplit('\n').next().unwrap_or_default();
        !before.contains("/*")
            && !before.contains('`')
            && !line.contains("//")
            && !line.contains(['"', '\''])
    })
}

/// A member that XML has in E4X and a text has not, such as `p.symbol` behind `p = mc.getPayloadXML()`. Uses that this
/// does not find fail at run time.
fn xml_member(source: &str) -> Option<String> {
    let is_part = |next: char| next.is_alphanumeric() || matches!(next, '_' | '$');
    let name_of =
        |text: &str| text.split(|next: char| !is_part(next)).next().unwrap_or_default().len();
    let member = |of: &str, rest: &str| {
        let name = rest.trim_start().strip_prefix('.')?.trim_start();
        let name = name.get(..name_of(name))?;
        (!name.is_empty() && !OF_TEXTS.contains(&name)).then(|| format!("{of}.{name}"))
    };
    ["mc.getPayloadXML()", "mc.getEnvelopeXML()"].into_iter().find_map(|call| {
        source.match_indices(call).find_map(|(at, _)| {
            let (before, after) = (source.get(..at)?, source.get(at + call.len()..)?);
            let own = member(call, after);
            let assigned =
                before.trim_end().strip_suffix('=').map(str::trim_end).filter(|_| own.is_none());
            let Some(assigned) = assigned else { return own };
            let start = assigned.rfind(|next: char| !is_part(next)).map_or(0, |at| at + 1);
            let variable = assigned.get(start..).filter(|name| !name.is_empty())?;
            let uses = source.match_indices(variable).filter(|(at, _)| {
                !source
                    .get(..*at)
                    .is_some_and(|before| before.ends_with(|last| is_part(last) || last == '.'))
            });
            uses.filter_map(|(at, name)| source.get(at + name.len()..))
                .find_map(|rest| member(variable, rest))
        })
    })
}

/// The members of a text.
#[rustfmt::skip]
const OF_TEXTS: &[&str] = &[
    "at", "charAt", "charCodeAt", "codePointAt", "concat", "endsWith", "includes", "indexOf", "lastIndexOf", "length",
    "localeCompare", "match", "matchAll", "normalize", "padEnd", "padStart", "repeat", "replace", "replaceAll", "search",
    "slice", "split", "startsWith", "substr", "substring", "toLocaleLowerCase", "toLocaleUpperCase", "toLowerCase",
    "toString", "toUpperCase", "trim", "trimEnd", "trimLeft", "trimRight", "trimStart", "valueOf",
];

/// The first method of `mc` that the script calls and that does not exist.
fn unknown_method(source: &str) -> Option<&str> {
    let is_part = |next: char| next.is_alphanumeric() || matches!(next, '_' | '$' | '.');
    let called = source.match_indices("mc.").filter_map(|(at, mc)| {
        let (before, after) = (source.get(..at)?, source.get(at + mc.len()..)?);
        let name = after.split(|next: char| !is_part(next)).next()?;
        let is_call = after.get(name.len()..)?.trim_start().starts_with('(');
        (is_call && !before.ends_with(is_part) && !name.contains('.')).then_some(name)
    });
    called.into_iter().find(|name| !METHODS.contains(name))
}

fn entry(compiler: &mut Compiler, element: &Element<'_>, key: &str) -> Option<String> {
    match compiler.entry(element, key)? {
        Entry::Text(text) => Some(text.to_string()),
        Entry::Xml(_) => compiler.reject(element, format!("`{key}` is XML, not a script"), None),
    }
}

/// Whether it is JavaScript; nothing of it runs, since it is left before.
fn check(source: &str) -> Result<(), String> {
    let turns = Rc::new(Cell::new(limits::SCRIPT_CHECK_INTERRUPTS));
    with_engine(limits::SCRIPT_MEMORY_BYTES_MAX, turns, |context| {
        match evaluate(context, format!("throw undefined;\n{source}")) {
            Err(CaughtError::Value(value)) if value.is_undefined() => Ok(()),
            Err(error) => Err(said(error, 1)),
            Ok(_) => Ok(()),
        }
    })
}

/// The last value of a script.
fn evaluate<'js>(
    context: &Ctx<'js>,
    source: impl Into<Vec<u8>>,
) -> Result<rquickjs::Value<'js>, CaughtError<'js>> {
    let mut options = EvalOptions::default();
    options.strict = false;
    options.filename = Some(NAME.to_owned());
    context.eval_with_options(source, options).catch(context)
}

/// The problem, and its place in the script, which begins after that many lines.
fn said(error: CaughtError<'_>, before: usize) -> String {
    // The exception of QuickJS when it cannot allocate an error.
    if matches!(&error, CaughtError::Value(value) if value.is_null()) {
        return "it needs too much memory, or throws `null`".to_owned();
    }
    let text = error.to_string();
    let what = text.lines().next().unwrap_or_default().trim_start_matches("Error: ");
    // The exception of QuickJS when it still can.
    let what = if what.ends_with("out of memory") { "it needs too much memory" } else { what };
    let place = text.lines().skip(1).find_map(|line| line.split_once(NAME)?.1.strip_prefix(':'));
    let place = place.and_then(|place| place.trim_end_matches(')').split_once(':'));
    let line = |line: &str| line.parse::<usize>().ok()?.checked_sub(before);
    match place.and_then(|(at, column)| Some((line(at)?, column))) {
        Some((line, column)) => format!("{what} (line {line}, column {column} of the script)"),
        None => what.to_owned(),
    }
}
