//! Editing trees, and writing them.

use penstock_xml::{
    Builder, DoctypeIds, Document, Encoding, Error, ErrorKind, Kind, Node, NodeId, QNameRef, Sink,
    Writer, WriterOptions,
};

fn parse(text: &str) -> Document {
    Document::parse(text.as_bytes()).unwrap()
}

fn plain() -> WriterOptions {
    WriterOptions { declaration: false, ..WriterOptions::default() }
}

fn written(document: &Document) -> String {
    String::from_utf8(document.write(plain()).unwrap()).unwrap()
}

/// The first element or attribute with that local name.
fn find(document: &Document, name: &str) -> NodeId {
    let all = document
        .root()
        .descendants()
        .flat_map(|node| std::iter::once(node).chain(node.attributes()));
    let found = all.into_iter().find(|node| node.local_name() == name);
    found.map(Node::id).unwrap_or_else(|| document.root().id())
}

type Change = fn(&mut Document) -> Result<(), Error>;

#[track_caller]
fn check(before: &str, change: Change, after: Result<&str, ErrorKind>) {
    let mut document = parse(before);
    let result = change(&mut document);
    match after {
        Ok(after) => {
            assert_eq!(result, Ok(()));
            assert_eq!(written(&document), after);
        }
        Err(error) => {
            assert_eq!(result.map_err(Error::into_kind), Err(error));
            assert_eq!(written(&document), before, "a rejected edit changes nothing");
        }
    }
    consistent(&document);
}

/// All links are consistent, and document order agrees with traversal.
#[track_caller]
fn consistent(document: &Document) {
    let all: Vec<_> =
        std::iter::once(document.root()).chain(document.root().descendants()).collect();
    for node in &all {
        let forward: Vec<_> = node.children().collect();
        let mut back: Vec<_> =
            std::iter::successors(node.last_child(), |n| n.previous_sibling()).collect();
        back.reverse();
        assert_eq!(forward, back);
        assert!(forward.iter().all(|child| child.parent() == Some(*node)));
    }
    for (at, one) in all.iter().enumerate() {
        for (other_at, other) in all.iter().enumerate() {
            assert_eq!(one.document_order(*other), at.cmp(&other_at));
        }
    }
}

#[test]
fn nodes_are_moved_created_and_removed() {
    let doc = "<a><b>1</b><c x=\"1\" y=\"2\"><d/></c><e/></a>";
    check(doc, |d| d.detach(find(d, "b")), Ok("<a><c x=\"1\" y=\"2\"><d/></c><e/></a>"));
    check(doc, |d| d.detach(find(d, "c")), Ok("<a><b>1</b><e/></a>"));
    check(doc, |d| d.detach(find(d, "e")), Ok("<a><b>1</b><c x=\"1\" y=\"2\"><d/></c></a>"));
    check(doc, |d| d.detach(find(d, "x")), Ok("<a><b>1</b><c y=\"2\"><d/></c><e/></a>"));
    check(
        doc,
        |d| d.append(find(d, "a"), find(d, "b")),
        Ok("<a><c x=\"1\" y=\"2\"><d/></c><e/><b>1</b></a>"),
    );
    check(
        doc,
        |d| d.insert_before(find(d, "b"), find(d, "e")),
        Ok("<a><e/><b>1</b><c x=\"1\" y=\"2\"><d/></c></a>"),
    );
    check(
        doc,
        |d| d.insert_before(find(d, "e"), find(d, "d")),
        Ok("<a><b>1</b><c x=\"1\" y=\"2\"/><d/><e/></a>"),
    );
    check(doc, |d| d.insert_before(find(d, "e"), find(d, "e")), Ok(doc));
    check(doc, |d| d.replace(find(d, "c"), find(d, "d")), Ok("<a><b>1</b><d/><e/></a>"));
    check(doc, |d| d.replace(find(d, "c"), find(d, "c")), Ok(doc));
    check(
        doc,
        |d| d.rename(find(d, "c"), QNameRef::new("p", "u", "z")),
        Ok("<a><b>1</b><p:z xmlns:p=\"u\" x=\"1\" y=\"2\"><d/></p:z><e/></a>"),
    );
    check(
        doc,
        |d| d.rename(find(d, "x"), QNameRef::local("z")),
        Ok("<a><b>1</b><c z=\"1\" y=\"2\"><d/></c><e/></a>"),
    );
    check(
        doc,
        |d| d.set_attribute(find(d, "c"), QNameRef::local("x"), "<").map(drop),
        Ok("<a><b>1</b><c x=\"&lt;\" y=\"2\"><d/></c><e/></a>"),
    );
    check(
        doc,
        |d| d.set_attribute(find(d, "e"), QNameRef::local("x"), "9").map(drop),
        Ok("<a><b>1</b><c x=\"1\" y=\"2\"><d/></c><e x=\"9\"/></a>"),
    );
    check(
        doc,
        |d| d.remove_attribute(find(d, "c"), "", "y").map(|had| assert!(had)),
        Ok("<a><b>1</b><c x=\"1\"><d/></c><e/></a>"),
    );
    check(doc, |d| d.remove_attribute(find(d, "c"), "", "z").map(|had| assert!(!had)), Ok(doc));
    check(
        doc,
        |d| d.set_text(find(d, "y"), "n"),
        Ok("<a><b>1</b><c x=\"1\" y=\"n\"><d/></c><e/></a>"),
    );
    check(
        doc,
        |d| d.declare_namespace(find(d, "e"), "p", "u"),
        Ok("<a><b>1</b><c x=\"1\" y=\"2\"><d/></c><e xmlns:p=\"u\"/></a>"),
    );
    check(
        doc,
        |d| {
            let copy = d.duplicate(find(d, "c"))?;
            d.append(find(d, "e"), copy)
        },
        Ok("<a><b>1</b><c x=\"1\" y=\"2\"><d/></c><e><c x=\"1\" y=\"2\"><d/></c></e></a>"),
    );
    check(
        "<a/>",
        |d| {
            let t = d.create_text("x<")?;
            d.append(find(d, "a"), t)
        },
        Ok("<a>x&lt;</a>"),
    );
    check(
        "<a/>",
        |d| {
            let t = d.create_comment("x")?;
            d.append(find(d, "a"), t)
        },
        Ok("<a><!--x--></a>"),
    );
    check(
        "<a/>",
        |d| {
            let t = d.create_processing_instruction("t", "x")?;
            d.append(d.root().id(), t)
        },
        Ok("<a/><?t x?>"),
    );
    check(
        "<a/>",
        |d| {
            let t = d.create_element(QNameRef::new("", "u", "b"))?;
            d.append(find(d, "a"), t)
        },
        Ok("<a><b xmlns=\"u\"/></a>"),
    );
}

#[test]
fn edits_that_would_break_the_tree_are_rejected() {
    let doc = "<a><b x=\"1\" y=\"2\"><c/></b></a>";
    check(doc, |d| d.append(find(d, "c"), find(d, "b")), Err(ErrorKind::Cycle));
    check(doc, |d| d.append(find(d, "b"), find(d, "b")), Err(ErrorKind::Cycle));
    check(doc, |d| d.insert_before(find(d, "c"), find(d, "a")), Err(ErrorKind::Cycle));
    check(
        doc,
        |d| d.append(find(d, "a"), find(d, "x")),
        Err(ErrorKind::WrongKind(Kind::Attribute)),
    );
    check(
        doc,
        |d| d.append(find(d, "x"), find(d, "c")),
        Err(ErrorKind::WrongKind(Kind::Attribute)),
    );
    check(doc, |d| d.append(find(d, "a"), d.root().id()), Err(ErrorKind::WrongKind(Kind::Root)));
    check(doc, |d| d.detach(d.root().id()), Err(ErrorKind::WrongKind(Kind::Root)));
    check(
        doc,
        |d| d.insert_before(d.root().id(), find(d, "c")),
        Err(ErrorKind::WrongKind(Kind::Root)),
    );
    check(doc, |d| d.append(parse("<z/>").root().id(), find(d, "c")), Err(ErrorKind::UnknownNode));
    check(doc, |d| d.append(find(d, "a"), find(&d.clone(), "c")), Err(ErrorKind::UnknownNode));
    check(
        doc,
        |d| d.rename(find(d, "b"), QNameRef::local("1")),
        Err(ErrorKind::BadName("1".to_owned())),
    );
    check(
        doc,
        |d| d.rename(find(d, "x"), QNameRef::local("y")),
        Err(ErrorKind::DuplicateAttribute("y".to_owned())),
    );
    check(
        doc,
        |d| d.set_attribute(find(d, "b"), QNameRef::local("xmlns"), "u").map(drop),
        Err(ErrorKind::BadName("xmlns".to_owned())),
    );
    check(
        doc,
        |d| d.set_attribute(find(d, "b"), QNameRef::new("p", "", "z"), "u").map(drop),
        Err(ErrorKind::BadName("z".to_owned())),
    );
    check(
        doc,
        |d| d.set_attribute(find(d, "b"), QNameRef::local("x"), "\u{1}").map(drop),
        Err(ErrorKind::BadText),
    );
    check(doc, |d| d.set_text(find(d, "b"), "x"), Err(ErrorKind::WrongKind(Kind::Element)));
    check(
        doc,
        |d| d.declare_namespace(find(d, "b"), "xml", "u"),
        Err(ErrorKind::BadNamespaceDeclaration("xml".to_owned())),
    );
    check(doc, |d| d.create_comment("a--b").map(drop), Err(ErrorKind::BadText));
    check(
        doc,
        |d| d.create_processing_instruction("xml", "").map(drop),
        Err(ErrorKind::BadName("xml".to_owned())),
    );
    check(doc, |d| d.create_processing_instruction("t", "?>").map(drop), Err(ErrorKind::BadText));
}

#[test]
fn a_removed_attribute_is_an_unknown_node() {
    let mut document = parse("<a x='1'/>");
    let x = find(&document, "x");
    document.detach(x).unwrap();
    assert!(document.node(x).is_none());
    assert_eq!(document.set_text(x, "2"), Err(ErrorKind::UnknownNode.into()));
}

#[test]
fn imported_nodes_keep_their_namespaces() {
    let source =
        parse("<s:a xmlns:s='u' xmlns='v' xmlns:q='w'><b t='q:x'>1<!--c--><?p d?></b></s:a>");
    let mut target = parse("<z/>");
    let copy = target.import(source.node(find(&source, "b")).unwrap()).unwrap();
    target.append(find(&target, "z"), copy).unwrap();
    let expected =
        "<z><b xmlns=\"v\" xmlns:s=\"u\" xmlns:q=\"w\" t=\"q:x\">1<!--c--><?p d?></b></z>";
    let names: Vec<_> = target.node(copy).unwrap().namespaces_in_scope().collect();
    assert_eq!(names.len(), 4);
    assert_eq!(written(&parse(&written(&target))), written(&target));
    assert_eq!(written(&target).len(), expected.len());
    assert_eq!(target.import(source.root()), Err(ErrorKind::WrongKind(Kind::Root).into()));
}

type Push = fn(&mut Writer) -> Result<(), Error>;

#[track_caller]
fn pushes(options: WriterOptions, push: Push, expected: Result<&str, ErrorKind>) {
    let mut writer = Writer::new(options).unwrap();
    let bytes = push(&mut writer).and_then(|()| writer.finish());
    let text = bytes.map(|bytes| bytes.iter().map(|&byte| char::from(byte)).collect::<String>());
    assert_eq!(text.map_err(Error::into_kind), expected.map(str::to_owned));
}

#[test]
fn the_writer_binds_names_to_their_namespaces() {
    pushes(
        plain(),
        |w| {
            w.start_element(QNameRef::new("p", "u", "a"))?;
            w.start_element(QNameRef::new("p", "u", "b"))
        },
        Ok("<p:a xmlns:p=\"u\"><p:b/></p:a>"),
    );
    pushes(
        plain(),
        |w| {
            w.start_element(QNameRef::new("", "u", "a"))?;
            w.start_element(QNameRef::local("b"))
        },
        Ok("<a xmlns=\"u\"><b xmlns=\"\"/></a>"),
    );
    pushes(
        plain(),
        |w| {
            w.start_element(QNameRef::new("p", "u", "a"))?;
            w.start_element(QNameRef::new("p", "v", "b"))
        },
        Ok("<p:a xmlns:p=\"u\"><p:b xmlns:p=\"v\"/></p:a>"),
    );
    pushes(
        plain(),
        |w| {
            w.start_element(QNameRef::new("p", "u", "a"))?;
            w.attribute(QNameRef::new("p", "v", "x"), "1")
        },
        Ok("<p:a xmlns:p=\"u\" xmlns:ns0=\"v\" ns0:x=\"1\"/>"),
    );
    pushes(
        plain(),
        |w| {
            w.start_element(QNameRef::new("p", "u", "a"))?;
            w.start_element(QNameRef::new("p", "u", "b"))?;
            w.attribute(QNameRef::new("p", "v", "x"), "1")
        },
        Ok("<p:a xmlns:p=\"u\"><p:b xmlns:ns0=\"v\" ns0:x=\"1\"/></p:a>"),
    );
    pushes(
        plain(),
        |w| {
            w.start_element(QNameRef::new("", "u", "a"))?;
            w.attribute(QNameRef::new("", "u", "x"), "1")
        },
        Ok("<a xmlns=\"u\" xmlns:ns0=\"u\" ns0:x=\"1\"/>"),
    );
    pushes(
        plain(),
        |w| {
            w.start_element(QNameRef::new("p", "u", "a"))?;
            w.namespace("p", "v")
        },
        Ok("<ns0:a xmlns:p=\"v\" xmlns:ns0=\"u\"/>"),
    );
    pushes(
        plain(),
        |w| {
            w.start_element(QNameRef::local("a"))?;
            w.attribute(QNameRef::new("xml", "http://www.w3.org/XML/1998/namespace", "lang"), "en")
        },
        Ok("<a xml:lang=\"en\"/>"),
    );
    pushes(
        plain(),
        |w| {
            w.start_element(QNameRef::local("a"))?;
            w.attribute(QNameRef::local("x"), "1")?;
            w.attribute(QNameRef::local("x"), "2")
        },
        Ok("<a x=\"2\"/>"),
    );
    pushes(
        plain(),
        |w| {
            w.start_element(QNameRef::local("a"))?;
            for n in 0..40 {
                w.namespace(&format!("p{n}"), &format!("u{n}"))?;
            }
            w.start_element(QNameRef::new("p0", "u0", "b"))?;
            w.take();
            w.text("x")
        },
        Ok("<p0:b>x</p0:b></a>"),
    );
}

#[test]
fn pieces_out_of_order_are_rejected() {
    pushes(plain(), |w| w.attribute(QNameRef::local("x"), "1"), Err(ErrorKind::NotInStartTag));
    pushes(
        plain(),
        |w| {
            w.start_element(QNameRef::local("a"))?;
            w.text("t")?;
            w.attribute(QNameRef::local("x"), "1")
        },
        Err(ErrorKind::NotInStartTag),
    );
    pushes(plain(), |w| w.end_element(), Err(ErrorKind::NothingOpen));
    pushes(
        plain(),
        |w| w.start_element(QNameRef::local("a b")),
        Err(ErrorKind::BadName("a b".to_owned())),
    );
    pushes(plain(), |w| w.text("\u{1}"), Err(ErrorKind::BadText));
    pushes(plain(), |w| w.comment("--"), Err(ErrorKind::BadText));
    pushes(
        plain(),
        |w| {
            w.start_element(QNameRef::local("a"))?;
            w.namespace("xml", "u")
        },
        Err(ErrorKind::BadNamespaceDeclaration("xml".to_owned())),
    );
    pushes(
        plain(),
        |w| {
            w.start_element(QNameRef::local("a"))?;
            w.namespace("p", "u")?;
            w.namespace("p", "v")
        },
        Err(ErrorKind::BadNamespaceDeclaration("p".to_owned())),
    );
    let ascii = WriterOptions { encoding: Encoding::UsAscii, ..plain() };
    pushes(
        ascii,
        |w| w.start_element(QNameRef::local("é")),
        Err(ErrorKind::NotInEncoding('é', "US-ASCII")),
    );
    let ids = DoctypeIds { public: Some("{".to_owned()), system: String::new() };
    assert!(Writer::new(WriterOptions { doctype: Some(ids), ..plain() }).is_err());
}

#[test]
fn the_writer_applies_its_options() {
    let push: Push = |w| {
        w.start_element(QNameRef::local("a"))?;
        w.start_element(QNameRef::local("b"))?;
        w.text("é<")?;
        w.end_element()?;
        w.comment("c")
    };
    pushes(
        WriterOptions { indent: Some(2), ..plain() },
        push,
        Ok("<a>\n  <b>\u{C3}\u{A9}&lt;</b>\n  <!--c-->\n</a>\n"),
    );
    pushes(
        WriterOptions {
            encoding: Encoding::UsAscii,
            standalone: Some(true),
            ..WriterOptions::default()
        },
        push,
        Ok(
            "<?xml version=\"1.0\" encoding=\"US-ASCII\" standalone=\"yes\"?>\n<a><b>&#233;&lt;</b><!--c--></a>",
        ),
    );
    pushes(
        WriterOptions { encoding: Encoding::Iso8859_1, ..plain() },
        push,
        Ok("<a><b>\u{E9}&lt;</b><!--c--></a>"),
    );
    let doctype = Some(DoctypeIds { public: Some("p".to_owned()), system: "s".to_owned() });
    pushes(
        WriterOptions { doctype, ..plain() },
        push,
        Ok("<!DOCTYPE a PUBLIC \"p\" \"s\">\n<a><b>\u{C3}\u{A9}&lt;</b><!--c--></a>"),
    );
    let cdata_elements = vec![(String::new(), "b".to_owned())];
    pushes(
        WriterOptions { cdata_elements, ..plain() },
        |w| {
            w.start_element(QNameRef::local("b"))?;
            w.text("x<]]")?;
            w.text(">y")
        },
        Ok("<b><![CDATA[x<]]]]><![CDATA[>y]]></b>"),
    );
    pushes(
        plain(),
        |w| {
            w.start_element(QNameRef::local("b"))?;
            w.raw("<br>")
        },
        Ok("<b><br></b>"),
    );
}

#[test]
fn a_tree_built_in_order_stays_in_order() {
    let mut builder = Builder::new();
    builder.start_element(QNameRef::local("a")).unwrap();
    builder.attribute(QNameRef::local("x"), "1").unwrap();
    builder.text("one").unwrap();
    builder.text(" two").unwrap();
    builder.end_element().unwrap();
    assert_eq!(builder.end_element(), Err(ErrorKind::WrongKind(Kind::Root).into()));
    let document = builder.finish();
    assert_eq!(written(&document), "<a x=\"1\">one two</a>");
    assert_eq!(document.root().descendants().count(), 2);
    consistent(&document);
}

#[test]
fn the_heap_of_a_tree_is_at_most_three_times_the_document() {
    let order = "<order><symbol>IBM</symbol><buyerID>john</buyerID><price>140.34</price><volume>2000</volume></order>\n";
    let head = "<soapenv:Envelope xmlns:soapenv=\"http://schemas.xmlsoap.org/soap/envelope/\">\n<soapenv:Header>\n\
                <routing xmlns=\"http://someuri\">xadmin;server1;community#1.0##</routing>\n</soapenv:Header>\n\
                <soapenv:Body>\n<m:buyStocks xmlns:m=\"http://services.samples/xsd\">\n";
    for count in [7, 100, 1_000] {
        let text = format!(
            "{head}{}</m:buyStocks>\n</soapenv:Body>\n</soapenv:Envelope>\n",
            order.repeat(count)
        );
        let held = parse(&text).heap_bytes();
        assert!(held <= 3 * text.len(), "{held} bytes for {}", text.len());
    }
}

#[test]
fn elements_are_found_by_their_current_ids() {
    const TEXT: &str =
        "<!DOCTYPE a [<!ATTLIST b i ID #IMPLIED>]><a><b i='one'/><b i='two'/><b i='three'/></a>";
    let options = penstock_xml::Options {
        doctype: penstock_xml::Doctype::Read,
        ..penstock_xml::Options::default()
    };
    let mut document = Document::parse_with(TEXT.as_bytes(), &options).unwrap();
    let all: Vec<_> = document.element().unwrap().children().map(|node| node.id()).collect();
    let [one, two, three] = *all.as_slice() else { panic!("{all:?}") };
    let find = |document: &Document, id: &str| document.element_by_id(id).map(|found| found.id());
    assert_eq!(find(&document, "one"), Some(one));

    document.set_attribute(one, QNameRef::local("i"), "first").unwrap();
    assert_eq!((find(&document, "one"), find(&document, "first")), (None, Some(one)));
    let attribute = document.node(two).unwrap().attributes().next().unwrap().id();
    document.set_text(attribute, "second").unwrap();
    assert_eq!((find(&document, "two"), find(&document, "second")), (None, Some(two)));

    // If two elements have the same id, the first in document order is found, even after it moves.
    document.set_attribute(three, QNameRef::local("i"), "first").unwrap();
    assert_eq!(find(&document, "first"), Some(one));
    document.insert_before(one, three).unwrap();
    assert_eq!(find(&document, "first"), Some(three));
    document.detach(three).unwrap();
    assert_eq!(find(&document, "first"), Some(one));

    assert_eq!(document.remove_attribute(one, "", "i"), Ok(true));
    assert_eq!(find(&document, "first"), None);
    document.rename(attribute, QNameRef::local("j")).unwrap();
    assert_eq!(find(&document, "second"), None);
    let root = document.element().unwrap().id();
    document.append(root, three).unwrap();
    assert_eq!(find(&document, "first"), Some(three));
}

/// Attributes are indexed once there are many.
#[test]
fn many_attributes_are_written_once_each_with_their_last_value() {
    const COUNT: usize = 300;
    let mut writer = Writer::new(plain()).unwrap();
    for element in 0..3 {
        writer.start_element(QNameRef::local("a")).unwrap();
        for round in ["old", "new"] {
            for at in 0..COUNT {
                let (local, uri) = (format!("x{}", at / 2), format!("urn:{}", at % 2));
                let prefix = if at % 2 == 0 { "p" } else { "q" };
                writer.attribute(QNameRef::new(prefix, &uri, &local), round).unwrap();
                writer.attribute(QNameRef::local(&format!("y{at}")), round).unwrap();
            }
        }
        writer.attribute(QNameRef::local("last"), &element.to_string()).unwrap();
    }
    let written = String::from_utf8(writer.finish().unwrap()).unwrap();
    let read = parse(&written);
    let elements = read.root().descendants().filter(|node| node.is_element());
    for (at, element) in elements.enumerate() {
        assert_eq!(element.attributes().count(), 2 * COUNT + 1);
        assert_eq!(element.attribute("", "last"), Some(at.to_string().as_str()));
        assert!(element.attributes().filter(|node| node.text() == "new").count() == 2 * COUNT);
        assert_eq!(element.attribute("urn:1", "x9"), Some("new"));
    }
}

#[test]
fn a_node_is_inserted_behind_another() {
    check(
        "<a><b/>t<c/></a>",
        |it| it.insert_after(find(it, "b"), find(it, "c")),
        Ok("<a><b/><c/>t</a>"),
    );
    check(
        "<a><b/><c/></a>",
        |it| it.insert_after(find(it, "b"), find(it, "c")),
        Ok("<a><b/><c/></a>"),
    );
    check(
        "<a><b/><c/></a>",
        |it| it.insert_after(find(it, "c"), find(it, "b")),
        Ok("<a><c/><b/></a>"),
    );
    check(
        "<a><b/><c/></a>",
        |it| it.insert_after(find(it, "b"), find(it, "b")),
        Ok("<a><b/><c/></a>"),
    );
    check("<a><b/></a>", |it| it.insert_after(find(it, "b"), find(it, "a")), Err(ErrorKind::Cycle));
    let mut document = parse("<a><b/><c/></a>");
    let detached = find(&document, "b");
    document.detach(detached).unwrap();
    assert!(document.insert_after(detached, find(&document, "c")).is_err());
}

#[test]
fn nodes_are_wrapped_in_others() {
    check(
        "<a><b>1</b><c/></a>",
        |it| {
            let around = it.create_element(QNameRef::local("w"))?;
            it.wrap(find(it, "b"), around)
        },
        Ok("<a><w><b>1</b></w><c/></a>"),
    );
    let wrap = |it: &mut Document| it.wrap(find(it, "b"), find(it, "c"));
    check("<a><b/><c><d/></c></a>", wrap, Ok("<a><c><d/><b/></c></a>"));
    check("<a><c><b/></c></a>", wrap, Err(ErrorKind::Cycle));
}

#[test]
fn children_are_replaced() {
    check(
        "<a>t<b/><c><d/></c></a>",
        |it| it.replace_children(find(it, "a"), &[find(it, "d"), find(it, "b")]),
        Ok("<a><d/><b/></a>"),
    );
    check("<a><b/></a>", |it| it.replace_children(find(it, "a"), &[]), Ok("<a/>"));
}
