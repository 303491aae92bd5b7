//! Hostile expressions and documents: each ends with a result or an error, within its budget and its stack.

use xml::Document;
use xpath::limits;
use xpath::{Budget, BudgetExceeded, Context, Error, Expression, NoBindings, Pattern, Value};

const MIB: u64 = 1 << 20;

fn steps(max: u64) -> Error {
    BudgetExceeded::Steps { max }.into()
}

/// `n` elements `a`, as siblings or nested.
fn document(n: usize, nested: bool) -> Document {
    let inner =
        if nested { ["<a>".repeat(n), "</a>".repeat(n)].concat() } else { "<a><b/></a>".repeat(n) };
    Document::parse(format!("<r>{inner}</r>").as_bytes()).unwrap()
}

fn evaluate<'d>(text: &str, document: &'d Document, steps: u64) -> Result<Value<'d>, Error> {
    let expression = Expression::compile(text, &NoBindings).unwrap();
    expression.evaluate(
        Context::new(document.root()),
        &mut NoBindings,
        &Budget::new(steps, 64 * MIB),
    )
}

#[test]
fn paths_that_would_double_with_each_step_stay_polynomial() {
    let flat = document(300, false);
    let path = format!("count(//a{})", "/..//a".repeat(40));
    assert_eq!(evaluate(&path, &flat, 1_000_000), Ok(Value::Number(300.0)));
    let deep = document(60, true);
    for step in ["//a", "/ancestor-or-self::*", "/descendant-or-self::*", "/preceding::*/.."] {
        let path = format!("count(//a{})", step.repeat(30));
        assert!(evaluate(&path, &deep, 1_000_000).is_ok(), "{path}");
    }
    let siblings = format!("count(//a{})", "/following-sibling::a/preceding-sibling::a".repeat(10));
    assert_eq!(evaluate(&siblings, &flat, 10_000_000), Ok(Value::Number(299.0)));
}

#[test]
fn an_evaluation_ends_at_its_budget() {
    let flat = document(200, false);
    let nested = "//a[//a[//a[//a[//a = 'x']]]]";
    assert_eq!(evaluate(nested, &flat, 100_000), Err(steps(100_000)));
    let product = "count(//a[count(preceding::*) + count(following::*) = 398])";
    assert!(evaluate(product, &flat, 100_000).is_err());
    assert_eq!(evaluate(product, &flat, 1_000_000), Ok(Value::Number(200.0)));
}

#[test]
fn concat_is_charged_before_it_copies() {
    let document = Document::parse(format!("<r>{}</r>", "x".repeat(1 << 20)).as_bytes()).unwrap();
    let concat = |count: usize| format!("string-length(concat(''{}))", ",/r".repeat(count));
    assert_eq!(evaluate(&concat(64), &document, 10 * MIB), Ok(Value::Number(64.0 * MIB as f64)));
    let over = evaluate(&concat(65), &document, 10 * MIB);
    assert_eq!(over, Err(BudgetExceeded::Bytes { max: 64 * MIB }.into()));
}

#[test]
fn every_string_function_charges_the_text_that_it_reads() {
    let text = "x".repeat(1 << 20);
    let long = Document::parse(format!("<r><t>{text}</t></r>").as_bytes()).unwrap();
    for function in [
        "contains(/r/t, 'y')",
        "starts-with(/r/t, /r/t)",
        "substring-before(/r/t, 'y')",
        "substring-after(/r/t, 'y')",
        "substring(/r/t, 1048576)",
        "string-length(/r/t)",
        "normalize-space(/r/t)",
        "translate(/r/t, 'x', 'y')",
    ] {
        // Reading the text alone takes 16,384 steps.
        let outcome = evaluate(function, &long, 20_000);
        assert_eq!(outcome, Err(steps(20_000)), "{function}");
        assert!(evaluate(function, &long, 2_500_000).is_ok(), "{function}");
    }
}

#[test]
fn the_text_of_an_element_charges_its_descendants() {
    let flat = document(1_000, false);
    for expression in
        ["string(/r)", "concat(/r, 'x')", "/r = 'x'", "/r > 1", "sum(/r)", "number(/r)", "'x' = /r"]
    {
        assert_eq!(evaluate(expression, &flat, 1_500), Err(steps(1_500)), "{expression}");
        assert!(evaluate(expression, &flat, 2_500).is_ok(), "{expression}");
    }
}

#[test]
fn evaluations_share_a_budget() {
    let flat = document(100, false);
    let (budget, context) = (Budget::default(), Context::new(flat.root()));
    let expression = Expression::compile("//b", &NoBindings).unwrap();
    expression.evaluate(context, &mut NoBindings, &budget).unwrap();
    assert!((200..400).contains(&budget.steps_used()), "{budget:?}");
    expression.evaluate_boolean(context, &mut NoBindings, &budget).unwrap();
    assert!(budget.steps_used() < 420, "a boolean stops at the first node: {budget:?}");
}

#[test]
fn a_copy_of_a_value_is_charged() {
    let value = Value::String("x".repeat(1 << 20));
    assert_eq!(value.copy(&Budget::new(10_000, MIB)), Err(BudgetExceeded::Steps { max: 10_000 }));
    assert_eq!(value.copy(&Budget::new(20_000, 1_000)), Err(BudgetExceeded::Bytes { max: 1_000 }));
    assert_eq!(value.copy(&Budget::new(20_000, MIB)), Ok(value));
}

/// The steps that an expression needs; it fails with fewer.
fn steps_of(text: &str, document: &Document) -> u64 {
    let expression = Expression::compile(text, &NoBindings).unwrap();
    let evaluate = |steps: u64| {
        let budget = Budget::new(steps, 64 * MIB);
        let context = Context::new(document.root());
        expression.evaluate(context, &mut NoBindings, &budget).map(|_| budget.steps_used())
    };
    let used = evaluate(100_000_000).unwrap();
    assert_eq!(evaluate(used - 1), Err(steps(used - 1)), "{text}");
    used
}

#[test]
fn comparisons_of_node_sets_charge_the_text_that_they_read() {
    let text = "1".repeat(64 * 1_024);
    let one = format!("<r><x>{text}</x><y>{text}2</y></r>");
    let many = format!("<r>{}</r>", format!("<x>{text}</x><y>{text}2</y>").repeat(4));
    for (xml, nodes) in [(one, 2), (many, 8)] {
        let document = Document::parse(xml.as_bytes()).unwrap();
        for comparison in ["//x = //y", "//x != //x", "//x < //y", "//y >= //x"] {
            let used = steps_of(comparison, &document);
            let charged = nodes / 2 * 1_024..nodes * 4_096;
            assert!(charged.contains(&used), "{comparison}: {used}");
        }
    }
}

#[test]
fn comparing_every_node_with_the_whole_document_ends_by_the_default_budget() {
    let document = document(100_000, false);
    for expression in ["count(//a[. = /])", "count(//a[/ != .])", "//a[number(/) = 1]"] {
        let expression = Expression::compile(expression, &NoBindings).unwrap();
        let budget = Budget::default();
        let outcome = expression.evaluate(Context::new(document.root()), &mut NoBindings, &budget);
        assert_eq!(outcome, Err(steps(limits::BUDGET_STEPS)), "{expression}");
    }
}

#[test]
fn sets_are_compared_in_linear_time() {
    let items = |n: usize| (0..n).map(|i| format!("<a>{i}</a><b>x{i}</b>")).collect::<String>();
    let used = |n: usize| {
        let document = Document::parse(format!("<r>{}</r>", items(n)).as_bytes()).unwrap();
        ["//a = //b", "//a < //b", "//a != //a"].map(|text| steps_of(text, &document))
    };
    for (few, many) in used(100).into_iter().zip(used(1_000)) {
        assert!(many < few * 12, "{few} {many}");
    }
}

#[test]
fn the_first_node_of_a_union_is_found_without_looking_for_the_others() {
    let document = document(10_000, false);
    assert!(steps_of("string(//a | //b)", &document) < 100);
    assert!(steps_of("string(//b | //a | /r/a)", &document) < 100);
}

#[test]
fn namespace_nodes_charge_the_scopes_that_they_look_up() {
    let of = |prefix: &str| {
        (0..100).map(|i| format!(" xmlns:{prefix}{i}='urn:{i}'")).collect::<String>()
    };
    let shared = format!("<r{}>{}</r>", of("p"), "<a/>".repeat(30));
    let shared = Document::parse(shared.as_bytes()).unwrap();
    let own = format!("<r>{}</r>", format!("<a{}/>", of("q")).repeat(30));
    let own = Document::parse(own.as_bytes()).unwrap();
    for expression in [
        "count(//a/namespace::*[1])",
        "//a[name(namespace::*[1]) = 'x']",
        "//a/namespace::*[1] = 'x'",
    ] {
        let used = steps_of(expression, &shared);
        assert!((100..600).contains(&used), "{expression}: {used}");
        let used = steps_of(expression, &own);
        assert!((3_000..5_000).contains(&used), "{expression}: {used}");
    }
    // Each node looks up two different scopes.
    let alternating =
        "count(//a/namespace::*[name(../following-sibling::a[1]/namespace::*) = 'x'])";
    assert!(steps_of(alternating, &own) > 2 * 30 * 100 * 100);
}

#[test]
fn axes_charge_the_nodes_that_they_pass() {
    let deep = document(200, true);
    // Each node passes all its ancestors.
    assert!(steps_of("count(//a[following::a])", &deep) > 20_000);
    assert!(steps_of("count(//a[preceding::a])", &deep) > 20_000);
    let xml =
        format!("<r>{}</r>", ["<b>", &"<a>".repeat(200), &"</a>".repeat(200), "</b><c/>"].concat());
    let beside = Document::parse(xml.as_bytes()).unwrap();
    // It looks down to the deepest node.
    assert!(steps_of("//c/preceding::*[1]", &beside) > 400);
}

#[test]
fn predicates_are_charged_for_their_length() {
    let document = document(1_000, false);
    let sum = vec!["1"; 4_000].join(" + ");
    assert!(steps_of(&format!("//a[{sum} = 1]"), &document) > 500_000);
    let name = "n".repeat(8_000);
    assert!(steps_of(&format!("//a[{name}]"), &document) > 100_000);
    let literal = "x".repeat(6_400);
    assert!(steps_of(&format!("//a[concat('{literal}', '') = 1]"), &document) > 100_000);
}

#[test]
fn lookups_by_language_and_id_charge_what_they_look_at() {
    let attributes: String = (0..500).map(|i| format!(" n{i}=''")).collect();
    let xml = format!("<r{attributes}>{}</r>", "<a/>".repeat(100));
    let document = Document::parse(xml.as_bytes()).unwrap();
    assert!(steps_of("//a[lang('en')]", &document) > 50_000);
    let blank = Document::parse(format!("<r>{}</r>", " ".repeat(100_000)).as_bytes()).unwrap();
    assert!(steps_of("id(string(/r))", &blank) > 25_000);
}

#[test]
fn memory_is_charged_before_it_is_allocated() {
    let text = " é".repeat(100_000);
    let xml = format!("<r><t>{text}</t><u>{text}<v/>{text}</u>{}</r>", "<a/>".repeat(20_000));
    let document = Document::parse(xml.as_bytes()).unwrap();
    for expression in [
        "//a",
        "//a | //t",
        "(//a | //t)[. = 'x']",
        "//a[position() < last()]",
        "//a = //t | //a",
        "string(//u)",
        "//u = 'x'",
        "concat(//t, //t)",
        "normalize-space(//t)",
        "translate(//t, 'a', 'b')",
        "string(/r/t)",
    ] {
        let expression = Expression::compile(expression, &NoBindings).unwrap();
        let evaluate = |bytes: u64| {
            let budget = Budget::new(10_000_000, bytes);
            expression.evaluate(Context::new(document.root()), &mut NoBindings, &budget)
        };
        let exceeded = Err(BudgetExceeded::Bytes { max: 100_000 }.into());
        assert_eq!(evaluate(100_000), exceeded, "{expression}");
        assert!(evaluate(8 * MIB).is_ok(), "{expression}");
    }
}

#[test]
fn a_pattern_charges_the_attributes_that_it_counts() {
    let attributes: String = (0..500).map(|i| format!(" n{i}=''")).collect();
    let document = Document::parse(format!("<r{attributes}/>").as_bytes()).unwrap();
    let attribute = document.element().unwrap().attributes().last().unwrap();
    for pattern in ["@*[500]", "@*[last()]"] {
        let pattern = Pattern::compile(pattern, &NoBindings).unwrap();
        let matches = |steps| pattern.matches(attribute, &mut NoBindings, &Budget::new(steps, MIB));
        assert_eq!(matches(1_000), Ok(true), "{pattern}");
        assert_eq!(matches(400), Err(steps(400)), "{pattern}");
    }
}

#[test]
fn nesting_up_to_the_limit_fits_a_small_stack_and_more_is_rejected() {
    let document = document(3, true);
    let shapes: [(&str, &str, &str); 6] = [
        ("(", "1", ")"),
        ("1 + -(", "1", ")"),
        ("a[", "a", "]"),
        ("string(//a = (", "1", "))"),
        ("(0 or 1 and 2 = 3 < 4 + 5 * -(//a | //a[", "a", "]))"),
        ("concat('', ", "'x'", ")"),
    ];
    let run = move || {
        for (open, inner, close) in shapes {
            let nested =
                |depth: usize| format!("{}{inner}{}", open.repeat(depth), close.repeat(depth));
            let mut compiled = 0;
            for depth in [1, 20, limits::XPATH_DEPTH_MAX / 2 - 1, limits::XPATH_DEPTH_MAX - 1] {
                let Ok(expression) = Expression::compile(&nested(depth), &NoBindings) else {
                    continue;
                };
                let context = Context::new(document.root());
                let outcome = expression.evaluate(
                    context,
                    &mut NoBindings,
                    &Budget::new(3_000_000, 64 * MIB),
                );
                assert!(matches!(outcome, Ok(_) | Err(Error::Budget(_))), "{open} {depth}");
                compiled += 1;
            }
            assert!(compiled >= 2, "{open}");
            for depth in [limits::XPATH_DEPTH_MAX + 1, 1_000] {
                let error = Expression::compile(&nested(depth), &NoBindings).unwrap_err();
                assert!(error.message().contains("deep"), "{error}");
            }
        }
    };
    // The stack size of a worker thread.
    let thread = std::thread::Builder::new().stack_size(2 * 1024 * 1024).spawn(run).unwrap();
    thread.join().unwrap();
}

#[test]
fn long_chains_are_evaluated_or_rejected() {
    let document = document(2, false);
    for operator in [" or ", " and ", " + ", " * ", " div "] {
        let chain = vec!["1"; 5_000].join(operator);
        assert!(evaluate(&chain, &document, 1_000_000).is_ok(), "{operator}");
    }
    let union = vec!["//a"; 5_000].join("|");
    assert!(evaluate(&union, &document, 1_000_000).is_ok());
    let signs = "- ".repeat(5_000) + "1";
    assert_eq!(evaluate(&signs, &document, 100), Ok(Value::Number(1.0)));
    let path = vec!["a"; 5_000].join("/");
    assert!(evaluate(&path, &document, 1_000_000).is_ok());
    let predicates = format!("//a{}", "[1]".repeat(5_000));
    assert!(evaluate(&predicates, &document, 1_000_000).is_ok());
    for operator in ["=", "<", " != "] {
        let chain = vec!["1"; 5_000].join(operator);
        let error = Expression::compile(&chain, &NoBindings).unwrap_err();
        assert!(error.message().contains("comparisons"), "{error}");
    }
}

#[test]
fn too_long_expressions_are_rejected() {
    let long = format!("'{}'", "x".repeat(limits::XPATH_BYTES_MAX));
    assert!(Expression::compile(&long, &NoBindings).is_err());
    assert!(Pattern::compile(&long, &NoBindings).is_err());
}

#[test]
fn huge_numbers_have_all_their_digits() {
    let document = document(1, false);
    let huge = format!("string(1{})", "0".repeat(308));
    let expected = format!("1{}", "0".repeat(308));
    assert_eq!(evaluate(&huge, &document, 100), Ok(Value::String(expected)));
    let beyond = format!("1{}", "0".repeat(400));
    assert_eq!(evaluate(&beyond, &document, 100), Ok(Value::Number(f64::INFINITY)));
    let tiny = format!("string(.{}1)", "0".repeat(322));
    let shown = evaluate(&tiny, &document, 100).unwrap().into_string();
    assert!(shown.starts_with("0.000") && shown.len() == 325, "{shown}");
    let digits = format!("'{}' * 1 = .5", "9".repeat(60_000));
    assert_eq!(evaluate(&digits, &document, 10_000), Ok(Value::Boolean(false)));
}

#[test]
fn patterns_look_at_each_ancestor_once_per_step() {
    let deep = document(900, true);
    let pattern = Pattern::compile(&["x", &"//a".repeat(40)].concat(), &NoBindings).unwrap();
    for node in deep.root().descendants() {
        assert_eq!(pattern.matches(node, &mut NoBindings, &Budget::new(100_000, MIB)), Ok(false));
    }
}
