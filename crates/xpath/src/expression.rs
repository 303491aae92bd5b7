//! An expression, compiled once and evaluated often.

use std::borrow::Cow;

use crate::budget::Budget;
use crate::context::{Context, Environment, FunctionId, StaticContext, VariableId};
use crate::error::{CompileError, EvalError};
use crate::evaluate::Run;
use crate::item::{Item, NodeSet};
use crate::parser;
use crate::plan::{Expr, Path, Start, Type};
use crate::value::Value;

/// A compiled expression. It knows nothing of any document and may be shared between threads.
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
    /// With the place: what isn't XPath 1.0, names that `names` doesn't know, what is longer or deeper
    /// than `XPATH_BYTES_MAX` and `XPATH_DEPTH_MAX`, and what can't be a node-set where only one will do.
    pub fn compile(text: &str, names: &dyn StaticContext) -> Result<Self, CompileError> {
        let plan = parser::expression(text, names)?;
        Ok(Self { text: text.into(), cost: plan.cost(), plan })
    }

    fn run<'a, 'd>(
        &self,
        environment: &'a mut dyn Environment<'d>,
        budget: &'a Budget,
    ) -> Result<Run<'a, 'd>, EvalError> {
        budget.charge_steps(self.cost.saturating_add(1))?;
        Ok(Run::new(environment, budget))
    }

    /// The value, whatever its type. A node-set is complete, and in document order.
    ///
    /// # Errors
    /// [`EvalError`]: the limits of an evaluation, and what the environment reports.
    pub fn evaluate<'d>(
        &self,
        context: Context<'d>,
        environment: &mut dyn Environment<'d>,
        budget: &Budget,
    ) -> Result<Value<'d>, EvalError> {
        self.run(environment, budget)?.value(&self.plan, context)
    }

    /// As `string()` makes it; of a path, the text of its first node, and no further node is looked for.
    /// Borrowed from the document or the expression where it stands there in one piece.
    ///
    /// # Errors
    /// As [`Expression::evaluate`].
    pub fn evaluate_string<'e, 'd: 'e>(
        &'e self,
        context: Context<'d>,
        environment: &mut dyn Environment<'d>,
        budget: &Budget,
    ) -> Result<Cow<'e, str>, EvalError> {
        self.run(environment, budget)?.string(&self.plan, context)
    }

    /// As `boolean()` makes it; stops as soon as the answer is known.
    ///
    /// # Errors
    /// As [`Expression::evaluate`].
    pub fn evaluate_boolean<'d>(
        &self,
        context: Context<'d>,
        environment: &mut dyn Environment<'d>,
        budget: &Budget,
    ) -> Result<bool, EvalError> {
        self.run(environment, budget)?.boolean(&self.plan, context)
    }

    /// As `number()` makes it.
    ///
    /// # Errors
    /// As [`Expression::evaluate`].
    pub fn evaluate_number<'d>(
        &self,
        context: Context<'d>,
        environment: &mut dyn Environment<'d>,
        budget: &Budget,
    ) -> Result<f64, EvalError> {
        self.run(environment, budget)?.number(&self.plan, context)
    }

    /// The first node in document order.
    ///
    /// # Errors
    /// As [`Expression::evaluate`]; [`EvalError::NotANodeSet`] when the value is none.
    pub fn evaluate_first<'d>(
        &self,
        context: Context<'d>,
        environment: &mut dyn Environment<'d>,
        budget: &Budget,
    ) -> Result<Option<Item<'d>>, EvalError> {
        self.run(environment, budget)?.first(&self.plan, context)
    }

    /// All nodes, in document order.
    ///
    /// # Errors
    /// As [`Expression::evaluate`]; [`EvalError::NotANodeSet`] when the value is none.
    pub fn select<'d>(
        &self,
        context: Context<'d>,
        environment: &mut dyn Environment<'d>,
        budget: &Budget,
    ) -> Result<NodeSet<'d>, EvalError> {
        self.run(environment, budget)?.nodes(&self.plan, context)
    }

    /// What the value's type will be.
    #[must_use]
    pub fn value_type(&self) -> Type {
        self.plan.value_type()
    }

    /// The variables that it reads, each as often as it stands there.
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

    /// The extension functions that it calls, each as often as it stands there.
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

    /// Whether it looks at the context node or its document. Where it doesn't, only its variables and
    /// functions can.
    #[must_use]
    pub fn reads_context(&self) -> bool {
        let mut reads = false;
        self.plan.visit(true, &mut |expr| {
            reads |= match expr {
                Expr::Path(path) => from_context(path),
                Expr::Core(core, arguments) => core.reads_context(arguments.len()),
                Expr::Number(_)
                | Expr::Literal(_)
                | Expr::Variable(_)
                | Expr::Or(_)
                | Expr::And(_)
                | Expr::Compare(..)
                | Expr::Arithmetic(..)
                | Expr::Negate(..)
                | Expr::Union(_)
                | Expr::Extension(..) => false,
            };
        });
        reads
    }
}

fn from_context(path: &Path) -> bool {
    matches!(path.start, Start::Context | Start::Root)
}
