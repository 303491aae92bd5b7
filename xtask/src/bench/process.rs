//! Starts a program on the given cores, and reads from /proc the resources used by it and its children.

use std::ffi::OsStr;
use std::fs::File;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::shell::{self, pause};

/// The unit of CPU times in /proc on Linux: 10 ms.
const TICK_US: u64 = 10_000;
/// How long a program may take to start listening, or to exit.
const TIMEOUT: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(10);

/// A running program, which is stopped on drop.
pub(crate) struct Process {
    name: String,
    child: Child,
}

impl Process {
    /// Starts `program` on `cores` (in taskset notation), with the highest possible limit on open files. Its output
    /// goes to `log`.
    ///
    /// # Errors
    /// It cannot be started, or the log cannot be written.
    pub(crate) fn start<S: AsRef<OsStr>>(
        cores: &str,
        program: &Path,
        arguments: impl IntoIterator<Item = S>,
        log: &Path,
    ) -> Result<Self, String> {
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let failed = |error: std::io::Error| format!("{name}: {error}");
        let out = File::create(log).map_err(failed)?;
        let child = Command::new("taskset")
            .args(["-c", cores, "sh", "-c", "ulimit -n $(ulimit -Hn); exec \"$0\" \"$@\""])
            .arg(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stderr(out.try_clone().map_err(failed)?)
            .stdout(out)
            .spawn()
            .map_err(failed)?;
        Ok(Self { name, child })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until each of `ports` on 127.0.0.1 accepts connections.
    ///
    /// # Errors
    /// The program exited, or was not ready after [`TIMEOUT`].
    pub(crate) fn wait_for_ports(&mut self, ports: &[u16]) -> Result<(), String> {
        let start = Instant::now();
        for port in ports {
            while TcpStream::connect(("127.0.0.1", *port)).is_err() {
                if let Ok(Some(status)) = self.child.try_wait() {
                    return Err(format!("{} exited during startup: {status}", self.name));
                }
                if start.elapsed() > TIMEOUT {
                    return Err(format!(
                        "{} is not listening on port {port} after {} s",
                        self.name,
                        TIMEOUT.as_secs()
                    ));
                }
                pause(POLL);
            }
        }
        Ok(())
    }

    /// Whether the program has exited.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends SIGINT, as Ctrl-C does.
    ///
    /// # Errors
    /// The signal cannot be sent.
    pub(crate) fn interrupt(&self) -> Result<(), String> {
        shell::run(Command::new("kill").args(["-INT", &self.pid().to_string()]))
    }

    /// Waits until the program exits.
    ///
    /// # Errors
    /// The system call fails.
    pub(crate) fn wait(&mut self) -> Result<ExitStatus, String> {
        self.child.wait().map_err(|error| format!("{}: {error}", self.name))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let pid = self.child.id().to_string();
        // SIGTERM first, so that nginx's master process stops its workers.
        let sent = Command::new("kill").args(["-TERM", &pid]).stderr(Stdio::null()).status();
        let start = Instant::now();
        while sent.is_ok() && start.elapsed() < TIMEOUT {
            if matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            pause(POLL);
        }
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// CPU time, user and system, of `pid` and its live descendants, in microseconds.
pub(crate) fn cpu_us(pid: u32) -> u64 {
    family(pid).iter().filter_map(|pid| stat(*pid)).map(|stat| stat.cpu_us).sum()
}

/// Memory of `pid` and its descendants, in KiB; memory that they share counts once.
pub(crate) fn memory_kib(pid: u32) -> u64 {
    family(pid).iter().filter_map(|pid| proportional_kib(*pid)).sum()
}

fn family(root: u32) -> Vec<u32> {
    let processes: Vec<Stat> = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| stat(entry.file_name().to_str()?.parse().ok()?))
        .collect();
    let mut family = vec![root];
    let mut next = 0;
    while let Some(parent) = family.get(next).copied() {
        family.extend(processes.iter().filter(|stat| stat.parent == parent).map(|stat| stat.pid));
        next += 1;
    }
    family
}

struct Stat {
    pid: u32,
    parent: u32,
    cpu_us: u64,
}

fn stat(pid: u32) -> Option<Stat> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    read_stat(pid, &text)
}

/// proc_pid_stat(5): after the name in parentheses, field 4 is the parent, 14 and 15 user and system time.
fn read_stat(pid: u32, text: &str) -> Option<Stat> {
    let (_, after_name) = text.rsplit_once(')')?;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    let parent = u32::try_from(number(4)?).ok()?;
    Some(Stat { pid, parent, cpu_us: (number(14)? + number(15)?) * TICK_US })
}

fn proportional_kib(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_lines_are_parsed_with_any_name() {
        let line = "7 (a) b) S 3 7 7 0 -1 4194560 1 2 3 4 250 50 0 0 20 0 1 0 5 6 7";
        let stat = read_stat(7, line).unwrap();
        assert_eq!((stat.pid, stat.parent, stat.cpu_us), (7, 3, 3_000_000));
        assert!(read_stat(7, "7 (a").is_none());
    }

    #[test]
    fn our_own_memory_is_measured() {
        assert!(memory_kib(std::process::id()) > 0);
    }
}
