//! Reads `data/*.cases`: `=== name`, a stylesheet, `--- source`, `--- expected`. An incomplete stylesheet is the
//! content of an `xsl:stylesheet`.

pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) sheet: String,
    pub(crate) source: String,
    pub(crate) expected: String,
}

const XSL: &str = "xmlns:xsl=\"http://www.w3.org/1999/XSL/Transform\"";

const FILES: &[&str] = &[
    include_str!("../data/available.cases"),
    include_str!("../data/exslt.cases"),
    include_str!("../data/format.cases"),
    include_str!("../data/html.cases"),
    include_str!("../data/number.cases"),
    include_str!("../data/output.cases"),
    include_str!("../data/sections.cases"),
];

pub(crate) fn sheet(text: &str) -> String {
    if text.contains(XSL) {
        return text.to_owned();
    }
    format!("<xsl:stylesheet version=\"1.0\" {XSL}>{text}</xsl:stylesheet>")
}

pub(crate) fn all() -> Vec<Case> {
    let cases = FILES.iter().flat_map(|text| text.split("=== ").skip(1)).map(|case| {
        let (name, rest) = case.split_once('\n').unwrap();
        let parts: Vec<&str> = rest.split("\n--- ").collect();
        let [given, source, expected] = parts.as_slice() else { panic!("{name}: three parts") };
        Case {
            name: name.to_owned(),
            sheet: sheet(given),
            source: (*source).to_owned(),
            expected: expected.trim_end_matches('\n').to_owned(),
        }
    });
    cases.collect()
}

pub(crate) fn transform(sheet: &str, source: &str) -> Result<String, xslt::Error> {
    let sheet = xslt::Stylesheet::compile(sheet.as_bytes(), &xslt::NoResolver)?;
    let source = xml::Document::parse(source.as_bytes()).unwrap();
    let mut out = Vec::new();
    sheet.transform(&source, &xslt::Params::new(), &mut out)?;
    Ok(bare(&String::from_utf8(out).unwrap()))
}

/// The text without the XML declaration and surrounding line feeds.
pub(crate) fn bare(text: &str) -> String {
    let rest = match text.strip_prefix("<?xml") {
        Some(rest) => rest.split_once("?>").map_or("", |(_, rest)| rest),
        None => text,
    };
    rest.trim_matches('\n').to_owned()
}
