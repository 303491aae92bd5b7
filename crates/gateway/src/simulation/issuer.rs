//! The issuer of tokens: tokens of clients, its server, and the gateway's requests to it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

use base::limits::{JWKS_BYTES_MAX, JWKS_FETCH_MS_MAX, SWEEP_MS};
use jose::{Algorithm, Header, KeySet, SigningKey};
use model::{Introspection, Issuer};
use tokio::sync::mpsc::Receiver;
use wire::tls::ClientTls;

use super::message::{Body, Framing, Head, Reader, write};
use super::network::{End, Network};
use super::random::Random;
use super::services::{self, Service};
use super::{STARTED_UNIX_S, TestClock, UP_US};
use crate::forward::document::{self, Bounds, Content, Fetched};
use crate::forward::{PoolLimits, Pools, Shared};
use crate::message::resources::Resources;
use crate::own_requests::fetch;
use crate::worker::Worker;
use crate::worker::compiled::Live;

/// The scope that the APIs demand.
pub(super) const SCOPE: &str = "read";

/// The port of the issuer's server.
pub(super) const PORT: u16 = 9_100;

/// No token has another `iss`.
const ISS: &str = "https://issuer.example";

/// When short-lived tokens expire, in seconds of the simulation.
const BRIEF_S: u64 = 2;

const KEY: &str = "-----BEGIN PRIVATE KEY-----\n\
    MC4CAQAwBQYDK2VwBCIEIKyBzx1HqXMs1IQydw8/FAlVCz49yZyT167Bj8+tzJNd\n\
    -----END PRIVATE KEY-----\n";

/// A client's token.
#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) text: String,
    pub(super) valid: Valid,
}

/// Whether a token is good for the API that it is sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Valid {
    Always,
    /// Always, but unverifiable while the issuer is unreachable.
    OnRequest,
    /// Until so many microseconds of the simulation; the same holds.
    Until(u64),
    Never,
}

impl Token {
    /// A token from a few for `service`, so that several requests have the same.
    pub(super) fn plan(service: Service, world: u64, random: &mut Random) -> Option<Self> {
        let holder = random.below(2);
        match service {
            Service::Jwt => Some(jwt(holder, random)),
            Service::Opaque => Some(opaque(holder, world, random)),
            Service::One
            | Service::Turn
            | Service::Next
            | Service::Policies
            | Service::Held
            | Service::Cached
            | Service::Call
            | Service::Clone => None,
        }
    }

    /// Whether a request that begins at `begun_us` must not be forwarded.
    pub(super) fn is_bad(&self, begun_us: u64) -> bool {
        match self.valid {
            Valid::Always | Valid::OnRequest => false,
            // The gateway's clock is as old as its last sweep.
            Valid::Until(us) => begun_us >= us + u64::from(SWEEP_MS) * 1_000,
            Valid::Never => true,
        }
    }
}

fn jwt(holder: usize, random: &mut Random) -> Token {
    let good = (0, SCOPE, u64::MAX >> 12);
    let (kid, scope, exp_s) = match random.below(10) {
        0..=3 => good,
        4 | 5 => (1, SCOPE, good.2),
        6 => (9, SCOPE, good.2),
        7 => (0, "other", good.2),
        8 => (0, SCOPE, unix_s(BRIEF_S)),
        _ => {
            // Another's claims, with a signature that is in the cache.
            let (own, of_other) = (sign(0, holder, SCOPE, good.2), sign(0, 7, SCOPE, good.2));
            let (claims, _) = of_other.rsplit_once('.').unwrap();
            let (_, signature) = own.rsplit_once('.').unwrap();
            return Token { text: format!("{claims}.{signature}"), valid: Valid::Never };
        }
    };
    let valid = match (kid, scope) {
        (9, _) | (_, "other") => Valid::Never,
        (1, _) => Valid::OnRequest,
        _ if exp_s < good.2 => Valid::Until(BRIEF_S * 1_000_000),
        _ => Valid::Always,
    };
    Token { text: sign(kid, holder, scope, exp_s), valid }
}

/// A token that any API takes.
pub(super) fn lasting_token() -> String {
    sign(0, 0, SCOPE, u64::MAX >> 12)
}

fn opaque(holder: usize, world: u64, random: &mut Random) -> Token {
    let (kind, valid) = match random.below(6) {
        0..=2 => ("active", Valid::OnRequest),
        3 => ("brief", Valid::Until(BRIEF_S * 1_000_000)),
        4 => ("other", Valid::Never),
        _ => ("off", Valid::Never),
    };
    Token { text: format!("token-{world}-{holder}-{kind}"), valid }
}

fn unix_s(simulated_s: u64) -> u64 {
    STARTED_UNIX_S + UP_US / 1_000_000 + simulated_s
}

fn key() -> &'static SigningKey {
    static KEYS: OnceLock<SigningKey> = OnceLock::new();
    KEYS.get_or_init(|| SigningKey::from_pem(KEY.as_bytes()).unwrap())
}

fn sign(kid: u32, holder: usize, scope: &str, exp_s: u64) -> String {
    let header = Header { alg: Algorithm::EdDsa, kid: Some(format!("k{kid}")), typ: None };
    let claims = format!(r#"{{"iss":"{ISS}","sub":"h{holder}","scope":"{scope}","exp":{exp_s}}}"#);
    key().sign(&header, &claims).unwrap()
}

/// With the first key only, or all.
fn jwks(has_all_keys: bool) -> String {
    let jwk = |kid| key().public_jwk(Some(kid)).unwrap();
    if has_all_keys {
        return format!(r#"{{"keys":[{},{}]}}"#, jwk("k0"), jwk("k1"));
    }
    format!(r#"{{"keys":[{}]}}"#, jwk("k0"))
}

/// As the gateway knows it.
pub(super) fn issuer(has_all_keys: bool) -> Issuer {
    Issuer {
        name: "issuer".to_owned(),
        iss: ISS.to_owned(),
        revision: 1 + u64::from(has_all_keys),
        keys: KeySet::from_jwks(jwks(has_all_keys).as_bytes()).unwrap(),
        audiences: Vec::new(),
        leeway_s: 0,
        padded_segments: false,
        api_keys: false,
        internal_keys: false,
        allow_unlimited: false,
        introspection: Some(Introspection {
            url: format!("http://127.0.0.1:{PORT}/introspect"),
            client_id: "gateway".to_owned(),
            client_secret: b"secret".to_vec(),
            cache_s: 600,
        }),
        passwords: None,
        revoked: None,
    }
}

/// Requests to the issuer's server.
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// Requests in progress, and in all, by subject.
    counts: HashMap<String, (usize, usize)>,
    /// It did not answer once.
    was_silent: bool,
}

/// The issuer's server.
#[derive(Clone)]
pub(super) struct Server {
    pub(super) network: Network,
    pub(super) asked: Rc<RefCell<Asked>>,
    pub(super) seed: u64,
    /// It always answers.
    pub(super) calm: bool,
}

impl Server {
    /// Serves one connection of the gateway.
    pub(super) async fn serve(self, end: End) {
        let mut reader = Reader::new(&end);
        while let Ok(head) = reader.head().await {
            let mut body = Body::any();
            if reader.body(head.framing(Framing::None), &mut body).await.is_err() {
                return;
            }
            let (what, answer) = answer(&head, &String::from_utf8(body.bytes).unwrap());
            let number = self.begin(&what);
            self.network.log(|| format!("the issuer is asked for {what}"));
            let mut random = Random::new(self.seed, 1_000_000 + number as u64);
            let sent = self.send(&end, answer, &mut random).await;
            self.asked.borrow_mut().counts.get_mut(&what).unwrap().0 -= 1;
            if sent.is_none() {
                return;
            }
        }
    }

    pub(super) fn was_silent(&self) -> bool {
        self.asked.borrow().was_silent
    }

    /// How often it was asked for anything.
    pub(super) fn asked(&self) -> usize {
        self.asked.borrow().counts.values().map(|(_, ever)| ever).sum()
    }

    /// The gateway asks for `what`. Returns how often anything was asked for.
    fn begin(&self, what: &str) -> usize {
        let all = &mut self.asked.borrow_mut().counts;
        // The issuer's keys change once, which discards cached tokens.
        let most = 1 + usize::from(all.contains_key("keys") && what != "keys");
        let (now, ever) = all.entry(what.to_owned()).or_default();
        (*now, *ever) = (*now + 1, *ever + 1);
        // It gives up, and asks again, only if something goes wrong.
        assert!(!self.calm || *now <= most, "asked for {what} {now} times at once");
        let is_kept = what.ends_with("-active") || what.ends_with("-other");
        assert!(!self.calm || !is_kept || *ever <= most, "asked for {what} {ever} times");
        all.values().map(|(_, ever)| ever).sum()
    }

    /// Sends an answer, or something else. `None`: the connection is closed.
    async fn send(&self, end: &End, answer: String, random: &mut Random) -> Option<()> {
        self.network.sleep(random.pause_us(400_000)).await;
        let fault = if self.calm { 9 } else { random.below(12) };
        let (status, body) = match fault {
            0 => return None,
            1 => {
                // Longer than any wait of the gateway.
                self.asked.borrow_mut().was_silent = true;
                self.network.sleep(30_000_000).await;
                return None;
            }
            2 => (500, "{}".to_owned()),
            3 => (200, "<html>".to_owned()),
            _ => (200, answer),
        };
        let head = format!("HTTP/1.1 {status} Status\r\nContent-Length: {}\r\n\r\n", body.len());
        let text = head + &body;
        let half = text.len() / 2;
        write(end, &text.as_bytes()[..half]).await.ok()?;
        self.network.sleep(random.pause_us(50_000)).await;
        if fault == 4 {
            return None;
        }
        write(end, &text.as_bytes()[half..]).await.ok()
    }
}

/// The subject of a request, and the server's response to it.
fn answer(head: &Head, form: &str) -> (String, String) {
    if head.line == "GET /keys HTTP/1.1" {
        return ("keys".to_owned(), jwks(true));
    }
    assert_eq!(head.line, "POST /introspect HTTP/1.1");
    assert_eq!(head.field("authorization"), Some("Basic Z2F0ZXdheTpzZWNyZXQ="), "{head:?}");
    let token = form.strip_prefix("token=").and_then(|rest| rest.split('&').next());
    let token = token.unwrap_or_else(|| panic!("{form}"));
    let (kind, active) = (token.rsplit('-').next(), r#"{"active":true,"scope":"read""#);
    let answer = match kind {
        Some("active") => format!("{active}}}"),
        Some("brief") => format!("{active},\"exp\":{}}}", unix_s(BRIEF_S)),
        Some("other") => r#"{"active":true,"scope":"other"}"#.to_owned(),
        Some("off") => r#"{"active":false}"#.to_owned(),
        other => panic!("{other:?}"),
    };
    (token.to_owned(), answer)
}

/// Fetches keys for the worker, as the thread of upstreams does.
pub(super) struct KeyFetcher {
    resources: Resources,
    pools: Pools,
}

impl KeyFetcher {
    pub(super) fn new(clock: TestClock, upstreams: Arc<Shared>) -> Self {
        let limits = PoolLimits { open_max: 99, idle_max: 1 };
        Self { resources: Resources::new(clock, 0), pools: Pools::new(upstreams, limits) }
    }

    pub(super) fn sweep(&self) {
        self.pools.sweep(self.resources.sweep());
    }

    /// Fetches each key set that is wanted.
    pub(super) async fn run(
        self: Rc<Self>,
        worker: Rc<Worker>,
        mut wanted: Receiver<String>,
        live: Live,
    ) {
        let tls = ClientTls::insecure();
        let bounds = Bounds { bytes_max: JWKS_BYTES_MAX, total_ms: JWKS_FETCH_MS_MAX };
        while let Some(issuer) = wanted.recv().await {
            let url = format!("http://127.0.0.1:{PORT}/keys");
            let (endpoint, target) = document::endpoint(&url).unwrap();
            let own = (&self.resources, &self.pools);
            let fetched =
                fetch::within(own, endpoint, (&target, &Content::default()), &tls, bounds).await;
            if let Ok(Fetched { status: 200, body }) = fetched
                && KeySet::from_jwks(&body).is_ok()
            {
                assert_eq!(String::from_utf8(body).unwrap(), jwks(true), "the issuer's keys");
                worker.apply(services::compiled(live.clone(), true));
            }
            worker.questions.key_set_arrived(&issuer, worker.resources.coarse_us());
        }
    }

    pub(super) fn check_released(&self) {
        self.pools.each(|_, _, pool| assert_eq!((pool.in_use, pool.waiting), (0, 0), "for keys"));
    }
}
