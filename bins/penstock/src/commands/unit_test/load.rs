//! Finds unit tests, and reads them with the artefacts and mock services that they name.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::SystemClock;
use expression::limits;
use formats::synapse::{self, Outside, Parameter};
use mediation::unit_test::{Content, MockService, Setting, Subject, UnitTest};
use mediation::{Compiler, Environment, LogLevel, Program};
use model::{ArtefactSet, Diagnostic, Place, Resource, Severity};

use super::super::source::bounded;
use crate::failure::Failure;

/// Folders inside each other that are searched.
const FOLDER_DEPTH_MAX: usize = 32;
/// Folders above a unit test in which the files that it names are looked for.
const FOLDERS_ABOVE_MAX: usize = 16;

/// The unit tests among `paths`, and in the folders among them.
pub(super) fn find(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    for path in paths {
        let metadata = fs::metadata(path).map_err(|error| Failure::file("read", path, &error))?;
        if metadata.is_dir() {
            search(path, 0, &mut found)?;
        } else {
            found.push(path.clone());
        }
    }
    if found.is_empty() {
        let names: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
        let problem =
            format!("there is no unit test (`unit-test` in a file *.xml) in {}", names.join(", "));
        return Err(Failure::Usage(problem));
    }
    Ok(found)
}

fn search(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let unreadable = |error| Failure::file("read", folder, &error);
    let entries = fs::read_dir(folder).map_err(unreadable)?;
    let mut entries = entries.collect::<Result<Vec<_>, _>>().map_err(unreadable)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (path, name) = (entry.path(), entry.file_name());
        // Builds hold copies.
        let is_skipped = name.to_string_lossy().starts_with('.') || name == "target";
        // A link to a folder could lead back.
        let is_folder = entry.file_type().map_err(unreadable)?.is_dir();
        if is_folder && !is_skipped && depth < FOLDER_DEPTH_MAX {
            search(&path, depth + 1, found)?;
        } else if path.extension().is_some_and(|ending| ending == "xml") && is_unit_test(&path) {
            found.push(path);
        }
    }
    Ok(())
}

fn is_unit_test(file: &Path) -> bool {
    let document = read_file(file).ok().and_then(|bytes| xml::Document::parse(&bytes).ok());
    document.is_some_and(|document| UnitTest::is(&document))
}

fn read_file(file: &Path) -> std::io::Result<Vec<u8>> {
    bounded(fs::File::open(file)?, limits::JSON_BYTES_MAX)
}

/// A unit test's artefacts, compiled.
pub(super) struct Compiled {
    program: Arc<Program>,
    subject: Subject,
    mocks: Vec<MockService>,
    registry: Registry,
}

impl Compiled {
    pub(super) fn setting(&self) -> Setting<'_> {
        Setting {
            program: Arc::clone(&self.program),
            subject: self.subject.clone(),
            mocks: self.mocks.clone(),
            environment: &self.registry,
        }
    }
}

/// Reads a unit test.
///
/// # Errors
/// The diagnostics, a line each.
pub(super) fn read(file: &Path) -> Result<(UnitTest, Compiled), String> {
    let bytes =
        read_file(file).map_err(|error| format!("cannot read {}: {error}\n", file.display()))?;
    let document = parse(file, &bytes)?;
    let test = UnitTest::read(file, &document).map_err(|found| listed(&found))?;
    let loader = Loader { file };
    let mut set = loader.artefact(&test.subject)?;
    let subject = set.artefacts.first().and_then(Subject::of).ok_or_else(|| {
        let what = "only a sequence, a proxy or an API can be tested";
        loader.problem(test.subject.place(), what.to_owned())
    })?;
    for support in &test.supports {
        let other = loader.artefact(support)?;
        set.artefacts.extend(other.artefacts);
    }
    set.artefacts.extend(subject.harness());
    for resource in &test.resources {
        let (file, bytes) = loader.content(&resource.content)?;
        let (media_type, bytes) = (resource.media_type.clone(), bytes.into());
        set.resources.insert(resource.path.clone(), Resource { file, media_type, bytes });
    }
    let mut mocks = Vec::new();
    for mock in &test.mocks {
        let (file, bytes) = loader.content(mock)?;
        let document = parse(&file, &bytes)?;
        if let Some(root) = document.element() {
            mocks.push(MockService::read(&file, root).map_err(|found| listed(&found))?);
        }
    }
    let (program, diagnostics) = Compiler::compile_set(&set);
    if diagnostics.iter().any(|found| found.severity == Severity::Error) {
        return Err(listed(&diagnostics));
    }
    let registry = Registry { resources: set.resources, clock: SystemClock::new() };
    Ok((test, Compiled { program: Arc::new(program), subject, mocks, registry }))
}

fn parse(file: &Path, bytes: &[u8]) -> Result<xml::Document, String> {
    xml::Document::parse(bytes).map_err(|error| {
        let place = error.position().map(|at| Place { line: at.line, column: at.column });
        listed(&[diagnostic(file, place, format!("invalid XML: {}", error.kind()))])
    })
}

fn diagnostic(file: &Path, place: Option<Place>, message: String) -> Diagnostic {
    let (severity, file) = (Severity::Error, file.to_owned());
    Diagnostic { severity, file, place, message, help: None }
}

fn listed(diagnostics: &[Diagnostic]) -> String {
    diagnostics.iter().map(|diagnostic| format!("{diagnostic}\n")).collect()
}

struct Loader<'l> {
    /// The unit test.
    file: &'l Path,
}

impl Loader<'_> {
    fn problem(&self, place: Place, message: String) -> String {
        listed(&[diagnostic(self.file, Some(place), message)])
    }

    /// The artefact as the gateway reads it.
    fn artefact(&self, content: &Content) -> Result<ArtefactSet, String> {
        let (file, bytes) = self.content(content)?;
        // What is inline is read like a file beside the unit test.
        let file = if matches!(content, Content::Inline(..)) { self.file.to_owned() } else { file };
        let parameter = |kind, name: &str| match kind {
            Parameter::System | Parameter::Config | Parameter::File => std::env::var(name).ok(),
        };
        let no_file = |_: &str| Err("is not read in a unit test".to_owned());
        let outside = Outside { parameter: &parameter, file: &no_file };
        let outcome = synapse::read(&file, &bytes, outside);
        match outcome.set {
            Some(set) if !set.artefacts.is_empty() => Ok(set),
            Some(_) => {
                Err(self.problem(content.place(), format!("{} is no artefact", file.display())))
            }
            None => Err(listed(&outcome.diagnostics)),
        }
    }

    /// The bytes, and the file that diagnostics name.
    fn content(&self, content: &Content) -> Result<(PathBuf, Vec<u8>), String> {
        let (path, place) = match content {
            Content::Inline(bytes, _) => return Ok((self.file.to_owned(), bytes.clone())),
            Content::File(path, place) => (path.trim_start_matches('/'), *place),
        };
        let absolute = fs::canonicalize(self.file).unwrap_or_else(|_| self.file.to_owned());
        // Names are relative to the project, or to the folder that holds it, as `/Project/src/main/...`.
        let folders = absolute.ancestors().skip(1).take(FOLDERS_ABOVE_MAX);
        let found = folders.map(|folder| folder.join(path)).find(|file| file.is_file());
        let Some(file) = found.filter(|_| !path.is_empty()) else {
            let message = format!("there is no file `{path}` in the project");
            return Err(self.problem(place, message));
        };
        let bytes = read_file(&file);
        let shown = shortest(&file);
        bytes.map(|bytes| (shown, bytes)).map_err(|error| {
            self.problem(place, format!("cannot read {}: {error}", file.display()))
        })
    }
}

/// Relative to the current folder, if it is below.
fn shortest(file: &Path) -> PathBuf {
    let here = std::env::current_dir().and_then(fs::canonicalize).unwrap_or_default();
    file.strip_prefix(here).unwrap_or(file).to_owned()
}

/// What expressions read besides the message.
struct Registry {
    resources: BTreeMap<String, Resource>,
    clock: SystemClock,
}

impl Environment for Registry {
    fn unix_ms(&self) -> i64 {
        i64::try_from(self.clock.origin_unix_us() / 1_000).unwrap_or(i64::MAX)
    }

    fn registry(&self, path: &str, property: Option<&str>) -> Option<Cow<'_, str>> {
        let resource = self.resources.get(path)?;
        match property {
            None => Some(String::from_utf8_lossy(&resource.bytes)),
            Some("mediaType") => Some(Cow::Borrowed(&resource.media_type)),
            Some(_) => None,
        }
    }

    fn log(&self, _: LogLevel, _: &str) {}
}
