//! A ranking in one picture: each target's ratio to the first with its interval, on a logarithmic axis. The line is at
//! 1, where both are the same: a target whose interval crosses it can't be told from the first.

use std::collections::BTreeSet;
use std::fmt::{self, Write};

use super::chart::{colour_class, escaped, short};
use super::ranking::{Place, Ranking};

const WIDTH: f64 = 480.0;
const LEFT: f64 = 160.0;
const RIGHT: f64 = 470.0;
const ROW: f64 = 22.0;
/// Maximum length of a target's name, in characters.
const NAME_CHARS: usize = 20;

/// An SVG image; `None` if no target has a ratio. The place of a target in `targets` is that of its colour.
pub(super) fn picture(ranking: &Ranking, targets: &BTreeSet<String>) -> Option<String> {
    let ends = |place: &Place| {
        let ratio = place.ratio.unwrap_or(1.0);
        let (low, high) = place.interval.unwrap_or((ratio, ratio));
        [ratio.min(low), ratio.max(high)]
    };
    let others = || ranking.places.iter().skip(1).filter(|place| place.ratio.is_some());
    let ends: Vec<f64> = others().flat_map(ends).filter(|end| *end > 0.0).collect();
    if ends.is_empty() {
        return None;
    }
    let low = ends.iter().copied().fold(1.0, f64::min);
    let high = ends.iter().copied().fold(1.0, f64::max);
    let axis = Axis { low, high, targets };
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write(&mut out, ranking, &axis);
    Some(out)
}

struct Axis<'t> {
    low: f64,
    high: f64,
    targets: &'t BTreeSet<String>,
}

impl Axis<'_> {
    fn x(&self, ratio: f64) -> f64 {
        let width = (self.high / self.low).ln();
        let share = if width > 0.0 { (ratio / self.low).ln() / width } else { 0.5 };
        LEFT + share.clamp(0.0, 1.0) * (RIGHT - LEFT)
    }
}

fn write(out: &mut String, ranking: &Ranking, axis: &Axis<'_>) -> fmt::Result {
    let Some(first) = ranking.places.first() else { return Ok(()) };
    let rows = ranking.places.len() as f64;
    let (bottom, height) = (rows * ROW, (rows + 1.0) * ROW);
    let one = axis.x(1.0);
    write!(
        out,
        "<svg class=\"c\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{} relative to {}, as in the table\" \
         font-size=\"12\">\
         <line class=\"a\" x1=\"{one:.1}\" x2=\"{one:.1}\" y1=\"0\" y2=\"{bottom}\" \
         stroke-dasharray=\"3 3\"/>",
        ranking.metric.name,
        escaped(&first.target)
    )?;
    let tick = |out: &mut String, ratio: f64, anchor: &str| {
        let (x, y) = (axis.x(ratio), bottom + 14.0);
        write!(out, "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"{anchor}\">{}</text>", short(ratio))
    };
    if axis.low < 1.0 {
        tick(out, axis.low, "start")?;
    }
    if axis.high > 1.0 {
        tick(out, axis.high, "end")?;
    }
    // Not above a label at the end of the axis.
    if one - LEFT > 40.0 && RIGHT - one > 40.0 || axis.low >= 1.0 || axis.high <= 1.0 {
        tick(out, 1.0, "middle")?;
    }
    for (index, place) in ranking.places.iter().enumerate() {
        let ratio = if index == 0 { Some(1.0) } else { place.ratio };
        write_row(out, axis, (index as f64 + 0.5) * ROW, place, ratio)?;
    }
    out.write_str("</svg>")
}

fn write_row(
    out: &mut String,
    axis: &Axis<'_>,
    y: f64,
    place: &Place,
    ratio: Option<f64>,
) -> fmt::Result {
    let name = shortened(&place.target);
    write!(out, "<text x=\"0\" y=\"{:.1}\">{}</text>", y + 4.0, escaped(&name))?;
    let colour = axis.targets.iter().position(|target| *target == place.target);
    let class = colour_class(colour.unwrap_or(0));
    if let Some((low, high)) = place.interval {
        write!(
            out,
            "<line class=\"{class} l\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{y}\" y2=\"{y}\"/>",
            axis.x(low),
            axis.x(high)
        )?;
    }
    match ratio {
        Some(ratio) => {
            let x = axis.x(ratio);
            write!(out, "<circle class=\"{class} f\" cx=\"{x:.1}\" cy=\"{y}\" r=\"4\"/>")
        }
        None => write!(out, "<text x=\"{LEFT}\" y=\"{:.1}\">no case in common</text>", y + 4.0),
    }
}

/// At most [`NAME_CHARS`]: names of one target with different settings differ at the end.
fn shortened(name: &str) -> String {
    let chars: Vec<char> = name.chars().collect();
    let half = NAME_CHARS / 2;
    match chars.len() {
        ..=NAME_CHARS => name.to_owned(),
        length => {
            let ends =
                chars.iter().take(half - 1).chain(&['…']).chain(chars.iter().skip(length - half));
            ends.collect()
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::report::ranking::tests::place;

    fn drawn(places: Vec<Place>) -> Option<String> {
        let targets = places.iter().map(|place| place.target.clone()).collect();
        picture(&Ranking::of_cpu(places), &targets)
    }

    #[test]
    fn ratios_are_drawn_on_a_logarithmic_axis() {
        let half_and_double = vec![
            place("a", None, None),
            place("<b>", Some(0.5), Some((0.5, 1.0))),
            place("c", Some(2.0), Some((2.0, 2.0))),
            place("d", None, None),
        ];
        let svg = drawn(half_and_double).unwrap();
        // 0.5, 1 and 2 are at even distances.
        for part in [
            "<line class=\"a\" x1=\"315.0\" x2=\"315.0\" y1=\"0\" y2=\"88\"",
            "<circle class=\"s0 f\" cx=\"160.0\" cy=\"33\"",
            "<line class=\"s0 l\" x1=\"160.0\" x2=\"315.0\" y1=\"33\"",
            "<circle class=\"s2 f\" cx=\"470.0\" cy=\"55\"",
            "&lt;b&gt;",
            "no case in common",
        ] {
            assert!(svg.contains(part), "{part} in {svg}");
        }
    }

    #[test]
    fn long_names_keep_beginning_and_end() {
        assert_eq!(shortened("penstock-integration workers=2"), "penstock-… workers=2");
        assert_eq!(shortened("a name of 20 letters"), "a name of 20 letters");
    }

    #[test]
    fn without_a_ratio_there_is_no_picture() {
        assert_eq!(drawn(vec![place("a", None, None), place("b", None, None)]), None);
        assert!(drawn(vec![place("a", None, None), place("b", Some(1.0), None)]).is_some());
    }
}
