//! Writes a message for its next receiver: its body in a format and a charset, and the fields that say which.

use std::borrow::Cow;

use bytes::Bytes;
use expression::{BodyUse, Budget};

use super::charset::Charset;
use super::format::is_name;
use super::{
    CHARACTER_SET, CONTENT_TYPE, Format, MESSAGE_TYPE, Message, NO_ENTITY_BODY, PropertyScope,
    PropertyValue, SENT_CONTENT_TYPE, format, soap,
};
use crate::error::Failure;
use crate::limits;

/// The property (axis2) that keeps the charset out of the content type, if it is `false`.
const SET_CHARSET: &str = "setCharacterEncoding";

impl Message {
    /// Says in which format the body is written from now on, as Synapse's payload factory does: `messageType` and
    /// `Content-Type`. A message that is XML already keeps its kind of XML.
    pub(crate) fn set_message_type(
        &mut self,
        format: Format,
        budget: &Budget,
    ) -> Result<(), Failure> {
        self.remove(PropertyScope::Axis2, NO_ENTITY_BODY);
        if format.is_xml() {
            let declared = self.message_type().map(|current| Format::of(&current));
            let is_soap = soap::namespace(self.body.format()).is_some();
            if declared.map_or(is_soap, Format::is_xml) {
                return Ok(());
            }
        }
        let content_type = format.content_type();
        let value = PropertyValue::new(format::media_type(content_type));
        self.properties.set(PropertyScope::Axis2, MESSAGE_TYPE, value, budget)?;
        self.put_field(CONTENT_TYPE, content_type);
        Ok(())
    }

    /// The property `messageType`, else the content type.
    pub(crate) fn message_type(&self) -> Option<Cow<'_, str>> {
        let axis2 = |name| self.properties.get(PropertyScope::Axis2, name);
        let declared = axis2(MESSAGE_TYPE).or_else(|| axis2(SENT_CONTENT_TYPE));
        declared.map(PropertyValue::text).or_else(|| self.head.field(CONTENT_TYPE))
    }

    /// Writes the body for its next receiver, in the format of the property `messageType`, else of its `Content-Type`.
    /// The message keeps the returned bytes. `None`: the host still streams it.
    ///
    /// # Errors
    /// The body is not well-formed, or cannot be written in that format; the budget.
    pub fn finish(&mut self, budget: &Budget) -> Result<Option<Bytes>, Failure> {
        if self.says(PropertyScope::Axis2, NO_ENTITY_BODY) {
            self.remove_field(CONTENT_TYPE);
            return Ok(Some(Bytes::new()));
        }
        if self.is_as_declared() {
            return self.body.bytes(budget);
        }
        let sent_type = self.properties.get(PropertyScope::Axis2, SENT_CONTENT_TYPE);
        let sent_type = sent_type.map(|value| value.text().into_owned());
        if self.body.state() == BodyUse::Untouched {
            if let Some(sent_type) = &sent_type {
                self.set_field(CONTENT_TYPE, sent_type)?;
            }
            return Ok(None);
        }
        let declared = self.message_type();
        let (own, is_kept) = (self.body.format(), self.keeps_package(declared.as_deref()));
        let format = declared.as_deref().filter(|_| !is_kept).map_or(own, Format::of);
        drop(declared);
        let before = self.body.state();
        if !is_kept {
            self.body.convert(format, budget)?;
        }
        self.rewritten_since(before);
        let bytes = self.body.bytes(budget)?;
        self.set_content_type()?;
        // The boundary of a multipart body is known only now.
        if let Some(sent_type) = sent_type.filter(|_| format != Format::Multipart) {
            self.set_field(CONTENT_TYPE, &sent_type)?;
        }
        if !self.names_charset() {
            let field = self.head.field(CONTENT_TYPE);
            let named = field.filter(|field| format::parameter(field, "charset").is_some());
            if let Some(without) = named.map(|field| format::without_charset(&field)) {
                self.set_field(CONTENT_TYPE, &without)?;
            }
            return Ok(bytes);
        }
        match self.other_charset(format) {
            Some(name) => self.write_in(&name, budget),
            None => Ok(bytes),
        }
    }

    /// Whether the content type names the charset of a body that does not stream.
    fn names_charset(&self) -> bool {
        let value = self.properties.get(PropertyScope::Axis2, SET_CHARSET);
        value.is_none_or(|value| !value.text().eq_ignore_ascii_case("false"))
    }

    /// Whether [`Message::finish`] takes so long that it is not called on the thread of a worker. `wanted`: the content
    /// type that the receiver wants, if it is not the message's own.
    pub(crate) fn finishes_long(&self, wanted: Option<&str>) -> bool {
        if !limits::takes_long(self.body.size_to_read(), limits::REWRITE_NS_PER_BYTE)
            || self.says(PropertyScope::Axis2, NO_ENTITY_BODY)
        {
            return false;
        }
        let own = self.body.format();
        let declared = || self.message_type().map_or(own, |declared| Format::of(&declared));
        let format = wanted.map_or_else(declared, Format::of);
        format != own || self.body.is_unwritten() || self.other_charset(format).is_some()
    }

    /// Whether the body stays in its package: its content type is still there, and no property sets another one.
    fn keeps_package(&self, declared: Option<&str>) -> bool {
        declared.is_some_and(format::is_related)
            && self.head.field(CONTENT_TYPE).is_some_and(|field| self.body.is_in_package_of(&field))
    }

    /// The charset that a body of `format` is to be written in, if it is in another.
    fn other_charset(&self, format: Format) -> Option<String> {
        let is_text = format == Format::Json || format == Format::Text || format.is_xml();
        let is_text = is_text && !self.body.is_in_package();
        let name = self.properties.get(PropertyScope::Axis2, CHARACTER_SET).filter(|_| is_text)?;
        if !self.names_charset() {
            return None;
        }
        let name = name.text();
        let is_other = !name.is_empty() && Charset::named(&name) != *self.body.charset();
        is_other.then(|| name.into_owned())
    }

    fn write_in(&mut self, charset: &str, budget: &Budget) -> Result<Option<Bytes>, Failure> {
        if self.body.is_empty() {
            return self.body.bytes(budget);
        }
        self.body.encode(charset, budget)?;
        self.forget_bytes();
        let field = self.head.field(CONTENT_TYPE).unwrap_or_default();
        let content_type = format::with_charset(&field, charset);
        drop(field);
        self.set_field(CONTENT_TYPE, &content_type)?;
        self.body.bytes(budget)
    }

    /// Whether the body is as it arrived, and its head and its properties say nothing else.
    fn is_as_declared(&self) -> bool {
        let (axis2, format) = (PropertyScope::Axis2, self.body.format());
        let is_of = |field: Cow<'_, str>| {
            *field == *format.content_type() && !self.body.is_in_package() || self.fits(&field)
        };
        self.body.state() == BodyUse::Read
            && format != Format::Multipart
            && self.properties.get(axis2, MESSAGE_TYPE).is_none()
            && self.properties.get(axis2, SENT_CONTENT_TYPE).is_none()
            && self.properties.get(axis2, SET_CHARSET).is_none()
            && self.other_charset(format).is_none()
            && self.head.field(CONTENT_TYPE).map_or(!self.body.is_in_package(), is_of)
    }

    /// Whether a content type describes the body.
    fn fits(&self, content_type: &str) -> bool {
        if self.body.is_in_package() {
            return self.body.is_in_package_of(content_type);
        }
        Format::of(content_type) == self.body.format() && !format::is_package(content_type)
    }

    /// Agrees with the format of the body, and with the boundary of a new multipart body.
    fn set_content_type(&mut self) -> Result<(), Failure> {
        let format = self.body.format();
        let field = self.head.field(CONTENT_TYPE);
        let is_plain = format != Format::Multipart && !self.body.is_in_package();
        let usual = format::media_type(format.content_type());
        let said = self.properties.get(PropertyScope::Axis2, MESSAGE_TYPE).map(PropertyValue::text);
        let said = said.filter(|said| {
            is_plain && !is_name(format::media_type(said), usual) && Format::of(said) == format
        });
        // Mostly, and quickly found.
        if is_plain && said.is_none() && field.as_deref() == Some(format.content_type()) {
            return Ok(());
        }
        let boundary = self.body.boundary();
        let is_new = self.body.state() == BodyUse::Rewritten && !self.body.is_empty();
        // Written text is UTF-8; bytes have no charset.
        let is_utf8 = |field: &str| {
            let charset = format::parameter(field, "charset");
            format == Format::Binary
                || self.body.is_in_package()
                || charset.is_none_or(|name| name.eq_ignore_ascii_case("utf-8"))
        };
        let is_said = |field: &str| {
            said.as_deref()
                .is_none_or(|said| is_name(format::media_type(field), format::media_type(said)))
        };
        let fits = |field: &str| {
            self.fits(field)
                && is_said(field)
                && (!is_new || is_utf8(field))
                && (format != Format::Multipart || format::parameter(field, "boundary") == boundary)
        };
        let declared = self.message_type();
        if field.as_deref().is_some_and(fits) || field.is_none() && declared.is_none() && !is_new {
            return Ok(());
        }
        let declared = declared.filter(|declared| **declared != *usual && fits(declared));
        if declared.is_none() && format != Format::Multipart {
            drop((declared, field));
            self.put_field(CONTENT_TYPE, format.content_type());
            return Ok(());
        }
        let mut new = declared.map_or_else(|| format.content_type().to_owned(), Cow::into_owned);
        if let (Format::Multipart, Some(boundary)) = (format, boundary) {
            new = format!("{}; boundary={boundary}", format.content_type());
        } else if !new.contains(';') && format.content_type().contains(';') {
            // Bytes that were not written anew are in their old charset.
            let old = field.as_deref().filter(|_| !is_new);
            let charset = old.map_or(Some("UTF-8"), |old| format::parameter(old, "charset"));
            new.extend(charset.into_iter().flat_map(|charset| ["; charset=", charset]));
        }
        drop(field);
        self.set_field(CONTENT_TYPE, &new)
    }
}
