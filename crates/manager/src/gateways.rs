//! The clients of gateways, which follow the applications, plans and revocations of a control plane.

use base::{SystemClock, SystemEntropy};
use store::{Client, Database, Store, StoreError};

use crate::applications::GATEWAY;
use crate::register::own_client;
use crate::users::UserError;
use crate::{StartError, limits, runtime, secrets};

/// Why the client of a gateway cannot be added.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    #[error(
        "the name of a gateway has 1 to {} letters, digits, `-`, `_` and `.`",
        limits::GATEWAY_NAME_BYTES_MAX
    )]
    Name,
    #[error("the gateway `{0}` already exists; `--new-secret` replaces its secret")]
    Exists(String),
    #[error("there is no gateway `{0}`; without `--new-secret` it is added")]
    Unknown(String),
    #[error("`{0}` is the name or id of another client; choose another name")]
    OtherClient(String),
    #[error("{0}")]
    Store(#[from] StoreError),
    #[error("{0}")]
    Start(#[from] StartError),
}

/// Registers the gateway `name`, or with `is_known` replaces the secret of that gateway, and returns the secret. The
/// name is also the client's id.
///
/// # Errors
/// [`GatewayError`]; nothing is changed then.
pub fn put_gateway(
    database: &Database,
    name: &str,
    is_known: bool,
) -> Result<String, GatewayError> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if name.is_empty() || name.len() > limits::GATEWAY_NAME_BYTES_MAX || !name.bytes().all(is_name)
    {
        return Err(GatewayError::Name);
    }
    let secret = secrets::secret(&SystemEntropy);
    let client = own_client(name, name, GATEWAY, &secret, &SystemClock::new());
    runtime()?.block_on(async {
        let store = Store::open(database).await?;
        let put = put(&store, &client, is_known).await;
        store.close().await;
        put.map(|()| secret)
    })
}

async fn put(store: &Store, client: &Client, is_known: bool) -> Result<(), GatewayError> {
    let name = || client.name.clone();
    match store.client(&client.id).await? {
        Some(other) if !is_gateway(&other) => return Err(GatewayError::OtherClient(name())),
        Some(_) if !is_known => return Err(GatewayError::Exists(name())),
        None if is_known => return Err(GatewayError::Unknown(name())),
        Some(_) => store.put_client(client).await.map(|_| ())?,
        None if store.add_client(client).await? => {}
        None => return Err(GatewayError::OtherClient(name())),
    }
    Ok(())
}

/// Whether `client` was registered by [`put_gateway`].
fn is_gateway(client: &Client) -> bool {
    client.scopes == GATEWAY && client.id == client.name
}

/// Calls `each` with the names of all gateways, by name.
///
/// # Errors
/// The database's.
pub fn list_gateways(database: &Database, mut each: impl FnMut(&str)) -> Result<(), UserError> {
    crate::users::for_each_client(database, |client| {
        if is_gateway(client) {
            each(&client.id);
        }
    })
}
