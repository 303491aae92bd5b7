//! Built-ins of sequences, hashes and numbers.

use super::super::evaluate::{Step, is_number, printed};
use super::{Application, BuiltIn, text};
use crate::json::{Builder, Kind, Ref};
use crate::value::Value;

impl<'s> Application<'_, 's> {
    /// `?c` and `?string`; of a boolean, `?string("yes", "no")`.
    pub(super) fn string(self) -> Step<Value<'s>> {
        match (&self.value, self.given.len()) {
            (Value::Boolean(truth), 2) => text(printed(self.argument(usize::from(!*truth))?)),
            (_, 0) => text(printed(&self.value)),
            (Value::Integer(_) | Value::Double(_), 1) => {
                let number = self.value.number().unwrap_or_default();
                match formatted(number, self.text_argument(0)?) {
                    Some(made) => text(made),
                    None => self.wrong("a format of `0`, `#`, `.` and `,`, or `computer`"),
                }
            }
            (_, _) => self.wrong("other arguments"),
        }
    }

    pub(super) fn number(self) -> Step<Value<'s>> {
        if is_number(&self.value) {
            return Ok(self.value);
        }
        match self.text()?.trim().parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(crate::value::number(self.text()?.trim())),
            Ok(_) | Err(_) => self.wrong("a string that spells a number"),
        }
    }

    pub(super) fn element(&self, last: bool) -> Step<Value<'s>> {
        let of = |array: Ref<'_>| if last { array.len().checked_sub(1) } else { Some(0) };
        match &self.value {
            Value::Json(json) if json.kind() == Kind::Array => {
                if last {
                    self.budget.charge_steps(json.len() as u64 / 8)?;
                }
                Ok(of(*json).and_then(|place| json.at(place)).map_or(Value::Null, Value::Json))
            }
            _ => {
                let array = self.array()?;
                let found = of(array).and_then(|place| array.at(place));
                Ok(found.map_or(Value::Null, |value| Value::Json(value).into_owned()))
            }
        }
    }

    pub(super) fn names(&self) -> Step<Value<'s>> {
        let Some(object) = self.value.json().filter(|json| json.kind() == Kind::Object) else {
            return self.wrong_kind("a hash");
        };
        let mut builder = Builder::new();
        builder.begin_array();
        for (name, value) in object.members() {
            if self.built_in == BuiltIn::Keys {
                builder.string(&name)
            } else {
                builder.embed(value)
            };
        }
        Ok(Value::Made(Box::new(builder.finish())))
    }

    pub(super) fn rebuilt(&self, change: impl Fn(&mut Vec<Ref<'_>>)) -> Step<Value<'s>> {
        let mut elements: Vec<_> = self.array()?.elements().collect();
        change(&mut elements);
        let mut builder = Builder::new();
        builder.begin_array();
        for element in elements {
            builder.embed(element);
        }
        Ok(Value::Made(Box::new(builder.finish())))
    }

    pub(super) fn rounded(&self, by: fn(f64) -> f64) -> Step<Value<'s>> {
        match self.value {
            Value::Integer(number) => Ok(Value::Integer(number)),
            Value::Double(number) => Ok(crate::value::number(&format!("{:.0}", by(number)))),
            _ => self.wrong_kind("a number"),
        }
    }
}

/// The sort key of an element: numbers, and texts that spell one, come first by value, then all others by text.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) enum Key {
    Number(u64),
    Text(String),
}

/// The memory of a key without its text.
pub(in super::super) const KEY_BYTES: usize = size_of::<(Key, usize)>();

impl Key {
    pub(in super::super) fn of(value: &Value<'_>) -> Self {
        const SIGN: u64 = 1 << 63;
        match value.number() {
            // The bits of a number, changed so that they have the order of `f64::total_cmp`.
            Some(number) if number.is_sign_negative() => Self::Number(!number.to_bits()),
            Some(number) => Self::Number(number.to_bits() | SIGN),
            None => Self::Text(value.text().into_owned()),
        }
    }
}

/// Formats by `0.00`, `#,##0.##` and the like, or `computer`.
fn formatted(number: f64, form: &str) -> Option<String> {
    if form == "computer" {
        return Some(printed(&Value::Double(number)));
    }
    if form.is_empty() || !form.chars().all(|next| "0#.,".contains(next)) || form.len() > 40 {
        return None;
    }
    let (front, back) = form.split_once('.').unwrap_or((form, ""));
    let fewest = back.matches('0').count();
    let text = format!("{:.*}", back.len(), number.abs());
    let (digits, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let mut fraction = fraction.to_owned();
    while fraction.len() > fewest && fraction.ends_with('0') {
        fraction.pop();
    }
    let width = front.matches('0').count();
    let digits = if width == 0 {
        digits.trim_start_matches('0').to_owned()
    } else {
        format!("{digits:0>width$}")
    };
    let group = front.rfind(',').map(|comma| front.len() - comma - 1).filter(|group| *group > 0);
    let mut made = String::from(if number < 0.0 { "-" } else { "" });
    for (place, digit) in digits.chars().enumerate() {
        if let Some(group) = group
            && place > 0
            && (digits.len() - place).is_multiple_of(group)
        {
            made.push(',');
        }
        made.push(digit);
    }
    if !fraction.is_empty() {
        made.push('.');
        made.push_str(&fraction);
    }
    Some(made)
}
