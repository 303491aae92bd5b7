//! Documents that are accepted, and the errors of those that are rejected.

use penstock_xml::{Doctype, Document, Limits, Options, WriterOptions};

/// `ok`, or `line:column` and a part of the message.
#[track_caller]
fn check(cases: &[(&str, &str)], doctype: Doctype) {
    let options = Options { doctype, ..Options::default() };
    for (document, expected) in cases {
        let actual = match Document::parse_with(document.as_bytes(), &options) {
            Ok(_) => "ok".to_owned(),
            Err(error) => format!("{} {}", error.position().unwrap(), error.kind()),
        };
        let (place, part) = expected.split_once(' ').unwrap_or((expected, ""));
        let fits = actual == *expected
            || (actual.starts_with(&format!("{place} "))
                && !part.is_empty()
                && actual.contains(part));
        assert!(fits, "{document:?}\n  expected: {expected}\n  actual: {actual}");
    }
}

#[test]
fn elements_are_checked() {
    #[rustfmt::skip]
    check(&[
        ("<a/>", "ok"), ("<a></a>", "ok"), ("<a ></a >", "ok"), ("<a\n/>", "ok"), ("<a><b/></a>", "ok"),
        ("<_/>", "ok"), ("<é/>", "ok"), ("<a-b.c1/>", "ok"), ("<\u{10000}/>", "ok"), ("<a\u{B7}/>", "ok"),
        ("", "1:1 empty"), ("  \n", "2:1 empty"), ("<!--c-->", "1:9 empty"), ("<?p?>", "1:6 empty"),
        ("x", "1:1 outside"), ("<a/>x", "1:5 outside"), ("x<a/>", "1:1 outside"), ("<a/>&amp;", "1:5 outside"),
        ("<a/><b/>", "1:5 exactly one root"), ("<a></a><b></b>", "1:8 exactly one root"), ("<a/></a>", "1:5 has no start tag"),
        ("</a>", "1:1 has no start tag"), ("<a/><![CDATA[x]]>", "1:5 expected"),
        ("<a>", "1:4 still open"), ("<a><b></a>", "1:7 doesn't close"), ("<a></b>", "1:4 doesn't close"),
        ("<a></ab>", "1:4 doesn't close"), ("<ab></a>", "1:5 doesn't close"), ("<a></a", "1:7 ends inside"),
        ("<a></", "1:6 ends inside"), ("<a></ a>", "1:6 a name"), ("<a></a b>", "1:8 `>`"), ("<a></a/>", "1:7 `>`"),
        ("<", "1:2 ends inside"), ("<a", "1:3 ends inside"), ("<a ", "1:4 ends inside"), ("<a/", "1:4 ends inside"),
        ("< a/>", "1:2 a name"), ("<1/>", "1:2 valid XML name"), ("<-a/>", "1:2 valid XML name"), ("<.a/>", "1:2 valid XML name"),
        ("<\u{D7}/>", "1:2 valid XML name"), ("<a\u{D7}/>", "1:2 valid XML name"), ("<\u{B7}/>", "1:2 valid XML name"),
        ("<a\u{37E}/>", "1:2 valid XML name"), ("<\u{300}/>", "1:2 valid XML name"), ("<a\u{F0000}/>", "1:2 valid XML name"),
        ("<a/ >", "1:4 `>`"), ("<a/b>", "1:4 `>`"), ("<a<b/>", "1:3 a space"), ("<a><</a>", "1:5 a name"),
        ("<a>\n<b>\n</a>", "3:1 doesn't close"), ("<é>\né</x>", "2:2 doesn't close"), ("<a>\r\n\r</b>", "3:1 doesn't close"),
        ("<a$/>", "1:3 a space"), ("<a=/>", "1:3 a space"), ("<>", "1:2 a name"), ("<a>&lt</a>", "1:4 end it with"),
    ], Doctype::Reject);
}

#[test]
fn attributes_are_checked() {
    #[rustfmt::skip]
    check(&[
        ("<a b='1'/>", "ok"), ("<a b=\"1\" c='2'/>", "ok"), ("<a b = '1' />", "ok"), ("<a\nb\n=\n'1'\n/>", "ok"),
        ("<a b=''/>", "ok"), ("<a b='>'/>", "ok"), ("<a b='\"'/>", "ok"), ("<a b=\"'\"/>", "ok"), ("<a b=']]>'/>", "ok"),
        ("<a b='&lt;&#10;&#xA;&amp;'/>", "ok"), ("<a xmlnsx='1'/>", "ok"), ("<a xml='1'/>", "ok"),
        ("<a b/>", "1:5 `=`"), ("<a b=/>", "1:6 quoted"), ("<a b=1/>", "1:6 quoted"), ("<a b='1/>", "1:10 ends inside"),
        ("<a b='1\"/>", "1:11 ends inside"), ("<a b='1'c='2'/>", "1:9 a space"), ("<a 'b'/>", "1:4 a name"),
        ("<a b='<'/>", "1:7 `<` isn't allowed"), ("<a b='x<y'/>", "1:8 `<` isn't allowed"), ("<a b='&'/>", "1:7 malformed reference"),
        ("<a b='&x;'/>", "1:7 undeclared entity"), ("<a b='&#0;'/>", "1:7 isn't a character"), ("<a b='x&lt'/>", "1:8 end it with"),
        ("<a b='1' b='2'/>", "1:10 duplicate"), ("<a b='1'\n  c='2' b='3'/>", "2:9 duplicate"), ("<a b='1' B='2'/>", "ok"),
        ("<a ='1'/>", "1:4 a name"), ("<a b=='1'/>", "1:6 quoted"), ("<a b='1' /", "1:11 ends inside"), ("<a b='1' c/>", "1:11 `=`"),
        ("<a 1='1'/>", "1:4 valid XML name"), ("<a b:='1'/>", "1:4 valid XML name"), ("<a :b='1'/>", "1:4 valid XML name"),
        ("<a></a b='1'>", "1:8 `>`"), ("<a b='\u{1}'/>", "1:7 U+0001"), ("<a b='\u{FFFE}'/>", "1:7 U+FFFE"),
    ], Doctype::Reject);
}

#[test]
fn namespaces_are_checked() {
    #[rustfmt::skip]
    check(&[
        ("<a xmlns='u'/>", "ok"), ("<p:a xmlns:p='u'/>", "ok"), ("<a xmlns=''/>", "ok"), ("<a xml:lang='en'/>", "ok"),
        ("<a xmlns:p='u' p:b='1' b='2'/>", "ok"), ("<a xmlns='u' xmlns:p='u' b='1' p:b='2'/>", "ok"),
        ("<a xmlns:xml='http://www.w3.org/XML/1998/namespace'/>", "ok"), ("<xml:a/>", "ok"),
        ("<a xmlns:p='u'><p:b/><c xmlns:p='v'><p:d/></c></a>", "ok"),
        ("<p:a/>", "1:2 undeclared prefix"), ("<a p:b='1'/>", "1:4 undeclared prefix"), ("<a><b xmlns:p='u'/><p:c/></a>", "1:21 undeclared prefix"),
        ("<a xmlns:p='u' xmlns:q='u' p:b='1' q:b='2'/>", "1:36 duplicate"), ("<a xmlns:p='u' xmlns:p='u'/>", "1:16 duplicate"),
        ("<a xmlns='u' xmlns='v'/>", "1:14 duplicate"), ("<a xmlns:p=''/>", "1:4 undeclare"), ("<a xmlns:xmlns='u'/>", "1:4 reserved"),
        ("<a xmlns:xml='u'/>", "1:4 reserved"), ("<a xmlns:p='http://www.w3.org/XML/1998/namespace'/>", "1:4 reserved"),
        ("<a xmlns='http://www.w3.org/XML/1998/namespace'/>", "1:4 reserved"), ("<a xmlns='http://www.w3.org/2000/xmlns/'/>", "1:4 reserved"),
        ("<xmlns:a/>", "1:2 reserved"), ("<a:b:c xmlns:a='u'/>", "1:2 valid XML name"), ("<:a/>", "1:2 valid XML name"), ("<a:/>", "1:2 valid XML name"),
        ("<a xmlns:='u'/>", "1:4 valid XML name"), ("<a:1 xmlns:a='u'/>", "1:2 valid XML name"), ("<a><?p:q?></a>", "1:6 valid XML name"),
    ], Doctype::Reject);
}

#[test]
fn text_and_references_are_checked() {
    #[rustfmt::skip]
    check(&[
        ("<a>x</a>", "ok"), ("<a>]]</a>", "ok"), ("<a>]></a>", "ok"), ("<a>></a>", "ok"), ("<a>'\"</a>", "ok"),
        ("<a>&lt;&gt;&amp;&apos;&quot;</a>", "ok"), ("<a>&#9;&#x10FFFF;&#32;</a>", "ok"), ("<a>\u{FFFD}\u{10FFFF}\u{85}</a>", "ok"),
        ("<a>]]&gt;</a>", "ok"), ("<a>]]]</a>", "ok"), ("<a>\t\r\n</a>", "ok"), ("<a>&#x9;</a>", "ok"), ("<a>&#00065;</a>", "ok"),
        ("<a>]]></a>", "1:4 `]]>`"), ("<a>x]]>y</a>", "1:5 `]]>`"), ("<a>]]]></a>", "1:5 `]]>`"), ("<a>&</a>", "1:4 malformed reference"),
        ("<a>& b</a>", "1:4 malformed reference"), ("<a>&b</a>", "1:4 malformed reference"), ("<a>&b;</a>", "1:4 undeclared entity"), ("<a>&;</a>", "1:4 malformed reference"),
        ("<a>&#;</a>", "1:4 malformed reference"), ("<a>&#x;</a>", "1:4 isn't a character"), ("<a>&#xG;</a>", "1:4 isn't a character"), ("<a>&#X41;</a>", "1:4 isn't a character"),
        ("<a>&#0;</a>", "1:4 isn't a character"), ("<a>&#8;</a>", "1:4 isn't a character"), ("<a>&#xD800;</a>", "1:4 isn't a character"),
        ("<a>&#xFFFE;</a>", "1:4 isn't a character"), ("<a>&#x110000;</a>", "1:4 isn't a character"), ("<a>&#99999999999;</a>", "1:4 isn't a character"),
        ("<a>&#+5;</a>", "1:4 malformed reference"), ("<a>&#-5;</a>", "1:4 malformed reference"), ("<a>&#65 ;</a>", "1:4 malformed reference"), ("<a>&lt</a>", "1:4 malformed reference"),
        ("<a>&LT;</a>", "1:4 undeclared entity"), ("<a>&p:q;</a>", "1:4 malformed reference"), ("<a>&#65</a>", "1:4 malformed reference"), ("<a>&am", "1:7 ends inside"),
        ("<a>\u{0}</a>", "1:4 U+0000"), ("<a>x\u{B}</a>", "1:5 U+000B"), ("<a>\u{FFFF}</a>", "1:4 U+FFFF"), ("<a>\u{1F}", "1:4 U+001F"),
        ("<a/>\u{1}", "1:5 U+0001"), ("<a><!--\u{1}--></a>", "1:8 U+0001"), ("<a b='\n\u{1}'/>", "2:1 U+0001"), ("<\u{1}/>", "1:2 U+0001"),
    ], Doctype::Reject);
}

#[test]
fn sections_comments_and_instructions_are_checked() {
    #[rustfmt::skip]
    check(&[
        ("<a><![CDATA[]]></a>", "ok"), ("<a><![CDATA[<&]]]]></a>", "ok"), ("<a><![CDATA[]]]></a>", "ok"), ("<a><![CDATA[x]]><![CDATA[y]]></a>", "ok"),
        ("<a><![CDATA[x</a>", "1:18 ends inside"), ("<a><![CDAT[x]]></a>", "1:4 expected"), ("<a><![cdata[x]]></a>", "1:4 expected"),
        ("<a><! [CDATA[x]]></a>", "1:4 expected"), ("<a><![CDATA [x]]></a>", "1:4 expected"), ("<![CDATA[x]]>", "1:1 expected"),
        ("<!----><a/>", "ok"), ("<!-- - --><a/>", "ok"), ("<a><!--<&]]>--></a>", "ok"), ("<a/><!--x-->", "ok"), ("<a/>\n<?p q?>\n", "ok"),
        ("<!-- -- --><a/>", "1:6 `--`"), ("<!--x---><a/>", "1:6 `--`"), ("<!--><a/>", "1:10 ends inside"), ("<!--->", "1:7 ends inside"),
        ("<!-x--><a/>", "1:1 expected"), ("<a><!x></a>", "1:4 expected"), ("<a><!-", "1:7 ends inside"), ("<a><!--x", "1:9 ends inside"), ("<a><!--x-", "1:10 ends inside"),
        ("<?p?><a/>", "ok"), ("<?p q?><a/>", "ok"), ("<?p ?><a/>", "ok"), ("<?p ??><a/>", "ok"), ("<?p <&>?><a/>", "ok"), ("<?xmlx?><a/>", "ok"), ("<?xml-stylesheet href='x'?><a/>", "ok"),
        ("<??><a/>", "1:3 a name"), ("<? p?><a/>", "1:3 a name"), ("<?p", "1:4 ends inside"), ("<?p q", "1:6 ends inside"), ("<?p>q?><a/>", "1:4 a space"),
        ("<?1?><a/>", "1:3 valid XML name"), ("<?p/?><a/>", "1:4 a space"), (" <?xml version='1.0'?><a/>", "1:2 very beginning"), ("<a><?xml version='1.0'?></a>", "1:4 very beginning"),
        ("<?XML version='1.0'?><a/>", "1:3 reserved"), ("<a><?Xml?></a>", "1:6 reserved"), ("<!--x--><?xml version='1.0'?><a/>", "1:9 very beginning"),
    ], Doctype::Reject);
}

#[test]
fn declarations_are_checked() {
    #[rustfmt::skip]
    check(&[
        ("<?xml version='1.0'?><a/>", "ok"), ("<?xml version=\"1.0\" encoding='utf-8' standalone='no' ?><a/>", "ok"), ("<?xml version = '1.0'?><a/>", "ok"),
        ("<?xml version='1.0' standalone='yes'?><a/>", "ok"), ("<?xml\nversion='1.0'?>\n<a/>", "ok"), ("<?xml version='1.1'?><a/>", "ok"),
        ("<?xml?><a/>", "1:6 needs `version"), ("<?xml ?><a/>", "1:7 needs `version"), ("<?xml version='2.0'?><a/>", "1:7 version must be 1.0"), ("<?xml version='1.'?><a/>", "1:7 version must be 1.0"),
        ("<?xml encoding='UTF-8'?><a/>", "1:7 must begin with"), ("<?xml version='1.0' standalone='maybe'?><a/>", "1:21 `yes` or `no`"), ("<?xml version='1.0'encoding='UTF-8'?><a/>", "1:20 space"),
        ("<?xml version='1.0' encoding=''?><a/>", "1:21 name of an encoding"), ("<?xml version='1.0' encoding='1'?><a/>", "1:21 name of an encoding"), ("<?xml version='1.0' x='y'?><a/>", "1:21 only"),
        ("<?xml version='1.0' standalone='yes' encoding='UTF-8'?><a/>", "1:38 only"), ("<?xml version='1.0'><a/>", "1:20 space"), ("<?xml version=1.0?><a/>", "1:7 quoted"), ("<?xml version='1.0'", "1:20 ends inside"),
        ("<?xml version='1.0' encoding='EBCDIC'?><a/>", "1:31 isn't supported"), ("<?xml version='1.0' encoding='UTF-16'?><a/>", "1:1 the bytes are"),
        ("<!DOCTYPE a><a/>", "1:1 aren't accepted"), ("<!--c-->\n<!DOCTYPE a []><a/>", "2:1 aren't accepted"), ("<a/><!DOCTYPE a>", "1:5 at most one"), ("<!doctype a><a/>", "1:1 expected"),
        ("<a><!DOCTYPE a></a>", "1:4 expected"), ("<!DOC", "1:6 ends inside"), ("\u{FEFF}<a/>", "ok"), ("\u{FEFF}\u{FEFF}<a/>", "1:1 outside"),
    ], Doctype::Reject);
}

#[test]
fn document_types_are_checked() {
    #[rustfmt::skip]
    check(&[
        ("<!DOCTYPE a><a/>", "ok"), ("<!DOCTYPE a []><a/>", "ok"), ("<!DOCTYPE a [ ] ><a/>", "ok"), ("<!DOCTYPE a SYSTEM 'x'><a/>", "ok"), ("<!DOCTYPE a PUBLIC 'p' \"s\" [ ]><a/>", "ok"),
        ("<!DOCTYPE a [<!ELEMENT a EMPTY><!ELEMENT b ANY><!ELEMENT c (#PCDATA)><!ELEMENT d (#PCDATA|a)*><!ELEMENT e ((a|b)?,c+,(d*))>]><a/>", "ok"),
        ("<!DOCTYPE a [<!ATTLIST a b CDATA #IMPLIED c ID #REQUIRED d (x|y) 'x' e NOTATION (n) #FIXED 'n'>]><a/>", "ok"), ("<!DOCTYPE a [<!NOTATION n PUBLIC 'p'><!NOTATION m SYSTEM 's'>]><a/>", "ok"),
        ("<!DOCTYPE a [<!ENTITY e 'x'>]><a b='&e;'>&e;</a>", "ok"), ("<!DOCTYPE a [<!ENTITY e '<b/>'>]><a>&e;</a>", "ok"), ("<!DOCTYPE a [<!ENTITY % p '<!ENTITY e \"x\">'>%p;]><a>&e;</a>", "ok"),
        ("<!DOCTYPE a [<!-- c --><?p q?>]><a/>", "ok"), ("<!DOCTYPE a [<!ENTITY e SYSTEM 'x'>]><a/>", "ok"), ("<!DOCTYPE a [<!ENTITY e 'x'><!ENTITY e 'y<'>]><a>&e;</a>", "ok"),
        ("<!DOCTYPE a [<!ENTITY e '&#38;#38;'>]><a>&e;</a>", "ok"), ("<!DOCTYPE a [<!ENTITY e ''>]><a>&e;</a>", "ok"),
        ("<!DOCTYPE a><!DOCTYPE a><a/>", "1:13 at most one"), ("<!DOCTYPE><a/>", "1:10 space"), ("<!DOCTYPE a", "1:12 ends inside"), ("<!DOCTYPE a [", "1:14 ends inside"), ("<!DOCTYPE a []", "1:15 ends inside"),
        ("<!DOCTYPE a [<!ENTITY e 'x'>]><a>&f;</a>", "1:34 undeclared entity"), ("<!DOCTYPE a [<!ENTITY e SYSTEM 'x'>]><a>&e;</a>", "1:41 external"), ("<!DOCTYPE a [<!ENTITY e SYSTEM 'x' NDATA n>]><a>&e;</a>", "1:49 unparsed"),
        ("<!DOCTYPE a [<!ENTITY e SYSTEM 'x'>]><a b='&e;'/>", "1:44 external"), ("<!DOCTYPE a [<!ENTITY e '&e;'>]><a>&e;</a>", "1:36 refers to itself"), ("<!DOCTYPE a [<!ENTITY e '&f;'><!ENTITY f '&e;'>]><a b='&e;'/>", "1:56 refers to itself"),
        ("<!DOCTYPE a [<!ENTITY e '<b>'>]><a>&e;</b></a>", "1:36 balanced"), ("<!DOCTYPE a [<!ENTITY e '</a>'>]><a>&e;", "1:37 balanced"), ("<!DOCTYPE a [<!ENTITY e '<'>]><a>&e;</a>", "1:34 balanced"),
        ("<!DOCTYPE a [<!ENTITY e '<b/>'>]><a b='&e;'/>", "1:40 `<` isn't allowed"), ("<!DOCTYPE a [<!ENTITY e '%p;'>]><a/>", "1:26 `&#37;`"), ("<!DOCTYPE a [<!ENTITY e 'x&'>]><a/>", "1:27 malformed reference"), ("<!DOCTYPE a [<!ENTITY e x>]><a/>", "1:25 `SYSTEM`"),
        ("<!DOCTYPE a [%p;]><a/>", "1:14 undeclared entity"), ("<!DOCTYPE a [<!ENTITY % p SYSTEM 'x'>%p;]><a/>", "1:38 external"), ("<!DOCTYPE a [<!ENTITY % p '&#37;p;'>%p;]><a/>", "1:37 refers to itself"),
        ("<!DOCTYPE a [<!ELEMENT a>]><a/>", "1:25 space"), ("<!DOCTYPE a [<!ELEMENT a (b>]><a/>", "1:28 missing"), ("<!DOCTYPE a [<!ELEMENT a (b,c|d)>]><a/>", "1:30 mixed"), ("<!DOCTYPE a [<!ELEMENT a (#PCDATA|b)>]><a/>", "1:37 `)*`"), ("<!DOCTYPE a [<!ELEMENT a ()>]><a/>", "1:27 a name"),
        ("<!DOCTYPE a [<!ATTLIST a b>]><a/>", "1:27 space"), ("<!DOCTYPE a [<!ATTLIST a b CDATA>]><a/>", "1:33 space"), ("<!DOCTYPE a [<!ATTLIST a b CDATA '<'>]><a/>", "1:35 `<` isn't allowed"), ("<!DOCTYPE a [<!ATTLIST a b FOO 'x'>]><a/>", "1:28 type"),
        ("<!DOCTYPE a [<![INCLUDE[ ]]>]><a/>", "1:14 expected"), ("<!DOCTYPE a [x]><a/>", "1:14 expected"), ("<!DOCTYPE a PUBLIC 'p'><a/>", "1:23 space"), ("<!DOCTYPE a SYSTEM><a/>", "1:19 space"), ("<!DOCTYPE a PUBLIC '{' 's'><a/>", "1:23 public"),
        ("<!DOCTYPE a [<!-- -- -->]><a/>", "1:21 `--`"), ("<!DOCTYPE a [<?xml v?>]><a/>", "1:19 reserved"), ("<!DOCTYPE a []x><a/>", "1:15 `>`"), ("<!DOCTYPE a []><a/><!DOCTYPE a>", "1:20 at most one"),
    ], Doctype::Read);
}

/// Parses each document and compares its serialisation without a declaration.
#[track_caller]
fn reads_as(cases: &[(&[u8], &str)]) {
    let options = Options { doctype: Doctype::Read, ..Options::default() };
    for (document, expected) in cases {
        let shown = String::from_utf8_lossy(document);
        let parsed =
            Document::parse_with(document, &options).unwrap_or_else(|e| panic!("{shown}: {e}"));
        let plain = WriterOptions { declaration: false, ..WriterOptions::default() };
        let written = String::from_utf8(parsed.write(plain).unwrap()).unwrap();
        assert_eq!(written, *expected, "{shown}");
    }
}

#[test]
fn line_ends_and_values_are_normalised() {
    reads_as(&[
        (b"<a>\r\n\r\n\r</a>", "<a>\n\n\n</a>"),
        (b"<a>&#13;</a>", "<a>&#13;</a>"),
        (b"<a b='x\r\ny\tz\n'/>", "<a b=\"x y z \"/>"),
        (b"<a b='&#10;&#9;&#13;'/>", "<a b=\"&#10;&#9;&#13;\"/>"),
        (b"<a b=\" x  y \"/>", "<a b=\" x  y \"/>"),
        (b"<a><![CDATA[<\r\n>]]></a>", "<a>&lt;\n&gt;</a>"),
        (b"<!DOCTYPE a [<!ENTITY e 'x&#13;y'>]><a b='&e;'>&e;</a>", "<a b=\"x y\">x&#13;y</a>"),
        (
            b"<!DOCTYPE a [<!ENTITY e '<c b=\"x&#13;&#10;y\"/>'>]><a>&e;</a>",
            "<a><c b=\"x  y\"/></a>",
        ),
        (b"<!DOCTYPE a [<!ENTITY e 'x&#13;y'><!ATTLIST a b CDATA '&e;'>]><a/>", "<a b=\"x y\"/>"),
        (b"<!DOCTYPE a [<!ATTLIST a b NMTOKENS #IMPLIED>]><a b=' x \n y '/>", "<a b=\"x y\"/>"),
        (b"<!DOCTYPE a [<!ATTLIST a b CDATA #IMPLIED>]><a b=' x \n y '/>", "<a b=\" x   y \"/>"),
    ]);
}

#[test]
fn entities_and_defaults_are_expanded() {
    reads_as(&[
        (b"<!DOCTYPE a [<!ENTITY e 'x<b>y</b>z'>]><a>1&e;2</a>", "<a>1x<b>y</b>z2</a>"),
        (b"<!DOCTYPE a [<!ENTITY e 'x\ny'>]><a b='&e;'/>", "<a b=\"x y\"/>"),
        (
            b"<!DOCTYPE a [<!ENTITY e '&f;!'><!ENTITY f 'y'>]><a b='&e;'>&e;</a>",
            "<a b=\"y!\">y!</a>",
        ),
        (b"<!DOCTYPE a [<!ENTITY e '&#38;lt;'>]><a>&e;</a>", "<a>&lt;</a>"),
        (b"<!DOCTYPE a [<!ATTLIST a b CDATA 'd' c CDATA 'e'>]><a c='1'/>", "<a c=\"1\" b=\"d\"/>"),
        (b"<!DOCTYPE a [<!ATTLIST a xmlns CDATA 'u'>]><a/>", "<a xmlns=\"u\"/>"),
        (b"<!DOCTYPE a [<!ATTLIST p:a xmlns:p CDATA #FIXED 'u'>]><p:a/>", "<p:a xmlns:p=\"u\"/>"),
    ]);
}

#[test]
fn encodings_are_detected() {
    fn utf16(text: &str, unit: impl Fn(u16) -> [u8; 2]) -> Vec<u8> {
        text.encode_utf16().flat_map(unit).collect()
    }
    reads_as(&[
        ("\u{FEFF}<a>é</a>".as_bytes(), "<a>é</a>"),
        (&utf16("\u{FEFF}<a>é\u{10000}</a>", u16::to_le_bytes), "<a>é\u{10000}</a>"),
        (&utf16("\u{FEFF}<a>é</a>", u16::to_be_bytes), "<a>é</a>"),
        (&utf16("<?xml version='1.0' encoding='UTF-16'?><a>é</a>", u16::to_be_bytes), "<a>é</a>"),
        (&utf16("<?xml version='1.0' encoding='utf-16le'?><a>é</a>", u16::to_le_bytes), "<a>é</a>"),
        (b"<?xml version='1.0' encoding='ISO-8859-1'?><a>\xE9</a>", "<a>é</a>"),
        (b"<?xml version='1.0' encoding='windows-1252'?><a>\x80\xE9</a>", "<a>€é</a>"),
        (b"<?xml version='1.0' encoding='us-ascii'?><a>x</a>", "<a>x</a>"),
    ]);
    let rejected: &[(&[u8], &str)] = &[
        (b"<a>\n\xE9</a>", "line 2, column 1: the bytes aren't valid UTF-8"),
        (b"<a\xE9", "line 1, column 3: the bytes aren't valid UTF-8"),
        (
            b"<?xml version='1.0' encoding='US-ASCII'?><a>\xE9</a>",
            "line 1, column 45: the bytes aren't valid US-ASCII",
        ),
        (
            b"<?xml version='1.0' encoding='cp1252'?><a>\x81</a>",
            "line 1, column 43: the bytes aren't valid windows-1252",
        ),
        (b"\xFE\xFF\0<\0a\0/\0>\0", "line 1, column 5: the bytes aren't valid UTF-16"),
        (b"\xFF\xFE<\0a\0\0\xD8>\0", "line 1, column 3: the bytes aren't valid UTF-16"),
        (
            b"\xFF\xFE\0\0<\0\0\0",
            "line 1, column 1: the encoding `UTF-32` isn't supported; send UTF-8, UTF-16, ISO-8859-1, US-ASCII or windows-1252",
        ),
    ];
    for (bytes, expected) in rejected {
        let error = Document::parse(bytes).expect_err("is rejected");
        assert_eq!(error.to_string(), *expected);
    }
}

#[test]
fn hostile_documents_exceed_a_limit() {
    let laughs: String = (0..20)
        .map(|n| format!("<!ENTITY e{} '{}'>", n + 1, format!("&e{n};").repeat(10)))
        .collect();
    let laughs = format!("<!DOCTYPE a [<!ENTITY e0 'lol'>{laughs}]><a");
    let blowup = format!(
        "<!DOCTYPE a [<!ENTITY e '{}'>]><a>{}</a>",
        "x".repeat(50_000),
        "&e;".repeat(50_000)
    );
    let many: String = (0..1_000_000).map(|n| format!(" a{n}=''")).collect();
    let bindings: String = (0..1_000_000).map(|n| format!(" xmlns:a{n}='u'")).collect();
    let defaults: String =
        (0..1_000).map(|n| format!(" b{n} CDATA '{}'", "x".repeat(1_000))).collect();
    #[rustfmt::skip]
    let cases = [
        (format!("{laughs}>&e20;</a>"), "entities"), (format!("{laughs} b='&e20;'/>"), "entities"), (blowup, "entities and defaults"),
        ("<a>".repeat(1_000_000), "nested elements"), ("<a><b>".repeat(500_000), "nested elements"),
        (format!("<a{many}/>"), "attributes per element"), (format!("<a{bindings}/>"), "attributes per element"),
        (format!("<{}/>", "a".repeat(1_000_000)), "bytes per name"), (format!("<a {}='1'/>", "a".repeat(1_000_000)), "bytes per name"),
        (format!("<!DOCTYPE a [<!ATTLIST a {defaults}>]><a>{}</a>", "<a/>".repeat(100_000)), "entities and defaults"),
        (format!("<!DOCTYPE a [{}]><a/>", "<!ENTITY e 'x'>".repeat(10_000)), "declarations"),
        (format!("<!DOCTYPE a [<!ELEMENT a {}]><a/>", "(".repeat(1_000_000)), "nested groups"),
    ];
    let options = Options { doctype: Doctype::Read, ..Options::default() };
    for (document, what) in cases {
        let error = Document::parse_with(document.as_bytes(), &options).expect_err(what);
        assert!(
            error.to_string().contains(what) && error.to_string().contains("limit"),
            "{what}: {error}"
        );
    }
    let small = Limits { bytes: 100, nodes: 5, ..Limits::default() };
    let options = Options { limits: small, ..Options::default() };
    for (document, what) in [
        ("<a>x</a>".repeat(20), "bytes per document"),
        ("<a><b/><b/><b/><b/><b/></a>".to_owned(), "nodes"),
    ] {
        let error = Document::parse_with(document.as_bytes(), &options).expect_err(what);
        assert!(error.to_string().contains(what), "{what}: {error}");
    }
}

#[test]
fn a_limit_of_nodes_is_exceeded_at_the_same_place_on_the_fast_path() {
    let row = "<row id=\"1\" to=\"2\"><a>one</a><b>two</b>three<c/><d></d>\n</row>";
    let document = format!("<rows>{}</rows>", row.repeat(4));
    let parse = |nodes, name_bytes| {
        let limits = Limits { nodes, name_bytes, ..Limits::default() };
        let options = Options { limits, ..Options::default() };
        let parsed = Document::parse_with(document.as_bytes(), &options);
        parsed.map(|document| document.root().string_value().into_owned())
    };
    for nodes in 0..60 {
        // The fast path takes names of more than 30 bytes.
        assert_eq!(parse(nodes, Limits::default().name_bytes), parse(nodes, 30), "{nodes} nodes");
    }
    assert!(parse(44, 30).is_err() && parse(59, 30).is_ok());
}

#[test]
fn higher_limits_allow_deep_and_wide_documents() {
    let limits = Limits { depth: 1_000_000, attributes: 1_000_000, ..Limits::default() };
    let options = Options { limits, ..Options::default() };
    let deep = format!("{}{}", "<a>".repeat(1_000_000), "</a>".repeat(1_000_000));
    let wide: String = (0..1_000_000).map(|n| format!(" a{n}=''")).collect();
    for document in [deep, format!("<a{wide}/>")] {
        let parsed = Document::parse_with(document.as_bytes(), &options).unwrap();
        assert!(
            parsed.root().descendants().flat_map(|node| node.attributes().chain([node])).count()
                > 999_999
        );
        assert_eq!(parsed.root().string_value(), "");
    }
}
