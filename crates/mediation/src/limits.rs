//! The limits of mediation.

/// Maximum depth of sequences inside each other, by reference or by nesting, in one run. Deeper: the message fails.
/// A sequence that calls itself ends here.
pub const SEQUENCE_DEPTH_MAX: usize = 64;
/// Maximum nesting of mediators in an artefact. Deeper: rejected at load; compiling recurses on it.
pub const ELEMENT_DEPTH_MAX: usize = 64;
/// Maximum depth of endpoints inside each other, by reference or by nesting. Deeper: rejected at load, or the message
/// fails.
pub const ENDPOINT_DEPTH_MAX: usize = 8;
/// Maximum number of members of an endpoint that a message lists in `EP_LIST`. More: the message fails.
pub const ENDPOINT_MEMBERS_MAX: usize = 64;
/// Maximum number of endpoints, those inside groups included, that one message is sent to or may be sent to. More: the
/// message fails.
pub const TARGETS_MAX: usize = 256;
/// Maximum size of all endpoint templates with their values, in bytes. More: the endpoint is rejected at load.
pub const TEMPLATES_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Steps that every mediator is charged, so that a loop of mediators ends.
pub const MEDIATOR_STEPS: u64 = 50;
/// Maximum number of messages that a mediator makes of one (more: the message fails), and of the messages of one run
/// that are alive (more: the whole run fails).
pub const PARTS_MAX: usize = 10_000;
/// Maximum number of properties and variables of a message. More: the message fails.
pub const PROPERTIES_MAX: usize = 1_024;
/// Maximum memory of a pattern in an artefact, in bytes. More: rejected at load.
pub const PATTERN_BYTES_MAX: usize = 1024 * 1024;
/// Longest wait for the response of an endpoint without a `timeout`, in milliseconds. Source: Synapse's
/// `synapse.global_timeout_interval`.
pub const ENDPOINT_TIMEOUT_MS: u32 = 120_000;
/// Time that a step may take on the thread of a worker, in nanoseconds, by estimate. Longer: the host may move it to a
/// thread for heavy work. Source: docs/performance.md; the added latency at the median is to stay under 100 µs.
pub const HEAVY_NS: u64 = 1_000_000;
/// Steps of the budget between two events on the thread of a worker. More: as for `HEAVY_NS`. A step takes about 10 ns.
pub const HEAVY_STEPS: u64 = HEAVY_NS / 10;
/// Estimate of reading a body, in nanoseconds per byte. Source: docs/xml.md.
pub const READ_NS_PER_BYTE: u64 = 3;
/// Estimate of replacing a body, in nanoseconds per byte.
pub const REWRITE_NS_PER_BYTE: u64 = 8;
/// Estimate of splitting a body, in nanoseconds per byte: a part takes about a microsecond, and an item of 10 bytes is
/// short.
pub const SPLIT_NS_PER_BYTE: u64 = 100;
/// Estimate of a transformation by a stylesheet, in nanoseconds per byte: it reads, searches and writes.
pub const TRANSFORM_NS_PER_BYTE: u64 = 20;
/// Maximum number of fields of a form that a mediator reads. More: the body is malformed.
pub const FORM_FIELDS_MAX: usize = 10_000;
/// Maximum number of parts of a `multipart/form-data` body that a mediator reads. More: the body is malformed.
pub const MULTIPART_PARTS_MAX: usize = 1_000;
/// Maximum size of the head of a part, in bytes. Larger: the body is malformed.
pub const MULTIPART_HEAD_BYTES_MAX: usize = 8 * 1024;
