//! The body, and its views: made when somebody reads them, kept until somebody edits.

use std::cell::{Cell, OnceCell};
use std::sync::Arc;

use bytes::Bytes;
use expression::mapping::{self, Rules};
use expression::{BodyUse, Budget, json, markup};

use super::coding::Coding;
use super::fault::Fault;
use super::{Format, form, formatter, multipart, soap};
use crate::limits::DECODED_BYTES_MAX;
use crate::{Code, Failure};

/// The body of a message.
#[derive(Debug, Default)]
pub struct Body {
    format: Format,
    /// Between the parts of a multipart body; its content type says it.
    boundary: Option<Box<str>>,
    /// Its content type says ISO-8859-1.
    is_latin: bool,
    /// Of the bytes as they arrived.
    coding: Coding,
    /// What its head says of it is known: coding, boundary, charset.
    is_noted: bool,
    source: Source,
    /// Boxed, since messages are moved often, and most are not read.
    json: OnceCell<Box<json::Document<'static>>>,
    xml: OnceCell<Box<xml::Document>>,
    /// Of a body that is edited as XML and is none.
    before: Option<Box<Before>>,
    /// The header of the envelope that it may become.
    header: Option<Arc<xml::Document>>,
    /// An envelope up to its body.
    xml_header: OnceCell<Box<xml::Document>>,
    /// An edited view, written.
    written: OnceCell<Bytes>,
    /// A compressed body without its coding.
    plain: OnceCell<Bytes>,
    /// Text in ISO-8859-1, as UTF-8.
    decoded: OnceCell<Bytes>,
    /// Between JSON and XML; `None`: [`Rules::DEFAULT`].
    mapping: Option<Arc<Rules>>,
    /// Its limit when it is decoded, in bytes; `None`: [`DECODED_BYTES_MAX`].
    decoded_max: Option<usize>,
    /// Its bytes count as those that arrived, but are new.
    is_adopted: bool,
    /// Memory that this body was charged, and releases when it is replaced.
    charged: Cell<u64>,
}

/// What a body was before it was edited as XML, so that what nobody touched stays as it was.
#[derive(Debug, Default)]
struct Before {
    json: Option<json::Document<'static>>,
    /// Of the texts in a multipart body.
    part_types: multipart::Types,
    /// That of the multipart body, when it is written.
    boundary: OnceCell<Box<str>>,
}

/// The authoritative form; views are made of it.
#[derive(Debug, Default)]
enum Source {
    /// Still with the host, which forwards it as it comes.
    #[default]
    Streaming,
    /// As it arrived.
    Bytes(Bytes),
    /// New bytes.
    Written(Bytes),
    /// Edited in its view.
    Json,
    Xml,
}

const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Body>();
};

impl Body {
    /// A body that the host forwards unread.
    #[must_use]
    pub fn streaming(format: Format) -> Self {
        Self { format, ..Self::default() }
    }

    /// A body that the host has read completely.
    #[must_use]
    pub fn held(format: Format, bytes: impl Into<Bytes>) -> Self {
        Self { format, source: Source::Bytes(bytes.into()), ..Self::default() }
    }

    /// With this limit when it is decoded, in bytes.
    #[must_use]
    pub fn decoded_up_to(self, bytes: usize) -> Self {
        Self { decoded_max: Some(bytes), ..self }
    }

    /// The bytes of a body that was streaming.
    pub(super) fn hold(&mut self, bytes: impl Into<Bytes>) {
        self.source = Source::Bytes(bytes.into());
    }

    /// How it becomes JSON or XML.
    pub(crate) fn set_mapping(&mut self, mapping: Option<Arc<Rules>>) {
        self.mapping = mapping;
    }

    pub(crate) fn mapping(&self) -> &Rules {
        self.mapping.as_deref().unwrap_or(&Rules::DEFAULT)
    }

    /// As another body of the same run, unless it says so itself.
    pub(crate) fn mapped_as(self, other: &Self) -> Self {
        let mapping = self.mapping.clone().or_else(|| other.mapping.clone());
        Self { mapping, ..self }
    }

    /// The boundary of a multipart body, which its content type says.
    pub(super) fn set_boundary(&mut self, boundary: Option<&str>) {
        self.boundary = boundary.map(Into::into);
    }

    pub(super) fn boundary(&self) -> Option<&str> {
        let written = self.before.as_ref().and_then(|before| before.boundary.get());
        written.or(self.boundary.as_ref()).map(|boundary| &**boundary)
    }

    /// The coding that its head says; new bytes have none.
    pub(super) fn set_coding(&mut self, coding: Coding) {
        self.coding = coding;
        self.is_noted = true;
    }

    pub(super) fn is_noted(&self) -> bool {
        self.is_noted
    }

    /// The charset that its content type says.
    pub(super) fn set_charset(&mut self, charset: Option<&str>) {
        let names = ["iso-8859-1", "latin1"];
        let is_named = |charset: &str| names.iter().any(|name| charset.eq_ignore_ascii_case(name));
        self.is_latin = charset.is_some_and(is_named);
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

    /// Whether its bytes are new, so that whoever holds them was not charged for them yet.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.is_adopted || self.state() == BodyUse::Rewritten
    }

    /// From now on, new bytes count as those that arrived: what the head says of them is true.
    pub(super) fn adopt(&mut self) {
        if let Source::Written(bytes) = &mut self.source {
            (self.source, self.is_adopted) = (Source::Bytes(std::mem::take(bytes)), true);
            self.is_noted = false;
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
            Source::Xml => self.xml.get().map_or(0, |document| document.heap_bytes()),
        }
    }

    /// The size that whoever reads it should expect, in bytes.
    #[must_use]
    pub fn size_to_read(&self) -> usize {
        match &self.source {
            Source::Bytes(bytes) if self.plain.get().is_none() => {
                self.coding.decoded_max(bytes.len(), self.decoded_max())
            }
            Source::Bytes(_)
            | Source::Streaming
            | Source::Written(_)
            | Source::Json
            | Source::Xml => self.size(),
        }
    }

    /// The same body for another message: its bytes are shared, not copied.
    ///
    /// # Errors
    /// The host did not hold it; an edited tree that cannot be written.
    pub fn share(&self, budget: &Budget) -> Result<Self, Failure> {
        let source = match &self.source {
            Source::Bytes(bytes) => Source::Bytes(bytes.clone()),
            Source::Written(_) | Source::Json | Source::Xml => {
                Source::Written(self.bytes(budget)?.unwrap_or_default())
            }
            Source::Streaming => return Err(not_held()),
        };
        let (boundary, is_latin) = (self.boundary().map(Into::into), self.is_latin);
        let (coding, is_noted) = (self.coding.clone(), self.is_noted);
        let (format, decoded_max, is_adopted) = (self.format, self.decoded_max, self.is_adopted);
        let copy = Self { format, boundary, is_latin, coding, is_noted, ..Self::default() };
        let header = self.header.clone();
        Ok(Self { decoded_max, is_adopted, source, header, ..copy.mapped_as(self) })
    }

    /// Replaces it by `bytes` in `format`, which are checked when somebody reads them.
    ///
    /// # Errors
    /// They do not fit what is left of the budget.
    pub fn replace(
        &mut self,
        format: Format,
        bytes: impl Into<Vec<u8>>,
        budget: &Budget,
    ) -> Result<(), Failure> {
        self.replace_shared(format, exact(bytes), budget)
    }

    /// The same by bytes that another body may have, too.
    fn replace_shared(
        &mut self,
        format: Format,
        bytes: Bytes,
        budget: &Budget,
    ) -> Result<(), Failure> {
        let charged = bytes.len();
        self.become_new(format, Source::Written(bytes), budget);
        self.charge(budget, || Ok(budget.charge_memory(charged)?))
    }

    fn become_new(&mut self, format: Format, source: Source, budget: &Budget) {
        budget.release_memory(usize::try_from(self.charged.take()).unwrap_or(usize::MAX));
        let (mapping, header) = (self.mapping.take(), self.header.take());
        *self = Self { format, source, mapping, header, ..Self::default() };
    }

    fn decoded_max(&self) -> usize {
        self.decoded_max.unwrap_or(DECODED_BYTES_MAX)
    }

    /// Drops its views, and what they were charged: it is written, and leaves its run. The host charges what is left.
    pub(crate) fn settle(&mut self, budget: &Budget) {
        if let Some(bytes) = self.written.take() {
            self.source = Source::Written(bytes);
        }
        if matches!(self.source, Source::Bytes(_) | Source::Written(_)) {
            (self.json, self.xml, self.xml_header) = Default::default();
            (self.plain, self.decoded) = Default::default();
            budget.release_memory(usize::try_from(self.charged.take()).unwrap_or(usize::MAX));
        }
    }

    /// Counts what `make` is charged, to release it when this body is replaced.
    fn charge<T>(
        &self,
        budget: &Budget,
        make: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let before = budget.bytes_used();
        let made = make();
        let added = budget.bytes_used().saturating_sub(before);
        self.charged.set(self.charged.get().saturating_add(added));
        made
    }

    /// Converts it to `format`: between JSON and XML by Synapse's mapping, with or without an envelope.
    ///
    /// # Errors
    /// It is not well-formed.
    pub fn convert(&mut self, format: Format, budget: &Budget) -> Result<(), Failure> {
        let namespace = soap::namespace(format);
        let is_empty = self.is_empty() && (namespace.is_none() || self.header.is_none());
        if format == self.format || matches!(self.source, Source::Streaming) || is_empty {
            self.format = format;
            return Ok(());
        }
        if let Some(namespace) = namespace {
            let envelope = self.in_envelope(namespace, budget)?;
            return self.replace(format, envelope, budget);
        }
        let is_plain = matches!(self.format, Format::Json | Format::Text);
        if format == Format::Binary || format == Format::Text && is_plain {
            if let Some(bytes) = self.plain_bytes(budget)? {
                let bytes = match self.payload(budget) {
                    Ok(Some(payload)) if formatter::is_wrapper(payload) => {
                        formatter::write(payload, format, None, (self.mapping(), budget))?.0.into()
                    }
                    _ => bytes,
                };
                self.replace_shared(format, bytes, budget)?;
            }
            return Ok(());
        }
        let boundary = self.boundary.take();
        let Some(payload) = self.payload(budget)? else {
            // An envelope without a payload.
            return self.replace(format, Vec::new(), budget);
        };
        let (bytes, boundary) =
            formatter::write(payload, format, boundary.as_deref(), (self.mapping(), budget))?;
        self.replace(format, bytes, budget)?;
        self.set_boundary(boundary.as_deref());
        Ok(())
    }

    /// The payload and the header in an envelope in `namespace`.
    ///
    /// # Errors
    /// As [`Body::xml`].
    pub(crate) fn in_envelope(&self, namespace: &str, budget: &Budget) -> Result<Vec<u8>, Failure> {
        let payload = self.payload(budget)?;
        soap::envelope(namespace, self.envelope(budget)?, budget, |writer, prefix| match payload {
            Some(fault) if soap::is_fault(fault) && fault.namespace() != namespace => {
                Fault::read(fault, namespace, budget)?.write(writer, (prefix, namespace))
            }
            Some(payload) => {
                markup::charge_copy(payload, budget)?;
                Ok(writer.tree(payload)?)
            }
            None => Ok(()),
        })
    }

    /// The envelope, or the header of the one that it may become.
    ///
    /// # Errors
    /// As [`Body::xml`].
    pub(crate) fn envelope(&self, budget: &Budget) -> Result<Option<&xml::Document>, Failure> {
        let document = if self.format.is_xml() { self.xml(budget)? } else { None };
        let envelope = document.filter(|document| soap::part(document, "Body").is_some());
        Ok(envelope.or(self.header.as_deref()))
    }

    /// The header of the envelope, to edit it; it is made if there is none. That of a body without an envelope is kept
    /// for the one that it may become.
    ///
    /// # Errors
    /// As [`Body::xml`].
    pub(crate) fn edit_header(
        &mut self,
        budget: &Budget,
    ) -> Result<Option<(&mut xml::Document, xml::NodeId)>, Failure> {
        if soap::namespace(self.format).is_none() {
            if self.header.is_none() {
                self.header = Some(Arc::new(soap::empty_header()?));
            }
            let Some(header) = &mut self.header else { return Ok(None) };
            if Arc::strong_count(header) > 1 {
                budget.charge_memory(header.heap_bytes())?;
            }
            let header = Arc::make_mut(header);
            // A copy has node ids of its own.
            let root = header.element().map(xml::Node::id);
            return Ok(root.map(|root| (header, root)));
        }
        let Some(document) = self.xml(budget)? else { return Ok(None) };
        let Some(body) = soap::part(document, "Body") else { return Ok(None) };
        let (prefix, namespace) = (body.prefix().to_owned(), body.namespace().to_owned());
        let (body, present) = (body.id(), soap::part(document, "Header").map(xml::Node::id));
        let Some(document) = self.edit_xml(budget)? else { return Ok(None) };
        if let Some(header) = present {
            return Ok(Some((document, header)));
        }
        let made = document.create_element(xml::QNameRef::new(&prefix, &namespace, "Header"))?;
        document.insert_before(body, made)?;
        Ok(Some((document, made)))
    }

    /// What Synapse calls the payload: the first element in the envelope's body, or the document element.
    ///
    /// # Errors
    /// As [`Body::xml`].
    pub fn payload(&self, budget: &Budget) -> Result<Option<xml::Node<'_>>, Failure> {
        Ok(self.xml(budget)?.and_then(soap::payload))
    }

    /// Replaces the payload by XML in `bytes`. An envelope keeps its header; one that is the new payload replaces it.
    ///
    /// # Errors
    /// The old body is malformed; `bytes` is not UTF-8; the budget.
    pub fn replace_payload(&mut self, bytes: Vec<u8>, budget: &Budget) -> Result<(), Failure> {
        let text = std::str::from_utf8(&bytes).map_err(|error| self.malformed(&error))?;
        if soap::is_envelope(text) {
            let format = Format::guess(&bytes);
            return self.replace(format, bytes, budget);
        }
        let Some(namespace) = soap::namespace(self.format) else {
            return self.replace(Format::Xml, bytes, budget);
        };
        let is_read = matches!(self.source, Source::Bytes(_) | Source::Written(_));
        let old = self.xml(budget)?;
        budget.charge_memory(bytes.len())?;
        let around = old.filter(|_| is_read && xml::is_text(text));
        let written = match around.and_then(|old| soap::around_payload(old, namespace)) {
            Some((before, after)) => {
                budget.charge_memory(before.len())?;
                [before, soap::without_declaration(text), &after].concat().into_bytes()
            }
            None => soap::envelope(namespace, old, budget, |writer, _| {
                Ok(writer.raw(soap::without_declaration(text))?)
            })?,
        };
        self.replace(self.format, written, budget)
    }

    /// Replaces it by a JSON document.
    pub fn replace_json(&mut self, document: json::Document<'static>, budget: &Budget) {
        self.become_new(Format::Json, Source::Json, budget);
        self.json = OnceCell::from(Box::new(document));
    }

    /// As JSON; XML and forms are converted. `None` if it is text or bytes, or empty.
    ///
    /// # Errors
    /// It is not well-formed; the budget.
    pub fn json(&self, budget: &Budget) -> Result<Option<&json::Document<'static>>, Failure> {
        if let Some(document) = self.json.get() {
            return Ok(Some(document));
        }
        let document = match self.format {
            Format::Text | Format::Binary => return Ok(None),
            Format::Json if !matches!(self.source, Source::Xml) => {
                let Some(bytes) = self.content(budget)? else { return Ok(None) };
                self.charge(budget, || {
                    budget.charge_memory(bytes.len())?;
                    let document = json::Document::parse_within(bytes, budget);
                    Ok(document.map_err(|error| self.unreadable(error))?.into_owned())
                })?
            }
            Format::Json
            | Format::Xml
            | Format::Soap11
            | Format::Soap12
            | Format::Form
            | Format::Multipart => {
                let Some(payload) = self.payload(budget)? else { return Ok(None) };
                self.charge(budget, || self.json_of(payload, budget))?
            }
        };
        Ok(Some(self.json.get_or_init(|| Box::new(document))))
    }

    /// The JSON of an XML payload. Of JSON that was edited as XML, what nobody touched is as it was.
    fn json_of(
        &self,
        payload: xml::Node<'_>,
        budget: &Budget,
    ) -> Result<json::Document<'static>, Failure> {
        let rules = self.mapping();
        let edited = mapping::to_json(payload, rules, budget)?;
        let original = self.before.as_ref().and_then(|before| before.json.as_ref());
        let Some(original) = original else { return Ok(edited) };
        let tree = mapping::to_xml(original.root(), rules, budget)?;
        let Some(root) = tree.element() else { return Ok(edited) };
        let mapped = mapping::to_json(root, rules, budget)?;
        Ok(mapping::restore(original.root(), mapped.root(), edited.root(), budget)?)
    }

    /// As XML; JSON, forms, text and bytes are converted. `None` if it is empty.
    ///
    /// # Errors
    /// It is not well-formed, or XML does not allow a text; the budget.
    pub fn xml(&self, budget: &Budget) -> Result<Option<&xml::Document>, Failure> {
        if let Some(document) = self.xml.get() {
            return Ok(Some(document));
        }
        if self.format == Format::Json {
            let Some(document) = self.json(budget)? else { return Ok(None) };
            let document = self
                .charge(budget, || Ok(mapping::to_xml(document.root(), self.mapping(), budget)?))?;
            return Ok(Some(self.xml.get_or_init(|| Box::new(document))));
        }
        let Some(bytes) = self.content(budget)? else { return Ok(None) };
        let document = self.charge(budget, || match self.format {
            Format::Form => form::to_xml(bytes, budget),
            Format::Multipart => multipart::to_xml(bytes, self.boundary(), budget),
            Format::Text => {
                let text = std::str::from_utf8(bytes).map_err(|error| self.malformed(&error))?;
                formatter::text_as_xml(text, budget)
            }
            Format::Binary => formatter::bytes_as_xml(bytes, budget),
            Format::Json | Format::Xml | Format::Soap11 | Format::Soap12 => {
                budget.charge_reading(bytes.len())?;
                let document = xml::Document::parse(bytes);
                let document = document.map_err(|error| self.malformed(&error))?;
                budget.charge_memory(document.heap_bytes())?;
                Ok(document)
            }
        })?;
        Ok(Some(self.xml.get_or_init(|| Box::new(document))))
    }

    /// The same, of an envelope perhaps no more than comes before its body: what follows is then not parsed.
    ///
    /// # Errors
    /// As [`Body::xml`].
    pub fn xml_header(&self, budget: &Budget) -> Result<Option<&xml::Document>, Failure> {
        if let Some(document) = self.xml.get().or_else(|| self.xml_header.get()) {
            return Ok(Some(document));
        }
        let is_read = matches!(self.source, Source::Bytes(_) | Source::Written(_));
        if soap::namespace(self.format).is_none() || !is_read {
            return self.xml(budget);
        }
        let Some(bytes) = self.content(budget)? else { return Ok(None) };
        let document = self.charge(budget, || {
            let document = soap::up_to_body(bytes, budget)?;
            document.iter().try_for_each(|of| budget.charge_memory(of.heap_bytes()))?;
            Ok(document)
        })?;
        match document {
            Some(document) => Ok(Some(self.xml_header.get_or_init(|| Box::new(document)))),
            // Not an envelope, or malformed.
            None => self.xml(budget),
        }
    }

    /// The XML tree, to edit it: from now on it is what the body is written from. Who adds to it charges that.
    ///
    /// # Errors
    /// As [`Body::xml`].
    pub fn edit_xml(&mut self, budget: &Budget) -> Result<Option<&mut xml::Document>, Failure> {
        if self.xml(budget)?.is_none() {
            return Ok(None);
        }
        if !matches!(self.source, Source::Xml) {
            self.before = self.before_edits(budget)?;
        } else if let Some(before) = &mut self.before {
            before.boundary = OnceCell::new();
        }
        self.source = Source::Xml;
        (self.json, self.xml_header) = Default::default();
        self.written = OnceCell::new();
        Ok(self.xml.get_mut().map(|document| &mut **document))
    }

    fn before_edits(&mut self, budget: &Budget) -> Result<Option<Box<Before>>, Failure> {
        let before = match self.format {
            Format::Json => Before { json: self.json.take().map(|it| *it), ..Before::default() },
            Format::Multipart => {
                let (Some(boundary), Some(bytes)) = (self.boundary(), self.content(budget)?) else {
                    return Ok(None);
                };
                let part_types = multipart::types(bytes, boundary, budget)?;
                Before { part_types, ..Before::default() }
            }
            Format::Xml
            | Format::Soap11
            | Format::Soap12
            | Format::Form
            | Format::Text
            | Format::Binary => return Ok(None),
        };
        Ok(Some(Box::new(before)))
    }

    /// The bytes to send; `None` if the host still streams them.
    ///
    /// # Errors
    /// An edited tree that cannot be written.
    pub fn bytes(&self, budget: &Budget) -> Result<Option<Bytes>, Failure> {
        let write = match &self.source {
            Source::Streaming => return Ok(None),
            Source::Bytes(bytes) | Source::Written(bytes) => return Ok(Some(bytes.clone())),
            Source::Json | Source::Xml => || self.write(budget),
        };
        if self.written.get().is_none() {
            let bytes = self.charge(budget, write)?;
            // The cell was empty.
            let _ = self.written.set(exact(bytes));
        }
        Ok(self.written.get().cloned())
    }

    /// An edited view.
    fn write(&self, budget: &Budget) -> Result<Vec<u8>, Failure> {
        if let (Source::Json, Some(document)) = (&self.source, self.json.get()) {
            budget.charge_memory(document.text().len())?;
            return Ok(document.text().as_bytes().to_vec());
        }
        let Some(document) = self.xml.get() else { return Ok(Vec::new()) };
        if self.format.is_xml() {
            return Ok(markup::write(document.root(), budget)?);
        }
        match soap::payload(document) {
            Some(payload) => match (&self.before, self.format) {
                (Some(_), Format::Json) if formatter::wrapped_text(payload).is_none() => {
                    Ok(self.json_of(payload, budget)?.text().as_bytes().to_vec())
                }
                (Some(before), Format::Multipart) => {
                    let (old, types) = (self.boundary.as_deref(), &before.part_types);
                    let (bytes, boundary) = multipart::write(payload, old, types, budget)?;
                    // The cell is empty, since a tree is written once.
                    let _ = before.boundary.set(boundary.into());
                    Ok(bytes)
                }
                _ => {
                    let (old, how) = (self.boundary.as_deref(), (self.mapping(), budget));
                    Ok(formatter::write(payload, self.format, old, how)?.0)
                }
            },
            None => Ok(Vec::new()),
        }
    }

    /// As text, in UTF-8.
    ///
    /// # Errors
    /// The host did not hold it, or it is not text.
    pub fn text(&self, budget: &Budget) -> Result<std::borrow::Cow<'_, str>, Failure> {
        let bytes = match &self.source {
            Source::Streaming => return Err(not_held()),
            Source::Bytes(bytes) => self.decoded(bytes, budget)?,
            Source::Written(bytes) => bytes,
            Source::Json | Source::Xml => {
                self.bytes(budget)?;
                self.written.get_or_init(Bytes::new)
            }
        };
        let text = std::str::from_utf8(bytes).map_err(|error| self.malformed(&error))?;
        Ok(text.into())
    }

    /// As [`Body::bytes`], without a content coding.
    ///
    /// # Errors
    /// As [`Body::bytes`]; it cannot be decoded.
    pub fn plain_bytes(&self, budget: &Budget) -> Result<Option<Bytes>, Failure> {
        match &self.source {
            Source::Bytes(bytes) => Ok(Some(self.plain(bytes, budget)?.clone())),
            Source::Streaming | Source::Written(_) | Source::Json | Source::Xml => {
                self.bytes(budget)
            }
        }
    }

    /// What the host read, without its coding.
    fn plain<'b>(&'b self, bytes: &'b Bytes, budget: &Budget) -> Result<&'b Bytes, Failure> {
        if self.coding == Coding::Identity || bytes.is_empty() {
            return Ok(bytes);
        }
        if self.plain.get().is_none() {
            let plain =
                self.charge(budget, || self.coding.decode(bytes, self.decoded_max(), budget))?;
            // The cell was empty.
            let _ = self.plain.set(plain.into());
        }
        Ok(self.plain.get().unwrap_or(bytes))
    }

    /// The same, in UTF-8 if its content type says ISO-8859-1.
    fn decoded<'b>(&'b self, bytes: &'b Bytes, budget: &Budget) -> Result<&'b Bytes, Failure> {
        let bytes = self.plain(bytes, budget)?;
        if !self.is_latin || bytes.is_ascii() {
            return Ok(bytes);
        }
        if self.decoded.get().is_none() {
            let text = self.charge(budget, || {
                budget.charge_scanning(bytes.len())?;
                budget.charge_memory(bytes.len().saturating_mul(2))?;
                Ok(bytes.iter().copied().map(char::from).collect::<String>())
            })?;
            // The cell was empty.
            let _ = self.decoded.set(text.into());
        }
        Ok(self.decoded.get().unwrap_or(bytes))
    }

    /// What the host read or a mediator wrote; `None` if that is nothing.
    fn content(&self, budget: &Budget) -> Result<Option<&[u8]>, Failure> {
        match &self.source {
            Source::Bytes(bytes) | Source::Written(bytes) => {
                let is_new = matches!(self.source, Source::Written(_));
                let bytes = if is_new { bytes } else { self.decoded(bytes, budget)? };
                let is_plain = matches!(self.format, Format::Text | Format::Binary);
                let is_empty = bytes.is_empty() || !is_plain && bytes.trim_ascii().is_empty();
                Ok((!is_empty).then_some(bytes))
            }
            Source::Json | Source::Xml => Ok(None),
            // A step read what it did not declare.
            Source::Streaming => Err(not_held()),
        }
    }

    fn unreadable(&self, error: expression::Error) -> Failure {
        if let expression::Error::Budget(exceeded) = error {
            return exceeded.into();
        }
        self.malformed(&error)
    }

    fn malformed(&self, error: &dyn std::fmt::Display) -> Failure {
        let message = format!("the body is not {}: {error}", self.format.noun());
        Failure::new(Code::MALFORMED_BODY, message)
    }
}

/// Bytes that reserve no more than their length, by which they are charged.
fn exact(bytes: impl Into<Vec<u8>>) -> Bytes {
    let mut bytes = bytes.into();
    // Not for a few bytes: it may copy them.
    if bytes.capacity().saturating_sub(bytes.len()) > bytes.len() / 8 {
        bytes.shrink_to_fit();
    }
    bytes.into()
}

fn not_held() -> Failure {
    Failure::new(Code::MEDIATION, "the body was not held")
}
