//! How soon every gateway rejects a revoked token, while it serves other requests.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use harness::{Client, PATIENCE, Process, Upstream};
use serde_json::json;

use crate::key_manager::{KeyManager, Login};
use crate::revocations::gateway;

/// Stated in docs/tokens.md. A gateway waits at the key manager for the next revocation; asking from time to time
/// would take longer than this.
const LIMIT: Duration = Duration::from_secs(1);
const REVOCATIONS: usize = 5;

#[test]
fn a_revoked_token_is_rejected_by_every_gateway_within_a_second_under_load() {
    let manager = KeyManager::start();
    let login = manager.register("gateway", json!({}));
    let login = (login.0.as_str(), login.1.as_str());
    let upstream = Upstream::fixed("from the upstream");
    let gateways = [(); 2].map(|()| gateway(&manager, login, &upstream));
    let processes = [&gateways[0].1, &gateways[1].1];
    let (kept, stop) = (token(&manager, login), AtomicBool::new(false));
    thread::scope(|scope| {
        for process in processes {
            let (kept, stop) = (&kept, &stop);
            scope.spawn(move || {
                let mut client = Client::connect(process.address("http"));
                let begun = Instant::now();
                while !stop.load(Ordering::Relaxed) && begun.elapsed() < PATIENCE {
                    assert_eq!(status(&mut client, kept), "200");
                }
            });
        }
        let took = [(); REVOCATIONS].map(|()| revoke(&manager, login, processes));
        stop.store(true, Ordering::Relaxed);
        // The machine may have been busy with something else once or twice.
        let mut sorted = took;
        sorted.sort_unstable();
        assert!(sorted[REVOCATIONS / 2] < LIMIT, "{took:?}");
    });
}

/// The time until both gateways, which have the token cached, reject it.
fn revoke(manager: &KeyManager, login: Login<'_>, processes: [&Process; 2]) -> Duration {
    let revoked = token(manager, login);
    let mut clients = processes.map(|process| Client::connect(process.address("http")));
    for client in &mut clients {
        assert_eq!(status(client, &revoked), "200");
    }
    let begun = Instant::now();
    let response = manager.post("/oauth2/revoke", Some(login), &format!("token={revoked}"));
    assert_eq!(response.status, 200);
    for client in &mut clients {
        while status(client, &revoked) != "401 900901" {
            assert!(begun.elapsed() < PATIENCE, "it is still accepted");
        }
    }
    begun.elapsed()
}

fn token(manager: &KeyManager, login: Login<'_>) -> String {
    let issued = manager.token(login, "grant_type=client_credentials");
    issued["access_token"].as_str().unwrap().to_owned()
}

fn status(client: &mut Client, token: &str) -> String {
    client.fetch("GET /a/x", &format!("Authorization: Bearer {token}\r\n")).status_and_code()
}
