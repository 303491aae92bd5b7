//! Users of the control plane.

use sqlx::Row;

use crate::{Store, StoreError};

/// A user, with the hash of their password.
#[derive(Clone, PartialEq, Eq)]
pub struct User {
    pub name: String,
    /// In PHC string format.
    pub password: String,
    pub created_s: u64,
}

/// The hash is not printed.
impl std::fmt::Debug for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("User").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Store {
    /// The user `name`.
    ///
    /// # Errors
    /// The database's.
    pub async fn user(&self, name: &str) -> Result<Option<User>, StoreError> {
        let select = self.sql("SELECT password, created_s FROM users WHERE name = ?");
        let row = sqlx::query(select).bind(name).fetch_optional(&self.pool).await?;
        row.map(|row| {
            Ok(User {
                name: name.to_owned(),
                password: row.try_get(0)?,
                created_s: crate::database::seconds(row.try_get(1)?),
            })
        })
        .transpose()
    }

    /// Adds `user`. False: there is one of that name, which is unchanged.
    ///
    /// # Errors
    /// The database's.
    pub async fn add_user(&self, user: &User) -> Result<bool, StoreError> {
        let insert = self.sql(
            "INSERT INTO users (name, password, created_s) VALUES (?, ?, ?) \
             ON CONFLICT (name) DO NOTHING",
        );
        let insert = sqlx::query(insert).bind(user.name.as_str()).bind(user.password.as_str());
        let done = insert.bind(crate::database::stored(user.created_s)).execute(&self.pool).await?;
        Ok(done.rows_affected() == 1)
    }

    /// Replaces the password of the user `name`. False: there is no such user.
    ///
    /// # Errors
    /// The database's.
    pub async fn set_password(&self, name: &str, password: &str) -> Result<bool, StoreError> {
        let update = self.sql("UPDATE users SET password = ? WHERE name = ?");
        let done = sqlx::query(update).bind(password).bind(name).execute(&self.pool).await?;
        Ok(done.rows_affected() == 1)
    }
}
