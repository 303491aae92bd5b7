//! Scenarios: a named request, the response it expects, and the features that a gateway must support for it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::limits;
use serde::{Deserialize, Serialize, Serializer};
use toml::Spanned;

use super::buy_stocks;
use super::source::Source;
use crate::load;
use crate::payload::{self, JsonShape};

/// The scenarios shipped with the lab (`suites/scenarios.toml`).
const SHIPPED: &str = include_str!("../../../suites/scenarios.toml");

/// One kind of request.
#[derive(Clone, Debug, Serialize)]
pub struct Scenario {
    /// Name used by folders and suites.
    pub name: String,
    /// Name used in the published tables.
    pub display: String,
    /// Description for progress output and reports.
    pub about: String,
    /// Source of the definition.
    pub source: String,
    pub method: String,
    pub path: String,
    #[serde(skip_serializing_if = "Exchange::is_http")]
    pub exchange: Exchange,
    /// Capabilities required of the target; compared with its `can`.
    pub needs: Vec<String>,
    /// Capabilities that a target uses if it has them, and does without otherwise.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub wants: Vec<String>,
    pub headers: BTreeMap<String, String>,
    pub tokens: Option<Tokens>,
    pub payload: ScenarioPayload,
    /// The requests of a scenario file, below `path`, instead of one with `method`, `payload` and `expect`.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "shared")]
    pub requests: Option<Arc<load::Scenario>>,
    /// Text that every response body must contain; `{{bytes}}` stands for the payload size.
    pub expect: Option<String>,
    /// Requests that the target makes to the backend for each of its own; checked after every case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream_requests: Option<UpstreamRequests>,
}

/// A scenario as written in a file, with the positions needed for diagnostics.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScenarioEntry {
    pub(crate) name: Spanned<String>,
    display: String,
    about: String,
    #[serde(default)]
    source: String,
    #[serde(default)]
    method: Option<Spanned<String>>,
    path: String,
    #[serde(default)]
    protocol: Option<Spanned<ProtocolName>>,
    #[serde(default)]
    messages: Option<Spanned<usize>>,
    #[serde(default)]
    pub(crate) needs: Vec<Spanned<String>>,
    #[serde(default)]
    pub(crate) wants: Vec<Spanned<String>>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    tokens: Option<TokensEntry>,
    #[serde(default)]
    payload: Option<Spanned<ScenarioPayload>>,
    #[serde(default)]
    requests: Option<Spanned<String>>,
    #[serde(default)]
    expect: Option<Spanned<String>>,
    #[serde(default)]
    upstream_requests: Option<UpstreamRequests>,
}

/// Kind of request of a scenario.
#[derive(Clone, Copy, Debug, Default, Serialize, PartialEq, Eq, Hash)]
#[serde(rename_all = "kebab-case")]
pub enum Exchange {
    /// An HTTP request, of the version that the suite names.
    #[default]
    Http,
    /// A gRPC call, in which the payload is sent this many times.
    Grpc { messages: usize },
    /// A message over the user's WebSocket.
    WebSocket,
}

impl Exchange {
    fn is_http(&self) -> bool {
        *self == Self::Http
    }
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum ProtocolName {
    Http,
    Grpc,
    WebSocket,
}

/// How many requests reach the backend for one request of a client.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(untagged, deny_unknown_fields)]
pub enum UpstreamRequests {
    Fixed(u64),
    /// One for each occurrence of this text in the request's body.
    Each {
        each: String,
    },
}

impl UpstreamRequests {
    /// The number for a request with this body.
    #[must_use]
    pub fn of(&self, body: &str) -> u64 {
        match self {
            Self::Fixed(number) => *number,
            Self::Each { each } => body.matches(each.as_str()).count() as u64,
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TokensEntry {
    kind: TokenKind,
    count: Spanned<u32>,
}

/// The credentials that clients send, in rotation.
#[derive(Clone, Copy, Debug, Serialize, PartialEq, Eq, Hash)]
pub struct Tokens {
    pub kind: TokenKind,
    pub count: u32,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq, Hash)]
#[serde(rename_all = "kebab-case")]
pub enum TokenKind {
    /// RS256 with a 2,048-bit key, each with its own `jti`.
    Jwt,
    /// 36 characters of `a-z0-9`, for introspection by the gateway.
    Opaque,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum ScenarioPayload {
    None,
    Array,
    Simple,
    Object,
    /// The SOAP orders of the Micro Integrator's tests.
    BuyStocks,
    /// This many orders without an envelope, for any size of the matrix.
    #[serde(rename = "20-elements")]
    Elements20,
    #[serde(rename = "50-elements")]
    Elements50,
    #[serde(rename = "100-elements")]
    Elements100,
    /// The JSON of those tests.
    SymbolsJson,
}

impl ScenarioPayload {
    /// # Errors
    /// `bytes` is below the minimum of this payload, or too large.
    pub(crate) fn check(self, bytes: usize) -> Result<(), String> {
        match (self.shape(), self.file(bytes)) {
            (Some(shape), _) => payload::make(shape, bytes).map(drop),
            (None, Some(made)) => made.map(drop),
            (None, None) => Ok(()),
        }
    }

    pub(crate) fn shape(self) -> Option<JsonShape> {
        match self {
            Self::Array => Some(JsonShape::Array),
            Self::Simple => Some(JsonShape::Simple),
            Self::Object => Some(JsonShape::Object),
            Self::None
            | Self::BuyStocks
            | Self::Elements20
            | Self::Elements50
            | Self::Elements100
            | Self::SymbolsJson => None,
        }
    }

    /// The number of orders, which is not that of the matrix.
    fn count(self) -> Option<usize> {
        match self {
            Self::Elements20 => Some(20),
            Self::Elements50 => Some(50),
            Self::Elements100 => Some(100),
            Self::None
            | Self::Array
            | Self::Simple
            | Self::Object
            | Self::BuyStocks
            | Self::SymbolsJson => None,
        }
    }

    /// Size of the payload in bytes, if that is not one of the matrix.
    pub(crate) fn own_bytes(self) -> Option<u64> {
        u64::try_from(buy_stocks::make_elements(self.count()?).len()).ok()
    }

    /// Name and content of its file, if it is one of the Micro Integrator's tests.
    ///
    /// # Errors
    /// As [`ScenarioPayload::check`].
    pub fn file(self, bytes: usize) -> Option<Result<(String, String), String>> {
        if let Some(count) = self.count() {
            let text = buy_stocks::make_elements(count);
            return Some(Ok((format!("{count}Elements_buyStocks.xml"), text)));
        }
        let (name, made) = match self {
            Self::BuyStocks => (format!("{bytes}B_buyStocks.xml"), buy_stocks::make(bytes)),
            Self::SymbolsJson => {
                (format!("{bytes}B_JSONPayload.json"), buy_stocks::make_json(bytes))
            }
            Self::None
            | Self::Array
            | Self::Simple
            | Self::Object
            | Self::Elements20
            | Self::Elements50
            | Self::Elements100 => return None,
        };
        Some(made.map(|text| (name, text)))
    }
}

fn shared<S: Serializer>(from: &Option<Arc<load::Scenario>>, to: S) -> Result<S::Ok, S::Error> {
    from.as_deref().serialize(to)
}

/// TLS is a capability like any other.
pub const TLS: &str = "tls";

impl Scenario {
    pub(crate) fn tls(&self) -> bool {
        self.needs.iter().any(|need| need == TLS)
    }

    /// URL of the scenario at a target's `http` or `https` URL.
    pub(crate) fn url(&self, base: &str) -> String {
        let url = format!("{}{}", base.trim_end_matches('/'), self.path);
        match self.exchange {
            Exchange::Http | Exchange::Grpc { .. } => url,
            Exchange::WebSocket => url.replacen("http", "ws", 1),
        }
    }

    /// The capabilities to use: all needs, and of the wants those that `can` covers.
    pub(crate) fn used(&self, can: &[String]) -> Vec<String> {
        let wants = self.wants.iter().filter(|want| can.contains(want));
        self.needs.iter().chain(wants).cloned().collect()
    }

    /// The needs that `can` does not cover.
    pub(crate) fn lacking<'s>(&'s self, can: &[String]) -> Vec<&'s str> {
        self.needs.iter().filter(|need| !can.contains(need)).map(String::as_str).collect()
    }
}

impl ScenarioEntry {
    /// # Errors
    /// A diagnostic with the position: an invalid name, or a number of tokens out of range.
    pub(crate) fn read(&self, source: &Source) -> Result<Scenario, String> {
        source.check_name(&self.name)?;
        let tokens = self.tokens.as_ref().map(|tokens| tokens.read(source)).transpose()?;
        let requests = self.requests(source)?;
        let exchange = self.exchange(source)?;
        let payload = match &self.payload {
            Some(payload) => *payload.get_ref(),
            None if requests.is_some() => ScenarioPayload::None,
            None => {
                let message = format!(
                    "scenario `{}` has neither `payload` nor `requests`",
                    self.name.get_ref()
                );
                return Err(source.error_at(&self.name, &message, "payload = \"none\""));
            }
        };
        let text = |written: &Spanned<String>| written.get_ref().clone();
        Ok(Scenario {
            name: self.name.get_ref().clone(),
            display: self.display.clone(),
            about: self.about.clone(),
            source: self.source.clone(),
            method: self.method.as_ref().map_or_else(|| "POST".to_owned(), text),
            path: self.path.clone(),
            exchange,
            needs: self.needs.iter().map(|need| need.get_ref().clone()).collect(),
            wants: self.wants.iter().map(|want| want.get_ref().clone()).collect(),
            headers: self.headers.clone(),
            tokens,
            payload,
            requests,
            expect: self.expect.as_ref().map(text),
            upstream_requests: self.upstream_requests.clone(),
        })
    }
}

impl ScenarioEntry {
    /// Reads the scenario file, which defines everything about the requests.
    fn requests(&self, source: &Source) -> Result<Option<Arc<load::Scenario>>, String> {
        let Some(file) = &self.requests else { return Ok(None) };
        let spans = [
            ("protocol", self.protocol.as_ref().map(Spanned::span)),
            ("method", self.method.as_ref().map(Spanned::span)),
            ("payload", self.payload.as_ref().map(Spanned::span)),
            ("expect", self.expect.as_ref().map(Spanned::span)),
        ];
        for (key, span) in spans {
            if let Some(span) = span {
                let message = format!("`{key}` and `requests` exclude each other");
                return Err(source.error_at(
                    &Spanned::new(span, ()),
                    &message,
                    "set it in the scenario file",
                ));
            }
        }
        let folder = source.name.parent().unwrap_or(Path::new(""));
        load::Scenario::read(&folder.join(file.get_ref())).map(|read| Some(Arc::new(read)))
    }
}

impl ScenarioEntry {
    fn exchange(&self, source: &Source) -> Result<Exchange, String> {
        let protocol = self.protocol.as_ref().map_or(ProtocolName::Http, |name| *name.get_ref());
        if let Some(messages) = self.messages.as_ref().filter(|_| protocol != ProtocolName::Grpc) {
            let help = "a WebSocket's requests are its messages; omit it";
            return Err(source.error_at(messages, "`messages` needs `protocol = \"grpc\"`", help));
        }
        if let Some(method) = self.method.as_ref().filter(|_| protocol != ProtocolName::Http) {
            let message = "`method` is for `protocol = \"http\"`";
            return Err(source.error_at(
                method,
                message,
                "gRPC always uses POST, and WebSocket GET",
            ));
        }
        let messages = self.messages.as_ref().map_or(1, |messages| *messages.get_ref());
        let most = limits::LOAD_GRPC_MESSAGES_MAX;
        if let Some(written) = self.messages.as_ref().filter(|_| messages == 0 || messages > most) {
            let message = format!("`messages`: expected 1 to {most}, not {messages}");
            return Err(source.error_at(written, &message, "messages = 20"));
        }
        Ok(match protocol {
            ProtocolName::Http => Exchange::Http,
            ProtocolName::Grpc => Exchange::Grpc { messages },
            ProtocolName::WebSocket => Exchange::WebSocket,
        })
    }
}

impl TokensEntry {
    fn read(&self, source: &Source) -> Result<Tokens, String> {
        let count = *self.count.get_ref();
        let most = limits::LOAD_TOKENS_MAX;
        if count == 0 || count as usize > most {
            let message = format!("{count} tokens; expected 1 to {most}");
            return Err(source.error_at(&self.count, &message, ""));
        }
        Ok(Tokens { kind: self.kind, count })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    scenario: Vec<ScenarioEntry>,
}

/// The scenarios shipped with the lab.
///
/// # Errors
/// The shipped file is invalid; a test prevents that.
pub fn shipped() -> Result<Vec<Scenario>, String> {
    let source = Source { name: "suites/scenarios.toml".into(), text: SHIPPED.to_owned() };
    source.parse::<File>()?.scenario.iter().map(|written| written.read(&source)).collect()
}
