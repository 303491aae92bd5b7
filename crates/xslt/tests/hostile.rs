//! What is refused at load and what is stopped in a run, on a stack of 2 MiB.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[allow(dead_code, reason = "shared with the sections, which read all of it")]
mod cases;

use cases::{all, sheet, transform};

const STACK_BYTES: usize = 2 << 20;

/// The error of a sheet over `<a><b/></a>`, on a small stack.
fn error_of(text: &str) -> String {
    let text = sheet(text);
    let run = move || transform(&text, "<a><b/></a>").unwrap_err();
    std::thread::Builder::new().stack_size(STACK_BYTES).spawn(run).unwrap().join().unwrap()
}

#[track_caller]
fn check(rows: &[(&str, &str)]) {
    for (text, expected) in rows {
        let error = error_of(text);
        assert!(error.contains(expected), "{text}\n  wanted {expected}\n  got {error}");
    }
}

#[test]
fn what_is_not_supported_is_refused_by_name_and_place() {
    check(&[
        (
            "<xsl:stylesheet xmlns:xsl=\"http://www.w3.org/1999/XSL/Transform\"/>",
            "`version` is missing",
        ),
        ("<xsl:output method='xhtml'/>", "not supported: the output method xhtml"),
        ("<xsl:output method='html' version='9'/>", "HTML of version 9"),
        (
            "<xsl:template match='/'><xsl:for-each-group select='a'/></xsl:template>",
            "xsl:for-each-group",
        ),
        ("<xsl:function name='f'/>", "xsl:function"),
        ("<xsl:template match='/' as='x'/>", "has no attribute `as`"),
        ("<xsl:template match='/'><xsl:value-of select='a[' /></xsl:template>", "line 1"),
        ("<xsl:template match='/'><xsl:value-of select='$no'/></xsl:template>", "no"),
        (
            "<xsl:template match='/'><xsl:value-of select='upper-case(a)'/></xsl:template>",
            "upper-case",
        ),
        (
            "<xsl:template match='/'><xsl:call-template name='no'/></xsl:template>",
            "no template named `no`",
        ),
        (
            "<xsl:template match='/'><xsl:for-each select='a'><xsl:sort lang='?'/></xsl:for-each></xsl:template>",
            "line 1, column 129: `?` isn't a language",
        ),
        (
            "<xsl:template match='/'><xsl:for-each select='a'><xsl:sort lang='{name()}!'/></xsl:for-each></xsl:template>",
            "`!` isn't a language",
        ),
        ("<xsl:import href='other.xslt'/>", "`other.xslt` isn't read"),
        ("<xsl:template match='/'><a b='{c'/></xsl:template>", "isn't closed"),
        (
            "<xsl:stylesheet version=\"1.0\" default-mode=\"m\" xmlns:xsl=\"http://www.w3.org/1999/XSL/Transform\"/>",
            "has no attribute `default-mode`",
        ),
        (
            "<xsl:stylesheet version=\"1.0\" exclude-result-prefixes=\"no\" xmlns:xsl=\"http://www.w3.org/1999/XSL/Transform\"/>",
            "the prefix `no` in `exclude-result-prefixes` isn't declared",
        ),
        (
            "<xsl:template match='/'><o xsl:extension-element-prefixes='#default no'/></xsl:template>",
            "the prefix `no` in `extension-element-prefixes` isn't declared",
        ),
        ("<xsl:variable name='v'/><xsl:key name='k' match='a[$v]' use='b'/>", "`$v` isn't known"),
        ("<xsl:variable name='v'/><xsl:key name='k' match='a' use='$v'/>", "`$v` isn't known"),
    ]);
}

#[test]
fn nothing_outside_is_read() {
    check(&[(
        "<xsl:template match='/'><xsl:copy-of select=\"document('file:///etc/passwd')\"/></xsl:template>",
        "`file:///etc/passwd` isn't read",
    )]);
}

#[test]
fn endless_and_exponential_sheets_are_stopped() {
    check(&[
        (
            "<xsl:key name='k' match='b' use=\"key('k', 'x')\"/><xsl:template match='/'><xsl:value-of select=\"key('k', 'x')\"/></xsl:template>",
            "needs itself",
        ),
        ("<xsl:template match='*'><xsl:apply-templates select='.'/></xsl:template>", "without end"),
        (
            "<xsl:template name='t' match='/'><xsl:call-template name='t'/></xsl:template>",
            "without end",
        ),
        (
            "<xsl:template name='t' match='/'><x><xsl:if test='1'><xsl:for-each select='.'><xsl:call-template name='t'/></xsl:for-each></xsl:if></x></xsl:template>",
            "without end",
        ),
        (
            "<xsl:template name='t' match='/'><xsl:variable name='v'><xsl:call-template name='t'/></xsl:variable></xsl:template>",
            "without end",
        ),
        (
            "<xsl:variable name='a' select='$b'/><xsl:variable name='b' select='$a'/><xsl:template match='/'><xsl:value-of select='$a'/></xsl:template>",
            "needs itself",
        ),
        (
            "<xsl:variable name='a'><xsl:call-template name='t'/></xsl:variable><xsl:template name='t'><xsl:value-of select='$a'/></xsl:template><xsl:template match='/'><xsl:value-of select='$a'/></xsl:template>",
            "needs itself",
        ),
        (
            "<xsl:template name='t' match='/'><xsl:param name='s' select=\"'0123456789'\"/><xsl:call-template name='t'><xsl:with-param name='s' select='concat($s, $s)'/></xsl:call-template></xsl:template>",
            "bytes",
        ),
        (
            "<xsl:variable name='l' select=\"'0123456789'\"/><xsl:variable name='ll' select='concat($l, $l, $l, $l, $l, $l, $l, $l, $l, $l)'/><xsl:variable name='lll' select='concat($ll, $ll, $ll, $ll, $ll, $ll, $ll, $ll, $ll, $ll)'/><xsl:variable name='long' select='concat($lll, $lll, $lll, $lll, $lll, $lll, $lll, $lll, $lll, $lll)'/>\
             <xsl:template match='/'><xsl:call-template name='t'><xsl:with-param name='n' select='60'/></xsl:call-template></xsl:template><xsl:template name='t'><xsl:param name='n'/><xsl:if test='$n &gt; 0'><xsl:value-of select='$long'/><xsl:call-template name='t'><xsl:with-param name='n' select='$n - 1'/></xsl:call-template><xsl:call-template name='t'><xsl:with-param name='n' select='$n - 1'/></xsl:call-template></xsl:if></xsl:template>",
            "was stopped when it had made",
        ),
    ]);
}

#[test]
fn a_run_ends_at_the_limits_that_its_caller_sets() {
    let text = sheet(
        "<xsl:template match='/'><xsl:variable name='v' select=\"'0123456789'\"/><o><xsl:for-each select='//b'>\
         <xsl:value-of select='count(//*)'/></xsl:for-each><xsl:value-of select='$v'/></o></xsl:template>",
    );
    let run = |limits: xslt::Limits| {
        let sheet = xslt::Stylesheet::compile(text.as_bytes(), &xslt::Refuse).unwrap();
        let source = xml::Document::parse(b"<a><b/><b/></a>").unwrap();
        let done = sheet.limited(limits).transform(&source, &xslt::Params::new(), &mut Vec::new());
        done.map_err(|error| error.to_string()).err().unwrap_or_default()
    };
    let most = xslt::Limits::default();
    assert_eq!(run(most), "");
    for steps in [0, 1, 5, 20] {
        let told = run(xslt::Limits { steps, ..most });
        assert!(told.contains("steps"), "{steps}: {told}");
    }
    for made_bytes in [0, 10, 30] {
        let told = run(xslt::Limits { made_bytes, ..most });
        let wanted = format!("stopped when it had made {made_bytes} bytes");
        assert!(told.contains(&wanted), "{told}");
    }
}

#[test]
fn keys_of_sorts_and_of_indexes_count_as_made_and_a_sorts_are_given_back() {
    let source = format!("<r><t>{}</t>{}</r>", "x".repeat(10_000), "<i/>".repeat(200));
    let source = xml::Document::parse(source.as_bytes()).unwrap();
    let run = |inside: &str, most: usize| {
        let text = sheet(inside);
        let sheet = xslt::Stylesheet::compile(text.as_bytes(), &xslt::Refuse).unwrap();
        let limits = xslt::Limits { made_bytes: most, ..xslt::Limits::default() };
        let done = sheet.limited(limits).transform(&source, &xslt::Params::new(), &mut Vec::new());
        done.map_err(|error| error.to_string()).err().unwrap_or_default()
    };
    let sort =
        "<xsl:for-each select='//i'><xsl:sort select='concat(/r/t,position())'/></xsl:for-each>";
    let key = "<xsl:key name='k' match='i' use='concat(/r/t,generate-id())'/>";
    let uses = "<o><xsl:value-of select=\"count(key('k','x'))\"/></o>";
    let template = |inside: &str| format!("<xsl:template match='/'>{inside}</xsl:template>");
    for inside in [template(sort), format!("{key}{}", template(uses))] {
        assert!(run(&inside, 1_900_000).contains("when it had made"), "{inside}");
        assert_eq!(run(&inside, 2_100_000), "", "{inside}");
    }
    assert_eq!(run(&template(&sort.repeat(3)), 2_100_000), "");
}

#[test]
fn work_on_the_text_of_a_variable_ends_at_the_steps_of_a_run_and_the_error_tells_them() {
    let source = format!("<r><t>{}</t>{}</r>", "x".repeat(100_000), "<i/>".repeat(300));
    let source = xml::Document::parse(source.as_bytes()).unwrap();
    for test in [
        "translate($s,'a','b')='x'",
        "substring($s,99999)='x'",
        "contains($s,'y')",
        "count($n)=1",
        "normalize-space($s)='x'",
    ] {
        let text = sheet(&format!(
            "<xsl:template match='/'><xsl:variable name='s' select='string(/r/t)'/><xsl:variable name='n' select='//i'/>\
             <xsl:for-each select='//i'><xsl:if test=\"{test}\"/></xsl:for-each></xsl:template>"
        ));
        let sheet = xslt::Stylesheet::compile(text.as_bytes(), &xslt::Refuse).unwrap();
        let limits = xslt::Limits { steps: 20_000, ..xslt::Limits::default() };
        let done = sheet.limited(limits).transform(&source, &xslt::Params::new(), &mut Vec::new());
        let told = done.unwrap_err().to_string();
        assert!(told.contains("stopped after 20000 steps"), "{test}: {told}");
    }
}

#[test]
fn elements_of_a_sheet_nested_too_deeply_are_refused_and_the_deepest_allowed_run() {
    let nested = |levels: usize| {
        let open = "<xsl:if test='1'>".repeat(levels);
        let close = "</xsl:if>".repeat(levels);
        format!("<xsl:template match='/'>{open}<o/>{close}</xsl:template>")
    };
    check(&[(nested(xslt::limits::XSLT_NESTING_MAX).as_str(), "inside one another")]);
    let good = sheet(&nested(xslt::limits::XSLT_NESTING_MAX - 2));
    let run = move || transform(&good, "<a/>");
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(run).unwrap();
    assert_eq!(thread.join().unwrap().as_deref(), Ok("<o/>"));
}

#[test]
fn global_variables_that_need_one_another_through_templates_stay_within_the_stack() {
    let deep = |levels: usize| {
        let mut text = String::new();
        let (open, close) = ("(".repeat(40), ")".repeat(40));
        for at in 0..levels {
            let next = at + 1;
            text += &format!(
                "<xsl:variable name='v{at}'><xsl:call-template name='t{at}'/></xsl:variable>\
                 <xsl:template name='t{at}'><xsl:value-of select='{open}$v{next} + 1{close}'/></xsl:template>"
            );
        }
        format!(
            "{text}<xsl:variable name='v{levels}' select='0'/>\
             <xsl:template match='/'><o><xsl:value-of select='$v0'/></o></xsl:template>"
        )
    };
    let most = xslt::limits::XSLT_GLOBALS_DEPTH_MAX;
    check(&[(deep(most + 1).as_str(), "too deeply")]);
    let good = sheet(&deep(most - 1));
    let run = move || transform(&good, "<a/>");
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(run).unwrap();
    assert_eq!(thread.join().unwrap(), Ok(format!("<o>{}</o>", most - 1)));
}

#[test]
fn a_document_as_deep_as_may_be_is_copied_on_a_small_stack() {
    let text = all().into_iter().find(|case| case.name.starts_with("7.5")).unwrap().sheet;
    let depth = xml::limits::XML_DEPTH_MAX as usize - 1;
    let source = format!("{}{}", "<a>".repeat(depth), "</a>".repeat(depth));
    let run = move || transform(&text, &source).map(|out| out.matches("<a").count());
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(run).unwrap();
    assert_eq!(thread.join().unwrap(), Ok(depth));
}

#[test]
fn a_sheet_is_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<xslt::Stylesheet>();
}

/// A value-of over `<a><b/></a>`, with the modules' prefixes.
fn value_of(expression: &str) -> String {
    let select = format!("<xsl:value-of select=\"{expression}\"/>");
    let modules = ["strings", "dates-and-times", "regular-expressions", "math"].map(|module| {
        let prefix = &module[..1];
        format!(" xmlns:{prefix}='http://exslt.org/{module}'")
    });
    format!("<xsl:template match='/'{}>{select}</xsl:template>", modules.concat())
}

#[test]
fn functions_of_exslt_stop_at_the_limits_of_a_run() {
    for (expression, expected) in [
        ("s:padding(1000000000000000000)", "was stopped when it had made"),
        ("string-length(s:padding(70000000, 'ab'))", "was stopped when it had made"),
        ("s:replace(s:padding(30000, 'a'), 'a', s:padding(100, 'b'))", "when it had made"),
        ("s:tokenize(s:padding(300000, 'a '))", "when it had made"),
        ("r:test('aaa', '(a{1000}){1000}')", "the pattern"),
        ("r:test('aaa', '(')", "the pattern"),
        ("r:test('aaa', 'a', 'x')", "no flag `x`"),
        (
            "r:replace(s:padding(100000, 'a'), 'a', 'g', '$&$&$&$&$&$&$&$&$&$&$&$&$&$&$&$&$&$&$&$&$&$&$&$&')",
            "when it had made",
        ),
        ("d:date-time()", "no time was given"),
        ("d:year()", "no time was given"),
    ] {
        let expression = expression.replace("$&", "$&amp;");
        let text = sheet(&value_of(&expression));
        let compiled = xslt::Stylesheet::compile(text.as_bytes(), &xslt::Refuse).unwrap();
        let limits = xslt::Limits { made_bytes: 1_000_000, ..Default::default() };
        let source = xml::Document::parse(b"<a/>").unwrap();
        let (params, mut out) = (xslt::Params::new(), Vec::new());
        let error = compiled.limited(limits).transform(&source, &params, &mut out).unwrap_err();
        let error = error.to_string();
        assert!(error.contains(expected), "{expression}\n  got {error}");
    }
}

#[test]
fn dates_and_durations_beyond_all_measure_are_none() {
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
fn constructs_of_later_versions_are_refused_by_name_and_place() {
    let body = |inside: &str| format!("<xsl:template match='/'>\n{inside}</xsl:template>");
    for (inside, expected) in [
        ("<xsl:sequence select='1'/>", "xsl:sequence, which isn't of XSLT 1.0"),
        ("<xsl:analyze-string select='a' regex='b'/>", "xsl:analyze-string"),
        ("<xsl:result-document href='a'/>", "xsl:result-document"),
        ("<xsl:value-of select='a' separator=','/>", "no attribute `separator`"),
        ("<xsl:attribute name='a' select='b'/>", "no attribute `select`"),
        ("<xsl:apply-templates mode='#all'/>", "`#all` isn't a name"),
        ("<xsl:value-of select='for $x in a return $x'/>", "in `for $x in a return $x`"),
        ("<xsl:value-of select='if (a) then b else c'/>", "in `if (a) then b else c`"),
        ("<xsl:value-of select='a except b'/>", "in `a except b`"),
        ("<xsl:value-of select=\"matches(a, 'b')\"/>", "matches"),
        (
            "<xsl:value-of xmlns:xs='http://www.w3.org/2001/XMLSchema' select='xs:integer(a)'/>",
            "integer",
        ),
        ("<o xsl:use-when='true()'/>", "xsl:use-when"),
        ("<xsl:sort select='a'/>", "`xsl:sort` can't stand here"),
    ] {
        for version in ["1.0", "2.0", "3.0"] {
            let text =
                sheet(&body(inside)).replace("version=\"1.0\"", &format!("version=\"{version}\""));
            let compiled = xslt::Stylesheet::compile(text.as_bytes(), &xslt::Refuse);
            let error = compiled.unwrap_err();
            assert_eq!(error.line, 2, "{error}");
            assert!(error.message.contains(expected), "{inside}\n  got {error}");
        }
    }
}

#[test]
fn huge_numbers_and_pictures_stay_within_the_limits() {
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
    // A long picture makes a long number, and counts as what is made.
    let picture = format!("value='1' format='{}1'", "0".repeat(100_000));
    assert_eq!(digits(&number(&picture).unwrap()), 100_001);
    let many = "<xsl:template name='t' match='/'><xsl:for-each select='//b'><xsl:number format='PICTURE1'/>\
                </xsl:for-each></xsl:template>";
    let many = sheet(&many.replace("PICTURE", &"0".repeat(100_000)));
    let source = format!("<a>{}</a>", "<b/>".repeat(100));
    let limits = xslt::Limits { made_bytes: 1_000_000, ..Default::default() };
    let many = xslt::Stylesheet::compile(many.as_bytes(), &xslt::Refuse).unwrap().limited(limits);
    let source = xml::Document::parse(source.as_bytes()).unwrap();
    let error = many.transform(&source, &xslt::Params::new(), &mut Vec::new()).unwrap_err();
    assert!(error.message.contains("was stopped when it had made"), "{error}");
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
fn numbering_all_nodes_takes_time_in_proportion() {
    for attributes in ["", "level='any'", "level='multiple' count='*'", "level='any' from='a'"] {
        let text = format!(
            "<xsl:output method='text'/><xsl:template match='/'><xsl:for-each select='//b'>\
             <xsl:if test='position() = last()'><xsl:number {attributes}/></xsl:if>\
             <xsl:variable name='v'><xsl:number {attributes}/></xsl:variable></xsl:for-each></xsl:template>"
        );
        // Squared it would be 4 million steps.
        let source = format!("<a>{}</a>", "<b/>".repeat(2_000));
        let expected = if attributes.contains("multiple") { "1.2000" } else { "2000" };
        let compiled = xslt::Stylesheet::compile(sheet(&text).as_bytes(), &xslt::Refuse).unwrap();
        let source = xml::Document::parse(source.as_bytes()).unwrap();
        let limits = xslt::Limits { steps: 100_000, ..Default::default() };
        let mut out = Vec::new();
        compiled.limited(limits).transform(&source, &xslt::Params::new(), &mut out).unwrap();
        assert_eq!(out, expected.as_bytes(), "{attributes}");
    }
}

#[test]
fn html_and_its_values_stay_what_they_are_whatever_they_hold() {
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
fn errors_of_what_waited_or_is_encoded_at_the_end_are_told_of_the_instruction_that_made_it() {
    let of = |output: &str, body: &str| {
        error_of(&format!(
            "<xsl:output {output}/>\n<xsl:template match='/'>\n{body}</xsl:template>"
        ))
    };
    let bad = "<xsl:processing-instruction name='{name(*)}'>\u{20ac}</xsl:processing-instruction>";
    let xml = "<xsl:processing-instruction name='x{name(/..)}ml'/>";
    for (output, body, place, expected) in [
        ("", xml.to_owned(), "line 3, column 1:", "`xml` isn't a name"),
        (
            "",
            format!("<xsl:comment>c</xsl:comment>\n{xml}\n<o/>"),
            "line 4, column 1:",
            "`xml` isn't a name",
        ),
        (
            "",
            format!("<xsl:text> </xsl:text>\n{xml}\n<html/>"),
            "line 4, column 1:",
            "`xml` isn't a name",
        ),
        (
            "encoding='US-ASCII'",
            format!("<xsl:comment/>\n\n{bad}"),
            "line 5, column 1:",
            "US-ASCII",
        ),
        (
            "method='text' encoding='US-ASCII'",
            "<xsl:text>a</xsl:text>\n<xsl:text>\u{e9}</xsl:text>\n<xsl:text>b</xsl:text>"
                .to_owned(),
            "line 4, column 1:",
            "`\u{e9}` can't be said in US-ASCII",
        ),
        (
            "method='text' encoding='ISO-8859-1'",
            "<xsl:text>\u{e9}</xsl:text>\n<xsl:value-of select='\"\u{20ac}\"'/>".to_owned(),
            "line 4, column 1:",
            "`\u{20ac}` can't be said in ISO-8859-1",
        ),
        (
            "method='text' encoding='US-ASCII'",
            "<xsl:variable name='v'><a>\u{20ac}</a></xsl:variable>\n<xsl:copy-of select='$v'/>"
                .to_owned(),
            "line 4, column 1:",
            "`\u{20ac}` can't be said in US-ASCII",
        ),
        (
            "method='html' encoding='US-ASCII'",
            "<a>\n<xsl:attribute name='\u{e9}:b' namespace='u'/></a>".to_owned(),
            "line 4, column 1:",
            "`\u{e9}` can't be written in US-ASCII",
        ),
    ] {
        let error = of(output, &body);
        assert!(error.starts_with(place) && error.contains(expected), "{output} {body}\n  {error}");
    }
}

#[test]
fn names_of_processing_instructions_that_are_fixed_are_checked_at_load() {
    for name in ["xml", "XmL", "a:b", "1", " a"] {
        let text = format!(
            "<xsl:template match='no'>\n<xsl:processing-instruction name='{name}'/></xsl:template>"
        );
        let error = error_of(&text);
        let expected = format!("`{name}` can't be the name of a processing instruction");
        assert!(error.starts_with("line 2, column 1:") && error.contains(&expected), "{error}");
    }
}
