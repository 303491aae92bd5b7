//! Tokens to a plan: XPath 1.0 section 3, from the loosest binding operator to the tightest. Names,
//! variables and functions are resolved on the way.
//!
//! It recurses on parentheses, predicates and arguments, at most `XPATH_DEPTH_MAX` deep; chains of
//! operators are lists.

use base::limits;

use crate::axis::Axis;
use crate::context::StaticContext;
use crate::error::CompileError;
use crate::functions::Core;
use crate::knock_out::{is_out, nothing};
use crate::lexer::{NodeType, Operator, Token, Written, tokens};
use crate::name::{ExpandedName, Name};
use crate::plan::{self, Arithmetic, Comparison, Expr, Path, Predicate, Start, Step, Test, Type};

type Parsed<T> = Result<T, CompileError>;

pub(crate) struct Parser<'t> {
    tokens: Vec<(Token<'t>, usize)>,
    next: usize,
    end: usize,
    depth: usize,
    /// Comparisons that follow another at once.
    chained: usize,
    names: &'t dyn StaticContext,
    /// Whether downward steps become scans.
    scans: bool,
}

/// Compiles a whole expression.
pub(crate) fn expression(text: &str, names: &dyn StaticContext) -> Parsed<Expr> {
    let mut parser = Parser::new(text, names)?;
    let expr = parser.expr()?;
    parser.finish()?;
    Ok(expr)
}

const EQUALITIES: &[(Operator, Comparison)] =
    &[(Operator::Equal, Comparison::Equal), (Operator::NotEqual, Comparison::NotEqual)];
const RELATIONS: &[(Operator, Comparison)] = &[
    (Operator::Less, Comparison::Less),
    (Operator::LessOrEqual, Comparison::LessOrEqual),
    (Operator::Greater, Comparison::Greater),
    (Operator::GreaterOrEqual, Comparison::GreaterOrEqual),
];
const SUMS: &[(Operator, Arithmetic)] =
    &[(Operator::Plus, Arithmetic::Add), (Operator::Minus, Arithmetic::Subtract)];
const PRODUCTS: &[(Operator, Arithmetic)] = &[
    (Operator::Multiply, Arithmetic::Multiply),
    (Operator::Div, Arithmetic::Divide),
    (Operator::Mod, Arithmetic::Modulo),
];

/// The same as it is written, without scans: what the reference evaluator of the properties walks.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn as_written(text: &str, names: &dyn StaticContext) -> Parsed<Expr> {
    let mut parser = Parser::new(text, names)?;
    parser.scans = false;
    let expr = parser.expr()?;
    parser.finish()?;
    Ok(expr)
}

fn step_to_anything() -> Step {
    Step { axis: Axis::DescendantOrSelf, test: Test::Node, predicates: Vec::new() }
        .unless_out(&["abbreviation //"])
}

impl<'t> Parser<'t> {
    pub(crate) fn new(text: &'t str, names: &'t dyn StaticContext) -> Parsed<Self> {
        if text.len() > limits::XPATH_BYTES_MAX {
            let most = limits::XPATH_BYTES_MAX;
            let message = format!("it is {} bytes long, {most} are allowed", text.len());
            return Err(CompileError::new(most, message));
        }
        Ok(Self {
            tokens: tokens(text)?,
            next: 0,
            end: text.len(),
            depth: 0,
            chained: 0,
            names,
            scans: true,
        })
    }

    pub(crate) fn finish(&self) -> Parsed<()> {
        if self.peek().is_some() { self.fail("an operator is missing before this") } else { Ok(()) }
    }

    pub(crate) fn peek(&self) -> Option<Token<'t>> {
        self.tokens.get(self.next).map(|(token, _)| *token)
    }

    pub(crate) fn place(&self) -> usize {
        self.tokens.get(self.next).map_or(self.end, |(_, place)| *place)
    }

    pub(crate) fn advance(&mut self) {
        self.next += 1;
    }

    pub(crate) fn eat(&mut self, token: Token<'static>) -> bool {
        let found = self.peek() == Some(token);
        if found {
            self.advance();
        }
        found
    }

    pub(crate) fn eat_operator(&mut self, operator: Operator) -> bool {
        self.eat(Token::Operator(operator))
    }

    pub(crate) fn fail<T>(&self, message: impl Into<String>) -> Parsed<T> {
        Err(CompileError::new(self.place(), message))
    }

    fn deeper(&mut self) -> Parsed<()> {
        self.depth += 1;
        if self.depth > limits::XPATH_DEPTH_MAX {
            let most = limits::XPATH_DEPTH_MAX;
            return self.fail(format!("it is nested more than {most} deep"));
        }
        Ok(())
    }

    /// Comparisons nest to the left: `a = b = c` is `(a = b) = c`, so all but a chain's first count.
    fn link(&mut self, links: &mut usize) -> Parsed<()> {
        self.chained += usize::from(*links > 0);
        *links += 1;
        if self.chained > limits::XPATH_DEPTH_MAX {
            let most = limits::XPATH_DEPTH_MAX;
            return self.fail(format!("it chains more than {most} comparisons"));
        }
        Ok(())
    }

    pub(crate) fn expr(&mut self) -> Parsed<Expr> {
        self.deeper()?;
        let expr = self.or_expr()?;
        self.depth -= 1;
        Ok(expr)
    }

    fn or_expr(&mut self) -> Parsed<Expr> {
        self.joined(Operator::Or, Expr::Or, Self::and_expr)
    }

    fn and_expr(&mut self) -> Parsed<Expr> {
        self.joined(Operator::And, Expr::And, Self::equality)
    }

    fn equality(&mut self) -> Parsed<Expr> {
        self.compared(EQUALITIES, Self::relation)
    }

    fn relation(&mut self) -> Parsed<Expr> {
        self.compared(RELATIONS, Self::sum)
    }

    fn sum(&mut self) -> Parsed<Expr> {
        self.calculated(SUMS, Self::product)
    }

    fn product(&mut self) -> Parsed<Expr> {
        self.calculated(PRODUCTS, Self::unary)
    }

    fn joined(
        &mut self,
        operator: Operator,
        make: fn(Vec<Expr>) -> Expr,
        operand: fn(&mut Self) -> Parsed<Expr>,
    ) -> Parsed<Expr> {
        let mut all = vec![operand(self)?];
        while self.eat_operator(operator) {
            all.push(operand(self)?);
        }
        if all.len() == 1 {
            return Ok(only(all, make));
        }
        Ok(only(all, make).unless_out(&["operator ", operator.spelled()]))
    }

    fn compared(
        &mut self,
        table: &[(Operator, Comparison)],
        operand: fn(&mut Self) -> Parsed<Expr>,
    ) -> Parsed<Expr> {
        let mut left = operand(self)?;
        let mut links = 0;
        while let Some((operator, comparison)) = self.one_of(table) {
            self.link(&mut links)?;
            left = Expr::Compare(comparison, Box::new((left, operand(self)?)))
                .unless_out(&["operator ", operator.spelled()]);
        }
        Ok(left)
    }

    fn calculated(
        &mut self,
        table: &[(Operator, Arithmetic)],
        operand: fn(&mut Self) -> Parsed<Expr>,
    ) -> Parsed<Expr> {
        let first = operand(self)?;
        let mut rest = Vec::new();
        let mut is_whole = true;
        while let Some((operator, meaning)) = self.one_of(table) {
            rest.push((meaning, operand(self)?));
            is_whole &= !is_out(&["operator ", operator.spelled()]);
        }
        Ok(if is_whole { chain(first, rest) } else { nothing() })
    }

    /// Takes the next token if it is an operator of the table.
    fn one_of<T: Copy>(&mut self, table: &[(Operator, T)]) -> Option<(Operator, T)> {
        let found = table.iter().find(|(operator, _)| {
            self.peek().is_some_and(|token| token == Token::Operator(*operator))
        });
        found.map(|found| {
            self.advance();
            *found
        })
    }

    fn unary(&mut self) -> Parsed<Expr> {
        let mut signs = 0usize;
        while self.eat_operator(Operator::Minus) {
            signs += 1;
        }
        let expr = self.union()?;
        if signs == 0 {
            return Ok(expr);
        }
        Ok(Expr::Negate(Box::new(expr), signs % 2 == 1).unless_out(&["operator - of one operand"]))
    }

    fn union(&mut self) -> Parsed<Expr> {
        let place = self.place();
        let mut all = vec![self.path()?];
        while self.eat_operator(Operator::Union) {
            all.push(self.path()?);
        }
        if all.len() == 1 {
            return Ok(only(all, Expr::Union));
        }
        for one in &all {
            node_set(one, place, "what `|` unites")?;
        }
        Ok(only(all, Expr::Union).unless_out(&["operator |"]))
    }

    /// Productions 19 and 1: a location path, or a filter expression with or without one.
    fn path(&mut self) -> Parsed<Expr> {
        let place = self.place();
        let Some(token) = self.peek() else {
            return self.fail("the expression ends where an operand has to follow");
        };
        let mut steps = Vec::new();
        let start = match token {
            Token::Operator(Operator::Slash) => {
                self.advance();
                if !self.at_step() {
                    return Ok(self.to_path(Start::Root, steps));
                }
                self.steps(&mut steps)?;
                Start::Root
            }
            Token::Operator(Operator::DoubleSlash) => {
                self.advance();
                steps.push(step_to_anything());
                self.steps(&mut steps)?;
                Start::Root
            }
            Token::Operator(_) => return self.fail("an operand has to stand before this"),
            Token::Dot
            | Token::DoubleDot
            | Token::At
            | Token::Axis(_)
            | Token::AnyName
            | Token::AnyOf(_)
            | Token::Name(_)
            | Token::NodeType(_) => {
                self.steps(&mut steps)?;
                Start::Context
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
                let goes_on = match self.peek() {
                    Some(Token::Operator(Operator::Slash)) => true,
                    Some(Token::Operator(Operator::DoubleSlash)) => {
                        steps.push(step_to_anything());
                        true
                    }
                    Some(_) | None => false,
                };
                if goes_on || !predicates.is_empty() {
                    node_set(&primary, place, "what a predicate or `/` follows")?;
                }
                if goes_on {
                    self.advance();
                    self.steps(&mut steps)?;
                } else if predicates.is_empty() {
                    return Ok(primary);
                }
                Start::Filter(primary, predicates)
            }
        };
        Ok(self.to_path(start, steps))
    }

    fn to_path(&self, start: Start, steps: Vec<Step>) -> Expr {
        let feature = match (&start, steps.len()) {
            (Start::Root, 0) => "path /",
            (Start::Root, _) => "path /a",
            (Start::Context, 1) => "path a",
            (Start::Context, _) => "path a/b",
            (Start::Filter(..), 0) => "filter E[p]",
            (Start::Filter(..), _) => "filter E/a",
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

    fn steps(&mut self, steps: &mut Vec<Step>) -> Parsed<()> {
        loop {
            steps.push(self.step()?);
            if self.eat_operator(Operator::DoubleSlash) {
                steps.push(step_to_anything());
            } else if !self.eat_operator(Operator::Slash) {
                return Ok(());
            }
        }
    }

    fn step(&mut self) -> Parsed<Step> {
        let abbreviated = match self.peek() {
            Some(Token::Dot) => Some((Axis::Itself, ".")),
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
            return self.fail("the expression ends where a step has to follow");
        };
        self.advance();
        match token {
            Token::AnyName => Ok(Test::Principal),
            Token::AnyOf(prefix) => {
                Ok(Test::Namespace(self.namespace(prefix, place)?.into_boxed_str()))
            }
            Token::Name(written) => Ok(Test::Name(Name::new(self.expand(written, place)?))),
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
                Err(CompileError::new(place, "a step has to follow: a name, `*`, or a node test"))
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

    fn expect(&mut self, token: Token<'static>, shown: &str) -> Parsed<()> {
        if self.eat(token) { Ok(()) } else { self.fail(format!("{shown} is missing")) }
    }

    pub(crate) fn predicates(&mut self) -> Parsed<Vec<Predicate>> {
        let mut all = Vec::new();
        while self.eat(Token::OpenBracket) {
            let expr = self.expr()?;
            self.expect(Token::CloseBracket, "`]`")?;
            let is_number = matches!(expr, Expr::Number(_));
            let feature = if is_number { "abbreviation [n]" } else { "predicate [p]" };
            if !is_out(&[feature]) {
                all.push(Predicate::of(expr));
            }
        }
        Ok(all)
    }

    fn namespace(&self, prefix: &str, place: usize) -> Parsed<String> {
        if prefix == "xml" {
            return Ok(xml::XML_NAMESPACE.to_owned());
        }
        self.names.namespace(prefix).ok_or_else(|| {
            CompileError::new(place, format!("no namespace is bound to the prefix `{prefix}`"))
        })
    }

    /// No prefix means no namespace, whatever the default one is: section 2.3.
    fn expand(&self, written: Written<'_>, place: usize) -> Parsed<ExpandedName> {
        let namespace = match written.prefix {
            "" => String::new(),
            prefix => self.namespace(prefix, place)?,
        };
        Ok(ExpandedName { namespace, local: written.local.to_owned() })
    }

    pub(crate) fn primary(&mut self) -> Parsed<Expr> {
        let place = self.place();
        let Some(token) = self.peek() else {
            return self.fail("the expression ends where an operand has to follow");
        };
        self.advance();
        match token {
            Token::Number(number) => Ok(Expr::Number(number).unless_out(&["number"])),
            Token::Literal(text) => Ok(Expr::Literal(text.into()).unless_out(&["literal"])),
            Token::Variable(written) => {
                let name = self.expand(written, place)?;
                let id = self.names.variable(&name);
                let variable = id.map(|id| Expr::Variable(id).unless_out(&["variable"]));
                variable.ok_or_else(|| {
                    CompileError::new(place, format!("the variable `${name}` isn't known here"))
                })
            }
            Token::Open => {
                let expr = self.expr()?;
                self.expect(Token::Close, "`)`")?;
                Ok(expr.unless_out(&["parentheses"]))
            }
            Token::Function(written) => self.call(written, place),
            Token::Close
            | Token::OpenBracket
            | Token::CloseBracket
            | Token::Dot
            | Token::DoubleDot
            | Token::At
            | Token::Comma
            | Token::Operator(_)
            | Token::AnyName
            | Token::AnyOf(_)
            | Token::Name(_)
            | Token::NodeType(_)
            | Token::Axis(_) => Err(CompileError::new(place, "an operand has to stand here")),
        }
    }

    fn call(&mut self, written: Written<'_>, place: usize) -> Parsed<Expr> {
        let arguments = self.arguments()?;
        if written.prefix.is_empty()
            && let Some(core) = Core::named(written.local, arguments.len())
        {
            let core = core.map_err(|message| CompileError::new(place, message))?;
            if let (Core::Count | Core::Sum, Some(nodes)) = (core, arguments.first()) {
                node_set(nodes, place, "the argument")?;
            }
            if let (Core::Name | Core::LocalName | Core::NamespaceUri, Some(nodes)) =
                (core, arguments.first())
            {
                node_set(nodes, place, "the argument")?;
            }
            return Ok(Expr::Core(core, arguments).unless_out(&["function ", written.local]));
        }
        let name = self.expand(written, place)?;
        match self.names.function(&name, arguments.len()) {
            Some(id) => {
                let module = name.namespace.rsplit_once(['/', ':']);
                let (module, colon) = module.map_or(("", ""), |(_, module)| (module, ":"));
                let feature = ["function ", module, colon, written.local];
                Ok(Expr::Extension(id, arguments).unless_out(&feature))
            }
            None => {
                let count = arguments.len();
                let message = format!("there is no function `{name}` with {count} arguments");
                Err(CompileError::new(place, message))
            }
        }
    }

    fn arguments(&mut self) -> Parsed<Vec<Expr>> {
        self.expect(Token::Open, "`(`")?;
        let mut all = Vec::new();
        if self.eat(Token::Close) {
            return Ok(all);
        }
        loop {
            all.push(self.expr()?);
            if self.eat(Token::Close) {
                return Ok(all);
            }
            self.expect(Token::Comma, "`,` or `)`")?;
        }
    }
}

fn only(mut all: Vec<Expr>, several: fn(Vec<Expr>) -> Expr) -> Expr {
    match (all.len(), all.pop()) {
        (1, Some(one)) => one,
        (_, last) => {
            all.extend(last);
            several(all)
        }
    }
}

fn chain(first: Expr, rest: Vec<(Arithmetic, Expr)>) -> Expr {
    if rest.is_empty() { first } else { Expr::Arithmetic(Box::new(first), rest) }
}

/// Refuses what can't be a node-set: section 3.3, "nothing becomes a node-set".
fn node_set(expr: &Expr, place: usize, what: &str) -> Parsed<()> {
    match expr.value_type() {
        Type::NodeSet | Type::Unknown => Ok(()),
        Type::String | Type::Number | Type::Boolean => {
            Err(CompileError::new(place, format!("{what} has to be a node-set")))
        }
    }
}
