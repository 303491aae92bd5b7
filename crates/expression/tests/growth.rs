//! Conversions that make text longer are charged for the result.

use crate::common::Message;
use penstock_expression::template::{Argument, FreeMarker, MediaType, PayloadTemplate, Settings};
use penstock_expression::{Budget, Error, Expression};

/// Each of its characters takes two bytes, and six in upper case.
fn greek() -> String {
    format!("\"{}\"", "ΐ".repeat(10_000))
}

#[test]
fn a_change_of_case_is_charged_for_the_longest_result() {
    let body = greek();
    let message = Message::new(&body, "{}");
    let upper = Expression::compile("${toUpper(payload)}").unwrap();
    let made = |bytes| upper.evaluate_within(&message, &Budget::new(1 << 20, bytes)).map(drop);
    assert!(matches!(made(50_000), Err(Error::Budget(_))));
    assert!(made(150_000).is_ok());

    let source = "<#if payload?upper_case?has_content>a</#if>";
    let upper = FreeMarker::compile(source, Vec::new()).unwrap();
    let made = |bytes| upper.render_within(&message, &Budget::new(1 << 20, bytes), &mut Vec::new());
    assert!(matches!(made(50_000), Err(Error::Budget(_))));
    assert!(made(250_000).is_ok());
}

#[test]
fn markup_in_json_is_charged_with_its_references() {
    let body = format!("\"{}\"", "&".repeat(10_000));
    let message = Message::new(&body, "{}");
    let argument = Argument::new(Expression::compile("json-eval($)").unwrap());
    let settings = Settings::new(MediaType::Json).with_escape_xml(true);
    let template = PayloadTemplate::compile("{\"a\":$1}", vec![argument], settings).unwrap();
    let made =
        |bytes| template.render_within(&message, &Budget::new(1 << 20, bytes), &mut Vec::new());
    assert!(matches!(made(40_000), Err(Error::Budget(_))));
    assert!(made(150_000).is_ok());
}
