//! Which bodies pass through steps, and from where on they are held.
//!
//! Follows the message through every branch. At each step it may have one of several bodies, each of which is held on
//! some of the ways that lead there.

use std::collections::BTreeMap;

use expression::BodyUse;
use mediation::{FORCE_ERROR_ON_SOAP_FAULT, HELD_WHEN_SENT, Mediator, NOT_CHUNKED, PropertyScope};

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

/// On which of the ways to a step a body is held, or a property is `true`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Held {
    #[default]
    Nowhere,
    Somewhere,
    Everywhere,
}

impl Held {
    fn or(self, other: Self) -> Self {
        if self == other { self } else { Self::Somewhere }
    }
}

/// The properties that decide whether the body of a message is held when it is sent.
const SWITCHES: [(PropertyScope, &str); HELD_WHEN_SENT.len() + NOT_CHUNKED.len()] = {
    let [one, two, three] = HELD_WHEN_SENT;
    let [four, five, six] = NOT_CHUNKED;
    let axis2 = PropertyScope::Axis2;
    [one, two, three, (axis2, four), (axis2, five), (axis2, six)]
};

/// The number of a property in [`SWITCHES`], and the value that a step gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Switch(usize, Held);

impl Switch {
    pub(super) fn all_of(mediator: &dyn Mediator) -> Vec<Self> {
        let mut all = Vec::new();
        mediator.sets(&mut |scope, name, is_true| {
            let number = SWITCHES.iter().position(|known| *known == (scope, name));
            let held = match is_true {
                Some(true) => Held::Everywhere,
                Some(false) => Held::Nowhere,
                None => Held::Somewhere,
            };
            all.extend(number.map(|number| Self(number, held)));
        });
        all
    }
}

/// Possible states of the message at a step.
#[derive(Clone, Default)]
struct State {
    /// The bodies that it may have. None: it was made in memory.
    bodies: BTreeMap<usize, Held>,
    switches: [Held; SWITCHES.len()],
}

impl State {
    /// A message that was made of this one.
    fn made(&self) -> Self {
        Self { bodies: BTreeMap::new(), ..self.clone() }
    }

    fn set(&mut self, switches: &[Switch]) {
        for Switch(number, held) in switches {
            self.switches.iter_mut().skip(*number).take(1).for_each(|known| *known = *held);
        }
    }

    fn switch(&self, name: &str) -> Held {
        let mut all = SWITCHES.iter().zip(self.switches);
        all.find(|((_, known), _)| *known == name).map(|(_, held)| held).unwrap_or_default()
    }

    /// Whether its body is held when it is sent. One that must not be sent in chunks is, unless its length is known.
    fn when_sent(&self) -> Held {
        let held = self.switches.iter().take(HELD_WHEN_SENT.len()).max().copied();
        let lengths = self.switches.iter().skip(HELD_WHEN_SENT.len()).max().copied();
        held.max(lengths.map(|held| held.min(Held::Somewhere))).unwrap_or_default()
    }
}

#[derive(Default)]
struct Walk<'n> {
    bodies: Vec<PassingBody<'n>>,
}

/// The message after some steps.
#[derive(Default)]
struct After {
    /// At the end. `None`: the message does not come there.
    state: Option<State>,
    /// Wherever a step may fail.
    anywhere: State,
}

impl Branch {
    /// The bodies that pass through, in order: the body of the request, and those of responses.
    #[must_use]
    pub fn bodies(&self) -> Vec<PassingBody<'_>> {
        let mut walk = Walk::default();
        let mut state = State::default();
        walk.enter("the body".to_owned(), &mut state);
        let after = walk.branch(self, state, false);
        walk.leave(after.state.as_ref());
        walk.bodies
    }
}

impl<'n> Walk<'n> {
    /// The message gets a body that nothing has read.
    fn enter(&mut self, name: String, state: &mut State) {
        let id = self.bodies.iter().position(|body| body.name == name).unwrap_or_else(|| {
            self.bodies.push(PassingBody { name, holders: Vec::new(), streams: false });
            self.bodies.len() - 1
        });
        state.bodies = BTreeMap::from([(id, Held::Nowhere)]);
    }

    /// It gets that of the response to the message that `node` sent, and properties of the transport, are gone.
    fn respond(&mut self, node: &'n Node, state: &mut State) {
        let fails_on_fault = state.switch(FORCE_ERROR_ON_SOAP_FAULT);
        self.enter(
            format!("the response to `{}` in line {}", node.element, node.place.line),
            state,
        );
        let of_transport = SWITCHES.iter().zip(&mut state.switches);
        for (_, held) in of_transport.filter(|((scope, _), _)| *scope == PropertyScope::Axis2) {
            *held = Held::Nowhere;
        }
        self.hold(node, state, fails_on_fault);
    }

    /// `is_read`: a step after the branch may need the body.
    fn branch(&mut self, branch: &'n Branch, state: State, is_read: bool) -> After {
        let mut after = After { anywhere: state.clone(), state: Some(state) };
        for (at, node) in branch.steps.iter().enumerate() {
            let Some(state) = after.state.take() else { break };
            let rest = branch.steps.get(at + 1..).unwrap_or_default();
            let next = self.node(node, state, is_read || rest.iter().any(Node::may_read));
            merge(&mut after.anywhere, &next.anywhere);
            after.state = next.state;
        }
        after
    }

    fn node(&mut self, node: &'n Node, mut state: State, is_read: bool) -> After {
        self.need(node, &mut state);
        state.set(&node.switches);
        if matches!(node.element.as_str(), "send" | "call" | "endpoint") {
            // A sent body is gone, unless a later step reads it.
            let is_kept = is_read && node.element == "send";
            let held = if is_kept { Held::Everywhere } else { state.when_sent() };
            self.hold(node, &mut state, held);
        }
        let mut after = After { anywhere: state.clone(), state: Some(state.clone()) };
        if node.element == "call" && !node.keeps_body {
            self.leave(Some(&state));
            after.state.iter_mut().for_each(|state| self.respond(node, state));
        } else if matches!(node.element.as_str(), "send" | "endpoint") || node.ends() {
            self.leave(Some(&state));
        }
        if node.ends() {
            after.state = None;
        }
        let mut ends: Option<State> = None;
        for branch in &node.branches {
            let inner = self.inner(node, branch, (&state, &after.anywhere), is_read);
            merge(&mut after.anywhere, &inner.anywhere);
            ends = inner.state.map(|end| merged(end, ends.take())).or(ends);
        }
        if node.branches.iter().all(|branch| !branch.entry.comes_back()) {
            // The body made of the parts of `aggregate`.
            if node.element == "aggregate" {
                after.state = Some(state.made());
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
                    ends.bodies.retain(|id, _| !state.bodies.contains_key(id));
                    ends
                });
                let parts = parts.filter(|parts| !parts.bodies.is_empty());
                match node.continues {
                    true => Some(merged(state, parts)),
                    false => parts,
                }
            }
            Split::Copies => {
                // It reads the results of its parts.
                if let Some(ends) = ends.as_mut().filter(|_| !node.continues) {
                    self.need(node, ends);
                }
                Some(state)
            }
        };
        after
    }

    fn inner(
        &mut self,
        node: &'n Node,
        branch: &'n Branch,
        (state, seen): (&State, &State),
        is_read: bool,
    ) -> After {
        let mut entry = match branch.entry {
            Entry::Message | Entry::Response => state.clone(),
            Entry::Made => state.made(),
            Entry::Failure => seen.clone(),
        };
        if branch.entry == Entry::Response {
            self.respond(node, &mut entry);
        }
        let mut inner = self.branch(branch, entry, is_read && branch.entry.comes_back());
        if !branch.entry.comes_back() {
            // The message ends there.
            self.leave(inner.state.take().as_ref());
        }
        inner
    }

    /// A step needs the body, if its mediator does.
    fn need(&mut self, node: &'n Node, state: &mut State) {
        if node.body_use != BodyUse::Untouched {
            self.hold(node, state, Held::Everywhere);
        }
    }

    /// A step holds the body.
    fn hold(&mut self, node: &'n Node, state: &mut State, on: Held) {
        if on == Held::Nowhere {
            return;
        }
        for (id, held) in &mut state.bodies {
            let is_first = *held != Held::Everywhere;
            *held = on.max(*held);
            if let Some(body) = self.bodies.get_mut(*id).filter(|_| is_first)
                && !body.holders.iter().any(|known| known.is_at(node))
            {
                body.holders.push(node);
            }
        }
    }

    /// The message is sent, or ends.
    fn leave(&mut self, state: Option<&State>) {
        for (id, held) in state.into_iter().flat_map(|state| &state.bodies) {
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

    /// Whether it or a step in its branches needs the body, but for those with other messages.
    fn may_read(&self) -> bool {
        let mut inner = self.branches.iter().filter(|branch| branch.entry.comes_back());
        self.body_use != BodyUse::Untouched
            || inner.any(|branch| branch.steps.iter().any(Self::may_read))
    }

    /// Whether one of its branches runs in any case.
    fn is_exhaustive(&self) -> bool {
        let is_other = |branch: &Branch| {
            branch.label.starts_with("else") || branch.label.starts_with("default")
        };
        self.branches.iter().any(is_other)
    }
}

fn merged(mut state: State, other: Option<State>) -> State {
    other.iter().for_each(|other| merge(&mut state, other));
    state
}

/// Adds the ways of `other`.
fn merge(state: &mut State, other: &State) {
    for (id, held) in &other.bodies {
        state.bodies.entry(*id).and_modify(|known| *known = known.or(*held)).or_insert(*held);
    }
    let both = state.switches.iter_mut().zip(other.switches);
    both.for_each(|(known, other)| *known = known.or(other));
}
