//! `/metrics`: the workers' counters, summed, in Prometheus' text format 0.0.4.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::counters::{ApiFigures, Histogram, LATENCY_EDGES_US, WorkerFigures};
use crate::forward::PoolFigures;

/// Renders the sum of `workers`. `more`: families of other crates, already in the format.
pub(crate) fn expose(workers: &[WorkerFigures], build: &str, uptime_s: u64, more: &str) -> String {
    let mut page = Page(String::new());
    page.family("penstock_build_info", "gauge", "Version of this build.");
    page.line("penstock_build_info", &[("version", build)], 1);
    page.family("penstock_uptime_seconds", "gauge", "Time since startup.");
    page.line("penstock_uptime_seconds", &[], uptime_s);
    page.apis(workers);
    page.connections(workers);
    page.upstreams(workers);
    page.tokens(workers);
    page.0.push_str(more);
    page.0
}

struct Page(String);

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string cannot fail.
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn line(&mut self, name: &str, labels: &[(&str, &str)], value: u64) {
        self.labelled(name, labels);
        let _ = writeln!(self.0, " {value}");
    }

    fn labelled(&mut self, name: &str, labels: &[(&str, &str)]) {
        self.0.push_str(name);
        for (position, (label, value)) in labels.iter().enumerate() {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.0, "{}{label}=\"{value}\"", if position == 0 { '{' } else { ',' });
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
    }

    fn apis(&mut self, workers: &[WorkerFigures]) {
        let apis = sum_apis(workers);
        self.family(
            "penstock_requests_total",
            "counter",
            "Finished requests by operation and status. Status 499: the client closed first.",
        );
        for ((api, version), sum) in &apis {
            for ((method, template, status), count) in &sum.requests {
                let status = status.to_string();
                let labels = [
                    ("api", api.as_str()),
                    ("version", version.as_str()),
                    ("method", method.as_str()),
                    ("operation", template.as_str()),
                    ("status", status.as_str()),
                ];
                self.line("penstock_requests_total", &labels, *count);
            }
        }
        for (status, count) in unrouted(workers) {
            let status = status.to_string();
            let labels = [
                ("api", ""),
                ("version", ""),
                ("method", ""),
                ("operation", ""),
                ("status", status.as_str()),
            ];
            self.line("penstock_requests_total", &labels, count);
        }
        self.family(
            "penstock_sent_bytes_total",
            "counter",
            "Bytes of responses sent, heads included.",
        );
        for ((api, version), sum) in &apis {
            self.line("penstock_sent_bytes_total", &[("api", api), ("version", version)], sum.sent);
        }
        self.family(
            "penstock_request_seconds",
            "histogram",
            "Time from the complete request head to the last byte of the response.",
        );
        for ((api, version), sum) in &apis {
            self.histogram(api, version, &sum.latency);
        }
        self.family("penstock_endpoints_suspended", "gauge", "Suspended endpoints.");
        for ((api, version), sum) in &apis {
            let labels = [("api", api.as_str()), ("version", version.as_str())];
            self.line("penstock_endpoints_suspended", &labels, sum.suspended);
        }
        self.family(
            "penstock_auth_failures_total",
            "counter",
            "Rejected credentials by API and reason.",
        );
        for ((api, version), sum) in &apis {
            for (reason, count) in &sum.auth_failures {
                let labels = [("api", api.as_str()), ("version", version), ("reason", reason)];
                self.line("penstock_auth_failures_total", &labels, *count);
            }
        }
    }

    fn histogram(&mut self, api: &str, version: &str, latency: &Histogram) {
        let mut below = 0;
        for (edge, count) in LATENCY_EDGES_US.iter().zip(latency.buckets) {
            below += count;
            let edge = seconds(*edge);
            let labels = [("api", api), ("version", version), ("le", edge.as_str())];
            self.line("penstock_request_seconds_bucket", &labels, below);
        }
        let labels = [("api", api), ("version", version), ("le", "+Inf")];
        self.line("penstock_request_seconds_bucket", &labels, latency.count());
        let labels = [("api", api), ("version", version)];
        self.labelled("penstock_request_seconds_sum", &labels);
        let _ = writeln!(self.0, " {}", seconds(latency.sum_us));
        self.line("penstock_request_seconds_count", &labels, latency.count());
    }

    fn connections(&mut self, workers: &[WorkerFigures]) {
        let sum = |figure: fn(&WorkerFigures) -> u64| workers.iter().map(figure).sum::<u64>();
        let rows: [(&str, &str, &str, u64); 12] = [
            ("penstock_connections", "gauge", "Open client connections.", sum(|w| w.connections)),
            (
                "penstock_connections_accepted_total",
                "counter",
                "Accepted client connections.",
                sum(|w| w.accepted),
            ),
            (
                "penstock_handshakes_failed_total",
                "counter",
                "Failed TLS handshakes.",
                sum(|w| w.handshakes_failed),
            ),
            (
                "penstock_retries_total",
                "counter",
                "Requests sent to an upstream a second time.",
                sum(|w| w.retries),
            ),
            (
                "penstock_retries_denied_total",
                "counter",
                "Retries that exceeded the retry budget, so that the failure was the response.",
                sum(|w| w.retries_denied),
            ),
            (
                "penstock_quota_unreported_total",
                "counter",
                "Responses without the number that a limit counts.",
                sum(|w| w.unreported),
            ),
            (
                "penstock_tunnels_total",
                "counter",
                "Connections turned into tunnels.",
                sum(|w| w.tunnels),
            ),
            (
                "penstock_http2_floods_total",
                "counter",
                "HTTP/2 connections closed because of too many control frames.",
                sum(|w| w.http2_floods),
            ),
            (
                "penstock_http2_refused_streams_total",
                "counter",
                "HTTP/2 streams refused because their client, or all clients, had too many.",
                sum(|w| w.http2_refused),
            ),
            (
                "penstock_heavy_work_total",
                "counter",
                "Steps of mediation that ran on the threads for heavy work.",
                sum(|w| w.heavy_work),
            ),
            (
                "penstock_held_body_bytes",
                "gauge",
                "Memory that held bodies are charged for.",
                sum(|w| w.held_bytes),
            ),
            (
                "penstock_access_log_lost_total",
                "counter",
                "Access log lines dropped because the disk was full or too slow.",
                sum(|w| w.log_lines_lost),
            ),
        ];
        for (name, kind, help, value) in rows {
            self.family(name, kind, help);
            self.line(name, &[], value);
        }
        let name = "penstock_connections_refused_total";
        self.family(name, "counter", "Client connections rejected, by the limit they exceeded.");
        for (limit, count) in sums(workers.iter().flat_map(|worker| worker.rejected_connections)) {
            self.line(name, &[("limit", limit)], count);
        }
        self.family("penstock_faults_total", "counter", "Faults and denials by blame.");
        for (blame, count) in sums(workers.iter().flat_map(|worker| worker.faults)) {
            self.line("penstock_faults_total", &[("blame", blame)], count);
        }
        self.family("penstock_workers", "gauge", "Worker threads.");
        self.line("penstock_workers", &[], workers.len() as u64);
        self.family(
            "penstock_worker_revision",
            "gauge",
            "Revision of the snapshot served by each worker.",
        );
        for worker in workers {
            let number = worker.worker.to_string();
            self.line("penstock_worker_revision", &[("worker", &number)], worker.revision);
        }
    }

    fn upstreams(&mut self, workers: &[WorkerFigures]) {
        let mut sums: BTreeMap<&str, PoolFigures> = BTreeMap::new();
        for (address, pool) in workers.iter().flat_map(|worker| &worker.upstreams) {
            let sum = sums.entry(address).or_default();
            sum.idle += pool.idle;
            sum.in_use += pool.in_use;
            sum.waiting += pool.waiting;
            sum.opened += pool.opened;
            sum.failed += pool.failed;
            sum.awaited += pool.awaited;
            sum.shed += pool.shed;
        }
        self.family("penstock_upstream_connections", "gauge", "Upstream connections by state.");
        for (address, sum) in &sums {
            for (state, value) in
                [("idle", sum.idle), ("in_use", sum.in_use), ("waited_for", sum.waiting)]
            {
                self.line(
                    "penstock_upstream_connections",
                    &[("endpoint", address), ("state", state)],
                    value,
                );
            }
        }
        let name = "penstock_upstream_requests_waiting";
        self.family(name, "gauge", "Requests that wait for a connection or a response head.");
        for (address, sum) in &sums {
            self.line(name, &[("endpoint", address)], sum.awaited);
        }
        let name = "penstock_upstream_requests_shed_total";
        self.family(name, "counter", "Requests rejected by `endpoint_waiting_max`.");
        for (address, sum) in &sums {
            self.line(name, &[("endpoint", address)], sum.shed);
        }
        self.local_ports(workers);
        self.family(
            "penstock_health_checks_total",
            "counter",
            "Health checks of endpoints, by outcome.",
        );
        for (position, outcome) in ["passed", "failed"].into_iter().enumerate() {
            let counts = workers.iter().filter_map(|worker| worker.health_checks.get(position));
            let count = counts.copied().max().unwrap_or(0);
            self.line("penstock_health_checks_total", &[("outcome", outcome)], count);
        }
        self.family(
            "penstock_upstream_connects_total",
            "counter",
            "Attempts to connect to an upstream, by outcome.",
        );
        for (address, sum) in &sums {
            for (outcome, value) in [("opened", sum.opened), ("failed", sum.failed)] {
                let labels = [("endpoint", *address), ("outcome", outcome)];
                self.line("penstock_upstream_connects_total", &labels, value);
            }
        }
    }

    fn local_ports(&mut self, workers: &[WorkerFigures]) {
        // Workers share the ports: the figures of each are as old as its reply.
        let most = workers.iter().map(|worker| worker.local_ports.most).max().unwrap_or(0);
        let used = workers.iter().map(|worker| worker.local_ports.used).max().unwrap_or(0);
        let name = "penstock_local_ports_used";
        self.family(
            name,
            "gauge",
            "Local ports of the destination with the most upstream connections from one address.",
        );
        self.line(name, &[], used);
        let name = "penstock_local_ports_limit";
        self.family(name, "gauge", "Local ports that these connections may take at most.");
        self.line(name, &[], most);
    }

    fn tokens(&mut self, workers: &[WorkerFigures]) {
        let sum = |figure: fn(&WorkerFigures) -> u64| workers.iter().map(figure).sum::<u64>();
        self.family(
            "penstock_token_cache_lookups_total",
            "counter",
            "Lookups in the cache of verified tokens.",
        );
        self.line(
            "penstock_token_cache_lookups_total",
            &[("outcome", "hit")],
            sum(|w| w.token_hits),
        );
        self.line(
            "penstock_token_cache_lookups_total",
            &[("outcome", "miss")],
            sum(|w| w.token_misses),
        );
        self.family(
            "penstock_token_cache_tokens",
            "gauge",
            "Cached tokens, summed over all workers.",
        );
        self.line("penstock_token_cache_tokens", &[], sum(|w| w.tokens));
        self.family("penstock_token_cache_bytes", "gauge", "Memory used by the token caches.");
        self.line("penstock_token_cache_bytes", &[], sum(|w| w.token_bytes));
        self.family(
            "penstock_introspections_total",
            "counter",
            "Requests to issuers about opaque tokens, by outcome.",
        );
        for (position, outcome) in ["active", "inactive", "failed"].into_iter().enumerate() {
            let counts = workers.iter().filter_map(|worker| worker.introspections.get(position));
            let count = counts.map(|(_, count)| count).sum::<u64>();
            self.line("penstock_introspections_total", &[("outcome", outcome)], count);
        }
    }
}

#[derive(Default)]
struct ApiSum {
    latency: Histogram,
    sent: u64,
    suspended: u64,
    auth_failures: BTreeMap<&'static str, u64>,
    requests: BTreeMap<(String, String, u16), u64>,
}

fn sum_apis(workers: &[WorkerFigures]) -> BTreeMap<(String, String), ApiSum> {
    let mut sums: BTreeMap<(String, String), ApiSum> = BTreeMap::new();
    for api in workers.iter().flat_map(|worker| &worker.apis) {
        add(sums.entry((api.name.clone(), api.version.clone())).or_default(), api);
    }
    sums
}

fn add(sum: &mut ApiSum, api: &ApiFigures) {
    sum.latency.merge(&api.latency);
    sum.sent = sum.sent.saturating_add(api.sent);
    // Workers share the health of endpoints.
    sum.suspended = sum.suspended.max(api.suspended);
    for failures in &api.auth_failures {
        *sum.auth_failures.entry(failures.reason.as_str()).or_default() += failures.count;
    }
    for operation in &api.operations {
        for counted in &operation.statuses {
            let key = (operation.method.to_owned(), operation.template.to_string(), counted.status);
            *sum.requests.entry(key).or_default() += counted.count;
        }
    }
}

/// Counts summed by label.
fn sums(counts: impl Iterator<Item = (&'static str, u64)>) -> BTreeMap<&'static str, u64> {
    let mut sums = BTreeMap::new();
    for (label, count) in counts {
        *sums.entry(label).or_default() += count;
    }
    sums
}

fn unrouted(workers: &[WorkerFigures]) -> BTreeMap<u16, u64> {
    let mut sums = BTreeMap::new();
    for counted in workers.iter().flat_map(|worker| &worker.unrouted) {
        *sums.entry(counted.status).or_default() += counted.count;
    }
    sums
}

fn seconds(us: u64) -> String {
    format!("{}.{:06}", us / 1_000_000, us % 1_000_000)
}
