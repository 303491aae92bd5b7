//! Bodies of several parts: forms, and packages of an envelope and its attachments.

use penstock_mediation::{Body, Format};
use xpath::Budget;

use super::{JSON, SOAP, logged, message, run};

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
    // Header fields about the old bytes are removed.
    let head = "Content-Type: text/xml;\r\n\tcharset=ISO-8859-1;x=y\r\ncontent-transfer-encoding: 8bit\r\n\
                Content-Length: 7\r\n";
    let new = "Content-Type: text/xml; x=y; charset=UTF-8\r\ncontent-transfer-encoding: binary\r\n";
    let mut latin = message(PACKAGE, "");
    let bytes: Vec<u8> = package(head, "\u{e9}").chars().map(|next| next as u8).collect();
    latin.become_response(latin.head.copy(), Body::held(Format::of(PACKAGE), bytes));
    let with = "<enrich><source xpath=\"concat(//s, '!')\"/><target xpath=\"//s\"/></enrich>";
    assert_eq!(run(with, latin).finish().0, package(new, "\u{e9}!"));

    let twice = edit.replace("SUN", "x") + edit;
    let mut sent = run(&twice, message(PACKAGE, &package("", "IBM"))).message();
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

/// A name that XML does not allow becomes up to twenty times as long.
#[test]
fn names_of_fields_are_charged_for_what_they_become() {
    let name = "+".repeat(3_500_000);
    let part = "+".repeat(8_000);
    let part = format!("--B\r\nContent-Disposition: form-data; name=\"{part}\"\r\n\r\n\r\n");
    for (content_type, body) in [
        ("application/x-www-form-urlencoded", format!("{name}=1")),
        ("multipart/form-data; boundary=B", format!("{}--B--", part.repeat(500))),
    ] {
        let ran =
            run("<property name=\"a\" expression=\"count(//*)\"/>", message(content_type, &body));
        let message = &ran.failure().message;
        assert!(message.contains("it needs more than"), "{content_type}: {message}");
    }
}
