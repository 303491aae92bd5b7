//! Finds the rules that can match a node, by mode, kind and name, best first.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use xml::{Kind, Node};
use xpath::{ExpandedName, Matched};

use crate::program::Rule;

/// Indices of rules, ascending: rules are numbered by rank, best first.
type List = Vec<u32>;

#[derive(Debug, Default)]
pub(crate) struct Modes {
    tables: Vec<Table>,
}

/// The rules of one mode. Each rule is in one list, except those that match several kinds of node.
#[derive(Debug)]
struct Table {
    /// Rules that do not depend on a name, by [`Class`].
    general: [List; CLASSES],
    /// Rules for one name each.
    named: Vec<List>,
    /// Indices of `named`, by namespace within local name.
    elements: BTreeMap<String, Vec<(String, u32)>>,
    attributes: BTreeMap<String, Vec<(String, u32)>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Element,
    Attribute,
    Text,
    Comment,
    Instruction,
    Root,
}

const CLASSES: usize = 6;
/// The children of a node.
const CHILDREN: [Class; 4] = [Class::Element, Class::Text, Class::Comment, Class::Instruction];

/// Names the rules for a node: it depends on the node's kind and name only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Candidates {
    class: Class,
    /// [`NO_NAME`]: no rules for this name.
    named: u32,
}

const NO_NAME: u32 = u32::MAX;

/// The [`Candidates`] of nodes of one class and name, once they are known. Zero means unknown.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Known(u32);

impl Known {
    pub(crate) fn of(candidates: Candidates) -> Self {
        // There are fewer lists, so the sum does not wrap.
        Self(candidates.named.wrapping_add(2))
    }

    /// The candidates of an element, or of an attribute.
    pub(crate) fn candidates(self, is_attribute: bool) -> Option<Candidates> {
        let class = if is_attribute { Class::Attribute } else { Class::Element };
        (self.0 != 0).then(|| Candidates { class, named: self.0.wrapping_sub(2) })
    }
}

impl Modes {
    /// Sorts rules, which come in declaration order, by rank: section 5.5. The last of equal rules is the best.
    pub(crate) fn new(mut rules: Vec<Rule>, modes: usize) -> (Vec<Rule>, Self) {
        rules.reverse();
        rules.sort_by(|one, other| {
            let precedence = other.precedence.cmp(&one.precedence);
            let priority = || other.priority.partial_cmp(&one.priority).unwrap_or(Ordering::Equal);
            precedence.then_with(priority)
        });
        let mut tables: Vec<Table> = (0..modes).map(|_| Table::new()).collect();
        for (number, rule) in (0..).zip(&rules) {
            if let Some(table) = tables.get_mut(rule.mode as usize) {
                table.add(number, rule.pattern.matched());
            }
        }
        (rules, Self { tables })
    }

    /// How many modes there are.
    pub(crate) fn len(&self) -> usize {
        self.tables.len()
    }

    pub(crate) fn candidates(&self, mode: u32, node: Node<'_>) -> Option<Candidates> {
        let table = self.tables.get(mode as usize)?;
        let named = |class: Class, names: &BTreeMap<String, Vec<(String, u32)>>| {
            let found = names.get(node.local_name());
            let same = |(uri, _): &&(String, u32)| uri == node.namespace();
            let list = found.and_then(|all| all.iter().find(same)).map(|(_, list)| *list);
            Candidates { class, named: list.unwrap_or(NO_NAME) }
        };
        let unnamed = |class: Class| Candidates { class, named: NO_NAME };
        match node.kind() {
            Kind::Root => Some(unnamed(Class::Root)),
            Kind::Element => Some(named(Class::Element, &table.elements)),
            Kind::Attribute => Some(named(Class::Attribute, &table.attributes)),
            Kind::Text => Some(unnamed(Class::Text)),
            Kind::Comment => Some(unnamed(Class::Comment)),
            Kind::ProcessingInstruction => Some(unnamed(Class::Instruction)),
            Kind::Namespace => None,
        }
    }

    /// The indices of the rules to try, best first.
    pub(crate) fn rules(&self, mode: u32, candidates: Candidates) -> impl Iterator<Item = u32> {
        let table = self.tables.get(mode as usize);
        let general = table.and_then(|table| table.general.get(candidates.class as usize));
        let named = table.and_then(|table| table.named.get(candidates.named as usize));
        merge(named.map_or(&[], Vec::as_slice), general.map_or(&[], Vec::as_slice))
    }
}

/// Merges two ascending lists.
fn merge<'l>(mut one: &'l [u32], mut other: &'l [u32]) -> impl Iterator<Item = u32> + 'l {
    std::iter::from_fn(move || {
        let from = match (one.first(), other.first()) {
            (Some(first), Some(second)) if second < first => &mut other,
            (Some(_), _) => &mut one,
            (None, _) => &mut other,
        };
        let (first, rest) = from.split_first()?;
        *from = rest;
        Some(*first)
    })
}

impl Table {
    fn new() -> Self {
        Self {
            general: [const { Vec::new() }; CLASSES],
            named: Vec::new(),
            elements: BTreeMap::new(),
            attributes: BTreeMap::new(),
        }
    }

    fn add(&mut self, number: u32, matched: &Matched) {
        let classes: &[Class] = match matched {
            Matched::Element(name) => {
                return add_named(&mut self.named, &mut self.elements, name, number);
            }
            Matched::Attribute(name) => {
                return add_named(&mut self.named, &mut self.attributes, name, number);
            }
            Matched::Root => &[Class::Root],
            Matched::AnyElement => &[Class::Element],
            Matched::AnyAttribute => &[Class::Attribute],
            Matched::Text => &[Class::Text],
            Matched::Comment => &[Class::Comment],
            Matched::Instruction(_) => &[Class::Instruction],
            Matched::AnyChild => &CHILDREN,
            Matched::Anything => {
                self.add_to(number, &CHILDREN);
                &[Class::Attribute, Class::Root]
            }
        };
        self.add_to(number, classes);
    }

    fn add_to(&mut self, number: u32, classes: &[Class]) {
        for class in classes {
            if let Some(list) = self.general.get_mut(*class as usize) {
                list.push(number);
            }
        }
    }
}

fn add_named(
    lists: &mut Vec<List>,
    names: &mut BTreeMap<String, Vec<(String, u32)>>,
    name: &ExpandedName,
    number: u32,
) {
    let known = names.entry(name.local.clone()).or_default();
    let found = known.iter().find(|(uri, _)| *uri == name.namespace).map(|(_, list)| *list);
    let index = found.unwrap_or_else(|| {
        let next = u32::try_from(lists.len()).unwrap_or(NO_NAME);
        known.push((name.namespace.clone(), next));
        lists.push(Vec::new());
        next
    });
    if let Some(list) = lists.get_mut(index as usize) {
        list.push(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_of_a_name_are_merged_with_the_general_ones() {
        let all = |one: &[u32], other: &[u32]| merge(one, other).collect::<Vec<_>>();
        assert_eq!(all(&[1, 4], &[0, 2, 9]), [0, 1, 2, 4, 9]);
        assert_eq!(all(&[], &[3]), [3]);
        assert_eq!(all(&[3], &[]), [3]);
    }

    #[test]
    fn tables_grow_with_the_rules_and_not_with_names_times_general_rules() {
        let size = |count: usize| {
            let templates: String = (0..count)
                .map(|at| format!("<xsl:template match='n{at}|*[@a{at}]' mode='m{}'/>", at % 7))
                .collect();
            let text = format!(
                "<xsl:stylesheet version='1.0' xmlns:xsl='http://www.w3.org/1999/XSL/Transform'>{templates}</xsl:stylesheet>"
            );
            let sheet = crate::Stylesheet::compile(text.as_bytes(), &crate::NoResolver).unwrap();
            let lists = sheet.program.modes.tables.iter();
            let len = |list: &List| list.len();
            lists.map(|t| t.general.iter().chain(&t.named).map(len).sum::<usize>()).sum::<usize>()
        };
        assert_eq!(size(100), 200);
        assert_eq!(size(1_000), 2_000);
    }
}
