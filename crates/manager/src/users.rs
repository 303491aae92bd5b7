//! Users, as the command line changes them: also while the control plane runs.

use base::{Clock, SystemClock, SystemEntropy};
use serde_json::{Value, json};
use store::{Client, Database, NewPassword, Store, StoreError, User};

use crate::manager::is_name;
use crate::outside::ROLES;
use crate::{StartError, limits, outside, passwords, runtime, secrets};

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
        "a password must be {} to {} bytes long",
        base::limits::PASSWORD_BYTES_MIN,
        base::limits::PASSWORD_BYTES_MAX
    )]
    Password,
    #[error("the user `{0}` signs in with the password of `{1}`; change it there")]
    Elsewhere(String, String),
    #[error("the roles of the user `{0}` come from `{1}`; change them there")]
    RolesElsewhere(String, String),
    #[error(
        "a role has 1 to {} bytes, without control characters; all together have at most {}; `admin` is given by \
         `user add --admin`",
        limits::NAME_BYTES_MAX,
        limits::LIST_BYTES_MAX
    )]
    Roles,
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
        roles: &'a [String],
    },
    /// Replaces the roles.
    Roles(&'a [String]),
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
            UserChange::Add { admin, roles } => {
                let generated = generated();
                let chosen = password.or(generated.as_deref()).unwrap_or_default();
                let password = hashed(chosen)?;
                let one_time_until_s = one_time_until_s(generated.as_deref());
                let claims = of_roles(roles)?;
                let user = User { one_time_until_s, claims, ..user(name, password, admin) };
                (store.add_user(&user).await?, generated)
            }
            UserChange::Roles(roles) => {
                let claims = of_roles(roles)?;
                let found = store.user(name).await?;
                if let Some(user) = found.as_ref().filter(|user| !user.source.is_empty()) {
                    return Err(UserError::RolesElsewhere(user.name.clone(), user.source.clone()));
                }
                let changed = found.map(|user| User { claims, ..user });
                if let Some(user) = &changed {
                    store.update_user(user).await?;
                }
                (changed.is_some(), None)
            }
            UserChange::Password => {
                if let Some(user) = store.user(name).await?.filter(|user| !user.source.is_empty()) {
                    return Err(UserError::Elsewhere(user.name, user.source));
                }
                let generated = generated();
                let chosen = password.or(generated.as_deref()).unwrap_or_default();
                let hash = hashed(chosen)?;
                let one_time_until_s = one_time_until_s(generated.as_deref());
                let new = NewPassword { hash: &hash, one_time_until_s, earlier: None };
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
            UserChange::Roles(_) | UserChange::Password | UserChange::Remove { .. } => {
                Err(UserError::Unknown(name.to_owned()))
            }
        }
    })
}

/// Passes the clients of `name` to `heir`, or fails without one: their secrets would remain usable, and need an owner.
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
    for_each_client(database, |client| each(&client.id, &client.name, &client.owner))
}

/// Calls `each` with all clients, by id.
///
/// # Errors
/// The database's.
pub(crate) fn for_each_client(
    database: &Database,
    mut each: impl FnMut(&Client),
) -> Result<(), UserError> {
    runtime()?.block_on(async {
        let store = Store::open(database).await?;
        let mut after = String::new();
        loop {
            let page = store.clients(&after, limits::CLIENTS_PAGE_MAX).await?;
            page.iter().for_each(&mut each);
            let Some(last) = page.last() else { break };
            after.clone_from(&last.id);
        }
        store.close().await;
        Ok(())
    })
}

/// A user, as the command line prints them.
#[derive(Debug)]
pub struct ListedUser {
    pub name: String,
    /// Whether the user may register clients.
    pub admin: bool,
    /// Where the user comes from; empty: the database.
    pub source: String,
    /// All but that of administrators.
    pub roles: Vec<String>,
}

/// All users.
///
/// # Errors
/// The store cannot be used.
pub fn list_users(database: &Database) -> Result<Vec<ListedUser>, UserError> {
    runtime()?.block_on(async {
        let store = Store::open(database).await?;
        let users = store.users().await?;
        store.close().await;
        Ok(users.into_iter().map(listed).collect())
    })
}

fn listed(user: User) -> ListedUser {
    let claims = outside::claims(&user);
    let roles = claims.get(ROLES).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let roles = roles.iter().filter_map(Value::as_str).filter(|role| *role != outside::ADMIN);
    let roles = roles.map(str::to_owned).collect();
    ListedUser { name: user.name, admin: user.admin, source: user.source, roles }
}

/// Creates [`ADMIN`] at the first start with this store. Returns the password that was generated.
pub(crate) async fn first_admin(
    store: &Store,
    password: Option<String>,
) -> Result<Option<String>, UserError> {
    if store.has_begun().await? {
        return Ok(None);
    }
    let generated = password.is_none().then(|| secrets::identifier(&SystemEntropy));
    let chosen = password.or_else(|| generated.clone()).unwrap_or_default();
    // Another instance that starts now may have been first: its password counts.
    let one_time_until_s = one_time_until_s(generated.as_deref());
    let user = User { one_time_until_s, ..user(ADMIN, hashed(&chosen)?, true) };
    let added = store.add_first_user(&user).await?;
    Ok(generated.filter(|_| added))
}

fn user(name: &str, password: String, admin: bool) -> User {
    let created_s = SystemClock::new().now().unix_s;
    User { name: name.to_owned(), password, admin, created_s, ..User::default() }
}

/// Until when a password that was generated can be replaced.
fn one_time_until_s(generated: Option<&str>) -> u64 {
    let now_s = SystemClock::new().now().unix_s;
    generated.map_or(0, |_| now_s.saturating_add(limits::ONE_TIME_PASSWORD_S))
}

fn hashed(password: &str) -> Result<String, UserError> {
    passwords::hash(password, &SystemEntropy).ok_or(UserError::Memory)
}

/// The claims of a user with these roles.
fn of_roles(roles: &[String]) -> Result<String, UserError> {
    let claims = if roles.is_empty() { String::new() } else { json!({ ROLES: roles }).to_string() };
    let is_role = |role: &String| is_name(role) && role != outside::ADMIN;
    let is_allowed = roles.iter().all(is_role) && claims.len() <= limits::LIST_BYTES_MAX;
    if is_allowed { Ok(claims) } else { Err(UserError::Roles) }
}
