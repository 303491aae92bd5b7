//! The https listener's certificates: from files, or made here and kept in the data folder.

use std::fs;
use std::path::{Path, PathBuf};

use base::Now;
use model::{CertificateFiles, Diagnostic, Severity, TlsSettings};
use wire::tls::{CertificateSet, Lapse, generate_self_signed};

use crate::documents::read_up_to;
use crate::keep::{keep_private, keep_public};

/// A PEM file may hold a chain and comments, and is still small.
const PEM_BYTES_MAX: u64 = 1 << 20;
/// Whom a generated certificate speaks for.
const GENERATED_HOSTS: &[&str] = &["localhost", "127.0.0.1", "::1"];

/// Reads every pair, makes the default one where none is configured, and answers warnings with it.
///
/// # Errors
/// What is wrong, by file. Then nothing is to be changed.
pub(crate) fn load(
    settings: &TlsSettings,
    data: &Path,
    now: Now,
) -> Result<(CertificateSet, Vec<Diagnostic>), Diagnostic> {
    let (cert, key, shown) = match &settings.default {
        Some(files) => (pem(&files.cert)?, pem(&files.key)?, files.cert.clone()),
        None => {
            let files = generated(data);
            let (cert, key) = kept_or_made(&files, now)?;
            (cert, key, files.cert)
        }
    };
    let mut sni = Vec::new();
    for pair in &settings.sni {
        sni.push((pair.hosts.clone(), pem(&pair.files.cert)?, pem(&pair.files.key)?));
    }
    let set = CertificateSet::load(Some((&cert, &key)), sni)
        .map_err(|error| finding(&shown, Severity::Error, error.to_string()))?;
    let lapses = set.lapses(now.unix_s);
    let warnings = lapses.into_iter().map(|(pair, lapse)| {
        let when = match lapse {
            Lapse::NotYet { .. } => "is not valid yet",
            Lapse::Expired { .. } => "has expired",
        };
        finding(&shown, Severity::Warning, format!("the certificate of `{pair}` {when}"))
    });
    let warnings = warnings.collect();
    Ok((set, warnings))
}

/// What is wrong with the pairs that are configured. Makes none.
pub(crate) fn check(settings: &TlsSettings, now: Now) -> Vec<Diagnostic> {
    let mut settings = settings.clone();
    if settings.default.is_none() {
        // Any pair may stand for the generated one.
        let Some(pair) = settings.sni.first() else { return Vec::new() };
        settings.default = Some(pair.files.clone());
    }
    match load(&settings, Path::new(""), now) {
        Ok((_, warnings)) => warnings,
        Err(problem) => vec![problem],
    }
}

/// The files that [`load`] reads.
pub(crate) fn files(settings: &TlsSettings, data: &Path) -> Vec<PathBuf> {
    let default = settings.default.clone().unwrap_or_else(|| generated(data));
    let pairs = std::iter::once(&default).chain(settings.sni.iter().map(|pair| &pair.files));
    pairs.flat_map(|pair| [pair.cert.clone(), pair.key.clone()]).collect()
}

fn generated(data: &Path) -> CertificateFiles {
    CertificateFiles { cert: data.join("tls.crt"), key: data.join("tls.key") }
}

/// The pair of an earlier start, so that clients who trust it go on doing so; a new one when there is
/// none or its time is over.
fn kept_or_made(files: &CertificateFiles, now: Now) -> Result<(Vec<u8>, Vec<u8>), Diagnostic> {
    if files.cert.exists() && files.key.exists() {
        let (cert, key) = (pem(&files.cert)?, pem(&files.key)?);
        let kept = CertificateSet::load(Some((&cert, &key)), Vec::new());
        let lapsed = kept.as_ref().is_ok_and(|set| !set.lapses(now.unix_s).is_empty());
        if !lapsed {
            // A broken one is told by the caller: it may be an operator's.
            return Ok((cert, key));
        }
    }
    let told = |file: &Path, problem: String| finding(file, Severity::Error, problem);
    let (cert, key) = generate_self_signed(GENERATED_HOSTS, now.unix_s)
        .map_err(|error| told(&files.cert, error.to_string()))?;
    let unkept = |file: &Path, error: std::io::Error| {
        told(file, format!("the generated certificate cannot be kept: {error}"))
    };
    if let Some(data) = files.key.parent() {
        fs::create_dir_all(data).map_err(|error| unkept(data, error))?;
    }
    keep_private(&files.key, key.as_bytes()).map_err(|error| unkept(&files.key, error))?;
    keep_public(&files.cert, cert.as_bytes()).map_err(|error| unkept(&files.cert, error))?;
    tracing::info!(cert = %files.cert.display(), "made a certificate for localhost");
    Ok((cert.into_bytes(), key.into_bytes()))
}

fn pem(file: &Path) -> Result<Vec<u8>, Diagnostic> {
    let read = read_up_to(file, PEM_BYTES_MAX);
    read.map(|(bytes, _)| bytes).map_err(|problem| finding(file, Severity::Error, problem))
}

fn finding(file: &Path, severity: Severity, message: String) -> Diagnostic {
    let help = match severity {
        Severity::Error => Some("while it runs, the gateway goes on with the former certificates"),
        Severity::Warning => Some("replace the files: they are read again at once"),
    };
    Diagnostic {
        severity,
        file: file.to_owned(),
        place: None,
        message,
        help: help.map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot make its files has failed")]

    use super::*;

    const YEAR_S: u64 = 366 * 86_400;
    const NOW_S: u64 = 1_790_000_000;

    #[test]
    fn a_generated_pair_is_kept_until_it_expires() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let settings = TlsSettings::default();
        let read = |unix_s| {
            load(&settings, &data, Now { unix_s, mono_us: 0 }).unwrap();
            fs::read(data.join("tls.crt")).unwrap()
        };
        let first = read(NOW_S);
        assert_eq!(first, read(NOW_S + 3_600), "kept");
        assert_ne!(first, read(NOW_S + YEAR_S), "its time is over");
    }

    #[test]
    fn a_pair_that_does_not_belong_together_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let made = |name: &str| {
            let (cert, key) = generate_self_signed(&["localhost"], NOW_S).unwrap();
            let files = CertificateFiles {
                cert: folder.path().join(format!("{name}.crt")),
                key: folder.path().join(format!("{name}.key")),
            };
            fs::write(&files.cert, cert).unwrap();
            fs::write(&files.key, key).unwrap();
            files
        };
        let (one, two) = (made("one"), made("two"));
        let mixed = CertificateFiles { cert: one.cert, key: two.key };
        let settings = TlsSettings { default: Some(mixed), sni: Vec::new() };
        let refused = load(&settings, folder.path(), Now { unix_s: NOW_S, mono_us: 0 });
        let refused = refused.err().unwrap();
        assert_eq!(refused.message, "key and certificate of `default` do not match");
    }

    #[test]
    fn a_data_folder_that_cannot_be_written_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let refused = load(&TlsSettings::default(), &file.join("data"), Now::default());
        let refused = refused.err().unwrap();
        assert_eq!(refused.file, file.join("data"));
        assert!(refused.message.starts_with("the generated certificate cannot be kept: "));
    }
}
