//! Literal elements that are spelt when the sheet is compiled: section 7.1.1. A run of operations that
//! makes whole elements, with nothing in them but text and values, gets one operation that stands for it.
//! The run stays, since how it is spelt depends on what is around it.

use std::collections::HashSet;

use xml::PreparedMarkupBuilder;

use super::Compiler;
use crate::program::{Avt, Op, StampOp};

/// Longest run, in operations.
const RUN_MAX: usize = 1_000;

impl Compiler<'_> {
    pub(super) fn stamp_all(&mut self) {
        let targets = self.targets();
        let mut at = 0usize;
        while at < self.ops.len() {
            let next = at.saturating_add(1);
            let Some(Op::Literal(literal)) = self.ops.get(at) else {
                at = next;
                continue;
            };
            // Where its declarations aren't in scope yet it is started on its own; what is in it can be
            // stamped still.
            let declares = !literal.namespaces.is_empty();
            match self.stamp_at(at, &targets) {
                Some(end) => at = if declares { next } else { end },
                None => at = next,
            }
        }
    }

    /// Addresses that a run can come to from elsewhere.
    fn targets(&self) -> HashSet<usize> {
        let mut found: HashSet<usize> = HashSet::new();
        found.extend(self.templates.iter().map(|template| template.block.start));
        found.extend(self.globals.iter().map(|global| global.block.start));
        found.extend(self.sets.iter().map(|set| set.start));
        found.extend(self.ops.iter().filter_map(Op::target));
        found
    }

    /// Puts a stamp at `start`, where a literal element begins; answers where it ends.
    fn stamp_at(&mut self, start: usize, targets: &HashSet<usize>) -> Option<usize> {
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
                holes.extend(fixed.is_none().then_some(at));
            } else if let Op::Text(text) = op {
                builder.text(text);
            } else if matches!(op, Op::ValueOf { .. }) {
                builder.text_placeholder();
                holes.push(at);
            } else {
                builder.end_element();
            }
        }
        let stamp = builder.finish()?;
        let op = self.ops.get_mut(start)?;
        if let Op::Literal(literal) = op {
            let literal = std::mem::take(&mut **literal);
            *op = Op::Stamp(Box::new(StampOp { literal, stamp, holes, end }));
        }
        Some(end)
    }

    /// Behind the element that begins at `start`, when it is straight.
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
