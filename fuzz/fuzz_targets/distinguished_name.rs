#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| wire::tls::properties::distinguished_name(data));
