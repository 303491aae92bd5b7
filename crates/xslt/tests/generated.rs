//! Sheets and documents by dice, of which `xsltproc` and we make the same. Small ones are kept as data with their results:
//! `data/generated.cases`, which is read without it; whether it still says the same is asked where it is. Large ones are
//! thrown anew, the same for every run.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[allow(dead_code, reason = "shared with the sections, which read all of it")]
mod cases;
#[allow(dead_code, reason = "bytes are the fuzz targets' dice")]
#[path = "../src/properties/generate.rs"]
mod generate;

use std::fmt::Write;
use std::ops::Range;
use std::process::Command;

use cases::{bare, transform};
use generate::{Dice, FOOT, HEAD, Size};

const CASES: &str = include_str!("data/generated.cases");
const CASES_HEAD: &str = "\
# Made by dice: `cargo test -p penstock-xslt --test generated -- --ignored` writes it anew.
# A source, then sheets over it, the inside of an xsl:stylesheet in which `p` is urn:p and `q` is urn:q, and what each makes of
# it. xsltproc makes the same, but for those behind `libxslt:`, where the section named decides against it (differences.cases).
";
const SOURCES: u64 = 40;
const SHEETS_EACH: usize = 30;
const THROWS_EACH: usize = 800;
/// What is longer isn't kept, nor what is shorter: of that a few are as good as many.
const SOURCE_BYTES: Range<usize> = 250..600;
const SHEET_BYTES: Range<usize> = 120..400;
const RESULT_BYTES: Range<usize> = 70..280;
const LARGE: Range<u64> = 0..300;

struct Case {
    source: &'static str,
    sheet: &'static str,
    result: &'static str,
    differs: bool,
}

fn all() -> Vec<Case> {
    let (mut source, mut sheet) = ("", "");
    let mut all = Vec::new();
    for line in CASES.lines().filter(|line| !line.starts_with('#')) {
        match line.split_once(' ').unwrap() {
            ("source", text) => source = text,
            ("sheet", text) => sheet = text,
            ("result", result) => all.push(Case { source, sheet, result, differs: false }),
            (_, result) => {
                let (_, result) = result.split_once(' ').unwrap();
                all.push(Case { source, sheet, result, differs: true });
            }
        }
    }
    all
}

fn whole(sheet: &str) -> String {
    [HEAD, sheet, FOOT].concat()
}

#[test]
fn every_generated_case_has_its_result() {
    let all = all();
    let mut wrong = Vec::new();
    for Case { source, sheet, result, .. } in &all {
        let made = transform(&whole(sheet), source);
        if made.as_deref() != Ok(result) {
            wrong.push(format!("{source}\n{sheet}\n  wanted {result}\n  made   {made:?}"));
        }
    }
    let few = wrong.iter().take(5).map(String::as_str).collect::<Vec<_>>().join("\n");
    assert!(wrong.is_empty(), "{} of {}, among them\n{few}", wrong.len(), all.len());
    assert!(all.len() >= 1_000, "{}", all.len());
}

#[test]
fn xsltproc_makes_the_same_of_the_generated_cases() {
    let folder = tempfile::tempdir().unwrap();
    let cases = all();
    let asked = cases.iter().filter(|case| !case.differs);
    let wrong: Vec<String> = asked
        .filter_map(|case| {
            let theirs = xsltproc(&folder, &whole(case.sheet), case.source);
            let same = theirs.as_deref().map(plain) == Ok(plain(case.result));
            (!same).then(|| format!("{}\n{}\n  theirs {theirs:?}", case.source, case.sheet))
        })
        .collect();
    let few = wrong.iter().take(5).map(String::as_str).collect::<Vec<_>>().join("\n");
    assert!(wrong.is_empty(), "{} differ, among them\n{few}", wrong.len());
}

#[test]
fn xsltproc_makes_the_same_of_large_sheets_by_dice() {
    let folder = tempfile::tempdir().unwrap();
    let mut wrong = Vec::new();
    let mut made = 0;
    for seed in LARGE {
        let mut dice = Dice::of_seed(seed);
        let sheet = whole(&generate::sheet(&mut dice, Size::Large));
        let source = generate::document(&mut dice);
        let (ours, theirs) = (transform(&sheet, &source), xsltproc(&folder, &sheet, &source));
        let same = ours.as_deref().map(plain) == theirs.as_deref().map(plain);
        if same && ours.is_ok() {
            made += ours.map_or(0, |ours| ours.len());
        } else if ours.is_err() || decided_by(&sheet).is_none() {
            wrong.push(format!(
                "seed {seed}\n{sheet}\n{source}\n  ours   {ours:?}\n  theirs {theirs:?}"
            ));
        }
    }
    let few = wrong.iter().take(5).map(String::as_str).collect::<Vec<_>>().join("\n");
    assert!(wrong.is_empty(), "{} differ, among them\n{few}", wrong.len());
    assert!(made > 40_000, "the dice make too little: {made} bytes");
}

#[test]
#[ignore = "writes data/generated.cases"]
fn the_cases_are_written_anew() {
    let folder = tempfile::tempdir().unwrap();
    let mut out = CASES_HEAD.to_owned();
    for seed in 1..=SOURCES {
        let mut dice = Dice::of_seed(10_000 + seed);
        let mut source = generate::document(&mut dice);
        while !SOURCE_BYTES.contains(&source.len()) {
            source = generate::document(&mut dice);
        }
        _ = writeln!(out, "source {source}");
        let mut kept = Vec::new();
        for _ in 0..THROWS_EACH {
            if kept.len() == SHEETS_EACH {
                break;
            }
            let sheet = generate::sheet(&mut dice, Size::Small);
            let result = transform(&whole(&sheet), &source).unwrap();
            let fits = SHEET_BYTES.contains(&sheet.len()) && RESULT_BYTES.contains(&result.len());
            if !fits || result.contains('\n') || kept.contains(&sheet) {
                continue;
            }
            let theirs = xsltproc(&folder, &whole(&sheet), &source);
            let same = theirs.as_deref().map(plain) == Ok(plain(&result));
            let said = match decided_by(&sheet) {
                _ if same => "result".to_owned(),
                Some(section) => format!("libxslt: {section}"),
                None => panic!("{source}\n{sheet}\n  ours   {result}\n  theirs {theirs:?}"),
            };
            _ = writeln!(out, "sheet {sheet}\n{said} {result}");
            kept.push(sheet);
        }
    }
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/generated.cases");
    std::fs::write(file, out).unwrap();
}

/// The section that decides where libxslt may make something else of a sheet: `data/differences.cases`.
fn decided_by(sheet: &str) -> Option<&'static str> {
    let has = |part: &str| sheet.contains(part);
    if has("p:z\" namespace=\"urn:q\"") || has("p:e\" namespace=\"urn:q\"") {
        Some("7.1.3")
    } else if has("<xsl:number/>") {
        Some("7.7")
    } else if has("<xsl:copy>") && has("namespace=\"urn:{count(*)}\"") {
        Some("7.5")
    } else {
        has("xsl:namespace-alias").then_some("7.1.1")
    }
}

fn xsltproc(folder: &tempfile::TempDir, sheet: &str, source: &str) -> Result<String, String> {
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("s.xslt", sheet);
    write("s.xml", source);
    let run = Command::new("xsltproc").args(["s.xslt", "s.xml"]).current_dir(folder).output();
    let run = run.expect("xsltproc is missing: install the Debian package xsltproc");
    if !run.status.success() {
        return Err(String::from_utf8_lossy(&run.stderr).into_owned());
    }
    Ok(bare(&String::from_utf8(run.stdout).unwrap()))
}

/// By expanded names: prefixes, where a declaration stands, the order of attributes, and whether an empty element has
/// two tags are free. Namespaces in scope are not.
fn plain(text: &str) -> String {
    let document = xml::Document::parse(text.as_bytes()).unwrap();
    let mut out = String::new();
    for node in document.root().descendants() {
        let depth = node.ancestors().count();
        out += &format!("{depth} {:?} {{{}}}{}", node.kind(), node.namespace(), node.local_name());
        if node.is_element() {
            let mut all: Vec<String> = node
                .attributes()
                .map(|one| format!(" {{{}}}{}={}", one.namespace(), one.local_name(), one.text()))
                .chain(node.namespaces_in_scope().map(|(_, uri)| format!(" in scope {uri}")))
                .collect();
            all.sort();
            all.dedup();
            out += &all.concat();
        } else {
            out += node.text();
        }
        out.push('\n');
    }
    out
}
