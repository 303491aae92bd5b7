//! `xslt` and `fastXSLT`: transforms the payload, or what `source` selects, by a stylesheet.

use std::fmt;
use std::sync::Arc;

use expression::{BodyUse, Budget, Expression, markup};
use xml::NodeId;
use xslt::{Options, Params, Resolver, Resource, Stylesheet};

use super::keyed::Keyed;
use crate::error::Failure;
use crate::limits;
use crate::mediators::values::items::fail;
use crate::mediators::values::pattern::subject;
use crate::message::{Message, PropertyScope, PropertyValue, formatter, soap};
use crate::program::{Entry, Mediator, Next, Scene};
use crate::syntax::{Compiler, Element};

struct Xslt {
    sheet: Keyed<Stylesheet>,
    /// `None`: the payload.
    source: Option<Expression>,
    /// The property that gets the result, instead of the source's place.
    target: Option<Box<str>>,
    params: Vec<Parameter>,
}

struct Parameter {
    name: String,
    value: Expression,
    /// `type="OM"`: the nodes that it selects, instead of their text.
    is_nodes: bool,
}

impl fmt::Debug for Xslt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Xslt").field("source", &self.source).finish_non_exhaustive()
    }
}

impl Mediator for Xslt {
    fn body_use(&self) -> BodyUse {
        self.sheet.body_use().max(match (&self.target, &self.source) {
            (None, _) => BodyUse::Rewritten,
            (Some(_), Some(source)) => source.body_use(),
            (Some(_), None) => BodyUse::Read,
        })
    }

    fn is_long(&self) -> bool {
        self.sheet.is_computed()
    }

    fn ns_per_byte(&self) -> u64 {
        limits::TRANSFORM_NS_PER_BYTE
    }

    fn can_repeat(&self) -> bool {
        true
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        let Some(made) = self.transform(scene, message)? else {
            scene.environment.log(crate::program::LogLevel::Warn, "xslt: the body is empty");
            return Ok(Next::Continue);
        };
        match (made, &self.target) {
            (Made::Tree(document, _), Some(target)) => {
                let value = PropertyValue::Xml(Arc::new(*document));
                message.set(PropertyScope::Synapse, target, value, scene.budget)?;
            }
            (Made::Tree(document, place), None) => put(&document, place, message, scene.budget)?,
            (Made::Payload(text), _) => {
                message.body.replace_payload_by(text, true, scene.budget)?;
            }
        }
        Ok(Next::Continue)
    }
}

/// The result, as its place wants it.
enum Made {
    /// The document of the payload, or of the whole envelope.
    Payload(String),
    Tree(Box<xml::Document>, Place),
}

/// Where the result goes. The children of the result take the place of those of a part of the envelope.
#[derive(Clone, Copy)]
enum Place {
    Node(NodeId),
    Children(NodeId),
}

impl Xslt {
    /// `None` without a payload to transform.
    fn transform(&self, scene: &Scene<'_>, message: &Message) -> Result<Option<Made>, Failure> {
        let payload = message.body.payload(scene.budget)?;
        if self.source.is_none() && payload.is_none() {
            return Ok(None);
        }
        let view = scene.view(message);
        let sheet = self.sheet.get(scene, message)?;
        let (mut params, mut nodes) = (Params::new(), Vec::new());
        for Parameter { name, value, is_nodes } in &self.params {
            if self.sheet.is_computed() && !sheet.params().any(|param| param == *name) {
                continue;
            }
            if *is_nodes {
                nodes.push((name.clone(), value.nodes(&view, scene.budget)?));
            } else if let Some(text) = subject(value, scene, message)? {
                params = params.string(name, &text);
            }
        }
        let options = Options::new().params(&params).nodes(&nodes);
        let options = options.now_ms(scene.environment.unix_ms());
        let source = match &self.source {
            Some(source) => source.nodes(&view, scene.budget)?.first().copied(),
            None => payload,
        };
        let source = source.and_then(|node| {
            if node.kind() == xml::Kind::Root { node.document().element() } else { Some(node) }
        });
        let source = source.filter(|source| source.is_element());
        let source = source.ok_or_else(|| fail("there is no XML to transform"))?;
        let body = message.body.xml(scene.budget)?;
        let in_body = body.filter(|body| std::ptr::eq(*body, source.document()));
        if in_body.is_none() && self.target.is_none() {
            return Err(fail(
                "the source is not part of the body, so the result cannot replace it",
            ));
        }
        let is_part = |part| in_body.and_then(|body| soap::part(body, part)) == Some(source);
        let place =
            if self.source.is_none() || in_body.and_then(xml::Document::element) == Some(source) {
                None
            } else if is_part("Body") || is_part("Header") {
                Some(Place::Children(source.id()))
            } else {
                Some(Place::Node(source.id()))
            };
        let own = source.document().element() != Some(source);
        let copy;
        let document = if own {
            copy = markup::copy(source, scene.budget)?;
            &copy
        } else {
            source.document()
        };
        let failed = |error: xslt::Error| fail(error.to_string());
        if (self.target.is_some() || place.is_some()) && !sheet.is_text() {
            let made = sheet.transform_to_document(document, &options, scene.budget);
            let made = made.map_err(failed)?;
            if made.element().is_none() {
                return Err(fail("the result has no element"));
            }
            let place = place.unwrap_or(Place::Node(source.id()));
            return Ok(Some(Made::Tree(Box::new(made), place)));
        }
        let text = sheet.transform_to_string(document, &options, scene.budget).map_err(failed)?;
        if !sheet.is_text() {
            return Ok(Some(Made::Payload(text)));
        }
        let wrapped = formatter::text_as_xml(&text, scene.budget)?;
        if self.target.is_some() || place.is_some() {
            let place = place.unwrap_or(Place::Node(source.id()));
            return Ok(Some(Made::Tree(Box::new(wrapped), place)));
        }
        let written = markup::write(wrapped.root(), scene.budget)?;
        let written = String::from_utf8(written).map_err(|error| fail(error.to_string()))?;
        Ok(Some(Made::Payload(written)))
    }
}

/// Puts `result` in its place in the body.
fn put(
    result: &xml::Document,
    place: Place,
    message: &mut Message,
    budget: &Budget,
) -> Result<(), Failure> {
    budget.charge_memory(result.heap_bytes())?;
    let Some(root) = result.element() else { return Ok(()) };
    let Some(document) = message.body.edit_xml(budget)? else { return Ok(()) };
    match place {
        Place::Node(old) => {
            let new = document.import(root)?;
            document.replace(old, new)?;
        }
        Place::Children(parent) => {
            let new = root.elements();
            let new: Vec<_> = new.map(|child| document.import(child)).collect::<Result<_, _>>()?;
            document.replace_children(parent, &new)?;
        }
    }
    Ok(())
}

/// Imported and included stylesheets, by their names there.
#[derive(Clone, Default)]
struct Resources(Vec<(String, Arc<[u8]>)>);

impl Resolver for Resources {
    fn read(&self, href: &str, _: &str) -> Result<Resource, String> {
        let found = self.0.iter().find(|(location, _)| location == href);
        let (uri, bytes) = found.ok_or_else(|| {
            format!(
                "`{href}` was not found: declare it with `<resource location=\"{href}\" key=\"...\"/>`"
            )
        })?;
        Ok(Resource { bytes: bytes.to_vec(), uri: uri.clone() })
    }
}

/// The stylesheet in a local entry or in the registry.
fn stylesheet(
    compiler: &mut Compiler,
    element: &Element<'_>,
    key: &str,
    resources: &Resources,
) -> Option<Keyed<Stylesheet>> {
    let others = resources.clone();
    let make = move |entry: &Entry| {
        Stylesheet::compile(entry.bytes(), &others).map_err(|error| error.to_string())
    };
    if let Some(computed) = Keyed::computed(compiler, element, key, make)? {
        return Some(computed);
    }
    let entry = compiler.entry(element, key)?;
    let known = compiler.stylesheets.get(key).filter(|_| resources.0.is_empty());
    let sheet = known.cloned().unwrap_or_else(|| {
        let sheet = Stylesheet::compile(entry.bytes(), resources);
        sheet.map(Arc::new).map_err(|error| error.to_string())
    });
    if resources.0.is_empty() {
        compiler.stylesheets.insert(key.to_owned(), sheet.clone());
    }
    match sheet {
        Ok(sheet) => Some(Keyed::Fixed(sheet)),
        Err(error) => compiler.reject(element, format!("the stylesheet `{key}`: {error}"), None),
    }
}

/// A transformation of the payload by the stylesheet in a local entry.
pub(crate) fn of_payload(
    compiler: &mut Compiler,
    element: &Element<'_>,
    key: &str,
) -> Option<impl Mediator + use<>> {
    let sheet = stylesheet(compiler, element, key, &Resources::default())?;
    Some(Xslt { sheet, source: None, target: None, params: Vec::new() })
}

pub(crate) fn compile(compiler: &mut Compiler, element: &Element<'_>) -> Option<Box<dyn Mediator>> {
    let key = element.required(compiler, "key")?;
    let mut resources = Resources::default();
    for child in element.children().filter(|child| child.name() == "resource") {
        let location = child.required(compiler, "location")?.to_owned();
        let key = child.required(compiler, "key")?;
        resources.0.push((location, compiler.entry(&child, key)?.bytes().into()));
        child.finish(compiler);
    }
    let sheet = stylesheet(compiler, element, key, &resources)?;
    let source = match element.optional("source") {
        Some(source) => Some(element.compiled(compiler, source)?),
        None => None,
    };
    let target = element.optional("target").map(Into::into);
    // Compiled sheets are always kept.
    element.flag(compiler, "useCache", true)?;
    let mut params = Vec::new();
    for child in element.children() {
        match child.name() {
            "property" => params.extend(parameter(compiler, &child, (key, &sheet))?),
            "resource" => continue,
            "feature" | "attribute" => {
                child.ignore(&["name", "value"]);
                let message = format!(
                    "`{}` configures a Java processor and has no effect here",
                    child.name()
                );
                compiler.warning(&child, message, None);
            }
            _ => {
                let known = ["property", "resource", "feature", "attribute"];
                element.ignores(compiler, &child, &known);
                continue;
            }
        }
        child.finish(compiler);
    }
    Some(Box::new(Xslt { sheet, source, target, params }))
}

/// A `property`, which a parameter of the stylesheet gets.
fn parameter(
    compiler: &mut Compiler,
    child: &Element<'_>,
    (key, sheet): (&str, &Keyed<Stylesheet>),
) -> Option<Option<Parameter>> {
    let name = child.required(compiler, "name")?;
    let value = child.value_or_expression(compiler)?;
    let is_nodes = child.choice(compiler, "type", &[("STRING", false), ("OM", true)])?;
    if is_nodes && !value.selects_nodes() {
        let message = format!("`{name}` of type OM needs an XPath that selects nodes");
        compiler.error(child, message, None);
    }
    let knows = |sheet: &Stylesheet| sheet.params().any(|param| param == name);
    if !matches!(sheet, Keyed::Fixed(sheet) if !knows(sheet)) {
        return Some(Some(Parameter { name: name.to_owned(), value, is_nodes }));
    }
    compiler.warning(child, format!("the stylesheet `{key}` has no parameter `{name}`"), None);
    Some(None)
}
