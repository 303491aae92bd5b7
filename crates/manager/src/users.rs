//! Users, as the command line changes them: also while the control plane runs.

use base::{Clock, SystemClock, SystemEntropy};
use store::{Database, NewPassword, Store, StoreError, User};

use crate::manager::is_name;
use crate::{StartError, limits, passwords, runtime, secrets};

/// The user whom the first start creates.
pub const ADMIN: &str = "admin";

/// Why a change of the users failed.
#[derive(Debug, thiserror::Error)]
pub enum UserError {
    #[error("the user `{0}` already exists")]
    Exists(String),
    #[error("there is no user `{0}`")]
    Unknown(String),
    #[error("a name has 1 to {} bytes, without control characters and `/`", limits::NAME_BYTES_MAX)]
    Name,
    #[error(
        "a password has {} to {} bytes",
        base::limits::PASSWORD_BYTES_MIN,
        base::limits::PASSWORD_BYTES_MAX
    )]
    Password,
    #[error("the user `{0}` signs in with the password of `{1}`; change it there")]
    Elsewhere(String, String),
    #[error(
        "`{0}` has registered {1} clients; give them to an administrator by `--clients-to NAME`, \
         or remove them first"
    )]
    HasClients(String, u64),
    #[error("`{0}` is not an administrator, who could take over clients")]
    NoAdministrator(String),
    #[error("both users have a client of the name `{0}`; remove one of them first")]
    SameClient(String),
    #[error("there is not enough memory to hash a password")]
    Memory,
    #[error("{0}")]
    Store(#[from] StoreError),
    #[error("{0}")]
    Start(#[from] StartError),
}

/// A change of the users.
#[derive(Clone, Copy, Debug)]
pub enum UserChange<'a> {
    Add {
        /// Whether the user may register clients.
        admin: bool,
    },
    /// Replaces the password, and revokes the user's tokens.
    Password,
    /// Removes the user and their tokens.
    Remove {
        /// The administrator who gets the clients that the user registered.
        heir: Option<&'a str>,
    },
}

/// Changes the user `name`. Returns the password, if one was generated since none was given: the user has to replace it
/// at `/account/password` before it is valid elsewhere.
///
/// # Errors
/// The name or password is not allowed, the user exists or does not, or the store cannot be used.
pub fn change_user(
    database: &Database,
    name: &str,
    change: UserChange<'_>,
    password: Option<&str>,
) -> Result<Option<String>, UserError> {
    // A slash ends the name of a trusted issuer.
    let is_new = matches!(change, UserChange::Add { .. });
    if !is_name(name) || is_new && name.contains('/') {
        return Err(UserError::Name);
    }
    let lengths = base::limits::PASSWORD_BYTES_MIN..=base::limits::PASSWORD_BYTES_MAX;
    if password.is_some_and(|password| !lengths.contains(&password.len())) {
        return Err(UserError::Password);
    }
    let generated = || password.is_none().then(|| secrets::identifier(&SystemEntropy));
    runtime()?.block_on(async {
        let store = Store::open(database).await?;
        let (done, generated) = match change {
            UserChange::Add { admin } => {
                let generated = generated();
                let chosen = password.or(generated.as_deref()).unwrap_or_default();
                (add(&store, name, admin, (chosen, generated.is_some())).await?, generated)
            }
            UserChange::Password => {
                if let Some(user) = store.user(name).await?.filter(|user| !user.source.is_empty()) {
                    return Err(UserError::Elsewhere(user.name, user.source));
                }
                let generated = generated();
                let chosen = password.or(generated.as_deref()).unwrap_or_default();
                let hash = passwords::hash(chosen, &SystemEntropy).ok_or(UserError::Memory)?;
                let new = NewPassword { hash: &hash, one_time: generated.is_some(), earlier: None };
                (store.set_password(name, new).await?, generated)
            }
            UserChange::Remove { heir } => {
                give_clients(&store, name, heir).await?;
                (store.remove_user(name).await?, None)
            }
        };
        store.close().await;
        match change {
            _ if done => Ok(generated),
            UserChange::Add { .. } => Err(UserError::Exists(name.to_owned())),
            UserChange::Password | UserChange::Remove { .. } => {
                Err(UserError::Unknown(name.to_owned()))
            }
        }
    })
}

/// Whoever knows the secrets of the clients of `name` could go on to use them: somebody has to answer for them.
async fn give_clients(store: &Store, name: &str, heir: Option<&str>) -> Result<(), UserError> {
    let Some(heir) = heir else {
        return match store.count_clients_of(name).await? {
            0 => Ok(()),
            count => Err(UserError::HasClients(name.to_owned(), count)),
        };
    };
    let is_admin = store.user(heir).await?.is_some_and(|user| user.admin);
    if !is_admin || heir == name {
        return Err(UserError::NoAdministrator(heir.to_owned()));
    }
    match store.give_clients(name, heir).await? {
        None => Ok(()),
        Some(both) => Err(UserError::SameClient(both)),
    }
}

/// Hands each client to `each`: its id, its name and its owner.
///
/// # Errors
/// The store cannot be used.
pub fn list_clients(
    database: &Database,
    mut each: impl FnMut(&str, &str, &str),
) -> Result<(), UserError> {
    runtime()?.block_on(async {
        let store = Store::open(database).await?;
        let mut after = String::new();
        loop {
            let page = store.clients(&after, limits::CLIENTS_PAGE_MAX).await?;
            page.iter().for_each(|client| each(&client.id, &client.name, &client.owner));
            let Some(last) = page.last() else { break };
            after.clone_from(&last.id);
        }
        store.close().await;
        Ok(())
    })
}

/// The names of all users, each with whether they may register clients, and where they come from: empty for a user of
/// the database.
///
/// # Errors
/// The store cannot be used.
pub fn list_users(database: &Database) -> Result<Vec<(String, bool, String)>, UserError> {
    runtime()?.block_on(async {
        let store = Store::open(database).await?;
        let users = store.users().await?;
        store.close().await;
        Ok(users.into_iter().map(|user| (user.name, user.admin, user.source)).collect())
    })
}

/// Creates [`ADMIN`] if there is no such user. Returns the password that was generated.
pub(crate) async fn first_admin(
    store: &Store,
    password: Option<String>,
) -> Result<Option<String>, UserError> {
    if store.user(ADMIN).await?.is_some() {
        return Ok(None);
    }
    let generated = password.is_none().then(|| secrets::identifier(&SystemEntropy));
    let chosen = password.or_else(|| generated.clone()).unwrap_or_default();
    // Another instance that starts now may have been first: its password counts.
    let added = add(store, ADMIN, true, (&chosen, generated.is_some())).await?;
    Ok(generated.filter(|_| added))
}

async fn add(
    store: &Store,
    name: &str,
    admin: bool,
    (password, one_time): (&str, bool),
) -> Result<bool, UserError> {
    let user = User {
        name: name.to_owned(),
        one_time,
        password: passwords::hash(password, &SystemEntropy).ok_or(UserError::Memory)?,
        admin,
        created_s: SystemClock::new().now().unix_s,
        ..User::default()
    };
    Ok(store.add_user(&user).await?)
}
