//! What must hold for any sheet and any document: driven by the fuzz targets and by this crate's own tests.

#[allow(dead_code, reason = "the seeds are for tests/generated.rs")]
mod generate;

use xml::Document;

use crate::properties::generate::{Dice, FOOT, HEAD, Size};
use crate::{Limits, Params, Refuse, Stylesheet};

/// Steps of a run, so that no input takes long.
const STEPS: u64 = 20_000;

/// Any bytes are compiled or refused, with a place in them; and the same way again.
///
/// # Panics
/// When the property is broken.
pub fn compiled_or_refused(input: &[u8]) {
    let first = Stylesheet::compile(input, &Refuse);
    let again = Stylesheet::compile(input, &Refuse);
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

/// The input as a sheet and a document with a zero byte between, and as dice for both: runs end within
/// their steps, say the same twice, and what they write is well-formed unless the sheet escapes nothing.
///
/// # Panics
/// When the property is broken.
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
        if let Ok(sheet) = Stylesheet::compile(text.as_bytes(), &Refuse) {
            let plain = !text.contains("disable-output-escaping") && !text.contains("method");
            run(sheet, &document, plain && !text.contains("encoding"));
        }
    }
    let mut dice = Dice::of_bytes(input);
    let sheet = [HEAD, &generate::sheet(&mut dice, Size::Large), FOOT].concat();
    let document = generate::document(&mut dice);
    let sheet = Stylesheet::compile(sheet.as_bytes(), &Refuse).expect("what is generated is XSLT");
    let document = Document::parse(document.as_bytes()).expect("what is generated is XML");
    run(sheet, &document, true);
}

fn run(sheet: Stylesheet, document: &Document, is_xml: bool) {
    let sheet = sheet.limited(Limits { steps: STEPS, ..Limits::default() });
    let params = Params::new().now_ms(0);
    let (mut first, mut again) = (Vec::new(), Vec::new());
    let outcome = sheet.transform(document, &params, &mut first);
    assert_eq!(sheet.transform(document, &params, &mut again), outcome);
    assert_eq!(first, again);
    if outcome.is_ok() && is_xml {
        reads_back(&first);
    }
}

/// A result is what may stand inside an element, behind its declaration; read and written again it stays
/// as it is.
fn reads_back(bytes: &[u8]) {
    let text = std::str::from_utf8(bytes).expect("UTF-8 was asked for");
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
        // One more element around it may be one too many.
        Err(xml::XmlError { kind: xml::XmlErrorKind::Limit { .. }, .. }) => return,
        Err(error) => panic!("{error}: {text}"),
    };
    let options = xml::WriterOptions { declaration: false, ..xml::WriterOptions::default() };
    let written = read.write(options.clone()).expect("what was read can be written");
    let again = Document::parse(&written).expect("what was written can be read");
    let rewritten = again.write(options).expect("what was read can be written");
    assert_eq!(written, rewritten);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_properties_hold_for_what_the_dice_make() {
        for seed in 0..400u32 {
            let bytes: Vec<u8> = (0..200u32)
                .map(|at| {
                    let mixed = (seed * 7_919 + at).wrapping_mul(2_654_435_761);
                    mixed.to_le_bytes()[2]
                })
                .collect();
            runs(&bytes);
            compiled_or_refused(&bytes);
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
            compiled_or_refused(text.as_bytes());
        }
    }
}
