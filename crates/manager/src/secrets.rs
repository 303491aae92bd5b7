//! Random identifiers and secrets, and their hashes.
//!
//! Secrets generated here have 128 or 256 random bits, so that a plain SHA-256 protects them: no dictionary has them.
//! Passwords, which people choose, are in [`crate::passwords`].

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest;
use base::Entropy;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

/// An identifier of 128 random bits.
pub(crate) fn identifier(entropy: &dyn Entropy) -> String {
    let mut bytes = [0; 16];
    entropy.fill(&mut bytes);
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

/// A secret or token of 256 random bits.
pub(crate) fn secret(entropy: &dyn Entropy) -> String {
    let mut bytes = [0; 32];
    entropy.fill(&mut bytes);
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

/// SHA-256 in base64url.
pub(crate) fn hash(secret: impl AsRef<[u8]>) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, secret.as_ref()))
}

/// Whether `secret` has the hash `expected`, in a time that does not depend on where they differ.
pub(crate) fn matches(secret: &str, expected: &str) -> bool {
    verify_slices_are_equal(hash(secret).as_bytes(), expected.as_bytes()).is_ok()
}
