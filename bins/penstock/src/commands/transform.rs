//! `penstock xml transform`: an XSLT stylesheet on a file.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

use base::SystemClock;
use clap::Args;
use xml::{Document, Position, is_ncname};
use xslt::{Params, Resolved, Resolver, Stylesheet, TransformError};

use super::source::{Source, bounded, is_stdin, print, printable, report_at, stdin_once};
use super::xml::read;
use crate::failure::Failure;

/// Transform a file with an XSLT 1.0 stylesheet
///
/// Prints the result. Other files (xsl:import, xsl:include, document()) are read from the folder of the
/// sheet and the folders below it, by paths relative to the sheet or document that names them; those of
/// FILE itself are relative to the sheet. Nothing else is read, and nothing from the network. A
/// sheet from stdin reads no other file. What xsl:message says goes to stderr.
#[derive(Args)]
#[command(after_help = "Examples:
  penstock xml transform invoice.xslt order.xml
  penstock xml transform invoice.xslt order.xml --param currency=EUR --param '{urn:shop}vat=19'
  curl -s https://example.org/feed.xml | penstock xml transform titles.xslt -

--repeat prints one line of JSON on stderr, medians in microseconds:
  parse_us      reading FILE's bytes into a tree
  transform_us  the sheet's run, which writes the result's bytes as it makes them
  serialise_us  always 0: no result tree is made, so there is nothing to serialise afterwards
  total_us      all of it, with the release of the tree
The sheet is compiled once, before.")]
pub(crate) struct Transform {
    /// The stylesheet; `-` is stdin
    sheet: PathBuf,
    /// The XML file; `-` is stdin
    file: PathBuf,
    /// Give a parameter of the sheet a string; again for more. Names in a namespace: {uri}name=value
    #[arg(long, value_name = "K=V", value_parser = parameter)]
    param: Vec<(String, String)>,
    /// Do the work N times, reading FILE's bytes anew each time, and print what it took
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=REPEAT_MAX))]
    repeat: Option<u32>,
}

/// Most repetitions; more tell nothing new.
const REPEAT_MAX: i64 = 1_000_000;

pub(crate) fn run(arguments: &Transform) -> Result<(), Failure> {
    stdin_once([arguments.sheet.as_path(), arguments.file.as_path()])?;
    let sheet = Source::read(&arguments.sheet, xml::limits::XML_BYTES_MAX)?;
    let files = Files::below(&arguments.sheet)?;
    let compiled = Stylesheet::compile(&sheet.bytes, &files)
        .map_err(|e| files.report_at(&sheet, &e.uri, (e.line, e.column), &e.message))?;
    let params = given(&compiled, &arguments.param)?;
    let source = Source::read(&arguments.file, xml::limits::XML_BYTES_MAX)?;
    let failed =
        |e: &TransformError| files.report_at(&sheet, &e.uri, (e.line, e.column), &e.message);

    let transform = |document: &Document| {
        let mut out = Vec::new();
        let done = compiled.transform_with(document, &params, &files, &mut out);
        done.map(|()| out).map_err(|error| failed(&error))
    };
    let out = transform(&read(&source)?)?;
    print(|stdout| stdout.write_all(&out))?;
    let Some(times) = arguments.repeat else { return Ok(()) };
    files.silent.set(true);
    let clock = SystemClock::new();
    let mut taken = Vec::new();
    for _ in 0..times {
        let start = clock.now_ns();
        let document = read(&source)?;
        let parsed = clock.now_ns();
        let out = transform(&document)?;
        let transformed = clock.now_ns();
        drop((document, out));
        let end = clock.now_ns();
        taken.push([parsed - start, transformed - parsed, end - start]);
    }
    let [parse, transform, total] = [0, 1, 2].map(|part| median_us(&taken, part));
    let line = format!(
        "{{\"parse_us\":{parse},\"transform_us\":{transform},\"serialise_us\":0,\"total_us\":{total}}}\n"
    );
    // Whoever closed stderr doesn't want to know.
    drop(io::stderr().lock().write_all(line.as_bytes()));
    Ok(())
}

/// In microseconds, of times in nanoseconds.
fn median_us(taken: &[[u64; 3]], part: usize) -> f64 {
    let mut times: Vec<u64> = taken.iter().map(|times| times[part]).collect();
    times.sort_unstable();
    times[times.len() / 2] as f64 / 1_000.0
}

/// Only parameters that the sheet has, each once.
fn given(sheet: &Stylesheet, params: &[(String, String)]) -> Result<Params, Failure> {
    let known: Vec<String> = sheet.params().collect();
    let now_ms = SystemClock::new().origin_unix_us() / 1_000;
    let mut given = Params::new().now_ms(i64::try_from(now_ms).unwrap_or(i64::MAX));
    for (place, (name, value)) in params.iter().enumerate() {
        if params.iter().take(place).any(|(earlier, _)| earlier == name) {
            let message = format!("--param {name} is given twice; which one counts?");
            return Err(Failure::Usage(message));
        }
        if !known.contains(name) {
            let has = match known.as_slice() {
                [] => "none".to_owned(),
                known => known.join(", "),
            };
            let message = format!("--param {name}: the sheet has no such parameter; it has: {has}");
            return Err(Failure::Usage(message));
        }
        given = given.string(name, value);
    }
    Ok(given)
}

/// The files below the folder of the sheet, by their paths from there.
struct Files {
    /// None: nothing is read.
    folder: Option<PathBuf>,
    /// As the user wrote it.
    shown: PathBuf,
    /// What was read, to show lines of.
    texts: RefCell<HashMap<String, Source>>,
    /// Messages have been told already.
    silent: Cell<bool>,
}

impl Files {
    fn below(sheet: &Path) -> Result<Self, Failure> {
        let shown = sheet.parent().unwrap_or(Path::new("")).to_owned();
        let here = if shown.as_os_str().is_empty() { Path::new(".") } else { shown.as_path() };
        let folder = if is_stdin(sheet) {
            None
        } else {
            Some(here.canonicalize().map_err(|error| Failure::file("read", here, &error))?)
        };
        Ok(Self { folder, shown, texts: RefCell::default(), silent: Cell::new(false) })
    }

    /// The file that `href` names from `base`, and its path from the folder.
    fn find(&self, href: &str, base: &str) -> Result<(PathBuf, String), String> {
        let Some(folder) = &self.folder else {
            return Err(format!("`{href}` isn't read: the sheet came from stdin"));
        };
        let relative = Path::new(href);
        let scheme = href.split(['/', '?', '#']).next().is_some_and(|first| first.contains(':'));
        let plain =
            |part: Component<'_>| !matches!(part, Component::RootDir | Component::Prefix(_));
        if scheme || !relative.components().all(plain) {
            return Err(format!("`{href}` isn't read: only files below the sheet's folder are"));
        }
        let from = Path::new(base).parent().unwrap_or(Path::new(""));
        let asked = folder.join(from).join(relative);
        let file =
            asked.canonicalize().map_err(|error| format!("cannot read `{href}`: {error}"))?;
        match file.strip_prefix(folder).ok().and_then(Path::to_str) {
            Some(path) => Ok((file.clone(), path.to_owned())),
            None => Err(format!("`{href}` isn't read: it isn't below the sheet's folder")),
        }
    }

    /// Says what is wrong at a place of a sheet; `uri` is empty for the main one.
    fn report_at(
        &self,
        main: &Source,
        uri: &str,
        (line, column): (u32, u32),
        what: &str,
    ) -> Failure {
        let texts = self.texts.borrow();
        let other = texts.get(uri).filter(|_| !uri.is_empty());
        let source = other.unwrap_or(main);
        if line == 0 {
            return Failure::Error(format!("{}: {what}", source.name));
        }
        report_at(&source.name, &source.xml_text(), Position { line, column }, what)
    }
}

impl Resolver for Files {
    fn read(&self, href: &str, base: &str) -> Result<Resolved, String> {
        let (file, uri) = self.find(href, base)?;
        let most = xml::limits::XML_BYTES_MAX;
        let bytes = File::open(&file).and_then(|file| bounded(file, most));
        let bytes = bytes.map_err(|error| format!("cannot read `{href}`: {error}"))?;
        if bytes.len() > most as usize {
            return Err(format!(
                "`{href}` is larger than {most} bytes, the most that is read here"
            ));
        }
        let name = self.shown.join(&uri).display().to_string();
        let source = Source { name, bytes: bytes.clone() };
        self.texts.borrow_mut().insert(uri.clone(), source);
        Ok(Resolved { bytes, uri })
    }

    fn message(&self, text: &str) {
        if !self.silent.get() {
            let text: String =
                text.chars().map(|c| if c == '\n' { c } else { printable(c) }).collect();
            // Whoever closed stderr doesn't want to know.
            drop(writeln!(io::stderr().lock(), "{text}"));
        }
    }
}

/// `name=value` or `{uri}name=value`
fn parameter(argument: &str) -> Result<(String, String), String> {
    let braced = argument.strip_prefix('{').map(|rest| rest.split_once('}'));
    let (uri, rest) = match braced {
        Some(Some((uri, rest))) => (Some(uri), rest),
        Some(None) => return Err("a `}` is missing".to_owned()),
        None => (None, argument),
    };
    let (local, value) = rest.split_once('=').ok_or("write name=value")?;
    if !is_ncname(local) {
        return Err(format!("`{local}` is no name of a parameter; in a namespace: {{uri}}name"));
    }
    let name = match uri {
        None | Some("") => local.to_owned(),
        Some(uri) => format!("{{{uri}}}{local}"),
    };
    Ok((name, value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_with_their_namespace() {
        let pair = |a: &str, b: &str| Ok((a.to_owned(), b.to_owned()));
        assert_eq!(parameter("k=a=b"), pair("k", "a=b"));
        assert_eq!(parameter("{urn:a=b}k="), pair("{urn:a=b}k", ""));
        assert_eq!(parameter("{}k=v"), pair("k", "v"));
        for wrong in ["k", "=v", "p:k=v", "{u}=v", "{u=v"] {
            assert!(parameter(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_median_is_of_each_part_by_itself() {
        let taken = [[3_000, 1, 9], [1_500, 3, 7], [2_000, 2, 8]];
        assert_eq!([0, 1, 2].map(|part| median_us(&taken, part)), [2.0, 0.002, 0.008]);
    }
}
