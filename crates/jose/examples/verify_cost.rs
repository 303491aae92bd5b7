//! Measures the cost of a token on a miss of the token cache: parsing, verification, claims; and the saving of
//! parsing keys once.
//! `taskset -c 0 cargo run -p penstock-jose --profile quick --example verify_cost`

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement, not the product")]

use std::hint::black_box;

use aws_lc_rs::signature::{KeyPair, RSA_PKCS1_2048_8192_SHA256, RsaKeyPair, UnparsedPublicKey};
use base::SystemClock;
use penstock_jose::{Algorithm, Compact, Header, KeySet, Padding, SigningKey};

const CLAIMS: &str = r#"{"sub":"admin@carbon.super","aut":"APPLICATION","aud":"xDk3eCMUqYWyGmtMCtJmSSw1cVMa","nbf":1700000000,"azp":"xDk3eCMUqYWyGmtMCtJmSSw1cVMa","scope":"am_application_scope default","iss":"https://localhost:9443/oauth2/token","keytype":"PRODUCTION","exp":4102444800,"iat":1700000000,"jti":"0f3a7a0e-28b7-4a4d-9f64-5d3a1c1b2e77","client_id":"xDk3eCMUqYWyGmtMCtJmSSw1cVMa"}"#;

fn main() {
    let rsa = SigningKey::generate_rsa().unwrap();
    let (rsa, pair) = (SigningKey::from_pem(rsa.as_bytes()).unwrap(), pair(&rsa));
    let ec = include_bytes!("../tests/data/keys/p256.pkcs8.pem");
    let ed = include_bytes!("../tests/data/keys/ed25519.pkcs8.pem");
    for key in [rsa, SigningKey::from_pem(ec).unwrap(), SigningKey::from_pem(ed).unwrap()] {
        let set = format!("{{\"keys\":[{}]}}", key.public_jwk(None).unwrap());
        measure(&key, key.algorithm(), &KeySet::from_jwks(set.as_bytes()).unwrap());
    }
    let secret = [7; 32];
    let key = SigningKey::from_secret(&secret).unwrap();
    measure(&key, Algorithm::Hs256, &KeySet::from_secret(&secret).unwrap());
    compare_parsing(&pair);
}

fn measure(key: &SigningKey, alg: Algorithm, keys: &KeySet) {
    let kid = key.thumbprint().ok();
    let token = key.sign(&Header { alg, kid, typ: Some("at+jwt".into()) }, CLAIMS).unwrap();
    let read = || Compact::parse(black_box(token.as_bytes()), Padding::Rejected).unwrap();
    let parse_us = each_us(|| drop(black_box(read())));
    let token_read = read();
    let claims_us = each_us(|| drop(black_box(token_read.unverified_claims()).unwrap()));
    let verify_us = each_us(|| token_read.verify_signature(black_box(keys)).unwrap());
    println!(
        "{alg}: token {} B, parse {parse_us:.2} us, claims {claims_us:.2} us, verify {verify_us:.2} us",
        token.len()
    );
}

/// A verification with the key parsed once, and parsed each time.
fn compare_parsing(pair: &RsaKeyPair) {
    let message = CLAIMS.as_bytes();
    let mut signature = vec![0; pair.public_modulus_len()];
    let random = aws_lc_rs::rand::SystemRandom::new();
    pair.sign(&aws_lc_rs::signature::RSA_PKCS1_SHA256, &random, message, &mut signature).unwrap();
    let unparsed = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, pair.public_key().as_ref());
    let parsed = unparsed.parse().unwrap();
    let once_us = each_us(|| parsed.verify_sig(message, &signature).unwrap());
    let always_us = each_us(|| unparsed.verify(message, &signature).unwrap());
    println!("RS256 alone: key parsed once {once_us:.2} us, parsed each time {always_us:.2} us");
}

fn pair(pem: &str) -> RsaKeyPair {
    use base64::Engine;
    let body: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
    let der = base64::engine::general_purpose::STANDARD.decode(body).unwrap();
    RsaKeyPair::from_pkcs8(&der).unwrap()
}

/// Microseconds of one call: the best of many rounds, each shorter than a time slice of the scheduler, to
/// exclude other load on the machine.
fn each_us(mut call: impl FnMut()) -> f64 {
    const CALLS: u32 = 20;
    const ROUNDS: u32 = 500;
    let clock = SystemClock::new();
    let round = |call: &mut dyn FnMut()| {
        let start = clock.now_us();
        for _ in 0..CALLS {
            call();
        }
        clock.now_us().saturating_sub(start)
    };
    let best = (0..ROUNDS).map(|_| round(&mut call)).min().unwrap_or_default();
    u32::try_from(best).map_or(f64::INFINITY, f64::from) / f64::from(CALLS)
}
