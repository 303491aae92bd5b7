//! Randomness as an argument. The only module of the workspace that calls the operating system's generator.

/// A source of random bytes. Tests use one with known bytes.
pub trait Entropy {
    /// Fills `bytes` with unpredictable bytes.
    fn fill(&self, bytes: &mut [u8]);

    /// Eight unpredictable bytes as a number.
    fn u64(&self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_ne_bytes(bytes)
    }
}

/// The operating system's generator.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    /// # Panics
    /// If the operating system can't provide random bytes.
    fn fill(&self, bytes: &mut [u8]) {
        getrandom::fill(bytes)
            .expect("the operating system provides random bytes once it has started");
    }
}
