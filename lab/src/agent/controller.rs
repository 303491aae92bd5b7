//! The controller's side: gives agents their parts, lets them begin together, and merges what they
//! found.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use base::{SystemClock, SystemEntropy};

use crate::limits;

use super::frame::{Reader, Secret, Side, Writer, greet};
use super::message::{Answer, Ask, PlanText};
use crate::load::Incident;
use crate::load::report::Generator;
use crate::load::report::{AgentShare, Found, Progress};
use crate::load::shape::Part;
use crate::load::statistics::Tally;
use crate::load::watch::CtrlC;
use crate::load::{LoadError, Materials, Options, Report, what};

/// Runs one measurement on `agents`, each `HOST:PORT`, each with every n-th of the users and arrivals;
/// returns when it is over. Otherwise as [`crate::load::run`].
///
/// # Errors
/// [`LoadError::Agent`] when one can't be reached or doesn't take its part, or when all are lost on
/// the way; else as [`crate::load::run`].
pub fn run(
    options: &Options,
    agents: &[String],
    secret: &Secret,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Report, LoadError> {
    check(options, agents)?;
    let materials = Materials::read(options)?;
    let (_, _, asked) = what(options, materials.clone())?;
    let clock = SystemClock::new();
    let mut links = Vec::new();
    for (index, name) in agents.iter().enumerate() {
        let part = Part { index, of: agents.len() };
        let plan = PlanText::new(options, &materials, part);
        let link = Link::prepare(name, secret, plan, options, &clock);
        links.push(link.map_err(|problem| lost(name, &problem))?);
    }
    let lead_us = limits::AGENT_LEAD_MS * 1_000;
    let begin_us = clock.now_us().saturating_add(lead_us);
    for link in &mut links {
        link.begin(begin_us).map_err(|problem| lost(&link.name, &problem))?;
    }
    let results = Watch::new(&mut links, options, progress)?.until_over()?;
    merge(&links, results).map(|(found, shares, incidents)| {
        let mut report = Report::new(asked, &found);
        report.agents = shares;
        report.incidents.extend(incidents);
        report
    })
}

fn check(options: &Options, agents: &[String]) -> Result<(), LoadError> {
    options.check()?;
    let usage = |text: String| Err(LoadError::Usage(text));
    if agents.is_empty() || agents.len() > limits::AGENTS_MAX {
        return usage(format!("agents: 1 to {}, not {}", limits::AGENTS_MAX, agents.len()));
    }
    if options.users < agents.len() * options.threads {
        let (users, count, threads) = (options.users, agents.len(), options.threads);
        return usage(format!(
            "users: {users} are too few for {count} agents of {threads} threads"
        ));
    }
    if options.raw != crate::raw::Raw::default() {
        return usage(
            "raw data (--hlog, --jtl) is not kept with agents: each sends the sum of what it found, once, at \
             the end; run without agents for it"
                .to_owned(),
        );
    }
    Ok(())
}

fn lost(name: &str, problem: &io::Error) -> LoadError {
    LoadError::Agent { name: name.to_owned(), problem: problem.to_string() }
}

/// A connected agent with its part.
struct Link {
    name: String,
    writer: Writer<TcpStream>,
    reader: Option<Reader<TcpStream>>,
    look: Look,
}

/// One comparison of clocks: what the agent said, half-way between asking and hearing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Look {
    /// Our measurement clock and the agent's, at the same moment.
    ours_us: u64,
    theirs_us: u64,
    /// What its Unix clock says more than ours.
    offset_us: i64,
    /// Either way.
    uncertainty_us: u64,
}

impl Look {
    /// `asked_us` and `heard_us` on our clock, whose zero is `origin_us` on the Unix clock.
    fn new((asked_us, heard_us): (u64, u64), origin_us: u64, mono_us: u64, unix_us: u64) -> Self {
        let uncertainty_us = heard_us.saturating_sub(asked_us).div_ceil(2);
        let ours_us = u64::midpoint(asked_us, heard_us);
        let ours_unix_us = ours_us.saturating_add(origin_us);
        let offset_us = i128::from(unix_us) - i128::from(ours_unix_us);
        let offset_us = i64::try_from(offset_us).unwrap_or(i64::MAX);
        Self { ours_us, theirs_us: mono_us, offset_us, uncertainty_us }
    }

    /// A moment of our clock on the agent's.
    fn theirs(&self, at_us: u64) -> u64 {
        self.theirs_us.saturating_add(at_us).saturating_sub(self.ours_us)
    }

    fn incident(&self, name: &str) -> Option<Incident> {
        let far = self.uncertainty_us > limits::AGENT_CLOCK_UNCERTAINTY_US_MAX
            || self.offset_us.unsigned_abs() > limits::AGENT_CLOCK_OFFSET_US_MAX;
        far.then(|| Incident::AgentClock {
            name: name.to_owned(),
            offset_us: self.offset_us,
            uncertainty_us: self.uncertainty_us,
        })
    }
}

impl Link {
    /// Connects, sends the plan, waits until the agent is ready, and compares clocks.
    fn prepare(
        name: &str,
        secret: &Secret,
        plan: PlanText,
        options: &Options,
        clock: &SystemClock,
    ) -> io::Result<Self> {
        let silence = Duration::from_millis(limits::AGENT_SILENCE_MS_MAX);
        let stream = connect(name, silence)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(silence))?;
        stream.set_read_timeout(Some(silence))?;
        let seals = greet(&mut &stream, Side::Controller, secret, &SystemEntropy)?;
        let mut writer = seals.writer(stream.try_clone()?);
        let mut reader = seals.reader(stream.try_clone()?);
        writer.say(&Ask::Alive)?;
        // An agent closes without a word when it doesn't know the secret.
        let closed = [io::ErrorKind::UnexpectedEof, io::ErrorKind::ConnectionReset];
        let known: Answer = reader.hear().map_err(|error| {
            if closed.contains(&error.kind()) {
                let why = "it has another secret, or is full";
                return io::Error::new(io::ErrorKind::PermissionDenied, why);
            }
            error
        })?;
        expect(known, |answer| matches!(answer, Answer::Alive).then_some(()))?;
        writer.say(&Ask::Prepare(Box::new(plan)))?;
        // It tries to connect to the target before it says that it is ready.
        stream.set_read_timeout(Some(silence.saturating_add(options.timeout)))?;
        expect(reader.hear()?, |answer| matches!(answer, Answer::Ready).then_some(()))?;
        stream.set_read_timeout(Some(silence))?;
        let look = compare(&mut writer, &mut reader, clock)?;
        Ok(Self { name: name.to_owned(), writer, reader: Some(reader), look })
    }

    fn begin(&mut self, begin_us: u64) -> io::Result<()> {
        self.writer.say(&Ask::Begin { at_us: self.look.theirs(begin_us) })
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the controller has a thread of its own; there is no worker to block"
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

/// The quickest of several looks: it is the one that is known best.
fn compare(
    writer: &mut Writer<TcpStream>,
    reader: &mut Reader<TcpStream>,
    clock: &SystemClock,
) -> io::Result<Look> {
    let mut best: Option<Look> = None;
    for _ in 0..limits::AGENT_CLOCK_LOOKS {
        let asked_us = clock.now_us();
        writer.say(&Ask::Clock)?;
        let answer = reader.hear()?;
        let heard_us = clock.now_us();
        let (mono_us, unix_us) = expect(answer, |answer| match answer {
            Answer::Clock { mono_us, unix_us } => Some((*mono_us, *unix_us)),
            Answer::Ready | Answer::Refused(_) | Answer::Alive => None,
            Answer::Progress(_) | Answer::Found(_) => None,
        })?;
        let look = Look::new((asked_us, heard_us), clock.origin_unix_us(), mono_us, unix_us);
        if best.is_none_or(|best| look.uncertainty_us < best.uncertainty_us) {
            best = Some(look);
        }
    }
    Ok(best.unwrap_or_default())
}

/// What is wanted of an answer; a refusal's own words when it is one.
fn expect<T>(answer: Answer, want: impl Fn(&Answer) -> Option<T>) -> io::Result<T> {
    if let Answer::Refused(why) = answer {
        return Err(io::Error::other(why));
    }
    let unexpected = || io::Error::new(io::ErrorKind::InvalidData, "it says something else");
    want(&answer).ok_or_else(unexpected)
}

/// What an agent's reader hears, with the agent's number.
type Heard = (usize, io::Result<Answer>);

/// Follows all agents until each has said what it found, or is lost.
struct Watch<'a> {
    writers: Vec<&'a mut Writer<TcpStream>>,
    offsets_us: Vec<i64>,
    heard: Receiver<Heard>,
    results: Vec<Option<io::Result<Found>>>,
    progresses: Vec<Option<Progress>>,
    options: &'a Options,
    progress: &'a mut dyn FnMut(&Progress),
}

/// How often a Ctrl-C or a stop from the program is looked for.
const LOOK: Duration = Duration::from_millis(20);

impl<'a> Watch<'a> {
    fn new(
        links: &'a mut [Link],
        options: &'a Options,
        progress: &'a mut dyn FnMut(&Progress),
    ) -> Result<Self, LoadError> {
        let (tell, heard) = mpsc::channel();
        let mut writers = Vec::new();
        let mut offsets_us = Vec::new();
        for (index, link) in links.iter_mut().enumerate() {
            offsets_us.push(link.look.offset_us);
            if let Some(reader) = link.reader.take() {
                let tell = tell.clone();
                let name = "agent-reader".to_owned();
                thread::Builder::new().name(name).spawn(move || hear_all(index, reader, &tell))?;
            }
            writers.push(&mut link.writer);
        }
        let results = offsets_us.iter().map(|_| None).collect();
        let progresses = vec![None; offsets_us.len()];
        Ok(Self { writers, offsets_us, heard, results, progresses, options, progress })
    }

    fn until_over(mut self) -> Result<Vec<io::Result<Found>>, LoadError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut ctrl_c = runtime.block_on(async { CtrlC::new(self.options.ctrl_c) })?;
        let clock = SystemClock::new();
        let (mut stopped, mut alive_us) = (false, 0);
        while self.results.iter().any(Option::is_none) {
            while let Ok((index, answer)) = self.heard.try_recv() {
                self.take(index, answer);
            }
            let now_us = clock.now_us();
            if !stopped && (ctrl_c.pressed() || self.options.stop.is_stopped()) {
                stopped = true;
                self.say(&Ask::Stop);
            }
            if now_us.saturating_sub(alive_us) >= limits::AGENT_ALIVE_MS * 1_000 {
                alive_us = now_us;
                self.say(&Ask::Alive);
                self.tell();
            }
            runtime.block_on(async {
                tokio::select! {
                    () = tokio::time::sleep(LOOK) => {}
                    () = ctrl_c.wait(), if !stopped => {}
                }
            });
        }
        Ok(self.results.into_iter().flatten().collect())
    }

    /// To all that are still at it. Who can't hear is found out by its reader.
    fn say(&mut self, ask: &Ask) {
        for (writer, result) in self.writers.iter_mut().zip(&self.results) {
            if result.is_none() {
                let _ = writer.say(ask);
            }
        }
    }

    fn take(&mut self, index: usize, answer: io::Result<Answer>) {
        let offset_us = self.offsets_us.get(index).copied().unwrap_or_default();
        let result = match answer {
            Ok(Answer::Progress(progress)) => {
                if let Some(slot) = self.progresses.get_mut(index) {
                    *slot = Some(progress);
                }
                return;
            }
            Ok(Answer::Alive) => return,
            Ok(Answer::Found(found)) => found.read(offset_us),
            Ok(Answer::Refused(why)) => Err(io::Error::other(why)),
            Ok(Answer::Ready | Answer::Clock { .. }) => {
                Err(io::Error::new(io::ErrorKind::InvalidData, "it says something else"))
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(io::Error::new(error.kind(), "it closed the connection"))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                Err(io::Error::new(error.kind(), "it is silent"))
            }
            Err(error) => Err(error),
        };
        if let Some(slot @ None) = self.results.get_mut(index) {
            *slot = Some(result);
        }
    }

    /// The sum of what the agents last said.
    fn tell(&mut self) {
        let said = || self.progresses.iter().flatten();
        let Some(longest) = said().max_by_key(|progress| progress.left) else {
            return;
        };
        (self.progress)(&Progress {
            requests: said().map(|progress| progress.requests).sum(),
            errors: said().map(|progress| progress.errors).sum(),
            rate_per_s: said().map(|progress| progress.rate_per_s).sum(),
            ..*longest
        });
    }
}

fn hear_all(index: usize, mut reader: Reader<TcpStream>, tell: &Sender<Heard>) {
    loop {
        let answer = reader.hear();
        let last = !matches!(answer, Ok(Answer::Alive | Answer::Progress(_)));
        if tell.send((index, answer)).is_err() || last {
            return;
        }
    }
}

/// All parts together. Who is lost is an incident; when nobody is left there is nothing to tell.
fn merge(
    links: &[Link],
    results: Vec<io::Result<Found>>,
) -> Result<(Found, Vec<AgentShare>, Vec<Incident>), LoadError> {
    let mut whole: Option<Found> = None;
    let (mut shares, mut incidents) = (Vec::new(), Vec::new());
    let mut failure = None;
    for (link, result) in links.iter().zip(results) {
        let name = link.name.clone();
        incidents.extend(link.look.incident(&name));
        match result {
            Ok(found) => {
                shares.push(AgentShare {
                    name,
                    requests: found.tally.measured.requests,
                    errors: found.tally.measured.errors,
                    clock_offset_us: link.look.offset_us,
                    clock_uncertainty_us: link.look.uncertainty_us,
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
    let nobody =
        || LoadError::Agent { name: "none".to_owned(), problem: "nobody asked".to_owned() };
    let whole = whole.ok_or_else(|| failure.unwrap_or_else(nobody))?;
    Ok((whole, shares, incidents))
}

fn both(one: Found, other: Found) -> Found {
    let open = one.tally.measured.open.is_some();
    let mut tally = Tally::new(open, false);
    tally.merge(&one.tally);
    tally.merge(&other.tally);
    Found {
        tally,
        measured_us: one.measured_us.max(other.measured_us),
        measured_from_ms: one.measured_from_ms.min(other.measured_from_ms),
        interrupted: one.interrupted || other.interrupted,
        cpu_us: one.cpu_us.saturating_add(other.cpu_us),
        finished: one.finished.saturating_add(other.finished),
        generator: Generator {
            busy: one.generator.busy.max(other.generator.busy),
            waited: one.generator.waited.max(other.generator.waited),
        },
        raw_problems: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_known_to_within_half_the_way_there_and_back() {
        // Asked at 1,000, heard at 1,400 on our clock, whose zero is 5,000,000 on the Unix clock.
        let look = Look::new((1_000, 1_400), 5_000_000, 77_000, 5_001_950);
        assert_eq!((look.offset_us, look.uncertainty_us), (750, 200));
        assert_eq!(look.theirs(1_200), 77_000);
        assert_eq!(look.theirs(301_200), 377_000);
        assert_eq!(Look::new((0, 0), 9_000, 0, 1_000).offset_us, -8_000);
    }

    #[test]
    fn a_clock_far_off_or_little_known_is_doubted() {
        let far = |offset_us, uncertainty_us| {
            Look { offset_us, uncertainty_us, ..Look::default() }.incident("a").is_some()
        };
        assert!(!far(999_999, 9_999));
        assert!(far(-1_000_001, 9));
        assert!(far(9, 10_001));
    }
}
