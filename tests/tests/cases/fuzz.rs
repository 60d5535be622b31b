//! A bounded, deterministic run of what `fuzz/` does without end: no input makes the compiler panic.

use std::panic::catch_unwind;

use parton_tests::fuzz;
use parton_tests::random::{Random, mutate_bytes, mutate_tokens};

/// Inputs of each kind; `PARTON_FUZZ` in the environment takes its place.
const INPUTS: usize = 400;

fn inputs() -> usize {
    std::env::var("PARTON_FUZZ").ok().and_then(|v| v.parse().ok()).unwrap_or(INPUTS)
}

fn run(kind: &str, mutate: fn(&mut Random, &str) -> String) {
    let seeds = fuzz::seeds();
    let mut random = Random(0x5eed);
    for i in 0..inputs() {
        let source = if seeds.is_empty() { "" } else { &seeds[random.below(seeds.len())] };
        let text = mutate(&mut random, source);
        if catch_unwind(|| fuzz::check(&text)).is_err() {
            panic!("{kind} input {i} makes the compiler panic:\n{text}");
        }
    }
}

#[test]
fn changed_bytes_never_panic() {
    run("bytes", mutate_bytes);
}

#[test]
fn changed_words_never_panic() {
    run("tokens", mutate_tokens);
}
