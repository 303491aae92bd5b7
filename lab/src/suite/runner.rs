//! Runs the cases of a suite one after the other.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use base::{Clock, SystemClock};
use serde_json::Value;

use super::cases;
use super::definition::{Limit, Restart, Suite};
use super::fingerprint;
use super::fixtures::Fixtures;
use super::run_folder::RunFolder;
use super::scenario::{Exchange, Scenario};
use super::upstream::UpstreamCount;
use super::{Event, Run, RunError, rfc3339};
use crate::agent::{self, Secret};
use crate::load::{self, Options, Progress, Protocol, Trust};
use crate::recording::Recordings;
use crate::result::{Case, CaseResult, Changes, Machine, Start, State, Version, Warning};
use crate::target::change::Changer;
use crate::target::cores;
use crate::target::definition::{self, Role, StopBy, Target};
use crate::target::free_port;
use crate::target::proc;
use crate::target::process::{Process, ProcessSpec, sleep};
use crate::target::reaper::Reaper;
use crate::target::running::{Running, TargetStart};
use crate::target::sampler::{Sampler, Watched, WatchedGroup};
use crate::target::template::Values;
use crate::validity;

/// Longest sleep while a target settles, after which an interruption is noticed.
const SETTLE_STEP: Duration = Duration::from_millis(50);
/// How long the backend may take to start listening.
const BACKEND_READY: Duration = Duration::from_secs(20);
/// The measured time that has enough samples of the processes' use of CPU and memory.
const SAMPLED_US_MIN: u64 = 1_000_000;
/// Advice on how to install the programs of shipped targets.
const HOW_TO_INSTALL: &str =
    "; `make bench-peers` installs it, into bench/peers/bin or /usr/sbin, one of which PATH lacks";
const SHORT: &str =
    "the measured time was below 1 s, too short for CPU time and the checks of the machine";

pub(crate) struct Runner<'r> {
    run: &'r Run,
    suite: &'r Suite,
    folder: RunFolder,
    fixtures: Fixtures,
    reaper: Reaper,
    agent_secret: Option<Secret>,
    /// The backend's address.
    listen: SocketAddrV4,
    /// Hash of the suite.
    config_sha256: String,
    machine: Machine,
    backend: Option<(u64, Process)>,
    target: Option<RunningTarget>,
    /// Number of targets started so far; used in folder names.
    started: u32,
    /// Requests per second of the backend alone, or why they are unknown, by users, bytes, delay and payload.
    calibrations: BTreeMap<(u32, u64, u64, String), Calibration>,
}

type Calibration = Result<f64, String>;

/// A running target, and the configuration it was started with.
struct RunningTarget {
    key: String,
    running: Running,
}

/// Why a case has no figures.
enum CaseError {
    Failed(String),
    Interrupted,
}

impl From<String> for CaseError {
    fn from(reason: String) -> Self {
        Self::Failed(reason)
    }
}

/// The raw data of a result.
struct Measured {
    load: Value,
    found: crate::target::sampler::Sampled,
    warnings: Vec<Warning>,
    limits: Vec<String>,
    target_version: Option<String>,
    calibration: Option<f64>,
    gc_log: Option<PathBuf>,
    start: Option<Start>,
    changes: Option<Changes>,
}

impl<'r> Runner<'r> {
    /// # Errors
    /// The fixtures cannot be created.
    pub(crate) fn new(run: &'r Run, suite: &'r Suite, folder: RunFolder) -> Result<Self, RunError> {
        let fixtures = Fixtures::prepare(folder.fixtures(), &run.penstock, suite.load.seed)
            .map_err(RunError::Unable)?;
        let token_file = suite.load.agent_token_file.as_deref();
        let agent_secret = token_file.map(Secret::read).transpose().map_err(RunError::Unable)?;
        let reaper = Reaper::start().map_err(|error| RunError::Unable(format!("sh: {error}")))?;
        let listen = match suite.backend {
            Some(listen) => listen,
            None => {
                let (port, _) = free_port().map_err(RunError::Unable)?;
                SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)
            }
        };
        Ok(Self {
            run,
            suite,
            folder,
            fixtures,
            reaper,
            agent_secret,
            listen,
            config_sha256: suite.sha256(),
            machine: Machine::here(),
            backend: None,
            target: None,
            started: 0,
            calibrations: BTreeMap::new(),
        })
    }

    /// Runs one case and stores its result. `Ok(None)`: it was interrupted, and nothing is stored.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub(crate) fn case(
        &mut self,
        case: &Case,
        on_event: &mut dyn FnMut(&Event<'_>),
    ) -> Result<Option<CaseResult>, RunError> {
        let describe = |error: std::io::Error| RunError::Unable(format!("{}: {error}", case.id));
        let partial = self.folder.begin(case).map_err(describe)?;
        let started = rfc3339(SystemClock::new().now().unix_s);
        let mut found = self.blank(case, started);
        let outcome = self.measure_if_served(case, &partial, on_event);
        if self.suite.matrix.restart == Restart::Case {
            (self.target, self.backend) = (None, None);
        }
        match outcome {
            Err(CaseError::Interrupted) => {
                let _ = std::fs::remove_dir_all(&partial);
                return Ok(None);
            }
            Err(CaseError::Failed(reason)) => {
                (self.target, self.backend) = (None, None);
                (found.state, found.reason) = (State::Failed, Some(reason));
            }
            Ok(Err(missing)) => (found.state, found.reason) = (State::NotServed, Some(missing)),
            Ok(Ok(measured)) => self.fill(&mut found, measured),
        }
        self.folder.finish(&partial, &found).map_err(describe)?;
        Ok(Some(found))
    }

    /// The inner error names the unsupported feature.
    fn measure_if_served(
        &mut self,
        case: &Case,
        partial: &Path,
        on_event: &mut dyn FnMut(&Event<'_>),
    ) -> Result<Result<Measured, String>, CaseError> {
        let suite = self.suite;
        let unknown_name =
            || CaseError::Failed("the case refers to an unknown scenario or target".to_owned());
        let scenario = suite.scenario(&case.scenario).ok_or_else(unknown_name)?;
        let target = suite.target(&case.target).ok_or_else(unknown_name)?;
        if let Some(missing) = not_served(suite, target, scenario) {
            return Ok(Err(missing));
        }
        let mut warnings = Vec::new();
        let mut calibration = None;
        if suite.backend.is_some() || target.names_backend() {
            warnings = self.ensure_backend(case, partial)?;
            match self.calibrate(case, scenario)? {
                Some(Ok(rate)) => calibration = Some(rate),
                Some(Err(why)) => warnings.push(validity::recorded("backend-alone", &why)),
                None => {}
            }
        } else {
            // This target does not use the lab's backend.
            self.backend = None;
        }
        let start = self.ensure_target(case, target, scenario, partial)?;
        let (url, watched, limits, version) = {
            let kept = self.target.as_ref().ok_or_else(unknown_name)?;
            let running = &kept.running;
            let base = if scenario.tls() { &running.url_tls } else { &running.url };
            let base = base.as_ref().ok_or_else(|| {
                format!(
                    "target `{}` has no `{}`, which scenario `{}` requires",
                    target.name,
                    if scenario.tls() { "url_tls" } else { "url" },
                    scenario.name
                )
            })?;
            let url = scenario.url(base);
            let backend = self.backend.iter().map(|(_, process)| process.pid()).collect();
            warnings.extend(running.warnings.iter().map(|text| validity::recorded("limits", text)));
            let watched = Watched {
                target: self.part(running.pids(Role::Target), &suite.cores.target),
                backend: self.part(backend, &suite.cores.backend),
                helper: self.part(running.pids(Role::Helper), &suite.cores.backend),
                generator_cores: self.cores_of(&suite.cores.generator),
            };
            let backend = self.backend.iter().flat_map(|(_, process)| &process.limits);
            let limits: Vec<String> = running.limits.iter().chain(backend).cloned().collect();
            (url, watched, limits, running.version.clone())
        };
        let jtl = suite.load.jtl.then(|| partial.join("results.jtl"));
        let recordings = Recordings { hlog: Some(partial.join("histogram.hlog")), jtl };
        let options = Options {
            recordings,
            shape: suite.load.shape.clone(),
            warm_up: suite.warm_up(target),
            connection_per_request: suite.load.connection_per_request,
            tokens: self.tokens(scenario)?,
            target_pids: watched.target.pids.clone(),
            ..self.options(case, scenario, url)?
        };
        // Sampling must not use the target's CPU.
        let sampler = on_generator(suite, || Sampler::start(&watched))?;
        let count = self.upstream_count(scenario, target, &options)?;
        let changer = self.changer(scenario)?;
        let loaded = self.load(&options, &sampler, on_event);
        let changes = changer.map(Changer::finish).transpose();
        if !matches!(loaded, Err(CaseError::Interrupted)) {
            // If a process has ended, report that rather than the errors it caused.
            self.check_processes()?;
        }
        let (load, span) = loaded?;
        let changes = changes?;
        count.map_or(Ok(()), |count| count.check(&load))?;
        let rate_per_s = load.get("throughput_per_s").and_then(Value::as_f64).unwrap_or(0.0);
        let found = sampler.finish(span.0, span.1, rate_per_s);
        let is_echoed = self.backend.is_some();
        let lost =
            options.grpc_messages.filter(|_| is_echoed).and_then(|n| lost_messages(&load, n));
        warnings.extend(lost.map(|text| validity::recorded("grpc-messages", &text)));
        let short = (span.1.saturating_sub(span.0) < SAMPLED_US_MIN).then_some(SHORT);
        warnings.extend(short.map(|text| validity::recorded("short", text)));
        let gc_log = self.target.as_ref().and_then(|kept| kept.running.gc_log.clone());
        Ok(Ok(Measured {
            load,
            found,
            warnings,
            limits,
            target_version: version,
            calibration,
            gc_log,
            start,
            changes,
        }))
    }

    /// Begins to count the requests at the backend, if the scenario sets their number.
    fn upstream_count(
        &self,
        scenario: &Scenario,
        target: &Target,
        options: &Options,
    ) -> Result<Option<UpstreamCount>, String> {
        if scenario.upstream_requests.is_some() && self.backend.is_none() {
            return Err(format!(
                "scenario `{}` has `upstream_requests`, but target `{}` does not use the lab's backend",
                scenario.name, target.name
            ));
        }
        UpstreamCount::start(scenario, options, self.listen)
    }

    /// Starts to change the target, if the suite wants that.
    fn changer(&self, scenario: &Scenario) -> Result<Option<Changer>, String> {
        let plan = self.target.as_ref().and_then(|kept| kept.running.change.clone());
        let (Some(plan), Some(change)) = (plan, self.suite.change) else { return Ok(None) };
        let token = match self.tokens(scenario)? {
            None => None,
            Some(file) => {
                let text = std::fs::read_to_string(&file)
                    .map_err(|error| format!("{}: {error}", file.display()))?;
                text.lines().next().map(str::to_owned)
            }
        };
        on_generator(self.suite, || Changer::start(plan, change.every, token)).map(Some)
    }

    /// Time to readiness, and memory before the first request.
    fn started(&self, running: &Running) -> Result<Start, CaseError> {
        let idle_rss_bytes = match self.suite.time.settle {
            None => None,
            Some(settle) => {
                let clock = SystemClock::new();
                while u128::from(clock.now_us()) < settle.as_micros() {
                    self.interrupted()?;
                    sleep(SETTLE_STEP.min(settle));
                }
                let pids = running.pids(Role::Target);
                Some(proc::used(&proc::families(&pids)).rss_bytes)
            }
        };
        Ok(Start { ready_ms: running.ready_us as f64 / 1_000.0, idle_rss_bytes })
    }

    /// Fails if target or backend has ended.
    fn check_processes(&mut self) -> Result<(), CaseError> {
        let backend = self.backend.as_mut().and_then(|(_, process)| process.broken());
        let target = || self.target.as_mut().and_then(|kept| kept.running.broken());
        backend.or_else(target).map_or(Ok(()), |broken| Err(CaseError::Failed(broken)))
    }

    /// Returns the report, and the measured time on the sampler's clock.
    fn load(
        &self,
        options: &Options,
        sampler: &Sampler,
        on_event: &mut dyn FnMut(&Event<'_>),
    ) -> Result<(Value, (u64, u64)), CaseError> {
        let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let began_us = sampler.now_us().saturating_add(us(options.warm_up));
        let mut span = (began_us, began_us.saturating_add(us(options.duration)));
        let mut show = |progress: &Progress| {
            // The remaining time gives the end of the measured time to the millisecond.
            let end_us = sampler.now_us().saturating_add(us(progress.left));
            span = (end_us.saturating_sub(us(options.duration)), end_us);
            on_event(&Event::Load(progress));
        };
        let agents = &self.suite.load.agents;
        let report = on_generator(self.suite, || match &self.agent_secret {
            Some(secret) => agent::run(options, agents, secret, &mut show),
            None => load::run(options, &mut show),
        });
        let report = report.map_err(CaseError::Failed)?.map_err(|error| error.to_string());
        if self.run.stop.is_stopped() {
            return Err(CaseError::Interrupted);
        }
        let report = report?;
        // A number of requests may be over earlier.
        span.1 = span.0.saturating_add(us(Duration::from_secs_f64(report.seconds)));
        Ok((report.json(), span))
    }

    /// The file with the scenario's tokens: those of the running target, or of the lab.
    fn tokens(&self, scenario: &Scenario) -> Result<Option<PathBuf>, String> {
        let Some(tokens) = scenario.tokens else { return Ok(None) };
        let own = self.target.as_ref().and_then(|kept| kept.running.tokens.clone());
        own.map_or_else(|| self.fixtures.tokens(tokens), Ok).map(Some)
    }

    /// Options of a closed loop, without tokens.
    fn options(&self, case: &Case, scenario: &Scenario, url: String) -> Result<Options, CaseError> {
        let suite = self.suite;
        let mut headers: Vec<(String, String)> =
            scenario.headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        headers.sort();
        let bytes = case.payload_bytes.to_string();
        let users = case.users as usize;
        let protocol = suite.load.protocol(scenario.exchange, users);
        let (has_method, grpc_messages) = match scenario.exchange {
            Exchange::Http => (scenario.requests.is_none(), None),
            Exchange::Grpc { messages } => (false, Some(messages)),
            Exchange::WebSocket => (false, None),
        };
        Ok(Options {
            users,
            protocol,
            duration: suite.time.longest(),
            requests: suite.time.requests,
            grpc_messages,
            warm_up: suite.time.warm_up,
            method: has_method.then(|| scenario.method.clone()),
            scenario: scenario.requests.clone(),
            payload: self.fixtures.payload(scenario, case.payload_bytes)?,
            headers,
            expect: scenario.expect.as_ref().map(|text| text.replace("{{bytes}}", &bytes)),
            // The published runs accept any certificate, as JMeter does.
            trust: Trust::Insecure,
            threads: suite.load.threads.min(protocol.connections(users)),
            timeout: suite.load.timeout,
            seed: suite.load.seed,
            stop: self.run.stop.clone(),
            ..Options::new(url)
        })
    }

    /// Starts the backend with the case's delay; it keeps its port for the whole run.
    fn ensure_backend(&mut self, case: &Case, partial: &Path) -> Result<Vec<Warning>, CaseError> {
        // The backend may have ended between two cases.
        let running = self
            .backend
            .as_mut()
            .is_some_and(|(delay, process)| *delay == case.delay_ms && process.broken().is_none());
        if !running {
            self.backend = None;
            // Another process on this address would be mistaken for the backend, or share its connections.
            drop(
                TcpListener::bind(self.listen)
                    .map_err(|error| format!("backend: {}: {error}", self.listen))?,
            );
            let listen = self.listen.to_string();
            let program = self.run.penstock.display().to_string();
            let delay = case.delay_ms.to_string();
            let words = ["echo", "--listen", &listen, "--delay-ms", &delay];
            let limit = self.limit("backend");
            let mut process = Process::start(ProcessSpec {
                name: "backend",
                command: std::iter::once(program).chain(words.map(str::to_owned)).collect(),
                folder: partial.to_owned(),
                log: self.backend_log(partial),
                output: None,
                cores: self.cores_of(&self.suite.cores.backend),
                cpus: limit.cpus,
                memory_bytes: limit.memory.map(|m| super::source::parse_bytes(&m)).transpose()?,
                stop: StopBy::Term,
                env: Vec::new(),
                reaper: Some(&self.reaper),
            })?;
            let port = [self.listen.port()];
            let ready = process.wait_until_ready(&port, None, BACKEND_READY, &self.run.stop);
            self.interrupted()?;
            ready?;
            self.backend = Some((case.delay_ms, process));
        }
        let warnings = self.backend.iter().flat_map(|(_, process)| &process.warnings);
        Ok(warnings.map(|text| validity::recorded("limits", text)).collect())
    }

    fn ensure_target(
        &mut self,
        case: &Case,
        target: &Target,
        scenario: &Scenario,
        partial: &Path,
    ) -> Result<Option<Start>, CaseError> {
        let settings = cases::settings(self.suite, case);
        let path = scenario.path.split('?').next().unwrap_or_default();
        let needs = scenario.used(&target.can);
        let token_count = scenario.tokens.map(|tokens| tokens.count);
        let own_tokens = target.tokens.as_ref().and(token_count);
        let key = format!("{}\n{settings:?}\n{needs:?}\n{path}\n{own_tokens:?}", target.name);
        let runs = |kept: &mut RunningTarget| kept.key == key && kept.running.broken().is_none();
        if self.target.as_mut().is_some_and(runs) {
            return Ok(None);
        }
        self.target = None;
        self.started += 1;
        let folder = match self.suite.matrix.restart {
            Restart::Case => partial.to_owned(),
            Restart::Suite => {
                let name = format!("{}-{}-{}", self.started, std::process::id(), target.name);
                self.folder.fixtures().join("targets").join(name)
            }
        };
        let mut built_in: Values = self.fixtures.values(self.listen.port())?;
        built_in.insert("path".to_owned(), path.to_owned());
        let suite = self.suite;
        let running = Running::start(&TargetStart {
            target,
            needs: &needs,
            built_in: &built_in,
            settings: &settings,
            folder: &folder,
            cores: &|role| match role {
                Role::Target => self.cores_of(&suite.cores.target),
                Role::Helper => self.cores_of(&suite.cores.backend),
            },
            limits: &|role| match role {
                Role::Target => self.limit("target"),
                Role::Helper => self.limit("helper"),
            },
            changing: suite.change.is_some(),
            token_count,
            stop: &self.run.stop,
            reaper: &self.reaper,
        });
        self.interrupted()?;
        let running = running?;
        // Without processes of its own, a target was not started here.
        let started = (!target.processes.is_empty()).then(|| self.started(&running)).transpose()?;
        self.target = Some(RunningTarget { key, running });
        Ok(started)
    }

    /// Measures the backend alone, in cleartext and without tokens: the upper bound of the target's
    /// throughput. `None`: not requested.
    fn calibrate(
        &mut self,
        case: &Case,
        scenario: &Scenario,
    ) -> Result<Option<Calibration>, CaseError> {
        let Some(time) = self.suite.time.calibrate else { return Ok(None) };
        let payload = match &scenario.requests {
            Some(_) => scenario.name.clone(),
            None => format!("{:?} {:?}", scenario.payload, scenario.exchange),
        };
        let key = (case.users, case.payload_bytes, case.delay_ms, payload);
        if let Some(known) = self.calibrations.get(&key) {
            return Ok(Some(known.clone()));
        }
        let url = scenario.url(&format!("http://127.0.0.1:{}", self.listen.port()));
        let options = self.options(case, scenario, url)?;
        let protocol = match scenario.exchange {
            // As most targets do.
            Exchange::Http => Protocol::Http1,
            Exchange::Grpc { .. } | Exchange::WebSocket => options.protocol,
        };
        let (duration, warm_up) = (time, time / 4);
        let options = Options { protocol, duration, requests: None, warm_up, ..options };
        let report = on_generator(self.suite, || load::run(&options, &mut |_| {}))?;
        self.interrupted()?;
        let report = report.map_err(|error| format!("the backend alone: {error}"))?;
        let found = match (report.errors, report.requests) {
            (_, 0) => {
                Err("the backend alone served no requests, so its speed is unknown".to_owned())
            }
            (0, _) => Ok(report.throughput_per_s),
            (errors, requests) => Err(format!(
                "{errors} of {requests} requests to the backend alone failed, so its speed is unknown"
            )),
        };
        self.calibrations.insert(key, found.clone());
        Ok(Some(found))
    }

    fn interrupted(&self) -> Result<(), CaseError> {
        if self.run.stop.is_stopped() { Err(CaseError::Interrupted) } else { Ok(()) }
    }

    /// A backend that outlives the case gets a numbered log outside of it.
    fn backend_log(&self, partial: &Path) -> PathBuf {
        let fixtures = self.folder.fixtures();
        let numbered = |n| fixtures.join(format!("backend-{n}.log"));
        match self.suite.matrix.restart {
            Restart::Case => partial.join("backend.log"),
            Restart::Suite => {
                (1_u32..).map(numbered).find(|log| !log.exists()).unwrap_or_else(|| numbered(0))
            }
        }
    }

    fn limit(&self, part: &str) -> Limit {
        self.suite.limits.get(part).cloned().unwrap_or_default()
    }

    fn part(&self, pids: Vec<u32>, cores: &Option<toml::Spanned<String>>) -> WatchedGroup {
        WatchedGroup { pids, cores: self.cores_of(cores) }
    }

    fn cores_of(&self, written: &Option<toml::Spanned<String>>) -> Option<Vec<usize>> {
        written.as_ref().and_then(|text| cores::parse(text.get_ref()).ok())
    }

    fn config_sha256(&self, case: &Case) -> String {
        let known = self.suite.target(&case.target).zip(self.suite.scenario(&case.scenario));
        let settings = cases::settings(self.suite, case);
        known.map_or_else(
            || self.config_sha256.clone(),
            |(target, scenario)| {
                fingerprint::of_case(&self.config_sha256, target, scenario, &settings)
            },
        )
    }

    fn blank(&self, case: &Case, started: String) -> CaseResult {
        let lab = env!("CARGO_PKG_VERSION").to_owned();
        CaseResult {
            suite: self.suite.name.clone(),
            scenario_name: self.suite.scenario(&case.scenario).map(|known| known.display.clone()),
            machine: self.machine.clone(),
            versions: vec![Version { name: "lab".to_owned(), version: lab }],
            config_sha256: self.config_sha256(case),
            seed: self.suite.load.seed,
            command: self.run.command.clone(),
            ..CaseResult::new(case.clone(), started)
        }
    }

    fn fill(&self, into: &mut CaseResult, measured: Measured) {
        into.load = measured.load;
        if let Some(failures) = &self.run.fail_if {
            into.check(failures);
        }
        into.target_use = measured.found.target;
        into.backend_use = measured.found.backend;
        into.helper_use = measured.found.helper;
        into.generator_use = measured.found.generator;
        into.environment = measured.found.environment;
        into.load_average = proc::load_average();
        into.calibration = measured.calibration;
        into.start = measured.start;
        into.changes = measured.changes;
        into.machine.limits = measured.limits;
        let name = into.case.target.clone();
        let version = measured.target_version.map(|version| Version { name, version });
        into.versions.extend(version);
        // A log shared by several cases cannot be attributed to one of them.
        if self.suite.matrix.restart == Restart::Case
            && let Some(log) = measured.gc_log
        {
            match crate::gc::read(&log) {
                Ok(gc) => into.gc = Some(gc),
                Err(error) => into.warnings.push(validity::recorded("gc-log", &error)),
            }
        }
        into.warnings.extend(measured.warnings);
        into.warnings = validity::measured::warnings(into);
    }
}

/// The messages that successful gRPC calls lack, if each is to get as many as it sent.
fn lost_messages(load: &Value, each: usize) -> Option<String> {
    let figure = |name| load.get(name).and_then(Value::as_u64).unwrap_or_default();
    let calls = figure("requests").saturating_sub(figure("errors"));
    let (sent, got) = (calls.saturating_mul(each as u64), figure("messages_received"));
    let text = || format!("{calls} successful calls sent {sent} messages and received only {got}");
    (got < sent).then(text)
}

/// Runs `work` on the generator's CPUs.
fn on_generator<T>(suite: &Suite, work: impl FnOnce() -> T) -> Result<T, String> {
    let wanted = suite.cores.generator.as_ref().and_then(|text| cores::parse(text.get_ref()).ok());
    let allowed = cores::allowed();
    match wanted.filter(|wanted| wanted.iter().all(|core| allowed.contains(core))) {
        Some(wanted) => cores::on(&wanted, work).map_err(|error| format!("generator: {error}")),
        None => Ok(work()),
    }
}

/// Why the target does not serve the scenario: unsupported needs, or a program that is not installed.
pub(crate) fn not_served(suite: &Suite, target: &Target, scenario: &Scenario) -> Option<String> {
    let lacking = scenario.lacking(&target.can);
    if lacking.is_empty() {
        if suite.change.is_some() && target.change.is_none() {
            return Some(format!("{} has no [change] in its target file", target.name));
        }
        let missing = target.missing()?;
        let is_shipped = definition::SHIPPED.iter().any(|(name, _)| *name == target.name);
        let (problem, hint) = if missing.contains('/') {
            (format!("file `{missing}` does not exist"), "; `make bench-peers` installs it")
        } else {
            (format!("program `{missing}` is not in PATH"), HOW_TO_INSTALL)
        };
        let hint = if is_shipped { hint } else { "" };
        return Some(format!("{}: {problem}{hint}", target.name));
    }
    let describe = |need: &&str| match target.cannot.get(*need) {
        Some(why) => format!("{need} ({why})"),
        None => (*need).to_owned(),
    };
    let missing: Vec<String> = lacking.iter().map(describe).collect();
    Some(format!("{} does not support {}", target.name, missing.join(", ")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::lost_messages;

    #[test]
    fn successful_calls_receive_as_many_messages_as_they_sent() {
        let load = |errors: u64, received: u64| {
            let requests = 10;
            json!({"requests": requests, "errors": errors, "messages_received": received})
        };
        for (errors, received, is_lost) in
            [(0, 30, false), (0, 29, true), (1, 27, false), (10, 0, false)]
        {
            assert_eq!(lost_messages(&load(errors, received), 3).is_some(), is_lost, "{received}");
        }
    }
}
