//! CORS fields of responses. The rules are in `stages::cors`.

use std::sync::Arc;

use base::Method;
use stages::{ApiRoutes, cors};
use wire::http1::Known;

use crate::request::Request;
use crate::respond::OwnResponse;

/// The response to a CORS preflight. `None` if the request is not a preflight, the API has no CORS rules, or the
/// path has no methods.
pub(crate) fn preflight(
    request: &Request,
    api: Option<&Arc<ApiRoutes>>,
    remainder: &[u8],
) -> Option<OwnResponse> {
    let api = api.filter(|_| request.head.method() == Method::Options)?;
    let rules = api.api.cors.as_ref()?;
    let value = |known| request.head.find(known).map(|field| field.value.of(&request.bytes));
    let origin = value(Known::Origin)?;
    let requested = value(Known::AccessControlRequestMethod)?;
    let resource = api.methods(remainder);
    if resource.is_empty() {
        return None;
    }
    let headers = value(Known::AccessControlRequestHeaders);
    let mut lines = Vec::new();
    if let Some(allowed) = cors::preflight(rules, origin, requested, headers, resource) {
        allowed.append(&mut lines);
    }
    vary(rules, &mut lines);
    Some(OwnResponse { status: 204, lines, body: Vec::new(), content_type: None })
}

/// Appends the CORS fields of the response to an actual request.
pub(crate) fn append(request: &Request, api: &ApiRoutes, out: &mut Vec<u8>) {
    let Some(rules) = &api.api.cors else { return };
    let origin = request.head.find(Known::Origin).map(|field| field.value.of(&request.bytes));
    if let Some(allowed) = origin.and_then(|origin| cors::simple(rules, origin)) {
        allowed.append(out);
    }
    vary(rules, out);
}

fn vary(rules: &model::Cors, out: &mut Vec<u8>) {
    if cors::varies(rules) {
        out.extend_from_slice(b"Vary: Origin\r\n");
    }
}
