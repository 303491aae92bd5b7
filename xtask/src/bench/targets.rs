//! The programs to measure: how they are started, and the check of their responses before a measurement.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::cells::Cell;
use super::configs::{self, Ports};
use super::load::LoadTarget;
use super::process::Process;
use super::test_bed::{self, TARGET_CORE, TestBed, free_port, write};
use crate::shell;
use crate::workspace;

/// The program and its arguments; `None` if it is not installed.
type Started = Result<Option<(PathBuf, Vec<String>)>, String>;

/// A program with a configuration.
pub(crate) struct BenchTarget {
    pub(crate) name: &'static str,
    /// Rejects requests without a token.
    secured: bool,
    /// Also measured with wrk.
    with_wrk: bool,
    /// Writes its files to the given folder.
    command: fn(&TestBed, &Path, Ports) -> Started,
}

pub(crate) const PENSTOCK: &str = "Penstock";
pub(crate) const NGINX: &str = "nginx";

#[rustfmt::skip]
pub(crate) const TARGETS: &[BenchTarget] = &[
    BenchTarget { name: PENSTOCK,             secured: true,  with_wrk: true,  command: penstock },
    BenchTarget { name: NGINX,                secured: false, with_wrk: true,  command: nginx },
    BenchTarget { name: "HAProxy",            secured: false, with_wrk: false, command: haproxy },
    BenchTarget { name: "HAProxy jwt_verify", secured: true,  with_wrk: false, command: haproxy_jwt },
    BenchTarget { name: "Envoy",              secured: false, with_wrk: false, command: envoy },
    BenchTarget { name: "Envoy jwt_authn",    secured: true,  with_wrk: false, command: envoy_jwt },
];

/// A running target, which is stopped on drop.
pub(crate) struct Running {
    name: &'static str,
    secured: bool,
    with_wrk: bool,
    ports: Ports,
    path: String,
    process: Process,
}

/// The setup of a Penstock instance.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Variant {
    pub(crate) apis: u32,
    pub(crate) operations: u32,
    pub(crate) workers: u32,
    /// In taskset notation.
    pub(crate) cores: &'static str,
}

/// The setup that is compared with other programs.
pub(crate) const COMPARED: Variant =
    Variant { apis: APIS, operations: 4, workers: 1, cores: TARGET_CORE };

/// Number of APIs in the comparison.
pub(crate) const APIS: u32 = 1_000;

impl BenchTarget {
    /// Starts it on its core; `None` if the program is not installed.
    ///
    /// # Errors
    /// It exits, or does not listen in time.
    pub(crate) fn start(&'static self, bed: &TestBed) -> Result<Option<Running>, String> {
        let folder = folder(bed, &self.name.to_lowercase().replace(' ', "-"))?;
        let ports = free_ports()?;
        let Some((program, arguments)) = (self.command)(bed, &folder, ports)? else {
            return Ok(None);
        };
        let log = folder.join("log.txt");
        let mut process = Process::start(TARGET_CORE, &program, &arguments, &log)?;
        process
            .wait_for_ports(&[ports.clear, ports.tls])
            .map_err(|why| format!("{}: {why}; see {}", self.name, log.display()))?;
        let Self { name, secured, with_wrk, .. } = *self;
        let path = configs::path(&COMPARED);
        Ok(Some(Running { name, secured, with_wrk, ports, path, process }))
    }
}

/// Starts Penstock with the setup `variant` and its files in the folder `name`.
///
/// # Errors
/// It exits, or does not listen in time.
pub(crate) fn start_penstock(
    bed: &TestBed,
    name: &str,
    variant: &Variant,
) -> Result<Running, String> {
    let ports = free_ports()?;
    let folder = folder(bed, name)?;
    let arguments = prepare_penstock(bed, &folder, ports, variant)?;
    let log = folder.join("log.txt");
    let mut process = Process::start(variant.cores, &bed.penstock, arguments, &log)?;
    process
        .wait_for_ports(&[ports.clear, ports.tls])
        .map_err(|why| format!("Penstock: {why}; see {}", log.display()))?;
    let path = configs::path(variant);
    Ok(Running { name: PENSTOCK, secured: true, with_wrk: false, ports, path, process })
}

/// The time from the start of Penstock until `responses` returns, which gets the cleartext port and the measured
/// request.
///
/// # Errors
/// Penstock does not start, or the error of `responses`.
pub(crate) fn time_to_first_response(
    bed: &TestBed,
    name: &str,
    variant: &Variant,
    responses: fn(u16, &str) -> Result<(), String>,
) -> Result<Duration, String> {
    let ports = free_ports()?;
    let folder = folder(bed, name)?;
    let arguments = prepare_penstock(bed, &folder, ports, variant)?;
    let path = configs::path(variant);
    let token = bed.token()?;
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n\
         Content-Length: 2\r\nConnection: close\r\n\r\n{{}}"
    );
    let start = Instant::now();
    let log = folder.join("log.txt");
    let process = Process::start(variant.cores, &bed.penstock, arguments, &log)?;
    responses(ports.clear, &request).map_err(|why| format!("{why}; see {}", log.display()))?;
    let time = start.elapsed();
    drop(process);
    Ok(time)
}

fn free_ports() -> Result<Ports, String> {
    Ok(Ports { clear: free_port()?, tls: free_port()?, admin: free_port()? })
}

fn folder(bed: &TestBed, name: &str) -> Result<PathBuf, String> {
    let folder = bed.folder.join(name);
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
}

impl Running {
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn is_measured_with_wrk(&self) -> bool {
        self.with_wrk
    }

    pub(crate) fn url(&self, tls: bool) -> String {
        let (scheme, port) =
            if tls { ("https", self.ports.tls) } else { ("http", self.ports.clear) };
        format!("{scheme}://127.0.0.1:{port}{}", self.path)
    }

    /// Where to send requests, and whose CPU time to read.
    pub(crate) fn load_target(&self, tls: bool) -> LoadTarget {
        LoadTarget { url: self.url(tls), pid: self.process.pid() }
    }

    /// Requests counted by its own metrics; `None` for targets other than Penstock.
    ///
    /// # Errors
    /// /metrics cannot be read.
    pub(crate) fn responses(&self) -> Result<Option<u64>, String> {
        if self.name == PENSTOCK { counted(self.ports.admin).map(Some) } else { Ok(None) }
    }

    /// The sum of counter `name` on /metrics over samples whose labels contain `labels`; 0 if there are none.
    ///
    /// # Errors
    /// /metrics cannot be read.
    pub(crate) fn metric(&self, name: &str, labels: &str) -> Result<u64, String> {
        Ok(sum_of(&metrics(self.ports.admin)?, name, labels).unwrap_or(0))
    }

    /// The cleartext port.
    pub(crate) fn clear_port(&self) -> u16 {
        self.ports.clear
    }

    /// Checks that the measured request is echoed, and that a secured target rejects it without a token.
    ///
    /// # Errors
    /// The response differs.
    pub(crate) fn check(&self, bed: &TestBed) -> Result<(), String> {
        for tls in [false, true] {
            let cell = Cell { tls, body_bytes: 1024, connections: 1 };
            let echoed = curl(bed, &self.url(tls), &cell, Some(&bed.token()?))?;
            let sent = test_bed::read(&bed.body(&cell))?;
            if echoed != format!("{sent}200") {
                return Err(format!(
                    "{} did not echo the request; it returned `{}`",
                    self.name(),
                    tail(&echoed)
                ));
            }
            let rejected = curl(bed, &self.url(tls), &cell, None)?;
            if self.secured && !rejected.ends_with("401") {
                let found = tail(&rejected);
                return Err(format!(
                    "{} returned `{found}` instead of 401 to a request without a token",
                    self.name()
                ));
            }
        }
        Ok(())
    }
}

/// The body of the response, followed by its status.
fn curl(bed: &TestBed, url: &str, cell: &Cell, token: Option<&str>) -> Result<String, String> {
    let mut curl = Command::new("curl");
    curl.args([
        "--silent",
        "--show-error",
        "--max-time",
        "10",
        "--insecure",
        "--http1.1",
        "--write-out",
        "%{http_code}",
    ])
    .args(["--header", "Content-Type: application/json", "--header", "Expect:"])
    .arg("--data-binary")
    .arg(format!("@{}", bed.body(cell).display()));
    if let Some(token) = token {
        curl.arg("--header").arg(format!("Authorization: Bearer {token}"));
    }
    shell::output(curl.arg(url))
}

fn tail(text: &str) -> String {
    let skip = text.chars().count().saturating_sub(300);
    text.chars().skip(skip).collect()
}

/// The sum of the gateway's request counters.
fn counted(admin_port: u16) -> Result<u64, String> {
    sum_of(&metrics(admin_port)?, "penstock_requests_total", "")
        .ok_or_else(|| "/metrics has no penstock_requests_total".to_owned())
}

fn metrics(admin_port: u16) -> Result<String, String> {
    let url = format!("http://127.0.0.1:{admin_port}/metrics");
    shell::output(Command::new("curl").args(["--silent", "--fail", &url]))
}

/// The sum of all samples of counter `name` in Prometheus' text format whose labels contain `labels`.
fn sum_of(metrics: &str, name: &str, labels: &str) -> Option<u64> {
    let samples: Vec<u64> = metrics
        .lines()
        .filter_map(|line| line.strip_prefix(name))
        .filter(|rest| rest.starts_with(['{', ' ']) && rest.contains(labels))
        .filter_map(|rest| rest.rsplit(' ').next()?.parse().ok())
        .collect();
    if samples.is_empty() { None } else { Some(samples.iter().sum()) }
}

fn penstock(bed: &TestBed, folder: &Path, ports: Ports) -> Started {
    let arguments = prepare_penstock(bed, folder, ports, &COMPARED)?;
    Ok(Some((bed.penstock.clone(), arguments)))
}

/// Writes configuration and APIs; returns the command-line arguments.
pub(crate) fn prepare_penstock(
    bed: &TestBed,
    folder: &Path,
    ports: Ports,
    variant: &Variant,
) -> Result<Vec<String>, String> {
    let apis = folder.join("apis");
    _ = std::fs::remove_dir_all(&apis);
    std::fs::create_dir_all(&apis).map_err(|error| format!("{}: {error}", apis.display()))?;
    for number in 0..variant.apis {
        let api = configs::api(bed, number, variant.operations);
        write(&apis.join(format!("orders-{number:04}.yaml")), &api)?;
    }
    let config = folder.join("penstock.toml");
    write(&config, &configs::penstock(bed, ports, variant.workers))?;
    Ok(vec!["gateway".to_owned(), "--config".to_owned(), shown(&config)])
}

fn nginx(bed: &TestBed, folder: &Path, ports: Ports) -> Started {
    let config = folder.join("nginx.conf");
    write(&config, &configs::nginx(bed, ports))?;
    Ok(installed("nginx").map(|program| {
        let arguments = ["-e", "stderr", "-p", &shown(folder), "-c", &shown(&config)];
        (program, arguments.map(str::to_owned).to_vec())
    }))
}

fn haproxy(bed: &TestBed, folder: &Path, ports: Ports) -> Started {
    haproxy_with(folder, &configs::haproxy(bed, ports, false))
}

fn haproxy_jwt(bed: &TestBed, folder: &Path, ports: Ports) -> Started {
    haproxy_with(folder, &configs::haproxy(bed, ports, true))
}

fn haproxy_with(folder: &Path, config: &str) -> Started {
    let file = folder.join("haproxy.cfg");
    write(&file, config)?;
    Ok(installed("haproxy")
        .map(|program| (program, vec!["-db".to_owned(), "-f".to_owned(), shown(&file)])))
}

fn envoy(bed: &TestBed, folder: &Path, ports: Ports) -> Started {
    envoy_with(folder, &configs::envoy(bed, ports, false)?)
}

fn envoy_jwt(bed: &TestBed, folder: &Path, ports: Ports) -> Started {
    envoy_with(folder, &configs::envoy(bed, ports, true)?)
}

fn envoy_with(folder: &Path, config: &str) -> Started {
    let file = folder.join("envoy.yaml");
    write(&file, config)?;
    let arguments =
        ["-c", &shown(&file), "--concurrency", "1", "--disable-hot-restart", "-l", "error"];
    Ok(envoy_program().map(|program| (program, arguments.map(str::to_owned).to_vec())))
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// The path of `program`, from PATH or the folders of system programs, which may not be in PATH.
pub(crate) fn installed(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain([PathBuf::from("/usr/sbin"), PathBuf::from("/usr/local/sbin")])
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// The executable inside the module of the PyPI package, rather than the Python script that wraps it.
fn envoy_program() -> Option<PathBuf> {
    let python = workspace::root().join("bench/peers/lib");
    std::fs::read_dir(python)
        .into_iter()
        .flatten()
        .flatten()
        .map(|version| version.path().join("site-packages/envoy/_bin/envoy"))
        .find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_summed_over_their_labels() {
        let text =
            "# TYPE a_total counter\na_total{x=\"1\"} 3\na_total{x=\"b c\"} 4\na_total_other 9\n";
        assert_eq!(sum_of(text, "a_total", ""), Some(7));
        assert_eq!(sum_of(text, "a_total", "x=\"b c\""), Some(4));
        assert_eq!(sum_of(text, "a_total", "y="), None);
        assert_eq!(sum_of(text, "b_total", ""), None);
    }
}
