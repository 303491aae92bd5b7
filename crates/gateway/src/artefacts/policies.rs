//! The compiled policies of APIs.

use std::collections::HashMap;
use std::sync::Arc;

use mediation::{ApiPolicies, OperationFlow};
use stages::{ApiRoutes, Routes};

/// The policies of all APIs. Workers share them.
#[derive(Default)]
pub(crate) struct PolicyTable {
    /// By slot in the routes.
    apis: HashMap<u32, Arc<Served>>,
}

pub(crate) struct Served {
    routes: Arc<ApiRoutes>,
    pub(crate) policies: ApiPolicies,
}

impl PolicyTable {
    /// Compiles the policies of `routes`; those of unchanged APIs are kept.
    pub(crate) fn compile(routes: &Routes, previous: Option<&Self>) -> Arc<Self> {
        let apis = routes.apis().filter_map(|routes| {
            let known = previous.and_then(|previous| previous.apis.get(&routes.slot));
            if let Some(known) = known.filter(|known| Arc::ptr_eq(&known.routes, routes)) {
                return Some((routes.slot, Arc::clone(known)));
            }
            let policies = ApiPolicies::compile(&routes.api)?;
            let routes = Arc::clone(routes);
            Some((routes.slot, Arc::new(Served { routes, policies })))
        });
        Arc::new(Self { apis: apis.collect() })
    }

    pub(crate) fn find(
        &self,
        routes: &ApiRoutes,
        operation: usize,
    ) -> Option<(&Arc<Served>, OperationFlow)> {
        let served = self.apis.get(&routes.slot)?;
        let flow = served.policies.operations.get(operation).copied().flatten()?;
        Some((served, flow))
    }
}
