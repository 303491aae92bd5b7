//! Lookups by hickory-resolver: `/etc/hosts`, then the name servers and search domains of `/etc/resolv.conf`.

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use base::SystemClock;
use base::limits::RESOLVER_CONFIG_S_MAX;
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolverConfig,
};
use hickory_resolver::net::runtime::TokioRuntimeProvider;

/// Looks up names. The system's files are read again from time to time.
pub(crate) struct Resolver {
    /// In place of the system's name servers; empty: the system's.
    servers: Vec<SocketAddr>,
    clock: SystemClock,
    /// And when it was made.
    current: RefCell<Option<(TokioResolver, u64)>>,
}

impl Resolver {
    pub(crate) fn new(servers: Vec<SocketAddr>) -> Self {
        Self { servers, clock: SystemClock::new(), current: RefCell::default() }
    }

    /// The addresses of `host`, IPv4 first, and for how long they are valid.
    ///
    /// # Errors
    /// Why there are none.
    pub(crate) async fn lookup(&self, host: &str) -> Result<(Vec<IpAddr>, Duration), String> {
        let found = self.current()?.lookup_ip(host).await.map_err(|error| error.to_string())?;
        let ttl_s = found.as_lookup().answers().iter().map(|record| record.ttl).min();
        let mut addresses: Vec<IpAddr> = found.iter().collect();
        addresses.sort_unstable();
        addresses.dedup();
        if addresses.is_empty() {
            return Err("the host name has no address".to_owned());
        }
        Ok((addresses, Duration::from_secs(u64::from(ttl_s.unwrap_or(0)))))
    }

    fn current(&self) -> Result<TokioResolver, String> {
        let now_us = self.clock.now_us();
        let mut current = self.current.borrow_mut();
        if let Some((resolver, made_us)) = &*current
            && now_us.saturating_sub(*made_us) < RESOLVER_CONFIG_S_MAX * 1_000_000
        {
            return Ok(resolver.clone());
        }
        let resolver = self.make().map_err(|error| error.to_string())?;
        *current = Some((resolver.clone(), now_us));
        Ok(resolver)
    }

    fn make(&self) -> Result<TokioResolver, hickory_resolver::net::NetError> {
        let provider = TokioRuntimeProvider::default;
        let mut builder = if self.servers.is_empty() {
            // Without `/etc/resolv.conf`, names in `/etc/hosts` can be looked up.
            TokioResolver::builder_tokio().unwrap_or_else(|_| {
                TokioResolver::builder_with_config(ResolverConfig::default(), provider())
            })
        } else {
            let servers = self.servers.iter().map(|server| {
                let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()];
                let connections = connections.map(|mut connection| {
                    connection.port = server.port();
                    connection
                });
                NameServerConfig::new(server.ip(), true, connections.to_vec())
            });
            let config = ResolverConfig::from_name_servers(servers.collect());
            TokioResolver::builder_with_config(config, provider())
        };
        let options = builder.options_mut();
        options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
        // Addresses are kept by `names`.
        options.cache_size = 0;
        builder.build()
    }
}
