//! Properties that hold for all inputs; called by the fuzz targets and by this crate's tests.

use std::sync::LazyLock;

use crate::{Algorithm, Compact, Header, KeySet, Padding, Proof, SigningKey};

const SECRET: &[u8] = b"a secret that only this property knows, 32 bytes at the very least";
const INVARIANT: &str = "the secret is long enough, and parsed claims can be signed";

static KEYS: LazyLock<KeySet> = LazyLock::new(|| KeySet::from_secret(SECRET).expect(INVARIANT));
static GENUINE: LazyLock<String> = LazyLock::new(|| sign(r#"{"sub":"alice","scope":"a b"}"#));

/// No token causes a panic; strict and lenient parsing differ only in padding; claims survive signing and verification;
/// and no changed token or proof verifies.
///
/// # Panics
/// If the property is violated.
pub fn jwt(input: &[u8]) {
    strict_and_lenient_agree(input);
    changes_are_detected(input);
    if let Ok(proof) = Proof::verify(input) {
        assert!(input.len() <= base::limits::PROOF_BYTES_MAX && !proof.id.is_empty());
        assert!(Compact::parse(input, Padding::Rejected).is_err(), "a proof is a token");
    }
    let Ok(token) = Compact::parse(input, Padding::Rejected) else {
        return;
    };
    assert!(token.verify_signature(&KEYS).is_err() || input == GENUINE.as_bytes(), "a forgery");
    if let (Ok(claims), Ok(payload)) =
        (token.unverified_claims(), std::str::from_utf8(token.payload()))
    {
        let again = sign(payload);
        // Encoded again, it may exceed the limit of a token's length.
        if let Ok(again) = Compact::parse(again.as_bytes(), Padding::Rejected) {
            assert!(
                again.verify(&KEYS) == Ok(claims),
                "the claims differ after signing and verification"
            );
        }
    }
}

fn strict_and_lenient_agree(input: &[u8]) {
    let strict = Compact::parse(input, Padding::Rejected);
    let lenient = Compact::parse(input, Padding::Allowed);
    match (strict, lenient) {
        (Ok(strict), Ok(lenient)) => {
            assert!(strict.payload() == lenient.payload() && strict.header() == lenient.header());
            assert!(!strict.is_padded() && !lenient.is_padded(), "padding was accepted");
        }
        (Ok(_), Err(_)) => panic!("lenient parsing rejects a token that strict parsing accepts"),
        (Err(_), Ok(lenient)) => assert!(lenient.is_padded(), "only padding may differ"),
        (Err(_), Err(_)) => {}
    }
}

/// Applies `input` as changes to a valid token, three bytes each: the place (two), and the new byte.
fn changes_are_detected(input: &[u8]) {
    let mut token = GENUINE.clone().into_bytes();
    for change in input.chunks_exact(3) {
        let &[high, low, byte] = change else { continue };
        let place = usize::from(u16::from_be_bytes([high, low]));
        let place = place.checked_rem(token.len()).unwrap_or_default();
        if let Some(old) = token.get_mut(place) {
            *old = byte;
        }
    }
    let verified = Compact::parse(&token, Padding::Allowed)
        .is_ok_and(|token| token.verify_signature(&KEYS).is_ok());
    assert_eq!(verified, token == GENUINE.as_bytes(), "a changed token verifies");
}

fn sign(claims: &str) -> String {
    let header = Header { alg: Algorithm::Hs256, kid: None, typ: None };
    let key = SigningKey::from_secret(SECRET).expect(INVARIANT);
    key.sign(&header, claims).expect(INVARIANT)
}

/// No key set causes a panic; a parsed one has no more keys than the limit, and no shared secret.
///
/// # Panics
/// If the property is violated.
pub fn jwks(input: &[u8]) {
    if let Ok(set) = KeySet::from_jwks(input) {
        assert!(set.len().saturating_add(set.skipped().len()) <= base::limits::JWKS_KEYS_MAX);
        assert!(!set.algorithms().into_iter().any(Algorithm::is_symmetric));
        assert_eq!(set.clone().restrict(&Algorithm::ALL).len(), set.len());
        assert!(set.restrict(&[]).is_empty());
    }
    // PEM and DER parsing of the same bytes must not panic.
    let _ = (KeySet::from_pem(input), SigningKey::from_pem(input), crate::certificates(input));
    crate::keyset::read_der(input);
}

/// No response of an issuer causes a panic. A token is active only if the response has exactly one `active`, which is
/// true; its claims are then those of a JWT with the same members.
///
/// # Panics
/// If the property is violated.
pub fn introspection(input: &[u8]) {
    // Discovery documents are read the same way.
    let _ = crate::jwks_uri(input, "https://id.example");
    let _ = crate::sign_in_endpoints(input, "https://id.example");
    let _ = crate::revocation_page(input);
    if let Ok(issued) = crate::issued_tokens(input) {
        for token in [Some(issued.access_token), issued.refresh_token, issued.id_token] {
            let is_token = |token: String| {
                !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic())
            };
            assert!(token.is_none_or(is_token));
        }
    }
    if let Ok(text) = std::str::from_utf8(input)
        && let Some(challenge) = crate::DigestChallenge::find(text)
    {
        let login = crate::DigestLogin { username: "a", password: b"b" };
        let answer = challenge.answer(login, (b"GET", b"/"), 1, "c");
        let is_new = |byte: u8| byte.is_ascii_control() && !input.contains(&byte);
        assert!(!answer.bytes().any(is_new), "an answer with control characters");
    }
    if let Ok(text) = std::str::from_utf8(input)
        && let Some(hash) = crate::PasswordHash::parse(text)
    {
        let same = crate::PasswordHash::parse(text);
        assert!(same.is_some_and(|same| same.fingerprint() == hash.fingerprint()));
    }
    let Ok(Some(claims)) = crate::introspected(input) else { return };
    let as_jwt = crate::Claims::parse(input).expect("the same members are claims");
    let sub = as_jwt.sub.clone().or_else(|| claims.sub.clone());
    assert!(claims == crate::Claims { sub, ..as_jwt }, "claims that the response does not have");
    let text = String::from_utf8_lossy(input);
    let has_name = text.contains("\"active\"") || text.contains("\\u");
    assert!(has_name && text.contains("true"), "nothing says that it is active");
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEY: &str = r#"{"keys":[{"kid":"a","kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
    const DER: &[u8] = include_bytes!("../tests/data/keys/p256.certificate.pem");

    proptest! {
        #[test]
        fn the_properties_hold_for_any_bytes(bytes in any::<Vec<u8>>()) {
            jwt(&bytes);
            jwks(&bytes);
            introspection(&bytes);
        }

        #[test]
        fn the_properties_hold_for_changed_valid_inputs(
            place in any::<prop::sample::Index>(),
            byte in any::<u8>(),
            cut in any::<prop::sample::Index>(),
        ) {
            let certificate = crate::pem::single(DER).unwrap().der;
            for good in [GENUINE.as_bytes(), KEY.as_bytes(), DER, &certificate] {
                let mut changed = good.to_vec();
                *changed.get_mut(place.index(good.len())).unwrap() = byte;
                jwt(&changed);
                jwks(&changed);
                changed.truncate(cut.index(good.len()));
                jwt(&changed);
                jwks(&changed);
            }
        }
    }

    #[test]
    fn the_properties_hold_for_a_valid_token_and_set() {
        assert!(
            Compact::parse(GENUINE.as_bytes(), Padding::Rejected).unwrap().verify(&KEYS).is_ok()
        );
        jwt(GENUINE.as_bytes());
        jwt(&[]);
        assert_eq!(KeySet::from_jwks(KEY.as_bytes()).unwrap().len(), 1);
        jwks(KEY.as_bytes());
    }
}
