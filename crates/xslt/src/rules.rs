//! Which rules can match a node at all: by mode, kind and name, best first.

use std::cmp::Ordering;
use std::collections::HashMap;

use xml::{Kind, Node};
use xpath::{ExpandedName, Matched};

use crate::program::Rule;

/// Rules that are worth trying, best first.
pub(crate) type List = Vec<u32>;

#[derive(Debug, Default)]
pub(crate) struct Modes {
    tables: Vec<Table>,
}

#[derive(Debug, Default)]
struct Table {
    /// Every list of the table; 0 to 5 are those below.
    lists: Vec<List>,
    /// By namespace within local name.
    elements: HashMap<String, Vec<(String, u32)>>,
    attributes: HashMap<String, Vec<(String, u32)>>,
}

/// Places of lists that every table has.
const OTHER_ELEMENTS: u32 = 0;
const OTHER_ATTRIBUTES: u32 = 1;
const TEXTS: u32 = 2;
const COMMENTS: u32 = 3;
const INSTRUCTIONS: u32 = 4;
const ROOT: u32 = 5;
const FIXED: usize = 6;

impl Modes {
    /// `rules` come in the order of the sheets; among equals the last is the best: section 5.5.
    pub(crate) fn new(rules: &[Rule], modes: usize) -> Self {
        let mut ranked: Vec<(usize, &Rule)> = rules.iter().enumerate().collect();
        ranked.sort_by(|(i, one), (j, other)| {
            let precedence = other.precedence.cmp(&one.precedence);
            let priority = || other.priority.partial_cmp(&one.priority).unwrap_or(Ordering::Equal);
            precedence.then_with(priority).then_with(|| j.cmp(i))
        });
        let table = |mode: usize| {
            let mine = ranked.iter().filter(|(_, rule)| rule.mode as usize == mode);
            Table::new(&mine.copied().collect::<Vec<_>>())
        };
        Self { tables: (0..modes).map(table).collect() }
    }

    /// The number of the list for a node; it depends on the node's kind and name only.
    pub(crate) fn list_of(&self, mode: u32, node: Node<'_>) -> Option<u32> {
        let table = self.tables.get(mode as usize)?;
        let named = |names: &HashMap<String, Vec<(String, u32)>>, other: u32| {
            let found = names.get(node.local_name());
            let same = |(uri, _): &&(String, u32)| uri == node.namespace();
            found.and_then(|all| all.iter().find(same)).map_or(other, |(_, list)| *list)
        };
        match node.kind() {
            Kind::Root => Some(ROOT),
            Kind::Element => Some(named(&table.elements, OTHER_ELEMENTS)),
            Kind::Attribute => Some(named(&table.attributes, OTHER_ATTRIBUTES)),
            Kind::Text => Some(TEXTS),
            Kind::Comment => Some(COMMENTS),
            Kind::ProcessingInstruction => Some(INSTRUCTIONS),
            Kind::Namespace => None,
        }
    }

    pub(crate) fn list(&self, mode: u32, list: u32) -> &[u32] {
        let table = self.tables.get(mode as usize);
        table.and_then(|table| table.lists.get(list as usize)).map_or(&[], Vec::as_slice)
    }
}

impl Table {
    fn new(ranked: &[(usize, &Rule)]) -> Self {
        let pick = |fits: &dyn Fn(&Matched) -> bool| -> List {
            let fitting = ranked.iter().filter(|(_, rule)| fits(rule.pattern.matched()));
            fitting.filter_map(|(index, _)| u32::try_from(*index).ok()).collect()
        };
        let mut table = Self::default();
        let child = |m: &Matched| matches!(m, Matched::AnyChild | Matched::Anything);
        table.lists = vec![
            pick(&|m| child(m) || matches!(m, Matched::AnyElement)),
            pick(&|m| matches!(m, Matched::AnyAttribute | Matched::Anything)),
            pick(&|m| child(m) || matches!(m, Matched::Text)),
            pick(&|m| child(m) || matches!(m, Matched::Comment)),
            pick(&|m| child(m) || matches!(m, Matched::Instruction(_))),
            pick(&|m| matches!(m, Matched::Root | Matched::Anything)),
        ];
        debug_assert_eq!(table.lists.len(), FIXED);
        for (_, rule) in ranked {
            match rule.pattern.matched() {
                Matched::Element(name) => {
                    let list = pick(&|m| {
                        child(m)
                            || matches!(m, Matched::AnyElement)
                            || matches!(m, Matched::Element(other) if other == name)
                    });
                    add(&mut table.lists, &mut table.elements, name, list);
                }
                Matched::Attribute(name) => {
                    let list = pick(&|m| {
                        matches!(m, Matched::AnyAttribute | Matched::Anything)
                            || matches!(m, Matched::Attribute(other) if other == name)
                    });
                    add(&mut table.lists, &mut table.attributes, name, list);
                }
                Matched::Root
                | Matched::AnyElement
                | Matched::AnyAttribute
                | Matched::Text
                | Matched::Comment
                | Matched::Instruction(_)
                | Matched::AnyChild
                | Matched::Anything => {}
            }
        }
        table
    }
}

fn add(
    lists: &mut Vec<List>,
    names: &mut HashMap<String, Vec<(String, u32)>>,
    name: &ExpandedName,
    list: List,
) {
    let known = names.entry(name.local.clone()).or_default();
    if known.iter().any(|(uri, _)| *uri == name.namespace) {
        return;
    }
    if let Ok(number) = u32::try_from(lists.len()) {
        known.push((name.namespace.clone(), number));
        lists.push(list);
    }
}
