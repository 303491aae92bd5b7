//! The message that mediators act on.

mod action;
mod body;
pub(crate) mod charset;
mod coding;
pub(crate) mod fault;
mod form;
mod format;
pub(crate) mod formatter;
mod head;
mod multipart;
mod properties;
pub(crate) mod soap;
mod view;

use std::borrow::Cow;

use bytes::Bytes;
use expression::{BodyUse, Budget};

use crate::{Code, Failure, limits};

pub use body::Body;
use charset::Charset;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use coding::Coding as BodyCoding;
use coding::{CONTENT_ENCODING, Coding};
pub use format::Format;
pub(crate) use head::NoHead;
pub use head::{Head, PlainHead};
pub use properties::{Properties, PropertyValue};
pub use view::{Environment, LogLevel, View};
pub use xpath::synapse::PropertyScope;

pub(crate) const CONTENT_TYPE: &str = "Content-Type";
/// Fields that describe the bytes of a body, and are wrong for new ones. Source: RFC 9110 sections 8.8.3, 14.3 and 14.4;
/// RFC 9530.
const OF_THE_BYTES: [&str; 8] = [
    "Accept-Ranges",
    CONTENT_ENCODING,
    "Content-Digest",
    "Content-MD5",
    "Content-Range",
    "Digest",
    "ETag",
    "Repr-Digest",
];
/// The property (axis2) that says in which format the body is written.
pub(crate) const MESSAGE_TYPE: &str = "messageType";
/// The property (axis2) of a message without a body.
pub(crate) const NO_ENTITY_BODY: &str = "NO_ENTITY_BODY";
/// The property (axis2) with the charset in which the body is written.
pub(crate) const CHARACTER_SET: &str = "CHARACTER_SET_ENCODING";
/// The property (axis2) with the `Content-Type` to send.
const SENT_CONTENT_TYPE: &str = "ContentType";

/// Which way a message travels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// From the client.
    #[default]
    Request,
    /// To the client.
    Response,
}

/// A request or a response under mediation.
#[derive(Debug)]
pub struct Message {
    pub direction: Direction,
    pub head: Box<dyn Head>,
    pub body: Body,
    pub properties: Properties,
    /// Memory of all header fields that were copied or set, those included that were replaced.
    field_bytes: usize,
}

/// What a message keeps: see [`Message::kept`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    /// What its body and its properties were charged, and its header fields.
    pub(crate) bytes: usize,
    /// Edits of trees, which their message is not charged for.
    pub(crate) edits: usize,
}

impl Message {
    #[must_use]
    pub fn new(direction: Direction, head: Box<dyn Head>, body: Body) -> Self {
        let properties = Properties::default();
        let mut message = Self { direction, head, body, properties, field_bytes: 0 };
        message.note_unless_streaming();
        message
    }

    /// The status of a response: of the property `HTTP_SC`, else of its head, else 200.
    #[must_use]
    pub fn status(&self) -> u16 {
        let set = self.properties.get(PropertyScope::Axis2, "HTTP_SC");
        let set: Option<u16> = set.and_then(|status| status.text().parse().ok());
        let own = || self.head.property(PropertyScope::Axis2, "HTTP_SC")?.parse().ok();
        set.filter(|status| (200..600).contains(status)).or_else(own).unwrap_or(200)
    }

    /// Removes the fields that are wrong for a body that was rewritten, which it was not `before`.
    pub(crate) fn rewritten_since(&mut self, before: BodyUse) {
        if before != BodyUse::Rewritten && self.body.state() == BodyUse::Rewritten {
            self.forget_bytes();
        }
    }

    /// Removes what the head says of the bytes of the body.
    pub(crate) fn forget_bytes(&mut self) {
        let mut is_there = [false; OF_THE_BYTES.len()];
        self.head.fields(&mut |name, _| {
            for (is_there, known) in is_there.iter_mut().zip(OF_THE_BYTES) {
                *is_there |= name.eq_ignore_ascii_case(known);
            }
        });
        for (name, _) in OF_THE_BYTES.iter().zip(is_there).filter(|(_, is_there)| *is_there) {
            self.head.remove_field(name);
        }
    }

    /// Takes what the head says of the bytes of a new body as true.
    pub(crate) fn adopt_body(&mut self) {
        self.body.adopt();
        self.note_parameters();
    }

    /// Its content coding, if there is one.
    pub(crate) fn encoded(&self) -> Option<Coding> {
        Some(Coding::of(&*self.head)).filter(|coding| *coding != Coding::Identity)
    }

    /// The bytes of a body that was streaming.
    pub fn hold(&mut self, bytes: impl Into<Bytes>) {
        self.note_parameters();
        self.body.hold(bytes);
    }

    fn note_unless_streaming(&mut self) {
        if self.body.state() != BodyUse::Untouched && !self.body.is_empty() {
            self.note_parameters();
        }
    }

    /// Notes what else than its format the head says of the body, once: of one that streams when it is read, or before
    /// its head changes.
    fn note_parameters(&mut self) {
        if self.body.is_noted() || self.body.state() == BodyUse::Rewritten {
            return;
        }
        self.body.set_coding(Coding::of(&*self.head));
        let Some(content_type) = self.head.field(CONTENT_TYPE) else { return };
        match self.body.format() {
            Format::Multipart => {
                self.body.set_boundary(format::parameter(&content_type, "boundary"));
            }
            Format::Json
            | Format::Form
            | Format::Text
            | Format::Xml
            | Format::Soap11
            | Format::Soap12 => {
                self.body.set_charset(format::parameter(&content_type, "charset"));
            }
            Format::Binary => {}
        }
    }

    /// A copy for another branch: head and properties are copied, the bytes of the body are shared.
    ///
    /// # Errors
    /// The host did not hold the body; the budget.
    pub fn copy(&self, budget: &Budget) -> Result<Self, Failure> {
        let field_bytes = self.field_bytes();
        budget.charge_memory(field_bytes.saturating_add(self.properties.bytes()))?;
        Ok(Self {
            direction: self.direction,
            head: self.head.copy(),
            body: self.body.share(budget)?,
            properties: self.properties.clone(),
            field_bytes,
        })
    }

    /// What its body and its properties were charged.
    pub(crate) fn charged(&self) -> usize {
        self.properties.charged().saturating_add(self.body.charged())
    }

    /// What it keeps now, for [`Message::release_since`].
    pub(crate) fn kept(&self) -> Kept {
        let bytes = self.charged().saturating_add(self.field_bytes);
        Kept { bytes, edits: self.properties.edits().saturating_add(self.body.edits()) }
    }

    /// Releases what was charged since `used` bytes of `budget` were used, and the message kept `before`, but for what it
    /// keeps in addition; nothing, if a tree was edited.
    pub(crate) fn release_since(&self, (used, before): (u64, Kept), budget: &Budget) {
        let now = self.kept();
        if now.edits == before.edits {
            let is = budget.bytes_used().saturating_add(before.bytes as u64);
            let temporary = is.saturating_sub(used.saturating_add(now.bytes as u64));
            budget.release_memory(usize::try_from(temporary).unwrap_or(usize::MAX));
            // Without steps, the next charge fails.
            let _ = budget.charge_steps(temporary / limits::RELEASED_BYTES_PER_STEP);
        }
    }

    /// Takes over the head and the properties of another message of the same run.
    ///
    /// # Errors
    /// The budget.
    pub(crate) fn continue_as(&mut self, other: &Self, budget: &Budget) -> Result<(), Failure> {
        budget.charge_memory(other.context_bytes())?;
        budget.release_memory(self.context_bytes());
        self.note_parameters();
        (self.head, self.properties) = (other.head.copy(), other.properties.clone());
        Ok(())
    }

    /// The memory of a copy of the head and the properties.
    fn context_bytes(&self) -> usize {
        self.properties.bytes().saturating_add(self.field_bytes())
    }

    /// The memory of its header fields.
    fn field_bytes(&self) -> usize {
        let mut bytes = 0;
        self.head.fields(&mut |name, value| bytes += name.len() + value.len());
        bytes
    }

    /// Sets a property; in the transport scope, a header field.
    ///
    /// # Errors
    /// Above `limits::PROPERTIES_MAX`, a scope that cannot be written, an invalid header field, or the budget.
    pub fn set(
        &mut self,
        scope: PropertyScope,
        name: &str,
        value: PropertyValue,
        budget: &Budget,
    ) -> Result<(), Failure> {
        match scope {
            PropertyScope::Transport => self.set_field(name, &value.text()),
            PropertyScope::Synapse
            | PropertyScope::Axis2
            | PropertyScope::Axis2Client
            | PropertyScope::Operation
            | PropertyScope::Variable => self.properties.set(scope, name, value, budget),
            PropertyScope::Url
            | PropertyScope::Function
            | PropertyScope::System
            | PropertyScope::Environment
            | PropertyScope::Registry => {
                let message = format!("`{name}`: properties of this scope can only be read");
                Err(Failure::new(Code::MEDIATION, message))
            }
        }
    }

    /// Replaces all header fields of this name by one. White space around the value is dropped.
    ///
    /// # Errors
    /// The name is not a token, or the value has control characters. Source: RFC 9110 section 5.5.
    pub fn set_field(&mut self, name: &str, value: &str) -> Result<(), Failure> {
        let value = field_value(name, value)?;
        self.note_field(name, value);
        self.head.set_field(name, value);
        Ok(())
    }

    /// Adds a header field; others of this name remain.
    ///
    /// # Errors
    /// As [`Message::set_field`].
    pub fn add_field(&mut self, name: &str, value: &str) -> Result<(), Failure> {
        let value = field_value(name, value)?;
        self.note_field(name, value);
        self.head.add_field(name, value);
        Ok(())
    }

    /// Removes all header fields of this name.
    pub fn remove_field(&mut self, name: &str) {
        self.note_parameters();
        self.head.remove_field(name);
    }

    fn note_field(&mut self, name: &str, value: &str) {
        self.note_parameters();
        self.field_bytes = self.field_bytes.saturating_add(name.len() + value.len());
    }

    /// Whether a property is `true`.
    pub(crate) fn says(&self, scope: PropertyScope, name: &str) -> bool {
        self.properties.get(scope, name).is_some_and(|value| value.value().truth())
    }

    /// Whether the body has to be held because its length is not known, and it must not be sent in chunks.
    pub(crate) fn needs_length(&self) -> bool {
        self.body.state() == BodyUse::Untouched
            && ["DISABLE_CHUNKING", "FORCE_HTTP_CONTENT_LENGTH"]
                .iter()
                .any(|name| self.says(PropertyScope::Axis2, name))
            && self.head.field("Content-Length").is_none()
    }

    /// Removes a property, or all header fields of this name.
    pub fn remove(&mut self, scope: PropertyScope, name: &str) {
        match scope {
            PropertyScope::Transport => self.remove_field(name),
            PropertyScope::Axis2 if name == "TRANSPORT_HEADERS" => self.remove_fields(),
            PropertyScope::Synapse
            | PropertyScope::Axis2
            | PropertyScope::Axis2Client
            | PropertyScope::Operation
            | PropertyScope::Variable
            | PropertyScope::Url
            | PropertyScope::Function
            | PropertyScope::System
            | PropertyScope::Environment
            | PropertyScope::Registry => self.properties.remove(scope, name),
        }
    }

    /// Removes all header fields but the one that says what the body is.
    fn remove_fields(&mut self) {
        let mut names = Vec::new();
        self.head.fields(&mut |name, _| names.push(name.to_owned()));
        for name in names.iter().filter(|name| !name.eq_ignore_ascii_case(CONTENT_TYPE)) {
            self.remove_field(name);
        }
    }

    /// Turns the message into the response that arrived for it. Properties of the transport (`axis2`) end with
    /// the request; the others remain.
    pub fn become_response(&mut self, head: Box<dyn Head>, body: Body) {
        self.direction = Direction::Response;
        self.head = head;
        self.body = body.mapped_as(&self.body);
        self.note_unless_streaming();
        self.properties.retain_scopes(|scope| {
            !matches!(scope, PropertyScope::Axis2 | PropertyScope::Axis2Client)
        });
    }

    /// The same for a response that arrived. `messageType` remains as that of what was sent. Source: Synapse's
    /// `SynapseCallbackReceiver`.
    ///
    /// # Errors
    /// The budget.
    pub(crate) fn take_response(
        &mut self,
        response: Self,
        sent_as: Option<PropertyValue>,
        budget: &Budget,
    ) -> Result<(), Failure> {
        self.become_response(response.head, response.body);
        match sent_as.filter(|sent_as| Format::of(&sent_as.text()) != Format::Form) {
            Some(sent_as) => self.set(PropertyScope::Axis2, MESSAGE_TYPE, sent_as, budget),
            None => Ok(()),
        }
    }

    /// Says in which format the body is written from now on, as Synapse's payload factory does: `messageType` and
    /// `Content-Type`. A message that is XML already keeps its kind of XML.
    pub(crate) fn set_message_type(
        &mut self,
        format: Format,
        budget: &Budget,
    ) -> Result<(), Failure> {
        self.remove(PropertyScope::Axis2, NO_ENTITY_BODY);
        let declared = self.message_type().map(|current| Format::of(&current));
        let is_soap = soap::namespace(self.body.format()).is_some();
        if format.is_xml() && declared.map_or(is_soap, Format::is_xml) {
            return Ok(());
        }
        let content_type = format.content_type();
        let media = content_type.split(';').next().unwrap_or_default();
        let value = PropertyValue::new(media);
        self.properties.set(PropertyScope::Axis2, MESSAGE_TYPE, value, budget)?;
        self.set_field(CONTENT_TYPE, content_type)
    }

    /// The property `messageType`, else the content type.
    fn message_type(&self) -> Option<String> {
        let axis2 = |name| self.properties.get(PropertyScope::Axis2, name);
        let declared = axis2(MESSAGE_TYPE).or_else(|| axis2(SENT_CONTENT_TYPE));
        let declared = declared.map(|value| value.text().into_owned());
        declared.or_else(|| self.head.field(CONTENT_TYPE).map(Into::into))
    }

    /// Writes the body for its next receiver, in the format that the property `messageType` says, else its
    /// `Content-Type`. The message keeps what is returned. `None`: the host still streams it.
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
        let format = declared.as_deref().map_or(self.body.format(), Format::of);
        let before = self.body.state();
        self.body.convert(format, budget)?;
        self.rewritten_since(before);
        let bytes = self.body.bytes(budget)?;
        self.set_content_type(declared.as_deref())?;
        // The boundary of a multipart body is known only now.
        if let Some(sent_type) = sent_type.filter(|_| format != Format::Multipart) {
            self.set_field(CONTENT_TYPE, &sent_type)?;
        }
        match self.other_charset(format) {
            Some(name) => self.write_in(&name, budget),
            None => Ok(bytes),
        }
    }

    /// The charset that a body of `format` is to be written in, if it is in another.
    fn other_charset(&self, format: Format) -> Option<String> {
        let is_text = format == Format::Json || format == Format::Text || format.is_xml();
        let name = self.properties.get(PropertyScope::Axis2, CHARACTER_SET).filter(|_| is_text)?;
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
        let is_charset = |part: &&str| format::parameter(&format!(";{part}"), "charset").is_some();
        let mut parts: Vec<_> = format::parts(&field).map(str::trim).collect();
        parts.retain(|part| !is_charset(part));
        let content_type = format!("{}; charset={charset}", parts.join("; "));
        drop(field);
        self.set_field(CONTENT_TYPE, &content_type)?;
        self.body.bytes(budget)
    }

    /// Whether the body is as it arrived, and its head and its properties say nothing else.
    fn is_as_declared(&self) -> bool {
        let (axis2, format) = (PropertyScope::Axis2, self.body.format());
        let is_of = |field: Cow<'_, str>| Format::of(&field) == format;
        self.body.state() == BodyUse::Read
            && format != Format::Multipart
            && self.properties.get(axis2, MESSAGE_TYPE).is_none()
            && self.properties.get(axis2, SENT_CONTENT_TYPE).is_none()
            && self.other_charset(format).is_none()
            && self.head.field(CONTENT_TYPE).is_none_or(is_of)
    }

    /// Agrees with the format of the body, and with the boundary of a new multipart body.
    fn set_content_type(&mut self, declared: Option<&str>) -> Result<(), Failure> {
        let format = self.body.format();
        let field = self.head.field(CONTENT_TYPE);
        let boundary = self.body.boundary();
        let is_new = self.body.state() == BodyUse::Rewritten && !self.body.is_empty();
        // What is written is UTF-8; bytes have no charset.
        let is_utf8 = |field: &str| {
            let charset = format::parameter(field, "charset");
            format == Format::Binary
                || charset.is_none_or(|name| name.eq_ignore_ascii_case("utf-8"))
        };
        let fits = |field: &str| {
            Format::of(field) == format
                && (!is_new || is_utf8(field))
                && (format != Format::Multipart || format::parameter(field, "boundary") == boundary)
        };
        if field.as_deref().is_some_and(fits) || field.is_none() && declared.is_none() && !is_new {
            return Ok(());
        }
        let mut new = match declared {
            Some(declared) if fits(declared) => declared.to_owned(),
            Some(_) | None => format.content_type().to_owned(),
        };
        if let (Format::Multipart, Some(boundary)) = (format, boundary) {
            new = format!("{}; boundary={boundary}", format.content_type());
        } else if !new.contains(';') && format.content_type().contains(';') {
            new.push_str("; charset=UTF-8");
        }
        drop(field);
        self.set_field(CONTENT_TYPE, &new)
    }

    /// Whether the host has to write the body anew.
    #[must_use]
    pub fn body_use(&self) -> BodyUse {
        self.body.state()
    }
}

/// The value without white space around it.
fn field_value<'v>(name: &str, value: &'v str) -> Result<&'v str, Failure> {
    let value = value.trim_matches([' ', '\t', '\r', '\n']);
    let is_control = |byte: u8| byte < b' ' && byte != b'\t' || byte == 0x7f;
    if !is_token(name) {
        let message = format!("`{}` is not the name of a header field", name.escape_debug());
        return Err(Failure::new(Code::MEDIATION, message));
    }
    if value.bytes().any(is_control) {
        let message = format!("the value of the header field `{name}` has control characters");
        return Err(Failure::new(Code::MEDIATION, message));
    }
    Ok(value)
}

/// Source: RFC 9110 section 5.6.2.
pub(crate) fn is_token(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}
