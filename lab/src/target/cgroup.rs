//! A control group (cgroup v2) around one program: CPU quota and memory, as a pod has them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Where version 2 is mounted: by itself, or beside version 1.
const MOUNTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
/// The quota's period, in microseconds; Kubernetes uses the same.
const PERIOD_US: f64 = 100_000.0;

/// Removed with its value, once it is empty.
#[derive(Debug)]
pub(crate) struct Group {
    folder: PathBuf,
}

impl Group {
    /// # Errors
    /// A sentence: there is no version 2, or it isn't ours to write, or it has no such controller.
    pub(crate) fn create(
        name: &str,
        cpus: Option<f64>,
        memory_bytes: Option<u64>,
    ) -> Result<Self, String> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let parent = parent().ok_or("there is no cgroup v2 here")?;
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

    /// Where a process writes its number to be in the group.
    pub(crate) fn procs(&self) -> PathBuf {
        self.folder.join("cgroup.procs")
    }

    fn write(&self, file: &str, text: &str) -> Result<(), String> {
        fs::write(self.folder.join(file), text).map_err(|error| format!("{file}: {error}"))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // One that can't be removed is empty and harms nobody.
        let _ = fs::remove_dir(&self.folder);
    }
}

/// This process's own group.
fn parent() -> Option<PathBuf> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let mount =
        MOUNTS.iter().find(|mount| Path::new(mount).join("cgroup.controllers").is_file())?;
    Some(Path::new(mount).join(own))
}
