//! The endpoints of requests: `x-wso2-production-endpoints`, `x-wso2-sandbox-endpoints`, `x-wso2-endpoints`, else
//! `servers`.

use std::net::IpAddr;

use model::{BackendAuth, Endpoint, Place, Scheme, Upstream, UpstreamKind};

use super::extensions::{self, Level};
use super::{Defaults, backend_auth, resilience, values};
use crate::address;
use crate::report::{Report, one_of, shorten, suggest};
use crate::tree::{Map, Member, Node};

/// The endpoint sets of one API, without duplicates, referred to by index.
pub(super) struct Upstreams<'n> {
    defaults: &'n Defaults,
    /// `x-wso2-endpoints`.
    named: Vec<(&'n str, &'n Node<'n>)>,
    pub(super) list: Vec<Upstream>,
}

/// The keys of an endpoint set. Source: API Microgateway, Choreo Connect.
const KEYS: [&str; 7] = [
    "type",
    "urls",
    "advanceEndpointConfig",
    "suspendEndpointFailure",
    "securityConfig",
    "name",
    "disableSslVerification",
];
const TYPES: [&str; 4] = ["http", "load_balance", "loadbalance", "failover"];

impl<'n> Upstreams<'n> {
    pub(super) fn new(defaults: &'n Defaults) -> Self {
        Self { defaults, named: Vec::new(), list: Vec::new() }
    }

    /// Reads `x-wso2-endpoints`: a map of named sets, or WSO2's list of maps of one each.
    pub(super) fn name_them(&mut self, node: &'n Node<'n>, report: &mut Report) {
        let maps: Vec<&'n Map<'n>> = match node.as_list() {
            Some(items) => items
                .iter()
                .filter_map(|item| values::map(item, "x-wso2-endpoints", report))
                .collect(),
            None => values::map(node, "x-wso2-endpoints", report).into_iter().collect(),
        };
        for member in maps.into_iter().flat_map(Map::iter) {
            if self.named.iter().any(|(name, _)| *name == member.key) {
                let message = format!("duplicate endpoint set `{}`", shorten(&member.key));
                report.error(member.key_place, message, "rename or remove one of them");
            } else {
                self.named.push((&member.key, &member.value));
            }
        }
    }

    /// Reads one endpoint set, written here or referred to by name. `None` if it is invalid, which is reported.
    pub(super) fn read(&mut self, member: &Member<'_>, report: &mut Report) -> Option<usize> {
        let node = match member.value.as_text() {
            Some(reference) => self.named(reference, member.value.place, report)?,
            None => &member.value,
        };
        let upstream = self.set(node, &member.key, report)?;
        Some(self.index(upstream))
    }

    /// Reads all named sets. Invalid ones are reported.
    pub(super) fn all_named(&mut self, report: &mut Report) -> Vec<(String, usize)> {
        let mut all = Vec::new();
        for (name, node) in self.named.clone() {
            if let Some(upstream) = self.set(node, name, report) {
                all.push((name.to_owned(), self.index(upstream)));
            }
        }
        all
    }

    /// The index of `upstream`, which is added if new.
    pub(super) fn index(&mut self, upstream: Upstream) -> usize {
        let known = self.list.iter().position(|other| *other == upstream);
        known.unwrap_or_else(|| {
            self.list.push(upstream);
            self.list.len().saturating_sub(1)
        })
    }

    fn named(&self, reference: &str, place: Place, report: &mut Report) -> Option<&'n Node<'n>> {
        let Some(name) = reference.strip_prefix("#/x-wso2-endpoints/") else {
            let message = format!("`{}` is not an endpoint set", shorten(reference));
            return report.reject(
                place,
                message,
                "write `{urls: [http://host:port]}` or `#/x-wso2-endpoints/NAME`",
            );
        };
        let found = self.named.iter().find(|(known, _)| *known == name);
        if found.is_none() {
            let names = self.named.iter().map(|(name, _)| *name);
            let help = suggest(name, names, || "add it to `x-wso2-endpoints`".to_owned());
            report.error(place, format!("undefined endpoint set `{}`", shorten(name)), help);
        }
        found.map(|(_, node)| *node)
    }

    fn set(&self, node: &Node<'_>, name: &str, report: &mut Report) -> Option<Upstream> {
        let map = values::map(node, name, report)?;
        extensions::check(map, Level::SET, report);
        let unknown = |key: &str| !KEYS.contains(&key) && !extensions::is_extension(key);
        for member in map.iter().filter(|member| unknown(&member.key)) {
            let help = suggest(&member.key, KEYS, || format!("the keys are {}", one_of(KEYS)));
            report.warning(
                member.key_place,
                format!("unknown key `{}` in an endpoint set", shorten(&member.key)),
                help,
            );
        }
        check_unsupported(map, report);
        let security = map.get("securityConfig");
        let credential =
            security.and_then(|node| backend_auth::read(node, &self.defaults.credentials, report));
        let endpoints = urls(map, node.place, report);
        if let (Some(credential), Some(endpoints), Some(node)) = (&credential, &endpoints, security)
        {
            warn_of_clear(endpoints, node.place, report);
            let is_of_one = match credential {
                BackendAuth::Named(name) => self.defaults.of_one_endpoint.contains(name),
                BackendAuth::Own(own) => own.is_of_one_endpoint(),
            };
            if endpoints.len() > 1 && is_of_one {
                let message = "this credential is for one endpoint, and the set has several";
                report.error(node.place, message, "keep one URL");
            }
        }
        let kind = kind(map, endpoints.as_ref().map_or(0, Vec::len), report);
        let mut upstream = self.upstream(kind?, endpoints?);
        upstream.credential = credential;
        resilience::read(map, &mut upstream, report);
        Some(upstream)
    }

    fn upstream(&self, kind: UpstreamKind, endpoints: Vec<Endpoint>) -> Upstream {
        let mut upstream = Upstream::new(kind, endpoints);
        upstream.response_head_ms = self.defaults.response_head_ms;
        upstream.try_ms = self.defaults.try_ms;
        upstream.retry.budget_percent = self.defaults.retry_budget_percent;
        upstream
    }

    /// One set with the URLs of `servers`.
    pub(super) fn of_servers(&mut self, endpoints: Vec<Endpoint>) -> Option<usize> {
        let kind = match endpoints.len() {
            0 => return None,
            1 => UpstreamKind::Single,
            _ => UpstreamKind::RoundRobin,
        };
        Some(self.index(self.upstream(kind, endpoints)))
    }
}

/// Warns of a credential that others can read in transit.
fn warn_of_clear(endpoints: &[Endpoint], place: Place, report: &mut Report) {
    let is_read = |endpoint: &&Endpoint| {
        let is_loopback = endpoint.host == "localhost"
            || endpoint.host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        endpoint.scheme == Scheme::Http && !is_loopback
    };
    if let Some(endpoint) = endpoints.iter().find(is_read) {
        let message = format!(
            "the credential is sent to `{}` over http, where it can be read in transit",
            shorten(&endpoint.authority)
        );
        report.warning(place, message, "use https:// for the endpoint");
    }
}

fn check_unsupported(map: &Map<'_>, report: &mut Report) {
    let unverified = map.member("disableSslVerification");
    if let Some(member) = unverified.filter(|member| member.value.as_bool() != Some(false)) {
        let message = "`disableSslVerification` is not supported: certificates of upstreams are always verified";
        let help = "trust the upstream's CA in penstock.toml: [upstream_tls] ca = [\"ca.pem\"]";
        report.warning(member.key_place, message, help);
    }
}

fn kind(map: &Map<'_>, endpoints: usize, report: &mut Report) -> Option<UpstreamKind> {
    let several = endpoints > 1;
    let Some(node) = map.get("type") else {
        return Some(if several { UpstreamKind::RoundRobin } else { UpstreamKind::Single });
    };
    let written = values::text(node, "type", report)?;
    match written.to_ascii_lowercase().as_str() {
        "http" if several => {
            let help = "write `load_balance` or `failover`, or keep one URL";
            report.reject(node.place, "type `http` allows one URL", help)
        }
        "http" => Some(UpstreamKind::Single),
        "load_balance" | "loadbalance" | "failover" if endpoints == 1 => Some(UpstreamKind::Single),
        "load_balance" | "loadbalance" => Some(UpstreamKind::RoundRobin),
        "failover" => Some(UpstreamKind::Failover),
        other => {
            let help = suggest(other, TYPES, || {
                format!("write {}", one_of(["http", "load_balance", "failover"]))
            });
            report.reject(
                node.place,
                format!("unsupported endpoint type `{}`", shorten(written)),
                help,
            )
        }
    }
}

fn urls(map: &Map<'_>, place: Place, report: &mut Report) -> Option<Vec<Endpoint>> {
    let Some(node) = map.get("urls") else {
        return report.reject(
            place,
            "the endpoint set has no `urls`",
            "add `urls: [http://host:port/path]`",
        );
    };
    let written = values::texts(node, "urls", report)?;
    if written.is_empty() {
        return report.reject(node.place, "`urls` is empty", "add a URL");
    }
    let count = written.len();
    let endpoints: Vec<Endpoint> = written
        .into_iter()
        .filter_map(|(url, place)| match address::endpoint(url) {
            Ok(endpoint) => Some(endpoint),
            Err((message, help)) => report.reject(place, message, help),
        })
        .collect();
    (endpoints.len() == count).then_some(endpoints)
}
