#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sluice_fuzz_targets::run("small_parsers", bytes));
