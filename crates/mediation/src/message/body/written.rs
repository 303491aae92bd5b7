//! The bytes of a body, as they came and as they are sent.

use std::borrow::Cow;

use bytes::Bytes;
use expression::{Budget, markup};

use super::{Body, Coding, Source, exact, not_held};
use crate::error::Failure;
use crate::message::charset::Charset;
use crate::message::{Format, charset, formatter, multipart, soap};

impl Body {
    /// The bytes to send, with attachments; `None` if the host still streams them.
    ///
    /// # Errors
    /// An edited tree that cannot be written.
    pub fn bytes(&self, budget: &Budget) -> Result<Option<Bytes>, Failure> {
        let own = self.own_bytes(budget)?;
        let is_new = !matches!(self.source, Source::Bytes(_));
        let package = self.package.as_ref().filter(|_| is_new && !self.is_empty());
        let Some((package, own)) = package.zip(own.as_ref()) else { return Ok(own) };
        Ok(Some(self.charge(budget, || package.write(own, budget))?.clone()))
    }

    /// Whether its bytes are to be made of an edited tree; those of JSON are only copied.
    pub(crate) fn is_unwritten(&self) -> bool {
        matches!(self.source, Source::Xml) && self.written.get().is_none()
    }

    /// The same of the root part alone, if that is new.
    pub(super) fn own_bytes(&self, budget: &Budget) -> Result<Option<Bytes>, Failure> {
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
    pub fn text(&self, budget: &Budget) -> Result<Cow<'_, str>, Failure> {
        let bytes = match &self.source {
            Source::Streaming => return Err(not_held()),
            Source::Bytes(bytes) => self.decoded(bytes, budget)?,
            Source::Written(bytes) => bytes,
            Source::Json | Source::Xml => {
                self.own_bytes(budget)?;
                self.written.get_or_init(Bytes::new)
            }
        };
        let text = std::str::from_utf8(bytes).map_err(|error| self.malformed(&error))?;
        Ok(text.into())
    }

    /// Writes it in `charset`: its bytes then count as those that arrived.
    ///
    /// # Errors
    /// As [`Body::text`]; the charset is not known.
    pub(crate) fn encode(&mut self, name: &str, budget: &Budget) -> Result<(), Failure> {
        let charset = Charset::named(name);
        let bytes = {
            let document = if self.format.is_xml() { self.xml(budget)? } else { None };
            let written = match document {
                Some(document) => {
                    let declaration = format!("<?xml version=\"1.0\" encoding=\"{name}\"?>");
                    let tree = markup::write(document.root(), budget)?;
                    let tree = String::from_utf8(tree).map_err(|error| self.malformed(&error))?;
                    Cow::Owned(declaration + &tree)
                }
                None => self.text(budget)?,
            };
            charset.encode(&written, self.format, budget)?
        };
        self.replace(self.format, bytes, budget)?;
        self.adopt();
        (self.charset, self.is_noted) = (charset, true);
        Ok(())
    }

    /// As [`Body::bytes`], without a content coding and attachments.
    ///
    /// # Errors
    /// As [`Body::bytes`]; it cannot be decoded.
    pub fn plain_bytes(&self, budget: &Budget) -> Result<Option<Bytes>, Failure> {
        match &self.source {
            Source::Bytes(bytes) => Ok(Some(self.root(bytes, budget)?.0.clone())),
            Source::Streaming | Source::Written(_) | Source::Json | Source::Xml => {
                self.own_bytes(budget)
            }
        }
    }

    /// The source of views: the decoded bytes that the host read, or the root part of a package; and its charset.
    fn root<'b>(
        &'b self,
        bytes: &'b Bytes,
        budget: &Budget,
    ) -> Result<(&'b Bytes, &'b Charset), Failure> {
        let bytes = self.plain(bytes, budget)?;
        match self.package.as_ref().filter(|_| !bytes.is_empty()) {
            Some(package) => self.charge(budget, || package.root(bytes, budget)),
            None => Ok((bytes, &self.charset)),
        }
    }

    /// The bytes that the host read, decoded.
    pub(super) fn plain<'b>(
        &'b self,
        bytes: &'b Bytes,
        budget: &Budget,
    ) -> Result<&'b Bytes, Failure> {
        if self.coding == Coding::Identity || bytes.is_empty() {
            return Ok(bytes);
        }
        if self.plain.get().is_none() {
            let plain =
                self.charge(budget, || self.coding.decode(bytes, self.decoded_max(), budget))?;
            // The cell was empty.
            let _ = self.plain.set(Box::new(plain.into()));
        }
        Ok(self.plain.get().map_or(bytes, |plain| plain))
    }

    /// The same, in UTF-8.
    fn decoded<'b>(&'b self, bytes: &'b Bytes, budget: &Budget) -> Result<&'b Bytes, Failure> {
        let (bytes, declared) = self.root(bytes, budget)?;
        let is_xml = self.format.is_xml();
        let of_xml = is_xml.then(|| charset::of_xml(bytes, declared));
        let charset = of_xml.as_ref().unwrap_or(declared);
        if charset.is_utf8_in(bytes) {
            return Ok(bytes);
        }
        if self.decoded.get().is_none() {
            let mut text = self.charge(budget, || charset.decode(bytes, budget))?;
            if is_xml {
                charset::blank_declaration(&mut text);
            }
            // The cell was empty.
            let _ = self.decoded.set(Box::new(text.into()));
        }
        Ok(self.decoded.get().map_or(bytes, |text| text))
    }

    /// The bytes that the host read or a mediator wrote; `None` if there are none.
    pub(super) fn content(&self, budget: &Budget) -> Result<Option<&Bytes>, Failure> {
        match &self.source {
            Source::Bytes(bytes) | Source::Written(bytes) => {
                let is_new = matches!(self.source, Source::Written(_));
                let bytes = if is_new { bytes } else { self.decoded(bytes, budget)? };
                let is_plain = matches!(self.format, Format::Text | Format::Binary);
                let is_empty = bytes.is_empty() || !is_plain && bytes.trim_ascii().is_empty();
                Ok((!is_empty).then_some(bytes))
            }
            Source::Json | Source::Xml => Ok(None),
            // A step read a body without declaring it.
            Source::Streaming => Err(not_held()),
        }
    }
}
