//! Logs that real JVMs wrote (Debian's OpenJDK 17.0.15, Temurin 25), `-Xmx48m -Xlog:gc*`, of a program
//! that churns through arrays and asks for three collections; statistics and task lines taken out where
//! they were most of the file. Expected figures: grep and awk over the same files.

use super::*;

type Log = (&'static str, &'static str, u64, f64, f64, (f64, f64), u64, &'static [f64]);

/// Log, collector, pauses, their sum and the longest in milliseconds, first and last uptime in seconds,
/// heap in MiB, heap after full collections in MiB.
#[rustfmt::skip]
const LOGS: &[Log] = &[
    (include_str!("../../testdata/gc/jdk17-serial.log"),     "Serial",     15, 40.376,  20.132, (0.003, 0.422), 46, &[3.0, 5.0, 5.0]),
    (include_str!("../../testdata/gc/jdk17-parallel.log"),   "Parallel",   23, 118.648, 17.766, (0.003, 0.376), 46, &[3.0, 4.0, 5.0]),
    (include_str!("../../testdata/gc/jdk17-g1.log"),         "G1",         10, 71.262,  17.683, (0.003, 0.352), 48, &[4.0, 5.0, 6.0]),
    (include_str!("../../testdata/gc/jdk17-z.log"),          "ZGC",        6,  0.049,   0.012,  (0.003, 0.365), 48, &[6.0, 4.0]),
    (include_str!("../../testdata/gc/jdk17-shenandoah.log"), "Shenandoah", 24, 0.607,   0.059,  (0.001, 0.683), 48, &[]),
    (include_str!("../../testdata/gc/jdk25-serial.log"),     "Serial",     15, 60.104,  18.534, (0.057, 0.456), 46, &[4.0, 6.0, 6.0]),
    (include_str!("../../testdata/gc/jdk25-parallel.log"),   "Parallel",   19, 108.371, 19.977, (0.003, 0.324), 46, &[4.0, 5.0, 6.0]),
    (include_str!("../../testdata/gc/jdk25-g1.log"),         "G1",         10, 60.369,  17.641, (0.003, 0.309), 48, &[4.0, 5.0, 6.0]),
    (include_str!("../../testdata/gc/jdk25-z.log"),          "ZGC",        35, 0.306,   0.023,  (0.019, 0.221), 48, &[14.0, 18.0, 14.0, 6.0]),
    (include_str!("../../testdata/gc/jdk25-shenandoah.log"), "Shenandoah", 20, 0.680,   0.082,  (0.002, 0.254), 48, &[]),
];

const MIB: f64 = 1_048_576.0;

#[test]
fn logs_of_real_jvms_are_summed_up() {
    for &(text, collector, pauses, total_ms, max_ms, (first_s, last_s), heap, after) in LOGS {
        let found = parse(text).unwrap_or_else(|error| panic!("{collector}: {error}"));
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-6, "{collector}: {a}, not {b}");
        assert_eq!((found.collector.as_str(), found.pauses), (collector, pauses));
        near(found.pause_total_ms, total_ms);
        near(found.pause_max_ms, max_ms);
        let span_ms = (last_s - first_s) * 1_000.0;
        near(found.throughput_percent, (1.0 - total_ms / span_ms) * 100.0);
        assert_eq!(found.footprint_bytes, heap << 20, "{collector}");
        assert_eq!(found.full_collections, after.len() as u64, "{collector}");
        let mean = (!after.is_empty()).then(|| after.iter().sum::<f64>() / after.len() as f64);
        let told = found.footprint_after_full_mean_bytes.map(|bytes| bytes / MIB);
        near(told.unwrap_or(-1.0), mean.unwrap_or(-1.0));
    }
}

#[test]
fn what_is_no_such_log_is_refused_with_what_to_write() {
    for text in ["", "{Heap before GC invocations=1 (full 0):\n", "[0.1s][info][gc] hello\n"] {
        let refusal = parse(text).expect_err("it was taken");
        assert!(refusal.contains("-Xlog:gc*"), "{refusal}");
    }
}

#[test]
fn a_log_without_pauses_is_all_throughput() {
    let text = "[3ms][info][gc] Using G1\n[2003ms][info][gc] end\n";
    let found = parse(text).map(|gc| (gc.throughput_percent, gc.full_collections));
    assert_eq!(found, Ok((100.0, 0)));
}
