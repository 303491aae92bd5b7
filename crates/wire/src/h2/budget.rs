//! Budgets for frames that cause work but carry no payload. A client that exhausts one is disconnected. Budgets refill
//! over time, so that a long connection may send many such frames, but not at once.
//!
//! Control frames (PING, SETTINGS, WINDOW_UPDATE, PRIORITY, RST_STREAM, CONTINUATION, empty DATA, unknown types, and
//! HEADERS that open no stream) cost one each; payload in either direction earns some, since clients acknowledge it by
//! such frames, but payload of closed streams earns none. Sources: CVE-2019-9512 (ping flood), CVE-2019-9515 (settings
//! flood), CVE-2019-9518 (empty frames flood), CVE-2024-27316 (continuation flood).
//!
//! All kinds share one budget. This is at least as strict as a budget of the same size for each kind: a client may send
//! as many frames of all kinds together as of a single kind. It is not stricter for honest clients, because the payload
//! that they exchange earns the cost of all kinds.
//!
//! Streams that are reset because of the client's errors cost one each. Source: CVE-2025-8671 ("made you reset").

use base::limits::{
    H2_CONTROL_FRAMES_MAX, H2_CONTROL_FRAMES_PER_RECEIVED, H2_CONTROL_FRAMES_PER_S,
    H2_CONTROL_FRAMES_PER_SENT, H2_ERROR_RESETS_MAX, H2_ERROR_RESETS_PER_S,
};

/// The remaining budget of a connection.
#[derive(Debug)]
pub(super) struct Budget {
    left: u32,
    max: u32,
    per_s: u32,
    /// The time of the last refill, in microseconds.
    refilled_us: u64,
}

impl Budget {
    pub(super) const fn of_control_frames() -> Self {
        Self::new(H2_CONTROL_FRAMES_MAX, H2_CONTROL_FRAMES_PER_S)
    }

    pub(super) const fn of_error_resets() -> Self {
        // The last error is one too many.
        Self::new(H2_ERROR_RESETS_MAX + 1, H2_ERROR_RESETS_PER_S)
    }

    const fn new(max: u32, per_s: u32) -> Self {
        Self { left: max, max, per_s, refilled_us: 0 }
    }

    /// Whether the client has exhausted the budget.
    pub(super) const fn is_exhausted(&self) -> bool {
        self.left == 0
    }

    /// A piece of a response was sent, with `bytes` of payload. Clients send up to two WINDOW_UPDATEs for every 4 KiB
    /// that they read (Go's `net/http`), and gRPC clients a PING for each piece.
    pub(super) fn earn_sent(&mut self, bytes: usize) {
        let pages = u32::try_from(bytes / 4_096).unwrap_or(u32::MAX);
        self.earn(H2_CONTROL_FRAMES_PER_SENT.saturating_add(pages.saturating_mul(2)));
    }

    /// A DATA frame with payload was received for an open stream.
    pub(super) fn earn_received(&mut self) {
        self.earn(H2_CONTROL_FRAMES_PER_RECEIVED);
    }

    /// Refills the budget for the time since the last call. `now_us` is a monotonic time in microseconds.
    pub(super) fn refill(&mut self, now_us: u64) {
        let waited_us = now_us.saturating_sub(self.refilled_us);
        let earned = waited_us.saturating_mul(u64::from(self.per_s)) / 1_000_000;
        if earned > 0 && !self.is_exhausted() {
            self.refilled_us = now_us;
            self.earn(u32::try_from(earned).unwrap_or(u32::MAX));
        }
    }

    /// Charges a received frame that carries no payload.
    pub(super) fn spend(&mut self) {
        self.left = self.left.saturating_sub(1);
    }

    fn earn(&mut self, count: u32) {
        if self.left > 0 {
            self.left = self.left.saturating_add(count).min(self.max);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_up_is_not_earned_again() {
        let mut budget = Budget::of_control_frames();
        (0..H2_CONTROL_FRAMES_MAX).for_each(|_| budget.spend());
        assert!(budget.is_exhausted());
        budget.earn_sent(100_000);
        budget.earn_received();
        budget.refill(u64::MAX);
        assert!(budget.is_exhausted());
    }

    #[test]
    fn time_and_payload_earn_up_to_the_maximum() {
        let mut budget = Budget::of_control_frames();
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

    #[test]
    fn errors_at_a_low_rate_are_allowed_for_ever() {
        let mut budget = Budget::of_error_resets();
        for second in 0..10_000 {
            budget.refill(second * 1_000_000);
            (0..H2_ERROR_RESETS_PER_S).for_each(|_| budget.spend());
        }
        assert!(!budget.is_exhausted());
        budget.refill(u64::MAX);
        (0..H2_ERROR_RESETS_MAX).for_each(|_| budget.spend());
        assert!(!budget.is_exhausted());
        budget.spend();
        assert!(budget.is_exhausted());
    }
}
