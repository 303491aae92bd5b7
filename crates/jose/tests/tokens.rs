//! Accepted and rejected tokens. All use HS256, whose MAC can be computed for any bytes.

use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::{URL_SAFE, URL_SAFE_NO_PAD};
use penstock_jose::TokenError::{
    BadSignature, Malformed, UnknownKid, Unsupported, UnsupportedAlgorithm,
};
use penstock_jose::{Algorithm, Compact, Header, KeySet, Padding, SigningKey, TokenError};

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const HEADER: &str = r#"{"alg":"HS256"}"#;
const BAD_HEADER: TokenError = Malformed("the header is not a strict JSON object");
const BAD_CLAIMS: TokenError = Malformed("the claims are not a strict JSON object");
const BAD_TYPE: TokenError = Unsupported("`typ` is neither `JWT` nor `at+jwt`");
const BAD_ALGORITHM: TokenError = UnsupportedAlgorithm("`alg` is `none` or unknown");

#[test]
fn an_ordinary_token_verifies_and_returns_its_claims() {
    let token = token(HEADER, r#"{"iss":"i","sub":"s","aud":["a","b"],"scope":"x y","exp":9}"#);
    let claims = verify(&token).unwrap();
    assert_eq!((claims.iss.as_deref(), claims.sub.as_deref()), (Some("i"), Some("s")));
    assert_eq!(
        (claims.aud, claims.scopes),
        (vec!["a".into(), "b".into()], vec!["x".into(), "y".into()])
    );
    assert_eq!((claims.exp, claims.nbf, claims.iat), (Some(9), None, None));
}

#[test]
fn accepted_headers() {
    for header in [
        r#"{"alg":"HS256","typ":"JWT"}"#,
        r#"{"alg":"HS256","typ":"jwt"}"#,
        r#"{"alg":"HS256","typ":"at+jwt"}"#,
        r#"{"alg":"HS256","typ":"AT+JWT"}"#,
        r#"{"alg":"HS256","typ":"application/at+jwt"}"#,
        r#"{"alg":"HS256","typ":"Application/JWT"}"#,
        r#"{"alg":"HS256","kid":"whatever, the one key has none"}"#,
        r#"{"alg":"HS256","kid":null,"typ":null}"#,
        r#"{"alg":"HS256","x5t":"abc","cty":"JWT","extra":{"deep":[1,2,{}]}}"#,
        // Keys in the token are ignored, so they need not be valid.
        r#"{"alg":"HS256","jwk":{"kty":"oct","k":"AAAA"},"jku":"https://evil.test/","x5u":1,"x5c":[]}"#,
        " {\t\"alg\" :\r\n\"HS256\" } ",
        r#"{"\u0061lg":"HS\u0032\u00356"}"#,
    ] {
        assert_eq!(verify(&token(header, "{}")).err(), None, "{header}");
    }
}

#[test]
fn rejected_headers() {
    rejected(r#"{}"#, Malformed("the header has no `alg`"));
    rejected(r#"{"alg":null}"#, Malformed("the header has no `alg`"));
    rejected(r#"{"alg":["HS256"]}"#, Malformed("`alg` is not a string"));
    for name in
        ["none", "None", "NONE", "nOnE", "", "hs256", "HS256 ", "HS1", "RSA1_5", "dir", "ES256K"]
    {
        rejected(&format!(r#"{{"alg":"{name}"}}"#), BAD_ALGORITHM);
    }
    rejected(r#"{"alg":"HS256","crit":[]}"#, Unsupported("the header has `crit`"));
    rejected(r#"{"alg":"HS256","crit":["exp"],"exp":1}"#, Unsupported("the header has `crit`"));
    rejected(r#"{"alg":"HS256","crit":null}"#, Unsupported("the header has `crit`"));
    rejected(r#"{"alg":"HS256","b64":null}"#, Unsupported("the header has `b64`"));
    rejected(r#"{"alg":"HS256","b64":true}"#, Unsupported("the header has `b64`"));
    rejected(r#"{"alg":"HS256","b64":false}"#, Unsupported("the header has `b64`"));
    rejected(r#"{"alg":"HS256","zip":"DEF"}"#, Unsupported("the header has `zip`"));
    rejected(r#"{"alg":"HS256","enc":"A128GCM"}"#, Unsupported("the header has `enc`"));
    rejected(r#"{"alg":"HS256","kid":7}"#, Malformed("`kid` is not a string"));
    rejected(r#"{"alg":"HS256","typ":7}"#, Malformed("`typ` is not a string"));
    for typ in
        ["", "JOSE", "JWS", "id+jwt", "dpop+jwt", "logout+jwt", "application/", "text/jwt", "JWT "]
    {
        rejected(&format!(r#"{{"alg":"HS256","typ":"{typ}"}}"#), BAD_TYPE);
    }
}

#[test]
fn a_header_that_is_not_strict_json_is_rejected() {
    for header in [
        "",
        " ",
        "null",
        "[]",
        r#""HS256""#,
        r#"{"alg":"HS256"} {}"#,
        r#"{"alg":"HS256"}x"#,
        "\u{feff}{\"alg\":\"HS256\"}",
        r#"{"alg":"HS256",}"#,
        r#"{"alg":"HS256""#,
        r#"{'alg':'HS256'}"#,
        // Which member applies would depend on the parser.
        r#"{"alg":"HS256","alg":"HS256"}"#,
        r#"{"alg":"none","alg":"HS256"}"#,
        r#"{"alg":"HS256","\u0061lg":"none"}"#,
        r#"{"alg":"HS256","x":{"deep":1,"deep":1}}"#,
    ] {
        rejected(header, BAD_HEADER);
    }
    let deep = format!("{{\"alg\":\"HS256\",\"x\":{}{}}}", "[".repeat(64), "]".repeat(64));
    rejected(&deep, BAD_HEADER);
}

#[test]
fn claims_that_are_not_strict_json_are_rejected_although_the_signature_verifies() {
    for claims in [
        "",
        "[]",
        "null",
        "{}{}",
        r#"{"sub":"a","sub":"a"}"#,
        r#"{"exp":1e400}"#,
        r#"{"x":"\ud800"}"#,
    ] {
        let token = token(HEADER, claims);
        let token = Compact::parse(token.as_bytes(), Padding::Rejected).unwrap();
        assert_eq!(token.verify_signature(&keys()), Ok(()), "{claims}");
        assert_eq!(token.verify(&keys()).unwrap_err(), BAD_CLAIMS, "{claims}");
    }
    let token = raw_token(HEADER.as_bytes(), b"{\"sub\":\"\xff\"}");
    assert_eq!(verify(&token).unwrap_err(), BAD_CLAIMS, "invalid UTF-8");
}

#[test]
fn a_token_has_exactly_three_segments() {
    let good = token(HEADER, "{}");
    let (signed, signature) = good.rsplit_once('.').unwrap();
    let (header, payload) = signed.split_once('.').unwrap();
    for wrong in [
        String::new(),
        ".".to_owned(),
        header.to_owned(),
        signed.to_owned(),
        format!("{good}."),
        format!(".{good}"),
        format!("{good}.{signature}"),
        format!("{header}..{payload}.{signature}"),
    ] {
        assert_eq!(verify(&wrong).unwrap_err(), Malformed("not three segments"), "{wrong}");
    }
    assert_eq!(verify("..").unwrap_err(), BAD_HEADER);
    assert_eq!(verify(&format!("{signed}.")).unwrap_err(), BadSignature);
    assert_eq!(verify(&format!(" {good}")).unwrap_err(), Malformed("the header is not base64url"));
    assert_eq!(
        verify(&format!("{good}\n")).unwrap_err(),
        Malformed("the signature is not base64url")
    );
    let long = format!("{good}{}", "A".repeat(16 * 1024));
    assert_eq!(verify(&long).unwrap_err(), Malformed("too long"));
}

#[test]
fn padding_is_accepted_only_if_allowed_and_then_reported() {
    // Two bytes are padded with one character, and so are the MAC's 32.
    let signed = format!("{}.{}", URL_SAFE.encode(HEADER), URL_SAFE.encode("{}"));
    let token = format!("{signed}.{}", URL_SAFE.encode(mac(&signed)));
    assert!(signed.ends_with('=') && token.ends_with('='));
    assert_eq!(verify(&token).unwrap_err(), Malformed("the payload is not base64url"));
    let tolerant = Compact::parse(token.as_bytes(), Padding::Allowed).unwrap();
    assert!(tolerant.is_padded());
    assert_eq!(tolerant.verify(&keys()).err(), None);
    let plain = self::token(HEADER, "{}");
    let plain = Compact::parse(plain.as_bytes(), Padding::Allowed).unwrap();
    assert!(!plain.is_padded());
    assert_eq!(plain.verify(&keys()).err(), None);
}

#[test]
fn a_kid_selects_the_key_and_an_unknown_one_is_reported() {
    let other = URL_SAFE_NO_PAD.encode([7; 64]);
    let named = |kid: &str| {
        let own = URL_SAFE_NO_PAD.encode(SECRET);
        let set = format!(
            r#"{{"keys":[{{"kty":"oct","kid":"own","k":"{own}"}},{{"kty":"oct","kid":"other","k":"{other}","alg":"HS512"}}]}}"#
        );
        let keys = KeySet::from_jwks_with_secrets(set.as_bytes()).unwrap();
        let token = token(&format!(r#"{{"alg":"HS256"{kid}}}"#), "{}");
        Compact::parse(token.as_bytes(), Padding::Rejected).unwrap().verify_signature(&keys)
    };
    assert_eq!(named(""), Ok(()));
    assert_eq!(named(r#","kid":"own""#), Ok(()));
    assert_eq!(named(r#","kid":"Own""#), Err(UnknownKid));
    assert_eq!(
        named(r#","kid":"other""#),
        Err(UnsupportedAlgorithm("no key supports the header's `alg`"))
    );
}

#[test]
fn a_kid_that_only_keys_without_one_could_match_is_still_unknown() {
    let own = URL_SAFE_NO_PAD.encode(SECRET);
    let other = URL_SAFE_NO_PAD.encode([7; 32]);
    let new = token(r#"{"alg":"HS256","kid":"new"}"#, "{}");
    let check = |set: &str, expect| {
        let keys = KeySet::from_jwks_with_secrets(set.as_bytes()).unwrap();
        let token = Compact::parse(new.as_bytes(), Padding::Rejected).unwrap();
        assert_eq!(token.verify_signature(&keys), expect, "{set}");
    };
    let (nameless, named) =
        (r#"{"kty":"oct","k":"OTHER"}"#, r#"{"kty":"oct","kid":"old","k":"OTHER"}"#);
    let check = |set: String, expect| check(&set.replace("OTHER", &other), expect);
    // The issuer names its keys, so that fetching them again may bring the new one.
    check(format!(r#"{{"keys":[{named},{nameless}]}}"#), Err(UnknownKid));
    check(format!(r#"{{"keys":[{nameless}]}}"#), Err(BadSignature));
    check(format!(r#"{{"keys":[{named},{{"kty":"oct","k":"{own}"}}]}}"#), Ok(()));
}

#[test]
fn a_public_key_is_never_a_secret() {
    let pem = include_bytes!("data/keys/rsa.spki.pem");
    let keys = KeySet::from_pem(pem).unwrap();
    // The attack: the public key's file, which everyone has, as the secret of a MAC.
    let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(HEADER), URL_SAFE_NO_PAD.encode("{}"));
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, pem), signed.as_bytes());
    let token = format!("{signed}.{}", URL_SAFE_NO_PAD.encode(tag));
    let token = Compact::parse(token.as_bytes(), Padding::Rejected).unwrap();
    let error = token.verify(&keys).unwrap_err();
    assert_eq!(error, UnsupportedAlgorithm("no key supports the header's `alg`"));
    // Nor can the file be configured as a secret by mistake.
    assert!(KeySet::from_secret(pem).is_err());
}

#[test]
fn an_algorithm_that_the_issuer_does_not_list_is_rejected_even_if_the_key_supports_it() {
    let good = token(HEADER, "{}");
    let token = Compact::parse(good.as_bytes(), Padding::Rejected).unwrap();
    assert_eq!(token.verify_signature(&keys().restrict(&[Algorithm::Hs256])), Ok(()));
    let error = token.verify_signature(&keys().restrict(&[Algorithm::Hs512])).unwrap_err();
    assert_eq!(error, UnsupportedAlgorithm("no key supports the header's `alg`"));
    assert!(token.verify_signature(&KeySet::default()).is_err());
}

#[test]
fn every_changed_byte_of_a_token_is_detected() {
    let header = Header { alg: Algorithm::Hs256, kid: None, typ: Some("JWT".into()) };
    let signer = SigningKey::from_secret(SECRET).unwrap();
    let good = signer.sign(&header, r#"{"iss":"i","sub":"somebody","exp":4102444800}"#).unwrap();
    assert_eq!(verify(&good).err(), None);
    for place in 0..good.len() {
        for byte in 0..=u8::MAX {
            let mut changed = good.clone().into_bytes();
            let old = std::mem::replace(changed.get_mut(place).unwrap(), byte);
            if old == byte {
                continue;
            }
            let verdict = Compact::parse(&changed, Padding::Allowed)
                .and_then(|token| token.verify_signature(&keys()));
            assert!(verdict.is_err(), "byte {place} as {byte:#x}");
        }
    }
}

#[test]
fn no_part_of_a_token_is_printed() {
    let good = token(r#"{"alg":"HS256","kid":"kid-text"}"#, r#"{"sub":"sub-text"}"#);
    let token = Compact::parse(good.as_bytes(), Padding::Rejected).unwrap();
    let claims = token.verify(&keys()).unwrap();
    let printed = format!("{token:?} {:?} {claims:?} {:?}", token.header(), keys());
    let own = URL_SAFE_NO_PAD.encode(SECRET);
    for secret in ["kid-text", "sub-text", good.as_str(), own.as_str(), "0123456789abcdef"] {
        assert!(!printed.contains(secret), "{printed}");
    }
}

#[track_caller]
fn rejected(header: &str, expect: TokenError) {
    assert_eq!(verify(&token(header, "{}")).unwrap_err(), expect, "{header}");
}

fn verify(token: &str) -> Result<penstock_jose::Claims, TokenError> {
    Compact::parse(token.as_bytes(), Padding::Rejected)?.verify(&keys())
}

fn keys() -> KeySet {
    KeySet::from_secret(SECRET).unwrap()
}

/// A token with any header and payload, and a valid MAC.
fn token(header: &str, payload: &str) -> String {
    raw_token(header.as_bytes(), payload.as_bytes())
}

fn raw_token(header: &[u8], payload: &[u8]) -> String {
    let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(payload));
    let tag = URL_SAFE_NO_PAD.encode(mac(&signed));
    format!("{signed}.{tag}")
}

fn mac(signed: &str) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET), signed.as_bytes())
}
