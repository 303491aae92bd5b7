//! CPU affinity.

use std::io;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// Parses `0`, `2-3` or `0,2-3`.
///
/// # Errors
/// A message for the user.
pub(crate) fn parse(text: &str) -> Result<Vec<usize>, String> {
    let mut cores = Vec::new();
    for piece in text.split(',') {
        let (first, last) = piece.split_once('-').unwrap_or((piece, piece));
        let number = |word: &str| word.trim().parse::<usize>().ok();
        let ends = number(first).zip(number(last));
        let (first, last) = ends
            .filter(|&(first, last)| first <= last && last < CpuSet::count())
            .ok_or_else(|| format!("`{text}` is not a list of CPUs"))?;
        cores.extend(first..=last);
    }
    Ok(cores)
}

/// The CPUs that the calling thread may run on.
pub(crate) fn allowed() -> Vec<usize> {
    let set = sched_getaffinity(Pid::from_raw(0)).unwrap_or_default();
    (0..CpuSet::count()).filter(|&cpu| set.is_set(cpu).unwrap_or(false)).collect()
}

/// Pins the calling thread, and threads and processes it starts from now on, to `cores`.
pub(crate) fn pin(cores: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for &core in cores {
        set.set(core)?;
    }
    Ok(sched_setaffinity(Pid::from_raw(0), &set)?)
}

/// Runs `work` pinned to `cores`; threads and processes it starts inherit the affinity.
pub(crate) fn on<T>(cores: &[usize], work: impl FnOnce() -> T) -> io::Result<T> {
    let before = allowed();
    pin(cores)?;
    let done = work();
    pin(&before)?;
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_use_taskset_notation() {
        assert_eq!(parse("0"), Ok(vec![0]));
        assert_eq!(parse("2-4,7"), Ok(vec![2, 3, 4, 7]));
        for text in ["", "a", "3-2", "0,", "99999"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
