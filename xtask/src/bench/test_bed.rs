//! The environment shared by all targets: certificate, keys, tokens, bodies, ports, and the backend.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::cells::{self, Cell};
use super::load::LoadTarget;
use super::process::Process;
use crate::shell;
use crate::workspace;

/// The core of the target, and the core shared by generator and backend.
pub(crate) const TARGET_CORE: &str = "1";
pub(crate) const LOAD_CORE: &str = "0";

/// Number of tokens, each with its own `jti`, used in rotation.
pub(crate) const TOKENS: u32 = 4_000;
pub(crate) const ISSUER: &str = "https://bench.example/oauth2/token";
pub(crate) const SCOPE: &str = "orders:write";

/// In the year 2100.
const EXPIRES_S: u64 = 4_102_444_800;

/// Files, and the running backend, which is stopped on drop.
pub(crate) struct TestBed {
    pub(crate) folder: PathBuf,
    pub(crate) penstock: PathBuf,
    pub(crate) certificate: PathBuf,
    pub(crate) certificate_key: PathBuf,
    /// Certificate and key in one file, as HAProxy requires.
    pub(crate) certificate_pair: PathBuf,
    pub(crate) token_public_key: PathBuf,
    pub(crate) token_jwks: PathBuf,
    pub(crate) tokens: PathBuf,
    pub(crate) backend_port: u16,
    backend: Process,
}

impl TestBed {
    /// Creates missing files in `bench/` of cargo's target folder, and starts the backend.
    ///
    /// # Errors
    /// The program has not been built, or openssl fails.
    pub(crate) fn prepare(root: &Path, profile: &str) -> Result<Self, String> {
        let built = workspace::target_dir(root);
        let penstock = built.join(profile).join("penstock");
        if !penstock.is_file() {
            return Err(format!(
                "{} does not exist; run cargo build --profile {profile} --package penstock",
                penstock.display()
            ));
        }
        let folder = built.join("bench");
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let file = |name: &str| folder.join(name);
        make_certificate(&file("tls.crt"), &file("tls.key"), &file("tls.pem"))?;
        make_token_key(&file("token.key"), &file("token.pub"), &file("token.jwks"))?;
        make_tokens(&penstock, &file("token.key"), &file("tokens.txt"))?;
        for cell in cells::chosen(None)? {
            make_body(&penstock, &body_file(&folder, &cell), cell.body_bytes)?;
        }
        let (backend_port, backend) = start_backend(&penstock, &file("echo.log"))?;
        Ok(Self {
            penstock,
            certificate: file("tls.crt"),
            certificate_key: file("tls.key"),
            certificate_pair: file("tls.pem"),
            token_public_key: file("token.pub"),
            token_jwks: file("token.jwks"),
            tokens: file("tokens.txt"),
            backend_port,
            backend,
            folder,
        })
    }

    pub(crate) fn body(&self, cell: &Cell) -> PathBuf {
        body_file(&self.folder, cell)
    }

    /// The backend itself, without a target in between.
    pub(crate) fn direct(&self) -> LoadTarget {
        let url = format!("http://127.0.0.1:{}/orders", self.backend_port);
        LoadTarget { url, pid: self.backend.pid() }
    }

    /// The first token, for checks.
    pub(crate) fn token(&self) -> Result<String, String> {
        let text = read(&self.tokens)?;
        text.lines()
            .next()
            .map(str::to_owned)
            .ok_or_else(|| "`penstock token sign` printed no token".to_owned())
    }
}

/// Starts a `penstock echo` on the generator's core; returns its port.
///
/// # Errors
/// It exits, or does not listen in time.
pub(crate) fn start_backend(penstock: &Path, log: &Path) -> Result<(u16, Process), String> {
    let port = free_port()?;
    let listen = format!("127.0.0.1:{port}");
    let mut backend = Process::start(LOAD_CORE, penstock, ["echo", "--listen", &listen], log)?;
    backend.wait_for_ports(&[port])?;
    Ok((port, backend))
}

fn body_file(folder: &Path, cell: &Cell) -> PathBuf {
    folder.join(format!("body-{}.json", cell.body()))
}

pub(crate) fn read(file: &Path) -> Result<String, String> {
    fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))
}

pub(crate) fn write(file: &Path, text: &str) -> Result<(), String> {
    fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))
}

/// An unused port of 127.0.0.1.
pub(crate) fn free_port() -> Result<u16, String> {
    TcpListener::bind(("127.0.0.1", 0))
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(|error| format!("no free port: {error}"))
}

fn openssl(arguments: &[&str]) -> Result<String, String> {
    shell::output(Command::new("openssl").args(arguments))
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap_or_default()
}

/// ECDSA P-256, the same for every target.
fn make_certificate(certificate: &Path, key: &Path, pair: &Path) -> Result<(), String> {
    if !pair.is_file() {
        #[rustfmt::skip]
        openssl(&[
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
            "-addext", "basicConstraints=critical,CA:FALSE",
            "-days", "3650", "-keyout", text(key), "-out", text(certificate),
        ])?;
        write(pair, &(read(certificate)? + &read(key)?))?;
    }
    Ok(())
}

/// A 2,048-bit RSA key, with its public key as PEM and as a JWKS.
fn make_token_key(key: &Path, public: &Path, jwks: &Path) -> Result<(), String> {
    if !jwks.is_file() {
        let size = "rsa_keygen_bits:2048";
        openssl(&["genpkey", "-algorithm", "RSA", "-pkeyopt", size, "-out", text(key)])?;
        openssl(&["pkey", "-in", text(key), "-pubout", "-out", text(public)])?;
        let modulus = openssl(&["rsa", "-pubin", "-in", text(public), "-noout", "-modulus"])?;
        let modulus = modulus.trim().strip_prefix("Modulus=").unwrap_or_default();
        let n = base64url(&from_hex(modulus));
        write(
            jwks,
            &format!(
                r#"{{"keys":[{{"kty":"RSA","use":"sig","alg":"RS256","kid":"bench","n":"{n}","e":"AQAB"}}]}}"#
            ),
        )?;
    }
    Ok(())
}

fn make_tokens(penstock: &Path, key: &Path, tokens: &Path) -> Result<(), String> {
    if !tokens.is_file() {
        let claims = format!(
            r#"{{"iss":"{ISSUER}","sub":"bench","aud":"bench","client_id":"bench","scope":"{SCOPE}","exp":{EXPIRES_S}}}"#
        );
        let mut sign = Command::new(penstock);
        sign.args(["token", "sign", "--alg", "RS256", "--kid", "bench", "--claims", &claims])
            .args(["--count", &TOKENS.to_string()])
            .arg("--key")
            .arg(key)
            .arg("--out")
            .arg(tokens);
        shell::output(&mut sign)?;
    }
    Ok(())
}

fn make_body(penstock: &Path, file: &Path, bytes: u32) -> Result<(), String> {
    if !file.is_file() {
        let mut make = Command::new(penstock);
        make.args(["lab", "payload", "--shape", "simple", "--bytes", &bytes.to_string(), "--out"]);
        shell::output(make.arg(file))?;
    }
    Ok(())
}

fn from_hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u32> = digits.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits
        .chunks(2)
        .filter_map(|pair| {
            u8::try_from(pair.iter().fold(0, |value, digit| value * 16 + digit)).ok()
        })
        .collect()
}

/// RFC 4648 section 5, without padding.
fn base64url(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
        let bits = bits << (8 * (3 - group.len()));
        for place in 0..=group.len() {
            let index = bits >> (18 - 6 * place) & 63;
            text.extend(ALPHABET.get(index as usize).map(|letter| char::from(*letter)));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64url_matches_the_vectors_of_the_rfc() {
        let vectors =
            [("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")];
        for (plain, encoded) in vectors {
            assert_eq!(base64url(plain.as_bytes()), encoded);
        }
        assert_eq!(base64url(&from_hex("FBEFFF")), "--__");
    }
}
