//! Mock services: responses of endpoints in a unit test.

use mediation::{Body, Direction, EndpointKind, Format, Message, PlainHead, Target};
use model::Diagnostic;

use super::compare::is_same;
use super::read::{Reader, child, text};
use crate::bench::BenchHead;

/// A `mock-service`: the responses of an endpoint of its name, and of its address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MockService {
    /// Name of the endpoint.
    name: String,
    port: u16,
    context: String,
    resources: Vec<MockResource>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct MockResource {
    /// Below the service's context.
    path: String,
    method: String,
    /// Conditions on a request; empty: any request.
    payload: String,
    fields: Vec<(String, String)>,
    response: MockResponse,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct MockResponse {
    status: u16,
    fields: Vec<(String, String)>,
    payload: String,
}

/// A request as mock services see it.
pub(super) struct Sent<'s> {
    /// Address of the endpoint, if it has one.
    pub(super) endpoint: Option<&'s str>,
    /// The path after the endpoint's address.
    pub(super) postfix: &'s str,
    pub(super) method: &'s str,
    pub(super) url: &'s str,
    pub(super) message: &'s Message,
    pub(super) body: &'s str,
}

impl MockService {
    /// Reads a `mock-service`.
    ///
    /// # Errors
    /// The problem, with its place in `file`.
    pub fn read(file: &std::path::Path, root: xml::Node<'_>) -> Result<Self, Vec<Diagnostic>> {
        let mut reader = Reader::new(file);
        if root.local_name() != "mock-service" {
            reader.error(
                root,
                format!("expected `mock-service`, found `{}`", root.local_name()),
                None,
            );
        }
        let port = port(root, &mut reader);
        let mut service = Self {
            name: text(root, "service-name"),
            port,
            context: text(root, "context"),
            resources: Vec::new(),
        };
        if service.name.is_empty() {
            let help = "write the endpoint's name";
            reader.error(root, "the mock service has no `service-name`".to_owned(), Some(help));
        }
        for resource in child(root, "resources").into_iter().flat_map(xml::Node::elements) {
            service.resources.push(MockResource::read(resource, &mut reader));
        }
        reader.finish(service)
    }

    /// Whether it stands for the endpoint or at the address.
    fn is_for(&self, sent: &Sent<'_>) -> bool {
        if sent.endpoint == Some(&*self.name) {
            return true;
        }
        let hosts =
            [format!("http://localhost:{}", self.port), format!("http://127.0.0.1:{}", self.port)];
        let mut rests = hosts.iter().filter_map(|host| sent.url.strip_prefix(host.as_str()));
        self.port != 0 && rests.any(|rest| rest.is_empty() || rest.starts_with(['/', '?']))
    }

    /// Paths that the request may have: of the address that is mocked, and of the mock service itself.
    fn has_path(&self, resource: &MockResource, sent: &Sent<'_>) -> bool {
        let own = path(&format!("{}/{}", self.context, resource.path));
        let rest = sent.url.split_once("://").map_or(sent.url, |(_, rest)| rest);
        let url = rest.find('/').and_then(|at| rest.get(at..)).unwrap_or_default();
        let moved = format!("{}/{}", self.context, sent.postfix);
        own == path(url) || own == path(&moved)
    }
}

/// The port; 0 if there is none.
fn port(service: xml::Node<'_>, reader: &mut Reader) -> u16 {
    let written = text(service, "port");
    if written.is_empty() {
        return 0;
    }
    written.parse().unwrap_or_else(|_| {
        reader.error(service, format!("invalid port `{written}`"), None);
        0
    })
}

/// Without a query, repeated and trailing slashes.
fn path(target: &str) -> String {
    let path = target.split('?').next().unwrap_or_default();
    path.split('/').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
}

impl MockResource {
    fn read(node: xml::Node<'_>, reader: &mut Reader) -> Self {
        let (request, response) = (child(node, "request"), child(node, "response"));
        let status = response.map(|response| text(response, "status-code")).unwrap_or_default();
        let status = match status.as_str() {
            "" => 200,
            written => {
                written.parse().ok().filter(|status| (100..600).contains(status)).unwrap_or_else(
                    || {
                        reader.error(node, format!("invalid status code `{written}`"), None);
                        200
                    },
                )
            }
        };
        let fields = |parent: Option<xml::Node<'_>>| {
            let headers = parent.and_then(|parent| child(parent, "headers"));
            let all = headers.into_iter().flat_map(xml::Node::elements);
            let of =
                |node: xml::Node<'_>, name| node.attribute("", name).unwrap_or_default().to_owned();
            all.map(|header| (of(header, "name"), of(header, "value"))).collect()
        };
        let payload = |parent: Option<xml::Node<'_>>| {
            parent.map(|parent| text(parent, "payload")).unwrap_or_default()
        };
        Self {
            path: text(node, "sub-context"),
            method: text(node, "method").to_ascii_uppercase(),
            payload: payload(request),
            fields: fields(request),
            response: MockResponse { status, fields: fields(response), payload: payload(response) },
        }
    }

    fn takes(&self, sent: &Sent<'_>) -> bool {
        let has_fields = self.fields.iter().all(|(name, value)| {
            sent.message.head.field(name).is_some_and(|field| field.trim() == value.trim())
        });
        let has_method = self.method.is_empty() || self.method == sent.method;
        has_method && has_fields && (self.payload.is_empty() || is_same(&self.payload, sent.body))
    }
}

impl MockResponse {
    fn message(&self) -> Box<Message> {
        let mut fields = self.fields.clone();
        let is_type = |(name, _): &&(String, String)| name.eq_ignore_ascii_case("content-type");
        let declared = fields.iter().find(is_type).map(|(_, value)| Format::of(value));
        let format = declared.unwrap_or_else(|| Format::guess(self.payload.as_bytes()));
        if declared.is_none() && !self.payload.is_empty() {
            fields.push(("Content-Type".to_owned(), format.content_type().to_owned()));
        }
        let plain = PlainHead { fields, ..PlainHead::default() };
        let head = BenchHead { plain, prefix_len: 0, status: Some(self.status) };
        let body = Body::held(format, self.payload.clone().into_bytes());
        Message::new(Direction::Response, Box::new(head), body)
    }
}

/// Why a request has no mocked response, and the remedy.
pub(super) enum Instead {
    /// Nothing stands for the endpoint: the connection fails.
    Unmocked(String),
    /// No resource of the service takes the request: 404.
    NotFound(String),
}

impl Instead {
    pub(super) fn note(&self) -> &str {
        match self {
            Self::Unmocked(note) | Self::NotFound(note) => note,
        }
    }
}

/// The response of the first resource that takes the request.
pub(super) fn answer(services: &[MockService], sent: &Sent<'_>) -> Result<Box<Message>, Instead> {
    let named = sent.endpoint.map(|name| format!(" (endpoint `{name}`)")).unwrap_or_default();
    let request = format!("{} {}{named}", sent.method, sent.url);
    let mut mocked = services.iter().filter(|service| service.is_for(sent)).peekable();
    if mocked.peek().is_none() {
        let help = match sent.endpoint {
            Some(name) => format!("add a mock-service with the service-name `{name}`"),
            None => "give the endpoint a name, and add a mock-service of that name".to_owned(),
        };
        return Err(Instead::Unmocked(format!("nothing mocks {request}: {help}")));
    }
    let mut resources = mocked.flat_map(|service| {
        service.resources.iter().filter(|resource| service.has_path(resource, sent))
    });
    let found = resources.find(|resource| resource.takes(sent));
    found.map(|resource| resource.response.message()).ok_or_else(|| {
        let body = if sent.body.is_empty() { "without a body" } else { sent.body };
        let note = format!("404, since no resource of its mock-service matches {request}: {body}");
        Instead::NotFound(note)
    })
}

/// Response of a mock service without a matching resource.
pub(super) fn not_found() -> Box<Message> {
    MockResponse { status: 404, ..MockResponse::default() }.message()
}

/// The rest of `target` after the endpoint's own address.
pub(super) fn postfix<'t>(target: &'t Target, kind: Option<&EndpointKind>) -> &'t str {
    let Some(EndpointKind::Address { uri }) = kind else { return "" };
    let uri = uri.split('?').next().unwrap_or_default();
    target.url.strip_prefix(uri).unwrap_or_default()
}
