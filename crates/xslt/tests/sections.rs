//! Cases for each section of the recommendation and the published stylesheets, compared with `xsltproc`.
//!
//! For cases marked `libxslt differs` its result is different: `data/differences.cases` explains why, by section.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod cases;

use std::process::Command;

use cases::{all, bare, transform};

const REVERSE: &str = include_str!("data/reverse.xslt");
const INVERSE: &str = include_str!("data/inverse.xslt");
const ORDERS: &str = include_str!("data/buyStocks.xml");

#[test]
fn every_case_has_its_expected_result() {
    let mut wrong = String::new();
    for case in all() {
        let got = transform(&case.sheet, &case.source);
        if got.as_deref().ok() != Some(&case.expected) {
            wrong += &format!("{}\n  wanted {}\n  got {got:?}\n", case.name, case.expected);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn the_published_stylesheet_reverses_names_and_its_inverse_restores_them() {
    let there = transform(REVERSE, ORDERS).unwrap();
    assert!(there.contains("<m:skcotSyub xmlns:m=\"http://services.samples/xsd\">"), "{there}");
    assert!(there.contains("<lobmys>IBM</lobmys>") && there.contains("<emulov>8030</emulov>"));
    assert!(!there.contains("order") && there.contains("xadmin;server1;community#1.0##"));
    let back = transform(INVERSE, &there).unwrap();
    let plain = |text: &str| bare(text).split_whitespace().collect::<String>();
    assert_eq!(plain(&back), plain(ORDERS));
}

#[test]
fn xsltproc_agrees_with_every_case() {
    let folder = tempfile::tempdir().unwrap();
    let mut wrong = String::new();
    let mut runs: Vec<(String, String, String)> = all()
        .into_iter()
        .filter(|case| !case.name.contains("libxslt differs"))
        .map(|case| (case.name, case.sheet, case.source))
        .collect();
    runs.push(("published".to_owned(), REVERSE.to_owned(), ORDERS.to_owned()));
    for (name, sheet, source) in runs {
        let (sheet_at, source_at) = (folder.path().join("s.xslt"), folder.path().join("s.xml"));
        std::fs::write(&sheet_at, &sheet).unwrap();
        std::fs::write(&source_at, &source).unwrap();
        let run = Command::new("xsltproc").arg(&sheet_at).arg(&source_at).output().unwrap();
        if !run.status.success() {
            wrong += &format!("{name}\n  xsltproc {}\n", String::from_utf8_lossy(&run.stderr));
            continue;
        }
        let theirs = bare(&String::from_utf8(run.stdout).unwrap());
        let ours = transform(&sheet, &source);
        if ours.as_deref().ok().map(canonical) != Some(canonical(&theirs)) {
            wrong += &format!("{name}\n  theirs {theirs}\n  ours {ours:?}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Rewritten by one writer, since indentation and the position of namespace declarations are free.
fn canonical(text: &str) -> String {
    let options = xml::Options { doctype: xml::Doctype::Read, ..xml::Options::default() };
    match xml::Document::parse_with(text.as_bytes(), &options) {
        Ok(document) => {
            let written = document.write(xml::WriterOptions::default()).unwrap();
            String::from_utf8(written)
                .unwrap()
                .replace("\n", "")
                .replace("> ", ">")
                .replace(" <", "<")
        }
        Err(_) => text.to_owned(),
    }
}
