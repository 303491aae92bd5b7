#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| xslt::properties::compiled_or_rejected(data));
