//! The limits of mediation.

/// Maximum depth of sequences inside each other, by reference or by nesting, in one run. Deeper: the message fails.
/// A sequence that calls itself ends here.
pub const SEQUENCE_DEPTH_MAX: usize = 64;
/// Maximum depth of sequences inside each other in a flow that is followed without a run. Deeper: a run follows it.
pub const PASS_THROUGH_DEPTH_MAX: usize = 8;
/// Maximum number of failures of one message that error handlers take. More: the failure has no handler.
/// A sequence that is its own error handler, and fails, ends here.
pub const HANDLED_FAILURES_MAX: usize = 64;
/// Memory that the error handlers of a run get once in addition to its budget, in bytes, if less is left. More than
/// that: the failure has no handler.
pub const HANDLER_BYTES: usize = 256 * 1024;
/// The same for steps.
pub const HANDLER_STEPS: u64 = 20_000;
const _: () = assert!(HANDLER_STEPS <= HEAVY_STEPS, "a handler runs on the thread of a worker");
/// Memory that a mediator used and released for the price of a step, in bytes, so that many small ones end, too.
pub const RELEASED_BYTES_PER_STEP: u64 = 256;
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
/// Maximum size of the responses that all mediators `cache` keep, in bytes. More: the oldest of the `cache` that uses
/// most leave.
pub const CACHE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Responses that are looked at in one sweep for those whose time is over.
pub const CACHE_SWEPT_MAX: usize = 1_000;
/// Maximum number of responses that one `cache` keeps. More: the oldest leave.
pub const CACHED_RESPONSES_MAX: usize = 100_000;
/// Maximum size of the body of a response that a `cache` keeps, in bytes. Larger: not kept.
pub const CACHED_BODY_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Maximum size of the key by which a `cache` compares requests: method, target, fields and body, in bytes. Larger: the
/// response is not kept.
pub const CACHE_KEY_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of clients that one `throttle` counts. More: the others share one count.
pub const THROTTLE_CLIENTS_MAX: usize = 100_000;
/// Maximum number of ranges of addresses in the policy of a `throttle`. More: rejected at load.
pub const THROTTLE_RULES_MAX: usize = 1_000;
/// Maximum number of properties and variables of a message. More: the message fails.
pub const PROPERTIES_MAX: usize = 1_024;
/// Maximum memory of a pattern in an artefact, in bytes. More: rejected at load.
pub const PATTERN_BYTES_MAX: usize = 1024 * 1024;
/// Longest wait for the response of an endpoint without a `timeout`, in milliseconds. Source: Synapse's
/// `synapse.global_timeout_interval`.
pub const ENDPOINT_TIMEOUT_MS: u32 = 120_000;
/// Longest wait for the response of an interceptor service without a `requestTimeout`, in seconds. Longer: fault
/// 103500. Source: Choreo Connect's `router.clusterTimeoutInSeconds`.
pub const INTERCEPTOR_TIMEOUT_S: u32 = 20;
/// Time that a step may take on the thread of a worker, in nanoseconds, by estimate. Longer: the host may move it to a
/// thread for heavy work. Source: docs/performance.md; the added latency at the median is to stay under 100 µs.
pub const HEAVY_NS: u64 = 1_000_000;
/// Steps of the budget between two events on the thread of a worker. More: as for `HEAVY_NS`. A step takes about 10 ns.
pub const HEAVY_STEPS: u64 = 100_000;
const _: () = assert!(HEAVY_STEPS == HEAVY_NS / 10, "see HEAVY_STEPS");
/// Estimate of reading a body, in nanoseconds per byte. Source: docs/xml.md.
pub const READ_NS_PER_BYTE: u64 = 3;
/// Estimate of replacing a body, in nanoseconds per byte.
pub const REWRITE_NS_PER_BYTE: u64 = 8;
/// Estimate of splitting a body, in nanoseconds per byte: a part takes about a microsecond, and an item of 10 bytes is
/// short.
pub const SPLIT_NS_PER_BYTE: u64 = 100;
/// Estimate of a transformation by a stylesheet, in nanoseconds per byte: it reads, searches and writes.
pub const TRANSFORM_NS_PER_BYTE: u64 = 20;
/// Default maximum size of a compressed body when it is decoded, in bytes; the gateway's is `held_body_bytes_max`.
/// Larger: the body is malformed.
pub const DECODED_BYTES_MAX: usize = 10 * 1024 * 1024;
/// Size up to which a decoded body may be any multiple of its compressed size, in bytes.
pub const DECODED_FREE_BYTES: usize = 256 * 1024;
/// Maximum ratio of a decoded body to its compressed size, above that. More: the body is malformed. Source: Apache
/// httpd's `DeflateInflateRatioLimit`.
pub const DECODED_RATIO_MAX: usize = 200;
/// Bytes of a compressed body that are decoded for the price of a step.
pub const DECODED_BYTES_PER_STEP: usize = 16;
/// Steps that each further member of a `gzip` body is charged, for the memory of its decoder.
pub const GZIP_MEMBER_STEPS: u64 = 500;
/// Maximum number of fields of a form that a mediator reads. More: the body is malformed.
pub const FORM_FIELDS_MAX: usize = 10_000;
/// Maximum number of parts of a multipart body that a mediator reads. More: the body is malformed.
pub const MULTIPART_PARTS_MAX: usize = 1_000;
/// Maximum size of the head of a part, in bytes. Larger: the body is malformed.
pub const MULTIPART_HEAD_BYTES_MAX: usize = 8 * 1024;
/// Maximum length of a script with its included scripts, in bytes. Longer: rejected at load.
pub const SCRIPT_BYTES_MAX: usize = 256 * 1024;
/// Maximum memory of a script for one message, in bytes. More: the message fails.
pub const SCRIPT_MEMORY_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Maximum stack of a script, in bytes. More: the message fails. It must fit a thread's stack.
pub const SCRIPT_STACK_BYTES_MAX: usize = 256 * 1024;
/// Steps that a script is charged for its engine, which is made for each message.
pub const SCRIPT_START_STEPS: u64 = 10_000;
/// Steps that a script is charged for each interrupt, which QuickJS makes after 10,000 jumps and calls.
pub const SCRIPT_STEPS_PER_INTERRUPT: u64 = 20_000;
/// Processor time between two interrupts of a script that counts as one more, in microseconds: a jump or call may be an
/// operation on long texts.
pub const SCRIPT_INTERRUPT_US: u64 = 10_000;
/// Interrupts that a script has at load, where nothing of it should run. More: rejected.
pub const SCRIPT_CHECK_INTERRUPTS: u64 = 100;
/// Maximum length of the message of a failed validation, in bytes. Longer: cut.
pub const VALIDATION_ERROR_BYTES_MAX: usize = 1024;
/// Estimate of checking a body against a JSON Schema, in nanoseconds per byte.
pub const VALIDATE_NS_PER_BYTE: u64 = 30;
/// Maximum number of other JSON Schemas that one refers to, directly or through others. More: rejected at load.
pub const SCHEMA_REFERENCES_MAX: usize = 64;
/// Bytes of a JSON Schema that a value is compared with for the price of a step.
pub const SCHEMA_BYTES_PER_STEP: usize = 512;

/// Whether work on `bytes` that takes so long per byte is more than `HEAVY_NS`.
pub(crate) fn takes_long(bytes: usize, ns_per_byte: u64) -> bool {
    let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
    bytes.saturating_mul(ns_per_byte) > HEAVY_NS
}
