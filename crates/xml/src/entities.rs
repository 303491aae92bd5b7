//! External entities: the interface through which a caller supplies them. This crate opens nothing itself.

use crate::error::{ErrorKind, OffsetError, Position};
use crate::input;

/// Supplies the external subset and the external parameter entities of a document type, for
/// [`Document::parse_with_entities`](crate::Document::parse_with_entities).
///
/// A closure is a resolver too:
///
/// ```
/// use penstock_xml::{Doctype, Document, EntityText, ExternalEntity, Options};
///
/// let resolver = |entity: &ExternalEntity<'_>| match entity.system_id {
///     "colours.ent" => Ok(Some(EntityText::new(b"<!ENTITY red '#f00'>", "file:///etc/colours.ent"))),
///     other => Err(format!("`{other}` isn't on the list of permitted entities")),
/// };
/// let options = Options { doctype: Doctype::Read, ..Options::default() };
/// let text = b"<!DOCTYPE a [<!ENTITY % colours SYSTEM 'colours.ent'> %colours;]><a>&red;</a>";
/// let document = Document::parse_with_entities(text, &options, &resolver)?;
/// assert_eq!(document.root().string_value(), "#f00");
/// # Ok::<(), penstock_xml::Error>(())
/// ```
pub trait EntityResolver {
    /// Returns the entity; `None` to treat it as if there were no resolver: an external subset is
    /// skipped, a reference to a parameter entity is [`ErrorKind::ExternalEntity`].
    ///
    /// # Errors
    /// The reason for rejecting it, for people to read. Parsing fails with
    /// [`ErrorKind::EntityRejected`].
    fn resolve(&self, entity: &ExternalEntity<'_>) -> Result<Option<EntityText>, String>;
}

impl<F> EntityResolver for F
where
    F: Fn(&ExternalEntity<'_>) -> Result<Option<EntityText>, String>,
{
    fn resolve(&self, entity: &ExternalEntity<'_>) -> Result<Option<EntityText>, String> {
        self(entity)
    }
}

/// The entity that an [`EntityResolver`] is to supply.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ExternalEntity<'e> {
    /// The name of the parameter entity, without `%`; `None` for the external subset.
    pub name: Option<&'e str>,
    /// The system identifier as written: a URI, usually relative to [`base_uri`](Self::base_uri).
    pub system_id: &'e str,
    pub public_id: Option<&'e str>,
    /// The URI of the document or entity that contains the declaration. For the document it is
    /// [`Options::base_uri`](crate::Options::base_uri).
    pub base_uri: Option<&'e str>,
    /// Maximum size of the entity: the unused part of [`Limits::entity_bytes`](crate::Limits::entity_bytes). Longer:
    /// rejected.
    pub bytes_max: u32,
}

/// The content of an external entity, in any of the encodings that documents may have.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EntityText {
    pub bytes: Vec<u8>,
    /// URI of the entity: its name in errors, and the base URI for references inside it.
    pub uri: String,
}

impl EntityText {
    pub fn new(bytes: impl Into<Vec<u8>>, uri: impl Into<String>) -> Self {
        Self { bytes: bytes.into(), uri: uri.into() }
    }
}

/// The replacement text of a parameter entity.
#[derive(Debug)]
pub(crate) struct Replacement {
    pub(crate) text: String,
    /// Where the text begins, after the text declaration of an external entity.
    pub(crate) start: usize,
    /// URI of an external entity.
    pub(crate) uri: Option<String>,
}

impl Replacement {
    pub(crate) fn internal(text: String) -> Self {
        Self { text, start: 0, uri: None }
    }

    /// Decodes an external entity.
    pub(crate) fn external(found: EntityText) -> Result<Self, ErrorKind> {
        let EntityText { bytes, uri } = found;
        match input::entity(&bytes) {
            Ok((text, start)) => Ok(Self { text, start, uri: Some(uri) }),
            Err(error) => {
                let Position { line, column } = error.position().unwrap_or_default();
                let kind = Box::new(error.into_kind());
                Err(ErrorKind::InEntity { entity: uri, line, column, kind })
            }
        }
    }

    pub(crate) fn content(&self) -> &str {
        self.text.get(self.start..).unwrap_or("")
    }

    /// An error in the text of an external entity, as an error at the reference to it.
    pub(crate) fn located(&self, error: OffsetError, reference: usize) -> OffsetError {
        let Some(uri) = &self.uri else { return error };
        let place = Position::of(&self.text, error.at);
        OffsetError::new(
            reference,
            ErrorKind::InEntity {
                entity: uri.clone(),
                line: place.line,
                column: place.column,
                kind: error.kind,
            },
        )
    }
}
