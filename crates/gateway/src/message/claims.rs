//! The claims of tokens, beyond those that stages use.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use expression::json::Document;

/// The claims of a JWT that was verified before.
pub(crate) fn claims_of(token: &[u8]) -> Option<Document<'static>> {
    let payload = token.split(|byte| *byte == b'.').nth(1)?;
    let padding = payload.iter().rev().take_while(|byte| **byte == b'=').count();
    let payload = payload.get(..payload.len().saturating_sub(padding))?;
    let claims = BASE64_URL_SAFE_NO_PAD.decode(payload).ok()?;
    Document::parse(&claims).ok().map(Document::into_owned)
}
