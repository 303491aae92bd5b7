//! Reading /proc: what processes used, and what else went on on the machine. Source: proc(5).

use std::fs;

/// /proc counts CPU time in hundredths of a second on every Linux.
const TICK_US: u64 = 10_000;
const PAGE_BYTES: u64 = 4_096;

/// What a process and its descendants used until now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Used {
    pub(crate) cpu_user_us: u64,
    pub(crate) cpu_system_us: u64,
    pub(crate) rss_bytes: u64,
    pub(crate) threads: u64,
    pub(crate) voluntary: u64,
    pub(crate) involuntary: u64,
    /// Open files of the process that has most of them.
    pub(crate) descriptors: u64,
}

/// The processes of which `roots` are, or from which they descend.
pub(crate) fn families(roots: &[u32]) -> Vec<u32> {
    let everyone: Vec<(u32, u32)> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, Stat::of(pid)?.parent)))
        .collect();
    let mut family = roots.to_vec();
    let mut next = 0;
    while let Some(&parent) = family.get(next) {
        family.extend(everyone.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    family
}

/// Sums over `pids`; those that are gone count nothing.
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
        sum.descriptors = sum.descriptors.max(open_files(pid));
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

    /// After the name in parentheses, field 4 is the parent, 14 and 15 user and system time, 20 the
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
            rss_bytes: number(24)?.saturating_mul(PAGE_BYTES),
        })
    }
}

/// Voluntary and involuntary context switches of all threads that live.
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

/// How many files the process may open.
pub(crate) fn open_files_limit(pid: u32) -> u64 {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap_or_default();
    field(&limits, "Max open files")
}

/// The number behind `name` at the beginning of a line; zero where there is none.
fn field(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_ascii_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// CPU time of the whole machine until now, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MachineTime {
    pub(crate) busy_us: u64,
    pub(crate) steal_us: u64,
    pub(crate) all_us: u64,
}

pub(crate) fn machine_time() -> MachineTime {
    MachineTime::read(&fs::read_to_string("/proc/stat").unwrap_or_default())
}

impl MachineTime {
    /// user, nice, system, idle, iowait, irq, softirq, steal; guests are part of user.
    fn read(text: &str) -> Self {
        let line = text.lines().find_map(|line| line.strip_prefix("cpu "));
        let ticks: Vec<u64> = line
            .unwrap_or_default()
            .split_ascii_whitespace()
            .take(8)
            .filter_map(|word| word.parse::<u64>().ok())
            .map(|ticks| ticks.saturating_mul(TICK_US))
            .collect();
        let of = |index: usize| ticks.get(index).copied().unwrap_or(0);
        let all_us: u64 = ticks.iter().sum();
        let (idle_us, steal_us) = (of(3) + of(4), of(7));
        Self { busy_us: all_us.saturating_sub(idle_us + steal_us), steal_us, all_us }
    }
}

/// TCP sockets that hold a port: in use, or waiting after their close.
pub(crate) fn ports_in_use() -> u64 {
    let text = fs::read_to_string("/proc/net/sockstat").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("TCP:")).unwrap_or_default();
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let of = |name: &str| {
        let pair = words.chunks_exact(2).find(|pair| pair.first() == Some(&name));
        pair.and_then(|pair| pair.get(1)?.parse::<u64>().ok()).unwrap_or(0)
    };
    of("inuse") + of("tw")
}

/// Ports that the kernel gives to outgoing connections.
pub(crate) fn ports_available() -> u64 {
    let text = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut ends = text.split_ascii_whitespace().filter_map(|word| word.parse::<u64>().ok());
    let ends = ends.next().zip(ends.next());
    ends.map_or(0, |(first, last)| last.saturating_sub(first) + 1)
}

/// Over 1, 5 and 15 minutes.
pub(crate) fn load_average() -> [f64; 3] {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let mut words = text.split_ascii_whitespace().filter_map(|word| word.parse().ok());
    [(); 3].map(|()| words.next().unwrap_or(0.0))
}

/// The CPU's name, the kernel's release, and the memory in bytes.
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
#[allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]
mod tests {
    use super::*;

    #[test]
    fn a_stat_line_is_read_whatever_the_name() {
        let line = "7 (a) b) S 3 7 7 0 -1 4194560 1 2 3 4 250 50 0 0 20 0 9 0 5 6 7";
        let stat = Stat::read(line).unwrap();
        assert_eq!((stat.parent, stat.user_us, stat.system_us), (3, 2_500_000, 500_000));
        assert_eq!((stat.threads, stat.rss_bytes), (9, 7 * PAGE_BYTES));
        assert!(Stat::read("7 (a").is_none());
    }

    #[test]
    fn steal_and_idle_are_no_work() {
        let time = MachineTime::read("cpu  10 1 20 100 5 2 3 7 4 0\ncpu0 1 2 3\n");
        assert_eq!(time.all_us, 148 * TICK_US);
        assert_eq!((time.busy_us, time.steal_us), (36 * TICK_US, 7 * TICK_US));
    }

    #[test]
    fn our_own_use_is_known() {
        let own = used(&[std::process::id()]);
        assert!(own.rss_bytes > 0 && own.threads > 0 && own.descriptors > 0, "{own:?}");
        assert!(families(&[1]).len() > 1 || std::process::id() == 1);
        assert!(machine_time().all_us > 0 && ports_available() > 0);
    }
}
