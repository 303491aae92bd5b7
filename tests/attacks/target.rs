//! The program under attack, and the clients that it must still serve.

use std::io::Read;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use harness::{CannedResponse, Client, Files, PATIENCE, Process, Upstream};

pub(crate) const MIB: u64 = 1024 * 1024;

/// A gateway with an open API at `/a` for others, one at `/b` for attacks, and a client that was there before the
/// attack.
pub(crate) struct Target {
    pub(crate) process: Process,
    pub(crate) http: SocketAddr,
    _upstream: Upstream,
    /// The upstream of `/b`.
    pub(crate) silent: Silent,
    other: Client,
    before_bytes: u64,
    _files: Files,
}

/// An open API at `base_path`.
pub(crate) fn description(base_path: &str, url: &str) -> String {
    format!(
        "openapi: 3.0.3\ninfo: {{title: A, version: '1'}}\nx-wso2-basePath: {base_path}\n\
         x-wso2-production-endpoints: {{urls: ['{url}']}}\nsecurity: []\npaths:\n  /*:\n    \
         get: {{responses: {{'200': {{description: ok}}}}}}\n    \
         post: {{responses: {{'200': {{description: ok}}}}}}\n"
    )
}

impl Target {
    pub(crate) fn new() -> Self {
        Self::with("")
    }

    /// With these keys in `[gateway]`.
    pub(crate) fn with(keys: &str) -> Self {
        Self::of(Files::new().gateway(keys), Upstream::fixed("in"))
    }

    /// With these files and an API at `/a` for `upstream`, which responds `in` to `GET /x`.
    pub(crate) fn of(files: Files, upstream: Upstream) -> Self {
        let silent = Silent::start();
        let files = files
            .api("a.yaml", &description("/a", &upstream.url()))
            .api("b.yaml", &description("/b", &format!("http://{}", silent.address)));
        let process = Process::gateway(&files);
        let http = process.address("http");
        let other = Client::connect(http);
        let (_upstream, _files, before_bytes) = (upstream, files, 0);
        let mut target = Self { process, http, _upstream, silent, other, before_bytes, _files };
        target.serves_others();
        target.before_bytes = target.process.memory_bytes("VmRSS");
        target
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.http)
    }

    /// The client from before the attack connects again.
    pub(crate) fn reconnect(&mut self) {
        self.other = self.connect();
    }

    /// A client that was connected before the attack, and one that connects now, get their responses.
    #[track_caller]
    pub(crate) fn serves_others(&mut self) {
        assert_eq!(self.other.fetch("GET /a/x", "").text(), "in");
        assert_eq!(self.connect().fetch("GET /a/x", "").text(), "in");
    }

    /// The same; and the memory has grown by at most `most` since the start.
    #[track_caller]
    pub(crate) fn serves_others_within(&mut self, most: u64) {
        self.serves_others();
        let now = self.process.memory_bytes("VmRSS");
        let grown = now.saturating_sub(self.before_bytes);
        assert!(grown <= most, "{} KiB more memory, at most {}", grown / 1024, most / 1024);
    }

    /// The sum of a metric's series.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        self.metric_with(name, "")
    }

    /// The sum of those with these labels.
    pub(crate) fn metric_with(&self, name: &str, labels: &str) -> u64 {
        let page = Client::connect(self.process.address("admin")).fetch("GET /metrics", "").text();
        let series = page.lines().filter_map(|line| line.rsplit_once(' '));
        let found = series.filter(|(series, _)| series.split('{').next() == Some(name));
        let found = found.filter(|(series, _)| series.contains(labels));
        found.map(|(_, value)| value.parse::<u64>().unwrap()).sum()
    }

    /// Scrapes until a metric has this value.
    #[track_caller]
    pub(crate) fn wait_for_metric(&self, name: &str, value: u64) {
        let begun = Instant::now();
        while self.metric(name) != value {
            assert!(begun.elapsed() < PATIENCE, "{name} is not {value}: {}", self.metric(name));
        }
    }
}

/// An upstream that hangs: it never responds or closes a connection, and keeps its requests.
pub(crate) struct Silent {
    address: SocketAddr,
    received: Arc<Mutex<Vec<u8>>>,
}

impl Silent {
    /// The upstream's threads end with the gateway.
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let received = Arc::<Mutex<Vec<u8>>>::default();
        let all = Arc::clone(&received);
        thread::spawn(move || {
            for mut tcp in listener.incoming().map_while(Result::ok) {
                let all = Arc::clone(&all);
                thread::spawn(move || {
                    let mut bytes = [0; 4_096];
                    loop {
                        match tcp.read(&mut bytes) {
                            // It does not close its side either.
                            Ok(0) => std::mem::forget(tcp.try_clone().unwrap()),
                            Ok(count) => {
                                all.lock().unwrap().extend_from_slice(&bytes[..count]);
                                continue;
                            }
                            Err(_) => {}
                        }
                        return;
                    }
                });
            }
        });
        Self { address, received }
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// How often `text` is in the received bytes.
    pub(crate) fn count(&self, text: &str) -> usize {
        String::from_utf8_lossy(&self.received.lock().unwrap()).matches(text).count()
    }
}

/// `in` for `GET /x`; otherwise the result of `response`.
pub(crate) fn responding(
    response: impl Fn(&harness::Request) -> CannedResponse + Send + Sync + 'static,
) -> Upstream {
    Upstream::responding(move |request| match request.target() {
        "/x" => CannedResponse::ok("in"),
        _ => response(request),
    })
}
