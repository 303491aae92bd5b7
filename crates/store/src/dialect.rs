//! The differences between the databases' SQL.

use sqlx::AssertSqlSafe;

use crate::limits;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Sqlite,
    Postgres,
    /// MySQL and MariaDB.
    Mysql,
}

impl Dialect {
    /// The dialect of the server at `url`.
    pub(crate) fn of(url: &str) -> Option<Self> {
        match url.split_once(':')? {
            ("postgres" | "postgresql", _) => Some(Self::Postgres),
            ("mysql" | "mariadb", _) => Some(Self::Mysql),
            _ => None,
        }
    }

    /// Converts the placeholders (`?`) of `statement`, which is a literal of this crate, to the database's form.
    pub(crate) fn sql(self, statement: &str) -> AssertSqlSafe<String> {
        AssertSqlSafe(match self {
            Self::Sqlite | Self::Mysql => statement.to_owned(),
            Self::Postgres => numbered(statement),
        })
    }

    /// The end of an `INSERT` that [`crate::Store::insert_new`] executes, into a table with the unique columns `key`.
    pub(crate) fn or_nothing(self, key: &str) -> String {
        match self {
            Self::Sqlite | Self::Postgres => format!(" ON CONFLICT ({key}) DO NOTHING"),
            // `INSERT IGNORE` would also truncate long values.
            Self::Mysql => String::new(),
        }
    }

    /// The end of an `INSERT` that changes `columns` of the row with the same `key`, if there is one.
    pub(crate) fn or_replace(self, key: &str, columns: &[&str]) -> String {
        let assign = |column: &&str| match self {
            Self::Sqlite | Self::Postgres => format!("{column} = excluded.{column}"),
            Self::Mysql => format!("{column} = VALUES({column})"),
        };
        let assignments = columns.iter().map(assign).collect::<Vec<_>>().join(", ");
        match self {
            Self::Sqlite | Self::Postgres => {
                format!(" ON CONFLICT ({key}) DO UPDATE SET {assignments}")
            }
            Self::Mysql => format!(" ON DUPLICATE KEY UPDATE {assignments}"),
        }
    }

    /// An expression for `text` with ASCII capitals in lower case, in any locale of the database. MySQL converts other
    /// letters too.
    pub(crate) fn lower(self, text: &str) -> String {
        match self {
            Self::Sqlite | Self::Mysql => format!("LOWER({text})"),
            Self::Postgres => format!("LOWER({text} COLLATE \"C\")"),
        }
    }

    /// The settings of each connection.
    pub(crate) fn settings(self) -> Vec<String> {
        let busy_ms = limits::BUSY_MS_MAX;
        match self {
            Self::Sqlite => vec![
                format!("PRAGMA busy_timeout = {busy_ms}"),
                "PRAGMA journal_mode = WAL".to_owned(),
                "PRAGMA synchronous = FULL".to_owned(),
            ],
            Self::Postgres => Vec::new(),
            Self::Mysql => vec![
                // Overrides the server's settings: long values are errors, and a statement sees the committed changes
                // of others.
                format!(
                    "SET sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', autocommit = 1, \
                     innodb_lock_wait_timeout = {}",
                    busy_ms.div_ceil(1_000)
                ),
                "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED".to_owned(),
            ],
        }
    }
}

/// `?, ?` as `$1, $2`. No statement of this crate has a `?` in a text.
fn numbered(statement: &str) -> String {
    let mut parts = statement.split('?');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for (number, part) in (1_u32..).zip(parts) {
        out.push('$');
        out.push_str(&number.to_string());
        out.push_str(part);
    }
    out
}
