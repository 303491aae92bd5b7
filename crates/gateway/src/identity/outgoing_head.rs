//! The head of a request as upstreams and mediators get it, with the fields that the gateway removes and adds.
//!
//! Life of a request: admit -> **prepare** -> mediate -> forward. Operations, policies and services share this code, so
//! that upstreams get the same fields from each of them.

use super::credentials;
use crate::exchange::Exchange;
use crate::exchange::route::Route;
use crate::forward::IDENTITY;
use crate::message::{HeadEdits, Request};
use crate::worker::compiled::Compiled;

/// Removes the identity fields and the credentials of the client, and adds its certificate and the assertion of who it
/// is.
pub(crate) fn prepare(
    exchange: &Exchange<'_>,
    revision: &Compiled,
    route: &Route<'_>,
    edits: &mut HeadEdits,
) {
    let Exchange { worker, request, .. } = exchange;
    let (api, live) = (&route.api.routes().api, &revision.live);
    if !request.peer.trusted {
        hide_identity(request, &api.forward_fields, edits);
    }
    credentials::hide(request, api, &live.logins, edits);
    worker.forwarded_certificates.write(request, edits);
    if let Some(signer) = &live.backend_jwt {
        signer.write(route.assertion.as_deref(), edits);
    }
}

/// `kept`: the fields that the API forwards from every client, in lower case.
fn hide_identity(request: &Request, kept: &[String], edits: &mut HeadEdits) {
    if kept.is_empty() {
        edits.remove_known(IDENTITY);
        return;
    }
    for field in request.head.fields().iter().filter(|field| IDENTITY.contains(field.known)) {
        let name = field.name.of(&request.bytes);
        if !kept.iter().any(|kept| name.eq_ignore_ascii_case(kept.as_bytes())) {
            edits.remove(name);
        }
    }
}
