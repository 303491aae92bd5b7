//! Failed attempts to authenticate, which the instances of a control plane share. The rules are in `manager`.

use sqlx::{AnyConnection, Row};

use crate::database::{seconds, stored};
use crate::{Store, StoreError, limits};

/// The count in one place of a table of fixed size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    pub count: u32,
    /// Time from which the decay of failures is computed.
    pub since_s: u64,
    /// Time of the last failure.
    pub last_s: u64,
}

const COLUMNS: &str = "place, failures, since_s, last_s";

impl Store {
    /// The counts of those of `places` that have one, each with its place.
    ///
    /// # Errors
    /// An error of the database.
    pub async fn failures(&self, places: &[u32]) -> Result<Vec<(u32, Failures)>, StoreError> {
        let mut connection = self.pool.acquire().await?;
        self.failures_in(&mut connection, places).await
    }

    async fn failures_in(
        &self,
        connection: &mut AnyConnection,
        places: &[u32],
    ) -> Result<Vec<(u32, Failures)>, StoreError> {
        if places.is_empty() {
            return Ok(Vec::new());
        }
        let select = format!(
            "SELECT {COLUMNS} FROM failures WHERE place IN ({})",
            vec!["?"; places.len()].join(", ")
        );
        let mut query = sqlx::query(self.sql(&select));
        for place in places {
            query = query.bind(i64::from(*place));
        }
        let rows = query.fetch_all(connection).await?;
        let read = |row: &sqlx::any::AnyRow| {
            let number = |column: usize| Ok::<_, sqlx::Error>(seconds(row.try_get(column)?));
            let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
            let (place, count) = (small(number(0)?), small(number(1)?));
            Ok((place, Failures { count, since_s: number(2)?, last_s: number(3)? }))
        };
        rows.iter().map(read).collect()
    }

    /// Changes the count in `place`, which other instances may change at the same time. If they do so repeatedly,
    /// nothing is changed.
    ///
    /// # Errors
    /// An error of the database.
    pub async fn change_failures(
        &self,
        place: u32,
        change: impl Fn(Failures) -> Failures,
    ) -> Result<(), StoreError> {
        let mut connection = self.pool.acquire().await?;
        for _ in 0..limits::FAILURE_CHANGES_MAX {
            let known = self.failures_in(&mut connection, &[place]).await?;
            let known = known.first().map(|(_, known)| *known);
            let new = change(known.unwrap_or_default());
            if self.replace(&mut connection, place, (known, new)).await? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Returns false if another instance has changed the count meanwhile.
    async fn replace(
        &self,
        connection: &mut AnyConnection,
        place: u32,
        (known, new): (Option<Failures>, Failures),
    ) -> Result<bool, StoreError> {
        let numbers = |of: Failures| [i64::from(of.count), stored(of.since_s), stored(of.last_s)];
        let Some(known) = known else {
            let insert = format!(
                "INSERT INTO failures ({COLUMNS}) VALUES (?, ?, ?, ?){}",
                self.dialect.or_nothing("place")
            );
            let mut query = sqlx::query(self.sql(&insert)).bind(i64::from(place));
            for number in numbers(new) {
                query = query.bind(number);
            }
            return self.insert_new(query, connection).await;
        };
        let update = self.sql(
            "UPDATE failures SET failures = ?, since_s = ?, last_s = ? \
             WHERE place = ? AND failures = ? AND since_s = ? AND last_s = ?",
        );
        let mut query = sqlx::query(update);
        for number in numbers(new).into_iter().chain([i64::from(place)]).chain(numbers(known)) {
            query = query.bind(number);
        }
        Ok(query.execute(connection).await?.rows_affected() == 1)
    }

    /// Deletes the counts of `places`.
    ///
    /// # Errors
    /// An error of the database.
    pub async fn forget_failures(&self, places: &[u32]) -> Result<(), StoreError> {
        for place in places {
            let delete = self.sql("DELETE FROM failures WHERE place = ?");
            sqlx::query(delete).bind(i64::from(*place)).execute(&self.pool).await?;
        }
        Ok(())
    }
}
