//! CPU time used by others, on the whole machine and on the CPUs that a part of the measurement is pinned to.
//! Pure.
//!
//! On 32 CPUs, another process that fully uses the target's only CPU takes just 3 % of the machine's time,
//! but all of the target's.

use std::collections::{BTreeMap, BTreeSet};

use super::proc::{CpuTime, MachineTime};

/// The kernel accounts CPU time by sampling once per tick.
const TICK_US: f64 = 10_000.0;

/// CPU time used by a part, and the CPUs it is pinned to; `None`: not pinned.
#[derive(Clone, Debug)]
pub(crate) struct PartUsage {
    pub(crate) used_us: u64,
    pub(crate) cores: Option<Vec<usize>>,
}

/// CPU time lost to others in percent, of all CPUs and of pinned ones.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Interference {
    pub(crate) steal: f64,
    pub(crate) other: f64,
    /// Steal time of the CPU that lost most.
    pub(crate) pinned_steal: f64,
    /// CPU time of other processes on the group of pinned CPUs that lost most. 0 if any part is not pinned.
    pub(crate) pinned_other: f64,
}

/// `meanwhile`: CPU time of the machine. `parts`: everything that belongs to the measurement.
pub(crate) fn others(meanwhile: &MachineTime, parts: &[PartUsage]) -> Interference {
    let ours_us: u64 = parts.iter().map(|part| part.used_us).sum();
    let all = meanwhile.all;
    let pinned = |cores: &BTreeSet<usize>| -> Vec<CpuTime> {
        cores.iter().filter_map(|core| meanwhile.cpus.get(core)).copied().collect()
    };
    let pinned_other = groups(parts).into_iter().map(|group| {
        let time = pinned(&group.cores).into_iter().fold(CpuTime::default(), CpuTime::plus);
        // Two standard deviations of the tick sampling: this much may be noise.
        let chance_us = (time.all_us as f64 * TICK_US).sqrt();
        let other_us = time.processes_us.saturating_sub(group.used_us) as f64 - chance_us;
        percent(other_us.max(0.0), time.all_us)
    });
    let cores: BTreeSet<usize> =
        parts.iter().filter_map(|part| part.cores.clone()).flatten().collect();
    let pinned_steal =
        pinned(&cores).into_iter().map(|cpu| percent(cpu.steal_us as f64, cpu.all_us));
    Interference {
        steal: percent(all.steal_us as f64, all.all_us),
        other: percent(all.processes_us.saturating_sub(ours_us) as f64, all.all_us),
        pinned_steal: pinned_steal.fold(0.0, f64::max),
        pinned_other: pinned_other.fold(0.0, f64::max),
    }
}

/// Parts that share CPUs, and their total CPU time.
struct Group {
    cores: BTreeSet<usize>,
    used_us: u64,
}

fn groups(parts: &[PartUsage]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for part in parts {
        // A part that is not pinned may have run on any CPU.
        let Some(cores) = &part.cores else { return Vec::new() };
        let mut joined = Group { cores: cores.iter().copied().collect(), used_us: part.used_us };
        groups.retain(|other| {
            let apart = other.cores.is_disjoint(&joined.cores);
            if !apart {
                joined.cores.extend(&other.cores);
                joined.used_us += other.used_us;
            }
            apart
        });
        groups.push(joined);
    }
    groups
}

fn percent(part_us: f64, all_us: u64) -> f64 {
    if all_us > 0 { part_us / all_us as f64 * 100.0 } else { 0.0 }
}

impl MachineTime {
    /// The difference since `earlier`.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let cpus: BTreeMap<usize, CpuTime> = self
            .cpus
            .iter()
            .filter_map(|(core, time)| Some((*core, time.since(*earlier.cpus.get(core)?))))
            .collect();
        Self { all: self.all.since(earlier.all), cpus }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_US: u64 = 1_000_000;

    /// 32 CPUs for 10 s; the target is pinned to CPU 1, generator and backend share CPU 0.
    fn check(change: impl Fn(&mut MachineTime), expect: impl Fn(Interference) -> bool) {
        let idle = CpuTime { all_us: 10 * SECOND_US, ..CpuTime::default() };
        let mut machine = MachineTime {
            all: CpuTime::default(),
            cpus: (0..32).map(|core| (core, idle)).collect(),
        };
        let mut work = |core: usize, us: u64| {
            machine.cpus.entry(core).and_modify(|cpu| cpu.processes_us += us);
        };
        work(0, 5 * SECOND_US);
        work(1, 6 * SECOND_US);
        change(&mut machine);
        machine.all = machine.cpus.values().copied().fold(CpuTime::default(), CpuTime::plus);
        let part = |seconds: u64, core: usize| PartUsage {
            used_us: seconds * SECOND_US,
            cores: Some(vec![core]),
        };
        let others = others(&machine, &[part(6, 1), part(2, 0), part(3, 0)]);
        assert!(expect(others), "{others:?}");
    }

    fn more(core: usize, us: u64) -> impl Fn(&mut MachineTime) {
        move |machine| {
            machine.cpus.entry(core).and_modify(|cpu| cpu.processes_us += us);
        }
    }

    #[test]
    fn another_process_on_the_targets_cpu_is_detected() {
        check(|_| {}, |others| others == Interference::default());
        let seen = |o: Interference| o.other < 2.0 && o.pinned_other > 30.0;
        check(more(1, 4 * SECOND_US), seen);
        check(more(0, 4 * SECOND_US), seen);
        check(more(7, 4 * SECOND_US), |o| o.other > 1.0 && o.pinned_other == 0.0);
        // Within the noise of tick sampling.
        check(more(1, SECOND_US / 4), |o| o.pinned_other == 0.0);
    }

    #[test]
    fn steal_on_the_targets_cpu_is_detected() {
        let steal = |core: usize| {
            move |machine: &mut MachineTime| {
                machine.cpus.entry(core).and_modify(|cpu| cpu.steal_us = SECOND_US);
            }
        };
        check(steal(1), |o| o.steal < 1.0 && (o.pinned_steal - 10.0).abs() < 0.01);
        check(steal(9), |o| o.steal > 0.0 && o.pinned_steal == 0.0);
    }

    #[test]
    fn without_pinning_only_the_whole_machine_is_reported() {
        let time = CpuTime { processes_us: 9, all_us: 10, ..CpuTime::default() };
        let machine = MachineTime { all: time, cpus: [(0, time)].into() };
        let pinned = PartUsage { used_us: 0, cores: Some(vec![0]) };
        let free = PartUsage { used_us: 0, cores: None };
        let others = others(&machine, &[pinned, free]);
        assert!(others.other > 80.0 && others.pinned_other < 0.1, "{others:?}");
    }
}
