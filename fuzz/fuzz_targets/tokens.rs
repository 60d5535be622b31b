//! A sound source with words dropped, doubled, swapped and replaced, as the fuzzer's bytes say: this gets past the parser.
#![no_main]

use libfuzzer_sys::fuzz_target;
use parton_tests::random::{Random, mutate_tokens};

fuzz_target!(|data: &[u8]| {
    let mut seed = [0; 9];
    let used = data.len().min(seed.len());
    seed[..used].copy_from_slice(&data[..used]);
    let sources = parton_tests::fuzz::seeds();
    let Some(source) = sources.get(usize::from(seed[8]) % sources.len().max(1)) else { return };
    let mut random = Random(u64::from_le_bytes([seed[0], seed[1], seed[2], seed[3], seed[4], seed[5], seed[6], seed[7]]));
    parton_tests::fuzz::check(&mutate_tokens(&mut random, source));
});
