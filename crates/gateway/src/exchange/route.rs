//! Where a request goes: the result of routing.

use std::rc::Rc;
use std::sync::Arc;

use model::{Denial, Fault, KeyType, Operation, Security};
use stages::authorise;
use stages::sign_in::Session;

use crate::artefacts::Service;
use crate::forward::Balancer;
use crate::message::client_trust::AcceptedFor;
use crate::worker::api::WorkerApi;

/// The operation or service that serves a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    /// The operation of the API with this number.
    Operation(usize),
    /// A service of artefacts.
    Service(Service),
}

/// Where a request goes.
pub(crate) struct Route<'a> {
    /// The API, or the service as an API without operations.
    pub(crate) api: Rc<WorkerApi>,
    pub(crate) target: Target,
    /// The path below the API's base path.
    pub(crate) remainder: &'a [u8],
    /// For which of the API's endpoints the client's certificate is accepted.
    pub(crate) certificate: AcceptedFor,
    /// The key type of the caller's credential or certificate. `None`: the operation needs none.
    pub(crate) key_type: Option<KeyType>,
    /// Whether the caller has presented a token.
    pub(crate) has_token: bool,
    /// The session of a browser, with the token.
    pub(crate) session: Option<Arc<Session>>,
    /// The assertion that identifies the caller to the upstream.
    pub(crate) assertion: Option<Rc<str>>,
    /// The number of the endpoint set, once it is chosen.
    pub(crate) set: usize,
}

impl<'a> Route<'a> {
    /// One whose caller is not known yet.
    pub(crate) fn new(api: Rc<WorkerApi>, target: Target, remainder: &'a [u8]) -> Self {
        Self {
            api,
            target,
            remainder,
            certificate: AcceptedFor::default(),
            key_type: None,
            has_token: false,
            session: None,
            assertion: None,
            set: 0,
        }
    }

    /// The operation. `None`: the request is for a service.
    pub(crate) fn operation(&self) -> Option<&Operation> {
        match self.target {
            Target::Operation(number) => self.api.routes().api.operations.get(number),
            Target::Service(_) => None,
        }
    }

    /// The credentials that the target requires.
    ///
    /// # Errors
    /// The target does not exist, which no route has.
    pub(crate) fn security(&self) -> Result<&Security, Box<Fault>> {
        let security = match self.target {
            Target::Operation(_) => self.operation().map(|operation| &operation.security),
            Target::Service(_) => self.api.routes().api.service.as_ref().map(|of| &of.security),
        };
        Ok(security.ok_or(Fault::Denied(Denial::NoResource))?)
    }

    /// Whether it is a service that any client may call, which is known when it is loaded.
    pub(crate) fn needs_no_caller(&self) -> bool {
        match self.target {
            Target::Operation(_) => false,
            Target::Service(_) => matches!(self.security(), Ok(Security::Open)),
        }
    }

    /// Chooses the endpoints for the caller's kind of key. A service names its own.
    ///
    /// # Errors
    /// The operation has no endpoints of that kind.
    pub(crate) fn choose_endpoints(&mut self) -> Result<(), Box<Fault>> {
        let Some(operation) = self.operation() else { return Ok(()) };
        let set = authorise::upstream(&self.api.routes().api, operation, self.key_type);
        self.set = set.map_err(Fault::Denied)?;
        Ok(())
    }

    /// The endpoints.
    ///
    /// # Errors
    /// The API has none for this kind of key.
    pub(crate) fn balancer(&self) -> Result<&Rc<Balancer>, Box<Fault>> {
        let balancer = self.api.balancers.get(self.set);
        let denial = || match self.key_type {
            Some(KeyType::Sandbox) => Denial::NoSandboxEndpoint,
            Some(KeyType::Production) | None => Denial::NoProductionEndpoint,
        };
        Ok(balancer.ok_or_else(|| Fault::Denied(denial()))?)
    }
}
