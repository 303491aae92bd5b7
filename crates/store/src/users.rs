//! Users of the control plane: its own, and those from elsewhere who have signed in.

use sqlx::any::AnyRow;
use sqlx::{AnyConnection, Row};

use crate::database::{retried, seconds, stored};
use crate::{Store, StoreError};

/// A user, with the hash of their password.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct User {
    pub name: String,
    /// In PHC string format; empty for a user from elsewhere.
    pub password: String,
    /// Whether the user may register clients.
    pub admin: bool,
    pub created_s: u64,
    /// Where the user comes from; empty: from here.
    pub source: String,
    /// What the source has in place of the name, which it may give to somebody else later; may be empty.
    pub source_id: String,
    /// What the source says about the user, a JSON object; empty: nothing.
    pub claims: String,
}

/// The hash is not printed.
impl std::fmt::Debug for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("User").field("name", &self.name).finish_non_exhaustive()
    }
}

const COLUMNS: &str = "name, password, admin, created_s, source, source_id, claims";

impl Store {
    /// The user `name`.
    ///
    /// # Errors
    /// The database's.
    pub async fn user(&self, name: &str) -> Result<Option<User>, StoreError> {
        let select = self.sql(&format!("SELECT {COLUMNS} FROM users WHERE name = ?"));
        let row = sqlx::query(select).bind(name).fetch_optional(&self.pool).await?;
        row.as_ref().map(user).transpose()
    }

    /// All users, by name.
    ///
    /// # Errors
    /// The database's.
    pub async fn users(&self) -> Result<Vec<User>, StoreError> {
        let select = self.sql(&format!("SELECT {COLUMNS} FROM users ORDER BY name"));
        let rows = sqlx::query(select).fetch_all(&self.pool).await?;
        rows.iter().map(user).collect()
    }

    /// The first user whose name begins with `prefix`.
    ///
    /// # Errors
    /// The database's.
    pub async fn user_with_prefix(&self, prefix: &str) -> Result<Option<String>, StoreError> {
        let select =
            self.sql("SELECT name FROM users WHERE SUBSTR(name, 1, ?) = ? ORDER BY name LIMIT 1");
        let characters = i32::try_from(prefix.chars().count()).unwrap_or(i32::MAX);
        let query = sqlx::query(select).bind(characters).bind(prefix);
        let row = query.fetch_optional(&self.pool).await?;
        Ok(row.map(|row| row.try_get(0)).transpose()?)
    }

    /// The name of the user who is `source_id` at `source`, if there is one.
    ///
    /// # Errors
    /// The database's.
    pub async fn user_of_source(
        &self,
        source: &str,
        source_id: &str,
    ) -> Result<Option<String>, StoreError> {
        let select = self
            .sql("SELECT name FROM users WHERE source = ? AND source_id = ? ORDER BY name LIMIT 1");
        let query = sqlx::query(select).bind(source).bind(source_id);
        let row = query.fetch_optional(&self.pool).await?;
        Ok(row.map(|row| row.try_get(0)).transpose()?)
    }

    /// Adds `user`. False: there is one of that name, which is unchanged.
    ///
    /// # Errors
    /// The database's.
    pub async fn add_user(&self, user: &User) -> Result<bool, StoreError> {
        let insert = self.sql(&format!(
            "INSERT INTO users ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?){}",
            self.dialect.or_nothing("name")
        ));
        let insert = sqlx::query(insert).bind(user.name.as_str()).bind(user.password.as_str());
        let insert = insert.bind(i64::from(user.admin)).bind(stored(user.created_s));
        let insert = insert.bind(user.source.as_str()).bind(user.source_id.as_str());
        self.insert_new(insert.bind(user.claims.as_str()), &self.pool).await
    }

    /// Replaces what the source of `user` says about them. Without effect if they come from another one.
    ///
    /// # Errors
    /// The database's.
    pub async fn update_user(&self, user: &User) -> Result<(), StoreError> {
        let update = self.sql(
            "UPDATE users SET admin = ?, claims = ? WHERE name = ? AND source = ? AND source_id = ?",
        );
        let update = sqlx::query(update).bind(i64::from(user.admin)).bind(user.claims.as_str());
        let update = update.bind(user.name.as_str()).bind(user.source.as_str());
        update.bind(user.source_id.as_str()).execute(&self.pool).await.map(drop)?;
        Ok(())
    }

    /// Replaces the password of the user `name`, and revokes their codes and tokens. False: there is no such user.
    ///
    /// # Errors
    /// The database's.
    pub async fn set_password(&self, name: &str, password: &str) -> Result<bool, StoreError> {
        retried(|| async move {
            let mut transaction = self.pool.begin().await?;
            let update = self.sql("UPDATE users SET password = ? WHERE name = ?");
            let query = sqlx::query(update).bind(password).bind(name);
            let changed = query.execute(&mut *transaction).await?.rows_affected() == 1;
            self.revoke_user(&mut transaction, name).await?;
            transaction.commit().await?;
            Ok(changed)
        })
        .await
    }

    /// Removes the user `name` with their codes and tokens. The clients that they registered stay. False: there is no
    /// such user.
    ///
    /// # Errors
    /// The database's.
    pub async fn remove_user(&self, name: &str) -> Result<bool, StoreError> {
        retried(|| async move {
            let mut transaction = self.pool.begin().await?;
            let delete = self.sql("DELETE FROM users WHERE name = ?");
            let query = sqlx::query(delete).bind(name);
            let removed = query.execute(&mut *transaction).await?.rows_affected() == 1;
            self.revoke_user(&mut transaction, name).await?;
            transaction.commit().await?;
            Ok(removed)
        })
        .await
    }

    async fn revoke_user(
        &self,
        connection: &mut AnyConnection,
        name: &str,
    ) -> Result<(), StoreError> {
        // A client is the subject of its own tokens.
        const OF_USER: &str = "subject = ? AND client <> ?";
        for table in ["codes", "devices"] {
            let delete = format!("DELETE FROM {table} WHERE {OF_USER}");
            sqlx::query(self.sql(&delete)).bind(name).bind(name).execute(&mut *connection).await?;
        }
        let mut revoked = Vec::new();
        self.remove_tokens(connection, OF_USER, &[name, name], &mut revoked).await?;
        self.publish(connection, &revoked).await.map(drop)
    }
}

fn user(row: &AnyRow) -> Result<User, StoreError> {
    Ok(User {
        name: row.try_get(0)?,
        password: row.try_get(1)?,
        admin: row.try_get::<i64, _>(2)? != 0,
        created_s: seconds(row.try_get(3)?),
        source: row.try_get(4)?,
        source_id: row.try_get(5)?,
        claims: row.try_get(6)?,
    })
}
