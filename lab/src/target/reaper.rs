//! Kills the processes started by a run if the run itself is killed.
//!
//! A shell reads from a pipe until it is closed, which the kernel does however this process ends. Until then
//! it is notified of started and ended process groups; afterwards it kills those that are left.
//! (PR_SET_PDEATHSIG would not work: some programs reset it, it does not apply to their children, and it is
//! tied to the thread that started them instead of the process.)

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

const SCRIPT: &str = r#"
trap '' HUP INT QUIT TERM
groups=
while read -r what group; do
  left=
  for one in $groups; do
    [ "$one" = "$group" ] || left="$left $one"
  done
  [ "$what" = began ] && left="$left $group"
  groups=$left
done
for group in $groups; do
  kill -s KILL -- "-$group"
done
"#;

/// The shell. Lives as long as this value, or any [`Guard`] of it.
#[derive(Clone, Debug)]
pub(crate) struct Reaper(Arc<Mutex<Shell>>);

/// A process group that is killed if this process dies. Dropped when the group has ended.
#[derive(Debug)]
pub(crate) struct Guard {
    reaper: Reaper,
    group: u32,
}

#[derive(Debug)]
struct Shell {
    child: Child,
    stdin: Option<ChildStdin>,
}

impl Reaper {
    /// # Errors
    /// The shell is missing.
    pub(crate) fn start() -> io::Result<Self> {
        let mut command = Command::new("sh");
        // A process group of its own, so that Ctrl-C does not reach it; `/`, so that it does not keep a folder busy.
        command.args(["-c", SCRIPT]).process_group(0).current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        let stdin = child.stdin.take();
        Ok(Self(Arc::new(Mutex::new(Shell { child, stdin }))))
    }

    /// Registers `group` until the guard is dropped.
    pub(crate) fn watch(&self, group: u32) -> Guard {
        self.notify("began", group);
        Guard { reaper: self.clone(), group }
    }

    fn notify(&self, what: &str, group: u32) {
        let mut shell = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A failure only means that the group is not killed if this process dies.
        let _ = shell
            .stdin
            .as_mut()
            .map(|stdin| stdin.write_all(format!("{what} {group}\n").as_bytes()));
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.reaper.notify("ended", self.group);
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn remaining_groups_are_killed_when_the_pipe_closes() {
        let start = || Command::new("sleep").arg("600").process_group(0).spawn().unwrap();
        let reaper = Reaper::start().unwrap();
        let [mut ended, mut left, mut other] = [start(), start(), start()];
        drop(reaper.watch(ended.id()));
        let guard = reaper.watch(left.id());
        // Simulates the death of this process: the group is never unregistered.
        reaper.0.lock().unwrap().stdin = None;
        assert_eq!(left.wait().unwrap().signal(), Some(9));
        drop((guard, reaper));
        for alive in [&mut ended, &mut other] {
            assert!(alive.try_wait().unwrap().is_none());
            alive.kill().unwrap();
            alive.wait().unwrap();
        }
    }
}
