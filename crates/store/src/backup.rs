//! Backups of an SQLite database, written while it is in use, and restored while it is not.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use sqlx::any::AnyConnectOptions;
use sqlx::{AnyConnection, AssertSqlSafe, Connection, Row};

use crate::database::{Database, create_private, encoded};
use crate::{StoreError, migrations};

/// The code of SQLite for a database that another connection uses, without its extension.
const BUSY: i64 = 5;

/// Writes the state of `database` to the new file `to`, also while the control plane runs. The schema is not updated.
///
/// # Errors
/// It is not an SQLite database, `to` exists, or a file cannot be read or written.
pub async fn backup(database: &Database, to: &Path) -> Result<(), StoreError> {
    let file = sqlite(database)?;
    fs::metadata(file).map_err(copy(file))?;
    create_private(to, true).map_err(copy(to))?;
    let written = async {
        let mut connection = connect(file).await?;
        let name = to.to_str().ok_or_else(|| copy(to)(ErrorKind::InvalidFilename.into()))?;
        sqlx::query("VACUUM INTO ?").bind(name).execute(&mut connection).await?;
        connection.close().await?;
        synchronise(to)
    };
    if let Err(error) = written.await {
        // The error is more important than leftovers, such as an incomplete copy on a full disk.
        let _ = fs::remove_file(to);
        return Err(error);
    }
    Ok(())
}

/// Replaces `database` by `from`, a file that [`backup`] wrote.
///
/// # Errors
/// It is not an SQLite database, another process uses it, or `from` is damaged or of a newer version: nothing is
/// changed then.
pub async fn restore(database: &Database, from: &Path) -> Result<(), StoreError> {
    let file = sqlite(database)?;
    let new = beside(file, "-restoring");
    create_private(&new, false).map_err(copy(&new))?;
    let replaced = async {
        fs::copy(from, &new).map_err(copy(from))?;
        check(&new).await?;
        synchronise(&new)?;
        release(file).await?;
        for suffix in ["-wal", "-shm"] {
            remove(&beside(file, suffix))?;
        }
        fs::rename(&new, file).map_err(copy(file))
    };
    if let Err(error) = replaced.await {
        // The error is more important than leftovers.
        let _ = fs::remove_file(&new);
        return Err(error);
    }
    synchronise(file)
}

fn sqlite(database: &Database) -> Result<&Path, StoreError> {
    match database {
        Database::Sqlite(file) => Ok(file),
        Database::Server(_) => Err(StoreError::NotSqlite),
    }
}

async fn connect(file: &Path) -> Result<AnyConnection, StoreError> {
    sqlx::any::install_default_drivers();
    let url = format!("sqlite:{}", encoded(file));
    let options: AnyConnectOptions = url.parse().map_err(|_| StoreError::Url)?;
    Ok(AnyConnection::connect_with(&options).await?)
}

/// Checks that `file` is an undamaged database of a known version. Leaves no other file beside it.
async fn check(file: &Path) -> Result<(), StoreError> {
    let checked = async {
        let mut connection = connect(file).await?;
        sqlx::query("PRAGMA journal_mode = DELETE").execute(&mut connection).await?;
        let row = sqlx::query("PRAGMA integrity_check").fetch_one(&mut connection).await?;
        let sound = row.try_get::<String, _>(0)? == "ok";
        let version = migrations::version(&mut connection).await?;
        connection.close().await?;
        Ok::<_, StoreError>((sound, version))
    };
    match checked.await {
        Ok((true, version)) => migrations::check(version, migrations::MIGRATIONS),
        Ok((false, _)) | Err(_) => Err(StoreError::NotABackup),
    }
}

/// Fails if another process uses the database, since only a sole connection can leave write-ahead logging. A damaged or
/// missing database can be replaced.
async fn release(file: &Path) -> Result<(), StoreError> {
    if !file.exists() {
        return Ok(());
    }
    let alone = async {
        let mut connection = connect(file).await?;
        for pragma in ["PRAGMA busy_timeout = 0", "PRAGMA journal_mode = DELETE"] {
            sqlx::query(AssertSqlSafe(pragma)).execute(&mut connection).await?;
        }
        Ok::<_, StoreError>(connection.close().await?)
    };
    match alone.await {
        Err(StoreError::Sql(error)) if is_busy(&error) => Err(StoreError::InUse),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn is_busy(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    let code = code.and_then(|code| code.parse::<i64>().ok());
    code.is_some_and(|code| code & 0xff == BUSY)
}

fn beside(file: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(file);
    name.push(suffix);
    PathBuf::from(name)
}

fn remove(file: &Path) -> Result<(), StoreError> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(copy(file)(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Waits until the file and its name are on the disk.
fn synchronise(file: &Path) -> Result<(), StoreError> {
    let written = || {
        File::open(file)?.sync_all()?;
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    };
    written().map_err(copy(file))
}

fn copy(file: &Path) -> impl Fn(io::Error) -> StoreError {
    let file = file.to_owned();
    move |source| StoreError::Copy { file: file.clone(), source }
}
