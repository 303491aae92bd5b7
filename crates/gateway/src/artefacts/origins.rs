//! Where mediation sends messages: a balancer for each endpoint and origin that was used.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use base::limits::{CONFIGURED_MS_MAX, MEDIATED_ORIGINS_MAX};
use mediation::{Credentials, Endpoint as MediatedEndpoint, EndpointId, Suspend};
use model::{
    BackendAuth, BackendCredential, Endpoint, Suspension, SuspensionTime, Upstream, UpstreamKind,
};

use crate::forward::document::endpoint;
use crate::forward::{Balancer, Pools};

/// A worker's balancers.
#[derive(Debug, Default)]
pub(crate) struct Origins {
    /// By number of the endpoint: the origin that it was first used with, which is mostly its only one.
    configured: RefCell<Vec<Option<Known>>>,
    /// Others, which may come from messages, so their number is limited: the one that was not used for the longest time
    /// is forgotten.
    computed: RefCell<VecDeque<(Key, Known)>>,
    /// By number of the endpoint.
    groups: RefCell<Vec<Group>>,
}

/// The state of a group.
#[derive(Clone, Copy, Debug, Default)]
struct Group {
    /// Counts its messages, if its members take turns.
    turn: usize,
    /// The member that worked last, where that is kept.
    stayed: usize,
}

#[derive(Debug)]
struct Known {
    /// Scheme and authority.
    origin: Box<str>,
    balancer: Rc<Balancer>,
}

impl Known {
    fn is_of(&self, url: &str) -> bool {
        let rest = url.strip_prefix(&*self.origin);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(ORIGIN_END))
    }

    fn address<'u>(&self, url: &'u str) -> Result<Address<'u>, &'static str> {
        let target = url.get(self.origin.len()..).unwrap_or_default();
        let mut end = target.len();
        let mut mark = None;
        for (at, byte) in target.bytes().enumerate() {
            match byte {
                0..=b' ' | 0x7f => return Err("contains spaces or control characters"),
                b'?' if mark.is_none() => mark = Some(at),
                b'#' => {
                    end = at;
                    break;
                }
                _ => {}
            }
        }
        let target = target.get(..end).unwrap_or_default();
        let (path, query) = match mark.and_then(|at| target.split_at_checked(at)) {
            Some((path, query)) => (path, query.get(1..)),
            None => (target, None),
        };
        Ok(Address { balancer: Rc::clone(&self.balancer), path, query })
    }
}

/// Characters that may follow an origin.
const ORIGIN_END: [char; 3] = ['/', '?', '#'];

/// An address, split into the server to connect to and the target to request there.
pub(crate) struct Address<'u> {
    pub(crate) balancer: Rc<Balancer>,
    pub(crate) path: &'u str,
    pub(crate) query: Option<&'u str>,
}

/// The endpoint whose rules an address has.
#[derive(Clone, Copy)]
pub(crate) struct Configured<'p> {
    /// `None`: it is one of the policies of an API, which have a limit of time alone. Their numbers are the API's own.
    pub(crate) id: Option<EndpointId>,
    pub(crate) endpoint: &'p MediatedEndpoint,
    /// Instead of the endpoint's own, in milliseconds.
    pub(crate) timeout_ms: Option<u32>,
}

/// Distinguishes the balancers of one origin.
#[derive(Debug, PartialEq, Eq)]
struct Key {
    id: Option<EndpointId>,
    /// The timeout of an endpoint without a number, or of the message.
    timeout_ms: u32,
}

impl Key {
    fn of(configured: Option<Configured<'_>>) -> Self {
        let id = configured.and_then(|of| of.id);
        let timeout_ms = match configured {
            Some(Configured { timeout_ms: Some(ms), .. }) => ms,
            Some(Configured { id: None, endpoint, .. }) => endpoint.timeout.ms,
            Some(Configured { id: Some(_), .. }) | None => 0,
        };
        Self { id, timeout_ms }
    }
}

impl<'u> Address<'u> {
    /// `target`: path and query below the path of an endpoint.
    pub(crate) fn below(balancer: Rc<Balancer>, target: &'u str) -> Self {
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
    /// The balancer for `url`, whose rules are those of `configured`. `is_current`: these are of the current revision;
    /// otherwise nothing is remembered, since numbers and rules of endpoints change.
    ///
    /// # Errors
    /// Why the URL cannot be used.
    pub(crate) fn find<'u>(
        &self,
        url: &'u str,
        configured: Option<Configured<'_>>,
        is_current: bool,
        pools: &Pools,
    ) -> Result<Address<'u>, &'static str> {
        let id = configured.and_then(|of| of.id);
        if !is_current {
            return Known::new(url, configured, pools)?.address(url);
        }
        let mut slots = self.configured.borrow_mut();
        if let Some(id) = id
            && slots.len() <= id.index()
        {
            slots.resize_with(id.index().saturating_add(1), || None);
        }
        let own = id.filter(|_| configured.is_some_and(|of| of.timeout_ms.is_none()));
        let slot = own.and_then(|id| slots.get_mut(id.index()));
        match slot {
            Some(Some(known)) if known.is_of(url) => known.address(url),
            Some(slot @ None) => slot.insert(Known::new(url, configured, pools)?).address(url),
            Some(Some(_)) | None => self.computed(url, configured, pools),
        }
    }

    fn computed<'u>(
        &self,
        url: &'u str,
        configured: Option<Configured<'_>>,
        pools: &Pools,
    ) -> Result<Address<'u>, &'static str> {
        let key = Key::of(configured);
        let mut computed = self.computed.borrow_mut();
        let found = computed.iter().rposition(|(of, known)| *of == key && known.is_of(url));
        let used = match found.and_then(|at| computed.remove(at)) {
            Some(known) => known,
            None => (key, Known::new(url, configured, pools)?),
        };
        let address = used.1.address(url);
        if computed.len() >= MEDIATED_ORIGINS_MAX {
            computed.pop_front();
        }
        computed.push_back(used);
        address
    }

    /// Whose turn it is in a group: the position of a member.
    pub(crate) fn turn(&self, group: Option<EndpointId>, weights: &[u32]) -> usize {
        let turn = self.group(group, |group| {
            let next = group.turn.wrapping_add(1);
            std::mem::replace(&mut group.turn, next)
        });
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

    /// The member of a group that worked last.
    pub(crate) fn stayed(&self, group: Option<EndpointId>) -> usize {
        self.group(group, |group| group.stayed)
    }

    pub(crate) fn stay(&self, group: Option<EndpointId>, member: usize) {
        self.group(group, |group| group.stayed = member);
    }

    fn group<T>(&self, id: Option<EndpointId>, change: impl FnOnce(&mut Group) -> T) -> T {
        let Some(id) = id else { return change(&mut Group::default()) };
        let mut groups = self.groups.borrow_mut();
        if groups.len() <= id.index() {
            groups.resize(id.index().saturating_add(1), Group::default());
        }
        match groups.get_mut(id.index()) {
            Some(group) => change(group),
            None => change(&mut Group::default()),
        }
    }

    /// Forgets all: endpoints have other numbers after a change.
    pub(crate) fn clear(&self) {
        self.configured.borrow_mut().clear();
        self.computed.borrow_mut().clear();
        self.groups.borrow_mut().clear();
    }
}

impl Known {
    fn new(
        url: &str,
        configured: Option<Configured<'_>>,
        pools: &Pools,
    ) -> Result<Self, &'static str> {
        let authority_at = url.find("://").map(|at| at + 3).ok_or("not an absolute URL")?;
        let end = url.get(authority_at..).and_then(|rest| rest.find(ORIGIN_END));
        let end = end.map_or(url.len(), |at| authority_at + at);
        let origin = url.get(..end).ok_or("malformed")?;
        let (address, _) = endpoint(origin)?;
        let upstream = upstream(address, configured);
        let number = configured.and_then(|of| of.id).map_or(0, EndpointId::index);
        let name = (format!("integration {origin}"), String::new(), number);
        let balancer = Rc::new(Balancer::new(&upstream, Some(name), pools));
        Ok(Self { origin: origin.into(), balancer })
    }
}

/// The rules of an endpoint: those of the file where it has some.
fn upstream(address: Endpoint, configured: Option<Configured<'_>>) -> Upstream {
    let mut upstream = Upstream::new(UpstreamKind::Single, vec![address]);
    let Some(Configured { endpoint, timeout_ms, .. }) = configured else { return upstream };
    let timeout_ms = timeout_ms.unwrap_or(endpoint.timeout.ms);
    if timeout_ms > 0 {
        upstream.response_head_ms = timeout_ms.min(CONFIGURED_MS_MAX);
    }
    if let Some(suspend) = &endpoint.suspend {
        upstream.suspension = suspension(suspend);
    }
    if let Some(Credentials::Token(client)) = &endpoint.credentials {
        let credential = BackendCredential::ClientCredentials(client.clone());
        upstream.credential = Some(BackendAuth::Own(Arc::new(credential)));
    }
    upstream
}

fn suspension(suspend: &Suspend) -> Suspension {
    Suspension::Consecutive {
        failures: if suspend.initial_ms == Some(0) { 0 } else { suspend.retries.saturating_add(1) },
        codes: suspend.codes.clone(),
        marks: Some(suspend.marking_codes.clone()),
        mark_ms: suspend.retry_delay_ms,
        lasts: SuspensionTime {
            initial_ms: suspend.initial_ms,
            factor: suspend.factor,
            max_ms: suspend.maximum_ms,
        },
    }
}

#[cfg(test)]
mod tests {
    use mediation::{Compiler, Origin, Program};

    use super::{Configured, Origins, upstream};
    use crate::forward::{Balancer, Pools, endpoint, run_balancer};

    /// An endpoint with this `suspendOnFailure`, through the failures and times of `script`.
    #[track_caller]
    fn check(rule: &str, script: &str, expect: &str) {
        check_all(&format!("<suspendOnFailure>{rule}</suspendOnFailure>"), script, expect);
    }

    /// With an endpoint `e` of these rules.
    #[track_caller]
    fn program(rules: &str) -> Program {
        let text = format!(
            "<definitions xmlns=\"http://ws.apache.org/ns/synapse\"><endpoint name=\"e\"><address uri=\"http://a/\">\
             {rules}</address></endpoint></definitions>"
        );
        let document = xml::Document::parse(text.as_bytes()).unwrap();
        let origin = Origin { file: "e.xml".as_ref(), document: &document };
        let (program, diagnostics) = Compiler::compile(&[origin]);
        assert!(diagnostics.is_empty(), "{diagnostics:?}");
        program
    }

    fn configured(program: &Program, timeout_ms: Option<u32>) -> Configured<'_> {
        let id = program.endpoint("e");
        Configured { id, endpoint: program.endpoint_at(id.unwrap()).unwrap(), timeout_ms }
    }

    #[test]
    fn the_wait_that_a_message_says_replaces_that_of_the_endpoint() {
        let program = program("<timeout><duration>1000</duration></timeout>");
        let (origins, pools) = (Origins::default(), Pools::default());
        let wait = |timeout_ms| {
            let found =
                origins.find("http://a/x", Some(configured(&program, timeout_ms)), true, &pools);
            found.map(|address| address.balancer.response_head_ms)
        };
        let waits = [None, Some(500), None, Some(70), Some(500)].map(wait);
        assert_eq!(waits, [Ok(1_000), Ok(500), Ok(1_000), Ok(70), Ok(500)]);
    }

    #[track_caller]
    fn check_all(rules: &str, script: &str, expect: &str) {
        let program = program(rules);
        let upstream = upstream(endpoint(0), Some(configured(&program, None)));
        run_balancer(&[Balancer::new(&upstream, None, &Pools::default())], script, expect);
    }

    const INITIAL: &str = "<initialDuration>1000</initialDuration>";

    #[test]
    fn each_suspension_is_longer_by_the_factor_up_to_the_maximum() {
        let rule = |factor: &str, maximum: &str| {
            format!(
                "{INITIAL}<progressionFactor>{factor}</progressionFactor>\
                 <maximumDuration>{maximum}</maximumDuration>"
            )
        };
        check(
            &rule("2.0", "3000"),
            "x0 +999 ? +1 ? x0 +1999 ? +1 ? x0 +2999 ? +1 ? x0 +2999 ? +1 ?",
            "303001 0 303001 0 303001 0 303001 0",
        );
        check(
            &rule("1.5", "60000"),
            "x0 +1000 ? x0 +1499 ? +1 ? x0 +2249 ? +1 ?",
            "0 303001 0 303001 0",
        );
        check(INITIAL, "x0 +1000 ? x0 +999 ? +1 ?", "0 303001 0");
        check(&rule("0.5", "60000"), "x0 +1000 ? x0 +499 ? +1 ? x0 +250 ?", "0 303001 0 0");
        check(&rule("2.0", "400"), "x0 +399 ? +1 ?", "303001 0");
        // Below zero: 30 s regardless of the maximum, as in Synapse.
        for maximum in ["60000", "5000"] {
            check(
                &rule("-1", maximum),
                "x0 +999 ? +1 ? x0 +29999 ? +1 ? x0 +29999 ? +1 ?",
                "303001 0 303001 0 303001 0",
            );
        }
        let unsaid = |maximum: &str| {
            let maximum = format!("<maximumDuration>{maximum}</maximumDuration>");
            format!("<initialDuration>-1</initialDuration>{maximum}")
        };
        check(&unsaid("400"), "x0 +29999 ? +1 ? x0 +399 ? +1 ?", "303001 0 303001 0");
        // A suspension of no time is not the last one.
        check(&unsaid("0"), "x0 +29999 ? +1 ? x0 ? x0 +29999 ? +1 ?", "303001 0 0 303001 0");
    }

    #[test]
    fn a_marked_endpoint_waits_before_each_try() {
        let rules = format!(
            "<suspendOnFailure>{INITIAL}</suspendOnFailure><markForSuspension>\
             <retriesBeforeSuspension>2</retriesBeforeSuspension><retryDelay>500</retryDelay>\
             </markForSuspension>"
        );
        check_all(
            &rules,
            "x0 +499 ? +1 ? x0 +499 ? +1 ? x0 +999 ? +1 ?",
            "303001 0 303001 0 303001 0",
        );
    }

    #[test]
    fn a_success_begins_with_the_initial_duration_again() {
        let rule = format!("{INITIAL}<progressionFactor>4</progressionFactor>");
        check(&rule, "x0 +1000 ? x0 +4000 ? o0 x0 +999 ? +1 ?", "0 0 303001 0");
    }
}
