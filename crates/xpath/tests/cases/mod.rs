//! Evaluates the expressions of `data/*.cases`, and prints results as they do.

use xml::{Document, Kind, Node};
use xpath::{
    Budget, Context, Environment, Error, ExpandedName, Expression, FunctionId, Item, NodeSet,
    StaticContext, Value, VariableId,
};

/// The names that the cases use: the prefixes `p` and `q`, `$v` and `p:twice()`.
pub(crate) struct Given;

impl StaticContext for Given {
    fn namespace(&self, prefix: &str) -> Option<String> {
        matches!(prefix, "p" | "q").then(|| format!("urn:{prefix}"))
    }

    fn variable(&self, name: &ExpandedName) -> Option<VariableId> {
        (*name == ExpandedName::new("", "v")).then_some(VariableId(0))
    }

    fn function(&self, name: &ExpandedName, arguments: usize) -> Option<FunctionId> {
        (*name == ExpandedName::new("urn:p", "twice") && arguments == 1).then_some(FunctionId(0))
    }
}

impl<'d> Environment<'d> for Given {
    fn variable(&mut self, _: VariableId, _: &Budget) -> Result<Value<'d>, Error> {
        Ok(Value::Number(7.0))
    }

    fn call(
        &mut self,
        _: FunctionId,
        _: &Context<'d>,
        arguments: Vec<Value<'d>>,
        _: &Budget,
    ) -> Result<Value<'d>, Error> {
        Ok(Value::Number(2.0 * arguments[0].number()))
    }
}

/// Parses a document of the cases, which may declare IDs.
pub(crate) fn document(text: &str) -> Document {
    let options = xml::Options { doctype: xml::Doctype::Read, ..xml::Options::default() };
    Document::parse_with(text.as_bytes(), &options).unwrap()
}

/// The result, or `!` if the expression is rejected.
pub(crate) fn result(
    document: &Document,
    text: &str,
    show: impl Fn(&NodeSet<'_>) -> String,
) -> String {
    let Ok(expression) = Expression::compile(text, &Given) else { return "!".to_owned() };
    match expression.evaluate(Context::new(document.root()), &mut Given, &Budget::large()).unwrap()
    {
        Value::NodeSet(nodes) => show(&nodes),
        Value::String(text) => format!("\"{text}\""),
        number @ Value::Number(_) => number.string().into_owned(),
        Value::Boolean(value) => value.to_string(),
    }
}

/// `/shop[1]/item[2] /shop[1]/item[2]/@id`
pub(crate) fn paths(nodes: &NodeSet<'_>) -> String {
    let shown: Vec<String> = nodes.iter().map(path).collect();
    shown.join(" ")
}

fn path(item: Item<'_>) -> String {
    let Some(node) = item.node() else { return format!("namespace {}", item.local_name()) };
    let above = match node.parent() {
        Some(parent) if parent.kind() != Kind::Root => path(parent.into()),
        Some(_) | None => String::new(),
    };
    let own = match node.kind() {
        Kind::Root => return "/".to_owned(),
        Kind::Attribute => return format!("{above}/@{}", item.qualified_name()),
        Kind::Element => item.qualified_name().into_owned(),
        Kind::Text => "text()".to_owned(),
        Kind::Comment => "comment()".to_owned(),
        Kind::ProcessingInstruction => "processing-instruction()".to_owned(),
        Kind::Namespace => "namespace()".to_owned(),
    };
    format!("{above}/{own}[{}]", rank(node))
}

fn rank(node: Node<'_>) -> usize {
    let alike = |other: &Node<'_>| other.kind() == node.kind() && other.name() == node.name();
    let mut rank = 1;
    let mut before = node.previous_sibling();
    while let Some(sibling) = before {
        rank += usize::from(alike(&sibling));
        before = sibling.previous_sibling();
    }
    rank
}
