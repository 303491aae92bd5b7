//! `aggregate`: messages that belong together wait for each other, and become one.

use expression::{BodyUse, Expression};

use crate::error::Failure;
use crate::mediators::flow::respond::Turn;
use crate::mediators::values::items::{Elements, body_json, enclosed, fail, set_payload};
use crate::message::{Body, Format, Message, PropertyScope};
use crate::program::{Collect, Mediator, Next, Piece, Scene, SequenceId};
use crate::syntax::{Compiler, Element, serialise};

#[derive(Debug)]
struct Aggregate {
    id: Option<Box<str>>,
    correlation: Option<Expression>,
    min: Option<Expression>,
    max: Option<Expression>,
    timeout_ms: Option<u64>,
    on_complete: SequenceId,
    /// The part of each message; `None`: its payload.
    expression: Option<Expression>,
    /// The property with the element around all.
    enclosing: Option<Box<str>>,
}

impl Mediator for Aggregate {
    fn body_use(&self) -> BodyUse {
        BodyUse::Rewritten
    }

    fn enters(&self) -> Vec<SequenceId> {
        vec![self.on_complete]
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        let correlation = match &self.correlation {
            None => None,
            Some(expression) => {
                let text = scene.text(expression, message)?;
                if text == "false" {
                    return Ok(Next::Continue);
                }
                if text.is_empty() {
                    return Err(fail(format!("`{expression}` has no value to correlate on")));
                }
                // The run keeps it as long as others may come.
                scene.budget.charge_memory(text.len())?;
                Some(text)
            }
        };
        let min = count(self.min.as_ref(), scene, message)?;
        let max = count(self.max.as_ref(), scene, message)?;
        let enough = min.into_iter().chain(max).min();
        let (id, timeout_ms) = (self.id.clone(), self.timeout_ms);
        let piece = self.piece(scene, message);
        Ok(Next::Collect(Box::new(Collect { piece, id, correlation, enough, timeout_ms })))
    }

    fn complete(
        &self,
        scene: &Scene<'_>,
        message: &mut Message,
        pieces: Vec<Result<Piece, Failure>>,
    ) -> Result<Next, Failure> {
        let mut pieces = pieces.into_iter().collect::<Result<Vec<_>, _>>()?;
        let is_json = pieces.first().is_some_and(|first| first.is_json);
        for piece in pieces.iter_mut().filter(|piece| piece.is_json != is_json) {
            convert(piece, message, scene)?;
        }
        if is_json {
            self.join_json(scene, message, &pieces)?;
        } else {
            self.join_xml(scene, message, &pieces)?;
        }
        Ok(Next::Enter(self.on_complete))
    }
}

/// Turns a piece from JSON into XML, or the other way round: the first message has another format.
fn convert(piece: &mut Piece, first: &Message, scene: &Scene<'_>) -> Result<(), Failure> {
    let format = if piece.is_json { Format::Json } else { Format::Xml };
    let body = Body::held(format, std::mem::take(&mut piece.text)).mapped_as(&first.body);
    if piece.is_json {
        piece.text = body.payload(scene.budget)?.map(serialise).unwrap_or_default();
        piece.elements = 1;
    } else {
        let document = body.json(scene.budget)?;
        piece.text = document.map(|json| json.text().as_bytes().to_vec()).unwrap_or_default();
    }
    piece.is_json = !piece.is_json;
    Ok(())
}

/// A number of messages; less than one, or none: not limited.
pub(crate) fn count(
    expression: Option<&Expression>,
    scene: &Scene<'_>,
    message: &Message,
) -> Result<Option<usize>, Failure> {
    let Some(expression) = expression else { return Ok(None) };
    let text = scene.text(expression, message)?;
    let number: f64 = text.trim().parse().map_err(|_| fail(format!("`{text}` is not a number")))?;
    // For an XPath it is `2.0`.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
    let number = number as usize;
    Ok(Some(number).filter(|number| *number > 0))
}

impl Aggregate {
    /// Part of a message that is joined.
    fn piece(&self, scene: &Scene<'_>, message: &Message) -> Result<Piece, Failure> {
        let is_json = match &self.expression {
            Some(expression) => !expression.selects_nodes(),
            None => message.body.format() == Format::Json,
        };
        if is_json {
            let mut text = Vec::new();
            match &self.expression {
                Some(of) => scene.with(of, message, |value| value.push_json(&mut text))?,
                None => text = body_json(message, scene)?.into_bytes(),
            }
            let piece = Piece { text, is_json, elements: 0 };
            scene.budget.charge_memory(piece.bytes())?;
            Ok(piece)
        } else {
            self.elements(scene, message)
        }
    }

    /// The elements of a message, each charged before it is appended: one may be inside another.
    fn elements(&self, scene: &Scene<'_>, message: &Message) -> Result<Piece, Failure> {
        let view = scene.view(message);
        let nodes = match &self.expression {
            Some(expression) => expression.nodes(&view, scene.budget)?,
            None => message.body.payload(scene.budget)?.into_iter().collect(),
        };
        let mut piece = Piece { text: Vec::new(), is_json: false, elements: 0 };
        let writer = Elements::of(&message.body);
        for element in nodes.iter().filter(|node| node.is_element()) {
            writer.push(*element, &mut piece.text, scene.budget)?;
            piece.elements = piece.elements.saturating_add(1);
        }
        Ok(piece)
    }

    fn join_json(
        &self,
        scene: &Scene<'_>,
        message: &mut Message,
        pieces: &[Piece],
    ) -> Result<(), Failure> {
        let mut array = vec![b'['];
        for piece in pieces {
            scene.budget.charge_memory(piece.bytes())?;
            if array.len() > 1 {
                array.push(b',');
            }
            array.extend_from_slice(&piece.text);
        }
        array.push(b']');
        if let Some((_, name)) = self.around(message)? {
            array.splice(..0, format!("{{\"{name}\":").into_bytes());
            array.push(b'}');
        }
        set_payload(message, array, Format::Json, scene)
    }

    fn join_xml(
        &self,
        scene: &Scene<'_>,
        message: &mut Message,
        pieces: &[Piece],
    ) -> Result<(), Failure> {
        let (mut bytes, mut number) = (Vec::new(), 0_usize);
        for piece in pieces {
            scene.budget.charge_memory(piece.bytes())?;
            if piece.elements == 0 {
                return Err(fail("a message has nothing to aggregate"));
            }
            bytes.extend_from_slice(&piece.text);
            number = number.saturating_add(piece.elements);
        }
        if let Some((around, _)) = self.around(message)? {
            bytes = enclosed(&around, &bytes).unwrap_or(bytes);
        } else if number > 1 && message.body.format() == Format::Xml {
            // A document has one root; an envelope's body may have several.
            bytes = enclosed("<aggregate/>", &bytes).unwrap_or(bytes);
        }
        message.body.replace_payload(bytes, scene.budget)
    }

    /// The element around all, serialised, and its name.
    fn around(&self, message: &Message) -> Result<Option<(String, String)>, Failure> {
        let Some(name) = &self.enclosing else { return Ok(None) };
        let property = message.properties.get(PropertyScope::Synapse, name);
        let element = property.and_then(|value| value.xml()).and_then(xml::Document::element);
        let element = element.ok_or_else(|| {
            fail(format!("the property `{name}` holds no element to enclose with"))
        })?;
        let text = String::from_utf8_lossy(&serialise(element)).into_owned();
        Ok(Some((text, element.local_name().to_owned())))
    }
}

pub(crate) fn compile(compiler: &mut Compiler, element: &Element<'_>) -> Option<Box<dyn Mediator>> {
    let id = element.optional("id").map(Into::into);
    let (mut correlation, mut on_complete) = (None, None);
    let (mut timeout_ms, mut min, mut max) = (None, None, None);
    let (mut expression, mut enclosing) = (None, None);
    for child in element.children() {
        match child.name() {
            "correlateOn" => {
                child.required(compiler, "expression")?;
                correlation = Some(child.expression(compiler, "expression")?);
            }
            "completeCondition" => {
                let unit = (1_000, "a number of seconds");
                timeout_ms = timeout(compiler, &child, unit)?;
                if let Some(number) = child.child("messageCount") {
                    min = number_or_expression(compiler, &number, "min")?;
                    max = number_or_expression(compiler, &number, "max")?;
                    number.finish(compiler);
                }
            }
            "onComplete" => {
                expression = match child.optional("expression") {
                    Some(source) => Some(child.compiled(compiler, source)?),
                    None => None,
                };
                enclosing = child.optional("enclosingElementProperty").map(Into::into);
                // Synapse does not read it.
                child.choice(compiler, "aggregateElementType", &[("root", ()), ("child", ())])?;
                on_complete = Some(match child.optional("sequence") {
                    Some(name) => compiler.sequence_named(&child, name)?,
                    None if child.children().next().is_some() => compiler.nested(&child),
                    None => nothing(compiler, &child),
                });
            }
            _ => {
                let known = ["correlateOn", "completeCondition", "onComplete"];
                element.ignores(compiler, &child, &known);
                continue;
            }
        }
        child.finish(compiler);
    }
    let Some(on_complete) = on_complete else {
        return compiler.reject(element, "`aggregate` needs `onComplete`", None);
    };
    Some(Box::new(Aggregate {
        id,
        correlation,
        min,
        max,
        timeout_ms,
        on_complete,
        expression,
        enclosing,
    }))
}

/// The sequence of an `onComplete` without mediators. Source: Synapse's `AggregateMediatorFactory`.
fn nothing(compiler: &mut Compiler, element: &Element<'_>) -> SequenceId {
    let message = "the message ends here, since `onComplete` has no mediators";
    let help = "move the mediators that follow into it";
    compiler.warning(element, message, Some(help));
    compiler.sequence_of(element, "onComplete", vec![Box::new(Turn::Drop)])
}

/// `timeout`, in units of so many milliseconds; 0: none.
pub(crate) fn timeout(
    compiler: &mut Compiler,
    child: &Element<'_>,
    (unit_ms, number): (u64, &str),
) -> Option<Option<u64>> {
    let Some(text) = child.optional("timeout") else { return Some(None) };
    let Ok(count) = text.parse::<u64>() else {
        return compiler.reject(child, format!("`timeout` is `{text}`, not {number}"), None);
    };
    Some(Some(count.saturating_mul(unit_ms)).filter(|ms| *ms > 0))
}

/// A number of messages, or `{expression}`; `None` also if it stands for no limit.
pub(crate) fn number_or_expression(
    compiler: &mut Compiler,
    element: &Element<'_>,
    name: &'static str,
) -> Option<Option<Expression>> {
    let Some(text) = element.optional(name) else { return Some(None) };
    if let Some(expression) = element.computed(compiler, text)? {
        return Some(Some(expression));
    }
    let Ok(number) = text.parse::<i64>() else {
        return compiler.reject(element, format!("`{name}` is `{text}`, not a number"), None);
    };
    Some((number > 0).then(|| Expression::literal(text)))
}
