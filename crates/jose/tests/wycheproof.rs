//! The Wycheproof vectors give the marked results, with the exceptions listed here and their reasons.
//! Data: `tests/data/wycheproof`, see the README there.

use penstock_jose::{Compact, KeySet, Padding};
use serde_json::{Value, json};

const SIGNATURES: &str = include_str!("data/wycheproof/json_web_signature_test.json");
const KEYS: &str = include_str!("data/wycheproof/json_web_key_test.json");

/// Cases of the signature file with another result than marked: tcId, whether it is accepted, the reason.
#[rustfmt::skip]
const EXCEPTIONS: &[(u64, bool, &str)] = &[
    (346, false, "the key's alg is PS256, the header's is PS384"),
    (347, false, "the key's alg is ES521, which is not an algorithm; the header's is ES512"),
    (350, false, "as 346"),
    (351, false, "as 347"),
    // Defects of the file. The first two are the same bytes as 357, which is marked valid
    // (C2SP/wycheproof issue 236). The others hold a `?`, which RFC 7515 section 2 and RFC 4648 section 3.3
    // forbid; besides, their MAC is that of the text of 357, not of their own.
    (367, true,  "byte for byte 357"),
    (370, true,  "byte for byte 357"),
    (372, false, "a `?` in the header segment"),
    (373, false, "a `?` in the payload segment"),
];

#[test]
fn every_signature_vector_gives_the_marked_result_or_a_listed_exception() {
    check(SIGNATURES, 401, EXCEPTIONS, |key| json!({ "keys": [key] }));
}

#[test]
fn every_key_vector_gives_the_marked_result() {
    check(KEYS, 26, &[], Value::clone);
}

#[test]
fn the_two_contradictory_vectors_have_the_same_bytes_as_a_valid_one() {
    let file: Value = serde_json::from_str(SIGNATURES).unwrap();
    let jws = |id: u64| {
        let groups = file["testGroups"].as_array().unwrap().iter();
        let mut cases = groups.flat_map(|group| group["tests"].as_array().unwrap());
        cases.find(|case| case["tcId"] == id).unwrap()["jws"].clone()
    };
    assert_eq!(jws(357), jws(367));
    assert_eq!(jws(357), jws(370));
}

#[test]
fn shared_secrets_in_a_set_verify_nothing_unless_they_are_enabled() {
    for group in groups(SIGNATURES) {
        let key = material(&group);
        if key["kty"] != "oct" {
            continue;
        }
        let keys = KeySet::from_jwks(json!({ "keys": [key] }).to_string().as_bytes()).unwrap();
        assert!(keys.is_empty() && keys.skipped().len() == 1);
        for case in group["tests"].as_array().unwrap() {
            assert!(!accepts(&keys, case["jws"].as_str().unwrap()), "tcId {}", case["tcId"]);
        }
    }
}

#[track_caller]
fn check(file: &str, count: usize, exceptions: &[(u64, bool, &str)], to_set: fn(&Value) -> Value) {
    let mut wrong = Vec::new();
    let mut seen = 0;
    for group in groups(file) {
        // A rejected set verifies nothing.
        let keys = KeySet::from_jwks_with_secrets(to_set(material(&group)).to_string().as_bytes());
        for case in group["tests"].as_array().unwrap() {
            seen += 1;
            let id = case["tcId"].as_u64().unwrap();
            // No case is marked `acceptable`; a new one has to be decided here.
            let marked = match case["result"].as_str().unwrap() {
                "valid" => true,
                "invalid" => false,
                other => panic!("tcId {id} is marked {other}"),
            };
            let exception = exceptions.iter().find(|(own, ..)| *own == id);
            let expected = exception.map_or(marked, |(_, accepted, _)| *accepted);
            assert!(exception.is_none() || expected != marked, "tcId {id} is not an exception");
            let jws = case["jws"].as_str().unwrap();
            let accepted = keys.as_ref().is_ok_and(|keys| accepts(keys, jws));
            if accepted != expected {
                wrong.push(format!("tcId {id} ({}): accepted is {accepted}", case["comment"]));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(seen, count, "cases in the file");
}

fn accepts(keys: &KeySet, jws: &str) -> bool {
    Compact::parse(jws.as_bytes(), Padding::Rejected)
        .is_ok_and(|token| token.verify_signature(keys).is_ok())
}

fn groups(file: &str) -> Vec<Value> {
    let file: Value = serde_json::from_str(file).unwrap();
    file["testGroups"].as_array().unwrap().clone()
}

fn material(group: &Value) -> &Value {
    group.get("public").unwrap_or(&group["private"])
}
