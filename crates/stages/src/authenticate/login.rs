//! HTTP Basic: the passwords of configured users, and of an issuer's users.
//!
//! A password is verified once, on the threads for heavy work. Afterwards requests are recognised by a keyed hash of
//! the field's value, so that the cache contains no password.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use base::{Now, limits};
use jose::PasswordHash;
use model::{AuthFailure, Caller, CredentialKind, Issuer, TokenType, User};

use super::{Identity, Question, TokenCache, cached, credentials_of, id};

/// The configured users by name.
#[derive(Debug)]
pub struct Users {
    by_name: HashMap<String, User>,
    /// The hash that is verified for an unknown name, so that it takes as long as for a known one.
    stand_in: PasswordHash,
    /// Hash of all users, so that results cached for an earlier set of users are not used.
    fingerprint: [u8; 32],
}

impl Users {
    #[must_use]
    pub fn compile(users: &[User]) -> Arc<Self> {
        let mut all = Vec::new();
        for User { name, password, scopes } in users {
            let texts = [name.as_str(), &password.fingerprint()];
            for text in texts.into_iter().chain(scopes.iter().map(String::as_str)) {
                all.extend_from_slice(&jose::sha256(text.as_bytes()));
            }
            all.extend_from_slice(&scopes.len().to_le_bytes());
        }
        let by_name = users.iter().map(|user| (user.name.clone(), user.clone())).collect();
        let stand_in = PasswordHash::stand_in(users.iter().map(|user| &user.password));
        Arc::new(Self { by_name, stand_in, fingerprint: jose::sha256(&all) })
    }

    /// A number that changes with the users, their passwords and their scopes.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let (words, _) = self.fingerprint.as_chunks::<8>();
        words.first().map_or(0, |word| u64::from_le_bytes(*word))
    }

    /// The user `name`, if known, and the hash to verify the password with.
    #[must_use]
    pub fn find(&self, name: &str) -> (Option<&User>, &PasswordHash) {
        let user = self.by_name.get(name);
        (user, user.map_or(&self.stand_in, |user| &user.password))
    }
}

/// Extracts name and password, in base64, from the value of the credential's header field.
///
/// # Errors
/// [`AuthFailure::UnsupportedScheme`] for another scheme; [`AuthFailure::TokenTooLong`] above
/// `limits::LOGIN_BYTES_MAX`.
///
/// Source: RFC 7617 section 2.
pub fn login(value: &[u8]) -> Result<&[u8], AuthFailure> {
    credentials_of(b"Basic", value, limits::LOGIN_BYTES_MAX)
}

/// Identifies the user of `login` from the cache. If the token of an issuer's user is no longer valid, a new one is
/// requested.
pub fn identify_login(
    cache: &mut TokenCache,
    login: &[u8],
    users: &Users,
    issuers: &[Arc<Issuer>],
    now: Now,
) -> Identity {
    let tag = tag(cache, login, users);
    let key = cache.key(&tag);
    if let Some(caller) = cache.find(key, &tag, issuers, now)
        && let known @ Identity::Known(_) = cached(cache, key, caller, issuers, now)
    {
        return known;
    }
    match cache.refused.has(&tag, now) {
        true => Identity::Rejected(AuthFailure::WrongPassword),
        false => Identity::Ask(Question::Password),
    }
}

/// Caches that `login` was verified as that of `user`; `None` if it is not valid for any user.
///
/// # Errors
/// [`AuthFailure::WrongPassword`].
pub fn conclude_login(
    cache: &mut TokenCache,
    login: &[u8],
    users: &Users,
    user: Option<&User>,
    now: Now,
) -> Result<Rc<Caller>, AuthFailure> {
    let tag = tag(cache, login, users);
    let Some(user) = user else {
        cache.refused.add(&tag, now);
        return Err(AuthFailure::WrongPassword);
    };
    let caller = Rc::new(Caller {
        subject: Some(user.name.clone()),
        scopes: user.scopes.clone(),
        kind: CredentialKind::Login,
        token_type: TokenType::ApplicationUser,
        ..Caller::default()
    });
    cache.insert(&tag, &caller, None, limits::TOKEN_CACHE_S_MAX, now);
    Ok(caller)
}

/// Caches that `login` belongs to an issuer's user. `caller` is the caller of `token`, which the issuer has issued for
/// it.
///
/// # Errors
/// [`AuthFailure::UnknownIssuer`].
pub fn conclude_issued(
    cache: &mut TokenCache,
    (login, token): (&[u8], &[u8]),
    users: &Users,
    (issuers, caller): (&[Arc<Issuer>], &Caller),
    now: Now,
) -> Result<Rc<Caller>, AuthFailure> {
    let issuer = caller.issuer.and_then(|number| issuers.get(number));
    let issuer = issuer.ok_or(AuthFailure::UnknownIssuer)?;
    let id = id(issuer, caller, token);
    let caller = Rc::new(Caller {
        kind: CredentialKind::Login,
        // Like a configured user, the caller has no application.
        subscriptions: None,
        application_key: 0,
        client_id: None,
        // The client does not present the token, so it need not prove a key.
        confirmation: None,
        ..caller.clone()
    });
    let tag = tag(cache, login, users);
    cache.insert(&tag, &caller, Some((issuer, id)), limits::TOKEN_CACHE_S_MAX, now);
    Ok(caller)
}

fn tag(cache: &TokenCache, login: &[u8], users: &Users) -> [u8; 16] {
    cache.tag(login, users.fingerprint())
}
