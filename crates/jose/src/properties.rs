//! What must hold for any bytes at all: driven by the fuzz targets and by this crate's own tests.

use std::sync::LazyLock;

use crate::{Algorithm, Compact, Header, KeySet, Padding, SigningKey, json};

const SECRET: &[u8] = b"a secret that only this property knows, 64 bytes at the very least";

static KEYS: LazyLock<KeySet> =
    LazyLock::new(|| KeySet::from_secret(SECRET).expect("the secret is long enough"));

/// No token panics; what strict reading accepts, tolerant reading reads the same; and no bytes verify
/// but what the key itself signed.
///
/// # Panics
/// When the property is broken.
pub fn jwt(input: &[u8]) {
    let strict = Compact::parse(input, Padding::Refused);
    let tolerant = Compact::parse(input, Padding::Allowed);
    match (&strict, &tolerant) {
        (Ok(strict), Ok(tolerant)) => {
            assert!(strict.payload() == tolerant.payload() && strict.header() == tolerant.header());
            assert!(!tolerant.is_padded(), "strict reading let padding through");
        }
        (Ok(_), Err(_)) => panic!("tolerant reading refuses what strict reading accepts"),
        (Err(_), Ok(tolerant)) => assert!(tolerant.is_padded(), "only padding sets them apart"),
        (Err(_), Err(_)) => {}
    }
    let Ok(token) = strict else { return };
    let verdict = token.verify_signature(&KEYS);
    if let (Ok(()), Ok(payload)) = (verdict, std::str::from_utf8(token.payload())) {
        let again = resign(token.header(), payload);
        assert!(
            again.is_none_or(|again| Compact::parse(again.as_bytes(), Padding::Refused).is_ok())
        );
    }
    // Its own claims, signed by us, come back as they were.
    if let (Ok(claims), Ok(payload)) = (
        token.unverified_claims(),
        std::str::from_utf8(token.payload()),
    ) {
        let header = Header {
            alg: Algorithm::Hs256,
            kid: token.header().kid.clone(),
            typ: None,
        };
        let again = resign(&header, payload).expect("claims that were read can be signed");
        let again = Compact::parse(again.as_bytes(), Padding::Refused).expect("ours is strict");
        assert!(
            again.verify(&KEYS) == Ok(claims),
            "claims changed on their way"
        );
    }
}

fn resign(header: &Header, payload: &str) -> Option<String> {
    let key = SigningKey::from_secret(SECRET).expect("the secret is long enough");
    key.sign(header, payload).ok()
}

/// No key set panics; what is read holds no more keys than the document, and no shared secret; and what
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
    if let Ok(value) = json::parse(input) {
        let mut text = String::new();
        value.write(&mut text);
        assert!(
            json::parse(text.as_bytes()).as_ref() == Ok(&value),
            "written JSON reads differently"
        );
    }
    // The other key readers meet bytes of the same kind.
    let _ = (KeySet::from_pem(input), SigningKey::from_pem(input));
}
