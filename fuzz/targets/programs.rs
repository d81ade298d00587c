#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| byteway_fuzz::programs::run(bytes));
