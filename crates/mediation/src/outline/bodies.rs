//! Which bodies pass through steps, and from where on they are held.
//!
//! Follows the message through every branch. At each step it may have one of several bodies, each of which is held on
//! some of the ways that lead there.

use std::collections::BTreeMap;

use expression::BodyUse;

use super::{Branch, Entry, Node, Split};

/// A body that passes through steps.
#[derive(Debug)]
pub struct PassingBody<'n> {
    /// `the body`, or `the response to ...`.
    pub name: String,
    /// The first steps that need it, each on ways of its own.
    pub holders: Vec<&'n Node>,
    /// Whether there is a way on which nothing needs it.
    pub streams: bool,
}

/// On which of the ways to a step a body is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    Nowhere,
    Somewhere,
    Everywhere,
}

/// The bodies that the message may have at a step. None: it was made in memory.
type State = BTreeMap<usize, Held>;

#[derive(Default)]
struct Walk<'n> {
    bodies: Vec<PassingBody<'n>>,
}

/// What becomes of the message in some steps.
#[derive(Default)]
struct After {
    /// At the end. `None`: the message does not come there.
    state: Option<State>,
    /// Wherever a step may fail.
    anywhere: State,
}

impl Branch {
    /// The bodies that pass through, in order: the body of what comes in, and those of responses.
    #[must_use]
    pub fn bodies(&self) -> Vec<PassingBody<'_>> {
        let mut walk = Walk::default();
        let state = walk.enter("the body".to_owned());
        let after = walk.branch(self, state);
        walk.leave(after.state.as_ref());
        walk.bodies
    }
}

impl<'n> Walk<'n> {
    /// A body that nothing has read.
    fn enter(&mut self, name: String) -> State {
        let id = self.bodies.iter().position(|body| body.name == name).unwrap_or_else(|| {
            self.bodies.push(PassingBody { name, holders: Vec::new(), streams: false });
            self.bodies.len() - 1
        });
        State::from([(id, Held::Nowhere)])
    }

    fn branch(&mut self, branch: &'n Branch, state: State) -> After {
        let mut after = After { anywhere: state.clone(), state: Some(state) };
        for node in &branch.steps {
            let Some(state) = after.state.take() else { break };
            let next = self.node(node, state);
            merge(&mut after.anywhere, &next.anywhere);
            after.state = next.state;
        }
        after
    }

    fn node(&mut self, node: &'n Node, mut state: State) -> After {
        self.hold(node, &mut state);
        let mut after = After { anywhere: state.clone(), state: Some(state.clone()) };
        if node.element == "call" && !node.keeps_body {
            self.leave(Some(&state));
            after.state = Some(self.enter(response_to(node)));
        } else if matches!(node.element.as_str(), "send" | "endpoint") || node.ends() {
            self.leave(Some(&state));
        }
        if node.ends() {
            after.state = None;
        }
        let mut ends: Option<State> = None;
        for branch in &node.branches {
            let inner = self.inner(node, branch, &state, &after.anywhere);
            merge(&mut after.anywhere, &inner.anywhere);
            if let Some(end) = inner.state {
                ends.get_or_insert_default();
                ends.iter_mut().for_each(|ends| merge(ends, &end));
            }
        }
        if node.branches.iter().all(|branch| !branch.entry.comes_back()) {
            // What the parts of `aggregate` become.
            if node.element == "aggregate" {
                after.state = Some(State::new());
            }
            return after;
        }
        after.state = match node.split {
            Split::All => ends,
            Split::One if node.is_exhaustive() => ends,
            Split::One => Some(merged(state, ends)),
            Split::Copies if matches!(node.element.as_str(), "clone" | "iterate") => {
                // Parts that made a call come after the mediator too.
                let parts = ends.map(|mut ends| {
                    ends.retain(|id, _| !state.contains_key(id));
                    ends
                });
                let parts = parts.filter(|parts| !parts.is_empty());
                match node.continues {
                    true => Some(merged(state, parts)),
                    false => parts,
                }
            }
            Split::Copies => {
                // It reads what becomes of its parts.
                if let Some(ends) = ends.as_mut().filter(|_| !node.continues) {
                    self.hold(node, ends);
                }
                Some(state)
            }
        };
        after
    }

    fn inner(&mut self, node: &'n Node, branch: &'n Branch, state: &State, seen: &State) -> After {
        let entry = match branch.entry {
            Entry::Message => state.clone(),
            Entry::Made => State::new(),
            Entry::Response => self.enter(response_to(node)),
            Entry::Failure => seen.clone(),
        };
        let mut inner = self.branch(branch, entry);
        if !branch.entry.comes_back() {
            // The message ends there.
            self.leave(inner.state.take().as_ref());
        }
        inner
    }

    /// A step needs the body, if its mediator does.
    fn hold(&mut self, node: &'n Node, state: &mut State) {
        if node.body_use == BodyUse::Untouched {
            return;
        }
        for (id, held) in state {
            let is_first = *held != Held::Everywhere;
            *held = Held::Everywhere;
            if let Some(body) = self.bodies.get_mut(*id).filter(|_| is_first)
                && !body.holders.iter().any(|known| known.is_at(node))
            {
                body.holders.push(node);
            }
        }
    }

    /// The message is sent, or ends.
    fn leave(&mut self, state: Option<&State>) {
        for (id, held) in state.into_iter().flatten() {
            if let Some(body) = self.bodies.get_mut(*id) {
                body.streams |= *held != Held::Everywhere;
            }
        }
    }
}

impl Node {
    fn is_at(&self, other: &Self) -> bool {
        (&self.file, self.place) == (&other.file, other.place)
    }

    /// Whether one of its branches runs in any case.
    fn is_exhaustive(&self) -> bool {
        let is_other = |branch: &Branch| {
            branch.label.starts_with("else") || branch.label.starts_with("default")
        };
        self.branches.iter().any(is_other)
    }
}

fn response_to(node: &Node) -> String {
    format!("the response to `{}` in line {}", node.element, node.place.line)
}

fn merged(mut state: State, other: Option<State>) -> State {
    other.iter().for_each(|other| merge(&mut state, other));
    state
}

/// Adds the ways of `other`.
fn merge(state: &mut State, other: &State) {
    for (id, held) in other {
        state
            .entry(*id)
            .and_modify(|known| {
                if known != held {
                    *known = Held::Somewhere;
                }
            })
            .or_insert(*held);
    }
}
