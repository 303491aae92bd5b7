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

// --- the lab ------------------------------------------------------------------------------------

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

/// Most values that the aliases of one YAML file may stand for. More: a diagnostic ("billion laughs").
pub const YAML_COPIES_MAX: usize = 100_000;
/// Most files that the `$ref`s of one API description may name. More: a diagnostic.
pub const REF_FILES_MAX: usize = 256;
/// Longest chain of `$ref`s that lead to further `$ref`s. Longer: a diagnostic.
pub const REF_DEPTH_MAX: usize = 16;
/// Longest wait of any kind that a file may ask for, in milliseconds. Longer: a diagnostic.
pub const CONFIGURED_MS_MAX: u32 = 60 * 60_000;
/// Longest `drain_s` that a file may ask for, in seconds. Longer: a diagnostic.
pub const DRAIN_S_MAX: u32 = 60 * 60;

// --- xml ---------------------------------------------------------------------------------------

/// Largest XML document that is read unless the caller says otherwise, in bytes. Larger: refused.
pub const XML_BYTES_MAX: u32 = 64 * MIB;
/// Largest XML document that any option can allow, in bytes of UTF-8. Larger: refused. Source: a length has 28 bits in a tree.
pub const XML_BYTES_CEILING: u32 = 255 * MIB;
/// Most elements open at once in an XML document. More: refused. Source: libxml2 allows 256, or 2,048 when told "huge".
pub const XML_DEPTH_MAX: u32 = 1_024;
/// Most attributes and namespace declarations of one XML element. More: refused.
pub const XML_ATTRIBUTES_MAX: u32 = 1_024;
/// Longest name in an XML document, prefix included, in bytes. Longer: refused. Source: libxml2 allows 50,000.
pub const XML_NAME_BYTES_MAX: u32 = 8 * KIB;
/// Most nodes of an XML document, attributes included. More: refused.
pub const XML_NODES_MAX: u32 = 16_777_216;
/// Most bytes that entity references and default attributes may add to one XML document. More: refused ("billion laughs").
pub const XML_ENTITY_BYTES_MAX: u32 = MIB;
/// Most entity references inside one another. More: refused.
pub const XML_ENTITY_DEPTH_MAX: u32 = 20;
/// Most declarations, attributes counted each, in the internal subset of an XML document. More: refused.
pub const XML_DECLARATIONS_MAX: u32 = 4_096;

const _: () = assert!(XML_BYTES_CEILING < 1 << 28, "a length has to fit in 28 bits");
const _: () = assert!(XML_BYTES_MAX <= XML_BYTES_CEILING, "the default has to be allowed");

// --- xpath --------------------------------------------------------------------------------------

/// Longest XPath expression, in bytes. Longer: refused at load.
pub const XPATH_BYTES_MAX: usize = 64 * KIB as usize;
/// Deepest nesting of parentheses, predicates and arguments in an XPath expression, and most
/// comparisons chained without them. Deeper: refused at load. Proven against a 2 MiB stack by a test.
pub const XPATH_DEPTH_MAX: usize = 64;
/// Most steps of one evaluation of an XPath expression, about one per node that it looks at and per 4 to
/// 64 bytes of text, unless the caller says otherwise. More: the evaluation fails. About a second's work.
pub const XPATH_STEPS_MAX: u64 = 100_000_000;
/// Most nodes in one node-set, 24 bytes each. More: the evaluation fails.
pub const XPATH_NODES_MAX: usize = 4_000_000;
/// Longest text that `concat` makes in an XPath expression, in bytes. Longer: the evaluation fails.
pub const XPATH_TEXT_BYTES_MAX: usize = 64 * MIB as usize;

// --- xslt ---------------------------------------------------------------------------------------

/// Most sheets that one stylesheet includes and imports, itself counted. More: refused at load.
pub const XSLT_SHEETS_MAX: usize = 256;
/// Deepest chain of sheets that include and import one another. Deeper: refused at load.
pub const XSLT_SHEETS_DEPTH_MAX: usize = 32;
/// Deepest nesting of elements in a template. Deeper: refused at load. Proven against a 2 MiB stack by a test.
pub const XSLT_NESTING_MAX: usize = 128;
/// Most templates and loops inside one another in a run. Deeper: the run fails. They live on the heap; libxslt's default is 3,000.
pub const XSLT_DEPTH_MAX: usize = 10_000;
/// Most steps of one run: operations, and steps of its expressions. More: the run fails. About a second's work.
pub const XSLT_STEPS_MAX: u64 = 100_000_000;
/// Most bytes that one run may make: output, result-tree fragments, values of variables, indexes of keys, and the keys of a sort while it lasts. More: the run fails.
pub const XSLT_MADE_BYTES_MAX: usize = 64 * MIB as usize;
/// Most global variables that wait for one another through templates, and most keys through their values. More: the run fails. Each takes stack; proven against 2 MiB by a test.
pub const XSLT_GLOBALS_DEPTH_MAX: usize = 4;
/// Most compiled patterns of EXSLT's regular expressions that one run keeps, each up to `PATTERN_BYTES_MAX`. More: they are forgotten and compiled again.
pub const XSLT_PATTERNS_MAX: usize = 16;

// --- JSON and expressions -----------------------------------------------------------------------

/// Deepest nesting of JSON in a message body. Deeper: refused. Reading it uses no recursion; jackson's default is 1,000.
pub const JSON_TREE_DEPTH_MAX: usize = 1_000;
/// Most values and member names in one JSON body, 16 bytes each. More: refused.
pub const JSON_NODES_MAX: usize = 2_000_000;
/// Most steps in one JSONPath. More: refused at load.
pub const JSONPATH_STEPS_MAX: usize = 64;
/// Most values that one evaluation of a JSONPath or an expression may look at or make. More: the evaluation fails.
pub const EXPRESSION_VISITS_MAX: u64 = 4_000_000;
/// Deepest nesting of parentheses, filters and calls in an expression or a template. Deeper: refused at load.
pub const EXPRESSION_DEPTH_MAX: usize = 32;
/// Longest expression or JSONPath, in bytes. Longer: refused at load.
pub const EXPRESSION_BYTES_MAX: usize = 64 * KIB as usize;
/// Memory that one compiled pattern (`=~ /re/`) may take, in bytes. More: refused at load.
pub const PATTERN_BYTES_MAX: usize = MIB as usize;
/// Longest template, in bytes. Longer: refused at load.
pub const PAYLOAD_TEMPLATE_BYTES_MAX: usize = MIB as usize;
/// Largest text that a template or an expression may make, in bytes. More: the evaluation fails.
pub const MADE_BYTES_MAX: usize = 40 * MIB as usize;
/// Most instructions that one run of a template may take, loops counted. More: the run fails.
pub const TEMPLATE_INSTRUCTIONS_MAX: u64 = 1_000_000;

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
