//! What a message is to mediators: its views, its formats, its head, its budget.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

mod support;

use std::fmt::Write as _;

use penstock_mediation::{Body, BodyUse, Code, Format, Message, PropertyScope, PropertyValue};
use support::{Outcome, compile, logged, message, run, run_main};
use xpath::Budget;

const JSON: &str = "application/json";
const SOAP: &str = "text/xml; charset=UTF-8";

fn envelope(header: &str, body: &str) -> Message {
    let soap = "http://schemas.xmlsoap.org/soap/envelope/";
    message(
        SOAP,
        &format!("<e:Envelope xmlns:e=\"{soap}\">{header}<e:Body>{body}</e:Body></e:Envelope>"),
    )
}

#[test]
fn a_small_body_cannot_grow_past_the_budget() {
    let name = "n".repeat(100_000);
    let wide = format!("{{\"{name}\":[{}1]}}", "1,".repeat(100_000));
    let keep = "<enrich><source xpath=\"//*\"/><target type=\"property\" property=\"p\"/></enrich>";
    let mut deep = String::from("x");
    for _ in 0..500 {
        deep = format!("<a>{}{deep}</a>", "y".repeat(1_000));
    }
    let copies = |of: &str| of.repeat(1_000);
    let text = format!("{{\"t\":\"{}\"}}", "t".repeat(1_000_000));
    let mut sets = String::new();
    for number in 0..100 {
        let _ = write!(sets, "<property name=\"p{number}\" expression=\"json-eval($.t)\"/>");
    }
    for (mediators, body, of) in [
        ("<property name=\"x\" expression=\"count(//*)\"/>", &*wide, JSON),
        (keep, &deep, "application/xml"),
        (&sets, &text, JSON),
        (&copies("<log level=\"full\"/>"), &text, JSON),
        (
            &copies(
                "<enrich><source type=\"body\"/><target type=\"property\" property=\"p\"/></enrich>",
            ),
            &text,
            JSON,
        ),
    ] {
        let budget = Budget::new(1_000_000, 32 << 20);
        let artefacts = format!("<sequence name=\"main\">{mediators}</sequence>");
        let failure = run_main(&artefacts, message(of, body), budget).failure();
        assert!(failure.message.starts_with("evaluation stopped"), "{failure}");
    }
}

#[test]
fn what_is_replaced_is_released() {
    let again = "<payloadFactory media-type=\"text\"><format>x</format></payloadFactory>\
                 <property name=\"p\" expression=\"json-eval($.t)\"/>";
    let budget = Budget::new(50_000_000, 1 << 20);
    let artefacts = format!("<sequence name=\"main\">{}</sequence>", again.repeat(2_000));
    let ran = run_main(&artefacts, message(JSON, r#"{"t":"1"}"#), budget);
    assert_eq!(ran.finish().0, "x");
}

#[test]
fn enrich_pays_for_the_node_that_it_copies() {
    let body = format!("<a><b>1</b><c>{}</c></a>", "x".repeat(100_000));
    let one = "<enrich><source xpath=\"//b\"/><target type=\"property\" property=\"p\"/></enrich>";
    let artefacts = format!("<sequence name=\"main\">{}</sequence>", one.repeat(100));
    let ran =
        run_main(&artefacts, message("application/xml", &body), Budget::new(1 << 20, 1 << 20));
    assert!(ran.finish().0.starts_with("<a><b>1</b>"));
}

#[test]
fn a_header_field_cannot_bring_another() {
    for (name, value) in
        [("X", "a\\r\\nY: b"), ("X", "a\\nY: b"), ("X", "a\\u0000b"), ("X", "a\\u007f")]
    {
        let json = format!("{{\"n\":\"{name}\",\"v\":\"{value}\"}}");
        for mediator in [
            "<header name=\"X\" scope=\"transport\" expression=\"json-eval($.v)\"/>",
            "<property name=\"X\" scope=\"transport\" expression=\"json-eval($.v)\"/>",
        ] {
            let failure = run(mediator, message(JSON, &json)).failure();
            assert!(failure.message.contains("control characters"), "{failure}");
        }
        let action = "<header name=\"Action\" expression=\"json-eval($.v)\"/>";
        let _ = run(action, message(JSON, &json));
    }
    let action = "<header name=\"Action\" expression=\"//a\"/><send><endpoint>\
                  <address uri=\"http://a/\"/></endpoint></send>";
    let failure = run(action, envelope("", "<a>x&#13;&#10;Y: b</a>")).failure();
    assert!(failure.message.contains("control characters"), "{failure}");
    let budget = Budget::default();
    let mut plain = message(JSON, "{}");
    for name in ["", "a b", "a:", "a\r\nb", "é"] {
        let set = plain.set(PropertyScope::Transport, name, PropertyValue::new("v"), &budget);
        assert!(set.is_err(), "{name:?}");
    }
    plain.set_field("X", " \r\n a\tb \n").unwrap();
    assert_eq!(plain.head.field("x").unwrap(), "a\tb");
}

#[test]
fn what_reads_the_header_does_not_read_the_body() {
    let broken = format!("<o>{}<p></o>", "<q>1</q>".repeat(300));
    for (header, body, expression, read) in [
        ("<e:Header><r>1</r></e:Header>", &*broken, "$header/r", Some("1")),
        ("<e:Header><r>1</r></e:Header>", &broken, "count($header/* | $header/r)", Some("1")),
        ("", &broken, "$header/r", Some("")),
        ("<e:Header><r>1</r></e:Header>", &broken, "$header/r/following::q[1]", None),
        ("<e:Header><r>1</r></e:Header>", &broken, "concat($header/r, $body/o/q)", None),
        ("<e:Header><r>1</e:Header>", "<o/>", "$header/r", None),
    ] {
        let ran = run(
            &format!(
                "<log level=\"custom\"><property name=\"x\" expression=\"{expression}\"/></log>"
            ),
            envelope(header, body),
        );
        match read {
            Some(text) => assert_eq!(ran.log, [format!("x = {text}")], "{expression}"),
            None => assert!(ran.failure().message.contains("XML"), "{expression}"),
        }
    }
}

#[test]
fn a_new_payload_leaves_the_header_as_it_came() {
    let header = "<e:Header ><h a='1'>&lt;<!--c--></h>\n</e:Header>\n";
    let factory = "<payloadFactory media-type=\"xml\"><format><n/></format></payloadFactory>";
    let (body, _) = run(factory, envelope(header, "<o>1</o><p/>")).finish();
    let payload = "<n xmlns=\"http://ws.apache.org/ns/synapse\"/>";
    let soap = "http://schemas.xmlsoap.org/soap/envelope/";
    assert_eq!(
        body,
        format!("<e:Envelope xmlns:e=\"{soap}\">{header}<e:Body>{payload}</e:Body></e:Envelope>")
    );
}

#[test]
fn xpath_as_text_is_synapse_s() {
    let order = || envelope("", "<o><s id=\"7\"> IBM\u{a0}</s><s>SUN</s><p><q>1</q></p></o>");
    for (expression, text) in [
        ("//s[1]", "IBM"),
        ("//s[1]/@id", "7"),
        ("//p", "<p xmlns:e=\"http://schemas.xmlsoap.org/soap/envelope/\"><q>1</q></p>"),
        ("//s/text()", " IBM\u{a0}SUN"),
        ("string(//p)", "1"),
        ("//none", ""),
    ] {
        assert_eq!(logged(expression, order()), text, "{expression}");
    }
    let several = logged("//s", order())
        .replace(" xmlns:e=\"http://schemas.xmlsoap.org/soap/envelope/\"", "");
    assert_eq!(several, "<s id=\"7\">IBM</s><s>SUN</s>");
}

/// A response with these bytes.
fn encoded(content_type: &str, bytes: &[u8]) -> Message {
    let mut plain = message(content_type, "");
    let body = Body::held(Format::of(content_type), bytes.to_vec());
    plain.become_response(plain.head.copy(), body);
    plain
}

#[test]
fn bodies_are_read_in_the_charset_that_they_name() {
    for (content_type, expression, bytes, text) in [
        ("text/plain; charset=windows-1252", "string(//*)", &b"\x80 5"[..], "€ 5"),
        ("text/plain; charset=UTF-16", "string(//*)", b"\0\x41\x20\xac", "A€"),
        ("text/plain; charset=UTF-16", "string(//*)", b"\xff\xfe\xac\x20", "€"),
        ("text/plain; charset=utf-16le", "string(//*)", b"\xac\x20", "€"),
        ("application/json; charset=Shift_JIS", "json-eval($.a)", b"{\"a\":\"\x93\xfa\"}", "日"),
        ("application/xml; charset=Shift_JIS", "string(//a)", b"<a>\x93\xfa</a>", "日"),
        (
            "application/xml",
            "string(//a)",
            b"<?xml version=\"1.0\" encoding='Shift_JIS'?><a>\x93\xfa</a>",
            "日",
        ),
        (
            "application/xml; charset=iso-8859-1",
            "string(//a)",
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?><a>é</a>".as_bytes(),
            "é",
        ),
        ("application/json; charset=none", "json-eval($.a)", b"{\"a\":\"b\"}", "b"),
    ] {
        assert_eq!(logged(expression, encoded(content_type, bytes)), text, "{content_type}");
    }
}

#[test]
fn a_body_that_is_not_in_its_charset_is_malformed() {
    for (content_type, bytes, problem) in [
        (
            "text/plain; charset=Shift_JIS",
            &b"a\x93"[..],
            "not text in Shift_JIS: malformed at byte 1",
        ),
        ("text/plain; charset=utf-16be", b"\0a\xd8\0", "not text in UTF-16BE: malformed at byte 2"),
        ("text/plain; charset=none", b"\xe9", "the charset `none` of the body is not known"),
    ] {
        let read = "<property name=\"a\" expression=\"string(//*)\"/>";
        let failure = run(read, encoded(content_type, bytes)).failure();
        assert_eq!(failure.code, Code::MALFORMED_BODY, "{content_type}");
        assert!(failure.message.contains(problem), "{failure}");
    }
}

#[test]
fn a_body_is_written_in_the_charset_of_its_property() {
    let set = |charset: &str| {
        format!("<property name=\"CHARACTER_SET_ENCODING\" value=\"{charset}\" scope=\"axis2\"/>")
    };
    let written = |charset: &str, media: &str, body: &str| {
        let read = "<property name=\"a\" expression=\"string(//*)\"/>";
        let mut message = run(&(set(charset) + read), message(media, body)).message;
        let bytes = message.finish(&Budget::default()).unwrap().unwrap();
        (bytes.to_vec(), message.head.field("Content-Type").unwrap().into_owned())
    };
    let (body, content_type) = written("windows-1252", "text/plain; charset=utf-8", "5 €, 日");
    assert_eq!((&*body, &*content_type), (&b"5 \x80, ?"[..], "text/plain; charset=windows-1252"));
    let (body, content_type) = written("ISO-8859-1", JSON, "{\"é\":\"日😀\"}");
    assert_eq!(body, b"{\"\xe9\":\"\\u65e5\\ud83d\\ude00\"}");
    assert_eq!(content_type, "application/json; charset=ISO-8859-1");
    let (body, _) = written("Shift_JIS", "application/xml", "<?xml version=\"1.0\"?><a>日é</a>");
    assert_eq!(body, b"<?xml version=\"1.0\" encoding=\"Shift_JIS\"?><a>\x93\xfa&#233;</a>");
    let (body, _) = written("UTF-16", "text/plain", "a€");
    assert_eq!(body, b"\xfe\xff\0a\x20\xac");
    let (body, content_type) = written("UTF-8", JSON, "{ }");
    assert_eq!((&*body, &*content_type), (&b"{ }"[..], JSON), "as it came");
    let (_, found) = compile(&format!("<sequence name=\"s\">{}</sequence>", set("none")));
    assert!(found.join("").contains("error: the charset `none` is not known"), "{found:?}");
}

#[test]
fn text_in_latin_1_is_read_and_what_is_written_is_utf_8() {
    let latin = encoded;
    let text = "text/plain; charset=ISO-8859-1";
    let json = "application/json; charset=\"iso-8859-1\"";
    assert_eq!(logged("string(//*)", latin(text, b"caf\xe9")), "café");
    assert_eq!(logged("json-eval($.a)", latin(json, b"{\"a\":\"\xe9\"}")), "é");
    let kept = run("<log level=\"full\"/>", latin(text, b"caf\xe9"));
    assert_eq!(kept.message.body.bytes(&Budget::default()).unwrap().unwrap(), &b"caf\xe9"[..]);
    assert_eq!(kept.message.head.field("Content-Type").unwrap(), text);
    let wrap = "<payloadFactory media-type=\"json\"><format>{\"b\":$1}</format><args>\
                <arg evaluator=\"json\" expression=\"$.a\"/></args></payloadFactory>";
    let (body, content_type) = run(wrap, latin(json, b"{\"a\":\"\xe9\"}")).finish();
    assert_eq!((&*body, &*content_type), ("{\"b\":\"é\"}", "application/json; charset=UTF-8"));
    let xml = "text/xml; charset=iso-8859-1";
    let fill = "<enrich><source type=\"inline\"><b xmlns=\"\">é</b></source><target type=\"body\"/></enrich>";
    let (_, content_type) = run(fill, message(xml, "<a/>")).finish();
    assert!(content_type.to_ascii_lowercase().contains("utf-8"), "{content_type}");
}

#[test]
fn get_property_knows_what_synapse_knows_of_any_message() {
    let fault = "<e:Fault><faultcode>e:Server</faultcode><faultstring>no</faultstring></e:Fault>";
    let of = |name: &str, message| logged(&format!("get-property('{name}')"), message);
    assert_eq!(of("FAULT", envelope("", fault)), "TRUE");
    assert_eq!(of("FAULT", envelope("", "<a/>")), "");
    let reads = "<sequence name=\"s\"><property name=\"f\" expression=\"get-property('FAULT')\"/></sequence>";
    let (program, _) = compile(reads);
    assert_eq!(program.body_use(program.sequence("s").unwrap()), BodyUse::Read);
    assert_eq!(of("MESSAGE_FORMAT", envelope("", "<a/>")), "soap11");
    assert_eq!(of("MESSAGE_FORMAT", message("application/soap+xml", "<a/>")), "soap12");
    assert_eq!(of("MESSAGE_FORMAT", message(JSON, "1")), "pox");
    let mut order = envelope("", "<a/>");
    order.set_field("SOAPAction", "\"urn:order\"").unwrap();
    assert_eq!(of("Action", order), "urn:order");
    let action = message("application/soap+xml; action=\"urn:order\"", "<a/>");
    assert_eq!(of("Action", action), "urn:order");
    let wsa = "http://www.w3.org/2005/08/addressing";
    let addressed = || {
        let header = format!(
            "<e:Header><w:MessageID xmlns:w=\"{wsa}\">urn:7</w:MessageID><w:From xmlns:w=\"{wsa}\"><w:Address>http://me/</w:Address>\
             </w:From><MessageID>other</MessageID></e:Header>"
        );
        envelope(&header, "<o:order xmlns:o=\"urn:o\"/>")
    };
    assert_eq!(of("MessageID", addressed()), "urn:7");
    assert_eq!(of("From", addressed()), "http://me/");
    assert_eq!(of("ReplyTo", addressed()), "");
    assert_eq!(of("OperationName", addressed()), "order");
    assert_eq!(of("OperationNamespace", addressed()), "urn:o");
    assert_eq!(of("OperationName", message(JSON, "1")), "mediate");
    assert_eq!(of("MessageID", message(JSON, "1")), "urn:uuid:of-the-run");
    let sets = "<header name=\"From\" value=\"http://us/\"/><log level=\"custom\"><property name=\"a\" \
                expression=\"get-property('From')\"/></log>";
    assert_eq!(run(sets, addressed()).log, ["a = http://us/"]);
    assert_eq!(of("SYSTEM_TIME", envelope("", "<a/>")), "1700000000000");
    assert_eq!(of("SYSTEM_DATE', 'yyyy-MM-dd", envelope("", "<a/>")), "2023-11-14");
    let own = "<property name=\"Action\" value=\"own\"/><property name=\"a\" expression=\"get-property('Action')\"/>\
               <log level=\"custom\"><property name=\"a\" expression=\"$ctx:a\"/></log>";
    assert_eq!(run(own, message(JSON, "1")).log, ["a = own"]);
}

#[test]
fn arguments_of_a_payload_factory_are_that_text() {
    let order = || message("application/xml", "<o><s>IBM</s><p><q>1</q></p></o>");
    let factory = |media: &str, format: &str, expression: &str| {
        format!(
            "<payloadFactory media-type=\"{media}\"><format>{format}</format><args><arg expression=\"{expression}\"/></args></payloadFactory>"
        )
    };
    for (media, format, expression, body) in [
        ("xml", "<r xmlns=\"\">$1</r>", "//s", "<r>IBM</r>"),
        ("xml", "<r xmlns=\"\">$1</r>", "//p", "<r><p><q>1</q></p></r>"),
        ("xml", "<r xmlns=\"\">$1</r>", "//s | //p", "<r><s>IBM</s><p><q>1</q></p></r>"),
        ("json", "{\"a\":$1}", "//s", "{\"a\":\"IBM\"}"),
        ("json", "{\"a\":$1}", "//p", "{\"a\":{\"p\":{\"q\":1}}}"),
        ("json", "{\"a\":$1}", "//none", "{\"a\":\"\"}"),
    ] {
        let ran = run(&factory(media, format, expression), order());
        assert_eq!(ran.finish().0, body, "{media} {expression}");
    }
}

#[test]
fn an_absent_body_is_null() {
    for of in [JSON, "application/xml", SOAP, "text/plain"] {
        for body in ["", " "] {
            let read = "<property name=\"a\" expression=\"json-eval($.a)\"/><property name=\"b\" expression=\"//b\"/>\
                        <property name=\"c\" expression=\"${payload.c}\"/><xslt key=\"s\"/><log level=\"full\"/>";
            let sheet = "<localEntry key=\"s\"><xsl:stylesheet version=\"1.0\" xmlns:xsl=\"http://www.w3.org/1999/XSL/Transform\"/></localEntry>";
            if of == "text/plain" && body == " " {
                continue;
            }
            let artefacts = format!("{sheet}<sequence name=\"main\">{read}</sequence>");
            let ran = run_main(&artefacts, message(of, body), Budget::default());
            assert_eq!(ran.finish().0, body, "{of}");
        }
    }
}

#[test]
fn null_matches_nothing() {
    let filter = |source: &str| {
        format!(
            "<filter source=\"{source}\" regex=\".*\"><then><log level=\"custom\"><property name=\"is\" value=\"then\"/></log></then>\
             <else><log level=\"custom\"><property name=\"is\" value=\"else\"/></log></else></filter>"
        )
    };
    let switch = "<switch source=\"$ctx:none\"><case regex=\".*\"><log/></case>\
                  <default><log level=\"custom\"><property name=\"is\" value=\"default\"/></log></default></switch>";
    for (mediator, line) in [
        (filter("$ctx:none"), "is = else"),
        (filter("$trp:none"), "is = else"),
        (filter("$trp:content-type"), "is = then"),
        (filter("json-eval($.none)"), "is = then"),
        (filter("json-eval($.null)"), "is = then"),
        (switch.to_owned(), "is = default"),
    ] {
        assert_eq!(run(&mediator, message(JSON, "{\"null\":null}")).log, [line], "{mediator}");
    }
}

#[test]
fn a_pattern_of_a_property_matches_the_whole_text() {
    for (pattern, group, value) in [
        ("([a-z]+)-.*", "1", "ab"),
        ("[a-z]+", "0", ""),
        ("ab-12", "3", ""),
        ("(x)?ab-12", "1", ""),
    ] {
        let property = format!(
            "<property name=\"p\" value=\"ab-12\" pattern=\"{pattern}\" group=\"{group}\"/>"
        );
        let ran = run(&property, message(JSON, "{}"));
        let found = ran.message.properties.get(PropertyScope::Synapse, "p").unwrap();
        assert_eq!(found.text(), value, "{pattern}");
    }
}

#[test]
fn a_body_is_written_in_the_format_of_its_message_type_or_content_type() {
    let factory = |media: &str, format: &str| {
        format!("<payloadFactory media-type=\"{media}\"><format>{format}</format></payloadFactory>")
    };
    let (xml, json) = (factory("xml", "<a xmlns=\"\">1</a>"), factory("json", "{\"a\":1}"));
    let message_type =
        |of: &str| format!("<property name=\"messageType\" value=\"{of}\" scope=\"axis2\"/>");
    let field =
        |of: &str| format!("<header name=\"Content-Type\" value=\"{of}\" scope=\"transport\"/>");
    let json_body = || message(JSON, "{\"b\":[1.50]}");
    let wrapped = "<e:Envelope xmlns:e=\"http://schemas.xmlsoap.org/soap/envelope/\"><e:Body><a>1</a></e:Body></e:Envelope>";
    for (mediators, of, body, content_type) in [
        (xml.clone(), json_body(), "<a>1</a>", "application/xml; charset=UTF-8"),
        (xml.clone(), envelope("", "<b/>"), wrapped, SOAP),
        (json.clone(), envelope("", "<b/>"), "{\"a\":1}", "application/json; charset=UTF-8"),
        (
            format!("{json}{}", message_type("application/xml")),
            json_body(),
            "<jsonObject><a>1</a></jsonObject>",
            "application/xml; charset=UTF-8",
        ),
        (
            format!("{xml}{}", message_type("application/vnd.x+json")),
            json_body(),
            "{\"a\":1}",
            "application/vnd.x+json; charset=UTF-8",
        ),
        (
            format!("{json}{}", field("application/xml")),
            json_body(),
            "{\"a\":1}",
            "application/json; charset=UTF-8",
        ),
        (
            field("application/xml"),
            json_body(),
            "<jsonObject><b>1.50</b></jsonObject>",
            "application/xml",
        ),
        (
            message_type("application/x-www-form-urlencoded"),
            message("application/xml", "<r><a>1 2</a><b>&amp;</b></r>"),
            "a=1+2&b=%26",
            "application/x-www-form-urlencoded",
        ),
        (message_type("text/plain"), json_body(), "{\"b\":[1.50]}", "text/plain; charset=UTF-8"),
        (factory("text", "hi"), json_body(), "hi", "text/plain; charset=UTF-8"),
        (
            format!("{}{}", factory("text", "a &lt; b"), message_type("application/xml")),
            json_body(),
            "<text xmlns=\"http://ws.apache.org/commons/ns/payload\">a &lt; b</text>",
            "application/xml; charset=UTF-8",
        ),
        (
            format!("{}{}", factory("text", "{\"a\": 1.50}"), message_type(JSON)),
            json_body(),
            "{\"a\": 1.50}",
            "application/json; charset=UTF-8",
        ),
        (
            "<property name=\"NO_ENTITY_BODY\" value=\"true\" scope=\"axis2\"/>".to_owned(),
            json_body(),
            "",
            "",
        ),
        (String::new(), json_body(), "{\"b\":[1.50]}", JSON),
    ] {
        let (written, field) = run(&mediators, of).finish();
        assert_eq!((&*written, &*field), (body, content_type), "{mediators}");
    }
}

#[test]
fn forms_and_multipart_are_xml_to_expressions() {
    let form = || message("application/x-www-form-urlencoded", "a=1+2&b%5B0%5D=%C3%A9&c&a=3");
    assert_eq!(logged("//xformValues/c", form()), "<c/>");
    assert_eq!(logged("string(/xformValues/a[2])", form()), "3");
    assert_eq!(logged("json-eval($.xformValues.a[0])", form()), "1 2");
    assert_eq!(run("<log level=\"full\"/>", form()).finish().0, "a=1+2&b%5B0%5D=%C3%A9&c&a=3");
    let edited =
        "<enrich><source xpath=\"//c\"/><target action=\"remove\" xpath=\"//c\"/></enrich>";
    assert_eq!(run(edited, form()).finish().0, "a=1+2&b%5B0%5D=%C3%A9&a=3");

    let parts = "--B\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\none\r\n\
                 --B\r\nContent-Disposition: form-data; name=\"f\"; filename=\"x.bin\"\r\nContent-Type: image/png\r\n\r\n\x01\x02\r\n--B--\r\n";
    let multipart = || message("multipart/form-data; boundary=\"B\"", parts);
    assert_eq!(logged("//mediate/a", multipart()), "one");
    assert_eq!(logged("//f/@filename", multipart()), "x.bin");
    assert_eq!(logged("//f", multipart()), "AQI=");
    let edited = "<enrich><source type=\"inline\">two</source><target xpath=\"//a\"/></enrich>";
    let (written, field) = run(edited, multipart()).finish();
    assert_eq!(
        (written, &*field),
        (parts.replace("one", "two"), "multipart/form-data; boundary=\"B\"")
    );
    // A text keeps its content type, and one with the boundary changes that.
    let typed = parts.replace("\"a\"\r\n", "\"a\"\r\nContent-Type: text/csv\r\n");
    let typed = || message("multipart/form-data; boundary=\"B\"", &typed);
    let edited = "<enrich><source type=\"inline\">x--B</source><target xpath=\"//a\"/></enrich>";
    let (written, field) = run(edited, typed()).finish();
    assert_eq!(field, "multipart/form-data; boundary=penstock-00000000");
    assert!(written.starts_with(
        "--penstock-00000000\r\nContent-Disposition: form-data; name=\"a\"\r\nContent-Type: text/csv\r\n\r\nx--B\r\n"
    ), "{written}");
    let as_multipart =
        "<property name=\"messageType\" value=\"multipart/form-data\" scope=\"axis2\"/>";
    let (written, field) =
        run(as_multipart, message("application/xml", "<r><a>1</a></r>")).finish();
    assert_eq!(field, "multipart/form-data; boundary=penstock-00000000");
    assert_eq!(
        written,
        "--penstock-00000000\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--penstock-00000000--\r\n"
    );
}

/// The content type of a package with the boundary `B`.
const PACKAGE: &str = "multipart/related; boundary=\"B\"; type=\"text/xml\"; start=\"<root@x>\"";

/// An order with an image as its attachment, which comes before the root part.
fn package(head: &str, symbol: &str) -> String {
    let soap = "http://schemas.xmlsoap.org/soap/envelope/";
    let xop = "http://www.w3.org/2004/08/xop/include";
    format!(
        "--B\r\nContent-ID: <a@x>\r\nContent-Type: image/png\r\n\r\n\u{1}\r\n--C\r\n\r\n--B \r\n{head}\
         Content-ID: <root@x>\r\n\r\n<e:Envelope xmlns:e=\"{soap}\"><e:Body><o><s>{symbol}</s>\
         <xop:Include xmlns:xop=\"{xop}\" href=\"cid:a@x\"/></o></e:Body></e:Envelope>\r\n--B--\r\nend"
    )
}

#[test]
fn an_envelope_with_attachments_is_its_root_part() {
    let whole = package("", "IBM");
    let first = whole.split("\r\n--B \r\n").collect::<Vec<_>>();
    let first = format!("--B\r\n{}", first[1].replace("end", ""));
    let optimised = "multipart/related; boundary=B; type=\"application/xop+xml\"";
    for (content_type, body, format) in [
        (PACKAGE, &whole, "soap11"),
        (&PACKAGE.replace("<root@x>", "root@x"), &whole, "soap11"),
        (&PACKAGE.replace("text/xml", "application/soap+xml"), &whole, "soap12"),
        ("Multipart/Related; type=text/xml; boundary=B", &first, "soap11"),
        (optimised, &first, "soap11"),
        (&format!("{optimised}; start-info=\"application/soap+xml\""), &first, "soap12"),
    ] {
        let of = || message(content_type, body);
        assert_eq!(logged("//s", of()), "IBM", "{content_type}");
        assert_eq!(logged("//*[local-name()='Include']/@href", of()), "cid:a@x");
        assert_eq!(logged("get-property('MESSAGE_FORMAT')", of()), format);
        let ran = run("<log level=\"full\"/><filter xpath=\"//s = 'IBM'\"><then/></filter>", of());
        assert!(ran.log[0].contains("Envelope: <e:Envelope"), "{:?}", ran.log);
        assert!(ran.log[0].ends_with("</e:Envelope>"), "{:?}", ran.log);
        assert_eq!(ran.finish(), (body.clone(), content_type.to_owned()), "as it came");
    }
    // Other parts that belong together are bytes.
    let other = "multipart/related; boundary=B; type=\"text/html\"";
    assert_eq!(run("<log/>", message(other, &whole)).finish().0, whole);
}

#[test]
fn an_edited_envelope_keeps_its_attachments() {
    let edit = "<enrich><source type=\"inline\">SUN</source><target xpath=\"//s\"/></enrich>";
    let sun = package("", "SUN");
    assert_eq!(
        run(edit, message(PACKAGE, &package("", "IBM"))).finish(),
        (sun, PACKAGE.to_owned())
    );
    // What its head says of the old bytes goes.
    let head = "Content-Type: text/xml;\r\n\tcharset=ISO-8859-1;x=y\r\ncontent-transfer-encoding: 8bit\r\n\
                Content-Length: 7\r\n";
    let new = "Content-Type: text/xml; x=y; charset=UTF-8\r\ncontent-transfer-encoding: binary\r\n";
    let mut latin = message(PACKAGE, "");
    let bytes: Vec<u8> = package(head, "\u{e9}").chars().map(|next| next as u8).collect();
    latin.become_response(latin.head.copy(), Body::held(Format::of(PACKAGE), bytes));
    let with = "<enrich><source xpath=\"concat(//s, '!')\"/><target xpath=\"//s\"/></enrich>";
    assert_eq!(run(with, latin).finish().0, package(new, "\u{e9}!"));

    let twice = edit.replace("SUN", "x") + edit;
    let mut sent = run(&twice, message(PACKAGE, &package("", "IBM"))).message;
    let budget = Budget::default();
    let written = sent.finish(&budget).unwrap().unwrap();
    assert_eq!(written, package("", "SUN"));
    sent.body.settle(&budget);
    assert_eq!(sent.finish(&budget).unwrap().unwrap().as_ptr(), written.as_ptr());
    assert_eq!(logged("//s", sent.copy(&budget).unwrap()), "SUN");
    assert_eq!(run(edit, sent).finish().0, package("", "SUN"));

    let factory =
        "<payloadFactory media-type=\"xml\"><format><n xmlns=\"\"/></format></payloadFactory>";
    let (written, field) = run(factory, message(PACKAGE, &package("", "IBM"))).finish();
    assert!(written.starts_with("--B\r\nContent-ID: <a@x>"), "{written}");
    assert!(written.contains("<e:Body><n/></e:Body></e:Envelope>\r\n--B--"), "{written}");
    assert_eq!(field, PACKAGE);
    let boundary =
        "<enrich><source type=\"inline\">x&#10;--B</source><target xpath=\"//s\"/></enrich>";
    assert!(run(boundary, message(PACKAGE, &package("", "IBM"))).finish().0.contains("x\n--B"));
}

#[test]
fn another_format_has_no_attachments() {
    let set = |of: &str| format!("<property name=\"messageType\" value=\"{of}\" scope=\"axis2\"/>");
    let of = || message(PACKAGE, &package("", "IBM"));
    let (written, field) = run(&set("text/xml"), of()).finish();
    assert!(written.starts_with("<e:Envelope") && written.ends_with("</e:Envelope>"), "{written}");
    assert_eq!(field, SOAP);
    let (written, field) = run(&set(JSON), of()).finish();
    assert!(written.starts_with("{\"o\":{\"s\":\"IBM\","), "{written}");
    assert_eq!(field, "application/json; charset=UTF-8");
    let (written, field) = run(&set("multipart/related"), of()).finish();
    assert_eq!((&*written, &*field), (&*package("", "IBM"), PACKAGE));
    let removed = "<property name=\"Content-Type\" action=\"remove\" scope=\"transport\"/>\
                   <property name=\"a\" expression=\"//a\"/>";
    assert!(run(removed, of()).finish().0.starts_with("<e:Envelope"));
}

#[test]
fn a_root_part_may_be_base64() {
    let plain = package("", "IBM");
    let start = plain.find("<e:Envelope").unwrap();
    let end = plain.find("\r\n--B--").unwrap();
    let bytes = xpath::encoding::base64_encode(&plain.as_bytes()[start..end]);
    let (first, last) = bytes.split_at(76);
    let head = "Content-Transfer-Encoding: BASE64\r\n";
    let encoded = package(head, "IBM").replace(&plain[start..end], &format!("{first}\r\n{last}"));
    assert_eq!(logged("//s", message(PACKAGE, &encoded)), "IBM");
    let edit = "<enrich><source type=\"inline\">SUN</source><target xpath=\"//s\"/></enrich>";
    let binary = "Content-Transfer-Encoding: binary\r\n";
    assert_eq!(run(edit, message(PACKAGE, &encoded)).finish().0, package(binary, "SUN"));
}

#[test]
fn a_root_part_may_be_quoted_printable() {
    let of = |edit: fn(&str) -> String| {
        let plain = package("", "I\u{e9}BM");
        let (start, end) = (plain.find("<e:Envelope").unwrap(), plain.find("\r\n--B--").unwrap());
        let encoded = edit(&plain[start..end].replace('=', "=3D").replace('\u{e9}', "=c3=A9"));
        let head = "Content-Transfer-Encoding: Quoted-Printable\r\n";
        message(PACKAGE, &package(head, "I\u{e9}BM").replace(&plain[start..end], &encoded))
    };
    assert_eq!(logged("//s", of(str::to_owned)), "I\u{e9}BM");
    // A line end in text, white space at the end of a line, and one that is only there for the width.
    let lines = of(|text| text.replace("</s>", " \t\r\ny= \r\nz</s>"));
    assert_eq!(logged("//s", lines), "I\u{e9}BM\nyz");
    // Lines without a carriage return, and a last one that goes on.
    let lines = of(|text| text.replace("</s>", "\ny=\nz</s>") + "=");
    assert_eq!(logged("//s", lines), "I\u{e9}BM\nyz");
    for wrong in ["=3", "=3g", "=x"] {
        let failure = run(
            "<log level=\"full\"/>",
            message(PACKAGE, &package("Content-Transfer-Encoding: quoted-printable\r\n", wrong)),
        );
        let failure = failure.failure();
        assert_eq!(failure.code.0, 601_000);
        assert!(failure.to_string().contains("is not quoted-printable"), "{failure}");
    }
}

#[test]
fn malformed_forms_are_601000() {
    let fields = "a=1&".repeat(10_001);
    let parts = "--B\r\n\r\n\r\n".repeat(1_001) + "--B--";
    let form = "multipart/form-data; boundary=B";
    for (of, body, problem) in [
        ("application/x-www-form-urlencoded", "a=%zz", "invalid escape in `%zz`"),
        ("application/x-www-form-urlencoded", &*fields, "more than 10000 fields"),
        ("multipart/form-data", "--B--", "its content type has no boundary"),
        (form, "--C--", "its boundary does not occur"),
        (form, "--B\r\nContent-Disposition: a\r\n\r\n1\r\n", "a part without an end, at byte 5"),
        (form, "--B\r\nA: b\r\n\r\n1\r\n--B--", "a part without a name, at byte 5"),
        (form, "x\r\n--B\r\nA: b\r\n--B--", "a part without a head, at byte 8"),
        (PACKAGE, "--C--", "its boundary does not occur"),
        (PACKAGE, "--B\r\n\r\n<a/>\r\n--Bx", "a delimiter without a line end, at byte 16"),
        (PACKAGE, "--B\r\n\r\n<a/>\r\n--B--", "no part is `root@x`"),
        (PACKAGE, "--B--", "no part is `root@x`"),
        (PACKAGE, &parts, "more than 1000 parts"),
        (PACKAGE, &package("Content-Transfer-Encoding: x\r\n", "IBM"), "`x` of its root part"),
        (
            PACKAGE,
            &package("Content-Transfer-Encoding: base64\r\n", ""),
            "its root part is not base64",
        ),
        (PACKAGE, &package("", "<"), "the body is not XML"),
        (&PACKAGE.replace("boundary", "x"), "--B--", "its content type has no boundary"),
    ] {
        let read = "<property name=\"a\" expression=\"//a\"/>";
        let failure = run(read, message(of, body)).failure();
        assert_eq!(failure.code.0, 601_000, "{of} {body}");
        assert!(failure.message.contains(problem), "{of} {body}: {failure}");
    }
}

#[test]
fn a_message_keeps_what_was_sent_and_a_copy_shares_it() {
    let budget = Budget::default();
    let factory = "<payloadFactory media-type=\"json\"><format>{\"a\":1}</format></payloadFactory>\
                   <property name=\"messageType\" value=\"application/xml\" scope=\"axis2\"/>";
    let mut sent = run(factory, message(JSON, "{}")).message;
    let first = sent.finish(&budget).unwrap().unwrap();
    let again = sent.finish(&budget).unwrap().unwrap();
    assert_eq!(first.as_ptr(), again.as_ptr(), "{first:?}");
    assert_eq!(logged("//a", sent.copy(&budget).unwrap()), "1");

    let original = message(JSON, "{\"a\":1}");
    let copy = original.copy(&budget).unwrap();
    let of = |message: &Message| message.body.bytes(&budget).unwrap().unwrap();
    assert_eq!(of(&original).as_ptr(), of(&copy).as_ptr());
    assert_eq!(copy.body.state(), BodyUse::Read);
    assert!(Body::streaming(Format::Json).share(&budget).is_err());
}

#[test]
fn any_body_can_be_logged() {
    let mut binary = message("image/png", "");
    binary.body = Body::held(Format::Binary, vec![0x89, 0x50, 0xff]);
    let ran = run("<log level=\"full\"/>", binary);
    assert!(ran.log[0].ends_with("Envelope: (3 bytes that are not text)"), "{:?}", ran.log);
}

#[test]
fn header_blocks_are_set_and_removed() {
    let set = "<header xmlns:s=\"urn:s\" name=\"s:Key\" value=\"a &lt; b\"/>";
    let (written, _) = run(set, envelope("", "<o/>")).finish();
    assert!(
        written.contains("<e:Header><s:Key xmlns:s=\"urn:s\">a &lt; b</s:Key></e:Header><e:Body>"),
        "{written}"
    );
    let two = "<e:Header><k:Key xmlns:k=\"urn:s\">1</k:Key><Key xmlns=\"urn:t\">2</Key></e:Header>";
    let remove = "<header xmlns:s=\"urn:s\" name=\"s:Key\" action=\"remove\"/>";
    let (written, _) = run(remove, envelope(two, "<o/>")).finish();
    assert!(written.contains("<e:Header><Key xmlns=\"urn:t\">2</Key></e:Header>"), "{written}");
    let embedded = "<header><w:A xmlns:w=\"urn:w\">1</w:A></header>";
    let (written, _) = run(embedded, envelope(two, "<o/>")).finish();
    assert!(written.contains("<w:A xmlns:w=\"urn:w\""), "{written}");
    assert_eq!(run(set, message(JSON, "{}")).finish().0, "{}", "there is no envelope");
    for (header, error) in [
        ("<header name=\"Key\" value=\"1\"/>", "a header block needs a namespace"),
        ("<header name=\"x:Key\" value=\"1\"/>", "the prefix `x` is not declared"),
        ("<header/>", "or header blocks as children"),
    ] {
        let (_, found) = compile(&format!("<sequence name=\"main\">{header}</sequence>"));
        assert!(found.iter().any(|text| text.contains(error)), "{found:?}");
    }
}

#[test]
fn enrich_without_a_source_goes_on() {
    for source in
        ["xpath=\"//none\"", "type=\"property\" property=\"none\"", "xpath=\"json-eval($.none)\""]
    {
        let enrich = format!("<enrich><source {source}/><target type=\"body\"/></enrich>");
        let ran = run(&enrich, message(JSON, "{\"a\":1}"));
        assert_eq!(ran.log.len(), 1, "{ran:?}");
        assert_eq!(ran.finish().0, "{\"a\":1}");
    }
}

#[test]
fn a_stylesheet_replaces_what_it_transforms() {
    let sheet = |output: &str, content: &str| {
        format!(
            "<localEntry key=\"s\"><xsl:stylesheet version=\"1.0\" xmlns:xsl=\"http://www.w3.org/1999/XSL/Transform\"><xsl:output method=\"{output}\" omit-xml-declaration=\"yes\"/>\
             <xsl:template match=\"/*\">{content}</xsl:template></xsl:stylesheet></localEntry>"
        )
    };
    let name = sheet("xml", "<n xmlns=\"\"><m><xsl:value-of select=\"name()\"/></m></n>");
    let text = sheet("text", "a &lt; <xsl:value-of select=\".\"/>");
    let xml = || message("application/xml", "<o><s>IBM</s><t/></o>");
    for (sheet, mediator, message, body) in [
        (&name, "<xslt key=\"s\"/>", xml(), "<n><m>o</m></n>"),
        (&name, "<xslt key=\"s\" source=\"//s\"/>", xml(), "<o><n><m>s</m></n><t/></o>"),
        (
            &text,
            "<xslt key=\"s\"/>",
            xml(),
            "<text xmlns=\"http://ws.apache.org/commons/ns/payload\">a &lt; IBM</text>",
        ),
        (
            &text,
            "<xslt key=\"s\"/><property name=\"messageType\" value=\"text/plain\" scope=\"axis2\"/>",
            xml(),
            "a < IBM",
        ),
        (
            &name,
            "<xslt key=\"s\" target=\"p\"/><enrich><source xpath=\"$ctx:p\"/><target xpath=\"//t\"/></enrich>",
            xml(),
            "<o><s>IBM</s><n><m>o</m></n></o>",
        ),
    ] {
        let artefacts = format!("{sheet}<sequence name=\"main\">{mediator}</sequence>");
        let ran = run_main(&artefacts, message, Budget::default());
        assert_eq!(ran.finish().0, body, "{mediator}");
    }
    let artefacts =
        format!("{name}<sequence name=\"main\"><xslt key=\"s\" source=\"$body\"/></sequence>");
    let (written, _) = run_main(&artefacts, envelope("", "<o/><o/>"), Budget::default()).finish();
    assert!(written.contains("<e:Body><m>e:Body</m></e:Body>"), "{written}");
    // In Latin-1, the same bytes as `é` in UTF-8.
    let encoded = sheet("xml\" encoding=\"ISO-8859-1", "<n xmlns=\"\">\u{c3}\u{a9}</n>");
    let artefacts = format!("{encoded}<sequence name=\"main\"><xslt key=\"s\"/></sequence>");
    let ran = run_main(&artefacts, xml(), Budget::default());
    assert_eq!(ran.finish().0, "<n>\u{c3}\u{a9}</n>");
}

#[test]
fn the_text_that_a_document_shares_with_its_body_is_charged_once() {
    const TEXT: usize = 100_000;
    let log = "<sequence name=\"main\"><log><property name=\"n\" expression=\"count(//*)\"/></log></sequence>";
    let xml = |text: &str| message("application/xml", &format!("<a>{}</a>", text.repeat(TEXT)));
    let budget = || Budget::new(1_000_000, TEXT as u64 / 2);
    let ran = run_main(log, xml("x"), budget());
    assert!(matches!(ran.outcome, Outcome::Ended), "{ran:?}");
    // Line ends are normalised in a copy, which is charged.
    let ran = run_main(log, xml("\r"), budget());
    assert!(matches!(ran.outcome, Outcome::Failed(_)), "{ran:?}");
}

#[test]
fn a_result_takes_the_place_of_the_payload_whatever_the_prefixes_of_its_envelope() {
    let sheet = "<localEntry key=\"s\"><xsl:stylesheet version=\"1.0\" xmlns:xsl=\"http://www.w3.org/1999/XSL/Transform\">\
                 <xsl:template match=\"/*\"><n xmlns=\"\"/></xsl:template></xsl:stylesheet></localEntry>\
                 <sequence name=\"main\"><xslt key=\"s\"/></sequence>";
    const SOAP: &str = "http://schemas.xmlsoap.org/soap/envelope/";
    for (start, end) in [
        (format!("<e:Envelope xmlns:e='{SOAP}'><e:Body>"), "</e:Body></e:Envelope>"),
        (format!("<Envelope xmlns='{SOAP}'><Body>"), "</Body></Envelope>"),
        (
            format!("<Envelope xmlns='{SOAP}'><e:Body xmlns:e='{SOAP}' xmlns=''>"),
            "</e:Body></Envelope>",
        ),
        (format!("<e:Envelope xmlns:e='{SOAP}'><Body xmlns='{SOAP}'>"), "</Body></e:Envelope>"),
    ] {
        let message = message("text/xml", &format!("{start}<o xmlns='u'>1</o>{end}"));
        let (written, _) = run_main(sheet, message, Budget::default()).finish();
        let document = xml::Document::parse(written.as_bytes());
        let document = document.unwrap_or_else(|error| panic!("{written}: {error}"));
        let name =
            |node: xml::Node<'_>| (node.local_name().to_owned(), node.namespace().to_owned());
        let names: Vec<_> = document.root().descendants().map(name).collect();
        let expected = [("Envelope", SOAP), ("Body", SOAP), ("n", "")];
        assert_eq!(names, expected.map(|(local, uri)| (local.into(), uri.into())), "{written}");
    }
}

#[test]
fn all_fields_can_be_removed_and_credentials_are_not_logged() {
    let with_fields = || {
        let mut message = message(JSON, "{}");
        message.head.set_field("Authorization", "Bearer x");
        message.head.set_field("X-Mine", "1");
        message
    };
    let ran = run("<log level=\"headers\"/>", with_fields());
    assert!(ran.log[0].contains("X-Mine = 1") && !ran.log[0].contains("Bearer"), "{:?}", ran.log);
    let remove = "<property name=\"TRANSPORT_HEADERS\" action=\"remove\" scope=\"axis2\"/>\
        <log level=\"headers\"/>";
    let ran = run(remove, with_fields());
    assert!(!ran.log[0].contains("X-Mine"), "{:?}", ran.log);
}

#[test]
fn a_proxy_that_does_not_start_is_not_served() {
    let proxy = "<proxy name=\"p\" startOnLoad=\"false\"><target><inSequence><respond/></inSequence>\
        </target></proxy>";
    let of_a_server = "<registry provider=\"x\"/><taskManager provider=\"x\"/>";
    let (program, diagnostics) = compile(&format!("{of_a_server}{proxy}"));
    assert!(program.proxies().is_empty(), "{diagnostics:?}");
    assert_eq!(diagnostics.len(), 1, "{diagnostics:?}");
}

#[test]
fn what_a_body_reserves_is_what_it_is_charged() {
    let budget = Budget::new(u64::MAX, 1 << 20);
    let mut body = Body::held(Format::Text, "x");
    let mut bytes = Vec::with_capacity(100_000);
    bytes.extend_from_slice(b"written");
    body.replace(Format::Text, bytes, &budget).unwrap();
    let written = body.bytes(&budget).unwrap().unwrap();
    drop(body);
    let reserved = Vec::from(written).capacity();
    assert!(
        reserved as u64 <= budget.bytes_used() + 8,
        "{reserved} bytes for {}",
        budget.bytes_used()
    );
}
