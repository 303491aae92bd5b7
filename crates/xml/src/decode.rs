//! Encodings (section 4.3.3 and appendix F): by byte order mark, else by the first bytes, else by the XML
//! declaration, else UTF-8.

use std::borrow::Cow;

use crate::declaration;
use crate::error::{Fault, XmlError, XmlErrorKind};

/// What the first bytes say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Bytes,
    BigEndian,
    LittleEndian,
}

/// The text, and what is wrong at its end if it had to be cut short.
pub(crate) fn decode(bytes: &[u8]) -> Result<(Cow<'_, str>, Option<Fault>), XmlError> {
    let refuse = |kind| Err(Fault::new(0, kind).locate(""));
    match bytes {
        [0x00, 0x00, 0xFE, 0xFF, ..] | [0xFF, 0xFE, 0x00, 0x00, ..] => {
            refuse(XmlErrorKind::UnsupportedEncoding("UTF-32".to_owned()))
        }
        [0xEF, 0xBB, 0xBF, rest @ ..] => {
            let (text, fault) = utf8(rest);
            agree(&text, Family::Bytes, true)?;
            Ok((text, fault))
        }
        [0xFE, 0xFF, rest @ ..] => wide(rest, Family::BigEndian),
        [0xFF, 0xFE, rest @ ..] => wide(rest, Family::LittleEndian),
        [0x00, b'<', 0x00, b'?', ..] => wide(bytes, Family::BigEndian),
        [b'<', 0x00, b'?', 0x00, ..] => wide(bytes, Family::LittleEndian),
        _ => narrow(bytes),
    }
}

/// Encodings in which the declaration reads as ASCII.
fn narrow(bytes: &[u8]) -> Result<(Cow<'_, str>, Option<Fault>), XmlError> {
    match declared(bytes) {
        None => Ok(utf8(bytes)),
        Some(name) => match name.to_ascii_uppercase().as_str() {
            "UTF-8" | "UTF8" => Ok(utf8(bytes)),
            "US-ASCII" | "ASCII" | "ANSI_X3.4-1968" | "ISO646-US" => Ok(ascii(bytes)),
            "ISO-8859-1" | "ISO_8859-1" | "ISO8859-1" | "LATIN1" | "LATIN-1" | "L1" => {
                Ok((bytes.iter().map(|&byte| char::from(byte)).collect::<String>().into(), None))
            }
            "WINDOWS-1252" | "CP1252" | "X-CP1252" => Ok(windows_1252(bytes)),
            "UTF-16" | "UTF-16BE" | "UTF-16LE" => {
                let found = "those of an encoding in which ASCII is one byte each";
                let kind = XmlErrorKind::EncodingMismatch { declared: name.to_owned(), found };
                Err(Fault::new(0, kind).locate(""))
            }
            _ => {
                let at = find(bytes, name);
                let kind = XmlErrorKind::UnsupportedEncoding(name.to_owned());
                let head = bytes.get(..at).and_then(|head| std::str::from_utf8(head).ok());
                Err(Fault::new(at, kind).locate(head.unwrap_or("")))
            }
        },
    }
}

fn find(bytes: &[u8], name: &str) -> usize {
    memchr::memmem::find(bytes, name.as_bytes()).unwrap_or(0)
}

/// The encoding that the declaration names; a malformed declaration is told later.
fn declared(bytes: &[u8]) -> Option<&str> {
    if !bytes.starts_with(b"<?xml") {
        return None;
    }
    let end = memchr::memmem::find(bytes, b"?>")?.checked_add(2)?;
    let head = std::str::from_utf8(bytes.get(..end)?).ok()?;
    declaration::read(head).ok()??.encoding
}

/// What a declaration says has to agree with what the bytes are.
fn agree(text: &str, family: Family, utf8: bool) -> Result<(), XmlError> {
    let Ok(Some(declaration::Declaration { encoding: Some(name), .. })) = declaration::read(text)
    else {
        return Ok(());
    };
    let upper = name.to_ascii_uppercase();
    let agrees = match family {
        Family::Bytes => matches!(upper.as_str(), "UTF-8" | "UTF8"),
        Family::BigEndian => matches!(upper.as_str(), "UTF-16" | "UTF-16BE"),
        Family::LittleEndian => matches!(upper.as_str(), "UTF-16" | "UTF-16LE"),
    };
    if agrees {
        return Ok(());
    }
    let found = match family {
        Family::Bytes if utf8 => "UTF-8 by their byte order mark",
        Family::Bytes => "UTF-8",
        Family::BigEndian => "UTF-16, big end first",
        Family::LittleEndian => "UTF-16, little end first",
    };
    let at = text.find(name).unwrap_or(0);
    Err(Fault::new(at, XmlErrorKind::EncodingMismatch { declared: name.to_owned(), found })
        .locate(text))
}

fn utf8(bytes: &[u8]) -> (Cow<'_, str>, Option<Fault>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (Cow::Borrowed(text), None),
        Err(error) => {
            let good = bytes.get(..error.valid_up_to()).unwrap_or(&[]);
            let text = std::str::from_utf8(good).unwrap_or("");
            (Cow::Borrowed(text), malformed(text, "UTF-8"))
        }
    }
}

/// Placed at the end of the text; line ends are counted there once they are normalised.
fn malformed(text: &str, encoding: &'static str) -> Option<Fault> {
    Some(Fault::new(text.len(), XmlErrorKind::Malformed(encoding)))
}

fn ascii(bytes: &[u8]) -> (Cow<'_, str>, Option<Fault>) {
    let end = bytes.iter().position(|byte| !byte.is_ascii()).unwrap_or(bytes.len());
    let (text, _) = utf8(bytes.get(..end).unwrap_or(&[]));
    let fault = if end < bytes.len() { malformed(&text, "US-ASCII") } else { None };
    (text, fault)
}

fn wide(bytes: &[u8], family: Family) -> Result<(Cow<'_, str>, Option<Fault>), XmlError> {
    let (pairs, odd) = bytes.as_chunks::<2>();
    let units = pairs.iter().map(|&pair| match family {
        Family::BigEndian => u16::from_be_bytes(pair),
        Family::LittleEndian | Family::Bytes => u16::from_le_bytes(pair),
    });
    let mut text = String::with_capacity(pairs.len());
    let mut good = true;
    for decoded in char::decode_utf16(units) {
        match decoded {
            Ok(c) => text.push(c),
            Err(_) => {
                good = false;
                break;
            }
        }
    }
    let fault = if good && odd.is_empty() { None } else { malformed(&text, "UTF-16") };
    agree(&text, family, false)?;
    Ok((Cow::Owned(text), fault))
}

/// 0x80 to 0x9F; 0 is undefined.
const WINDOWS_1252: [u16; 32] = [
    0x20AC, 0, 0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021, 0x02C6, 0x2030, 0x0160, 0x2039,
    0x0152, 0, 0x017D, 0, 0, 0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014, 0x02DC,
    0x2122, 0x0161, 0x203A, 0x0153, 0, 0x017E, 0x0178,
];

fn windows_1252(bytes: &[u8]) -> (Cow<'_, str>, Option<Fault>) {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        let c = match byte.checked_sub(0x80).and_then(|high| WINDOWS_1252.get(usize::from(high))) {
            Some(0) => {
                let fault = malformed(&text, "windows-1252");
                return (Cow::Owned(text), fault);
            }
            Some(&code) => char::from_u32(u32::from(code)).unwrap_or(char::REPLACEMENT_CHARACTER),
            None => char::from(byte),
        };
        text.push(c);
    }
    (Cow::Owned(text), None)
}
