//! Writes a payload in a format that is not XML, and wraps text and bytes as XML.

use std::borrow::Cow;

use expression::mapping::{self, Rules};
use expression::{Budget, markup};
use xml::{Node, QNameRef, Sink as _};
use xpath::encoding;

use super::{Format, form, multipart};
use crate::error::Failure;

/// Synapse's elements around text and bytes. Source: `BaseConstants.DEFAULT_TEXT_WRAPPER` and
/// `DEFAULT_BINARY_WRAPPER` of Axis2's transports.
const NAMESPACE: &str = "http://ws.apache.org/commons/ns/payload";
const TEXT: &str = "text";
const BINARY: &str = "binary";

pub(crate) fn text_as_xml(text: &str, budget: &Budget) -> Result<xml::Document, Failure> {
    budget.charge_scanning(text.len())?;
    budget.charge_memory(text.len())?;
    wrapped(TEXT, text)
}

pub(crate) fn bytes_as_xml(bytes: &[u8], budget: &Budget) -> Result<xml::Document, Failure> {
    budget.charge_scanning(bytes.len())?;
    budget.charge_memory(bytes.len().saturating_mul(3))?;
    wrapped(BINARY, &encoding::base64_encode(bytes))
}

fn wrapped(local: &str, text: &str) -> Result<xml::Document, Failure> {
    let mut out = xml::Builder::new();
    out.start_element(QNameRef::new("", NAMESPACE, local))?;
    out.namespace("", NAMESPACE)?;
    out.text(text)?;
    out.end_element()?;
    Ok(out.finish())
}

/// The text in Synapse's element for text.
pub(crate) fn wrapped_text(payload: Node<'_>) -> Option<Cow<'_, str>> {
    let is_text = payload.local_name() == TEXT && payload.namespace() == NAMESPACE;
    is_text.then(|| payload.string_value())
}

pub(crate) fn is_wrapper(payload: Node<'_>) -> bool {
    payload.namespace() == NAMESPACE && matches!(payload.local_name(), TEXT | BINARY)
}

fn wrapped_bytes(payload: Node<'_>) -> Option<Vec<u8>> {
    let is_binary = payload.local_name() == BINARY && payload.namespace() == NAMESPACE;
    let decode = || encoding::base64_decode(payload.string_value().trim());
    is_binary.then(decode).flatten()
}

/// `payload` in `format`; for multipart, with the boundary that it got.
///
/// # Errors
/// The budget.
pub(crate) fn write(
    payload: Node<'_>,
    format: Format,
    boundary: Option<&str>,
    (rules, budget): (&Rules, &Budget),
) -> Result<(Vec<u8>, Option<String>), Failure> {
    let bytes = match format {
        Format::Json => match wrapped_text(payload) {
            // Text that is JSON stays as it is.
            Some(text) if is_json(&text, budget)? => text.into_owned().into_bytes(),
            _ => mapping::to_json(payload, rules, budget)?.text().as_bytes().to_vec(),
        },
        Format::Form => form::write(payload, budget)?,
        Format::Multipart => {
            let (bytes, boundary) = multipart::write(payload, boundary, &[], budget)?;
            return Ok((bytes, Some(boundary)));
        }
        Format::Text | Format::Binary => match (wrapped_text(payload), wrapped_bytes(payload)) {
            (Some(text), _) => text.into_owned().into_bytes(),
            (None, Some(bytes)) => bytes,
            (None, None) => markup::write(payload, budget)?,
        },
        Format::Xml | Format::Soap11 | Format::Soap12 => markup::write(payload, budget)?,
    };
    Ok((bytes, None))
}

fn is_json(text: &str, budget: &Budget) -> Result<bool, Failure> {
    match expression::json::Document::parse_within(text.trim().as_bytes(), budget) {
        Ok(_) => Ok(true),
        Err(expression::Error::Budget(exceeded)) => Err(exceeded.into()),
        Err(_) => Ok(false),
    }
}

/// A child element for a field of a form.
///
/// # Errors
/// Text that XML does not allow; the budget.
pub(crate) fn field(
    out: &mut xml::Builder,
    (name, value): (&str, &str),
    budget: &Budget,
) -> Result<(), Failure> {
    out.start_element(QNameRef::local(&mapping::element_name_within(name, budget)?))?;
    out.text(value)?;
    out.end_element()?;
    Ok(())
}
