//! The results of a run as one Markdown table, and its place in a document.
//!
//! A row has the medians of a case over the repetitions in which the figure is usable; `*` marks a figure that a
//! warning concerns in all repetitions. Columns without a figure are left out. The table begins with the verdict, the
//! command, the date and the machine, and ends with the failed cases and those not served, so that the document needs
//! nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::view::{CaseView, median, size, trimmed};
use super::{ranking, summary};
use crate::compare::{Confidence, Metric, Ratio, Samples, ratio, samples};
use crate::result::{Case, State};
use crate::warning::Figures;

/// Maximum length of a line of text.
const LINE_CHARS: usize = 120;
const MIB: f64 = 1_024.0 * 1_024.0;

/// Below a table with ratios.
const ABOUT_RATIOS: &str = "\n\
    Ratios are geometric means over the repetitions, so they may differ from those of the medians in the table. Each\n\
    interval is one of 95 % on its own, not corrected for the number of rows.\n";

/// Marks a ratio of targets that did not run interleaved.
const APART: &str = "†";

/// A column of figures.
struct Column {
    name: &'static str,
    figures: Figures,
    decimals: usize,
    of: fn(&CaseView) -> Option<f64>,
}

#[rustfmt::skip]
const COLUMNS: &[Column] = &[
    column("CPU us/request", Figures::Cpu, 1, CaseView::cpu_us),
    column("requests/s", Figures::Rate, 0, |view| view.exact("throughput_per_s")),
    column("p50 ms", Figures::Latency, 3, |view| view.exact("p50_ms")),
    column("p99 ms", Figures::Latency, 3, |view| view.exact("p99_ms")),
    column("errors %", Figures::Rate, 2, |view| view.exact("error_percent").filter(|percent| *percent > 0.0)),
    column("peak MiB", Figures::Cpu, 1, |view| Some(view.use_of_target()?.rss_peak_bytes as f64 / MIB)),
    column("ready ms", Figures::Cpu, 1, |view| Some(view.result().start?.ready_ms)),
    column("idle MiB", Figures::Cpu, 1, CaseView::idle_mib),
    column("changes live", Figures::Cpu, 0, |view| Some(view.result().changes?.live as f64)),
    column("changes lost", Figures::Cpu, 0, |view| Some(view.result().changes?.lost as f64)),
    column("until live p50 ms", Figures::Cpu, 1, |view| Some(view.result().changes?.p50_ms)),
    column("until live p99 ms", Figures::Cpu, 1, |view| Some(view.result().changes?.p99_ms)),
];

const fn column(
    name: &'static str,
    figures: Figures,
    decimals: usize,
    of: fn(&CaseView) -> Option<f64>,
) -> Column {
    Column { name, figures, decimals, of }
}

/// Reference of the CPU times of the rows.
#[derive(Clone, Debug, Default)]
pub struct References {
    /// In each cell, the first of these targets that has a figure there.
    pub targets: Vec<String>,
    /// If none of the targets was measured: the same target in this scenario.
    pub scenario: Option<String>,
}

/// The measured references.
enum Reference<'r> {
    Targets(&'r [String]),
    Scenario(&'r str),
}

/// The repetitions of one case.
struct Group<'v> {
    views: Vec<&'v CaseView>,
}

/// The table, with the CPU time relative to `references`, if one was measured.
#[must_use]
pub fn table(views: &[CaseView], references: &References) -> String {
    let mut out = String::new();
    for line in origin(views) {
        let _ = writeln!(out, "{}", wrapped(&line));
    }
    let groups = groups(views);
    let reference = references.measured(&groups);
    let used: Vec<&Column> = COLUMNS
        .iter()
        .filter(|column| groups.iter().any(|group| group.cell(column).is_some()))
        .collect();
    let mut header = vec!["scenario".to_owned(), "users".to_owned(), "size".to_owned()];
    header.push("target".to_owned());
    header.extend(used.iter().map(|column| column.name.to_owned()));
    header.extend(reference.as_ref().map(|reference| match reference {
        Reference::Targets(names) => format!("CPU of {}'s", names.join("'s or ")),
        Reference::Scenario(name) => format!("CPU of {name}'s"),
    }));
    let line = |cells: &[String]| format!("| {} |", cells.join(" | "));
    let numbers = "--:|".repeat(header.len() - 4);
    // Writing to a String cannot fail.
    let _ = writeln!(out, "\n{}\n|---|--:|--:|---|{numbers}", line(&header));
    for group in &groups {
        let Some(case) = group.case() else { continue };
        let mut cells = vec![case.scenario.clone(), case.users.to_string()];
        cells.extend([size(case.payload_bytes), group.target().replace('|', "\\|")]);
        cells.extend(used.iter().map(|column| group.cell(column).unwrap_or_default()));
        cells.extend(reference.as_ref().map(|reference| group.relative_to(reference, &groups)));
        let _ = writeln!(out, "{}", line(&cells));
    }
    if out.contains("* |") {
        out.push_str("\n`*`: a warning concerns this figure in all repetitions.\n");
    }
    if out.contains(APART) {
        let _ = writeln!(out, "\n`{APART}`: not interleaved, so the ratio includes any drift.");
    }
    if out.contains(") |") || out.contains(&format!("){APART} |")) {
        out.push_str(ABOUT_RATIOS);
    }
    out.push_str(&not_measured(views));
    out
}

/// The cases of each target that failed or are not served, with the reason.
fn not_measured(views: &[CaseView]) -> String {
    let mut missing: BTreeMap<(bool, &str, &str), Vec<&Case>> = BTreeMap::new();
    for found in views.iter().map(CaseView::result).filter(|one| one.state != State::Measured) {
        // The reason of a failure is followed by its log.
        let reason = found.reason.iter().flat_map(|reason| reason.lines()).next();
        let is_served = found.state == State::Failed;
        let key = (!is_served, reason.unwrap_or_default(), found.case.target.as_str());
        missing.entry(key).or_default().push(&found.case);
    }
    let mut out = String::new();
    for ((not_served, reason, target), cases) in missing {
        let scenarios: BTreeSet<&str> = cases.iter().map(|case| case.scenario.as_str()).collect();
        let outcome = match (not_served, cases.len()) {
            (true, _) => "not served".to_owned(),
            (false, 1) => format!("1 case of {target} failed"),
            (false, count) => format!("{count} cases of {target} failed"),
        };
        let scenarios = Vec::from_iter(scenarios).join(", ");
        let _ = writeln!(out, "{}", wrapped(&format!("- {scenarios}: {outcome}; {reason}")));
    }
    if out.is_empty() { out } else { format!("\n{out}") }
}

/// Verdict, command, date and machine, one item each.
fn origin(views: &[CaseView]) -> Vec<String> {
    let measured =
        || views.iter().map(CaseView::result).filter(|found| found.state == State::Measured);
    let mut lines: Vec<String> =
        ranking::verdict(views).map(|verdict| format!("- {verdict}")).into_iter().collect();
    let commands: BTreeSet<String> = measured().map(|found| command(&found.command)).collect();
    lines.extend(commands.into_iter().map(|command| format!("- `{command}`")));
    lines.push(format!("- measured on {}; {}", summary::days(views), summary::counts(views)));
    let environment: BTreeSet<String> = measured().flat_map(summary::environment).collect();
    lines.extend(
        (!environment.is_empty())
            .then(|| format!("- {}", environment.into_iter().collect::<Vec<_>>().join("; "))),
    );
    lines
}

/// The command line without the paths of this machine: the program's name, and `DIR` for the results' folder.
fn command(words: &[String]) -> String {
    let Some((program, rest)) = words.split_first() else { return String::new() };
    let mut shown = vec![program.rsplit('/').next().unwrap_or_default()];
    for word in rest {
        let is_folder = shown.last() == Some(&"--out");
        shown.push(if is_folder { "DIR" } else { word });
    }
    shown.join(" ")
}

/// A list item in lines of at most [`LINE_CHARS`].
fn wrapped(item: &str) -> String {
    let (mut out, mut length) = (String::new(), 0);
    for word in item.split_whitespace() {
        let chars = word.chars().count();
        if length > 0 && length + 1 + chars > LINE_CHARS {
            out.push_str("\n  ");
            length = 2;
        } else if length > 0 {
            out.push(' ');
            length += 1;
        }
        out.push_str(word);
        length += chars;
    }
    out
}

/// Measured cases, repetitions together, with the targets of a cell one below the other.
fn groups(views: &[CaseView]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for view in views.iter().filter(|view| view.result().state == State::Measured) {
        let id = &view.result().case.id;
        let known = groups.iter_mut().find(|group| group.case().is_some_and(|case| case.id == *id));
        match known {
            Some(group) => group.views.push(view),
            None => groups.push(Group { views: vec![view] }),
        }
    }
    groups.sort_by(|one, other| one.cell_of_matrix().cmp(&other.cell_of_matrix()));
    groups
}

impl References {
    fn measured(&self, groups: &[Group<'_>]) -> Option<Reference<'_>> {
        let Self { targets, scenario } = self;
        let is_measured = |name: &&str| groups.iter().any(|group| group.is_of_scenario(name));
        match groups.iter().any(|group| targets.contains(&group.target())) {
            true => Some(Reference::Targets(targets)),
            false => scenario.as_deref().filter(is_measured).map(Reference::Scenario),
        }
    }
}

impl Group<'_> {
    fn is_of_scenario(&self, name: &str) -> bool {
        self.case().is_some_and(|case| case.scenario == name)
    }

    fn case(&self) -> Option<&Case> {
        self.views.first().map(|view| &view.result().case)
    }

    /// The key that a case shares with those that it is compared with.
    fn cell_of_matrix(&self) -> Option<(&str, u32, u64, u64)> {
        let case = self.case()?;
        Some((&case.scenario, case.users, case.payload_bytes, case.delay_ms))
    }

    fn target(&self) -> String {
        self.views.first().map(|view| view.name()).unwrap_or_default()
    }

    fn cell(&self, column: &Column) -> Option<String> {
        let all = || self.views.iter().filter_map(|view| Some((view, (column.of)(view)?)));
        let usable = all().filter(|(view, _)| view.is_usable(column.figures));
        let text = |value: f64| trimmed(value, column.decimals);
        median(usable.map(|(_, value)| value))
            .map(text)
            .or_else(|| Some(format!("{}*", text(median(all().map(|(_, value)| value))?))))
    }

    /// The row that this one is compared with.
    fn reference<'g>(&self, reference: &Reference<'_>, groups: &'g [Self]) -> Option<&'g Self> {
        let of_target = |name: &String| {
            let same = |other: &&Self| {
                other.target() == *name && self.cell_of_matrix() == other.cell_of_matrix()
            };
            groups.iter().find(same)
        };
        let load =
            |group: &Self| group.cell_of_matrix().map(|(_, users, size, ms)| (users, size, ms));
        match reference {
            Reference::Targets(names) => names.iter().find_map(of_target),
            Reference::Scenario(name) => groups.iter().find(|other| {
                other.is_of_scenario(name)
                    && other.target() == self.target()
                    && load(other) == load(self)
            }),
        }
    }

    /// The ratio to the reference, with its 95 % interval.
    fn relative_to(&self, reference: &Reference<'_>, groups: &[Self]) -> String {
        let Some(other) = self.reference(reference, groups) else { return String::new() };
        if std::ptr::eq(self, other) {
            return "1".to_owned();
        }
        let (samples, interleaved) = samples(&other.views, &self.views, Metric::Cpu);
        let mark = if interleaved { "" } else { APART };
        match (ratio(&samples, Confidence::Percent95), samples) {
            (Some(Ratio { low, ratio, high, .. }), _) => {
                format!("{ratio:.3} ({low:.3} to {high:.3}){mark}")
            }
            (None, Samples::Pairs(pairs)) => {
                pairs.first().map_or(String::new(), |(of, to)| format!("{:.3}", to / of))
            }
            (None, Samples::Apart(of, to)) => match (of.first(), to.first()) {
                (Some(of), Some(to)) => format!("{:.3}", to / of),
                (None, _) | (_, None) => String::new(),
            },
        }
    }
}

/// The document with `table` between its markers `<!-- lab NAME -->` and `<!-- end of NAME -->`.
///
/// # Errors
/// The document lacks the markers, or has them in the wrong order.
pub fn inserted(document: &str, name: &str, table: &str) -> Result<String, String> {
    let (begin, end) = (format!("<!-- lab {name} -->\n"), format!("<!-- end of {name} -->"));
    let found = document.split_once(&begin).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(&end)?;
        Some(format!("{before}{begin}\n{table}\n{end}{after}"))
    });
    found.ok_or_else(|| {
        format!("the document needs the lines `{}` and `{end}`, in this order", begin.trim_end())
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::report::results::StoredResult;
    use crate::result::tests::sample;
    use crate::result::{Changes, Use};

    fn view(target: &str, repetition: u32, cpu_us: f64) -> CaseView {
        let mut result = sample();
        result.case.id = format!("passthrough/{target}");
        (result.case.target, result.case.repetition) = (target.to_owned(), repetition);
        (result.case.sweep, result.case.heap) = (None, None);
        result.load = serde_json::json!({
            "throughput_per_s": 1_000.4, "requests": 100, "errors": 0, "p50_ms": 1.25,
        });
        result.target_use =
            Some(Use { cpu_user_us: cpu_us, rss_peak_bytes: 3 << 20, ..Use::default() });
        CaseView::new(StoredResult { file: "result.json".into(), result })
    }

    fn to(targets: &[&str]) -> References {
        let targets = targets.iter().map(|name| (*name).to_owned()).collect();
        References { targets, scenario: Some("none".to_owned()) }
    }

    #[test]
    fn policies_are_compared_with_the_scenario_without_one_in_pairs() {
        let mut views = Vec::new();
        // Everything drifts by a fifth from repetition to repetition.
        for (repetition, drift) in (1..).zip([1.0, 1.2, 1.44, 1.728]) {
            for (minute, scenario, cpu_us) in [(0, "none", 10.0), (1, "a-policy", 15.0)] {
                let mut one = view("ours", repetition, cpu_us * drift);
                let result = &mut one.found.result;
                result.case.id = format!("{scenario}/ours");
                result.case.scenario = scenario.to_owned();
                result.started = format!("2026-01-01T00:{repetition}{minute}:00Z");
                views.push(one);
            }
        }
        let text = table(&views, &to(&["absent"]));
        for part in ["| CPU of none's |", "| 1.500 (1.500 to 1.500) |", "| 1 |"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn rows_have_medians_and_the_ratio_to_the_reference() {
        let mut views = Vec::new();
        for repetition in 1..=3 {
            let drift = f64::from(repetition);
            views.extend([
                view("nginx", repetition, 20.0 * drift),
                view("ours", repetition, 15.0 * drift),
            ]);
        }
        views[1].warnings = vec![crate::validity::recorded("errors", "failed")];
        for scenario in ["xslt", "mediation"] {
            let mut one = view("ours", 1, 1.0);
            one.found.result.case.scenario = scenario.to_owned();
            one.found.result.state = State::NotServed;
            one.found.result.reason = Some("ours does not support xml".to_owned());
            views.push(one);
        }
        for (repetition, scenario) in [(1, "bearer"), (2, "bearer"), (1, "forward")] {
            let mut one = view("nginx", repetition, 1.0);
            one.found.result.case.scenario = scenario.to_owned();
            one.found.result.state = State::Failed;
            one.found.result.reason = Some("nginx ended during the case\nits log".to_owned());
            views.push(one);
        }
        let text = table(&views, &to(&["other", "nginx"]));
        for row in [
            "| scenario | users | size | target | CPU us/request | requests/s | p50 ms | peak MiB | ready ms | \
             idle MiB | CPU of other's or nginx's |",
            "- ours has the least CPU time per request; nginx: 1.33 times that (1.33 to 1.33).",
            "\n- bearer, forward: 3 cases of nginx failed; nginx ended during the case\n\
             - mediation, xslt: not served; ours does not support xml\n",
            "\nRatios are geometric means over the repetitions, so they may differ from those of the medians",
            "| passthrough | 10 | 1KiB | nginx | 40 | 1000 | 1.25 | 3 | 17.5 | 8.6 | 1 |",
            "| passthrough | 10 | 1KiB | ours | 30 | 1000 | 1.25 | 3 | 17.5 | 8.6 | 0.750 (0.750 to 0.750) |",
            "- `penstock lab`",
            "- measured on 2026-01-01; 11 cases: 6 measured (usable: CPU in 5, rate in 5, latency in 5), 2 not",
        ] {
            assert!(text.contains(row), "{row}\n{text}");
        }
        assert!(
            text.lines().all(|line| line.starts_with('|') || line.chars().count() <= 120),
            "{text}"
        );
    }

    #[test]
    fn targets_that_did_not_run_interleaved_are_not_compared_in_pairs() {
        let mut views = Vec::new();
        for (hour, target, cpu_us) in [(1, "nginx", 20.0), (2, "ours", 10.0)] {
            for repetition in 1..=3 {
                let mut one = view(target, repetition, cpu_us * (1.0 + f64::from(repetition)));
                one.found.result.started = format!("2026-01-01T0{hour}:0{repetition}:00Z");
                views.push(one);
            }
        }
        let text = table(&views, &to(&["nginx"]));
        assert!(text.contains("| 0.500 (0.147 to 1.699)† |"), "{text}");
        assert!(text.contains("`†`: not interleaved") && text.contains("Can't tell"), "{text}");
    }

    #[test]
    fn the_targets_of_a_cell_are_in_adjacent_rows() {
        let mut views = Vec::new();
        for (target, users) in [("nginx", 10), ("nginx", 20), ("ours", 10), ("ours", 20)] {
            let mut one = view(target, 1, 15.0);
            one.found.result.case.id = format!("{target}/{users}");
            one.found.result.case.users = users;
            one.found.result.command =
                ["penstock", "lab", "run", "--out", "/var/x"].map(str::to_owned).into();
            views.push(one);
        }
        let text = table(&views, &to(&["absent"]));
        assert!(!text.contains("CPU of absent's"), "{text}");
        let rows: Vec<&str> =
            text.lines().filter(|line| line.starts_with("| passthrough")).collect();
        let starts =
            ["10 | 1KiB | nginx", "10 | 1KiB | ours", "20 | 1KiB | nginx", "20 | 1KiB | ours"];
        assert!(
            rows.len() == 4 && rows.iter().zip(starts).all(|(row, start)| row.contains(start)),
            "{text}"
        );
        assert!(text.contains("`penstock lab run --out DIR`"), "{text}");
    }

    #[test]
    fn figures_with_warnings_are_marked_and_changes_have_columns() {
        let mut one = view("ours", 1, 15.0);
        one.found.result.changes =
            Some(Changes { live: 9, lost: 1, p50_ms: 8.04, p99_ms: 20.0, max_ms: 30.0 });
        one.warnings = vec![crate::validity::recorded("errors", "failed")];
        let text = table(&[one], &to(&[]));
        assert!(
            text.contains(
                "| ours | 15* | 1000* | 1.25* | 3* | 17.5* | 8.6* | 9* | 1* | 8* | 20* |"
            ),
            "{text}"
        );
        assert!(text.contains("until live p99 ms |") && text.contains("`*`: a warning"), "{text}");
    }

    #[test]
    fn a_table_replaces_the_one_in_the_document() {
        let document = "# A\n\n<!-- lab x -->\nold\n<!-- end of x -->\n\n<!-- lab y -->\nkept\n<!-- end of y -->\n";
        let new = inserted(document, "x", "| new |\n").unwrap();
        assert_eq!(
            new,
            "# A\n\n<!-- lab x -->\n\n| new |\n\n<!-- end of x -->\n\n<!-- lab y -->\nkept\n<!-- end of y -->\n"
        );
        assert_eq!(inserted(&new, "x", "| new |\n").unwrap(), new);
        assert!(inserted(document, "z", "").unwrap_err().contains("`<!-- lab z -->`"));
    }
}
