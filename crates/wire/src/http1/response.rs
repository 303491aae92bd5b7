//! Response heads. Upstreams are trusted as little as clients: an invalid response is a 502.

use base::{Method, limits};

use super::fields::{Fields, Options};
use super::framing::{self, BodyFraming, ResponseFraming};
use super::{Field, Known, Parsed, Rejection, Side, Span, Upgrade, Version, find, scan};

/// The head of a response. Keep it and parse the next one into it: its memory is reused.
/// As with [`super::RequestHead`], methods that take a `buf` require the one that was parsed.
#[derive(Clone, Debug, Default)]
pub struct ResponseHead {
    len: usize,
    status: u16,
    reason: Span,
    version: Version,
    fields: Fields,
    framing: ResponseFraming,
    options: Options,
    is_clean: bool,
}

impl ResponseHead {
    /// Parses the head at the start of `buf`, the response to a request with `for_method`.
    ///
    /// After [`Parsed::Partial`], call again with the same bytes and those received since.
    ///
    /// # Errors
    /// 502 for any fault: syntax, framing, a head above `RESPONSE_HEAD_BYTES_MAX`, a status outside 100 to 599, or a
    /// 1xx that announces a body.
    pub fn parse(&mut self, buf: &[u8], for_method: Method) -> Result<Parsed, Rejection> {
        self.clear();
        if self.read(buf).is_none() {
            self.clear();
            return match scan::response(buf)? {
                None => Ok(Parsed::Partial),
                Some(_) => Err(Rejection::new(502, "head is malformed")),
            };
        }
        match self.validate(buf, for_method) {
            Ok(()) => Ok(Parsed::Complete),
            Err(rejection) => {
                self.clear();
                Err(rejection)
            }
        }
    }

    /// The head's length in bytes, its empty line included. Zero until it is complete.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "no complete head is empty")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// 100 to 599.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The reason phrase as sent; may be empty, may hold bytes above 0x7f.
    #[must_use]
    pub fn reason<'a>(&self, buf: &'a [u8]) -> &'a [u8] {
        self.reason.of(buf)
    }

    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    #[must_use]
    pub fn framing(&self) -> ResponseFraming {
        self.framing
    }

    /// Whether the connection may serve another request once the body is read.
    #[must_use]
    pub fn keep_alive(&self) -> bool {
        self.is_clean
            && self.framing != ResponseFraming::UntilClose
            && self.options.persists(self.version)
    }

    /// Whether it is an interim response: any 1xx but 101, which ends HTTP on this connection.
    #[must_use]
    pub fn is_interim(&self) -> bool {
        self.status < 200 && self.status != 101
    }

    /// Whether `Connection` names fields. Trailers with these names must not be forwarded (RFC 9110 section 7.6.1).
    #[must_use]
    pub fn names_fields(&self) -> bool {
        self.options.names_fields
    }

    /// The protocol that a 101 switches to.
    #[must_use]
    pub fn upgrade(&self, buf: &[u8]) -> Upgrade {
        self.fields.upgrade(buf, self.options.upgrade && self.version == Version::Http11)
    }

    /// Every field line, in the order sent.
    #[must_use]
    pub fn fields(&self) -> &[Field] {
        self.fields.list()
    }

    /// The first field of that kind, in constant time.
    #[must_use]
    pub fn find(&self, known: Known) -> Option<&Field> {
        self.fields.find(known)
    }

    /// The first field with that name, ignoring case.
    #[must_use]
    pub fn find_name(&self, buf: &[u8], name: &[u8]) -> Option<&Field> {
        self.fields.find_name(buf, name)
    }

    /// Clears the head, keeping its memory. The status is then 0.
    pub fn clear(&mut self) {
        self.len = 0;
        self.status = 0;
        self.reason = Span::default();
        self.version = Version::Http11;
        self.fields.clear();
        self.framing = ResponseFraming::None;
        self.options = Options::default();
        self.is_clean = false;
    }

    /// The fast parser: `None` unless `buf` starts with a complete and syntactically valid head.
    fn read(&mut self, buf: &[u8]) -> Option<()> {
        let buf = buf.get(..limits::RESPONSE_HEAD_BYTES_MAX as usize).unwrap_or(buf);
        let fields = self.status_line(buf)?;
        self.len = self.fields.read(buf, fields)?;
        Some(())
    }

    /// Reads the status line, which starts at 0, and returns its end.
    fn status_line(&mut self, buf: &[u8]) -> Option<usize> {
        const REASON_AT: usize = b"HTTP/1.1 200 ".len();
        let (version, rest) = buf.split_first_chunk::<9>()?;
        self.version = match version {
            b"HTTP/1.1 " => Version::Http11,
            b"HTTP/1.0 " => Version::Http10,
            _ => return None,
        };
        let [hundreds @ b'1'..=b'5', tens @ b'0'..=b'9', ones @ b'0'..=b'9', rest @ ..] = rest
        else {
            return None;
        };
        let digit = |byte: &u8| u16::from(byte & 0x0f);
        self.status = digit(hundreds) * 100 + digit(tens) * 10 + digit(ones);
        let end = match rest {
            [b' ', ..] => {
                let end = find::value_end(buf, REASON_AT)?;
                self.reason = Span::new(REASON_AT, end)?;
                end
            }
            _ => REASON_AT - 1,
        };
        (buf.get(end..)?.first_chunk() == Some(b"\r\n")).then(|| end + 2)
    }

    /// Validates the meaning of a syntactically valid head. Source: RFC 9112 section 6.3.
    fn validate(&mut self, buf: &[u8], for_method: Method) -> Result<(), Rejection> {
        let declared = framing::declared(buf, &self.fields, self.version, Side::Response)?;
        self.options = self.fields.connection(buf, Side::Response)?;
        self.is_clean = true;
        self.framing = match (self.status, declared) {
            (100..=199, BodyFraming::Length(_) | BodyFraming::Chunked) => {
                return Err(Rejection::new(502, "interim response announces a body"));
            }
            (100..=199 | 304, _) => ResponseFraming::None,
            (204, declared) => {
                // A body after a 204 is forbidden but occurs: the following bytes cannot be trusted.
                self.is_clean = matches!(declared, BodyFraming::None | BodyFraming::Length(0));
                ResponseFraming::None
            }
            (_, _) if for_method == Method::Head => ResponseFraming::None,
            (_, BodyFraming::Length(len)) => ResponseFraming::Length(len),
            (_, BodyFraming::Chunked) => ResponseFraming::Chunked,
            (_, BodyFraming::None) => ResponseFraming::UntilClose,
        };
        Ok(())
    }
}
