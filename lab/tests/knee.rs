//! The knee search against targets with a known knee.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use penstock_lab::knee::{self, By, Range, SearchEnd, Slo};
use penstock_lab::load::{LoadError, Options};

/// Number of connections that the target serves; further ones get 503.
const PLACES: usize = 11;

#[test]
fn the_maximum_number_of_users_is_found() {
    let slo = Slo::parse("errors <= 0%").unwrap();
    let range = Range { from: 1.0, to: 64.0, precision: 0.05, whole: true };
    // Warnings are ignored, since the machine may be busy.
    let measure = |level| {
        let probe = probe_all_users(level, &slo);
        let missed = probe.error_percent > 0.0;
        let verdict = if missed { knee::LevelVerdict::Missed } else { knee::LevelVerdict::Met };
        Ok::<_, LoadError>(Some(knee::Probe { verdict, ..probe }))
    };
    let found = knee::search(range, measure, |_| {}).unwrap();
    assert_eq!((found.met, found.missed), (Some(11.0), Some(12.0)), "{found:#?}");
    assert_eq!(found.ended, SearchEnd::Found);
}

#[test]
fn an_overloaded_target_misses_the_objective() {
    let broken = probe_all_users(64.0, &Slo::parse("errors <= 0%").unwrap());
    assert!(broken.error_percent > 0.0, "{broken:?}");
    assert_ne!(broken.verdict, knee::LevelVerdict::Met, "{broken:?}");
    assert!(!broken.reason.is_empty());
}

#[test]
fn searching_by_rate_uses_an_open_loop() {
    let target = Target::start();
    let slo = Slo::parse("p99 < 10s").unwrap();
    let options = Options { users: 4, ..options(&target, Duration::from_millis(1_500)) };
    let mut shown = 0;
    knee::measure(&options, (By::Rate, 100.0), &slo, &mut |_| shown += 1).unwrap();
    assert!(shown > 0, "the progress of a level is shown");
    // A closed loop would have sent as many as it could, and not the 150 that are due.
    let requests = target.requests.load(Ordering::SeqCst);
    assert!((1..=150).contains(&requests), "{requests}");
}

/// Measures for twice as long, until every user has got a response: on a busy machine a user may get no CPU
/// for longer than a short measurement takes.
fn probe_all_users(level: f64, slo: &Slo) -> knee::Probe {
    let measure = |doubled: u32| {
        // Each try has its own target, because one that notices closed connections late would serve fewer.
        let target = Target::start();
        let duration = Duration::from_millis(200) * 2_u32.pow(doubled);
        let options = options(&target, duration);
        let probe = knee::measure(&options, (By::Users, level), slo, &mut |_| {}).unwrap();
        (target.returned.load(Ordering::SeqCst) as f64 >= level).then_some(probe)
    };
    (0..8).find_map(measure).expect("some users never got a response")
}

fn options(target: &Target, duration: Duration) -> Options {
    Options {
        warm_up: Duration::ZERO,
        duration,
        ..Options::new(format!("http://{}/", target.addr))
    }
}

/// A server with `PLACES` places: a connection occupies one from its first request until it ends.
struct Target {
    addr: SocketAddr,
    taken: AtomicUsize,
    requests: AtomicUsize,
    /// Number of connections with a second request: their first response was received.
    returned: AtomicUsize,
}

impl Target {
    fn start() -> Arc<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let addr = listener.local_addr().unwrap();
        let zero = AtomicUsize::default;
        let target = Arc::new(Self { addr, taken: zero(), requests: zero(), returned: zero() });
        let serving = Arc::clone(&target);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let target = Arc::clone(&serving);
                thread::spawn(move || target.serve(stream));
            }
        });
        target
    }

    fn serve(&self, mut stream: TcpStream) {
        let mut place = None;
        let mut buffer = [0; 4_096];
        let mut requests = 0;
        // The generator's reachability check connects without a request and occupies no place.
        while let Ok(1..) = stream.read(&mut buffer) {
            let number = *place.get_or_insert_with(|| self.taken.fetch_add(1, Ordering::SeqCst));
            requests += 1;
            self.requests.fetch_add(1, Ordering::SeqCst);
            if requests == 2 {
                self.returned.fetch_add(1, Ordering::SeqCst);
            }
            let response: &[u8] = if number < PLACES {
                b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
            } else {
                b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"
            };
            if stream.write_all(response).is_err() {
                break;
            }
        }
        if place.is_some() {
            self.taken.fetch_sub(1, Ordering::SeqCst);
        }
    }
}
