//! Compiled artefacts: sequences and endpoints by number.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use expression::mapping::Rules;
use expression::{BodyUse, Expression};
use model::BackendClient;

use crate::limits;
use crate::message::PropertyValue;
use crate::program::{Api, CachePolicy, Entry, Inbound, Mediator, Proxy};

/// The property with the envelope as it was before `foreach`, behind the `id` of the mediator.
pub(crate) const ORIGINAL: &str = "FOREACH_ORIGINAL_MESSAGE";

/// A sequence of a [`Program`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SequenceId(pub(crate) u32);

/// An endpoint of a [`Program`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EndpointId(pub(crate) u32);

impl EndpointId {
    /// Below the number of endpoints of its program.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A position in an artefact, for messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Site {
    pub(crate) file: Arc<str>,
    pub(crate) line: u32,
    pub(crate) column: u32,
}

impl fmt::Display for Site {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// A mediator and its place: `log at orders.xml:3:5`.
#[derive(Debug)]
pub struct Step {
    pub(crate) element: &'static str,
    pub(crate) site: Site,
    pub(crate) mediator: Box<dyn Mediator>,
    /// Whether one of its expressions reads `To`, which may be in the envelope.
    pub(crate) reads_to: bool,
}

impl Step {
    #[must_use]
    pub fn element(&self) -> &'static str {
        self.element
    }

    #[must_use]
    pub fn mediator(&self) -> &dyn Mediator {
        &*self.mediator
    }

    /// The file, the line and the column of its element.
    #[must_use]
    pub fn place(&self) -> (&str, u32, u32) {
        (&self.site.file, self.site.line, self.site.column)
    }
}

impl fmt::Display for Step {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{} at {}", self.element, self.site)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Sequence {
    pub(crate) steps: Vec<Step>,
    /// Takes over when a step fails.
    pub(crate) on_error: Option<SequenceId>,
}

/// All compiled artefacts of an integration runtime. Immutable; shared by its workers.
#[derive(Debug, Default)]
pub struct Program {
    pub(crate) sequences: Vec<Sequence>,
    pub(crate) sequence_names: HashMap<String, SequenceId>,
    pub(crate) endpoint_names: HashMap<String, EndpointId>,
    /// Other names of these.
    pub(crate) endpoint_aliases: HashMap<String, EndpointId>,
    pub(crate) endpoints: Vec<Endpoint>,
    /// Names of endpoints inside other artefacts, which nothing refers to.
    pub(crate) inner_names: HashMap<EndpointId, String>,
    pub(crate) templates: HashMap<String, Template>,
    pub(crate) proxies: Vec<Proxy>,
    pub(crate) apis: Vec<Api>,
    pub(crate) inbounds: Vec<Inbound>,
    /// Where the artefacts begin that have errors: file, line and column.
    pub(crate) broken: BTreeSet<(Arc<str>, u32, u32)>,
    /// Local entries, and the registry by path, if a message may name one.
    pub(crate) entries: HashMap<String, Entry>,
    /// Local entries that `get-property()` names.
    pub(crate) entry_values: HashMap<String, PropertyValue>,
    /// Values that expressions read as `configs.NAME`.
    pub(crate) configs: HashMap<String, String>,
    /// Whether an artefact mentions [`ORIGINAL`].
    pub(crate) keeps_original: bool,
    /// Between JSON and XML; `None`: the default.
    pub(crate) mapping: Option<Arc<Rules>>,
    pub(crate) caches: Vec<CachePolicy>,
    /// The number of them.
    pub(crate) throttles: usize,
    /// The `id`s of the throttles.
    pub(crate) throttle_groups: Vec<String>,
    /// The body use of each sequence, with all sequences that it may enter.
    pub(crate) body_uses: Vec<BodyUse>,
    /// Which sequences [`Program::passes_through`] may follow.
    pub(crate) passable: Vec<bool>,
}

impl Program {
    /// The sequence of this name.
    #[must_use]
    pub fn sequence(&self, name: &str) -> Option<SequenceId> {
        self.sequence_names.get(name).copied()
    }

    /// The named sequences.
    pub fn sequences(&self) -> impl Iterator<Item = (&str, SequenceId)> {
        self.sequence_names.iter().map(|(name, id)| (name.as_str(), *id))
    }

    /// The endpoint of this name.
    #[must_use]
    pub fn endpoint(&self, name: &str) -> Option<EndpointId> {
        self.endpoint_names.get(name).or_else(|| self.endpoint_aliases.get(name)).copied()
    }

    /// An endpoint by number.
    #[must_use]
    pub fn endpoint_at(&self, id: EndpointId) -> Option<&Endpoint> {
        self.endpoints.get(id.0 as usize)
    }

    /// The charset that bodies for an endpoint are written in; of a group, that of the first member that has one.
    pub(crate) fn charset_of(&self, id: EndpointId) -> Option<&str> {
        let endpoint = self.endpoint_at(id)?;
        if endpoint.charset.is_some() || endpoint.kind.members().is_empty() {
            return endpoint.charset.as_deref();
        }
        let mut left = vec![id];
        // A group may be a member of itself.
        for _ in 0..limits::TARGETS_MAX {
            let endpoint = self.endpoint_at(left.pop()?)?;
            if let Some(charset) = &endpoint.charset {
                return Some(charset);
            }
            left.extend(endpoint.kind.members().iter().rev());
        }
        None
    }

    /// The name of an endpoint, for tools.
    #[must_use]
    pub fn endpoint_name(&self, id: EndpointId) -> Option<&str> {
        let mut named = self.endpoint_names.iter();
        let outer = named.find(|(_, known)| **known == id).map(|(name, _)| name);
        outer.or_else(|| self.inner_names.get(&id)).map(String::as_str)
    }

    #[must_use]
    pub fn proxies(&self) -> &[Proxy] {
        &self.proxies
    }

    #[must_use]
    pub fn apis(&self) -> &[Api] {
        &self.apis
    }

    /// Values that expressions read as `configs.NAME`.
    #[must_use]
    pub fn config(&self, name: &str) -> Option<&str> {
        self.configs.get(name).map(String::as_str)
    }

    #[must_use]
    pub fn inbounds(&self) -> &[Inbound] {
        &self.inbounds
    }

    /// Maps between JSON and XML as these properties of Synapse say. Invalid ones were reported already.
    pub fn map_json(&mut self, properties: &BTreeMap<&'static str, String>) {
        let mut rules = Rules::DEFAULT;
        let valid = properties.iter().filter(|(name, value)| rules.set(name, value).is_ok());
        self.mapping = (valid.count() > 0).then(|| Arc::new(rules));
    }

    /// The body use of a run of `sequence`, with all sequences that it may enter.
    #[must_use]
    pub fn body_use(&self, sequence: SequenceId) -> BodyUse {
        self.body_uses.get(sequence.0 as usize).copied().unwrap_or(BodyUse::Rewritten)
    }

    /// An endpoint's use of the body of messages sent there, with its members, as far as it is known without a message.
    #[must_use]
    pub fn endpoint_use(&self, id: EndpointId) -> BodyUse {
        let (mut all, mut seen) = (BodyUse::Untouched, BTreeSet::new());
        let mut rest = vec![(id, false)];
        while let Some((id, is_member)) = rest.pop() {
            let Some(endpoint) = self.endpoint_at(id).filter(|_| seen.insert((id, is_member)))
            else {
                continue;
            };
            let repeated =
                if endpoint.repeats(is_member) { BodyUse::Read } else { BodyUse::Untouched };
            all = all.max(endpoint.body_use()).max(repeated);
            rest.extend(endpoint.kind.members().iter().map(|member| (*member, true)));
        }
        all
    }

    /// Whether the artefact that begins at this place has errors, or uses one that has.
    #[must_use]
    pub fn is_broken(&self, file: &str, line: u32, column: u32) -> bool {
        self.broken.contains(&(file.into(), line, column))
    }

    /// The entry that a message names, and its key.
    pub(crate) fn entry(&self, key: &str) -> Option<(&str, &Entry)> {
        let in_registry = || self.entries.get_key_value(&model::resource_path(key)?);
        let found = self.entries.get_key_value(key).or_else(in_registry);
        found.map(|(key, entry)| (key.as_str(), entry))
    }

    /// The steps of all sequences.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.sequences.iter().flat_map(|sequence| &sequence.steps)
    }

    pub(crate) fn get(&self, sequence: SequenceId) -> Option<&Sequence> {
        self.sequences.get(sequence.0 as usize)
    }

    /// Computes the body use of each sequence: the maximum over everything that it can reach.
    pub(crate) fn link(&mut self) {
        for (number, api) in self.apis.iter_mut().enumerate() {
            api.number = number;
        }
        let reach = |sequence: &Sequence| {
            let own = sequence.steps.iter().map(|step| step.mediator.body_use()).max();
            let next = sequence.steps.iter().flat_map(|step| step.mediator.enters());
            (own.unwrap_or_default(), next.chain(sequence.on_error).collect::<Vec<_>>())
        };
        let edges: Vec<_> = self.sequences.iter().map(reach).collect();
        let mut uses: Vec<BodyUse> = edges.iter().map(|(own, _)| *own).collect();
        // Needs only grow, and there are three of them: this ends after a few rounds, cycles included.
        loop {
            let mut grew = false;
            for (at, (_, next)) in edges.iter().enumerate() {
                let most = next.iter().filter_map(|id| uses.get(id.0 as usize)).max().copied();
                if let (Some(most), Some(mine)) = (most, uses.get_mut(at))
                    && most > *mine
                {
                    (*mine, grew) = (most, true);
                }
            }
            if !grew {
                break;
            }
        }
        self.body_uses = uses;
        self.find_passable();
    }
}

/// A sequence template.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    pub(crate) sequence: SequenceId,
    pub(crate) parameters: Vec<TemplateParameter>,
}

/// A parameter of a sequence template, which `$func:name` reads.
#[derive(Clone, Debug)]
pub(crate) struct TemplateParameter {
    pub(crate) name: String,
    pub(crate) default: Option<String>,
    pub(crate) mandatory: bool,
}

/// Where messages are sent.
#[derive(Clone, Debug, Default)]
pub struct Endpoint {
    pub kind: EndpointKind,
    pub format: Option<EndpointFormat>,
    pub timeout: Timeout,
    /// The longest wait for the response, in milliseconds, if the message sets it.
    pub(crate) timeout_of: Option<Expression>,
    /// `None`: by the host's own rule.
    pub suspend: Option<Suspend>,
    /// Whether a group tries its next member after an error of this one.
    pub retry: Retry,
    pub credentials: Option<Credentials>,
    /// `enableAddressing`
    pub(crate) addressing: Option<Addressing>,
    /// The address in a WSDL.
    pub is_wsdl: bool,
    /// As a member of a group by weight.
    pub(crate) weight: Option<u32>,
    /// The charset that bodies are written in, regardless of `CHARACTER_SET_ENCODING`: see [`Program::charset_of`].
    pub(crate) charset: Option<Box<str>>,
    /// Properties set on every message that is sent there; empty for a member of a group.
    pub properties: Arc<[Box<dyn Mediator>]>,
}

impl Endpoint {
    /// Its use of the body of messages sent there; for a group, without its members. Addressing reads bodies of SOAP
    /// only.
    #[must_use]
    pub fn body_use(&self) -> BodyUse {
        let converts = self.format.and_then(EndpointFormat::content_type).is_some();
        if converts || self.addressing.is_some() {
            BodyUse::Rewritten
        } else if self.repeats(false) {
            BodyUse::Read
        } else {
            BodyUse::Untouched
        }
    }

    /// Whether several targets may get the message, though a part of it was sent to one: its body has to be held.
    /// `is_member`: of a group.
    #[must_use]
    pub fn repeats(&self, is_member: bool) -> bool {
        let is_list =
            matches!(self.kind, EndpointKind::RecipientList { .. } | EndpointKind::Recipients(_));
        is_list || is_member && matches!(self.retry, Retry::Only(_))
    }
}

/// `retryConfig`: the errors after which a group tries its next member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Retry {
    #[default]
    All,
    /// `enabledErrorCodes`
    Only(Vec<u32>),
    /// `disabledErrorCodes`
    Not(Vec<u32>),
}

impl Retry {
    /// Whether another member is tried after an error with this code.
    #[must_use]
    pub fn includes(&self, code: u32) -> bool {
        match self {
            Self::All => true,
            Self::Only(codes) => codes.contains(&code),
            Self::Not(codes) => !codes.contains(&code),
        }
    }
}

/// `authentication` of an endpoint.
#[derive(Clone)]
pub enum Credentials {
    /// Source: RFC 7617.
    Basic { user: Expression, password: Expression },
    /// A token that the host gets from this server.
    Token(Box<BackendClient>),
}

/// Secrets are never printed.
impl fmt::Debug for Credentials {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("Credentials")
    }
}

/// The version of WS-Addressing whose header blocks a SOAP message gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Addressing {
    /// Source: Web Services Addressing 1.0.
    Final,
    /// Source: its submission of August 2004.
    Submission,
}

/// Kind of endpoint. The host chooses the member of a group.
#[derive(Clone, Debug, Default)]
pub enum EndpointKind {
    /// A fixed URL; `REST_URL_POSTFIX` is appended, unless SOAP is sent.
    Address { uri: String },
    /// A host, which gets the path of the message at the address with the scheme of the request, if it has that one.
    Member { http: Option<String>, https: Option<String> },
    /// A template with `{uri.var.name}`, of which one at the beginning may hold a whole URL.
    Http { method: Option<String>, template: String },
    /// The endpoints that the host has for the operation, unless the message has an address (`To`); `REST_URL_POSTFIX`
    /// is appended.
    Upstream,
    /// The message's own address (`To`); `REST_URL_POSTFIX` is appended.
    #[default]
    Default,
    /// Another endpoint, whose name is known when the message is there.
    Computed(Expression),
    /// A group whose members take turns; the next one after a failure if `fails_over`.
    LoadBalance { members: Vec<EndpointId>, weights: Vec<u32>, fails_over: bool },
    /// The first that is not suspended; after a failure the next one.
    Failover { members: Vec<EndpointId>, fails_back: bool },
    /// All of them at once; each response continues on its own after a `send`, and after a `call` the first one counts.
    RecipientList { members: Vec<EndpointId> },
    /// All addresses in this text, separated by commas.
    Recipients(Expression),
}

impl EndpointKind {
    /// Members that get one message, written once for all of them.
    pub(crate) fn members(&self) -> &[EndpointId] {
        match self {
            Self::LoadBalance { members, .. } | Self::Failover { members, .. } => members,
            Self::Address { .. }
            | Self::Member { .. }
            | Self::Http { .. }
            | Self::Upstream
            | Self::Default
            | Self::Computed(_)
            | Self::RecipientList { .. }
            | Self::Recipients(_) => &[],
        }
    }
}

/// Format that an endpoint expects, regardless of the message's `messageType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointFormat {
    Soap11,
    Soap12,
    /// XML without an envelope.
    Pox,
    /// As it is.
    Rest,
    /// A `GET` with the children of the payload as its query.
    Get,
}

impl EndpointFormat {
    pub(crate) fn content_type(self) -> Option<&'static str> {
        match self {
            Self::Soap11 => Some("text/xml"),
            Self::Soap12 => Some("application/soap+xml"),
            Self::Pox => Some("application/xml"),
            Self::Get => Some("application/x-www-form-urlencoded"),
            Self::Rest => None,
        }
    }
}

/// `timeout` of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeout {
    /// Longest wait for the response, in milliseconds.
    pub ms: u32,
    pub action: TimeoutAction,
}

impl Default for Timeout {
    fn default() -> Self {
        Self { ms: limits::ENDPOINT_TIMEOUT_MS, action: TimeoutAction::Fault }
    }
}

/// Action when the time is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeoutAction {
    /// The error handler takes over.
    Fault,
    /// The message is dropped.
    Discard,
}

/// When an endpoint is suspended, and for how long. Source: Synapse's `suspendOnFailure` and `markForSuspension`.
#[derive(Clone, Debug, PartialEq)]
pub struct Suspend {
    /// The errors that suspend it at once, perhaps none; absent: all that do not mark it.
    pub codes: Option<Vec<u32>>,
    /// Zero: it is never suspended. `None`: the default, regardless of the maximum.
    pub initial_ms: Option<u32>,
    /// Below zero, as tools write -1: each suspension after the first lasts as long as the default, regardless of the
    /// maximum.
    pub factor: f64,
    pub maximum_ms: u32,
    /// The errors after which it is only marked.
    pub marking_codes: Vec<u32>,
    /// Tries that a marked endpoint has before it is suspended.
    pub retries: u32,
    /// How long it waits before each of them.
    pub retry_delay_ms: u32,
}

impl Default for Suspend {
    fn default() -> Self {
        // A timeout, and a connection that was closed. Source: Synapse's `AbstractEndpoint.isTimeout`.
        let (codes, marking_codes) = (None, vec![101_504, 101_505]);
        Self {
            codes,
            initial_ms: None,
            factor: 1.0,
            maximum_ms: u32::MAX,
            marking_codes,
            retries: 0,
            retry_delay_ms: 0,
        }
    }
}
