//! Primary expressions, and what their names mean: XPath 1.0 sections 3.1 and 3.2.

use super::{Parsed, Parser, node_set};
use crate::error::CompileError;
use crate::functions::Core;
use crate::lexer::{Token, Written};
use crate::name::ExpandedName;
use crate::plan::Expr;

impl Parser<'_> {
    pub(crate) fn primary(&mut self) -> Parsed<Expr> {
        let place = self.place();
        let Some(token) = self.peek() else {
            return self.fail("the expression ends where an operand has to follow");
        };
        self.advance();
        match token {
            Token::Number(number) => Ok(Expr::Number(number).unless_out(&["number"])),
            Token::Literal(text) => Ok(Expr::Literal(text.into()).unless_out(&["literal"])),
            Token::Variable(written) => {
                let name = self.expand(written, place)?;
                let id = self.names.variable(&name);
                let variable = id.map(|id| Expr::Variable(id).unless_out(&["variable"]));
                variable.ok_or_else(|| {
                    CompileError::new(place, format!("the variable `${name}` isn't known here"))
                })
            }
            Token::Open => {
                let expr = self.expr()?;
                self.expect(Token::Close, "`)`")?;
                Ok(expr.unless_out(&["parentheses"]))
            }
            Token::Function(written) => self.call(written, place),
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
            | Token::Axis(_) => Err(CompileError::new(place, "an operand has to stand here")),
        }
    }

    fn call(&mut self, written: Written<'_>, place: usize) -> Parsed<Expr> {
        let arguments = self.arguments()?;
        if written.prefix.is_empty()
            && let Some(core) = Core::named(written.local, arguments.len())
        {
            let core = core.map_err(|message| CompileError::new(place, message))?;
            if let (Core::Count | Core::Sum, Some(nodes)) = (core, arguments.first()) {
                node_set(nodes, place, "the argument")?;
            }
            if let (Core::Name | Core::LocalName | Core::NamespaceUri, Some(nodes)) =
                (core, arguments.first())
            {
                node_set(nodes, place, "the argument")?;
            }
            return Ok(Expr::Core(core, arguments).unless_out(&["function ", written.local]));
        }
        let name = self.expand(written, place)?;
        match self.names.function(&name, arguments.len()) {
            Some(id) => {
                let module = name.namespace.rsplit_once(['/', ':']);
                let (module, colon) = module.map_or(("", ""), |(_, module)| (module, ":"));
                let feature = ["function ", module, colon, written.local];
                Ok(Expr::Extension(id, arguments).unless_out(&feature))
            }
            None => {
                let count = arguments.len();
                let message = format!("there is no function `{name}` with {count} arguments");
                Err(CompileError::new(place, message))
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
        self.names.namespace(prefix).ok_or_else(|| {
            CompileError::new(place, format!("no namespace is bound to the prefix `{prefix}`"))
        })
    }

    /// No prefix means no namespace, whatever the default one is: section 2.3.
    pub(super) fn expand(&self, written: Written<'_>, place: usize) -> Parsed<ExpandedName> {
        let namespace = match written.prefix {
            "" => String::new(),
            prefix => self.namespace(prefix, place)?,
        };
        Ok(ExpandedName { namespace, local: written.local.to_owned() })
    }
}
