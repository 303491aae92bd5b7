//! The recommendation, section by section; the published sheets; and `xsltproc` over all of them.
//!
//! Cases marked `libxslt differs` come out of it otherwise: `data/differences.cases` says how, by section.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod cases;

use std::process::Command;

use cases::{all, bare, transform};

const REVERSE: &str = include_str!("data/reverse.xslt");
const BACK: &str = include_str!("data/back.xslt");
const ORDERS: &str = include_str!("data/buyStocks.xml");

#[test]
fn each_section_has_a_case_that_comes_out_as_it_says() {
    let mut wrong = String::new();
    for case in all() {
        let got = transform(&case.sheet, &case.source);
        if got.as_deref() != Ok(&case.expected) {
            wrong += &format!("{}\n  wanted {}\n  got {got:?}\n", case.name, case.expected);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn the_published_sheet_reverses_the_names_of_an_order_and_its_inverse_turns_them_back() {
    let there = transform(REVERSE, ORDERS).unwrap();
    assert!(there.contains("<m:skcotSyub xmlns:m=\"http://services.samples/xsd\">"), "{there}");
    assert!(there.contains("<lobmys>IBM</lobmys>") && there.contains("<emulov>8030</emulov>"));
    assert!(!there.contains("order") && there.contains("xadmin;server1;community#1.0##"));
    let back = transform(BACK, &there).unwrap();
    let plain = |text: &str| bare(text).split_whitespace().collect::<String>();
    assert_eq!(plain(&back), plain(ORDERS));
}

#[test]
fn xsltproc_makes_the_same_of_all_of_them() {
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
        if ours.as_deref().map(canonical) != Ok(canonical(&theirs)) {
            wrong += &format!("{name}\n  theirs {theirs}\n  ours {ours:?}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Where a declaration stands among the attributes, and indentation, are free: written anew by one writer.
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
