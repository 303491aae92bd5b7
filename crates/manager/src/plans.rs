//! The documents of plans, by which gateways limit requests. [`crate::applications`] serves them.

use serde_json::{Map, Value, json};

use crate::reply::Refusal;

/// Why a document with its `name` is not a plan.
pub type CheckPlan = fn(&Value) -> Result<(), String>;

/// The document of the plan `name`, with this name.
pub(crate) fn read(name: &str, body: &[u8], check: CheckPlan) -> Result<String, Refusal> {
    let mut document: Map<String, Value> = serde_json::from_slice(body)
        .map_err(|error| Refusal::InvalidDocument(error.to_string()))?;
    let other = document.insert("name".to_owned(), json!(name));
    if other.is_some_and(|other| other.as_str().is_none_or(|other| other != name)) {
        return Err(Refusal::InvalidDocument("`name` is another one than in the path".to_owned()));
    }
    let document = Value::Object(document);
    check(&document).map_err(Refusal::InvalidDocument)?;
    Ok(document.to_string())
}

/// The text that the document of an application has if it names the plan.
pub(crate) fn named(name: &str) -> String {
    format!("\"plan\":{}", json!(name))
}
