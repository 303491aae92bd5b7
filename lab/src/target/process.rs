//! A program started for a measurement: pinned, limited, in its own process group (so that Ctrl-C is handled
//! by us only), and ended on drop.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use base::SystemClock;

use crate::limits;
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

use super::cgroup::Group;
use super::cores;
use super::definition::StopBy;
use super::reaper::{Guard, Reaper};
use crate::load::Stop;

const POLL: Duration = Duration::from_millis(20);
/// Interval of the first checks whether a program is ready, and until when they are made.
const FINE_POLL: Duration = Duration::from_millis(1);
const FINE_POLL_UNTIL_US: u64 = 2_000_000;
/// Timeout of a readiness check: for connecting, and for each read.
const PROBE: Duration = Duration::from_secs(2);

/// The process to start, and how.
#[derive(Debug, Default)]
pub(crate) struct ProcessSpec<'s> {
    pub(crate) name: &'s str,
    pub(crate) command: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) folder: PathBuf,
    /// Gets standard output and standard error.
    pub(crate) log: PathBuf,
    /// Gets standard output instead. Readable by the owner only.
    pub(crate) output: Option<PathBuf>,
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
    guard: Option<Guard>,
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
        let describe = |error: io::Error| format!("{name}: {error}");
        let (program, arguments) = start.command.split_first().ok_or("the command is empty")?;
        if !exists(program) {
            return Err(format!("{name}: program `{program}` not found; install it"));
        }
        let bounds = Restrictions::of(&start);
        let log = File::create(&start.log).map_err(describe)?;
        let mut command = Command::new("sh");
        command.args(["-c", &bounds.script]).arg("sh").arg(program).args(arguments);
        command.envs(start.env).current_dir(&start.folder).process_group(0);
        let output = match &start.output {
            Some(path) => owned(path).map_err(describe)?,
            None => log.try_clone().map_err(describe)?,
        };
        command.stdin(Stdio::null()).stdout(output).stderr(log);
        let child = match &bounds.cores {
            Some(cores) => cores::on(cores, || command.spawn()).map_err(describe)?,
            None => command.spawn(),
        };
        let child = child.map_err(describe)?;
        Ok(Self {
            guard: start.reaper.map(|reaper| reaper.watch(child.id())),
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
        let accepts = |port: &u16| connect((Ipv4Addr::LOCALHOST, *port).into()).is_ok();
        while !(ports.iter().all(accepts) && url.is_none_or(|url| responds_ok(url, None))) {
            if let Some(status) = self.ended() {
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
            // The time until a target is ready is a figure of the result.
            let soon = clock.now_us() < FINE_POLL_UNTIL_US;
            sleep(if soon { FINE_POLL } else { POLL });
        }
        Ok(())
    }

    /// If the program has ended by itself: its status, and the end of its log.
    pub(crate) fn broken(&self) -> Option<String> {
        let status = self.ended()?;
        Some(format!("{} ended during the case: {status}\n{}", self.name, self.log_tail()))
    }

    fn log_tail(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().rev().take(5).collect();
        lines.into_iter().rev().map(|line| format!("    {line}\n")).collect()
    }
}

impl Process {
    /// The exit status, once the program has ended. Does not reap it: until it is reaped, its process ID is
    /// reserved, and a signal cannot reach a process that has nothing to do with it.
    fn ended(&self) -> Option<String> {
        match self.peek() {
            Ok(WaitStatus::Exited(_, code)) => Some(format!("exit status: {code}")),
            Ok(WaitStatus::Signaled(_, signal, _)) => Some(format!("killed by {signal}")),
            Err(error) => Some(format!("no exit status: {error}")),
            Ok(
                WaitStatus::StillAlive
                | WaitStatus::Stopped(..)
                | WaitStatus::Continued(_)
                | WaitStatus::PtraceEvent(..)
                | WaitStatus::PtraceSyscall(_),
            ) => None,
        }
    }

    fn peek(&self) -> nix::Result<WaitStatus> {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        waitid(Id::Pid(self.process_id()), flags)
    }

    fn process_id(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).unwrap_or(i32::MAX))
    }

    /// Asks the program to end, kills the rest of its process group, and reaps the program last. `send` is kill(2).
    fn end(&mut self, send: &mut dyn FnMut(Pid, Signal) -> nix::Result<()>) {
        let pid = self.process_id();
        let signal = match self.stop {
            StopBy::Term => Signal::SIGTERM,
            StopBy::Int => Signal::SIGINT,
            StopBy::Quit => Signal::SIGQUIT,
            StopBy::Kill => Signal::SIGKILL,
        };
        let clock = SystemClock::new();
        let requested = self.ended().is_none() && send(pid, signal).is_ok();
        while requested && clock.now_us() < limits::LAB_STOP_MS * 1_000 && self.ended().is_none() {
            pause();
        }
        // The group contains the program's descendants, and the program itself if it ignored the signal. If
        // another part of this process has reaped the program, the ID may belong to another group.
        if self.peek() != Err(Errno::ECHILD) {
            let _ = send(Pid::from_raw(-pid.as_raw()), Signal::SIGKILL);
        }
        drop(self.guard.take());
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end(&mut |pid, signal| kill(pid, signal));
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

/// The first non-empty line that a command prints to stdout or stderr; `None` if it prints none. `log`
/// receives the whole output.
///
/// # Errors
/// The command cannot be started, or does not end in time; then it is killed.
pub(crate) fn first_line(
    command: Vec<String>,
    log: &Path,
    within: Duration,
    (reaper, stop): (&Reaper, &Stop),
) -> Result<Option<String>, String> {
    let spec = ProcessSpec {
        name: "version",
        command,
        folder: PathBuf::from("."),
        log: log.to_owned(),
        stop: StopBy::Kill,
        reaper: Some(reaper),
        ..ProcessSpec::default()
    };
    run_to_end(spec, within, stop, &|| Ok(()))?;
    let mut start = Vec::new();
    let read = File::open(log)
        .and_then(|log| log.take(limits::LAB_VERSION_BYTES_MAX).read_to_end(&mut start));
    read.map_err(|error| format!("{}: {error}", log.display()))?;
    let start = String::from_utf8_lossy(&start);
    Ok(start.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned))
}

/// Runs a command that prints so many `lines` to the file `output` of its spec, which are not empty.
///
/// # Errors
/// The command cannot be started, fails, prints more or less, or does not end in time; then it is killed. Includes the
/// end of its log.
pub(crate) fn print_lines(
    spec: ProcessSpec<'_>,
    output: &Path,
    lines: u32,
    (within, stop): (Duration, &Stop),
) -> Result<(), String> {
    let spec = ProcessSpec { output: Some(output.to_owned()), ..spec };
    let most = limits::LOAD_TOKEN_FILE_BYTES_MAX;
    let check = || match output.metadata() {
        Ok(file) if file.len() > most => Err(format!("printed more than {most} bytes")),
        _ => Ok(()),
    };
    let process = run_to_end(spec, within, stop, &check)?;
    let describe = |problem: String| format!("{} {problem}\n{}", process.name, process.log_tail());
    if !matches!(process.peek(), Ok(WaitStatus::Exited(_, 0))) {
        return Err(describe(format!("ended: {}", process.ended().unwrap_or_default())));
    }
    let text = files::read(output, most).map_err(|error| describe(error.to_string()))?;
    let found = text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).count();
    if u32::try_from(found) == Ok(lines) {
        return Ok(());
    }
    Err(describe(format!("printed {found} lines instead of {lines}")))
}

/// Runs a command until it has ended. `check` is called meanwhile; its error kills the command.
fn run_to_end(
    spec: ProcessSpec<'_>,
    within: Duration,
    stop: &Stop,
    check: &dyn Fn() -> Result<(), String>,
) -> Result<Process, String> {
    let text = spec.command.join(" ");
    let clock = SystemClock::new();
    let process = Process::start(spec)?;
    while process.ended().is_none() {
        if stop.is_stopped() {
            return Err(format!("`{text}`: interrupted"));
        }
        check().map_err(|problem| format!("`{text}` {problem} and was killed"))?;
        if u128::from(clock.now_us()) >= within.as_micros() {
            let tail = process.log_tail();
            return Err(format!("`{text}` did not end within {within:?} and was killed\n{tail}"));
        }
        pause();
    }
    Ok(process)
}

/// A new file that only its owner can read.
fn owned(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// Linux sends no notification when a program starts listening or ends, so both are polled.
fn pause() {
    sleep(POLL);
}

#[allow(
    clippy::disallowed_methods,
    reason = "runs on the suite's own threads and blocks no worker"
)]
pub(crate) fn sleep(time: Duration) {
    thread::sleep(time);
}

/// Connects with a time limit, since a full accept queue delays a connection for minutes.
fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    TcpStream::connect_timeout(&address, PROBE)
}

/// Whether `http://host:port/path` responds with 200, with the bearer token if there is one.
pub(crate) fn responds_ok(url: &str, token: Option<&str>) -> bool {
    let responded = || -> io::Result<bool> {
        let mut status = [0; 12];
        requested(url, token)?.read_exact(&mut status)?;
        Ok(status.ends_with(b" 200"))
    };
    responded().unwrap_or(false)
}

/// A connection on which `http://host:port/path` was requested; it is closed after the response.
#[allow(clippy::disallowed_methods, reason = "runs on the suite's own thread and blocks no worker")]
pub(crate) fn requested(url: &str, token: Option<&str>) -> io::Result<TcpStream> {
    let rest = url.strip_prefix("http://").ok_or(io::ErrorKind::InvalidInput)?;
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let address = authority.to_socket_addrs()?.next().ok_or(io::ErrorKind::NotFound)?;
    let mut stream = connect(address)?;
    stream.set_read_timeout(Some(PROBE))?;
    stream.set_write_timeout(Some(PROBE))?;
    let token = token.map(|token| format!("Authorization: Bearer {token}\r\n"));
    let head = format!(
        "GET /{path} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n{}\r\n",
        token.unwrap_or_default()
    );
    stream.write_all(head.as_bytes())?;
    Ok(stream)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use std::io::BufRead;

    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::*;

    #[test]
    fn what_is_left_of_a_group_is_killed_before_its_leader_is_reaped() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        mkfifo(&pipe, Mode::S_IRWXU).unwrap();
        // The program ends by itself and leaves a process behind, which keeps the pipe open.
        let script = format!("exec 3>'{}'; sleep 600 & echo started >&3", pipe.display());
        let mut process = start(folder.path(), &script);
        let mut left = io::BufReader::new(File::open(&pipe).unwrap());
        left.read_line(&mut String::new()).unwrap();
        wait(&process);
        assert_eq!(process.broken().unwrap(), "test ended during the case: exit status: 0\n");
        let (pid, mut sent) = (process.process_id(), Vec::new());
        process.end(&mut |to, signal| {
            assert!(exists_in_proc(pid), "{signal} to {to} after {pid} was reaped");
            sent.push((to.as_raw(), signal));
            kill(to, signal)
        });
        assert_eq!(sent, [(-pid.as_raw(), Signal::SIGKILL)]);
        assert!(!exists_in_proc(pid), "not reaped");
        assert_eq!(left.read(&mut [0]).unwrap(), 0, "a process of the group is alive");
        process.end(&mut |to, signal| panic!("{signal} to {to} after it was reaped"));
    }

    #[test]
    fn a_program_that_ignores_the_signal_is_reaped_after_its_group_was_killed() {
        let folder = tempfile::tempdir().unwrap();
        let mut process = start(folder.path(), "exec sleep 600");
        let (pid, mut sent) = (process.process_id(), Vec::new());
        process.end(&mut |to, signal| {
            assert!(exists_in_proc(pid), "{signal} to {to} after {pid} was reaped");
            sent.push((to.as_raw(), signal));
            // Without the first signal, the program would run until the time limit.
            kill(pid, Signal::SIGKILL)
        });
        let pid = pid.as_raw();
        assert_eq!(sent, [(pid, Signal::SIGTERM), (-pid, Signal::SIGKILL)]);
    }

    #[test]
    fn the_version_is_the_first_line_and_a_command_that_does_not_end_is_killed() {
        let folder = tempfile::tempdir().unwrap();
        let (log, reaper) = (folder.path().join("version.log"), Reaper::start().unwrap());
        let (run, stopped) = (Stop::default(), Stop::default());
        stopped.stop();
        let (long_enough, too_short) = (Duration::from_secs(60), Duration::ZERO);
        let version_within = |within, script: &str, stop: &Stop| {
            let command = ["sh", "-c", script].map(str::to_owned).to_vec();
            first_line(command, &log, within, (&reaper, stop))
        };
        let version = |script: &str, stop: &Stop| version_within(long_enough, script, stop);
        assert_eq!(version("echo; echo ' 1.2 ' >&2; echo 3", &run), Ok(Some("1.2".to_owned())));
        assert_eq!(version("exit 3", &run), Ok(None));
        let long = limits::LAB_VERSION_BYTES_MAX + 1;
        let cut = version(&format!("head -c {long} /dev/zero | tr '\\0' x"), &run).unwrap();
        assert_eq!(cut.unwrap().len() as u64, limits::LAB_VERSION_BYTES_MAX);
        let error = version("sleep 600", &stopped).unwrap_err();
        assert!(error.contains("sleep 600") && error.contains("interrupted"), "{error}");
        let error = version_within(too_short, "sleep 600", &run).unwrap_err();
        assert!(error.contains("sleep 600` did not end within"), "{error}");
        let missing = vec!["/no/such/program".to_owned()];
        let missing = first_line(missing, &log, long_enough, (&reaper, &run));
        assert!(missing.unwrap_err().contains("not found"));
    }

    fn start(folder: &Path, script: &str) -> Process {
        Process::start(ProcessSpec {
            name: "test",
            command: ["sh", "-c", script].map(str::to_owned).to_vec(),
            folder: folder.to_owned(),
            log: folder.join("log"),
            ..ProcessSpec::default()
        })
        .unwrap()
    }

    /// Waits until the program has ended, without reaping it.
    fn wait(process: &Process) {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
        waitid(Id::Pid(process.process_id()), flags).unwrap();
    }

    fn exists_in_proc(pid: Pid) -> bool {
        Path::new(&format!("/proc/{pid}")).exists()
    }
}
