//! Samples resource use of the processes of a measurement, and of the machine, while it runs.
//!
//! A thread takes a sample every [`EVERY`]; at the end, the samples within the measured time are evaluated.
//! CPU time has a resolution of 10 ms, so a measurement of one second is accurate to a few percent.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use base::{Clock, SystemClock};

use crate::limits;

use super::interference::{self, PartUsage};
use super::ports::{self, PortCounter};
use super::proc::{self, Descriptors, MachineTime, Used};
use crate::result::{Environment, Use};

const EVERY: Duration = Duration::from_millis(200);

/// The processes to watch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watched {
    pub(crate) target: WatchedGroup,
    pub(crate) backend: WatchedGroup,
    pub(crate) helper: WatchedGroup,
    /// The generator is this process.
    pub(crate) generator_cores: Option<Vec<usize>>,
}

/// Processes with the same role (possibly none), and the CPUs that they are pinned to.
#[derive(Clone, Debug, Default)]
pub(crate) struct WatchedGroup {
    pub(crate) pids: Vec<u32>,
    pub(crate) cores: Option<Vec<usize>>,
}

/// Resource use over the measured time.
#[derive(Debug, Default)]
pub(crate) struct Sampled {
    pub(crate) target: Option<Use>,
    pub(crate) backend: Option<Use>,
    pub(crate) helper: Option<Use>,
    pub(crate) generator: Option<Use>,
    pub(crate) environment: Environment,
}

#[derive(Clone, Debug, Default)]
struct UsageSample {
    at_us: u64,
    parts: [Used; PARTS],
    machine: MachineTime,
    ports: u64,
}

/// Target, backend, helper, generator.
const PARTS: usize = 4;

pub(crate) struct Sampler {
    clock: SystemClock,
    stop: Sender<()>,
    thread: JoinHandle<Vec<UsageSample>>,
    parts: [WatchedGroup; PARTS],
}

impl Sampler {
    pub(crate) fn start(watched: &Watched) -> Self {
        // The generator would raise the limit a moment later; samples before that would show a lower one.
        echo::machine::raise_open_files();
        let clock = SystemClock::new();
        let Watched { target, backend, helper, generator_cores } = watched.clone();
        let generator = WatchedGroup { pids: vec![std::process::id()], cores: generator_cores };
        let parts = [target, backend, helper, generator];
        let (stop, stopped) = channel();
        let (thread_clock, roots) = (clock.clone(), parts.each_ref().map(|part| part.pids.clone()));
        let thread = thread::spawn(move || sample_until_stopped(&thread_clock, &roots, &stopped));
        Self { clock, stop, thread, parts }
    }

    /// Microseconds since the start, on the clock used by [`Sampler::finish`].
    pub(crate) fn now_us(&self) -> u64 {
        self.clock.now_us()
    }

    /// Evaluates the samples from `from_us` to `until_us`; `rate_per_s` converts time to requests.
    pub(crate) fn finish(self, from_us: u64, until_us: u64, rate_per_s: f64) -> Sampled {
        drop(self.stop);
        let samples = self.thread.join().unwrap_or_default();
        let within = |sample: &&UsageSample| (from_us..=until_us).contains(&sample.at_us);
        let samples: Vec<UsageSample> = samples.iter().filter(within).cloned().collect();
        let Some((first, last)) = samples.first().zip(samples.last()) else {
            return Sampled::default();
        };
        let [target, backend, helper, generator] =
            [0, 1, 2, 3].map(|part| used(&samples, part, rate_per_s));
        let others = interference::others(
            &last.machine.since(&first.machine),
            &shares_of(&self.parts, first, last),
        );
        let ports = ports::available();
        let descriptors = samples
            .iter()
            .flat_map(|sample| sample.parts.iter().map(|used| used.descriptors))
            .fold(Descriptors::default(), Descriptors::fuller);
        let environment = Environment {
            steal_percent: others.steal,
            other_cpu_percent: others.other,
            pinned_steal_percent: others.pinned_steal,
            pinned_other_cpu_percent: others.pinned_other,
            clock_step_us: clock_step_us(&self.clock),
            ports_in_use: samples.iter().map(|sample| sample.ports).max().unwrap_or(0),
            ports_available: ports.len() as u64,
            descriptors: descriptors.open,
            descriptors_limit: descriptors.limit,
        };
        Sampled { target, backend, helper, generator, environment }
    }
}

/// CPU time of each watched group between two samples.
fn shares_of(
    parts: &[WatchedGroup; PARTS],
    first: &UsageSample,
    last: &UsageSample,
) -> Vec<PartUsage> {
    let cpu_us = |used: &Used| used.cpu_user_us + used.cpu_system_us;
    let used = parts.iter().zip(first.parts.iter().zip(&last.parts));
    used.filter(|(part, _)| !part.pids.is_empty())
        .map(|(part, (from, to))| PartUsage {
            used_us: cpu_us(to).saturating_sub(cpu_us(from)),
            cores: part.cores.clone(),
        })
        .collect()
}

fn sample_until_stopped(
    clock: &SystemClock,
    roots: &[Vec<u32>; PARTS],
    stopped: &Receiver<()>,
) -> Vec<UsageSample> {
    let mut samples = Vec::new();
    let mut families = [const { Vec::new() }; PARTS];
    let mut ports = PortCounter::default();
    while samples.len() < limits::LAB_USAGE_SAMPLES_MAX {
        // Reading all of /proc is expensive, and process trees change rarely.
        if samples.len() % 16 == 0 {
            families = roots.each_ref().map(|roots| match roots.as_slice() {
                [] => Vec::new(),
                roots => proc::families(roots),
            });
            // The generator is the parent of the others, which must not be counted as part of it.
            families[PARTS - 1].truncate(1);
        }
        samples.push(UsageSample {
            at_us: clock.now_us(),
            parts: families.each_ref().map(|pids| proc::used(pids)),
            machine: proc::machine_time(),
            ports: ports.count(),
        });
        if stopped.recv_timeout(EVERY) != Err(RecvTimeoutError::Timeout) {
            break;
        }
    }
    samples
}

/// `None` if nothing was watched or the time is too short.
fn used(samples: &[UsageSample], part: usize, rate_per_s: f64) -> Option<Use> {
    let of = |sample: &UsageSample| sample.parts.get(part).copied().unwrap_or_default();
    let (first, last) = samples.first().zip(samples.last())?;
    let span_us = last.at_us.saturating_sub(first.at_us);
    let requests = rate_per_s * span_us as f64 / 1_000_000.0;
    let (from, to) = (of(first), of(last));
    if requests < 1.0 || to.threads == 0 {
        return None;
    }
    let each = |from: u64, to: u64| to.saturating_sub(from) as f64 / requests;
    let rss: Vec<u64> = samples.iter().map(|sample| of(sample).rss_bytes).collect();
    Some(Use {
        cpu_user_us: each(from.cpu_user_us, to.cpu_user_us),
        cpu_system_us: each(from.cpu_system_us, to.cpu_system_us),
        rss_mean_bytes: rss.iter().sum::<u64>() / rss.len().max(1) as u64,
        rss_peak_bytes: rss.iter().copied().max().unwrap_or(0),
        threads: samples.iter().map(|sample| of(sample).threads).max().unwrap_or(0),
        voluntary_switches: each(from.voluntary, to.voluntary),
        involuntary_switches: each(from.involuntary, to.involuntary),
    })
}

/// Change of the wall clock relative to the monotonic clock since `since` was created.
fn clock_step_us(since: &SystemClock) -> i64 {
    let now = SystemClock::new();
    let mono_us = since.now().mono_us;
    let expected = i128::from(since.origin_unix_us()) + i128::from(mono_us);
    i64::try_from(i128::from(now.origin_unix_us()) - expected).unwrap_or(i64::MAX)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn use_is_reported_per_request() {
        let sample = |at_us, user, rss, voluntary| {
            let used = Used {
                cpu_user_us: user,
                rss_bytes: rss,
                voluntary,
                threads: 2,
                ..Used::default()
            };
            let unused = Used::default();
            UsageSample { at_us, parts: [used, unused, unused, unused], ..UsageSample::default() }
        };
        let samples = [
            sample(0, 100, 10, 0),
            sample(1_000_000, 600_100, 30, 500),
            sample(2_000_000, 1_000_100, 20, 1_000),
        ];
        let found = used(&samples, 0, 1_000.0).unwrap();
        assert_eq!((found.cpu_user_us, found.voluntary_switches), (500.0, 0.5));
        assert_eq!((found.rss_mean_bytes, found.rss_peak_bytes, found.threads), (20, 30, 2));
        assert_eq!(used(&samples, 1, 1_000.0), None);
        assert_eq!(used(&samples[..1], 0, 1_000.0), None);
    }

    #[test]
    fn an_unchanged_clock_has_no_step() {
        assert!(clock_step_us(&SystemClock::new()).abs() < 1_000_000);
    }
}
