//! Payload templates and the FreeMarker subset, against the cases in `cases/template.txt`.

use crate::common::Message;
use penstock_expression::template::{Argument, FreeMarker, MediaType, PayloadTemplate, Settings};
use penstock_expression::{BodyUse, Error, EvalContext, Expression};

const CASES: &str = include_str!("cases/template.txt");
const PAYLOAD: &str = r#"{"name":"Ann","n":12.50,"list":["a","b<&"],"empty":[],"none":null,"ok":true,"obj":{"p":1,"q":"z"},"items":[{"p":5},{"p":15}],"size":"1024B","o":{"k": "v\n", "e":[]},"t":"say \"hi\"\\ \u0001"}"#;
const AROUND: &str = r#"{"headers":{"host":"h","X-Y":"hy","n":"42","j":"{\"a\":1}","q":"{broken","x":"<b/>"},"synapse":{"uri":"/a"},"axis2":{"HTTP_SC":200},"vars":{"v":7}}"#;
const ARGUMENTS: [&str; 11] = [
    "json-eval($.list)",
    "json-eval($.size)",
    "json-eval($.n)",
    "json-eval($.o)",
    "json-eval($.t)",
    "json-eval($.nothing)",
    "$trp:n",
    "$trp:n",
    "$trp:j",
    "$trp:q",
    "get-property('transport', 'x')",
];
/// The payload of cases of `nodes`.
const MARKUP: &str = r#"<r a="1" p:t="T" xmlns:p="urn:p"><e/><one x="&lt;">7</one><two>a</two><two>b<i>c</i></two><people><person id="2"><first-name>Bo</first-name><age>9</age></person><person id="1"><first-name>Al</first-name><age>10</age></person></people><p:q>ns</p:q><ok>true</ok><mix>a<!--c-->b<![CDATA[<]]></mix></r>"#;
/// The argument, from 1, that is `literal="true"`.
const LITERAL: usize = 8;

#[test]
fn every_template_renders_as_its_case_says() {
    let message = Message::new(PAYLOAD, AROUND);
    let markup = Xml(xml::Document::parse(MARKUP.as_bytes()).unwrap());
    let (mut count, mut wrong) = (0, Vec::new());
    for (line, case) in CASES.lines().enumerate() {
        if !case.is_empty() && !case.starts_with('#') {
            count += 1;
            let context: &dyn EvalContext =
                if case.starts_with("nodes ") { &markup } else { &message };
            wrong.extend(check(context, case).map(|why| format!("{}: {why}", line + 1)));
        }
    }
    assert!(count > 130, "{count} cases were read");
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
}

/// A message whose payload is XML.
struct Xml(xml::Document);

impl EvalContext for Xml {
    fn xml(&self) -> Result<Option<&xml::Document>, Error> {
        Ok(Some(&self.0))
    }
    fn unix_ms(&self) -> i64 {
        0
    }
}

#[test]
fn each_scalar_of_an_array_is_an_element_whatever_is_beside_it() {
    let list = r#"{"i":["a",1.50,"<",{"b":"]]>"},[],[true,["\u003c",""]],null,"]","é\uffff"]}"#;
    let template = PayloadTemplate::compile(
        "<l>$1</l>",
        vec![Argument::new(Expression::compile("json-eval($)").unwrap())],
        Settings::new(MediaType::Xml),
    );
    let mut written = Vec::new();
    template.unwrap().render(&Message::new(list, AROUND), &mut written).unwrap();
    assert_eq!(
        String::from_utf8(written).unwrap(),
        "<l><i>a</i><i>1.50</i><i>&lt;</i><i><b>]]&gt;</b></i><i>true</i><i>&lt;</i><i></i><i></i>\
         <i>]</i><i>é\u{fffd}</i></l>"
    );
}

#[test]
fn a_long_array_is_written_as_one_element_after_the_other() {
    let element = |of: (&str, &str)| format!("<i>{}</i>", of.1);
    let plain = [("\"ab\"", "ab"), ("-1.5", "-1.5"), ("\"\"", ""), ("true", "true")];
    let special =
        [("\"<&\"", "&lt;&amp;"), ("null", ""), ("\"\\t\"", "\t"), ("\"\u{ffff}\"", "\u{fffd}")];
    for (count, special) in [1, 2, 63, 64, 65, 128, 200].iter().zip(special.iter().cycle()) {
        for at in [0, 1, 62, 63, 64, 199, 1000] {
            let mut all: Vec<_> = plain.iter().cycle().take(*count).copied().collect();
            if let Some(place) = all.get_mut(at) {
                *place = *special;
            }
            let texts: Vec<_> = all.iter().map(|of| of.0).collect();
            let list = format!("{{\"i\":[{}]}}", texts.join(",\n  "));
            let expect: String = all.into_iter().map(element).collect();
            let argument = Argument::new(Expression::compile("json-eval($)").unwrap());
            let settings = Settings::new(MediaType::Xml);
            let template = PayloadTemplate::compile("<l>$1</l>", vec![argument], settings).unwrap();
            let mut written = Vec::new();
            template.render(&Message::new(&list, AROUND), &mut written).unwrap();
            assert_eq!(String::from_utf8(written).unwrap(), format!("<l>{expect}</l>"), "{list}");
        }
    }
}

#[test]
fn texts_and_names_are_whole_whatever_their_length() {
    for name in [1, 13, 14, 40].map(|len| "n".repeat(len)) {
        for lens in [[0, 1, 31], [32, 33, 4], [100, 0, 32], [5, 64, 65]] {
            let texts = lens.map(|len| "t".repeat(len));
            let list = format!("{{\"{name}\":[\"{}\"]}}", texts.join("\", \""));
            let expect = texts.map(|text| format!("<{name}>{text}</{name}>")).concat();
            assert_eq!(
                fill(&Message::new(&list, AROUND), "xml", "<l>${payload}</l>"),
                Ok(format!("<l>{expect}</l>"))
            );
        }
    }
}

fn check(context: &dyn EvalContext, case: &str) -> Option<String> {
    let (language, rest) = case.split_once(" | ").expect("a case names its language");
    let (template, expect, fails) = match (rest.split_once(" => "), rest.split_once(" !! ")) {
        (_, Some((template, expect))) => (template, expect, true),
        (Some((template, expect)), None) => (template, expect, false),
        (None, None) => panic!("{case} has no arrow"),
    };
    // JSON cases hold `\n` as an escape of their own.
    let lines = |text: &str| {
        if language == "json" && !fails { text.to_owned() } else { text.replace("\\n", "\n") }
    };
    let result = fill(context, language, &lines(template));
    let expect = if expect.contains("json_string") || expect.starts_with("{\"name\"") {
        expect.to_owned()
    } else {
        lines(expect)
    };
    let matches = match &result {
        Ok(made) => !fails && *made == expect,
        Err(error) => fails && error.contains(&expect),
    };
    (!matches).then(|| format!("{case}\n    got {result:?}"))
}

fn fill(context: &dyn EvalContext, language: &str, template: &str) -> Result<String, String> {
    let arguments = ARGUMENTS.iter().map(|source| Expression::compile(source).unwrap());
    let mut made = Vec::new();
    if matches!(language, "ftl" | "nodes") {
        let compiled = FreeMarker::compile(template, arguments.collect())
            .map_err(|error| error.to_string())?;
        compiled.render(context, &mut made).map_err(|error| error.to_string())?;
    } else {
        let media = match language {
            "json" | "escape" => MediaType::Json,
            "xml" => MediaType::Xml,
            _ => MediaType::Text,
        };
        let settings = Settings::new(media).with_escape_xml(language == "escape");
        let arguments = arguments.enumerate().map(|(place, expression)| Argument {
            literal: place + 1 == LITERAL,
            ..Argument::new(expression)
        });
        let compiled = PayloadTemplate::compile(template, arguments.collect(), settings);
        compiled
            .map_err(|error| error.to_string())?
            .render(context, &mut made)
            .map_err(|error| error.to_string())?;
    }
    Ok(String::from_utf8(made).unwrap())
}

#[test]
fn body_use_is_known_before_rendering() {
    let of = |source: &str| vec![Expression::compile(source).unwrap()];
    for (template, argument, expect) in [
        ("x", "json-eval($.a)", BodyUse::Untouched),
        ("$1", "json-eval($.a)", BodyUse::Read),
        ("$1", "$ctx:a", BodyUse::Untouched),
        ("${payload.a}", "$ctx:a", BodyUse::Read),
        ("${vars.a}", "$ctx:a", BodyUse::Untouched),
    ] {
        let arguments = of(argument).into_iter().map(Argument::new).collect();
        let compiled =
            PayloadTemplate::compile(template, arguments, Settings::new(MediaType::Text));
        assert_eq!(compiled.unwrap().body_use(), expect, "{template} {argument}");
    }
    assert_eq!(FreeMarker::compile("${ctx.a}", vec![]).unwrap().body_use(), BodyUse::Untouched);
    assert_eq!(FreeMarker::compile("${payload.a}", vec![]).unwrap().body_use(), BodyUse::Read);
}

#[test]
fn a_deep_argument_that_is_xml_is_inserted_as_markup() {
    let (deep, shallow) = ((true, false), (false, false));
    for (format, text, (deep, literal), expect) in [
        ("<r>$1</r>", "<a b='1'>&lt;</a>", deep, "<r><a b=\"1\">&lt;</a></r>"),
        (
            "<r>$1</r>",
            " <?xml version='1.0'?>\n<p:a xmlns:p='urn:p'/> ",
            deep,
            "<r><p:a xmlns:p=\"urn:p\"/></r>",
        ),
        ("<r>$1</r>", "<a>", deep, "<r>&lt;a&gt;</r>"),
        ("<r>$1</r>", "<a/><b/>", deep, "<r>&lt;a/&gt;&lt;b/&gt;</r>"),
        ("<r>$1</r>", "a > b", deep, "<r>a &gt; b</r>"),
        ("<r c=\"$1\"/>", "<a/>", deep, "<r c=\"&lt;a/&gt;\"/>"),
        ("<r>$1</r>", "<a/>", shallow, "<r>&lt;a/&gt;</r>"),
        ("<r>$1</r>", "<a/>", (true, true), "<r>&lt;a/&gt;</r>"),
    ] {
        let argument = Argument { deep, literal, ..Argument::new(Expression::literal(text)) };
        let settings = Settings::new(MediaType::Xml);
        let template = PayloadTemplate::compile(format, vec![argument], settings).unwrap();
        let mut made = Vec::new();
        template.render(&Message::new(PAYLOAD, AROUND), &mut made).unwrap();
        assert_eq!(String::from_utf8(made).unwrap(), expect, "{format} of {text}");
    }
}

#[test]
fn endless_templates_stop_at_their_budget() {
    let message = Message::new(PAYLOAD, AROUND);
    for template in [
        "<#list 1..1000000000 as i>x</#list>",
        "<#list 1..3000 as i><#list 1..3000 as j>x</#list></#list>",
        "<#assign x = \"abcdefgh\"><#list 1..60 as i><#assign x = x + x></#list>${x}",
        "<#assign x = [1,2]><#list 1..60 as i><#assign x = x + x></#list>${x?size}",
        "<#assign x = \"aaaaaaaaaaaaaaaa\"><#list 1..9 as i><#assign x = x?replace(\"a\", \"aaaaaaaaaaaaaaaa\")></#list>${x}",
    ] {
        assert!(fill(&message, "ftl", template).is_err(), "{template}");
    }
    for template in [
        "<#if true>".repeat(80_000),
        format!("${{{}1", "(".repeat(60_000)),
        format!("${{{}1}}", "-".repeat(60_000)),
        format!("${{1{}}}", "+1".repeat(20_000)),
        format!("${{a{}}}", ".b".repeat(20_000)),
        format!("${{{}}}", "[".repeat(20_000)),
    ] {
        assert!(fill(&message, "ftl", &template).is_err(), "{}", &template[..12]);
    }
}

#[test]
fn xml_becomes_json_in_a_format_of_json() {
    let deep = |source: &str, deep| {
        let expression = Expression::compile(source).unwrap();
        Argument { deep, ..Argument::new(expression) }
    };
    for (format, argument, expect) in [
        ("{\"a\":$1}", deep("$ctx:x", true), r#"{"a":{"b":[1.50,"x"]}}"#),
        ("{\"a\":$1}", deep("$ctx:x", false), r#"{"a":"<b>1.50</b><b>x</b>"}"#),
        ("{\"a\":$1}", deep("json-eval($.x)", true), r#"{"a":"<b>1.50</b><b>x</b>"}"#),
    ] {
        let settings = Settings::new(MediaType::Json);
        let template = PayloadTemplate::compile(format, vec![argument], settings).unwrap();
        let body = r#"{"x":"<b>1.50</b><b>x</b>"}"#;
        let around = r#"{"synapse":{"x":"<b>1.50</b><b>x</b>"}}"#;
        let mut made = Vec::new();
        template.render(&Message::new(body, around), &mut made).unwrap();
        assert_eq!(String::from_utf8(made).unwrap(), expect, "{format}");
    }
}
