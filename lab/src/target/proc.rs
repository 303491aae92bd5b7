//! Reading /proc: resource use of processes and of the machine. Source: proc(5).

use std::collections::BTreeMap;
use std::fs;

use nix::unistd::{SysconfVar, sysconf};

/// The unit of CPU times in /proc on Linux: 10 ms.
const TICK_US: u64 = 10_000;

/// Resource use of a process and its descendants so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Used {
    pub(crate) cpu_user_us: u64,
    pub(crate) cpu_system_us: u64,
    pub(crate) rss_bytes: u64,
    pub(crate) threads: u64,
    pub(crate) voluntary: u64,
    pub(crate) involuntary: u64,
    pub(crate) descriptors: Descriptors,
}

/// Open files of the process closest to its limit, and that limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Descriptors {
    pub(crate) open: u64,
    pub(crate) limit: u64,
}

impl Descriptors {
    fn of(pid: u32) -> Self {
        Self { open: open_files(pid), limit: open_files_limit(pid) }
    }

    /// The one closer to its limit; an unknown limit counts as far away.
    pub(crate) fn fuller(self, other: Self) -> Self {
        let share = |it: Self| if it.limit > 0 { it.open as f64 / it.limit as f64 } else { 0.0 };
        if share(other) > share(self) || self.limit == 0 { other } else { self }
    }
}

/// `roots` and all their descendants.
pub(crate) fn families(roots: &[u32]) -> Vec<u32> {
    let processes: Vec<(u32, u32)> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, Stat::of(pid)?.parent)))
        .collect();
    let mut family = roots.to_vec();
    let mut next = 0;
    while let Some(&parent) = family.get(next) {
        family.extend(processes.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    family
}

/// Sums over `pids`; processes that have ended are skipped.
pub(crate) fn used(pids: &[u32]) -> Used {
    let mut sum = Used::default();
    for (stat, pid) in pids.iter().filter_map(|&pid| Some((Stat::of(pid)?, pid))) {
        sum.cpu_user_us += stat.user_us;
        sum.cpu_system_us += stat.system_us;
        sum.rss_bytes += stat.rss_bytes;
        sum.threads += stat.threads;
        let (voluntary, involuntary) = switches(pid);
        sum.voluntary += voluntary;
        sum.involuntary += involuntary;
        sum.descriptors = sum.descriptors.fuller(Descriptors::of(pid));
    }
    sum
}

struct Stat {
    parent: u32,
    user_us: u64,
    system_us: u64,
    threads: u64,
    rss_bytes: u64,
}

impl Stat {
    fn of(pid: u32) -> Option<Self> {
        Self::read(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// After the name in parentheses: field 4 is the parent, 14 and 15 are user and system time, 20 the
    /// threads, 24 the resident pages.
    fn read(text: &str) -> Option<Self> {
        let (_, after_name) = text.rsplit_once(')')?;
        let fields: Vec<&str> = after_name.split_ascii_whitespace().collect();
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        Some(Self {
            parent: u32::try_from(number(4)?).ok()?,
            user_us: number(14)?.saturating_mul(TICK_US),
            system_us: number(15)?.saturating_mul(TICK_US),
            threads: number(20)?,
            rss_bytes: number(24)?.saturating_mul(page_bytes()),
        })
    }
}

/// 4 KiB on most machines, 16 or 64 KiB on some.
fn page_bytes() -> u64 {
    let size = sysconf(SysconfVar::PAGE_SIZE).ok().flatten();
    size.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(4_096)
}

/// Voluntary and involuntary context switches of all live threads.
fn switches(pid: u32) -> (u64, u64) {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks.fold((0, 0), |(voluntary, involuntary), task| {
        let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
        (
            voluntary + field(&status, "voluntary_ctxt_switches:"),
            involuntary + field(&status, "nonvoluntary_ctxt_switches:"),
        )
    })
}

fn open_files(pid: u32) -> u64 {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, |files| files.count() as u64)
}

/// The limit on open files.
fn open_files_limit(pid: u32) -> u64 {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap_or_default();
    field(&limits, "Max open files")
}

/// The number after `name` at the start of a line; 0 if there is none.
fn field(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_ascii_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// CPU time so far, of the whole machine and per CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MachineTime {
    pub(crate) all: CpuTime,
    pub(crate) cpus: BTreeMap<usize, CpuTime>,
}

/// In microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuTime {
    /// Time of processes in user and system mode. Interrupts are not included: most are caused by the
    /// target's traffic.
    pub(crate) processes_us: u64,
    pub(crate) steal_us: u64,
    pub(crate) all_us: u64,
}

pub(crate) fn machine_time() -> MachineTime {
    MachineTime::read(&fs::read_to_string("/proc/stat").unwrap_or_default())
}

impl MachineTime {
    /// `cpu` is their sum, `cpu0` the first one.
    fn read(text: &str) -> Self {
        let mut time = Self::default();
        for (name, rest) in text.lines().filter_map(|line| line.split_once(' ')) {
            match name.strip_prefix("cpu") {
                Some("") => time.all = CpuTime::read(rest),
                Some(number) => {
                    time.cpus
                        .extend(number.parse().map(|number: usize| (number, CpuTime::read(rest))));
                }
                None => {}
            }
        }
        time
    }
}

impl CpuTime {
    /// user, nice, system, idle, iowait, irq, softirq, steal; guests are part of user.
    fn read(text: &str) -> Self {
        let ticks: Vec<u64> = text
            .split_ascii_whitespace()
            .take(8)
            .filter_map(|word| word.parse::<u64>().ok())
            .map(|ticks| ticks.saturating_mul(TICK_US))
            .collect();
        let of = |index: usize| ticks.get(index).copied().unwrap_or(0);
        Self { processes_us: of(0) + of(1) + of(2), steal_us: of(7), all_us: ticks.iter().sum() }
    }

    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            processes_us: self.processes_us.saturating_sub(earlier.processes_us),
            steal_us: self.steal_us.saturating_sub(earlier.steal_us),
            all_us: self.all_us.saturating_sub(earlier.all_us),
        }
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            processes_us: self.processes_us + other.processes_us,
            steal_us: self.steal_us + other.steal_us,
            all_us: self.all_us + other.all_us,
        }
    }
}

/// Over 1, 5 and 15 minutes.
pub(crate) fn load_average() -> [f64; 3] {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let mut words = text.split_ascii_whitespace().filter_map(|word| word.parse().ok());
    [(); 3].map(|()| words.next().unwrap_or(0.0))
}

/// CPU name, kernel release, and memory in bytes.
pub(crate) fn machine() -> (String, String, u64) {
    let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let named =
        |line: &&str| ["model name", "Model", "Hardware"].iter().any(|n| line.starts_with(n));
    let cpu = cpuinfo.lines().find(named).and_then(|line| Some(line.split_once(':')?.1.trim()));
    let kernel = read("/proc/sys/kernel/osrelease").trim().to_owned();
    let kib = field(&read("/proc/meminfo"), "MemTotal:");
    (cpu.unwrap_or("unknown").to_owned(), kernel, kib.saturating_mul(1_024))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn stat_lines_are_parsed_with_any_name() {
        let line = "7 (a) b) S 3 7 7 0 -1 4194560 1 2 3 4 250 50 0 0 20 0 9 0 5 6 7";
        let stat = Stat::read(line).unwrap();
        assert_eq!((stat.parent, stat.user_us, stat.system_us), (3, 2_500_000, 500_000));
        assert_eq!((stat.threads, stat.rss_bytes), (9, 7 * page_bytes()));
        assert!(Stat::read("7 (a").is_none());
    }

    #[test]
    fn steal_idle_and_interrupts_are_not_process_time() {
        let time =
            MachineTime::read("cpu  10 1 20 100 5 2 3 7 4 0\ncpu0 1 2 3\ncpu12 4 5 6\nintr 7\n");
        let all =
            CpuTime { processes_us: 31 * TICK_US, steal_us: 7 * TICK_US, all_us: 148 * TICK_US };
        assert_eq!(time.all, all);
        let sums: Vec<_> = time.cpus.iter().map(|(n, cpu)| (*n, cpu.all_us / TICK_US)).collect();
        assert_eq!(sums, [(0, 6), (12, 15)]);
    }

    #[test]
    fn descriptors_are_compared_with_their_own_limit() {
        let of = |open, limit| Descriptors { open, limit };
        let (server, generator, unknown) = (of(900, 20_000), of(250, 256), of(5_000, 0));
        for (one, other) in [(server, generator), (generator, server), (generator, unknown)] {
            assert_eq!((one.fuller(other), other.fuller(one)), (generator, generator));
        }
        let own = Descriptors::of(std::process::id());
        assert!(own.open > 0 && own.limit >= own.open, "{own:?}");
    }

    /// Compares with the kernel's own figure, in kB.
    #[test]
    fn resident_memory_is_counted_in_pages_of_this_machine() {
        let own = used(&[std::process::id()]).rss_bytes;
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let expected = field(&status, "VmRSS:") * 1_024;
        assert!(own > expected / 2 && own < expected * 2, "{own} and {expected}");
    }

    #[test]
    fn our_own_use_is_measured() {
        let own = used(&[std::process::id()]);
        assert!(own.rss_bytes > 0 && own.threads > 0 && own.descriptors.open > 0, "{own:?}");
        assert!(families(&[1]).len() > 1 || std::process::id() == 1);
        let time = machine_time();
        assert!(time.all.all_us > 0 && !time.cpus.is_empty());
    }
}
