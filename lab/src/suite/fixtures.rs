//! Files shared by all targets of a run: a certificate, a signing key, tokens and payloads.
//!
//! Created on demand below the run's `fixtures/` and reused by a resumed run. The keys belong to this run
//! only.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::KeyPair as _;
use base::{Clock, SystemClock};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

use super::scenario::{Scenario, TokenKind, Tokens};
use crate::load::Payload;
use crate::random::SplitMix64;
use crate::target::template::Values;

const ISSUER: &str = "https://localhost:9443/oauth2/token";
const KID: &str = "lab";
/// Claims as in the tokens of WSO2's performance tests; `exp` is in the year 2100.
const CLAIMS: &str = r#"{"iss":"https://localhost:9443/oauth2/token","sub":"admin@carbon.super","aud":"PerformanceTestAPP","azp":"PerformanceTestAPP","client_id":"PerformanceTestAPP","scope":"am_application_scope default","keytype":"PRODUCTION","exp":4102444800}"#;

#[derive(Clone, Debug)]
pub(crate) struct Fixtures {
    folder: PathBuf,
    /// The program used to sign tokens.
    penstock: PathBuf,
    seed: u64,
}

impl Fixtures {
    /// # Errors
    /// The folder cannot be written, or a key cannot be generated.
    pub(crate) fn prepare(folder: PathBuf, penstock: &Path, seed: u64) -> Result<Self, String> {
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let fixtures = Self { folder, penstock: penstock.to_owned(), seed };
        if !fixtures.file("tls.pair").is_file() {
            let now_s = SystemClock::new().now().unix_s;
            let hosts = ["localhost", "127.0.0.1", "::1"];
            let (certificate, key) = wire::tls::generate_self_signed(&hosts, now_s)
                .map_err(|error| format!("cannot generate a certificate: {error}"))?;
            fixtures.keep("tls.crt", certificate.as_bytes())?;
            fixtures.keep("tls.key", key.as_bytes())?;
            fixtures.keep("tls.pair", (certificate + &key).as_bytes())?;
        }
        if !fixtures.file("token.jwks").is_file() {
            fixtures.make_token_key()?;
        }
        Ok(fixtures)
    }

    /// The values of [`crate::target::template::BUILT_IN`] that are the same for the whole run.
    pub(crate) fn values(&self, backend_port: u16) -> Result<Values, String> {
        let path = |name: &str| self.file(name).display().to_string();
        let text = |name: &str| {
            let read = fs::read_to_string(self.file(name));
            read.map_err(|error| format!("{}: {error}", path(name)))
        };
        let pairs = [
            ("penstock", self.penstock.display().to_string()),
            ("backend_port", backend_port.to_string()),
            ("tls_cert", path("tls.crt")),
            ("tls_key", path("tls.key")),
            ("tls_pair", path("tls.pair")),
            ("issuer", ISSUER.to_owned()),
            ("token_public_key", path("token.pub")),
            ("token_public_key_text", text("token.pub")?),
            ("token_jwks", path("token.jwks")),
            ("token_jwks_text", text("token.jwks")?),
        ];
        Ok(pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// The file with the tokens, one per line; created if missing.
    pub(crate) fn tokens(&self, tokens: Tokens) -> Result<PathBuf, String> {
        let kind = match tokens.kind {
            TokenKind::Jwt => "jwt",
            TokenKind::Opaque => "opaque",
        };
        let name = format!("tokens-{kind}-{}.txt", tokens.count);
        let file = self.file(&name);
        if file.is_file() {
            return Ok(file);
        }
        match tokens.kind {
            TokenKind::Jwt => self.sign(tokens.count, &file)?,
            TokenKind::Opaque => self.keep(&name, opaque(self.seed, tokens.count).as_bytes())?,
        }
        Ok(file)
    }

    fn sign(&self, count: u32, file: &Path) -> Result<(), String> {
        let mut sign = Command::new(&self.penstock);
        sign.args(["token", "sign", "--alg", "RS256", "--kid", KID, "--typ", "at+jwt"]);
        sign.args(["--claims", CLAIMS, "--count", &count.to_string(), "--key"]);
        let output = sign.arg(self.file("token.key")).arg("--out").arg(file).output();
        let output = output.map_err(|error| format!("{}: {error}", self.penstock.display()))?;
        if output.status.success() {
            return Ok(());
        }
        Err(format!("cannot sign tokens: {}", String::from_utf8_lossy(&output.stderr)))
    }

    /// The scenario's request body, `bytes` long.
    pub(crate) fn payload(&self, scenario: &Scenario, bytes: u64) -> Result<Payload, String> {
        let bytes = usize::try_from(bytes).map_err(|error| error.to_string())?;
        if let Some(shape) = scenario.payload.shape() {
            return Ok(Payload::Made { shape, bytes });
        }
        let Some(made) = scenario.payload.file(bytes) else { return Ok(Payload::None) };
        let (name, text) = made?;
        if !self.file(&name).is_file() {
            self.keep(&name, text.as_bytes())?;
        }
        Ok(Payload::File(self.file(&name)))
    }

    fn make_token_key(&self) -> Result<(), String> {
        let describe = |_| "cannot generate a signing key".to_owned();
        let pair = KeyPair::generate(KeySize::Rsa2048).map_err(describe)?;
        let private: Pkcs8V1Der<'_> = pair.as_der().map_err(describe)?;
        let public: PublicKeyX509Der<'_> = pair.public_key().as_der().map_err(describe)?;
        let (modulus, exponent) = rsa_numbers(pair.public_key().as_ref())
            .ok_or_else(|| "cannot read the public part of the signing key".to_owned())?;
        self.keep("token.key", pem("PRIVATE KEY", private.as_ref()).as_bytes())?;
        self.keep("token.pub", pem("PUBLIC KEY", public.as_ref()).as_bytes())?;
        let (n, e) = (URL_SAFE_NO_PAD.encode(modulus), URL_SAFE_NO_PAD.encode(exponent));
        let jwks = format!(
            r#"{{"keys":[{{"kty":"RSA","use":"sig","alg":"RS256","kid":"{KID}","n":"{n}","e":"{e}"}}]}}"#
        );
        self.keep("token.jwks", jwks.as_bytes())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Writes a file atomically, readable by the owner only: keys and tokens are among them.
    fn keep(&self, name: &str, bytes: &[u8]) -> Result<(), String> {
        let (file, partial) = (self.file(name), self.file(&format!("{name}.partial")));
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let written = options
            .open(&partial)
            .and_then(|mut open| open.write_all(bytes))
            .and_then(|()| fs::rename(&partial, &file));
        written.map_err(|error| format!("{}: {error}", file.display()))
    }
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let mut lines = format!("-----BEGIN {label}-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(64));
        lines.push_str(line);
        lines.push('\n');
        rest = after;
    }
    lines + &format!("-----END {label}-----\n")
}

/// Modulus and exponent of an `RSAPublicKey` (RFC 8017 appendix A.1.1).
fn rsa_numbers(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (sequence, _) = value_of(der, 0x30)?;
    let (modulus, rest) = value_of(sequence, 0x02)?;
    let (exponent, _) = value_of(rest, 0x02)?;
    let unsigned = |bytes| -> &[u8] { <[u8]>::strip_prefix(bytes, &[0]).unwrap_or(bytes) };
    Some((unsigned(modulus), unsigned(exponent)))
}

/// Content and remainder of the DER value with the given tag.
fn value_of(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&found, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
        (digits.iter().fold(0, |length, &digit| length << 8 | usize::from(digit)), rest)
    };
    (found == tag).then(|| rest.split_at_checked(length)).flatten()
}

/// Tokens of 36 characters; the same seed gives the same tokens.
fn opaque(seed: u64, count: u32) -> String {
    const CHARACTERS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    let mut numbers = SplitMix64(seed);
    let mut character = || {
        let index = usize::try_from(numbers.next() % 36).unwrap_or(0);
        CHARACTERS.get(index).map(|&character| char::from(character))
    };
    let mut text = String::new();
    for _ in 0..count {
        text.extend((0..36).filter_map(|_| character()));
        text.push('\n');
    }
    text
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn opaque_tokens_have_36_characters_and_depend_on_the_seed() {
        let text = opaque(7, 100);
        assert!(text.lines().all(|line| line.len() == 36), "{text}");
        assert_eq!(text.lines().collect::<std::collections::HashSet<_>>().len(), 100);
        assert_eq!((text == opaque(7, 100), text == opaque(8, 100)), (true, false));
    }

    #[test]
    fn the_public_half_of_a_key_is_read() {
        let pair = KeyPair::generate(KeySize::Rsa2048).unwrap();
        let (modulus, exponent) = rsa_numbers(pair.public_key().as_ref()).unwrap();
        assert_eq!((modulus.len(), exponent), (256, [1, 0, 1].as_slice()));
        assert!(rsa_numbers(&[0x30, 0x82]).is_none() && rsa_numbers(&[]).is_none());
    }
}
