//! The programs that are measured: how each is started, and what it must answer before it is.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::cells::Cell;
use super::configs::{self, Ports};
use super::ground::{self, APIS, Ground, PATH, TARGET_CORE, free_port, write};
use super::load::{self, Generator, Plan};
use super::process::Process;
use crate::shell;
use crate::workspace;

/// The program and its arguments; `None` when it isn't installed.
type Started = Result<Option<(PathBuf, Vec<String>)>, String>;

/// One line per program and way of running it.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    /// It refuses a request without a token.
    secured: bool,
    /// wrk measures it as well.
    control_row: bool,
    /// Its files are written below the folder given.
    command: fn(&Ground, &Path, Ports) -> Started,
}

pub(crate) const PENSTOCK: &str = "Penstock";
pub(crate) const NGINX: &str = "nginx";

#[rustfmt::skip]
pub(crate) const TARGETS: &[Target] = &[
    Target { name: PENSTOCK,             secured: true,  control_row: true,  command: penstock },
    Target { name: NGINX,                secured: false, control_row: true,  command: nginx },
    Target { name: "HAProxy",            secured: false, control_row: false, command: haproxy },
    Target { name: "HAProxy jwt_verify", secured: true,  control_row: false, command: haproxy_jwt },
    Target { name: "Envoy",              secured: false, control_row: false, command: envoy },
    Target { name: "Envoy jwt_authn",    secured: true,  control_row: false, command: envoy_jwt },
];

/// A started target; it ends with this value.
pub(crate) struct Running<'g> {
    target: &'static Target,
    ports: Ports,
    process: Process,
    _ground: &'g Ground,
}

impl Target {
    /// Starts it on its core; `None` when the program isn't installed.
    ///
    /// # Errors
    /// It ends, or doesn't listen.
    pub(crate) fn start<'g>(
        &'static self,
        ground: &'g Ground,
    ) -> Result<Option<Running<'g>>, String> {
        let folder = ground.folder.join(self.name.to_lowercase().replace(' ', "-"));
        std::fs::create_dir_all(&folder)
            .map_err(|error| format!("{}: {error}", folder.display()))?;
        let ports = Ports { clear: free_port()?, tls: free_port()?, admin: free_port()? };
        let Some((program, arguments)) = (self.command)(ground, &folder, ports)? else {
            return Ok(None);
        };
        let log = folder.join("log.txt");
        let mut process = Process::start(TARGET_CORE, &program, &arguments, &log)?;
        process
            .wait_for_ports(&[ports.clear, ports.tls])
            .map_err(|why| format!("{}: {why}; see {}", self.name, log.display()))?;
        Ok(Some(Running { target: self, ports, process, _ground: ground }))
    }
}

impl Running<'_> {
    pub(crate) fn name(&self) -> &'static str {
        self.target.name
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    pub(crate) fn has_control_row(&self) -> bool {
        self.target.control_row
    }

    pub(crate) fn url(&self, tls: bool) -> String {
        if tls {
            format!("https://localhost:{}{PATH}", self.ports.tls)
        } else {
            format!("http://127.0.0.1:{}{PATH}", self.ports.clear)
        }
    }

    /// The measured request comes back as it was sent; without its token a secured target refuses it.
    ///
    /// # Errors
    /// Something else was answered.
    pub(crate) fn check(&self, ground: &Ground) -> Result<(), String> {
        for tls in [false, true] {
            let cell = Cell { tls, body_bytes: 1024, connections: 1 };
            let answered = curl(ground, &self.url(tls), &cell, Some(&ground.token()?))?;
            let sent = ground::read(&ground.body(&cell))?;
            if answered != format!("{sent}200") {
                return Err(format!("{} answered `{}`", self.name(), tail(&answered)));
            }
            let refused = curl(ground, &self.url(tls), &cell, None)?;
            if self.target.secured && !refused.ends_with("401") {
                let told = tail(&refused);
                return Err(format!("{} without a token answered `{told}`", self.name()));
            }
        }
        Ok(())
    }
}

/// The body of the answer, and its status right behind it.
fn curl(ground: &Ground, url: &str, cell: &Cell, token: Option<&str>) -> Result<String, String> {
    let mut curl = Command::new("curl");
    curl.args([
        "--silent",
        "--show-error",
        "--max-time",
        "10",
        "--insecure",
        "--write-out",
        "%{http_code}",
    ])
    .args(["--header", "Content-Type: application/json", "--header", "Expect:"])
    .arg("--data-binary")
    .arg(format!("@{}", ground.body(cell).display()));
    if let Some(token) = token {
        curl.arg("--header").arg(format!("Authorization: Bearer {token}"));
    }
    shell::output(curl.arg(url))
}

fn tail(text: &str) -> String {
    let skip = text.chars().count().saturating_sub(300);
    text.chars().skip(skip).collect()
}

/// Requests that Penstock says it answered against those the generator says it sent, one line for each transport.
/// They must be equal but for those that were under way when the generator stopped, at most one per connection.
///
/// # Errors
/// They differ by more.
pub(crate) fn agreement(ground: &Ground, running: &[Running<'_>]) -> Result<Vec<String>, String> {
    const CONNECTIONS: u32 = 100;
    let Some(target) = running.iter().find(|target| target.name() == PENSTOCK) else {
        return Ok(Vec::new());
    };
    let mut lines = Vec::new();
    for tls in [false, true] {
        let cell = Cell { tls, body_bytes: 1024, connections: CONNECTIONS };
        let before = counted(target.ports.admin)?;
        let plan = Plan { seconds: 2, warm_up_s: 0 };
        let sample = load::run(ground, target, &cell, Generator::Lab, &plan)?;
        let gateway = counted(target.ports.admin)?.saturating_sub(before);
        let sent = sample.requests + sample.errors;
        let line = format!("{}: generator {sent}, gateway's /metrics {gateway}", cell.transport());
        if gateway.abs_diff(sent) > u64::from(CONNECTIONS) {
            return Err(format!("the counts disagree: {line}"));
        }
        lines.push(line);
    }
    Ok(lines)
}

/// The sum of the gateway's request counters.
fn counted(admin_port: u16) -> Result<u64, String> {
    let url = format!("http://127.0.0.1:{admin_port}/metrics");
    let text = shell::output(Command::new("curl").args(["--silent", "--fail", &url]))?;
    sum_of(&text, "penstock_requests_total")
        .ok_or_else(|| "/metrics has no penstock_requests_total".to_owned())
}

/// The sum of all samples of counter `name` in Prometheus' text format.
fn sum_of(metrics: &str, name: &str) -> Option<u64> {
    let samples: Vec<u64> = metrics
        .lines()
        .filter_map(|line| line.strip_prefix(name))
        .filter(|rest| rest.starts_with(['{', ' ']))
        .filter_map(|rest| rest.rsplit(' ').next()?.parse().ok())
        .collect();
    if samples.is_empty() { None } else { Some(samples.iter().sum()) }
}

fn penstock(ground: &Ground, folder: &Path, ports: Ports) -> Started {
    let apis = folder.join("apis");
    std::fs::create_dir_all(&apis).map_err(|error| format!("{}: {error}", apis.display()))?;
    for number in 0..APIS {
        write(&apis.join(format!("orders-{number:04}.yaml")), &configs::api(ground, number))?;
    }
    let config = folder.join("penstock.toml");
    write(&config, &configs::penstock(ground, ports))?;
    let arguments = ["gateway", "--config"].map(str::to_owned).into_iter().chain([shown(&config)]);
    Ok(Some((ground.penstock.clone(), arguments.collect())))
}

fn nginx(ground: &Ground, folder: &Path, ports: Ports) -> Started {
    let config = folder.join("nginx.conf");
    write(&config, &configs::nginx(ground, ports))?;
    Ok(installed("nginx").map(|program| {
        let arguments = ["-e", "stderr", "-p", &shown(folder), "-c", &shown(&config)];
        (program, arguments.map(str::to_owned).to_vec())
    }))
}

fn haproxy(ground: &Ground, folder: &Path, ports: Ports) -> Started {
    haproxy_with(folder, &configs::haproxy(ground, ports, false))
}

fn haproxy_jwt(ground: &Ground, folder: &Path, ports: Ports) -> Started {
    haproxy_with(folder, &configs::haproxy(ground, ports, true))
}

fn haproxy_with(folder: &Path, config: &str) -> Started {
    let file = folder.join("haproxy.cfg");
    write(&file, config)?;
    Ok(installed("haproxy")
        .map(|program| (program, vec!["-db".to_owned(), "-f".to_owned(), shown(&file)])))
}

fn envoy(ground: &Ground, folder: &Path, ports: Ports) -> Started {
    envoy_with(folder, &configs::envoy(ground, ports, false)?)
}

fn envoy_jwt(ground: &Ground, folder: &Path, ports: Ports) -> Started {
    envoy_with(folder, &configs::envoy(ground, ports, true)?)
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

/// Where `program` is; system programs too, which are not on everybody's path.
pub(crate) fn installed(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain([PathBuf::from("/usr/sbin"), PathBuf::from("/usr/local/sbin")])
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// The program itself, which PyPI's package keeps below its module; the script beside it is Python.
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
        assert_eq!(sum_of(text, "a_total"), Some(7));
        assert_eq!(sum_of(text, "b_total"), None);
    }
}
