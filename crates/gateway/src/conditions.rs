//! The conditions of plans: which requests have limits of their own.

use std::cell::OnceCell;
use std::net::IpAddr;
use std::sync::Arc;

use expression::json::Document;
use model::{Caller, Condition, Subject};
use percent_encoding::percent_decode;
use stages::authenticate::bearer;
use stages::authenticate::places::{matches, parameters, value_of};

use crate::claims::claims_of;
use crate::message::{Request, contains};

/// What conditions look at.
pub(crate) struct Conditions<'r> {
    pub(crate) request: &'r Request,
    /// Where the token is, if one was verified: what any other says counts for nothing.
    pub(crate) token_field: Option<&'r [u8]>,
    pub(crate) address: &'r dyn Fn() -> IpAddr,
    /// The caller, and the claims that are kept of new tokens.
    pub(crate) caller: Option<&'r Caller>,
    pub(crate) kept: &'r Arc<[String]>,
    /// Those of the token, decoded when a condition first asks, if they are not kept.
    pub(crate) claims: OnceCell<Option<Document<'static>>>,
}

impl Conditions<'_> {
    pub(crate) fn meets(&self, condition: &Condition) -> bool {
        let (head, bytes) = (&self.request.head, self.request.bytes.as_slice());
        let is_met = match &condition.subject {
            Subject::Addresses(blocks) => {
                let address = (self.address)();
                blocks.iter().any(|block| contains(*block, address))
            }
            Subject::Header { name, value } => {
                let name = name.as_bytes();
                let mut fields = head.fields().iter();
                fields.any(|field| {
                    field.name.of(bytes).eq_ignore_ascii_case(name)
                        && matches(value.as_bytes(), field.value.of(bytes))
                })
            }
            Subject::Query { name, value } => {
                let pairs = parameters(head.query(bytes).unwrap_or_default());
                let mut found = pairs.filter_map(|pair| value_of(pair, name));
                found.any(|found| {
                    matches(value.as_bytes(), &percent_decode(found).collect::<Vec<_>>())
                })
            }
            Subject::Claim { name, value } => self.has_claim(name, value),
        };
        is_met != condition.is_inverted
    }

    fn claims(&self) -> Option<Document<'static>> {
        let (head, bytes) = (&self.request.head, self.request.bytes.as_slice());
        let field = head.find_name(bytes, self.token_field?)?;
        claims_of(bearer(field.value.of(bytes)).ok()?)
    }

    fn has_claim(&self, name: &str, value: &str) -> bool {
        let kept = self.caller.and_then(|caller| caller.claims.as_ref());
        if let Some(kept) = kept.filter(|kept| Arc::ptr_eq(&kept.names, self.kept)) {
            let mut all = kept.names.iter().zip(&kept.texts);
            let text = all.find_map(|(known, text)| (known == name).then_some(text.as_ref()?));
            return text.is_some_and(|text| matches(value.as_bytes(), text.as_bytes()));
        }
        let claims = self.claims.get_or_init(|| self.claims()).as_ref();
        let claim = claims.and_then(|claims| claims.root().get(name));
        let text = claim.map(|claim| match claim.string() {
            Some(text) => text.into_owned(),
            None => claim.raw().to_owned(),
        });
        text.is_some_and(|text| matches(value.as_bytes(), text.as_bytes()))
    }
}
