//! Generates docs/conformance.md from the engines' test cases: the cases for each feature of the recommendations, and
//! the differences from other implementations.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::Outcome;
use crate::tidy::{Finding, Tree};

const PAGE: &str = "docs/conformance.md";

const HEAD: &str = "\
# Conformance

The features that XPath 1.0, XSLT 1.0 and EXSLT define by name with their test cases, and the known differences of all
engines to other implementations. Generated from the case files by `cargo xtask conformance`; do not edit.

Each case named here **fails when its feature is removed**, and `cargo test` proves it each time: the tests build the
engines with the cargo feature `knock-out`, which removes one feature at a time. A step along a removed axis selects no
node; a removed operator or function returns the empty node-set; a removed instruction, declaration or attribute is
ignored. So a case counts only if its result depends on the effect of the feature. The same tests fail if an engine
recognises a feature that is not listed here, or if a listed feature has no case. Release builds contain none of this.
";

const FURTHER_HEAD: &str = "
Further cases are kept as data with their expected results. `cargo test` runs all of them, and compares XPath and XSLT
with libxml2 and libxslt where the Debian packages libxml2-utils and xsltproc are installed. Other tests generate larger
documents, expressions and stylesheets at random.

| file | cases | |
|---|--:|---|
";

/// A recommendation and its case file, which holds `== section feature` lines, each followed by its cases.
struct Part {
    title: &'static str,
    source: &'static str,
    inventory: &'static str,
    /// Counts the cases in the lines after a heading.
    count: fn(&[&str]) -> usize,
}

const PARTS: &[Part] = &[
    Part {
        title: "XPath 1.0",
        source: "https://www.w3.org/TR/1999/REC-xpath-19991116/",
        inventory: "crates/xpath/tests/data/features.cases",
        count: expressions,
    },
    Part {
        title: "XSLT 1.0",
        source: "https://www.w3.org/TR/1999/REC-xslt-19991116",
        inventory: "crates/xslt/tests/data/features.cases",
        count: sheets,
    },
    Part {
        title: "EXSLT",
        source: "http://exslt.org/",
        inventory: "crates/xslt/tests/data/exslt-features.cases",
        count: sheets,
    },
];

/// A further case file: a description of its contents, and a count of its cases.
struct Further {
    file: &'static str,
    what: &'static str,
    is_case: fn(&str) -> bool,
}

const BY_HAND_XSLT: &str = "written by hand, by section; run with xsltproc, too";

#[rustfmt::skip]
const FURTHER: &[Further] = &[
    Further { file: "crates/xpath/tests/data/core.cases", what: "written by hand, by section", is_case: is_answer },
    Further { file: "crates/xpath/tests/data/generated.cases", what: "generated, for 5 documents; libxml2 agrees", is_case: is_answer },
    Further { file: "crates/xslt/tests/data/sections.cases", what: BY_HAND_XSLT, is_case: is_head },
    Further { file: "crates/xslt/tests/data/available.cases", what: BY_HAND_XSLT, is_case: is_head },
    Further { file: "crates/xslt/tests/data/number.cases", what: BY_HAND_XSLT, is_case: is_head },
    Further { file: "crates/xslt/tests/data/format.cases", what: BY_HAND_XSLT, is_case: is_head },
    Further { file: "crates/xslt/tests/data/output.cases", what: BY_HAND_XSLT, is_case: is_head },
    Further { file: "crates/xslt/tests/data/html.cases", what: BY_HAND_XSLT, is_case: is_head },
    Further { file: "crates/xslt/tests/data/exslt.cases", what: BY_HAND_XSLT, is_case: is_head },
    Further { file: "crates/xslt/tests/data/generated.cases", what: "generated stylesheets with namespaces; libxslt agrees", is_case: is_result },
    Further { file: "crates/expression/tests/cases/jsonpath.txt", what: "JSONPath; Jayway 2.9 agrees, but for error messages and the spelling of numbers", is_case: is_arrow },
    Further { file: "crates/expression/tests/cases/synapse.txt", what: "Synapse expressions; expectations from Micro Integrator's own tests and source", is_case: is_arrow },
    Further { file: "crates/expression/tests/cases/template.txt", what: "payload templates and FreeMarker", is_case: is_arrow },
];

fn is_answer(line: &str) -> bool {
    !line.starts_with('#') && line.contains(" | ")
}

fn is_head(line: &str) -> bool {
    line.starts_with("=== ")
}

fn is_result(line: &str) -> bool {
    line.starts_with("result ") || line.starts_with("libxslt: ")
}

fn is_arrow(line: &str) -> bool {
    !line.starts_with('#') && [" => ", " !! ", " ?? "].iter().any(|arrow| line.contains(arrow))
}

/// Files of differences that the tests verify: `== implementation: cause`, then `case => ours | theirs`.
const VERIFIED_DIFFERENCES: &[(&str, &str)] = &[
    ("JSONPath", "crates/expression/tests/cases/jsonpath-differences.txt"),
    ("Synapse expressions", "crates/expression/tests/cases/synapse-differences.txt"),
];

/// Differences in prose, `section | difference`.
const DIFFERENCES: &[(&str, &str)] = &[
    ("XPath 1.0: libxml2", "crates/xpath/tests/data/differences.cases"),
    ("XSLT 1.0 and EXSLT: libxslt", "crates/xslt/tests/data/differences.cases"),
];

/// One `expression | result` per line.
fn expressions(lines: &[&str]) -> usize {
    lines.iter().filter(|line| is_answer(line)).count()
}

/// One stylesheet, or expressions.
fn sheets(lines: &[&str]) -> usize {
    match lines.first() {
        Some(line) if line.starts_with('<') => 1,
        Some(_) | None => expressions(lines),
    }
}

/// Writes the page.
///
/// # Errors
/// If a case file is missing or malformed, or the page cannot be written.
pub(crate) fn run(root: &Path, _arguments: &[String]) -> Outcome {
    let page = page(&Tree::read(root)?)?;
    std::fs::write(root.join(PAGE), page).map_err(|error| format!("{PAGE}: {error}"))
}

/// Reports a page that is out of date.
pub(crate) fn drift(tree: &Tree) -> Vec<Finding> {
    let found = |line, what: String| {
        let instead = "run `cargo xtask conformance`".to_owned();
        vec![Finding { file: PathBuf::from(PAGE), line, what, instead }]
    };
    match page(tree) {
        Err(why) => found(1, why),
        Ok(wanted) => {
            let found_text = tree.text(Path::new(PAGE));
            if found_text == wanted {
                return Vec::new();
            }
            let same = found_text.lines().zip(wanted.lines()).take_while(|(a, b)| a == b).count();
            found(same + 1, "differs from the case files".to_owned())
        }
    }
}

struct Feature<'t> {
    section: &'t str,
    name: &'t str,
    /// Line of the section's heading, from 1.
    line: usize,
    cases: usize,
}

fn page(tree: &Tree) -> Result<String, String> {
    let texts: Vec<(&Part, String)> =
        PARTS.iter().map(|part| (part, tree.text(Path::new(part.inventory)))).collect();
    let mut page = String::from(HEAD);
    page.push_str("\n| | features | cases |\n|---|--:|--:|\n");
    let mut tables = String::new();
    let mut total = 0;
    for (part, text) in &texts {
        let features = features(text, part)?;
        let cases: usize = features.iter().map(|feature| feature.cases).sum();
        total += cases;
        _ = writeln!(page, "| [{}]({}) | {} | {cases} |", part.title, part.source, features.len());
        tables.push_str(&table(part, &features));
    }
    page.push_str(FURTHER_HEAD);
    for Further { file, what, is_case } in FURTHER {
        let cases = tree.text(Path::new(file)).lines().filter(|line| is_case(line)).count();
        total += cases;
        let name = file.trim_start_matches("crates/").replace("/tests/data", "");
        _ = writeln!(page, "| [{name}](../{file}) | {cases} | {what} |");
    }
    _ = writeln!(page, "\nIn all {total} cases.");
    page.push_str("\n## Differences to other implementations\n");
    for (title, file) in DIFFERENCES {
        page.push_str(&differences(title, file, &tree.text(Path::new(file)))?);
    }
    for (language, file) in VERIFIED_DIFFERENCES {
        page.push_str(&verified_differences(language, file, &tree.text(Path::new(file)))?);
    }
    Ok(page + &tables)
}

fn features<'t>(text: &'t str, part: &Part) -> Result<Vec<Feature<'t>>, String> {
    let lines: Vec<&str> = text.lines().collect();
    let heads: Vec<usize> =
        lines.iter().enumerate().filter(|(_, l)| l.starts_with("== ")).map(|(at, _)| at).collect();
    if heads.is_empty() {
        return Err(format!("{}: no cases", part.inventory));
    }
    let ends = heads.iter().skip(1).copied().chain([lines.len()]);
    let mut found = Vec::new();
    for (head, end) in heads.iter().copied().zip(ends) {
        let wrong =
            || format!("{}:{}: `== section feature` and cases expected", part.inventory, head + 1);
        let title = lines.get(head).and_then(|line| line.strip_prefix("== ")).ok_or_else(wrong)?;
        let (section, name) = title.split_once(' ').ok_or_else(wrong)?;
        let cases = (part.count)(lines.get(head + 1..end).unwrap_or(&[]));
        if cases == 0 {
            return Err(wrong());
        }
        found.push(Feature { section, name, line: head + 1, cases });
    }
    Ok(found)
}

fn table(part: &Part, features: &[Feature<'_>]) -> String {
    let mut table = format!(
        "\n## {}\n\n| section | feature | cases | where |\n|---|---|--:|---|\n",
        part.title
    );
    let file = part.inventory.rsplit_once('/').map_or("", |(_, file)| file);
    for Feature { section, name, line, cases } in features {
        let name = name.replace('|', "\\|");
        let inventory = part.inventory;
        _ = writeln!(
            table,
            "| {section} | `{name}` | {cases} | [{file}:{line}](../{inventory}#L{line}) |"
        );
    }
    table
}

fn differences(title: &str, file: &str, text: &str) -> Result<String, String> {
    let mut table = format!("\n### {title}\n\n| section | difference |\n|---|---|\n");
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (section, what) = line
            .split_once(" | ")
            .ok_or_else(|| format!("{file}: `section | difference` expected"))?;
        _ = writeln!(table, "| {section} | {} |", what.replace('|', "\\|"));
    }
    Ok(table)
}

/// Tables of differences by cause, each implementation's under its own heading.
fn verified_differences(language: &str, file: &str, text: &str) -> Result<String, String> {
    let mut tables = String::new();
    let (mut implementation, mut cause) = ("", "");
    for (number, line) in text.lines().enumerate() {
        let malformed = |expected: &str| format!("{file}:{}: {expected} expected", number + 1);
        if line.is_empty() || line.starts_with('#') || line.starts_with("= ") {
            continue;
        }
        if let Some(heading) = line.strip_prefix("== ") {
            let (found, rest) =
                heading.split_once(": ").ok_or_else(|| malformed("`== implementation: cause`"))?;
            if found != implementation {
                implementation = found;
                _ = write!(
                    tables,
                    "\n### {language}: {implementation}\n\n| here | example | result here | result there |\n|---|---|---|---|\n"
                );
            }
            cause = rest;
            continue;
        }
        let (case, theirs) =
            line.rsplit_once(" | ").ok_or_else(|| malformed("`case => ours | theirs`"))?;
        let (source, ours) = case
            .split_once(" => ")
            .or_else(|| case.split_once(" !! ").map(|(source, _)| (source, "error")))
            .ok_or_else(|| malformed("`case => ours | theirs`"))?;
        let cell = |text: &str| match text {
            "error" | "empty" | "syntax error" => text.to_owned(),
            code => format!("`{}`", code.replace('|', "\\|")),
        };
        _ = writeln!(tables, "| {cause} | {} | {} | {} |", cell(source), cell(ours), cell(theirs));
        // Only the first row of a group has the cause.
        cause = "";
    }
    Ok(tables)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feature_is_a_row_with_its_cases_and_position() {
        let text =
            "# said\n<r/>\n== 2.2 axis self\nself::r | /r\n. | /\n== 3.3 operator |\na | b | /a\n";
        let features = features(text, &PARTS[0]).unwrap();
        let table = table(&PARTS[0], &features);
        let rows: Vec<&str> = table.lines().skip(5).collect();
        assert_eq!(
            rows,
            [
                "| 2.2 | `axis self` | 2 | [features.cases:3](../crates/xpath/tests/data/features.cases#L3) |",
                "| 3.3 | `operator \\|` | 1 | [features.cases:6](../crates/xpath/tests/data/features.cases#L6) |",
            ]
        );
    }

    #[test]
    fn a_feature_without_a_case_is_rejected() {
        for text in ["", "== 2.2 axis self\n", "== 2.2\na | b\n"] {
            assert!(features(text, &PARTS[0]).is_err(), "{text}");
        }
    }

    #[test]
    fn a_verified_difference_is_a_row_below_its_implementation() {
        let text = "# head\n= {}\n== A 1: why\n$.a => 1 | [1]\n$.b !! words | null\n== B: other\n$.c => x | error\n";
        let tables = verified_differences("L", "f", text).unwrap();
        let rows: Vec<&str> =
            tables.lines().filter(|line| line.starts_with("### ") || line.contains('`')).collect();
        assert_eq!(
            rows,
            [
                "### L: A 1",
                "| why | `$.a` | `1` | `[1]` |",
                "|  | `$.b` | error | `null` |",
                "### L: B",
                "| other | `$.c` | `x` | error |",
            ]
        );
        assert!(verified_differences("L", "f", "== A 1: why\n$.a => 1\n").is_err());
    }
}
