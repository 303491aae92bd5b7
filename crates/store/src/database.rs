//! The database: connections, transactions, and the migrations of a start.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sqlx::any::{AnyArguments, AnyConnectOptions, AnyPoolOptions};
use sqlx::query::Query;
use sqlx::{Any, AnyConnection, AnyPool, AssertSqlSafe, Connection, Executor};
use tokio::sync::Notify;

use crate::dialect::Dialect;
use crate::{StoreError, limits, migrations, mysql};

/// The location of the data.
#[derive(Clone, PartialEq, Eq)]
pub enum Database {
    /// A file, created if it does not exist.
    Sqlite(PathBuf),
    /// A `postgres://`, `mysql://` or `mariadb://` URL.
    Server(String),
}

impl Database {
    /// Whether this build can open it: all can open an SQLite database, and those with the cargo feature `databases`
    /// also one of a server.
    #[must_use]
    pub fn is_included(&self) -> bool {
        match self {
            Self::Sqlite(_) => true,
            Self::Server(_) => cfg!(feature = "databases"),
        }
    }
}

/// URLs are not printed, since they can hold a password.
impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Sqlite(file) => f.debug_tuple("Sqlite").field(file).finish(),
            Self::Server(_) => f.write_str("Server(..)"),
        }
    }
}

/// An open database with the current schema. Clones share its connections.
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) pool: AnyPool,
    pub(crate) dialect: Dialect,
    pub(crate) changes: Arc<Notify>,
}

impl Store {
    /// Connects, and applies the migrations that are missing. Several processes may start at once: one applies them,
    /// the others wait.
    ///
    /// # Errors
    /// The database is not reachable, its schema is newer than this version, or a migration fails.
    pub async fn open(database: &Database) -> Result<Self, StoreError> {
        sqlx::any::install_default_drivers();
        let (url, dialect) = match database {
            Database::Sqlite(file) => {
                create_private(file, false)
                    .map_err(|source| StoreError::File { file: file.clone(), source })?;
                (format!("sqlite:{}", encoded(file)), Dialect::Sqlite)
            }
            Database::Server(url) => (url.clone(), Dialect::of(url).ok_or(StoreError::Url)?),
        };
        // The error of an invalid URL can contain the URL.
        let options: AnyConnectOptions = url.parse().map_err(|_| StoreError::Url)?;
        migrate(&options, dialect, migrations::MIGRATIONS).await?;
        let pool = AnyPoolOptions::new()
            .max_connections(limits::CONNECTIONS_MAX)
            .acquire_timeout(Duration::from_millis(limits::ACQUIRE_MS_MAX))
            .after_connect(move |connection, _| Box::pin(prepare(connection, dialect)))
            .connect_with(options)
            .await?;
        Ok(Self { pool, dialect, changes: Arc::default() })
    }

    /// Closes the connections, after the operations in progress.
    pub async fn close(&self) {
        self.pool.close().await;
    }

    pub(crate) fn sql(&self, statement: &str) -> AssertSqlSafe<String> {
        self.dialect.sql(statement)
    }

    /// Executes `insert`, which ends with [`Dialect::or_nothing`]. Returns false if the row already exists.
    pub(crate) async fn insert_new<'e>(
        &self,
        insert: Query<'e, Any, AnyArguments>,
        executor: impl Executor<'e, Database = Any>,
    ) -> Result<bool, StoreError> {
        let is_there = |error: &sqlx::Error| {
            let error = error.as_database_error();
            self.dialect == Dialect::Mysql && error.is_some_and(|error| error.is_unique_violation())
        };
        match insert.execute(executor).await {
            Ok(done) => Ok(done.rows_affected() == 1),
            Err(error) if is_there(&error) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// Repeats `transaction` while the database ends it to resolve a deadlock.
pub(crate) async fn retried<T, F>(transaction: impl Fn() -> F) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, StoreError>>,
{
    for _ in 0..limits::DEADLOCK_RETRIES_MAX {
        match transaction().await {
            Err(StoreError::Sql(error)) if is_deadlock(&error) => {}
            result => return result,
        }
    }
    transaction().await
}

/// Whether the error is a deadlock of PostgreSQL, or one of MySQL, which has the code of serialisation failures.
fn is_deadlock(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    matches!(code.as_deref(), Some("40P01" | "40001"))
}

async fn prepare(connection: &mut AnyConnection, dialect: Dialect) -> sqlx::Result<()> {
    for setting in dialect.settings() {
        sqlx::query(AssertSqlSafe(setting)).execute(&mut *connection).await?;
    }
    Ok(())
}

/// The key of the advisory lock under which PostgreSQL applies migrations.
const LOCK: i64 = 0x7065_6e73_746f_636b;

/// Applies the migrations under a lock that other processes wait for: in one transaction, if the database can.
async fn migrate(
    options: &AnyConnectOptions,
    dialect: Dialect,
    migrations: &[&[&str]],
) -> Result<(), StoreError> {
    let mut connection = AnyConnection::connect_with(options).await?;
    prepare(&mut connection, dialect).await?;
    let wait_ms = limits::MIGRATION_MS_MAX;
    let (wait, begin) = match dialect {
        Dialect::Sqlite => (format!("PRAGMA busy_timeout = {wait_ms}"), "BEGIN IMMEDIATE"),
        Dialect::Postgres => (format!("SET lock_timeout = {wait_ms}"), "BEGIN"),
        Dialect::Mysql => {
            mysql::lock(&mut connection).await?;
            migrations::apply(&mut connection, dialect, migrations).await?;
            return Ok(connection.close().await?);
        }
    };
    sqlx::query(AssertSqlSafe(wait)).execute(&mut connection).await?;
    let mut transaction = connection.begin_with(begin).await?;
    if dialect == Dialect::Postgres {
        let lock = format!("SELECT pg_advisory_xact_lock({LOCK})");
        sqlx::query(AssertSqlSafe(lock)).execute(&mut *transaction).await?;
    }
    migrations::apply(&mut transaction, dialect, migrations).await?;
    transaction.commit().await?;
    Ok(connection.close().await?)
}

/// Creates `file`, readable only by its owner. An existing file is an error if it must be `new`, and otherwise kept.
/// SQLite gives its other files the same mode.
pub(crate) fn create_private(file: &Path, new: bool) -> io::Result<()> {
    let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
    match created {
        Err(error) if new || error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// The path as part of a URL.
pub(crate) fn encoded(file: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte);
    let encode = |byte: &u8| {
        if plain(*byte) { char::from(*byte).to_string() } else { format!("%{byte:02X}") }
    };
    file.as_os_str().as_bytes().iter().map(encode).collect()
}

/// A number that the database holds as `BIGINT`.
pub(crate) fn stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A time or count from the database.
pub(crate) fn seconds(stored: i64) -> u64 {
    u64::try_from(stored).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::User;

    /// Version 1 of the schema has a user; version 2 fails at its second statement.
    #[tokio::test]
    async fn a_migration_that_fails_half_way_leaves_the_previous_version_working() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("store.db");
        let database = Database::Sqlite(file.clone());
        let store = Store::open(&database).await.expect("a store");
        let user = User {
            name: "ann".to_owned(),
            password: "hash".to_owned(),
            created_s: 1,
            ..User::default()
        };
        assert!(store.add_user(&user).await.expect("added"));
        store.close().await;

        let broken: &[&str] = &["DROP TABLE users", "CREATE TABLE half_way (a BIGINT, nonsense("];
        let migrations = [migrations::MIGRATIONS, &[broken]].concat();
        let url = format!("sqlite:{}", encoded(&file));
        let options: AnyConnectOptions = url.parse().expect("a URL");
        let failed = migrate(&options, Dialect::Sqlite, &migrations).await;
        assert!(matches!(failed, Err(StoreError::Sql(_))), "{failed:?}");

        let store = Store::open(&database).await.expect("the previous version");
        assert_eq!(store.user("ann").await.expect("the table"), Some(user));
    }
}
