//! Access tokens that were revoked before they expired, one by one or with their client, numbered in the order in which
//! they become visible, so that a gateway can request those after the last number that it has seen.

use sqlx::any::AnyRow;
use sqlx::{AnyConnection, AssertSqlSafe, Row};

use crate::database::{retried, seconds, stored};
use crate::dialect::Dialect;
use crate::{Store, StoreError};

/// A revoked access token, or all tokens of a client that was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revocation {
    pub revision: u64,
    /// SHA-256, in base64url, of an opaque token, of the `jti` of a JWT, or of the id of a client.
    pub hash: String,
    /// Expiry of the token, or of the client's last token.
    pub expires_s: u64,
    /// Time up to which issued tokens of the client are revoked. `None` for a single token.
    pub issued_s: Option<u64>,
}

/// The tokens of a client that are revoked when it is removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokensOfClient {
    /// SHA-256 of the client's id, in base64url.
    pub hash: String,
    /// Time up to which issued tokens are revoked.
    pub issued_s: u64,
    /// Time by which all of them have expired.
    pub expires_s: u64,
}

/// A token that is being revoked.
pub(crate) struct Revoked {
    pub(crate) hash: String,
    pub(crate) client: String,
    pub(crate) expires_s: i64,
}

/// Maximum number of tokens that one statement removes; thousands are removed by several.
const REMOVED_AT_ONCE: usize = 500;

impl Store {
    /// Up to `most` revocations after the revision `after`, in their order.
    ///
    /// # Errors
    /// An error of the database.
    pub async fn revocations(&self, after: u64, most: u32) -> Result<Vec<Revocation>, StoreError> {
        let select = self.sql(
            "SELECT revision, hash, expires_s, issued_s FROM revocations WHERE revision > ? \
             ORDER BY revision LIMIT ?",
        );
        let query = sqlx::query(select).bind(stored(after)).bind(i64::from(most));
        let rows = query.fetch_all(&self.pool).await?;
        let read = |row: &AnyRow| {
            Ok(Revocation {
                revision: seconds(row.try_get(0)?),
                hash: row.try_get(1)?,
                expires_s: seconds(row.try_get(2)?),
                issued_s: Some(seconds(row.try_get(3)?)).filter(|issued_s| *issued_s > 0),
            })
        };
        rows.iter().map(read).collect()
    }

    /// As [`retried`], for a transaction that takes revisions.
    pub(crate) async fn changing<T, F>(&self, transaction: impl Fn() -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let done = retried(transaction).await?;
        self.announce();
        Ok(done)
    }

    /// Wakes [`Self::changed`].
    pub(crate) fn announce(&self) {
        self.changes.notify_one();
    }

    /// Waits until this process may have made a numbered change since the last call. For a single caller.
    pub async fn changed(&self) {
        self.changes.notified().await;
    }

    /// The number of the last change to revocations, applications and plans. All changes up to it are visible.
    ///
    /// # Errors
    /// An error of the database.
    pub async fn revision(&self) -> Result<u64, StoreError> {
        let select = sqlx::query("SELECT last FROM revisions");
        Ok(seconds(select.fetch_one(&self.pool).await?.try_get(0)?))
    }

    /// Makes `least` the lowest possible number of the next change. If it grows from start to start, a restored
    /// database repeats no number that a gateway has seen, and [`Self::can_resume`] recognises numbers that it lost.
    ///
    /// # Errors
    /// An error of the database.
    pub async fn skip_revisions(&self, least: u64) -> Result<(), StoreError> {
        // MySQL assigns from left to right, with the new values of the columns before.
        let update = self.sql(
            "UPDATE revisions SET \
             forgotten = CASE WHEN at_start > forgotten THEN at_start ELSE forgotten END, \
             before_start = last, at_start = ?, last = ? WHERE last < ?",
        );
        let query = sqlx::query(update).bind(stored(least)).bind(stored(least));
        query.bind(stored(least)).execute(&self.pool).await?;
        Ok(())
    }

    /// The number with which the last start continued. It differs if the database was restored, or another process
    /// started.
    ///
    /// # Errors
    /// An error of the database.
    pub async fn revision_at_start(&self) -> Result<u64, StoreError> {
        let select = sqlx::query("SELECT at_start FROM revisions");
        Ok(seconds(select.fetch_one(&self.pool).await?.try_get(0)?))
    }

    /// Whether all changes after the number `after` are known. They aren't if `after` is from before the last start but
    /// one, if [`Self::purge`] removed some of them, or if the database lost that number when it was restored.
    ///
    /// # Errors
    /// An error of the database.
    pub async fn can_resume(&self, after: u64) -> Result<bool, StoreError> {
        let select = "SELECT forgotten, before_start, at_start, last FROM revisions";
        let row = sqlx::query(select).fetch_one(&self.pool).await?;
        let number = |index: usize| row.try_get(index).map(seconds);
        let before_start = number(0)?..=number(1)?;
        let since_start = number(2)?.max(number(0)?)..=number(3)?;
        Ok(before_start.contains(&after) || since_start.contains(&after))
    }

    /// Revokes the JWT whose `jti` has this hash. Returns false if it was revoked before.
    ///
    /// # Errors
    /// An error of the database; nothing is changed then.
    pub async fn revoke_jwt(
        &self,
        hash: &str,
        client: &str,
        expires_s: u64,
    ) -> Result<bool, StoreError> {
        self.changing(|| async move {
            let mut transaction = self.pool.begin().await?;
            let delete = self.sql("DELETE FROM tokens WHERE hash = ?");
            sqlx::query(delete).bind(hash).execute(&mut *transaction).await?;
            let revoked = Revoked {
                hash: hash.to_owned(),
                client: client.to_owned(),
                expires_s: stored(expires_s),
            };
            let added = self.publish(&mut transaction, &[revoked]).await?;
            transaction.commit().await?;
            Ok(added == 1)
        })
        .await
    }

    /// Whether the JWT whose `jti` has the first hash was revoked, or all tokens issued up to `issued_s` of its client,
    /// which has the second hash.
    ///
    /// # Errors
    /// An error of the database.
    pub async fn is_revoked(
        &self,
        jti: &str,
        [hash, client]: [&str; 2],
        issued_s: u64,
    ) -> Result<bool, StoreError> {
        // Version 6 of the schema had revoked JWTs in `revoked`.
        let select = self.sql(
            "SELECT expires_s FROM revocations WHERE hash = ? \
             UNION ALL SELECT expires_s FROM revocations WHERE hash = ? AND issued_s >= ? \
             UNION ALL SELECT expires_s FROM revoked WHERE jti = ?",
        );
        let query = sqlx::query(select).bind(hash).bind(client).bind(stored(issued_s)).bind(jti);
        Ok(query.fetch_optional(&self.pool).await?.is_some())
    }

    /// Revokes the tokens that `condition` selects with `values`, as the last statements of a transaction.
    pub(crate) async fn revoke(
        &self,
        connection: &mut AnyConnection,
        condition: &str,
        values: &[&str],
    ) -> Result<(), StoreError> {
        // In PostgreSQL and MySQL a statement does not see the tokens that a concurrent exchange adds. It waits for the
        // exchange, however, because that has changed the row of the old token, and the next statement sees the new
        // tokens.
        let mut revoked = Vec::new();
        while self.remove_tokens(connection, condition, values, &mut revoked).await? > 0 {}
        self.publish(connection, &revoked).await.map(drop)
    }

    /// Numbers and adds the revocation of the tokens of a client, like [`Self::publish`].
    pub(crate) async fn publish_client(
        &self,
        connection: &mut AnyConnection,
        (client, tokens): (&str, &TokensOfClient),
    ) -> Result<(), StoreError> {
        const CHANGED: [&str; 4] = ["revision", "client", "expires_s", "issued_s"];
        let revision = self.take_revisions(connection, 1).await?;
        // A client with this id may have been removed before.
        let upsert = self.sql(&format!(
            "INSERT INTO revocations (revision, hash, client, expires_s, issued_s) \
             VALUES (?, ?, ?, ?, ?){}",
            self.dialect.or_replace("hash", &CHANGED)
        ));
        let query = sqlx::query(upsert).bind(revision).bind(tokens.hash.as_str()).bind(client);
        let query = query.bind(stored(tokens.expires_s)).bind(stored(tokens.issued_s));
        query.execute(connection).await?;
        Ok(())
    }

    /// Removes the tokens that `condition` selects with `values`, and adds the access tokens among them to `revoked`,
    /// which [`Self::publish`] takes. Returns the number of tokens.
    async fn remove_tokens(
        &self,
        connection: &mut AnyConnection,
        condition: &str,
        values: &[&str],
        revoked: &mut Vec<Revoked>,
    ) -> Result<usize, StoreError> {
        const OF_TOKEN: &str = "hash, client, expires_s, kind";
        let statement = match self.dialect {
            Dialect::Sqlite | Dialect::Postgres => {
                format!("DELETE FROM tokens WHERE {condition} RETURNING {OF_TOKEN}")
            }
            // MySQL has no RETURNING.
            Dialect::Mysql => format!("SELECT {OF_TOKEN} FROM tokens WHERE {condition} FOR UPDATE"),
        };
        let mut query = sqlx::query(self.sql(&statement));
        for value in values {
            query = query.bind(*value);
        }
        let rows = query.fetch_all(&mut *connection).await?;
        if self.dialect == Dialect::Mysql {
            remove_selected(connection, &rows).await?;
        }
        for row in &rows {
            if row.try_get::<String, _>(3)? != "refresh" {
                revoked.push(Revoked {
                    hash: row.try_get(0)?,
                    client: row.try_get(1)?,
                    expires_s: row.try_get(2)?,
                });
            }
        }
        Ok(rows.len())
    }

    /// Takes the next `count` numbers, and returns the last of them. Other processes that take numbers wait until the
    /// transaction ends.
    pub(crate) async fn take_revisions(
        &self,
        connection: &mut AnyConnection,
        count: i64,
    ) -> Result<i64, StoreError> {
        let take = self.sql("UPDATE revisions SET last = last + ?");
        sqlx::query(take).bind(count).execute(&mut *connection).await?;
        let row = sqlx::query("SELECT last FROM revisions").fetch_one(connection).await?;
        Ok(row.try_get(0)?)
    }

    /// Numbers and adds revocations, as the last statements of a transaction: until it ends, other processes wait for
    /// the row of `revisions`, so that a higher number is never visible before a lower one. Returns the number of new
    /// ones.
    async fn publish(
        &self,
        connection: &mut AnyConnection,
        revoked: &[Revoked],
    ) -> Result<u64, StoreError> {
        let count = i64::try_from(revoked.len()).unwrap_or(i64::MAX);
        if count == 0 {
            return Ok(0);
        }
        let last = self.take_revisions(connection, count).await?;
        let first = last.saturating_sub(count).saturating_add(1);
        let mut added = 0_u64;
        let insert = format!(
            "INSERT INTO revocations (revision, hash, client, expires_s) VALUES (?, ?, ?, ?){}",
            self.dialect.or_nothing("hash")
        );
        for (revision, Revoked { hash, client, expires_s }) in (first..).zip(revoked) {
            let insert = self.sql(&insert);
            let query = sqlx::query(insert).bind(revision).bind(hash.as_str());
            let query = query.bind(client.as_str()).bind(*expires_s);
            if self.insert_new(query, &mut *connection).await? {
                added = added.saturating_add(1);
            }
        }
        Ok(added)
    }
}

/// Removes the tokens whose hashes are in the first columns of `rows`.
async fn remove_selected(
    connection: &mut AnyConnection,
    rows: &[AnyRow],
) -> Result<(), StoreError> {
    for rows in rows.chunks(REMOVED_AT_ONCE) {
        let places = vec!["?"; rows.len()].join(", ");
        let delete = format!("DELETE FROM tokens WHERE hash IN ({places})");
        let mut query = sqlx::query(AssertSqlSafe(delete)).persistent(false);
        for row in rows {
            query = query.bind(row.try_get::<String, _>(0)?);
        }
        query.execute(&mut *connection).await?;
    }
    Ok(())
}
