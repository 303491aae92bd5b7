//! One type for all languages.

use crate::common::Message;
use penstock_expression::template::{Argument, MediaType, PayloadTemplate, Settings};
use penstock_expression::{BodyUse, Budget, Error, EvalContext, Expression, PropertyScope, Value};

const AROUND: &str = r#"{"headers":{"X-Y":"hy"},"vars":{"v":{"a":1}},"synapse":{"uri.var.id":"7"},"axis2":{"HTTP_SC":200},"client":{"c":"cc"},"operation":{"o":"oo"},"function":{"f":"ff"},"system":{"s":"ss"},"environment":{"e":"ee"},"registry":{"r":"rr"},"configs":{"env":"test"},"query":{"q":"qq"}}"#;

#[test]
fn the_syntax_selects_the_language() {
    use BodyUse::{Read, Untouched};
    for (source, body, expect) in [
        ("json-eval($.a[0])", Read, "1.50"),
        ("json-eval($.missing)", Read, ""),
        ("json-eval($..a)", Read, "[[1.50]]"),
        ("json-eval($.a.)", Read, "[1.50]"),
        ("${payload.a[0]}", Read, "1.50"),
        ("${vars.v.a}", Untouched, "1"),
        ("$ctx:uri.var.id", Untouched, "7"),
        ("get-property('uri.var.id')", Untouched, "7"),
        (" get-property( \"default\" , 'uri.var.id' ) ", Untouched, "7"),
        ("$axis2:HTTP_SC", Untouched, "200"),
        ("get-property('axis2','HTTP_SC')", Untouched, "200"),
        ("$axis2-client:c", Untouched, "cc"),
        ("get-property('axis2-client','c')", Untouched, "cc"),
        ("$operation:o", Untouched, "oo"),
        ("$func:f", Untouched, "ff"),
        ("$sys:s", Untouched, "ss"),
        ("get-property('system','s')", Untouched, "ss"),
        ("get-property('file','env')", Untouched, "test"),
        ("concat(get-property('file','env'), '!')", Untouched, "test!"),
        ("get-property('file','none')", Untouched, ""),
        ("$env:e", Untouched, "ee"),
        ("get-property('registry','r')", Untouched, "rr"),
        ("$trp:x-y", Untouched, "hy"),
        ("get-property('transport','X-Y')", Untouched, "hy"),
        ("$url:q", Untouched, "qq"),
        ("$var:v", Untouched, "{\"a\":1}"),
        ("$ctx:missing", Untouched, ""),
        ("$trp:missing", Untouched, ""),
    ] {
        let message = Message::new(r#"{"a":[1.50]}"#, AROUND);
        let expression = Expression::compile(source).unwrap();
        assert_eq!(expression.body_use(), body, "{source}");
        assert_eq!(expression.text(&message).unwrap(), expect, "{source}");
        assert_eq!(expression.to_string(), source);
    }
    let message = Message::new("null", "{}");
    assert_eq!(Expression::literal("$ctx:x").text(&message).unwrap(), "$ctx:x");
}

#[test]
fn a_json_path_reads_a_property_and_has_computed_parts() {
    use BodyUse::{Read, Untouched};
    let around = r#"{"headers":{"X-Ids":"[4,5]"},"vars":{"v":{"a":[1,2]}},"synapse":{"text":"{\"a\":{\"b\":[1.50,\"x\"]}}","no":"{a","name":"b","path":"$.a.b","whole":"$ctx:text.a","dots":"a.b"},"axis2":{"j":"[[1],[2]]"}}"#;
    for (source, body, expect) in [
        ("json-eval($ctx:text.a.b[0])", Untouched, "1.50"),
        ("json-eval($ctx:text.a.b[1])", Untouched, "x"),
        ("json-eval($ctx:text)", Untouched, "{\"a\":{\"b\":[1.50,\"x\"]}}"),
        ("json-eval($ctx:text.a.)", Untouched, "{\"b\":[1.50,\"x\"]}"),
        ("json-eval($ctx:text..b)", Untouched, "[[1.50,\"x\"]]"),
        ("json-eval($ctx:text.none)", Untouched, ""),
        ("json-eval($ctx:no.a)", Untouched, ""),
        ("json-eval($ctx:no)", Untouched, "{a"),
        ("json-eval($ctx:absent.a)", Untouched, ""),
        ("json-eval($axis2:j.[1][0])", Untouched, "2"),
        ("json-eval($trp:X-Ids[1])", Untouched, "5"),
        ("json-eval($var:v.a[?(@ > 1)])", Untouched, "[2]"),
        ("json-eval($.a.{$ctx:name})", Read, "7"),
        ("json-eval($.a.{$ctx:name}.)", Read, "7"),
        ("json-eval({$ctx:path})", Read, "7"),
        ("json-eval({$ctx:whole}.b[0])", Read, "1.50"),
        ("json-eval($.all[?(@.n == '{$ctx:name}')].v)", Read, "[2]"),
        ("json-eval($.a.{json-eval($.key)})", Read, "7"),
        ("json-eval($.a.{get-property('name')})", Read, "7"),
        ("json-eval($.a.{$ctx:absent}b)", Read, "7"),
        ("json-eval($.all[?(@.n =~ /b{1}/)].v)", Read, "[2]"),
    ] {
        let payload = r#"{"a":{"b":7},"key":"b","all":[{"n":"a","v":1},{"n":"b","v":2}]}"#;
        let message = Message::new(payload, around);
        let expression = Expression::compile(source).unwrap();
        assert_eq!(expression.body_use(), body, "{source}");
        assert_eq!(expression.text(&message).unwrap(), expect, "{source}");
    }
    let message = Message::new("{}", around);
    let failure = Expression::compile("json-eval($.a[{$ctx:name})").unwrap().text(&message);
    let failure = failure.unwrap_err().to_string();
    assert!(failure.starts_with("invalid JSONPath `$.a[b`: "), "{failure}");
    let long = format!("{{\"synapse\":{{\"name\":\"{}\"}}}}", "a".repeat(1100));
    let message = Message::new("{}", &long);
    let failure = Expression::compile("json-eval($.{$ctx:name})").unwrap().text(&message);
    assert_eq!(failure.unwrap_err().to_string(), "computed JSONPath longer than 1024 bytes");
}

struct Soap(xml::Document);

impl EvalContext for Soap {
    fn xml(&self) -> Result<Option<&xml::Document>, Error> {
        Ok(Some(&self.0))
    }
    fn property(&self, _scope: PropertyScope, name: &str) -> Option<Value<'_>> {
        (name == "x").then_some(Value::Integer(7))
    }
    fn unix_ms(&self) -> i64 {
        0
    }
}

#[test]
fn everything_else_is_xpath() {
    use BodyUse::{Read, Untouched};
    let document = b"<o:a xmlns:o='urn:o'><b c='1'> x\xc2\xa0</b><b>y</b></o:a>";
    let soap = Soap(xml::Document::parse(document).unwrap());
    let namespaces = [("p".to_owned(), "urn:o".to_owned())];
    for (source, body, expect) in [
        ("//b[1]", Read, "x"),
        ("//b", Read, "<b xmlns:o=\"urn:o\" c=\"1\">x</b><b xmlns:o=\"urn:o\">y</b>"),
        ("//b/text()", Read, " x\u{a0}y"),
        ("/p:a", Read, "<o:a xmlns:o=\"urn:o\"><b c=\"1\"> x\u{a0}</b><b>y</b></o:a>"),
        ("//none", Read, ""),
        ("/p:a/b/@c", Read, "1"),
        ("count(//b) + 0.5", Read, "2.5"),
        ("count(//b)", Read, "2.0"),
        ("1500000000 + count(//b)", Read, "1.500000002E9"),
        ("string(count(//b))", Read, "2"),
        ("//b = 'y'", Read, "true"),
        ("$body//b[2]", Read, "y"),
        ("concat(get-property('x'), 'y')", Untouched, "7y"),
        ("$ctx:x + 1", Untouched, "8.0"),
        ("${xpath('//b[2]')}", Read, "y"),
    ] {
        let expression = Expression::compile_with(source, &namespaces).unwrap();
        assert_eq!(expression.body_use(), body, "{source}");
        assert_eq!(expression.text(&soap).unwrap(), expect, "{source}");
    }
    let nodes = Expression::compile("//b").unwrap();
    assert_eq!(nodes.nodes(&soap, &Budget::default()).unwrap().len(), 2);
    let json = Expression::compile("json-eval($)").unwrap();
    assert!(json.nodes(&soap, &Budget::default()).is_err());
    for (source, expect) in [
        ("//b", "<r><b xmlns:o=\"urn:o\" c=\"1\"> x\u{a0}</b><b xmlns:o=\"urn:o\">y</b></r>"),
        ("//b[1]", "<r>x</r>"),
        ("//b/text()", "<r> x\u{a0}y</r>"),
    ] {
        let argument =
            Argument { markup: true, ..Argument::new(Expression::compile(source).unwrap()) };
        let settings = Settings::new(MediaType::Xml);
        let template = PayloadTemplate::compile("<r>$1</r>", vec![argument], settings).unwrap();
        let mut made = Vec::new();
        template.render(&soap, &mut made).unwrap();
        assert_eq!(String::from_utf8(made).unwrap(), expect);
    }
    let json = Message::new("{}", "{}");
    assert_eq!(nodes.text(&json).unwrap(), "", "there is no XML");
    let path = Expression::compile("json-eval($.a)").unwrap();
    assert!(path.evaluate(&soap).unwrap().is_null(), "there is no JSON");
}

/// A message without a body; the property `p` and the variable `v` hold XML.
struct Holder(xml::Document);

impl EvalContext for Holder {
    fn property(&self, _scope: PropertyScope, name: &str) -> Option<Value<'_>> {
        (name == "q").then(|| Value::Text("plain".into()))
    }
    fn property_nodes(&self, scope: PropertyScope, name: &str) -> Option<Vec<xml::Node<'_>>> {
        let held = scope == PropertyScope::Synapse && name == "p";
        held.then(|| self.0.root().children().flat_map(xml::Node::children).collect())
    }
    fn variable_xml(&self, name: &str) -> Option<&xml::Document> {
        (name == "v").then_some(&self.0)
    }
    fn unix_ms(&self) -> i64 {
        0
    }
}

#[test]
fn a_property_may_hold_nodes() {
    let document = b"<r><a i='1'><x>one</x></a><a><x>two</x></a></r>";
    let holder = Holder(xml::Document::parse(document).unwrap());
    for (source, expect) in [
        ("get-property('p')//x", "<x>one</x><x>two</x>"),
        ("get-property('default', 'p')[2]/x", "two"),
        ("$ctx:p/x", "<x>one</x><x>two</x>"),
        ("count(get-property('p'))", "2.0"),
        ("string(get-property('p')/@i)", "1"),
        ("get-property('p')", "<a i=\"1\"><x>one</x></a><a><x>two</x></a>"),
        ("$ctx:p", "<a i=\"1\"><x>one</x></a><a><x>two</x></a>"),
        ("$var:v//a[1]/x", "one"),
        ("$var:v", "<r><a i=\"1\"><x>one</x></a><a><x>two</x></a></r>"),
        ("concat(get-property('q'), get-property('p'))", "plainone"),
    ] {
        let expression = Expression::compile(source).unwrap();
        assert_eq!(expression.body_use(), BodyUse::Untouched, "{source}");
        assert_eq!(expression.text(&holder).unwrap(), expect, "{source}");
    }
    let argument = Argument {
        markup: true,
        ..Argument::new(Expression::compile("get-property('p')").unwrap())
    };
    let settings = Settings::new(MediaType::Xml);
    let template = PayloadTemplate::compile("<o>$1</o>", vec![argument], settings).unwrap();
    let mut made = Vec::new();
    template.render(&holder, &mut made).unwrap();
    assert_eq!(
        String::from_utf8(made).unwrap(),
        "<o><a i=\"1\"><x>one</x></a><a><x>two</x></a></o>"
    );
    let plain = Expression::compile("get-property('q')").unwrap();
    assert!(plain.nodes(&holder, &Budget::default()).is_err());
}

#[test]
fn an_error_at_load_has_a_position() {
    for (source, position) in [
        ("", (1, 1)),
        ("json-eval($.a[)", (1, 15)),
        ("  json-eval($..)", (1, 15)),
        ("json-eval($.a", (1, 14)),
        ("${payload.}", (1, 11)),
        ("//a[", (1, 5)),
        ("unknown:a", (1, 1)),
        ("get-property('nowhere', 'x')", (1, 1)),
    ] {
        let error = Expression::compile(source).unwrap_err();
        assert_eq!(error.position(), Some(position), "{source}: {error}");
    }
}
