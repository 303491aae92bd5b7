//! Passwords as argon2id hashes in PHC string format.

use argon2::{Algorithm, Argon2, Params, Version};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use base::limits::{PASSWORD_LANES_MAX, PASSWORD_MEMORY_KIB_MAX, PASSWORD_PASSES_MAX};
use base64::Engine;
use base64::prelude::BASE64_STANDARD_NO_PAD;

/// The cost of new hashes. Source: OWASP's password storage cheat sheet, argon2id.
const COST: Cost = Cost { memory_kib: 19_456, passes: 2, lanes: 1 };
pub const SALT_BYTES: usize = 16;
const HASH_BYTES: usize = 32;

/// The hash of a password, with its salt and its cost. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash {
    cost: Cost,
    salt: Vec<u8>,
    hash: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Cost {
    memory_kib: u32,
    passes: u32,
    lanes: u32,
}

impl PasswordHash {
    /// Parses `$argon2id$v=19$m=...,t=...,p=...$SALT$HASH`. `None` if the text has another form, or its cost exceeds
    /// the limits.
    #[must_use]
    pub fn parse(phc: &str) -> Option<Self> {
        let (cost, encoded) = phc.strip_prefix("$argon2id$v=19$m=")?.split_once('$')?;
        let (memory, cost) = cost.split_once(",t=")?;
        let (passes, lanes) = cost.split_once(",p=")?;
        let number = |text: &str, most: u32| {
            let found = text.parse::<u32>().ok().filter(|number| (1..=most).contains(number))?;
            text.bytes().all(|byte| byte.is_ascii_digit()).then_some(found)
        };
        let cost = Cost {
            memory_kib: number(memory, PASSWORD_MEMORY_KIB_MAX)?,
            passes: number(passes, PASSWORD_PASSES_MAX)?,
            lanes: number(lanes, PASSWORD_LANES_MAX)?,
        };
        let (salt, hash) = encoded.split_once('$')?;
        let decode = |text| BASE64_STANDARD_NO_PAD.decode(text).ok();
        let found = Self { cost, salt: decode(salt)?, hash: decode(hash)? };
        let is_sound = (8..=64).contains(&found.salt.len())
            && (16..=64).contains(&found.hash.len())
            && found.cost.memory_kib / 8 >= found.cost.lanes;
        is_sound.then_some(found)
    }

    /// The hash of `password` in PHC string format. Takes some 20 ms. `None` if there is not enough memory.
    #[must_use]
    pub fn create(password: &[u8], salt: [u8; SALT_BYTES]) -> Option<String> {
        let hash = compute(password, &salt, COST, HASH_BYTES)?;
        let Cost { memory_kib, passes, lanes } = COST;
        let encode = |bytes: &[u8]| BASE64_STANDARD_NO_PAD.encode(bytes);
        let (salt, hash) = (encode(&salt), encode(&hash));
        Some(format!("$argon2id$v=19$m={memory_kib},t={passes},p={lanes}${salt}${hash}"))
    }

    /// A hash that no password has, whose verification takes as long as that of the costliest of `others`.
    #[must_use]
    pub fn stand_in<'a>(others: impl Iterator<Item = &'a Self>) -> Self {
        let work = |cost: &Cost| u64::from(cost.memory_kib).saturating_mul(cost.passes.into());
        let cost = others.map(|other| other.cost).max_by_key(work).unwrap_or(COST);
        Self { cost, salt: vec![0; SALT_BYTES], hash: Vec::new() }
    }

    /// A text that differs for each hash.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let Self { cost: Cost { memory_kib, passes, lanes }, salt, hash } = self;
        let encode = |bytes: &[u8]| BASE64_STANDARD_NO_PAD.encode(bytes);
        format!("{memory_kib} {passes} {lanes} {} {}", encode(salt), encode(hash))
    }

    /// Whether `password` has this hash, compared in constant time. Also false if there is not enough memory.
    #[must_use]
    pub fn verify(&self, password: &[u8]) -> bool {
        // A stand-in has no hash.
        let length = if self.hash.is_empty() { HASH_BYTES } else { self.hash.len() };
        let computed = compute(password, &self.salt, self.cost, length);
        computed.is_some_and(|hash| verify_slices_are_equal(&hash, &self.hash).is_ok())
    }
}

impl std::fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PasswordHash(..)")
    }
}

fn compute(password: &[u8], salt: &[u8], cost: Cost, length: usize) -> Option<Vec<u8>> {
    let params = Params::new(cost.memory_kib, cost.passes, cost.lanes, Some(length)).ok()?;
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let mut hash = vec![0; length];
    argon2.hash_password_into(password, salt, &mut hash).ok()?;
    Some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hash in PHC format up to the hash itself.
    const SMALL: &str = "$argon2id$v=19$m=64,t=2,p=1$c2FsdHNhbHQ$";

    #[test]
    fn a_password_is_verified_by_its_hash() {
        let made = PasswordHash::create(b"secret", [7; SALT_BYTES]).unwrap();
        let hash = PasswordHash::parse(&made).unwrap();
        assert!(hash.verify(b"secret") && !hash.verify(b"Secret") && !hash.verify(b""));
        let stand_in = PasswordHash::stand_in([&hash].into_iter());
        assert!(!stand_in.verify(b"") && !stand_in.verify(b"secret"));
        assert_eq!(stand_in.cost, hash.cost);
        assert_eq!(format!("{hash:?}"), "PasswordHash(..)");
    }

    #[test]
    fn the_length_of_a_hash_is_its_own() {
        let short = PasswordHash { hash: vec![0; 16], ..PasswordHash::parse(&sample()).unwrap() };
        let hash = compute(b"secret", &short.salt, short.cost, 16).unwrap();
        assert!(PasswordHash { hash, ..short }.verify(b"secret"));
    }

    #[test]
    fn a_stand_in_costs_as_much_as_the_costliest() {
        let of = |memory_kib, passes| {
            let cost = Cost { memory_kib, passes, lanes: 1 };
            PasswordHash { cost, ..PasswordHash::parse(&sample()).unwrap() }
        };
        let (large, slow) = (of(65_536, 1), of(19_456, 10));
        assert_eq!(PasswordHash::stand_in([&slow, &large].into_iter()).cost, slow.cost);
    }

    fn sample() -> String {
        format!("{SMALL}{}", "A".repeat(32))
    }

    #[test]
    fn hashes_of_other_kinds_and_of_unlimited_cost_are_rejected() {
        let hash = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
        assert!(PasswordHash::parse(&format!("{SMALL}{hash}")).is_some());
        for (from, to) in [
            ("m=64", "m=1000000"),
            ("m=64", "m=7"),
            ("m=64", "m=+64"),
            ("t=2", "t=0"),
            ("t=2", "t=1000"),
            ("p=1", "p=64"),
            ("p=1", "p=1,x=1"),
            ("argon2id", "argon2i"),
            ("v=19", "v=16"),
            ("c2FsdHNhbHQ", "c2Fs"),
            ("c2FsdHNhbHQ", "*"),
        ] {
            let text = format!("{SMALL}{hash}").replace(from, to);
            assert!(PasswordHash::parse(&text).is_none(), "{text}");
        }
        for text in ["", "secret", SMALL, "$argon2id$v=19$m=64,t=2,p=1$c2FsdHNhbHQ"] {
            assert!(PasswordHash::parse(text).is_none(), "{text}");
        }
    }
}
