//! Throttling: may this caller send another request now?
//!
//! Life of a request: authorise -> **throttle** -> admit.

use std::cell::OnceCell;
use std::rc::Rc;

use model::{Caller, CredentialKind, Denial, Fault, Grant};
use stages::throttle::{self, Level, Sender};

use crate::clients::network;
use crate::compiled::Compiled;
use crate::conditions::Conditions;
use crate::exchange::Exchange;
use crate::quotas::Quota;
use crate::route::Route;

/// Counts the request, unless it is denied or a limit is reached.
///
/// # Errors
/// [`Denial::Blocked`], or the quota that is used up.
pub(crate) fn throttle(
    exchange: &mut Exchange<'_>,
    revision: &Compiled,
    route: &Route<'_>,
    caller: Option<Rc<Caller>>,
    grant: Grant,
) -> Result<(), Box<Fault>> {
    let Exchange { worker, request, record, .. } = exchange;
    let quotas = &revision.quotas;
    let address = || request.client_address(&revision.live.trusted_proxies);
    if let Some(deny) = &quotas.deny {
        let base_path = &route.api.routes().api.base_path;
        let subscribers = quotas.subscribers.as_deref();
        if deny.denies(base_path, caller.as_deref(), subscribers, address) {
            return Err(Fault::Denied(Denial::Blocked).into());
        }
    }
    let (of_api, of_operation) = quotas.of(route.api.routes(), route.operation);
    let mut uses = [
        (Level::Api, of_api),
        (Level::Operation, of_operation),
        (Level::Subscription, grant.subscription),
        (Level::Application, grant.application),
    ];
    if quotas.plans.has_conditions() {
        let is_token = |caller: &Rc<Caller>| matches!(caller.kind, CredentialKind::Token);
        let caller = caller.as_ref().filter(|caller| is_token(caller)).map(|caller| &**caller);
        let token_field = caller.map(|_| route.api.routes().api.auth_header.as_bytes());
        let (kept, claims) = (quotas.plans.claims(), OnceCell::new());
        let met = Conditions { request, token_field, address: &address, caller, kept, claims };
        for of in uses.iter_mut().filter_map(|(_, of)| of.as_mut()) {
            *of = quotas.plans.choose(*of, |condition| met.meets(condition));
        }
    }
    if uses.iter().all(|(_, uses)| uses.is_none()) {
        return Ok(());
    }
    let user = caller.as_ref().and_then(|caller| {
        let subject = caller.subject.as_deref()?;
        if caller.kind == CredentialKind::Login {
            return Some(("", subject));
        }
        let issuer = revision.routes.issuers().get(caller.issuer?)?;
        Some((issuer.iss.as_str(), subject))
    });
    let network = || network(address());
    let sender = Sender { user, network: &network };
    let now_ms = worker.quota_ms(record.started_us);
    let mut meters = worker.meters.borrow_mut();
    let admitted = throttle::admit(&mut meters, &quotas.plans, &uses, sender, now_ms);
    let denial = admitted.as_ref().err().map(|refused| refused.denial);
    record.quota = Quota::of(admitted);
    denial.map_or(Ok(()), |denial| Err(Fault::Denied(denial).into()))
}
