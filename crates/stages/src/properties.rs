//! Properties that hold for any input, checked by property tests and fuzz targets.

use std::sync::Arc;

use base::Method;
use model::{ApiState, LoadedApi, Snapshot};

use crate::route::{Routes, reference};
use crate::samples;

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

/// For each method, the trie finds the operation that the naive search finds, with or without escapes in
/// the path.
///
/// # Panics
/// If it does not.
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
    Routes::compile(&Snapshot { revision: 1, apis, ..Snapshot::default() }, None)
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
