//! The monitor of a running measurement: edges of the measured time, progress, early stops, and recordings.
//! Runs on the calling thread.

use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::limits;
use crate::load::report::{Progress, SeriesPoint};
use crate::load::statistics::Interval;
use crate::load::thread_state::{Plan, ThreadState};
use crate::load::{LoadError, Options, us};
use crate::machine;
use crate::recording::hlog::{HistogramLog, TimedInterval};
use crate::recording::jtl::{Chunks, Jtl, LineConstants};
use crate::target::proc;

const SECOND: Duration = Duration::from_secs(1);

/// The recordings requested for a measurement.
pub(super) struct RecordingFiles {
    hlog: Option<HistogramLog>,
    jtl: Option<Jtl>,
}

impl RecordingFiles {
    /// # Errors
    /// [`LoadError::File`]: a file exists or cannot be created.
    pub(super) fn create(plan: &Plan, options: &Options) -> Result<Self, LoadError> {
        let origin_us = plan.clock.origin_unix_us();
        let mut files = Self { hlog: None, jtl: None };
        if let Some(path) = &options.recordings.hlog {
            let failed = |source| LoadError::File { path: path.clone(), source };
            let title = format!("penstock lab load {}", options.url);
            files.hlog = Some(HistogramLog::create(path, origin_us, title).map_err(failed)?);
        }
        if let Some(path) = &options.recordings.jtl {
            let failed = |source| LoadError::File { path: path.clone(), source };
            let requests = options.scenario.iter().flat_map(|scenario| scenario.urls(&options.url));
            let (url, requests) = (options.url.clone(), requests.collect());
            let same = LineConstants { origin_us, url, requests };
            files.jtl = Some(Jtl::create(path, same).map_err(failed)?);
        }
        Ok(files)
    }

    pub(super) fn chunks(&self) -> Option<Chunks> {
        self.jtl.as_ref().map(Jtl::chunks)
    }

    /// Waits until everything is written. Returns a message for each incomplete file.
    pub(super) fn finish(self) -> Vec<String> {
        let mut problems = Vec::new();
        if let Some(Err(error)) = self.hlog.map(HistogramLog::finish) {
            problems.push(format!("the histogram log is incomplete: {error}"));
        }
        match self.jtl.map(Jtl::finish) {
            Some(Err(error)) => problems.push(format!("the JTL is incomplete: {error}")),
            Some(Ok(lost)) if lost > 0 => {
                problems.push(format!("the JTL is missing {lost} samples: the disk was too slow"));
            }
            Some(Ok(_)) | None => {}
        }
        problems
    }
}

/// Reports progress, handles early stops, and reads the process's CPU time at both ends of the measured time.
pub(super) struct Monitor<'a> {
    plan: &'a Plan,
    states: &'a [Arc<ThreadState>],
    files: &'a RecordingFiles,
    options: &'a Options,
    progress: &'a mut dyn FnMut(&Progress),
    /// CPU times and finished requests at the start of the measured time.
    began: Option<(CpuTimes, u64)>,
    ended: Option<(CpuTimes, u64)>,
    /// Time of the last progress report, and the finished requests at that time.
    last_progress: (u64, u64),
    /// Start of the current interval of histogram log and time series.
    interval_us: u64,
    series: Vec<SeriesPoint>,
    /// CPU time at the last progress report, and at the start of the current interval.
    cpu_us: (CpuTimes, CpuTimes),
}

impl<'a> Monitor<'a> {
    pub(super) fn new(
        plan: &'a Plan,
        states: &'a [Arc<ThreadState>],
        files: &'a RecordingFiles,
        options: &'a Options,
        progress: &'a mut dyn FnMut(&Progress),
    ) -> Self {
        let last_progress = (plan.now_us(), 0);
        let interval_us = plan.window.from_us;
        Self {
            plan,
            states,
            files,
            options,
            progress,
            began: None,
            ended: None,
            last_progress,
            interval_us,
            series: Vec::new(),
            cpu_us: (CpuTimes::now(options), CpuTimes::default()),
        }
    }

    /// Returns at the end of the measured time; `true` if it was ended early.
    pub(super) async fn until_over(&mut self, ctrl_c: &mut CtrlC) -> Result<bool, LoadError> {
        loop {
            let now_us = self.plan.now_us();
            if self.began.is_none() && now_us >= self.plan.window.from_us {
                let began = self.snapshot();
                self.cpu_us.1 = began.0;
                self.began = Some(began);
            }
            if now_us >= self.plan.window.until_us() {
                self.ended = Some(self.snapshot());
                return Ok(false);
            }
            if self.options.stop.is_stopped() || ctrl_c.pressed() {
                self.plan.window.end_at(self.whole_ms(now_us));
                self.ended = Some(self.snapshot());
                return Ok(true);
            }
            // A report of the measured time has the percentiles of the second that has just ended.
            let is_due = if now_us >= self.next_second_us() {
                self.take_interval(now_us);
                true
            } else {
                self.began.is_none() && now_us >= self.next_warm_up_report_us()
            };
            if is_due {
                self.report_progress(now_us);
            }
            let pause = Duration::from_micros(self.next_us(now_us).saturating_sub(now_us));
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = ctrl_c.wait() => {}
                () = self.plan.finished.notified() => {}
            }
        }
    }

    /// The next time to wake up: an edge of the measured time, a progress report, or a check for a stop.
    fn next_us(&self, now_us: u64) -> u64 {
        let mut next_us = now_us.saturating_add(us(STOP_LOOK)).min(self.plan.window.until_us());
        next_us = next_us.min(self.next_second_us());
        if self.began.is_none() {
            next_us = next_us.min(self.next_warm_up_report_us());
            next_us = next_us.min(self.plan.window.from_us);
        }
        next_us
    }

    fn next_warm_up_report_us(&self) -> u64 {
        self.last_progress.0.saturating_add(us(SECOND))
    }

    /// The end of the current interval: a whole second of the measured time. Intervals end a little later, which must
    /// not add up: those of several agents belong together.
    fn next_second_us(&self) -> u64 {
        let from_us = self.plan.window.from_us;
        let since_us = self.interval_us.saturating_sub(from_us);
        let seconds = since_us.saturating_add(us(SECOND) / 2) / us(SECOND) + 1;
        from_us.saturating_add(seconds.saturating_mul(us(SECOND)))
    }

    fn report_progress(&mut self, now_us: u64) {
        let (requests, errors) = self.finished();
        let since_s = now_us.saturating_sub(self.last_progress.0) as f64 / 1_000_000.0;
        let left_us = self.plan.window.until_us().saturating_sub(now_us);
        let spent = self.cpu_us.0.advance(self.options);
        let last = self.series.last();
        (self.progress)(&Progress {
            p50_ms: last.and_then(|point| point.p50_ms),
            p99_ms: last.and_then(|point| point.p99_ms),
            generator_cpus: spent.generator_us as f64 / 1_000_000.0 / since_s,
            target_cpus: spent.target_us.map(|us| us as f64 / 1_000_000.0 / since_s),
            warming_up: now_us < self.plan.window.from_us,
            requests,
            errors,
            rate_per_s: requests.saturating_sub(self.last_progress.1) as f64 / since_s,
            left: Duration::from_micros(left_us),
            requests_left: self.plan.requests.map(|all| {
                let measured = self.began.map_or(0, |(_, before)| requests.saturating_sub(before));
                self.plan.part.share(all).saturating_sub(measured)
            }),
        });
        self.last_progress = (now_us, requests);
    }

    fn finished(&self) -> (u64, u64) {
        let mut sum = (0, 0);
        for state in self.states {
            let (all, errors) = state.finished();
            sum = (sum.0 + all, sum.1 + errors);
        }
        sum
    }

    /// The next whole millisecond of Unix time, on the plan's clock.
    fn whole_ms(&self, us: u64) -> u64 {
        let origin_us = self.plan.clock.origin_unix_us();
        us.saturating_add(origin_us).next_multiple_of(1_000).saturating_sub(origin_us)
    }

    /// Adds the counts since the last interval to the time series, and to the histogram log if there is one.
    fn take_interval(&mut self, until_us: u64) {
        let from_us = std::mem::replace(&mut self.interval_us, until_us);
        let spent = self.cpu_us.1.advance(self.options);
        let open = self.plan.shape.is_open();
        let mut sum = Interval::new(open);
        for state in self.states {
            if let Some(interval) = state.take_interval(Interval::new(open)) {
                sum.merge(&interval);
            }
        }
        let begin_us = self.plan.window.from_us;
        let spent_us = spent.generator_us;
        let second = TimedInterval { from_us, until_us, interval: sum, spent_us };
        if let Some(point) = point(begin_us, &second, spent.target_us)
            && self.series.len() < limits::LOAD_SERIES_MAX
        {
            self.series.push(point);
        }
        if let Some(send) = &self.plan.on_second {
            send(TimedInterval {
                from_us: from_us.saturating_sub(begin_us),
                until_us: until_us.saturating_sub(begin_us),
                interval: second.interval.clone(),
                spent_us,
            });
        }
        if let Some(log) = &self.files.hlog {
            log.push(second);
        }
    }

    /// The time series so far.
    pub(super) fn series(&mut self) -> Vec<SeriesPoint> {
        std::mem::take(&mut self.series)
    }

    /// Writes the requests that finished after the last full interval.
    pub(super) fn last_interval(&mut self) {
        self.take_interval(self.plan.now_us());
    }

    fn snapshot(&self) -> (CpuTimes, u64) {
        (CpuTimes::now(self.options), self.finished().0)
    }

    /// CPU times and finished requests within the measured time.
    pub(super) fn spent(&self) -> (CpuTimes, u64) {
        let (Some((cpu_from, from)), Some((cpu_to, to))) = (self.began, self.ended) else {
            return (CpuTimes::default(), 0);
        };
        (cpu_to.since(cpu_from), to.saturating_sub(from))
    }
}

/// CPU time in microseconds: of this process, and of the target with its descendants.
#[derive(Clone, Copy, Default)]
pub(crate) struct CpuTimes {
    pub(super) generator_us: u64,
    pub(crate) target_us: Option<u64>,
}

impl CpuTimes {
    pub(crate) fn now(options: &Options) -> Self {
        let of_target = || {
            let used = proc::used(&proc::families(&options.target_pids));
            used.cpu_user_us + used.cpu_system_us
        };
        Self {
            generator_us: machine::process_cpu_us(),
            target_us: (!options.target_pids.is_empty()).then(of_target),
        }
    }

    /// CPU time since the previous call.
    pub(crate) fn advance(&mut self, options: &Options) -> Self {
        let before = std::mem::replace(self, Self::now(options));
        self.since(before)
    }

    fn since(self, before: Self) -> Self {
        Self {
            generator_us: self.generator_us.saturating_sub(before.generator_us),
            target_us: self.target_us.map(|us| us.saturating_sub(before.target_us.unwrap_or(us))),
        }
    }
}

/// `None` for an interval without time or requests at the end of the measured time.
/// `begin_us`: the start of the measured time. `target_us`: the target's CPU time in the interval.
pub(crate) fn point(
    begin_us: u64,
    second: &TimedInterval,
    target_us: Option<u64>,
) -> Option<SeriesPoint> {
    let TimedInterval { from_us, until_us, interval, spent_us } = second;
    let seconds = until_us.saturating_sub(*from_us) as f64 / 1_000_000.0;
    let latencies = &interval.latencies_us;
    let requests = latencies.len();
    if seconds <= 0.0 || (requests == 0 && seconds < SECOND.as_secs_f64()) {
        return None;
    }
    let ms = |us: u64| (requests > 0).then_some(us as f64 / 1_000.0);
    Some(SeriesPoint {
        from_s: from_us.saturating_sub(begin_us) as f64 / 1_000_000.0,
        seconds,
        requests,
        errors: interval.errors,
        rate_per_s: requests as f64 / seconds,
        p50_ms: ms(latencies.value_at_quantile(0.5)),
        p99_ms: ms(latencies.value_at_quantile(0.99)),
        max_ms: ms(latencies.max()),
        generator_cpus: *spent_us as f64 / 1_000_000.0 / seconds,
        target_cpus: target_us.map(|us| us as f64 / 1_000_000.0 / seconds),
    })
}

/// How often to check for a stop requested by the program.
const STOP_LOOK: Duration = Duration::from_millis(50);

/// The handlers of SIGINT (Ctrl-C) and SIGTERM, if requested.
pub(crate) struct CtrlC {
    signals: Option<(Signal, Signal)>,
    pressed: bool,
}

impl CtrlC {
    pub(crate) fn new(wanted: bool) -> Result<Self, LoadError> {
        let both = || Ok((signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?));
        let signals: Result<_, LoadError> = wanted.then(both).transpose();
        Ok(Self { signals: signals?, pressed: false })
    }

    pub(crate) fn pressed(&self) -> bool {
        self.pressed
    }

    pub(crate) async fn wait(&mut self) {
        match &mut self.signals {
            Some((interrupt, terminate)) => {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                self.pressed = true;
            }
            None => std::future::pending().await,
        }
    }
}
