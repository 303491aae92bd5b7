#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| wire::http1::properties::response_head(data));
