//! External subsets and external parameter entities, supplied by a resolver.

use std::cell::RefCell;

use penstock_xml::{
    Doctype, Document, EntityText, Error, ErrorKind, ExternalEntity, Limits, Options,
};

/// The files of a test: (path, content). They are resolved against `file:/`.
type Files<'f> = &'f [(&'f str, &'f str)];

fn parse(document: &str, files: Files<'_>, limits: Limits) -> Result<Document, Error> {
    let base_uri = Some("file:/main.xml".to_owned());
    let options = Options { doctype: Doctype::Read, base_uri, limits };
    let resolver = |entity: &ExternalEntity<'_>| {
        let (folder, _) = entity.base_uri.unwrap_or("file:/").rsplit_once('/').unwrap();
        let uri = format!("{folder}/{}", entity.system_id);
        match files.iter().find(|(path, _)| format!("file:/{path}") == uri) {
            Some((_, content)) => Ok(Some(EntityText::new(*content, uri))),
            None if entity.system_id == "skip" => Ok(None),
            None => Err(format!("no `{uri}`")),
        }
    };
    Document::parse_with_entities(document.as_bytes(), &options, &resolver)
}

#[track_caller]
fn check(document: &str, files: Files<'_>, expected: &str) {
    let parsed = parse(document, files, Limits::default());
    let shown = match &parsed {
        Ok(document) => document.root().string_value().into_owned(),
        Err(error) => format!("{} {}", error.position().unwrap(), describe(error.kind())),
    };
    assert_eq!(shown, expected, "{document}\n{parsed:?}");
}

/// The place in each entity on the way, and the error's first word.
fn describe(kind: &ErrorKind) -> String {
    if let ErrorKind::InEntity { entity, line, column, kind } = kind {
        return format!("{entity}:{line}:{column} {}", describe(kind));
    }
    format!("{kind:?}").split([' ', '(']).next().unwrap_or("").to_owned()
}

const MAIN: &str = "<!DOCTYPE a [<!ENTITY % p SYSTEM 'p.ent'>\n %p;]><a>&e;</a>";

#[test]
fn a_parameter_entity_brings_its_declarations() {
    check(MAIN, &[("p.ent", "<!ENTITY e 'text'>")], "text");
    check(MAIN, &[("p.ent", "<?xml encoding='UTF-8'?>\r\n<!ENTITY e 'a\r\nb'>")], "a\nb");
    check(MAIN, &[("p.ent", "<!-- 'one --><?pi it's?><!ENTITY e '100&#37;'>")], "100%");
    let nested = [
        ("p.ent", "<!ENTITY % q PUBLIC '-//q' 'sub/q.ent'>%q;"),
        ("sub/q.ent", "<!ENTITY % r SYSTEM 'r.ent'>%r;"),
        ("sub/r.ent", "<!ENTITY e 'deep'>"),
    ];
    check(MAIN, &nested, "deep");
}

#[test]
fn the_external_subset_comes_after_the_internal_one() {
    let files = [("a.dtd", "<!ENTITY e 'external'><!ENTITY f 'f'><!ATTLIST a x CDATA '100%'>")];
    check("<!DOCTYPE a SYSTEM 'a.dtd'><a>&e;</a>", &files, "external");
    check("<!DOCTYPE a SYSTEM 'a.dtd' [<!ENTITY e 'own'>]><a>&e;&f;</a>", &files, "ownf");
    let document = parse("<!DOCTYPE a PUBLIC '-//a' 'a.dtd'><a/>", &files, Limits::default());
    let document = document.unwrap();
    assert_eq!(document.element().unwrap().attribute("", "x"), Some("100%"));
}

#[test]
fn parameter_entities_are_replaced_inside_external_declarations() {
    let literal = "<!ENTITY % x 'in'><!ENTITY % y '%x;ner'><!ENTITY e '[%y;]'>";
    check(MAIN, &[("p.ent", literal)], "[inner]");
    let markup = "<!ENTITY % name 'e'><!ENTITY % model '(b|c)*'><!ENTITY %name; 'v'>\
                  <!ELEMENT a %model;><!ENTITY % att \"x CDATA 'd%model;'\"><!ATTLIST a %att;>";
    check(MAIN, &[("p.ent", markup)], "v");
    check("<!DOCTYPE a [<!ENTITY % x 'v'><!ENTITY e '%x;'>]><a/>", &[], "1:43 BadDoctype");
    check(MAIN, &[("p.ent", "<!ENTITY e '%'>")], "2:2 file:/p.ent:1:13 BadDoctype");
}

#[test]
fn conditional_sections_are_read() {
    let sections = "<!ENTITY % on 'INCLUDE'><!ENTITY % off 'IGNORE'>\
                    <![%on;[<!ENTITY e 'yes'>]]><![ %off; [<!ENTITY e 'no'><![INCLUDE[ ' ]]> junk ]]>\
                    <![INCLUDE[<![IGNORE[x]]>]]>";
    check(MAIN, &[("p.ent", sections)], "yes");
    check(MAIN, &[("p.ent", "\n<![INCLUDE[")], "2:2 file:/p.ent:2:12 BadDoctype");
    check(MAIN, &[("p.ent", "<![IGNORE[ <![ ]]>")], "2:2 file:/p.ent:1:19 BadDoctype");
    check(MAIN, &[("p.ent", "<![MAYBE[]]>")], "2:2 file:/p.ent:1:4 BadDoctype");
    check("<!DOCTYPE a [<![INCLUDE[]]>]><a/>", &[], "1:14 BadDoctype");
}

#[test]
fn errors_name_the_entity_and_the_place_in_it() {
    check(MAIN, &[], "2:2 EntityRejected");
    check("<!DOCTYPE a SYSTEM 'no'><a/>", &[], "1:1 EntityRejected");
    check("<!DOCTYPE a SYSTEM 'skip'><a>ok</a>", &[], "ok");
    check("<!DOCTYPE a [<!ENTITY % p SYSTEM 'skip'>%p;]><a/>", &[], "1:41 ExternalEntity");
    check(MAIN, &[("p.ent", "\n <!ELEMENT a")], "2:2 file:/p.ent:2:13 BadDoctype");
    check(MAIN, &[("p.ent", "<!ENTITY e 'a\u{1}'>")], "2:2 file:/p.ent:1:14 IllegalCharacter");
    check(MAIN, &[("p.ent", "<?xml version='1.0'?>")], "2:2 file:/p.ent:1:20 BadDeclaration");
    check(
        MAIN,
        &[("p.ent", "<?xml encoding='EBCDIC'?>")],
        "2:2 file:/p.ent:1:17 UnsupportedEncoding",
    );
    check(MAIN, &[("p.ent", "%no;")], "2:2 file:/p.ent:1:1 UnknownEntity");
    let nested = [("p.ent", " <!ENTITY % q SYSTEM 'q'> %q;"), ("q", "\n\n<!BAD>")];
    check(MAIN, &nested, "2:2 file:/p.ent:1:27 file:/q:3:1 BadDoctype");
    let general = "<!DOCTYPE a [<!ENTITY e SYSTEM 'p.ent'>]><a>&e;</a>";
    check(general, &[("p.ent", "text")], "1:45 ExternalEntity");
}

#[test]
fn nodes_of_an_external_entity_are_placed_at_the_reference() {
    let files = [("p.ent", "<!ENTITY e '<b/>'>")];
    let document = parse(MAIN, &files, Limits::default()).unwrap();
    let child = document.element().unwrap().first_child().unwrap();
    assert_eq!((child.local_name(), child.position().to_string().as_str()), ("b", "2:2"));
}

#[test]
fn entities_keep_to_the_limits() {
    let limits = Limits { entity_bytes: 200, declarations: 10, ..Limits::default() };
    let check = |content: &str, expected: &str| {
        let error = parse(MAIN, &[("p.ent", content)], limits).unwrap_err();
        assert_eq!(describe(error.kind()), expected, "{error}");
    };
    check(&" ".repeat(201), "Limit");
    check(&"<!---->".repeat(11), "file:/p.ent:1:71 Limit");
    check("<!ENTITY % q '%p;'>%p;", "file:/p.ent:1:15 EntityLoop");
    check(
        "<!ENTITY % q '0123456789'><!ENTITY e '%q;%q;%q;%q;%q;%q;%q;%q;%q;%q;%q;'>",
        "file:/p.ent:1:66 Limit",
    );
    let names: Vec<String> = (0..25).map(|level| format!("e{level}.ent")).collect();
    let texts: Vec<String> = (1..=25)
        .map(|level| format!("<!ENTITY % e{level} SYSTEM 'e{level}.ent'>%e{level};"))
        .collect();
    let mut chain: Vec<(&str, &str)> =
        names.iter().zip(&texts).map(|(name, text)| (name.as_str(), text.as_str())).collect();
    chain.push(("p.ent", "<!ENTITY % e0 SYSTEM 'e0.ent'>%e0;"));
    let error = parse(MAIN, &chain, Limits::default()).unwrap_err();
    assert!(describe(error.kind()).ends_with(" Limit"), "{error}");
    let sections = "<![INCLUDE[".repeat(100);
    let error = parse(MAIN, &[("p.ent", &sections)], Limits::default()).unwrap_err();
    assert_eq!(describe(error.kind()), "file:/p.ent:1:210 Limit");
}

#[test]
fn each_entity_is_requested_once_and_only_if_it_is_needed() {
    let requests = RefCell::new(Vec::new());
    let resolver = |entity: &ExternalEntity<'_>| {
        requests.borrow_mut().push(format!("{entity:?}"));
        Ok(Some(EntityText::new("<!-- -->", "file:/x")))
    };
    let text = b"<!DOCTYPE a PUBLIC '-//a' 'a.dtd' [<!ENTITY % unused SYSTEM 'no'><!ENTITY % p SYSTEM 'p'>%p;%p;]><a/>";
    let rejected = Document::parse_with_entities(text, &Options::default(), &resolver);
    assert!(matches!(rejected.unwrap_err().kind(), ErrorKind::DoctypeRejected));
    assert!(requests.borrow().is_empty());
    let options = Options { doctype: Doctype::Read, ..Options::default() };
    Document::parse_with_entities(text, &options, &resolver).unwrap();
    let requests = requests.into_inner();
    assert_eq!(requests.len(), 2, "{requests:?}");
    assert!(requests[0].contains("Some(\"p\")") && requests[1].contains("-//a"), "{requests:?}");
}
