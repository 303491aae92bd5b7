//! docs/conformance.md, made from the cases of the engines' tests: which of them shows what of the
//! recommendations. The tests run them, and take out what each is named after.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::Outcome;
use crate::tidy::{Finding, Tree};

const PAGE: &str = "docs/conformance.md";

const HEAD: &str = "\
# Conformance

What XPath 1.0, XSLT 1.0 and EXSLT define by name, and the cases that show it. Made from the files of cases by
`cargo xtask conformance`; change it there.

Each case named here **fails when its feature is taken out**, and `cargo test` proves it each time: the tests' engines
are built with the cargo feature `knock-out`, by which one thing at a time is not recognised. A step along an axis that was
taken out selects no node; an operator or a function answers the empty node-set; an instruction, a declaration or an
attribute isn't there. So a case counts only if its answer depends on what the feature *does*. The same tests fail when an engine
recognises something that isn't listed here, and when something listed has no case. A release has none of this in it.
";

const FURTHER_HEAD: &str = "
More cases are kept as data with what they have to come to; `cargo test` runs them all without the other engines, and asks these
again (the Debian packages libxml2-utils and xsltproc). Beside them, tests throw larger documents, expressions and sheets by dice anew.

| file | cases | |
|---|--:|---|
";

/// A recommendation with its files, which are `== section feature` and the cases behind.
struct Part {
    title: &'static str,
    source: &'static str,
    inventory: &'static str,
    /// How many cases the lines behind a head are.
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

/// Further files of cases: what they are, and what each case in them has a line of.
struct Further {
    file: &'static str,
    what: &'static str,
    is_case: fn(&str) -> bool,
}

const BY_HAND_XSLT: &str = "by hand, by section; xsltproc runs them too";

#[rustfmt::skip]
const FURTHER: &[Further] = &[
    Further { file: "crates/xpath/tests/data/core.cases", what: "by hand, by section", is_case: is_answer },
    Further { file: "crates/xpath/tests/data/generated.cases", what: "generated: 5 documents; libxml2 gives the same results", is_case: is_answer },
    Further { file: "crates/xslt/tests/data/sections.cases", what: BY_HAND_XSLT, is_case: is_head },
    Further { file: "crates/xslt/tests/data/available.cases", what: BY_HAND_XSLT, is_case: is_head },
    Further { file: "crates/xslt/tests/data/number.cases", what: BY_HAND_XSLT, is_case: is_head },
    Further { file: "crates/xslt/tests/data/format.cases", what: BY_HAND_XSLT, is_case: is_head },
    Further { file: "crates/xslt/tests/data/output.cases", what: BY_HAND_XSLT, is_case: is_head },
    Further { file: "crates/xslt/tests/data/html.cases", what: BY_HAND_XSLT, is_case: is_head },
    Further { file: "crates/xslt/tests/data/exslt.cases", what: BY_HAND_XSLT, is_case: is_head },
    Further { file: "crates/xslt/tests/data/generated.cases", what: "by dice: sheets with namespaces; libxslt makes the same", is_case: is_result },
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

/// What the other engine does otherwise, `section | difference`.
const DIFFERENCES: &[(&str, &str)] = &[
    ("XPath 1.0: libxml2", "crates/xpath/tests/data/differences.cases"),
    ("XSLT 1.0 and EXSLT: libxslt", "crates/xslt/tests/data/differences.cases"),
];

/// `expression | answer`, a line each.
fn expressions(lines: &[&str]) -> usize {
    lines.iter().filter(|line| is_answer(line)).count()
}

/// One sheet with its parts behind it, or expressions.
fn sheets(lines: &[&str]) -> usize {
    match lines.first() {
        Some(line) if line.starts_with('<') => 1,
        Some(_) | None => expressions(lines),
    }
}

/// Writes the page.
///
/// # Errors
/// A file is missing or not understood, or the page can't be written.
pub(crate) fn run(root: &Path, _arguments: &[String]) -> Outcome {
    let page = page(&Tree::read(root)?)?;
    std::fs::write(root.join(PAGE), page).map_err(|error| format!("{PAGE}: {error}"))
}

/// The page says what the cases say.
pub(crate) fn drift(tree: &Tree) -> Vec<Finding> {
    let found = |line, what: String| {
        let instead = "run `cargo xtask conformance`".to_owned();
        vec![Finding { file: PathBuf::from(PAGE), line, what, instead }]
    };
    match page(tree) {
        Err(why) => found(1, why),
        Ok(wanted) => {
            let stands = tree.text(Path::new(PAGE));
            if stands == wanted {
                return Vec::new();
            }
            let same = stands.lines().zip(wanted.lines()).take_while(|(a, b)| a == b).count();
            found(same + 1, "differs from the files of cases".to_owned())
        }
    }
}

struct Feature<'t> {
    section: &'t str,
    name: &'t str,
    /// Of its head, from 1.
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
    page.push_str("\n## Differences to the other engines\n");
    for (title, file) in DIFFERENCES {
        page.push_str(&differences(title, file, &tree.text(Path::new(file)))?);
    }
    Ok(page + &tables)
}

fn features<'t>(text: &'t str, part: &Part) -> Result<Vec<Feature<'t>>, String> {
    let lines: Vec<&str> = text.lines().collect();
    let heads: Vec<usize> =
        lines.iter().enumerate().filter(|(_, l)| l.starts_with("== ")).map(|(at, _)| at).collect();
    if heads.is_empty() {
        return Err(format!("{} has no cases", part.inventory));
    }
    let ends = heads.iter().skip(1).copied().chain([lines.len()]);
    let mut found = Vec::new();
    for (head, end) in heads.iter().copied().zip(ends) {
        let wrong = || format!("{}:{}: `== section feature`, then cases", part.inventory, head + 1);
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
        let (section, what) =
            line.split_once(" | ").ok_or_else(|| format!("{file}: `section | difference`"))?;
        _ = writeln!(table, "| {section} | {} |", what.replace('|', "\\|"));
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feature_is_a_row_with_its_cases_and_their_place() {
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
    fn a_feature_without_a_case_is_refused() {
        for text in ["", "== 2.2 axis self\n", "== 2.2\na | b\n"] {
            assert!(features(text, &PARTS[0]).is_err(), "{text}");
        }
    }
}
