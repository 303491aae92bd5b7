//! Looks for SOAP faults in responses, for messages to which these are failures (`FORCE_ERROR_ON_SOAP_FAULT`).

use std::cell::Cell;

use expression::Budget;
use mediation::{Body, Failure, Format, Head as _};

use super::bodies::{exhausted, read_response};
use super::exchange::{self, Sender};
use crate::compiled::Compiled;
use crate::deliver::Stall;
use crate::forward::{OwnBody, UpstreamResponse};
use crate::held::Charge;
use crate::worker::Worker;

/// What the checks of a run's responses may use together: what was left to the run before the first of them.
pub(super) struct Checks {
    budget: Budget,
    charged: Cell<u64>,
}

impl Checks {
    pub(super) fn new(budget: Budget) -> Self {
        Self { budget, charged: Cell::new(0) }
    }

    /// The steps that the run is not charged yet.
    pub(super) fn take_steps(&self) -> u64 {
        let used = self.budget.steps_used();
        used.saturating_sub(self.charged.replace(used))
    }
}

/// A response's body that was read for a check.
pub(super) struct Checked {
    pub(super) body: Result<Body, Failure>,
    is_fault: bool,
    /// For the views of the body, until the run is charged.
    _charge: Charge,
}

impl Sender {
    /// Reads the body of a response if it may be a SOAP fault; then it is in `checked`.
    pub(super) async fn check(
        &self,
        checks: &Checks,
        response: &mut UpstreamResponse,
        (worker, revision): (&Worker, &Compiled),
    ) {
        let format = response.head.field("Content-Type").map(|of| Format::of(&of));
        if !matches!(format, Some(Format::Soap11 | Format::Soap12)) {
            return;
        }
        let (holding, stall) = (worker.holding(&revision.live), Stall::of(&revision.live));
        let client = None::<&mut OwnBody>;
        let read = read_response(worker, &mut response.body, client, &holding, stall).await;
        let read = read.unwrap_or_else(|fault| Err(exchange::failure(&fault)));
        let mut charge = holding.charge();
        let mut is_fault = false;
        let body = read.and_then(|bytes| {
            let head = std::mem::take(&mut response.head);
            let mut message = exchange::response(head, false, self.environment().body_bytes_max);
            message.hold(bytes);
            // If that fails, it fails for the run as well.
            is_fault = matches!(message.soap_fault(&checks.budget), Ok(Some(_)));
            let views = message.body.charged();
            checks.budget.release_memory(views);
            checks.budget.resume();
            response.head = message.head.into_any().downcast().unwrap_or_default();
            charge.resize(views).map_err(|_| exhausted())?;
            Ok(message.body)
        });
        self.checked.set(Some(Box::new(Checked { body, is_fault, _charge: charge })));
    }

    /// Whether the response that was checked last is a SOAP fault.
    pub(super) fn has_fault(&self) -> bool {
        let checked = self.checked.take();
        let is_fault = checked.as_ref().is_some_and(|checked| checked.is_fault);
        self.checked.set(checked);
        is_fault
    }
}
