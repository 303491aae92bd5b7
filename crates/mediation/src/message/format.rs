//! The format of a body, by its content type.

use xml::reader::{Event, Reader};

use super::soap;

/// The format of a body: which builder reads it, and which formatter writes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    Json,
    /// XML without an envelope.
    Xml,
    Soap11,
    Soap12,
    /// `application/x-www-form-urlencoded`
    Form,
    /// `multipart/form-data`
    Multipart,
    Text,
    #[default]
    Binary,
}

impl Format {
    /// By a `Content-Type`. Source: the message builders of Micro Integrator's `deployment.toml`.
    #[must_use]
    pub fn of(content_type: &str) -> Self {
        let media = media_type(content_type);
        let is = |name: &str| is_name(media, name);
        if is("application/json") || ends_with(media, "+json") {
            Self::Json
        } else if is("text/xml") {
            Self::Soap11
        } else if is("application/soap+xml") {
            Self::Soap12
        } else if is("application/xml") || ends_with(media, "+xml") {
            Self::Xml
        } else if is("application/x-www-form-urlencoded") {
            Self::Form
        } else if is("multipart/form-data") {
            Self::Multipart
        } else if is(RELATED) {
            Self::of_root(content_type)
        } else if starts_with(media, "text/") {
            Self::Text
        } else {
            Self::Binary
        }
    }

    /// The format of the root part of a package; of other parts that belong together, bytes. Source: RFC 2387, section
    /// 3.1; XOP 1.0, section 4.1.
    fn of_root(content_type: &str) -> Self {
        let media = |name| Some(media_type(parameter(content_type, name)?));
        let root = media("type").unwrap_or_default();
        let is_optimised = is_name(root, "application/xop+xml");
        let envelope = if is_optimised { media("start-info").unwrap_or("text/xml") } else { root };
        if is_name(envelope, "text/xml") {
            Self::Soap11
        } else if is_name(envelope, "application/soap+xml") {
            Self::Soap12
        } else {
            Self::Binary
        }
    }

    /// The format of a body without a content type: XML, SOAP if it is an envelope, JSON, or text. For XML, the first
    /// start tag decides.
    #[must_use]
    pub fn guess(bytes: &[u8]) -> Self {
        match bytes.trim_ascii_start().first() {
            Some(b'{' | b'[') => Self::Json,
            Some(b'<') => Self::of_document(bytes).unwrap_or(Self::Xml),
            Some(_) | None => Self::Text,
        }
    }

    /// The format of a document that begins like this, if its first start tag is complete and that of an envelope.
    pub(crate) fn of_envelope(beginning: &str) -> Option<Self> {
        let format = Self::of_first_tag(beginning.as_bytes());
        format.filter(|format| *format != Self::Xml && soap::is_envelope(beginning))
    }

    /// The format of a document whose root is this element.
    pub(crate) fn of_element(root: xml::Node<'_>) -> Self {
        Self::of_name(root.local_name(), root.namespace())
    }

    fn of_name(local: &str, namespace: &str) -> Self {
        match (local, namespace) {
            ("Envelope", soap::SOAP11) => Self::Soap11,
            ("Envelope", soap::SOAP12) => Self::Soap12,
            _ => Self::Xml,
        }
    }

    /// The format of the document `bytes`, which is parsed up to the first start tag only. The tag is mostly near the
    /// beginning, so that the rest is not even decoded.
    fn of_document(bytes: &[u8]) -> Option<Self> {
        const BEGINNING: usize = 512;
        let beginning = bytes.get(..BEGINNING).and_then(Self::of_first_tag);
        beginning.or_else(|| Self::of_first_tag(bytes))
    }

    fn of_first_tag(bytes: &[u8]) -> Option<Self> {
        let input = xml::Input::new(bytes, &xml::Options::default()).ok()?;
        let mut reader = Reader::new(&input);
        loop {
            if let Event::Start(root) = reader.next_event().ok()?? {
                return Some(Self::of_name(root.local_name(), root.namespace()));
            }
        }
    }

    pub(crate) fn is_xml(self) -> bool {
        matches!(self, Self::Xml | Self::Soap11 | Self::Soap12)
    }

    /// The content type of a body that is written in this format; that of multipart lacks its boundary.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json; charset=UTF-8",
            Self::Xml => "application/xml; charset=UTF-8",
            Self::Soap11 => "text/xml; charset=UTF-8",
            Self::Soap12 => "application/soap+xml; charset=UTF-8",
            Self::Form => "application/x-www-form-urlencoded",
            Self::Multipart => "multipart/form-data",
            Self::Text => "text/plain; charset=UTF-8",
            Self::Binary => "application/octet-stream",
        }
    }

    /// The expected format of a malformed body.
    pub(crate) fn noun(self) -> &'static str {
        match self {
            Self::Json => "JSON",
            Self::Xml | Self::Soap11 | Self::Soap12 => "XML",
            Self::Form => "a form",
            Self::Multipart => "multipart",
            Self::Text | Self::Binary => "text",
        }
    }
}

/// Parts that belong together.
const RELATED: &str = "multipart/related";

pub(super) fn is_related(content_type: &str) -> bool {
    is_name(media_type(content_type), RELATED)
}

/// Whether a content type is that of an envelope with attachments.
pub(crate) fn is_package(content_type: &str) -> bool {
    is_related(content_type) && Format::of_root(content_type) != Format::Binary
}

/// A content type without its parameters.
pub(super) fn media_type(content_type: &str) -> &str {
    let end = memchr::memchr(b';', content_type.as_bytes());
    content_type.get(..end.unwrap_or(content_type.len())).unwrap_or_default().trim_ascii()
}

/// A content type that names this charset instead of its own.
pub(super) fn with_charset(content_type: &str, charset: &str) -> String {
    format!("{}; charset={charset}", without_charset(content_type))
}

/// A content type that names no charset.
pub(super) fn without_charset(content_type: &str) -> String {
    let is_charset = |part: &&str| parameter(&format!(";{part}"), "charset").is_some();
    let mut parts: Vec<_> = parts(content_type).map(str::trim).collect();
    parts.retain(|part| !is_charset(part));
    parts.join("; ")
}

/// A parameter of a content type, such as `boundary`, without quotes.
pub(crate) fn parameter<'c>(content_type: &'c str, name: &str) -> Option<&'c str> {
    parts(content_type).skip(1).find_map(|parameter| {
        let (known, value) = split_once(parameter, b'=')?;
        is_name(known.trim_ascii(), name).then(|| unquoted(value.trim_ascii()))
    })
}

/// Whether a name is this one in any case; most are written as they are looked for.
pub(super) fn is_name(name: &str, known: &str) -> bool {
    name.len() == known.len() && (name == known || name.eq_ignore_ascii_case(known))
}

fn unquoted(value: &str) -> &str {
    let is_quote = |byte: Option<&u8>| byte == Some(&b'"');
    if is_quote(value.as_bytes().first()) || is_quote(value.as_bytes().last()) {
        return value.trim_matches('"');
    }
    value
}

/// A content type and its parameters, split at semicolons outside of quotes. Source: RFC 9110, 5.6.4 and 5.6.6.
pub(crate) fn parts(content_type: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(content_type);
    std::iter::from_fn(move || {
        let text = rest?;
        let end = end_of_part(text);
        rest = end.and_then(|end| text.get(end + 1..));
        text.get(..end.unwrap_or(text.len()))
    })
}

fn end_of_part(text: &str) -> Option<usize> {
    let first = memchr::memchr2(b';', b'"', text.as_bytes())?;
    if text.as_bytes().get(first) == Some(&b';') {
        return Some(first);
    }
    // Rare, and takes several times as long.
    let (mut is_quoted, mut is_escaped) = (false, false);
    text.bytes().position(|byte| {
        let is_end = byte == b';' && !is_quoted;
        is_quoted ^= byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && is_quoted && !is_escaped;
        is_end
    })
}

/// As [`str::split_once`], which takes several times as long on a few bytes.
fn split_once(text: &str, at: u8) -> Option<(&str, &str)> {
    let at = memchr::memchr(at, text.as_bytes())?;
    Some((text.get(..at)?, text.get(at + 1..)?))
}

fn ends_with(media: &str, suffix: &str) -> bool {
    media
        .len()
        .checked_sub(suffix.len())
        .and_then(|at| media.get(at..))
        .is_some_and(|end| end.eq_ignore_ascii_case(suffix))
}

fn starts_with(media: &str, prefix: &str) -> bool {
    media.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}
