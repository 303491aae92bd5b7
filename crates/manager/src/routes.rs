//! Which endpoint a request is for.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Method, Request, Uri};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use store::Kind;

use crate::form::Form;
use crate::manager::Manager;
use crate::peer::Peer;
use crate::reply::{Refusal, Reply};
use crate::{
    account, api_keys, applications, authorize, device, federation, inspect, limits, metadata,
    oidc, register, revocations, token,
};

const APPLICATIONS: &str = "/api/penstock/applications";
const PLANS: &str = "/api/penstock/plans";
const DCR: &str = "/api/identity/oauth2/dcr/v1.1/register";

pub(crate) async fn answer(
    manager: &Manager,
    request: Request<Incoming>,
    peer: &Peer,
) -> Result<Reply, Refusal> {
    let (parts, body) = request.into_parts();
    let (head, path) = (&parts.headers, parts.uri.path());
    match path {
        "/oauth2/jwks" => get(&parts.method).map(|()| metadata::jwks(manager)),
        "/oauth2/token/.well-known/openid-configuration"
        | "/.well-known/openid-configuration"
        | "/.well-known/oauth-authorization-server"
        | "/.well-known/oauth-authorization-server/oauth2/token" => {
            get(&parts.method).map(|()| metadata::discovery(manager))
        }
        "/oauth2/token" => {
            post(&parts.method)?;
            token::answer(manager, head, &form(head, body).await?, peer).await
        }
        "/oauth2/authorize" if parts.method == Method::POST => {
            authorize::decide(manager, &form(head, body).await?, peer).await
        }
        "/oauth2/authorize" => {
            get(&parts.method)?;
            authorize::ask(manager, &query(&parts.uri)?, None).await
        }
        "/oauth2/userinfo" => {
            if parts.method != Method::POST {
                get(&parts.method)?;
            }
            oidc::userinfo(manager, &parts.method, head, peer).await
        }
        "/oidc/logout" if parts.method == Method::POST => {
            oidc::logout(manager, &form(head, body).await?).await
        }
        "/oidc/logout" => {
            get(&parts.method)?;
            oidc::logout(manager, &query(&parts.uri)?).await
        }
        "/oauth2/device_authorize" => {
            post(&parts.method)?;
            device::authorize(manager, head, &form(head, body).await?, peer).await
        }
        "/oauth2/device" if parts.method == Method::POST => {
            device::decide(manager, &form(head, body).await?, peer).await
        }
        "/oauth2/device" => {
            get(&parts.method)?;
            device::ask(manager, &query(&parts.uri)?, None, peer).await
        }
        account::PATH if parts.method == Method::POST => {
            account::replace(manager, &form(head, body).await?, peer).await
        }
        account::PATH => {
            get(&parts.method)?;
            Ok(account::ask())
        }
        "/oauth2/apikey" => {
            // HEAD would issue a key without returning it.
            if ![Method::GET, Method::POST].contains(&parts.method) {
                return Err(Refusal::MethodNotAllowed { allow: "GET, POST" });
            }
            api_keys::issue(manager, head, &read(body).await?, peer).await
        }
        "/oauth2/introspect" => {
            post(&parts.method)?;
            inspect::introspect(manager, head, &form(head, body).await?, peer).await
        }
        "/oauth2/revoke" => {
            post(&parts.method)?;
            inspect::revoke(manager, head, &form(head, body).await?, peer).await
        }
        "/oauth2/revocations" => {
            get(&parts.method)?;
            revocations::list(manager, head, &query(&parts.uri)?, peer).await
        }
        "/client-registration/v0.17/register" => {
            post(&parts.method)?;
            register::wso2(manager, head, &json(head, body).await?, peer).await
        }
        DCR => match parts.method {
            Method::GET | Method::HEAD => {
                register::all(manager, head, &query(&parts.uri)?, peer).await
            }
            Method::POST => register::standard(manager, head, &json(head, body).await?, peer).await,
            _ => Err(Refusal::MethodNotAllowed { allow: "GET, HEAD, POST" }),
        },
        APPLICATIONS => {
            get(&parts.method)?;
            applications::changes(manager, head, &query(&parts.uri)?, peer).await
        }
        _ => {
            if let Some(name) = below(path, federation::CALLBACK) {
                get(&parts.method)?;
                return federation::returned(manager, name, head, &query(&parts.uri)?, peer).await;
            }
            if let Some(id) = below(path, DCR) {
                return match parts.method {
                    Method::GET | Method::HEAD => register::get(manager, head, id, peer).await,
                    Method::DELETE => register::remove(manager, head, id, peer).await,
                    _ => Err(Refusal::MethodNotAllowed { allow: "GET, HEAD, DELETE" }),
                };
            }
            let (kind, name) = match (below(path, APPLICATIONS), below(path, PLANS)) {
                (Some(name), _) => (Kind::Application, name),
                (None, Some(name)) => (Kind::Plan, name),
                (None, None) => return Err(Refusal::NotFound),
            };
            match parts.method {
                Method::GET | Method::HEAD => {
                    applications::get(manager, head, (kind, name), peer).await
                }
                Method::PUT => {
                    let body = json(head, body).await?;
                    applications::put(manager, head, (kind, name, &body), peer).await
                }
                Method::DELETE => applications::remove(manager, head, (kind, name), peer).await,
                _ => Err(Refusal::MethodNotAllowed { allow: "GET, HEAD, PUT, DELETE" }),
            }
        }
    }
}

/// The rest of `path` after `parent` and a slash.
fn below<'p>(path: &'p str, parent: &str) -> Option<&'p str> {
    path.strip_prefix(parent)?.strip_prefix('/')
}

fn get(method: &Method) -> Result<(), Refusal> {
    let allowed = [Method::GET, Method::HEAD].contains(method);
    if allowed { Ok(()) } else { Err(Refusal::MethodNotAllowed { allow: "GET, HEAD" }) }
}

fn post(method: &Method) -> Result<(), Refusal> {
    if method == Method::POST { Ok(()) } else { Err(Refusal::MethodNotAllowed { allow: "POST" }) }
}

/// The parameters in the body. Parameters in the query are ignored: URLs are logged. Source: RFC 6749 section 3.2.
async fn form(head: &HeaderMap, body: Incoming) -> Result<Form, Refusal> {
    media_type(head, "application/x-www-form-urlencoded")?;
    Form::parse(&read(body).await?)
}

fn query(uri: &Uri) -> Result<Form, Refusal> {
    Form::parse(uri.query().unwrap_or_default().as_bytes())
}

async fn json(head: &HeaderMap, body: Incoming) -> Result<Bytes, Refusal> {
    media_type(head, "application/json")?;
    read(body).await
}

fn media_type(head: &HeaderMap, wanted: &str) -> Result<(), Refusal> {
    let given = head.get(CONTENT_TYPE).and_then(|field| field.to_str().ok()).unwrap_or_default();
    let essence = given.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case(wanted) { Ok(()) } else { Err(Refusal::UnsupportedMediaType) }
}

async fn read(body: Incoming) -> Result<Bytes, Refusal> {
    let read = Limited::new(body, limits::BODY_BYTES_MAX).collect().await;
    read.map(http_body_util::Collected::to_bytes).map_err(|error| {
        if error.is::<LengthLimitError>() {
            Refusal::TooLarge
        } else {
            Refusal::InvalidRequest("the body is incomplete")
        }
    })
}
