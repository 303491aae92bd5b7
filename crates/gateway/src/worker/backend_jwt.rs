//! The JWT by which upstreams learn who the caller is. Source: WSO2's backend JWT.
//!
//! Life of a request: authorise -> **assert** -> throttle. The JWT is signed on the worker's thread, once for each
//! caller and API, and kept until shortly before it expires, or until its claims change.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use base::limits::{BACKEND_JWT_MARGIN_S, BACKEND_JWTS_BYTES_MAX};
use expression::json::{self, Document};
use jose::SigningKey;
use model::{BackendJwt, Caller, KeyType, TokenType};
use stages::{ApiRoutes, Subscriber};

use crate::message::HeadEdits;
use crate::message::claims::claims_of;

/// `[backend_jwt]`, compiled.
pub(crate) struct Signer {
    settings: BackendJwt,
    key: SigningKey,
    /// The header of the JWT, as JSON.
    header: String,
}

impl Signer {
    /// `None`, and a line in the log: the key cannot sign.
    pub(crate) fn new(settings: &BackendJwt) -> Option<Arc<Self>> {
        let made = SigningKey::from_pem(&settings.key).map_err(|error| error.to_string());
        let made = made.and_then(|key| {
            let kid = key.thumbprint().map_err(|error| error.to_string())?;
            let thumbprints = settings.certificate.as_deref().map(jose::certificate_thumbprints);
            let thumbprints = thumbprints.map_or_else(String::new, |of| {
                format!(",\"x5t\":\"{}\",\"x5t#S256\":\"{}\"", of.wso2, of.sha256)
            });
            let alg = key.algorithm();
            let header =
                format!("{{\"alg\":\"{alg}\",\"kid\":\"{kid}\",\"typ\":\"JWT\"{thumbprints}}}");
            Ok(Arc::new(Self { settings: settings.clone(), key, header }))
        });
        made.map_err(|problem| tracing::error!(problem, "no backend JWT can be signed")).ok()
    }

    /// Replaces the client's value in the configured field by `assertion`.
    pub(crate) fn write(&self, assertion: Option<&str>, edits: &mut HeadEdits) {
        let name = self.settings.header.as_bytes();
        edits.remove(name);
        if let Some(assertion) = assertion {
            edits.append(name, assertion.as_bytes());
        }
    }

    fn sign(&self, of: &Asserted<'_>, token: Option<&[u8]>, now_s: u64) -> Option<Rc<str>> {
        let claims = claims(&self.settings, of, token.and_then(claims_of).as_ref(), now_s);
        match self.key.sign_text(self.key.algorithm(), &self.header, claims.text()) {
            Ok(signed) => Some(signed.into()),
            Err(error) => {
                tracing::error!(%error, "a backend JWT was not signed");
                None
            }
        }
    }
}

/// The contents of a JWT.
pub(crate) struct Asserted<'a> {
    pub(crate) caller: &'a Rc<Caller>,
    pub(crate) routes: &'a Arc<ApiRoutes>,
    pub(crate) subscriber: Option<&'a Arc<Subscriber>>,
    pub(crate) key_type: KeyType,
}

/// A worker's signed JWTs.
#[derive(Default)]
pub(crate) struct BackendJwts(RefCell<Kept>);

#[derive(Default)]
struct Kept {
    /// By the address of the caller, which the entry keeps alive, and the slot of the API.
    entries: HashMap<(*const Caller, u32), Entry>,
    bytes: usize,
}

struct Entry {
    _caller: Rc<Caller>,
    routes: Arc<ApiRoutes>,
    subscriber: Option<Arc<Subscriber>>,
    signer: Arc<Signer>,
    assertion: Rc<str>,
    until_s: u64,
}

impl Entry {
    fn says(&self, of: &Asserted<'_>, signer: &Arc<Signer>, now_s: u64) -> bool {
        now_s < self.until_s
            && Arc::ptr_eq(&self.signer, signer)
            && Arc::ptr_eq(&self.routes, of.routes)
            && self.subscriber.as_ref().map(Arc::as_ptr) == of.subscriber.map(Arc::as_ptr)
    }

    fn bytes(&self) -> usize {
        2 * size_of::<((*const Caller, u32), Self)>() + self.assertion.len()
    }
}

impl BackendJwts {
    /// The JWT of the caller, signed now if it has to be. `token`: the credential, which may have more claims.
    pub(crate) fn assertion(
        &self,
        signer: &Arc<Signer>,
        of: &Asserted<'_>,
        token: impl FnOnce() -> Option<Vec<u8>>,
        now_s: u64,
    ) -> Option<Rc<str>> {
        let key = (Rc::as_ptr(of.caller), of.routes.slot);
        let mut kept = self.0.borrow_mut();
        if let Some(entry) = kept.entries.get(&key).filter(|entry| entry.says(of, signer, now_s)) {
            return Some(Rc::clone(&entry.assertion));
        }
        let assertion = signer.sign(of, token().as_deref(), now_s)?;
        let valid_s = signer.settings.expires_s.saturating_sub(BACKEND_JWT_MARGIN_S);
        let entry = Entry {
            _caller: Rc::clone(of.caller),
            routes: Arc::clone(of.routes),
            subscriber: of.subscriber.cloned(),
            signer: Arc::clone(signer),
            assertion: Rc::clone(&assertion),
            until_s: now_s.saturating_add(valid_s),
        };
        kept.insert(key, entry, now_s);
        Some(assertion)
    }
}

impl Kept {
    fn insert(&mut self, key: (*const Caller, u32), entry: Entry, now_s: u64) {
        let bytes = entry.bytes();
        if self.bytes.saturating_add(bytes) > BACKEND_JWTS_BYTES_MAX {
            self.entries.retain(|_, entry| now_s < entry.until_s);
            self.bytes = self.entries.values().map(Entry::bytes).sum();
        }
        if self.bytes.saturating_add(bytes) > BACKEND_JWTS_BYTES_MAX {
            *self = Self::default();
        }
        let before = self.entries.insert(key, entry).map_or(0, |entry| entry.bytes());
        self.bytes = self.bytes.saturating_sub(before).saturating_add(bytes);
    }
}

/// Claims of the token that are its own affair, or whose content is in the others.
const OMITTED: [&str; 10] =
    ["iss", "sub", "aud", "exp", "nbf", "iat", "jti", "application", "tierInfo", "subscribedAPIs"];

fn claims(
    settings: &BackendJwt,
    of: &Asserted<'_>,
    token: Option<&Document<'static>>,
    now_s: u64,
) -> Document<'static> {
    let mut out = json::Builder::new();
    out.begin_object().key("iss").string(&settings.issuer);
    out.key("iat").number(&now_s.to_string());
    out.key("exp").number(&now_s.saturating_add(settings.expires_s).to_string());
    let dialect = settings.dialect.trim_end_matches('/');
    for (name, value) in own_claims(of, token) {
        if let Some(value) = value {
            out.key(&format!("{dialect}/{name}")).string(&value);
        }
    }
    let attributes = of.subscriber.map(|subscriber| &subscriber.application.attributes);
    if let Some(attributes) = attributes.filter(|attributes| !attributes.is_empty()) {
        out.key(&format!("{dialect}/applicationAttributes")).begin_object();
        for (name, value) in attributes {
            out.key(name).string(value);
        }
        out.end();
    }
    let root = token.map(Document::root).filter(|root| root.kind() == json::Kind::Object);
    for (name, value) in root.into_iter().flat_map(json::Ref::members) {
        // A claim of the dialect is the gateway's alone.
        if !OMITTED.contains(&&*name) && !name.starts_with(dialect) {
            out.key(&name).embed(value);
        }
    }
    out.end();
    out.finish()
}

/// Source: WSO2's `APIMgtGatewayJWTGeneratorImpl`.
fn own_claims(
    of: &Asserted<'_>,
    token: Option<&Document<'static>>,
) -> [(&'static str, Option<String>); 14] {
    let api = &of.routes.api;
    let application = of.subscriber.map(|subscriber| &subscriber.application);
    let listed = token.and_then(|token| token.root().get("application"));
    let of_listed = |name: &str| {
        let value = listed?.get(name)?;
        value.string().map(|text| text.into_owned()).or(value.number_text().map(str::to_owned))
    };
    let name = application.map(|application| application.name.clone()).or(of_listed("name"));
    let subscribed = application.and_then(|application| {
        let is_it =
            |one: &&Arc<model::Subscription>| one.api == api.name && one.version == api.version;
        application.subscriptions.iter().find(is_it)?.plan.clone()
    });
    let caller = of.caller;
    let tier = subscribed.or_else(|| {
        let listed = caller.subscriptions.as_ref()?.apis.iter();
        listed.filter(|one| one.name == api.name).find_map(|one| one.tier.clone())
    });
    let key_type = match of.key_type {
        KeyType::Production => "PRODUCTION",
        KeyType::Sandbox => "SANDBOX",
    };
    let user_type = match caller.token_type {
        TokenType::Application => "Application",
        TokenType::ApplicationUser => "Application_User",
    };
    let text = |text: &str| Some(text.to_owned());
    [
        ("subscriber", application.and_then(|of| of.owner.clone()).or(of_listed("owner"))),
        ("applicationid", of_listed("id").or(name.clone())),
        ("applicationname", name),
        ("applicationtier", application.and_then(|of| of.plan.clone()).or(of_listed("tier"))),
        ("applicationUUId", of_listed("uuid")),
        ("apiname", text(&api.name)),
        ("apicontext", text(&api.base_path)),
        ("version", text(&api.version)),
        ("tier", tier),
        ("keytype", text(key_type)),
        ("usertype", text(user_type)),
        ("enduser", caller.subject.clone()),
        ("clientid", caller.client_id.clone()),
        // The tenant ID of WSO2's only tenant, if there are no others.
        ("enduserTenantId", text("-1234")),
    ]
}
