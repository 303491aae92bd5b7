//! A compiled stylesheet: one list of operations with jumps, and tables.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use xml::{Document, WriterOptions};
use xpath::{Alternative, ExpandedName, Expression, Pattern};

use crate::error::{Module, Place};
use crate::html::HtmlOptions;
use crate::rules::Modes;

/// Marks the number of a variable as that of a global one.
pub(crate) const GLOBAL: u32 = 1 << 31;
/// The address at which a run ends.
pub(crate) const HALT: usize = 0;

#[derive(Debug)]
pub(crate) struct Program {
    /// A number that no other program of this process has.
    pub(crate) serial: u64,
    pub(crate) ops: Vec<Op>,
    /// The place of each operation.
    pub(crate) places: Vec<Place>,
    /// The main module is the first.
    pub(crate) modules: Vec<Module<Document>>,
    pub(crate) templates: Vec<Template>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) modes: Modes,
    pub(crate) globals: Vec<Global>,
    pub(crate) sets: Vec<Block>,
    pub(crate) keys: Vec<Key>,
    pub(crate) formats: HashMap<ExpandedName, Symbols>,
    pub(crate) spaces: Spaces,
    /// Static contexts of function calls.
    pub(crate) scopes: Vec<StaticScope>,
    pub(crate) unknown_functions: Vec<ExpandedName>,
    pub(crate) output: Arc<OutputSpec>,
    /// Names that shortcuts select.
    pub(crate) names: Vec<ExpandedName>,
}

static SERIALS: AtomicU64 = AtomicU64::new(1);

pub(crate) fn next_serial() -> u64 {
    SERIALS.fetch_add(1, Ordering::Relaxed)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Method {
    /// HTML if the document element is `html`, otherwise XML.
    #[default]
    Unspecified,
    Xml,
    Html,
    Text,
}

/// The combined `xsl:output` declarations: section 16.
#[derive(Debug, Clone, Default)]
pub(crate) struct OutputSpec {
    pub(crate) method: Method,
    /// Options of the method xml; the encoding applies to all methods.
    pub(crate) writer: WriterOptions,
    pub(crate) html: Arc<HtmlOptions>,
    pub(crate) media_type: Option<String>,
}

impl OutputSpec {
    /// The same options in UTF-8, unless the encoding has fewer characters.
    pub(crate) fn in_utf8(self: &Arc<Self>) -> Arc<Self> {
        if matches!(self.writer.encoding, xml::Encoding::Utf8 | xml::Encoding::UsAscii) {
            return Arc::clone(self);
        }
        let mut other = Self::clone(self);
        other.writer.encoding = xml::Encoding::Utf8;
        Arc::make_mut(&mut other.html).encoding = xml::Encoding::Utf8;
        Arc::new(other)
    }

    /// The media type: `media-type`, or the default of the method (section 16).
    pub(crate) fn media_type(&self) -> &str {
        let default = match self.method {
            Method::Unspecified | Method::Xml => "text/xml",
            Method::Html => "text/html",
            Method::Text => "text/plain",
        };
        self.media_type.as_deref().unwrap_or(default)
    }
}

/// A range of operations, with slots for its variables.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Block {
    pub(crate) start: usize,
    pub(crate) slots: usize,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Template {
    pub(crate) block: Block,
    /// The range of import precedences for `apply-imports`: from, and below.
    pub(crate) imports: (u32, u32),
}

#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) pattern: Alternative,
    pub(crate) template: usize,
    pub(crate) mode: u32,
    pub(crate) precedence: u32,
    pub(crate) priority: f64,
    /// Every node of this kind and name matches, so the pattern need not be tested.
    pub(crate) always: bool,
}

/// A global variable or parameter; its block leaves the value in slot 0.
#[derive(Debug)]
pub(crate) struct Global {
    pub(crate) name: ExpandedName,
    pub(crate) block: Block,
    pub(crate) is_param: bool,
    /// The globals that its definition refers to.
    pub(crate) needs: Vec<u32>,
}

#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: ExpandedName,
    pub(crate) pattern: Pattern,
    pub(crate) value: Expression,
}

/// The static context of a function call: the prefixes in scope, and the module.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct StaticScope {
    pub(crate) bindings: Vec<(String, String)>,
    pub(crate) module: usize,
}

/// `xsl:decimal-format`: section 12.3.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Symbols {
    pub(crate) decimal: char,
    pub(crate) grouping: char,
    pub(crate) percent: char,
    pub(crate) per_mille: char,
    pub(crate) zero: char,
    pub(crate) digit: char,
    pub(crate) separator: char,
    pub(crate) minus: char,
    pub(crate) infinity: String,
    pub(crate) nan: String,
}

impl Default for Symbols {
    fn default() -> Self {
        Self {
            decimal: '.',
            grouping: ',',
            percent: '%',
            per_mille: '\u{2030}',
            zero: '0',
            digit: '#',
            separator: ';',
            minus: '-',
            infinity: "Infinity".to_owned(),
            nan: "NaN".to_owned(),
        }
    }
}

/// The source elements in which whitespace-only text is stripped: section 3.4.
#[derive(Debug, Default)]
pub(crate) struct Spaces {
    names: HashMap<ExpandedName, SpaceRule>,
    namespaces: HashMap<String, SpaceRule>,
    any: Option<SpaceRule>,
    strips_any: bool,
}

#[derive(Debug)]
pub(crate) enum SpaceTest {
    Name(ExpandedName),
    Namespace(String),
    Any,
}

#[derive(Debug, Clone, Copy)]
struct SpaceRule {
    strip: bool,
    precedence: u32,
}

impl Spaces {
    /// Tests are added in ascending precedence: a later one replaces an equal earlier one.
    pub(crate) fn add(&mut self, test: SpaceTest, strip: bool, precedence: u32) {
        let rule = SpaceRule { strip, precedence };
        self.strips_any |= strip;
        match test {
            SpaceTest::Name(name) => drop(self.names.insert(name, rule)),
            SpaceTest::Namespace(namespace) => drop(self.namespaces.insert(namespace, rule)),
            SpaceTest::Any => self.any = Some(rule),
        }
    }

    /// Whether any text can be stripped.
    pub(crate) fn strips_any(&self) -> bool {
        self.strips_any
    }

    /// Whether the text of an element is stripped: by the test of the highest precedence, and among those the most
    /// specific one.
    pub(crate) fn strips(&self, namespace: &str, local: &str) -> bool {
        let name = if self.names.is_empty() {
            None
        } else {
            self.names.get(&ExpandedName::new(namespace, local))
        };
        let found = [name, self.namespaces.get(namespace), self.any.as_ref()];
        let best = found
            .into_iter()
            .flatten()
            .reduce(|best, next| if next.precedence > best.precedence { next } else { best });
        best.is_some_and(|rule| rule.strip)
    }
}

/// The name of a result node.
#[derive(Debug, Clone, Default)]
pub(crate) struct Name {
    pub(crate) prefix: String,
    pub(crate) namespace: String,
    pub(crate) local: String,
}

impl Name {
    pub(crate) fn as_ref(&self) -> xml::QNameRef<'_> {
        xml::QNameRef::new(&self.prefix, &self.namespace, &self.local)
    }
}

/// An expression, with a shortcut for common ones.
#[derive(Debug)]
pub(crate) struct Select {
    pub(crate) expression: Expression,
    pub(crate) shortcut: Shortcut,
}

/// Expressions that are evaluated without XPath. Numbers are indices of [`Program::names`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shortcut {
    None,
    /// `.`
    Context,
    /// `name`
    Child(u32),
    /// `@name`
    Attribute(u32),
    /// `node()`
    Children,
    /// `@*`
    Attributes,
    /// `@* | node()`
    Everything,
}

/// An attribute value template: section 7.6.2.
#[derive(Debug)]
pub(crate) enum Avt {
    Text(String),
    Expression(Select),
    Parts(Vec<Self>),
}

/// The name of an `xsl:element` or `xsl:attribute`.
#[derive(Debug)]
pub(crate) enum ResultName {
    Fixed(Name),
    Computed {
        name: Avt,
        namespace: Option<Avt>,
        /// Prefixes in scope; the empty one only for elements.
        scope: Vec<(String, String)>,
    },
}

#[derive(Debug, Default)]
pub(crate) struct Literal {
    pub(crate) name: Name,
    pub(crate) namespaces: Vec<(String, String)>,
}

/// Prebuilt markup of a run of operations that writes complete elements; the first operation is `literal`.
#[derive(Debug)]
pub(crate) struct MarkupOp {
    pub(crate) literal: Literal,
    pub(crate) markup: xml::PreparedMarkup,
    /// The holes in the markup and the sources of their values, in order.
    pub(crate) holes: Vec<Hole>,
    /// The address after the run.
    pub(crate) end: usize,
}

/// A value in prebuilt markup.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hole {
    /// The operation that provides it.
    pub(crate) op: usize,
    /// The number of a name, if it is the first child of that name: [`Shortcut::Child`].
    pub(crate) child: Option<u32>,
    /// No earlier hole has the value of the same child.
    pub(crate) is_new: bool,
}

#[derive(Debug)]
pub(crate) struct Sort {
    pub(crate) select: Option<Expression>,
    pub(crate) data_type: Avt,
    pub(crate) order: Avt,
    pub(crate) case_order: Avt,
    /// The language; empty for code point order.
    pub(crate) lang: Avt,
}

#[derive(Debug)]
pub(crate) struct ApplyOp {
    /// The selected nodes; `None` for the children.
    pub(crate) select: Option<Select>,
    pub(crate) mode: u32,
    pub(crate) sorts: Vec<Sort>,
    pub(crate) passes: bool,
}

#[derive(Debug)]
pub(crate) struct LoopOp {
    pub(crate) select: Select,
    pub(crate) sorts: Vec<Sort>,
    /// The address after the loop.
    pub(crate) end: usize,
}

/// Which nodes `xsl:number` counts: section 7.7.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Single,
    Multiple,
    Any,
}

#[derive(Debug)]
pub(crate) struct NumberOp {
    pub(crate) value: Option<Expression>,
    pub(crate) level: Level,
    pub(crate) count: Option<Pattern>,
    pub(crate) from: Option<Pattern>,
    pub(crate) format: Option<Avt>,
    pub(crate) lang: Option<Avt>,
    pub(crate) letter_value: Option<Avt>,
    pub(crate) separator: Option<Avt>,
    pub(crate) size: Option<Avt>,
    /// The count of a node is the same during the whole run, so it is cached.
    pub(crate) is_cached: bool,
    /// Identifies the instruction in the cache.
    pub(crate) id: usize,
}

#[derive(Debug)]
pub(crate) enum Op {
    Halt,
    Return,
    Jump(usize),
    JumpUnless(Expression, usize),
    Text(String),
    RawText(String),
    ValueOf {
        select: Select,
        raw: bool,
    },
    CopyOf(Expression),
    Number(Box<NumberOp>),
    /// Jumps to the address after the node was copied, if it has no content.
    Copy(usize),
    EndCopy,
    Literal(Box<Literal>),
    /// Prebuilt elements. If they cannot be written as prebuilt, the literal element is started and the run follows.
    Markup(Box<MarkupOp>),
    Attribute(Box<(Name, Avt)>),
    Element(Box<ResultName>),
    EndElement,
    /// Collects text up to one of the following.
    Collect,
    EndAttribute(Box<ResultName>),
    EndComment,
    EndInstruction(Avt),
    EndMessage {
        terminate: bool,
    },
    /// Builds a result tree fragment up to one of the following.
    Build,
    EndBuild(u32),
    EndBuildPass(u32),
    Set(u32, Expression),
    SetText(u32, String),
    /// Puts the value that was passed under that name, if any, into the slot and jumps over the default.
    Param {
        name: u32,
        slot: u32,
        end: usize,
    },
    BeginPass,
    Pass(u32, Expression),
    PassText(u32, String),
    Apply(Box<ApplyOp>),
    ApplyImports,
    Call {
        template: usize,
        passes: bool,
    },
    CallSet {
        set: usize,
        in_copy: bool,
    },
    ForEach(Box<LoopOp>),
    Next,
    Fail(String),
}

impl Op {
    /// The address that it may continue at, other than the next.
    pub(crate) fn target(&self) -> Option<usize> {
        match self {
            Self::Jump(to) | Self::JumpUnless(_, to) | Self::Copy(to) => Some(*to),
            Self::Param { end, .. } => Some(*end),
            Self::ForEach(each) => Some(each.end),
            Self::Markup(markup) => Some(markup.end),
            Self::Halt
            | Self::Return
            | Self::Text(_)
            | Self::RawText(_)
            | Self::ValueOf { .. }
            | Self::CopyOf(_)
            | Self::EndCopy
            | Self::Literal(_)
            | Self::Attribute(_)
            | Self::Element(_)
            | Self::EndElement
            | Self::Collect
            | Self::EndAttribute(_)
            | Self::EndComment
            | Self::EndInstruction(_)
            | Self::EndMessage { .. }
            | Self::Number(_)
            | Self::Build
            | Self::EndBuild(_)
            | Self::EndBuildPass(_)
            | Self::Set(..)
            | Self::SetText(..)
            | Self::BeginPass
            | Self::Pass(..)
            | Self::PassText(..)
            | Self::Apply(_)
            | Self::ApplyImports
            | Self::Call { .. }
            | Self::CallSet { .. }
            | Self::Next
            | Self::Fail(_) => None,
        }
    }
}
