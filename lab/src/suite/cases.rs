//! The cases of a suite, in execution order. Pure.

use std::collections::BTreeMap;

use super::definition::{Order, Suite};
use crate::result::Case;

/// A target with its heap size and swept setting: one column of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Variant {
    target: String,
    heap: Option<String>,
    sweep: Option<(String, String)>,
}

/// Scenario, users, bytes and delay: the request load applied to each variant.
#[derive(Clone, Debug)]
struct Cell {
    scenario: String,
    users: u32,
    bytes: u64,
    delay_ms: u64,
}

/// All cases, including repetitions, in execution order.
#[must_use]
pub fn all(suite: &Suite) -> Vec<Case> {
    let (variants, cells) = (variants(suite), cells(suite));
    let repetitions = 1..=suite.matrix.repetitions;
    match suite.matrix.order {
        Order::Block => variants
            .iter()
            .flat_map(|variant| cells.iter().map(move |cell| (variant, cell)))
            .flat_map(|(v, cell)| repetitions.clone().map(move |n| case(v, cell, n)))
            .collect(),
        Order::Interleaved => repetitions
            .flat_map(|n| cells.iter().map(move |cell| (n, cell)))
            .flat_map(|(n, cell)| rotated(&variants, n).map(move |v| case(v, cell, n)))
            .collect(),
    }
}

/// Each repetition starts with a different target, so that none always runs first.
fn rotated(variants: &[Variant], repetition: u32) -> impl Iterator<Item = &Variant> {
    let first = (repetition as usize).saturating_sub(1) % variants.len().max(1);
    variants.iter().cycle().skip(first).take(variants.len())
}

fn variants(suite: &Suite) -> Vec<Variant> {
    let mut variants = Vec::new();
    for target in &suite.targets {
        let heaps: Vec<Option<String>> = if target.has_heap() && !suite.matrix.heap.is_empty() {
            suite.matrix.heap.iter().cloned().map(Some).collect()
        } else {
            vec![None]
        };
        let swept = suite.sweep.as_ref().filter(|s| target.settings.contains_key(&s.setting));
        let sweeps: Vec<Option<(String, String)>> = match swept {
            Some(s) => s.values.iter().map(|v| Some((s.setting.clone(), v.clone()))).collect(),
            None => vec![None],
        };
        for heap in &heaps {
            variants.extend(sweeps.iter().map(|sweep| Variant {
                target: target.name.clone(),
                heap: heap.clone(),
                sweep: sweep.clone(),
            }));
        }
    }
    variants
}

fn cells(suite: &Suite) -> Vec<Cell> {
    let matrix = &suite.matrix;
    let mut cells = Vec::new();
    for scenario in &suite.scenarios {
        let own = scenario.payload.own_bytes().map(|bytes| vec![bytes]);
        let sizes = own.unwrap_or_else(|| matrix.bytes.clone());
        for &users in &matrix.users {
            for &bytes in &sizes {
                cells.extend(matrix.delays_ms.iter().map(|&delay_ms| Cell {
                    scenario: scenario.name.clone(),
                    users,
                    bytes,
                    delay_ms,
                }));
            }
        }
    }
    cells
}

/// Folder names follow the published layout; the target takes the place of the heap size.
fn case(variant: &Variant, cell: &Cell, repetition: u32) -> Case {
    let Cell { scenario, users, bytes, delay_ms } = cell;
    let mut of = variant.target.clone();
    if let Some(heap) = &variant.heap {
        of.push_str(&format!("_{heap}_heap"));
    }
    if let Some((setting, value)) = &variant.sweep {
        of.push_str(&format!("_{}={}", plain(setting), plain(value)));
    }
    Case {
        id: format!("{scenario}/{of}/{users}_users/{bytes}B/{delay_ms}ms_sleep"),
        target: variant.target.clone(),
        scenario: scenario.clone(),
        users: *users,
        payload_bytes: *bytes,
        delay_ms: *delay_ms,
        heap: variant.heap.clone(),
        sweep: variant.sweep.clone(),
        repetition,
    }
}

/// `text` with characters that are unsafe in a folder name replaced by `-`.
pub(super) fn plain(text: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    text.chars().map(plain).collect()
}

/// The settings of this case's target that differ from its defaults.
pub(crate) fn settings(suite: &Suite, case: &Case) -> BTreeMap<String, String> {
    let mut settings = suite.set.get(&case.target).cloned().unwrap_or_default();
    settings.extend(case.heap.iter().map(|heap| ("heap".to_owned(), heap.clone())));
    settings.extend(case.sweep.iter().cloned());
    settings
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::suite::source::Source;

    const SUITE: &str = "name = 'small'\n[matrix]\ntargets = ['backend', 'nginx']\n\
        scenarios = ['forward']\nusers = [1, 2]\nbytes = [50]\nrepetitions = 2\n\
        [time]\nwarm_up = '1s'\nmeasure = '1s'\n";

    #[test]
    fn blocks_group_by_target_and_interleaving_alternates() {
        check("", "b1.1 b1.2 b2.1 b2.2 n1.1 n1.2 n2.1 n2.2");
        check("order = 'interleaved'\n", "b1.1 n1.1 b2.1 n2.1 n1.2 b1.2 n2.2 b2.2");
    }

    /// `expect`: first letter of the target, users, repetition.
    #[track_caller]
    fn check(order: &str, expect: &str) {
        let text = SUITE.replace("repetitions", &format!("{order}repetitions"));
        let suite = Suite::from_source(Source { name: "a.toml".into(), text }).unwrap();
        let order = all(&suite)
            .iter()
            .map(|case| format!("{}{}.{}", &case.target[..1], case.users, case.repetition))
            .collect::<Vec<_>>();
        assert_eq!(order.join(" "), expect);
    }

    #[test]
    fn a_sweep_multiplies_the_targets_that_have_the_setting() {
        let text = format!("{SUITE}[sweep]\nsetting = 'workers'\nvalues = [1, 2]\n");
        let suite = Suite::from_source(Source { name: "a.toml".into(), text }).unwrap();
        let cases = all(&suite);
        assert_eq!(cases.len(), (1 + 2) * 2 * 2);
        let swept = cases.iter().find(|case| case.sweep.is_some()).unwrap();
        assert_eq!(swept.id, "forward/nginx_workers=1/1_users/50B/0ms_sleep");
        assert_eq!(settings(&suite, swept).get("workers").map(String::as_str), Some("1"));
    }

    #[test]
    fn a_target_may_lengthen_the_warm_up() {
        for (warm_up, nginx_s, synapse_s) in [("1s", 1, 15), ("20s", 20, 20)] {
            let text = SUITE.replace("'backend'", "'synapse'").replacen(
                "'1s'",
                &format!("'{warm_up}'"),
                1,
            );
            let suite = Suite::from_source(Source { name: "a.toml".into(), text }).unwrap();
            let of = |target| suite.warm_up(suite.target(target).unwrap()).as_secs();
            assert_eq!((of("nginx"), of("synapse")), (nginx_s, synapse_s), "{warm_up}");
        }
    }
}
