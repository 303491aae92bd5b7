//! The engine against libxml2, by `xmllint --shell` (Debian: libxml2-utils), over documents and
//! expressions by dice. Numbers are compared as numbers: libxml2 prints fewer digits than section 4.2
//! asks for, and exponents.
//! What libxml2 2.9 is known to do otherwise (`data/differences.cases`) it isn't asked. Sets are compared without
//! their order, which `reference.rs` checks.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[allow(dead_code, reason = "shared with the cases, which read all of it")]
mod cases;
#[allow(dead_code, unreachable_pub, reason = "the crate's own module, shared with the fuzz target")]
#[path = "../src/properties/generate.rs"]
mod generate;
#[allow(dead_code, reason = "shared with the cases")]
mod xmllint;

use generate::Dice;
use xml::Document;
use xmllint::{answer, ask, decided_by, same};

const DOCUMENTS: u64 = 100;
const EXPRESSIONS: usize = 120;
/// What is longer is cut by xmllint.
const LONG: usize = 300;

#[test]
fn libxml2_answers_the_same() {
    let mut different = Vec::new();
    for seed in 1..=DOCUMENTS {
        let mut dice = Dice::seeded(seed);
        let text = generate::document(&mut dice);
        let expressions: Vec<String> =
            (0..EXPRESSIONS).map(|_| generate::expression(&mut dice)).collect();
        let theirs = ask(&text, &expressions);
        assert_eq!(theirs.len(), expressions.len(), "an answer for each expression");
        let document = Document::parse(text.as_bytes()).unwrap();
        for (expression, theirs) in expressions.iter().zip(&theirs) {
            if decided_by(expression).is_some() || expression.len() > LONG {
                continue;
            }
            let ours = answer(&document, expression);
            if !same(&ours, theirs) {
                let (ours, theirs) = differing(&ours, theirs);
                different.push(format!("{text}\n{expression}\nours: {ours}\ntheirs: {theirs}\n"));
            }
        }
    }
    let few: String = different.iter().take(20).map(String::as_str).collect();
    assert!(different.is_empty(), "{} differ, among them\n{few}", different.len());
}

/// From the first line on that differs, a few of each.
fn differing(ours: &str, theirs: &str) -> (String, String) {
    let common = ours.lines().zip(theirs.lines()).take_while(|(a, b)| a == b).count();
    let few = |text: &str| text.lines().skip(common).take(4).collect::<Vec<_>>().join(" ");
    (few(ours), few(theirs))
}
