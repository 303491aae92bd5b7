//! Authorisation codes, by their hashes.

use sqlx::Row;

use crate::database::{seconds, stored};
use crate::{Store, StoreError};

/// A code that was issued to a client for a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// SHA-256 of the code, in base64url.
    pub hash: String,
    /// That of the tokens that the code is exchanged for.
    pub family: String,
    pub client: String,
    pub subject: String,
    pub scope: String,
    /// The redirect URI that it was sent to.
    pub redirect: String,
    /// SHA-256 of the code verifier, in base64url.
    pub challenge: String,
    pub expires_s: u64,
}

impl Store {
    /// Adds `code`.
    ///
    /// # Errors
    /// The database's.
    pub async fn add_code(&self, code: &Code) -> Result<(), StoreError> {
        let query = sqlx::query(self.sql(
            "INSERT INTO codes (hash, family, client, subject, scope, redirect, challenge, \
             expires_s, spent) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0)",
        ));
        let query = query.bind(code.hash.as_str()).bind(code.family.as_str());
        let query = query.bind(code.client.as_str()).bind(code.subject.as_str());
        let query = query.bind(code.scope.as_str()).bind(code.redirect.as_str());
        let query = query.bind(code.challenge.as_str()).bind(stored(code.expires_s));
        query.execute(&self.pool).await?;
        Ok(())
    }

    /// Spends the code with this hash, and returns it. `None`: there is none; or it was spent before, by a thief or by
    /// its client: all tokens that it was exchanged for are revoked then.
    ///
    /// # Errors
    /// The database's.
    pub async fn spend_code(&self, hash: &str) -> Result<Option<Code>, StoreError> {
        let mut transaction = self.pool.begin().await?;
        let spend = self.sql("UPDATE codes SET spent = spent + 1 WHERE hash = ?");
        sqlx::query(spend).bind(hash).execute(&mut *transaction).await?;
        let select = self.sql(
            "SELECT family, client, subject, scope, redirect, challenge, expires_s, spent \
             FROM codes WHERE hash = ?",
        );
        let row = sqlx::query(select).bind(hash).fetch_optional(&mut *transaction).await?;
        let Some(row) = row else { return Ok(None) };
        let code = Code {
            hash: hash.to_owned(),
            family: row.try_get(0)?,
            client: row.try_get(1)?,
            subject: row.try_get(2)?,
            scope: row.try_get(3)?,
            redirect: row.try_get(4)?,
            challenge: row.try_get(5)?,
            expires_s: seconds(row.try_get(6)?),
        };
        let first = row.try_get::<i64, _>(7)? == 1;
        if !first {
            let revoke = self.sql("DELETE FROM tokens WHERE family = ?");
            sqlx::query(revoke).bind(code.family.as_str()).execute(&mut *transaction).await?;
        }
        transaction.commit().await?;
        Ok(first.then_some(code))
    }
}
