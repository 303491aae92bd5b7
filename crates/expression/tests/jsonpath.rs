//! JSONPath, against the cases in `cases/jsonpath.txt`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail by panicking")]

use penstock_expression::EvalError;
use penstock_expression::json::Document;
use penstock_expression::jsonpath::{Options, Path};

const CASES: &str = include_str!("cases/jsonpath.txt");

#[test]
fn every_path_answers_what_its_case_says() {
    let (mut document, mut options, mut count) = (String::new(), Options::default(), 0);
    let mut wrong = Vec::new();
    for (line, text) in CASES.lines().enumerate() {
        if let Some(given) = text.strip_prefix("= ") {
            document = given.to_owned();
        } else if let Some(names) = text.strip_prefix("options") {
            options = read_options(names);
        } else if !text.is_empty() && !text.starts_with('#') {
            count += 1;
            wrong.extend(check(&document, options, text).map(|why| format!("{}: {why}", line + 1)));
        }
    }
    assert!(count > 200, "{count} cases were read");
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
}

fn read_options(names: &str) -> Options {
    let mut options = Options::default();
    for name in names.split_whitespace() {
        match name {
            "AS_PATH_LIST" => options.as_path_list = true,
            "ALWAYS_RETURN_LIST" => options.always_return_list = true,
            "DEFAULT_PATH_LEAF_TO_NULL" => options.default_path_leaf_to_null = true,
            "SUPPRESS_EXCEPTIONS" => options.suppress_exceptions = true,
            "REQUIRE_PROPERTIES" => options.require_properties = true,
            other => panic!("unknown option {other}"),
        }
    }
    options
}

fn check(document: &str, options: Options, case: &str) -> Option<String> {
    let document = Document::parse(document.as_bytes()).unwrap();
    let answer = |path: &str| -> Result<String, String> {
        let path = Path::compile_with(path, options).map_err(|error| error.to_string())?;
        let found = path.evaluate(document.root()).map_err(|error| error.to_string())?;
        found.to_json().map_err(|error| error.to_string())
    };
    let (told, fine) = if let Some((path, expect)) = case.split_once(" => ") {
        let told = answer(path);
        (format!("{told:?}"), told.as_deref() == Ok(expect))
    } else {
        let (path, expect) = case.split_once(" !! ").expect("a case has an arrow");
        let told = answer(path);
        (format!("{told:?}"), told.is_err_and(|error| error.contains(expect)))
    };
    (!fine).then(|| format!("{case}\n    told {told}"))
}

#[test]
fn a_path_that_multiplies_stops_at_the_limit() {
    let nested = format!("{}{}", "[".repeat(300), "]".repeat(300));
    let wide = format!("[{}1]", "[1,2,3],".repeat(100));
    for document in [nested, wide] {
        let document = Document::parse(document.as_bytes()).unwrap();
        for path in ["$..*..*..*..*", "$..[?(@..[?(@..[?(@..*)])])]", "$..*.append($..*)"] {
            let path = Path::compile(path).unwrap();
            let told = path.evaluate(document.root()).and_then(|found| Ok(found.to_json()?.len()));
            assert!(matches!(told, Ok(..=41_943_040) | Err(EvalError::Limit(_))), "{told:?}");
        }
    }
}

#[test]
fn a_pattern_that_backtracks_elsewhere_takes_linear_time() {
    let text = format!("[\"{}!\"]", "a".repeat(100_000));
    let document = Document::parse(text.as_bytes()).unwrap();
    let path = Path::compile("$[?(@ =~ /(a+)+b/)]").unwrap();
    assert_eq!(path.evaluate(document.root()).unwrap().to_json().unwrap(), "[]");
}

#[test]
fn a_path_nested_or_long_without_end_is_refused() {
    for path in [
        "$[?(".repeat(1_000_000),
        format!("$[?({}@.a", "(".repeat(60_000)),
        format!("$[?({}@.a)]", "!".repeat(60_000)),
        format!("${}", ".a".repeat(30_000)),
        format!("$[?(@.a in {})]", "[".repeat(60_000)),
        format!("$[{}]", "9".repeat(60_000)),
    ] {
        assert!(Path::compile(&path).is_err(), "{}", &path[..20]);
    }
}
