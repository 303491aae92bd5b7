//! The control plane's database: users, OAuth2 clients, the hashes of tokens, applications, plans, and failed attempts.
//!
//! Place in the flow: `manager` (rules) --> **store** (SQL) --> SQLite, PostgreSQL, MySQL or MariaDB. There is one
//! schema and one set of statements; the differences between the databases are in [`dialect`] and [`mysql`]. A write
//! has reached the disk when its function returns.
//!
//! Architecture invariant: no rule of OAuth2, no clock and no password: times are arguments, and secrets arrive
//! as hashes. No error contains the URL of the database, which can hold a password.

mod applications;
mod backup;
mod clients;
mod codes;
mod database;
mod devices;
mod dialect;
mod failures;
pub mod limits;
mod migrations;
mod mysql;
mod revocations;
mod tokens;
mod users;

pub use applications::{Document, Kind, Put, Removed, Unless};
pub use backup::{backup, restore};
pub use clients::{Client, TokenType};
pub use codes::Code;
pub use database::{Database, Store};
pub use devices::{Decision, Device};
pub use failures::Failures;
pub use revocations::{Revocation, TokensOfClient};
pub use tokens::{NewKey, Rotation, Rows, Token, TokenKind};
pub use users::{NewPassword, NewUser, User};

use std::path::PathBuf;

/// Why an operation of the store failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("the URL of the database is not valid")]
    Url,
    #[error("cannot create the database file {}: {source}", file.display())]
    File { file: PathBuf, source: std::io::Error },
    #[error(
        "the database has schema version {found}, and this version of Penstock knows {known}: \
         start the newer version again, or restore a backup"
    )]
    Newer { found: i64, known: i64 },
    #[error(
        "only an SQLite database can be copied; use pg_dump and pg_restore for PostgreSQL, \
         and mysqldump or mariadb-dump for MySQL and MariaDB"
    )]
    NotSqlite,
    #[error(
        "another process is still applying migrations to the database: try again when it has ended"
    )]
    Migrating,
    #[error("another process uses the database: stop the control plane first")]
    InUse,
    #[error("the file is damaged, or is not a backup of this database")]
    NotABackup,
    #[error("{}: {source}", file.display())]
    Copy { file: PathBuf, source: std::io::Error },
    #[error("database: {0}")]
    Sql(#[from] sqlx::Error),
    #[error("the column `{0}` has a value that this version of Penstock does not know")]
    Value(&'static str),
}
