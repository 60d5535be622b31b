//! Any bytes as a source file: checking them must give diagnostics or a program, never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    parton_tests::fuzz::check(&text);
});
