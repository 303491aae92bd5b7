//! A program started for a measurement: pinned, limited, in its own process group (so that Ctrl-C is handled
//! by us only), and ended on drop.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use base::SystemClock;

use crate::limits;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use super::cgroup::Group;
use super::cores;
use super::definition::StopBy;
use super::reaper::{Guard, Reaper};
use crate::load::Stop;

const POLL: Duration = Duration::from_millis(20);

/// What to start, and how.
#[derive(Debug, Default)]
pub(crate) struct ProcessSpec<'s> {
    pub(crate) name: &'s str,
    pub(crate) command: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) folder: PathBuf,
    pub(crate) log: PathBuf,
    pub(crate) cores: Option<Vec<usize>>,
    pub(crate) cpus: Option<f64>,
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) stop: StopBy,
    /// Kills the program if this process dies.
    pub(crate) reaper: Option<&'s Reaper>,
}

/// A running program.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    child: Child,
    log: PathBuf,
    stop: StopBy,
    /// Removed after the program has ended.
    _group: Option<Group>,
    _guard: Option<Guard>,
    /// Limits that could not be applied as requested.
    pub(crate) warnings: Vec<String>,
    /// Limits that were applied, one sentence each.
    pub(crate) limits: Vec<String>,
}

impl Process {
    /// # Errors
    /// The program does not exist, or its log cannot be written.
    pub(crate) fn start(start: ProcessSpec<'_>) -> Result<Self, String> {
        let name = start.name.to_owned();
        let describe = |error: std::io::Error| format!("{name}: {error}");
        let (program, arguments) = start.command.split_first().ok_or("the command is empty")?;
        if !exists(program) {
            return Err(format!("{name}: program `{program}` not found; install it"));
        }
        let bounds = Restrictions::of(&start);
        let log = File::create(&start.log).map_err(describe)?;
        let mut command = Command::new("sh");
        command.args(["-c", &bounds.script]).arg("sh").arg(program).args(arguments);
        command.envs(start.env).current_dir(&start.folder).process_group(0);
        command.stdin(Stdio::null()).stdout(log.try_clone().map_err(describe)?).stderr(log);
        let child = match &bounds.cores {
            Some(cores) => cores::on(cores, || command.spawn()).map_err(describe)?,
            None => command.spawn(),
        };
        let child = child.map_err(describe)?;
        Ok(Self {
            _guard: start.reaper.map(|reaper| reaper.watch(child.id())),
            child,
            log: start.log,
            stop: start.stop,
            _group: bounds.group,
            warnings: bounds.warnings,
            limits: bounds.limits,
            name,
        })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until all of `ports` on 127.0.0.1 accept connections and `url` responds with 200.
    ///
    /// # Errors
    /// The program ended, was not ready `within` the time limit, or the wait was stopped. Includes the end of
    /// the log.
    pub(crate) fn wait_until_ready(
        &mut self,
        ports: &[u16],
        url: Option<&str>,
        within: Duration,
        stop: &Stop,
    ) -> Result<(), String> {
        let clock = SystemClock::new();
        let accepts = |port: &u16| TcpStream::connect(("127.0.0.1", *port)).is_ok();
        while !(ports.iter().all(accepts) && url.is_none_or(responds_ok)) {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("{} ended: {status}\n{}", self.name, self.log_tail()));
            }
            if stop.is_stopped() {
                return Err(format!("{}: interrupted", self.name));
            }
            if u128::from(clock.now_us()) > within.as_micros() {
                let after = within.as_secs();
                let tail = self.log_tail();
                return Err(format!("{} is not ready after {after} s\n{tail}", self.name));
            }
            pause();
        }
        Ok(())
    }

    /// If the program has ended by itself: its status, and the end of its log.
    pub(crate) fn broken(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok().flatten()?;
        Some(format!("{} ended during the case: {status}\n{}", self.name, self.log_tail()))
    }

    fn log_tail(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().rev().take(5).collect();
        lines.into_iter().rev().map(|line| format!("    {line}\n")).collect()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap_or(i32::MAX));
        let signal = match self.stop {
            StopBy::Term => Signal::SIGTERM,
            StopBy::Int => Signal::SIGINT,
            StopBy::Quit => Signal::SIGQUIT,
            StopBy::Kill => Signal::SIGKILL,
        };
        let clock = SystemClock::new();
        let requested = !matches!(self.child.try_wait(), Ok(Some(_))) && kill(pid, signal).is_ok();
        while requested && clock.now_us() < limits::LAB_STOP_MS * 1_000 {
            if matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
                break;
            }
            pause();
        }
        // Kills remaining children, and the program itself if it ignored the signal. The process group
        // contains nothing else.
        let _ = killpg(pid, Signal::SIGKILL);
        let _ = self.child.wait();
    }
}

/// How limits are applied: by a cgroup if possible, otherwise by the shell.
struct Restrictions {
    script: String,
    cores: Option<Vec<usize>>,
    group: Option<Group>,
    warnings: Vec<String>,
    limits: Vec<String>,
}

impl Restrictions {
    fn of(start: &ProcessSpec<'_>) -> Self {
        let mut bounds = Self {
            script: "ulimit -n \"$(ulimit -Hn)\"\n".to_owned(),
            cores: start.cores.clone(),
            group: None,
            warnings: Vec::new(),
            limits: Vec::new(),
        };
        bounds.keep_cores_that_exist(start.name);
        if start.cpus.is_some() || start.memory_bytes.is_some() {
            match Group::create(start.name, start.cpus, start.memory_bytes) {
                Ok(group) => bounds.by_group(start, group),
                Err(reason) => bounds.by_shell(start, &reason),
            }
        }
        bounds.script.push_str("exec \"$@\"\n");
        bounds
    }

    fn keep_cores_that_exist(&mut self, name: &str) {
        let Some(cores) = self.cores.take() else { return };
        let allowed = cores::allowed();
        if cores.iter().all(|core| allowed.contains(core)) {
            self.limits.push(format!("{name}: on CPUs {cores:?}"));
            self.cores = Some(cores);
        } else {
            self.warnings.push(format!(
                "{name} is not pinned to CPUs {cores:?}: only {allowed:?} are available"
            ));
        }
    }

    fn by_group(&mut self, start: &ProcessSpec<'_>, group: Group) {
        let procs = group.procs().display().to_string().replace('\'', "'\\''");
        // Without this, a program that fails to join would run without limits.
        self.script.push_str(&format!("echo $$ >'{procs}' || exit 125\n"));
        self.group = Some(group);
        self.limits.push(format!("{}: {} by cgroup", start.name, limits_text(start)));
    }

    /// Memory: limits the data segment. CPU: pins to as many whole CPUs as needed.
    fn by_shell(&mut self, start: &ProcessSpec<'_>, reason: &str) {
        let name = start.name;
        if let Some(bytes) = start.memory_bytes {
            self.script.push_str(&format!("ulimit -d {} || exit 125\n", bytes / 1_024));
            self.limits.push(format!("{name}: data limited to {bytes} bytes by rlimit"));
        }
        if let Some(cpus) = start.cpus {
            let cores = self.cores.clone().unwrap_or_else(cores::allowed);
            let whole = (1..=cores.len()).find(|&n| n as f64 >= cpus).unwrap_or(cores.len());
            let kept: Vec<usize> = cores.into_iter().take(whole).collect();
            self.limits.push(format!("{name}: on CPUs {kept:?}"));
            self.cores = Some(kept);
        }
        let requested = limits_text(start);
        self.warnings
            .push(format!("{name}: {requested} could not be limited by a cgroup: {reason}"));
    }
}

fn limits_text(start: &ProcessSpec<'_>) -> String {
    let cpus = start.cpus.map(|cpus| format!("{cpus} CPUs"));
    let memory = start.memory_bytes.map(|bytes| format!("{bytes} bytes"));
    cpus.into_iter().chain(memory).collect::<Vec<_>>().join(" and ")
}

/// Whether the program exists, as a path or in PATH.
pub(crate) fn exists(program: &str) -> bool {
    if program.contains('/') {
        return Path::new(program).is_file();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// The first non-empty line that a command prints to stdout or stderr.
pub(crate) fn first_line(command: &[String]) -> Option<String> {
    let (program, arguments) = command.split_first()?;
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().ok()?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    text.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
}

/// An unused port of 127.0.0.1.
pub(crate) fn free_port() -> Result<u16, String> {
    TcpListener::bind(("127.0.0.1", 0))
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(|error| format!("no free port: {error}"))
}

/// There is no notification when a program starts listening or ends, so both are polled.
#[allow(clippy::disallowed_methods, reason = "runs on the suite's own thread and blocks no worker")]
fn pause() {
    thread::sleep(POLL);
}

/// Whether `http://host:port/path` responds with 200.
fn responds_ok(url: &str) -> bool {
    let Some(rest) = url.strip_prefix("http://") else { return false };
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let requested = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect(authority)?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        let head =
            format!("GET /{path} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes())?;
        let mut status = [0; 12];
        stream.read_exact(&mut status)?;
        Ok(status.ends_with(b" 200"))
    };
    requested().unwrap_or(false)
}
