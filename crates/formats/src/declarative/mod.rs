//! `penstock.toml`, the configuration file of a gateway, and the files of plans and applications.
//!
//! `manual.rs` lists every key; unknown keys are rejected with the nearest valid name. Relative
//! paths are joined to the folder of the file.
//!
//! Architecture invariant: no diagnostic contains a secret.

mod api_keys;
mod applications;
mod backend_jwt;
mod control;
mod credentials;
mod issuers;
mod ldap;
mod logins;
mod manual;
mod plans;
mod providers;
mod quotas;
mod render;
mod secret;
mod sections;
mod services;
mod snippets;
mod table;
mod users;
mod vault;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use model::{Diagnostic, Settings, VaultField};

use crate::report::Report;

pub(crate) use applications::sha256;
pub use applications::{
    ApplicationPage, PublishedApplication, PublishedPlan, read_application, read_published,
};
pub(crate) use credentials::{is_framing, is_sound};
pub use manual::{MANUAL, manual_markdown};
pub use plans::{ReadPlans, check_published_plan, read_plans, read_published_plan, shipped};
pub(crate) use plans::{check_name as check_plan, period_of};
pub use render::{ControlPlane, FirstStart, render_default};
pub use services::check_plans as check_service_plans;

/// Reads the configuration file. Relative paths are joined to the folder of `file`. `env` and `read_file` read secrets
/// from an environment variable or a file; the latter's error is for a diagnostic. `vault` returns the values read from
/// Vault. The settings are absent if any diagnostic is an error.
#[must_use]
pub fn read(
    file: &Path,
    text: &str,
    env: &dyn Fn(&str) -> Option<String>,
    read_file: &dyn Fn(&Path) -> Result<Vec<u8>, String>,
    vault: &dyn Fn(&VaultField) -> Option<Vec<u8>>,
) -> (Option<Settings>, Vec<Diagnostic>) {
    let mut report = Report::new(file);
    let folder = file.parent().unwrap_or(Path::new("")).to_owned();
    let outside = Outside { folder, env, read_file, vault, wanted: RefCell::default() };
    let settings = table::parse(text, &mut report)
        .map(|root| sections::settings(&root, text, &outside, &mut report))
        .filter(|_| !report.has_errors());
    (settings, report.finish(file))
}

/// Access to the files, variables and secrets that the file refers to.
struct Outside<'a> {
    /// The folder of the file.
    folder: PathBuf,
    env: &'a dyn Fn(&str) -> Option<String>,
    read_file: &'a dyn Fn(&Path) -> Result<Vec<u8>, String>,
    vault: &'a dyn Fn(&VaultField) -> Option<Vec<u8>>,
    /// The fields in Vault that the file refers to, collected while it is read.
    wanted: RefCell<BTreeSet<VaultField>>,
}

impl Outside<'_> {
    fn path(&self, written: &str) -> PathBuf {
        self.folder.join(written)
    }
}

#[cfg(test)]
mod quota_tests;
#[cfg(test)]
mod tests;
