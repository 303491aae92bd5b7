//! Reads `penstock.toml`, and finds changes that need a restart.

use std::cell::{OnceCell, RefCell};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{Now, limits};
use formats::declarative::{self, ReadPlans};
use formats::openapi::Defaults;
use formats::snapshot::{self, Kind};
use model::{Diagnostic, KeySource, PlanFiles, PlanText, Plans, Settings, Severity, VaultField};

use crate::documents::{read_bounded, read_keys, read_up_to};
use crate::snapshots::{self, Newest};
use crate::walk::{self, Version};
use crate::{certificates, issuers, session_key};

/// The configuration is not valid.
#[derive(Debug, thiserror::Error)]
#[error("{}", .diagnostics.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct ConfigurationError {
    /// The diagnostics, never empty.
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads and checks the configuration file. Returns the settings and warnings. Secrets in Vault are not read.
///
/// # Errors
/// All errors in the file.
pub fn read_settings(file: &Path) -> Result<(Settings, Vec<Diagnostic>), ConfigurationError> {
    read_with_secrets(file, &mut Secrets::new(), session_key::find, &|_| None, &|_, _| None)
}

/// As [`read_settings`] for a gateway that is to be started. The session key is generated if there is none. Plans whose
/// file cannot be read are taken from the newest undamaged snapshot.
///
/// # Errors
/// All errors in the file, or the failure to write the key.
pub fn read_settings_to_serve(
    file: &Path,
) -> Result<(Settings, Vec<Diagnostic>), ConfigurationError> {
    let newest = OnceCell::new();
    let saved = |settings: &Settings, plans: &Path| {
        let folder = settings.snapshot.as_deref()?;
        let newest: &Newest = newest.get_or_init(|| snapshots::newest(folder));
        saved_plans(&newest.whole.as_ref()?.1, plans)
    };
    let key = session_key::find_or_generate;
    let read = read_with_secrets(file, &mut Secrets::new(), key, &|_| None, &saved);
    let read = read.and_then(|(settings, warnings)| {
        let bytes = newest.get().and_then(|newest| Some(newest.whole.as_ref()?.1.as_slice()));
        let files = settings.gateway.plans.files.iter();
        let lost = files.filter(|file| {
            walk::version(file).is_none() && bytes.is_some_and(|bytes| lacks_plans(bytes, file))
        });
        let diagnostics: Vec<_> = lost.map(|file| lost_plans(file)).collect();
        if diagnostics.is_empty() {
            Ok((settings, warnings))
        } else {
            Err(ConfigurationError { diagnostics })
        }
    });
    let unusable = newest.into_inner().map(|newest| newest.unusable).unwrap_or_default();
    match read {
        Ok((settings, mut warnings)) => {
            warnings.extend(unusable);
            Ok((settings, warnings))
        }
        Err(mut error) => {
            error.diagnostics.extend(unusable);
            Err(error)
        }
    }
}

/// The text of a plan file in the bytes of a snapshot.
fn saved_plans(bytes: &[u8], file: &Path) -> Option<Vec<u8>> {
    let (saved, name) = (snapshot::read(bytes).ok()?, snapshots::name(file));
    let mut records = saved.records.iter();
    let found = records.find(|record| record.kind == Kind::Plans && record.name == name);
    found.map(|record| record.text.to_vec())
}

/// Whether a snapshot is from a gateway that used this plan file, but whose version did not save its text.
fn lacks_plans(bytes: &[u8], file: &Path) -> bool {
    let (Ok(saved), name) = (snapshot::read(bytes), snapshots::name(file)) else { return false };
    let has = |kind| saved.records.iter().any(|one| one.kind == kind && one.name == name);
    has(Kind::Root) && !has(Kind::Plans)
}

fn lost_plans(file: &Path) -> Diagnostic {
    Diagnostic {
        severity: Severity::Error,
        file: file.to_owned(),
        place: None,
        message: "does not exist, but was in use when the newest snapshot was written".to_owned(),
        help: Some("restore it; to do without it, write `plans = []` in [gateway]".into()),
    }
}

/// The files of secrets and plans, with their versions before reading.
pub(crate) type Secrets = Vec<(PathBuf, Option<Version>)>;

/// Returns the saved text of a plan file that cannot be read, if there is one.
pub(crate) type SavedPlans<'a> = dyn Fn(&Settings, &Path) -> Option<Vec<u8>> + 'a;

/// As [`read_settings`], with the session key that `session_key` finds in the data folder, and the secrets that `vault`
/// returns. Adds the files of secrets and plans to `secrets`.
pub(crate) fn read_with_secrets(
    file: &Path,
    secrets: &mut Secrets,
    session_key: fn(&Path) -> Result<Vec<u8>, String>,
    vault: &dyn Fn(&VaultField) -> Option<Vec<u8>>,
    saved_plans: &SavedPlans<'_>,
) -> Result<(Settings, Vec<Diagnostic>), ConfigurationError> {
    let secrets = RefCell::new(secrets);
    let whole = |message: String| ConfigurationError {
        diagnostics: vec![Diagnostic {
            severity: Severity::Error,
            file: file.to_owned(),
            place: None,
            message,
            help: None,
        }],
    };
    let bytes = read_bounded(file).map_err(whole)?;
    let text = String::from_utf8(bytes).map_err(|_| whole("the file is not UTF-8".to_owned()))?;
    let env = |name: &str| std::env::var(name).ok();
    let secret = |file: &Path| {
        secrets.borrow_mut().push((file.to_owned(), walk::version(file)));
        read_up_to(file, limits::SECRET_BYTES_MAX).map(|(bytes, _)| bytes)
    };
    let (settings, mut diagnostics) = declarative::read(file, &text, &env, &secret, vault);
    let Some(mut settings) = settings else { return Err(ConfigurationError { diagnostics }) };
    if settings.logins.iter().any(|login| login.key.is_empty()) {
        let key = session_key(&settings.gateway.data).map_err(whole)?;
        for login in settings.logins.iter_mut().filter(|login| login.key.is_empty()) {
            Arc::make_mut(login).key.clone_from(&key);
        }
    }
    let saved = |file: &Path| saved_plans(&settings, file);
    let mut of_files = settings.gateway.plans.clone();
    let (plans, found) = read_plans(&mut of_files, &mut secrets.borrow_mut(), saved);
    settings.gateway.plans = of_files;
    let is_valid = found.iter().all(|one| one.severity != Severity::Error);
    diagnostics.extend(found);
    settings.plans = plans;
    // Plans of a control plane are not known yet.
    let found = match settings.gateway.control_plane {
        None => {
            declarative::check_service_plans(&settings.integration.rules.services, &settings.plans)
        }
        Some(_) => Vec::new(),
    };
    let is_valid = is_valid && found.is_empty();
    diagnostics.extend(found);
    if is_valid { Ok((settings, diagnostics)) } else { Err(ConfigurationError { diagnostics }) }
}

/// Reads plan files, and adds them to `versions`. For a file that cannot be read, the text from `saved` is used.
fn read_plans(
    plans: &mut PlanFiles,
    versions: &mut Secrets,
    saved: impl Fn(&Path) -> Option<Vec<u8>>,
) -> (Plans, Vec<Diagnostic>) {
    let (mut files, mut restored) = (Vec::new(), Vec::new());
    for file in &plans.files {
        let version = walk::version(file);
        versions.push((file.clone(), version));
        let mut read = read_bounded(file);
        if let Err(problem) = &read
            && let Some(text) = saved(file)
        {
            restored.push(Diagnostic {
                severity: Severity::Warning,
                file: file.clone(),
                place: None,
                message: format!("{problem}; its plans are those of the snapshot on disk"),
                help: Some("restore it; to do without it, write `plans = []` in [gateway]".into()),
            });
            read = Ok(text);
        } else if !plans.required && version.is_none() {
            continue;
        }
        files.push((file.clone(), read));
    }
    let ReadPlans { plans: found, owners, mut diagnostics } = declarative::read_plans(&files);
    let is_restored = |file: &Path| restored.iter().any(|one| one.file == file);
    let texts = files.into_iter().filter_map(|(file, read)| {
        Some(PlanText { is_restored: is_restored(&file), text: read.ok()?, file })
    });
    (plans.texts, plans.owners) = (texts.collect(), owners);
    diagnostics.extend(restored);
    (found, diagnostics)
}

/// Reads a file with certificates, of up to `PEM_BYTES_MAX`. The error is for a message.
///
/// # Errors
/// The file cannot be read, or is too large.
pub fn read_pem(file: &Path) -> Result<Vec<u8>, String> {
    read_up_to(file, limits::PEM_BYTES_MAX).map(|(bytes, _)| bytes)
}

/// The diagnostics of the keys and certificates that the settings refer to.
#[must_use]
pub fn check_settings(settings: &Settings, now: Now) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for issuer in &settings.issuers {
        let text = match &issuer.keys {
            KeySource::JwksFile(file) | KeySource::Pem(file) => read_keys(file),
            KeySource::Secret(secret) => Ok(secret.clone()),
            KeySource::JwksUrl(_) | KeySource::Discovery(_) | KeySource::Absent => continue,
        };
        let problem = text.map(|text| issuers::problem(issuer, &text)).unwrap_or_else(Some);
        found.extend(
            problem.map(|problem| issuers::diagnostic(&issuer.name, &issuer.keys, &problem)),
        );
    }
    if settings.has_https() {
        found.extend(certificates::check(&settings.tls, now));
    }
    found
}

/// The settings that apply to every API.
#[must_use]
pub fn defaults(settings: &Settings) -> Defaults {
    Defaults {
        response_head_ms: settings.gateway.response_head_ms,
        try_ms: settings.gateway.try_ms,
        retry_budget_percent: settings.gateway.retry_budget_percent,
        issuers_configured: !settings.issuers.is_empty(),
        applications_configured: settings.has_applications(),
        credentials: settings.credentials.iter().map(|(name, _)| name.clone()).collect(),
        of_one_endpoint: (settings.credentials.iter())
            .filter(|(_, of)| of.is_of_one_endpoint())
            .map(|(name, _)| name.clone())
            .collect(),
        logins: settings.logins.iter().map(|login| login.name.clone()).collect(),
        users_configured: settings.has_users(),
        strict_paths: settings.gateway.strict_paths,
        plans: settings.plans.names().cloned().collect(),
    }
}

/// The parent folders of the roots, which are watched for roots that are replaced or created later.
pub(crate) fn parents(roots: &[PathBuf]) -> Vec<PathBuf> {
    let parents = roots.iter().filter_map(|root| root.parent());
    parents
        .map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder })
        .map(Path::to_owned)
        .collect()
}

/// The changed keys that take effect only after a restart.
pub(crate) fn restart_needed(before: &Settings, after: &Settings) -> Vec<&'static str> {
    let (old, new) = (&before.gateway, &after.gateway);
    let changes = [
        ("[gateway] http", old.http != new.http),
        ("[gateway] https", old.https != new.https),
        ("[gateway] http2", old.http2 != new.http2),
        ("[gateway] workers", old.workers != new.workers),
        ("[integration] http", before.integration.http != after.integration.http),
        ("[integration] https", before.integration.https != after.integration.https),
        ("[gateway] nameservers", old.nameservers != new.nameservers),
        ("[gateway] data", old.data != new.data),
        ("[tls] client_ca", before.tls.clients != after.tls.clients),
        ("[admin] listen", before.admin != after.admin),
        ("[access_log]", before.access_log != after.access_log),
        ("[log]", before.log != after.log),
        ("[control]", before.control != after.control),
        ("[quotas]", before.quotas != after.quotas),
        ("[snapshot]", before.snapshot != after.snapshot),
    ];
    changes.into_iter().filter(|(_, changed)| *changed).map(|(key, _)| key).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot make its files has failed")]

    use base::{Clock, SystemClock};

    use super::*;

    #[test]
    fn a_file_of_plans_that_was_in_use_is_missed_unless_the_snapshot_has_its_plans() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("penstock.toml");
        let plans = folder.path().join("plans.toml");
        let (name, tiny) = (snapshots::name(&plans), b"[[plan]]\nname = \"Tiny\"\n");
        let toml = "[gateway]\nhttp = \"127.0.0.1:1\"\n[snapshot]\ndirectory = \"snapshots\"\n";
        std::fs::write(&file, toml).unwrap();
        std::fs::create_dir(folder.path().join("snapshots")).unwrap();
        // An older version saved the names of plan files, but not their texts.
        for (kinds, expect) in [
            (&[][..], "none"),
            (&[Kind::Root], "plans.toml: error: does not exist, but was in use"),
            (&[Kind::Root, Kind::Plans], "Tiny"),
        ] {
            let mut writer = snapshot::Writer::new(Vec::new(), 0).unwrap();
            for kind in kinds {
                let text = if *kind == Kind::Plans { &tiny[..] } else { b"1 2" };
                writer.add(&snapshot::Record { kind: *kind, name: &name, text }).unwrap();
            }
            let newest = folder.path().join("snapshots/snapshot-0000000000000001");
            std::fs::write(newest, writer.finish().unwrap()).unwrap();
            let found = match read_settings_to_serve(&file) {
                Ok((settings, _)) => {
                    let plan = settings.plans.get("tiny").map(|plan| plan.name.clone());
                    plan.unwrap_or_else(|| "none".to_owned())
                }
                Err(error) => error.to_string(),
            };
            assert!(found.contains(expect), "{found} instead of {expect}");
            // A file that exists takes precedence.
            std::fs::write(&plans, "[[plan]]\nname = \"tiny\"\n").unwrap();
            let (settings, _) = read_settings_to_serve(&file).unwrap();
            assert_eq!(settings.plans.get("Tiny").unwrap().name, "tiny");
            std::fs::remove_file(&plans).unwrap();
        }
    }

    #[test]
    fn certificates_are_checked_for_every_https_listener() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("penstock.toml");
        let tls = "[tls]\ncert = \"absent.crt\"\nkey = \"absent.key\"\n";
        for (section, checked) in [
            ("[gateway]\nhttps = \"127.0.0.1:1\"\n", true),
            ("[integration]\nhttps = \"127.0.0.1:1\"\n", true),
            ("[integration]\nhttp = \"127.0.0.1:1\"\n", false),
        ] {
            std::fs::write(&file, format!("{section}{tls}")).unwrap();
            let (settings, _) = read_settings(&file).unwrap();
            let found = check_settings(&settings, SystemClock::new().now());
            let shown: Vec<_> = found.iter().map(ToString::to_string).collect();
            assert_eq!(shown.iter().any(|one| one.contains("absent.crt")), checked, "{shown:?}");
        }
    }
}
