//! Generates stylesheets and documents that libxslt must transform alike. Generated stylesheets terminate: templates
//! apply others to descendants, never loop over ancestors, and call only those declared after them.

/// Choices from the bytes of an input, or from a seed.
#[derive(Debug)]
pub(crate) struct Generator<'b> {
    bytes: &'b [u8],
    state: u64,
    seeded: bool,
}

impl<'b> Generator<'b> {
    /// When the bytes are used up, every choice is 0.
    pub(crate) fn from_bytes(bytes: &'b [u8]) -> Self {
        Self { bytes, state: 0, seeded: false }
    }

    pub(crate) fn from_seed(seed: u64) -> Self {
        Self { bytes: &[], state: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1, seeded: true }
    }

    /// A number below `bound`.
    fn below(&mut self, bound: usize) -> usize {
        let chosen = if self.seeded {
            self.state ^= self.state << 13;
            self.state ^= self.state >> 7;
            self.state ^= self.state << 17;
            usize::from((self.state >> 24).to_le_bytes()[0])
        } else {
            match self.bytes.split_first() {
                Some((first, rest)) => {
                    self.bytes = rest;
                    usize::from(*first)
                }
                None => 0,
            }
        };
        chosen.checked_rem(bound).unwrap_or(0)
    }

    fn pick<'s>(&mut self, from: &[&'s str]) -> &'s str {
        let at = self.below(from.len());
        from.get(at).copied().unwrap_or("")
    }
}

/// The start tag around a generated stylesheet. `p` and `q` are bound as in the documents.
pub(crate) const HEAD: &str = "<xsl:stylesheet version=\"1.0\" \
    xmlns:xsl=\"http://www.w3.org/1999/XSL/Transform\" xmlns:p=\"urn:p\" xmlns:q=\"urn:q\">";
pub(crate) const FOOT: &str = "</xsl:stylesheet>";

/// A document of elements a to d in three namespaces, with attributes, text, comments and instructions.
pub(crate) fn document(generator: &mut Generator<'_>) -> String {
    let mut out = "<r xmlns:p=\"urn:p\">".to_owned();
    let children = generator.below(4).saturating_add(2);
    for _ in 0..children {
        element(generator, 3, &mut out);
    }
    out.push_str("</r>");
    out
}

fn element(generator: &mut Generator<'_>, depth: usize, out: &mut String) {
    let name = generator.pick(&["a", "a", "b", "b", "c", "c", "d", "p:a", "p:b"]);
    out.extend(["<", name]);
    if generator.below(16) == 0 {
        out.push_str(" xmlns=\"urn:q\"");
    }
    if generator.below(8) == 0 {
        out.extend([" p:x=\"", generator.pick(&["1", "k"]), "\""]);
    }
    for attribute in ["x", "y"] {
        if generator.below(3) == 0 {
            out.extend([" ", attribute, "=\"", generator.pick(&["1", "2", "10", "k", ""]), "\""]);
        }
    }
    out.push('>');
    for _ in 0..generator.below(4) {
        match generator.below(8) {
            0..=3 if depth > 0 => element(generator, depth.saturating_sub(1), out),
            4 => out.push_str("<!--n-->"),
            5 => out.push_str("<?t d?>"),
            6 => out.push(' '),
            _ => out.push_str(generator.pick(&["1", "2", "30", "k", "B", "u &lt; v", "\u{e9}"])),
        }
    }
    out.extend(["</", name, ">"]);
}

/// The size of a stylesheet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    /// One to three templates.
    Small,
    Large,
}

/// Named templates, from `t0` on.
const NAMED: usize = 3;

/// The content of an `xsl:stylesheet`. Unused declarations are omitted.
pub(crate) fn sheet(generator: &mut Generator<'_>, size: Size) -> String {
    let (depth, more) = if size == Size::Small { (2, 2) } else { (3, 4) };
    let mut templates = "<xsl:template match=\"/\"><o>".to_owned();
    body(generator, depth, 0, &mut templates);
    templates.push_str("</o></xsl:template>");
    for _ in 0..generator.below(more).saturating_add(usize::from(size == Size::Large)) {
        templates.extend(["<xsl:template match=\"", pattern(generator), "\""]);
        templates.push_str(generator.pick(&[
            "",
            "",
            " mode=\"m\"",
            " priority=\"1\"",
            " priority=\"-1\"",
        ]));
        templates.push('>');
        body(generator, depth.saturating_sub(1), 0, &mut templates);
        templates.push_str("</xsl:template>");
    }
    for number in 0..NAMED {
        let mut named = String::new();
        body(generator, depth.saturating_sub(1), number.saturating_add(1), &mut named);
        if templates.contains(&format!("<xsl:call-template name=\"t{number}\"")) {
            templates.push_str(&format!(
                "<xsl:template name=\"t{number}\"><xsl:param name=\"p\" select=\"0\"/>{named}</xsl:template>"
            ));
        }
    }
    declarations(generator, &templates) + &templates
}

fn declarations(generator: &mut Generator<'_>, templates: &str) -> String {
    let mut out = generator
        .pick(&[
            "",
            "",
            "",
            "",
            "<xsl:strip-space elements=\"*\"/>",
            "<xsl:strip-space elements=\"p:* b\"/>",
            "<xsl:namespace-alias stylesheet-prefix=\"p\" result-prefix=\"q\"/>",
        ])
        .to_owned();
    let scalar = generator.pick(&["count(//*)", "//b", "'s'", "//a/@x", "//p:*"]);
    let fragment = generator.pick(&["<p>1</p><p>2</p>", "text", "<p/>", "<p:p q:n=\"1\"/>"]);
    for (used, declaration) in [
        ("key('k'", "<xsl:key name=\"k\" match=\"*\" use=\"@x\"/>".to_owned()),
        ("$g", format!("<xsl:variable name=\"g\" select=\"{scalar}\"/>")),
        ("$f", format!("<xsl:variable name=\"f\">{fragment}</xsl:variable>")),
        (
            "use-attribute-sets",
            "<xsl:attribute-set name=\"s\"><xsl:attribute name=\"s\"><xsl:value-of select=\"name()\"/>\
             </xsl:attribute></xsl:attribute-set>"
                .to_owned(),
        ),
    ] {
        if templates.contains(used) {
            out.push_str(&declaration);
        }
    }
    out
}

fn pattern(generator: &mut Generator<'_>) -> &'static str {
    generator.pick(&[
        "a",
        "b",
        "c",
        "*",
        "a/b",
        "r//c",
        "b[@x]",
        "c[2]",
        "text()",
        "comment()",
        "a|d",
        "node()",
        "*[position() = last()]",
        "key('k', '1')",
        "/r/a",
        "processing-instruction()",
        "d[. = 'k']",
        "p:a",
        "p:*",
        "q:b",
        "@*",
        "@p:x",
    ])
}

fn body(generator: &mut Generator<'_>, depth: usize, named: usize, out: &mut String) {
    for _ in 0..generator.below(3).saturating_add(1) {
        instruction(generator, depth, named, out);
    }
}

/// `named` is the first template that may be called from here.
fn instruction(generator: &mut Generator<'_>, depth: usize, named: usize, out: &mut String) {
    if depth == 0 {
        return leaf(generator, out);
    }
    let inner = depth.saturating_sub(1);
    match generator.below(14) {
        0 => {
            out.extend(["<xsl:for-each select=\"", below(generator), "\">"]);
            sort(generator, out);
            body(generator, inner, named, out);
            out.push_str("</xsl:for-each>");
        }
        1 => {
            out.extend(["<xsl:if test=\"", test(generator), "\">"]);
            body(generator, inner, named, out);
            out.push_str("</xsl:if>");
        }
        2 => {
            out.extend(["<xsl:choose><xsl:when test=\"", test(generator), "\">"]);
            body(generator, inner, named, out);
            out.push_str("</xsl:when><xsl:otherwise>");
            body(generator, inner, named, out);
            out.push_str("</xsl:otherwise></xsl:choose>");
        }
        3..=5 => {
            let below =
                generator.pick(&["", " select=\"*\"", " select=\"node()\"", " select=\".//b\""]);
            out.extend([
                "<xsl:apply-templates",
                below,
                generator.pick(&["", "", " mode=\"m\""]),
                ">",
            ]);
            sort(generator, out);
            out.push_str("</xsl:apply-templates>");
        }
        6 if named < NAMED => {
            let to = named.saturating_add(generator.below(NAMED.saturating_sub(named)));
            let call = format!("<xsl:call-template name=\"t{to}\"><xsl:with-param name=\"p\" ");
            out.extend([&call, "select=\"", scalar(generator), "\"/></xsl:call-template>"]);
        }
        7 => {
            let name = generator.pick(&["e", "e", "p:e", "q:e"]);
            let sets = generator.pick(&["", "", "", " xsl:use-attribute-sets=\"s\""]);
            out.extend(["<", name, " n=\"{", scalar(generator), "}\"", sets, ">"]);
            attribute(generator, out);
            body(generator, inner, named, out);
            out.extend(["</", name, ">"]);
        }
        8 => {
            out.extend([
                "<xsl:element name=\"",
                generator.pick(&[
                    "e{count(*)}",
                    "e{count(*)}",
                    "p:e{count(*)}",
                    "e\" namespace=\"urn:{count(*)}",
                    "p:e\" namespace=\"urn:q",
                    "{name()}x\" namespace=\"{namespace-uri()}",
                ]),
                "\">",
            ]);
            attribute(generator, out);
            body(generator, inner, named, out);
            out.push_str("</xsl:element>");
        }
        9 => {
            out.push_str("<xsl:for-each select=\"*\"><xsl:copy>");
            attribute(generator, out);
            body(generator, inner, named, out);
            out.push_str("</xsl:copy></xsl:for-each>");
        }
        10 => {
            let value = scalar(generator);
            out.push_str("<xsl:if test=\"1\">");
            out.extend(["<xsl:variable name=\"v\" select=\"", value, "\"/>"]);
            out.push_str("<xsl:value-of select=\"concat($v, '-', $v)\"/></xsl:if>");
        }
        11 => {
            out.push_str("<xsl:if test=\"1\"><xsl:variable name=\"w\">");
            body(generator, inner, named, out);
            out.push_str("</xsl:variable><xsl:copy-of select=\"$w\"/></xsl:if>");
        }
        _ => leaf(generator, out),
    }
}

fn attribute(generator: &mut Generator<'_>, out: &mut String) {
    if generator.below(3) == 0 {
        let name = generator.pick(&[
            "z",
            "z",
            "z",
            "p:z",
            "q:z",
            "z\" namespace=\"urn:z",
            "p:z\" namespace=\"urn:q",
        ]);
        out.extend([
            "<xsl:attribute name=\"",
            name,
            "\"><xsl:value-of select=\"",
            scalar(generator),
            "\"/>",
        ]);
        out.push_str("</xsl:attribute>");
    }
}

fn leaf(generator: &mut Generator<'_>, out: &mut String) {
    match generator.below(9) {
        0..=2 => out.extend(["<xsl:value-of select=\"", scalar(generator), "\"/>"]),
        3 => out.extend(["<xsl:copy-of select=\"", nodes(generator), "\"/>"]),
        4 => out.extend(["<xsl:number", number(generator), "/>"]),
        5 => out.push_str("<xsl:comment>c</xsl:comment>"),
        6 => out.push_str("<xsl:text> t </xsl:text>"),
        7 => out.push_str("<xsl:processing-instruction name=\"q\">d</xsl:processing-instruction>"),
        _ => out.push_str(generator.pick(&[
            "<l k=\"1\"/>",
            "<p:l q:k=\"1\"/>",
            "<l xmlns=\"urn:q\"><m/></l>",
            "<l xmlns:z=\"urn:z\"/>",
        ])),
    }
}

fn sort(generator: &mut Generator<'_>, out: &mut String) {
    out.push_str(generator.pick(&[
        "",
        "",
        "<xsl:sort/>",
        "<xsl:sort select=\"@x\"/>",
        "<xsl:sort select=\"@x\" data-type=\"number\" order=\"descending\"/>",
        "<xsl:sort select=\"namespace-uri()\" order=\"descending\"/><xsl:sort select=\"local-name()\"/>",
        "<xsl:sort select=\"name()\"/><xsl:sort select=\"position()\" data-type=\"number\" order=\"descending\"/>",
    ]));
}

fn number(generator: &mut Generator<'_>) -> &'static str {
    generator.pick(&[
        "",
        " value=\"position()\"",
        " count=\"p:*\" level=\"any\" format=\"A\"",
        " value=\"count(preceding::*) + 1\" format=\"i\"",
        " count=\"*\" level=\"any\"",
        " count=\"*\" level=\"multiple\" format=\"1.a.\"",
        " level=\"any\" count=\"b\" from=\"r\"",
        " count=\"a|b\" format=\"(A)\"",
        " value=\"1234 * last()\" grouping-separator=\",\" grouping-size=\"3\"",
    ])
}

/// A path that never selects ancestors, so that templates terminate.
fn below(generator: &mut Generator<'_>) -> &'static str {
    generator.pick(&[
        "*",
        ".",
        "a|b",
        ".//c",
        ".//text()",
        "*[last()]",
        "node()[2]",
        ".//a[@x]",
        "comment()",
        "p:*",
        ".//q:*",
        "@*",
    ])
}

fn nodes(generator: &mut Generator<'_>) -> &'static str {
    generator.pick(&[
        "*",
        ".",
        "a|b",
        "//c",
        ".//text()",
        "..",
        "key('k', '2')",
        "following-sibling::*",
        "preceding::b",
        "ancestor::*",
        "*[last()]",
        "node()[2]",
        "//a[@x]",
        "$f",
        "comment()",
        "//p:a",
        "//@p:x/..",
        "q:*|*/q:*",
    ])
}

fn test(generator: &mut Generator<'_>) -> &'static str {
    generator.pick(&[
        "@x",
        "position() = 1",
        "position() mod 2",
        "last() > 2",
        "* = 'k'",
        "@x = ../@y",
        "not(*)",
        "self::a",
        "count(*) > 1",
        "starts-with(., 'k')",
        "contains($g, '1')",
        "current()/@y",
        "self::p:*",
        "@p:x",
    ])
}

fn scalar(generator: &mut Generator<'_>) -> &'static str {
    generator.pick(&[
        ".",
        "name()",
        "position()",
        "last()",
        "count(.//*)",
        "@x",
        "string-length(.)",
        "sum(//@y[. &lt; 3])",
        "$g",
        "$f",
        "concat(@x, '/', name(..))",
        "normalize-space(.)",
        "translate(., 'k', 'K')",
        "substring(., 2, 2)",
        "count(key('k', @x))",
        "local-name(*[1])",
        "current()/@x",
        "@x + 1",
        "format-number(count(//*) * 1000, '#,##0.0')",
        "generate-id(.) = generate-id(*)",
        "'lit'",
        "number(@y) * 2",
        "round(count(*) div 3)",
        "boolean(*)",
        "string(//d[1])",
        "namespace-uri()",
        "concat(local-name(), '|', namespace-uri(*[1]))",
        "count(//p:*)",
        "//@p:x",
        "substring-after(., '1')",
        "floor(count(//*) div 2)",
        "lang('en')",
        "string-length(normalize-space(..))",
        "number(.) = number(.)",
        "ceiling(sum(//@x[. &lt; 9]) div 3)",
    ])
}
