//! Match patterns: XSLT 1.0 sections 5.2 and 5.5.

use xml::{Document, Kind};
use xpath::{
    Budget, Context, Environment, Error, ExpandedName, FunctionId, Item, Matched, NodeSet, Pattern,
    StaticContext, Value,
};

const DOCUMENT: &[u8] = b"<!DOCTYPE r [<!ATTLIST a id ID #IMPLIED>]><r xmlns:p='urn:p'><a id='x'>one<b n='1'/><b n='2'/></a>\
<p:a><c><b n='3'>two</b></c></p:a><!--c--><?t d?></r>";

/// `key()` returns the elements that have the name of its second argument.
struct Keys;

impl StaticContext for Keys {
    fn namespace(&self, prefix: &str) -> Option<String> {
        (prefix == "p").then(|| "urn:p".to_owned())
    }

    fn function(&self, name: &ExpandedName, arguments: usize) -> Option<FunctionId> {
        (name.local == "key" && arguments == 2).then_some(FunctionId(7))
    }
}

impl<'d> Environment<'d> for Keys {
    fn call(
        &mut self,
        _: FunctionId,
        context: &Context<'d>,
        arguments: Vec<Value<'d>>,
        _: &Budget,
    ) -> Result<Value<'d>, Error> {
        let name = arguments[1].string().into_owned();
        let all = context.item.holder().document().root().descendants();
        let found = all.filter(|node| node.is_element() && node.local_name() == name);
        Ok(Value::NodeSet(NodeSet::from_unordered(found.map(Item::from).collect())))
    }
}

/// All nodes that match, except namespace nodes, in document order.
fn matching(pattern: &str) -> String {
    let options = xml::Options { doctype: xml::Doctype::Read, ..xml::Options::default() };
    let document = Document::parse_with(DOCUMENT, &options).unwrap();
    let pattern = Pattern::compile(pattern, &Keys).unwrap();
    let mut all = vec![document.root()];
    for node in document.root().descendants() {
        all.push(node);
        all.extend(node.attributes());
    }
    let matched =
        all.into_iter().filter(|node| pattern.matches(*node, &mut Keys, &Budget::large()).unwrap());
    let shown = matched.map(|node| match node.kind() {
        Kind::Root => "/".to_owned(),
        Kind::Element => match node.attribute("", "n") {
            Some(n) => format!("{}{n}", node.local_name()),
            None => Item::from(node).qualified_name().into_owned(),
        },
        Kind::Attribute => format!("@{}={}", node.local_name(), node.text()),
        Kind::Text => node.text().to_owned(),
        Kind::Comment => "comment".to_owned(),
        Kind::ProcessingInstruction => "pi".to_owned(),
        Kind::Namespace => unreachable!(),
    });
    shown.collect::<Vec<_>>().join(" ")
}

#[test]
fn patterns_match_the_nodes_of_section_5_2() {
    #[rustfmt::skip]
    let cases = [
        ("/",                     "/"),
        ("*",                     "r a b1 b2 p:a c b3"),
        ("node()",                "r a one b1 b2 p:a c b3 two comment pi"),
        ("text()",                "one two"),
        ("comment()",             "comment"),
        ("processing-instruction()", "pi"),
        ("processing-instruction('t')", "pi"),
        ("processing-instruction('u')", ""),
        ("@*",                    "@id=x @n=1 @n=2 @n=3"),
        ("attribute::n",          "@n=1 @n=2 @n=3"),
        ("child::b",              "b1 b2 b3"),
        ("@node()",               "@id=x @n=1 @n=2 @n=3"),
        ("p:a",                   "p:a"),
        ("p:*",                   "p:a"),
        ("a",                     "a"),
        ("a/b",                   "b1 b2"),
        ("r/b",                   ""),
        ("r//b",                  "b1 b2 b3"),
        ("p:a//b",                "b3"),
        ("r//c//b",               "b3"),
        ("r//a//c//b",            ""),
        ("/r",                    "r"),
        ("/a",                    ""),
        ("/r/a",                  "a"),
        ("//a",                   "a"),
        ("//r",                   "r"),
        ("/r//b/@n",              "@n=1 @n=2 @n=3"),
        ("/b//text()",            ""),
        ("b[1]",                  "b1 b3"),
        ("b[2]",                  "b2"),
        ("b[last()]",             "b2 b3"),
        ("b[@n > 1]",             "b2 b3"),
        ("b[@n > 1][1]",          "b2 b3"),
        ("b[position() != last()]", "b1"),
        ("b[1][text()]",          "b3"),
        ("*[2]",                  "b2 p:a"),
        ("node()[1]",             "r a one c b3 two"),
        ("a[b]/b[2]",             "b2"),
        ("a | c | @id",           "a @id=x c"),
        ("id('x')",               "a"),
        ("id('x')/b",             "b1 b2"),
        ("id('x')//text()",       "one"),
        ("id('y')/b",             ""),
        ("key('k', 'c')",         "c"),
        ("key('k', 'c')/b",       "b3"),
        ("key('k', 'a')//b",      "b1 b2 b3"),
        ("@n[. = 2]",             "@n=2"),
        ("@*[1]",                 "@id=x @n=1 @n=2 @n=3"),
        ("r/node()[self::a]",     "a"),
    ];
    for (pattern, expected) in cases {
        assert_eq!(matching(pattern), expected, "{pattern}");
    }
}

#[test]
fn default_priorities_are_those_of_section_5_5() {
    let cases = [
        ("a", 0.0),
        ("p:a", 0.0),
        ("@n", 0.0),
        ("processing-instruction('t')", 0.0),
        ("p:*", -0.25),
        ("@p:*", -0.25),
        ("*", -0.5),
        ("@*", -0.5),
        ("node()", -0.5),
        ("text()", -0.5),
        ("comment()", -0.5),
        ("processing-instruction()", -0.5),
        ("/", 0.5),
        ("/a", 0.5),
        ("//a", 0.5),
        ("a/b", 0.5),
        ("a[1]", 0.5),
        ("id('x')", 0.5),
    ];
    for (text, priority) in cases {
        let pattern = Pattern::compile(text, &Keys).unwrap();
        assert_eq!(
            pattern.alternatives()[0].priority().to_bits(),
            f64::to_bits(priority),
            "{text}"
        );
    }
}

#[test]
fn each_alternative_has_the_nodes_that_it_can_match() {
    let name = |local: &str| ExpandedName::new("", local);
    let pattern = Pattern::compile(
        "a/b[1] | @n | * | @* | text() | comment() | processing-instruction('t') | node() | / | id('x')",
        &Keys,
    );
    let pattern = pattern.unwrap();
    let found: Vec<Matched> =
        pattern.alternatives().iter().map(|one| one.matched().clone()).collect();
    let expected = [
        Matched::Element(name("b")),
        Matched::Attribute(name("n")),
        Matched::AnyElement,
        Matched::AnyAttribute,
        Matched::Text,
        Matched::Comment,
        Matched::Instruction(Some("t".to_owned())),
        Matched::AnyChild,
        Matched::Root,
        Matched::Anything,
    ];
    assert_eq!(found, expected);
}

#[test]
fn other_expressions_are_not_patterns() {
    for text in [
        "..",
        ".",
        "a/..",
        "ancestor::a",
        "1",
        "'a'",
        "a + b",
        "(a)",
        "$x",
        "count(a)",
        "id(a)",
        "",
        "a |",
        "a/",
        "//",
        "a[",
        "q:a",
    ] {
        assert!(Pattern::compile(text, &Keys).is_err(), "{text}");
    }
}
