//! The machine: registers, stack, and one arm for each operation.

use std::borrow::Cow;
use std::rc::Rc;

use xml::{Builder, Kind, Node};
use xpath::{Context, Expression, Item, Value};

use super::construct::{NODE_BYTES, separate_hyphens};
use super::environment::Env;
use super::{RunError, RunResult, State};
use crate::error::ErrorKind;
use crate::output::Output;
use crate::program::{Avt, Block, HALT, Op};

pub(super) type Passed<'d> = Option<Rc<Vec<(u32, Value<'d>)>>>;

/// The state of the current template.
#[derive(Debug, Clone)]
pub(super) struct Registers<'d> {
    pub(super) pc: usize,
    pub(super) context: Context<'d>,
    /// Index of the template's first variable in `locals`.
    pub(super) base: usize,
    pub(super) passed: Passed<'d>,
    pub(super) mode: u32,
    /// The template of the current template rule; none inside a loop.
    pub(super) rule: Option<usize>,
}

/// The state that a template or a loop returns to.
pub(super) enum Frame<'d> {
    Call(Registers<'d>),
    Apply {
        back: Registers<'d>,
        items: Vec<Item<'d>>,
        next: usize,
        mode: u32,
        passed: Passed<'d>,
    },
    Loop {
        items: Vec<Item<'d>>,
        next: usize,
        body: usize,
        context: Context<'d>,
        rule: Option<usize>,
    },
}

pub(crate) struct Machine<'w, 'd> {
    pub(super) state: &'w mut State<'d>,
    pub(super) registers: Registers<'d>,
    pub(super) frames: Vec<Frame<'d>>,
    pub(super) locals: Vec<Value<'d>>,
    passing: Vec<Vec<(u32, Value<'d>)>>,
    /// Lists of nodes for reuse.
    pub(super) spare: Vec<Vec<Item<'d>>>,
    /// Values for prebuilt markup; empty in between.
    pub(super) texts: Vec<Cow<'d, str>>,
    /// Source elements that are being copied, with the depth of the output inside them.
    pub(super) copies: Vec<(Option<usize>, Node<'d>)>,
    /// Outputs that are suspended while `output` is in use.
    pub(super) outputs: Vec<Output>,
    pub(super) output: Output,
    /// Maximum number of attributes that have been added to the open start tag.
    pub(super) attributes: usize,
}

impl<'w, 'd> Machine<'w, 'd> {
    pub(super) fn new(state: &'w mut State<'d>, context: Context<'d>, output: Output) -> Self {
        let registers = Registers { pc: HALT, context, base: 0, passed: None, mode: 0, rule: None };
        Self {
            state,
            registers,
            frames: Vec::with_capacity(FRAMES),
            locals: Vec::new(),
            passing: Vec::new(),
            spare: Vec::new(),
            texts: Vec::new(),
            copies: Vec::new(),
            outputs: Vec::new(),
            output,
            attributes: 0,
        }
    }

    pub(super) fn into_output(self) -> Output {
        self.output
    }

    /// Starts with the root of the source, without mode: section 5.1.
    pub(super) fn start_at_root(&mut self) -> RunResult {
        let items = vec![self.registers.context.item];
        self.apply_items(items, 0, None)?;
        self.run()
    }

    /// Evaluates the block of a global variable.
    pub(super) fn value_of_block(&mut self, block: Block) -> RunResult<Value<'d>> {
        self.enter_block(block)?;
        let halted = Registers { pc: HALT, ..self.registers.clone() };
        self.push(Frame::Call(halted))?;
        self.registers.pc = block.start;
        self.run_until_return()?;
        Ok(self.locals.first().cloned().unwrap_or_else(|| Value::String(String::new())))
    }

    pub(super) fn enter_block(&mut self, block: Block) -> RunResult {
        self.state.charge_steps(block.slots / SLOTS_PER_STEP)?;
        self.registers.base = self.locals.len();
        let room = self.locals.len().saturating_add(block.slots);
        self.locals.resize(room, Value::Boolean(false));
        Ok(())
    }

    fn run(&mut self) -> RunResult {
        while self.registers.pc != HALT {
            self.execute()?;
        }
        Ok(())
    }

    /// Stops at the return of the outermost block, with its variables in place.
    fn run_until_return(&mut self) -> RunResult {
        let ops = &self.state.program.ops;
        loop {
            if self.frames.len() == 1 && matches!(ops.get(self.registers.pc), Some(Op::Return)) {
                return Ok(());
            }
            self.execute()?;
        }
    }

    fn execute(&mut self) -> RunResult {
        let pc = self.registers.pc;
        if let Err(error) = self.step(pc) {
            let error = self.state.raised.take().unwrap_or(error);
            return Err(error.located(self.state.program, Some(pc)));
        }
        if let Output::Deferred(deferred) = &mut self.output {
            deferred.set_cause(pc);
        }
        Ok(())
    }

    fn step(&mut self, pc: usize) -> RunResult {
        self.state.charge_steps(1)?;
        let program = self.state.program;
        let Some(op) = program.ops.get(pc) else {
            return Err("internal error: no operation".into());
        };
        self.registers.pc = pc.wrapping_add(1);
        match op {
            Op::Halt => self.registers.pc = HALT,
            Op::Return => return self.return_from_template(),
            Op::Jump(to) => self.registers.pc = *to,
            Op::JumpUnless(test, to) => {
                if !self.boolean(test)? {
                    self.registers.pc = *to;
                }
            }
            Op::Text(text) => return self.text(text),
            Op::RawText(text) => {
                self.state.charge_memory(text.len())?;
                self.output.raw(text)?;
            }
            Op::ValueOf { select, raw } => {
                let text = self.string(select)?;
                if !raw {
                    return self.text(&text);
                }
                self.state.charge_memory(text.len())?;
                self.output.raw(&text)?;
            }
            Op::CopyOf(select) => return self.copy_of(select),
            Op::Number(number) => return self.number(number),
            Op::Copy(end) => return self.copy(*end),
            Op::EndCopy => {
                if self.registers.context.item.kind() == Kind::Element {
                    self.copies.pop();
                    self.output.end()?;
                }
            }
            Op::Literal(literal) => return self.literal(literal),
            Op::Markup(op) => {
                if self.markup(op)? {
                    self.registers.pc = op.end;
                } else {
                    return self.literal(&op.literal);
                }
            }
            Op::Attribute(parts) => {
                let (name, value) = &**parts;
                if let Avt::Text(value) = value {
                    self.state.charge_memory(value.len())?;
                    self.add_attribute(name.as_ref(), value)?;
                } else {
                    let value = self.avt(value)?;
                    self.state.charge_memory(value.len())?;
                    self.add_attribute(name.as_ref(), &value)?;
                }
            }
            Op::Element(name) => return self.element(name),
            Op::EndElement => self.output.end()?,
            Op::Collect => self.open(Output::Text(String::new())),
            Op::EndAttribute(name) => return self.end_attribute(name),
            Op::EndComment => {
                let text = self.collected()?;
                self.state.charge_memory(NODE_BYTES)?;
                self.output.comment(&separate_hyphens(&text))?;
            }
            Op::EndInstruction(name) => {
                let text = self.collected()?.replace("?>", "? >");
                let target = self.avt(name)?;
                self.state.charge_memory(target.len().saturating_add(NODE_BYTES))?;
                self.output.instruction(&target, text.trim_start())?;
            }
            Op::EndMessage { terminate } => {
                let text = self.built()?.root().string_value();
                self.state.resolver.message(&text);
                if *terminate {
                    let message = format!("terminated by xsl:message: {text}");
                    return Err(RunError::new(ErrorKind::Terminated, message));
                }
            }
            Op::Build => self.open(Output::Tree(Box::new(Builder::new()))),
            Op::EndBuild(slot) => {
                let value = self.fragment()?;
                self.set(*slot, value)?;
            }
            Op::EndBuildPass(name) => {
                let value = self.fragment()?;
                self.pass(*name, value)?;
            }
            Op::Set(slot, value) => {
                let value = self.value(value)?;
                self.set(*slot, value)?;
            }
            Op::SetText(slot, text) => self.set(*slot, Value::String(text.clone()))?,
            Op::Param { name, slot, end } => {
                let passed = self.registers.passed.as_ref();
                let found = passed.and_then(|all| all.iter().find(|(known, _)| known == name));
                self.state.charge_steps(passed.map_or(0, |all| all.len()) / SLOTS_PER_STEP)?;
                if let Some((_, value)) = found {
                    let value = value.copy(self.state.budget)?;
                    self.set(*slot, value)?;
                    self.registers.pc = *end;
                }
            }
            Op::BeginPass => self.passing.push(Vec::new()),
            Op::Pass(name, value) => {
                let value = self.value(value)?;
                self.pass(*name, value)?;
            }
            Op::PassText(name, text) => self.pass(*name, Value::String(text.clone()))?,
            Op::Apply(apply) => return self.apply(apply),
            Op::ApplyImports => return self.apply_imports(),
            Op::Call { template, passes } => {
                let passed = self.take_passed(*passes);
                let Some(template) = program.templates.get(*template) else {
                    return Err("internal error: no template".into());
                };
                self.push(Frame::Call(self.registers.clone()))?;
                self.registers.passed = passed;
                self.enter_block(template.block)?;
                self.registers.pc = template.block.start;
            }
            Op::CallSet { set, in_copy } => {
                if *in_copy && self.registers.context.item.kind() != Kind::Element {
                    return Ok(());
                }
                let block = program.sets.get(*set).copied().unwrap_or_default();
                self.push(Frame::Call(self.registers.clone()))?;
                self.enter_block(block)?;
                self.registers.pc = block.start;
            }
            Op::ForEach(each) => return self.for_each(each),
            Op::Next => return self.next(),
            Op::Fail(message) => return Err(message.as_str().into()),
        }
        Ok(())
    }

    pub(super) fn env(&mut self) -> (Context<'d>, Env<'_, 'd>) {
        let current = self.registers.context;
        let locals = self.locals.get(self.registers.base..).unwrap_or(&[]);
        (current, Env { state: self.state, locals, current: current.item })
    }

    fn boolean(&mut self, test: &'d Expression) -> RunResult<bool> {
        let budget = self.state.budget;
        let (context, mut env) = self.env();
        Ok(test.evaluate_boolean(context, &mut env, budget)?)
    }

    pub(super) fn string_of(&mut self, select: &'d Expression) -> RunResult<Cow<'d, str>> {
        let budget = self.state.budget;
        let (context, mut env) = self.env();
        Ok(select.evaluate_string(context, &mut env, budget)?)
    }

    pub(super) fn value(&mut self, select: &'d Expression) -> RunResult<Value<'d>> {
        let budget = self.state.budget;
        let (context, mut env) = self.env();
        Ok(select.evaluate(context, &mut env, budget)?)
    }

    pub(super) fn nodes(&mut self, select: &'d Expression) -> RunResult<Vec<Item<'d>>> {
        let budget = self.state.budget;
        let (context, mut env) = self.env();
        Ok(select.select(context, &mut env, budget)?.into_items())
    }

    pub(super) fn avt(&mut self, template: &'d Avt) -> RunResult<String> {
        match template {
            Avt::Text(text) => Ok(text.clone()),
            Avt::Expression(expression) => Ok(self.string(expression)?.into_owned()),
            Avt::Parts(parts) => {
                let mut out = String::new();
                for part in parts {
                    let text = match part {
                        Avt::Text(text) => Cow::Borrowed(text.as_str()),
                        Avt::Expression(expression) => self.string(expression)?,
                        Avt::Parts(_) => continue,
                    };
                    self.state.charge_memory(text.len())?;
                    out.push_str(&text);
                }
                // The caller charges its own use of the text.
                self.state.budget.release_memory(out.len());
                Ok(out)
            }
        }
    }

    fn set(&mut self, slot: u32, value: Value<'d>) -> RunResult {
        self.charge_value(&value)?;
        let at = self.registers.base.saturating_add(slot as usize);
        match self.locals.get_mut(at) {
            Some(place) => *place = value,
            None => return Err("internal error: no slot for a variable".into()),
        }
        Ok(())
    }

    fn pass(&mut self, name: u32, value: Value<'d>) -> RunResult {
        self.charge_value(&value)?;
        if let Some(passing) = self.passing.last_mut() {
            passing.push((name, value));
        }
        Ok(())
    }

    /// Charges the memory of a value.
    fn charge_value(&mut self, value: &Value<'d>) -> RunResult {
        match value {
            Value::String(text) => Ok(self.state.charge_memory(text.len())?),
            Value::NodeSet(nodes) => Ok(self.state.charge_memory(nodes.len().saturating_mul(8))?),
            Value::Number(_) | Value::Boolean(_) => Ok(()),
        }
    }

    pub(super) fn take_passed(&mut self, passes: bool) -> Passed<'d> {
        if passes { self.passing.pop().map(Rc::new) } else { None }
    }
}

/// Variables or parameters that are initialised or compared for the cost of a step.
const SLOTS_PER_STEP: usize = 16;
/// Initial capacity of the stack: most stylesheets go a few levels deep.
const FRAMES: usize = 4;
