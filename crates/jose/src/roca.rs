//! Detects RSA moduli affected by CVE-2017-15361 ("ROCA").
//!
//! The affected library generates primes `k * M + 65537^a mod M`, with M the product of the first primes, so the
//! modulus is a power of 65537 modulo every small prime; about one in 2^27 of the other moduli is too. Source: Nemec
//! and others, "The Return of Coppersmith's Attack", ACM CCS 2017, section 3.

/// The odd primes that divide M for keys of 2048 bits and fewer; larger keys use more, and so match too.
const PRIMES: [u32; 38] = [
    3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97,
    101, 103, 107, 109, 113, 127, 131, 137, 139, 149, 151, 157, 163, 167,
];

/// Whether the private key can be computed from `modulus` (big endian) with moderate effort.
pub(crate) fn is_weak(modulus: &[u8]) -> bool {
    PRIMES.iter().all(|&prime| is_power_of_65537(remainder(modulus, prime), prime))
}

fn remainder(modulus: &[u8], prime: u32) -> u32 {
    modulus.iter().fold(0, |high, &byte| times_plus(high, 256, u32::from(byte), prime))
}

/// Iterates over the powers of 65537 modulo `prime`; there are fewer than `prime`.
fn is_power_of_65537(residue: u32, prime: u32) -> bool {
    let mut power = 1;
    for _ in 0..prime {
        if power == residue {
            return true;
        }
        power = times_plus(power, 65_537, 0, prime);
    }
    false
}

/// `value * factor + addend` modulo `prime`. Doesn't overflow, as `value` is below 168.
fn times_plus(value: u32, factor: u32, addend: u32, prime: u32) -> u32 {
    value.wrapping_mul(factor).wrapping_add(addend).checked_rem(prime).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_power_of_65537_is_weak_and_its_neighbour_is_not() {
        // 65537^3 has the property by construction, despite its small size.
        let cube = 65_537_u64.pow(3);
        assert!(is_weak(&cube.to_be_bytes()));
        assert!(!is_weak(&(cube + 2).to_be_bytes()));
        assert!(!is_weak(&[]));
    }
}
