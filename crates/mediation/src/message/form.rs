//! Forms, `application/x-www-form-urlencoded`. Source: Synapse's `XFormURLEncodedBuilder`, whose element is
//! `xformValues`, with a child for each field.

use expression::{Budget, mapping};
use xml::{Node, QNameRef, Sink as _};
use xpath::encoding;

use crate::error::{Code, Failure};
use crate::limits;

const ROOT: &str = "xformValues";

/// # Errors
/// An invalid escape, text that XML does not allow, or too many fields.
pub(crate) fn to_xml(bytes: &[u8], budget: &Budget) -> Result<xml::Document, Failure> {
    let text = std::str::from_utf8(bytes).map_err(|error| malformed(&error.to_string()))?;
    budget.charge_scanning(text.len())?;
    budget.charge_memory(text.len().saturating_mul(2))?;
    let mut out = xml::Builder::new();
    out.start_element(QNameRef::local(ROOT))?;
    let fields = text.trim().split('&').filter(|field| !field.is_empty());
    for (count, field) in fields.enumerate() {
        if count >= limits::FORM_FIELDS_MAX {
            return Err(malformed(&format!("more than {} fields", limits::FORM_FIELDS_MAX)));
        }
        let (name, value) = field.split_once('=').unwrap_or((field, ""));
        let decode = |part: &str| {
            encoding::url_decode(part)
                .ok_or_else(|| malformed(&format!("invalid escape in `{part}`")))
        };
        super::formatter::field(&mut out, (&decode(name)?, &decode(value)?), budget)?;
    }
    out.end_element()?;
    Ok(out.finish())
}

/// Each child of `payload` as a field.
pub(crate) fn write(payload: Node<'_>, budget: &Budget) -> Result<Vec<u8>, Failure> {
    let mut out = String::new();
    for child in payload.elements() {
        let (name, value) = (mapping::member_name(child.local_name()), child.string_value());
        budget.charge_scanning(name.len() + value.len())?;
        // A byte becomes three at most.
        budget.charge_memory((name.len() + value.len()).saturating_mul(3) + 2)?;
        if !out.is_empty() {
            out.push('&');
        }
        out.push_str(&encoding::form_encode(name.as_bytes()));
        out.push('=');
        out.push_str(&encoding::form_encode(value.as_bytes()));
    }
    Ok(out.into_bytes())
}

fn malformed(error: &str) -> Failure {
    Failure::new(Code::MALFORMED_BODY, format!("the body is not a form: {error}"))
}
