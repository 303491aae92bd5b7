//! Endpoints of several members: which of them get a message, and which one's response counts.

use base::Method;
use mediation::{Code, EndpointKind, Failure, Program, Retry, Target};
use model::{Blame, Fault};

use super::bodies::exhausted;
use super::environment::RunEnvironment;
use super::exchange::Sender;
use crate::body::Held;
use crate::body::held::Holding;
use crate::body::request_body::RequestBody;
use crate::forward::UpstreamResponse;
use crate::own_requests::own_body::OwnBody;
use crate::tasks::boxed::boxed;
use crate::worker::Worker;
use crate::worker::compiled::Compiled;

/// Which targets get a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    One,
    /// The first that can take it.
    FirstReady,
    /// The same, beginning with the one that worked before: a `failover` that is not `dynamic`.
    LastThatWorked,
    All,
}

impl Choice {
    /// Whether the next member gets the message of one that failed.
    fn fails_over(self) -> bool {
        match self {
            Self::FirstReady | Self::LastThatWorked => true,
            Self::One | Self::All => false,
        }
    }
}

impl Sender {
    /// # Errors
    /// As [`Sender::run`].
    pub(super) async fn run_group<B: RequestBody>(
        &self,
        group: &Target,
        worker: &Worker,
        revision: &Compiled,
        body: &mut B,
    ) -> Result<UpstreamResponse, Box<Fault>> {
        let (members, choice) = ordered(worker, self.environment(), group);
        let mut first = None;
        let mut last = None;
        let mut members = members.peekable();
        while let Some((position, target)) = members.next() {
            let sent = if !target.members.is_empty() {
                boxed(|| self.run_group(target, worker, revision, body)).await
            } else if let Some(bytes) = &target.body {
                let mut own = OwnBody::new(Held::new(bytes.clone()), &worker.resources);
                self.run_to(target, worker, revision, &mut own).await
            } else {
                self.run_to(target, worker, revision, body).await
            };
            let is_fault = sent.is_ok() && choice.fails_over() && self.has_fault();
            let goes_on = body.can_restart()
                && match &sent {
                    Ok(_) if is_fault => members.peek().is_some() && self.retries_fault(target),
                    Ok(_) => choice == Choice::All,
                    Err(fault) if choice == Choice::All => fault.blame() == Blame::Upstream,
                    Err(fault) => choice.fails_over() && self.may_send_again(target, fault),
                };
            match sent {
                Ok(response) if first.is_none() && !(is_fault && goes_on) => {
                    if choice == Choice::LastThatWorked && !is_fault {
                        worker.origins.stay(group.endpoint, position);
                    }
                    first = Some((response, self.checked.take()));
                }
                Ok(response) => {
                    self.checked.take();
                    response.release(&worker.resources);
                }
                Err(fault) => last = Some(fault),
            }
            if !goes_on {
                break;
            }
            body.restart();
        }
        let none = || Box::new(Fault::NoReadyChild { authority: "an empty group".to_owned() });
        let (response, checked) = first.ok_or_else(|| last.unwrap_or_else(none))?;
        self.checked.set(checked);
        Ok(response)
    }

    /// Whether another member gets the message after a SOAP fault of `target`, regardless of the method: the message
    /// requests it.
    fn retries_fault(&self, target: &Target) -> bool {
        self.retry(target).is_none_or(|retry| retry.includes(Code::SOAP_FAULT.0))
    }

    fn retry(&self, target: &Target) -> Option<&Retry> {
        let endpoint = target.endpoint.and_then(|id| self.environment().program().endpoint_at(id));
        endpoint.map(|endpoint| &endpoint.retry)
    }

    /// Whether another member than `target` may get the message: nothing of it was sent, or it is safe to repeat.
    fn may_send_again(&self, target: &Target, fault: &Fault) -> bool {
        let retry = self.retry(target);
        if retry.is_some_and(|retry| !retry.includes(fault.code())) {
            return false;
        }
        // An endpoint that lists the code has its requests repeated, regardless of the method.
        let is_listed = matches!(retry, Some(Retry::Only(_)));
        let is_unsent = matches!(
            fault,
            Fault::Unreachable { .. }
                | Fault::ConnectTimeout { .. }
                | Fault::NotReady { .. }
                | Fault::EndpointBusy { .. }
                | Fault::NoReadyChild { .. }
        );
        let is_repeatable = is_listed || Method::from_bytes(self.method()).is_idempotent();
        is_unsent || is_repeatable && fault.blame() == Blame::Upstream
    }
}

/// Whether several targets may get the message, though a part of it was sent to one: its body has to be held.
pub(super) fn repeats(environment: &RunEnvironment, target: &Target) -> bool {
    fn repeats(program: &Program, target: &Target, is_member: bool) -> bool {
        let endpoint = target.endpoint.and_then(|id| program.endpoint_at(id));
        endpoint.is_some_and(|endpoint| endpoint.repeats(is_member))
            || target.members.iter().any(|member| repeats(program, member, true))
    }
    repeats(environment.program(), target, false)
}

/// Charges the bodies that members have of their own, until the exchange is over.
///
/// # Errors
/// The bodies lack room.
pub(super) fn charge_members(holding: &Holding, target: &mut Target) -> Result<(), Failure> {
    if let Some(body) = target.body.take() {
        target.body = Some(holding.hold(body).map_err(|_| exhausted())?);
    }
    target.members.iter_mut().try_for_each(|member| charge_members(holding, member))
}

/// The members of a group in the order in which they are tried.
fn ordered<'t>(
    worker: &Worker,
    environment: &RunEnvironment,
    group: &'t Target,
) -> (impl Iterator<Item = (usize, &'t Target)>, Choice) {
    let endpoint = group.endpoint.and_then(|id| environment.program().endpoint_at(id));
    let (first, choice) = match endpoint.map(|endpoint| &endpoint.kind) {
        Some(EndpointKind::LoadBalance { fails_over, weights, .. }) => {
            let choice = if *fails_over { Choice::FirstReady } else { Choice::One };
            (worker.origins.turn(group.endpoint, weights), choice)
        }
        Some(EndpointKind::RecipientList { .. } | EndpointKind::Recipients(_)) => (0, Choice::All),
        Some(EndpointKind::Failover { fails_back: false, .. }) => {
            (worker.origins.stayed(group.endpoint), Choice::LastThatWorked)
        }
        Some(
            EndpointKind::Failover { fails_back: true, .. }
            | EndpointKind::Address { .. }
            | EndpointKind::Member { .. }
            | EndpointKind::Http { .. }
            | EndpointKind::Upstream
            | EndpointKind::Default
            | EndpointKind::Computed(_),
        )
        | None => (0, Choice::FirstReady),
    };
    let members = group.members.iter().enumerate();
    (members.clone().skip(first).chain(members.take(first)), choice)
}
