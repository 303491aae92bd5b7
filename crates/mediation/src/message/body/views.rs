//! The views of a body: JSON and XML.

use std::cell::OnceCell;

use expression::mapping;
use expression::{Budget, json};

use super::{Before, Body, Source};
use crate::error::{Code, Failure};
use crate::message::{Format, form, formatter, multipart, soap};

impl Body {
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

    /// The JSON of an XML payload. Untouched parts of JSON that was edited as XML stay as they were.
    pub(super) fn json_of(
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
            Format::Form => form::to_xml(bytes, budget).map(Box::new),
            Format::Multipart => multipart::to_xml(bytes, self.boundary(), budget).map(Box::new),
            Format::Text => {
                let text = std::str::from_utf8(bytes).map_err(|error| self.malformed(&error))?;
                formatter::text_as_xml(text, budget).map(Box::new)
            }
            Format::Binary => formatter::bytes_as_xml(bytes, budget).map(Box::new),
            Format::Json | Format::Xml | Format::Soap11 | Format::Soap12 => {
                budget.charge_reading(bytes.len())?;
                let document = xml::Document::parse_shared(bytes).map(Box::new);
                let document = document.map_err(|error| self.malformed(&error))?;
                // Shared text was charged when it was held or written.
                let shared = document.bytes_shared_with(bytes);
                budget.charge_memory(document.heap_bytes().saturating_sub(shared))?;
                Ok(document)
            }
        })?;
        Ok(Some(self.xml.get_or_init(|| document)))
    }

    /// The same, perhaps only the part of an envelope before its body: the rest is then not parsed.
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

    /// The beginning of a long document that has not been parsed, for conditions that it may decide: the rest is then
    /// not parsed. If it decides none, it was parsed in vain, which costs little.
    ///
    /// # Errors
    /// The budget; the body cannot be decoded.
    pub fn xml_beginning(&self, budget: &Budget) -> Result<Option<&xml::Document>, Failure> {
        /// The beginning is an eighth of the document.
        const PART: usize = 8;
        /// A shorter beginning is not worthwhile.
        const BYTES_MIN: usize = 256;
        let is_read = matches!(self.source, Source::Bytes(_) | Source::Written(_));
        if !self.format.is_xml() || !is_read || self.xml.get().is_some() {
            return Ok(None);
        }
        if self.xml_beginning.get().is_none() {
            let Some(bytes) = self.content(budget)? else { return Ok(None) };
            let Some(part) = bytes.get(..bytes.len() / PART).filter(|part| part.len() >= BYTES_MIN)
            else {
                return Ok(None);
            };
            let document = self.charge(budget, || {
                budget.charge_reading(part.len())?;
                let mut feed = xml::DocumentFeed::new(&xml::Options::default());
                if feed.feed(part).is_err() {
                    return Ok(xml::Document::new());
                }
                let document = feed.cut();
                budget.charge_memory(document.heap_bytes())?;
                Ok(document)
            })?;
            self.xml_beginning.get_or_init(|| Box::new(document));
        }
        let beginning = self.xml_beginning.get();
        Ok(beginning.map(Box::as_ref).filter(|document| document.element().is_some()))
    }

    /// Whether it arrived like this, and contradicts its content type. It is read again, up to the error.
    pub(crate) fn is_malformed(&self, budget: &Budget) -> bool {
        let read = || {
            // Not all JSON can become XML.
            if self.format == Format::Json {
                self.json(budget).map(drop)
            } else {
                self.xml(budget).map(drop)
            }
        };
        let failed = || read().is_err_and(|failure| failure.code == Code::MALFORMED_BODY);
        matches!(self.source, Source::Bytes(_)) && !self.is_new() && failed()
    }

    /// Whether it is XML that mediation made or edited.
    pub(crate) fn may_be_new_fault(&self) -> bool {
        self.format.is_xml() && self.is_new()
    }

    /// Whether its payload is a SOAP fault. Unparsed text is read up to the payload, if it has that name at all.
    pub(crate) fn is_fault(&self, budget: &Budget) -> bool {
        if self.xml.get().is_none()
            && let Source::Written(bytes) = &self.source
        {
            return budget.charge_scanning(bytes.len()).is_ok() && soap::begins_with_fault(bytes);
        }
        matches!(self.payload(budget), Ok(Some(payload)) if soap::is_fault(payload))
    }

    /// The XML tree, to edit it: from now on the body is written from it. The editor charges additions.
    ///
    /// # Errors
    /// As [`Body::xml`].
    pub fn edit_xml(&mut self, budget: &Budget) -> Result<Option<&mut xml::Document>, Failure> {
        if self.xml(budget)?.is_none() {
            return Ok(None);
        }
        if let (Some(package), Source::Bytes(bytes)) = (&mut self.package, &self.source) {
            package.keep(self.plain.get().map_or(bytes, |plain| plain).clone());
        }
        if let Some(package) = &mut self.package {
            package.forget();
        }
        if !matches!(self.source, Source::Xml) {
            self.before = self.before_edits(budget)?;
        } else if let Some(before) = &mut self.before {
            before.boundary = OnceCell::new();
        }
        self.edits = self.edits.saturating_add(1);
        self.source = Source::Xml;
        (self.json, self.payload) = Default::default();
        (self.xml_header, self.xml_beginning) = Default::default();
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
}
