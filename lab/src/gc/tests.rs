//! Logs of real JVMs running programs that churn through arrays, keep some of them, and request three full
//! collections, with a heap of 48 MiB: Debian's OpenJDK 17.0.15 and Temurin 25 with `-Xlog:gc*`, Debian's
//! OpenJDK 8u504 with `-Xloggc`. Statistics and task lines were removed from long unified logs. Expected
//! values for unified logs: grep and awk on the same files.

use super::*;

const MIB: f64 = 1_048_576.0;
const KIB: f64 = 1_024.0;

type Unified = (&'static str, &'static str, u64, f64, f64, (f64, f64), u64, &'static [f64]);

/// Log, collector, pauses, their sum and maximum in milliseconds, uptime of the first and last line of a
/// collection in seconds, heap in MiB, heap after full collections in MiB.
#[rustfmt::skip]
const UNIFIED: &[Unified] = &[
    (include_str!("../../testdata/gc/jdk17-serial.log"),     "Serial",     15, 40.376,  20.132, (0.187, 0.422), 46, &[3.0, 5.0, 5.0]),
    (include_str!("../../testdata/gc/jdk17-parallel.log"),   "Parallel",   23, 118.648, 17.766, (0.133, 0.375), 46, &[3.0, 4.0, 5.0]),
    (include_str!("../../testdata/gc/jdk17-g1.log"),         "G1",         10, 71.262,  17.683, (0.109, 0.344), 48, &[4.0, 5.0, 6.0]),
    (include_str!("../../testdata/gc/jdk17-z.log"),          "ZGC",        6,  0.049,   0.012,  (0.335, 0.361), 48, &[6.0, 4.0]),
    (include_str!("../../testdata/gc/jdk17-shenandoah.log"), "Shenandoah", 24, 0.607,   0.059,  (0.251, 0.682), 48, &[]),
    (include_str!("../../testdata/gc/jdk25-serial.log"),     "Serial",     15, 60.104,  18.534, (0.238, 0.445), 46, &[4.0, 6.0, 6.0]),
    (include_str!("../../testdata/gc/jdk25-parallel.log"),   "Parallel",   19, 108.371, 19.977, (0.096, 0.319), 46, &[4.0, 5.0, 6.0]),
    (include_str!("../../testdata/gc/jdk25-g1.log"),         "G1",         10, 60.369,  17.641, (0.208, 0.306), 48, &[4.0, 5.0, 6.0]),
    (include_str!("../../testdata/gc/jdk25-z.log"),          "ZGC",        35, 0.306,   0.023,  (0.164, 0.220), 48, &[14.0, 18.0, 14.0, 6.0]),
    (include_str!("../../testdata/gc/jdk25-shenandoah.log"), "Shenandoah", 20, 0.680,   0.082,  (0.173, 0.252), 48, &[]),
];

#[test]
fn unified_logs_of_real_jvms_are_summarised() {
    for &(text, collector, pauses, total_ms, max_ms, (first_s, last_s), heap, after) in UNIFIED {
        let found = parse(text).unwrap_or_else(|error| panic!("{collector}: {error}"));
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-6, "{collector}: {a}, not {b}");
        assert_eq!((found.collector.as_str(), found.pauses), (collector, pauses));
        near(found.pause_total_ms, total_ms);
        near(found.pause_max_ms, max_ms);
        let span_ms = (last_s - first_s) * 1_000.0;
        // The first pause may have started up to a millisecond before its line was written.
        let throughput = |span_ms: f64| (1.0 - total_ms / span_ms) * 100.0 - 1e-6;
        let bounds = throughput(span_ms)..throughput(span_ms + 1.0) + 2e-6;
        assert!(bounds.contains(&found.throughput_percent), "{collector}: {found:?}, {bounds:?}");
        assert_eq!(found.footprint_bytes, heap << 20, "{collector}");
        assert_eq!(found.full_collections, after.len() as u64, "{collector}");
        let mean = (!after.is_empty()).then(|| after.iter().sum::<f64>() / after.len() as f64);
        let mean_mib = found.footprint_after_full_mean_bytes.map(|bytes| bytes / MIB);
        near(mean_mib.unwrap_or(-1.0), mean.unwrap_or(-1.0));
    }
}

type Older = (&'static str, &'static str, u64, u64, f64, f64, f64, f64, f64);

/// Log and collector; then the output of GCViewer 1.36 for the same file: pauses, full collections, longest
/// pause in seconds, footprint in MiB, footprint after full collections in KiB and its deviation, throughput
/// in percent. For `everything`, the lines on stopped threads were removed first, since GCViewer counts them
/// as pauses.
#[rustfmt::skip]
const OLDER: &[Older] = &[
    (include_str!("../../testdata/gc/jdk8-serial.log"),        "Serial",   24, 6, 0.04138, 46.438, 28.113 * KIB, 8_143.611, 53.77),
    (include_str!("../../testdata/gc/jdk8-parallel.log"),      "Parallel", 41, 5, 0.14800, 46.0,   22.935 * KIB, 5_523.095, 43.25),
    (include_str!("../../testdata/gc/jdk8-cms.log"),           "CMS",      28, 6, 0.02823, 46.438, 28.099 * KIB, 8_122.075, 54.92),
    (include_str!("../../testdata/gc/jdk8-g1-plain.log"),      "G1",       47, 3, 0.04775, 48.0,   23.257 * KIB, 8_955.054, 58.74),
    (include_str!("../../testdata/gc/jdk8-g1-everything.log"), "G1",       5,  3, 0.00724, 48.0,   5_638.0,      2_682.000, 64.03),
];

#[test]
fn jdk8_logs_give_the_same_figures_as_gcviewer() {
    for &(text, collector, pauses, full, max_s, heap, mean, sd, throughput) in OLDER {
        let found = parse(text).unwrap_or_else(|error| panic!("{collector}: {error}"));
        let near = |what: &str, a: f64, b: f64, half_a_digit: f64| {
            assert!((a - b).abs() <= half_a_digit * 1.001, "{collector}, {what}: {a}, not {b}");
        };
        assert_eq!((found.collector.as_str(), found.pauses), (collector, pauses));
        assert_eq!(found.full_collections, full, "{collector}");
        near("longest", found.pause_max_ms / 1_000.0, max_s, 0.000_005);
        near("footprint", found.footprint_bytes as f64 / MIB, heap, 0.000_5);
        let after = found.footprint_after_full_mean_bytes.unwrap_or(-1.0) / KIB;
        near("after full", after, mean, 0.000_5 * KIB);
        let found_sd = found.footprint_after_full_sd_bytes.unwrap_or(-1.0) / KIB;
        // GCViewer rounds G1's tenths of KiB to whole ones.
        near("its sd", found_sd, sd, if sd.fract() == 0.0 { 0.5 } else { 0.000_5 });
        near("throughput", found.throughput_percent, throughput, 0.005);
    }
}

#[test]
fn a_pause_split_by_concurrent_lines_is_counted() {
    // GCViewer 1.36 skips this pause: it reports 41 pauses, 240.257 ms. This log has dates only.
    let text = include_str!("../../testdata/gc/jdk8-g1.log");
    let found = parse(text).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((found.collector.as_str(), found.pauses, found.full_collections), ("G1", 42, 3));
    assert!((found.pause_total_ms - (240.256_6 + 7.194_9)).abs() < 1e-6, "{found:?}");
    // From 10:53:23.135 to 10:53:23.609, plus the last pause of 50.0697 ms.
    let paused = found.pause_total_ms / SPAN_MS;
    assert!((found.throughput_percent - (1.0 - paused) * 100.0).abs() < 1e-6, "{found:?}");
}

const SPAN_MS: f64 = 474.0 + 50.069_7;

#[test]
fn other_files_are_rejected_with_the_flags_to_use() {
    for text in [
        "",
        "{Heap before GC invocations=1 (full 0):\n",
        "[0.1s][info][gc] hello\n",
        "0.1: [GC (Allocation Failure)  1K->1K(1K), 0.1 secs]\n",
        "CommandLine flags: -XX:+UseG1GC \n",
        "]]]][[[[",
    ] {
        let error = parse(text).expect_err("it was accepted");
        assert!(error.contains("-Xlog:gc*") && error.contains("-Xloggc"), "{error}");
    }
}

#[test]
fn truncated_lines_do_not_affect_others() {
    let flags = "CommandLine flags: -XX:+UseSerialGC \n";
    let whole = "1.0: [GC (Allocation Failure)  9K->1K(10K), 0.5 secs]\n";
    let cut = "0.5: [GC (Allocation Failure) 0.5: [DefNew: 13184K->8\n";
    let deep = "[".repeat(10_000);
    for text in [format!("{flags}{cut}{whole}{cut}"), format!("{flags}{deep}\n{whole}{deep}")] {
        let found = parse(&text).map(|gc| (gc.pauses, gc.pause_total_ms, gc.footprint_bytes));
        assert_eq!(found, Ok((1, 500.0, 10_240)));
    }
}

#[test]
fn a_log_without_pauses_has_full_throughput() {
    let text = "[3ms][info][gc] Using G1\n[5ms][info][gc] GC(0) Concurrent Mark Cycle\n";
    let found = parse(text).map(|gc| (gc.throughput_percent, gc.full_collections));
    assert_eq!(found, Ok((100.0, 0)));
}
