//! Which operation of which API is meant?
//!
//! Life of a request: listen -> **route** -> authenticate. Reads host, method and normalised path;
//! answers [`Found`] or [`NotFound`]. In turn: the host's table, the longest base path in it, then the
//! API's own templates. The API that owns the longest base path decides alone: where none of its
//! templates fits, no shorter base path is tried.
//!
//! Methods are taken as they come: `HEAD` and `OPTIONS` have to be declared, as in WSO2.
//!
//! Paths, base paths and templates are compared without their escapes, so that no spelling walks
//! around a template; `%2F` still never separates. What is forwarded is the path as `wire` gave it.
//!
//! Architecture invariant: finding allocates nothing, unless a path has escapes to undo, and its
//! work is bounded by the path's length and what was loaded.

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
use model::{Api, ApiState, Denial, Issuer, LoadedApi, MethodSet, Snapshot};

use hosts::Hosts;
use slots::Kept;
use trie::Trie;

/// A snapshot compiled for look-up. Immutable: workers share it behind one `Arc`.
#[derive(Debug)]
pub struct Routes {
    revision: u64,
    issuers: Vec<Arc<Issuer>>,
    apis: Vec<Arc<ApiRoutes>>,
    hosts: Hosts,
    slots: usize,
}

/// One API, compiled. Kept as it is from one [`Routes`] to the next while its API is unchanged.
#[derive(Debug)]
pub struct ApiRoutes {
    /// Small number that stays with the API (name, version, base path and hosts) while it is edited.
    pub slot: u32,
    pub api: Arc<Api>,
    pub state: ApiState,
    trie: Trie,
}

/// The operation that a request means.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    pub api: &'a Arc<ApiRoutes>,
    /// Index in `api.api.operations`.
    pub operation: usize,
    /// The path after the base path that matched: empty, or starts with `/`.
    pub remainder: &'a [u8],
}

/// Why there is none.
#[derive(Clone, Copy, Debug)]
pub struct NotFound<'a> {
    /// `NoApi`, `NoResource`, `MethodNotAllowed`, `UnsupportedTransport` or `ApiUnloaded`.
    pub denial: Denial,
    /// Absent with `NoApi` only.
    pub api: Option<&'a Arc<ApiRoutes>>,
    /// With `MethodNotAllowed`: what the path offers.
    pub allow: MethodSet,
    /// The path after the base path that matched; empty with `NoApi`.
    pub remainder: &'a [u8],
}

impl Routes {
    /// Finds the operation. `host` is the authority as sent, port included; `path` is normalised by
    /// `wire`; `secure` tells the listener with TLS.
    ///
    /// # Errors
    /// [`NotFound`], with the first reason of: no API, not loaded, not on this listener, no template,
    /// no method.
    pub fn find<'a>(
        &'a self,
        host: &[u8],
        method: Method,
        path: &'a [u8],
        secure: bool,
    ) -> Result<Found<'a>, NotFound<'a>> {
        let (api, remainder) = self.api(host, path).ok_or(NotFound::NO_API)?;
        let not_found = |denial, allow| NotFound { denial, api: Some(api), allow, remainder };
        match api.state {
            ApiState::Serving => {}
            ApiState::Unloaded => return Err(not_found(Denial::ApiUnloaded, MethodSet::EMPTY)),
        }
        if !api.answers_on(secure) {
            return Err(not_found(Denial::UnsupportedTransport, MethodSet::EMPTY));
        }
        match api.operation(method, remainder) {
            Ok(operation) => Ok(Found { api, operation, remainder }),
            Err(MethodSet::EMPTY) => Err(not_found(Denial::NoResource, MethodSet::EMPTY)),
            Err(allow) => Err(not_found(Denial::MethodNotAllowed, allow)),
        }
    }

    fn api<'a>(&'a self, host: &[u8], path: &'a [u8]) -> Option<(&'a Arc<ApiRoutes>, &'a [u8])> {
        if !matches!(path, [] | [b'/', ..]) {
            return None; // `OPTIONS *` is about the server, not about an API.
        }
        let plain = template::canonical(path);
        let (index, end) = self.hosts.find(host, &plain)?;
        let end = match &plain {
            Cow::Borrowed(_) => end,
            Cow::Owned(plain) => same_place(plain.get(..end)?, path),
        };
        Some((self.apis.get(index as usize)?, path.get(end..)?))
    }

    #[must_use]
    pub fn issuers(&self) -> &[Arc<Issuer>] {
        &self.issuers
    }

    /// In the snapshot's order.
    pub fn apis(&self) -> impl Iterator<Item = &Arc<ApiRoutes>> {
        self.apis.iter()
    }

    /// The snapshot's.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Every [`ApiRoutes::slot`] is below it.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.slots
    }
}

/// Where in `path` the segments end that `prefix`, without escapes, holds.
fn same_place(prefix: &[u8], path: &[u8]) -> usize {
    let slashes = prefix.iter().filter(|byte| **byte == b'/').count();
    let mut starts = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    starts.nth(slashes).map_or(path.len(), |(at, _)| at)
}

impl NotFound<'_> {
    const NO_API: Self =
        Self { denial: Denial::NoApi, api: None, allow: MethodSet::EMPTY, remainder: b"" };
}

impl ApiRoutes {
    /// The operation for `remainder`, the path below the base path.
    ///
    /// # Errors
    /// What the path offers when no template that fits has the method; empty when none fits.
    pub fn operation(&self, method: Method, remainder: &[u8]) -> Result<usize, MethodSet> {
        self.trie.find(method, remainder)
    }

    /// Every method that some template fitting `remainder` has: for a preflight.
    #[must_use]
    pub fn methods(&self, remainder: &[u8]) -> MethodSet {
        // No operation has this method, so every template that fits tells its own.
        self.trie.find(Method::Other, remainder).err().unwrap_or_default()
    }

    fn answers_on(&self, secure: bool) -> bool {
        if secure { self.api.transports.https } else { self.api.transports.http }
    }
}

impl Routes {
    /// Compiles `snapshot`. An API that is the same `Arc`, in the same state, as in `previous` is
    /// taken over with all that hangs on it; an edited one keeps its slot. A slot whose API is gone
    /// is given away at the next change, not at this one.
    #[must_use]
    pub fn compile(snapshot: &Snapshot, previous: Option<&Self>) -> Self {
        let mut kept = Kept::of(previous.map_or(&[], |previous| &previous.apis));
        let same: Vec<Option<Arc<ApiRoutes>>> =
            snapshot.apis.iter().map(|loaded| kept.same(loaded)).collect();
        let edited: Vec<Option<u32>> = (snapshot.apis.iter().zip(&same))
            .map(|(loaded, same)| if same.is_some() { None } else { kept.edited(&loaded.api) })
            .collect();
        let apis: Vec<Arc<ApiRoutes>> = (snapshot.apis.iter().zip(same).zip(edited))
            .map(|((loaded, same), slot)| {
                same.unwrap_or_else(|| compile(loaded, slot.unwrap_or_else(|| kept.fresh())))
            })
            .collect();
        Self {
            revision: snapshot.revision,
            issuers: snapshot.issuers.clone(),
            hosts: tables(&apis),
            slots: apis.iter().map(|api| api.slot as usize + 1).max().unwrap_or_default(),
            apis,
        }
    }
}

fn compile(loaded: &LoadedApi, slot: u32) -> Arc<ApiRoutes> {
    let api = Arc::clone(&loaded.api);
    let trie = Trie::build(&api.operations);
    Arc::new(ApiRoutes { slot, api, state: loaded.state, trie })
}

/// Base paths first, so that no default path takes one's place.
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
