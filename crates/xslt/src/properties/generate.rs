//! Sheets and documents made of dice: what libxslt and we have to read alike. A sheet ends: templates apply
//! others to what is below, loop over what isn't above, and call only those that come after them.

/// Throws from the bytes of an input, or from a seed without end.
#[derive(Debug)]
pub(crate) struct Dice<'b> {
    bytes: &'b [u8],
    state: u64,
    seeded: bool,
}

impl<'b> Dice<'b> {
    /// When the bytes are used up, every throw is 0.
    pub(crate) fn of_bytes(bytes: &'b [u8]) -> Self {
        Self { bytes, state: 0, seeded: false }
    }

    pub(crate) fn of_seed(seed: u64) -> Self {
        Self { bytes: &[], state: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1, seeded: true }
    }

    /// Below `sides`.
    fn throw(&mut self, sides: usize) -> usize {
        let thrown = if self.seeded {
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
        thrown.checked_rem(sides).unwrap_or(0)
    }

    fn pick<'s>(&mut self, from: &[&'s str]) -> &'s str {
        let at = self.throw(from.len());
        from.get(at).copied().unwrap_or("")
    }
}

/// What a sheet by dice stands in: `p` and `q` are bound, in the sources too.
pub(crate) const HEAD: &str = "<xsl:stylesheet version=\"1.0\" \
    xmlns:xsl=\"http://www.w3.org/1999/XSL/Transform\" xmlns:p=\"urn:p\" xmlns:q=\"urn:q\">";
pub(crate) const FOOT: &str = "</xsl:stylesheet>";

/// A document of elements a to d in three namespaces, with attributes, text, comments and instructions.
pub(crate) fn document(dice: &mut Dice<'_>) -> String {
    let mut out = "<r xmlns:p=\"urn:p\">".to_owned();
    let children = dice.throw(4).saturating_add(2);
    for _ in 0..children {
        element(dice, 3, &mut out);
    }
    out.push_str("</r>");
    out
}

fn element(dice: &mut Dice<'_>, depth: usize, out: &mut String) {
    let name = dice.pick(&["a", "a", "b", "b", "c", "c", "d", "p:a", "p:b"]);
    out.extend(["<", name]);
    if dice.throw(16) == 0 {
        out.push_str(" xmlns=\"urn:q\"");
    }
    if dice.throw(8) == 0 {
        out.extend([" p:x=\"", dice.pick(&["1", "k"]), "\""]);
    }
    for attribute in ["x", "y"] {
        if dice.throw(3) == 0 {
            out.extend([" ", attribute, "=\"", dice.pick(&["1", "2", "10", "k", ""]), "\""]);
        }
    }
    out.push('>');
    for _ in 0..dice.throw(4) {
        match dice.throw(8) {
            0..=3 if depth > 0 => element(dice, depth.saturating_sub(1), out),
            4 => out.push_str("<!--n-->"),
            5 => out.push_str("<?t d?>"),
            6 => out.push(' '),
            _ => out.push_str(dice.pick(&["1", "2", "30", "k", "B", "u &lt; v", "\u{e9}"])),
        }
    }
    out.extend(["</", name, ">"]);
}

/// How much there is in a sheet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    /// A template or three.
    Small,
    Large,
}

/// Templates with names, from `t0` on.
const NAMED: usize = 3;

/// The inside of an `xsl:stylesheet`. What nothing in it asks for is left out.
pub(crate) fn sheet(dice: &mut Dice<'_>, size: Size) -> String {
    let (depth, more) = if size == Size::Small { (2, 2) } else { (3, 4) };
    let mut templates = "<xsl:template match=\"/\"><o>".to_owned();
    body(dice, depth, 0, &mut templates);
    templates.push_str("</o></xsl:template>");
    for _ in 0..dice.throw(more).saturating_add(usize::from(size == Size::Large)) {
        templates.extend(["<xsl:template match=\"", pattern(dice), "\""]);
        templates.push_str(dice.pick(&[
            "",
            "",
            " mode=\"m\"",
            " priority=\"1\"",
            " priority=\"-1\"",
        ]));
        templates.push('>');
        body(dice, depth.saturating_sub(1), 0, &mut templates);
        templates.push_str("</xsl:template>");
    }
    for number in 0..NAMED {
        let mut named = String::new();
        body(dice, depth.saturating_sub(1), number.saturating_add(1), &mut named);
        if templates.contains(&format!("<xsl:call-template name=\"t{number}\"")) {
            templates.push_str(&format!(
                "<xsl:template name=\"t{number}\"><xsl:param name=\"p\" select=\"0\"/>{named}</xsl:template>"
            ));
        }
    }
    declarations(dice, &templates) + &templates
}

fn declarations(dice: &mut Dice<'_>, templates: &str) -> String {
    let mut out = dice
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
    let scalar = dice.pick(&["count(//*)", "//b", "'s'", "//a/@x", "//p:*"]);
    let fragment = dice.pick(&["<p>1</p><p>2</p>", "text", "<p/>", "<p:p q:n=\"1\"/>"]);
    for (asked, declaration) in [
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
        if templates.contains(asked) {
            out.push_str(&declaration);
        }
    }
    out
}

fn pattern(dice: &mut Dice<'_>) -> &'static str {
    dice.pick(&[
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

fn body(dice: &mut Dice<'_>, depth: usize, named: usize, out: &mut String) {
    for _ in 0..dice.throw(3).saturating_add(1) {
        instruction(dice, depth, named, out);
    }
}

/// `named`: the first template that may be called from here.
fn instruction(dice: &mut Dice<'_>, depth: usize, named: usize, out: &mut String) {
    if depth == 0 {
        return leaf(dice, out);
    }
    let inner = depth.saturating_sub(1);
    match dice.throw(14) {
        0 => {
            out.extend(["<xsl:for-each select=\"", below(dice), "\">"]);
            sort(dice, out);
            body(dice, inner, named, out);
            out.push_str("</xsl:for-each>");
        }
        1 => {
            out.extend(["<xsl:if test=\"", test(dice), "\">"]);
            body(dice, inner, named, out);
            out.push_str("</xsl:if>");
        }
        2 => {
            out.extend(["<xsl:choose><xsl:when test=\"", test(dice), "\">"]);
            body(dice, inner, named, out);
            out.push_str("</xsl:when><xsl:otherwise>");
            body(dice, inner, named, out);
            out.push_str("</xsl:otherwise></xsl:choose>");
        }
        3..=5 => {
            let below = dice.pick(&["", " select=\"*\"", " select=\"node()\"", " select=\".//b\""]);
            out.extend(["<xsl:apply-templates", below, dice.pick(&["", "", " mode=\"m\""]), ">"]);
            sort(dice, out);
            out.push_str("</xsl:apply-templates>");
        }
        6 if named < NAMED => {
            let to = named.saturating_add(dice.throw(NAMED.saturating_sub(named)));
            let call = format!("<xsl:call-template name=\"t{to}\"><xsl:with-param name=\"p\" ");
            out.extend([&call, "select=\"", scalar(dice), "\"/></xsl:call-template>"]);
        }
        7 => {
            let name = dice.pick(&["e", "e", "p:e", "q:e"]);
            let sets = dice.pick(&["", "", "", " xsl:use-attribute-sets=\"s\""]);
            out.extend(["<", name, " n=\"{", scalar(dice), "}\"", sets, ">"]);
            attribute(dice, out);
            body(dice, inner, named, out);
            out.extend(["</", name, ">"]);
        }
        8 => {
            out.extend([
                "<xsl:element name=\"",
                dice.pick(&[
                    "e{count(*)}",
                    "e{count(*)}",
                    "p:e{count(*)}",
                    "e\" namespace=\"urn:{count(*)}",
                    "p:e\" namespace=\"urn:q",
                    "{name()}x\" namespace=\"{namespace-uri()}",
                ]),
                "\">",
            ]);
            attribute(dice, out);
            body(dice, inner, named, out);
            out.push_str("</xsl:element>");
        }
        9 => {
            out.push_str("<xsl:for-each select=\"*\"><xsl:copy>");
            attribute(dice, out);
            body(dice, inner, named, out);
            out.push_str("</xsl:copy></xsl:for-each>");
        }
        10 => {
            let value = scalar(dice);
            out.push_str("<xsl:if test=\"1\">");
            out.extend(["<xsl:variable name=\"v\" select=\"", value, "\"/>"]);
            out.push_str("<xsl:value-of select=\"concat($v, '-', $v)\"/></xsl:if>");
        }
        11 => {
            out.push_str("<xsl:if test=\"1\"><xsl:variable name=\"w\">");
            body(dice, inner, named, out);
            out.push_str("</xsl:variable><xsl:copy-of select=\"$w\"/></xsl:if>");
        }
        _ => leaf(dice, out),
    }
}

fn attribute(dice: &mut Dice<'_>, out: &mut String) {
    if dice.throw(3) == 0 {
        let name = dice.pick(&[
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
            scalar(dice),
            "\"/>",
        ]);
        out.push_str("</xsl:attribute>");
    }
}

fn leaf(dice: &mut Dice<'_>, out: &mut String) {
    match dice.throw(9) {
        0..=2 => out.extend(["<xsl:value-of select=\"", scalar(dice), "\"/>"]),
        3 => out.extend(["<xsl:copy-of select=\"", nodes(dice), "\"/>"]),
        4 => out.extend(["<xsl:number", number(dice), "/>"]),
        5 => out.push_str("<xsl:comment>c</xsl:comment>"),
        6 => out.push_str("<xsl:text> t </xsl:text>"),
        7 => out.push_str("<xsl:processing-instruction name=\"q\">d</xsl:processing-instruction>"),
        _ => out.push_str(dice.pick(&[
            "<l k=\"1\"/>",
            "<p:l q:k=\"1\"/>",
            "<l xmlns=\"urn:q\"><m/></l>",
            "<l xmlns:z=\"urn:z\"/>",
        ])),
    }
}

fn sort(dice: &mut Dice<'_>, out: &mut String) {
    out.push_str(dice.pick(&[
        "",
        "",
        "<xsl:sort/>",
        "<xsl:sort select=\"@x\"/>",
        "<xsl:sort select=\"@x\" data-type=\"number\" order=\"descending\"/>",
        "<xsl:sort select=\"namespace-uri()\" order=\"descending\"/><xsl:sort select=\"local-name()\"/>",
        "<xsl:sort select=\"name()\"/><xsl:sort select=\"position()\" data-type=\"number\" order=\"descending\"/>",
    ]));
}

fn number(dice: &mut Dice<'_>) -> &'static str {
    dice.pick(&[
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

/// Never above the current node, so that what is applied from there goes down.
fn below(dice: &mut Dice<'_>) -> &'static str {
    dice.pick(&[
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

fn nodes(dice: &mut Dice<'_>) -> &'static str {
    dice.pick(&[
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

fn test(dice: &mut Dice<'_>) -> &'static str {
    dice.pick(&[
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

fn scalar(dice: &mut Dice<'_>) -> &'static str {
    dice.pick(&[
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
