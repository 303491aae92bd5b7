//! The body, and its views: made when somebody reads them, kept until somebody edits.

use std::cell::OnceCell;

use expression::{BodyUse, json};

use super::{mapping, soap};
use crate::{Code, Failure};

/// What a body is, by its content type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    Json,
    /// XML without an envelope.
    Xml,
    Soap11,
    Soap12,
    Text,
    #[default]
    Binary,
}

impl Format {
    /// By a `Content-Type`. Source: the message builders of Micro Integrator's `deployment.toml`.
    #[must_use]
    pub fn of(content_type: &str) -> Self {
        let media = content_type.split(';').next().unwrap_or_default().trim();
        let is = |name: &str| media.eq_ignore_ascii_case(name);
        if is("application/json") || ends_with(media, "+json") {
            Self::Json
        } else if is("text/xml") {
            Self::Soap11
        } else if is("application/soap+xml") {
            Self::Soap12
        } else if is("application/xml") || ends_with(media, "+xml") {
            Self::Xml
        } else if starts_with(media, "text/") {
            Self::Text
        } else {
            Self::Binary
        }
    }

    /// The format of a body without a content type: XML, SOAP if it is an envelope, JSON, or text.
    #[must_use]
    pub fn guess(bytes: &[u8]) -> Self {
        match bytes.trim_ascii_start().first() {
            Some(b'{' | b'[') => Self::Json,
            Some(b'<') => {
                let document = xml::Document::parse(bytes);
                let root = document.as_ref().ok().and_then(xml::Document::element);
                match root.filter(|root| root.local_name() == "Envelope") {
                    Some(root) if root.namespace() == soap::SOAP12 => Self::Soap12,
                    Some(root) if root.namespace() == soap::SOAP11 => Self::Soap11,
                    Some(_) | None => Self::Xml,
                }
            }
            Some(_) | None => Self::Text,
        }
    }

    fn is_xml(self) -> bool {
        matches!(self, Self::Xml | Self::Soap11 | Self::Soap12)
    }

    /// The content type of a body that is written in this format.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json; charset=UTF-8",
            Self::Xml => "application/xml; charset=UTF-8",
            Self::Soap11 => "text/xml; charset=UTF-8",
            Self::Soap12 => "application/soap+xml; charset=UTF-8",
            Self::Text => "text/plain; charset=UTF-8",
            Self::Binary => "application/octet-stream",
        }
    }
}

fn ends_with(media: &str, suffix: &str) -> bool {
    media
        .len()
        .checked_sub(suffix.len())
        .and_then(|at| media.get(at..))
        .is_some_and(|end| end.eq_ignore_ascii_case(suffix))
}

fn starts_with(media: &str, prefix: &str) -> bool {
    media.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

/// The body of a message.
#[derive(Debug, Default)]
pub struct Body {
    format: Format,
    source: Source,
    json: OnceCell<json::Document<'static>>,
    xml: OnceCell<xml::Document>,
}

/// The authoritative form; views are made of it.
#[derive(Debug, Default)]
enum Source {
    /// Still with the host, which forwards it as it comes.
    #[default]
    Streaming,
    /// As it arrived.
    Bytes(Vec<u8>),
    /// New bytes.
    Written(Vec<u8>),
    /// Edited in its view.
    Json,
    Xml,
}

impl Body {
    /// A body that the host forwards unread.
    #[must_use]
    pub fn streaming(format: Format) -> Self {
        Self { format, ..Self::default() }
    }

    /// A body that the host has read completely.
    #[must_use]
    pub fn held(format: Format, bytes: Vec<u8>) -> Self {
        Self { format, source: Source::Bytes(bytes), ..Self::default() }
    }

    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// What happened to it: whether it is still [`BodyUse::Untouched`] on the wire, held, or new.
    #[must_use]
    pub fn state(&self) -> BodyUse {
        match self.source {
            Source::Streaming => BodyUse::Untouched,
            Source::Bytes(_) => BodyUse::Read,
            Source::Written(_) | Source::Json | Source::Xml => BodyUse::Rewritten,
        }
    }

    /// Whether there is no body.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match &self.source {
            Source::Bytes(bytes) | Source::Written(bytes) => bytes.is_empty(),
            Source::Streaming | Source::Json | Source::Xml => false,
        }
    }

    /// Its size in bytes, roughly: an edited tree by its memory.
    #[must_use]
    pub fn size(&self) -> usize {
        match &self.source {
            Source::Streaming => 0,
            Source::Bytes(bytes) | Source::Written(bytes) => bytes.len(),
            Source::Json => self.json.get().map_or(0, |document| document.text().len()),
            Source::Xml => self.xml.get().map_or(0, xml::Document::heap_bytes),
        }
    }

    /// A copy; of a body that still streams, an empty one.
    ///
    /// # Errors
    /// An edited tree that cannot be written.
    pub fn copy(&self) -> Result<Self, Failure> {
        let source = match &self.source {
            Source::Streaming => Source::Bytes(Vec::new()),
            Source::Bytes(bytes) => Source::Bytes(bytes.clone()),
            Source::Written(bytes) => Source::Written(bytes.clone()),
            Source::Json | Source::Xml => Source::Written(self.text()?.into_owned().into_bytes()),
        };
        Ok(Self { format: self.format, source, ..Self::default() })
    }

    /// Replaces it by `bytes` in `format`, which are checked when somebody reads them.
    pub fn replace(&mut self, format: Format, bytes: Vec<u8>) {
        *self = Self { format, source: Source::Written(bytes), ..Self::default() };
    }

    /// Converts it to `format`: between JSON and XML by Synapse's mapping, with or without an envelope.
    ///
    /// # Errors
    /// It is not well-formed.
    pub fn convert(&mut self, format: Format) -> Result<(), Failure> {
        if format == self.format || matches!(self.source, Source::Streaming) || self.is_empty() {
            self.format = format;
            return Ok(());
        }
        if format == Format::Json && self.format.is_xml() {
            if let Some(payload) = self.payload()? {
                self.replace_json(mapping::to_json(payload));
            }
        } else if format.is_xml() && (self.format.is_xml() || self.format == Format::Json) {
            let Some(payload) = self.payload()?.map(crate::compile::serialise) else {
                return Ok(());
            };
            // The header goes with an envelope of another version.
            self.replace(Format::Xml, Vec::new());
            self.format = format;
            self.replace_payload(payload)?;
        } else {
            let bytes = self.take_bytes()?.unwrap_or_default();
            self.replace(format, bytes);
        }
        Ok(())
    }

    /// What Synapse calls the payload: the first element in the envelope's body, or the document element.
    ///
    /// # Errors
    /// As [`Body::xml`].
    pub fn payload(&self) -> Result<Option<xml::Node<'_>>, Failure> {
        Ok(self.xml()?.and_then(soap::payload))
    }

    /// Replaces the payload by XML in `bytes`. An envelope keeps its header; one that is the new payload replaces it.
    ///
    /// # Errors
    /// The old body is malformed; `bytes` is not UTF-8.
    pub fn replace_payload(&mut self, bytes: Vec<u8>) -> Result<(), Failure> {
        let Some(namespace) = soap::namespace(self.format) else {
            self.replace(Format::Xml, bytes);
            return Ok(());
        };
        let text = std::str::from_utf8(&bytes).map_err(|error| self.malformed(&error))?;
        if soap::is_envelope(text) {
            self.replace(self.format, bytes);
            return Ok(());
        }
        let old = if self.is_empty() { None } else { self.xml()? };
        let written = soap::envelope(namespace, old, text)?;
        self.replace(self.format, written);
        Ok(())
    }

    /// Replaces it by an XML document; `format` is one of XML.
    pub fn replace_xml(&mut self, format: Format, document: xml::Document) {
        *self = Self { format, source: Source::Xml, ..Self::default() };
        self.xml = OnceCell::from(document);
    }

    /// Replaces it by a JSON document.
    pub fn replace_json(&mut self, document: json::Document<'static>) {
        *self = Self { format: Format::Json, source: Source::Json, ..Self::default() };
        self.json = OnceCell::from(document);
    }

    /// As JSON; XML is converted. `None` if it is of another format, or empty.
    ///
    /// # Errors
    /// It is not well-formed.
    pub fn json(&self) -> Result<Option<&json::Document<'static>>, Failure> {
        if let Some(document) = self.json.get() {
            return Ok(Some(document));
        }
        if self.format.is_xml() || matches!(self.source, Source::Xml) {
            let Some(payload) = self.payload()? else { return Ok(None) };
            return Ok(Some(self.json.get_or_init(|| mapping::to_json(payload))));
        }
        if self.format != Format::Json {
            return Ok(None);
        }
        let Some(bytes) = self.readable()? else { return Ok(None) };
        let document = json::Document::parse(bytes).map_err(|error| self.malformed(&error))?;
        Ok(Some(self.json.get_or_init(|| document.into_owned())))
    }

    /// As XML; JSON is converted. `None` if it is of another format, or empty.
    ///
    /// # Errors
    /// It is not well-formed, or XML does not allow a text.
    pub fn xml(&self) -> Result<Option<&xml::Document>, Failure> {
        if let Some(document) = self.xml.get() {
            return Ok(Some(document));
        }
        if self.format == Format::Json {
            let Some(document) = self.json()? else { return Ok(None) };
            let document = mapping::to_xml(document.root())?;
            return Ok(Some(self.xml.get_or_init(|| document)));
        }
        if !self.format.is_xml() {
            return Ok(None);
        }
        let Some(bytes) = self.readable()? else { return Ok(None) };
        let document = xml::Document::parse(bytes).map_err(|error| self.malformed(&error))?;
        Ok(Some(self.xml.get_or_init(|| document)))
    }

    /// The XML tree, to edit it: from now on it is what the body is written from.
    ///
    /// # Errors
    /// As [`Body::xml`].
    pub fn edit_xml(&mut self) -> Result<Option<&mut xml::Document>, Failure> {
        if self.xml()?.is_none() {
            return Ok(None);
        }
        self.source = Source::Xml;
        self.json = OnceCell::new();
        Ok(self.xml.get_mut())
    }

    /// The bytes to send. Empties the body.
    ///
    /// # Errors
    /// An edited tree that cannot be written.
    pub fn take_bytes(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        let taken = std::mem::take(self);
        Ok(match taken.source {
            Source::Streaming => None,
            Source::Bytes(bytes) | Source::Written(bytes) => Some(bytes),
            Source::Json => taken.json.get().map(|document| document.text().as_bytes().to_vec()),
            Source::Xml if taken.format == Format::Json => {
                taken.json()?.map(|document| document.text().as_bytes().to_vec())
            }
            Source::Xml => match taken.xml.get() {
                Some(document) => {
                    let options = xml::WriterOptions { declaration: false, ..Default::default() };
                    Some(document.write(options)?)
                }
                None => None,
            },
        })
    }

    /// As text, in UTF-8.
    ///
    /// # Errors
    /// The host did not hold it, or it is not text.
    pub fn text(&self) -> Result<std::borrow::Cow<'_, str>, Failure> {
        match &self.source {
            Source::Json => Ok(self.json.get().map_or("", json::Document::text).into()),
            Source::Xml if self.format == Format::Json => {
                Ok(self.json()?.map_or("", json::Document::text).into())
            }
            Source::Xml => match self.xml.get() {
                Some(document) => {
                    let options = xml::WriterOptions { declaration: false, ..Default::default() };
                    let bytes = document.write(options)?;
                    Ok(String::from_utf8(bytes).unwrap_or_default().into())
                }
                None => Ok("".into()),
            },
            Source::Streaming | Source::Bytes(_) | Source::Written(_) => {
                let bytes = self.readable()?.unwrap_or_default();
                let text = std::str::from_utf8(bytes).map_err(|error| self.malformed(&error))?;
                Ok(text.into())
            }
        }
    }

    fn readable(&self) -> Result<Option<&[u8]>, Failure> {
        match &self.source {
            Source::Bytes(bytes) | Source::Written(bytes) if bytes.is_empty() => Ok(None),
            Source::Bytes(bytes) | Source::Written(bytes) => Ok(Some(bytes)),
            Source::Json | Source::Xml => Ok(None),
            // A step read what it did not declare.
            Source::Streaming => Err(Failure::new(Code::MEDIATION, "the body was not held")),
        }
    }

    fn malformed(&self, error: &dyn std::fmt::Display) -> Failure {
        let format = match self.format {
            Format::Json => "JSON",
            Format::Xml | Format::Soap11 | Format::Soap12 => "XML",
            Format::Text | Format::Binary => "text",
        };
        Failure::new(Code::MALFORMED_BODY, format!("the body is not {format}: {error}"))
    }
}
