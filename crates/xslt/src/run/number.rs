//! `xsl:number`: counting, section 7.7. What was counted up to a node is remembered, so that numbering all
//! nodes of a document takes time in proportion to it.

use xml::{Kind, Node};
use xpath::{Item, Pattern};

use super::environment::Env;
use super::machine::Machine;
use super::{Failure, Ran};
use crate::numbering::{self, LetterValue, Number, Style};
use crate::program::{Level, NumberOp};

impl<'d> Machine<'_, 'd> {
    pub(super) fn number(&mut self, op: &'d NumberOp) -> Ran {
        let numbers = match &op.value {
            Some(value) => {
                let budget = self.world.budget;
                let (context, mut env) = self.env();
                let value = value.evaluate_number(context, &mut env, budget)?;
                let rounded = xpath::round(value);
                if !rounded.is_finite() || rounded < 1.0 {
                    // Erratum 24: such a number is written as string() does.
                    return self.text(&xpath::number_to_string(value));
                }
                vec![Number::Rounded(rounded)]
            }
            None => self.counted(op)?.into_iter().map(Number::Count).collect(),
        };
        let text = self.spelt(op, &numbers)?;
        self.text(&text)
    }

    fn counted(&mut self, op: &'d NumberOp) -> Ran<Vec<u64>> {
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

    /// Of the nearest `most` nodes that count, from the current one upwards.
    fn levels(&mut self, op: &'d NumberOp, most: usize) -> Ran<Vec<u64>> {
        let start = self.now.context.item;
        let mut numbers = Vec::new();
        let mut next = Some(start);
        while let Some(item) = next {
            self.spend()?;
            if item != start && self.matches(op.from.as_ref(), item)? {
                break;
            }
            if self.counts(op, item)? {
                numbers.push(self.among_siblings(op, item)?);
                if numbers.len() >= most {
                    break;
                }
            }
            next = item.parent();
        }
        Ok(numbers)
    }

    fn among_siblings(&mut self, op: &'d NumberOp, item: Item<'d>) -> Ran<u64> {
        let mut count = 1u64;
        let mut next = item.node().and_then(Node::previous_sibling);
        while let Some(node) = next {
            self.spend()?;
            let before = Item::from(node);
            if self.counts(op, before)? {
                if let Some(known) = self.remembered(op, before) {
                    count = count.saturating_add(known);
                    break;
                }
                count = count.saturating_add(1);
            }
            next = node.previous_sibling();
        }
        self.remember(op, item, count)?;
        Ok(count)
    }

    fn any_level(&mut self, op: &'d NumberOp) -> Ran<u64> {
        let start = self.now.context.item;
        let mut found: Option<Item<'d>> = None;
        let mut count = 0u64;
        let mut next = Some(start);
        while let Some(item) = next {
            self.spend()?;
            if item != start && self.matches(op.from.as_ref(), item)? {
                break;
            }
            if self.counts(op, item)? {
                if let Some(known) = self.remembered(op, item) {
                    count = count.saturating_add(known);
                    break;
                }
                count = count.saturating_add(1);
                found = found.or(Some(item));
            }
            next = before(item);
        }
        if let Some(item) = found {
            self.remember(op, item, count)?;
        }
        Ok(count)
    }

    fn remembered(&self, op: &NumberOp, item: Item<'d>) -> Option<u64> {
        self.world.counts.get(&(op.number, item)).copied()
    }

    fn remember(&mut self, op: &NumberOp, item: Item<'d>, count: u64) -> Ran {
        if op.remembers {
            self.world.made(size_of::<((usize, Item<'_>), u64)>())?;
            self.world.counts.insert((op.number, item), count);
        }
        Ok(())
    }

    /// Without `count`: what is of the current node's kind and name.
    fn counts(&mut self, op: &'d NumberOp, item: Item<'d>) -> Ran<bool> {
        if op.count.is_some() {
            return self.matches(op.count.as_ref(), item);
        }
        let current = self.now.context.item;
        Ok(item.kind() == current.kind()
            && item.local_name() == current.local_name()
            && item.namespace_uri() == current.namespace_uri())
    }

    fn matches(&mut self, pattern: Option<&'d Pattern>, item: Item<'d>) -> Ran<bool> {
        let Some(pattern) = pattern else { return Ok(false) };
        let current = self.now.context.item;
        let budget = self.world.budget;
        let (_, env) = self.env();
        let mut env = Env { current, ..env };
        Ok(pattern.matches(item, &mut env, budget)?)
    }

    fn spelt(&mut self, op: &'d NumberOp, numbers: &[Number]) -> Ran<String> {
        let mut text = |part: &'d Option<_>| part.as_ref().map(|part| self.avt(part)).transpose();
        let picture = text(&op.format)?.unwrap_or_else(|| "1".to_owned());
        let letters = match text(&op.letter_value)?.as_deref() {
            None => LetterValue::Unsaid,
            Some("alphabetic") => LetterValue::Alphabetic,
            Some("traditional") => LetterValue::Traditional,
            Some(other) => return Err(format!("there is no letter-value `{other}`").into()),
        };
        if let Some(language) = text(&op.lang)?
            && !numbering::knows_letters_of(&language, &picture)
        {
            let message = format!("not supported: the letters of `{language}` for `{picture}`");
            return Err(message.into());
        }
        let (separator, size) = (text(&op.separator)?, text(&op.size)?);
        let grouping = match (separator.as_deref(), size) {
            (Some(separator), Some(size)) => Some((separator, group_size(&size)?)),
            (Some(_) | None, None) | (None, Some(_)) => None,
        };
        Ok(numbering::format(numbers, Style { picture: &picture, letters, grouping }))
    }
}

fn group_size(text: &str) -> Ran<usize> {
    let size = text.trim().parse().ok().filter(|size| *size > 0);
    size.ok_or_else(|| Failure::from(format!("`{text}` isn't a grouping-size")))
}

/// The one before in document order, attributes and namespaces left out.
fn before(item: Item<'_>) -> Option<Item<'_>> {
    let Some(node) = item.node().filter(|node| node.kind() != Kind::Attribute) else {
        return item.parent();
    };
    let Some(mut last) = node.previous_sibling() else { return item.parent() };
    while let Some(child) = last.last_child() {
        last = child;
    }
    Some(last.into())
}
