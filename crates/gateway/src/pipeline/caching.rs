//! Requests and responses that pass through the response cache.
//!
//! Life of a request: admit -> mediate (**look up**) -> forward -> mediate (**conclude**) -> deliver. Requests are
//! authenticated and authorised before they come here. The stored response is the one sent to the client: a [`Tap`]
//! copies it, and stores it after the last byte. Stale responses with an `ETag` are validated instead of fetched.

use std::rc::Rc;
use std::sync::Arc;

use base::Method;
use base::limits::RESPONSE_CACHE_BODY_BYTES_MAX;
use bytes::Bytes;
use stages::ApiRoutes;
use stages::authenticate::places::write_query;
use wire::http1::{BodyFraming, Known};

use crate::body::{Held, Tap};
use crate::cache::{Directives, Freshness, Key, Stored, rules};
use crate::exchange::cross_origin;
use crate::exchange::response::{Body, Response};
use crate::message::{Framing, Head, HeadEdits, Request};
use crate::worker::Worker;

/// Result of a look-up in the cache.
pub(crate) enum Looked {
    /// The stored response.
    Hit(Box<Response>),
    /// The request is forwarded; [`Caching::conclude`] gets its response.
    Miss(Box<Caching>),
    /// The request does not concern the cache.
    Bypass,
}

/// A request that is forwarded, and whose response the cache looks at.
pub(crate) struct Caching {
    worker: Rc<Worker>,
    routes: Arc<ApiRoutes>,
    key: Key,
    /// The stale response that is validated.
    stale: Option<Rc<Stored>>,
    /// Whether the request is one whose response may be stored.
    stores: bool,
    /// The upstream learns who the client is.
    is_personal: bool,
    /// How long responses are stored that do not say it, in seconds.
    default_s: u64,
    /// The cache's number of invalidations when the request came.
    invalidations: u64,
}

/// Looks for a stored response.
///
/// - `set`: the endpoints that the request would go to.
/// - `is_personal`: the request identifies the client to the upstream. Only responses that may be shared nevertheless
///   are used (RFC 9111 section 3.5).
/// - `default_s`: how long responses without a lifetime of their own are stored. `None`: responses of the operation are
///   not stored, but an unsafe request that succeeds invalidates.
pub(super) fn look_up(
    worker: &Worker,
    routes: &Arc<ApiRoutes>,
    set: usize,
    request: &Request,
    is_personal: bool,
    default_s: Option<u32>,
) -> Looked {
    let head = &request.head;
    let method = head.method();
    let concerns_it =
        method == Method::Get && head.find(Known::Upgrade).is_none() && default_s.is_some();
    if method.is_safe() && !concerns_it {
        return Looked::Bypass;
    }
    let control = Directives::of_request(request);
    let is_empty = matches!(head.framing(), BodyFraming::None | BodyFraming::Length(0));
    let is_plain = is_empty && head.find(Known::Range).is_none();
    let mut caching = Caching {
        worker: worker.this(),
        routes: Arc::clone(routes),
        key: key(routes, set, request, request.secure),
        stale: None,
        stores: method == Method::Get && is_plain && !control.no_store,
        is_personal,
        default_s: default_s.unwrap_or_default().into(),
        invalidations: worker.responses.invalidations(),
    };
    if method != Method::Get || !is_plain {
        return Looked::Miss(Box::new(caching));
    }
    let now_us = worker.resources.coarse_us();
    let found = worker.responses.find(&caching.key, routes, request);
    match found.filter(|stored| stored.freshness.is_shared || !is_personal) {
        Some(stored) if stored.is_fresh(now_us) && !control.no_cache && !control.no_store => {
            Looked::Hit(Box::new(response(worker, &stored, request)))
        }
        // A client that validates its own copy gets the upstream's answer to that.
        Some(stored) if stored.etag.is_some() && !is_conditional(request) => {
            caching.stale = Some(stored);
            Looked::Miss(Box::new(caching))
        }
        Some(_) | None => Looked::Miss(Box::new(caching)),
    }
}

fn is_conditional(request: &Request) -> bool {
    let names = ["if-match", "if-none-match", "if-modified-since", "if-unmodified-since"];
    names.iter().any(|name| rules::request_values(request, name.as_bytes()).next().is_some())
}

/// The key of a request. Two requests with one key differ at most in the fields that `Vary` names.
fn key(routes: &ApiRoutes, set: usize, request: &Request, secure: bool) -> Key {
    let (head, bytes) = (&request.head, request.bytes.as_slice());
    let mut key = Vec::with_capacity(64);
    key.extend_from_slice(&routes.slot.to_le_bytes());
    key.extend_from_slice(&set.to_le_bytes());
    // Upstreams build links from the scheme and the host of the request.
    key.push(u8::from(secure));
    key.extend_from_slice(&head.host(bytes).to_ascii_lowercase());
    key.push(b' ');
    key.extend_from_slice(head.path(bytes));
    if let Some(query) = head.query(bytes) {
        key.push(b'?');
        write_query(&routes.api.key_places, query, &mut key);
    }
    key.into()
}

/// A stored response as the client gets it: 304 if it has it.
fn response(worker: &Worker, stored: &Stored, request: &Request) -> Response {
    let mut head = worker.resources.head();
    let mut etags = rules::request_values(request, b"if-none-match");
    let has_it =
        stored.etag.as_deref().is_some_and(|etag| etags.any(|all| rules::matches(all, etag)));
    head.edits.set_status(if has_it { 304 } else { 200 });
    head.edits.lines_mut().extend_from_slice(&stored.lines);
    let age_s = stored.age_s(worker.resources.coarse_us());
    head.edits.append(b"Age", age_s.to_string().as_bytes());
    let body = match has_it || stored.body.is_empty() {
        true => Body::Empty,
        false => Body::Held(Held::new(stored.body.clone())),
    };
    Response { head, body, tap: None }
}

impl Caching {
    /// Makes the request conditional, if a stale response is validated.
    pub(crate) fn validate(&self, edits: &mut HeadEdits) {
        if let Some(etag) = self.stale.as_ref().and_then(|stale| stale.etag.as_deref()) {
            edits.append(b"If-None-Match", etag);
        }
    }

    /// Looks at the upstream's response: returns the stored one if that is still valid, else `response`, which may be
    /// stored while it passes.
    pub(crate) fn conclude(self, request: &Request, response: Response) -> Response {
        let mut response = response;
        let status = response.head.status();
        if !request.head.method().is_safe() {
            invalidate(&self.worker, &self.routes, request, status);
            return response;
        }
        if status == 304
            && let Some(stale) = &self.stale
        {
            return self.renew(stale, request, response);
        }
        let freshness = match rules::storable(&response.head, self.is_personal, self.default_s) {
            Some(freshness) if self.stores => freshness,
            Some(_) | None => return response,
        };
        let stored = self.stored(request, &response.head, Bytes::new(), freshness);
        response.tap = Recorder::begin(self.worker, stored, self.invalidations);
        response
    }

    /// The response to be stored: without the fields that the gateway adds itself.
    fn stored(&self, request: &Request, head: &Head, body: Bytes, freshness: Freshness) -> Stored {
        let mut lines = Vec::new();
        for (name, value) in head.fields(Framing::Length(0)) {
            if !name.eq_ignore_ascii_case(b"age") && !cross_origin::owns(&self.routes, name) {
                wire::http1::write::field(&mut lines, name, value);
            }
        }
        let varies = rules::vary(head).map(|name| {
            let values = rules::request_values(request, name);
            (Box::from(name), values.map(Box::from).collect())
        });
        Stored {
            varies: varies.collect(),
            etag: rules::values(head, "etag").next().map(Box::from),
            lines: lines.into(),
            body,
            freshness,
            arrived_us: self.worker.resources.coarse_us(),
            key: Rc::clone(&self.key),
            routes: Arc::downgrade(&self.routes),
        }
    }

    /// The stored response is valid for another lifetime. Source: RFC 9111 section 4.3.4.
    fn renew(&self, stale: &Rc<Stored>, request: &Request, validated: Response) -> Response {
        let mut head = self.worker.resources.head();
        head.edits.set_status(200);
        for line in stale.lines.split_inclusive(|byte| *byte == b'\n') {
            let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
            let text = std::str::from_utf8(name).unwrap_or_default();
            if rules::values(&validated.head, text).next().is_none() {
                head.edits.lines_mut().extend_from_slice(line);
            }
        }
        for (name, value) in validated.head.fields(Framing::Length(0)) {
            head.edits.append(name, value);
        }
        validated.release(&self.worker.resources, true);
        let freshness = rules::storable(&head, self.is_personal, self.default_s);
        let lasts = freshness.unwrap_or_default();
        let renewed = self.stored(request, &head, stale.body.clone(), lasts);
        self.worker.resources.release_head(head);
        let response = response(&self.worker, &renewed, request);
        let responses = &self.worker.responses;
        let is_current = responses.invalidations() == self.invalidations;
        let stays = freshness.is_some() && self.stores && is_current;
        if stays && responses.reserve(renewed.size()) {
            responses.insert(renewed);
        }
        response
    }
}

/// Removes the stored responses for the target of an unsafe request that succeeded. Source: RFC 9111 section 4.4.
pub(super) fn invalidate(worker: &Worker, routes: &ApiRoutes, request: &Request, status: u16) {
    if request.head.method().is_safe() || !(200..400).contains(&status) {
        return;
    }
    for set in 0..routes.api.upstreams.len() {
        for secure in [false, true] {
            worker.responses.invalidate(&key(routes, set, request, secure));
        }
    }
}

/// Copies a response while it passes.
struct Recorder {
    worker: Rc<Worker>,
    stored: Option<Stored>,
    body: Vec<u8>,
    /// Bytes of the cache that are taken.
    reserved: usize,
    /// The cache's number of invalidations when the request came.
    invalidations: u64,
}

impl Recorder {
    fn begin(worker: Rc<Worker>, stored: Stored, invalidations: u64) -> Option<Box<dyn Tap>> {
        let reserved = stored.size();
        let has_room = worker.responses.reserve(reserved);
        has_room.then(|| {
            let (stored, body) = (Some(stored), Vec::new());
            Box::new(Self { worker, stored, body, reserved, invalidations }) as Box<dyn Tap>
        })
    }
}

impl Tap for Recorder {
    fn pass(&mut self, bytes: &[u8]) {
        if self.stored.is_none() {
            return;
        }
        let len = self.body.len().saturating_add(bytes.len());
        if len <= RESPONSE_CACHE_BODY_BYTES_MAX && self.worker.responses.reserve(bytes.len()) {
            self.reserved = self.reserved.saturating_add(bytes.len());
            self.body.extend_from_slice(bytes);
        } else {
            (self.stored, self.body) = (None, Vec::new());
        }
    }

    fn end(mut self: Box<Self>, is_complete: bool) {
        let is_current = self.worker.responses.invalidations() == self.invalidations;
        if let Some(mut stored) = self.stored.take().filter(|_| is_complete && is_current) {
            stored.body = std::mem::take(&mut self.body).into();
            self.reserved = 0;
            self.worker.responses.insert(stored);
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.worker.responses.release(self.reserved);
    }
}
