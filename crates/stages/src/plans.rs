//! Plans, compiled for use by number. A plan keeps its number across changes, so that APIs and applications that refer
//! to it need not be compiled again.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use base::limits::GONE_PLANS_MAX;
use model::{
    Condition, ConditionGroup, CustomRule, KeyPart, Limit, LimitBy, Plan, PlanUse, Plans, Quantity,
    Subject,
};

use crate::hash::{LoadedKeysState, mix};

/// All plans by number.
#[derive(Debug)]
pub struct PlanTable {
    /// The plans that the table was compiled from.
    source: Arc<Plans>,
    /// Numbers by name, in lower case and as spelt, so that a lookup by name does not allocate.
    numbers: HashMap<String, u32, LoadedKeysState>,
    plans: Vec<Arc<Plan>>,
    /// Condition groups by the number of their plan, each with the number of the group's own plan.
    groups: HashMap<u32, Vec<(Vec<Condition>, u32)>>,
    claims: Arc<[String]>,
    custom: Vec<(Option<String>, PlanUse)>,
    /// Key parts by number. These, like the names below, include those of removed plans.
    keys: BTreeMap<u64, Vec<KeyPart>>,
    reported: BTreeMap<u64, String>,
    /// Names, in lower case, of plans that are gone. The first left first.
    gone: VecDeque<String>,
}

/// The number of the plan that admits nothing, which stands for plans that do not exist.
const CLOSED: u32 = 0;

impl PlanTable {
    /// The number of the plan without limits, which always exists.
    pub const UNLIMITED: u32 = 1;

    /// Compiles `source`. Plans of `previous` that were removed stay in use for APIs and applications that still name
    /// them, until `GONE_PLANS_MAX` others were removed, too; then they admit nothing.
    #[must_use]
    pub fn compile(source: &Arc<Plans>, previous: Option<&Arc<Self>>) -> Arc<Self> {
        if let Some(previous) = previous
            && Arc::ptr_eq(&previous.source, source)
        {
            return Arc::clone(previous);
        }
        let (mut numbers, mut plans) = match previous {
            Some(previous) => (previous.numbers.clone(), previous.plans.clone()),
            None => (HashMap::default(), vec![Arc::new(closed()), Arc::new(unlimited())]),
        };
        for plan in source.iter() {
            let next = u32::try_from(plans.len()).unwrap_or(CLOSED);
            let number = *numbers.entry(plan.name.to_ascii_lowercase()).or_insert(next);
            numbers.insert(plan.name.clone(), number);
            match plans.get_mut(number as usize) {
                Some(known) => *known = Arc::clone(plan),
                None => plans.push(Arc::clone(plan)),
            }
        }
        let (source, groups) = (Arc::clone(source), HashMap::new());
        let claims = claims_of(&source, previous);
        let mut keys = previous.map(|previous| previous.keys.clone()).unwrap_or_default();
        let mut reported = previous.map(|previous| previous.reported.clone()).unwrap_or_default();
        let gone = gone(&source, previous, (&mut numbers, &mut plans));
        let limits = || plans.iter().flat_map(|plan| &plan.limits);
        let uses_key = |key: &u64| limits().any(|limit| limit.by == LimitBy::Values(*key));
        let reports = |name: &u64| limits().any(|of| of.quantity == Quantity::Reported(*name));
        keys.retain(|key, _| uses_key(key));
        reported.retain(|name, _| reports(name));
        keys.extend(source.keys.clone());
        reported.extend(source.reported.clone());
        let (custom, source_of) = (Vec::new(), Arc::clone(&source));
        let mut table = Self {
            source: source_of,
            numbers,
            plans,
            groups,
            claims,
            custom,
            keys,
            reported,
            gone,
        };
        for (name, groups) in &source.conditions {
            let group = |group: &ConditionGroup| (group.when.clone(), table.number(&group.plan));
            let groups = groups.iter().map(group).collect();
            table.groups.insert(table.number(name), groups);
        }
        let custom = |CustomRule { plan, api }: &CustomRule| {
            let key = key_of(&["custom", &plan.to_ascii_lowercase()]);
            (api.clone(), PlanUse { plan: table.number(plan), key, burst: None })
        };
        table.custom = source.custom.iter().map(custom).collect();
        Arc::new(table)
    }

    /// The plan that a request uses instead of `of`: that of the first condition group whose conditions are all met.
    #[must_use]
    pub fn choose(&self, of: PlanUse, is_met: impl Fn(&Condition) -> bool) -> PlanUse {
        if self.groups.is_empty() {
            return of;
        }
        let groups = self.groups.get(&of.plan).map_or(&[][..], Vec::as_slice);
        let chosen = groups.iter().position(|(when, _)| when.iter().all(&is_met));
        let Some((at, (_, plan))) = chosen.and_then(|at| Some((at, groups.get(at)?))) else {
            return of;
        };
        PlanUse { plan: *plan, key: mix(of.key, at as u64), burst: of.burst }
    }

    /// The plans of custom rules that apply to requests to the API with this base path.
    pub fn custom(&self, base_path: &str) -> impl Iterator<Item = PlanUse> + Clone {
        let is_for = move |api: &Option<String>| api.as_ref().is_none_or(|api| api == base_path);
        self.custom.iter().filter(move |(api, _)| is_for(api)).map(|(_, of)| *of)
    }

    /// The parts of the key with this number.
    pub(crate) fn key_parts(&self, number: u64) -> &[KeyPart] {
        self.keys.get(&number).map_or(&[], Vec::as_slice)
    }

    /// The name of the header field with this number, in which responses report their usage.
    #[must_use]
    pub fn reported(&self, number: u64) -> Option<&str> {
        self.reported.get(&number).map(String::as_str)
    }

    /// The names of the claims that conditions and keys use. The same allocation until they change.
    #[must_use]
    pub fn claims(&self) -> &Arc<[String]> {
        &self.claims
    }

    /// The number of the plan of this name, which is the same in every later table.
    #[must_use]
    pub fn number(&self, name: &str) -> u32 {
        let found = self.numbers.get(name);
        found.or_else(|| self.numbers.get(&name.to_ascii_lowercase())).copied().unwrap_or(CLOSED)
    }

    /// Whether there is a plan of this name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.source.get(name).is_some()
    }

    pub(crate) fn get(&self, number: u32) -> Option<&Plan> {
        self.plans.get(number as usize).or(self.plans.first()).map(|plan| &**plan)
    }
}

/// The plans that are gone. The first of more than `GONE_PLANS_MAX` are forgotten, with their names and limits. Their
/// numbers are not used again, as a part that was compiled before may still have them.
fn gone(
    source: &Plans,
    previous: Option<&Arc<PlanTable>>,
    (numbers, plans): (&mut HashMap<String, u32, LoadedKeysState>, &mut [Arc<Plan>]),
) -> VecDeque<String> {
    let Some(previous) = previous else { return VecDeque::new() };
    let lower = |plan: &Arc<Plan>| plan.name.to_ascii_lowercase();
    let present: HashSet<_> = source.iter().map(lower).collect();
    let left = previous.source.iter().map(lower).filter(|name| !present.contains(name));
    let before = previous.gone.iter().filter(|name| !present.contains(*name)).cloned();
    let mut gone: VecDeque<_> = before.chain(left).collect();
    let more = gone.len().saturating_sub(GONE_PLANS_MAX);
    let forgotten: HashSet<_> =
        gone.drain(..more).filter_map(|name| numbers.get(&name).copied()).collect();
    if !forgotten.is_empty() {
        numbers.retain(|_, number| !forgotten.contains(number));
        let closed = Arc::clone(plans.first().expect("the plan that admits nothing is the first"));
        for number in forgotten {
            if let Some(plan) = plans.get_mut(number as usize) {
                *plan = Arc::clone(&closed);
            }
        }
    }
    gone
}

fn claims_of(plans: &Plans, previous: Option<&Arc<PlanTable>>) -> Arc<[String]> {
    let groups = plans.conditions.values().flatten();
    let names = groups.flat_map(|group| &group.when).filter_map(|of| match &of.subject {
        Subject::Claim { name, .. } => Some(name.clone()),
        Subject::Addresses(_) | Subject::Header { .. } | Subject::Query { .. } => None,
    });
    let of_keys = plans.keys.values().flatten().filter_map(|part| match part {
        KeyPart::Claim(name) => Some(name.clone()),
        KeyPart::User
        | KeyPart::Address
        | KeyPart::Api
        | KeyPart::Header(_)
        | KeyPart::Query(_) => None,
    });
    let names: BTreeSet<_> = names.chain(of_keys).collect();
    let before = previous.map(|previous| &previous.claims);
    let same = before.filter(|before| before.iter().eq(&names));
    same.map_or_else(|| names.into_iter().collect(), Arc::clone)
}

fn unlimited() -> Plan {
    Plan { name: String::new(), limits: Vec::new(), burst: None }
}

fn closed() -> Plan {
    let nothing =
        Limit { quantity: Quantity::Requests, amount: 0, period_ms: 60_000, by: LimitBy::All };
    Plan { name: String::new(), limits: vec![nothing], burst: None }
}

/// A key from the texts in the configuration that name an API, plan or application. It is the same across changes,
/// processes and versions, because gateways use it to name the counts that they share.
pub(crate) fn key_of(texts: &[&str]) -> u64 {
    let mut parts = Vec::with_capacity(128);
    for text in texts {
        parts.extend_from_slice(&(text.len() as u64).to_le_bytes());
        parts.extend_from_slice(text.as_bytes());
    }
    number_of(&parts)
}

/// The first 64 bits of the SHA-256 of `bytes`.
pub(crate) fn number_of(bytes: &[u8]) -> u64 {
    let hash = jose::sha256(bytes);
    hash.first_chunk().map_or(0, |first| u64::from_le_bytes(*first))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers are those of `printf '\003\0\0\0\0\0\0\0api' | sha256sum` and the like.
    #[test]
    fn names_are_the_same_in_every_version() {
        assert_eq!(key_of(&["api"]), 0xa483_23b3_5f50_76e6);
        assert_eq!(key_of(&["ab", "c"]), 0xca01_de79_5565_ee43);
        assert_ne!(key_of(&["ab", "c"]), key_of(&["a", "bc"]));
    }

    /// The plans of a revision with these names.
    fn plans(names: impl Iterator<Item = String>) -> Arc<Plans> {
        let mut plans = Plans::default();
        for (number, name) in names.enumerate() {
            let (by, quantity) = (LimitBy::Values(number as u64), Quantity::Requests);
            let limits = vec![Limit { quantity, amount: 1, period_ms: 60_000, by }];
            plans.keys.insert(number as u64, Vec::new());
            plans.insert(Plan { name, limits, burst: None });
        }
        Arc::new(plans)
    }

    #[test]
    fn plans_that_are_gone_are_forgotten_when_many_others_are() {
        let first = PlanTable::compile(&plans(["Gold".to_owned()].into_iter()), None);
        let number = first.number("gold");
        let of =
            |table: &PlanTable| (table.number("Gold"), table.get(number).unwrap().limits.len());
        let name = |number: usize| format!("Plan-{number}");
        let then = PlanTable::compile(&plans((0..GONE_PLANS_MAX).map(name)), Some(&first));
        assert_eq!(of(&then), (number, 1), "what still names it uses it");
        let many = |from: usize| plans((from..from + 10).map(name));
        let mut last = PlanTable::compile(&many(GONE_PLANS_MAX), Some(&then));
        assert_eq!(last.number("Gold"), CLOSED);
        assert_eq!(last.get(number).unwrap().limits.first().unwrap().amount, 0);
        let (numbers, keys) = (last.numbers.len(), last.keys.len());
        for round in 2..9 {
            last = PlanTable::compile(&many(round * GONE_PLANS_MAX), Some(&last));
            assert_eq!(last.numbers.len(), numbers, "{round}");
            assert!(last.keys.len() < keys, "{round}");
        }
        let again = PlanTable::compile(&plans(["gold".to_owned()].into_iter()), Some(&last));
        assert_ne!(again.number("Gold"), CLOSED);
        assert_ne!(again.number("Gold"), number, "what was compiled before does not use it");
    }
}
