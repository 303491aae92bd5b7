//! `value?built_in(arguments)`.

mod nodes;
mod texts;
mod values;

pub(super) use nodes::{of_nodes, read_nodes};
use texts::{first_letter, index};
pub(super) use values::{KEY_BYTES, Key};
use xpath::Budget;

use std::ops::RangeInclusive;

use super::evaluate::{Step, fail, is_number, printed};
use crate::error::Error;
use crate::json::{self, Document, Kind, Limits, NODE_BYTES, Ref};
use crate::pattern::Computed;
use crate::value::{Value, case_bytes_max};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Characters that `?url` does not encode, besides letters and digits.
#[rustfmt::skip]
const URL_ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-').remove(b'_').remove(b'.').remove(b'!').remove(b'~').remove(b'\'').remove(b'(').remove(b')').remove(b'*');

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BuiltIn {
    UpperCase,
    LowerCase,
    CapFirst,
    UncapFirst,
    Capitalize,
    Trim,
    Length,
    Size,
    HasContent,
    Default,
    C,
    String,
    Number,
    Join,
    Split,
    Replace,
    Matches,
    Substring,
    IndexOf,
    LastIndexOf,
    Contains,
    StartsWith,
    EndsWith,
    Html,
    Xml,
    JsonString,
    Url,
    First,
    Last,
    Keys,
    Values,
    Reverse,
    Sort,
    SortBy,
    SeqContains,
    Int,
    Round,
    Floor,
    Ceiling,
    Abs,
    Boolean,
    EvalJson,
    IsString,
    IsNumber,
    IsBoolean,
    IsSequence,
    IsHash,
    NodeName,
    Then,
}

/// Name, built-in, fewest and most arguments.
#[rustfmt::skip]
const TABLE: &[(&str, BuiltIn, usize, usize)] = &[
    ("upper_case",    BuiltIn::UpperCase,   0, 0),
    ("lower_case",    BuiltIn::LowerCase,   0, 0),
    ("cap_first",     BuiltIn::CapFirst,    0, 0),
    ("uncap_first",   BuiltIn::UncapFirst,  0, 0),
    ("capitalize",    BuiltIn::Capitalize,  0, 0),
    ("trim",          BuiltIn::Trim,        0, 0),
    ("length",        BuiltIn::Length,      0, 0),
    ("size",          BuiltIn::Size,        0, 0),
    ("has_content",   BuiltIn::HasContent,  0, 0),
    ("default",       BuiltIn::Default,     1, 1),
    ("c",             BuiltIn::C,           0, 0),
    ("string",        BuiltIn::String,      0, 2),
    ("number",        BuiltIn::Number,      0, 0),
    ("join",          BuiltIn::Join,        1, 3),
    ("split",         BuiltIn::Split,       1, 2),
    ("replace",       BuiltIn::Replace,     2, 3),
    ("matches",       BuiltIn::Matches,     1, 2),
    ("substring",     BuiltIn::Substring,   1, 2),
    ("index_of",      BuiltIn::IndexOf,     1, 2),
    ("last_index_of", BuiltIn::LastIndexOf, 1, 1),
    ("contains",      BuiltIn::Contains,    1, 1),
    ("starts_with",   BuiltIn::StartsWith,  1, 1),
    ("ends_with",     BuiltIn::EndsWith,    1, 1),
    ("html",          BuiltIn::Html,        0, 0),
    ("xml",           BuiltIn::Xml,         0, 0),
    ("json_string",   BuiltIn::JsonString,  0, 0),
    ("js_string",     BuiltIn::JsonString,  0, 0),
    ("url",           BuiltIn::Url,         0, 1),
    ("first",         BuiltIn::First,       0, 0),
    ("last",          BuiltIn::Last,        0, 0),
    ("keys",          BuiltIn::Keys,        0, 0),
    ("values",        BuiltIn::Values,      0, 0),
    ("reverse",       BuiltIn::Reverse,     0, 0),
    ("sort",          BuiltIn::Sort,        0, 0),
    ("sort_by",       BuiltIn::SortBy,      1, 1),
    ("seq_contains",  BuiltIn::SeqContains, 1, 1),
    ("int",           BuiltIn::Int,         0, 0),
    ("round",         BuiltIn::Round,       0, 0),
    ("floor",         BuiltIn::Floor,       0, 0),
    ("ceiling",       BuiltIn::Ceiling,     0, 0),
    ("abs",           BuiltIn::Abs,         0, 0),
    ("boolean",       BuiltIn::Boolean,     0, 0),
    ("eval_json",     BuiltIn::EvalJson,    0, 0),
    ("is_string",     BuiltIn::IsString,    0, 0),
    ("is_number",     BuiltIn::IsNumber,    0, 0),
    ("is_boolean",    BuiltIn::IsBoolean,   0, 0),
    ("is_sequence",   BuiltIn::IsSequence,  0, 0),
    ("is_enumerable", BuiltIn::IsSequence,  0, 0),
    ("is_hash",       BuiltIn::IsHash,      0, 0),
    ("is_hash_ex",    BuiltIn::IsHash,      0, 0),
    ("node_name",     BuiltIn::NodeName,    0, 0),
    ("then",          BuiltIn::Then,        2, 2),
];

impl BuiltIn {
    pub(super) fn find(name: &str) -> Option<Self> {
        TABLE.iter().find(|row| row.0 == name).map(|row| row.1)
    }

    /// How many arguments it takes.
    pub(super) fn arguments(self) -> RangeInclusive<usize> {
        TABLE.iter().find(|row| row.1 == self).map_or(0..=0, |row| row.2..=row.3)
    }

    /// Whether it can be applied to a missing value.
    pub(super) fn accepts_missing(self) -> bool {
        matches!(self, Self::HasContent | Self::Default)
    }

    /// Whether the work depends on the size of the value.
    fn reads_all(self) -> bool {
        !matches!(
            self,
            Self::Size
                | Self::HasContent
                | Self::Default
                | Self::First
                | Self::Last
                | Self::IsString
                | Self::IsNumber
                | Self::IsBoolean
                | Self::IsSequence
                | Self::IsHash
                | Self::Then
        )
    }

    /// All names, for an error.
    pub(super) fn names() -> String {
        let names: Vec<_> = TABLE.iter().map(|row| row.0).collect();
        names.join(", ")
    }

    fn name(self) -> &'static str {
        TABLE.iter().find(|row| row.1 == self).map_or("built-in", |row| row.0)
    }
}

/// Bytes of the value's text.
pub(super) fn text_len(value: &Value<'_>) -> usize {
    match value {
        Value::Json(json) => json.raw().len(),
        Value::Made(document) => document.text().len(),
        Value::Text(text) => text.len(),
        Value::Integer(_) | Value::Double(_) | Value::Boolean(_) | Value::Null => 0,
    }
}

/// Charges a copy of the value.
pub(super) fn charge_copy(value: &Value<'_>, budget: &Budget) -> Step<()> {
    match value.charge_copy(budget) {
        Ok(()) => Ok(()),
        Err(Error::Budget(exceeded)) => Err(exceeded.into()),
        Err(error) => fail(0, error.to_string()),
    }
}

/// One application of a built-in.
struct Application<'a, 's> {
    built_in: BuiltIn,
    value: Value<'s>,
    given: &'a [Value<'s>],
    at: usize,
    budget: &'a Budget,
    patterns: &'a Computed,
}

/// Applies a built-in. Reading or copying the whole value is charged here; built-ins whose result can be larger charge
/// the rest themselves.
pub(super) fn apply<'s>(
    built_in: BuiltIn,
    value: Value<'s>,
    given: &[Value<'s>],
    at: usize,
    budget: &Budget,
    patterns: &Computed,
) -> Step<Value<'s>> {
    if built_in.reads_all() {
        charge_copy(&value, budget)?;
        budget.charge_scanning(text_len(&value))?;
    }
    Application { built_in, value: value.plain_within(budget)?, given, at, budget, patterns }
        .apply()
}

fn text<'s>(made: impl Into<String>) -> Step<Value<'s>> {
    Ok(Value::Text(made.into().into()))
}

fn whole<'s>(of: usize) -> Value<'s> {
    Value::Integer(i64::try_from(of).unwrap_or(i64::MAX))
}

impl<'s> Application<'_, 's> {
    fn apply(self) -> Step<Value<'s>> {
        if let (BuiltIn::UpperCase | BuiltIn::LowerCase | BuiltIn::Capitalize, Value::Text(text)) =
            (self.built_in, &self.value)
        {
            self.budget.charge_memory(case_bytes_max(text).saturating_sub(text.len()))?;
        }
        match self.built_in {
            BuiltIn::UpperCase => text(self.text()?.to_uppercase()),
            BuiltIn::LowerCase => text(self.text()?.to_lowercase()),
            BuiltIn::CapFirst => {
                text(first_letter(self.text()?, |first| first.to_uppercase().collect()))
            }
            BuiltIn::UncapFirst => {
                text(first_letter(self.text()?, |first| first.to_lowercase().collect()))
            }
            BuiltIn::Capitalize => {
                let words = self.text()?.split_inclusive(' ');
                text(
                    words
                        .map(|word| {
                            first_letter(&word.to_lowercase(), |first| {
                                first.to_uppercase().collect()
                            })
                        })
                        .collect::<String>(),
                )
            }
            BuiltIn::Trim => text(self.text()?.trim()),
            BuiltIn::Length => Ok(whole(self.text()?.chars().count())),
            BuiltIn::Size => match self.value.json() {
                Some(json) => Ok(whole(json.len())),
                None => self.wrong_kind("a sequence or a hash"),
            },
            BuiltIn::HasContent => Ok(Value::Boolean(match &self.value {
                Value::Null => false,
                Value::Text(text) => !text.is_empty(),
                Value::Json(_) | Value::Made(_) => {
                    self.value.json().is_some_and(|json| !json.is_empty())
                }
                Value::Integer(_) | Value::Double(_) | Value::Boolean(_) => true,
            })),
            BuiltIn::Default if self.value.is_null() => self.argument(0).cloned(),
            BuiltIn::Default => Ok(self.value),
            BuiltIn::C | BuiltIn::String => self.string(),
            BuiltIn::Number => self.number(),
            BuiltIn::Join => self.join(),
            BuiltIn::Split => self.split(),
            BuiltIn::Replace => self.replace(),
            BuiltIn::Matches => self.matches(),
            BuiltIn::Substring => self.substring(),
            BuiltIn::IndexOf => {
                let subject = self.text()?;
                let from = if self.given.len() > 1 { self.place(1)? } else { 0 };
                let start = subject.char_indices().nth(from).map_or(subject.len(), |(at, _)| at);
                let rest = subject.get(start..).unwrap_or_default();
                let found = rest.find(self.text_argument(0)?).map(|found| start + found);
                Ok(index(subject, found))
            }
            BuiltIn::LastIndexOf => {
                Ok(index(self.text()?, self.text()?.rfind(self.text_argument(0)?)))
            }
            BuiltIn::Contains => Ok(Value::Boolean(self.text()?.contains(self.text_argument(0)?))),
            BuiltIn::StartsWith => {
                Ok(Value::Boolean(self.text()?.starts_with(self.text_argument(0)?)))
            }
            BuiltIn::EndsWith => Ok(Value::Boolean(self.text()?.ends_with(self.text_argument(0)?))),
            BuiltIn::Html | BuiltIn::Xml => self.markup(),
            BuiltIn::JsonString => {
                let plain = printed(&self.value);
                self.charge_growth(&plain, |byte| byte < b' ' || byte == b'"' || byte == b'\\')?;
                let mut escaped = Vec::new();
                json::push_string_body(&mut escaped, &plain);
                text(String::from_utf8(escaped).unwrap_or_default())
            }
            BuiltIn::Url => {
                let plain = printed(&self.value);
                self.charge_growth(&plain, |byte| !byte.is_ascii_alphanumeric())?;
                text(utf8_percent_encode(&plain, URL_ENCODED).to_string())
            }
            BuiltIn::First => self.element(false),
            BuiltIn::Last => self.element(true),
            BuiltIn::Keys | BuiltIn::Values => self.names(),
            BuiltIn::Reverse => self.rebuilt(|elements| elements.reverse()),
            BuiltIn::Sort => {
                let rounds = usize::BITS - self.array()?.len().leading_zeros();
                self.budget.charge_steps(u64::from(rounds) * self.array()?.len() as u64)?;
                self.budget.charge_scanning(text_len(&self.value) * rounds as usize)?;
                let keys = self.array()?.len().saturating_mul(KEY_BYTES);
                self.budget.charge_memory(keys.saturating_add(text_len(&self.value)))?;
                let sorted = self.rebuilt(|elements| {
                    elements.sort_by_cached_key(|element| Key::of(&Value::Json(*element).plain()));
                });
                self.budget.release_memory(keys.saturating_add(text_len(&self.value)));
                sorted
            }
            BuiltIn::SeqContains => {
                let (array, wanted) = (self.array()?, self.argument(0)?);
                charge_copy(wanted, self.budget)?;
                let (number, wanted) = (is_number(wanted), printed(&wanted.clone().plain()));
                let same = |element: Ref<'_>| {
                    let element = Value::Json(element).plain();
                    is_number(&element) == number && printed(&element) == wanted
                };
                Ok(Value::Boolean(array.elements().any(same)))
            }
            BuiltIn::Int => self.rounded(f64::trunc),
            BuiltIn::Round => self.rounded(|number| (number + 0.5).floor()),
            BuiltIn::Floor => self.rounded(f64::floor),
            BuiltIn::Ceiling => self.rounded(f64::ceil),
            BuiltIn::Abs => match self.value {
                Value::Integer(number) => Ok(Value::Integer(number.saturating_abs())),
                Value::Double(number) => Ok(Value::Double(number.abs())),
                _ => self.wrong_kind("a number"),
            },
            BuiltIn::Boolean => match self.text()? {
                "true" => Ok(Value::Boolean(true)),
                "false" => Ok(Value::Boolean(false)),
                _ => fail(self.at, "`?boolean` requires `true` or `false`"),
            },
            BuiltIn::EvalJson => {
                let (text, limits) = (self.text()?.as_bytes(), Limits::default());
                match Document::parse_charged(text, &limits, self.budget) {
                    Ok(document) => Ok(Value::Made(Box::new(document.into_owned())).plain()),
                    Err(Error::Budget(exceeded)) => Err(exceeded.into()),
                    Err(error) => fail(self.at, format!("`?eval_json` requires JSON: {error}")),
                }
            }
            BuiltIn::IsString => Ok(Value::Boolean(matches!(self.value, Value::Text(_)))),
            BuiltIn::IsNumber => Ok(Value::Boolean(is_number(&self.value))),
            BuiltIn::IsBoolean => Ok(Value::Boolean(matches!(self.value, Value::Boolean(_)))),
            BuiltIn::IsSequence => Ok(Value::Boolean(self.kind() == Some(Kind::Array))),
            BuiltIn::IsHash => Ok(Value::Boolean(self.kind() == Some(Kind::Object))),
            BuiltIn::NodeName => self.wrong_kind("a node of an XML payload"),
            // The machine sorts, since a key may be a node.
            BuiltIn::SortBy => self.wrong_kind("a sequence"),
            BuiltIn::Then => match self.value {
                Value::Boolean(truth) => self.argument(usize::from(!truth)).cloned(),
                _ => self.wrong_kind("a boolean"),
            },
        }
    }

    fn wrong<T>(&self, required: &str) -> Step<T> {
        fail(self.at, format!("`?{}` requires {required}", self.built_in.name()))
    }

    /// The value is of another kind.
    fn wrong_kind<T>(&self, required: &str) -> Step<T> {
        let found = match &self.value {
            Value::Null => "missing; give a default with `!`",
            Value::Text(_) => "a string; use `?number`, `?boolean`, `?split` or `?eval_json`",
            Value::Integer(_) | Value::Double(_) => "a number; convert with `?string`",
            Value::Boolean(_) => "a boolean; convert with `?string`",
            Value::Json(_) | Value::Made(_) if self.kind() == Some(Kind::Object) => {
                "a hash; name a member of it, or use `?keys` or `?values`"
            }
            Value::Json(_) | Value::Made(_) => "a sequence; use `<#list>`, `?join` or `[0]`",
        };
        self.wrong(&format!("{required}, but the value is {found}"))
    }

    /// Charges six bytes for each byte of `text` that `escaped` selects.
    fn charge_growth(&self, text: &str, escaped: impl Fn(u8) -> bool) -> Step<()> {
        let count = text.bytes().filter(|byte| escaped(*byte)).count();
        Ok(self.budget.charge_memory(count.saturating_mul(6))?)
    }

    fn text(&self) -> Step<&str> {
        match &self.value {
            Value::Text(text) => Ok(text),
            _ => self.wrong_kind("a string"),
        }
    }

    fn argument(&self, place: usize) -> Step<&Value<'s>> {
        match self.given.get(place) {
            Some(value) => Ok(value),
            None => self.wrong("another argument"),
        }
    }

    fn text_argument(&self, place: usize) -> Step<&str> {
        match self.argument(place)? {
            Value::Text(text) => Ok(text),
            _ => self.wrong("a string as argument"),
        }
    }

    fn place(&self, place: usize) -> Step<usize> {
        match self.argument(place)? {
            Value::Integer(whole) => Ok(usize::try_from(*whole).unwrap_or(0)),
            _ => self.wrong("an integer as argument"),
        }
    }

    fn kind(&self) -> Option<Kind> {
        self.value.json().map(Ref::kind)
    }

    fn array(&self) -> Step<Ref<'_>> {
        match self.value.json().filter(|json| json.kind() == Kind::Array) {
            Some(array) => Ok(array),
            None => self.wrong_kind("a sequence"),
        }
    }
}
