//! The figures of a running measurement in Prometheus' text format, for `penstock lab load --metrics`.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::limits;
use crate::load::Progress;

/// Serves the last progress report at every path. Stops with the process.
pub struct Metrics {
    addr: SocketAddr,
    text: Arc<Mutex<String>>,
}

impl Metrics {
    /// Starts listening; port 0 picks a free port.
    ///
    /// # Errors
    /// The address is in use, or the thread cannot be started.
    pub fn start(listen: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(listen)?;
        let addr = listener.local_addr()?;
        let text = Arc::new(Mutex::new(String::new()));
        let shared = Arc::clone(&text);
        let serve = move || {
            for stream in listener.incoming().flatten() {
                let text = shared.lock().unwrap_or_else(PoisonError::into_inner).clone();
                // A scraper that left does not affect others.
                let _ = respond(stream, &text);
            }
        };
        thread::Builder::new().name("metrics".to_owned()).spawn(serve)?;
        Ok(Self { addr, text })
    }

    /// The address it listens on, with the actual port.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub fn update(&self, progress: &Progress) {
        *self.text.lock().unwrap_or_else(PoisonError::into_inner) = text(progress);
    }
}

/// One request per connection, one connection at a time.
fn respond(mut stream: TcpStream, text: &str) -> io::Result<()> {
    let wait = Some(Duration::from_millis(limits::METRICS_MS_MAX));
    stream.set_read_timeout(wait)?;
    stream.set_write_timeout(wait)?;
    let mut head = Vec::new();
    let mut buffer = [0; 1_024];
    while !head.ends_with(b"\r\n\r\n") && head.len() < limits::HEAD_BYTES_MAX as usize {
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            count => head.extend_from_slice(buffer.get(..count).unwrap_or_default()),
        }
    }
    let length = text.len();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}"
    )
}

fn text(progress: &Progress) -> String {
    let mut text = String::new();
    let mut add = |name: &str, kind: &str, help: &str, value: Option<f64>| {
        if let Some(value) = value {
            let name = format!("penstock_lab_{name}");
            // Writing to a String cannot fail.
            let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n");
        }
    };
    let seconds = |ms: f64| ms / 1_000.0;
    let warming_up = f64::from(u8::from(progress.warming_up));
    add("warming_up", "gauge", "1 before the measured time", Some(warming_up));
    let help = "Finished requests, warm-up and failures included";
    add("requests_total", "counter", help, Some(progress.requests as f64));
    add("errors_total", "counter", "Failed requests", Some(progress.errors as f64));
    add("request_rate", "gauge", "Finished requests per second", Some(progress.rate_per_s));
    let help = "Median latency of the last second";
    add("latency_p50_seconds", "gauge", help, progress.p50_ms.map(seconds));
    let help = "99th percentile of the latency of the last second";
    add("latency_p99_seconds", "gauge", help, progress.p99_ms.map(seconds));
    add("generator_cpus", "gauge", "CPUs that the generator uses", Some(progress.generator_cpus));
    add("target_cpus", "gauge", "CPUs that the target uses", progress.target_cpus);
    let left_s = progress.requests_left.is_none().then_some(progress.left.as_secs_f64());
    add("left_seconds", "gauge", "Time until the end of the measured time", left_s);
    let left = progress.requests_left.map(|left| left as f64);
    add("left_requests", "gauge", "Measured requests that have not finished", left);
    text
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn the_last_progress_is_scraped() {
        let metrics = Metrics::start(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let mut progress = Progress {
            warming_up: false,
            requests: 7,
            errors: 1,
            rate_per_s: 3.5,
            p50_ms: Some(2.0),
            p99_ms: None,
            generator_cpus: 0.25,
            target_cpus: Some(1.5),
            left: Duration::from_secs(9),
            requests_left: None,
        };
        for requests in [7, 8] {
            progress.requests = requests;
            metrics.update(&progress);
            let mut stream = TcpStream::connect(metrics.addr()).unwrap();
            stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
            let mut response = String::new();
            stream.read_to_string(&mut response).unwrap();
            assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
            for line in [
                "# TYPE penstock_lab_requests_total counter".to_owned(),
                format!("penstock_lab_requests_total {requests}"),
                "penstock_lab_latency_p50_seconds 0.002".to_owned(),
                "penstock_lab_target_cpus 1.5".to_owned(),
                "penstock_lab_left_seconds 9".to_owned(),
            ] {
                assert!(response.lines().any(|own| own == line), "{line} in {response}");
            }
            assert!(!response.contains("p99") && !response.contains("left_requests"));
        }
    }
}
