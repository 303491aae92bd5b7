//! The machine: where the run is, what waits for it, and one arm for each operation.

use std::borrow::Cow;
use std::rc::Rc;

use crate::limits;
use xml::{Builder, Kind, Node};
use xpath::{Context, Expression, Item, Value};

use super::environment::Env;
use super::make::{NODE_BYTES, hyphens_apart};
use super::{Ran, World};
use crate::output::Output;
use crate::program::{Avt, Block, HALT, Op};

pub(super) type Passed<'d> = Option<Rc<Vec<(u32, Value<'d>)>>>;

/// Where the run is.
#[derive(Debug, Clone)]
pub(super) struct Now<'d> {
    pub(super) pc: usize,
    pub(super) context: Context<'d>,
    /// Where the variables of the template begin.
    pub(super) base: usize,
    pub(super) passed: Passed<'d>,
    pub(super) mode: u32,
    /// The current template rule's template; none inside of a loop.
    pub(super) rule: Option<usize>,
}

/// What a template or a loop goes back to.
pub(super) enum Frame<'d> {
    Call(Now<'d>),
    Apply {
        back: Now<'d>,
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
    pub(super) world: &'w mut World<'d>,
    pub(super) now: Now<'d>,
    pub(super) frames: Vec<Frame<'d>>,
    pub(super) locals: Vec<Value<'d>>,
    passing: Vec<Vec<(u32, Value<'d>)>>,
    /// Lists of nodes that are done with.
    pub(super) spare: Vec<Vec<Item<'d>>>,
    /// Copies of elements of the source that are being written, and how many elements were open in them.
    pub(super) copies: Vec<(Option<usize>, Node<'d>)>,
    /// The last is the one in use.
    pub(super) outputs: Vec<Output>,
    pub(super) output: Output,
}

impl<'w, 'd> Machine<'w, 'd> {
    pub(super) fn new(world: &'w mut World<'d>, context: Context<'d>, output: Output) -> Self {
        let now = Now { pc: HALT, context, base: 0, passed: None, mode: 0, rule: None };
        Self {
            world,
            now,
            frames: Vec::with_capacity(FRAMES),
            locals: Vec::new(),
            passing: Vec::new(),
            spare: Vec::with_capacity(FRAMES),
            copies: Vec::with_capacity(FRAMES),
            outputs: Vec::new(),
            output,
        }
    }

    pub(super) fn into_output(self) -> Output {
        self.output
    }

    /// Section 5.1: the source's root, in no mode.
    pub(super) fn start_at_root(&mut self) -> Ran {
        let items = vec![self.now.context.item];
        self.apply_items(items, 0, None)?;
        self.run()
    }

    /// The value that the block of a global variable leaves.
    pub(super) fn value_of_block(&mut self, block: Block) -> Ran<Value<'d>> {
        self.enter_block(block);
        let halted = Now { pc: HALT, ..self.now.clone() };
        self.push(Frame::Call(halted))?;
        self.now.pc = block.start;
        self.run_until_return()?;
        Ok(self.locals.first().cloned().unwrap_or_else(|| Value::String(String::new())))
    }

    pub(super) fn enter_block(&mut self, block: Block) {
        self.now.base = self.locals.len();
        let room = self.locals.len().saturating_add(block.slots);
        self.locals.resize(room, Value::Boolean(false));
    }

    pub(super) fn push(&mut self, frame: Frame<'d>) -> Ran {
        if self.frames.len() >= limits::XSLT_DEPTH_MAX {
            let most = limits::XSLT_DEPTH_MAX;
            let message = format!("templates call one another without end? More than {most} wait");
            return Err(message.into());
        }
        self.frames.push(frame);
        Ok(())
    }

    fn run(&mut self) -> Ran {
        while self.now.pc != HALT {
            self.one()?;
        }
        Ok(())
    }

    /// Ends at the return of the outermost block, with its variables in place.
    fn run_until_return(&mut self) -> Ran {
        let ops = &self.world.program.ops;
        loop {
            if self.frames.len() == 1 && matches!(ops.get(self.now.pc), Some(Op::Return)) {
                return Ok(());
            }
            self.one()?;
        }
    }

    pub(super) fn one(&mut self) -> Ran {
        let pc = self.now.pc;
        self.step(pc).map_err(|failure| failure.placed(self.world.program, Some(pc)))?;
        if let Output::Undecided(wait) = &mut self.output {
            wait.made_by(pc);
        }
        Ok(())
    }

    pub(super) fn spend(&mut self) -> Ran {
        self.spend_many(1)
    }

    pub(super) fn spend_many(&mut self, steps: u64) -> Ran {
        Ok(self.world.budget.charge_steps(steps)?)
    }

    fn step(&mut self, pc: usize) -> Ran {
        self.spend()?;
        let program = self.world.program;
        let Some(op) = program.ops.get(pc) else { return Err("the program ends too soon".into()) };
        self.now.pc = pc.wrapping_add(1);
        match op {
            Op::Halt => self.now.pc = HALT,
            Op::Return => return self.back(),
            Op::Jump(to) => self.now.pc = *to,
            Op::JumpUnless(test, to) => {
                if !self.boolean(test)? {
                    self.now.pc = *to;
                }
            }
            Op::Text(text) => return self.text(text),
            Op::RawText(text) => {
                self.world.made(text.len())?;
                self.output.raw(text)?;
            }
            Op::ValueOf { select, raw } => {
                let text = self.string(select)?;
                if !raw {
                    return self.text(&text);
                }
                self.world.made(text.len())?;
                self.output.raw(&text)?;
            }
            Op::CopyOf(select) => return self.copy_of(select),
            Op::Number(number) => return self.number(number),
            Op::Copy(end) => return self.copy(*end),
            Op::EndCopy => {
                if self.now.context.item.kind() == Kind::Element {
                    self.copies.pop();
                    self.output.end()?;
                }
            }
            Op::Literal(literal) => return self.literal(literal),
            Op::Stamp(op) => {
                if self.stamp(op)? {
                    self.now.pc = op.end;
                } else {
                    return self.literal(&op.literal);
                }
            }
            Op::Attribute(parts) => {
                let (name, value) = &**parts;
                if let Avt::Text(value) = value {
                    self.world.made(value.len())?;
                    self.output.attribute(name.as_ref(), value)?;
                } else {
                    let value = self.avt(value)?;
                    self.world.made(value.len())?;
                    self.output.attribute(name.as_ref(), &value)?;
                }
            }
            Op::Element(name) => return self.element(name),
            Op::EndElement => self.output.end()?,
            Op::Collect => self.open(Output::Text(String::new())),
            Op::EndAttribute(name) => return self.attribute(name),
            Op::EndComment => {
                let text = self.collected()?;
                self.world.made(NODE_BYTES)?;
                self.output.comment(&hyphens_apart(&text))?;
            }
            Op::EndInstruction(name) => {
                let text = self.collected()?.replace("?>", "? >");
                let target = self.avt(name)?;
                self.world.made(target.len().saturating_add(NODE_BYTES))?;
                self.output.instruction(&target, text.trim_start())?;
            }
            Op::EndMessage { terminate } => {
                let text = self.built()?.root().string_value();
                self.world.resolver.message(&text);
                if *terminate {
                    return Err(format!("ended by xsl:message: {text}").into());
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
                let passed = self.now.passed.as_ref();
                let found = passed.and_then(|all| all.iter().find(|(known, _)| known == name));
                if let Some((_, value)) = found {
                    let value = value.clone();
                    self.set(*slot, value)?;
                    self.now.pc = *end;
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
                    return Err("the program lacks a template".into());
                };
                self.push(Frame::Call(self.now.clone()))?;
                self.now.passed = passed;
                self.enter_block(template.block);
                self.now.pc = template.block.start;
            }
            Op::CallSet { set, in_copy } => {
                if *in_copy && self.now.context.item.kind() != Kind::Element {
                    return Ok(());
                }
                let block = program.sets.get(*set).copied().unwrap_or_default();
                self.push(Frame::Call(self.now.clone()))?;
                self.enter_block(block);
                self.now.pc = block.start;
            }
            Op::ForEach(each) => return self.for_each(each),
            Op::Next => return self.next(),
            Op::Fail(message) => return Err(message.as_str().into()),
        }
        Ok(())
    }

    pub(super) fn env(&mut self) -> (Context<'d>, Env<'_, 'd>) {
        let current = self.now.context;
        let locals = self.locals.get(self.now.base..).unwrap_or(&[]);
        (current, Env { world: self.world, locals, current: current.item })
    }

    fn boolean(&mut self, test: &'d Expression) -> Ran<bool> {
        let budget = self.world.budget;
        let (context, mut env) = self.env();
        Ok(test.evaluate_boolean(context, &mut env, budget)?)
    }

    pub(super) fn string_of(&mut self, select: &'d Expression) -> Ran<Cow<'d, str>> {
        let budget = self.world.budget;
        let (context, mut env) = self.env();
        Ok(select.evaluate_string(context, &mut env, budget)?)
    }

    pub(super) fn value(&mut self, select: &'d Expression) -> Ran<Value<'d>> {
        let budget = self.world.budget;
        let (context, mut env) = self.env();
        Ok(select.evaluate(context, &mut env, budget)?)
    }

    pub(super) fn nodes(&mut self, select: &'d Expression) -> Ran<Vec<Item<'d>>> {
        let budget = self.world.budget;
        let (context, mut env) = self.env();
        Ok(select.select(context, &mut env, budget)?.into_items())
    }

    pub(super) fn avt(&mut self, template: &'d Avt) -> Ran<String> {
        match template {
            Avt::Text(text) => Ok(text.clone()),
            Avt::Expression(expression) => Ok(self.string(expression)?.into_owned()),
            Avt::Parts(parts) => {
                let mut out = String::new();
                for part in parts {
                    match part {
                        Avt::Text(text) => out.push_str(text),
                        Avt::Expression(expression) => out.push_str(&self.string(expression)?),
                        Avt::Parts(_) => {}
                    }
                }
                Ok(out)
            }
        }
    }

    fn set(&mut self, slot: u32, value: Value<'d>) -> Ran {
        self.count(&value)?;
        let at = self.now.base.saturating_add(slot as usize);
        match self.locals.get_mut(at) {
            Some(place) => *place = value,
            None => return Err("the program lacks room for a variable".into()),
        }
        Ok(())
    }

    fn pass(&mut self, name: u32, value: Value<'d>) -> Ran {
        self.count(&value)?;
        if let Some(passing) = self.passing.last_mut() {
            passing.push((name, value));
        }
        Ok(())
    }

    /// Strings and node-sets in variables take memory as output does.
    fn count(&mut self, value: &Value<'d>) -> Ran {
        match value {
            Value::String(text) => self.world.made(text.len()),
            Value::NodeSet(nodes) => self.world.made(nodes.len().saturating_mul(8)),
            Value::Number(_) | Value::Boolean(_) => Ok(()),
        }
    }

    pub(super) fn take_passed(&mut self, passes: bool) -> Passed<'d> {
        if passes { self.passing.pop().map(Rc::new) } else { None }
    }
}

/// Templates and loops inside one another that most runs don't exceed.
const FRAMES: usize = 16;
