//! Devices without a browser that wait for a user to sign in elsewhere.

use sqlx::Row;
use sqlx::any::AnyRow;

use crate::database::{retried, seconds, stored};
use crate::{Store, StoreError, Token, User};

/// The user's decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Pending,
    Allowed,
    Denied,
}

/// A device code that was issued to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// SHA-256 of the device code, in base64url.
    pub hash: String,
    /// The code that the user enters.
    pub user_code: String,
    /// The family of the tokens that the code is exchanged for.
    pub family: String,
    pub client: String,
    pub scope: String,
    pub expires_s: u64,
    pub decision: Decision,
    /// The user who allowed the device, or empty.
    pub subject: String,
    pub decided_s: u64,
    /// Time of that user's sign-in, in seconds since the Unix epoch; 0 if unknown.
    pub auth_s: u64,
}

const COLUMNS: &str =
    "hash, user_code, family, client, scope, expires_s, decision, subject, decided_s, auth_s";

impl Store {
    /// Adds `device`, which is pending. Returns false if its user code is in use.
    ///
    /// # Errors
    /// An error of the database.
    pub async fn add_device(&self, device: &Device) -> Result<bool, StoreError> {
        let insert = self.sql(&format!(
            "INSERT INTO devices ({COLUMNS}, polled_s) VALUES (?, ?, ?, ?, ?, ?, 0, '', 0, 0, 0){}",
            self.dialect.or_nothing("user_code")
        ));
        let query = sqlx::query(insert).bind(device.hash.as_str()).bind(device.user_code.as_str());
        let query = query.bind(device.family.as_str()).bind(device.client.as_str());
        let query = query.bind(device.scope.as_str()).bind(stored(device.expires_s));
        self.insert_new(query, &self.pool).await
    }

    /// The device that waits with this user code.
    ///
    /// # Errors
    /// An error of the database.
    pub async fn waiting_device(
        &self,
        user_code: &str,
        now_s: u64,
    ) -> Result<Option<Device>, StoreError> {
        let select = self.sql(&format!(
            "SELECT {COLUMNS} FROM devices WHERE user_code = ? AND decision = 0 AND expires_s > ?"
        ));
        let query = sqlx::query(select).bind(user_code).bind(stored(now_s));
        query.fetch_optional(&self.pool).await?.as_ref().map(device).transpose()
    }

    /// Records that a user, who signed in at a given time, allows the device with this code, or that it is denied.
    /// Returns false if the device no longer waits, or the user changed since they were read.
    ///
    /// # Errors
    /// An error of the database.
    pub async fn decide_device(
        &self,
        user_code: &str,
        allowed: Option<(&User, u64)>,
        now_s: u64,
    ) -> Result<bool, StoreError> {
        retried(|| async move {
            let mut transaction = self.pool.begin().await?;
            let (decision, subject, auth_s) = match allowed {
                Some((user, auth_s)) => {
                    if !self.lock_user(&mut transaction, user).await? {
                        return Ok(false);
                    }
                    (1_i64, user.name.as_str(), auth_s)
                }
                None => (2, "", 0),
            };
            let update = self.sql(
                "UPDATE devices SET decision = ?, subject = ?, decided_s = ?, auth_s = ? \
                 WHERE user_code = ? AND decision = 0 AND expires_s > ?",
            );
            let query = sqlx::query(update).bind(decision).bind(subject).bind(stored(now_s));
            let query = query.bind(stored(auth_s)).bind(user_code).bind(stored(now_s));
            let decided = query.execute(&mut *transaction).await?.rows_affected() == 1;
            transaction.commit().await?;
            Ok(decided)
        })
        .await
    }

    /// The device with the code of this hash, if it was issued to `client`, and whether its last poll was at least
    /// `interval_s` ago.
    ///
    /// # Errors
    /// An error of the database.
    pub async fn poll_device(
        &self,
        hash: &str,
        client: &str,
        now_s: u64,
        interval_s: u64,
    ) -> Result<Option<(Device, bool)>, StoreError> {
        let update = self
            .sql("UPDATE devices SET polled_s = ? WHERE hash = ? AND client = ? AND polled_s <= ?");
        let query = sqlx::query(update).bind(stored(now_s)).bind(hash).bind(client);
        let query = query.bind(stored(now_s.saturating_sub(interval_s)));
        let in_time = query.execute(&self.pool).await?.rows_affected() == 1;
        let select =
            self.sql(&format!("SELECT {COLUMNS} FROM devices WHERE hash = ? AND client = ?"));
        let row = sqlx::query(select).bind(hash).bind(client).fetch_optional(&self.pool).await?;
        row.map(|row| Ok((device(&row)?, in_time))).transpose()
    }

    /// Exchanges a device code that the user allowed for `tokens`. Returns false if it was exchanged before.
    ///
    /// # Errors
    /// An error of the database; nothing is changed then.
    pub async fn exchange_device(
        &self,
        device: &Device,
        tokens: &[Token],
    ) -> Result<bool, StoreError> {
        retried(|| async move {
            let mut transaction = self.pool.begin().await?;
            let delete = self.sql("DELETE FROM devices WHERE hash = ? AND decision = 1");
            let query = sqlx::query(delete).bind(device.hash.as_str());
            let first = query.execute(&mut *transaction).await?.rows_affected() == 1;
            if first {
                self.insert(&mut transaction, tokens).await?;
            }
            transaction.commit().await?;
            Ok(first)
        })
        .await
    }
}

fn device(row: &AnyRow) -> Result<Device, StoreError> {
    Ok(Device {
        hash: row.try_get(0)?,
        user_code: row.try_get(1)?,
        family: row.try_get(2)?,
        client: row.try_get(3)?,
        scope: row.try_get(4)?,
        expires_s: seconds(row.try_get(5)?),
        decision: match row.try_get::<i64, _>(6)? {
            0 => Decision::Pending,
            1 => Decision::Allowed,
            2 => Decision::Denied,
            _ => return Err(StoreError::Value("decision")),
        },
        subject: row.try_get(7)?,
        decided_s: seconds(row.try_get(8)?),
        auth_s: seconds(row.try_get(9)?),
    })
}
