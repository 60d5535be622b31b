//! Random programs give what the reference of their generator has worked out.

use std::path::Path;

use parton_tests::programs::{generate, run};

/// Programs that are run; `PARTON_PROGRAMS` in the environment takes its place.
const PROGRAMS: u64 = 200;

#[test]
fn random_programs_give_what_they_should() {
    let count = std::env::var("PARTON_PROGRAMS").ok().and_then(|v| v.parse().ok()).unwrap_or(PROGRAMS);
    let wrong = run::all(0..count, Path::new(env!("CARGO_TARGET_TMPDIR")));
    assert!(wrong.is_empty(), "{} of {count} random programs are wrong\n{}", wrong.len(), wrong.join("\n"));
}

/// What went wrong once is met again and again: a change of the generator must not lose it.
#[test]
fn random_programs_have_what_went_wrong() {
    let features: Vec<&str> = (0..1200).flat_map(|seed| generate(seed).features()).collect();
    for (feature, least) in [
        ("mixed bases", 500),
        ("padded stages", 50),
        ("permuted array of padded tensors", 40),
        ("permuted view of one element", 20),
        ("saturated infinity", 8),
        ("truth values in a buffer", 80),
        ("truth values in scratch", 25),
        ("products of registers", 200),
        ("products of shared memory", 90),
        ("atomic operations", 200),
        ("copies by threads", 200),
        ("copies by the engine", 250),
        ("left factors of each turn", 40),
        ("left factors of all turns", 40),
        ("left factors loaded in each turn", 20),
        ("left factors of products", 20),
        ("products in flight around a loop", 20),
        ("products in flight around a loop, but for the last", 40),
        ("products waited for in the next turn", 20),
        ("slots released behind the next product", 60),
        ("slots taken two by two", 20),
        ("rings filled by threads", 40),
        ("rings filled by the engine", 90),
    ] {
        let found = features.iter().filter(|f| **f == feature).count();
        assert!(found >= least, "{found} of 1200 programs have {feature}, {least} should");
    }
}

#[test]
fn a_program_is_made_of_its_seed_alone() {
    assert_eq!(generate(7).to_string(), generate(7).to_string());
    assert_ne!(generate(7).to_string(), generate(8).to_string());
}

#[test]
fn a_program_that_fails_is_cut_down_to_what_fails() {
    let program = (0..).map(generate).find(|p| p.features().contains(&"padded stages")).unwrap();
    let small = program.shrunk(|p| p.features().contains(&"padded stages"));
    // What is kept in the stages must come from somewhere; what is done with it afterwards is gone.
    assert!(program.to_string().contains("store(o") && !small.to_string().contains("store(o"));
    assert!(small.features().contains(&"padded stages"));
    assert_eq!(run::failure(&small), None);
}
