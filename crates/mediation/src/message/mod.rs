//! The message that mediators act on: a head of the host's, a body, and properties.
//!
//! A body is read when it is needed, and written when it was changed: the views of a body (JSON, XML, text), their
//! conversion into each other, charsets and content codings are here. The lowest folder: nothing here knows a program.

mod action;
mod arrival;
mod body;
mod charge;
pub(crate) mod charset;
mod coding;
pub(crate) mod fault;
mod finish;
pub(crate) mod form;
mod format;
pub(crate) mod formatter;
mod head;
pub(crate) mod known;
mod multipart;
mod package;
mod properties;
pub(crate) mod soap;

use std::borrow::Cow;

use bytes::Bytes;
use expression::{BodyUse, Budget};

use crate::error::{Code, Failure};
use crate::limits;

pub use arrival::{Arrival, Served};
pub use body::Body;
pub(crate) use charge::Kept;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use coding::Coding as BodyCoding;
use coding::{CONTENT_ENCODING, Coding};
pub use format::Format;
pub(crate) use head::NoHead;
pub use head::{Head, PlainHead};
pub use known::{Effect, KNOWN, Known};
pub use properties::{Properties, PropertyValue};
pub use xpath::synapse::PropertyScope;

pub(crate) const CONTENT_TYPE: &str = "Content-Type";
/// Fields that describe the bytes of a body, and are wrong for new ones. Source: RFC 9110 sections 8.8.3, 14.3 and
/// 14.4; RFC 9530.
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
/// The properties (axis2) of a message that must not be sent in chunks.
pub const NOT_CHUNKED: [&str; 3] =
    ["DISABLE_CHUNKING", "FORCE_HTTP_CONTENT_LENGTH", "FORCE_HTTP_1.0"];
/// The property (axis2) with the format in which the body is written.
pub(crate) const MESSAGE_TYPE: &str = "messageType";
/// The property (axis2) of a message without a body.
pub(crate) const NO_ENTITY_BODY: &str = "NO_ENTITY_BODY";
/// The property (axis2) with the charset in which the body is written.
pub(crate) const CHARACTER_SET: &str = "CHARACTER_SET_ENCODING";
/// The property (axis2) with the `Content-Type` to send.
const SENT_CONTENT_TYPE: &str = "ContentType";
/// The property (axis2) of a response whose client gets SOAP faults with the status 200.
const FAULTS_AS_200: &str = "FAULTS_AS_HTTP_200";
/// The property (axis2) of the status of a response.
pub(crate) const HTTP_SC: &str = "HTTP_SC";

/// Which way a message travels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// From the client.
    #[default]
    Request,
    /// To the client.
    Response,
}

/// A request or a response under mediation. It is owned in a box, since it is large and changes hands often.
#[derive(Debug)]
pub struct Message {
    pub direction: Direction,
    pub head: Box<dyn Head>,
    pub body: Body,
    pub properties: Properties,
    pub arrival: Arrival,
    /// Memory of all header fields that were copied or set, those included that were replaced.
    field_bytes: usize,
    /// Bytes of them that were charged when the message was copied.
    copied_bytes: usize,
    /// A mediator made it a fault, which its body does not say.
    is_fault: bool,
}

impl Message {
    #[must_use]
    pub fn new(direction: Direction, head: Box<dyn Head>, body: Body) -> Box<Self> {
        let properties = Properties::default();
        let arrival = Arrival::default();
        let (field_bytes, copied_bytes) = (0, 0);
        let is_fault = false;
        let mut message = Box::new(Self {
            direction,
            head,
            body,
            properties,
            arrival,
            field_bytes,
            copied_bytes,
            is_fault,
        });
        message.note_unless_streaming();
        message
    }

    /// The status of a response: of the property `HTTP_SC`, else of its head, else 200.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.own_status().unwrap_or(200)
    }

    fn own_status(&self) -> Option<u16> {
        let set = self.properties.get(PropertyScope::Axis2, HTTP_SC);
        let set: Option<u16> = set.and_then(|status| status.text().parse().ok());
        let own = || self.head.property(PropertyScope::Axis2, HTTP_SC)?.parse().ok();
        // A head that mediation made has 0.
        let own = || own().filter(|status| *status > 0);
        set.filter(|status| (200..600).contains(status)).or_else(own)
    }

    /// Marks it as a fault, with any body.
    pub(crate) fn become_fault(&mut self) {
        self.is_fault = true;
    }

    /// The status that the client gets instead of the message's own: that of a fault that mediation made without a
    /// status, or of an upstream's fault that is to be hidden. Source: `determineHttpStatusCode` of
    /// `PassThroughTransportUtils`.
    pub(crate) fn fault_status(&self, budget: &Budget) -> Option<u16> {
        if self.hides_faults() {
            return matches!(self.soap_fault(budget), Ok(Some(_))).then_some(200);
        }
        let is_fault = self.is_fault || self.body.may_be_new_fault();
        let is_open = is_fault
            && self.own_status().is_none()
            && !self.says(PropertyScope::Axis2, FAULTS_AS_200);
        (is_open && (self.is_fault || self.body.is_fault(budget))).then_some(500)
    }

    /// A property as it was set, else its value in the head.
    pub(crate) fn property_text(&self, scope: PropertyScope, name: &str) -> Option<Cow<'_, str>> {
        let set = self.properties.get(scope, name).map(PropertyValue::text);
        set.or_else(|| self.head.property(scope, name))
    }

    /// Removes the fields that are wrong for a body that was rewritten, which it was not `before`.
    pub(crate) fn rewritten_since(&mut self, before: BodyUse) {
        if before != BodyUse::Rewritten && self.body.state() == BodyUse::Rewritten {
            self.forget_bytes();
        }
    }

    /// Removes the header fields that describe the bytes of the body.
    pub(crate) fn forget_bytes(&mut self) {
        let mut is_there = [false; OF_THE_BYTES.len()];
        self.head.names(&mut |name| {
            for (is_there, known) in is_there.iter_mut().zip(OF_THE_BYTES) {
                *is_there |= name.eq_ignore_ascii_case(known.as_bytes());
            }
        });
        for (name, _) in OF_THE_BYTES.iter().zip(is_there).filter(|(_, is_there)| *is_there) {
            self.head.remove_field(name);
        }
    }

    /// Accepts the header fields about the bytes of a new body.
    pub(crate) fn adopt_body(&mut self) {
        self.body.adopt();
        self.note_parameters();
    }

    /// The reason of the SOAP fault that it is, if it is one.
    ///
    /// # Errors
    /// It is malformed; the budget.
    pub fn soap_fault(&self, budget: &Budget) -> Result<Option<String>, Failure> {
        if soap::namespace(self.body.format()).is_none() {
            return Ok(None);
        }
        Ok(self.body.xml(budget)?.and_then(soap::fault_reason))
    }

    /// Whether [`Message::soap_fault`] takes so long that it is not called on the thread of a worker.
    #[must_use]
    pub fn is_long_to_check(&self) -> bool {
        soap::namespace(self.body.format()).is_some()
            && !self.body.is_parsed()
            && limits::takes_long(self.body.size_to_read(), limits::READ_NS_PER_BYTE)
    }

    /// The content coding, if there is one.
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

    /// Notes the parameters of the body in the head, besides its format, once: for a streaming body when it is read, or
    /// before its head changes.
    fn note_parameters(&mut self) {
        if self.body.is_noted() || self.body.state() == BodyUse::Rewritten {
            return;
        }
        self.body.set_coding(Coding::of(&*self.head));
        let Some(content_type) = self.head.field(CONTENT_TYPE) else { return };
        // Mostly: UTF-8, and nothing else.
        let is_usual = *content_type == *self.body.format().content_type();
        match self.body.format() {
            Format::Multipart => {
                self.body.set_boundary(format::parameter(&content_type, "boundary"));
            }
            Format::Soap11 | Format::Soap12 if !is_usual && format::is_package(&content_type) => {
                self.body.set_package(&content_type);
            }
            Format::Json
            | Format::Form
            | Format::Text
            | Format::Xml
            | Format::Soap11
            | Format::Soap12 => {
                let charset = || format::parameter(&content_type, "charset");
                self.body.set_charset((!is_usual).then(charset).flatten());
            }
            Format::Binary => {}
        }
    }

    /// A copy for another branch: head and properties are copied, the bytes of the body are shared.
    ///
    /// # Errors
    /// The host did not hold the body; the budget.
    pub fn copy(&self, budget: &Budget) -> Result<Box<Self>, Failure> {
        let field_bytes = self.field_bytes();
        budget.charge_memory(field_bytes.saturating_add(self.properties.bytes()))?;
        Ok(Box::new(Self {
            direction: self.direction,
            head: self.head.copy(),
            body: self.body.share(budget)?,
            properties: self.properties.clone(),
            arrival: self.arrival,
            field_bytes,
            copied_bytes: field_bytes,
            is_fault: self.is_fault,
        }))
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
        self.is_fault = other.is_fault;
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
            | PropertyScope::File
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
        self.put_field(name, value);
        Ok(())
    }

    /// As [`Message::set_field`], with a name and a value that are known to be valid.
    fn put_field(&mut self, name: &str, value: &str) {
        self.note_field(name, value);
        self.head.set_field(name, value);
    }

    /// Declares the content type of a new body. A body declared as a package is one already, with its attachments.
    ///
    /// # Errors
    /// As [`Message::set_field`].
    pub(crate) fn declare(&mut self, content_type: &str) -> Result<(), Failure> {
        self.set_field(CONTENT_TYPE, content_type)?;
        if format::is_package(content_type) {
            self.adopt_body();
        }
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

    /// Whether it gets the status 200 if it is a SOAP fault.
    pub(crate) fn hides_faults(&self) -> bool {
        soap::namespace(self.body.format()).is_some()
            && self.status() == 500
            && self.says(PropertyScope::Axis2, FAULTS_AS_200)
    }

    /// Whether the body has to be held because its length is not known, and it must not be sent in chunks.
    pub(crate) fn needs_length(&self) -> bool {
        self.body.state() == BodyUse::Untouched
            && NOT_CHUNKED.iter().any(|name| self.says(PropertyScope::Axis2, name))
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
            | PropertyScope::File
            | PropertyScope::Registry => self.properties.remove(scope, name),
        }
    }

    /// Removes all header fields but the content type.
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
        (self.direction, self.is_fault) = (Direction::Response, false);
        self.head = head;
        self.body = body.mapped_as(&self.body);
        self.note_unless_streaming();
        self.properties.retain_scopes(|scope| {
            !matches!(scope, PropertyScope::Axis2 | PropertyScope::Axis2Client)
        });
    }

    /// The same for a response that arrived. `messageType` remains that of the request; a response in the same format
    /// keeps its own content type. Source: Synapse's `SynapseCallbackReceiver`.
    ///
    /// # Errors
    /// The budget.
    pub(crate) fn take_response(
        &mut self,
        response: Box<Self>,
        sent_as: Option<PropertyValue>,
        budget: &Budget,
    ) -> Result<(), Failure> {
        self.become_response(response.head, response.body);
        let Some(sent_as) = sent_as else { return Ok(()) };
        let format = Format::of(&sent_as.text());
        if format == Format::Form {
            return Ok(());
        }
        let usual = format::media_type(format.content_type());
        let is_own = format == self.body.format();
        let value = if is_own { PropertyValue::new(usual) } else { sent_as };
        self.set(PropertyScope::Axis2, MESSAGE_TYPE, value, budget)
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
    if !is_token(name) {
        let message = format!("`{}` is not the name of a header field", name.escape_debug());
        return Err(Failure::new(Code::MEDIATION, message));
    }
    if value.bytes().fold(0, |found, byte| found | BYTES[usize::from(byte)]) & CONTROL != 0 {
        let message = format!("the value of the header field `{name}` has control characters");
        return Err(Failure::new(Code::MEDIATION, message));
    }
    Ok(value)
}

/// Source: RFC 9110 section 5.6.2.
pub(crate) fn is_token(name: &str) -> bool {
    let of_all = name.bytes().fold(TOKEN, |of_all, byte| of_all & BYTES[usize::from(byte)]);
    !name.is_empty() && of_all != 0
}

const TOKEN: u8 = 1;
const CONTROL: u8 = 2;

/// Classes of the bytes of names and values of header fields, for fields that are checked byte by byte.
static BYTES: [u8; 256] = {
    let mut bytes = [0; 256];
    let mut byte = 0;
    while byte < u8::MAX {
        if byte.is_ascii_alphanumeric() {
            bytes[byte as usize] = TOKEN;
        } else if byte.is_ascii_control() && byte != b'\t' {
            bytes[byte as usize] = CONTROL;
        }
        byte += 1;
    }
    let mut marks: &[u8] = b"!#$%&'*+-.^_`|~";
    while let [mark, rest @ ..] = marks {
        bytes[*mark as usize] = TOKEN;
        marks = rest;
    }
    bytes
};
