#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| wire::h2::properties::client(data));
