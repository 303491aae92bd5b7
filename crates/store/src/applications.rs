//! Applications, as documents that only their writer and gateways understand. Each has the number of its last change, so
//! that a gateway that knows all up to one number asks for those after it. A removed one stays for a while, without
//! document.

use futures_util::TryStreamExt;
use sqlx::Row;

use crate::database::{retried, seconds, stored};
use crate::{Store, StoreError, limits};

/// An application, or a tombstone of a removed one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Application {
    pub name: String,
    /// `None`: it was removed.
    pub document: Option<String>,
    /// The number of its last change.
    pub revision: u64,
}

/// The outcome of adding or replacing an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Put {
    Done,
    /// Nothing is changed: the application of this name has this credential.
    Taken {
        credential: String,
        by: String,
    },
}

impl Store {
    /// The application `name`.
    ///
    /// # Errors
    /// The database's.
    pub async fn application(&self, name: &str) -> Result<Option<String>, StoreError> {
        let select = self.sql("SELECT document FROM applications WHERE name = ? AND removed_s = 0");
        let row = sqlx::query(select).bind(name).fetch_optional(&self.pool).await?;
        row.map(|row| Ok(row.try_get(0)?)).transpose()
    }

    /// Applications that changed after the number `after`, in the order of their last changes: up to `most` of them, with
    /// documents of up to `bytes_most` bytes, but at least one. Returns also whether there may be more.
    ///
    /// # Errors
    /// The database's.
    pub async fn applications(
        &self,
        after: u64,
        (most, bytes_most): (u32, usize),
    ) -> Result<(Vec<Application>, bool), StoreError> {
        let select = self.sql(
            "SELECT name, document, revision, removed_s FROM applications WHERE revision > ? \
             ORDER BY revision LIMIT ?",
        );
        let query = sqlx::query(select).bind(stored(after)).bind(i64::from(most));
        let mut rows = query.fetch(&self.pool);
        let (mut found, mut bytes) = (Vec::new(), 0_usize);
        while let Some(row) = rows.try_next().await? {
            let exists = row.try_get::<i64, _>(3)? == 0;
            let document: Option<String> = exists.then(|| row.try_get(1)).transpose()?;
            bytes = bytes.saturating_add(document.as_ref().map_or(0, String::len));
            if bytes > bytes_most && !found.is_empty() {
                return Ok((found, true));
            }
            let revision = seconds(row.try_get(2)?);
            found.push(Application { name: row.try_get(0)?, document, revision });
        }
        let more = found.len() >= usize::try_from(most).unwrap_or(usize::MAX);
        Ok((found, more))
    }

    /// The number of applications, removed ones included.
    ///
    /// # Errors
    /// The database's.
    pub async fn count_applications(&self) -> Result<u64, StoreError> {
        let row = sqlx::query("SELECT COUNT(*) FROM applications").fetch_one(&self.pool).await?;
        Ok(seconds(row.try_get(0)?))
    }

    /// Adds or replaces the application `name`, which is the only one with these credentials.
    ///
    /// # Errors
    /// The database's; nothing is changed then.
    pub async fn put_application(
        &self,
        name: &str,
        document: &str,
        credentials: &[String],
    ) -> Result<Put, StoreError> {
        retried(|| async move {
            let mut transaction = self.pool.begin().await?;
            // First, since others then wait: none adds the same credential or name meanwhile.
            let revision = self.take_revisions(&mut transaction, 1).await?;
            let free = self.sql("DELETE FROM application_keys WHERE application = ?");
            sqlx::query(free).bind(name).execute(&mut *transaction).await?;
            for credential in credentials {
                let owner = self.sql("SELECT application FROM application_keys WHERE credential = ?");
                let owner = sqlx::query(owner).bind(credential.as_str());
                if let Some(row) = owner.fetch_optional(&mut *transaction).await? {
                    return Ok(Put::Taken { credential: credential.clone(), by: row.try_get(0)? });
                }
                let insert =
                    self.sql("INSERT INTO application_keys (credential, application) VALUES (?, ?)");
                let insert = sqlx::query(insert).bind(credential.as_str()).bind(name);
                insert.execute(&mut *transaction).await?;
            }
            let statements = [
                "UPDATE applications SET document = ?, revision = ?, removed_s = 0 WHERE name = ?",
                "INSERT INTO applications (document, revision, name, removed_s) VALUES (?, ?, ?, 0)",
            ];
            for statement in statements {
                let query = sqlx::query(self.sql(statement)).bind(document).bind(revision).bind(name);
                if query.execute(&mut *transaction).await?.rows_affected() > 0 {
                    break;
                }
            }
            transaction.commit().await?;
            Ok(Put::Done)
        })
        .await
    }

    /// Removes the application `name`. False: there is none.
    ///
    /// # Errors
    /// The database's; nothing is changed then.
    pub async fn remove_application(&self, name: &str, now_s: u64) -> Result<bool, StoreError> {
        retried(|| async move {
            let mut transaction = self.pool.begin().await?;
            let revision = self.take_revisions(&mut transaction, 1).await?;
            let update = self.sql(
                "UPDATE applications SET document = '', revision = ?, removed_s = ? \
                 WHERE name = ? AND removed_s = 0",
            );
            let update = sqlx::query(update).bind(revision).bind(stored(now_s)).bind(name);
            if update.execute(&mut *transaction).await?.rows_affected() == 0 {
                return Ok(false);
            }
            let free = self.sql("DELETE FROM application_keys WHERE application = ?");
            sqlx::query(free).bind(name).execute(&mut *transaction).await?;
            transaction.commit().await?;
            Ok(true)
        })
        .await
    }

    /// Forgets which applications were removed long ago.
    pub(crate) async fn forget_removed(&self, now_s: u64) -> Result<(), StoreError> {
        const OLD: &str = "FROM applications WHERE removed_s > 0 AND removed_s < ?";
        let old_s = stored(now_s.saturating_sub(limits::REMOVED_S));
        retried(|| async move {
            let mut transaction = self.pool.begin().await?;
            // Writes first: a read before would be of a state that another process may have changed when this one writes.
            let newest = format!("(SELECT COALESCE(MAX(revision), 0) {OLD})");
            let forget = self.sql(&format!(
                "UPDATE revisions SET forgotten = {newest} WHERE forgotten < {newest}"
            ));
            sqlx::query(forget).bind(old_s).bind(old_s).execute(&mut *transaction).await?;
            let delete = self
                .sql(&format!("DELETE {OLD} AND revision <= (SELECT forgotten FROM revisions)"));
            sqlx::query(delete).bind(old_s).execute(&mut *transaction).await?;
            Ok(transaction.commit().await?)
        })
        .await
    }
}
