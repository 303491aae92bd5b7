//! Selections and sort keys, variables and parameters.

use std::collections::HashSet;

use xml::{Kind, Node};

use super::instruction::is_kept;
use super::{Compiled, Compiler};
use crate::collation;
use crate::error::Place;
use crate::load::{XSL, attribute, is_xsl};
use crate::program::{ApplyOp, Avt, LoopOp, Op, Sort};

impl<'t> Compiler<'t> {
    pub(super) fn for_each(&mut self, node: Node<'t>) -> Compiled {
        let select = self.selection(node, "select")?;
        let sorts = self.sorts(node)?;
        let jump = self.emit(Op::ForEach(Box::new(LoopOp { select, sorts, end: 0 })));
        self.sequence(node, &["sort"])?;
        self.emit(Op::Next);
        self.set_target(jump);
        Ok(())
    }

    fn sorts(&mut self, node: Node<'t>) -> Compiled<Vec<Sort>> {
        let mut sorts = Vec::new();
        for sort in node.children().filter(|child| is_xsl(*child, "sort")) {
            self.check_attributes(sort)?;
            self.check_empty(sort)?;
            let select = match attribute(sort, "select") {
                Some(_) => Some(self.expression(sort, "select")?),
                None => None,
            };
            let avt = |name: &str, default: &str| {
                self.avt(sort, name, attribute(sort, name).unwrap_or(default))
            };
            let lang = avt("lang", "")?;
            if let Avt::Text(tag) = &lang
                && !tag.is_empty()
            {
                collation::language(tag).map_err(|message| self.invalid(sort, message))?;
            }
            sorts.push(Sort {
                select,
                data_type: avt("data-type", "text")?,
                order: avt("order", "ascending")?,
                case_order: avt("case-order", "")?,
                lang,
            });
        }
        Ok(sorts)
    }

    pub(super) fn apply(&mut self, node: Node<'t>) -> Compiled {
        let select = match attribute(node, "select") {
            Some(_) => Some(self.selection(node, "select")?),
            None => None,
        };
        let mode = match self.optional_name(node, "mode")? {
            Some(mode) => self.mode(mode),
            None => 0,
        };
        let sorts = self.sorts(node)?;
        let passes = self.with_params(node, &["sort", "with-param"])?;
        self.emit(Op::Apply(Box::new(ApplyOp { select, mode, sorts, passes })));
        Ok(())
    }

    pub(super) fn call(&mut self, node: Node<'t>) -> Compiled {
        let name = self.expanded(node, "name")?;
        let Some((template, _)) = self.named.get(&name).copied() else {
            return Err(self.invalid(node, format!("unknown template `{name}`")));
        };
        let passes = self.with_params(node, &["with-param"])?;
        self.emit(Op::Call { template, passes });
        Ok(())
    }

    fn with_params(&mut self, node: Node<'t>, allowed: &[&str]) -> Compiled<bool> {
        let place = self.place;
        let mut seen = HashSet::new();
        for child in node.children() {
            let text = child.kind() == Kind::Text && !child.text().trim().is_empty();
            let known = child.namespace() == XSL && allowed.contains(&child.local_name());
            if text || (child.is_element() && !known) {
                let message = format!("not allowed in `xsl:{}`", node.local_name());
                return Err(self.invalid(child, message));
            }
            if !is_xsl(child, "with-param") {
                continue;
            }
            if seen.is_empty() {
                self.emit(Op::BeginPass);
            }
            self.check_attributes(child)?;
            self.place = Place::of(child);
            let name = self.expanded(child, "name")?;
            let number = self.param_number(name);
            if !seen.insert(number) {
                return Err(self.invalid(child, "this parameter is passed twice"));
            }
            if attribute(child, "select").is_some() {
                self.check_empty(child)?;
                let select = self.expression(child, "select")?;
                self.emit(Op::Pass(number, select));
            } else if child.first_child().is_none() {
                self.emit(Op::PassText(number, String::new()));
            } else {
                self.emit(Op::Build);
                self.sequence(child, &[])?;
                self.emit(Op::EndBuildPass(number));
            }
        }
        self.place = place;
        Ok(!seen.is_empty())
    }

    fn new_slot(&mut self) -> u32 {
        let slot = self.slots;
        self.slots = self.slots.saturating_add(1);
        slot
    }

    pub(super) fn variable(&mut self, node: Node<'t>) -> Compiled {
        let name = self.expanded(node, "name")?;
        let slot = self.new_slot();
        self.bind(node, slot)?;
        if !self.locals.add(name.clone(), slot) {
            let message = format!("a variable `{name}` is in scope already (section 11.5)");
            return Err(self.invalid(node, message));
        }
        Ok(())
    }

    /// Puts the value of a variable or parameter into a slot.
    pub(super) fn bind(&mut self, node: Node<'t>, slot: u32) -> Compiled {
        if attribute(node, "select").is_some() {
            self.check_empty(node)?;
            let select = self.expression(node, "select")?;
            self.emit(Op::Set(slot, select));
        } else if node.first_child().is_none() {
            self.emit(Op::SetText(slot, String::new()));
        } else {
            self.emit(Op::Build);
            self.sequence(node, &[])?;
            self.emit(Op::EndBuild(slot));
        }
        Ok(())
    }

    /// The parameters at the head of a template.
    pub(super) fn head_params(&mut self, template: Node<'t>) -> Compiled {
        for node in template.children() {
            if node.is_element() && !is_xsl(node, "param") {
                return Ok(());
            }
            if !node.is_element() {
                if node.kind() == Kind::Text && is_kept(node) {
                    return Ok(());
                }
                continue;
            }
            self.place = Place::of(node);
            self.check_attributes(node)?;
            let expanded = self.expanded(node, "name")?;
            let slot = self.new_slot();
            let name = self.param_number(expanded.clone());
            let jump = self.emit(Op::Param { name, slot, end: 0 });
            self.bind(node, slot)?;
            self.set_target(jump);
            if !self.locals.add(expanded.clone(), slot) {
                let message = format!("the parameter `{expanded}` is declared twice");
                return Err(self.invalid(node, message));
            }
        }
        Ok(())
    }
}
