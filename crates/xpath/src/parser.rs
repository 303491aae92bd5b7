//! Compiles tokens to a plan, and resolves names, variables and functions: XPath 1.0 section 3.
//!
//! This module parses operators, from the loosest to the tightest; its submodules parse paths and primary
//! expressions. It recurses on parentheses, predicates and arguments, at most `XPATH_DEPTH_MAX` deep; chains
//! of operators are parsed by loops.

mod path;
mod primary;

use crate::limits;

use crate::context::StaticContext;
use crate::error::Error;
use crate::knock_out::{empty_node_set, is_out};
use crate::lexer::{Operator, Token, tokens};
use crate::plan::{Arithmetic, Comparison, Expr, Type};

type Parsed<T> = Result<T, Error>;

pub(crate) struct Parser<'t> {
    tokens: Vec<(Token<'t>, usize)>,
    next: usize,
    end: usize,
    depth: usize,
    /// Comparisons chained to another one without parentheses.
    chained: usize,
    names: &'t dyn StaticContext,
    /// Whether downward steps are combined into scans.
    scans: bool,
    /// The predicates around the next token.
    predicates: usize,
    /// Whether the steps to the elements of [`StaticContext::outer`] are kept.
    keeps_outer: bool,
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

/// As [`expression`], with each step on its own: for the reference evaluator of the property tests.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn without_scans(text: &str, names: &dyn StaticContext) -> Parsed<Expr> {
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
            let message =
                format!("expression too long: {} bytes, at most {most} are allowed", text.len());
            return Err(Error::syntax(most, message));
        }
        Ok(Self {
            tokens: tokens(text)?,
            next: 0,
            end: text.len(),
            depth: 0,
            chained: 0,
            names,
            scans: true,
            predicates: 0,
            keeps_outer: false,
        })
    }

    pub(crate) fn finish(&self) -> Parsed<()> {
        if self.peek().is_some() {
            self.fail("expected an operator or the end of the expression")
        } else {
            Ok(())
        }
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
        Err(Error::syntax(self.place(), message))
    }

    fn deeper(&mut self) -> Parsed<()> {
        self.depth += 1;
        if self.depth > limits::XPATH_DEPTH_MAX {
            let most = limits::XPATH_DEPTH_MAX;
            return self.fail(format!("expression nested more than {most} deep"));
        }
        Ok(())
    }

    /// Counts comparisons: they nest to the left, `a = b = c` being `(a = b) = c`.
    fn link(&mut self, links: &mut usize) -> Parsed<()> {
        self.chained += usize::from(*links > 0);
        *links += 1;
        if self.chained > limits::XPATH_DEPTH_MAX {
            let most = limits::XPATH_DEPTH_MAX;
            return self.fail(format!("more than {most} comparisons in a row"));
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
        Ok(only(all, make).unless_out(&["operator ", operator.symbol()]))
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
                .unless_out(&["operator ", operator.symbol()]);
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
        let mut is_complete = true;
        while let Some((operator, meaning)) = self.one_of(table) {
            rest.push((meaning, operand(self)?));
            is_complete &= !is_out(&["operator ", operator.symbol()]);
        }
        Ok(if is_complete { chain(first, rest) } else { empty_node_set() })
    }

    /// Consumes the next token if it is an operator of the table.
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
            node_set(one, place, "an operand of `|`")?;
        }
        Ok(only(all, Expr::Union).unless_out(&["operator |"]))
    }

    fn expect(&mut self, token: Token<'static>, shown: &str) -> Parsed<()> {
        if self.eat(token) { Ok(()) } else { self.fail(format!("expected {shown}")) }
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

/// Rejects an expression that can't be a node-set: section 3.3.
fn node_set(expr: &Expr, place: usize, what: &str) -> Parsed<()> {
    match expr.value_type() {
        Type::NodeSet | Type::Unknown => Ok(()),
        Type::String | Type::Number | Type::Boolean => {
            Err(Error::syntax(place, format!("{what} must be a node-set")))
        }
    }
}
