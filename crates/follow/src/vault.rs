//! Secrets in HashiCorp Vault: their values, the schedule of reading them, and a round of requests.
//!
//! A token is renewed, and a secret with a lease is read again, after two thirds of its time; other secrets every
//! `refresh_s`. The last values stay in use if Vault or the secret becomes unavailable.
//!
//! Architecture invariant: no files, sockets or clock: times are arguments, and requests are sent by a function.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{Now, limits};
use formats::vault::{self, Secret, Token};
use model::{VaultField, VaultLogin, VaultRequest, VaultSettings};

/// Sends a request to Vault, with a token. Returns status and body. Blocks, within its own limits.
pub type AskVault = Arc<
    dyn Fn(&VaultSettings, &VaultRequest, Option<&str>) -> Result<(u16, Vec<u8>), String>
        + Send
        + Sync,
>;

/// The secrets and the session at Vault.
#[derive(Default)]
pub(crate) struct Vault {
    settings: Option<VaultSettings>,
    session: Option<Session>,
    /// Secrets by path.
    secrets: BTreeMap<String, Known>,
    is_asking: bool,
    has_asked: bool,
    failures: u32,
    /// Time from which a round may begin after a failed one, in microseconds.
    retry_us: u64,
}

#[derive(Clone)]
struct Session {
    token: Token,
    /// The initial lifetime, in seconds.
    first_s: u64,
    /// Time at which the token is to be renewed, in microseconds.
    renew_us: u64,
}

#[derive(Default)]
struct Known {
    fields: BTreeMap<String, Vec<u8>>,
    due_us: u64,
}

/// A round of requests.
pub(crate) struct Job {
    settings: VaultSettings,
    session: Option<Session>,
    renew: bool,
    paths: Vec<String>,
}

impl Job {
    /// The outcome of a round that cannot be performed.
    pub(crate) fn failed(&self, problem: String) -> Outcome {
        let settings = self.settings.clone();
        Outcome { settings, token: None, is_out: false, read: Vec::new(), problem: Some(problem) }
    }
}

/// The outcome of a round.
pub(crate) struct Outcome {
    settings: VaultSettings,
    /// A token that was obtained, looked up or renewed.
    token: Option<Token>,
    /// Whether no token works.
    is_out: bool,
    read: Vec<(String, Result<Secret, String>)>,
    problem: Option<String>,
}

/// Secrets are never printed.
impl std::fmt::Debug for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outcome").field("problem", &self.problem).finish_non_exhaustive()
    }
}

/// The effect of a round.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Concluded {
    /// Whether any secret has changed.
    pub(crate) changed: bool,
    /// Problems, for diagnostics.
    pub(crate) problems: Vec<String>,
}

impl Vault {
    /// Applies the settings. Known secrets stay in use.
    pub(crate) fn configure(&mut self, settings: Option<&VaultSettings>) {
        let logins = |of: &VaultSettings| (of.url.clone(), of.namespace.clone(), of.login.clone());
        if self.settings.as_ref().map(logins) != settings.map(logins) {
            self.session = None;
        }
        self.retry_us = 0;
        self.settings = settings.cloned();
        let wanted = settings.map(|settings| settings.wanted.as_slice()).unwrap_or_default();
        self.secrets.retain(|path, _| wanted.iter().any(|one| one.path == *path));
        for VaultField { path, field } in wanted {
            let known = self.secrets.entry(path.clone()).or_default();
            if !known.fields.contains_key(field) {
                known.due_us = 0;
            }
        }
    }

    /// The value of a field, as last read.
    pub(crate) fn find(&self, wanted: &VaultField) -> Option<Vec<u8>> {
        self.secrets.get(&wanted.path)?.fields.get(&wanted.field).cloned()
    }

    /// Whether the first round is in progress.
    pub(crate) fn is_first(&self) -> bool {
        self.is_asking && !self.has_asked
    }

    pub(crate) fn next_us(&self) -> Option<u64> {
        if self.is_asking || self.secrets.is_empty() {
            return None;
        }
        let renew_us = self.session.as_ref().map(|session| session.renew_us);
        let due_us = self.secrets.values().map(|known| known.due_us).chain(renew_us).min();
        Some(due_us?.max(self.retry_us))
    }

    /// The round that is due.
    pub(crate) fn pop_due(&mut self, now_us: u64) -> Option<Job> {
        self.next_us().filter(|next_us| *next_us <= now_us)?;
        let settings = self.settings.clone()?;
        self.is_asking = true;
        let due = self.secrets.iter().filter(|(_, known)| known.due_us <= now_us);
        let paths = due.map(|(path, _)| path.clone()).collect();
        let renew = self.session.as_ref().is_some_and(|session| session.renew_us <= now_us);
        Some(Job { settings, session: self.session.clone(), renew, paths })
    }

    /// Applies the outcome of a round, and schedules the next one.
    pub(crate) fn conclude(&mut self, outcome: Outcome, now: Now) -> Concluded {
        (self.is_asking, self.has_asked) = (false, true);
        let Outcome { settings, token, is_out, read, problem } = outcome;
        if self.settings.as_ref() != Some(&settings) {
            // The outcome belongs to an older configuration, so everything is due immediately.
            return Concluded::default();
        }
        match token {
            Some(token) => self.session = Some(Session::new(token, self.session.as_ref(), now)),
            None if is_out => self.session = None,
            None => {}
        }
        let mut found = Concluded { changed: false, problems: problem.into_iter().collect() };
        for (path, secret) in read {
            let problem = match secret {
                Ok(secret) => self.keep(&path, secret, now, &mut found.changed),
                Err(problem) => Some(problem),
            };
            found.problems.extend(problem.map(|problem| format!("`{path}`: {problem}")));
        }
        self.failures = match found.problems.is_empty() {
            true => 0,
            false => self.failures.saturating_add(1),
        };
        self.retry_us = match self.failures {
            0 => 0,
            failures => {
                let pause_s = limits::VAULT_RETRY_S_MIN << (failures - 1).min(16);
                after(now, pause_s.min(limits::VAULT_RETRY_S_MAX))
            }
        };
        found
    }

    /// Stores `secret`, or returns the problem with it.
    fn keep(&mut self, path: &str, secret: Secret, now: Now, changed: &mut bool) -> Option<String> {
        let settings = self.settings.as_ref()?;
        let known = self.secrets.get_mut(path)?;
        let wanted = settings.wanted.iter().filter(|one| one.path == path);
        let missing: Vec<&str> = wanted
            .map(|one| one.field.as_str())
            .filter(|field| !secret.fields.contains_key(*field))
            .collect();
        if !missing.is_empty() {
            let names = missing.join("`, `");
            return Some(format!("no field `{names}` that can be sent in a header field"));
        }
        known.due_us = after(now, secret.lease_s.map_or(settings.refresh_s, two_thirds));
        *changed |= known.fields != secret.fields;
        known.fields = secret.fields;
        None
    }
}

impl Session {
    /// `before` is the previous session, whose token may be the same.
    fn new(token: Token, before: Option<&Self>, now: Now) -> Self {
        let same = before.filter(|before| before.token.value == token.value);
        let first_s = same.map_or(token.valid_s, |before| before.first_s.max(token.valid_s));
        let renew_us = match token.valid_s {
            0 => u64::MAX,
            valid_s => after(now, two_thirds(valid_s)),
        };
        Self { token, first_s, renew_us }
    }

    /// Whether a renewal still extends the token, because its maximum age is not near.
    fn is_renewable(&self) -> bool {
        self.token.is_renewable && self.token.valid_s >= self.first_s / 2
    }
}

fn after(now: Now, seconds: u64) -> u64 {
    now.mono_us.saturating_add(seconds.saturating_mul(1_000_000))
}

fn two_thirds(seconds: u64) -> u64 {
    (seconds / 3).saturating_mul(2).max(limits::VAULT_RETRY_S_MIN)
}

/// Performs a round: logs in if needed, and reads the secrets that are due.
pub(crate) fn round(ask: &AskVault, job: Job) -> Outcome {
    let Job { settings, session, renew, paths } = job;
    let mut outcome =
        Outcome { settings, token: None, is_out: false, read: Vec::new(), problem: None };
    outcome.problem = perform(ask, (session, renew), paths, &mut outcome).err();
    outcome
}

/// Performs the requests. Fails if the round cannot continue.
fn perform(
    ask: &AskVault,
    (session, renew): (Option<Session>, bool),
    paths: Vec<String>,
    outcome: &mut Outcome,
) -> Result<(), String> {
    let mut token = match session {
        Some(session) if !renew => session.token.value,
        session => log_in(ask, session, outcome)?,
    };
    for path in paths {
        let request = VaultRequest { path: path.clone(), body: None };
        let mut response = ask(&outcome.settings, &request, Some(&token))?;
        if response.0 == 403 && outcome.token.is_none() {
            // The token may have been revoked.
            token = log_in(ask, None, outcome)?;
            response = ask(&outcome.settings, &request, Some(&token))?;
        }
        let secret = match response {
            (200, body) => vault::read_secret(&body),
            (status, _) => Err(vault::problem(status, &path)),
        };
        outcome.read.push((path, secret));
    }
    Ok(())
}

/// Renews the token of `session`, or obtains another one.
fn log_in(
    ask: &AskVault,
    session: Option<Session>,
    outcome: &mut Outcome,
) -> Result<String, String> {
    let renewed = match session.filter(Session::is_renewable) {
        Some(Session { token, .. }) => {
            let response = ask(&outcome.settings, &vault::renew(), Some(&token.value))?;
            Some(response)
                .filter(|(status, _)| *status == 200)
                .map(|(_, body)| vault::read_token(&body, Some(&token.value)))
        }
        None => None,
    };
    let token = match renewed {
        Some(token) => token,
        None => {
            let own = match &outcome.settings.login {
                VaultLogin::Token(token) => Some(String::from_utf8_lossy(token).into_owned()),
                VaultLogin::AppRole { .. } | VaultLogin::Kubernetes { .. } => None,
            };
            let request = vault::login(&outcome.settings);
            match ask(&outcome.settings, &request, own.as_deref())? {
                (200, body) => vault::read_token(&body, own.as_deref()),
                (status, _) => {
                    outcome.is_out = true;
                    Err(vault::problem(status, &request.path))
                }
            }
        }
    }?;
    let value = token.value.clone();
    outcome.token = Some(token);
    Ok(value)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::collections::VecDeque;
    use std::sync::Mutex;

    use super::*;

    const LOGIN: &str = r#"{"auth":{"client_token":"t1","lease_duration":300,"renewable":true}}"#;

    fn settings(fields: &[(&str, &str)]) -> VaultSettings {
        let field = |(path, field): &(&str, &str)| VaultField {
            path: (*path).to_owned(),
            field: (*field).to_owned(),
        };
        VaultSettings {
            url: "https://vault.example".to_owned(),
            namespace: None,
            login: VaultLogin::AppRole {
                mount: "approle".to_owned(),
                role_id: "r".to_owned(),
                secret_id: b"s".to_vec(),
            },
            refresh_s: 60,
            wanted: fields.iter().map(field).collect(),
        }
    }

    fn at(s: u64) -> Now {
        Now { unix_s: s, mono_us: s * 1_000_000 }
    }

    /// Performs one round at `s`. `script` has, for each request, the expected path and token, and the response.
    #[track_caller]
    fn round_at(vault: &mut Vault, s: u64, script: &[(&str, u16, &str)]) -> Concluded {
        let job = vault.pop_due(at(s).mono_us).expect("a round is due");
        let owned = script
            .iter()
            .map(|(path, status, body)| ((*path).to_owned(), *status, body.as_bytes().to_vec()));
        let left = Arc::new(Mutex::new(owned.collect::<VecDeque<_>>()));
        let for_ask = Arc::clone(&left);
        let ask: AskVault = Arc::new(move |_, request, token| {
            let (expect, status, body) = for_ask.lock().unwrap().pop_front().unwrap();
            assert_eq!(format!("{} {}", request.path, token.unwrap_or("-")), expect);
            if status == 0 { Err("no route".to_owned()) } else { Ok((status, body)) }
        });
        let outcome = round(&ask, job);
        assert!(left.lock().unwrap().is_empty(), "requests that were not sent");
        vault.conclude(outcome, at(s))
    }

    #[track_caller]
    fn check(vault: &Vault, field: &str, value: &str, next_s: u64) {
        let wanted = VaultField { path: "kv/a".to_owned(), field: field.to_owned() };
        let found = vault.find(&wanted).map(|value| String::from_utf8(value).unwrap());
        assert_eq!((found.as_deref(), vault.next_us()), (Some(value), Some(next_s * 1_000_000)));
    }

    #[test]
    fn a_secret_is_read_again_and_the_token_renewed_until_it_grows_too_old() {
        let mut vault = Vault::default();
        vault.configure(Some(&settings(&[("kv/a", "p")])));
        let login = ("auth/approle/login -", 200, LOGIN);
        let read = ("kv/a t1", 200, r#"{"data":{"p":"1"}}"#);
        assert!(round_at(&mut vault, 0, &[login, read]).changed);
        check(&vault, "p", "1", 60);
        let second = ("kv/a t1", 200, r#"{"data":{"p":"2"}}"#);
        assert!(round_at(&mut vault, 60, &[second]).changed);
        assert!(!round_at(&mut vault, 150, &[second]).changed);
        check(&vault, "p", "2", 200);
        let renewed = ("auth/token/renew-self t1", 200, LOGIN);
        round_at(&mut vault, 200, &[renewed]);
        check(&vault, "p", "2", 210);
        let old = r#"{"auth":{"client_token":"t1","lease_duration":90,"renewable":true}}"#;
        round_at(&mut vault, 500, &[("auth/token/renew-self t1", 200, old), second]);
        check(&vault, "p", "2", 560);
        round_at(&mut vault, 560, &[login, second]);
        check(&vault, "p", "2", 620);
    }

    #[test]
    fn a_secret_with_a_lease_is_read_after_two_thirds_of_it() {
        let mut vault = Vault::default();
        vault.configure(Some(&settings(&[("kv/a", "p")])));
        let read = ("kv/a t1", 200, r#"{"lease_id":"x","lease_duration":90,"data":{"p":"1"}}"#);
        round_at(&mut vault, 0, &[("auth/approle/login -", 200, LOGIN), read]);
        check(&vault, "p", "1", 60);
        let longer = ("kv/a t1", 200, r#"{"lease_id":"y","lease_duration":3000,"data":{"p":"2"}}"#);
        round_at(&mut vault, 60, &[longer]);
        check(&vault, "p", "2", 200);
    }

    #[test]
    fn what_was_read_last_stays_in_use_whatever_happens() {
        let mut vault = Vault::default();
        vault.configure(Some(&settings(&[("kv/a", "p")])));
        let login = ("auth/approle/login -", 200, LOGIN);
        let read = ("kv/a t1", 200, r#"{"data":{"p":"1","q":"2"}}"#);
        round_at(&mut vault, 0, &[login, read]);
        let other = r#"{"auth":{"client_token":"t2","lease_duration":3000,"renewable":true}}"#;
        let mut now_s = 60;
        for (script, problem, pause_s) in [
            (&[("kv/a t1", 0, "")][..], "no route", 1),
            (&[("kv/a t1", 503, "")], "sealed", 2),
            (&[("kv/a t1", 404, "")], "no such secret", 4),
            (&[("kv/a t1", 200, r#"{"data":{"q":"3"}}"#)], "no field `p`", 8),
            (&[("kv/a t1", 403, ""), ("auth/approle/login -", 400, "")], "rejects the login", 10),
            (&[("auth/approle/login -", 200, other), ("kv/a t2", 403, "")], "no policy", 10),
        ] {
            let found = round_at(&mut vault, now_s, script);
            assert!(!found.changed && found.problems[0].contains(problem), "{found:?}");
            now_s += pause_s;
            check(&vault, "p", "1", now_s);
        }
        let found = round_at(&mut vault, now_s, &[("kv/a t2", 200, r#"{"data":{"p":"4"}}"#)]);
        assert!(found.changed && found.problems.is_empty());
        check(&vault, "p", "4", now_s + 60);
    }

    #[test]
    fn a_changed_configuration_reads_only_what_is_new() {
        let mut vault = Vault::default();
        vault.configure(Some(&settings(&[("kv/a", "p")])));
        let read = ("kv/a t1", 200, r#"{"data":{"p":"1","q":"2"}}"#);
        round_at(&mut vault, 0, &[("auth/approle/login -", 200, LOGIN), read]);
        vault.configure(Some(&settings(&[("kv/a", "p"), ("kv/a", "q"), ("kv/b", "r")])));
        check(&vault, "q", "2", 0);
        round_at(&mut vault, 1, &[("kv/b t1", 200, r#"{"data":{"r":"3"}}"#)]);
        check(&vault, "p", "1", 60);
        let job = vault.pop_due(at(60).mono_us).unwrap();
        vault.configure(Some(&settings(&[("kv/b", "r")])));
        let ask: AskVault = Arc::new(|_, _, _| Err("no route".to_owned()));
        assert_eq!(vault.conclude(round(&ask, job), at(60)), Concluded::default(), "too late");
        vault.configure(None);
        assert_eq!(vault.next_us(), None);
    }
}
