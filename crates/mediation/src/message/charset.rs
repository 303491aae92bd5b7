//! Charsets of bodies: by the name that a content type or an XML declaration has for it.

use encoding_rs::{DecoderResult, EncoderResult, Encoding, UTF_16BE, UTF_16LE};
use expression::Budget;

use super::Format;
use crate::error::{Code, Failure};

/// A charset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Charset {
    #[default]
    Utf8,
    Ascii,
    Latin1,
    /// With a byte order mark, else big-endian. Source: RFC 2781, 4.3.
    Utf16,
    Other(&'static Encoding),
    Unknown(Box<str>),
}

/// The most bytes of a character that another charset does not have: `&#1114111;` or `\ud83d\ude00`.
const ESCAPE_BYTES_MAX: usize = 12;

impl Charset {
    /// By a name of IANA's registry, or one of Java's.
    pub(crate) fn named(name: &str) -> Self {
        let is = |names: &[&str]| names.iter().any(|known| name.eq_ignore_ascii_case(known));
        if is(&["utf-8", "utf8"]) {
            Self::Utf8
        } else if is(&["us-ascii", "ascii", "iso646-us"]) {
            Self::Ascii
        } else if is(&["iso-8859-1", "iso8859-1", "iso8859_1", "iso_8859-1", "latin1", "latin-1"]) {
            Self::Latin1
        } else if is(&["utf-16", "utf16"]) {
            Self::Utf16
        } else {
            // The others of the name `replacement` cannot be read.
            let known = Encoding::for_label_no_replacement(name.as_bytes());
            known.map_or_else(|| Self::Unknown(name.into()), Self::Other)
        }
    }

    pub(crate) fn is_known(name: &str) -> bool {
        !matches!(Self::named(name), Self::Unknown(_))
    }

    /// Whether these bytes are the same in UTF-8.
    pub(crate) fn is_utf8_in(&self, bytes: &[u8]) -> bool {
        match self {
            // More than they promise is read as UTF-8.
            Self::Utf8 | Self::Ascii => true,
            Self::Latin1 | Self::Unknown(_) => bytes.is_ascii(),
            Self::Utf16 => bytes.is_empty(),
            Self::Other(encoding) if encoding.is_ascii_compatible() => bytes.is_ascii(),
            Self::Other(_) => bytes.is_empty(),
        }
    }

    /// The text of `bytes`, charged.
    ///
    /// # Errors
    /// They are malformed, with the offset; the charset is not known; the budget.
    pub(crate) fn decode(&self, bytes: &[u8], budget: &Budget) -> Result<String, Failure> {
        let malformed = |problem: String| Failure::new(Code::MALFORMED_BODY, problem);
        budget.charge_scanning(bytes.len())?;
        let encoding = match self {
            Self::Utf8 | Self::Ascii => encoding_rs::UTF_8,
            Self::Latin1 => {
                budget.charge_memory(bytes.len().saturating_mul(2))?;
                return Ok(encoding_rs::mem::decode_latin1(bytes).into_owned());
            }
            Self::Utf16 => Encoding::for_bom(bytes)
                .map(|(encoding, _)| encoding)
                .filter(|encoding| [UTF_16BE, UTF_16LE].contains(encoding))
                .unwrap_or(UTF_16BE),
            Self::Other(encoding) => encoding,
            Self::Unknown(name) => {
                return Err(malformed(format!("the charset `{name}` of the body is not known")));
            }
        };
        let mut decoder = encoding.new_decoder_with_bom_removal();
        let most = decoder.max_utf8_buffer_length_without_replacement(bytes.len());
        let most = most.unwrap_or(usize::MAX);
        budget.charge_memory(most)?;
        let mut text = String::with_capacity(most);
        let (result, read) = decoder.decode_to_string_without_replacement(bytes, &mut text, true);
        match result {
            DecoderResult::InputEmpty => {
                text.shrink_to_fit();
                budget.release_memory(most.saturating_sub(text.len()));
                Ok(text)
            }
            DecoderResult::Malformed(bad, after) => {
                let at = read.saturating_sub(usize::from(bad) + usize::from(after));
                let name = encoding.name();
                Err(malformed(format!("the body is not text in {name}: malformed at byte {at}")))
            }
            DecoderResult::OutputFull => Err(malformed("the body is too large".to_owned())),
        }
    }

    /// The bytes of `text`, charged. Characters that the charset lacks are escaped as in `format`, or become `?`.
    ///
    /// # Errors
    /// The charset is not known; the budget.
    pub(crate) fn encode(
        &self,
        text: &str,
        format: Format,
        budget: &Budget,
    ) -> Result<Vec<u8>, Failure> {
        budget.charge_scanning(text.len())?;
        budget.charge_memory(text.len().saturating_mul(2).saturating_add(2))?;
        let big_endian = |out: &mut Vec<u8>, text: &str| {
            out.extend(text.encode_utf16().flat_map(u16::to_be_bytes));
        };
        let mut out = Vec::with_capacity(text.len());
        match self {
            Self::Utf8 => out.extend_from_slice(text.as_bytes()),
            Self::Ascii => single(text, 0x7f, format, (&mut out, budget))?,
            Self::Latin1 => single(text, 0xff, format, (&mut out, budget))?,
            Self::Utf16 => {
                out.extend_from_slice(&[0xfe, 0xff]);
                big_endian(&mut out, text);
            }
            Self::Other(encoding) if *encoding == UTF_16BE => big_endian(&mut out, text),
            Self::Other(encoding) if *encoding == UTF_16LE => {
                out.extend(text.encode_utf16().flat_map(u16::to_le_bytes));
            }
            Self::Other(encoding) => other(text, encoding, format, (&mut out, budget))?,
            Self::Unknown(name) => {
                let message = format!("the charset `{name}` is not known");
                return Err(Failure::new(Code::MEDIATION, message));
            }
        }
        Ok(out)
    }
}

/// One byte for each character up to `last`.
fn single(
    text: &str,
    last: u8,
    format: Format,
    (out, budget): (&mut Vec<u8>, &Budget),
) -> Result<(), Failure> {
    for next in text.chars() {
        match u8::try_from(next) {
            Ok(byte) if byte <= last => out.push(byte),
            Ok(_) | Err(_) => escape(next, format, (&mut *out, budget))?,
        }
    }
    Ok(())
}

fn other(
    text: &str,
    encoding: &'static Encoding,
    format: Format,
    (out, budget): (&mut Vec<u8>, &Budget),
) -> Result<(), Failure> {
    let mut encoder = encoding.new_encoder();
    let mut rest = text;
    loop {
        let most = encoder.max_buffer_length_from_utf8_without_replacement(rest.len());
        out.reserve(most.unwrap_or(rest.len()));
        let (result, read) = encoder.encode_from_utf8_to_vec_without_replacement(rest, out, true);
        rest = rest.get(read..).unwrap_or_default();
        match result {
            EncoderResult::InputEmpty => return Ok(()),
            EncoderResult::Unmappable(next) => escape(next, format, (&mut *out, budget))?,
            EncoderResult::OutputFull => {}
        }
    }
}

/// In ASCII.
fn escape(
    next: char,
    format: Format,
    (out, budget): (&mut Vec<u8>, &Budget),
) -> Result<(), Failure> {
    budget.charge_memory(ESCAPE_BYTES_MAX)?;
    match format {
        Format::Json => {
            for unit in next.encode_utf16(&mut [0; 2]) {
                out.extend_from_slice(format!("\\u{unit:04x}").as_bytes());
            }
        }
        Format::Xml | Format::Soap11 | Format::Soap12 => {
            out.extend_from_slice(format!("&#{};", u32::from(next)).as_bytes());
        }
        Format::Text | Format::Form | Format::Multipart | Format::Binary => out.push(b'?'),
    }
    Ok(())
}

/// The charset that an XML body is decoded by before it is parsed: UTF-8, if the parser knows its own, else that of its
/// declaration, else that of its content type. Source: RFC 7303, section 3, where the content type counts more.
pub(crate) fn of_xml(bytes: &[u8], content_type: &Charset) -> Charset {
    let known = [encoding_rs::WINDOWS_1252, UTF_16BE, UTF_16LE];
    match declared(bytes).map(Charset::named) {
        Some(Charset::Other(encoding)) if !known.contains(&encoding) => Charset::Other(encoding),
        Some(_) => Charset::Utf8,
        None if Encoding::for_bom(bytes).is_some() => Charset::Utf8,
        None => content_type.clone(),
    }
}

/// The encoding that an XML declaration names, if `bytes` begin with one in ASCII.
fn declared(bytes: &[u8]) -> Option<&str> {
    const LONGEST: usize = 256;
    let head = bytes.get(..bytes.len().min(LONGEST))?.strip_prefix(b"<?xml")?;
    let end = head.windows(2).position(|two| two == b"?>")?;
    let head = std::str::from_utf8(head.get(..end)?).ok()?;
    let (_, value) = head.split_once("encoding")?;
    let value = value.trim_start().strip_prefix('=')?.trim_start();
    let quote = value.chars().next().filter(|quote| ['"', '\''].contains(quote))?;
    value.get(1..)?.split(quote).next()
}

/// Spaces instead of the XML declaration, so that the rest keeps its place.
pub(crate) fn blank_declaration(text: &mut String) {
    if let Some(end) = text.find("?>").filter(|_| text.starts_with("<?xml")) {
        text.replace_range(..end + 2, &" ".repeat(end + 2));
    }
}
