//! The gateway's heads, as mediators see them.

use std::any::Any;
use std::borrow::Cow;

use expression::ParameterKind;
use mediation::{Head as MediatedHead, PlainHead, PropertyScope};
use percent_encoding::percent_decode;
use wire::http1::{Field, Known, KnownSet};

use crate::message::{Head, HeadEdits, RequestCopy};

/// Almost always ASCII, which is checked faster than it is repaired.
pub(super) fn text(bytes: &[u8]) -> Cow<'_, str> {
    std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

impl RequestCopy {
    /// Path and query below the service's own path, as they came.
    fn postfix(&self) -> Cow<'_, str> {
        let path = self.head.path(&self.bytes).get(self.prefix_len..).unwrap_or_default();
        let path = text(path);
        match self.head.query(&self.bytes) {
            Some(query) => Cow::Owned(format!("{path}?{}", text(query))),
            None => path,
        }
    }
}

/// The head of a client's request.
impl MediatedHead for RequestCopy {
    fn field(&self, name: &str) -> Option<Cow<'_, str>> {
        field(&self.edits, &self.bytes, self.head.fields(), name)
    }

    fn set_field(&mut self, name: &str, value: &str) {
        set_field(&mut self.edits, name, value);
    }

    fn add_field(&mut self, name: &str, value: &str) {
        add_field(&mut self.edits, name, value);
    }

    fn remove_field(&mut self, name: &str) {
        self.edits.remove(name.as_bytes());
    }

    fn fields(&self, each: &mut dyn FnMut(&str, &str)) {
        fields(&self.edits, &self.bytes, self.head.fields(), each);
    }

    fn names(&self, each: &mut dyn FnMut(&[u8])) {
        names(&self.edits, &self.bytes, self.head.fields(), each);
    }

    fn parameter(&self, kind: ParameterKind, name: &str) -> Option<Cow<'_, str>> {
        match kind {
            ParameterKind::Query => query_parameter(self.head.query(&self.bytes)?, name),
            // Parameters of the path are properties.
            ParameterKind::Path | ParameterKind::Function | _ => None,
        }
    }

    fn property(&self, scope: PropertyScope, name: &str) -> Option<Cow<'_, str>> {
        match (scope, name) {
            (PropertyScope::Axis2, "HTTP_METHOD") | (PropertyScope::Synapse, "REST_METHOD") => {
                Some(text(self.head.method_bytes(&self.bytes)))
            }
            (PropertyScope::Axis2, "REST_URL_POSTFIX")
            | (PropertyScope::Synapse, "REST_SUB_REQUEST_PATH") => Some(self.postfix()),
            (PropertyScope::Axis2, "TransportInURL")
            | (PropertyScope::Synapse, "REST_FULL_REQUEST_PATH" | "To") => {
                Some(text(self.head.target(&self.bytes)))
            }
            // Names of clients are not looked up.
            (PropertyScope::Axis2, "REMOTE_ADDR" | "REMOTE_HOST") => {
                Some(self.remote_address?.to_string().into())
            }
            (PropertyScope::Synapse, name) => {
                self.parameter(ParameterKind::Query, name.strip_prefix("query.param.")?)
            }
            _ => None,
        }
    }

    fn copy(&self) -> Box<dyn MediatedHead> {
        Box::new(self.clone())
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

impl Head {
    /// A head that mediation made, not a peer.
    pub(super) fn of_fields(made: &PlainHead) -> Self {
        let mut head = Self::default();
        for (name, value) in &made.fields {
            head.set_field(name, value);
        }
        head
    }
}

/// The head of an upstream's response.
impl MediatedHead for Head {
    fn field(&self, name: &str) -> Option<Cow<'_, str>> {
        field(&self.edits, &self.bytes, self.parsed.fields(), name)
    }

    fn set_field(&mut self, name: &str, value: &str) {
        set_field(&mut self.edits, name, value);
    }

    fn add_field(&mut self, name: &str, value: &str) {
        add_field(&mut self.edits, name, value);
    }

    fn remove_field(&mut self, name: &str) {
        self.edits.remove(name.as_bytes());
    }

    fn fields(&self, each: &mut dyn FnMut(&str, &str)) {
        fields(&self.edits, &self.bytes, self.parsed.fields(), each);
    }

    fn names(&self, each: &mut dyn FnMut(&[u8])) {
        names(&self.edits, &self.bytes, self.parsed.fields(), each);
    }

    fn property(&self, scope: PropertyScope, name: &str) -> Option<Cow<'_, str>> {
        let is_status = scope == PropertyScope::Axis2 && name == "HTTP_SC";
        is_status.then(|| self.status().to_string().into())
    }

    fn copy(&self) -> Box<dyn MediatedHead> {
        Box::new(self.clone())
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// Fields that the gateway writes itself: those of framing, of the connection, and `Host`, as in Micro Integrator.
const OURS: KnownSet = KnownSet::of(&[
    Known::Connection,
    Known::ContentLength,
    Known::Expect,
    Known::Host,
    Known::Http2Settings,
    Known::KeepAlive,
    Known::ProxyConnection,
    Known::Te,
    Known::Trailer,
    Known::TransferEncoding,
    Known::Upgrade,
]);

/// Sets a field, unless it is one that the gateway writes.
fn set_field(edits: &mut HeadEdits, name: &str, value: &str) {
    if OURS.contains(Known::of(name.as_bytes())) {
        return;
    }
    edits.remove(name.as_bytes());
    edits.append(name.as_bytes(), value.as_bytes());
}

/// As [`set_field`].
fn add_field(edits: &mut HeadEdits, name: &str, value: &str) {
    if !OURS.contains(Known::of(name.as_bytes())) {
        edits.append(name.as_bytes(), value.as_bytes());
    }
}

fn field<'a>(
    edits: &'a HeadEdits,
    bytes: &'a [u8],
    fields: &'a [Field],
    name: &str,
) -> Option<Cow<'a, str>> {
    edits.find(bytes, fields, name.as_bytes()).map(text)
}

fn fields(edits: &HeadEdits, bytes: &[u8], fields: &[Field], each: &mut dyn FnMut(&str, &str)) {
    for (name, value) in edits.fields(bytes, fields, KnownSet::EMPTY) {
        each(&text(name), &text(value));
    }
}

fn names(edits: &HeadEdits, bytes: &[u8], fields: &[Field], each: &mut dyn FnMut(&[u8])) {
    edits.fields(bytes, fields, KnownSet::EMPTY).for_each(|(name, _)| each(name));
}

/// The first query parameter of this name, decoded.
fn query_parameter<'q>(query: &'q [u8], name: &str) -> Option<Cow<'q, str>> {
    query.split(|byte| *byte == b'&').find_map(|pair| {
        let mut halves = pair.splitn(2, |byte| *byte == b'=');
        let known = halves.next()?;
        let is_it = percent_decode(known).eq(name.bytes());
        let value = halves.next().unwrap_or_default();
        is_it.then(|| match percent_decode(value).decode_utf8_lossy() {
            Cow::Borrowed(text) => Cow::Borrowed(text),
            Cow::Owned(text) => Cow::Owned(text),
        })
    })
}
