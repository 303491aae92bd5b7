//! Access tokens and refresh tokens, by their hashes, and the assertions that clients have used.

use sqlx::AnyConnection;
use sqlx::Row;

use crate::database::{retried, seconds, stored};
use crate::{Store, StoreError, User};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// An opaque access token.
    Access,
    /// A JWT that is revoked together with other tokens.
    Jwt,
    Refresh,
}

impl TokenKind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Access => "access",
            Self::Jwt => "jwt",
            Self::Refresh => "refresh",
        }
    }
}

/// A token that was issued. The token itself is not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// SHA-256 of the token, or of the `jti` of a JWT, in base64url.
    pub hash: String,
    pub kind: TokenKind,
    /// Identifies the authorisation that the token descends from.
    pub family: String,
    /// The id of the client.
    pub client: String,
    /// The user, or the client itself.
    pub subject: String,
    pub scope: String,
    pub issued_s: u64,
    pub expires_s: u64,
    /// A refresh token that was exchanged for another.
    pub spent: bool,
}

/// The outcome of exchanging a refresh token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rotation {
    Rotated,
    /// The token had been exchanged before, so it was stolen, or its client repeated the request. The whole family is
    /// revoked.
    Reused,
}

/// The outcome of adding an API key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewKey {
    Added,
    /// The user has too many.
    TooMany,
    /// The user was removed, or has changed the password.
    OtherUser,
}

/// The client of each row that expires. Tables that are counted together.
#[derive(Clone, Copy, Debug)]
pub enum Rows {
    /// Tokens, codes and revocations.
    Tokens,
    /// Device codes.
    Devices,
}

impl Rows {
    /// Selects the client of each row.
    fn clients(self) -> &'static str {
        match self {
            Self::Tokens => CLIENTS,
            Self::Devices => DEVICES,
        }
    }
}

const CLIENTS: &str = "SELECT client FROM tokens UNION ALL SELECT client FROM codes \
     UNION ALL SELECT client FROM revoked UNION ALL SELECT client FROM revocations";
const DEVICES: &str = "SELECT client FROM devices";

const FAMILY: &str = "family = ?";

const INSERT: &str = "INSERT INTO tokens (hash, kind, family, client, subject, scope, issued_s, expires_s, spent) \
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";

impl Store {
    /// Adds all of `tokens` or none. Returns false if their `user`, if it is one of the store, changed since they were
    /// read.
    ///
    /// # Errors
    /// An error of the database; nothing is changed then.
    pub async fn add_tokens(
        &self,
        tokens: &[Token],
        user: Option<&User>,
    ) -> Result<bool, StoreError> {
        retried(|| async move {
            let mut transaction = self.pool.begin().await?;
            if let Some(user) = user
                && !self.lock_user(&mut transaction, user).await?
            {
                return Ok(false);
            }
            self.insert(&mut transaction, tokens).await?;
            transaction.commit().await?;
            Ok(true)
        })
        .await
    }

    /// Adds `key`, an API key of `user`, unless they changed since they were read, or already have `most` keys that are
    /// valid when it is issued. All keys of a user have the same `client`.
    ///
    /// # Errors
    /// An error of the database; nothing is changed then.
    pub async fn add_key(&self, key: &Token, user: &User, most: u64) -> Result<NewKey, StoreError> {
        retried(|| async move {
            let mut transaction = self.pool.begin().await?;
            if !self.lock_user(&mut transaction, user).await? {
                return Ok(NewKey::OtherUser);
            }
            let count = self.sql("SELECT COUNT(*) FROM tokens WHERE client = ? AND expires_s > ?");
            let count = sqlx::query(count).bind(key.client.as_str()).bind(stored(key.issued_s));
            if seconds(count.fetch_one(&mut *transaction).await?.try_get(0)?) >= most {
                return Ok(NewKey::TooMany);
            }
            self.insert(&mut transaction, std::slice::from_ref(key)).await?;
            transaction.commit().await?;
            Ok(NewKey::Added)
        })
        .await
    }

    /// The token with this hash.
    ///
    /// # Errors
    /// An error of the database.
    pub async fn token(&self, hash: &str) -> Result<Option<Token>, StoreError> {
        let select = self.sql(
            "SELECT kind, family, client, subject, scope, issued_s, expires_s, spent \
             FROM tokens WHERE hash = ?",
        );
        let row = sqlx::query(select).bind(hash).fetch_optional(&self.pool).await?;
        row.map(|row| {
            let kind: String = row.try_get(0)?;
            Ok(Token {
                hash: hash.to_owned(),
                kind: match kind.as_str() {
                    "access" => TokenKind::Access,
                    "jwt" => TokenKind::Jwt,
                    "refresh" => TokenKind::Refresh,
                    _ => return Err(StoreError::Value("kind")),
                },
                family: row.try_get(1)?,
                client: row.try_get(2)?,
                subject: row.try_get(3)?,
                scope: row.try_get(4)?,
                issued_s: seconds(row.try_get(5)?),
                expires_s: seconds(row.try_get(6)?),
                spent: row.try_get::<i64, _>(7)? != 0,
            })
        })
        .transpose()
    }

    /// Exchanges the refresh token `old` for `tokens`. Only one of several concurrent exchanges succeeds.
    ///
    /// # Errors
    /// An error of the database; nothing is changed then.
    pub async fn rotate(&self, old: &Token, tokens: &[Token]) -> Result<Rotation, StoreError> {
        self.spend("tokens", (&old.hash, &old.family), tokens).await
    }

    /// Spends the row `hash` of `table`, and adds `tokens`; if it was spent before, revokes all tokens of `family`.
    pub(crate) async fn spend(
        &self,
        table: &str,
        (hash, family): (&str, &str),
        tokens: &[Token],
    ) -> Result<Rotation, StoreError> {
        let rotation = retried(|| async move {
            let mut transaction = self.pool.begin().await?;
            let spend = format!("UPDATE {table} SET spent = 1 WHERE hash = ? AND spent = 0");
            let spent = sqlx::query(self.sql(&spend)).bind(hash).execute(&mut *transaction).await?;
            let rotation = if spent.rows_affected() == 1 {
                self.insert(&mut transaction, tokens).await?;
                Rotation::Rotated
            } else {
                self.revoke(&mut transaction, FAMILY, &[family]).await?;
                Rotation::Reused
            };
            transaction.commit().await?;
            Ok(rotation)
        })
        .await?;
        if rotation == Rotation::Reused {
            self.announce();
        }
        Ok(rotation)
    }

    /// Revokes the token with this hash.
    ///
    /// # Errors
    /// An error of the database.
    pub async fn revoke_token(&self, hash: &str) -> Result<(), StoreError> {
        self.changing(|| async move {
            let mut transaction = self.pool.begin().await?;
            self.revoke(&mut transaction, "hash = ?", &[hash]).await?;
            Ok(transaction.commit().await?)
        })
        .await
    }

    /// Revokes all tokens of `family`.
    ///
    /// # Errors
    /// An error of the database.
    pub async fn revoke_family(&self, family: &str) -> Result<(), StoreError> {
        self.changing(|| async move {
            let mut transaction = self.pool.begin().await?;
            self.revoke(&mut transaction, FAMILY, &[family]).await?;
            Ok(transaction.commit().await?)
        })
        .await
    }

    /// Records that the assertion `jti` of `client`, which expires at `expires_s`, was used. Returns false if it was
    /// recorded before.
    ///
    /// # Errors
    /// An error of the database.
    pub async fn spend_jwt(
        &self,
        jti: &str,
        client: &str,
        expires_s: u64,
    ) -> Result<bool, StoreError> {
        let insert = self.sql(&format!(
            "INSERT INTO revoked (jti, client, expires_s) VALUES (?, ?, ?){}",
            self.dialect.or_nothing("jti")
        ));
        self.insert_new(
            sqlx::query(insert).bind(jti).bind(client).bind(stored(expires_s)),
            &self.pool,
        )
        .await
    }

    /// Removes rows that expired before `now_s`. A code stays as long as the tokens that it was exchanged for, because
    /// a replay revokes them. A revocation stays for `leeway_s`, because gateways may accept the token for that long.
    ///
    /// # Errors
    /// An error of the database.
    pub async fn purge(&self, now_s: u64, leeway_s: u64) -> Result<(), StoreError> {
        for delete in [
            "DELETE FROM tokens WHERE expires_s < ?",
            "DELETE FROM codes WHERE expires_s < ? \
             AND NOT EXISTS (SELECT 1 FROM tokens WHERE tokens.family = codes.family)",
            "DELETE FROM revoked WHERE expires_s < ?",
            "DELETE FROM devices WHERE expires_s < ?",
        ] {
            self.delete_before(delete, now_s).await?;
        }
        let accepted_s = now_s.saturating_sub(leeway_s);
        self.delete_before("DELETE FROM revocations WHERE expires_s < ?", accepted_s).await?;
        self.forget_removed(now_s).await
    }

    /// The number of rows.
    ///
    /// # Errors
    /// An error of the database.
    pub async fn count(&self, rows: Rows) -> Result<u64, StoreError> {
        let count = format!("SELECT COUNT(*) FROM ({}) AS kept", rows.clients());
        let row = sqlx::query(self.sql(&count)).fetch_one(&self.pool).await?;
        Ok(seconds(row.try_get(0)?))
    }

    async fn delete_before(&self, delete: &str, time_s: u64) -> Result<(), StoreError> {
        retried(|| async move {
            sqlx::query(self.sql(delete)).bind(stored(time_s)).execute(&self.pool).await?;
            Ok(())
        })
        .await
    }

    /// The clients with more rows than `count`.
    ///
    /// # Errors
    /// An error of the database.
    pub async fn clients_with_more(
        &self,
        rows: Rows,
        count: u64,
    ) -> Result<Vec<String>, StoreError> {
        let select = self.sql(&format!(
            "SELECT client FROM ({}) AS kept GROUP BY client HAVING COUNT(*) > ? LIMIT 1000",
            rows.clients()
        ));
        let rows = sqlx::query(select).bind(stored(count)).fetch_all(&self.pool).await?;
        rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
    }

    pub(crate) async fn insert(
        &self,
        connection: &mut AnyConnection,
        tokens: &[Token],
    ) -> Result<(), StoreError> {
        for token in tokens {
            let query = sqlx::query(self.sql(INSERT));
            let query = query.bind(token.hash.as_str()).bind(token.kind.as_str());
            let query = query.bind(token.family.as_str()).bind(token.client.as_str());
            let query = query.bind(token.subject.as_str()).bind(token.scope.as_str());
            let query = query.bind(stored(token.issued_s)).bind(stored(token.expires_s));
            query.bind(i64::from(token.spent)).execute(&mut *connection).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Database, NewPassword};

    #[tokio::test]
    async fn a_key_is_added_for_the_user_who_was_read_and_up_to_a_number() {
        let folder = tempfile::tempdir().expect("a folder");
        let database = Database::Sqlite(folder.path().join("store.db"));
        let store = Store::open(&database).await.expect("a store");
        let ann = User {
            name: "ann".to_owned(),
            password: "hash".to_owned(),
            created_s: 1,
            ..User::default()
        };
        let key = |hash: &str, expires_s| Token {
            hash: hash.to_owned(),
            kind: TokenKind::Jwt,
            family: hash.to_owned(),
            client: "keys of ann".to_owned(),
            subject: ann.name.clone(),
            scope: String::new(),
            issued_s: 10,
            expires_s,
            spent: false,
        };
        assert!(store.add_user(&ann).await.expect("added"));
        for (hash, expires_s, expect) in [
            ("expired", 10, NewKey::Added),
            ("first", 11, NewKey::Added),
            ("second", 11, NewKey::Added),
            ("third", 11, NewKey::TooMany),
        ] {
            let added = store.add_key(&key(hash, expires_s), &ann, 2).await.expect("a result");
            assert_eq!(added, expect, "{hash}");
        }
        let new = NewPassword { hash: "new", one_time_until_s: 0, earlier: None };
        assert!(store.set_password("ann", new).await.expect("changed"));
        let added = store.add_key(&key("a", 11), &ann, 2).await.expect("a result");
        assert_eq!(added, NewKey::OtherUser, "another password");
        assert!(store.remove_user("ann").await.expect("removed"));
        let added = store.add_key(&key("b", 11), &ann, 2).await.expect("a result");
        assert_eq!(added, NewKey::OtherUser, "no user");
        assert!(store.add_user(&User { created_s: 2, ..ann.clone() }).await.expect("added"));
        let added = store.add_key(&key("c", 11), &ann, 2).await.expect("a result");
        assert_eq!(added, NewKey::OtherUser, "another one with the name");
        assert!(store.token("c").await.expect("a result").is_none());
    }
}
