//! The functions, with the argument types of Micro Integrator. Lengths and positions count UTF-16 units, as in Java.

use xpath::dates::{self, Dialect};
use xpath::regex::Regex;
use xpath::{Budget, BudgetExceeded, encoding};

use super::Node;
use super::evaluate::{Outcome, node, numeric, rounded, type_error};
use crate::context::EvalContext;
use crate::error::Error;
use crate::json::{self, Builder, Document, Kind, Limits, NODE_BYTES};
use crate::value::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Length,
    ToUpper,
    ToLower,
    SubString,
    StartsWith,
    EndsWith,
    Contains,
    Trim,
    Replace,
    Split,
    IndexOf,
    CharAt,
    Abs,
    Ceil,
    Floor,
    Round,
    Sqrt,
    Log,
    Pow,
    Now,
    FormatDateTime,
    Base64Encode,
    Base64Decode,
    UrlEncode,
    UrlDecode,
    IsString,
    IsNumber,
    IsArray,
    IsObject,
    String,
    Float,
    Boolean,
    Integer,
    Object,
    Array,
    Exists,
    Xpath,
    Not,
    Registry,
}

/// Name, function, fewest and most arguments.
#[rustfmt::skip]
const TABLE: &[(&str, Function, usize, usize)] = &[
    ("length",          Function::Length,         1, 1),
    ("toUpper",         Function::ToUpper,        1, 1),
    ("toLower",         Function::ToLower,        1, 1),
    ("subString",       Function::SubString,      2, 3),
    ("startsWith",      Function::StartsWith,     2, 2),
    ("endsWith",        Function::EndsWith,       2, 2),
    ("contains",        Function::Contains,       2, 2),
    ("trim",            Function::Trim,           1, 1),
    ("replace",         Function::Replace,        3, 3),
    ("split",           Function::Split,          2, 2),
    ("indexOf",         Function::IndexOf,        2, 3),
    ("charAt",          Function::CharAt,         2, 2),
    ("abs",             Function::Abs,            1, 1),
    ("ceil",            Function::Ceil,           1, 1),
    ("floor",           Function::Floor,          1, 1),
    ("round",           Function::Round,          1, 2),
    ("sqrt",            Function::Sqrt,           1, 1),
    ("log",             Function::Log,            1, 2),
    ("pow",             Function::Pow,            2, 2),
    ("now",             Function::Now,            0, 0),
    ("formatDateTime",  Function::FormatDateTime, 2, 3),
    ("base64encode",    Function::Base64Encode,   1, 2),
    ("base64Encode",    Function::Base64Encode,   1, 2),
    ("base64decode",    Function::Base64Decode,   1, 1),
    ("base64Decode",    Function::Base64Decode,   1, 1),
    ("urlEncode",       Function::UrlEncode,      1, 2),
    ("urlDecode",       Function::UrlDecode,      1, 1),
    ("isString",        Function::IsString,       1, 1),
    ("isNumber",        Function::IsNumber,       1, 1),
    ("isArray",         Function::IsArray,        1, 1),
    ("isObject",        Function::IsObject,       1, 1),
    ("string",          Function::String,         1, 1),
    ("float",           Function::Float,          1, 1),
    ("boolean",         Function::Boolean,        1, 1),
    ("integer",         Function::Integer,        1, 1),
    ("object",          Function::Object,         1, 1),
    ("array",           Function::Array,          1, 1),
    ("exists",          Function::Exists,         1, 1),
    ("xpath",           Function::Xpath,          1, 2),
    ("not",             Function::Not,            1, 1),
    ("registry",        Function::Registry,       1, 2),
];

impl Function {
    pub(super) fn find(name: &str) -> Option<Self> {
        TABLE.iter().find(|row| row.0 == name).map(|row| row.1)
    }

    pub(super) fn takes(self, count: usize) -> bool {
        TABLE.iter().any(|row| row.1 == self && (row.2..=row.3).contains(&count))
    }

    fn name(self) -> &'static str {
        TABLE.iter().find(|row| row.1 == self).map_or("function", |row| row.0)
    }

    /// Whether the function distinguishes values of the message from literals and computed values.
    fn needs_origin(self) -> bool {
        matches!(
            self,
            Self::String | Self::ToUpper | Self::ToLower | Self::IsArray | Self::IsObject
        )
    }
}

/// A call with its evaluated arguments, none of which is `null`.
struct Invocation<'b, 's> {
    function: Function,
    values: Vec<Value<'s>>,
    budget: &'b Budget,
}

pub(super) fn call<'s>(
    function: Function,
    arguments: &'s [Node],
    context: &'s dyn EvalContext,
    budget: &Budget,
) -> Outcome<'s> {
    let mut values = Vec::with_capacity(arguments.len());
    for argument in arguments {
        let value = node(argument, context, budget);
        if function == Function::Exists {
            return match value {
                Err(Error::Budget(exceeded)) => Err(exceeded.into()),
                value => Ok(Value::Boolean(value.is_ok_and(|value| !value.is_null()))),
            };
        }
        let value = if function.needs_origin() { value? } else { value?.plain_within(budget)? };
        if value.is_null() {
            return Err(type_error(function.name(), "a value, not null"));
        }
        values.push(value);
    }
    let call = Invocation { function, values, budget };
    match function {
        Function::Now => Ok(Value::Integer(context.unix_ms())),
        Function::Registry => {
            let (path, property) = (call.text(0)?, call.values.get(1).map(Value::text));
            let found = context.registry(path, property.as_deref());
            found
                .map(Value::Text)
                .ok_or_else(|| Error::Missing(format!("no registry resource `{path}`")))
        }
        _ => call.evaluate(),
    }
}

impl<'s> Invocation<'_, 's> {
    fn evaluate(&self) -> Outcome<'s> {
        match self.function {
            Function::Length => self.length(),
            Function::ToUpper => self.change_case(str::to_uppercase),
            Function::ToLower => self.change_case(str::to_lowercase),
            Function::SubString => self.sub_string(),
            Function::StartsWith => self.test(|text, part| text.starts_with(part)),
            Function::EndsWith => self.test(|text, part| text.ends_with(part)),
            Function::Contains => self.test(|text, part| text.contains(part)),
            Function::Trim => {
                let text = self.text(0)?.trim_matches(|c| c <= ' ');
                self.made(text.len(), || text.to_owned())
            }
            Function::Replace => self.replace(),
            Function::Split => self.split(),
            Function::IndexOf => self.index_of(),
            Function::CharAt => self.char_at(),
            Function::Abs => self.rounding(f64::abs, i64::checked_abs),
            Function::Ceil => self.rounding(f64::ceil, Some),
            Function::Floor => self.rounding(f64::floor, Some),
            Function::Round => self.round(),
            Function::Sqrt => Ok(Value::Double(self.number(0)?.sqrt())),
            Function::Log if self.values.len() > 1 => {
                Ok(Value::Double(self.number(0)?.ln() / self.number(1)?.ln()))
            }
            Function::Log => Ok(Value::Double(self.number(0)?.log10())),
            Function::Pow => Ok(Value::Double(self.number(0)?.powf(self.number(1)?))),
            Function::FormatDateTime => self.format_date_time(),
            Function::Base64Encode => {
                self.check_charset()?;
                let plain = self.text(0)?.as_bytes();
                let bytes = plain.len().div_ceil(3).saturating_mul(4);
                self.made(bytes, || encoding::base64_encode(plain))
            }
            Function::Base64Decode => {
                let coded = self.text(0)?;
                self.budget.charge_scanning(coded.len())?;
                let decoded = encoding::base64_decode(coded).ok_or_else(|| self.wrong("base64"))?;
                self.made(decoded.len(), || String::from_utf8_lossy(&decoded).into_owned())
            }
            Function::UrlEncode => {
                self.check_charset()?;
                let plain = self.text(0)?;
                self.made(plain.len().saturating_mul(3), || {
                    let encoded = encoding::form_encode(plain.as_bytes());
                    encoded.replace('+', "%20").replace('*', "%2A")
                })
            }
            Function::UrlDecode => {
                let coded = self.text(0)?;
                self.budget.charge_scanning(coded.len())?;
                let decoded = encoding::url_decode(coded)
                    .ok_or_else(|| self.wrong("a URL-encoded string"))?;
                self.made(decoded.len(), || decoded)
            }
            Function::IsString => Ok(Value::Boolean(matches!(self.first()?, Value::Text(_)))),
            Function::IsNumber => Ok(Value::Boolean(numeric(self.first()?).is_some())),
            Function::IsArray => self.is_container(Kind::Array),
            Function::IsObject => self.is_container(Kind::Object),
            Function::String => {
                let text = self.first()?.text();
                self.made(text.len(), || text.clone().into_owned())
            }
            Function::Float => {
                let value = self.first()?;
                value.number().map(Value::Double).ok_or_else(|| self.wrong("a number"))
            }
            Function::Boolean => Ok(Value::Boolean(self.first()?.truth())),
            Function::Integer => match self.first()? {
                Value::Integer(integer) => Ok(Value::Integer(*integer)),
                value => {
                    let integer = value.text().parse().map(Value::Integer);
                    integer.map_err(|_| self.wrong("an integer"))
                }
            },
            Function::Object => self.container(Kind::Object),
            Function::Array => self.container(Kind::Array),
            Function::Not => match self.first()? {
                Value::Boolean(truth) => Ok(Value::Boolean(!truth)),
                _ => Err(self.wrong("a boolean")),
            },
            Function::Now | Function::Xpath | Function::Registry | Function::Exists => {
                Err(self.wrong("an evaluation of its own"))
            }
        }
    }

    /// A text of at most `bytes`, charged before it is made.
    fn made(&self, bytes: usize, make: impl FnOnce() -> String) -> Outcome<'s> {
        self.budget.charge_scanning(bytes)?;
        self.budget.charge_memory(bytes)?;
        Ok(Value::Text(make().into()))
    }

    fn wrong(&self, required: &str) -> Error {
        type_error(self.function.name(), required)
    }

    fn first(&self) -> Result<&Value<'s>, Error> {
        self.values.first().ok_or_else(|| self.wrong("an argument"))
    }

    fn text(&self, place: usize) -> Result<&str, Error> {
        match self.values.get(place) {
            Some(Value::Text(text)) => Ok(text),
            Some(_) | None => Err(self.wrong("a string")),
        }
    }

    fn number(&self, place: usize) -> Result<f64, Error> {
        self.values.get(place).and_then(numeric).ok_or_else(|| self.wrong("a number"))
    }

    fn offset(&self, place: usize) -> Result<usize, Error> {
        match self.values.get(place) {
            Some(Value::Integer(integer)) => {
                usize::try_from(*integer).map_err(|_| self.wrong("a non-negative integer"))
            }
            Some(_) | None => Err(self.wrong("an integer")),
        }
    }

    /// UTF-8 is the only character set supported as the second argument.
    fn check_charset(&self) -> Result<(), Error> {
        if self.values.len() < 2 || self.text(1)?.eq_ignore_ascii_case("utf-8") {
            return Ok(());
        }
        Err(self.wrong("`UTF-8`, the only supported character set"))
    }

    /// Strings, and scalars of the message; not numbers and booleans of the expression itself.
    fn change_case(&self, change: fn(&str) -> String) -> Outcome<'s> {
        let value = self.first()?;
        let is_scalar =
            value.json().is_some_and(|json| !matches!(json.kind(), Kind::Array | Kind::Object));
        if !is_scalar && !matches!(value, Value::Text(_)) {
            return Err(self.wrong("a string"));
        }
        let text = value.text();
        self.made(crate::value::case_bytes_max(&text), || change(&text))
    }

    fn test(&self, holds: impl Fn(&str, &str) -> bool) -> Outcome<'s> {
        let (text, part) = (self.text(0)?, self.text(1)?);
        self.budget.charge_reading(text.len())?;
        Ok(Value::Boolean(holds(text, part)))
    }

    fn length(&self) -> Outcome<'s> {
        let size = match self.first()? {
            Value::Text(text) => {
                self.budget.charge_scanning(text.len())?;
                text.encode_utf16().count()
            }
            value => match value.json().filter(|json| json.kind() == Kind::Array) {
                Some(array) => array.len(),
                None => return Err(self.wrong("a string or an array")),
            },
        };
        Ok(Value::Integer(i64::try_from(size).unwrap_or(i64::MAX)))
    }

    fn sub_string(&self) -> Outcome<'s> {
        let text = self.text(0)?;
        self.budget.charge_scanning(text.len())?;
        self.budget.charge_memory(text.len() * size_of::<u16>())?;
        let units: Vec<u16> = text.encode_utf16().collect();
        let from = self.offset(1)?;
        let to = if self.values.len() > 2 { self.offset(2)? } else { units.len() };
        let part = units.get(from..to).ok_or_else(|| self.wrong("positions inside the string"))?;
        self.made(part.len(), || String::from_utf16_lossy(part))
    }

    fn char_at(&self) -> Outcome<'s> {
        let (text, place) = (self.text(0)?, self.offset(1)?);
        self.budget.charge_scanning(text.len().min(place))?;
        let unit = text.encode_utf16().nth(place);
        let unit = unit.ok_or_else(|| self.wrong("a position inside the string"))?;
        self.made(1, || String::from_utf16_lossy(&[unit]))
    }

    fn index_of(&self) -> Outcome<'s> {
        let (text, part) = (self.text(0)?, self.text(1)?);
        let from = if self.values.len() > 2 { self.offset(2)? } else { 0 };
        self.budget.charge_scanning(text.len())?;
        let start = utf16_offset(text, from);
        let found = text.get(start..).and_then(|rest| rest.find(part)).map(|at| start + at);
        Ok(Value::Integer(found.map_or(-1, |at| {
            let before = text.get(..at).unwrap_or_default();
            i64::try_from(before.encode_utf16().count()).unwrap_or(-1)
        })))
    }

    fn replace(&self) -> Outcome<'s> {
        let (text, old, new) = (self.text(0)?, self.text(1)?, self.text(2)?);
        self.budget.charge_reading(text.len())?;
        let added = text.matches(old).count().saturating_mul(new.len());
        self.made(text.len().saturating_add(added), || text.replace(old, new))
    }

    /// By a pattern, as Java's `String.split`; empty parts at the end are dropped.
    fn split(&self) -> Outcome<'s> {
        let (text, by) = (self.text(0)?, self.text(1)?);
        self.budget.charge_scanning(text.len())?;
        let is_plain = !by.is_empty() && !by.contains(|c| r"\.[]{}()*+?^$|".contains(c));
        let mut parts: Vec<&str> = if is_plain {
            self.parts(text.split(by).map(Ok))?
        } else {
            let pattern = Regex::compile_within(
                by,
                "",
                crate::limits::COMPUTED_PATTERN_BYTES_MAX,
                self.budget,
            )?
            .map_err(Error::Type)?;
            let mut parts = self.parts(pattern.split(text, self.budget))?;
            if by.is_empty() && parts.len() > 1 {
                parts.remove(0);
            }
            parts
        };
        while parts.len() > 1 && parts.last().is_some_and(|last| last.is_empty()) {
            parts.pop();
        }
        let mut builder = Builder::new();
        builder.begin_array();
        for part in parts {
            self.budget.charge_memory(json::quoted_len(part) + 1 + NODE_BYTES)?;
            builder.string(part);
        }
        Ok(Value::Made(Box::new(builder.finish())))
    }

    fn parts<'t>(
        &self,
        parts: impl Iterator<Item = Result<&'t str, BudgetExceeded>>,
    ) -> Result<Vec<&'t str>, Error> {
        let mut collected = Vec::new();
        for part in parts {
            self.budget.charge_steps(1)?;
            self.budget.charge_memory(size_of::<&str>())?;
            collected.push(part?);
        }
        Ok(collected)
    }

    /// Decimals stay decimals: `floor(-5.4)` is `-6.0`.
    fn rounding(&self, double: fn(f64) -> f64, integer: fn(i64) -> Option<i64>) -> Outcome<'s> {
        match self.first()? {
            Value::Integer(number) => Ok(integer(*number).map_or(Value::Null, Value::Integer)),
            Value::Double(number) => Ok(Value::Double(double(*number))),
            _ => Err(self.wrong("a number")),
        }
    }

    fn round(&self) -> Outcome<'s> {
        let number = match self.first()? {
            Value::Integer(integer) => return Ok(Value::Integer(*integer)),
            Value::Double(number) => *number,
            _ => return Err(self.wrong("a number")),
        };
        if self.values.len() == 1 {
            return Ok(integral((number + 0.5).floor()));
        }
        match self.offset(1)? {
            0 => Err(self.wrong("at least one decimal place")),
            places => Ok(Value::Double(rounded(number, places))),
        }
    }

    /// The array or object in the first argument, or in its text.
    fn parsed(&self, kind: Kind) -> Result<Option<Value<'s>>, Error> {
        let value = self.first()?;
        if let Value::Text(text) = value {
            self.budget.charge_scanning(text.len())?;
            self.budget.charge_memory(text.len().saturating_mul(2))?;
            let limits = Limits::default();
            let document = match Document::parse_charged(text.as_bytes(), &limits, self.budget) {
                Err(error @ Error::Budget(_)) => return Err(error),
                read => read.ok(),
            };
            let document = document.filter(|document| document.root().kind() == kind);
            return Ok(document.map(|document| Value::Made(Box::new(document.into_owned()))));
        }
        Ok(value.json().is_some_and(|json| json.kind() == kind).then(|| value.clone()))
    }

    fn is_container(&self, kind: Kind) -> Outcome<'s> {
        Ok(Value::Boolean(self.parsed(kind)?.is_some()))
    }

    fn container(&self, kind: Kind) -> Outcome<'s> {
        let required = if kind == Kind::Object { "a JSON object" } else { "a JSON array" };
        self.parsed(kind)?.ok_or_else(|| self.wrong(required))
    }

    /// `formatDateTime(milliseconds, pattern)` or `formatDateTime(text, pattern, new pattern)`.
    fn format_date_time(&self) -> Outcome<'s> {
        let (unix_ms, pattern) = match (self.first()?, self.values.len()) {
            (Value::Integer(ms), 2) => (*ms, self.text(1)?),
            // A number out of range saturates, and is then rejected.
            #[expect(clippy::cast_possible_truncation, reason = "drops the fraction")]
            (Value::Double(ms), 2) => (*ms as i64, self.text(1)?),
            (Value::Text(text), 3) => {
                let (old, new) = (self.text(1)?, self.text(2)?);
                if !supplies(old, new) {
                    return Err(self.wrong("an old pattern with all fields of the new one"));
                }
                (dates::parse(text, old, self.budget).map_err(crate::xpath_bridge::error)?, new)
            }
            (_, _) => {
                return Err(self.wrong("milliseconds and a pattern, or a string and two patterns"));
            }
        };
        let formatted = dates::format(unix_ms, pattern, Dialect::DateTimeFormatter, self.budget);
        Ok(Value::Text(formatted.map_err(crate::xpath_bridge::error)?.into()))
    }
}

/// Whether the fields of the pattern `old` are a date, a time of day, or both, and all that the pattern `new` needs.
fn supplies(old: &str, new: &str) -> bool {
    const DATE: &str = "GyuYMLdDEecwWFQq";
    const TIME: &str = "HhkKmsSnNAaB";
    let has = |pattern: &str, letters: &str| {
        pattern.split('\'').step_by(2).any(|part| part.contains(|letter| letters.contains(letter)))
    };
    let date = has(old, "yu") && has(old, "ML") && has(old, "d");
    let time = has(old, "Hk") || has(old, "hK") && has(old, "a");
    (date || time && !has(new, DATE)) && (time || !has(new, TIME))
}

/// The byte offset of the `units`-th UTF-16 unit; the text's length if it has fewer.
fn utf16_offset(text: &str, units: usize) -> usize {
    let mut seen = 0;
    for (at, character) in text.char_indices() {
        if seen >= units {
            return at;
        }
        seen += character.len_utf16();
    }
    text.len()
}

/// An integral number, as an integer if it fits.
fn integral<'v>(number: f64) -> Value<'v> {
    if number.abs() < 9e15 {
        crate::value::number(&format!("{number:.0}"))
    } else {
        Value::Double(number)
    }
}
