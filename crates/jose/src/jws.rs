//! JWS in compact form. Source: RFC 7515 sections 3.1, 4.1 and 5.2; RFC 8725.

use base::limits;

use crate::algorithm::Algorithm;
use crate::base64url::{self, Padding};
use crate::claims::Claims;
use crate::error::TokenError;
use crate::json::{self, Object};
use crate::keyset::KeySet;

/// The members of the header that are used. Others are ignored, including, deliberately, those that contain keys.
#[derive(Clone, PartialEq, Eq)]
pub struct Header {
    pub alg: Algorithm,
    pub kid: Option<String>,
    /// `typ` as written.
    pub typ: Option<String>,
}

/// A `kid` is part of the token and isn't printed.
impl std::fmt::Debug for Header {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Header").field("alg", &self.alg).finish_non_exhaustive()
    }
}

/// A well-formed JWS in compact form, not verified yet: nothing in it can be trusted.
pub struct Compact<'a> {
    header: Header,
    /// The first two segments and the dot between them, as received: the signed text.
    signing_input: &'a [u8],
    payload: Vec<u8>,
    signature: Vec<u8>,
    padded: bool,
}

/// A credential is never printed.
impl std::fmt::Debug for Compact<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compact").finish_non_exhaustive()
    }
}

impl<'a> Compact<'a> {
    /// Parses `token`, without verifying it.
    ///
    /// # Errors
    /// [`TokenError::Malformed`] unless it consists of three base64url segments, the first of them a strict
    /// JSON object; [`TokenError::UnsupportedAlgorithm`] for `none` and other unknown algorithms;
    /// [`TokenError::Unsupported`] for `crit`, `b64`, `zip` and `enc`, and for a `typ` that isn't that of an access
    /// token.
    pub fn parse(token: &'a [u8], padding: Padding) -> Result<Self, TokenError> {
        if token.len() > limits::TOKEN_BYTES_MAX {
            return Err(TokenError::Malformed("too long"));
        }
        let parts = segments(token).ok_or(TokenError::Malformed("not three segments"))?;
        let decode = |segment, problem| {
            base64url::decode(segment, padding).ok_or(TokenError::Malformed(problem))
        };
        let header = decode(parts.header, "the header is not base64url")?;
        Ok(Self {
            header: Header::parse(&header)?,
            signing_input: parts.signing_input,
            payload: decode(parts.payload, "the payload is not base64url")?,
            signature: decode(parts.signature, "the signature is not base64url")?,
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

    /// The claims without verification: only for finding the issuer whose keys to use.
    ///
    /// # Errors
    /// As [`Claims::parse`].
    pub fn unverified_claims(&self) -> Result<Claims, TokenError> {
        Claims::parse(&self.payload)
    }

    /// Verifies the signature with the keys that the header selects.
    ///
    /// # Errors
    /// [`TokenError::UnknownKid`] if newer keys of the issuer may have the header's `kid`;
    /// [`TokenError::UnsupportedAlgorithm`] if none of the selected keys supports the header's algorithm;
    /// [`TokenError::BadSignature`] otherwise.
    pub fn verify_signature(&self, keys: &KeySet) -> Result<(), TokenError> {
        keys.verify(&self.header, self.signing_input, &self.signature)
    }

    /// Verifies the signature and parses the claims. Issuer, audience and lifetime have to be checked by the
    /// caller of the function.
    ///
    /// # Errors
    /// As [`Self::verify_signature`], then as [`Claims::parse`].
    pub fn verify(&self, keys: &KeySet) -> Result<Claims, TokenError> {
        self.verify_signature(keys)?;
        self.unverified_claims()
    }
}

/// A token split at its dots.
pub(crate) struct Segments<'a> {
    pub(crate) signing_input: &'a [u8],
    pub(crate) header: &'a [u8],
    pub(crate) payload: &'a [u8],
    pub(crate) signature: &'a [u8],
}

/// `None` unless there are exactly three segments.
pub(crate) fn segments(token: &[u8]) -> Option<Segments<'_>> {
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
        let header = Self::of(&object)?;
        if !header.typ.as_deref().is_none_or(is_token_type) {
            return Err(TokenError::Unsupported("`typ` is neither `JWT` nor `at+jwt`"));
        }
        Ok(header)
    }

    /// A header of any `typ`.
    pub(crate) fn of(object: &Object<'_>) -> Result<Self, TokenError> {
        reject_extensions(object)?;
        let alg = text(object, "alg", "`alg` is not a string")?
            .ok_or(TokenError::Malformed("the header has no `alg`"))?
            .parse()
            .map_err(|_| TokenError::UnsupportedAlgorithm("`alg` is `none` or unknown"))?;
        let kid = text(object, "kid", "`kid` is not a string")?;
        let typ = text(object, "typ", "`typ` is not a string")?;
        Ok(Self { alg, kid, typ })
    }
}

/// Rejects members that change the signed text or its decoding. RFC 7515 section 4.1.11 (`crit`), RFC 7797 (`b64`), RFC
/// 7516 sections 4.1.2 and 4.1.3 (`enc`, `zip`).
fn reject_extensions(object: &Object<'_>) -> Result<(), TokenError> {
    for (name, problem) in [
        ("crit", "the header has `crit`"),
        ("b64", "the header has `b64`"),
        ("zip", "the header has `zip`"),
        ("enc", "the header has `enc`"),
    ] {
        if object.has(name) {
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

/// Whether `typ` is that of an access token. Media types don't depend on case. Source: RFC 7519 section 5.1, RFC 9068
/// section 2.1.
fn is_token_type(typ: &str) -> bool {
    const PREFIX: &str = "application/";
    let bare = match typ.split_at_checked(PREFIX.len()) {
        Some((start, rest)) if start.eq_ignore_ascii_case(PREFIX) => rest,
        Some(_) | None => typ,
    };
    bare.eq_ignore_ascii_case("JWT") || bare.eq_ignore_ascii_case("at+jwt")
}
