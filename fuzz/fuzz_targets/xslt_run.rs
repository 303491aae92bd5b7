#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| xslt::properties::runs(data));
