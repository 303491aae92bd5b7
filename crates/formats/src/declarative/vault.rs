//! `[vault]`: the server of secrets that are neither in files nor in the environment.

use base::limits;
use model::{VaultLogin, VaultSettings};

use super::issuers::{fetched_safely, required};
use super::table::Table;
use super::{Outside, secret};
use crate::report::Report;

/// The file in which Kubernetes provides the token of a pod's service account.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

/// Reads the section. To be called after everything that can refer to Vault was read.
pub(super) fn read(
    table: &Table<'_>,
    outside: &Outside<'_>,
    report: &mut Report,
) -> Option<VaultSettings> {
    let wanted: Vec<_> = outside.wanted.take().into_iter().collect();
    if !table.is_present() {
        if let Some(first) = wanted.first() {
            let message =
                format!("`{}#{}` is in Vault, and there is no [vault]", first.path, first.field);
            report.error(None, message, "add [vault] with `url` and a way to log in");
        }
        return None;
    }
    let mut paths: Vec<&str> = wanted.iter().map(|one| one.path.as_str()).collect();
    paths.dedup();
    if paths.len() > limits::VAULT_PATHS_MAX {
        let most = limits::VAULT_PATHS_MAX;
        let message = format!("{} paths in Vault; the limit is {most}", paths.len());
        report.error(table.place, message, "keep several fields under one path");
    }
    let login = login(table, outside, report);
    let refresh_s = table.number("refresh_s", 1..=limits::VAULT_REFRESH_S_MAX, report);
    let namespace = table.text("namespace", report);
    if let Some((name, place)) = namespace
        && !name.bytes().all(|byte| byte.is_ascii_graphic())
    {
        report.error(place, "a namespace has no spaces", "write it as in \"team-a/\"");
    }
    let (url, place) = required(table, "url", report)?;
    let is_safe = fetched_safely(url, place, "secrets sent", report);
    if url.contains(['?', '#']) || !url.bytes().all(|byte| byte.is_ascii_graphic()) {
        report.error(place, "not the address of a server", "write it as for VAULT_ADDR");
    }
    let settings = VaultSettings {
        url: url.trim_end_matches('/').to_owned(),
        namespace: namespace.map(|(name, _)| name.to_owned()),
        login: login?,
        refresh_s: refresh_s.unwrap_or(limits::VAULT_REFRESH_S),
        wanted,
    };
    is_safe.then_some(settings)
}

fn login(table: &Table<'_>, outside: &Outside<'_>, report: &mut Report) -> Option<VaultLogin> {
    let token = secret::read(table, "token", "vault.token", outside, report);
    let role = table.section("approle", "vault.approle", report);
    let pod = table.section("kubernetes", "vault.kubernetes", report);
    let is_present = |key: &&&str| table.get(key).is_some();
    if ["token", "approle", "kubernetes"].iter().filter(is_present).count() != 1 {
        let message = "[vault] needs exactly one of `token`, `approle` and `kubernetes`";
        let help = "write token = { file = \"path\" }, for example";
        return report.reject(table.place, message, help);
    }
    if token.is_some() {
        return sendable(token, table, "token", report).map(VaultLogin::Token);
    }
    if role.is_present() {
        const SECRET: &str = "vault.approle.secret_id";
        let secret_id = secret::read(&role, "secret_id", SECRET, outside, report);
        let role_id = required(&role, "role_id", report).map(|(id, _)| id.to_owned());
        if role.get("secret_id").is_none() {
            report.error(role.place, "`approle` has no `secret_id`", "add `secret_id`");
        }
        let secret_id = sendable(secret_id, &role, "secret_id", report)?;
        let mount = mount(&role, "approle", report);
        return Some(VaultLogin::AppRole { mount, role_id: role_id?, secret_id });
    }
    if !pod.is_present() {
        return None;
    }
    let name = required(&pod, "role", report).map(|(role, _)| role.to_owned());
    let (file, place) = pod.text("file", report).unwrap_or((SERVICE_ACCOUNT, pod.place?));
    let jwt = match (outside.read_file)(&outside.path(file)) {
        Ok(jwt) => Some(jwt.trim_ascii().to_vec()),
        Err(error) => {
            let message = format!("the token of the service account: {error}");
            report.reject(place, message, "run in Kubernetes, or write `file`")
        }
    };
    let jwt = sendable(jwt, &pod, "file", report)?;
    let mount = mount(&pod, "kubernetes", report);
    Some(VaultLogin::Kubernetes { mount, role: name?, jwt })
}

/// A secret that can be sent unescaped in a header field and in JSON.
fn sendable(
    secret: Option<Vec<u8>>,
    table: &Table<'_>,
    key: &str,
    report: &mut Report,
) -> Option<Vec<u8>> {
    let secret = secret?;
    let is_sendable = !secret.is_empty() && secret.iter().all(u8::is_ascii_graphic);
    if !is_sendable {
        let place = table.get(key).map_or(table.place, |item| Some(item.place));
        let message = format!("`{key}` is empty, or has spaces or control characters");
        report.error(place, message, "correct the file or variable that has it");
    }
    is_sendable.then_some(secret)
}

/// The path at which the method is enabled.
fn mount(table: &Table<'_>, default: &str, report: &mut Report) -> String {
    let Some((mount, place)) = table.text("mount", report) else { return default.to_owned() };
    let mount = mount.trim_matches('/');
    let is_part =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/');
    if !mount.bytes().all(is_part) || mount.split('/').any(|part| matches!(part, "" | "." | "..")) {
        report.error(place, "not a path of a method of authentication", "write its path in Vault");
    }
    mount.to_owned()
}
