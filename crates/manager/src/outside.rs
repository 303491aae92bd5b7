//! Users whom the key manager knows from elsewhere, such as an LDAP directory or an OpenID Connect provider.
//!
//! With the first sign-in, such a user gets a row in the store, without a password, which names the source. Only this
//! source can sign the user in. The source's data replaces the stored data at each sign-in; a directory is asked again
//! before tokens are renewed.

use model::UserMapping;
use serde_json::{Map, Value};
use store::{NewUser, User};

use crate::attempts::{Who, network};
use crate::ldap::{Directory, DirectoryError};
use crate::manager::{Checked, Manager, is_name};
use crate::peer::Peer;
use crate::reply::Refusal;
use crate::{limits, secrets};

/// The role whose users may register clients.
pub(crate) const ADMIN: &str = "admin";
/// The claim with the roles of a user.
pub(crate) const ROLES: &str = "roles";
/// The name of `[control.ldap]` as a source.
pub(crate) const LDAP: &str = "ldap";

/// A source's data about a user.
pub(crate) struct Profile {
    pub(crate) source: String,
    pub(crate) name: String,
    /// The source's ID of the user, apart from the name; may be empty.
    pub(crate) id: Vec<u8>,
    pub(crate) roles: Vec<String>,
    pub(crate) claims: Map<String, Value>,
}

/// The roles of a user, by the groups for which `is_in` is true.
pub(crate) fn roles_of(mapping: &UserMapping, is_in: impl Fn(&str) -> bool) -> Vec<String> {
    let has = |groups: &[String]| groups.iter().any(|group| is_in(group));
    let roles = mapping.roles.iter().filter(|(_, groups)| has(groups));
    roles.map(|(role, _)| role.clone()).collect()
}

/// The claims of a user, by those of the source.
pub(crate) fn claims_of(
    mapping: &UserMapping,
    value: impl Fn(&str) -> Option<String>,
) -> Map<String, Value> {
    let claims = mapping.claims.iter();
    claims.filter_map(|(name, theirs)| Some((name.clone(), value(theirs)?.into()))).collect()
}

impl Profile {
    fn hashed_id(&self) -> String {
        if self.id.is_empty() { String::new() } else { secrets::hash(&self.id) }
    }

    /// The row of the user. Claims that are too long are left out, so that the roles never are.
    fn user(self, now_s: u64) -> User {
        let source_id = self.hashed_id();
        let roles = Value::from(self.roles.clone());
        let with_roles = |mut claims: Map<String, Value>| {
            if !self.roles.is_empty() {
                claims.insert(ROLES.to_owned(), roles.clone());
            }
            Value::Object(claims).to_string()
        };
        let mut claims = with_roles(self.claims);
        if claims.len() > limits::LIST_BYTES_MAX {
            tracing::warn!(user = self.name, "the claims of a user are too long");
            claims = with_roles(Map::new());
        }
        User {
            admin: self.roles.iter().any(|role| role == ADMIN),
            source_id,
            name: self.name,
            password: String::new(),
            one_time_until_s: 0,
            created_s: now_s,
            source: self.source,
            claims,
        }
    }
}

impl From<DirectoryError> for Refusal {
    fn from(error: DirectoryError) -> Self {
        tracing::error!(%error, "the LDAP directory cannot be used");
        Self::Directory
    }
}

impl Manager {
    /// Whether `password` is that of the user whom `directory` finds as `name`.
    pub(crate) async fn checked_in(
        &self,
        directory: &Directory,
        (name, password): (&str, &str),
        peer: &Peer,
    ) -> Result<Checked, Refusal> {
        let mut connection = directory.open(self.now_s()).await?;
        let Some(found) = connection.find(name).await? else { return Ok(Checked::Wrong(None)) };
        // A directory ignores case and more: guesses count for the user, however the name is written.
        let (user, network) = (found.profile.name.clone(), network(peer.address));
        let who = [Who::Account(&user, network), Who::User(&user)];
        let who = if user == name { &[] } else { who.as_slice() };
        self.begin(who).await?;
        let right = connection.has_password(&found.dn, password).await;
        if !right.inspect_err(|_| self.attempts.withdrawn(who))? {
            self.failed(who).await;
            return Ok(Checked::Wrong(Some(user)));
        }
        self.succeeded(who).await;
        let adopted = self.adopted(found.profile).await?;
        Ok(adopted.map_or(Checked::Wrong(Some(user)), Checked::Right))
    }

    /// The user of `profile`, with a row in the store. `None`: another user has the name, or this user has another
    /// name; the log has the reason.
    pub(crate) async fn adopted(&self, profile: Profile) -> Result<Option<User>, Refusal> {
        let user = profile.user(self.now_s());
        let (name, source) = (&user.name, &user.source);
        // A slash ends the name of a trusted issuer or provider.
        if !is_name(name) || name.contains('/') && source == LDAP {
            tracing::warn!(source, "a user whose name is too long, or has a slash");
            return Ok(None);
        }
        // Again if another instance changes the row meanwhile.
        for _ in 0..3 {
            let Some(known) = self.store.user(name).await? else {
                match self.add(&user).await? {
                    NewUser::Added => {
                        tracing::info!(name, source, "first sign-in of a user");
                        return Ok(Some(user));
                    }
                    NewUser::Known(known) => {
                        tracing::warn!(name, source, known, "a user has another name already");
                        return Ok(None);
                    }
                    NewUser::NameInUse => continue,
                }
            };
            if known.source != *source {
                tracing::warn!(name, source, "there is another user of this name");
                return Ok(None);
            }
            if known.source_id != user.source_id {
                tracing::warn!(name, source, "the name of a user has become that of another one");
                // A directory decides about names; those of a provider are often chosen by its users.
                if source != LDAP {
                    return Ok(None);
                }
                self.store.remove_user(name).await?;
                continue;
            }
            if (known.admin, &known.claims) != (user.admin, &user.claims) {
                self.store.update_user(&user).await?;
            }
            return Ok(Some(User { created_s: known.created_s, ..user }));
        }
        Err(Refusal::Unavailable)
    }

    /// At a provider, a user could take the names of others, before they sign in, by changing the own one. In a
    /// directory, a user who is renamed may get the new name.
    async fn add(&self, user: &User) -> Result<NewUser, Refusal> {
        if user.source != LDAP {
            return Ok(self.store.add_outside_user(user).await?);
        }
        let added = self.store.add_user(user).await?;
        Ok(if added { NewUser::Added } else { NewUser::NameInUse })
    }

    /// The user who had `name` at `time_s`, if they still exist and can sign in.
    pub(crate) async fn user_since(
        &self,
        name: &str,
        time_s: u64,
    ) -> Result<Option<User>, Refusal> {
        let user = self.store.user(name).await?;
        Ok(user.filter(|user| user.created_s <= time_s && self.has_source(user)))
    }

    /// The user who got a token at `time_s`, as [`Self::user_since`]; one of a directory as it describes them now.
    pub(crate) async fn renewed(&self, name: &str, time_s: u64) -> Result<Option<User>, Refusal> {
        let user = self.user_since(name, time_s).await?;
        let Some((user, directory)) = user.as_ref().zip(self.directory.as_ref()) else {
            return Ok(user);
        };
        if user.source != LDAP {
            return Ok(Some(user.clone()));
        }
        let found = directory.open(self.now_s()).await?.find(name).await?;
        let found = found.map(|found| found.profile).filter(|profile| profile.name == name);
        match found {
            Some(profile) if profile.hashed_id() == user.source_id => self.adopted(profile).await,
            Some(_) | None => {
                tracing::info!(name, "a user who is no longer in the LDAP directory");
                self.store.remove_user(name).await?;
                Ok(None)
            }
        }
    }

    /// The claims of the user `name` from its source.
    pub(crate) async fn claims_of(&self, name: &str) -> Result<Map<String, Value>, Refusal> {
        let user = self.store.user(name).await?;
        Ok(user.as_ref().map(claims).unwrap_or_default())
    }

    /// Whether the source of `user` is still configured.
    fn has_source(&self, user: &User) -> bool {
        match user.source.as_str() {
            "" => true,
            LDAP => self.directory.is_some(),
            name => self.provider(name).is_some(),
        }
    }
}

/// The claims of `user`, from the source or, for a user of the store, from the command line: their roles, among them
/// `admin`.
pub(crate) fn claims(user: &User) -> Map<String, Value> {
    let mut claims: Map<String, Value> = serde_json::from_str(&user.claims).unwrap_or_default();
    if user.admin {
        let roles = claims.entry(ROLES).or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(roles) = roles
            && !roles.iter().any(|role| role == ADMIN)
        {
            roles.insert(0, ADMIN.into());
        }
    }
    claims
}
