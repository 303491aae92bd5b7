//! `xslt` and `fastXSLT`: transforms the payload, or what `source` selects, by a stylesheet.

use std::fmt;

use expression::{BodyUse, Expression};
use xslt::{NoResolver, Options, Params, Stylesheet};

use crate::compile::{Compiler, Element, Entry};
use crate::run::Scene;
use crate::{Code, Failure, Mediator, Message, Next};

struct Xslt {
    sheet: Stylesheet,
    /// `None`: the payload.
    source: Option<Expression>,
    params: Vec<(String, Expression)>,
}

impl fmt::Debug for Xslt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Xslt").field("source", &self.source).finish_non_exhaustive()
    }
}

impl Mediator for Xslt {
    fn body_use(&self) -> BodyUse {
        BodyUse::Rewritten
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        let mut params = Params::new();
        for (name, value) in &self.params {
            params = params.string(name, &scene.text(value, message)?);
        }
        let options = Options::new().params(&params).now_ms(scene.environment.unix_ms());
        let mut out = Vec::new();
        {
            let view = scene.view(message);
            let source = match &self.source {
                Some(source) => source.nodes(&view, scene.budget)?.first().copied(),
                None => message.body.payload()?,
            };
            let source = source.ok_or_else(|| fail("there is no XML to transform"))?;
            let document = Self::document(source, scene)?;
            let document = document.as_ref().unwrap_or_else(|| source.document());
            let result = self.sheet.transform_with(document, &options, scene.budget, &mut out);
            result.map_err(|error| fail(&error.to_string()))?;
        }
        message.body.replace_payload(out)?;
        Ok(Next::Continue)
    }
}

impl Xslt {
    /// `source` as a document of its own; `None` if it is the document's element already.
    fn document(
        source: xml::Node<'_>,
        scene: &Scene<'_>,
    ) -> Result<Option<xml::Document>, Failure> {
        if source.document().element() == Some(source) {
            return Ok(None);
        }
        scene.budget.charge_memory(source.document().heap_bytes())?;
        let mut builder = xml::Builder::new();
        xml::copy_subtree(source, &mut builder)?;
        Ok(Some(builder.finish()))
    }
}

fn fail(message: &str) -> Failure {
    Failure::new(Code::MEDIATION, message)
}

pub(super) fn compile(compiler: &mut Compiler, element: &Element<'_>) -> Option<Box<dyn Mediator>> {
    let key = element.required(compiler, "key")?;
    let bytes = match compiler.entry(element, key)? {
        Entry::Xml(bytes) => bytes,
        Entry::Text(text) => text.as_bytes().into(),
    };
    let sheet = match Stylesheet::compile(&bytes, &NoResolver) {
        Ok(sheet) => sheet,
        Err(error) => {
            compiler.error(element, format!("the stylesheet `{key}`: {error}"), None);
            return None;
        }
    };
    let source = element.expression(compiler, "source");
    // Compiled sheets are always kept.
    element.flag(compiler, "useCache", true)?;
    let mut params = Vec::new();
    for child in element.children() {
        if child.name() == "property" {
            let name = child.required(compiler, "name")?;
            let value = child.value_or_expression(compiler)?;
            if sheet.params().any(|param| param == name) {
                params.push((name.to_owned(), value));
            } else {
                let message = format!("the stylesheet `{key}` has no parameter `{name}`");
                compiler.warning(&child, message, None);
            }
        } else {
            let message = format!("`{}` of `xslt` is not served", child.name());
            compiler.error(&child, message, None);
        }
        child.finish(compiler);
    }
    Some(Box::new(Xslt { sheet, source, params }))
}
