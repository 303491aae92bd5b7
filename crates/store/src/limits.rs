//! The limits of the store. `docs/limits.md` is generated from them.

/// Connections to the database of one process. More at once: a request waits, up to [`ACQUIRE_MS_MAX`].
pub const CONNECTIONS_MAX: u32 = 8;
/// Longest wait for a connection to the database, in milliseconds. Longer: the request fails with 503.
pub const ACQUIRE_MS_MAX: u64 = 5_000;
/// Longest wait for another process that is applying migrations, in milliseconds. Longer: the start fails.
pub const MIGRATION_MS_MAX: u64 = 60_000;
/// Longest wait for another writer of an SQLite file, or of a row in MySQL, in milliseconds. Longer: the request fails
/// with 503.
pub const BUSY_MS_MAX: u64 = 5_000;
/// Repetitions of a transaction that the database ended to resolve a deadlock. More: the request fails with 503.
pub const DEADLOCK_RETRIES_MAX: u32 = 5;
/// Maximum number of tries to change a count of failed attempts that other instances change at the same time. More: the
/// failure counts in this instance only.
pub const FAILURE_CHANGES_MAX: u32 = 8;
/// Time for which the removal of an application or a plan is remembered, in seconds. A gateway that was cut off for
/// longer receives all applications again.
pub const REMOVED_S: u64 = 7 * 86_400;
/// Removed applications, and removed plans, of which it is known that they were removed. More: the oldest are
/// forgotten, as if [`REMOVED_S`] had passed.
pub const REMOVED_MAX: u64 = 10_000;
