mod opaque;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

use base::{Entropy, Now, limits};
use jose::{Algorithm, Confirmation, Header, KeySet, SigningKey};
use model::{AuthFailure, Caller, Extent, Issuer, KeyType, Revoked};

use super::{
    Identity, Question, TokenCache, bearer, confirm, identify, identify_internal_key, thumbprint,
};

const ISS: &str = "https://idp.example/token";
const SECRET: &[u8; 32] = b"0123456789abcdef0123456789abcdef";
const OTHER_SECRET: &[u8; 32] = b"fedcba9876543210fedcba9876543210";
/// The time of the tests, in seconds since the Unix epoch.
const NOON: u64 = 1_700_000_000;

// --- the header's value -------------------------------------------------------------------------

#[test]
fn a_bearer_token_is_extracted_from_its_header() {
    const NONE: Result<&str, AuthFailure> = Err(AuthFailure::UnsupportedScheme);
    for (value, expect) in [
        ("Bearer abc.def.ghi", Ok("abc.def.ghi")),
        ("bearer abc", Ok("abc")),
        ("BEARER   abc  ", Ok("abc")),
        ("  Bearer\tabc", Ok("abc")),
        ("", NONE),
        ("Bearer", NONE),
        ("Bearer   ", NONE),
        ("Bearerabc", NONE),
        ("Basic dXNlcjpwYXNz", NONE),
        ("abc.def.ghi", NONE),
        ("Token abc", NONE),
    ] {
        let expect = expect.map(str::as_bytes);
        assert_eq!(bearer(value.as_bytes()), expect, "{value:?}");
    }
}

#[test]
fn a_token_above_the_limit_is_rejected() {
    let longest = "a".repeat(limits::TOKEN_BYTES_MAX);
    assert_eq!(bearer(format!("Bearer {longest}").as_bytes()), Ok(longest.as_bytes()));
    let value = format!("Bearer {longest}a");
    assert_eq!(bearer(value.as_bytes()), Err(AuthFailure::TokenTooLong));
}

// --- one token ----------------------------------------------------------------------------------

#[test]
fn a_verified_token_identifies_its_caller() {
    let mut fixture = Fixture::new(vec![issuer(1)]);
    let token = sign(
        r#"{"iss":"https://idp.example/token","sub":"alice","client_id":"app","azp":"other",
        "scope":"read write","aud":["one","two"],"jti":"id-1","exp":1700000060,"nbf":1699999999}"#,
    );
    for _ in 0..2 {
        let caller = fixture.known(&token);
        assert_eq!(caller.subject.as_deref(), Some("alice"));
        assert_eq!(caller.client_id.as_deref(), Some("app"));
        assert_eq!(caller.scopes, ["read", "write"]);
        assert_eq!(caller.audiences, ["one", "two"]);
        assert_eq!(caller.token_id.as_deref(), Some("id-1"));
        assert_eq!(caller.expires_s, Some(NOON + 60));
        assert_eq!(caller.not_before_s, Some(NOON - 1));
        assert_eq!((caller.issuer, caller.key_type), (Some(0), KeyType::Production));
    }
    fixture.expect_counts(1, 1);
}

#[test]
fn the_claims_that_conditions_name_are_kept_with_a_token() {
    let mut fixture = Fixture::new(vec![issuer(1)]);
    let token = |jti: u8| sign(&format!(r#"{{"iss":"{ISS}","jti":"{jti}","tier":"gold","n":7}}"#));
    assert!(fixture.known(&token(1)).claims.is_none());
    let names: Arc<[String]> = ["n", "none", "tier"].map(str::to_owned).into();
    fixture.cache.keep_claims(&names);
    assert!(fixture.known(&token(1)).claims.is_none(), "it was cached before");
    let before = fixture.cache.bytes();
    for _ in 0..2 {
        let caller = fixture.known(&token(2));
        let kept = caller.claims.as_ref().expect("they are kept");
        let texts: Vec<_> = kept.texts.iter().map(Option::as_deref).collect();
        assert!(Arc::ptr_eq(&kept.names, &names));
        assert_eq!(texts, [Some("7"), None, Some("gold")]);
    }
    assert!(fixture.cache.bytes() > before * 2, "they are charged");
}

#[test]
fn azp_is_the_client_id_if_client_id_is_absent_and_then_what_okta_and_entra_id_have() {
    let mut fixture = Fixture::new(vec![issuer(1)]);
    for (claims, expect) in [
        (r#""azp":"app""#, Some("app")),
        (r#""azp":"app","cid":"other","appid":"another""#, Some("app")),
        (r#""client_id":"app","cid":"other""#, Some("app")),
        (r#""cid":"app""#, Some("app")),
        (r#""appid":"app""#, Some("app")),
        // Other issuers use this claim for something else.
        (r#""cid":7"#, None),
    ] {
        let token = sign(&format!(r#"{{"iss":"{ISS}",{claims}}}"#));
        assert_eq!(fixture.known(&token).client_id.as_deref(), expect, "{claims}");
    }
}

#[test]
fn keytype_marks_sandbox_keys_in_any_case() {
    for (keytype, expect) in [
        ("SANDBOX", KeyType::Sandbox),
        ("sandbox", KeyType::Sandbox),
        ("PRODUCTION", KeyType::Production),
        ("else", KeyType::Production),
    ] {
        let mut fixture = Fixture::new(vec![issuer(1)]);
        let token = sign(&format!(r#"{{"iss":"{ISS}","keytype":"{keytype}"}}"#));
        assert_eq!(fixture.known(&token).key_type, expect, "{keytype}");
    }
}

#[test]
fn a_token_that_does_not_verify_is_rejected_with_its_reason_and_never_cached() {
    use AuthFailure::{
        BadSignature, MalformedToken, UnknownIssuer, UnsupportedAlgorithm, UnsupportedHeader,
    };
    let good = token(1);
    let (signed, signature) = good.rsplit_once('.').unwrap();
    let (other, _) = token(2).rsplit_once('.').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    let changed = format!("{other}.{signature}");
    let stranger = SigningKey::from_secret(OTHER_SECRET).unwrap();
    let id_token = Header { alg: Algorithm::Hs256, kid: None, typ: Some("id+jwt".to_owned()) };
    let id_token = SigningKey::from_secret(SECRET).unwrap().sign(&id_token, &claims(1)).unwrap();
    // {"alg":"none"}
    let unsigned = format!("eyJhbGciOiJub25lIn0.{}.{signature}", signed.split_once('.').unwrap().1);
    for (what, token, reason) in [
        ("empty", String::new(), MalformedToken),
        ("shorter than any signature", "a.b.c".to_owned(), MalformedToken),
        ("no JWS", "x".repeat(200), MalformedToken),
        ("white space", format!("{good} {good}"), MalformedToken),
        ("no signature", format!("{signed}."), BadSignature),
        ("another key's signature", sign_with(&stranger, None, &claims(1)), BadSignature),
        ("changed claims", changed, BadSignature),
        ("no iss", sign(r#"{"sub":"alice"}"#), UnknownIssuer),
        ("unknown iss", sign(r#"{"iss":"https://idp.example/token/"}"#), UnknownIssuer),
        ("alg none", unsigned, UnsupportedAlgorithm),
        ("an algorithm without key", sign_with(rsa(), None, &claims(1)), UnsupportedAlgorithm),
        ("an ID token by its type", id_token, UnsupportedHeader),
        (
            "an ID token by its claims",
            sign(&claims(1).replacen('{', r#"{"at_hash":"x","#, 1)),
            UnsupportedHeader,
        ),
        (
            "an ID token without the hash of an access token",
            sign(&claims(1).replacen('{', r#"{"typ":"ID","#, 1)),
            UnsupportedHeader,
        ),
        (
            "a logout token",
            sign(&claims(1).replacen('{', r#"{"events":{},"#, 1)),
            UnsupportedHeader,
        ),
    ] {
        let mut fixture = Fixture::new(vec![issuer(1)]);
        fixture.check(&token, Err(reason), what);
        assert_eq!(fixture.cache.len(), 0, "{what}");
        fixture.known(&good);
        fixture.check(&token, Err(reason), what);
        assert_eq!(fixture.cache.len(), 1, "{what}");
    }
}

#[test]
fn without_issuers_every_token_is_rejected() {
    Fixture::new(Vec::new()).check(&token(1), Err(AuthFailure::UnknownIssuer), "no issuer");
}

#[test]
fn lifetime_is_checked_at_each_use_with_the_issuers_leeway() {
    let lives = format!(r#"{{"iss":"{ISS}","exp":{},"nbf":{}}}"#, NOON + 100, NOON);
    for (leeway_s, at_s, expect) in [
        (0, NOON - 6, Err(AuthFailure::NotYetValid)),
        (0, NOON - 5, Ok(())),
        (3, NOON - 6, Err(AuthFailure::NotYetValid)),
        (0, NOON, Ok(())),
        (0, NOON + 99, Ok(())),
        (0, NOON + 100, Err(AuthFailure::Expired)),
        (10, NOON - 11, Err(AuthFailure::NotYetValid)),
        (10, NOON - 10, Ok(())),
        (10, NOON + 109, Ok(())),
        (10, NOON + 110, Err(AuthFailure::Expired)),
    ] {
        let what = format!("leeway {leeway_s}, at {at_s}");
        let token = sign(&lives);
        let mut fresh = Fixture::new(vec![Issuer { leeway_s, ..issuer(1) }]);
        fresh.now.unix_s = at_s;
        fresh.check(&token, expect, &what);
        assert_eq!(fresh.cache.len(), usize::from(expect.is_ok()), "{what}");

        let mut used = Fixture::new(vec![Issuer { leeway_s, ..issuer(1) }]);
        used.now.unix_s = NOON + 50;
        used.known(&token);
        used.now.unix_s = at_s;
        used.check(&token, expect, &what);
        used.expect_counts(1, 1);
        assert_eq!(used.cache.len(), usize::from(expect.is_ok()), "{what}");
    }
}

#[test]
fn a_token_without_exp_is_rejected_unless_its_issuer_allows_it() {
    let key = SigningKey::from_secret(SECRET).unwrap();
    for exp in ["", ",\"exp\":null"] {
        let token = sign_unchanged(&key, None, &format!(r#"{{"iss":"{ISS}"{exp}}}"#));
        let mut strict = Fixture::new(vec![issuer(1)]);
        strict.check(&token, Err(AuthFailure::NoExpiry), exp);
        assert!(strict.cache.is_empty());
        let mut lenient = Fixture::new(vec![Issuer { allow_unlimited: true, ..issuer(1) }]);
        assert_eq!(lenient.known(&token).expires_s, None);
        lenient.now.unix_s = u64::MAX;
        lenient.known(&token);
        lenient.expect_counts(1, 1);
        // The rule changes, and with it the revision.
        lenient.issuers = vec![Arc::new(issuer(2))];
        lenient.check(&token, Err(AuthFailure::NoExpiry), exp);
        assert!(lenient.cache.is_empty());
    }
}

#[test]
fn claims_of_unusual_types_identify_their_caller() {
    let mut fixture = Fixture::new(vec![issuer(1)]);
    let claims = r#"{"iss":"https://idp.example/token","sub":42,"scope":["read","write"],
        "scp":null,"client_id":null,"azp":"app","aud":null,"nbf":null,"keytype":null}"#;
    let caller = fixture.known(&sign(claims));
    assert_eq!(caller.subject.as_deref(), Some("42"));
    assert_eq!(caller.scopes, ["read", "write"]);
    assert_eq!(caller.client_id.as_deref(), Some("app"));
    assert_eq!((caller.audiences.len(), caller.not_before_s), (0, None));
}

#[test]
fn a_token_for_another_audience_is_rejected() {
    for (audiences, aud, expect) in [
        (&[][..], r#""x""#, Ok(())),
        (&["shop"][..], r#""shop""#, Ok(())),
        (&["shop", "desk"][..], r#"["x","desk"]"#, Ok(())),
        (&["shop"][..], r#""SHOP""#, Err(AuthFailure::WrongAudience)),
        (&["shop"][..], r#"["shops","sho"]"#, Err(AuthFailure::WrongAudience)),
        (&["shop"][..], "[]", Err(AuthFailure::WrongAudience)),
    ] {
        let audiences: Vec<String> = audiences.iter().map(|one| (*one).to_owned()).collect();
        let mut fixture = Fixture::new(vec![Issuer { audiences, ..issuer(1) }]);
        let token = sign(&format!(r#"{{"iss":"{ISS}","aud":{aud}}}"#));
        for _ in 0..2 {
            fixture.check(&token, expect, aud);
        }
    }
    let mut fixture =
        Fixture::new(vec![Issuer { audiences: vec!["shop".to_owned()], ..issuer(1) }]);
    fixture.check(&token(1), Err(AuthFailure::WrongAudience), "no aud at all");
}

#[test]
fn padding_is_accepted_from_issuers_that_allow_it() {
    let other = Issuer { iss: "other".to_owned(), padded_segments: true, ..issuer(1) };
    let padded = format!("{}=", token(1));
    let mut fixture = Fixture::new(vec![issuer(1), other]);
    fixture.check(&padded, Err(AuthFailure::PaddedToken), "only another issuer allows it");
    let mut fixture = Fixture::new(vec![issuer(1)]);
    fixture.check(&padded, Err(AuthFailure::PaddedToken), "no issuer allows it");
    fixture.check(&format!("{padded}="), Err(AuthFailure::MalformedToken), "too much padding");
    let mut fixture = Fixture::new(vec![Issuer { padded_segments: true, ..issuer(1) }]);
    fixture.known(&padded);
}

// --- several issuers and keys -------------------------------------------------------------------

#[test]
fn only_the_keys_of_the_issuer_named_by_iss_are_used() {
    let second = Issuer { iss: "second".to_owned(), keys: keys(OTHER_SECRET), ..issuer(1) };
    let mut fixture = Fixture::new(vec![issuer(1), second]);
    let other = SigningKey::from_secret(OTHER_SECRET).unwrap();
    assert_eq!(fixture.known(&sign_with(&other, None, r#"{"iss":"second"}"#)).issuer, Some(1));
    assert_eq!(fixture.known(&token(1)).issuer, Some(0));
    let forged = sign_with(&other, None, &claims(1));
    fixture.check(&forged, Err(AuthFailure::BadSignature), "signed by the second, names the first");
}

#[test]
fn issuers_that_share_an_iss_are_tried_in_turn() {
    let second = Issuer { name: "second".to_owned(), keys: keys(OTHER_SECRET), ..issuer(1) };
    let mut fixture = Fixture::new(vec![issuer(1), second]);
    let other = SigningKey::from_secret(OTHER_SECRET).unwrap();
    assert_eq!(fixture.known(&sign_with(&other, None, &claims(1))).issuer, Some(1));
}

#[test]
fn an_unknown_kid_names_the_issuer_whose_keys_to_fetch() {
    let jwks = format!(r#"{{"keys":[{}]}}"#, rsa().public_jwk(Some("new")).unwrap());
    let keys = KeySet::from_jwks(jwks.as_bytes()).unwrap();
    let elsewhere = Issuer { iss: "elsewhere".to_owned(), ..issuer(1) };
    let mut fixture = Fixture::new(vec![elsewhere, Issuer { keys, ..issuer(1) }]);
    fixture.known(&sign_with(rsa(), Some("new"), &claims(1)));
    let token = sign_with(rsa(), Some("newer"), &claims(1));
    assert_eq!(fixture.identify(&token), Identity::Ask(Question::KeySet { issuer: 1 }));
    let unknown = sign_with(rsa(), Some("newer"), r#"{"iss":"unknown"}"#);
    fixture.check(
        &unknown,
        Err(AuthFailure::UnknownIssuer),
        "an unknown issuer has no keys to fetch",
    );
}

// --- the cache ----------------------------------------------------------------------------------

#[test]
fn a_cached_token_is_verified_again_when_its_issuer_changes() {
    let mut fixture = Fixture::new(vec![issuer(1)]);
    fixture.known(&token(1));
    fixture.issuers = vec![Arc::new(issuer(1))];
    fixture.known(&token(1));
    fixture.expect_counts(1, 1);
    fixture.issuers = vec![Arc::new(issuer(2))];
    fixture.known(&token(1));
    fixture.expect_counts(1, 2);
    fixture.issuers = vec![Arc::new(Issuer { keys: keys(OTHER_SECRET), ..issuer(3) })];
    fixture.check(&token(1), Err(AuthFailure::BadSignature), "the key is gone");
    assert_eq!(fixture.cache.len(), 0);
}

#[test]
fn a_token_of_a_removed_issuer_is_rejected_when_another_has_its_index() {
    let named = |name: &str, iss: &str| {
        Arc::new(Issuer { name: name.to_owned(), iss: iss.to_owned(), ..issuer(1) })
    };
    let (first, second) = (named("first", ISS), named("second", "second"));
    let mut fixture = Fixture::new(Vec::new());
    fixture.issuers = vec![Arc::clone(&first), Arc::clone(&second)];
    let (one, two) = (token(1), sign(r#"{"iss":"second"}"#));
    assert_eq!((fixture.known(&one).issuer, fixture.known(&two).issuer), (Some(0), Some(1)));
    fixture.issuers = vec![second];
    fixture.check(&one, Err(AuthFailure::UnknownIssuer), "removed");
    assert_eq!(fixture.known(&two).issuer, Some(0));
}

#[test]
fn a_cached_token_is_verified_again_after_its_time_to_live() {
    let mut fixture = Fixture::new(vec![issuer(1)]);
    fixture.known(&token(1));
    fixture.now.mono_us += limits::TOKEN_CACHE_S_MAX * 1_000_000 - 1;
    fixture.known(&token(1));
    fixture.expect_counts(1, 1);
    fixture.now.mono_us += 1;
    fixture.known(&token(1));
    fixture.expect_counts(1, 2);
}

#[test]
fn four_thousand_tokens_used_in_turn_stay_cached() {
    let mut fixture = Fixture::new(vec![issuer(1)]);
    let filler = "x".repeat(750);
    let long = |number: u32| sign(&format!(r#"{{"iss":"{ISS}","jti":"{number}","x":"{filler}"}}"#));
    let tokens: Vec<String> = (0..4_000).map(long).collect();
    for _ in 0..3 {
        for token in &tokens {
            fixture.known(token);
        }
    }
    fixture.expect_counts(8_000, 4_000);
    assert!(fixture.cache.bytes() <= limits::TOKEN_CACHE_BYTES_MAX);
}

#[test]
fn the_cache_stays_within_its_limit_and_evicts_the_oldest_unused() {
    const BYTES_MAX: usize = 64 * 1024;
    let mut fixture = Fixture::new(vec![issuer(1)]);
    fixture.cache = TokenCache::new(BYTES_MAX, &Counting::default());
    let favourite = token(0);
    fixture.known(&favourite);
    for number in 1..1_000 {
        fixture.known(&token(number));
        assert!(fixture.cache.bytes() <= BYTES_MAX);
        let hits = fixture.cache.hits();
        fixture.known(&favourite);
        assert_eq!(fixture.cache.hits(), hits + 1, "used between all others, after {number}");
    }
    let held = fixture.cache.len();
    assert!((50..500).contains(&held), "{held} tokens");
    let hits = fixture.cache.hits();
    fixture.known(&token(999));
    fixture.known(&token(998));
    assert_eq!(fixture.cache.hits(), hits + 2, "the newest are cached");
    fixture.known(&token(1));
    assert_eq!(fixture.cache.hits(), hits + 2, "the oldest is evicted");
}

#[test]
fn a_token_larger_than_the_cache_is_accepted_but_not_cached() {
    let mut fixture = Fixture::new(vec![issuer(1)]);
    fixture.cache = TokenCache::new(100, &Counting::default());
    for _ in 0..2 {
        fixture.known(&token(1));
    }
    assert!(fixture.cache.is_empty());
    assert_eq!(fixture.cache.bytes(), 0);
}

#[test]
fn an_emptied_cache_counts_no_bytes() {
    let mut fixture = Fixture::new(vec![issuer(1)]);
    let tokens: Vec<String> = (0..20).map(token).collect();
    tokens.iter().for_each(|token| _ = fixture.known(token));
    fixture.now.unix_s = NOON + 10_000;
    for token in &tokens {
        fixture.check(token, Err(AuthFailure::Expired), "all are expired");
    }
    assert_eq!((fixture.cache.len(), fixture.cache.bytes()), (0, 0));
}

#[test]
fn keys_depend_on_the_last_bytes_the_length_and_the_seed() {
    let cache = TokenCache::new(1_000, &Counting::default());
    let other = TokenCache::new(1_000, &Counting(Cell::new(77)));
    let token: Vec<u8> = (0..100).collect();
    let mut keys = BTreeSet::from([cache.key(&token), other.key(&token), cache.key(&token[1..])]);
    for at in 68..100 {
        let mut changed = token.clone();
        changed[at] ^= 1;
        keys.insert(cache.key(&changed));
    }
    assert_eq!(keys.len(), 3 + 32);
    // The key of a shorter token depends on all its bytes.
    let short: BTreeSet<_> = [&token[..31], &token[..30], &token[1..31], &token[..1], &[]]
        .map(|token| cache.key(token))
        .into();
    assert_eq!(short.len(), 5);
}

#[test]
fn neither_tokens_nor_seeds_nor_claims_are_printed() {
    let mut fixture = Fixture::new(vec![issuer(1)]);
    let caller = fixture.known(&sign(&claims(1).replace("\"jti\"", "\"sub\":\"alice\",\"jti\"")));
    assert_eq!(caller.subject.as_deref(), Some("alice"));
    assert_eq!(format!("{:?}", fixture.cache), "TokenCache { len: 1, .. }");
    let expect = "Known(Caller { issuer: Some(0), key_type: Production, .. })";
    assert_eq!(format!("{:?}", Identity::Known(caller)), expect);
}

#[test]
fn a_bound_token_needs_the_certificate_that_it_is_bound_to() {
    let mut fixture = Fixture::new(vec![issuer(1)]);
    let own = thumbprint(b"own");
    let bound = |cnf: &str| sign(&format!(r#"{{"iss":"{ISS}","cnf":{cnf}}}"#));
    let unbound = fixture.known(&token(1));
    let foreign = fixture.known(&bound(r#"{"jkt":"key"}"#));
    let certificate = Some(Confirmation::Certificate(own));
    let owned = Caller { confirmation: certificate, ..(*unbound).clone() };
    let unconfirmed = Err(AuthFailure::Unconfirmed);
    for (caller, presented, expect) in [
        (&*unbound, None, Ok(())),
        (&*unbound, Some(&own), Ok(())),
        (&owned, Some(&own), Ok(())),
        (&owned, None, unconfirmed),
        (&owned, Some(&[0; 32]), unconfirmed),
        (&*foreign, None, unconfirmed),
        (&*foreign, Some(&own), unconfirmed),
    ] {
        assert_eq!(confirm(caller, presented), expect, "{presented:?}");
    }
}

#[test]
fn a_revoked_token_is_rejected_whether_or_not_it_is_cached() {
    let mut fixture = Fixture::new(vec![issuer(1)]);
    fixture.revoke(&[]);
    fixture.check(&token(1), Ok(()), "before");
    fixture.check(&token(2), Ok(()), "before");
    fixture.revoke(&["1", "3"]);
    fixture.check(&token(1), Err(AuthFailure::Revoked), "it is cached");
    fixture.check(&token(1), Err(AuthFailure::Revoked), "it is not cached any more");
    fixture.check(&token(3), Err(AuthFailure::Revoked), "it was never cached");
    fixture.expect_counts(0, 5);
    fixture.check(&token(2), Ok(()), "another token");
    fixture.expect_counts(1, 5);
    let unnamed = sign(&format!(r#"{{"iss":"{ISS}"}}"#));
    fixture.check(&unnamed, Ok(()), "it has no `jti`");
}

#[test]
fn the_tokens_of_a_removed_client_are_revoked_with_or_without_jti_unless_it_came_back() {
    let mut fixture = Fixture::new(vec![issuer(1)]);
    let of = |client: &str, more: &str| {
        sign(&format!(r#"{{"iss":"{ISS}","client_id":"{client}"{more}}}"#))
    };
    let removed = [
        (of("a", r#","iat":10,"jti":"1""#), "issued at that second"),
        (of("a", r#","iat":9"#), "without `jti`"),
        (of("a", r#","jti":"2""#), "issued at an unknown time"),
        (sign(&format!(r#"{{"iss":"{ISS}","azp":"a","iat":9}}"#)), "by `azp`"),
    ];
    let others = [
        (of("a", r#","iat":11"#), "of a later client with this ID"),
        (of("b", r#","iat":9"#), "of another client"),
        (token(3), "without client"),
    ];
    fixture.revoke(&[]);
    for (token, what) in removed.iter().chain(&others) {
        fixture.check(token, Ok(()), what);
    }
    let mut revoked = Revoked::default();
    revoked.add(jose::sha256(b"a"), Extent { issued_s: 10, until_s: u64::MAX });
    fixture.publish(&revoked);
    for times in ["cached", "not cached any more"] {
        for (token, what) in &removed {
            fixture.check(token, Err(AuthFailure::Revoked), &format!("{what}, {times}"));
        }
    }
    for (token, what) in &others {
        fixture.check(token, Ok(()), what);
    }
}

#[test]
fn an_issuer_of_internal_keys_decides_about_no_other_tokens_whatever_the_order() {
    let publisher = Issuer { internal_keys: true, ..issuer(1) };
    let resident = || Issuer { audiences: vec!["a".to_owned()], ..issuer(1) };
    let internal = sign(&format!(r#"{{"iss":"{ISS}","token_type":"InternalKey"}}"#));
    for issuers in [vec![publisher.clone(), resident()], vec![resident(), publisher.clone()]] {
        let mut fixture = Fixture::new(issuers);
        fixture.check(&token(1), Err(AuthFailure::WrongAudience), "the resident issuer's rules");
        let found = identify_internal_key(
            &mut fixture.cache,
            internal.as_bytes(),
            &fixture.issuers,
            fixture.now,
        );
        assert!(matches!(found, Identity::Known(_)), "{found:?}");
    }
    // Without another issuer of this `iss`, it verifies ordinary tokens too.
    Fixture::new(vec![publisher]).check(&token(1), Ok(()), "nobody else has this `iss`");
}

// --- the fixture --------------------------------------------------------------------------------

/// A cache, the issuers and the time.
struct Fixture {
    cache: TokenCache,
    issuers: Vec<Arc<Issuer>>,
    now: Now,
}

impl Fixture {
    fn new(issuers: Vec<Issuer>) -> Self {
        Self {
            cache: TokenCache::new(limits::TOKEN_CACHE_BYTES_MAX, &Counting::default()),
            issuers: issuers.into_iter().map(Arc::new).collect(),
            now: Now { unix_s: NOON, mono_us: 5_000_000 },
        }
    }

    fn identify(&mut self, token: &str) -> Identity {
        identify(&mut self.cache, token.as_bytes(), &self.issuers, self.now)
    }

    /// The issuer is published again, with these tokens revoked by their `jti`.
    fn revoke(&mut self, ids: &[&str]) {
        let mut revoked = Revoked::default();
        for id in ids {
            let extent = Extent { issued_s: u64::MAX, until_s: u64::MAX };
            revoked.add(jose::sha256(id.as_bytes()), extent);
        }
        self.publish(&revoked);
    }

    /// The issuer is published again.
    fn publish(&mut self, revoked: &Revoked) {
        for issuer in &mut self.issuers {
            let revoked = Some(Arc::new(revoked.clone()));
            *issuer = Arc::new(Issuer { revoked, ..Issuer::clone(issuer) });
        }
    }

    fn after_s(&mut self, seconds: u64) {
        self.now.unix_s += seconds;
        self.now.mono_us += seconds * 1_000_000;
    }

    #[track_caller]
    fn known(&mut self, token: &str) -> Rc<Caller> {
        match self.identify(token) {
            Identity::Known(caller) => caller,
            other @ (Identity::Rejected(_) | Identity::Ask(_)) => {
                panic!("{other:?}")
            }
        }
    }

    #[track_caller]
    fn check(&mut self, token: &str, expect: Result<(), AuthFailure>, what: &str) {
        let result = match self.identify(token) {
            Identity::Known(_) => Ok(()),
            Identity::Rejected(failure) => Err(failure),
            other @ Identity::Ask(_) => panic!("{what}: {other:?}"),
        };
        assert_eq!(result, expect, "{what}");
    }

    #[track_caller]
    fn expect_counts(&self, hits: u64, misses: u64) {
        assert_eq!((self.cache.hits(), self.cache.misses()), (hits, misses));
    }
}

fn issuer(revision: u64) -> Issuer {
    Issuer {
        name: "resident".to_owned(),
        iss: ISS.to_owned(),
        revision,
        keys: keys(SECRET),
        audiences: Vec::new(),
        leeway_s: 0,
        padded_segments: false,
        api_keys: false,
        internal_keys: false,
        allow_unlimited: false,
        introspection: None,
        passwords: None,
        revoked: None,
    }
}

fn keys(secret: &[u8]) -> KeySet {
    KeySet::from_secret(secret).unwrap()
}

fn rsa() -> &'static SigningKey {
    static KEY: OnceLock<SigningKey> = OnceLock::new();
    KEY.get_or_init(|| {
        let pem = SigningKey::generate_rsa().unwrap();
        SigningKey::from_pem(pem.as_bytes()).unwrap()
    })
}

/// Claims of a token that expires at `NOON + 5_000`.
fn claims(number: u32) -> String {
    format!(r#"{{"iss":"{ISS}","jti":"{number}","exp":{}}}"#, NOON + 5_000)
}

fn token(number: u32) -> String {
    sign(&claims(number))
}

fn sign(claims: &str) -> String {
    sign_with(&SigningKey::from_secret(SECRET).unwrap(), None, claims)
}

/// Signs `claims`, with those of [`claims`] in place of an absent `exp`.
fn sign_with(key: &SigningKey, kid: Option<&str>, claims: &str) -> String {
    if claims.contains("\"exp\"") {
        return sign_unchanged(key, kid, claims);
    }
    let exp = (NOON + 5_000).to_string();
    sign_unchanged(key, kid, &jose::with_member(claims, "exp", &exp).unwrap())
}

fn sign_unchanged(key: &SigningKey, kid: Option<&str>, claims: &str) -> String {
    let alg: Algorithm = key.algorithm();
    let header = Header { alg, kid: kid.map(str::to_owned), typ: Some("JWT".to_owned()) };
    key.sign(&header, claims).unwrap()
}

/// A deterministic sequence of bytes.
#[derive(Default)]
struct Counting(Cell<u8>);

impl Entropy for Counting {
    fn fill(&self, bytes: &mut [u8]) {
        for byte in bytes {
            self.0.set(self.0.get().wrapping_mul(5).wrapping_add(31));
            *byte = self.0.get();
        }
    }
}
