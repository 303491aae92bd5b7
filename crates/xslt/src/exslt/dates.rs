//! EXSLT dates and times. The caller provides the current time; without it the functions that need it fail.

mod duration;
mod moment;
mod parse;
mod picture;

use xpath::{Value, string_to_number};

use super::arguments::{Arguments, fail};
use super::{Evaluated, Row, row};
use duration::Duration;
use moment::Moment;

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row("add",                  2, 2, add),
    row("add-duration",         2, 2, add_duration),
    row("date",                 0, 1, |args| part(args, Moment::date_text)),
    row("date-time",            0, 0, date_time),
    row("day-abbreviation",     0, 1, |args| part(args, |at| short(at.day_name()?))),
    row("day-in-month",         0, 1, |args| number(args, Moment::day_in_month)),
    row("day-in-week",          0, 1, |args| number(args, Moment::day_in_week)),
    row("day-in-year",          0, 1, |args| number(args, Moment::day_in_year)),
    row("day-name",             0, 1, |args| part(args, |at| at.day_name().map(str::to_owned))),
    row("day-of-week-in-month", 0, 1, |args| number(args, Moment::day_of_week_in_month)),
    row("difference",           2, 2, difference),
    row("duration",             0, 1, duration_of),
    row("format-date",          2, 2, format_date),
    row("hour-in-day",          0, 1, |args| number(args, Moment::hour)),
    row("leap-year",            0, 1, leap_year),
    row("minute-in-hour",       0, 1, |args| number(args, Moment::minute)),
    row("month-abbreviation",   0, 1, |args| part(args, |at| short(at.month_name()?))),
    row("month-in-year",        0, 1, |args| number(args, Moment::month_in_year)),
    row("month-name",           0, 1, |args| part(args, |at| at.month_name().map(str::to_owned))),
    row("parse-date",           2, 2, parse_date),
    row("second-in-minute",     0, 1, second_in_minute),
    row("seconds",              0, 1, seconds),
    row("sum",                  1, 1, sum),
    row("time",                 0, 1, |args| part(args, Moment::time_text)),
    row("week-in-month",        0, 1, |args| number(args, Moment::week_in_month)),
    row("week-in-year",         0, 1, |args| number(args, Moment::week_in_year)),
    row("year",                 0, 1, |args| number(args, Moment::year)),
];

fn now(args: &Arguments<'_, '_>) -> Evaluated<Moment> {
    match args.host.now_ms() {
        Some(now_ms) => match Moment::from_epoch_ms(now_ms) {
            Some(now) => Ok(now),
            None => fail("the current time is out of range"),
        },
        None => fail("the current time is not available to this transformation"),
    }
}

/// The argument, or the current time; `None` if the argument is not a date.
fn moment(args: &mut Arguments<'_, '_>) -> Evaluated<Option<Moment>> {
    match args.optional_text()? {
        Some(text) => Ok(Moment::parse(&text)),
        None => now(args).map(Some),
    }
}

fn string<'d>(text: Option<String>) -> Evaluated<Value<'d>> {
    Ok(Value::String(text.unwrap_or_default()))
}

/// A component as text; empty if the argument does not have it.
fn part<'d>(
    args: &mut Arguments<'_, 'd>,
    of: impl FnOnce(Moment) -> Option<String>,
) -> Evaluated<Value<'d>> {
    string(moment(args)?.and_then(of))
}

/// A component as a number; NaN if the argument does not have it.
fn number<'d>(
    args: &mut Arguments<'_, 'd>,
    of: impl FnOnce(Moment) -> Option<i64>,
) -> Evaluated<Value<'d>> {
    let found = moment(args)?.and_then(of);
    Ok(Value::Number(found.map_or(f64::NAN, |number| number as f64)))
}

fn short(name: &str) -> Option<String> {
    name.get(..3).map(str::to_owned)
}

fn date_time<'d>(args: &mut Arguments<'_, 'd>) -> Evaluated<Value<'d>> {
    Ok(Value::String(now(args)?.without_fraction().to_string()))
}

fn leap_year<'d>(args: &mut Arguments<'_, 'd>) -> Evaluated<Value<'d>> {
    let leap = moment(args)?.and_then(Moment::is_in_leap_year);
    Ok(leap.map_or(Value::Number(f64::NAN), Value::Boolean))
}

fn second_in_minute<'d>(args: &mut Arguments<'_, 'd>) -> Evaluated<Value<'d>> {
    let second = moment(args)?.and_then(Moment::second_text);
    Ok(Value::Number(second.map_or(f64::NAN, |text| string_to_number(&text))))
}

/// Seconds since 1970, or the seconds of a duration that has no months.
fn seconds<'d>(args: &mut Arguments<'_, 'd>) -> Evaluated<Value<'d>> {
    let text = match args.optional_text()? {
        Some(text) => match Moment::parse(&text) {
            Some(at) => at.since_epoch(),
            None => Duration::parse(&text).filter(|duration| duration.months == 0),
        },
        None => now(args)?.since_epoch(),
    };
    let text = text.map(|duration| duration.seconds_text());
    Ok(Value::Number(text.map_or(f64::NAN, |text| string_to_number(&text))))
}

fn duration_of<'d>(args: &mut Arguments<'_, 'd>) -> Evaluated<Value<'d>> {
    let duration = match args.value() {
        Some(seconds) => Duration::of_seconds(seconds.number()),
        None => now(args)?.since_epoch(),
    };
    string(duration.map(|duration| duration.to_string()))
}

fn add<'d>(args: &mut Arguments<'_, 'd>) -> Evaluated<Value<'d>> {
    let (start, duration) = (args.text()?, args.text()?);
    let sum = Moment::parse(&start).zip(Duration::parse(&duration));
    string(sum.and_then(|(start, duration)| start.plus(duration)).map(|sum| sum.to_string()))
}

fn add_duration<'d>(args: &mut Arguments<'_, 'd>) -> Evaluated<Value<'d>> {
    let (one, other) = (args.text()?, args.text()?);
    let sum = Duration::parse(&one).zip(Duration::parse(&other));
    string(sum.and_then(|(one, other)| one.plus(other)).map(|sum| sum.to_string()))
}

fn sum<'d>(args: &mut Arguments<'_, 'd>) -> Evaluated<Value<'d>> {
    let nodes = args.nodes()?;
    let mut total = (!nodes.is_empty()).then(Duration::default);
    for item in &nodes {
        let text = item.charged_string_value(args.host.budget())?;
        total = total.zip(Duration::parse(&text)).and_then(|(total, next)| total.plus(next));
    }
    string(total.map(|total| total.to_string()))
}

/// The duration from the first to the second date, with the precision of the less precise one.
fn difference<'d>(args: &mut Arguments<'_, 'd>) -> Evaluated<Value<'d>> {
    let (start, end) = (args.text()?, args.text()?);
    let both = Moment::parse(&start).zip(Moment::parse(&end));
    string(both.and_then(|(start, end)| start.until(end)).map(|duration| duration.to_string()))
}

fn format_date<'d>(args: &mut Arguments<'_, 'd>) -> Evaluated<Value<'d>> {
    let (at, picture) = (args.text()?, args.text()?);
    args.host.budget().charge_scanning(picture.len())?;
    // A component of one letter is at most nine characters long.
    args.charge_memory(picture.len().saturating_mul(9))?;
    string(Moment::parse(&at).map(|at| picture::format(at, &picture)))
}

fn parse_date<'d>(args: &mut Arguments<'_, 'd>) -> Evaluated<Value<'d>> {
    let (text, picture) = (args.text()?, args.text()?);
    args.host.budget().charge_scanning(picture.len())?;
    let this_year = args.host.now_ms().and_then(Moment::from_epoch_ms).and_then(Moment::year);
    string(parse::parse(&text, &picture, this_year)?.map(|at| at.to_string()))
}
