//! `penstock xml transform`: applies an XSLT stylesheet to a file.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use base::SystemClock;
use clap::Args;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use xml::{Document, Position, is_ncname};
use xslt::{Budget, Error, Options, Params, Resolver, Resource, Stylesheet};

use super::print;
use super::source::{Source, bounded, is_stdin, printable, report_at, stdin_once};
use super::xml::read;
use crate::failure::Failure;

/// Transform a file with an XSLT 1.0 stylesheet
///
/// Prints the result. URI references (xsl:import, xsl:include, document(), external parameter entities) may
/// name files in the folder of SHEET and the folders below it; they are relative to the stylesheet or
/// document that contains them, and those in FILE to SHEET. Nothing else is read, and nothing from the
/// network. A stylesheet from stdin can read no other file. Messages of xsl:message go to stderr.
#[derive(Args)]
#[command(after_help = "Examples:
  penstock xml transform invoice.xslt order.xml
  penstock xml transform invoice.xslt order.xml --param currency=EUR --param '{urn:shop}vat=19'
  curl -s https://example.org/feed.xml | penstock xml transform titles.xslt -

--repeat prints one line of JSON on stderr, medians in microseconds:
  parse_us      parsing FILE
  transform_us  transforming it, including writing the result
  serialise_us  always 0: the result is written while it is produced
  total_us      all of it, including freeing memory
The stylesheet is compiled once, before.")]
pub(crate) struct Transform {
    /// The stylesheet; `-` is stdin
    sheet: PathBuf,
    /// The XML file; `-` is stdin
    file: PathBuf,
    /// Set a stylesheet parameter to a string; repeatable. In a namespace: {uri}name=value
    #[arg(long, value_name = "K=V", value_parser = parameter)]
    param: Vec<(String, String)>,
    /// Parse and transform N more times, and print median times
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=REPEAT_MAX))]
    repeat: Option<u32>,
}

/// Maximum number of repetitions.
const REPEAT_MAX: i64 = 1_000_000;

pub(crate) fn run(arguments: &Transform) -> Result<(), Failure> {
    stdin_once([arguments.sheet.as_path(), arguments.file.as_path()])?;
    let sheet = Source::read(&arguments.sheet, xml::limits::XML_BYTES_MAX)?;
    let files = Files::below(&arguments.sheet)?;
    let compiled = Stylesheet::compile(&sheet.bytes, &files)
        .map_err(|e| files.report_at(&sheet, &e.uri, (e.line, e.column), &e.message))?;
    let params = given(&compiled, &arguments.param)?;
    let source = Source::read(&arguments.file, xml::limits::XML_BYTES_MAX)?;
    let failed = |e: &Error| files.report_at(&sheet, &e.uri, (e.line, e.column), &e.message);
    let now_ms = i64::try_from(SystemClock::new().origin_unix_us() / 1_000).unwrap_or(i64::MAX);
    let options = Options::new().params(&params).resolver(&files).now_ms(now_ms);

    let transform = |document: &Document| {
        let mut out = Vec::new();
        let done = compiled.transform_with(document, &options, &Budget::large(), &mut out);
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
    // A closed stderr is not an error.
    drop(io::stderr().lock().write_all(line.as_bytes()));
    Ok(())
}

/// The median in microseconds of times in nanoseconds.
fn median_us(taken: &[[u64; 3]], part: usize) -> f64 {
    let mut times: Vec<u64> = taken.iter().map(|times| times[part]).collect();
    times.sort_unstable();
    times[times.len() / 2] as f64 / 1_000.0
}

/// Each parameter must be declared by the stylesheet, and given once.
fn given(sheet: &Stylesheet, params: &[(String, String)]) -> Result<Params, Failure> {
    let known: Vec<String> = sheet.params().collect();
    let mut given = Params::new();
    for (place, (name, value)) in params.iter().enumerate() {
        if params.iter().take(place).any(|(earlier, _)| earlier == name) {
            let message = format!("--param {name} is given twice");
            return Err(Failure::Usage(message));
        }
        if !known.contains(name) {
            let has = match known.as_slice() {
                [] => "none".to_owned(),
                known => known.join(", "),
            };
            let message =
                format!("--param {name}: unknown parameter; the stylesheet declares: {has}");
            return Err(Failure::Usage(message));
        }
        given = given.string(name, value);
    }
    Ok(given)
}

/// The files below the folder of the stylesheet. Their URIs are relative to it.
struct Files {
    /// None: nothing is read.
    folder: Option<PathBuf>,
    /// The folder as in the arguments.
    shown: PathBuf,
    /// The files that were read, by URI, to print their lines.
    texts: RefCell<HashMap<String, Source>>,
    /// Messages are dropped.
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

    /// The file that the reference `href` names, and its URI.
    fn find(&self, href: &str, base: &str) -> Result<(PathBuf, String), String> {
        let Some(folder) = &self.folder else {
            return Err(format!("`{href}` cannot be read: the stylesheet comes from stdin"));
        };
        let outside = || format!("`{href}` is not below the folder of the stylesheet");
        let mut file = folder.clone();
        file.extend(resolve(href, base).ok_or_else(outside)?);
        let file = file.canonicalize().map_err(|error| format!("cannot read `{href}`: {error}"))?;
        let path = file.strip_prefix(folder).ok().and_then(Path::to_str).ok_or_else(outside)?;
        let uri = utf8_percent_encode(path, PATH_ESCAPES).to_string();
        Ok((file, uri))
    }

    /// Reports an error in a stylesheet; `uri` is empty for the main one.
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
    fn read(&self, href: &str, base: &str) -> Result<Resource, String> {
        let (file, uri) = self.find(href, base)?;
        let max = xml::limits::XML_BYTES_MAX;
        let bytes = File::open(&file).and_then(|file| bounded(file, max));
        let bytes = bytes.map_err(|error| format!("cannot read `{href}`: {error}"))?;
        if bytes.len() > max as usize {
            return Err(format!("`{href}` is larger than the limit of {max} bytes"));
        }
        let path = percent_decode_str(&uri).decode_utf8_lossy();
        let name = self.shown.join(&*path).display().to_string();
        let source = Source { name, bytes: bytes.clone() };
        self.texts.borrow_mut().insert(uri.clone(), source);
        Ok(Resource { bytes, uri })
    }

    fn message(&self, text: &str) {
        if !self.silent.get() {
            let text: String =
                text.chars().map(|c| if c == '\n' { c } else { printable(c) }).collect();
            // A closed stderr is not an error.
            drop(writeln!(io::stderr().lock(), "{text}"));
        }
    }
}

/// Escaped in the path of a URI: all but RFC 3986's unreserved characters and slashes.
const PATH_ESCAPES: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// Resolves a relative reference as in RFC 3986 section 5.2. `base` is a relative path, as the result is, in
/// decoded segments. None: it has a scheme, authority, absolute path or query, or leads out of the root.
fn resolve(href: &str, base: &str) -> Option<Vec<String>> {
    let href = href.split('#').next().unwrap_or("");
    let has_scheme = href.split('/').next().is_some_and(|first| first.contains(':'));
    if has_scheme || href.starts_with('/') || href.contains('?') {
        return None;
    }
    let folder = base.rfind('/').map_or("", |end| &base[..end]);
    let path = if href.is_empty() { base.to_owned() } else { format!("{folder}/{href}") };
    let mut segments = Vec::new();
    for segment in path.split('/') {
        let segment = percent_decode_str(segment).decode_utf8().ok()?;
        match &*segment {
            "" | "." => {}
            ".." => drop(segments.pop()?),
            name if name.contains(['/', '\\', '\0']) => return None,
            name => segments.push(name.to_owned()),
        }
    }
    Some(segments)
}

/// `name=value` or `{uri}name=value`
fn parameter(argument: &str) -> Result<(String, String), String> {
    let braced = argument.strip_prefix('{').map(|rest| rest.split_once('}'));
    let (uri, rest) = match braced {
        Some(Some((uri, rest))) => (Some(uri), rest),
        Some(None) => return Err("missing `}`".to_owned()),
        None => (None, argument),
    };
    let (local, value) = rest.split_once('=').ok_or("write name=value")?;
    if !is_ncname(local) {
        return Err(format!("`{local}` is not a valid name; write name or {{uri}}name"));
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
    fn parameters_may_have_a_namespace() {
        let pair = |a: &str, b: &str| Ok((a.to_owned(), b.to_owned()));
        assert_eq!(parameter("k=a=b"), pair("k", "a=b"));
        assert_eq!(parameter("{urn:a=b}k="), pair("{urn:a=b}k", ""));
        assert_eq!(parameter("{}k=v"), pair("k", "v"));
        for wrong in ["k", "=v", "p:k=v", "{u}=v", "{u=v"] {
            assert!(parameter(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn references_are_resolved_as_uris() {
        let path = |href: &str, base: &str| resolve(href, base).map(|path| path.join("|"));
        let found = |path: &str| Some(path.to_owned());
        assert_eq!(path("d.xml", ""), found("d.xml"));
        assert_eq!(path("./x/../d%20e.xml#id", "a%20b/c.xsl"), found("a b|d e.xml"));
        assert_eq!(path("../d.xml", "a/b/c.xsl"), found("a|d.xml"));
        assert_eq!(path("%C3%A9.xml", ""), found("\u{e9}.xml"));
        assert_eq!(path("", "a/c.xsl"), found("a|c.xsl"));
        for outside in [
            "../d.xml",
            "%2e%2e/d.xml",
            "x/../../d.xml",
            "/d.xml",
            "//h/d.xml",
            "file:d.xml",
            "a%2Fb",
            "a%00",
            "%FF",
            "a?b",
        ] {
            assert_eq!(path(outside, ""), None, "{outside}");
        }
    }

    #[test]
    fn each_part_has_its_own_median() {
        let taken = [[3_000, 1, 9], [1_500, 3, 7], [2_000, 2, 8]];
        assert_eq!([0, 1, 2].map(|part| median_us(&taken, part)), [2.0, 0.002, 0.008]);
    }
}
