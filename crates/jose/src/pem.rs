//! Strict PEM. Source: RFC 7468 section 3.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::der;
use crate::error::KeyError;

/// One block of a PEM file.
pub(crate) struct PemBlock<'a> {
    pub(crate) label: &'a str,
    pub(crate) der: Vec<u8>,
}

/// The only block of `text`. Text outside of it is ignored.
pub(crate) fn single(text: &[u8]) -> Result<PemBlock<'_>, KeyError> {
    let text = std::str::from_utf8(text).map_err(|_| KeyError::Pem("not a PEM file"))?;
    let mut lines = text.lines().map(str::trim_ascii);
    let mut block = next(&mut lines)?.ok_or(KeyError::Pem("the file contains no PEM block"))?;
    if block.label == "EC PARAMETERS" {
        // `openssl ecparam -genkey` writes the curve first; the key repeats it.
        block = next(&mut lines)?.ok_or(KeyError::Pem("the file contains no key"))?;
    }
    match next(&mut lines)? {
        None => Ok(block),
        Some(_) => Err(KeyError::Pem("the file contains more than one PEM block; keep one")),
    }
}

/// The X.509 certificates of `text`, in DER. Their signatures and dates are not checked.
///
/// # Errors
/// [`KeyError::Pem`] without any certificate, or with another kind of block.
pub fn certificates(text: &[u8]) -> Result<Vec<Vec<u8>>, KeyError> {
    let text = std::str::from_utf8(text).map_err(|_| KeyError::Pem("not a PEM file"))?;
    let mut lines = text.lines().map(str::trim_ascii);
    let mut found = Vec::new();
    while let Some(PemBlock { label, der }) = next(&mut lines)? {
        if label != "CERTIFICATE" || der::certificate(&der).is_none() {
            return Err(KeyError::Pem("a PEM block is not an X.509 certificate"));
        }
        found.push(der);
    }
    if found.is_empty() { Err(KeyError::Pem("the file contains no PEM block")) } else { Ok(found) }
}

fn next<'a>(lines: &mut impl Iterator<Item = &'a str>) -> Result<Option<PemBlock<'a>>, KeyError> {
    let Some(label) = lines.find_map(|line| label(line, "-----BEGIN ")) else {
        return Ok(None);
    };
    let mut body = String::new();
    for line in lines {
        if line.starts_with("-----") {
            let ended = self::label(line, "-----END ") == Some(label);
            let der = STANDARD.decode(&body).ok().filter(|_| ended);
            let der =
                der.ok_or(KeyError::Pem("a PEM block is not base64, or has a wrong END line"))?;
            return Ok(Some(PemBlock { label, der }));
        }
        body.push_str(line);
    }
    Err(KeyError::Pem("a PEM block has no END line"))
}

fn label<'a>(line: &'a str, start: &str) -> Option<&'a str> {
    line.strip_prefix(start)?.strip_suffix("-----")
}

/// `der` as a PEM block with lines of 64 characters.
pub(crate) fn write(label: &str, der: &[u8]) -> String {
    let mut out = format!("-----BEGIN {label}-----\n");
    for line in der.chunks(48) {
        STANDARD.encode_string(line, &mut out);
        out.push('\n');
    }
    out.push_str(&format!("-----END {label}-----\n"));
    out
}
