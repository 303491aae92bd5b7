//! Hostile expressions and documents: a clear error or an answer, within limits, never a stack overflow.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use xml::Document;
use xpath::limits;
use xpath::{Budget, BudgetExceeded, Context, EvalError, Expression, NoBindings, Pattern, Value};

const MIB: u64 = 1 << 20;

fn steps(max: u64) -> EvalError {
    BudgetExceeded::Steps { max }.into()
}

/// `n` times `<a>`, beside or inside one another.
fn document(n: usize, nested: bool) -> Document {
    let inner =
        if nested { ["<a>".repeat(n), "</a>".repeat(n)].concat() } else { "<a><b/></a>".repeat(n) };
    Document::parse(format!("<r>{inner}</r>").as_bytes()).unwrap()
}

fn evaluate<'d>(text: &str, document: &'d Document, steps: u64) -> Result<Value<'d>, EvalError> {
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
    assert_eq!(evaluate(&siblings, &flat, 5_000_000), Ok(Value::Number(299.0)));
}

#[test]
fn an_evaluation_stops_at_its_budget() {
    let flat = document(200, false);
    let nested = "//a[//a[//a[//a[//a = 'x']]]]";
    assert_eq!(evaluate(nested, &flat, 100_000), Err(steps(100_000)));
    let product = "count(//a[count(preceding::*) + count(following::*) = 398])";
    assert!(evaluate(product, &flat, 100_000).is_err());
    assert_eq!(evaluate(product, &flat, 1_000_000), Ok(Value::Number(200.0)));
}

#[test]
fn a_text_put_together_is_refused_before_it_is_longer_than_its_limit() {
    let document = Document::parse(format!("<r>{}</r>", "x".repeat(1 << 20)).as_bytes()).unwrap();
    let concat = |count: u64| format!("string-length(concat(''{}))", ",/r".repeat(count as usize));
    assert_eq!(evaluate(&concat(64), &document, 10 * MIB), Ok(Value::Number(64.0 * MIB as f64)));
    let over = evaluate(&concat(65), &document, 10 * MIB);
    assert_eq!(over, Err(BudgetExceeded::Bytes { max: 64 * MIB }.into()));
}

#[test]
fn looking_at_text_costs_steps_in_every_function() {
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
        // The text itself is 16,384 steps.
        let told = evaluate(function, &long, 20_000);
        assert_eq!(told, Err(steps(20_000)), "{function}");
        assert!(evaluate(function, &long, 2_500_000).is_ok(), "{function}");
    }
}

#[test]
fn the_text_of_an_element_costs_what_it_looks_at_in_it() {
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

#[test]
fn nesting_up_to_the_limit_runs_on_a_small_stack_and_beyond_it_is_refused() {
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
                assert!(matches!(outcome, Ok(_) | Err(EvalError::Budget(_))), "{open} {depth}");
                compiled += 1;
            }
            assert!(compiled >= 2, "{open}");
            for depth in [limits::XPATH_DEPTH_MAX + 1, 1_000] {
                let error = Expression::compile(&nested(depth), &NoBindings).unwrap_err();
                assert!(error.message.contains("deep"), "{error}");
            }
        }
    };
    // The size of a worker's stack.
    let thread = std::thread::Builder::new().stack_size(2 * 1024 * 1024).spawn(run).unwrap();
    thread.join().unwrap();
}

#[test]
fn chains_are_flat_or_limited() {
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
        assert!(error.message.contains("comparisons"), "{error}");
    }
}

#[test]
fn expressions_that_are_too_long_are_refused() {
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
    assert_eq!(evaluate(&digits, &document, 100), Ok(Value::Boolean(false)));
}

#[test]
fn patterns_look_at_each_ancestor_once_per_step() {
    let deep = document(900, true);
    let pattern = Pattern::compile(&["x", &"//a".repeat(40)].concat(), &NoBindings).unwrap();
    for node in deep.root().descendants() {
        assert_eq!(pattern.matches(node, &mut NoBindings, &Budget::new(100_000, MIB)), Ok(false));
    }
}
