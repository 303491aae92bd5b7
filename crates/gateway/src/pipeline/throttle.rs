//! Throttling: may this caller send another request now?
//!
//! Life of a request: authorise -> **throttle** -> admit.

use std::cell::OnceCell;
use std::rc::Rc;

use model::{Caller, CredentialKind, Denial, Fault, Grant, KeyPart};
use stages::authorise;
use stages::throttle::{self, Level, Sender};

use crate::exchange::Exchange;
use crate::exchange::route::{Route, Target};
use crate::quota::conditions::Conditions;
use crate::quota::quotas::Quota;
use crate::shares::clients::network;
use crate::worker::compiled::Compiled;

/// Counts the request, unless it is denied or a limit is reached.
///
/// # Errors
/// [`Denial::Blocked`], or the quota that is used up.
pub(super) fn throttle(
    exchange: &mut Exchange<'_>,
    revision: &Compiled,
    route: &Route<'_>,
    caller: Option<Rc<Caller>>,
    grant: Grant,
) -> Result<(), Box<Fault>> {
    let Exchange { worker, request, record, .. } = exchange;
    let quotas = &revision.quotas;
    let (all, of_operation) = match route.target {
        Target::Operation(number) => quotas.of(route.api.routes(), number),
        Target::Service(_) => match quotas.of_service(route.api.routes()) {
            Some(all) => (all, None),
            None => return Ok(()),
        },
    };
    let address = || request.client_address(&revision.live.trusted_proxies);
    if let Some(deny) = quotas.deny() {
        let base_path = &route.api.routes().api.base_path;
        let subscribers = quotas.subscribers.as_deref();
        if deny.denies(base_path, caller.as_deref(), subscribers, address) {
            return Err(Fault::Denied(Denial::Blocked).into());
        }
    }
    let user = caller.as_deref().and_then(|caller| user(revision, caller));
    let routes = route.api.routes();
    let bearer = caller.as_deref().filter(|caller| caller.kind == CredentialKind::Token);
    let met = Conditions {
        request,
        token_field: bearer.map(|_| routes.api.auth_header.as_bytes()),
        address: &address,
        base_path: &routes.api.base_path,
        user,
        caller: bearer,
        kept: quotas.plans.claims(),
        claims: OnceCell::new(),
    };
    let own = [
        (Level::Operation, of_operation),
        (Level::Subscription, grant.subscription),
        (Level::Application, grant.application),
    ];
    let own = own.into_iter().filter_map(|(level, of)| Some((level, of?)));
    let all = all.iter().map(|of| (Level::Api, *of));
    let custom = quotas.plans.custom(&routes.api.base_path).map(|of| (Level::Custom, of));
    let chosen = |(level, of)| (level, quotas.plans.choose(of, |condition| met.meets(condition)));
    let backend = route.operation().and_then(|operation| {
        let environment = authorise::environment(&routes.api, operation, route.key_type);
        Some((Level::Backend, quotas.backend(routes, environment)?))
    });
    let uses = all.chain(own).chain(custom).chain(backend).map(chosen);
    if uses.clone().next().is_none() {
        return Ok(());
    }
    let network = || network(address());
    let values = |parts: &[KeyPart], out: &mut Vec<u8>| met.write(parts, out);
    let sender = Sender { user, network: &network, values: &values };
    let now_ms = worker.quota_ms(record.started_us);
    let mut meters = worker.meters.borrow_mut();
    let admitted = throttle::admit(&mut meters, &quotas.plans, uses, sender, now_ms);
    let denial = admitted.as_ref().err().map(|refused| refused.denial);
    record.quota = Quota::of(admitted);
    denial.map_or(Ok(()), |denial| Err(Fault::Denied(denial).into()))
}

/// `iss` and subject.
fn user<'r>(revision: &'r Compiled, caller: &'r Caller) -> Option<(&'r str, &'r str)> {
    let subject = caller.subject.as_deref()?;
    if caller.kind == CredentialKind::Login {
        return Some(("", subject));
    }
    let issuer = revision.routes.issuers().get(caller.issuer?)?;
    Some((issuer.iss.as_str(), subject))
}
