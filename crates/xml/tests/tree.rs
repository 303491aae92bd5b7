//! Reading a tree: navigation, names, values, namespaces, positions and order.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use penstock_xml::{Document, Kind, NameId, Node, NodeFilter, QNameRef};

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
fn a_tree_holds_what_the_document_says() {
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
fn all_ways_through_the_tree_agree() {
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
fn what_is_sought_is_found_in_documents_as_read_and_in_edited_ones() {
    let text = "<a xmlns:p='urn:p' xmlns:q='urn:p'><b/>t<p:c><!--c--><b>u<b/></b><q:c/></p:c><?pi?><p:c/><d><p:c/>v</d></a>";
    let mut document = Document::parse(text.as_bytes()).unwrap();
    finds_as_a_look_at_each(&document);
    let element = document.element().unwrap().id();
    let moved = document.element().unwrap().first_child().unwrap().id();
    document.detach(moved).unwrap();
    document.append(element, moved).unwrap();
    let made = document.create_element(QNameRef::new("r", "urn:p", "c")).unwrap();
    document.insert_before(moved, made).unwrap();
    assert!(!document.is_in_order());
    finds_as_a_look_at_each(&document);
}

#[track_caller]
fn finds_as_a_look_at_each(document: &Document) {
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
