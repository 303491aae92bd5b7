//! Ends what a run started when the run is killed and can't do so itself.
//!
//! A shell that waits for its input to end, which the kernel sees to whatever becomes of this process.
//! Until then it is told who began and who ended; afterwards it kills the groups of those that are left.
//! (The kernel's own way, a signal at the parent's death, is taken away by some programs, doesn't reach
//! their children, and follows the thread that started them instead of the process.)

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

/// The shell. It lives as long as this, or any [`Guard`] of it.
#[derive(Clone, Debug)]
pub(crate) struct Reaper(Arc<Mutex<Shell>>);

/// One process group that is to end with this process. Dropped: it has ended already.
#[derive(Debug)]
pub(crate) struct Guard {
    reaper: Reaper,
    group: u32,
}

#[derive(Debug)]
struct Shell {
    child: Child,
    told: Option<ChildStdin>,
}

impl Reaper {
    /// # Errors
    /// There is no shell.
    pub(crate) fn start() -> io::Result<Self> {
        let mut command = Command::new("sh");
        // A group of its own, so that Ctrl-C doesn't reach it; no folder that it would hold.
        command.args(["-c", SCRIPT]).process_group(0).current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        let told = child.stdin.take();
        Ok(Self(Arc::new(Mutex::new(Shell { child, told }))))
    }

    /// `group` ends with this process, or with the guard.
    pub(crate) fn watch(&self, group: u32) -> Guard {
        self.tell("began", group);
        Guard { reaper: self.clone(), group }
    }

    fn tell(&self, what: &str, group: u32) {
        let mut shell = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Without it a run is no worse than it was.
        let _ =
            shell.told.as_mut().map(|told| told.write_all(format!("{what} {group}\n").as_bytes()));
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.reaper.tell("ended", self.group);
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        drop(self.told.take());
        let _ = self.child.wait();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn who_did_not_end_is_killed_when_the_input_ends() {
        let start = || Command::new("sleep").arg("600").process_group(0).spawn().unwrap();
        let reaper = Reaper::start().unwrap();
        let [mut ended, mut left, mut other] = [start(), start(), start()];
        drop(reaper.watch(ended.id()));
        let guard = reaper.watch(left.id());
        // As when this process is killed: nobody says that it ended.
        reaper.0.lock().unwrap().told = None;
        assert_eq!(left.wait().unwrap().signal(), Some(9));
        drop((guard, reaper));
        for alive in [&mut ended, &mut other] {
            assert!(alive.try_wait().unwrap().is_none());
            alive.kill().unwrap();
            alive.wait().unwrap();
        }
    }
}
