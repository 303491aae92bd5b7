//! What `enrich` copies.

use std::sync::Arc;

use expression::mapping::{self, Rules};
use expression::{Budget, Value, json};

use crate::error::Failure;

/// The copied part.
#[derive(Clone, Debug)]
pub(crate) enum Piece {
    Xml(Vec<Arc<xml::Document>>),
    Json(Arc<json::Document<'static>>),
    Text(Arc<str>),
}

impl Piece {
    /// As [`Piece::of`], charged.
    pub(crate) fn read(text: &str, budget: &Budget) -> Result<Self, Failure> {
        budget.charge_scanning(text.len())?;
        // As much as the tree of a text takes, or a copy of it.
        budget.charge_memory(text.len().saturating_mul(4))?;
        Ok(Self::of(text))
    }

    /// XML or JSON if the text looks like one of them and is well-formed.
    pub(crate) fn of(text: &str) -> Self {
        let parsed = match text.trim_start().bytes().next() {
            Some(b'<') => {
                let document = xml::Document::parse(text.trim().as_bytes()).ok();
                document.map(|document| Self::Xml(vec![Arc::new(document)]))
            }
            Some(b'{' | b'[') => {
                let document = json::Document::parse(text.trim().as_bytes()).ok();
                document.map(|document| Self::Json(Arc::new(document.into_owned())))
            }
            Some(_) | None => None,
        };
        parsed.unwrap_or_else(|| Self::Text(text.into()))
    }

    /// # Errors
    /// The text is not JSON.
    pub(crate) fn of_json(text: &str) -> Result<Self, Failure> {
        Ok(Self::Json(Arc::new(json::Document::parse(text.as_bytes())?.into_owned())))
    }

    /// As JSON: text that spells a JSON value is that value, as in Synapse.
    pub(crate) fn to_json(&self, rules: &Rules, budget: &Budget) -> Result<String, Failure> {
        let text = match self {
            Self::Json(document) => document.text().to_owned(),
            Self::Text(text) if json::Document::parse(text.trim().as_bytes()).is_ok() => {
                text.trim().to_owned()
            }
            Self::Text(text) => Value::Text((&**text).into()).to_json(),
            Self::Xml(documents) => match documents.first().and_then(|document| document.element())
            {
                Some(root) => mapping::to_json(root, rules, budget)?.text().to_owned(),
                None => "null".to_owned(),
            },
        };
        budget.charge_memory(text.len())?;
        Ok(text)
    }
}
