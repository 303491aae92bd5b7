//! `penstock token`: tokens for tests and measurements, signed with the user's key.

use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::thread;

use base::{Entropy, SystemEntropy};
use clap::{Args, Subcommand};
use jose::{Algorithm, Header, SigningKey};

use super::write_result;
use crate::failure::Failure;

/// Create tokens
#[derive(Subcommand)]
pub(crate) enum Command {
    Sign(Sign),
}

/// Sign claims as JWTs
///
/// Prints one token per line. Each gets its own `jti`; nothing else is added to the claims, which must include `exp`
/// (seconds since 1970).
#[derive(Args)]
#[command(after_help = "Examples:
  penstock token sign --key signing.pem \\
      --claims '{\"iss\":\"https://localhost:9443/oauth2/token\",\"sub\":\"me\",\"exp\":1893456000}'
  penstock token sign --key signing.pem --claims @claims.json --count 4000 --out tokens.txt

To create a key pair:
  openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out signing.pem
  openssl pkey -in signing.pem -pubout -out public.pem      (`pem = \"public.pem\"` of an [[issuer]])")]
pub(crate) struct Sign {
    /// Private key in PEM (RSA, EC or Ed25519), or a file with the secret for HS256, HS384 and HS512
    #[arg(long, value_name = "PEM")]
    key: PathBuf,
    /// Claims as JSON, or @FILE to read them from a file
    #[arg(long, value_name = "JSON|@FILE")]
    claims: String,
    /// Signature algorithm [default: by type of key: RS256, ES256, ES384, ES512 or EdDSA]
    #[arg(long, value_name = "ALG")]
    alg: Option<String>,
    /// `kid` header parameter [default: none]
    #[arg(long)]
    kid: Option<String>,
    /// `typ` header parameter
    #[arg(long, default_value = "JWT")]
    typ: String,
    /// Number of tokens
    #[arg(long, default_value_t = NonZero::<u32>::MIN)]
    count: NonZero<u32>,
    /// Output file, created with mode 0600 [default: stdout]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(crate) fn run(command: Command) -> Result<(), Failure> {
    let Command::Sign(sign) = command;
    let alg = sign.alg.as_deref().map(algorithm).transpose()?;
    let key = key(&sign.key, alg)?;
    let alg = alg.unwrap_or_else(|| key.algorithm());
    let claims = claims(&sign.claims)?;
    let header = Header { alg, kid: sign.kid, typ: Some(sign.typ) };
    let tokens = sign_all(&key, &header, &claims, sign.count)?;
    match &sign.out {
        Some(file) => follow::write_private(file, tokens.as_bytes())
            .map_err(|error| Failure::file("write", file, &error)),
        None => write_result(None, tokens.as_bytes()),
    }
}

/// Signs `claims` with a new `jti`.
pub(crate) fn sign_one(key: &SigningKey, header: &Header, claims: &str) -> Result<String, Failure> {
    let jti = format!("\"{:016x}{:016x}\"", SystemEntropy.u64(), SystemEntropy.u64());
    let claims = jose::with_member(claims, "jti", &jti)
        .map_err(|error| Failure::Usage(format!("--claims is not a JSON object: {error}")))?;
    key.sign(header, &claims).map_err(|error| Failure::Usage(error.to_string()))
}

/// Signs `count` tokens, one per line, on all CPUs: an RSA signature takes about a millisecond.
fn sign_all(
    key: &SigningKey,
    header: &Header,
    claims: &str,
    count: NonZero<u32>,
) -> Result<String, Failure> {
    let lines = |count: u32| -> Result<String, Failure> {
        (0..count).map(|_| sign_one(key, header, claims).map(|token| token + "\n")).collect()
    };
    let cpus = thread::available_parallelism().map_or(1, NonZero::get);
    let threads = u32::try_from(cpus).unwrap_or(1).min(count.get());
    thread::scope(|scope| {
        let lines = &lines;
        let shares = (0..threads).map(|thread| {
            let more = u32::from(thread < count.get() % threads);
            scope.spawn(move || lines(count.get() / threads + more))
        });
        let running: Vec<_> = shares.collect();
        running.into_iter().map(|thread| thread.join().expect("signing never panics")).collect()
    })
}

fn algorithm(name: &str) -> Result<Algorithm, Failure> {
    name.parse().map_err(|error| Failure::Usage(format!("--alg {name}: {error}")))
}

/// Reads a PEM key, or a raw secret for the symmetric algorithms.
fn key(file: &Path, alg: Option<Algorithm>) -> Result<SigningKey, Failure> {
    let bytes = fs::read(file).map_err(|error| Failure::file("read", file, &error))?;
    let read = if alg.is_some_and(Algorithm::is_symmetric) {
        SigningKey::from_secret(bytes.strip_suffix(b"\n").unwrap_or(&bytes))
    } else {
        SigningKey::from_pem(&bytes)
    };
    read.map_err(|error| Failure::Error(format!("{}: {error}", file.display())))
}

fn claims(argument: &str) -> Result<String, Failure> {
    let text = match argument.strip_prefix('@') {
        Some(file) => fs::read_to_string(file)
            .map_err(|error| Failure::file("read", Path::new(file), &error))?,
        None => argument.to_owned(),
    };
    let parsed: serde_json::Value = serde_json::from_str(&text)
        .map_err(|error| Failure::Usage(format!("--claims is not valid JSON: {error}")))?;
    let Some(members) = parsed.as_object() else {
        return Err(Failure::Usage("--claims is not a JSON object".to_owned()));
    };
    if members.get("exp").is_none_or(serde_json::Value::is_null) {
        return Err(Failure::Usage(
            "--claims has no `exp`, and gateways reject tokens that never expire; add an expiry in seconds since \
             1970, such as \"exp\":1893456000 (`date -d '+1 day' +%s` prints tomorrow's)"
                .to_owned(),
        ));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_without_exp_are_rejected() {
        for without in ["{\"sub\":\"me\"}", "{\"exp\":null}"] {
            let Err(Failure::Usage(message)) = claims(without) else {
                panic!("{without} accepted");
            };
            assert!(message.contains("`exp`"), "{message}");
        }
        assert!(claims("{\"exp\":1893456000}").is_ok());
        assert!(matches!(claims("[]"), Err(Failure::Usage(_))));
        assert!(matches!(claims("{"), Err(Failure::Usage(_))));
        assert!(matches!(claims("@/no/such/file"), Err(Failure::Error(_))));
    }

    #[test]
    fn every_token_has_a_jti_of_its_own() {
        let key = SigningKey::from_secret(&[7; 32]).expect("32 bytes suffice");
        let header = Header { alg: Algorithm::Hs256, kid: None, typ: None };
        let count = NonZero::new(101).expect("not zero");
        let tokens = sign_all(&key, &header, "{\"exp\":1893456000}", count).expect("signed");
        let distinct: std::collections::HashSet<&str> = tokens.lines().collect();
        assert_eq!((tokens.lines().count(), distinct.len()), (101, 101));
    }
}
