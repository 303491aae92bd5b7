//! Responses that a cache may give to others: who may get which, and until when.

use super::ledger::{Attempt, Exchange, Outcome};
use super::random::Random;

/// Details of a request to a cached service.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wants {
    pub(super) resource: usize,
    lang: &'static str,
    /// It has a cookie.
    is_personal: bool,
    /// The client waits for so long before it sends it.
    pub(super) pause_us: u64,
}

impl Wants {
    pub(super) fn plan(random: &mut Random, pauses: bool) -> Self {
        Self {
            resource: random.below(2),
            lang: random.pick(&["a", "a", "b"]),
            is_personal: random.percent(15),
            pause_us: if random.percent(30) && pauses { random.below(4_000_000) as u64 } else { 0 },
        }
    }

    pub(super) fn append_fields(&self, fields: &mut Vec<(&'static str, String)>) {
        fields.push(("x-lang", self.lang.to_owned()));
        if self.is_personal {
            fields.push(("cookie", "id=1".to_owned()));
        }
    }
}

/// An upstream's statement about the use of its response for others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sharing {
    /// A field that forbids it.
    forbidden: Option<&'static str>,
    /// Also for those whom the upstream knows.
    is_public: bool,
    max_age_s: Option<u64>,
    /// It depends on the language.
    varies: bool,
    has_etag: bool,
}

/// How long responses that do not say it are kept, in seconds.
pub(super) const DEFAULT_AGE_S: u32 = 2;

/// How much later than the upstream thinks a response may get older: it travels in pieces, with pauses.
const SLACK_US: u64 = 2_000_000;

impl Sharing {
    pub(super) fn plan(random: &mut Random) -> Self {
        const FORBIDDEN: &[&str] =
            &["Cache-Control: private", "Cache-Control: no-store", "Set-Cookie: id=2"];
        Self {
            forbidden: random.percent(25).then(|| random.pick(FORBIDDEN)),
            is_public: random.percent(30),
            max_age_s: random.pick(&[None, Some(1), Some(2), Some(60)]),
            varies: random.percent(40),
            has_etag: random.percent(70),
        }
    }

    /// The lines of the response's head. `tag`: the response's name.
    pub(super) fn lines(&self, tag: &str) -> String {
        let mut lines = String::new();
        let mut line = |text: &str| lines += &format!("{text}\r\n");
        self.forbidden.into_iter().for_each(&mut line);
        if let Some(seconds) = self.max_age_s {
            line(&format!("Cache-Control: max-age={seconds}"));
        }
        if self.is_public {
            line("Cache-Control: public");
        }
        if self.varies {
            line("Vary: X-Lang");
        }
        if self.has_etag {
            line(&format!("ETag: \"{tag}\""));
        }
        lines
    }

    fn lifetime_us(&self) -> u64 {
        self.max_age_s.unwrap_or(DEFAULT_AGE_S.into()) * 1_000_000
    }
}

/// How often the resource was changed.
fn changes(all: &[Exchange], resource: usize) -> usize {
    let its = all.iter().filter(|it| it.wants.is_some_and(|wants| wants.resource == resource));
    its.flat_map(|it| &it.attempts).filter(|attempt| attempt.changed.is_some()).count()
}

/// An attempt for `id` arrives at an upstream.
pub(super) fn arrives(all: &[Exchange], id: usize, now_us: u64) -> Attempt {
    let version = all[id].wants.map_or(0, |wants| changes(all, wants.resource));
    Attempt { version, valid_us: now_us, ..Attempt::default() }
}

/// An upstream begins to answer an attempt with `status`.
pub(super) fn answers(all: &mut [Exchange], id: usize, attempt: usize, status: u16, now_us: u64) {
    let Some(wants) = all[id].wants else { return };
    all[id].attempts[attempt].valid_us = now_us;
    let is_unsafe = !matches!(all[id].method, "GET" | "HEAD");
    if is_unsafe && (200..400).contains(&status) {
        let version = changes(all, wants.resource) + 1;
        all[id].attempts[attempt].changed = Some(version);
    }
}

/// An upstream confirms to `id`, which has an `If-None-Match` with `tag`, that the response is still valid.
pub(super) fn confirms(all: &mut [Exchange], id: usize, tag: &str, now_us: u64) {
    let (of, attempt) = parse(tag);
    check_fits(all, id, of, attempt);
    let version = changes(all, all[of].wants.unwrap().resource);
    let confirmed = &mut all[of].attempts[attempt];
    (confirmed.version, confirmed.valid_us) = (version, now_us);
}

/// The exchange and the attempt whose response is called `tag`.
fn parse(tag: &str) -> (usize, usize) {
    let (whose, attempt) = tag.split_once('.').unwrap_or_else(|| panic!("{tag}"));
    (whose.strip_prefix('r').unwrap().parse().unwrap(), attempt.parse().unwrap())
}

/// Exchange and attempt of the response that the client of `id` gets, which is its own or one that it may get.
pub(super) fn received(all: &[Exchange], id: usize, tag: &str) -> (usize, usize) {
    let (of, attempt) = parse(tag);
    if of == id {
        return (of, attempt);
    }
    check_fits(all, id, of, attempt);
    let (client, shared) = (&all[id], &all[of].attempts[attempt]);
    let begun_us = client.begun_us.unwrap();
    let floor = last_seen(all, id, begun_us);
    assert!(shared.version >= floor, "what was there before a change: {tag} to {client:?}");
    let sharing = shared.sharing.unwrap();
    let until_us = shared.valid_us + sharing.lifetime_us() + SLACK_US;
    assert!(begun_us <= until_us || !client.attempts.is_empty(), "stale: {tag} to {client:?}");
    (of, attempt)
}

/// The last version of the resource of `id` that a client had made, and had a response for, when `id` began.
fn last_seen(all: &[Exchange], id: usize, begun_us: u64) -> usize {
    let resource = all[id].wants.unwrap().resource;
    let its = all.iter().filter(|it| it.wants.is_some_and(|wants| wants.resource == resource));
    let seen = its.filter(|it| it.ended_us.is_some_and(|ended_us| ended_us < begun_us));
    let made = seen.filter_map(|it| match it.outcome {
        Outcome::Complete { of, attempt, .. } if of == it.id => it.attempts[attempt].changed,
        Outcome::Complete { .. } | Outcome::Nothing | Outcome::Truncated | Outcome::Own { .. } => {
            None
        }
    });
    made.max().unwrap_or(0)
}

/// Whether the response to an attempt of `of` may be one to `id`, for the time being.
#[track_caller]
fn check_fits(all: &[Exchange], id: usize, of: usize, attempt: usize) {
    let (client, other) = (&all[id], &all[of]);
    let (Some(wants), Some(wanted)) = (client.wants, other.wants) else {
        panic!("a response to another request: {other:?} to {client:?}");
    };
    let attempt = &other.attempts[attempt];
    let sharing = attempt.sharing.expect("an answer is planned");
    let fits = wants.resource == wanted.resource
        && (client.method, other.method) == ("GET", "GET")
        && attempt.answered
        && sharing.forbidden.is_none()
        && (!sharing.varies || wants.lang == wanted.lang)
        && (sharing.is_public || !wants.is_personal && !wanted.is_personal);
    assert!(fits, "a response that is not for others: {other:?} to {client:?}");
}
