//! The limits of the lab: what it reads, holds and waits for.

pub use base::limits::{
    ACCEPT_BACKLOG, BODY_BUFFER_BYTES, CLIENT_CONNECTIONS_MAX, DOCUMENT_BYTES_MAX, DRAIN_BYTES_MAX,
    DRAIN_MS_MAX, HANDSHAKE_MS_MAX, HEAD_BYTES_MAX, INTERIM_RESPONSES_MAX, RESPONSE_HEAD_BYTES_MAX,
    SWEEP_MS, TOKEN_BYTES_MAX, WORKERS_MAX,
};

const KIB: u32 = 1024;
const MIB: u32 = 1024 * KIB;

/// Largest payload that the lab makes or sends, in bytes. Larger: refused at the start.
pub const PAYLOAD_BYTES_MAX: usize = 64 * MIB as usize;
/// Largest request that the echo backend holds, in bytes. Larger: 413 and close. Source: the Netty
/// echo service of WSO2's runs, `--max-content-length`.
pub const ECHO_BODY_BYTES_MAX: usize = MIB as usize;
/// Longest delay that the echo backend may be asked for, in milliseconds.
pub const ECHO_DELAY_MS_MAX: u64 = 600_000;
/// Most users of one load generator; each holds a connection. More: refused at the start.
pub const LOAD_USERS_MAX: usize = 20_000;
/// Most tokens that the load generator reads from a file. More: refused at the start.
pub const LOAD_TOKENS_MAX: usize = 1_000_000;
/// Largest file of tokens, in bytes. Larger: refused at the start.
pub const LOAD_TOKEN_FILE_BYTES_MAX: u64 = 512 * MIB as u64;
/// Longest measurement, and longest warm-up, in seconds. Longer: refused at the start.
pub const LOAD_S_MAX: u64 = 24 * 60 * 60;
/// Longest wait for a response that may be asked for, in seconds. Source: the 600 s of WSO2's plan.
pub const LOAD_TIMEOUT_S_MAX: u64 = 600;
/// How long a user of the load generator waits after a failed connection, in milliseconds, so that a
/// dead target is not hammered.
pub const LOAD_RECONNECT_MS: u64 = 100;
/// How long requests under way are waited for after an interrupt, in milliseconds. Then they are cut.
pub const LOAD_STOP_MS: u64 = 1_000;
/// Open files that the load generator needs beside its connections: runtimes, signals, standard streams.
pub const LOAD_SPARE_FILES: u64 = 64;
/// Most requests a second that the load generator's open loop may be asked for. More: refused at the start.
pub const LOAD_RATE_MAX: u64 = 1_000_000;
/// Longest distance between two requests of the open loop, in seconds. Longer: refused at the start.
pub const LOAD_INTERVAL_S_MAX: u64 = 60 * 60;
/// Longest think time of a user of the load generator, in seconds. Longer: refused at the start.
pub const LOAD_THINK_S_MAX: u64 = 60 * 60;
/// How long before its first request a measurement is planned, in microseconds, so that its threads are there by then.
pub const LOAD_LEAD_US: u64 = 20_000;
/// How often a thread of the load generator measures how late it is, in microseconds.
pub const LOAD_LAG_PROBE_US: u64 = 10_000;
/// Samples that a thread of the load generator hands to the JTL's writer at once, about 100 bytes each.
pub const JTL_CHUNK_SAMPLES: usize = 1_024;
/// Most such chunks that wait for the JTL's writer. More: the newest are lost, counted, and doubted.
pub const JTL_CHUNKS_MAX: usize = 64;
/// Most intervals that wait for the histogram log's writer. More: the next interval is a longer one.
pub const HLOG_INTERVALS_MAX: usize = 4;
/// Shortest secret that controllers and agents of the lab may share, in bytes. Shorter: refused at the start.
pub const AGENT_SECRET_BYTES_MIN: usize = 16;
/// Longest such secret, in bytes. Longer: refused at the start.
pub const AGENT_SECRET_BYTES_MAX: usize = 4 * KIB as usize;
/// Largest first frame from a peer that has not shown that it knows the secret, in bytes. Larger: closed.
pub const AGENT_FIRST_FRAME_BYTES_MAX: usize = KIB as usize;
/// Largest frame between controller and agent, in bytes: a plan with its payload and tokens. Larger: refused.
pub const AGENT_FRAME_BYTES_MAX: usize = 256 * MIB as usize;
/// Most agents of one measurement. More: refused at the start.
pub const AGENTS_MAX: usize = 256;
/// Most connections that an agent has at once; all but one are told that it is busy. More: closed.
pub const AGENT_CONNECTIONS_MAX: usize = 8;
/// How often an agent says that it is there, in milliseconds.
pub const AGENT_ALIVE_MS: u64 = 1_000;
/// Longest silence between controller and agent, in milliseconds. Longer: the other one counts as lost.
pub const AGENT_SILENCE_MS_MAX: u64 = 10_000;
/// How often an agent's clock is asked before a measurement; the quickest answer counts.
pub const AGENT_CLOCK_LOOKS: usize = 16;
/// How long before the first request agents are told when it is, in milliseconds.
pub const AGENT_LEAD_MS: u64 = 300;
/// Least certainty about an agent's clock, in microseconds either way. Less: a doubt, since agents don't begin together.
pub const AGENT_CLOCK_UNCERTAINTY_US_MAX: u64 = 10_000;
/// Furthest that an agent's clock may be off, in microseconds. Further: a doubt.
pub const AGENT_CLOCK_OFFSET_US_MAX: u64 = 1_000_000;
/// Longest text that `--expect` may ask for, in bytes.
pub const LOAD_EXPECT_BYTES_MAX: usize = 64 * KIB as usize;
/// Longest name of a chart's file without its ending, in characters; a longer one is cut.
pub const LAB_CHART_ID_CHARS_MAX: usize = 120;
/// Most rows of a results table that the lab reads. More: refused.
pub const LAB_TABLE_ROWS_MAX: usize = 100_000;
/// Times that a comparison draws its repetitions again to see how far its ratio can be trusted.
pub const LAB_BOOTSTRAP_DRAWS: usize = 10_000;
/// Most measurements of one search for a target's knee. More are not made: it ends with what it knows.
pub const LAB_KNEE_PROBES_MAX: usize = 40;
/// Largest histogram log that a report reads for its heat map, in bytes. Larger: the chart says so.
pub const LAB_HLOG_BYTES_MAX: u64 = 256 * MIB as u64;
/// Most cases whose histogram stands on a report's page. Those of more cases are files beside it, which
/// the page names.
pub const LAB_HISTOGRAM_CHARTS_MAX: usize = 24;
/// Most cases of one report whose histogram is drawn. More: the page says how many are left out.
pub const LAB_HISTOGRAM_FILES_MAX: usize = 1_024;
/// Largest results table that the lab reads, in bytes. Larger: refused.
pub const LAB_TABLE_BYTES_MAX: u64 = 64 * MIB as u64;
/// Largest file of a suite or a target, in bytes. Larger: refused.
pub const SUITE_BYTES_MAX: u64 = MIB as u64;
/// How long a program that a suite started may take to end when it is asked to, in milliseconds. Longer: killed.
pub const LAB_STOP_MS: u64 = 20_000;
/// Most looks at the processes of one case, five per second: longer cases keep the first ones.
pub const LAB_LOOKS_MAX: usize = 1_000_000;
/// Longest garbage collector log that is read, in bytes. Longer: the case carries a doubt instead.
pub const GC_LOG_BYTES_MAX: u64 = 256 * MIB as u64;
