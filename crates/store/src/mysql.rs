//! Migrations of MySQL and MariaDB.
//!
//! Their statements that change the schema cannot be rolled back. The table `schema_steps` records the statements of a
//! migration that were begun (0) and done (1), so that the next start continues after the last one. The previous
//! version works with a partly applied migration, since migrations only add.

use sqlx::{AnyConnection, AssertSqlSafe, Connection, Row};

use crate::{StoreError, limits};

/// Keeps other processes out until the connection is closed.
pub(crate) async fn lock(connection: &mut AnyConnection) -> Result<(), StoreError> {
    let wait_s = limits::MIGRATION_MS_MAX.div_ceil(1_000);
    // For statements that wait for running transactions of other processes.
    let wait = format!("SET lock_wait_timeout = {wait_s}");
    sqlx::query(AssertSqlSafe(wait)).execute(&mut *connection).await?;
    // The name is global to the server, and has at most 64 characters.
    let lock =
        format!("SELECT GET_LOCK(CONCAT('penstock/', SHA1(COALESCE(DATABASE(), ''))), {wait_s})");
    let row = sqlx::query(AssertSqlSafe(lock)).fetch_one(connection).await?;
    match row.try_get::<Option<i64>, _>(0)? {
        Some(1) => Ok(()),
        Some(_) | None => Err(StoreError::Migrating),
    }
}

/// Executes the statements of migrations.
pub(crate) struct Steps {
    /// Names and ids are compared byte by byte, trailing spaces included.
    collation: &'static str,
}

impl Steps {
    pub(crate) async fn open(connection: &mut AnyConnection) -> Result<Self, StoreError> {
        // MySQL and MariaDB have no such collation in common.
        let is_mariadb = "SELECT COUNT(*) FROM information_schema.collations \
             WHERE collation_name = 'utf8mb4_nopad_bin'";
        let row = sqlx::query(is_mariadb).fetch_one(&mut *connection).await?;
        let is_mariadb = row.try_get::<i64, _>(0)? == 1;
        let collation = if is_mariadb { "utf8mb4_nopad_bin" } else { "utf8mb4_0900_bin" };
        let steps = Self { collation };
        let create = "CREATE TABLE IF NOT EXISTS schema_steps (version BIGINT NOT NULL, \
             step BIGINT NOT NULL, done BIGINT NOT NULL, PRIMARY KEY (version, step))";
        sqlx::query(steps.sql(create)).execute(connection).await?;
        Ok(steps)
    }

    /// `statement` of the common schema.
    fn sql(&self, statement: &str) -> AssertSqlSafe<String> {
        let Some(table) = statement.strip_prefix("CREATE TABLE ") else {
            return AssertSqlSafe(statement.to_owned());
        };
        // A TEXT has 64 KiB. Servers of a cluster want each table to have a primary key.
        let table = table
            .replace(" TEXT ", " MEDIUMTEXT ")
            .replace("revisions (", "revisions (id BIGINT NOT NULL DEFAULT 1 PRIMARY KEY, ");
        let collation = self.collation;
        AssertSqlSafe(format!(
            "CREATE TABLE {table} ENGINE = InnoDB ROW_FORMAT = DYNAMIC \
             DEFAULT CHARACTER SET = utf8mb4 COLLATE = {collation}"
        ))
    }

    /// Executes the statement number `step` of the migration to `version`, unless an earlier start did.
    pub(crate) async fn run(
        &self,
        connection: &mut AnyConnection,
        (version, step): (i64, i64),
        statement: &str,
    ) -> Result<(), StoreError> {
        let select = "SELECT done FROM schema_steps WHERE version = ? AND step = ?";
        let query = sqlx::query(select).bind(version).bind(step);
        let row = query.fetch_optional(&mut *connection).await?;
        let was_begun = match row.map(|row| row.try_get::<i64, _>(0)).transpose()? {
            Some(1) => return Ok(()),
            Some(_) => true,
            None => false,
        };
        if !was_begun {
            let begin = "INSERT INTO schema_steps (version, step, done) VALUES (?, ?, 0)";
            sqlx::query(begin).bind(version).bind(step).execute(&mut *connection).await?;
        }
        // A change of rows is committed together with its record, a change of the schema before it.
        let mut transaction = connection.begin().await?;
        match sqlx::query(self.sql(statement)).execute(&mut *transaction).await {
            Ok(_) => {}
            // The process or the server ended before it was recorded.
            Err(error) if was_begun && is_done(&error) => {}
            Err(error) => {
                transaction.rollback().await?;
                if !was_begun {
                    let forget = "DELETE FROM schema_steps WHERE version = ? AND step = ?";
                    sqlx::query(forget).bind(version).bind(step).execute(connection).await?;
                }
                return Err(error.into());
            }
        }
        let done = "UPDATE schema_steps SET done = 1 WHERE version = ? AND step = ?";
        sqlx::query(done).bind(version).bind(step).execute(&mut *transaction).await?;
        Ok(transaction.commit().await?)
    }
}

/// Whether a statement failed because it had been executed: the table, column or index exists. A single change of the
/// schema is atomic, from MariaDB 10.6 and MySQL 8.0 on.
#[cfg(feature = "databases")]
fn is_done(error: &sqlx::Error) -> bool {
    use sqlx::mysql::MySqlDatabaseError;

    let number = error
        .as_database_error()
        .and_then(|error| error.try_downcast_ref::<MySqlDatabaseError>())
        .map(MySqlDatabaseError::number);
    matches!(number, Some(1050 | 1060 | 1061))
}

/// Never called: without the cargo feature `databases` no connection is one to MySQL or MariaDB.
#[cfg(not(feature = "databases"))]
fn is_done(_: &sqlx::Error) -> bool {
    false
}
