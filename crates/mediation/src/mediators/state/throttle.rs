//! `throttle`: accepts the number of requests of its policy, in progress at a time and of each client in a unit of
//! time.

use std::net::IpAddr;
use std::sync::Arc;

use crate::error::{Code, Failure};
use crate::limits;
use crate::message::{Direction, Message, PropertyScope, PropertyValue};
use crate::program::memory::Rate;
use crate::program::{Entry, Mediator, Next, Scene, SequenceId};
use crate::syntax::{Compiler, Element};

#[derive(Debug)]
struct Throttle {
    number: usize,
    /// The requests in progress that it is counted among.
    group: usize,
    /// The property (operation) of a request that is in progress.
    place: Box<str>,
    policy: Policy,
    on_accept: Option<SequenceId>,
    on_reject: Option<SequenceId>,
}

#[derive(Debug, Default)]
struct Policy {
    concurrent_max: Option<usize>,
    clients: Vec<(Clients, Access)>,
    /// Everyone else.
    others: Option<Access>,
}

/// The addresses from the first to the second.
#[derive(Clone, Copy, Debug)]
struct Clients(IpAddr, IpAddr);

#[derive(Clone, Copy, Debug)]
enum Access {
    Allow,
    Deny,
    Rate(Rate),
}

impl Mediator for Throttle {
    fn enters(&self) -> Vec<SequenceId> {
        self.on_accept.into_iter().chain(self.on_reject).collect()
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        let is_accepted = match message.direction {
            Direction::Request => self.admits(scene, message)?,
            Direction::Response => {
                message.remove(PropertyScope::Operation, &self.place);
                true
            }
        };
        match (is_accepted, self.on_accept, self.on_reject) {
            (true, Some(sequence), _) | (false, _, Some(sequence)) => Ok(Next::Enter(sequence)),
            (true, None, _) => Ok(Next::Continue),
            (false, _, None) => {
                Err(Failure::new(Code::MEDIATION, "the request exceeds a limit of `throttle`"))
            }
        }
    }
}

impl Throttle {
    fn admits(&self, scene: &Scene<'_>, message: &mut Message) -> Result<bool, Failure> {
        // A host that keeps nothing, such as a trial of one message.
        let Some(memory) = scene.environment.memory() else { return Ok(true) };
        if let Some(max) = self.policy.concurrent_max {
            let Some(place) = memory.enter(self.group, max) else { return Ok(false) };
            let held = PropertyValue::Held(Arc::new(place));
            message.set(PropertyScope::Operation, &self.place, held, scene.budget)?;
        }
        let client = scene.view(message).text_property(PropertyScope::Axis2, "REMOTE_ADDR");
        let client = client.and_then(|client| client.parse::<IpAddr>().ok());
        let Some(client) = client.map(|client| client.to_canonical()) else { return Ok(true) };
        let mut listed = self.policy.clients.iter();
        let listed = listed.find(|(Clients(first, last), _)| (first..=last).contains(&&client));
        let is_accepted = match listed.map(|(_, access)| *access).or(self.policy.others) {
            None | Some(Access::Allow) => true,
            Some(Access::Deny) => false,
            Some(Access::Rate(rate)) => {
                let now_ms = scene.environment.unix_ms();
                let windows = memory.throttle(self.number);
                windows.is_none_or(|mut windows| windows.admit(client, rate, now_ms))
            }
        };
        if !is_accepted {
            message.remove(PropertyScope::Operation, &self.place);
        }
        Ok(is_accepted)
    }
}

pub(crate) fn compile(compiler: &mut Compiler, element: &Element<'_>) -> Option<Box<dyn Mediator>> {
    let id = element.required(compiler, "id")?;
    let policy = match element.child("policy") {
        Some(policy) => read_policy(compiler, &policy)?,
        // One for responses, which leaves the requests in progress.
        None => Policy::default(),
    };
    let on_accept = branch(compiler, element, "onAccept")?;
    let on_reject = branch(compiler, element, "onReject")?;
    let (number, group) = compiler.add_throttle(id);
    let place = format!("throttle {id}").into();
    Some(Box::new(Throttle { number, group, place, policy, on_accept, on_reject }))
}

/// A sequence by name or inline.
fn branch(
    compiler: &mut Compiler,
    element: &Element<'_>,
    name: &'static str,
) -> Option<Option<SequenceId>> {
    let child = element.child(name);
    match (element.optional(name), child) {
        (Some(key), _) => compiler.sequence_named(element, key).map(Some),
        (None, Some(child)) => {
            let sequence = compiler.nested(&child);
            child.finish(compiler);
            Some(Some(sequence))
        }
        (None, None) => Some(None),
    }
}

fn read_policy(compiler: &mut Compiler, element: &Element<'_>) -> Option<Policy> {
    let Some(key) = element.optional("key") else {
        let policy = of_document(compiler, element, element.node());
        element.finish(compiler);
        return policy;
    };
    element.finish(compiler);
    let entry = compiler.entry(element, key)?;
    let bytes = match &entry {
        Entry::Xml(bytes) => &**bytes,
        Entry::Text(text) => text.as_bytes(),
    };
    match xml::Document::parse(bytes) {
        Ok(document) => of_document(compiler, element, document.root()),
        Err(error) => compiler.reject(element, format!("the policy `{key}`: {error}"), None),
    }
}

/// The policy in `root`, however its `All` and `ExactlyOne` are nested.
fn of_document(
    compiler: &mut Compiler,
    element: &Element<'_>,
    root: xml::Node<'_>,
) -> Option<Policy> {
    let mut policy = Policy::default();
    if let Some(max) = find(root, "MaximumConcurrentAccess") {
        policy.concurrent_max = Some(number(compiler, element, max)?);
    }
    let mut stack = vec![root];
    while let Some(node) = stack.pop() {
        let mut children = node.elements();
        if let Some(id) = children.clone().find(|child| child.local_name() == "ID") {
            rule(compiler, element, &mut policy, id, node)?;
        } else {
            stack.extend(children.by_ref());
        }
    }
    if policy.concurrent_max.is_none() && policy.clients.is_empty() && policy.others.is_none() {
        let help = "write `MaximumConcurrentAccess`, or a `Policy` with an `ID`";
        return compiler.reject(element, "the policy limits nothing", Some(help));
    }
    Some(policy)
}

/// The rule of one `Policy` for the clients in its `ID`.
fn rule(
    compiler: &mut Compiler,
    element: &Element<'_>,
    policy: &mut Policy,
    id: xml::Node<'_>,
    node: xml::Node<'_>,
) -> Option<()> {
    let kind = id.attributes().find(|attribute| attribute.local_name() == "type");
    let kind = kind.map(|attribute| attribute.string_value().into_owned()).unwrap_or_default();
    if !kind.eq_ignore_ascii_case("IP") {
        let help = "only addresses are supported: write type=\"IP\"";
        return compiler.reject(
            element,
            format!("an `ID` of the unsupported type `{kind}`"),
            Some(help),
        );
    }
    let access = if find(node, "Deny").is_some() {
        Access::Deny
    } else if find(node, "Allow").is_some() {
        Access::Allow
    } else if let Some(count) = find(node, "MaximumCount") {
        let unit = find(node, "UnitTime");
        let Some(unit) = unit else {
            return compiler.reject(element, "a `MaximumCount` without `UnitTime`", None);
        };
        let prohibit = find(node, "ProhibitTimePeriod");
        let prohibit = prohibit.filter(|prohibit| !prohibit.string_value().trim().is_empty());
        Access::Rate(Rate {
            count: number(compiler, element, count)?,
            unit_ms: number(compiler, element, unit)?,
            prohibit_ms: match prohibit {
                Some(prohibit) => number(compiler, element, prohibit)?,
                None => 0,
            },
        })
    } else {
        // An `ID` beside a limit for all clients.
        Access::Allow
    };
    for range in id.string_value().split(',').map(str::trim).filter(|range| !range.is_empty()) {
        if range.eq_ignore_ascii_case("other") {
            policy.others = Some(access);
            continue;
        }
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (Ok(first), Ok(last)) = (first.trim().parse(), last.trim().parse()) else {
            let help = "write `other`, an address, or two addresses with `-` between them";
            return compiler.reject(element, format!("invalid address `{range}`"), Some(help));
        };
        if policy.clients.len() >= limits::THROTTLE_RULES_MAX {
            let message = format!("more than {} ranges of addresses", limits::THROTTLE_RULES_MAX);
            return compiler.reject(element, message, None);
        }
        policy.clients.push((Clients(first, last), access));
    }
    Some(())
}

/// The first element of this name below `node`.
fn find<'d>(node: xml::Node<'d>, name: &str) -> Option<xml::Node<'d>> {
    let mut stack = vec![node];
    while let Some(node) = stack.pop() {
        if node.is_element() && node.local_name() == name {
            return Some(node);
        }
        stack.extend(node.elements());
    }
    None
}

fn number<T: std::str::FromStr>(
    compiler: &mut Compiler,
    element: &Element<'_>,
    node: xml::Node<'_>,
) -> Option<T> {
    let text = node.string_value();
    let found = text.trim().parse().ok();
    if found.is_none() {
        let message = format!("`{}` is `{}`, not a number", node.local_name(), text.trim());
        compiler.error(element, message, None);
    }
    found
}
