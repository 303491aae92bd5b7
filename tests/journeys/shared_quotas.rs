//! Limits that several gateways share by way of Redis or Valkey, started for the test from the Debian package.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use harness::{Client, Files, Identity, Issuer, Process, Upstream};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

/// The program in place of `redis-server`: `valkey-server`.
const GIVEN: &str = "PENSTOCK_TEST_REDIS";

/// A server on the same port each time it is started. It keeps nothing on disk.
struct Redis {
    folder: TempDir,
    port: u16,
    tls: Option<Identity>,
    running: Option<Child>,
}

impl Redis {
    fn start(tls: Option<Identity>) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let folder = tempfile::tempdir().unwrap();
        if let Some(identity) = &tls {
            std::fs::write(folder.path().join("tls.crt"), &identity.cert_pem).unwrap();
            std::fs::write(folder.path().join("tls.key"), &identity.key_pem).unwrap();
        }
        let mut server = Self { folder, port, tls, running: None };
        server.restart();
        server
    }

    fn restart(&mut self) {
        let port = self.port.to_string();
        let program = std::env::var(GIVEN).unwrap_or_else(|_| "redis-server".to_owned());
        let mut command = Command::new(&program);
        command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
        command.args(["--requirepass", "a-password"]);
        match &self.tls {
            None => command.args(["--port", &port]),
            Some(_) => command.args(["--port", "0", "--tls-port", &port]).args([
                "--tls-cert-file",
                "tls.crt",
                "--tls-key-file",
                "tls.key",
                "--tls-auth-clients",
                "no",
            ]),
        };
        command.current_dir(self.folder.path()).stdout(Stdio::null());
        self.running = Some(command.spawn().unwrap_or_else(|_| panic!("{program} is installed")));
        while self.ask(&["PING"]) != "PONG" {
            thread::yield_now();
        }
    }

    fn kill(&mut self) {
        let mut running = self.running.take().unwrap();
        running.kill().unwrap();
        running.wait().unwrap();
    }

    /// SIGSTOP or SIGCONT: connections stay open, and nothing is answered.
    fn signal(&self, signal: Signal) {
        let id = self.running.as_ref().map(Child::id).unwrap();
        kill(Pid::from_raw(id.try_into().unwrap()), signal).unwrap();
    }

    fn ask(&self, command: &[&str]) -> String {
        let program = std::env::var(GIVEN).unwrap_or_else(|_| "redis-server".to_owned());
        let mut client = Command::new(program.replace("-server", "-cli"));
        client.args(["-p", &self.port.to_string(), "-a", "a-password", "--no-auth-warning"]);
        if self.tls.is_some() {
            client.args(["--tls", "--insecure"]);
        }
        let output = client.args(command).stderr(Stdio::null()).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Waits until a count has this sum.
    fn wait_for_sum(&self, sum: u64) {
        let script = "for _, key in ipairs(redis.call('KEYS', 'penstock:quota:*')) do \
                      if redis.call('HGET', key, 'sum') == ARGV[1] then return 'found' end end";
        while self.ask(&["EVAL", script, "0", &sum.to_string()]) != "found" {
            thread::yield_now();
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        if self.running.is_some() {
            self.kill();
        }
    }
}

/// Issuer of the tokens for `/many`.
static ISSUER: LazyLock<Issuer> = LazyLock::new(|| Issuer::new("staff"));

/// A limit of requests that takes a while to be reached.
const SHARED: usize = 4_000;

/// A gateway with the open APIs `/ten`, of which ten requests a year are admitted, `/shared` and `/free`, and the
/// secured API `/many`.
fn files(upstream: &Upstream, quotas: &str) -> Files {
    let api = |name: &str, more: &str| {
        format!(
            "openapi: 3.0.3\ninfo: {{title: {name}, version: '1'}}\nx-wso2-basePath: /{name}\n\
             x-wso2-production-endpoints: {{urls: ['{}']}}\n{more}\n\
             paths: {{/*: {{get: {{}}}}}}\n",
            upstream.url()
        )
    };
    let files = Files::new()
        .api("ten.yaml", &api("ten", "security: []\nx-wso2-throttling-tier: Ten"))
        .api("many.yaml", &api("many", "x-wso2-throttling-tier: Many"))
        .api("shared.yaml", &api("shared", "security: []\nx-wso2-throttling-tier: Shared"))
        .api("free.yaml", &api("free", "security: []"))
        .issuer("staff", &ISSUER)
        .toml(&format!("[quotas]\n{quotas}\n"));
    files.write(
        "plans.toml",
        &[("Ten", 10), ("Many", 1_000_000_000), ("Shared", SHARED)]
            .map(|(name, requests)| {
                format!("[[plan]]\nname = \"{name}\"\nlimits = [{{ requests = {requests}, per = \"1y\" }}]\n")
            })
            .concat(),
    );
    files.write("password", "a-password\n");
    files
}

fn shared(redis: &Redis) -> String {
    shared_at(SocketAddr::from(([127, 0, 0, 1], redis.port)))
}

fn shared_at(address: SocketAddr) -> String {
    format!("redis = \"redis://{address}\"\npassword = {{ file = \"password\" }}")
}

fn get(gateway: &Process, path: &str) -> harness::Response {
    Client::connect(gateway.address("http")).fetch(&format!("GET {path}"), "")
}

#[track_caller]
fn check(gateway: &Process, requests: usize, expect: &str) {
    for _ in 0..requests {
        assert_eq!(get(gateway, "/ten/x").status_and_code(), expect);
    }
}

/// The value of a metric.
fn metric(gateway: &Process, name: &str) -> u64 {
    let page = Client::connect(gateway.address("admin")).fetch("GET /metrics", "").text();
    let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {page}")).parse().unwrap()
}

/// Waits until the others know the earlier counts, and this gateway knows theirs.
fn wait_for_reports(gateway: &Process, reports: u64) {
    while metric(gateway, "penstock_quota_reports_total") < reports {
        thread::yield_now();
    }
}

fn reports(gateway: &Process) -> u64 {
    metric(gateway, "penstock_quota_reports_total")
}

#[test]
#[ignore = "needs Redis; `make test-all` runs it. On Debian: apt-get install redis-server"]
fn two_gateways_share_a_limit_by_way_of_redis_and_survive_its_death() {
    let upstream = Upstream::fixed("in");
    let mut redis = Redis::start(None);
    let files = [(); 3].map(|()| files(&upstream, &shared(&redis)));
    let [a, b] = [&files[0], &files[1]].map(Process::gateway);
    a.wait_for("Redis answers");
    b.wait_for("Redis answers");
    check(&a, 6, "200");
    redis.wait_for_sum(6);
    check(&b, 1, "200");
    // With its own report it learns of the six.
    wait_for_reports(&b, 1);
    check(&b, 3, "200");
    check(&b, 2, "429 900800");
    redis.wait_for_sum(10);
    // `a` had nothing to report, and so has not learned of the four: it admits one more.
    let before = reports(&a);
    check(&a, 1, "200");
    wait_for_reports(&a, before + 1);
    check(&a, 2, "429 900800");
    redis.wait_for_sum(11);

    let (stop, gateways) = (AtomicBool::new(false), [&a, &b]);
    let sent = thread::scope(|scope| {
        let load = gateways.map(|gateway| {
            let stop = &stop;
            scope.spawn(move || {
                let mut client = Client::connect(gateway.address("http"));
                let (bearer, mut sent) = (ISSUER.token().bearer(), 0_u64);
                let fields = format!("Authorization: {bearer}\r\n");
                while !stop.load(Ordering::Relaxed) {
                    assert_eq!(client.fetch("GET /many/x", &fields).status_and_code(), "200");
                    sent += 1;
                }
                sent
            })
        });
        redis.kill();
        for gateway in gateways {
            gateway.wait_for("Redis does not answer: this gateway counts alone");
            assert_eq!(metric(gateway, "penstock_quota_sharing{state=\"local\"}"), 1);
            // The known counts still apply.
            check(gateway, 1, "429 900800");
        }
        redis.restart();
        for gateway in gateways {
            while metric(gateway, "penstock_quota_sharing{state=\"up\"}") == 0 {
                thread::yield_now();
            }
            while gateway.text().matches("Redis answers").count() < 2 {
                thread::yield_now();
            }
        }
        stop.store(true, Ordering::Relaxed);
        load.map(|thread| thread.join().unwrap()).iter().sum()
    });
    // Redis had lost everything, and has been told again.
    redis.wait_for_sum(11);
    redis.wait_for_sum(sent);
    let c = Process::gateway(&files[2]);
    check(&c, 1, "200");
    wait_for_reports(&c, 1);
    check(&c, 1, "429 900800");
    assert!(!c.text().contains("a-password"));
}

#[test]
#[ignore = "needs Redis; `make test-all` runs it. On Debian: apt-get install redis-server"]
fn a_redis_that_stands_still_counts_as_away_until_it_answers_again() {
    let upstream = Upstream::fixed("in");
    let redis = Redis::start(None);
    let files = [(); 2].map(|()| files(&upstream, &shared(&redis)));
    let [a, b] = [&files[0], &files[1]].map(Process::gateway);
    a.wait_for("Redis answers");
    b.wait_for("Redis answers");
    check(&a, 6, "200");
    redis.wait_for_sum(6);
    redis.signal(Signal::SIGSTOP);
    for gateway in [&a, &b] {
        gateway.wait_for("Redis does not answer: this gateway counts alone");
    }
    // `b` had nothing to report, and knows nothing of the six.
    check(&a, 4, "200");
    check(&a, 1, "429 900800");
    check(&b, 10, "200");
    check(&b, 1, "429 900800");
    redis.signal(Signal::SIGCONT);
    for gateway in [&a, &b] {
        while metric(gateway, "penstock_quota_sharing{state=\"up\"}") == 0 {
            thread::yield_now();
        }
    }
    // Reports before and after the stop are counted once.
    redis.wait_for_sum(20);
    check(&a, 1, "429 900800");
    check(&b, 1, "429 900800");
}

#[test]
#[ignore = "needs Redis; `make test-all` runs it. On Debian: apt-get install redis-server"]
fn redis_is_used_with_tls_and_a_password() {
    let upstream = Upstream::fixed("in");
    let redis = Redis::start(Some(Identity::of(&["localhost"])));
    let identity = redis.tls.as_ref().unwrap();
    let with = |password: &str, ca: &str| {
        let quotas = format!(
            "redis = \"rediss://localhost:{}\"\npassword = {{ file = \"{password}\" }}\nca = [\"{ca}\"]",
            redis.port
        );
        let files = files(&upstream, &quotas);
        files.write("redis.pem", &identity.cert_pem);
        files.write("wrong", "another password");
        let gateway = Process::gateway(&files);
        (files, gateway)
    };
    let (_files, gateway) = with("password", "redis.pem");
    gateway.wait_for("Redis answers");
    check(&gateway, 4, "200");
    redis.wait_for_sum(4);
    for (password, ca) in [("wrong", "redis.pem"), ("password", "tls.crt")] {
        let (_files, gateway) = with(password, ca);
        let text = gateway.wait_for("Redis does not answer: this gateway counts alone");
        assert!(!text.contains("another password"), "{text}");
        check(&gateway, 1, "200");
    }
}

/// From the beginning of a request to its end.
type Exchange = (Instant, Instant);

/// Passes on the messages of one gateway and Redis, and notes their times. A gateway sends one report at a time.
fn observed(redis: &Redis) -> (SocketAddr, Arc<Mutex<Vec<Exchange>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (exchanges, port) = (Arc::<Mutex<Vec<Exchange>>>::default(), redis.port);
    let noted = Arc::clone(&exchanges);
    thread::spawn(move || {
        for gateway in listener.incoming().map_while(Result::ok) {
            let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else { break };
            let begun = Arc::<Mutex<Option<Instant>>>::default();
            let (sent, ended) = (Arc::clone(&begun), Arc::clone(&noted));
            let (from, to) = (gateway.try_clone().unwrap(), server.try_clone().unwrap());
            thread::spawn(move || {
                pass_on(from, to, || {
                    sent.lock().unwrap().get_or_insert_with(Instant::now);
                });
            });
            thread::spawn(move || {
                pass_on(server, gateway, || {
                    if let Some(begun) = begun.lock().unwrap().take() {
                        ended.lock().unwrap().push((begun, Instant::now()));
                    }
                });
            });
        }
    });
    (address, exchanges)
}

/// `note` comes before the bytes that it is about.
fn pass_on(mut from: TcpStream, mut to: TcpStream, mut note: impl FnMut()) {
    let mut bytes = [0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        note();
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

/// Sends one request after another until the limit is reached. Returns those that were admitted.
fn spend(gateway: &Process) -> Vec<Exchange> {
    let (mut client, mut admitted) = (Client::connect(gateway.address("http")), Vec::new());
    // A gateway that admits more than the limit alone has no limit.
    for _ in 0..=SHARED {
        let begun = Instant::now();
        let response = client.fetch("GET /shared/x", "");
        if response.status != 200 {
            assert_eq!(response.status_and_code(), "429 900800");
            return admitted;
        }
        admitted.push((begun, Instant::now()));
    }
    panic!("{} were admitted", admitted.len());
}

/// P + R: the longest time from one report to the reply to the next, or from the first request to the reply to the
/// first report, until the last request was admitted.
fn longest(reports: &[Exchange], admitted: &[Exchange]) -> Duration {
    let (first, last) = (admitted.first().unwrap().0, admitted.last().unwrap().1);
    let mut before = first;
    let mut longest = Duration::ZERO;
    for (sent, replied) in reports.iter().filter(|(_, replied)| *replied > first) {
        longest = longest.max(*replied - before);
        before = *sent;
        if *sent > last {
            break;
        }
    }
    longest
}

/// The most requests within any time of this length.
fn most_within(length: Duration, admitted: &[Exchange]) -> usize {
    let within = |(begin, (_, begun)): (usize, &Exchange)| {
        // A request can reach the gateway until it is answered.
        admitted[begin..].iter().take_while(|(next, _)| *next <= *begun + length).count()
    };
    admitted.iter().enumerate().map(within).max().unwrap()
}

#[test]
#[ignore = "needs Redis; `make test-all` runs it. On Debian: apt-get install redis-server"]
fn gateways_that_share_a_limit_by_way_of_redis_exceed_it_by_the_stated_bound_at_most() {
    let upstream = Upstream::fixed("in");
    let redis = Redis::start(None);
    let gateways = [(); 3].map(|()| {
        let (address, reports) = observed(&redis);
        let files = files(&upstream, &shared_at(address));
        let process = Process::gateway(&files);
        process.wait_for("Redis answers");
        (files, process, reports)
    });
    let admitted = thread::scope(|scope| {
        let spending = gateways.each_ref().map(|(_, process, _)| scope.spawn(|| spend(process)));
        spending.map(|thread| thread.join().unwrap())
    });
    let total: usize = admitted.iter().map(Vec::len).sum();
    // Every one was reported.
    redis.wait_for_sum(total.try_into().unwrap());
    let longest = gateways
        .iter()
        .zip(&admitted)
        .map(|((_, _, reports), admitted)| longest(&reports.lock().unwrap(), admitted));
    let longest = longest.max().unwrap();
    let a = admitted.iter().map(|admitted| most_within(longest, admitted)).max().unwrap();
    // Source: docs/quotas.md.
    let (n, most) = (gateways.len(), SHARED + 2 * gateways.len() * a);
    println!("{total} of {SHARED} were admitted; P + R = {longest:?}, a = {a}: {most} at most");
    assert!(total >= SHARED, "{total} were admitted");
    assert!(total <= most.min(n * SHARED), "{total} were admitted, {most} at most");
}

#[test]
fn without_redis_limits_apply_as_when_down_says() {
    let upstream = Upstream::fixed("in");
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (when_down, tenth, eleventh, log) in [
        ("local", "200", "429 900800", "this gateway counts alone"),
        ("open", "200", "200", "no limit applies"),
        ("closed", "429 900800", "429 900800", "requests with limits are rejected"),
    ] {
        let quotas = format!("redis = \"redis://{nobody}\"\nwhen_down = \"{when_down}\"");
        let files = files(&upstream, &quotas);
        let gateway = Process::gateway(&files);
        gateway.wait_for(&format!("Redis does not answer: {log}"));
        check(&gateway, 10, tenth);
        check(&gateway, 1, eleventh);
        assert_eq!(get(&gateway, "/free/x").status_and_code(), "200");
        let state = format!("penstock_quota_sharing{{state=\"{when_down}\"}}");
        assert_eq!(metric(&gateway, &state), 1);
        if when_down == "closed" {
            let refused = get(&gateway, "/ten/x");
            assert_eq!(refused.header("retry-after"), Some("5"), "not the end of the year");
        }
    }
}
