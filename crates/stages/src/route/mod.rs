//! Which operation of which API is meant?
//!
//! Life of a request: listen -> **route** -> authenticate. Reads host, method and normalised path;
//! answers [`Found`] or [`Missed`].
//!
//! Architecture invariant: finding allocates nothing and its work is bounded by what was loaded,
//! never by what a client sends.

use std::sync::Arc;

use base::Method;
use model::{Api, ApiState, Denial, Issuer, MethodSet, Snapshot};

/// A snapshot compiled for lookup. Immutable: workers share it behind one `Arc`.
#[derive(Debug)]
pub struct Routes {
    revision: u64,
    issuers: Vec<Arc<Issuer>>,
    apis: Vec<Arc<ApiRoutes>>,
    slots: usize,
}

/// One API, compiled. Kept as it is from one [`Routes`] to the next while its API is unchanged.
#[derive(Debug)]
pub struct ApiRoutes {
    /// Small number that stays with the API (name, version, base path and hosts) while it is edited.
    pub slot: u32,
    pub api: Arc<Api>,
    pub state: ApiState,
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
pub struct Missed<'a> {
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
    /// Compiles `snapshot`. What did not change since `previous` is taken over from it.
    #[must_use]
    pub fn compile(snapshot: &Snapshot, previous: Option<&Self>) -> Self {
        let _ = previous;
        Self {
            revision: snapshot.revision,
            issuers: snapshot.issuers.clone(),
            apis: Vec::new(),
            slots: 0,
        }
    }

    /// Finds the operation. `host` is the authority as sent, port included; `path` is normalised by
    /// `wire`; `secure` tells the TLS listener.
    ///
    /// # Errors
    /// [`Missed`] with the reason.
    pub fn find<'a>(
        &'a self,
        host: &[u8],
        method: Method,
        path: &'a [u8],
        secure: bool,
    ) -> Result<Found<'a>, Missed<'a>> {
        let _ = (host, method, path, secure);
        Err(Missed {
            denial: Denial::NoApi,
            api: None,
            allow: MethodSet::EMPTY,
            remainder: b"",
        })
    }

    #[must_use]
    pub fn issuers(&self) -> &[Arc<Issuer>] {
        &self.issuers
    }

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

impl ApiRoutes {
    /// The operation for `remainder`, the path below the base path.
    ///
    /// # Errors
    /// What the path offers when no template that fits has the method; empty when none fits.
    pub fn operation(&self, method: Method, remainder: &[u8]) -> Result<usize, MethodSet> {
        let _ = (method, remainder);
        Err(MethodSet::EMPTY)
    }

    /// Every method that some template fitting `remainder` has: for a preflight.
    #[must_use]
    pub fn methods(&self, remainder: &[u8]) -> MethodSet {
        let _ = remainder;
        MethodSet::EMPTY
    }
}
