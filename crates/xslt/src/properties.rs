//! Properties that hold for any stylesheet and document, for fuzz targets and tests.

#[allow(dead_code, reason = "the seeds are for tests/generated.rs")]
mod generate;

use xml::Document;

use crate::properties::generate::{FOOT, Generator, HEAD, Size};
use crate::{Budget, NoResolver, Options, Stylesheet};

/// The budget of a run, so that no input takes long.
const STEPS: u64 = 20_000;
const BYTES: u64 = 64 << 20;

/// Any bytes are compiled, or rejected with a place in them, and with the same result the second time.
///
/// # Panics
/// If the property does not hold.
pub fn compiled_or_rejected(input: &[u8]) {
    let first = Stylesheet::compile(input, &NoResolver);
    let again = Stylesheet::compile(input, &NoResolver);
    match (first, again) {
        (Ok(_), Ok(_)) => {}
        (Err(first), Err(again)) => {
            assert_eq!(first, again);
            // A carriage return may end a line too.
            let lines = input.iter().filter(|b| matches!(b, b'\n' | b'\r')).count();
            assert!((first.line as usize) <= lines.saturating_add(1), "{first}");
            assert!(!first.message.is_empty());
        }
        (first, again) => panic!("{first:?}, then {again:?}"),
    }
}

/// Runs the input as a stylesheet and a document, separated by a zero byte, and as choices for generating both: runs
/// end within their budget, give the same result twice, and write well-formed XML unless escaping is disabled.
///
/// # Panics
/// If the property does not hold.
pub fn runs(input: &[u8]) {
    let mut parts = input.splitn(2, |b| *b == 0);
    if let (Some(sheet), Some(document)) = (parts.next(), parts.next())
        && let (Ok(sheet_text), Ok(document)) =
            (std::str::from_utf8(sheet), Document::parse(document))
    {
        let text = if sheet_text.contains("stylesheet") {
            sheet_text.to_owned()
        } else {
            [HEAD, sheet_text, FOOT].concat()
        };
        if let Ok(sheet) = Stylesheet::compile(text.as_bytes(), &NoResolver) {
            let plain = !text.contains("disable-output-escaping") && !text.contains("method");
            run(&sheet, &document, plain && !text.contains("encoding"));
        }
    }
    let mut generator = Generator::from_bytes(input);
    let sheet = [HEAD, &generate::sheet(&mut generator, Size::Large), FOOT].concat();
    let document = generate::document(&mut generator);
    let sheet =
        Stylesheet::compile(sheet.as_bytes(), &NoResolver).expect("generated sheets are valid");
    let document =
        Document::parse(document.as_bytes()).expect("generated documents are well-formed");
    run(&sheet, &document, true);
}

fn run(sheet: &Stylesheet, document: &Document, is_xml: bool) {
    let options = Options::new().now_ms(0);
    let run = |out: &mut Vec<u8>| {
        sheet.transform_with(document, &options, &Budget::new(STEPS, BYTES), out)
    };
    let (mut first, mut again) = (Vec::new(), Vec::new());
    let outcome = run(&mut first);
    assert_eq!(run(&mut again), outcome);
    assert_eq!(first, again);
    if outcome.is_ok() && is_xml {
        check_round_trip(&first);
    }
}

/// A result is well-formed content of an element, which is unchanged after it was parsed and written.
fn check_round_trip(bytes: &[u8]) {
    let text = std::str::from_utf8(bytes).expect("the encoding is UTF-8");
    let inside = match text.strip_prefix("<?xml ") {
        Some(rest) => rest.split_once("?>\n").map_or("", |(_, inside)| inside),
        None => text,
    };
    if inside.starts_with("<!DOCTYPE") || inside.to_ascii_lowercase().contains("<html") {
        return;
    }
    let wrapped = ["<w>", inside, "</w>"].concat();
    let read = match Document::parse(wrapped.as_bytes()) {
        Ok(read) => read,
        // The enclosing element may exceed a limit.
        Err(error) if matches!(error.kind(), xml::ErrorKind::Limit { .. }) => return,
        Err(error) => panic!("{error}: {text}"),
    };
    let options = xml::WriterOptions { declaration: false, ..xml::WriterOptions::default() };
    let written = read.write(options.clone()).expect("parsed documents can be written");
    let again = Document::parse(&written).expect("written documents can be parsed");
    let rewritten = again.write(options).expect("parsed documents can be written");
    assert_eq!(written, rewritten);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_properties_hold_for_generated_sheets() {
        for seed in 0..400u32 {
            let bytes: Vec<u8> = (0..200u32)
                .map(|at| {
                    let mixed = (seed * 7_919 + at).wrapping_mul(2_654_435_761);
                    mixed.to_le_bytes()[2]
                })
                .collect();
            runs(&bytes);
            compiled_or_rejected(&bytes);
        }
    }

    #[test]
    fn the_properties_hold_for_sheets_as_text() {
        for text in [
            "<xsl:template match='/'><xsl:copy-of select='.'/></xsl:template>\0<a/>",
            "<xsl:template match='*'><xsl:apply-templates select='.'/></xsl:template>\0<a/>",
            "<xsl:template match='/'>a<b/>&amp;</xsl:template>\0<a/>",
        ] {
            runs(text.as_bytes());
            compiled_or_rejected(text.as_bytes());
        }
    }
}
