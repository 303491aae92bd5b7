//! `header`: a header field, or a header block of the SOAP envelope.

use expression::{BodyUse, Budget, Expression};
use xml::{Node, QNameRef};

use crate::error::Failure;
use crate::message::{Message, PropertyScope, PropertyValue, is_token, soap};
use crate::program::{Mediator, Next, Scene};
use crate::syntax::{Compiler, Element, serialise};

/// Synapse's names for addressing; they are set as properties that the transport reads, not in the envelope.
const ADDRESSING: &[&str] =
    &["To", "From", "Action", "FaultTo", "ReplyTo", "MessageID", "RelatesTo"];

#[derive(Debug)]
struct Header {
    of: Of,
    /// `None`: it is removed.
    value: Option<Expression>,
    /// The value of a header block is XML.
    is_xml: bool,
}

#[derive(Debug)]
enum Of {
    /// A field of the HTTP head.
    Transport(Box<str>),
    Addressing(Box<str>),
    /// A header block.
    Block(Name),
}

#[derive(Debug)]
struct Name {
    prefix: Box<str>,
    namespace: Box<str>,
    local: Box<str>,
}

/// Header blocks that are written in the artefact.
#[derive(Debug)]
struct Blocks(Vec<xml::Document>);

impl Mediator for Header {
    fn body_use(&self) -> BodyUse {
        let value = self.value.as_ref().map_or(BodyUse::Untouched, Expression::body_use);
        match self.of {
            Of::Transport(_) | Of::Addressing(_) => value,
            Of::Block(_) => BodyUse::Rewritten,
        }
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        let value = match &self.value {
            Some(value) => Some(scene.text(value, message)?),
            None => None,
        };
        match (&self.of, value) {
            (Of::Transport(name), Some(value)) => message.set_field(name, &value)?,
            (Of::Transport(name), None) => message.remove_field(name),
            (Of::Addressing(name), Some(value)) => {
                let value = PropertyValue::new(value);
                message.set(PropertyScope::Synapse, name, value, scene.budget)?;
            }
            (Of::Addressing(name), None) => message.remove(PropertyScope::Synapse, name),
            (Of::Block(name), Some(value)) => {
                let Some((document, header)) = message.body.edit_header(scene.budget)? else {
                    return Ok(Next::Continue);
                };
                scene.budget.charge_memory(value.len())?;
                let block = document.create_element(name.reference())?;
                let content = if self.is_xml {
                    scene.budget.charge_reading(value.len())?;
                    let content = xml::Document::parse(value.as_bytes())?;
                    scene.budget.charge_memory(content.heap_bytes())?;
                    content.element().map(|root| document.import(root)).transpose()?
                } else {
                    Some(document.create_text(&value)?)
                };
                if let Some(content) = content {
                    document.append(block, content)?;
                }
                document.append(header, block)?;
            }
            (Of::Block(name), None) => name.remove(message, scene.budget)?,
        }
        Ok(Next::Continue)
    }
}

impl Mediator for Blocks {
    fn body_use(&self) -> BodyUse {
        BodyUse::Rewritten
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        if let Some((document, header)) = message.body.edit_header(scene.budget)? {
            for block in self.0.iter().filter_map(xml::Document::element) {
                scene.budget.charge_memory(block.document().heap_bytes())?;
                let block = document.import(block)?;
                document.append(header, block)?;
            }
        }
        Ok(Next::Continue)
    }
}

impl Name {
    fn reference(&self) -> QNameRef<'_> {
        QNameRef::new(&self.prefix, &self.namespace, &self.local)
    }

    fn remove(&self, message: &mut Message, budget: &Budget) -> Result<(), Failure> {
        let is_it = |block: &Node<'_>| {
            block.is_element()
                && block.local_name() == &*self.local
                && block.namespace() == &*self.namespace
        };
        let header = message.body.envelope(budget)?.and_then(soap::header);
        if !header.is_some_and(|header| header.children().any(|block| is_it(&block))) {
            return Ok(());
        }
        let Some((document, header)) = message.body.edit_header(budget)? else { return Ok(()) };
        let blocks = document.node(header).into_iter().flat_map(Node::children).filter(is_it);
        for block in blocks.map(Node::id).collect::<Vec<_>>() {
            document.detach(block)?;
        }
        Ok(())
    }
}

pub(crate) fn compile(compiler: &mut Compiler, element: &Element<'_>) -> Option<Box<dyn Mediator>> {
    if element.node().attribute("", "name").is_none() {
        return blocks(compiler, element);
    }
    let name = element.required(compiler, "name")?;
    let is_transport =
        element.choice(compiler, "scope", &[("default", false), ("transport", true)])?;
    let removes = element.choice(compiler, "action", &[("set", false), ("remove", true)])?;
    let of = if is_transport {
        if !is_token(name) {
            let message = format!("`{name}` is not the name of a header field");
            return compiler.reject(element, message, None);
        }
        Of::Transport(name.into())
    } else if ADDRESSING.contains(&name) {
        Of::Addressing(name.into())
    } else {
        Of::Block(block_name(compiler, element, name)?)
    };
    let is_xml = element.choice(compiler, "type", &[("STRING", false), ("OM", true)])?;
    let value = if removes {
        element.ignore(&["value", "expression"]);
        None
    } else {
        Some(element.value_or_expression(compiler)?)
    };
    Some(Box::new(Header { of, value, is_xml }))
}

fn block_name(compiler: &mut Compiler, element: &Element<'_>, name: &str) -> Option<Name> {
    let Some((prefix, local)) = name.split_once(':') else {
        let help = format!(
            "write scope=\"transport\", a name with a prefix, or one of {}",
            ADDRESSING.join(", ")
        );
        let message = format!("`{name}`: a header block needs a namespace");
        return compiler.reject(element, message, Some(&help));
    };
    let Some(namespace) = element.node().lookup_namespace(prefix) else {
        let message = format!("`{name}`: the prefix `{prefix}` is not declared");
        return compiler.reject(element, message, None);
    };
    if !xml::is_ncname(local) {
        return compiler.reject(element, format!("`{local}` is not the name of an element"), None);
    }
    Some(Name { prefix: prefix.into(), namespace: namespace.into(), local: local.into() })
}

fn blocks(compiler: &mut Compiler, element: &Element<'_>) -> Option<Box<dyn Mediator>> {
    element.choice(compiler, "scope", &[("default", ())])?;
    element.choice(compiler, "action", &[("set", ())])?;
    let mut blocks = Vec::new();
    for child in element.children() {
        match xml::Document::parse(&serialise(child.node())) {
            Ok(document) => blocks.push(document),
            Err(error) => compiler.error(&child, error.to_string(), None),
        }
    }
    if blocks.is_empty() {
        let message = "`header` needs the attribute `name`, or header blocks as children";
        return compiler.reject(element, message, None);
    }
    Some(Box::new(Blocks(blocks)))
}
