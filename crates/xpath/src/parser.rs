//! Tokens to a plan: XPath 1.0 section 3, from the loosest binding operator to the tightest. Names,
//! variables and functions are resolved on the way.
//!
//! Here are the operators, below are paths and primary expressions. It recurses on parentheses, predicates
//! and arguments, at most `XPATH_DEPTH_MAX` deep; chains of operators are lists.

mod path;
mod primary;

use crate::limits;

use crate::context::StaticContext;
use crate::error::CompileError;
use crate::knock_out::{is_out, nothing};
use crate::lexer::{Operator, Token, tokens};
use crate::plan::{Arithmetic, Comparison, Expr, Type};

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

    fn expect(&mut self, token: Token<'static>, shown: &str) -> Parsed<()> {
        if self.eat(token) { Ok(()) } else { self.fail(format!("{shown} is missing")) }
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
