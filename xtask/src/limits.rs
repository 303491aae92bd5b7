//! docs/limits.md, generated from the doc comments and values of every `limits.rs`, so that it agrees with the code.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::Outcome;
use crate::tidy::{Finding, Tree};

/// The files with limits, and the heading for those without sections.
const SOURCES: &[(&str, &str)] = &[
    ("crates/base/src/limits.rs", ""),
    ("crates/xml/src/limits.rs", "XML"),
    ("crates/xpath/src/limits.rs", "XPath"),
    ("crates/xslt/src/limits.rs", "XSLT"),
    ("crates/expression/src/limits.rs", "JSON and expressions"),
    ("crates/mediation/src/limits.rs", "Mediation"),
    ("crates/mediation-tools/src/limits.rs", "Mediation for tools"),
    ("crates/manager/src/limits.rs", "Key manager"),
    ("crates/store/src/limits.rs", "Store"),
    ("echo/src/limits.rs", "The echo backend"),
    ("lab/src/limits.rs", "The lab"),
];
const PAGE: &str = "docs/limits.md";

const HEAD: &str = "\
# Limits

Every time, size and count that a peer or a file could stretch: the limited quantity, the consequence of exceeding
it, and the source of the figure. Generated from the `limits.rs` of each crate by `cargo xtask limits`; change it there.
";

/// Writes the page.
///
/// # Errors
/// A source cannot be parsed, or the page cannot be written.
pub(crate) fn run(root: &Path, _arguments: &[String]) -> Outcome {
    let read = |source: &str| {
        std::fs::read_to_string(root.join(source)).map_err(|error| format!("{source}: {error}"))
    };
    std::fs::write(root.join(PAGE), page(read)?).map_err(|error| format!("{PAGE}: {error}"))
}

/// Reports a page that differs from the limits in the code.
pub(crate) fn drift(tree: &Tree) -> Vec<Finding> {
    let found = |file: &str, line, what: String, instead: &str| {
        vec![Finding { file: PathBuf::from(file), line, what, instead: instead.to_owned() }]
    };
    match page(|source| Ok(tree.text(Path::new(source)))) {
        Err(why) => found(
            PAGE,
            1,
            why,
            "write `/// What. Consequence.` and `pub const NAME: T = N * UNIT;`",
        ),
        Ok(wanted) => {
            let current = tree.text(Path::new(PAGE));
            if current == wanted {
                return Vec::new();
            }
            let same = current.lines().zip(wanted.lines()).take_while(|(a, b)| a == b).count();
            found(
                PAGE,
                same + 1,
                "differs from the limits in the code".to_owned(),
                "run `cargo xtask limits`",
            )
        }
    }
}

/// The whole page, from the texts of [`SOURCES`].
fn page(read: impl Fn(&str) -> Result<String, String>) -> Result<String, String> {
    let mut page = String::from(HEAD);
    for (source, title) in SOURCES {
        if !title.is_empty() {
            section(&mut page, title);
        }
        let rows = rows(&mut page, &read(source)?).map_err(|why| format!("{source}: {why}"))?;
        if rows == 0 {
            return Err(format!("{source}: no limits were found"));
        }
    }
    Ok(page)
}

fn section(page: &mut String, title: &str) {
    _ = write!(page, "\n## {title}\n\n| limit | value | meaning |\n|---|--:|---|\n");
}

/// Section headings, and a row per limit. Returns the number of rows.
fn rows(page: &mut String, source: &str) -> Result<u32, String> {
    let mut doc = String::new();
    let mut row = 0_u32;
    for statement in statements(source) {
        if let Some(title) = statement.strip_prefix("// --- ") {
            section(page, &capitalised(title.trim_end_matches(['-', ' '])));
        } else if let Some(text) = statement.strip_prefix("/// ") {
            doc = if doc.is_empty() { text.to_owned() } else { format!("{doc} {text}") };
        } else if let Some(constant) = statement.strip_prefix("pub const ") {
            let (name, value) = read_constant(constant)?;
            if doc.is_empty() {
                return Err(format!("{name} has no doc comment"));
            }
            row += 1;
            let doc = std::mem::take(&mut doc).replace('|', "\\|");
            _ = writeln!(page, "| `{name}` | {} | {doc} |", figure(&name, value));
        }
    }
    Ok(row)
}

/// Comment lines, and items joined up to their semicolon.
fn statements(source: &str) -> Vec<String> {
    let mut statements: Vec<String> = Vec::new();
    let mut open = false;
    for line in source.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match statements.last_mut().filter(|_| open) {
            Some(item) => _ = write!(item, " {line}"),
            None => statements.push(line.to_owned()),
        }
        open = !statements
            .last()
            .is_some_and(|item| item.starts_with("//") || item.ends_with([';', '}', ']']));
    }
    statements
}

/// `NAME: TYPE = EXPRESSION;`
fn read_constant(text: &str) -> Result<(String, u64), String> {
    let not_read = || format!("`pub const {text}` was not understood");
    let (name, rest) = text.split_once(':').ok_or_else(not_read)?;
    let (_, expression) = rest.split_once('=').ok_or_else(not_read)?;
    let value = product(expression.trim().trim_end_matches(';')).ok_or_else(not_read)?;
    Ok((name.trim().to_owned(), value))
}

/// A product of numbers and units; casts don't change it.
fn product(expression: &str) -> Option<u64> {
    expression.split('*').try_fold(1_u64, |product, factor| {
        let factor = factor.split(" as ").next().unwrap_or(factor).trim();
        let factor = match factor {
            "KIB" => 1024,
            "MIB" => 1024 * 1024,
            digits => digits.replace('_', "").parse().ok()?,
        };
        product.checked_mul(factor)
    })
}

/// The value with the unit that the name ends in.
fn figure(name: &str, value: u64) -> String {
    // `PER_S` counts something by the second.
    let unit = |unit| {
        let words: Vec<&str> = name.split('_').collect();
        words
            .iter()
            .enumerate()
            .any(|(at, word)| *word == unit && !(at > 0 && words.get(at - 1) == Some(&"PER")))
    };
    if unit("BYTES") && value.is_multiple_of(1024 * 1024) {
        format!("{} MiB", value / (1024 * 1024))
    } else if unit("BYTES") && value.is_multiple_of(1024) {
        format!("{} KiB", value / 1024)
    } else if unit("BYTES") {
        format!("{} bytes", grouped(value))
    } else if unit("MS") && value.is_multiple_of(1000) {
        format!("{} s", grouped(value / 1000))
    } else if unit("MS") {
        format!("{} ms", grouped(value))
    } else if unit("US") {
        format!("{} µs", grouped(value))
    } else if unit("S") {
        format!("{} s", grouped(value))
    } else {
        grouped(value)
    }
}

fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn capitalised(title: &str) -> String {
    let mut letters = title.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_becomes_a_row_with_its_unit() {
        let source = "const KIB: u32 = 1024;\n// --- waits ---\n/// Longest wait,\n/// in milliseconds.\n\
                      pub const WAIT_MS_MAX: u32 =\n    15 * 60_000;\n/// Largest.\npub const A_BYTES: u32 = 64 * KIB as u32;\n";
        let mut page = String::new();
        rows(&mut page, source).unwrap();
        let rows: Vec<&str> = page.lines().filter(|line| line.starts_with(['|', '#'])).collect();
        assert_eq!(
            rows,
            [
                "## Waits",
                "| limit | value | meaning |",
                "|---|--:|---|",
                "| `WAIT_MS_MAX` | 900 s | Longest wait, in milliseconds. |",
                "| `A_BYTES` | 64 KiB | Largest. |",
            ]
        );
    }

    #[test]
    fn a_limit_without_doc_comment_is_rejected() {
        let why = |source| rows(&mut String::new(), source).unwrap_err();
        assert!(why("pub const A: u32 = 1;").contains("no doc comment"));
        assert!(why("/// A.\npub const A: u32 = other();").contains("not understood"));
    }

    #[test]
    fn a_figure_has_the_unit_in_its_name() {
        for (name, value, text) in [
            ("HEAD_BYTES_MAX", 65_536, "64 KiB"),
            ("IDLE_MS_MAX", 1_500, "1,500 ms"),
            ("DRAIN_S_DEFAULT", 20, "20 s"),
            ("LOG_LINES_PER_S_MAX", 20, "20"),
        ] {
            assert_eq!(figure(name, value), text);
        }
    }

    #[test]
    fn figures_are_grouped_by_thousands() {
        for (value, text) in [(7, "7"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(value), text);
        }
    }
}
