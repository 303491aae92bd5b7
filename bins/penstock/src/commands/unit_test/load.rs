//! Finds unit tests, and reads them with the artefacts and mock services that they name.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use base::SystemClock;
use expression::limits;
use mediation::{Compiler, Environment, LogLevel, Memory, Program, PropertyScope};
use mediation_tools::unit_test::{Content, MockService, Setting, Subject, UnitTest};
use model::{ArtefactSet, Diagnostic, Place, Resource, Severity};

use super::super::serving::JsonRules;
use super::super::source::bounded;
use crate::failure::Failure;

/// Folders inside each other that are searched.
const FOLDER_DEPTH_MAX: usize = 32;
/// The file that a project has in its topmost folder.
const PROJECT: &str = "pom.xml";

/// Start tags of unit tests, for files that cannot be parsed.
const MARKERS: &[&str] = &["<unit-test", "<synapse-unit-test"];

/// A unit test, and the argument that led to it.
pub(super) struct Found {
    pub(super) file: PathBuf,
    pub(super) argument: PathBuf,
}

/// The unit tests among `paths`, and in the folders among them.
pub(super) fn find(paths: &[PathBuf]) -> Result<Vec<Found>, Failure> {
    let mut found = Vec::new();
    for path in paths {
        let metadata = fs::metadata(path).map_err(|error| Failure::file("read", path, &error))?;
        let mut files = Vec::new();
        if metadata.is_dir() {
            search(path, 0, &mut files)?;
        } else {
            files.push(path.clone());
        }
        found.extend(files.into_iter().map(|file| Found { file, argument: path.clone() }));
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

/// Whether it is a unit test, or looks like one that cannot be parsed.
fn is_unit_test(file: &Path) -> bool {
    let Ok(bytes) = read_file(file) else { return false };
    xml::Document::parse(&bytes).map_or_else(
        |_| {
            let text = String::from_utf8_lossy(&bytes);
            MARKERS.iter().any(|marker| text.contains(marker))
        },
        |document| UnitTest::is(&document),
    )
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
pub(super) fn read(found: &Found, json: &JsonRules) -> Result<(UnitTest, Compiled), String> {
    let Found { file, argument } = found;
    let bytes =
        read_file(file).map_err(|error| format!("cannot read {}: {error}\n", file.display()))?;
    let document = parse(file, &bytes)?;
    let test = UnitTest::read(file, &document).map_err(|found| listed(&found))?;
    let loader = Loader { file, argument };
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
        set.resources.insert(
            resource.path.clone(),
            Resource { file, media_type, bytes, ..Resource::default() },
        );
    }
    let mut mocks = Vec::new();
    for mock in &test.mocks {
        let (file, bytes) = loader.content(mock)?;
        let document = parse(&file, &bytes)?;
        if let Some(root) = document.element() {
            mocks.push(MockService::read(&file, root).map_err(|found| listed(&found))?);
        }
    }
    let (mut program, mut diagnostics) = Compiler::compile_set(&set);
    program.map_json(json);
    // Problems of the tested artefact explain why the harness cannot run it.
    diagnostics.retain(|found| !subject.is_harness(&found.file));
    for found in diagnostics.iter_mut().filter(|found| found.message.starts_with("there is no ")) {
        let help = "name the file that has it as a `supportive-artifact` of the unit test";
        found.help.get_or_insert_with(|| help.to_owned());
    }
    if diagnostics.iter().any(|found| found.severity == Severity::Error) {
        return Err(listed(&diagnostics));
    }
    let program = Arc::new(program);
    let (resources, clock) = (set.resources, SystemClock::new());
    let memory = Memory::new(&program);
    let registry = Registry { resources, program: Arc::clone(&program), clock, memory };
    Ok((test, Compiled { program, subject, mocks, registry }))
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
    argument: &'l Path,
}

impl Loader<'_> {
    fn problem(&self, place: Place, message: String) -> String {
        listed(&[diagnostic(self.file, Some(place), message)])
    }

    /// The artefact as the gateway reads it.
    fn artefact(&self, content: &Content) -> Result<ArtefactSet, String> {
        let (file, bytes) = self.content(content)?;
        // Inline artefacts are read like a file beside the unit test.
        let file = if matches!(content, Content::Inline(..)) { self.file.to_owned() } else { file };
        let folders = self.folders();
        let root = folders.last().map(PathBuf::as_path).unwrap_or(Path::new("."));
        let fetch: follow::Fetch = Arc::new(|_| Err("is not fetched in a unit test".to_owned()));
        let outcome = follow::read_artefact(root, &file, &bytes, &fetch);
        match outcome.set {
            Some(set) if !set.artefacts.is_empty() => Ok(set),
            Some(_) => {
                Err(self.problem(content.place(), format!("{} is not an artefact", file.display())))
            }
            None => Err(listed(&outcome.diagnostics)),
        }
    }

    /// The folders in which the files that the unit test names may be, innermost first: up to the topmost one that has
    /// `pom.xml`. Without one: up to the argument, or to the current folder.
    fn folders(&self) -> Vec<PathBuf> {
        let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let file = real(self.file);
        let above: Vec<_> = file.ancestors().skip(1).map(Path::to_owned).collect();
        let last = above.iter().rposition(|folder| folder.join(PROJECT).is_file());
        let last = last.or_else(|| {
            let limits = [real(self.argument), real(Path::new("."))];
            above.iter().rposition(|folder| limits.contains(folder))
        });
        // At least the unit test's own folder.
        above.into_iter().take(last.unwrap_or_default().saturating_add(1)).collect()
    }

    /// The bytes, and the file that diagnostics name.
    fn content(&self, content: &Content) -> Result<(PathBuf, Vec<u8>), String> {
        let (path, place) = match content {
            Content::Inline(bytes, _) => return Ok((self.file.to_owned(), bytes.clone())),
            Content::File(path, place) => (path.trim_start_matches('/'), *place),
        };
        let is_inside = |part| matches!(part, Component::Normal(_) | Component::CurDir);
        if !Path::new(path).components().all(is_inside) {
            let message = format!("`{path}` is not a path inside the project");
            return Err(self.problem(place, message));
        }
        let found = self.folders().iter().find_map(|folder| file_in(folder, Path::new(path)));
        let Some(file) = found.filter(|_| !path.is_empty()) else {
            let message = format!("there is no file `{path}` in the project");
            let folders = self.folders();
            let project = folders.last().map(|folder| shortest(folder).display().to_string());
            let project = project.filter(|folder| !folder.is_empty()).unwrap_or(".".to_owned());
            let help = format!("paths begin at the project's folder, here `{project}`");
            let missing = diagnostic(self.file, Some(place), message);
            return Err(listed(&[Diagnostic { help: Some(help), ..missing }]));
        };
        let bytes = read_file(&file);
        let shown = shortest(&file);
        bytes.map(|bytes| (shown, bytes)).map_err(|error| {
            self.problem(place, format!("cannot read {}: {error}", file.display()))
        })
    }
}

/// Names are relative to the project, or to the folder that holds it, as `/Project/src/main/...`.
fn file_in(folder: &Path, path: &Path) -> Option<PathBuf> {
    let below = folder.file_name().and_then(|name| path.strip_prefix(name).ok());
    let names = std::iter::once(path).chain(below);
    names.map(|name| folder.join(name)).find(|file| file.is_file())
}

/// Relative to the current folder, if it is below.
fn shortest(file: &Path) -> PathBuf {
    let here = std::env::current_dir().and_then(fs::canonicalize).unwrap_or_default();
    file.strip_prefix(here).unwrap_or(file).to_owned()
}

/// Values that expressions read besides the message.
struct Registry {
    resources: BTreeMap<String, Resource>,
    program: Arc<Program>,
    clock: SystemClock,
    /// State that mediators keep from one case to the next.
    memory: Memory,
}

impl Environment for Registry {
    fn unix_ms(&self) -> i64 {
        i64::try_from(self.clock.origin_unix_us() / 1_000).unwrap_or(i64::MAX)
    }

    fn config(&self, name: &str) -> Option<Cow<'_, str>> {
        self.program.config(name).map(Cow::Borrowed)
    }

    fn registry(&self, path: &str, property: Option<&str>) -> Option<Cow<'_, str>> {
        self.resources.get(path)?.text(property)
    }

    fn variable(&self, scope: PropertyScope, name: &str) -> Option<Cow<'_, str>> {
        gateway::variable(scope, name)
    }

    fn memory(&self) -> Option<&Memory> {
        Some(&self.memory)
    }

    fn log(&self, _: LogLevel, _: &str) {}
}
