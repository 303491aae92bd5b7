//! Deny policies: conditions under which callers are denied, regardless of their plans. Checked when the caller is
//! known, as in WSO2.

use std::collections::HashSet;
use std::net::IpAddr;

use base::addresses;
use model::{Caller, Deny};
use stages::Subscribers;

/// Deny policies, compiled for lookups.
#[derive(Debug, Default)]
pub(crate) struct DenyTable {
    apis: HashSet<String>,
    applications: HashSet<String>,
    users: HashSet<String>,
    /// Blocks, and whether all other addresses are meant.
    addresses: Vec<(Vec<(IpAddr, u8)>, bool)>,
}

impl DenyTable {
    /// `None`: no caller is denied.
    pub(crate) fn compile(policies: &[Deny]) -> Option<Self> {
        let mut table = Self::default();
        for policy in policies {
            match policy {
                Deny::Api(path) => _ = table.apis.insert(path.clone()),
                Deny::Application(name) => _ = table.applications.insert(name.clone()),
                Deny::User(subject) => _ = table.users.insert(subject.clone()),
                Deny::Addresses { blocks, is_inverted } => {
                    table.addresses.push((blocks.clone(), *is_inverted));
                }
            }
        }
        (!policies.is_empty()).then_some(table)
    }

    pub(crate) fn denies(
        &self,
        base_path: &str,
        caller: Option<&Caller>,
        subscribers: Option<&Subscribers>,
        address: impl FnOnce() -> IpAddr,
    ) -> bool {
        self.apis.contains(base_path)
            || caller.is_some_and(|caller| self.denies_caller(caller, subscribers))
            || !self.addresses.is_empty() && self.denies_address(address())
    }

    fn denies_caller(&self, caller: &Caller, subscribers: Option<&Subscribers>) -> bool {
        if caller.subject.as_ref().is_some_and(|subject| self.users.contains(subject)) {
            return true;
        }
        if self.applications.is_empty() {
            return false;
        }
        let known = subscribers.and_then(|all| all.of_caller(caller));
        let listed = caller.subscriptions.as_ref().and_then(|listed| listed.application.as_ref());
        let names = known.map(|known| &known.subscriber.application.name).into_iter().chain(listed);
        names.into_iter().any(|name| self.applications.contains(name))
    }

    fn denies_address(&self, address: IpAddr) -> bool {
        let denies = |(blocks, is_inverted): &(Vec<_>, bool)| {
            addresses::is_in(blocks, address) != *is_inverted
        };
        self.addresses.iter().any(denies)
    }
}
