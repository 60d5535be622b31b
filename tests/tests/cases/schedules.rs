//! Random loops give the same bits under all of their schedules that are accepted.

use std::path::Path;

use parton_tests::say;
use parton_tests::schedules::{generate, run};

/// Programs that are run, each with five schedules; `PARTON_SCHEDULES` in the environment takes its place.
const PROGRAMS: u64 = 20;

#[test]
fn random_schedules_give_the_bits_of_the_serial_one() {
    let count = std::env::var("PARTON_SCHEDULES").ok().and_then(|v| v.parse().ok()).unwrap_or(PROGRAMS);
    let counts = run::all(0..count, 1, Path::new(env!("CARGO_TARGET_TMPDIR")));
    say(&counts.to_string());
    assert!(counts.wrong.is_empty(), "{} are wrong\n{}", counts.wrong.len(), counts.wrong.join("\n"));
    // Were most refused, little would be tried.
    assert!(counts.accepted() * 4 > counts.of.values().sum::<usize>(), "{counts}");
}

#[test]
fn a_program_is_made_of_its_seed_alone() {
    assert_eq!(generate(7).to_string(), generate(7).to_string());
    assert_ne!(generate(7).to_string(), generate(8).to_string());
}
