//! Outlines of artefacts for readers: their steps in order, with branches, body use and estimated cost.
//!
//! The order and the words are those of the artefact. The body use of a step is that of the compiled program; its cost
//! was measured ([`costs`]).

mod bodies;
mod costs;
mod texts;

use std::collections::{BTreeSet, HashMap};

use expression::BodyUse;
use model::{ArtefactSet, Place};

use texts::{addresses, as_handler, child, children, described, label, named, place, split};

use bodies::Switch;

use crate::limits::OUTLINE_NODES_MAX;
pub use bodies::PassingBody;
use mediation::{Api, EndpointId, Program, Step, To, limits};

/// A sequence, a proxy, an API or an inbound endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    /// The element: `proxy`, `api`, `inboundEndpoint`, `sequence` or `template`.
    pub kind: String,
    pub name: String,
    /// Where clients reach it; empty for a sequence.
    pub address: String,
    /// `inSequence` and the like. Headings of an API begin with the resource.
    pub flows: Vec<Branch>,
}

/// Steps, one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Branch {
    /// `then`, `case [A-C]`, `inSequence`, ...
    pub label: String,
    pub entry: Entry,
    /// A sequence or a template that was written out before.
    pub is_repeated: bool,
    pub steps: Vec<Node>,
}

/// The message that comes into a branch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Entry {
    /// The message of the step, or a copy of it.
    #[default]
    Message,
    /// A message that the step made: a part, or joined parts.
    Made,
    /// The response to the request that the step sent.
    Response,
    /// The one with which a step failed.
    Failure,
}

impl Entry {
    /// Whether the message goes on after the step.
    #[must_use]
    pub fn comes_back(self) -> bool {
        matches!(self, Self::Message | Self::Made)
    }
}

/// The sizes of bodies for which [`Node::costs_ns`] is known, in bytes.
pub const COST_BYTES: [u64; 3] = [1_000, 10_000, 100_000];

/// A step of a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The mediator; `endpoint` at the end of a flow that has one.
    pub element: String,
    /// Attributes of the step.
    pub text: String,
    pub file: String,
    pub place: Place,
    pub body_use: BodyUse,
    /// For bodies of [`COST_BYTES`], in nanoseconds, if it needs the body.
    pub costs_ns: [u64; 3],
    /// `call` with a `target`: the response does not take the place of the body.
    pub keeps_body: bool,
    /// `continueParent`, or `continue-without-aggregation`
    pub continues: bool,
    /// Names and addresses that it sends to.
    pub sends_to: Vec<String>,
    pub split: Split,
    /// Settings by its properties for messages that are sent after it.
    switches: Vec<Switch>,
    pub branches: Vec<Branch>,
}

/// Which branches of a step run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// A setting.
    One,
    /// All of them, on the message.
    All,
    /// All of them, each on a message of its own.
    Copies,
}

impl Branch {
    /// Costs of the most expensive way through the steps.
    #[must_use]
    pub fn costs_ns(&self) -> [u64; 3] {
        self.steps
            .iter()
            .fold([0; 3], |sum, node| each(sum, node.all_costs_ns(), u64::saturating_add))
    }
}

fn each(mut one: [u64; 3], other: [u64; 3], combine: fn(u64, u64) -> u64) -> [u64; 3] {
    one.iter_mut().zip(other).for_each(|(one, other)| *one = combine(*one, other));
    one
}

impl Node {
    /// With the branches.
    fn all_costs_ns(&self) -> [u64; 3] {
        let combine = match self.split {
            Split::One => u64::max,
            Split::All | Split::Copies => u64::saturating_add,
        };
        let ways = self.branches.iter().filter(|branch| branch.entry != Entry::Failure);
        let below = ways.fold([0; 3], |all, branch| each(all, branch.costs_ns(), combine));
        each(self.costs_ns, below, u64::saturating_add)
    }

    /// Whether the message does not come to the next step.
    #[must_use]
    pub fn ends(&self) -> bool {
        matches!(self.element.as_str(), "respond" | "drop" | "loopback" | "throwError" | "endpoint")
    }
}

/// The proxies, the APIs, the inbound endpoints and, if there are none, the sequences of `set`, of which `program` is
/// compiled; or the artefact of this `name`. Artefacts with errors are left out.
#[must_use]
pub fn of(set: &ArtefactSet, program: &Program, name: Option<&str>) -> Vec<Outline> {
    let documents = set.artefacts.iter().filter_map(|artefact| {
        let document = xml::Document::parse(&artefact.bytes).ok()?;
        Some((artefact.file.to_string_lossy().into_owned(), document))
    });
    let documents: Vec<_> = documents.collect();
    let roots = documents.iter().filter_map(|(file, document)| Some((file, document.element()?)));
    let artefacts: Vec<Artefact<'_>> = roots
        .flat_map(|(file, root)| {
            let inner = children(root).filter(move |_| root.local_name() == "definitions");
            let own = (root.local_name() != "definitions").then_some(root);
            own.into_iter().chain(inner).map(|node| (file.as_str(), node))
        })
        .filter(|(file, node)| {
            let xml::Position { line, column } = node.position();
            !program.is_broken(file, line, column)
        })
        .collect();
    let steps = program.steps().map(|step| (step.place(), step)).collect();
    let reader = Reader { artefacts, steps, program };
    let is_chosen = |node: &xml::Node<'_>, kinds: &[&str]| match name {
        Some(name) => named(*node) == name,
        None => kinds.contains(&node.local_name()),
    };
    let of_kinds = |kinds: &[&str]| -> Vec<Outline> {
        let all = reader.artefacts.iter().filter(|(_, node)| is_chosen(node, kinds));
        all.filter_map(|artefact| reader.outline(*artefact)).collect()
    };
    let services = of_kinds(&["proxy", "api", "inboundEndpoint"]);
    if services.is_empty() { of_kinds(&["sequence", "template"]) } else { services }
}

/// The file, and an artefact in it.
type Artefact<'d> = (&'d str, xml::Node<'d>);

struct Reader<'r> {
    artefacts: Vec<Artefact<'r>>,
    steps: HashMap<(&'r str, u32, u32), &'r Step>,
    program: &'r Program,
}

/// Where a walk is.
#[derive(Default)]
struct Walk<'w> {
    /// The sequences that were written out before.
    written: BTreeSet<&'w str>,
    /// Sequences that the walk is in.
    within: Vec<&'w str>,
    depth: usize,
    nodes: usize,
}

impl<'r> Reader<'r> {
    fn outline(&self, artefact: Artefact<'r>) -> Option<Outline> {
        let (_, node) = artefact;
        let (kind, name) = (node.local_name(), named(node).to_owned());
        let mut walk = Walk::default();
        let (address, flows) = match kind {
            "sequence" => (String::new(), self.handled(artefact, "steps", &mut walk)),
            "template" => {
                let sequence = child(node, "sequence")?;
                (String::new(), self.handled((artefact.0, sequence), "steps", &mut walk))
            }
            "proxy" => {
                let target = child(node, "target")?;
                let proxy = self.program.proxies().iter().find(|proxy| proxy.name == name);
                let endpoint = proxy.and_then(|proxy| proxy.flow.endpoint);
                let flows = self.flows((artefact.0, target), ("", endpoint), &mut walk);
                (format!("/services/{name}"), flows)
            }
            "api" => {
                let resources = children(node).filter(|child| child.local_name() == "resource");
                let key = model::api_key(&name, node.attribute("", "version"));
                let api = self.program.apis().iter().find(|api| api.key() == key);
                let flows = resources.enumerate().flat_map(|(number, resource)| {
                    let of = |name| resource.attribute("", name);
                    let path = of("uri-template").or(of("url-mapping")).unwrap_or("/*");
                    let methods = of("methods").unwrap_or("*");
                    let prefix = format!("{methods} {path}: ");
                    let compiled =
                        |api: &'r Api| api.resources.iter().find(|of| of.number == number);
                    let endpoint = api.and_then(compiled).and_then(|of| of.flow.endpoint);
                    self.flows((artefact.0, resource), (&prefix, endpoint), &mut walk)
                });
                let flows = flows.collect();
                (api.map(|api| api.base_path.clone()).unwrap_or_default(), flows)
            }
            "inboundEndpoint" => {
                let inbound =
                    self.program.inbounds().iter().find(|inbound| inbound.name == name)?;
                let scheme = if inbound.secure { "https" } else { "http" };
                let sequence = node.attribute("", "sequence").unwrap_or("main");
                let label = format!("sequence {sequence}");
                let mut flows = self.named("sequence", sequence, &label, &mut walk);
                if let Some(key) = node.attribute("", "onError") {
                    let label = format!("onError: sequence {key}");
                    let handlers = self.named("sequence", key, &label, &mut walk);
                    flows.extend(handlers.into_iter().map(as_handler));
                }
                (format!("{scheme}, port {}", inbound.port), flows)
            }
            _ => return None,
        };
        Some(Outline { kind: kind.to_owned(), name, address, flows })
    }

    /// The flows of a proxy's target or of a resource, with the endpoint that is at the end.
    fn flows(
        &self,
        (file, parent): Artefact<'r>,
        (prefix, endpoint): (&str, Option<EndpointId>),
        walk: &mut Walk<'r>,
    ) -> Vec<Branch> {
        let mut flows = Vec::new();
        for name in ["inSequence", "outSequence", "faultSequence"] {
            let label = format!("{prefix}{name}");
            let mut found = match (parent.attribute("", name), child(parent, name)) {
                (Some(key), _) => {
                    let label = format!("{label} {key}");
                    self.named("sequence", key, &label, walk)
                }
                (None, Some(inline)) => self.handled((file, inline), &label, walk),
                (None, None) if name == "inSequence" => {
                    vec![Branch { label, ..Branch::default() }]
                }
                (None, None) => continue,
            };
            if name == "inSequence"
                && let Some(flow) = found.first_mut()
            {
                flow.steps.extend(self.endpoint_of((file, parent), endpoint));
            }
            found.retain(|flow| !flow.steps.is_empty() || name == "inSequence");
            flows.extend(found);
        }
        flows
    }

    /// The endpoint at the end of a flow.
    fn endpoint_of(
        &self,
        (file, parent): Artefact<'r>,
        endpoint: Option<EndpointId>,
    ) -> Option<Node> {
        let (place, sends_to) = match (parent.attribute("", "endpoint"), child(parent, "endpoint"))
        {
            (Some(key), _) => (place(parent), vec![self.endpoint_named(key)]),
            (None, Some(endpoint)) => (place(endpoint), vec![self.endpoint(endpoint)]),
            (None, None) => return None,
        };
        let body_use = endpoint.map(|id| self.program.endpoint_use(id)).unwrap_or_default();
        Some(Node {
            element: "endpoint".to_owned(),
            text: String::new(),
            file: file.to_owned(),
            place,
            body_use,
            costs_ns: costs::of("endpoint", body_use),
            keeps_body: false,
            continues: false,
            sends_to,
            split: Split::All,
            switches: endpoint.map(|id| self.endpoint_switches(id)).unwrap_or_default(),
            branches: Vec::new(),
        })
    }

    /// Settings by the properties of an endpoint for messages sent there.
    fn endpoint_switches(&self, id: EndpointId) -> Vec<Switch> {
        let properties = self.program.endpoint_at(id).map(|endpoint| &*endpoint.properties);
        properties.into_iter().flatten().flat_map(|property| Switch::all_of(&**property)).collect()
    }

    /// The mediators inside an element.
    fn branch(&self, (file, parent): Artefact<'r>, label: &str, walk: &mut Walk<'r>) -> Branch {
        walk.depth += 1;
        let steps = match walk.depth > limits::ELEMENT_DEPTH_MAX {
            true => Vec::new(),
            false => children(parent).filter_map(|node| self.node((file, node), walk)).collect(),
        };
        walk.depth -= 1;
        Branch { label: label.to_owned(), steps, ..Branch::default() }
    }

    /// The mediators inside an element, and those that handle its errors.
    fn handled(&self, artefact: Artefact<'r>, label: &str, walk: &mut Walk<'r>) -> Vec<Branch> {
        let mut branches = vec![self.branch(artefact, label, walk)];
        if let Some(key) = artefact.1.attribute("", "onError") {
            let prefix = label.strip_suffix("steps").unwrap_or(label);
            let label = format!("{prefix} onError: sequence {key}").trim_start().to_owned();
            let handlers = self.named("sequence", key, &label, walk);
            branches.extend(handlers.into_iter().map(as_handler));
        }
        branches
    }

    fn step(&self, (file, node): Artefact<'_>) -> Option<&'r Step> {
        let Place { line, column } = place(node);
        self.steps.get(&(file, line, column)).copied()
    }

    fn node(&self, artefact: Artefact<'r>, walk: &mut Walk<'r>) -> Option<Node> {
        let step = self.step(artefact)?;
        let (file, node) = artefact;
        walk.nodes += 1;
        let mut sends_to = Vec::new();
        let mut branches = Vec::new();
        self.parts(artefact, walk, &mut sends_to, &mut branches);
        if matches!(step.element(), "iterate" | "foreach" | "aggregate" | "cache") {
            let made = branches.iter_mut().filter(|branch| branch.entry == Entry::Message);
            made.for_each(|branch| branch.entry = Entry::Made);
        }
        let mut switches = Switch::all_of(step.mediator());
        let sent = match step.mediator().sends_to() {
            Some(To::Endpoint(id)) => {
                switches.extend(self.endpoint_switches(id));
                self.program.endpoint_use(id)
            }
            Some(To::Implied) | None => BodyUse::Untouched,
        };
        let body_use = step.mediator().body_use().max(sent);
        Some(Node {
            element: step.element().to_owned(),
            text: described(node),
            file: file.to_owned(),
            place: place(node),
            body_use,
            costs_ns: costs::of(step.element(), body_use),
            keeps_body: step.element() == "call" && child(node, "target").is_some(),
            continues: ["continueParent", "continue-without-aggregation"]
                .iter()
                .any(|name| node.attribute("", name) == Some("true")),
            sends_to,
            split: split(step.element()),
            switches,
            branches,
        })
    }

    /// The sequences that a step enters and the endpoints that it sends to, inside it or by name.
    fn parts(
        &self,
        (file, node): Artefact<'r>,
        walk: &mut Walk<'r>,
        sends_to: &mut Vec<String>,
        branches: &mut Vec<Branch>,
    ) {
        for attribute in node.attributes() {
            let (name, value) = (attribute.local_name(), attribute.text());
            let is_step = self.step((file, node)).is_some();
            let label = match node.local_name() {
                // The step itself shows it.
                "sequence" | "call-template" if name != "onError" => String::new(),
                other if name == "sequence" => format!("{other}: sequence {value}"),
                _ => format!("{name}: sequence {value}"),
            };
            match (node.local_name(), name) {
                ("sequence", "key") if !is_step => {}
                ("sequence", "key") => {
                    branches.extend(self.named("sequence", value, &label, walk));
                }
                ("call-template", "target") => {
                    branches.extend(self.named("template", value, &label, walk));
                }
                (_, "onError") => {
                    let handlers = self.named("sequence", value, &label, walk);
                    branches.extend(handlers.into_iter().map(as_handler));
                }
                (_, "receive") => {
                    let mut receiving = self.named("sequence", value, &label, walk);
                    receiving.iter_mut().take(1).for_each(|own| own.entry = Entry::Response);
                    branches.extend(receiving);
                }
                (_, "sequence" | "onAccept" | "onReject") => {
                    branches.extend(self.named("sequence", value, &label, walk));
                }
                ("target", "endpoint") => sends_to.push(self.endpoint_named(value)),
                _ => {}
            }
        }
        // A handler gets the failed message.
        branches.sort_by_key(|branch| branch.entry == Entry::Failure);
        if children(node).any(|child| self.step((file, child)).is_some()) {
            // `filter` without `then`, `in`, `out`.
            branches.push(self.branch((file, node), "", walk));
        }
        for child in children(node).filter(|child| self.step((file, *child)).is_none()) {
            if child.local_name() == "endpoint" {
                sends_to.push(self.endpoint(child));
                continue;
            }
            let inner = (file, child);
            if children(child).any(|child| self.step((file, child)).is_some()) {
                branches.extend(self.handled(inner, &label(child), walk));
            } else if walk.depth <= limits::ELEMENT_DEPTH_MAX {
                walk.depth += 1;
                self.parts(inner, walk, sends_to, branches);
                walk.depth -= 1;
            }
        }
    }

    /// The steps of a sequence or template, and those that handle its errors. None: it does not exist.
    fn named(&self, kind: &str, key: &'r str, label: &str, walk: &mut Walk<'r>) -> Vec<Branch> {
        let Some((file, mut found)) = self.find(kind, key) else { return Vec::new() };
        if kind == "template" {
            let Some(sequence) = child(found, "sequence") else { return Vec::new() };
            found = sequence;
        }
        let is_repeated = !walk.written.insert(key);
        if walk.within.contains(&key) || walk.nodes > OUTLINE_NODES_MAX {
            let label = label.to_owned();
            return vec![Branch { label, is_repeated: true, ..Branch::default() }];
        }
        walk.within.push(key);
        let mut branches = self.handled((file, found), label, walk);
        walk.within.pop();
        branches.iter_mut().for_each(|branch| branch.is_repeated |= is_repeated);
        branches
    }

    fn find(&self, kind: &str, name: &str) -> Option<Artefact<'r>> {
        let is_it = |node: xml::Node<'_>| node.local_name() == kind && named(node) == name;
        self.artefacts.iter().copied().find(|(_, node)| is_it(*node))
    }

    fn endpoint_named(&self, key: &str) -> String {
        let Some((_, node)) = self.find("endpoint", key) else { return key.to_owned() };
        match addresses(node).as_str() {
            "" => key.to_owned(),
            addresses => format!("{key} {addresses}"),
        }
    }

    fn endpoint(&self, node: xml::Node<'_>) -> String {
        let of = |name| node.attribute("", name).filter(|value| !value.is_empty());
        if let Some(key) = of("key") {
            return self.endpoint_named(key);
        }
        let name = of("name").or(of("key-expression")).or(of("template"));
        let all = [name.unwrap_or_default(), &addresses(node)].join(" ");
        match all.trim() {
            "" => "the message's own address".to_owned(),
            text => text.to_owned(),
        }
    }
}
