//! A body in another format or with another payload.

use std::cell::OnceCell;
use std::sync::Arc;

use expression::{Budget, json, markup};

use super::{Body, Source, exact};
use crate::error::{Code, Failure};
use crate::message::fault::Fault;
use crate::message::soap::Around;
use crate::message::{Format, formatter, soap};

impl Body {
    /// Converts it to `format`: between JSON and XML by Synapse's mapping, with or without an envelope. Attachments are
    /// dropped.
    ///
    /// # Errors
    /// It is not well-formed.
    pub fn convert(&mut self, format: Format, budget: &Budget) -> Result<(), Failure> {
        let namespace = soap::namespace(format);
        let is_empty = self.is_empty() && (namespace.is_none() || self.header.is_none());
        let is_same = format == self.format && self.package.is_none();
        if is_same || matches!(self.source, Source::Streaming) || is_empty {
            self.format = format;
            return Ok(());
        }
        if format == self.format {
            let written = self.xml(budget)?.map(|document| markup::write(document.root(), budget));
            return self.replace(format, written.transpose()?.unwrap_or_default(), budget);
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
                    _ if format == Format::Text => {
                        self.text(budget)?.into_owned().into_bytes().into()
                    }
                    _ => bytes,
                };
                self.replace_shared(format, bytes, budget)?;
            }
            return Ok(());
        }
        let Some(payload) = self.payload(budget)? else {
            // An envelope without a payload.
            return self.replace(format, Vec::new(), budget);
        };
        let (boundary, how) = (self.boundary.as_deref(), (self.mapping(), budget));
        let (bytes, boundary) = formatter::write(payload, format, boundary, how)?;
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

    /// The header of the envelope, to edit it; it is made if there is none. The header of a body without an envelope is
    /// kept for the envelope that it may become.
    ///
    /// # Errors
    /// As [`Body::xml`].
    pub(crate) fn edit_header(
        &mut self,
        budget: &Budget,
    ) -> Result<Option<(&mut xml::Document, xml::NodeId)>, Failure> {
        if soap::namespace(self.format).is_none() {
            self.edits = self.edits.saturating_add(1);
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

    /// Synapse's payload: the first element in the envelope's body, or the document element.
    ///
    /// # Errors
    /// As [`Body::xml`].
    pub fn payload(&self, budget: &Budget) -> Result<Option<xml::Node<'_>>, Failure> {
        let Some(document) = self.xml(budget)? else { return Ok(None) };
        let known = self.payload.get().and_then(|id| document.node(id));
        let payload = known.or_else(|| soap::payload(document));
        self.payload.set(payload.map(xml::Node::id));
        Ok(payload)
    }

    /// Replaces the payload by XML in `bytes`. An envelope keeps its header; one that is the new payload replaces it.
    ///
    /// # Errors
    /// The old body is malformed; `bytes` is not UTF-8; the budget.
    pub fn replace_payload(&mut self, bytes: Vec<u8>, budget: &Budget) -> Result<(), Failure> {
        let text = String::from_utf8(bytes).map_err(|error| self.malformed(&error))?;
        self.replace_payload_by(text, false, budget)
    }

    /// The same by text; `is_checked`: XML allows all of its characters.
    ///
    /// # Errors
    /// As [`Body::replace_payload`].
    pub(crate) fn replace_payload_by(
        &mut self,
        text: String,
        is_checked: bool,
        budget: &Budget,
    ) -> Result<(), Failure> {
        let payload = soap::without_declaration(&text);
        if soap::is_envelope(payload) {
            let format = Format::guess(text.as_bytes());
            return self.replace_root(format, text, budget);
        }
        let Some(namespace) = soap::namespace(self.format) else {
            return self.replace(Format::Xml, text, budget);
        };
        budget.charge_memory(text.len())?;
        let is_text = || is_checked || xml::is_text(payload);
        let written = match self.around_payload(budget)?.filter(|_| is_text()) {
            Some((before, after)) => {
                budget.charge_memory(before.len())?;
                let after_bytes: usize = after.iter().map(|piece| piece.len()).sum();
                let bytes = [before.len(), payload.len(), after_bytes].iter().sum();
                let mut written = String::with_capacity(bytes);
                written.extend([before, payload]);
                written.extend(after);
                written.into_bytes()
            }
            None => soap::envelope(namespace, self.xml(budget)?, budget, |writer, _| {
                Ok(writer.raw(payload)?)
            })?,
        };
        self.replace_root(self.format, written, budget)
    }

    /// Replaces it, or the payload of an envelope, by JSON or XML in `bytes`, which are parsed before: if they are
    /// malformed it stays as it is. Their tree is kept where they become the whole body. White space is an empty body.
    ///
    /// # Errors
    /// `bytes` is malformed; as [`Body::replace_payload`].
    pub(crate) fn replace_parsed(
        &mut self,
        format: Format,
        bytes: Vec<u8>,
        budget: &Budget,
    ) -> Result<(), Failure> {
        let text = String::from_utf8(bytes).map_err(|error| self.malformed(&error))?;
        if format == Format::Json {
            if text.trim_ascii().is_empty() {
                return self.replace(format, text, budget);
            }
            let document = json::Document::parse_within(text.as_bytes(), budget);
            let document = document.map_err(|error| match error.position() {
                Some(place) => malformed_result(format, &text, place, &error.message()),
                None => error.into(),
            })?;
            budget.charge_memory(text.len())?;
            let document = document.into_owned();
            self.replace(format, text, budget)?;
            self.charged.set(self.charged.get().saturating_add(document.heap_bytes()));
            self.json = OnceCell::from(Box::new(document));
            return Ok(());
        }
        let payload = soap::without_declaration(&text);
        if payload.trim_ascii().is_empty() {
            return self.replace_payload_by(text, true, budget);
        }
        let is_whole = soap::namespace(self.format).is_none() && !soap::is_envelope(payload);
        budget.charge_reading(text.len())?;
        let bytes = exact(text);
        let document = xml::Document::parse_shared(&bytes).map_err(|error| {
            let text = std::str::from_utf8(&bytes).unwrap_or_default();
            let place = error.position().map_or((1, 1), |place| (place.line, place.column));
            malformed_result(format, text, place, &error.kind().to_string())
        })?;
        let own = document.heap_bytes().saturating_sub(document.bytes_shared_with(&bytes));
        budget.charge_memory(own)?;
        if !is_whole {
            drop(document);
            budget.release_memory(own);
            return self.replace_payload(bytes.into(), budget);
        }
        self.replace_shared(Format::Xml, bytes, budget)?;
        self.charged.set(self.charged.get().saturating_add(own));
        self.xml = OnceCell::from(Box::new(document));
        Ok(())
    }

    /// The source of the envelope before its payload, and the rest after a new one. `None` unless the envelope is as it
    /// arrived, or as [`soap::around_payload`].
    ///
    /// # Errors
    /// As [`Body::xml`].
    pub(crate) fn around_payload(&self, budget: &Budget) -> Result<Option<Around<'_>>, Failure> {
        let namespace = soap::namespace(self.format);
        let is_read = matches!(self.source, Source::Bytes(_) | Source::Written(_));
        let Some(namespace) = namespace.filter(|_| is_read) else { return Ok(None) };
        let payload = self.payload(budget)?;
        Ok(payload.and_then(|payload| soap::around_payload(payload, namespace)))
    }

    /// Replaces it by a JSON document.
    ///
    /// # Errors
    /// It does not fit the rest of the budget.
    pub fn replace_json(
        &mut self,
        document: json::Document<'static>,
        budget: &Budget,
    ) -> Result<(), Failure> {
        let charged = document.heap_bytes();
        self.become_new(Format::Json, Source::Json, budget);
        self.json = OnceCell::from(Box::new(document));
        self.charge(budget, || Ok(budget.charge_memory(charged)?))
    }
}

/// The result of a template is not `format`. Only the log quotes the text around the place.
fn malformed_result(format: Format, text: &str, place: (u32, u32), error: &str) -> Failure {
    const AROUND: usize = 20;
    let (line, column) = place;
    let noun = format.noun();
    let escape = if format == Format::Json { "?json_string" } else { "?xml" };
    let message = format!("the result of the template is not {noun}: {line}:{column}: {error}");
    let line = text.lines().nth((line as usize).saturating_sub(1)).unwrap_or_default();
    let first = (column as usize).saturating_sub(AROUND);
    let around: String = line.chars().skip(first).take(2 * AROUND).collect();
    Failure::new(Code::MALFORMED_BODY, format!("{message}; escape inserted values with `{escape}`"))
        .with_detail(format!("near `{around}`"))
}
