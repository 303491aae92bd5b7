//! Authentication of the gateway at upstreams.
//!
//! Life of a request: mediate -> **authenticate at the upstream, and forward**. Most endpoint sets need nothing. A
//! token of an OAuth2 server is asked for once, however many requests wait for it, and used by the worker until shortly
//! before it expires, or until an endpoint rejects it.

use std::rc::Rc;
use std::sync::Arc;

use base::limits::{
    BACKEND_TOKEN_MARGIN_S, BACKEND_TOKEN_MS_MAX, BACKEND_TOKEN_PAUSE_S, BACKEND_TOKEN_S,
    BACKEND_TOKEN_S_MAX, INTROSPECTION_BYTES_MAX, TOKEN_BYTES_MAX,
};
use jose::DigestLogin;
use model::{AwsCredential, BackendClient, BackendGrant, Fault};
use percent_encoding::percent_encode;
use wire::http1::BodyFraming;

use super::aws::{self, Signed};
use super::digest;
use crate::body::request_body::{RequestBody, Unwanted, while_wanted};
use crate::forward::credential::{Credential, OfSet};
use crate::forward::{self, Balancer, Forwarding, UpstreamResponse};
use crate::message::{HeadEdits, Outgoing, Repetition};
use crate::own_requests::fetch::FORM;
use crate::own_requests::form_post::{self, Form};
use crate::worker::Worker;
use crate::worker::ask::{Asked, Question};
use crate::worker::compiled::Compiled;

/// The credential for the endpoints of `balancer`. `None`: they need none.
///
/// # Errors
/// None is configured any more: the request is not sent without it.
fn credential<'a>(
    revision: &'a Compiled,
    balancer: &'a Balancer,
) -> Result<Option<&'a Arc<Credential>>, Box<Fault>> {
    match &balancer.credential {
        None => Ok(None),
        Some(OfSet::Own(credential)) => Ok(Some(credential)),
        Some(OfSet::Named(name)) => {
            let found = revision.live.credentials.get(name);
            found.map(Some).ok_or_else(|| fault("the credential is no longer configured"))
        }
    }
}

/// Sends a request with the credential for its endpoints, in place of the client's value in the same field.
///
/// # Errors
/// [`Fault`] 303003: there is none; or any of the upstream or the client.
pub(crate) async fn forward<B: RequestBody>(
    worker: &Worker,
    revision: &Compiled,
    forwarding: &Forwarding<'_>,
    outgoing: &Outgoing<'_>,
    body: &mut B,
) -> Result<UpstreamResponse, Box<Fault>> {
    let credential = credential(revision, forwarding.balancer)?;
    let mut own = None;
    if let Some(credential) = credential {
        if let Credential::Digest { username, password } = &**credential {
            let login = DigestLogin { username, password };
            let of = (worker, revision);
            let sent = digest::exchange(of, forwarding, outgoing, (credential, login), body);
            // Boxed, so that it does not enlarge every future.
            return Box::pin(sent).await;
        }
        let mut edits = worker.resources.edits();
        (*edits).clone_from(outgoing.edits);
        write(worker, credential, forwarding.balancer, (outgoing, &mut *edits), body).await?;
        own = Some(edits);
    }
    let changed;
    let sent = match &own {
        Some(edits) => {
            changed = Outgoing { edits, query: edits.query(outgoing.query), ..*outgoing };
            &changed
        }
        None => outgoing,
    };
    let response = forward::exchange(&worker.resources, forwarding, sent, body).await;
    if let Some(edits) = own {
        worker.resources.release_edits(edits);
    }
    if let (Some(credential), Ok(response)) = (credential, &response)
        && response.head.status() == 401
    {
        // Forgotten, so that another token is asked for.
        worker.backend_tokens.reject(credential, worker.resources.coarse_us());
    }
    response
}

/// Adds the credential to the changes of a request.
async fn write<B: RequestBody>(
    worker: &Worker,
    credential: &Arc<Credential>,
    balancer: &Balancer,
    (outgoing, edits): (&Outgoing<'_>, &mut HeadEdits),
    body: &mut B,
) -> Result<(), Box<Fault>> {
    match &**credential {
        Credential::Field { name, value } => set(edits, name, value),
        Credential::Parameter { name, pair } => {
            let known = outgoing.query.unwrap_or_default();
            let new = edits.new_query();
            for other in known.split(|byte| *byte == b'&').filter(|other| !other.is_empty()) {
                if !is_named(other, name) {
                    new.extend_from_slice(other);
                    new.push(b'&');
                }
            }
            new.extend_from_slice(pair.as_bytes());
        }
        Credential::Token(client) => {
            let known = worker.backend_tokens.find(credential, worker.resources.coarse_us());
            let value = match known {
                Some(known) => known.ok_or_else(no_token)?,
                // Boxed, so that the rare case does not enlarge every future.
                None => Box::pin(token(worker, (credential, client), body)).await?,
            };
            set(edits, b"Authorization", value.as_bytes());
        }
        Credential::Unread => return Err(fault("its secret has not been read from Vault yet")),
        Credential::Aws(key) => sign(worker, key, balancer, (outgoing, edits), body.held())?,
        // It is sent by the module of that name.
        Credential::Digest { .. } => {}
    }
    Ok(())
}

/// Signs a request for its only endpoint. `X-Amz-*` fields of the client are removed, so that they are not sent with
/// the gateway's signature. A body that is not held is not part of it.
///
/// # Errors
/// There are several endpoints.
fn sign(
    worker: &Worker,
    key: &AwsCredential,
    balancer: &Balancer,
    (outgoing, edits): (&Outgoing<'_>, &mut HeadEdits),
    body: Option<&[u8]>,
) -> Result<(), Box<Fault>> {
    const PREFIX: &[u8] = b"x-amz-";
    let [endpoint] = balancer.endpoints.as_slice() else {
        return Err(fault("a signature is for one endpoint"));
    };
    for field in outgoing.fields {
        let name = field.name.of(outgoing.bytes);
        if name.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX)) {
            edits.remove(name);
        }
    }
    let date = aws::date(worker.resources.exact().unix_s);
    let payload = match body {
        Some(body) => aws::payload(body),
        None => match outgoing.framing {
            BodyFraming::None | BodyFraming::Length(0) => aws::payload(b""),
            BodyFraming::Length(_) | BodyFraming::Chunked => "UNSIGNED-PAYLOAD".to_owned(),
        },
    };
    let host = outgoing.authority.unwrap_or(endpoint.config.authority.as_bytes());
    let mut fields = vec![
        ("host", host),
        ("x-amz-content-sha256", payload.as_bytes()),
        ("x-amz-date", date.as_bytes()),
    ];
    fields
        .extend(key.session_token.as_ref().map(|token| ("x-amz-security-token", token.as_slice())));
    for (name, value) in fields.iter().skip(1) {
        set(edits, name.as_bytes(), value);
    }
    let path = [endpoint.config.path.as_bytes(), outgoing.path].concat();
    let signed = Signed {
        method: outgoing.method_name,
        path: if path.is_empty() { b"/" } else { &path },
        query: outgoing.query.unwrap_or_default(),
        fields: &fields,
        payload: &payload,
    };
    let value = aws::authorization(key, &date, &signed);
    set(edits, b"Authorization", value.as_bytes());
    Ok(())
}

fn set(edits: &mut HeadEdits, name: &[u8], value: &[u8]) {
    edits.remove(name);
    edits.append(name, value);
}

/// Whether a parameter of the query has this name, which may be escaped.
fn is_named(pair: &[u8], name: &str) -> bool {
    let found = pair.split(|byte| *byte == b'=').next().unwrap_or_default();
    percent_encoding::percent_decode(found).eq(name.bytes())
}

fn fault(reason: &str) -> Box<Fault> {
    Fault::Mediation { code: 303_003, reason: reason.to_owned() }.into()
}

/// The value of `Authorization`, as soon as there is one.
async fn token<B: RequestBody>(
    worker: &Worker,
    (credential, client): (&Arc<Credential>, &BackendClient),
    body: &mut B,
) -> Result<Rc<str>, Box<Fault>> {
    let now_us = worker.resources.coarse_us();
    let question = Question::BackendToken { credential: Arc::as_ptr(credential).addr() };
    let asked = worker.questions.find(&question, now_us).unwrap_or_else(|| {
        let asked = worker.questions.begin(question, now_us, u64::MAX);
        let asking = Asking {
            worker: worker.this(),
            asked: Rc::clone(&asked),
            credential: Arc::clone(credential),
            got: None,
        };
        crate::tasks::spawn(run(asking, client.clone()));
        asked
    });
    // Asking has a limit of its own, which is shorter.
    body.watch().set(worker.resources.deadline_us(BACKEND_TOKEN_MS_MAX.saturating_mul(2)));
    match while_wanted(body, asked.answer()).await {
        Ok(_) | Err(Unwanted::TimeUp) => {}
        Err(Unwanted::Left(fault)) => return Err(fault),
    }
    let found = worker.backend_tokens.find(credential, worker.resources.coarse_us());
    found.flatten().ok_or_else(no_token)
}

fn no_token() -> Box<Fault> {
    fault("the server issued no token")
}

/// Wakes those who wait when it is dropped, even by a panic.
struct Asking {
    worker: Rc<Worker>,
    asked: Rc<Asked>,
    credential: Arc<Credential>,
    /// The token, and for how long it is used, in seconds.
    got: Option<(Rc<str>, u64)>,
}

impl Drop for Asking {
    fn drop(&mut self) {
        let (value, valid_s) = match self.got.take() {
            Some((value, valid_s)) => (Some(value), valid_s),
            None => (None, BACKEND_TOKEN_PAUSE_S),
        };
        let now_us = self.worker.resources.coarse_us();
        self.worker.backend_tokens.insert(&self.credential, value, (now_us, valid_s));
        self.worker.questions.answer(&self.asked, None);
    }
}

async fn run(mut asking: Asking, client: BackendClient) {
    let worker = Rc::clone(&asking.worker);
    let revision = worker.compiled();
    let busy = worker.busy();
    match ask(&worker, &revision, &client).await {
        Ok(got) => asking.got = Some(got),
        Err(problem) => {
            tracing::warn!(url = client.token_url, problem, "no token for an upstream");
        }
    }
    drop(asking);
    drop(busy);
    worker.notice_the_end();
}

/// The value of `Authorization`, and for how long it is used, in seconds.
async fn ask(
    worker: &Worker,
    revision: &Compiled,
    client: &BackendClient,
) -> Result<(Rc<str>, u64), String> {
    let BackendClient { token_url, client_id, client_secret, in_form, .. } = client;
    let form = Form {
        url: token_url,
        client: (!in_form).then_some((client_id, client_secret)),
        sender: None,
        text: &form_of(client),
        repetition: match client.grant {
            BackendGrant::ClientCredentials | BackendGrant::Password { .. } => Repetition::Harmless,
            BackendGrant::RefreshToken(_) => Repetition::SingleUse,
        },
        bytes_max: INTROSPECTION_BYTES_MAX,
        total_ms: BACKEND_TOKEN_MS_MAX,
    };
    let response = form_post::send(worker, revision, &form).await?;
    let issued = jose::issued_tokens(&response).map_err(|error| error.to_string())?;
    let (token, expires_s) = (issued.access_token, issued.expires_s);
    if token.len() > TOKEN_BYTES_MAX {
        return Err(format!("the token is longer than {TOKEN_BYTES_MAX} bytes"));
    }
    // Some servers write 0 if they do not say it.
    let valid_s = expires_s.filter(|expires_s| *expires_s > 0).unwrap_or(BACKEND_TOKEN_S);
    let valid_s = valid_s.min(BACKEND_TOKEN_S_MAX);
    // A token that is valid for a short time is used for half of it.
    let valid_s = valid_s.saturating_sub(BACKEND_TOKEN_MARGIN_S).max(valid_s / 2);
    // So that not every request asks for another one.
    let valid_s = valid_s.max(BACKEND_TOKEN_PAUSE_S);
    Ok((format!("Bearer {token}").into(), valid_s))
}

/// The form for the token server. Source: RFC 6749 sections 2.3.1, 4.3.2, 4.4.2 and 6.
fn form_of(client: &BackendClient) -> String {
    let scopes = client.scopes.join(" ");
    let mut parts: Vec<(&str, &[u8])> = match &client.grant {
        BackendGrant::ClientCredentials => vec![("grant_type", b"client_credentials")],
        BackendGrant::Password { username, password } => vec![
            ("grant_type", b"password"),
            ("username", username.as_bytes()),
            ("password", password.as_bytes()),
        ],
        BackendGrant::RefreshToken(token) => {
            vec![("grant_type", b"refresh_token"), ("refresh_token", token.as_bytes())]
        }
    };
    if client.in_form {
        parts.push(("client_id", client.client_id.as_bytes()));
        parts.push(("client_secret", &client.client_secret));
    }
    if !scopes.is_empty() {
        parts.push(("scope", scopes.as_bytes()));
    }
    let others = client.parameters.iter();
    parts.extend(others.map(|(name, value)| (name.as_str(), value.as_bytes())));
    let mut text = String::new();
    for (name, value) in parts {
        if !text.is_empty() {
            text.push('&');
        }
        text.extend(percent_encode(name.as_bytes(), FORM));
        text.push('=');
        text.extend(percent_encode(value, FORM));
    }
    text
}
