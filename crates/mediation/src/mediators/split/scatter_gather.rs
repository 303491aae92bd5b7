//! `scatter-gather`: runs sequences on copies of the message, and collects the results.

use std::sync::Arc;

use expression::{BodyUse, Expression, json, markup};

use super::aggregate::{count, number_or_expression, timeout};
use crate::error::Failure;
use crate::mediators::values::items::{body_json, enclosed, sequence, set_payload};
use crate::message::{Format, Message, PropertyScope, PropertyValue};
use crate::program::{Mediator, Next, Part, Scatter, Scene, SequenceId};
use crate::syntax::{Compiler, Element};

#[derive(Debug)]
struct ScatterGather {
    sequences: Vec<SequenceId>,
    parallel: bool,
    timeout_ms: Option<u64>,
    min: Option<Expression>,
    max: Option<Expression>,
    results: Results,
}

/// Form of several results.
#[derive(Debug)]
pub(crate) struct Results {
    /// The part of each result; `None`: its body.
    expression: Option<Expression>,
    /// Condition on the results.
    condition: Option<Expression>,
    /// `None`: a JSON array; else the element around all.
    enclosing: Option<Box<str>>,
    /// `None`: the body.
    variable: Option<Box<str>>,
}

impl Mediator for ScatterGather {
    fn body_use(&self) -> BodyUse {
        BodyUse::Rewritten
    }

    fn enters(&self) -> Vec<SequenceId> {
        self.sequences.clone()
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        scene.charge_parts(self.sequences.len())?;
        let part = |sequence: &SequenceId| {
            let message = message.copy(scene.budget)?;
            Ok(Part { message, sequence: Some(*sequence), to: None })
        };
        let parts = self.sequences.iter().map(part).collect::<Result<_, Failure>>()?;
        let mut enough: Option<usize> = None;
        for number in [&self.min, &self.max] {
            let number = count(number.as_ref(), scene, message)?;
            enough = enough.into_iter().chain(number).min();
        }
        let timeout_ms = self.timeout_ms;
        Ok(Next::Scatter(Scatter {
            parts,
            parallel: self.parallel,
            enough,
            timeout_ms,
            counter: None,
        }))
    }

    fn join(
        &self,
        scene: &Scene<'_>,
        message: &mut Message,
        parts: Vec<Option<Box<Message>>>,
    ) -> Result<Next, Failure> {
        self.results.store(scene, message, parts)?;
        Ok(Next::Continue)
    }
}

impl Results {
    /// `result-content-type`, `result-enclosing-element` and `target-variable` of an element.
    pub(crate) fn compile_variable(compiler: &mut Compiler, element: &Element<'_>) -> Option<Self> {
        let variable = Some(element.required(compiler, "target-variable")?.into());
        let enclosing = Self::enclosing(compiler, element)?;
        Some(Self { expression: None, condition: None, enclosing, variable })
    }

    fn enclosing(compiler: &mut Compiler, element: &Element<'_>) -> Option<Option<Box<str>>> {
        let kinds = [("JSON", false), ("XML", true)];
        let is_xml = element.choice(compiler, "result-content-type", &kinds)?;
        let name = element.optional("result-enclosing-element");
        if is_xml && name.is_none() {
            return compiler.reject(
                element,
                "results in XML need `result-enclosing-element`",
                None,
            );
        }
        Some(name.filter(|_| is_xml).map(Into::into))
    }

    pub(crate) fn store(
        &self,
        scene: &Scene<'_>,
        message: &mut Message,
        parts: Vec<Option<Box<Message>>>,
    ) -> Result<(), Failure> {
        let mut texts = Vec::new();
        for part in parts.into_iter().flatten() {
            if let Some(condition) = &self.condition
                && !scene.holds(condition, &part)?
            {
                continue;
            }
            let text = match self.enclosing {
                Some(_) => self.xml(scene, &part)?,
                None => self.json(scene, &part)?,
            };
            scene.budget.charge_memory(text.len())?;
            texts.push(text);
        }
        let (text, format) = match &self.enclosing {
            None => (format!("[{}]", texts.join(",")), Format::Json),
            Some(name) => {
                let bytes = enclosed(&format!("<{name}/>"), texts.concat().as_bytes());
                (String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned(), Format::Xml)
            }
        };
        let Some(name) = &self.variable else {
            message.remove(PropertyScope::Axis2, "messageType");
            if format == Format::Xml && message.body.format() == Format::Json {
                message.body.replace(Format::Xml, Vec::new(), scene.budget)?;
            }
            return set_payload(message, text.into_bytes(), format, scene);
        };
        let value = if format == Format::Json {
            let document = json::Document::parse(text.as_bytes())?.into_owned();
            PropertyValue::Json(Arc::new(document))
        } else {
            PropertyValue::Xml(Arc::new(xml::Document::parse(text.as_bytes())?))
        };
        message.set(PropertyScope::Variable, name, value, scene.budget)
    }

    fn json(&self, scene: &Scene<'_>, part: &Message) -> Result<String, Failure> {
        match &self.expression {
            Some(expression) => scene.with(expression, part, |value| value.to_json()),
            None => body_json(part, scene),
        }
    }

    fn xml(&self, scene: &Scene<'_>, part: &Message) -> Result<String, Failure> {
        let view = scene.view(part);
        let nodes = match &self.expression {
            Some(expression) => expression.nodes(&view, scene.budget)?,
            None => part.body.payload(scene.budget)?.into_iter().collect(),
        };
        let mut bytes = Vec::new();
        for node in nodes.into_iter().filter(|node| node.is_element()) {
            bytes.append(&mut markup::write(node, scene.budget)?);
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

pub(crate) fn compile(compiler: &mut Compiler, element: &Element<'_>) -> Option<Box<dyn Mediator>> {
    let parallel = element.flag(compiler, "parallel-execution", true)?;
    let to_variable = element.choice(compiler, "target", &[("body", false), ("variable", true)])?;
    let variable = if to_variable {
        Some(element.required(compiler, "target-variable")?.into())
    } else {
        element.ignore(&["target-variable"]);
        None
    };
    let enclosing = Results::enclosing(compiler, element)?;
    let mut results = Results { expression: None, condition: None, enclosing, variable };
    let (mut sequences, mut timeout_ms, mut min, mut max) = (Vec::new(), None, None, None);
    for child in element.children() {
        match child.name() {
            "sequence" => sequences.push(sequence(compiler, &child)?),
            "aggregation" => {
                for (name, place) in
                    [("expression", &mut results.expression), ("condition", &mut results.condition)]
                {
                    if let Some(source) = child.optional(name) {
                        *place = Some(child.compiled(compiler, source)?);
                    }
                }
                timeout_ms = timeout(compiler, &child, (1, "a number"))?;
                min = number_or_expression(compiler, &child, "min-messages")?;
                max = number_or_expression(compiler, &child, "max-messages")?;
                child.finish(compiler);
            }
            _ => element.ignores(compiler, &child, &["sequence", "aggregation"]),
        }
    }
    if let (Some(expression), Some(_)) = (&results.expression, &results.enclosing)
        && !expression.may_select_nodes()
    {
        let message = format!("`{expression}` selects no elements for results in XML");
        return compiler.reject(element, message, Some("write an XPath, `${xpath('//name')}`"));
    }
    if sequences.is_empty() {
        return compiler.reject(element, "`scatter-gather` needs a `sequence`", None);
    }
    Some(Box::new(ScatterGather { sequences, parallel, timeout_ms, min, max, results }))
}
