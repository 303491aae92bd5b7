//! TOML tables with positions. Wrong types and unknown keys are reported.

use std::ops::{Range, RangeInclusive};

use base::limits;
use model::Place;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::manual::{self, Row};
use crate::report::{Report, shorten, suggest};
use crate::tree::Lines;

/// Parses the file and reports all syntax errors.
pub(super) fn parse<'t>(text: &'t str, report: &mut Report) -> Option<Spanned<DeTable<'t>>> {
    let size = u64::try_from(text.len()).unwrap_or(u64::MAX);
    if size > limits::DOCUMENT_BYTES_MAX {
        let most = limits::DOCUMENT_BYTES_MAX;
        return report.reject(
            None,
            format!("the file has {size} bytes; the limit is {most}"),
            "make it smaller",
        );
    }
    let (table, errors) = DeTable::parse_recoverable(text);
    let lines = (!errors.is_empty()).then(|| Lines::new(text));
    for error in &errors {
        let place = lines.as_ref().zip(error.span()).map(|(lines, at)| lines.place(at.start));
        let message = error.message().lines().collect::<Vec<_>>().join(", ");
        report.error(place, format!("invalid TOML: {message}"), "correct the TOML");
    }
    errors.is_empty().then_some(table)
}

/// The bytes of a file as text.
pub(super) fn text<'t>(bytes: &'t [u8], report: &mut Report) -> Option<&'t str> {
    let text = std::str::from_utf8(bytes);
    if text.is_err() {
        report.error(None, "the file is not UTF-8", "save it as UTF-8");
    }
    text.ok()
}

/// A table of the file. `name` is its name in the manual; empty for the root.
#[derive(Clone, Copy)]
pub(super) struct Table<'t> {
    /// The keys of the file.
    manual: &'static [Row],
    name: &'static str,
    lines: &'t Lines<'t>,
    table: Option<&'t DeTable<'t>>,
    pub(super) place: Option<Place>,
}

/// A value and its position.
#[derive(Clone, Copy)]
pub(super) struct Item<'t> {
    pub(super) value: &'t DeValue<'t>,
    pub(super) place: Place,
}

impl<'t> Table<'t> {
    pub(super) fn root(
        manual: &'static [Row],
        root: &'t Spanned<DeTable<'t>>,
        lines: &'t Lines<'t>,
        report: &mut Report,
    ) -> Self {
        let root = Self { manual, name: "", lines, table: Some(root.get_ref()), place: None };
        root.checked(&root.known(), report)
    }

    /// The table under `key`; an empty one if the file does not have it.
    pub(super) fn section(&self, key: &str, name: &'static str, report: &mut Report) -> Self {
        let absent = Self { name, table: None, place: None, ..*self };
        let Some(item) = self.get(key) else { return absent };
        match item.value.as_table() {
            Some(table) => {
                let found = Self { table: Some(table), place: Some(item.place), ..absent };
                found.checked(&found.known(), report)
            }
            None => {
                self.wrong_type(key, item, "a table", report);
                absent
            }
        }
    }

    /// The tables under `[[key]]`.
    pub(super) fn sections(&self, key: &str, name: &'static str, report: &mut Report) -> Vec<Self> {
        let Some(item) = self.get(key) else { return Vec::new() };
        let Some(items) = item.value.as_array() else {
            self.wrong_type(key, item, &format!("a list of tables, written as [[{name}]]"), report);
            return Vec::new();
        };
        let known = Self { name, ..*self }.known();
        let mut tables = Vec::with_capacity(items.len());
        for item in items {
            let place = self.lines.place(item.span().start);
            match item.get_ref().as_table() {
                Some(table) => {
                    let table = Self { name, table: Some(table), place: Some(place), ..*self };
                    tables.push(table.checked(&known, report));
                }
                None => {
                    self.wrong_type(key, Item { value: item.get_ref(), place }, "a table", report)
                }
            }
        }
        tables
    }

    /// The keys in the manual.
    fn known(&self) -> Vec<&'static str> {
        manual::keys_of(self.manual, self.name).collect()
    }

    /// Reports the keys that are not `known`.
    fn checked(self, known: &[&'static str], report: &mut Report) -> Self {
        for key in self.table.into_iter().flat_map(|table| table.keys()) {
            let name: &str = key.get_ref();
            if known.contains(&name) {
                continue;
            }
            let help = suggest(name, known.iter().copied(), || match known {
                [] => "remove it".to_owned(),
                known => format!("valid keys are {}", known.join(", ")),
            });
            let place = self.lines.place(key.span().start);
            let table = match self.name {
                "" => String::new(),
                _ => format!(" in {}", self.heading()),
            };
            report.error(place, format!("unknown key `{}`{table}", shorten(name)), help);
        }
        self
    }

    /// The table's name as written in the file.
    pub(super) fn heading(&self) -> String {
        manual::heading(self.name)
    }

    pub(super) fn is_present(&self) -> bool {
        self.table.is_some()
    }

    pub(super) fn get(&self, key: &str) -> Option<Item<'t>> {
        let value = self.table?.get(key)?;
        Some(self.item(value))
    }

    fn item(&self, value: &'t Spanned<DeValue<'t>>) -> Item<'t> {
        let Range { start, .. } = value.span();
        Item { value: value.get_ref(), place: self.lines.place(start) }
    }

    /// A string that is not empty.
    pub(super) fn text(&self, key: &str, report: &mut Report) -> Option<(&'t str, Place)> {
        let item = self.get(key)?;
        match item.value.as_str() {
            Some("") => report.reject(
                item.place,
                format!("`{key}` is empty"),
                "write a value, or remove the key",
            ),
            Some(text) => Some((text, item.place)),
            None => {
                self.wrong_type(key, item, "a string", report);
                None
            }
        }
    }

    pub(super) fn texts(&self, key: &str, report: &mut Report) -> Option<Vec<(&'t str, Place)>> {
        let item = self.get(key)?;
        let Some(items) = item.value.as_array() else {
            self.wrong_type(key, item, "a list of strings", report);
            return None;
        };
        let mut texts = Vec::new();
        for value in items {
            let item = self.item(value);
            match item.value.as_str() {
                Some(text) => texts.push((text, item.place)),
                None => self.wrong_type(key, item, "a string", report),
            }
        }
        Some(texts)
    }

    /// The table under `key`, whose keys can be any names, and whose values are strings.
    #[allow(clippy::type_complexity, reason = "names and values")]
    pub(super) fn named_texts(
        &self,
        key: &str,
        report: &mut Report,
    ) -> Option<(Vec<(&'t str, &'t str)>, Place)> {
        let item = self.get(key)?;
        let Some(table) = item.value.as_table() else {
            self.wrong_type(key, item, "a table of strings", report);
            return None;
        };
        let mut texts = Vec::new();
        for (name, value) in table {
            let value = self.item(value);
            match value.value.as_str() {
                Some(text) => texts.push((name.get_ref().as_ref(), text)),
                None => self.wrong_type(key, value, "a table of strings", report),
            }
        }
        Some((texts, item.place))
    }

    pub(super) fn flag(&self, key: &str, default: bool, report: &mut Report) -> bool {
        let Some(item) = self.get(key) else { return default };
        item.value.as_bool().unwrap_or_else(|| {
            self.wrong_type(key, item, "true or false", report);
            default
        })
    }

    /// An integer within `range`.
    pub(super) fn number<T>(
        &self,
        key: &str,
        range: RangeInclusive<T>,
        report: &mut Report,
    ) -> Option<T>
    where
        T: TryFrom<i64> + PartialOrd + std::fmt::Display,
    {
        let item = self.get(key)?;
        let Some(integer) = item.value.as_integer() else {
            self.wrong_type(key, item, "an integer", report);
            return None;
        };
        let number = i64::from_str_radix(integer.as_str(), integer.radix());
        let number = number.ok().and_then(|n| T::try_from(n).ok()).filter(|n| range.contains(n));
        if number.is_none() {
            let message = format!("`{key}` is out of range");
            report.error(
                item.place,
                message,
                format!("write an integer from {} to {}", range.start(), range.end()),
            );
        }
        number
    }

    /// A value among `choices`.
    pub(super) fn choice<T: Copy>(
        &self,
        key: &str,
        choices: &[(&str, T)],
        report: &mut Report,
    ) -> Option<T> {
        let (text, place) = self.text(key, report)?;
        let found = choices.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
        if found.is_none() {
            let names = || choices.iter().map(|(name, _)| *name);
            let help =
                suggest(text, names(), || format!("write {}", crate::report::one_of(names())));
            report.error(place, format!("unknown value `{}` of `{key}`", shorten(text)), help);
        }
        found
    }

    fn wrong_type(&self, key: &str, item: Item<'_>, wants: &str, report: &mut Report) {
        let message = format!("`{key}` must be {wants}, not {}", kind(item.value));
        let of_keys = || {
            let name =
                if self.name.is_empty() { key.to_owned() } else { format!("{}.{key}", self.name) };
            format!(
                "valid keys are {}",
                manual::keys_of(self.manual, &name).collect::<Vec<_>>().join(", ")
            )
        };
        let row = manual::row(self.manual, self.name, key);
        let help = row.map_or_else(of_keys, |(name, kind, _)| format!("{name}: {kind}"));
        report.error(item.place, message, help);
    }
}

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a float",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
