//! Reuse of compiled APIs and slots by the next snapshot.

use std::collections::HashMap;
use std::sync::Arc;

use model::{Api, LoadedApi};

use super::ApiRoutes;

/// The APIs of the previous snapshot.
pub(super) struct PreviousRoutes<'a> {
    previous: &'a [Arc<ApiRoutes>],
    by_address: HashMap<*const Api, &'a Arc<ApiRoutes>>,
    /// Created for the first edited API.
    by_identity: Option<HashMap<Identity<'a>, u32>>,
    /// For each slot, whether its API in the previous snapshot still exists.
    taken: Vec<bool>,
    /// For each slot, whether the previous or this snapshot uses it.
    used: Vec<bool>,
    /// All lower slots are in use.
    next: usize,
}

/// The texts that identify an API across edits.
type Identity<'a> = (&'a str, &'a str, &'a str, &'a [String]);

fn identity(api: &Api) -> Identity<'_> {
    (&api.name, &api.version, &api.base_path, &api.hosts)
}

impl<'a> PreviousRoutes<'a> {
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

    /// The compiled form of the same `Arc`, in the same state.
    pub(super) fn same(&mut self, loaded: &LoadedApi) -> Option<Arc<ApiRoutes>> {
        let routes = *self.by_address.get(&Arc::as_ptr(&loaded.api))?;
        let same = routes.state == loaded.state && mark(&mut self.taken, routes.slot);
        same.then(|| Arc::clone(routes))
    }

    /// The slot of the API that this one replaces. Call after `same` for all APIs.
    pub(super) fn edited(&mut self, api: &Api) -> Option<u32> {
        let previous = self.previous;
        let by_identity = self.by_identity.get_or_insert_with(|| {
            previous.iter().map(|routes| (identity(&routes.api), routes.slot)).collect()
        });
        let slot = *by_identity.get(&identity(api))?;
        mark(&mut self.taken, slot).then_some(slot)
    }

    /// The lowest slot that is used neither by this nor by the previous snapshot.
    pub(super) fn fresh(&mut self) -> u32 {
        while self.used.get(self.next) == Some(&true) {
            self.next += 1;
        }
        if self.next == self.used.len() {
            self.used.push(true);
        }
        let slot = self.next;
        self.next += 1;
        u32::try_from(slot).expect("fewer than 2^32 APIs fit in memory")
    }
}

/// Sets the flag. Returns false if it was already set.
fn mark(flags: &mut [bool], slot: u32) -> bool {
    match flags.get_mut(slot as usize) {
        Some(flag) => !std::mem::replace(flag, true),
        None => false,
    }
}
