//! A request head: parsed once, read by every stage through offsets.

use base::{Method, limits};

use super::fields::{Fields, Options};
use super::framing::{self, BodyFraming};
use super::target::{self, Path, Target};
use super::{Field, Known, Parsed, Rejection, Side, Span, Upgrade, Version, find, scan};

/// The head of a request. Keep it and parse the next one into it: its memory is reused.
///
/// It holds offsets only. Every method that takes a `buf` requires the one that was parsed; with another one
/// it returns wrong or empty bytes, but does not panic.
#[derive(Debug)]
pub struct RequestHead {
    len: usize,
    method: Method,
    method_span: Span,
    whole_target: Span,
    target: Target,
    changed_path: Vec<u8>,
    host: Span,
    version: Version,
    fields: Fields,
    framing: BodyFraming,
    options: Options,
    expects_continue: bool,
}

impl Clone for RequestHead {
    fn clone(&self) -> Self {
        let mut copy = Self::default();
        copy.clone_from(self);
        copy
    }

    /// Keeps its memory.
    fn clone_from(&mut self, source: &Self) {
        let Self {
            len,
            method,
            method_span,
            whole_target,
            target,
            changed_path,
            host,
            version,
            fields,
            framing,
            options,
            expects_continue,
        } = source;
        self.fields.clone_from(fields);
        self.changed_path.clone_from(changed_path);
        (self.len, self.method, self.method_span) = (*len, *method, *method_span);
        (self.whole_target, self.target, self.host) = (*whole_target, *target, *host);
        (self.version, self.framing, self.options) = (*version, *framing, *options);
        self.expects_continue = *expects_continue;
    }
}

impl Default for RequestHead {
    fn default() -> Self {
        Self {
            len: 0,
            method: Method::Other,
            method_span: Span::default(),
            whole_target: Span::default(),
            target: Target::default(),
            changed_path: Vec::new(),
            host: Span::default(),
            version: Version::Http11,
            fields: Fields::default(),
            framing: BodyFraming::None,
            options: Options::default(),
            expects_continue: false,
        }
    }
}

impl RequestHead {
    /// Parses the head at the start of `buf`, which may contain more bytes. Replaces the previous head.
    ///
    /// After [`Parsed::Partial`], call again with the same bytes and those received since.
    ///
    /// # Errors
    /// 400: anything ambiguous or malformed. 414: the target is
    /// longer than `TARGET_BYTES_MAX`. 417: an expectation other than `100-continue`. 431: a head above
    /// `HEAD_BYTES_MAX` or with more than `HEADER_FIELDS_MAX` fields. 501: CONNECT, a method above
    /// `METHOD_BYTES_MAX`, or an unknown transfer coding. 505: a version other than 1.0 and 1.1.
    pub fn parse(&mut self, buf: &[u8]) -> Result<Parsed, Rejection> {
        self.clear();
        if self.read(buf).is_none() {
            self.clear();
            return match scan::request(buf)? {
                None => Ok(Parsed::Partial),
                Some(_) => Err(Rejection::bad("head is malformed")),
            };
        }
        match self.validate(buf) {
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

    #[must_use]
    pub fn method(&self) -> Method {
        self.method
    }

    /// The method as sent, which also names a [`Method::Other`].
    #[must_use]
    pub fn method_bytes<'a>(&self, buf: &'a [u8]) -> &'a [u8] {
        self.method_span.of(buf)
    }

    /// The whole target as sent, for logs only: use [`Self::path`] for routing and forwarding.
    #[must_use]
    pub fn target<'a>(&self, buf: &'a [u8]) -> &'a [u8] {
        self.whole_target.of(buf)
    }

    /// The normalised path, which is both routed and forwarded. Starts with `/`, or is `*`.
    #[must_use]
    pub fn path<'a>(&'a self, buf: &'a [u8]) -> &'a [u8] {
        match self.target.path {
            Path::Sent(span) => span.of(buf),
            Path::Changed => &self.changed_path,
            Path::Root => b"/",
            Path::Asterisk => b"*",
        }
    }

    /// Whether a server that simplifies paths in its own way may see another path than the routed one: it has an
    /// empty segment (`//`), a parameter (`;`) or an escaped separator (`%2F`, `%5C`), or normalisation changed it.
    #[must_use]
    pub fn has_ambiguous_path(&self) -> bool {
        self.target.ambiguous
    }

    /// Everything after the first `?`, as sent.
    #[must_use]
    pub fn query<'a>(&self, buf: &'a [u8]) -> Option<&'a [u8]> {
        self.target.query.map(|span| span.of(buf))
    }

    /// Replaces the query by one that is not longer; an empty one removes it. The remaining bytes are unused
    /// afterwards.
    pub fn shorten_query(&mut self, buf: &mut [u8], query: &[u8]) {
        let Some(span) = self.target.query.filter(|span| query.len() <= span.len()) else { return };
        let end = span.end.saturating_sub(u32::try_from(span.len() - query.len()).unwrap_or(0));
        let kept = buf.get_mut(span.start as usize..end as usize).unwrap_or_default();
        kept.iter_mut().zip(query).for_each(|(to, byte)| *to = *byte);
        let is_empty = query.is_empty();
        self.target.query = (!is_empty).then_some(Span { start: span.start, end });
        // The question mark goes too.
        self.whole_target.end = end.saturating_sub(u32::from(is_empty));
    }

    /// The authority as sent: from the absolute-form, else from Host. Empty only for HTTP/1.0 without Host.
    #[must_use]
    pub fn host<'a>(&self, buf: &'a [u8]) -> &'a [u8] {
        self.host.of(buf)
    }

    /// Whether this request, received by `scheme` for `host`, has the absolute URL `url`, whose query and fragment do
    /// not count. Paths are compared as normalised by [`Self::path`].
    #[must_use]
    pub fn is_for(&self, buf: &[u8], (scheme, host): (&[u8], &[u8]), url: &[u8]) -> bool {
        target::is_same(url, scheme, host, self.path(buf))
    }

    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    #[must_use]
    pub fn framing(&self) -> BodyFraming {
        self.framing
    }

    /// Overrides the framing, for HTTP/2.
    pub fn set_framing(&mut self, framing: BodyFraming) {
        self.framing = framing;
    }

    /// Whether the client wants to keep the connection after this exchange.
    #[must_use]
    pub fn keep_alive(&self) -> bool {
        self.options.persists(self.version)
    }

    /// Whether the client waits for a 100 before it sends the body. Never with HTTP/1.0 or without body.
    #[must_use]
    pub fn expects_continue(&self) -> bool {
        self.expects_continue && self.framing != BodyFraming::None
    }

    /// Whether `Connection` names fields. Trailers with these names must not be forwarded (RFC 9110 section 7.6.1).
    #[must_use]
    pub fn names_fields(&self) -> bool {
        self.options.names_fields
    }

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

    /// Whether the head has two or more fields of that kind.
    #[must_use]
    pub fn has_several(&self, known: Known) -> bool {
        self.fields.has_several(known)
    }

    /// The first field with that name, ignoring case.
    #[must_use]
    pub fn find_name(&self, buf: &[u8], name: &[u8]) -> Option<&Field> {
        self.fields.find_name(buf, name)
    }

    fn clear(&mut self) {
        self.len = 0;
        self.method = Method::Other;
        self.method_span = Span::default();
        self.whole_target = Span::default();
        self.target = Target::default();
        self.changed_path.clear();
        self.host = Span::default();
        self.version = Version::Http11;
        self.fields.clear();
        self.framing = BodyFraming::None;
        self.options = Options::default();
        self.expects_continue = false;
    }

    /// The fast parser: `None` unless `buf` starts with a complete and syntactically valid head.
    fn read(&mut self, buf: &[u8]) -> Option<()> {
        let buf = buf.get(..limits::HEAD_BYTES_MAX as usize).unwrap_or(buf);
        let fields = self.request_line(buf)?;
        self.len = self.fields.read(buf, fields)?;
        Some(())
    }

    /// Reads the request line, which starts at 0, and returns its end.
    fn request_line(&mut self, buf: &[u8]) -> Option<usize> {
        let method_len = find::token_len(buf.get(..=limits::METHOD_BYTES_MAX).unwrap_or(buf));
        let (method, [b' ', after_method @ ..]) = buf.split_at_checked(method_len)? else {
            return None;
        };
        let target_len = memchr::memchr(b' ', after_method)?;
        let (target, after_target) = after_method.split_at_checked(target_len)?;
        self.version = match after_target.first_chunk()? {
            b" HTTP/1.1\r\n" => Version::Http11,
            b" HTTP/1.0\r\n" => Version::Http10,
            _ => return None,
        };
        let within_limits = (1..=limits::METHOD_BYTES_MAX).contains(&method.len())
            && (1..=limits::TARGET_BYTES_MAX as usize).contains(&target.len());
        if !within_limits || find::has_forbidden_target_byte(target) {
            return None;
        }
        let target_start = method.len().checked_add(1)?;
        let target_end = target_start.checked_add(target.len())?;
        self.method = Method::from_bytes(method);
        self.method_span = Span::new(0, method.len())?;
        self.whole_target = Span::new(target_start, target_end)?;
        target_end.checked_add(b" HTTP/1.1\r\n".len())
    }

    /// Validates the meaning of a syntactically valid head.
    fn validate(&mut self, buf: &[u8]) -> Result<(), Rejection> {
        self.target = target::read(buf, self.whole_target, self.method, &mut self.changed_path)?;
        self.validate_host(buf)?;
        self.framing = framing::declared(buf, &self.fields, self.version, Side::Request)?;
        self.options = self.fields.connection(buf, Side::Request)?;
        self.validate_expect(buf)
    }

    /// Validates the Host field. Source: RFC 9112 section 3.2.
    fn validate_host(&mut self, buf: &[u8]) -> Result<(), Rejection> {
        if self.fields.has_several(Known::Host) {
            return Err(Rejection::bad("host is repeated"));
        }
        match self.fields.find(Known::Host) {
            Some(field) if !target::is_authority(field.value.of(buf)) => {
                return Err(Rejection::bad("host is invalid"));
            }
            Some(field) => self.host = field.value,
            None if self.version == Version::Http11 => {
                return Err(Rejection::bad("host is missing"));
            }
            None => {}
        }
        if let Some((authority, port)) = self.target.authority {
            let named = self.host.of(buf);
            if !named.is_empty() && !target::agree(authority.of(buf), port, named) {
                return Err(Rejection::bad("host does not match the target"));
            }
            self.host = authority;
        }
        Ok(())
    }

    /// HTTP/1.0 has no expectations. Source: RFC 9110 section 10.1.1.
    fn validate_expect(&mut self, buf: &[u8]) -> Result<(), Rejection> {
        let Some(field) = self.fields.find(Known::Expect) else {
            return Ok(());
        };
        if self.version == Version::Http10 {
            return Ok(());
        }
        let known = field.value.of(buf).eq_ignore_ascii_case(b"100-continue");
        if !known || self.fields.has_several(Known::Expect) {
            return Err(Rejection::new(417, "expectation is not `100-continue`"));
        }
        self.expects_continue = true;
        Ok(())
    }
}
