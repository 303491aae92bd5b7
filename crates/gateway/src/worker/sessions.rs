//! The logins of a revision, a worker's state of their providers, and the sessions that the process renews.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use base::limits::{
    LOGIN_DISCOVERY_S, LOGIN_PAUSE_S, SESSION_KEPT_S, SESSION_RENEWED_S, SESSIONS_RENEWED_MAX,
    SIGN_IN_CODES_MAX,
};
use jose::{SealingKeys, SignInEndpoints};
use model::Login;
use stages::sign_in::{self, Session};
use tokio::sync::{Semaphore, watch};

/// The beginning of the paths of all logins.
const PREFIX: &[u8] = b"/.login/";
const SECOND_US: u64 = 1_000_000;

/// `[[login]]`, with its keys.
#[derive(Debug)]
pub(crate) struct Provider {
    pub(crate) login: Arc<Login>,
    pub(crate) keys: SealingKeys,
}

/// The logins of a revision.
#[derive(Clone, Debug, Default)]
pub(crate) struct Logins(Arc<[Provider]>);

impl Logins {
    /// Compiles `logins`. A login whose key cannot be used is left out: no user can sign in there.
    pub(crate) fn new(logins: &[Arc<Login>]) -> Self {
        let provider = |login: &Arc<Login>| {
            let keys = SealingKeys::new(&login.key);
            let problem = |error| tracing::error!(login = login.name, %error, "no key for cookies");
            Some(Provider { login: Arc::clone(login), keys: keys.map_err(problem).ok()? })
        };
        Self(logins.iter().filter_map(provider).collect())
    }

    pub(crate) fn find(&self, name: &[u8]) -> Option<&Provider> {
        self.0.iter().find(|provider| provider.login.name.as_bytes() == name)
    }

    /// Whether a path is one of the gateway's own for them: `/.login/NAME/ACTION`.
    pub(crate) fn own(&self, path: &[u8]) -> bool {
        !self.0.is_empty() && path.starts_with(PREFIX)
    }

    /// The login and the action of such a path.
    pub(crate) fn action<'p>(&self, path: &'p [u8]) -> Option<(&Provider, &'p [u8])> {
        let rest = path.strip_prefix(PREFIX)?;
        let slash = rest.iter().position(|byte| *byte == b'/')?;
        let (name, action) = rest.split_at_checked(slash)?;
        Some((self.find(name)?, action))
    }

    pub(crate) fn have_cookies(&self) -> bool {
        !self.0.is_empty()
    }

    /// Whether a cookie is one of theirs, which no upstream gets: browsers send it to all APIs of a host.
    pub(crate) fn own_cookie(&self, pair: &[u8]) -> bool {
        self.have_cookies() && sign_in::is_cookie(pair)
    }
}

/// The endpoints of a provider. `None`: they could not be discovered.
type Discovered = Option<Rc<SignInEndpoints>>;

/// A worker's.
#[derive(Debug)]
pub(crate) struct SignIns {
    pub(crate) renewals: Arc<Renewals>,
    /// By issuer; until when, on the worker's clock.
    endpoints: RefCell<HashMap<String, (Discovered, u64)>>,
    /// By issuer: who asks for its endpoints.
    turns: RefCell<HashMap<String, Rc<tokio::sync::Mutex<()>>>>,
    /// To redeem codes.
    pub(crate) codes: Semaphore,
    /// Until then no failed sign-in is logged.
    quiet_until_us: Cell<u64>,
}

impl SignIns {
    pub(crate) fn new(renewals: Arc<Renewals>) -> Self {
        Self {
            renewals,
            endpoints: RefCell::default(),
            turns: RefCell::default(),
            codes: Semaphore::new(SIGN_IN_CODES_MAX),
            quiet_until_us: Cell::default(),
        }
    }

    /// A lock per issuer: its holder may ask for the issuer's endpoints.
    pub(crate) fn turn(&self, issuer: &str) -> Rc<tokio::sync::Mutex<()>> {
        let mut turns = self.turns.borrow_mut();
        turns.retain(|_, turn| Rc::strong_count(turn) > 1);
        Rc::clone(turns.entry(issuer.to_owned()).or_default())
    }

    /// Whether a failed sign-in is logged. Anybody can cause one, so that is once a second.
    pub(crate) fn logs_failure(&self, now_us: u64) -> bool {
        let logs = now_us >= self.quiet_until_us.get();
        if logs {
            self.quiet_until_us.set(until_us(now_us, 1));
        }
        logs
    }

    /// The endpoints that were discovered; inside, `None`: that failed just before.
    pub(crate) fn endpoints(&self, issuer: &str, now_us: u64) -> Option<Discovered> {
        let all = self.endpoints.borrow();
        let (known, _) = all.get(issuer).filter(|(_, until_us)| now_us < *until_us)?;
        Some(known.clone())
    }

    pub(crate) fn discovered(&self, issuer: &str, found: Option<Rc<SignInEndpoints>>, now_us: u64) {
        let valid_s = if found.is_some() { LOGIN_DISCOVERY_S } else { LOGIN_PAUSE_S };
        let mut all = self.endpoints.borrow_mut();
        // Only configured issuers are asked for; those of earlier configurations leave.
        all.retain(|_, (_, until_us)| now_us < *until_us);
        let until_us = now_us.saturating_add(valid_s.saturating_mul(SECOND_US));
        all.insert(issuer.to_owned(), (found, until_us));
    }
}

/// Result of a request for new tokens.
#[derive(Clone, Debug)]
pub(crate) enum Renewal {
    Renewed(Arc<Session>),
    /// The provider has ended the session.
    Refused,
    /// The provider did not respond.
    Failed,
}

/// The sessions whose tokens are renewed, or were just before. They are shared by the workers: many providers take a
/// refresh token that is presented twice for stolen.
#[derive(Debug, Default)]
pub(crate) struct Renewals(Mutex<Recent>);

#[derive(Debug, Default)]
struct Recent {
    /// By [`key`].
    sessions: HashMap<[u8; 32], Entry>,
    /// When those that are over are removed.
    sweep_us: u64,
}

#[derive(Debug)]
struct Entry {
    outcome: watch::Receiver<Option<Renewal>>,
    until_us: u64,
}

/// Identifies a session of a login with its present tokens: a provider may issue the same refresh token again, and
/// another one the same tokens.
pub(crate) fn key(login: &str, session: &Session) -> [u8; 32] {
    let Session { access_token, expires_s, refresh_token, .. } = session;
    let refresh_token = refresh_token.as_deref().unwrap_or_default();
    jose::sha256(format!("{login}\n{expires_s}\n{access_token}\n{refresh_token}").as_bytes())
}

/// A session whose tokens are renewed, by this request or another one.
pub(crate) struct Renewing {
    pub(crate) login: Arc<Login>,
    pub(crate) key: [u8; 32],
    pub(crate) outcome: watch::Receiver<Option<Renewal>>,
}

pub(crate) enum Joined {
    /// Another request renews it, or has.
    Other(watch::Receiver<Option<Renewal>>),
    /// The receiver of this variant has to renew it.
    First(watch::Sender<Option<Renewal>>),
    /// Too many are remembered.
    Full,
}

impl Renewals {
    pub(crate) fn join(&self, key: [u8; 32], now_us: u64) -> Joined {
        let mut recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = |entry: &Entry| {
            let is_abandoned = entry.outcome.has_changed().is_err();
            now_us >= entry.until_us || is_abandoned && entry.outcome.borrow().is_none()
        };
        let Recent { sessions, sweep_us } = &mut *recent;
        if let Some(entry) = sessions.get(&key).filter(|entry| !is_over(entry)) {
            return Joined::Other(entry.outcome.clone());
        }
        if now_us >= *sweep_us || sessions.len() >= SESSIONS_RENEWED_MAX {
            sessions.retain(|_, entry| !is_over(entry));
            *sweep_us = until_us(now_us, SESSION_RENEWED_S);
        }
        if sessions.len() >= SESSIONS_RENEWED_MAX {
            return Joined::Full;
        }
        let (sender, outcome) = watch::channel(None);
        sessions.insert(key, Entry { outcome, until_us: until_us(now_us, SESSION_RENEWED_S) });
        Joined::First(sender)
    }

    /// The renewed session of `session`, now or just before: a user who signs out may not have its cookie yet.
    pub(crate) async fn renewed(&self, login: &str, session: &Session) -> Option<Arc<Session>> {
        let mut outcome = {
            let recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            recent.sessions.get(&key(login, session))?.outcome.clone()
        };
        match outcome.wait_for(Option::is_some).await.ok()?.as_ref()? {
            Renewal::Renewed(renewed) => Some(Arc::clone(renewed)),
            Renewal::Refused | Renewal::Failed => None,
        }
    }

    /// A response has the renewed session: the old one is forgotten soon.
    pub(crate) fn given(&self, key: [u8; 32], now_us: u64) {
        let mut recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = recent.sessions.get_mut(&key) {
            entry.until_us = entry.until_us.min(until_us(now_us, SESSION_RENEWED_S));
        }
    }

    /// Tells everybody. A failure is not remembered for long.
    pub(crate) fn end(
        &self,
        key: [u8; 32],
        sender: &watch::Sender<Option<Renewal>>,
        renewal: Renewal,
        now_us: u64,
    ) {
        let valid_s = match &renewal {
            Renewal::Renewed(_) => SESSION_KEPT_S,
            Renewal::Refused => SESSION_RENEWED_S,
            Renewal::Failed => LOGIN_PAUSE_S,
        };
        let mut recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = recent.sessions.get_mut(&key) {
            entry.until_us = until_us(now_us, valid_s);
        }
        drop(recent);
        sender.send_replace(Some(renewal));
    }
}

fn until_us(now_us: u64, valid_s: u64) -> u64 {
    now_us.saturating_add(valid_s.saturating_mul(SECOND_US))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_request_renews_a_session_and_others_get_its_outcome_for_a_while() {
        let (renewals, key) = (Renewals::default(), [7; 32]);
        let Joined::First(sender) = renewals.join(key, 0) else { panic!("nobody renews it") };
        let Joined::Other(outcome) = renewals.join(key, 1) else { panic!("it is renewed twice") };
        assert!(outcome.borrow().is_none());
        assert!(matches!(renewals.join([8; 32], 1), Joined::First(_)), "another session");
        renewals.end(key, &sender, Renewal::Refused, 2);
        drop(sender);
        assert!(matches!(*outcome.borrow(), Some(Renewal::Refused)));
        let remembered_us = SESSION_RENEWED_S * SECOND_US;
        assert!(matches!(renewals.join(key, 1 + remembered_us), Joined::Other(_)));
        let Joined::First(sender) = renewals.join(key, 2 + remembered_us) else {
            panic!("it is remembered for too long")
        };
        renewals.end(key, &sender, Renewal::Failed, 0);
        drop(sender);
        assert!(matches!(renewals.join(key, LOGIN_PAUSE_S * SECOND_US - 1), Joined::Other(_)));
        let Joined::First(sender) = renewals.join(key, LOGIN_PAUSE_S * SECOND_US) else {
            panic!("a failure is remembered for too long")
        };
        drop(sender);
        assert!(
            matches!(renewals.join(key, LOGIN_PAUSE_S * SECOND_US), Joined::First(_)),
            "it was abandoned"
        );
    }

    #[test]
    fn sessions_of_two_logins_are_kept_apart_though_their_tokens_are_the_same() {
        let session = |access: &str, refresh: &str| Session {
            access_token: access.to_owned(),
            expires_s: 7,
            refresh_token: Some(refresh.to_owned()),
            id_token: None,
            until_s: 9,
        };
        let one = key("a", &session("x", "y"));
        assert_eq!(one, key("a", &Session { until_s: 10, ..session("x", "y") }));
        for other in [
            key("b", &session("x", "y")),
            key("a", &session("x", "z")),
            key("a", &session("z", "y")),
            key("a", &Session { expires_s: 8, ..session("x", "y") }),
        ] {
            assert_ne!(one, other);
        }
    }

    #[test]
    fn a_renewed_session_waits_longer_for_its_browser_than_one_that_was_given() {
        let (renewals, key) = (Renewals::default(), [7; 32]);
        let Joined::First(sender) = renewals.join(key, 0) else { panic!("nobody renews it") };
        let renewed = Session {
            access_token: String::new(),
            expires_s: 0,
            refresh_token: None,
            id_token: None,
            until_s: 0,
        };
        renewals.end(key, &sender, Renewal::Renewed(Arc::new(renewed)), 0);
        let last_us = SESSION_KEPT_S * SECOND_US - 1;
        assert!(matches!(renewals.join(key, last_us), Joined::Other(_)));
        renewals.given(key, 1);
        renewals.given(key, SECOND_US);
        let given_us = 1 + SESSION_RENEWED_S * SECOND_US;
        assert!(matches!(renewals.join(key, given_us - 1), Joined::Other(_)));
        assert!(matches!(renewals.join(key, given_us), Joined::First(_)));
    }

    #[test]
    fn failed_sign_ins_are_logged_once_a_second() {
        let sign_ins = SignIns::new(Arc::default());
        let logged =
            [0, 1, 999_999, 1_000_000, 1_500_000].map(|now_us| sign_ins.logs_failure(now_us));
        assert_eq!(logged, [true, false, false, true, false]);
    }

    #[test]
    fn renewals_that_are_over_do_not_stay_in_memory() {
        let renewals = Renewals::default();
        let mut senders = Vec::new();
        let mut renew = |number, now_us| {
            let Joined::First(sender) = renewals.join([number; 32], now_us) else {
                panic!("{number} is known")
            };
            renewals.end([number; 32], &sender, Renewal::Refused, now_us);
            senders.push(sender);
            renewals.0.lock().unwrap().sessions.len()
        };
        let remembered_us = SESSION_RENEWED_S * SECOND_US;
        assert_eq!((renew(1, 0), renew(2, 1)), (1, 2));
        assert_eq!(renew(3, remembered_us), 2, "the first one is over");
        assert_eq!(renew(4, 2 * remembered_us), 1);
    }
}
