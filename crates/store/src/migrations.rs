//! The schema as numbered migrations, applied in order at every start.
//!
//! All missing migrations, with the rows that record them, are applied in one transaction, so that a failure leaves the
//! previous version. MySQL and MariaDB commit each statement ([`mysql`]): migrations only add, so that the previous
//! version works with a partly applied one. A released migration is never changed: a change of the schema is a new
//! migration.
//!
//! Types that all databases have: `BIGINT`, `VARCHAR` and `TEXT`. Times are seconds since the Unix epoch, hashes are
//! base64url. In MySQL the columns of a table may have 65,535 bytes in total, and an index 3,072; a character counts as
//! 4.

use sqlx::{AnyConnection, AssertSqlSafe, Row};

use crate::dialect::Dialect;
use crate::{StoreError, mysql};

/// The statements of each version, from version 1.
pub(crate) const MIGRATIONS: &[&[&str]] = &[
    VERSION_1,
    // Users other than the administrator.
    &["ALTER TABLE users ADD COLUMN admin BIGINT NOT NULL DEFAULT 0", "UPDATE users SET admin = 1"],
    // Revocations are counted by client.
    &["ALTER TABLE revoked ADD COLUMN client VARCHAR(64) NOT NULL DEFAULT ''"],
    // ID tokens.
    &["ALTER TABLE codes ADD COLUMN nonce VARCHAR(255) NOT NULL DEFAULT ''"],
    // Clients that authenticate by a key.
    &["ALTER TABLE clients ADD COLUMN jwks VARCHAR(4000) NOT NULL DEFAULT ''"],
    // Devices without a browser.
    &[
        "CREATE TABLE devices (
            hash VARCHAR(64) NOT NULL PRIMARY KEY,
            user_code VARCHAR(16) NOT NULL UNIQUE,
            family VARCHAR(64) NOT NULL,
            client VARCHAR(64) NOT NULL,
            scope VARCHAR(4000) NOT NULL,
            expires_s BIGINT NOT NULL,
            decision BIGINT NOT NULL,
            subject VARCHAR(190) NOT NULL,
            decided_s BIGINT NOT NULL,
            polled_s BIGINT NOT NULL)",
        "CREATE INDEX devices_expires ON devices (expires_s)",
    ],
    // Gateways follow revocations.
    &[
        "CREATE TABLE revocations (
            hash VARCHAR(64) NOT NULL PRIMARY KEY,
            revision BIGINT NOT NULL UNIQUE,
            client VARCHAR(64) NOT NULL,
            expires_s BIGINT NOT NULL)",
        "CREATE INDEX revocations_expires ON revocations (expires_s)",
        "CREATE TABLE revisions (last BIGINT NOT NULL)",
        "INSERT INTO revisions (last) VALUES (0)",
    ],
    // Gateways follow applications.
    &[
        "CREATE TABLE applications (
            name VARCHAR(190) NOT NULL PRIMARY KEY,
            document TEXT NOT NULL,
            revision BIGINT NOT NULL UNIQUE,
            removed_s BIGINT NOT NULL)",
        "CREATE INDEX applications_removed ON applications (removed_s)",
        "CREATE TABLE application_keys (
            credential VARCHAR(255) NOT NULL PRIMARY KEY,
            application VARCHAR(190) NOT NULL)",
        "CREATE INDEX application_keys_application ON application_keys (application)",
        "ALTER TABLE revisions ADD COLUMN before_start BIGINT NOT NULL DEFAULT 0",
        "ALTER TABLE revisions ADD COLUMN at_start BIGINT NOT NULL DEFAULT 0",
        "ALTER TABLE revisions ADD COLUMN forgotten BIGINT NOT NULL DEFAULT 0",
    ],
    // Clients that authenticate by a certificate.
    &[
        "ALTER TABLE clients ADD COLUMN certificate VARCHAR(400) NOT NULL DEFAULT ''",
        "ALTER TABLE clients ADD COLUMN bound BIGINT NOT NULL DEFAULT 0",
    ],
    // Users of directories and providers.
    &[
        "ALTER TABLE users ADD COLUMN source VARCHAR(64) NOT NULL DEFAULT ''",
        "ALTER TABLE users ADD COLUMN source_id VARCHAR(255) NOT NULL DEFAULT ''",
        "ALTER TABLE users ADD COLUMN claims VARCHAR(4000) NOT NULL DEFAULT ''",
    ],
    // The time of sign-in of a code's user. Users of other sources are searched by their ID at the source.
    &[
        "ALTER TABLE codes ADD COLUMN auth_s BIGINT NOT NULL DEFAULT 0",
        "ALTER TABLE devices ADD COLUMN auth_s BIGINT NOT NULL DEFAULT 0",
        "CREATE INDEX users_source ON users (source, source_id)",
    ],
    // Instances share the counts of failed attempts.
    &["CREATE TABLE failures (
            place BIGINT NOT NULL PRIMARY KEY,
            failures BIGINT NOT NULL,
            since_s BIGINT NOT NULL,
            last_s BIGINT NOT NULL)"],
    // One revocation for all tokens of a client, up to a time.
    &["ALTER TABLE revocations ADD COLUMN issued_s BIGINT NOT NULL DEFAULT 0"],
    // Gateways follow plans.
    &["CREATE TABLE plans (
            name VARCHAR(190) NOT NULL PRIMARY KEY,
            document TEXT NOT NULL,
            revision BIGINT NOT NULL UNIQUE,
            removed_s BIGINT NOT NULL)"],
    // Expiry of passwords that their users have to replace.
    &["ALTER TABLE users ADD COLUMN one_time BIGINT NOT NULL DEFAULT 0"],
    // Whether the first administrator was created, who may have been removed since.
    &[
        "ALTER TABLE revisions ADD COLUMN has_begun BIGINT NOT NULL DEFAULT 0",
        "UPDATE revisions SET has_begun = 1 WHERE EXISTS (SELECT 1 FROM users)",
    ],
];

const VERSION_1: &[&str] = &[
    "CREATE TABLE users (
        name VARCHAR(190) NOT NULL PRIMARY KEY,
        password VARCHAR(255) NOT NULL,
        created_s BIGINT NOT NULL)",
    "CREATE TABLE clients (
        id VARCHAR(64) NOT NULL PRIMARY KEY,
        secret VARCHAR(64) NOT NULL,
        name VARCHAR(190) NOT NULL,
        owner VARCHAR(190) NOT NULL,
        grants VARCHAR(400) NOT NULL,
        scopes VARCHAR(4000) NOT NULL,
        redirects VARCHAR(4000) NOT NULL,
        token_type VARCHAR(16) NOT NULL,
        created_s BIGINT NOT NULL,
        UNIQUE (owner, name))",
    "CREATE TABLE tokens (
        hash VARCHAR(64) NOT NULL PRIMARY KEY,
        kind VARCHAR(16) NOT NULL,
        family VARCHAR(64) NOT NULL,
        client VARCHAR(64) NOT NULL,
        subject VARCHAR(190) NOT NULL,
        scope VARCHAR(4000) NOT NULL,
        issued_s BIGINT NOT NULL,
        expires_s BIGINT NOT NULL,
        spent BIGINT NOT NULL)",
    "CREATE INDEX tokens_family ON tokens (family)",
    "CREATE INDEX tokens_client ON tokens (client)",
    "CREATE INDEX tokens_expires ON tokens (expires_s)",
    "CREATE TABLE codes (
        hash VARCHAR(64) NOT NULL PRIMARY KEY,
        family VARCHAR(64) NOT NULL,
        client VARCHAR(64) NOT NULL,
        subject VARCHAR(190) NOT NULL,
        scope VARCHAR(4000) NOT NULL,
        redirect VARCHAR(4000) NOT NULL,
        challenge VARCHAR(64) NOT NULL,
        expires_s BIGINT NOT NULL,
        spent BIGINT NOT NULL)",
    "CREATE INDEX codes_expires ON codes (expires_s)",
    "CREATE TABLE revoked (
        jti VARCHAR(64) NOT NULL PRIMARY KEY,
        expires_s BIGINT NOT NULL)",
];

/// Brings the schema to the version of the last of `migrations`. The caller's lock keeps other processes out.
pub(crate) async fn apply(
    connection: &mut AnyConnection,
    dialect: Dialect,
    migrations: &[&[&str]],
) -> Result<(), StoreError> {
    let create = "CREATE TABLE IF NOT EXISTS schema_versions (version BIGINT NOT NULL PRIMARY KEY)";
    sqlx::query(create).execute(&mut *connection).await?;
    let found = version(&mut *connection).await?;
    check(found, migrations)?;
    let steps = match dialect {
        Dialect::Sqlite | Dialect::Postgres => None,
        Dialect::Mysql => Some(mysql::Steps::open(&mut *connection).await?),
    };
    for (version, statements) in (1_i64..).zip(migrations).filter(|(version, _)| *version > found) {
        for (step, statement) in (1_i64..).zip(*statements) {
            if let Some(steps) = &steps {
                steps.run(&mut *connection, (version, step), statement).await?;
            } else {
                sqlx::query(AssertSqlSafe(*statement)).execute(&mut *connection).await?;
            }
        }
        let insert = dialect.sql("INSERT INTO schema_versions (version) VALUES (?)");
        sqlx::query(insert).bind(version).execute(&mut *connection).await?;
    }
    Ok(())
}

/// The version of the schema; 0 if it is empty.
pub(crate) async fn version(connection: &mut AnyConnection) -> Result<i64, StoreError> {
    let rows = sqlx::query("SELECT version FROM schema_versions ORDER BY version DESC LIMIT 1");
    let found = rows.fetch_optional(connection).await?;
    found.map_or(Ok(0), |row| Ok(row.try_get(0)?))
}

/// Fails for a schema of a newer version than the last of `migrations`.
pub(crate) fn check(found: i64, migrations: &[&[&str]]) -> Result<(), StoreError> {
    let known = i64::try_from(migrations.len()).unwrap_or(i64::MAX);
    if found > known { Err(StoreError::Newer { found, known }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrations_only_add_so_that_the_previous_version_works_with_a_part_of_one() {
        for statement in MIGRATIONS.iter().copied().flatten() {
            let words: Vec<_> = statement.split_whitespace().collect();
            let adds = matches!(
                words.as_slice(),
                ["CREATE", "TABLE" | "INDEX", ..]
                    | ["INSERT", "INTO", ..]
                    | ["UPDATE", ..]
                    | ["ALTER", "TABLE", _, "ADD", "COLUMN", _, _, "NOT", "NULL", "DEFAULT", _]
            );
            assert!(adds, "{statement}");
        }
    }
}
