//! Reads a `unit-test` file.

use std::path::{Path, PathBuf};

use expression::Expression;
use mediation::{PropertyScope, serialise};
use model::{Diagnostic, Place, Severity, resource_path};

use super::{Actual, Assertion, Case, Content, Input, TestResource, UnitTest};

/// Collects the problems of a file.
pub(super) struct Reader {
    file: PathBuf,
    diagnostics: Vec<Diagnostic>,
}

impl Reader {
    pub(super) fn new(file: &Path) -> Self {
        Self { file: file.to_owned(), diagnostics: Vec::new() }
    }

    pub(super) fn error(&mut self, at: xml::Node<'_>, message: String, help: Option<&str>) {
        self.diagnostics.push(Diagnostic {
            severity: Severity::Error,
            file: self.file.clone(),
            place: Some(place(at)),
            message,
            help: help.map(str::to_owned),
        });
    }

    pub(super) fn finish<T>(self, read: T) -> Result<T, Vec<Diagnostic>> {
        if self.diagnostics.is_empty() { Ok(read) } else { Err(self.diagnostics) }
    }
}

/// Whether a document is a unit test.
#[must_use]
pub(super) fn is_unit_test(document: &xml::Document) -> bool {
    let root = document.element();
    root.is_some_and(|root| matches!(root.local_name(), "unit-test" | "synapse-unit-test"))
}

impl UnitTest {
    /// Whether a document is a unit test.
    #[must_use]
    pub fn is(document: &xml::Document) -> bool {
        is_unit_test(document)
    }

    /// Reads the document `file`.
    ///
    /// # Errors
    /// The problems of the file.
    pub fn read(file: &Path, document: &xml::Document) -> Result<Self, Vec<Diagnostic>> {
        let mut reader = Reader::new(file);
        let mut test = Self::default();
        let Some(root) = document.element() else { return reader.finish(test) };
        if let Some(artefacts) = child(root, "artifacts") {
            reader.artefacts(artefacts, &mut test);
        } else {
            reader.error(root, "the unit test has no `artifacts`".to_owned(), None);
        }
        for case in child(root, "test-cases").into_iter().flat_map(xml::Node::elements) {
            test.cases.push(reader.case(case, test.cases.len()));
        }
        if let Some((unknown, nearest)) = misspelt(root) {
            let help = format!("did you mean `{nearest}`?");
            let message = format!("unknown element `{}`", unknown.local_name());
            reader.error(unknown, message, Some(&help));
        } else if test.cases.is_empty() {
            let help = Some("add a `test-case` to `test-cases`");
            reader.error(root, "the unit test has no test cases".to_owned(), help);
        }
        for mock in child(root, "mock-services").into_iter().flat_map(xml::Node::elements) {
            // Inline, the element itself is the service.
            let is_inline = mock.elements().next().is_some();
            test.mocks.push(match is_inline {
                true => Content::Inline(serialise(mock), place(mock)),
                false => content(mock),
            });
        }
        reader.finish(test)
    }
}

impl Reader {
    fn artefacts(&mut self, parent: xml::Node<'_>, test: &mut UnitTest) {
        let tested = child(parent, "test-artifact").and_then(|tested| child(tested, "artifact"));
        match tested {
            Some(artefact) => test.subject = content(artefact),
            None => self.error(parent, "there is no `test-artifact`".to_owned(), None),
        }
        let supports =
            child(parent, "supportive-artifacts").into_iter().flat_map(xml::Node::elements);
        test.supports = supports.map(content).collect();
        for resource in
            child(parent, "registry-resources").into_iter().flat_map(xml::Node::elements)
        {
            let folder = text(resource, "registry-path");
            let key = format!("{}/{}", folder.trim_end_matches('/'), text(resource, "file-name"));
            let found = resource_path(&key).zip(child(resource, "artifact").map(content));
            match found {
                Some((path, content)) => {
                    let media_type = text(resource, "media-type");
                    test.resources.push(TestResource { path, media_type, content });
                }
                None => {
                    let help =
                        "it needs `file-name`, `artifact`, and `registry-path` below /_system";
                    self.error(resource, format!("`{key}` is not a registry path"), Some(help));
                }
            }
        }
        let connectors = child(parent, "connector-resources");
        if let Some(connector) = connectors.into_iter().flat_map(xml::Node::elements).next() {
            let help = "call the service with the `call` mediator and a mock service";
            self.error(connector, "connectors are not supported".to_owned(), Some(help));
        }
    }

    fn case(&mut self, node: xml::Node<'_>, number: usize) -> Case {
        let name = node.attribute("", "name").filter(|name| !name.is_empty());
        let name = name.map_or_else(|| format!("test case {}", number + 1), str::to_owned);
        let input = child(node, "input").map(|input| self.input(input)).unwrap_or_default();
        let written = child(node, "assertions").into_iter().flat_map(xml::Node::elements);
        let written: Vec<_> = written.collect();
        let assertions: Vec<_> = written.iter().filter_map(|node| self.assertion(*node)).collect();
        if written.is_empty() {
            self.error(node, format!("`{name}` has no assertions"), Some("add an `assertEquals`"));
        }
        Case { name, input, assertions }
    }

    fn input(&mut self, node: xml::Node<'_>) -> Input {
        let optional =
            |name| child(node, name).map(|child| value(child)).filter(|text| !text.is_empty());
        let mut properties = Vec::new();
        for property in child(node, "properties").into_iter().flat_map(xml::Node::elements) {
            let scope = match property.attribute("", "scope").unwrap_or("default") {
                "" | "default" => PropertyScope::Synapse,
                "axis2" => PropertyScope::Axis2,
                "transport" => PropertyScope::Transport,
                other => {
                    let help = "the scopes are `default`, `axis2` and `transport`";
                    self.error(property, format!("unknown property scope `{other}`"), Some(help));
                    continue;
                }
            };
            let of = |name| property.attribute("", name).unwrap_or_default().to_owned();
            properties.push((scope, of("name"), of("value")));
        }
        for unknown in node.elements() {
            let name = unknown.local_name();
            if !INPUT.contains(&name) {
                let nearest = base::names::nearest(name, INPUT);
                let help = nearest.map(|nearest| format!("did you mean `{nearest}`?"));
                let help = help.unwrap_or_else(|| format!("write {}", base::names::one_of(INPUT)));
                self.error(unknown, format!("unknown element `{name}`"), Some(&help));
            }
        }
        let secure = match optional("request-protocol").as_deref() {
            None | Some("http") => false,
            Some("https") => true,
            Some(other) => {
                let help = "the protocols are `http` and `https`";
                self.error(node, format!("unknown protocol `{other}`"), Some(help));
                false
            }
        };
        Input {
            secure,
            path: optional("request-path"),
            method: optional("request-method").map(|method| method.to_ascii_uppercase()),
            payload: optional("payload"),
            properties,
        }
    }

    fn assertion(&mut self, node: xml::Node<'_>) -> Option<Assertion> {
        let expected = match node.local_name() {
            "assertEquals" => match child(node, "expected") {
                Some(expected) => Some(value(expected)),
                None => {
                    self.error(node, "`assertEquals` needs `expected`".to_owned(), None);
                    return None;
                }
            },
            "assertNotNull" => None,
            other => {
                let help = "the assertions are `assertEquals` and `assertNotNull`";
                self.error(node, format!("unknown assertion `{other}`"), Some(help));
                return None;
            }
        };
        let source = text(node, "actual");
        let actual = match source.as_str() {
            "$body" => Actual::Body,
            "$statusCode" => Actual::Status,
            "$httpVersion" => Actual::Version,
            source => match Expression::compile(source) {
                Ok(expression) if !source.is_empty() => Actual::Expression(expression),
                Ok(_) => {
                    let help = "write `$body`, `$ctx:name`, `$axis2:name`, `$trp:name`, `$statusCode` or `${...}`";
                    self.error(node, "the assertion has no `actual`".to_owned(), Some(help));
                    return None;
                }
                Err(error) => {
                    self.error(node, format!("in `{source}`: {error}"), None);
                    return None;
                }
            },
        };
        let message = text(node, "message");
        Some(Assertion { place: place(node), source, actual, expected, message })
    }
}

/// Contents of `input`.
const INPUT: [&str; 5] =
    ["payload", "properties", "request-method", "request-path", "request-protocol"];

/// An element of a unit test that is none, and the one that it is nearest to.
fn misspelt<'d>(root: xml::Node<'d>) -> Option<(xml::Node<'d>, &'static str)> {
    const KNOWN: [&str; 3] = ["artifacts", "test-cases", "mock-services"];
    let unknown = root.elements().filter(|child| !KNOWN.contains(&child.local_name()));
    let mut found =
        unknown.filter_map(|child| Some((child, base::names::nearest(child.local_name(), KNOWN)?)));
    found.next()
}

/// A file's path, or the text in place of it.
fn content(node: xml::Node<'_>) -> Content {
    match node.elements().next() {
        Some(inline) => Content::Inline(serialise(inline), place(inline)),
        None => Content::File(value(node), place(node)),
    }
}

/// The text of an element, or the markup in it.
fn value(node: xml::Node<'_>) -> String {
    match node.elements().next() {
        Some(inline) => String::from_utf8_lossy(&serialise(inline)).into_owned(),
        None => node.string_value().trim().to_owned(),
    }
}

/// The value of the child `name`; empty if there is none.
pub(super) fn text(parent: xml::Node<'_>, name: &str) -> String {
    child(parent, name).map(value).unwrap_or_default()
}

pub(super) fn child<'d>(parent: xml::Node<'d>, name: &str) -> Option<xml::Node<'d>> {
    parent.elements().find(|child| child.local_name() == name)
}

fn place(node: xml::Node<'_>) -> Place {
    let xml::Position { line, column } = node.position();
    Place { line, column }
}
