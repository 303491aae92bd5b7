//! Registration of clients: WSO2's `/client-registration/v0.17/register`, and RFC 7591 at WSO2 Identity Server's
//! `/api/identity/oauth2/dcr/v1.1/register`. Both are for administrators, by
//! HTTP Basic.

use std::net::IpAddr;

use base::{Clock, SystemClock, SystemEntropy};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::{HeaderMap, StatusCode};
use jose::KeySet;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;
use serde::Deserialize;
use serde_json::{Value, json};
use store::{Client, Database, Store, TokenType, TokensOfClient};
use wire::tls::DistinguishedName;

use crate::form::Form;
use crate::manager::{Manager, is_name};
use crate::peer::{ISSUED, ISSUED_TO, Peer, SELF_SIGNED};
use crate::reply::{Refusal, Reply};
use crate::token::GRANTS;
use crate::users::{ADMIN, UserError};
use crate::{limits, reply, secrets};

/// How clients authenticate without a certificate. Source: RFC 7591 section 2, RFC 8705 section 2.
const AUTHENTICATION: &[&str] =
    &["client_secret_basic", "client_secret_post", "private_key_jwt", "none"];
/// Certificates of one client.
const CERTIFICATES_MAX: usize = 8;
/// The grants of a client without a secret: a user takes part, or PKCE and rotation protect it.
const PUBLIC_GRANTS: &[&str] = &["authorization_code", "refresh_token", crate::device::GRANT];

/// The body of WSO2's shape. The members `saasApp`, `tokenScope` and `owner` are known too, see [`wso2`].
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Profile {
    client_name: String,
    /// The user; absent: who sends the request.
    owner: Option<String>,
    /// Separated by spaces; absent: `client_credentials`.
    grant_type: Option<String>,
    callback_url: Option<String>,
    /// Scopes that its tokens may have, separated by spaces.
    token_scope: Option<String>,
    /// `JWT`, or `OAUTH` for opaque tokens.
    token_type: Option<String>,
}

/// The body of RFC 7591 section 2.
#[derive(Deserialize)]
struct Metadata {
    client_name: String,
    #[serde(default)]
    grant_types: Vec<String>,
    #[serde(default)]
    redirect_uris: Vec<String>,
    scope: Option<String>,
    token_endpoint_auth_method: Option<String>,
    /// The public keys of `private_key_jwt`, or the certificates of `self_signed_tls_client_auth`.
    jwks: Option<Value>,
    /// The name in the certificate of `tls_client_auth`.
    tls_client_auth_subject_dn: Option<String>,
    tls_client_auth_san_dns: Option<String>,
    tls_client_auth_san_ip: Option<IpAddr>,
    /// Other names, which are rejected.
    tls_client_auth_san_uri: Option<String>,
    tls_client_auth_san_email: Option<String>,
    #[serde(default)]
    tls_client_certificate_bound_access_tokens: bool,
    /// WSO2's: `JWT`, or `Default` for opaque tokens.
    token_type_extension: Option<String>,
}

/// How a client proves who it is.
enum Proof {
    Secret,
    /// A signature by a key of this JWK set.
    Key(String),
    /// See [`store::Client::certificate`].
    Certificate(String),
    Nothing,
}

/// A client as requested.
struct Wanted {
    name: String,
    grants: String,
    scopes: String,
    redirects: String,
    token_type: TokenType,
    proof: Proof,
    /// Whether its tokens are bound to its certificate.
    bound: bool,
}

/// A registered client and its secret, which is not kept; a public one has none.
struct Registered {
    id: String,
    secret: Option<String>,
    wanted: Wanted,
}

/// Registers an application, or gives one of the same owner and name new metadata and a new secret.
pub(crate) async fn wso2(
    manager: &Manager,
    head: &HeaderMap,
    body: &[u8],
    peer: &Peer,
) -> Result<Reply, Refusal> {
    let user = manager.admin(head, peer).await?;
    let profile: Profile = parse(body)?;
    if profile.owner.as_ref().is_some_and(|owner| *owner != user) {
        return Err(metadata("`owner` is not the user who registers"));
    }
    let grants = profile.grant_type.unwrap_or_default();
    let callback = profile.callback_url.unwrap_or_default();
    let is_host = !callback.contains(':') && !callback.starts_with('/');
    let wanted = Wanted {
        name: name(profile.client_name)?,
        grants: self::grants(grants.split(' '))?,
        scopes: list(
            profile.token_scope.iter().flat_map(|scopes| scopes.split(' ')),
            "tokenScope",
        )?,
        // WSO2's examples have `www.google.lk`. It is stored, and no code is sent there.
        redirects: if is_host {
            list([callback.as_str()].into_iter(), "callbackUrl")?
        } else {
            redirects(&[callback])?
        },
        token_type: token_type(profile.token_type.as_deref(), "tokenType")?,
        proof: Proof::Secret,
        bound: false,
    };
    let Registered { id, secret, wanted } = register(manager, &user, wanted, true).await?;
    let details = json!({
        "grant_types": wanted.grants,
        "redirect_uris": wanted.redirects,
        "client_name": wanted.name,
    });
    let body = json!({
        "clientId": id,
        "clientName": wanted.name,
        "callBackURL": wanted.redirects,
        "clientSecret": secret,
        "appOwner": user,
        "isSaasApplication": true,
        "jsonString": details.to_string(),
    });
    Ok(reply::json(StatusCode::OK, &body))
}

/// Registers a client. Source: RFC 7591 section 3.
pub(crate) async fn standard(
    manager: &Manager,
    head: &HeaderMap,
    body: &[u8],
    peer: &Peer,
) -> Result<Reply, Refusal> {
    let user = manager.admin(head, peer).await?;
    let metadata: Metadata = parse(body)?;
    let method = metadata.token_endpoint_auth_method.as_deref().unwrap_or("client_secret_basic");
    if !methods(manager).contains(&method) {
        return Err(self::metadata(&format!(
            "the authentication method `{method}` is not supported"
        )));
    }
    let wanted = Wanted {
        name: name(metadata.client_name.clone())?,
        grants: grants(metadata.grant_types.iter().map(String::as_str))?,
        scopes: list(metadata.scope.iter().flat_map(|scopes| scopes.split(' ')), "scope")?,
        redirects: redirects(&metadata.redirect_uris)?,
        token_type: token_type(metadata.token_type_extension.as_deref(), "token_type_extension")?,
        proof: match method {
            "none" => Proof::Nothing,
            "private_key_jwt" => Proof::Key(jwks(metadata.jwks.as_ref())?),
            "self_signed_tls_client_auth" => {
                Proof::Certificate(thumbprints(metadata.jwks.as_ref())?)
            }
            "tls_client_auth" => Proof::Certificate(certificate_name(&metadata)?),
            _ => Proof::Secret,
        },
        bound: metadata.tls_client_certificate_bound_access_tokens,
    };
    if wanted.bound && !(manager.accepts_certificates && wanted.token_type == TokenType::Jwt) {
        let why = "tokens are bound to certificates only if they are JWTs, and with `client_ca`";
        return Err(self::metadata(why));
    }
    let public = matches!(wanted.proof, Proof::Nothing);
    if public && wanted.grants.split(' ').any(|grant| !PUBLIC_GRANTS.contains(&grant)) {
        let grants = PUBLIC_GRANTS.join(", ");
        return Err(self::metadata(&format!("a client without a secret may use only {grants}")));
    }
    let Registered { id, secret, wanted } = register(manager, &user, wanted, false).await?;
    let mut body = json!({
        "client_id": id,
        "client_name": wanted.name,
        "grant_types": words(&wanted.grants),
        "redirect_uris": words(&wanted.redirects),
        "scope": wanted.scopes,
        "token_endpoint_auth_method": method,
        "tls_client_certificate_bound_access_tokens": wanted.bound,
    });
    for (name, value) in metadata.proof(method) {
        body[name] = value;
    }
    if let (Some(secret), Some(members)) = (secret, body.as_object_mut()) {
        members.insert("client_secret".to_owned(), json!(secret));
        members.insert("client_secret_expires_at".to_owned(), json!(0));
    }
    Ok(reply::json(StatusCode::CREATED, &body))
}

fn words(list: &str) -> Vec<&str> {
    list.split_whitespace().collect()
}

/// A client's public data for an administrator, regardless of the owner.
fn description(client: &Client) -> Value {
    json!({
        "client_id": client.id,
        "client_name": client.name,
        "owner": client.owner,
        "client_id_issued_at": client.created_s,
        "grant_types": words(&client.grants),
        "redirect_uris": words(&client.redirects),
        "scope": client.scopes,
    })
}

/// The clients, by id, at most [`limits::CLIENTS_PAGE_MAX`], that come after the id in `after`.
pub(crate) async fn all(
    manager: &Manager,
    head: &HeaderMap,
    query: &Form,
    peer: &Peer,
) -> Result<Reply, Refusal> {
    manager.admin(head, peer).await?;
    let after = query.get("after").unwrap_or_default();
    let found = manager.store.clients(after, limits::CLIENTS_PAGE_MAX).await?;
    let clients: Vec<Value> = found.iter().map(description).collect();
    Ok(reply::json(StatusCode::OK, &json!({ "clients": clients })))
}

pub(crate) async fn get(
    manager: &Manager,
    head: &HeaderMap,
    id: &str,
    peer: &Peer,
) -> Result<Reply, Refusal> {
    manager.admin(head, peer).await?;
    let client = if is_name(id) { manager.store.client(id).await? } else { None };
    let client = client.ok_or(Refusal::NotFound)?;
    Ok(reply::json(StatusCode::OK, &description(&client)))
}

/// Removes a client and its tokens.
pub(crate) async fn remove(
    manager: &Manager,
    head: &HeaderMap,
    id: &str,
    peer: &Peer,
) -> Result<Reply, Refusal> {
    let user = manager.admin(head, peer).await?;
    let client = if is_name(id) { manager.store.client(id).await? } else { None };
    let client = client.ok_or(Refusal::NotFound)?;
    let now_s = manager.now_s();
    let tokens = TokensOfClient {
        hash: secrets::hash(id),
        // A request in progress may still get one.
        issued_s: now_s.saturating_add(limits::REQUEST_MS_MAX.div_ceil(1_000)),
        expires_s: now_s.saturating_add(base::limits::ACCESS_TOKEN_S_MAX),
    };
    if !manager.store.remove_client(id, &tokens).await? {
        return Err(Refusal::NotFound);
    }
    tracing::info!(client = id, owner = client.owner, by = user, "client removed");
    Ok(reply::empty(StatusCode::NO_CONTENT))
}

/// `replace`: whether a client of the same owner and name gets the new metadata and secret, or is an error.
async fn register(
    manager: &Manager,
    owner: &str,
    wanted: Wanted,
    replace: bool,
) -> Result<Registered, Refusal> {
    if manager.store.count_clients().await? >= limits::CLIENTS_MAX {
        tracing::error!(most = limits::CLIENTS_MAX, "too many clients in the store");
        return Err(Refusal::Unavailable);
    }
    let with_secret = matches!(wanted.proof, Proof::Secret);
    let secret = with_secret.then(|| secrets::secret(manager.entropy()));
    let client = Client {
        id: secrets::identifier(manager.entropy()),
        secret: secret.as_deref().map_or_else(String::new, secrets::hash),
        jwks: match &wanted.proof {
            Proof::Key(jwks) => jwks.clone(),
            Proof::Secret | Proof::Certificate(_) | Proof::Nothing => String::new(),
        },
        certificate: match &wanted.proof {
            Proof::Certificate(certificate) => certificate.clone(),
            Proof::Secret | Proof::Key(_) | Proof::Nothing => String::new(),
        },
        bound: wanted.bound,
        name: wanted.name.clone(),
        owner: owner.to_owned(),
        grants: wanted.grants.clone(),
        scopes: wanted.scopes.clone(),
        redirects: wanted.redirects.clone(),
        token_type: wanted.token_type,
        created_s: manager.now_s(),
    };
    let id = if replace {
        manager.store.put_client(&client).await?
    } else if manager.store.add_client(&client).await? {
        client.id
    } else {
        return Err(metadata("there is a client of this name; remove it first"));
    };
    tracing::info!(client = id, owner, "client registered");
    Ok(Registered { id, secret, wanted })
}

/// Registers a client of [`ADMIN`] for `client_credentials`, with this id and these scopes; or gives the one of that
/// name a new secret. Returns its id and secret.
///
/// # Errors
/// The store cannot be used.
pub fn put_client(
    database: &Database,
    name: &str,
    id: &str,
    scopes: &str,
) -> Result<(String, String), UserError> {
    let secret = secrets::secret(&SystemEntropy);
    let client = own_client(name, id, scopes, &secret, &SystemClock::new());
    crate::runtime()?.block_on(async {
        let store = Store::open(database).await?;
        let id = store.put_client(&client).await?;
        store.close().await;
        Ok((id, secret))
    })
}

/// A client of the administrator that gets tokens for itself alone.
pub(crate) fn own_client(
    name: &str,
    id: &str,
    scopes: &str,
    secret: &str,
    clock: &dyn Clock,
) -> Client {
    Client {
        id: id.to_owned(),
        secret: secrets::hash(secret),
        jwks: String::new(),
        certificate: String::new(),
        bound: false,
        name: name.to_owned(),
        owner: ADMIN.to_owned(),
        grants: "client_credentials".to_owned(),
        scopes: scopes.to_owned(),
        redirects: String::new(),
        token_type: TokenType::Jwt,
        created_s: clock.now().unix_s,
    }
}

/// The methods that a client may have.
pub(crate) fn methods(manager: &Manager) -> Vec<&'static str> {
    let mut methods = AUTHENTICATION.to_vec();
    methods.extend(manager.authorities.as_ref().map(|_| "tls_client_auth"));
    methods.extend(manager.accepts_certificates.then_some("self_signed_tls_client_auth"));
    methods
}

/// The name in a client's certificate, as it is stored.
fn certificate_name(metadata: &Metadata) -> Result<String, Refusal> {
    const WRONG_NAME: &str = "`tls_client_auth` needs one of `tls_client_auth_subject_dn`, \
                              `tls_client_auth_san_dns` and `tls_client_auth_san_ip`; other names \
                              are not supported";
    const WRONG_SUBJECT: &str = "`tls_client_auth_subject_dn` is not a distinguished name as in \
                                 RFC 4514, or too long";
    let others = [&metadata.tls_client_auth_san_uri, &metadata.tls_client_auth_san_email];
    let has_others = others.into_iter().any(Option::is_some);
    let subject = &metadata.tls_client_auth_subject_dn;
    let (dns, ip) = (&metadata.tls_client_auth_san_dns, metadata.tls_client_auth_san_ip);
    match (subject, dns, ip) {
        _ if has_others => {}
        (Some(subject), None, None) => {
            let fits = subject.len() <= limits::SUBJECT_BYTES_MAX;
            let is_valid = fits && DistinguishedName::parse(subject).is_some();
            return is_valid
                .then(|| format!("{ISSUED_TO} {subject}"))
                .ok_or_else(|| self::metadata(WRONG_SUBJECT));
        }
        (None, Some(name), None) if is_name(name) && ServerName::try_from(&**name).is_ok() => {
            return Ok(format!("{ISSUED} {name}"));
        }
        (None, None, Some(address)) => return Ok(format!("{ISSUED} {address}")),
        _ => {}
    }
    Err(self::metadata(WRONG_NAME))
}

impl Metadata {
    /// The members by which a client that authenticates by `method` proves who it is.
    fn proof(&self, method: &str) -> impl Iterator<Item = (&'static str, Value)> {
        let members = match method {
            "tls_client_auth" => vec![
                ("tls_client_auth_subject_dn", json!(self.tls_client_auth_subject_dn)),
                ("tls_client_auth_san_dns", json!(self.tls_client_auth_san_dns)),
                ("tls_client_auth_san_ip", json!(self.tls_client_auth_san_ip)),
            ],
            "private_key_jwt" | "self_signed_tls_client_auth" => vec![("jwks", json!(self.jwks))],
            _ => Vec::new(),
        };
        members.into_iter().filter(|(_, value)| !value.is_null())
    }
}

/// The certificates of a client, as they are stored: each key of the document has its own first in `x5c`. Source: RFC
/// 8705 section 2.2.2, RFC 7517 section 4.7.
fn thumbprints(document: Option<&Value>) -> Result<String, Refusal> {
    let keys = document.and_then(|document| document["keys"].as_array());
    let thumbprint = |key: &Value| {
        let der = CertificateDer::from(BASE64_STANDARD.decode(key["x5c"][0].as_str()?).ok()?);
        ParsedCertificate::try_from(&der).ok()?;
        Some(secrets::hash(&der))
    };
    let found: Option<Vec<String>> = keys.and_then(|keys| keys.iter().map(thumbprint).collect());
    let found = found.filter(|found| (1..=CERTIFICATES_MAX).contains(&found.len()));
    let why = "`self_signed_tls_client_auth` needs `jwks` with one to eight keys that have a certificate \
               in `x5c`";
    let found = found.ok_or_else(|| metadata(why))?;
    Ok(format!("{SELF_SIGNED} {}", found.join(" ")))
}

/// The public keys of a client, as they are stored.
fn jwks(document: Option<&Value>) -> Result<String, Refusal> {
    let why = "`private_key_jwt` needs `jwks` with public keys; `jwks_uri` is not supported";
    let text = document.ok_or_else(|| metadata(why))?.to_string();
    let keys = KeySet::from_jwks(text.as_bytes());
    let keys = keys.map_err(|error| metadata(&format!("`jwks`: {error}")))?;
    if keys.is_empty() || text.len() > limits::LIST_BYTES_MAX {
        return Err(metadata(why));
    }
    Ok(text)
}

fn metadata(why: &str) -> Refusal {
    Refusal::InvalidMetadata(why.to_owned())
}

fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Refusal> {
    serde_json::from_slice(body).map_err(|error| Refusal::InvalidMetadata(error.to_string()))
}

fn name(name: String) -> Result<String, Refusal> {
    if is_name(&name) {
        return Ok(name);
    }
    Err(metadata(&format!(
        "the name is empty, longer than {} bytes, or has control characters",
        limits::NAME_BYTES_MAX
    )))
}

fn grants<'a>(names: impl Iterator<Item = &'a str>) -> Result<String, Refusal> {
    let names = list(names, "grant types")?;
    if names.is_empty() {
        return Ok("client_credentials".to_owned());
    }
    match names.split(' ').find(|name| !GRANTS.contains(name)) {
        Some(unknown) => Err(metadata(&format!("the grant type `{unknown}` is not supported"))),
        None => Ok(names),
    }
}

fn redirects(uris: &[String]) -> Result<String, Refusal> {
    if let Some(wrong) = uris.iter().find(|uri| !is_redirect(uri)) {
        let rule =
            "use https, http on localhost, or a scheme such as com.example.app, without fragment";
        return Err(metadata(&format!("the redirect URI `{wrong}` is not allowed; {rule}")));
    }
    list(uris.iter().map(String::as_str), "redirect URIs")
}

/// Whether a browser may be sent to `uri`: https, http on this machine, or an application's own scheme, which has a
/// dot; without fragment. Source: RFC 6749 section 3.1.2, RFC 8252 section 7.
pub(crate) fn is_redirect(uri: &str) -> bool {
    let of_scheme = |byte: u8| byte.is_ascii_alphanumeric() || b"+.-".contains(&byte);
    let allowed = |(scheme, rest): (&str, &str)| match scheme {
        "https" | "http" => uri.parse::<http::Uri>().is_ok_and(|parsed| {
            let loopback = ["localhost", "127.0.0.1", "[::1]"];
            let is_here = parsed.host().is_some_and(|host| loopback.contains(&host));
            is_here || parsed.host().is_some() && scheme == "https"
        }),
        _ => {
            let own = scheme.contains('.') && scheme.bytes().all(of_scheme);
            own && rest.starts_with('/') && rest.parse::<http::Uri>().is_ok()
        }
    };
    !uri.contains(['#', ' ']) && uri.split_once(':').is_some_and(allowed)
}

fn token_type(name: Option<&str>, member: &str) -> Result<TokenType, Refusal> {
    match name {
        None | Some("JWT") => Ok(TokenType::Jwt),
        Some("OAUTH" | "Default") => Ok(TokenType::Opaque),
        Some(_) => Err(metadata(&format!("`{member}` is neither JWT nor OAUTH (opaque)"))),
    }
}

/// The items without duplicates, separated by spaces.
fn list<'a>(items: impl Iterator<Item = &'a str>, what: &str) -> Result<String, Refusal> {
    let mut kept: Vec<&str> = Vec::new();
    let mut bytes = 0_usize;
    for item in items.filter(|item| !item.is_empty()) {
        bytes = bytes.saturating_add(item.len()).saturating_add(1);
        if bytes > limits::LIST_BYTES_MAX || item.chars().any(|c| c.is_control() || c == ' ') {
            return Err(metadata(&format!("{what}: too long, or with control characters")));
        }
        if !kept.contains(&item) {
            kept.push(item);
        }
    }
    Ok(kept.join(" "))
}
