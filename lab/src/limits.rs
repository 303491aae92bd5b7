//! The limits of the lab: sizes, counts and times.

pub use base::limits::{
    ACCEPT_BACKLOG, BODY_BUFFER_BYTES, CLIENT_CONNECTIONS_MAX, DOCUMENT_BYTES_MAX, DRAIN_BYTES_MAX,
    DRAIN_MS_MAX, HANDSHAKE_MS_MAX, HEAD_BYTES_MAX, INTERIM_RESPONSES_MAX, RESPONSE_HEAD_BYTES_MAX,
    SWEEP_MS, TOKEN_BYTES_MAX, WORKERS_MAX,
};

const KIB: u32 = 1024;
const MIB: u32 = 1024 * KIB;

/// Largest payload, in bytes. Larger: rejected at the start.
pub const PAYLOAD_BYTES_MAX: usize = 64 * MIB as usize;
/// Maximum number of users of a load generator; each has a connection. More: rejected at the start.
pub const LOAD_USERS_MAX: usize = 20_000;
/// Maximum number of users that share an HTTP/2 connection of a load generator. More: rejected at the start.
pub const LOAD_STREAMS_MAX: usize = 1_000;
/// Requests of an open loop that a connection skips as overdue before it yields to others.
pub const LOAD_UNSENT_AT_ONCE: usize = 256;
/// Maximum number of tokens in a file. More: rejected at the start.
pub const LOAD_TOKENS_MAX: usize = 1_000_000;
/// Largest token file, in bytes. Larger: rejected at the start.
pub const LOAD_TOKEN_FILE_BYTES_MAX: u64 = 512 * MIB as u64;
/// Longest measured time, and longest warm-up, in seconds. Longer: rejected at the start.
pub const LOAD_S_MAX: u64 = 24 * 60 * 60;
/// Longest response timeout, in seconds. Longer: rejected at the start. Source: the 600 s of WSO2's test
/// plan.
pub const LOAD_TIMEOUT_S_MAX: u64 = 600;
/// Pause of a user after a failed connection, in milliseconds, so that a target that is down is not flooded.
pub const LOAD_RECONNECT_MS: u64 = 100;
/// Grace period for requests in flight after an interrupt, in milliseconds. Then they are aborted.
pub const LOAD_STOP_MS: u64 = 1_000;
/// Open files that the load generator needs in addition to its connections: runtimes, signals, standard
/// streams.
pub const LOAD_SPARE_FILES: u64 = 64;
/// Highest rate of an open loop, in requests per second. Higher: rejected at the start.
pub const LOAD_RATE_MAX: u64 = 1_000_000;
/// Longest interval between two requests of an open loop, in seconds. Longer: rejected at the start.
pub const LOAD_INTERVAL_S_MAX: u64 = 60 * 60;
/// Maximum number of stages of a load. More: rejected at the start.
pub const LOAD_STAGES_MAX: usize = 100;
/// Longest think time, in seconds. Longer: rejected at the start.
pub const LOAD_THINK_S_MAX: u64 = 60 * 60;
/// Maximum number of messages of a gRPC call. More: rejected at the start.
pub const LOAD_GRPC_MESSAGES_MAX: usize = 10_000;
/// Maximum number of requests of a scenario. More: rejected at the start.
pub const SCENARIO_REQUESTS_MAX: usize = 100;
/// Longest name of a request of a scenario, in characters. Longer: rejected at the start.
pub const SCENARIO_NAME_CHARS_MAX: usize = 100;
/// Largest data file of a scenario, in bytes. Larger: rejected at the start.
pub const SCENARIO_DATA_BYTES_MAX: u64 = 64 * MIB as u64;
/// Largest response body from which a scenario extracts a value, in bytes. Larger: the request fails.
pub const SCENARIO_BODY_BYTES_MAX: usize = MIB as usize;
/// Largest HAR file or API description that becomes a scenario, in bytes. Larger: rejected.
pub const SCENARIO_SOURCE_BYTES_MAX: u64 = 64 * MIB as u64;
/// Time between scheduling a measurement and its first request, in microseconds, so that all threads are
/// ready.
pub const LOAD_LEAD_US: u64 = 20_000;
/// Interval of the scheduling lag probe of a generator thread, in microseconds.
pub const LOAD_LAG_PROBE_US: u64 = 10_000;
/// Samples that a generator thread passes to the JTL writer at once, about 100 bytes each.
pub const JTL_CHUNK_SAMPLES: usize = 1_024;
/// Maximum number of chunks of samples queued for the JTL writer. More: the newest are dropped and counted, with a
/// warning.
pub const JTL_CHUNKS_MAX: usize = 64;
/// Maximum number of intervals queued for the histogram log writer. More: the next interval is longer.
pub const HLOG_INTERVALS_MAX: usize = 4;
/// Longest time until a scraper of metrics sends its request or reads the response, in milliseconds. Longer: closed.
pub const METRICS_MS_MAX: u64 = 1_000;
/// Shortest secret shared by controllers and agents, in bytes. Shorter: rejected at the start.
pub const AGENT_SECRET_BYTES_MIN: usize = 16;
/// Longest secret shared by controllers and agents, in bytes. Longer: rejected at the start.
pub const AGENT_SECRET_BYTES_MAX: usize = 4 * KIB as usize;
/// Maximum number of seconds that wait for an agent which has not reported them. More: reported without it.
pub const AGENT_SECONDS_PENDING_MAX: usize = 30;
/// Largest frame between controller and agent, in bytes; a plan includes its payload and tokens. Larger:
/// rejected.
pub const AGENT_FRAME_BYTES_MAX: usize = 256 * MIB as usize;
/// Maximum number of agents of a measurement. More: rejected at the start.
pub const AGENTS_MAX: usize = 256;
/// Maximum number of simultaneous connections to an agent; all but one get a busy message. More: connection closed.
pub const AGENT_CONNECTIONS_MAX: usize = 8;
/// Interval of keep-alive messages between controller and agent, in milliseconds.
pub const AGENT_ALIVE_MS: u64 = 1_000;
/// Longest silence between controller and agent, in milliseconds. Longer: the peer counts as lost.
pub const AGENT_SILENCE_MS_MAX: u64 = 10_000;
/// Number of clock comparisons with an agent before a measurement; the one with the shortest round trip is
/// used.
pub const AGENT_CLOCK_SAMPLES: usize = 16;
/// Lead time of the start message to agents, in milliseconds.
pub const AGENT_LEAD_MS: u64 = 300;
/// Largest uncertainty of an agent's clock offset, in microseconds. Larger: a warning, since agents do not
/// start together.
pub const AGENT_CLOCK_UNCERTAINTY_US_MAX: u64 = 10_000;
/// Largest offset of an agent's time of day, in microseconds. Larger: a note.
pub const AGENT_CLOCK_OFFSET_US_MAX: u64 = 1_000_000;
/// Maximum number of seconds in the time series of a measurement. More: later ones are left out of the JSON.
pub const LOAD_SERIES_MAX: usize = 86_400;
/// Most bytes of a second of a time series in a `result.json`.
pub const LOAD_SERIES_POINT_BYTES_MAX: u64 = 512;
const _: () = assert!(
    LOAD_SERIES_MAX as u64 * LOAD_SERIES_POINT_BYTES_MAX + 16 * MIB as u64 <= LAB_RESULT_BYTES_MAX,
    "what `lab load` and `lab run` write can be read"
);
/// Longest text of `--expect`, in bytes. Longer: rejected at the start.
pub const LOAD_EXPECT_BYTES_MAX: usize = 64 * KIB as usize;
/// Longest file name of a chart without extension, in characters. Longer: truncated.
pub const LAB_CHART_ID_CHARS_MAX: usize = 120;
/// Maximum number of rows of a results table. More: rejected.
pub const LAB_TABLE_ROWS_MAX: usize = 100_000;
/// Maximum number of measurements of a knee search. More: the search ends with the interval found so far.
pub const LAB_KNEE_PROBES_MAX: usize = 40;
/// Largest histogram log read by a report, in bytes. Larger: the chart is left out, with a note.
pub const LAB_HLOG_BYTES_MAX: u64 = 256 * MIB as u64;
/// Maximum number of cases with a histogram on a report's page. More: the others are written to files, which the page
/// lists.
pub const LAB_HISTOGRAM_CHARTS_MAX: usize = 24;
/// Maximum number of cases of a report with a histogram. More: the page states how many are left out.
pub const LAB_HISTOGRAM_FILES_MAX: usize = 1_024;
/// Most bytes of charts, with their tables, on a report's page. More: the others are only files, which the page lists.
pub const LAB_PAGE_CHARTS_BYTES_MAX: usize = 600 * KIB as usize;
/// Most cases listed below a warning or threshold on a report's page. More: the list ends with their number.
pub const LAB_PAGE_ITEMS_MAX: usize = 12;
/// Most bytes of the rows of a table on a report's page. More: the table is followed by their number.
pub const LAB_PAGE_TABLE_BYTES_MAX: usize = 120 * KIB as usize;
/// Largest results table, in bytes. Larger: rejected.
pub const LAB_TABLE_BYTES_MAX: u64 = 64 * MIB as u64;
/// Largest `result.json`, `suite.json` or output of `lab load --json`, in bytes. Larger: rejected.
pub const LAB_RESULT_BYTES_MAX: u64 = 64 * MIB as u64;
/// Largest suite, target or thresholds file, in bytes. Larger: rejected.
pub const SUITE_BYTES_MAX: u64 = MIB as u64;
/// Grace period for a process to end when asked to, in milliseconds. Longer: killed.
pub const LAB_STOP_MS: u64 = 20_000;
/// Longest time of a target's version command, in milliseconds. Longer: killed, and the result has the
/// error as its version.
pub const LAB_VERSION_MS_MAX: u64 = 10_000;
/// Longest output of a target's version command that is read, in bytes. The rest is ignored.
pub const LAB_VERSION_BYTES_MAX: u64 = 4 * KIB as u64;
/// Longest time of a target's command that prints tokens, in milliseconds. Longer: killed, and the case fails.
pub const LAB_TOKENS_MS_MAX: u64 = 600_000;
/// Maximum number of resource samples of a case, at five per second. More: later ones are not taken.
pub const LAB_USAGE_SAMPLES_MAX: usize = 1_000_000;
/// Maximum number of numbered files of a target's process. More: the case fails.
pub const LAB_TARGET_FILES_MAX: u32 = 100_000;
/// Maximum number of changes of a running target in a case. More: not made.
pub const LAB_CHANGES_MAX: usize = 1_000_000;
/// Longest time until a change of a target is live, in milliseconds. Longer: counted as lost, an error.
pub const LAB_CHANGE_MS_MAX: u64 = 5_000;
/// Longest time to let a target settle before its idle memory is read, in seconds. Longer: rejected at the start.
pub const LAB_SETTLE_S_MAX: u64 = 600;
/// Largest document that a table is written into, in bytes. Larger: rejected.
pub const LAB_DOCUMENT_BYTES_MAX: u64 = 16 * MIB as u64;
/// Largest garbage collector log, in bytes. Larger: not read, with a warning.
pub const GC_LOG_BYTES_MAX: u64 = 256 * MIB as u64;
