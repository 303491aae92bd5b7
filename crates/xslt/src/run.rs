//! Runs a program: a loop over its operations, with an explicit stack for templates and loops.

mod construct;
mod environment;
mod host;
mod kept;
mod machine;
mod number;
mod select;
mod sort;
mod templates;

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use xml::{Document, Node};
use xpath::{Budget, BudgetExceeded, Context, Item, NodeSet, Pool, Value};

use crate::error::{Error, ErrorKind, Place};
use crate::load::Resolver;
use crate::options::Options;
use crate::output::{Output, unencodable};
use crate::program::{Global, Program};
use crate::rules::Known;
pub(crate) use environment::text_of;
use kept::Kept;
use machine::Machine;
use select::SourceName;

/// An error of a run, and the operation that caused it once that is known.
#[derive(Debug)]
pub(crate) struct RunError {
    kind: ErrorKind,
    message: String,
    place: Option<Place>,
    /// The operation that caused the error, if it is not the one that was being executed.
    op: Option<usize>,
}

pub(crate) type RunResult<T = ()> = Result<T, RunError>;

impl RunError {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), place: None, op: None }
    }

    /// Blames the operation `op` instead of the one that is being executed.
    pub(crate) fn caused_by(self, op: Option<usize>) -> Self {
        Self { op, ..self }
    }

    /// Adds the place of the operation that caused it, which is `current` unless another one is known.
    fn located(mut self, program: &Program, current: Option<usize>) -> Self {
        let op = self.op.or(current);
        self.place = self.place.or_else(|| program.places.get(op?).copied());
        self
    }

    fn into_error(self, program: &Program) -> Error {
        let modules = program.modules.iter().map(|module| (&module.document, module.uri.as_str()));
        let (line, column, uri) = self.place.unwrap_or_default().locate(modules);
        Error { kind: self.kind, line, column, uri, message: self.message }
    }
}

impl From<String> for RunError {
    fn from(message: String) -> Self {
        Self::new(ErrorKind::Transform, message)
    }
}

impl From<&str> for RunError {
    fn from(message: &str) -> Self {
        Self::new(ErrorKind::Transform, message)
    }
}

impl From<xml::Error> for RunError {
    fn from(error: xml::Error) -> Self {
        error.to_string().into()
    }
}

impl From<BudgetExceeded> for RunError {
    fn from(error: BudgetExceeded) -> Self {
        Self::new(ErrorKind::Limit, error.to_string())
    }
}

impl From<xpath::Error> for RunError {
    fn from(error: xpath::Error) -> Self {
        if let xpath::Error::Budget(exceeded) = error {
            return exceeded.into();
        }
        error.to_string().into()
    }
}

/// The value of a global variable.
#[derive(Debug, Clone)]
enum GlobalValue<'d> {
    Unknown,
    /// It is being evaluated.
    Pending,
    Known(Value<'d>),
}

/// The nodes of one document by the values of a key, in document order.
type KeyIndex<'d> = Rc<HashMap<String, NodeSet<'d>>>;

/// The state that all machines of a run share.
pub(crate) struct State<'d> {
    program: &'d Program,
    source: Node<'d>,
    pool: &'d Pool,
    resolver: &'d dyn Resolver,
    globals: Vec<GlobalValue<'d>>,
    /// Globals that are being evaluated inside one another.
    globals_depth: usize,
    /// Key indexes by the number of the first key of that name.
    keys: HashMap<(usize, Node<'d>), KeyIndex<'d>>,
    /// Keys that are being indexed inside one another.
    keys_depth: usize,
    documents: HashMap<String, &'d Document>,
    /// Serials of result tree fragments that have not been passed to `exsl:node-set()`.
    fragments: HashSet<u32>,
    ids: HashMap<Item<'d>, usize>,
    /// Counts of `xsl:number`, by instruction and node.
    counts: HashMap<(usize, Item<'d>), u64>,
    /// The rules for each name of the source, by mode, where they were looked up before.
    candidates: Vec<Vec<Known>>,
    /// The names in [`Program::names`] as names of the source.
    names: Vec<SourceName>,
    budget: &'d Budget,
    now_ms: Option<i64>,
    patterns: crate::exslt::Patterns,
    /// The cause of an [`xpath::Error::Host`] that is on its way up.
    raised: Option<RunError>,
}

impl<'d> State<'d> {
    fn charge_steps(&self, steps: usize) -> Result<(), BudgetExceeded> {
        self.budget.charge_steps(steps as u64)
    }

    fn charge_memory(&self, bytes: usize) -> Result<(), BudgetExceeded> {
        self.budget.charge_memory(bytes)
    }

    fn keep(&self, document: Document) -> RunResult<&'d Document> {
        let full = || RunError::new(ErrorKind::Limit, "too many documents");
        self.pool.add(document).ok_or_else(full)
    }

    /// Keeps the cause of an error while it passes through XPath.
    fn raise(&mut self, error: RunError) -> xpath::Error {
        let passing = xpath::Error::Host(error.message.clone());
        self.raised = Some(error);
        passing
    }
}

pub(crate) fn transform(
    program: &Program,
    source: &Document,
    options: &Options<'_>,
    budget: &Budget,
) -> Result<Vec<u8>, Error> {
    let output = |kept: &mut Kept| crate::deferred::output(&program.output, kept.writer.take());
    run_into(program, source, options, budget, output, written)
}

pub(crate) fn transform_to_string(
    program: &Program,
    source: &Document,
    options: &Options<'_>,
    budget: &Budget,
) -> Result<String, Error> {
    let output =
        |kept: &mut Kept| crate::deferred::output(&program.output.in_utf8(), kept.writer.take());
    run_into(program, source, options, budget, output, text)
}

pub(crate) fn transform_to_document(
    program: &Program,
    source: &Document,
    options: &Options<'_>,
    budget: &Budget,
) -> Result<Document, Error> {
    let output = |_: &mut Kept| Ok(Output::Tree(Box::new(xml::Builder::new())));
    run_into(program, source, options, budget, output, |output, _, _| match output {
        Output::Tree(builder) => Ok(builder.finish()),
        Output::Writer(_)
        | Output::Html(_)
        | Output::Plain(..)
        | Output::Text(_)
        | Output::Deferred(_) => Err("internal error: the output is no tree".into()),
    })
}

fn run_into<T>(
    program: &Program,
    source: &Document,
    options: &Options<'_>,
    budget: &Budget,
    output: impl FnOnce(&mut Kept) -> RunResult<Output>,
    finish: impl FnOnce(Output, &Program, &mut Kept) -> RunResult<T>,
) -> Result<T, Error> {
    options.check(program)?;
    let pool = Pool::default();
    let mut kept = Kept::take(program);
    let made = output(&mut kept)
        .and_then(|output| run(program, source, options, budget, (&pool, output, &mut kept)))
        .and_then(|made| finish(made, program, &mut kept))
        .map_err(|error| error.into_error(program))?;
    kept.keep();
    Ok(made)
}

fn run<'d>(
    program: &'d Program,
    source: &'d Document,
    options: &Options<'d>,
    budget: &'d Budget,
    (pool, output, kept): (&'d Pool, Output, &mut Kept),
) -> RunResult<Output> {
    let source = if program.spaces.strips_any() {
        pool.add(crate::space::stripped(source, &program.spaces, budget)?).unwrap_or(source)
    } else {
        source
    };
    kept.read(program, source);
    let value = |global: &Global| {
        let value = if global.is_param { options.value(&global.name) } else { None };
        value.map_or(GlobalValue::Unknown, GlobalValue::Known)
    };
    let mut state = State {
        program,
        source: source.root(),
        pool,
        resolver: options.resolver,
        globals: program.globals.iter().map(value).collect(),
        globals_depth: 0,
        keys: HashMap::new(),
        keys_depth: 0,
        documents: HashMap::new(),
        fragments: HashSet::new(),
        ids: HashMap::new(),
        counts: HashMap::new(),
        candidates: std::mem::take(&mut kept.candidates),
        names: std::mem::take(&mut kept.names),
        budget,
        now_ms: options.now_ms,
        patterns: crate::exslt::Patterns::default(),
        raised: None,
    };
    let mut machine = Machine::new(&mut state, Context::new(source.root()), output);
    machine.start_at_root()?;
    let output = machine.into_output();
    (kept.candidates, kept.names) = (state.candidates, state.names);
    Ok(output)
}

/// The output as bytes.
fn written(output: Output, program: &Program, kept: &mut Kept) -> RunResult<Vec<u8>> {
    encode(text(output, program, kept)?, program.output.writer.encoding)
}

/// The output as a string, before it is encoded.
fn text(mut output: Output, program: &Program, kept: &mut Kept) -> RunResult<String> {
    output.resolve_method(false).map_err(|error| error.located(program, None))?;
    match output {
        Output::Html(writer) => Ok(writer.finish()?),
        Output::Writer(mut writer) => {
            let text = writer.finish_text()?;
            kept.writer = Some(writer);
            Ok(text)
        }
        Output::Plain(text, _) => Ok(text),
        Output::Tree(_) | Output::Text(_) | Output::Deferred(_) => {
            Err("internal error: the output is incomplete".into())
        }
    }
}

fn encode(text: String, encoding: xml::Encoding) -> RunResult<Vec<u8>> {
    let failed = |c: char| unencodable(c, encoding);
    match encoding {
        xml::Encoding::Utf8 => Ok(text.into_bytes()),
        xml::Encoding::Utf16 => {
            let marked = std::iter::once(0xFEFF).chain(text.encode_utf16());
            Ok(marked.flat_map(u16::to_le_bytes).collect())
        }
        xml::Encoding::UsAscii => match text.chars().find(|c| !c.is_ascii()) {
            Some(c) => Err(failed(c)),
            None => Ok(text.into_bytes()),
        },
        xml::Encoding::Iso8859_1 => {
            text.chars().map(|c| u8::try_from(u32::from(c)).map_err(|_| failed(c))).collect()
        }
    }
}
