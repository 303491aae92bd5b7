//! The functions of the core library: XPath 1.0 section 4.

use std::borrow::Cow;
use std::collections::HashMap;

use xml::XML_NAMESPACE;

use crate::budget::Budget;
use crate::context::Context;
use crate::evaluate::{Outcome, Run};
use crate::functions::Core;
use crate::item::{Item, NodeSet, append};
use crate::number::{is_space, round};
use crate::plan::{Expr, Type};
use crate::sink::{Count, Nodes, Sum};
use crate::value::Value;

impl<'d> Run<'_, 'd> {
    pub(crate) fn core_boolean(
        &mut self,
        core: Core,
        arguments: &[Expr],
        context: Context<'d>,
    ) -> Outcome<bool> {
        match (core, arguments) {
            (Core::True, _) => Ok(true),
            (Core::Boolean, [value]) => self.boolean(value, context),
            (Core::Not, [value]) => Ok(!self.boolean(value, context)?),
            (Core::StartsWith, [text, start]) => {
                let text = self.string(text, context)?;
                let start = self.string(start, context)?;
                self.budget.charge_reading(start.len().min(text.len()))?;
                Ok(text.starts_with(&*start))
            }
            (Core::Contains, [text, part]) => {
                let text = self.string(text, context)?;
                let part = self.string(part, context)?;
                self.budget.charge_scanning(text.len())?;
                Ok(text.contains(&*part))
            }
            (Core::Lang, [wanted]) => {
                let wanted = self.string(wanted, context)?;
                self.lang(&wanted, context.item)
            }
            _ => Ok(false),
        }
    }

    pub(crate) fn core_number(
        &mut self,
        core: Core,
        arguments: &[Expr],
        context: Context<'d>,
    ) -> Outcome<f64> {
        match (core, arguments) {
            (Core::Last, _) => Ok(context.size as f64),
            (Core::Position, _) => Ok(context.position as f64),
            (Core::Count, [nodes]) => {
                let mut count = Count::default();
                self.feed(nodes, context, &mut count)?;
                Ok(count.nodes as f64)
            }
            (Core::Sum, [nodes]) => {
                let mut sum = Sum::default();
                self.feed(nodes, context, &mut sum)?;
                Ok(sum.total)
            }
            (Core::StringLength, _) => {
                let text = self.string_or_context(arguments, context)?;
                self.budget.charge_reading(text.len())?;
                Ok(text.chars().count() as f64)
            }
            (Core::Number, [value]) => self.number(value, context),
            (Core::Number, _) => {
                let text = self.text_of(Some(context.item))?;
                self.parsed(&text)
            }
            (Core::Floor, [value]) => Ok(self.number(value, context)?.floor()),
            (Core::Ceiling, [value]) => Ok(self.number(value, context)?.ceil()),
            (Core::Round, [value]) => Ok(round(self.number(value, context)?)),
            _ => Ok(f64::NAN),
        }
    }

    pub(crate) fn core_string<'e>(
        &mut self,
        core: Core,
        arguments: &'e [Expr],
        context: Context<'d>,
    ) -> Outcome<Cow<'e, str>>
    where
        'd: 'e,
    {
        match (core, arguments) {
            (Core::String, _) => self.string_or_context(arguments, context),
            (Core::LocalName | Core::NamespaceUri | Core::Name, _) => {
                let Some(item) = self.first_or_context(arguments, context)? else {
                    return Ok(Cow::Borrowed(""));
                };
                item.charge_scope(self.budget)?;
                let name = if core == Core::LocalName {
                    Cow::Borrowed(item.local_name())
                } else if core == Core::NamespaceUri {
                    Cow::Borrowed(item.namespace_uri())
                } else {
                    item.qualified_name()
                };
                self.budget.charge_reading(name.len())?;
                if let Cow::Owned(name) = &name {
                    self.budget.charge_memory(name.len())?;
                }
                Ok(name)
            }
            (Core::Concat, all) => {
                let mut text = String::new();
                for one in all {
                    let part = self.string(one, context)?;
                    self.budget.charge_reading(part.len())?;
                    append(&mut text, &part, self.budget)?;
                }
                Ok(Cow::Owned(text))
            }
            (Core::SubstringBefore, [text, part]) => {
                let text = self.string(text, context)?;
                let part = self.string(part, context)?;
                self.budget.charge_scanning(text.len())?;
                let end = text.find(&*part).unwrap_or(0);
                Ok(cut(text, 0, end))
            }
            (Core::SubstringAfter, [text, part]) => {
                let text = self.string(text, context)?;
                let part = self.string(part, context)?;
                self.budget.charge_scanning(text.len())?;
                let start = text.find(&*part).map_or(text.len(), |at| at + part.len());
                let end = text.len();
                Ok(cut(text, start, end))
            }
            (Core::Substring, [text, start, rest @ ..]) => {
                let text = self.string(text, context)?;
                let start = round(self.number(start, context)?);
                let end = match rest {
                    [len, ..] => start + round(self.number(len, context)?),
                    [] => f64::INFINITY,
                };
                self.budget.charge_scanning(text.len())?;
                let (from, to) = substring(&text, start, end);
                Ok(cut(text, from, to))
            }
            (Core::NormalizeSpace, _) => {
                let text = self.string_or_context(arguments, context)?;
                self.budget.charge_scanning(text.len())?;
                normalize_space(text, self.budget)
            }
            (Core::Translate, [text, from, to]) => {
                let text = self.string(text, context)?;
                let from = self.string(from, context)?;
                let to = self.string(to, context)?;
                // Each character is looked up.
                for part in [&text, &text, &text, &text, &from, &to] {
                    self.budget.charge_scanning(part.len())?;
                }
                let widest = to.chars().map(char::len_utf8).max().unwrap_or(1);
                self.budget.charge_memory(text.len().saturating_mul(widest))?;
                let table = from.len().saturating_mul(TABLE_BYTES);
                self.budget.charge_memory(table)?;
                let translated = translate(&text, &from, &to);
                self.budget.release_memory(table);
                Ok(Cow::Owned(translated))
            }
            _ => Ok(Cow::Borrowed("")),
        }
    }

    fn string_or_context<'e>(
        &mut self,
        arguments: &'e [Expr],
        context: Context<'d>,
    ) -> Outcome<Cow<'e, str>>
    where
        'd: 'e,
    {
        match arguments.first() {
            Some(value) => self.string(value, context),
            None => self.text_of(Some(context.item)),
        }
    }

    fn first_or_context(
        &mut self,
        arguments: &[Expr],
        context: Context<'d>,
    ) -> Outcome<Option<Item<'d>>> {
        match arguments.first() {
            Some(nodes) => self.first(nodes, context),
            None => Ok(Some(context.item)),
        }
    }

    /// `lang()`: whether the nearest `xml:lang` is the language or a sublanguage of it, in any letter case.
    fn lang(&mut self, wanted: &str, item: Item<'d>) -> Outcome<bool> {
        let mut next = Some(item.holder());
        while let Some(node) = next {
            self.charge(1 + node.attributes().count() as u64)?;
            if let Some(found) = node.attribute(XML_NAMESPACE, "lang") {
                let (found, wanted) = (found.as_bytes(), wanted.as_bytes());
                let start = found.get(..wanted.len());
                return Ok(start.is_some_and(|start| start.eq_ignore_ascii_case(wanted))
                    && found.get(wanted.len()).is_none_or(|after| *after == b'-'));
            }
            next = node.parent();
        }
        Ok(false)
    }

    /// `id()`: the elements whose IDs are in the text, or in the text of any of the nodes: section 4.1.
    pub(crate) fn id(&mut self, arguments: &[Expr], context: Context<'d>) -> Outcome<NodeSet<'d>> {
        let Some(argument) = arguments.first() else { return Ok(NodeSet::new()) };
        let mut found = Nodes::default();
        if matches!(argument.value_type(), Type::NodeSet | Type::Unknown) {
            match self.value(argument, context)? {
                Value::NodeSet(nodes) => {
                    for item in &nodes {
                        let text = self.text_of(Some(item))?;
                        self.find_ids(&text, context, &mut found)?;
                    }
                }
                scalar @ (Value::String(_) | Value::Number(_) | Value::Boolean(_)) => {
                    self.find_ids(&scalar.string(), context, &mut found)?;
                }
            }
        } else {
            let text = self.string(argument, context)?;
            self.find_ids(&text, context, &mut found)?;
        }
        self.sort(&mut found.items)?;
        Ok(NodeSet::from_ordered(found.items))
    }

    fn find_ids(&mut self, text: &str, context: Context<'d>, found: &mut Nodes<'d>) -> Outcome<()> {
        self.budget.charge_scanning(text.len())?;
        let document = context.item.holder().document();
        for id in text.split(is_space).filter(|id| !id.is_empty()) {
            self.charge(1)?;
            if let Some(element) = document.element_by_id(id) {
                found.push(element.into(), self.budget)?;
            }
        }
        Ok(())
    }
}

fn cut(text: Cow<'_, str>, from: usize, to: usize) -> Cow<'_, str> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.get(from..to).unwrap_or("")),
        Cow::Owned(mut text) => {
            text.truncate(to);
            text.drain(..from.min(to));
            Cow::Owned(text)
        }
    }
}

/// The byte range of the characters whose positions, from 1, are at least `start` and below `end`. It is
/// empty if either is NaN.
fn substring(text: &str, start: f64, end: f64) -> (usize, usize) {
    let mut from = None;
    let mut to = text.len();
    for (index, (at, _)) in text.char_indices().enumerate() {
        let position = (index + 1) as f64;
        let inside = position >= start && position < end;
        if inside && from.is_none() {
            from = Some(at);
            if end == f64::INFINITY {
                break;
            }
        } else if !inside && from.is_some() {
            to = at;
            break;
        }
    }
    from.map_or((0, 0), |from| (from, to))
}

fn normalize_space<'t>(text: Cow<'t, str>, budget: &Budget) -> Outcome<Cow<'t, str>> {
    let mut is_normal = true;
    let mut before = b' ';
    for byte in text.bytes() {
        is_normal &= !matches!(byte, b'\t' | b'\n' | b'\r') && (byte != b' ' || before != b' ');
        before = byte;
    }
    if text.is_empty() || (is_normal && before != b' ') {
        return Ok(text);
    }
    budget.charge_memory(text.len())?;
    let mut out = String::with_capacity(text.len());
    for word in text.split(is_space).filter(|word| !word.is_empty()) {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    Ok(Cow::Owned(out))
}

/// Memory of a character in the table of `translate()`, while the table grows.
const TABLE_BYTES: usize = 32;

fn translate(text: &str, from: &str, to: &str) -> String {
    let mut table = HashMap::new();
    let mut to = to.chars();
    for c in from.chars() {
        let becomes = to.next();
        table.entry(c).or_insert(becomes);
    }
    text.chars().filter_map(|c| table.get(&c).copied().unwrap_or(Some(c))).collect()
}
