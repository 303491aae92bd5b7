//! Micro Integrator's unit tests: `unit-test` files, run without a network.
//!
//! Place in the flow: none of a request's. A tool reads the file ([`UnitTest::read`]) and the artefacts that it names,
//! compiles them with [`Subject::harness`] beside them, and runs each [`Case`]. Mock services answer sent messages.
//!
//! Architecture invariant: opens no file and no socket; [`Content::File`] is for the caller to read.

mod compare;
mod mock;
mod read;
mod trial;

use expression::Expression;
use model::{Artefact, ArtefactKind, Place};

pub use compare::layout;
use mediation::PropertyScope;
pub use mock::MockService;
pub use trial::{Outcome, Problem, Setting};

/// A `unit-test` file.
#[derive(Debug, Default)]
pub struct UnitTest {
    /// The artefact that is tested.
    pub subject: Content,
    /// Artefacts that it refers to.
    pub supports: Vec<Content>,
    pub resources: Vec<TestResource>,
    pub mocks: Vec<Content>,
    pub cases: Vec<Case>,
}

/// An artefact, a resource or a mock service: in a file of its own, or in the unit test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A path below the project's folder or the one that holds the project.
    File(String, Place),
    Inline(Vec<u8>, Place),
}

impl Default for Content {
    fn default() -> Self {
        Self::Inline(Vec::new(), Place { line: 1, column: 1 })
    }
}

impl Content {
    /// Where the unit test has it.
    #[must_use]
    pub fn place(&self) -> Place {
        match self {
            Self::File(_, place) | Self::Inline(_, place) => *place,
        }
    }
}

/// A registry resource of a unit test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestResource {
    /// As in [`model::ArtefactSet::resources`].
    pub path: String,
    pub media_type: String,
    pub content: Content,
}

/// A `test-case`.
#[derive(Debug)]
pub struct Case {
    pub name: String,
    input: Input,
    assertions: Vec<Assertion>,
}

/// The message that comes in.
#[derive(Debug, Default)]
struct Input {
    /// Whether it came by https.
    secure: bool,
    /// Path below the API's, and query.
    path: Option<String>,
    method: Option<String>,
    payload: Option<String>,
    properties: Vec<(PropertyScope, String, String)>,
}

impl Case {
    fn asserts_status(&self) -> bool {
        self.assertions.iter().any(|assertion| matches!(assertion.actual, Actual::Status))
    }
}

#[derive(Debug)]
struct Assertion {
    place: Place,
    /// The assertion, as written.
    source: String,
    actual: Actual,
    /// `assertEquals`; absent: `assertNotNull`.
    expected: Option<String>,
    message: String,
}

#[derive(Debug)]
enum Actual {
    /// `$body`
    Body,
    /// `$statusCode`
    Status,
    /// `$httpVersion`
    Version,
    /// `$ctx:name`, `$axis2:name`, `$trp:name`, `${...}`
    Expression(Expression),
}

/// The artefact that a unit test runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    Sequence(String),
    Proxy(String),
    Api(String),
}

/// The sequence that runs the tested one and returns its message.
const HARNESS: &str = "unit test";

impl Subject {
    /// `None`: an artefact of this kind cannot be tested by itself.
    #[must_use]
    pub fn of(artefact: &Artefact) -> Option<Self> {
        let name = artefact.name.clone();
        match artefact.kind {
            ArtefactKind::Sequence => Some(Self::Sequence(name)),
            ArtefactKind::Proxy => Some(Self::Proxy(name)),
            ArtefactKind::Api => Some(Self::Api(name)),
            ArtefactKind::Endpoint
            | ArtefactKind::LocalEntry
            | ArtefactKind::Template
            | ArtefactKind::InboundEndpoint
            | ArtefactKind::Definitions => None,
        }
    }

    /// An artefact to compile with the others, so that the end of a tested sequence can be seen.
    #[must_use]
    pub fn harness(&self) -> Option<Artefact> {
        let Self::Sequence(name) = self else { return None };
        let name = name.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
        let text = format!(
            "<sequence xmlns=\"{}\" name=\"{HARNESS}\"><sequence key=\"{name}\"/><respond/></sequence>",
            mediation::NAMESPACE
        );
        Some(Artefact {
            kind: ArtefactKind::Sequence,
            name: HARNESS.to_owned(),
            version: String::new(),
            file: HARNESS.into(),
            bytes: text.into_bytes().into(),
            configs: std::collections::BTreeMap::new(),
            documents: std::collections::BTreeMap::new(),
            contains: Vec::new(),
            problems: Vec::new(),
            application: None,
        })
    }

    /// Whether a diagnostic for this file is for [`Subject::harness`].
    #[must_use]
    pub fn is_harness(&self, file: &std::path::Path) -> bool {
        self.is_sequence() && file.as_os_str() == HARNESS
    }

    fn is_sequence(&self) -> bool {
        matches!(self, Self::Sequence(_))
    }
}
