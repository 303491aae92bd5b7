//! Location paths: XPath 1.0 section 2, productions 1 to 13.

use super::{Parsed, Parser, node_set};
use crate::axis::Axis;
use crate::error::Error;
use crate::knock_out::is_out;
use crate::lexer::{NodeType, Operator, Token};
use crate::name::Name;
use crate::plan::{self, Expr, Path, PathStart, Predicate, Step, Test};

impl<'t> Parser<'t> {
    /// Productions 19 and 1: a location path, or a filter expression with or without one.
    pub(super) fn path(&mut self) -> Parsed<Expr> {
        let (first, chained) = (self.next, self.chained);
        let place = self.place();
        let Some(token) = self.peek() else {
            return self.fail("expected an operand, found the end of the expression");
        };
        let mut steps = Vec::new();
        let start = match token {
            Token::Operator(Operator::Slash) => {
                self.advance();
                if !self.at_step() {
                    return Ok(self.to_path(PathStart::Root, steps));
                }
                self.steps(&mut steps)?;
                PathStart::Root
            }
            Token::Operator(Operator::DoubleSlash) => {
                self.advance();
                steps.push(descendant_or_self_step());
                self.steps(&mut steps)?;
                PathStart::Root
            }
            Token::Operator(_) => return self.fail("expected an operand before this operator"),
            Token::Dot
            | Token::DoubleDot
            | Token::At
            | Token::Axis(_)
            | Token::AnyName
            | Token::AnyOf(_)
            | Token::Name(_)
            | Token::NodeType(_) => {
                self.steps(&mut steps)?;
                PathStart::Context
            }
            Token::Open
            | Token::Close
            | Token::OpenBracket
            | Token::CloseBracket
            | Token::Comma
            | Token::Number(_)
            | Token::Literal(_)
            | Token::Variable(_)
            | Token::Function(_) => {
                let primary = self.primary()?;
                let predicates = self.predicates()?;
                let continues = match self.peek() {
                    Some(Token::Operator(Operator::Slash)) => true,
                    Some(Token::Operator(Operator::DoubleSlash)) => {
                        steps.push(descendant_or_self_step());
                        true
                    }
                    Some(_) | None => false,
                };
                if continues || !predicates.is_empty() {
                    node_set(&primary, place, "an expression before a predicate or `/`")?;
                }
                if continues {
                    self.advance();
                    self.steps(&mut steps)?;
                } else if predicates.is_empty() {
                    return Ok(primary);
                }
                PathStart::Filter(primary, predicates)
            }
        };
        let outer = self.steps_to_outer(&start, &steps);
        if outer == 0 {
            return Ok(self.to_path(start, steps));
        }
        let inside = self.to_path(start, steps.split_off(outer));
        // A document may have such elements nonetheless.
        (self.next, self.chained, self.keeps_outer) = (first, chained, true);
        let whole = self.path();
        self.keeps_outer = false;
        Ok(Expr::Union(vec![inside, whole?]))
    }

    /// The number of leading steps to the elements of [`StaticContext::outer`].
    fn steps_to_outer(&self, start: &PathStart, steps: &[Step]) -> usize {
        let outer = self.names.outer();
        if outer.is_empty() || self.keeps_outer {
            return 0;
        }
        let is_outermost = |id| self.names.is_outermost(id);
        let mut rest = match start {
            PathStart::Root => outer,
            PathStart::Context if self.predicates == 0 => outer.get(1..).unwrap_or_default(),
            PathStart::Filter(Expr::Variable(id), none) if none.is_empty() && is_outermost(*id) => {
                outer.get(1..).unwrap_or_default()
            }
            PathStart::Context | PathStart::Filter(..) => return 0,
        };
        let (mut found, mut is_deep) = (0, false);
        for (index, step) in steps.iter().enumerate() {
            let is_bare = step.predicates.is_empty() && matches!(step.test, Test::Node);
            if is_bare && matches!(step.axis, Axis::SelfNode | Axis::DescendantOrSelf) {
                is_deep |= step.axis == Axis::DescendantOrSelf;
                continue;
            }
            match rest.iter().position(|name| step.is_named(name)) {
                Some(at) if at == 0 || is_deep => {
                    rest = rest.get(at + 1..).unwrap_or_default();
                    (found, is_deep) = (index + 1, false);
                }
                Some(_) | None => break,
            }
        }
        found
    }

    fn to_path(&self, start: PathStart, steps: Vec<Step>) -> Expr {
        let feature = match (&start, steps.len()) {
            (PathStart::Root, 0) => "path /",
            (PathStart::Root, _) => "path /a",
            (PathStart::Context, 1) => "path a",
            (PathStart::Context, _) => "path a/b",
            (PathStart::Filter(..), 0) => "filter E[p]",
            (PathStart::Filter(..), _) => "filter E/a",
        };
        let segments = if self.scans {
            plan::segments(steps)
        } else {
            steps.into_iter().map(plan::Segment::Step).collect()
        };
        Expr::Path(Box::new(Path { start, segments })).unless_out(&[feature])
    }

    pub(crate) fn at_step(&self) -> bool {
        matches!(
            self.peek(),
            Some(
                Token::Dot
                    | Token::DoubleDot
                    | Token::At
                    | Token::Axis(_)
                    | Token::AnyName
                    | Token::AnyOf(_)
                    | Token::Name(_)
                    | Token::NodeType(_)
            )
        )
    }

    pub(super) fn steps(&mut self, steps: &mut Vec<Step>) -> Parsed<()> {
        loop {
            steps.push(self.step()?);
            if self.eat_operator(Operator::DoubleSlash) {
                steps.push(descendant_or_self_step());
            } else if !self.eat_operator(Operator::Slash) {
                return Ok(());
            }
        }
    }

    fn step(&mut self) -> Parsed<Step> {
        let abbreviated = match self.peek() {
            Some(Token::Dot) => Some((Axis::SelfNode, ".")),
            Some(Token::DoubleDot) => Some((Axis::Parent, "..")),
            Some(_) | None => None,
        };
        if let Some((axis, spelled)) = abbreviated {
            self.advance();
            let step = Step { axis, test: Test::Node, predicates: Vec::new() };
            return Ok(step.unless_out(&["abbreviation ", spelled]));
        }
        let (axis, kind, spelled) = match self.peek() {
            Some(Token::At) => (Axis::Attribute, "abbreviation ", "@"),
            Some(Token::Axis(axis)) => (axis, "axis ", axis.name()),
            Some(_) | None => (Axis::Child, "abbreviation ", "of child::"),
        };
        if matches!(self.peek(), Some(Token::At | Token::Axis(_))) {
            self.advance();
        }
        let test = self.test()?;
        let predicates = self.predicates()?;
        Ok(Step { axis, test, predicates }.unless_out(&[kind, spelled]))
    }

    pub(crate) fn test(&mut self) -> Parsed<Test> {
        Ok(self.whole_test()?.unless_out())
    }

    fn whole_test(&mut self) -> Parsed<Test> {
        let place = self.place();
        let Some(token) = self.peek() else {
            return self.fail("expected a step, found the end of the expression");
        };
        self.advance();
        match token {
            Token::AnyName => Ok(Test::Principal),
            Token::AnyOf(prefix) => {
                Ok(Test::Namespace(self.namespace(prefix, place)?.into_boxed_str()))
            }
            Token::Name(name) => Ok(Test::Name(Name::new(self.expand(name, place)?))),
            Token::NodeType(node_type) => self.node_type(node_type),
            Token::Open
            | Token::Close
            | Token::OpenBracket
            | Token::CloseBracket
            | Token::Dot
            | Token::DoubleDot
            | Token::At
            | Token::Comma
            | Token::Operator(_)
            | Token::Number(_)
            | Token::Literal(_)
            | Token::Variable(_)
            | Token::Function(_)
            | Token::Axis(_) => {
                Err(Error::syntax(place, "expected a step: a name, `*` or a node test"))
            }
        }
    }

    fn node_type(&mut self, node_type: NodeType) -> Parsed<Test> {
        self.expect(Token::Open, "`(`")?;
        let test = match node_type {
            NodeType::Node => Test::Node,
            NodeType::Text => Test::Text,
            NodeType::Comment => Test::Comment,
            NodeType::Instruction => match self.peek() {
                Some(Token::Literal(target)) => {
                    self.advance();
                    Test::Instruction(Some(target.into()))
                }
                Some(_) | None => Test::Instruction(None),
            },
        };
        self.expect(Token::Close, "`)`")?;
        Ok(test)
    }

    pub(crate) fn predicates(&mut self) -> Parsed<Vec<Predicate>> {
        let mut all = Vec::new();
        while self.eat(Token::OpenBracket) {
            self.predicates += 1;
            let expr = self.expr()?;
            self.predicates -= 1;
            self.expect(Token::CloseBracket, "`]`")?;
            let is_number = matches!(expr, Expr::Number(_));
            let feature = if is_number { "abbreviation [n]" } else { "predicate [p]" };
            if !is_out(&[feature]) {
                all.push(Predicate::of(expr));
            }
        }
        Ok(all)
    }
}

fn descendant_or_self_step() -> Step {
    Step { axis: Axis::DescendantOrSelf, test: Test::Node, predicates: Vec::new() }
        .unless_out(&["abbreviation //"])
}
