//! JSON that was edited as XML, with untouched parts unchanged: the mapping to XML and back makes numbers of texts, and
//! loses arrays with less than two items, empty values and white space.

use std::collections::HashMap;

use xpath::Budget;

use crate::error::Error;
use crate::json::{self, Builder, Kind, Ref};

/// A value before it was edited, the same by way of XML, and the present value by way of XML.
#[derive(Clone, Copy)]
struct Version<'d> {
    original: Ref<'d>,
    mapped: Ref<'d>,
    edited: Ref<'d>,
}

/// Parts left to build.
enum Build<'d> {
    Key(String),
    Value(Version<'d>),
    Raw(Ref<'d>),
    End,
}

/// `edited` with the values of `original` where it does not differ from `mapped`, which is `original` by way of XML.
///
/// # Errors
/// [`Error::Budget`].
pub fn restore(
    original: Ref<'_>,
    mapped: Ref<'_>,
    edited: Ref<'_>,
    budget: &Budget,
) -> Result<json::Document<'static>, Error> {
    budget.charge_memory(original.raw().len().saturating_add(edited.raw().len()))?;
    let mut out = Builder::new();
    let mut left = vec![Build::Value(Version { original, mapped, edited })];
    while let Some(next) = left.pop() {
        match next {
            Build::Key(name) => {
                out.key(&name);
            }
            Build::Raw(value) => {
                out.embed(value);
            }
            Build::End => {
                out.end();
            }
            Build::Value(version) => {
                let Version { original, mapped, edited } = version;
                budget.charge_scanning(edited.raw().len())?;
                let kinds = (original.kind(), mapped.kind(), edited.kind());
                let parts = match kinds {
                    _ if mapped.raw() == edited.raw() => {
                        left.push(Build::Raw(original));
                        continue;
                    }
                    (Kind::Object, Kind::Object, Kind::Object) => {
                        out.begin_object();
                        members(version, budget)?
                    }
                    (Kind::Array, ..) => match items(version) {
                        Some(items) => {
                            out.begin_array();
                            items
                        }
                        None => {
                            left.push(Build::Raw(edited));
                            continue;
                        }
                    },
                    _ => {
                        left.push(Build::Raw(edited));
                        continue;
                    }
                };
                budget.charge_memory(parts.len().saturating_mul(size_of::<Build<'_>>()))?;
                left.push(Build::End);
                left.extend(parts.into_iter().rev());
            }
        }
    }
    Ok(out.finish())
}

/// The members of an object, with those that XML cannot say (empty arrays) in their places.
fn members<'d>(version: Version<'d>, budget: &Budget) -> Result<Vec<Build<'d>>, Error> {
    let Version { original, mapped, edited } = version;
    let count = original.len() + mapped.len() + edited.len();
    budget.charge_steps(count as u64)?;
    budget.charge_memory(count.saturating_mul(2 * size_of::<Build<'_>>()))?;
    let (originals, mappeds): (HashMap<_, _>, HashMap<_, _>) =
        (original.members().collect(), mapped.members().collect());
    let mut made: Vec<(_, _)> = edited
        .members()
        .map(|(name, edited)| {
            let value = match (originals.get(&name), mappeds.get(&name)) {
                (Some(&original), Some(&mapped)) => {
                    Build::Value(Version { original, mapped, edited })
                }
                _ => Build::Raw(edited),
            };
            (name, value)
        })
        .collect();
    let mut before = None;
    for (name, value) in original.members() {
        budget.charge_steps(1)?;
        let is_lost = !mappeds.contains_key(&name);
        if is_lost {
            budget.charge_steps(made.len() as u64)?;
            if !made.iter().any(|(known, _)| *known == name) {
                let at = made.iter().position(|(known, _)| Some(known) == before.as_ref());
                made.insert(at.map_or(0, |at| at + 1), (name.clone(), Build::Raw(value)));
            }
        }
        before = Some(name);
    }
    let pairs = made.into_iter().map(|(name, value)| [Build::Key(name.into_owned()), value]);
    Ok(pairs.flatten().collect())
}

/// The items of an array; those before and behind added or removed items are unchanged. `None` if they cannot be
/// identified.
fn items(version: Version<'_>) -> Option<Vec<Build<'_>>> {
    let Version { original, mapped, edited } = version;
    let originals: Vec<_> = original.elements().collect();
    let mappeds: Vec<_> = match (&*originals, mapped.kind()) {
        // A single item is not an array by way of XML.
        ([only], kind) if kind != Kind::Array && only.kind() != Kind::Array => vec![mapped],
        (_, Kind::Array) if mapped.len() == originals.len() => mapped.elements().collect(),
        _ => return None,
    };
    let editeds: Vec<_> =
        if edited.kind() == Kind::Array { edited.elements().collect() } else { vec![edited] };
    if editeds.len() == originals.len() {
        let all = originals.into_iter().zip(mappeds).zip(editeds);
        let version =
            |((original, mapped), edited)| Build::Value(Version { original, mapped, edited });
        return Some(all.map(version).collect());
    }
    let is_same = |(mapped, edited): &(&Ref<'_>, &Ref<'_>)| mapped.raw() == edited.raw();
    let before = mappeds.iter().zip(&editeds).take_while(is_same).count();
    let most = mappeds.len().min(editeds.len()) - before;
    let behind = mappeds.iter().rev().zip(editeds.iter().rev());
    let behind = behind.take(most).take_while(is_same).count();
    let all = originals.iter().take(before);
    let all = all.chain(editeds.iter().take(editeds.len() - behind).skip(before));
    let all = all.chain(originals.iter().skip(originals.len() - behind));
    Some(all.map(|value| Build::Raw(*value)).collect())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::mapping::{Rules, to_json, to_xml};

    /// `original` by way of XML, with each of the `edits` there.
    #[track_caller]
    fn check(original: &str, edits: &[(&str, &str)], expect: &str) {
        let budget = Budget::default();
        let document = json::Document::parse(original.as_bytes()).unwrap();
        let tree = to_xml(document.root(), &Rules::DEFAULT, &budget).unwrap();
        let back = |tree: &xml::Document| {
            to_json(tree.element().unwrap(), &Rules::DEFAULT, &budget).unwrap()
        };
        let mut text =
            String::from_utf8(tree.write(xml::WriterOptions::default()).unwrap()).unwrap();
        for (old, new) in edits {
            assert!(text.contains(old), "{text}");
            text = text.replacen(old, new, 1);
        }
        let edited = back(&xml::Document::parse(text.as_bytes()).unwrap());
        let made = restore(document.root(), back(&tree).root(), edited.root(), &budget).unwrap();
        assert_eq!(made.text(), expect);
    }

    #[test]
    fn what_nobody_touched_is_as_it_was() {
        let body =
            r#"{ "id":"007", "n":"12","list":[ 1.50 ],"none":[],"o":{},"e":"","x":1E2,"s":"a"}"#;
        check(body, &[], body);
        check(
            body,
            &[("<s>a</s>", "<s>b</s>")],
            r#"{"id":"007","n":"12","list":[ 1.50 ],"none":[],"o":{},"e":"","x":1E2,"s":"b"}"#,
        );
        check(r#"{"none":[],"a":1}"#, &[("<a>1</a>", "")], r#"{"none":[]}"#);
        check(
            r#"{"a":{"b":["1"],"c":"2"}}"#,
            &[("<c>2</c>", "<c>x</c>")],
            r#"{"a":{"b":["1"],"c":"x"}}"#,
        );
    }

    #[test]
    fn items_of_arrays_are_changed_alone() {
        let body = r#"{"l":["1","2","3"],"one":[{"n":"1","m":2}]}"#;
        check(body, &[("<l>2</l>", "<l>x</l>")], r#"{"l":["1","x","3"],"one":[{"n":"1","m":2}]}"#);
        check(body, &[("<l>2</l>", "")], r#"{"l":["1","3"],"one":[{"n":"1","m":2}]}"#);
        check(
            body,
            &[("<l>3</l>", "<l>3</l><l>4</l>")],
            r#"{"l":["1","2","3",4],"one":[{"n":"1","m":2}]}"#,
        );
        check(body, &[("<l>1</l><l>2</l>", "")], r#"{"l":["3"],"one":[{"n":"1","m":2}]}"#);
        check(
            body,
            &[("<m>2</m>", "<m>x</m>")],
            r#"{"l":["1","2","3"],"one":[{"n":"1","m":"x"}]}"#,
        );
    }

    #[test]
    fn what_was_replaced_is_new() {
        check(r#"{"a":{"b":"1"}}"#, &[("<b>1</b>", "x")], r#"{"a":"x"}"#);
        check(r#"["7",["2"]]"#, &[("7", "x")], r#"["x",["2"]]"#);
        check(r#""7""#, &[("7", "2")], "2");
    }
}
