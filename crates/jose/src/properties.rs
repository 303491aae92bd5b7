//! What must hold for any bytes at all: driven by the fuzz targets and by this crate's own tests.

use std::sync::LazyLock;

use crate::{Algorithm, Compact, Header, KeySet, Padding, SigningKey};

const SECRET: &[u8] = b"a secret that only this property knows, 32 bytes at the very least";
const INVARIANT: &str = "the secret is long enough, and claims that were read can be signed";

static KEYS: LazyLock<KeySet> = LazyLock::new(|| KeySet::from_secret(SECRET).expect(INVARIANT));
static GENUINE: LazyLock<String> = LazyLock::new(|| sign(r#"{"sub":"somebody","scope":"a b"}"#));

/// No token panics; strict and tolerant reading differ by padding alone; claims that were read come back
/// the same when they are signed and verified; and no change to a genuine token verifies.
///
/// # Panics
/// When the property is broken.
pub fn jwt(input: &[u8]) {
    readings_agree(input);
    changes_are_noticed(input);
    let Ok(token) = Compact::parse(input, Padding::Refused) else {
        return;
    };
    assert!(token.verify_signature(&KEYS).is_err() || input == GENUINE.as_bytes(), "a forgery");
    if let (Ok(claims), Ok(payload)) =
        (token.unverified_claims(), std::str::from_utf8(token.payload()))
    {
        let again = sign(payload);
        // Encoded anew, it may have grown past the limit of a token's length.
        if let Ok(again) = Compact::parse(again.as_bytes(), Padding::Refused) {
            assert!(again.verify(&KEYS) == Ok(claims), "claims changed on their way");
        }
    }
}

fn readings_agree(input: &[u8]) {
    let strict = Compact::parse(input, Padding::Refused);
    let tolerant = Compact::parse(input, Padding::Allowed);
    match (strict, tolerant) {
        (Ok(strict), Ok(tolerant)) => {
            assert!(strict.payload() == tolerant.payload() && strict.header() == tolerant.header());
            assert!(!strict.is_padded() && !tolerant.is_padded(), "padding got through");
        }
        (Ok(_), Err(_)) => panic!("tolerant reading refuses what strict reading accepts"),
        (Err(_), Ok(tolerant)) => assert!(tolerant.is_padded(), "only padding sets them apart"),
        (Err(_), Err(_)) => {}
    }
}

/// Reads `input` as changes to a genuine token, three bytes each: where (two), and what to put there.
fn changes_are_noticed(input: &[u8]) {
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

/// No key set panics; what is read holds no more keys than a set may, and no shared secret; and what
/// the JSON reader accepts, it writes so that it reads the same again.
///
/// # Panics
/// When the property is broken.
pub fn jwks(input: &[u8]) {
    if let Ok(set) = KeySet::from_jwks(input) {
        assert!(set.len().saturating_add(set.skipped().len()) <= base::limits::JWKS_KEYS_MAX);
        assert!(!set.algorithms().into_iter().any(Algorithm::is_symmetric));
        assert_eq!(set.clone().restrict(&Algorithm::ALL).len(), set.len());
        assert!(set.restrict(&[]).is_empty());
    }
    // The readers of PEM and DER meet the same bytes; that they return at all is what is asked.
    let _ = (KeySet::from_pem(input), SigningKey::from_pem(input));
    crate::keyset::read_der(input);
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
        }

        #[test]
        fn the_properties_hold_next_to_what_is_well_formed(
            place in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<prop::sample::Index>(),
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
    fn a_genuine_token_and_a_good_set_pass_their_own_properties() {
        assert!(
            Compact::parse(GENUINE.as_bytes(), Padding::Refused).unwrap().verify(&KEYS).is_ok()
        );
        jwt(GENUINE.as_bytes());
        jwt(&[]);
        assert_eq!(KeySet::from_jwks(KEY.as_bytes()).unwrap().len(), 1);
        jwks(KEY.as_bytes());
    }
}
