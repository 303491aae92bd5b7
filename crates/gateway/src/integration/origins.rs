//! Where mediation sends messages: a balancer for each endpoint and origin that was used.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use base::limits::{CONFIGURED_MS_MAX, MEDIATED_ORIGINS_MAX};
use mediation::{Endpoint as MediatedEndpoint, EndpointId, Suspend};
use model::{Endpoint, Suspension, SuspensionTime, Upstream, UpstreamKind};

use crate::fetch::endpoint;
use crate::forward::{Balancer, Pools};

/// A worker's balancers. Addresses may come from messages, so their number is limited: the oldest is forgotten.
#[derive(Debug, Default)]
pub(crate) struct Origins {
    known: RefCell<VecDeque<Known>>,
    /// Counts the messages to groups, whose members take turns.
    turn: Cell<usize>,
}

#[derive(Debug)]
struct Known {
    endpoint: Option<EndpointId>,
    /// Scheme and authority.
    origin: Box<str>,
    balancer: Rc<Balancer>,
}

/// An address, split into what is connected to and what is requested there.
pub(super) struct Address<'u> {
    pub(super) balancer: Rc<Balancer>,
    pub(super) path: &'u str,
    pub(super) query: Option<&'u str>,
}

impl<'u> Address<'u> {
    /// `target`: path and query below the path of an endpoint.
    pub(super) fn below(balancer: Rc<Balancer>, target: &'u str) -> Self {
        let (path, query) = split(target);
        Self { balancer, path, query }
    }
}

/// Path and query.
fn split(target: &str) -> (&str, Option<&str>) {
    match target.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (target, None),
    }
}

impl Origins {
    /// The balancer for `url`, whose rules are those of `configured`.
    ///
    /// # Errors
    /// Why the URL cannot be used.
    pub(super) fn find<'u>(
        &self,
        url: &'u str,
        configured: Option<(EndpointId, &MediatedEndpoint)>,
        pools: &Pools,
    ) -> Result<Address<'u>, &'static str> {
        let authority_at = url.find("://").map(|at| at + 3).ok_or("not an absolute URL")?;
        let path_at = url.get(authority_at..).and_then(|rest| rest.find(['/', '?', '#']));
        let path_at = path_at.map_or(url.len(), |at| authority_at + at);
        let (origin, target) = url.split_at_checked(path_at).ok_or("malformed")?;
        let target = target.split('#').next().unwrap_or_default();
        if target.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return Err("contains spaces or control characters");
        }
        let (path, query) = split(target);
        let id = configured.map(|(id, _)| id);
        let mut known = self.known.borrow_mut();
        let found = known.iter().find(|known| known.endpoint == id && *known.origin == *origin);
        if let Some(found) = found {
            return Ok(Address { balancer: Rc::clone(&found.balancer), path, query });
        }
        let (address, _) = endpoint(origin)?;
        let upstream = upstream(address, configured.map(|(_, endpoint)| endpoint));
        let name =
            (format!("integration {origin}"), String::new(), id.map_or(0, EndpointId::index));
        let balancer = Rc::new(Balancer::new(&upstream, Some(name), pools));
        if known.len() >= MEDIATED_ORIGINS_MAX {
            known.pop_front();
        }
        let origin = origin.into();
        known.push_back(Known { endpoint: id, origin, balancer: Rc::clone(&balancer) });
        Ok(Address { balancer, path, query })
    }

    /// Whose turn it is in a group: the position of a member.
    pub(super) fn turn(&self, weights: &[u32]) -> usize {
        let turn = self.turn.get();
        self.turn.set(turn.wrapping_add(1));
        let total: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
        let mut left =
            u64::try_from(turn).unwrap_or_default().checked_rem(total).unwrap_or_default();
        let is_its = |weight: &u32| match left.checked_sub(u64::from(*weight)) {
            Some(rest) => {
                left = rest;
                false
            }
            None => true,
        };
        weights.iter().position(is_its).unwrap_or_default()
    }

    /// Forgets all: endpoints have other numbers after a change.
    pub(crate) fn clear(&self) {
        self.known.borrow_mut().clear();
    }
}

/// The rules of an endpoint: those of the file where it has some.
fn upstream(address: Endpoint, configured: Option<&MediatedEndpoint>) -> Upstream {
    let mut upstream = Upstream::new(UpstreamKind::Single, vec![address]);
    let Some(configured) = configured else { return upstream };
    if configured.timeout.ms > 0 {
        upstream.response_head_ms = configured.timeout.ms.min(CONFIGURED_MS_MAX);
    }
    let suspend = &configured.suspend;
    if *suspend != Suspend::default() {
        let codes = suspend.codes.as_ref().map(|codes| [codes, &*suspend.marking_codes].concat());
        let never = codes.as_ref().is_some_and(Vec::is_empty);
        upstream.suspension = Suspension::Consecutive {
            failures: if never { 0 } else { suspend.retries.saturating_add(1) },
            codes,
            lasts: SuspensionTime {
                initial_ms: suspend.initial_ms,
                factor: suspend.factor,
                max_ms: suspend.maximum_ms,
            },
        };
    }
    upstream
}
