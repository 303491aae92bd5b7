//! A budget for frames that make the gateway work and carry nothing: PING, SETTINGS, WINDOW_UPDATE, PRIORITY,
//! RST_STREAM, CONTINUATION, empty DATA, and unknown types. Each costs one; payload in either direction earns some, since
//! clients acknowledge it by such frames, and so does time. A client that uses it up is disconnected.
//!
//! Sources: CVE-2019-9512 (ping flood), CVE-2019-9515 (settings flood), CVE-2019-9518 (empty frames flood),
//! CVE-2024-27316 (continuation flood).

use base::limits::{
    H2_CONTROL_FRAMES_MAX, H2_CONTROL_FRAMES_PER_RECEIVED, H2_CONTROL_FRAMES_PER_S,
    H2_CONTROL_FRAMES_PER_SENT,
};

/// What is left of a connection's budget.
#[derive(Debug)]
pub(super) struct FrameBudget {
    left: u32,
    /// The time of the last refill, in microseconds.
    refilled_us: u64,
}

impl FrameBudget {
    pub(super) const fn new() -> Self {
        Self { left: H2_CONTROL_FRAMES_MAX, refilled_us: 0 }
    }

    /// Whether the client has used it up.
    pub(super) const fn is_exhausted(&self) -> bool {
        self.left == 0
    }

    /// A piece of a response was sent, with `bytes` of payload. Clients send up to two WINDOW_UPDATEs for every 4 KiB that
    /// they read (Go's `net/http`), and gRPC clients a PING for each piece.
    pub(super) fn earn_sent(&mut self, bytes: usize) {
        let pages = u32::try_from(bytes / 4_096).unwrap_or(u32::MAX);
        self.earn(H2_CONTROL_FRAMES_PER_SENT.saturating_add(pages.saturating_mul(2)));
    }

    /// A DATA frame with payload was received.
    pub(super) fn earn_received(&mut self) {
        self.earn(H2_CONTROL_FRAMES_PER_RECEIVED);
    }

    /// Adds what the time since the last call earns. `now_us`: a monotonic time in microseconds.
    pub(super) fn refill(&mut self, now_us: u64) {
        let waited_us = now_us.saturating_sub(self.refilled_us);
        let earned = waited_us.saturating_mul(u64::from(H2_CONTROL_FRAMES_PER_S)) / 1_000_000;
        if earned > 0 && !self.is_exhausted() {
            self.refilled_us = now_us;
            self.earn(u32::try_from(earned).unwrap_or(u32::MAX));
        }
    }

    /// A frame that carries nothing was received.
    pub(super) fn spend(&mut self) {
        self.left = self.left.saturating_sub(1);
    }

    fn earn(&mut self, frames: u32) {
        if self.left > 0 {
            self.left = self.left.saturating_add(frames).min(H2_CONTROL_FRAMES_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_up_is_not_earned_again() {
        let mut budget = FrameBudget::new();
        (0..H2_CONTROL_FRAMES_MAX).for_each(|_| budget.spend());
        assert!(budget.is_exhausted());
        budget.earn_sent(100_000);
        budget.earn_received();
        budget.refill(u64::MAX);
        assert!(budget.is_exhausted());
    }

    #[test]
    fn time_and_payload_earn_up_to_the_maximum() {
        let mut budget = FrameBudget::new();
        (1..H2_CONTROL_FRAMES_MAX).for_each(|_| budget.spend());
        budget.refill(1_000_000);
        budget.earn_sent(0);
        budget.earn_sent(8_192);
        budget.earn_received();
        let sent = 2 * H2_CONTROL_FRAMES_PER_SENT + 4;
        assert_eq!(
            budget.left,
            1 + H2_CONTROL_FRAMES_PER_S + sent + H2_CONTROL_FRAMES_PER_RECEIVED
        );
        budget.refill(u64::MAX);
        assert_eq!(budget.left, H2_CONTROL_FRAMES_MAX);
    }
}
