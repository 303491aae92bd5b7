//! This process's part of the machine: CPUs and open files.

use nix::sched::{CpuSet, sched_getaffinity};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::Pid;

/// The number of CPUs this process may run on; 1 if unknown.
pub fn cpus() -> usize {
    let allowed =
        |set: CpuSet| (0..CpuSet::count()).filter(|&cpu| set.is_set(cpu).unwrap_or(false)).count();
    sched_getaffinity(Pid::from_raw(0)).map_or(1, allowed).max(1)
}

/// Raises the limit on open files to the hard limit and returns it.
pub fn raise_open_files() -> u64 {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return 0;
    };
    if soft < hard && setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok() {
        return hard;
    }
    soft
}
