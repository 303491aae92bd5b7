//! Host names of endpoints, each resolved once for all workers, again before its addresses expire.
//!
//! Workers read the last addresses; they wait only for the first. If a lookup fails, the last addresses stay in use.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::Duration;

use base::limits::{NAME_LOOKUPS_MAX, NAME_RETRY_MS_MAX, NAME_RETRY_MS_MIN, NAME_TTL_S_MAX};
use tokio::sync::{Semaphore, watch};

use super::lookup::Resolver;

/// The state of a name's resolution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Resolution {
    /// The first lookup is not complete.
    Pending,
    /// The name's addresses, at least one.
    Found(Arc<[IpAddr]>),
    /// No lookup succeeded yet; why the last one failed.
    Failed(Arc<str>),
}

/// A name that some worker's pool uses.
#[derive(Debug)]
pub(crate) struct Name {
    host: String,
    resolution: watch::Sender<Resolution>,
}

impl Name {
    pub(crate) fn new(host: &str) -> Self {
        let (resolution, _) = watch::channel(Resolution::Pending);
        Self { host: host.to_owned(), resolution }
    }

    pub(crate) fn resolution(&self) -> watch::Receiver<Resolution> {
        self.resolution.subscribe()
    }

    /// Records the result of a lookup.
    pub(super) fn looked_up(&self, looked_up: Result<Vec<IpAddr>, String>) {
        self.resolution.send_if_modified(|current| {
            let new = match (looked_up, &*current) {
                (Ok(addresses), _) => Resolution::Found(addresses.into()),
                (Err(_), Resolution::Found(_)) => return false,
                (Err(problem), _) => Resolution::Failed(problem.into()),
            };
            let changed = *current != new;
            *current = new;
            changed
        });
    }
}

/// Waits for the first lookup.
///
/// # Errors
/// It failed, and so did all later ones.
pub(super) async fn addresses(
    resolution: &mut watch::Receiver<Resolution>,
) -> io::Result<Arc<[IpAddr]>> {
    let known = resolution.wait_for(|known| *known != Resolution::Pending).await;
    match known.as_deref() {
        Ok(Resolution::Found(addresses)) => Ok(Arc::clone(addresses)),
        Ok(Resolution::Failed(problem)) => Err(io::Error::other(problem.to_string())),
        Ok(Resolution::Pending) | Err(_) => Err(io::Error::other("the gateway is shutting down")),
    }
}

/// Looks up names.
pub(crate) struct Follower {
    resolver: Resolver,
    lookups: Semaphore,
}

impl Follower {
    /// `servers`: name servers in place of the system's; none: the system's.
    pub(crate) fn new(servers: Vec<SocketAddr>) -> Rc<Self> {
        Rc::new(Self {
            resolver: Resolver::new(servers),
            lookups: Semaphore::new(NAME_LOOKUPS_MAX),
        })
    }

    /// Keeps the addresses of `name` up to date until no worker uses it.
    pub(crate) async fn follow(self: Rc<Self>, name: Weak<Name>) {
        let mut schedule = Schedule::default();
        while let Some(host) = name.upgrade().map(|name| name.host.clone()) {
            let looked_up = match self.lookups.acquire().await {
                Ok(_permit) => self.resolver.lookup(&host).await,
                Err(_) => return,
            };
            let Some(name) = name.upgrade() else { return };
            let wait = schedule.next(looked_up.as_ref().ok().map(|(_, ttl)| *ttl));
            match looked_up {
                Ok((addresses, _)) => name.looked_up(Ok(addresses)),
                Err(problem) => {
                    tracing::warn!(host, problem, "cannot look up a host name");
                    name.looked_up(Err(problem));
                }
            }
            drop(name);
            tokio::time::sleep(wait).await;
        }
    }
}

/// When a name is looked up again.
#[derive(Debug, Default)]
struct Schedule {
    /// After the last failure; zero after a success.
    pause_ms: u32,
}

impl Schedule {
    /// The wait after a lookup with the given time to live; `None`: it failed.
    fn next(&mut self, ttl: Option<Duration>) -> Duration {
        match ttl {
            Some(ttl) => {
                self.pause_ms = 0;
                ttl.clamp(Duration::from_secs(1), Duration::from_secs(NAME_TTL_S_MAX))
            }
            None => {
                let longer = self.pause_ms.saturating_mul(2);
                self.pause_ms = longer.clamp(NAME_RETRY_MS_MIN, NAME_RETRY_MS_MAX);
                Duration::from_millis(u64::from(self.pause_ms))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_looked_up_again_when_its_addresses_expire_and_soon_after_a_failure() {
        let mut schedule = Schedule::default();
        let ttls = [Some(5), None, None, None, None, Some(0), None, Some(u64::MAX)];
        let waits = ttls.map(|ttl| schedule.next(ttl.map(Duration::from_secs)).as_millis());
        assert_eq!(waits, [5_000, 500, 1_000, 2_000, 4_000, 1_000, 500, 60_000]);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn addresses_stay_in_use_when_a_lookup_fails() {
        let name = Name::new("a.test");
        let mut resolution = name.resolution();
        let ip = IpAddr::from([192, 0, 2, 1]);
        name.looked_up(Err("timeout".to_owned()));
        let failed = addresses(&mut resolution).await.unwrap_err();
        assert_eq!(failed.to_string(), "timeout");
        name.looked_up(Ok(vec![ip]));
        assert_eq!(*addresses(&mut resolution).await.unwrap(), [ip]);
        name.looked_up(Err("timeout".to_owned()));
        assert!(!resolution.has_changed().unwrap());
        assert_eq!(*addresses(&mut resolution).await.unwrap(), [ip]);
        name.looked_up(Ok(vec![ip]));
        assert!(!resolution.has_changed().unwrap(), "the same addresses are no change");
    }
}
