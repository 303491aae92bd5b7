//! Keys that are accepted, skipped or rejected; signing and verifying with each kind.

use penstock_jose::{
    Algorithm, Compact, Header, KeyError, KeySet, Padding, SignError, SigningKey,
    certificate_thumbprints, certificates,
};
use proptest::prelude::*;

const RSA: [Algorithm; 6] = [
    Algorithm::Rs256,
    Algorithm::Rs384,
    Algorithm::Rs512,
    Algorithm::Ps256,
    Algorithm::Ps384,
    Algorithm::Ps512,
];

macro_rules! key_file {
    ($name:literal) => {
        include_bytes!(concat!("data/keys/", $name, ".pem"))
    };
}

/// Private and public files of one key, and the algorithms that it supports.
fn pairs() -> Vec<(&'static [u8], &'static [u8], Vec<Algorithm>)> {
    vec![
        (key_file!("rsa.pkcs8"), key_file!("rsa.spki"), RSA.to_vec()),
        (key_file!("rsa.pkcs1"), key_file!("rsa.public.pkcs1"), RSA.to_vec()),
        (key_file!("rsa.pkcs8"), key_file!("rsa.certificate"), RSA.to_vec()),
        (key_file!("p256.pkcs8"), key_file!("p256.spki"), vec![Algorithm::Es256]),
        (key_file!("p256.sec1"), key_file!("p256.certificate"), vec![Algorithm::Es256]),
        (key_file!("p384.pkcs8"), key_file!("p384.spki"), vec![Algorithm::Es384]),
        (key_file!("p384.sec1"), key_file!("p384.spki"), vec![Algorithm::Es384]),
        (key_file!("p521.pkcs8"), key_file!("p521.spki"), vec![Algorithm::Es512]),
        (key_file!("p521.sec1"), key_file!("p521.spki"), vec![Algorithm::Es512]),
        (key_file!("ed25519.pkcs8"), key_file!("ed25519.spki"), vec![Algorithm::EdDsa]),
    ]
}

#[test]
fn every_key_file_signs_and_verifies_with_every_algorithm_it_supports() {
    for (private, public, algorithms) in pairs() {
        let signer = SigningKey::from_pem(private).unwrap();
        let keys = KeySet::from_pem(public).unwrap();
        assert_eq!(signer.algorithms(), algorithms);
        assert_eq!(keys.algorithms(), algorithms);
        for alg in algorithms {
            assert!(round_trip(&signer, &keys, alg, None), "{alg}");
        }
    }
}

#[test]
fn a_published_jwk_verifies_signatures_of_its_own_algorithm_alone() {
    for (private, _, algorithms) in pairs() {
        let signer = SigningKey::from_pem(private).unwrap();
        let kid = signer.thumbprint().unwrap();
        let set = format!("{{\"keys\":[{}]}}", signer.public_jwk(None).unwrap());
        let keys = KeySet::from_jwks(set.as_bytes()).unwrap();
        assert!(keys.has_kid(&kid) && keys.skipped().is_empty());
        for alg in algorithms {
            assert_eq!(round_trip(&signer, &keys, alg, Some(&kid)), alg == signer.algorithm());
            assert!(!round_trip(&signer, &keys, alg, Some("another")));
        }
    }
}

#[test]
fn a_generated_key_can_be_parsed_and_used() {
    let pem = SigningKey::generate_rsa().unwrap();
    let signer = SigningKey::from_pem(pem.as_bytes()).unwrap();
    let set = format!("{{\"keys\":[{}]}}", signer.public_jwk(Some("a \"kid\"\n")).unwrap());
    let keys = KeySet::from_jwks(set.as_bytes()).unwrap();
    assert!(round_trip(&signer, &keys, Algorithm::Rs256, Some("a \"kid\"\n")));
    assert!(!format!("{signer:?}").contains(pem.lines().nth(1).unwrap()));
}

#[test]
fn a_secret_that_is_derived_from_a_key_is_that_of_the_key_and_not_of_its_file() {
    let derived = |pem: &[u8], purpose: &[u8]| {
        SigningKey::from_pem(pem).unwrap().derived_secret(purpose).unwrap()
    };
    let mut seen = Vec::new();
    let files: [[&[u8]; 2]; 5] = [
        [key_file!("rsa.pkcs8"), key_file!("rsa.pkcs1")],
        [key_file!("p256.pkcs8"), key_file!("p256.sec1")],
        [key_file!("p384.pkcs8"), key_file!("p384.sec1")],
        [key_file!("p521.pkcs8"), key_file!("p521.sec1")],
        [key_file!("ed25519.pkcs8"), key_file!("ed25519.pkcs8")],
    ];
    for [file, other] in files {
        let secret = derived(file, b"a");
        assert_ne!(secret, derived(file, b"b"));
        for file in [file, other] {
            let text = std::str::from_utf8(file).unwrap();
            let other = format!("# A comment\r\n{}\r\n", text.replace('\n', "\r\n"));
            assert_eq!(derived(file, b"a"), secret);
            assert_eq!(derived(other.as_bytes(), b"a"), secret);
        }
        assert!(!seen.contains(&secret));
        seen.push(secret);
    }
}

#[test]
fn a_secret_supports_the_hashes_it_is_long_enough_for() {
    let hs = [Algorithm::Hs256, Algorithm::Hs384, Algorithm::Hs512];
    for (bytes, served) in [(32, 1), (47, 1), (48, 2), (63, 2), (64, 3), (200, 3)] {
        let secret = vec![5; bytes];
        let keys = KeySet::from_secret(&secret).unwrap();
        let signer = SigningKey::from_secret(&secret).unwrap();
        let expect: Vec<_> = hs.into_iter().take(served).collect();
        assert_eq!((keys.algorithms(), signer.algorithms()), (expect.clone(), expect.clone()));
        assert!(expect.into_iter().all(|alg| round_trip(&signer, &keys, alg, None)));
    }
    for bytes in [0, 1, 31] {
        let short = KeyError::ShortSecret { bytes };
        assert_eq!(KeySet::from_secret(&vec![5; bytes]).unwrap_err(), short);
        assert_eq!(SigningKey::from_secret(&vec![5; bytes]).unwrap_err(), short);
    }
    let signer = SigningKey::from_secret(&[5; 64]).unwrap();
    assert_eq!(signer.public_jwk(None), Err(SignError::Secret));
    assert_eq!(signer.public_jwk(Some("kid")), Err(SignError::Secret));
}

#[test]
fn unsupported_algorithms_and_invalid_claims_are_not_signed() {
    let signer = SigningKey::from_pem(key_file!("p256.pkcs8")).unwrap();
    let header = |alg| Header { alg, kid: None, typ: None };
    for alg in Algorithm::ALL.into_iter().filter(|alg| *alg != Algorithm::Es256) {
        let error = signer.sign(&header(alg), "{}").unwrap_err();
        assert_eq!(
            error,
            SignError::WrongAlgorithm { algorithm: alg, supported: vec![Algorithm::Es256] }
        );
    }
    for claims in ["", "[]", "{", r#"{"a":1,"a":1}"#] {
        let error = signer.sign(&header(Algorithm::Es256), claims).unwrap_err();
        assert!(matches!(error, SignError::Json(_)), "{claims}");
    }
    let error = signer.sign(&header(Algorithm::Es256), r#"{"exp":"soon"}"#).unwrap_err();
    assert!(matches!(error, SignError::Claims(_)));
}

#[test]
fn pem_files_without_a_usable_public_key_are_rejected_with_the_reason() {
    pem_rejected(key_file!("rsa1024.spki"), "an RSA modulus needs 2048 to 8192 bits");
    pem_rejected(key_file!("secp256k1.spki"), "the curve is not one of P-256, P-384, P-521");
    pem_rejected(key_file!("ed448.spki"), "not an RSA, EC or Ed25519 key");
    for private in ["rsa.pkcs8", "rsa.pkcs1", "p256.sec1", "p256.encrypted"] {
        let path = format!("{}/tests/data/keys/{private}.pem", env!("CARGO_MANIFEST_DIR"));
        pem_rejected(
            &std::fs::read(path).unwrap(),
            "this is a private key; configure its public key",
        );
    }
    pem_rejected(b"", "the file contains no PEM block");
    pem_rejected(b"\xff", "not a PEM file");
    let key = key_file!("p256.spki");
    pem_rejected(
        &[key.as_slice(), key].concat(),
        "the file contains more than one PEM block; keep one",
    );
    pem_rejected(b"-----BEGIN PUBLIC KEY-----\nAAAA\n", "a PEM block has no END line");
    let text = std::str::from_utf8(key).unwrap();
    pem_rejected(
        text.replace("END PUBLIC", "END RSA PUBLIC").as_bytes(),
        "a PEM block is not base64, or has a wrong END line",
    );
    pem_rejected(
        text.replacen('M', "!", 1).as_bytes(),
        "a PEM block is not base64, or has a wrong END line",
    );
    pem_rejected(
        text.replace("PUBLIC KEY", "CERTIFICATE").as_bytes(),
        "the content of the block does not match its label",
    );
    pem_rejected(
        text.replace("PUBLIC KEY", "X509 CRL").as_bytes(),
        "expected `PUBLIC KEY`, `RSA PUBLIC KEY` or `CERTIFICATE`",
    );
}

#[test]
fn text_around_the_block_and_windows_line_ends_are_accepted() {
    let text = std::str::from_utf8(key_file!("p256.spki")).unwrap();
    let text = format!("subject=/CN=somebody\n\n{text}\nlast words\n").replace('\n', "\r\n");
    assert_eq!(KeySet::from_pem(text.as_bytes()).unwrap().len(), 1);
    let private = std::str::from_utf8(key_file!("p256.sec1")).unwrap();
    let both = format!(
        "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n{private}"
    );
    assert_eq!(SigningKey::from_pem(both.as_bytes()).unwrap().algorithm(), Algorithm::Es256);
}

#[test]
fn private_key_files_that_cannot_sign_are_rejected_with_the_reason() {
    for (file, reason) in [
        (key_file!("p256.encrypted").as_slice(), "the private key is encrypted; decrypt it first"),
        (key_file!("p256.spki"), "not a private key"),
        (key_file!("p256.certificate"), "not a private key"),
    ] {
        assert_eq!(SigningKey::from_pem(file).unwrap_err(), KeyError::Pem(reason));
    }
    let garbage = b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    assert!(matches!(SigningKey::from_pem(garbage).unwrap_err(), KeyError::Unusable(_)));
}

#[test]
fn a_document_that_is_not_a_key_set_is_rejected() {
    for document in ["", "[]", "{", r#"{"keys":[],"keys":[]}"#, r#"{"keys":[]} "x""#] {
        assert!(matches!(set(document).unwrap_err(), KeyError::Json(_)), "{document}");
    }
    for document in
        ["{}", r#"{"keys":{}}"#, r#"{"keys":[1]}"#, r#"{"keys":["x"]}"#, r#"{"kty":"RSA"}"#]
    {
        assert!(matches!(set(document).unwrap_err(), KeyError::NotAKeySet(_)), "{document}");
    }
    assert!(set(r#"{"keys":[]}"#).unwrap().is_empty());
    let many = format!(r#"{{"keys":[{}]}}"#, vec!["{}"; 257].join(","));
    assert_eq!(set(&many).unwrap_err(), KeyError::TooManyKeys { count: 257, max: 256 });
    let large = format!("{{\"keys\":[]{}}}", " ".repeat(1024 * 1024));
    assert!(matches!(set(&large).unwrap_err(), KeyError::TooLarge { .. }));
}

#[test]
fn a_set_with_a_private_key_or_a_duplicate_name_is_rejected() {
    let private = EC.replace("\"kty\"", "\"d\":\"AAAA\",\"kty\"");
    let both = format!(r#"{{"keys":[{EC},{private}]}}"#);
    assert_eq!(set(&both).unwrap_err(), KeyError::PrivateKey { index: 1 });
    let null = EC.replace("\"kty\"", "\"d\":null,\"kty\"");
    assert_eq!(
        set(&format!(r#"{{"keys":[{null}]}}"#)).unwrap_err(),
        KeyError::PrivateKey { index: 0 }
    );
    let twice = format!(r#"{{"keys":[{EC},{{"kty":"oct","k":""}},{EC}]}}"#);
    assert_eq!(set(&twice).unwrap_err(), KeyError::DuplicateKid { first: 0, second: 2 });
    let nulls = EC.replace("\"kty\"", "\"use\":null,\"alg\":null,\"key_ops\":null,\"kty\"");
    assert_eq!(set(&format!(r#"{{"keys":[{nulls}]}}"#)).unwrap().len(), 1);
    // Keys of different use or type can share a name.
    let encrypts = EC.replace("\"kty\"", "\"use\":\"enc\",\"kty\"");
    let other = OKP.replace("\"okp\"", "\"ec\"");
    let fine = set(&format!(r#"{{"keys":[{EC},{encrypts},{other}]}}"#)).unwrap();
    assert_eq!((fine.len(), fine.skipped().len()), (2, 1));
}

#[test]
fn unusable_keys_are_skipped_with_the_reason_and_the_others_are_used() {
    let with = |member: &str| EC.replace("\"kty\"", &format!("{member},\"kty\""));
    skipped(&with(r#""use":"enc""#), "`use` is not `sig`");
    skipped(&with(r#""use":1"#), "`use` is not a string");
    skipped(&with(r#""key_ops":["sign"]"#), "`key_ops` lacks `verify`");
    skipped(&with(r#""key_ops":[]"#), "`key_ops` lacks `verify`");
    skipped(&with(r#""key_ops":"verify""#), "`key_ops` is not an array");
    skipped(&with(r#""alg":"ES384""#), "`alg` does not fit the key");
    skipped(&with(r#""alg":"RS256""#), "`alg` does not fit the key");
    skipped(&with(r#""alg":"ECDH-ES""#), "`alg` is not supported");
    skipped(&with(r#""alg":"none""#), "`alg` is not supported");
    skipped(&with(r#""alg":1"#), "`alg` is not a string");
    skipped(&EC.replace("\"ec\"", "1"), "`kid` is not a string");
    skipped(&EC.replace("\"EC\"", "\"ec\""), "`kty` is not supported");
    skipped(&EC.replace("\"EC\"", "\"RSA\""), "a member of the key is missing or not base64url");
    skipped(&EC.replace("P-256", "P-257"), "`crv` is not one of P-256, P-384, P-521");
    skipped(
        &EC.replace("P-256", "P-384"),
        "`x` or `y` does not have the length that its curve requires",
    );
    skipped(&EC.replace("5a0\"", "5a4\""), "the EC point is not on its curve");
    skipped(&EC.replace("5a0\"", "5a1\""), "a member of the key is missing or not base64url");
    skipped(&OKP.replace("Ed25519", "Ed448"), "`crv` is not Ed25519");
    skipped(&OKP.replace("HURo", ""), "an Ed25519 key has 32 bytes");
    skipped(r#"{"kty":"oct","k":"AAAA"}"#, "a shared secret in a public set");
    skipped("{}", "`kty` is not supported");
}

#[test]
fn rsa_moduli_and_exponents_out_of_range_are_skipped() {
    let odd = |bytes: usize| base64(&vec![0xff; bytes]);
    let key = |n: &str, e: &str| format!(r#"{{"kty":"RSA","n":"{n}","e":"{e}"}}"#);
    let size = "an RSA modulus needs 2048 to 8192 bits";
    let exponent = "an RSA exponent must be odd, from 3 to 2^32";
    skipped(&key(&odd(255), "AQAB"), size);
    skipped(&key(&odd(1025), "AQAB"), size);
    skipped(&key("", "AQAB"), size);
    // A leading zero doesn't make a number longer.
    skipped(&key(&base64(&[vec![0], vec![0xff; 255]].concat()), "AQAB"), size);
    for wrong in ["AQ", "Ag", "AA", "", "AQAA", "AQAAAAE"] {
        skipped(&key(&odd(256), wrong), exponent);
    }
    let even = base64(&[vec![0xff; 255], vec![0xfe]].concat());
    skipped(&key(&even, "AQAB"), "the RSA modulus is even");
}

const EC: &str = r#"{"kid":"ec","kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}"#;
const OKP: &str = r#"{"kid":"okp","kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn claims_are_the_same_after_signing_and_verification(
        sub in any::<String>(), aud in prop::collection::vec(any::<String>(), 0..4),
        exp in any::<u64>(), kid in prop::option::of(any::<String>()), pick in 0..10_usize,
    ) {
        let (private, public, algorithms) = pairs().swap_remove(pick);
        let claims = serde_json::json!({ "sub": sub, "aud": aud, "exp": exp }).to_string();
        let signer = SigningKey::from_pem(private).unwrap();
        let keys = KeySet::from_pem(public).unwrap();
        for alg in algorithms {
            let header = Header { alg, kid: kid.clone(), typ: Some("at+jwt".into()) };
            let token = signer.sign(&header, &claims).unwrap();
            let token = Compact::parse(token.as_bytes(), Padding::Rejected).unwrap();
            prop_assert!(token.header() == &header);
            prop_assert_eq!(token.payload(), claims.as_bytes());
            let read = token.verify(&keys).unwrap();
            prop_assert_eq!(read.sub.as_deref(), Some(sub.as_str()));
            prop_assert_eq!(&read.aud, &aud);
            prop_assert_eq!(read.exp, Some(exp));
        }
    }

    #[test]
    fn a_flipped_bit_anywhere_is_detected_for_every_algorithm(
        pick in 0..10_usize,
        place in any::<prop::sample::Index>(),
        bit in 0..8_u32,
    ) {
        let (private, public, algorithms) = pairs().swap_remove(pick);
        let signer = SigningKey::from_pem(private).unwrap();
        let keys = KeySet::from_pem(public).unwrap();
        for alg in algorithms {
            let header = Header { alg, kid: None, typ: None };
            let mut token = signer.sign(&header, r#"{"sub":"somebody"}"#).unwrap().into_bytes();
            let place = place.index(token.len());
            *token.get_mut(place).unwrap() ^= 1_u8 << bit;
            let verdict = Compact::parse(&token, Padding::Allowed)
                .and_then(|token| token.verify_signature(&keys));
            prop_assert!(verdict.is_err(), "{alg}, byte {place}");
        }
    }
}

/// Whether a signature of `signer` verifies with `keys`.
fn round_trip(signer: &SigningKey, keys: &KeySet, alg: Algorithm, kid: Option<&str>) -> bool {
    let header = Header { alg, kid: kid.map(str::to_owned), typ: None };
    let token = signer.sign(&header, r#"{"sub":"somebody"}"#).unwrap();
    let token = Compact::parse(token.as_bytes(), Padding::Rejected).unwrap();
    token.verify(keys).is_ok_and(|claims| claims.sub.as_deref() == Some("somebody"))
}

#[track_caller]
fn pem_rejected(file: &[u8], reason: &'static str) {
    let error = KeySet::from_pem(file).unwrap_err();
    assert!(
        [KeyError::Pem(reason), KeyError::Unusable(reason)].contains(&error),
        "{error:?} instead of {reason}"
    );
}

/// Next to a good key of another name, `jwk` is skipped for `reason`.
#[track_caller]
fn skipped(jwk: &str, reason: &str) {
    let good = OKP.replace("\"okp\"", "\"good\"");
    let set = set(&format!(r#"{{"keys":[{good},{jwk}]}}"#)).unwrap();
    assert_eq!(set.len(), 1, "{jwk}");
    let skipped_keys: Vec<_> =
        set.skipped().iter().map(|skipped| (skipped.index, skipped.reason)).collect();
    assert_eq!(skipped_keys, [(1, reason)], "{jwk}");
}

fn set(document: &str) -> Result<KeySet, KeyError> {
    KeySet::from_jwks(document.as_bytes())
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes)
}

/// Computed with `openssl x509 -fingerprint` and `basenc --base64url`.
#[test]
fn a_certificate_has_the_thumbprints_of_wso2_and_of_the_standard() {
    let pem = key_file!("p256.certificate");
    let thumbprints = certificate_thumbprints(&certificates(pem).unwrap()[0]);
    assert_eq!(thumbprints.wso2, "ZDg2Mjc1ZmI1MTUzNTIxNWRhNjg4MjZiMzU4ZTIzMjNmMDBiZTE4Yg==");
    assert_eq!(thumbprints.sha256, "aqOhY_lz6AYe1eqQ1onmYrrhOb8zw_MdI10wrJJKscs");
}
