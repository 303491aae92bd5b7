//! OAuth2 clients: the registered applications.

use sqlx::any::{AnyArguments, AnyRow};
use sqlx::query::Query;
use sqlx::{Any, Row};

use crate::database::{retried, seconds, stored};
use crate::{Store, StoreError, TokensOfClient};

/// The form of a client's access tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenType {
    /// Signed claims.
    Jwt,
    /// A random text, whose hash is in the store.
    Opaque,
}

impl TokenType {
    fn as_str(self) -> &'static str {
        match self {
            Self::Jwt => "jwt",
            Self::Opaque => "opaque",
        }
    }
}

/// A registered client. The lists are separated by spaces, as in OAuth2.
#[derive(Clone, PartialEq, Eq)]
pub struct Client {
    pub id: String,
    /// SHA-256 of the secret, in base64url; empty if the client has none.
    pub secret: String,
    /// The JWK set whose keys sign the client's assertions; empty if it has none.
    pub jwks: String,
    /// The certificates that the client may authenticate with, in the manager's format; empty if none.
    pub certificate: String,
    /// Whether the client's tokens are bound to its certificate.
    pub bound: bool,
    pub name: String,
    /// The user who registered the client.
    pub owner: String,
    /// The grant types that it may use.
    pub grants: String,
    /// The scopes that its tokens may have.
    pub scopes: String,
    /// Redirect URIs of the client.
    pub redirects: String,
    pub token_type: TokenType,
    pub created_s: u64,
}

impl Client {
    /// Whether the client has neither secret nor key, such as an application on a phone.
    #[must_use]
    pub fn is_public(&self) -> bool {
        self.secret.is_empty() && self.jwks.is_empty() && self.certificate.is_empty()
    }
}

/// The hash is not printed.
impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("id", &self.id).finish_non_exhaustive()
    }
}

const COLUMNS: &str = "id, secret, name, owner, grants, scopes, redirects, token_type, created_s, \
     jwks, certificate, bound";
const INSERT: &str = "INSERT INTO clients (id, secret, name, owner, grants, scopes, redirects, token_type, created_s, jwks, certificate, bound) \
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";

/// Columns that are unique among clients.
const KEY: &str = "owner, name";
/// Columns that [`Store::put_client`] replaces.
const REPLACED: [&str; 8] =
    ["secret", "grants", "scopes", "redirects", "token_type", "jwks", "certificate", "bound"];

/// The statement [`INSERT`] with its values.
fn bound<'q>(query: Query<'q, Any, AnyArguments>, client: &Client) -> Query<'q, Any, AnyArguments> {
    let query = query.bind(client.id.clone()).bind(client.secret.clone());
    let query = query.bind(client.name.clone()).bind(client.owner.clone());
    let query = query.bind(client.grants.clone()).bind(client.scopes.clone());
    let query = query.bind(client.redirects.clone()).bind(client.token_type.as_str());
    query
        .bind(stored(client.created_s))
        .bind(client.jwks.clone())
        .bind(client.certificate.clone())
        .bind(i64::from(client.bound))
}

impl Store {
    /// The client `id`.
    ///
    /// # Errors
    /// An error of the database.
    pub async fn client(&self, id: &str) -> Result<Option<Client>, StoreError> {
        let select = self.sql(&format!("SELECT {COLUMNS} FROM clients WHERE id = ?"));
        let row = sqlx::query(select).bind(id).fetch_optional(&self.pool).await?;
        row.as_ref().map(client).transpose()
    }

    /// At most `most` clients whose ids come after `after`, ordered by id.
    ///
    /// # Errors
    /// An error of the database.
    pub async fn clients(&self, after: &str, most: u32) -> Result<Vec<Client>, StoreError> {
        let select = format!("SELECT {COLUMNS} FROM clients WHERE id > ? ORDER BY id LIMIT {most}");
        let select = sqlx::query(self.sql(&select)).bind(after);
        select.fetch_all(&self.pool).await?.iter().map(client).collect()
    }

    /// The number of clients of the user `owner`.
    ///
    /// # Errors
    /// An error of the database.
    pub async fn count_clients_of(&self, owner: &str) -> Result<u64, StoreError> {
        let count = self.sql("SELECT COUNT(*) FROM clients WHERE owner = ?");
        let row = sqlx::query(count).bind(owner).fetch_one(&self.pool).await?;
        Ok(seconds(row.try_get(0)?))
    }

    /// Makes the user `to` the owner of the clients of `from`. If clients of both have the same name, returns that name
    /// and changes nothing.
    ///
    /// # Errors
    /// An error of the database.
    pub async fn give_clients(&self, from: &str, to: &str) -> Result<Option<String>, StoreError> {
        retried(|| async move {
            let mut transaction = self.pool.begin().await?;
            let select = self.sql(
                "SELECT mine.name FROM clients AS mine JOIN clients AS theirs \
                 ON mine.name = theirs.name WHERE mine.owner = ? AND theirs.owner = ? LIMIT 1",
            );
            let select = sqlx::query(select).bind(from).bind(to);
            if let Some(row) = select.fetch_optional(&mut *transaction).await? {
                return Ok(Some(row.try_get(0)?));
            }
            let update = self.sql("UPDATE clients SET owner = ? WHERE owner = ?");
            sqlx::query(update).bind(to).bind(from).execute(&mut *transaction).await?;
            transaction.commit().await?;
            Ok(None)
        })
        .await
    }

    /// The number of clients.
    ///
    /// # Errors
    /// An error of the database.
    pub async fn count_clients(&self) -> Result<u64, StoreError> {
        let row = sqlx::query("SELECT COUNT(*) FROM clients").fetch_one(&self.pool).await?;
        Ok(seconds(row.try_get(0)?))
    }

    /// Adds `client`. Returns false if its owner already has one of that name, which is unchanged.
    ///
    /// # Errors
    /// An error of the database.
    pub async fn add_client(&self, client: &Client) -> Result<bool, StoreError> {
        let insert = self.sql(&format!("{INSERT}{}", self.dialect.or_nothing(KEY)));
        self.insert_new(bound(sqlx::query(insert), client), &self.pool).await
    }

    /// Adds `client`, or replaces everything but id and creation time of the one with its owner and name. Returns the
    /// id of the client.
    ///
    /// # Errors
    /// An error of the database.
    pub async fn put_client(&self, client: &Client) -> Result<String, StoreError> {
        retried(|| async move {
            let upsert = format!("{INSERT}{}", self.dialect.or_replace(KEY, &REPLACED));
            let mut transaction = self.pool.begin().await?;
            let upsert = bound(sqlx::query(self.sql(&upsert)), client);
            upsert.execute(&mut *transaction).await?;
            let select = self.sql("SELECT id FROM clients WHERE owner = ? AND name = ?");
            let select = sqlx::query(select).bind(client.owner.as_str()).bind(client.name.as_str());
            let id = select.fetch_one(&mut *transaction).await?.try_get(0)?;
            transaction.commit().await?;
            Ok(id)
        })
        .await
    }

    /// Removes the client `id`, and revokes its `tokens`. Returns false if the client does not exist.
    ///
    /// # Errors
    /// An error of the database; nothing is changed then.
    pub async fn remove_client(
        &self,
        id: &str,
        tokens: &TokensOfClient,
    ) -> Result<bool, StoreError> {
        self.changing(|| async move {
            let mut transaction = self.pool.begin().await?;
            for table in ["codes", "devices", "tokens"] {
                let delete = format!("DELETE FROM {table} WHERE client = ?");
                // As in [`Self::revoke`], the next statement sees the tokens that a concurrent exchange added.
                loop {
                    let query = sqlx::query(self.sql(&delete)).bind(id);
                    let done = query.execute(&mut *transaction).await?;
                    if done.rows_affected() == 0 {
                        break;
                    }
                }
            }
            let client = self.sql("DELETE FROM clients WHERE id = ?");
            let done = sqlx::query(client).bind(id).execute(&mut *transaction).await?;
            if done.rows_affected() == 0 {
                return Ok(false);
            }
            self.publish_client(&mut transaction, (id, tokens)).await?;
            transaction.commit().await?;
            Ok(true)
        })
        .await
    }
}

fn client(row: &AnyRow) -> Result<Client, StoreError> {
    let token_type: String = row.try_get(7)?;
    Ok(Client {
        id: row.try_get(0)?,
        secret: row.try_get(1)?,
        name: row.try_get(2)?,
        owner: row.try_get(3)?,
        grants: row.try_get(4)?,
        scopes: row.try_get(5)?,
        redirects: row.try_get(6)?,
        token_type: match token_type.as_str() {
            "jwt" => TokenType::Jwt,
            "opaque" => TokenType::Opaque,
            _ => return Err(StoreError::Value("token_type")),
        },
        created_s: seconds(row.try_get(8)?),
        jwks: row.try_get(9)?,
        certificate: row.try_get(10)?,
        bound: row.try_get::<i64, _>(11)? != 0,
    })
}
