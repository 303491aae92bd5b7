//! Synapse expressions, against the cases in `cases/synapse.txt`.

use crate::common::Message;
use penstock_expression::{BodyUse, EvalContext, SynapseExpression};

const CASES: &str = include_str!("cases/synapse.txt");
const DIFFERENCES: &str = include_str!("cases/synapse-differences.txt");
const PAYLOAD: &str = r#"{"name":"Ann","age":30,"tags":["a","b","c"],"price":12.50,"zero":0,"none":null,"ok":true,"items":[{"p":5,"n":"x"},{"p":15,"n":"y"},{"p":25,"n":"z"}],"o":{"k-1":"v"}}"#;
const AROUND: &str = r#"{"headers":{"pick":"z","X-Y":"hy"},"vars":{"i":1,"j":3,"limit":20,"key":"name","obj":{"a":[1,2,3]},"text":"{\"in\":\"side\"}"},"synapse":{"uri":"/a"},"axis2":{"HTTP_SC":200},"query":{"q":"7"},"path":{"id":"42"},"function":{"f":"fn"},"configs":{"env":"test"},"registry":{"conf:/x":"{\"r\":1}","conf:/x#p":"pv"}}"#;

#[test]
fn every_expression_evaluates_as_its_case_says() {
    let message = Message::new(PAYLOAD, AROUND);
    let (mut count, mut wrong) = (0, Vec::new());
    for (line, case) in CASES.lines().enumerate() {
        if !case.is_empty() && !case.starts_with('#') {
            count += 1;
            wrong.extend(check(&message, case).map(|why| format!("{}: {why}", line + 1)));
        }
    }
    assert!(count > 200, "{count} cases were read");
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_difference_is_as_listed() {
    let message = Message::new(PAYLOAD, AROUND);
    let lines = DIFFERENCES.lines().filter(|line| !line.starts_with(['#', '=']));
    let mut count = 0;
    for text in lines {
        count += 1;
        let (case, theirs) = text.rsplit_once(" | ").expect("a case has their result");
        let case = case.replace("=> empty", "=> ");
        assert_eq!(check(&message, &case), None);
        assert!(!case.ends_with(&format!(" => {theirs}")), "{case} does not differ");
    }
    assert!(count >= 6, "{count} cases were read");
}

fn check(context: &dyn EvalContext, case: &str) -> Option<String> {
    let (source, arrow, expect) = [" => ", " !! "]
        .iter()
        .find_map(|arrow| case.split_once(arrow).map(|(source, expect)| (source, *arrow, expect)))
        .expect("a case has an arrow");
    let compiled = SynapseExpression::compile(source);
    let result = match &compiled {
        Err(error) => ("!!", error.to_string()),
        Ok(expression) => ("=>", expression.evaluate(context).unwrap().text().into_owned()),
    };
    let matches = result.0 == arrow.trim()
        && if result.0 == "=>" { result.1 == expect } else { result.1.contains(expect) };
    (!matches).then(|| format!("{case}\n    got {result:?}"))
}

#[test]
fn body_use_is_known_before_evaluation() {
    for (source, expect) in [
        ("vars.x", BodyUse::Untouched),
        ("headers.a + configs.b", BodyUse::Untouched),
        ("exists(payload.x)", BodyUse::Read),
        ("vars.x[?(@.y == payload.z)]", BodyUse::Read),
        ("$", BodyUse::Read),
        ("xpath('//a')", BodyUse::Read),
        ("true ? 1 : payload.a", BodyUse::Read),
    ] {
        let compiled = SynapseExpression::compile(source).unwrap();
        assert_eq!(compiled.body_use(), expect, "{source}");
    }
}

#[test]
fn unbounded_nesting_and_chains_are_rejected() {
    for source in [
        "(".repeat(1_000_000),
        "(".repeat(60_000),
        "[".repeat(60_000),
        "not(".repeat(15_000),
        "true and ".repeat(7_000),
        "1 + ".repeat(15_000) + "1",
        "1 < ".repeat(15_000) + "1",
        "true ? ".repeat(9_000),
        "payload[".repeat(8_000),
        format!("payload{}", ".a".repeat(30_000)),
    ] {
        let result = SynapseExpression::compile(&source);
        assert!(result.is_err(), "{}", &source[..10]);
    }
}
