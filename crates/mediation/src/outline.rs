//! What artefacts do, for readers: their steps in order, with branches, body use and estimated cost.
//!
//! The order and the words are those of the artefact; what a step needs of the body, and what that costs, is what the
//! compiled program says.

use std::collections::{BTreeSet, HashMap};

use expression::BodyUse;
use model::{ArtefactSet, Place};

use crate::compile::NAMESPACE;
use crate::limits;
use crate::program::{Program, Step};

/// A sequence, a proxy or a resource of an API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    /// `proxy`, `api` or `sequence`.
    pub kind: String,
    pub name: String,
    /// Where clients reach it; empty for a sequence.
    pub address: String,
    /// `inSequence` and the like. Those of an API begin with the resource.
    pub flows: Vec<Branch>,
}

/// Steps, one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Branch {
    /// `then`, `case [A-C]`, `inSequence`, ...
    pub label: String,
    pub steps: Vec<Node>,
}

/// A step of a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The mediator; `endpoint` at the end of a flow that has one.
    pub element: String,
    /// Its attributes.
    pub text: String,
    pub file: String,
    pub place: Place,
    pub body_use: BodyUse,
    /// By estimate.
    pub ns_per_byte: u64,
    /// Names and addresses that it sends to.
    pub sends_to: Vec<String>,
    pub split: Split,
    pub branches: Vec<Branch>,
}

/// Which branches of a step run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// One of them.
    One,
    /// All of them, on the message.
    All,
    /// All of them, each on a message of its own.
    Copies,
}

impl Branch {
    /// Nanoseconds per byte of the most expensive way through the steps.
    #[must_use]
    pub fn ns_per_byte(&self) -> u64 {
        self.steps.iter().map(Node::total_ns_per_byte).sum()
    }

    /// The bodies that pass through, in order, each with the first step that needs it: the body of what comes in, and
    /// those of responses to calls.
    #[must_use]
    pub fn bodies(&self) -> Vec<(String, Option<&Node>)> {
        let mut bodies = vec![("the body".to_owned(), None)];
        self.note_bodies(&mut bodies);
        bodies
    }

    fn note_bodies<'n>(&'n self, bodies: &mut Vec<(String, Option<&'n Node>)>) {
        for node in &self.steps {
            if let Some((_, first @ None)) = bodies.last_mut()
                && node.body_use != BodyUse::Untouched
            {
                *first = Some(node);
            }
            if node.element == "call" {
                let name = format!("the response to `call` in line {}", node.place.line);
                bodies.push((name, None));
            }
            for branch in &node.branches {
                branch.note_bodies(bodies);
            }
        }
    }
}

impl Node {
    /// With the branches.
    fn total_ns_per_byte(&self) -> u64 {
        let branches = self.branches.iter().map(Branch::ns_per_byte);
        let below: u64 = match self.split {
            Split::One => branches.max().unwrap_or_default(),
            Split::All | Split::Copies => branches.sum(),
        };
        self.ns_per_byte.saturating_add(below)
    }

    /// Whether the message does not come to the next step.
    #[must_use]
    pub fn ends(&self) -> bool {
        matches!(self.element.as_str(), "respond" | "drop" | "loopback" | "throwError" | "endpoint")
    }
}

/// The proxies, the APIs and, if there are none, the sequences of `set`, of which `program` is compiled; or what has
/// this `name`.
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
        .collect();
    let steps = program.steps().map(|step| (site(step), step)).collect();
    let reader = Reader { artefacts, steps, program };
    let is_chosen = |node: &xml::Node<'_>, kinds: &[&str]| match name {
        Some(name) => named(*node) == name,
        None => kinds.contains(&node.local_name()),
    };
    let of_kinds = |kinds: &[&str]| -> Vec<Outline> {
        let all = reader.artefacts.iter().filter(|(_, node)| is_chosen(node, kinds));
        all.filter_map(|artefact| reader.outline(*artefact)).collect()
    };
    let services = of_kinds(&["proxy", "api"]);
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
    /// The sequences that were written out, which are not repeated.
    written: BTreeSet<&'w str>,
    depth: usize,
}

impl<'r> Reader<'r> {
    fn outline(&self, artefact: Artefact<'r>) -> Option<Outline> {
        let (_, node) = artefact;
        let (kind, name) = (node.local_name(), named(node).to_owned());
        let mut walk = Walk::default();
        let (address, flows) = match kind {
            "sequence" => (String::new(), vec![self.branch(artefact, "steps", &mut walk)]),
            "template" => {
                let sequence = child(node, "sequence")?;
                let steps = self.branch((artefact.0, sequence), "steps", &mut walk);
                (String::new(), vec![steps])
            }
            "proxy" => {
                let target = child(node, "target")?;
                (format!("/services/{name}"), self.flows((artefact.0, target), "", &mut walk))
            }
            "api" => {
                let resources = children(node).filter(|child| child.local_name() == "resource");
                let api = self.program.apis().iter().find(|api| api.name == name);
                let flows = resources.flat_map(|resource| {
                    let of = |name| resource.attribute("", name);
                    let path = of("uri-template").or(of("url-mapping")).unwrap_or("/*");
                    let methods = of("methods").unwrap_or("*");
                    let prefix = format!("{methods} {path}: ");
                    self.flows((artefact.0, resource), &prefix, &mut walk)
                });
                let flows = flows.collect();
                (api.map(|api| api.base_path.clone()).unwrap_or_default(), flows)
            }
            _ => return None,
        };
        Some(Outline { kind: kind.to_owned(), name, address, flows })
    }

    /// The flows of a proxy's target or of a resource.
    fn flows(
        &self,
        (file, parent): Artefact<'r>,
        prefix: &str,
        walk: &mut Walk<'r>,
    ) -> Vec<Branch> {
        let mut flows = Vec::new();
        for name in ["inSequence", "outSequence", "faultSequence"] {
            let label = format!("{prefix}{name}");
            let mut flow = match (parent.attribute("", name), child(parent, name)) {
                (Some(key), _) => {
                    let steps = self.named_sequence(key, walk).unwrap_or_default();
                    Branch { label: format!("{label} {key}"), steps }
                }
                (None, Some(inline)) => self.branch((file, inline), &label, walk),
                (None, None) if name == "inSequence" => Branch { label, ..Branch::default() },
                (None, None) => continue,
            };
            if name == "inSequence" {
                flow.steps.extend(self.endpoint_of((file, parent)));
            }
            if !flow.steps.is_empty() || name == "inSequence" {
                flows.push(flow);
            }
        }
        flows
    }

    /// The endpoint at the end of a flow.
    fn endpoint_of(&self, (file, parent): Artefact<'r>) -> Option<Node> {
        let (place, sends_to) = match (parent.attribute("", "endpoint"), child(parent, "endpoint"))
        {
            (Some(key), _) => (place(parent), vec![self.endpoint_named(key)]),
            (None, Some(endpoint)) => (place(endpoint), vec![self.endpoint(endpoint)]),
            (None, None) => return None,
        };
        Some(Node {
            element: "endpoint".to_owned(),
            text: String::new(),
            file: file.to_owned(),
            place,
            body_use: BodyUse::Untouched,
            ns_per_byte: 0,
            sends_to,
            split: Split::All,
            branches: Vec::new(),
        })
    }

    /// The mediators inside an element.
    fn branch(&self, (file, parent): Artefact<'r>, label: &str, walk: &mut Walk<'r>) -> Branch {
        walk.depth += 1;
        let steps = match walk.depth > limits::ELEMENT_DEPTH_MAX {
            true => Vec::new(),
            false => children(parent).filter_map(|node| self.node((file, node), walk)).collect(),
        };
        walk.depth -= 1;
        Branch { label: label.to_owned(), steps }
    }

    fn step(&self, (file, node): Artefact<'_>) -> Option<&'r Step> {
        let Place { line, column } = place(node);
        self.steps.get(&(file, line, column)).copied()
    }

    fn node(&self, artefact: Artefact<'r>, walk: &mut Walk<'r>) -> Option<Node> {
        let step = self.step(artefact)?;
        let (file, node) = artefact;
        let mut sends_to = Vec::new();
        let mut branches = Vec::new();
        self.parts(artefact, walk, &mut sends_to, &mut branches);
        Some(Node {
            element: step.element.to_owned(),
            text: attributes(node),
            file: file.to_owned(),
            place: place(node),
            body_use: step.mediator.body_use(),
            ns_per_byte: step.mediator.ns_per_byte(),
            sends_to,
            split: split(step.element),
            branches,
        })
    }

    /// What a step enters and sends to, inside it or by name.
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
            let found = match (node.local_name(), name) {
                ("sequence", "key") if is_step => self.named_sequence(value, walk),
                ("call-template", "target") => self.named_template(value, walk),
                (_, "sequence" | "onError" | "receive") => self.named_sequence(value, walk),
                ("target", "endpoint") => {
                    sends_to.push(self.endpoint_named(value));
                    None
                }
                _ => None,
            };
            let label = match node.local_name() {
                // The step itself says it.
                "sequence" | "call-template" if name != "onError" => String::new(),
                other if name == "sequence" => format!("{other}: sequence {value}"),
                _ => format!("{name}: sequence {value}"),
            };
            branches.extend(found.map(|steps| Branch { label, steps }));
        }
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
                branches.push(self.branch(inner, &label(child), walk));
            } else if walk.depth <= limits::ELEMENT_DEPTH_MAX {
                walk.depth += 1;
                self.parts(inner, walk, sends_to, branches);
                walk.depth -= 1;
            }
        }
    }

    /// `None`: it does not exist, or is written out already.
    fn named_sequence(&self, key: &'r str, walk: &mut Walk<'r>) -> Option<Vec<Node>> {
        let found = self.find("sequence", key)?;
        if !walk.written.insert(key) {
            return None;
        }
        Some(self.branch(found, key, walk).steps)
    }

    fn named_template(&self, key: &'r str, walk: &mut Walk<'r>) -> Option<Vec<Node>> {
        let (file, template) = self.find("template", key)?;
        if !walk.written.insert(key) {
            return None;
        }
        Some(self.branch((file, child(template, "sequence")?), key, walk).steps)
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

/// The URLs in an endpoint, after its kind if it is a group.
fn addresses(endpoint: xml::Node<'_>) -> String {
    let mut found = Vec::new();
    for node in endpoint.descendants().filter(|node| node.is_element()) {
        if let kind @ ("loadbalance" | "failover" | "recipientlist") = node.local_name() {
            found.push(format!("{kind}:"));
        }
        let uri = node.attribute("", "uri").or(node.attribute("", "uri-template"));
        let key = node.attribute("", "key").filter(|_| node != endpoint);
        found.extend(uri.or(key).map(str::to_owned));
    }
    found.join(" ")
}

fn split(element: &str) -> Split {
    match element {
        "filter" | "switch" | "conditionalRouter" | "validate" | "cache" | "throttle" => Split::One,
        "clone" | "iterate" | "scatter-gather" | "foreach" => Split::Copies,
        _ => Split::All,
    }
}

/// Attributes as they are written; those of `sequence` and `call-template` are in their branches too.
fn attributes(node: xml::Node<'_>) -> String {
    let shown = node.attributes().filter(|attribute| {
        let name = attribute.local_name();
        !matches!(name, "description" | "trace" | "statistics") && !attribute.text().is_empty()
    });
    let shown = shown.map(|attribute| {
        let value = attribute.text().split_whitespace().collect::<Vec<_>>().join(" ");
        format!("{}={value}", attribute.local_name())
    });
    shown.collect::<Vec<_>>().join("  ")
}

/// What a branch is called: `then`, `case regex=IBM`.
fn label(node: xml::Node<'_>) -> String {
    format!("{} {}", node.local_name(), attributes(node)).trim().to_owned()
}

fn named<'d>(node: xml::Node<'d>) -> &'d str {
    node.attribute("", "name").unwrap_or_default()
}

fn child<'d>(parent: xml::Node<'d>, name: &str) -> Option<xml::Node<'d>> {
    children(parent).find(|child| child.local_name() == name)
}

fn children<'d>(parent: xml::Node<'d>) -> impl Iterator<Item = xml::Node<'d>> {
    parent.children().filter(|child| child.is_element() && child.namespace() == NAMESPACE)
}

fn place(node: xml::Node<'_>) -> Place {
    let xml::Position { line, column } = node.position();
    Place { line, column }
}

fn site(step: &Step) -> (&str, u32, u32) {
    (&step.site.file, step.site.line, step.site.column)
}
