//! Messages as mediators see them: views, formats, head, budget.

mod parts;

use std::fmt::Write as _;

use crate::host::{Outcome, Ran, World, compile, drive_in, program, refuse};
use penstock_mediation::{
    Body, BodyUse, Code, Direction, Flow, Format, Message, PlainHead, PropertyScope, PropertyValue,
    Run,
};
use xpath::Budget;

const JSON: &str = "application/json";
const SOAP: &str = "text/xml; charset=UTF-8";

/// A message with this content type and body.
fn message(content_type: &str, body: &str) -> Box<Message> {
    let fields = vec![("Content-Type".to_owned(), content_type.to_owned())];
    let head = PlainHead { method: "POST".to_owned(), target: "/".to_owned(), fields };
    let body = Body::held(Format::of(content_type), body.as_bytes().to_vec());
    Message::new(Direction::Request, Box::new(head), body)
}

/// Runs the sequence `main` of the artefacts. The resulting message is the response.
#[track_caller]
fn run_main(artefacts: &str, message: Box<Message>, budget: Budget) -> Ran {
    let responds = "<sequence name=\"run\"><sequence key=\"main\"/><respond/></sequence>";
    let program = program(&format!("{artefacts}{responds}"));
    let flow = Flow { request: program.sequence("run"), ..Flow::default() };
    drive_in(&World::with_id(), Run::new(program, flow, message, budget), &refuse)
}

/// Runs mediators.
#[track_caller]
fn run(mediators: &str, message: Box<Message>) -> Ran {
    let artefacts = format!("<sequence name=\"main\">{mediators}</sequence>");
    run_main(&artefacts, message, Budget::default())
}

/// What `expression` is, as the log writes it.
#[track_caller]
fn logged(expression: &str, message: Box<Message>) -> String {
    let log =
        format!("<log level=\"custom\"><property name=\"v\" expression=\"{expression}\"/></log>");
    let ran = run(&log, message);
    assert!(matches!(ran.outcome, Outcome::Responded(_)), "{ran:?}");
    ran.log.join("\n").trim_start_matches("v = ").to_owned()
}

fn envelope(header: &str, body: &str) -> Box<Message> {
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
        ("<e:Header><r>1</r></e:Header>", &broken, "count($header/* | $header/r)", Some("1.0")),
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
fn encoded(content_type: &str, bytes: &[u8]) -> Box<Message> {
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
        let mut message = run(&(set(charset) + read), message(media, body)).message();
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
    let kept = run("<log level=\"full\"/>", latin(text, b"caf\xe9")).message();
    assert_eq!(kept.body.bytes(&Budget::default()).unwrap().unwrap(), &b"caf\xe9"[..]);
    assert_eq!(kept.head.field("Content-Type").unwrap(), text);
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
    assert_eq!(of("To", addressed()), "null");
    let to = |address: &str| {
        let block = format!("<e:Header><To xmlns=\"{wsa}\"> {address} </To></e:Header>");
        envelope(&block, "<a/>")
    };
    assert_eq!(of("To", to("urn:shop")), "urn:shop");
    assert_eq!(of("To", to("")), "null");
    assert_eq!(logged("$ctx:To", to("urn:shop")), "urn:shop");
    let sets = "<header name=\"To\" value=\"urn:own\"/><log level=\"custom\"><property name=\"a\" \
                expression=\"get-property('To')\"/></log>";
    assert_eq!(run(sets, to("urn:shop")).log, ["a = urn:own"]);
    assert_eq!(of("OperationName", addressed()), "order");
    assert_eq!(of("OperationNamespace", addressed()), "urn:o");
    assert_eq!(of("OperationName", message(JSON, "1")), "mediate");
    assert_eq!(of("MessageID", message(JSON, "1")), "urn:uuid:0");
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
        let ran = run(&property, message(JSON, "{}")).message();
        let found = ran.properties.get(PropertyScope::Synapse, "p").unwrap();
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
            format!("{}{}", factory("text", "a,b"), message_type("text/csv")),
            json_body(),
            "a,b",
            "text/csv; charset=UTF-8",
        ),
        (
            format!("{json}{}", message_type("application/vnd.api+json")),
            json_body(),
            "{\"a\":1}",
            "application/vnd.api+json; charset=UTF-8",
        ),
        (
            format!("{xml}{}", message_type("application/atom+xml")),
            json_body(),
            "<a>1</a>",
            "application/atom+xml; charset=UTF-8",
        ),
        // A body that was not written anew.
        (
            message_type("application/vnd.api+json"),
            json_body(),
            "{\"b\":[1.50]}",
            "application/vnd.api+json",
        ),
        (
            message_type("text/html"),
            message("text/plain; charset=iso-8859-1", "hi"),
            "hi",
            "text/html; charset=iso-8859-1",
        ),
        (message_type("Text/Plain"), message("text/csv", "hi"), "hi", "text/csv"),
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
fn a_message_keeps_what_was_sent_and_a_copy_shares_it() {
    let budget = Budget::default();
    let factory = "<payloadFactory media-type=\"json\"><format>{\"a\":1}</format></payloadFactory>\
                   <property name=\"messageType\" value=\"application/xml\" scope=\"axis2\"/>";
    let mut sent = run(factory, message(JSON, "{}")).message();
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
    assert!(matches!(ran.outcome, Outcome::Responded(_)), "{ran:?}");
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

#[test]
fn the_payload_is_looked_for_again_after_each_edit() {
    let budget = Budget::default();
    let name = |body: &Body| {
        let payload = body.payload(&budget).unwrap();
        payload.map_or("", xml::Node::local_name).to_owned()
    };
    for (mut message, before) in [
        (envelope("", "<a/><b/>"), "a"),
        (envelope("<h/>", "<c/><a/><b/>"), "c"),
        (message("application/xml", "<r/>"), "r"),
    ] {
        let body = &mut message.body;
        assert_eq!((name(body), name(body)), (before.to_owned(), before.to_owned()));
        for new in ["d", "e"] {
            let old = body.payload(&budget).unwrap().unwrap().id();
            let document = body.edit_xml(&budget).unwrap().unwrap();
            let made = document.create_element(xml::QNameRef::local(new)).unwrap();
            document.insert_before(old, made).unwrap();
            assert_eq!(name(body), new, "before {before}");
        }
        body.replace(Format::Xml, b"<f/>".to_vec(), &budget).unwrap();
        assert_eq!((name(body), name(body)), ("f".to_owned(), "f".to_owned()));
    }
}
