//! Operating system figures of this process: CPUs, open files, CPU time.

use std::fs;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

/// CPU time of the whole process so far, user and system, in microseconds.
pub(crate) fn process_cpu_us() -> u64 {
    cpu_us(UsageWho::RUSAGE_SELF)
}

/// Lets [`peak_rss_bytes`] begin again with the memory that is in use now. Where the kernel denies it, the peak remains
/// that of the process's whole life.
pub(crate) fn reset_peak_rss() {
    // Source: proc_pid_clear_refs(5).
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// The most memory that the process has used since [`reset_peak_rss`], in bytes.
pub(crate) fn peak_rss_bytes() -> u64 {
    let kib = getrusage(UsageWho::RUSAGE_SELF).map_or(0, |usage| usage.max_rss());
    u64::try_from(kib).unwrap_or(0).saturating_mul(1_024)
}

/// CPU time of the calling thread so far, user and system, in microseconds.
pub(crate) fn thread_cpu_us() -> u64 {
    cpu_us(UsageWho::RUSAGE_THREAD)
}

/// Time for which the calling thread was runnable without a CPU, in microseconds; 0 if the kernel does not report it.
pub(crate) fn thread_waited_us() -> u64 {
    let Ok(text) = fs::read_to_string("/proc/thread-self/schedstat") else {
        return 0;
    };
    let waited_ns = text.split_ascii_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok());
    waited_ns.unwrap_or(0) / 1_000
}

fn cpu_us(who: UsageWho) -> u64 {
    getrusage(who)
        .map_or(0, |usage| microseconds(usage.user_time()) + microseconds(usage.system_time()))
}

fn microseconds(time: TimeVal) -> u64 {
    let us = time.tv_sec().saturating_mul(1_000_000).saturating_add(time.tv_usec());
    u64::try_from(us).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_of_memory_begins_again() {
        const BYTES: usize = 256 << 20;
        let large = std::hint::black_box(vec![1_u8; BYTES]);
        let with_it = peak_rss_bytes();
        assert!(with_it > large.len() as u64, "{with_it}");
        drop(large);
        reset_peak_rss();
        let without = peak_rss_bytes();
        assert!(without < with_it - BYTES as u64 / 2, "{without} after {with_it}");
    }
}
