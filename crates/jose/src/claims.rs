//! A JWT's claims: the registered ones that the gateway reads, each of its one type.

use crate::error::TokenError;
use crate::json::{self, JsonError, Object, Value};

/// What a token says about its bearer. Names and meaning: RFC 7519 section 4.1, RFC 9068 section 2.2;
/// `azp` by OpenID Connect Core section 2; `keytype` is WSO2's (`PRODUCTION` or `SANDBOX`).
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Claims {
    pub iss: Option<String>,
    pub sub: Option<String>,
    /// One audience or several; a single string is one.
    pub aud: Vec<String>,
    /// Seconds since the Unix epoch; a fraction is cut off.
    pub exp: Option<u64>,
    /// Seconds since the Unix epoch.
    pub nbf: Option<u64>,
    /// Seconds since the Unix epoch.
    pub iat: Option<u64>,
    pub jti: Option<String>,
    pub client_id: Option<String>,
    pub azp: Option<String>,
    /// From `scope` (a string, separated by spaces), and `scp` (such a string, or an array).
    pub scopes: Vec<String>,
    pub keytype: Option<String>,
}

/// Why a token's time is not now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LifetimeError {
    #[error("expired")]
    Expired,
    #[error("not yet valid")]
    NotYetValid,
}

impl Claims {
    /// Reads a JWS payload as claims.
    ///
    /// # Errors
    /// [`TokenError::Malformed`] unless it is a strict JSON object whose known claims have their types.
    pub fn parse(payload: &[u8]) -> Result<Self, TokenError> {
        let object = json::parse_object(payload)
            .map_err(|_| TokenError::Malformed("the claims are not a strict JSON object"))?;
        Ok(Self {
            iss: string(&object, "iss", "`iss` is not a string")?,
            sub: string(&object, "sub", "`sub` is not a string")?,
            aud: strings(&object, "aud", "`aud` is neither a string nor an array of them")?,
            exp: numeric_date(&object, "exp", "`exp` is not a NumericDate")?,
            nbf: numeric_date(&object, "nbf", "`nbf` is not a NumericDate")?,
            iat: numeric_date(&object, "iat", "`iat` is not a NumericDate")?,
            jti: string(&object, "jti", "`jti` is not a string")?,
            client_id: string(&object, "client_id", "`client_id` is not a string")?,
            azp: string(&object, "azp", "`azp` is not a string")?,
            scopes: scopes(&object)?,
            keytype: string(&object, "keytype", "`keytype` is not a string")?,
        })
    }

    /// Checks the token's lifetime at `now_s`, in seconds since the Unix epoch.
    /// `leeway_s` (0 to 300) forgives clock skew on both edges. A claim that is absent sets no edge.
    ///
    /// # Errors
    /// [`LifetimeError::Expired`] from `exp + leeway_s` on; [`LifetimeError::NotYetValid`] before
    /// `nbf - leeway_s`.
    ///
    /// Source: RFC 7519 sections 4.1.4 (`exp`) and 4.1.5 (`nbf`).
    pub fn check_lifetime(&self, now_s: u64, leeway_s: u64) -> Result<(), LifetimeError> {
        debug_assert!(leeway_s <= base::limits::LEEWAY_S_MAX);
        if self.exp.is_some_and(|exp_s| now_s >= exp_s.saturating_add(leeway_s)) {
            return Err(LifetimeError::Expired);
        }
        if self.nbf.is_some_and(|nbf_s| now_s.saturating_add(leeway_s) < nbf_s) {
            return Err(LifetimeError::NotYetValid);
        }
        Ok(())
    }
}

/// Claims are personal data: never printed.
impl std::fmt::Debug for Claims {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Claims").finish_non_exhaustive()
    }
}

/// `object_json` with the member `name` set to the JSON text `value_json`: in its old place, or last.
///
/// # Errors
/// When either text isn't strict JSON, or the first is no object.
pub fn with_member(object_json: &str, name: &str, value_json: &str) -> Result<String, JsonError> {
    json::with_member(object_json, name, value_json)
}

fn string(
    object: &Object<'_>,
    name: &str,
    problem: &'static str,
) -> Result<Option<String>, TokenError> {
    match object.get(name) {
        None => Ok(None),
        Some(value) => match value.as_str() {
            Some(text) => Ok(Some(text.to_owned())),
            None => Err(TokenError::Malformed(problem)),
        },
    }
}

/// One string, or an array of strings.
fn strings(
    object: &Object<'_>,
    name: &str,
    problem: &'static str,
) -> Result<Vec<String>, TokenError> {
    match object.get(name) {
        None => Ok(Vec::new()),
        Some(Value::String(text)) => Ok(vec![text.clone().into_owned()]),
        Some(Value::Array(items)) => items
            .iter()
            .map(|item| item.as_str().map(str::to_owned))
            .collect::<Option<_>>()
            .ok_or(TokenError::Malformed(problem)),
        Some(_) => Err(TokenError::Malformed(problem)),
    }
}

/// `scope` by RFC 8693 section 4.2; `scp` is what Entra ID (a string) and Okta (an array) write.
fn scopes(object: &Object<'_>) -> Result<Vec<String>, TokenError> {
    let scope = string(object, "scope", "`scope` is not a string")?.unwrap_or_default();
    let scp = strings(object, "scp", "`scp` is neither a string nor an array of them")?;
    Ok(std::iter::once(&scope)
        .chain(&scp)
        .flat_map(|text| text.split(' '))
        .filter(|one| !one.is_empty())
        .map(str::to_owned)
        .collect())
}

/// RFC 7519 section 2, NumericDate: "Non-integer values can be represented"; before 1970 refused.
fn numeric_date(
    object: &Object<'_>,
    name: &str,
    problem: &'static str,
) -> Result<Option<u64>, TokenError> {
    match object.get(name) {
        None => Ok(None),
        Some(Value::Unsigned(seconds)) => Ok(Some(*seconds)),
        Some(Value::Number(number)) => match whole_seconds(*number) {
            Some(seconds) => Ok(Some(seconds)),
            None => Err(TokenError::Malformed(problem)),
        },
        Some(
            Value::Null | Value::Bool(_) | Value::String(_) | Value::Array(_) | Value::Object(_),
        ) => Err(TokenError::Malformed(problem)),
    }
}

/// The fraction cut off; `None` if the number is negative or beyond `u64`.
fn whole_seconds(number: f64) -> Option<u64> {
    // 2^64 is exact in an f64.
    const BEYOND: f64 = 18_446_744_073_709_551_616.0;
    if number.is_sign_negative() || number >= BEYOND {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "range checked")]
    Some(number as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_claim_is_read_in_each_of_its_forms() {
        let claims = read(
            r#"{"iss":"https://localhost:9443/oauth2/token","sub":"admin@carbon.super","aud":"key","exp":1900000000,
                "nbf":1600000000,"iat":1600000001,"jti":"j","client_id":"key","azp":"key",
                "scope":"am_application_scope default","keytype":"PRODUCTION","other":[{"x":null}]}"#,
        );
        let expect = Claims {
            iss: Some("https://localhost:9443/oauth2/token".into()),
            sub: Some("admin@carbon.super".into()),
            aud: vec!["key".into()],
            exp: Some(1_900_000_000),
            nbf: Some(1_600_000_000),
            iat: Some(1_600_000_001),
            jti: Some("j".into()),
            client_id: Some("key".into()),
            azp: Some("key".into()),
            scopes: vec!["am_application_scope".into(), "default".into()],
            keytype: Some("PRODUCTION".into()),
        };
        assert!(claims == Ok(expect));
        assert!(read("{}") == Ok(Claims::default()));
    }

    #[test]
    fn audiences_and_scopes_come_as_one_string_or_several() {
        let aud = |json| read(json).map(|claims| claims.aud);
        assert_eq!(aud(r#"{"aud":["a","b c"]}"#), Ok(vec!["a".into(), "b c".into()]));
        assert_eq!(aud(r#"{"aud":"b c"}"#), Ok(vec!["b c".into()]));
        assert_eq!(aud(r#"{"aud":[]}"#), Ok(vec![]));
        for (json, expect) in [
            (r#"{"scope":" a  b "}"#, vec!["a", "b"]),
            (r#"{"scope":""}"#, vec![]),
            (r#"{"scp":"a b"}"#, vec!["a", "b"]),
            (r#"{"scp":["a","b"]}"#, vec!["a", "b"]),
            (r#"{"scp":["c"],"scope":"a b"}"#, vec!["a", "b", "c"]),
        ] {
            let scopes = read(json).map(|claims| claims.scopes);
            assert_eq!(scopes, Ok(expect.into_iter().map(str::to_owned).collect()), "{json}");
        }
    }

    #[test]
    fn a_claim_of_another_type_is_refused() {
        for name in ["iss", "sub", "jti", "client_id", "azp", "keytype", "scope"] {
            for value in ["null", "true", "1", "[]", "[\"a\"]", "{}"] {
                refused(&format!("{{\"{name}\":{value}}}"));
            }
        }
        for name in ["aud", "scp"] {
            for value in ["null", "true", "1", "{}", "[1]", "[\"a\",null]", "[[\"a\"]]"] {
                refused(&format!("{{\"{name}\":{value}}}"));
            }
        }
        for name in ["exp", "nbf", "iat"] {
            for value in [
                "null",
                "true",
                "\"1\"",
                "[1]",
                "{}",
                "-1",
                "-0.5",
                "-1e3",
                "1e20",
                "18446744073709551616",
            ] {
                refused(&format!("{{\"{name}\":{value}}}"));
            }
        }
    }

    #[test]
    fn dates_are_whole_seconds_with_fractions_cut_off() {
        for (text, expect) in [
            ("0", 0),
            ("1.9", 1),
            ("1600000000.999", 1_600_000_000),
            ("1.6e9", 1_600_000_000),
            ("9223372036854775807", 9_223_372_036_854_775_807),
            ("18446744073709551615", u64::MAX),
        ] {
            let exp = read(&format!("{{\"exp\":{text}}}")).map(|claims| claims.exp);
            assert_eq!(exp, Ok(Some(expect)), "{text}");
        }
    }

    #[test]
    fn a_token_lives_from_nbf_until_just_before_exp_with_leeway_on_both_edges() {
        use LifetimeError::{Expired, NotYetValid};
        let both = (Some(100), Some(200));
        lives(both, 0, &[(0, Err(NotYetValid)), (99, Err(NotYetValid)), (100, Ok(()))]);
        lives(both, 0, &[(199, Ok(())), (200, Err(Expired)), (u64::MAX, Err(Expired))]);
        lives(
            both,
            10,
            &[(89, Err(NotYetValid)), (90, Ok(())), (209, Ok(())), (210, Err(Expired))],
        );
        lives((None, None), 0, &[(0, Ok(())), (u64::MAX, Ok(()))]);
        lives((None, Some(0)), 0, &[(0, Err(Expired))]);
        lives(
            (Some(u64::MAX), Some(u64::MAX)),
            300,
            &[(0, Err(NotYetValid)), (u64::MAX, Err(Expired))],
        );
        // One that could never be valid.
        lives((Some(200), Some(100)), 0, &[(150, Err(Expired)), (50, Err(NotYetValid))]);
    }

    #[test]
    fn a_member_is_replaced_in_its_place_or_added_at_the_end() {
        for (object, expect) in [
            ("{}", Ok(r#"{"jti":"x"}"#)),
            (r#" { "a" : [1.50, "\u00e9"] } "#, Ok(r#"{"a":[1.50, "\u00e9"],"jti":"x"}"#)),
            (r#"{"jti":1,"b":{"jti":2}}"#, Ok(r#"{"jti":"x","b":{"jti":2}}"#)),
            ("[]", Err(())),
            ("{", Err(())),
            (r#"{"a":1,"a":2}"#, Err(())),
        ] {
            let merged = with_member(object, "jti", "\"x\"").map_err(|_| ());
            assert_eq!(merged.as_deref(), expect.as_ref().map(|text| *text), "{object}");
        }
        assert!(with_member("{}", "jti", "x").is_err());
    }

    fn read(json: &str) -> Result<Claims, TokenError> {
        Claims::parse(json.as_bytes())
    }

    #[track_caller]
    fn refused(json: &str) {
        assert!(matches!(read(json), Err(TokenError::Malformed(_))), "{json}");
    }

    /// Of a token with `(nbf, exp)`: its state at each time, in seconds.
    #[track_caller]
    fn lives(
        (nbf, exp): (Option<u64>, Option<u64>),
        leeway_s: u64,
        expect: &[(u64, Result<(), LifetimeError>)],
    ) {
        let claims = Claims { nbf, exp, ..Claims::default() };
        for (now_s, state) in expect {
            assert_eq!(claims.check_lifetime(*now_s, leeway_s), *state, "at {now_s}");
        }
    }
}
