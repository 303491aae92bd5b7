//! OpenID Connect: ID tokens, `/oauth2/userinfo` and `/oidc/logout`. Source: OpenID Connect Core 1.0, RP-Initiated
//! Logout 1.0.

use aws_lc_rs::digest::{self, SHA256, SHA384, SHA512};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use http::header::AUTHORIZATION;
use http::{HeaderMap, Method, StatusCode};
use jose::Algorithm;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};

use crate::dpop::{DPOP, Subject};
use crate::form::Form;
use crate::keys::ID_TOKEN;
use crate::manager::{Manager, is_name};
use crate::peer::Peer;
use crate::register::is_redirect;
use crate::reply::{Refusal, Reply};
use crate::token::has;
use crate::{inspect, reply};

/// The scope that asks for an ID token. Every client has it, for users.
pub(crate) const OPENID: &str = "openid";

/// How a user signed in.
pub(crate) struct SignIn<'a> {
    /// The nonce of the client's request; may be empty.
    pub(crate) nonce: &'a str,
    /// When, in seconds since the Unix epoch; 0: unknown.
    pub(crate) time_s: u64,
}

/// An ID token that belongs to `access_token`. `family` is that of the tokens, which a logout revokes. Source: OpenID
/// Connect Core 1.0 sections 2 and 3.1.3.6.
pub(crate) fn id_token(
    manager: &Manager,
    (user, client, family): (&str, &str, &str),
    (sign_in, more): (&SignIn<'_>, &Map<String, Value>),
    access_token: &str,
) -> Option<String> {
    let (now_s, keys) = (manager.now_s(), manager.keys());
    let mut claims = json!({
        "iss": manager.issuer,
        "sub": user,
        "aud": client,
        "azp": client,
        "sid": family,
        "iat": now_s,
        "exp": now_s.saturating_add(manager.lifetimes.access_s),
        "at_hash": left_half(keys.algorithm(), access_token),
    });
    if sign_in.time_s > 0 {
        claims["auth_time"] = json!(sign_in.time_s);
    }
    if !sign_in.nonce.is_empty() {
        claims["nonce"] = json!(sign_in.nonce);
    }
    with_more(&mut claims, more);
    keys.sign(ID_TOKEN, &claims)
}

/// Adds the claims `more` of a user, none of which replaces another.
fn with_more(claims: &mut Value, more: &Map<String, Value>) {
    if let Some(claims) = claims.as_object_mut() {
        for (name, value) in more {
            claims.entry(name).or_insert_with(|| value.clone());
        }
    }
}

/// The left half of the hash that belongs to the signature algorithm; SHA-512 for Ed25519.
fn left_half(algorithm: Algorithm, text: &str) -> String {
    let hash = match algorithm {
        Algorithm::Hs256 | Algorithm::Rs256 | Algorithm::Ps256 | Algorithm::Es256 => &SHA256,
        Algorithm::Hs384 | Algorithm::Rs384 | Algorithm::Ps384 | Algorithm::Es384 => &SHA384,
        Algorithm::Hs512
        | Algorithm::Rs512
        | Algorithm::Ps512
        | Algorithm::Es512
        | Algorithm::EdDsa => &SHA512,
    };
    let digest = digest::digest(hash, text.as_bytes());
    let (left, _) = digest.as_ref().split_at(digest.as_ref().len() / 2);
    BASE64_URL_SAFE_NO_PAD.encode(left)
}

/// The claims of the user whose access token is presented.
pub(crate) async fn userinfo(
    manager: &Manager,
    method: &Method,
    head: &HeaderMap,
    peer: &Peer,
) -> Result<Reply, Refusal> {
    let mut fields = head.get_all(AUTHORIZATION).iter();
    let field = fields.next().filter(|_| fields.next().is_none());
    let field = field.and_then(|field| field.to_str().ok()).unwrap_or_default();
    let (scheme, token) = field.split_once(' ').ok_or(Refusal::InvalidToken)?;
    let token = token.trim();
    let has_key = scheme.eq_ignore_ascii_case(DPOP);
    if !has_key && !scheme.eq_ignore_ascii_case("bearer") {
        return Err(Refusal::InvalidToken);
    }
    let claims = inspect::active(manager, token).await?.ok_or(Refusal::InvalidToken)?;
    // Without the scheme, a proof does not count. Source: RFC 9449 section 7.1.
    let client = claims["client_id"].as_str().unwrap_or_default();
    let proof = if has_key {
        let (method, path) = (method.as_str(), "/oauth2/userinfo");
        manager.proof(head, Subject { method, path, token: Some(token) })?
    } else {
        None
    };
    if claims["cnf"]["jkt"].as_str() != proof.as_ref().map(|proof| &*proof.key) {
        return Err(Refusal::InvalidToken);
    }
    if let Some(proof) = &proof {
        manager.spend_proof(proof, client).await?;
    }
    // Source: RFC 8705 section 3.
    let bound = claims["cnf"]["x5t#S256"].as_str();
    if bound.is_some_and(|bound| peer.thumbprint().as_deref() != Some(bound)) {
        return Err(Refusal::InvalidToken);
    }
    let scope = claims["scope"].as_str().unwrap_or_default();
    match claims["username"].as_str() {
        Some(user) if has(scope, OPENID) => {
            let mut body = json!({ "sub": user, "preferred_username": user });
            with_more(&mut body, &manager.claims_of(user).await?);
            Ok(reply::json(StatusCode::OK, &body))
        }
        Some(_) | None => Err(Refusal::InsufficientScope),
    }
}

/// Revokes the refresh token and the opaque access tokens that were issued with the ID token in `id_token_hint`. The
/// browser returns to a redirect URI that its client has registered, or gets a page.
pub(crate) async fn logout(manager: &Manager, form: &Form) -> Result<Reply, Refusal> {
    let signed_out = || reply::message(StatusCode::OK, "You are signed out.");
    let Some(hint) = form.get("id_token_hint") else { return Ok(signed_out()) };
    let claims = manager.keys().verify(hint, ID_TOKEN);
    // It may have expired.
    let ours = claims.filter(|claims| claims["iss"] == *manager.issuer);
    let parts = ours.as_ref().and_then(|claims| {
        Some((claims["sid"].as_str()?, claims["aud"].as_str().filter(|id| is_name(id))?))
    });
    let invalid = Refusal::InvalidRequest("`id_token_hint` is not an ID token of this server");
    let (family, id) = parts.ok_or(invalid)?;
    if form.get("client_id").is_some_and(|other| other != id) {
        return Err(Refusal::InvalidRequest("`id_token_hint` is of another client"));
    }
    manager.store.revoke_family(family).await?;
    let Some(redirect) = form.get("post_logout_redirect_uri") else { return Ok(signed_out()) };
    let client = manager.store.client(id).await?;
    let is_registered = client.is_some_and(|client| has(&client.redirects, redirect));
    if !is_registered || !is_redirect(redirect) {
        let why = "the client has not registered this `post_logout_redirect_uri`";
        return Err(Refusal::InvalidRequest(why));
    }
    let state = form.get("state").map(|state| ("state", state));
    Ok(reply::redirect(&with_parameters(redirect, state)))
}

/// `uri` with more parameters in its query.
pub(crate) fn with_parameters<'a>(
    uri: &str,
    parameters: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> String {
    let mut location = uri.to_owned();
    let mut separator = if location.contains('?') { '&' } else { '?' };
    for (name, value) in parameters {
        location.push(separator);
        location.push_str(name);
        location.push('=');
        location.extend(utf8_percent_encode(value, NON_ALPHANUMERIC));
        separator = '&';
    }
    location
}
