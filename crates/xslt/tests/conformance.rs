//! The inventory of XSLT 1.0 and EXSLT, `data/*features.cases`: each case has its expected result, has a different one
//! when its feature is disabled, and agrees with xsltproc. docs/conformance.md is generated from it.

use crate::cases;

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::Mutex;

use xpath::knock_out::without;
use xslt::{Budget, Options, Resolver, Resource, Stylesheet};

const INVENTORIES: &[&str] =
    &[include_str!("data/features.cases"), include_str!("data/exslt-features.cases")];
/// The inventory of XPath.
const XPATH: &str = include_str!("../../xpath/tests/data/features.cases");

const DIFFERENCES: &str = include_str!("data/differences.cases");
const GENERATED: &str = include_str!("data/generated.cases");

const PREFIXES: &str = "xmlns:date='http://exslt.org/dates-and-times' xmlns:exsl='http://exslt.org/common' \
    xmlns:math='http://exslt.org/math' xmlns:re='http://exslt.org/regular-expressions' \
    xmlns:set='http://exslt.org/sets' xmlns:str='http://exslt.org/strings'";
/// Attributes for stylesheets that are embedded in documents, which have no effect here: section 2.7.
const OF_EMBEDDED_SHEETS: &[&str] = &["xsl:stylesheet/@id", "xsl:transform/@id"];
const DIFFERS: &str = "(libxslt differs)";

struct Case {
    /// Section and name of the case.
    head: &'static str,
    sheet: String,
    source: &'static str,
    expected: &'static str,
    /// Names and texts of other files.
    files: Vec<(&'static str, String)>,
    differs: bool,
}

impl Case {
    fn feature(&self) -> &'static str {
        self.head.split_once(' ').unwrap().1
    }

    /// A stylesheet, `--- source`, `--- expected`, and other files.
    fn of_sheet(head: &'static str, text: &'static str) -> Self {
        let mut parts = text.split("\n--- ");
        let mut next = || parts.next().unwrap_or_else(|| panic!("{head}: three parts"));
        let (sheet, source, expected) = (cases::sheet(next()), next(), next());
        let mut case = Self { head, sheet, source, expected, files: Vec::new(), differs: false };
        for part in parts {
            match part.split_once(' ') {
                Some((name, text)) if part != DIFFERS => {
                    let is_sheet = name.ends_with(".xsl");
                    let text = if is_sheet { cases::sheet(text) } else { text.to_owned() };
                    case.files.push((name, text));
                }
                Some(_) | None => case.differs = true,
            }
        }
        case
    }

    /// `expression | result`
    fn of_expression(head: &'static str, line: &'static str, source: &'static str) -> Self {
        let (expression, shown) = line.rsplit_once(" | ").unwrap();
        let (expected, differs) = match shown.strip_suffix(DIFFERS) {
            Some(shown) => (shown.trim_end(), true),
            None => (shown, false),
        };
        let expression = expression.replace('&', "&amp;").replace('<', "&lt;");
        let sheet = cases::sheet(&format!(
            "<xsl:output method=\"text\"/><xsl:template match=\"/\" {PREFIXES}>\
             <xsl:value-of select=\"{expression}\"/></xsl:template>"
        ));
        Self { head, sheet, source, expected, files: Vec::new(), differs }
    }

    fn result(&self) -> String {
        let files = Files { case: self, messages: Mutex::default() };
        let mut result = self.run(&files).unwrap_or_else(|()| "!".to_owned());
        for message in files.messages.lock().unwrap().iter() {
            result += &format!("\nmessage: {message}");
        }
        result
    }

    fn run(&self, files: &Files<'_>) -> Result<String, ()> {
        let sheet = Stylesheet::compile(self.sheet.as_bytes(), files).map_err(drop)?;
        let options = xml::Options { doctype: xml::Doctype::Read, ..xml::Options::default() };
        let source = xml::Document::parse_with(self.source.as_bytes(), &options).unwrap();
        let mut out = Vec::new();
        let options = Options::new().resolver(files).now_ms(1_000_000_000_000);
        let budget = Budget::default();
        sheet.transform_with(&source, &options, &budget, &mut out).map_err(drop)?;
        Ok(self.shown(&String::from_utf8(out).unwrap()))
    }

    /// The XML declaration is only compared if the stylesheet controls it.
    fn shown(&self, result: &str) -> String {
        if self.sheet.contains("omit-xml-declaration") {
            return result.trim_end_matches('\n').to_owned();
        }
        cases::bare(result)
    }

    /// The result of xsltproc, in the same form.
    fn result_of_xsltproc(&self) -> String {
        let folder = tempfile::tempdir().unwrap();
        let write =
            |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("main.xsl", &self.sheet);
        write("main.xml", self.source);
        for (name, text) in &self.files {
            write(name, text);
        }
        let mut command = Command::new("xsltproc");
        let run = command.args(["main.xsl", "main.xml"]).current_dir(&folder).output();
        let run = run.expect("xsltproc is missing: install the Debian package xsltproc");
        let made = self.shown(&String::from_utf8(run.stdout).unwrap());
        let mut result = if run.status.success() { made } else { "!".to_owned() };
        let messages = String::from_utf8(run.stderr).unwrap();
        let is_message = |line: &&str| !line.starts_with("no result for ");
        let wanted = self.expected.contains("\nmessage: ");
        for line in messages.lines().filter(|_| wanted).filter(is_message) {
            result += &format!("\nmessage: {line}");
        }
        result
    }
}

/// The files of a case, and its messages.
struct Files<'c> {
    case: &'c Case,
    messages: Mutex<Vec<String>>,
}

impl Resolver for Files<'_> {
    fn read(&self, href: &str, _: &str) -> Result<Resource, String> {
        let found = self.case.files.iter().find(|(name, _)| *name == href);
        let (name, text) = found.ok_or("no such file")?;
        Ok(Resource { bytes: text.clone().into_bytes(), uri: (*name).to_owned() })
    }

    fn message(&self, text: &str) {
        self.messages.lock().unwrap().push(text.to_owned());
    }
}

fn inventory() -> Vec<Case> {
    let mut all = Vec::new();
    for text in INVENTORIES {
        let mut source = "";
        for (at, block) in text.split("\n== ").enumerate() {
            let (head, body) = block.split_once('\n').unwrap_or((block, ""));
            if at > 0 && body.starts_with('<') {
                all.push(Case::of_sheet(head, body.trim_end_matches('\n')));
                continue;
            }
            for line in block.lines().skip(1) {
                match line.strip_prefix("source ") {
                    Some(given) => source = given,
                    None if line.starts_with('#') => {}
                    None => all.push(Case::of_expression(head, line, source)),
                }
            }
        }
    }
    all
}

#[test]
fn each_case_fails_only_when_its_feature_is_disabled() {
    let mut wrong = String::new();
    for case in inventory() {
        let with = case.result();
        if with != case.expected {
            wrong += &format!("{}\n  wanted {}\n  got    {with}\n", case.head, case.expected);
        }
        let (out, _) = without(case.feature(), || case.result());
        if out == case.expected {
            wrong += &format!("{}: {out} without it too\n", case.head);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn the_inventory_is_complete() {
    let heads = |text: &'static str| text.lines().filter_map(|line| line.strip_prefix("== "));
    let all = inventory();
    let listed: BTreeSet<&str> = all.iter().map(Case::feature).collect();
    let of_xpath: BTreeSet<&str> =
        heads(XPATH).map(|head| head.split_once(' ').unwrap().1).collect();
    let mut recognised: BTreeSet<String> = xslt::knock_out::recognised().into_iter().collect();
    for case in &all {
        recognised.extend(without("nothing", || case.result()).1);
    }
    let known = |name: &str| {
        listed.contains(name) || of_xpath.contains(name) || OF_EMBEDDED_SHEETS.contains(&name)
    };
    let unlisted: Vec<&String> = recognised.iter().filter(|name| !known(name)).collect();
    assert!(unlisted.is_empty(), "{unlisted:?}");
    let unrecognised: Vec<&&str> =
        listed.iter().filter(|name| !recognised.contains(**name)).collect();
    assert!(unrecognised.is_empty(), "{unrecognised:?}");
}

/// As counted in the recommendation: appendix B without the two `id`, section 7.1.1's attributes of literal elements,
/// sections 12 and 15.
#[test]
fn the_inventory_has_the_length_of_the_recommendation() {
    let all = inventory();
    let listed: BTreeSet<&str> = all.iter().map(Case::feature).collect();
    let count = |wanted: fn(&str) -> bool| listed.iter().filter(|name| wanted(name)).count();
    assert_eq!(count(|name| name.starts_with("xsl:") && !name.contains('@')), 35, "elements");
    assert_eq!(count(|name| name.starts_with("xsl:") && name.contains('@')), 80, "attributes");
    assert_eq!(count(|name| name.starts_with("literal element/@")), 4, "of literal elements");
    assert_eq!(count(|name| name.starts_with("function ") && !name.contains(':')), 9, "functions");
}

#[test]
fn xsltproc_agrees_with_the_inventory() {
    let mut wrong = String::new();
    for case in inventory() {
        let theirs = case.result_of_xsltproc();
        if (theirs == case.expected) == case.differs {
            wrong += &format!("{}\n  ours   {}\n  theirs {theirs}\n", case.head, case.expected);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn every_difference_from_xsltproc_is_explained_and_has_a_case() {
    let section = |head: &str| match head.split_once(' ').unwrap().0 {
        module if module.starts_with(char::is_alphabetic) => "EXSLT".to_owned(),
        number => number.to_owned(),
    };
    let of_inventory = inventory().into_iter().filter(|case| case.differs);
    let mut shown: BTreeSet<String> = of_inventory.map(|case| section(case.head)).collect();
    let others = cases::all().into_iter().filter(|case| case.name.contains(DIFFERS));
    shown.extend(others.map(|case| section(&case.name)));
    let generated = GENERATED.lines().filter_map(|line| line.strip_prefix("libxslt: "));
    shown.extend(generated.map(section));
    let lines = DIFFERENCES.lines().filter(|line| !line.starts_with('#'));
    let explained: BTreeSet<String> =
        lines.map(|line| line.split_once(" | ").unwrap().0.to_owned()).collect();
    assert_eq!(shown, explained);
}
