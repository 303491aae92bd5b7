//! JSONPath, against the cases in `cases/jsonpath.txt`.

use penstock_expression::Error;
use penstock_expression::json::Document;
use penstock_expression::jsonpath::{Options, Path};

const CASES: &str = include_str!("cases/jsonpath.txt");
const DIFFERENCES: &str = include_str!("cases/jsonpath-differences.txt");

#[test]
fn every_path_evaluates_as_its_case_says() {
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

#[test]
fn every_difference_is_as_listed() {
    let (mut document, mut cause, mut count, mut wrong) = (String::new(), "", 0, Vec::new());
    for (line, text) in DIFFERENCES.lines().enumerate() {
        if let Some(given) = text.strip_prefix("= ") {
            document = given.to_owned();
        } else if let Some(given) = text.strip_prefix("== ") {
            cause = given;
        } else if !text.is_empty() && !text.starts_with('#') {
            count += 1;
            let (case, theirs) = text.rsplit_once(" | ").expect("a case has their result");
            let why = check(&document, Options::default(), case);
            wrong.extend(why.map(|why| format!("{}: {cause}: {why}", line + 1)));
            assert!(!case.ends_with(&format!(" => {theirs}")), "{case} does not differ");
        }
    }
    assert!(count > 30, "{count} cases were read");
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
    let evaluate = |path: &str| -> Result<String, String> {
        let path = Path::compile_with(path, options).map_err(|error| error.to_string())?;
        let found = path.evaluate(document.root()).map_err(|error| error.to_string())?;
        found.to_json().map_err(|error| error.to_string())
    };
    let (shown, matches) = if let Some((path, expect)) = case.split_once(" => ") {
        let result = evaluate(path);
        (format!("{result:?}"), result.as_deref() == Ok(expect))
    } else {
        let (path, expect) = case.split_once(" !! ").expect("a case has an arrow");
        let result = evaluate(path);
        (format!("{result:?}"), result.is_err_and(|error| error.contains(expect)))
    };
    (!matches).then(|| format!("{case}\n    got {shown}"))
}

#[test]
fn a_path_that_multiplies_results_stops_at_the_budget() {
    let nested = format!("{}{}", "[".repeat(300), "]".repeat(300));
    let wide = format!("[{}1]", "[1,2,3],".repeat(100));
    for document in [nested, wide] {
        let document = Document::parse(document.as_bytes()).unwrap();
        for path in ["$..*..*..*..*", "$..[?(@..[?(@..[?(@..*)])])]", "$..*.append($..*)"] {
            let path = Path::compile(path).unwrap();
            let size = path.evaluate(document.root()).and_then(|found| Ok(found.to_json()?.len()));
            assert!(matches!(size, Ok(..=67_108_864) | Err(Error::Budget(_))), "{size:?}");
        }
    }
}

#[test]
fn a_pattern_that_would_backtrack_takes_linear_time() {
    let text = format!("[\"{}!\"]", "a".repeat(100_000));
    let document = Document::parse(text.as_bytes()).unwrap();
    let path = Path::compile("$[?(@ =~ /(a+)+b/)]").unwrap();
    assert_eq!(path.evaluate(document.root()).unwrap().to_json().unwrap(), "[]");
}

#[test]
fn unbounded_nesting_and_length_are_rejected() {
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
