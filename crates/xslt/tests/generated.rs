//! Sheets and documents by dice, the same for every run of this test: `xsltproc` makes the same of them.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[allow(dead_code, reason = "shared with the sections, which read all of it")]
mod cases;
#[allow(dead_code, reason = "bytes are the fuzz targets' dice")]
#[path = "../src/properties/generate.rs"]
mod generate;

use std::process::Command;

use cases::{bare, sheet, transform};
use generate::Dice;

const SEEDS: std::ops::Range<u64> = 0..400;

#[test]
fn xsltproc_makes_the_same_of_sheets_and_documents_by_dice() {
    let folder = tempfile::tempdir().unwrap();
    let (sheet_at, source_at) = (folder.path().join("s.xslt"), folder.path().join("s.xml"));
    let mut differences = Vec::new();
    let mut made = 0;
    for seed in SEEDS {
        let mut dice = Dice::of_seed(seed);
        let (text, source) = (sheet(&generate::sheet(&mut dice)), generate::document(&mut dice));
        std::fs::write(&sheet_at, &text).unwrap();
        std::fs::write(&source_at, &source).unwrap();
        let run = Command::new("xsltproc").arg(&sheet_at).arg(&source_at).output().unwrap();
        let ours = transform(&text, &source);
        let theirs = String::from_utf8(run.stdout).unwrap();
        if run.status.success() && ours.as_deref().map(plain) == Ok(plain(&bare(&theirs))) {
            made += theirs.len();
            continue;
        }
        let said = String::from_utf8_lossy(&run.stderr);
        differences
            .push(format!("seed {seed}\n{text}\n{source}\ntheirs {theirs}{said}\nours {ours:?}\n"));
    }
    let count = differences.len();
    assert!(differences.is_empty(), "{count} differ\n{}", differences[..count.min(5)].join("\n"));
    assert!(made > 20_000, "the dice make too little: {made} bytes");
}

/// Written anew by one writer: an empty element may have two tags.
fn plain(text: &str) -> String {
    let document = xml::Document::parse(text.as_bytes()).unwrap();
    String::from_utf8(document.write(xml::WriterOptions::default()).unwrap()).unwrap()
}
