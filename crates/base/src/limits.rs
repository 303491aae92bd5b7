//! Every wait, size and count that a peer or a file could stretch, with its unit, what happens at
//! it, and where the figure comes from. One file, so that the relations between them can be checked
//! by the compiler and read in five minutes; `docs/limits.md` tells the same to operators.

const KIB: u32 = 1024;
const MIB: u32 = 1024 * KIB;

// --- HTTP heads ---------------------------------------------------------------------------------

/// Largest request head, in bytes. Larger: 431. Source: HAProxy and nginx hold 16 to 32 KiB.
pub const HEAD_BYTES_MAX: u32 = 64 * KIB;
/// Largest response head from a backend, in bytes. Larger: 502.
pub const RESPONSE_HEAD_BYTES_MAX: u32 = 64 * KIB;
/// Most header fields in a head. More: 431 (request), 502 (response). Source: Envoy's default is 100.
pub const HEADER_FIELDS_MAX: usize = 128;
/// Longest request target, in bytes. Longer: 414. Source: RFC 9112 section 3 recommends at least 8,000.
pub const TARGET_BYTES_MAX: u32 = 16 * KIB;
/// Longest method token, in bytes. Longer: 501. Source: the longest registered one has 17.
pub const METHOD_BYTES_MAX: usize = 32;
/// Most elements in a head's Connection fields. More: 400 (request), 502 (response).
pub const CONNECTION_OPTIONS_MAX: u32 = 32;
/// Longest chunk-size line, extensions included, in bytes. Longer: 400.
pub const CHUNK_LINE_BYTES_MAX: u32 = 1024;
/// Largest trailer section, in bytes. Larger: 431 or a broken body.
pub const TRAILER_BYTES_MAX: u32 = 8 * KIB;
/// Most 1xx answers before the final one. More: 502.
pub const INTERIM_RESPONSES_MAX: u32 = 8;

// --- buffers ------------------------------------------------------------------------------------

/// Buffer that a connection borrows for a head and what comes with it, in bytes.
pub const HEAD_BUFFER_BYTES: u32 = 16 * KIB;
/// Buffer that a streaming body borrows while bytes are in flight, in bytes.
pub const BODY_BUFFER_BYTES: u32 = 64 * KIB;
/// Buffers of each size that a worker keeps for reuse; more are given back to the allocator.
pub const SPARE_BUFFERS_MAX: usize = 64;
/// Heads and texts that a worker keeps for reuse; more are given back to the allocator. As many as
/// requests are under way on a busy worker, for each holds one until it is answered.
pub const SPARE_HEADS_MAX: usize = 2_048;
/// Shortest rest of a body that goes from socket to socket by `splice(2)`, in bytes. Shorter: read and
/// written, which two pipe calls would not repay.
pub const SPLICE_BYTES_MIN: u64 = 32 * KIB as u64;
/// Least that a turn of `splice(2)` should move while more is to come, in bytes. Less: the rest of the
/// body is read and written, since each small piece pins a page of the kernel's.
pub const SPLICE_PIECE_BYTES_MIN: usize = 4 * KIB as usize;
/// Size asked for each pipe between two sockets, in bytes. Refused: the system's default, 64 KiB.
pub const PIPE_BYTES: i32 = 256 * 1_024;
/// Pipes that a worker has at work at once, two file descriptors each. More: bodies are read and written.
pub const PIPES_MAX: usize = 128;
/// Pipes that a worker keeps for reuse; more are closed.
pub const SPARE_PIPES_MAX: usize = 32;
/// Largest body a mediator may hold, in bytes. Larger: 413. An untouched body streams, without limit.
pub const BODY_BYTES_MAX: u32 = 10 * MIB;

/// Lines of the access log that a worker hands over at once, in bytes.
pub const ACCESS_LOG_BLOCK_BYTES: usize = 32 * KIB as usize;
/// Blocks of access log that wait for the disk. More: lost, and counted.
pub const ACCESS_LOG_BLOCKS_MAX: usize = 256;

// --- waits --------------------------------------------------------------------------------------

/// How often a worker looks for connections whose time is up, in milliseconds.
pub const SWEEP_MS: u32 = 250;
/// Longest wait for a whole request head once its first byte came, in milliseconds. Longer: 408.
pub const HEAD_MS_MAX: u32 = 15_000;
/// Longest wait for the next request on a kept connection, in milliseconds. Longer: closed.
pub const IDLE_CLIENT_MS_MAX: u32 = 60_000;
/// Longest time without one byte moving in a body, in milliseconds. Longer: closed; 408 if unanswered.
pub const STALL_MS_MAX: u32 = 60_000;
/// Longest TLS handshake, in milliseconds. Longer: closed.
pub const HANDSHAKE_MS_MAX: u32 = 10_000;
/// Longest wait for an upstream connection, TLS included, in milliseconds. Longer: 101508; the other endpoints of
/// the set and one retry follow, within `RESPONSE_HEAD_MS_MAX`.
pub const CONNECT_MS_MAX: u32 = 5_000;
/// Longest wait for a response head, in milliseconds, all retries included. Longer: 101504. A stream
/// that flows has no limit. Source: WSO2 `synapse.global_timeout_interval`.
pub const RESPONSE_HEAD_MS_MAX: u32 = 120_000;
/// Longest that a pooled upstream connection may idle, in milliseconds; then it is closed. Below the
/// 60 to 75 s that Tomcat, nginx and Netty backends commonly allow.
pub const IDLE_UPSTREAM_MS_MAX: u32 = 45_000;
/// Longest life of a tunnel without one byte either way, in milliseconds. Longer: closed.
pub const TUNNEL_IDLE_MS_MAX: u32 = 15 * 60_000;
/// How long a caller that closed its side of the connection still gets its answer, in milliseconds.
/// Longer: taken to have left, 499; the backend's connection is closed. A reset ends it at once.
pub const HALF_CLOSE_MS_MAX: u32 = 5_000;
/// After a refusal: longest time to read and drop what the client still sends, in milliseconds.
pub const DRAIN_MS_MAX: u32 = 2_000;
/// After a refusal: most bytes to read and drop, so that the client can read its answer.
pub const DRAIN_BYTES_MAX: u32 = 256 * KIB;
/// How long `/readyz` fails before the listeners close, in milliseconds, so that balancers notice.
pub const DRAIN_NOTICE_MS: u32 = 500;
/// Longest wait for a worker to take up a new snapshot, in milliseconds. Longer: logged.
pub const APPLY_MS_MAX: u32 = 5_000;
/// Longest wait for a worker's figures, in milliseconds. Longer: left out of the scrape.
pub const SCRAPE_MS_MAX: u32 = 2_000;
/// Default time for a shutdown to let requests finish, in seconds. After it: connections are cut.
pub const DRAIN_S_DEFAULT: u32 = 30;

// --- counts -------------------------------------------------------------------------------------

/// Most client connections of one worker. More: a plain 503 and close.
pub const CLIENT_CONNECTIONS_MAX: usize = 20_000;
/// Most connections of one worker to one endpoint. More wait in line.
pub const UPSTREAM_CONNECTIONS_MAX: usize = 4_096;
/// Most idle connections that one worker keeps to one endpoint. More are closed.
pub const UPSTREAM_IDLE_MAX: usize = 1_024;
/// Most requests waiting for a connection to one endpoint, per worker. More: 303001.
pub const UPSTREAM_WAITERS_MAX: usize = 4_096;
/// Most connections waiting in the kernel's accept queue of one listener.
pub const ACCEPT_BACKLOG: i32 = 4_096;
/// Most concurrent HTTP/2 streams of one connection. Source: RFC 9113 section 6.5.2 recommends at least 100.
pub const H2_STREAMS_MAX: u32 = 128;
/// Bytes of one HTTP/2 stream's body that may be on their way to us unread. More: the client waits.
pub const H2_STREAM_WINDOW_BYTES: u32 = 256 * KIB;
/// The same for all streams of one HTTP/2 connection: what its uploads can make us hold.
pub const H2_CONNECTION_WINDOW_BYTES: u32 = MIB;
/// Bytes of one HTTP/2 stream's answer held for sending. More: the backend waits.
pub const H2_SEND_BUFFER_BYTES: usize = 64 * KIB as usize;
/// The same for all streams of one HTTP/2 connection together, give or take a piece. More: they wait
/// until its socket has taken all of it.
pub const H2_CONNECTION_SEND_BYTES: usize = MIB as usize;
/// Most HTTP/2 streams that we reset and still remember. More: the oldest are forgotten.
pub const H2_RESET_STREAMS_MAX: usize = 64;
/// Most HTTP/2 streams that a client may reset before we came to read them. More: the connection is
/// closed, ENHANCE_YOUR_CALM. Source: CVE-2023-44487 ("rapid reset").
pub const H2_PENDING_RESETS_MAX: usize = 32;
/// Most streams of one HTTP/2 connection that we reset because the client broke the protocol. More:
/// the connection is closed, ENHANCE_YOUR_CALM. Source: CVE-2025-8671 ("made you reset").
pub const H2_ERROR_RESETS_MAX: usize = 256;
/// Most TLS sessions remembered for resumption without tickets, and per trust towards backends.
/// More: the oldest go, and cost a whole handshake. About 1 KiB each.
pub const TLS_SESSIONS_MAX: usize = 1_024;
/// Unknown key ids that wait to be looked into. More: dropped, since one look-up serves all.
pub const UNKNOWN_KIDS_MAX: usize = 64;
/// Most connections to the admin port at once. More wait in the kernel's queue.
pub const ADMIN_CONNECTIONS_MAX: usize = 64;
/// Most worker threads.
pub const WORKERS_MAX: usize = 256;

// --- tokens and keys ----------------------------------------------------------------------------

/// Longest credential, in bytes. Longer: 900901. It has to fit in a head.
pub const TOKEN_BYTES_MAX: usize = 16 * KIB as usize;
/// Memory that one worker's cache of verified tokens may hold, in bytes. Full: the oldest go.
pub const TOKEN_CACHE_BYTES_MAX: usize = 32 * MIB as usize;
/// Longest time a verified token stays cached, in seconds. Source: WSO2's token cache, 15 minutes.
pub const TOKEN_CACHE_S_MAX: u64 = 900;
/// Largest JWKS document, in bytes. Larger: refused, the last good one stays.
pub const JWKS_BYTES_MAX: usize = MIB as usize;
/// Most keys in one JWKS. More: refused.
pub const JWKS_KEYS_MAX: usize = 256;
/// How often a JWKS URL is fetched, in seconds.
pub const JWKS_REFRESH_S: u64 = 300;
/// Shortest time between two fetches that unknown `kid`s ask for, in seconds.
pub const JWKS_UNKNOWN_KID_S_MIN: u64 = 30;
/// Longest that one fetch of a JWKS may take, in milliseconds. Longer: failed, the last good one stays.
pub const JWKS_FETCH_MS_MAX: u32 = 10_000;
/// Longest that start-up waits for the first JWKS of all issuers, in milliseconds. Longer: it serves
/// without their keys, and goes on trying.
pub const JWKS_START_MS_MAX: u32 = 3_000;
/// First wait after a failed fetch, in seconds; each further one is twice as long, up to `JWKS_REFRESH_S`.
pub const JWKS_RETRY_S_MIN: u64 = 1;
/// Most keys that are tried on one token when its header leaves the choice open. The rest are not.
pub const JWS_TRIES_MAX: usize = 8;
/// Deepest nesting of JSON from outside (claims, keys, documents).
pub const JSON_DEPTH_MAX: usize = 64;
/// Largest clock skew that an issuer's `leeway_s` may forgive, in seconds.
pub const LEEWAY_S_MAX: u64 = 300;

// --- routes -------------------------------------------------------------------------------------

/// Most segments of one path template. More: the operation is refused at load; matching a path
/// goes no deeper than this.
pub const TEMPLATE_SEGMENTS_MAX: usize = 128;

// --- files --------------------------------------------------------------------------------------

/// Largest API description or configuration file, in bytes. Larger: a diagnostic. GitHub's own is 12 MB.
pub const DOCUMENT_BYTES_MAX: u64 = 64 * MIB as u64;
/// Most diagnostics kept for one file. More: counted, not listed.
pub const DIAGNOSTICS_MAX: usize = 1_000;
/// Most API descriptions below the configured folders. More: a diagnostic, and the rest is not read.
pub const API_FILES_MAX: usize = 100_000;
/// Deepest nesting of folders of API descriptions. Deeper: a diagnostic, not read.
pub const FOLDER_DEPTH_MAX: usize = 32;
/// How long changed files must rest before they are read, in milliseconds: files renamed together
/// are seen together.
pub const FILE_QUIET_MS: u32 = 2;
/// Longest that a burst of changes is collected, in milliseconds. Then it is read as it is. Source:
/// DESIGN.md section 6, line 9: live within 30 ms.
pub const FILE_BURST_MS_MAX: u32 = 10;
/// How long a file that is open for writing must rest before it is read unclosed, in milliseconds.
pub const FILE_WRITING_MS_MAX: u32 = 100;
/// How long a vanished file keeps serving, in milliseconds: editors remove before they write anew.
pub const FILE_MISSING_MS_MAX: u32 = 250;
/// How often all files are looked at in case the watcher missed something, in milliseconds.
pub const FILE_POLL_MS: u32 = 2_000;
/// The look at all files may take at most one part in this many of the follower's time; where it is
/// slower (network file systems), it comes less often.
pub const FILE_POLL_SHARE: u32 = 100;
/// Most values that the aliases of one YAML file may stand for. More: a diagnostic ("billion laughs").
pub const YAML_COPIES_MAX: usize = 100_000;
/// Most bytes that are scanned again because a YAML file has quoted strings whose lines are not
/// indented enough. More: a diagnostic. Each such string needs one scan of the file.
pub const YAML_RESCAN_BYTES_MAX: u64 = 64 * MIB as u64;
/// Most files that the `$ref`s of one API description may name. More: a diagnostic.
pub const REF_FILES_MAX: usize = 256;
/// Longest chain of `$ref`s that lead to further `$ref`s. Longer: a diagnostic.
pub const REF_DEPTH_MAX: usize = 16;
/// Longest wait of any kind that a file may ask for, in milliseconds. Longer: a diagnostic.
pub const CONFIGURED_MS_MAX: u32 = 60 * 60_000;
/// Longest `drain_s` that a file may ask for, in seconds. Longer: a diagnostic.
pub const DRAIN_S_MAX: u32 = 60 * 60;

const _: () =
    assert!(2 * CONNECT_MS_MAX < RESPONSE_HEAD_MS_MAX, "a retried connect must fit in the wait");
const _: () = assert!(HEAD_BUFFER_BYTES <= HEAD_BYTES_MAX, "a buffer grows to the largest head");
const _: () = assert!(TARGET_BYTES_MAX < HEAD_BYTES_MAX, "a target has to fit in a head");
const _: () = assert!(TOKEN_BYTES_MAX < HEAD_BYTES_MAX as usize, "a token has to fit in a head");
const _: () = assert!(IDLE_UPSTREAM_MS_MAX < 60_000, "we close before the backend does");
const _: () = assert!(TRAILER_BYTES_MAX < BODY_BUFFER_BYTES, "trailers must fit the body's buffer");
const _: () = assert!(FILE_QUIET_MS < FILE_BURST_MS_MAX, "a burst has room for a pause");
const _: () = assert!(FILE_BURST_MS_MAX <= 10, "a changed API has to be live within 30 ms");
const _: () =
    assert!(H2_STREAM_WINDOW_BYTES <= H2_CONNECTION_WINDOW_BYTES, "one stream fits its connection");
