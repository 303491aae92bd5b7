//! Outcomes that are recorded at the end of a response's body: an endpoint that cuts off its responses fails.

use std::rc::Rc;

use model::Fault;

use super::balance::{Balancer, Chosen, Probe};

/// An exchange whose response has begun, and whose outcome is not recorded yet. When it is dropped, none is.
#[derive(Debug)]
pub(crate) struct Unjudged {
    balancer: Rc<Balancer>,
    position: usize,
    operation: usize,
    status: u16,
    begun_us: u64,
    /// The endpoint's suspension ends with the outcome.
    _probe: Option<Probe>,
}

/// A body that has streamed for longer is judged before its end, in microseconds: some never end.
const JUDGED_AFTER_US: u64 = 1_000_000;

impl Unjudged {
    /// A response with `status` of the endpoint that was `chosen`, to a request of the operation with this number.
    pub(super) fn new(
        balancer: &Rc<Balancer>,
        chosen: &mut Chosen<'_>,
        operation: usize,
        (status, begun_us): (u16, u64),
    ) -> Self {
        let (balancer, position) = (Rc::clone(balancer), chosen.position);
        Self { balancer, position, operation, status, begun_us, _probe: chosen.probe.take() }
    }

    /// Whether its body has streamed for so long that its end does not matter.
    pub(super) fn is_due(&self, now_us: u64) -> bool {
        now_us.saturating_sub(self.begun_us) >= JUDGED_AFTER_US
    }

    /// Records the outcome. `broke`: the upstream cut the body off, or sent an invalid one.
    pub(super) fn judge(self, broke: bool, now_us: u64) {
        let (balancer, operation) = (&self.balancer, self.operation);
        let Some(endpoint) = balancer.endpoints.get(self.position) else { return };
        if !broke {
            return balancer.responded(endpoint, self.status, operation, now_us);
        }
        let authority = endpoint.authority.to_string();
        let fault = Fault::Truncated { authority, reason: "the body was cut off" };
        if let Some(failure) = balancer.evidence(&fault, operation) {
            balancer.failed(endpoint, failure, now_us);
        }
    }
}
