//! The engines compared with libxml2 and libxslt. Builds `benches/engines` and its C peer and runs both alternately on
//! one core, several rounds per task. Times are CPU time of the thread; ratios are computed per round, and the median
//! is reported. `--into FILE` writes the tables into a document, between `<!-- engines -->` and
//! `<!-- end of engines -->`.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::Outcome;
use crate::shell::{self, Options};
use crate::workspace;

const SIZES: [(&str, &str); 3] = [("1000", "1 KB"), ("10000", "10 KB"), ("100000", "100 KB")];
const EXPRESSIONS: &str = "crates/xpath/benches-data/twenty.txt";
const SHEET: &str = "crates/xslt/tests/data/reverse.xslt";

/// Budgets: maximum time relative to libxml2 and libxslt, and maximum heap relative to the document's size.
const READ_MAX: f64 = 1.0 / 3.0;
const HEAP_MAX: f64 = 3.0;
const SELECT_MAX: f64 = 0.33;
const TRANSFORM_MAX: f64 = 0.25;
#[rustfmt::skip]
/// Tasks without a peer, with their budgets in nanoseconds.
const ALONE: &[(&[&str], f64)] = &[
    (&["jsonpath", "$.order.customer.address.city"],              1_000.0),
    (&["jsonpath", "$.items[3].name"],                            1_000.0),
    (&["expression", "${payload.order.customer.address.city}"],   1_000.0),
    (&["expression", "${payload.order.total > 100}"],             1_000.0),
    (&["expression", "${headers.tier == 'silver' ? payload.order.id : 'none'}"], 1_000.0),
    (&["template", "1024"],                                       3_000.0),
    (&["template", "102400"],                                     200_000.0),
];

/// The core that both programs are pinned to.
const CORE: &str = "1";
const ROUNDS: u64 = 3;

/// Names of the comparisons, as `--cells` takes them.
const CELLS: [&str; 5] = ["read", "heap", "transform", "select", "alone"];

/// The lines of a document between which the tables are.
const BEGIN: &str = "<!-- engines -->\n";
const END: &str = "<!-- end of engines -->";

/// Prints the tables, or writes them into a document; `--cells` selects from [`CELLS`].
///
/// # Errors
/// As [`tables`]; the document cannot be read or written, or has no place for tables.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Outcome {
    let options = Options::read(arguments, &["--cells", "--rounds", "--profile", "--into"], &[])?;
    if let Some(word) = options.rest.first() {
        return Err(format!("unexpected argument `{word}`"));
    }
    let cells: Vec<&str> =
        options.text("--cells").map_or(CELLS.to_vec(), |list| list.split(',').collect());
    if let Some(cell) = cells.iter().find(|cell| !CELLS.contains(cell)) {
        return Err(format!("no cell `{cell}`; --cells takes {}", CELLS.join(", ")));
    }
    let document = options.text("--into").map(|file| root.join(file));
    if let Some(file) = &document {
        // Before the measurement, which takes minutes.
        inserted(&read(file)?, "").map_err(|why| format!("{}: {why}", file.display()))?;
    }
    let page = tables(root, &options, &cells)?;
    let Some(file) = &document else {
        print!("{page}");
        return Ok(());
    };
    let text = inserted(&read(file)?, &page)?;
    std::fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))
}

/// `document` with `page` in the place of its tables.
fn inserted(document: &str, page: &str) -> Result<String, String> {
    let found = document.split_once(BEGIN).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(END)?;
        Some(format!("{before}{BEGIN}\n{page}\n{END}{after}"))
    });
    found
        .ok_or_else(|| format!("needs the lines `{}` and `{END}`, in this order", BEGIN.trim_end()))
}

/// Builds both programs and returns the tables.
///
/// # Errors
/// The headers of libxml2 or libxslt are missing, a program fails, or the programs have different results.
fn tables(root: &Path, options: &Options, cells: &[&str]) -> Result<String, String> {
    let profile = options.text("--profile").unwrap_or("release");
    let rounds = options.number("--rounds", ROUNDS)?.max(1);
    let folder = workspace::target_dir(root).join("bench").join("engines");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let ours = build_ours(root, profile)?;
    shell::run(Command::new(&ours).arg("documents").arg(&folder))?;
    let peer = build_peer(root, &folder)?;
    let origin = origin(&peer, cells, rounds, profile)?;
    let (ours, peer) = (Worker::start(&ours)?, Worker::start(&peer)?);
    let mut both = Both { ours, peer, folder, rounds };
    let chosen = |name: &str| cells.contains(&name);
    let mut parts = vec![origin];
    if chosen("read") || chosen("transform") {
        parts.push(documents(root, &mut both, &chosen)?);
    }
    if chosen("heap") {
        parts.push(heaps(&mut both)?);
    }
    if chosen("select") {
        parts.push(expressions(root, &mut both)?);
    }
    if chosen("alone") {
        parts.push(alone(&mut both)?);
    }
    Ok(parts.join("\n"))
}

/// The command, the date, the machine and the peer's versions.
fn origin(peer: &Path, cells: &[&str], rounds: u64, profile: &str) -> Result<String, String> {
    let day = shell::output(Command::new("date").args(["-u", "+%Y-%m-%d"]))?;
    let kernel = shell::output(Command::new("uname").arg("-r"))?;
    let versions = shell::output(Command::new(peer).arg("versions"))?;
    let machine = read(Path::new("/proc/cpuinfo"))?;
    let processor = machine
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("unknown processor", |(_, name)| name);
    Ok(format!(
        "- `cargo xtask engines --cells {}`, {}; {rounds} rounds, profile `{profile}`\n\
         - {processor}, {}; {}\n",
        cells.join(","),
        day.trim(),
        kernel.trim(),
        versions.trim(),
    ))
}

fn build_ours(root: &Path, profile: &str) -> Result<PathBuf, String> {
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--quiet", "--package", "penstock-engines", "--profile", profile]);
    shell::run(cargo.current_dir(root))?;
    Ok(workspace::target_dir(root).join(profile).join("penstock-engines"))
}

fn build_peer(root: &Path, folder: &Path) -> Result<PathBuf, String> {
    let program = folder.join("peer");
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-I/usr/include/libxml2", "-o"]).arg(&program);
    cc.arg(root.join("benches/engines/peer.c")).args(["-lexslt", "-lxslt", "-lxml2"]);
    shell::output(&mut cc).map_err(|why| {
        format!(
            "{why}\ncannot build the C peer; it needs a C compiler and the headers of libxml2 and libxslt \
             (on Debian: apt-get install gcc libxml2-dev libxslt1-dev)"
        )
    })?;
    Ok(program)
}

/// A running program that reads tasks and writes results, one line each. It exits when its stdin is closed.
struct Worker {
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    child: Child,
}

impl Worker {
    fn start(program: &Path) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", program.display());
        let mut taskset = Command::new("taskset");
        taskset.args(["-c", CORE]).arg(program);
        let mut child =
            taskset.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(failed)?;
        let output = child.stdout.take().ok_or("the child process has no stdout")?;
        Ok(Self { input: child.stdin.take(), output: BufReader::new(output), child })
    }

    /// Returns the measured number, and a summary of the result for comparison.
    fn run_task(&mut self, task: &str) -> Result<(f64, String), String> {
        let failed = |error: std::io::Error| format!("{task}: {error}");
        let input = self.input.as_mut().ok_or("the child process has no stdin")?;
        writeln!(input, "{task}").map_err(failed)?;
        let mut line = String::new();
        self.output.read_line(&mut line).map_err(failed)?;
        let result = line
            .trim_end()
            .split_once('\t')
            .and_then(|(number, summary)| Some((number.parse().ok()?, summary.to_owned())));
        result.ok_or_else(|| format!("{task}: the program returned no result"))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.input = None;
        _ = self.child.wait();
    }
}

struct Both {
    ours: Worker,
    peer: Worker,
    folder: PathBuf,
    rounds: u64,
}

/// The medians over all rounds, and the range of the ratio.
struct Compared {
    ours: f64,
    peer: f64,
    ratio: f64,
    least: f64,
    most: f64,
}

impl Both {
    fn compare(&mut self, what: &str, size: &str, with: Option<&str>) -> Result<Compared, String> {
        let file = self.folder.join(format!("{size}.xml"));
        let mut task = format!("{what}\t{}", file.display());
        if let Some(word) = with {
            task = format!("{task}\t{word}");
        }
        let mut samples = Vec::new();
        for _ in 0..self.rounds {
            let (ours, our_result) = self.ours.run_task(&task)?;
            let (peer, peer_result) = self.peer.run_task(&task)?;
            if our_result != peer_result {
                return Err(format!(
                    "{task}: our result is {our_result}, the peer's {peer_result}"
                ));
            }
            samples.push((ours, peer));
        }
        let ratios = samples.iter().map(|(ours, peer)| ours / peer);
        Ok(Compared {
            ours: median(samples.iter().map(|(ours, _)| *ours).collect()),
            peer: median(samples.iter().map(|(_, peer)| *peer).collect()),
            ratio: median(ratios.clone().collect()),
            least: ratios.clone().fold(f64::INFINITY, f64::min),
            most: ratios.fold(0.0, f64::max),
        })
    }
}

fn verdict(value: f64, budget: f64) -> &'static str {
    if value <= budget { "met" } else { "**missed**" }
}

/// Parsing, memory, and complete transformations.
fn documents(
    root: &Path,
    both: &mut Both,
    chosen: &dyn Fn(&str) -> bool,
) -> Result<String, String> {
    let sheet = root.join(SHEET).display().to_string();
    let mut page = String::from(
        "| buyStocks | document | Penstock µs | libxml2, libxslt µs | ratio (min to max) | budget | |\n\
         |---|--:|--:|--:|--:|--:|---|\n",
    );
    for (what, with, title, budget) in [
        ("read", None, "parse and drop", READ_MAX),
        ("transform", Some(sheet.as_str()), "parse, transform, serialise", TRANSFORM_MAX),
    ] {
        for (size, shown) in SIZES.iter().filter(|_| chosen(what)) {
            let Compared { ours, peer, ratio, least, most } = both.compare(what, size, with)?;
            let (ours, peer, met) = (ours / 1e3, peer / 1e3, verdict(ratio, budget));
            _ = writeln!(
                page,
                "| {title} | {shown} | {ours:.1} | {peer:.1} | {ratio:.3} ({least:.3} to {most:.3}) | {budget:.2} | {met} |"
            );
        }
    }
    Ok(page)
}

fn heaps(both: &mut Both) -> Result<String, String> {
    let mut page = String::from(
        "| heap of the tree, relative to the document's size | Penstock | libxml2 | budget | |\n|--:|--:|--:|--:|---|\n",
    );
    for (size, shown) in SIZES {
        let Compared { ours, peer, .. } = both.compare("heap", size, None)?;
        let file = both.folder.join(format!("{size}.xml"));
        let bytes = read(&file)?.len() as f64;
        let (ours, peer) = (ours / bytes, peer / bytes);
        let met = verdict(ours, HEAP_MAX);
        _ = writeln!(page, "| {shown} | {ours:.2} | {peer:.1} | {HEAP_MAX:.1} | {met} |");
    }
    Ok(page)
}

/// Twenty expressions on a parsed tree, and the ratios of their sums.
fn expressions(root: &Path, both: &mut Both) -> Result<String, String> {
    let list = read(&root.join(EXPRESSIONS))?;
    let mut page = format!(
        "| XPath on a parsed tree: ns (ratio to libxml2, budget {SELECT_MAX}) | 1 KB | 10 KB | 100 KB |\n\
         |---|--:|--:|--:|\n"
    );
    let mut sums = SIZES.map(|_| (0.0, 0.0));
    let mut over = SIZES.map(|_| 0);
    for expression in list.lines().filter(|line| !line.starts_with('#')) {
        _ = write!(page, "| `{}` |", expression.replace('|', "\\|"));
        for (((size, _), sum), over) in SIZES.iter().zip(&mut sums).zip(&mut over) {
            let Compared { ours, peer, ratio, .. } =
                both.compare("select", size, Some(expression))?;
            *sum = (sum.0 + ours, sum.1 + peer);
            let mark = if ratio <= SELECT_MAX { "" } else { "**" };
            *over += i32::from(ratio > SELECT_MAX);
            _ = write!(page, " {ours:.0} ({mark}{ratio:.2}{mark}) |");
        }
        page.push('\n');
    }
    page.push_str("| all: ratio of the sums, expressions above the budget |");
    for ((ours, peer), over) in sums.iter().zip(over) {
        _ = write!(page, " {:.2}, {over} |", ours / peer);
    }
    page.push('\n');
    Ok(page)
}

/// Tasks without a peer, compared with their budgets.
fn alone(both: &mut Both) -> Result<String, String> {
    let mut page = String::from(
        "| JSON on a parsed document of 1 KiB; templates from bytes to bytes | ns | budget | |\n|---|--:|--:|---|\n",
    );
    for (words, budget) in ALONE {
        let mut times = Vec::new();
        for _ in 0..both.rounds {
            times.push(both.ours.run_task(&words.join("\t"))?.0);
        }
        let time = median(times);
        let met = verdict(time, *budget);
        _ = writeln!(page, "| `{}` | {time:.0} | {budget:.0} | {met} |", words.join(" "));
    }
    Ok(page)
}

/// The median; 0 if there are no values.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    let at = |index: usize| values.get(index).copied().unwrap_or(0.0);
    if values.len().is_multiple_of(2) {
        f64::midpoint(at(half.saturating_sub(1)), at(half))
    } else {
        at(half)
    }
}

fn read(file: &Path) -> Result<String, String> {
    std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_even_number_of_values_has_the_mean_of_the_middle_two() {
        assert!((median(vec![3.0, 1.0, 2.0]) - 2.0).abs() < f64::EPSILON);
        assert!((median(vec![4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < f64::EPSILON);
        assert!(median(Vec::new()).abs() < f64::EPSILON);
    }

    #[test]
    fn tables_replace_those_between_the_markers() {
        let before = format!("text\n{BEGIN}\n| old |\n\n{END}\nmore\n");
        let after = format!("text\n{BEGIN}\n| new |\n\n{END}\nmore\n");
        assert_eq!(inserted(&before, "| new |\n"), Ok(after));
        assert!(inserted(&format!("{END}\n{BEGIN}"), "| new |\n").is_err());
    }
}
