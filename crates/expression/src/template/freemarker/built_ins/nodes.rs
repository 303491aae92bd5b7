//! Built-ins of the nodes of XML.

use xpath::Budget;

use super::super::evaluate::{Model, Step};
use super::super::nodes::Nodes;
use super::{BuiltIn, whole};
use crate::json;
use crate::value::Value;

/// The result of a built-in that does not read the texts of the nodes; `None` for all others.
pub(in super::super) fn of_nodes<'s>(
    built_in: BuiltIn,
    nodes: &Nodes<'s>,
    at: usize,
    budget: &Budget,
) -> Step<Option<Model<'s>>> {
    let all = nodes.as_slice();
    let truth = |truth| Model::Value(Value::Boolean(truth));
    let one = |node: Option<_>| {
        node.map_or(Model::Value(Value::Null), |node| Model::Nodes(Nodes::One(node)))
    };
    Ok(Some(match built_in {
        BuiltIn::Size => Model::Value(whole(all.len())),
        BuiltIn::HasContent => truth(!all.is_empty()),
        BuiltIn::Default => Model::Nodes(nodes.clone()),
        BuiltIn::First => one(all.first().copied()),
        BuiltIn::Last => one(all.last().copied()),
        BuiltIn::Reverse => Model::Nodes(Nodes::collect(all.iter().rev().copied(), budget)?),
        BuiltIn::NodeName => Model::Value(Value::Text(nodes.single(at)?.local_name().into())),
        BuiltIn::IsString => truth(matches!(nodes, Nodes::One(_))),
        BuiltIn::IsSequence | BuiltIn::IsHash => truth(true),
        BuiltIn::IsNumber | BuiltIn::IsBoolean => truth(false),
        _ => return Ok(None),
    }))
}

/// Input of all other built-ins: the text of the node, or the array of the texts.
pub(in super::super) fn read_nodes<'s>(
    built_in: BuiltIn,
    nodes: &Nodes<'s>,
    at: usize,
    budget: &Budget,
) -> Step<Value<'s>> {
    if !matches!(built_in, BuiltIn::Join | BuiltIn::Sort | BuiltIn::SeqContains) {
        return Ok(Value::Text(nodes.text(at, budget)?));
    }
    let mut builder = json::Builder::new();
    builder.begin_array();
    for node in nodes.as_slice() {
        let text = Value::Text(Nodes::One(*node).text(at, budget)?);
        super::charge_copy(&text, budget)?;
        text.build(&mut builder);
    }
    Ok(Value::Made(Box::new(builder.finish())))
}
