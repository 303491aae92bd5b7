//! The certificates of the https listener: from files, or generated and kept in the data folder.

use std::fs;
use std::path::{Path, PathBuf};

use base::Now;
use model::{CertificateFiles, Diagnostic, Severity, TlsSettings};
use wire::tls::{CertificateSet, Lapse, generate_self_signed};

use crate::documents::read_up_to;
use crate::write::{write_private, write_public};

/// Enough for a chain with comments.
const PEM_BYTES_MAX: u64 = 1 << 20;
/// The hosts of a generated certificate.
const GENERATED_HOSTS: &[&str] = &["localhost", "127.0.0.1", "::1"];

/// Reads every pair, and generates the default one if none is configured. Returns warnings as well.
///
/// # Errors
/// The first problem. The caller keeps the certificates in use.
pub(crate) fn load(
    settings: &TlsSettings,
    data: &Path,
    now: Now,
) -> Result<(CertificateSet, Vec<Diagnostic>), Diagnostic> {
    let (cert, key, shown) = match &settings.default {
        Some(files) => (pem(&files.cert)?, pem(&files.key)?, files.cert.clone()),
        None => {
            let files = generated(data);
            let (cert, key) = load_or_generate(&files, now)?;
            (cert, key, files.cert)
        }
    };
    let mut sni = Vec::new();
    for pair in &settings.sni {
        sni.push((pair.hosts.clone(), pem(&pair.files.cert)?, pem(&pair.files.key)?));
    }
    let set = CertificateSet::load(Some((&cert, &key)), sni)
        .map_err(|error| diagnostic(&shown, Severity::Error, error.to_string()))?;
    let lapses = set.lapses(now.unix_s);
    let warnings = lapses.into_iter().map(|(pair, lapse)| {
        let when = match lapse {
            Lapse::NotYet { .. } => "is not valid yet",
            Lapse::Expired { .. } => "has expired",
        };
        diagnostic(&shown, Severity::Warning, format!("the certificate of `{pair}` {when}"))
    });
    let warnings = warnings.collect();
    Ok((set, warnings))
}

/// The diagnostics of the configured pairs. Generates none.
pub(crate) fn check(settings: &TlsSettings, now: Now) -> Vec<Diagnostic> {
    let mut settings = settings.clone();
    if settings.default.is_none() {
        // Any pair can take the place of the generated one.
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

/// The pair of an earlier start, so that clients can keep trusting it; a new one if there is none
/// or it is not valid now (expired, or not valid yet).
fn load_or_generate(files: &CertificateFiles, now: Now) -> Result<(Vec<u8>, Vec<u8>), Diagnostic> {
    if files.cert.exists() && files.key.exists() {
        let (cert, key) = (pem(&files.cert)?, pem(&files.key)?);
        let kept = CertificateSet::load(Some((&cert, &key)), Vec::new());
        let lapsed = kept.as_ref().is_ok_and(|set| !set.lapses(now.unix_s).is_empty());
        if !lapsed {
            // An invalid one is not replaced, since it may be an operator's: `load` reports it.
            return Ok((cert, key));
        }
    }
    let error = |file: &Path, problem: String| diagnostic(file, Severity::Error, problem);
    let (cert, key) = generate_self_signed(GENERATED_HOSTS, now.unix_s)
        .map_err(|cause| error(&files.cert, cause.to_string()))?;
    let not_written = |file: &Path, cause: std::io::Error| {
        error(file, format!("cannot write the generated certificate: {cause}"))
    };
    if let Some(data) = files.key.parent() {
        fs::create_dir_all(data).map_err(|cause| not_written(data, cause))?;
    }
    write_private(&files.key, key.as_bytes()).map_err(|cause| not_written(&files.key, cause))?;
    write_public(&files.cert, cert.as_bytes()).map_err(|cause| not_written(&files.cert, cause))?;
    tracing::info!(cert = %files.cert.display(), "generated a certificate for localhost");
    Ok((cert.into_bytes(), key.into_bytes()))
}

fn pem(file: &Path) -> Result<Vec<u8>, Diagnostic> {
    let read = read_up_to(file, PEM_BYTES_MAX);
    read.map(|(bytes, _)| bytes).map_err(|problem| diagnostic(file, Severity::Error, problem))
}

fn diagnostic(file: &Path, severity: Severity, message: String) -> Diagnostic {
    let help = match severity {
        Severity::Error => {
            Some("correct the files; until then a running gateway uses the previous certificates")
        }
        Severity::Warning => Some("replace the files; they are reloaded immediately"),
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
        assert_ne!(first, read(NOW_S + YEAR_S), "expired");
    }

    #[test]
    fn a_key_of_another_certificate_is_rejected() {
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
        let rejected = load(&settings, folder.path(), Now { unix_s: NOW_S, mono_us: 0 });
        let rejected = rejected.err().unwrap();
        assert!(rejected.message.contains("`default`"), "{rejected}");
    }

    #[test]
    fn a_data_folder_that_cannot_be_written_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let rejected = load(&TlsSettings::default(), &file.join("data"), Now::default());
        let rejected = rejected.err().unwrap();
        assert_eq!(rejected.file, file.join("data"));
        assert!(rejected.message.contains("cannot write"), "{rejected}");
    }
}
