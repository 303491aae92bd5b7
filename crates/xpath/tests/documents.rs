//! Node-sets with nodes of several documents, which number names differently.

use xml::Document;
use xpath::{
    Budget, Context, Environment, Error, ExpandedName, Expression, NodeSet, StaticContext, Value,
    VariableId,
};

const FIRST: &[u8] = b"<list><order id='1'><symbol>IBM</symbol></order><order id='2'/></list>";
/// A document in which the names come in another order, so that the first document's numbers stand for other names.
const SECOND: &[u8] =
    b"<symbol><id/><order id='3'/><list><order id='4'><symbol>SUN</symbol></order></list></symbol>";

struct Both<'d>(NodeSet<'d>);

impl StaticContext for Both<'_> {
    fn variable(&self, name: &ExpandedName) -> Option<VariableId> {
        (name.local == "both").then_some(VariableId(0))
    }
}

impl<'d> Environment<'d> for Both<'d> {
    fn variable(&mut self, _: VariableId, _: &Budget) -> Result<Value<'d>, Error> {
        Ok(Value::NodeSet(self.0.clone()))
    }
}

#[test]
fn names_are_resolved_for_each_document_and_nodes_are_ordered_by_document() {
    for (expression, expected) in [
        ("$both//order/@id", "1 2 3 4"),
        ("$both//order[1]/@id", "1 3 4"),
        ("$both//order[last()]/@id", "2 3 4"),
        ("$both//symbol[. = 'SUN']/../@id", "4"),
        ("$both/list/order/@id", "1 2"),
        ("$both/symbol/order/@id | $both//list/order/@id", "1 2 3 4"),
        ("($both//order)[3]/@id", "3"),
        ("$both//order[symbol]/@id", "1 4"),
        ("count($both//order)", "4"),
        ("string($both//order[2]/@id)", "2"),
        ("count($both//order | $both//order[@id > 2])", "4"),
        ("$both//order[@id = 2]/preceding::*/@id", "1"),
    ] {
        check(expression, expected);
    }
}

#[test]
fn positions_among_siblings_are_counted_below_siblings_too() {
    let nested = "<l><o n='1'><o n='2'/><x/><o n='3'><o n='4'/><o n='5'/></o></o><o n='6'><o n='7'/></o><x><o n='8'/></x>\
                  <o n='9'/></l>";
    let document = Document::parse(nested.as_bytes()).unwrap();
    for (expression, expected) in [
        ("//o[1]/@n", "1 2 4 7 8"),
        ("//o[2]/@n", "3 5 6"),
        ("//o[3]/@n", "9"),
        ("//o[4]/@n", ""),
        ("//o[1]/o/@n", "2 3"),
        ("//o[1][2]/@n", ""),
        ("//o[@n > 1][1]/@n", "2 4 6 7 8"),
        ("//o[2][@n > 4]/@n", "5 6"),
        ("//o[position() < 3]/@n", "1 2 3 4 5 6 7 8"),
    ] {
        let compiled = Expression::compile(expression, &xpath::NoBindings).unwrap();
        let context = Context::new(document.root());
        let found = compiled.select(context, &mut xpath::NoBindings, &Budget::large()).unwrap();
        let found: Vec<_> = found.iter().map(|item| item.string_value()).collect();
        assert_eq!(found.join(" "), expected, "{expression}");
    }
}

/// `$both` has the roots of both documents. The string-values of the result are separated by spaces.
#[track_caller]
fn check(expression: &str, expected: &str) {
    let (first, second) = (Document::parse(FIRST).unwrap(), Document::parse(SECOND).unwrap());
    let roots = vec![second.root().into(), first.root().into()];
    let mut both = Both(NodeSet::from_unordered(roots));
    let compiled = Expression::compile(expression, &both).unwrap();
    let found = compiled.evaluate(Context::new(first.root()), &mut both, &Budget::large()).unwrap();
    let found = match &found {
        Value::NodeSet(nodes) => {
            nodes.iter().map(|item| item.string_value()).collect::<Vec<_>>().join(" ")
        }
        Value::String(_) | Value::Number(_) | Value::Boolean(_) => found.string().into_owned(),
    };
    assert_eq!(found, expected, "{expression}");
}
