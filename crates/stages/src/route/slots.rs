//! What stays from one compiled snapshot to the next.

use std::collections::HashMap;
use std::sync::Arc;

use model::{Api, LoadedApi};

use super::ApiRoutes;

/// The APIs that were served until now, and who takes them over.
pub(super) struct Kept<'a> {
    previous: &'a [Arc<ApiRoutes>],
    by_address: HashMap<*const Api, &'a Arc<ApiRoutes>>,
    /// Filled when the first edited API asks.
    by_identity: Option<HashMap<Identity<'a>, u32>>,
    /// By slot: whether the API of the previous snapshot that had it is still there.
    taken: Vec<bool>,
    /// By slot: whether it was in use until now, or has been given away since.
    used: Vec<bool>,
    /// No slot below it is free.
    next: usize,
}

/// What makes an API the same one after an edit.
type Identity<'a> = (&'a str, &'a str, &'a str, &'a [String]);

fn identity(api: &Api) -> Identity<'_> {
    (&api.name, &api.version, &api.base_path, &api.hosts)
}

impl<'a> Kept<'a> {
    pub(super) fn of(previous: &'a [Arc<ApiRoutes>]) -> Self {
        let slots = previous.iter().map(|routes| routes.slot as usize + 1).max().unwrap_or(0);
        let mut used = vec![false; slots];
        for routes in previous {
            mark(&mut used, routes.slot);
        }
        Self {
            previous,
            by_address: previous.iter().map(|it| (Arc::as_ptr(&it.api), it)).collect(),
            by_identity: None,
            taken: vec![false; slots],
            used,
            next: 0,
        }
    }

    /// The compiled form of the very same API, in the same state.
    pub(super) fn same(&mut self, loaded: &LoadedApi) -> Option<Arc<ApiRoutes>> {
        let routes = *self.by_address.get(&Arc::as_ptr(&loaded.api))?;
        let same = routes.state == loaded.state && mark(&mut self.taken, routes.slot);
        same.then(|| Arc::clone(routes))
    }

    /// The slot of the API that this one replaces. Asked once all that stay the same are known.
    pub(super) fn edited(&mut self, api: &Api) -> Option<u32> {
        let previous = self.previous;
        let by_identity = self.by_identity.get_or_insert_with(|| {
            previous.iter().map(|routes| (identity(&routes.api), routes.slot)).collect()
        });
        let slot = *by_identity.get(&identity(api))?;
        mark(&mut self.taken, slot).then_some(slot)
    }

    /// The lowest slot that no API has, nor had in the previous snapshot.
    pub(super) fn fresh(&mut self) -> u32 {
        while self.used.get(self.next) == Some(&true) {
            self.next += 1;
        }
        if self.next == self.used.len() {
            self.used.push(true);
        }
        let slot = self.next;
        self.next += 1;
        u32::try_from(slot).expect("memory ends long before 2^32 APIs")
    }
}

/// Sets the flag; false when it was set already.
fn mark(flags: &mut [bool], slot: u32) -> bool {
    match flags.get_mut(slot as usize) {
        Some(flag) => !std::mem::replace(flag, true),
        None => false,
    }
}
