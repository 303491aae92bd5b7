//! The grammar.

use std::sync::Arc;

use super::functions::Function;
use super::{Access, Mode, Node, Operator, Root, Xpath, XpathSource};
use crate::context::{BodyUse, ParameterKind, PropertyScope};
use crate::cursor::{Compiled, Cursor};
use crate::jsonpath::{Externals, Path};
use crate::{Value, xpath_bridge};

/// Compiles the expression at the cursor; returns also what it needs of the body.
pub(super) fn expression(
    cursor: &mut Cursor<'_>,
    mode: Mode,
    namespaces: &[(String, String)],
) -> Compiled<(Node, BodyUse)> {
    let mut parser = Parser { mode, namespaces, body: BodyUse::Untouched };
    let node = parser.choice(cursor)?;
    Ok((node, parser.body))
}

struct Parser<'n> {
    mode: Mode,
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

impl Parser<'_> {
    fn choice(&mut self, cursor: &mut Cursor<'_>) -> Compiled<Node> {
        cursor.enter()?;
        let test = match self.mode {
            Mode::Compatible => self.comparison(cursor)?,
            Mode::Strict => self.strict_or(cursor)?,
        };
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
        let mut left = self.logical(cursor)?;
        while let Some(operator) = comparison_sign(cursor) {
            cursor.operator()?;
            left = binary(left, operator, self.logical(cursor)?);
        }
        Ok(left)
    }

    /// `and` and `or` with one precedence, right-associative.
    fn logical(&mut self, cursor: &mut Cursor<'_>) -> Compiled<Node> {
        let left = self.sum(cursor)?;
        let operator = if is_and(cursor) {
            Operator::And
        } else if is_or(cursor) {
            Operator::Or
        } else {
            return Ok(left);
        };
        cursor.enter()?;
        let right = self.logical(cursor)?;
        cursor.leave();
        Ok(binary(left, operator, right))
    }

    fn strict_or(&mut self, cursor: &mut Cursor<'_>) -> Compiled<Node> {
        let mut left = self.strict_and(cursor)?;
        while is_or(cursor) {
            cursor.operator()?;
            left = binary(left, Operator::Or, self.strict_and(cursor)?);
        }
        Ok(left)
    }

    fn strict_and(&mut self, cursor: &mut Cursor<'_>) -> Compiled<Node> {
        let mut left = self.strict_comparison(cursor)?;
        while is_and(cursor) {
            cursor.operator()?;
            left = binary(left, Operator::And, self.strict_comparison(cursor)?);
        }
        Ok(left)
    }

    fn strict_comparison(&mut self, cursor: &mut Cursor<'_>) -> Compiled<Node> {
        let left = self.sum(cursor)?;
        match comparison_sign(cursor) {
            Some(operator) => Ok(binary(left, operator, self.sum(cursor)?)),
            None => Ok(left),
        }
    }

    fn sum(&mut self, cursor: &mut Cursor<'_>) -> Compiled<Node> {
        let mut left = self.product(cursor)?;
        loop {
            let operator = if cursor.eat_spaced("+") {
                Operator::Add
            } else if cursor.eat_spaced("-") {
                Operator::Subtract
            } else {
                return Ok(left);
            };
            cursor.operator()?;
            left = binary(left, operator, self.product(cursor)?);
        }
    }

    fn product(&mut self, cursor: &mut Cursor<'_>) -> Compiled<Node> {
        let mut left = self.factor(cursor)?;
        loop {
            let operator = if cursor.eat_spaced("*") {
                Operator::Multiply
            } else if cursor.eat_spaced("/") {
                Operator::Divide
            } else if cursor.eat_spaced("%") {
                Operator::Modulo
            } else {
                return Ok(left);
            };
            cursor.operator()?;
            left = binary(left, operator, self.factor(cursor)?);
        }
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

fn comparison_sign(cursor: &mut Cursor<'_>) -> Option<Operator> {
    cursor.space();
    let found = COMPARISONS.iter().find(|(sign, _)| cursor.rest().starts_with(sign));
    found.map(|(sign, operator)| {
        cursor.at += sign.len();
        *operator
    })
}

fn is_and(cursor: &mut Cursor<'_>) -> bool {
    cursor.eat_spaced("&&") || cursor.eat_word("and")
}

fn is_or(cursor: &mut Cursor<'_>) -> bool {
    cursor.eat_spaced("||") || cursor.eat_word("or")
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
