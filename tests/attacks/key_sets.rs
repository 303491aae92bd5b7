//! JWKS servers that attack the gateway.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use harness::{CannedResponse, Client, Files, Issuer, Upstream, wait_until};

use crate::target::{MIB, Target, description};

/// Attacks of the servers, in place of the keys of their issuers.
const BOMBS: [&str; 7] =
    ["endless", "large", "compressed", "many-keys", "deep", "huge-key", "redirection"];

fn bomb(name: &str, keys: &str) -> CannedResponse {
    let with = |fields: &str, body: &str| {
        let len = body.len();
        CannedResponse::bytes(format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {len}\r\n{fields}\r\n{body}"
        ))
    };
    let padded = |key: &str| keys.replace("{\"keys\":[", &format!("{{\"keys\":[{key}"));
    match name {
        // A megabyte in each chunk, and always one more to come.
        "endless" => {
            let chunk = format!("100000\r\n{}\r\n", " ".repeat(MIB.try_into().unwrap()));
            let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
            CannedResponse::bytes(head.to_owned() + &chunk.repeat(32))
        }
        "large" => with("", &(keys.to_owned() + &" ".repeat(MIB.try_into().unwrap()))),
        // Compressed openly, though the gateway did not ask for it.
        "compressed" => with("Content-Encoding: gzip\r\n", "\x1f\u{8b}\x08"),
        "many-keys" => {
            let key = |n: u32| format!("{{\"kty\":\"EC\",\"kid\":\"{n}\"}},");
            with("", &padded(&(0..10_000).map(key).collect::<String>()))
        }
        "deep" => with("", &padded(&format!("{}{},", "[".repeat(400_000), "]".repeat(400_000)))),
        // Each signature by it would take seconds to verify.
        "huge-key" => {
            let key = |n: u32| {
                let modulus = "_".repeat(200_000);
                format!("{{\"kty\":\"RSA\",\"kid\":\"{n}\",\"e\":\"AQAB\",\"n\":\"{modulus}\"}}")
            };
            with("", &format!("{{\"keys\":[{},{}]}}", key(1), key(2)))
        }
        "redirection" => CannedResponse::bytes(
            "HTTP/1.1 302 Found\r\nLocation: /keys/good\r\nContent-Length: 0\r\n\r\n",
        ),
        other => panic!("no bomb {other}"),
    }
}

#[test]
fn key_sets_that_are_bombs_take_nothing_from_others_and_end_with_a_good_one() {
    let good = Issuer::new("good");
    let issuers = BOMBS.map(Issuer::new);
    let is_armed = Arc::new(AtomicBool::new(true));
    let server = {
        let (is_armed, keys) = (Arc::clone(&is_armed), issuers.each_ref().map(Issuer::jwks));
        Upstream::responding(move |request| {
            let named = |(name, _): &(&str, &String)| request.target() == format!("/{name}");
            let (name, keys) = BOMBS.into_iter().zip(&keys).find(named).expect("one of them");
            let bomb = || bomb(name, keys);
            if is_armed.load(Ordering::Relaxed) { bomb() } else { CannedResponse::ok(keys) }
        })
    };
    let upstream = Upstream::fixed("in");
    let secured = description("/c", &upstream.url()).replace("security: []\n", "");
    let mut files = Files::new().api("c.yaml", &secured).issuer("good", &good);
    for (name, issuer) in BOMBS.into_iter().zip(&issuers) {
        files = files.issuer_at(name, issuer, &format!("{}/{name}", server.url()));
    }
    let mut target = Target::of(files, Upstream::fixed("in"));
    let http = target.http;
    let fetch = |issuer: &Issuer| {
        let fields = format!("Authorization: {}\r\n", issuer.token().bearer());
        Client::connect(http).fetch("GET /c/x", &fields)
    };
    // They are fetched again and again.
    for name in BOMBS {
        let path = format!("/{name}");
        wait_until(|| server.requests().iter().filter(|one| one.target() == path).count() >= 3);
        target.serves_others();
    }
    assert!(server.requests().iter().all(|one| one.target() != "/keys/good"), "not followed");
    for issuer in &issuers {
        assert_eq!(fetch(issuer).status_and_code(), "401 900901", "{}", issuer.iss());
        assert_eq!(fetch(&good).status, 200);
    }
    target.serves_others_within(16 * MIB);
    is_armed.store(false, Ordering::Relaxed);
    for issuer in &issuers {
        wait_until(|| fetch(issuer).status == 200);
    }
}
