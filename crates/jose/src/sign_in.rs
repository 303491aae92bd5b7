//! A user's sign-in at an OpenID Connect provider: the state kept meanwhile, and the check of the ID token that ends
//! it.

use aws_lc_rs::constant_time::verify_slices_are_equal;
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
    /// Identifies the provider's response to this attempt.
    pub state: String,
    /// Identifies the ID token of this attempt.
    pub nonce: String,
    /// The code verifier of PKCE.
    pub verifier: String,
    /// The URL to which the browser returns afterwards, on one line.
    pub target: String,
    /// The earliest acceptable time of the user's sign-in at the provider, in seconds since the Unix epoch; 0 for any.
    pub since_s: u64,
    /// End of the attempt, in seconds since the Unix epoch.
    until_s: u64,
}

/// Secrets are never printed.
impl std::fmt::Debug for SignInAttempt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SignInAttempt").finish_non_exhaustive()
    }
}

impl SignInAttempt {
    /// Begins an attempt that has to end within `most_s` seconds. `max_age_s` is the maximum age of the user's sign-in
    /// at the provider; `None` for any age.
    #[must_use]
    pub fn begin(
        target: String,
        max_age_s: Option<u64>,
        entropy: &dyn Entropy,
        now: Now,
        most_s: u64,
    ) -> Self {
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
            since_s: max_age_s.map_or(0, |age_s| now.unix_s.saturating_sub(age_s).max(1)),
            until_s: now.unix_s.saturating_add(most_s),
        }
    }

    /// The challenge of PKCE. Source: RFC 7636 section 4.2.
    #[must_use]
    pub fn challenge(&self) -> String {
        token_hash_text(&sha256(self.verifier.as_bytes()))
    }

    /// Seals the attempt for a cookie. `None` if the system provides no randomness.
    #[must_use]
    pub fn seal(&self, keys: &SealingKeys, provider: &str) -> Option<String> {
        let Self { state, nonce, verifier, target, since_s, until_s } = self;
        let text = format!("{until_s}\n{since_s}\n{state}\n{nonce}\n{verifier}\n{target}");
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
        let since_s = lines.next()?.parse().ok()?;
        let mut next = || lines.next().map(str::to_owned);
        let (found, nonce, verifier, target) = (next()?, next()?, next()?, next()?);
        let attempt = Self { state: found, nonce, verifier, target, since_s, until_s };
        let is_it = verify_slices_are_equal(attempt.state.as_bytes(), state).is_ok();
        (now.unix_s < until_s && is_it).then_some(attempt)
    }
}

/// Query parameters, each after `&`, that request a sign-in of at most this age from a provider, with `auth_time` in
/// the ID token. Source: OpenID Connect Core section 3.1.2.1.
#[must_use]
pub fn fresh_sign_in(max_age_s: Option<u64>) -> String {
    match max_age_s {
        None => String::new(),
        Some(0) => "&prompt=login&max_age=0".to_owned(),
        Some(age_s) => format!("&max_age={age_s}"),
    }
}

/// The requirements on an ID token.
#[derive(Clone, Copy, Debug)]
pub struct ExpectedIdToken<'a> {
    pub issuer: &'a str,
    pub client_id: &'a str,
    /// The nonce of the attempt.
    pub nonce: &'a str,
    /// The earliest sign-in that the attempt accepts. Unless it is 0, the token needs `auth_time`.
    pub since_s: u64,
}

/// Why an ID token is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdTokenProblem {
    /// The key is unknown; a newer version of the set with this number may have it.
    UnknownKey(usize),
    Invalid(&'static str),
}

/// Checks that `token` is an ID token of the issuer, for this client, and that it belongs to an attempt. `sets`: key
/// sets of the issuer, each with a number and the tolerated clock skew in seconds. Returns the time of the user's
/// sign-in, in seconds since the Unix epoch, if the token has it.
///
/// # Errors
/// The first check that fails.
///
/// Source: OpenID Connect Core section 3.1.3.7.
pub fn check_id_token<'k>(
    token: &[u8],
    expected: ExpectedIdToken<'_>,
    sets: impl IntoIterator<Item = (usize, &'k KeySet, u64)>,
    now: Now,
) -> Result<Option<u64>, IdTokenProblem> {
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
    let text = |name: &str| claim_texts(token, &[name.to_owned()])?.into_iter().flatten().next();
    if text("nonce").as_deref() != Some(expected.nonce) {
        return Err(Invalid("`nonce` is that of another sign-in"));
    }
    let signed_in_s = text("auth_time").and_then(|text| text.parse::<u64>().ok());
    if expected.since_s > 0 {
        let found_s = signed_in_s.ok_or(Invalid("it has no `auth_time`, as `max_age` demands"))?;
        if found_s.saturating_add(leeway_s) < expected.since_s {
            return Err(Invalid("`auth_time`: the user signed in before `max_age`"));
        }
    }
    Ok(signed_in_s)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Algorithm, Header, SigningKey};

    const NOW: Now = Now { unix_s: 1_790_000_000, mono_us: 0 };
    const SECRET: &[u8] = b"the secret of provider and client";

    /// Checks the claims of a valid ID token, with `from` replaced by `to`.
    #[track_caller]
    fn check(from: &str, to: &str, expect: Result<(), &'static str>) {
        let claims =
            r#"{"iss":"https://id.example","sub":"3f","aud":"me","nonce":"n","exp":1790000001}"#;
        assert!(claims.contains(from), "{from}");
        let key = SigningKey::from_secret(SECRET).unwrap();
        let header = Header { alg: Algorithm::Hs256, kid: None, typ: None };
        let token = key.sign(&header, &claims.replace(from, to)).unwrap();
        let checked = checked(&token, SECRET, 0).map(drop);
        assert_eq!(checked, expect.map_err(IdTokenProblem::Invalid), "{to}");
    }

    fn checked(token: &str, secret: &[u8], since_s: u64) -> Result<Option<u64>, IdTokenProblem> {
        let keys = KeySet::from_secret(secret).unwrap();
        let (issuer, client_id, nonce) = ("https://id.example", "me", "n");
        let expected = ExpectedIdToken { issuer, client_id, nonce, since_s };
        check_id_token(token.as_bytes(), expected, [(0, &keys, 60)], NOW)
    }

    #[test]
    fn an_id_token_proves_a_sign_in_that_is_recent_enough() {
        const MISSING: &str = "it has no `auth_time`, as `max_age` demands";
        const EARLY: &str = "`auth_time`: the user signed in before `max_age`";
        let key = SigningKey::from_secret(SECRET).unwrap();
        for (auth_time, since_s, expect) in [
            ("", 0, Ok(None)),
            (r#","auth_time":"yesterday""#, 0, Ok(None)),
            (r#","auth_time":5"#, 0, Ok(Some(5))),
            ("", 1, Err(MISSING)),
            (r#","auth_time":null"#, 1, Err(MISSING)),
            (r#","auth_time":-5"#, 1, Err(MISSING)),
            (r#","auth_time":1789999940"#, 1_790_000_000, Ok(Some(1_789_999_940))),
            (r#","auth_time":1789999939"#, 1_790_000_000, Err(EARLY)),
            (r#","auth_time":18446744073709551615"#, 1_790_000_000, Ok(Some(u64::MAX))),
        ] {
            let claims =
                r#"{"iss":"https://id.example","sub":"3f","aud":"me","nonce":"n","exp":1790000001"#;
            let header = Header { alg: Algorithm::Hs256, kid: None, typ: None };
            let token = key.sign(&header, &format!("{claims}{auth_time}}}")).unwrap();
            let found = checked(&token, SECRET, since_s);
            assert_eq!(found, expect.map_err(IdTokenProblem::Invalid), "{auth_time} {since_s}");
        }
    }

    #[test]
    fn an_attempt_remembers_how_old_a_sign_in_may_be() {
        let keys = SealingKeys::new(SECRET).unwrap();
        for (max_age_s, since_s, parameters) in [
            (None, 0, ""),
            (Some(0), NOW.unix_s, "&prompt=login&max_age=0"),
            (Some(60), NOW.unix_s - 60, "&max_age=60"),
            (Some(u64::MAX), 1, "&max_age=18446744073709551615"),
        ] {
            let attempt =
                SignInAttempt::begin("/".to_owned(), max_age_s, &base::SystemEntropy, NOW, 600);
            let (sealed, state) = (attempt.seal(&keys, "id").unwrap(), attempt.state.as_bytes());
            let opened = SignInAttempt::open(&keys, "id", (sealed.as_bytes(), state), NOW).unwrap();
            assert_eq!((opened.since_s, &*fresh_sign_in(max_age_s)), (since_s, parameters));
        }
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
        assert_eq!(checked(&token, b"the secret of somebody else......", 0), Err(unsigned));
        let malformed = IdTokenProblem::Invalid("it is malformed");
        assert_eq!(checked("e30", SECRET, 0), Err(malformed));
    }
}
