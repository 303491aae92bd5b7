//! Applications and plans, stored as documents whose format only their writer and gateways know. Each document has the
//! number of its last change, so that a gateway can request the changes after the last number that it has seen. A
//! removed document stays for a while as a row without text.

use futures_util::TryStreamExt;
use sqlx::{AnyConnection, Row};

use crate::database::{retried, seconds, stored};
use crate::{Store, StoreError, limits};

/// The kind of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Application,
    Plan,
}

/// An application or a plan, or a tombstone of a removed one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    pub name: String,
    /// The text; `None` if the document was removed.
    pub document: Option<String>,
    /// The number of the document's last change.
    pub revision: u64,
}

impl Kind {
    const ALL: [Self; 2] = [Self::Application, Self::Plan];

    /// Tables with the same columns.
    fn table(self) -> &'static str {
        match self {
            Self::Application => "applications",
            Self::Plan => "plans",
        }
    }
}

/// The outcome of adding or replacing a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Put {
    Done,
    /// Nothing was changed, because the application of this name has this credential.
    Taken {
        credential: String,
        by: String,
    },
}

/// The outcome of removing a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removed {
    Done,
    /// The document does not exist.
    Absent,
    /// Nothing was changed, because an application names it.
    Named,
}

/// The applications that prevent a removal.
#[derive(Clone, Copy)]
pub struct Unless<'a> {
    /// Their documents have this text, ignoring the case of ASCII letters,
    pub text: &'a str,
    /// and this is true of them.
    pub names: &'a (dyn Fn(&str) -> bool + Sync),
}

impl Store {
    /// The document `name`.
    ///
    /// # Errors
    /// An error of the database.
    pub async fn document(&self, kind: Kind, name: &str) -> Result<Option<String>, StoreError> {
        let table = kind.table();
        let select = format!("SELECT document FROM {table} WHERE name = ? AND removed_s = 0");
        let row = sqlx::query(self.sql(&select)).bind(name).fetch_optional(&self.pool).await?;
        row.map(|row| Ok(row.try_get(0)?)).transpose()
    }

    /// Documents that changed after the number `after`, in the order of their last changes: up to `most` of them, with
    /// up to `bytes_most` bytes, but at least one. Also returns whether there may be more.
    ///
    /// # Errors
    /// An error of the database.
    pub async fn documents(
        &self,
        kind: Kind,
        after: u64,
        (most, bytes_most): (u32, usize),
    ) -> Result<(Vec<Document>, bool), StoreError> {
        let select = self.sql(&format!(
            "SELECT name, document, revision, removed_s FROM {} WHERE revision > ? \
             ORDER BY revision LIMIT ?",
            kind.table()
        ));
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
            found.push(Document { name: row.try_get(0)?, document, revision });
        }
        let more = found.len() >= usize::try_from(most).unwrap_or(usize::MAX);
        Ok((found, more))
    }

    /// The number of documents.
    ///
    /// # Errors
    /// An error of the database.
    pub async fn count_documents(&self, kind: Kind) -> Result<u64, StoreError> {
        let count = format!("SELECT COUNT(*) FROM {} WHERE removed_s = 0", kind.table());
        let row = sqlx::query(self.sql(&count)).fetch_one(&self.pool).await?;
        Ok(seconds(row.try_get(0)?))
    }

    /// Whether an application prevents a removal.
    async fn is_prevented(
        &self,
        connection: &mut AnyConnection,
        Unless { text, names }: Unless<'_>,
    ) -> Result<bool, StoreError> {
        let [document, wanted] = ["document", "?"].map(|text| self.dialect.lower(text));
        let select = self.sql(&format!(
            "SELECT document FROM applications WHERE removed_s = 0 AND {document} LIKE {wanted} \
             ESCAPE '!'"
        ));
        let escaped = text.replace('!', "!!").replace('%', "!%").replace('_', "!_");
        let query = sqlx::query(select).bind(format!("%{escaped}%"));
        let mut rows = query.fetch(connection);
        while let Some(row) = rows.try_next().await? {
            if names(row.try_get(0)?) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Adds or replaces the document `name`. No other application may have the same credentials.
    ///
    /// # Errors
    /// An error of the database; nothing is changed then.
    pub async fn put_document(
        &self,
        kind: Kind,
        (name, document): (&str, &str),
        credentials: &[String],
    ) -> Result<Put, StoreError> {
        self.changing(|| async move {
            let mut transaction = self.pool.begin().await?;
            // This comes first, so that other writers wait and none adds the same credential or name meanwhile.
            let revision = self.take_revisions(&mut transaction, 1).await?;
            if kind == Kind::Application {
                self.free_credentials(&mut transaction, name).await?;
            }
            for credential in credentials {
                let owner =
                    self.sql("SELECT application FROM application_keys WHERE credential = ?");
                let owner = sqlx::query(owner).bind(credential.as_str());
                if let Some(row) = owner.fetch_optional(&mut *transaction).await? {
                    return Ok(Put::Taken { credential: credential.clone(), by: row.try_get(0)? });
                }
                let insert = self
                    .sql("INSERT INTO application_keys (credential, application) VALUES (?, ?)");
                let insert = sqlx::query(insert).bind(credential.as_str()).bind(name);
                insert.execute(&mut *transaction).await?;
            }
            self.put(&mut transaction, kind, (name, document, revision)).await?;
            transaction.commit().await?;
            Ok(Put::Done)
        })
        .await
    }

    async fn free_credentials(
        &self,
        connection: &mut AnyConnection,
        application: &str,
    ) -> Result<(), StoreError> {
        let free = self.sql("DELETE FROM application_keys WHERE application = ?");
        sqlx::query(free).bind(application).execute(connection).await?;
        Ok(())
    }

    async fn put(
        &self,
        connection: &mut AnyConnection,
        kind: Kind,
        (name, document, revision): (&str, &str, i64),
    ) -> Result<(), StoreError> {
        let table = kind.table();
        let statements = [
            format!("UPDATE {table} SET document = ?, revision = ?, removed_s = 0 WHERE name = ?"),
            format!(
                "INSERT INTO {table} (document, revision, name, removed_s) VALUES (?, ?, ?, 0)"
            ),
        ];
        for statement in statements {
            let query = sqlx::query(self.sql(&statement)).bind(document).bind(revision).bind(name);
            if query.execute(&mut *connection).await?.rows_affected() > 0 {
                break;
            }
        }
        Ok(())
    }

    /// Removes the document `name`, unless an application prevents it. Frees the credentials of an application.
    ///
    /// # Errors
    /// An error of the database; nothing is changed then.
    pub async fn remove_document(
        &self,
        kind: Kind,
        (name, unless): (&str, Option<Unless<'_>>),
        now_s: u64,
    ) -> Result<Removed, StoreError> {
        self.changing(|| async move {
            let mut transaction = self.pool.begin().await?;
            // First, since others then wait: no application names it meanwhile.
            let revision = self.take_revisions(&mut transaction, 1).await?;
            if let Some(unless) = unless
                && self.is_prevented(&mut transaction, unless).await?
            {
                return Ok(Removed::Named);
            }
            let update = self.sql(&format!(
                "UPDATE {} SET document = '', revision = ?, removed_s = ? \
                 WHERE name = ? AND removed_s = 0",
                kind.table()
            ));
            let update = sqlx::query(update).bind(revision).bind(stored(now_s)).bind(name);
            if update.execute(&mut *transaction).await?.rows_affected() == 0 {
                return Ok(Removed::Absent);
            }
            if kind == Kind::Application {
                self.free_credentials(&mut transaction, name).await?;
            }
            transaction.commit().await?;
            Ok(Removed::Done)
        })
        .await
    }

    /// Deletes the rows of documents that were removed long ago, or before many others.
    pub(crate) async fn forget_removed(&self, now_s: u64) -> Result<(), StoreError> {
        let old_s = stored(now_s.saturating_sub(limits::REMOVED_S));
        for kind in Kind::ALL {
            let table = kind.table();
            // The newest of those that are too many.
            let newest = format!(
                "SELECT revision FROM {table} WHERE removed_s > 0 ORDER BY revision DESC LIMIT 1 OFFSET {}",
                limits::REMOVED_MAX
            );
            let newest = sqlx::query(self.sql(&newest)).fetch_optional(&self.pool).await?;
            let too_many: i64 = newest.map_or(Ok(0), |row| row.try_get(0))?;
            let old =
                format!("FROM {table} WHERE removed_s > 0 AND (removed_s < ? OR revision <= ?)");
            let old = old.as_str();
            retried(|| async move {
                let mut transaction = self.pool.begin().await?;
                // Begins with a write: another process could change the result of an earlier read before this one
                // writes.
                let newest = format!("(SELECT COALESCE(MAX(revision), 0) {old})");
                let forget = self.sql(&format!(
                    "UPDATE revisions SET forgotten = {newest} WHERE forgotten < {newest}"
                ));
                let forget = sqlx::query(forget).bind(old_s).bind(too_many);
                forget.bind(old_s).bind(too_many).execute(&mut *transaction).await?;
                let delete = self.sql(&format!(
                    "DELETE {old} AND revision <= (SELECT forgotten FROM revisions)"
                ));
                sqlx::query(delete).bind(old_s).bind(too_many).execute(&mut *transaction).await?;
                Ok(transaction.commit().await?)
            })
            .await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Database;

    #[tokio::test]
    async fn a_plan_that_an_application_is_about_to_name_is_not_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let database = Database::Sqlite(folder.path().join("store.db"));
        let store = Store::open(&database).await.expect("a store");
        store.put_document(Kind::Plan, ("gold", "{}"), &[]).await.expect("stored");
        let document = r#"{"plan":"Gold"}"#;
        let mut transaction = store.pool.begin().await.expect("a transaction");
        let revision = store.take_revisions(&mut transaction, 1).await.expect("a number");
        let put = ("a", document, revision);
        store.put(&mut transaction, Kind::Application, put).await.expect("stored");
        let names = |document: &str| document.contains("Gold");
        let named = Some(Unless { text: r#""plan":"gold""#, names: &names });
        let remove = || store.remove_document(Kind::Plan, ("gold", named), 1);
        // The removal begins before the application exists.
        let (removed, committed) = tokio::join!(remove(), transaction.commit());
        committed.expect("it is there");
        assert_eq!(removed.expect("a result"), Removed::Named);
        let done = store.remove_document(Kind::Application, ("a", None), 1).await;
        assert_eq!(done.expect("a result"), Removed::Done);
        for expect in [Removed::Done, Removed::Absent] {
            assert_eq!(remove().await.expect("a result"), expect);
        }
    }

    #[tokio::test]
    async fn an_application_that_only_looks_as_if_it_named_a_plan_prevents_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let database = Database::Sqlite(folder.path().join("store.db"));
        let store = Store::open(&database).await.expect("a store");
        store.put_document(Kind::Plan, ("gold", "{}"), &[]).await.expect("stored");
        for (name, document) in [("a", r#"{"x":{"plan":"gold"}}"#), ("b", "{}")] {
            store.put_document(Kind::Application, (name, document), &[]).await.expect("stored");
        }
        let remove = |names: bool| {
            let store = &store;
            async move {
                let names = |document: &str| {
                    assert!(document.contains("gold"));
                    names
                };
                let named = Some(Unless { text: r#""plan":"GOLD""#, names: &names });
                store.remove_document(Kind::Plan, ("gold", named), 1).await.expect("a result")
            }
        };
        assert_eq!(remove(true).await, Removed::Named);
        assert_eq!(remove(false).await, Removed::Done);
    }

    #[tokio::test]
    async fn removed_documents_are_not_counted_and_the_oldest_of_too_many_are_forgotten() {
        let folder = tempfile::tempdir().expect("a folder");
        let database = Database::Sqlite(folder.path().join("store.db"));
        let store = Store::open(&database).await.expect("a store");
        store.put_document(Kind::Plan, ("kept", "{}"), &[]).await.expect("stored");
        let start = store.revision().await.expect("a number");
        let more = 3;
        let table = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) \
             INSERT INTO plans (name, document, revision, removed_s) SELECT 'p' || i, '', ? + i, 100 FROM n";
        let count = stored(limits::REMOVED_MAX + more);
        let insert = sqlx::query(table).bind(count).bind(stored(start));
        insert.execute(&store.pool).await.expect("added");
        sqlx::query("UPDATE revisions SET last = last + ?")
            .bind(count)
            .execute(&store.pool)
            .await
            .expect("numbered");
        assert_eq!(store.count_documents(Kind::Plan).await.expect("a count"), 1);
        store.forget_removed(101).await.expect("done");
        let rows = sqlx::query("SELECT COUNT(*) FROM plans").fetch_one(&store.pool).await;
        let left: i64 = rows.expect("a row").try_get(0).expect("a count");
        assert_eq!(left, stored(limits::REMOVED_MAX + 1));
        assert!(!store.can_resume(start + more - 1).await.expect("a result"), "one is missing");
        assert!(store.can_resume(start + more).await.expect("a result"));
    }
}
