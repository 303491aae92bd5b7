//! The built program, started as users do.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::thread::JoinHandle;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::{Files, PATIENCE};

/// The `penstock` program of this build's profile. Cargo is run each time, so that no test uses a stale binary; this is
/// quick if nothing changed. `PENSTOCK_PROGRAM` names another one, such as that of a package.
#[must_use]
pub fn penstock() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let given = || std::env::var_os("PENSTOCK_PROGRAM").map(PathBuf::from);
    BUILT.get_or_init(|| given().unwrap_or_else(build)).clone()
}

fn build() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    // target/PROFILE/deps/journeys-0123456789abcdef
    let folder = test.ancestors().nth(2).unwrap();
    let profile = match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--workspace", "--bin", "penstock", "--profile", profile])
        .arg("--target-dir")
        .arg(folder.parent().unwrap())
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .expect("cargo runs");
    assert!(status.success(), "penstock does not build");
    folder.join("penstock")
}

/// A running program and its output. Killed when dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    printed: Arc<Printed>,
    readers: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Printed {
    output: Mutex<Output>,
    change: Condvar,
}

#[derive(Debug, Default)]
struct Output {
    /// Texts of stdout and stderr, kept apart, since the order of bytes in two pipes is random.
    texts: [String; 2],
    /// Streams that are not at their end.
    open: usize,
    /// The streams are not read.
    paused: bool,
}

impl Output {
    fn contains(&self, text: &str) -> bool {
        self.texts.iter().any(|one| one.contains(text))
    }
}

impl Process {
    /// Starts `penstock` with `arguments`, in `folder`.
    #[must_use]
    pub fn start(folder: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new(penstock());
        command.args(arguments);
        Self::spawn(folder, command)
    }

    /// The same by way of `wrapper`, a program that replaces itself by the one that its arguments end with.
    #[must_use]
    pub fn start_by(folder: &Path, wrapper: &[&str], arguments: &[&str]) -> Self {
        let (program, first) = wrapper.split_first().expect("a program");
        let mut command = Command::new(program);
        command.args(first).arg(penstock()).args(arguments);
        Self::spawn(folder, command)
    }

    fn spawn(folder: &Path, mut command: Command) -> Self {
        let mut child = command
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let printed = Arc::<Printed>::default();
        printed.output.lock().unwrap().open = 2;
        let out = collect(child.stdout.take().unwrap(), &printed, 0);
        let err = collect(child.stderr.take().unwrap(), &printed, 1);
        Self { child, printed, readers: vec![out, err] }
    }

    /// Runs the program to its end; returns its exit code and output.
    #[must_use]
    pub fn run(folder: &Path, arguments: &[&str]) -> (Option<i32>, String) {
        let mut process = Self::start(folder, arguments);
        let status = process.wait();
        (status.code(), process.text())
    }

    /// Starts `penstock gateway` with the configuration of `files` and waits until it is serving.
    #[must_use]
    pub fn gateway(files: &Files) -> Self {
        let file = files.configure();
        let process = Self::start(files.folder(), &["gateway", "--config", file.to_str().unwrap()]);
        process.wait_for(" serving ");
        process
    }

    /// The same, with at most `most` open files.
    #[must_use]
    pub fn gateway_with_open_files(files: &Files, most: u32) -> Self {
        let limit = ["sh", "-c", "ulimit -n \"$0\" && exec \"$@\"", &most.to_string()];
        let file = files.configure();
        let arguments = ["gateway", "--config", file.to_str().unwrap()];
        let process = Self::start_by(files.folder(), &limit, &arguments);
        process.wait_for(" serving ");
        process
    }

    /// The address of a listener (`http`, `https`, `admin`), as logged.
    #[must_use]
    pub fn address(&self, listener: &str) -> SocketAddr {
        let text = self.text();
        let line = text
            .lines()
            .find(|line| line.contains(" serving "))
            .expect("a log line with ` serving `");
        let field = format!(" {listener}=");
        let (_, rest) = line.split_once(&field).unwrap_or_else(|| panic!("no {field} in {line}"));
        let value = rest.split(' ').next().unwrap_or_default().trim_matches('"');
        value.parse().unwrap_or_else(|_| panic!("{value} in {line}"))
    }

    /// Bytes of `field` (`VmRSS`, `VmHWM`) in its `/proc` status.
    #[must_use]
    pub fn memory_bytes(&self, field: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let line = status
            .lines()
            .find(|line| line.starts_with(field))
            .expect("a line of /proc/PID/status");
        let kilobytes = line.split_whitespace().nth(1).expect("a number of kB");
        kilobytes.parse::<u64>().unwrap() * 1024
    }

    /// The process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it has printed `text`; returns its output so far.
    #[track_caller]
    pub fn wait_for(&self, text: &str) -> String {
        let printed = self.has_printed(text);
        let output = self.text();
        assert!(printed, "no {text:?} in what it printed:\n{output}");
        output
    }

    /// Waits until it has printed `text`; false if it ends without.
    #[must_use]
    pub fn has_printed(&self, text: &str) -> bool {
        let output = self.printed.output.lock().unwrap();
        let waits = |output: &mut Output| !output.contains(text) && output.open > 0;
        let (output, _) = self.printed.change.wait_timeout_while(output, PATIENCE, waits).unwrap();
        output.contains(text)
    }

    /// Stops or resumes reading the output, at the end of a line. The pipes fill meanwhile.
    pub fn pause(&self, paused: bool) {
        self.printed.output.lock().unwrap().paused = paused;
        self.printed.change.notify_all();
    }

    /// The output so far: stdout, then stderr.
    #[must_use]
    pub fn text(&self) -> String {
        self.printed.output.lock().unwrap().texts.concat()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).unwrap();
        kill(Pid::from_raw(id), signal).expect("it still runs");
    }

    /// Waits for its end and the end of its output.
    pub fn wait(&mut self) -> ExitStatus {
        let status = self.child.wait().unwrap();
        self.pause(false);
        for reader in self.readers.drain(..) {
            reader.join().unwrap();
        }
        status
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `number`: of the stream.
fn collect(
    stream: impl std::io::Read + Send + 'static,
    printed: &Arc<Printed>,
    number: usize,
) -> JoinHandle<()> {
    let printed = Arc::clone(printed);
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let mut output = printed.output.lock().unwrap();
            output.texts[number].push_str(&line);
            output.texts[number].push('\n');
            printed.change.notify_all();
            drop(printed.change.wait_while(output, |output| output.paused).unwrap());
        }
        printed.output.lock().unwrap().open -= 1;
        printed.change.notify_all();
    })
}
