//! Requests of the gateway to the provider of a login, as its client.

use std::rc::Rc;
use std::sync::Arc;

use base::limits::{INTROSPECTION_BYTES_MAX, LOGIN_MS_MAX};
use jose::{IssuedTokens, SignInEndpoints};
use percent_encoding::percent_encode;
use stages::sign_in::Session;

use crate::forward::document::{self, Bounds, Content};
use crate::message::Repetition;
use crate::own_requests::fetch::{self, FORM};
use crate::own_requests::form_post::{self, Form, Problem};
use crate::worker::Worker;
use crate::worker::compiled::Compiled;
use crate::worker::sessions::{Provider, Renewal};

/// The endpoints of the provider. `None`: they cannot be discovered now, which is logged.
pub(super) async fn endpoints(
    worker: &Worker,
    revision: &Compiled,
    provider: &Provider,
) -> Option<Rc<SignInEndpoints>> {
    if let Some(endpoints) = &provider.login.endpoints {
        return Some(Rc::new(endpoints.clone()));
    }
    let issuer = &provider.login.issuer;
    let known = || worker.sign_ins.endpoints(issuer, worker.resources.now_us());
    if let Some(known) = known() {
        return known;
    }
    let turn = worker.sign_ins.turn(issuer);
    let _turn = turn.lock().await;
    if let Some(known) = known() {
        return known;
    }
    let found = discover(worker, revision, issuer).await;
    let found = found.map_err(|problem| {
        tracing::warn!(login = provider.login.name, problem, "the provider cannot be discovered");
    });
    let found = found.ok().map(Rc::new);
    worker.sign_ins.discovered(issuer, found.clone(), worker.resources.now_us());
    found
}

/// Source: OpenID Connect Discovery section 4.
async fn discover(
    worker: &Worker,
    revision: &Compiled,
    issuer: &str,
) -> Result<SignInEndpoints, String> {
    let url = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
    let (endpoint, target) = document::endpoint(&url)?;
    let own = (&worker.resources, &worker.pools);
    let bounds = Bounds { bytes_max: INTROSPECTION_BYTES_MAX, total_ms: LOGIN_MS_MAX };
    let tls = &revision.live.client_tls;
    let fetched = fetch::within(own, endpoint, (&target, &Content::default()), tls, bounds).await;
    let fetched = fetched.map_err(|error| error.to_string())?;
    if fetched.status != 200 {
        return Err(format!("the server responded with status {}", fetched.status));
    }
    jose::sign_in_endpoints(&fetched.body, issuer)
}

/// The tokens for a code. `has_iss`: whether the browser has brought the provider's `iss`, too.
pub(super) async fn redeem(
    worker: &Worker,
    revision: &Compiled,
    provider: &Provider,
    (code, verifier, redirect_uri): (&[u8], &str, &str),
    has_iss: bool,
) -> Result<IssuedTokens, Problem> {
    let endpoints = endpoints(worker, revision, provider).await;
    // Source: RFC 9207 section 2.4.
    if endpoints.is_some_and(|found| found.sends_iss) && !has_iss {
        return Err(Problem::Other("the response has no `iss`".to_owned()));
    }
    let text = format!(
        "grant_type=authorization_code&code={}&redirect_uri={}&code_verifier={}",
        percent_encode(code, FORM),
        percent_encode(redirect_uri.as_bytes(), FORM),
        percent_encode(verifier.as_bytes(), FORM),
    );
    issued(worker, revision, provider, &text).await
}

/// The session with new tokens.
pub(super) async fn renew(
    worker: &Worker,
    revision: &Compiled,
    login: &str,
    session: &Session,
) -> Renewal {
    let Some(provider) = revision.live.logins.find(login.as_bytes()) else {
        return Renewal::Refused;
    };
    let refresh_token = session.refresh_token.as_deref().unwrap_or_default();
    let refresh_token = percent_encode(refresh_token.as_bytes(), FORM);
    let text = format!("grant_type=refresh_token&refresh_token={refresh_token}");
    match issued(worker, revision, provider, &text).await {
        Ok(issued) => Renewal::Renewed(Arc::new(session.renewed(issued, worker.resources.exact()))),
        // `invalid_grant`. Source: RFC 6749 section 5.2.
        Err(Problem::Grant | Problem::Status(400)) => Renewal::Refused,
        Err(problem) => {
            tracing::warn!(login, %problem, "a session could not be renewed");
            Renewal::Failed
        }
    }
}

/// Revokes the refresh token of a session at a provider that can do that, so that a copy of its cookies is not renewed.
/// Source: RFC 7009.
pub(super) async fn revoke(
    worker: &Worker,
    revision: &Compiled,
    (provider, endpoints): (&Provider, &SignInEndpoints),
    session: &Session,
) {
    let (Some(url), Some(refresh_token)) = (&endpoints.revoke, &session.refresh_token) else {
        return;
    };
    let login = &provider.login;
    let refresh_token = percent_encode(refresh_token.as_bytes(), FORM);
    let form = Form {
        url,
        client: Some((&login.client_id, &login.client_secret)),
        sender: None,
        text: &format!("token={refresh_token}&token_type_hint=refresh_token"),
        // A token that is unknown by then counts as revoked. Source: RFC 7009 section 2.2.
        repetition: Repetition::Harmless,
        bytes_max: INTROSPECTION_BYTES_MAX,
        total_ms: LOGIN_MS_MAX,
    };
    if let Err(problem) = form_post::send(worker, revision, &form).await {
        tracing::warn!(login = login.name, %problem, "a refresh token could not be revoked");
    }
}

async fn issued(
    worker: &Worker,
    revision: &Compiled,
    provider: &Provider,
    text: &str,
) -> Result<IssuedTokens, Problem> {
    let endpoints = endpoints(worker, revision, provider).await;
    let endpoints =
        endpoints.ok_or(Problem::Unreachable("its endpoints are unknown".to_owned()))?;
    let login = &provider.login;
    let form = Form {
        url: &endpoints.token,
        client: Some((&login.client_id, &login.client_secret)),
        sender: None,
        text,
        // Servers revoke the tokens of a code or a refresh token that is presented again.
        repetition: Repetition::SingleUse,
        bytes_max: INTROSPECTION_BYTES_MAX,
        total_ms: LOGIN_MS_MAX,
    };
    let response = form_post::send(worker, revision, &form).await?;
    jose::issued_tokens(&response).map_err(|error| Problem::Other(error.to_string()))
}
