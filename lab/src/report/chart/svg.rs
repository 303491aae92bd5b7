//! Renders a chart as SVG. The drawing is our own: axes, marks and a legend are all that is needed, and every
//! element must work in browsers, screen readers and print.
//!
//! Colours are classes, so that a page can support dark mode. Series differ in mark and dash as well as in
//! colour.

use std::fmt::{self, Write};

use super::scale::{Scale, short};
use super::{Chart, Heat, Plot, Point, Series};

/// Where an image will be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// In the page, which has the styles.
    Page,
    /// In a file of its own, with styles for light and dark mode.
    File,
}

/// Light mode. The eight hues also differ in brightness.
const STYLE: &str = "\
.c{font:12px 'DejaVu Sans',system-ui,sans-serif}.c .bg{fill:#fff}.c text{fill:#222}.c .g{stroke:#ddd;\
stroke-width:1}.c .a{stroke:#777;stroke-width:1}.c .t{font-size:13px;font-weight:bold}\
.c .l{fill:none;stroke-width:2}.c .d{fill:#fff}\
.c .s0{stroke:#1f5fb0;color:#1f5fb0}.c .s1{stroke:#b0321f;color:#b0321f}\
.c .s2{stroke:#1d7a3c;color:#1d7a3c}.c .s3{stroke:#8a5a00;color:#8a5a00}\
.c .s4{stroke:#6d3fa0;color:#6d3fa0}.c .s5{stroke:#00707a;color:#00707a}\
.c .s6{stroke:#a02a6b;color:#a02a6b}.c .s7{stroke:#444;color:#444}\
.c .p{stroke:#999;color:#999}.c .f,.c .h{fill:currentColor}.c .h{stroke:none}";

/// Dark mode.
const DARK: &str = "\
.c .bg{fill:#16191d}.c text{fill:#e6e6e6}.c .g{stroke:#333a41}.c .a{stroke:#8a929a}.c .d{fill:#16191d}\
.c .s0{stroke:#7db2ff;color:#7db2ff}.c .s1{stroke:#ff8a70;color:#ff8a70}\
.c .s2{stroke:#6fd492;color:#6fd492}.c .s3{stroke:#e8b04a;color:#e8b04a}\
.c .s4{stroke:#c09bf0;color:#c09bf0}.c .s5{stroke:#5fd0da;color:#5fd0da}\
.c .s6{stroke:#f08ac0;color:#f08ac0}.c .s7{stroke:#ccc;color:#ccc}.c .p{stroke:#7d858d;color:#7d858d}.c .h{stroke:none}";

/// The styles of the page.
pub(in crate::report) fn page_style() -> String {
    format!("{STYLE}@media (prefers-color-scheme:dark){{{DARK}}}")
}

const WIDTH: f64 = 480.0;
const LEFT: f64 = 66.0;
const RIGHT: f64 = 468.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 250.0;
/// Height of the labels of categories, below the lowest label of the value axis.
const CATEGORY: f64 = 19.0;
/// Below the plot: category labels, and the name of the axis.
const LEGEND: f64 = 302.0;
const LEGEND_LINE: f64 = 17.0;
/// Maximum length of a legend entry, in characters.
const TEXT_CHARS: usize = 62;
/// Maximum length of a line of a title, in characters.
const TITLE_CHARS: usize = 54;
const TITLE_LINE: f64 = 16.0;
/// Width of a digit of the labels.
const DIGIT: f64 = 7.7;
/// Average width of a character of the labels.
const CHARACTER: f64 = 6.8;
/// Height of a row: the bar with its gap, and the category's name.
const ROW_BAR: f64 = 15.0;
const ROW_NAME: f64 = 22.0;
/// Ends of the longest row; its value follows.
const ROW_LEFT: f64 = 10.0;
const ROW_RIGHT: f64 = 410.0;
const DASHES: [&str; 4] = ["", "6 3", "2 3", "8 3 2 3"];

pub(super) fn draw(chart: &Chart, setting: Setting) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write(&mut out, chart, setting);
    out
}

fn write(out: &mut String, chart: &Chart, setting: Setting) -> fmt::Result {
    let lines = match &chart.plot {
        Plot::Lines { series, .. } | Plot::Bars { series, .. } | Plot::Rows { series, .. } => {
            series.len()
        }
        Plot::Heat(_) => 1,
    };
    let title = wrapped(&chart.title);
    let below = TITLE_LINE * title.len().saturating_sub(1) as f64;
    let legend_at = match &chart.plot {
        Plot::Rows { categories, series } => TOP + rows_height(categories, series) + 34.0,
        Plot::Lines { .. } | Plot::Bars { .. } | Plot::Heat(_) => LEGEND,
    };
    let height = below + legend_at + LEGEND_LINE * lines as f64;
    let id = escaped(&chart.id);
    write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"c\" viewBox=\"0 0 {WIDTH} {height}\" \
         role=\"img\" aria-labelledby=\"{id}-t {id}-d\"><title id=\"{id}-t\">{}</title>\
         <desc id=\"{id}-d\">{}</desc>",
        escaped(&chart.title),
        escaped(&chart.description())
    )?;
    match setting {
        Setting::Page => {}
        Setting::File => write!(out, "<style>{}</style>", page_style())?,
    }
    write!(out, "<rect class=\"bg\" width=\"{WIDTH}\" height=\"{height}\"/>")?;
    for (place, line) in title.iter().enumerate() {
        text(out, (8.0, 18.0 + TITLE_LINE * place as f64), "start", "t", line)?;
    }
    write!(out, "<g transform=\"translate(0 {below})\">")?;
    text(out, (8.0, 33.0), "start", "", &chart.y_name)?;
    if !matches!(chart.plot, Plot::Rows { .. }) {
        text(out, (LEFT.midpoint(RIGHT), BOTTOM + 36.0), "middle", "", &chart.x_name)?;
    }
    match &chart.plot {
        Plot::Lines { categories, series } => draw_lines(out, categories, series)?,
        Plot::Bars { categories, series } => draw_bars(out, categories, series)?,
        Plot::Rows { categories, series } => draw_rows(out, categories, series)?,
        Plot::Heat(heat) => draw_heat(out, heat)?,
    }
    out.write_str("</g></svg>")
}

/// Longer lines have no marks, except where a point has no neighbours.
const MARKS_MAX: usize = 60;

fn draw_lines(out: &mut String, categories: &[String], series: &[Series]) -> fmt::Result {
    let scale = Scale::of(values(series));
    value_axis(out, &scale)?;
    if scale.is_logarithmic() {
        text(out, (RIGHT, TOP - 4.0), "end", "", "logarithmic scale")?;
    }
    category_axis(out, categories)?;
    // Published results are drawn first, so that ours are in front.
    for published in [true, false] {
        for (place, one) in series.iter().enumerate().filter(|(_, s)| s.published == published) {
            let style = SeriesStyle::of(series, place);
            let mut run: Vec<(f64, f64)> = Vec::new();
            for (index, point) in one.points.iter().enumerate() {
                match point {
                    Some(point) => run.push((x_of(index, categories), y_of(point, &scale))),
                    None => line(out, &std::mem::take(&mut run), &style)?,
                }
            }
            line(out, &run, &style)?;
            let is_alone = |index: usize| {
                let some = |at: Option<usize>| {
                    at.and_then(|at| one.points.get(at)).is_some_and(Option::is_some)
                };
                !some(index.checked_sub(1)) && !some(index.checked_add(1))
            };
            for (index, point) in one.points.iter().enumerate() {
                if let Some(point) = point
                    && (categories.len() <= MARKS_MAX || is_alone(index))
                {
                    let at = (x_of(index, categories), y_of(point, &scale));
                    let title = tooltip(one, categories.get(index), point);
                    mark(out, at, &style, (&title, !point.warning.is_empty()))?;
                }
            }
        }
    }
    legend(out, series)
}

fn draw_bars(out: &mut String, categories: &[String], series: &[Series]) -> fmt::Result {
    let scale = Scale::up_to(values(series).fold(0.0, f64::max));
    value_axis(out, &scale)?;
    category_axis(out, categories)?;
    let slot = (RIGHT - LEFT) / categories.len().max(1) as f64;
    let width = slot * 0.8 / series.len().max(1) as f64;
    for (place, one) in series.iter().enumerate() {
        let style = SeriesStyle::of(series, place);
        for (index, point) in one.points.iter().enumerate() {
            let Some(point) = point else { continue };
            let x = LEFT + slot * index as f64 + slot * 0.1 + width * place as f64;
            let y = y_of(point, &scale);
            write!(
                out,
                "{} x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\">\
                 <title>{}</title></rect>",
                style.bar(!point.warning.is_empty()),
                width.max(0.5),
                (BOTTOM - y).max(0.0),
                escaped(&tooltip(one, categories.get(index), point))
            )?;
        }
    }
    swatches(out, series, LEGEND)
}

/// Rows with a name above their bars, so that no name is cut off or runs into its neighbour.
fn draw_rows(out: &mut String, categories: &[String], series: &[Series]) -> fmt::Result {
    let most = values(series).fold(0.0, f64::max);
    let mut y = TOP;
    for (index, category) in categories.iter().enumerate().filter(|(index, _)| any(series, *index))
    {
        text(out, (ROW_LEFT, y + 12.0), "start", "", category)?;
        y += ROW_NAME - 4.0;
        for (place, one) in series.iter().enumerate() {
            let Some(Some(point)) = one.points.get(index) else { continue };
            let style = SeriesStyle::of(series, place);
            let share =
                if most > 0.0 && point.value.is_finite() { point.value / most } else { 0.0 };
            let width = ((ROW_RIGHT - ROW_LEFT) * share.clamp(0.0, 1.0)).max(1.0);
            write!(
                out,
                "{} x=\"{ROW_LEFT}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{:.1}\">\
                 <title>{}</title></rect>",
                style.bar(!point.warning.is_empty()),
                ROW_BAR - 3.0,
                escaped(&tooltip(one, Some(category), point))
            )?;
            let at = (ROW_LEFT + width + 4.0, y + 10.0);
            text(out, at, "start", "", &short(point.value))?;
            y += ROW_BAR;
        }
        y += 4.0;
    }
    swatches(out, series, y + 26.0)
}

/// Whether a category has a figure.
fn any(series: &[Series], index: usize) -> bool {
    series.iter().any(|one| one.points.get(index).is_some_and(Option::is_some))
}

fn rows_height(categories: &[String], series: &[Series]) -> f64 {
    let names = (0..categories.len()).filter(|index| any(series, *index)).count();
    let bars: usize = series.iter().map(|one| one.points.iter().flatten().count()).sum();
    ROW_NAME * names as f64 + ROW_BAR * bars as f64
}

fn draw_heat(out: &mut String, heat: &Heat) -> fmt::Result {
    let most = heat.cells.iter().flatten().copied().max().unwrap_or(0).max(1);
    let (columns, rows) = (heat.columns.len().max(1) as f64, heat.rows.len().max(1) as f64);
    let (width, height) = ((RIGHT - LEFT) / columns, (BOTTOM - TOP) / rows);
    let class = colour_class(heat.colour.unwrap_or(0));
    frame(out)?;
    for (column, cells) in heat.cells.iter().enumerate() {
        for (row, &count) in cells.iter().enumerate().filter(|(_, count)| **count > 0) {
            let shade = ((count as f64).ln_1p() / (most as f64).ln_1p()).max(0.08);
            write!(
                out,
                "<rect class=\"h {class}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" \
                 fill-opacity=\"{shade:.2}\"/>",
                LEFT + width * column as f64,
                BOTTOM - height * (row as f64 + 1.0),
                width + 0.2,
                height + 0.2
            )?;
        }
    }
    for (place, name) in thinned(&heat.rows, 7) {
        text(out, (LEFT - 4.0, BOTTOM - height * (place as f64 + 0.2)), "end", "", name)?;
    }
    for (place, name) in thinned(&heat.columns, 8) {
        let x = LEFT + width * (place as f64 + 0.5);
        category_name(out, x, name)?;
    }
    let legend = format!("darkest cell: {most} requests; logarithmic shades");
    text(out, (8.0, LEGEND), "start", "", &legend)
}

fn values(series: &[Series]) -> impl Iterator<Item = f64> {
    let points = series.iter().flat_map(|one| one.points.iter().flatten());
    points.map(|point| point.value).filter(|value| value.is_finite())
}

/// Draws the grid and its numbers.
fn value_axis(out: &mut String, scale: &Scale) -> fmt::Result {
    for tick in &scale.ticks {
        let y = BOTTOM - (BOTTOM - TOP) * scale.share(*tick);
        write!(
            out,
            "<line class=\"g\" x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{RIGHT}\" y2=\"{y:.1}\"/>"
        )?;
        text(out, (LEFT - 4.0, y + 4.0), "end", "", &short(*tick))?;
    }
    frame(out)
}

fn frame(out: &mut String) -> fmt::Result {
    write!(
        out,
        "<line class=\"a\" x1=\"{LEFT}\" y1=\"{BOTTOM}\" x2=\"{RIGHT}\" y2=\"{BOTTOM}\"/>\
         <line class=\"a\" x1=\"{LEFT}\" y1=\"{TOP}\" x2=\"{LEFT}\" y2=\"{BOTTOM}\"/>"
    )
}

fn category_axis(out: &mut String, categories: &[String]) -> fmt::Result {
    // As many names as fit beside each other.
    let longest = categories.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let width = CHARACTER * longest.clamp(1, 18) as f64 + 8.0;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "2 to 27")]
    let most = ((RIGHT - LEFT) / width) as usize;
    for (place, name) in thinned(categories, most.clamp(1, 8)) {
        let short: String = name.chars().take(18).collect();
        category_name(out, x_of(place, categories), &short)?;
    }
    Ok(())
}

/// Below its mark, or as far to the left as the picture ends.
fn category_name(out: &mut String, x: f64, name: &str) -> fmt::Result {
    let half = DIGIT * name.chars().count() as f64 / 2.0;
    text(out, (x.min(WIDTH - half), BOTTOM + CATEGORY), "middle", "", name)
}

/// At most `most` of the names, evenly spaced, with their indices.
fn thinned(names: &[String], most: usize) -> impl Iterator<Item = (usize, &String)> {
    let step = names.len().div_ceil(most).max(1);
    names.iter().enumerate().step_by(step)
}

fn x_of(place: usize, categories: &[String]) -> f64 {
    LEFT + (RIGHT - LEFT) * (place as f64 + 0.5) / categories.len().max(1) as f64
}

fn y_of(point: &Point, scale: &Scale) -> f64 {
    BOTTOM - (BOTTOM - TOP) * scale.share(point.value)
}

/// Numbers of targets from this one on have the colours of earlier ones; their bars are lighter and their outlines
/// dashed.
const COLOURS: usize = 8;

/// The class with the colour of a target, by its number.
pub(in crate::report) fn colour_class(number: usize) -> String {
    format!("s{}", number % COLOURS)
}

/// Colour, dash and mark of a series.
struct SeriesStyle {
    class: String,
    dash: &'static str,
    shape: usize,
    /// How often the colour is already in use.
    turn: usize,
}

impl SeriesStyle {
    /// Our series have the colours of their targets; published ones are grey and dashed.
    fn of(series: &[Series], place: usize) -> Self {
        let published = series.get(place).is_some_and(|one| one.published);
        let before = series.iter().take(place).filter(|one| one.published == published).count();
        let dash = |turn: usize| DASHES.get(turn % DASHES.len()).copied().unwrap_or("");
        if published {
            return Self { class: "p".to_owned(), dash: dash(before + 1), shape: before, turn: 0 };
        }
        let colour = series.get(place).and_then(|one| one.colour).unwrap_or(before);
        // Up to 16 series of one target differ in dash and mark together.
        let same = series.iter().take(place).filter(|one| one.colour == Some(colour)).count();
        Self {
            class: colour_class(colour),
            dash: dash(colour / COLOURS + same),
            shape: colour + same + same / 4,
            turn: colour / COLOURS,
        }
    }

    /// The start of a bar. `flagged`: hollow, because of a warning.
    fn bar(&self, flagged: bool) -> String {
        let fill = if flagged { "d" } else { "f" };
        let lighter = match self.turn {
            0 => String::new(),
            _ => format!(" fill-opacity=\"0.4\" stroke-dasharray=\"{}\"", self.dash),
        };
        format!("<rect class=\"{} {fill}\"{lighter}", self.class)
    }
}

fn line(out: &mut String, run: &[(f64, f64)], style: &SeriesStyle) -> fmt::Result {
    if run.len() < 2 {
        return Ok(());
    }
    let points: Vec<String> = run.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let (class, dash) = (&style.class, style.dash);
    write!(out, "<polyline class=\"l {class}\"")?;
    if !dash.is_empty() {
        write!(out, " stroke-dasharray=\"{dash}\"")?;
    }
    write!(out, " points=\"{}\"/>", points.join(" "))
}

/// Circle, square, triangle or diamond; hollow if there is a warning.
fn mark(out: &mut String, at: (f64, f64), style: &SeriesStyle, title: (&str, bool)) -> fmt::Result {
    let (x, y) = at;
    let (title, flagged) = title;
    let fill = if flagged { "d" } else { "f" };
    let path = match style.shape % 4 {
        0 => format!("M{:.1} {y:.1}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z", x - 4.0),
        1 => format!("M{:.1} {:.1}h7v7h-7z", x - 3.5, y - 3.5),
        2 => format!("M{x:.1} {:.1}l4.5 8h-9z", y - 5.0),
        _ => format!("M{x:.1} {:.1}l5 5l-5 5l-5 -5z", y - 5.0),
    };
    write!(out, "<path class=\"{} {fill}\" stroke-width=\"1.5\" d=\"{path}\">", style.class)?;
    write!(out, "<title>{}</title></path>", escaped(title))
}

/// The legend of lines; long enough to tell the dashes apart.
fn legend(out: &mut String, series: &[Series]) -> fmt::Result {
    for (place, one) in series.iter().enumerate() {
        let style = SeriesStyle::of(series, place);
        let y = LEGEND + LEGEND_LINE * place as f64;
        line(out, &[(10.0, y - 4.0), (46.0, y - 4.0)], &style)?;
        mark(out, (28.0, y - 4.0), &style, (&one.name, false))?;
        text(out, (52.0, y), "start", "", &one.name)?;
    }
    Ok(())
}

/// The legend of bars.
fn swatches(out: &mut String, series: &[Series], top: f64) -> fmt::Result {
    for (place, one) in series.iter().enumerate() {
        let bar = SeriesStyle::of(series, place).bar(false);
        let y = top + LEGEND_LINE * place as f64;
        write!(out, "{bar} x=\"10\" y=\"{:.1}\" width=\"12\" height=\"12\"/>", y - 10.0)?;
        text(out, (28.0, y), "start", "", &one.name)?;
    }
    Ok(())
}

/// A title in lines of at most [`TITLE_CHARS`] characters, broken between words; in longer words, anywhere.
fn wrapped(title: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in title.split_whitespace() {
        let word: Vec<char> = word.chars().collect();
        for (place, part) in word.chunks(TITLE_CHARS).enumerate() {
            let Some(line) = lines.last_mut() else { break };
            let part: String = part.iter().collect();
            if place > 0 || line.chars().count() + 1 + part.chars().count() > TITLE_CHARS {
                lines.push(part);
            } else {
                line.push_str(if line.is_empty() { "" } else { " " });
                line.push_str(&part);
            }
        }
    }
    lines.retain(|line| !line.is_empty());
    lines
}

fn tooltip(series: &Series, category: Option<&String>, point: &Point) -> String {
    let at = category.map_or("", String::as_str);
    let warning = if point.warning.is_empty() { "" } else { ", warning: " };
    format!("{}, {at}: {}{warning}{}", series.name, short(point.value), point.warning)
}

fn text(
    out: &mut String,
    (x, y): (f64, f64),
    anchor: &str,
    class: &str,
    words: &str,
) -> fmt::Result {
    let mut shown: String = words.chars().take(TEXT_CHARS).collect();
    if shown.len() < words.len() {
        shown.push('…');
    }
    write!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\"")?;
    if anchor != "start" {
        write!(out, " text-anchor=\"{anchor}\"")?;
    }
    if !class.is_empty() {
        write!(out, " class=\"{class}\"")?;
    }
    write!(out, ">{}</text>", escaped(&shown))
}

/// Escapes text for XML and HTML; characters that XML cannot represent are dropped.
pub(in crate::report) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' | '\r' => out.push(' '),
            c if c.is_control() || c == '\u{fffe}' || c == '\u{ffff}' => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn series_of_one_target_differ_in_dash_and_mark() {
        let one = |place: usize| Series {
            name: format!("p{place}"),
            points: Vec::new(),
            published: false,
            colour: Some(5),
        };
        let series: Vec<Series> = (0..16).map(one).collect();
        let style = |place| SeriesStyle::of(&series, place);
        let looks = (0..16).map(style).map(|style| (style.dash, style.shape % 4));
        assert_eq!(looks.collect::<BTreeSet<_>>().len(), series.len());
    }

    #[test]
    fn bars_of_many_targets_differ() {
        let one = |place: usize| Series {
            name: format!("target {place}"),
            points: Vec::new(),
            published: false,
            colour: Some(place),
        };
        let series: Vec<Series> = (0..32).map(one).collect();
        let bars = (0..32).map(|place| SeriesStyle::of(&series, place).bar(false));
        assert_eq!(bars.collect::<BTreeSet<_>>().len(), series.len());
    }
}
