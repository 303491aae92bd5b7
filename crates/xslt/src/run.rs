//! Running a program: a loop over its operations, with a stack of its own for templates and loops.

mod call;
mod environment;
mod host;
mod machine;
mod make;
mod number;
mod select;
mod sort;

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use crate::limits;
use xml::{Document, Node};
use xpath::{Budget, Context, ExpandedName, Item, Value};

use crate::error::{Place, TransformError};
use crate::load::Resolver;
use crate::output::{Output, cant_say};
use crate::pool::Pool;
use crate::program::Program;
use machine::Machine;
use select::Asked;

/// Values for the parameters of a sheet, by name: `local` or `{namespace}local`.
#[derive(Debug, Clone, Default)]
pub struct Params {
    values: BTreeMap<ExpandedName, Param>,
    now_ms: Option<i64>,
}

#[derive(Debug, Clone)]
enum Param {
    String(String),
    Number(f64),
    Boolean(bool),
}

impl Params {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn string(self, name: &str, value: &str) -> Self {
        self.with(name, Param::String(value.to_owned()))
    }

    #[must_use]
    pub fn number(self, name: &str, value: f64) -> Self {
        self.with(name, Param::Number(value))
    }

    #[must_use]
    pub fn boolean(self, name: &str, value: bool) -> Self {
        self.with(name, Param::Boolean(value))
    }

    /// The time, in milliseconds since the Unix epoch, that EXSLT's `date:date-time()` and its like tell in
    /// UTC. Without it a run that asks for the time fails: there is no clock here.
    #[must_use]
    pub fn now_ms(mut self, now_ms: i64) -> Self {
        self.now_ms = Some(now_ms);
        self
    }

    fn with(mut self, name: &str, value: Param) -> Self {
        let split = name.strip_prefix('{').and_then(|rest| rest.split_once('}'));
        let (namespace, local) = split.unwrap_or(("", name));
        self.values.insert(ExpandedName::new(namespace, local), value);
        self
    }

    fn value<'d>(&self, name: &ExpandedName) -> Option<Value<'d>> {
        Some(match self.values.get(name)? {
            Param::String(text) => Value::String(text.clone()),
            Param::Number(number) => Value::Number(*number),
            Param::Boolean(value) => Value::Boolean(*value),
        })
    }
}

/// How much one run may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Operations, and steps of expressions: about one for each node that is looked at.
    pub steps: u64,
    /// Bytes of output, of fragments and of values of variables.
    pub made_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { steps: limits::XSLT_STEPS_MAX, made_bytes: limits::XSLT_MADE_BYTES_MAX }
    }
}

/// What went wrong, and the operation at which it did once that is known.
pub(crate) struct Failure {
    message: String,
    place: Option<Place>,
    /// The operation that is to blame, where it isn't the one that was being done.
    op: Option<usize>,
}

pub(crate) type Ran<T = ()> = Result<T, Failure>;

impl Failure {
    /// The operation `op` is to blame, not the one that is being done.
    pub(crate) fn made_by(self, op: Option<usize>) -> Self {
        Self { op, ..self }
    }

    /// With its place: that of the operation to blame, or else of `doing`.
    fn placed(mut self, program: &Program, doing: Option<usize>) -> Self {
        let op = self.op.or(doing);
        self.place = self.place.or_else(|| program.places.get(op?).cloned());
        self
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self { message, place: None, op: None }
    }
}

impl From<&str> for Failure {
    fn from(message: &str) -> Self {
        message.to_owned().into()
    }
}

impl From<xml::WriteError> for Failure {
    fn from(error: xml::WriteError) -> Self {
        error.to_string().into()
    }
}

impl From<xpath::BudgetExceeded> for Failure {
    fn from(error: xpath::BudgetExceeded) -> Self {
        error.to_string().into()
    }
}

impl From<xpath::EvalError> for Failure {
    fn from(error: xpath::EvalError) -> Self {
        error.to_string().into()
    }
}

/// A value of the whole sheet.
#[derive(Debug, Clone)]
enum Known<'d> {
    Not,
    /// It is being found out.
    Soon,
    Value(Value<'d>),
}

/// Nodes by the values of a key, for one document.
type Index<'d> = Rc<HashMap<String, Vec<Item<'d>>>>;

/// What lasts as long as a run.
pub(crate) struct World<'d> {
    program: &'d Program,
    main: &'d Document,
    source: Node<'d>,
    pool: &'d Pool,
    resolver: &'d dyn Resolver,
    globals: Vec<Known<'d>>,
    globals_depth: usize,
    keys: HashMap<(ExpandedName, Node<'d>), Index<'d>>,
    /// Keys whose nodes are being looked for.
    keys_depth: usize,
    documents: HashMap<String, &'d Document>,
    ids: HashMap<Item<'d>, usize>,
    /// What `xsl:number` counted, by instruction and node.
    counts: HashMap<(usize, Item<'d>), u64>,
    /// The list of rules for each name of the source, by mode; [`UNASKED`] until it was looked up.
    lists: Vec<Vec<u32>>,
    /// The program's names in the source.
    names: Vec<Asked>,
    budget: &'d Budget,
    now_ms: Option<i64>,
    patterns: crate::exslt::Patterns,
}

const UNASKED: u32 = u32::MAX;

impl<'d> World<'d> {
    /// Counts what was made, in bytes.
    fn made(&mut self, bytes: usize) -> Ran {
        Ok(self.budget.charge_memory(bytes)?)
    }

    fn keep(&self, document: Document) -> Ran<&'d Document> {
        self.pool.add(document).ok_or_else(|| "too many documents".into())
    }
}

pub(crate) fn transform(
    program: &Program,
    main: &Document,
    source: &Document,
    params: &Params,
    resolver: &dyn Resolver,
    pool: &Pool,
) -> Result<Vec<u8>, TransformError> {
    let budget = Budget::new(program.limits.steps, program.limits.made_bytes as u64);
    run(program, main, source, params, resolver, pool, &budget).map_err(|failure| {
        let Place { line, column, uri } = failure.place.unwrap_or_default();
        TransformError { line, column, uri, message: failure.message }
    })
}

fn run<'d>(
    program: &'d Program,
    main: &'d Document,
    source: &'d Document,
    params: &Params,
    resolver: &'d dyn Resolver,
    pool: &'d Pool,
    budget: &'d Budget,
) -> Ran<Vec<u8>> {
    let source = if program.spaces.tests.iter().any(|test| test.strip) {
        let copy = crate::space::stripped(source, &program.spaces);
        pool.add(copy).ok_or("too many documents")?
    } else {
        source
    };
    let given = |global: &crate::program::Global| {
        let value = if global.is_param { params.value(&global.name) } else { None };
        value.map_or(Known::Not, Known::Value)
    };
    let mut world = World {
        program,
        main,
        source: source.root(),
        pool,
        resolver,
        globals: program.globals.iter().map(given).collect(),
        globals_depth: 0,
        keys: HashMap::new(),
        keys_depth: 0,
        documents: HashMap::new(),
        ids: HashMap::new(),
        counts: HashMap::new(),
        lists: Vec::new(),
        names: vec![Asked::NotYet; program.names.len()],
        budget,
        now_ms: params.now_ms,
        patterns: crate::exslt::Patterns::default(),
    };
    let output = crate::undecided::output(&program.output)?;
    let mut machine = Machine::new(&mut world, Context::new(source.root()), output);
    machine.start_at_root()?;
    let mut output = machine.into_output();
    output.decided(false).map_err(|failure| failure.placed(program, None))?;
    match output {
        Output::Html(writer) => {
            let text = writer.finish()?;
            encoded(text, program.output.writer.encoding)
        }
        Output::Writer(writer) => Ok(writer.finish()?),
        Output::Plain(text, encoding) => encoded(text, encoding),
        Output::Tree(_) | Output::Text(_) | Output::Undecided(_) => {
            Err("the output isn't complete".into())
        }
    }
}

/// Text that was checked when it was made, in its encoding.
fn encoded(text: String, encoding: xml::Encoding) -> Ran<Vec<u8>> {
    let cant = |c: char| cant_say(c, encoding);
    match encoding {
        xml::Encoding::Utf8 => Ok(text.into_bytes()),
        xml::Encoding::Utf16 => {
            let marked = std::iter::once(0xFEFF).chain(text.encode_utf16());
            Ok(marked.flat_map(u16::to_le_bytes).collect())
        }
        xml::Encoding::UsAscii => match text.chars().find(|c| !c.is_ascii()) {
            Some(c) => Err(cant(c)),
            None => Ok(text.into_bytes()),
        },
        xml::Encoding::Iso8859_1 => {
            text.chars().map(|c| u8::try_from(u32::from(c)).map_err(|_| cant(c))).collect()
        }
    }
}
