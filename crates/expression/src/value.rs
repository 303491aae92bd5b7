//! The result of an evaluation.

use std::borrow::Cow;

use xpath::{Budget, BudgetExceeded};

use crate::error::Error;
use crate::json::{self, Builder, Document, Kind, Ref};

/// A value inside a document, or one made by the evaluation.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Value<'v> {
    /// A value inside a document, of any kind.
    Json(Ref<'v>),
    /// A JSON value made by the evaluation.
    Made(Box<Document<'static>>),
    /// Text.
    Text(Cow<'v, str>),
    /// A whole number.
    Integer(i64),
    /// Any other number.
    Double(f64),
    /// True or false.
    Boolean(bool),
    /// JSON's `null`, and absent values.
    Null,
}

/// The most bytes that `text` takes in upper or lower case: two bytes may become six (`ΐ`).
pub(crate) fn case_bytes_max(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.len().saturating_mul(3) }
}

impl<'v> Value<'v> {
    /// Turns a JSON scalar into the plain variant; any other value is unchanged.
    #[must_use]
    pub fn plain(self) -> Self {
        let value = match self {
            Self::Json(value) => value,
            Self::Made(ref document) => {
                return match Value::Json(document.root()).plain() {
                    Value::Text(text) => Self::Text(Cow::Owned(text.into_owned())),
                    Value::Integer(number) => Self::Integer(number),
                    Value::Double(number) => Self::Double(number),
                    Value::Boolean(truth) => Self::Boolean(truth),
                    Value::Null => Self::Null,
                    Value::Json(_) | Value::Made(_) => self,
                };
            }
            Self::Text(_) | Self::Integer(_) | Self::Double(_) | Self::Boolean(_) | Self::Null => {
                return self;
            }
        };
        match value.kind() {
            Kind::Null => Self::Null,
            Kind::Boolean => Self::Boolean(value.boolean() == Some(true)),
            Kind::String => Self::Text(value.string().unwrap_or_default()),
            Kind::Number => number(value.raw()),
            Kind::Array | Kind::Object => self,
        }
    }

    /// As [`Value::plain`], with the work charged: a string with escapes is copied, a number is read digit by digit.
    ///
    /// # Errors
    /// [`Error::Budget`] if it does not fit.
    pub(crate) fn plain_within(self, budget: &Budget) -> Result<Self, BudgetExceeded> {
        if let Some(json) = self.json() {
            match json.kind() {
                Kind::Number => budget.charge_reading(json.raw().len())?,
                Kind::String if json.is_escaped() => budget.charge_scanning(json.raw().len())?,
                Kind::Null | Kind::Boolean | Kind::String | Kind::Array | Kind::Object => {}
            }
        }
        Ok(self.plain())
    }

    /// The JSON value, if it is inside a document or was made as one.
    #[must_use]
    pub fn json(&self) -> Option<Ref<'_>> {
        match self {
            Self::Json(value) => Some(*value),
            Self::Made(document) => Some(document.root()),
            Self::Text(_) | Self::Integer(_) | Self::Double(_) | Self::Boolean(_) | Self::Null => {
                None
            }
        }
    }

    /// The value as text: strings without quotes, numbers in their original spelling, arrays and objects as JSON,
    /// `null` as the empty text.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Json(value) => json_text(*value),
            Self::Made(document) => json_text(document.root()),
            Self::Text(text) => Cow::Borrowed(text),
            Self::Integer(number) => Cow::Owned(number.to_string()),
            Self::Double(number) => Cow::Owned(double_text(*number)),
            Self::Boolean(truth) => Cow::Borrowed(if *truth { "true" } else { "false" }),
            Self::Null => Cow::Borrowed(""),
        }
    }

    /// The value as a number; text that spells a number counts.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Integer(number) => Some(*number as f64),
            Self::Double(number) => Some(*number),
            Self::Json(_) | Self::Made(_) | Self::Text(_) => self.text().trim().parse().ok(),
            Self::Boolean(_) | Self::Null => None,
        }
    }

    /// True for the boolean `true`, and for the text `true` in any letter case, as in Java's `Boolean.parseBoolean`.
    #[must_use]
    pub fn truth(&self) -> bool {
        match self {
            Self::Boolean(truth) => *truth,
            Self::Json(_) | Self::Made(_) | Self::Text(_) => {
                self.text().eq_ignore_ascii_case("true")
            }
            Self::Integer(_) | Self::Double(_) | Self::Null => false,
        }
    }

    /// Appends the value as JSON; a value inside a document is copied byte for byte.
    pub fn push_json(&self, into: &mut Vec<u8>) {
        match self {
            Self::Json(value) => into.extend_from_slice(value.raw().as_bytes()),
            Self::Made(document) => into.extend_from_slice(document.text().as_bytes()),
            Self::Text(text) => json::push_quoted(into, text),
            Self::Integer(_) | Self::Boolean(_) => into.extend_from_slice(self.text().as_bytes()),
            Self::Double(number) if number.is_finite() => {
                into.extend_from_slice(self.text().as_bytes());
            }
            Self::Double(_) | Self::Null => into.extend_from_slice(b"null"),
        }
    }

    /// The value as JSON text.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut bytes = Vec::new();
        self.push_json(&mut bytes);
        String::from_utf8(bytes).unwrap_or_default()
    }

    /// Adds the value to a document under construction.
    pub fn build(&self, into: &mut Builder) {
        match self {
            Self::Json(value) => into.embed(*value),
            Self::Made(document) => into.embed(document.root()),
            Self::Integer(_) => into.number(&self.text()),
            Self::Double(number) if number.is_finite() => into.number(&self.text()),
            Self::Boolean(truth) => into.boolean(*truth),
            Self::Double(_) | Self::Null => into.null(),
            Self::Text(_) => into.string(&self.text()),
        };
    }

    /// An array of `values`, charged before it is made.
    ///
    /// # Errors
    /// [`Error::Budget`] if the array does not fit the rest of `budget`.
    pub(crate) fn array(values: &[Value<'_>], budget: &Budget) -> Result<Value<'static>, Error> {
        for value in values {
            value.charge_copy(budget)?;
        }
        Ok(Value::array_of(values))
    }

    /// Charges a copy of the value.
    ///
    /// # Errors
    /// [`Error::Budget`] if it does not fit.
    pub fn charge_copy(&self, budget: &Budget) -> Result<(), Error> {
        if let Self::Text(text) = self {
            budget.charge_scanning(text.len())?;
        }
        let size = self.size();
        budget.charge_steps(size.values as u64)?;
        budget.charge_reading(size.bytes)?;
        budget.charge_memory(size.bytes + size.values * json::NODE_BYTES)?;
        Ok(())
    }

    /// An array of `values` whose copy has been charged.
    pub(crate) fn array_of(values: &[Value<'_>]) -> Value<'static> {
        let mut builder = Builder::new();
        builder.begin_array();
        for value in values {
            value.build(&mut builder);
        }
        Value::Made(Box::new(builder.finish()))
    }

    /// The size of a copy.
    pub(crate) fn size(&self) -> Size {
        match self {
            Self::Json(json) => Size { bytes: json.raw().len() + 1, values: json.node_count() },
            Self::Made(document) => {
                Size { bytes: document.text().len() + 1, values: document.node_count() }
            }
            Self::Text(text) => Size { bytes: json::quoted_len(text) + 1, values: 1 },
            // `-1.7976931348623157E308,`
            Self::Integer(_) | Self::Double(_) => Size { bytes: 24, values: 1 },
            Self::Boolean(_) | Self::Null => Size { bytes: 6, values: 1 },
        }
    }

    /// Whether the value is `null` or does not exist.
    #[must_use]
    pub fn is_null(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Json(value) => value.is_null(),
            Self::Made(document) => document.root().is_null(),
            Self::Text(_) | Self::Integer(_) | Self::Double(_) | Self::Boolean(_) => false,
        }
    }

    /// The same value without borrowed parts.
    #[must_use]
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Self::Json(value) => {
                let mut builder = Builder::new();
                builder.embed(value);
                Value::Made(Box::new(builder.finish()))
            }
            Self::Made(document) => Value::Made(document),
            Self::Text(text) => Value::Text(Cow::Owned(text.into_owned())),
            Self::Integer(number) => Value::Integer(number),
            Self::Double(number) => Value::Double(number),
            Self::Boolean(truth) => Value::Boolean(truth),
            Self::Null => Value::Null,
        }
    }
}

/// The JSON text of a copy in bytes, and how many values and names it holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) bytes: usize,
    pub(crate) values: usize,
}

fn json_text(value: Ref<'_>) -> Cow<'_, str> {
    match value.kind() {
        Kind::String => value.string().unwrap_or_default(),
        Kind::Null => Cow::Borrowed(""),
        Kind::Boolean | Kind::Number | Kind::Array | Kind::Object => Cow::Borrowed(value.raw()),
    }
}

/// The number that `text` spells; an integer if it has neither point nor exponent and fits.
pub(crate) fn number(text: &str) -> Value<'static> {
    match text.parse::<i64>() {
        Ok(whole) => Value::Integer(whole),
        Err(_) => Value::Double(text.parse().unwrap_or(f64::NAN)),
    }
}

/// As Java's `Double.toString`: always a decimal point, an exponent below 10^-3 and from 10^7 on.
pub(crate) fn double_text(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let size = number.abs();
    if size == 0.0 || (1e-3..1e7).contains(&size) {
        return format!("{number:?}");
    }
    let text = format!("{number:E}");
    match text.split_once('E') {
        Some((digits, _)) if digits.contains('.') => text,
        Some((digits, exponent)) => format!("{digits}.0E{exponent}"),
        None => text,
    }
}
