//! Limits that several gateways share by way of Redis, started for the test from the Debian package.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use harness::{Client, Files, Identity, Process, Upstream};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

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
        let mut command = Command::new("redis-server");
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
        self.running = Some(command.spawn().expect("redis-server is installed"));
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
        let mut client = Command::new("redis-cli");
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

/// A gateway with the open APIs `/ten`, of which ten requests a year are admitted, `/many` and `/free`.
fn files(upstream: &Upstream, quotas: &str) -> Files {
    let api = |name: &str, tier: &str| {
        format!(
            "openapi: 3.0.3\ninfo: {{title: {name}, version: '1'}}\nx-wso2-basePath: /{name}\n\
             x-wso2-production-endpoints: {{urls: ['{}']}}\nsecurity: []\n{tier}\n\
             paths: {{/*: {{get: {{}}}}}}\n",
            upstream.url()
        )
    };
    let files = Files::new()
        .api("ten.yaml", &api("ten", "x-wso2-throttling-tier: Ten"))
        .api("many.yaml", &api("many", "x-wso2-throttling-tier: Many"))
        .api("free.yaml", &api("free", ""))
        .toml(&format!("[quotas]\n{quotas}\n"));
    files.write(
        "plans.toml",
        "[[plan]]\nname = \"Ten\"\nlimits = [{ requests = 10, per = \"1y\" }]\n\
         [[plan]]\nname = \"Many\"\nlimits = [{ requests = 1000000000, per = \"1y\" }]\n",
    );
    files.write("password", "a-password\n");
    files
}

fn shared(redis: &Redis) -> String {
    format!("redis = \"redis://127.0.0.1:{}\"\npassword = {{ file = \"password\" }}", redis.port)
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

/// Waits until what was counted before is known to the others, and what they have counted here.
fn wait_for_reports(gateway: &Process, reports: u64) {
    while metric(gateway, "penstock_quota_reports_total") < reports {
        thread::yield_now();
    }
}

fn reports(gateway: &Process) -> u64 {
    metric(gateway, "penstock_quota_reports_total")
}

#[test]
#[ignore = "needs Redis; `make test` runs it. On Debian: apt-get install redis-server"]
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
                let mut sent = 0_u64;
                while !stop.load(Ordering::Relaxed) {
                    assert_eq!(client.fetch("GET /many/x", "").status_and_code(), "200");
                    sent += 1;
                }
                sent
            })
        });
        redis.kill();
        for gateway in gateways {
            gateway.wait_for("Redis does not answer: this gateway counts alone");
            assert_eq!(metric(gateway, "penstock_quota_sharing{state=\"local\"}"), 1);
            // What it knows still applies.
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
#[ignore = "needs Redis; `make test` runs it. On Debian: apt-get install redis-server"]
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
    // What was reported before and after it stood still is counted once.
    redis.wait_for_sum(20);
    check(&a, 1, "429 900800");
    check(&b, 1, "429 900800");
}

#[test]
#[ignore = "needs Redis; `make test` runs it. On Debian: apt-get install redis-server"]
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
