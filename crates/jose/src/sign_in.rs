//! A user's sign-in at an OpenID Connect provider: what is remembered of it meanwhile, and which ID token ends it.

use base::{Entropy, Now};

use crate::base64url::Padding;
use crate::claims::claim_texts;
use crate::error::TokenError;
use crate::jws::Compact;
use crate::keyset::KeySet;
use crate::revocations::token_hash_text;
use crate::sealed::SealingKeys;
use crate::sha256;

/// A browser on its way to the provider and back.
#[derive(Clone, PartialEq, Eq)]
pub struct SignInAttempt {
    /// Which response of the provider belongs to it.
    pub state: String,
    /// Which ID token belongs to it.
    pub nonce: String,
    /// Of PKCE.
    pub verifier: String,
    /// Where the browser goes on afterwards. One line.
    pub target: String,
    /// In seconds since the Unix epoch.
    until_s: u64,
}

/// Secrets are never printed.
impl std::fmt::Debug for SignInAttempt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SignInAttempt").finish_non_exhaustive()
    }
}

impl SignInAttempt {
    /// One that has to end within `most_s` seconds.
    #[must_use]
    pub fn begin(target: String, entropy: &dyn Entropy, now: Now, most_s: u64) -> Self {
        let random = || {
            let mut bytes = [0; 32];
            entropy.fill(&mut bytes);
            token_hash_text(&bytes)
        };
        Self {
            state: random(),
            nonce: random(),
            verifier: random(),
            target,
            until_s: now.unix_s.saturating_add(most_s),
        }
    }

    /// The challenge of PKCE. Source: RFC 7636 section 4.2.
    #[must_use]
    pub fn challenge(&self) -> String {
        token_hash_text(&sha256(self.verifier.as_bytes()))
    }

    /// For a cookie. `None` if the system provides no randomness.
    #[must_use]
    pub fn seal(&self, keys: &SealingKeys, provider: &str) -> Option<String> {
        let Self { state, nonce, verifier, target, until_s } = self;
        let text = format!("{until_s}\n{state}\n{nonce}\n{verifier}\n{target}");
        keys.seal(&format!("attempt {provider}"), text.as_bytes())
    }

    /// The attempt that was sealed for this provider, if it has this `state` and is not over.
    #[must_use]
    pub fn open(
        keys: &SealingKeys,
        provider: &str,
        (sealed, state): (&[u8], &[u8]),
        now: Now,
    ) -> Option<Self> {
        let text = keys.open(&format!("attempt {provider}"), sealed)?;
        let mut lines = std::str::from_utf8(&text).ok()?.split('\n');
        let until_s = lines.next()?.parse().ok()?;
        let mut next = || lines.next().map(str::to_owned);
        let (found, nonce, verifier, target) = (next()?, next()?, next()?, next()?);
        let attempt = Self { state: found, nonce, verifier, target, until_s };
        (now.unix_s < until_s && attempt.state.as_bytes() == state).then_some(attempt)
    }
}

/// What an ID token has to be.
#[derive(Clone, Copy, Debug)]
pub struct ExpectedIdToken<'a> {
    pub issuer: &'a str,
    pub client_id: &'a str,
    /// Of the attempt.
    pub nonce: &'a str,
}

/// Why an ID token is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdTokenProblem {
    /// Newer keys of the set with this number may verify it.
    UnknownKey(usize),
    Invalid(&'static str),
}

/// Checks that `token` is an ID token of the issuer, for this client, and that it belongs to an attempt. `sets`: keys of
/// the issuer, each with a number, and with the tolerated clock skew in seconds.
///
/// # Errors
/// It is not.
///
/// Source: OpenID Connect Core section 3.1.3.7.
pub fn check_id_token<'k>(
    token: &[u8],
    expected: ExpectedIdToken<'_>,
    sets: impl IntoIterator<Item = (usize, &'k KeySet, u64)>,
    now: Now,
) -> Result<(), IdTokenProblem> {
    use IdTokenProblem::Invalid;
    let jws = Compact::parse(token, Padding::Rejected).map_err(|_| Invalid("it is malformed"))?;
    let claims = jws.unverified_claims().map_err(|_| Invalid("its claims are malformed"))?;
    if claims.iss.as_deref() != Some(expected.issuer) {
        return Err(Invalid("`iss` is not the issuer of the login"));
    }
    let mut found = Err(Invalid("no key of the issuer verifies it"));
    for (number, keys, leeway_s) in sets {
        match jws.verify_signature(keys) {
            Ok(()) => {
                found = Ok(leeway_s);
                break;
            }
            Err(TokenError::UnknownKid) => found = Err(IdTokenProblem::UnknownKey(number)),
            Err(_) => {}
        }
    }
    let leeway_s = found?;
    let is_for = |client: &String| client == expected.client_id;
    if !claims.aud.iter().any(is_for) || claims.azp.as_ref().is_some_and(|azp| !is_for(azp)) {
        return Err(Invalid("`aud` or `azp` is another client"));
    }
    if claims.aud.len() > 1 && claims.azp.is_none() {
        return Err(Invalid("it has several `aud` and no `azp`"));
    }
    if claims.exp.is_none_or(|exp_s| now.unix_s >= exp_s.saturating_add(leeway_s)) {
        return Err(Invalid("it has expired"));
    }
    let names = ["nonce".to_owned()];
    let texts = claim_texts(token, &names).unwrap_or_default();
    let has_nonce = texts.into_iter().flatten().any(|found| found == expected.nonce);
    if has_nonce { Ok(()) } else { Err(Invalid("`nonce` is that of another sign-in")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Algorithm, Header, SigningKey};

    const NOW: Now = Now { unix_s: 1_790_000_000, mono_us: 0 };
    const SECRET: &[u8] = b"the secret of provider and client";

    /// The claims of a right ID token, with `from` replaced by `to`.
    #[track_caller]
    fn check(from: &str, to: &str, expect: Result<(), &'static str>) {
        let claims =
            r#"{"iss":"https://id.example","sub":"3f","aud":"me","nonce":"n","exp":1790000001}"#;
        assert!(claims.contains(from), "{from}");
        let key = SigningKey::from_secret(SECRET).unwrap();
        let header = Header { alg: Algorithm::Hs256, kid: None, typ: None };
        let token = key.sign(&header, &claims.replace(from, to)).unwrap();
        assert_eq!(checked(&token, SECRET), expect.map_err(IdTokenProblem::Invalid), "{to}");
    }

    fn checked(token: &str, secret: &[u8]) -> Result<(), IdTokenProblem> {
        let keys = KeySet::from_secret(secret).unwrap();
        let expected =
            ExpectedIdToken { issuer: "https://id.example", client_id: "me", nonce: "n" };
        check_id_token(token.as_bytes(), expected, [(0, &keys, 60)], NOW)
    }

    #[test]
    fn an_id_token_is_of_the_issuer_for_this_client_and_this_sign_in() {
        check("", "", Ok(()));
        let issuer = "`iss` is not the issuer of the login";
        check("https://id.example", "https://id.example/", Err(issuer));
        check(r#""iss":"https://id.example","#, "", Err(issuer));
        let nonce = "`nonce` is that of another sign-in";
        check(r#""nonce":"n""#, r#""nonce":"other""#, Err(nonce));
        check(r#""nonce":"n""#, r#""nonce":["n"]"#, Err(nonce));
        check(r#""nonce":"n","#, "", Err(nonce));
        let client = "`aud` or `azp` is another client";
        check(r#""aud":"me""#, r#""aud":"other""#, Err(client));
        check(r#""aud":"me","#, "", Err(client));
        check(r#""aud":"me""#, r#""aud":"me","azp":"other""#, Err(client));
        check(r#""aud":"me""#, r#""aud":"me","azp":"me""#, Ok(()));
        check(r#""aud":"me""#, r#""aud":["me"]"#, Ok(()));
        check(r#""aud":"me""#, r#""aud":["me","other"]"#, Err("it has several `aud` and no `azp`"));
        check(r#""aud":"me""#, r#""aud":["me","other"],"azp":"other""#, Err(client));
        check(r#""aud":"me""#, r#""aud":["other","me"],"azp":"me""#, Ok(()));
    }

    #[test]
    fn an_id_token_is_valid_until_its_end_and_the_skew_of_clocks() {
        check("1790000001", "1789999941", Ok(()));
        for exp in ["1789999940", "0"] {
            check("1790000001", exp, Err("it has expired"));
        }
        check(r#","exp":1790000001"#, "", Err("it has expired"));
    }

    #[test]
    fn an_id_token_is_signed_with_a_key_of_the_issuer() {
        let key = SigningKey::from_secret(SECRET).unwrap();
        let header = Header { alg: Algorithm::Hs256, kid: None, typ: None };
        let token = key.sign(&header, r#"{"iss":"https://id.example"}"#).unwrap();
        let unsigned = IdTokenProblem::Invalid("no key of the issuer verifies it");
        assert_eq!(checked(&token, b"the secret of somebody else......"), Err(unsigned));
        let malformed = IdTokenProblem::Invalid("it is malformed");
        assert_eq!(checked("e30", SECRET), Err(malformed));
    }
}
