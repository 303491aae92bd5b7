//! Local entries, and resources of the registry.

use std::borrow::Cow;
use std::sync::Arc;

use crate::message::PropertyValue;

/// A local entry, or a resource of the registry.
#[derive(Clone, Debug)]
pub(crate) enum Entry {
    Text(Arc<str>),
    /// Serialised, with its namespaces.
    Xml(Arc<[u8]>),
}

impl Entry {
    pub(crate) fn of(bytes: &Arc<[u8]>) -> Self {
        if xml::Document::parse(bytes).is_ok() {
            Self::Xml(Arc::clone(bytes))
        } else {
            Self::Text(String::from_utf8_lossy(bytes).into())
        }
    }

    /// As `get-property()` reads it.
    pub(crate) fn value(&self) -> PropertyValue {
        match self {
            Self::Text(text) => PropertyValue::Text((**text).into()),
            Self::Xml(bytes) => match xml::Document::parse(bytes) {
                Ok(document) => PropertyValue::Xml(Arc::new(document)),
                Err(_) => PropertyValue::new(self.text()),
            },
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Xml(bytes) => bytes,
        }
    }

    pub(crate) fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.bytes())
    }
}
