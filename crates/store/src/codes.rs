//! Authorisation codes, by their hashes.

use sqlx::Row;

use crate::database::{retried, seconds, stored};
use crate::{Rotation, Store, StoreError, Token, User};

/// A code that was issued to a client for a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// SHA-256 of the code, in base64url.
    pub hash: String,
    /// The family of the tokens that the code is exchanged for.
    pub family: String,
    pub client: String,
    pub subject: String,
    pub scope: String,
    /// The redirect URI that the code was sent to.
    pub redirect: String,
    /// SHA-256 of the code verifier, in base64url.
    pub challenge: String,
    pub expires_s: u64,
    /// The nonce for the ID token, or empty.
    pub nonce: String,
    /// Time of the user's sign-in, in seconds since the Unix epoch; 0 if unknown.
    pub auth_s: u64,
}

impl Store {
    /// Adds `code` for `user`. Returns false if the user changed since they were read.
    ///
    /// # Errors
    /// An error of the database; nothing is changed then.
    pub async fn add_code(&self, code: &Code, user: &User) -> Result<bool, StoreError> {
        retried(|| async move {
            let mut transaction = self.pool.begin().await?;
            if !self.lock_user(&mut transaction, user).await? {
                return Ok(false);
            }
            let query = sqlx::query(self.sql(
                "INSERT INTO codes (hash, family, client, subject, scope, redirect, challenge, \
                 expires_s, nonce, auth_s, spent) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)",
            ));
            let query = query.bind(code.hash.as_str()).bind(code.family.as_str());
            let query = query.bind(code.client.as_str()).bind(code.subject.as_str());
            let query = query.bind(code.scope.as_str()).bind(code.redirect.as_str());
            let query = query.bind(code.challenge.as_str()).bind(stored(code.expires_s));
            let query = query.bind(code.nonce.as_str()).bind(stored(code.auth_s));
            query.execute(&mut *transaction).await?;
            transaction.commit().await?;
            Ok(true)
        })
        .await
    }

    /// The code with this hash, if it was issued to `client`, even if it was already exchanged.
    ///
    /// # Errors
    /// An error of the database.
    pub async fn code(&self, hash: &str, client: &str) -> Result<Option<Code>, StoreError> {
        let select = self.sql(
            "SELECT family, subject, scope, redirect, challenge, expires_s, nonce, auth_s \
             FROM codes WHERE hash = ? AND client = ?",
        );
        let query = sqlx::query(select).bind(hash).bind(client);
        let row = query.fetch_optional(&self.pool).await?;
        row.map(|row| {
            Ok(Code {
                hash: hash.to_owned(),
                family: row.try_get(0)?,
                client: client.to_owned(),
                subject: row.try_get(1)?,
                scope: row.try_get(2)?,
                redirect: row.try_get(3)?,
                challenge: row.try_get(4)?,
                expires_s: seconds(row.try_get(5)?),
                nonce: row.try_get(6)?,
                auth_s: seconds(row.try_get(7)?),
            })
        })
        .transpose()
    }

    /// Exchanges `code` for `tokens`. If it was exchanged before, by a thief or by its client, all tokens that it was
    /// exchanged for are revoked.
    ///
    /// # Errors
    /// An error of the database; nothing is changed then.
    pub async fn exchange(&self, code: &Code, tokens: &[Token]) -> Result<Rotation, StoreError> {
        self.spend("codes", (&code.hash, &code.family), tokens).await
    }
}
