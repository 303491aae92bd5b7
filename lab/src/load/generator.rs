//! The generator's threads, and the clockwork of a measurement: ramp, warm-up, measured time, end.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use base::limits;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::load::doubts::Generator;
use crate::load::report::{Found, Progress};
use crate::load::statistics::Tally;
use crate::load::user::{Lane, Plan, Slot, User};
use crate::load::{LoadError, Options, us};
use crate::machine;

const SWEEP: Duration = Duration::from_millis(limits::SWEEP_MS as u64);
const SECOND: Duration = Duration::from_secs(1);

/// Runs the users, and watches the time from the calling thread.
pub(super) async fn measure(
    plan: &Arc<Plan>,
    options: &Options,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Found, LoadError> {
    let ramp = options.warm_up / 2;
    let mut lanes = Vec::new();
    let mut threads = Vec::new();
    for index in 0..options.threads {
        let lane = Arc::new(Lane::new(index));
        lanes.push(Arc::clone(&lane));
        let users = (index..options.users).step_by(options.threads);
        let delays = users.map(|user| ramp_delay(ramp, user, options.users)).collect();
        threads.push(Thread::start(index, Arc::clone(plan), lane, delays)?);
    }
    let mut watch = Watch::new(plan, &lanes, options, progress);
    let interrupted = watch.until_over().await?;
    let (cpu_us, finished) = watch.spent();
    let measured_us = plan.window.until_us().saturating_sub(plan.window.from_us);
    let mut generator = Generator::default();
    for thread in threads {
        let of = thread.join(interrupted).await?;
        generator.busy = generator.busy.max(of.busy);
        generator.waited = generator.waited.max(of.waited);
    }
    let mut tally = Tally::new();
    for lane in &lanes {
        tally.merge(&lane.tally());
    }
    Ok(Found { tally, measured_us, interrupted, cpu_us, finished, generator })
}

/// Users begin one after the other, evenly spread over the ramp.
fn ramp_delay(ramp: Duration, user: usize, users: usize) -> Duration {
    ramp.mul_f64(user as f64 / users as f64)
}

/// What the calling thread does meanwhile: progress, early stops, and the process's CPU time at both
/// ends of the measured time.
struct Watch<'a> {
    plan: &'a Plan,
    lanes: &'a [Arc<Lane>],
    options: &'a Options,
    progress: &'a mut dyn FnMut(&Progress),
    /// CPU time and finished requests when the measured time began and ended.
    began: Option<(u64, u64)>,
    ended: Option<(u64, u64)>,
    /// When the last progress was made, and how many requests had finished then.
    told: (u64, u64),
}

impl<'a> Watch<'a> {
    fn new(
        plan: &'a Plan,
        lanes: &'a [Arc<Lane>],
        options: &'a Options,
        progress: &'a mut dyn FnMut(&Progress),
    ) -> Self {
        let told = (plan.now_us(), 0);
        Self { plan, lanes, options, progress, began: None, ended: None, told }
    }

    /// Returns at the end of the measured time; true when it was brought about early.
    async fn until_over(&mut self) -> Result<bool, LoadError> {
        let mut ctrl_c = CtrlC::new(self.options.ctrl_c)?;
        loop {
            let now_us = self.plan.now_us();
            if self.began.is_none() && now_us >= self.plan.window.from_us {
                self.began = Some(self.snapshot());
            }
            if now_us >= self.plan.window.until_us() {
                self.ended = Some(self.snapshot());
                return Ok(false);
            }
            if self.options.stop.is_stopped() || ctrl_c.pressed() {
                self.plan.window.end_at(now_us);
                self.ended = Some(self.snapshot());
                return Ok(true);
            }
            if now_us.saturating_sub(self.told.0) >= us(SECOND) {
                self.tell(now_us);
            }
            let pause = Duration::from_micros(self.next_us(now_us).saturating_sub(now_us));
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = ctrl_c.wait() => {}
            }
        }
    }

    /// When to look again: at an edge of the measured time, for the next progress, or for a stop.
    fn next_us(&self, now_us: u64) -> u64 {
        let mut next_us = now_us.saturating_add(us(STOP_LOOK)).min(self.plan.window.until_us());
        next_us = next_us.min(self.told.0.saturating_add(us(SECOND)));
        if self.began.is_none() {
            next_us = next_us.min(self.plan.window.from_us);
        }
        next_us
    }

    fn tell(&mut self, now_us: u64) {
        let (requests, errors) = self.finished();
        let since_s = now_us.saturating_sub(self.told.0) as f64 / 1_000_000.0;
        let left_us = self.plan.window.until_us().saturating_sub(now_us);
        (self.progress)(&Progress {
            warming_up: now_us < self.plan.window.from_us,
            requests,
            errors,
            rate_per_s: requests.saturating_sub(self.told.1) as f64 / since_s,
            left: Duration::from_micros(left_us),
        });
        self.told = (now_us, requests);
    }

    fn finished(&self) -> (u64, u64) {
        let mut sum = (0, 0);
        for lane in self.lanes {
            let tally = lane.tally();
            sum = (sum.0 + tally.all, sum.1 + tally.all_errors);
        }
        sum
    }

    fn snapshot(&self) -> (u64, u64) {
        (machine::process_cpu_us(), self.finished().0)
    }

    /// CPU time and finished requests between the edges.
    fn spent(&self) -> (u64, u64) {
        let ((cpu_from, from), (cpu_to, to)) =
            (self.began.unwrap_or_default(), self.ended.unwrap_or_default());
        if self.began.is_none() {
            return (0, 0);
        }
        (cpu_to.saturating_sub(cpu_from), to.saturating_sub(from))
    }
}

/// How often a stop from the program is looked for.
const STOP_LOOK: Duration = Duration::from_millis(50);

/// The SIGINT handler, if it was asked for.
struct CtrlC {
    signal: Option<tokio::signal::unix::Signal>,
    pressed: bool,
}

impl CtrlC {
    fn new(wanted: bool) -> Result<Self, LoadError> {
        let kind = tokio::signal::unix::SignalKind::interrupt();
        let signal = if wanted { Some(tokio::signal::unix::signal(kind)?) } else { None };
        Ok(Self { signal, pressed: false })
    }

    fn pressed(&self) -> bool {
        self.pressed
    }

    async fn wait(&mut self) {
        match &mut self.signal {
            Some(signal) => {
                signal.recv().await;
                self.pressed = true;
            }
            None => std::future::pending().await,
        }
    }
}

/// One generator thread with its share of the users.
struct Thread {
    handle: JoinHandle<()>,
    over: oneshot::Receiver<Generator>,
    hurry: oneshot::Sender<()>,
}

impl Thread {
    fn start(
        index: usize,
        plan: Arc<Plan>,
        lane: Arc<Lane>,
        delays: Vec<Duration>,
    ) -> Result<Self, LoadError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (tell_over, over) = oneshot::channel();
        let (hurry, hurried) = oneshot::channel();
        let name = format!("load-{index}");
        let handle = thread::Builder::new().name(name).spawn(move || {
            let generator = runtime.block_on(drive(plan, lane, delays, hurried));
            // The receiver waits unless the whole measurement was given up.
            let _ = tell_over.send(generator);
        })?;
        Ok(Self { handle, over, hurry })
    }

    /// Waits for the requests under way; not for long after an interrupt.
    async fn join(self, interrupted: bool) -> Result<Generator, LoadError> {
        let Self { handle, mut over, hurry } = self;
        let mut result = None;
        if interrupted {
            let grace = Duration::from_millis(limits::LOAD_STOP_MS);
            result = tokio::time::timeout(grace, &mut over).await.ok();
            drop(hurry);
        }
        let result = match result {
            Some(result) => result,
            None => over.await,
        };
        let broken = || std::io::Error::other("a generator thread panicked");
        handle.join().map_err(|_| broken())?;
        Ok(result.map_err(|_| broken())?)
    }
}

/// A thread's life: its users run, and between them it looks for requests that wait too long.
async fn drive(
    plan: Arc<Plan>,
    lane: Arc<Lane>,
    delays: Vec<Duration>,
    mut hurried: oneshot::Receiver<()>,
) -> Generator {
    let mut users = JoinSet::new();
    let mut slots = Vec::new();
    for delay in delays {
        let slot = Arc::new(Slot::new());
        let user = User::new(Arc::clone(&plan), Arc::clone(&lane), Arc::clone(&slot));
        slots.push(slot);
        users.spawn(user.run(delay));
    }
    let mut meter = Meter::default();
    loop {
        let now_us = plan.now_us();
        meter.look(&plan, now_us);
        if let Some(deadline_us) = now_us.checked_sub(us(plan.timeout)) {
            slots.iter().for_each(|slot| slot.expire(deadline_us));
        }
        tokio::select! {
            () = tokio::time::sleep(meter.pause(&plan, now_us)) => {}
            () = finish(&mut users) => break,
            // The sender is dropped when there is no more patience.
            _ = &mut hurried, if now_us >= plan.window.until_us() => break,
        }
    }
    meter.look(&plan, plan.now_us());
    meter.generator()
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

/// The thread's own use of the CPU between the edges of the measured time.
#[derive(Default)]
struct Meter {
    began: Option<Reading>,
    ended: Option<Reading>,
}

#[derive(Clone, Copy)]
struct Reading {
    at_us: u64,
    cpu_us: u64,
    waited_us: u64,
}

impl Meter {
    fn look(&mut self, plan: &Plan, at_us: u64) {
        let read = || {
            let (cpu_us, waited_us) = (machine::thread_cpu_us(), machine::thread_waited_us());
            Some(Reading { at_us, cpu_us, waited_us })
        };
        if self.began.is_none() && at_us >= plan.window.from_us {
            self.began = read();
        }
        if self.ended.is_none() && at_us >= plan.window.until_us() {
            self.ended = read();
        }
    }

    /// Until the next sweep, or the next edge if that is sooner.
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
        }
    }
}
