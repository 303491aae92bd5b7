//! Serialises literal elements when the stylesheet is compiled: section 7.1.1. A run of operations that writes
//! complete elements, which contain only text and values, is preceded by one operation that writes prebuilt markup.
//! The run is kept for output where the markup would be different.

use std::collections::HashSet;

use xml::PreparedMarkupBuilder;

use super::Compiler;
use crate::program::{Avt, Hole, MarkupOp, Op, Shortcut};

impl Hole {
    fn of(at: usize, op: &Op, before: &[Self]) -> Self {
        let select = if let Op::ValueOf { select, .. } = op {
            Some(select)
        } else if let Op::Attribute(parts) = op
            && let Avt::Expression(select) = &parts.1
        {
            Some(select)
        } else {
            None
        };
        let child = select.and_then(|select| {
            if let Shortcut::Child(name) = select.shortcut { Some(name) } else { None }
        });
        Self { op: at, child, is_new: before.iter().all(|hole| hole.child != child) }
    }
}

/// Longest run, in operations.
const RUN_MAX: usize = 1_000;

impl Compiler<'_> {
    pub(super) fn prebuild_markup(&mut self) {
        let targets = self.targets();
        let mut at = 0usize;
        while at < self.ops.len() {
            let next = at.saturating_add(1);
            let Some(Op::Literal(literal)) = self.ops.get(at) else {
                at = next;
                continue;
            };
            // If the declarations are not in scope at run time, the element is started on its own and its content can
            // still be prebuilt.
            let declares = !literal.namespaces.is_empty();
            match self.prebuild_at(at, &targets) {
                Some(end) => at = if declares { next } else { end },
                None => at = next,
            }
        }
    }

    /// Addresses that can be reached by a jump or a call.
    fn targets(&self) -> HashSet<usize> {
        let mut found: HashSet<usize> = HashSet::new();
        found.extend(self.templates.iter().map(|template| template.block.start));
        found.extend(self.globals.iter().map(|global| global.block.start));
        found.extend(self.sets.iter().map(|set| set.block.start));
        found.extend(self.ops.iter().filter_map(Op::target));
        found
    }

    /// Adds markup for the literal element that begins at `start`. Returns the address after its end.
    fn prebuild_at(&mut self, start: usize, targets: &HashSet<usize>) -> Option<usize> {
        let end = self.end_of_run(start, targets)?;
        let mut builder = PreparedMarkupBuilder::new(self.output.writer.encoding);
        let mut holes = Vec::new();
        for at in start..end {
            let op = self.ops.get(at)?;
            if let Op::Literal(literal) = op {
                builder.start_element(literal.name.as_ref());
                let named = !literal.name.namespace.is_empty();
                for (prefix, uri) in &literal.namespaces {
                    builder.namespace(prefix, uri, named);
                }
            } else if let Op::Attribute(parts) = op {
                let (name, value) = &**parts;
                let fixed = if let Avt::Text(value) = value { Some(value.as_str()) } else { None };
                builder.attribute(name.as_ref(), fixed);
                if fixed.is_none() {
                    holes.push(Hole::of(at, op, &holes));
                }
            } else if let Op::Text(text) = op {
                builder.text(text);
            } else if matches!(op, Op::ValueOf { .. }) {
                builder.text_placeholder();
                holes.push(Hole::of(at, op, &holes));
            } else {
                builder.end_element();
            }
        }
        let markup = builder.finish()?;
        let op = self.ops.get_mut(start)?;
        if let Op::Literal(literal) = op {
            let literal = std::mem::take(&mut **literal);
            *op = Op::Markup(Box::new(MarkupOp { literal, markup, holes, end }));
        }
        Some(end)
    }

    /// The address after the element that begins at `start`, if nothing in it branches.
    fn end_of_run(&self, start: usize, targets: &HashSet<usize>) -> Option<usize> {
        let mut depth = 0usize;
        for at in start..start.saturating_add(RUN_MAX) {
            if at > start && targets.contains(&at) {
                return None;
            }
            let op = self.ops.get(at)?;
            if matches!(op, Op::Literal(_)) {
                depth = depth.saturating_add(1);
            } else if matches!(op, Op::EndElement) {
                depth = depth.saturating_sub(1);
            } else if !matches!(op, Op::Attribute(_) | Op::Text(_) | Op::ValueOf { raw: false, .. })
            {
                return None;
            }
            if depth == 0 {
                return Some(at.saturating_add(1));
            }
        }
        None
    }
}
