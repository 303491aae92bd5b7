//! Mediators on messages: each file under `golden/` has the artefacts, the message, and what becomes of it.
//! `PENSTOCK_BLESS=1` writes the results anew.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

#[allow(dead_code, reason = "each file of tests uses a part")]
mod support;

use std::fmt::Write as _;
use std::path::Path;

use support::{Outcome, compile, message, run_main};
use xpath::Budget;

/// The sections of a file: title and text.
fn sections(text: &str) -> Vec<(&str, &str)> {
    let parts = text.split("\n== ").map(|part| part.trim_start_matches("== "));
    parts.map(|part| part.split_once('\n').unwrap_or((part, ""))).collect()
}

fn outcome(artefacts: &str, content_type: &str, body: &str) -> String {
    let (_, diagnostics) = compile(artefacts);
    if !diagnostics.is_empty() {
        return format!("== diagnostics\n{}\n", diagnostics.join("\n"));
    }
    let mut ran = run_main(artefacts, message(content_type, body), Budget::default());
    let mut text = String::new();
    let log = std::mem::take(&mut ran.log);
    if let Outcome::Failed(failure) = &ran.outcome {
        let _ = writeln!(text, "== failure {}\n{failure}", failure.code.0);
    } else {
        let (body, content_type) = ran.finish();
        let _ = writeln!(text, "== result {content_type}\n{body}");
    }
    if !log.is_empty() {
        let _ = writeln!(text, "== log\n{}", log.join("\n"));
    }
    text
}

#[test]
fn mediators_do_what_their_files_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut differences = String::new();
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let parts = sections(&text);
        let [("artefacts", artefacts), (of, body), ..] = &*parts else { panic!("{path:?}") };
        let content_type = of.strip_prefix("message ").unwrap();
        let result = outcome(artefacts, content_type, body.trim_end_matches('\n'));
        let made = format!("== artefacts\n{artefacts}\n== {of}\n{body}\n{result}");
        if std::env::var_os("PENSTOCK_BLESS").is_some() {
            std::fs::write(&path, &made).unwrap();
        } else if made != text {
            let _ = writeln!(differences, "{}:\n{made}", path.display());
        }
        count += 1;
    }
    assert!(differences.is_empty(), "{differences}");
    assert!(count > 0);
}
