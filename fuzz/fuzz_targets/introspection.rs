#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| jose::properties::introspection(data));
