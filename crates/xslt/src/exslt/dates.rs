//! EXSLT dates and times. "Now" is what the caller says; without it the functions that need it fail.

mod duration;
mod moment;
mod parse;
mod picture;

use xpath::{Value, string_to_number};

use super::call::{Call, fail};
use super::{Answer, Row, row};
use duration::Duration;
use moment::Moment;

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row("add",                  2, 2, add),
    row("add-duration",         2, 2, add_duration),
    row("date",                 0, 1, |call| part(call, Moment::date_text)),
    row("date-time",            0, 0, date_time),
    row("day-abbreviation",     0, 1, |call| part(call, |at| short(at.day_name()?))),
    row("day-in-month",         0, 1, |call| number(call, Moment::day_in_month)),
    row("day-in-week",          0, 1, |call| number(call, Moment::day_in_week)),
    row("day-in-year",          0, 1, |call| number(call, Moment::day_in_year)),
    row("day-name",             0, 1, |call| part(call, |at| at.day_name().map(str::to_owned))),
    row("day-of-week-in-month", 0, 1, |call| number(call, Moment::day_of_week_in_month)),
    row("difference",           2, 2, difference),
    row("duration",             0, 1, duration_of),
    row("format-date",          2, 2, format_date),
    row("hour-in-day",          0, 1, |call| number(call, Moment::hour)),
    row("leap-year",            0, 1, leap_year),
    row("minute-in-hour",       0, 1, |call| number(call, Moment::minute)),
    row("month-abbreviation",   0, 1, |call| part(call, |at| short(at.month_name()?))),
    row("month-in-year",        0, 1, |call| number(call, Moment::month_in_year)),
    row("month-name",           0, 1, |call| part(call, |at| at.month_name().map(str::to_owned))),
    row("parse-date",           2, 2, parse_date),
    row("second-in-minute",     0, 1, second_in_minute),
    row("seconds",              0, 1, seconds),
    row("sum",                  1, 1, sum),
    row("time",                 0, 1, |call| part(call, Moment::time_text)),
    row("week-in-month",        0, 1, |call| number(call, Moment::week_in_month)),
    row("week-in-year",         0, 1, |call| number(call, Moment::week_in_year)),
    row("year",                 0, 1, |call| number(call, Moment::year)),
];

fn now(call: &Call<'_, '_>) -> Answer<Moment> {
    match call.host.now_ms() {
        Some(now_ms) => Ok(Moment::of_epoch_ms(now_ms)),
        None => fail("no time was given to this run, and the function needs it"),
    }
}

/// The argument, or now; none if it isn't a date.
fn moment(call: &mut Call<'_, '_>) -> Answer<Option<Moment>> {
    match call.optional_text() {
        Some(text) => Ok(Moment::parse(&text)),
        None => now(call).map(Some),
    }
}

fn string<'d>(text: Option<String>) -> Answer<Value<'d>> {
    Ok(Value::String(text.unwrap_or_default()))
}

/// A part as text; the empty string where the argument has no such part.
fn part<'d>(
    call: &mut Call<'_, 'd>,
    of: impl FnOnce(Moment) -> Option<String>,
) -> Answer<Value<'d>> {
    string(moment(call)?.and_then(of))
}

/// A part as a number; NaN where the argument has no such part.
fn number<'d>(
    call: &mut Call<'_, 'd>,
    of: impl FnOnce(Moment) -> Option<i64>,
) -> Answer<Value<'d>> {
    let found = moment(call)?.and_then(of);
    Ok(Value::Number(found.map_or(f64::NAN, |number| number as f64)))
}

fn short(name: &str) -> Option<String> {
    name.get(..3).map(str::to_owned)
}

fn date_time<'d>(call: &mut Call<'_, 'd>) -> Answer<Value<'d>> {
    Ok(Value::String(now(call)?.without_fraction().to_string()))
}

fn leap_year<'d>(call: &mut Call<'_, 'd>) -> Answer<Value<'d>> {
    let leap = moment(call)?.and_then(Moment::is_in_leap_year);
    Ok(leap.map_or(Value::Number(f64::NAN), Value::Boolean))
}

fn second_in_minute<'d>(call: &mut Call<'_, 'd>) -> Answer<Value<'d>> {
    let second = moment(call)?.and_then(Moment::second_text);
    Ok(Value::Number(second.map_or(f64::NAN, |text| string_to_number(&text))))
}

/// Since 1970, or of a duration that has no months.
fn seconds<'d>(call: &mut Call<'_, 'd>) -> Answer<Value<'d>> {
    let text = match call.optional_text() {
        Some(text) => match Moment::parse(&text) {
            Some(at) => at.since_epoch(),
            None => Duration::parse(&text).filter(|duration| duration.months == 0),
        },
        None => now(call)?.since_epoch(),
    };
    let text = text.map(|duration| duration.seconds_text());
    Ok(Value::Number(text.map_or(f64::NAN, |text| string_to_number(&text))))
}

fn duration_of<'d>(call: &mut Call<'_, 'd>) -> Answer<Value<'d>> {
    let duration = match call.value() {
        Some(seconds) => Duration::of_seconds(seconds.number()),
        None => now(call)?.since_epoch(),
    };
    string(duration.map(|duration| duration.to_string()))
}

fn add<'d>(call: &mut Call<'_, 'd>) -> Answer<Value<'d>> {
    let (start, duration) = (call.text(), call.text());
    let sum = Moment::parse(&start).zip(Duration::parse(&duration));
    string(sum.and_then(|(start, duration)| start.plus(duration)).map(|sum| sum.to_string()))
}

fn add_duration<'d>(call: &mut Call<'_, 'd>) -> Answer<Value<'d>> {
    let (one, other) = (call.text(), call.text());
    let sum = Duration::parse(&one).zip(Duration::parse(&other));
    string(sum.and_then(|(one, other)| one.plus(other)).map(|sum| sum.to_string()))
}

fn sum<'d>(call: &mut Call<'_, 'd>) -> Answer<Value<'d>> {
    let nodes = call.nodes()?;
    let mut durations = nodes.iter().map(|item| Duration::parse(&item.string_value()));
    let total = durations.try_fold(Duration::default(), |sum, next| sum.plus(next?));
    string(total.filter(|_| !nodes.is_empty()).map(|total| total.to_string()))
}

/// From the first to the second, as exact as the less exact of both.
fn difference<'d>(call: &mut Call<'_, 'd>) -> Answer<Value<'d>> {
    let (start, end) = (call.text(), call.text());
    let both = Moment::parse(&start).zip(Moment::parse(&end));
    string(both.and_then(|(start, end)| start.until(end)).map(|duration| duration.to_string()))
}

fn format_date<'d>(call: &mut Call<'_, 'd>) -> Answer<Value<'d>> {
    let (at, picture) = (call.text(), call.text());
    call.host.made(picture.len().saturating_mul(2))?;
    string(Moment::parse(&at).map(|at| picture::format(at, &picture)))
}

fn parse_date<'d>(call: &mut Call<'_, 'd>) -> Answer<Value<'d>> {
    let (text, picture) = (call.text(), call.text());
    call.host.spend(picture.len() / 16)?;
    let this_year = call.host.now_ms().and_then(|now_ms| Moment::of_epoch_ms(now_ms).year());
    string(parse::parse(&text, &picture, this_year)?.map(|at| at.to_string()))
}
