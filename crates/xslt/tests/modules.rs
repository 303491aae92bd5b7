//! Stylesheets of several modules, other documents, messages and parameters.

use crate::cases;

use std::sync::Mutex;

use cases::{bare, sheet};
use xslt::ErrorKind::{
    self, Invalid, Limit, Parameter, Resource, Terminated, Transform, Unsupported,
};
use xslt::{Budget, Error, NoResolver, Options, Params, Resolver, Resource as Found, Stylesheet};

/// Files by name, and messages.
struct Files(&'static [(&'static str, &'static str)], Mutex<Vec<String>>);

impl Resolver for Files {
    fn read(&self, href: &str, base: &str) -> Result<Found, String> {
        let folder = base.rfind('/').map_or("", |end| &base[..=end]);
        let href = &[folder, href].concat();
        let found = self.0.iter().find(|(name, _)| *name == href);
        let (name, text) = found.ok_or_else(|| format!("no file {href}"))?;
        let text = if name.ends_with("xsl") { sheet(text) } else { (*text).to_owned() };
        Ok(Found { bytes: text.into_bytes(), uri: href.to_owned() })
    }

    fn message(&self, text: &str) {
        self.1.lock().unwrap().push(text.to_owned());
    }
}

const SOURCE: &str = "<a><b/><c/></a>";

fn run(main: &str, options: &Options<'_>, files: &Files) -> Result<String, Error> {
    let sheet = Stylesheet::compile(sheet(main).as_bytes(), files)?;
    let source = xml::Document::parse(SOURCE.as_bytes()).unwrap();
    let mut out = Vec::new();
    sheet.transform_with(&source, &options.resolver(files), &Budget::default(), &mut out)?;
    Ok(bare(&String::from_utf8(out).unwrap()))
}

#[track_caller]
fn check(
    main: &str,
    files: &'static [(&'static str, &'static str)],
    expected: Result<&str, ErrorKind>,
) {
    let got = run(main, &Options::new(), &Files(files, Mutex::default()));
    assert_eq!(got.as_deref().map_err(|error| error.kind), expected, "{got:?}");
}

const LOW: (&str, &str) = (
    "low.xsl",
    "<xsl:variable name='v' select='1'/><xsl:template match='b'>low<xsl:value-of select='$v'/></xsl:template>\
     <xsl:template match='c' priority='9'>low-c</xsl:template>",
);

#[test]
fn importing_modules_take_precedence_and_apply_imports_uses_the_imported_rule() {
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
fn included_modules_have_the_precedence_of_the_including_one() {
    check(
        "<xsl:template match='/'><o><xsl:apply-templates select='a/*'/></o></xsl:template>\
         <xsl:template match='c'>first</xsl:template><xsl:include href='low.xsl'/>",
        &[LOW],
        Ok("<o>low1low-c</o>"),
    );
}

#[test]
fn modules_that_include_themselves_or_are_missing_are_rejected() {
    check("<xsl:include href='x.xsl'/>", &[("x.xsl", "<xsl:include href='x.xsl'/>")], Err(Invalid));
    check("<xsl:import href='y.xsl'/>", &[], Err(Resource));
    check("<xsl:import href='z.xsl'/>", &[("z.xsl", "<xsl:nothing/>")], Err(Unsupported));
}

#[test]
fn documents_come_from_the_resolver_and_are_read_once() {
    check(
        "<xsl:template match='/'><o><xsl:value-of select=\"document('d.xml')/d\"/>\
         <xsl:value-of select=\"count(document('d.xml') | document('d.xml'))\"/></o></xsl:template>",
        &[("d.xml", "<d>x</d>")],
        Ok("<o>x1</o>"),
    );
}

#[test]
fn references_are_relative_to_the_module_or_document_that_contains_them() {
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
fn messages_are_passed_on_and_may_terminate_the_run() {
    let files = Files(&[], Mutex::default());
    let main = "<xsl:template match='/'><o/><xsl:message>one</xsl:message>\
                \n<xsl:message terminate='yes'>two</xsl:message></xsl:template>";
    let error = run(main, &Options::new(), &files).unwrap_err();
    assert_eq!((error.kind, error.line, error.column), (Terminated, 2, 1), "{error}");
    assert_eq!(*files.1.lock().unwrap(), ["one", "two"]);
}

#[test]
fn a_parameter_may_be_nodes_and_the_result_a_document() {
    let sheet = "<xsl:stylesheet version='1.0' xmlns:xsl='http://www.w3.org/1999/XSL/Transform'>\
        <xsl:output method='text'/><xsl:param name='p'/><xsl:template match='/'>\
        <o n='{count($p)}'><xsl:copy-of select='$p[2]'/><xsl:value-of select='a'/></o></xsl:template></xsl:stylesheet>";
    let sheet = Stylesheet::compile(sheet.as_bytes(), &NoResolver).unwrap();
    let source = xml::Document::parse(b"<a>text</a>").unwrap();
    let others = xml::Document::parse(b"<x><y/><z c='d'/></x>").unwrap();
    let all: Vec<_> = others.element().unwrap().children().collect();
    let nodes = [("p".to_owned(), all)];
    let options = Options::new().nodes(&nodes);
    let made = sheet.transform_to_document(&source, &options, &Budget::default()).unwrap();
    let plain = xml::WriterOptions { declaration: false, ..Default::default() };
    let written = String::from_utf8(made.write(plain).unwrap()).unwrap();
    assert_eq!(written, "<o n=\"2\"><z c=\"d\"/>text</o>");
    let unknown = [("q".to_owned(), Vec::new())];
    let options = Options::new().nodes(&unknown);
    let error = sheet.transform_to_document(&source, &options, &Budget::default()).unwrap_err();
    assert_eq!(error.kind, Parameter, "{error}");
}

#[test]
fn parameters_take_the_values_given_and_unknown_ones_are_errors() {
    let files = Files(&[], Mutex::default());
    let main = "<xsl:param name='p' select='1'/><xsl:param name='q' select='2'/>\
                <xsl:variable name='v' select='3'/><xsl:template match='/'>\
                <o><xsl:value-of select=\"concat($p, $q, $v)\"/></o></xsl:template>";
    let run = |params: Params| run(main, &Options::new().params(&params), &files);
    assert_eq!(run(Params::new().string("p", "given")).as_deref(), Ok("<o>given23</o>"));
    for name in ["w", "v", "{urn:x}p"] {
        let error = run(Params::new().number(name, 1.0)).unwrap_err();
        assert_eq!((error.kind, error.line), (Parameter, 0), "{error}");
        assert!(error.message.contains(name) && error.message.contains("p, q"), "{error}");
    }
}

#[test]
fn the_media_type_defaults_to_that_of_the_method() {
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
        let compiled = Stylesheet::compile(sheet(output).as_bytes(), &NoResolver).unwrap();
        assert_eq!(compiled.media_type(), expected, "{output}");
    }
}

#[test]
fn the_time_of_a_run_is_the_one_given() {
    let main = "<xsl:output method='text'/><xsl:template match='/' xmlns:d='http://exslt.org/dates-and-times'>\
                <xsl:value-of select=\"concat(d:date-time(), ' ', d:day-name(), ' ', d:seconds())\"/></xsl:template>";
    let files = Files(&[], Mutex::default());
    let options = Options::new().now_ms(1_236_262_029_250);
    let expected = "2009-03-05T14:07:09Z Thursday 1236262029.25";
    assert_eq!(run(main, &options, &files).as_deref(), Ok(expected));
}

#[test]
fn a_two_digit_year_is_in_the_century_around_the_time_given() {
    let run = |options: &Options<'_>| {
        let years = ["09", "29", "30", "009", "9"]
            .map(|year| format!("<xsl:value-of select=\"d:parse-date('{year}', 'yy')\"/>,"));
        let main = format!(
            "<xsl:output method='text'/><xsl:template match='/' xmlns:d='http://exslt.org/dates-and-times'>{}</xsl:template>",
            years.concat()
        );
        run(&main, options, &Files(&[], Mutex::default()))
    };
    let in_2009 = Options::new().now_ms(1_236_262_029_250);
    assert_eq!(run(&in_2009).as_deref(), Ok("2009,2029,1930,0009,0009,"));
    assert_eq!(run(&Options::new()).unwrap_err().kind, Transform);
}

#[test]
fn the_xml_declaration_follows_the_output_declaration() {
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
        let compiled = Stylesheet::compile(sheet(&text).as_bytes(), &NoResolver).unwrap();
        let source = xml::Document::parse(b"<a/>").unwrap();
        let mut out = Vec::new();
        compiled.transform(&source, &Params::new(), &mut out).unwrap();
        assert_eq!(out, expected, "{output}");
    }
}

#[test]
fn an_empty_reference_is_the_module_that_contains_it() {
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
        fn read(&self, href: &str, base: &str) -> Result<Found, String> {
            let bytes = format!("<r>{href} beside {base}</r>").into_bytes();
            Ok(Found { uri: href.to_owned(), bytes })
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
    let options = Options::new().resolver(&Beside);
    compiled.transform_with(&source, &options, &Budget::default(), &mut out).unwrap();
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
    let compiled = Stylesheet::compile(sheet(main).as_bytes(), &NoResolver).unwrap();
    let mut out = Vec::new();
    compiled.transform(&source, &Params::new(), &mut out).unwrap();
    assert_eq!(out, b"p.gif q.gif ");
}

/// A stylesheet with a document type.
fn with_subset(subset: &str, text: &str) -> String {
    format!("<!DOCTYPE xsl:stylesheet {subset}>{}", sheet(text))
}

#[test]
fn the_internal_subset_of_stylesheets_and_documents_is_read() {
    const SUBSET: &str = "<!DOCTYPE d SYSTEM 'never-read.dtd' [<!ENTITY e 'entity'><!ATTLIST i k ID #IMPLIED f CDATA 'default'>]>";
    const NBSP: &str =
        "[<!ENTITY nbsp \"&#160;\"><!ENTITY each \"<xsl:for-each select='a/*'>.</xsl:for-each>\">]";
    let main = "<xsl:import href='low'/><xsl:template match='/'><o>&nbsp;<xsl:copy-of select=\"string('&nbsp;')\"/>&each;\
                <xsl:call-template name='low'/><xsl:value-of select=\"document('d')/d\"/>\
                <xsl:for-each select=\"document('d')\"><xsl:value-of select=\"id('k')/@f\"/></xsl:for-each></o></xsl:template>";
    struct Subsets;
    impl Resolver for Subsets {
        fn read(&self, href: &str, _: &str) -> Result<Found, String> {
            let low = "<xsl:template name='low'>,low&nbsp;,</xsl:template>";
            let text = match href {
                "low" => with_subset(NBSP, low),
                "d" => format!("{SUBSET}<d>&e;<i k='k'/></d>"),
                other => return Err(format!("{other} was requested")),
            };
            Ok(Found { bytes: text.into_bytes(), uri: href.to_owned() })
        }
    }
    let compiled = Stylesheet::compile(with_subset(NBSP, main).as_bytes(), &Subsets).unwrap();
    let source = xml::Document::parse(b"<a><b/><c/></a>").unwrap();
    let mut out = Vec::new();
    let options = Options::new().resolver(&Subsets);
    compiled.transform_with(&source, &options, &Budget::default(), &mut out).unwrap();
    let expected = "<o>\u{a0}\u{a0}..,low\u{a0},entitydefault</o>";
    assert_eq!(bare(&String::from_utf8(out).unwrap()), expected);
}

#[test]
fn external_subsets_and_external_general_entities_are_not_read() {
    let main = "<xsl:template match='/'>&e;</xsl:template>";
    for subset in ["SYSTEM 'e.dtd'", "[<!ENTITY e SYSTEM 'e.xml'>]"] {
        let files = Files(&[("e.dtd", "<!ENTITY e 'read'>"), ("e.xml", "read")], Mutex::default());
        let rejected = Stylesheet::compile(with_subset(subset, main).as_bytes(), &files);
        let error = rejected.unwrap_err();
        assert_eq!((error.kind, error.line), (Invalid, 1), "{subset}: {error}");
    }
}

#[test]
fn external_parameter_entities_are_read_through_the_resolver() {
    let main = "<xsl:import href='in/low.xsl'/><xsl:template match='/'><o>&e;<xsl:call-template name='low'/></o></xsl:template>";
    let subset = "[<!ENTITY % p SYSTEM 'in/p.ent'>%p;]";
    const FILES: &[(&str, &str)] = &[
        ("in/p.ent", "<!ENTITY % q SYSTEM 'q.ent'>%q;"),
        ("in/q.ent", "<!ENTITY e 'read '>"),
        (
            "in/low.xsl",
            "<!DOCTYPE xsl:stylesheet [<!ENTITY % q SYSTEM 'q.ent'>%q;]><xsl:stylesheet version=\"1.0\" \
             xmlns:xsl=\"http://www.w3.org/1999/XSL/Transform\"><xsl:template name='low'>&e;</xsl:template></xsl:stylesheet>",
        ),
    ];
    let files = Files(FILES, Mutex::default());
    let compiled = Stylesheet::compile(with_subset(subset, main).as_bytes(), &files).unwrap();
    let source = xml::Document::parse(SOURCE.as_bytes()).unwrap();
    let mut out = Vec::new();
    compiled.transform(&source, &Params::new(), &mut out).unwrap();
    assert_eq!(bare(&String::from_utf8(out).unwrap()), "<o>read read </o>");
    let rejected = Stylesheet::compile(with_subset(subset, main).as_bytes(), &NoResolver);
    assert_eq!(rejected.unwrap_err().kind, Resource);
}

#[test]
fn the_entities_of_a_document_are_charged() {
    let mut subset = "<!ENTITY e '0123456789abcdef'>".to_owned();
    for level in 0..12 {
        let before = if level == 0 { "e".to_owned() } else { format!("e{}", level - 1) };
        subset += &format!("<!ENTITY e{level} '&{before};&{before};'>");
    }
    struct Grows(String);
    impl Resolver for Grows {
        fn read(&self, href: &str, _: &str) -> Result<Found, String> {
            Ok(Found { bytes: self.0.clone().into_bytes(), uri: href.to_owned() })
        }
    }
    let grows = Grows(format!("<!DOCTYPE d [{subset}]><d>&e11;</d>"));
    let main = "<xsl:template match='/'><o><xsl:if test=\"document('d')\"/></o></xsl:template>";
    let compiled = Stylesheet::compile(sheet(main).as_bytes(), &grows).unwrap();
    let source = xml::Document::parse(b"<a/>").unwrap();
    let run = |bytes: u64| {
        let (options, budget) = (Options::new().resolver(&grows), Budget::new(100_000, bytes));
        compiled.transform_with(&source, &options, &budget, &mut Vec::new())
    };
    assert_eq!(run(60_000).unwrap_err().kind, Limit);
    assert_eq!(run(1_000_000), Ok(()));
}

#[test]
fn the_fragment_of_a_reference_is_an_id_and_is_not_passed_to_the_resolver() {
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
        ("document('d.xml#xpointer(/d)')", Err(Transform)),
        ("document('no.xml#one')", Err(Resource)),
    ] {
        let main = format!(
            "<xsl:output method='text'/><xsl:template match='/'><xsl:value-of select=\"{select}\"/></xsl:template>"
        );
        check(&main, &[D, R], expected);
    }
}

#[test]
fn an_error_in_a_global_variable_is_reported_with_its_module_line_and_column() {
    const LOW: (&str, &str) = (
        "low.xsl",
        "<xsl:variable name='v'>\n <xsl:message terminate='yes'>no</xsl:message></xsl:variable>",
    );
    let main = "<xsl:import href='low.xsl'/>\n\n<xsl:template match='/'>\n<xsl:value-of select='$v'/></xsl:template>";
    let error = run(main, &Options::new(), &Files(&[LOW], Mutex::default())).unwrap_err();
    assert_eq!((error.kind, error.line, error.column), (Terminated, 2, 2), "{error}");
    assert_eq!(error.uri, "low.xsl");
}

#[test]
fn errors_of_the_resolver_are_reported_as_such() {
    let main =
        "<xsl:template match='/'>\n<xsl:copy-of select=\"document('no.xml')\"/></xsl:template>";
    let error = run(main, &Options::new(), &Files(&[], Mutex::default())).unwrap_err();
    assert_eq!((error.kind, error.line), (Resource, 2), "{error}");
}

#[test]
fn imports_come_before_all_other_elements() {
    const FILES: &[(&str, &str)] = &[LOW];
    for before in ["<xsl:output/>", "<xsl:include href='low.xsl'/>", "<x:x xmlns:x='urn:x'/>"] {
        let main = format!("{before}\n<xsl:import href='low.xsl'/>");
        let error = run(&main, &Options::new(), &Files(FILES, Mutex::default())).unwrap_err();
        assert_eq!((error.kind, error.line, error.column), (Invalid, 2, 1), "{error}");
    }
    let main = "<!-- first --><xsl:import href='low.xsl'/><xsl:import href='low.xsl'/><xsl:template match='a'><o/></xsl:template>";
    check(main, FILES, Ok("<o/>"));
}

#[test]
fn a_relative_reference_beside_an_empty_node_set_names_nothing() {
    let main = "<xsl:output method='text'/><xsl:template match='/'>\
                <xsl:value-of select=\"count(document('d.xml', /..))\"/>\
                <xsl:value-of select=\"count(document('urn:d', /..))\"/></xsl:template>";
    check(main, &[("d.xml", "<d/>"), ("urn:d", "<d/>")], Ok("01"));
}

#[test]
fn the_prefix_xml_and_its_namespace_belong_together() {
    let xml = "http://www.w3.org/XML/1998/namespace";
    let main = format!(
        "<xsl:template match='/'><o><xsl:attribute name='space' namespace='{xml}'>preserve</xsl:attribute>\
         <xsl:attribute name='xml:a' namespace='urn:a'>1</xsl:attribute>\
         <xsl:element name='p:e' namespace='{xml}'/><xsl:element name='xml:e' namespace='urn:e'/></o></xsl:template>"
    );
    let made = run(&main, &Options::new(), &Files(&[], Mutex::default())).unwrap();
    let document = xml::Document::parse(made.as_bytes()).unwrap();
    let root = document.element().unwrap();
    assert_eq!(root.attribute(xml, "space"), Some("preserve"), "{made}");
    assert_eq!(root.attribute("urn:a", "a"), Some("1"), "{made}");
    let names: Vec<_> = root.children().map(|e| (e.namespace(), e.local_name())).collect();
    assert_eq!(names, [(xml, "e"), ("urn:e", "e")], "{made}");
}

#[test]
fn current_is_not_allowed_in_patterns() {
    for text in [
        "<xsl:template match='b[current()]'/>",
        "<xsl:key name='k' match='b[. = current()]' use='.'/>",
        "<xsl:template match='/'><xsl:number count='b[current()]'/></xsl:template>",
    ] {
        let error = run(text, &Options::new(), &Files(&[], Mutex::default())).unwrap_err();
        assert_eq!((error.kind, error.line), (Invalid, 1), "{text}");
        assert!(error.message.contains("current()"), "{error}");
    }
    check(
        "<xsl:key name='k' match='b' use='current()'/><xsl:template match='/'><o/></xsl:template>",
        &[],
        Ok("<o/>"),
    );
}

#[test]
fn harmless_attributes_are_accepted() {
    check(
        "<xsl:template match='/'><o xsl:if='a'><xsl:call-template name='t'/></o></xsl:template>\
         <xsl:template name='t' priority='2'>t</xsl:template>",
        &[],
        Ok("<o>t</o>"),
    );
}

#[test]
fn a_fragment_has_an_object_type_of_its_own_until_it_is_converted() {
    check(
        "<xsl:output method='text'/><xsl:variable name='f'><p/></xsl:variable>\
         <xsl:template match='/' xmlns:x='http://exslt.org/common'>\
         <xsl:value-of select=\"concat(x:object-type($f), ' ', x:object-type(x:node-set($f)), ' ', x:object-type(/))\"/>\
         </xsl:template>",
        &[],
        Ok("RTF node-set node-set"),
    );
}

#[test]
fn replacements_are_copied_into_the_result() {
    check(
        "<xsl:template match='/' xmlns:s='http://exslt.org/strings'><o>\
         <xsl:copy-of select=\"s:replace('1, 2, 3', ', ', a/b)\"/>|\
         <xsl:copy-of select=\"s:replace('x-y', '-', '+')\"/></o></xsl:template>",
        &[],
        Ok("<o xmlns:s=\"http://exslt.org/strings\">1<b/>2<b/>3|x+y</o>"),
    );
}

#[test]
fn years_with_superfluous_zeros_are_invalid_and_durations_may_be_long() {
    check(
        "<xsl:output method='text'/><xsl:template match='/' xmlns:d='http://exslt.org/dates-and-times'>\
         <xsl:value-of select=\"concat(d:year('02001-02-03'), ' ', d:year('12001-02-03'), ' ', d:year('0001-02-03'), ' ', \
         d:duration(31536000000000), ' ', d:seconds('P365000000D'))\"/></xsl:template>",
        &[],
        Ok("NaN 12001 1 P365000000D 31536000000000"),
    );
}
