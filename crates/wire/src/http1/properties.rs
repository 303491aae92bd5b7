//! Properties that hold for any bytes, checked by unit tests, property tests and fuzz targets. The functions
//! panic if a property does not hold.

use std::ops::Range;

use base::{Method, limits};

use super::{
    BodyFraming, ChunkedDecoder, Field, Known, KnownSet, Parsed, Piece, Rejection, RequestHead,
    ResponseHead, Side, find, scan, write,
};

/// The result for a request head does not depend on how it was split, both parsers agree, and an accepted head
/// is well-formed and has the same meaning when it is written and parsed again.
pub fn request_head(bytes: &[u8]) {
    let mut head = RequestHead::default();
    let whole = head.parse(bytes);
    let seen = view(&head, bytes);
    for cut in cuts(bytes.len()) {
        let part = bytes.get(..cut).unwrap_or(bytes);
        let result = head.parse(part);
        check_cut(result, whole, cut);
        if result == Ok(Parsed::Complete) {
            assert_eq!(view(&head, part), seen, "a cut at {cut} changed the head");
        }
    }
    let second = scan::request(bytes);
    match whole {
        Ok(Parsed::Complete) => {
            head.parse(bytes).expect("it was accepted before");
            assert_eq!(second, Ok(Some(head.len())), "the reference parser differs");
            check_plain(bytes.get(..head.len()).unwrap_or_default(), head.fields());
            let mut headers = [httparse::EMPTY_HEADER; limits::HEADER_FIELDS_MAX];
            let third = httparse::Request::new(&mut headers).parse(bytes);
            assert_eq!(third, Ok(httparse::Status::Complete(head.len())), "httparse differs");
            check_path(&head, bytes);
            request_written_back(&head, bytes);
        }
        Ok(Parsed::Partial) => assert_eq!(second, Ok(None), "the reference parser differs"),
        Err(rejection) => {
            assert_ne!(second, Ok(None), "rejected a valid prefix");
            assert_ne!(rejection.reason, "head is malformed", "the parsers differ");
        }
    }
}

/// As [`request_head`] for a response head.
pub fn response_head(bytes: &[u8]) {
    for method in [Method::Get, Method::Head] {
        let mut head = ResponseHead::default();
        let whole = head.parse(bytes, method);
        for cut in cuts(bytes.len()) {
            check_cut(head.parse(bytes.get(..cut).unwrap_or(bytes), method), whole, cut);
        }
        let second = scan::response(bytes);
        match whole {
            Ok(Parsed::Complete) => {
                head.parse(bytes, method).expect("it was accepted before");
                assert_eq!(second, Ok(Some(head.len())), "the reference parser differs");
                check_plain(bytes.get(..head.len()).unwrap_or_default(), head.fields());
                let mut headers = [httparse::EMPTY_HEADER; limits::HEADER_FIELDS_MAX];
                let third = httparse::Response::new(&mut headers).parse(bytes);
                assert_eq!(third, Ok(httparse::Status::Complete(head.len())), "httparse differs");
                response_written_back(&head, bytes, method);
            }
            Ok(Parsed::Partial) => assert_eq!(second, Ok(None), "the reference parser differs"),
            Err(rejection) => {
                assert_eq!(rejection.status, 502);
                assert_ne!(second, Ok(None), "rejected a valid prefix");
                assert_ne!(rejection.reason, "head is malformed", "the parsers differ");
            }
        }
    }
}

/// A chunked body decodes to the same payload however it was split, and again after it is re-encoded. Extensions are
/// accepted by the rules of their grammar.
pub fn chunked(bytes: &[u8]) {
    chunk_extensions(bytes);
    for side in [Side::Request, Side::Response] {
        let whole = decode(bytes, side, |len| len);
        assert_eq!(decode(bytes, side, |_| 1), whole, "byte by byte it differs");
        for step in [2, 3, 7] {
            assert_eq!(decode(bytes, side, |_| step), whole, "in steps of {step} it differs");
        }
        for cut in cuts(bytes.len()) {
            let once = decode(bytes, side, |left| match left == bytes.len() {
                true => cut,
                false => left,
            });
            assert_eq!(once, whole, "a cut at {cut} changed the body");
        }
        if let Ok(Some(body)) = whole {
            let mut again = Vec::new();
            for chunk in body.payload.chunks(100) {
                write::chunk_header(&mut again, chunk.len() as u64);
                again.extend_from_slice(chunk);
                write::chunk_end(&mut again);
            }
            write::last_chunk(&mut again, &body.trailers);
            let used = again.len();
            assert_eq!(decode(&again, side, |len| len), Ok(Some(Body { used, ..body })));
        }
    }
}

/// The first line of `bytes` as the extensions of a chunk.
fn chunk_extensions(bytes: &[u8]) {
    let line = bytes.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
    let line = line.get(..limits::CHUNK_EXTENSION_BYTES_MAX as usize - 1).unwrap_or(line);
    let body = [b"1;", line, b"\r\nx\r\n0\r\n\r\n"].concat();
    let expect = are_extensions(&[b";", line].concat()).then(|| b"x".to_vec());
    let found = decode(&body, Side::Request, |len| len);
    assert_eq!(found.ok().flatten().map(|body| body.payload), expect, "chunk extensions");
}

/// `*( BWS ";" BWS token [ BWS "=" BWS ( token / quoted-string ) ] )`
fn are_extensions(mut rest: &[u8]) -> bool {
    let after_token = |text: &[u8]| find::token_len(text).checked_sub(1).map(|last| last + 1);
    while !rest.is_empty() {
        let Some(name) = scan::trim_start(rest).strip_prefix(b";").map(scan::trim_start) else {
            return false;
        };
        let Some(len) = after_token(name) else { return false };
        rest = name.get(len..).unwrap_or_default();
        if let Some(value) = scan::trim_start(rest).strip_prefix(b"=").map(scan::trim_start) {
            let len = match value.strip_prefix(b"\"") {
                Some(quoted) => quoted_len(quoted).map(|len| len + 1),
                None => after_token(value),
            };
            let Some(len) = len else { return false };
            rest = value.get(len..).unwrap_or_default();
        }
    }
    true
}

/// The length of a quoted string after its first quotation mark, with the last one.
fn quoted_len(text: &[u8]) -> Option<usize> {
    let mut bytes = text.iter().enumerate();
    while let Some((at, &byte)) = bytes.next() {
        match byte {
            b'"' => return Some(at + 1),
            b'\\' if !bytes.next().is_some_and(|(_, &byte)| scan::is_value_byte(byte)) => {
                return None;
            }
            _ if !scan::is_value_byte(byte) => return None,
            _ => {}
        }
    }
    None
}

#[derive(Debug, PartialEq, Eq)]
struct Body {
    payload: Vec<u8>,
    trailers: Vec<u8>,
    used: usize,
}

/// Decodes `bytes` in pieces; `step` chooses the length of each, given the remaining length. `None` if incomplete.
fn decode(
    bytes: &[u8],
    side: Side,
    step: impl Fn(usize) -> usize,
) -> Result<Option<Body>, Rejection> {
    let mut decoder = ChunkedDecoder::new(side);
    let mut payload = Vec::new();
    let mut used_before = 0;
    while let Some(left) = bytes.get(used_before..).filter(|left| !left.is_empty()) {
        let mut piece = left.get(..step(left.len()).max(1)).unwrap_or(left);
        while !piece.is_empty() {
            let used = match decoder.next(piece)? {
                Piece::NeedMore { used } => {
                    assert_eq!(used, piece.len(), "framing was not consumed");
                    used
                }
                Piece::Data { skip, take } => {
                    assert!(take > 0, "an empty piece of payload");
                    let data = piece.get(skip..skip + take).expect("a piece lies in its input");
                    payload.extend_from_slice(data);
                    skip + take
                }
                Piece::End { used } => {
                    let trailers = decoder.trailers().to_vec();
                    check_trailers(&decoder);
                    let used = used_before + used;
                    return Ok(Some(Body { payload, trailers, used }));
                }
            };
            used_before += used;
            piece = piece.get(used..).expect("no more is used than was given");
        }
    }
    Ok(None)
}

fn check_trailers(decoder: &ChunkedDecoder) {
    let mut again = Vec::new();
    let text = decoder.trailers();
    write::fields(&mut again, text, decoder.trailer_fields(), KnownSet::EMPTY);
    assert_eq!(again, text, "trailers and their offsets differ");
    for field in decoder.trailer_fields() {
        let name = with_hyphens(field.name.of(text));
        assert_eq!(Known::of(&name), Known::Other, "a forbidden trailer was kept");
    }
}

/// How CGI and its successors read a name.
fn with_hyphens(name: &[u8]) -> Vec<u8> {
    name.iter().map(|&byte| if byte == b'_' { b'-' } else { byte }).collect()
}

/// All positions in a short input; for a long one the first and last hundred, and about 30 between.
fn cuts(len: usize) -> impl Iterator<Item = usize> {
    const EACH: usize = 100;
    let start: Range<usize> = 0..len.min(2 * EACH);
    let middle = (2 * EACH..len.saturating_sub(EACH)).step_by(len / 30 + 1);
    start.chain(middle).chain(len.saturating_sub(EACH).max(2 * EACH)..len)
}

fn check_cut(part: Result<Parsed, Rejection>, whole: Result<Parsed, Rejection>, cut: usize) {
    if part != Ok(Parsed::Partial) {
        assert_eq!(part, whole, "a cut at {cut} changed the result");
    }
}

/// An accepted head: CR and LF in pairs only, no other control character but tabs, as many lines as
/// fields and two more, and no line that starts with white space.
fn check_plain(head: &[u8], fields: &[Field]) {
    let text = head.strip_suffix(b"\r\n\r\n").expect("a head ends with an empty line");
    let lines: Vec<&[u8]> = text.split(|&byte| byte == b'\n').collect();
    assert_eq!(lines.len(), fields.len() + 1, "lines and fields differ");
    for (number, line) in lines.iter().enumerate() {
        let is_last = number + 1 == lines.len();
        let line = if is_last { line } else { line.strip_suffix(b"\r").expect("LF without CR") };
        assert!(!line.is_empty() && !line.starts_with(b" ") && !line.starts_with(b"\t"));
        assert!(line.iter().all(|&byte| byte == b'\t' || byte >= b' ' && byte != 0x7f));
    }
    for field in fields {
        let (name, value) = (field.name.of(head), field.value.of(head));
        assert!(find::is_token(name), "a name that is not a token");
        assert_eq!(scan::trim(value), value, "white space around a value");
        assert_eq!(Known::of(name), field.known);
        let between = head.get(field.name.end as usize..field.value.start as usize);
        assert_eq!(between.map(scan::trim), Some(b":".as_slice()), "between name and value");
    }
}

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

fn pairs(fields: &[Field], bytes: &[u8], keep: impl Fn(&Field) -> bool) -> Pairs {
    let pair = |field: &Field| (field.name.of(bytes).to_vec(), field.value.of(bytes).to_vec());
    fields.iter().filter(|field| keep(field)).map(pair).collect()
}

/// Everything that a stage can read from a head.
fn view(head: &RequestHead, bytes: &[u8]) -> impl PartialEq + std::fmt::Debug + use<> {
    let line = [head.method_bytes(bytes), head.path(bytes), head.host(bytes)].map(<[u8]>::to_vec);
    let query = head.query(bytes).map(<[u8]>::to_vec);
    let body = (head.framing(), head.expects_continue());
    let connection = (head.version(), head.keep_alive(), head.upgrade(bytes));
    let ambiguous = head.has_ambiguous_path();
    (head.len(), line, ambiguous, query, body, connection, head.fields().to_vec())
}

/// No server finds a dot segment in an accepted path, even if it decodes delimiters or drops parameters first;
/// and a path that is not ambiguous has one reading, the one that was sent.
fn check_path(head: &RequestHead, bytes: &[u8]) {
    let path = head.path(bytes);
    let decoded = unescaped(path, &SEPARATORS);
    for segment in unescaped(path, &DELIMITERS).split(|byte| matches!(byte, b'/' | b'\\')) {
        let name = segment.split(|byte| matches!(byte, b';' | b'?' | b'#')).next();
        let name = name.unwrap_or_default();
        assert!(!matches!(name, b"." | b".."), "a dot segment was kept");
    }
    let target = head.target(bytes);
    if target.starts_with(b"/") {
        let sent = target.split(|&byte| byte == b'?').next().unwrap_or_default();
        let differs = sent != path
            || decoded != path
            || path.windows(2).any(|pair| pair == b"//")
            || path.contains(&b';');
        assert_eq!(head.has_ambiguous_path(), differs, "ambiguous path");
    }
}

/// Escapes that change the segments of a path for a server that decodes them, or cut one off.
const DELIMITERS: [(&[u8], u8); 5] =
    [(b"%2F", b'/'), (b"%5C", b'\\'), (b"%3B", b';'), (b"%3F", b'?'), (b"%23", b'#')];
/// Escapes that make a path ambiguous.
const SEPARATORS: [(&[u8], u8); 2] = [(b"%2F", b'/'), (b"%5C", b'\\')];

/// `path` with these escapes decoded.
fn unescaped(path: &[u8], escapes: &[(&[u8], u8)]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = path;
    while let Some((first, after)) = rest.split_first() {
        let escape = rest.get(..3).unwrap_or_default().to_ascii_uppercase();
        let known = escapes.iter().find(|(known, _)| *known == escape);
        let (byte, after) = match known {
            Some((_, byte)) => (*byte, rest.get(3..).unwrap_or_default()),
            None => (*first, after),
        };
        out.push(byte);
        rest = after;
    }
    out
}

/// The head that is forwarded has the same meaning.
fn request_written_back(head: &RequestHead, bytes: &[u8]) {
    const OURS: KnownSet = KnownSet::of(&[Known::Host, Known::ContentLength, Known::Expect]);
    let mut out = Vec::new();
    let method = head.method_bytes(bytes);
    write::request_line(&mut out, method, b"", head.path(bytes), head.query(bytes));
    let host = if head.host(bytes).is_empty() { b"none" } else { head.host(bytes) };
    write::field(&mut out, b"host", host);
    match head.framing() {
        BodyFraming::None => {}
        BodyFraming::Length(len) => write::content_length(&mut out, len),
        BodyFraming::Chunked => write::transfer_encoding_chunked(&mut out),
    }
    write::fields(&mut out, bytes, head.fields(), OURS);
    write::end(&mut out);
    let own_lines = usize::from(head.framing() != BodyFraming::None) + 1;
    let fits = out.len() <= limits::HEAD_BYTES_MAX as usize
        && head.fields().len() + own_lines <= limits::HEADER_FIELDS_MAX
        && head.path(bytes).len() <= limits::TARGET_BYTES_MAX as usize;
    if !fits {
        return;
    }
    let mut again = RequestHead::default();
    assert_eq!(again.parse(&out), Ok(Parsed::Complete), "the written head is rejected");
    assert_eq!(again.len(), out.len());
    assert_eq!(again.method(), head.method());
    assert_eq!(again.path(&out), head.path(bytes), "normalisation is not idempotent");
    assert_eq!(again.query(&out), head.query(bytes));
    assert_eq!(again.host(&out), host);
    if head.path(bytes).starts_with(b"/") {
        let url = [&b"https://"[..], host, head.path(bytes), b"?x#y"].concat();
        assert!(head.is_for(bytes, (b"https", host), &url), "its own URL");
        assert!(!head.is_for(bytes, (b"http", host), &url), "another scheme");
    }
    assert_eq!(again.framing(), head.framing());
    for field in again.fields() {
        let name = field.name.of(&out);
        let read = Known::of(&with_hyphens(name));
        let distinct =
            read == Known::Other || !name.contains(&b'_') || field.known == Known::XForwarded;
        assert!(distinct, "a look-alike was forwarded");
    }
    let forwarded = |field: &Field| !field.hop && !OURS.contains(field.known);
    assert_eq!(
        pairs(again.fields(), &out, forwarded),
        pairs(head.fields(), bytes, forwarded),
        "the forwarded fields differ"
    );
}

fn response_written_back(head: &ResponseHead, bytes: &[u8], method: Method) {
    let mut out = Vec::new();
    write::status_line(&mut out, head.status(), head.reason(bytes));
    write::fields(&mut out, bytes, head.fields(), KnownSet::EMPTY);
    write::end(&mut out);
    if out.len() > limits::RESPONSE_HEAD_BYTES_MAX as usize {
        return;
    }
    let mut again = ResponseHead::default();
    assert_eq!(again.parse(&out, method), Ok(Parsed::Complete), "the written head is rejected");
    assert_eq!(again.status(), head.status());
    assert_eq!(again.reason(&out), head.reason(bytes));
    let forwarded = |field: &Field| !field.hop;
    assert_eq!(
        pairs(again.fields(), &out, |_| true),
        pairs(head.fields(), bytes, forwarded),
        "the forwarded fields differ"
    );
}
