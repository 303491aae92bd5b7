//! A builder for APIs.

use std::sync::Arc;

use base::Method;
use model::{
    Accepts, Api, ApiState, Cors, LoadedApi, Operation, ScopeRule, Security, Suspension,
    SuspensionTime, UpstreamKind,
};

use crate::Upstream;

/// An API under construction. The name is the base path; no endpoint is suspended unless configured.
#[derive(Clone, Debug)]
pub struct ApiBuilder {
    api: Api,
    state: ApiState,
}

/// An API at `base_path`, version included, without operations or endpoints yet.
#[must_use]
pub fn api(base_path: &str) -> ApiBuilder {
    let name = base_path.trim_start_matches('/').replace('/', "-");
    ApiBuilder {
        api: Api::new(name, "1.0".to_owned(), base_path.to_owned()),
        state: ApiState::Serving,
    }
}

impl ApiBuilder {
    /// Operations that need no token: `GET /pets`, `* /*` (every method).
    #[must_use]
    pub fn open(self, operations: &str) -> Self {
        self.operations(operations, &Security::Open)
    }

    /// Operations that need a token.
    #[must_use]
    pub fn secured(self, operations: &str) -> Self {
        self.operations(operations, &Security::Required(Accepts::token(ScopeRule::Anything)))
    }

    /// Operations that need a token with one of `scopes`.
    #[must_use]
    pub fn any_scope(self, operations: &str, scopes: &[&str]) -> Self {
        let scopes = scopes.iter().map(|&scope| scope.to_owned()).collect();
        self.operations(operations, &Security::Required(Accepts::token(ScopeRule::AnyOf(scopes))))
    }

    /// Operations that need a token with all of `scopes`.
    #[must_use]
    pub fn all_scopes(self, operations: &str, scopes: &[&str]) -> Self {
        let scopes = scopes.iter().map(|&scope| scope.to_owned()).collect();
        self.operations(operations, &Security::Required(Accepts::token(ScopeRule::AllOf(scopes))))
    }

    /// These identity fields are forwarded from every client.
    #[must_use]
    pub fn forward_fields(mut self, names: &[&str]) -> Self {
        self.api.forward_fields = names.iter().map(|&name| name.to_owned()).collect();
        self
    }

    /// Paths with more than one interpretation are rejected.
    #[must_use]
    pub fn strict_paths(mut self) -> Self {
        self.api.strict_paths = true;
        self
    }

    fn operations(mut self, operations: &str, security: &Security) -> Self {
        for operation in operations.split(", ") {
            let (method, template) = operation.split_once(' ').expect("METHOD TEMPLATE");
            let methods: Vec<Method> = match method {
                "*" => Method::NAMED.into_iter().filter(|&m| m != Method::Connect).collect(),
                named => vec![Method::from_bytes(named.as_bytes())],
            };
            self.api.operations.extend(methods.into_iter().map(|method| Operation {
                method,
                template: template.to_owned(),
                security: security.clone(),
                production: None,
                sandbox: None,
                plan: None,
                policies: None,
                response_cache: None,
            }));
        }
        self
    }

    /// Production requests go to `upstream`.
    #[must_use]
    pub fn to(self, upstream: &Upstream) -> Self {
        self.through(UpstreamKind::Single, &[upstream])
    }

    /// Production requests go to each in turn.
    #[must_use]
    pub fn round_robin(self, upstreams: &[&Upstream]) -> Self {
        self.through(UpstreamKind::RoundRobin, upstreams)
    }

    /// Production requests go to the one of two with fewer requests in progress.
    #[must_use]
    pub fn least_requests(self, upstreams: &[&Upstream]) -> Self {
        self.through(UpstreamKind::LeastRequests, upstreams)
    }

    /// Production requests go to the first that is not suspended.
    #[must_use]
    pub fn failover(self, upstreams: &[&Upstream]) -> Self {
        self.through(UpstreamKind::Failover, upstreams)
    }

    fn through(mut self, kind: UpstreamKind, upstreams: &[&Upstream]) -> Self {
        self.api.production = Some(self.add_set(kind, upstreams));
        self
    }

    /// Requests with a sandbox key go to `upstream`.
    #[must_use]
    pub fn sandbox(mut self, upstream: &Upstream) -> Self {
        self.api.sandbox = Some(self.add_set(UpstreamKind::Single, &[upstream]));
        self
    }

    fn add_set(&mut self, kind: UpstreamKind, upstreams: &[&Upstream]) -> usize {
        let endpoints = upstreams.iter().map(|upstream| upstream.endpoint()).collect();
        self.api.upstreams.push(model::Upstream::new(kind, endpoints));
        self.api.upstreams.len() - 1
    }

    /// Suspends an endpoint after so many failures in a row, for so many milliseconds.
    #[must_use]
    pub fn suspend_after(mut self, after_failures: u32, initial_ms: u32) -> Self {
        let lasts =
            SuspensionTime { initial_ms: Some(initial_ms), factor: 1.0, max_ms: initial_ms };
        for upstream in &mut self.api.upstreams {
            upstream.suspension = Suspension::Consecutive {
                failures: after_failures,
                lasts,
                codes: None,
                marks: None,
                mark_ms: 0,
            };
        }
        self
    }

    /// Changes the rules of every endpoint set.
    #[must_use]
    pub fn rules(mut self, change: impl Fn(&mut model::Upstream)) -> Self {
        self.api.upstreams.iter_mut().for_each(change);
        self
    }

    /// Longest wait for a response head, in milliseconds.
    #[must_use]
    pub fn response_head_ms(mut self, ms: u32) -> Self {
        for upstream in &mut self.api.upstreams {
            upstream.response_head_ms = ms;
        }
        self
    }

    /// Cross-origin rules.
    #[must_use]
    pub fn cors(mut self, cors: Cors) -> Self {
        self.api.cors = Some(cors);
        self
    }

    /// The API never loaded.
    #[must_use]
    pub fn unloaded(mut self) -> Self {
        self.state = ApiState::Unloaded;
        self
    }

    /// Changes any other setting.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Api)) -> Self {
        change(&mut self.api);
        self
    }

    /// The API as a part of a snapshot.
    #[must_use]
    pub fn build(self) -> LoadedApi {
        LoadedApi { api: Arc::new(self.api), state: self.state }
    }
}
