//! Elements with so many attributes that they are indexed while they are set.

use penstock_xml::{Builder, Document, NodeId, QNameRef, Sink};

const COUNT: usize = 1_000;

fn name(number: usize) -> String {
    format!("a{number}")
}

/// The values of the element's attributes `a0`, `a1`, ..., and that each is found by its name.
fn values(document: &Document, element: NodeId) -> Vec<(String, String)> {
    let node = document.node(element).unwrap();
    let all = node.attributes();
    let all = all.map(|found| (found.local_name().to_owned(), found.text().to_owned()));
    let all: Vec<_> = all.collect();
    for (name, value) in &all {
        assert_eq!(node.attribute("", name), Some(value.as_str()));
    }
    all
}

fn expected(changed: impl Fn(usize) -> Option<String>) -> Vec<(String, String)> {
    (0..COUNT).filter_map(|number| Some((name(number), changed(number)?))).collect()
}

#[test]
fn attributes_that_are_set_again_keep_their_place_and_removed_ones_are_gone() {
    let mut document = Document::parse(b"<e/>").unwrap();
    let element = document.element().unwrap().id();
    for number in 0..COUNT {
        document.set_attribute(element, QNameRef::local(&name(number)), "old").unwrap();
    }
    for number in (0..COUNT).step_by(2) {
        document.set_attribute(element, QNameRef::local(&name(number)), "new").unwrap();
    }
    let both =
        |number: usize| Some(if number.is_multiple_of(2) { "new" } else { "old" }.to_owned());
    assert_eq!(values(&document, element), expected(both));
    for number in (COUNT / 2..COUNT).rev() {
        assert_eq!(document.remove_attribute(element, "", &name(number)), Ok(true));
    }
    let first_half = |number: usize| both(number).filter(|_| number < COUNT / 2);
    assert_eq!(values(&document, element), expected(first_half));
}

#[test]
fn a_renamed_attribute_is_set_by_its_new_name() {
    let mut document = Document::parse(b"<e/>").unwrap();
    let element = document.element().unwrap().id();
    for number in 0..100 {
        document.set_attribute(element, QNameRef::local(&name(number)), "old").unwrap();
    }
    let renamed = document.set_attribute(element, QNameRef::local("a50"), "old").unwrap();
    document.rename(renamed, QNameRef::local("b")).unwrap();
    document.set_attribute(element, QNameRef::local("b"), "new").unwrap();
    document.set_attribute(element, QNameRef::local("a50"), "last").unwrap();
    let values = values(&document, element);
    assert_eq!(values.len(), 101);
    assert_eq!(values.get(50), Some(&("b".to_owned(), "new".to_owned())));
    assert_eq!(values.last(), Some(&("a50".to_owned(), "last".to_owned())));
}

#[test]
fn attributes_are_pushed_into_the_element_just_started() {
    let mut builder = Builder::new();
    for element in ["e", "f"] {
        builder.start_element(QNameRef::local(element)).unwrap();
        for number in (0..COUNT).chain(0..COUNT) {
            builder.attribute(QNameRef::local(&name(number)), element).unwrap();
        }
    }
    let document = builder.finish();
    let outer = document.element().unwrap();
    let inner = outer.first_child().unwrap();
    for (node, value) in [(outer, "e"), (inner, "f")] {
        assert_eq!(node.attributes().count(), COUNT);
        assert!(node.attributes().all(|found| found.text() == value));
    }
}
