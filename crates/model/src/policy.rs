//! Policies as an API's file lists them: checked, but not compiled.

use crate::Place;

/// The policies of an operation, in the order in which they run: the API's own come first. Operations share them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policies {
    /// Policies that run before the request is sent.
    pub request: Vec<Policy>,
    /// Policies that run before the response is sent.
    pub response: Vec<Policy>,
    /// Policies that run on the response to a fault.
    pub fault: Vec<Policy>,
}

impl Policies {
    /// Whether any policy is for requests or responses, not only for faults.
    #[must_use]
    pub fn mediate_exchanges(&self) -> bool {
        !self.request.is_empty() || !self.response.is_empty()
    }

    #[must_use]
    pub fn flow(&self, flow: PolicyFlow) -> &[Policy] {
        match flow {
            PolicyFlow::Request => &self.request,
            PolicyFlow::Response => &self.response,
            PolicyFlow::Fault => &self.fault,
        }
    }
}

/// A policy by its name. `mediation` has the table of policies, and compiles them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    pub name: String,
    /// Parameters in file order. Names are unique.
    pub parameters: Vec<(String, String)>,
    pub place: Place,
}

/// When a policy runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PolicyFlow {
    Request,
    Response,
    Fault,
}

impl PolicyFlow {
    pub const ALL: [Self; 3] = [Self::Request, Self::Response, Self::Fault];

    /// The name of the flow in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Response => "response",
            Self::Fault => "fault",
        }
    }
}
