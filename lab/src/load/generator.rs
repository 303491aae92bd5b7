//! The generator's threads: each runs its share of the users and measures its own utilisation and lag.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::limits;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::load::monitor::{CtrlC, Monitor, RecordingFiles};
use crate::load::multiplex::{Context, Multiplexed};
use crate::load::report::Generator;
use crate::load::report::{Collected, Progress};
use crate::load::response::Outcome;
use crate::load::shape::{IdleUser, NextStart};
use crate::load::statistics::{Detail, Sample, Tally, Traffic};
use crate::load::thread_state::{Plan, ThreadState, TimeoutSlot};
use crate::load::user::User;
use crate::load::wake_timer::WakeTimer;
use crate::load::{LoadError, Options, Protocol, us};
use crate::machine;

const SWEEP: Duration = Duration::from_millis(limits::SWEEP_MS as u64);

/// Runs the users on their threads and monitors them from the calling thread.
pub(super) async fn measure(
    plan: &Arc<Plan>,
    options: &Options,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Collected, LoadError> {
    machine::reset_peak_rss();
    let files = RecordingFiles::create(plan, options)?;
    let mut states = Vec::new();
    let mut threads = Vec::new();
    for index in 0..plan.threads {
        let state = Arc::new(ThreadState::new(plan, index, files.chunks()));
        states.push(Arc::clone(&state));
        threads.push(Thread::start(index, Arc::clone(plan), state)?);
    }
    let mut monitor = Monitor::new(plan, &states, &files, options, progress);
    let mut ctrl_c = CtrlC::new(options.ctrl_c)?;
    let interrupted = monitor.until_over(&mut ctrl_c).await?;
    let (spent, finished) = monitor.spent();
    let measured_us = plan.window.until_us().saturating_sub(plan.window.from_us);
    let mut generator = Generator::default();
    for thread in threads {
        let of = thread.join(interrupted, &mut ctrl_c).await?;
        generator.busy = generator.busy.max(of.busy);
        generator.waited = generator.waited.max(of.waited);
    }
    generator.peak_rss_bytes = machine::peak_rss_bytes();
    let interrupted = interrupted || ctrl_c.pressed();
    monitor.last_interval();
    let series = monitor.series();
    let mut tally = Tally::new(plan.shape.is_open(), false);
    for state in &states {
        tally.merge(&state.close());
    }
    let recording_problems = files.finish();
    Ok(Collected {
        tally,
        measured_us,
        measured_from_ms: plan.window.from_us.saturating_add(plan.clock.origin_unix_us()) / 1_000,
        interrupted,
        cpu_us: spent.generator_us,
        target_cpu_us: spent.target_us,
        finished,
        generator,
        recording_problems,
        series,
    })
}

/// One generator thread with its share of the users.
struct Thread {
    handle: JoinHandle<()>,
    done: oneshot::Receiver<Generator>,
    abort: oneshot::Sender<()>,
}

impl Thread {
    fn start(index: usize, plan: Arc<Plan>, state: Arc<ThreadState>) -> Result<Self, LoadError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let wake_timer = {
            let _entered = runtime.enter();
            WakeTimer::new(plan.clock.clone())?
        };
        let (done_sender, done) = oneshot::channel();
        let (abort, aborted) = oneshot::channel();
        let name = format!("load-{index}");
        let handle = thread::Builder::new().name(name).spawn(move || {
            let generator = runtime.block_on(
                Driver { plan, state, wake_timer: Arc::new(wake_timer) }.drive(index, aborted),
            );
            // The receiver is gone only if the whole measurement was abandoned.
            let _ = done_sender.send(generator);
        })?;
        Ok(Self { handle, done, abort })
    }

    /// Waits for requests in flight; after an interrupt, only for a short time.
    async fn join(self, interrupted: bool, ctrl_c: &mut CtrlC) -> Result<Generator, LoadError> {
        let Self { handle, mut done, abort } = self;
        let mut result = None;
        if !interrupted && !ctrl_c.pressed() {
            tokio::select! {
                ended = &mut done => result = Some(ended),
                () = ctrl_c.wait() => {}
            }
        }
        if result.is_none() {
            let grace = Duration::from_millis(limits::LOAD_STOP_MS);
            result = tokio::time::timeout(grace, &mut done).await.ok();
            drop(abort);
        }
        let result = match result {
            Some(result) => result,
            None => done.await,
        };
        let broken = || std::io::Error::other("a generator thread panicked");
        handle.join().map_err(|_| broken())?;
        Ok(result.map_err(|_| broken())?)
    }
}

/// The context of one thread.
struct Driver {
    plan: Arc<Plan>,
    state: Arc<ThreadState>,
    wake_timer: Arc<WakeTimer>,
}

impl Driver {
    /// Runs the thread's users, and sweeps for requests that exceed the timeout.
    async fn drive(self, index: usize, mut aborted: oneshot::Receiver<()>) -> Generator {
        let part = self.plan.thread_part(index);
        let mut users = JoinSet::new();
        let mut slots = Vec::new();
        let all = self.plan.timeline.users;
        for connection in (part.index..self.plan.protocol.connections(all)).step_by(part.of) {
            let slot = Arc::new(TimeoutSlot::new());
            slots.push(Arc::clone(&slot));
            let (plan, state) = (Arc::clone(&self.plan), Arc::clone(&self.state));
            let wake_timer = Arc::clone(&self.wake_timer);
            match self.plan.protocol {
                Protocol::Http1 | Protocol::WebSocket => {
                    users.spawn(User { plan, state, slot, wake_timer, index: connection }.run());
                }
                Protocol::Http2 { .. } => {
                    let indices = self.plan.protocol.users_of(connection, all);
                    let context = Context { plan, state, slot, wake_timer };
                    users.spawn(Multiplexed::new(context, indices).run());
                }
            }
        }
        let mut meter = Meter::default();
        let helpers = async { tokio::join!(self.wake_timer.run(), self.probe()) };
        tokio::pin!(helpers);
        loop {
            let now_us = self.plan.now_us();
            meter.look(&self.plan, now_us);
            let over = now_us >= self.plan.window.until_us();
            if over {
                self.wake_timer.wake_all();
            }
            if let Some(deadline_us) = now_us.checked_sub(us(self.plan.timeout)) {
                slots.iter().for_each(|slot| slot.expire(deadline_us));
            }
            tokio::select! {
                () = tokio::time::sleep(meter.pause(&self.plan, now_us)) => {}
                () = finish(&mut users) => break,
                // The sender is dropped when the grace period is over.
                _ = &mut aborted, if over => break,
                _ = &mut helpers, if !over => {}
            }
        }
        drop(users);
        self.record_unsent();
        meter.end(self.plan.now_us());
        self.plan.thread_ended();
        meter.generator()
    }

    /// Wakes up at even intervals and records how late: the scheduling lag of everything on this thread.
    async fn probe(&self) {
        let mut due_us = self.plan.window.from_us;
        while due_us < self.plan.window.until_us() {
            self.wake_timer.sleep_until(due_us).await;
            let now_us = self.plan.now_us();
            self.state.record_lag(now_us.saturating_sub(due_us));
            due_us = now_us.saturating_add(limits::LOAD_LAG_PROBE_US);
        }
    }

    /// After an interrupt, records requests that are due but will not be sent as late and failed.
    fn record_unsent(&self) {
        let free = IdleUser { user: 0, made: 1, since_us: self.plan.now_us() };
        // With a number of requests instead of a time, no request is due after them.
        let open = self.plan.shape.is_open() && self.plan.requests.is_none();
        while open
            && let NextStart::Due(from_us) = self.state.next(free)
            && from_us < self.plan.window.until_us()
        {
            let now_us = self.plan.now_us();
            let sample = Sample {
                from_us,
                start_us: now_us,
                end_us: now_us,
                outcome: Outcome::Unsent,
                bytes: Traffic::default(),
                queued: true,
                detail: Detail::default(),
            };
            self.state.record(self.plan.window.measures(from_us), &sample);
        }
    }
}

async fn finish(users: &mut JoinSet<()>) {
    while let Some(ended) = users.join_next().await {
        if let Err(error) = ended
            && let Ok(panic) = error.try_into_panic()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

/// CPU use of the thread within the measured time.
#[derive(Default)]
struct Meter {
    began: Option<CpuReading>,
    ended: Option<CpuReading>,
}

#[derive(Clone, Copy)]
struct CpuReading {
    at_us: u64,
    cpu_us: u64,
    waited_us: u64,
}

impl CpuReading {
    fn at(at_us: u64) -> Self {
        Self { at_us, cpu_us: machine::thread_cpu_us(), waited_us: machine::thread_waited_us() }
    }
}

impl Meter {
    fn look(&mut self, plan: &Plan, at_us: u64) {
        if self.began.is_none() && at_us >= plan.window.from_us {
            self.began = Some(CpuReading::at(at_us));
        }
        if at_us >= plan.window.until_us() {
            self.end(at_us);
        }
    }

    /// The thread's measured time is over.
    fn end(&mut self, at_us: u64) {
        self.ended.get_or_insert_with(|| CpuReading::at(at_us));
    }

    /// Time until the next sweep or the next edge of the measured time.
    fn pause(&self, plan: &Plan, now_us: u64) -> Duration {
        let edge_us = match (self.began, self.ended) {
            (None, _) => plan.window.from_us,
            (Some(_), None) => plan.window.until_us(),
            (Some(_), Some(_)) => u64::MAX,
        };
        SWEEP.min(Duration::from_micros(edge_us.saturating_sub(now_us)))
    }

    fn generator(&self) -> Generator {
        let (Some(began), Some(ended)) = (self.began, self.ended) else {
            return Generator::default();
        };
        let elapsed_us = ended.at_us.saturating_sub(began.at_us).max(1) as f64;
        let share = |from: u64, to: u64| to.saturating_sub(from) as f64 / elapsed_us;
        Generator {
            busy: share(began.cpu_us, ended.cpu_us),
            waited: share(began.waited_us, ended.waited_us),
            // Set by `measure`, for the whole process.
            peak_rss_bytes: 0,
        }
    }
}
