//! The services of the simulated gateway, and their changes of messages.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use base::Method;
use model::{
    Accepts, Api, ApiState, Artefact, ArtefactKind, ArtefactSet, Endpoint, Issuer, LoadedApi,
    Operation, Place, Policies, Policy, Retry, Scheme, ScopeRule, Security, Snapshot,
    Upstream as EndpointSet, UpstreamKind,
};
use stages::Routes;

use super::issuer::{self, SCOPE};
use super::ledger::Exchange;
use super::message::Framing;
use super::random::Random;
use super::sharing::DEFAULT_AGE_S;
use crate::artefacts::Integration;
use crate::artefacts::policies::PolicyTable;
use crate::message::Serves;
use crate::quota::quotas::Quotas;
use crate::worker::compiled::{Compiled, Live};

/// The service that a request is sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Service {
    /// An API with one endpoint.
    One,
    /// With two endpoints in turn.
    Turn,
    /// With a second endpoint as replacement.
    Next,
    /// Needs a JWT.
    Jwt,
    /// Needs a token that the issuer is asked about.
    Opaque,
    /// Policies add fields, both ways.
    Policies,
    /// Policies read the bodies, both ways, and requests are retried.
    Held,
    /// Responses are cached.
    Cached,
    /// An artefact that forwards with `call`.
    Call,
    /// An artefact that sends a copy elsewhere with `clone`, beside its `call`.
    Clone,
}

/// Where copies of [`Service::Clone`] go.
pub(super) const COPIES_PORT: u16 = 9_008;

const PLAIN: &[Service] = &[Service::One, Service::Turn, Service::Next];

impl Service {
    /// The services of one world.
    pub(super) fn of_world(random: &mut Random) -> &'static [Self] {
        use Service::{Cached, Call, Clone, Held, Jwt, Next, One, Opaque, Policies, Turn};
        match random.below(12) {
            0..=3 => PLAIN,
            4 | 5 => &[Jwt, Jwt, Opaque, Opaque, One],
            6 => &[Policies, Held],
            7 => &[Call, Clone],
            8 | 9 => &[Cached],
            _ => &[One, Turn, Next, Jwt, Opaque, Policies, Held, Cached, Call, Clone],
        }
    }

    pub(super) fn serves(self) -> Serves {
        match self {
            Self::Call | Self::Clone => Serves::Integration,
            Self::One
            | Self::Turn
            | Self::Next
            | Self::Jwt
            | Self::Opaque
            | Self::Policies
            | Self::Held
            | Self::Cached => Serves::Apis,
        }
    }

    pub(super) fn base_path(self) -> &'static str {
        match self {
            Self::One => "/one",
            Self::Turn => "/turn",
            Self::Next => "/next",
            Self::Jwt => "/jwt",
            Self::Opaque => "/opaque",
            Self::Policies => "/policies",
            Self::Held => "/held",
            Self::Cached => "/cached",
            Self::Call => "/call",
            Self::Clone => "/clone",
        }
    }

    /// Whether upstreams get the request's body as one of known length, without trailers.
    fn holds_request(self) -> bool {
        matches!(self, Self::Held | Self::Clone)
    }

    /// Largest number of times that an idempotent request is sent to one place.
    pub(super) fn most_attempts(self) -> usize {
        if self == Self::Held { 3 } else { 2 }
    }

    /// Whether policies or mediators see the messages.
    pub(super) fn mediates(self) -> bool {
        matches!(self, Self::Policies | Self::Held | Self::Call | Self::Clone)
    }

    /// Whether a policy adds fields to requests and to responses.
    pub(super) fn adds_fields(self) -> bool {
        matches!(self, Self::Policies | Self::Held)
    }
}

impl Exchange {
    /// Whether its body may be framed so for upstreams.
    pub(super) fn may_be_framed(&self, forwarded: Framing) -> bool {
        if self.drops_body() {
            return forwarded == Framing::None;
        }
        let whole = Framing::Length(self.len);
        let is_expected = match self.service.holds_request() {
            true => {
                forwarded == whole || self.framing == Framing::None && forwarded == self.framing
            }
            false => forwarded == self.framing,
        };
        // To mediation, a body of no bytes is none.
        is_expected || self.service.mediates() && self.len == 0 && forwarded == Framing::None
    }

    /// Whether upstreams get no body: artefacts send none with `GET`.
    pub(super) fn drops_body(&self) -> bool {
        self.service.serves() == Serves::Integration && self.method == "GET"
    }

    /// Whether upstreams get the trailer. If `Connection` names fields, none is forwarded.
    pub(super) fn forwards_trailer(&self) -> bool {
        self.framing == Framing::Chunked
            && !self.hops
            && !self.service.holds_request()
            && !self.drops_body()
    }
}

/// The configuration of the gateway, compiled.
struct Served {
    routes: Arc<Routes>,
    integration: Arc<Integration>,
    policies: Arc<PolicyTable>,
    quotas: Arc<Quotas>,
}

/// The configuration of the gateway at first, or after it has fetched the issuer's keys.
pub(super) fn compiled(live: Live, has_all_keys: bool) -> Compiled {
    static FIRST: OnceLock<Served> = OnceLock::new();
    static THEN: OnceLock<Served> = OnceLock::new();
    let first = FIRST.get_or_init(|| serve(issuer::issuer(false), None));
    let served = match has_all_keys {
        true => THEN.get_or_init(|| serve(issuer::issuer(true), Some(first))),
        false => first,
    };
    Compiled {
        routes: Arc::clone(&served.routes),
        integration: Arc::clone(&served.integration),
        policies: Arc::clone(&served.policies),
        quotas: Arc::clone(&served.quotas),
        trusts: Arc::default(),
        live: Arc::new(live),
    }
}

fn serve(issuer: Issuer, previous: Option<&Served>) -> Served {
    static APIS: OnceLock<Arc<[LoadedApi]>> = OnceLock::new();
    static ARTEFACTS: OnceLock<Arc<ArtefactSet>> = OnceLock::new();
    let snapshot = Snapshot {
        revision: issuer.revision,
        apis: Arc::clone(APIS.get_or_init(apis)),
        issuers: vec![Arc::new(issuer)],
        artefacts: Arc::clone(ARTEFACTS.get_or_init(|| Arc::new(artefacts()))),
        ..Snapshot::default()
    };
    let routes = Arc::new(Routes::compile(&snapshot, previous.map(|known| &*known.routes)));
    let integration = Integration::compile(
        &snapshot,
        &model::ArtefactRules::default(),
        previous.map(|known| &known.integration),
    );
    assert!(integration.diagnostics.is_empty(), "{:?}", integration.diagnostics);
    Served {
        policies: PolicyTable::compile(&routes, previous.map(|known| &*known.policies)),
        quotas: Quotas::compile(
            &snapshot,
            &routes,
            &integration,
            previous.map(|known| (&*known.routes, &*known.quotas)),
        ),
        routes,
        integration,
    }
}

fn apis() -> Arc<[LoadedApi]> {
    let api = |service: Service, kind, ports: &[u16]| api(service.base_path(), kind, ports);
    let token = Security::Required(Accepts::token(ScopeRule::AnyOf(vec![SCOPE.to_owned()])));
    let (mut jwt, mut opaque) = (
        api(Service::Jwt, UpstreamKind::Single, &[9_001]),
        api(Service::Opaque, UpstreamKind::Single, &[9_002]),
    );
    for operation in jwt.operations.iter_mut().chain(&mut opaque.operations) {
        operation.security = token.clone();
    }
    let mut policies = api(Service::Policies, UpstreamKind::Single, &[9_004]);
    let fields = Arc::new(Policies {
        request: vec![policy("addHeader", &[("headerName", "X-In"), ("headerValue", "in")])],
        response: vec![policy("addHeader", &[("headerName", "X-Out"), ("headerValue", "out")])],
        fault: Vec::new(),
    });
    policies.operations.iter_mut().for_each(|of| of.policies = Some(Arc::clone(&fields)));
    let mut held = api(Service::Held, UpstreamKind::RoundRobin, &[9_005, 9_006]);
    let mut reading = Policies::clone(&fields);
    reading.request.push(policy("regexPolicy", &[("regex", "never to be found")]));
    reading.response.push(policy("jsonValidator", &[]));
    let reading = Arc::new(reading);
    held.operations.iter_mut().for_each(|of| of.policies = Some(Arc::clone(&reading)));
    held.upstreams[0].retry =
        Retry { count: 2, pause_ms: 50, statuses: vec![503], ..Retry::default() };
    let mut cached = api(Service::Cached, UpstreamKind::Single, &[9_007]);
    cached.caches = true;
    cached.operations.iter_mut().for_each(|of| of.response_cache = Some(DEFAULT_AGE_S));
    let apis = [
        api(Service::One, UpstreamKind::Single, &[9_001]),
        api(Service::Turn, UpstreamKind::RoundRobin, &[9_001, 9_002]),
        api(Service::Next, UpstreamKind::Failover, &[9_003, 9_002]),
        jwt,
        opaque,
        policies,
        held,
        cached,
    ];
    Arc::new(apis.map(|api| LoadedApi { api: Arc::new(api), state: ApiState::Serving }))
}

fn policy(name: &str, parameters: &[(&str, &str)]) -> Policy {
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let parameters = parameters.iter().map(own).collect();
    Policy { name: name.to_owned(), parameters, place: Place { line: 1, column: 1 } }
}

fn artefacts() -> ArtefactSet {
    let call = "<call><endpoint><address uri=\"http://127.0.0.1:9004\"/></endpoint></call>";
    let copy = call.replace("9004", &COPIES_PORT.to_string());
    let clone = format!(
        "<clone continueParent=\"true\"><target><sequence>{copy}<drop/></sequence></target></clone>"
    );
    let artefact = |service: Service, steps: String| {
        let path = service.base_path();
        let name = path.trim_start_matches('/');
        let text = format!(
            "<api xmlns=\"http://ws.apache.org/ns/synapse\" name=\"{name}\" context=\"{path}\">\
             <resource methods=\"GET HEAD POST PUT DELETE\" uri-template=\"/*\">\
             <inSequence>{steps}<respond/></inSequence></resource></api>"
        );
        Artefact {
            kind: ArtefactKind::Api,
            name: name.to_owned(),
            version: String::new(),
            file: PathBuf::from(format!("{name}.xml")),
            bytes: text.into_bytes().into(),
            configs: BTreeMap::new(),
            documents: BTreeMap::new(),
            contains: Vec::new(),
            problems: Vec::new(),
            application: None,
        }
    };
    let artefacts =
        vec![artefact(Service::Call, call.to_owned()), artefact(Service::Clone, clone + call)];
    ArtefactSet { artefacts, ..ArtefactSet::default() }
}

pub(crate) fn api(base_path: &str, kind: UpstreamKind, ports: &[u16]) -> Api {
    let endpoint = |port: &u16| Endpoint {
        scheme: Scheme::Http,
        host: "127.0.0.1".to_owned(),
        port: *port,
        path: String::new(),
        authority: format!("127.0.0.1:{port}"),
    };
    let operation = |method| Operation {
        method,
        template: "/*".to_owned(),
        security: Security::Open,
        production: None,
        sandbox: None,
        plan: None,
        policies: None,
        response_cache: None,
    };
    let methods = [Method::Get, Method::Head, Method::Post, Method::Put, Method::Delete];
    Api {
        operations: methods.into_iter().map(operation).collect(),
        upstreams: vec![EndpointSet {
            response_head_ms: 8_000,
            ..EndpointSet::new(kind, ports.iter().map(endpoint).collect())
        }],
        production: Some(0),
        ..Api::new(base_path.to_owned(), "1".to_owned(), base_path.to_owned())
    }
}
