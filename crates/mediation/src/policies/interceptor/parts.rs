//! The parts of an interceptor service's requests and responses.

use expression::{Budget, json};
use xpath::encoding;

use crate::error::{Code, Failure};
use crate::message::Message;
use crate::policies::change::is_written_by_gateway;

pub(super) fn unavailable(reason: &str) -> Failure {
    Failure::new(Code::NO_INTERCEPTOR, format!("the interceptor service failed: {reason}"))
}

pub(super) fn invalid(reason: &str) -> Failure {
    Failure::new(Code::INTERCEPTOR_RESPONSE, format!("the interceptor service failed: {reason}"))
}

/// Names in lower case; several fields of one name are one, as RFC 9110 section 5.3 allows.
pub(super) fn fields(message: &Message, budget: &Budget) -> Result<Vec<(String, String)>, Failure> {
    let mut all: Vec<(String, String)> = Vec::new();
    let mut bytes = 0_usize;
    message.head.fields(&mut |name, value| {
        bytes = bytes.saturating_add(name.len()).saturating_add(value.len());
        let name = name.to_ascii_lowercase();
        match all.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => {
                known.push_str(if name == "cookie" { "; " } else { ", " });
                known.push_str(value);
            }
            None => all.push((name, value.to_owned())),
        }
    });
    budget.charge_memory(bytes)?;
    Ok(all)
}

pub(super) fn add_fields(to: &mut json::Builder, fields: &[(String, String)]) {
    to.begin_object();
    for (name, value) in fields {
        to.key(name).string(value);
    }
    to.end();
}

pub(super) fn encoded(bytes: &[u8], budget: &Budget) -> Result<String, Failure> {
    // Twice: the text, and its copy in the message.
    budget.charge_memory((bytes.len() / 3 + 1).saturating_mul(8))?;
    Ok(encoding::base64_encode(bytes))
}

pub(super) fn decoded(body: json::Ref<'_>, budget: &Budget) -> Result<Vec<u8>, Failure> {
    budget.charge_memory(body.raw().len())?;
    let bytes = body.string().and_then(|text| encoding::base64_decode(&text));
    bytes.ok_or_else(|| invalid("`body` is not base64"))
}

/// A member that is not null.
pub(super) fn member<'j>(of: json::Ref<'j>, name: &str) -> Option<json::Ref<'j>> {
    of.get(name).filter(|value| !value.is_null())
}

pub(super) fn status(answer: json::Ref<'_>) -> Result<Option<u16>, Failure> {
    let Some(status) = member(answer, "responseCode") else { return Ok(None) };
    let number = status.number_text().and_then(|text| text.parse().ok());
    match number.filter(|status| (200..600).contains(status)) {
        Some(status) => Ok(Some(status)),
        None => Err(invalid("`responseCode` is not the status of a response")),
    }
}

pub(super) fn change_fields(message: &mut Message, answer: json::Ref<'_>) -> Result<(), Failure> {
    if let Some(names) = member(answer, "headersToRemove") {
        for name in names.elements() {
            let name =
                name.string().ok_or_else(|| invalid("`headersToRemove` must be an array of names"));
            let name = name?;
            if !is_written_by_gateway(&name) {
                message.remove_field(&name);
            }
        }
    }
    each_field(answer, "headersToReplace", |name, value| message.set_field(name, value))?;
    add(message, answer)
}

pub(super) fn add(message: &mut Message, answer: json::Ref<'_>) -> Result<(), Failure> {
    each_field(answer, "headersToAdd", |name, value| message.add_field(name, value))
}

/// Calls `each` with the fields of a list, without those that the gateway writes.
pub(super) fn each_field(
    answer: json::Ref<'_>,
    list: &str,
    mut each: impl FnMut(&str, &str) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let Some(fields) = member(answer, list) else { return Ok(()) };
    if fields.kind() != json::Kind::Object {
        return Err(invalid(&format!("`{list}` is not an object")));
    }
    for (name, value) in fields.members() {
        let value = value.string().ok_or_else(|| invalid(&format!("`{list}` has no text")))?;
        if !is_written_by_gateway(&name) {
            each(&name, &value).map_err(|failure| invalid(&failure.message))?;
        }
    }
    Ok(())
}
