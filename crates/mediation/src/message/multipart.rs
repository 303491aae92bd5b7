//! Multipart bodies, and `multipart/form-data`. Source: RFC 7578 and RFC 2046 section 5.1; Axis2's builder, whose
//! element is `mediate`, with a child for each part. A file's content is base64, beside its name and type in
//! attributes.

use std::borrow::Cow;

use expression::{Budget, mapping};
use memchr::memmem;
use xml::{Node, QNameRef, Sink as _};
use xpath::encoding;

use super::charset::Charset;
use super::format;
use crate::error::{Code, Failure};
use crate::limits;

const ROOT: &str = "mediate";
const FILE_NAME: &str = "filename";
const TYPE: &str = "type";
/// Namespace of elements with the name of their part, and of files that are not from a message: as Axis2's
/// `MultipartFormDataFormatter` has them.
const FORM_DATA: &str = "http://org.apache.axis2/xsd/form-data";
const NAME: &str = "name";
const CONTENT_TYPE: &str = "content-type";
const CHARSET: &str = "charset";

/// One part.
#[derive(Debug, PartialEq, Eq)]
struct Part<'b> {
    name: String,
    file: Option<String>,
    media: Option<String>,
    content: &'b [u8],
}

impl Part<'_> {
    /// Whether it names the charset of texts that name none. Source: RFC 7578 section 4.6.
    fn is_default(&self) -> bool {
        self.name == "_charset_" && self.file.is_none()
    }

    /// The text of a part, with UTF-8 as the charset of all.
    ///
    /// # Errors
    /// It is not text in its charset; the budget.
    fn text(&self, default: Option<&str>, budget: &Budget) -> Result<Cow<'_, str>, Failure> {
        let own = self.media.as_deref().and_then(|media| format::parameter(media, "charset"));
        let charset = own.or(default).map(Charset::named).unwrap_or_default();
        if self.is_default() && charset != Charset::Utf8 {
            return Ok(Cow::Borrowed("UTF-8"));
        }
        if !charset.is_utf8_in(self.content) {
            return Ok(Cow::Owned(charset.decode(self.content, budget)?));
        }
        let text = std::str::from_utf8(self.content);
        Ok(Cow::Borrowed(text.map_err(|error| malformed(&error.to_string()))?))
    }
}

/// # Errors
/// No boundary, a part without its end or its name, or too many parts.
pub(crate) fn to_xml(
    bytes: &[u8],
    boundary: Option<&str>,
    budget: &Budget,
) -> Result<xml::Document, Failure> {
    let boundary = boundary.ok_or_else(|| malformed("its content type has no boundary"))?;
    budget.charge_scanning(bytes.len())?;
    budget.charge_memory(bytes.len().saturating_mul(2))?;
    let mut out = xml::Builder::new();
    out.start_element(QNameRef::local(ROOT))?;
    let parts = parts(bytes, boundary)?;
    let default = parts.iter().find(|part| part.is_default()).map(|part| part.content);
    let default = default.and_then(|name| std::str::from_utf8(name).ok()).map(str::trim);
    for part in &parts {
        let Some(file) = &part.file else {
            let text = part.text(default, budget)?;
            super::formatter::field(&mut out, (&part.name, &text), budget)?;
            continue;
        };
        let name = mapping::element_name_within(&part.name, budget)?;
        out.start_element(QNameRef::local(&name))?;
        out.attribute(QNameRef::local(FILE_NAME), file)?;
        out.attribute(QNameRef::local(TYPE), sound(part.media.as_deref().unwrap_or_default()))?;
        out.text(&encoding::base64_encode(part.content))?;
        out.end_element()?;
    }
    out.end_element()?;
    Ok(out.finish())
}

fn parts<'b>(bytes: &'b [u8], boundary: &str) -> Result<Vec<Part<'b>>, Failure> {
    sections(bytes, boundary)?.into_iter().map(read_part).collect()
}

/// A part as it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Section<'b> {
    pub(super) head: &'b str,
    pub(super) content: &'b [u8],
    /// Where its head begins.
    pub(super) at: usize,
}

impl<'b> Section<'b> {
    /// The value of a field of its head, with its line ends if it is folded.
    pub(super) fn field(&self, name: &str) -> Option<&'b str> {
        let mut fields = fields(self.head).filter_map(|line| line.split_once(':'));
        let found = fields.find(|(known, _)| known.trim().eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.trim())
    }

    /// Where its content begins.
    pub(super) fn content_at(&self) -> usize {
        let blank = if self.head.is_empty() { 2 } else { 4 };
        self.at.saturating_add(self.head.len()).saturating_add(blank)
    }
}

/// The fields of the head of a part. A line that begins with white space continues the one before. Source: RFC 5322,
/// 2.2.3.
pub(super) fn fields(head: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(head).filter(|head| !head.is_empty());
    std::iter::from_fn(move || {
        let text = rest?;
        let is_last = |at: &usize| !text.get(at + 2..).unwrap_or_default().starts_with([' ', '\t']);
        let end = memmem::find_iter(text.as_bytes(), "\r\n").find(is_last);
        rest = end.and_then(|end| text.get(end + 2..));
        text.get(..end.unwrap_or(text.len()))
    })
}

/// The parts of a multipart body.
///
/// # Errors
/// The boundary does not occur, a part has no end or no head, or there are too many; with the place in the body.
pub(super) fn sections<'b>(bytes: &'b [u8], boundary: &str) -> Result<Vec<Section<'b>>, Failure> {
    let delimiter = format!("\r\n--{boundary}");
    let opening = delimiter.as_bytes().get(2..).unwrap_or_default();
    let mut at = if bytes.starts_with(opening) {
        opening.len()
    } else {
        let preamble = memmem::find(bytes, delimiter.as_bytes());
        preamble.ok_or_else(|| malformed("its boundary does not occur"))? + delimiter.len()
    };
    let mut sections = Vec::new();
    // Up to the closing delimiter, which ends in two hyphens.
    loop {
        let rest = bytes.get(at..).unwrap_or_default();
        if rest.starts_with(b"--") {
            return Ok(sections);
        }
        let padded = rest.iter().take_while(|byte| b" \t".contains(byte)).count();
        // With the line end of its delimiter, which an empty head needs.
        let line = rest.get(padded..).filter(|line| line.starts_with(b"\r\n"));
        let line = line.ok_or_else(|| malformed_at("a delimiter without a line end", at))?;
        at += padded + 2;
        let end = memmem::find(line.get(2..).unwrap_or_default(), delimiter.as_bytes());
        let end = end.ok_or_else(|| malformed_at("a part without an end", at))?;
        if sections.len() >= limits::MULTIPART_PARTS_MAX {
            return Err(malformed(&format!("more than {} parts", limits::MULTIPART_PARTS_MAX)));
        }
        sections.push(section(line.get(..end + 2).unwrap_or_default(), at)?);
        at += end + delimiter.len();
    }
}

/// `part`: behind a line end, which is before `at`.
fn section(part: &[u8], at: usize) -> Result<Section<'_>, Failure> {
    let end = memmem::find(part, b"\r\n\r\n");
    let end = end.ok_or_else(|| malformed_at("a part without a head", at))?;
    if end > limits::MULTIPART_HEAD_BYTES_MAX + 2 {
        let most = limits::MULTIPART_HEAD_BYTES_MAX;
        let error = format!("the head of a part is longer than {most} bytes");
        return Err(malformed_at(&error, at));
    }
    let head = std::str::from_utf8(part.get(2..end).unwrap_or_default());
    let head = head.map_err(|error| malformed_at(&error.to_string(), at))?;
    Ok(Section { head, content: part.get(end + 4..).unwrap_or_default(), at })
}

fn read_part(section: Section<'_>) -> Result<Part<'_>, Failure> {
    let disposition = section.field("content-disposition").unwrap_or_default();
    let name = quoted(disposition, "name");
    let name = name.ok_or_else(|| malformed_at("a part without a name", section.at))?;
    let media = section.field("content-type").map(|media| media.replace("\r\n", ""));
    Ok(Part { name, file: quoted(disposition, FILE_NAME), media, content: section.content })
}

/// A parameter of a disposition. In quotes a backslash keeps the next character; browsers write `%22` for a quote.
fn quoted(disposition: &str, wanted: &str) -> Option<String> {
    let mut rest = disposition.split_once(';')?.1;
    loop {
        let (name, value) = rest.split_once('=')?;
        let (mut text, after) = (String::new(), value.trim_start());
        let after = if let Some(quoted) = after.strip_prefix('"') {
            let mut characters = quoted.chars();
            loop {
                match characters.next()? {
                    '"' => break characters.as_str(),
                    '\\' => text.push(characters.next()?),
                    other => text.push(other),
                }
            }
        } else {
            let end = after.find(';').unwrap_or(after.len());
            text.push_str(after.get(..end).unwrap_or_default().trim_end());
            after.get(end..).unwrap_or_default()
        };
        if name.trim().eq_ignore_ascii_case(wanted) {
            return Some(text.replace("%22", "\"").replace("%0D", "\r").replace("%0A", "\n"));
        }
        rest = after.trim_start().strip_prefix(';')?;
    }
}

/// The content types of parts that are text, by name, which their elements do not say.
pub(super) type Types = Vec<(String, String)>;

/// # Errors
/// As [`to_xml`].
pub(super) fn types(bytes: &[u8], boundary: &str, budget: &Budget) -> Result<Types, Failure> {
    budget.charge_scanning(bytes.len())?;
    let parts = parts(bytes, boundary)?.into_iter().filter(|part| part.file.is_none());
    let is_plain = |media: &String| !media.chars().any(char::is_control);
    Ok(parts.filter_map(|part| Some((part.name, in_utf8(part.media.filter(is_plain)?)))).collect())
}

/// The content type of a text that is written in UTF-8.
fn in_utf8(media: String) -> String {
    let charset = format::parameter(&media, "charset").map(Charset::named);
    if matches!(charset, None | Some(Charset::Utf8 | Charset::Ascii)) {
        return media;
    }
    format!("{}; charset=UTF-8", media.split(';').next().unwrap_or_default().trim())
}

/// Each child of `payload` as a part, and the boundary between them: `boundary`, unless a part contains it.
pub(crate) fn write(
    payload: Node<'_>,
    boundary: Option<&str>,
    types: &[(String, String)],
    budget: &Budget,
) -> Result<(Vec<u8>, String), Failure> {
    let mut parts = Vec::new();
    let mut types: Vec<_> = types.iter().collect();
    for child in payload.elements() {
        let value = child.string_value();
        budget.charge_scanning(value.len())?;
        budget.charge_memory(value.len().saturating_mul(2))?;
        let file = child.attribute("", FILE_NAME);
        let decoded = file.and_then(|_| encoding::base64_decode(value.trim()));
        let content = decoded.unwrap_or_else(|| value.as_bytes().to_vec());
        let own = child.attribute("", NAME).filter(|_| child.namespace() == FORM_DATA);
        let name = own.map_or_else(|| mapping::member_name(child.local_name()), Cow::Borrowed);
        budget.charge_steps(types.len() as u64)?;
        // Each of several parts of one name has its own.
        let known = types.iter().position(|(known, _)| *known == *name);
        let known = known.filter(|_| file.is_none()).map(|at| &*types.remove(at).1);
        parts.push((head(child, &name, file, known), content));
    }
    let is_free = |boundary: &str| {
        !parts.iter().any(|(_, content)| memmem::find(content, boundary.as_bytes()).is_some())
    };
    let numbered = (0_u32..).map(|number| format!("penstock-{number:08x}"));
    let known = boundary.filter(|boundary| !boundary.is_empty()).map(str::to_owned);
    // A content holds finitely many of them; each attempt is charged.
    let all: usize = parts.iter().map(|(_, content)| content.len()).sum();
    let mut chosen = None;
    for candidate in known.into_iter().chain(numbered) {
        budget.charge_reading(all)?;
        budget.charge_steps(1)?;
        if is_free(&candidate) {
            chosen = Some(candidate);
            break;
        }
    }
    let boundary = chosen.unwrap_or_default();
    let mut out = Vec::new();
    for (head, content) in parts {
        out.extend_from_slice(format!("--{boundary}\r\n{head}\r\n").as_bytes());
        out.extend_from_slice(&content);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    Ok((out, boundary))
}

/// The content type of a file without a known one.
const OCTETS: &str = "application/octet-stream";

/// The content type of a file, unless it cannot be written: with a boundary of its own, or control characters.
fn sound(media: &str) -> &str {
    let is_sound =
        format::parameter(media, "boundary").is_none() && !media.chars().any(char::is_control);
    if is_sound { media } else { OCTETS }
}

/// The content type of a file.
fn media(part: Node<'_>) -> Cow<'_, str> {
    if let Some(read) = part.attribute("", TYPE) {
        return sound(read).into();
    }
    match (part.attribute("", CONTENT_TYPE), part.attribute("", CHARSET)) {
        (Some(media), Some(charset)) => {
            sound(&format!("{media}; charset={charset}")).to_owned().into()
        }
        (Some(media), None) => sound(media).into(),
        (None, _) => OCTETS.into(),
    }
}

/// `known`: the content type that a text had.
fn head(part: Node<'_>, name: &str, file: Option<&str>, known: Option<&str>) -> String {
    let escape = |text: &str| {
        let text = text.replace('\\', r"\\").replace('"', "%22");
        text.replace('\r', "%0D").replace('\n', "%0A")
    };
    let name = escape(name);
    let mut head = format!("Content-Disposition: form-data; name=\"{name}\"");
    let media = match file {
        None => known.map(Cow::Borrowed),
        Some(file) => {
            head.push_str(&format!("; filename=\"{}\"", escape(file)));
            // One that had none is written without one.
            Some(media(part)).filter(|media| !media.is_empty())
        }
    };
    head.push_str("\r\n");
    if let Some(media) = media {
        head.push_str(&format!("Content-Type: {media}\r\n"));
    }
    head
}

pub(super) fn malformed(error: &str) -> Failure {
    Failure::new(Code::MALFORMED_BODY, format!("the body is not multipart: {error}"))
}

pub(super) fn malformed_at(error: &str, at: usize) -> Failure {
    malformed(&format!("{error}, at byte {at}"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    const BODY: &str = "preamble\r\n--B \r\nContent-Disposition: form-data; name=\"a\\\"b\\\\\"\r\n\r\none\r\n--B\r\n\
                        content-disposition: form-data; filename=\"x.bin\"; name=f\r\nContent-Type: image/png\r\n\r\n\x01--B\r\n--B--\r\nepilogue";

    #[test]
    fn parts_have_a_name_and_a_content() {
        let parts = parts(BODY.as_bytes(), "B").unwrap();
        let part = |name: &str, file: Option<&str>, media: Option<&str>, content| Part {
            name: name.to_owned(),
            file: file.map(str::to_owned),
            media: media.map(str::to_owned),
            content,
        };
        let expect = [
            part("a\"b\\", None, None, &b"one"[..]),
            part("f", Some("x.bin"), Some("image/png"), &b"\x01--B"[..]),
        ];
        assert_eq!(parts, expect);
    }

    #[test]
    fn what_is_written_is_read_again() {
        let budget = Budget::default();
        let document = to_xml(BODY.as_bytes(), Some("B"), &budget).unwrap();
        let (written, boundary) =
            write(document.element().unwrap(), Some("B"), &[], &budget).unwrap();
        assert_ne!(boundary, "B", "a part contains it");
        let again = to_xml(&written, Some(&boundary), &budget).unwrap();
        let text =
            |document: &xml::Document| document.write(xml::WriterOptions::default()).unwrap();
        assert_eq!(text(&document), text(&again));
    }

    #[test]
    fn files_of_artefacts_have_the_attributes_of_axis2() {
        let budget = Budget::default();
        let part = |attributes: &str| {
            let xml = format!("<m><file {attributes} filename=\"a.txt\">YQ==</file></m>");
            let document = xml::Document::parse(xml.as_bytes()).unwrap();
            let (written, _) = write(document.element().unwrap(), Some("B"), &[], &budget).unwrap();
            String::from_utf8(written).unwrap()
        };
        let expect = |name: &str, media: &str| {
            format!(
                "--B\r\nContent-Disposition: form-data; name=\"{name}\"; filename=\"a.txt\"\r\n\
                 Content-Type: {media}\r\n\r\na\r\n--B--\r\n"
            )
        };
        let ours = format!("xmlns=\"{FORM_DATA}\" name=\"file1\" content-type=\"text/plain\"");
        assert_eq!(part(&ours), expect("file1", "text/plain"));
        let ascii = format!("{ours} charset=\"US-ASCII\"");
        assert_eq!(part(&ascii), expect("file1", "text/plain; charset=US-ASCII"));
        let injected = format!("{ours} charset=\"x&#13;&#10;X-Y: 1\"");
        assert_eq!(part(&injected), expect("file1", OCTETS));
        assert_eq!(part("name=\"file1\""), expect("file", OCTETS));
    }

    #[test]
    fn texts_keep_their_content_types() {
        let budget = Budget::default();
        let part = |name: &str, media: &str, text: &str| {
            let media =
                if media.is_empty() { String::new() } else { format!("Content-Type: {media}\r\n") };
            format!(
                "--B\r\nContent-Disposition: form-data; name=\"{name}\"\r\n{media}\r\n{text}\r\n"
            )
        };
        let body = [
            part("a", "application/json", "{}"),
            part("b", "", "1"),
            part("a", "text/plain; charset=utf-8", "2"),
            "--B--\r\n".to_owned(),
        ]
        .concat();
        let document = to_xml(body.as_bytes(), Some("B"), &budget).unwrap();
        let types = types(body.as_bytes(), "B", &budget).unwrap();
        let (written, _) = write(document.element().unwrap(), Some("B"), &types, &budget).unwrap();
        assert_eq!(String::from_utf8(written).unwrap(), body);
    }

    #[test]
    fn texts_are_read_in_their_charsets_and_written_in_utf8() {
        let budget = Budget::default();
        let part = |name: &str, media: &str, text: &[u8]| {
            let head =
                format!("--B\r\nContent-Disposition: form-data; name=\"{name}\"\r\n{media}\r\n");
            [head.as_bytes(), text, b"\r\n"].concat()
        };
        let latin = "Content-Type: text/plain; charset=ISO-8859-1\r\n";
        let body = |default: &str| {
            let parts = [
                part("_charset_", "", default.as_bytes()),
                part("a", latin, b"\xe9"),
                part("b", "", b"\x93\xfa"),
                b"--B--\r\n".to_vec(),
            ];
            parts.concat()
        };
        let bytes = body("Shift_JIS");
        let document = to_xml(&bytes, Some("B"), &budget).unwrap();
        let types = types(&bytes, "B", &budget).unwrap();
        let (written, _) = write(document.element().unwrap(), Some("B"), &types, &budget).unwrap();
        let utf8 = latin.replace("ISO-8859-1", "UTF-8");
        let expect = [
            part("_charset_", "", b"UTF-8"),
            part("a", &utf8, "é".as_bytes()),
            part("b", "", "日".as_bytes()),
            b"--B--\r\n".to_vec(),
        ];
        assert_eq!(written, expect.concat());
        for default in ["utf-8", "nonsense"] {
            assert!(to_xml(&body(default), Some("B"), &budget).is_err(), "{default}");
        }
    }

    #[test]
    fn malformed_bodies_are_rejected() {
        for body in [
            "",
            "--B",
            "--B\r\n",
            "--B\r\n\r\n--B--",
            "--B\r\nContent-Disposition: form-data\r\n\r\nx\r\n--B--",
            "--B\r\nContent-Disposition: form-data; name=\"a\r\n\r\nx\r\n--B--",
            "--Bx\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nx\r\n--B--",
        ] {
            assert!(parts(body.as_bytes(), "B").is_err(), "{body:?}");
        }
        assert!(to_xml(b"--B--", None, &Budget::default()).is_err());
    }
}
