//! The controller: distributes a measurement over agents, starts them together, and merges their results.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use base::SystemClock;

use crate::limits;

use super::frame::{self, FrameReader, FrameWriter, Secret};
use super::message::{FromAgent, FromController, PlanMessage, too_few};
use super::seconds::Seconds;
use crate::load::Incident;
use crate::load::monitor::{CpuTimes, CtrlC};
use crate::load::report::Generator;
use crate::load::report::{AgentShare, Collected, Progress};
use crate::load::shape::Part;
use crate::load::statistics::Tally;
use crate::load::{Inputs, LoadError, Options, Report, prepare_request};

/// Runs one measurement on `agents` (`HOST:PORT`), each with every n-th user and arrival. Otherwise as
/// [`crate::load::run`].
///
/// # Errors
/// [`LoadError::Agent`]: an agent cannot be reached or rejects its share, or all agents are lost. Otherwise
/// as [`crate::load::run`].
pub fn run(
    options: &Options,
    agents: &[String],
    secret: &Secret,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Report, LoadError> {
    check(options, agents)?;
    let inputs = Inputs::read(options)?;
    let settings = prepare_request(options, inputs.clone())?.settings;
    let clock = SystemClock::new();
    let mut connections = Vec::new();
    for (index, name) in agents.iter().enumerate() {
        let part = Part { index, of: agents.len() };
        let plan = PlanMessage::new(options, &inputs, part);
        let prepare = || AgentConnection::prepare(name, secret, plan, options, &clock);
        let connection = keeping_alive(&mut connections, prepare);
        connections.push(connection.map_err(|problem| lost(name, &problem))?);
    }
    let lead_us = limits::AGENT_LEAD_MS * 1_000;
    let begin_us = clock.now_us().saturating_add(lead_us);
    let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let from_us = begin_us.saturating_add(us(options.warm_up));
    let until_us = from_us.saturating_add(us(options.duration));
    let from_unix_us = from_us.saturating_add(clock.origin_unix_us());
    let seconds = Seconds::new(options, connections.len(), from_unix_us)?;
    for agent in &mut connections {
        agent.begin(begin_us).map_err(|problem| lost(&agent.name, &problem))?;
    }
    let time = MeasuredTime { clock, from_us, until_us };
    let (results, seconds) =
        Collector::new(&mut connections, (options, time), seconds, progress)?.until_over()?;
    let (series, incomplete) = seconds.finish();
    merge(&connections, results).map(|(found, shares, incidents)| {
        let mut report = Report::new(settings, &found);
        report.agents = shares;
        report.series = series;
        report.incidents.extend(incomplete);
        report.incidents.extend(incidents);
        report
    })
}

/// Runs `prepare`, sending keep-alives to the agents that are ready, so that they do not time out.
fn keeping_alive(
    ready: &mut [AgentConnection],
    prepare: impl FnOnce() -> io::Result<AgentConnection> + Send,
) -> io::Result<AgentConnection> {
    let (sender, prepared) = mpsc::channel();
    thread::scope(|scope| {
        // The receiver outlives the thread.
        scope.spawn(move || drop(sender.send(prepare())));
        let alive = Duration::from_millis(limits::AGENT_ALIVE_MS);
        loop {
            match prepared.recv_timeout(alive) {
                Ok(connection) => return connection,
                Err(RecvTimeoutError::Disconnected) => return Err(io::Error::other("panicked")),
                Err(RecvTimeoutError::Timeout) => {
                    // A lost agent is detected when the measurement begins.
                    for agent in &mut *ready {
                        let _ = agent.writer.send(&FromController::Alive);
                    }
                }
            }
        }
    })
}

/// Checks that need no connection.
pub(crate) fn check(options: &Options, agents: &[String]) -> Result<(), LoadError> {
    options.check()?;
    let usage = |text: String| Err(LoadError::Usage(text));
    if agents.is_empty() || agents.len() > limits::AGENTS_MAX {
        return usage(format!("{} agents; expected 1 to {}", agents.len(), limits::AGENTS_MAX));
    }
    let connections = options.protocol.connections(options.users);
    if connections < agents.len() * options.threads {
        return usage(too_few(connections, agents.len(), options.threads));
    }
    if options.recordings.jtl.is_some() {
        return usage(
            "--jtl is not available with agents, which transfer no single requests".to_owned(),
        );
    }
    Ok(())
}

fn lost(name: &str, problem: &io::Error) -> LoadError {
    // The system's text for a read timeout is "Resource temporarily unavailable".
    let timed_out = problem.kind() == io::ErrorKind::WouldBlock && problem.raw_os_error().is_some();
    let problem = if timed_out { "no response in time".to_owned() } else { problem.to_string() };
    LoadError::Agent { name: name.to_owned(), problem }
}

/// A connected agent.
struct AgentConnection {
    name: String,
    writer: FrameWriter,
    reader: Option<FrameReader>,
    clock_sample: ClockSample,
}

/// One comparison of clocks. The agent's time is assumed to be taken half-way between request and response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ClockSample {
    /// Our measurement clock and the agent's at the same moment.
    ours_us: u64,
    theirs_us: u64,
    /// The agent's Unix time minus ours.
    offset_us: i64,
    /// In either direction.
    uncertainty_us: u64,
}

impl ClockSample {
    /// `sent_us` and `received_us` are on our clock, whose zero is `origin_us` in Unix time.
    fn new((sent_us, received_us): (u64, u64), origin_us: u64, mono_us: u64, unix_us: u64) -> Self {
        let uncertainty_us = received_us.saturating_sub(sent_us).div_ceil(2);
        let ours_us = u64::midpoint(sent_us, received_us);
        let ours_unix_us = ours_us.saturating_add(origin_us);
        let offset_us = i128::from(unix_us) - i128::from(ours_unix_us);
        let offset_us = i64::try_from(offset_us).unwrap_or(i64::MAX);
        Self { ours_us, theirs_us: mono_us, offset_us, uncertainty_us }
    }

    /// Converts a time of our clock to the agent's.
    fn theirs(&self, at_us: u64) -> u64 {
        self.theirs_us.saturating_add(at_us).saturating_sub(self.ours_us)
    }

    fn incidents(&self, agent: &str) -> impl Iterator<Item = Incident> {
        let Self { offset_us, uncertainty_us, .. } = *self;
        let name = || agent.to_owned();
        let is_uncertain = uncertainty_us > limits::AGENT_CLOCK_UNCERTAINTY_US_MAX;
        let is_off = offset_us.unsigned_abs() > limits::AGENT_CLOCK_OFFSET_US_MAX;
        let uncertain = is_uncertain.then(|| Incident::AgentClock { name: name(), uncertainty_us });
        let off = is_off.then(|| Incident::AgentTime { name: name(), offset_us });
        uncertain.into_iter().chain(off)
    }
}

impl AgentConnection {
    /// Connects, sends the plan, waits until the agent is ready, and compares clocks.
    fn prepare(
        name: &str,
        secret: &Secret,
        plan: PlanMessage,
        options: &Options,
        clock: &SystemClock,
    ) -> io::Result<Self> {
        let silence = Duration::from_millis(limits::AGENT_SILENCE_MS_MAX);
        let stream = connect(name, silence)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(silence))?;
        stream.set_read_timeout(Some(silence))?;
        // An agent that does not accept the proof closes the connection.
        let closed = [io::ErrorKind::UnexpectedEof, io::ErrorKind::ConnectionReset];
        let (mut reader, mut writer) = frame::connect(stream, secret).map_err(|error| {
            if closed.contains(&error.kind()) {
                let why = "connection closed by the agent: different secret or version, or too many connections";
                return io::Error::new(io::ErrorKind::PermissionDenied, why);
            }
            error
        })?;
        writer.send(&FromController::Prepare(Box::new(plan)))?;
        // The agent connects to the target before it is ready.
        reader.set_silence(silence.saturating_add(options.timeout))?;
        expect(reader.receive()?, |message| matches!(message, FromAgent::Ready).then_some(()))?;
        reader.set_silence(silence)?;
        let clock_sample = compare(&mut writer, &mut reader, clock)?;
        Ok(Self { name: name.to_owned(), writer, reader: Some(reader), clock_sample })
    }

    fn begin(&mut self, begin_us: u64) -> io::Result<()> {
        self.writer.send(&FromController::Begin { at_us: self.clock_sample.theirs(begin_us) })
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the controller has its own thread and blocks no worker"
)]
fn connect(name: &str, wait: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "no address found");
    for addr in name.to_socket_addrs()? {
        match TcpStream::connect_timeout(&addr, wait) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The sample with the shortest round trip is the most precise.
fn compare(
    writer: &mut FrameWriter,
    reader: &mut FrameReader,
    clock: &SystemClock,
) -> io::Result<ClockSample> {
    let mut best: Option<ClockSample> = None;
    for _ in 0..limits::AGENT_CLOCK_SAMPLES {
        let sent_us = clock.now_us();
        writer.send(&FromController::Clock)?;
        let message = reader.receive()?;
        let received_us = clock.now_us();
        let (mono_us, unix_us) = expect(message, |message| match message {
            FromAgent::Clock { mono_us, unix_us } => Some((*mono_us, *unix_us)),
            FromAgent::Ready | FromAgent::Rejected(_) | FromAgent::Alive => None,
            FromAgent::Progress(_) | FromAgent::Second(_) | FromAgent::Collected(_) => None,
        })?;
        let clock_sample =
            ClockSample::new((sent_us, received_us), clock.origin_unix_us(), mono_us, unix_us);
        if best.is_none_or(|best| clock_sample.uncertainty_us < best.uncertainty_us) {
            best = Some(clock_sample);
        }
    }
    Ok(best.unwrap_or_default())
}

/// Extracts the expected message; a rejection becomes an error.
fn expect<T>(message: FromAgent, want: impl Fn(&FromAgent) -> Option<T>) -> io::Result<T> {
    if let FromAgent::Rejected(why) = message {
        return Err(io::Error::other(why));
    }
    let unexpected = || io::Error::new(io::ErrorKind::InvalidData, "unexpected message");
    want(&message).ok_or_else(unexpected)
}

/// A message from an agent's reader thread, with the agent's index.
type Received = (usize, io::Result<FromAgent>);

/// Waits until every agent has sent its results or is lost.
struct Collector<'a> {
    writers: Vec<&'a mut FrameWriter>,
    offsets_us: Vec<i64>,
    received: Receiver<Received>,
    results: Vec<Option<io::Result<Collected>>>,
    progresses: Vec<Option<Progress>>,
    seconds: Seconds<'a>,
    time: MeasuredTime,
    options: &'a Options,
    progress: &'a mut dyn FnMut(&Progress),
}

/// The measured time on the controller's clock.
struct MeasuredTime {
    clock: SystemClock,
    from_us: u64,
    until_us: u64,
}

/// How often to check for Ctrl-C or a stop requested by the program.
const POLL: Duration = Duration::from_millis(20);

impl<'a> Collector<'a> {
    fn new(
        agents: &'a mut [AgentConnection],
        (options, time): (&'a Options, MeasuredTime),
        seconds: Seconds<'a>,
        progress: &'a mut dyn FnMut(&Progress),
    ) -> Result<Self, LoadError> {
        let (sender, received) = mpsc::channel();
        let mut writers = Vec::new();
        let mut offsets_us = Vec::new();
        for (index, agent) in agents.iter_mut().enumerate() {
            offsets_us.push(agent.clock_sample.offset_us);
            if let Some(reader) = agent.reader.take() {
                let sender = sender.clone();
                let name = "agent-reader".to_owned();
                thread::Builder::new()
                    .name(name)
                    .spawn(move || receive_all(index, reader, &sender))?;
            }
            writers.push(&mut agent.writer);
        }
        let results = offsets_us.iter().map(|_| None).collect();
        let progresses = vec![None; offsets_us.len()];
        Ok(Self {
            writers,
            offsets_us,
            received,
            results,
            progresses,
            seconds,
            time,
            options,
            progress,
        })
    }

    /// The results of each agent, and the time series.
    fn until_over(mut self) -> Result<(Vec<io::Result<Collected>>, Seconds<'a>), LoadError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut ctrl_c = runtime.block_on(async { CtrlC::new(self.options.ctrl_c) })?;
        let mut spent = CpuTimes::now(self.options);
        let (mut stopped, mut alive_us) = (false, 0);
        while self.results.iter().any(Option::is_none) {
            while let Ok((index, message)) = self.received.try_recv() {
                self.record(index, message);
            }
            let now_us = self.time.clock.now_us();
            if now_us >= self.time.from_us {
                self.seconds.begin();
            }
            if !stopped && (ctrl_c.pressed() || self.options.stop.is_stopped()) {
                stopped = true;
                self.send(&FromController::Stop);
            }
            if now_us.saturating_sub(alive_us) >= limits::AGENT_ALIVE_MS * 1_000 {
                let since_us = now_us.saturating_sub(alive_us);
                alive_us = now_us;
                self.send(&FromController::Alive);
                let target_us = spent.advance(self.options).target_us;
                self.report_progress(target_us.map(|us| us as f64 / since_us as f64));
            }
            runtime.block_on(async {
                tokio::select! {
                    () = tokio::time::sleep(POLL) => {}
                    () = ctrl_c.wait(), if !stopped => {}
                }
            });
        }
        Ok((self.results.into_iter().flatten().collect(), self.seconds))
    }

    /// Sends to all agents that are still running. Failures are detected by their readers.
    fn send(&mut self, message: &FromController) {
        for (writer, result) in self.writers.iter_mut().zip(&self.results) {
            if result.is_none() {
                let _ = writer.send(message);
            }
        }
    }

    fn record(&mut self, index: usize, message: io::Result<FromAgent>) {
        let offset_us = self.offsets_us.get(index).copied().unwrap_or_default();
        let result = match message {
            Ok(FromAgent::Progress(progress)) => {
                if let Some(slot) = self.progresses.get_mut(index) {
                    *slot = Some(progress);
                }
                return;
            }
            Ok(FromAgent::Alive) => return,
            Ok(FromAgent::Second(second)) => match second.read() {
                Ok(second) => return self.seconds.add(index, &second),
                Err(error) => Err(error),
            },
            Ok(FromAgent::Collected(found)) => found.read(offset_us),
            Ok(FromAgent::Rejected(why)) => Err(io::Error::other(why)),
            Ok(FromAgent::Ready | FromAgent::Clock { .. }) => {
                Err(io::Error::new(io::ErrorKind::InvalidData, "unexpected message"))
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(io::Error::new(error.kind(), "the agent closed the connection"))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let wait_s = limits::AGENT_SILENCE_MS_MAX / 1_000;
                Err(io::Error::new(
                    error.kind(),
                    format!("no message from the agent for {wait_s} s"),
                ))
            }
            Err(error) => Err(error),
        };
        if let Some(slot @ None) = self.results.get_mut(index) {
            *slot = Some(result);
            self.seconds.end(index);
        }
    }

    /// Reports the sum of the agents' last progress messages, until the measured time is over: `left` gives its end.
    fn report_progress(&mut self, target_cpus: Option<f64>) {
        let now_us = self.time.clock.now_us();
        let reported = || self.progresses.iter().flatten();
        if reported().next().is_none() || now_us >= self.time.until_us {
            return;
        }
        (self.progress)(&Progress {
            requests: reported().map(|progress| progress.requests).sum(),
            errors: reported().map(|progress| progress.errors).sum(),
            rate_per_s: reported().map(|progress| progress.rate_per_s).sum(),
            p50_ms: self.seconds.last().and_then(|point| point.p50_ms),
            p99_ms: self.seconds.last().and_then(|point| point.p99_ms),
            target_cpus,
            // As exactly as the controller's clock.
            warming_up: now_us < self.time.from_us,
            left: Duration::from_micros(self.time.until_us.saturating_sub(now_us)),
            generator_cpus: reported().map(|progress| progress.generator_cpus).sum(),
            requests_left: reported().map(|progress| progress.requests_left).sum(),
        });
    }
}

fn receive_all(index: usize, mut reader: FrameReader, sender: &Sender<Received>) {
    loop {
        let message = reader.receive();
        let last = !matches!(
            message,
            Ok(FromAgent::Alive | FromAgent::Progress(_) | FromAgent::Second(_))
        );
        if sender.send((index, message)).is_err() || last {
            return;
        }
    }
}

/// Merges all results. A lost agent is an incident; if all are lost, the measurement fails.
fn merge(
    agents: &[AgentConnection],
    results: Vec<io::Result<Collected>>,
) -> Result<(Collected, Vec<AgentShare>, Vec<Incident>), LoadError> {
    let mut whole: Option<Collected> = None;
    let (mut shares, mut incidents) = (Vec::new(), Vec::new());
    let mut failure = None;
    for (agent, result) in agents.iter().zip(results) {
        let name = agent.name.clone();
        incidents.extend(agent.clock_sample.incidents(&name));
        match result {
            Ok(found) => {
                shares.push(AgentShare {
                    name,
                    requests: found.tally.measured.requests,
                    errors: found.tally.measured.errors,
                    clock_offset_us: agent.clock_sample.offset_us,
                    clock_uncertainty_us: agent.clock_sample.uncertainty_us,
                });
                whole = Some(match whole {
                    Some(whole) => both(whole, found),
                    None => found,
                });
            }
            Err(problem) => {
                failure = Some(lost(&name, &problem));
                incidents.push(Incident::AgentLost { name, problem: problem.to_string() });
            }
        }
    }
    let none = || LoadError::Agent { name: "none".to_owned(), problem: "no agents".to_owned() };
    let whole = whole.ok_or_else(|| failure.unwrap_or_else(none))?;
    Ok((whole, shares, incidents))
}

fn both(one: Collected, other: Collected) -> Collected {
    let open = one.tally.measured.open.is_some();
    let mut tally = Tally::new(open, false);
    tally.merge(&one.tally);
    tally.merge(&other.tally);
    Collected {
        tally,
        measured_us: one.measured_us.max(other.measured_us),
        measured_from_ms: one.measured_from_ms.min(other.measured_from_ms),
        interrupted: one.interrupted || other.interrupted,
        cpu_us: one.cpu_us.saturating_add(other.cpu_us),
        finished: one.finished.saturating_add(other.finished),
        target_cpu_us: None,
        generator: Generator {
            busy: one.generator.busy.max(other.generator.busy),
            waited: one.generator.waited.max(other.generator.waited),
            peak_rss_bytes: one.generator.peak_rss_bytes.max(other.generator.peak_rss_bytes),
        },
        recording_problems: Vec::new(),
        series: Vec::new(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::validity::CHECKS;
    use crate::warning::Severity;

    #[test]
    fn clock_uncertainty_is_half_the_round_trip() {
        // Sent at 1,000, received at 1,400 on our clock, whose zero is 5,000,000 in Unix time.
        let clock_sample = ClockSample::new((1_000, 1_400), 5_000_000, 77_000, 5_001_950);
        assert_eq!((clock_sample.offset_us, clock_sample.uncertainty_us), (750, 200));
        assert_eq!(clock_sample.theirs(1_200), 77_000);
        assert_eq!(clock_sample.theirs(301_200), 377_000);
        assert_eq!(ClockSample::new((0, 0), 9_000, 0, 1_000).offset_us, -8_000);
    }

    #[test]
    fn agents_that_are_ready_are_kept_alive_while_others_prepare() {
        let (kept_alive, wait_for_alive) = mpsc::channel();
        let (done, outcome) = mpsc::channel();
        let first = agent(
            || true,
            move |message, _, _| {
                if matches!(message, FromController::Alive) {
                    let _ = kept_alive.send(());
                }
                Ok(())
            },
        );
        // Not ready before the first agent has been kept alive.
        let second = agent(
            move || {
                let alive = wait_for_alive.recv().is_ok();
                let _ = done.send(alive);
                alive
            },
            |_, _, _| Ok(()),
        );
        let options = Options { users: 2, ..Options::new("http://127.0.0.1:9/") };
        let secret = Secret::new(SECRET).unwrap();
        // Both close their connections instead of measuring.
        assert!(run(&options, &[first, second], &secret, &mut |_| {}).is_err());
        assert_eq!(outcome.recv(), Ok(true));
    }

    #[test]
    fn there_is_no_progress_after_the_measured_time() {
        // It is still busy two keep-alives after the end of the measured time, then closes the connection.
        let name = agent(
            || true,
            |_, reader, writer| {
                let progress = Progress {
                    warming_up: false,
                    requests: 1,
                    errors: 0,
                    rate_per_s: 1.0,
                    p50_ms: None,
                    p99_ms: None,
                    generator_cpus: 0.0,
                    target_cpus: None,
                    left: Duration::ZERO,
                    requests_left: None,
                };
                writer.send(&FromAgent::Progress(progress))?;
                (0..3).try_for_each(|_| reader.receive::<FromController>().map(drop))
            },
        );
        let duration = Duration::from_millis(100);
        let options = Options { users: 1, duration, ..Options::new("http://127.0.0.1:9/") };
        let mut left = Vec::new();
        let mut progress = |progress: &Progress| left.push(progress.left);
        assert!(run(&options, &[name], &Secret::new(SECRET).unwrap(), &mut progress).is_err());
        assert!(!left.contains(&Duration::ZERO), "{left:?}");
    }

    const SECRET: &[u8] = b"the secret of these tests";

    /// An agent that sends `Ready` if `ready` returns true, and passes the first message after the comparison of
    /// clocks to `then`.
    fn agent(
        ready: impl FnOnce() -> bool + Send + 'static,
        then: impl FnOnce(FromController, &mut FrameReader, &mut FrameWriter) -> io::Result<()>
        + Send
        + 'static,
    ) -> String {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let name = listener.local_addr().unwrap().to_string();
        let serve = move || -> io::Result<()> {
            let (stream, _) = listener.accept()?;
            let secret = Secret::new(SECRET).map_err(io::Error::other)?;
            let (mut reader, mut writer) = frame::accept(stream, frame::agent_tls()?, &secret)?;
            reader.receive::<FromController>()?;
            if !ready() {
                return Ok(());
            }
            writer.send(&FromAgent::Ready)?;
            for _ in 0..limits::AGENT_CLOCK_SAMPLES {
                reader.receive::<FromController>()?;
                writer.send(&FromAgent::Clock { mono_us: 0, unix_us: 0 })?;
            }
            then(reader.receive()?, &mut reader, &mut writer)
        };
        thread::spawn(serve);
        name
    }

    #[test]
    fn an_uncertain_clock_is_an_error_and_a_wrong_time_of_day_a_note() {
        let severity = |incident: Incident| {
            let check = CHECKS.iter().find(|check| check.name == incident.name());
            check.unwrap().severity
        };
        for (offset_us, uncertainty_us, expect) in [
            (999_999, 9_999, &[][..]),
            (-1_000_001, 9, &[Severity::Note]),
            (9, 10_001, &[Severity::Error]),
            (1_000_001, 10_001, &[Severity::Error, Severity::Note]),
        ] {
            let sample = ClockSample { offset_us, uncertainty_us, ..ClockSample::default() };
            let found: Vec<Severity> = sample.incidents("a").map(severity).collect();
            assert_eq!(found, expect, "{offset_us} us, +- {uncertainty_us} us");
        }
    }
}
