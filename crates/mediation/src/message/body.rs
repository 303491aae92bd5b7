//! The body, and its views: made when they are first read, kept until an edit.

mod convert;
mod views;
mod written;

use std::cell::{Cell, OnceCell};
use std::sync::Arc;

use bytes::Bytes;
use expression::mapping::Rules;
use expression::{BodyUse, Budget, json};

use super::charset::Charset;
use super::coding::Coding;
use super::package::Package;
use super::{Format, multipart};
use crate::error::{Code, Failure};
use crate::limits::DECODED_BYTES_MAX;

/// The body of a message.
#[derive(Debug, Default)]
pub struct Body {
    format: Format,
    /// Boundary of a multipart body, from its content type.
    boundary: Option<Box<str>>,
    /// That its content type names.
    charset: Charset,
    /// Coding of the bytes as they arrived.
    coding: Coding,
    /// The parameters of its head are known: coding, boundary, charset.
    is_noted: bool,
    source: Source,
    /// That it is the root part of; boxed, since it is rare.
    package: Option<Box<Package>>,
    /// Boxed, since messages are moved often, and most are not read.
    json: OnceCell<Box<json::Document<'static>>>,
    xml: OnceCell<Box<xml::Document>>,
    /// Where the payload is in it, until it is edited.
    payload: Cell<Option<xml::NodeId>>,
    /// The body before it was edited as XML, if it is in another format.
    before: Option<Box<Before>>,
    /// The header of the envelope that it may become.
    header: Option<Arc<xml::Document>>,
    /// An envelope up to its body.
    xml_header: OnceCell<Box<xml::Document>>,
    /// The beginning of a long document; without an element if it is malformed.
    xml_beginning: OnceCell<Box<xml::Document>>,
    /// An edited view, written.
    written: OnceCell<Bytes>,
    /// A compressed body without its coding.
    plain: OnceCell<Box<Bytes>>,
    /// Text in another charset, as UTF-8.
    decoded: OnceCell<Box<Bytes>>,
    /// Between JSON and XML; `None`: [`Rules::DEFAULT`].
    mapping: Option<Arc<Rules>>,
    /// Limit of the decoded body, in bytes; `None`: [`DECODED_BYTES_MAX`].
    decoded_max: Option<usize>,
    /// The bytes count as those that arrived, but are new.
    is_adopted: bool,
    /// The bytes are gone: it reads as an empty body.
    is_lost: bool,
    /// Memory that this body was charged, and releases when it is replaced.
    charged: Cell<usize>,
    /// Number of edits of its views, which the editor charges.
    edits: u32,
}

/// A body before it was edited as XML, so that untouched parts stay as they were.
#[derive(Debug, Default)]
struct Before {
    json: Option<json::Document<'static>>,
    /// Content types of the texts in a multipart body.
    part_types: multipart::Types,
    /// Boundary of the multipart body, when it is written.
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

    /// Marks a body that was streaming as gone: it reads as an empty one.
    pub(crate) fn lose(&mut self) {
        (self.source, self.is_lost) = (Source::Bytes(Bytes::new()), true);
    }

    /// Whether it is only empty because its bytes were lost.
    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// How it becomes JSON or XML.
    pub(crate) fn set_mapping(&mut self, mapping: Option<Arc<Rules>>) {
        self.mapping = mapping;
    }

    pub(crate) fn mapping(&self) -> &Rules {
        self.mapping.as_deref().unwrap_or(&Rules::DEFAULT)
    }

    /// Maps as another body of the same run, unless it has rules of its own.
    pub(crate) fn mapped_as(self, other: &Self) -> Self {
        let mapping = self.mapping.clone().or_else(|| other.mapping.clone());
        Self { mapping, ..self }
    }

    /// Sets the boundary of a multipart body, from its content type.
    pub(super) fn set_boundary(&mut self, boundary: Option<&str>) {
        self.boundary = boundary.map(Into::into);
    }

    pub(super) fn boundary(&self) -> Option<&str> {
        let written = self.before.as_ref().and_then(|before| before.boundary.get());
        written.or(self.boundary.as_ref()).map(|boundary| &**boundary)
    }

    /// Makes it the root part of a package, by its content type.
    pub(super) fn set_package(&mut self, content_type: &str) {
        self.package = Some(Box::new(Package::of(content_type)));
    }

    pub(super) fn is_in_package(&self) -> bool {
        self.package.is_some()
    }

    /// Whether it is in the package that a content type describes.
    pub(super) fn is_in_package_of(&self, content_type: &str) -> bool {
        self.package.as_ref().is_some_and(|package| package.is_of(content_type))
            && Format::of(content_type) == self.format
    }

    /// Sets the coding of its head; new bytes have none.
    pub(super) fn set_coding(&mut self, coding: Coding) {
        self.coding = coding;
        self.is_noted = true;
    }

    pub(super) fn is_noted(&self) -> bool {
        self.is_noted
    }

    /// Sets the charset of its content type.
    pub(super) fn set_charset(&mut self, charset: Option<&str>) {
        let named = charset.filter(|name| !name.is_empty()).map(Charset::named);
        self.charset = named.unwrap_or_default();
    }

    /// The charset of its bytes; new ones are UTF-8.
    pub(super) fn charset(&self) -> &Charset {
        match self.source {
            Source::Bytes(_) | Source::Streaming => &self.charset,
            Source::Written(_) | Source::Json | Source::Xml => &Charset::Utf8,
        }
    }

    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// Its state: whether it is still [`BodyUse::Untouched`] on the wire, held, or new.
    #[must_use]
    pub fn state(&self) -> BodyUse {
        match self.source {
            Source::Streaming => BodyUse::Untouched,
            Source::Bytes(_) => BodyUse::Read,
            Source::Written(_) | Source::Json | Source::Xml => BodyUse::Rewritten,
        }
    }

    /// Whether its bytes are new, and therefore not charged yet.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.is_adopted || self.state() == BodyUse::Rewritten
    }

    /// From now on, new bytes count as those that arrived: the head describes them correctly.
    pub(super) fn adopt(&mut self) {
        if let Source::Written(bytes) = &mut self.source {
            (self.source, self.is_adopted) = (Source::Bytes(std::mem::take(bytes)), true);
            (self.package, self.is_noted) = (None, false);
        }
    }

    /// Whether [`Body::xml`] returns an existing tree.
    pub(super) fn is_parsed(&self) -> bool {
        self.xml.get().is_some()
    }

    /// Whether the body is absent.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match &self.source {
            Source::Bytes(bytes) | Source::Written(bytes) => bytes.is_empty(),
            Source::Streaming | Source::Json | Source::Xml => false,
        }
    }

    /// The size in bytes; an estimate for an edited tree.
    #[must_use]
    pub fn size(&self) -> usize {
        match &self.source {
            Source::Streaming => 0,
            Source::Bytes(bytes) | Source::Written(bytes) => bytes.len(),
            Source::Json => self.json.get().map_or(0, |document| document.text().len()),
            Source::Xml => self.xml.get().map_or(0, |document| document.written_bytes()),
        }
    }

    /// The size that a reader should expect, in bytes.
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

    /// The source of an element of the body, as [`xml::Node::source`]. `None` if the body was edited as a tree, or the
    /// element is not of it.
    pub(crate) fn source_of<'d>(&self, element: xml::Node<'d>) -> Option<&'d str> {
        let is_read = matches!(self.source, Source::Bytes(_) | Source::Written(_));
        let own = self.xml.get().filter(|_| is_read && self.format.is_xml())?;
        if std::ptr::eq(&raw const **own, element.document()) { element.source() } else { None }
    }

    /// The same body for another message: its bytes are shared, not copied.
    ///
    /// # Errors
    /// The host did not hold it; an edited tree that cannot be written.
    pub fn share(&self, budget: &Budget) -> Result<Self, Failure> {
        let source = match &self.source {
            Source::Bytes(bytes) => Source::Bytes(bytes.clone()),
            Source::Written(_) | Source::Json | Source::Xml => {
                Source::Written(self.own_bytes(budget)?.unwrap_or_default())
            }
            Source::Streaming => return Err(not_held()),
        };
        let (boundary, charset) = (self.boundary().map(Into::into), self.charset.clone());
        let (coding, is_noted) = (self.coding.clone(), self.is_noted);
        let (format, decoded_max) = (self.format, self.decoded_max);
        let (is_adopted, is_lost) = (self.is_adopted, self.is_lost);
        let copy = Self { format, boundary, charset, coding, is_noted, is_lost, ..Self::default() };
        let (header, package) = (self.header.clone(), self.package.clone());
        Ok(Self { decoded_max, is_adopted, source, header, package, ..copy.mapped_as(self) })
    }

    /// Replaces it by `bytes` in `format`, which are checked when they are first read. Attachments are dropped.
    ///
    /// # Errors
    /// They do not fit the rest of the budget.
    pub fn replace(
        &mut self,
        format: Format,
        bytes: impl Into<Vec<u8>>,
        budget: &Budget,
    ) -> Result<(), Failure> {
        self.replace_shared(format, exact(bytes), budget)
    }

    /// The same by these one after the other.
    ///
    /// # Errors
    /// They do not fit the rest of the budget.
    pub(crate) fn replace_by(
        &mut self,
        format: Format,
        parts: &[&[u8]],
        budget: &Budget,
    ) -> Result<(), Failure> {
        let bytes = parts.iter().fold(0_usize, |sum, part| sum.saturating_add(part.len()));
        self.become_new(format, Source::Written(Bytes::new()), budget);
        self.charge(budget, || Ok(budget.charge_memory(bytes)?))?;
        self.source = Source::Written(parts.concat().into());
        Ok(())
    }

    /// The same for an envelope: its attachments are kept if it is of the same version.
    ///
    /// # Errors
    /// They do not fit the rest of the budget.
    pub(crate) fn replace_root(
        &mut self,
        format: Format,
        bytes: impl Into<Vec<u8>>,
        budget: &Budget,
    ) -> Result<(), Failure> {
        let Some(mut package) = self.package.take().filter(|_| format == self.format) else {
            return self.replace(format, bytes, budget);
        };
        let is_readable = match &self.source {
            // A malformed one is replaced with its attachments.
            Source::Bytes(bytes) => match self.plain(bytes, budget) {
                Ok(whole) => {
                    package.keep(whole.clone());
                    package.root(whole, budget).is_ok()
                }
                Err(_) => false,
            },
            Source::Streaming => false,
            Source::Written(_) | Source::Json | Source::Xml => true,
        };
        self.replace(format, bytes, budget)?;
        if is_readable {
            package.forget();
            self.charge(budget, || Ok(budget.charge_memory(package.kept())?))?;
            self.package = Some(package);
        }
        Ok(())
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
        budget.release_memory(self.charged.take());
        let (mapping, header) = (self.mapping.take(), self.header.take());
        *self = Self { format, source, mapping, header, edits: self.edits, ..Self::default() };
    }

    fn decoded_max(&self) -> usize {
        self.decoded_max.unwrap_or(DECODED_BYTES_MAX)
    }

    /// Drops its views and releases their charge: it is written, and leaves its run. The host charges the rest.
    pub fn settle(&mut self, budget: &Budget) {
        if let Some(bytes) = self.written.take() {
            self.source = Source::Written(bytes);
        }
        if let Some(whole) = self.package.as_mut().and_then(|package| package.settle()) {
            (self.source, self.coding) = (Source::Bytes(whole), Coding::Identity);
            (self.is_adopted, self.is_noted) = (true, true);
        }
        if matches!(self.source, Source::Bytes(_) | Source::Written(_)) {
            (self.json, self.xml) = Default::default();
            (self.xml_header, self.xml_beginning) = Default::default();
            (self.plain, self.decoded) = Default::default();
            budget.release_memory(self.charged.take());
        }
    }

    /// Drops its views, which may be made again, and keeps its bytes.
    pub(crate) fn forget_views(&mut self, budget: &Budget) {
        let charged = self.charged();
        self.settle(budget);
        if let Source::Written(bytes) = &self.source {
            let package = self.package.as_ref().map_or(0, |package| package.kept());
            let kept = bytes.len().saturating_add(package).min(charged);
            // That much was just released.
            let _ = self.charge(budget, || Ok(budget.charge_memory(kept)?));
        }
    }

    /// Bytes charged for it.
    #[must_use]
    pub fn charged(&self) -> usize {
        self.charged.get()
    }

    pub(super) fn edits(&self) -> usize {
        self.edits as usize
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
        if made.is_ok() {
            let added = usize::try_from(added).unwrap_or(usize::MAX);
            self.charged.set(self.charged.get().saturating_add(added));
        }
        made
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
