//! Looks for SOAP faults in responses, for messages to which these are failures (`FORCE_ERROR_ON_SOAP_FAULT`).

use std::cell::Cell;
use std::net::IpAddr;

use bytes::Bytes;
use expression::Budget;
use mediation::{Body, Code, Failure, Format, Head as _, Message, PlainHead};
use tokio::sync::Mutex;

use super::bodies::{exhausted, read_response};
use super::exchange::{self, Sender};
use crate::account::bump;
use crate::body::held::Charge;
use crate::forward::UpstreamResponse;
use crate::message::Head;
use crate::own_requests::own_body::OwnBody;
use crate::worker::Worker;
use crate::worker::compiled::{Compiled, Stall};

/// Limits shared by the checks of a run's responses: the budget left to the run before the first of them.
pub(super) struct Checks {
    /// A check takes it along to its thread, and others wait for it.
    budget: Mutex<Budget>,
    /// The client of the request, for its turn for heavy work.
    client: IpAddr,
    used: Cell<u64>,
    charged: Cell<u64>,
}

impl Checks {
    pub(super) fn new(budget: Budget, client: IpAddr) -> Self {
        Self { budget: Mutex::new(budget), client, used: Cell::new(0), charged: Cell::new(0) }
    }

    /// The steps that the run is not charged yet.
    pub(super) fn take_steps(&self) -> u64 {
        let used = self.used.get();
        used.saturating_sub(self.charged.replace(used))
    }

    /// Looks at a message, on a thread for heavy work if that takes long.
    async fn look(&self, message: Box<Message>, worker: &Worker) -> Result<Looked, Failure> {
        let mut shared = self.budget.lock().await;
        let budget = shared.clone();
        let looked = if message.is_long_to_check() {
            bump(&worker.tally.heavy_work);
            let looked = worker.heavy.run(self.client, move || Looked::at(message, budget)).await;
            let looked = looked.map_err(|fault| exchange::failure(&fault))?;
            looked.ok_or_else(|| Failure::new(Code::MEDIATION, "the check for a fault panicked"))?
        } else {
            Looked::at(message, budget)
        };
        self.used.set(looked.budget.steps_used());
        shared.clone_from(&looked.budget);
        Ok(looked)
    }
}

/// A message that was looked at.
struct Looked {
    message: Box<Message>,
    is_fault: bool,
    budget: Budget,
}

impl Looked {
    fn at(message: Box<Message>, budget: Budget) -> Self {
        // If that fails, it fails for the run as well.
        let is_fault = matches!(message.soap_fault(&budget), Ok(Some(_)));
        budget.release_memory(message.body.charged());
        budget.resume();
        Self { message, is_fault, budget }
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
        let holding = worker.holding(&revision.live, &self.peer);
        let stall = Stall::of(&revision.live);
        let client = None::<&mut OwnBody>;
        let read = read_response(worker, &mut response.body, client, &holding, stall).await;
        let mut charge = holding.charge();
        let mut is_fault = false;
        let body = match read.unwrap_or_else(|fault| Err(exchange::failure(&fault))) {
            Ok(bytes) => self.looked_at(checks, &mut response.head, bytes, worker).await,
            Err(failure) => Err(failure),
        };
        let body = body.and_then(|looked| {
            is_fault = looked.is_fault;
            let body = looked.message.body;
            charge.resize(body.charged()).map_err(|_| exhausted())?;
            Ok(body)
        });
        self.checked.set(Some(Box::new(Checked { body, is_fault, _charge: charge })));
    }

    /// The response with this body, without its head.
    async fn looked_at(
        &self,
        checks: &Checks,
        head: &mut Box<Head>,
        bytes: Bytes,
        worker: &Worker,
    ) -> Result<Looked, Failure> {
        let taken = std::mem::take(head);
        let mut message = exchange::response(taken, false, self.environment().body_bytes_max);
        message.hold(bytes);
        let mut looked = checks.look(message, worker).await?;
        let nothing = Box::<PlainHead>::default();
        let own = std::mem::replace(&mut looked.message.head, nothing);
        *head = own.into_any().downcast().unwrap_or_default();
        Ok(looked)
    }

    /// Whether the response that was checked last is a SOAP fault.
    pub(super) fn has_fault(&self) -> bool {
        let checked = self.checked.take();
        let is_fault = checked.as_ref().is_some_and(|checked| checked.is_fault);
        self.checked.set(checked);
        is_fault
    }
}
