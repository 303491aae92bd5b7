//! GitHub's published API description, whole and unmodified (tests/data/README.md): what a strict
//! reader of JSON sees in it is what is served.

#![allow(clippy::unwrap_used, reason = "a broken fixture has to fail the test")]

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::LazyLock;

use model::{ScopeRule, Security};
use penstock_formats::openapi::{Defaults, Outcome, read};

const PACKED: &[u8] = include_bytes!("data/github-api.json.gz");
const DEFAULTS: Defaults = Defaults { response_head_ms: 120_000, issuers_configured: true };

static TEXT: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut text = Vec::new();
    flate2::read::GzDecoder::new(PACKED).read_to_end(&mut text).unwrap();
    text
});
static LOADED: LazyLock<Outcome> = LazyLock::new(|| load(&TEXT));

fn load(text: &[u8]) -> Outcome {
    let no_refs = |name: &str| Err(format!("{name} is not to be asked for"));
    read("github-api.json".as_ref(), text, &no_refs, &DEFAULTS)
}

#[test]
fn every_operation_of_the_document_is_served_and_secured() {
    assert_eq!(LOADED.diagnostics, []);
    let api = LOADED.api.as_ref().unwrap();
    let served: BTreeMap<(String, String), _> = api
        .operations
        .iter()
        .map(|op| ((op.template.clone(), op.method.as_str().to_lowercase()), op))
        .collect();

    let document: serde_json::Value = serde_json::from_slice(&TEXT).unwrap();
    let mut declared = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        let template = if path == "/" { "" } else { path };
        for method in item.as_object().unwrap().keys() {
            declared += 1;
            let operation = served[&(template.to_owned(), method.clone())];
            assert_eq!(operation.security, Security::Token(ScopeRule::Anything), "{method} {path}");
        }
    }
    assert_eq!(declared, 1_223);
    assert_eq!(api.operations.len(), declared);
}

#[test]
fn the_server_of_an_operation_beats_that_of_the_document() {
    let api = LOADED.api.as_ref().unwrap();
    let host = |index: usize| api.upstreams[index].endpoints[0].authority.clone();
    assert_eq!(host(api.production.unwrap()), "api.github.com");
    let elsewhere: Vec<_> = api.operations.iter().filter(|op| op.production.is_some()).collect();
    assert_eq!(elsewhere.len(), 1);
    assert_eq!(elsewhere[0].template, "/repos/{owner}/{repo}/releases/{release_id}/assets");
    assert_eq!(host(elsewhere[0].production.unwrap()), "uploads.github.com");
}

#[test]
fn the_same_document_without_an_issuer_is_refused_and_keeps_its_base_path() {
    let defaults = Defaults { issuers_configured: false, ..DEFAULTS };
    let outcome = read("github-api.json".as_ref(), &TEXT, &|_| Err(String::new()), &defaults);
    assert_eq!(outcome.api, None);
    assert_eq!(outcome.diagnostics.len(), 1);
    assert!(outcome.diagnostics[0].message.contains("no issuer"), "{}", outcome.diagnostics[0]);
    let base_path = "/github-s-official-openapi-spec-octokit-extension/23.0.2";
    assert_eq!(outcome.base_path.as_deref(), Some(base_path));
}
