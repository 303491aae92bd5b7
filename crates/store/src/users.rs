//! Users of the control plane: its own, and users of directories and providers who have signed in.

use sqlx::any::AnyRow;
use sqlx::{Any, AnyConnection, Executor, Row};

use crate::database::{retried, seconds, stored};
use crate::{Store, StoreError};

/// A user, with the hash of their password.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct User {
    pub name: String,
    /// Hash in PHC string format; empty for a user of a directory or provider.
    pub password: String,
    /// Expiry of a password that can only be used to replace it; 0 for an ordinary password.
    pub one_time_until_s: u64,
    /// Whether the user may register clients.
    pub admin: bool,
    pub created_s: u64,
    /// The directory or provider of the user; empty for a user of the control plane.
    pub source: String,
    /// The user's permanent ID at the source, which may reuse names; may be empty.
    pub source_id: String,
    /// Claims of the source about the user, as a JSON object; may be empty.
    pub claims: String,
}

/// The hash is not printed.
impl std::fmt::Debug for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("User").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The hash of a new password of a user.
#[derive(Clone, Copy)]
pub struct NewPassword<'a> {
    pub hash: &'a str,
    /// Expiry of a one-time password, as in [`User`].
    pub one_time_until_s: u64,
    /// The hash of the password that it replaces; `None` for any.
    pub earlier: Option<&'a str>,
}

/// The outcome of adding a user of a directory or provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewUser {
    Added,
    /// Another user has that name, and is unchanged.
    NameInUse,
    /// The user is known by this other name.
    Known(String),
}

const COLUMNS: &str = "name, password, admin, created_s, source, source_id, claims, one_time";

impl Store {
    /// The user `name`.
    ///
    /// # Errors
    /// An error of the database.
    pub async fn user(&self, name: &str) -> Result<Option<User>, StoreError> {
        let select = self.sql(&format!("SELECT {COLUMNS} FROM users WHERE name = ?"));
        let row = sqlx::query(select).bind(name).fetch_optional(&self.pool).await?;
        row.as_ref().map(user).transpose()
    }

    /// All users, by name.
    ///
    /// # Errors
    /// An error of the database.
    pub async fn users(&self) -> Result<Vec<User>, StoreError> {
        let select = self.sql(&format!("SELECT {COLUMNS} FROM users ORDER BY name"));
        let rows = sqlx::query(select).fetch_all(&self.pool).await?;
        rows.iter().map(user).collect()
    }

    /// The first user whose name begins with `prefix`.
    ///
    /// # Errors
    /// An error of the database.
    pub async fn user_with_prefix(&self, prefix: &str) -> Result<Option<String>, StoreError> {
        let select =
            self.sql("SELECT name FROM users WHERE SUBSTR(name, 1, ?) = ? ORDER BY name LIMIT 1");
        let characters = i32::try_from(prefix.chars().count()).unwrap_or(i32::MAX);
        let query = sqlx::query(select).bind(characters).bind(prefix);
        let row = query.fetch_optional(&self.pool).await?;
        Ok(row.map(|row| row.try_get(0)).transpose()?)
    }

    /// Adds `user` of a directory or provider, unless the source's ID or the name is already known. Other instances may
    /// do so at the same time.
    ///
    /// # Errors
    /// An error of the database; nothing is changed then.
    pub async fn add_outside_user(&self, user: &User) -> Result<NewUser, StoreError> {
        retried(|| async move {
            let mut transaction = self.pool.begin().await?;
            // Locks the only row, so that others wait for the end.
            sqlx::query("UPDATE revisions SET last = last").execute(&mut *transaction).await?;
            let select = self.sql(
                "SELECT name FROM users WHERE source = ? AND source_id = ? ORDER BY name LIMIT 1",
            );
            let query = sqlx::query(select).bind(user.source.as_str());
            let known = query.bind(user.source_id.as_str()).fetch_optional(&mut *transaction);
            if let Some(row) = known.await? {
                return Ok(NewUser::Known(row.try_get(0)?));
            }
            let added = self.insert_user(user, &mut *transaction).await?;
            transaction.commit().await?;
            Ok(if added { NewUser::Added } else { NewUser::NameInUse })
        })
        .await
    }

    /// Whether [`Self::add_first_user`] has added a user, who may have been removed since.
    ///
    /// # Errors
    /// The database's.
    pub async fn has_begun(&self) -> Result<bool, StoreError> {
        let row = sqlx::query("SELECT has_begun FROM revisions").fetch_one(&self.pool).await?;
        Ok(row.try_get::<i64, _>(0)? != 0)
    }

    /// Adds the first user. False: there was one before, or there is one of that name; no user is added then.
    ///
    /// # Errors
    /// The database's; nothing is changed then.
    pub async fn add_first_user(&self, user: &User) -> Result<bool, StoreError> {
        retried(|| async move {
            let mut transaction = self.pool.begin().await?;
            // Locks the only row: other processes that start wait for the end.
            let begin = "UPDATE revisions SET has_begun = 1 WHERE has_begun = 0";
            let begun = sqlx::query(begin).execute(&mut *transaction).await?;
            if begun.rows_affected() == 0 {
                return Ok(false);
            }
            let added = self.insert_user(user, &mut *transaction).await?;
            transaction.commit().await?;
            Ok(added)
        })
        .await
    }

    /// Adds `user`. False: there is one of that name, which is unchanged.
    ///
    /// # Errors
    /// An error of the database.
    pub async fn add_user(&self, user: &User) -> Result<bool, StoreError> {
        self.insert_user(user, &self.pool).await
    }

    async fn insert_user<'e>(
        &self,
        user: &'e User,
        executor: impl Executor<'e, Database = Any>,
    ) -> Result<bool, StoreError> {
        let insert = self.sql(&format!(
            "INSERT INTO users ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?){}",
            self.dialect.or_nothing("name")
        ));
        let insert = sqlx::query(insert).bind(user.name.as_str()).bind(user.password.as_str());
        let insert = insert.bind(i64::from(user.admin)).bind(stored(user.created_s));
        let insert = insert.bind(user.source.as_str()).bind(user.source_id.as_str());
        let insert = insert.bind(user.claims.as_str()).bind(stored(user.one_time_until_s));
        self.insert_new(insert, executor).await
    }

    /// Locks the row of `user` until the end of the transaction: removals, password changes and other locks wait.
    /// Returns false if the user changed since they were read.
    pub(crate) async fn lock_user(
        &self,
        connection: &mut AnyConnection,
        user: &User,
    ) -> Result<bool, StoreError> {
        let lock = self.sql(
            "UPDATE users SET password = password WHERE name = ? AND password = ? AND created_s = ?",
        );
        let lock = sqlx::query(lock).bind(user.name.as_str()).bind(user.password.as_str());
        let lock = lock.bind(stored(user.created_s)).execute(connection).await?;
        Ok(lock.rows_affected() == 1)
    }

    /// Replaces the claims of the source of `user`. Without effect if the stored user has another source.
    ///
    /// # Errors
    /// An error of the database.
    pub async fn update_user(&self, user: &User) -> Result<(), StoreError> {
        let update = self.sql(
            "UPDATE users SET admin = ?, claims = ? WHERE name = ? AND source = ? AND source_id = ?",
        );
        let update = sqlx::query(update).bind(i64::from(user.admin)).bind(user.claims.as_str());
        let update = update.bind(user.name.as_str()).bind(user.source.as_str());
        update.bind(user.source_id.as_str()).execute(&self.pool).await.map(drop)?;
        Ok(())
    }

    /// Replaces the password of the user `name`, and revokes their codes and tokens. Returns false if the user does not
    /// exist, or has another password than the earlier one.
    ///
    /// # Errors
    /// An error of the database; nothing is changed then.
    pub async fn set_password(&self, name: &str, new: NewPassword<'_>) -> Result<bool, StoreError> {
        let NewPassword { hash, one_time_until_s, earlier } = new;
        let only_if = if earlier.is_some() { " AND password = ?" } else { "" };
        let update = format!("UPDATE users SET password = ?, one_time = ? WHERE name = ?{only_if}");
        let update = &update;
        self.changing(|| async move {
            let mut transaction = self.pool.begin().await?;
            let query = sqlx::query(self.sql(update)).bind(hash);
            let mut query = query.bind(stored(one_time_until_s)).bind(name);
            if let Some(earlier) = earlier {
                query = query.bind(earlier);
            }
            if query.execute(&mut *transaction).await?.rows_affected() != 1 {
                return Ok(false);
            }
            self.revoke_user(&mut transaction, name).await?;
            transaction.commit().await?;
            Ok(true)
        })
        .await
    }

    /// Removes the user `name` with their codes and tokens. The clients that they registered stay. Returns false if the
    /// user does not exist.
    ///
    /// # Errors
    /// An error of the database.
    pub async fn remove_user(&self, name: &str) -> Result<bool, StoreError> {
        self.changing(|| async move {
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
        self.revoke(connection, OF_USER, &[name, name]).await
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
        one_time_until_s: seconds(row.try_get(7)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Code, Database, Decision, Device, Token, TokenKind};

    const NAME: &str = "ann";

    async fn store(folder: &tempfile::TempDir) -> Store {
        let database = Database::Sqlite(folder.path().join("store.db"));
        Store::open(&database).await.expect("a store")
    }

    fn text() -> String {
        "text".to_owned()
    }

    fn code() -> Code {
        Code {
            hash: text(),
            family: text(),
            client: text(),
            subject: NAME.to_owned(),
            scope: text(),
            redirect: text(),
            challenge: text(),
            expires_s: 100,
            nonce: String::new(),
            auth_s: 7,
        }
    }

    fn device() -> Device {
        Device {
            hash: text(),
            user_code: text(),
            family: text(),
            client: text(),
            scope: text(),
            expires_s: 100,
            decision: Decision::Pending,
            subject: String::new(),
            decided_s: 0,
            auth_s: 0,
        }
    }

    fn token() -> Token {
        Token {
            hash: text(),
            kind: TokenKind::Access,
            family: text(),
            client: text(),
            subject: NAME.to_owned(),
            scope: text(),
            issued_s: 1,
            expires_s: 100,
            spent: false,
        }
    }

    #[tokio::test]
    async fn what_a_user_decided_is_stored_for_the_user_who_was_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = store(&folder).await;
        let ann = User {
            name: NAME.to_owned(),
            password: "hash".to_owned(),
            created_s: 1,
            ..User::default()
        };
        assert!(store.add_user(&ann).await.expect("added"));
        assert!(store.add_device(&device()).await.expect("added"));
        for (user, change) in [
            (User { password: "another".to_owned(), ..ann.clone() }, "another password"),
            (User { created_s: 2, ..ann.clone() }, "another one with the name"),
            (User { name: "ben".to_owned(), ..ann.clone() }, "no user"),
        ] {
            assert!(!store.add_code(&code(), &user).await.expect("a result"), "{change}");
            assert!(store.code("text", "text").await.expect("a result").is_none(), "{change}");
            let decided = store.decide_device("text", Some((&user, 7)), 10).await;
            assert!(!decided.expect("a result"), "{change}");
            assert!(store.waiting_device("text", 10).await.expect("a result").is_some());
            assert!(!store.add_tokens(&[token()], Some(&user)).await.expect("a result"));
            assert!(store.token("text").await.expect("a result").is_none(), "{change}");
        }
        assert!(store.add_code(&code(), &ann).await.expect("added"));
        assert_eq!(store.code("text", "text").await.expect("a result"), Some(code()));
        assert!(store.decide_device("text", Some((&ann, 7)), 10).await.expect("decided"));
        let polled = store.poll_device("text", "text", 10, 0).await.expect("a result");
        let (found, _) = polled.expect("a device");
        assert_eq!((found.decision, found.auth_s, &*found.subject), (Decision::Allowed, 7, NAME));
        assert!(store.add_tokens(&[token()], Some(&ann)).await.expect("added"));
        // Codes, devices and tokens end when the password changes.
        let new =
            |earlier| NewPassword { hash: "new", one_time_until_s: 0, earlier: Some(earlier) };
        assert!(!store.set_password(NAME, new("another")).await.expect("a result"));
        assert!(store.token("text").await.expect("a result").is_some(), "nothing has changed");
        assert!(store.set_password(NAME, new(&ann.password)).await.expect("changed"));
        assert!(store.code("text", "text").await.expect("a result").is_none());
        assert!(store.poll_device("text", "text", 10, 0).await.expect("a result").is_none());
        assert!(store.token("text").await.expect("a result").is_none());
    }

    #[tokio::test]
    async fn of_several_first_sign_ins_of_one_user_under_different_names_one_counts() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = store(&folder).await;
        let user = |name: &str, source_id: &str| User {
            name: name.to_owned(),
            source: "corp".to_owned(),
            source_id: source_id.to_owned(),
            ..User::default()
        };
        for round in 0..8 {
            let id = round.to_string();
            let [a, b, c] = ["a", "b", "c"].map(|name| user(&format!("{name}{id}"), &id));
            let added = tokio::join!(
                store.add_outside_user(&a),
                store.add_outside_user(&b),
                store.add_outside_user(&c)
            );
            let added = [added.0, added.1, added.2].map(|added| added.expect("a result"));
            let first =
                [&a, &b, &c].into_iter().zip(&added).find(|(_, new)| **new == NewUser::Added);
            let (first, _) = first.expect("one is added");
            let others = added.iter().filter(|new| **new == NewUser::Known(first.name.clone()));
            assert_eq!(others.count(), 2, "{added:?}");
            let other = user(&first.name, "another");
            let taken = store.add_outside_user(&other).await.expect("a result");
            assert_eq!(taken, NewUser::NameInUse);
        }
    }
}
