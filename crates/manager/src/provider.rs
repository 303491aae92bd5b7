//! OpenID Connect providers at which users of the key manager sign in.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use jose::{
    Compact, ExpectedIdToken, IdTokenProblem, KeySet, Padding, SignInAttempt, SignInEndpoints,
};
use model::UserProvider;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::cached::Cached;
use crate::federation::Failure;
use crate::limits;
use crate::manager::Manager;
use crate::outside::{Profile, claims_of, roles_of};
use crate::reply::Refusal;

/// Unreserved characters, which no server decodes in another way.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

const EMAIL: &str = "email";
const EMAIL_VERIFIED: &str = "email_verified";

/// Sends a request to a provider, within the limits `PROVIDER_MS_MAX` and `PROVIDER_BYTES_MAX`. Returns the body of a
/// response with status 200. May block.
pub type AskProvider = Arc<dyn Fn(ProviderRequest) -> Result<Vec<u8>, AskError> + Send + Sync>;

/// Reason for the lack of a response with status 200. No text contains a part of the response.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The provider does not respond, or not now.
    #[error("{0}")]
    Outage(String),
    #[error("{0}")]
    Refused(String),
}

/// A request to a provider: a GET, or a POST of `form`.
pub struct ProviderRequest {
    pub url: String,
    /// Whether `url` is at another server than the issuer, which the discovery document names: it gets no client
    /// certificate.
    pub is_elsewhere: bool,
    /// The value of `Authorization`.
    pub authorization: Option<String>,
    pub form: Option<String>,
}

pub(crate) struct Provider {
    pub(crate) settings: UserProvider,
    ask: AskProvider,
    cached: Arc<Cached<Discovered>>,
    /// For sign-ins that ask the provider.
    turns: Semaphore,
}

/// The metadata of a provider.
pub(crate) struct Discovered {
    pub(crate) endpoints: SignInEndpoints,
    keys: KeySet,
}

impl Provider {
    pub(crate) fn new(settings: UserProvider, ask: AskProvider) -> Self {
        let turns = Semaphore::new(limits::PROVIDER_SIGN_INS_MAX);
        Self { settings, ask, cached: Cached::new(), turns }
    }

    /// The provider's endpoints and keys, not older than `age_s` if it responds.
    pub(crate) async fn discovered(&self, now_s: u64, age_s: u64) -> Option<Arc<Discovered>> {
        let (ask, issuer) = (Arc::clone(&self.ask), self.settings.issuer.clone());
        let what = format!("the metadata of the provider `{}`", self.settings.name);
        let read = || async move {
            let path = ".well-known/openid-configuration";
            let url = format!("{}/{path}", issuer.trim_end_matches('/'));
            let document = asked(&ask, request(&issuer, &url)).await;
            let document = document.map_err(|error| error.to_string())?;
            let keys = asked(&ask, request(&issuer, &jose::jwks_uri(&document, &issuer)?)).await;
            let keys = KeySet::from_jwks(&keys.map_err(|error| error.to_string())?);
            Ok(Discovered {
                endpoints: jose::sign_in_endpoints(&document, &issuer)?,
                keys: keys.map_err(|error| error.to_string())?,
            })
        };
        self.cached.get((now_s, age_s), &what, read).await
    }

    /// The user who has signed in, by the `code` of the response to `attempt`; and the time of that, in seconds since
    /// the Unix epoch, if the provider reports it (else 0).
    pub(crate) async fn user(
        &self,
        manager: &Manager,
        (code, redirect_uri): (&str, &str),
        attempt: &SignInAttempt,
    ) -> Result<(Profile, u64), Failure> {
        let wait = Duration::from_millis(limits::PROVIDER_WAIT_MS_MAX);
        let turn = tokio::time::timeout(wait, self.turns.acquire()).await;
        let _turn = turn.map_err(|_| Refusal::Unavailable)?;
        let now_s = manager.now_s();
        let found = self.discovered(now_s, limits::PROVIDER_S).await;
        let found = found.ok_or_else(|| Failure::Outage("its endpoints are unknown".to_owned()))?;
        let issued = self.redeemed(&found, (code, redirect_uri), attempt).await?;
        let token = issued.id_token.ok_or("there is no ID token")?;
        let auth_s = self.check(manager, &token, attempt, &found).await?;
        let mut told = vec![payload(&token)?];
        if let Some(url) = &found.endpoints.userinfo
            && self.wants_more_than(&told)
        {
            let mut request = request(&self.settings.issuer, url);
            request.authorization = Some(format!("Bearer {}", issued.access_token));
            add(&mut told, &asked(&self.ask, request).await?)?;
        }
        Ok((self.profile_of(&told)?, auth_s.unwrap_or(0).min(now_s)))
    }

    /// The tokens for a code. Source: RFC 6749 sections 2.3.1 and 4.1.3.
    async fn redeemed(
        &self,
        found: &Discovered,
        (code, redirect_uri): (&str, &str),
        attempt: &SignInAttempt,
    ) -> Result<jose::IssuedTokens, Failure> {
        let UserProvider { issuer, client_id, client_secret, .. } = &self.settings;
        let [id, secret] = [client_id, client_secret].map(|text| utf8_percent_encode(text, PLAIN));
        let basic = BASE64_STANDARD.encode(format!("{id}:{secret}"));
        let verifier = attempt.verifier.as_str();
        let fields = [("code", code), ("redirect_uri", redirect_uri), ("code_verifier", verifier)];
        let fields =
            fields.map(|(name, value)| format!("&{name}={}", utf8_percent_encode(value, PLAIN)));
        let mut request = request(issuer, &found.endpoints.token);
        request.authorization = Some(format!("Basic {basic}"));
        request.form = Some(format!("grant_type=authorization_code{}", fields.concat()));
        let response = asked(&self.ask, request).await?;
        jose::issued_tokens(&response).map_err(|error| Failure::Failed(error.to_string()))
    }

    /// Checks an ID token, if need be with newer keys. Returns when the user signed in, if it has that.
    async fn check(
        &self,
        manager: &Manager,
        token: &str,
        attempt: &SignInAttempt,
        found: &Arc<Discovered>,
    ) -> Result<Option<u64>, String> {
        let now = manager.now();
        let UserProvider { issuer, client_id, .. } = &self.settings;
        let SignInAttempt { nonce, since_s, .. } = attempt;
        let expected = ExpectedIdToken { issuer, client_id, nonce, since_s: *since_s };
        let check = |found: &Discovered| {
            let keys = [(0, &found.keys, limits::SKEW_S)];
            jose::check_id_token(token.as_bytes(), expected, keys, now)
        };
        let mut checked = check(found);
        if matches!(checked, Err(IdTokenProblem::UnknownKey(_))) {
            let newer = self.discovered(now.unix_s, limits::TRUSTED_KEYS_AGAIN_S).await;
            checked = newer.map_or(checked, |newer| check(&newer));
        }
        let problem = match checked {
            Ok(auth_s) => return Ok(auth_s),
            Err(IdTokenProblem::UnknownKey(_)) => "no key of the provider has its `kid`",
            Err(IdTokenProblem::Invalid(problem)) => problem,
        };
        Err(format!("the ID token is rejected: {problem}"))
    }
}

/// A GET of a URL that `issuer` or its discovery document names.
fn request(issuer: &str, url: &str) -> ProviderRequest {
    let is_elsewhere = !jose::same_origin(url, issuer);
    ProviderRequest { url: url.to_owned(), is_elsewhere, authorization: None, form: None }
}

async fn asked(ask: &AskProvider, request: ProviderRequest) -> Result<Vec<u8>, AskError> {
    let ask = Arc::clone(ask);
    let asked = spawn_blocking(move || ask(request)).await;
    asked.unwrap_or_else(|_| Err(AskError::Outage("the request failed".to_owned())))
}

/// The claims of an ID token that was checked.
fn payload(token: &str) -> Result<Map<String, Value>, String> {
    let compact = Compact::parse(token.as_bytes(), Padding::Rejected);
    let compact = compact.map_err(|error| error.to_string())?;
    serde_json::from_slice(compact.payload()).map_err(|error| error.to_string())
}

/// Adds a response of the userinfo endpoint. Source: OpenID Connect Core section 5.3.2: it has to be about the same
/// user.
fn add(told: &mut Vec<Map<String, Value>>, userinfo: &[u8]) -> Result<(), String> {
    let more: Map<String, Value> = serde_json::from_slice(userinfo)
        .map_err(|_| "the response of the userinfo endpoint is not a JSON object")?;
    if more.get("sub").is_none() || more.get("sub") != claim(told, "sub") {
        return Err("the userinfo is that of another user".to_owned());
    }
    told.push(more);
    Ok(())
}

impl Provider {
    /// Whether the ID token lacks a claim that is used.
    fn wants_more_than(&self, told: &[Map<String, Value>]) -> bool {
        let groups =
            (!self.settings.mapping.roles.is_empty()).then_some(self.settings.groups.as_str());
        let others = self.settings.mapping.claims.iter().map(|(_, theirs)| theirs.as_str());
        let mut names = others.chain(groups).chain([self.settings.user.as_str()]);
        names.any(|name| claim(told, name).is_none())
    }

    /// The user whom the provider describes by the claims `told`: those of the ID token, and of the userinfo.
    fn profile_of(&self, told: &[Map<String, Value>]) -> Result<Profile, String> {
        let text = |name: &str| claim(told, name).and_then(Value::as_str);
        let name = text(&self.settings.user).filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| match self.settings.user.as_str() {
            EMAIL => format!("there is no text `{EMAIL}` with `{EMAIL_VERIFIED}` true"),
            user => format!("there is no text `{user}`"),
        })?;
        let sub = text("sub").filter(|sub| !sub.is_empty());
        let groups = match claim(told, &self.settings.groups) {
            Some(Value::Array(groups)) => groups.iter().filter_map(Value::as_str).collect(),
            Some(Value::String(group)) => vec![group.as_str()],
            Some(_) | None => Vec::new(),
        };
        let mut claims = claims_of(&self.settings.mapping, |name| text(name).map(str::to_owned));
        let is_email = |(name, theirs): &(String, String)| name == EMAIL && theirs == EMAIL;
        if claims.contains_key(EMAIL) && self.settings.mapping.claims.iter().any(is_email) {
            claims.insert(EMAIL_VERIFIED.to_owned(), Value::Bool(true));
        }
        Ok(Profile {
            source: self.settings.name.clone(),
            name: format!("{}/{name}", self.settings.name),
            // With another issuer in the configuration, the same `sub` is another user.
            id: format!("{}\n{}", self.settings.issuer, sub.ok_or("there is no `sub`")?)
                .into_bytes(),
            roles: roles_of(&self.settings.mapping, |group| groups.contains(&group)),
            claims,
        })
    }
}

/// A claim by its name, or by the names of objects and of their member, with dots between them: `realm_access.roles`.
/// The first of `told` that has it counts.
fn claim<'c>(told: &'c [Map<String, Value>], name: &str) -> Option<&'c Value> {
    told.iter().find_map(|claims| member(claims, name))
}

fn member<'c>(claims: &'c Map<String, Value>, name: &str) -> Option<&'c Value> {
    // An unverified address may belong to another person.
    if name == EMAIL && claims.get(EMAIL_VERIFIED) != Some(&Value::Bool(true)) {
        return None;
    }
    let nested = || {
        let (first, rest) = name.split_once('.')?;
        rest.split('.').try_fold(claims.get(first)?, |object, name| object.get(name))
    };
    claims.get(name).or_else(nested).filter(|value| !value.is_null())
}

#[cfg(test)]
mod tests {
    use model::UserMapping;
    use serde_json::json;

    use super::*;

    /// `user`, `groups` and a role `reader` for `group`; the name, the roles and the claim `email` of the user.
    #[track_caller]
    fn check(token: &Value, [user, groups, group]: [&str; 3], expect: &str) {
        let settings = UserProvider {
            name: "corp".to_owned(),
            title: String::new(),
            issuer: "https://id.example".to_owned(),
            client_id: String::new(),
            client_secret: String::new(),
            scopes: Vec::new(),
            user: user.to_owned(),
            groups: groups.to_owned(),
            mapping: UserMapping {
                claims: vec![("email".to_owned(), "email".to_owned())],
                roles: vec![("reader".to_owned(), vec![group.to_owned()])],
            },
        };
        let ask: AskProvider = Arc::new(|_| Err(AskError::Refused("not asked".to_owned())));
        let found =
            match Provider::new(settings, ask).profile_of(&[token.as_object().unwrap().clone()]) {
                Ok(Profile { name, id, roles, claims, .. }) => {
                    let (roles, id) = (roles.join(","), String::from_utf8(id).unwrap());
                    let id = id.strip_prefix("https://id.example\n").unwrap();
                    let email = claims.get("email").and_then(Value::as_str);
                    assert_eq!(email.is_some(), claims.contains_key("email_verified"), "{token}");
                    format!("{name} {id} [{roles}] {}", email.unwrap_or("-"))
                }
                Err(problem) => problem,
            };
        assert_eq!(found, expect, "{token}");
    }

    #[test]
    fn userinfo_adds_claims_of_the_same_user_only() {
        for (userinfo, expect) in [
            (r#"{"sub":"3f","groups":["a"],"name":"B"}"#, Ok("A a - -")),
            (r#"{"sub":"3f","access":{"roles":["b"]},"email":"B"}"#, Ok("A - b -")),
            (r#"{"sub":"3f","email":"B","email_verified":true}"#, Ok("A - - B")),
            (r#"{"sub":"4f","groups":["a"]}"#, Err("another user")),
            (r#"{"groups":["a"]}"#, Err("another user")),
            ("eyJhbGciOiJSUzI1NiJ9.e30.c2ln", Err("not a JSON object")),
        ] {
            let token =
                json!({ "sub": "3f", "name": "A", "groups": null, "access": {}, "email": "A" });
            let mut told = vec![token.as_object().unwrap().clone()];
            match (add(&mut told, userinfo.as_bytes()), expect) {
                (Ok(()), Ok(expect)) => {
                    let found = ["name", "groups", "access.roles", "email"].map(|name| {
                        let found = claim(&told, name).map(|value| value.get(0).unwrap_or(value));
                        found.and_then(Value::as_str).unwrap_or("-")
                    });
                    assert_eq!(found.join(" "), expect, "{userinfo}");
                }
                (Err(problem), Err(phrase)) => assert!(problem.contains(phrase), "{problem}"),
                (found, _) => panic!("{userinfo}: {found:?}"),
            }
        }
    }

    // The shapes are those of the providers' references of ID tokens.

    #[test]
    fn id_tokens_of_keycloak() {
        let token = json!({
            "exp": 1, "iat": 1, "auth_time": 1, "jti": "5c", "iss": "https://id.example/realms/staff",
            "aud": "gateway", "sub": "3f1c", "typ": "ID", "azp": "gateway", "nonce": "n", "sid": "8d",
            "at_hash": "h", "acr": "1", "email_verified": true, "name": "Ann Example",
            "preferred_username": "ann", "given_name": "Ann", "email": "ann@example.org",
            "groups": ["/staff", "/staff/readers"], "realm_access": { "roles": ["offline_access", "reader"] },
        });
        let found = "corp/ann 3f1c [reader] ann@example.org";
        check(&token, ["preferred_username", "groups", "/staff/readers"], found);
        check(&token, ["preferred_username", "realm_access.roles", "reader"], found);
        let none = "corp/ann 3f1c [] ann@example.org";
        check(&token, ["preferred_username", "groups", "readers"], none);
        check(&token, ["preferred_username", "groups", "/Staff"], none);
        check(&token, ["nickname", "groups", ""], "there is no text `nickname`");
        check(&token, ["email_verified", "groups", ""], "there is no text `email_verified`");
    }

    #[test]
    fn an_email_address_counts_if_the_provider_has_verified_it() {
        let mut token =
            json!({ "sub": "3f1c", "preferred_username": "ann", "email": "ann@example.org" });
        let unnamed = "there is no text `email` with `email_verified` true";
        for (verified, name, by_email) in [
            (
                json!(true),
                "corp/ann 3f1c [] ann@example.org",
                "corp/ann@example.org 3f1c [] ann@example.org",
            ),
            (json!(false), "corp/ann 3f1c [] -", unnamed),
            (json!("true"), "corp/ann 3f1c [] -", unnamed),
            (Value::Null, "corp/ann 3f1c [] -", unnamed),
        ] {
            token["email_verified"] = verified;
            check(&token, ["preferred_username", "groups", ""], name);
            check(&token, ["email", "groups", ""], by_email);
        }
    }

    #[test]
    fn id_tokens_of_entra_id() {
        let mut token = json!({
            "aud": "6e74172b", "iss": "https://login.microsoftonline.com/11111111-2222/v2.0", "iat": 1,
            "nbf": 1, "exp": 1, "name": "Ann Example", "nonce": "n", "oid": "c3", "rh": "I",
            "preferred_username": "ann@example.org", "sub": "HKZpfaHyWadeOouYlitjrI-KffTm222X5rrV3xDqfKQ",
            "tid": "11111111-2222", "uti": "f", "ver": "2.0", "roles": ["Reader"],
            "groups": ["0e129f6b-6b0a-4944-982d-f776000632af"],
        });
        let sub = "HKZpfaHyWadeOouYlitjrI-KffTm222X5rrV3xDqfKQ";
        let group = "0e129f6b-6b0a-4944-982d-f776000632af";
        check(&token, ["oid", "groups", group], &format!("corp/c3 {sub} [reader] -"));
        check(&token, ["oid", "roles", "Reader"], &format!("corp/c3 {sub} [reader] -"));
        // With too many groups there is a reference to them in their place.
        token["groups"] = Value::Null;
        token["_claim_names"] = json!({ "groups": "src1" });
        check(&token, ["oid", "groups", group], &format!("corp/c3 {sub} [] -"));
    }

    #[test]
    fn id_tokens_of_okta_and_auth0() {
        let okta = json!({
            "sub": "00u1", "name": "Ann Example", "email": "ann@example.org", "ver": 1,
            "iss": "https://org.okta.com/oauth2/default", "aud": "0oa1", "iat": 1, "exp": 1, "jti": "ID.1",
            "amr": ["pwd"], "idp": "00o1", "nonce": "n", "preferred_username": "ann@example.org",
            "auth_time": 1, "at_hash": "h", "groups": ["Everyone", "Readers"],
        });
        let found = "corp/ann@example.org 00u1 [reader] -";
        check(&okta, ["preferred_username", "groups", "Readers"], found);
        let auth0 = json!({
            "iss": "https://tenant.eu.auth0.com/", "sub": "auth0|12", "aud": "K1AU", "iat": 1, "exp": 1,
            "nickname": "ann", "nonce": "n", "https://example.org/roles": ["Readers"],
        });
        let user = "corp/auth0|12 auth0|12 [reader] -";
        check(&auth0, ["sub", "https://example.org/roles", "Readers"], user);
        check(&json!({ "nickname": "ann" }), ["nickname", "groups", ""], "there is no `sub`");
    }
}
