//! Sheets of several files, documents that a caller gives, messages and parameters.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[allow(dead_code, reason = "shared with the sections, which read all of it")]
mod cases;

use std::sync::Mutex;

use cases::{bare, sheet};
use xslt::{Params, Resolved, Resolver, Stylesheet};

/// Files by name, and what was said.
struct Files(&'static [(&'static str, &'static str)], Mutex<Vec<String>>);

impl Resolver for Files {
    fn read(&self, href: &str, base: &str) -> Result<Resolved, String> {
        let folder = base.rfind('/').map_or("", |end| &base[..=end]);
        let href = &[folder, href].concat();
        let found = self.0.iter().find(|(name, _)| *name == href);
        let (name, text) = found.ok_or_else(|| format!("no file {href}"))?;
        let text = if name.ends_with("xsl") { sheet(text) } else { (*text).to_owned() };
        Ok(Resolved { bytes: text.into_bytes(), uri: href.to_owned() })
    }

    fn message(&self, text: &str) {
        self.1.lock().unwrap().push(text.to_owned());
    }
}

fn run(main: &str, files: &Files, params: &Params) -> Result<String, String> {
    let sheet = Stylesheet::compile(sheet(main).as_bytes(), files).map_err(|e| e.to_string())?;
    let source = xml::Document::parse(b"<a><b/><c/></a>").unwrap();
    let mut out = Vec::new();
    let done = sheet.transform_with(&source, params, files, &mut out);
    done.map_err(|error| error.to_string())?;
    Ok(bare(&String::from_utf8(out).unwrap()))
}

#[track_caller]
fn check(main: &str, files: &'static [(&'static str, &'static str)], expected: Result<&str, &str>) {
    let got = run(main, &Files(files, Mutex::new(Vec::new())), &Params::new());
    match expected {
        Ok(expected) => assert_eq!(got.as_deref(), Ok(expected)),
        Err(expected) => assert!(got.clone().unwrap_err().contains(expected), "{got:?}"),
    }
}

const LOW: (&str, &str) = (
    "low.xsl",
    "<xsl:variable name='v' select='1'/><xsl:template match='b'>low<xsl:value-of select='$v'/></xsl:template>\
     <xsl:template match='c' priority='9'>low-c</xsl:template>",
);

#[test]
fn what_imports_wins_over_what_is_imported_and_apply_imports_goes_back_to_it() {
    check(
        "<xsl:import href='low.xsl'/><xsl:variable name='v' select='2'/>\
         <xsl:template match='/'><o><xsl:apply-templates select='a/*'/></o></xsl:template>\
         <xsl:template match='b'>[<xsl:apply-imports/>]</xsl:template>\
         <xsl:template match='c'>high-c</xsl:template>",
        &[LOW],
        Ok("<o>[low2]high-c</o>"),
    );
}

#[test]
fn what_is_included_counts_as_written_here() {
    check(
        "<xsl:template match='/'><o><xsl:apply-templates select='a/*'/></o></xsl:template>\
         <xsl:template match='c'>first</xsl:template><xsl:include href='low.xsl'/>",
        &[LOW],
        Ok("<o>low1low-c</o>"),
    );
}

#[test]
fn sheets_that_include_themselves_or_are_missing_are_refused() {
    check(
        "<xsl:include href='x.xsl'/>",
        &[("x.xsl", "<xsl:include href='x.xsl'/>")],
        Err("itself"),
    );
    check("<xsl:import href='y.xsl'/>", &[], Err("no file y.xsl"));
    check("<xsl:import href='z.xsl'/>", &[("z.xsl", "<xsl:nothing/>")], Err("z.xsl: line 1"));
}

#[test]
fn documents_come_from_the_caller_and_each_once() {
    check(
        "<xsl:template match='/'><o><xsl:value-of select=\"document('d.xml')/d\"/>\
         <xsl:value-of select=\"count(document('d.xml') | document('d.xml'))\"/></o></xsl:template>",
        &[("d.xml", "<d>x</d>")],
        Ok("<o>x1</o>"),
    );
}

#[test]
fn references_are_relative_to_the_sheet_or_document_that_they_stand_in() {
    check(
        "<xsl:import href='in/low.xsl'/><xsl:variable name='v' select=\"document('d.xml')/d\"/>\
         <xsl:template match='/'><o><xsl:apply-templates/><xsl:value-of select='$v'/>\
         <xsl:value-of select=\"name(document('', /)/*)\"/></o></xsl:template>",
        &[
            (
                "in/low.xsl",
                "<xsl:template match='a'><xsl:value-of select=\"concat($v, document('d.xml')/d)\"/>\
                 <xsl:value-of select=\"count(document('')/*/*)\"/>\
                 <xsl:value-of select=\"document(document('r.xml')/r/@href)/d\"/></xsl:template>",
            ),
            ("d.xml", "<d>outer </d>"),
            ("in/d.xml", "<d>inner </d>"),
            ("in/r.xml", "<r href='deep/d.xml'/>"),
            ("in/deep/d.xml", "<d> deep </d>"),
        ],
        Ok("<o>outer inner 1 deep outer a</o>"),
    );
}

#[test]
fn messages_are_told_and_end_the_run_when_they_say_so() {
    let files = Files(&[], Mutex::new(Vec::new()));
    let main = "<xsl:template match='/'><o/><xsl:message>one</xsl:message>\
                <xsl:message terminate='yes'>two</xsl:message></xsl:template>";
    let error = run(main, &files, &Params::new()).unwrap_err();
    assert!(error.contains("ended by xsl:message: two"), "{error}");
    assert_eq!(*files.1.lock().unwrap(), ["one", "two"]);
}

#[test]
fn parameters_of_the_sheet_take_the_values_given_and_variables_do_not() {
    let files = Files(&[], Mutex::new(Vec::new()));
    let main = "<xsl:param name='p' select='1'/><xsl:param name='q' select='2'/>\
                <xsl:variable name='v' select='3'/><xsl:template match='/'>\
                <o><xsl:value-of select=\"concat($p, $q, $v)\"/></o></xsl:template>";
    let params = Params::new().string("p", "given").string("v", "not").number("w", 1.0);
    assert_eq!(run(main, &files, &params).as_deref(), Ok("<o>given23</o>"));
}

#[test]
fn the_media_type_is_what_the_sheet_says_or_that_of_its_method() {
    for (output, expected) in [
        ("", "text/xml"),
        ("<xsl:output method='xml'/>", "text/xml"),
        ("<xsl:output method='html'/>", "text/html"),
        ("<xsl:output method='text'/>", "text/plain"),
        (
            "<xsl:output media-type='application/soap+xml'/><xsl:output method='xml'/>",
            "application/soap+xml",
        ),
    ] {
        let compiled = Stylesheet::compile(sheet(output).as_bytes(), &xslt::Refuse).unwrap();
        assert_eq!(compiled.media_type(), expected, "{output}");
    }
}

#[test]
fn the_time_of_a_run_is_the_one_given() {
    let main = "<xsl:output method='text'/><xsl:template match='/' xmlns:d='http://exslt.org/dates-and-times'>\
                <xsl:value-of select=\"concat(d:date-time(), ' ', d:day-name(), ' ', d:seconds())\"/></xsl:template>";
    let files = Files(&[], Mutex::new(Vec::new()));
    let params = Params::new().now_ms(1_236_262_029_250);
    let expected = "2009-03-05T14:07:09Z Thursday 1236262029.25";
    assert_eq!(run(main, &files, &params).as_deref(), Ok(expected));
}

#[test]
fn a_year_of_two_digits_is_of_the_century_around_the_time_given() {
    let run = |params: &Params| {
        let years = ["09", "29", "30", "009", "9"]
            .map(|year| format!("<xsl:value-of select=\"d:parse-date('{year}', 'yy')\"/>,"));
        let main = format!(
            "<xsl:output method='text'/><xsl:template match='/' xmlns:d='http://exslt.org/dates-and-times'>{}</xsl:template>",
            years.concat()
        );
        run(&main, &Files(&[], Mutex::new(Vec::new())), params)
    };
    let in_2009 = Params::new().now_ms(1_236_262_029_250);
    assert_eq!(run(&in_2009).as_deref(), Ok("2009,2029,1930,0009,0009,"));
    assert!(run(&Params::new()).unwrap_err().contains("no time was given to this run"));
}

#[test]
fn the_xml_declaration_is_what_the_sheet_says() {
    for (output, expected) in [
        ("", "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<o>\u{e9}</o>".as_bytes()),
        (
            "<xsl:output version='9'/>",
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<o>\u{e9}</o>".as_bytes(),
        ),
        ("<xsl:output omit-xml-declaration='yes'/>", "<o>\u{e9}</o>".as_bytes()),
        (
            "<xsl:output standalone='yes' encoding='ISO-8859-1'/>",
            b"<?xml version=\"1.0\" encoding=\"ISO-8859-1\" standalone=\"yes\"?>\n<o>\xe9</o>",
        ),
        ("<xsl:output method='text' encoding='ISO-8859-1'/>", b"\xe9"),
        ("<xsl:output method='text' encoding='UTF-16'/>", b"\xff\xfe\xe9\0"),
        (
            "<xsl:output method='html' encoding='UTF-16' indent='no'/>",
            b"\xff\xfe<\0o\0>\0\xe9\0<\0/\0o\0>\0",
        ),
        ("<xsl:output method='html' encoding='ISO-8859-1' indent='no'/>", b"<o>\xe9</o>"),
    ] {
        let text = format!("{output}<xsl:template match='/'><o>\u{e9}</o></xsl:template>");
        let compiled = Stylesheet::compile(sheet(&text).as_bytes(), &xslt::Refuse).unwrap();
        let source = xml::Document::parse(b"<a/>").unwrap();
        let mut out = Vec::new();
        compiled.transform(&source, &Params::new(), &mut out).unwrap();
        assert_eq!(out, expected, "{output}");
    }
}

#[test]
fn references_are_resolved_beside_the_sheet_or_the_node_that_they_stand_in() {
    check(
        "<xsl:include href='in.xsl'/><xsl:template match='/'><o><xsl:call-template name='t'/>\
         <xsl:value-of select=\"count(document('')/*/*)\"/></o></xsl:template>",
        &[(
            "in.xsl",
            "<xsl:template name='t'><xsl:value-of select=\"count(document('')/*/*)\"/>,</xsl:template>\
             <xsl:variable name='x'/><xsl:variable name='y'/>",
        )],
        Ok("<o>3,2</o>"),
    );
}

#[test]
fn a_stripped_source_keeps_its_base_its_ids_and_its_entities() {
    struct Beside;
    impl Resolver for Beside {
        fn read(&self, href: &str, base: &str) -> Result<Resolved, String> {
            let bytes = format!("<r>{href} beside {base}</r>").into_bytes();
            Ok(Resolved { uri: href.to_owned(), bytes })
        }
    }
    let text = "<!DOCTYPE a [<!ATTLIST b i ID #IMPLIED><!NOTATION g SYSTEM 'g'>\
                <!ENTITY p SYSTEM 'p.gif' NDATA g>]>\n<a> <b/> <b i='k'>v</b> </a>";
    let base_uri = Some("file:here".to_owned());
    let doctype = xml::Doctype::Read;
    let options = xml::Options { doctype, base_uri, ..Default::default() };
    let source = xml::Document::parse_with(text.as_bytes(), &options).unwrap();
    let main = "<xsl:output method='text'/><xsl:strip-space elements='*'/><xsl:template match='/'>\
                <xsl:value-of select=\"concat(count(a/node()), ' ', unparsed-entity-uri('p'), ' ', id('k'), ' ', \
                document('x', .))\"/></xsl:template>";
    let compiled = Stylesheet::compile(sheet(main).as_bytes(), &Beside).unwrap();
    let mut out = Vec::new();
    compiled.transform_with(&source, &Params::new(), &Beside, &mut out).unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), "2 p.gif v x beside file:here");
}

#[test]
fn the_uri_of_an_unparsed_entity_is_that_of_its_declaration() {
    let text = "<!DOCTYPE a [<!NOTATION g SYSTEM 'g'><!ENTITY p SYSTEM 'p.gif' NDATA g>\
                <!ENTITY q PUBLIC '-//Q' 'q.gif' NDATA g><!ENTITY r 'r'>]><a/>";
    let options = xml::Options { doctype: xml::Doctype::Read, ..Default::default() };
    let source = xml::Document::parse_with(text.as_bytes(), &options).unwrap();
    let main = "<xsl:output method='text'/><xsl:template match='/'><xsl:value-of select=\"\
                concat(unparsed-entity-uri('p'), ' ', unparsed-entity-uri('q'), ' ', unparsed-entity-uri('r'))\"/></xsl:template>";
    let compiled = Stylesheet::compile(sheet(main).as_bytes(), &xslt::Refuse).unwrap();
    let mut out = Vec::new();
    compiled.transform(&source, &Params::new(), &mut out).unwrap();
    assert_eq!(out, b"p.gif q.gif ");
}

/// `text` as a sheet with a document type in front.
fn with_subset(subset: &str, text: &str) -> String {
    format!("<!DOCTYPE xsl:stylesheet {subset}>{}", sheet(text))
}

#[test]
fn sheets_and_documents_may_declare_entities_and_ids_in_their_internal_subset() {
    const SUBSET: &str = "<!DOCTYPE d SYSTEM 'never-read.dtd' [<!ENTITY e 'entity'><!ATTLIST i k ID #IMPLIED f CDATA 'default'>]>";
    const NBSP: &str =
        "[<!ENTITY nbsp \"&#160;\"><!ENTITY each \"<xsl:for-each select='a/*'>.</xsl:for-each>\">]";
    let main = "<xsl:import href='low'/><xsl:template match='/'><o>&nbsp;<xsl:copy-of select=\"string('&nbsp;')\"/>&each;\
                <xsl:call-template name='low'/><xsl:value-of select=\"document('d')/d\"/>\
                <xsl:for-each select=\"document('d')\"><xsl:value-of select=\"id('k')/@f\"/></xsl:for-each></o></xsl:template>";
    struct Subsets;
    impl Resolver for Subsets {
        fn read(&self, href: &str, _: &str) -> Result<Resolved, String> {
            let low = "<xsl:template name='low'>,low&nbsp;,</xsl:template>";
            let text = match href {
                "low" => with_subset(NBSP, low),
                "d" => format!("{SUBSET}<d>&e;<i k='k'/></d>"),
                other => return Err(format!("{other} was asked for")),
            };
            Ok(Resolved { bytes: text.into_bytes(), uri: href.to_owned() })
        }
    }
    let compiled = Stylesheet::compile(with_subset(NBSP, main).as_bytes(), &Subsets).unwrap();
    let source = xml::Document::parse(b"<a><b/><c/></a>").unwrap();
    let mut out = Vec::new();
    compiled.transform_with(&source, &Params::new(), &Subsets, &mut out).unwrap();
    let expected = "<o>\u{a0}\u{a0}..,low\u{a0},entitydefault</o>";
    assert_eq!(bare(&String::from_utf8(out).unwrap()), expected);
}

#[test]
fn what_stands_outside_of_a_sheet_is_never_read_for_its_entities() {
    let main = "<xsl:template match='/'>&e;</xsl:template>";
    for (subset, expected) in [
        ("SYSTEM 'e.dtd'", "the entity `e` isn't declared in the document itself"),
        ("[<!ENTITY e SYSTEM 'e.xml'>]", "external"),
        ("[<!ENTITY % p SYSTEM 'p.ent'>%p;]", "entit"),
    ] {
        let files = Files(&[("e.dtd", "<!ENTITY e 'read'>"), ("e.xml", "read")], Mutex::default());
        let refused = Stylesheet::compile(with_subset(subset, main).as_bytes(), &files);
        let error = refused.unwrap_err().to_string();
        assert!(error.contains(expected), "{subset}: {error}");
    }
}

#[test]
fn what_the_entities_of_a_document_grow_to_counts_as_made() {
    let mut subset = "<!ENTITY e '0123456789abcdef'>".to_owned();
    for level in 0..12 {
        let before = if level == 0 { "e".to_owned() } else { format!("e{}", level - 1) };
        subset += &format!("<!ENTITY e{level} '&{before};&{before};'>");
    }
    struct Grows(String);
    impl Resolver for Grows {
        fn read(&self, href: &str, _: &str) -> Result<Resolved, String> {
            Ok(Resolved { bytes: self.0.clone().into_bytes(), uri: href.to_owned() })
        }
    }
    let grows = Grows(format!("<!DOCTYPE d [{subset}]><d>&e11;</d>"));
    let main = "<xsl:template match='/'><o><xsl:if test=\"document('d')\"/></o></xsl:template>";
    let run = |made_bytes: usize| {
        let compiled = Stylesheet::compile(sheet(main).as_bytes(), &grows).unwrap();
        let compiled = compiled.limited(xslt::Limits { made_bytes, ..xslt::Limits::default() });
        let source = xml::Document::parse(b"<a/>").unwrap();
        compiled.transform_with(&source, &Params::new(), &grows, &mut Vec::new())
    };
    let error = run(60_000).unwrap_err().to_string();
    assert!(error.contains("when it had made 60000 bytes"), "{error}");
    assert_eq!(run(70_000), Ok(()));
}

#[test]
fn the_fragment_of_a_reference_is_an_id_and_is_no_part_of_what_is_asked_for() {
    const D: (&str, &str) = (
        "d.xml",
        "<!DOCTYPE d [<!ATTLIST i k ID #IMPLIED>]><d><i k='one'>1</i><i k='two'>2</i></d>",
    );
    const R: (&str, &str) = ("r.xml", "<r><f>d.xml#two</f><f>d.xml#no</f><f>d.xml#one</f></r>");
    for (select, expected) in [
        ("document('d.xml#two')", Ok("2")),
        ("count(document('d.xml#two') | document('d.xml')/d/i)", Ok("2")),
        ("count(document('d.xml#no'))", Ok("0")),
        ("name(document('d.xml#')/*)", Ok("d")),
        ("document('#one', document('d.xml'))", Ok("1")),
        ("count(document('#no'))", Ok("0")),
        ("count(document(document('r.xml')/r/f))", Ok("2")),
        ("document('d.xml#xpointer(/d)')", Err("`#xpointer(/d)` isn't supported: only IDs")),
        ("document('no.xml#one')", Err("no file no.xml")),
    ] {
        let main = format!(
            "<xsl:output method='text'/><xsl:template match='/'><xsl:value-of select=\"{select}\"/></xsl:template>"
        );
        check(&main, &[D, R], expected);
    }
}

#[test]
fn what_is_wrong_with_a_global_variable_is_told_of_its_sheet_line_and_column() {
    const LOW: (&str, &str) = (
        "low.xsl",
        "<xsl:variable name='v'>\n <xsl:message terminate='yes'>no</xsl:message></xsl:variable>",
    );
    let main = "<xsl:import href='low.xsl'/>\n\n<xsl:template match='/'>\n<xsl:value-of select='$v'/></xsl:template>";
    let error = run(main, &Files(&[LOW], Mutex::default()), &Params::new()).unwrap_err();
    assert!(error.starts_with("line 4, column 1: "), "{error}");
    assert!(error.ends_with("low.xsl: line 2, column 2: ended by xsl:message: no"), "{error}");
}
