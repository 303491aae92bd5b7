//! Randomness as an argument. The only module of the workspace that may ask for it.

/// Where random bytes come from. Tests hand in a source whose bytes they know.
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
    /// When the operating system has no random bytes to give. Nothing that needs them can be safe then.
    fn fill(&self, bytes: &mut [u8]) {
        getrandom::fill(bytes).expect("the operating system always has random bytes once it is up");
    }
}
