//! Templates and loops: entering them, going from node to node, and returning.

use xml::{Kind, Node};
use xpath::{Context, Item};

use super::environment::Env;
use super::machine::{Frame, Machine, Passed};
use super::{RunResult, State};
use crate::error::ErrorKind;
use crate::knock_out::is_out;
use crate::limits;
use crate::program::{ApplyOp, LoopOp};
use crate::rules::{Candidates, Known};

impl<'d> Machine<'_, 'd> {
    pub(super) fn apply(&mut self, op: &'d ApplyOp) -> RunResult {
        let passed = self.take_passed(op.passes);
        let mut items = match &op.select {
            Some(select) => self.selected(select)?,
            None => self.children(self.registers.context.item)?,
        };
        self.sort(&mut items, &op.sorts)?;
        self.apply_items(items, op.mode, passed)
    }

    pub(super) fn apply_items(
        &mut self,
        items: Vec<Item<'d>>,
        mode: u32,
        passed: Passed<'d>,
    ) -> RunResult {
        if items.is_empty() {
            return Ok(());
        }
        let back = self.registers.clone();
        self.push(Frame::Apply { back, items, next: 0, mode, passed })?;
        self.next_item()
    }

    /// The end of a template.
    pub(super) fn return_from_template(&mut self) -> RunResult {
        match self.frames.last() {
            Some(Frame::Apply { .. }) => self.next_item(),
            Some(Frame::Call(_)) => {
                if let Some(Frame::Call(back)) = self.frames.pop() {
                    self.locals.truncate(self.registers.base);
                    self.registers = back;
                }
                Ok(())
            }
            Some(Frame::Loop { .. }) | None => Err("internal error: nothing to return to".into()),
        }
    }

    /// Finds the rule for the next node. Nodes that only have built-in rules are handled here.
    pub(super) fn next_item(&mut self) -> RunResult {
        loop {
            self.state.charge_steps(1)?;
            let Some(Frame::Apply { items, next, mode, passed, .. }) = self.frames.last_mut()
            else {
                return Ok(());
            };
            let base = if *next == 0 { usize::MAX } else { self.registers.base };
            self.locals.truncate(self.locals.len().min(base));
            let Some(item) = items.get(*next).copied() else {
                if let Some(Frame::Apply { back, items, .. }) = self.frames.pop() {
                    self.registers = back;
                    self.recycle(items);
                    if !self.in_built_in_rule() {
                        return Ok(());
                    }
                }
                continue;
            };
            *next = next.saturating_add(1);
            self.registers.base = self.locals.len();
            self.registers.context = Context { item, position: *next, size: items.len() };
            self.registers.mode = *mode;
            self.registers.passed.clone_from(passed);
            let mode = *mode;
            if self.enter_rule(item, mode, None)? {
                return Ok(());
            }
            if let Some(items) = self.built_in(item)? {
                let mut back = self.registers.clone();
                back.pc = BUILT_IN;
                self.push(Frame::Apply { back, items, next: 0, mode, passed: None })?;
            }
        }
    }

    /// Whether the run has returned to a built-in rule, which ends there.
    fn in_built_in_rule(&self) -> bool {
        self.registers.pc == BUILT_IN
    }

    /// Enters the best rule for a node; `range` limits the precedences for `xsl:apply-imports`.
    fn enter_rule(
        &mut self,
        item: Item<'d>,
        mode: u32,
        range: Option<(u32, u32)>,
    ) -> RunResult<bool> {
        let Some(template) = self.state.rule(item, mode, range)? else { return Ok(false) };
        let Some(found) = self.state.program.templates.get(template) else { return Ok(false) };
        self.registers.rule = Some(template);
        self.enter_block(found.block)?;
        self.registers.pc = found.block.start;
        Ok(true)
    }

    /// Applies the built-in rule, section 5.8. Returns the nodes to continue with.
    fn built_in(&mut self, item: Item<'d>) -> RunResult<Option<Vec<Item<'d>>>> {
        match item.kind() {
            Kind::Root if is_out(&["built-in rule of the root"]) => Ok(None),
            Kind::Element if is_out(&["built-in rule of elements"]) => Ok(None),
            Kind::Text if is_out(&["built-in rule of text"]) => Ok(None),
            Kind::Attribute if is_out(&["built-in rule of attributes"]) => Ok(None),
            Kind::Root | Kind::Element => self.children(item).map(Some),
            Kind::Text | Kind::Attribute => {
                self.text(&item.string_value())?;
                Ok(None)
            }
            Kind::Comment | Kind::ProcessingInstruction | Kind::Namespace => Ok(None),
        }
    }

    fn children(&mut self, item: Item<'d>) -> RunResult<Vec<Item<'d>>> {
        let mut items = self.list();
        items.extend(item.node().into_iter().flat_map(Node::children).map(Item::from));
        self.state.charge_steps(items.len())?;
        Ok(items)
    }

    /// `xsl:apply-imports` (section 5.6).
    pub(super) fn apply_imports(&mut self) -> RunResult {
        let Some(template) = self.registers.rule else {
            return Err("`xsl:apply-imports` requires a current template rule".into());
        };
        let found = self.state.program.templates.get(template);
        let range = found.map(|template| template.imports);
        let (item, mode) = (self.registers.context.item, self.registers.mode);
        let back = self.registers.clone();
        self.push(Frame::Call(back))?;
        self.registers.passed = None;
        if self.enter_rule(item, mode, range)? {
            return Ok(());
        }
        self.registers.base = self.locals.len();
        self.return_from_template()?;
        match self.built_in(item)? {
            Some(items) => self.apply_items(items, mode, None),
            None => Ok(()),
        }
    }

    pub(super) fn for_each(&mut self, each: &'d LoopOp) -> RunResult {
        let mut items = self.selected(&each.select)?;
        self.sort(&mut items, &each.sorts)?;
        if items.is_empty() {
            self.registers.pc = each.end;
            return Ok(());
        }
        let body = self.registers.pc;
        let (context, rule) = (self.registers.context, self.registers.rule.take());
        self.push(Frame::Loop { items, next: 0, body, context, rule })?;
        self.next()
    }

    /// Continues with the next node of a loop, or leaves it.
    pub(super) fn next(&mut self) -> RunResult {
        let Some(Frame::Loop { items, next, body, context, rule }) = self.frames.last_mut() else {
            return Err("internal error: no loop to continue".into());
        };
        if let Some(item) = items.get(*next).copied() {
            *next = next.saturating_add(1);
            self.registers.context = Context { item, position: *next, size: items.len() };
            self.registers.pc = *body;
            return Ok(());
        }
        (self.registers.context, self.registers.rule) = (*context, *rule);
        if let Some(Frame::Loop { items, .. }) = self.frames.pop() {
            self.recycle(items);
        }
        Ok(())
    }

    pub(super) fn push(&mut self, frame: Frame<'d>) -> RunResult {
        if self.frames.len() >= limits::XSLT_DEPTH_MAX {
            let max = limits::XSLT_DEPTH_MAX;
            let message =
                format!("more than {max} templates and loops are active; infinite recursion?");
            return Err(super::RunError::new(ErrorKind::Limit, message));
        }
        self.frames.push(frame);
        Ok(())
    }
}

/// The address that a built-in rule returns to.
const BUILT_IN: usize = usize::MAX;

impl<'d> State<'d> {
    /// The template of the best rule that matches: section 5.5.
    fn rule(
        &mut self,
        item: Item<'d>,
        mode: u32,
        range: Option<(u32, u32)>,
    ) -> Result<Option<usize>, xpath::Error> {
        let Some(candidates) = self.candidates(item, mode) else { return Ok(None) };
        let (program, budget) = (self.program, self.budget);
        for number in program.modes.rules(mode, candidates) {
            let Some(rule) = program.rules.get(number as usize) else { continue };
            let outside = range.is_some_and(|(low, high)| !(low..high).contains(&rule.precedence));
            if !outside && rule.always {
                return Ok(Some(rule.template));
            }
            budget.charge_steps(1)?;
            if outside {
                continue;
            }
            let mut env = Env { state: self, locals: &[], current: item };
            if rule.pattern.matches(item, &mut env, budget)? {
                return Ok(Some(rule.template));
            }
        }
        Ok(None)
    }

    fn candidates(&mut self, item: Item<'d>, mode: u32) -> Option<Candidates> {
        let node = item.node()?;
        let named = matches!(node.kind(), Kind::Element | Kind::Attribute);
        let document = self.source.document();
        let names = document.names_len().saturating_mul(2);
        let size = names.saturating_mul(self.program.modes.len());
        if !named || !std::ptr::eq(node.document(), document) || size > limits::XSLT_RULE_TABLE_MAX
        {
            return self.program.modes.candidates(mode, node);
        }
        // A name may be both an element's and an attribute's.
        let is_attribute = node.kind() == Kind::Attribute;
        let at = node.name().index().saturating_mul(2).saturating_add(usize::from(is_attribute));
        let known = self.candidates.get(mode as usize).and_then(|all| all.get(at));
        if let Some(candidates) = known.and_then(|known| known.candidates(is_attribute)) {
            return Some(candidates);
        }
        let candidates = self.program.modes.candidates(mode, node)?;
        let modes = self.candidates.len().max((mode as usize).saturating_add(1));
        self.candidates.resize(modes, Vec::new());
        if let Some(all) = self.candidates.get_mut(mode as usize) {
            if all.is_empty() {
                all.resize(names, Known::default());
            }
            if let Some(slot) = all.get_mut(at) {
                *slot = Known::of(candidates);
            }
        }
        Some(candidates)
    }
}
