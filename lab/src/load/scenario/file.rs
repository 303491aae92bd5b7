//! The scenario file and its validation: every problem is reported with its position.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::{Extract, Request, Scenario, Sequence, Table};
use crate::limits;
use crate::load::options::parse_think;
use crate::load::request::{check_header, is_token};
use crate::load::shape::Think;
use crate::suite::Source;
use crate::target::template;

/// A scenario as written.
#[derive(Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct File {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    data: Vec<DataEntry>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) request: Vec<RequestEntry>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) sequence: Vec<SequenceEntry>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct DataEntry {
    file: Spanned<String>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SequenceEntry {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) weight: Option<Spanned<u32>>,
    pub(super) request: Vec<RequestEntry>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RequestEntry {
    pub(super) name: Spanned<String>,
    /// Weight of a request outside of a sequence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) weight: Option<Spanned<u32>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) method: Option<Spanned<String>>,
    pub(super) path: Spanned<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) think_time: Option<Spanned<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) body: Option<Spanned<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) body_file: Option<Spanned<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<Spanned<u16>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) expect: Option<Spanned<String>>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) headers: BTreeMap<Spanned<String>, Spanned<String>>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) extract: BTreeMap<Spanned<String>, Spanned<ExtractEntry>>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct ExtractEntry {
    #[serde(skip_serializing_if = "Option::is_none")]
    json: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    regex: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    header: Option<String>,
}

/// Reads the parts of a scenario file, relative to its folder.
struct Reader<'s> {
    source: &'s Source,
    folder: &'s Path,
    names: BTreeSet<String>,
}

impl Scenario {
    /// Reads a scenario file and the files that it names.
    ///
    /// # Errors
    /// A diagnostic with file, line and column.
    pub fn read(file: &Path) -> Result<Self, String> {
        Self::from_source(&Source::read(file)?)
    }

    /// # Errors
    /// As [`Scenario::read`].
    pub fn from_source(source: &Source) -> Result<Self, String> {
        let file: File = source.parse()?;
        let folder = source.name.parent().unwrap_or(Path::new(""));
        let mut reader = Reader { source, folder, names: BTreeSet::new() };
        let data =
            file.data.iter().map(|entry| reader.table(entry)).collect::<Result<Vec<_>, _>>()?;
        let columns: Vec<String> = data.iter().flat_map(|table| table.columns.clone()).collect();
        let mut sequences = Vec::new();
        for entry in &file.request {
            let request = reader.request(entry, &mut columns.clone())?;
            let weight = reader.weight(entry.weight.as_ref())?;
            sequences.push(Sequence { weight, requests: vec![request] });
        }
        for entry in &file.sequence {
            sequences.push(reader.sequence(entry, columns.clone())?);
        }
        if sequences.is_empty() {
            let name = source.name.display();
            return Err(format!(
                "{name}:1:1: error: no requests\n    help: write [[request]] or [[sequence]]"
            ));
        }
        let name = source.name.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { name, sequences, data })
    }
}

impl Reader<'_> {
    fn sequence(
        &mut self,
        entry: &SequenceEntry,
        mut known: Vec<String>,
    ) -> Result<Sequence, String> {
        let mut requests = Vec::new();
        for request in &entry.request {
            if let Some(weight) = &request.weight {
                let message = "a request of a sequence has no weight";
                return Err(self.source.error_at(weight, message, "give it to the sequence"));
            }
            requests.push(self.request(request, &mut known)?);
        }
        Ok(Sequence { weight: self.weight(entry.weight.as_ref())?, requests })
    }

    fn weight(&self, written: Option<&Spanned<u32>>) -> Result<u32, String> {
        let Some(written) = written else { return Ok(1) };
        match *written.get_ref() {
            0 => Err(self.source.error_at(written, "the weight must be at least 1", "")),
            weight => Ok(weight),
        }
    }

    /// `known`: the values that it can use; those that it extracts are added.
    fn request(
        &mut self,
        entry: &RequestEntry,
        known: &mut Vec<String>,
    ) -> Result<Request, String> {
        self.name(&entry.name)?;
        self.head(entry)?;
        let body = self.body(entry)?;
        let body_file = entry.body_file.as_ref().zip(body.as_ref());
        // An unknown value in a file is reported where the file is named.
        let body_file = body_file.map(|(file, text)| Spanned::new(file.span(), text.clone()));
        let texts =
            [Some(&entry.path), entry.body.as_ref(), body_file.as_ref(), entry.expect.as_ref()];
        let texts: Vec<_> = texts.into_iter().flatten().chain(entry.headers.values()).collect();
        template::check(self.source, known, &texts)?;
        let extract = self.extract(entry)?;
        known.extend(extract.iter().map(|(name, _)| name.clone()));
        let text = |written: &Spanned<String>| written.get_ref().clone();
        let header =
            |(name, value): (&Spanned<String>, &Spanned<String>)| (text(name), text(value));
        Ok(Request {
            name: text(&entry.name),
            method: entry.method.as_ref().map(text),
            path: text(&entry.path),
            headers: entry.headers.iter().map(header).collect(),
            body,
            status: entry.status.as_ref().map(|status| *status.get_ref()),
            expect: entry.expect.as_ref().map(text),
            think: entry.think_time.as_ref().map(|written| self.think(written)).transpose()?,
            extract,
        })
    }

    fn name(&mut self, name: &Spanned<String>) -> Result<(), String> {
        let text = name.get_ref();
        let most = limits::SCENARIO_NAME_CHARS_MAX;
        if text.is_empty() || text.chars().count() > most || text.contains(char::is_control) {
            let message = format!("a name has 1 to {most} characters and no control characters");
            return Err(self.source.error_at(name, &message, ""));
        }
        if !self.names.insert(text.clone()) {
            let message = format!("duplicate request name `{text}`");
            return Err(self.source.error_at(name, &message, "results are reported by name"));
        }
        let most = limits::SCENARIO_REQUESTS_MAX;
        if self.names.len() > most {
            return Err(self.source.error_at(name, &format!("more than {most} requests"), ""));
        }
        Ok(())
    }

    /// Everything but the texts with values.
    fn head(&self, entry: &RequestEntry) -> Result<(), String> {
        let source = self.source;
        if let Some(method) = entry.method.as_ref().filter(|method| !is_token(method.get_ref())) {
            let message = format!("`{}` is not an HTTP method", method.get_ref());
            return Err(source.error_at(method, &message, ""));
        }
        let path = entry.path.get_ref();
        let is_absolute = path.starts_with('/') || path.starts_with("{{");
        let is_plain = path.bytes().all(|byte| (0x21..=0x7e).contains(&byte) && byte != b'#');
        if !is_absolute || !is_plain {
            let message = "a path begins with `/` or a value, and has no spaces, fragment or non-ASCII characters";
            return Err(source.error_at(&entry.path, message, "percent-encode them"));
        }
        for (name, value) in &entry.headers {
            check_header(name.get_ref(), value.get_ref()).map_err(|what| {
                source.error_at(name, &format!("header `{}`: {what}", name.get_ref()), "")
            })?;
        }
        if let Some(status) = &entry.status {
            let is_success = (200..300).contains(status.get_ref());
            if !(200..600).contains(status.get_ref()) {
                return Err(source.error_at(status, "expected a final status, 200 to 599", ""));
            }
            if let Some(expect) = entry.expect.as_ref().filter(|_| !is_success) {
                let message = "`expect` is checked in responses with 2xx only";
                return Err(source.error_at(expect, message, "remove it, or `status`"));
            }
        }
        Ok(())
    }

    fn body(&self, entry: &RequestEntry) -> Result<Option<String>, String> {
        match (&entry.body, &entry.body_file) {
            (Some(body), None) => Ok(Some(body.get_ref().clone())),
            (None, None) => Ok(None),
            (Some(_), Some(file)) => {
                Err(self.source.error_at(file, "`body` and `body_file` exclude each other", ""))
            }
            (None, Some(file)) => {
                let read = files::read_text(
                    &self.folder.join(file.get_ref()),
                    limits::PAYLOAD_BYTES_MAX as u64,
                );
                let describe =
                    |error| self.source.error_at(file, &format!("{}: {error}", file.get_ref()), "");
                read.map(Some).map_err(describe)
            }
        }
    }

    fn think(&self, written: &Spanned<String>) -> Result<Think, String> {
        let think = parse_think(written.get_ref()).and_then(|think| think.check().map(|()| think));
        think
            .map_err(|error| self.source.error_at(written, &error, "think_time = \"100ms..300ms\""))
    }

    fn extract(&self, entry: &RequestEntry) -> Result<Vec<(String, Extract)>, String> {
        let read = |(name, written): (&Spanned<String>, &Spanned<ExtractEntry>)| {
            self.value_name(name)?;
            let ExtractEntry { json, regex, header } = written.get_ref();
            let extract = match (json, regex, header) {
                (Some(path), None, None) => Extract::Json(path.clone()),
                (None, Some(pattern), None) => Extract::Regex(pattern.clone()),
                (None, None, Some(name)) => Extract::Header(name.clone()),
                _ => {
                    let message = "expected one of `json`, `regex` and `header`";
                    return Err(self.source.error_at(written, message, "{ json = \"$.id\" }"));
                }
            };
            extract.compile().map_err(|error| self.source.error_at(written, &error, ""))?;
            Ok((name.get_ref().clone(), extract))
        };
        entry.extract.iter().map(read).collect()
    }

    fn value_name(&self, name: &Spanned<String>) -> Result<(), String> {
        if is_value_name(name.get_ref()) {
            return Ok(());
        }
        Err(self.source.error_at(name, NAME_OF_A_VALUE, ""))
    }

    fn table(&self, entry: &DataEntry) -> Result<Table, String> {
        let file = self.folder.join(entry.file.get_ref());
        let bytes = files::read(&file, limits::SCENARIO_DATA_BYTES_MAX);
        let bytes = bytes.map_err(|error| {
            self.source.error_at(&entry.file, &format!("{}: {error}", entry.file.get_ref()), "")
        })?;
        table(&file.display().to_string(), &bytes)
    }
}

const NAME_OF_A_VALUE: &str = "the name of a value consists of letters, digits, `.`, `_` and `-`";

fn is_value_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    !name.is_empty() && name.chars().all(is_plain)
}

/// Reads CSV whose first line has the names. `name`: of the file, for diagnostics.
fn table(name: &str, bytes: &[u8]) -> Result<Table, String> {
    let at = |line: u64, column: usize, message: &str| {
        Err(format!("{name}:{line}:{column}: error: {message}"))
    };
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(bytes);
    let mut records = Vec::new();
    for record in reader.records() {
        match record {
            Ok(record) => records.push(record),
            Err(error) => {
                let line = error.position().map_or(1, csv::Position::line);
                return at(line, 1, &error.to_string());
            }
        }
    }
    let mut rows = Vec::new();
    for record in &records {
        let line = record.position().map_or(1, csv::Position::line);
        for (column, cell) in (1..).zip(record) {
            if rows.is_empty() && !is_value_name(cell) {
                return at(line, column, NAME_OF_A_VALUE);
            }
            // A line break would end a header field.
            if cell.contains(|c: char| c.is_control() && c != '\t') {
                return at(
                    line,
                    column,
                    "a value contains a line break or another control character",
                );
            }
        }
        rows.push(record.iter().map(str::to_owned).collect::<Vec<_>>());
    }
    if rows.len() < 2 {
        return at(1, 1, "expected a line with names, and at least one with values");
    }
    let columns = rows.remove(0);
    Ok(Table { columns, rows })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    const ORDERS: &str = "[[request]]\nname = 'list'\nweight = 3\npath = '/orders'\n\
        [[sequence]]\n[[sequence.request]]\nname = 'create'\npath = '/orders'\nbody = '{}'\n\
        think_time = '1s'\nstatus = 201\nextract = { id = { json = '$.id' } }\n\
        [[sequence.request]]\nname = 'read'\npath = '/orders/{{id}}'\nexpect = '{{id}}'\n";

    #[test]
    fn requests_and_sequences_are_read() {
        let scenario = read(ORDERS).unwrap();
        assert_eq!(scenario.names(), ["list", "create", "read"]);
        assert_eq!(scenario.sequences.iter().map(|of| of.weight).collect::<Vec<_>>(), [3, 1]);
        assert_eq!(scenario.pauses_ms(), [None, Some(1_000.0), None]);
        let text = serde_json::to_string(&scenario).unwrap();
        assert_eq!(serde_json::from_str::<Scenario>(&text).unwrap(), scenario);
    }

    #[test]
    fn problems_are_reported_where_they_are() {
        for (written, instead, expect) in [
            ("name = 'list'", "name = ''", "a.toml:2:8: error: a name has 1 to 100 characters"),
            ("name = 'read'", "name = 'list'", "a.toml:14:8: error: duplicate request name `list`"),
            ("weight = 3", "weight = 0", "a.toml:3:10: error: the weight must be at least 1"),
            ("weight = 3", "wait = 3", "a.toml:3:1: error: unknown key `wait`"),
            ("'/orders'\n[[s", "'orders'\n[[s", "a.toml:4:8: error: a path begins with `/`"),
            (
                "{{id}}'\nex",
                "{{ix}}'\nex",
                "a.toml:15:8: error: unknown value `ix`\n    help: did you mean `id`?",
            ),
            ("$.id", "$[", "a.toml:12:18: error: "),
            ("json = '$.id'", "regex = '('", "a.toml:12:18: error: "),
            ("json = '$.id'", "", "a.toml:12:18: error: expected one of `json`"),
            ("think_time = '1s'", "think_time = '1'", "a.toml:10:14: error: `1` is not a duration"),
            ("status = 201", "status = 20", "a.toml:11:10: error: expected a final status"),
            ("expect = '{{id}}'", "expect = 'x'\nstatus = 302", "a.toml:16:10: error: `expect` is"),
            (
                "body = '{}'",
                "body_file = 'none.json'",
                "a.toml:9:13: error: none.json: No such file",
            ),
            (
                "body = '{}'",
                "headers = { 'a b' = 'c' }",
                "a.toml:9:13: error: header `a b`: invalid",
            ),
            ("body = '{}'", "method = 'A B'", "a.toml:9:10: error: `A B` is not an HTTP method"),
            (
                "body = '{}'",
                "weight = 2",
                "a.toml:9:10: error: a request of a sequence has no weight",
            ),
            (ORDERS, "", "a.toml:1:1: error: no requests"),
        ] {
            let error = read(&ORDERS.replacen(written, instead, 1)).unwrap_err();
            assert!(error.starts_with(expect), "{error}");
        }
    }

    #[test]
    fn a_data_file_has_names_and_rows() {
        let read = table("d.csv", b"user,city\na,\"x, y\"\nb,z\n").unwrap();
        assert_eq!((read.columns.len(), read.rows[0][1].as_str()), (2, "x, y"));
        for (text, expect) in [
            ("user\n", "d.csv:1:1: error: expected a line with names"),
            ("a b\nc\n", "d.csv:1:1: error: the name of a value"),
            ("a,b\nc\n", "d.csv:2:1: error: "),
            ("a,b\nc,\"d\ne\"\n", "d.csv:2:2: error: a value contains a line break"),
        ] {
            let error = table("d.csv", text.as_bytes()).unwrap_err();
            assert!(error.starts_with(expect), "{error}");
        }
    }

    fn read(text: &str) -> Result<Scenario, String> {
        Scenario::from_source(&Source { name: "a.toml".into(), text: text.to_owned() })
    }
}
