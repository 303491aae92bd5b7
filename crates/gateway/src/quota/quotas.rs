//! Subscriptions and quotas: their compiled form in a revision, and their record in an exchange.

use std::cell::Cell;
use std::sync::Arc;

use model::{Diagnostic, KeyType, Operation, PlanUse, Quantity, Security, ServiceAccess, Snapshot};
use stages::throttle::{Admitted, Allowance, Later, Refused};
use stages::{ApiRoutes, PlanTable, Routes, Subscribers};
use time::OffsetDateTime;
use wire::http1::write;

use super::deny::DenyTable;
use crate::artefacts::Integration;
use crate::message::Head;

/// Plans, applications, and the plans of APIs. Workers share them.
#[derive(Debug)]
pub(crate) struct Quotas {
    pub(crate) plans: Arc<PlanTable>,
    /// `None`: callers need no subscription.
    pub(crate) subscribers: Option<Arc<Subscribers>>,
    rules: Arc<Rules>,
    services: Arc<ServiceQuotas>,
}

/// Rules that depend on plans and APIs alone.
#[derive(Debug)]
struct Rules {
    /// `None`: no caller is denied.
    deny: Option<DenyTable>,
    /// By slot in the routes.
    apis: Vec<Option<ApiPlans>>,
}

/// Plans of the services of artefacts.
#[derive(Debug, Default)]
struct ServiceQuotas {
    /// By slot in the routes of services. `None`: requests are neither authenticated nor denied nor limited.
    plans: Vec<Option<ApiPlans>>,
    /// Plans of `[[service]]` that do not exist.
    diagnostics: Vec<Diagnostic>,
}

#[derive(Debug, Default)]
struct ApiPlans {
    /// The plans for all requests of the API. An API has one at most.
    all: Vec<PlanUse>,
    operations: Vec<Option<PlanUse>>,
    /// The plans of the API's production and sandbox endpoints.
    backend: [Option<PlanUse>; 2],
}

impl Quotas {
    /// `previous`: those that are in use, and of which APIs.
    pub(crate) fn compile(
        snapshot: &Snapshot,
        routes: &Routes,
        integration: &Integration,
        previous: Option<(&Routes, &Self)>,
    ) -> Arc<Self> {
        let plans = PlanTable::compile(&snapshot.plans, previous.map(|(_, known)| &known.plans));
        let known = previous.and_then(|(_, known)| known.subscribers.as_ref());
        let subscribers = snapshot.applications.as_ref();
        let subscribers = subscribers.map(|all| Subscribers::compile(all, &plans, known));
        let same = previous.filter(|(before, known)| {
            routes.has_apis_of(before) && Arc::ptr_eq(&plans, &known.plans)
        });
        let rules = match same {
            Some((_, known)) => Arc::clone(&known.rules),
            None => Arc::new(Rules::compile(snapshot, routes, &plans)),
        };
        let known = previous.map(|(_, known)| &*known.services);
        let services = ServiceQuotas::compile(integration, &plans, rules.deny.is_some(), known);
        Arc::new(Self { plans, subscribers, rules, services: Arc::new(services) })
    }

    /// The same with other services.
    pub(crate) fn with_services(&self, integration: &Integration) -> Arc<Self> {
        let Self { plans, subscribers, rules, .. } = self;
        let known = Some(&*self.services);
        let services = ServiceQuotas::compile(integration, plans, rules.deny.is_some(), known);
        Arc::new(Self {
            plans: Arc::clone(plans),
            subscribers: subscribers.clone(),
            rules: Arc::clone(rules),
            services: Arc::new(services),
        })
    }

    /// The plans of services that do not exist.
    pub(crate) fn diagnostics(&self) -> &[Diagnostic] {
        &self.services.diagnostics
    }

    /// `None`: no caller is denied.
    pub(crate) fn deny(&self) -> Option<&DenyTable> {
        self.rules.deny.as_ref()
    }

    /// The plans of an API and of one of its operations.
    pub(crate) fn of(&self, routes: &ApiRoutes, operation: usize) -> (&[PlanUse], Option<PlanUse>) {
        match self.rules.apis.get(routes.slot as usize) {
            Some(Some(plans)) => (&plans.all, plans.operations.get(operation).copied().flatten()),
            Some(None) | None => (&[], None),
        }
    }

    /// The plans of a service. `None`: its requests are neither authenticated nor denied nor limited.
    pub(crate) fn of_service(&self, routes: &ApiRoutes) -> Option<&[PlanUse]> {
        let plans = self.services.plans.get(routes.slot as usize)?.as_ref()?;
        Some(&plans.all)
    }

    /// The plan of requests to the endpoints of this type, from all clients.
    pub(crate) fn backend(&self, routes: &ApiRoutes, key_type: KeyType) -> Option<PlanUse> {
        let [production, sandbox] = self.rules.apis.get(routes.slot as usize)?.as_ref()?.backend;
        match key_type {
            KeyType::Production => production,
            KeyType::Sandbox => sandbox,
        }
    }
}

impl Rules {
    fn compile(snapshot: &Snapshot, routes: &Routes, plans: &PlanTable) -> Self {
        let mut apis = Vec::new();
        apis.resize_with(routes.slots(), || None);
        for routes in routes.apis() {
            if let Some(entry) = apis.get_mut(routes.slot as usize) {
                *entry = ApiPlans::of(routes, plans);
            }
        }
        Self { deny: DenyTable::compile(&snapshot.plans.deny), apis }
    }
}

impl ServiceQuotas {
    /// `denies`: there are deny policies.
    fn compile(
        integration: &Integration,
        plans: &PlanTable,
        denies: bool,
        previous: Option<&Self>,
    ) -> Self {
        let mut all = Vec::new();
        all.resize_with(integration.routes.slots(), || None);
        for routes in integration.routes.apis() {
            if let Some(entry) = all.get_mut(routes.slot as usize) {
                *entry = ApiPlans::of_service(routes, plans, denies);
            }
        }
        let diagnostics = integration.unknown_plans(|name| plans.has(name));
        let is_known = previous.is_some_and(|previous| previous.diagnostics == diagnostics);
        for diagnostic in diagnostics.iter().filter(|_| !is_known) {
            tracing::error!("{diagnostic}");
        }
        Self { plans: all, diagnostics }
    }
}

impl ApiPlans {
    fn of_service(routes: &ApiRoutes, plans: &PlanTable, denies: bool) -> Option<Self> {
        let ServiceAccess { security, plans: names } = routes.api.service.as_ref()?;
        let has_custom = plans.custom(&routes.api.base_path).next().is_some();
        if *security == Security::Open && names.is_empty() && !denies && !has_custom {
            return None;
        }
        let uses = |name: &String| PlanUse {
            plan: plans.number(name),
            key: routes.service_key(name),
            burst: None,
        };
        Some(Self { all: names.iter().map(uses).collect(), ..Self::default() })
    }

    fn of(routes: &ApiRoutes, plans: &PlanTable) -> Option<Self> {
        let api = &routes.api;
        let backend = [KeyType::Production, KeyType::Sandbox].map(|key_type| {
            let (plan, key) = (PlanTable::UNLIMITED, routes.backend_key(key_type));
            api.backend.of(key_type).map(|limit| PlanUse { plan, key, burst: Some(limit) })
        });
        let has_plans =
            api.plan.is_some() || api.operations.iter().any(|operation| operation.plan.is_some());
        if !has_plans && backend.iter().all(Option::is_none) {
            return None;
        }
        let uses = |plan: &str, key| PlanUse { plan: plans.number(plan), key, burst: None };
        let of_operation = |operation: &Operation| {
            let plan = operation.plan.as_ref()?;
            Some(uses(plan, routes.operation_key(operation)))
        };
        Some(Self {
            all: api.plan.iter().map(|plan| uses(plan, routes.key)).collect(),
            operations: api.operations.iter().map(of_operation).collect(),
            backend,
        })
    }
}

/// The record of the limits that apply to a request.
#[derive(Debug, Default)]
pub(crate) struct Quota {
    /// The limit that refused it, or the one of which least is left.
    limit: Option<Allowance>,
    is_refused: bool,
    /// Quantities that are counted once they are known.
    later: Vec<Later>,
    /// The bytes that were counted.
    settled: Cell<u64>,
}

impl Quota {
    pub(crate) fn of(admitted: Result<Admitted, Refused>) -> Self {
        match admitted {
            Ok(Admitted { tightest, later }) => Self { limit: tightest, later, ..Self::default() },
            Err(refused) => {
                Self { limit: Some(refused.limit), is_refused: true, ..Self::default() }
            }
        }
    }

    /// Adds the bytes of an exchange, of which there are so many by now.
    pub(crate) fn settle(&self, bytes: u64, now_ms: u64) {
        let more = bytes.saturating_sub(self.settled.replace(bytes));
        for Later { quantity, counter } in &self.later {
            match quantity {
                Quantity::Bytes => counter.add(more, now_ms),
                Quantity::Requests | Quantity::Reported(_) => {}
            }
        }
    }

    /// Adds the quantities that the response reports. Returns the number of limits whose quantity is missing.
    pub(crate) fn report(&self, head: &Head, plans: &PlanTable, now_ms: u64) -> usize {
        let is_missing = |Later { quantity, counter }: &&Later| {
            let Quantity::Reported(number) = *quantity else { return false };
            let amount = plans.reported(number).and_then(|name| reported(head, name));
            amount.map(|amount| counter.add(amount, now_ms)).is_none()
        };
        self.later.iter().filter(is_missing).count()
    }

    /// Whether something is counted later.
    pub(crate) fn counts_later(&self) -> bool {
        !self.later.is_empty()
    }

    /// Takes the list of quantities that were counted later.
    pub(crate) fn take_later(&mut self) -> Vec<Later> {
        std::mem::take(&mut self.later)
    }

    /// Writes the fields about the remaining quota.
    ///
    /// Source: draft-ietf-httpapi-ratelimit-headers-10, sections 3 and 4.
    pub(crate) fn write_fields(&self, now_ms: u64, lines: &mut Vec<u8>) {
        let Some(limit) = self.limit else { return };
        let Allowance { level, quantity, amount, left, period_ms, until_ms } = limit;
        let level = level.as_str().as_bytes();
        let mut parts = |parts: &[&[u8]], number| {
            parts.iter().for_each(|part| lines.extend_from_slice(part));
            write::decimal(lines, number);
        };
        let wait_s = wait_s(until_ms, now_ms);
        let unit: Option<&[u8]> = match quantity {
            Quantity::Requests => Some(b""),
            Quantity::Bytes => Some(b";qu=\"content-bytes\""),
            // The draft has no unit for it.
            Quantity::Reported(_) => None,
        };
        if let Some(unit) = unit {
            parts(&[b"RateLimit-Policy: \"", level, b"\";q="], amount);
            parts(&[unit, b";w="], period_ms / 1_000);
            parts(&[b"\r\nRateLimit: \"", level, b"\";r="], left);
            parts(&[b";t="], wait_s);
            lines.extend_from_slice(b"\r\n");
        }
        if self.is_refused {
            lines.extend_from_slice(b"Retry-After: ");
            write::decimal(lines, wait_s);
            lines.extend_from_slice(b"\r\n");
        }
    }

    /// When the limit that refused the request admits one again, in WSO2's form: `2026-Jan-01 00:01:00+0000 UTC`.
    pub(crate) fn next_access(&self) -> Option<String> {
        let until_ms = self.limit.filter(|_| self.is_refused)?.until_ms;
        let seconds = i64::try_from(until_ms.div_ceil(1_000)).ok()?;
        let at = OffsetDateTime::from_unix_timestamp(seconds).ok()?;
        let month = at.month().to_string();
        Some(format!(
            "{:04}-{:.3}-{:02} {:02}:{:02}:{:02}+0000 UTC",
            at.year(),
            month,
            at.day(),
            at.hour(),
            at.minute(),
            at.second()
        ))
    }
}

/// The number in the first field of this name: digits alone.
fn reported(head: &Head, name: &str) -> Option<u64> {
    let value = head.edits.find(&head.bytes, head.parsed.fields(), name.as_bytes())?;
    let digits = value.trim_ascii();
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    // More digits than a number has are more than any limit.
    let number = || std::str::from_utf8(digits).ok().and_then(|text| text.parse().ok());
    is_number.then(|| number().unwrap_or(u64::MAX))
}

/// At least 1, so that no client tries again at once.
fn wait_s(until_ms: u64, now_ms: u64) -> u64 {
    until_ms.saturating_sub(now_ms).div_ceil(1_000).max(1)
}
