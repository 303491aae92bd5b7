//! A budget for frames that make the gateway work and carry nothing: PING, SETTINGS, WINDOW_UPDATE, PRIORITY,
//! RST_STREAM, CONTINUATION, empty DATA, and unknown types. Each costs one; payload in either direction earns some, since
//! clients acknowledge it by such frames, and so does time. A client that uses it up is disconnected.
//!
//! The h2 crate processes these frames itself, without a limit for most. So their headers are read here, as the bytes
//! pass. Sources: CVE-2019-9512 (ping flood), CVE-2019-9515 (settings flood), CVE-2019-9518 (empty frames flood),
//! CVE-2024-27316 (continuation flood).

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use base::limits::{
    H2_CONTROL_FRAMES_MAX, H2_CONTROL_FRAMES_PER_RECEIVED, H2_CONTROL_FRAMES_PER_S,
    H2_CONTROL_FRAMES_PER_SENT,
};

/// What is left of a connection's budget. Shared, because the h2 crate owns the stream; only one thread uses it.
#[derive(Debug)]
pub struct FrameBudget {
    left: AtomicU32,
    /// The time of the last refill, in microseconds.
    refilled_us: AtomicU64,
    /// The connection is being closed: no more is read.
    closed: AtomicBool,
}

impl Default for FrameBudget {
    fn default() -> Self {
        Self {
            left: AtomicU32::new(H2_CONTROL_FRAMES_MAX),
            refilled_us: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        }
    }
}

impl FrameBudget {
    /// Whether the client has used it up.
    pub fn is_exhausted(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0
    }

    /// A piece of a response was sent, with `bytes` of payload. Clients send up to two WINDOW_UPDATEs for every 4 KiB that
    /// they read (Go's `net/http`), and gRPC clients a PING for each piece.
    pub fn earn_sent(&self, bytes: usize) {
        let pages = u32::try_from(bytes / 4_096).unwrap_or(u32::MAX);
        self.earn(H2_CONTROL_FRAMES_PER_SENT.saturating_add(pages.saturating_mul(2)));
    }

    /// Adds what the time since the last call earns. `now_us`: a monotonic time in microseconds.
    pub fn refill(&self, now_us: u64) {
        let waited_us = now_us.saturating_sub(self.refilled_us.load(Ordering::Relaxed));
        let earned = waited_us.saturating_mul(u64::from(H2_CONTROL_FRAMES_PER_S)) / 1_000_000;
        if earned > 0 && !self.is_exhausted() {
            self.refilled_us.store(now_us, Ordering::Relaxed);
            self.earn(u32::try_from(earned).unwrap_or(u32::MAX));
        }
    }

    /// From now on nothing is read.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    fn earn(&self, frames: u32) {
        let left = self.left.load(Ordering::Relaxed);
        if left > 0 {
            let left = left.saturating_add(frames).min(H2_CONTROL_FRAMES_MAX);
            self.left.store(left, Ordering::Relaxed);
        }
    }

    fn spend(&self) {
        let left = self.left.load(Ordering::Relaxed);
        self.left.store(left.saturating_sub(1), Ordering::Relaxed);
    }
}

const PREFACE_BYTES: usize = super::PREFACE.len();
const HEADER_BYTES: usize = 9;

/// Finds the frame headers in what a client sends, however it is split.
#[derive(Debug)]
pub(super) struct FrameScanner {
    /// Bytes before the next header: the preface, or a payload.
    skip: usize,
    header: [u8; HEADER_BYTES],
    /// Bytes of `header` that were read.
    filled: usize,
}

impl Default for FrameScanner {
    fn default() -> Self {
        Self { skip: PREFACE_BYTES, header: [0; HEADER_BYTES], filled: 0 }
    }
}

impl FrameScanner {
    /// Charges the frames whose headers end in `bytes`, the next ones of the connection.
    pub(super) fn scan(&mut self, bytes: &[u8], budget: &FrameBudget) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let skipped = self.skip.min(rest.len());
            self.skip -= skipped;
            rest = rest.get(skipped..).unwrap_or_default();
            let missing = self.header.get_mut(self.filled..).unwrap_or_default();
            let taken = missing.len().min(rest.len());
            if let (Some(missing), Some(next)) = (missing.get_mut(..taken), rest.get(..taken)) {
                missing.copy_from_slice(next);
            }
            self.filled += taken;
            rest = rest.get(taken..).unwrap_or_default();
            if self.filled == HEADER_BYTES {
                self.filled = 0;
                let [high, middle, low, kind, flags, ..] = self.header;
                self.skip = u32::from_be_bytes([0, high, middle, low]) as usize;
                charge(kind, flags, self.skip, budget);
            }
        }
    }
}

/// Source: RFC 9113 section 6.
fn charge(kind: u8, flags: u8, len: usize, budget: &FrameBudget) {
    const DATA: u8 = 0;
    const HEADERS: u8 = 1;
    const END_STREAM: u8 = 0x1;
    const PADDED: u8 = 0x8;
    /// A length byte and padding.
    const PADDING_BYTES_MAX: usize = 256;
    let padding = if flags & PADDED == 0 { 0 } else { PADDING_BYTES_MAX };
    match kind {
        HEADERS => {}
        DATA if len > padding => budget.earn(H2_CONTROL_FRAMES_PER_RECEIVED),
        DATA if flags & END_STREAM != 0 => {}
        _ => budget.spend(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, payload: usize) -> Vec<u8> {
        let len = u32::try_from(payload).unwrap().to_be_bytes();
        let mut bytes = vec![len[1], len[2], len[3], kind, flags, 0, 0, 0, 1];
        bytes.resize(HEADER_BYTES + payload, 7);
        bytes
    }

    /// What is left after the preface and `frames`, read in pieces of `size` bytes.
    fn left(frames: &[Vec<u8>], size: usize) -> u32 {
        let (budget, mut scanner) = (FrameBudget::default(), FrameScanner::default());
        let bytes = [super::super::PREFACE, &frames.concat()].concat();
        bytes.chunks(size).for_each(|piece| scanner.scan(piece, &budget));
        budget.left.load(Ordering::Relaxed)
    }

    #[test]
    fn control_frames_cost_and_payload_earns_however_the_bytes_are_split() {
        const PING: u8 = 6;
        let control = [2, 3, 4, PING, 7, 8, 9, 200].map(|kind| frame(kind, 0, 8));
        let empty = [frame(0, 0, 0), frame(0, 8, 100)];
        let free = [frame(1, 4, 50), frame(0, 1, 0)];
        let frames = [control.to_vec(), empty.to_vec(), free.to_vec()].concat();
        for size in [1, 2, 8, 9, 10, 33, 10_000] {
            assert_eq!(left(&frames, size), H2_CONTROL_FRAMES_MAX - 10, "{size}");
        }
        let earning = [frames, vec![frame(0, 0, 1), frame(0, 8, 257)]].concat();
        let earned = 2 * H2_CONTROL_FRAMES_PER_RECEIVED;
        assert_eq!(left(&earning, 7), H2_CONTROL_FRAMES_MAX - 10 + earned);
    }

    #[test]
    fn what_is_used_up_is_not_earned_again() {
        let budget = FrameBudget::default();
        (0..H2_CONTROL_FRAMES_MAX).for_each(|_| budget.spend());
        assert!(budget.is_exhausted());
        budget.earn_sent(100_000);
        budget.refill(u64::MAX);
        assert!(budget.is_exhausted());
    }

    #[test]
    fn time_and_sent_payload_earn_up_to_the_maximum() {
        let budget = FrameBudget::default();
        (1..H2_CONTROL_FRAMES_MAX).for_each(|_| budget.spend());
        budget.refill(1_000_000);
        budget.earn_sent(0);
        budget.earn_sent(8_192);
        let left = 1 + H2_CONTROL_FRAMES_PER_S + 2 * H2_CONTROL_FRAMES_PER_SENT + 4;
        assert_eq!(budget.left.load(Ordering::Relaxed), left);
        budget.refill(u64::MAX);
        assert_eq!(budget.left.load(Ordering::Relaxed), H2_CONTROL_FRAMES_MAX);
    }
}
