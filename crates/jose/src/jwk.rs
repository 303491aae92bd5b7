//! One JWK of a set. Source: RFC 7517 section 4, RFC 7518 section 6, RFC 8037 section 2.

use crate::algorithm::Algorithm;
use crate::base64url::{self, Padding};
use crate::json::{self, Object, Value};
use crate::key::{self, Curve, Verifiers};

/// Members that only private keys have. RFC 7518 sections 6.2.2 and 6.3.2.
const PRIVATE: [&str; 7] = ["d", "p", "q", "dp", "dq", "qi", "oth"];

pub(crate) struct Jwk {
    pub(crate) kid: Option<String>,
    pub(crate) verifiers: Verifiers,
}

/// The members by which a header selects this key, whether the key is usable or not.
#[derive(PartialEq, Eq)]
pub(crate) struct Name {
    kid: String,
    kty: Option<String>,
    crv: Option<String>,
    /// `None` stands for any algorithm that fits the type.
    algorithm: Option<Algorithm>,
}

impl Name {
    /// `None` for a key without `kid`, or one that isn't for verifying a supported algorithm.
    pub(crate) fn of(jwk: &Object<'_>) -> Option<Self> {
        check_purpose(jwk).ok()?;
        let text = |name| jwk.get(name).and_then(Value::as_str).map(str::to_owned);
        let algorithm = match text("alg") {
            None => None,
            Some(name) => Some(name.parse().ok()?),
        };
        Some(Self { kid: text("kid")?, kty: text("kty"), crv: text("crv"), algorithm })
    }

    /// Whether a header could select both. RFC 7517 section 4.5 lets keys of different types share a `kid`.
    pub(crate) fn clashes_with(&self, other: &Self) -> bool {
        let same = (&self.kid, &self.kty, &self.crv) == (&other.kid, &other.kty, &other.crv);
        let exclusive = self.algorithm.is_some() && other.algorithm.is_some();
        same && (!exclusive || self.algorithm == other.algorithm)
    }
}

/// Whether the JWK contains a private key.
pub(crate) fn is_private(jwk: &Object<'_>) -> bool {
    PRIVATE.iter().any(|name| jwk.has(name))
}

/// Whether it is a shared secret.
pub(crate) fn is_secret(jwk: &Object<'_>) -> bool {
    jwk.get("kty").and_then(Value::as_str) == Some("oct")
}

/// The key's SHA-256 thumbprint. `None` if a member that defines the key is missing. Source: RFC 7638 section 3.2, RFC
/// 8037 section 2.
pub(crate) fn thumbprint(jwk: &Object<'_>) -> Option<[u8; 32]> {
    let text = |name| jwk.get(name).and_then(Value::as_str);
    let names: &[&str] = match text("kty")? {
        "RSA" => &["e", "kty", "n"],
        "EC" => &["crv", "kty", "x", "y"],
        "OKP" => &["crv", "kty", "x"],
        _ => return None,
    };
    let members: Option<Vec<_>> = names.iter().map(|name| Some((*name, text(name)?))).collect();
    Some(thumbprint_of(&members?))
}

/// The SHA-256 thumbprint of a key, from the members that define it, sorted by name.
pub(crate) fn thumbprint_of(members: &[(&str, &str)]) -> [u8; 32] {
    let members: Vec<_> =
        members.iter().map(|(name, value)| format!("\"{name}\":{}", json::string(value))).collect();
    crate::sha256(format!("{{{}}}", members.join(",")).as_bytes())
}

/// Reads a key for verification; the error is the reason to skip it.
pub(crate) fn read(jwk: &Object<'_>) -> Result<Jwk, &'static str> {
    check_purpose(jwk)?;
    let kid = text(jwk, "kid", "`kid` is not a string")?.map(str::to_owned);
    let algorithm = match text(jwk, "alg", "`alg` is not a string")? {
        None => None,
        Some(name) => Some(name.parse::<Algorithm>().map_err(|_| "`alg` is not supported")?),
    };
    let mut verifiers = material(jwk)?;
    if let Some(algorithm) = algorithm {
        verifiers.retain(|(own, _)| *own == algorithm);
        if verifiers.is_empty() {
            return Err("`alg` does not fit the key");
        }
    }
    Ok(Jwk { kid, verifiers })
}

/// `use` and `key_ops`, if present, must allow verification. RFC 7517 sections 4.2 and 4.3.
fn check_purpose(jwk: &Object<'_>) -> Result<(), &'static str> {
    if text(jwk, "use", "`use` is not a string")?.is_some_and(|purpose| purpose != "sig") {
        return Err("`use` is not `sig`");
    }
    match jwk.get("key_ops") {
        None => Ok(()),
        Some(Value::Array(operations)) => {
            let verifies = operations.iter().any(|operation| operation.as_str() == Some("verify"));
            if verifies { Ok(()) } else { Err("`key_ops` lacks `verify`") }
        }
        Some(
            Value::Null
            | Value::Bool(_)
            | Value::Unsigned(_)
            | Value::Negative(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Object(_),
        ) => Err("`key_ops` is not an array"),
    }
}

fn material(jwk: &Object<'_>) -> Result<Verifiers, &'static str> {
    match text(jwk, "kty", "`kty` is not a string")? {
        Some("RSA") => key::rsa(&bytes(jwk, "n")?, &bytes(jwk, "e")?),
        Some("EC") => ec(jwk),
        Some("OKP") => match text(jwk, "crv", "`crv` is not a string")? {
            Some("Ed25519") => key::ed25519(&bytes(jwk, "x")?),
            Some(_) | None => Err("`crv` is not Ed25519"),
        },
        Some("oct") => {
            let verifiers = key::secret(&bytes(jwk, "k")?);
            if verifiers.is_empty() {
                Err("the secret is shorter than 32 bytes")
            } else {
                Ok(verifiers)
            }
        }
        Some(_) | None => Err("`kty` is not supported"),
    }
}

fn ec(jwk: &Object<'_>) -> Result<Verifiers, &'static str> {
    let curve = text(jwk, "crv", "`crv` is not a string")?
        .and_then(Curve::from_name)
        .ok_or("`crv` is not one of P-256, P-384, P-521")?;
    let (x, y) = (bytes(jwk, "x")?, bytes(jwk, "y")?);
    // Each coordinate has the full length of the curve, leading zeros included: RFC 7518 section 6.2.1.2.
    if x.len() != curve.coordinate_bytes() || y.len() != curve.coordinate_bytes() {
        return Err("`x` or `y` does not have the length that its curve requires");
    }
    key::ec(curve, &[&[4], x.as_slice(), y.as_slice()].concat())
}

fn text<'a>(
    jwk: &'a Object<'_>,
    name: &str,
    problem: &'static str,
) -> Result<Option<&'a str>, &'static str> {
    match jwk.get(name) {
        None => Ok(None),
        Some(value) => value.as_str().map(Some).ok_or(problem),
    }
}

fn bytes(jwk: &Object<'_>, name: &str) -> Result<Vec<u8>, &'static str> {
    jwk.get(name)
        .and_then(Value::as_str)
        .and_then(|text| base64url::decode(text.as_bytes(), Padding::Rejected))
        .ok_or("a member of the key is missing or not base64url")
}
