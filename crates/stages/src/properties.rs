//! Properties that hold for any input, checked by property tests and fuzz targets.

use std::sync::{Arc, LazyLock};

use base::{Method, Now, SystemEntropy};
use jose::{SealingKeys, SignInAttempt};
use model::{ApiState, KeyPlace, LoadedApi, Snapshot};

use crate::authenticate::{self, places, referer};
use crate::route::{Routes, reference};
use crate::samples;
use crate::sign_in::{Cookies, Session, begin, is_same_origin};

/// With templates and a path generated from `input`, the trie finds the operation that the naive search
/// finds. With the raw bytes as host and path, the remainder is a suffix of the path.
///
/// # Panics
/// If a property does not hold.
pub fn route(input: &[u8]) {
    let mut letters = input.iter().copied();
    let count = letters.next().unwrap_or(0) % 8;
    let lines: Vec<String> = (0..count).map(|_| line(&mut letters)).collect();
    let path = path(&mut letters);
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    trie_agrees_with_naive_search(&lines, &path);
    remainder_is_a_suffix(&lines, input);
}

/// Sessions and attempts cannot be forged without the key, and a browser returns only to this origin.
fn sessions(value: &[u8], query: &[u8]) {
    const SECRET: &[u8] = b"a secret that only this property knows, of 32 bytes at least";
    static KEYS: LazyLock<SealingKeys> =
        LazyLock::new(|| SealingKeys::new(SECRET).expect("it is long enough"));
    let now = Now::default();
    let cookies = Cookies::of("a", true);
    if let Some(sealed) = cookies.session(|_| Some(value)) {
        assert!(Session::open(&KEYS, "a", &sealed, now).is_none());
    }
    if let Some(sealed) = cookies.attempt(value, |_| Some(query)) {
        assert!(SignInAttempt::open(&KEYS, "a", (sealed, value), now).is_none());
    }
    let target = begin((value, Some(query)), None, &SystemEntropy, now).target;
    assert!(target.starts_with('/') && !target.starts_with("//") && !target.contains(['\r', '\n']));
    assert!(!is_same_origin(Some(value), None, (b"https", b"a")) || value.is_ascii());
}

/// For any input, an extracted credential has the right form, and a removed one does not occur in the output. `input`
/// has the value of a field, a query and a pattern, each on a line.
///
/// # Panics
/// If a property does not hold.
pub fn credentials(input: &[u8]) {
    let mut lines = input.splitn(3, |byte| *byte == b'\n');
    let mut line = || lines.next().unwrap_or_default();
    let (value, query, pattern) = (line(), line(), line());
    let schemes =
        [authenticate::bearer(value), authenticate::login(value), authenticate::bound(value)];
    assert!(schemes.iter().filter(|found| found.is_ok()).count() <= 1, "one scheme");
    for found in schemes.into_iter().flatten() {
        assert!(
            !found.is_empty() && found.trim_ascii() == found && value.trim_ascii().ends_with(found)
        );
    }
    let (places, mut left) = ([KeyPlace::Query("key".to_owned())], Vec::new());
    places::write_query(&places, query, &mut left);
    let keys = places::parameters(query).filter(|pair| pair.starts_with(b"key=")).count();
    let found = places::only(places::parameters(query), "key");
    assert_eq!(found.is_err(), keys > 1, "several keys are rejected");
    assert_eq!(found.is_ok_and(|found| found.is_some()), keys == 1);
    assert!(places::parameters(&left).all(|pair| !places::is_key(&places, pair)));
    let others = places::parameters(query).filter(|pair| !pair.starts_with(b"key="));
    let others: Vec<_> = others.collect();
    assert_eq!(left, others.join(&b'&'), "the others stay");
    for pair in places::cookies(value) {
        assert!(!pair.is_empty() && !pair.contains(&b';'));
    }
    sessions(value, query);
    let fits = places::matches(pattern, query);
    assert!(pattern.contains(&b'*') || fits == (pattern == query), "nothing stands for anything");
    assert!(places::matches(query, query) || query.contains(&b' '), "it fits itself");
    for path in [value, query, pattern] {
        let elsewhere = [b"https://evil.test/", path].concat();
        assert!(!referer::fits(b"https://*.a.test/*", &elsewhere), "the host is another one");
    }
}

/// For each method, the trie finds the operation that the naive search finds, with or without escapes in
/// the path.
///
/// # Panics
/// If the trie finds another operation.
pub fn trie_agrees_with_naive_search(operations: &[&str], path: &str) {
    let routes = routes(operations);
    let Some(api) = routes.apis().next() else {
        return;
    };
    for method in Method::NAMED {
        let expect = reference::find(&api.api.operations, method, path);
        let found = api.operation(method, path.as_bytes());
        assert_eq!(found, expect, "{} {path:?} among {operations:?}", method.as_str());
        let escaped = path.replace('a', "%61");
        let found = api.operation(method, escaped.as_bytes());
        assert_eq!(found, expect, "{} {escaped:?} among {operations:?}", method.as_str());
    }
}

fn remainder_is_a_suffix(operations: &[&str], bytes: &[u8]) {
    let routes = routes(operations);
    let remainder = match routes.find(bytes, Method::Get, bytes, true) {
        Ok(found) => found.remainder,
        Err(not_found) => not_found.remainder,
    };
    assert!(bytes.ends_with(remainder));
}

fn routes(operations: &[&str]) -> Routes {
    let api = Arc::new(samples::api("", operations));
    let apis = vec![LoadedApi { api, state: ApiState::Serving }];
    Routes::compile(&Snapshot { revision: 1, apis: apis.into(), ..Snapshot::default() }, None)
}

/// Small alphabets, so that templates and paths often overlap.
fn line(letters: &mut impl Iterator<Item = u8>) -> String {
    let mut draw = |of: u8| letters.next().unwrap_or(0) % of;
    let mut line = ["GET ", "POST ", "PUT "][usize::from(draw(3))].to_owned();
    for _ in 0..draw(4) {
        const SEGMENTS: [&str; 10] =
            ["/a", "/b", "/ab", "/{x}", "/{y}", "/a{x}", "/{x}b", "/{x}a{y}", "/{x}{y}", "/"];
        line.push_str(SEGMENTS[usize::from(draw(10))]);
    }
    line.push_str(["", "/", "/*"][usize::from(draw(3))]);
    line
}

fn path(letters: &mut impl Iterator<Item = u8>) -> String {
    let mut draw = |of: u8| letters.next().unwrap_or(0) % of;
    let mut path = String::new();
    for _ in 0..draw(5) {
        path.push_str(
            ["/a", "/b", "/ab", "/aab", "/abab", "/", "/c", "/bab"][usize::from(draw(8))],
        );
    }
    if draw(3) == 0 {
        path.push('/');
    }
    path
}
