//! The grammar.

use std::sync::Arc;

use super::functions::Function;
use super::{Access, Node, Operator, Root, Xpath, XpathSource};
use crate::context::{BodyUse, ParameterKind, PropertyScope};
use crate::cursor::{Compiled, Cursor};
use crate::jsonpath::{Externals, Path};
use crate::value::Value;
use crate::xpath_bridge;

/// Compiles the expression at the cursor; returns also its body use.
pub(super) fn expression(
    cursor: &mut Cursor<'_>,
    namespaces: &[(String, String)],
) -> Compiled<(Node, BodyUse)> {
    let mut parser = Parser { namespaces, body: BodyUse::Untouched };
    let node = parser.choice(cursor)?;
    Ok((node, parser.body))
}

struct Parser<'n> {
    namespaces: &'n [(String, String)],
    body: BodyUse,
}

/// Collects the expressions inside a path.
struct PathExpressions<'p, 'n> {
    parser: &'p mut Parser<'n>,
    slots: Vec<Node>,
}

impl<'s> Externals<'s> for PathExpressions<'_, '_> {
    fn operand(&mut self, cursor: &mut Cursor<'s>) -> Compiled<Option<usize>> {
        cursor.space();
        if !cursor
            .rest()
            .starts_with(|first: char| first.is_alphanumeric() || "_$('\"".contains(first))
        {
            return Ok(None);
        }
        let node = self.parser.sum(cursor)?;
        self.slots.push(node);
        Ok(Some(self.slots.len() - 1))
    }
}

const COMPARISONS: &[(&str, Operator)] = &[
    ("==", Operator::Equal),
    ("!=", Operator::NotEqual),
    ("<=", Operator::LessOrEqual),
    (">=", Operator::GreaterOrEqual),
    ("<", Operator::Less),
    (">", Operator::Greater),
];
const SUMS: &[(&str, Operator)] = &[("+", Operator::Add), ("-", Operator::Subtract)];
const PRODUCTS: &[(&str, Operator)] =
    &[("*", Operator::Multiply), ("/", Operator::Divide), ("%", Operator::Modulo)];

impl Parser<'_> {
    fn choice(&mut self, cursor: &mut Cursor<'_>) -> Compiled<Node> {
        cursor.enter()?;
        let test = self.comparison(cursor)?;
        let node = if cursor.eat_spaced("?") {
            let yes = self.choice(cursor)?;
            cursor.expect(":")?;
            let no = self.choice(cursor)?;
            Node::Choice(Box::new((test, yes, no)))
        } else {
            test
        };
        cursor.leave();
        Ok(node)
    }

    /// Micro Integrator's precedence: comparisons between logical expressions.
    fn comparison(&mut self, cursor: &mut Cursor<'_>) -> Compiled<Node> {
        self.joined(cursor, COMPARISONS, Self::logical)
    }

    /// `and` and `or` with one precedence, right-associative.
    fn logical(&mut self, cursor: &mut Cursor<'_>) -> Compiled<Node> {
        let left = self.sum(cursor)?;
        let operator = if cursor.eat_spaced("&&") || cursor.eat_word("and") {
            Operator::And
        } else if cursor.eat_spaced("||") || cursor.eat_word("or") {
            Operator::Or
        } else {
            return Ok(left);
        };
        cursor.enter()?;
        let right = self.logical(cursor)?;
        cursor.leave();
        Ok(binary(left, operator, right))
    }

    fn sum(&mut self, cursor: &mut Cursor<'_>) -> Compiled<Node> {
        self.joined(cursor, SUMS, |parser, cursor| parser.joined(cursor, PRODUCTS, Self::factor))
    }

    /// Operands with binary operators between them, left-associative.
    fn joined(
        &mut self,
        cursor: &mut Cursor<'_>,
        operators: &[(&str, Operator)],
        operand: fn(&mut Self, &mut Cursor<'_>) -> Compiled<Node>,
    ) -> Compiled<Node> {
        let mut left = operand(self, cursor)?;
        while let Some((_, operator)) = operators.iter().find(|(sign, _)| cursor.eat_spaced(sign)) {
            cursor.operator()?;
            left = binary(left, *operator, operand(self, cursor)?);
        }
        Ok(left)
    }

    fn factor(&mut self, cursor: &mut Cursor<'_>) -> Compiled<Node> {
        cursor.space();
        if let Some(text) = cursor.quoted()? {
            return Ok(Node::Literal(Value::Text(text.into())));
        }
        match cursor.peek() {
            Some('(') => {
                cursor.bump();
                let inner = self.choice(cursor)?;
                cursor.expect(")")?;
                Ok(inner)
            }
            Some('[') => {
                cursor.bump();
                self.list(cursor, "]").map(Node::Array)
            }
            Some('-' | '0'..='9') => number(cursor),
            Some('$') => {
                cursor.bump();
                self.access(cursor, Root::Payload)
            }
            Some('!') => Err(cursor.error("unknown operator `!`; use `not(...)`")),
            Some(_) => self.named(cursor),
            None => Err(cursor.error("expression expected")),
        }
    }

    fn list(&mut self, cursor: &mut Cursor<'_>, close: &str) -> Compiled<Vec<Node>> {
        let mut nodes = Vec::new();
        cursor.enter()?;
        if !cursor.eat_spaced(close) {
            loop {
                nodes.push(self.choice(cursor)?);
                if cursor.eat_spaced(close) {
                    break;
                }
                cursor.expect(",")?;
            }
        }
        cursor.leave();
        Ok(nodes)
    }

    fn named(&mut self, cursor: &mut Cursor<'_>) -> Compiled<Node> {
        let start = cursor.clone();
        let name = cursor.name();
        // The only names with a hyphen.
        if matches!(name, "wso2" | "hashicorp") && cursor.eat("-vault") {
            let help = "write `configs.NAME`, which reads the environment";
            return Err(start.error(format!("`{name}-vault()` is not supported: {help}")));
        }
        if cursor.peek() == Some('(') {
            return self.call(cursor, &start, name);
        }
        let root = match name {
            "true" => return Ok(Node::Literal(Value::Boolean(true))),
            "false" => return Ok(Node::Literal(Value::Boolean(false))),
            "null" => return Ok(Node::Literal(Value::Null)),
            "payload" => Root::Payload,
            "vars" | "var" => Root::Variable(key(cursor)?),
            "headers" => Root::Header(key(cursor)?),
            "configs" | "config" => Root::Config(key(cursor)?),
            "props" | "properties" => {
                let scope = match &*key(cursor)? {
                    "synapse" => PropertyScope::Synapse,
                    "axis2" => PropertyScope::Axis2,
                    _ => {
                        let example = format!("write `{name}.synapse.NAME`");
                        let message = "needs a scope, `synapse` or `axis2`";
                        return Err(start.error(format!("`{name}` {message}: {example}")));
                    }
                };
                Root::Property(scope, key(cursor)?)
            }
            "params" => {
                let kind = match &*key(cursor)? {
                    "queryParams" => ParameterKind::Query,
                    "pathParams" | "uriParams" => ParameterKind::Path,
                    "functionParams" => ParameterKind::Function,
                    _ => {
                        let known = "`queryParams`, `pathParams` or `functionParams`";
                        return Err(cursor.error(format!("{known} expected after `params.`")));
                    }
                };
                Root::Parameter(kind, key(cursor)?)
            }
            _ => {
                let roots = "payload, $, vars, headers, props, params, configs";
                let what = format!("value, function or one of {roots} expected");
                return Err(start.error(what));
            }
        };
        self.access(cursor, root)
    }

    fn call(&mut self, cursor: &mut Cursor<'_>, start: &Cursor<'_>, name: &str) -> Compiled<Node> {
        cursor.bump();
        let mut arguments = self.list(cursor, ")")?;
        let function = Function::find(name)
            .ok_or_else(|| start.error(format!("unknown function `{name}()`")))?;
        if function == Function::Registry && cursor.eat(".property(") {
            arguments.extend(self.list(cursor, ")")?);
        }
        if !function.takes(arguments.len()) {
            return Err(
                start.error(format!("`{name}()` does not take {} arguments", arguments.len()))
            );
        }
        let call = if function == Function::Xpath {
            self.xpath(start, arguments)?
        } else {
            Node::Call(function, arguments)
        };
        match cursor.peek() {
            Some('.' | '[') => self.access(cursor, Root::Result(call)),
            Some(_) | None => Ok(call),
        }
    }

    /// `xpath(path)` reads the body, `xpath(path, variable)` doesn't. A literal path is compiled here.
    fn xpath(&mut self, start: &Cursor<'_>, arguments: Vec<Node>) -> Compiled<Node> {
        let mut arguments = arguments.into_iter();
        let path = arguments.next().ok_or_else(|| start.error("an XPath expected"))?;
        let variable = arguments.next();
        let (path, body) = if let Node::Literal(Value::Text(text)) = &path {
            let compiled = xpath_bridge::compile(text, self.namespaces)
                .map_err(|error| start.error(format!("in `xpath()`: {}", error.message)))?;
            let body = xpath_bridge::body_use(&compiled);
            (XpathSource::Compiled(Arc::new(compiled)), body)
        } else {
            (XpathSource::Computed(path, self.namespaces.into()), BodyUse::Read)
        };
        if variable.is_none() {
            self.body = self.body.max(body);
        }
        Ok(Node::Xpath(Box::new(Xpath { path, variable })))
    }

    fn access(&mut self, cursor: &mut Cursor<'_>, root: Root) -> Compiled<Node> {
        if matches!(root, Root::Payload) {
            self.body = self.body.max(BodyUse::Read);
        }
        let mut inside = PathExpressions { parser: self, slots: Vec::new() };
        let path = Path::suffix(cursor, &mut inside)?;
        let slots = inside.slots;
        Ok(Node::Access(Box::new(Access { root, path, slots })))
    }
}

fn binary(left: Node, operator: Operator, right: Node) -> Node {
    Node::Binary(Box::new(left), operator, Box::new(right))
}

/// `.name`, `["any name"]`, `.["any name"]` or `."any name"`.
fn key(cursor: &mut Cursor<'_>) -> Compiled<Box<str>> {
    let dotted = cursor.eat(".");
    if cursor.eat("[") {
        cursor.space();
        let name = cursor.quoted()?.ok_or_else(|| cursor.error("name in quotes expected"))?;
        cursor.expect("]")?;
        return Ok(name.into());
    }
    if !dotted {
        return Err(cursor.error("`.name` or `[\"name\"]` expected"));
    }
    if let Some(name) = cursor.quoted()? {
        return Ok(name.into());
    }
    match cursor.name() {
        "" => Err(cursor.error("name expected")),
        name => Ok(name.into()),
    }
}

fn number(cursor: &mut Cursor<'_>) -> Compiled<Node> {
    let start = cursor.at;
    cursor.eat("-");
    if cursor.unsigned_number().is_empty() {
        return Err(
            cursor.error("number expected after `-`; to negate an expression write `0 - x`")
        );
    }
    let text = cursor.source().get(start..cursor.at).unwrap_or_default();
    Ok(Node::Literal(crate::value::number(text)))
}
