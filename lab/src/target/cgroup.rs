//! A control group (cgroup v2) for a program, with CPU quota and memory limit as for a pod.
//!
//! It is created below the nearest ancestor group that delegates the controllers to its children. Our own
//! group usually cannot: a group with processes may not delegate (cgroups(7), "no internal processes"),
//! except for the root.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Mount points of version 2: unified, or hybrid with version 1.
const MOUNTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
/// The period of the CPU quota in microseconds, as in Kubernetes.
const PERIOD_US: f64 = 100_000.0;

/// A cgroup; removed on drop, once it is empty.
#[derive(Debug)]
pub(crate) struct Group {
    folder: PathBuf,
}

impl Group {
    /// # Errors
    /// cgroup v2 is missing or not writable, or a controller is not available.
    pub(crate) fn create(
        name: &str,
        cpus: Option<f64>,
        memory_bytes: Option<u64>,
    ) -> Result<Self, String> {
        let none = || "cgroup v2 is not available".to_owned();
        let is_mount = |mount: &&&str| Path::new(mount).join("cgroup.controllers").is_file();
        let mount = MOUNTS.iter().find(is_mount).ok_or_else(none)?;
        let own = fs::read_to_string("/proc/self/cgroup").map_err(|error| error.to_string())?;
        let own = own.lines().find_map(|line| line.strip_prefix("0::/")).ok_or_else(none)?;
        Self::create_in(Path::new(mount), own, name, (cpus, memory_bytes))
    }

    /// `own`: our group, relative to the mount point.
    fn create_in(
        mount: &Path,
        own: &str,
        name: &str,
        (cpus, memory_bytes): (Option<f64>, Option<u64>),
    ) -> Result<Self, String> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let wanted = [("cpu", cpus.is_some()), ("memory", memory_bytes.is_some())];
        let wanted: Vec<&str> =
            wanted.into_iter().filter_map(|(name, is)| is.then_some(name)).collect();
        let parent = parent(mount, own, &wanted)?;
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = parent.join(format!("penstock-lab-{}-{number}-{name}", std::process::id()));
        fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let group = Self { folder };
        if let Some(cpus) = cpus {
            let quota_us = (cpus * PERIOD_US).round();
            group.write("cpu.max", &format!("{quota_us} {PERIOD_US}"))?;
        }
        if let Some(bytes) = memory_bytes {
            group.write("memory.max", &bytes.to_string())?;
        }
        Ok(group)
    }

    /// The file that a process writes its PID to in order to join.
    pub(crate) fn procs(&self) -> PathBuf {
        self.folder.join("cgroup.procs")
    }

    fn write(&self, file: &str, text: &str) -> Result<(), String> {
        fs::write(self.folder.join(file), text).map_err(|error| format!("{file}: {error}"))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A leftover empty group does no harm.
        let _ = fs::remove_dir(&self.folder);
    }
}

/// The nearest group whose children have all controllers in `wanted`.
fn parent(mount: &Path, own: &str, wanted: &[&str]) -> Result<PathBuf, String> {
    let own = mount.join(own);
    let has = |group: &Path, file: &str| {
        let found = fs::read_to_string(group.join(file)).unwrap_or_default();
        wanted.iter().all(|name| found.split_ascii_whitespace().any(|one| one == *name))
    };
    let upwards = || own.ancestors().take_while(|group| group.starts_with(mount));
    if let Some(group) = upwards().find(|group| has(group, "cgroup.subtree_control")) {
        return Ok(group.to_owned());
    }
    // No ancestor delegates them. Try to delegate them from our own group.
    let delegated: Vec<String> = wanted.iter().map(|name| format!("+{name}")).collect();
    if has(&own, "cgroup.controllers")
        && fs::write(own.join("cgroup.subtree_control"), delegated.join(" ")).is_ok()
    {
        return Ok(own);
    }
    Err(format!("no cgroup v2 delegates the controllers {} to its children", wanted.join(", ")))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use std::process::{Command, Stdio};

    use tempfile::TempDir;

    use super::*;

    /// A cgroup file system: each group with its controllers, and those it delegates.
    fn tree(groups: &[(&str, &str, &str)]) -> TempDir {
        let mount = TempDir::new().unwrap();
        for (group, controllers, delegated_ones) in groups {
            let folder = mount.path().join(group);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("cgroup.controllers"), controllers).unwrap();
            fs::write(folder.join("cgroup.subtree_control"), delegated_ones).unwrap();
        }
        mount
    }

    const BOTH: (Option<f64>, Option<u64>) = (Some(0.5), Some(500 << 20));

    #[test]
    fn limits_are_written_as_the_kernel_reads_them() {
        let mount = tree(&[("", "cpu memory", "cpu memory")]);
        let group = Group::create_in(mount.path(), "", "nginx", BOTH).unwrap();
        let written = |file: &str| fs::read_to_string(group.folder.join(file)).unwrap();
        assert_eq!(written("cpu.max"), "50000 100000");
        assert_eq!(written("memory.max"), "524288000");
        let only = Group::create_in(mount.path(), "", "nginx", (Some(2.0), None)).unwrap();
        assert!(!only.folder.join("memory.max").exists() && only.folder != group.folder);
    }

    #[test]
    fn groups_are_created_where_controllers_are_delegated() {
        let groups = [
            ("", "cpu io memory", "cpu io memory"),
            ("slice", "cpu io memory", "cpu memory"),
            ("slice/service", "cpu memory", "memory"),
            ("slice/service/own", "memory", ""),
        ];
        for (wanted, expect) in [
            (BOTH, "slice"),
            ((None, Some(1 << 20)), "slice/service"),
            ((Some(1.0), None), "slice"),
        ] {
            let mount = tree(&groups);
            let group = Group::create_in(mount.path(), "slice/service/own", "x", wanted).unwrap();
            assert_eq!(group.folder.parent().unwrap(), mount.path().join(expect));
        }
    }

    #[test]
    fn our_own_group_delegates_if_it_can() {
        let mount = tree(&[("", "cpu memory", "")]);
        let group = Group::create_in(mount.path(), "", "x", BOTH).unwrap();
        let delegated = fs::read_to_string(mount.path().join("cgroup.subtree_control")).unwrap();
        assert_eq!(
            (delegated.as_str(), group.folder.parent()),
            ("+cpu +memory", Some(mount.path()))
        );
        let mount = tree(&[("", "hugetlb", "")]);
        let error = Group::create_in(mount.path(), "", "x", BOTH).unwrap_err();
        assert!(error.contains("cpu, memory"), "{error}");
        assert_eq!(fs::read_dir(mount.path()).unwrap().count(), 2, "a group was left behind");
    }

    #[test]
    fn a_program_joins_a_real_cgroup() {
        let group = match Group::create("test", BOTH.0, BOTH.1) {
            Ok(group) => group,
            Err(reason) => return eprintln!("NOT tested on a real cgroup: {reason}"),
        };
        let limit = fs::read_to_string(group.folder.join("memory.max")).unwrap();
        assert_eq!(limit.trim(), "524288000");
        let script = format!("echo $$ >'{}' && exec cat", group.procs().display());
        let mut shell = Command::new("sh");
        let mut child =
            shell.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let child = child.as_mut().unwrap();
        // An echo from `cat` shows that the program has joined the group.
        let (mut into, mut from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        std::io::Write::write_all(&mut into, b"x").unwrap();
        std::io::Read::read_exact(&mut from, &mut [0]).unwrap();
        let members = fs::read_to_string(group.procs()).unwrap();
        assert!(members.lines().any(|line| line == child.id().to_string()), "{members}");
        drop(into);
        child.wait().unwrap();
        let folder = group.folder.clone();
        drop(group);
        assert!(!folder.exists(), "the group still exists");
    }
}
