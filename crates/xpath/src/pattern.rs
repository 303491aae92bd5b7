//! Match patterns: XSLT 1.0 section 5.2, with the default priorities of section 5.5.
//!
//! A pattern is matched from right to left: the node against the last step, its parent against the step before, and so
//! on. The step to the left of `//` may match any ancestor. Trying the nearest one that matches suffices, so a match
//! visits each ancestor at most once per step.

use xml::{Kind, Node};

use crate::axis::Axis;
use crate::budget::Budget;
use crate::context::{Context, Environment, StaticContext};
use crate::error::Error;
use crate::evaluate::{Outcome, Run};
use crate::functions::Core;
use crate::item::Item;
use crate::knock_out::{is_out, no_node};
use crate::lexer::{Operator, Token};
use crate::name::ExpandedName;
use crate::parser::Parser;
use crate::plan::{Expr, Predicate, Step, Test};
use crate::sink::{NodeSink, Taken};

/// A compiled pattern: one or more alternatives separated by `|`.
///
/// ```
/// use xpath::{Budget, NoBindings, Pattern};
///
/// let document = xml::Document::parse(b"<orders><order/></orders>")?;
/// let pattern = Pattern::compile("orders/order | @id", &NoBindings)?;
/// let order = document.element().and_then(|orders| orders.first_child()).ok_or("no order")?;
/// assert!(pattern.matches(order, &mut NoBindings, &Budget::default())?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Pattern {
    text: Box<str>,
    alternatives: Vec<Alternative>,
}

/// One alternative of a pattern.
#[derive(Debug)]
pub struct Alternative {
    anchor: Anchor,
    /// The steps from left to right; true if `//` precedes the step.
    steps: Vec<(bool, Step)>,
    priority: f64,
    matched: Matched,
}

/// The nodes that an alternative can match, for look-up tables.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Matched {
    Root,
    Element(ExpandedName),
    /// Any element, or any element of one namespace
    AnyElement,
    Attribute(ExpandedName),
    /// Any attribute, or any attribute of one namespace
    AnyAttribute,
    Text,
    Comment,
    /// Processing instructions with this target, or with any
    Instruction(Option<String>),
    /// `node()`: elements, text, comments and processing instructions
    AnyChild,
    /// `id()` and `key()`
    Anything,
}

#[derive(Debug)]
enum Anchor {
    Anywhere,
    Root,
    /// The nodes that `id()` or `key()` returns
    Nodes(Expr),
}

impl std::fmt::Display for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl Pattern {
    /// Compiles a pattern. For patterns with `key()`, `names` must have it as a function with two arguments
    /// that returns a node-set. A function that patterns may not call, such as `current()`, can be rejected
    /// by `names`, which resolves every function of the pattern.
    ///
    /// # Errors
    /// [`Error::Syntax`]: text that isn't a pattern, and the errors of
    /// [`Expression::compile`](crate::Expression::compile).
    pub fn compile(text: &str, names: &dyn StaticContext) -> Result<Self, Error> {
        let mut parser = Parser::new(text, names)?;
        let mut alternatives = vec![parser.alternative()?];
        while parser.eat_operator(Operator::Union) {
            alternatives.push(parser.alternative()?.unless_out("|"));
        }
        parser.finish()?;
        Ok(Self { text: text.into(), alternatives })
    }

    #[must_use]
    pub fn alternatives(&self) -> &[Alternative] {
        &self.alternatives
    }

    /// The alternatives, each of which is a rule of its own in XSLT.
    #[must_use]
    pub fn into_alternatives(self) -> Vec<Alternative> {
        self.alternatives
    }

    /// Whether any alternative matches the node.
    ///
    /// # Errors
    /// As [`Alternative::matches`].
    pub fn matches<'d>(
        &self,
        item: impl Into<Item<'d>>,
        environment: &mut dyn Environment<'d>,
        budget: &Budget,
    ) -> Result<bool, Error> {
        let item = item.into();
        for alternative in &self.alternatives {
            if alternative.matches(item, environment, budget)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Parser<'_> {
    fn alternative(&mut self) -> Result<Alternative, Error> {
        let found = self.whole_alternative()?;
        let start = match &found.anchor {
            Anchor::Anywhere => "a",
            Anchor::Root => "/",
            Anchor::Nodes(Expr::Core(..)) => "id()",
            Anchor::Nodes(_) => "key()",
        };
        let deep = found.steps.iter().any(|(deep, _)| *deep);
        let attributes = found.steps.iter().any(|(_, step)| step.axis == Axis::Attribute);
        let steps = if found.steps.len() > 1 { "a/b" } else { start };
        let found = if deep { found.unless_out("//") } else { found };
        let found = if attributes { found.unless_out("@a") } else { found };
        Ok(found.unless_out(start).unless_out(steps))
    }

    fn whole_alternative(&mut self) -> Result<Alternative, Error> {
        let mut steps = Vec::new();
        let mut deep = false;
        let anchor = match self.peek() {
            Some(Token::Operator(Operator::Slash)) => {
                self.advance();
                if !self.at_step() {
                    return Ok(Alternative::of(Anchor::Root, steps));
                }
                Anchor::Root
            }
            Some(Token::Operator(Operator::DoubleSlash)) => {
                self.advance();
                deep = true;
                Anchor::Root
            }
            Some(Token::Function(_)) => {
                let nodes = Anchor::Nodes(self.id_or_key()?);
                match self.separator() {
                    Some(slashes) => deep = slashes,
                    None => return Ok(Alternative::of(nodes, steps)),
                }
                nodes
            }
            Some(_) | None => Anchor::Anywhere,
        };
        loop {
            steps.push((deep, self.step_pattern()?));
            match self.separator() {
                Some(slashes) => deep = slashes,
                None => return Ok(Alternative::of(anchor, steps)),
            }
        }
    }

    /// `/`: false, `//`: true.
    fn separator(&mut self) -> Option<bool> {
        if self.eat_operator(Operator::DoubleSlash) {
            Some(true)
        } else {
            self.eat_operator(Operator::Slash).then_some(false)
        }
    }

    fn id_or_key(&mut self) -> Result<Expr, Error> {
        let place = self.place();
        let is_key = matches!(
            self.peek(), Some(Token::Function(name)) if name.prefix.is_empty() && name.local == "key"
        );
        let call = self.primary()?;
        let literals = |arguments: &[Expr]| arguments.iter().all(|a| matches!(a, Expr::Literal(_)));
        let allowed = matches!(&call, Expr::Core(Core::Id, arguments) if literals(arguments))
            || matches!(&call, Expr::Extension(_, arguments) if is_key && literals(arguments));
        if allowed {
            return Ok(call);
        }
        let message =
            "the only functions at the start of a pattern are `id('...')` and `key('...', '...')`";
        Err(Error::syntax(place, message))
    }

    fn step_pattern(&mut self) -> Result<Step, Error> {
        let axis = match self.peek() {
            Some(Token::At | Token::Axis(Axis::Attribute)) => {
                self.advance();
                Axis::Attribute
            }
            Some(Token::Axis(Axis::Child)) => {
                self.advance();
                Axis::Child
            }
            Some(Token::Axis(_) | Token::Dot | Token::DoubleDot) => {
                return self.fail("a pattern may use only the child and attribute axes");
            }
            Some(_) | None => Axis::Child,
        };
        let test = self.test()?;
        Ok(Step { axis, test, predicates: self.predicates()? })
    }
}

impl Alternative {
    fn of(anchor: Anchor, steps: Vec<(bool, Step)>) -> Self {
        let priority = default_priority(&anchor, &steps);
        let matched = match (steps.last(), &anchor) {
            (Some((_, step)), _) => matched(step),
            (None, Anchor::Root) => Matched::Root,
            (None, Anchor::Nodes(_) | Anchor::Anywhere) => Matched::Anything,
        };
        Self { anchor, steps, priority, matched }
    }

    /// An alternative that matches nothing, if such patterns are disabled.
    fn unless_out(self, part: &str) -> Self {
        if is_out(&["pattern ", part]) {
            let nowhere = Step { axis: Axis::Child, test: no_node(), predicates: Vec::new() };
            Self::of(Anchor::Anywhere, vec![(false, nowhere)])
        } else {
            self
        }
    }

    /// The default priority: XSLT 1.0 section 5.5.
    #[must_use]
    pub fn priority(&self) -> f64 {
        self.priority
    }

    #[must_use]
    pub fn matched(&self) -> &Matched {
        &self.matched
    }

    /// Whether a node matches exactly if it has the name in [`Alternative::matched`].
    #[must_use]
    pub fn is_plain_name(&self) -> bool {
        matches!(self.matched, Matched::Element(_) | Matched::Attribute(_)) && self.priority == 0.0
    }

    /// Whether the node matches.
    ///
    /// # Errors
    /// The errors of predicates and of `key()`.
    pub fn matches<'d>(
        &self,
        item: Item<'d>,
        environment: &mut dyn Environment<'d>,
        budget: &Budget,
    ) -> Result<bool, Error> {
        Run::new(environment, budget).matches(self, item)
    }
}

fn default_priority(anchor: &Anchor, steps: &[(bool, Step)]) -> f64 {
    let (Anchor::Anywhere, [(_, step)]) = (anchor, steps) else { return 0.5 };
    if !step.predicates.is_empty() {
        return 0.5;
    }
    match &step.test {
        Test::Name(_) | Test::Instruction(Some(_)) => 0.0,
        Test::Namespace(_) => -0.25,
        Test::Node | Test::Principal | Test::Text | Test::Comment | Test::Instruction(None) => -0.5,
    }
}

fn matched(step: &Step) -> Matched {
    let attribute = step.axis == Axis::Attribute;
    match &step.test {
        Test::Name(name) if attribute => Matched::Attribute(name.expanded.clone()),
        Test::Name(name) => Matched::Element(name.expanded.clone()),
        Test::Node | Test::Principal | Test::Namespace(_) if attribute => Matched::AnyAttribute,
        Test::Principal | Test::Namespace(_) => Matched::AnyElement,
        Test::Node => Matched::AnyChild,
        Test::Text => Matched::Text,
        Test::Comment => Matched::Comment,
        Test::Instruction(target) => Matched::Instruction(target.as_deref().map(str::to_owned)),
    }
}

/// Whether a node is among those of an expression.
struct Contains<'d> {
    wanted: Item<'d>,
    found: bool,
}

impl<'d> NodeSink<'d> for Contains<'d> {
    fn any_order(&self) -> bool {
        true
    }

    fn take(&mut self, item: Item<'d>, _: &Budget) -> Taken {
        self.found = item == self.wanted;
        Ok(!self.found)
    }
}

impl<'d> Run<'_, 'd> {
    fn matches(&mut self, pattern: &Alternative, item: Item<'d>) -> Outcome<bool> {
        // The node for the next step to the left, and the ancestor to try next if it doesn't match.
        let mut node = Some(item);
        let mut left = pattern.steps.len();
        let mut higher: Option<(usize, Item<'d>)> = None;
        loop {
            self.charge(1)?;
            let step = left.checked_sub(1).and_then(|index| pattern.steps.get(index));
            let fits = match (node, step) {
                (Some(node), Some((_, step))) => self.fits_pattern(step, node)?,
                (None, Some(_)) => false,
                (at, None) if self.anchored(pattern, at)? => return Ok(true),
                (_, None) => false,
            };
            if let (true, Some((deep, _))) = (fits, step) {
                left -= 1;
                node = node.and_then(Item::parent);
                if *deep {
                    higher = node.map(|node| (left, node));
                }
                continue;
            }
            let Some((again, from)) = higher else { return Ok(false) };
            let Some(above) = from.parent() else { return Ok(false) };
            higher = Some((again, above));
            left = again;
            node = Some(above);
        }
    }

    /// Whether the start of the pattern matches `at`: the parent of the node that matched the leftmost step, or
    /// the node itself if there are no steps.
    fn anchored(&mut self, pattern: &Alternative, at: Option<Item<'d>>) -> Outcome<bool> {
        match (&pattern.anchor, at) {
            (Anchor::Anywhere, _) => Ok(true),
            (_, None) => Ok(false),
            (Anchor::Root, Some(at)) => Ok(at.kind() == Kind::Root),
            (Anchor::Nodes(expr), Some(at)) => {
                let context = Context::new(at);
                let mut contains = Contains { wanted: at, found: false };
                self.feed(expr, context, &mut contains)?;
                Ok(contains.found)
            }
        }
    }

    fn fits_pattern(&mut self, step: &Step, item: Item<'d>) -> Outcome<bool> {
        let Some(node) = item.node() else { return Ok(false) };
        if !passes(step, node) {
            return Ok(false);
        }
        match step.predicates.as_slice() {
            [] => Ok(true),
            all if all.iter().all(Predicate::is_plain) => self.all_fit(all, node),
            [Predicate::At(wanted), rest @ ..] if rest.iter().all(Predicate::is_plain) => {
                Ok(self.is_nth(step, node, *wanted)? && self.all_fit(rest, node)?)
            }
            [Predicate::Last, rest @ ..] if rest.iter().all(Predicate::is_plain) => {
                Ok(self.is_last_sibling(step, node)? && self.all_fit(rest, node)?)
            }
            _ => {
                let Some(parent) = item.parent() else { return Ok(false) };
                let mut contains = Contains { wanted: item, found: false };
                self.step(step, parent, &mut contains)?;
                Ok(contains.found)
            }
        }
    }

    fn all_fit(&mut self, predicates: &[Predicate], node: Node<'d>) -> Outcome<bool> {
        for predicate in predicates {
            if !self.holds(predicate, Context::new(node))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Counts preceding siblings until the result is known.
    fn is_nth(&mut self, step: &Step, node: Node<'d>, wanted: f64) -> Outcome<bool> {
        let mut position = 1.0;
        if step.axis == Axis::Attribute {
            let before = node.parent().into_iter().flat_map(Node::attributes);
            for attribute in before.take_while(|one| *one != node) {
                self.charge(1)?;
                if passes(step, attribute) {
                    position += 1.0;
                }
            }
            return Ok(position == wanted);
        }
        let mut next = node.previous_sibling();
        while let (Some(sibling), true) = (next, position <= wanted) {
            self.charge(1)?;
            if passes(step, sibling) {
                position += 1.0;
            }
            next = sibling.previous_sibling();
        }
        Ok(position == wanted)
    }

    fn is_last_sibling(&mut self, step: &Step, node: Node<'d>) -> Outcome<bool> {
        if step.axis == Axis::Attribute {
            let mut last = None;
            for attribute in node.parent().into_iter().flat_map(Node::attributes) {
                self.charge(1)?;
                if passes(step, attribute) {
                    last = Some(attribute);
                }
            }
            return Ok(last == Some(node));
        }
        let mut next = node.next_sibling();
        while let Some(sibling) = next {
            self.charge(1)?;
            if passes(step, sibling) {
                return Ok(false);
            }
            next = sibling.next_sibling();
        }
        Ok(true)
    }
}

/// Whether the node passes the test of the step. Names are compared as text, which is cheaper than resolving the
/// test for a single node.
fn passes(step: &Step, node: Node<'_>) -> bool {
    let principal = step.axis.principal();
    let kind = node.kind();
    match &step.test {
        Test::Name(name) => {
            kind == principal
                && node.local_name() == name.expanded.local
                && node.namespace() == name.expanded.namespace
        }
        Test::Principal => kind == principal,
        Test::Namespace(uri) => kind == principal && node.namespace() == &**uri,
        Test::Node if principal == Kind::Attribute => kind == principal,
        Test::Node => !matches!(kind, Kind::Attribute | Kind::Root | Kind::Namespace),
        Test::Text => kind == Kind::Text && principal == Kind::Element,
        Test::Comment => kind == Kind::Comment && principal == Kind::Element,
        Test::Instruction(target) => {
            kind == Kind::ProcessingInstruction
                && principal == Kind::Element
                && target.as_deref().is_none_or(|target| node.local_name() == target)
        }
    }
}
