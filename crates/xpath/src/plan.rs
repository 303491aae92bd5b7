//! Compiled expressions: typed trees in which names, variables and functions are resolved and paths are
//! divided into segments.

use crate::axis::Axis;
use crate::context::{FunctionId, VariableId};
use crate::functions::Core;
use crate::name::{ExpandedName, Name};

/// The type of a value, as far as it is known at compile time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    NodeSet,
    String,
    Number,
    Boolean,
    /// The type of a variable or an extension function, which is known only when it is evaluated.
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

#[derive(Debug)]
pub(crate) enum Expr {
    Number(f64),
    Literal(Box<str>),
    Variable(VariableId),
    Or(Vec<Self>),
    And(Vec<Self>),
    Compare(Comparison, Box<(Self, Self)>),
    Arithmetic(Box<Self>, Vec<(Arithmetic, Self)>),
    /// The operand and whether the number of signs is odd. With an even number, it is still converted.
    Negate(Box<Self>, bool),
    Union(Vec<Self>),
    Path(Box<Path>),
    Core(Core, Vec<Self>),
    Extension(FunctionId, Vec<Self>),
}

#[derive(Debug)]
pub(crate) struct Path {
    pub(crate) start: PathStart,
    pub(crate) segments: Vec<Segment>,
}

#[derive(Debug)]
pub(crate) enum PathStart {
    Context,
    Root,
    Filter(Expr, Vec<Predicate>),
}

#[derive(Debug)]
pub(crate) enum Segment {
    Scan(Scan),
    Step(Step),
}

impl Segment {
    /// The size of the path, in the unit of [`Expr::cost`].
    fn parts(&self) -> u64 {
        let of_test = |test: &Test| match test {
            Test::Name(name) => 1 + name.expanded.local.len() as u64 / 8,
            Test::Namespace(uri) => 1 + uri.len() as u64 / 8,
            Test::Node | Test::Principal | Test::Text | Test::Comment | Test::Instruction(_) => 1,
        };
        match self {
            Self::Scan(scan) => scan.steps.iter().map(|step| of_test(&step.test)).sum(),
            Self::Step(step) => of_test(&step.test),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) axis: Axis,
    pub(crate) test: Test,
    pub(crate) predicates: Vec<Predicate>,
}

impl Step {
    /// Whether the step selects the child `name`, by a name test or by `*[local-name() = '...']`.
    pub(crate) fn is_named(&self, name: &ExpandedName) -> bool {
        let mut is_named = matches!(&self.test, Test::Name(test) if test.expanded == *name);
        let is_any = matches!(self.test, Test::Principal);
        let mut holds = |predicate: &Predicate| match predicate {
            Predicate::At(1.0) | Predicate::Last => is_named,
            Predicate::Plain(condition) if is_named || is_any => {
                is_named = condition.expr.compares_name(name);
                is_named
            }
            Predicate::At(_)
            | Predicate::Plain(_)
            | Predicate::Positional(_)
            | Predicate::Sized(_) => false,
        };
        self.axis == Axis::Child && self.predicates.iter().all(&mut holds) && is_named
    }
}

/// Downward steps that are evaluated in one walk over the tree: see `scan.rs`.
#[derive(Debug)]
pub(crate) struct Scan {
    pub(crate) steps: Vec<ScanStep>,
    /// Bit i: step i is preceded by `//`.
    pub(crate) deep: u32,
    /// Whether the last step is along the attribute axis.
    pub(crate) attribute: bool,
}

impl Scan {
    /// Whether the scan first descends along children of these names, and then further.
    pub(crate) fn begins_with(&self, names: [&ExpandedName; 2]) -> bool {
        let is = |step: &ScanStep, wanted: &ExpandedName| {
            let is_it = matches!(&step.test, Test::Name(name) if name.expanded == *wanted);
            is_it && step.predicates.is_empty()
        };
        match (self.steps.as_slice(), names) {
            ([first, second, _, ..], [outer, inner]) => {
                self.deep & 0b11 == 0 && is(first, outer) && is(second, inner)
            }
            _ => false,
        }
    }

    /// The only step of the scan, if it is along the child axis.
    pub(crate) fn sole_child_step(&self) -> Option<&ScanStep> {
        match self.steps.as_slice() {
            [step] if self.deep == 0 && !self.attribute => Some(step),
            _ => None,
        }
    }
}

#[derive(Debug)]
pub(crate) struct ScanStep {
    pub(crate) test: Test,
    /// The index of its first counter among those of the scan.
    pub(crate) first_counter: usize,
    /// The position that its only predicate selects.
    pub(crate) exactly: Option<u32>,
    pub(crate) predicates: Vec<Predicate>,
}

#[derive(Debug)]
pub(crate) enum Test {
    /// `node()`
    Node,
    /// `*`
    Principal,
    /// `prefix:*`
    Namespace(Box<str>),
    Name(Name),
    Text,
    Comment,
    Instruction(Option<Box<str>>),
}

/// A predicate, classified by the parts of the context that it needs.
#[derive(Debug)]
pub(crate) enum Predicate {
    /// `[3]`, `[position() = 3]`
    At(f64),
    /// `[last()]`, `[position() = last()]`
    Last,
    /// A condition that is never a number, and needs neither position nor size.
    Plain(Condition),
    /// May be a number or need the position, but not the size.
    Positional(Condition),
    /// Needs the size.
    Sized(Condition),
}

/// The expression of a predicate.
#[derive(Debug)]
pub(crate) struct Condition {
    pub(crate) expr: Expr,
    /// The steps that one evaluation is charged, in addition to those of the nodes that it looks at.
    pub(crate) cost: u64,
}

impl Condition {
    fn new(expr: Expr) -> Self {
        Self { cost: expr.cost(), expr }
    }
}

impl Predicate {
    pub(crate) fn of(expr: Expr) -> Self {
        if let Some(predicate) = position_equals(&expr) {
            return predicate;
        }
        if let Expr::Number(number) = expr {
            return Self::At(number);
        }
        if matches!(expr, Expr::Core(Core::Last, _)) {
            return Self::Last;
        }
        if expr.asks(Core::Last) {
            return Self::Sized(Condition::new(expr));
        }
        let number = matches!(expr.value_type(), Type::Number | Type::Unknown);
        if number || expr.asks(Core::Position) {
            Self::Positional(Condition::new(expr))
        } else {
            Self::Plain(Condition::new(expr))
        }
    }

    /// Whether it needs the position.
    pub(crate) fn counts(&self) -> bool {
        matches!(self, Self::At(_) | Self::Positional(_))
    }

    pub(crate) fn is_plain(&self) -> bool {
        matches!(self, Self::Plain(_))
    }
}

/// `position() = 3` and `position() = last()`, either way round.
fn position_equals(expr: &Expr) -> Option<Predicate> {
    let Expr::Compare(Comparison::Equal, sides) = expr else { return None };
    match &**sides {
        (Expr::Core(Core::Position, _), Expr::Number(number))
        | (Expr::Number(number), Expr::Core(Core::Position, _)) => Some(Predicate::At(*number)),
        (Expr::Core(Core::Position, _), Expr::Core(Core::Last, _))
        | (Expr::Core(Core::Last, _), Expr::Core(Core::Position, _)) => Some(Predicate::Last),
        _ => None,
    }
}

impl Expr {
    pub(crate) fn value_type(&self) -> Type {
        match self {
            Self::Number(_) | Self::Arithmetic(..) | Self::Negate(..) => Type::Number,
            Self::Literal(_) => Type::String,
            Self::Or(_) | Self::And(_) | Self::Compare(..) => Type::Boolean,
            Self::Union(_) => Type::NodeSet,
            Self::Path(path) => match &path.start {
                PathStart::Filter(inner, predicates)
                    if predicates.is_empty() && path.segments.is_empty() =>
                {
                    inner.value_type()
                }
                PathStart::Filter(..) | PathStart::Context | PathStart::Root => Type::NodeSet,
            },
            Self::Core(core, _) => core.return_type(),
            Self::Variable(_) | Self::Extension(..) => Type::Unknown,
        }
    }

    /// Calls `seen` for this expression and all its operands; with `inner` also for those that have a context
    /// of their own, which are predicates.
    pub(crate) fn visit<'e>(&'e self, inner: bool, seen: &mut dyn FnMut(&'e Self)) {
        seen(self);
        match self {
            Self::Number(_) | Self::Literal(_) | Self::Variable(_) => {}
            Self::Or(all) | Self::And(all) | Self::Union(all) => {
                all.iter().for_each(|one| one.visit(inner, seen));
            }
            Self::Core(_, all) | Self::Extension(_, all) => {
                all.iter().for_each(|one| one.visit(inner, seen));
            }
            Self::Compare(_, sides) => {
                sides.0.visit(inner, seen);
                sides.1.visit(inner, seen);
            }
            Self::Arithmetic(first, rest) => {
                first.visit(inner, seen);
                rest.iter().for_each(|(_, one)| one.visit(inner, seen));
            }
            Self::Negate(one, _) => one.visit(inner, seen),
            Self::Path(path) => path.visit(inner, seen),
        }
    }

    /// The steps that one evaluation is charged for its operators, literals and names, without its
    /// predicates.
    pub(crate) fn cost(&self) -> u64 {
        const PARTS_PER_STEP: u64 = 8;
        let mut parts = 0_u64;
        self.visit(false, &mut |expr| {
            parts = parts.saturating_add(match expr {
                Self::Literal(text) => 1 + text.len() as u64 / 8,
                Self::Path(path) => path.segments.iter().map(Segment::parts).sum(),
                Self::Number(_)
                | Self::Variable(_)
                | Self::Or(_)
                | Self::And(_)
                | Self::Compare(..)
                | Self::Arithmetic(..)
                | Self::Negate(..)
                | Self::Union(_)
                | Self::Core(..)
                | Self::Extension(..) => 1,
            });
        });
        parts / PARTS_PER_STEP
    }

    /// `local-name() = 'name'`, also with `namespace-uri()`.
    fn compares_name(&self, name: &ExpandedName) -> bool {
        if let Self::And(all) = self {
            return all.iter().all(|one| one.compares_name(name));
        }
        let Self::Compare(Comparison::Equal, sides) = self else { return false };
        let ((Self::Core(core, none), Self::Literal(text))
        | (Self::Literal(text), Self::Core(core, none))) = &**sides
        else {
            return false;
        };
        let wanted = [(Core::LocalName, &name.local), (Core::NamespaceUri, &name.namespace)];
        none.is_empty() && wanted.iter().any(|(of, wanted)| of == core && **wanted == **text)
    }

    fn asks(&self, what: Core) -> bool {
        let mut found = false;
        self.visit(false, &mut |expr| {
            found |= matches!(expr, Self::Core(core, _) if *core == what)
                || matches!(expr, Self::Extension(..));
        });
        found
    }
}

impl Path {
    fn visit<'e>(&'e self, inner: bool, seen: &mut dyn FnMut(&'e Expr)) {
        if let PathStart::Filter(expr, predicates) = &self.start {
            expr.visit(inner, seen);
            visit_predicates(predicates, inner, seen);
        }
        for segment in &self.segments {
            match segment {
                Segment::Step(step) => visit_predicates(&step.predicates, inner, seen),
                Segment::Scan(scan) => {
                    for step in &scan.steps {
                        visit_predicates(&step.predicates, inner, seen);
                    }
                }
            }
        }
    }
}

fn visit_predicates<'e>(predicates: &'e [Predicate], inner: bool, seen: &mut dyn FnMut(&'e Expr)) {
    if !inner {
        return;
    }
    for predicate in predicates {
        match predicate {
            Predicate::At(_) | Predicate::Last => {}
            Predicate::Plain(condition)
            | Predicate::Positional(condition)
            | Predicate::Sized(condition) => condition.expr.visit(inner, seen),
        }
    }
}

/// Maximum number of steps in one scan: they are bits of a word.
const SCAN_STEPS_MAX: usize = 30;
/// Maximum number of positions that one scan counts; a path with more is divided.
pub(crate) const COUNTERS_MAX: usize = 2;

/// Divides the steps of a path into segments: consecutive downward steps become a scan.
pub(crate) fn segments(steps: Vec<Step>) -> Vec<Segment> {
    let mut builder = SegmentBuilder { done: Vec::new(), scan: None, counters: 0, slashes: false };
    for step in steps {
        builder.add(step);
    }
    builder.close();
    builder.done
}

struct SegmentBuilder {
    done: Vec<Segment>,
    scan: Option<Scan>,
    counters: usize,
    /// A `//` precedes the next step.
    slashes: bool,
}

impl SegmentBuilder {
    fn add(&mut self, step: Step) {
        let bare = step.predicates.is_empty() && matches!(step.test, Test::Node);
        match step.axis {
            Axis::SelfNode if bare => {}
            Axis::DescendantOrSelf if bare => self.slashes = true,
            Axis::Child | Axis::Attribute if scannable(&step) => self.down(step, false),
            Axis::Descendant if step.predicates.iter().all(Predicate::is_plain) => {
                self.down(step, true);
            }
            Axis::Child
            | Axis::Attribute
            | Axis::Descendant
            | Axis::DescendantOrSelf
            | Axis::SelfNode
            | Axis::Ancestor
            | Axis::AncestorOrSelf
            | Axis::Following
            | Axis::FollowingSibling
            | Axis::Namespace
            | Axis::Parent
            | Axis::Preceding
            | Axis::PrecedingSibling => {
                self.close();
                self.done.push(Segment::Step(step));
            }
        }
    }

    fn down(&mut self, step: Step, deep: bool) {
        let counters = step.predicates.iter().filter(|p| p.counts()).count();
        let full = self.scan.as_ref().is_some_and(|scan| scan.steps.len() >= SCAN_STEPS_MAX);
        if full || self.counters + counters > COUNTERS_MAX {
            let slashes = std::mem::take(&mut self.slashes);
            self.close();
            self.slashes = slashes;
        }
        let first_counter = self.counters;
        self.counters += counters;
        let deep = std::mem::take(&mut self.slashes) || deep;
        let scan =
            self.scan.get_or_insert_with(|| Scan { steps: Vec::new(), deep: 0, attribute: false });
        scan.deep |= u32::from(deep) << scan.steps.len();
        scan.attribute = step.axis == Axis::Attribute;
        let closes = scan.attribute;
        scan.steps.push(ScanStep {
            test: step.test,
            first_counter,
            exactly: exactly(&step.predicates),
            predicates: step.predicates,
        });
        if closes {
            self.close();
        }
    }

    fn close(&mut self) {
        self.done.extend(self.scan.take().map(Segment::Scan));
        self.counters = 0;
        if std::mem::take(&mut self.slashes) {
            self.done.push(Segment::Step(Step {
                axis: Axis::DescendantOrSelf,
                test: Test::Node,
                predicates: Vec::new(),
            }));
        }
    }
}

/// The position that is the only predicate. Positions that no node has are left to the general case.
fn exactly(predicates: &[Predicate]) -> Option<u32> {
    match predicates {
        [Predicate::At(wanted)] if (1.0..=POSITION_MAX).contains(wanted) => {
            #[expect(clippy::cast_possible_truncation, reason = "it is in range")]
            #[expect(clippy::cast_sign_loss, reason = "it is in range")]
            let position = *wanted as u32;
            (f64::from(position) == *wanted).then_some(position)
        }
        _ => None,
    }
}

/// The largest position with a fast path.
const POSITION_MAX: f64 = 1_000.0;

/// Whether a scan can decide each predicate when it visits a node: it doesn't know sizes, but can find out
/// whether a node is the last one of its siblings that passes the test.
fn scannable(step: &Step) -> bool {
    let known = |(index, predicate): (usize, &Predicate)| match predicate {
        Predicate::At(_) | Predicate::Plain(_) | Predicate::Positional(_) => true,
        Predicate::Last => index == 0 && step.axis == Axis::Child,
        Predicate::Sized(_) => false,
    };
    step.predicates.iter().enumerate().all(known)
        && step.predicates.iter().filter(|p| p.counts()).count() <= COUNTERS_MAX
        && (step.axis == Axis::Child || step.predicates.iter().all(Predicate::is_plain))
}
