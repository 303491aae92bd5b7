//! The cost of recording a latency in the load generator.

use std::hint::black_box;

use lab::load::Times;

/// One record: into the histogram, the sums, minimum and maximum. Latencies vary randomly from 1 us to 1 s,
/// so that no cache predicts them.
pub(crate) fn record_latency(times: usize) {
    let mut latencies = Times::new();
    let mut state = 1_u64;
    for _ in 0..times {
        // Knuth's linear congruential generator (MMIX); its high bits are the most random.
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        latencies.record(black_box(state >> 44));
    }
    black_box(latencies.latency());
}
