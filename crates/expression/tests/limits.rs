//! The input and output of an evaluation are bounded by its budget, for any message.

use crate::common::Message;
use penstock_expression::json::Document;
use penstock_expression::jsonpath::{Path, Selection};
use penstock_expression::template::{Argument, FreeMarker, MediaType, PayloadTemplate, Settings};
use penstock_expression::{Budget, Error, EvalContext, Expression, SynapseExpression};

const DEPTH: usize = 900;

/// Nested objects around a string of `bytes`.
fn json_chain(bytes: usize) -> String {
    let (open, close) = ("{\"a\":".repeat(DEPTH), "}".repeat(DEPTH));
    format!("{open}\"{}\"{close}", "x".repeat(bytes))
}

struct Xml(xml::Document);

impl EvalContext for Xml {
    fn xml(&self) -> Result<Option<&xml::Document>, Error> {
        Ok(Some(&self.0))
    }
    fn variable_xml(&self, name: &str) -> Option<&xml::Document> {
        (name == "x.payload").then_some(&self.0)
    }
    fn unix_ms(&self) -> i64 {
        0
    }
}

/// Nested elements around a text of `bytes` and `empty` empty elements.
fn xml_chain(bytes: usize, empty: usize) -> Xml {
    let (open, close) = ("<a>".repeat(DEPTH), "</a>".repeat(DEPTH));
    let text = format!("{open}{}{}{close}", "x".repeat(bytes), "<b/>".repeat(empty));
    Xml(xml::Document::parse(text.as_bytes()).unwrap())
}

fn text_len(source: &str, context: &dyn EvalContext) -> Result<usize, Error> {
    let expression = Expression::compile(source).unwrap();
    expression.evaluate(context).map(|value| value.text().len())
}

#[track_caller]
fn assert_exceeds(source: &str, context: &dyn EvalContext) {
    let result = text_len(source, context);
    assert!(matches!(result, Err(Error::Budget(_))), "{source}: {result:?}");
}

#[test]
fn nested_results_do_not_multiply_a_body_past_the_budget() {
    let (large, small) = (json_chain(1 << 20), json_chain(1));
    let (large, small) = (Message::new(&large, "{}"), Message::new(&small, "{}"));
    for (source, context) in [
        ("json-eval($..a)", &large),
        ("${payload..a}", &large),
        ("${$.a.a..a}", &large),
        ("${length(payload..a)}", &large),
        ("${payload[?(@..a size 3)]}", &large),
        ("json-eval($.append($..a))", &large),
        ("json-eval($.concat($..a))", &large),
        ("json-eval($..a..a..a)", &small),
        ("${payload..a..a..a}", &small),
    ] {
        assert_exceeds(source, context);
    }
    let xml = xml_chain(1 << 20, 0);
    for source in ["//a", "//a/text() | //a", "${xpath(\"//a\")}"] {
        assert_exceeds(source, &xml);
    }
    assert_exceeds("//a", &xml_chain(0, 10_000));
    assert_eq!(text_len("//a/text()", &xml_chain(1_000, 0)), Ok(1_000));
}

#[test]
fn all_parts_of_an_evaluation_share_one_budget() {
    let large = format!("\"{}\"", "x".repeat(2 << 20));
    let large = Message::new(&large, "{}");
    assert_eq!(text_len("${toUpper(payload) + payload}", &large), Ok(4 << 20));
    let uppers = vec!["toUpper(payload)"; 40].join(" + ");
    assert_exceeds(&format!("${{{uppers}}}"), &large);

    let xml = xml_chain(0, 2_000);
    let count = "xpath('count(//b)')";
    assert_eq!(text_len(&format!("${{{count}}}"), &xml), Ok(6));
    let within = |source: &str, steps| {
        let budget = Budget::new(steps, 1 << 20);
        let expression = SynapseExpression::compile(source).unwrap();
        expression.evaluate_within(&xml, &budget).map(|value| value.text().len())
    };
    let budget = Budget::new(1_000_000, 1 << 20);
    let once = SynapseExpression::compile(count).unwrap();
    once.evaluate_within(&xml, &budget).unwrap();
    let used = 1_000_000 - budget.steps_left();
    assert!(used > 1_000, "{used}");
    let twice = format!("{count} + {count}");
    assert_eq!(within(&twice, 2 * used + 10), Ok(6));
    assert!(matches!(within(&twice, 2 * used - 10), Err(Error::Budget(_))));

    // A template's parts, too.
    let arguments = vec![Expression::compile("//b[1]").unwrap(); 3];
    let arguments = arguments.into_iter().map(Argument::new).collect();
    let settings = Settings::new(MediaType::Text);
    let template = PayloadTemplate::compile("$1$2$3", arguments, settings).unwrap();
    let budget = Budget::new(100, 1 << 20);
    let result = template.render_within(&xml, &budget, &mut Vec::new());
    assert!(matches!(result, Err(Error::Budget(_))), "{result:?}");
}

#[test]
fn an_xpath_in_an_expression_is_compiled_at_load_or_bounded() {
    let xml = xml_chain(3, 0);
    let error = Expression::compile("${xpath('//a[')}").unwrap_err();
    assert_eq!(error.position(), Some((1, 3)));
    assert_eq!(text_len("${xpath('//' + 'a[1]/text()')}", &xml), Ok(3));
    assert_eq!(text_len("${xpath('//text()', 'x.payload')}", &xml), Ok(3));
    let long = format!("${{xpath('{}' + '//a')}}", " ".repeat(2_000));
    assert_eq!(text_len(&long, &xml), Ok(0));
    let computed = Expression::compile("${xpath('//' + 'a')}").unwrap();
    let result = computed.evaluate_within(&xml, &Budget::new(100, 1_000)).map(|_| ());
    assert!(matches!(result, Err(Error::Budget(_))), "{result:?}");
}

#[test]
fn a_template_does_not_make_a_body_larger_than_the_budget() {
    let chain = json_chain(1 << 20);
    let chain = Message::new(&chain, "{}");
    // A name that every element of its array repeats.
    let named = format!("{{\"{}\":[1{}]}}", "n".repeat(1 << 20), ",1".repeat(1_000));
    let named = Message::new(&named, "{}");
    for (media, format, argument, context) in [
        (MediaType::Json, "{\"a\":$1}", "json-eval($..a)", &chain),
        (MediaType::Xml, "<a>$1</a>", "json-eval($..a)", &chain),
        (MediaType::Xml, "<a>$1</a>", "json-eval($)", &named),
        (MediaType::Json, &format!("{{\"a\":\"{}\"}}", "$1".repeat(80)), "json-eval($.a)", &chain),
        (MediaType::Xml, "<a><!--$1--></a>", "json-eval($..a)", &chain),
        (MediaType::Text, &"$1".repeat(80), "json-eval($)", &chain),
    ] {
        let argument = Argument::new(Expression::compile(argument).unwrap());
        let template = PayloadTemplate::compile(format, vec![argument], Settings::new(media));
        let mut body = Vec::new();
        let result = template.unwrap().render(context, &mut body);
        assert!(matches!(result, Err(Error::Budget(_))), "{format}: {result:?}");
        assert!(body.capacity() <= 128 << 20, "{format}: {}", body.capacity());
    }
    let argument = vec![Expression::compile("json-eval($..a)").unwrap()];
    let template = FreeMarker::compile("${args.arg1}", argument).unwrap();
    let result = template.render(&chain, &mut Vec::new());
    assert!(matches!(result, Err(Error::Budget(_))), "{result:?}");
}

#[test]
fn a_result_written_value_by_value_is_not_limited() {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let chain = json_chain(1 << 20);
    let document = Document::parse(chain.as_bytes()).unwrap();
    let found = Path::compile("$..a").unwrap().evaluate(document.root()).unwrap();
    assert!(matches!(found.to_json(), Err(Error::Budget(_))));
    let mut count = Count(0);
    found.write_json(&mut count).unwrap();
    assert!(count.0 > DEPTH << 20, "{}", count.0);
}

#[test]
fn work_on_text_and_arrays_is_charged_for_each_element() {
    let text = format!("{{\"s\":\"{}\",\"a\":[1{}]}}", "x".repeat(300_000), ",1".repeat(2_999));
    let message = Message::new(&text, "{}");
    for path in [
        "$.a[?($.s size 3)]",
        "$.a[?($.s empty true)]",
        "$.a[?($.s.length() == 3)]",
        "$.a[?($.s =~ /x+y/)]",
        "$.a[?(@ =~ $.s)]",
        "$.a[?($.a contains 2)]",
    ] {
        assert_exceeds(&format!("json-eval({path})"), &message);
    }
}

#[test]
fn a_slice_walks_its_array_once() {
    let text = format!("[{}[0]]", "[0],".repeat(100_000));
    let document = Document::parse(text.as_bytes()).unwrap();
    for (path, count) in [("$[0:100000]", 100_000), ("$[::-2]", 50_001), ("$[-3:]", 3)] {
        let budget = Budget::new(300_000, 64 << 20);
        let found = Path::compile(path).unwrap().evaluate_within(document.root(), &budget);
        let found = found.unwrap().into_value().unwrap();
        assert_eq!(found.json().unwrap().len(), count, "{path}");
    }
}

/// A body whose `t` and one of whose names take long to unescape, beside 100,000 items.
fn escaped_body() -> String {
    let long = "x".repeat(1 << 20);
    let items = vec!["{\"b\":[1]}"; 100_000].join(",");
    format!("{{\"\\n{long}\":1,\"t\":\"\\n{long}\",\"u\":\"1\",\"i\":[{items}]}}")
}

#[test]
fn unescaping_a_string_is_charged_each_time() {
    let body = escaped_body();
    let message = Message::new(&body, "{}");
    for path in ["$.i[?(@.b == $.t)]", "$.i[?(@.b in $['t','u'])]", "$.i[?(@.b in $.*)]"] {
        assert_exceeds(&format!("json-eval({path})"), &message);
    }
    for test in ["payload.t == 'a'", "payload.t?has_content", "payload.i?last.b?size == 2"] {
        let source = format!("<#list payload.i as x><#if {test}>a</#if></#list>");
        let template = FreeMarker::compile(&source, Vec::new()).unwrap();
        let result = template.render(&message, &mut Vec::new());
        assert!(matches!(result, Err(Error::Budget(_))), "{test}: {result:?}");
    }
}

#[test]
fn a_name_with_long_escapes_does_not_slow_down_looking_up_others() {
    let body = escaped_body();
    let message = Message::new(&body, "{}");
    assert_eq!(text_len("json-eval($.i[?(@.b == $.u)])", &message), Ok(2));
}

#[test]
fn nodes_are_charged_where_they_are_visited_and_where_they_are_read() {
    let wide = xml_chain(1 << 20, 10_000);
    for read in [
        "payload.**?size",
        "payload.a.**?reverse?size",
        "payload.**.b?size",
        "payload.@@text?length",
        "payload.@@markup?length",
        "payload.**.b?sort_by('@@text')?size",
        "payload.**.b?map(b -> b.@@text)?size",
    ] {
        let render = |count: u32| {
            let source = format!("<#list 1..{count} as i>${{{read}}};</#list>");
            let template = FreeMarker::compile(&source, Vec::new()).unwrap();
            template.render(&wide, &mut Vec::new())
        };
        let result = render(5_000);
        assert!(matches!(result, Err(Error::Budget(_))), "{read}: {result:?}");
    }
    let template = FreeMarker::compile("${payload.**?size}", Vec::new()).unwrap();
    let mut made = Vec::new();
    template.render(&wide, &mut made).unwrap();
    assert_eq!(made, b"10900");
}

#[test]
fn assigned_names_are_charged_where_they_are_walked() {
    let assigned: String = (0..20_000).map(|at| format!("<#assign a{at}=1>")).collect();
    let source = format!("{assigned}<#list 1..100000 as x>${{a19999}}</#list>");
    let template = FreeMarker::compile(&source, Vec::new()).unwrap();
    let result = template.render(&Message::new("{}", "{}"), &mut Vec::new());
    assert!(matches!(result, Err(Error::Budget(_))), "{result:?}");
}

#[test]
fn sorting_mixed_values_has_one_order_and_reads_each_value_once() {
    let mixed = ["10", "\"1a\"", "9", "\"b\"", "\"2\"", "-1.5", "true"].join(",");
    let body = format!("[{}]", vec![mixed; 20].join(","));
    let template = FreeMarker::compile("${payload?sort?join(',')}", Vec::new()).unwrap();
    let mut out = Vec::new();
    template.render(&Message::new(&body, "{}"), &mut out).unwrap();
    let out = String::from_utf8(out).unwrap();
    let mut sorted: Vec<_> = out.split(',').collect();
    sorted.dedup();
    assert_eq!(sorted, ["-1.5", "2", "9", "10", "1a", "b", "true"]);

    let body = format!("[\"{}\"{}]", "9".repeat(2 << 20), ",1".repeat(20_000));
    let template = FreeMarker::compile("${payload?sort?size}", Vec::new()).unwrap();
    template.render_within(&Message::new(&body, "{}"), &Budget::large(), &mut Vec::new()).unwrap();
}

#[test]
fn the_deepest_expressions_are_evaluated_on_a_small_stack() {
    let run = || {
        let message = Message::new("{}", "{}");
        // Operators that all nest on the left, as deep as is allowed.
        let chain = |open: usize, each: usize| {
            let (open, close) = ("(".repeat(open), format!("{})", "+1".repeat(each)).repeat(open));
            format!("{open}1{close}")
        };
        let longest = chain(30, 8);
        let template = FreeMarker::compile(&format!("${{{longest}}}"), Vec::new()).unwrap();
        template.render(&message, &mut Vec::new()).unwrap();
        let expression = SynapseExpression::compile(&longest).unwrap();
        assert_eq!(expression.evaluate(&message).unwrap().text(), "241");
        // One more is rejected, however it nests.
        let ranges = format!("${{1{}}}", "..1".repeat(20_000));
        for source in [format!("${{{}}}", chain(30, 9)), ranges] {
            assert!(matches!(FreeMarker::compile(&source, Vec::new()), Err(Error::Syntax { .. })));
        }
        assert!(SynapseExpression::compile(&chain(30, 9)).is_err());
    };
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(run).unwrap();
    thread.join().unwrap();
}

#[test]
fn patterns_are_charged_for_what_they_read() {
    let words = format!("{},", "word ".repeat(20)).repeat(1_000);
    let hostile = "A".repeat(100_000);
    let render = |template: &str, text: &str, budget: &Budget| {
        let body = format!("{{\"t\":\"{text}\"}}");
        let compiled = FreeMarker::compile(template, Vec::new()).unwrap();
        let mut made = Vec::new();
        compiled.render_within(&Message::new(&body, "{}"), budget, &mut made)?;
        Ok::<_, Error>(String::from_utf8(made).unwrap())
    };
    for template in [
        "${payload.t?replace('.*[^A-Z]|[A-Z]', '', 'r')}",
        "${payload.t?split('.*[^A-Z]|[A-Z]', 'r')?size}",
        // A pattern that is large when compiled, many times.
        "<#list 1..1000 as n>${payload.t?matches('\\\\w{8}' + n)?c}</#list>",
    ] {
        let result = render(template, &hostile, &Budget::default());
        assert!(matches!(result, Err(Error::Budget(_))), "{template}: {result:?}");
    }
    let budget = Budget::default();
    let made = render("${payload.t?replace('(\\\\w+) ,', '$1; ', 'r')}", &words, &budget).unwrap();
    assert_eq!(made.matches("word; ").count(), 1_000);
    // The last pattern is kept.
    let once = Budget::default();
    render("<#list 1..1 as n>${'a'?matches('\\\\w')?c}</#list>", "", &once).unwrap();
    let often = Budget::default();
    render("<#list 1..100 as n>${'a'?matches('\\\\w')?c}</#list>", "", &often).unwrap();
    assert!(often.steps_used() < 2 * once.steps_used(), "{}", often.steps_used());
}

#[test]
fn patterns_of_a_message_are_small() {
    for (pattern, selected) in [("a+", 1), ("\\\\w{9}", 1), ("\\\\w{90}", 0)] {
        let text = "a".repeat(9);
        let body = format!("[{{\"re\":\"{pattern}\",\"t\":\"{text}\"}}]");
        let document = Document::parse(body.as_bytes()).unwrap();
        let path = Path::compile("$[?(@.t =~ @.re)]").unwrap();
        let found = path.evaluate_within(document.root(), &Budget::default()).unwrap();
        let Selection::Many(found) = found else { panic!("{pattern}") };
        assert_eq!(found.len(), selected, "{pattern}");
    }
    let items =
        vec!["{\"re\":\"(\\\\w{10}|x)y\",\"t\":\"a\"},{\"re\":\"(\\\\w{10}|x)z\",\"t\":\"a\"}"; 50];
    let body = format!("[{}]", items.join(","));
    let document = Document::parse(body.as_bytes()).unwrap();
    let path = Path::compile("$[?(@.t =~ @.re)]").unwrap();
    let result = path.evaluate_within(document.root(), &Budget::default());
    assert!(matches!(result, Err(Error::Budget(_))));
}

#[test]
fn what_the_payload_factory_inserts_is_charged_before_it_is_copied() {
    let text = format!("[{}1]", "1,".repeat(100_000));
    let around = format!("{{\"synapse\":{{\"t\":\"{text}\"}}}}");
    let argument = Argument::new(Expression::compile("$ctx:t").unwrap());
    let settings = Settings::new(MediaType::Json);
    let template = PayloadTemplate::compile("{\"a\":$1}", vec![argument], settings).unwrap();
    // The text and its copy, but not the tree that shows that it is JSON.
    let small = Budget::new(2_000_000, 2 * text.len() as u64 + 1_000);
    let message = Message::new("{}", &around);
    let result = template.render_within(&message, &small, &mut Vec::new());
    assert!(matches!(result, Err(Error::Budget(_))), "{result:?}");
    template.render_within(&message, &Budget::default(), &mut Vec::new()).unwrap();
}

#[test]
fn the_tree_of_json_is_charged_by_its_nodes_and_does_not_outgrow_the_budget() {
    const NODE_BYTES: u64 = 16;
    // The array and its elements. The text in them looks like more.
    let text = format!("[{}]", vec!["\",:[{\""; 100].join(","));
    let read = |bytes: u64| {
        let budget = Budget::new(1_000_000, bytes);
        let read = Document::parse_within(text.as_bytes(), &budget);
        (read.map(|document| document.node_count()), budget)
    };
    let (nodes, budget) = read(101 * NODE_BYTES);
    assert_eq!((nodes, budget.bytes_left()), (Ok(101), 0));
    let (nodes, budget) = read(101 * NODE_BYTES - 1);
    assert!(matches!(nodes, Err(Error::Budget(_))), "{nodes:?}");
    assert!(budget.charge_memory(0).is_err(), "until it is resumed");
    budget.resume();
    assert_eq!(budget.bytes_left(), 101 * NODE_BYTES - 1);
    let malformed = Document::parse_within(b"[1, 2", &budget);
    assert!(matches!(malformed, Err(Error::Json { .. })), "{malformed:?}");
}
