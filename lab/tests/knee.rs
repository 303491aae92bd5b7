//! The knee search against targets with a known knee.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use penstock_lab::knee::{self, By, Range, SearchEnd, Slo};
use penstock_lab::load::Options;

/// Number of connections that the target serves; further ones get 503.
const PLACES: usize = 11;

#[test]
fn the_maximum_number_of_users_is_found() {
    let slo = Slo::parse("errors <= 0%").unwrap();
    let range = Range { from: 1.0, to: 64.0, precision: 0.05, whole: true };
    // Warnings are ignored, since the machine may be busy. Each level has its own target, because a target
    // that notices closed connections late would serve fewer.
    let measure = |level| {
        let options = Options {
            warm_up: Duration::ZERO,
            duration: Duration::from_millis(200),
            ..Options::new(format!("http://{}/", serve()))
        };
        knee::measure(&options, By::Users, level, &slo).map(|probe| {
            let missed = probe.error_percent > 0.0;
            let verdict = if missed { knee::LevelVerdict::Missed } else { knee::LevelVerdict::Met };
            knee::Probe { verdict, ..probe }
        })
    };
    let found = knee::search(range, measure, |_| {}).unwrap();
    assert_eq!((found.met, found.missed), (Some(11.0), Some(12.0)), "{found:#?}");
    assert_eq!(found.ended, SearchEnd::Found);
    assert!(found.probes.iter().all(|probe| probe.throughput_per_s > 0.0));
}

#[test]
fn an_overloaded_target_misses_the_objective() {
    let addr = serve();
    let slo = Slo::parse("errors <= 0%").unwrap();
    let options = Options {
        users: 64,
        warm_up: Duration::ZERO,
        duration: Duration::from_millis(200),
        ..Options::new(format!("http://{addr}/"))
    };
    let broken = knee::measure(&options, By::Users, 64.0, &slo).unwrap();
    assert!(broken.error_percent > 0.0, "{broken:?}");
    assert_ne!(broken.verdict, knee::LevelVerdict::Met, "{broken:?}");
    assert!(!broken.reason.is_empty());
}

#[test]
fn searching_by_rate_uses_an_open_loop() {
    let addr = serve();
    let slo = Slo::parse("p99 < 10s").unwrap();
    let options = Options {
        users: 4,
        warm_up: Duration::ZERO,
        duration: Duration::from_millis(500),
        ..Options::new(format!("http://{addr}/"))
    };
    let probe = knee::measure(&options, By::Rate, 100.0, &slo).unwrap();
    assert!((60.0..=140.0).contains(&probe.throughput_per_s), "{probe:?}");
    assert!(probe.concurrency < 4.0, "{probe:?}");
}

/// A connection occupies a place from its first request until it ends.
fn serve() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let addr = listener.local_addr().unwrap();
    let taken = Arc::new(AtomicUsize::new(0));
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let taken = Arc::clone(&taken);
            thread::spawn(move || serve_connection(stream, &taken));
        }
    });
    addr
}

fn serve_connection(mut stream: TcpStream, taken: &AtomicUsize) {
    let mut place = None;
    let mut buffer = [0; 4_096];
    // The generator's reachability check connects without a request and occupies no place.
    while let Ok(1..) = stream.read(&mut buffer) {
        let number = *place.get_or_insert_with(|| taken.fetch_add(1, Ordering::SeqCst));
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
        taken.fetch_sub(1, Ordering::SeqCst);
    }
}
