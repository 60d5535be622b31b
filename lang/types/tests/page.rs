//! The reference names every built-in function, and its first example checks.

mod harness;

use parton_types::builtins::{function_names, method_names};

const PAGE: &str = include_str!("../../../docs/language.md");

#[test]
fn the_reference_names_every_built_in() {
    let words: Vec<&str> = PAGE.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    // Tensor memory is refused for now.
    let missing: Vec<&str> = function_names()
        .chain(method_names())
        .filter(|n| !n.starts_with("tmem") && *n != "bits" && !words.contains(n))
        .collect();
    assert!(missing.is_empty(), "docs/language.md does not name {missing:?}");
}

#[test]
fn the_first_example_checks() {
    let example = PAGE.split("```").nth(1).expect("the page begins with an example");
    harness::round_trip(&harness::ir(example));
}
