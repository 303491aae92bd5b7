//! Compares the engine with libxml2 by `xmllint --shell` (Debian: libxml2-utils) on generated documents and
//! expressions, from fixed seeds. Numbers are compared by value: libxml2 prints fewer digits than section 4.2
//! requires, and exponents. Expressions on which libxml2 2.9 departs from the recommendation
//! (`data/differences.cases`) are left out. Node-sets are compared without their order, which the reference
//! evaluator of `src/properties` checks.

use crate::generate;
use crate::xmllint;

use generate::Choices;
use xml::Document;
use xmllint::{decided_by, result, run, same};

const DOCUMENTS: u64 = 100;
const EXPRESSIONS: usize = 120;
/// xmllint truncates longer lines.
const LONG: usize = 300;

#[test]
fn libxml2_has_the_same_results() {
    let mut different = Vec::new();
    for seed in 1..=DOCUMENTS {
        let mut choices = Choices::seeded(seed);
        let text = generate::document(&mut choices);
        let expressions: Vec<String> =
            (0..EXPRESSIONS).map(|_| generate::expression(&mut choices)).collect();
        let theirs = run(&text, &expressions);
        assert_eq!(theirs.len(), expressions.len(), "a result for each expression");
        let document = Document::parse(text.as_bytes()).unwrap();
        for (expression, theirs) in expressions.iter().zip(&theirs) {
            if decided_by(expression).is_some() || expression.len() > LONG {
                continue;
            }
            let ours = result(&document, expression);
            if !same(&ours, theirs) {
                let (ours, theirs) = differing(&ours, theirs);
                different.push(format!("{text}\n{expression}\nours: {ours}\ntheirs: {theirs}\n"));
            }
        }
    }
    let few: String = different.iter().take(20).map(String::as_str).collect();
    assert!(different.is_empty(), "{} differ, among them\n{few}", different.len());
}

/// A few lines of each, from the first that differs.
fn differing(ours: &str, theirs: &str) -> (String, String) {
    let common = ours.lines().zip(theirs.lines()).take_while(|(a, b)| a == b).count();
    let few = |text: &str| text.lines().skip(common).take(4).collect::<Vec<_>>().join(" ");
    (few(ours), few(theirs))
}
