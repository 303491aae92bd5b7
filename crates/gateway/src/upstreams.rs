//! The thread that looks after upstreams for all workers: it looks up their names and checks their health. It ends when
//! the gateway does.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::Duration;

use base::limits::{BODY_BUFFER_BYTES, HEALTH_CHECKS_MAX};
use base::{SystemClock, SystemEntropy};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::{LocalSet, spawn_local};

use crate::fetch::{self, Bounds};
use crate::forward::{Checked, CheckedEndpoint, Follower, Pools, Shared, Watched};

/// Starts it. `servers`: name servers in place of the system's; `clock`: the workers'.
///
/// # Errors
/// The system provides no thread or no event queue.
pub(crate) fn start(
    workers: usize,
    servers: Vec<SocketAddr>,
    clock: SystemClock,
) -> io::Result<Arc<Shared>> {
    let (shared, watched) = Shared::watched(workers, &SystemEntropy);
    let checks = Semaphore::new(HEALTH_CHECKS_MAX);
    let upstreams = Arc::downgrade(&shared);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name("upstreams".to_owned()).spawn(move || {
        let checker = Rc::new(Checker { shared: upstreams, clock, checks });
        LocalSet::new().block_on(&runtime, run(watched, Follower::new(servers), checker));
    })?;
    Ok(shared)
}

async fn run(
    mut watched: UnboundedReceiver<Watched>,
    follower: Rc<Follower>,
    checker: Rc<Checker>,
) {
    while let Some(next) = watched.recv().await {
        match next {
            Watched::Name(name) => spawn_local(Rc::clone(&follower).follow(name)),
            Watched::Endpoint(endpoint) => spawn_local(Rc::clone(&checker).watch(endpoint)),
        };
    }
}

/// Checks the health of endpoints.
struct Checker {
    shared: Weak<Shared>,
    clock: SystemClock,
    checks: Semaphore,
}

impl Checker {
    /// Checks an endpoint until no worker uses its set.
    async fn watch(self: Rc<Self>, checked: Box<CheckedEndpoint>) {
        let CheckedEndpoint { endpoint, check, .. } = &*checked;
        let target = format!("{}{}", endpoint.path, check.path);
        while let Some(shared) = self.shared.upgrade() {
            let Ok(permit) = self.checks.acquire().await else { return };
            let Some(tls) = shared.client_tls() else { return };
            let bytes_max = BODY_BUFFER_BYTES as usize;
            let bounds = Bounds { bytes_max, total_ms: check.timeout_ms };
            let pools = Pools::new(shared, 0);
            let fetched = fetch::within(endpoint.clone(), &target, &tls, bounds, pools).await;
            // Not held through the pause, which other endpoints need not wait for.
            drop(permit);
            let problem = match fetched {
                Ok(response) if (200..300).contains(&response.status) => None,
                Ok(response) => Some(format!("status {}", response.status)),
                Err(error) => Some(error.to_string()),
            };
            let Some(shared) = self.shared.upgrade() else { return };
            let Some(health) = shared.checked(&checked) else { return };
            shared.count_check(problem.is_none());
            drop(shared);
            let authority = &endpoint.authority;
            match health.checked(problem.is_none(), check, self.clock.now_us()) {
                Some(Checked::Healthy) => tracing::info!(endpoint = authority, "endpoint healthy"),
                Some(Checked::Unhealthy) => {
                    let problem = problem.unwrap_or_default();
                    tracing::warn!(endpoint = authority, problem, "endpoint unhealthy");
                }
                None => {}
            }
            drop(health);
            tokio::time::sleep(Duration::from_millis(u64::from(check.interval_ms))).await;
        }
    }
}
