//! Endpoints of several members: which of them get a message, and which one's response counts.

use base::Method;
use mediation::{EndpointKind, Failure, Program, Retry, Target};
use model::{Blame, Fault};

use super::bodies::exhausted;
use super::environment::RunEnvironment;
use super::exchange::Sender;
use crate::compiled::Compiled;
use crate::flow::Held;
use crate::forward::{OwnBody, UpstreamResponse};
use crate::held::Holding;
use crate::request_body::RequestBody;
use crate::worker::Worker;

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
        for (position, target) in members {
            let sent = if !target.members.is_empty() {
                Box::pin(self.run_group(target, worker, revision, body)).await
            } else if let Some(bytes) = &target.body {
                let mut own = OwnBody::new(Held::new(bytes.clone()), &worker.resources);
                self.run_to(target, worker, revision, &mut own).await
            } else {
                self.run_to(target, worker, revision, body).await
            };
            let goes_on = match &sent {
                Ok(_) => choice == Choice::All,
                Err(fault) => match choice {
                    Choice::One => false,
                    Choice::FirstReady | Choice::LastThatWorked => {
                        self.may_send_again(target, fault)
                    }
                    Choice::All => fault.blame() == Blame::Upstream,
                },
            };
            match sent {
                Ok(response) if first.is_none() => {
                    if choice == Choice::LastThatWorked {
                        worker.origins.stay(group.endpoint, position);
                    }
                    first = Some(response);
                }
                Ok(response) => response.release(&worker.resources),
                Err(fault) => last = Some(fault),
            }
            if !goes_on || !body.can_restart() {
                break;
            }
            body.restart();
        }
        let none = || Box::new(Fault::NoReadyChild { authority: "an empty group".to_owned() });
        first.ok_or_else(|| last.unwrap_or_else(none))
    }

    /// Whether another member than `target` may get the message: nothing of it was sent, or it is safe to repeat.
    fn may_send_again(&self, target: &Target, fault: &Fault) -> bool {
        let endpoint = target.endpoint.and_then(|id| self.environment().program().endpoint_at(id));
        let retry = endpoint.map(|endpoint| &endpoint.retry);
        if retry.is_some_and(|retry| !retry.includes(fault.code())) {
            return false;
        }
        // Who lists the code wants it repeated, whatever the method.
        let is_listed = matches!(retry, Some(Retry::Only(_)));
        let is_unsent = matches!(
            fault,
            Fault::Unreachable { .. }
                | Fault::ConnectTimeout { .. }
                | Fault::NotReady { .. }
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
/// There is no room for them.
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
