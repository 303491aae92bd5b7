//! How the file descriptors of the process are divided, so that clients cannot take those of upstreams, of the admin
//! port or of files.

use base::limits::{
    ADMIN_CONNECTIONS_MAX, CLIENT_CONNECTIONS_MAX, OWN_DESCRIPTORS, PIPES_MAX, REQUESTS_MAX,
    UPSTREAMS_IDLE_MAX,
};
use nix::sys::resource::{Resource, getrlimit};

use crate::forward::PoolLimits;

/// Limits of one worker that depend on its file descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptors {
    /// Maximum number of client connections.
    pub(crate) connections_max: usize,
    /// Maximum number of requests in progress.
    pub(crate) requests_max: usize,
    /// Maximum number of upstream connections, in use and idle. More than requests, for questions of the gateway's own.
    /// A request may have several through mediation: where they are all in use, it waits.
    pub(crate) upstreams_max: usize,
    /// Maximum number of pipes, with two descriptors each.
    pub(crate) pipes_max: usize,
}

impl Descriptors {
    /// The share of each of `workers` in the process's limit.
    pub(crate) fn of_process(workers: usize) -> Self {
        let limit = getrlimit(Resource::RLIMIT_NOFILE).map_or(u64::MAX, |(soft, _)| soft);
        Self::divide(usize::try_from(limit).unwrap_or(usize::MAX), workers)
    }

    /// Half of the connections to upstreams may be idle, so that others can be opened.
    pub(crate) fn pools(&self) -> PoolLimits {
        let open_max = self.upstreams_max;
        PoolLimits { open_max, idle_max: UPSTREAMS_IDLE_MAX.min(open_max / 2) }
    }

    /// Half for clients and half for upstreams, after an eighth for pipes; each up to its own limit.
    fn divide(limit: usize, workers: usize) -> Self {
        let own = OWN_DESCRIPTORS.saturating_add(ADMIN_CONNECTIONS_MAX);
        let each = limit.saturating_sub(own) / workers.max(1);
        let pipes_max = PIPES_MAX.min(each / 16);
        let left = each.saturating_sub(2 * pipes_max);
        let upstreams_max = (2 * REQUESTS_MAX).min(left / 2).max(1);
        let requests_max = REQUESTS_MAX.min(upstreams_max - upstreams_max / 16);
        let connections_max = left.saturating_sub(upstreams_max).clamp(1, CLIENT_CONNECTIONS_MAX);
        Self { connections_max, requests_max, upstreams_max, pipes_max }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `expect`: connections, requests, upstream connections and pipes.
    #[track_caller]
    fn check(limit: usize, workers: usize, expect: [usize; 4]) {
        let found = Descriptors::divide(limit, workers);
        let Descriptors { connections_max, requests_max, upstreams_max, pipes_max } = found;
        let found = [connections_max, requests_max, upstreams_max, pipes_max];
        assert_eq!(found, expect, "{limit} for {workers}");
        let used = (connections_max + upstreams_max + 2 * pipes_max) * workers;
        assert!(limit == 0 || used + OWN_DESCRIPTORS + ADMIN_CONNECTIONS_MAX <= limit, "{used}");
    }

    #[test]
    fn descriptors_are_kept_for_upstreams_pipes_and_the_admin_port() {
        let most = [CLIENT_CONNECTIONS_MAX, REQUESTS_MAX, 2 * REQUESTS_MAX, PIPES_MAX];
        check(1_048_576, 2, most);
        check(usize::MAX, 1, most);
        check(1_024, 1, [392, 368, 392, 56]);
        check(1_024, 2, [196, 184, 196, 28]);
        check(0, 4, [1, 1, 1, 0]);
        let idle_max = |limit| Descriptors::divide(limit, 1).pools().idle_max;
        assert_eq!([usize::MAX, 1_024, 0].map(idle_max), [UPSTREAMS_IDLE_MAX, 196, 0]);
    }
}
