//! Hostile expressions and documents: a clear error or an answer, within limits, never a stack overflow.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use xml::Document;
use xpath::limits;
use xpath::{Context, Environment, EvalError, Expression, Nothing, Pattern, Value};

struct Steps(u64);

impl Environment<'_> for Steps {
    fn steps_left(&self) -> u64 {
        self.0
    }
}

/// `n` times `<a>`, beside or inside one another.
fn document(n: usize, nested: bool) -> Document {
    let inner =
        if nested { ["<a>".repeat(n), "</a>".repeat(n)].concat() } else { "<a><b/></a>".repeat(n) };
    Document::parse(format!("<r>{inner}</r>").as_bytes()).unwrap()
}

fn evaluate<'d>(text: &str, document: &'d Document, steps: u64) -> Result<Value<'d>, EvalError> {
    let expression = Expression::compile(text, &Nothing).unwrap();
    expression.evaluate(Context::new(document.root()), &mut Steps(steps))
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
    assert_eq!(evaluate(nested, &flat, 100_000), Err(EvalError::Steps(100_000)));
    let product = "count(//a[count(preceding::*) + count(following::*) = 398])";
    assert!(evaluate(product, &flat, 100_000).is_err());
    assert_eq!(evaluate(product, &flat, 1_000_000), Ok(Value::Number(200.0)));
}

#[test]
fn a_text_put_together_is_refused_before_it_is_longer_than_its_limit() {
    let document = Document::parse(format!("<r>{}</r>", "x".repeat(1 << 20)).as_bytes()).unwrap();
    let parts = limits::XPATH_TEXT_BYTES_MAX >> 20;
    let concat = |count: usize| format!("string-length(concat(''{}))", ",/r".repeat(count));
    let whole = evaluate(&concat(parts), &document, limits::XPATH_STEPS_MAX);
    assert_eq!(whole, Ok(Value::Number(limits::XPATH_TEXT_BYTES_MAX as f64)));
    let over = evaluate(&concat(parts + 1), &document, limits::XPATH_STEPS_MAX);
    assert_eq!(over, Err(EvalError::Text(limits::XPATH_TEXT_BYTES_MAX)));
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
        assert_eq!(told, Err(EvalError::Steps(20_000)), "{function}");
        assert!(evaluate(function, &long, 2_500_000).is_ok(), "{function}");
    }
}

#[test]
fn the_text_of_an_element_costs_what_it_looks_at_in_it() {
    let flat = document(1_000, false);
    for expression in
        ["string(/r)", "concat(/r, 'x')", "/r = 'x'", "/r > 1", "sum(/r)", "number(/r)", "'x' = /r"]
    {
        assert_eq!(
            evaluate(expression, &flat, 1_500),
            Err(EvalError::Steps(1_500)),
            "{expression}"
        );
        assert!(evaluate(expression, &flat, 2_500).is_ok(), "{expression}");
    }
}

#[test]
fn a_variable_costs_what_its_copy_takes_and_the_error_tells_the_whole_budget() {
    struct Long;
    impl<'d> Environment<'d> for Long {
        fn variable(&mut self, _: xpath::VariableId) -> Result<Value<'d>, EvalError> {
            Ok(Value::String("x".repeat(1 << 20)))
        }
        fn steps_left(&self) -> u64 {
            10_000
        }
        fn steps_max(&self) -> u64 {
            5_000_000
        }
    }
    struct Names;
    impl xpath::StaticContext for Names {
        fn variable(&self, _: &xpath::ExpandedName) -> Option<xpath::VariableId> {
            Some(xpath::VariableId(0))
        }
    }
    let expression = Expression::compile("boolean($s)", &Names).unwrap();
    let document = document(1, false);
    let told = expression.evaluate(Context::new(document.root()), &mut Long);
    assert_eq!(told, Err(EvalError::Steps(5_000_000)));
}

#[test]
fn what_was_spent_is_told() {
    struct Told(u64);
    impl Environment<'_> for Told {
        fn steps_taken(&mut self, steps: u64) {
            self.0 += steps;
        }
    }
    let flat = document(100, false);
    let mut told = Told(0);
    let expression = Expression::compile("//b", &Nothing).unwrap();
    expression.evaluate(Context::new(flat.root()), &mut told).unwrap();
    assert!((200..400).contains(&told.0), "{}", told.0);
    expression.evaluate_boolean(Context::new(flat.root()), &mut told).unwrap();
    assert!(told.0 < 420, "a boolean stops at the first node: {}", told.0);
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
                let Ok(expression) = Expression::compile(&nested(depth), &Nothing) else {
                    continue;
                };
                let context = Context::new(document.root());
                let outcome = expression.evaluate(context, &mut Steps(3_000_000));
                assert!(matches!(outcome, Ok(_) | Err(EvalError::Steps(_))), "{open} {depth}");
                compiled += 1;
            }
            assert!(compiled >= 2, "{open}");
            for depth in [limits::XPATH_DEPTH_MAX + 1, 1_000] {
                let error = Expression::compile(&nested(depth), &Nothing).unwrap_err();
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
        let error = Expression::compile(&chain, &Nothing).unwrap_err();
        assert!(error.message.contains("comparisons"), "{error}");
    }
}

#[test]
fn expressions_that_are_too_long_are_refused() {
    let long = format!("'{}'", "x".repeat(limits::XPATH_BYTES_MAX));
    assert!(Expression::compile(&long, &Nothing).is_err());
    assert!(Pattern::compile(&long, &Nothing).is_err());
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
    let pattern = Pattern::compile(&["x", &"//a".repeat(40)].concat(), &Nothing).unwrap();
    for node in deep.root().descendants() {
        assert_eq!(pattern.matches(node, &mut Steps(100_000)), Ok(false));
    }
}
