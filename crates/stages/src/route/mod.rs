//! Routing: from host, method and path to an API and its operation.
//!
//! Life of a request: listen -> **route** -> authenticate. Reads host, method and normalised path; returns
//! [`Found`] or [`NotFound`]. Searches the host's table, the longest base path in it, then the API's templates.
//! The API with the longest base path decides alone: if none of its templates matches, no shorter base path is
//! tried.
//!
//! `HEAD` and `OPTIONS` must be declared like other methods, as in WSO2.
//!
//! Paths, base paths and templates are compared unescaped, so that escapes do not bypass a template; `%2F` is
//! never a separator. The path is forwarded as normalised by `wire`.
//!
//! Architecture invariant: a lookup allocates nothing unless the path has escapes, and its cost is limited by
//! the length of the path and the number of templates.

mod hosts;
mod slots;
mod template;
mod trie;

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod reference;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::Arc;

use base::Method;
use model::{Api, ApiState, Denial, Issuer, KeyType, LoadedApi, MethodSet, Operation, Snapshot};

use crate::hash::mix;
use crate::plans::key_of;
use crate::subscribers::api_key;

use hosts::Hosts;
use slots::PreviousRoutes;
use trie::Trie;

/// A snapshot compiled for lookups. Immutable, and shared by the workers.
#[derive(Debug)]
pub struct Routes {
    revision: u64,
    issuers: Vec<Arc<Issuer>>,
    table: Arc<Table>,
}

/// The compiled APIs, shared by successive [`Routes`] while none of them changes.
#[derive(Debug)]
struct Table {
    source: Arc<[LoadedApi]>,
    apis: Vec<Arc<ApiRoutes>>,
    hosts: Hosts,
    slots: usize,
}

/// A compiled API, shared by successive [`Routes`] while the API is unchanged.
#[derive(Debug)]
pub struct ApiRoutes {
    /// A small number that identifies the API (name, version, base path and hosts) across edits.
    pub slot: u32,
    pub api: Arc<Api>,
    pub state: ApiState,
    /// Identifies the API in its version, for subscriptions and quotas.
    pub key: u64,
    trie: Trie,
}

/// The API and operation of a request.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a, 'p> {
    pub api: &'a Arc<ApiRoutes>,
    /// Index in `api.api.operations`.
    pub operation: usize,
    /// The path after the base path that matched: empty, or starts with `/`.
    pub remainder: &'p [u8],
}

/// The reason why no operation was found.
#[derive(Clone, Copy, Debug)]
pub struct NotFound<'a, 'p> {
    /// `NoApi`, `NoResource`, `MethodNotAllowed`, `UnsupportedTransport` or `ApiUnloaded`.
    pub denial: Denial,
    /// `None` only with `NoApi`.
    pub api: Option<&'a Arc<ApiRoutes>>,
    /// The methods of the path, with `MethodNotAllowed`.
    pub allow: MethodSet,
    /// The path after the base path that matched; empty with `NoApi`.
    pub remainder: &'p [u8],
}

impl Routes {
    /// Finds the operation. `host` is the authority as sent, port included; `path` is normalised by
    /// `wire`; `secure`: the request came over TLS.
    ///
    /// # Errors
    /// [`NotFound`], with the first of these reasons: no API, not loaded, not on this listener, no template, no
    /// method.
    pub fn find<'a, 'p>(
        &'a self,
        host: &[u8],
        method: Method,
        path: &'p [u8],
        secure: bool,
    ) -> Result<Found<'a, 'p>, NotFound<'a, 'p>> {
        let (api, remainder) = self.api(host, path).ok_or(NotFound::NO_API)?;
        let not_found = |denial, allow| NotFound { denial, api: Some(api), allow, remainder };
        match api.state {
            ApiState::Serving => {}
            ApiState::Unloaded => return Err(not_found(Denial::ApiUnloaded, MethodSet::EMPTY)),
        }
        if !api.is_served_on(secure) {
            return Err(not_found(Denial::UnsupportedTransport, MethodSet::EMPTY));
        }
        match api.operation(method, remainder) {
            Ok(operation) => Ok(Found { api, operation, remainder }),
            Err(MethodSet::EMPTY) => Err(not_found(Denial::NoResource, MethodSet::EMPTY)),
            Err(allow) => Err(not_found(Denial::MethodNotAllowed, allow)),
        }
    }

    fn api<'p>(&self, host: &[u8], path: &'p [u8]) -> Option<(&Arc<ApiRoutes>, &'p [u8])> {
        if !matches!(path, [] | [b'/', ..]) {
            return None; // `OPTIONS *` concerns the server, not an API.
        }
        let plain = template::canonical(path);
        let (index, end) = self.table.hosts.find(host, &plain)?;
        let end = match &plain {
            Cow::Borrowed(_) => end,
            Cow::Owned(plain) => escaped_len(plain.get(..end)?, path),
        };
        Some((self.table.apis.get(index as usize)?, path.get(end..)?))
    }

    #[must_use]
    pub fn issuers(&self) -> &[Arc<Issuer>] {
        &self.issuers
    }

    /// The compiled APIs in the order of the snapshot.
    pub fn apis(&self) -> impl Iterator<Item = &Arc<ApiRoutes>> {
        self.table.apis.iter()
    }

    /// Whether all APIs are the same, in the same slots.
    #[must_use]
    pub fn has_apis_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.table, &other.table)
    }

    /// The revision of the snapshot.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// One more than the highest [`ApiRoutes::slot`].
    #[must_use]
    pub fn slots(&self) -> usize {
        self.table.slots
    }
}

/// The length in `path` of the segments that `prefix` holds unescaped.
fn escaped_len(prefix: &[u8], path: &[u8]) -> usize {
    let slashes = prefix.iter().filter(|byte| **byte == b'/').count();
    let mut starts = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    starts.nth(slashes).map_or(path.len(), |(at, _)| at)
}

impl NotFound<'_, '_> {
    const NO_API: Self =
        Self { denial: Denial::NoApi, api: None, allow: MethodSet::EMPTY, remainder: b"" };
}

impl ApiRoutes {
    /// The operation for `remainder`, the path below the base path.
    ///
    /// # Errors
    /// The methods of the matching templates if none has `method`; empty if no template matches.
    pub fn operation(&self, method: Method, remainder: &[u8]) -> Result<usize, MethodSet> {
        self.trie.find(method, remainder)
    }

    /// All methods of the templates that match `remainder`, for a preflight.
    #[must_use]
    pub fn methods(&self, remainder: &[u8]) -> MethodSet {
        // No operation has this method, so the error lists all methods.
        self.trie.find(Method::Other, remainder).err().unwrap_or_default()
    }

    /// Identifies an operation across edits, for its quota.
    #[must_use]
    pub fn operation_key(&self, operation: &Operation) -> u64 {
        let Operation { method, template, .. } = operation;
        mix(self.key, key_of(&[method.as_str(), template]))
    }

    /// Identifies a service in one of its plans. Each of them has counts of its own, and none are those of an API.
    #[must_use]
    pub fn service_key(&self, plan: &str) -> u64 {
        mix(self.key, key_of(&["service", &plan.to_ascii_lowercase()]))
    }

    /// Identifies the API's endpoints of a type, for their limit.
    #[must_use]
    pub fn backend_key(&self, key_type: KeyType) -> u64 {
        let name = match key_type {
            KeyType::Production => "production",
            KeyType::Sandbox => "sandbox",
        };
        mix(self.key, key_of(&["backend", name]))
    }

    fn is_served_on(&self, secure: bool) -> bool {
        if secure { self.api.transports.https } else { self.api.transports.http }
    }
}

impl Routes {
    /// Compiles `snapshot`. If its APIs are the allocation of `previous`, they are reused. Otherwise, an API that is
    /// the same `Arc`, in the same state, is reused; an edited one keeps its slot. The slot of a removed API is reused
    /// only by a later change.
    #[must_use]
    pub fn compile(snapshot: &Snapshot, previous: Option<&Self>) -> Self {
        let (revision, issuers) = (snapshot.revision, snapshot.issuers.clone());
        let previous = previous.map(|previous| &previous.table);
        let same = previous.filter(|table| Arc::ptr_eq(&table.source, &snapshot.apis));
        let table = match same {
            Some(table) => Arc::clone(table),
            None => Arc::new(Table::compile(&snapshot.apis, previous)),
        };
        Self { revision, issuers, table }
    }
}

impl Table {
    fn compile(source: &Arc<[LoadedApi]>, previous: Option<&Arc<Self>>) -> Self {
        let mut reusable = PreviousRoutes::of(previous.map_or(&[], |previous| &previous.apis));
        let same: Vec<Option<Arc<ApiRoutes>>> =
            source.iter().map(|loaded| reusable.same(loaded)).collect();
        let edited: Vec<Option<u32>> = (source.iter().zip(&same))
            .map(|(loaded, same)| if same.is_some() { None } else { reusable.edited(&loaded.api) })
            .collect();
        let apis: Vec<Arc<ApiRoutes>> = (source.iter().zip(same).zip(edited))
            .map(|((loaded, same), slot)| {
                same.unwrap_or_else(|| compile(loaded, slot.unwrap_or_else(|| reusable.fresh())))
            })
            .collect();
        Self {
            source: Arc::clone(source),
            hosts: tables(&apis),
            slots: apis.iter().map(|api| api.slot as usize + 1).max().unwrap_or_default(),
            apis,
        }
    }
}

fn compile(loaded: &LoadedApi, slot: u32) -> Arc<ApiRoutes> {
    let api = Arc::clone(&loaded.api);
    let trie = Trie::build(&api.operations);
    let key = api_key(&api.name, &api.version);
    Arc::new(ApiRoutes { slot, api, state: loaded.state, key, trie })
}

/// Base paths first, because they take precedence over default paths.
fn tables(apis: &[Arc<ApiRoutes>]) -> Hosts {
    let mut hosts = Hosts::default();
    for (index, routes) in (0..).zip(apis) {
        hosts.insert(&routes.api.hosts, &routes.api.base_path, index);
    }
    for (index, routes) in (0..).zip(apis) {
        if let Some(path) = &routes.api.default_path {
            hosts.insert(&routes.api.hosts, path, index);
        }
    }
    hosts
}
