//! The conditions of plans: which requests have limits of their own, and which ones limits count together.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::net::IpAddr;
use std::sync::Arc;

use base::addresses;
use expression::json::Document;
use model::{Caller, Condition, KeyPart, Subject};
use percent_encoding::percent_decode;
use stages::authenticate::bearer;
use stages::authenticate::places::{matches, parameters, value_of};

use crate::message::Request;
use crate::message::claims::claims_of;
use crate::shares::clients::network;

/// The parts of a request that conditions and keys read.
pub(crate) struct Conditions<'r> {
    pub(crate) request: &'r Request,
    /// The field of the verified token, if there is one: claims of any other token are ignored.
    pub(crate) token_field: Option<&'r [u8]>,
    pub(crate) address: &'r dyn Fn() -> IpAddr,
    pub(crate) base_path: &'r str,
    /// `iss` and subject.
    pub(crate) user: Option<(&'r str, &'r str)>,
    /// The caller, and the claims that are kept of new tokens.
    pub(crate) caller: Option<&'r Caller>,
    pub(crate) kept: &'r Arc<[String]>,
    /// The token's claims, decoded when a condition first asks, if they are not kept.
    pub(crate) claims: OnceCell<Option<Document<'static>>>,
}

impl Conditions<'_> {
    pub(crate) fn meets(&self, condition: &Condition) -> bool {
        let is_met = match &condition.subject {
            Subject::Addresses(blocks) => addresses::is_in(blocks, (self.address)()),
            Subject::Header { name, value } => {
                self.fields(name).any(|found| matches(value.as_bytes(), found))
            }
            Subject::Query { name, value } => self
                .parameters(name)
                .any(|found| matches(value.as_bytes(), &percent_decode(found).collect::<Vec<_>>())),
            Subject::Claim { name, value } => {
                self.claim(name).is_some_and(|text| matches(value.as_bytes(), text.as_bytes()))
            }
        };
        is_met != condition.is_inverted
    }

    /// Appends the request's value for each part of a key, so that no two combinations of values look the same.
    pub(crate) fn write(&self, parts: &[KeyPart], out: &mut Vec<u8>) {
        for part in parts {
            match (part, self.user) {
                (KeyPart::User, Some((issuer, subject))) => {
                    value(out, issuer.bytes());
                    value(out, subject.bytes());
                }
                (KeyPart::User, None) | (KeyPart::Address, _) => {
                    value(out, network((self.address)()).to_be_bytes());
                }
                (KeyPart::Api, _) => value(out, self.base_path.bytes()),
                (KeyPart::Header(name), _) => {
                    self.fields(name).for_each(|found| value(out, found.iter().copied()));
                }
                (KeyPart::Query(name), _) => {
                    self.parameters(name).for_each(|found| value(out, percent_decode(found)));
                }
                (KeyPart::Claim(name), _) => {
                    self.claim(name).iter().for_each(|found| value(out, found.bytes()));
                }
            }
            out.extend_from_slice(&u64::MAX.to_le_bytes());
        }
    }

    fn fields(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        let (head, bytes) = (&self.request.head, self.request.bytes.as_slice());
        let named = head
            .fields()
            .iter()
            .filter(move |field| field.name.of(bytes).eq_ignore_ascii_case(name.as_bytes()));
        named.map(move |field| field.value.of(bytes))
    }

    fn parameters(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        let query = self.request.head.query(&self.request.bytes);
        parameters(query.unwrap_or_default()).filter_map(move |pair| value_of(pair, name))
    }

    fn claims(&self) -> Option<Document<'static>> {
        let (head, bytes) = (&self.request.head, self.request.bytes.as_slice());
        let field = head.find_name(bytes, self.token_field?)?;
        claims_of(bearer(field.value.of(bytes)).ok()?)
    }

    fn claim(&self, name: &str) -> Option<Cow<'_, str>> {
        let kept = self.caller.and_then(|caller| caller.claims.as_ref());
        if let Some(kept) = kept.filter(|kept| Arc::ptr_eq(&kept.names, self.kept)) {
            let mut all = kept.names.iter().zip(&kept.texts);
            let text = all.find_map(|(known, text)| (known == name).then_some(text.as_deref()?));
            return text.map(Cow::Borrowed);
        }
        let claim = self.claims.get_or_init(|| self.claims()).as_ref()?.root().get(name)?;
        Some(Cow::Owned(match claim.string() {
            Some(text) => text.into_owned(),
            None => claim.raw().to_owned(),
        }))
    }
}

/// Appends a value with its length.
fn value(out: &mut Vec<u8>, bytes: impl IntoIterator<Item = u8>) {
    let at = out.len();
    out.extend_from_slice(&[0; 8]);
    out.extend(bytes);
    let length = out.len().saturating_sub(at).saturating_sub(8);
    if let Some(place) = out.get_mut(at..).and_then(|value| value.first_chunk_mut()) {
        *place = (length as u64).to_le_bytes();
    }
}
