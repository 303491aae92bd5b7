//! The functions, with the argument types that Micro Integrator's accept. Lengths and places count UTF-16 units,
//! as Java's do.

use super::evaluate::{Answer, node, numeric, rounded, wrong};
use super::{Node, dates};
use crate::budget::{Budget, fits};
use crate::json::{Builder, Document, Kind};
use crate::scope::{BodyUse, Scope};
use crate::{EvalError, Value, encode};

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
    Secret,
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
    ("log",             Function::Log,            1, 1),
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
    ("xpath",           Function::Xpath,          1, 1),
    ("not",             Function::Not,            1, 1),
    ("registry",        Function::Registry,       1, 2),
    ("wso2-vault",      Function::Secret,         1, 1),
    ("hashicorp-vault", Function::Secret,         1, 2),
];

impl Function {
    pub(super) fn find(name: &str) -> Option<Self> {
        TABLE.iter().find(|row| row.0 == name).map(|row| row.1)
    }

    pub(super) fn takes(self, count: usize) -> bool {
        TABLE.iter().any(|row| row.1 == self && (row.2..=row.3).contains(&count))
    }

    pub(super) fn body_use(self) -> BodyUse {
        if self == Self::Xpath { BodyUse::Read } else { BodyUse::Untouched }
    }

    fn name(self) -> &'static str {
        TABLE.iter().find(|row| row.1 == self).map_or("function", |row| row.0)
    }
}

/// Arguments, evaluated; none of them `null`.
struct Given<'b, 's> {
    function: Function,
    values: Vec<Value<'s>>,
    budget: &'b Budget,
}

pub(super) fn call<'s>(
    function: Function,
    arguments: &'s [Node],
    scope: &'s dyn Scope,
    budget: &Budget,
) -> Answer<'s> {
    let mut values = Vec::with_capacity(arguments.len());
    for argument in arguments {
        let value = node(argument, scope, budget);
        // A number of a document keeps its spelling.
        let value = if function == Function::String { value } else { value.map(Value::plain) };
        if function == Function::Exists {
            return match value {
                Err(EvalError::Limit(what)) => Err(EvalError::Limit(what)),
                value => Ok(Value::Boolean(value.is_ok_and(|value| !value.is_null()))),
            };
        }
        let value = value?;
        if value.is_null() {
            return Err(wrong(function.name(), "a value; it was given null"));
        }
        values.push(value);
    }
    let given = Given { function, values, budget };
    match function {
        Function::Now => Ok(Value::Integer(scope.unix_ms())),
        Function::Xpath => {
            let compiled = crate::xpath_on::compile(given.text(0)?, &[]);
            let compiled = compiled.map_err(|error| EvalError::Type(error.to_string()))?;
            crate::xpath_on::value(crate::xpath_on::evaluate(&compiled, scope)?, budget)
        }
        Function::Registry => {
            let (path, property) = (given.text(0)?, given.values.get(1).map(Value::text));
            let found = scope.registry(path, property.as_deref());
            found
                .map(Value::Text)
                .ok_or_else(|| EvalError::Missing(format!("no registry resource `{path}`")))
        }
        Function::Secret => {
            let alias = given.text(0)?;
            let found = scope.secret(alias);
            found.map(Value::Text).ok_or_else(|| EvalError::Missing(format!("no secret `{alias}`")))
        }
        _ => given.call(),
    }
}

impl<'s> Given<'_, 's> {
    /// The character set that may follow the text: UTF-8, the only one that is spoken.
    fn charset(&self) -> Result<(), EvalError> {
        if self.values.len() < 2 || self.text(1)?.eq_ignore_ascii_case("utf-8") {
            return Ok(());
        }
        Err(self.wrong("`UTF-8`, the only character set here"))
    }

    fn call(&self) -> Answer<'s> {
        match self.function {
            Function::Length => self.length(),
            Function::ToUpper => self.made(self.first()?.text().to_uppercase()),
            Function::ToLower => self.made(self.first()?.text().to_lowercase()),
            Function::SubString => self.sub_string(),
            Function::StartsWith => Ok(Value::Boolean(self.text(0)?.starts_with(self.text(1)?))),
            Function::EndsWith => Ok(Value::Boolean(self.text(0)?.ends_with(self.text(1)?))),
            Function::Contains => Ok(Value::Boolean(self.text(0)?.contains(self.text(1)?))),
            Function::Trim => self.made(self.text(0)?.trim_matches(|c| c <= ' ').to_owned()),
            Function::Replace => self.replace(),
            Function::Split => self.split(),
            Function::IndexOf => self.index_of(),
            Function::CharAt => self.char_at(),
            Function::Abs => self.rounding(f64::abs, i64::checked_abs),
            Function::Ceil => self.rounding(f64::ceil, Some),
            Function::Floor => self.rounding(f64::floor, Some),
            Function::Round => self.round(),
            Function::Sqrt => Ok(Value::Double(self.number(0)?.sqrt())),
            Function::Log => Ok(Value::Double(self.number(0)?.ln())),
            Function::Pow => Ok(Value::Double(self.number(0)?.powf(self.number(1)?))),
            Function::FormatDateTime => self.format_date_time(),
            Function::Base64Encode => {
                self.charset()?;
                self.made(encode::base64(self.text(0)?.as_bytes()))
            }
            Function::Base64Decode => {
                let decoded =
                    encode::base64_decode(self.text(0)?).ok_or_else(|| self.wrong("base64"))?;
                self.made(String::from_utf8_lossy(&decoded).into_owned())
            }
            Function::UrlEncode => {
                self.charset()?;
                self.made(encode::url(self.text(0)?))
            }
            Function::UrlDecode => self.made(
                encode::url_decode(self.text(0)?)
                    .ok_or_else(|| self.wrong("a URL-encoded text"))?,
            ),
            Function::IsString => Ok(Value::Boolean(matches!(self.first()?, Value::Text(_)))),
            Function::IsNumber => Ok(Value::Boolean(numeric(self.first()?).is_some())),
            Function::IsArray => Ok(Value::Boolean(self.kind() == Some(Kind::Array))),
            Function::IsObject => Ok(Value::Boolean(self.kind() == Some(Kind::Object))),
            Function::String => self.made(self.first()?.text().into_owned()),
            Function::Float => {
                let value = self.first()?;
                value.number().map(Value::Double).ok_or_else(|| self.wrong("a number"))
            }
            Function::Boolean => Ok(Value::Boolean(self.first()?.truth())),
            Function::Integer => match self.first()? {
                Value::Integer(whole) => Ok(Value::Integer(*whole)),
                value => {
                    let read = value.text().parse().map(Value::Integer);
                    read.map_err(|_| self.wrong("a whole number"))
                }
            },
            Function::Object => self.container(Kind::Object),
            Function::Array => self.container(Kind::Array),
            Function::Not => Ok(Value::Boolean(!self.first()?.truth())),
            Function::Now
            | Function::Xpath
            | Function::Registry
            | Function::Secret
            | Function::Exists => Err(self.wrong("its own handling")),
        }
    }

    /// A text that was made: no longer than its arguments allow, and counted.
    fn made(&self, text: String) -> Answer<'s> {
        self.budget.make(text.len())?;
        Ok(Value::Text(text.into()))
    }

    fn wrong(&self, wants: &str) -> EvalError {
        wrong(self.function.name(), wants)
    }

    fn first(&self) -> Result<&Value<'s>, EvalError> {
        self.values.first().ok_or_else(|| self.wrong("an argument"))
    }

    fn text(&self, place: usize) -> Result<&str, EvalError> {
        match self.values.get(place) {
            Some(Value::Text(text)) => Ok(text),
            Some(_) | None => Err(self.wrong("a text")),
        }
    }

    fn number(&self, place: usize) -> Result<f64, EvalError> {
        self.values.get(place).and_then(numeric).ok_or_else(|| self.wrong("a number"))
    }

    fn whole(&self, place: usize) -> Result<usize, EvalError> {
        match self.values.get(place) {
            Some(Value::Integer(whole)) => {
                usize::try_from(*whole).map_err(|_| self.wrong("no negative number"))
            }
            Some(_) | None => Err(self.wrong("a whole number")),
        }
    }

    fn kind(&self) -> Option<Kind> {
        self.values.first().and_then(|value| value.json().map(|json| json.kind()))
    }

    fn length(&self) -> Answer<'s> {
        let size = match self.first()? {
            Value::Text(text) => text.encode_utf16().count(),
            value => match value.json().filter(|json| json.kind() == Kind::Array) {
                Some(array) => array.len(),
                None => return Err(self.wrong("a text or an array")),
            },
        };
        Ok(Value::Integer(i64::try_from(size).unwrap_or(i64::MAX)))
    }

    fn sub_string(&self) -> Answer<'s> {
        let units: Vec<u16> = self.text(0)?.encode_utf16().collect();
        let from = self.whole(1)?;
        let to = if self.values.len() > 2 { self.whole(2)? } else { units.len() };
        let part = units.get(from..to).ok_or_else(|| self.wrong("places inside the text"))?;
        self.made(String::from_utf16_lossy(part))
    }

    fn char_at(&self) -> Answer<'s> {
        let unit = self.text(0)?.encode_utf16().nth(self.whole(1)?);
        self.made(String::from_utf16_lossy(&[
            unit.ok_or_else(|| self.wrong("a place inside the text"))?
        ]))
    }

    fn index_of(&self) -> Answer<'s> {
        let (whole, part) = (self.text(0)?, self.text(1)?);
        let from = if self.values.len() > 2 { self.whole(2)? } else { 0 };
        let start = encode::utf16_offset(whole, from);
        let found = whole.get(start..).and_then(|rest| rest.find(part)).map(|at| start + at);
        Ok(Value::Integer(found.map_or(-1, |at| {
            let before = whole.get(..at).unwrap_or_default();
            i64::try_from(before.encode_utf16().count()).unwrap_or(-1)
        })))
    }

    fn replace(&self) -> Answer<'s> {
        let (whole, old, new) = (self.text(0)?, self.text(1)?, self.text(2)?);
        let grown = whole.matches(old).count().saturating_mul(new.len());
        fits(0, grown)?;
        self.made(whole.replace(old, new))
    }

    /// By a pattern, as Java's `split`; empty parts at the end go.
    fn split(&self) -> Answer<'s> {
        let (whole, by) = (self.text(0)?, self.text(1)?);
        let mut parts: Vec<&str> =
            if by.chars().all(|c| !r"\.[]{}()*+?^$|".contains(c)) && !by.is_empty() {
                self.collected(whole.split(by))?
            } else {
                let pattern = crate::pattern::compile(by, "").map_err(EvalError::Type)?;
                let mut parts = self.collected(pattern.split(whole))?;
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
            self.budget.make(crate::json::quoted_len(part) + 1)?;
            builder.string(part);
        }
        Ok(Value::Made(Box::new(builder.finish())))
    }

    fn collected<'t>(
        &self,
        parts: impl Iterator<Item = &'t str>,
    ) -> Result<Vec<&'t str>, EvalError> {
        parts.map(|part| self.budget.visit(1).map(|()| part)).collect()
    }

    fn rounding(&self, double: fn(f64) -> f64, whole: fn(i64) -> Option<i64>) -> Answer<'s> {
        match self.first()? {
            Value::Integer(number) => Ok(whole(*number).map_or(Value::Null, Value::Integer)),
            Value::Double(number) => Ok(match self.function {
                Function::Abs => Value::Double(double(*number)),
                _ => integral(double(*number)),
            }),
            _ => Err(self.wrong("a number")),
        }
    }

    fn round(&self) -> Answer<'s> {
        let number = match self.first()? {
            Value::Integer(whole) => return Ok(Value::Integer(*whole)),
            Value::Double(number) => *number,
            _ => return Err(self.wrong("a number")),
        };
        if self.values.len() > 1 {
            return Ok(Value::Double(rounded(number, self.whole(1)?)));
        }
        Ok(integral((number + 0.5).floor()))
    }

    fn container(&self, kind: Kind) -> Answer<'s> {
        let value = self.first()?;
        if self.kind() == Some(kind) {
            return Ok(value.clone());
        }
        if let Value::Text(text) = value
            && let Ok(document) = Document::parse(text.as_bytes())
            && document.root().kind() == kind
        {
            return Ok(Value::Made(Box::new(document.into_owned())));
        }
        Err(self.wrong(if kind == Kind::Object { "a JSON object" } else { "a JSON array" }))
    }

    fn format_date_time(&self) -> Answer<'s> {
        if self.values.len() == 3 {
            let (source, old, new) = (self.text(0)?, self.text(1)?, self.text(2)?);
            let when = dates::parse(source, old).map_err(EvalError::Type)?;
            return self.made(dates::format(when, new).map_err(EvalError::Type)?);
        }
        let Some(Value::Integer(ms)) = self.values.first() else {
            return Err(self.wrong("milliseconds and a pattern, or a text and two patterns"));
        };
        self.made(
            dates::format(dates::Moment::from_unix_ms(*ms), self.text(1)?)
                .map_err(EvalError::Type)?,
        )
    }
}

/// A number without fraction, as a whole one where it fits.
fn integral<'v>(number: f64) -> Value<'v> {
    if number.abs() < 9e15 {
        crate::value::number(&format!("{number:.0}"))
    } else {
        Value::Double(number)
    }
}
