//! JWS in compact form. Source: RFC 7515 sections 3.1, 4.1 and 5.2; RFC 8725.

use base::limits;

use crate::algorithm::Algorithm;
use crate::base64url::{self, Padding};
use crate::claims::Claims;
use crate::error::TokenError;
use crate::json::{self, Object};
use crate::keyset::KeySet;

/// The header's members that matter here. Others are ignored, those that name keys on purpose.
#[derive(Clone, PartialEq, Eq)]
pub struct Header {
    pub alg: Algorithm,
    pub kid: Option<String>,
    /// As it was written.
    pub typ: Option<String>,
}

/// A `kid` is a part of the token: not printed.
impl std::fmt::Debug for Header {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Header").field("alg", &self.alg).finish_non_exhaustive()
    }
}

/// A JWS in compact form that is well formed and not yet verified. Trust nothing in it.
pub struct Compact<'a> {
    header: Header,
    /// The first two segments and the dot between them, as they came: what was signed.
    signing_input: &'a [u8],
    payload: Vec<u8>,
    signature: Vec<u8>,
    padded: bool,
}

/// Holds a credential: nothing of it is printed.
impl std::fmt::Debug for Compact<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compact").finish_non_exhaustive()
    }
}

impl<'a> Compact<'a> {
    /// Reads `token`. Nothing is verified yet.
    ///
    /// # Errors
    /// [`TokenError::Malformed`] unless it is three base64url segments of which the first is a strict
    /// JSON object; [`TokenError::UnsupportedAlgorithm`] for `none` and other unknown algorithms;
    /// [`TokenError::Unsupported`] for `crit`, `b64`, `zip` and `enc`, and for a `typ` that isn't an access
    /// token's.
    pub fn parse(token: &'a [u8], padding: Padding) -> Result<Self, TokenError> {
        if token.len() > limits::TOKEN_BYTES_MAX {
            return Err(TokenError::Malformed("too long"));
        }
        let cut = segments(token).ok_or(TokenError::Malformed("not three segments"))?;
        let decode = |segment, problem| {
            base64url::decode(segment, padding).ok_or(TokenError::Malformed(problem))
        };
        let header = decode(cut.header, "the header is not base64url")?;
        Ok(Self {
            header: Header::parse(&header)?,
            signing_input: cut.signing_input,
            payload: decode(cut.payload, "the payload is not base64url")?,
            signature: decode(cut.signature, "the signature is not base64url")?,
            padded: token.contains(&b'='),
        })
    }

    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The decoded payload, unverified.
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// Whether any segment was written with `=`, which only [`Padding::Allowed`] lets through.
    pub fn is_padded(&self) -> bool {
        self.padded
    }

    /// The claims before any check of the signature: only good for finding out whose keys to ask.
    ///
    /// # Errors
    /// As [`Claims::parse`].
    pub fn unverified_claims(&self) -> Result<Claims, TokenError> {
        Claims::parse(&self.payload)
    }

    /// Checks the signature against the keys that suit the header.
    ///
    /// # Errors
    /// [`TokenError::UnknownKid`] when no key has the header's `kid`; [`TokenError::UnsupportedAlgorithm`]
    /// when none that could be meant serves the header's algorithm; [`TokenError::BadSignature`] else.
    pub fn verify_signature(&self, keys: &KeySet) -> Result<(), TokenError> {
        keys.verify(&self.header, self.signing_input, &self.signature)
    }

    /// Checks the signature and reads the claims. Issuer, audience and lifetime are the caller's to check.
    ///
    /// # Errors
    /// As [`Self::verify_signature`], then as [`Claims::parse`].
    pub fn verify(&self, keys: &KeySet) -> Result<Claims, TokenError> {
        self.verify_signature(keys)?;
        self.unverified_claims()
    }
}

/// A token cut at its dots.
struct Segments<'a> {
    signing_input: &'a [u8],
    header: &'a [u8],
    payload: &'a [u8],
    signature: &'a [u8],
}

/// `None` unless there are exactly three segments.
fn segments(token: &[u8]) -> Option<Segments<'_>> {
    let last_dot = token.iter().rposition(|&byte| byte == b'.')?;
    let (signing_input, signature) = token.split_at_checked(last_dot)?;
    let signature = signature.strip_prefix(b".")?;
    let mut parts = signing_input.split(|&byte| byte == b'.');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(header), Some(payload), None) => {
            Some(Segments { signing_input, header, payload, signature })
        }
        (Some(_) | None, _, _) => None,
    }
}

impl Header {
    fn parse(bytes: &[u8]) -> Result<Self, TokenError> {
        let object = json::parse_object(bytes)
            .map_err(|_| TokenError::Malformed("the header is not a strict JSON object"))?;
        refuse_extensions(&object)?;
        let alg = text(&object, "alg", "`alg` is not a string")?
            .ok_or(TokenError::Malformed("the header has no `alg`"))?
            .parse()
            .map_err(|_| TokenError::UnsupportedAlgorithm("`alg` is `none` or unknown"))?;
        let kid = text(&object, "kid", "`kid` is not a string")?;
        let typ = text(&object, "typ", "`typ` is not a string")?;
        if !typ.as_deref().is_none_or(is_token_type) {
            return Err(TokenError::Unsupported("`typ` is neither `JWT` nor `at+jwt`"));
        }
        Ok(Self { alg, kid, typ })
    }
}

/// Members that change what is signed or how it is read. RFC 7515 section 4.1.11 (`crit`), RFC 7797
/// (`b64`), RFC 7516 sections 4.1.2 and 4.1.3 (`enc`, `zip`).
fn refuse_extensions(object: &Object<'_>) -> Result<(), TokenError> {
    for (name, problem) in [
        ("crit", "the header has `crit`"),
        ("b64", "the header has `b64`"),
        ("zip", "the header has `zip`"),
        ("enc", "the header has `enc`"),
    ] {
        if object.get(name).is_some() {
            return Err(TokenError::Unsupported(problem));
        }
    }
    Ok(())
}

fn text(
    object: &Object<'_>,
    name: &str,
    problem: &'static str,
) -> Result<Option<String>, TokenError> {
    match object.get(name) {
        None => Ok(None),
        Some(value) => match value.as_str() {
            Some(text) => Ok(Some(text.to_owned())),
            None => Err(TokenError::Malformed(problem)),
        },
    }
}

/// RFC 7519 section 5.1, RFC 9068 section 2.1; media types don't depend on case.
fn is_token_type(typ: &str) -> bool {
    const PREFIX: &str = "application/";
    let bare = match typ.split_at_checked(PREFIX.len()) {
        Some((start, rest)) if start.eq_ignore_ascii_case(PREFIX) => rest,
        Some(_) | None => typ,
    };
    bare.eq_ignore_ascii_case("JWT") || bare.eq_ignore_ascii_case("at+jwt")
}
