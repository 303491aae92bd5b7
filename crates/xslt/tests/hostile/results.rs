//! Values and output at the limits.

use xslt::ErrorKind::{Limit, Transform};
use xslt::{Budget, NoResolver, Params, Stylesheet};

use crate::cases::{sheet, transform};
use crate::{STEPS, error_of, run, value_of};

#[test]
fn exslt_functions_report_limits_and_errors() {
    for (expression, kind) in [
        ("s:padding(1000000000000000000)", Limit),
        ("string-length(s:padding(70000000, 'ab'))", Limit),
        ("s:replace(s:padding(30000, 'a'), 'a', s:padding(100, 'b'))", Limit),
        ("s:tokenize(s:padding(300000, 'a '))", Limit),
        ("r:test('aaa', '(a{1000}){1000}')", Transform),
        ("r:test('aaa', '(')", Transform),
        ("r:test('aaa', 'a', 'x')", Transform),
        (
            "r:replace(s:padding(100000, 'a'), 'a', 'g', '$&$&$&$&$&$&$&$&$&$&$&$&$&$&$&$&$&$&$&$&$&$&$&$&')",
            Limit,
        ),
        ("d:date-time()", Transform),
        ("d:year()", Transform),
    ] {
        let expression = expression.replace("$&", "$&amp;");
        let budget = Budget::new(STEPS, 1_000_000);
        let error = run(&value_of(&expression), "<a/>", &budget).unwrap_err();
        assert_eq!(error.kind, kind, "{expression}: {error}");
    }
}

#[test]
fn dates_and_durations_out_of_range_are_empty() {
    for expression in [
        "d:add('9999999-12-31', 'P1D')",
        "d:add('2000-01-01', 'P999999999999Y')",
        "d:add('2000-01-01', '-P99999999999999999999D')",
        "d:date('99999999999999999999-01-01')",
        "d:duration(1 div 0)",
        "d:add('2000-01-01', 'PT999999999999999S')",
        "d:difference('--01', '2000')",
    ] {
        let made = transform(&sheet(&value_of(expression)), "<a/>");
        assert_eq!(made.as_deref(), Ok(""), "{expression}");
    }
}

#[test]
fn huge_numbers_and_formats_stay_within_the_limits() {
    let number = |attributes: &str| {
        let text =
            format!("<xsl:template match='/'><o><xsl:number {attributes}/></o></xsl:template>");
        transform(&sheet(&text), "<a/>")
    };
    for attributes in [
        "value='1' format='{//@none}' grouping-separator=',' grouping-size='99999999999999999999'",
        "value='1' letter-value='x'",
        "value='1' format='a' lang='da'",
        "value='1' grouping-separator=',' grouping-size='0'",
    ] {
        assert!(number(attributes).is_err(), "{attributes}");
    }
    let digits = |text: &str| text.chars().filter(char::is_ascii_digit).count();
    let huge = format!("value='1{}'", "0".repeat(300));
    for format in ["1", "a", "A", "i", "I", "&#x3b1;", "&#x5d0;"] {
        let made = number(&format!("{huge} format='{format}'")).unwrap();
        assert_eq!(digits(&made), 301, "{format}: {made}");
    }
    assert_eq!(digits(&number("value='9007199254740991' format='a'").unwrap()), 0);
    // A long format makes a long number.
    let picture = format!("value='1' format='{}1'", "0".repeat(100_000));
    assert_eq!(digits(&number(&picture).unwrap()), 100_001);
    let many = "<xsl:template name='t' match='/'><xsl:for-each select='//b'><xsl:number format='PICTURE1'/>\
                </xsl:for-each></xsl:template>";
    let many = many.replace("PICTURE", &"0".repeat(100_000));
    let source = format!("<a>{}</a>", "<b/>".repeat(100));
    let error = run(&many, &source, &Budget::new(STEPS, 1_000_000)).unwrap_err();
    assert_eq!(error.kind, Limit, "{error}");
    let format = |expression: &str| {
        let text = format!(
            "<xsl:template match='/'><o><xsl:value-of select=\"{expression}\"/></o></xsl:template>"
        );
        transform(&sheet(&text), "<a/>")
    };
    let number = format!("1{}", "0".repeat(308));
    assert_eq!(digits(&format(&format!("format-number({number}, '#,##0.00')")).unwrap()), 311);
    assert_eq!(
        format(&format!("format-number({number}, '0%')")).as_deref(),
        Ok("<o>Infinity%</o>")
    );
    for picture in ["", "''", "0.0.0", "0#", "#.#0", "0;"] {
        let made = format(&format!("format-number(-1, '{picture}')"));
        assert!(made.is_err(), "{picture}: {made:?}");
    }
}

#[test]
fn html_is_escaped() {
    let html = |inside: &str| {
        let text = format!(
            "<xsl:output method='html' indent='no'/><xsl:template match='/'>{inside}</xsl:template>"
        );
        transform(&sheet(&text), "<a>&lt;/script>&lt;b></a>")
    };
    assert_eq!(html("<o t='{a}\"'/>").as_deref(), Ok("<o t=\"</script><b>&quot;\"></o>"));
    assert_eq!(
        html("<p><xsl:value-of select='a'/></p>").as_deref(),
        Ok("<p>&lt;/script&gt;&lt;b&gt;</p>")
    );
    assert!(html("<xsl:processing-instruction name='p'>a>b</xsl:processing-instruction>").is_err());
    assert!(html("<xsl:element name='a b'/>").is_err());
}

#[test]
fn a_character_that_xml_does_not_allow_is_an_error_wherever_it_is_written() {
    const BAD: &str = "<xsl:value-of select='$bad'/>";
    let params = Params::new().string("bad", "\u{1}");
    for method in ["", "method='xml'", "method='html'"] {
        for inside in [
            format!("<o>{BAD}</o>"),
            "<o><xsl:value-of select='$bad' disable-output-escaping='yes'/></o>".to_owned(),
            format!("<o><p>{BAD}</p></o>"),
            "<o><p a='{$bad}'/></o>".to_owned(),
            format!("<o><xsl:comment>{BAD}</xsl:comment></o>"),
            format!(
                "<o><xsl:processing-instruction name='p'>{BAD}</xsl:processing-instruction></o>"
            ),
            "<xsl:element name='p:o' namespace='{$bad}'/>".to_owned(),
            "<o><xsl:attribute name='p:a' namespace='{$bad}'>b</xsl:attribute></o>".to_owned(),
        ] {
            let text = format!(
                "<xsl:output {method}/><xsl:param name='bad'/>\
                 <xsl:template match='/'>{inside}</xsl:template>"
            );
            let compiled = Stylesheet::compile(sheet(&text).as_bytes(), &NoResolver).unwrap();
            let source = xml::Document::parse(b"<a/>").unwrap();
            let error = compiled.transform(&source, &params, &mut Vec::new()).unwrap_err();
            assert_eq!(error.kind, Transform, "{method} {inside}\n  {error}");
        }
    }
}

#[test]
fn errors_of_deferred_output_are_reported_at_the_instruction_that_wrote_it() {
    let of = |output: &str, body: &str| {
        error_of(&format!(
            "<xsl:output {output}/>\n<xsl:template match='/'>\n{body}</xsl:template>"
        ))
    };
    let bad = "<xsl:processing-instruction name='{name(*)}'>\u{20ac}</xsl:processing-instruction>";
    let xml = "<xsl:processing-instruction name='x{name(/..)}ml'/>";
    for (output, body, place, expected) in [
        ("", xml.to_owned(), (3, 1), "`xml`"),
        ("", format!("<xsl:comment>c</xsl:comment>\n{xml}\n<o/>"), (4, 1), "`xml`"),
        ("", format!("<xsl:text> </xsl:text>\n{xml}\n<html/>"), (4, 1), "`xml`"),
        ("encoding='US-ASCII'", format!("<xsl:comment/>\n\n{bad}"), (5, 1), "US-ASCII"),
        (
            "method='text' encoding='US-ASCII'",
            "<xsl:text>a</xsl:text>\n<xsl:text>\u{e9}</xsl:text>\n<xsl:text>b</xsl:text>"
                .to_owned(),
            (4, 1),
            "US-ASCII",
        ),
        (
            "method='text' encoding='ISO-8859-1'",
            "<xsl:text>\u{e9}</xsl:text>\n<xsl:value-of select='\"\u{20ac}\"'/>".to_owned(),
            (4, 1),
            "ISO-8859-1",
        ),
        (
            "method='text' encoding='US-ASCII'",
            "<xsl:variable name='v'><a>\u{20ac}</a></xsl:variable>\n<xsl:copy-of select='$v'/>"
                .to_owned(),
            (4, 1),
            "US-ASCII",
        ),
        (
            "method='html' encoding='US-ASCII'",
            "<a>\n<xsl:attribute name='\u{e9}:b' namespace='u'/></a>".to_owned(),
            (4, 1),
            "US-ASCII",
        ),
    ] {
        let error = of(output, &body);
        assert_eq!((error.line, error.column), place, "{output} {body}\n  {error}");
        assert!(error.message.contains(expected), "{output} {body}\n  {error}");
    }
}
