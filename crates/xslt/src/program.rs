//! What a sheet is compiled to: one list of operations with jumps, and tables beside it.

use std::collections::HashMap;
use std::sync::Arc;

use xml::WriterOptions;
use xpath::{Alternative, ExpandedName, Expression, Pattern};

use crate::error::Place;
use crate::html::HtmlOptions;
use crate::rules::Modes;

/// Marks the number of a variable as one of the whole sheet.
pub(crate) const GLOBAL: u32 = 1 << 31;
/// The address where a run ends.
pub(crate) const HALT: usize = 0;

#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) ops: Vec<Op>,
    /// Where each operation stands in the sheets.
    pub(crate) places: Vec<Place>,
    pub(crate) templates: Vec<Template>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) modes: Modes,
    pub(crate) globals: Vec<Global>,
    pub(crate) sets: Vec<Block>,
    pub(crate) keys: Vec<Key>,
    pub(crate) formats: HashMap<ExpandedName, Symbols>,
    pub(crate) spaces: Spaces,
    /// Places that functions stand in, and the names of those that aren't known.
    pub(crate) scopes: Vec<Scope>,
    pub(crate) missing: Vec<ExpandedName>,
    pub(crate) output: Arc<OutputSpec>,
    /// Names that selections ask for; [`Quick`] has their places.
    pub(crate) names: Vec<ExpandedName>,
    pub(crate) limits: crate::Limits,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Method {
    /// XML, or HTML when the document element says so.
    #[default]
    Unsaid,
    Xml,
    Html,
    Text,
}

/// What all `xsl:output` together say: section 16.
#[derive(Debug, Default)]
pub(crate) struct OutputSpec {
    pub(crate) method: Method,
    /// For XML; the encoding is also that of the other methods.
    pub(crate) writer: WriterOptions,
    pub(crate) html: Arc<HtmlOptions>,
    pub(crate) media_type: Option<String>,
}

impl OutputSpec {
    /// Section 16: `media-type`, or what its method has by default.
    pub(crate) fn media_type(&self) -> &str {
        let default = match self.method {
            Method::Unsaid | Method::Xml => "text/xml",
            Method::Html => "text/html",
            Method::Text => "text/plain",
        };
        self.media_type.as_deref().unwrap_or(default)
    }
}

/// Code with room for variables.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Block {
    pub(crate) start: usize,
    pub(crate) slots: usize,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Template {
    pub(crate) block: Block,
    /// The import precedences that `apply-imports` looks at: from, and below.
    pub(crate) imports: (u32, u32),
}

#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) pattern: Alternative,
    pub(crate) template: usize,
    pub(crate) mode: u32,
    pub(crate) precedence: u32,
    pub(crate) priority: f64,
    /// Kind and name are all there is to check.
    pub(crate) always: bool,
}

/// A variable or parameter of the whole sheet; its value is what its block leaves in slot 0.
#[derive(Debug)]
pub(crate) struct Global {
    pub(crate) name: ExpandedName,
    pub(crate) block: Block,
    pub(crate) is_param: bool,
    /// Others that it reads itself.
    pub(crate) needs: Vec<u32>,
}

#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: ExpandedName,
    pub(crate) pattern: Pattern,
    pub(crate) value: Expression,
}

/// What names and references in strings mean: the prefixes in scope, and the sheet.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Scope {
    pub(crate) bindings: Vec<(String, String)>,
    pub(crate) uri: String,
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

/// Which elements of a source lose text that is white space: section 3.4.
#[derive(Debug, Default)]
pub(crate) struct Spaces {
    /// The best first.
    pub(crate) tests: Vec<SpaceTest>,
}

#[derive(Debug)]
pub(crate) struct SpaceTest {
    /// None: any.
    pub(crate) namespace: Option<String>,
    pub(crate) local: Option<String>,
    pub(crate) strip: bool,
    pub(crate) precedence: u32,
}

impl SpaceTest {
    pub(crate) fn priority(&self) -> u8 {
        match (&self.namespace, &self.local) {
            (_, Some(_)) => 2,
            (Some(_), None) => 1,
            (None, None) => 0,
        }
    }
}

impl Spaces {
    pub(crate) fn strips(&self, namespace: &str, local: &str) -> bool {
        let fits = |test: &&SpaceTest| {
            test.namespace.as_deref().is_none_or(|wanted| wanted == namespace)
                && test.local.as_deref().is_none_or(|wanted| wanted == local)
        };
        self.tests.iter().find(fits).is_some_and(|test| test.strip)
    }
}

/// A name for the result.
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

/// An expression, and what it is when it is one of the common short ones.
#[derive(Debug)]
pub(crate) struct Select {
    pub(crate) expression: Expression,
    pub(crate) quick: Quick,
}

/// Expressions that need no machine of XPath's. Numbers are places in [`Program::names`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quick {
    /// None of them.
    No,
    /// `.`
    Itself,
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

/// The name of what `xsl:element` and `xsl:attribute` make.
#[derive(Debug)]
pub(crate) enum ResultName {
    Fixed(Name),
    Made {
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

/// A run of operations that make complete elements, the first of which is `literal`.
#[derive(Debug)]
pub(crate) struct StampOp {
    pub(crate) literal: Literal,
    pub(crate) stamp: xml::PreparedMarkup,
    /// The operations that fill its holes, in order.
    pub(crate) holes: Vec<usize>,
    /// Behind the run.
    pub(crate) end: usize,
}

#[derive(Debug)]
pub(crate) struct Sort {
    pub(crate) select: Option<Expression>,
    pub(crate) data_type: Avt,
    pub(crate) order: Avt,
    pub(crate) case_order: Avt,
    /// Empty: the order of code points.
    pub(crate) lang: Avt,
}

#[derive(Debug)]
pub(crate) struct ApplyOp {
    /// None: the children.
    pub(crate) select: Option<Select>,
    pub(crate) mode: u32,
    pub(crate) sorts: Vec<Sort>,
    pub(crate) passes: bool,
}

#[derive(Debug)]
pub(crate) struct LoopOp {
    pub(crate) select: Select,
    pub(crate) sorts: Vec<Sort>,
    /// Where it goes on when there is nothing to do.
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
    /// The count of a node stays what it is for the whole run.
    pub(crate) remembers: bool,
    /// By which the counts of this instruction are told from those of others.
    pub(crate) number: usize,
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
    /// Ends the copy at once, at that address, where the node has no content.
    Copy(usize),
    EndCopy,
    Literal(Box<Literal>),
    /// Elements that are spelt already. Where they can't be written so, its literal element is done, and
    /// what comes after it.
    Stamp(Box<StampOp>),
    Attribute(Box<(Name, Avt)>),
    Element(Box<ResultName>),
    EndElement,
    /// Text is collected up to one of the following.
    Collect,
    EndAttribute(Box<ResultName>),
    EndComment,
    EndInstruction(Avt),
    EndMessage {
        terminate: bool,
    },
    /// A result-tree fragment is built up to one of the following.
    Build,
    EndBuild(u32),
    EndBuildPass(u32),
    Set(u32, Expression),
    SetText(u32, String),
    /// When a value was passed under that name, it is put into the slot and the default jumped over.
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
    /// The address that it may go on at, other than the next.
    pub(crate) fn target(&self) -> Option<usize> {
        match self {
            Self::Jump(to) | Self::JumpUnless(_, to) | Self::Copy(to) => Some(*to),
            Self::Param { end, .. } => Some(*end),
            Self::ForEach(each) => Some(each.end),
            Self::Stamp(stamp) => Some(stamp.end),
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
