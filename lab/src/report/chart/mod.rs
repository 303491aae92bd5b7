//! A chart as data, rendered as an SVG image and as an equivalent table.
//!
//! Architecture invariant: pure. The same chart gives the same bytes.

mod scale;
mod svg;

pub(super) use scale::short;
pub use svg::Setting;
pub(super) use svg::{colour_class, escaped, page_style};

/// A chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// Stable id of letters, digits and dashes; used as file name and element id.
    pub id: String,
    pub title: String,
    /// Name of the category axis: `users`, `message size`.
    pub x_name: String,
    /// Name of the value axis, with the unit.
    pub y_name: String,
    pub plot: Plot,
    /// Written to a file only; the page lists its name.
    pub off_page: bool,
}

/// The kind of chart, with its data.
#[derive(Clone, Debug, PartialEq)]
pub enum Plot {
    /// One point per category and series, connected.
    Lines { categories: Vec<String>, series: Vec<Series> },
    /// One bar per category and series.
    Bars { categories: Vec<String>, series: Vec<Series> },
    /// The same, drawn from left to right below the category's name.
    Rows { categories: Vec<String>, series: Vec<Series> },
    /// Shades over time (left to right) and value (bottom to top).
    Heat(Heat),
}

/// A named list of values, one per category.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    pub name: String,
    pub points: Vec<Option<Point>>,
    /// A published result: drawn in the background, in grey.
    pub published: bool,
    /// The target's number, which has the same colour on the whole page. `None`: its place in the chart.
    pub colour: Option<usize>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    pub value: f64,
    /// The warnings; empty if there are none.
    pub warning: String,
}

/// A heat map: number of requests by time and latency.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Heat {
    /// Names of the columns, such as `12 s`.
    pub columns: Vec<String>,
    /// Names of the rows from the bottom, such as `1.5 ms`.
    pub rows: Vec<String>,
    /// Counts: `cells[column][row]`.
    pub cells: Vec<Vec<u64>>,
    /// The target's number, as of a [`Series`].
    pub colour: Option<usize>,
    /// The equivalent table: a header, and a line per column.
    pub header: Vec<String>,
    pub table: Vec<Vec<String>>,
}

impl Point {
    #[must_use]
    pub fn valid(value: f64) -> Self {
        Self { value, warning: String::new() }
    }
}

impl Chart {
    /// The image; `setting`: where it will be used.
    #[must_use]
    pub fn svg(&self, setting: Setting) -> String {
        svg::draw(self, setting)
    }

    /// Kind of the chart: its title without the case.
    pub(in crate::report) fn kind(&self) -> &str {
        let kind = self.title.split(": ").next().unwrap_or_default();
        kind.split(" of ").next().unwrap_or_default()
    }

    /// The equivalent table: header and rows, with warnings in their cells.
    #[must_use]
    pub fn table(&self) -> (Vec<String>, Vec<Vec<String>>) {
        let (categories, series) = match &self.plot {
            Plot::Lines { categories, series }
            | Plot::Bars { categories, series }
            | Plot::Rows { categories, series } => (categories, series),
            Plot::Heat(heat) => return (heat.header.clone(), heat.table.clone()),
        };
        let mut header = vec![self.x_name.clone()];
        header.extend(series.iter().map(|one| one.name.clone()));
        let rows = categories.iter().enumerate().map(|(place, category)| {
            let mut row = vec![category.clone()];
            row.extend(series.iter().map(|one| cell(one.points.get(place))));
            row
        });
        (header, rows.collect())
    }

    /// The number that a cell of the table stands for, to sort by; `None`: sort by the text. The number of a category
    /// is its position.
    #[must_use]
    pub fn number(&self, row: usize, column: usize) -> Option<f64> {
        let Some(place) = column.checked_sub(1) else { return Some(row as f64) };
        match &self.plot {
            Plot::Lines { series, .. } | Plot::Bars { series, .. } | Plot::Rows { series, .. } => {
                Some(series.get(place)?.points.get(row)?.as_ref()?.value)
            }
            Plot::Heat(_) => None,
        }
    }

    /// A text description for screen readers: the extremes of each series.
    #[must_use]
    pub fn description(&self) -> String {
        let (categories, series) = match &self.plot {
            Plot::Lines { categories, series }
            | Plot::Bars { categories, series }
            | Plot::Rows { categories, series } => (categories, series),
            Plot::Heat(heat) => {
                return format!(
                    "{} over {}: a heat map of {} intervals. The table has the same figures.",
                    self.y_name,
                    self.x_name,
                    heat.columns.len()
                );
            }
        };
        let mut words = vec![format!("{} by {}.", self.y_name, self.x_name)];
        words.extend(series.iter().filter_map(|one| of_series(one, categories)));
        words.push("The table has the same figures.".to_owned());
        words.join(" ")
    }
}

fn of_series(series: &Series, categories: &[String]) -> Option<String> {
    let points = || {
        categories
            .iter()
            .zip(&series.points)
            .filter_map(|(category, point)| point.as_ref().map(|point| (category, point.value)))
    };
    let by_value = |a: &(&String, f64), b: &(&String, f64)| a.1.total_cmp(&b.1);
    let (low, high) = (points().min_by(by_value)?, points().max_by(by_value)?);
    Some(format!(
        "{}: from {} at {} to {} at {}.",
        series.name,
        short(low.1),
        low.0,
        short(high.1),
        high.0
    ))
}

fn cell(point: Option<&Option<Point>>) -> String {
    match point {
        Some(Some(Point { value, warning })) if warning.is_empty() => short(*value),
        Some(Some(Point { value, warning })) => {
            format!("{} (warning: {warning})", short(*value))
        }
        Some(None) | None => "no figure".to_owned(),
    }
}
