//! Compiled expressions.

use std::borrow::Cow;

use crate::budget::Budget;
use crate::context::{Context, Environment, FunctionId, StaticContext, VariableId};
use crate::error::Error;
use crate::evaluate::Run;
use crate::item::NodeSet;
use crate::name::ExpandedName;
use crate::parser;
use crate::plan::{Expr, Path, PathStart, Segment, Type};
use crate::value::Value;

/// A compiled expression. It isn't tied to a document, and threads can share it.
#[derive(Debug)]
pub struct Expression {
    text: Box<str>,
    plan: Expr,
    /// See [`Expr::cost`].
    cost: u64,
}

impl std::fmt::Display for Expression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl Expression {
    /// Compiles an expression.
    ///
    /// # Errors
    /// [`Error::Syntax`]: text that isn't XPath 1.0, names that `names` doesn't resolve, expressions that
    /// exceed [`limits`](crate::limits), and operands that can't be node-sets where one is required.
    pub fn compile(text: &str, names: &dyn StaticContext) -> Result<Self, Error> {
        let plan = parser::expression(text, names)?;
        Ok(Self { text: text.into(), cost: plan.cost(), plan })
    }

    fn run<'a, 'd>(
        &self,
        environment: &'a mut dyn Environment<'d>,
        budget: &'a Budget,
    ) -> Result<Run<'a, 'd>, Error> {
        budget.charge_steps(self.cost.saturating_add(1))?;
        Ok(Run::new(environment, budget))
    }

    /// Evaluates the expression to a value of its own type.
    ///
    /// # Errors
    /// [`Error`]: an exceeded budget, a value that must be a node-set and isn't, and the errors of the
    /// environment.
    pub fn evaluate<'d>(
        &self,
        context: Context<'d>,
        environment: &mut dyn Environment<'d>,
        budget: &Budget,
    ) -> Result<Value<'d>, Error> {
        self.run(environment, budget)?.value(&self.plan, context)
    }

    /// The value as `string()` converts it. For a path, the search ends at the first node. Text that is in one piece in
    /// the document or the expression is borrowed.
    ///
    /// # Errors
    /// As [`Expression::evaluate`].
    pub fn evaluate_string<'e, 'd: 'e>(
        &'e self,
        context: Context<'d>,
        environment: &mut dyn Environment<'d>,
        budget: &Budget,
    ) -> Result<Cow<'e, str>, Error> {
        self.run(environment, budget)?.string(&self.plan, context)
    }

    /// The value as `boolean()` converts it. Evaluation ends as soon as the result is known.
    ///
    /// # Errors
    /// As [`Expression::evaluate`].
    pub fn evaluate_boolean<'d>(
        &self,
        context: Context<'d>,
        environment: &mut dyn Environment<'d>,
        budget: &Budget,
    ) -> Result<bool, Error> {
        self.run(environment, budget)?.boolean(&self.plan, context)
    }

    /// The value as `number()` converts it.
    ///
    /// # Errors
    /// As [`Expression::evaluate`].
    pub fn evaluate_number<'d>(
        &self,
        context: Context<'d>,
        environment: &mut dyn Environment<'d>,
        budget: &Budget,
    ) -> Result<f64, Error> {
        self.run(environment, budget)?.number(&self.plan, context)
    }

    /// All nodes, in document order.
    ///
    /// # Errors
    /// As [`Expression::evaluate`]; [`Error::NotANodeSet`].
    pub fn select<'d>(
        &self,
        context: Context<'d>,
        environment: &mut dyn Environment<'d>,
        budget: &Budget,
    ) -> Result<NodeSet<'d>, Error> {
        let nodes = self.run(environment, budget)?.nodes(&self.plan, context)?;
        Ok(NodeSet::from_ordered(nodes.charged_items(budget)?))
    }

    /// The type of the value.
    #[must_use]
    pub fn value_type(&self) -> Type {
        self.plan.value_type()
    }

    /// The variables that the expression reads, in order and with repetitions.
    #[must_use]
    pub fn variables(&self) -> Vec<VariableId> {
        let mut found = Vec::new();
        self.plan.visit(true, &mut |expr| {
            if let Expr::Variable(id) = expr {
                found.push(*id);
            }
        });
        found
    }

    /// The extension functions that the expression calls, in order and with repetitions.
    #[must_use]
    pub fn functions(&self) -> Vec<FunctionId> {
        let mut found = Vec::new();
        self.plan.visit(true, &mut |expr| {
            if let Expr::Extension(id, _) = expr {
                found.push(*id);
            }
        });
        found
    }

    /// Whether the expression, evaluated on the root of a document, reads only the contents of the elements at `place`:
    /// the names of the document element and of its child. Extension functions are not considered.
    #[must_use]
    pub fn reads_only(&self, place: [&ExpandedName; 2]) -> bool {
        let mut is_sure = true;
        self.plan.visit(true, &mut |expr| {
            is_sure &= match expr {
                Expr::Path(path) if leaves_subtree(path) => false,
                Expr::Path(path) => match (&path.start, path.segments.first()) {
                    (PathStart::Filter(..), _) => true,
                    (PathStart::Root | PathStart::Context, Some(Segment::Scan(scan))) => {
                        scan.begins_with(place)
                    }
                    (PathStart::Root | PathStart::Context, _) => false,
                },
                Expr::Core(core, arguments) => !core.reads_context(arguments.len()),
                Expr::Number(_)
                | Expr::Literal(_)
                | Expr::Variable(_)
                | Expr::Or(_)
                | Expr::And(_)
                | Expr::Compare(..)
                | Expr::Arithmetic(..)
                | Expr::Negate(..)
                | Expr::Union(_)
                | Expr::Extension(..) => true,
            };
        });
        is_sure
    }

    /// Whether a condition that holds for the beginning of a document (`xml::DocumentFeed::cut`) also holds for the
    /// whole document, provided that the beginning has the document element. Variables must be nodes of the document,
    /// or independent of it.
    #[must_use]
    pub fn is_steady(&self) -> bool {
        self.plan.is_steady()
    }

    /// Whether the value depends on the node of the document that is the context node. Variables and functions are not
    /// considered.
    #[must_use]
    pub fn reads_context_node(&self) -> bool {
        let mut reads = false;
        self.plan.visit(false, &mut |expr| {
            reads |= matches!(expr, Expr::Path(path) if matches!(path.start, PathStart::Context))
                || matches!(expr, Expr::Core(core, all) if core.reads_context(all.len()));
        });
        reads
    }

    /// Whether the expression itself reads the context node or its document. Variables and functions may read them even
    /// if it doesn't.
    #[must_use]
    pub fn reads_context(&self) -> bool {
        let mut reads = false;
        self.plan.visit(true, &mut |expr| {
            reads |= matches!(expr, Expr::Path(path) if from_context(path))
                || matches!(expr, Expr::Core(core, all) if core.reads_context(all.len()));
        });
        reads
    }
}

/// Whether this path, or one in its predicates, leaves the subtree of the node that it starts from.
fn leaves_subtree(path: &Path) -> bool {
    path.segments.iter().any(|segment| matches!(segment, Segment::Step(_)))
}

fn from_context(path: &Path) -> bool {
    matches!(path.start, PathStart::Context | PathStart::Root)
}
