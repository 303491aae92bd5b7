//! `xsl:number`: section 7.7. Counts are cached, so that numbering all nodes of a document takes linear time.

use xml::{Kind, Node};
use xpath::{Item, Pattern};

use super::environment::Env;
use super::machine::Machine;
use super::{RunError, RunResult};
use crate::error::ErrorKind;
use crate::numbering::{self, LetterValue, Number, Style};
use crate::program::{Level, NumberOp};

impl<'d> Machine<'_, 'd> {
    pub(super) fn number(&mut self, op: &'d NumberOp) -> RunResult {
        let numbers = match &op.value {
            Some(value) => {
                let budget = self.state.budget;
                let (context, mut env) = self.env();
                let value = value.evaluate_number(context, &mut env, budget)?;
                let rounded = xpath::round(value);
                if !rounded.is_finite() || rounded < 1.0 {
                    // Erratum 24: such a number is formatted as by string().
                    return self.text(&xpath::number_to_string(value));
                }
                vec![Number::Rounded(rounded)]
            }
            None => self.counted(op)?.into_iter().map(Number::Count).collect(),
        };
        let text = self.formatted(op, &numbers)?;
        self.text(&text)
    }

    fn counted(&mut self, op: &'d NumberOp) -> RunResult<Vec<u64>> {
        match op.level {
            Level::Any => Ok(vec![self.any_level(op)?]),
            Level::Single => self.levels(op, 1),
            Level::Multiple => {
                let mut numbers = self.levels(op, usize::MAX)?;
                numbers.reverse();
                Ok(numbers)
            }
        }
    }

    /// The counts of the nearest `max` nodes that are counted, from the current one upwards.
    fn levels(&mut self, op: &'d NumberOp, max: usize) -> RunResult<Vec<u64>> {
        let start = self.registers.context.item;
        let mut numbers = Vec::new();
        let mut next = Some(start);
        while let Some(item) = next {
            self.state.charge_steps(1)?;
            if item != start && self.matches(op.from.as_ref(), item)? {
                break;
            }
            if self.is_counted(op, item)? {
                numbers.push(self.among_siblings(op, item)?);
                if numbers.len() >= max {
                    break;
                }
            }
            next = item.parent();
        }
        Ok(numbers)
    }

    fn among_siblings(&mut self, op: &'d NumberOp, item: Item<'d>) -> RunResult<u64> {
        if let Some(known) = self.cached(op, item) {
            return Ok(known);
        }
        let mut count = 1u64;
        let mut next = item.node().and_then(Node::previous_sibling);
        while let Some(node) = next {
            self.state.charge_steps(1)?;
            let before = Item::from(node);
            if self.is_counted(op, before)? {
                if let Some(known) = self.cached(op, before) {
                    count = count.saturating_add(known);
                    break;
                }
                count = count.saturating_add(1);
            }
            next = node.previous_sibling();
        }
        self.cache(op, item, count)?;
        Ok(count)
    }

    fn any_level(&mut self, op: &'d NumberOp) -> RunResult<u64> {
        let start = self.registers.context.item;
        let mut found: Option<Item<'d>> = None;
        let mut count = 0u64;
        let mut next = Some(start);
        while let Some(item) = next {
            self.state.charge_steps(1)?;
            if item != start && self.matches(op.from.as_ref(), item)? {
                break;
            }
            let is_counted = self.is_counted(op, item)?;
            // Without `count`, the current node determines the nodes to count, so other nodes have no count.
            if (is_counted || op.count.is_some())
                && let Some(known) = self.cached(op, item)
            {
                count = count.saturating_add(known);
                break;
            }
            if is_counted {
                count = count.saturating_add(1);
                found = found.or(Some(item));
            }
            next = self.before(item)?;
        }
        if let Some(item) = found {
            self.cache(op, item, count)?;
        }
        // Later nodes need not walk back to the last counted node.
        if op.count.is_some() && found != Some(start) {
            self.cache(op, start, count)?;
        }
        Ok(count)
    }

    /// The preceding node in document order, attributes and namespaces excluded.
    fn before(&mut self, item: Item<'d>) -> RunResult<Option<Item<'d>>> {
        let Some(node) = item.node().filter(|node| node.kind() != Kind::Attribute) else {
            return Ok(item.parent());
        };
        let Some(mut last) = node.previous_sibling() else { return Ok(item.parent()) };
        while let Some(child) = last.last_child() {
            self.state.charge_steps(1)?;
            last = child;
        }
        Ok(Some(last.into()))
    }

    fn cached(&self, op: &NumberOp, item: Item<'d>) -> Option<u64> {
        self.state.counts.get(&(op.id, item)).copied()
    }

    fn cache(&mut self, op: &NumberOp, item: Item<'d>, count: u64) -> RunResult {
        if op.is_cached {
            self.state.charge_memory(size_of::<((usize, Item<'_>), u64)>())?;
            self.state.counts.insert((op.id, item), count);
        }
        Ok(())
    }

    /// Whether a node is counted. Without `count`, nodes of the same kind and name as the current one are.
    fn is_counted(&mut self, op: &'d NumberOp, item: Item<'d>) -> RunResult<bool> {
        if op.count.is_some() {
            return self.matches(op.count.as_ref(), item);
        }
        let current = self.registers.context.item;
        Ok(item.kind() == current.kind()
            && item.local_name() == current.local_name()
            && item.namespace_uri() == current.namespace_uri())
    }

    fn matches(&mut self, pattern: Option<&'d Pattern>, item: Item<'d>) -> RunResult<bool> {
        let Some(pattern) = pattern else { return Ok(false) };
        let current = self.registers.context.item;
        let budget = self.state.budget;
        let (_, env) = self.env();
        let mut env = Env { current, ..env };
        Ok(pattern.matches(item, &mut env, budget)?)
    }

    fn formatted(&mut self, op: &'d NumberOp, numbers: &[Number]) -> RunResult<String> {
        let mut text = |part: &'d Option<_>| part.as_ref().map(|part| self.avt(part)).transpose();
        let picture = text(&op.format)?.unwrap_or_else(|| "1".to_owned());
        let letters = match text(&op.letter_value)?.as_deref() {
            None => LetterValue::Unspecified,
            Some("alphabetic") => LetterValue::Alphabetic,
            Some("traditional") => LetterValue::Traditional,
            Some(other) => return Err(format!("unknown letter-value `{other}`").into()),
        };
        if let Some(language) = text(&op.lang)?
            && !numbering::is_supported_language(&language, &picture)
        {
            let message = format!("`{picture}` is not supported for the language `{language}`");
            return Err(RunError::new(ErrorKind::Unsupported, message));
        }
        let (separator, size) = (text(&op.separator)?, text(&op.size)?);
        let grouping = match (separator.as_deref(), size) {
            (Some(separator), Some(size)) => Some((separator, group_size(&size)?)),
            (Some(_) | None, None) | (None, Some(_)) => None,
        };
        self.state.budget.charge_scanning(picture.len())?;
        let most = numbering::bytes_at_most(numbers.len(), &picture, grouping);
        self.state.charge_memory(most)?;
        // The caller charges its own use of the text.
        self.state.budget.release_memory(most.saturating_sub(picture.len()));
        Ok(numbering::format(numbers, Style { picture: &picture, letters, grouping }))
    }
}

fn group_size(text: &str) -> RunResult<usize> {
    let size = text.trim().parse().ok().filter(|size| *size > 0);
    size.ok_or_else(|| RunError::from(format!("`{text}` is not a valid grouping-size")))
}
