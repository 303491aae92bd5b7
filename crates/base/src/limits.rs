//! The limits of the data plane: every time, size and count that a peer or a file controls, with its unit, the
//! consequence of exceeding it, and the source of the figure. One file, so that the compiler checks their
//! relations. `docs/limits.md` is generated from it.

const KIB: u32 = 1024;
const MIB: u32 = 1024 * KIB;

// --- HTTP heads ---------------------------------------------------------------------------------

/// Largest request head, in bytes. Larger: 431. Source: the defaults of HAProxy and nginx are 16 to 32 KiB.
pub const HEAD_BYTES_MAX: u32 = 64 * KIB;
/// Largest response head from an upstream, in bytes. Larger: fault 101506.
pub const RESPONSE_HEAD_BYTES_MAX: u32 = 64 * KIB;
/// Maximum number of header fields in a head. More: 431 (request), fault 101506 (response). Source: Envoy's
/// default is 100.
pub const HEADER_FIELDS_MAX: usize = 128;
/// Longest request target, in bytes. Longer: 414. Source: RFC 9112 section 3 recommends at least 8,000.
pub const TARGET_BYTES_MAX: u32 = 16 * KIB;
/// Longest method token, in bytes. Longer: 501. Source: the longest registered method has 17 bytes.
pub const METHOD_BYTES_MAX: usize = 32;
/// Maximum number of elements in a head's Connection fields. More: 400 (request), fault 101506 (response).
pub const CONNECTION_OPTIONS_MAX: u32 = 32;
/// Largest Content-Length, in bytes. Larger: 400 (request), fault 101506 (response). 8 PiB - 1, the largest integer
/// that a double holds exactly, as in JavaScript; upstreams and tools disagree about larger ones.
pub const CONTENT_LENGTH_BYTES_MAX: u64 = 9_007_199_254_740_991;
/// Longest extensions of one chunk, in bytes. Longer: 400 (request), a truncated body (response). The longest in use,
/// the chunk signatures of AWS, have 81 bytes.
pub const CHUNK_EXTENSION_BYTES_MAX: u32 = 256;
/// Maximum number of bytes by which the chunk extensions of a body exceed the payload of their chunks, in total. More:
/// 400 (request), a truncated body (response). Without this limit, a body with little payload could keep a connection
/// busy. Source: CVE-2023-39326 (Go allows 16 KiB).
pub const CHUNK_OVERHEAD_BYTES_MAX: u32 = 16 * KIB;
/// Largest trailer section, in bytes. Larger: 431 for a request, a truncated body for a response.
pub const TRAILER_BYTES_MAX: u32 = 8 * KIB;
/// Maximum number of 1xx responses before the final one. More: fault 101506.
pub const INTERIM_RESPONSES_MAX: u32 = 8;

// --- buffers ------------------------------------------------------------------------------------

/// Size of the buffer that a connection borrows for a head and the bytes that arrive with it.
pub const HEAD_BUFFER_BYTES: u32 = 16 * KIB;
/// Maximum number of bytes of an incomplete head that are kept outside of a buffer until the rest arrives.
pub const PARKED_BYTES_MAX: usize = 2 * KIB as usize;
/// Size of the buffer that a streaming body borrows while bytes are in flight.
pub const BODY_BUFFER_BYTES: u32 = 64 * KIB;
/// Buffers of `BODY_BUFFER_BYTES` that a worker lends at a time. More: those of `HEAD_BUFFER_BYTES`, so that many
/// clients that do not read hold little.
pub const LARGE_BUFFERS_MAX: usize = 256;
/// Buffers of each size that a worker keeps for reuse. More: freed.
pub const SPARE_BUFFERS_MAX: usize = 64;
/// Heads, texts and lists of counts that a worker keeps for reuse, of each. More: freed. About the number of
/// concurrent requests of a busy worker, as each request holds one until its response.
pub const SPARE_HEADS_MAX: usize = 2_048;
/// Interval at which half of the buffers, heads and texts that were not needed meanwhile are freed, in milliseconds.
pub const SPARES_TRIM_MS: u32 = 1_000;
/// Shortest remainder of a body that is forwarded by `splice(2)`, in bytes. Shorter: copied through a buffer,
/// which is cheaper than two calls on a pipe.
pub const SPLICE_BYTES_MIN: u64 = 32 * KIB as u64;
/// Fewest bytes that a call of `splice(2)` should move while the body continues. Fewer: the rest of the body
/// is copied through a buffer, as each small piece pins a page in the kernel.
pub const SPLICE_PIECE_BYTES_MIN: usize = 4 * KIB as usize;
/// Requested size of each pipe between two sockets, in bytes. If the system denies it: its default, 64 KiB.
pub const PIPE_BYTES: i32 = 256 * 1_024;
/// Maximum number of pipes in use by a worker, with two file descriptors each. More: bodies are copied through
/// buffers.
pub const PIPES_MAX: usize = 128;
/// Pipes that a worker keeps for reuse. More: closed.
pub const SPARE_PIPES_MAX: usize = 32;
/// Size of the blocks in which a worker hands over its access log, in bytes.
pub const ACCESS_LOG_BLOCK_BYTES: usize = 32 * KIB as usize;
/// Maximum number of blocks of access log that wait for the disk. More: dropped and counted.
pub const ACCESS_LOG_BLOCKS_MAX: usize = 256;
/// Maximum size of the process log lines queued for stderr, in bytes; as many again may be in the process of being
/// written. More: lines are dropped and counted.
pub const LOG_QUEUE_BYTES_MAX: usize = MIB as usize;
/// Maximum number of process log lines of one callsite per second. More: counted, and reported in one line. Lines about
/// files are not limited.
pub const LOG_LINES_PER_S_MAX: u32 = 20;

// --- times --------------------------------------------------------------------------------------

/// Interval at which a worker checks for expired connections, in milliseconds. A deadline passes up to two such
/// intervals late, and never early.
pub const SWEEP_MS: u32 = 125;
/// Longest wait for a complete request head after its first byte, in milliseconds. Longer: 408.
pub const HEAD_MS_MAX: u32 = 15_000;
/// Longest wait for the next request on a kept connection, in milliseconds. Longer: closed.
pub const IDLE_CLIENT_MS_MAX: u32 = 60_000;
/// Time for which a client must have held up its exchange, or have sent no request, before it gives way to others where
/// connections, upstream connections or memory for held bodies run out, in milliseconds. The same for tunnels on which
/// nothing moves, and for requests that wait for their upstream while their client has more than an even share of the
/// places.
pub const GIVE_WAY_MS: u32 = 1_000;
/// Longest time without progress of a body, in milliseconds. Longer: closed, with 408 if no response was
/// sent.
pub const STALL_MS_MAX: u32 = 60_000;
/// Default for the least progress of a body, in bytes per second. Less does not count as progress for `STALL_MS_MAX`.
pub const MIN_RATE_DEFAULT: u32 = 100;
/// Largest `min_rate` in a configuration file, in bytes per second. Larger: a diagnostic.
pub const MIN_RATE_MAX: u32 = 1_000_000;
/// Longest TLS handshake, in milliseconds. Longer: closed.
pub const HANDSHAKE_MS_MAX: u32 = 10_000;
/// Longest wait for an upstream connection, TLS included, in milliseconds. Longer: fault 101508, after the other
/// endpoints of the set were tried, and after one retry if it begins within `RESPONSE_HEAD_MS_MAX`.
pub const CONNECT_MS_MAX: u32 = 5_000;
/// Longest wait for a response head, in milliseconds, all retries included. Longer: 101504. A stream
/// that flows has no limit. Source: WSO2 `synapse.global_timeout_interval`.
pub const RESPONSE_HEAD_MS_MAX: u32 = 120_000;
/// Default share of retries in the requests of a worker to an endpoint set, in percent. More: the first failure is
/// the response. Source: the default of Envoy and Linkerd.
pub const RETRY_BUDGET_PERCENT: u32 = 20;
/// Retries of a worker to an endpoint set that are allowed besides that share, even with few requests.
pub const RETRY_RESERVE: u32 = 10;
/// Largest `retryConfig.count` of an API. Larger: a diagnostic.
pub const RETRIES_MAX: u32 = 10;
/// Largest number of failures that an API's `suspendEndpointFailure` tolerates. Larger: a diagnostic.
pub const FAILURES_TOLERATED_MAX: u32 = 1_000_000;
/// Longest time for which the addresses of a host name are used without a new lookup, in seconds, so that changes of
/// `/etc/hosts` are followed too. The time to live of the records, if shorter; at least 1 s.
pub const NAME_TTL_S_MAX: u64 = 60;
/// First wait before a failed lookup of a host name is repeated, in milliseconds. The last addresses stay in use.
pub const NAME_RETRY_MS_MIN: u32 = 500;
/// Longest wait before a failed lookup of a host name is repeated, in milliseconds; it doubles up to this.
pub const NAME_RETRY_MS_MAX: u32 = 5_000;
/// Longest time for which the name servers of `/etc/resolv.conf` are used without reading it again, in seconds.
pub const RESOLVER_CONFIG_S_MAX: u64 = 30;
/// Default interval between two health checks of an endpoint, in milliseconds.
pub const HEALTH_CHECK_INTERVAL_MS: u32 = 5_000;
/// Default of the longest wait for the response to a health check, in milliseconds. Longer: it failed.
pub const HEALTH_CHECK_MS_MAX: u32 = 2_000;
/// Greatest age of a pooled upstream connection, in milliseconds. Older: closed after the response, so that load
/// balancers before the upstream, and changes behind an address, are followed.
pub const UPSTREAM_AGE_MS_MAX: u32 = 10 * 60_000;
/// Shortest time for which an address of a host name is avoided after a failed connection, in milliseconds. If all
/// addresses of the name failed, they are used anyway.
pub const ADDRESS_AVOIDED_MS_MIN: u32 = 1_000;
/// Longest time for which an address of a host name is avoided, in milliseconds; it doubles up to this.
pub const ADDRESS_AVOIDED_MS_MAX: u32 = 30_000;
/// Longest idle time of a pooled upstream connection, in milliseconds. Longer: closed. Below the 60 to 75 s
/// that Tomcat, nginx and Netty commonly allow.
pub const IDLE_UPSTREAM_MS_MAX: u32 = 45_000;
/// Longest time without a byte in either direction of a tunnel, in milliseconds. Longer: closed.
pub const TUNNEL_IDLE_MS_MAX: u32 = 15 * 60_000;
/// Longest wait for the response to begin after the client has closed its side of the connection, in
/// milliseconds. Longer: recorded as 499, and the upstream connection is closed. A reset ends it at once.
pub const HALF_CLOSE_MS_MAX: u32 = 5_000;
/// Longest time to read and drop further bytes from the client after a rejected request, in milliseconds.
pub const DRAIN_MS_MAX: u32 = 2_000;
/// Maximum number of bytes to read and drop after a rejected request, so that the client can read the response.
pub const DRAIN_BYTES_MAX: u32 = 256 * KIB;
/// Time between `/readyz` failing and the listeners closing, in milliseconds, so that load balancers notice.
pub const DRAIN_NOTICE_MS: u32 = 500;
/// Longest wait for a worker to switch to a new snapshot, in milliseconds. Longer: logged.
pub const APPLY_MS_MAX: u32 = 5_000;
/// Longest wait for a worker's metrics, in milliseconds. Longer: omitted from the scrape.
pub const SCRAPE_MS_MAX: u32 = 2_000;
/// Time for which the counters of a removed API or operation are still reported, in milliseconds, so that the last
/// requests are seen by a scrape.
pub const GONE_COUNTERS_MS: u32 = 15 * 60_000;
/// Longest wait at exit for the process log to be written, in milliseconds. Longer: the rest is lost.
pub const LOG_FLUSH_MS_MAX: u32 = 1_000;
/// Default time for requests to finish at shutdown, in seconds. Longer: connections are closed.
pub const DRAIN_S_DEFAULT: u32 = 20;

// --- counts -------------------------------------------------------------------------------------

/// Maximum number of client connections of one worker. More: 503 and close.
pub const CLIENT_CONNECTIONS_MAX: usize = 20_000;
/// Default for the connections of one client, an IPv4 address or a /64 of IPv6, per worker. More: 503 and close.
pub const CLIENT_CONNECTIONS_DEFAULT: usize = 10_000;
/// Maximum number of requests of one worker in progress; fewer if the process may open few files. More: they wait, at
/// most `CONNECT_MS_MAX`, then 503.
pub const REQUESTS_MAX: usize = 16_384;
/// Default for the requests of one client in progress, per worker: half of the connections to one endpoint. More: they
/// wait, at most `CONNECT_MS_MAX`, then 429.
pub const CLIENT_REQUESTS_DEFAULT: usize = 2_048;
/// Default for the requests to one API in progress, per worker: the connections to one endpoint. More: they wait, at
/// most `CONNECT_MS_MAX`, then 503.
pub const API_REQUESTS_DEFAULT: usize = 4_096;
/// Maximum number of inbound endpoints that listen at once. More: a diagnostic.
pub const INBOUND_LISTENERS_MAX: usize = 256;
/// Interval of the attempts to open the listener of an inbound endpoint whose port is in use, in milliseconds.
pub const INBOUND_RETRY_MS: u32 = 1_000;
/// Maximum number of attempts to open the listener of an inbound endpoint. More: it stays closed until artefacts
/// change.
pub const INBOUND_RETRIES_MAX: u32 = 600;
/// Default for one body that is held in memory, in bytes: a request that mediation reads, or a response. Larger: 413,
/// or 502 for a response.
pub const HELD_BODY_BYTES_DEFAULT: usize = 10 * 1024 * 1024;
/// Largest body that can be configured to be held in memory, in bytes. Larger: a diagnostic.
pub const HELD_BODY_BYTES_MAX: usize = 1024 * 1024 * 1024;
/// Default for all bodies that a worker holds in memory, in bytes: the share of one client (`HELD_SHARE`) is as much as
/// one run of mediation may need. More: 503.
pub const HELD_BYTES_DEFAULT: usize = 96 * 1024 * 1024;
/// Largest memory for held bodies that can be configured, per worker, in bytes. Larger: a diagnostic.
pub const HELD_BYTES_MAX: usize = 64 * 1024 * 1024 * 1024;
/// Memory that a body is charged for beyond twice the bytes that have arrived, in bytes, unless its length is known and
/// less.
pub const HELD_STEP_BYTES: usize = 16 * 1024;
/// Factor by which one client's held memory may exceed the free part of the worker's: a client alone may hold two
/// thirds of it, and never all. More: its bodies wait, at most `CONNECT_MS_MAX`, then 503. Source: Choudhury and Hahne,
/// Dynamic Queue Length Thresholds, 1998.
pub const HELD_SHARE: usize = 2;
/// Maximum number of pieces of heavy work (longer than about a millisecond) waiting for a thread. One client may have
/// as many as there are free places, so at most half while no other client has any. More: 503.
pub const HEAVY_WORK_MAX: usize = 512;
/// Maximum number of messages that one request sends at the same time, through mediation. More: they wait.
pub const MEDIATED_EXCHANGES_MAX: usize = 64;
/// Maximum number of messages that all requests of one worker send at the same time, through mediation, beside others
/// of their own; fewer while the worker is saturated. More: each request sends one after another. Two thirds of the
/// requests that may wait for one endpoint.
pub const WORKER_MEDIATED_EXCHANGES_MAX: usize = 2_048;
/// Maximum number of unread bytes of a response that are skipped so that the connection can be used again. More: it is
/// closed.
pub const UNREAD_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of computed addresses that mediation of one worker remembers. More: the least recently used one is
/// forgotten.
pub const MEDIATED_ORIGINS_MAX: usize = 1_024;
/// File descriptors kept for files, logs and event queues, besides those of the admin port and of each worker.
pub const OWN_DESCRIPTORS: usize = 64;
/// Maximum number of connections of one worker to one endpoint. More: requests wait.
pub const UPSTREAM_CONNECTIONS_MAX: usize = 4_096;
/// Maximum number of idle connections that one worker keeps to one endpoint. More: closed.
pub const UPSTREAM_IDLE_MAX: usize = 1_024;
/// Maximum number of idle connections that one worker keeps to all upstreams; fewer if the process may open few files.
/// More: those that have been idle for the longest time are closed. Some are also closed if the process runs out of
/// descriptors.
pub const UPSTREAMS_IDLE_MAX: usize = 4_096;
/// Maximum number of requests waiting for a connection to one endpoint, per worker. More: 303001.
pub const UPSTREAM_WAITERS_MAX: usize = 4_096;
/// Default for the requests to one endpoint that wait for a connection or the head of the response, per worker: three
/// quarters of the requests to one API, so that an endpoint that hangs leaves places to others. More: the next endpoint
/// of the set gets the request, or 303001.
pub const ENDPOINT_WAITING_DEFAULT: usize = 3_072;
/// Maximum number of connections that a thread begins to open before it serves others. More: they wait for the next
/// turn. As many take about a millisecond.
pub const CONNECTS_PER_TURN: usize = 16;
/// Largest share of the local ports that open connections from one source address to one destination take, in percent.
/// More: fault 101503, for lack of ports. Source: Linux looks for a free port among one half of them first, so that
/// connect(2) takes milliseconds when that is in use.
pub const LOCAL_PORTS_PERCENT_MAX: usize = 50;
/// Share of the local ports at which a warning is logged, in percent.
pub const LOCAL_PORTS_PERCENT_WARNED: usize = 40;
/// Maximum number of source addresses for connections to upstreams. More: a diagnostic.
pub const SOURCE_ADDRESSES_MAX: usize = 64;
/// Maximum number of concurrent health checks. More: they wait.
pub const HEALTH_CHECKS_MAX: usize = 64;
/// Maximum number of idle connections that are kept for health checks and key sets. More: those that have been idle for
/// the longest time are closed.
pub const OWN_IDLE_MAX: usize = 64;
/// Interval at which connections that were idle for too long are closed, in milliseconds.
pub const OWN_SWEEP_MS: u64 = 1_000;
/// Largest number of health checks in a row that an API may require for a change of an endpoint's state. Larger: a
/// diagnostic.
pub const HEALTH_CHECKS_IN_A_ROW_MAX: u32 = 100;
/// Maximum number of concurrent lookups of host names. More: they wait.
pub const NAME_LOOKUPS_MAX: usize = 64;
/// Maximum number of addresses of a host name that are used. More: the first.
pub const NAME_ADDRESSES_MAX: usize = 64;
/// Maximum number of connections waiting in the kernel's accept queue of one listener.
pub const ACCEPT_BACKLOG: i32 = 4_096;
/// Maximum number of concurrent HTTP/2 streams of one connection. Stops one connection from using the memory of
/// thousands of requests, and limits the effect of rapid resets (CVE-2023-44487). Source: RFC 9113 section 6.5.2
/// recommends at least 100.
pub const H2_STREAMS_MAX: u32 = 128;
/// Maximum number of unread bytes of one HTTP/2 request body: the stream's flow-control window. More: the
/// client waits. Stops uploads to slow upstreams from filling the memory.
pub const H2_STREAM_WINDOW_BYTES: u32 = 256 * KIB;
/// Maximum number of unread bytes of all request bodies of one HTTP/2 connection: its flow-control window. More: the
/// client waits. Stops one connection from filling the memory by uploads on all of its streams.
pub const H2_CONNECTION_WINDOW_BYTES: u32 = MIB;
/// Maximum number of bytes held for sending by all streams of one HTTP/2 connection, to within one head. More: they
/// wait until the socket has accepted some. At twice as many, reading stops. Stops clients that request much and read
/// nothing (CVE-2019-9517, internal data buffering; CVE-2019-9511, tiny windows).
pub const H2_CONNECTION_SEND_BYTES: usize = 128 * KIB as usize;
/// Maximum number of unread bytes of one HTTP/2 response, where the lab is the client: the stream's flow-control
/// window. More: the server waits. Large, so that a measurement never waits for it.
pub const H2_RESPONSE_WINDOW_BYTES: u32 = 16 * MIB;
/// Maximum number of unread bytes of all responses of one HTTP/2 connection, where the lab is the client.
pub const H2_RESPONSE_CONNECTION_WINDOW_BYTES: u32 = 256 * MIB;
/// Maximum size of the heads of all open streams of one HTTP/2 connection, in bytes. More: the stream is refused. Stops
/// heads that consist of references to a few large fields, which the client sends once (CVE-2016-6581, HPACK bomb).
pub const H2_CONNECTION_HEADS_BYTES_MAX: usize = MIB as usize;
/// Maximum size of the heads of all open HTTP/2 streams of one worker, in bytes; of one client, as much as is left,
/// which is half if no other has any. More: the stream is refused.
pub const H2_HEADS_BYTES_MAX: usize = 32 * MIB as usize;
/// Memory of futures that serve HTTP/2 streams, kept by a worker for reuse, in futures. More: freed.
pub const H2_SPARE_TASKS_MAX: usize = 256;
/// Size of the HPACK dynamic table of one HTTP/2 connection, in bytes. A larger one: the connection is closed with
/// COMPRESSION_ERROR. Stops clients from filling the memory with fields in the table (CVE-2016-6581, HPACK bomb).
/// Source: the default of RFC 9113 section 6.5.2.
pub const H2_TABLE_BYTES_MAX: usize = 4 * KIB as usize;
/// Largest compressed head of an HTTP/2 request that arrives in several frames, in bytes. Larger: the connection is
/// closed with ENHANCE_YOUR_CALM. Stops endless heads (CVE-2024-27316, continuation flood). Above `HEAD_BYTES_MAX`, so
/// that a head that is too large gets a 431.
pub const H2_BLOCK_BYTES_MAX: usize = 128 * KIB as usize;
/// Maximum number of HTTP/2 streams remembered after their end, so that later frames get the right error. More: the
/// oldest are forgotten. Streams that the gateway has reset are remembered apart.
pub const H2_RESET_STREAMS_MAX: usize = 64;
/// Maximum number of HTTP/2 streams that a client may reset before they are served. More: the connection is
/// closed with ENHANCE_YOUR_CALM. Source: CVE-2023-44487 ("rapid reset").
pub const H2_PENDING_RESETS_MAX: usize = 32;
/// Maximum number of streams of one HTTP/2 connection that are reset because of the client's protocol errors, beyond
/// those allowed per second. More: the connection is closed with ENHANCE_YOUR_CALM. Source: CVE-2025-8671 ("made you
/// reset").
pub const H2_ERROR_RESETS_MAX: u32 = 256;
/// Streams reset because of the client's protocol errors that are allowed per second, since a proxy's connection lasts
/// long and carries the errors of many clients.
pub const H2_ERROR_RESETS_PER_S: u32 = 1;
/// Maximum number of control frames of one HTTP/2 connection (PING, SETTINGS, WINDOW_UPDATE, PRIORITY, RST_STREAM,
/// CONTINUATION, empty DATA, unknown types, HEADERS that open no stream) beyond those allowed per second and for
/// payload. More: the connection is closed with ENHANCE_YOUR_CALM. Source: CVE-2019-9512, CVE-2019-9515, CVE-2019-9518,
/// CVE-2024-27316.
pub const H2_CONTROL_FRAMES_MAX: u32 = 1_000;
/// Control frames that are allowed per second, for keep-alive.
pub const H2_CONTROL_FRAMES_PER_S: u32 = 20;
/// Control frames that are allowed for a piece of a response, besides two for every 4 KiB of it.
pub const H2_CONTROL_FRAMES_PER_SENT: u32 = 4;
/// Control frames that are allowed for a DATA frame with payload for an open stream.
pub const H2_CONTROL_FRAMES_PER_RECEIVED: u32 = 2;
/// Maximum number of TLS sessions stored for resumption without tickets, and per trust configuration towards
/// upstreams. More: the oldest are dropped and need a full handshake. About 1 KiB each.
pub const TLS_SESSIONS_MAX: usize = 1_024;
/// Wait for the first byte of a request's body, or for a whole short body, before an upstream connection is opened for
/// the request, in milliseconds. Longer: the request is sent without the body's beginning, because clients may wait for
/// the response's head first.
pub const UPLOAD_START_MS: u32 = 100;
/// Longest request body that is received completely before an upstream connection is opened, in bytes. Longer: an
/// upstream connection is opened once its first byte has arrived.
pub const GATHERED_BODY_BYTES_MAX: u64 = 8 * KIB as u64;
/// Maximum number of requests of one worker that are sent before their body has begun. More: they wait for the body, at
/// most `STALL_MS_MAX`, without an upstream connection.
pub const EARLY_UPLOADS_MAX: usize = 256;
/// Maximum number of requests to one API, per worker, that are sent before their body has begun.
pub const EARLY_UPLOADS_PER_API_MAX: usize = 128;
/// Maximum number of requests of one client (an IPv4 address or a /64 of IPv6), per worker, that are sent before their
/// body has begun.
pub const EARLY_UPLOADS_PER_CLIENT_MAX: usize = 64;
/// A worker that sleeps at most this many times per second is saturated: fewer requests are forwarded at once.
pub const SATURATED_SLEEPS_MAX: u64 = 64;
/// A worker that sleeps at least this many times per second forwards more requests at once. A worker that is busy for
/// 98 % of its time sleeps between 136 and 1,900 times.
pub const UNSATURATED_SLEEPS_MIN: u64 = 128;
/// Number of requests that are forwarded at once even if the worker is saturated. From about 50 on, more do not add
/// throughput.
pub const SATURATED_REQUESTS_MIN: usize = 64;
/// Number of parts of split messages that mediation sends at once even if the worker is saturated. With this many, kept
/// connections are used again; with fewer parts of each message at once, each message takes more time.
pub const SATURATED_PARTS_MIN: usize = 512;
/// Minimum number of requests in progress and waiting at which requests wait for a turn while the worker is saturated:
/// with fewer, waiting would cost more than it saves. Source: docs/decisions/0018-saturated-workers-forward-fewer.md.
pub const SATURATED_DEMAND_MIN: usize = 256;
/// One turn out of this many goes to the request that has waited longest, the others to the newest. Fewer: the longest
/// wait is shorter, the rate lower.
pub const OLDEST_TURN_OF: usize = 4;
/// Longest wait of a request for its turn while the worker is saturated, in milliseconds. Longer: 503. Shorter: many
/// clients with expensive requests get errors, although each would be served in time; each rejection costs about as
/// much as a response.
pub const TURN_MS_MAX: u32 = 10_000;
/// Maximum number of queued questions, such as for an issuer's current key set. More: the stage decides without the
/// answer.
pub const QUESTIONS_MAX: usize = 64;
/// Shortest time between the answer to a question and asking it again, in milliseconds.
pub const QUESTION_PAUSE_MS: u32 = 1_000;
/// Longest wait of a request for its issuer's current key set, if its token names a key that is not in the known set,
/// in milliseconds. Longer: 401.
pub const KEY_SET_WAIT_MS_MAX: u32 = 3_000;
/// Maximum number of concurrent connections to the admin port. More: the one whose client has been slow for the longest
/// time is closed.
pub const ADMIN_CONNECTIONS_MAX: usize = 64;
/// Maximum number of removed APIs whose counters a worker still reports. More: the oldest are dropped.
pub const GONE_APIS_MAX: usize = 1_000;
/// Counters that a worker visits in one turn, for a scrape or to drop unused ones: one for each API, operation and
/// upstream address; an API that has more is visited alone. The worker serves requests between two turns, because
/// visiting 5,000 APIs at once would take milliseconds.
pub const COUNTERS_PER_TURN: usize = 1_000;
/// Maximum number of worker threads.
pub const WORKERS_MAX: usize = 256;

/// Memory of one worker's stored responses, in bytes. Full: the oldest are dropped.
pub const RESPONSE_CACHE_BYTES_MAX: usize = 32 * MIB as usize;
/// Stored responses of a worker that are looked at in one sweep for those that are of no use any more.
pub const RESPONSE_CACHE_SWEPT_MAX: usize = 100;
/// Largest body that is stored, in bytes. Larger: the response is not stored.
pub const RESPONSE_CACHE_BODY_BYTES_MAX: usize = MIB as usize;
/// Maximum number of responses to one target that differ by `Vary`. More: the oldest is dropped.
pub const RESPONSE_CACHE_VARIANTS_MAX: usize = 8;
/// Time for which a response without a lifetime is stored, in seconds, unless the API sets another. Source: WSO2's
/// `cacheTimeout`.
pub const RESPONSE_CACHE_S: u32 = 300;

// --- tokens and keys ----------------------------------------------------------------------------

/// Longest credential, in bytes. Longer: 900901. It must fit in a head.
pub const TOKEN_BYTES_MAX: usize = 16 * KIB as usize;
/// Longest DPoP proof, in bytes. Longer: 900901. Source: a proof with an RSA key of 8,192 bits is shorter.
pub const PROOF_BYTES_MAX: usize = 4 * KIB as usize;
/// Oldest DPoP proof, by its `iat`, in seconds. Older: 900901.
pub const PROOF_AGE_S_MAX: u64 = 60;
/// How far the clock of a client may be ahead, in seconds. Further: 900901.
pub const PROOF_AHEAD_S_MAX: u64 = 10;
/// Time for which a `DPoP-Nonce` is issued, in seconds. It is accepted for as long again.
pub const PROOF_NONCE_S: u64 = 120;
/// DPoP proofs that the gateway remembers, so that each is used once; a million takes about 50 MB. More: 503003 until
/// older ones are forgotten, some two minutes after they were used.
pub const PROOFS_MAX: usize = 1_000_000;
/// Shards of the remembered proofs, each with its own lock.
pub const PROOF_SHARDS: usize = 64;
/// The proofs of one key take at most this fraction (1/n) of the places, so that one client leaves room for others.
pub const PROOFS_OF_KEY_SHARE: usize = 4;
/// Longest value of a cookie of a session, in bytes; a longer session has several. Source: browsers limit a cookie with
/// its name and attributes to 4,096 bytes.
pub const COOKIE_BYTES_MAX: usize = 3_800;
/// Maximum number of cookies of one session. More: the sign-in fails, which is logged.
pub const SESSION_COOKIES_MAX: usize = 4;
/// Longest sign-in at a provider, in seconds. Longer: 403, and the user has to begin again.
pub const SIGN_IN_S_MAX: u64 = 600;
/// Sign-ins of one browser at a time. More: the others are forgotten.
pub const SIGN_INS_MAX: usize = 8;
/// Longest path and query to which a browser returns after a sign-in, in bytes. Longer: it returns to `/`.
pub const SIGN_IN_TARGET_BYTES_MAX: usize = 1_024;
/// Lifetime of a session, in seconds, unless the login sets another.
pub const SESSION_S: u64 = 8 * 60 * 60;
/// Longest `session_s` and `max_age_s` of a login, in seconds.
pub const SESSION_S_MAX: u64 = 30 * 24 * 60 * 60;
/// Age of a session from which its user is sent to the provider again if its access token is rejected, in seconds.
/// Younger: 401.
pub const SESSION_FRESH_S: u64 = 10;
/// Redemptions of codes under way at the providers of logins, per worker. More: 503003, and the user can load the page
/// again.
pub const SIGN_IN_CODES_MAX: usize = 64;
/// Longest request to the provider of a login, in milliseconds. Longer: the sign-in fails; 503003 for a session whose
/// token has expired.
pub const LOGIN_MS_MAX: u32 = 5_000;
/// Time before its expiry from which the access token of a session is renewed in the background, in seconds.
pub const SESSION_MARGIN_S: u64 = 30;
/// Maximum number of renewals of a session for one request, if its access token has expired again each time. More:
/// 503003.
pub const SESSION_RENEWALS_MAX: usize = 3;
/// Time for which a renewed session is remembered after a response with its cookie, in seconds: a browser may send the
/// old one with several requests.
pub const SESSION_RENEWED_S: u64 = 300;
/// Time for which a renewed session waits for the next request of its browser, in seconds. A browser that comes later
/// has an old refresh token: its user has to sign in again.
pub const SESSION_KEPT_S: u64 = 3_600;
/// Time for which a request to the provider of a login that failed is not repeated, in seconds.
pub const LOGIN_PAUSE_S: u64 = 5;
/// Maximum number of renewed sessions that are remembered. More: sessions whose token has expired get 503003 until
/// older ones are forgotten.
pub const SESSIONS_RENEWED_MAX: usize = 100_000;
/// Time for which the discovery document of a login is used, in seconds.
pub const LOGIN_DISCOVERY_S: u64 = 300;
/// Maximum number of addresses, and of referrers, that may be listed for an API key. Others of a signed key are
/// ignored, so that it may not be used from there; in an application's file they are an error.
pub const PERMITTED_MAX: usize = 100;
/// Longest `Referer` that is compared with those of an API key, in bytes. Longer: 900908.
pub const REFERER_BYTES_MAX: usize = 2 * KIB as usize;
/// Maximum number of places of an operation's API keys. More: an error of the description.
pub const KEY_PLACES_MAX: usize = 8;
/// Maximum number of client certificates that an API may list for each type of key. More: an error of the description.
pub const TRUSTED_CLIENTS_MAX: usize = 256;
/// Maximum number of APIs with lists of client certificates for which a connection remembers whether its certificate is
/// accepted. More: all are forgotten, and the chain is verified again.
pub const JUDGED_APIS_MAX: usize = 32;
/// Time for which the certificate of a trusted proxy's client stays verified, in seconds.
pub const FORWARDED_CERTIFICATE_S: u64 = 60;
/// Longest value of the field with the certificate of a trusted proxy's client and its issuers, in bytes. Longer: the
/// client counts as having none.
pub const FORWARDED_CERTIFICATE_BYTES_MAX: usize = 16 * 1024;
/// Memory of one worker's verified certificates of trusted proxies' clients, in bytes. Full: unused ones are verified
/// again when needed.
pub const FORWARDED_CERTIFICATES_BYTES_MAX: usize = 4 * MIB as usize;
/// Memory of one worker's rejected certificates of trusted proxies' clients, in bytes. Full: unused ones are verified
/// again when needed.
pub const REJECTED_CERTIFICATES_BYTES_MAX: usize = MIB as usize;
/// Maximum number of condition groups of a plan. More: an error of the configuration.
pub const CONDITION_GROUPS_MAX: usize = 16;
/// Maximum number of conditions of a group. More: an error of the configuration.
pub const CONDITIONS_MAX: usize = 8;
/// Maximum number of deny policies. More: an error of the configuration.
pub const DENY_MAX: usize = 1_000;
/// Maximum number of attributes of an application. More: an error of its file, or 400.
pub const APPLICATION_ATTRIBUTES_MAX: usize = 32;
/// Longest names and values of an application's attributes, together, in bytes: upstreams get them in a header field.
/// More: an error of its file, or 400.
pub const APPLICATION_ATTRIBUTES_BYTES_MAX: usize = 2 * 1024;
/// Lifetime of a backend JWT, in seconds. Source: WSO2's `expiry_time`.
pub const BACKEND_JWT_S: u64 = 900;
/// Smallest `expires_s`, in seconds.
pub const BACKEND_JWT_S_MIN: u64 = 60;
/// Largest `expires_s`, in seconds.
pub const BACKEND_JWT_S_MAX: u64 = 24 * 60 * 60;
/// Time before its expiry from which a backend JWT is signed again, in seconds, since an upstream may check it late.
pub const BACKEND_JWT_MARGIN_S: u64 = 30;
/// Memory of one worker's signed backend JWTs, in bytes. Full: all are forgotten, and signed again when needed.
pub const BACKEND_JWTS_BYTES_MAX: usize = 16 * MIB as usize;
/// Memory of one worker's cache of verified tokens, in bytes. Full: the oldest are evicted.
pub const TOKEN_CACHE_BYTES_MAX: usize = 32 * MIB as usize;
/// Longest time a verified token stays cached, in seconds. Source: WSO2's token cache, 15 minutes.
pub const TOKEN_CACHE_S_MAX: u64 = 900;
/// Default, and largest `cache_s` of `introspection`: longest time an opaque token stays cached, in seconds. A
/// revocation may be noticed that late. Source: WSO2's token cache, 15 minutes.
pub const INTROSPECTION_CACHE_S_MAX: u64 = 900;
/// Time for which an opaque token that no issuer reported as active is rejected without another introspection, in
/// seconds.
pub const INACTIVE_TOKEN_S: u64 = 5;
/// Maximum number of inactive opaque tokens that a worker remembers. More: the older token at the same place is
/// introspected again.
pub const INACTIVE_TOKENS_MAX: usize = 4_096;
/// Longest introspection by one issuer, in milliseconds. Longer: 503003, unless another issuer reports the token as
/// active.
pub const INTROSPECTION_MS_MAX: u32 = 3_000;
/// Longest introspection of one token by all issuers, one after the other, in milliseconds. Longer: 503003, without
/// requests to the remaining issuers. Twice the limit of one issuer, so that an issuer that does not respond leaves
/// time for others.
pub const INTROSPECTION_BY_ALL_MS_MAX: u32 = 6_000;
/// Maximum number of introspections of one worker in progress. More wait for up to `INTROSPECTION_MS_MAX`, then 503003.
pub const INTROSPECTIONS_MAX: usize = 64;
/// Maximum number of introspections of one worker in progress that one client causes. More wait likewise, so that the
/// tokens of other clients are checked.
pub const INTROSPECTIONS_PER_CLIENT_MAX: usize = 16;
/// Longest wait for the verification of a password to begin, in milliseconds. Longer: 503003.
pub const PASSWORD_WAIT_MS_MAX: u32 = 3_000;
/// Maximum number of passwords of one worker, and of one client at one worker, that are being verified on the threads
/// for heavy work. More wait for up to `PASSWORD_WAIT_MS_MAX`, then 503003.
pub const PASSWORD_CHECKS_MAX: usize = 1;
/// Maximum memory of a password's hash, in KiB. More: a configuration error.
pub const PASSWORD_MEMORY_KIB_MAX: u32 = 65_536;
/// Maximum number of passes of a password's hash. More: a configuration error.
pub const PASSWORD_PASSES_MAX: u32 = 10;
/// Maximum number of lanes of a password's hash. More: a configuration error.
pub const PASSWORD_LANES_MAX: u32 = 4;
/// Maximum length of the value of HTTP Basic, in bytes. Longer: 401.
pub const LOGIN_BYTES_MAX: usize = 1_024;
/// Largest secret that is sent to upstreams, in bytes. Larger: a configuration error.
pub const BACKEND_CREDENTIAL_BYTES_MAX: usize = 4 * KIB as usize;
/// Longest wait for a token for an upstream, in milliseconds. Longer: 303003.
pub const BACKEND_TOKEN_MS_MAX: u32 = 5_000;
/// Time for which a failed request for an upstream's token is not repeated, in seconds. A token that the upstream
/// rejected is also not replaced until it is this old.
pub const BACKEND_TOKEN_PAUSE_S: u64 = 5;
/// Time before its expiry from which an upstream's token is no longer used, in seconds; half of its lifetime, if that
/// is less.
pub const BACKEND_TOKEN_MARGIN_S: u64 = 30;
/// Lifetime of an upstream's token if the server's response has none, in seconds.
pub const BACKEND_TOKEN_S: u64 = 300;
/// Longest time for which an upstream's token is used, in seconds.
pub const BACKEND_TOKEN_S_MAX: u64 = 86_400;
/// Maximum number of upstreams' tokens that a worker keeps. More: all are requested again.
pub const BACKEND_TOKENS_MAX: usize = 1_024;
/// Largest introspection response, in bytes. Larger: 503003.
pub const INTROSPECTION_BYTES_MAX: usize = 64 * KIB as usize;
/// Longest lifetime of the access tokens of the key manager, in seconds. Longer: a configuration error. Gateways
/// remember a removed client for this time.
pub const ACCESS_TOKEN_S_MAX: u64 = 30 * 24 * 60 * 60;
/// Maximum number of revoked tokens and removed clients of one issuer; a million takes about 100 MB, shared by the
/// workers. More: they are accepted until some of the others expire, with a diagnostic.
pub const REVOKED_TOKENS_MAX: usize = 1_000_000;
/// Maximum number of plans of a control plane that a gateway follows. More: ignored, with a diagnostic.
pub const PUBLISHED_PLANS_MAX: usize = 1_000;
/// Longest wait of a request to a control plane for the next revocation, application or plan, in seconds. Longer: the
/// request ends without changes and is repeated.
pub const FEED_WAIT_S: u64 = 20;
/// Largest response to a request for changes, in bytes. Larger: the request fails, and the previous data stays in use.
pub const FEED_BYTES_MAX: usize = 4 * MIB as usize;
/// Pause between two requests for changes, in milliseconds, so that many changes arrive together.
pub const FEED_PAUSE_MS: u64 = 20;
/// First retry interval after a failed request for changes, in milliseconds; it doubles up to `FEED_RETRY_MS_MAX`.
pub const FEED_RETRY_MS_MIN: u64 = 250;
/// Longest retry interval of requests for changes, in milliseconds.
pub const FEED_RETRY_MS_MAX: u64 = 2_000;
/// Interval at which all applications of a control plane are fetched again while they cannot be written to disk, and
/// shortest time between two writes of only the revision, in seconds.
pub const FEED_REPAIR_S: u64 = 60;
/// Longest line of the file in which a gateway keeps the applications of a control plane, in bytes. Longer: the file is
/// damaged, and all applications are fetched again.
pub const APPLICATION_LINE_BYTES_MAX: u64 = 4 * MIB as u64;
/// Interval at which revoked tokens that have expired are removed, in seconds.
pub const REVOKED_SWEEP_S: u64 = 60;
/// Largest JWKS document, in bytes. Larger: rejected, and the last good one stays in use.
pub const JWKS_BYTES_MAX: usize = MIB as usize;
/// Maximum number of keys in one JWKS. More: rejected.
pub const JWKS_KEYS_MAX: usize = 256;
/// Interval at which a JWKS URL is fetched, in seconds.
pub const JWKS_REFRESH_S: u64 = 300;
/// Shortest time between two fetches caused by unknown `kid`s, in seconds.
pub const JWKS_UNKNOWN_KID_S_MIN: u64 = 30;
/// Longest fetch of a JWKS, in milliseconds. Longer: the fetch fails, and the last good set stays in use.
pub const JWKS_FETCH_MS_MAX: u32 = 10_000;
/// Longest wait at startup for the first JWKS of all issuers, in milliseconds. Longer: the gateway starts without
/// their keys and keeps trying.
pub const JWKS_START_MS_MAX: u32 = 3_000;
/// First retry interval after a failed fetch, in seconds; it doubles up to `JWKS_REFRESH_S`.
pub const JWKS_RETRY_S_MIN: u64 = 1;
/// Default of `refresh_s` of `[vault]`: interval at which secrets without a lease are read, in seconds.
pub const VAULT_REFRESH_S: u64 = 60;
/// Largest `refresh_s` of `[vault]`, in seconds.
pub const VAULT_REFRESH_S_MAX: u64 = 3_600;
/// Shortest time between two logins, or two readings of a secret, in seconds, and first retry interval after a failure;
/// it doubles up to `VAULT_RETRY_S_MAX`.
pub const VAULT_RETRY_S_MIN: u64 = 1;
/// Longest retry interval of Vault, in seconds.
pub const VAULT_RETRY_S_MAX: u64 = 10;
/// Longest request to Vault, in milliseconds. Longer: it fails, and the last values stay in use.
pub const VAULT_MS_MAX: u32 = 5_000;
/// Largest response of Vault, in bytes. Larger: likewise. Source: Vault's limit of a secret, 1 MiB.
pub const VAULT_BYTES_MAX: usize = 2 * MIB as usize;
/// Maximum number of paths in Vault that a configuration refers to. More: a configuration error.
pub const VAULT_PATHS_MAX: usize = 256;
/// Maximum number of keys tried on one token if its header doesn't select one. More: not tried.
pub const JWS_TRIES_MAX: usize = 8;
/// Deepest nesting of JSON in claims, keys and documents. Deeper: rejected.
pub const JSON_DEPTH_MAX: usize = 64;
/// Largest `leeway_s` of an issuer, the tolerated clock skew, in seconds.
pub const LEEWAY_S_MAX: u64 = 300;
/// Tolerated clock skew for `nbf`, in seconds, unless `leeway_s` is larger: an issuer's clock can be ahead of the
/// gateway's, and tokens are used as soon as they are issued.
pub const NOT_BEFORE_LEEWAY_S: u64 = 5;
const _: () = assert!(NOT_BEFORE_LEEWAY_S <= LEEWAY_S_MAX, "the default is allowed");

// --- routes -------------------------------------------------------------------------------------

/// Maximum number of segments of one path template. More: the operation is rejected at load. Bounds the depth
/// of matching.
pub const TEMPLATE_SEGMENTS_MAX: usize = 128;

// --- files --------------------------------------------------------------------------------------

/// Largest API description or configuration file, in bytes. Larger: a diagnostic. GitHub's own is 12 MB.
pub const DOCUMENT_BYTES_MAX: u64 = 64 * MIB as u64;
/// Largest file with certificates or a private key, in bytes. Larger: a diagnostic. A chain with comments has a few
/// KiB, the CA bundle of a Linux distribution 250 KiB.
pub const PEM_BYTES_MAX: u64 = MIB as u64;
/// Largest file with a shared secret, in bytes. Larger: a diagnostic. The longest hash needs 64 bytes.
pub const SECRET_BYTES_MAX: u64 = 64 * KIB as u64;
/// Shortest password of a user of the control plane, in bytes. Shorter: rejected. Source: NIST SP 800-63B section
/// 3.1.1.
pub const PASSWORD_BYTES_MIN: usize = 8;
/// Longest password, in bytes. Longer: rejected.
pub const PASSWORD_BYTES_MAX: usize = 256;
/// Maximum number of diagnostics kept for one file. More: counted, not listed.
pub const DIAGNOSTICS_MAX: usize = 1_000;
/// Maximum number of files in the configured folders: API descriptions, artefacts and applications. More: a diagnostic,
/// and the rest isn't read. 100,000 applications take some 170 MiB, and four seconds of CPU time at the start.
pub const API_FILES_MAX: usize = 250_000;
/// Largest snapshot on disk, in bytes. Larger: it is not written, which is logged and counted. 100,000 applications
/// with ten subscriptions each have 75 MB. The gateway reads a snapshot into memory when its sources are unavailable at
/// the start.
pub const SNAPSHOT_BYTES_MAX: u64 = 1024 * MIB as u64;
/// Time after a change before a snapshot is written to disk, in milliseconds.
pub const SNAPSHOT_QUIET_MS: u32 = 1_000;
/// Time after which a snapshot that could not be written is tried again, in milliseconds.
pub const SNAPSHOT_RETRY_MS: u32 = 30_000;
/// Writing snapshots takes at most this fraction (1/n) of the time: large ones are written less often.
pub const SNAPSHOT_SHARE: u32 = 50;
/// Deepest nesting of folders of API descriptions. Deeper: a diagnostic, and they aren't read.
pub const FOLDER_DEPTH_MAX: usize = 32;
/// Quiet time after a change before files are read, in milliseconds, so that files renamed together are read
/// together.
pub const FILE_QUIET_MS: u32 = 2;
/// Longest time to collect a burst of changes, in milliseconds. Longer: the files are read as they are. Source:
/// a changed API has to be live within 30 ms.
pub const FILE_BURST_MS_MAX: u32 = 10;
/// Quiet time before a file that is still open for writing is read, in milliseconds.
pub const FILE_WRITING_MS_MAX: u32 = 100;
/// Time for which a removed file stays in effect, in milliseconds: editors remove a file before they rewrite it.
pub const FILE_MISSING_MS_MAX: u32 = 250;
/// Interval at which all files are checked in case the watcher missed a change, in milliseconds.
pub const FILE_POLL_MS: u32 = 2_000;
/// The check of all files takes at most this fraction (1/n) of the follower's time; where it is slower (network
/// file systems), it runs less often.
pub const FILE_POLL_SHARE: u32 = 100;
/// Maximum number of values that the aliases of one YAML file expand to; a long text counts once per 64 bytes.
/// More: a diagnostic ("billion laughs").
pub const YAML_COPIES_MAX: usize = 100_000;
/// Maximum number of bytes scanned again because lines of quoted strings or flow collections in a YAML file are
/// not indented enough. More: a diagnostic. Each such string requires one scan of the file, each such collection three.
pub const YAML_RESCAN_BYTES_MAX: u64 = 64 * MIB as u64;
/// Maximum number of files that the `$ref`s of one API description may name. More: a diagnostic.
pub const REF_FILES_MAX: usize = 256;
/// Largest total size of the files that the `$ref`s of one API description name, in bytes. Larger: a diagnostic.
pub const REF_BYTES_MAX: u64 = 64 * MIB as u64;
/// Longest chain of `$ref`s to `$ref`s. Longer: a diagnostic.
pub const REF_DEPTH_MAX: usize = 16;
/// Maximum number of documents that a file of artefacts names by URL or file. More: a diagnostic. Each may take
/// `JWKS_FETCH_MS_MAX`.
pub const ARTEFACT_DOCUMENTS_MAX: usize = 16;
/// Maximum number of entries of a `.car` archive. More: a diagnostic. Large applications have some hundreds.
pub const ARCHIVE_ENTRIES_MAX: usize = 10_000;
/// Largest content of a `.car` archive after decompression, in bytes. Larger: a diagnostic.
pub const ARCHIVE_BYTES_MAX: u64 = 64 * MIB as u64;
/// Maximum ratio of the content of a `.car` archive to the archive's size, from a content of `ARCHIVE_SMALL_BYTES` on.
/// Higher: a diagnostic ("zip bomb"). XML is compressed to a tenth.
pub const ARCHIVE_RATIO_MAX: u64 = 100;
/// Content of a `.car` archive whose ratio is not checked, in bytes.
pub const ARCHIVE_SMALL_BYTES: u64 = MIB as u64;
/// Counts of quotas that a process keeps at once. More: new users and addresses share a count, so that they reach their
/// limit early. Each takes about 100 bytes, and as many again for each worker that uses it, until its window is over.
pub const QUOTA_KEYS_MAX: usize = 512 * 1024;
/// Maximum number of removed plans that stay in use for APIs and applications that still name them. More: those removed
/// first admit nothing any more.
pub const GONE_PLANS_MAX: usize = 1_000;
/// Shards of the counts of quotas, each with a lock for counts that a worker uses for the first time.
pub const QUOTA_SHARDS: usize = 64;
/// Interval at which a gateway reconciles its counts with other gateways by way of Redis, in milliseconds. Longer: they
/// exceed limits by more (docs/quotas.md).
pub const QUOTA_RECONCILE_MS: u32 = 100;
/// Counts that are sent to Redis in one request, and read into memory there. More: in the next request, at once.
pub const QUOTA_PUSH_MAX: usize = 512;
/// Longest wait for Redis, for a connection and for each reply, in milliseconds. Longer: it counts as unavailable.
pub const QUOTA_REPLY_MS_MAX: u32 = 1_000;
/// Wait before the next attempt to connect to Redis, in milliseconds.
pub const QUOTA_CONNECT_WAIT_MS: u32 = 250;
/// Longest wait for Redis at the start, in milliseconds. Longer: the gateway serves as if it were unavailable.
pub const QUOTA_START_MS_MAX: u32 = 500;
/// `Retry-After` of a request that is refused because Redis is unavailable, in milliseconds.
pub const QUOTA_DOWN_MS: u64 = 5_000;
/// Time for which Redis keeps a count beyond its window, in milliseconds.
pub const QUOTA_KEEP_MS: u64 = 60_000;
/// Maximum number of limits of a plan, besides its burst. More: a diagnostic.
pub const PLAN_LIMITS_MAX: usize = 8;
/// Maximum number of parts of the key by which a limit counts requests separately. More: a diagnostic.
pub const KEY_PARTS_MAX: usize = 4;
/// Maximum number of custom rules. More: a diagnostic. Each rule is evaluated for each request.
pub const CUSTOM_RULES_MAX: usize = 16;
/// Memory that a worker keeps for the values of the keys by which limits count, in bytes. More: freed after the
/// request.
pub const KEY_VALUES_KEPT_BYTES: usize = 4 * KIB as usize;
/// Largest amount of a limit, in requests or bytes (16 TiB). Larger: a diagnostic.
pub const QUOTA_MAX: u64 = 17_592_186_044_415;
/// Longest window of a limit, in milliseconds: a year. Longer: a diagnostic.
pub const QUOTA_PERIOD_MS_MAX: u64 = 31_536_000_000;
/// Largest timeout in a configuration file, in milliseconds. Larger: a diagnostic.
pub const CONFIGURED_MS_MAX: u32 = 60 * 60_000;
/// Largest `drain_s` in a configuration file, in seconds. Larger: a diagnostic.
pub const DRAIN_S_MAX: u32 = 60 * 60;

const _: () = assert!(
    2 * CONNECT_MS_MAX < RESPONSE_HEAD_MS_MAX,
    "a retried connect must fit into the limit for the response head"
);
const _: () = assert!(HEAD_BUFFER_BYTES <= HEAD_BYTES_MAX, "a buffer grows to the largest head");
const _: () = assert!(
    WORKER_MEDIATED_EXCHANGES_MAX < ENDPOINT_WAITING_DEFAULT
        && ENDPOINT_WAITING_DEFAULT < API_REQUESTS_DEFAULT,
    "mediation never sends more to an endpoint than it takes, and an endpoint leaves places of its API"
);
const _: () = assert!(TARGET_BYTES_MAX < HEAD_BYTES_MAX, "a target must fit in a head");
const _: () = assert!(
    2 * INTROSPECTION_MS_MAX <= INTROSPECTION_BY_ALL_MS_MAX,
    "an issuer that does not respond must leave time for another one"
);
const _: () = assert!(
    INTROSPECTIONS_PER_CLIENT_MAX < INTROSPECTIONS_MAX,
    "one client must leave places to others"
);
const _: () = assert!(BACKEND_JWT_MARGIN_S < BACKEND_JWT_S_MIN, "a new one is used for a while");
const _: () = assert!(TOKEN_BYTES_MAX < HEAD_BYTES_MAX as usize, "a token must fit in a head");
const _: () = assert!(CONTENT_LENGTH_BYTES_MAX == (1 << 53) - 1, "exact as a double");
const _: () = assert!(IDLE_UPSTREAM_MS_MAX < 60_000, "the gateway closes before the upstream does");
const _: () =
    assert!(TRAILER_BYTES_MAX < BODY_BUFFER_BYTES, "trailers must fit into the body's buffer");
const _: () =
    assert!(FILE_QUIET_MS < FILE_BURST_MS_MAX, "a burst must be longer than the quiet time");
const _: () = assert!(FILE_BURST_MS_MAX <= 10, "a changed API must be live within 30 ms");
const _: () = assert!(
    CLIENT_REQUESTS_DEFAULT <= UPSTREAM_CONNECTIONS_MAX / 2
        && CLIENT_CONNECTIONS_DEFAULT <= CLIENT_CONNECTIONS_MAX / 2,
    "one client must leave half to the others"
);
const _: () =
    assert!(API_REQUESTS_DEFAULT <= REQUESTS_MAX / 2, "one API must leave half to the others");
const _: () = assert!(
    H2_STREAM_WINDOW_BYTES <= H2_CONNECTION_WINDOW_BYTES,
    "a stream's window must fit into its connection's"
);
