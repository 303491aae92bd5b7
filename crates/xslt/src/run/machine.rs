//! The machine: where the run is, what waits for it, and one arm for each operation.

use std::borrow::Cow;
use std::rc::Rc;

use base::limits;
use xml::{Builder, Kind, Node};
use xpath::{Context, Expression, Item, NodeSet, Value};

use super::environment::Env;
use super::{Failure, Ran, World};
use crate::output::Output;
use crate::program::{Avt, Block, HALT, Literal, Op, ResultName, StampOp};

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
    copies: Vec<(Option<usize>, Node<'d>)>,
    /// The last is the one in use.
    outputs: Vec<Output>,
    output: Output,
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

    fn one(&mut self) -> Ran {
        let pc = self.now.pc;
        self.step(pc).map_err(|failure| match failure.place {
            Some(_) => failure,
            None => Failure { place: self.world.program.places.get(pc).cloned(), ..failure },
        })
    }

    pub(super) fn spend(&mut self) -> Ran {
        self.spend_many(1)
    }

    pub(super) fn spend_many(&mut self, steps: u64) -> Ran {
        match self.world.steps.checked_sub(steps) {
            Some(left) => {
                self.world.steps = left;
                Ok(())
            }
            None => {
                let most = self.world.program.limits.steps;
                Err(format!("the run was stopped after {most} steps").into())
            }
        }
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
        let (context, mut env) = self.env();
        Ok(test.evaluate_boolean(context, &mut env)?)
    }

    pub(super) fn string_of(&mut self, select: &'d Expression) -> Ran<Cow<'d, str>> {
        let (context, mut env) = self.env();
        Ok(select.evaluate_string(context, &mut env)?)
    }

    fn value(&mut self, select: &'d Expression) -> Ran<Value<'d>> {
        let (context, mut env) = self.env();
        Ok(select.evaluate(context, &mut env)?)
    }

    pub(super) fn nodes(&mut self, select: &'d Expression) -> Ran<Vec<Item<'d>>> {
        let (context, mut env) = self.env();
        Ok(select.select(context, &mut env)?.into_items())
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

    pub(super) fn text(&mut self, text: &str) -> Ran {
        self.world.made(text.len())?;
        self.output.text(text)?;
        Ok(())
    }

    fn start(&mut self, name: xml::QNameRef<'_>) -> Ran {
        self.count_start(name)?;
        self.output.start(name)?;
        Ok(())
    }

    fn count_start(&mut self, name: xml::QNameRef<'_>) -> Ran {
        self.world.made(name.local.len().saturating_mul(2).saturating_add(16))?;
        Ok(())
    }

    fn open(&mut self, output: Output) {
        self.outputs.push(std::mem::replace(&mut self.output, output));
    }

    fn close(&mut self) -> Ran<Output> {
        let outer = self.outputs.pop().ok_or("the program closes an output too many")?;
        Ok(std::mem::replace(&mut self.output, outer))
    }

    fn collected(&mut self) -> Ran<String> {
        match self.close()? {
            Output::Text(text) => Ok(text),
            Output::Writer(_)
            | Output::Html(_)
            | Output::Undecided(_)
            | Output::Tree(_)
            | Output::Plain(_) => Err("the program collects no text here".into()),
        }
    }

    fn built(&mut self) -> Ran<&'d xml::Document> {
        match self.close()? {
            Output::Tree(builder) => self.world.keep(builder.finish()),
            Output::Writer(_)
            | Output::Html(_)
            | Output::Undecided(_)
            | Output::Text(_)
            | Output::Plain(_) => Err("the program builds no fragment here".into()),
        }
    }

    fn fragment(&mut self) -> Ran<Value<'d>> {
        self.world.made(256)?;
        Ok(Value::NodeSet(NodeSet::from(self.built()?.root())))
    }

    fn copy_of(&mut self, select: &'d Expression) -> Ran {
        match self.value(select)? {
            Value::NodeSet(nodes) => {
                for item in &nodes {
                    let weight = item.node().map_or(0, |node| {
                        node.descendants().fold(16usize, |sum, below| {
                            sum.saturating_add(16).saturating_add(below.text().len())
                        })
                    });
                    self.world.made(weight)?;
                    self.may_declare(item);
                    self.output.copy(item)?;
                }
                Ok(())
            }
            other @ (Value::String(_) | Value::Number(_) | Value::Boolean(_)) => {
                self.text(&other.into_string())
            }
        }
    }

    /// Section 7.5.
    fn copy(&mut self, end: usize) -> Ran {
        let item = self.now.context.item;
        match (item.kind(), item.node()) {
            (Kind::Root, _) => {}
            (Kind::Element, Some(node)) => {
                let inherits = self.inherits(node);
                self.start_like(node)?;
                self.copies.push((self.output.depth(), node));
                if inherits {
                    for (prefix, uri) in node.declarations() {
                        if prefix == "xml" || uri.is_empty() {
                            continue;
                        }
                        self.output.namespace(prefix, uri)?;
                    }
                    return Ok(());
                }
                for (prefix, uri) in node.namespaces_in_scope() {
                    if prefix != "xml" {
                        self.output.namespace(prefix, uri)?;
                    }
                }
            }
            _ => {
                self.world.made(item.node().map_or(16, |node| node.text().len()))?;
                self.may_declare(item);
                self.output.copy(item)?;
                self.now.pc = end;
            }
        }
        Ok(())
    }

    /// Whether all namespaces that are in scope at a node, but those that it declares itself, are in
    /// scope where it is copied to: right in the copy of its parent.
    fn inherits(&self, node: Node<'d>) -> bool {
        let Some((within, above)) = self.copies.last() else { return false };
        let here = within.is_some() && *within == self.output.depth();
        here && node.parent() == Some(*above)
    }

    /// What isn't of the element that is being copied may bring declarations of its own into the copy.
    fn may_declare(&mut self, item: Item<'d>) {
        let named = match item.node() {
            Some(node) => node.kind() == Kind::Attribute && !node.namespace().is_empty(),
            None => true,
        };
        if named && let Some((depth, above)) = self.copies.last_mut() {
            let own = item.parent().and_then(Item::node) == Some(*above);
            *depth = depth.filter(|_| own);
        }
    }

    /// As [`Machine::may_declare`], of an attribute that is made.
    fn made_attribute(&mut self, name: xml::QNameRef<'_>, value: &str) -> Ran {
        if !name.namespace.is_empty()
            && let Some((depth, _)) = self.copies.last_mut()
        {
            *depth = None;
        }
        self.output.attribute(name, value)?;
        Ok(())
    }

    fn start_like(&mut self, node: Node<'d>) -> Ran {
        self.count_start(node.qname_ref())?;
        self.output.start_like(node)?;
        Ok(())
    }

    fn literal(&mut self, literal: &'d Literal) -> Ran {
        self.start(literal.name.as_ref())?;
        for (prefix, uri) in &literal.namespaces {
            self.output.namespace(prefix, uri)?;
        }
        Ok(())
    }

    /// Answers false where the elements have to be made one by one.
    fn stamp(&mut self, op: &'d StampOp) -> Ran<bool> {
        if !matches!(self.output, Output::Writer(_)) {
            return Ok(false);
        }
        let outside = Output::Text(String::new());
        let mut output = std::mem::replace(&mut self.output, outside);
        let Output::Writer(writer) = &mut output else { return Ok(false) };
        let mut holes = op.holes.iter();
        let stamped = writer.stamp(&op.stamp, || -> Ran<Cow<'d, str>> {
            match holes.next() {
                Some(hole) => self.fill(*hole),
                None => Err("the program has a hole too many".into()),
            }
        });
        self.output = output;
        let stamped = stamped?;
        if stamped {
            self.spend_many(op.holes.len() as u64)?;
            self.world.made(op.stamp.markup_bytes())?;
        }
        Ok(stamped)
    }

    /// What comes into a hole of a stamp.
    fn fill(&mut self, hole: usize) -> Ran<Cow<'d, str>> {
        let program = self.world.program;
        let text = match program.ops.get(hole) {
            Some(Op::ValueOf { select, .. }) => self.string(select),
            Some(Op::Attribute(parts)) => self.avt(&parts.1).map(Cow::Owned),
            Some(_) | None => Err("the program has a hole at the wrong place".into()),
        };
        let text = text.map_err(|failure| Failure {
            place: failure.place.or_else(|| program.places.get(hole).cloned()),
            ..failure
        })?;
        self.world.made(text.len())?;
        Ok(text)
    }

    fn element(&mut self, name: &'d ResultName) -> Ran {
        if let ResultName::Fixed(name) = name {
            return self.start(name.as_ref());
        }
        let (prefix, namespace, local) = self.made_name(name, true)?;
        self.start(xml::QNameRef::new(&prefix, &namespace, &local))
    }

    fn attribute(&mut self, name: &'d ResultName) -> Ran {
        let value = self.collected()?;
        self.world.made(value.len())?;
        if let ResultName::Fixed(name) = name {
            return self.made_attribute(name.as_ref(), &value);
        }
        let (prefix, namespace, local) = self.made_name(name, false)?;
        self.made_attribute(xml::QNameRef::new(&prefix, &namespace, &local), &value)
    }

    /// Sections 7.1.2 and 7.1.3: prefix, namespace and local name.
    fn made_name(&mut self, name: &'d ResultName, element: bool) -> Ran<(String, String, String)> {
        let ResultName::Made { name, namespace, scope } = name else {
            return Err("the program lacks a name".into());
        };
        let text = self.avt(name)?;
        let text = text.trim();
        let (prefix, local) = text.split_once(':').unwrap_or(("", text));
        if !element && text == "xmlns" {
            return Err("an attribute can't be named `xmlns`".into());
        }
        let uri = match namespace {
            Some(namespace) => self.avt(namespace)?,
            None if prefix.is_empty() && !element => String::new(),
            None => match scope.iter().find(|(known, _)| known == prefix) {
                Some((_, uri)) => uri.clone(),
                None if prefix.is_empty() => String::new(),
                None => return Err(format!("the prefix of `{text}` isn't declared here").into()),
            },
        };
        let good = xml::is_ncname(local) && (prefix.is_empty() || xml::is_ncname(prefix));
        if !good {
            return Err(format!("`{text}` isn't a name").into());
        }
        let prefix = if uri.is_empty() || prefix == "xmlns" { "" } else { prefix };
        Ok((prefix.to_owned(), uri, local.to_owned()))
    }
}

/// Templates and loops inside one another that most runs don't exceed.
const FRAMES: usize = 16;

/// What a comment or an instruction counts for, besides its text.
const NODE_BYTES: usize = 32;

/// Section 7.4: a space between hyphens, and behind one at the end.
fn hyphens_apart(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c == '-' && out.ends_with('-') {
            out.push(' ');
        }
        out.push(c);
    }
    if out.ends_with('-') {
        out.push(' ');
    }
    out
}
