//! The limits of the echo backend: sizes and times.

pub use base::limits::{
    ACCEPT_BACKLOG, CLIENT_CONNECTIONS_MAX, DRAIN_BYTES_MAX, DRAIN_MS_MAX, HANDSHAKE_MS_MAX,
    WORKERS_MAX,
};

const KIB: u32 = 1024;
const MIB: u32 = 1024 * KIB;

/// Largest request body or WebSocket frame accepted by the echo backend, in bytes; messages of gRPC calls have no
/// limit. Larger: 413 and close, over HTTP/2 without close; a frame: CLOSE with 1009. Source: the Netty echo service of
/// WSO2's runs, `--max-content-length`.
pub const ECHO_BODY_BYTES_MAX: usize = MIB as usize;
/// Longest delay of the echo backend, in milliseconds. Longer: rejected at the start.
pub const ECHO_DELAY_MS_MAX: u64 = 600_000;
/// Longest response of the echo backend with its count of requests, in bytes. Longer: the case fails.
pub const ECHO_COUNT_BYTES_MAX: u64 = 4 * KIB as u64;
