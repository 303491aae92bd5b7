//! The gateway's part of CORS: which answers carry which fields. The rules are `stages::cors`.

use std::sync::Arc;

use base::Method;
use stages::{ApiRoutes, cors};
use wire::http1::Known;

use crate::call::Call;
use crate::respond::Local;

/// The answer to a preflight for a resource of `api`, when this is one and the API has CORS rules.
pub(crate) fn preflight(
    call: &Call,
    api: Option<&Arc<ApiRoutes>>,
    remainder: &[u8],
) -> Option<Local> {
    let api = api.filter(|_| call.head.method() == Method::Options)?;
    let rules = api.api.cors.as_ref()?;
    let value = |known| call.head.find(known).map(|field| field.value.of(&call.bytes));
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
    Some(Local { status: 204, lines, body: Vec::new(), content_type: None })
}

/// Appends the fields for the answer to an actual request.
pub(crate) fn append(call: &Call, api: &ApiRoutes, out: &mut Vec<u8>) {
    let Some(rules) = &api.api.cors else { return };
    let origin = call.head.find(Known::Origin).map(|field| field.value.of(&call.bytes));
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
