//! How the file descriptors of the process are divided, so that clients cannot take those of upstreams, of the admin port
//! or of files.

use base::limits::{
    ADMIN_CONNECTIONS_MAX, CLIENT_CONNECTIONS_MAX, OWN_DESCRIPTORS, PIPES_MAX, REQUESTS_MAX,
    UPSTREAMS_IDLE_MAX,
};
use nix::sys::resource::{Resource, getrlimit};

/// What one worker may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptors {
    /// Maximum number of client connections.
    pub(crate) connections_max: usize,
    /// Maximum number of requests in progress, each with an upstream connection.
    pub(crate) requests_max: usize,
    /// Maximum number of pipes, with two descriptors each.
    pub(crate) pipes_max: usize,
}

impl Descriptors {
    /// The share of each of `workers` in the process's limit.
    pub(crate) fn of_process(workers: usize) -> Self {
        let limit = getrlimit(Resource::RLIMIT_NOFILE).map_or(u64::MAX, |(soft, _)| soft);
        Self::divide(usize::try_from(limit).unwrap_or(usize::MAX), workers)
    }

    /// Maximum number of idle upstream connections: half of those to upstreams, so that others can be opened.
    pub(crate) fn idle_max(&self) -> usize {
        UPSTREAMS_IDLE_MAX.min(self.requests_max / 2)
    }

    /// Half for clients and half for upstreams, after an eighth for pipes; each up to its own limit.
    fn divide(limit: usize, workers: usize) -> Self {
        let own = OWN_DESCRIPTORS.saturating_add(ADMIN_CONNECTIONS_MAX);
        let each = limit.saturating_sub(own) / workers.max(1);
        let pipes_max = PIPES_MAX.min(each / 16);
        let left = each.saturating_sub(2 * pipes_max);
        let requests_max = REQUESTS_MAX.min(left / 2).max(1);
        let connections_max = left.saturating_sub(requests_max).clamp(1, CLIENT_CONNECTIONS_MAX);
        Self { connections_max, requests_max, pipes_max }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(limit: usize, workers: usize, connections: usize, requests: usize, pipes: usize) {
        let found = Descriptors::divide(limit, workers);
        let expect =
            Descriptors { connections_max: connections, requests_max: requests, pipes_max: pipes };
        assert_eq!(found, expect, "{limit} for {workers}");
        let used = (connections + requests + 2 * pipes) * workers;
        assert!(limit == 0 || used + OWN_DESCRIPTORS + ADMIN_CONNECTIONS_MAX <= limit, "{used}");
    }

    #[test]
    fn descriptors_are_kept_for_upstreams_pipes_and_the_admin_port() {
        check(1_048_576, 2, CLIENT_CONNECTIONS_MAX, REQUESTS_MAX, PIPES_MAX);
        check(usize::MAX, 1, CLIENT_CONNECTIONS_MAX, REQUESTS_MAX, PIPES_MAX);
        check(1_024, 1, 392, 392, 56);
        check(1_024, 2, 196, 196, 28);
        check(0, 4, 1, 1, 0);
        let idle_max = |limit| Descriptors::divide(limit, 1).idle_max();
        assert_eq!([usize::MAX, 1_024, 0].map(idle_max), [UPSTREAMS_IDLE_MAX, 196, 0]);
    }
}
