//! The claims of a JWT that the gateway reads, with their types checked.

use crate::base64url::{self, Padding};
use crate::error::TokenError;
use crate::json::{self, JsonError, Object, Value};
use crate::subscriptions::TokenSubscriptions;

/// The claims of a token. Names and meaning: RFC 7519 section 4.1, RFC 9068 section 2.2;
/// `azp` by OpenID Connect Core section 2; `keytype` is WSO2's (`PRODUCTION` or `SANDBOX`).
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Claims {
    pub iss: Option<String>,
    /// `sub`; a whole number becomes its decimal text.
    pub sub: Option<String>,
    /// The audiences; a single string is one.
    pub aud: Vec<String>,
    /// Seconds since the Unix epoch; a fraction is truncated.
    pub exp: Option<u64>,
    /// Seconds since the Unix epoch.
    pub nbf: Option<u64>,
    /// Seconds since the Unix epoch.
    pub iat: Option<u64>,
    pub jti: Option<String>,
    pub client_id: Option<String>,
    pub azp: Option<String>,
    /// The claim that some providers use instead of `azp` and `client_id`: `cid` (Okta), `appid` (Entra ID, tokens of
    /// version 1).
    pub other_client_id: Option<String>,
    /// The scopes in `scope` and `scp`, each a string separated by spaces, or an array.
    pub scopes: Vec<String>,
    pub keytype: Option<String>,
    /// `aut`: whether the token was issued for an application or a user, in WSO2's terms.
    pub aut: Option<String>,
    /// `token_type`, which is `apiKey` in WSO2's API keys.
    pub token_type: Option<String>,
    /// `permittedIP`: addresses and blocks, separated by commas.
    pub permitted_ip: Option<String>,
    /// `permittedReferer`: patterns, separated by commas.
    pub permitted_referer: Option<String>,
    /// Whether it is an ID token, a refresh token or a logout token, which grant no access.
    pub has_other_use: bool,
    /// `cnf`: the key whose possession the client has to prove.
    pub confirmation: Option<Confirmation>,
    /// `subscribedAPIs` and the related claims of WSO2.
    pub subscriptions: Option<Box<TokenSubscriptions>>,
}

/// The key that a token is bound to. Source: RFC 7800.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confirmation {
    /// `x5t#S256`: the certificate of the client's TLS handshake, by its SHA-256. Source: RFC 8705 section 3.1.
    Certificate([u8; 32]),
    /// `jkt`: the key of the client's proofs, by its thumbprint. Source: RFC 9449 section 6.1.
    Key([u8; 32]),
    /// A kind of proof that is not supported, or more than one.
    Other,
}

impl Claims {
    /// Parses a JWS payload as claims. One that is `null` counts as absent.
    ///
    /// # Errors
    /// [`TokenError::Malformed`] unless it is a strict JSON object whose known claims have their types.
    pub fn parse(payload: &[u8]) -> Result<Self, TokenError> {
        let object = json::parse_object(payload)
            .map_err(|_| TokenError::Malformed("the claims are not a strict JSON object"))?;
        Self::of(&object)
    }

    /// The claims among the members of an object.
    pub(crate) fn of(object: &Object<'_>) -> Result<Self, TokenError> {
        Ok(Self {
            iss: string(object, "iss", "`iss` is not a string")?,
            sub: subject(object)?,
            aud: strings(object, "aud", "`aud` is neither a string nor an array of them")?,
            exp: numeric_date(object, "exp", "`exp` is not a NumericDate")?,
            nbf: numeric_date(object, "nbf", "`nbf` is not a NumericDate")?,
            iat: numeric_date(object, "iat", "`iat` is not a NumericDate")?,
            jti: string(object, "jti", "`jti` is not a string")?,
            client_id: string(object, "client_id", "`client_id` is not a string")?,
            azp: string(object, "azp", "`azp` is not a string")?,
            other_client_id: text(object, "cid").or_else(|| text(object, "appid")),
            scopes: scopes(object)?,
            keytype: string(object, "keytype", "`keytype` is not a string")?,
            aut: text(object, "aut"),
            token_type: text(object, "token_type"),
            permitted_ip: string(object, "permittedIP", "`permittedIP` is not a string")?,
            permitted_referer: string(
                object,
                "permittedReferer",
                "`permittedReferer` is not a string",
            )?,
            confirmation: confirmation(object)?,
            has_other_use: has_other_use(object),
            subscriptions: TokenSubscriptions::of(object)?,
        })
    }
}

/// The claims `names` of a verified token as texts, in the same order. `None` if the type of one of them would require
/// the spelling in the token.
#[must_use]
pub fn claim_texts(token: &[u8], names: &[String]) -> Option<Vec<Option<String>>> {
    let payload = token.split(|byte| *byte == b'.').nth(1)?;
    let payload = base64url::decode(payload, Padding::Allowed)?;
    let object = json::parse_object(&payload).ok()?;
    let text = |name: &String| match object.get(name) {
        Some(Value::String(text)) => Some(Some(text.clone().into_owned())),
        Some(Value::Bool(flag)) => Some(Some(flag.to_string())),
        Some(Value::Unsigned(number)) => Some(Some(number.to_string())),
        Some(Value::Negative(number)) => Some(Some(number.to_string())),
        Some(Value::Null | Value::Number(_) | Value::Array(_) | Value::Object(_)) => None,
        None => (!object.has(name)).then_some(None),
    };
    names.iter().map(text).collect()
}

/// Claims are personal data and aren't printed.
impl std::fmt::Debug for Claims {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Claims").finish_non_exhaustive()
    }
}

/// Sets the member `name` of `object_json` to the JSON text `value_json`: in its old place, or last.
///
/// # Errors
/// If either text isn't strict JSON, or the first isn't an object.
pub fn with_member(object_json: &str, name: &str, value_json: &str) -> Result<String, JsonError> {
    json::with_member(object_json, name, value_json)
}

/// Whether the claims are those of a token that allows no access: an ID token (OpenID Connect Core sections 2 and
/// 3.3.2.11), a logout token (Back-Channel Logout section 2.4), or one that its issuer calls so, as Keycloak (`typ`)
/// and Cognito (`token_use`) do.
fn has_other_use(object: &Object<'_>) -> bool {
    let is = |name: &str, values: &[&str]| {
        let found = object.get(name).and_then(Value::as_str);
        found.is_some_and(|found| values.iter().any(|value| found.eq_ignore_ascii_case(value)))
    };
    let has = |names: &[&str]| names.iter().any(|name| object.get(name).is_some());
    // Before version 25, Keycloak's access tokens had the nonce as well.
    let is_for_access =
        is("typ", &["Bearer", "DPoP"]) || is("token_use", &["access"]) || has(&["scope", "scp"]);
    is("typ", &["ID", "Refresh", "Offline", "Logout"])
        || is("token_use", &["id", "refresh"])
        || has(&["at_hash", "c_hash", "events"])
        || has(&["nonce"]) && !is_for_access
}

/// A claim that other issuers may use for something else.
fn text(object: &Object<'_>, name: &str) -> Option<String> {
    object.get(name).and_then(Value::as_str).map(str::to_owned)
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

/// Parses `cnf`. If it has any member other than a thumbprint, it is unsupported, since that member may require a proof
/// too.
fn confirmation(object: &Object<'_>) -> Result<Option<Confirmation>, TokenError> {
    let cnf = match object.get("cnf") {
        None => return Ok(None),
        Some(Value::Object(cnf)) => cnf,
        Some(_) => return Err(TokenError::Malformed("`cnf` is not an object")),
    };
    let hash = |name| cnf.get(name).and_then(Value::as_str).and_then(base64url::hash);
    Ok(Some(match (hash("x5t#S256"), hash("jkt")) {
        (Some(certificate), None) if cnf.len() == 1 => Confirmation::Certificate(certificate),
        (None, Some(key)) if cnf.len() == 1 => Confirmation::Key(key),
        (_, _) => Confirmation::Other,
    }))
}

/// `sub` is a string (RFC 7519 section 4.1.2), but some issuers write the number of the user's row. Like WSO2, this
/// takes its decimal text, but only for whole numbers of up to 64 bits: other numbers lose digits, so that two subjects
/// could become one.
fn subject(object: &Object<'_>) -> Result<Option<String>, TokenError> {
    match object.get("sub") {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone().into_owned())),
        Some(Value::Unsigned(number)) => Ok(Some(number.to_string())),
        Some(Value::Negative(number)) => Ok(Some(number.to_string())),
        Some(
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_),
        ) => Err(TokenError::Malformed("`sub` is neither a string nor a whole number")),
    }
}

/// `scope`: RFC 8693 section 4.2 (a string), other issuers write an array; `scp`: Entra ID (a string) and Okta
/// (an array).
fn scopes(object: &Object<'_>) -> Result<Vec<String>, TokenError> {
    let scope = strings(object, "scope", "`scope` is neither a string nor an array of them")?;
    let scp = strings(object, "scp", "`scp` is neither a string nor an array of them")?;
    Ok(scope
        .iter()
        .chain(&scp)
        .flat_map(|text| text.split(' '))
        .filter(|one| !one.is_empty())
        .map(str::to_owned)
        .collect())
}

/// Parses a NumericDate, which may have a fraction (RFC 7519 section 2). Times before 1970 are rejected.
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
            Value::Null
            | Value::Negative(_)
            | Value::Bool(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_),
        ) => Err(TokenError::Malformed(problem)),
    }
}

/// The fraction is truncated; `None` if the number is negative or beyond `u64`.
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
    fn claims_are_texts_if_their_spelling_is_certain() {
        let check = |payload: &str, names: &str, expect: Option<&[Option<&str>]>| {
            let token = format!("e30.{}.c2ln", base64url::encode(payload.as_bytes()));
            let names: Vec<_> = names.split(' ').map(str::to_owned).collect();
            let found = claim_texts(token.as_bytes(), &names);
            let found =
                found.as_ref().map(|all| all.iter().map(Option::as_deref).collect::<Vec<_>>());
            assert_eq!(found.as_deref(), expect, "{payload} {names:?}");
        };
        let payload = r#"{"a":"x","b":7,"c":-1,"d":true,"e":[1],"f":1.50,"g":{},"h":null}"#;
        check(payload, "a b c d z", Some(&[Some("x"), Some("7"), Some("-1"), Some("true"), None]));
        for unclear in ["e", "f", "g", "h", "a h"] {
            check(payload, unclear, None);
        }
        check("[]", "a", None);
        assert_eq!(claim_texts(b"opaque", &["a".to_owned()]), None);
    }

    #[test]
    fn every_claim_is_parsed() {
        let claims = read(
            r#"{"iss":"https://localhost:9443/oauth2/token","sub":"admin@carbon.super","aud":"key","exp":1900000000,
                "nbf":1600000000,"iat":1600000001,"jti":"j","client_id":"key","azp":"key",
                "scope":"am_application_scope default","keytype":"PRODUCTION","aut":"APPLICATION",
                "token_type":"apiKey","permittedIP":"10.0.0.1","permittedReferer":"a,b","other":[{"x":null}]}"#,
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
            other_client_id: None,
            scopes: vec!["am_application_scope".into(), "default".into()],
            keytype: Some("PRODUCTION".into()),
            aut: Some("APPLICATION".into()),
            token_type: Some("apiKey".into()),
            permitted_ip: Some("10.0.0.1".into()),
            permitted_referer: Some("a,b".into()),
            has_other_use: false,
            confirmation: None,
            subscriptions: None,
        };
        assert!(claims == Ok(expect));
        assert!(read("{}") == Ok(Claims::default()));
    }

    #[test]
    fn a_token_that_is_for_another_use_than_access_is_recognised_by_its_claims() {
        for (json, expect) in [
            ("{}", false),
            (r#"{"at_hash":"x"}"#, true),
            (r#"{"c_hash":"x"}"#, true),
            (r#"{"nonce":"n","aud":"web"}"#, true),
            (r#"{"typ":"ID"}"#, true),
            (r#"{"typ":"Refresh"}"#, true),
            (r#"{"typ":"Offline"}"#, true),
            (r#"{"typ":"Logout"}"#, true),
            (r#"{"token_use":"id"}"#, true),
            (r#"{"token_use":"refresh"}"#, true),
            (r#"{"events":{"http://schemas.openid.net/event/backchannel-logout":{}}}"#, true),
            (r#"{"typ":"Bearer"}"#, false),
            (r#"{"typ":"DPoP","nonce":"n"}"#, false),
            (r#"{"typ":"ID","scope":"openid"}"#, true),
            (r#"{"nonce":"n","typ":"Bearer"}"#, false),
            (r#"{"nonce":"n","token_use":"access"}"#, false),
            (r#"{"nonce":"n","scope":"openid"}"#, false),
            (r#"{"nonce":"n","scp":["read"]}"#, false),
            (r#"{"nonce":"n","scope":null}"#, true),
            (r#"{"typ":7,"token_use":["id"]}"#, false),
        ] {
            let found = read(json).map(|claims| claims.has_other_use);
            assert_eq!(found, Ok(expect), "{json}");
        }
    }

    #[test]
    fn audiences_and_scopes_are_one_string_or_several() {
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
            (r#"{"scope":["a","b c",""]}"#, vec!["a", "b", "c"]),
            (r#"{"scope":[]}"#, vec![]),
            (r#"{"scp":null,"scope":["a"]}"#, vec!["a"]),
        ] {
            let scopes = read(json).map(|claims| claims.scopes);
            assert_eq!(scopes, Ok(expect.into_iter().map(str::to_owned).collect()), "{json}");
        }
    }

    #[test]
    fn a_claim_of_another_type_is_rejected() {
        let texts =
            ["iss", "jti", "client_id", "azp", "keytype", "permittedIP", "permittedReferer"];
        for name in texts {
            for value in ["true", "1", "[]", "[\"a\"]", "{}"] {
                rejected(&format!("{{\"{name}\":{value}}}"));
            }
        }
        assert!(read(r#"{"aut":1,"token_type":["Bearer"]}"#) == Ok(Claims::default()));
        for value in ["true", "[]", "[1]", "{}", "1.5", "1e3", "-0", "18446744073709551616"] {
            rejected(&format!("{{\"sub\":{value}}}"));
        }
        for name in ["aud", "scope", "scp"] {
            for value in ["true", "1", "{}", "[1]", "[\"a\",null]", "[[\"a\"]]"] {
                rejected(&format!("{{\"{name}\":{value}}}"));
            }
        }
        for name in ["exp", "nbf", "iat"] {
            for value in
                ["true", "\"1\"", "[1]", "{}", "-1", "-0.5", "-1e3", "1e20", "18446744073709551616"]
            {
                rejected(&format!("{{\"{name}\":{value}}}"));
            }
        }
    }

    #[test]
    fn a_token_is_bound_to_a_certificate_a_key_or_something_unknown() {
        let thumbprint = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";
        let known = std::array::from_fn(|byte| u8::try_from(byte).unwrap());
        for (cnf, expect) in [
            (format!(r#"{{"x5t#S256":"{thumbprint}"}}"#), Confirmation::Certificate(known)),
            (format!(r#"{{"x5t#S256":"{thumbprint}="}}"#), Confirmation::Other),
            (format!(r#"{{"x5t#S256":"{}"}}"#, &thumbprint[4..]), Confirmation::Other),
            (format!(r#"{{"x5t#S256":"{thumbprint}","jkt":"a"}}"#), Confirmation::Other),
            (format!(r#"{{"jkt":"{thumbprint}"}}"#), Confirmation::Key(known)),
            (format!(r#"{{"jkt":"{thumbprint}","x5t#S256":"{thumbprint}"}}"#), Confirmation::Other),
            (format!(r#"{{"jkt":"{thumbprint}","kid":"a"}}"#), Confirmation::Other),
            (r#"{"x5t#S256":1}"#.to_owned(), Confirmation::Other),
            (r#"{"jkt":"a"}"#.to_owned(), Confirmation::Other),
            ("{}".to_owned(), Confirmation::Other),
        ] {
            let found = read(&format!(r#"{{"cnf":{cnf}}}"#)).map(|claims| claims.confirmation);
            assert_eq!(found, Ok(Some(expect)), "{cnf}");
        }
        for cnf in ["true", "\"a\"", "[]", "1"] {
            rejected(&format!(r#"{{"cnf":{cnf}}}"#));
        }
    }

    #[test]
    fn a_claim_that_is_null_counts_as_absent() {
        let names = "iss sub aud exp nbf iat jti client_id azp scope scp keytype cnf permittedIP";
        for name in names.split(' ') {
            assert!(read(&format!("{{\"{name}\":null}}")) == Ok(Claims::default()), "{name}");
        }
    }

    #[test]
    fn a_whole_number_is_a_subject_by_its_digits() {
        for (json, expect) in [
            ("12345", "12345"),
            ("0", "0"),
            ("-7", "-7"),
            ("18446744073709551615", "18446744073709551615"),
            ("-9223372036854775808", "-9223372036854775808"),
        ] {
            let sub = read(&format!("{{\"sub\":{json}}}")).map(|claims| claims.sub);
            assert_eq!(sub, Ok(Some(expect.to_owned())), "{json}");
        }
    }

    #[test]
    fn dates_are_whole_seconds_with_fractions_truncated() {
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
    fn rejected(json: &str) {
        assert!(matches!(read(json), Err(TokenError::Malformed(_))), "{json}");
    }
}
