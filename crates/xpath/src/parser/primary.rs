//! Parses primary expressions and resolves their names: XPath 1.0 sections 3.1 and 3.2.

use super::{Parsed, Parser, node_set};
use crate::error::Error;
use crate::functions::Core;
use crate::lexer::{RawName, Token};
use crate::name::ExpandedName;
use crate::plan::Expr;

impl Parser<'_> {
    pub(crate) fn primary(&mut self) -> Parsed<Expr> {
        let place = self.place();
        let Some(token) = self.peek() else {
            return self.fail("expected an operand, found the end of the expression");
        };
        self.advance();
        match token {
            Token::Number(number) => Ok(Expr::Number(number).unless_out(&["number"])),
            Token::Literal(text) => Ok(Expr::Literal(text.into()).unless_out(&["literal"])),
            Token::Variable(raw) => {
                let name = self.expand(raw, place)?;
                let id = self.names.variable(&name);
                let variable = id.map(|id| Expr::Variable(id).unless_out(&["variable"]));
                variable.ok_or_else(|| Error::syntax(place, format!("unknown variable `${name}`")))
            }
            Token::Open => {
                let expr = self.expr()?;
                self.expect(Token::Close, "`)`")?;
                Ok(expr.unless_out(&["parentheses"]))
            }
            Token::Function(raw) => self.call(raw, place),
            Token::Close
            | Token::OpenBracket
            | Token::CloseBracket
            | Token::Dot
            | Token::DoubleDot
            | Token::At
            | Token::Comma
            | Token::Operator(_)
            | Token::AnyName
            | Token::AnyOf(_)
            | Token::Name(_)
            | Token::NodeType(_)
            | Token::Axis(_) => Err(Error::syntax(place, "expected an operand")),
        }
    }

    fn call(&mut self, raw: RawName<'_>, place: usize) -> Parsed<Expr> {
        let arguments = self.arguments()?;
        let is_core = || {
            let core = self.names.core_namespace();
            core.is_some() && self.names.namespace(raw.prefix).as_deref() == core
        };
        if (raw.prefix.is_empty() || is_core())
            && let Some(core) = Core::named(raw.local, arguments.len())
        {
            let core = core.map_err(|message| Error::syntax(place, message))?;
            if let (Core::Count | Core::Sum, Some(nodes)) = (core, arguments.first()) {
                node_set(nodes, place, "the argument of this function")?;
            }
            if let (Core::Name | Core::LocalName | Core::NamespaceUri, Some(nodes)) =
                (core, arguments.first())
            {
                node_set(nodes, place, "the argument of this function")?;
            }
            return Ok(Expr::Core(core, arguments).unless_out(&["function ", raw.local]));
        }
        let name = self.expand(raw, place)?;
        match self.names.function(&name, arguments.len()) {
            Some(id) => {
                let module = name.namespace.rsplit_once(['/', ':']);
                let (module, colon) = module.map_or(("", ""), |(_, module)| (module, ":"));
                let feature = ["function ", module, colon, raw.local];
                Ok(Expr::Extension(id, arguments).unless_out(&feature))
            }
            None => {
                let count = arguments.len();
                let plural = if count == 1 { "" } else { "s" };
                let message = format!("unknown function `{name}` with {count} argument{plural}");
                Err(Error::syntax(place, message))
            }
        }
    }

    pub(super) fn arguments(&mut self) -> Parsed<Vec<Expr>> {
        self.expect(Token::Open, "`(`")?;
        let mut all = Vec::new();
        if self.eat(Token::Close) {
            return Ok(all);
        }
        loop {
            all.push(self.expr()?);
            if self.eat(Token::Close) {
                return Ok(all);
            }
            self.expect(Token::Comma, "`,` or `)`")?;
        }
    }

    pub(super) fn namespace(&self, prefix: &str, place: usize) -> Parsed<String> {
        if prefix == "xml" {
            return Ok(xml::XML_NAMESPACE.to_owned());
        }
        self.names
            .namespace(prefix)
            .ok_or_else(|| Error::syntax(place, format!("undeclared namespace prefix `{prefix}`")))
    }

    /// Resolves the prefix of a name. A name without a prefix has no namespace, even if there is a default namespace:
    /// section 2.3.
    pub(super) fn expand(&self, raw: RawName<'_>, place: usize) -> Parsed<ExpandedName> {
        let namespace = match raw.prefix {
            "" => String::new(),
            prefix => self.namespace(prefix, place)?,
        };
        Ok(ExpandedName { namespace, local: raw.local.to_owned() })
    }
}
