//! Reading a tree: navigation, names, values, namespaces, positions and order.

use penstock_xml::{
    Builder, Doctype, Document, Error, Kind, NameId, Node, NodeFilter, NodeId, Options, QNameRef,
    copy_subtree,
};

const SAMPLE: &str = "<?xml version='1.0'?><!--c--><a x='1' p:y='2' xmlns:p='urn:p' xmlns='urn:d'>\n \
                      <b>one<![CDATA[<]]>&amp;two</b><?pi some data?><p:c xmlns=''/>tail</a>";

/// Every node of the tree, depth first, one line each.
fn outline(document: &Document) -> String {
    let mut out = String::new();
    let mut line = |node: Node<'_>, depth: usize| {
        let what = match node.kind() {
            Kind::Root => "/".to_owned(),
            Kind::Element => {
                format!("<{}:{{{}}}{}>", node.prefix(), node.namespace(), node.local_name())
            }
            Kind::Attribute => {
                format!("@{}:{}={:?}", node.prefix(), node.local_name(), node.text())
            }
            Kind::Text => format!("{:?}", node.text()),
            Kind::Comment => format!("!{}", node.text()),
            Kind::ProcessingInstruction => format!("?{} {}", node.local_name(), node.text()),
            Kind::Namespace => unreachable!("a tree holds none"),
        };
        out.push_str(&format!("{}{what} {}\n", "  ".repeat(depth), node.position()));
    };
    line(document.root(), 0);
    for node in document.root().descendants() {
        let depth = node.ancestors().count();
        line(node, depth);
        node.attributes().for_each(|attribute| line(attribute, depth + 1));
    }
    out
}

#[test]
fn a_tree_has_the_content_of_the_document() {
    let document = Document::parse(SAMPLE.as_bytes()).unwrap();
    let expected = "\
/ 1:1
  !c 1:22
  <:{urn:d}a> 1:30
    @:x=\"1\" 1:36
    @p:y=\"2\" 1:44
    \"\\n \" 1:77
    <:{urn:d}b> 2:2
      \"one<&two\" 2:5
    ?pi some data 2:33
    <p:{urn:p}c> 2:49
    \"tail\" 2:64
";
    assert_eq!(outline(&document), expected);
}

#[test]
fn a_document_of_shared_bytes_is_the_document_of_the_same_bytes() {
    let check = |bytes: &[u8], is_shared: bool| {
        let bytes = bytes::Bytes::copy_from_slice(bytes);
        let (alone, shared) = (Document::parse(&bytes), Document::parse_shared(&bytes));
        let shown = bytes.escape_ascii();
        assert_eq!(alone.as_ref().map(outline), shared.as_ref().map(outline), "{shown}");
        if let Ok(document) = shared {
            let text = document.element().and_then(|root| root.first_child()).unwrap().text();
            assert_eq!(bytes.as_ptr_range().contains(&text.as_ptr()), is_shared, "{shown}");
        }
    };
    // Each text begins at every offset in the blocks that are checked at once.
    for len in 0..130 {
        let space = " ".repeat(len);
        let padded = |text: &str| format!("<a>x<b/>{space}{text}</a>");
        for text in ["", "\t\n", "é\u{FFFD}", "]]&gt;<![CDATA[<]]>", "\u{FFFE}", "\u{1}", "]]>"] {
            check(padded(text).as_bytes(), true);
            check(format!("\u{FEFF}{}", padded(text)).as_bytes(), true);
        }
        check(padded("\r\n").as_bytes(), false);
        check(&[padded("").as_bytes(), b"\xE9"].concat(), false);
        let declared = format!("<?xml version='1.0' encoding='ISO-8859-1'?>{}", padded("é"));
        check(declared.as_bytes(), false);
    }
}

#[test]
fn all_kinds_of_navigation_agree() {
    let document = Document::parse(SAMPLE.as_bytes()).unwrap();
    for node in std::iter::once(document.root()).chain(document.root().descendants()) {
        let forward: Vec<_> = node.children().collect();
        let mut backward: Vec<_> =
            std::iter::successors(node.last_child(), |child| child.previous_sibling()).collect();
        backward.reverse();
        assert_eq!(forward, backward);
        assert!(forward.iter().all(|child| child.parent() == Some(node)));
        assert_eq!(document.node(node.id()), Some(node));
    }
}

#[test]
fn filters_work_in_parsed_and_in_edited_documents() {
    let text = "<a xmlns:p='urn:p' xmlns:q='urn:p'><b/>t<p:c><!--c--><b>u<b/></b><q:c/></p:c><?pi?><p:c/><d><p:c/>v</d></a>";
    let mut document = Document::parse(text.as_bytes()).unwrap();
    check_filters(&document);
    let element = document.element().unwrap().id();
    let moved = document.element().unwrap().first_child().unwrap().id();
    document.detach(moved).unwrap();
    document.append(element, moved).unwrap();
    let made = document.create_element(QNameRef::new("r", "urn:p", "c")).unwrap();
    document.insert_before(moved, made).unwrap();
    assert!(!document.is_in_order());
    check_filters(&document);
}

#[track_caller]
fn check_filters(document: &Document) {
    let kinds =
        [Kind::Element, Kind::Text, Kind::Comment, Kind::ProcessingInstruction, Kind::Attribute];
    let names = [("", "a"), ("", "b"), ("urn:p", "c"), ("", "d")];
    let names = names.map(|(namespace, local)| document.name_id(namespace, local).unwrap());
    let is_named =
        |node: Node<'_>, name: NameId| node.kind() == Kind::Element && node.name() == name;
    for start in std::iter::once(document.root()).chain(document.root().descendants()) {
        let agree = |sought: NodeFilter, fits: &dyn Fn(Node<'_>) -> bool| {
            let below: Vec<_> = start.descendants().filter(|node| fits(*node)).collect();
            assert_eq!(start.filtered_descendants(sought).collect::<Vec<_>>(), below, "{sought:?}");
            let beside: Vec<_> = start.children().filter(|node| fits(*node)).collect();
            assert_eq!(start.filtered_children(sought).collect::<Vec<_>>(), beside, "{sought:?}");
        };
        agree(NodeFilter::any(), &|_| true);
        kinds.iter().for_each(|kind| agree(NodeFilter::kind(*kind), &|node| node.kind() == *kind));
        names.iter().for_each(|name| {
            agree(NodeFilter::name(document, *name), &|node| is_named(node, *name));
        });
    }
}

#[test]
fn the_source_of_an_element_is_as_it_was_written_but_for_ends_of_lines() {
    for (document, sources) in [
        (
            "<?xml version='1.0'?><!-- <b> --><a x = '>'\n><b/><c ></c\t>t</a ><!--e-->",
            &["<a x = '>'\n><b/><c ></c\t>t</a >", "<b/>", "<c ></c\t>"][..],
        ),
        (
            "<p:a xmlns:p='u'><p:b y='/' x=\"'>\">]]&gt;<![CDATA[</p:b>]]></p:b><b x='a\">'/></p:a>",
            &[
                "<p:a xmlns:p='u'><p:b y='/' x=\"'>\">]]&gt;<![CDATA[</p:b>]]></p:b><b x='a\">'/></p:a>",
                "<p:b y='/' x=\"'>\">]]&gt;<![CDATA[</p:b>]]></p:b>",
                "<b x='a\">'/>",
            ],
        ),
        (
            "<a><b><!--</b>--><?c </b>?><b><b/></b></b>\r\n<b>é</b></a>",
            &[
                "<a><b><!--</b>--><?c </b>?><b><b/></b></b>\n<b>é</b></a>",
                "<b><!--</b>--><?c </b>?><b><b/></b></b>",
                "<b><b/></b>",
                "<b/>",
                "<b>é</b>",
            ],
        ),
        ("<a></a><!-- </a>--> ", &["<a></a>"]),
        ("<x-->1</x--><!-- </x-->", &["<x-->1</x-->"]),
        ("<p:x xmlns:p='u'>1</p:x><?x </p:x ?>\n", &["<p:x xmlns:p='u'>1</p:x>"]),
        ("<p:x xmlns:p='u'>1</p:x\n>\n", &["<p:x xmlns:p='u'>1</p:x\n>"]),
    ] {
        let document = Document::parse(document.as_bytes()).unwrap();
        let elements = document.root().descendants().filter(|node| node.is_element());
        let found: Vec<_> = elements.map(|element| element.source().unwrap()).collect();
        assert_eq!(found, sources);
    }
}

#[test]
fn what_was_not_read_as_it_is_has_no_source() {
    let mut edited = Document::parse(b"<a><b/></a>").unwrap();
    let element = edited.element().unwrap();
    let mut copy = Builder::new();
    copy_subtree(element, &mut copy).unwrap();
    let (element, below) = (element.id(), element.first_child().unwrap().id());
    edited.detach(below).unwrap();
    edited.append(element, below).unwrap();
    let text = b"<!DOCTYPE a [<!ENTITY e '<b/>'>]><a>&e;</a>";
    let options = Options { doctype: Doctype::Read, ..Options::default() };
    let typed = Document::parse_with(text, &options).unwrap();
    let part = Document::parse(b"<a><a>1</a><x/></a>").unwrap();
    let part = part.element().unwrap().first_child().unwrap().to_document();
    for document in [edited, copy.finish(), typed, part] {
        check_without_source(&document);
    }
}

#[track_caller]
fn check_without_source(document: &Document) {
    let elements = || document.root().descendants().filter(|node| node.is_element());
    assert_eq!(elements().filter_map(Node::source).count(), 0, "{document:?}");
    let root = document.element().unwrap();
    assert_eq!(elements().filter_map(|below| root.source_before(below)).count(), 0, "{document:?}");
}

#[test]
fn an_edited_document_has_no_source() {
    type Edit = fn(&mut Document, NodeId, NodeId) -> Result<(), Error>;
    let edits: [Edit; 6] = [
        |document, _, text| document.set_text(text, "2"),
        |document, element, _| document.set_attribute(element, QNameRef::local("x"), "2").map(drop),
        |document, element, _| document.remove_attribute(element, "", "x").map(drop),
        |document, element, _| document.declare_namespace(element, "p", "u"),
        |document, element, _| document.rename(element, QNameRef::local("c")),
        |document, _, text| document.detach(text),
    ];
    for edit in edits {
        let mut document = Document::parse(b"<a><b x='1'>1</b></a>").unwrap();
        let element = document.element().unwrap().first_child().unwrap();
        assert!(element.source().is_some());
        let (element, text) = (element.id(), element.first_child().unwrap().id());
        edit(&mut document, element, text).unwrap();
        check_without_source(&document);
    }
}

#[test]
fn what_is_left_of_a_pruned_document_has_no_source() {
    let whole = Document::parse(b"<a><b>1</b><c/></a>").unwrap();
    check_without_source(&whole.pruned(|node| node.local_name() == "b"));
    check_without_source(&whole.element().unwrap().to_document());
    assert!(whole.clone().element().unwrap().source().is_some(), "a clone is whole");
}
