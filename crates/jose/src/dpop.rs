//! DPoP: proofs that a client has the key that its token is bound to. Source: RFC 9449 section 4.

use base::limits;

use crate::base64url::{self, Padding};
use crate::error::TokenError;
use crate::json::{self, Object, Value};
use crate::jwk;
use crate::jws::{self, Header};

/// A proof whose signature is verified with the key that it contains. The caller has to check that it is meant for the
/// request and the token, and was not used before.
#[derive(Clone, PartialEq, Eq)]
pub struct Proof {
    /// The key's SHA-256 thumbprint, the `jkt` of tokens. Source: RFC 7638.
    pub key: [u8; 32],
    /// `htm`
    pub method: String,
    /// `htu`
    pub url: String,
    /// `iat`, seconds since the Unix epoch.
    pub issued_s: u64,
    /// `jti`
    pub id: String,
    /// `ath`: the SHA-256 of the access token.
    pub token_hash: Option<[u8; 32]>,
    /// `nonce`: a text from the server.
    pub nonce: Option<String>,
}

/// A credential is never printed.
impl std::fmt::Debug for Proof {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proof").finish_non_exhaustive()
    }
}

impl Proof {
    /// Verifies `proof` with its own key, which must be a public one and fit the algorithm.
    ///
    /// # Errors
    /// [`TokenError::Malformed`] unless it is a JWS in compact form, of at most `limits::PROOF_BYTES_MAX` bytes, whose
    /// header and claims are strict JSON with the members of a proof; [`TokenError::Unsupported`] for another `typ`,
    /// and for `crit` and the like; [`TokenError::UnsupportedAlgorithm`] for `none`, a shared secret, and an algorithm
    /// that does not fit the key; [`TokenError::BadSignature`].
    pub fn verify(proof: &[u8]) -> Result<Self, TokenError> {
        if proof.len() > limits::PROOF_BYTES_MAX {
            return Err(TokenError::Malformed("too long"));
        }
        let parts = jws::segments(proof).ok_or(TokenError::Malformed("not three segments"))?;
        let decode = |segment, problem| {
            base64url::decode(segment, Padding::Rejected).ok_or(TokenError::Malformed(problem))
        };
        let header = decode(parts.header, "the header is not base64url")?;
        let payload = decode(parts.payload, "the payload is not base64url")?;
        let signature = decode(parts.signature, "the signature is not base64url")?;
        let header = object(&header, "the header is not a strict JSON object")?;
        let Header { alg, typ, .. } = Header::of(&header)?;
        if typ.as_deref() != Some("dpop+jwt") {
            return Err(TokenError::Unsupported("`typ` is not `dpop+jwt`"));
        }
        let jwk = header.get("jwk").and_then(Value::as_object);
        let jwk = jwk.ok_or(TokenError::Malformed("`jwk` is not an object"))?;
        if jwk::is_private(jwk) || jwk::is_secret(jwk) {
            return Err(TokenError::Malformed("`jwk` is not a public key"));
        }
        let key = jwk::read(jwk).map_err(TokenError::Malformed)?;
        let fits = |(own, _): &&_| *own == alg;
        let (_, verifier) = key.verifiers.iter().find(fits).ok_or(
            TokenError::UnsupportedAlgorithm("the algorithm is not one of the proof's key"),
        )?;
        if !verifier.verifies(parts.signing_input, &signature) {
            return Err(TokenError::BadSignature);
        }
        Self::of(
            jwk::thumbprint(jwk).ok_or(TokenError::Malformed("`jwk` has no thumbprint"))?,
            &object(&payload, "the claims are not a strict JSON object")?,
        )
    }

    fn of(key: [u8; 32], claims: &Object<'_>) -> Result<Self, TokenError> {
        let text = |name: &str, problem| match claims.get(name).and_then(Value::as_str) {
            Some(text) if !text.is_empty() => Ok(text.to_owned()),
            Some(_) | None => Err(TokenError::Malformed(problem)),
        };
        let Some(Value::Unsigned(issued_s)) = claims.get("iat") else {
            return Err(TokenError::Malformed("`iat` is not a whole number"));
        };
        let hash = match claims.get("ath") {
            None => None,
            Some(value) => {
                let hash = value.as_str().and_then(base64url::hash);
                Some(hash.ok_or(TokenError::Malformed("`ath` is not a hash"))?)
            }
        };
        Ok(Self {
            key,
            method: text("htm", "`htm` is not a text")?,
            url: text("htu", "`htu` is not a text")?,
            issued_s: *issued_s,
            id: text("jti", "`jti` is not a text")?,
            token_hash: hash,
            nonce: claims.get("nonce").and_then(Value::as_str).map(str::to_owned),
        })
    }
}

fn object<'a>(bytes: &'a [u8], problem: &'static str) -> Result<Object<'a>, TokenError> {
    json::parse_object(bytes).map_err(|_| TokenError::Malformed(problem))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 9449 section 7.1, and the `jkt` of section 6.1.
    const EXAMPLE: &str = concat!(
        "eyJ0eXAiOiJkcG9wK2p3dCIsImFsZyI6IkVTMjU2IiwiandrIjp7Imt0eSI6IkVDIiwieCI6Imw4dEZyaHgtMzR0VjNoUklDUkRZOXpDa0RscEJo",
        "RjQyVVFVZldWQVdCRnMiLCJ5IjoiOVZFNGpmX09rX282NHpiVFRsY3VOSmFqSG10NnY5VERWclUwQ2R2R1JEQSIsImNydiI6IlAtMjU2In19.",
        "eyJqdGkiOiJlMWozVl9iS2ljOC1MQUVCIiwiaHRtIjoiR0VUIiwiaHR1IjoiaHR0cHM6Ly9yZXNvdXJjZS5leGFtcGxlLm9yZy9wcm90ZWN0ZWRy",
        "ZXNvdXJjZSIsImlhdCI6MTU2MjI2MjYxOCwiYXRoIjoiZlVIeU8ycjJaM0RaNTNFc05yV0JiMHhXWG9hTnk1OUlpS0NBcWtzbVFFbyJ9.",
        "2oW9RP35yRqzhrtNP86L-Ey71EOptxRimPPToA1plemAgR6pxHF8y6-yqyVnmcw6Fy1dqd-jfxSYoMxhAJpLjA",
    );

    #[test]
    fn the_example_of_the_specification_verifies() {
        let proof = Proof::verify(EXAMPLE.as_bytes()).unwrap();
        let thumbprint = base64url::encode(&proof.key);
        assert_eq!(thumbprint, "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I");
        assert_eq!(proof.method, "GET");
        assert_eq!(proof.url, "https://resource.example.org/protectedresource");
        assert_eq!((proof.issued_s, proof.id.as_str()), (1_562_262_618, "e1j3V_bKic8-LAEB"));
        let hash = proof.token_hash.map(|hash| base64url::encode(&hash));
        assert_eq!(hash.as_deref(), Some("fUHyO2r2Z3DZ53EsNrWBb0xWXoaNy59IiKCAqksmQEo"));
        let longer = [EXAMPLE.as_bytes(), &[b'A'; limits::PROOF_BYTES_MAX]].concat();
        assert_eq!(Proof::verify(&longer), Err(TokenError::Malformed("too long")));
    }
}
