//! The action of a message, and other values that `get-property()` knows of every message.

use std::borrow::Cow;

use expression::{BodyUse, Budget};

use super::{
    CONTENT_TYPE, Format, MESSAGE_TYPE, Message, NO_ENTITY_BODY, PropertyScope, SENT_CONTENT_TYPE,
    format, soap,
};
use crate::error::Failure;

impl Message {
    /// The values that Synapse's `get-property()` knows about every message, without a property. Source:
    /// `GetPropertyFunction`.
    pub(crate) fn described(&self, name: &str, budget: &Budget) -> Option<Cow<'_, str>> {
        match name {
            "MESSAGE_FORMAT" => {
                let is_get = self.body.is_empty()
                    && self.head.property(PropertyScope::Axis2, "HTTP_METHOD").as_deref()
                        == Some("GET");
                Some(Cow::Borrowed(match self.body.format() {
                    _ if is_get => "get",
                    Format::Soap11 => "soap11",
                    Format::Soap12 => "soap12",
                    Format::Json
                    | Format::Xml
                    | Format::Form
                    | Format::Multipart
                    | Format::Text
                    | Format::Binary => "pox",
                }))
            }
            "FAULT" if soap::namespace(self.body.format()).is_some() => {
                soap::fault_reason(self.body.xml(budget).ok()??).map(|_| Cow::Borrowed("TRUE"))
            }
            "Action" => self.own_action(),
            "From" | "ReplyTo" | "FaultTo" | "RelatesTo" | "MessageID" => {
                soap::addressing(self.body.xml(budget).ok()??, name).map(Cow::Owned)
            }
            "OperationName" | "OperationNamespace" => {
                let is_name = name == "OperationName";
                if soap::namespace(self.body.format()).is_none() {
                    // The operation that Synapse's services have without a WSDL.
                    return is_name.then_some(Cow::Borrowed("mediate"));
                }
                let operation = soap::payload(self.body.xml(budget).ok()??)?;
                let found = if is_name { operation.local_name() } else { operation.namespace() };
                Some(Cow::Owned(found.to_owned()))
            }
            _ => None,
        }
    }

    /// The address in the header of its envelope, if it has one and the host holds it.
    pub(crate) fn addressed_to(&self, budget: &Budget) -> Option<String> {
        if !self.is_soap() || self.body.state() == BodyUse::Untouched {
            return None;
        }
        let address = soap::addressing(self.body.xml_header(budget).ok()??, "To")?;
        (!address.is_empty()).then_some(address)
    }

    /// Whether its body is an envelope.
    pub(crate) fn is_soap(&self) -> bool {
        soap::namespace(self.body.format()).is_some()
    }

    /// The same of the scope axis2. Source: Micro Integrator's `ServerWorker`.
    pub(crate) fn transported(&self, name: &str) -> Option<Cow<'_, str>> {
        match name {
            MESSAGE_TYPE => Some(match self.head.field(CONTENT_TYPE)? {
                Cow::Borrowed(field) => Cow::Borrowed(format::media_type(field)),
                Cow::Owned(field) => Cow::Owned(format::media_type(&field).to_owned()),
            }),
            SENT_CONTENT_TYPE => self.head.field(CONTENT_TYPE),
            NO_ENTITY_BODY => self.body.is_empty().then_some(Cow::Borrowed("true")),
            _ => None,
        }
    }

    /// Whether it is a `POST` of SOAP with an action.
    pub(crate) fn is_soap_call(&self) -> bool {
        if soap::namespace(self.body.format()).is_none() {
            return false;
        }
        let method = self.property_text(PropertyScope::Axis2, "HTTP_METHOD");
        method.is_none_or(|method| method == "POST")
            && self.action(true).is_some_and(|action| !action.is_empty())
    }

    /// The property `Action`, else the action in its head.
    pub(crate) fn action(&self, or_of_head: bool) -> Option<String> {
        match self.properties.get(PropertyScope::Synapse, "Action") {
            Some(set) => Some(set.text().into_owned()),
            None if or_of_head => self.own_action().map(Cow::into_owned),
            None => None,
        }
    }

    /// Writes the action into the head, where the receiver of the body as it is now expects it. Source: SOAP 1.1
    /// section 6.1.1; RFC 3902; Synapse's `TargetRequest`.
    pub(crate) fn set_action(&mut self, action: &str) -> Result<(), Failure> {
        let is_quoted = memchr::memchr(b'"', action.as_bytes()).is_some();
        let without = is_quoted.then(|| action.replace('"', ""));
        let action = without.as_deref().unwrap_or(action);
        if action.is_empty() {
            return Ok(());
        }
        if self.body.format() != Format::Soap12 {
            return self.set_field("SOAPAction", &format!("\"{action}\""));
        }
        let Some(field) = self.head.field(CONTENT_TYPE) else { return Ok(()) };
        let is_action = |part: &&str| {
            let end = memchr::memchr(b'=', part.as_bytes()).unwrap_or(part.len());
            part.get(..end).is_some_and(|name| format::is_name(name.trim(), "action"))
        };
        let mut new = String::with_capacity(field.len().saturating_add(action.len()) + 12);
        for part in format::parts(&field).filter(|part| !is_action(part)) {
            new.push_str(part);
            new.push(';');
        }
        [" action=\"", action, "\""].iter().for_each(|part| new.push_str(part));
        drop(field);
        self.set_field(CONTENT_TYPE, &new)
    }

    /// The action in the message's own head. Source: SOAP 1.1 section 6.1.1; RFC 3902.
    pub(crate) fn own_action(&self) -> Option<Cow<'_, str>> {
        match self.head.field("SOAPAction") {
            Some(Cow::Borrowed(action)) => Some(Cow::Borrowed(action.trim_matches('"'))),
            Some(Cow::Owned(action)) => Some(Cow::Owned(action.trim_matches('"').to_owned())),
            None if self.body.format() == Format::Soap12 => {
                let content_type = self.head.field(CONTENT_TYPE)?;
                Some(Cow::Owned(format::parameter(&content_type, "action")?.to_owned()))
            }
            None => None,
        }
    }
}
