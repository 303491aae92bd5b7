//! `/oauth2/token`: issues tokens. Source: RFC 6749 sections 4.1.3, 4.3, 4.4 and 6; RFC 9068.

use std::ops::Deref;

use http::{HeaderMap, StatusCode};
use serde_json::{Map, Value, json};
use store::{Client, Rotation, Token, TokenKind, TokenType, User};

use crate::dpop::{DPOP, Proven, Subject};
use crate::form::Form;
use crate::keys::ACCESS_TOKEN;
use crate::manager::Manager;
use crate::oidc::{OPENID, SignIn};
use crate::outside::ROLES;
use crate::peer::Peer;
use crate::reply::{ONE_TIME_PASSWORD, Refusal, Reply};
use crate::{bearer, device, dpop, exchange, limits, oidc, outside, reply, secrets};

/// The grant types, as registered and in the discovery document.
pub(crate) const GRANTS: &[&str] = &[
    "authorization_code",
    "client_credentials",
    "password",
    "refresh_token",
    bearer::GRANT,
    device::GRANT,
    exchange::GRANT,
];
/// The scope of a token that asked for none, or for none that its client has. Source: WSO2's default.
const DEFAULT_SCOPE: &str = "default";

/// A client that has authenticated, or is public.
pub(crate) struct Requester {
    client: Client,
    /// The certificate that its tokens are bound to.
    thumbprint: Option<String>,
    /// The proof of the key that they are bound to.
    proof: Option<Proven>,
}

impl Requester {
    fn key(&self) -> Option<&str> {
        self.proof.as_ref().map(|proof| proof.key.as_str())
    }

    /// Whether it has proven to have the key that a code or refresh token is bound to, if any.
    fn has_key_of(&self, presented: &str) -> bool {
        dpop::key_of(presented).is_none_or(|key| self.key() == Some(key))
    }

    /// Binds its tokens to the key or certificate in `cnf` of another token. False: it has not proven to have that one,
    /// or its tokens cannot be bound to it.
    pub(crate) fn bind_as(&mut self, confirmation: &Value, peer: &Peer) -> bool {
        match (confirmation["jkt"].as_str(), confirmation["x5t#S256"].as_str()) {
            (Some(key), None) => self.key() == Some(key),
            (None, Some(thumbprint)) => {
                self.thumbprint = peer.thumbprint();
                // An opaque token has no place for a certificate, and a token is bound to one thing only.
                let can_be_bound = self.token_type == TokenType::Jwt && self.proof.is_none();
                can_be_bound && self.thumbprint.as_deref() == Some(thumbprint)
            }
            (None, None) => confirmation.is_null(),
            (Some(_), Some(_)) => false,
        }
    }
}

impl Deref for Requester {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

/// For whom tokens are issued.
pub(crate) struct Grant<'a> {
    client: &'a Requester,
    /// The user; `None`: the client itself.
    user: Option<&'a str>,
    pub(crate) scope: String,
    /// The family of an earlier token; `None`: a new one.
    pub(crate) family: Option<&'a str>,
    pub(crate) with_refresh: bool,
    /// For the ID token; `None`: there is none.
    pub(crate) sign_in: Option<SignIn<'a>>,
    /// The claims of the user from its source.
    pub(crate) claims: Map<String, Value>,
    /// Lifetime of the access token, in seconds.
    pub(crate) access_s: u64,
}

impl<'a> Grant<'a> {
    pub(crate) fn new(
        manager: &Manager,
        client: &'a Requester,
        user: Option<&'a str>,
        scope: String,
    ) -> Self {
        Self {
            client,
            user,
            scope,
            family: None,
            with_refresh: false,
            sign_in: None,
            claims: Map::new(),
            access_s: manager.lifetimes.access_s,
        }
    }
}

/// Result of a grant: the rows to store, and the response.
pub(crate) struct Issued {
    pub(crate) rows: Vec<Token>,
    pub(crate) body: Value,
}

pub(crate) async fn answer(
    manager: &Manager,
    head: &HeaderMap,
    form: &Form,
    peer: &Peer,
) -> Result<Reply, Refusal> {
    let grant_type = form.required("grant_type", "`grant_type` is missing")?;
    let client = manager.client_or_public(head, form, peer).await?;
    if !GRANTS.contains(&grant_type) {
        return Err(Refusal::UnsupportedGrant(grant_type.to_owned()));
    }
    if !has(&client.grants, grant_type) {
        return Err(Refusal::UnauthorizedClient);
    }
    let thumbprint = manager.binding(&client, peer)?;
    let subject = Subject { method: "POST", path: "/oauth2/token", token: None };
    let proof = manager.proof(head, subject)?;
    if proof.is_some() && thumbprint.is_some() {
        let why = "the client's tokens are bound to its certificate, and cannot be to a key, too";
        return Err(Refusal::InvalidRequest(why));
    }
    let client = Requester { client, thumbprint, proof };
    let body = match grant_type {
        "authorization_code" => code(manager, &client, form).await?,
        "refresh_token" => refresh(manager, &client, form).await?,
        "password" => password(manager, &client, form, peer).await?,
        bearer::GRANT => bearer::exchange(manager, &client, form).await?,
        device::GRANT => device::poll(manager, &client, form).await?,
        exchange::GRANT => exchange::exchange(manager, client, form, peer).await?,
        _ => client_credentials(manager, &client, form).await?,
    };
    Ok(reply::json(StatusCode::OK, &body))
}

async fn client_credentials(
    manager: &Manager,
    client: &Requester,
    form: &Form,
) -> Result<Value, Refusal> {
    let scope = granted(form.get("scope"), &client.scopes, None);
    stored(manager, issue(manager, Grant::new(manager, client, None, scope)).await?, None).await
}

async fn password(
    manager: &Manager,
    client: &Requester,
    form: &Form,
    peer: &Peer,
) -> Result<Value, Refusal> {
    const WRONG: Refusal = Refusal::InvalidGrant("unknown user or wrong password");
    let user = form.required("username", "`username` is missing")?;
    let password = form.required("password", "`password` is missing")?;
    let user = match manager.signed_in(user, password, peer).await {
        Err(Refusal::OneTimePassword) => return Err(Refusal::InvalidGrant(ONE_TIME_PASSWORD)),
        user => user?.ok_or(WRONG)?,
    };
    let scope = granted(form.get("scope"), &client.scopes, Some(OPENID));
    let mut grant = Grant::new(manager, client, Some(&user.name), scope);
    grant.claims = outside::claims(&user);
    grant.with_refresh = has(&client.grants, "refresh_token");
    grant.sign_in = Some(SignIn { nonce: "", time_s: manager.now_s() });
    stored(manager, issue(manager, grant).await?, Some(&user)).await
}

/// Exchanges an authorisation code. A code that was exchanged before revokes its tokens, but only if the request is
/// right otherwise, so that no other client can revoke them. Source: RFC 7636 section 4.6, RFC 9700 section 4.5.3.1.
async fn code(manager: &Manager, client: &Requester, form: &Form) -> Result<Value, Refusal> {
    const WRONG: Refusal = Refusal::InvalidGrant("the code is not valid");
    let presented = form.required("code", "`code` is missing")?;
    let redirect = form.required("redirect_uri", "`redirect_uri` is missing")?;
    let verifier = form.required("code_verifier", "`code_verifier` is missing")?;
    if !client.has_key_of(presented) {
        return Err(WRONG);
    }
    let code = manager.store.code(&secrets::hash(presented), &client.id).await?.ok_or(WRONG)?;
    if code.redirect != redirect || !secrets::matches(verifier, &code.challenge) {
        return Err(WRONG);
    }
    let time_s = code.expires_s.saturating_sub(limits::CODE_S);
    let valid = code.expires_s > manager.now_s();
    let user = manager.user_since(&code.subject, time_s).await?.filter(|_| valid);
    let mut grant = Grant::new(manager, client, Some(&code.subject), code.scope.clone());
    grant.claims = user.as_ref().map(outside::claims).unwrap_or_default();
    grant.family = Some(&code.family);
    grant.with_refresh = has(&client.grants, "refresh_token");
    grant.sign_in = Some(SignIn { nonce: &code.nonce, time_s: code.auth_s });
    // An expired one is spent too, since it may have been exchanged before.
    let issued = if user.is_some() { Some(issue(manager, grant).await?) } else { None };
    let rows = issued.as_ref().map_or(&[][..], |issued| &issued.rows);
    if manager.store.exchange(&code, rows).await? == Rotation::Reused {
        tracing::warn!(client = client.id, "a code was used twice; its tokens are revoked");
        return Err(WRONG);
    }
    issued.map(|issued| issued.body).ok_or(WRONG)
}

/// Exchanges a refresh token. One that was exchanged before revokes its whole family. Source: RFC 9700 section 4.14.2.
async fn refresh(manager: &Manager, client: &Requester, form: &Form) -> Result<Value, Refusal> {
    const WRONG: Refusal = Refusal::InvalidGrant("the refresh token is not valid");
    let presented = form.required("refresh_token", "`refresh_token` is missing")?;
    if !client.has_key_of(presented) {
        return Err(WRONG);
    }
    let old = manager.store.token(&secrets::hash(presented)).await?;
    let usable = |token: &Token| {
        token.kind == TokenKind::Refresh
            && token.client == client.id
            && token.expires_s > manager.now_s()
    };
    let old = old.filter(usable).ok_or(WRONG)?;
    let scope = narrowed(form.get("scope"), &old.scope, client)?;
    let user = manager.renewed(&old.subject, old.issued_s).await?.ok_or(WRONG)?;
    let mut grant = Grant::new(manager, client, Some(&old.subject), scope);
    grant.claims = outside::claims(&user);
    grant.family = Some(&old.family);
    grant.with_refresh = true;
    let is_provided = manager.provider(&user.source).is_some();
    if is_provided {
        // A provider is not asked again: its user has to sign in there after a while.
        let left_s = old.expires_s.saturating_sub(manager.now_s());
        grant.access_s = grant.access_s.min(left_s);
    }
    let mut issued = issue(manager, grant).await?;
    for row in issued.rows.iter_mut().filter(|row| row.kind == TokenKind::Refresh) {
        if is_provided {
            row.expires_s = row.expires_s.min(old.expires_s);
        }
        // A narrower access token does not narrow the grant. Source: RFC 6749 section 6.
        row.scope.clone_from(&old.scope);
    }
    match manager.store.rotate(&old, &issued.rows).await? {
        Rotation::Rotated => Ok(issued.body),
        Rotation::Reused => {
            tracing::warn!(
                client = client.id,
                "a refresh token was used twice; its family is revoked"
            );
            Err(WRONG)
        }
    }
}

/// Stores the issued tokens. `user`: their user, as of the authentication.
pub(crate) async fn stored(
    manager: &Manager,
    issued: Issued,
    user: Option<&User>,
) -> Result<Value, Refusal> {
    const CHANGED: Refusal = Refusal::InvalidGrant("the user has just changed");
    if !issued.rows.is_empty() && !manager.store.add_tokens(&issued.rows, user).await? {
        return Err(CHANGED);
    }
    Ok(issued.body)
}

/// Issues tokens for a grant of which everything but the use of its proof was checked.
pub(crate) async fn issue(manager: &Manager, mut grant: Grant<'_>) -> Result<Issued, Refusal> {
    if grant.user.is_some() {
        grant.scope = for_roles(&manager.scopes, grant.scope, grant.claims.get(ROLES));
    }
    let grant = &grant;
    if let Some(proof) = &grant.client.proof {
        manager.spend_proof(proof, &grant.client.id).await?;
    }
    let now_s = manager.now_s();
    let family = match grant.family {
        Some(family) => family.to_owned(),
        None => secrets::identifier(manager.entropy()),
    };
    let subject = grant.user.unwrap_or(&grant.client.id);
    let row = |secret: &str, kind, lifetime_s: u64| Token {
        hash: secrets::hash(secret),
        kind,
        family: family.clone(),
        client: grant.client.id.clone(),
        subject: subject.to_owned(),
        scope: grant.scope.clone(),
        issued_s: now_s,
        expires_s: now_s.saturating_add(lifetime_s),
        spent: false,
    };
    let mut rows = Vec::new();
    let key = grant.client.key();
    let access = match grant.client.token_type {
        TokenType::Jwt => {
            let jti = secrets::identifier(manager.entropy());
            if grant.user.is_some() {
                // So that it is revoked together with the user's other tokens.
                rows.push(row(&jti, TokenKind::Jwt, grant.access_s));
            }
            manager.keys().sign(ACCESS_TOKEN, &claims(manager, grant, now_s, &jti))
        }
        TokenType::Opaque => {
            let token = dpop::bound(secrets::secret(manager.entropy()), key);
            rows.push(row(&token, TokenKind::Access, grant.access_s));
            Some(token)
        }
    };
    let access = access.ok_or(Refusal::Unavailable)?;
    let mut body = json!({
        "access_token": access,
        "scope": grant.scope,
        "token_type": if key.is_some() { DPOP } else { "Bearer" },
        "expires_in": grant.access_s,
    });
    if let (Some(user), Some(sign_in)) = (grant.user, &grant.sign_in)
        && has(&grant.scope, OPENID)
    {
        let whose = (user, grant.client.id.as_str(), family.as_str());
        let token = oidc::id_token(manager, whose, (sign_in, &grant.claims), &access);
        body["id_token"] = Value::String(token.ok_or(Refusal::Unavailable)?);
    }
    if grant.with_refresh {
        // Nothing else protects that of a public client. Source: RFC 9449 section 5.
        let key = key.filter(|_| grant.client.is_public());
        let token = dpop::bound(secrets::secret(manager.entropy()), key);
        rows.push(row(&token, TokenKind::Refresh, manager.lifetimes.refresh_s));
        body["refresh_token"] = Value::String(token);
    }
    if !rows.is_empty() {
        let count = u64::try_from(rows.len()).unwrap_or(u64::MAX);
        manager.admit_rows(&grant.client.id, count)?;
    }
    Ok(Issued { rows, body })
}

/// The claims of WSO2's access tokens.
fn claims(manager: &Manager, grant: &Grant<'_>, now_s: u64, jti: &str) -> Value {
    let id = &grant.client.id;
    let mut claims = json!({
        "sub": grant.user.unwrap_or(id),
        "aut": authorised(grant.user.is_some()),
        "aud": id,
        "azp": id,
        "client_id": id,
        "scope": grant.scope,
        "iss": manager.issuer,
        "nbf": not_before(now_s),
        "iat": now_s,
        "exp": now_s.saturating_add(grant.access_s),
        "jti": jti,
    });
    let names = manager.access_token_claims.iter().map(String::as_str);
    for name in names.chain([ROLES]) {
        if let Some(value) = grant.claims.get(name) {
            claims[name] = value.clone();
        }
    }
    if let Some(thumbprint) = &grant.client.thumbprint {
        claims["cnf"] = json!({ "x5t#S256": thumbprint });
    }
    if let Some(key) = grant.client.key() {
        claims["cnf"] = json!({ "jkt": key });
    }
    claims
}

/// The claim `nbf` of a token that is issued at `issued_s`: in the past, for the clocks of others that are behind.
pub(crate) fn not_before(issued_s: u64) -> u64 {
    issued_s.saturating_sub(limits::SKEW_S)
}

/// The claim `aut`: whether a user or the application itself authorised the token.
pub(crate) fn authorised(by_user: bool) -> &'static str {
    if by_user { "APPLICATION_USER" } else { "APPLICATION" }
}

/// The requested scopes that are registered, and `more` if it is requested.
pub(crate) fn granted(requested: Option<&str>, registered: &str, more: Option<&str>) -> String {
    let requested = requested.unwrap_or_default().split(' ').filter(|scope| !scope.is_empty());
    let mut scopes: Vec<&str> = Vec::new();
    for scope in requested.filter(|scope| has(registered, scope) || more == Some(scope)) {
        if !scopes.contains(&scope) {
            scopes.push(scope);
        }
    }
    if scopes.is_empty() { DEFAULT_SCOPE.to_owned() } else { scopes.join(" ") }
}

/// The scopes of `scope` that a user with `roles` may have. `bound`: scopes, each with the roles of which one is
/// needed.
fn for_roles(bound: &[(String, Vec<String>)], scope: String, roles: Option<&Value>) -> String {
    let roles = roles.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let has_role = |wanted: &String| roles.iter().any(|role| role.as_str() == Some(wanted));
    let is_granted = |scope: &&str| {
        let bound = bound.iter().find(|(name, _)| name == scope);
        bound.is_none_or(|(_, wanted)| wanted.iter().any(has_role))
    };
    let granted: Vec<&str> = scope.split(' ').filter(is_granted).collect();
    if granted.is_empty() { DEFAULT_SCOPE.to_owned() } else { granted.join(" ") }
}

/// The requested scopes, or all, of an earlier token of a user; without those that `client` no longer has.
pub(crate) fn narrowed(
    requested: Option<&str>,
    earlier: &str,
    client: &Client,
) -> Result<String, Refusal> {
    let requested = requested.unwrap_or(earlier);
    if requested.split(' ').any(|scope| !scope.is_empty() && !has(earlier, scope)) {
        return Err(Refusal::Other(
            "invalid_scope",
            "a scope that the earlier token does not have",
        ));
    }
    Ok(granted(Some(requested), &client.scopes, Some(OPENID)))
}

/// Whether `list`, separated by spaces, has `item`.
pub(crate) fn has(list: &str, item: &str) -> bool {
    list.split(' ').any(|other| other == item)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_registered_scopes_are_granted() {
        check(None, "a b", "default");
        check(Some("a"), "a b", "a");
        check(Some("b a b"), "a b", "b a");
        check(Some("c"), "a b", "default");
        check(Some("a c"), "a b", "a");
        check(Some(""), "", "default");
    }

    #[track_caller]
    fn check(requested: Option<&str>, registered: &str, expect: &str) {
        assert_eq!(granted(requested, registered, None), expect);
    }
}
