//! Cases for each section of the recommendation and the published stylesheets, compared with `xsltproc`.
//!
//! Cases marked `libxslt differs` have another result there: `data/differences.cases` explains why, by section.

use crate::cases;

use std::process::Command;

use cases::{all, bare, transform};
use xml::Document;
use xslt::{Budget, NoResolver, Options, Stylesheet};

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
    match Document::parse_with(text.as_bytes(), &options) {
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

/// The results of runs on one thread, one after the other.
fn transformed(runs: &[(&Stylesheet, &str)]) -> Vec<Result<String, String>> {
    let run = |(sheet, source): &(&Stylesheet, &str)| {
        let source = Document::parse(source.as_bytes()).unwrap();
        let made = sheet.transform_to_string(&source, &Options::new(), &Budget::default());
        made.map_err(|error| error.to_string())
    };
    std::thread::scope(|scope| scope.spawn(|| runs.iter().map(run).collect()).join().unwrap())
}

#[test]
fn a_run_gives_what_it_gives_alone_whatever_its_thread_ran_before() {
    let rows = [
        "<xsl:output method='xml'/><xsl:template match='/r'><o><xsl:for-each select='a'><p><xsl:value-of select='b'/></p>\
         <q x='{c}'/></xsl:for-each></o></xsl:template>",
        "<xsl:output method='xml' indent='yes'/><xsl:template match='b'><xsl:copy-of select='..'/></xsl:template>",
        "<xsl:output method='xml' encoding='ISO-8859-1'/><xsl:template match='c'><n:o xmlns:n='u'><xsl:value-of select='.'/>\
         <xsl:attribute name='late' namespace='v'>1</xsl:attribute></n:o></xsl:template>",
        "<xsl:output method='xml'/><xsl:template match='r'><o><xsl:attribute name='x' namespace='v'>1</xsl:attribute></o>\
         </xsl:template>",
        "<xsl:template match='a'><xsl:message terminate='yes'>stop</xsl:message></xsl:template>",
        "<xsl:output method='xml'/><xsl:template match='r'><o><a><xsl:value-of select='a/b'/>\
         <xsl:if test='a/c'><xsl:message terminate='yes'>stop</xsl:message></xsl:if></a></o></xsl:template>",
        "<xsl:output method='text'/><xsl:template match='b'>b</xsl:template><xsl:template match='@b'>attribute</xsl:template>\
         <xsl:template match='*'><xsl:apply-templates select='@*|*'/></xsl:template>",
    ];
    let named = |name: usize| {
        format!("<xsl:template match='b'>{name}<xsl:value-of select='n{name}'/></xsl:template>")
    };
    let sheets: Vec<String> =
        rows.into_iter().map(str::to_owned).chain((0..20).map(named)).collect();
    let compiled = |row: &String| {
        let text = format!(
            "<xsl:stylesheet version='1.0' xmlns:xsl='http://www.w3.org/1999/XSL/Transform'>{row}</xsl:stylesheet>"
        );
        Stylesheet::compile(text.as_bytes(), &NoResolver).unwrap()
    };
    let sheets: Vec<Stylesheet> = sheets.iter().map(compiled).collect();
    let many: String = (0..300).map(|number| format!("<n{number}/>")).collect();
    let sources = [
        "<r><a><b>1</b><c>é</c></a><a><c>2</c><b>3</b></a></r>",
        "<r><a><b>1</b></a></r>",
        "<x:r xmlns:x='u'><a><b>1</b></a></x:r>",
        "<r b='1'><a b='2'/></r>",
        &format!("<r>{many}<a><b><n7>7</n7></b></a></r>"),
        "<b><n0>0</n0><n9>9</n9></b>",
    ];
    let runs: Vec<(&Stylesheet, &str)> =
        sheets.iter().flat_map(|sheet| sources.map(|source| (sheet, source))).collect();
    let alone: Vec<_> = runs.iter().flat_map(|run| transformed(&[*run])).collect();
    // By sheets and by sources, each twice in a row.
    let by_source = (0..sources.len()).flat_map(|at| (at..runs.len()).step_by(sources.len()));
    let order: Vec<usize> = (0..runs.len()).chain(by_source).flat_map(|at| [at, at]).collect();
    let one_after_the_other: Vec<_> = order.iter().map(|at| runs[*at]).collect();
    let got = transformed(&one_after_the_other);
    for (at, got) in order.into_iter().zip(got) {
        assert_eq!(got, alone[at], "run {at}, of {}", runs[at].1);
    }
}
