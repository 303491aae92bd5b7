//! CORS fields of responses. The rules are in `stages::cors`.

use base::Method;
use model::MethodSet;
use stages::{ApiRoutes, cors};
use wire::http1::{Known, KnownSet};

use crate::message::{HeadEdits, Request};

/// CORS fields of the upstream, replaced if the API has CORS rules.
const CORS: KnownSet = KnownSet::of(&[
    Known::AccessControlAllowCredentials,
    Known::AccessControlAllowHeaders,
    Known::AccessControlAllowMethods,
    Known::AccessControlAllowOrigin,
    Known::AccessControlExposeHeaders,
    Known::AccessControlMaxAge,
]);

/// The field lines of the 204 to a CORS preflight. `None` if the request is not a preflight, the API has no CORS
/// rules, or the path has no methods: `resource`.
pub(crate) fn preflight(
    request: &Request,
    api: &ApiRoutes,
    resource: impl FnOnce() -> MethodSet,
) -> Option<Vec<u8>> {
    if request.head.method() != Method::Options {
        return None;
    }
    let rules = api.api.cors.as_ref()?;
    let value = |known| request.head.find(known).map(|field| field.value.of(&request.bytes));
    let origin = value(Known::Origin)?;
    let requested = value(Known::AccessControlRequestMethod)?;
    let resource = resource();
    if resource.is_empty() {
        return None;
    }
    let headers = value(Known::AccessControlRequestHeaders);
    let mut lines = Vec::new();
    if let Some(allowed) = cors::preflight(rules, origin, requested, headers, resource) {
        allowed.append(&mut lines);
    }
    vary(rules, &mut lines);
    Some(lines)
}

/// Gives the response to an actual request its CORS fields, if the API has rules.
pub(crate) fn mediate(request: &Request, api: &ApiRoutes, edits: &mut HeadEdits) {
    let Some(rules) = &api.api.cors else { return };
    edits.remove_known(CORS);
    let origin = request.head.find(Known::Origin).map(|field| field.value.of(&request.bytes));
    if let Some(allowed) = origin.and_then(|origin| cors::simple(rules, origin)) {
        allowed.append(edits.lines_mut());
    }
    vary(rules, edits.lines_mut());
}

/// Whether responses of `api` get a field of this name from the gateway alone.
pub(crate) fn owns(api: &ApiRoutes, name: &[u8]) -> bool {
    api.api.cors.is_some() && CORS.contains(Known::of(name))
}

fn vary(rules: &model::Cors, out: &mut Vec<u8>) {
    if cors::varies(rules) {
        out.extend_from_slice(b"Vary: Origin\r\n");
    }
}
