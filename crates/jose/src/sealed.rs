//! Encrypted and authenticated texts that only the holder of the keys can read or create: the contents of browser
//! cookies.

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::hmac;

use crate::base64url::{self, Padding};
use crate::error::KeyError;

/// Keys that seal texts. The first key seals; every key opens.
pub struct SealingKeys(Vec<RandomizedNonceKey>);

/// A key is never printed.
impl std::fmt::Debug for SealingKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SealingKeys(..)")
    }
}

impl SealingKeys {
    /// Derives a key from each line of `secrets`, of at least 32 bytes. Empty lines do not count.
    ///
    /// # Errors
    /// [`KeyError::ShortSecret`] for a shorter line, or if there is none.
    pub fn new(secrets: &[u8]) -> Result<Self, KeyError> {
        let lines = secrets.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        let keys = lines.filter(|line| !line.is_empty()).map(key).collect::<Result<Vec<_>, _>>()?;
        if keys.is_empty() { Err(KeyError::ShortSecret { bytes: 0 }) } else { Ok(Self(keys)) }
    }

    /// `text`, encrypted and authenticated together with `purpose`, in base64url. `None` if the system provides no
    /// randomness.
    #[must_use]
    pub fn seal(&self, purpose: &str, text: &[u8]) -> Option<String> {
        let mut bytes = text.to_vec();
        let nonce =
            self.0.first()?.seal_in_place_append_tag(Aad::from(purpose), &mut bytes).ok()?;
        Some(base64url::encode(&[nonce.as_ref().as_slice(), &bytes].concat()))
    }

    /// The text that was sealed for this purpose.
    #[must_use]
    pub fn open(&self, purpose: &str, sealed: &[u8]) -> Option<Vec<u8>> {
        let bytes = base64url::decode(sealed, Padding::Rejected)?;
        let (nonce, bytes) = bytes.split_first_chunk::<NONCE_LEN>()?;
        self.0.iter().find_map(|key| {
            let mut bytes = bytes.to_vec();
            let nonce = Nonce::assume_unique_for_key(*nonce);
            let text = key.open_in_place(nonce, Aad::from(purpose), &mut bytes).ok()?;
            Some(text.to_vec())
        })
    }
}

fn key(secret: &[u8]) -> Result<RandomizedNonceKey, KeyError> {
    const BYTES_MIN: usize = 32;
    if secret.len() < BYTES_MIN {
        return Err(KeyError::ShortSecret { bytes: secret.len() });
    }
    let derived = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), b"penstock sealing key 1");
    RandomizedNonceKey::new(&AES_256_GCM, derived.as_ref())
        .map_err(|_| KeyError::Unusable("no key could be derived"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "a secret of a test, which has 32 bytes and more";

    #[test]
    fn a_text_is_opened_for_its_purpose_by_its_key_only_and_sealed_differently_each_time() {
        let keys = SealingKeys::new(SECRET.as_bytes()).unwrap();
        let sealed = keys.seal("a", b"text").unwrap();
        assert_eq!(keys.open("a", sealed.as_bytes()).as_deref(), Some(&b"text"[..]));
        assert_ne!(keys.seal("a", b"text").unwrap(), sealed);
        assert_eq!(keys.open("b", sealed.as_bytes()), None);
        let other = SealingKeys::new(SECRET.to_uppercase().as_bytes()).unwrap();
        assert_eq!(other.open("a", sealed.as_bytes()), None);
        for place in 0..sealed.len() {
            let mut changed = sealed.clone().into_bytes();
            let byte = changed.get_mut(place).unwrap();
            *byte = if *byte == b'A' { b'B' } else { b'A' };
            assert_eq!(keys.open("a", &changed), None, "{place}");
            assert_eq!(keys.open("a", sealed.as_bytes().get(..place).unwrap()), None);
        }
    }

    #[test]
    fn a_new_key_seals_and_the_old_one_still_opens() {
        let old = SealingKeys::new(SECRET.as_bytes()).unwrap();
        let both = format!("{}\n\n{SECRET}\n", SECRET.to_uppercase());
        let both = SealingKeys::new(both.as_bytes()).unwrap();
        let sealed = old.seal("a", b"text").unwrap();
        assert!(both.open("a", sealed.as_bytes()).is_some());
        let sealed = both.seal("a", b"text").unwrap();
        assert!(both.open("a", sealed.as_bytes()).is_some());
        assert_eq!(old.open("a", sealed.as_bytes()), None);
        for secrets in ["", "\n", "short", &format!("{SECRET}\nshort")] {
            assert!(SealingKeys::new(secrets.as_bytes()).is_err(), "{secrets}");
        }
    }
}
