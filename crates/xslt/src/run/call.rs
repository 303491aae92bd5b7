//! Templates and loops: entering them, going from node to node, and coming back.

use xml::{Kind, Node};
use xpath::{Context, Item};

use super::environment::Env;
use super::machine::{Frame, Machine, Passed};
use super::{Ran, UNASKED, World};
use crate::is_out;
use crate::program::{ApplyOp, LoopOp};

impl<'d> Machine<'_, 'd> {
    pub(super) fn apply(&mut self, op: &'d ApplyOp) -> Ran {
        let passed = self.take_passed(op.passes);
        let mut items = match &op.select {
            Some(select) => self.selected(select)?,
            None => self.children(self.now.context.item),
        };
        self.sort(&mut items, &op.sorts)?;
        self.apply_items(items, op.mode, passed)
    }

    pub(super) fn apply_items(
        &mut self,
        items: Vec<Item<'d>>,
        mode: u32,
        passed: Passed<'d>,
    ) -> Ran {
        if items.is_empty() {
            return Ok(());
        }
        self.push(Frame::Apply { back: self.now.clone(), items, next: 0, mode, passed })?;
        self.next_item()
    }

    /// The end of a template.
    pub(super) fn back(&mut self) -> Ran {
        match self.frames.last() {
            Some(Frame::Apply { .. }) => self.next_item(),
            Some(Frame::Call(_)) => {
                if let Some(Frame::Call(back)) = self.frames.pop() {
                    self.locals.truncate(self.now.base);
                    self.now = back;
                }
                Ok(())
            }
            Some(Frame::Loop { .. }) | None => Err("the program returns from nowhere".into()),
        }
    }

    /// Finds the rule for the next node; those that only have built-in rules are done here.
    pub(super) fn next_item(&mut self) -> Ran {
        loop {
            let Some(Frame::Apply { back, items, next, mode, passed }) = self.frames.last_mut()
            else {
                return Ok(());
            };
            let floor = self.locals.len().min(if *next == 0 { usize::MAX } else { self.now.base });
            self.locals.truncate(floor);
            let Some(item) = items.get(*next).copied() else {
                if let Some(Frame::Apply { back, items, .. }) = self.frames.pop() {
                    self.now = back;
                    self.spare(items);
                    if !self.in_builtin() {
                        return Ok(());
                    }
                }
                continue;
            };
            *next = next.saturating_add(1);
            let _ = back;
            self.now.base = self.locals.len();
            self.now.context = Context { item, position: *next, size: items.len() };
            self.now.mode = *mode;
            self.now.passed.clone_from(passed);
            let mode = *mode;
            if self.enter_rule(item, mode, None)? {
                return Ok(());
            }
            if let Some(items) = self.built_in(item)? {
                let mut back = self.now.clone();
                back.pc = BUILT_IN;
                self.push(Frame::Apply { back, items, next: 0, mode, passed: None })?;
            }
        }
    }

    /// Whether the run came back to a built-in rule, which is over then.
    fn in_builtin(&self) -> bool {
        self.now.pc == BUILT_IN
    }

    /// Enters the best rule for a node; `range` bounds the precedences for `apply-imports`.
    fn enter_rule(&mut self, item: Item<'d>, mode: u32, range: Option<(u32, u32)>) -> Ran<bool> {
        let Some(template) = self.world.rule(item, mode, range)? else { return Ok(false) };
        let Some(found) = self.world.program.templates.get(template) else { return Ok(false) };
        self.now.rule = Some(template);
        self.enter_block(found.block);
        self.now.pc = found.block.start;
        Ok(true)
    }

    /// Section 5.8. Answers the nodes to go on with.
    fn built_in(&mut self, item: Item<'d>) -> Ran<Option<Vec<Item<'d>>>> {
        match item.kind() {
            Kind::Root if is_out(&["built-in rule of the root"]) => Ok(None),
            Kind::Element if is_out(&["built-in rule of elements"]) => Ok(None),
            Kind::Text if is_out(&["built-in rule of text"]) => Ok(None),
            Kind::Attribute if is_out(&["built-in rule of attributes"]) => Ok(None),
            Kind::Root | Kind::Element => Ok(Some(self.children(item))),
            Kind::Text | Kind::Attribute => {
                self.text(&item.string_value())?;
                Ok(None)
            }
            Kind::Comment | Kind::ProcessingInstruction | Kind::Namespace => Ok(None),
        }
    }

    fn children(&mut self, item: Item<'d>) -> Vec<Item<'d>> {
        let mut items = self.list();
        items.extend(item.node().into_iter().flat_map(Node::children).map(Item::from));
        items
    }

    /// Section 5.6.
    pub(super) fn apply_imports(&mut self) -> Ran {
        let Some(template) = self.now.rule else {
            return Err("xsl:apply-imports needs a current template rule, and there is none".into());
        };
        let found = self.world.program.templates.get(template);
        let range = found.map(|template| template.imports);
        let (item, mode) = (self.now.context.item, self.now.mode);
        let back = self.now.clone();
        self.push(Frame::Call(back))?;
        self.now.passed = None;
        if self.enter_rule(item, mode, range)? {
            return Ok(());
        }
        self.now.base = self.locals.len();
        self.back()?;
        match self.built_in(item)? {
            Some(items) => self.apply_items(items, mode, None),
            None => Ok(()),
        }
    }

    pub(super) fn for_each(&mut self, each: &'d LoopOp) -> Ran {
        let mut items = self.selected(&each.select)?;
        self.sort(&mut items, &each.sorts)?;
        if items.is_empty() {
            self.now.pc = each.end;
            return Ok(());
        }
        let body = self.now.pc;
        let (context, rule) = (self.now.context, self.now.rule.take());
        self.push(Frame::Loop { items, next: 0, body, context, rule })?;
        self.next()
    }

    /// The next node of a loop, or out of it.
    pub(super) fn next(&mut self) -> Ran {
        let Some(Frame::Loop { items, next, body, context, rule }) = self.frames.last_mut() else {
            return Err("the program repeats nothing".into());
        };
        if let Some(item) = items.get(*next).copied() {
            *next = next.saturating_add(1);
            self.now.context = Context { item, position: *next, size: items.len() };
            self.now.pc = *body;
            return Ok(());
        }
        (self.now.context, self.now.rule) = (*context, *rule);
        if let Some(Frame::Loop { items, .. }) = self.frames.pop() {
            self.spare(items);
        }
        Ok(())
    }
}

/// The address that a built-in rule comes back to.
const BUILT_IN: usize = usize::MAX;

impl<'d> World<'d> {
    /// The template of the best rule that matches: section 5.5.
    fn rule(
        &mut self,
        item: Item<'d>,
        mode: u32,
        range: Option<(u32, u32)>,
    ) -> Result<Option<usize>, xpath::EvalError> {
        let Some(list) = self.list(item, mode) else { return Ok(None) };
        let (program, budget) = (self.program, self.budget);
        for number in program.modes.list(mode, list) {
            let Some(rule) = program.rules.get(*number as usize) else { continue };
            if range.is_some_and(|(low, high)| rule.precedence < low || rule.precedence >= high) {
                continue;
            }
            if rule.always {
                return Ok(Some(rule.template));
            }
            let mut env = Env { world: self, locals: &[], current: item };
            if rule.pattern.matches(item, &mut env, budget)? {
                return Ok(Some(rule.template));
            }
        }
        Ok(None)
    }

    fn list(&mut self, item: Item<'d>, mode: u32) -> Option<u32> {
        let node = item.node()?;
        let named = matches!(node.kind(), Kind::Element | Kind::Attribute);
        if !named || !std::ptr::eq(node.document(), self.source.document()) {
            return self.program.modes.list_of(mode, node);
        }
        // A name may be both an element's and an attribute's.
        let place = node.name().index().saturating_mul(2);
        let place = place.saturating_add(usize::from(node.kind() == Kind::Attribute));
        let known = self.lists.get(mode as usize).and_then(|lists| lists.get(place)).copied();
        if let Some(list) = known.filter(|list| *list != UNASKED) {
            return Some(list);
        }
        let list = self.program.modes.list_of(mode, node)?;
        let modes = self.lists.len().max((mode as usize).saturating_add(1));
        self.lists.resize(modes, Vec::new());
        if let Some(lists) = self.lists.get_mut(mode as usize) {
            if lists.is_empty() {
                lists.resize(self.source.document().names_len().saturating_mul(2), UNASKED);
            }
            if let Some(slot) = lists.get_mut(place) {
                *slot = list;
            }
        }
        Some(list)
    }
}
