//! The rules of the gateway for HTTP and for APIs, end to end over real sockets: one test for each rule.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod access_log;
mod auth_failures;
mod bodies;
mod descriptions;
mod disconnects;
mod endpoints;
mod exchange;
mod expect;
mod fields;
mod files;
mod framing;
mod inbound_endpoints;
mod integration;
mod integration_bodies;
mod integration_codings;
mod integration_cors;
mod interceptors;
mod introspection;
mod keep_alive;
mod lifecycle;
mod long_bodies;
mod mediation;
mod mutual_tls;
mod names;
mod paths;
mod policies;
mod quotas;
mod resilience;
mod response_cache;
mod routing;
mod schemas;
mod tokens;
mod upgrades;
mod uploads;
mod upstreams;
